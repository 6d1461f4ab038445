/**
 * Bad input on every method that takes it, on every store: refused with a stable code and nothing
 * written, or inert, which is stored and returned equal and never interpreted. Never a raw
 * TypeError, a driver's error, a crash or a wait of more than two seconds.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { runInNewContext } from "node:vm";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import {
  type Checkpoint,
  type ErrorCode,
  type Holdfast,
  HoldfastError,
  type Message,
  open,
  type Session,
  type SessionEvent,
} from "../../src/index.js";
import { errorOf } from "../support/error-of.js";
import { type StoreKind, stores } from "../support/stores.js";

// ---- the world that bad input is thrown at

type Plain = Record<string, unknown>;

interface World {
  readonly hold: Holdfast;
  /** Held open, with two messages, a list under `list` and two checkpoints. */
  readonly own: Session<Plain>;
  readonly first: Checkpoint;
  readonly second: Checkpoint;
  /** A checkpoint of the session `other`, which nobody holds. */
  readonly foreign: Checkpoint;
  /** All that can be seen of it, before anything was thrown. */
  readonly untouched: unknown;
}

async function build(address: string): Promise<World> {
  const hold = await open(address);
  const own = await hold.session<Plain>("own", { agent: "agent", tags: ["tag"] });
  own.append({ role: "user", content: "one", id: "m1" });
  own.set("list", [1, 2, 3]);
  const first = await own.checkpoint("first");
  own.append({ role: "assistant", content: "two" });
  const second = await own.checkpoint("second");
  const other = await hold.session("other");
  other.append({ role: "user", content: "of another session" });
  const foreign = await other.checkpoint();
  await other.close();
  return { hold, own, first, second, foreign, untouched: await contents(hold, own) };
}

/**
 * The same world for every row, and a new one after a failure: what a wrongly accepted row left
 * behind must not fail the next.
 */
function worldOf({ address }: StoreKind): () => Promise<World> {
  let world: World | undefined;
  const end = async () => {
    await world?.hold.close();
    world = undefined;
  };
  afterEach(({ task }) => (task.result?.state === "fail" ? end() : undefined));
  afterAll(end);
  return async () => {
    world ??= await build(address());
    return world;
  };
}

async function contents(hold: Holdfast, own: World["own"]): Promise<unknown> {
  return {
    stats: await hold.stats(),
    sessions: (await hold.sessions.list({ limit: 1_000 })).items,
    checkpoints: (await hold.checkpoints.list("own", { limit: 1_000, branches: "all" })).items,
    held: {
      messages: own.messages,
      state: own.state,
      status: own.status,
      ended: own.signal.aborted,
    },
  };
}

// ---- what a refusal is

type Call = (world: World) => unknown;

const LONGEST_MS = 2_000;

async function expectRefused(
  world: World,
  call: Call,
  codes: readonly ErrorCode[],
): Promise<HoldfastError> {
  const started = process.cpuUsage();
  const late = sleep(LONGEST_MS, undefined, { ref: false }).then(
    () => new Error(`it waited for ${LONGEST_MS} ms`),
  );
  const error = await Promise.race([errorOf(() => call(world)), late]);
  // By the processor's time, not the clock's: a call that blocks is caught, and a busy machine is
  // not.
  expect(process.cpuUsage(started).user / 1_000).toBeLessThan(LONGEST_MS);
  expect(error).toBeInstanceOf(HoldfastError);
  const { code, message, details } = error as HoldfastError;
  expect(codes, message).toContain(code);
  // Shown in terminals and logs: nothing the caller gave may steer them, or flood them.
  expect(message).not.toMatch(/\p{Cc}/u);
  expect(message.length).toBeLessThan(4_000);
  if (code.startsWith("INVALID_")) expect(details.path).toEqual(expect.any(String));
  if (code === "INVALID_ID" || code === "INVALID_VALUE") expect(message).toContain(details.path);
  expect(await contents(world.hold, world.own)).toEqual(world.untouched);
  // Still usable: a closed or superseded session would throw here.
  world.own.unset("never set");
  return error as HoldfastError;
}

/** The first event of a session. One that does not come is a wait for ever. */
async function firstEvent(events: AsyncIterable<SessionEvent>): Promise<SessionEvent | undefined> {
  const late = sleep(500, undefined, { ref: false }).then(() =>
    expect.fail("it waits for something that will never come"),
  );
  return (await Promise.race([events[Symbol.asyncIterator]().next(), late])).value as
    | SessionEvent
    | undefined;
}

/** Typed callers cannot pass these; callers without types do. */
const untyped = (value: unknown): never => value as never;

type Row = readonly [what: string, value: () => unknown];
const named = (values: Readonly<Record<string, unknown>>): Row[] =>
  Object.entries(values).map(([what, value]) => [what, () => value]);
const cross = <A, B>(as: readonly A[], bs: readonly B[]): (readonly [A, B])[] =>
  as.flatMap((a) => bs.map((b) => [a, b] as const));

// ---- ids

const ESCAPE = "\u001b[2J";

const refusedIds: readonly Row[] = named({
  "the empty string": "",
  NUL: "a\0b",
  "a terminal escape": ESCAPE,
  "a line break": "a\nb",
  DEL: "a\u007f",
  "a C1 control": "\u009b31m",
  "a high surrogate alone": "a\ud800",
  "a low surrogate alone": "\udc00a",
  "201 bytes": "x".repeat(201),
  "201 bytes in 67 characters": "€".repeat(67),
  "a megabyte": "x".repeat(1_000_000),
  null: null,
  "a number": 7,
  NaN: Number.NaN,
  true: true,
  "a bigint": 1n,
  "a symbol": Symbol("own"),
  "an object": {},
  "an object that reads as an id": { toString: () => "own" },
  "an array": ["own"],
  "a String object": new String("own"),
  "a function": () => "own",
  "an object without prototype": Object.create(null),
  // The name of a constructor is what a message would show, and here it is the caller's.
  "an object that cannot be named": JSON.parse('{"constructor":{"name":{"toString":0}}}'),
  "an object named by an escape": { constructor: { name: ESCAPE } },
});

interface IdPlace {
  readonly name: string;
  readonly call: (world: World, id: unknown) => unknown;
  readonly codes?: readonly ErrorCode[];
  /** Where undefined means that none is given. */
  readonly optional?: true;
  /** Where the language itself makes text of it. */
  readonly textOnly?: true;
  /**
   * Where an object in place of the id says something else: options of a session that is given an
   * id, a filter.
   */
  readonly orObject?: true;
}

const withId = (id: unknown) => untyped({ role: "user", content: "x", id });
const withParent = (parentId: unknown) => untyped({ role: "user", content: "x", parentId });
/** A message is a value first: what is no JSON at all is refused as that. */
const inMessage = { codes: ["INVALID_ID", "INVALID_VALUE"], optional: true } as const;

const sessionIdPlaces: readonly IdPlace[] = [
  {
    name: "hold.session",
    call: ({ hold }, id) => hold.session<Plain>(untyped(id)),
    orObject: true,
  },
  {
    name: "hold.sessions.fork, id",
    call: ({ hold, first }, id) => hold.sessions.fork(first.id, { id: untyped(id) }),
  },
  {
    name: "session.fork, id",
    call: ({ own, first }, id) => own.fork(first.id, { id: untyped(id) }),
  },
  { name: "sessions.get", call: ({ hold }, id) => hold.sessions.get(untyped(id)) },
  {
    name: "sessions.update",
    call: ({ hold }, id) => hold.sessions.update(untyped(id), { title: "x" }),
  },
  {
    name: "sessions.append",
    call: ({ hold }, id) => hold.sessions.append(untyped(id), [{ role: "user", content: "x" }]),
  },
  {
    name: "sessions.transcript",
    call: ({ hold }, id) => hold.sessions.transcript(untyped(id), { format: "openai" }),
  },
  { name: "sessions.delete", call: ({ hold }, id) => hold.sessions.delete(untyped(id)) },
  { name: "sessions.has", call: ({ hold }, id) => hold.sessions.has(untyped(id)) },
  {
    name: "checkpoints.list",
    call: ({ hold }, id) => hold.checkpoints.list(untyped(id)),
    orObject: true,
  },
  { name: "checkpoints.latest", call: ({ hold }, id) => hold.checkpoints.latest(untyped(id)) },
  {
    name: "checkpoints.prune",
    call: ({ hold }, id) => hold.checkpoints.prune(untyped(id), { keep: 0 }),
  },
  {
    name: "hold.sessions.events",
    call: ({ hold }, id) => firstEvent(hold.sessions.events(untyped(id))),
  },
  { name: "hold.sessions.cancel", call: ({ hold }, id) => hold.sessions.cancel(untyped(id)) },
  {
    name: "hold.verify",
    call: ({ hold }, id) => hold.verify({ sessionId: untyped(id) }),
    optional: true,
  },
];

