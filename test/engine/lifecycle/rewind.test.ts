/** Going back past what has been done: nothing is silently done twice on another line. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Checkpoint, type Holdfast, NotDone, type RunResult } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const firstIn = (result: RunResult) =>
  result.status === "waiting" || result.status === "in-doubt"
    ? (result.pending[0]?.effectId as string)
    : expect.fail(result.status);

describe.each(stores)("rewinds and forks on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  /** A session by hand that has paid behind its first checkpoint. */
  const paid = async (hold: Holdfast, mode: "keyed" | "once" = "once") => {
    const session = await hold.session("a");
    const before = await session.checkpoint("before");
    let made = 0;
    const pay = (s = session, sum = 5, key = "pay:1") =>
      s.effect("pay", { sum }, { mode, key }, async () => `paid ${++made}`);
    expect(await pay()).toBe("paid 1");
    await session.checkpoint("after");
    return { session, before, pay, made: () => made };
  };

  test("rewind answers what had been done by then", async () => {
    const { session, before } = await paid(on.start().hold);
    await session.effect("look", {}, { mode: "repeatable" }, async () => 1);
    await errorOf(() =>
      session.effect("mail", { to: "x" }, { mode: "keyed", key: "m" }, () =>
        Promise.reject(new NotDone("no")),
      ),
    );
    await session.checkpoint();
    const { passed } = await session.rewind(before.id);
    expect(passed).toMatchObject([
      { name: "pay", input: { sum: 5 }, outcome: "ok", sessionId: "a", mode: "once" },
      { name: "mail", input: { to: "x" }, outcome: "error" },
    ]);
    expect((await session.rewind(before.id)).passed).toEqual([]);
  });

  test("ask, by default: the same again waits; approved it is made, denied it is not", async () => {
    const { hold } = on.start();
    const { session, before, pay, made } = await paid(hold);
    await session.rewind(before.id);
    const waiting = (await errorOf(() => pay())) as { code: string; details: { effectId: string } };
    expect(waiting.code).toBe("WAITING");
    expect(session.status).toBe("waiting");
    await expect(pay()).rejects.toMatchObject(coded("WAITING"));
    expect((await hold.effects.list({ status: "waiting" })).items).toMatchObject([
      { name: "pay", waitsFor: { for: "repeat" } },
    ]);
    await hold.effects.approve(waiting.details.effectId, { by: "ana" });
    await expect.poll(() => session.status).toBe("in-progress");
    expect(await pay()).toBe("paid 2");
    await session.checkpoint();
    await session.rewind(before.id);
    const again = (await errorOf(() => pay())) as { details: { effectId: string } };
    await hold.effects.deny(again.details.effectId, { reason: "twice is enough" });
    await expect.poll(() => session.status).toBe("in-progress");
    expect(await errorOf(() => pay())).toMatchObject({ name: expect.any(String) });
    expect(made()).toBe(2);
  });

  test("a repeat may be settled from what is known of the first", async () => {
    const { hold } = on.start();
    const { session, before, pay, made } = await paid(hold);
    await session.rewind(before.id);
    const { details } = (await errorOf(() => pay())) as { details: { effectId: string } };
    await hold.effects.settle(details.effectId, { output: "as before" });
    await expect.poll(() => session.status).toBe("in-progress");
    expect(await pay()).toBe("as before");
    expect(made()).toBe(1);
  });

  test("replay answers from the record, live makes it again", async () => {
    const { session, before, pay, made } = await paid(on.start().hold, "keyed");
    await session.rewind(before.id, { effects: "replay" });
    expect(await pay()).toBe("paid 1");
    await session.rewind(before.id, { effects: "live" });
    expect(await pay()).toBe("paid 2");
    expect(made()).toBe(2);
  });

  test("replay of a call that failed is its failure, and not its words as a result", async () => {
    const session = await on.start().hold.session("a");
    const before = await session.checkpoint();
    const o = { mode: "once", key: "k" } as const;
    await errorOf(() =>
      session.effect("pay", {}, o, () => Promise.reject(new NotDone("no money"))),
    );
    await session.checkpoint();
    await session.rewind(before.id, { effects: "replay" });
    expect(await errorOf(() => session.effect("pay", {}, o, async () => "paid"))).toMatchObject({
      message: "no money",
    });
  });

  test("another call under the same name is the same act: it waits, too; one that differs in both is made", async () => {
    const { session, before, pay } = await paid(on.start().hold);
    await session.rewind(before.id);
    await expect(pay(session, 7)).rejects.toMatchObject(coded("WAITING"));
    await expect(pay(session, 5, "pay:2")).rejects.toMatchObject(coded("WAITING"));
    expect(await pay(session, 8, "pay:3")).toBe("paid 2");
  });

  test("what was done before the place that is gone back to is known there", async () => {
    const { session, pay, made } = await paid(on.start().hold);
    const after = session.head as Checkpoint;
    session.append({ role: "user", content: "more" });
    await session.checkpoint();
    await session.rewind(after.id);
    expect(await pay()).toBe("paid 1");
    expect(made()).toBe(1);
  });

  test("a line with a call that is not over cannot be left", async () => {
    const { hold } = on.start();
    const session = await hold.session("a");
    const before = await session.checkpoint();
    const inside = door();
    const semaphore = door<string>();
    const call = session.effect(
      "pay",
      {},
      { mode: "once", key: "k" },
      () => (inside.open(), semaphore.opened),
    );
    await inside.opened;
    await expect(session.rewind(before.id)).rejects.toMatchObject({ code: "BAD_STATUS" });
    await expect(session.switchBranch(before.id)).rejects.toMatchObject({ code: "BAD_STATUS" });
    semaphore.open("paid");
    await call;
    await errorOf(() =>
      session.effect("mail", {}, { mode: "once", key: "m" }, () =>
        Promise.reject(new Error("reset")),
      ),
    );
    const error = (await errorOf(() => session.rewind(before.id))) as {
      code: string;
      details: { effectId: string };
    };
    expect(error.code).toBe("BAD_STATUS");
    await hold.effects.settle(error.details.effectId, { error: "never sent" });
    await expect.poll(() => session.status).toBe("in-progress");
    expect((await session.rewind(before.id)).passed).toHaveLength(2);
    expect(session.status).toBe("in-progress");
  });

  test("switching to a branch again: what was done on it is known, and what was done on the other is asked about", async () => {
    const { session, before, pay, made } = await paid(on.start().hold);
    const after = session.head as Checkpoint;
    await session.rewind(before.id);
    expect(await pay(session, 9, "pay:9")).toBe("paid 2");
    await session.checkpoint();
    await session.switchBranch(after.id);
    expect(await pay()).toBe("paid 1");
    await expect(pay(session, 9, "pay:9")).rejects.toMatchObject(coded("WAITING"));
    expect(made()).toBe(2);
  });

  // ---- agents

  const payer = (hold: Holdfast, made: unknown[], branches: number) =>
    hold.agent({
      name: "payer",
      checkpoint: "before-step",
      model: script(...Array.from({ length: branches }, (_, i) => asks(["pay", { n: i + 1 }]))),
      tools: { pay: { mode: "once", run: ({ n }) => (made.push(n), `paid ${n} ${made.length}`) } },
    });
  const firstOf = async (hold: Holdfast, id: string) =>
    (await hold.checkpoints.list(id, { limit: 100 })).items.at(-1) as Checkpoint;

  test("a fork of a run goes its own way: what its origin has done since is asked about", async () => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, made, 2);
    await bot.run("a", "go");
    expect(made).toEqual([1, 2]);
    await hold.sessions.fork((await firstOf(hold, "a")).id, { id: "b" });
    const waiting = await bot.resume("b");
    expect(waiting).toMatchObject({
      status: "waiting",
      pending: [{ name: "pay", input: { n: 1 }, waitsFor: { for: "repeat" } }],
    });
    await hold.effects.approve(firstIn(waiting));
    const second = await bot.resume("b");
    expect(second).toMatchObject({ status: "waiting", pending: [{ input: { n: 2 } }] });
    await hold.effects.deny(firstIn(second), { reason: "no" });
    expect(await bot.resume("b")).toMatchObject({ status: "completed" });
    expect(made).toEqual([1, 2, 1]);
  });

  test.each([
    ["replay", [1, 2]],
    ["live", [1, 2, 1, 2]],
  ] as const)("a fork with effects %s", async (effects, expected) => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, made, 2);
    await bot.run("a", "go");
    await hold.sessions.fork((await firstOf(hold, "a")).id, { id: "b", effects });
    expect(await bot.resume("b")).toMatchObject({ status: "completed" });
    expect(made).toEqual(expected);
    const session = await hold.session("b");
    const said = session.messages
      .filter(({ role }) => role === "tool")
      .map(({ content }) => (content[0] as { output?: unknown }).output);
    expect(said).toEqual(
      effects === "replay" ? ["paid 1 1", "paid 2 2"] : ["paid 1 3", "paid 2 4"],
    );
    await session.close();
  });

  test("a fork sees what its origin does after it was forked, too", async () => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, made, 2);
    const halted = await bot.run("a", "go", { limits: { steps: 1 } });
    expect(halted.status).toBe("halted");
    const { items } = await hold.checkpoints.list("a", { limit: 100 });
    const between = items.find(
      ({ messageCount, kind }) => messageCount === 3 && kind === "automatic",
    ) as Checkpoint;
    await hold.sessions.fork(between.id, { id: "b" });
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    expect(made).toEqual([1, 2]);
    expect(await bot.resume("b")).toMatchObject({
      status: "waiting",
      pending: [{ input: { n: 2 } }],
    });
    expect(made).toEqual([1, 2]);
  });

  test("a fork at a place where a call was open does not own it: it is not made twice unasked", async () => {
    const first = on.start();
    const inside = door();
    const semaphore = door<string>();
    const made: unknown[] = [];
    const agentOf = (hold: Holdfast) =>
      hold.agent({
        name: "payer",
        checkpoint: "after-model",
        model: script(asks(["pay", { n: 1 }])),
        tools: {
          pay: { mode: "once", run: ({ n }) => (made.push(n), inside.open(), semaphore.opened) },
        },
      });
    const run = agentOf(first.hold).run("a", "go");
    await inside.opened;
    const { hold } = on.start();
    await expect.poll(async () => (await hold.checkpoints.list("a")).items.length).toBe(1);
    await hold.sessions.fork(((await hold.checkpoints.latest("a")) as Checkpoint).id, { id: "b" });
    expect(await agentOf(hold).resume("b")).toMatchObject({
      status: "waiting",
      pending: [{ input: { n: 1 }, waitsFor: { for: "repeat" } }],
    });
    semaphore.open("paid");
    expect(await run).toMatchObject({ status: "completed" });
    expect(made).toEqual([1]);
  });

  test("a run that was rewound by hand asks before it does the same again", async () => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, made, 1);
    await bot.run("a", "go");
    const session = await hold.session("a");
    const { passed } = await session.rewind((await firstOf(hold, "a")).id);
    expect(passed).toMatchObject([{ name: "pay", input: { n: 1 }, outcome: "ok" }]);
    await session.close();
    expect(await bot.run("a", "go")).toMatchObject({ status: "waiting" });
    expect(made).toEqual([1]);
  });

  test("pruning does not forget what was done", async () => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, made, 3);
    await bot.run("a", "go");
    const first = await firstOf(hold, "a");
    await hold.sessions.fork(first.id, { id: "b" });
    await hold.checkpoints.prune("a", { keep: 1 });
    await hold.gc();
    expect(await bot.resume("b")).toMatchObject({
      status: "waiting",
      pending: [{ input: { n: 1 } }],
    });
    expect(made).toEqual([1, 2, 3]);
  });

  test("pruning does not make forks forget what was done, nor rewinds", async () => {
    const { hold } = on.start();
    const session = await hold.session("a");
    const before = await session.checkpoint("before");
    let made = 0;
    const pay = (s: typeof session, n: number) =>
      s.effect(
        "pay",
        { n, note: "x".repeat(2_000) },
        { mode: "once", key: `pay:${n}` },
        async () => ++made,
      );
    const fork = await session.fork(before.id, { id: "fork" });
    for (let n = 0; n < 40; n++) {
      await pay(session, n);
      // Much that is soon replaced, so that there is something to drop.
      session.set("scratch", "y".repeat(4_000 + n));
      await session.checkpoint();
    }
    expect((await hold.checkpoints.prune("a", { keep: 2 })).removed).toBeGreaterThan(30);
    for (let n = 0; n < 40; n++) await expect(pay(fork, n)).rejects.toMatchObject(coded("WAITING"));
    expect(made).toBe(40);
    const { passed } = await session.rewind(before.id);
    expect(passed).toHaveLength(40);
    await expect(pay(session, 3)).rejects.toMatchObject(coded("WAITING"));
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("pruning the line that was left does not forget what was done on it", async () => {
    const { hold } = on.start();
    const { session, before, pay, made } = await paid(hold);
    await session.rewind(before.id);
    await session.checkpoint();
    await hold.checkpoints.prune("a", { keep: 1, branches: "all" });
    await hold.gc();
    await expect(pay()).rejects.toMatchObject(coded("WAITING"));
    expect(made()).toBe(1);
  });

  test("what was pruned cannot be replayed: somebody is asked", async () => {
    const { hold } = on.start();
    const agent = hold.agent({
      name: "payer",
      model: script(
        ...Array.from({ length: 12 }, (_, n) => asks(["pay", { n, note: "z".repeat(3_000) }])),
        "done",
      ),
      tools: { pay: { mode: "once", run: ({ n }: { n: number }) => `paid ${n}` } },
      checkpoint: "after-model",
    });
    expect((await agent.run("a", "go")).status).toBe("completed");
    const { items } = await hold.checkpoints.list("a", { limit: 100 });
    const first = items.at(-1) as Checkpoint;
    await hold.sessions.fork(first.id, { id: "replayed", effects: "replay" });
    expect((await agent.resume("replayed")).status).toBe("completed");
    await hold.sessions.fork(first.id, { id: "asked", effects: "replay" });
    const session = await hold.session("a");
    session.splice("messages", 0, session.messages.length);
    for (let i = 0; i < 40; i++) {
      session.set("scratch", "y".repeat(4_000 + i));
      await session.checkpoint();
    }
    await session.close();
    await hold.checkpoints.prune("a", { keep: 1 });
    expect((await agent.resume("asked")).status).toBe("waiting");
  });
});
