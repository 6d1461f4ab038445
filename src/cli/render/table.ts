/** Tables that fit: columns that may be cut give way, the last of them first. */
import type { Terminal } from "../terminal/terminal.js";
import { clip, pad, padStart, width } from "../terminal/text.js";

export interface Column {
  readonly title: string;
  readonly right?: true;
  /** How narrow it may become; without it, it is never cut. */
  readonly least?: number;
  /** Left out where there is no room for all, the last of them first. */
  readonly optional?: true;
}

/** Text without colours, and what colours it once it fits. */
export type Cell = string | { readonly text: string; readonly paint: (text: string) => string };

const GAP = 2;
const NARROWEST = 3;
const textOf = (cell: Cell): string => (typeof cell === "string" ? cell : cell.text);

export function table(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  { columns: room, paint }: Pick<Terminal, "columns" | "paint">,
): string[] {
  // A column in which nothing stands is left out.
  const filled = columns
    .map((_, i) => i)
    .filter((i) => rows.some((row) => textOf(row[i] ?? "") !== ""));
  const used = affordable(columns, rows, filled, room);
  const shown = used.map((i) => columns[i] as Column);
  const cells = rows.map((row) => used.map((i) => row[i] ?? ""));
  const widths = fit(
    shown,
    shown.map((column, i) =>
      Math.max(width(column.title), ...cells.map((row) => width(textOf(row[i] ?? "")))),
    ),
    room,
  );
  const line = (row: readonly Cell[]) =>
    row
      .map((cell, i) => {
        const wide = widths[i] ?? 0;
        const cut = clip(textOf(cell), wide);
        const painted = typeof cell === "string" ? cut : cell.paint(cut);
        const isLast = i === row.length - 1;
        if (shown[i]?.right) return padStart(painted, wide);
        return isLast ? painted : pad(painted, wide);
      })
      .join(" ".repeat(GAP))
      .trimEnd();
  const head = line(shown.map(({ title }) => ({ text: title, paint: paint.dim })));
  return [head, ...cells.map(line)];
}

/** Those for which there is room, be they cut. */
function affordable(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  shown: readonly number[],
  room: number,
): readonly number[] {
  const needed = (i: number) => {
    const { title, least } = columns[i] as Column;
    const wide = Math.max(width(title), ...rows.map((row) => width(textOf(row[i] ?? ""))));
    return least === undefined ? wide : Math.min(wide, least);
  };
  const total = shown.reduce((sum, i) => sum + needed(i) + GAP, -GAP);
  const last = shown.findLast((i) => (columns[i] as Column).optional);
  if (total <= room || last === undefined) return shown;
  return affordable(
    columns,
    rows,
    shown.filter((i) => i !== last),
    room,
  );
}

function fit(
  columns: readonly Column[],
  wanted: readonly number[],
  room: number,
): readonly number[] {
  const widths = [...wanted];
  let over = widths.reduce((sum, wide) => sum + wide, 0) + GAP * (widths.length - 1) - room;
  for (let i = columns.length - 1; i >= 0 && over > 0; i--) {
    const { least } = columns[i] as Column;
    if (least === undefined) continue;
    const less = Math.min(over, Math.max(0, (widths[i] as number) - least));
    widths[i] = (widths[i] as number) - less;
    over -= less;
  }
  // Where even that is too much, the widest give way, whatever they are.
  for (; over > 0; over--) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= NARROWEST) break;
    widths[widest] = (widths[widest] as number) - 1;
  }
  return widths;
}