const namePlaces: readonly IdPlace[] = [
  {
    name: "hold.session, agent",
    call: ({ hold }, id) => hold.session("fresh", { agent: untyped(id) }),
    optional: true,
  },
  {
    name: "hold.session, a tag",
    call: ({ hold }, id) => hold.session("fresh", { tags: [untyped(id)] }),
  },
  {
    name: "sessions.list, agent",
    call: ({ hold }, id) => hold.sessions.list({ agent: untyped(id) }),
    optional: true,
  },
  {
    name: "sessions.list, tag",
    call: ({ hold }, id) => hold.sessions.list({ tag: untyped(id) }),
    optional: true,
  },
  {
    name: "sessions.append, key",
    call: ({ hold }, key) =>
      hold.sessions.append("own", [{ role: "user", content: "x" }], { key: untyped(key) }),
    optional: true,
  },
  {
    name: "sessions.update, a tag",
    call: ({ hold }, id) => hold.sessions.update("own", { tags: ["fine", untyped(id)] }),
  },
  { name: "session.set, key", call: ({ own }, id) => own.set(untyped(id), 1) },
  { name: "session.unset, key", call: ({ own }, id) => own.unset(untyped(id)) },
  { name: "session.splice, key", call: ({ own }, id) => own.splice(untyped(id), 0, 0) },
  {
    name: "session.save, a state key",
    call: ({ own }, id) => own.save({ state: { list: [1, 2, 3], [untyped(id)]: 1 } }),
    codes: ["INVALID_ID", "INVALID_VALUE"],
    textOnly: true,
  },
  {
    name: "session.append, message id",
    call: ({ own }, id) => own.append({ role: "user", content: "fine" }, withId(id)),
    ...inMessage,
  },
  {
    name: "session.append, parentId",
    call: ({ own }, id) => own.append(withParent(id)),
    ...inMessage,
  },
  {
    name: "session.splice, message id",
    call: ({ own }, id) => own.splice("messages", 0, 1, withId(id)),
    ...inMessage,
  },
  {
    name: "session.save, message id",
    call: ({ own }, id) => own.save({ messages: [withId(id)] }),
    ...inMessage,
  },
];

const checkpointIdPlaces: readonly IdPlace[] = [
  {
    name: "hold.sessions.fork",
    call: ({ hold }, id) => hold.sessions.fork(untyped(id), { id: "fresh" }),
  },
  { name: "session.fork", call: ({ own }, id) => own.fork(untyped(id), { id: "fresh" }) },
  { name: "session.rewind", call: ({ own }, id) => own.rewind(untyped(id)) },
  { name: "session.switchBranch", call: ({ own }, id) => own.switchBranch(untyped(id)) },
  { name: "checkpoints.state", call: ({ hold }, id) => hold.checkpoints.state(untyped(id)) },
  {
    name: "checkpoints.diff, from",
    call: ({ hold, first }, id) => hold.checkpoints.diff(untyped(id), first.id),
  },
  {
    name: "checkpoints.diff, to",
    call: ({ hold, first }, id) => hold.checkpoints.diff(first.id, untyped(id)),
  },
];
/** That there is none is an answer of these. */
const checkpointsDelete: IdPlace = {
  name: "checkpoints.delete",
  call: ({ hold }, id) => hold.checkpoints.delete(untyped(id)),
};
const checkpointsHas: IdPlace = {
  name: "checkpoints.has",
  call: ({ hold }, id) => hold.checkpoints.has(untyped(id)),
};
const checkpointsGet: IdPlace = {
  name: "checkpoints.get",
  call: ({ hold }, id) => hold.checkpoints.get(untyped(id)),
};

/** What is refused is refused before a store is asked: one in memory and one on disk. */
const two = stores.filter(({ name }) => name === "memory" || name === "sqlite");

describe.each(two)("ids that are refused: $name", (store) => {
  const theWorld = worldOf(store);
  const missing: Row = ["undefined", () => undefined];
  for (const place of [
    ...sessionIdPlaces,
    ...namePlaces,
    checkpointsGet,
    checkpointsHas,
    checkpointsDelete,
    ...checkpointIdPlaces,
  ]) {
    const rows = place.optional || place.textOnly ? refusedIds : [...refusedIds, missing];
    const isTried = (value: unknown) =>
      place.textOnly
        ? typeof value === "string"
        : !place.orObject || typeof value !== "object" || value === null;
    for (const [what, value] of rows.filter(([, given]) => isTried(given())))
      test(`${place.name}: ${what}`, async () => {
        await expectRefused(
          await theWorld(),
          (world) => place.call(world, value()),
          place.codes ?? ["INVALID_ID"],
        );
      });
  }

  const strangers = [
    "%",
    "*",
    "_",
    "own%",
    "OWN",
    "own ",
    "ow_",
    "' OR 1=1 --",
    "../own",
    "__proto__",
    "constructor",
  ];
  const readers = sessionIdPlaces.filter(
    ({ name }) =>
      ![
        "hold.session",
        "hold.sessions.fork, id",
        "session.fork, id",
        "sessions.get",
        "sessions.has",
        "sessions.delete",
        "checkpoints.latest",
      ].includes(name),
  );
  for (const [place, id] of cross(readers, strangers))
    test(`${place.name}: no pattern and no path, ${id} is a session that is not there`, async () => {
      await expectRefused(await theWorld(), (world) => place.call(world, id), ["NOT_FOUND"]);
    });

  test.each(strangers)(
    "sessions.get and checkpoints.latest: %s is a session that is not there",
    async (id) => {
      const { hold } = await theWorld();
      expect(await hold.sessions.get(id)).toBeUndefined();
      expect(await hold.checkpoints.latest(id)).toBeUndefined();
      expect(await hold.sessions.has(id)).toBe(false);
      expect(await hold.sessions.delete(id)).toMatchObject({ deleted: false });
    },
  );

  test.each(["set", "unset", "save"] as const)(
    "session.%s: `messages` is not a state key",
    async (method) => {
      const calls = {
        set: ({ own }) => own.set("messages", []),
        unset: ({ own }) => own.unset("messages"),
        save: ({ own }) => own.save({ state: { messages: [] } }),
      } satisfies Record<string, Call>;
      await expectRefused(await theWorld(), calls[method], ["INVALID_OPTION"]);
    },
  );
});

describe.each(stores)("checkpoint ids that name nothing: $name", (store) => {
  const theWorld = worldOf(store);
  const lineOf = ({ first }: World) => first.id.slice(0, 16);
  const rows: readonly (readonly [what: string, id: (world: World) => string])[] = [
    ["the highest number", (world) => `${lineOf(world)}-4294967295`],
    ["a number past the highest", (world) => `${lineOf(world)}-4294967296`],
    ["a huge number", (world) => `${lineOf(world)}-99999999999999999999`],
    ["number 0", (world) => `${lineOf(world)}-0`],
    ["a negative number", (world) => `${lineOf(world)}--2`],
    ["a number with a leading zero", (world) => `${lineOf(world)}-0${world.first.seq}`],
    ["a number in another notation", (world) => `${lineOf(world)}-2e0`],
    ["the place of a message", (world) => `${lineOf(world)}-1`],
    ["another line", ({ first }) => `0000000000000000-${first.seq}`],
    ["upper case", ({ first }) => first.id.toUpperCase().replace(/^\d+-/, "X-")],
    ["space around it", ({ first }) => ` ${first.id} `],
    ["a pattern", ({ first }) => first.id.replace(/^./, "_")],
    ["a session id", () => "own"],
    ["a path", () => "../../etc/passwd"],
    ["__proto__", () => "__proto__"],
  ];
  for (const [place, [what, id]] of cross(checkpointIdPlaces, rows))
    test(`${place.name}: ${what}`, async () => {
      await expectRefused(await theWorld(), (world) => place.call(world, id(world)), ["NOT_FOUND"]);
    });

  test.each(rows)("checkpoints.get: %s", async (_, id) => {
    const world = await theWorld();
    expect(await world.hold.checkpoints.get(id(world))).toBeUndefined();
    expect(await world.hold.checkpoints.has(id(world))).toBe(false);
    expect(await world.hold.checkpoints.delete(id(world))).toEqual({
      deleted: false,
      checkpoints: 0,
    });
    expect(await contents(world.hold, world.own)).toEqual(world.untouched);
  });

  test("a checkpoint of another session is not one to rewind to or to switch to", async () => {
    const world = await theWorld();
    await expectRefused(world, ({ own, foreign }) => own.rewind(foreign.id), ["CONFLICT"]);
    await expectRefused(world, ({ own, foreign }) => own.switchBranch(foreign.id), ["CONFLICT"]);
  });

  test("nor is one of a fork, or, to switch to, one that a fork shares", async () => {
    const { hold, own, first } = await build(store.address());
    const fork = await own.fork(first.id, { id: "fork" });
    fork.append({ role: "user", content: "on the fork" });
    const onFork = await fork.checkpoint();
    expect(await errorOf(() => own.rewind(onFork.id))).toMatchObject({ code: "CONFLICT" });
    expect(await errorOf(() => own.switchBranch(onFork.id))).toMatchObject({ code: "CONFLICT" });
    expect(await errorOf(() => fork.switchBranch(first.id))).toMatchObject({ code: "CONFLICT" });
    await hold.close();
  });
});

const inertIds: readonly string[] = [
  "../../etc/passwd",
  "..",
  ".",
  "/",
  "C:\\x",
  "a/b",
  "-rf",
  "--help",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "session",
  "Session",
  "%",
  "*",
  "_",
  "?",
  "'",
  '"',
  "`",
  "\\",
  "x'); DROP TABLE session; --",
  "x') OR 1=1 --",
  "<script>",
  "${x}",
  "null",
  "undefined",
  "0",
  "-0",
  "true",
  " ",
  "🦑",
  "👨‍👩‍👧‍👦",
  "\u00e9",
  "e\u0301",
  "\u202etxt.exe",
  "\u2028",
  "\ufeff",
  "\uffff",
  "memory:",
  "0000000000000000-1",
  "A".repeat(43),
  "x".repeat(200),
  `${"€".repeat(66)}xx`,
  "🦑".repeat(50),
];

