/** What replies have cost, summed. */
import type { MessageInput, Usage } from "./message.js";

export type Sums = Required<Omit<Usage, "raw">>;

const FIELDS = [
  "inputTokens",
  "outputTokens",
  "cacheReadTokens",
  "cacheWriteTokens",
  "reasoningTokens",
] as const satisfies (keyof Sums)[];

/**
 * A reply's usage as five numbers, in the order of the sums; undefined for a message that is no
 * reply.
 */
export type Cost = readonly number[];

export const costOf = ({ reply }: MessageInput): Cost | undefined =>
  reply && FIELDS.map((field) => count(reply.usage?.[field]));

export const sumsOf = (totals: Cost): Sums =>
  Object.fromEntries(FIELDS.map((field, i) => [field, totals[i] ?? 0])) as Sums;

export const tokensIn = (cost: Cost): number =>
  Math.min((cost[0] ?? 0) + (cost[1] ?? 0), Number.MAX_SAFE_INTEGER);

export const addCost = (totals: Cost, cost: Cost, sign: 1 | -1 = 1): Cost =>
  totals.map((total, i) => Math.min(total + sign * (cost[i] ?? 0), Number.MAX_SAFE_INTEGER));

export const noCost: Cost = Object.freeze(FIELDS.map(() => 0));

const count = (n: unknown): number =>
  typeof n === "number" && Number.isFinite(n) && n > 0 ? Math.floor(n) : 0;
