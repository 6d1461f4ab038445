/**
 * Messages of clients, read without loss. A number that JavaScript would change is refused with its
 * path, before a tool can act on another: clients in other languages send integers past 2^53.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { hasMoreValues, lossIn, type Parsed, parseJson } from "../../core/values/lossless-json.js";
import { idIn, KEPT_BYTES } from "./lines.js";

const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;

/**
 * How many values one message may hold, or one batch. All clients share one thread, and each value
 * costs much more time than a byte of text: a body of five million empty objects would hold up the
 * others for many seconds.
 */
export const MAX_VALUES = 50_000;

export type Id = string | number;

/** Why a message is not read, and whose it is, where that can be told. */
export interface Refusal {
  readonly id: Id | undefined;
  readonly code: number;
  readonly message: string;
}

export interface Refused {
  readonly refused: readonly Refusal[];
  readonly isTooLarge?: true;
}

/** The message or the messages in a text; or a refusal for each of them. */
export function readExactly(text: string): { readonly value: unknown } | Refused {
  // Counted before anything else is done with it.
  if (hasMoreValues(text, MAX_VALUES)) {
    const message = `It holds more than ${MAX_VALUES} values: a message may hold ${MAX_VALUES}. Say it in several calls.`;
    return {
      refused: [
        {
          id: idIn(text.slice(0, KEPT_BYTES), text.slice(-KEPT_BYTES)),
          code: INVALID_REQUEST,
          message,
        },
      ],
      isTooLarge: true,
    };
  }
  let parsed: Parsed;
  try {
    parsed = parseJson(text);
  } catch (error) {
    const isDeep = error instanceof HoldfastError && error.details.limit !== undefined;
    return {
      refused: isDeep
        ? forAll(text, INVALID_REQUEST, error.message)
        : [{ id: undefined, code: PARSE_ERROR, message: "It is no JSON." }],
    };
  }
  const loss = lossIn(parsed);
  return loss === undefined
    ? { value: parsed.value }
    : { refused: forAll(text, INVALID_PARAMS, `INVALID_VALUE: ${loss}.`) };
}

function forAll(text: string, code: number, message: string): readonly Refusal[] {
  const value = JSON.parse(text) as unknown;
  const asked = (Array.isArray(value) ? value : [value]).map(idOf).filter((id) => id !== undefined);
  return (asked.length === 0 ? [undefined] : asked).map((id) => ({ id, code, message }));
}

/** The answer that says so. */
export const refusalOf = ({ id, code, message }: Refusal) =>
  ({ jsonrpc: "2.0", id: id ?? null, error: { code, message } }) as const;

export function idOf(value: unknown): Id | undefined {
  const id: unknown =
    typeof value === "object" && value !== null && "id" in value ? value.id : undefined;
  return typeof id === "string" || Number.isSafeInteger(id) ? (id as Id) : undefined;
}
