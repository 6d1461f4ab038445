/**
 * What the kills of desk-kills.test.ts and crew-kills.test.ts have found, each in its shortest
 * form.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { agent, type BoundAgent, type ModelReply, type ModelRequest } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { Store } from "../../../src/store/index.js";
import { through } from "../../support/failures/wrapped.js";
import { door } from "../../support/processes.js";
import { asking, entered, holdOf, never } from "../../support/two-holders.js";

type Run = (agent: object, input: string) => Promise<{ readonly status: string }>;

/** A desk whose one tool runs an aide, whose one tool is given. */
function desk(store: Store, tool: object, mode = "repeatable") {
  const aide = asking("aide", { post: tool }, { name: "post" });
  const delegate = {
    mode,
    run: async (_input: unknown, { run }: { run: Run }) => (await run(aide, "go")).status,
  };
  return holdOf(store).bind(asking("desk", { delegate }, { name: "delegate" }));
}

test("whoever opens a session whose call was killed while it ran a child can let go of it, though the child has gone on", async () => {
  const store = await openStore("memory:");
  const { inside, tool } = entered("once");
  void desk(store, tool).run("a", "go");
  await inside;
  const hold = holdOf(store);
  await hold.sessions.cancel("a");
  const session = await hold.session("a");
  expect(await Promise.race([session.close(), sleep(2_000, "does not end")])).toBeUndefined();
  expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toEqual([]);
});

/**
 * A store whose user is killed once it has committed something with such a text: nothing it asks
 * for is answered from then on.
 */
function killedAfter(
  store: Store,
  text: string,
): { readonly store: Store; readonly died: Promise<void> } {
  let isDead = false;
  const death = door();
  const isLast = (changes: Parameters<Store["apply"]>[0]) =>
    changes.some(({ saves = [] }) =>
      saves.some(({ save }) => save.state?.includes(text) || save.items?.includes(text)),
    );
  const dying = through(store, async (name, call, args) => {
    if (isDead) return never();
    if (name !== "apply") return call();
    isDead = isLast(args[0] as Parameters<Store["apply"]>[0]);
    const applied = await call();
    if (!isDead) return applied;
    death.open();
    return never();
  });
  return { store: dying, died: death.opened };
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
  const dying = killedAfter(store, '"is":"approved"');
  void holdOf(dying.store).effects.approve(effectId);
  await dying.died;
  expect(await statusAfterWork(store, bound)).toBe("completed");
});

/**
 * A clerk who pays, then mails, and to any other input says so. Cancelled once it was asked to pay,
 * and told something else. `inside`: when it is inside the call; without it, it waits for somebody.
 */
async function cancelled(store: Store, pay: object, inside?: Promise<void>) {
  const mailed: string[] = [];
  const mail = { mode: "once", run: () => mailed.push("mailed") };
  const model = async ({ messages }: ModelRequest): Promise<ModelReply> => {
    if (messages.findLast(({ role }) => role === "user")?.content === "another")
      return { content: "done" };
    const name = messages.some(({ role }) => role === "tool") ? "mail" : "pay";
    return { content: "", toolCalls: [{ callId: name, name, input: {} }] };
  };
  const bound = holdOf(store).bind(agent({ name: "desk", model, tools: { pay, mail } as never }));
  await (inside === undefined
    ? bound.run("a", "go")
    : Promise.race([bound.run("a", "go"), inside]));
  await holdOf(store).sessions.cancel("a");
  return { bound, mailed, turn: await bound.submit("a", "another", { key: "2" }) };
}

test("what was cancelled does not go on because whoever began the next turn was killed before it had", async () => {
  const store = await openStore("memory:");
  const { bound, turn } = await cancelled(store, {
    mode: "once",
    approval: true,
    run: () => "paid",
  });
  const dying = killedAfter(store, '"status":"in-progress"');
  void holdOf(dying.store)
    .worker({ agents: [bound], onSigterm: false })
    .start();
  await dying.died;
  expect(await statusAfterWork(store, bound)).toBe("completed");
  expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({
    status: "completed",
    output: "done",
  });
});

test("what was cancelled does not go on because a call of it was settled behind that", async () => {
  const store = await openStore("memory:");
  const { inside, tool } = entered("once");
  const { bound, mailed, turn } = await cancelled(store, tool, inside);
  expect(await statusAfterWork(store, bound)).toBe("in-doubt");
  const hold = holdOf(store);
  const [pending] = (await hold.effects.list({ status: "in-doubt" })).items;
  await hold.effects.settle(pending?.effectId as string, { output: "paid" });
  expect(await statusAfterWork(store, bound)).toBe("completed");
  expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({
    status: "completed",
    output: "done",
  });
  expect(mailed).toEqual([]);
});
