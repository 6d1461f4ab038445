/**
 * Each argument of every public function, and each of its options, replaced by a value of another
 * type. The answer is a HoldfastError, and never a TypeError, and a wrong type for options is never
 * accepted.
 */

import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as formats from "../../src/formats/index.js";
import * as main from "../../src/index.js";
import { HoldfastError } from "../../src/index.js";
import * as migrate from "../../src/migrate/index.js";
import * as otel from "../../src/otel/index.js";
import { MemoryStore } from "../../src/store/memory.js";
import * as testing from "../../src/testing/index.js";
import { call, type Opened, Options, openWorld, plain, surfaces } from "../support/public-calls.js";
import { scratch } from "../support/stores.js";

const { signal } = new AbortController();

const thrown = (): never => {
  throw new TypeError("thrown by the caller's own object");
};
const trapped = (target: object): object => new Proxy(target, new Proxy({}, { get: () => thrown }));
const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

type Row = readonly [what: string, value: unknown];

const values: readonly Row[] = [
  ["undefined", undefined],
  ["null", null],
  ["5", 5],
  // A path as well: a store may be made at it.
  ["text", join(scratch(), "x")],
  ["[]", []],
  ["{}", {}],
  ["a function", () => undefined],
  ["a proxy that throws", trapped({})],
  ["a proxy of an array that throws", trapped([])],
  ["a revoked proxy", revoked()],
];

/** How a call ends that waits for something else: it has taken its arguments. */
const LATE_MS = 100;

async function outcome(run: () => Promise<unknown>): Promise<unknown> {
  const late = new Promise<string>((resolve) => setTimeout(resolve, LATE_MS, "waits"));
  const answer = run().then(
    async (made) => {
      const stop =
        typeof made === "object" && made !== null && "stop" in made ? made.stop : undefined;
      if (typeof stop === "function") await Reflect.apply(stop, made, []);
      return "accepted";
    },
    (error: unknown) => error,
  );
  return Promise.race([answer, late]);
}

const isAccepted = (end: unknown): boolean => end === "accepted" || end === "waits";

function told(end: unknown): string {
  if (end instanceof HoldfastError) return `${end.code}: ${end.message}`;
  return end instanceof Error
    ? `${end.name}: ${end.message} ${end.stack?.split("\n")[1]?.trim()}`
    : String(end);
}

function kindOf(value: unknown): string {
  try {
    return value instanceof AbortSignal
      ? "signal"
      : Array.isArray(value)
        ? "list"
        : value === null
          ? "null"
          : typeof value;
  } catch {
    return "unreadable";
  }
}

const getter = (name: string): object =>
  Object.defineProperty({}, name, { enumerable: true, get: thrown });

/** Fields that take any JSON value, or a value of more than one type. */
const ANY = ["context", "model", "approval", "check", "output", "state", "system"];

/**
 * Bags of options that are no plain objects, and hold the options all the same. A Map has no
 * fields, so all were passed over.
 */
const bags: readonly (readonly [
  what: string,
  of: (fields: Readonly<Record<string, unknown>>) => unknown,
])[] = [
  ["a Map", (fields) => new Map(Object.entries(fields))],
  ["a Date", () => new Date(0)],
  ["a Promise", (fields) => Promise.resolve(fields)],
  ["a class instance", (fields) => Object.assign(new (class Settings {})(), fields)],
  ["an object that inherits them", (fields) => Object.create(fields)],
];

/**
 * The input of an approved call is any JSON value. A title of null takes the title away. Of a
 * telemetry nothing is read before it is used.
 */
const takesAny = (name: string, field: string, what: string): boolean =>
  ANY.includes(field) ||
  (field === "input" && name === "hold.effects.approve") ||
  (field === "title" && what === "null") ||
  (field === "telemetry" && what.includes("proxy"));

/** A checkpoint may be given as a label instead of options. */
const LABELLED = ["session.checkpoint", "session.complete", "session.fail", "session.halt"];

/**
 * A call under a key is answered from its receipt the second time: here each call is one of its
 * own.
 */
const keyless = ({ key: _key, ...fields }: Readonly<Record<string, unknown>>) => fields;

/** Functions whose object is a value, and no options. */
const VALUES = ["holdfast/formats.fromFormat"];
const isBagRefused = ({ code, message: why }: HoldfastError): boolean =>
  code === "INVALID_OPTION" && why.includes("plain object");

type Run = (given: readonly unknown[]) => Promise<unknown>;

/** Each bag is refused as such, before anything is done. */
async function tryBags(name: string, args: readonly unknown[], run: Run): Promise<string[]> {
  const wrong: string[] = [];
  for (const [at, arg] of args.entries()) {
    if (!(arg instanceof Options)) continue;
    for (const [what, of] of bags) {
      const end = await outcome(() =>
        run(args.map((other, i) => (i === at ? of(arg.fields) : plain([other])[0]))),
      );
      const isRefused =
        end instanceof HoldfastError &&
        (VALUES.includes(name) ? end.code === "INVALID_VALUE" : isBagRefused(end));
      if (!isRefused) wrong.push(`${name}, argument ${at + 1} = ${what}: ${told(end)}`);
    }
  }
  return wrong;
}

/** Everything that a store holds. */
async function everything(hold: Opened["hold"]): Promise<string> {
  let rows = "";
  for await (const row of hold.export()) rows += row;
  return rows;
}

