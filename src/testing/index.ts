/** For those who test agents: a scripted model, a clock of their own, a crash at every point. For those who write a store: its contract. */
export type {
  Anchor,
  Applied,
  Change,
  ClaimQuery,
  Counts,
  Freed,
  Granting,
  Head,
  InboxQuery,
  Label,
  LeaseRow,
  LineQuery,
  LineRow,
  Mail,
  NewLine,
  NewSave,
  Posted,
  Present,
  Refusal,
  Replacement,
  SaveQuery,
  SessionQuery,
  SessionRow,
  Store,
  Traits,
  Witnesses,
} from "../store/port.js";
export type { ContractCase, StoreHarness } from "./contract/case.js";
export { storeContract } from "./contract/contract.js";
export { type CrashReport, type EveryCrash, everyCrash } from "./every-crash.js";
export { type ManualClock, manualClock } from "./manual-clock.js";
export { type ScriptedModel, type ScriptedReply, scriptedModel } from "./scripted-model.js";
