/**
 * For those who test agents: a scripted model, a clock of their own, a crash at every point. For
 * those who write a store: its contract.
 */

export type { Applied, Change, NewSave, Refusal } from "../store/port/changes.js";
export type { ClaimQuery, Granting } from "../store/port/claims.js";
export type { Anchor, Witnesses } from "../store/port/copies.js";
export type { InboxQuery, Mail, Posted } from "../store/port/inbox.js";
export type { Counts, Traits } from "../store/port/info.js";
export type { LineQuery, SaveQuery, SessionQuery } from "../store/port/queries.js";
export type { Freed, Replacement } from "../store/port/reclaim.js";
export type {
  Head,
  Label,
  LeaseRow,
  LineRow,
  NewLine,
  Present,
  SessionRow,
} from "../store/port/rows.js";
export type { Store } from "../store/port.js";
export type { ContractCase, StoreHarness } from "./contract/case.js";
export { storeContract } from "./contract/contract.js";
export { type CrashReport, type EveryCrashOptions, everyCrash } from "./every-crash.js";
export { type ManualClock, manualClock } from "./manual-clock.js";
export { type ScriptedModel, type ScriptedReply, scriptedModel } from "./scripted-model.js";
