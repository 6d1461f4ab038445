/** A checkpoint: the record, as it is written and as callers see it. */
import { isStatus, type SessionStatus } from "../sessions/status.js";
import { readFields } from "../values/check-options.js";
import type { Digest } from "../values/digest.js";
import { HoldfastError, pathTo } from "../values/errors.js";
import {
  type BranchId,
  type CheckpointId,
  placeId,
  type SessionId,
  typeName,
} from "../values/ids.js";
import {
  deepFreeze,
  encode,
  holdsHalf,
  isList,
  type JsonObject,
  parseStored,
} from "../values/json.js";
import { fields, type Is, isCount, isObject, maybe, oneOf } from "../values/shapes.js";
import { isoTime } from "../values/time.js";
import { isSalt } from "./record.js";
import type { Save } from "./save.js";

/** How a checkpoint or a snapshot came about. */
export type CheckpointKind = "automatic" | "manual" | "pre-operation" | "recovery";
export const KINDS: readonly CheckpointKind[] = [
  "automatic",
  "manual",
  "pre-operation",
  "recovery",
];

/** A place in a session's history to come back to. */
export interface Checkpoint {
  readonly id: CheckpointId;
  readonly sessionId: SessionId;
  readonly seq: number;
  readonly step: number;
  readonly kind: CheckpointKind;
  readonly label?: string;
  readonly description?: string;
  readonly status: SessionStatus;
  readonly reason?: string;
  readonly parentId?: CheckpointId;
  readonly createdAt: string;
  readonly messageCount: number;
  readonly sizeBytes: number;
  readonly tokenCount?: number;
  readonly tasksCompleted?: number;
  readonly digest: Digest;
  readonly metadata: JsonObject;
}

/** What to say of a checkpoint. */
export interface CheckpointOptions {
  readonly label?: string;
  readonly description?: string;
  readonly kind?: CheckpointKind;
  /** One more than the last by default. */
  readonly step?: number;
  /** Tokens used so far. By default the sum over the replies' usage. */
  readonly tokenCount?: number;
  readonly tasksCompleted?: number;
  readonly metadata?: JsonObject;
}

/** The checkpoint as its record holds it; the rest follows from its place. */
export interface Mark {
  readonly step: number;
  /** manual where it is absent. */
  readonly kind?: CheckpointKind;
  readonly label?: string;
  readonly description?: string;
  /** in-progress where it is absent. */
  readonly status?: SessionStatus;
  readonly reason?: string;
  readonly messages: number;
  readonly bytes: number;
  readonly tokens?: number;
  readonly tasks?: number;
  readonly metadata?: JsonObject;
}

/**
 * The checkpoint's record. Where it holds words, it ends with a salt: they may be dropped one day,
 * and leave their digest.
 */
export function markText(mark: Mark, salt: () => string): string {
  const {
    step,
    messages,
    bytes,
    kind,
    status,
    tokens,
    tasks,
    label,
    description,
    reason,
    metadata,
  } = mark;
  let text = `{"checkpoint":{"step":${step},"messages":${messages},"bytes":${bytes}`;
  if (kind !== undefined) text += `,"kind":"${kind}"`;
  if (status !== undefined) text += `,"status":"${status}"`;
  if (tokens !== undefined) text += `,"tokens":${tokens}`;
  if (tasks !== undefined) text += `,"tasks":${tasks}`;
  if (
    label === undefined &&
    description === undefined &&
    reason === undefined &&
    metadata === undefined
  )
    return `${text}}}`;
  const words = JSON.stringify({ label, description, reason, metadata });
  return `${text},${words.slice(1)},"salt":"${salt()}"}`;
}

export const MAX_LABEL = 1_000;
export const MAX_DESCRIPTION = 100_000;
export const MAX_REASON = 100_000;
export const MAX_METADATA_BYTES = 1024 * 1024;

const none: JsonObject = Object.freeze({});

/** What a caller may say of a checkpoint. */
export const MARK_OPTIONS = [
  "label",
  "description",
  "kind",
  "step",
  "tokenCount",
  "tasksCompleted",
  "metadata",
] as const satisfies (keyof CheckpointOptions)[];

/**
 * Answers a copy, and checks the copy: a getter cannot show one value to the check and another to
 * the journal.
 */
export function checkOptions(given: string | CheckpointOptions | undefined): CheckpointOptions {
  if (given === undefined) return {};
  if (typeof given === "string") return { label: checkText(given, "checkpoint.label", MAX_LABEL) };
  const options = readOptions(given);
  const { label, description, kind, metadata } = options;
  if (label !== undefined) checkText(label, "checkpoint.label", MAX_LABEL);
  if (description !== undefined) checkText(description, "checkpoint.description", MAX_DESCRIPTION);
  if (kind !== undefined && !(KINDS as readonly unknown[]).includes(kind))
    throw refuse("checkpoint.kind", `a kind is one of ${KINDS.join(", ")}`);
  for (const name of ["step", "tokenCount", "tasksCompleted"] as const) {
    const value = options[name];
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) >= 0))
      throw refuse(`checkpoint.${name}`, "it must be a whole number from 0 on");
  }
  if (metadata !== undefined) options.metadata = checkMetadata(metadata, "checkpoint.metadata");
  return options as CheckpointOptions;
}

