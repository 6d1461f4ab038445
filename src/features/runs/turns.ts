/**
 * How a turn begins, goes on, is left for another, and ends. Each of these stages what it changes
 * and commits it. Between beginning and end, the loop runs (loop.ts); run-turn.ts says which turn
 * of a session is run.
 */
import { valueDigest } from "../../core/effects/effect.js";
import type { MessageInput } from "../../core/messages/message.js";
import { isUnderWay, type StatusEvent } from "../../core/sessions/status.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import { doubtTurn } from "../../engine/calls/doubt-restored.js";
import { readInbox } from "../../engine/journal/read-inbox.js";
import { tellEvent } from "../../engine/journal/telemetry.js";
import { cancelSession } from "../../engine/lifecycle/deliver-inbox.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import { leaveInDoubt, restate } from "../../engine/session/settle-calls.js";
import type { Input } from "./define/agent-types.js";
import type { LoopEnd } from "./outcome.js";
import { checkpointAt, checkpointAtEnd } from "./place-checkpoints.js";
import { NOT_NOW } from "./plan-tool-calls.js";
import { type Prefix, prefixOf, storedPrefix } from "./prompt-prefix.js";
import { unanswered } from "./reply.js";
import type { RunContext } from "./run-context.js";
import { shapeState } from "./state.js";
import type { ToolCalls } from "./tool-calls.js";
import { type TurnInput, turnInputOf } from "./turn-input.js";

const INTERRUPTED = "Not made: another input came first.";

/** The turn to be begun: its name, a digest of its input, and the input. */
export interface NewTurn {
  readonly id: string;
  readonly key: string | undefined;
  readonly inputDigest: string;
  readonly message: MessageInput;
  /** Inbox messages that are taken in by it. */
  readonly drained: readonly string[];
  /** It waited when the store was copied, and may have been run since. */
  readonly isOfBefore?: boolean;
}

/** Begins a turn. Answers what the model is given before the transcript. */
export async function beginTurn(running: RunContext, turn: NewTurn): Promise<Prefix> {
  const { held, definition, session, context } = running;
  const { work } = held;
  const { id, key, inputDigest, message, drained, isOfBefore = false } = turn;
  // Before anything is staged: what is left of a turn that could not be begun would be taken for
  // one that was.
  await held.tryMessage(message);
  // One that is there already would be passed over, and the turn would have no input.
  if (message.id !== undefined && work.fold.messages.some((known) => known.id === message.id))
    throw new HoldfastError(
      "CONFLICT",
      `A message with id ${quote(message.id)} is in session ${quote(held.id)} already. Give the input another id.`,
      { sessionId: held.id },
    );
  shapeState(held, definition.state);
  const { prefix, encoded, digest } = await prefixOf(
    definition,
    { context, session },
    held.ctx.redactor,
  );
  const version = definition.version === undefined ? undefined : { version: definition.version };
  work.turn({ id, ...(key !== undefined && { key }), inputDigest, ...version });
  // Next to the input, which is the first message under it.
  if (work.fold.inFlight.prefix !== digest) work.prefix(encoded);
  work.append([message]);
  if (isOfBefore) doubtTurn(work, id);
  work.redue();
  await held.commitStep(checkpointAt(running, "step"), drained);
  running.events.messages();
  return prefix;
}

/**
 * Goes on with a turn that was begun before, by this process or another. Answers what the model is
 * given before the transcript.
 */
export async function resumeTurn({
  held,
  definition,
  session,
  context,
}: RunContext): Promise<Prefix> {
  const { work } = held;
  const { fold } = work;
  shapeState(held, definition.state);
  const { prefix: current, digest } = await prefixOf(
    definition,
    { context, session },
    held.ctx.redactor,
  );
  const pinned = fold.inFlight.prefix;
  const prefix =
    pinned === undefined || pinned === digest ? current : await storedPrefix(held.ctx, pinned);
  if (!isUnderWay(fold.status) || fold.isCancelling) work.event("work");
  restate(work);
  const isMarked = work.isSaved && fold.prior === fold.seq && work.latest?.kind === "recovery";
  if (definition.marksAny && !isMarked)
    await held.checkpoint({ kind: "recovery", step: fold.replies });
  else await held.commit();
  const turnId = fold.inFlight.turn?.id ?? "";
  tellEvent(held.ctx.telemetry, () => ({
    type: "resume",
    sessionId: held.id,
    agent: definition.name,
    turnId,
    step: fold.replies,
  }));
  return prefix;
}

