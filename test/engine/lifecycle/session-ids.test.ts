/** Sessions whose id is left to Holdfast. An id that is undefined by accident is refused. */
import { afterEach, describe, expect, test } from "vitest";
import { drawnSessionId, keyedSessionId } from "../../../src/core/values/ids.js";
import { agent, type Holdfast, open } from "../../../src/index.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { coded } from "../../support/processes.js";
import { everyStore, stores } from "../../support/stores.js";

const DRAWN = /^[0-9a-hjkmnp-tv-z]{26}$/;
const KEYED = /^[0-9a-hjkmnp-tv-z]{32}$/;

const holds: Holdfast[] = [];
afterEach(async () => {
  for (const hold of holds.splice(0)) await hold.close();
});
const at = async (address: string): Promise<Holdfast> => {
  const hold = await open(address, { search: false });
  holds.push(hold);
  return hold;
};

/** A program that lost its types. */
const untyped = (value: unknown): never => value as never;

test("ids are URL-safe, sort by their times, and differ", () => {
  const random = (n: number) => new Uint8Array(10).fill(n);
  const times = [-5, 0, 1, 31, 32, 1_700_000_000_000, 1_700_000_000_001, 2 ** 49, 8.64e15];
  const ids = times.map((ms) => drawnSessionId(ms, random(255)));
  for (const id of ids) expect(id).toMatch(DRAWN);
  expect([...ids].sort()).toEqual(ids);
  expect(drawnSessionId(1, random(1))).not.toBe(drawnSessionId(1, random(2)));
  expect(keyedSessionId("fork", "k")).toMatch(KEYED);
  expect(keyedSessionId("fork", "k")).toBe(keyedSessionId("fork", "k"));
  expect(
    new Set([
      keyedSessionId("fork", "k"),
      keyedSessionId("fork", "l"),
      keyedSessionId("agent a", "k"),
    ]).size,
  ).toBe(3);
});

