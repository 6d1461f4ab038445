/**
 * Options and inputs are read in one place. A bag that is no plain object, a misspelt name
 * or a wrong type is refused before anything is done. `test/api/bad-arguments.test.ts` runs the
 * same bags over every public call.
 */
import { createContext, runInContext } from "node:vm";
import { afterEach, describe, expect, test } from "vitest";
import { type Holdfast, HoldfastError, open } from "../../src/index.js";
import { type StoreTool, TOOL_NAMES, type ToolName } from "../../src/tools/index.js";
import { errorOf } from "../support/error-of.js";
import { stores } from "../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

/** A store with a conversation that has gone on after a checkpoint. */
async function world(address = "memory:") {
  const hold = await open(address);
  opened.push(hold);
  const session = await hold.session("talk", { agent: "ann" });
  session.append({ role: "user", content: "kelp one" });
  const checkpoint = await session.checkpoint("first");
  session.append({ role: "user", content: "kelp two" });
  await session.checkpoint("second");
  await session.close();
  await hold.agents.save({ id: "ann" });
  return { hold, at: checkpoint.id, tools: hold.tools() as Record<ToolName, StoreTool> };
}

async function everything(hold: Holdfast): Promise<string> {
  let rows = "";
  for await (const row of hold.export()) rows += row;
  return rows;
}

class Settings {
  dryRun = true;
}

/** Each asks for a dry run, in a way that has no own field `dryRun` of a plain object. */
const bags: readonly (readonly [what: string, bag: unknown])[] = [
  ["Map", new Map([["dryRun", true]])],
  ["Set", new Set(["dryRun"])],
  ["Date", new Date(0)],
  ["Promise", Promise.resolve({ dryRun: true })],
  ["array", [["dryRun", true]]],
  ["function", Object.assign(() => true, { dryRun: true })],
  ["class instance", new Settings()],
  ["inherited", Object.create({ dryRun: true })],
  [
    "inherited from no prototype",
    Object.create(Object.assign(Object.create(null), { dryRun: true })),
  ],
  ["URLSearchParams", new URLSearchParams({ dryRun: "true" })],
  ["Headers", new Headers({ dryRun: "true" })],
  ["RegExp", /dryRun/],
  ["Error", Object.assign(new Error("x"), { dryRun: true })],
];

describe.each(stores)("a bag of options on $name", ({ address }) => {
  test("is a plain object, or the call is refused and nothing is changed", async () => {
    const { hold, at } = await world(address());
    const snapshot = await hold.agents.snapshot("ann");
    const before = await everything(hold);
    for (const [what, bag] of bags)
      for (const run of [
        () => hold.sessions.redact("talk", "kelp", bag as never),
        () => hold.sessions.delete("talk", bag as never),
        () => hold.checkpoints.prune("talk", bag as never),
        () => hold.agents.restore(snapshot.id, bag as never),
        () => hold.sessions.rewind("talk", at, bag as never),
        () => hold.gc(bag as never),
      ])
        expect(await errorOf(run), `${what}: ${run}`).toMatchObject({
          code: "INVALID_OPTION",
          message: expect.stringMatching(/plain object/),
        });
    expect(await everything(hold)).toBe(before);
    // The control: the same call with a plain object is made.
    await hold.sessions.redact("talk", "kelp", {});
    expect(await everything(hold)).not.toBe(before);
  });
});

test("a plain object of another realm, or without a prototype, is taken", async () => {
  const { hold } = await world();
  const before = await everything(hold);
  const foreign: unknown = runInContext("({ dryRun: true })", createContext());
  const bare: unknown = Object.assign(Object.create(null), { dryRun: true });
  for (const bag of [
    foreign,
    bare,
    Object.freeze({ dryRun: true }),
    new Proxy({ dryRun: true }, {}),
  ])
    expect(await hold.sessions.redact("talk", "kelp", bag as never)).toMatchObject({
      records: expect.any(Number),
    });
  expect(await everything(hold)).toBe(before);
});

test("a map of tools or of labels is refused, and not taken for an empty one", async () => {
  const { hold } = await world();
  const model = { generate: () => ({ content: "x" }) };
  expect(
    await errorOf(() => hold.agent({ name: "a", model, tools: new Map() } as never)),
  ).toMatchObject({ code: "INVALID_OPTION" });
  expect(
    await errorOf(() => hold.agents.snapshot("ann", { labels: new Map([["talk", "x"]]) } as never)),
  ).toMatchObject({
    code: "INVALID_OPTION",
  });
});

test("a misspelt option is refused with the name that is close to it", async () => {
  const { hold } = await world();
  expect(
    await errorOf(() => hold.sessions.redact("talk", "kelp", { dryrun: true } as never)),
  ).toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringMatching(
      /there is no option "dryrun" \(did you mean "dryRun"\?\); known are/,
    ),
  });
  expect(
    await errorOf(() => hold.sessions.redact("talk", "kelp", { zebra: true } as never)),
  ).toMatchObject({
    message: expect.stringMatching(/there is no option "zebra"; known are with, dryRun/),
  });
});

