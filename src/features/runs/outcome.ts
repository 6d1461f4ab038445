/** The answer of a run, from where its session stands. */
import type { StateFold } from "../../core/journal/session-state.js";
import type { Message } from "../../core/messages/message.js";
import { words } from "../../engine/calls/execute-call.js";
import { pendingOf } from "../../engine/calls/pending.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import type { Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { outputOf } from "./output.js";
import { backwards } from "./reply.js";

/** How the loop ended, or why a turn cannot be left yet. */
export type LoopEnd =
  /** The session's status says how. */
  | { readonly is: "ended"; readonly error?: unknown }
  | { readonly is: "waiting" }
  /** Until then, by the store's clock, another process may be inside a call. */
  | { readonly is: "pause"; readonly until: number }
  | { readonly is: "stopped" };

export async function resultOf(
  held: HeldSession,
  definition: Definition,
  end: LoopEnd,
  replayed: boolean,
): Promise<RunResult> {
  const { fold, past } = held.work;
  const message = lastReply(fold);
  const about = {
    sessionId: held.id,
    turnId: fold.inFlight.turn?.id ?? "",
    usage: fold.usage,
    ...(message !== undefined && { message }),
  };
  if (end.is === "stopped") return { ...about, status: "stopped", reason: whyStopped(held) };
  switch (fold.status) {
    case "completed":
      return {
        ...about,
        status: "completed",
        output: await outputOf(definition, fold.output),
        replayed,
      };
    case "failed":
      return {
        ...about,
        status: "failed",
        error: errorOf(end.is === "ended" ? end.error : undefined, fold.reason),
      };
    case "halted":
      return { ...about, status: "halted", reason: fold.reason ?? "" };
    case "cancelled":
      return { ...about, status: "stopped", reason: "cancelled" };
    default: {
      const open = fold.inFlight.open.filter(
        ({ phase }) => phase === "waiting" || phase === "doubt",
      );
      const pending = await Promise.all(
        open.map((effect) => pendingOf(held.ctx, held.id, past, effect)),
      );
      return { ...about, status: fold.status === "in-doubt" ? "in-doubt" : "waiting", pending };
    }
  }
}

/** The agent's last message. */
export function lastReply(fold: StateFold): Message | undefined {
  for (const message of backwards(fold)) if (message.role === "assistant") return message;
  return undefined;
}

function whyStopped({ ended, work }: HeldSession): "aborted" | "cancelled" | "superseded" {
  // What a call answered after the cancel may have been staged, as work that is never saved.
  if (work.fold.status === "cancelled" || ended?.details.found === "cancelled") return "cancelled";
  return ended?.code === "STALE_LEASE" ? "superseded" : "aborted";
}

function errorOf(
  error: unknown,
  reason: string | undefined,
): { readonly name: string; readonly message: string; readonly code?: string } {
  const { name, code } = (error ?? {}) as { readonly name?: unknown; readonly code?: unknown };
  return {
    name: typeof name === "string" ? name : "Error",
    message: reason ?? words(error),
    ...(typeof code === "string" && { code }),
  };
}
