/**
 * Ids, branded so that one cannot stand where another is meant.
 *
 * A place is a branch and a number on it. The id of a checkpoint, and of a message that was given
 * none, is its place: `<branch>-<number>`. Branch ids are random and never used again, so a place
 * names the same record in every store.
 */
import { digest } from "./digest.js";
import { HoldfastError, quote } from "./errors.js";
import { fields, type Is, isCount } from "./shapes.js";

declare const brand: unique symbol;
type Branded<B extends string> = string & { readonly [brand]: B };

/** The id of a session. */
export type SessionId = Branded<"session">;
/** The id of a branch. */
export type BranchId = Branded<"branch">;
/** The id of a checkpoint: the id of its branch, a hyphen and a number. */
export type CheckpointId = Branded<"checkpoint">;

/** A branch and the number of a record on it. */
export interface Place {
  readonly branch: BranchId;
  readonly seq: number;
}

export const MAX_ID_BYTES = 200;
/** The most records on one branch. */
export const MAX_SEQ = 2 ** 32 - 1;

const CONTROL = /\p{Cc}/u;

/**
 * The rule for every name a caller gives: 1 to 200 bytes of well-formed text without control
 * characters.
 */
export function checkName(value: unknown, what: string): string {
  if (typeof value !== "string")
    throw new HoldfastError("INVALID_ID", `${what} must be a string, not ${typeName(value)}.`, {
      path: what,
    });
  if (value.length === 0)
    throw new HoldfastError("INVALID_ID", `${what} is empty.`, { path: what });
  // One UTF-16 unit takes one to three bytes: only in between does a text have to be measured.
  if (
    value.length > MAX_ID_BYTES ||
    (value.length * 3 > MAX_ID_BYTES && Buffer.byteLength(value) > MAX_ID_BYTES)
  ) {
    throw new HoldfastError("INVALID_ID", `${what} is longer than ${MAX_ID_BYTES} bytes.`, {
      path: what,
      limit: MAX_ID_BYTES,
    });
  }
  if (!value.isWellFormed())
    throw new HoldfastError("INVALID_ID", `${what} holds half a character (a lone surrogate).`, {
      path: what,
    });
  if (CONTROL.test(value))
    throw new HoldfastError("INVALID_ID", `${what} ${quote(value)} holds a control character.`, {
      path: what,
    });
  return value;
}

export const sessionId = (value: unknown): SessionId => checkName(value, "session id") as SessionId;

const PLACE = /^([0-9a-hjkmnp-tv-z]{16})-([1-9][0-9]{0,9})$/;
export const isBranchId = (value: unknown): value is BranchId =>
  typeof value === "string" && /^[0-9a-hjkmnp-tv-z]{16}$/.test(value);
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** A branch id from ten random bytes. */
export function branchId(random: Uint8Array): BranchId {
  let bits = 0;
  let held = 0;
  let text = "";
  for (const byte of random.subarray(0, 10)) {
    bits = (bits << 8) | byte;
    held += 8;
    for (; held >= 5; held -= 5) text += ALPHABET[(bits >>> (held - 5)) & 31];
    bits &= 255;
  }
  return text as BranchId;
}

const TIME_CHARS = 10;

/** A session's id from a time in milliseconds and ten random bytes. Ids sort by their times. */
export function drawnSessionId(ms: number, random: Uint8Array): SessionId {
  let time = "";
  for (
    let rest = Math.min(Math.max(ms, 0), 32 ** TIME_CHARS - 1);
    time.length < TIME_CHARS;
    rest = Math.floor(rest / 32)
  )
    time = (ALPHABET[rest % 32] as string) + time;
  return (time + branchId(random)) as string as SessionId;
}

/** The id of the session that a call makes under a key. It does not tell the key. */
export function keyedSessionId(call: string, key: string): SessionId {
  const bytes = Buffer.from(digest(`session ${call}\n${key}`), "base64url");
  return (branchId(bytes) + branchId(bytes.subarray(10))) as string as SessionId;
}

export const placeId = (branch: BranchId, seq: number): CheckpointId =>
  `${branch}-${seq}` as CheckpointId;

/** The place a checkpoint id names, or undefined for text that names none. */
export function parsePlace(value: string): Place | undefined {
  const found = PLACE.exec(value);
  if (!found) return undefined;
  const seq = Number(found[2]);
  return seq > MAX_SEQ ? undefined : { branch: found[1] as BranchId, seq };
}

/**
 * Like {@link parsePlace}, for a caller's argument: anything that is not a string is refused,
 * unknown text is not found.
 */
export function checkpointPlace(value: unknown): Place | undefined {
  return parsePlace(checkName(value, "checkpoint id"));
}

export const isPlace: Is = fields<Place>({
  branch: isBranchId,
  seq: (seq) => isCount(seq) && seq >= 1 && seq <= MAX_SEQ,
});

/**
 * What people call it. `constructor` may be the caller's own text, and a proxy may throw: only a
 * class with a plain name is named.
 */
export function typeName(value: unknown): string {
  if (value === null) return "null";
  if (typeof value !== "object") return typeof value;
  try {
    if (Array.isArray(value)) return "an array";
    const made: unknown = value.constructor;
    const name: unknown = typeof made === "function" ? made.name : undefined;
    return typeof name === "string" && /^[A-Za-z_$][\w$]{0,60}$/.test(name) ? name : "an object";
  } catch {
    return "an object";
  }
}