/**
 * Leaves a turn that is over, for another: calls that it asked for and that were not made are
 * answered so. What is in doubt is asked about, and not made again. Staged, for the commit that
 * begins the other: after a kill, the next process finds the turn as over as it was. Answers why it
 * cannot be left yet.
 */
export async function leaveTurn(held: HeldSession, calls: ToolCalls): Promise<LoopEnd | undefined> {
  const { work } = held;
  const { fold } = work;
  const open = unanswered(fold);
  if (open === undefined) return undefined;
  const children: string[] = [];
  for (const { id, phase, waits } of fold.inFlight.ofReply(open.reply.seq).values()) {
    if (phase === "done" || phase === "doubt") continue;
    if (waits?.for === "child") children.push(waits.session);
    work.inFlight(
      { effect: { id, is: "done", outcome: "denied", by: "interrupt" } },
      encode(INTERRUPTED, "reason"),
    );
  }
  // What comes next may take its time, or is done elsewhere.
  if (fold.isCancelling || children.length > 0) await held.commit();
  // Nothing runs them any more: what they wait for is not to be asked about.
  for (const child of children) await cancelSession(held.ctx, child as SessionId, INTERRUPTED);
  const isOwn = open.reply.seq === fold.inFlight.ownReply;
  const settled = await calls.leave(open.reply, open.calls, isOwn ? INTERRUPTED : NOT_NOW);
  if (settled.all) return undefined;
  await held.commitSurely();
  if (settled.stopped) return { is: "stopped" };
  if (settled.pauseUntil !== undefined) return { is: "pause", until: settled.pauseUntil };
  const effectId = fold.inFlight.open.find(({ phase }) => phase === "doubt")?.id;
  throw new HoldfastError(
    "TURN_OPEN",
    `Session ${quote(held.id)} has a call of which nobody knows what became. Settle ${effectId ?? "it"} first.`,
    { sessionId: held.id, ...(effectId !== undefined && { effectId }) },
  );
}

/** Ends the turn: completed, failed, or halted with a reason. What is staged is saved with it. */
export async function endTurn(
  running: RunContext,
  event: StatusEvent,
  {
    reason,
    error,
    output,
  }: { readonly reason?: string; readonly error?: unknown; readonly output?: Json } = {},
): Promise<LoopEnd> {
  const { held, events } = running;
  held.work.event(event, reason, output);
  held.work.redue();
  await held.commitStep(checkpointAtEnd(running));
  events.messages();
  events.status();
  return { is: "ended", ...(error !== undefined && { error }) };
}

/** Ends the turn with a reason before the loop goes on with it; it can be resumed. */
export async function haltTurn(running: RunContext, reason: string): Promise<void> {
  const { work } = running.held;
  if (work.fold.status === "in-doubt") await stayInDoubt(running.held);
  else await endTurn(running, "halt", { reason });
}

/**
 * Fails the open turn, or the one that waits in the inbox and could not be begun: it is not tried
 * again and again.
 */
export async function failTurn(held: HeldSession, reason: string): Promise<void> {
  const { work, ctx } = held;
  // As it is stored: what was staged for the next turn says that something is under way.
  const wasOpen =
    work.fold.inFlight.turn !== undefined &&
    isUnderWay((await ctx.journal.present(held.id))?.head.status);
  const next = wasOpen
    ? undefined
    : (await readInbox(ctx, held.id)).find(({ doc }) => doc.kind === "turn");
  if (next?.doc.kind === "turn") {
    const { turn: id, key, input } = next.doc;
    // That it cannot be appended may be why it could not be begun. The turn is over without it.
    const asking = await fitting(held, input as unknown as Input);
    work.turn({
      id,
      ...(key !== undefined && { key }),
      inputDigest: asking?.inputDigest ?? valueDigest(input),
    });
    if (asking !== undefined) work.append([asking.message]);
    // On its own: a save that begins a turn does not say how one ended.
    await held.commit(undefined, [next.id]);
  }
  leaveInDoubt(work);
  // Once it is settled the turn is gone on with, and fails again if it must.
  if (work.fold.status === "in-doubt") return stayInDoubt(held);
  work.event("fail", reason);
  work.redue();
  await held.commit({ kind: "automatic" });
}

/** A call with an unknown outcome comes first: it must be settled before anything else. */
async function stayInDoubt(held: HeldSession): Promise<void> {
  held.work.due(undefined);
  await held.commit();
}

/** An input that can be appended; undefined for others. */
async function fitting(held: HeldSession, input: Input): Promise<TurnInput | undefined> {
  try {
    const asking = turnInputOf(input, undefined, held.ctx.redactor);
    await held.tryMessage(asking.message);
    return asking;
  } catch {
    return undefined;
  }
}
