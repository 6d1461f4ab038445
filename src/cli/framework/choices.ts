/**
 * Words to choose from. They stand here as well, held to the library's types, because the command
 * line is to start without the library.
 */
import type { CheckpointKind, SessionStatus } from "../../index.js";
import type { EffectPolicy } from "./types.js";

const statuses: Readonly<Record<SessionStatus, true>> = {
  "in-progress": true,
  waiting: true,
  "in-doubt": true,
  completed: true,
  failed: true,
  halted: true,
  cancelled: true,
};
const kinds: Readonly<Record<CheckpointKind, true>> = {
  automatic: true,
  manual: true,
  "pre-operation": true,
  recovery: true,
};
const policies: Readonly<Record<EffectPolicy, true>> = { ask: true, replay: true, live: true };

export const STATUSES: readonly string[] = Object.keys(statuses);
export const KINDS: readonly string[] = Object.keys(kinds);
export const POLICIES: readonly string[] = Object.keys(policies);
