/**
 * What the compiler says of agents: this file is compiled with the tests, and a wrong use that is
 * accepted fails there.
 */
import { type } from "arktype";
import * as v from "valibot";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import {
  type Agent,
  type AgentEvent,
  agent,
  type BoundAgent,
  type Holdfast,
  type Json,
  type JsonObject,
  type MessageInput,
  type ModelReply,
  type Pending,
  type RunResult,
  type SessionView,
  type Tool,
  tool,
} from "../../../src/index.js";

/** Compiled, never called. */
declare const hold: Holdfast;
const model = async (): Promise<ModelReply> => ({ content: "done" });
const Order = z.object({ order: z.number(), note: z.string().optional() });
type Order = z.infer<typeof Order>;

const compiled = {
  inputsOfTools() {
    hold.agent({
      name: "x",
      model,
      tools: {
        zod: {
          mode: "keyed",
          input: Order,
          key: (input) => (expectTypeOf(input).toEqualTypeOf<Order>(), `refund:${input.order}`),
          approval: (input) => (expectTypeOf(input).toEqualTypeOf<Order>(), input.order > 3),
          run: (input) => expectTypeOf(input).toEqualTypeOf<Order>(),
        },
        arktype: {
          mode: "once",
          input: type({ to: "string", "cc?": "string[]" }),
          run: async (input) => {
            expectTypeOf(input).toEqualTypeOf<{ to: string; cc?: string[] }>();
            return { sent: input.to };
          },
          check: async ({ input, key, holder, startedAt }) => {
            expectTypeOf(input.to).toEqualTypeOf<string>();
            expectTypeOf([key, startedAt]).toEqualTypeOf<string[]>();
            expectTypeOf(holder).toEqualTypeOf<"dead" | "unknown">();
            return { retry: true };
          },
        },
        transformed: {
          mode: "repeatable",
          input: z.object({ n: z.coerce.number(), at: z.string().default("now") }),
          run: ({ n, at }) => expectTypeOf([n, at]).toEqualTypeOf<(string | number)[]>(),
        },
        parsed: {
          mode: "repeatable",
          input: {
            jsonSchema: { type: "object" },
            parse: (value: Json) => ({ when: new Date(String(value)) }),
          },
          run: ({ when }) => expectTypeOf(when).toEqualTypeOf<Date>(),
        },
        valibot: {
          mode: "repeatable",
          input: {
            jsonSchema: { type: "object" },
            parse: (value: Json) => v.parse(v.object({ q: v.string() }), value),
          },
          run: ({ q }) => expectTypeOf(q).toEqualTypeOf<string>(),
        },
        plain: {
          mode: "repeatable",
          input: { type: "object", properties: { q: { type: "string" } } },
          run: (input) => expectTypeOf(input).toBeAny(),
        },
        nothing: { mode: "repeatable", run: (input) => expectTypeOf(input).toBeAny() },
      },
    });
  },

  wrongTools() {
    hold.agent({
      name: "x",
      model,
      tools: {
        zod: {
          mode: "repeatable",
          input: Order,
          // @ts-expect-error no such argument
          run: ({ nothing }) => nothing,
        },
      },
    });
    // @ts-expect-error a mode must be said
    hold.agent({ name: "x", model, tools: { t: { run: () => 1 } } });
    // @ts-expect-error there is no such mode
    hold.agent({ name: "x", model, tools: { t: { mode: "twice", run: () => 1 } } });
    const checked = { mode: "repeatable", run: () => 1, check: async () => undefined } as const;
    // @ts-expect-error what is run again needs no check
    hold.agent({ name: "x", model, tools: { t: checked } });
    // @ts-expect-error a tool needs something to run
    hold.agent({ name: "x", model, tools: { t: { mode: "once" } } });
    // @ts-expect-error only a keyed call has it
    hold.agent({ name: "x", model, tools: { t: { mode: "once", keyValidMs: 5, run: () => 1 } } });
    // @ts-expect-error an agent needs a model
    hold.agent({ name: "x" });
    // @ts-expect-error a model answers with content
    hold.agent({ name: "x", model: async () => ({ text: "hello" }) });
    // @ts-expect-error a schema that cannot tell its JSON Schema
    tool({ mode: "repeatable", input: v.object({ q: v.string() }), run: () => 1 });
  },

  toolsOnTheirOwn() {
    const refund = tool({
      mode: "keyed",
      input: Order,
      run: async ({ order }) => ({ refunded: order }),
    });
    expectTypeOf(refund).toExtend<Tool<Order, { refunded: number }>>();
    hold.agent({ name: "x", model, tools: { refund } });
    const inferred = tool({
      mode: "once",
      input: Order,
      run: async ({ order }, { key }) => `${order.toFixed(2)} ${key.length}`,
    });
    hold.agent({ name: "x", model, context: () => ({ db: 1 }), tools: { inferred } });
  },

  contextStateAndOutput() {
    const bound = hold.agent({
      name: "x",
      model,
      state: {
        schema: z.object({ count: z.number(), phase: z.enum(["a", "b"]) }),
        version: 2,
        initial: { count: 0, phase: "a" },
      },
      // Before those who are given it: the compiler goes from top to bottom.
      context: async (session) => {
        expectTypeOf(session.id).toEqualTypeOf<string>();
        return { db: new Map<string, number>() };
      },
      system: ({ context, session }) => {
        expectTypeOf(context).toEqualTypeOf<{ db: Map<string, number> }>();
        expectTypeOf(session.state.count).toEqualTypeOf<number>();
        return "";
      },
      output: v.object({ total: v.number() }),
      tools: {
        count: {
          mode: "repeatable",
          run: (_input, ctx) => {
            expectTypeOf(ctx.context.db).toEqualTypeOf<Map<string, number>>();
            expectTypeOf(ctx.session.state.phase).toEqualTypeOf<"a" | "b">();
            ctx.set("count", 1);
            ctx.set("phase", "b");
            // @ts-expect-error not what the state holds
            ctx.set("count", "1");
            // @ts-expect-error no such key
            ctx.set("other", 1);
            // @ts-expect-error not JSON
            ctx.emit(new Date());
          },
        },
      },
    });
    expectTypeOf(bound).toExtend<
      BoundAgent<
        { db: Map<string, number> },
        { count: number; phase: "a" | "b" },
        { total: number }
      >
    >();
    void bound.run("a", "go", { context: { db: new Map() } }).then((result) => {
      if (result.status === "completed")
        expectTypeOf(result.output).toEqualTypeOf<{ total: number }>();
      // @ts-expect-error only a completed turn has an output
      void result.output;
      if (result.status === "waiting")
        expectTypeOf(result.pending).toEqualTypeOf<readonly Pending[]>();
      if (result.status === "stopped")
        expectTypeOf(result.reason).toEqualTypeOf<"aborted" | "cancelled" | "superseded">();
    });
    // @ts-expect-error not the context that its tools need
    void bound.run("a", "go", { context: { db: 1 } });
    const schema = z.object({ count: z.number() });
    // @ts-expect-error an initial state that does not have its shape
    hold.agent({ name: "x", model, state: { schema, initial: { count: "none" } } });
    hold.agent({
      name: "x",
      model,
      state: {
        schema: z.object({ count: z.number() }),
        version: 2,
        upgrade: (old, from) => {
          expectTypeOf(old).toEqualTypeOf<JsonObject>();
          expectTypeOf(from).toEqualTypeOf<number>();
          return { count: 1 };
        },
      },
    });
  },

  withoutSchemas() {
    const plain = hold.agent({ name: "x", model });
    void plain.run("a", "go").then((result) => {
      if (result.status === "completed") expectTypeOf(result.output).toEqualTypeOf<string>();
    });
  },

  inputs() {
    const plain = hold.agent({ name: "x", model });
    void plain.run("a", {
      role: "user",
      content: [{ type: "text", text: "hi" }],
      id: "m-1",
      metadata: { from: "web" },
    });
    void plain.submit("a", [
      { type: "file", mediaType: "image/png", data: { url: "https://example.com/a.png" } },
    ]);
    // @ts-expect-error an input comes from the user
    void plain.run("a", { role: "assistant", content: "hi" });
    // @ts-expect-error an input comes from the user
    plain.stream("a", { role: "system", content: "hi" });
    // @ts-expect-error an input holds no calls
    void plain.submit("a", [{ type: "tool-call", callId: "1", name: "refund", input: {} }]);
    // @ts-expect-error an input holds no results
    void plain.run("a", {
      role: "user",
      content: [{ type: "tool-result", callId: "1", outcome: "ok", output: 1 }],
    });
    // @ts-expect-error a message of any role is not an input
    void plain.run("a", {} as MessageInput);
  },

  definedAlone() {
    const alone = agent({
      name: "x",
      model,
      context: () => ({ n: 1 }),
      output: z.object({ ok: z.boolean() }),
      tools: {
        t: { mode: "once", input: Order, run: ({ order }, { context }) => order + context.n },
      },
    });
    expectTypeOf(alone).toExtend<Agent<{ n: number }, Record<string, Json>, { ok: boolean }>>();
    const bound = hold.bind(alone);
    expectTypeOf(bound.run("a", "go")).resolves.toExtend<RunResult<{ ok: boolean }>>();
    void hold.bind(bound);
    hold.worker({ agents: [bound], concurrency: 8 });
    // @ts-expect-error a worker runs agents that are bound
    hold.worker({ agents: [alone] });
  },

  children() {
    const child = agent({ name: "child", model, output: z.object({ n: z.number() }) });
    hold.agent({
      name: "parent",
      model,
      tools: {
        ask: {
          mode: "repeatable",
          run: async (_input, ctx) => {
            const result = await ctx.run(child, "count", { as: "counter" });
            if (result.status === "completed")
              expectTypeOf(result.output.n).toEqualTypeOf<number>();
            const answer = await ctx.wait("reply", {
              schema: z.object({ yes: z.boolean() }),
              timeoutMs: 10,
            });
            expectTypeOf(answer).toEqualTypeOf<{ yes: boolean } | undefined>();
            return answer?.yes ?? false;
          },
        },
      },
    });
  },

  effectsByHand() {
    void hold.session("a").then(async (session) => {
      const page = await session.effect(
        "search",
        { q: "kelp" },
        { mode: "repeatable" },
        async ({ q }, { key, signal }) => {
          expectTypeOf([q, key]).toEqualTypeOf<string[]>();
          expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
          return { text: q };
        },
      );
      expectTypeOf(page).toEqualTypeOf<{ text: string }>();
      // @ts-expect-error a call that acts needs a key
      await session.effect("pay", {}, { mode: "once" }, async () => 1);
      const checked = { mode: "repeatable", check: async () => undefined } as const;
      // @ts-expect-error what is run again needs no check
      await session.effect("pay", {}, checked, async () => 1);
      // @ts-expect-error an input is JSON
      await session.effect("pay", { when: new Date() }, { mode: "repeatable" }, async () => 1);
      // @ts-expect-error results are JSON
      await session.effect("pay", {}, { mode: "repeatable" }, async () => new Map());
      const reply = await session.model(async ({ messages }) => ({
        text: String(messages.length),
      }));
      expectTypeOf(reply).toEqualTypeOf<{ text: string }>();
      const { passed } = await session.rewind("x");
      expectTypeOf(passed[0]?.outcome).toEqualTypeOf<
        "ok" | "error" | "denied" | "unknown" | undefined
      >();
    });
  },

  people() {
    void hold.effects.settle("x", { output: { refunded: true }, by: "ana" });
    void hold.effects.settle("x", { error: "no" });
    void hold.effects.settle("x", { retry: true });
    // @ts-expect-error one of the three must be said
    void hold.effects.settle("x", { by: "ana" });
    // @ts-expect-error a denial has a reason
    void hold.effects.deny("x", { by: "ana" });
    // @ts-expect-error a list of what?
    void hold.effects.list({});
  },

  async whatTheFirstPageShows() {
    const yourModel = async (messages: SessionView<unknown>["messages"]): Promise<ModelReply> => ({
      content: String(messages.length),
    });
    const orders = new Map<number, string>();
    const payments = { refund: async (order: number, key: string) => ({ order, key }) };
    const mail = {
      send: async (to: string, text: string, key: string) => ({ to, text, key }),
      find: async (key: string) => (key === "" ? undefined : { to: "", text: "", key }),
    };
    const support = hold.agent({
      name: "support",
      system: "You help people with their orders.",
      model: async ({ system, messages, tools, key, signal, emit }) => {
        expectTypeOf([system, key]).toEqualTypeOf<string[]>();
        if (signal.aborted) emit({ type: "text", id: "t", delta: String(tools.length) });
        return yourModel(messages);
      },
      tools: {
        lookup: { mode: "repeatable", run: async ({ order }) => orders.get(order) },
        refund: {
          mode: "keyed",
          key: ({ order }) => `refund:${order}`,
          run: async ({ order }, { key }) => payments.refund(order, key),
        },
        email: {
          mode: "once",
          run: async ({ to, text }, { key }) => mail.send(to, text, key),
          check: async ({ key }) => {
            const sent = await mail.find(key);
            return sent ? { output: sent } : { retry: true };
          },
        },
      },
      checkpoint: "after-tool",
      limits: { steps: 100, repeats: 3 },
    });
    const done = await support.run("order-42", "Refund order 42, it arrived broken.");
    if (done.status === "completed") expectTypeOf(done.output).toEqualTypeOf<string>();
    for await (const event of support.stream("chat-1", "hello", { key: "msg-17" }))
      expectTypeOf(event).toEqualTypeOf<AgentEvent>();
    const turn = await support.submit("order-43", "Refund order 43");
    await turn.result({ timeoutMs: 60_000 });
    await turn.cancel("changed my mind");
    await support.resume("order-42");
    await hold.sessions.cancel("order-42", "stopped by the user");
    const worker = hold.worker({ agents: [support], concurrency: 8 });
    await worker.start();
    await worker.stop();
    await worker.drain({ maxMs: 50_000 });
    const { items, next } = await hold.effects.list({ status: "waiting" });
    expectTypeOf(next).toEqualTypeOf<string | undefined>();
    const id = items[0]?.effectId ?? "";
    await hold.effects.approve(id, { by: "ana" });
    await hold.effects.deny(id, { by: "ana", reason: "too much" });
    await hold.effects.settle(id, { output: { refunded: true }, by: "ana" });
    for (const checkpoint of [
      "after-model",
      "before-step",
      { everySteps: 5 },
      { everyMs: 300_000 },
      "never",
      () => true,
    ] as const)
      hold.agent({ name: "x", model, checkpoint });
  },
};

test("what is written above is refused or accepted by the compiler as it says", () => {
  for (const never of Object.values(compiled)) expect(never).toBeTypeOf("function");
});
