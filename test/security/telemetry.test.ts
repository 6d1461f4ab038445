/** What errors say leaves the process only with `content: true`. */
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
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { HoldfastError, NotDone, open } from "../../src/index.js";
import { errorType } from "../../src/otel/error-type.js";
import { otel } from "../../src/otel/index.js";

const spans = new InMemorySpanExporter();
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
trace.setGlobalTracerProvider(
  new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }),
);
const counted = new InMemoryMetricExporter(AggregationTemporality.DELTA);
const reader = new PeriodicExportingMetricReader({
  exporter: counted,
  exportIntervalMillis: 3_600_000,
});
const meters = new MeterProvider({ readers: [reader] });
metrics.setGlobalMeterProvider(meters);
beforeEach(async () => {
  await reader.forceFlush();
  counted.reset();
  spans.reset();
});
afterAll(async () => {
  await meters.shutdown();
  for (const api of [context, trace, metrics]) api.disable();
});

/** Shaped like a name, so that no check of the shape alone can let it pass. */
const SECRET = "sk_live_51KELP";

/** Errors that hold the secret where programs put it. */
const errors: Readonly<Record<string, () => unknown>> = {
  message: () => new Error(`refused: ${SECRET}`),
  cause: () => new Error("refused", { cause: new Error(SECRET, { cause: SECRET }) }),
  stack: () =>
    Object.assign(new Error("refused"), { stack: `Error: ${SECRET}\n    at pay (${SECRET}:1:1)` }),
  code: () => Object.assign(new Error("refused"), { code: SECRET }),
  name: () => Object.assign(new Error("refused"), { name: SECRET }),
  constructor: () => Object.assign(new Error("refused"), { constructor: { name: SECRET } }),
  "a NotDone": () => new NotDone(SECRET),
  "an AggregateError": () => new AggregateError([new Error(SECRET)], SECRET),
  "a DOMException": () => new DOMException(SECRET, SECRET),
  "a HoldfastError": () => new HoldfastError("NOT_FOUND", SECRET, { found: SECRET }),
  "a HoldfastError with another code": () =>
    Object.assign(new HoldfastError("NOT_FOUND", "no"), { code: SECRET }),
  "a text": () => SECRET,
  "an object": () => ({ name: SECRET, message: SECRET, code: SECRET }),
};

/**
 * One turn with a call that throws, and one in which the model does; and a call of a tool that is
 * none. Answers all that is exported.
 */
async function exported(content: boolean, thrown: () => unknown): Promise<string> {
  await using hold = await open("memory:", { telemetry: otel({ content }) });
  let asked = 0;
  const agent = hold.agent({
    name: "support",
    model: async () => {
      asked += 1;
      if (asked > 2) throw thrown();
      return {
        content: "",
        toolCalls: [{ callId: `c${asked}`, name: asked === 1 ? "pay" : SECRET, input: {} }],
      };
    },
    modelRetry: { attempts: 1 },
    tools: {
      pay: {
        mode: "repeatable",
        retry: { attempts: 1 },
        run: () => {
          throw thrown();
        },
      },
    },
  });
  expect((await agent.run("order-42", "go")).status).toBe("failed");
  await reader.forceFlush();
  return everything();
}

/** Spans and metrics with all their fields, also those that an exporter would not send. */
function everything(): string {
  const told = spans.getFinishedSpans().map(({ name, attributes, events, links, status }) => ({
    name,
    attributes,
    events,
    links,
    status,
  }));
  return JSON.stringify([told, counted.getMetrics().map(({ scopeMetrics }) => scopeMetrics)]);
}

describe("what tools and models throw", () => {
  test.each(Object.entries(errors))("%s is in no exported byte", async (_where, thrown) => {
    const told = await exported(false, thrown);
    expect(told).not.toContain(SECRET);
    expect(told).not.toMatch(/refused|exception/);
    const failed = spans
      .getFinishedSpans()
      .filter(({ attributes }) => attributes["error.type"] !== undefined);
    expect(failed.map(({ name }) => name)).toEqual(["execute_tool pay", "chat support"]);
    for (const { status } of failed) expect(status).toEqual({ code: 2 });
  });

  test.each(["message", "stack", "a NotDone", "a text"])(
    "control: with content, %s goes along",
    async (where) => {
      const told = await exported(true, errors[where] as () => unknown);
      expect(told.split(SECRET).length).toBeGreaterThan(2);
      expect(told).toContain("exception");
    },
  );

  test("control: a tool that the agent has is counted under its name, and another under none", async () => {
    const told = await exported(false, () => new Error("x"));
    expect(told).toContain('"gen_ai.tool.name":"pay"');
    expect(told).toContain('"gen_ai.tool.name":"_OTHER"');
  });
});

describe("error.type is a word of a closed list, or the name of a class", () => {
  class RateLimitError extends Error {}
  const long = { ["x".repeat(65)]: class extends Error {} }["x".repeat(65)] as new () => Error;
  const spaced = { "what she said": class extends Error {} }["what she said"] as new () => Error;
  const unreadable = new Proxy(new Error("x"), {
    get() {
      throw new Error(SECRET);
    },
  });
  test.each<[string, () => unknown]>([
    ["LEASE_HELD", () => new HoldfastError("LEASE_HELD", "x")],
    ["ECONNRESET", () => Object.assign(new Error("x"), { code: "ECONNRESET" })],
    ["TypeError", () => Object.assign(new TypeError("x"), { code: "toString" })],
    ["RateLimitError", () => new RateLimitError("x")],
    ["NotDone", () => new NotDone("x")],
    ["TimeoutError", () => new DOMException("x", "TimeoutError")],
    ["DOMException", () => new DOMException("x", "what she said")],
    ["_OTHER", () => new long()],
    ["_OTHER", () => new spaced()],
    ["_OTHER", () => unreadable],
    ["_OTHER", () => Object.setPrototypeOf(new Error("x"), null)],
    ["_OTHER", () => "x"],
    ["_OTHER", () => undefined],
  ])("%s (%#)", (type, thrown) => {
    expect(errorType(thrown())).toBe(type);
  });
});
