/**
 * OpenTelemetry: spans and metrics by the GenAI conventions, through `@opentelemetry/api` alone.
 * What they go to is the program's own setup.
 *
 *   const hold = await open("agent.db", { telemetry: otel() });
 */
import { createRequire } from "node:module";
import type { Attributes, Histogram, Span } from "@opentelemetry/api";
import type { Message, MessageInput, Part, Usage } from "../core/messages/message.js";
import { partsOf } from "../core/messages/message.js";
import { flag, options } from "../core/values/check-options.js";
import { missingPackage } from "../core/values/errors.js";
import { checkName } from "../core/values/ids.js";
import type { Operation, Result, Telemetry, TelemetryEvent } from "../engine/journal/telemetry.js";
import { errorType, OTHER } from "./error-type.js";

/** What OpenTelemetry is told. */
export interface OtelOptions {
  /** Who answers model calls (`anthropic`, `openai`, …), where replies do not say so themselves. */
  readonly provider?: string;
  /**
   * Whether what was said goes along: system text, messages, inputs and outputs of calls, and the
   * messages of errors. Not unless this is true: then an error is known by its `error.type` alone.
   */
  readonly content?: boolean;
}

const NAME = "holdfast";

type Api = typeof import("@opentelemetry/api");

const require = createRequire(import.meta.url);

/** Load the package when `otel` is called: a failed static import could not be caught. */
function loadApi(): Api {
  try {
    return require("@opentelemetry/api") as Api;
  } catch (error) {
    throw missingPackage("holdfast/otel", "@opentelemetry/api", error);
  }
}

/**
 * Make telemetry that gives OpenTelemetry spans and metrics, by the GenAI conventions.
 *
 * @example
 * const hold = await open("agent.db", { telemetry: otel({ provider: "anthropic" }) });
 */
export function otel(given?: OtelOptions): Telemetry {
  const o = options(given, "otel", ["provider", "content"]);
  const provider = o.provider === undefined ? undefined : checkName(o.provider, "provider");
  const content = flag(o.content, "content") ?? false;
  const { context, metrics, SpanKind, SpanStatusCode, trace } = loadApi();
  const tracer = trace.getTracer(NAME);
  const meter = metrics.getMeter(NAME);
  const durations = meter.createHistogram("gen_ai.client.operation.duration", {
    unit: "s",
    description: "How long model calls, tool calls and runs took.",
  });
  const tokens = meter.createHistogram("gen_ai.client.token.usage", {
    unit: "{token}",
    description: "Tokens of model calls.",
  });
  const calls = meter.createCounter("holdfast.calls", {
    description: "Tool calls, by what became of them.",
  });
  const checkpoints = meter.createCounter("holdfast.checkpoints", {
    description: "Checkpoints, by kind.",
  });
  const resumes = meter.createCounter("holdfast.resumes", {
    description: "Turns that were gone on with.",
  });

  return {
    around(operation, go) {
      const attributes = attributesOf(operation, provider);
      const span = tracer.startSpan(spanName(operation), {
        kind: operation.type === "model" ? SpanKind.CLIENT : SpanKind.INTERNAL,
        attributes: content ? { ...attributes, ...inputOf(operation) } : attributes,
      });
      const began = performance.now();
      let failure: string | undefined;
      return context.with(trace.setSpan(context.active(), span), async () => {
        try {
          return await go((result) =>
            describe(span, result, tokens, attributes, content, SpanStatusCode.ERROR),
          );
        } catch (error) {
          failure = errorType(error);
          span.setAttribute("error.type", failure);
          if (content) span.recordException(error instanceof Error ? error : String(error));
          span.setStatus({
            code: SpanStatusCode.ERROR,
            ...(content && { message: error instanceof Error ? error.message : String(error) }),
          });
          throw error;
        } finally {
          const {
            "gen_ai.conversation.id": _id,
            "gen_ai.tool.call.id": _call,
            "holdfast.effect.id": _effect,
            ...few
          } = attributes;
          durations.record(
            (performance.now() - began) / 1_000,
            failure === undefined ? few : { ...few, "error.type": failure },
          );
          span.end();
        }
      });
    },
    event(event) {
      if (event.type === "call")
        calls.add(1, {
          "gen_ai.agent.name": event.agent,
          // A name that no tool has is something that the model said.
          "gen_ai.tool.name": event.known || content ? event.name : OTHER,
          "holdfast.call.state": event.state,
        });
      else if (event.type === "checkpoint")
        checkpoints.add(1, {
          "holdfast.checkpoint.kind": event.checkpoint.kind,
          ...agentOf(event),
        });
      else if (event.type === "resume") resumes.add(1, agentOf(event));
      note(trace.getActiveSpan(), event);
    },
  };
}

const agentOf = ({ agent }: { readonly agent: string | undefined }): Attributes =>
  agent === undefined ? {} : { "gen_ai.agent.name": agent };

/** Marks on the span that is open where something happens. */
function note(span: Span | undefined, event: TelemetryEvent): void {
  if (span === undefined) return;
  if (event.type === "checkpoint")
    span.addEvent("holdfast.checkpoint", {
      "holdfast.checkpoint.id": event.checkpoint.id,
      "holdfast.checkpoint.kind": event.checkpoint.kind,
    });
  if (event.type === "resume")
    span.addEvent("holdfast.resume", {
      "holdfast.turn.id": event.turnId,
      "holdfast.step": event.step,
    });
}