describe.each(stores.filter(({ name }) => name === "memory" || name === "sqlite"))(
  "on $name",
  ({ address }) => {
    test("a session, a fork and a conversation without an id are given one", async () => {
      const hold = await at(address());
      const first = await hold.session();
      const second = await hold.session({ agent: "ann", title: "Kelp" });
      expect(second).toMatchObject({ agent: "ann" });
      const { id } = await first.checkpoint();
      const forks = [await first.fork(id), await first.fork(id, { effects: "live" })];
      const outside = [
        await hold.sessions.fork(id),
        await hold.sessions.fork(id, { effects: "live" }),
      ];
      const { conversation_save: save, checkpoint_fork: fork } = hold.tools();
      const saved = (await save.execute({
        messages: [{ role: "user", content: "She likes kelp." }],
      })) as { session: { id: string } };
      const forked = (await fork.execute({ id })) as { session: { id: string } };
      const ids = [first, second, ...forks, ...outside, saved.session, forked.session].map(
        (made) => made.id as string,
      );
      for (const made of ids) expect(made).toMatch(DRAWN);
      expect(new Set(ids).size).toBe(8);
      expect((await hold.sessions.list()).items.map((item) => item.id as string).sort()).toEqual(
        [...ids].sort(),
      );
      expect((await hold.sessions.state(saved.session.id)).messages).toMatchObject([
        { content: "She likes kelp." },
      ]);
    });

    test("a turn without a session is given one: run, stream and submit", async () => {
      const hold = await at(address());
      const ann = hold.agent({ name: "ann", model: scriptedModel(["One."]) });
      const ran = await ann.run({ input: "go", title: "First" });
      expect(ran).toMatchObject({ status: "completed", output: "One." });
      const streamed = ann.stream({ input: "go" });
      expect(await streamed.result()).toMatchObject({
        status: "completed",
        output: "One.",
        sessionId: streamed.sessionId,
      });
      const submitted = await ann.submit({ input: "go" });
      const worker = hold.worker({ agents: [ann] });
      await worker.drain();
      expect(await submitted.result()).toMatchObject({ status: "completed", output: "One." });
      const ids = [ran.sessionId, streamed.sessionId, submitted.sessionId];
      for (const id of ids) expect(id).toMatch(DRAWN);
      expect(new Set(ids).size).toBe(3);
      expect(await hold.sessions.get(ran.sessionId)).toMatchObject({
        title: "First",
        agent: "ann",
      });
      expect(await ann.run({ session: "named", input: "go" })).toMatchObject({
        sessionId: "named",
        output: "One.",
      });
    });

    test("under the same key it is the same session", async () => {
      const hold = await at(address());
      const session = await hold.session("s");
      const { id } = await session.checkpoint();
      await session.close();
      const fork = await hold.sessions.fork(id, { key: "k" });
      expect(fork.id).toMatch(KEYED);
      expect(await hold.sessions.fork(id, { key: "k" })).toEqual(fork);
      expect((await hold.sessions.fork(id, { key: "l" })).id).not.toBe(fork.id);
      await expect(hold.sessions.fork(id, { key: "k", effects: "live" })).rejects.toMatchObject(
        coded("CONFLICT"),
      );

      const { conversation_save: save, checkpoint_fork: forks } = hold.tools();
      const ofKey = async (call: { execute(input: never): Promise<unknown> }, input: object) =>
        ((await call.execute(untyped(input))) as { session: { id: string; messageCount?: number } })
          .session.id;
      const said = {
        messages: [{ role: "user", content: "She likes kelp." }],
        idempotencyKey: "note",
      };
      const saved = await ofKey(save, said);
      expect(await ofKey(save, said)).toBe(saved);
      expect((await hold.sessions.state(saved)).messages).toHaveLength(1);
      expect(await ofKey(forks, { id, idempotencyKey: "f" })).toBe(
        await ofKey(forks, { id, idempotencyKey: "f" }),
      );
      // What one agent calls its calls is nothing to another.
      const { conversation_save: own } = hold.tools({ agent: "ann" });
      expect(await ofKey(own, said)).not.toBe(saved);

      const made = () => agent({ name: "ann", model: scriptedModel(["One."]) });
      const ran = await hold.bind(made()).run({ input: "go", key: "msg" });
      expect(ran.sessionId).toMatch(KEYED);
      // Asked again, by another process and by another call, the turn is answered from the record.
      expect(await hold.bind(made()).run({ input: "go", key: "msg" })).toMatchObject({
        sessionId: ran.sessionId,
        replayed: true,
      });
      expect((await hold.bind(made()).submit({ input: "go", key: "msg" })).sessionId).toBe(
        ran.sessionId,
      );
      const bob = hold.agent({ name: "bob", model: scriptedModel(["Two."]) });
      expect((await bob.run({ input: "go", key: "msg" })).sessionId).not.toBe(ran.sessionId);
    });

    test("an id that is undefined makes no session", async () => {
      const hold = await at(address());
      const ann = hold.agent({ name: "ann", model: scriptedModel([]) });
      const own = await hold.session("own");
      const { id } = await own.checkpoint();
      const before = await hold.stats();
      const accidents: Readonly<Record<string, () => unknown>> = {
        "session(undefined)": () => hold.session(untyped(undefined)),
        "session(undefined, o)": () => hold.session(untyped(undefined), { agent: "ann" }),
        "hold.sessions.fork": () => hold.sessions.fork(id, untyped({ id: undefined })),
        conversation_save: () =>
          hold.tools().conversation_save.execute(untyped({ id: undefined, messages: [] })),
        "session.fork": () => own.fork(id, untyped({ id: undefined })),
        "run({ session: undefined })": () => ann.run(untyped({ session: undefined, input: "go" })),
        "run(undefined, input)": () => ann.run(untyped(undefined), "go"),
        "stream({ session: undefined })": () =>
          ann.stream(untyped({ session: undefined, input: "go" })),
        "stream(undefined, input)": () => ann.stream(untyped(undefined), "go"),
        "submit({ session: undefined })": () =>
          ann.submit(untyped({ session: undefined, input: "go" })),
        "submit(undefined, input)": () => ann.submit(untyped(undefined), "go"),
      };
      for (const [what, call] of Object.entries(accidents)) {
        const refused = (async () => call())();
        await expect(refused, what).rejects.toMatchObject(coded("INVALID_ID"));
        await expect(refused, what).rejects.toThrow(
          /is undefined\. Give an id, or .* to have one drawn\.$/,
        );
      }
      const inputless: Readonly<Record<string, () => unknown>> = {
        run: () => ann.run("own", untyped(undefined)),
        stream: () => ann.stream("own", untyped(undefined)),
        submit: () => ann.submit("own", untyped(undefined)),
      };
      for (const [what, call] of Object.entries(inputless)) {
        const refused = (async () => call())();
        await expect(refused, what).rejects.toMatchObject(coded("INVALID_OPTION"));
        await expect(refused, what).rejects.toThrow(
          "To go on with the latest turn, call `resume(id)`.",
        );
      }
      for (const wrong of [{}, { session: "own" }, { role: "user", content: "go" }])
        await expect(ann.run(untyped(wrong))).rejects.toMatchObject(coded("INVALID_OPTION"));
      await expect(hold.session(untyped({ agnet: "ann" }))).rejects.toMatchObject(
        coded("INVALID_OPTION"),
      );
      await expect(hold.session(untyped(["own"]))).rejects.toMatchObject(coded("INVALID_ID"));
      expect(await hold.stats()).toEqual(before);
    });
  },
);

