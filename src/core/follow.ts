/**
 * Whether a save follows what came before it on its line: digests, numbers, pointers, and what its records say of themselves. Pure, and
 * the same for what leaves a store and for what comes in from one that nobody knows.
 */
import type { Mark } from "./checkpoint.js";
import { isCourseBase, isCourseRecord } from "./course-shape.js";
import { type Digest, isDigest } from "./digest.js";
import { HoldfastError } from "./errors.js";
import type { Base, JournalRecord } from "./record.js";
import { refsOf } from "./refs.js";
import { firstSeq, isGap, open, type Save } from "./save.js";
import { isStatus } from "./status.js";
import { isCount, isObject, isTime } from "./transfer.js";

/** Where a line stands, as far as what comes next depends on it. */
export interface LineEnd {
  readonly seq: number;
  /** What the next save's `prev` begins with: a whole digest, or, behind a gap, the beginning of one. */
  readonly follows: string;
  /** Where the next save may say that the newest checkpoint is. Undefined, like the two below, where it is not known. */
  readonly priors: readonly number[] | undefined;
  readonly base: number | undefined;
  readonly status: string | undefined;
}

export const rootEnd = (follows: Digest): LineEnd => ({ seq: 0, follows, priors: [0], base: 0, status: "in-progress" });

/** Where a line begins of whose origin only the number is known. */
export const unknownEnd = (seq: number, follows: Digest): LineEnd => ({
  seq,
  follows,
  priors: undefined,
  base: undefined,
  status: undefined,
});

/** Where a line begins that has its origin at this save, which has been verified. Sessions are put back to places without a checkpoint, too. */
export const originEnd = (save: Save, digest: Digest): LineEnd => ({
  seq: save.seq,
  follows: digest,
  priors: [save.nMark > 0 ? save.seq : save.prior],
  base: save.base,
  status: save.mark === null ? undefined : statusOf(save.mark),
});

export interface Followed {
  readonly end: LineEnd;
  /** The blobs its records refer to, each once. */
  readonly refs: readonly Digest[];
  /** The lines that its base names. That its line goes back to them is for the caller to see. */
  readonly lines: Base["lines"];
}

/** Verifies a save as the next one on its line. Whatever does not fit is CORRUPT. */
export function follow(before: LineEnd, save: Save): Followed {
  try {
    return next(before, save);
  } catch (error) {
    // Sealed text that is no JSON, or other JSON than a record: no runtime has written it.
    throw error instanceof HoldfastError ? error : unfit(save, "holds what cannot be read", error);
  }
}

function next(before: LineEnd, save: Save): Followed {
  if (firstSeq(save) !== before.seq + 1 || !save.prev.startsWith(before.follows))
    throw unfit(save, "does not follow the one before it: something in between is missing or was exchanged");
  const { seq, prior, base } = save;
  const gap = isGap(save);
  const newest = before.base ?? base;
  if ((!gap && before.priors?.includes(prior) === false) || (base !== newest && (gap ? base < newest : base !== seq)))
    throw unfit(save, "points to a place that is not the newest");
  // A gap says what the last save in it said: the newest checkpoint before what follows is one that went with it, or the one that said.
  if (gap) return { end: { ...before, seq, follows: save.check, priors: [prior, seq], base }, refs: [], lines: undefined };
  const { digest, items, state } = open(save, { items: save.items !== null, state: save.state !== null, mark: true });
  let { status } = before;
  let messages = 0;
  let hasBase = false;
  let lines: Base["lines"];
  const refs = new Set<Digest>();
  for (const record of [...items, ...state]) {
    if (!isRecord(record, save)) throw unfit(save, "holds a record that cannot be");
    status = record.status ?? record.base?.status ?? status;
    if (record.append !== undefined || record.item !== undefined) messages += 1;
    if (record.base !== undefined) {
      hasBase = true;
      lines = record.base.lines;
    }
    for (const name of refsOf(record)) refs.add(name);
  }
  if (save.nMessages > save.nItems || (save.items !== null && messages !== save.nMessages)) throw unfit(save, "miscounts its messages");
  if (save.state !== null && hasBase !== (base === seq)) throw unfit(save, "points to a base that is not there");
  if (save.mark !== null) status = statusOf(save.mark);
  return { end: { seq, follows: digest, priors: [save.nMark > 0 ? seq : prior], base, status }, refs: [...refs], lines };
}

function statusOf(mark: string): string {
  const { checkpoint } = JSON.parse(mark) as { checkpoint: Mark };
  const { step, messages, bytes, status = "in-progress", label, description, reason, metadata } = checkpoint;
  const isFit =
    [step, messages, bytes].every(isCount) &&
    isStatus(status) &&
    [label, description, reason].every((text) => text === undefined || typeof text === "string") &&
    (metadata === undefined || isObject(metadata));
  if (!isFit) throw new TypeError("no checkpoint");
  return status;
}

/** Whether the parts of a record that are known are what they must be, so that nobody who reads it later stumbles. */
function isRecord(record: JournalRecord, { at }: Save): boolean {
  if (!isObject(record)) return false;
  const { append, item, splice, items, status, reason, set, unset, list, base, blob, size, files, tokens, cost, ago } = record;
  const absentOr = (value: unknown, fits: boolean) => value === undefined || fits;
  return (
    absentOr(blob, isDigest(blob) && isCount(size)) &&
    [append, item].every((body) => absentOr(body, blob === undefined ? isMessage(body) : body === null)) &&
    absentOr(splice, isPair(splice)) &&
    absentOr(items, blob === undefined ? Array.isArray(items) : items === null) &&
    absentOr(status, isStatus(status)) &&
    [reason, set, unset, list].every((text) => absentOr(text, typeof text === "string")) &&
    absentOr(base, isBase(base)) &&
    absentOr(files, Array.isArray(files) && files.every(isDigest)) &&
    absentOr(tokens, isCount(tokens)) &&
    absentOr(cost, Array.isArray(cost) && cost.every(isCount)) &&
    isCourseRecord(record) &&
    absentOr(ago, isTime(ago) && isTime(at - (ago as number)))
  );
}

const isMessage = (body: unknown): boolean =>
  isObject(body) && typeof body["role"] === "string" && (typeof body["content"] === "string" || Array.isArray(body["content"]));

const isPair = (value: unknown): boolean => Array.isArray(value) && value.length === 2 && value.every(isCount);

const isStretch = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 3 && typeof value[0] === "string" && isCount(value[1]) && isCount(value[2]);

function isBase(base: unknown): boolean {
  if (!isObject(base) || !isStatus(base["status"])) return false;
  const { ranges, lines, state, course } = base;
  return (
    (course === undefined || isCourseBase(course)) &&
    Array.isArray(ranges) &&
    ranges.every(isPair) &&
    (lines === undefined || (Array.isArray(lines) && lines.every(isStretch))) &&
    Array.isArray(state) &&
    state.every(
      (entry) =>
        Array.isArray(entry) && typeof entry[0] === "string" && (entry[2] === undefined || (isDigest(entry[2]) && isCount(entry[3]))),
    )
  );
}

function unfit(save: Save, what: string, cause?: unknown): HoldfastError {
  return new HoldfastError("CORRUPT", `The save at ${save.line}-${save.seq} ${what}.`, { line: save.line, seq: save.seq }, cause);
}
