/** What is to go: texts, a pattern, a ready set, or a message; and what stands in its place. */
import type { Redact } from "../../core/redaction/redact-text.js";
import { isReadySet } from "../../core/redaction/redactions.js";
import { isInstance, readFields } from "../../core/values/check-options.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, typeName } from "../../core/values/ids.js";
import { isList } from "../../core/values/json.js";
import { callRedact } from "../../engine/journal/redactor.js";
import { invalid, listOf } from "../../engine/util/validate.js";
import { TimeUp, within } from "../../engine/util/within.js";

/**
 * A text, several of them, a pattern, a ready set or another function like it, or the whole content
 * of a message.
 */
export type RedactWhat =
  | string
  | readonly string[]
  | RegExp
  | Redact
  | { readonly message: string };

export interface Matcher {
  readonly text: Redact;
  /** Another content for a file, or undefined where it holds nothing that is to go. */
  readonly file: (bytes: Uint8Array) => Uint8Array | undefined;
  /** Whether a text of any kind, such as that of a file, holds what is to go. */
  readonly holds: (text: string) => boolean;
  /**
   * Whether the text of a file may hold it, with other text around it. A pattern or a function may
   * ask for a whole text: then any may.
   */
  readonly inFile: (text: string) => boolean;
  /** The id of a message that is to go whole. */
  readonly message: string | undefined;
  readonly replacement: string;
  /**
   * Runs work that asks it about many texts of this size together, with one bound for all. Without
   * it, each question has its own.
   */
  readonly bounded: <T>(size: number, work: () => T) => T;
}

const MAX_TEXTS = 1_000;
const MAX_CHARS = 1024 * 1024;
/** With nothing in its place, what stood around a text may come to be one. */
const MAX_ROUNDS = 100;
/**
 * How long a pattern may take, for texts of some size together. One that takes linear time needs a
 * hundredth of it.
 */
const PATTERN_MS = 1_000;
const PATTERN_MS_PER_KIB = 1;
/**
 * Texts that come to no more than this, in all their forms, are looked for together: a pattern must
 * not be too large.
 */
const TOGETHER_CHARS = 10_000;

const NO_FIELDS = { fields: {} as Record<string, unknown>, unknown: undefined };

export function matcherOf(given: RedactWhat, replacement: string): Matcher {
  if (typeof given === "string") return ofTexts([given], replacement);
  if (isList(given))
    return ofTexts(listOf(given, "redact", "a list of texts", MAX_TEXTS + 1), replacement);
  return { ...ofOther(given, replacement), inFile: () => true };
}

function ofOther(given: RedactWhat, replacement: string): Matcher {
  if (isInstance(given, RegExp)) return ofPattern(given, replacement);
  if (typeof given === "function") return ofFunction(given as Redact);
  const { fields, unknown } =
    typeof given === "object" && given !== null
      ? readFields(given, "redact", ["message"])
      : NO_FIELDS;
  if (unknown === undefined && "message" in fields)
    return ofMessage(checkName(fields["message"], "message"), replacement);
  throw invalid(
    "redact",
    `it takes a text, a list of texts, a RegExp, a set of redactions or { message }, not ${typeName(given)}`,
  );
}

/** Finds what is to go. */
interface Finder {
  readonly has: (text: string) => boolean;
  readonly replace: (text: string, replacement: string) => string;
  /**
   * Whether bytes hold it that are no text, or not only: `isText` says that they are UTF-8, and
   * were looked through as such.
   */
  readonly inBytes: (content: Buffer, isText: boolean) => boolean;
}

// ---- texts

