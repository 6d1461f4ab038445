/** Statuses and outcomes, in their colours. */
import type { Paint } from "../terminal/colours.js";
import type { Cell } from "./table.js";

const COLOURS: Readonly<Record<string, keyof Paint>> = {
  "in-progress": "blue",
  waiting: "yellow",
  "in-doubt": "magenta",
  completed: "green",
  failed: "red",
  halted: "red",
  cancelled: "dim",
  done: "green",
  replayed: "cyan",
  error: "red",
  denied: "red",
};

export const statusCell = (status: string, paint: Paint): Cell => ({
  text: status,
  paint: paint[COLOURS[status] ?? "bold"],
});
export const painted = (status: string, paint: Paint): string =>
  paint[COLOURS[status] ?? "bold"](status);
