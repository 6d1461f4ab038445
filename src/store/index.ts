/**
 * For those who write a store: the port, and what its rules need. docs/store.md explains it, and
 * `holdfast/testing` has its contract.
 */
export type { Save } from "../core/journal/save.js";
export { firstSeq, isSame } from "../core/journal/save.js";
export type { Blob } from "../core/messages/message.js";
export type { Digest } from "../core/values/digest.js";
export { HoldfastError } from "../core/values/errors.js";
export type { BranchId, Place } from "../core/values/ids.js";
export { firstFrom } from "./beginnings.js";
export { CAPABILITIES, type Capability, intercepted } from "./capabilities.js";
export { MemoryStore } from "./memory.js";
export type { Applied, Change, NewSave, Refusal } from "./port/changes.js";
export { type ClaimQuery, type Granting, MAX_CANDIDATES, type StoreClaims } from "./port/claims.js";
export type {
  Backup,
  BackupOptions,
  BackupProgress,
  StoreCopies,
  TailAnchor,
  TailAnchors,
} from "./port/copies.js";
export {
  AGENT,
  type CaptureQuery,
  type Decision,
  type Doc,
  type DocChange,
  type DocQuery,
  type DocRow,
  PINS_NOTHING,
  type Pin,
  SNAPSHOT,
  type StoreDocuments,
  type WholeDoc,
} from "./port/documents.js";
export {
  drainedText,
  type InboxMessage,
  type InboxQuery,
  isDrained,
  isForNow,
  type Posted,
  type StoreInbox,
} from "./port/inbox.js";
export type { About, Concern, Counts, Info, Traits } from "./port/info.js";
export type { BranchQuery, NewestSessions, SaveQuery, SessionQuery } from "./port/queries.js";
export type {
  Freed,
  KnownNeeds,
  Replacement,
  Scrubbed,
  StoreReclaim,
  Swept,
} from "./port/reclaim.js";
export type {
  BranchRow,
  Head,
  Label,
  LeaseRow,
  NewBranch,
  Present,
  SessionFound,
  SessionRow,
} from "./port/rows.js";
export type { Capabilities, Store } from "./port.js";
export { storeClosed } from "./refusals.js";
export type { SearchIndex } from "./search-port.js";
