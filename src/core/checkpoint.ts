/** A checkpoint: the record, as it is written and as callers see it. */
import type { Digest } from "./digest.js";
import { HoldfastError } from "./errors.js";
import { isoTime } from "./fold.js";
import { type CheckpointId, type LineId, placeId, type SessionId, typeName } from "./ids.js";
import { deepFreeze, encode, freeze, type JsonObject } from "./json.js";
import type { Save } from "./save.js";
import type { SessionStatus } from "./status.js";

export type CheckpointKind = "automatic" | "manual" | "pre-operation" | "recovery";
const KINDS: readonly unknown[] = ["automatic", "manual", "pre-operation", "recovery"] satisfies CheckpointKind[];

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

export const MAX_LABEL = 1_000;
export const MAX_DESCRIPTION = 100_000;
export const MAX_REASON = 100_000;
export const MAX_METADATA_BYTES = 1024 * 1024;

const none: JsonObject = Object.freeze({});

export function checkOptions(given: string | CheckpointOptions | undefined): CheckpointOptions {
  if (given === undefined) return {};
  if (typeof given === "string") return checkOptions({ label: given });
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw refuse("checkpoint", `it takes a label or options, not ${typeName(given)}`);
  const { label, description, kind, step, tokenCount, tasksCompleted, metadata, ...rest } = given;
  for (const key of Object.keys(rest)) throw refuse(`checkpoint.${key}`, "a checkpoint has no such option");
  if (label !== undefined) checkText(label, "checkpoint.label", MAX_LABEL);
  if (description !== undefined) checkText(description, "checkpoint.description", MAX_DESCRIPTION);
  if (kind !== undefined && !KINDS.includes(kind)) throw refuse("checkpoint.kind", `a kind is one of ${KINDS.join(", ")}`);
  for (const [name, value] of Object.entries({ step, tokenCount, tasksCompleted })) {
    if (value !== undefined && !(Number.isSafeInteger(value) && value >= 0))
      throw refuse(`checkpoint.${name}`, "it must be a whole number from 0 on");
  }
  return { ...given, ...(metadata === undefined ? {} : { metadata: checkMetadata(metadata, "checkpoint.metadata") }) };
}

export function checkMetadata(value: unknown, path: string): JsonObject {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw refuse(path, `metadata is an object, not ${typeName(value)}`);
  if (encode(value, path).bytes > MAX_METADATA_BYTES) {
    throw new HoldfastError("TOO_LARGE", `${path}: larger than ${MAX_METADATA_BYTES} bytes.`, { path, limit: MAX_METADATA_BYTES });
  }
  return freeze(value, path) as JsonObject;
}

export function checkText(value: unknown, path: string, limit: number): string {
  if (typeof value !== "string") throw refuse(path, `it must be text, not ${typeName(value)}`);
  if (value.length > limit) throw new HoldfastError("TOO_LARGE", `${path}: longer than ${limit} characters.`, { path, limit });
  if (!value.isWellFormed()) throw refuse(path, "the text holds half a character (a lone surrogate)");
  return value;
}

function refuse(path: string, why: string): HoldfastError {
  return new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, { path });
}

/** The checkpoint in a save that was verified, or undefined where the save has none, or none any more. */
export function checkpointOf(save: Save, digest: Digest, session: SessionId, lineOf: (seq: number) => LineId): Checkpoint | undefined {
  if (save.mark === null) return undefined;
  const {
    step,
    kind = "manual",
    label,
    description,
    status = "in-progress",
    reason,
    messages,
    bytes,
    tokens,
    tasks,
    metadata,
  } = (JSON.parse(save.mark) as { checkpoint: Mark }).checkpoint;
  return Object.freeze({
    id: placeId(save.line, save.seq),
    sessionId: session,
    seq: save.seq,
    step,
    kind,
    ...(label === undefined ? undefined : { label }),
    ...(description === undefined ? undefined : { description }),
    status,
    ...(reason === undefined ? undefined : { reason }),
    ...(save.prior === 0 ? undefined : { parentId: placeId(lineOf(save.prior), save.prior) }),
    createdAt: isoTime(save.at),
    messageCount: messages,
    sizeBytes: bytes,
    ...(tokens === undefined ? undefined : { tokenCount: tokens }),
    ...(tasks === undefined ? undefined : { tasksCompleted: tasks }),
    digest,
    metadata: metadata === undefined ? none : deepFreeze(metadata),
  });
}
