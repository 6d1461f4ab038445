/**
 * Messages of clients, read without loss. A number that JavaScript would change is refused with its path, before a tool can act on another:
 * clients in other languages send integers past 2^53.
 */
import { HoldfastError } from "../../core/errors.js";
import { lossIn, type Parsed, parseJson } from "../../core/lossless-json.js";

const PARSE_ERROR = -32_700;
export const INVALID_REQUEST = -32_600;
const INVALID_PARAMS = -32_602;

export type Id = string | number;

/** Why a message is not read, and whose it is, where that can be told. */
export interface Refusal {
  readonly id: Id | undefined;
  readonly code: number;
  readonly message: string;
}

/** The message or the messages in a text; or a refusal for each of them. */
export function readExactly(text: string): { readonly value: unknown } | { readonly refused: readonly Refusal[] } {
  let parsed: Parsed;
  try {
    parsed = parseJson(text);
  } catch (error) {
    const isDeep = error instanceof HoldfastError && error.details.limit !== undefined;
    return {
      refused: isDeep ? forAll(text, INVALID_REQUEST, error.message) : [{ id: undefined, code: PARSE_ERROR, message: "It is no JSON." }],
    };
  }
  const loss = lossIn(parsed);
  return loss === undefined ? { value: parsed.value } : { refused: forAll(text, INVALID_PARAMS, `INVALID_VALUE: ${loss}.`) };
}

function forAll(text: string, code: number, message: string): readonly Refusal[] {
  const value = JSON.parse(text) as unknown;
  const asked = (Array.isArray(value) ? value : [value]).map(idOf).filter((id) => id !== undefined);
  return (asked.length === 0 ? [undefined] : asked).map((id) => ({ id, code, message }));
}

/** The answer that says so. */
export const refusalOf = ({ id, code, message }: Refusal) => ({ jsonrpc: "2.0", id: id ?? null, error: { code, message } }) as const;

export function idOf(value: unknown): Id | undefined {
  const id: unknown = typeof value === "object" && value !== null && "id" in value ? value.id : undefined;
  return typeof id === "string" || Number.isSafeInteger(id) ? (id as Id) : undefined;
}
