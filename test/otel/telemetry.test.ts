/**
 * What is told of runs: spans and metrics by the GenAI conventions, and events, none of which can
 * stop a run.
 */
import { context, metrics, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeEach, expect, test } from "vitest";
import { NotDone, open, type Telemetry, type TelemetryEvent } from "../../src/index.js";
import { otel } from "../../src/otel/index.js";
import { scriptedModel } from "../../src/testing/index.js";

const spans = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(
  new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }),
);
const counted = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({
  exporter: counted,
  exportIntervalMillis: 3_600_000,
});
const meters = new MeterProvider({ readers: [reader] });
metrics.setGlobalMeterProvider(meters);
beforeEach(() => spans.reset());
afterAll(async () => {
  await meters.shutdown();
  for (const api of [context, trace, metrics]) api.disable();
});

const SECRET = "the customer's secret";

async function run(telemetry: Telemetry | undefined) {
  await using hold = await open("memory:", telemetry === undefined ? {} : { telemetry });
  const agent = hold.agent({
    name: "support",
    version: "3",
    model: scriptedModel([
      {
        content: SECRET,
        toolCalls: [{ callId: "c1", name: "refund", input: { order: SECRET } }],
        usage: { inputTokens: 100, outputTokens: 20, cacheReadTokens: 60 },
        model: "clever-1",
        responseId: "r-1",
        provider: { anthropic: { signature: "x" } },
      },
      { content: "done", usage: { inputTokens: 120, outputTokens: 5 } },
    ]),
    tools: {
      refund: {
        mode: "keyed",
        run: () => {
          trace.getTracer("bank").startSpan("pay").end();
          return SECRET;
        },
      },
    },
  });
  return await agent.run("order-42", SECRET);
}

test("a run is a span, with its model calls and tool calls inside, by the GenAI names, and nothing of what was said", async () => {
  expect((await run(otel())).status).toBe("completed");
  const found = spans.getFinishedSpans();
  const named = (name: string) => found.filter((span) => span.name === name);
  const [whole] = named("invoke_agent support");
  const [first, second] = named("chat support");
  const [tool] = named("execute_tool refund");
  expect(found.map(({ name }) => name).sort()).toEqual([
    "chat support",
    "chat support",
    "execute_tool refund",
    "invoke_agent support",
    "pay",
  ]);
  expect(whole?.attributes).toMatchObject({
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": "support",
    "gen_ai.agent.version": "3",
    "gen_ai.conversation.id": "order-42",
    "holdfast.status": "completed",
  });
  expect(first?.attributes).toMatchObject({
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "anthropic",
    "gen_ai.response.model": "clever-1",
    "gen_ai.response.id": "r-1",
    "gen_ai.response.finish_reasons": ["tool-calls"],
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 60,
  });
  expect(second?.attributes["gen_ai.response.finish_reasons"]).toEqual(["stop"]);
  expect(tool?.attributes).toMatchObject({
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "refund",
    "gen_ai.tool.call.id": "c1",
    "gen_ai.tool.type": "function",
    "holdfast.effect.mode": "keyed",
    "holdfast.effect.attempt": 1,
  });
  for (const span of [first, second, tool])
    expect(span?.parentSpanContext?.spanId).toBe(whole?.spanContext().spanId);
  expect(named("pay")[0]?.parentSpanContext?.spanId).toBe(tool?.spanContext().spanId);
  expect(
    JSON.stringify(found.map(({ attributes, events }) => ({ attributes, events }))),
  ).not.toContain(SECRET);
  expect(whole?.events.map(({ name }) => name)).toContain("holdfast.checkpoint");
});

test("what was said goes along where that is asked for", async () => {
  await run(otel({ content: true, provider: "mine" }));
  const found = spans.getFinishedSpans();
  const chat = found.find(({ name }) => name === "chat support");
  const tool = found.find(({ name }) => name === "execute_tool refund");
  expect(JSON.parse(String(chat?.attributes["gen_ai.input.messages"]))).toEqual([
    { role: "user", parts: [{ type: "text", content: SECRET }] },
  ]);
  expect(JSON.parse(String(chat?.attributes["gen_ai.output.messages"]))[0].parts[1]).toEqual({
    type: "tool_call",
    id: "c1",
    name: "refund",
    arguments: { order: SECRET },
  });
  expect(tool?.attributes["gen_ai.tool.call.arguments"]).toBe(JSON.stringify({ order: SECRET }));
  expect(tool?.attributes["gen_ai.tool.call.result"]).toBe(JSON.stringify(SECRET));
});

test("durations, tokens, calls and checkpoints are counted", async () => {
  await run(otel());
  await reader.forceFlush();
  const found = counted
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics: of }) => of));
  const names = new Set(found.map(({ descriptor }) => descriptor.name));
  for (const name of [
    "gen_ai.client.operation.duration",
    "gen_ai.client.token.usage",
    "holdfast.calls",
    "holdfast.checkpoints",
  ])
    expect(names).toContain(name);
  const tokens = found.find(({ descriptor }) => descriptor.name === "gen_ai.client.token.usage");
  expect(tokens?.dataPoints.map(({ attributes }) => attributes["gen_ai.token.type"])).toContain(
    "output",
  );
});

test("events tell of every step, call, checkpoint and resume", async () => {
  const events: TelemetryEvent[] = [];
  const hold = await open("memory:", { telemetry: { event: (event) => events.push(event) } });
  let broken = true;
  const agent = hold.agent({
    name: "a",
    model: scriptedModel([
      { content: "", toolCalls: [{ callId: "c", name: "act", input: {} }] },
      "done",
    ]),
    modelRetry: { attempts: 1 },
    tools: {
      act: {
        mode: "keyed",
        retry: { attempts: 1 },
        run: () => {
          if (broken) throw new Error("the line is dead");
          return "ok";
        },
      },
    },
  });
  expect((await agent.run("s", "go")).status).toBe("in-doubt");
  broken = false;
  const [open1] = (await hold.effects.list({ status: "in-doubt" })).items;
  await hold.effects.settle(open1?.effectId ?? "", { retry: true });
  expect((await agent.run("s", "go")).status).toBe("completed");
  await hold.close();
  const told = events.map((event) =>
    event.type === "call"
      ? `call ${event.state}`
      : event.type === "checkpoint"
        ? `checkpoint ${event.checkpoint.kind}`
        : event.type,
  );
  expect(told).toEqual([
    "step",
    "call started",
    "call in-doubt",
    "checkpoint recovery",
    "resume",
    "call done",
    "checkpoint automatic",
    "checkpoint automatic",
    "step",
  ]);
});

test("a listener that fails, before, in or after the work, does not touch the run", async () => {
  const failing: readonly Telemetry[] = [
    {
      around: () => {
        throw new Error("before");
      },
      event: () => {
        throw new Error("event");
      },
    },
    {
      around: async (_operation, go) => {
        await go(() => {
          throw new Error("tell");
        });
        throw new Error("after");
      },
    },
  ];
  for (const telemetry of failing) expect((await run(telemetry)).status).toBe("completed");
});

test("what the work throws is not hidden by a listener", async () => {
  await using hold = await open("memory:", {
    telemetry: { around: (_operation, go) => go(() => {}) },
  });
  const agent = hold.agent({
    name: "a",
    model: async () => {
      throw new NotDone("no model");
    },
    modelRetry: { attempts: 1 },
  });
  const result = await agent.run("s", "go");
  expect(result).toMatchObject({
    status: "failed",
    error: { name: "NotDone", message: "no model" },
  });
});
