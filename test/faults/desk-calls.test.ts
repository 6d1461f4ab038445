/** What the kills of desk-kills.test.ts and crew-kills.test.ts have found, each in its shortest form. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { agent, type BoundAgent, type ModelReply, type ModelRequest } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import type { Store } from "../../src/testing/index.js";
import { asking, holdOf, never } from "./two-holders.js";

type Run = (agent: object, input: string) => Promise<{ readonly status: string }>;

/** A desk whose one tool runs an aide, whose one tool is given. */
function desk(store: Store, tool: object, mode = "repeatable") {
  const aide = asking("aide", { post: tool }, { name: "post" });
  const delegate = { mode, run: async (_args: unknown, { run }: { run: Run }) => (await run(aide, "go")).status };
  return holdOf(store).agent(asking("desk", { delegate }, { name: "delegate" }));
}

test("whoever opens a session whose call was killed while it ran a child can let go of it, though the child has gone on", async () => {
  const store = await openStore("memory:");
  void desk(store, { mode: "once", run: never }).run("a", "go");
  await sleep(30);
  const hold = holdOf(store);
  await hold.cancel("a");
  const session = await hold.session("a");
  expect(await Promise.race([session.close(), sleep(2_000, "does not end")])).toBeUndefined();
  expect(await store.inbox("a", { dueBy: 0, limit: 10 })).toEqual([]);
});

/** A store whose user is killed once it has committed something with such a text: nothing it asks for is answered from then on. */
function killedAfter(store: Store, text: string): Store {
  let isDead = false;
  const isLast = (changes: Parameters<Store["apply"]>[0]) =>
    changes.some(({ saves = [] }) => saves.some(({ save }) => save.state?.includes(text) || save.items?.includes(text)));
  return new Proxy(store, {
    get(target, name) {
      const value = target[name as keyof Store] as unknown;
      if (name === "apply")
        return async (...[changes, docs]: Parameters<Store["apply"]>) => {
          if (isDead) return never();
          isDead = isLast(changes);
          const applied = await store.apply(changes, docs);
          return isDead ? never() : applied;
        };
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]) => (isDead ? never() : (value.apply(target, args) as unknown));
    },
  });
}

/** A desk that waits because a call of its aide does, and that call. */
async function waiting(store: Store) {
  const bound = desk(store, { mode: "once", approval: true, run: () => "posted" });
  expect((await bound.run("a", "go")).status).toBe("waiting");
  const [pending] = (await holdOf(store).effects.list({ status: "waiting", agent: "aide" })).items;
  return { bound, effectId: pending?.effectId as string };
}

const statusAfterWork = async (store: Store, bound: BoundAgent) => {
  const hold = holdOf(store);
  await hold.worker({ agents: [bound], onSigterm: false }).drain({ maxMs: 3_000 });
  return (await hold.sessions.get("a"))?.status;
};

test("a parent does not sleep on when whoever approved a call of its child was killed at once", async () => {
  const store = await openStore("memory:");
  const { bound, effectId } = await waiting(store);
  void holdOf(killedAfter(store, '"is":"approved"')).effects.approve(effectId);
  await sleep(30);
  expect(await statusAfterWork(store, bound)).toBe("completed");
});

/** A clerk who pays, then mails, and to any other input says so. Cancelled once it was asked to pay, and told something else. */
async function cancelled(store: Store, pay: object) {
  const mailed: string[] = [];
  const mail = { mode: "once", run: () => mailed.push("mailed") };
  const model = async ({ messages }: ModelRequest): Promise<ModelReply> => {
    if (messages.findLast(({ role }) => role === "user")?.content === "another") return { content: "done" };
    const name = messages.some(({ role }) => role === "tool") ? "mail" : "pay";
    return { content: "", toolCalls: [{ id: name, name, arguments: {} }] };
  };
  const bound = holdOf(store).agent(agent({ name: "desk", model, tools: { pay, mail } as never }));
  void bound.run("a", "go");
  await sleep(30);
  await holdOf(store).cancel("a");
  return { bound, mailed, turn: await bound.submit("a", "another", { key: "2" }) };
}

test("what was cancelled does not go on because whoever began the next turn was killed before it had", async () => {
  const store = await openStore("memory:");
  const { bound, turn } = await cancelled(store, { mode: "once", approval: true, run: () => "paid" });
  const dying = holdOf(killedAfter(store, '"status":"in-progress"'));
  void dying.worker({ agents: [bound], onSigterm: false }).start();
  await sleep(50);
  expect(await statusAfterWork(store, bound)).toBe("completed");
  expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({ status: "completed", output: "done" });
});

test("what was cancelled does not go on because a call of it was settled behind that", async () => {
  const store = await openStore("memory:");
  const { bound, mailed, turn } = await cancelled(store, { mode: "once", run: never });
  expect(await statusAfterWork(store, bound)).toBe("in-doubt");
  const hold = holdOf(store);
  const [pending] = (await hold.effects.list({ status: "in-doubt" })).items;
  await hold.effects.settle(pending?.effectId as string, { result: "paid" });
  expect(await statusAfterWork(store, bound)).toBe("completed");
  expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({ status: "completed", output: "done" });
  expect(mailed).toEqual([]);
});