test("two processes that run one key have one session and one turn", async () => {
  const address = everyStore.find(({ name }) => name === "sqlite")?.address() as string;
  const [one, two] = [await at(address), await at(address)];
  let asked = 0;
  const model = async () => {
    asked += 1;
    return { content: "Done." };
  };
  const results = await Promise.all(
    [one, two].map((hold) => hold.agent({ name: "ann", model }).run({ input: "go", key: "msg" })),
  );
  expect(results[0]).toMatchObject({ status: "completed" });
  expect(new Set(results.map(({ sessionId, turnId }) => `${sessionId} ${turnId}`)).size).toBe(1);
  expect(asked).toBe(1);
  expect((await one.sessions.list()).items).toHaveLength(1);
});

test("all in one object: what throws when it is read is refused, and each field is read once", async () => {
  const hold = await at("memory:");
  const ann = hold.agent({ name: "ann", model: scriptedModel(["One.", "Two."]) });
  const own = await hold.session("own");
  const { id } = await own.checkpoint();
  const thrown = (): never => {
    throw new TypeError("thrown by the caller's own object");
  };
  const getter = (name: string): object =>
    Object.defineProperty({ input: "go" }, name, { enumerable: true, get: thrown });
  const revoked = (): object => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    return proxy;
  };
  const calls: Readonly<Record<string, (given: object) => unknown>> = {
    session: (given) => hold.session(untyped(given)),
    run: (given) => ann.run(untyped(given)),
    stream: (given) => ann.stream(untyped(given)).result(),
    submit: (given) => ann.submit(untyped(given)),
    "hold.sessions.fork": (given) => hold.sessions.fork(id, untyped(given)),
    "session.fork": (given) => own.fork(id, untyped(given)),
  };
  for (const [what, call] of Object.entries(calls))
    for (const given of [
      getter("input"),
      getter("session"),
      getter("id"),
      getter("key"),
      revoked(),
      new Proxy({}, { ownKeys: thrown }),
    ])
      await expect((async () => call(given))(), what).rejects.toMatchObject({
        code: expect.stringMatching(/^INVALID_/),
      });

  let reads = 0;
  const counting = (name: string) => ({
    ...(name === "session" && { input: "go" }),
    get [name]() {
      reads += 1;
      return `${name}-${reads}`;
    },
  });
  expect((await hold.sessions.fork(id, untyped(counting("id")))).id).toBe("id-1");
  reads = 0;
  expect((await ann.run(untyped(counting("session")))).sessionId).toBe("session-1");
});
