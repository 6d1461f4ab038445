/**
 * What a record may say. Every read asks whether its shape is right, so that no reader stumbles
 * over a record that was sealed by another hand. What comes in from outside, and `verify`, also ask
 * for the limits that hold for what a program gives.
 */

import {
  type Effect,
  type EffectEvent,
  isEffectId,
  isEffectKey,
  isInputDigest,
} from "../effects/effect.js";
import type { InFlightRecord, Turn } from "../effects/in-flight.js";
import { isInFlightBase, isInFlightField } from "../effects/in-flight-shape.js";
import { isStoredMessage } from "../messages/message.js";
import { isStatus } from "../sessions/status.js";
import { isDigest } from "../values/digest.js";
import { checkName } from "../values/ids.js";
import { invalidValue, isDeeper, MAX_DEPTH, TOO_DEEP } from "../values/json.js";
import { isCount, isObject, isTime } from "../values/shapes.js";
import { checkText, MAX_REASON } from "./checkpoint.js";
import type { JournalRecord } from "./record.js";

type Fields = Readonly<Record<string, unknown>>;
type Is = (value: unknown, record: Fields) => boolean;

const text: Is = (value) => typeof value === "string";
const any: Is = () => true;
const isPair: Is = (value) => Array.isArray(value) && value.length === 2 && value.every(isCount);
/** A body that is kept as a blob leaves null in its place. */
const body =
  (is: (value: unknown) => boolean): Is =>
  (value, { blob }) =>
    blob === undefined ? is(value) : value === null;
const counts: Is = (value) => Array.isArray(value) && value.every(isCount);

/**
 * All that a record has beside what it says of the in-flight work: a field that is forgotten here
 * would make sound journals unreadable.
 */
const FIELDS: { readonly [K in Exclude<keyof JournalRecord, keyof InFlightRecord>]-?: Is } = {
  append: body(isStoredMessage),
  item: (value, record) => body(isStoredMessage)(value, record) && record["splice"] !== undefined,
  splice: isPair,
  status: isStatus,
  reason: text,
  output: any,
  set: (value, record) =>
    text(value, record) &&
    (record["blob"] === undefined ? Object.hasOwn(record, "value") : record["value"] === null),
  value: any,
  unset: text,
  list: (value, { splice, items }) =>
    typeof value === "string" && splice !== undefined && items !== undefined,
  items: body(Array.isArray),
  base: (value) => isBase(value),
  body: any,
  blob: (value, { size }) => isDigest(value) && isCount(size),
  size: isCount,
  files: (value) => Array.isArray(value) && value.every(isDigest),
  cost: counts,
  ago: isTime,
};

/** Fields that only say more of what another field says. */
const COMPANIONS: ReadonlySet<string> = new Set([
  "item",
  "reason",
  "output",
  "value",
  "items",
  "body",
  "blob",
  "size",
  "files",
  "cost",
  "ago",
  "since",
]);

/** Whether a record has the shape that readers rely on. `at` is the time of its save. */
export function isRecord(record: unknown, at: number): record is JournalRecord {
  if (!isObject(record)) return false;
  for (const name of Object.keys(record)) {
    const is = Object.hasOwn(FIELDS, name) ? FIELDS[name as keyof typeof FIELDS] : undefined;
    if (!(is === undefined ? isInFlightField(name, record[name]) : is(record[name], record)))
      return false;
  }
  if (!Object.keys(record).some((name) => !COMPANIONS.has(name))) return false;
  const { signal, blob, ago } = record;
  if (signal !== undefined && blob === undefined && record["body"] === undefined) return false;
  return ago === undefined || isTime(at - (ago as number));
}

function isBase(base: unknown): boolean {
  if (!isObject(base) || !isStatus(base["status"])) return false;
  const { reason, step, cost, replies = 0, tasks = 0, ranges, branches, state, inFlight } = base;
  return (
    (reason === undefined || typeof reason === "string") &&
    [step, replies, tasks].every(isCount) &&
    counts(cost, base) &&
    (inFlight === undefined || isInFlightBase(inFlight)) &&
    Array.isArray(ranges) &&
    areApart(ranges) &&
    (branches === undefined || (Array.isArray(branches) && branches.every(isStretch))) &&
    Array.isArray(state) &&
    state.every(isEntry)
  );
}

