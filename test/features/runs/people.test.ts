/**
 * People and the outside: approving, denying, settling, and signals that a tool waits for. None of
 * it needs the lease.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  type Holdfast,
  type Message,
  partsOf,
  type RunResult,
  type ToolResultPart,
} from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message) as readonly ToolResultPart[])
    .map(({ name, outcome, output }) => [name, outcome, output]);
const pendingIn = (result: RunResult) =>
  result.status === "waiting" || result.status === "in-doubt"
    ? result.pending
    : expect.fail(result.status);
const firstIn = (result: RunResult) => pendingIn(result)[0]?.effectId as string;

describe.each(stores)("people on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());
  const resultsOf = async (id: string) => {
    const session = await on.start().hold.session(id, { waitMs: 2_000 });
    await session.close();
    return results(session.messages);
  };
  /** An agent that asks for one payment, of which `made` keeps the inputs. */
  const payer = (hold: Holdfast, approval: unknown = true, made: unknown[] = []) => {
    const bot = hold.agent({
      name: "payer",
      model: script(asks(["pay", { sum: 5 }])),
      tools: {
        pay: {
          mode: "once",
          input: z.object({ sum: z.number() }),
          approval: approval as boolean,
          run: (input) => (made.push(input), { paid: input.sum }),
        },
      },
    });
    return { bot, made };
  };

  test("a call that must be approved waits, and is made once somebody has approved it", async () => {
    const { hold } = on.start();
    const { bot, made } = payer(hold);
    const waiting = await bot.run("a", "go");
    expect(pendingIn(waiting)).toMatchObject([
      {
        sessionId: "a",
        name: "pay",
        input: { sum: 5 },
        status: "waiting",
        waitsFor: { for: "approval" },
        since: expect.stringMatching(/Z$/),
      },
    ]);
    expect(await bot.run("a", "go")).toMatchObject({ status: "waiting" });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "waiting" });
    // From another process, which knows nothing of the agent.
    const other = on.start().hold;
    expect((await other.effects.list({ status: "waiting" })).items).toEqual(pendingIn(waiting));
    expect((await other.effects.list({ status: "in-doubt" })).items).toEqual([]);
    await other.effects.approve(firstIn(waiting), { by: "ana", note: "fine" });
    expect(made).toEqual([]);
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual([{ sum: 5 }]);
    expect((await other.effects.list({ status: "waiting" })).items).toEqual([]);
  });

  test("an approval may change the input; one that does not fit is told to the model, and nothing is made", async () => {
    const { bot, made } = payer(on.start().hold);
    const { hold } = on.start();
    await hold.effects.approve(firstIn(await bot.run("a", "go")), { input: { sum: 3 } });
    await bot.run("a", "go");
    expect(await resultsOf("a")).toEqual([["pay", "ok", { paid: 3 }]]);
    await hold.effects.approve(firstIn(await bot.run("b", "go")), { input: { sum: "three" } });
    expect(await bot.run("b", "go")).toMatchObject({ status: "completed" });
    expect(await resultsOf("b")).toEqual([["pay", "error", expect.stringContaining("sum")]]);
    expect(made).toEqual([{ sum: 3 }]);
  });

  test("a denied call is not made, and the model is told why", async () => {
    const { hold } = on.start();
    const { bot, made } = payer(hold);
    const id = firstIn(await bot.run("a", "go"));
    await hold.effects.deny(id, { by: "ana", reason: "too much" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual([]);
    expect(await resultsOf("a")).toEqual([["pay", "denied", expect.stringContaining("too much")]]);
  });

  test("a function decides by the input; one that throws, or answers nonsense, asks", async () => {
    const { hold } = on.start();
    expect(
      await payer(hold, ({ sum }: { sum: number }) => sum > 100).bot.run("a", "go"),
    ).toMatchObject({ status: "completed" });
    expect(
      await payer(hold, async ({ sum }: { sum: number }) => sum > 1).bot.run("b", "go"),
    ).toMatchObject({ status: "waiting" });
    expect(
      await payer(hold, () => Promise.reject(new Error("no rules"))).bot.run("c", "go"),
    ).toMatchObject({ status: "waiting" });
    expect(await payer(hold, () => undefined).bot.run("d", "go")).toMatchObject({
      status: "waiting",
    });
  });

  test("siblings of a call that waits are made meanwhile, and not again", async () => {
    const { hold } = on.start();
    let looked = 0;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}], ["look", {}], ["mail", {}])),
      tools: {
        pay: { mode: "once", approval: true, run: () => "paid" },
        look: { mode: "repeatable", run: () => ++looked },
        mail: { mode: "once", run: () => ++looked },
      },
    });
    const waiting = await bot.run("a", "go");
    expect(looked).toBe(2);
    await hold.effects.approve(firstIn(waiting));
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(looked).toBe(2);
    expect((await resultsOf("a")).map(([name]) => name)).toEqual(["pay", "look", "mail"]);
  });

  test("two that wait are two decisions; the turn goes on when both are there", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", { n: 1 }], ["pay", { n: 2 }])),
      tools: { pay: { mode: "keyed", approval: true, run: ({ n }) => n } },
    });
    const [first, second] = pendingIn(await bot.run("a", "go"));
    await hold.effects.approve(second?.effectId as string);
    expect(pendingIn(await bot.run("a", "go")).map(({ effectId }) => effectId)).toEqual([
      first?.effectId,
    ]);
    await hold.effects.deny(first?.effectId as string, { reason: "no" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(await resultsOf("a")).toEqual([
      ["pay", "denied", "no"],
      ["pay", "ok", 2],
    ]);
  });

  const doubtful = async (hold: Holdfast, id: string) => {
    let made = 0;
    const bot = hold.agent({
      name: "doubtful",
      model: script(asks(["pay", {}])),
      tools: {
        pay: {
          mode: "once",
          run: () => {
            made += 1;
            if (made === 1) throw new Error("gateway timeout");
            return "paid";
          },
        },
      },
    });
    return { bot, effect: firstIn(await bot.run(id, "go")), made: () => made };
  };

  test.each([
    ["its output", { output: { refunded: true } }, ["ok", { refunded: true }], 1],
    ["nothing as its output", { output: null }, ["ok", null], 1],
    ["its error", { error: "never arrived" }, ["error", "never arrived"], 1],
    ["that it is to be made again", { retry: true }, ["ok", "paid"], 2],
  ] as const)("what is in doubt may be settled with %s", async (_what, as, expected, times) => {
    const { hold } = on.start();
    const { bot, effect, made } = await doubtful(hold, "a");
    await on.start().hold.effects.settle(effect, { ...as, by: "ana" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(await resultsOf("a")).toEqual([["pay", ...expected]]);
    expect(made()).toBe(times);
  });

  test("who decided is kept in the journal", async () => {
    const { hold } = on.start();
    const { effect } = await doubtful(hold, "a");
    await hold.effects.settle(effect, { output: 1, by: "ana" });
    const { bot } = payer(hold);
    await hold.effects.approve(firstIn(await bot.run("b", "go")), { by: "ben", note: "by phone" });
    await hold.effects.deny(firstIn(await bot.run("c", "go")), { by: "cem", reason: "no" });
    let rows = "";
    for await (const row of hold.export()) rows += row;
    for (const name of ["ana", "ben", "by phone", "cem"]) expect(rows).toContain(name);
  });

  test("a decision about what is not there, or does not wait for it, is refused", async () => {
    const { hold } = on.start();
    const { bot } = payer(hold);
    const id = firstIn(await bot.run("a", "go"));
    const { effect } = await doubtful(hold, "b");
    for (const nobody of ["nobody", `${id}9`, "x-1.1"]) {
      await expect(hold.effects.approve(nobody)).rejects.toMatchObject(coded("NOT_FOUND"));
      await expect(hold.effects.settle(nobody, { retry: true })).rejects.toMatchObject(
        coded("NOT_FOUND"),
      );
    }
    await expect(hold.effects.approve("")).rejects.toMatchObject({ name: "HoldfastError" });
    await expect(hold.effects.approve(effect)).rejects.toMatchObject(coded("BAD_STATUS"));
    await expect(hold.effects.deny(effect, { reason: "no" })).rejects.toMatchObject(
      coded("BAD_STATUS"),
    );
    await expect(hold.effects.settle(id, { by: "ana" } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(hold.effects.settle(id, { output: 1, error: "x" } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(hold.effects.settle(id, { output: new Date() } as never)).rejects.toMatchObject(
      coded("INVALID_VALUE"),
    );
    await expect(hold.effects.deny(id, {} as never)).rejects.toMatchObject({
      name: "HoldfastError",
    });
    await hold.effects.approve(id);
    // The same again is the same decision.
    await hold.effects.approve(id);
    await expect(hold.effects.deny(id, { reason: "too late" })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    await bot.run("a", "go");
    const over = await errorOf(() => hold.effects.approve(id));
    expect(over).toMatchObject(coded("NOT_FOUND"));
  });

  test("lists go page by page, by agent and by status; all calls of a session stand on one page", async () => {
    const { hold } = on.start();
    const two = hold.agent({
      name: "two",
      model: script(asks(["pay", { n: 1 }], ["pay", { n: 2 }])),
      tools: { pay: { mode: "once", approval: true, run: () => 1 } },
    });
    for (const id of ["t1", "t2"]) await two.run(id, "go");
    for (const id of ["p1", "p2", "p3"]) await payer(hold).bot.run(id, "go");
    await doubtful(hold, "d1");
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await hold.effects.list({
        status: "waiting",
        limit: 2,
        ...(cursor !== undefined && { cursor }),
      });
      expect(page.items.length).toBeLessThanOrEqual(3);
      seen.push(...page.items.map(({ sessionId }) => sessionId));
      cursor = page.next;
    } while (cursor !== undefined);
    expect(seen).toEqual(["p3", "p2", "p1", "t2", "t2", "t1", "t1"]);
    expect(
      (await hold.effects.list({ status: "waiting", agent: "payer" })).items.map(
        ({ sessionId }) => sessionId,
      ),
    ).toEqual(["p3", "p2", "p1"]);
    expect(
      (await hold.effects.list({ status: "in-doubt" })).items.map(({ sessionId }) => sessionId),
    ).toEqual(["d1"]);
    await expect(hold.effects.list({ status: "done" } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(hold.effects.list({ status: "waiting", cursor: "x" })).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
  });

  test("a session may be in doubt and wait: both lists show it, and in-doubt is its status", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}], ["mail", {}])),
      tools: {
        pay: { mode: "once", approval: true, run: () => "paid" },
        mail: { mode: "once", run: () => Promise.reject(new Error("reset")) },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({
      status: "in-doubt",
      pending: [{ name: "pay" }, { name: "mail" }],
    });
    const [waiting] = (await hold.effects.list({ status: "waiting" })).items;
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    expect([waiting?.name, doubt?.name]).toEqual(["pay", "mail"]);
    await hold.effects.settle(doubt?.effectId as string, { output: "sent" });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "waiting" });
    await hold.effects.approve(waiting?.effectId as string);
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test("a decision reaches a holder that is at work: the run goes on by itself", async () => {
    const first = on.start({ leaseMs: 600 });
    const semaphore = door<string>();
    const bot = first.hold.agent({
      name: "bot",
      model: script(asks(["pay", {}], ["slow", {}])),
      tools: {
        pay: { mode: "once", approval: true, run: () => "paid" },
        slow: { mode: "once", run: () => semaphore.opened },
      },
    });
    const run = bot.run("a", "go");
    const { hold } = on.start();
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBeDefined();
    let id = "";
    await expect
      .poll(async () => {
        const session = await hold.effects.list({ status: "waiting" });
        id = session.items[0]?.effectId ?? "";
        return id;
      })
      .not.toBe("");
    await hold.effects.approve(id, { by: "ana" });
    semaphore.open("done");
    const result = await run;
    expect(result.status === "completed" ? result : await bot.run("a", "go")).toMatchObject({
      status: "completed",
    });
  });

  // ---- signals

  const waiter = (
    hold: Holdfast,
    o: object = {},
    seen: unknown[] = [],
    mode: "repeatable" | "keyed" = "repeatable",
  ) =>
    hold.agent({
      name: "waiter",
      model: script(asks(["ask", {}])),
      tools: {
        ask: {
          mode,
          run: async (_input, { wait }) => {
            const value = await wait("reply", o as { timeoutMs: number });
            seen.push(value);
            return value ?? "nobody answered";
          },
        },
      },
    });

  test.each(["repeatable", "keyed"] as const)(
    "a %s tool waits for a signal, however long that takes, also in another process",
    async (mode) => {
      const first = on.start();
      const waiting = await waiter(first.hold, {}, [], mode).run("a", "go");
      expect(pendingIn(waiting)).toMatchObject([{ waitsFor: { for: "signal", name: "reply" } }]);
      first.kill();
      const { hold } = on.start();
      await hold.sessions.signal("a", "other", 0);
      expect(await waiter(hold, {}, [], mode).run("a", "go")).toMatchObject({ status: "waiting" });
      await hold.sessions.signal("a", "reply", { yes: true });
      expect(await waiter(on.start().hold, {}, [], mode).run("a", "go")).toMatchObject({
        status: "completed",
      });
      expect(await resultsOf("a")).toEqual([["ask", "ok", { yes: true }]]);
    },
  );

  test("a signal that came before anybody waited is not lost, and is given once", async () => {
    const { hold } = on.start();
    const seen: unknown[] = [];
    await (await hold.session("a", { agent: "waiter" })).close();
    await hold.sessions.signal("a", "reply", "early");
    expect(await waiter(hold, {}, seen).run("a", "go")).toMatchObject({ status: "completed" });
    expect(seen).toEqual(["early"]);
    expect(await waiter(hold, {}, seen).run("b", "go")).toMatchObject({ status: "waiting" });
  });

  test("the same key is the same signal; with another value it is a CONFLICT", async () => {
    const { hold } = on.start();
    const twice = hold.agent({
      name: "twice",
      model: script(asks(["ask", {}])),
      tools: {
        ask: {
          mode: "repeatable",
          run: async (_input, { wait }) => [await wait("n"), await wait("n")] as never,
        },
      },
    });
    await twice.run("a", "go");
    await hold.sessions.signal("a", "n", 1, { key: "k1" });
    await hold.sessions.signal("a", "n", 1, { key: "k1" });
    await expect(hold.sessions.signal("a", "n", 2, { key: "k1" })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    expect(await twice.run("a", "go")).toMatchObject({ status: "waiting" });
    await hold.sessions.signal("a", "n", 2, { key: "k2" });
    expect(await twice.run("a", "go")).toMatchObject({ status: "completed" });
    expect(await resultsOf("a")).toEqual([["ask", "ok", [1, 2]]]);
  });

  test("a signal that does not fit its schema is an error of the call", async () => {
    const { hold } = on.start();
    const bot = waiter(hold, { schema: z.object({ yes: z.boolean() }) });
    await bot.run("a", "go");
    await hold.sessions.signal("a", "reply", { yes: "maybe" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(await resultsOf("a")).toEqual([["ask", "error", expect.stringContaining("yes")]]);
  });

  test("a wait whose time is up answers undefined; its time counts from the first time it was waited", async () => {
    let now = 1_700_000_000_000;
    const { hold } = on.start({ clock: { now: () => now } });
    const seen: unknown[] = [];
    const bot = waiter(hold, { timeoutMs: 60_000 }, seen);
    expect(await bot.run("a", "go")).toMatchObject({ status: "waiting" });
    now += 59_000;
    expect(await bot.run("a", "go")).toMatchObject({ status: "waiting" });
    now += 1_000;
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(seen).toEqual([undefined]);
  });

  test("two waits one after the other have each their own time, and what ran out before stays so", async () => {
    let now = 1_700_000_000_000;
    const { hold } = on.start({ clock: { now: () => now } });
    const seen: unknown[] = [];
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["ask", {}])),
      tools: {
        ask: {
          mode: "repeatable",
          run: async (_input, { wait }) => {
            const answers = [
              await wait("a", { timeoutMs: 1_000 }),
              await wait("b", { timeoutMs: 1_000 }),
              await wait("a", { timeoutMs: 1_000 }),
            ];
            seen.push(answers);
            return answers.map((answer) => answer ?? null);
          },
        },
      },
    });
    for (let i = 0; i < 3; i++) {
      expect([i, await bot.run("a", "go")]).toMatchObject([i, { status: "waiting" }]);
      now += 1_000;
    }
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(seen).toEqual([[undefined, undefined, undefined]]);
    for (let i = 0; i < 3; i++) {
      expect([i, await bot.run("b", "go")]).toMatchObject([i, { status: "waiting" }]);
      if (i < 2) now += 1_000;
    }
    await hold.sessions.signal("b", "a", "for the second wait");
    expect(await bot.run("b", "go")).toMatchObject({ status: "completed" });
    expect(seen[1]).toEqual([undefined, undefined, "for the second wait"]);
  });

  test("a tool that may run only once cannot wait: it would have to be run again", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["ask", {}])),
      tools: { ask: { mode: "once", run: (_input, { wait }) => wait("reply") } },
    });
    const result = await bot.run("a", "go");
    expect(["in-doubt", "completed"]).toContain(result.status);
    expect(result.status).not.toBe("waiting");
  });

  test("signals to nobody, without a name, or that are not JSON are refused", async () => {
    const { hold } = on.start();
    await expect(hold.sessions.signal("nobody", "reply", 1)).rejects.toMatchObject(
      coded("NOT_FOUND"),
    );
    await (await hold.session("a")).close();
    await expect(hold.sessions.signal("a", "", 1)).rejects.toMatchObject({ name: "HoldfastError" });
    await expect(hold.sessions.signal("a", "reply", new Date() as never)).rejects.toMatchObject(
      coded("INVALID_VALUE"),
    );
  });

  test("a session that waits can be moved to another store, and goes on there", async () => {
    let now = 1_700_000_000_000;
    const clock = { now: () => now };
    const agentOf = (hold: Holdfast) =>
      hold.agent({
        name: "bot",
        model: script(asks(["pay", { big: "x".repeat(10_000) }], ["ask", {}], ["look", {}])),
        tools: {
          pay: { mode: "once", key: () => "pay", approval: true, run: ({ big }) => big.length },
          ask: {
            mode: "keyed",
            run: async (_input, { wait }) => [
              (await wait("a", { timeoutMs: 1_000 })) ?? null,
              (await wait("b")) ?? null,
            ],
          },
          look: { mode: "repeatable", run: () => "y".repeat(10_000) },
        },
      });
    const { hold } = on.start({ clock });
    await agentOf(hold).run("a", "go");
    now += 1_000;
    const [pay, ask] = pendingIn(await agentOf(hold).run("a", "go"));
    expect([pay?.waitsFor, ask?.waitsFor]).toMatchObject([
      { for: "approval" },
      { for: "signal", name: "b" },
    ]);
    const rows: string[] = [];
    for await (const row of hold.export({ session: "a" })) rows.push(row);
    const elsewhere = await Processes.on(address());
    const there = elsewhere.start({ clock }).hold;
    expect((await there.import(rows, { moved: true })).sessions).toMatchObject([
      { id: "a", outcome: "imported" },
    ]);
    expect((await there.effects.list({ status: "waiting" })).items.map(({ name }) => name)).toEqual(
      ["pay", "ask"],
    );
    await there.effects.approve(pay?.effectId as string);
    await there.sessions.signal("a", "b", 7);
    expect(await agentOf(there).resume("a")).toMatchObject({ status: "completed" });
    const session = await there.session("a");
    expect(results(session.messages)).toEqual([
      ["pay", "ok", 10_000],
      ["ask", "ok", [null, 7]],
      ["look", "ok", "y".repeat(10_000)],
    ]);
    await session.close();
    expect(await there.verify()).toMatchObject({ ok: true, findings: [] });
    await elsewhere.close();
  });

  test("what a checkpoint says of calls that were open at it", async () => {
    const { hold } = on.start();
    const { bot } = payer(hold);
    await bot.run("a", "go");
    await hold.sessions.cancel("a");
    const latest = await hold.checkpoints.latest("a");
    const { effects } = await hold.checkpoints.state(latest?.id as string);
    expect(effects).toMatchObject([{ name: "pay", input: { sum: 5 } }]);
  });
});
