/**
 * The public surface. Formats of providers are in `holdfast/formats`, tools that an agent keeps its
 * memory with in `holdfast/tools`. A type that is missing here belongs to one call:
 * `Awaited<ReturnType<Sessions["append"]>>`.
 */

export type { Agents } from "./api/agents.js";
export type { Checkpoints } from "./api/checkpoints.js";
export type { Effects } from "./api/effects.js";
export type { Retention } from "./api/retention.js";
export type { Sessions } from "./api/sessions.js";
export { type Mode, NotDone } from "./core/effects/effect.js";
export type { Checkpoint, CheckpointKind, CheckpointOptions } from "./core/journal/checkpoint.js";
export type { Diff } from "./core/journal/diff.js";
export { transcriptVersion } from "./core/journal/transcript-change.js";
export type { AgentEvent } from "./core/messages/agent-event.js";
export {
  type FilePart,
  type Message,
  type MessageInput,
  type OpaquePart,
  type Part,
  partsOf,
  type ReasoningPart,
  type TextPart,
  type ToolCallPart,
  type ToolResultPart,
  textOf,
  type Usage,
} from "./core/messages/message.js";
export type { Delta, ModelReply, ModelRequest, ToolDescription } from "./core/messages/model.js";
export type { Redact } from "./core/redaction/redact-text.js";
export type { RetentionPolicy } from "./core/retention/policy.js";
export type { Strategy } from "./core/retention/strategy.js";
export type { SessionStatus } from "./core/sessions/status.js";
export {
  type ErrorCode,
  errorTable,
  HoldfastError,
} from "./core/values/errors.js";
export type { CheckpointId, SessionId } from "./core/values/ids.js";
export type { Json, JsonObject, Storable } from "./core/values/json.js";
export type { Pending } from "./engine/calls/pending.js";
export type { EffectOptions } from "./engine/calls/session-effects.js";
export type { Clock } from "./engine/journal/store-context.js";
export type { Telemetry, TelemetryEvent } from "./engine/journal/telemetry.js";
export type { RewindReport } from "./engine/lifecycle/rewind.js";
export type { ForkOptions, Session } from "./engine/lifecycle/session.js";
export type { SessionOptions } from "./engine/lifecycle/session-options.js";
export type { SessionSummary } from "./engine/lifecycle/session-summary.js";
export type { AgentInput, AgentRecord } from "./engine/records/agent-record.js";
export type { SessionUpdate } from "./engine/records/rows.js";
export type { Snapshot, SnapshotOptions } from "./engine/records/snapshot-record.js";
export type { IntervalTask } from "./engine/util/interval-task.js";
export type { Page } from "./engine/util/validate.js";
export type { DeleteReport } from "./features/conversations/delete-session.js";
export type { SessionEvent } from "./features/conversations/events.js";
export type { SessionFilter } from "./features/conversations/list-sessions.js";
export type { StoreInfo } from "./features/health/store-info.js";
export type { VerifyReport } from "./features/health/verify.js";
export { type RedactionOptions, redactions } from "./features/redaction/redactions.js";
export type { RedactReport } from "./features/redaction/report.js";
export type { BoundAgent, RunStream, Turn } from "./features/runs/bound-agent.js";
export type {
  Agent,
  AgentDef,
  Check,
  Input,
  InputSchema,
  RunOptions,
  SessionView,
  SubmitOptions,
  Tool,
  ToolContext,
} from "./features/runs/define/agent-types.js";
export { agent, tool } from "./features/runs/define/compile-agent.js";
export type { RunResult } from "./features/runs/define/result.js";
export type { Worker, WorkerOptions } from "./features/runs/workers/worker.js";
export type { ImportReport } from "./features/transfer/import.js";
export type { Holdfast } from "./holdfast.js";
export { type OpenOptions, open, restoreBackup } from "./open.js";