/**
 * A live message is live once. Ranges that meet would let a small base name the same messages a
 * million times.
 */
function areApart(ranges: readonly unknown[]): boolean {
  if (!ranges.every((range) => isPair(range, {}))) return false;
  const sorted = (ranges as readonly (readonly [number, number])[]).toSorted(([a], [b]) => a - b);
  return sorted.every(
    ([from, to], i) => from >= 1 && from <= to && (sorted[i - 1]?.[1] ?? 0) < from,
  );
}

const isStretch = (value: unknown): boolean =>
  Array.isArray(value) &&
  value.length === 3 &&
  typeof value[0] === "string" &&
  isCount(value[1]) &&
  isCount(value[2]);

const isEntry = (entry: unknown): boolean =>
  Array.isArray(entry) &&
  typeof entry[0] === "string" &&
  (entry.length === 2 ||
    (entry.length === 4 && entry[1] === null && isDigest(entry[2]) && isCount(entry[3])));

// ---- limits

/**
 * Throws where a record of the right shape says what no program could have given: see `append`,
 * `set`, `status`.
 */
export function checkLimits(record: JournalRecord): void {
  for (const name of Object.keys(record) as (keyof JournalRecord)[]) LIMITS.get(name)?.(record);
}

const depth = (value: unknown): void => {
  if (isDeeper(value, MAX_DEPTH)) throw invalidValue("value", TOO_DEEP);
};

function key(name: string): void {
  if (checkName(name, "state key") === "messages")
    throw invalidValue("state.messages", "`messages` is the transcript");
}

/** What the runtime draws has a form of its own. As any text, a redaction would pass over it. */
function drawn(isDrawn: boolean, what: string): void {
  if (!isDrawn) throw invalidValue(what, "the runtime does not draw such values");
}

function checkTurn(turn: Turn | undefined): void {
  if (turn === undefined) return;
  checkName(turn.id, "turn");
  if (turn.key !== undefined) checkName(turn.key, "key");
  drawn(isInputDigest(turn.inputDigest), "turn.inputDigest");
}

function checkCall(call: Partial<Effect> | EffectEvent | undefined): void {
  if (call === undefined) return;
  const { id, key, inputDigest, waits, waited = [], from } = call as Partial<Effect>;
  drawn(id === undefined || isEffectId(id), "effect.id");
  drawn(key === undefined || isEffectKey(key), "effect.key");
  drawn(inputDigest === undefined || isInputDigest(inputDigest), "effect.inputDigest");
  drawn(from === undefined || isEffectId(from), "effect.from");
  for (const wait of [waits, ...waited])
    drawn(wait?.for !== "repeat" || isEffectId(wait.of), "effect.waits.of");
}

const LIMITS: ReadonlyMap<string, (record: JournalRecord) => void> = new Map<
  keyof JournalRecord,
  (record: JournalRecord) => void
>([
  ["append", ({ append }) => depth(append)],
  ["item", ({ item }) => depth(item)],
  ["value", ({ value }) => depth(value)],
  ["items", ({ items }) => depth(items)],
  ["output", ({ output }) => depth(output)],
  ["body", ({ body: carried }) => depth(carried)],
  ["reason", ({ reason }) => void checkText(reason, "reason", MAX_REASON)],
  ["set", ({ set }) => key(set as string)],
  ["unset", ({ unset }) => key(unset as string)],
  ["list", ({ list }) => key(list as string)],
  ["signal", ({ signal }) => void checkName(signal, "signal")],
  ["child", ({ child }) => void checkName(child, "session id")],
  ["turn", ({ turn }) => checkTurn(turn)],
  ["effect", ({ effect }) => checkCall(effect)],
  [
    "base",
    ({ base }) => {
      for (const [name] of base?.state ?? []) key(name);
      depth(base?.output);
      if (base?.reason !== undefined) checkText(base.reason, "reason", MAX_REASON);
      checkTurn(base?.inFlight?.turn);
      for (const effect of base?.inFlight?.effects ?? []) checkCall(effect);
    },
  ],
]);
