/** The public surface. */

export type { Agents } from "./api/agents.js";
export type { CheckpointState, Checkpoints, DeletedCheckpoint } from "./api/checkpoints.js";
export type { Effects } from "./api/effects.js";
export type { ApplyOptions, PolicyOptions, Retention } from "./api/retention.js";
export type { SessionState, Sessions } from "./api/sessions.js";
export { type Mode, NotDone, type WaitsFor } from "./core/effects/effect.js";
export type { Checkpoint, CheckpointKind, CheckpointOptions } from "./core/journal/checkpoint.js";
export type { Diff } from "./core/journal/diff.js";
export { transcriptVersion } from "./core/journal/transcript-change.js";
export type { AgentEvent } from "./core/messages/agent-event.js";
export {
  type FileData,
  type FilePart,
  type Finish,
  type Message,
  type MessageInput,
  type OpaquePart,
  type Part,
  type Provider,
  partsOf,
  type ReasoningPart,
  type Reply,
  type Role,
  type TextPart,
  type ToolCallPart,
  type ToolResultPart,
  textOf,
  type Usage,
} from "./core/messages/message.js";
export type { Delta, ModelReply, ModelRequest, ToolDescription } from "./core/messages/model.js";
export type { Redact, RedactionPlace } from "./core/redaction/redact-text.js";
export type { RedactionName, Redactions } from "./core/redaction/redactions.js";
export type { RetentionPolicy, RetentionRules } from "./core/retention/policy.js";
export type { Strategy } from "./core/retention/strategy.js";
export type { SessionStatus } from "./core/sessions/status.js";
export type { LeftOut } from "./core/transfer/transfer.js";
export {
  type ErrorCode,
  type ErrorDetails,
  errorTable,
  HoldfastError,
} from "./core/values/errors.js";
export type { CheckpointId, SessionId } from "./core/values/ids.js";
export type { Json, JsonObject, Storable } from "./core/values/json.js";
export type { EffectOptions, ModelOptions } from "./engine/calls/by-hand.js";
export type { Passed, Pending } from "./engine/calls/pending.js";
export type { EffectPolicy } from "./engine/calls/repeats.js";
export type { CheckRequest, Retry, Settled } from "./engine/calls/spec.js";
export type {
  CheckpointFilter,
  CheckpointListOptions,
  CheckpointPage,
} from "./engine/journal/checkpoint-lists.js";
export type { Clock } from "./engine/journal/ground.js";
export type { Operation, Result, Telemetry, TelemetryEvent } from "./engine/journal/telemetry.js";
export type { RewindOptions, Rewound } from "./engine/lifecycle/lines.js";
export type { EffectFilter, EffectPage } from "./engine/lifecycle/list-effects.js";
export type { ForkOptions, Session } from "./engine/lifecycle/session.js";
export type { SessionOptions } from "./engine/lifecycle/session-options.js";
export type { SessionSummary } from "./engine/lifecycle/session-summary.js";
export type { OutsideOptions } from "./engine/lifecycle/steering.js";
export type { AgentInput, AgentRecord } from "./engine/records/agent-record.js";
export type { SessionUpdate } from "./engine/records/rows.js";
export type { Snapshot, SnapshotOptions } from "./engine/records/snapshot-record.js";
export type { KeyOption, Page } from "./engine/util/options.js";
export type { AppendOptions, AppendResult } from "./features/conversations/append.js";
export type { EventOptions, SessionEvent } from "./features/conversations/events.js";
export type { SessionFilter, SessionPage } from "./features/conversations/list-sessions.js";
export type { Replaced, ReplaceOptions } from "./features/conversations/replace.js";
export type { Deleted, DeleteOptions } from "./features/conversations/session-deleting.js";
export type { TranscriptOptions } from "./features/conversations/transcripts.js";
export type { UpdateOptions } from "./features/conversations/update-session.js";
export type { HeldLease, StoreAbout } from "./features/health/about.js";
export type { Finding, Verdict, VerifyOptions } from "./features/health/verify.js";
export type { RedactOptions } from "./features/redaction/redact.js";
export { type RedactionOptions, redactions } from "./features/redaction/redactions.js";
export type { RedactReport } from "./features/redaction/report.js";
export type { RedactWhat } from "./features/redaction/what.js";
export type { GcOptions, GcReport } from "./features/retention/gc.js";
export type { Pruned, PruneOptions, PruneProgress } from "./features/retention/pruning.js";
export type { Sweep, SweepOptions } from "./features/retention/sweep.js";
export type { RetentionProgress, RetentionReport } from "./features/retention/tally.js";
export type { Ask, BoundAgent, RunStream, Turn } from "./features/runs/bound.js";
export { agent, tool } from "./features/runs/define/define.js";
export type {
  Agent,
  AgentDef,
  Check,
  Input,
  InputMessage,
  InputPart,
  InputSchema,
  Limits,
  RunOptions,
  SessionView,
  StateShape,
  SubmitOptions,
  Tool,
  ToolContext,
} from "./features/runs/define/definition.js";
export type { RunResult } from "./features/runs/define/result.js";
export type { Worker, WorkerOptions, WorkerStats } from "./features/runs/workers/worker.js";
export type {
  FoundItem,
  FoundMessage,
  FoundTitle,
  SearchFilter,
  SearchPage,
} from "./features/search/find.js";
export type { IndexOptions, IndexProgress } from "./features/search/search.js";
export type { AutoSnapshot, AutoSnapshotOptions } from "./features/snapshots/auto-snapshot.js";
export type { AgentPage, AgentWithSessions } from "./features/snapshots/list-agents.js";
export type { SnapshotPage } from "./features/snapshots/list-snapshots.js";
export type {
  PrunedSnapshots,
  SnapshotPruneOptions,
} from "./features/snapshots/prune-snapshots.js";
export type {
  RestoreOptions,
  RestoreReport,
  Restoring,
} from "./features/snapshots/restore-report.js";
export type { ExportFilter, ExportOptions, TransferProgress } from "./features/transfer/export.js";
export type { ExportedRows, ImportOptions, ImportReport } from "./features/transfer/import.js";
export type { TranscriptMessage } from "./formats/plain.js";
export type { Remainder } from "./formats/remainder.js";
export {
  type Format,
  fromFormat,
  type GivenTranscript,
  type Transcript,
  toFormat,
} from "./formats/transcript.js";
export type { BackupReport, BackupRequest, Holdfast } from "./holdfast.js";
export { type OpenOptions, open, type Restored, restoreBackup } from "./open.js";
export type { BackupProgress } from "./store/port/copies.js";
export type { About, Concern, Counts as Stats } from "./store/port/info.js";
export {
  type StoreTool,
  TOOL_NAMES,
  type ToolName,
  type ToolsFor,
  type ToolsOptions,
} from "./tools/tools.js";
