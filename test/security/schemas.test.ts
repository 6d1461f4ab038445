/**
 * A bad schema is refused where it is given; a good one answers every value in bounded time,
 * and the session goes on.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { validate } from "../../src/features/runs/define/schema.js";
import {
  type InputSchema,
  type Json,
  type Message,
  partsOf,
  type ToolContext,
  type ToolResultPart,
} from "../../src/index.js";
import { asks, door, Processes, type Scripted, script } from "../support/processes.js";
import { stores } from "../support/stores.js";

const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message) as readonly ToolResultPart[]);

const nested = (levels: number, wrap: (inner: object) => object, inner: object = {}): object => {
  let value = inner;
  for (let i = 0; i < levels; i++) value = wrap(value);
  return value;
};
const circle: Record<string, unknown> = { type: "object" };
circle["properties"] = { self: circle };
const throws = Object.defineProperty({ type: "object" }, "properties", {
  enumerable: true,
  get: () => {
    throw new Error("no");
  },
});
/** Each `$id` doubles the validator's work when it reads the schema. */
const ids = nested(40, (inner) => ({ properties: { a: inner } }));
let at = ids as { $id?: string; properties?: { a: object } };
for (let i = 0; at.properties !== undefined; i++) {
  at.$id = `https://example.org/${i}`;
  at = at.properties.a;
}
const chain = {
  $ref: "#/$defs/d0",
  $defs: Object.fromEntries(
    Array.from({ length: 5_000 }, (_, i) => [
      `d${i}`,
      i === 4_999 ? {} : { $ref: `#/$defs/d${i + 1}` },
    ]),
  ),
};

/** Schemas that cannot be used, and the place in them that the error names. */
const BAD: readonly (readonly [name: string, schema: unknown, path: string])[] = [
  ["a $ref to itself", { $ref: "#" }, ""],
  ["a $ref to itself through allOf", { allOf: [{ $ref: "#" }] }, ""],
  [
    "two $refs to one another",
    {
      properties: { a: { $ref: "#/$defs/a" } },
      $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } },
    },
    "",
  ],
  [
    "a $ref through if, and not",
    { $defs: { a: { if: { not: { $ref: "#/$defs/a" } } } }, $ref: "#/$defs/a" },
    "",
  ],
  ["a $ref through dependentSchemas", { dependentSchemas: { a: { $ref: "#" } } }, ""],
  ["5,000 $refs in a row", chain, ""],
  ["a $ref to nothing", { properties: { a: { $ref: "#/$defs/none" } } }, ".properties.a.$ref"],
  ["a $ref to another document", { $ref: "https://example.org/schema" }, ".$ref"],
  [
    "a $ref to a part under a keyword of its own",
    { $ref: "#/x-parts/a", "x-parts": { a: { enum: 1 } } },
    ".$ref.enum",
  ],
  ["a $ref that is no text", { properties: { a: { $ref: 5 } } }, ".properties.a.$ref"],
  ["$recursiveRef", { properties: { a: { $recursiveRef: "#" } } }, ".properties.a.$recursiveRef"],
  ["$dynamicRef", { properties: { a: { $dynamicRef: "#a" } } }, ".properties.a.$dynamicRef"],
  [
    "a bad pattern",
    { properties: { a: { type: "string", pattern: "(" } } },
    ".properties.a.pattern",
  ],
  [
    "a pattern that is too large",
    { properties: { a: { pattern: "(?:(?:(?:a{3}){3}){3}){3}".repeat(20_000) } } },
    ".properties.a.pattern",
  ],
  ["a bad pattern of properties", { patternProperties: { "[": {} } }, '.patternProperties["["]'],
  [
    "a bad pattern deep in a list",
    { anyOf: [{}, { items: { not: { pattern: "*" } } }] },
    ".anyOf[1].items.not.pattern",
  ],
  ["a bad enum", { properties: { a: { enum: "x" } } }, ".properties.a.enum"],
  [
    "a bad enum in a part that has a place of its own",
    { $ref: "#/$defs/a", $defs: { a: { enum: {} } } },
    ".$defs.a.enum",
  ],
  ["a bad type", { properties: { a: { type: "text" } } }, ".properties.a.type"],
  ["a bad required", { properties: { a: { required: true } } }, ".properties.a.required"],
  ["a bad length", { minLength: "1" }, ".minLength"],
  ["a bound of another draft", { exclusiveMinimum: true }, ".exclusiveMinimum"],
  ["multiples of nothing", { multipleOf: 0 }, ".multipleOf"],
  ["a bad list of schemas", { anyOf: {} }, ".anyOf"],
  ["a bad list in a schema of the same value", { allOf: [{ oneOf: 5 }] }, ".allOf[0].oneOf"],
  ["bad properties", { properties: [] }, ".properties"],
  ["a property that is no schema", { properties: { a: 5 } }, ".properties.a"],
  ["a format named like a method", { format: "__proto__" }, ".format"],
  ["a bad id", { $id: "http://[" }, ""],
  ["200,000 levels", nested(200_000, (not) => ({ not })), ""],
  ["a circle of objects", circle, ""],
  ["a getter that throws", throws, ".properties"],
  ["a number", 5, ""],
  ["a list", [], ""],
  ["a function", () => 1, ""],
];

