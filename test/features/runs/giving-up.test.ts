/**
 * Turns that are cancelled, interrupted or left behind: what was begun stays in sight, nothing goes
 * on by itself, and nobody is kept busy.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, HoldfastError, NotDone } from "../../../src/index.js";
import { thisMachine } from "../../../src/store/machine.js";
import { MemoryStore } from "../../../src/store/memory.js";
import type { Store } from "../../../src/store/port.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const soon = { timeoutMs: 5_000 };
const quickly = <T>(promise: Promise<T>): Promise<T | "too late"> =>
  Promise.race([promise, pause(2_000).then(() => "too late" as const)]);

describe.each(stores)("turns that are given up on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  interface Given {
    readonly model?: ReturnType<typeof script>;
    readonly check?: () => { readonly output: string } | undefined;
  }

  /** Of its one call nobody knows what became. */
  const unknown = (
    hold: Holdfast,
    { model = script(asks(["act", {}]), "fine"), check }: Given = {},
  ) =>
    hold.agent({
      name: "bot",
      model,
      tools: {
        act: {
          mode: "once",
          ...(check && { check }),
          run: (): string => {
            throw new Error("reset");
          },
        },
      },
    });

  /** Is inside its one call until the gate is opened, and does not listen. */
  const stuck = (hold: Holdfast, answer: () => string = () => "acted") => {
    const inside = door();
    const semaphore = door();
    const model = script(asks(["act", {}]), "went on");
    const run = async () => {
      inside.open();
      await semaphore.opened;
      return answer();
    };
    return {
      bot: hold.agent({ name: "bot", model, tools: { act: { mode: "once", run } } }),
      inside,
      semaphore,
      model,
    };
  };

  /** How often somebody was granted the session within half a second. */
  const grants = async (hold: Holdfast) => {
    const epoch = async () => {
      const session = await hold.session("a", { waitMs: 5_000 });
      await session.close();
      return session.epoch;
    };
    const before = await epoch();
    await pause(500);
    return (await epoch()) - before;
  };

  const doubtIn = async (hold: Holdfast, session = "a") =>
    (await hold.effects.list({ status: "in-doubt" })).items.find(
      ({ sessionId }) => sessionId === session,
    )?.effectId as string;

  test("an input that is refused does not take a cancel back", async () => {
    const { hold } = on.start();
    const model = script(asks(["act", {}]), "fine");
    const bot = unknown(hold, { model });
    await bot.run("a", "go");
    await hold.sessions.cancel("a", "enough");
    await expect(bot.run("a", "something else")).rejects.toMatchObject(coded("TURN_OPEN"));
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-doubt", reason: "enough" });
    await hold.effects.settle(await doubtIn(hold), { retry: true });
    await hold.worker({ agents: [bot], onSigterm: false }).drain();
    expect(await hold.sessions.get("a")).toMatchObject({ status: "cancelled", reason: "enough" });
    expect(model.requests).toHaveLength(1);
  });

  test("an input that interrupts and is itself stopped does not set the interrupted turn going again", async () => {
    const { hold } = on.start();
    const { bot, inside, semaphore, model } = stuck(hold);
    const first = bot.run("a", "go");
    await inside.opened;
    const abort = new AbortController();
    const second = bot.run("a", "stop that", { ifBusy: "interrupt", signal: abort.signal });
    expect(await first).toMatchObject({ status: "stopped", reason: "cancelled" });
    await pause(100);
    abort.abort();
    expect(await second).toMatchObject({ status: "stopped" });
    semaphore.open();
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("cancelled");
    await hold.worker({ agents: [bot], onSigterm: false }).drain();
    expect(model.requests).toHaveLength(1);
  });

  test("a call that threw is over: another process need not wait for its time", async () => {
    expect(await unknown(on.start().hold).run("a", "go")).toMatchObject({ status: "in-doubt" });
    const { hold } = on.start();
    expect(await quickly(unknown(hold).run("a", "go"))).toMatchObject({ status: "in-doubt" });
    const refused = unknown(hold)
      .run("a", "another", { ifBusy: "interrupt" })
      .catch((error: unknown) => error);
    expect(await quickly(refused)).toMatchObject(coded("TURN_OPEN"));
    const check = () => ({ output: "it happened" });
    expect(await quickly(unknown(hold, { check }).resume("a"))).toMatchObject({
      status: "completed",
    });
  });

  test("by hand it is the same; and who waits for another inside a call hears that it was settled", async () => {
    const call = (session: Awaited<ReturnType<Holdfast["session"]>>, run: () => Promise<string>) =>
      session.effect("pay", {}, { mode: "once", key: "k" }, run).catch((error: unknown) => error);
    const first = await on.start().hold.session("a");
    expect(await call(first, () => Promise.reject(new Error("reset")))).toMatchObject(
      coded("IN_DOUBT"),
    );
    await first.close();
    const { hold } = on.start();
    const second = await hold.session("a");
    expect(await quickly(call(second, async () => "twice"))).toMatchObject(coded("IN_DOUBT"));
    await second.close();

    const lost = on.start({ leaseMs: 100 });
    const inside = door();
    const third = await lost.hold.session("b");
    void call(third, () => (inside.open(), new Promise(() => {})));
    await inside.opened;
    lost.lose();
    const fourth = await hold.session("b", { waitMs: 2_000 });
    await hold.sessions.cancel("b");
    await fourth.close({ discard: true });
    const fifth = await hold.session("b", { waitMs: 2_000 });
    const again = call(fifth, async () => "twice");
    await pause(50);
    await hold.effects.settle(await doubtIn(hold, "b"), { output: "it happened" });
    expect(await quickly(again)).toBe("it happened");
    await fifth.close();
  });

  test.each(["fork", "rewind"])(
    "a turn that is submitted behind a %s to where the session waited is run",
    async (how) => {
      const { hold } = on.start();
      const bot = hold.agent({
        name: "bot",
        model: script(asks(["pay", {}]), "fine"),
        tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
      });
      await bot.run("a", "go");
      await bot.resume("a");
      const [at] = (await hold.checkpoints.list("a", { limit: 1 })).items;
      expect(at).toMatchObject({ status: "waiting" });
      const id = how === "fork" ? "f" : "a";
      if (how === "fork") await hold.sessions.fork(at?.id as string, { id });
      else {
        const session = await hold.session("a");
        await session.rewind(at?.id as string);
        await session.close();
      }
      expect(await hold.sessions.get(id)).toMatchObject({ status: "in-progress" });
      await bot.submit(id, "another");
      await hold.worker({ agents: [bot], onSigterm: false }).drain();
      // It goes on with the turn that it has from before: its own call waits now.
      expect(
        (await hold.effects.list({ status: "waiting" })).items.filter(
          ({ sessionId }) => sessionId === id,
        ),
      ).toHaveLength(1);
      expect((await hold.verify()).ok).toBe(true);
    },
  );

  test("a fork of a session that is being cancelled is not", async () => {
    const { hold } = on.start();
    const bot = unknown(hold);
    await bot.run("a", "go", { key: "k" });
    await hold.sessions.cancel("a", "enough");
    const [at] = (await hold.checkpoints.list("a", { limit: 1 })).items;
    expect(at).toMatchObject({ status: "in-doubt", reason: "enough" });
    await hold.sessions.fork(at?.id as string, { id: "f" });
    const forked = await hold.sessions.get("f");
    expect(forked).toMatchObject({ status: "in-progress" });
    expect(forked?.reason).toBeUndefined();
    expect(await bot.run("f", "go", { key: "k" })).toMatchObject({
      status: "waiting",
      pending: [{ waitsFor: { for: "repeat" } }],
    });
  });

  test("a worker whose agent throws looks once at a session with a call in doubt and another that could go on", async () => {
    const dead = on.start({ leaseMs: 100 });
    const inside = [door(), door()] as const;
    const agentOf = (hold: Holdfast, context: () => object) =>
      hold.agent({
        name: "bot",
        context,
        model: script(asks(["act", {}], ["look", {}]), "fine"),
        tools: {
          act: { mode: "once", run: () => (inside[0].open(), new Promise(() => {})) },
          look: { mode: "repeatable", run: () => (inside[1].open(), new Promise(() => {})) },
        },
      });
    void agentOf(dead.hold, () => ({})).run("a", "go");
    await Promise.all(inside.map(({ opened }) => opened));
    dead.kill();
    await pause(120);
    const { hold } = on.start();
    const broken = agentOf(hold, () => {
      throw new Error("no database");
    });
    const worker = hold.worker({ agents: [broken], onSigterm: false });
    await worker.start();
    await expect.poll(async () => (await hold.sessions.get("a"))?.status).toBe("in-doubt");
    await pause(300);
    expect(worker.stats().failed).toBe(1);
    await worker.stop();
  });

  test("a turn that cannot be begun behind one that was cancelled fails, and the one before stays cancelled", async () => {
    const { hold } = on.start();
    let isBroken = false;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}]), "fine"),
      system: () => {
        if (isBroken) throw new Error("no such text");
        return "Be brief.";
      },
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    const first = await bot.submit("a", "go");
    await worker.drain();
    await hold.sessions.cancel("a", "enough");
    isBroken = true;
    const second = await bot.submit("a", "another");
    await worker.drain();
    expect(worker.stats().failed).toBe(1);
    expect(await second.result(soon)).toMatchObject({
      status: "failed",
      error: { message: "no such text" },
    });
    expect(await first.result(soon)).toMatchObject({ status: "stopped", reason: "cancelled" });
  });

  test("whoever waits for a turn hears that it is in doubt where its worker died behind the cancel", async () => {
    const worker = on.start({ leaseMs: 300 });
    const { inside, bot } = stuck(worker.hold);
    const turn = await on.start().hold.agent({ name: "bot", model: script() }).submit("a", "go");
    await worker.hold.worker({ agents: [bot], onSigterm: false }).start();
    await inside.opened;
    const { hold } = on.start();
    await hold.sessions.cancel("a", "enough");
    await expect.poll(async () => (await hold.sessions.get("a"))?.reason).toBe("enough");
    worker.kill();
    expect(await turn.result(soon)).toMatchObject({
      status: "in-doubt",
      pending: [{ name: "act" }],
    });
  });

  test("whoever waits for a turn hears that it was cancelled where its call says soon what became of it", async () => {
    const { hold } = on.start();
    for (const ms of [0, 10, 50]) {
      const { bot, inside, semaphore } = stuck(hold);
      const worker = hold.worker({ agents: [bot], onSigterm: false });
      const turn = await bot.submit(`s${ms}`, "go");
      await worker.start();
      await inside.opened;
      const result = turn.result(soon);
      await turn.cancel("enough");
      await expect
        .poll(async () => (await hold.sessions.get(`s${ms}`))?.reason, { interval: 5 })
        .toBe("enough");
      setTimeout(semaphore.open, ms);
      expect(await result).toMatchObject({ status: "stopped", reason: "cancelled" });
      await worker.stop();
    }
  });

  test.each(["in doubt", "waiting"])(
    "a run that queues behind a turn that is %s takes the session now and then",
    async (how) => {
      const { hold } = on.start();
      const semaphore = door();
      const bot = hold.agent({
        name: "bot",
        model: script(
          async () => (await semaphore.opened, asks([how === "waiting" ? "pay" : "act", {}])),
          "two",
        ),
        tools: {
          pay: { mode: "once", approval: true, run: () => 1 },
          act: { mode: "once", run: () => Promise.reject(new Error("reset")) },
        },
      });
      const first = bot.run("a", "go");
      const abort = new AbortController();
      const second = bot.run("a", "next", { ifBusy: "queue", signal: abort.signal });
      await pause(100);
      semaphore.open();
      await first;
      if (how === "in doubt") await hold.sessions.cancel("a", "enough");
      expect(await grants(hold)).toBeLessThan(30);
      abort.abort();
      expect(await second).toMatchObject({ status: "stopped" });
    },
  );

  test("what a call says after everybody has let go of its session is taken in: also that nothing happened", async () => {
    const { hold } = on.start();
    const { bot, inside, semaphore } = stuck(hold, () => {
      throw new NotDone("no such order");
    });
    const run = bot.run("a", "go");
    await inside.opened;
    await hold.sessions.cancel("a", "enough");
    expect(await run).toMatchObject({ status: "stopped", reason: "cancelled" });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-doubt" });
    semaphore.open();
    await expect
      .poll(() => hold.sessions.get("a"))
      .toMatchObject({ status: "cancelled", reason: "enough" });
    expect(await bot.run("a", "next")).toMatchObject({ status: "completed" });
  });

  test("a call that said that nothing happened, and waits to be tried again, is not in doubt when it is cancelled", async () => {
    const { hold } = on.start();
    const tried = door();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}])),
      tools: {
        act: {
          mode: "once",
          retry: { attempts: 5, backoffMs: 60_000 },
          run: () => {
            tried.open();
            throw new NotDone("busy");
          },
        },
      },
    });
    const run = bot.run("a", "go");
    await tried.opened;
    await pause(50);
    await hold.sessions.cancel("a", "enough");
    await run;
    await expect
      .poll(() => hold.sessions.get("a"))
      .toMatchObject({ status: "cancelled", reason: "enough" });
  });

  test("a call that was not begun when the run was stopped is made when it is resumed", async () => {
    const { hold } = on.start();
    const abort = new AbortController();
    let made = 0;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}])),
      // Told once the reply and the intent are saved, and nothing was begun.
      tools: { act: { mode: "once", run: () => ++made } },
    });
    const stream = bot.stream("a", "go", { signal: abort.signal });
    for await (const event of stream)
      if (event.type === "message" && event.message.role === "assistant") abort.abort();
    expect(await stream.result()).toMatchObject({ status: "stopped" });
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    expect(made).toBe(1);
  });

  test("who goes on from the cursor of a message misses none", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", { n: 1 }], ["act", { n: 2 }]), "fine"),
      tools: { act: { mode: "once", run: ({ n }: { n: number }) => n } },
    });
    const told: { readonly id: string; readonly cursor: string }[] = [];
    for await (const event of bot.stream("a", "go"))
      if (event.type === "message") told.push({ id: event.message.id, cursor: event.cursor });
    expect(told).toHaveLength(5);
    for (const [i, { cursor }] of told.entries()) {
      const later: string[] = [];
      const left = told.slice(i + 1).map(({ id }) => id);
      for await (const event of hold.sessions.events("a", {
        after: cursor,
        signal: AbortSignal.timeout(2_000),
      })) {
        if (event.type === "message") later.push(event.message.id);
        if (later.length === left.length) break;
      }
      expect(later).toEqual(left);
    }
  });

  test("a turn whose record was pruned is not run again, nor answered with another's output", async () => {
    const { hold } = on.start();
    let acted = 0;
    const bot = hold.agent({
      name: "bot",
      model: async ({ messages }) => {
        const last = messages.at(-1);
        return last?.role === "user"
          ? asks(["act", {}, `c${messages.length}`])
          : { content: `answer ${messages.length}` };
      },
      tools: {
        act: {
          mode: "once",
          run: (_input, { set }) => (set("big", "x".repeat(7_000) + acted), ++acted),
        },
      },
    });
    const outputs: unknown[] = [];
    for (let i = 0; i < 20; i++) {
      const result = await bot.run("a", `m${i}`, { key: `m${i}` });
      if (result.status === "completed") outputs.push(result.output);
      if (i === 0)
        await hold.sessions.fork(
          (await hold.checkpoints.list("a", { limit: 1 })).items[0]?.id as string,
          {
            id: "f",
          },
        );
    }
    await hold.checkpoints.prune("a", { keep: 1 });
    let forgotten = 0;
    for (let i = 0; i < 20; i++) {
      const result = await bot
        .run("a", `m${i}`, { key: `m${i}` })
        .catch((error: { code: string }) => error);
      if ("code" in result) forgotten += 1;
      expect(result).toMatchObject(
        "code" in result ? coded("NOT_FOUND") : { status: "completed", output: outputs[i] },
      );
    }
    expect(forgotten).toBeGreaterThan(0);
    expect(acted).toBe(20);
  });
});

