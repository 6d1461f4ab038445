/** What is to go: texts, a pattern, a ready set, or a message; and what stands in its place. */
import { HoldfastError } from "../../core/errors.js";
import { checkName, typeName } from "../../core/ids.js";
import type { Redact } from "../../core/redact-text.js";
import { isReadySet } from "../../core/redactions.js";
import { invalid } from "../options.js";

/** A text, several of them, a pattern, a ready set or another function like it, or the whole content of a message. */
export type RedactWhat = string | readonly string[] | RegExp | Redact | { readonly message: string };

export interface What {
  readonly text: Redact;
  /** Another content for a file, or undefined where it holds nothing that is to go. */
  readonly file: (bytes: Uint8Array) => Uint8Array | undefined;
  /** Whether a text of any kind, such as that of a file, holds what is to go. */
  readonly holds: (text: string) => boolean;
  /** The id of a message that is to go whole. */
  readonly message: string | undefined;
  readonly replacement: string;
}

const MAX_TEXTS = 1_000;
const MAX_CHARS = 1024 * 1024;
/** With nothing in its place, what stood around a text may come to be one. */
const MAX_ROUNDS = 100;

export function whatOf(given: RedactWhat, replacement: string): What {
  if (typeof given === "string") return ofTexts([given], replacement);
  if (Array.isArray(given)) return ofTexts(given as readonly unknown[], replacement);
  if (given instanceof RegExp) return ofPattern(given, replacement);
  if (typeof given === "function") return ofFunction(given as Redact);
  if (typeof given === "object" && given !== null && Object.keys(given).length === 1 && "message" in given)
    return ofMessage(checkName((given as { message: unknown }).message, "message"), replacement);
  throw invalid("redact", `it takes a text, a list of texts, a RegExp, a set of redactions or { message }, not ${typeName(given)}`);
}

function ofTexts(texts: readonly unknown[], replacement: string): What {
  if (texts.length === 0) throw invalid("redact", "there is nothing to redact");
  if (texts.length > MAX_TEXTS)
    throw new HoldfastError("TOO_LARGE", `redact: more than ${MAX_TEXTS} texts at once.`, { path: "redact", limit: MAX_TEXTS });
  const needles = new Set<string>();
  for (const text of texts) for (const form of formsOf(checkNeedle(text))) needles.add(form);
  // The longest first: of two that begin alike, all of the longer one goes.
  const all = [...needles].toSorted((a, b) => b.length - a.length);
  const any = new RegExp(all.map(escaped).join("|"), "g");
  const bytes = texts.flatMap((text) => [Buffer.from(text as string, "utf8"), Buffer.from(text as string, "utf16le")]);
  const isIn = (content: Buffer) => bytes.some((needle) => content.includes(needle));
  return finding(any, replacement, isIn);
}

function checkNeedle(text: unknown): string {
  if (typeof text !== "string") throw invalid("redact", `a text to redact is a string, not ${typeName(text)}`);
  if (text === "") throw invalid("redact", "a text to redact is empty");
  if (!text.isWellFormed()) throw invalid("redact", "a text to redact holds half a character (a lone surrogate)");
  if (text.length > MAX_CHARS)
    throw new HoldfastError("TOO_LARGE", `redact: a text is longer than ${MAX_CHARS} characters.`, { path: "redact", limit: MAX_CHARS });
  return text;
}

/** A text as it is, and as it stands in JSON that was made a text itself, once or twice. */
function formsOf(text: string): readonly string[] {
  const inJson = (plain: string) => JSON.stringify(plain).slice(1, -1);
  const ascii = inJson(text).replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [text, inJson(text), inJson(inJson(text)), ascii, inJson(ascii)];
}

const escaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");

function ofPattern({ source, flags }: RegExp, replacement: string): What {
  const any = new RegExp(source, `${flags.replace(/[gy]/g, "")}g`);
  return finding(any, replacement, (content) => has(any, content.toString("latin1")));
}

const has = (any: RegExp, text: string): boolean => {
  any.lastIndex = 0;
  // One that finds nothing at a place finds it everywhere: that is no text.
  for (let found = any.exec(text); found !== null; found = any.exec(text)) {
    if (found[0] !== "") return true;
    any.lastIndex += 1;
  }
  return false;
};

function finding(any: RegExp, replacement: string, isIn: (content: Buffer) => boolean): What {
  const once = (text: string): string => text.replace(any, (found: string) => (found === "" ? "" : replacement));
  if (has(any, replacement))
    throw invalid("with", "it holds what is to be redacted, or would be taken for it. Choose other words to stand in its place");
  const text = (given: string): string => {
    let edited = once(given);
    for (let rounds = 0; edited !== given && has(any, edited); rounds++) {
      if (rounds >= MAX_ROUNDS) throw invalid("with", "what stands around it becomes what is to be redacted, again and again");
      edited = once(edited);
    }
    return edited;
  };
  return editing(text, replacement, isIn);
}

/** A function says itself what stands in the place of what it finds. */
function ofFunction(redact: Redact): What {
  // A ready set leaves arguments alone, for tools are run with them. Those of calls that are over are no different from other texts.
  const own: Redact = isReadySet(redact) ? (text, where) => redact.everywhere(text, where.field) : redact;
  const text: Redact = (given, where) => {
    const edited: unknown = own(given, where);
    if (typeof edited !== "string") throw invalid("redact", `the function gave ${typeName(edited)}, and no text`);
    return edited;
  };
  const where = { in: "message", role: "user" } as const;
  const isIn = (content: Buffer) => {
    const latin = content.toString("latin1");
    return own(latin, where) !== latin;
  };
  return editing(text, "[redacted]", isIn);
}

function editing(text: Redact, replacement: string, isIn: (content: Buffer) => boolean): What {
  const where = { in: "message", role: "user" } as const;
  return {
    text,
    file: (bytes) => fileWithout(bytes, (content) => text(content, where), isIn, replacement),
    holds: (content) => text(content, where) !== content || isIn(Buffer.from(content)),
    message: undefined,
    replacement,
  };
}

/** A file that is text is edited; of any other nobody can say what is left of it without a part. */
function fileWithout(
  bytes: Uint8Array,
  edit: (text: string) => string,
  isIn: (content: Buffer) => boolean,
  replacement: string,
): Uint8Array | undefined {
  const content = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const edited = edit(text);
    if (edited !== text) return Buffer.from(edited);
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
  }
  return isIn(content) ? Buffer.from(replacement) : undefined;
}

const ofMessage = (message: string, replacement: string): What => ({
  text: (text) => text,
  file: () => undefined,
  holds: () => false,
  message,
  replacement,
});