function ofTexts(texts: readonly unknown[], replacement: string): Matcher {
  if (texts.length === 0) throw invalid("redact", "there is nothing to redact");
  const given = texts.map(checkNeedle);
  const chars = given.reduce((sum, { length }) => sum + length, 0);
  if (given.length > MAX_TEXTS || chars > MAX_CHARS)
    throw new HoldfastError(
      "TOO_LARGE",
      `redact: more than ${MAX_TEXTS} texts, or ${MAX_CHARS} characters, at once.`,
      { path: "redact" },
    );
  // The longest first: of two that begin alike, all of the longer one goes.
  const needles = [...new Set(given.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
  const bytes = given.flatMap((text) => [Buffer.from(text, "utf8"), Buffer.from(text, "utf16le")]);
  const inBytes = (content: Buffer) => bytes.some((needle) => content.includes(needle));
  const isSmall = needles.reduce((sum, { length }) => sum + length, 0) <= TOGETHER_CHARS;
  if (isSmall)
    return finding(
      { ...patternFinder(new RegExp(needles.map(escaped).join("|"), "g")), inBytes },
      replacement,
    );
  return finding(
    {
      has: (text) => needles.some((needle) => text.includes(needle)),
      replace: (text, other) =>
        needles.reduce((edited, needle) => edited.replaceAll(needle, () => other), text),
      inBytes,
    },
    replacement,
  );
}

function checkNeedle(text: unknown): string {
  if (typeof text !== "string")
    throw invalid("redact", `a text to redact is a string, not ${typeName(text)}`);
  if (text === "") throw invalid("redact", "a text to redact is empty");
  if (!text.isWellFormed())
    throw invalid("redact", "a text to redact holds half a character (a lone surrogate)");
  return text;
}

/** A text as it is, and as it stands in JSON that was made a text itself, once or twice. */
function formsOf(text: string): readonly string[] {
  const inJson = (plain: string) => JSON.stringify(plain).slice(1, -1);
  const ascii = inJson(text).replace(
    /[^ -~]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  return [text, inJson(text), inJson(inJson(text)), ascii, inJson(ascii)];
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

// ---- patterns

function ofPattern(given: RegExp, replacement: string): Matcher {
  const any = anywhere(given);
  const bounded: Matcher["bounded"] = (size, work) => {
    const ms = Math.ceil(PATTERN_MS + (PATTERN_MS_PER_KIB * size) / 1024);
    try {
      return within(ms, work);
    } catch (error) {
      throw error instanceof TimeUp ? tooSlow(any, ms) : error;
    }
  };
  const what = bounded(replacement.length, () => finding(patternFinder(any), replacement));
  return {
    ...what,
    text: (text, where) => bounded(text.length, () => what.text(text, where)),
    file: (bytes) => bounded(bytes.length, () => what.file(bytes)),
    holds: (text) => bounded(text.length, () => what.holds(text)),
    bounded,
  };
}

/** The pattern for all that it finds, wherever that stands. */
function anywhere(given: RegExp): RegExp {
  try {
    return new RegExp(given.source, `${given.flags.replace(/[gy]/g, "")}g`);
  } catch (cause) {
    throw invalid("redact", "the pattern cannot be read", cause);
  }
}

const tooSlow = ({ source }: RegExp, ms: number): HoldfastError =>
  invalid(
    "redact",
    `the pattern ${quote(`/${source}/`)} took longer than ${ms} ms and was stopped, because of a text that makes it try again and again. Write no repetition inside another (/a+$/, not /(a+)+$/), give each a limit (/a{1,100}/), or redact the texts themselves`,
  );

function patternFinder(any: RegExp): Finder {
  const has = (text: string): boolean => {
    any.lastIndex = 0;
    // One that finds nothing at a place finds it everywhere: that is no text.
    for (let found = any.exec(text); found !== null; found = any.exec(text)) {
      if (found[0] !== "") return true;
      any.lastIndex += 1;
    }
    return false;
  };
  return {
    has,
    replace: (text, replacement) =>
      text.replace(any, (found: string) => (found === "" ? "" : replacement)),
    inBytes: (content, isText) => !isText && has(content.toString("latin1")),
  };
}

function finding({ has, replace, inBytes }: Finder, replacement: string): Matcher {
  if (has(replacement))
    throw invalid(
      "with",
      "it holds what is to be redacted, or would be taken for it. Choose other words to stand in its place",
    );
  const text = (given: string): string => {
    let edited = replace(given, replacement);
    for (let rounds = 0; edited !== given && has(edited); rounds++) {
      if (rounds >= MAX_ROUNDS)
        throw invalid(
          "with",
          "what stands around it becomes what is to be redacted, again and again",
        );
      edited = replace(edited, replacement);
    }
    if (!edited.isWellFormed())
      throw invalid("redact", "the pattern would cut a character in half. Give it the flag u");
    return edited;
  };
  return editing(text, replacement, inBytes);
}

// ---- functions

/** A function says itself what stands in the place of what it finds. */
function ofFunction(redact: Redact): Matcher {
  // A ready set leaves inputs of calls alone, for tools are run with them. Those of calls that are
  // over are no different from other texts.
  const own: Redact = isReadySet(redact)
    ? (text, where) => redact.everywhere(text, where.field)
    : redact;
  const text: Redact = (given, where) => callRedact(own, given, where);
  const inBytes = (content: Buffer, isText: boolean): boolean => {
    const latin = content.toString("latin1");
    return !isText && text(latin, ANYWHERE) !== latin;
  };
  return editing(text, "[redacted]", inBytes);
}

const ANYWHERE = { in: "message", role: "user" } as const;

function editing(text: Redact, replacement: string, inBytes: Finder["inBytes"]): Matcher {
  return {
    text,
    file: (bytes) => fileWithout(bytes, (content) => text(content, ANYWHERE), inBytes, replacement),
    holds: (content) => text(content, ANYWHERE) !== content || inBytes(Buffer.from(content), true),
    inFile: (content) => text(content, ANYWHERE) !== content || inBytes(Buffer.from(content), true),
    message: undefined,
    replacement,
    bounded: unbounded,
  };
}

/**
 * Texts take no longer than they are long, and a function of the program's own may not be ended in
 * the middle.
 */
const unbounded: Matcher["bounded"] = (_size, work) => work();

/** A file that is text is edited; of any other nobody can say what is left of it without a part. */
function fileWithout(
  bytes: Uint8Array,
  edit: (text: string) => string,
  inBytes: Finder["inBytes"],
  replacement: string,
): Uint8Array | undefined {
  const text = textOf(bytes);
  const edited = text === undefined ? undefined : edit(text);
  if (edited !== undefined && edited !== text) return Buffer.from(edited);
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return inBytes(content, text !== undefined) ? Buffer.from(replacement) : undefined;
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

// ---- messages

const ofMessage = (message: string, replacement: string): Matcher => ({
  text: (text) => text,
  file: () => undefined,
  holds: () => false,
  inFile: () => false,
  message,
  replacement,
  bounded: unbounded,
});
