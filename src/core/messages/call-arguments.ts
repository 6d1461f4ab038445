/**
 * The arguments of a tool call, as a model gave them.
 *
 * G1  arguments are used as the model wrote them, or not at all. A number that JavaScript would
 *     change is no reason to call a tool with another.
 * G2  arguments that cannot be used are still stored: `raw` says them, or why they cannot be said,
 *     and reading `raw` finds the same flaw again.
 * G3  `input` can always be shown to a provider: it is an object where the arguments could not be
 *     read.
 */
import { HoldfastError } from "../values/errors.js";
import { freeze, isOfText, type Json } from "../values/json.js";
import { lossIn, type Parsed, parseJson } from "../values/lossless-json.js";
import type { ToolCallPart } from "./message.js";

export type CallArguments = Pick<ToolCallPart, "input" | "raw">;

/** What a text says, and what is wrong with it, in words that follow "The arguments". */
export interface Read {
  readonly input: Json;
  readonly flaw?: string;
}

const NONE: Json = Object.freeze({});
/**
 * Of a longer text that cannot be used only the flaw is kept. Of one that is no JSON, the model is
 * shown the beginning.
 */
const MAX_RAW = 64 * 1024;
const SHOWN = 500;

export function readArguments(text: string): Read {
  if (text.trim() === "") return { input: NONE };
  let parsed: Parsed;
  try {
    parsed = parseJson(text);
  } catch (error) {
    // Deeper than can be read has a limit; all else is no JSON.
    const isDeep = error instanceof HoldfastError && error.details.limit !== undefined;
    return {
      input: NONE,
      flaw: isDeep
        ? `cannot be used. ${error.message}`
        : `are not JSON: ${text.slice(0, SHOWN).toWellFormed()}`,
    };
  }
  const { value: input } = parsed;
  const unstorable = whyUnstorable(input);
  if (unstorable !== undefined) return { input: NONE, flaw: `cannot be used. ${unstorable}` };
  const loss = lossIn(parsed);
  return loss === undefined ? { input } : { input, flaw: `cannot be used: ${loss}.` };
}

/** Arguments of a reply, as they are stored: text or a value. */
export function argumentsOf(given: unknown): CallArguments {
  if (typeof given !== "string") {
    const why = whyUnstorable(given);
    // A sentence is no JSON, so that it is found again to be none.
    return why === undefined ? { input: given as Json } : { input: NONE, raw: why };
  }
  const { input, flaw } = readArguments(given);
  if (flaw === undefined) return { input };
  return { input, raw: given.length > MAX_RAW ? `They ${flaw}` : escaped(given) };
}

/** What is wrong with the arguments of a call that was stored; undefined where they can be used. */
export function argumentsFlaw({ raw }: CallArguments): string | undefined {
  return raw === undefined ? undefined : readArguments(raw).flaw;
}

/** G2: half a character, as the escape that says the same in JSON. */
const escaped = (text: string): string =>
  text.isWellFormed()
    ? text
    : text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`);

/**
 * Why a value that came from JSON could not stand in a message as the input of a call. A type of
 * the program's own, a Date say, is refused where the message is stored: no model can have sent it.
 */
export function whyUnstorable(value: unknown): string | undefined {
  try {
    // As deep as it will be: in a part, in a list, in a message.
    freeze([[[value]]], "arguments");
    return undefined;
  } catch (error) {
    const isTold = error instanceof HoldfastError && isOfText(error);
    return isTold ? error.message.replace("arguments[0][0][0]", "arguments") : undefined;
  }
}
