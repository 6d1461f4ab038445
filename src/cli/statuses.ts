/** The statuses a session can have, as words to choose from: the command line is to start without the library. */
import type { SessionStatus } from "../index.js";

const ALL: Readonly<Record<SessionStatus, true>> = {
  "in-progress": true,
  waiting: true,
  "in-doubt": true,
  completed: true,
  failed: true,
  halted: true,
  cancelled: true,
};

export const STATUSES: readonly string[] = Object.keys(ALL);
export const KINDS: readonly string[] = ["automatic", "manual", "pre-operation", "recovery"];
export const POLICIES: readonly string[] = ["ask", "replay", "live"];
