/** Turns: which one is meant, what happens while one is open, and how one is stopped. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, Message, ToolResultPart } from "../../../src/index.js";
import { partsOf } from "../../../src/index.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const roles = (messages: readonly Message[]) => messages.map(({ role }) => role);
const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message) as readonly ToolResultPart[]);

/**
 * Providers refuse a transcript in which calls are not answered right behind the reply that asks
 * for them.
 */
function unanswered(messages: readonly Message[]): string[] {
  const open = new Set<string>();
  const wrong: string[] = [];
  for (const message of messages) {
    const parts = partsOf(message);
    if (message.role === "tool")
      for (const part of parts) if (part.type === "tool-result") open.delete(part.callId);
    if (message.role !== "tool")
      wrong.push(...[...open].map((callId) => `${callId} before ${message.role}`));
    if (message.role === "assistant")
      for (const part of parts) if (part.type === "tool-call") open.add(part.callId);
  }
  return wrong;
}

describe.each(stores)("turns on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());
  const messagesOf = async (id: string) => {
    const session = await on.start().hold.session(id, { waitMs: 1_000 });
    await session.close();
    return session.messages;
  };
  /** An agent whose first reply asks for a call that waits at a door. */
  const stuck = (hold: Holdfast, mode: "repeatable" | "keyed" | "once" = "once") => {
    const inside = door();
    const semaphore = door<string>();
    let made = 0;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), "one", "two", "three"),
      tools: {
        act: {
          mode,
          run: () => {
            made += 1;
            inside.open();
            return semaphore.opened;
          },
        },
      },
    });
    return { bot, inside, semaphore, made: () => made };
  };

  test("two runs of one turn in a process are one run, and both are told of it", async () => {
    const { bot, inside, semaphore, made } = stuck(on.start().hold);
    const first = bot.run("a", "go");
    await inside.opened;
    const second = bot.run("a", "go");
    const events: string[] = [];
    const stream = bot.stream("a", "go");
    const read = (async () => {
      for await (const event of stream) events.push(event.type);
    })();
    const resumed = bot.resume("a");
    semaphore.open("acted");
    const ended = await Promise.all([first, second, stream.result(), resumed]);
    await read;
    expect(ended.map(({ status, turnId }) => [status, turnId])).toEqual(
      ended.map(() => ["completed", ended[0]?.turnId]),
    );
    expect(made()).toBe(1);
    expect(events).toContain("status");
  });

  test("a run of the same turn in another process waits for the one that has it, and answers from its record", async () => {
    const { bot, inside, semaphore, made } = stuck(on.start().hold);
    const other = stuck(on.start().hold);
    const first = bot.run("a", "go");
    await inside.opened;
    const second = other.bot.run("a", "go");
    semaphore.open("acted");
    expect(await first).toMatchObject({ status: "completed", replayed: false });
    expect(await second).toMatchObject({ status: "completed", replayed: true });
    expect([made(), other.made()]).toEqual([1, 0]);
  });

  test("a turn is known by its key: the same input under another key is another turn", async () => {
    const bot = on.start().hold.agent({ name: "bot", model: script("one", "two") });
    const first = await bot.run("a", "yes", { key: "m1" });
    expect(first).toMatchObject({ turnId: "m1", output: "one" });
    expect(await bot.run("a", "yes", { key: "m1" })).toMatchObject({
      output: "one",
      replayed: true,
    });
    expect(await bot.run("a", "yes", { key: "m2" })).toMatchObject({
      output: "two",
      replayed: false,
    });
  });

  test("one key with two inputs is a CONFLICT, when it is over and while it runs", async () => {
    const { bot, inside, semaphore } = stuck(on.start().hold);
    const first = bot.run("a", "go", { key: "m1" });
    await inside.opened;
    await expect(bot.run("a", "stop", { key: "m1" })).rejects.toMatchObject(coded("CONFLICT"));
    await expect(stuck(on.start().hold).bot.run("a", "stop", { key: "m1" })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    semaphore.open("acted");
    await first;
    await expect(bot.run("a", "stop", { key: "m1" })).rejects.toMatchObject(coded("CONFLICT"));
  });

  test.each(["here", "elsewhere"])(
    "another input while a turn is open %s is refused, unless it says otherwise",
    async (where) => {
      const { hold } = on.start();
      const { bot, inside, semaphore } = stuck(hold);
      const first = bot.run("a", "go");
      await inside.opened;
      const other = where === "here" ? bot : stuck(on.start().hold).bot;
      await expect(other.run("a", "more")).rejects.toMatchObject(coded("TURN_OPEN"));
      await expect(other.run("a", "more", { ifBusy: "reject" })).rejects.toMatchObject(
        coded("TURN_OPEN"),
      );
      semaphore.open("acted");
      expect(await first).toMatchObject({ status: "completed" });
      expect(await other.run("a", "more")).toMatchObject({ status: "completed", output: "two" });
    },
  );

  test.each([
    ["wait", "here"],
    ["wait", "elsewhere"],
    ["queue", "here"],
    ["queue", "elsewhere"],
  ] as const)(
    "ifBusy %s, %s: the next turn comes behind the one that is open",
    async (ifBusy, where) => {
      const { bot, inside, semaphore } = stuck(on.start().hold);
      const first = bot.run("a", "go");
      await inside.opened;
      const other = where === "here" ? bot : stuck(on.start().hold).bot;
      const second = other.run("a", "more", { ifBusy });
      await new Promise((resolve) => setTimeout(resolve, 30));
      semaphore.open("acted");
      expect(await first).toMatchObject({ status: "completed", output: "one" });
      expect(await second).toMatchObject({ status: "completed", output: "two" });
      expect(roles(await messagesOf("a"))).toEqual([
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
      ]);
    },
  );

  test("several that queue are run in the order of their coming", async () => {
    const { bot, inside, semaphore } = stuck(on.start().hold);
    const first = bot.run("a", "go");
    await inside.opened;
    const queued: Promise<unknown>[] = [];
    for (const input of ["b", "c"]) {
      queued.push(bot.run("a", input, { ifBusy: "queue", key: input }));
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    semaphore.open("acted");
    await first;
    expect(await Promise.all(queued)).toMatchObject([
      { status: "completed", turnId: "b", output: "two" },
      { status: "completed", turnId: "c", output: "three" },
    ]);
  });

  test("a turn before the latest that is asked for again under its key is answered from the record, also while another is under way", async () => {
    const { hold } = on.start();
    let asked = 0;
    const { inside, semaphore } = { inside: door(), semaphore: door() };
    const bot = hold.agent({
      name: "bot",
      model: async () => {
        asked += 1;
        if (asked === 2) throw new Error("away");
        if (asked === 4) await (inside.open(), semaphore.opened);
        return { content: `answer ${asked}` };
      },
      modelRetry: { attempts: 1 },
    });
    expect(await bot.run("a", "one", { key: "m1" })).toMatchObject({
      status: "completed",
      replayed: false,
      output: "answer 1",
    });
    expect(await bot.run("a", "two", { key: "m2" })).toMatchObject({ status: "failed" });
    expect(await bot.run("a", "three", { key: "m3" })).toMatchObject({
      status: "completed",
      output: "answer 3",
    });
    const replayed = { status: "completed", replayed: true, output: "answer 1", turnId: "m1" };
    expect(await bot.run("a", "one", { key: "m1" })).toMatchObject(replayed);
    expect(await bot.run("a", "two", { key: "m2" })).toMatchObject({
      status: "failed",
      error: { message: "away" },
    });
    await expect(bot.run("a", "something else", { key: "m1" })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    // Submitted under a key that was run before, it is not begun again.
    await bot.submit("a", "one", { key: "m1" });
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    expect(await worker.drain()).toEqual({ ran: 0 });
    const fourth = bot.run("a", "four", { key: "m4" });
    await inside.opened;
    const elsewhere = on.start().hold.agent({ name: "bot", model: script() });
    for (const other of [bot, elsewhere])
      expect(await other.run("a", "one", { key: "m1", ifBusy: "interrupt" })).toMatchObject(
        replayed,
      );
    semaphore.open();
    expect(await fourth).toMatchObject({ status: "completed", output: "answer 4" });
    expect(asked).toBe(4);
    expect(
      (await messagesOf("a")).filter(({ role }) => role === "user").map(({ content }) => content),
    ).toEqual(["one", "two", "three", "four"]);
  });

  test("gone back to before a turn, its key is free again", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script("one", "two", "three") });
    await bot.run("a", "one", { key: "m1" });
    const [before] = (await hold.checkpoints.list("a", { limit: 1 })).items;
    await bot.run("a", "two", { key: "m2" });
    await bot.run("a", "three", { key: "m3" });
    const session = await hold.session("a");
    await session.rewind(before?.id as string);
    await session.close();
    expect(await bot.run("a", "two", { key: "m2" })).toMatchObject({
      status: "completed",
      replayed: false,
    });
    expect(await bot.run("a", "one", { key: "m1" })).toMatchObject({
      status: "completed",
      replayed: true,
    });
  });

  test.each(["here", "elsewhere"])(
    "ifBusy interrupt, %s: the open turn ends, and the transcript stays one that providers take",
    async (where) => {
      // Whoever is inside a call learns of it by its heartbeat.
      const { bot, inside, semaphore } = stuck(on.start({ leaseMs: 600 }).hold);
      const first = bot.run("a", "go");
      await inside.opened;
      const other = where === "here" ? bot : stuck(on.start().hold).bot;
      const second = other.run("a", "stop that", { ifBusy: "interrupt" });
      await expect
        .poll(async () => (await on.start().hold.sessions.get("a"))?.status)
        .toBe("in-doubt");
      semaphore.open("acted");
      expect(await first).toMatchObject({ status: "stopped", reason: "cancelled" });
      expect(await second).toMatchObject({ status: "completed" });
      const messages = await messagesOf("a");
      expect(unanswered(messages)).toEqual([]);
      expect(messages.filter(({ role }) => role === "user").map(({ content }) => content)).toEqual([
        "go",
        "stop that",
      ]);
      expect(results(messages)).toMatchObject([{ callId: "act-0", output: "acted" }]);
    },
  );

  test("ifBusy interrupt waits for a call that does not listen, and has its outcome", async () => {
    const { bot, inside, semaphore, made } = stuck(on.start({ leaseMs: 600 }).hold);
    const first = bot.run("a", "go");
    await inside.opened;
    const second = bot.run("a", "stop that", { ifBusy: "interrupt" });
    // Longer than a call that was told to stop is waited for.
    expect(await first).toMatchObject({ status: "stopped", reason: "cancelled" });
    setTimeout(() => semaphore.open("acted after all"), 300);
    expect(await second).toMatchObject({ status: "completed" });
    expect(results(await messagesOf("a"))).toMatchObject([
      { outcome: "ok", output: "acted after all" },
    ]);
    expect(made()).toBe(1);
  });

  test("what a call sets after its time was up is not saved with the next attempt", async () => {
    const { hold } = on.start();
    const [first, second] = [door(), door()];
    const run = async (
      _input: unknown,
      { attempt, set }: { attempt: number; set(this: void, key: string, value: string): void },
    ) => {
      if (attempt === 1) {
        await first.opened;
        set("by", "the first attempt");
        second.open();
        return "late";
      }
      first.open();
      await second.opened;
      return "in time";
    };
    const pay = {
      mode: "keyed" as const,
      timeoutMs: 100,
      retry: { attempts: 2, backoffMs: 1 },
      run,
    };
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}]), "fine"),
      tools: { pay },
    } as never);
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(results(await messagesOf("a")).map(({ output }) => output)).toEqual(["in time"]);
    expect((await hold.sessions.state("a")).state).not.toHaveProperty("by");
  });

  test("another input for a session that waits: calls that nobody approved are not made, and the model is told", async () => {
    const { hold } = on.start();
    const model = script(asks(["pay", {}], ["look", {}]), "fine");
    const bot = hold.agent({
      name: "bot",
      model,
      tools: {
        pay: { mode: "once", approval: true, run: () => expect.fail("made") },
        look: { mode: "repeatable", run: () => "seen" },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "waiting" });
    await expect(bot.run("a", "no, stop")).rejects.toMatchObject(coded("TURN_OPEN"));
    await expect(bot.run("a", "no, stop", { ifBusy: "wait" })).rejects.toMatchObject(
      coded("TURN_OPEN"),
    );
    expect(await bot.run("a", "no, stop", { ifBusy: "interrupt" })).toMatchObject({
      status: "completed",
      output: "fine",
    });
    const messages = await messagesOf("a");
    expect(unanswered(messages)).toEqual([]);
    expect(results(messages).map(({ outcome }) => outcome)).toEqual(["denied", "ok"]);
    expect((await hold.effects.list({ status: "waiting" })).items).toEqual([]);
  });

  test.each(["cancelled", "halted"])(
    "another input for a turn that was %s in the middle of its calls: none of them is made",
    async (how) => {
      const { hold } = on.start();
      const made: string[] = [];
      const pay = (n: number) => asks(["pay", {}, `pay-${n}`]);
      const bot = hold.agent({
        name: "bot",
        model: script(pay(1), pay(2), pay(3), "fine"),
        limits: { repeats: 3 },
        tools: {
          pay: { mode: "once", approval: how === "cancelled", run: () => made.push("pay") },
        },
      });
      const first = await bot.run("a", "go");
      if (how === "cancelled") await hold.sessions.cancel("a", "enough");
      else expect(first).toMatchObject({ status: "halted" });
      const before = made.length;
      await bot.run("a", "something else", { limits: { steps: 1 } });
      expect(made.length).toBe(before);
      expect(unanswered(await messagesOf("a"))).toEqual([]);
    },
  );

  test("another input for a turn that was cancelled with a call of which nobody knows: that is settled first", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), "fine"),
      tools: { act: { mode: "once", run: () => Promise.reject(new Error("reset")) } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "in-doubt" });
    await hold.sessions.cancel("a");
    await expect(bot.run("a", "something else")).rejects.toMatchObject(coded("TURN_OPEN"));
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(doubt?.effectId as string, { output: "it happened" });
    expect(await bot.run("a", "something else", { ifBusy: "interrupt" })).toMatchObject({
      status: "completed",
      output: "fine",
    });
    const messages = await messagesOf("a");
    expect(unanswered(messages)).toEqual([]);
    expect(results(messages)).toMatchObject([{ outcome: "ok", output: "it happened" }]);
  });

  test("aborting leaves a session that can be resumed, and nothing is made twice", async () => {
    const { hold } = on.start();
    const abort = new AbortController();
    let made = 0;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), async ({ signal }) => {
        if (made < 2) abort.abort(new Error("enough"));
        made += 1;
        signal.throwIfAborted();
        return "done";
      }),
      tools: { act: { mode: "once", run: () => ++made } },
    });
    expect(await bot.run("a", "go", { signal: abort.signal })).toMatchObject({
      status: "stopped",
      reason: "aborted",
    });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
    expect(await bot.run("a", "go", { signal: abort.signal })).toMatchObject({
      status: "stopped",
      reason: "aborted",
    });
    expect(await bot.resume("a")).toMatchObject({ status: "completed", output: "done" });
    expect(results(await messagesOf("a"))).toMatchObject([{ output: 1 }]);
  });

  test("a model that does not listen to the abort is not waited for", async () => {
    const { hold } = on.start();
    const abort = new AbortController();
    const bot = hold.agent({
      name: "bot",
      model: () => (setTimeout(() => abort.abort(), 10), new Promise(() => {})),
    });
    expect(await bot.run("a", "go", { signal: abort.signal })).toMatchObject({
      status: "stopped",
      reason: "aborted",
    });
  });

  test("closing the store ends runs that are under way, and they can be resumed", async () => {
    const first = on.start().hold;
    const inside = door();
    const run = first
      .agent({ name: "bot", model: () => (inside.open(), new Promise(() => {})) })
      .run("a", "go");
    await inside.opened;
    await first.close();
    expect(await run).toMatchObject({ status: "stopped", reason: "aborted" });
    const bot = on.start().hold.agent({ name: "bot", model: script("done") });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed", output: "done" });
  });

  test("a tool that ignores the abort is left behind; its late outcome settles the call", async () => {
    const { hold } = on.start();
    const { bot, inside, semaphore, made } = stuck(hold);
    const abort = new AbortController();
    const run = bot.run("a", "go", { signal: abort.signal });
    await inside.opened;
    abort.abort();
    expect(await run).toMatchObject({ status: "stopped", reason: "aborted" });
    const resumed = bot.resume("a");
    await new Promise((resolve) => setTimeout(resolve, 50));
    semaphore.open("acted after all");
    expect(await resumed).toMatchObject({ status: "completed", output: "one" });
    expect(made()).toBe(1);
    expect(results(await messagesOf("a"))).toMatchObject([
      { outcome: "ok", output: "acted after all" },
    ]);
  });

  test("a tool that listens to the abort ends the run at once, and its call is unknown", async () => {
    const { hold } = on.start();
    const abort = new AbortController();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}])),
      tools: {
        act: {
          mode: "once",
          run: (_input, { signal }) =>
            new Promise((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason as Error));
              setTimeout(() => abort.abort(), 10);
            }),
        },
      },
    });
    expect(await bot.run("a", "go", { signal: abort.signal })).toMatchObject({
      status: "stopped",
      reason: "aborted",
    });
    expect(await bot.resume("a")).toMatchObject({ status: "in-doubt" });
  });

  test("a cancelled turn stays cancelled when it is run again; resuming goes on with it", async () => {
    const { hold } = on.start();
    const { bot, inside, semaphore, made } = stuck(hold, "keyed");
    const run = bot.run("a", "go");
    await inside.opened;
    await hold.sessions.cancel("a", "stopped by the user");
    semaphore.open("acted");
    expect(await run).toMatchObject({ status: "stopped", reason: "cancelled" });
    expect(await hold.sessions.get("a")).toMatchObject({
      status: "cancelled",
      reason: "stopped by the user",
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "stopped", reason: "cancelled" });
    expect(await bot.resume("a")).toMatchObject({ status: "completed", output: "one" });
    expect(made()).toBeLessThanOrEqual(2);
  });

  test("another process can cancel a run, and a stream of it ends", async () => {
    const { bot, inside, semaphore } = stuck(on.start({ leaseMs: 600 }).hold);
    const stream = bot.stream("a", "go");
    await inside.opened;
    const { hold } = on.start();
    await hold.sessions.cancel("a", "from afar");
    // Until the call says what became of it.
    await expect
      .poll(() => hold.sessions.get("a"))
      .toMatchObject({ status: "in-doubt", reason: "from afar" });
    semaphore.open("acted");
    for await (const _event of stream);
    expect(await stream.result()).toMatchObject({ status: "stopped", reason: "cancelled" });
    await expect
      .poll(() => on.start().hold.sessions.get("a"))
      .toMatchObject({ status: "cancelled", reason: "from afar" });
  });

  /** Calls a tool that acts, of which nobody knows what became. */
  const unknown = (
    hold: Holdfast,
    o: { readonly mode?: "keyed" | "once"; readonly onCall?: () => void } = {},
  ) =>
    hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), "fine"),
      tools: {
        act: {
          mode: o.mode ?? "once",
          retry: { attempts: 1 },
          run: () => {
            o.onCall?.();
            throw new Error("reset");
          },
        },
      },
    });

  test.each(["once", "keyed"] as const)(
    "cancelling a session that is in doubt: it stays in sight until it is settled, and is cancelled then (%s)",
    async (mode) => {
      const { hold } = on.start();
      let made = 0;
      const bot = unknown(hold, { mode, onCall: () => (made += 1) });
      expect(await bot.run("a", "go", { key: "k" })).toMatchObject({ status: "in-doubt" });
      await hold.sessions.cancel("a", "enough");
      await hold.sessions.cancel("a", "enough, I say");
      expect(await hold.sessions.get("a")).toMatchObject({
        status: "in-doubt",
        reason: "enough, I say",
      });
      expect(await bot.run("a", "go", { key: "k" })).toMatchObject({
        status: "in-doubt",
        pending: [{ status: "in-doubt" }],
      });
      const worker = hold.worker({ agents: [bot], onSigterm: false });
      await worker.drain();
      const { items } = await hold.effects.list({ status: "in-doubt" });
      expect(items).toMatchObject([{ name: "act", sessionId: "a" }]);
      await hold.effects.settle(items[0]?.effectId as string, { retry: true });
      expect(await hold.sessions.get("a")).toMatchObject({
        status: "cancelled",
        reason: "enough, I say",
      });
      await worker.drain();
      expect(made).toBe(1);
      expect(await hold.sessions.get("a")).toMatchObject({ status: "cancelled" });
    },
  );

  test("resuming a session that is being cancelled takes the cancel back", async () => {
    const { hold } = on.start();
    const bot = unknown(hold);
    await bot.run("a", "go");
    await hold.sessions.cancel("a", "enough");
    expect(await bot.resume("a")).toMatchObject({ status: "in-doubt" });
    const about = await hold.sessions.get("a");
    expect(about).toMatchObject({ status: "in-doubt" });
    expect(about?.reason).toBeUndefined();
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(doubt?.effectId as string, { output: 1 });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
  });

  test("a call that is under way when its session is cancelled, and never says what became of it, stays in sight", async () => {
    const { hold } = on.start();
    const inside = door();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), "fine"),
      tools: {
        act: {
          mode: "keyed",
          run: (_input, { signal }) =>
            new Promise((_resolve, reject) => {
              signal.addEventListener("abort", () => reject(signal.reason as Error));
              inside.open();
            }),
        },
      },
    });
    const turn = await bot.submit("a", "go");
    const worker = hold.worker({ agents: [bot], onSigterm: false });
    await worker.start();
    await inside.opened;
    await turn.cancel("enough");
    expect(await turn.result()).toMatchObject({ status: "in-doubt", pending: [{ name: "act" }] });
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(doubt?.effectId as string, { output: "it happened" });
    expect(await turn.result()).toMatchObject({ status: "stopped", reason: "cancelled" });
    await worker.stop();
    expect(await hold.sessions.get("a")).toMatchObject({ status: "cancelled", reason: "enough" });
  });

  test("cancelling a session that waits or is over", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}])),
      tools: { pay: { mode: "once", approval: true, run: () => 1 } },
    });
    await bot.run("a", "go");
    await hold.sessions.cancel("a");
    expect(await hold.sessions.get("a")).toMatchObject({ status: "cancelled" });
    expect((await hold.effects.list({ status: "waiting" })).items).toEqual([]);
    await hold.agent({ name: "bot", model: script() }).run("b", "go");
    await hold.sessions.cancel("b");
    expect(await hold.sessions.get("b")).toMatchObject({ status: "completed" });
    await expect(hold.sessions.cancel("nobody")).rejects.toMatchObject(coded("NOT_FOUND"));
  });

  test("deleting a session under a run stops it, and brings nothing back", async () => {
    const { hold } = on.start();
    const { bot, inside, semaphore } = stuck(hold);
    const run = bot.run("a", "go");
    await inside.opened;
    await on.start().hold.sessions.delete("a");
    semaphore.open("acted");
    expect(await run).toMatchObject({ status: "stopped", reason: "superseded" });
    expect(await hold.sessions.get("a")).toBeUndefined();
  });

  test("the agent's version is kept with the turn that began under it, and a program may change between turns", async () => {
    const { hold } = on.start();
    await hold.agent({ name: "bot", version: "1", model: script("one", "two") }).run("a", "x");
    expect(
      await hold.agent({ name: "bot", version: "2", model: script("one", "two") }).run("a", "y"),
    ).toMatchObject({ output: "two" });
  });

  test("an agent whose session is held by hand waits while it can be a dying one, and says so then", async () => {
    const { hold } = on.start({ leaseMs: 100 });
    const session = await hold.session("a", { agent: "bot" });
    const run = hold.agent({ name: "bot", model: script("one") }).run("a", "go");
    await session.close();
    expect(await run).toMatchObject({ status: "completed" });
  });
});
