/**
 * Mistakes in the definition of an agent: what the compiler says of them, and what Holdfast does.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { agent, type Holdfast, open } from "../../../src/index.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { type Complaint, compile } from "../../support/compile.js";
import { errorOf } from "../../support/error-of.js";
import { root } from "../../support/public-names.js";

const preamble = `import { agent, tool, type Holdfast, type ModelReply } from "holdfast";
declare const hold: Holdfast;
const model = async (): Promise<ModelReply> => ({ content: "done" });
`;

interface Mistake {
  readonly what: string;
  /** The wrong program, in which a § stands before what is wrong. */
  readonly program: string;
  /** What the message names. */
  readonly names: readonly string[];
}

const inTool = (fields: string): string =>
  `hold.agent({ name: "x", model, tools: { pay: { ${fields} } } });`;

const mistakes: readonly Mistake[] = [
  {
    what: "no model",
    program: 'hold.agent(§{ name: "x" });',
    names: ["Property 'model' is missing"],
  },
  {
    what: "no model, without a store",
    program: 'agent(§{ name: "x" });',
    names: ["Property 'model' is missing"],
  },
  {
    what: "a misspelt field",
    program: 'hold.agent({ name: "x", model, §sytem: "" });',
    names: ["'sytem' does not exist", "Did you mean to write 'system'?"],
  },
  {
    what: "a misspelt mode",
    program: inTool('§mode: "onec", run: () => 1'),
    names: ['"onec"', '"keyed" | "once" | "repeatable"'],
  },
  { what: "no mode", program: inTool("run: () => 1").replace("pay", "§pay"), names: ["'mode'"] },
  {
    what: "nothing to run",
    program: inTool('mode: "once"').replace("pay", "§pay"),
    names: ["'run'"],
  },
  {
    what: "a check that answers something else",
    program: inTool('mode: "once", run: () => 1, §check: async () => "yes"'),
    names: ["Check<", "Type 'string' is not assignable"],
  },
  {
    what: "a key that is no function",
    program: inTool('mode: "keyed", §key: 42, run: () => 1'),
    names: ["Type 'number' is not assignable", "(input: any) => string"],
  },
  {
    what: "a key that answers a number",
    program: inTool('mode: "keyed", §key: () => 42, run: () => 1'),
    names: ["Type '() => number' is not assignable", "'number' is not assignable to type 'string'"],
  },
  {
    what: "a check where none is asked",
    program: inTool('mode: "repeatable", run: () => 1, check: () => undefined').replace(
      "pay",
      "§pay",
    ),
    names: ["'check' are incompatible"],
  },
  {
    what: "a reply without content",
    program: 'hold.agent({ name: "x", model: async () => §({ text: "hello" }) });',
    names: ["'content' is missing"],
  },
  {
    what: "a strategy that there is not",
    program: 'hold.agent({ name: "x", model, §checkpoint: "after-tol" });',
    names: ["Did you mean '\"after-tool\"'?"],
  },
  {
    what: "a limit of the wrong type",
    program: 'hold.agent({ name: "x", model, limits: { §steps: "many" } });',
    names: ["Type 'string' is not assignable to type 'number'"],
  },
  {
    what: "a tool on its own with a misspelt mode",
    program: 'tool({ §mode: "onec", input: { type: "object" }, run: () => 1 });',
    names: ['"onec"'],
  },
  {
    what: "an agent that is defined already",
    program: 'hold.agent(§agent({ name: "x", model }));',
    names: ["Property 'model' is missing in type 'Agent<"],
  },
  {
    what: "a definition where an agent is bound",
    program: 'hold.bind({ name: "x", §model });',
    names: ["'model' does not exist in type 'Agent<"],
  },
];

describe("the compiler names what is wrong", () => {
  let directory = "";
  let complaints: readonly Complaint[] = [];

  beforeAll(() => {
    // Ignored by git, and inside the package: there `holdfast` is the package itself.
    mkdirSync(join(root, "coverage"), { recursive: true });
    directory = mkdtempSync(join(root, "coverage", "mistakes-"));
    for (const [i, { program }] of mistakes.entries())
      writeFileSync(join(directory, `mistake-${i}.ts`), preamble + program.replace("§", ""));
    complaints = compile(directory);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  test.each(mistakes.map((mistake, i) => [mistake.what, mistake, i] as const))(
    "%s",
    (_, { program, names }, i) => {
      const found = complaints.filter(({ file }) => file === `mistake-${i}.ts`);
      expect(found).toHaveLength(1);
      const [{ line, message }] = found as [Complaint];
      expect(line).toBe(preamble.split("\n").length);
      for (const name of names) expect(message).toContain(name);
      expect(found[0]?.column, program).toBe(columnOf(program));
    },
  );
});

/** Where the mistake is. The compiler points at the argument, or at the name of a field. */
const columnOf = (program: string): number => program.indexOf("§") + 1;

describe("an agent that is defined already", () => {
  let hold: Holdfast;
  beforeAll(async () => {
    hold = await open("memory:");
  });
  afterAll(() => hold.close());

  test("is bound with hold.bind, once or again", async () => {
    const defined = agent({ name: "x", model: scriptedModel(["one", "two"]) });
    const bound = hold.bind(defined);
    expect(await bound.run("a", "go")).toMatchObject({ status: "completed", output: "one" });
    expect(await hold.bind(bound).run("a", "on")).toMatchObject({ output: "two" });
  });

  test("is refused by hold.agent and agent, which say what to call", async () => {
    const defined = agent({ name: "x", model: scriptedModel(["one"]) });
    for (const define of [hold.agent.bind(hold), agent])
      for (const given of [defined, hold.bind(defined)])
        expect(await errorOf(async () => define(given as never))).toMatchObject({
          code: "INVALID_OPTION",
          message: expect.stringContaining("hold.bind(agent)"),
        });
  });

  test("is what hold.bind takes, and nothing else", async () => {
    for (const given of [undefined, null, 1, "x", {}])
      expect(await errorOf(async () => hold.bind(given as never))).toMatchObject({
        code: "INVALID_OPTION",
      });
  });
});
