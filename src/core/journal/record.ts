/**
 * The text of one record in a journal. Fields are few and spelled out: `dir:` stores show them to
 * people.
 */
import type { InFlightBase, InFlightRecord } from "../effects/in-flight.js";
import type { Cost } from "../messages/usage.js";
import type { Digest } from "../values/digest.js";
import { type Json, jsonBytes } from "../values/json.js";

/** One record as parsed. Exactly one of the operations is present. */
export interface JournalRecord extends InFlightRecord {
  readonly append?: unknown;
  readonly splice?: readonly [start: number, remove: number];
  readonly item?: unknown;
  readonly status?: string;
  readonly reason?: string;
  readonly output?: Json;
  readonly set?: string;
  readonly value?: Json;
  readonly unset?: string;
  readonly list?: string;
  readonly items?: readonly Json[];
  readonly base?: Base;
  /** What a record of the in-flight work has to carry: an input, an output, a signal's value. */
  readonly body?: Json;
  /** The record's body is kept as a blob under this digest. */
  readonly blob?: Digest;
  readonly size?: number;
  /**
   * The files of a message that the store keeps. Said here, because what a tool answered may only
   * look like one.
   */
  readonly files?: readonly Digest[];
  /** What it cost, for the same reason. */
  readonly cost?: Cost;
  /** Milliseconds before the save's own time. */
  readonly ago?: number;
}

/** Whether a record of the state section changes a state key. Others speak of calls and turns. */
export const changesState = ({ set, unset, list }: JournalRecord): boolean =>
  set !== undefined || unset !== undefined || list !== undefined;

/**
 * What the fold knows at a place, apart from the transcript itself: bounds what a load has to read.
 */
export interface Base {
  readonly status: string;
  readonly reason?: string;
  readonly output?: Json;
  readonly step: number;
  /** Of all replies so far. */
  readonly cost: Cost;
  readonly replies?: number;
  readonly tasks?: number;
  readonly inFlight?: InFlightBase;
  /** The live messages, in their order, as ranges of record numbers. */
  readonly ranges: readonly (readonly [from: number, to: number])[];
  /**
   * Where messages stand that are on other branches than the base, oldest first. A load need not
   * look for these branches.
   */
  readonly branches?: readonly (readonly [branch: string, from: number, to: number])[];
  /** The state: values as they are, and big ones by their digest. */
  readonly state: readonly (
    | readonly [key: string, value: Json]
    | readonly [key: string, value: null, blob: Digest, size: number]
  )[];
}

/**
 * Bodies from this size on are kept as blobs under their digest: stored once, and read only while
 * they live.
 */
export const BLOB_FROM = 8 * 1024;

/** `{"append":…,"ago":…}`: fields are texts already encoded. */
export function record(fields: readonly (readonly [name: string, text: string])[]): string {
  let text = "{";
  for (const [name, value] of fields) text += `${text === "{" ? "" : ","}"${name}":${value}`;
  return `${text}}`;
}

/** The bytes of a record's body: its text without the frame that `record` put around it. */
export function bodyBytes(parsed: JournalRecord, textBytes: number): number {
  if (parsed.blob !== undefined) return parsed.size as number;
  const ago = parsed.ago === undefined ? 0 : ',"ago":'.length + digits(parsed.ago);
  const files = parsed.files === undefined ? 0 : ',"files":'.length + jsonBytes(parsed.files);
  if (parsed.append !== undefined) return textBytes - ago - files - '{"append":}'.length;
  if (parsed.set !== undefined)
    return textBytes - '{"set":,"value":}'.length - jsonBytes(parsed.set);
  if (parsed.splice === undefined) return 0;
  const place = digits(parsed.splice[0]) + digits(parsed.splice[1]);
  if (parsed.item !== undefined)
    return textBytes - ago - files - place - '{"splice":[,],"item":}'.length;
  if (parsed.list !== undefined)
    return textBytes - place - '{"list":,"splice":[,],"items":}'.length - jsonBytes(parsed.list);
  return 0;
}

const digits = (n: number): number => String(n).length;

export const SALT_CHARS = 16;
/** Sixteen characters of base64url. */
export const isSalt = (value: unknown): boolean =>
  typeof value === "string" && /^[A-Za-z0-9_-]{16}$/.test(value);
