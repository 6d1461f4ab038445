/** What steps are written with: statements to be run, and their answers. */
import type { Ask, Param, Row, Steps } from "./database.js";

export const change = (text: string, ...params: Param[]): Ask => ({ text, params, changes: true });
export const look = (text: string, ...params: Param[]): Ask => ({ text, params, changes: false });

export function* rowsOf(text: string, ...params: Param[]): Steps<readonly Row[]> {
  return (yield [look(text, ...params)])[0] ?? [];
}

export function* row(text: string, ...params: Param[]): Steps<Row | undefined> {
  return (yield* rowsOf(text, ...params))[0];
}

export function* changed(text: string, ...params: Param[]): Steps<number> {
  return ((yield [change(text, ...params)])[0]?.[0]?.[0] ?? 0) as number;
}
