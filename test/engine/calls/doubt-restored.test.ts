/**
 * DOUBT-1 to DOUBT-3: a store that was put back from a copy. What was under way in it goes on once somebody
 * has said so, and not before.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  agent,
  type Holdfast,
  HoldfastError,
  type Pending,
  type RunResult,
} from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const pendingIn = (result: RunResult): readonly Pending[] =>
  result.status === "waiting" || result.status === "in-doubt"
    ? result.pending
    : expect.fail(result.status);
const firstIn = (result: RunResult) => pendingIn(result)[0]?.effectId as string;
const soon = { timeoutMs: 10_000 };

describe.each(stores)("a copy that was put back, on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  /**
   * An agent that looks, refunds and mails, in this order; `made` has what its tools did. It stops
   * at the door of one of them.
   */
  const world = (at?: "look" | "refund" | "mail") => {
    const made: string[] = [];
    const keys = new Set<string>();
    const inside = door();
    const act =
      (name: string) =>
      async (_input: unknown, { key }: { readonly key: string }) => {
        made.push(name);
        keys.add(`${name} ${key}`);
        if (at !== name || made.filter((one) => one === name).length > 1) return name;
        inside.open();
        return new Promise<never>(() => {});
      };
    const agentOf = (hold: Holdfast) =>
      hold.agent({
        name: "support",
        model: script(asks(["look", {}]), asks(["refund", {}]), asks(["mail", {}]), "done"),
        tools: {
          look: { mode: "repeatable", run: act("look") },
          refund: { mode: "keyed", run: act("refund"), timeoutMs: 200 },
          mail: { mode: "once", run: act("mail"), timeoutMs: 200 },
        },
      });
    return { made, keys, agentOf, inside: inside.opened };
  };

  /**
   * Runs until it is inside a call, and is then copied: what runs goes on in the original, and
   * nothing of that is seen here.
   */
  const copied = async (
    at: "look" | "refund" | "mail",
    { lives = false, leaseMs = 30_000 } = {},
  ) => {
    const the = world(at);
    const original = on.start({ leaseMs });
    void the.agentOf(original.hold).run("a", "go");
    await the.inside;
    if (lives) original.lose();
    else original.kill();
    const { hold } = on.start();
    await hold.markRestored();
    return { ...the, hold, bot: the.agentOf(hold) };
  };

  test.each(["look", "refund", "mail"] as const)(
    "DOUBT-1 inside %s: it is in doubt at once, and nothing is made before somebody's word",
    async (at) => {
      const { hold, bot, made, keys } = await copied(at);
      const before = [...made];
      expect((await hold.sessions.get("a"))?.status).toBe("in-progress");
      const session = await hold.session("a");
      expect(session.status).toBe("in-doubt");
      await session.close();
      for (const result of [await bot.run("a", "go"), await bot.resume("a")]) {
        expect(result.status).toBe("in-doubt");
        expect(pendingIn(result).map(({ name, status }) => [name, status])).toContainEqual([
          "(restored)",
          "in-doubt",
        ]);
      }
      expect(made).toEqual(before);
      const { items } = await hold.effects.list({ status: "in-doubt" });
      const whole = items.find(({ name }) => name === "(restored)") as Pending;
      expect(whole).toMatchObject({
        sessionId: "a",
        mode: "once",
        input: { was: "in-progress", says: expect.stringContaining("copy") },
      });
      // DOUBT-3: only what may not be made twice is in doubt itself.
      expect(items.map(({ name }) => name).toSorted()).toEqual(
        at === "mail" ? ["(restored)", "mail"] : ["(restored)"],
      );
      await hold.effects.settle(whole.effectId, { retry: true, by: "ana" });
      if (at === "mail") {
        expect(await bot.run("a", "go")).toMatchObject({
          status: "in-doubt",
          pending: [{ name: "mail" }],
        });
        expect(made).toEqual(before);
        await hold.effects.settle(firstIn(await bot.run("a", "go")), { output: "was sent" });
      }
      expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
      expect([...keys].filter((key) => key.startsWith("refund"))).toHaveLength(1);
      expect(made.filter((name) => name === "mail")).toHaveLength(1);
      // Neither the model nor the transcript has heard of it.
      const after = await hold.session("a");
      expect(JSON.stringify(after.messages)).not.toContain("(restored)");
      expect(after.status).toBe("completed");
      await after.close();
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    },
  );

  test("a result lets it go on, an error or a cancel ends it", async () => {
    for (const [i, how] of ["output", "error", "cancel"].entries()) {
      const id = `s${i}`;
      const { agentOf, made } = world();
      const semaphore = door();
      const original = on.start();
      void original.hold
        .agent({ name: "support", model: () => (semaphore.open(), new Promise<never>(() => {})) })
        .run(id, "go")
        .catch(() => {});
      await semaphore.opened;
      original.lose();
      const { hold } = on.start();
      await hold.markRestored();
      const bot = agentOf(hold);
      const whole = firstIn(await bot.run(id, "go"));
      if (how === "cancel") await hold.sessions.cancel(id, "not here");
      else
        await hold.effects.settle(
          whole,
          how === "error" ? { error: "not here" } : { output: "go on" },
        );
      expect((await hold.effects.list({ status: "in-doubt" })).items).toEqual([]);
      if (how === "output") expect(await bot.run(id, "go")).toMatchObject({ status: "completed" });
      else {
        expect(await hold.sessions.get(id)).toMatchObject({
          status: "cancelled",
          reason: "not here",
        });
        expect(await bot.run(id, "go")).toMatchObject({ status: "stopped", reason: "cancelled" });
        expect(made).toEqual([]);
        // A turn that is begun here is one like others.
        expect(await bot.run(id, "again")).toMatchObject({ status: "completed" });
      }
    }
  });

  test("EFFECT-4 while the original may be inside a call, it is not made again even after somebody's word", async () => {
    const { hold, bot, made } = await copied("refund", { lives: true });
    await hold.effects.settle(firstIn(await bot.run("a", "go")), { retry: true });
    const going = bot.run("a", "go");
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(made).toEqual(["look", "refund"]);
    expect(await going).toMatchObject({ status: "completed" });
    expect(made).toEqual(["look", "refund", "refund", "mail"]);
  });

  test("DOUBT-1 it is said once, whoever opens it and however often; the next generation says it anew", async () => {
    const { hold, bot } = await copied("refund");
    await bot.run("a", "go");
    const other = on.start().hold;
    await (await other.session("a")).close();
    const count = async () => (await hold.effects.list({ status: "in-doubt" })).items.length;
    expect(await count()).toBe(1);
    await hold.effects.settle(firstIn(await bot.run("a", "go")), { retry: true });
    expect(await count()).toBe(0);
    await other.markRestored();
    expect(await world().agentOf(other).run("a", "go")).toMatchObject({ status: "in-doubt" });
    // What was settled in between stays settled; it is the session that is asked about again.
    expect(
      (await other.effects.list({ status: "in-doubt" })).items.map(({ name }) => name),
    ).toEqual(["(restored)"]);
  });

  test("DOUBT-1 killed at any write while it is opened, it is in doubt when it is opened next", async () => {
    const { hold: first, agentOf, made } = await copied("mail");
    await first.close();
    const before = [...made];
    for (let write = 1; write <= 6; write++) {
      for (const done of [false, true]) {
        const dying = on.start({ diesAt: { write, done } });
        await Promise.race([dying.died, agentOf(dying.hold).run("a", "go")]).catch(() => {});
        dying.kill();
        expect(made).toEqual(before);
      }
    }
    const { hold } = on.start();
    expect(await agentOf(hold).run("a", "go")).toMatchObject({ status: "in-doubt" });
    const { items } = await hold.effects.list({ status: "in-doubt" });
    expect(items.map(({ name }) => name).toSorted()).toEqual(["(restored)", "mail"]);
  });

  test("a lease that came with the copy holds nobody up", async () => {
    const session = await on.start().hold.session("a");
    session.append({ role: "user", content: "held" });
    await session.checkpoint();
    const { hold } = on.start();
    await expect(hold.session("a")).rejects.toMatchObject(coded("LEASE_HELD"));
    await hold.markRestored();
    const here = await hold.session("a");
    expect(here.status).toBe("in-doubt");
    await expect(hold.markRestored()).rejects.toMatchObject(coded("BAD_STATUS"));
  });

  test("DOUBT-2 what was completed or cancelled opens as it is, and new turns are run", async () => {
    const { agentOf, made } = world();
    const bot = agentOf(on.start().hold);
    await bot.run("done", "go");
    const stopping = on.start().hold;
    await stopping.session("stopped", { agent: "support" }).then(async (session) => {
      session.append({ role: "user", content: "x" });
      await session.checkpoint();
      await session.close();
    });
    await stopping.sessions.cancel("stopped", "enough");
    const { hold } = on.start();
    await hold.markRestored();
    const here = agentOf(hold);
    expect(await here.run("done", "go")).toMatchObject({ status: "completed", replayed: true });
    for (const id of ["done", "stopped"]) {
      const session = await hold.session(id);
      expect(session.status).toBe(id === "done" ? "completed" : "cancelled");
      await session.close();
      expect(await here.run(id, "and now?")).toMatchObject({ status: "completed" });
    }
    expect((await hold.effects.list({ status: "in-doubt" })).items).toEqual([]);
    // Opened again, it is a session of this generation.
    expect(await here.run("done", "and now?")).toMatchObject({
      status: "completed",
      replayed: true,
    });
    expect(made.filter((name) => name === "mail").length).toBeGreaterThan(0);
  });

  test.each(["halted", "failed"] as const)(
    "DOUBT-2 what was %s opens as it is; whoever goes on with it is asked first",
    async (status) => {
      let broken = true;
      const made: string[] = [];
      const agentOf = (hold: Holdfast) =>
        hold.agent({
          name: "support",
          model: async ({ messages }) => {
            if (broken && status === "failed") throw new Error("no model");
            return messages.length > 2 ? { content: "done" } : asks(["mail", {}]);
          },
          tools: { mail: { mode: "once", run: () => (made.push("mail"), "sent") } },
          ...(status === "halted" && broken && { limits: { steps: 1 } }),
        });
      await agentOf(on.start().hold).run("a", "go");
      broken = false;
      const before = made.length;
      const { hold } = on.start();
      await hold.markRestored();
      const session = await hold.session("a");
      expect(session.status).toBe(status);
      await session.close();
      const bot = agentOf(hold);
      const asked = await bot.resume("a");
      expect(asked).toMatchObject({
        status: "in-doubt",
        pending: [{ name: "(restored)", input: { was: status } }],
      });
      expect(made).toHaveLength(before);
      await hold.effects.settle(firstIn(asked), { retry: true });
      expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    },
  );

  test("DOUBT-2 a turn that waited is begun, and then in doubt; one that is submitted here is run", async () => {
    const { agentOf, made } = world();
    const there = agentOf(on.start().hold);
    await there.run("a", "first");
    const waiting = await there.submit("a", "second", { key: "two" });
    await there.submit("fresh", "only", { key: "one" });
    const { hold } = on.start();
    await hold.markRestored();
    const bot = agentOf(hold);
    const before = made.length;
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    const third = await bot.submit("b", "mine");
    await worker.drain();
    expect(await third.result(soon)).toMatchObject({ status: "completed" });
    expect(made.length).toBe(before + 3);
    const { items } = await hold.effects.list({ status: "in-doubt" });
    expect(
      items
        .map(({ sessionId, input }) => `${sessionId} ${(input as { turn: string }).turn}`)
        .toSorted(),
    ).toEqual(["a two", "fresh one"]);
    const result = await bot.run("a", "second", { key: "two" });
    expect(result).toMatchObject({ status: "in-doubt", turnId: "two" });
    await hold.effects.settle(firstIn(result), { retry: true });
    // The same turn, submitted once more by one who knows of no copy, is the same.
    await bot.submit("a", "second", { key: "two" });
    await worker.drain();
    expect(await bot.run("a", "second", { key: "two" })).toMatchObject({ status: "completed" });
    expect(await waiting.result(soon)).toMatchObject({ status: "completed" });
    await hold.effects.settle(
      items.find(({ sessionId }) => sessionId === "fresh")?.effectId as string,
      { error: "was run" },
    );
    await worker.drain();
    expect((await hold.sessions.get("fresh"))?.status).toBe("cancelled");
    expect(await worker.drain()).toEqual({ ran: 0 });
  });

  test("a worker takes what was under way once, and then leaves it alone until it is settled", async () => {
    const { hold, bot, made } = await copied("refund", { leaseMs: 300 });
    const before = made.length;
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    // A store that many machines share offers a session to workers once its lease has run out, also
    // one that came with a copy.
    const taken = async () => (await worker.drain(), (await hold.sessions.get("a"))?.status);
    await expect.poll(taken).toBe("in-doubt");
    const epoch = async () => {
      const session = await hold.session("a");
      await session.close();
      return session.epoch;
    };
    const at = await epoch();
    expect(await worker.drain()).toEqual({ ran: 0 });
    expect(await epoch()).toBe(at + 1);
    expect(made).toHaveLength(before);
    const [whole] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(whole?.effectId as string, { retry: true });
    expect(await worker.drain()).toEqual({ ran: 1 });
    expect((await hold.sessions.get("a"))?.status).toBe("completed");
  });

  test("by hand: what is recorded is answered, what acts is refused until it is settled, and a line is not left", async () => {
    const made: string[] = [];
    const act = (
      hold: Awaited<ReturnType<Holdfast["session"]>>,
      key: string,
      mode: "keyed" | "once" | "repeatable" = "once",
    ) => hold.effect("mail", { key }, { mode, key }, async () => (made.push(key), key));
    const there = await on.start().hold.session("a");
    const mark = await there.checkpoint("before");
    await act(there, "first");
    const { hold } = on.start();
    await hold.markRestored();
    const here = await hold.session("a");
    expect(here.status).toBe("in-doubt");
    expect(await act(here, "first")).toBe("first");
    expect(await act(here, "harmless", "repeatable")).toBe("harmless");
    for (const mode of ["once", "keyed"] as const) {
      const refused = (await errorOf(() => act(here, "second", mode))) as HoldfastError;
      expect(refused).toBeInstanceOf(HoldfastError);
      expect(refused).toMatchObject({
        code: "IN_DOUBT",
        details: { sessionId: "a", effectId: expect.any(String) },
      });
    }
    await here.checkpoint();
    await expect(here.rewind(mark.id)).rejects.toMatchObject(coded("BAD_STATUS"));
    const [whole] = await here.unfinished();
    expect(whole).toMatchObject({ name: "(restored)", status: "in-doubt" });
    await hold.effects.settle(whole?.effectId as string, { retry: true });
    await expect.poll(() => here.status).toBe("in-progress");
    expect(await act(here, "second")).toBe("second");
    expect(made).toEqual(["first", "harmless", "second"]);
    // What it waited for is no act of the past.
    expect((await here.rewind(mark.id)).passed.map(({ name, outcome }) => [name, outcome])).toEqual(
      [
        ["mail", "ok"],
        ["mail", "ok"],
      ],
    );
    await here.close();
  });

  test("by hand: what failed opens as it is, and is asked about once it acts", async () => {
    const there = await on.start().hold.session("a");
    there.append({ role: "user", content: "x" });
    await there.fail("no luck");
    await there.close();
    const { hold } = on.start();
    await hold.markRestored();
    const here = await hold.session("a");
    expect(here.status).toBe("failed");
    here.append({ role: "user", content: "once more" });
    await expect(
      here.effect("mail", {}, { mode: "once", key: "m" }, async () => 1),
    ).rejects.toMatchObject(coded("IN_DOUBT"));
    expect(here.status).toBe("in-doubt");
    expect(here.messages).toHaveLength(2);
    await here.close();
  });

  test.each(["repeatable", "keyed"] as const)(
    "a child that a %s call runs is asked about like its parent, and both go on",
    async (mode) => {
      const made: string[] = [];
      const inside = door();
      const familyOf = (hold: Holdfast, stuck: boolean) => {
        const stick = () => (inside.open(), new Promise<never>(() => {}));
        const tools = {
          stick: { mode: "repeatable", run: () => (stuck ? stick() : "on") },
          mail: { mode: "once", run: () => (made.push("mail"), "sent") },
        } as const;
        const child = agent({
          name: "child",
          model: script(asks(["stick", {}]), asks(["mail", {}]), "done"),
          tools,
        });
        const run = async (
          _input: unknown,
          ctx: { run: (of: typeof child, input: string) => Promise<{ status: string }> },
        ) => (await ctx.run(child, "go")).status;
        return hold.agent({
          name: "parent",
          model: script(asks(["delegate", {}])),
          tools: { delegate: { mode, run } } as never,
        });
      };
      const original = on.start();
      void familyOf(original.hold, true).run("a", "go");
      await inside.opened;
      original.kill();
      const { hold } = on.start();
      await hold.markRestored();
      const parent = familyOf(hold, false);
      for (let asked = 0; asked < 2; asked++) {
        const result = await parent.run("a", "go");
        expect(["in-doubt", "waiting"]).toContain(result.status);
        const { items } = await hold.effects.list({ status: "in-doubt" });
        expect(items.map(({ name }) => name)).toEqual(["(restored)"]);
        expect(made).toEqual([]);
        await hold.effects.settle(items[0]?.effectId as string, { retry: true });
      }
      expect(await parent.run("a", "go")).toMatchObject({ status: "completed" });
      expect(made).toEqual(["mail"]);
    },
  );

  test.each(["once", "keyed"] as const)(
    "DOUBT-3 a %s call that was approved and not yet begun in the copy is in doubt itself",
    async (mode) => {
      // A key keeps for a time, and of a call that the original has begun since nobody here knows
      // when that was.
      const made: string[] = [];
      const agentOf = (hold: Holdfast) =>
        hold.agent({
          name: "payer",
          model: script(asks(["pay", {}])),
          tools: { pay: { mode, approval: true, run: () => (made.push("pay"), "paid") } },
        });
      const there = on.start().hold;
      await there.effects.approve(firstIn(await agentOf(there).run("a", "go")));
      const { hold } = on.start();
      await hold.markRestored();
      expect(pendingIn(await agentOf(hold).run("a", "go")).map(({ name }) => name)).toEqual([
        "pay",
        "(restored)",
      ]);
      expect(made).toEqual([]);
    },
  );

  test("an interrupt gives the old turn up, and the next is run", async () => {
    const { bot, made } = await copied("look");
    expect(
      await bot.run("a", "something else", { ifBusy: "reject" }).catch((error: unknown) => error),
    ).toMatchObject(coded("TURN_OPEN"));
    expect(await bot.run("a", "something else", { ifBusy: "interrupt" })).toMatchObject({
      status: "completed",
    });
    expect(made.filter((name) => name === "mail")).toHaveLength(1);
  });

  test("a fork of what came with the copy is a session of this generation", async () => {
    const there = await on.start().hold.session("a");
    there.append({ role: "user", content: "x" });
    const mark = await there.checkpoint();
    const { hold } = on.start();
    await hold.markRestored();
    await hold.sessions.fork(mark.id, { id: "b" });
    const fork = await hold.session("b");
    expect(fork.status).toBe("in-progress");
    await fork.close();
  });

  test("what is imported while a turn is under way is in doubt there, unless it was moved", async () => {
    const { agentOf, inside, made } = world("mail");
    const original = on.start();
    void agentOf(original.hold).run("a", "go");
    await inside;
    const rows: string[] = [];
    for await (const row of original.hold.export()) rows.push(row);
    original.kill();
    const before = made.length;
    for (const moved of [false, true]) {
      const elsewhere = await Processes.on(address());
      const { hold } = elsewhere.start();
      if (moved) await hold.markRestored();
      await hold.import(rows, { moved });
      const result = await agentOf(hold).run("a", "go");
      expect(pendingIn(result).map(({ name }) => name)).toEqual(
        moved ? ["mail"] : ["mail", "(imported)"],
      );
      expect(made).toHaveLength(before);
      // It is exported as it stands, and asked about there once.
      const again: string[] = [];
      for await (const row of hold.export()) again.push(row);
      const third = await Processes.on(address());
      const there = third.start().hold;
      await there.import(again);
      expect(pendingIn(await agentOf(there).run("a", "go"))).toHaveLength(2);
      await third.close();
      await elsewhere.close();
    }
  });
});
