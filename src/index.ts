/** The public surface. */

export type { AgentEvent } from "./core/agent-event.js";
export type { Checkpoint, CheckpointKind, CheckpointOptions } from "./core/checkpoint.js";
export type { Diff } from "./core/diff.js";
export { type Mode, NotDone, type WaitsFor } from "./core/effect.js";
export { type ErrorCode, type ErrorDetails, errorTable, HoldfastError } from "./core/errors.js";
export type { Aside } from "./core/formats/aside.js";
export type { TranscriptMessage } from "./core/formats/plain.js";
export { type Format, fromFormat, type GivenTranscript, type Transcript, toFormat } from "./core/formats/transcript.js";
export type { CheckpointId, SessionId } from "./core/ids.js";
export type { Json, JsonObject, Storable } from "./core/json.js";
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
} from "./core/message.js";
export type { Delta, ModelReply, ModelRequest, ToolDescription } from "./core/model.js";
export type { RetentionPolicy, RetentionRules } from "./core/policy.js";
export type { Redact, RedactionPlace } from "./core/redact-text.js";
export type { RedactionName, Redactions } from "./core/redactions.js";
export type { SessionStatus } from "./core/status.js";
export type { Strategy } from "./core/strategy.js";
export { transcriptVersion } from "./core/transcript-change.js";
export type { LeftOut } from "./core/transfer.js";
export type { BackupReport, BackupRequest, Holdfast } from "./holdfast.js";
export { type OpenOptions, open, type Restored, restoreBackup } from "./open.js";
export type { HeldLease, StoreAbout } from "./runtime/about.js";
export type { Ask, BoundAgent, RunStream, Turn } from "./runtime/agent/bound.js";
export { agent, tool } from "./runtime/agent/define.js";
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
} from "./runtime/agent/definition.js";
export type { RunResult } from "./runtime/agent/result.js";
export type { AgentPage, Agents, AgentWithSessions, SnapshotPage } from "./runtime/agents/agents.js";
export type { AutoSnapshot, AutoSnapshotOptions } from "./runtime/agents/auto-snapshot.js";
export type { AgentInput, AgentRecord } from "./runtime/agents/record.js";
export type { RestoreOptions, RestoreReport, Restoring } from "./runtime/agents/restoring.js";
export type { Snapshot, SnapshotOptions } from "./runtime/agents/snapshot.js";
export type { AppendOptions, AppendResult } from "./runtime/append.js";
export type { CheckpointFilter, CheckpointListOptions, CheckpointPage } from "./runtime/checkpoint-lists.js";
export type { CheckpointState, Checkpoints, DeletedCheckpoint } from "./runtime/checkpoints.js";
export type { EffectOptions, ModelOptions } from "./runtime/effects/by-hand.js";
export type { Passed, Pending } from "./runtime/effects/pending.js";
export type { EffectFilter, Effects } from "./runtime/effects/people.js";
export type { EffectPolicy } from "./runtime/effects/repeats.js";
export type { CheckRequest, Retry, Settled } from "./runtime/effects/spec.js";
export type { EffectState, EventOptions, SessionEvent } from "./runtime/events.js";
export type { ExportFilter, ExportOptions, TransferProgress } from "./runtime/export.js";
export type { Clock } from "./runtime/ground.js";
export type { ExportedRows, ImportOptions, ImportReport } from "./runtime/import.js";
export type { RewindOptions, Rewound } from "./runtime/lines.js";
export type { KeyOption, Page } from "./runtime/options.js";
export type { RedactOptions } from "./runtime/redact/redact.js";
export type { RedactReport } from "./runtime/redact/report.js";
export type { RedactWhat } from "./runtime/redact/what.js";
export { type RedactionOptions, redactions } from "./runtime/redactions.js";
export type { Replaced, ReplaceOptions } from "./runtime/replace.js";
export type { GcOptions, GcReport } from "./runtime/retention/gc.js";
export type { Pruned, PruneOptions, PruneProgress } from "./runtime/retention/pruning.js";
export type { ApplyOptions, PolicyOptions, Retention } from "./runtime/retention/retention.js";
export type { PrunedSnapshots, SnapshotPruneOptions } from "./runtime/retention/snapshots.js";
export type { Sweep, SweepOptions } from "./runtime/retention/sweep.js";
export type { RetentionProgress, RetentionReport } from "./runtime/retention/tally.js";
export type { SessionUpdate } from "./runtime/rows.js";
export type { FoundItem, FoundMessage, FoundTitle, SearchFilter, SearchPage } from "./runtime/search/find.js";
export type { IndexOptions, IndexProgress } from "./runtime/search/search.js";
export type { ForkOptions, Session } from "./runtime/session.js";
export type { Deleted, DeleteOptions } from "./runtime/session-deleting.js";
export type { SessionOptions } from "./runtime/session-options.js";
export type { SessionFilter, SessionPage, SessionState, SessionSummary, Sessions, UpdateOptions } from "./runtime/sessions.js";
export type { OutsideOptions } from "./runtime/steering.js";
export type { Operation, Result, Telemetry, TelemetryEvent } from "./runtime/telemetry.js";
export type { TranscriptOptions } from "./runtime/transcripts.js";
export type { Finding, Verdict, VerifyOptions } from "./runtime/verify.js";
export type { Worker, WorkerOptions, WorkerStats } from "./runtime/worker.js";
export type { About, BackupProgress, Concern, Counts as Stats } from "./store/port.js";
export { type StoreTool, TOOL_NAMES, type ToolName, type ToolsFor, type ToolsOptions } from "./tools/tools.js";