async function tryAll(name: string, args: readonly unknown[], run: Run): Promise<string[]> {
  const wrong: string[] = [];
  const given = args.map((arg) => (arg instanceof Options ? keyless(arg.fields) : arg));
  /** `fits`: the value has a type that is allowed here, so only a TypeError is wrong. */
  const attempt = async (
    what: string,
    at: number,
    value: unknown,
    fits: boolean,
  ): Promise<void> => {
    const end = await outcome(() => run(given.with(at, value)));
    const isRefused = end instanceof HoldfastError && (fits || end.code.startsWith("INVALID_"));
    if (!isRefused && !(fits && isAccepted(end)))
      wrong.push(`${name}, argument ${at + 1} ${what}: ${told(end)}`);
  };
  for (const [at, arg] of args.entries()) {
    const isOptions = arg instanceof Options;
    for (const [what, value] of values) {
      const fits =
        what === "undefined" || what === "{}" || (what === "text" && LABELLED.includes(name));
      await attempt(`= ${what}`, at, value, !isOptions || fits);
    }
    if (!isOptions) continue;
    for (const [field, good] of Object.entries(arg.fields)) {
      await attempt(`with a getter ${field} that throws`, at, getter(field), false);
      for (const [what, value] of values) {
        const fits =
          value === undefined || kindOf(value) === kindOf(good) || takesAny(name, field, what);
        await attempt(
          `with ${field} = ${what}`,
          at,
          { ...keyless(arg.fields), [field]: value },
          fits,
        );
      }
    }
  }
  return wrong;
}

describe.each(surfaces)("$name", ({ name, of, calls }) => {
  for (const [method, args] of Object.entries(calls))
    test(method, async () => {
      const world: Opened = await openWorld("memory:");
      const run: Run = (given) => call(of(world), method, given);
      try {
        const before = await everything(world.hold);
        expect(await tryBags(`${name}.${method}`, args(world), run)).toEqual([]);
        expect(await everything(world.hold)).toBe(before);
        expect(await tryAll(`${name}.${method}`, args(world), run)).toEqual([]);
      } finally {
        await world.hold.close();
      }
    });
});

const o = (fields: Readonly<Record<string, unknown>>): Options => new Options(fields);
const message = { role: "user", content: [{ type: "text", text: "x" }] };

/** Every exported function, with arguments that it accepts. */
const functions: Readonly<
  Record<string, readonly [module: object, calls: Readonly<Record<string, readonly unknown[]>>]>
> = {
  holdfast: [
    main,
    {
      open: [
        "memory:",
        o({
          clock: { now: () => 0 },
          leaseMs: 1_000,
          busyMs: 0,
          telemetry: {},
          search: true,
          redact: (text: string) => text,
        }),
      ],
      restoreBackup: ["/dev/null/none.db", "/dev/null/other.db", o({ force: false })],
      agent: [
        o({
          name: "a",
          model: testing.scriptedModel(["x"]),
          version: "1",
          limits: { steps: 5 },
          modelRetry: { attempts: 1 },
        }),
      ],
      tool: [o({ description: "d", input: { type: "object" }, mode: "repeatable", run: () => 1 })],
      redactions: [o({ toolInputs: true })],
      partsOf: [message],
      textOf: [message],
      transcriptVersion: [[message]],
    },
  ],
  "holdfast/formats": [
    formats,
    {
      toFormat: ["openai", [message]],
      fromFormat: [o({ format: "openai", messages: [] })],
    },
  ],
  "holdfast/testing": [
    testing,
    {
      contractFor: [() => ({ traits: {}, open: async () => new MemoryStore() })],
      everyCrash: [o({ make: async () => {}, ledger: () => [], lifeMs: 1_000 })],
      manualClock: [5],
      scriptedModel: [["x"]],
    },
  ],
  "holdfast/otel": [otel, { otel: [o({ provider: "p", content: true })] }],
  "holdfast/migrate": [
    migrate,
    {
      migrate: [
        "ares",
        "/dev/null/none",
        "memory:",
        o({ dryRun: true, tenant: "t", signal, onProgress: () => {} }),
      ],
      guessKind: ["/dev/null/none"],
    },
  ],
};

const isClass = (value: object): boolean =>
  Object.getOwnPropertyDescriptor(value, "prototype")?.writable === false;

describe.each(Object.entries(functions))("%s", (module, [exported, calls]) => {
  const found = Object.entries(exported).filter(
    ([, value]) => typeof value === "function" && !isClass(value as object),
  );

  test("the table names every function", () => {
    expect(Object.keys(calls).sort()).toEqual(found.map(([name]) => name).sort());
  });

  test.each(Object.entries(calls))("%s", async (name, args) => {
    const run: Run = (given) => call(exported, name, given);
    expect(await tryBags(`${module}.${name}`, args, run)).toEqual([]);
    expect(await tryAll(`${module}.${name}`, args, run)).toEqual([]);
  });
});

test("what is missing is named, with what to give", async () => {
  const { hold } = await openWorld("memory:");
  expect(() => hold.agent(undefined as never)).toThrow(
    "agent: give an object with at least a name and a model, not undefined.",
  );
  await expect(testing.everyCrash({} as never)).rejects.toMatchObject({
    code: "INVALID_OPTION",
    details: { path: "everyCrash.make" },
  });
  await expect(hold.checkpoints.create("free", 5 as never)).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
  await hold.close();
});

test("checkpoints.latest of a session that does not exist is undefined", async () => {
  const { hold, checkpoint } = await openWorld("memory:");
  expect(await hold.checkpoints.latest("nowhere")).toBeUndefined();
  expect(await hold.checkpoints.latest("free")).toMatchObject({ id: checkpoint.id });
  await hold.close();
});
