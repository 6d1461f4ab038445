/**
 * What a program can import has a doc comment, names by one rule, and examples that compile. The
 * examples of all doc comments are compiled in one run, against the package as it is built.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { sourcesIn } from "../../scripts/house-facts.mjs";
import { compile } from "../support/compile.js";
import {
  entries,
  examplesIn,
  namesOf,
  type PublicName,
  root,
  signaturesOf,
} from "../support/public-names.js";

/** The port of stores has rules and docs of its own. */
const isOurs = ({ file }: PublicName): boolean => !relative(root, file).startsWith("src/store/");

const all = entries.flatMap((entry) => namesOf(entry).filter(isOurs));
const names = (of: readonly PublicName[]) => of.map(({ name }) => name);

test("the main entry exports at most 80 types", () => {
  const [main] = entries;
  if (main === undefined) throw new Error("There is no main entry.");
  const types = namesOf(main).filter(({ kind }) => ["interface", "type", "class"].includes(kind));
  expect(main.name).toBe("holdfast");
  expect(types.length).toBeGreaterThan(40);
  expect(types.length).toBeLessThanOrEqual(80);
});

describe("doc comments", () => {
  test("every public name has one", () => {
    expect(all.length).toBeGreaterThan(200);
    expect(names(all.filter(({ doc }) => doc === undefined || doc === ""))).toEqual([]);
  });

  test("the first line is a sentence", () => {
    const isSentence = /^(?:[A-Z`]|zod)[^\n]*[^\s.]\.$/;
    const first = ({ doc = "" }: PublicName) => doc.split("\n")[0] as string;
    expect(all.filter((one) => !isSentence.test(first(one))).map(first)).toEqual([]);
  });

  test("that of a function is imperative", () => {
    const calls = all.filter(({ name, kind, text }) => kind === "function" || isCall(name, text));
    // "Makes a session": a verb in the third person ends in s.
    const isThird = ({ doc = "" }: PublicName) => /^[A-Z][a-z]+[^s\W]s\b/.test(doc);
    expect(calls.length).toBeGreaterThan(100);
    expect(calls.filter(isThird).map(({ name, doc }) => `${name}: ${doc}`)).toEqual([]);
  });

  const main = [
    ...["open", "restoreBackup", "agent", "tool", "redactions", "HoldfastError"],
    ...["toFormat", "fromFormat", "everyCrash", "scriptedModel", "manualClock", "otel"],
    ...["agent", "bind", "session", "worker", "tools", "export", "import", "backup"].map(
      (name) => `Holdfast.${name}`,
    ),
  ];
  const wholly = /^(?:Sessions|Checkpoints|Agents|Effects|Retention|Session)\./;

  test("the main ones have an example", () => {
    expect(main.filter((name) => !names(all).includes(name))).toEqual([]);
    const wanted = all.filter(
      ({ name, text }) => main.includes(name) || (wholly.test(name) && isCall(name, text)),
    );
    expect(wanted.length).toBeGreaterThan(60);
    expect(names(wanted.filter(({ doc = "" }) => !doc.includes("\n@example\n")))).toEqual([]);
  });
});

/** Whether it is a method, and not something that is read. */
function isCall(name: string, text: string): boolean {
  return name.includes(".") && !/^ *get /.test(text);
}

describe("names of types", () => {
  /** What a call answers, where that is neither a report nor a page. */
  const nouns = new Set([
    ...["void", "boolean", "string", "number", "Uint8Array", "Digest", "T", "R", "ContractCase"],
    ...[
      "Holdfast",
      "Store",
      "Session",
      "BoundAgent",
      "Agent",
      "Tool",
      "ToolsFor",
      "Worker",
      "IntervalTask",
    ],
    ...["Checkpoint", "CheckpointState", "SessionSummary", "SessionState", "SessionId", "Diff"],
    ...["SessionEvent", "AgentEvent", "Message", "MessageInput", "Part", "Transcript"],
    ...["AgentRecord", "AgentWithSessions", "Snapshot", "Pending", "RetentionPolicy"],
    ...["StoreInfo", "Counts", "WorkerStats", "RunResult", "RunStream", "Turn"],
    ...["Redactions", "Telemetry", "ManualClock", "ScriptedModel", "MigrationKind"],
    ...["TranscriptMessage"],
  ]);
  /** Calls whose one object is no option, but what the call is about. */
  const takesObject = new Set(["Session.save"]);
  const signatures = all
    .filter(({ name, kind, text }) => kind === "function" || isCall(name, text))
    .flatMap((one) => signaturesOf(one).map((signature) => ({ name: one.name, ...signature })));
  const takes = signatures.flatMap(({ name, parameters }) =>
    parameters.map((parameter) => ({ call: name, ...parameter })),
  );

  test("what a call takes besides is XOptions", () => {
    const given = takes.filter(({ name }) => ["o", "given", "options"].includes(name));
    const isOptions = ({ type }: { readonly type: string }) =>
      type
        .split(" & ")
        .every((part) => /^(?:(?:Pick|Omit|Partial)<)?\w*Options\b|^O$/.test(part.trim()));
    expect(given.length).toBeGreaterThan(50);
    expect(given.filter((one) => !isOptions(one))).toEqual([]);
  });

  test("a filter is an XFilter", () => {
    const filters = takes.filter(({ name }) => name === "filter");
    expect(filters.length).toBeGreaterThan(4);
    expect(filters.filter(({ type }) => !/^\w+Filter$/.test(type))).toEqual([]);
  });

  test("no parameter is an object without a name", () => {
    const isObject = ({ type }: { readonly type: string }) => type.startsWith("{");
    expect(takes.filter((one) => isObject(one) && !takesObject.has(one.call))).toEqual([]);
  });

  test("a call answers an XReport, an XPage or a noun", () => {
    const answered = (type: string): string => {
      const inner = /^(?:Promise|AsyncIterable|Omit|Readonly|Page)<([\s\S]*)>$/.exec(type)?.[1];
      return inner === undefined
        ? type.replace(/^readonly |\[\]$|<[\s\S]*$| \| undefined$|,[\s\S]*$/g, "").trim()
        : answered(inner);
    };
    const isNamed = (type: string): boolean =>
      answered(type)
        .split(" | ")
        .map((part) => answered(part))
        .every((part) => /(?:Report|Page)$/.test(part) || nouns.has(part));
    expect(signatures.length).toBeGreaterThan(100);
    expect(
      signatures
        .filter(({ answer }) => !isNamed(answer))
        .map(({ name, answer }) => `${name}: ${answer}`),
    ).toEqual([]);
  });
});

describe("examples", () => {
  // Ignored by git, and inside the package: there `holdfast` is the package itself.
  mkdirSync(join(root, "coverage"), { recursive: true });
  const directory = mkdtempSync(join(root, "coverage", "examples-"));
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  /** What every example may use. CONTRIBUTING.md names it. */
  const preamble = `
    import * as main from "holdfast";
    import * as formats from "holdfast/formats";
    import { migrate } from "holdfast/migrate";
    import { otel } from "holdfast/otel";
    import * as testing from "holdfast/testing";

    const { agent, HoldfastError, NotDone, open, redactions } = main;
    const { restoreBackup, tool, transcriptVersion } = main;
    const { fromFormat, toFormat } = formats;
    const { everyCrash, manualClock, scriptedModel } = testing;
    type Model = (request: main.ModelRequest) => Promise<main.ModelReply>;
    export { migrate, otel };
  `;
  /** An example may declare one of these anew: it stands in a block of its own. */
  const program = (code: string): string => `${preamble}
    export async function example(
      hold: main.Holdfast, session: main.Session, support: main.BoundAgent, model: Model,
    ) {
      {
        ${code}
      }
    }
  `;

  const examples = examplesIn(
    sourcesIn(join(root, "src")).map(({ file }) => join(root, "src", file)),
  );

  test("all of them compile against the built package", { timeout: 120_000 }, () => {
    expect(examples.length).toBeGreaterThan(80);
    for (const [i, { code }] of examples.entries())
      writeFileSync(join(directory, `example-${i}.ts`), program(code));
    writeFileSync(
      join(directory, "wrong.ts"),
      program('await hold.sessions.fork(42, { idd: "x" });'),
    );
    const found = compile(directory);
    const about = found.map(({ file, message }) => {
      const at = /^example-(\d+)\.ts$/.exec(file)?.[1];
      const example = at === undefined ? undefined : examples[Number(at)];
      return `${example === undefined ? file : relative(root, example.file)}: ${message}`;
    });
    // Control: a wrong one is found.
    expect(about.filter((one) => one.startsWith("wrong.ts: "))).not.toEqual([]);
    expect(about.filter((one) => !one.startsWith("wrong.ts: "))).toEqual([]);
  });

  test("none is longer than eight lines", () => {
    const long = examples.filter(({ code }) => code.split("\n").length > 8);
    expect(long.map(({ code }) => code)).toEqual([]);
  });
});
