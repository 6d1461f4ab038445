/** The public surface. */
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
export type { SessionStatus } from "./core/status.js";
export type { Strategy } from "./core/strategy.js";
export type { LeftOut } from "./core/transfer.js";
export { type OpenOptions, open } from "./open.js";
export type { BoundAgent, RunStream, Turn } from "./runtime/agent/bound.js";
export { agent } from "./runtime/agent/define.js";
export {
  type Agent,
  type AgentDef,
  type Check,
  type Delta,
  type Input,
  type InputSchema,
  type Limits,
  type ModelReply,
  type ModelRequest,
  type RunOptions,
  type SessionView,
  type StateShape,
  type SubmitOptions,
  type Tool,
  type ToolContext,
  type ToolDescription,
  tool,
} from "./runtime/agent/definition.js";
export type { AgentEvent } from "./runtime/agent/events.js";
export type { RunResult } from "./runtime/agent/result.js";
export type { AppendOptions, AppendResult } from "./runtime/append.js";
export type { CheckpointState, Checkpoints } from "./runtime/checkpoints.js";
export type { EffectOptions } from "./runtime/effects/by-hand.js";
export type { Passed, Pending } from "./runtime/effects/pending.js";
export type { EffectFilter, Effects } from "./runtime/effects/people.js";
export type { EffectPolicy } from "./runtime/effects/repeats.js";
export type { CheckRequest, Retry, Settled } from "./runtime/effects/spec.js";
export type { EffectState, EventOptions, SessionEvent } from "./runtime/events.js";
export type { ExportFilter, ExportOptions, TransferProgress } from "./runtime/export.js";
export type { Clock } from "./runtime/ground.js";
export type { Holdfast } from "./runtime/holdfast.js";
export type { ExportedRows, ImportOptions, ImportReport } from "./runtime/import.js";
export type { SessionOptions } from "./runtime/opening.js";
export type { Page } from "./runtime/options.js";
export type { ForkOptions, Session } from "./runtime/session.js";
export type { SessionFilter, SessionPage, SessionSummary, Sessions, SessionUpdate } from "./runtime/sessions.js";
export type { Operation, Result, Telemetry, TelemetryEvent } from "./runtime/telemetry.js";
export type { TranscriptOptions } from "./runtime/transcripts.js";
export type { Finding, Verdict, VerifyOptions } from "./runtime/verify.js";
export type { Worker, WorkerOptions, WorkerStats } from "./runtime/worker.js";
export type { Counts as Stats } from "./store/port.js";