describe("inputs of tools", () => {
  type Way = (tool: StoreTool, input: unknown) => Promise<unknown>;
  const context = { key: "k", signal: new AbortController().signal, session: { id: "other" } };
  const ways: readonly (readonly [string, Way])[] = [
    ["execute", (tool, input) => tool.execute(input)],
    ["run", (tool, input) => tool.run(input, context as never)],
  ];

  test.each(ways)(
    "%s refuses with a code what does not fit, for every tool, and changes nothing",
    async (way, call) => {
      const { hold, at, tools } = await world();
      const before = await everything(hold);
      const unfit = [
        undefined,
        null,
        5,
        "x",
        [],
        () => {},
        new Map([["id", at]]),
        new Date(0),
        Promise.resolve({ id: at }),
      ];
      const misspelt = [
        { id: at, dryrun: true },
        { id: "talk", idempotencykey: "k" },
        { id: 5 },
        { id: { id: at } },
      ];
      const inherited = [Object.assign(new Settings(), { id: at }), Object.create({ id: at })];
      for (const name of TOOL_NAMES)
        for (const input of [...unfit, ...misspelt, ...inherited]) {
          const error = (await errorOf(() => call(tools[name], input))) as Error;
          // Our loop is told that nothing was done, and why.
          const cause = way === "run" ? error.cause : error;
          expect(cause, `${name} ${String(input)}: ${error}`).toBeInstanceOf(HoldfastError);
          expect((cause as HoldfastError).code).toMatch(/^INVALID_/);
        }
      expect(await everything(hold)).toBe(before);
    },
  );

  test.each(ways)(
    "LEASE-1: %s refuses with a code what throws when it is read, for every tool, and changes nothing",
    async (way, call) => {
      const { hold, at, tools } = await world();
      const before = await everything(hold);
      const throws = (): never => {
        throw new Error("boom");
      };
      const revoked = (target: object): object => {
        const { proxy, revoke } = Proxy.revocable(target, {});
        revoke();
        return proxy;
      };
      // Lets itself be read for the check, and throws when its fields are looked at again.
      const once = () => {
        let asked = 0;
        return new Proxy(
          { id: at },
          { ownKeys: (target) => (++asked > 2 ? throws() : Reflect.ownKeys(target)) },
        );
      };
      const unreadable: Readonly<Record<string, () => unknown>> = {
        keys: () => new Proxy({}, { ownKeys: throws }),
        prototype: () => new Proxy({}, { getPrototypeOf: throws }),
        descriptor: () => new Proxy({ id: at }, { getOwnPropertyDescriptor: throws }),
        value: () => new Proxy({ id: at }, { get: throws }),
        getter: () => Object.defineProperty({}, "id", { enumerable: true, get: throws }),
        revoked: () => revoked({}),
        "revoked list": () => revoked([]),
        "field that is revoked": () => ({
          id: revoked({}),
          messages: revoked([]),
          state: revoked({}),
        }),
        "error that cannot be said": () =>
          new Proxy(
            {},
            {
              ownKeys: () => {
                throw Object.create(null);
              },
            },
          ),
      };
      for (const name of TOOL_NAMES)
        for (const [what, input] of Object.entries(unreadable)) {
          const error = (await errorOf(() => call(tools[name], input()))) as Error;
          const cause = way === "run" ? error.cause : error;
          expect(cause, `${name}, ${what}: ${error}`).toBeInstanceOf(HoldfastError);
          expect((cause as HoldfastError).code).toBe("INVALID_VALUE");
        }
      const late = (await errorOf(() => call(tools.checkpoint_restore, once()))) as Error;
      expect(way === "run" ? late.cause : late).toMatchObject({
        code: "INVALID_VALUE",
        message: expect.stringMatching(/threw an error/),
      });
      expect(await everything(hold)).toBe(before);
      // The control: a proxy that can be read is taken.
      await call(tools.checkpoint_restore, new Proxy({ id: at }, {}));
      expect(await everything(hold)).not.toBe(before);
    },
  );

  test("a misspelt name is told with the one that is close to it", async () => {
    const { tools, at } = await world();
    expect(
      await errorOf(() => tools.checkpoint_restore.execute({ id: at, dryrun: true })),
    ).toMatchObject({
      code: "INVALID_VALUE",
      message: expect.stringMatching(/There is no "dryrun" \(did you mean "dryRun"\?\)/),
    });
    expect(
      await errorOf(() => tools.agent_save.execute({ id: "ann", idempotencykey: "k" })),
    ).toMatchObject({
      message: expect.stringMatching(/did you mean "idempotencyKey"\?/),
    });
  });

  test("a tool acts on the input that was checked, not on a second reading of them", async () => {
    const { hold, at, tools } = await world();
    const before = await everything(hold);
    let reads = 0;
    const input = Object.defineProperty({ id: at }, "dryRun", {
      enumerable: true,
      get() {
        reads += 1;
        return reads === 1 ? true : undefined;
      },
    });
    await tools.checkpoint_restore.execute(input);
    expect(reads).toBe(1);
    expect(await everything(hold)).toBe(before);
    // The control.
    await tools.checkpoint_restore.execute({ id: at });
    expect(await everything(hold)).not.toBe(before);
  });

  test("what is given beside the input is checked as well", async () => {
    const { hold, tools } = await world();
    const before = await everything(hold);
    for (const beside of [
      5,
      "x",
      null,
      [],
      new Map(),
      new Date(0),
      { abortSignal: 5 },
      { abortSignal: {} },
    ])
      expect(
        await errorOf(() => tools.conversation_delete.execute({ id: "talk" }, beside as never)),
        String(beside),
      ).toMatchObject({
        code: "INVALID_OPTION",
      });
    expect(await everything(hold)).toBe(before);
    // Other loops pass fields of their own.
    const loops = { toolCallId: "c", messages: [], abortSignal: undefined };
    expect(await tools.conversation_delete.execute({ id: "talk" }, loops)).toMatchObject({
      deleted: true,
    });
  });

  test("whether a call must be approved is read once", async () => {
    const { hold } = await world();
    let reads = 0;
    const o = {
      get approval() {
        reads += 1;
        return reads === 1;
      },
    };
    expect(hold.tools(o).conversation_delete.needsApproval).toBe(true);
  });
});