const GOOD: readonly (readonly [name: string, schema: object, fits: Json, not: Json])[] = [
  [
    "a tree",
    { type: "object", properties: { next: { $ref: "#" } }, additionalProperties: false },
    { next: { next: {} } },
    { next: { no: 1 } },
  ],
  [
    "two that hold one another",
    {
      $ref: "#/$defs/a",
      $defs: {
        a: { properties: { b: { $ref: "#/$defs/b" } } },
        b: { required: ["a"], properties: { a: { $ref: "#/$defs/a" } } },
      },
    },
    { b: { a: {} } },
    { b: {} },
  ],
  ["a pattern", { properties: { a: { pattern: "^[0-9]{3}$" } } }, { a: "123" }, { a: "12" }],
  [
    "__proto__ as a property",
    JSON.parse(
      '{"properties":{"__proto__":{"type":"string"}},"required":["__proto__"],"additionalProperties":false}',
    ),
    JSON.parse('{"__proto__":"x"}'),
    JSON.parse('{"__proto__":1}'),
  ],
  [
    "properties named like keywords",
    { properties: { $ref: { type: "string" }, enum: {}, pattern: {} } },
    { $ref: "(" },
    { $ref: 1 },
  ],
  ["true and false", { properties: { a: true, b: false } }, { a: 1 }, { b: 1 }],
  [
    "a huge enum",
    { properties: { a: { enum: Array.from({ length: 5_000 }, (_, i) => `v${i}`) } } },
    { a: "v4999" },
    { a: "w" },
  ],
  [
    "words that are no keywords",
    {
      "x-note": { $ref: 5, enum: 1 },
      default: { $ref: "#" },
      examples: [{ enum: 1 }],
      required: ["a"],
    },
    { a: 1 },
    {},
  ],
  [
    "items of an older draft",
    { properties: { a: { items: [{ type: "string" }], additionalItems: false } } },
    { a: ["x"] },
    { a: ["x", 1] },
  ],
  [
    "500 levels",
    nested(250, (inner) => ({ properties: { a: inner } }), { type: "string" }),
    {},
    nested(250, (a) => ({ a }), 5 as never) as Json,
  ],
];

/** Schemas that are sound, and values which the validator needs too long for, or trips over. */
const HARD: readonly (readonly [name: string, schema: object, input: Json, says: RegExp])[] = [
  [
    "a pattern",
    { properties: { a: { pattern: "^(a+)+$" } } },
    { a: `${"a".repeat(40)}!` },
    /too long/,
  ],
  [
    "a pattern of properties",
    { patternProperties: { "^(a+)+$": {} } },
    { [`${"a".repeat(40)}!`]: 1 },
    /too long/,
  ],
  [
    "a format",
    { properties: { a: { format: "url" } } },
    { a: `http://${"a".repeat(60)}!` },
    /too long/,
  ],
  [
    "parts that ask for one another twice",
    {
      $ref: "#/$defs/d0",
      $defs: Object.fromEntries(
        Array.from({ length: 41 }, (_, i) => [
          `d${i}`,
          i === 40 ? {} : { allOf: [{ $ref: `#/$defs/d${i + 1}` }, { $ref: `#/$defs/d${i + 1}` }] },
        ]),
      ),
    },
    {},
    /too long/,
  ],
  [
    "a deep value, many schemas at each level",
    { ...nested(100, (inner) => ({ allOf: [inner] }), { properties: { a: { $ref: "#" } } }) },
    nested(400, (a) => ({ a })) as Json,
    /too deeply|too long/,
  ],
  [
    "more flaws than the validator can hold",
    { properties: { a: { items: { items: { type: "string" } } } } },
    { a: [Array.from({ length: 200_000 }, () => 1)] },
    /too many|too long/,
  ],
];

