/** Asks the model for a reply, and again where that failed. */
import { setTimeout as sleep } from "node:timers/promises";
import { content } from "../../core/diff.js";
import { keyAt, sameOf } from "../../core/effect.js";
import type { Message, MessageInput } from "../../core/message.js";
import { backoff } from "../effects/spec.js";
import { invalid } from "../options.js";
import { observed } from "../telemetry.js";
import type { Delta } from "./definition.js";
import type { Prefix } from "./prefix.js";
import { messageOf } from "./reply.js";
import type { Running } from "./running.js";

/** Whether asking again can help: what a client did wrong stays wrong. */
function isWorthRepeating(error: unknown): boolean {
  const { isRetryable, status, statusCode } = (error ?? {}) as { isRetryable?: unknown; status?: unknown; statusCode?: unknown };
  if (typeof isRetryable === "boolean") return isRetryable;
  const code = typeof status === "number" ? status : statusCode;
  return typeof code !== "number" || code < 400 || code >= 500 || code === 408 || code === 409 || code === 425 || code === 429;
}

export async function ask(running: Running, { system, tools }: Prefix, step: number): Promise<MessageInput> {
  const { held, ground, definition, session, sink, stop } = running;
  const { messages, course } = held.work.fold;
  const seen = definition.view === undefined ? messages : definition.view(messages, { session });
  if (!Array.isArray(seen)) throw invalid("agent.view", "it must give a list of messages");
  const key = requestKey(running, messages);
  const { modelRetry } = definition;
  for (let tries = 1; ; tries++) {
    // What an attempt that was given up still says is not shown.
    let isOver = false;
    let shown = false;
    const emit = (delta: Delta) => {
      if (isOver) return;
      shown = true;
      sink({ type: "delta", step, delta });
    };
    try {
      const request = { system, messages: seen as readonly Message[], tools, key, signal: stop, prefixSince: course.prefixSince, emit };
      return await observed(
        ground.telemetry,
        () => ({ type: "model", sessionId: held.id, agent: definition.name, step, system, messages: request.messages, tools }),
        async (tell) => {
          const reply = messageOf(await untilStopped(definition.model(request), stop));
          tell({ reply });
          return reply;
        },
      );
    } catch (error) {
      if (shown) sink({ type: "discard", step });
      if (stop.aborted || tries >= modelRetry.attempts || !isWorthRepeating(error)) throw error;
    } finally {
      isOver = true;
    }
    await sleep(backoff(modelRetry, tries), undefined, { signal: stop });
  }
}

/** The same for the same place and the same words since the last reply: what is asked again after a crash may differ in what tools said. */
function requestKey({ held: { line, work } }: Running, messages: readonly Message[]): string {
  const since = messages.findLastIndex(({ role }) => role === "assistant");
  return keyAt(line, work.fold.seq, ...messages.slice(since + 1).map((message) => sameOf(content(message))));
}

/** A model that does not listen to its signal is not waited for. */
async function untilStopped<T>(answer: Promise<T>, stop: AbortSignal): Promise<T> {
  if (stop.aborted) throw stop.reason;
  let leave = () => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    const end = () => reject(stop.reason as Error);
    stop.addEventListener("abort", end, { once: true });
    leave = () => stop.removeEventListener("abort", end);
  });
  try {
    return await Promise.race([answer, stopped]);
  } finally {
    leave();
  }
}