test.each([
  { name: "is begun and comes to wait", between: 1 },
  { name: "ends, with the next one begun", between: 2 },
])(
  "a turn that $name between two looks of somebody who waits for it is not taken for one that was taken back",
  async ({ between }) => {
    const store = new MemoryStore();
    const holdOn = (on: Store) => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
    const hold = holdOn(store);
    const bot = hold.agent({
      name: "bot",
      model: async ({ messages }) =>
        between === 1 ? asks(["pay", {}]) : { content: `answer ${messages.length}` },
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    await bot.submit("a", "one", { key: "1" });
    if (between === 2) await bot.submit("a", "two");
    let looks = -1;
    const watched = wrapped(store, {
      inbox: {
        async list(...args) {
          // It has read where the session stands, and not yet what waits for it.
          if (looks >= 0) looks += 1;
          if (looks === 1) await hold.worker({ agents: [bot], onSigterm: false }).drain();
          return store.inbox.list(...args);
        },
      },
    });
    const turn = await holdOn(watched)
      .agent({ name: "bot", model: script() })
      .submit("a", "one", { key: "1" });
    looks = 0;
    const result = await turn.result(soon);
    expect(result).toMatchObject(
      between === 1 ? { status: "waiting" } : { status: "completed", output: "answer 1" },
    );
    expect(looks).toBeGreaterThan(0);
  },
);

test("of two openings in one instant, one of which is told that the store is busy, one holds", async () => {
  const store = new MemoryStore();
  let grants = 0;
  const busy = wrapped(store, {
    now: async () => 1_000,
    async apply(changes, docs) {
      const isGrant =
        changes[0]?.lease !== undefined &&
        changes[0].lease.until > 0 &&
        changes[0].when.epoch !== undefined;
      if (isGrant && ++grants === 2)
        throw new HoldfastError("UNREACHABLE", "The connection was lost.");
      return store.apply(changes, docs);
    },
  });
  const hold = new Opened(busy, thisMachine(), { now: Date.now }, 30_000);
  let met = 0;
  for (let i = 0; i < 20; i++) {
    await (await hold.session(`s${i}`)).close();
    grants = 0;
    const opened = await Promise.allSettled([hold.session(`s${i}`), hold.session(`s${i}`)]);
    expect(opened.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    if (grants === 2) met += 1;
  }
  expect(met).toBeGreaterThan(0);
});

/** A store before each write of which something is done. */
const onApply = (store: Store, before: (text: string) => void): Store =>
  wrapped(store, {
    async apply(changes, docs) {
      before(JSON.stringify(changes));
      return store.apply(changes, docs);
    },
  });

test("a call that was approved, and whose run was stopped while that it begins was saved, is made when it is resumed", async () => {
  const abort = new AbortController();
  const store = onApply(new MemoryStore(), (text) => {
    if (text.includes('\\"is\\":\\"begun\\"')) abort.abort();
  });
  const hold = new Opened(store, thisMachine(), { now: Date.now }, 30_000);
  let made = 0;
  const bot = hold.agent({
    name: "bot",
    model: script(asks(["pay", {}])),
    tools: { pay: { mode: "once", approval: true, run: () => ++made } },
  });
  const waiting = await bot.run("a", "go");
  await hold.effects.approve(
    waiting.status === "waiting" ? (waiting.pending[0]?.effectId as string) : "",
  );
  expect(await bot.resume("a", { signal: abort.signal })).toMatchObject({ status: "stopped" });
  expect(made).toBe(0);
  expect(await bot.resume("a")).toMatchObject({ status: "completed" });
  expect(made).toBe(1);
});

test("a checkpoint is told of once it is stored, also where that took a second try", async () => {
  let away = false;
  const store = onApply(new MemoryStore(), (text) => {
    if (!away || !text.includes("mark")) return;
    away = false;
    throw new HoldfastError("UNREACHABLE", "The connection was lost.");
  });
  const told: string[] = [];
  const hold = new Opened(store, thisMachine(), { now: Date.now }, 30_000, {
    telemetry: {
      event: (event) => {
        if (event.type === "checkpoint") told.push(event.checkpoint.id);
      },
    },
  });
  const bot = hold.agent({
    name: "bot",
    model: script(async () => ((away = true), asks(["look", {}], ["act", {}]))),
    tools: { look: { mode: "repeatable", run: () => 1 }, act: { mode: "keyed", run: () => 2 } },
  });
  expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
  expect(away).toBe(false);
  const stored = (await hold.checkpoints.list("a")).items.map(({ id }) => id);
  expect(told).toEqual(stored.toReversed());
  expect(told.length).toBeGreaterThan(1);
});
