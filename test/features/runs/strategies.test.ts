/** Where checkpoints are placed, and when a run must stop. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { agent, type Holdfast, type ModelRequest, type Strategy } from "../../../src/index.js";
import { asks, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

test.each([
  { everySteps: 0 },
  { everySteps: 1.5 },
  { everySteps: Number.NaN },
  { everyMs: 0 },
  { everyMs: -1 },
  { everyMs: "5" },
  { everySteps: 1, everyMs: 1 },
  {},
  [],
  null,
  "sometimes",
  5,
])("%j is refused as a strategy, where it is given", (checkpoint) => {
  expect(() => agent({ name: "bot", model: script(), checkpoint: checkpoint as never })).toThrow(
    /checkpoint/,
  );
});

describe.each(stores)("strategies and limits on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  const look = { mode: "repeatable", run: () => "seen" } as const;
  const pay = { mode: "once", run: () => "paid" } as const;
  const two = () => script(asks(["look", { n: 1 }]), asks(["pay", {}], ["look", { n: 2 }]), "done");
  /** The checkpoints of session "a", oldest first. */
  const marks = async (hold: Holdfast) =>
    (await hold.checkpoints.list("a")).items
      .toReversed()
      .map(({ kind, step, messageCount, status }) => [kind, step, messageCount, status]);
  const runWith = async (checkpoint: Strategy | undefined) => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: two(),
      ...(checkpoint !== undefined && { checkpoint }),
      tools: { look, pay },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    return marks(hold);
  };
  const last = ["automatic", 3, 7, "completed"];

  test.each([
    ["by default, as after-tool", undefined],
    ["after-tool", "after-tool"],
  ] as const)(
    "%s: behind the answers of each reply's calls, one for all of them",
    async (_name, strategy) => {
      expect(await runWith(strategy)).toEqual([
        ["automatic", 1, 3, "in-progress"],
        ["automatic", 2, 6, "in-progress"],
        last,
      ]);
    },
  );

  test("after-model: behind each reply, before its calls are made", async () => {
    expect(await runWith("after-model")).toEqual([
      ["automatic", 1, 2, "in-progress"],
      ["automatic", 2, 4, "in-progress"],
      last,
    ]);
  });

  test("before-step: before the model is asked", async () => {
    expect(await runWith("before-step")).toEqual([
      ["automatic", 0, 1, "in-progress"],
      ["automatic", 1, 3, "in-progress"],
      ["automatic", 2, 6, "in-progress"],
      last,
    ]);
  });

  test("everySteps: when so many steps have passed", async () => {
    expect(await runWith({ everySteps: 2 })).toEqual([["automatic", 2, 6, "in-progress"], last]);
    expect(await on.start().hold.verify()).toMatchObject({ ok: true });
  });

  test("everyMessages: when so many messages have come", async () => {
    expect(await runWith({ everyMessages: 3 })).toEqual([
      ["automatic", 1, 3, "in-progress"],
      ["automatic", 2, 6, "in-progress"],
      last,
    ]);
  });

  test("everyMs: when so much time has passed", async () => {
    expect(await runWith({ everyMs: 3_600_000 })).toEqual([last]);
  });

  test("a function is told each step and event, and decides", async () => {
    const told: unknown[] = [];
    const strategy: Strategy = ({ step, event }) => {
      told.push(`${event} ${step}`);
      return event === "model" && step === 2;
    };
    expect(await runWith(strategy)).toEqual([["automatic", 2, 4, "in-progress"], last]);
    expect(told).toEqual(
      expect.arrayContaining(["step 0", "model 1", "tool 1", "model 2", "tool 2"]),
    );
  });

  test("never: no checkpoint at all, and yet the session is resumed where it was", async () => {
    const first = on.start();
    const inside = door();
    const made: string[] = [];
    const agentOf = (hold: Holdfast, stuck: boolean) =>
      hold.agent({
        name: "bot",
        checkpoint: "never",
        model: two(),
        tools: {
          look: {
            mode: "repeatable",
            run: ({ n }) => (n === 2 && stuck ? (inside.open(), new Promise(() => {})) : "seen"),
          },
          pay: { mode: "once", run: () => made.push("pay") },
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    await expect.poll(() => made.length).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 50));
    first.kill();
    const { hold } = on.start();
    expect(await agentOf(hold, false).run("a", "go")).toMatchObject({
      status: "completed",
      output: "done",
    });
    expect(made).toEqual(["pay"]);
    expect(await marks(hold)).toEqual([]);
    expect(await agentOf(hold, false).run("a", "go")).toMatchObject({
      status: "completed",
      replayed: true,
    });
  });

  test("a tool may have a checkpoint of its own before it is called", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      checkpoint: "after-tool",
      model: two(),
      tools: { look, pay: { ...pay, checkpoint: "before" } },
    });
    await bot.run("a", "go");
    expect(await marks(hold)).toEqual([
      ["automatic", 1, 3, "in-progress"],
      ["pre-operation", 2, 4, "in-progress"],
      ["automatic", 2, 6, "in-progress"],
      last,
    ]);
  });

  test("a resume leaves one checkpoint of kind recovery, however often it is tried in vain", async () => {
    const first = on.start();
    const inside = door();
    const agentOf = (hold: Holdfast, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: two(),
        tools: {
          look: {
            mode: "repeatable",
            run: () => (stuck ? (inside.open(), new Promise(() => {})) : "seen"),
          },
          pay,
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    first.kill();
    for (let i = 0; i < 3; i++) {
      const vain = on.start();
      let entered = () => {};
      const reached = new Promise<void>((resolve) => {
        entered = resolve;
      });
      const bot = vain.hold.agent({
        name: "bot",
        model: two(),
        tools: { look: { mode: "repeatable", run: () => (entered(), new Promise(() => {})) }, pay },
      });
      void bot.run("a", "go");
      await reached;
      vain.kill();
    }
    const { hold } = on.start();
    await agentOf(hold, false).run("a", "go");
    expect((await marks(hold)).map(([kind]) => kind)).toEqual([
      "recovery",
      "automatic",
      "automatic",
      "automatic",
    ]);
  });

  test("every checkpoint of a run loads, and can be forked", async () => {
    const { hold } = on.start();
    await hold
      .agent({ name: "bot", checkpoint: "after-model", model: two(), tools: { look, pay } })
      .run("a", "go");
    for (const [i, { id, messageCount }] of (await hold.checkpoints.list("a")).items.entries()) {
      expect((await hold.checkpoints.state(id)).messages).toHaveLength(messageCount);
      await hold.sessions.fork(id, { id: `fork-${i}` });
    }
  });

  test("a strategy that answers neither true nor false is refused when it is asked", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: two(),
      checkpoint: (() => "yes") as never,
      tools: { look, pay },
    });
    await expect(bot.run("a", "go")).rejects.toMatchObject({ code: "INVALID_OPTION" });
  });

  // ---- limits

  const forever = (usage?: object) => {
    let n = 0;
    return async () => ({ ...asks(["look", { n: ++n }]), ...(usage && { usage }) });
  };

  test("steps: so many replies in a turn, and not one more; more can be granted on resume", async () => {
    const { hold } = on.start();
    const model = forever();
    const bot = hold.agent({ name: "bot", model, limits: { steps: 3 }, tools: { look } });
    const halted = await bot.run("a", "go");
    expect(halted).toMatchObject({ status: "halted", reason: expect.stringContaining("3 steps") });
    expect(await hold.sessions.get("a")).toMatchObject({
      status: "halted",
      reason: halted.status === "halted" ? halted.reason : "",
    });
    const session = await hold.session("a");
    expect(session.messages.filter(({ role }) => role === "assistant")).toHaveLength(3);
    expect(session.messages.at(-1)?.role).toBe("tool");
    await session.close();
    expect(await bot.resume("a")).toMatchObject({ status: "halted" });
    expect(await bot.run("a", "go", { limits: { steps: 5 } })).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("5"),
    });
    // Another turn begins anew.
    expect(await bot.run("a", "more")).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("3 steps"),
    });
    const after = await hold.session("a");
    expect(after.messages.filter(({ role }) => role === "assistant")).toHaveLength(8);
    await after.close();
  });

  test("tokens: in and out, of this turn", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: forever({ inputTokens: 40, outputTokens: 10 }),
      limits: { tokens: 100 },
      tools: { look },
    });
    expect(await bot.run("a", "go")).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("100 tokens"),
    });
    expect(await bot.run("a", "more")).toMatchObject({
      status: "halted",
      usage: { inputTokens: 160, outputTokens: 40 },
    });
  });

  test("wallMs: of one run, so that a resume has its own", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: forever(),
      limits: { wallMs: 40 },
      tools: {
        look: {
          mode: "repeatable",
          run: () => new Promise((resolve) => setTimeout(() => resolve("seen"), 15)),
        },
      },
    });
    const halted = await bot.run("a", "go");
    expect(halted).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("may run for 40"),
    });
    expect(await bot.resume("a")).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("may run for 40"),
    });
  });

  test("repeats: a turn that waited for the one before does not answer for its calls", async () => {
    const { hold } = on.start();
    const leaving = new AbortController();
    let asked = 0;
    const model = async ({ messages }: ModelRequest) => {
      asked += 1;
      // The first turn asks twice, the second once; each then ends.
      const isDone =
        messages.filter(({ role }) => role === "tool").length >=
        (messages.some(({ content }) => content === "second") ? 3 : 2);
      return isDone
        ? { content: "done" }
        : { content: "", toolCalls: [{ callId: `c${asked}`, name: "look", input: {} }] };
    };
    const run = () => {
      if (asked === 1) leaving.abort();
      return null;
    };
    const bot = hold.agent({
      name: "bot",
      model,
      limits: { repeats: 3 },
      tools: { look: { mode: "repeatable", run } },
    });
    expect(await bot.run("a", "first", { signal: leaving.signal })).toMatchObject({
      status: "stopped",
    });
    expect(await bot.run("a", "second", { ifBusy: "wait" })).toMatchObject({
      status: "completed",
      output: "done",
    });
  });

  test("repeats: the same calls in a row halt the run before the last is made", async () => {
    const { hold } = on.start();
    let made = 0;
    const model = async () => asks(["look", { b: 1, a: 2 }]);
    const bot = hold.agent({
      name: "bot",
      model,
      limits: { repeats: 3 },
      tools: { look: { mode: "repeatable", run: () => ++made } },
    });
    const halted = await bot.run("a", "go");
    expect(halted).toMatchObject({
      status: "halted",
      reason: expect.stringMatching(/3 times.*look/),
    });
    expect(made).toBe(2);
    // A limit that is raised lets it go on with the call that was held back.
    expect(await bot.resume("a", { limits: { repeats: 5 } })).toMatchObject({
      status: "halted",
      reason: expect.stringContaining("5 times"),
    });
    expect(made).toBe(4);
  });

  test("the order of fields is no difference, another input or another tool is", async () => {
    const { hold } = on.start();
    const model = script(
      asks(["look", { a: 1, b: 2 }]),
      asks(["look", { b: 2, a: 1 }]),
      asks(["look", { a: 1, b: 3 }]),
      asks(["look", { a: 1, b: 2 }]),
      asks(["pay", { a: 1, b: 2 }]),
      asks(["look", { a: 1, b: 2 }]),
    );
    const bot = hold.agent({ name: "bot", model, limits: { repeats: 3 }, tools: { look, pay } });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test("cycles: A B A B A B is a circle too, and both are named", async () => {
    const { hold } = on.start();
    let n = 0;
    const model = async () => asks([n++ % 2 === 0 ? "look" : "pay", {}]);
    const bot = hold.agent({ name: "bot", model, limits: { repeats: 3 }, tools: { look, pay } });
    expect(await bot.run("a", "go")).toMatchObject({
      status: "halted",
      reason: expect.stringMatching(/look.*pay/),
    });
    expect(n).toBe(6);
  });

  test("a circle is seen across a kill", async () => {
    const first = on.start();
    const inside = door();
    let made = 0;
    const agentOf = (hold: Holdfast, stuckAt: number) =>
      hold.agent({
        name: "bot",
        model: async () => asks(["look", {}]),
        limits: { repeats: 4 },
        tools: {
          look: {
            mode: "repeatable",
            run: () => (++made === stuckAt ? (inside.open(), new Promise(() => {})) : "seen"),
          },
        },
      });
    void agentOf(first.hold, 3).run("a", "go");
    await inside.opened;
    first.kill();
    expect(await agentOf(on.start().hold, 0).run("a", "go")).toMatchObject({ status: "halted" });
    expect(made).toBe(4);
  });
});