function spanName(operation: Operation): string {
  if (operation.type === "run") return `invoke_agent ${operation.agent}`;
  return operation.type === "model" ? `chat ${operation.agent}` : `execute_tool ${operation.name}`;
}

function attributesOf(operation: Operation, provider: string | undefined): Attributes {
  const about: Attributes = {
    "gen_ai.operation.name":
      operation.type === "run"
        ? "invoke_agent"
        : operation.type === "model"
          ? "chat"
          : "execute_tool",
    "gen_ai.agent.name": operation.agent,
    "gen_ai.conversation.id": operation.sessionId,
    ...(provider !== undefined &&
      operation.type !== "tool" && { "gen_ai.provider.name": provider }),
  };
  if (operation.type === "run" && operation.version !== undefined)
    about["gen_ai.agent.version"] = operation.version;
  if (operation.type === "tool") {
    about["gen_ai.tool.name"] = operation.name;
    about["gen_ai.tool.type"] = "function";
    about["gen_ai.tool.call.id"] = operation.callId;
    about["holdfast.effect.id"] = operation.effectId;
    about["holdfast.effect.mode"] = operation.mode;
    about["holdfast.effect.attempt"] = operation.attempt;
  }
  return about;
}

function inputOf(operation: Operation): Attributes {
  if (operation.type === "tool")
    return { "gen_ai.tool.call.arguments": JSON.stringify(operation.input) };
  if (operation.type !== "model") return {};
  return {
    "gen_ai.system_instructions": JSON.stringify([{ type: "text", content: operation.system }]),
    "gen_ai.input.messages": JSON.stringify(operation.messages.map(messageOf)),
    "gen_ai.tool.definitions": JSON.stringify(
      operation.tools.map(({ name, description, inputSchema }) => ({
        type: "function",
        name,
        description,
        parameters: inputSchema,
      })),
    ),
  };
}

function describe(
  span: Span,
  result: Result,
  tokens: Histogram,
  attributes: Attributes,
  content: boolean,
  failed: Api["SpanStatusCode"]["ERROR"],
): void {
  if ("status" in result) {
    span.setAttributes({ "holdfast.status": result.status, "holdfast.turn.id": result.turnId });
    if (result.status === "failed") span.setStatus({ code: failed });
    return;
  }
  if ("output" in result) {
    if (content)
      span.setAttribute("gen_ai.tool.call.result", JSON.stringify(result.output ?? null));
    return;
  }
  const { reply, provider } = result.reply;
  const who = Object.keys(provider ?? {})[0];
  span.setAttributes({
    ...(who !== undefined && { "gen_ai.provider.name": who }),
    ...(reply?.model !== undefined && { "gen_ai.response.model": reply.model }),
    ...(reply?.responseId !== undefined && { "gen_ai.response.id": reply.responseId }),
    ...(reply?.finish !== undefined && {
      "gen_ai.response.finish_reasons": [reply.rawFinish ?? reply.finish],
    }),
    ...usageOf(reply?.usage),
    ...(content && {
      "gen_ai.output.messages": JSON.stringify([
        { ...messageOf(result.reply), finish_reason: reply?.finish },
      ]),
    }),
  });
  const few = {
    "gen_ai.operation.name": "chat",
    ...agentOf({ agent: attributes["gen_ai.agent.name"] as string }),
    ...(reply?.model !== undefined && { "gen_ai.response.model": reply.model }),
  };
  for (const [type, count] of [
    ["input", reply?.usage?.inputTokens],
    ["output", reply?.usage?.outputTokens],
  ] as const)
    if (count !== undefined) tokens.record(count, { ...few, "gen_ai.token.type": type });
}

function usageOf(usage: Usage | undefined): Attributes {
  const { inputTokens, outputTokens, cacheReadTokens, cacheWriteTokens, reasoningTokens } =
    usage ?? {};
  return {
    ...(inputTokens !== undefined && { "gen_ai.usage.input_tokens": inputTokens }),
    ...(outputTokens !== undefined && { "gen_ai.usage.output_tokens": outputTokens }),
    ...(cacheReadTokens !== undefined && {
      "gen_ai.usage.cache_read.input_tokens": cacheReadTokens,
    }),
    ...(cacheWriteTokens !== undefined && {
      "gen_ai.usage.cache_creation.input_tokens": cacheWriteTokens,
    }),
    ...(reasoningTokens !== undefined && {
      "gen_ai.usage.reasoning.output_tokens": reasoningTokens,
    }),
  };
}

/** A message as the conventions have it. */
function messageOf(message: Message | MessageInput): {
  readonly role: string;
  readonly parts: readonly object[];
} {
  return { role: message.role, parts: partsOf(message).flatMap(partOf) };
}

function partOf(part: Part): readonly object[] {
  switch (part.type) {
    case "text":
      return [{ type: "text", content: part.text }];
    case "reasoning":
      return [{ type: "reasoning", content: part.text }];
    case "tool-call":
      return [{ type: "tool_call", id: part.callId, name: part.name, arguments: part.input }];
    case "tool-result":
      return [{ type: "tool_call_response", id: part.callId, response: part.output }];
    case "file":
      return "url" in part.data
        ? [
            {
              type: "uri",
              modality: part.mediaType.split("/")[0],
              mime_type: part.mediaType,
              uri: part.data.url,
            },
          ]
        : [];
    default:
      return [];
  }
}
