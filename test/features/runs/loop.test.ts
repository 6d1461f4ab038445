/** The agent loop, from its input to its answer. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AgentEvent, Message, ModelReply, Part, ToolResultPart } from "../../../src/index.js";
import { NotDone, partsOf } from "../../../src/index.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message))
    .map((part) => {
      const { callId, outcome, output } = part as ToolResultPart;
      return [callId, outcome, output] as const;
    });
const roles = (messages: readonly Message[]) => messages.map(({ role }) => role);

describe.each(stores)("the loop on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());
  const messagesOf = async (id: string) => {
    const session = await on.start().hold.session(id);
    await session.close();
    return session.messages;
  };

  test("a turn is completed with the model's last words; the same line again answers from the record", async () => {
    const model = script("Hello yourself.");
    const bot = on.start().hold.agent({ name: "bot", model });
    const done = await bot.run("a", "Hello.");
    expect(done).toMatchObject({
      status: "completed",
      output: "Hello yourself.",
      replayed: false,
      sessionId: "a",
    });
    expect(done.message).toMatchObject({ role: "assistant", content: "Hello yourself." });
    const again = await on.start().hold.agent({ name: "bot", model }).run("a", "Hello.");
    expect(again).toMatchObject({
      status: "completed",
      output: "Hello yourself.",
      replayed: true,
      turnId: done.turnId,
    });
    expect(model.requests).toHaveLength(1);
    expect(await on.start().hold.sessions.get("a")).toMatchObject({
      status: "completed",
      agent: "bot",
    });
  });

  test("another input begins another turn, and the first input after it a third", async () => {
    const model = script("one", "two", "three");
    const bot = on.start().hold.agent({ name: "bot", model });
    await bot.run("a", "first");
    await bot.run("a", "second");
    expect(await bot.run("a", "first")).toMatchObject({ output: "three", replayed: false });
    expect((await messagesOf("a")).map(({ content }) => content)).toEqual([
      "first",
      "one",
      "second",
      "two",
      "first",
      "three",
    ]);
  });

  test("the model is given the system text, the transcript and the tools", async () => {
    const model = script();
    const bot = on.start().hold.agent({
      name: "bot",
      system: async ({ session }) => `You are in ${session.id}.`,
      model,
      tools: {
        look: {
          mode: "repeatable",
          description: "Looks.",
          input: { type: "object", required: ["at"] },
          run: () => 1,
        },
      },
    });
    await bot.run("a", "Hello.");
    expect(model.requests[0]).toMatchObject({
      system: "You are in a.",
      messages: [{ role: "user", content: "Hello." }],
      tools: [
        { name: "look", description: "Looks.", inputSchema: { type: "object", required: ["at"] } },
      ],
    });
  });

  test("calls are made and answered in the order of the calls, whichever ends first", async () => {
    const slow = door();
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["slow", {}], ["quick", { n: 1 }], ["quick", { n: 2 }])),
      tools: {
        slow: { mode: "once", run: async () => (await slow.opened, "slow") },
        quick: {
          mode: "once",
          run: ({ n }) => {
            if (n === 2) slow.open();
            return { n };
          },
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    const messages = await messagesOf("a");
    expect(roles(messages)).toEqual(["user", "assistant", "tool", "tool", "tool", "assistant"]);
    expect(results(messages)).toEqual([
      ["slow-0", "ok", "slow"],
      ["quick-1", "ok", { n: 1 }],
      ["quick-2", "ok", { n: 2 }],
    ]);
  });

  test("siblings of a call that failed run to their end", async () => {
    const ended: string[] = [];
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["bad", {}], ["good", {}], ["worse", {}])),
      tools: {
        bad: { mode: "repeatable", run: () => Promise.reject(new Error("no such page")) },
        good: {
          mode: "once",
          run: async () => (
            await new Promise((resolve) => setTimeout(resolve, 20)), ended.push("good"), "fine"
          ),
        },
        worse: { mode: "once", run: () => Promise.reject(new NotDone("closed")) },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(ended).toEqual(["good"]);
    expect(results(await messagesOf("a"))).toEqual([
      ["bad-0", "error", "no such page"],
      ["good-1", "ok", "fine"],
      ["worse-2", "error", "closed"],
    ]);
  });

  test("an outcome is recorded as it comes: a kill while a sibling runs does not make it twice", async () => {
    const first = on.start();
    const inside = door();
    const made: string[] = [];
    const agentOf = (hold: typeof first.hold, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: script(asks(["pay", {}], ["stuck", {}], ["look", {}])),
        tools: {
          pay: { mode: "once", run: () => (made.push("pay"), "paid") },
          look: { mode: "repeatable", run: () => (made.push("look"), "seen") },
          stuck: {
            mode: "keyed",
            run: () => (inside.open(), stuck ? new Promise<string>(() => {}) : "unstuck"),
          },
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    await expect
      .poll(
        async () =>
          (await on.start().hold.checkpoints.list("a")).items.length + made.length + first.writes(),
      )
      .toBeGreaterThanOrEqual(6);
    first.kill();
    expect(await agentOf(on.start().hold, false).run("a", "go")).toMatchObject({
      status: "completed",
    });
    expect(made.filter((name) => name === "pay")).toHaveLength(1);
    expect(results(await messagesOf("a")).map(([, , output]) => output)).toEqual([
      "paid",
      "unstuck",
      "seen",
    ]);
  });

  test.each([
    ["length", "halted"],
    ["content-filter", "failed"],
    ["error", "failed"],
  ] as const)(
    "a reply that ended with %s is %s, and calls in it are never made",
    async (finish, status) => {
      let made = 0;
      const model = script({ ...asks(["pay", {}]), finish }, "Sorry.");
      const bot = on
        .start()
        .hold.agent({ name: "bot", model, tools: { pay: { mode: "once", run: () => ++made } } });
      expect(await bot.run("a", "go")).toMatchObject({ status });
      expect(made).toBe(0);
      expect(await bot.resume("a")).toMatchObject({ status: "completed", output: "Sorry." });
      expect(made).toBe(0);
      const messages = await messagesOf("a");
      expect(roles(messages)).toEqual(["user", "assistant", "tool", "assistant"]);
      expect(results(messages)).toMatchObject([["pay-0", "error", expect.any(String)]]);
    },
  );

  test("a reply that paused is gone on with", async () => {
    const model = script({ content: "Let me", finish: "pause" }, "think.");
    expect(await on.start().hold.agent({ name: "bot", model }).run("a", "go")).toMatchObject({
      status: "completed",
      output: "think.",
    });
    expect(model.requests[1]?.messages.at(-1)).toMatchObject({
      role: "assistant",
      content: "Let me",
    });
  });

  test("a tool that does not exist, and an input that is not JSON, are told to the model, and the run goes on", async () => {
    const model = script(
      asks(["nothing", {}], ["look", "{not json"], ["look", ""], ["look", '{"a":1}']),
    );
    const seen: unknown[] = [];
    const tools = {
      look: { mode: "repeatable", run: (input: unknown) => (seen.push(input), "seen") },
    } as const;
    expect(await on.start().hold.agent({ name: "bot", model, tools }).run("a", "go")).toMatchObject(
      { status: "completed" },
    );
    const told = results(await messagesOf("a"));
    expect(told).toEqual([
      ["nothing-0", "error", expect.stringContaining("look")],
      ["look-1", "error", expect.stringContaining("{not json")],
      ["look-2", "ok", "seen"],
      ["look-3", "ok", "seen"],
    ]);
    expect(seen).toEqual([{}, { a: 1 }]);
  });

  test("a call under a known name is answered from the first one; one with another input is told so and not made", async () => {
    const made: unknown[] = [];
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(
        asks(["refund", { order: 1, sum: 5 }]),
        asks(["refund", { sum: 5, order: 1 }]),
        asks(["refund", { order: 1, sum: 6 }]),
      ),
      tools: {
        refund: {
          mode: "keyed",
          key: ({ order }) => `refund:${order}`,
          run: (input) => (made.push(input), { no: made.length }),
        },
      },
    });
    await bot.run("a", "go");
    expect(made).toEqual([{ order: 1, sum: 5 }]);
    expect(results(await messagesOf("a"))).toEqual([
      ["refund-0", "ok", { no: 1 }],
      ["refund-0", "ok", { no: 1 }],
      ["refund-0", "error", expect.stringContaining("another input")],
    ]);
    // Also in a later turn.
    await bot.run("a", "once more");
    expect(made).toHaveLength(1);
  });

  test("two calls of one name in one reply are one call, and with another input the second is not made", async () => {
    const made: unknown[] = [];
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(
        asks(
          ["refund", { order: 1, sum: 5 }, "x"],
          ["refund", { order: 1, sum: 5 }, "y"],
          ["refund", { order: 1, sum: 6 }, "z"],
          ["refund", { order: 2, sum: 6 }, "w"],
        ),
      ),
      tools: {
        refund: {
          mode: "once",
          key: ({ order }) => `refund:${order}`,
          run: (input) => (made.push(input), input),
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual([
      { order: 1, sum: 5 },
      { order: 2, sum: 6 },
    ]);
    expect(results(await messagesOf("a"))).toEqual([
      ["x", "ok", { order: 1, sum: 5 }],
      ["y", "ok", { order: 1, sum: 5 }],
      ["z", "error", expect.stringContaining("another input")],
      ["w", "ok", { order: 2, sum: 6 }],
    ]);
  });

  test("two calls of one name in one reply are one call after a kill, too", async () => {
    const first = on.start();
    const inside = door();
    let made = 0;
    const agentOf = (hold: typeof first.hold, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: script(asks(["refund", { order: 1 }, "x"], ["refund", { order: 1 }, "y"])),
        tools: {
          refund: {
            mode: "keyed",
            key: ({ order }) => `refund:${order}`,
            run: () => {
              inside.open();
              return stuck ? new Promise<number>(() => {}) : ++made;
            },
          },
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    first.kill();
    expect(await agentOf(on.start().hold, false).run("a", "go")).toMatchObject({
      status: "completed",
    });
    expect(results(await messagesOf("a"))).toEqual([
      ["x", "ok", 1],
      ["y", "ok", 1],
    ]);
  });

  test("a call under a name that failed before is made anew", async () => {
    let made = 0;
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["refund", { sum: 1 }]), asks(["refund", { sum: 2 }])),
      tools: {
        refund: {
          mode: "once",
          key: () => "the refund",
          run: () => {
            made += 1;
            if (made === 1) throw new NotDone("too early");
            return "done";
          },
        },
      },
    });
    await bot.run("a", "go");
    expect(results(await messagesOf("a")).map(([, outcome]) => outcome)).toEqual(["error", "ok"]);
  });

  test("a key that a tool cannot give is told to the model", async () => {
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["refund", {}], ["pay", {}])),
      tools: {
        refund: { mode: "once", key: ({ order }) => order.id, run: () => expect.fail("made") },
        pay: { mode: "once", key: () => "", run: () => expect.fail("made") },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(results(await messagesOf("a")).map(([, outcome]) => outcome)).toEqual([
      "error",
      "error",
    ]);
  });

  test("parts, provider data and what a reply says of itself are kept verbatim, and given back to the model", async () => {
    const content: readonly Part[] = [
      { type: "reasoning", text: "hm", provider: { anthropic: { signature: "sig==" } } },
      { type: "text", text: "I look.", id: "t1" },
      {
        type: "tool-call",
        callId: "c1",
        name: "look",
        input: { q: 1 },
        provider: { openai: { itemId: "fc_1" } },
      },
      { type: "tool-call", callId: "c2", name: "web", input: { q: 2 }, by: "provider" },
      { type: "opaque", format: "x", value: [1, null] },
    ];
    const reply: ModelReply = {
      content,
      toolCalls: [{ callId: "c1", name: "look", input: { q: 1 } }],
      finish: "tool-calls",
      rawFinish: "tool_use",
      usage: { inputTokens: 3, outputTokens: 4, raw: { a: 1 } },
      provider: { openai: { id: "r" } },
      model: "m-1",
      responseId: "r-1",
    };
    const model = script(reply);
    const bot = on.start().hold.agent({
      name: "bot",
      model,
      tools: { look: { mode: "repeatable", run: () => "seen" } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    const kept = (await messagesOf("a"))[1];
    expect(kept).toMatchObject({
      role: "assistant",
      content,
      provider: { openai: { id: "r" } },
      reply: {
        finish: "tool-calls",
        rawFinish: "tool_use",
        model: "m-1",
        responseId: "r-1",
        usage: reply.usage,
      },
    });
    expect(kept?.content).toHaveLength(content.length);
    expect(model.requests[1]?.messages[1]).toEqual(kept);
  });

  test("inputs may be parts or a message", async () => {
    const model = script("one", "two");
    const bot = on.start().hold.agent({ name: "bot", model });
    await bot.run("a", [{ type: "text", text: "hello" }]);
    await bot.run("a", { role: "user", content: "again", name: "ana" });
    expect(await bot.run("a", { role: "user", content: "again", name: "ana" })).toMatchObject({
      replayed: true,
    });
    expect((await messagesOf("a")).filter(({ role }) => role === "user")).toMatchObject([
      { content: [{ type: "text", text: "hello" }] },
      { content: "again", name: "ana" },
    ]);
  });

  test("usage is summed, over the whole session", async () => {
    const usage = { inputTokens: 10, outputTokens: 2, cacheReadTokens: 1, reasoningTokens: 5 };
    const model = script(
      { ...asks(["look", {}]), usage },
      { content: "x", usage },
      { content: "y", usage: { inputTokens: 1 } },
    );
    const bot = on
      .start()
      .hold.agent({ name: "bot", model, tools: { look: { mode: "repeatable", run: () => 1 } } });
    expect((await bot.run("a", "go")).usage).toMatchObject({
      inputTokens: 20,
      outputTokens: 4,
      cacheReadTokens: 2,
      reasoningTokens: 10,
    });
    expect((await bot.run("a", "more")).usage).toMatchObject({ inputTokens: 21, outputTokens: 4 });
    expect((await bot.run("a", "more")).usage).toMatchObject({ inputTokens: 21, outputTokens: 4 });
  });

  test("a message is told once it is saved, and not where its save was the last of its process", async () => {
    const told = async (diesAt: number, done: boolean) => {
      const process = on.start({ diesAt: { write: diesAt, done } });
      const bot = process.hold.agent({
        name: "bot",
        model: script(asks(["act", {}]), "fine"),
        tools: { act: { mode: "keyed", run: () => "acted" } },
      });
      const roles: string[] = [];
      void (async () => {
        for await (const event of bot.stream(`s${diesAt}${done}`, "go"))
          if (event.type === "message") roles.push(event.message.role);
      })();
      await process.died;
      await new Promise((resolve) => setImmediate(resolve));
      return { told: roles.length, saved: (await messagesOf(`s${diesAt}${done}`)).length };
    };
    // Making the session, the input, the reply, the outcome, the end.
    for (const write of [2, 3, 4, 5]) {
      expect(await told(write, false)).toEqual({ told: write - 2, saved: write - 2 });
      expect(await told(write, true)).toEqual({ told: write - 2, saved: write - 1 });
    }
  });

  test("a model that fails is asked again, and what it had shown is taken back", async () => {
    let asked = 0;
    const bot = on.start().hold.agent({
      name: "bot",
      modelRetry: { attempts: 3, backoffMs: 1 },
      model: async ({ emit }) => {
        asked += 1;
        emit({ type: "text", id: "t", delta: `try ${asked}` });
        if (asked < 3) throw new Error("overloaded");
        return { content: `try ${asked}` };
      },
    });
    const events: AgentEvent[] = [];
    const stream = bot.stream("a", "go");
    for await (const event of stream) events.push(event);
    expect(
      events.map((event) => (event.type === "delta" ? event.delta.delta : event.type)),
    ).toEqual(["message", "try 1", "discard", "try 2", "discard", "try 3", "message", "status"]);
    expect(await stream.result()).toMatchObject({ status: "completed", output: "try 3" });
  });

  test("a model that keeps failing, or that was asked what it cannot do, fails the turn; resuming asks it again", async () => {
    let asked = 0;
    let broken = true;
    const bot = on.start().hold.agent({
      name: "bot",
      modelRetry: { attempts: 2, backoffMs: 1 },
      model: async () => {
        asked += 1;
        if (broken)
          throw Object.assign(new Error("bad request"), {
            name: "APIError",
            status: 400,
            code: "invalid",
          });
        return { content: "fine" };
      },
    });
    const failed = await bot.run("a", "go");
    expect(failed).toMatchObject({
      status: "failed",
      error: { name: "APIError", message: "bad request", code: "invalid" },
    });
    expect(asked).toBe(1);
    expect(await on.start().hold.sessions.get("a")).toMatchObject({
      status: "failed",
      reason: "bad request",
    });
    broken = false;
    expect(await bot.resume("a")).toMatchObject({ status: "completed", output: "fine" });
  });

  test("a reply that cannot be stored fails the turn, and says where it is wrong", async () => {
    const replies: unknown[] = [
      { content: [{ type: "text", text: 3 }] },
      { content: 7 },
      null,
      { content: "", toolCalls: [{ callId: 7, name: "look", input: {} }] },
      { content: "", toolCalls: [{ callId: "c", name: "look", input: { when: new Date() } }] },
      { content: "", toolCalls: "none" },
    ];
    for (const [i, reply] of replies.entries()) {
      const model = async () => reply as ModelReply;
      const bot = on.start().hold.agent({
        name: "bot",
        model,
        modelRetry: { attempts: 1 },
        tools: { look: { mode: "repeatable", run: () => 1 } },
      });
      const result = await bot.run(`s${i}`, "go");
      expect([i, result]).toMatchObject([
        i,
        { status: "failed", error: { message: expect.any(String) } },
      ]);
    }
  });

  test("the prefix is pinned while a turn lasts; the model learns from when on another counts", async () => {
    const first = on.start();
    const inside = door();
    const model = script(asks(["look", {}]), "one", "two");
    const agentOf = (hold: typeof first.hold, version: string, stuck: boolean) =>
      hold.agent({
        name: "bot",
        system: `You are ${version}.`,
        version,
        model,
        tools: {
          look: {
            mode: "repeatable",
            description: version,
            run: () => {
              inside.open();
              return stuck ? new Promise<number>(() => {}) : 1;
            },
          },
        },
      });
    void agentOf(first.hold, "old", true).run("a", "go");
    await inside.opened;
    first.kill();
    const bot = agentOf(on.start().hold, "new", false);
    await bot.run("a", "go");
    await bot.run("a", "more");
    expect(model.requests.map(({ system, tools }) => [system, tools[0]?.description])).toEqual([
      ["You are old.", "old"],
      ["You are old.", "old"],
      ["You are new.", "new"],
    ]);
    const [before, still, after] = model.requests;
    expect(still?.prefixSince).toBe(before?.prefixSince);
    const input = after?.messages.findLast(({ role }) => role === "user");
    expect(after?.prefixSince).toBe(input?.seq);
  });

  test("a view changes what the model sees, and nothing else", async () => {
    const model = script("one", "two");
    const bot = on
      .start()
      .hold.agent({ name: "bot", model, view: (messages) => messages.slice(-1) });
    await bot.run("a", "first");
    await bot.run("a", "second");
    expect(model.requests.map(({ messages }) => messages.map(({ content }) => content))).toEqual([
      ["first"],
      ["second"],
    ]);
    expect(await messagesOf("a")).toHaveLength(4);
  });

  test("toModel says what the model is told; the result itself is what a second call is answered from", async () => {
    const model = script(asks(["look", {}, "x"]), asks(["look", {}, "y"]));
    const bot = on.start().hold.agent({
      name: "bot",
      model,
      tools: {
        look: {
          mode: "once",
          key: () => "k",
          run: () => ({ pages: 3 }),
          toModel: ({ pages }) => `${pages} pages`,
        },
      },
    });
    await bot.run("a", "go");
    expect(results(await messagesOf("a"))).toEqual([
      ["x", "ok", "3 pages"],
      ["y", "ok", "3 pages"],
    ]);
  });

  test("a tool is given its key, its call, the session and the context, which is made for the run", async () => {
    const seen: unknown[] = [];
    let made = 0;
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["look", { a: 1 }, "call-1"])),
      context: async (session) => ({ db: `${session.id} ${++made}` }),
      tools: {
        look: {
          mode: "repeatable",
          run: (input, { key, callId, attempt, context, session, signal }) => {
            seen.push([
              input,
              typeof key,
              callId,
              attempt,
              context,
              session.messages.length,
              session.tags,
              signal.aborted,
            ]);
            return null;
          },
        },
      },
    });
    await bot.run("a", "go", { tags: ["vip"] });
    expect(seen).toEqual([[{ a: 1 }, "string", "call-1", 1, { db: "a 1" }, 2, ["vip"], false]]);
    await bot.run("b", "go", { context: { db: "given" } });
    expect(seen[1]).toMatchObject({ 4: { db: "given" } });
    expect(made).toBe(1);
  });

  test("a stream tells deltas, messages, calls, what tools show, and the status; each thing that is kept with a cursor", async () => {
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["look", {}], ["bad", {}]), "done"),
      tools: {
        look: { mode: "repeatable", run: (_input, { emit }) => (emit({ half: true }), 1) },
        bad: { mode: "once", run: () => Promise.reject(new NotDone("no")) },
      },
    });
    const events: AgentEvent[] = [];
    for await (const event of bot.stream("a", "go")) events.push(event);
    const short = events.map((event) =>
      event.type === "message"
        ? event.message.role
        : event.type === "tool"
          ? `${event.name} ${event.state}`
          : event.type,
    );
    expect(short.toSorted()).toEqual(
      [
        "user",
        "assistant",
        "look started",
        "bad started",
        "data",
        "look done",
        "bad error",
        "tool",
        "tool",
        "assistant",
        "status",
      ].toSorted(),
    );
    expect(events.at(-1)).toMatchObject({ type: "status", status: "completed" });
    for (const event of events)
      if (event.type !== "delta" && event.type !== "data" && event.type !== "discard")
        expect(event.cursor).toBeTruthy();
  });

  test("unknown options, agents without a model, and tools that contradict themselves are refused", async () => {
    const { hold } = on.start();
    const model = script();
    const tool = { mode: "repeatable", run: () => 1 } as const;
    for (const bad of [
      { name: "x" },
      { name: "", model },
      { name: "x", model, tool },
      { name: "x", model, tools: { t: { run: () => 1 } } },
      { name: "x", model, tools: { t: { mode: "once" } } },
      { name: "x", model, tools: { t: { ...tool, check: () => undefined } } },
      { name: "x", model, tools: { t: { ...tool, key: () => "k" } } },
      { name: "x", model, tools: { t: { ...tool, timeoutMs: 0 } } },
      { name: "x", model, tools: { t: { ...tool, retry: { attempts: 0 } } } },
      { name: "x", model, tools: { t: { ...tool, mode: "once", keyValidMs: 5 } } },
      { name: "x", model, limits: { steps: 0 } },
      { name: "x", model, limits: { repeats: 1 } },
      { name: "x", model, system: 7 },
      { name: "x", model, output: {} },
    ])
      expect(() => hold.agent(bad as never), JSON.stringify(bad)).toThrow(
        expect.objectContaining({ message: expect.any(String), name: "HoldfastError" }),
      );
    const bot = hold.agent({ name: "bot", model });
    await expect(bot.run("a", "go", { ifBusy: "maybe" } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(bot.run("a", "go", { nonsense: 1 } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(bot.resume("nobody")).rejects.toMatchObject(coded("NOT_FOUND"));
    await (await hold.session("by hand", { agent: "bot" })).close();
    await expect(bot.resume("by hand")).rejects.toMatchObject(coded("BAD_STATUS"));
    await (await hold.session("other", { agent: "else" })).close();
    await expect(bot.run("other", "go")).rejects.toMatchObject(coded("CONFLICT"));
  });
});
