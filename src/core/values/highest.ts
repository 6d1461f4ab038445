/**
 * The highest of any number of numbers, and at least `least`. Spread into `Math.max`, more than
 * about 130,000 overflow the stack.
 */
export function highest(least: number, numbers: Iterable<number>): number {
  let found = least;
  for (const number of numbers) if (number > found) found = number;
  return found;
}