describe.each(stores)("ids that are inert: $name", ({ address, traits: { durable } }) => {
  test("each is a session, an agent, a tag, a state key and a message id of its own", async () => {
    const at = address();
    let hold = await open(at);
    for (const id of inertIds) {
      const session = await hold.session<Record<string, string>>(id, { agent: id, tags: [id] });
      session.set(id, id);
      session.append({ role: "user", content: id, id, parentId: id });
      await session.checkpoint(id);
      await session.close();
    }
    if (durable) {
      await hold.close();
      hold = await open(at);
    }
    const all = await hold.sessions.list({ limit: 1_000 });
    expect(all.items.map(({ id }) => id)).toEqual(inertIds.toReversed());
    expect(await hold.stats()).toMatchObject({
      sessions: inertIds.length,
      agents: inertIds.length,
    });
    for (const id of inertIds) {
      expect((await hold.sessions.list({ agent: id })).items.map((session) => session.id)).toEqual([
        id,
      ]);
      expect((await hold.sessions.list({ tag: id })).items.map((session) => session.id)).toEqual([
        id,
      ]);
      const { state, messages, agent, tags } = await hold.session(id);
      expect(Object.entries(state)).toEqual([[id, id]]);
      expect(messages).toMatchObject([{ id, parentId: id, content: id }]);
      expect({ agent, tags }).toEqual({ agent: id, tags: [id] });
    }
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    await hold.close();
  });

  test("deleting one deletes no other", async () => {
    const hold = await open(address());
    for (const id of inertIds) await (await hold.session(id)).close();
    const left = [...inertIds];
    for (const id of inertIds) {
      await hold.sessions.delete(id);
      left.splice(left.indexOf(id), 1);
      const { items } = await hold.sessions.list({ limit: 1_000 });
      expect(items.map((session) => session.id)).toEqual(left.toReversed());
    }
    await hold.close();
  });

  test.each(inertIds)(
    "%j through fork, diff, rewind, events, update, cancel and prune",
    async (id) => {
      const hold = await open(address());
      const session = await hold.session<Record<string, string>>("own");
      session.set(id, "before");
      const before = await session.checkpoint();
      session.set(id, "after");
      const after = await session.checkpoint();
      session.unset(id);
      const without = await session.checkpoint();

      expect(
        Object.entries((await hold.checkpoints.diff(before.id, after.id)).state.changed),
      ).toEqual([[id, { from: "before", to: "after" }]]);
      expect(
        Object.entries((await hold.checkpoints.diff(after.id, without.id)).state.removed),
      ).toEqual([[id, "after"]]);
      expect(
        Object.entries((await hold.checkpoints.diff(without.id, before.id)).state.added),
      ).toEqual([[id, "before"]]);
      expect(Object.entries((await hold.checkpoints.state(after.id)).state)).toEqual([
        [id, "after"],
      ]);
      expect(await firstEvent(hold.sessions.events("own"))).toMatchObject({
        type: "state",
        key: id,
        value: "before",
      });

      const fork = await hold.sessions.fork(before.id, { id });
      expect(fork.id).toBe(id);
      expect(await hold.sessions.update(id, { title: id, tags: [id] })).toMatchObject({
        id,
        title: id,
        tags: [id],
      });
      expect(await hold.checkpoints.latest(id)).toMatchObject({ id: before.id });
      const held = await hold.session(id);
      expect(Object.entries(held.state)).toEqual([[id, "before"]]);
      await held.close();
      await hold.sessions.cancel(id, id);
      expect(await hold.sessions.get(id)).toMatchObject({ status: "cancelled", reason: id });
      expect(await hold.checkpoints.prune(id, { keep: 0 })).toMatchObject({
        removed: expect.any(Number),
      });
      expect(await hold.sessions.get("own")).toMatchObject({ status: "in-progress" });

      await session.rewind(before.id);
      expect(Object.entries(session.state)).toEqual([[id, "before"]]);
      expect(Object.getPrototypeOf(session.state)).toBe(Object.prototype);
      expect(await hold.verify()).toMatchObject({ ok: true });
      await hold.close();
    },
  );

  test("a message id shaped like those the journal gives leads to no two messages with one id", async () => {
    const { hold, own, second } = await build(address());
    const line = second.id.slice(0, 16);
    const refused = await Promise.resolve()
      .then(() => own.append({ role: "user", content: "mine", id: `${line}-${second.seq + 2}` }))
      .then(() => false)
      .catch((error: unknown) => error instanceof HoldfastError);
    own.append({ role: "user", content: "the journal's" });
    await own.checkpoint();
    const ids = own.messages.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids).toHaveLength(refused ? 3 : 4);
    await hold.close();
  });
});

// ---- values

