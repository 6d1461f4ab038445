/** Workers: submitted turns and dead holders' sessions are taken up, each by one. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, ModelRequest, Worker, WorkerOptions } from "../../../src/index.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.each(stores)("workers on $name", ({ address }) => {
  let on: Processes;
  const workers: Worker[] = [];
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(async () => {
    for (const worker of workers.splice(0)) await worker.stop({ graceMs: 0 });
    await on.close();
  });
  const start = async (hold: Holdfast, o: WorkerOptions) => {
    const worker = hold.worker({ pollMs: 50, onSigterm: false, ...o });
    workers.push(worker);
    await worker.start();
    return worker;
  };
  const soon = { timeoutMs: 10_000 };

  test("a submitted turn is run by a worker, of any process that knows the agent", async () => {
    const { hold } = on.start();
    const model = script("hello yourself");
    const turn = await hold
      .agent({ name: "bot", model })
      .submit("a", "hello", { title: "T", tags: ["t"], metadata: { n: 1 } });
    expect(turn).toMatchObject({ sessionId: "a", turnId: expect.any(String) });
    expect(await hold.sessions.get("a")).toMatchObject({
      agent: "bot",
      title: "T",
      tags: ["t"],
      metadata: { n: 1 },
    });
    await expect(turn.result({ timeoutMs: 30 })).rejects.toMatchObject(coded("BUSY"));
    const other = on.start().hold;
    await start(other, { agents: [other.agent({ name: "bot", model })] });
    expect(await turn.result(soon)).toMatchObject({
      status: "completed",
      output: "hello yourself",
      turnId: turn.turnId,
    });
    expect(await turn.result(soon)).toMatchObject({
      status: "completed",
      output: "hello yourself",
    });
  });

  test("turns of one session are run one after the other, in the order they were submitted; the same key is one turn", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: async ({ messages }) => ({ content: `${messages.length}` }),
    });
    const turns = [
      await bot.submit("a", "one"),
      await bot.submit("a", "two", { key: "k" }),
      await bot.submit("a", "two", { key: "k" }),
      await bot.submit("a", "three"),
    ];
    await expect(bot.submit("a", "another", { key: "k" })).rejects.toMatchObject(coded("CONFLICT"));
    expect(turns[1]?.turnId).toBe("k");
    await start(hold, { agents: [bot] });
    const results = await Promise.all(turns.map((turn) => turn.result(soon)));
    expect(
      results.map((result) => (result.status === "completed" ? result.output : result.status)),
    ).toEqual(["1", "3", "3", "5"]);
  });

  test("a turn for later is not begun before its time", async () => {
    let now = 1_700_000_000_000;
    const { hold } = on.start({ clock: { now: () => now } });
    const bot = hold.agent({ name: "bot", model: script() });
    const turn = await bot.submit("a", "later", { atMs: now + 60_000 });
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    expect(await worker.drain()).toEqual({ ran: 0 });
    now += 60_000;
    expect(await worker.drain()).toEqual({ ran: 1 });
    expect(await turn.result(soon)).toMatchObject({ status: "completed" });
    await expect(bot.submit("b", "x", { atMs: -1 })).rejects.toMatchObject(coded("INVALID_OPTION"));
  });

  test("a turn for later that is cancelled is not begun when its time comes", async () => {
    let now = 1_700_000_000_000;
    const { hold } = on.start({ clock: { now: () => now } });
    const model = script();
    const bot = hold.agent({ name: "bot", model });
    const turn = await bot.submit("a", "later", { atMs: now + 60_000 });
    await turn.cancel("changed my mind");
    expect(await turn.result(soon)).toMatchObject({ status: "stopped", reason: "cancelled" });
    now += 60_000;
    await hold.worker({ agents: [bot], onSigterm: false }).drain();
    expect(model.requests).toHaveLength(0);
    expect(await turn.result(soon)).toMatchObject({ status: "stopped", reason: "cancelled" });
  });

  test("drain runs what there is and ends; bounded, it hands the rest back", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script() });
    for (let i = 0; i < 10; i++) await bot.submit(`s${i}`, "go");
    const worker = hold.worker({ agents: [bot], concurrency: 3, onSigterm: false });
    expect(await worker.drain()).toEqual({ ran: 10 });
    expect(await worker.drain()).toEqual({ ran: 0 });
    expect(worker.stats()).toMatchObject({
      running: 0,
      ran: 10,
      handedBack: 0,
      setAside: 0,
      failed: 0,
    });
    const slow = hold.agent({
      name: "slow",
      model: ({ signal }) =>
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason as Error)),
        ),
    });
    await slow.submit("slow", "go");
    const began = performance.now();
    expect(await hold.worker({ agents: [slow], onSigterm: false }).drain({ maxMs: 1_700 })).toEqual(
      { ran: 0 },
    );
    expect(performance.now() - began).toBeLessThan(2_500);
    expect(await hold.sessions.get("slow")).toMatchObject({ status: "in-progress" });
  });

  test("no more sessions at once than it may", async () => {
    const { hold } = on.start();
    let running = 0;
    let most = 0;
    const bot = hold.agent({
      name: "bot",
      model: async () => {
        most = Math.max(most, ++running);
        // Until the other is there as well, on however busy a machine; the last one is alone.
        await expect.poll(() => most).toBe(2);
        await pause(10);
        running -= 1;
        return { content: "done" };
      },
    });
    for (let i = 0; i < 9; i++) await bot.submit(`s${i}`, "go");
    expect(await hold.worker({ agents: [bot], concurrency: 2, onSigterm: false }).drain()).toEqual({
      ran: 9,
    });
    expect(most).toBe(2);
  });

  test("an agent with a backlog does not starve another", async () => {
    const { hold } = on.start();
    const order: string[] = [];
    const agentOf = (name: string) =>
      hold.agent({
        name,
        model: async () => {
          order.push(name);
          return { content: "done" };
        },
      });
    const [busy, rare] = [agentOf("busy"), agentOf("rare")];
    for (let i = 0; i < 8; i++) await busy.submit(`b${i}`, "go");
    for (let i = 0; i < 2; i++) await rare.submit(`r${i}`, "go");
    await hold.worker({ agents: [busy, rare], concurrency: 1, onSigterm: false }).drain();
    expect(order.slice(0, 4).toSorted()).toEqual(["busy", "busy", "rare", "rare"]);
    expect(order).toHaveLength(10);
  });

  test("a session whose holder was killed is taken up, and goes on where it was", async () => {
    // Long enough for a busy machine: one that lives must be able to renew it.
    const first = on.start({ leaseMs: 800 });
    const inside = door();
    const made: string[] = [];
    const agentOf = (hold: Holdfast, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: script(asks(["pay", {}]), asks(["stick", {}])),
        tools: {
          pay: { mode: "once", run: () => made.push("pay") },
          stick: {
            mode: "repeatable",
            run: () => (stuck ? (inside.open(), new Promise(() => {})) : 1),
          },
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    const { hold } = on.start();
    const worker = await start(hold, { agents: [agentOf(hold, false)] });
    await pause(100);
    // While it lives, it is left alone.
    expect(worker.stats().ran).toBe(0);
    first.kill();
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("completed");
    expect(made).toEqual(["pay"]);
    await expect.poll(() => worker.stats().ran).toBe(1);
  });

  test("two processes with workers on one store never run a turn twice", async () => {
    const done = new Map<string, number>();
    const agentOf = (hold: Holdfast) =>
      hold.agent({
        name: "bot",
        model: script(asks(["act", {}])),
        tools: {
          act: {
            mode: "once",
            run: (_input, { session }) => (
              done.set(session.id, (done.get(session.id) ?? 0) + 1), 1
            ),
          },
        },
      });
    const processes = [on.start(), on.start(), on.start()];
    const turns = await Promise.all(
      Array.from({ length: 18 }, (_, i) =>
        agentOf((processes[i % 3] as (typeof processes)[0]).hold).submit(`s${i}`, "go"),
      ),
    );
    for (const { hold } of processes)
      await start(hold, { agents: [agentOf(hold)], concurrency: 3 });
    for (const turn of turns)
      expect(await turn.result(soon)).toMatchObject({ status: "completed" });
    expect([...done.values()]).toEqual(Array.from({ length: 18 }, () => 1));
    await expect.poll(() => workers.reduce((sum, worker) => sum + worker.stats().ran, 0)).toBe(18);
  });

  test("a session that ends its process again and again at one place is set aside, and says so", async () => {
    const agentOf = (hold: Holdfast, kill: () => void) =>
      hold.agent({
        name: "bot",
        model: script(asks(["fine", {}]), asks(["bomb", {}])),
        tools: {
          fine: { mode: "once", run: () => 1 },
          bomb: {
            mode: "repeatable",
            run: () => {
              kill();
              return new Promise(() => {});
            },
          },
        },
      });
    const { hold } = on.start();
    await agentOf(hold, () => {}).submit("a", "go");
    let deaths = 0;
    for (let i = 0; i < 6; i++) {
      const victim = on.start({ leaseMs: 300 });
      const worker = victim.hold.worker({
        agents: [
          agentOf(victim.hold, () => {
            deaths += 1;
            victim.kill();
          }),
        ],
        attempts: 3,
        onSigterm: false,
      });
      await Promise.race([worker.drain(), victim.died]);
      if ((await hold.sessions.get("a"))?.status === "halted") break;
      await pause(310);
    }
    expect(await hold.sessions.get("a")).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("set aside"),
    });
    expect(deaths).toBeGreaterThanOrEqual(3);
    expect(deaths).toBeLessThanOrEqual(4);
    // It is not taken up any more by itself, and can be resumed.
    expect(
      await hold
        .worker({ agents: [agentOf(hold, () => expect.fail("taken up"))], onSigterm: false })
        .drain(),
    ).toEqual({ ran: 0 });
    const mended = hold.agent({
      name: "bot",
      model: script(asks(["fine", {}]), asks(["bomb", {}])),
      tools: { fine: { mode: "once", run: () => 1 }, bomb: { mode: "repeatable", run: () => 2 } },
    });
    expect(await mended.resume("a")).toMatchObject({ status: "completed" });
  });

  test("a session that cannot even be opened is left alone in the end, though turns wait for it; by hand it can be", async () => {
    const { hold } = on.start();
    const agentOf = (of: Holdfast) => of.agent({ name: "bot", model: script("fine") });
    for (const input of ["one", "two"]) await agentOf(hold).submit("a", input);
    let deaths = 0;
    for (let i = 0; i < 8; i++) {
      const victim = on.start({ leaseMs: 100, diesReading: "a" });
      const worker = victim.hold.worker({
        agents: [agentOf(victim.hold)],
        attempts: 1,
        onSigterm: false,
      });
      const died = await Promise.race([worker.drain().then(() => 0), victim.died.then(() => 1)]);
      deaths += died;
      if (died === 0) victim.kill();
      await pause(110);
    }
    // As often as it may, and the three times that are left to a hope.
    expect(deaths).toBe(4);
    expect(await agentOf(hold).run("a", "by hand", { ifBusy: "wait" })).toMatchObject({
      status: "completed",
    });
    const worker = hold.worker({ agents: [agentOf(hold)], attempts: 1, onSigterm: false });
    expect(await worker.drain()).toEqual({ ran: 2 });
  });

  test("stop lets what runs come to its end; what does not is handed back, and another takes it", async () => {
    const { hold } = on.start();
    const inside = door();
    let begun = 0;
    const slow = hold.agent({
      name: "slow",
      model: async () => {
        begun += 1;
        inside.open();
        await pause(100);
        return { content: "done" };
      },
    });
    const turn = await slow.submit("a", "go");
    const first = await start(hold, { agents: [slow] });
    await inside.opened;
    await first.stop();
    expect(await turn.result(soon)).toMatchObject({ status: "completed" });
    expect([begun, first.stats().ran, first.stats().running]).toEqual([1, 1, 0]);
    const semaphore = door();
    const stuck = hold.agent({
      name: "stuck",
      model: () => (semaphore.open(), new Promise(() => {})),
    });
    const later = await stuck.submit("b", "go");
    const second = await start(hold, { agents: [stuck] });
    await semaphore.opened;
    await second.stop({ graceMs: 0 });
    expect(second.stats()).toMatchObject({ running: 0, handedBack: 1 });
    const other = on.start().hold;
    await start(other, { agents: [other.agent({ name: "stuck", model: script("done") })] });
    expect(await later.result(soon)).toMatchObject({ status: "completed", output: "done" });
  });

  test("a turn that waits is let go of, and taken up again when it was approved", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}])),
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    const turn = await bot.submit("a", "go");
    await start(hold, { agents: [bot] });
    const waiting = await turn.result(soon);
    expect(waiting).toMatchObject({ status: "waiting", pending: [{ name: "pay" }] });
    await on
      .start()
      .hold.effects.approve(
        waiting.status === "waiting" ? (waiting.pending[0]?.effectId as string) : "",
      );
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("completed");
  });

  test("a turn that waits behind one that needs somebody does not keep workers busy, and is run when that is over", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}]), "one", "two"),
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    const first = await bot.submit("a", "go");
    const second = await bot.submit("a", "more");
    const worker = await start(hold, { agents: [bot] });
    const waiting = await first.result(soon);
    expect(waiting.status).toBe("waiting");
    await pause(300);
    expect(worker.stats().ran).toBeLessThanOrEqual(3);
    await hold.effects.approve(
      waiting.status === "waiting" ? (waiting.pending[0]?.effectId as string) : "",
    );
    expect(await second.result(soon)).toMatchObject({ status: "completed", output: "two" });
  });

  test("a wait that runs out, and a signal, wake a session up", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["ask", {}])),
      tools: {
        ask: {
          mode: "repeatable",
          run: async (_input, { wait }) => (await wait("reply", { timeoutMs: 400 })) ?? "nobody",
        },
      },
    });
    await bot.submit("a", "go");
    await bot.submit("b", "go");
    await start(hold, { agents: [bot] });
    await expect.poll(async () => (await hold.sessions.get("b"))?.status).toBe("waiting");
    await hold.sessions.signal("b", "reply", "me");
    for (const id of ["a", "b"])
      await expect.poll(async () => (await hold.sessions.get(id))?.status).toBe("completed");
    for (const [id, said] of [
      ["a", "nobody"],
      ["b", "me"],
    ] as const) {
      const session = await hold.session(id, { waitMs: 1_000 });
      expect(session.messages.find(({ role }) => role === "tool")?.content).toMatchObject([
        { output: said },
      ]);
      await session.close();
    }
  });

  test("a turn that is cancelled before it began is never begun", async () => {
    const { hold } = on.start();
    const model = script();
    const bot = hold.agent({ name: "bot", model });
    const turn = await bot.submit("a", "go");
    await turn.cancel("changed my mind");
    expect(await turn.result(soon)).toMatchObject({ status: "stopped", reason: "cancelled" });
    await hold.worker({ agents: [bot], onSigterm: false }).drain();
    expect(model.requests).toHaveLength(0);
    expect(await bot.run("a", "something else")).toMatchObject({ status: "completed" });
  });

  test("a turn that is cancelled while it runs is stopped, and the next one is run", async () => {
    const { hold } = on.start();
    const inside = door();
    const bot = hold.agent({
      name: "bot",
      model: ({ messages, signal }: ModelRequest) =>
        messages.at(-1)?.content === "go"
          ? (inside.open(),
            new Promise((_resolve, reject) =>
              signal.addEventListener("abort", () => reject(signal.reason as Error)),
            ))
          : Promise.resolve({ content: "next" }),
    });
    const turn = await bot.submit("a", "go");
    const next = await bot.submit("a", "more");
    await start(hold, { agents: [bot] });
    await inside.opened;
    await turn.cancel("changed my mind");
    expect(await turn.result(soon)).toMatchObject({ status: "stopped", reason: "cancelled" });
    expect(await next.result(soon)).toMatchObject({ status: "completed", output: "next" });
    await turn.cancel("again");
    expect(await next.result(soon)).toMatchObject({ status: "completed" });
  });

  test("how turns before the latest ended is known", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      modelRetry: { attempts: 1 },
      model: async ({ messages }) => {
        const last = messages.at(-1)?.content;
        if (last === "fail") throw new Error("broken");
        return last === "halt"
          ? { content: "", finish: "length" }
          : { content: `to ${String(last)}` };
      },
    });
    const turns = [];
    for (const input of ["one", "fail", "halt", "four"]) turns.push(await bot.submit("a", input));
    await start(hold, { agents: [bot] });
    await turns[3]?.result(soon);
    const ended = await Promise.all(turns.map((turn) => turn.result(soon)));
    expect(ended).toMatchObject([
      { status: "completed", output: "to one" },
      { status: "failed", error: { message: "broken" } },
      { status: "halted" },
      { status: "completed", output: "to four" },
    ]);
  });

  test("a worker whose agent throws outside of its steps fails the session, and goes on with others", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(),
      context: (session) => {
        if (session.id === "bad") throw new Error("no database");
        return {};
      },
    });
    const bad = [await bot.submit("bad", "go"), await bot.submit("bad", "once more")];
    await bot.submit("good", "go");
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    await worker.drain({ maxMs: 6_000 });
    expect(await hold.sessions.get("good")).toMatchObject({ status: "completed" });
    expect(await hold.sessions.get("bad")).toMatchObject({
      status: "failed",
      reason: "no database",
    });
    expect(worker.stats()).toMatchObject({ ran: 1, failed: 2 });
    for (const turn of bad)
      expect(await turn.result(soon)).toMatchObject({
        status: "failed",
        error: { message: "no database" },
      });
  });

  test("a worker whose agent throws leaves a call in sight of which nobody knows what became", async () => {
    // Long enough for a busy machine: one that lives must be able to renew it.
    const first = on.start({ leaseMs: 800 });
    const inside = door();
    const agentOf = (hold: Holdfast, context: () => object) =>
      hold.agent({
        name: "bot",
        model: script(asks(["pay", {}]), "paid"),
        context,
        tools: { pay: { mode: "once", run: () => (inside.open(), new Promise(() => {})) } },
      });
    void agentOf(first.hold, () => ({})).run("a", "go");
    await inside.opened;
    first.kill();
    const { hold } = on.start();
    let isAway = true;
    const bot = agentOf(hold, () => {
      if (isAway) throw new Error("no database");
      return {};
    });
    const worker = await start(hold, { agents: [bot] });
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("in-doubt");
    expect(worker.stats()).toMatchObject({ failed: 1 });
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    isAway = false;
    await hold.effects.settle(doubt?.effectId as string, { output: "it happened" });
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("completed");
  });

  test("a session that cannot be read does not keep workers busy, and the others are run", async () => {
    const { hold } = on.start({ unreadable: "bad" });
    const bot = hold.agent({ name: "bot", model: script() });
    await bot.submit("bad", "go");
    await bot.submit("good", "go");
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    await worker.drain({ maxMs: 4_000 });
    expect(await hold.sessions.get("good")).toMatchObject({ status: "completed" });
    expect(worker.stats()).toMatchObject({ ran: 1, failed: 1 });
    // Once it can be read, it is run.
    expect(
      await on
        .start()
        .hold.worker({ agents: [bot], onSigterm: false })
        .drain(),
    ).toEqual({ ran: 1 });
  });

  test("a session that is run by hand is left alone by workers, and what was submitted comes behind it", async () => {
    const { hold } = on.start();
    const inside = door();
    const semaphore = door<string>();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["stick", {}]), "one", "two"),
      tools: { stick: { mode: "once", run: () => (inside.open(), semaphore.opened) } },
    });
    const run = bot.run("a", "go");
    await inside.opened;
    const turn = await bot.submit("a", "more");
    const other = on.start().hold;
    const worker = await start(other, {
      agents: [other.agent({ name: "bot", model: script("?", "one", "two") })],
    });
    await pause(100);
    expect(worker.stats().ran).toBe(0);
    semaphore.open("done");
    expect(await run).toMatchObject({ status: "completed", output: "one" });
    expect(await turn.result(soon)).toMatchObject({ status: "completed", output: "two" });
  });

  test("workers without agents, with two of one name, or with nonsense are refused", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script() });
    for (const bad of [
      { agents: [] },
      { agents: [bot, bot] },
      { agents: [bot], concurrency: 0 },
      { agents: [bot], pollMs: 1 },
      { agents: [bot], threads: 4 },
    ])
      expect(() => hold.worker(bad as never)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION" }),
      );
    const worker = await start(hold, { agents: [bot] });
    await expect(worker.drain()).rejects.toMatchObject(coded("INVALID_OPTION"));
  });
});

test("wherever a worker dies while one call is in doubt and another ends, somebody is told of the doubt", async () => {
  const on = await Processes.on("memory:");
  let deaths = 0;
  for (let write = 1, isThrough = false; !isThrough; write++) {
    const id = `s${write}`;
    const made = (hold: Holdfast) =>
      hold.agent({
        name: id,
        model: script(asks(["send", {}], ["look", {}])),
        tools: {
          send: { mode: "once", run: () => Promise.reject(new Error("gone")) },
          look: { mode: "keyed", run: () => pause(5) },
        },
      });
    const { hold } = on.start();
    await made(hold).submit(id, "go");
    const dying = on.start({ diesAt: { write, done: true } });
    await dying.hold.worker({ agents: [made(dying.hold)], pollMs: 10, onSigterm: false }).start();
    const isAtRest = expect
      .poll(async () => (await hold.sessions.get(id))?.status)
      .toBe("in-doubt")
      .then(() => pause(250));
    isThrough = await Promise.race([dying.died.then(() => false), isAtRest.then(() => true)]);
    if (!isThrough) deaths += 1;
    dying.kill();
    const worker = hold.worker({ agents: [made(hold)], pollMs: 10, onSigterm: false });
    await worker.start();
    const inDoubt = async () =>
      (await hold.effects.list({ status: "in-doubt" })).items.filter(
        ({ sessionId }) => sessionId === id,
      );
    await expect.poll(inDoubt, { message: `${write}` }).toMatchObject([{ name: "send" }]);
    await isAtRest;
    await worker.stop({ graceMs: 0 });
  }
  expect(deaths).toBeGreaterThan(4);
  await on.close();
});
