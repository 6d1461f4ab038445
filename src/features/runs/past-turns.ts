/** Turns before the latest, found in the journal: which there were, and how they ended. */
import type { InFlight, Turn } from "../../core/effects/in-flight.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type BranchId, type SessionId } from "../../core/values/ids.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { growingRows } from "../../engine/journal/walk.js";
import type { Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { outputOf } from "./output.js";
import { isMeant, type TurnInput } from "./turn-input.js";

const FIRST_ROWS = 8;
const ROWS = 100;

/**
 * The answer of a turn before the latest, which is asked for again under its key; undefined where
 * there was none, or it is the latest.
 */
export async function earlierTurn(
  ctx: StoreContext,
  definition: Definition,
  {
    session,
    branch,
    inFlight,
  }: { readonly session: SessionId; readonly branch: BranchId; readonly inFlight: InFlight },
  asking: TurnInput | undefined,
): Promise<RunResult | undefined> {
  const { key } = asking ?? {};
  if (
    asking === undefined ||
    key === undefined ||
    inFlight.turn?.key === key ||
    !inFlight.hadTurn(key)
  )
    return undefined;
  const past = await pastTurn(ctx, branch, key);
  if (past === undefined) throw forgotten(session, key);
  if (!past.isOver || !isMeant(past.turn, asking, session)) return undefined;
  const { status = "", reason, output } = past.end ?? {};
  return endedAs(
    definition,
    { sessionId: session, turnId: key, usage: {} },
    status,
    reason,
    output,
  );
}

/** It was run, and must not be run again: but what became of it is not there any more. */
export const forgotten = (session: string, turn: string): HoldfastError =>
  new HoldfastError(
    "NOT_FOUND",
    `The turn ${quote(turn)} of session ${quote(session)} was run before, and its record has been pruned.`,
    {
      sessionId: session,
    },
  );

interface Past {
  readonly turn: Turn;
  /** Another was begun behind it. */
  readonly isOver: boolean;
  readonly end: JournalRecord | undefined;
}

/** A turn before the latest, and how it ended: the last status before the next turn began. */
export async function pastTurn(
  ctx: StoreContext,
  branch: BranchId,
  turnId: string,
): Promise<Past | undefined> {
  let last: JournalRecord | undefined;
  let isOver = false;
  let isKnown = true;
  const walk = { newestFirst: true, items: true, state: true, rows: growingRows(FIRST_ROWS, ROWS) };
  for await (const page of ctx.journal.saves.walk(ctx.journal.past(branch), walk)) {
    for (const { save, digest, items, state } of page) {
      // What begins a turn is in its state, and how it ended among its items: where one was
      // dropped, it cannot be told whose end it is.
      if (
        digest === undefined ||
        (save.nState > 0 && save.state === null) ||
        (save.nItems > 0 && save.items === null)
      ) {
        last = undefined;
        isKnown = false;
        continue;
      }
      const turn = state.find((record) => record.turn !== undefined)?.turn;
      const status = items.findLast(
        (record) => record.status !== undefined && record.status !== "in-progress",
      );
      // A save that begins a turn may hold the status that goes with it, and never the end of the
      // one before.
      if (turn?.id === turnId) return isKnown ? { turn, isOver, end: last } : undefined;
      if (turn !== undefined) {
        last = undefined;
        isOver = true;
        isKnown = true;
      } else last ??= status;
    }
  }
  return undefined;
}

/** How a turn that has ended is answered for. */
export async function endedAs(
  definition: Definition,
  about: {
    readonly sessionId: string;
    readonly turnId: string;
    readonly usage: RunResult["usage"];
  },
  status: string,
  reason: string | undefined,
  output: unknown,
): Promise<RunResult> {
  switch (status) {
    case "completed":
      return {
        ...about,
        status: "completed",
        output: await outputOf(definition, output),
        replayed: true,
      };
    case "failed":
      return { ...about, status: "failed", error: { name: "Error", message: reason ?? "" } };
    case "halted":
      return { ...about, status: "halted", reason: reason ?? "" };
    default:
      return { ...about, status: "stopped", reason: "cancelled" };
  }
}