const toolOf = (input: unknown, made: unknown[] = []) => ({
  mode: "once" as const,
  input: input as InputSchema<unknown>,
  run: (input: unknown) => (made.push(input), "made"),
});

describe.each(stores)("schemas of tools on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  const after = async (id: string) => {
    const session = await on.start().hold.session(id);
    await session.close();
    return session.messages;
  };

  test("an input that a schema cannot check in time is refused, the model may try again, and the session goes on", async () => {
    const made: unknown[] = [];
    const [first, second] = [on.start(), on.start()];
    const refused = door();
    const botOf = (hold: typeof first.hold, next: Scripted) =>
      hold.agent({
        name: "bot",
        model: script(asks(["t", { a: `${"a".repeat(40)}!` }]), next),
        tools: { t: toolOf({ properties: { a: { pattern: "^(a+)+$" } } }, made) },
      });
    // Killed right behind the refusal: what is stored must be whole.
    void botOf(first.hold, () => {
      refused.open();
      return new Promise<never>(() => {});
    }).run("a", "go");
    await refused.opened;
    first.kill();
    const bot = botOf(second.hold, asks(["t", { a: "aaa" }]));
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual([{ a: "aaa" }]);
    expect(results(await after("a"))).toMatchObject([
      { outcome: "error", output: expect.stringMatching(/"t".*too long.*Try others/) },
      { outcome: "ok" },
    ]);
    expect(await bot.run("a", "again")).toMatchObject({ status: "completed" });
    expect((await second.hold.verify()).findings).toEqual([]);
  });

  test("an async parse is awaited; what it throws, or rejects with, is told to the model", async () => {
    const made: unknown[] = [];
    const parse = async (value: Json) => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      const { n } = value as { n: number };
      if (n < 0) throw new Error("n is below 0");
      return { n: n + 1 };
    };
    const model = script(asks(["t", { n: 1 }], ["t", { n: -1 }]));
    const bot = on.start().hold.agent({
      name: "bot",
      model,
      tools: {
        t: {
          mode: "once",
          input: { jsonSchema: { type: "object" }, parse },
          run: ({ n }) => made.push(n.toFixed(1)),
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual(["2.0"]);
    expect(results(await after("a"))).toMatchObject([
      { outcome: "ok" },
      { outcome: "error", output: expect.stringContaining("n is below 0") },
    ]);
  });

  test("an output's schema that throws is told to the model, and the run comes to an end", async () => {
    const output = z.object({ n: z.number() }).transform(() => {
      throw new Error("cannot be made");
    });
    const result = await on
      .start()
      .hold.agent({ name: "bot", model: script('{"n":1}', '{"n":1}', '{"n":1}'), output })
      .run("a", "go");
    expect(result).toMatchObject({ status: "failed" });
    expect(JSON.stringify(result)).toContain("cannot be made");
  });
});

describe("a schema is tried where the agent is defined", async () => {
  const on = await Processes.on("memory:");
  const { hold } = on.start();
  const define = (input: unknown) =>
    hold.agent({ name: "bot", model: script(), tools: { pay: toolOf(input) } });
  const caught = (work: () => unknown): unknown => {
    try {
      return work();
    } catch (error) {
      return error;
    }
  };

  test.each(BAD)("%s is refused, with the tool and the place", (_name, schema, path) => {
    for (const [input, where] of [
      [schema, "agent.tools.pay.input"],
      [{ jsonSchema: schema }, "agent.tools.pay.input.jsonSchema"],
    ] as const) {
      const error = caught(() => define(input)) as {
        readonly message: string;
        readonly details: { readonly path: string };
      };
      expect(error).toMatchObject({ name: "HoldfastError", code: "INVALID_OPTION" });
      expect(error.details.path).toMatch(/^agent\.tools\.pay\.input/);
      if (path !== "") expect(error.details.path).toBe(where + path);
      expect(error.message.length).toBeLessThan(1_000);
    }
  });

  test.each(GOOD)(
    "%s is taken, and tells what fits from what does not",
    async (_name, schema, fits, not) => {
      const made: unknown[] = [];
      const session = _name.replaceAll(/[^a-z0-9]/gi, "-");
      const model = script(asks(["t", fits], ["t", not]));
      const result = await hold
        .agent({ name: "bot", model, tools: { t: toolOf(schema, made) } })
        .run(session, "go");
      expect(result).toMatchObject({ status: "completed" });
      expect(made).toEqual([fits]);
      const told = JSON.stringify(model.requests.at(-1)?.messages.at(-1));
      expect(told.length).toBeLessThan(10_000);
    },
  );

  test.each(HARD)(
    "an input that is too much for %s is refused in bounded time",
    async (name, schema, input, says) => {
      const made: unknown[] = [];
      const model = script(asks(["t", input]));
      const bot = hold.agent({ name: "bot", model, tools: { t: toolOf(schema, made) } });
      expect(await bot.run(`hard-${name.replaceAll(/[^a-z]/g, "-")}`, "go")).toMatchObject({
        status: "completed",
      });
      expect(made).toEqual([]);
      const told = JSON.stringify(model.requests.at(-1)?.messages.at(-1));
      expect(told).toMatch(says);
      expect(told.length).toBeLessThan(10_000);
    },
  );

  test("ids that take the validator too long to read are refused", () => {
    expect(caught(() => define(ids))).toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringContaining("took longer than"),
    });
  });

  test("a Standard Schema that has no validate is refused, also for state and output", () => {
    const bad = {
      "~standard": { version: 1, vendor: "none", jsonSchema: { input: () => ({}) } },
    } as never;
    const thrown = new Proxy(
      {},
      {
        get: () => {
          throw new Error("no");
        },
        has: () => true,
      },
    ) as never;
    for (const schema of [bad, thrown, null as never]) {
      expect(
        caught(() => hold.agent({ name: "b", model: script(), output: schema })),
      ).toMatchObject({
        code: "INVALID_OPTION",
        details: { path: "agent.output" },
      });
      expect(
        caught(() => hold.agent({ name: "b", model: script(), state: { schema } })),
      ).toMatchObject({
        code: "INVALID_OPTION",
        details: { path: "agent.state.schema" },
      });
      expect(caught(() => define(schema))).toMatchObject({ code: "INVALID_OPTION" });
    }
  });

  test("a schema of a signal that is none is refused before the tool waits", async () => {
    const model = script(asks(["t", {}]));
    const tools = {
      t: {
        mode: "repeatable",
        run: (_input: unknown, { wait }: ToolContext) => wait("go", { schema: {} as never }),
      },
    } as const;
    expect(await hold.agent({ name: "bot", model, tools }).run("waits", "go")).toMatchObject({
      status: "completed",
    });
    expect(JSON.stringify(model.requests.at(-1)?.messages.at(-1))).toContain(
      "wait.schema: it must be a Standard Schema",
    );
  });

  test("an answer of a Standard Schema that comes later is waited for, of any kind of promise", async () => {
    const answers = (result: unknown) =>
      ({ "~standard": { version: 1, vendor: "own", validate: () => result } }) as never;
    const later = {
      then: (tell: (result: unknown) => void) => tell({ issues: [{ message: "no" }] }),
    };
    expect(await validate(answers(later), 1)).toEqual({ flaw: "no" });
    expect(await validate(answers(Promise.resolve({ value: 2 })), 1)).toEqual({ value: 2 });
    expect(await validate(answers(Promise.reject(new Error("broken"))), 1)).toEqual({
      flaw: "broken",
    });
    expect(await validate(answers(null), 1)).toHaveProperty("flaw");
    expect(await validate(answers({ issues: 5 }), 1)).toHaveProperty("flaw");
    expect(
      await validate(
        z.string().refine(async (text) => text === "x"),
        "y",
      ),
    ).toHaveProperty("flaw");
  });
});
