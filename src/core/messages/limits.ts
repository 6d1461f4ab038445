/** When a run must stop: what it may use, and whether it goes round in circles. */

export interface Bounds {
  readonly steps: number;
  readonly repeats: number;
  readonly tokens: number;
  readonly wallMs: number;
}

export interface Used {
  readonly steps: number;
  readonly tokens: number;
  readonly ms: number;
}

/** Why a run may not take another step, in words; undefined where it may. */
export function pastLimit(used: Used, bounds: Bounds): string | undefined {
  if (used.steps >= bounds.steps)
    return `It has taken ${used.steps} steps in this turn, and may take ${bounds.steps}.`;
  if (used.tokens >= bounds.tokens)
    return `It has used ${used.tokens} tokens in this turn, and may use ${bounds.tokens}.`;
  if (used.ms >= bounds.wallMs)
    return `It has run for ${Math.round(used.ms)} ms, and may run for ${bounds.wallMs}.`;
  return undefined;
}

/** The calls of one reply: what they are, and how to show them. */
export interface Asked {
  readonly same: string;
  readonly text: string;
}

/** The longest cycle that is looked for. */
export const MAX_PERIOD = 4;

/**
 * Whether the last replies ask for the same again and again, or for the same few in turn; in words.
 */
export function goesRound(asked: readonly Asked[], repeats: number): string | undefined {
  for (let period = 1; period <= MAX_PERIOD; period++) {
    const first = asked.length - period * repeats;
    if (first < 0) return undefined;
    // From the end: most of the time the last two differ already.
    let i = asked.length - 1;
    while (i >= first + period && asked[i]?.same === asked[i - period]?.same) i -= 1;
    if (i >= first + period) continue;
    const round = asked.slice(first, first + period).map(({ text }) => text);
    if (period === 1)
      return `It asked ${repeats} times in a row for ${round[0]}, with the same input.`;
    return `It goes round in a circle: ${repeats} times in a row it asked for ${round.join(", then ")}.`;
  }
  return undefined;
}
