/** What procedures are written with: statements to be run, and their answers. */
import type { Param, Procedure, Row, SqlCall } from "./database.js";

export const change = (text: string, ...params: Param[]): SqlCall => ({
  text,
  params,
  changes: true,
});
export const look = (text: string, ...params: Param[]): SqlCall => ({
  text,
  params,
  changes: false,
});

export function* rowsOf(text: string, ...params: Param[]): Procedure<readonly Row[]> {
  return (yield [look(text, ...params)])[0] ?? [];
}

export function* row(text: string, ...params: Param[]): Procedure<Row | undefined> {
  return (yield* rowsOf(text, ...params))[0];
}

export function* changed(text: string, ...params: Param[]): Procedure<number> {
  return ((yield [change(text, ...params)])[0]?.[0]?.[0] ?? 0) as number;
}
