/**
 * For those who test agents: a scripted model, a clock of their own, a crash at every point. For
 * those who write a store: its contract.
 */

export type { ContractCase, StoreHarness } from "./contract/case.js";
export { contractFor, storeContract } from "./contract/contract.js";
export { type CrashReport, type EveryCrashOptions, everyCrash } from "./every-crash.js";
export { type ManualClock, manualClock } from "./manual-clock.js";
export { type ScriptedModel, type ScriptedReply, scriptedModel } from "./scripted-model.js";
