/** What a caller says of a call, checked. The same for tools of an agent and for calls by hand. */
import { MODES, type Mode } from "../../core/effects/effect.js";
import { invalid, oneOf, options, wholeNumber } from "../util/validate.js";

export interface Retry {
  /** How often it is tried in all. */
  readonly attempts: number;
  /** The pause before the second attempt; it grows with each. */
  readonly backoffMs?: number;
}

/** Asked when nobody knows whether a call happened. undefined: still unknown. */
export type Settled<R> =
  | { readonly output: R }
  | { readonly error: string }
  | { readonly retry: true }
  | undefined;

export interface CheckRequest<A = unknown, C = unknown> {
  readonly key: string;
  readonly input: A;
  readonly startedAt: string;
  /** Whether whoever made the call is known to be gone, or may still be inside it past its time. */
  readonly holder: "dead" | "unknown";
  readonly context: C;
}

export interface CallOptions {
  readonly mode: Mode;
  readonly timeoutMs: number;
  readonly retry: Required<Retry>;
  readonly keyValidMs: number | undefined;
}

const TIMEOUT_MS = 10 * 60_000;
const MAX_TIMEOUT_MS = 7 * 24 * 60 * 60_000;
const KEY_VALID_MS = 24 * 60 * 60_000;
const TRIES: Readonly<Record<Mode, number>> = { repeatable: 1, keyed: 3, once: 1 };
const BACKOFF_MS = 200;

interface Given {
  readonly mode?: unknown;
  readonly timeoutMs?: unknown;
  readonly retry?: unknown;
  readonly keyValidMs?: unknown;
}

export function callOptions(
  { mode, timeoutMs, retry, keyValidMs }: Given,
  path: string,
): CallOptions {
  const checked = oneOf(mode, `${path}.mode`, MODES);
  if (checked === undefined) throw invalid(`${path}.mode`, `it must be one of ${MODES.join(", ")}`);
  if (keyValidMs !== undefined && checked !== "keyed")
    throw invalid(`${path}.keyValidMs`, "only a keyed call has it");
  const validMs =
    keyValidMs === undefined
      ? KEY_VALID_MS
      : wholeNumber(keyValidMs, `${path}.keyValidMs`, 1, Number.MAX_SAFE_INTEGER);
  // An attempt must end while its key is known: otherwise it could never be made again without
  // asking.
  const most =
    checked === "keyed" ? Math.min(TIMEOUT_MS, Math.max(1, Math.floor(validMs / 3))) : TIMEOUT_MS;
  const timeout =
    timeoutMs === undefined ? most : wholeNumber(timeoutMs, `${path}.timeoutMs`, 1, MAX_TIMEOUT_MS);
  if (checked === "keyed" && timeout >= validMs)
    throw invalid(`${path}.timeoutMs`, "it must be shorter than keyValidMs");
  return {
    mode: checked,
    timeoutMs: timeout,
    retry: retryOf(retry, path, TRIES[checked]),
    keyValidMs: checked === "keyed" ? validMs : undefined,
  };
}

export function retryOf(given: unknown, path: string, tries: number): Required<Retry> {
  const { attempts, backoffMs } = options(given as Retry | undefined, `${path}.retry`, [
    "attempts",
    "backoffMs",
  ]);
  return {
    attempts:
      attempts === undefined ? tries : wholeNumber(attempts, `${path}.retry.attempts`, 1, 1_000),
    backoffMs:
      backoffMs === undefined
        ? BACKOFF_MS
        : wholeNumber(backoffMs, `${path}.retry.backoffMs`, 0, 3_600_000),
  };
}

/** The pause before the attempt after this one: doubled each time, uneven, and a minute at most. */
export const backoff = ({ backoffMs }: Required<Retry>, tries: number): number =>
  Math.min(60_000, backoffMs * 2 ** (tries - 1)) * (0.5 + Math.random() / 2);
