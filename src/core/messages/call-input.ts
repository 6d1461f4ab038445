/**
 * The input of a tool call, as a model gave it.
 *
 * INPUT-1  an input is used as the model wrote it, or not at all. A number that JavaScript would
 *          change is no reason to call a tool with another.
 * INPUT-2  an input that cannot be used is still stored: `raw` says it, or why it cannot be said,
 *          and reading `raw` finds the same flaw again.
 * INPUT-3  `input` can always be shown to a provider: it is an object where what the model gave
 *          could not be read.
 */
import { HoldfastError } from "../values/errors.js";
import { freeze, isOfText, type Json } from "../values/json.js";
import { lossIn, type Parsed, parseJson } from "../values/lossless-json.js";
import type { ToolCallPart } from "./message.js";

export type CallInput = Pick<ToolCallPart, "input" | "raw">;

/** What a text says, and what is wrong with it, in words that follow "The input". */
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

export function readInput(text: string): Read {
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
        : `is not JSON: ${text.slice(0, SHOWN).toWellFormed()}`,
    };
  }
  const { value: input } = parsed;
  const unstorable = whyUnstorable(input);
  if (unstorable !== undefined) return { input: NONE, flaw: `cannot be used. ${unstorable}` };
  const loss = lossIn(parsed);
  return loss === undefined ? { input } : { input, flaw: `cannot be used: ${loss}.` };
}

/** The input of a call in a reply, as it is stored: text or a value. */
export function callInputOf(given: unknown): CallInput {
  if (typeof given !== "string") {
    const why = whyUnstorable(given);
    // A sentence is no JSON, so that it is found again to be none.
    return why === undefined ? { input: given as Json } : { input: NONE, raw: why };
  }
  const { input, flaw } = readInput(given);
  if (flaw === undefined) return { input };
  return { input, raw: given.length > MAX_RAW ? `It ${flaw}` : escaped(given) };
}

/** What is wrong with the input of a call that was stored; undefined where it can be used. */
export function inputFlaw({ raw }: CallInput): string | undefined {
  return raw === undefined ? undefined : readInput(raw).flaw;
}

/** INPUT-2: half a character, as the escape that says the same in JSON. */
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
    freeze([[[value]]], "input");
    return undefined;
  } catch (error) {
    const isTold = error instanceof HoldfastError && isOfText(error);
    return isTold ? error.message.replace("input[0][0][0]", "input") : undefined;
  }
}
