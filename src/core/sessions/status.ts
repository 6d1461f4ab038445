/**
 * The one table of what a session's status may become. In-doubt outranks waiting, which outranks
 * in-progress.
 */
import { HoldfastError } from "../values/errors.js";

/** Where a session's work stands. */
export type SessionStatus =
  | "in-progress"
  | "waiting"
  | "in-doubt"
  | "completed"
  | "failed"
  | "halted"
  | "cancelled";

/**
 * work: something new was staged. wait: a person or the outside must answer first. doubt: nobody
 * knows whether a call happened. settle: nothing is waited for or in doubt any more.
 */
export type StatusEvent =
  | "work"
  | "wait"
  | "doubt"
  | "settle"
  | "complete"
  | "fail"
  | "halt"
  | "cancel";

type Row = Readonly<Partial<Record<StatusEvent, SessionStatus>>>;

const atRest = (status: SessionStatus, again: StatusEvent): Row => ({
  work: "in-progress",
  settle: status,
  cancel: status,
  [again]: status,
});

export const statusTable: Readonly<Record<SessionStatus, Row>> = {
  "in-progress": {
    work: "in-progress",
    wait: "waiting",
    doubt: "in-doubt",
    settle: "in-progress",
    complete: "completed",
    fail: "failed",
    halt: "halted",
    cancel: "cancelled",
  },
  waiting: {
    work: "waiting",
    wait: "waiting",
    doubt: "in-doubt",
    settle: "in-progress",
    fail: "failed",
    halt: "halted",
    cancel: "cancelled",
  },
  // Cancelled, it stays in doubt until that is settled: what nobody knows of must not be out of
  // sight.
  "in-doubt": {
    work: "in-doubt",
    wait: "in-doubt",
    doubt: "in-doubt",
    settle: "in-progress",
    cancel: "in-doubt",
  },
  completed: atRest("completed", "complete"),
  failed: atRest("failed", "fail"),
  halted: atRest("halted", "halt"),
  cancelled: atRest("cancelled", "cancel"),
};

export function nextStatus(status: SessionStatus, event: StatusEvent): SessionStatus {
  const next = statusTable[status][event];
  if (next === undefined)
    throw new HoldfastError("BAD_STATUS", `The session is ${status}: it cannot ${event} now.`, {
      found: status,
    });
  return next;
}

export const isStatus = (value: unknown): value is SessionStatus =>
  typeof value === "string" && Object.hasOwn(statusTable, value);

/**
 * The status where another branch begins: it does not own the calls that the one before waits for.
 */
export const onNewBranch = (status: SessionStatus): SessionStatus =>
  isUnderWay(status) ? "in-progress" : status;

/** Whether something is still to be done, by the session itself or by somebody else. */
export const isUnderWay = (status: unknown): boolean =>
  status === "in-progress" || status === "waiting" || status === "in-doubt";

export const STATUSES = Object.keys(statusTable) as SessionStatus[];