const nest = (levels: number, wrap: (inner: unknown) => unknown): unknown => {
  let value: unknown = "bottom";
  for (let i = 0; i < levels; i++) value = wrap(value);
  return value;
};
const lazy = <T>(make: () => T): (() => T) => {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

class Point {
  x = 1;
}
class Note {}

function cycle(): unknown {
  const circle: Record<string, unknown> = {};
  circle["again"] = { through: [circle] };
  return circle;
}

function throwing(trap: keyof ProxyHandler<object>): unknown {
  return new Proxy(
    {},
    {
      [trap]() {
        throw new Error("a trap");
      },
    },
  );
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/**
 * Thirty small objects, a billion paths. A walk along each path is stopped here, before it takes
 * all the memory there is.
 */
function explodingGraph(): unknown {
  let reads = 0;
  let value: unknown = {
    get leaf() {
      reads += 1;
      if (reads > 100_000) throw new Error("the walk goes along every path");
      return 1;
    },
  };
  for (let i = 0; i < 30; i++) value = [value, value];
  return value;
}

const LIMIT = 64 * 1024 * 1024;

interface BadValue {
  readonly what: string;
  readonly value: () => unknown;
  readonly code?: ErrorCode;
  /** The rest of the path, where it is known exactly. */
  readonly at?: string;
}

const refusedValues: readonly BadValue[] = [
  { what: "undefined in an array", value: () => undefined, at: "" },
  { what: "NaN", value: () => Number.NaN, at: "" },
  { what: "Infinity", value: () => Number.POSITIVE_INFINITY, at: "" },
  { what: "-Infinity", value: () => Number.NEGATIVE_INFINITY, at: "" },
  { what: "1n", value: () => 1n, at: "" },
  { what: "a symbol", value: () => Symbol("x"), at: "" },
  { what: "a function", value: () => () => 1, at: "" },
  { what: "a class", value: () => Point, at: "" },
  { what: "a class instance", value: () => new Point(), at: "" },
  { what: "a Date", value: () => new Date(), at: "" },
  { what: "a Map", value: () => new Map([["a", 1]]), at: "" },
  { what: "a Set", value: () => new Set([1]), at: "" },
  { what: "a RegExp", value: () => /x/, at: "" },
  { what: "an Error", value: () => new Error("x"), at: "" },
  { what: "a Promise", value: () => Promise.resolve(1), at: "" },
  { what: "a Uint8Array", value: () => new Uint8Array(3), at: "" },
  { what: "a Buffer", value: () => Buffer.from("x"), at: "" },
  { what: "an ArrayBuffer", value: () => new ArrayBuffer(3), at: "" },
  { what: "a boxed number", value: () => new Number(1), at: "" },
  { what: "a boxed string", value: () => new String("x"), at: "" },
  { what: "an object that inherits", value: () => Object.create({ a: 1 }), at: "" },
  {
    what: "an instance of a class that cannot be named",
    value: () => Object.create({ constructor: { name: Symbol("x") } }),
    at: "",
  },
  {
    what: "an instance of a class named by an escape",
    value: () => Object.create({ constructor: { name: ESCAPE } }),
    at: "",
  },
  { what: "a symbol as a key", value: () => ({ [Symbol("x")]: 1 }), at: "" },
  {
    what: "a symbol as a key of an array",
    value: () => Object.assign([1], { [Symbol("x")]: 1 }),
    at: "",
  },
  { what: "a named property of an array", value: () => Object.assign([1], { x: 1 }), at: "" },
  { what: "a toJSON method", value: () => ({ toJSON: () => 1 }), at: ".toJSON" },
  // oxlint-disable-next-line no-sparse-arrays -- the hole is the point
  { what: "a sparse array", value: () => [1, , 3], at: "[1]" },
  { what: "a vast sparse array", value: () => new Array(4_000_000_000), code: "TOO_LARGE" },
  { what: "an array with a NaN", value: () => ({ a: [0, Number.NaN] }), at: ".a[1]" },
  {
    what: "a throwing getter",
    value: () => Object.defineProperty({}, "x", { enumerable: true, get: () => nothing() }),
    at: ".x",
  },
  {
    what: "a throwing getter in an array",
    value: () => Object.defineProperty([1], 0, { get: () => nothing() }),
    at: "[0]",
  },
  { what: "a proxy that throws when asked for its keys", value: () => throwing("ownKeys") },
  {
    what: "a proxy that throws when asked for its prototype",
    value: () => throwing("getPrototypeOf"),
  },
  { what: "a revoked proxy", value: revoked },
  { what: "600 levels of arrays", value: lazy(() => nest(600, (inner) => [inner])) },
  { what: "600 levels of objects", value: lazy(() => nest(600, (inner) => ({ inner }))) },
  { what: "a million levels", value: lazy(() => nest(1_000_000, (inner) => [inner])) },
  { what: "a cycle", value: cycle },
  { what: "a high surrogate alone", value: () => "a\ud800b", at: "" },
  { what: "a low surrogate alone", value: () => "\udfff", at: "" },
  { what: "half a character in a key", value: () => ({ "\ud800": 1 }), at: '["\\ud800"]' },
  { what: "a string past the limit", value: lazy(() => "x".repeat(LIMIT + 1)), code: "TOO_LARGE" },
  { what: "shared references that would explode", value: explodingGraph, code: "TOO_LARGE" },
];

function nothing(): never {
  throw new Error("a getter");
}

interface ValuePlace {
  readonly name: string;
  /** Where the value is, as errors say it. */
  readonly path: string;
  readonly call: (world: World, value: unknown) => unknown;
}

const call = (input: unknown) => ({ type: "tool-call", callId: "c", name: "t", input });
const result = (output: unknown) => ({ type: "tool-result", callId: "c", outcome: "ok", output });
const opaque = (value: unknown) => ({ type: "opaque", format: "f", value });
const holding = (content: unknown) => untyped({ role: "assistant", content: [content] });
const about = (metadata: unknown) => untyped({ role: "user", content: "x", metadata });

const valuePlaces: readonly ValuePlace[] = [
  { name: "session.set", path: "state.k", call: ({ own }, value) => own.set("k", untyped(value)) },
  {
    name: "session.splice",
    path: "state.list[0]",
    call: ({ own }, value) => own.splice("list", 0, 1, untyped(value)),
  },
  {
    name: "session.save",
    path: "state.k",
    call: ({ own }, value) => own.save({ state: { k: untyped(value) } }),
  },
  {
    name: "session.append, metadata",
    path: "messages[2].metadata",
    call: ({ own }, value) => own.append(about(value)),
  },
  {
    name: "session.append, provider",
    path: "messages[2].provider.x",
    call: ({ own }, value) =>
      own.append(untyped({ role: "user", content: "x", provider: { x: value } })),
  },
  {
    name: "session.append, usage",
    path: "messages[2].reply.usage.raw",
    call: ({ own }, raw) =>
      own.append(
        untyped({ role: "assistant", content: "x", reply: { finish: "stop", usage: { raw } } }),
      ),
  },
  {
    name: "session.append, input",
    path: "messages[2].content[0].input",
    call: ({ own }, value) => own.append(holding(call(value))),
  },
  {
    name: "session.append, output",
    path: "messages[2].content[0].output",
    call: ({ own }, value) => own.append(holding(result(value))),
  },
  {
    name: "session.append, a part of an output",
    path: "messages[2].content[0].output[0].value",
    call: ({ own }, value) => own.append(holding(result([opaque(value)]))),
  },
  {
    name: "session.append, opaque",
    path: "messages[2].content[0].value",
    call: ({ own }, value) => own.append(holding(opaque(value))),
  },
  {
    name: "session.splice, messages",
    path: "messages[1].metadata",
    call: ({ own }, value) => own.splice("messages", 1, 1, about(value)),
  },
  {
    name: "session.save, messages",
    path: "messages[0].metadata",
    call: ({ own }, value) => own.save({ messages: [about(value)] }),
  },
  {
    name: "session.complete",
    path: "output",
    call: ({ own }, value) => own.complete(untyped(value)),
  },
  {
    name: "session.checkpoint",
    path: "checkpoint.metadata",
    call: ({ own }, value) => own.checkpoint({ metadata: untyped(value) }),
  },
  {
    name: "hold.session",
    path: "metadata",
    call: ({ hold }, value) => hold.session("fresh", { metadata: untyped(value) }),
  },
  {
    name: "sessions.update",
    path: "metadata",
    call: ({ hold }, value) => hold.sessions.update("own", { metadata: untyped(value) }),
  },
];

describe.each(two)("values that are refused: $name", (store) => {
  const theWorld = worldOf(store);
  for (const [place, { what, value, code = "INVALID_VALUE", at }] of cross(
    valuePlaces,
    refusedValues,
  ))
    test(`${place.name}: ${what}`, async () => {
      const given = { fine: 1, deep: [value()] };
      const { details } = await expectRefused(
        await theWorld(),
        (world) => place.call(world, given),
        [code],
      );
      // What is too large as a whole has no one offender: any part that holds it may be named.
      const path = `${place.path}.deep[0]`;
      if (at !== undefined) expect(details.path).toBe(`${path}${at}`);
      else
        expect(
          details.path?.startsWith(path) ||
            (code === "TOO_LARGE" && path.startsWith(details.path ?? "none")),
          details.path,
        ).toBe(true);
    });

  const tooLong = {
    "in bytes": lazy(() => "€".repeat(LIMIT / 3 + 1)),
    "once escaped": lazy(() => "\0".repeat(LIMIT / 6 + 1)),
  };
  // Only measuring tells these, and that takes a tenth of a second: one place for each way in.
  const ways = valuePlaces.filter(({ name }) =>
    ["session.set", "session.append, metadata", "session.complete", "hold.session"].includes(name),
  );
  for (const [place, [what, text]] of cross(ways, Object.entries(tooLong)))
    test(`${place.name}: a string past the limit ${what}`, async () => {
      await expectRefused(await theWorld(), (world) => place.call(world, { text: text() }), [
        "TOO_LARGE",
      ]);
    });

  test("undefined is no value", async () => {
    const { details } = await expectRefused(
      await theWorld(),
      ({ own }) => own.set("k", undefined),
      ["INVALID_VALUE"],
    );
    expect(details.path).toBe("state.k");
  });

  test.each([0, 2])(
    "session.splice: an item is named by where it would stand, from %d on",
    async (start) => {
      const { details } = await expectRefused(
        await theWorld(),
        ({ own }) => own.splice("list", start, 0, 0, Number.NaN),
        ["INVALID_VALUE"],
      );
      expect(details.path).toBe(`state.list[${start + 1}]`);
    },
  );

  test.each(["session.checkpoint", "hold.session", "sessions.update"])(
    "%s: metadata past its own limit",
    async (method) => {
      const place = valuePlaces.find(({ name }) => name === method) as ValuePlace;
      await expectRefused(
        await theWorld(),
        (world) => place.call(world, { text: "x".repeat(1024 * 1024) }),
        ["TOO_LARGE"],
      );
    },
  );

  for (const place of valuePlaces)
    test(`${place.name}: a getter is read once, so it cannot show another value later`, async () => {
      const world = await build(store.address());
      let reads = 0;
      const shifty = Object.defineProperty({}, "x", { enumerable: true, get: () => ++reads });
      await place.call(world, shifty);
      await world.own.checkpoint();
      expect(reads).toBe(1);
      await world.hold.close();
    });
});

const part = (value: unknown) => untyped({ role: "user", content: [value] });
const badFile = (data: unknown) => part({ type: "file", mediaType: "a/b", data });
const DIGEST = "A".repeat(43);

const malformedMessages: readonly Row[] = [
  ...named({
    undefined: undefined,
    null: null,
    "a number": 5,
    "a string": "hi",
    "an array": [],
    "a Date": new Date(),
    "a Map": new Map([["role", "user"]]),
    "no fields": {},
    "no content": { role: "user" },
    "no role": { content: "x" },
    "an unknown role": { role: "admin", content: "x" },
    "__proto__ as a role": { role: "__proto__", content: "x" },
    "an unknown field": { role: "user", content: "x", extra: 1 },
    "__proto__ as a field": JSON.parse('{"role":"user","content":"x","__proto__":{"admin":true}}'),
    "an escape as a field": { role: "user", content: "x", [ESCAPE]: 1 },
    "a field with a name of a megabyte": { role: "user", content: "x", ["x".repeat(1_000_000)]: 1 },
    "a symbol as a field": { role: "user", content: "x", [Symbol("x")]: 1 },
    "a class instance": Object.assign(new Note(), { role: "user", content: "x" }),
    "content of a number": { role: "user", content: 5 },
    "content of null": { role: "user", content: null },
    "content of an object": { role: "user", content: {} },
    "half a character": { role: "user", content: "\ud83d" },
    "a part of null": part(null),
    "a part of text": part("x"),
    "a part of an array": part([]),
    "a part of undefined": part(undefined),
    "a part without type": part({}),
    "a part of an unknown type": part({ type: "image" }),
    "a part of type __proto__": part({ type: "__proto__" }),
    "a part of type constructor": part({ type: "constructor" }),
    "a part whose type is an object": part({ type: {} }),
    "a text part without text": part({ type: "text" }),
    "a text part of a number": part({ type: "text", text: 5 }),
    "a part with an id of a number": part({ type: "text", text: "x", id: 5 }),
    "a part with a provider of a list": part({ type: "text", text: "x", provider: [] }),
    "a call without input": part({ type: "tool-call", callId: "c", name: "t" }),
    "a result with an unknown outcome": part({ ...result(1), outcome: "maybe" }),
    "a file without data": part({ type: "file", mediaType: "a/b" }),
    "a file without a media type": part({ type: "file", data: { url: "x" } }),
    "a file of null": badFile(null),
    "a file of nothing": badFile({}),
    "a file of two kinds": badFile({ url: "x", text: "x" }),
    "a file with bytes of text": badFile({ bytes: "x" }),
    "a file with bytes of an array": badFile({ bytes: [1] }),
    "a file with bytes of an ArrayBuffer": badFile({ bytes: new ArrayBuffer(1) }),
    "a file with a digest that is none": badFile({ digest: "x", sizeBytes: 1 }),
    "a file with a digest of an object": badFile({ digest: {}, sizeBytes: 1 }),
    "a file of a negative size": badFile({ digest: DIGEST, sizeBytes: -1 }),
    "a file with a url of an object": badFile({ url: {} }),
    "a name of a number": { role: "user", content: "x", name: 5 },
    "metadata of null": { role: "user", content: "x", metadata: null },
    "metadata of a list": { role: "user", content: "x", metadata: [] },
    "metadata of a Map": { role: "user", content: "x", metadata: new Map() },
    "a provider of text": { role: "user", content: "x", provider: "x" },
    "a reply of null": { role: "assistant", content: "x", reply: null },
    "a reply without finish": { role: "assistant", content: "x", reply: {} },
    "a reply with an unknown finish": {
      role: "assistant",
      content: "x",
      reply: { finish: "__proto__" },
    },
    "usage of a number": { role: "assistant", content: "x", reply: { finish: "stop", usage: 5 } },
  }),
  ["a revoked proxy", revoked],
  ["a proxy that throws when asked for its keys", () => throwing("ownKeys")],
  [
    "a throwing getter",
    () => Object.defineProperty({ role: "user" }, "content", { enumerable: true, get: nothing }),
  ],
  [
    "a throwing getter in a part",
    () => part(Object.defineProperty({}, "type", { enumerable: true, get: nothing })),
  ],
  [
    "a throwing getter in a file",
    () => badFile(Object.defineProperty({}, "bytes", { enumerable: true, get: nothing })),
  ],
  ["a revoked proxy as content", () => ({ role: "user", content: revoked() })],
  ["a revoked proxy as a part", () => part(revoked())],
  [
    "a million levels of content",
    lazy(() => ({ role: "user", content: nest(1_000_000, (inner) => [inner]) })),
  ],
  ["a million levels of results", lazy(() => part(nest(1_000_000, (inner) => result([inner]))))],
  [
    "a result that holds itself",
    () => {
      const output: unknown[] = [];
      output.push(result(output));
      return part(result(output));
    },
  ],
];

describe.each(two)("messages that are refused: $name", (store) => {
  const theWorld = worldOf(store);
  const fine = { role: "user", content: "fine" } as const;
  const takers: readonly (readonly [string, (world: World, message: unknown) => unknown])[] = [
    ["session.append", ({ own }, message) => own.append(fine, untyped(message))],
    ["session.splice", ({ own }, message) => own.splice("messages", 0, 2, fine, untyped(message))],
    [
      "session.save",
      ({ own }, message) => own.save({ messages: [fine, untyped(message)], state: {} }),
    ],
  ];
  for (const [[method, take], [what, message]] of cross(takers, malformedMessages))
    test(`${method}: ${what}`, async () => {
      const { details } = await expectRefused(await theWorld(), (world) => take(world, message()), [
        "INVALID_VALUE",
      ]);
      expect(details.path).toMatch(/^messages\[\d+\]/);
    });

  test("a part's getters are read once", async () => {
    const { hold, own } = await build(store.address());
    let reads = 0;
    const type = { enumerable: true, get: () => (++reads, "text") };
    own.append(part(Object.defineProperty({ text: "x" }, "type", type)));
    expect(reads).toBe(1);
    await hold.close();
  });
});

interface InertValue {
  readonly what: string;
  readonly value: unknown;
  /** What comes back, where that is not the same. */
  readonly expected?: unknown;
}

const shared = { a: [1] };

const inertValues: readonly InertValue[] = [
  { what: "__proto__ as a key", value: JSON.parse('{"__proto__":{"admin":true}}') },
  {
    what: "__proto__ as a key deep down",
    value: JSON.parse('{"a":[{"__proto__":{"__proto__":null}}]}'),
  },
  {
    what: "names of Object.prototype",
    value: { constructor: 1, toString: 2, hasOwnProperty: 3, valueOf: 4, then: 5 },
  },
  { what: "our own record of a set", value: { set: "k", value: 1, salt: "AAAAAAAAAAAAAAAA" } },
  {
    what: "our own record of a blob",
    value: { append: null, blob: DIGEST, size: 10, salt: "AAAAAAAAAAAAAAAA" },
  },
  {
    what: "our own base",
    value: {
      base: {
        status: "completed",
        step: 1,
        cost: [0, 0, 0, 0, 0],
        ranges: [[1, 4_000_000_000]],
        state: [["k", 1]],
      },
    },
  },
  {
    what: "our own checkpoint",
    value: { checkpoint: { step: 9, kind: "manual", status: "failed", messages: 0, bytes: 0 } },
  },
  { what: "our own note", value: { mark: DIGEST, gap: 5, prior: 0 } },
  {
    what: "a LangChain constructor",
    value: { lc: 1, type: "constructor", id: ["langchain", "x"], kwargs: { a: 1 } },
  },
  {
    what: "references of other formats",
    value: { $ref: "#/x", $date: "2020-01-01", $numberLong: "1", "@type": "x" },
  },
  {
    what: "a part as a value",
    value: { type: "file", mediaType: "a/b", data: { digest: DIGEST, sizeBytes: 1 } },
  },
  { what: "a digest as text", value: DIGEST },
  { what: "text that looks like JSON", value: '{"a":1}' },
  { what: "text that parts records", value: '},\n{"salt":"x"}' },
  { what: "NUL", value: "a\0b\0" },
  {
    what: "every control character",
    value: String.fromCharCode(...Array.from({ length: 160 }, (_, i) => i)),
  },
  { what: "separators of lines", value: "\u2028\u2029\u0085" },
  { what: "characters of two units", value: "🦑\u{10ffff}" },
  { what: "noncharacters and marks", value: "\ufeff\ufffe\uffff\u202e" },
  { what: "2^53+1", value: 2 ** 53 + 1 },
  { what: "the largest number", value: Number.MAX_VALUE },
  { what: "the smallest number", value: Number.MIN_VALUE },
  { what: "a number in exponents", value: 1e21 },
  { what: "a fraction", value: 0.1 + 0.2 },
  { what: "-0", value: { a: -0, b: [-0] }, expected: { a: 0, b: [0] } },
  { what: "null", value: null },
  { what: "empty text", value: "" },
  { what: "an empty list", value: [] },
  { what: "an empty object", value: {} },
  { what: "an empty key", value: { "": { "": 1 } } },
  { what: "a key with NUL and an escape", value: { "a\0b": 1, [ESCAPE]: 2 } },
  { what: "a key of 100,000 characters", value: { ["k".repeat(100_000)]: 1 } },
  { what: "the order of keys", value: { z: 1, a: { y: 1, b: 2 }, m: 3 } },
  { what: "a text that is kept out of its row", value: "x€".repeat(10_000) },
  { what: "500 levels", value: nest(500, (inner) => [inner]) },
  { what: "a part shared by many", value: [shared, { shared }, [shared, shared]] },
  { what: "what is frozen", value: Object.freeze({ a: Object.freeze([1]) }) },
  { what: "a property of undefined", value: { a: undefined, b: 1 }, expected: { b: 1 } },
  {
    what: "a property that is not enumerable",
    value: Object.defineProperty({ a: 1 }, "hidden", { value: 2 }),
    expected: { a: 1 },
  },
  {
    what: "an object without prototype",
    value: Object.assign(Object.create(null), { a: 1 }),
    expected: { a: 1 },
  },
  {
    what: "an object of another realm",
    value: runInNewContext("({ a: [1, { b: 2 }] })"),
    expected: { a: [1, { b: 2 }] },
  },
];

/** Equal, with the same order of keys, and made of plain objects. */
function expectSame(actual: unknown, expected: unknown): void {
  expect(JSON.stringify(actual)).toBe(JSON.stringify(expected));
  expect(actual).toStrictEqual(expected);
}

/** The value in every part of a message that takes any. */
const carrying = (v: unknown) => ({
  content: [call(v), result({ v }), result([opaque(v)]), opaque(v)],
  metadata: { v },
  provider: { x: { v } },
});

interface Written {
  readonly before: Checkpoint;
  readonly after: Checkpoint;
}

/**
 * Puts a value wherever one goes: two checkpoints of `own`, and `done`, a fork of the first that
 * was completed with it.
 */
async function write(hold: Holdfast, value: unknown): Promise<Written> {
  const own = await hold.session<Plain>("own", { metadata: untyped({ v: value }) });
  own.set("k", value);
  own.set("list", [0]);
  own.splice("list", 1, 0, untyped(value));
  own.append(untyped({ role: "assistant", ...carrying(value) }));
  const before = await own.checkpoint({ metadata: untyped({ v: value }) });
  own.save({ state: { k: "changed", saved: value } });
  const after = await own.checkpoint();
  const done = await own.fork(before.id, { id: "done" });
  await done.complete(untyped(value));
  await done.close();
  await own.close();
  return { before, after };
}

function expectBefore(
  { state, messages }: { readonly state: object; readonly messages: readonly Message[] },
  value: unknown,
): void {
  expectSame(state, { k: value, list: [0, value] });
  expectSame(
    messages.map(({ content, metadata, provider }) => ({ content, metadata, provider })),
    [carrying(value)],
  );
}

async function expectKept(
  hold: Holdfast,
  { before, after }: Written,
  value: unknown,
): Promise<void> {
  const own = await hold.session("own");
  expectSame(own.state, { k: "changed", saved: value });
  expectSame(own.metadata, { v: value });
  expectSame((await hold.sessions.get("own"))?.metadata, { v: value });
  expectSame((await hold.checkpoints.get(before.id))?.metadata, { v: value });
  const done = await hold.session("done");
  expectSame(done.output, value);
  expectBefore(done, value);
  expectBefore(await hold.checkpoints.state(before.id), value);
  expectBefore({ state: done.state, messages: (await own.history()).items }, value);
  const { added, removed, changed } = (await hold.checkpoints.diff(before.id, after.id)).state;
  expectSame(
    [added, removed, changed],
    [{ saved: value }, { list: [0, value] }, { k: { from: value, to: "changed" } }],
  );
  const values: unknown[] = [];
  for await (const event of hold.sessions.events("own")) {
    if (event.type === "state" && event.key === "k") values.push(event.value);
    if (event.cursor === after.id) break;
  }
  expectSame(values, [value, "changed"]);
  await own.rewind(before.id);
  expectBefore(own, value);
  await own.switchBranch(after.id);
  expectSame(own.state, { k: "changed", saved: value });
  await own.close();
  await done.close();
  expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
}

describe.each(stores)("values that are inert: $name", ({ address, traits: { durable } }) => {
  for (const { what, value, ...comesBack } of inertValues)
    test(what, async () => {
      const expected = "expected" in comesBack ? comesBack.expected : value;
      const at = address();
      const hold = await open(at);
      const written = await write(hold, value);
      await expectKept(hold, written, expected);
      await hold.close();
      if (durable) {
        await using again = await open(at);
        await expectKept(again, written, expected);
      }
      expect(Object.hasOwn(Object.prototype, "admin")).toBe(false);
    });

  const outputs = named({
    "a listing of files": [
      { type: "file", name: "a.txt" },
      { type: "directory", name: "b" },
    ],
    "files of no data": [{ type: "file", data: null }],
    "files of text": [{ type: "file", data: "x" }],
    "a digest of our own kind, of nothing": [
      { type: "file", mediaType: "a/b", data: { digest: DIGEST, sizeBytes: 1 } },
    ],
    "a digest of another kind": [{ type: "file", data: { digest: "sha256:abc" } }],
    "a digest that is an object": [{ type: "file", data: { digest: {} } }],
    "a digest that is a number": [{ type: "file", data: { digest: 5 } }],
    "a result in a result": [{ type: "tool-result", output: [{ type: "file" }] }],
    "things with a type": [{ type: "x" }, { type: null }, { type: {} }, null, [], "x"],
  });

  test.each(outputs)(
    "a tool may answer %s: what it says is not taken for ours",
    async (_, value) => {
      const at = address();
      let hold = await open(at);
      const session = await hold.session("own");
      session.append(holding(result(value())));
      await session.checkpoint();
      if (durable) {
        await hold.close();
        hold = await open(at);
      } else await session.close();
      expect((await hold.session("own")).messages).toMatchObject([{ content: [result(value())] }]);
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
      await hold.close();
    },
  );

  test("a file that is named by a digest and was never given is refused, or is no damage", async () => {
    const { hold, own } = await build(address());
    const accepted = await Promise.resolve()
      .then(() => own.append(badFile({ digest: DIGEST, sizeBytes: 3 })))
      .then(() => own.checkpoint())
      .catch((error: unknown) =>
        expect(error).toMatchObject({ name: "HoldfastError", code: "INVALID_VALUE" }),
      );
    if (accepted) expect(await hold.blob(DIGEST)).toBeUndefined();
    expect(await hold.verify()).toMatchObject({ ok: true });
    await hold.close();
  });

  test("state keys keep their order, also where one was set twice", async () => {
    const at = address();
    let hold = await open(at);
    const session = await hold.session<Plain>("own");
    for (const key of ["b", "a", "__proto__", "c", "b"]) session.set(key, key);
    await session.checkpoint();
    const live = Object.keys(session.state);
    await session.close();
    if (durable) {
      await hold.close();
      hold = await open(at);
    }
    expect(Object.keys((await hold.session("own")).state)).toEqual(live);
    await hold.close();
  });
});

// ---- filters and options

const SURROGATE = "\ud800";
const notNumbers = {
  "-1": -1,
  NaN: Number.NaN,
  "1.5": 1.5,
  Infinity: Number.POSITIVE_INFINITY,
  text: "10",
  null: null,
  "1n": 1n,
  list: [10],
  "2^53": 2 ** 53,
};
const notFlags = {
  "the text true": "true",
  "the text no": "no",
  "1": 1,
  "0": 0,
  null: null,
  object: {},
};
const notChoices = {
  unknown: "done",
  empty: "",
  "named __proto__": "__proto__",
  constructor: "constructor",
  null: null,
  number: 5,
  list: ["all"],
  object: {},
};
const notTexts = {
  number: 5,
  null: null,
  object: {},
  list: ["x"],
  "half a character": SURROGATE,
  "a String": new String("x"),
};
const notTags = {
  text: "x",
  null: null,
  object: {},
  "an array-like": { length: 1, 0: "a" },
  "a Set": new Set(["a"]),
  "101 tags": Array.from({ length: 101 }, (_, i) => `t${i}`),
  // oxlint-disable-next-line no-sparse-arrays -- the hole is the point
  "a hole": [, "a"],
  undefined: [undefined],
};
const notMetadata = {
  null: null,
  list: [],
  text: "x",
  number: 5,
  "a Date": new Date(),
  "a Map": new Map([["a", 1]]),
  "a class instance": new Point(),
};
const notObjects = { null: null, number: 5, text: "x", list: [], true: true, function: () => ({}) };

const INJECTION = "x') OR 1=1 --";
const badBags = {
  ...notObjects,
  "an injection as a key": { [INJECTION]: 1 },
  "__proto__ as a key": JSON.parse('{"__proto__":{"limit":1}}'),
  "an escape as a key": { [ESCAPE]: 1 },
  "a key with a name of a megabyte": { ["k".repeat(1_000_000)]: 1 },
};

interface OptionCase {
  readonly name: string;
  readonly bad: Readonly<Record<string, unknown>>;
  readonly call: (world: World, value: unknown) => unknown;
  readonly codes?: readonly ErrorCode[];
}

const SESSION_LIMIT = { "0": 0, "1e9": 1e9, ...notNumbers };
/** Null takes a title away. */
const titled = ({ null: _null, ...bad }: ReturnType<typeof long>) => bad;
const long = (length: number) => ({ ...notTexts, "too long": "x".repeat(length + 1) });
const TEXT = ["INVALID_OPTION", "TOO_LARGE"] as const;
const TAGS = ["INVALID_OPTION", "INVALID_ID", "TOO_LARGE"] as const;
const METADATA = ["INVALID_OPTION", "INVALID_VALUE"] as const;
const { text: _text, ...notLabels } = badBags;

const optionCases: readonly OptionCase[] = [
  {
    name: "sessions.list, limit",
    bad: SESSION_LIMIT,
    call: ({ hold }, limit) => hold.sessions.list({ limit: untyped(limit) }),
  },
  {
    name: "checkpoints.list, limit",
    bad: SESSION_LIMIT,
    call: ({ hold }, limit) => hold.checkpoints.list("own", { limit: untyped(limit) }),
  },
  {
    name: "session.history, limit",
    bad: SESSION_LIMIT,
    call: ({ own }, limit) => own.history({ limit: untyped(limit) }),
  },
  {
    name: "session.history, before",
    bad: { "0": 0, ...notNumbers },
    call: ({ own }, before) => own.history({ before: untyped(before) }),
  },
  {
    name: "checkpoints.prune, keep",
    bad: { ...notNumbers, undefined: undefined },
    call: ({ hold }, keep) => hold.checkpoints.prune("own", { keep: untyped(keep) }),
  },
  ...(["hourly", "daily", "weekly", "olderThanMs"] as const).map((rule) => ({
    name: `checkpoints.prune, ${rule}`,
    bad: { ...notNumbers, undefined: undefined },
    call: ({ hold }: World, value: unknown) =>
      hold.checkpoints.prune("own", { keep: 3, [rule]: untyped(value) }),
  })),
  ...(["dryRun", "labelled"] as const).map((name) => ({
    name: `checkpoints.prune, ${name}`,
    bad: notFlags,
    call: ({ hold }: World, value: unknown) =>
      hold.checkpoints.prune("own", { keep: 3, [name]: untyped(value) }),
  })),
  {
    name: "checkpoints.prune, kinds",
    bad: {
      ...notChoices,
      "a kind that is none": ["sometimes"],
      "a hole": [undefined],
      many: Array.from({ length: 9 }, () => "manual"),
    },
    call: ({ hold }, kinds) => hold.checkpoints.prune("own", { keep: 3, kinds: untyped(kinds) }),
  },
  {
    name: "checkpoints.prune, lines",
    bad: notChoices,
    call: ({ hold }, lines) => hold.checkpoints.prune("own", { keep: 3, branches: untyped(lines) }),
  },
  {
    name: "retention.set, keep",
    bad: { ...notNumbers, undefined: undefined },
    call: ({ hold }, keep) => hold.retention.set({ keep: untyped(keep) }),
  },
  {
    name: "retention.set, policy",
    bad: { ...badBags, undefined: undefined },
    call: ({ hold }, o) => hold.retention.set(untyped(o)),
  },
  {
    name: "retention.apply, options",
    bad: badBags,
    call: ({ hold }, o) => hold.retention.apply(untyped(o)),
  },
  {
    name: "retention.apply, dryRun",
    bad: notFlags,
    call: ({ hold }, dryRun) => hold.retention.apply({ dryRun: untyped(dryRun) }),
  },
  {
    name: "hold.session, leaseMs",
    bad: { "0": 0, "99": 99, "a day and more": 86_400_001, ...notNumbers },
    call: ({ hold }, leaseMs) => hold.session("fresh", { leaseMs: untyped(leaseMs) }),
  },
  {
    name: "hold.session, waitMs",
    bad: { "a day and more": 86_400_001, ...notNumbers },
    call: ({ hold }, waitMs) => hold.session("fresh", { waitMs: untyped(waitMs) }),
  },
  {
    name: "session.splice, start",
    bad: { "past the end": 4, undefined, ...notNumbers },
    call: ({ own }, start) => own.splice("list", untyped(start), 0, 1),
  },
  {
    name: "session.splice, deleteCount",
    bad: { "past the end": 3, undefined, ...notNumbers },
    call: ({ own }, n) => own.splice("list", 1, untyped(n)),
  },
  {
    name: "session.splice, start in messages",
    bad: { "past the end": 3, undefined, ...notNumbers },
    call: ({ own }, at) => own.splice("messages", untyped(at), 0),
  },
  {
    name: "session.splice, what is no list",
    bad: { nothing: "nothing", "named __proto__": "__proto__", constructor: "constructor" },
    call: ({ own }, key) => own.splice(untyped(key), 0, 0, 1),
    codes: ["INVALID_VALUE"],
  },
  {
    name: "session.checkpoint, step",
    bad: notNumbers,
    call: ({ own }, step) => own.checkpoint({ step: untyped(step) }),
  },
  {
    name: "session.checkpoint, tokenCount",
    bad: notNumbers,
    call: ({ own }, tokenCount) => own.checkpoint({ tokenCount: untyped(tokenCount) }),
  },
  {
    name: "session.checkpoint, tasksCompleted",
    bad: notNumbers,
    call: ({ own }, n) => own.checkpoint({ tasksCompleted: untyped(n) }),
  },
  {
    name: "session.checkpoint, kind",
    bad: notChoices,
    call: ({ own }, kind) => own.checkpoint({ kind: untyped(kind) }),
  },
  {
    name: "session.checkpoint, label",
    bad: long(1_000),
    call: ({ own }, label) => own.checkpoint({ label: untyped(label) }),
    codes: TEXT,
  },
  {
    name: "session.checkpoint, description",
    bad: long(100_000),
    call: ({ own }, d) => own.checkpoint({ description: untyped(d) }),
    codes: TEXT,
  },
  {
    name: "session.checkpoint, metadata",
    bad: notMetadata,
    call: ({ own }, metadata) => own.checkpoint({ metadata: untyped(metadata) }),
    codes: METADATA,
  },
  {
    name: "session.fail, reason",
    bad: { ...long(100_000), undefined },
    call: ({ own }, reason) => own.fail(untyped(reason)),
    codes: TEXT,
  },
  {
    name: "session.halt, reason",
    bad: { ...long(100_000), undefined },
    call: ({ own }, reason) => own.halt(untyped(reason)),
    codes: TEXT,
  },
  {
    name: "hold.sessions.cancel, reason",
    bad: long(100_000),
    call: ({ hold }, reason) => hold.sessions.cancel("own", untyped(reason)),
    codes: TEXT,
  },
  {
    name: "hold.session, title",
    bad: long(1_000),
    call: ({ hold }, title) => hold.session("fresh", { title: untyped(title) }),
    codes: TEXT,
  },
  {
    name: "sessions.update, title",
    bad: titled(long(1_000)),
    call: ({ hold }, title) => hold.sessions.update("own", { title: untyped(title) }),
    codes: TEXT,
  },
  {
    name: "hold.session, tags",
    bad: notTags,
    call: ({ hold }, tags) => hold.session("fresh", { tags: untyped(tags) }),
    codes: TAGS,
  },
  {
    name: "sessions.update, tags",
    bad: notTags,
    call: ({ hold }, tags) => hold.sessions.update("own", { tags: untyped(tags) }),
    codes: TAGS,
  },
  {
    name: "hold.session, metadata",
    bad: notMetadata,
    call: ({ hold }, metadata) => hold.session("fresh", { metadata: untyped(metadata) }),
    codes: METADATA,
  },
  {
    name: "sessions.update, metadata",
    bad: notMetadata,
    call: ({ hold }, m) => hold.sessions.update("own", { metadata: untyped(m) }),
    codes: METADATA,
  },
  {
    name: "sessions.list, archived",
    bad: notFlags,
    call: ({ hold }, archived) => hold.sessions.list({ archived: untyped(archived) }),
  },
  {
    name: "sessions.update, archived",
    bad: notFlags,
    call: ({ hold }, archived) => hold.sessions.update("own", { archived: untyped(archived) }),
  },
  {
    name: "hold.gc, dryRun",
    bad: notFlags,
    call: ({ hold }, dryRun) => hold.gc({ dryRun: untyped(dryRun) }),
  },
  {
    name: "session.close, discard",
    bad: notFlags,
    call: ({ own }, discard) => own.close({ discard: untyped(discard) }),
  },
  {
    name: "sessions.list, status",
    bad: notChoices,
    call: ({ hold }, status) => hold.sessions.list({ status: untyped(status) }),
  },
  {
    name: "checkpoints.list, lines",
    bad: notChoices,
    call: ({ hold }, lines) => hold.checkpoints.list("own", { branches: untyped(lines) }),
  },
  {
    name: "hold.sessions.events, signal",
    bad: notObjects,
    call: ({ hold }, signal) =>
      firstEvent(hold.sessions.events("own", { signal: untyped(signal) })),
  },
  {
    name: "hold.sessions.events, a signal that only looks like one",
    bad: { object: { aborted: false }, controller: new AbortController() },
    call: ({ hold }, signal) =>
      firstEvent(hold.sessions.events("own", { signal: untyped(signal) })),
  },
  {
    name: "hold.verify, onProgress",
    bad: { number: 5, text: "x", object: {}, null: null },
    call: ({ hold }, f) => hold.verify({ onProgress: untyped(f) }),
  },
  {
    name: "hold.blob",
    bad: {
      undefined,
      ...notTexts,
      empty: "",
      short: "A".repeat(42),
      long: "A".repeat(44),
      "a line break": `${DIGEST}\n`,
      "another alphabet": `${"A".repeat(42)}+`,
      list: [DIGEST],
    },
    call: ({ hold }, digest) => hold.blob(untyped(digest)),
  },
  {
    name: "session.save, messages",
    bad: {
      null: null,
      number: 5,
      text: "x",
      object: {},
      "an array-like": { length: 1 },
      "a Set": new Set(),
    },
    call: ({ own }, messages) => own.save({ messages: untyped(messages) }),
    codes: METADATA,
  },
  {
    name: "session.save, messages with a hole",
    bad: { "at the end": new Array(3) },
    call: ({ own }, messages) => own.save({ messages: untyped(messages) }),
    codes: METADATA,
  },
  {
    name: "session.save, state",
    bad: {
      ...notMetadata,
      true: true,
      function: () => 1,
      "a revoked proxy": revoked(),
      "a symbol as a key": { [Symbol("x")]: 1 },
    },
    call: ({ own }, state) => own.save({ state: untyped(state) }),
    codes: METADATA,
  },
  {
    name: "session.save, state with a throwing getter",
    bad: { getter: Object.defineProperty({}, "x", { enumerable: true, get: nothing }) },
    call: ({ own }, state) => own.save({ state: untyped(state) }),
    codes: ["INVALID_VALUE"],
  },
  {
    name: "hold.session, options",
    bad: badBags,
    call: ({ hold }, o) => hold.session("fresh", untyped(o)),
  },
  {
    name: "hold.sessions.fork, options",
    bad: badBags,
    call: ({ hold, first }, o) => hold.sessions.fork(first.id, untyped(o)),
  },
  {
    name: "session.fork, options",
    bad: badBags,
    call: ({ own, first }, o) => own.fork(first.id, untyped(o)),
  },
  {
    name: "sessions.list, filter",
    bad: badBags,
    call: ({ hold }, o) => hold.sessions.list(untyped(o)),
  },
  {
    name: "sessions.append, options",
    bad: badBags,
    call: ({ hold }, o) => hold.sessions.append("own", [], untyped(o)),
  },
  {
    name: "sessions.append, create",
    bad: notFlags,
    call: ({ hold }, create) => hold.sessions.append("own", [], { create: untyped(create) }),
  },
  {
    name: "sessions.transcript, options",
    bad: badBags,
    call: ({ hold }, o) => hold.sessions.transcript("own", untyped(o)),
  },
  {
    name: "sessions.transcript, format",
    bad: notChoices,
    call: ({ hold }, format) => hold.sessions.transcript("own", { format: untyped(format) }),
  },
  {
    name: "sessions.update, update",
    bad: badBags,
    call: ({ hold }, o) => hold.sessions.update("own", untyped(o)),
  },
  {
    name: "checkpoints.list, options",
    bad: badBags,
    call: ({ hold }, o) => hold.checkpoints.list("own", untyped(o)),
  },
  {
    name: "checkpoints.prune, options",
    bad: badBags,
    call: ({ hold }, o) => hold.checkpoints.prune("own", untyped(o)),
  },
  { name: "session.history, options", bad: badBags, call: ({ own }, o) => own.history(untyped(o)) },
  { name: "session.close, options", bad: badBags, call: ({ own }, o) => own.close(untyped(o)) },
  { name: "session.save, options", bad: badBags, call: ({ own }, o) => own.save(untyped(o)) },
  {
    name: "session.checkpoint, options",
    bad: notLabels,
    call: ({ own }, o) => own.checkpoint(untyped(o)),
  },
  {
    name: "hold.sessions.events, options",
    bad: badBags,
    call: ({ hold }, o) => firstEvent(hold.sessions.events("own", untyped(o))),
  },
  { name: "hold.verify, options", bad: badBags, call: ({ hold }, o) => hold.verify(untyped(o)) },
  { name: "hold.gc, options", bad: badBags, call: ({ hold }, o) => hold.gc(untyped(o)) },
];

describe.each(two)("options that are refused: $name", (store) => {
  const theWorld = worldOf(store);
  for (const { name, bad, call, codes } of optionCases)
    for (const [what, value] of Object.entries(bad))
      test(`${name}: ${what}`, async () => {
        await expectRefused(
          await theWorld(),
          (world) => call(world, value),
          codes ?? ["INVALID_OPTION"],
        );
      });

  test("an option of a checkpoint is read once, so it cannot turn bad after it was checked", async () => {
    const { hold, own } = await build(store.address());
    let reads = 0;
    const shifty = Object.defineProperty({}, "step", {
      enumerable: true,
      get: () => (reads++ === 0 ? 7 : Number.NaN),
    });
    const checkpoint = await own.checkpoint(untyped(shifty));
    expect(checkpoint.step).toBe(7);
    expect(await hold.checkpoints.get(checkpoint.id)).toEqual(checkpoint);
    await hold.close();
  });

  test("nothing staged is lost by a close that is refused", async () => {
    const { hold, own } = await build(store.address());
    own.set("staged", 1);
    await errorOf(() => own.close({ discard: untyped("no") }));
    await own.checkpoint();
    expect(own.state).toMatchObject({ staged: 1 });
    await hold.close();
  });
});

describe.each(stores)("options of open: $name", ({ address }) => {
  const bad = {
    leaseMs: { "0": 0, "99": 99, ...notNumbers },
    busyMs: { "more than an hour": 3_600_001, ...notNumbers },
    clock: {
      null: null,
      number: 5,
      object: {},
      "now that is no function": { now: 5 },
      function: Date.now,
    },
  };
  for (const [option, values] of Object.entries(bad))
    for (const [what, value] of Object.entries(values))
      test(`${option}: ${what}`, async () => {
        const error = await errorOf(() => open(address(), untyped({ [option]: value })));
        expect(error).toMatchObject({ code: "INVALID_OPTION", details: { path: option } });
      });

  test.each(Object.entries(badBags))("%s instead of options", async (_, options) => {
    const error = await errorOf(() => open(address(), untyped(options)));
    expect(error).toMatchObject({ name: "HoldfastError", code: "INVALID_OPTION" });
    expect((error as Error).message).not.toMatch(/\p{Cc}/u);
  });

  const notTimes = {
    NaN: Number.NaN,
    Infinity: Number.POSITIVE_INFINITY,
    text: "noon",
    undefined,
    "past the last day": 8.64e15 + 1,
    "1n": 1n,
    symbol: Symbol("x"),
  };

  test.each(Object.entries(notTimes))("a clock that says %s: nothing is made", async (_, time) => {
    const hold = await open(address(), { clock: { now: () => untyped(time) } });
    const before = await hold.stats();
    expect(await errorOf(() => hold.session("own"))).toMatchObject({
      code: "INVALID_OPTION",
      details: { path: "clock" },
    });
    expect(await hold.stats()).toEqual(before);
    await hold.close();
  });

  test("a clock that goes wrong in the middle changes nothing, and loses nothing", async () => {
    let time: unknown = 1;
    const hold = await open(address(), { clock: { now: () => untyped(time) } });
    const session = await hold.session("own");
    session.append({ role: "user", content: "before" });
    await session.complete("output");
    time = Number.NaN;
    expect(await errorOf(() => session.append({ role: "user", content: "refused" }))).toMatchObject(
      { code: "INVALID_OPTION" },
    );
    expect(session.status).toBe("completed");
    expect(session.output).toBe("output");
    expect(await errorOf(() => session.checkpoint())).toMatchObject({ code: "INVALID_OPTION" });
    time = 2;
    session.append({ role: "user", content: "after" });
    await session.checkpoint();
    expect(session.messages.map(({ content }) => content)).toEqual(["before", "after"]);
    expect(await hold.verify()).toMatchObject({ ok: true });
    await hold.close();
  });

  test.each([0, -1, 1.5, 8.64e15, -8.64e15])("a clock at %d is only odd", async (time) => {
    const hold = await open(address(), { clock: { now: () => time } });
    const session = await hold.session("own");
    session.append({ role: "user", content: "x" });
    const { createdAt } = await session.checkpoint();
    expect(createdAt).toBe(new Date(Math.floor(time)).toISOString());
    expect(await hold.verify()).toMatchObject({ ok: true });
    await hold.close();
  });
});

// ---- cursors

describe.each(stores)("cursors: $name", (store) => {
  const theWorld = worldOf(store);
  const ownLine = ({ first }: World) => first.id.slice(0, 16);

  const sessionCursors = {
    ...notTexts,
    empty: "",
    "no letter": "1",
    zero: "s0",
    negative: "s-1",
    exponent: "s1e3",
    "an injection": "s1 OR 1=1",
    huge: "s99999999999999999999",
    "a line break": "s1\n",
    escape: ESCAPE,
  };
  test.each(Object.entries(sessionCursors))("sessions.list: %s", async (_, cursor) => {
    await expectRefused(
      await theWorld(),
      ({ hold }) => hold.sessions.list({ cursor: untyped(cursor) }),
      ["INVALID_OPTION"],
    );
  });

  test.each([...Object.entries(sessionCursors), ["of a list of sessions", "s1"] as const])(
    "session.history: %s",
    async (_, cursor) => {
      await expectRefused(await theWorld(), ({ own }) => own.history({ cursor: untyped(cursor) }), [
        "INVALID_OPTION",
      ]);
    },
  );

  const tampered: readonly (readonly [what: string, cursor: (world: World) => unknown])[] = [
    ...Object.entries(notTexts).map(([what, value]) => [what, () => value] as const),
    ["empty", () => ""],
    ["of a list of sessions", () => "s1"],
    ["an escape", () => ESCAPE],
    ["of another session", ({ foreign }) => foreign.id],
    ["of a line that is not there", ({ first }) => `0000000000000000-${first.seq}`],
    ["number 0", (world) => `${ownLine(world)}-0`],
    ["a number past the highest", (world) => `${ownLine(world)}-4294967296`],
    ["a number in another notation", (world) => `${ownLine(world)}-1e0`],
  ];

  for (const [branches, [what, cursor]] of cross(["current", "all"] as const, tampered))
    test(`checkpoints.list, ${branches} branches: ${what}`, async () => {
      const list: Call = (world) =>
        world.hold.checkpoints.list("own", { branches, cursor: untyped(cursor(world)) });
      await expectRefused(await theWorld(), list, ["INVALID_OPTION"]);
    });

  const ahead: (typeof tampered)[number] = [
    "ahead of the end, where it would wait for ever",
    (world) => `${ownLine(world)}-4294967295`,
  ];
  test.each([...tampered, ahead])("hold.sessions.events: %s", async (_, cursor) => {
    await expectRefused(
      await theWorld(),
      (world) => firstEvent(world.hold.sessions.events("own", { after: untyped(cursor(world)) })),
      ["INVALID_OPTION"],
    );
  });

  test("a cursor of the list that was tampered with shows nothing that the list does not", async () => {
    const world = await theWorld();
    const whole = (await world.hold.checkpoints.list("own")).items;
    const { items } = await world.hold.checkpoints.list("own", {
      cursor: `${ownLine(world)}-${world.second.seq - 1}`,
    });
    expect(items.length).toBeGreaterThan(0);
    expect(whole).toEqual(expect.arrayContaining([...items]));
    expect((await world.hold.sessions.list({ cursor: "s999999999999999" })).items).toEqual(
      (await world.hold.sessions.list()).items,
    );
  });

  test("a follower whose cursor is on a line the session has left misses nothing", async () => {
    const { hold, own, first, second } = await build(store.address());
    await own.rewind(first.id);
    own.append({ role: "user", content: "on the new line" });
    const end = await own.checkpoint();
    const seen: unknown[] = [];
    for await (const event of hold.sessions.events("own", {
      after: second.id,
      signal: AbortSignal.timeout(500),
    })) {
      if (event.type === "message") seen.push(event.message.content);
      if (event.cursor === end.id) break;
    }
    expect(seen).toEqual(["on the new line"]);
    await hold.close();
  });
});
