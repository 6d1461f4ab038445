/** Asks the model for a reply, and again where that failed. */
import { setTimeout as sleep } from "node:timers/promises";
import { keyAt, valueDigest } from "../../core/effects/effect.js";
import { content } from "../../core/journal/diff.js";
import { type EncodedMessage, encodeMessage, type Message } from "../../core/messages/message.js";
import type { Delta, ModelRequest } from "../../core/messages/model.js";
import { backoff } from "../../engine/calls/call-options.js";
import { observed } from "../../engine/journal/telemetry.js";
import { onAbort } from "../../engine/util/abort-signals.js";
import { readable } from "../../engine/util/thrown.js";
import { invalid } from "../../engine/util/validate.js";
import type { Prefix } from "./prompt-prefix.js";
import { backwards, messageOf } from "./reply.js";
import type { RunContext } from "./run-context.js";

/** Whether asking again can help: what a client did wrong stays wrong. */
function isWorthRepeating(error: unknown): boolean {
  const { isRetryable, status, statusCode } = (error ?? {}) as {
    isRetryable?: unknown;
    status?: unknown;
    statusCode?: unknown;
  };
  if (typeof isRetryable === "boolean") return isRetryable;
  const code = typeof status === "number" ? status : statusCode;
  return (
    typeof code !== "number" ||
    code < 400 ||
    code >= 500 ||
    code === 408 ||
    code === 409 ||
    code === 425 ||
    code === 429
  );
}

export async function callModel(
  running: RunContext,
  { system, tools }: Prefix,
  step: number,
): Promise<EncodedMessage> {
  const { held, ctx, definition, session, tell: show, stop } = running;
  const { fold } = held.work;
  // Both are made when they are looked at: a view of a long transcript costs more than all else
  // here.
  let key: string | undefined;
  let seen: readonly Message[] | undefined;
  const view = (): readonly Message[] => {
    seen ??=
      definition.view === undefined ? fold.messages : definition.view(fold.messages, { session });
    if (!Array.isArray(seen)) throw invalid("agent.view", "it must give a list of messages");
    return seen;
  };
  const { modelRetry } = definition;
  for (let tries = 1; ; tries++) {
    // What an attempt that was given up still says is not shown.
    let isOver = false;
    let shown = false;
    let isReply = true;
    const emit = (delta: Delta) => {
      if (isOver) return;
      shown = true;
      show(() => ({ type: "delta", step, delta }));
    };
    try {
      const { prefixSince } = fold.inFlight;
      const request: ModelRequest = {
        system,
        get messages() {
          return view();
        },
        tools,
        get key() {
          key ??= requestKey(running);
          return key;
        },
        signal: stop,
        prefixSince,
        emit,
      };
      return await observed(
        ctx.telemetry,
        () => ({
          type: "model",
          sessionId: held.id,
          agent: definition.name,
          step,
          system,
          get messages() {
            return view();
          },
          tools,
        }),
        async (tell) => {
          const given = await untilStopped(definition.model(request), stop);
          isReply = false;
          const message = messageOf(given);
          isReply = true;
          // What cannot be stored is a failure of the model's like others: it is asked again, and
          // then the turn says so.
          const said = encodeMessage(message, "reply");
          // Here, so that calls are made with what will be found in the transcript.
          const reply = ctx.redactor?.message(said, "reply") ?? said;
          tell({ reply: reply.value });
          return reply;
        },
      );
    } catch (thrown) {
      const error = readable(thrown);
      if (shown) show(() => ({ type: "discard", step }));
      // A reply of another shape is made by the author's code, which asking again does not change.
      if (stop.aborted || tries >= modelRetry.attempts || !isReply || !isWorthRepeating(error))
        throw error;
    } finally {
      isOver = true;
    }
    await sleep(backoff(modelRetry, tries), undefined, { signal: stop });
  }
}

/**
 * The same behind the same reply, with the same words since: what is asked again after a crash may
 * differ in what tools said. Not by the journal's end: taking a session up writes to it.
 */
function requestKey({ held: { branch, work } }: RunContext): string {
  const said: string[] = [];
  for (const message of backwards(work.fold)) {
    if (message.role === "assistant") return keyAt(branch, message.seq, ...said);
    said.push(valueDigest(content(message)));
  }
  return keyAt(branch, 0, ...said);
}

/** A model that does not listen to its signal is not waited for. */
async function untilStopped<T>(answer: Promise<T>, stop: AbortSignal): Promise<T> {
  // Nobody will hear what it still has to say, an error least of all.
  Promise.resolve(answer).catch(() => {});
  if (stop.aborted) throw stop.reason;
  let leave = () => {};
  const stopped = new Promise<never>((_resolve, reject) => {
    leave = onAbort(stop, () => reject(stop.reason as Error));
  });
  try {
    return await Promise.race([answer, stopped]);
  } finally {
    leave();
  }
}