type Unchecked = { -readonly [K in keyof CheckpointOptions]?: unknown };

/** Each option that is given, read once. */
function readOptions(given: unknown): Unchecked {
  if (typeof given !== "object" || given === null || isList(given))
    throw refuse("checkpoint", `it takes a label or options, not ${typeName(given)}`);
  const { fields, unknown } = readFields(given, "checkpoint", MARK_OPTIONS);
  if (unknown !== undefined)
    throw refuse(pathTo("checkpoint", unknown), "a checkpoint has no such option");
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

export function checkMetadata(value: unknown, path: string): JsonObject {
  const { value: copy } = encode(value, path, MAX_METADATA_BYTES);
  if (typeof copy !== "object" || copy === null || Array.isArray(copy))
    throw refuse(path, `metadata is an object, not ${typeName(copy)}`);
  return copy as JsonObject;
}

export function checkText(value: unknown, path: string, limit: number): string {
  if (typeof value !== "string") throw refuse(path, `it must be text, not ${typeName(value)}`);
  if (value.length > limit)
    throw new HoldfastError("TOO_LARGE", `${path}: longer than ${limit} characters.`, {
      path,
      limit,
    });
  if (!value.isWellFormed())
    throw refuse(path, "the text holds half a character (a lone surrogate)");
  return value;
}

function refuse(path: string, why: string, cause?: unknown): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, { path }, cause);
}

/** What the text of a mark holds. */
interface MarkRecord {
  readonly checkpoint: Mark;
  /** Where the checkpoint holds words. */
  readonly salt?: string;
}

/** The checkpoint in the text of a mark. Another hand may have sealed it. */
export const markOf = (text: string): Mark => markRecordOf(text).checkpoint;

function markRecordOf(text: string): MarkRecord {
  const parsed = parseStored(text, damagedMark);
  if (!isMarkRecord(parsed)) throw damagedMark();
  return parsed as MarkRecord;
}

/**
 * Whether a mark is written as `markText` writes it. Words without a salt would stand in the chain,
 * and stay there when they are removed.
 */
export function isPlainMark(text: string): boolean {
  const { checkpoint, salt = "" } = markRecordOf(text);
  return markText(checkpoint, () => salt) === text && !holdsHalf(text);
}

/** Whether a text is what the chain holds of a checkpoint with no words. */
export function isWordless(text: string): boolean {
  try {
    return text.endsWith("}}") && isPlainMark(text);
  } catch {
    return false;
  }
}

const damagedMark = (cause?: unknown): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    "A checkpoint is sealed, and holds what no checkpoint does. Run verify to see where.",
    {},
    cause,
  );

const upTo =
  (most: number): Is =>
  (value) =>
    typeof value === "string" && value.length <= most;

const isMarkRecord = fields<MarkRecord>({
  checkpoint: fields<Mark>({
    step: isCount,
    messages: isCount,
    bytes: isCount,
    kind: maybe(oneOf(...KINDS)),
    status: maybe(isStatus),
    tokens: maybe(isCount),
    tasks: maybe(isCount),
    label: maybe(upTo(MAX_LABEL)),
    description: maybe(upTo(MAX_DESCRIPTION)),
    reason: maybe(upTo(MAX_REASON)),
    metadata: maybe(isObject),
  }),
  salt: maybe(isSalt),
});

type BranchOf = (seq: number) => BranchId;

/**
 * The checkpoint in a save that was verified, or undefined where the save has none, or none any
 * more.
 */
export function checkpointOf(
  save: Save,
  digest: Digest,
  session: SessionId,
  branchOf: BranchOf,
): Checkpoint | undefined {
  if (save.mark === null) return undefined;
  return checkpointFrom(markOf(save.mark), save, digest, session, branchOf);
}

/** The checkpoint that a mark makes at the place of its save. Takes over the mark's metadata. */
export function checkpointFrom(
  mark: Mark,
  save: Pick<Save, "branch" | "seq" | "at" | "prior">,
  digest: Digest,
  session: SessionId,
  branchOf: BranchOf,
): Checkpoint {
  const made: { -readonly [K in keyof Checkpoint]?: Checkpoint[K] } = {
    id: placeId(save.branch, save.seq),
    sessionId: session,
    seq: save.seq,
    step: mark.step,
    kind: mark.kind ?? "manual",
  };
  if (mark.label !== undefined) made.label = mark.label;
  if (mark.description !== undefined) made.description = mark.description;
  made.status = mark.status ?? "in-progress";
  if (mark.reason !== undefined) made.reason = mark.reason;
  if (save.prior !== 0) made.parentId = placeId(branchOf(save.prior), save.prior);
  made.createdAt = isoTime(save.at);
  made.messageCount = mark.messages;
  made.sizeBytes = mark.bytes;
  if (mark.tokens !== undefined) made.tokenCount = mark.tokens;
  if (mark.tasks !== undefined) made.tasksCompleted = mark.tasks;
  made.digest = digest;
  made.metadata = mark.metadata === undefined ? none : deepFreeze(mark.metadata);
  return Object.freeze(made as Checkpoint);
}
