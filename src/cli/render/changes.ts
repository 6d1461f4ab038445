/**
 * What differs between two checkpoints: texts line by line, values by their paths, in colours.
 * Bounded, whatever is compared.
 */
import type { Diff, Json, JsonObject, Message } from "../../index.js";
import type { Terminal } from "../terminal/terminal.js";
import { block, clip, inline, wrap } from "../terminal/text.js";
import { partsOf } from "./spoken.js";

const MOST_CELLS = 4_000_000;
const MOST_LINES = 400;
const MOST_CHARS = 4_000;
const CONTEXT = 2;

type Changed = Pick<Diff, "equal" | "messages" | "state" | "status">;

/** Unless it is to be all of it, the first so many lines. */
export function* changes(diff: Changed, terminal: Terminal, isFull: boolean): Generator<string> {
  let shown = 0;
  let left = 0;
  for (const line of every(diff, new Changes(terminal, isFull))) {
    shown += 1;
    if (isFull || shown <= MOST_LINES) yield line;
    else left += 1;
  }
  if (left > 0) yield terminal.paint.dim(`… ${left} more lines; --full shows them`);
}

function* every(diff: Changed, view: Changes): Generator<string> {
  if (diff.equal) return yield "No difference.";
  if (diff.status !== undefined) {
    yield* view.minus(`status ${diff.status.from}`);
    yield* view.plus(`status ${diff.status.to}`);
    yield "";
  }
  yield* view.messages(diff.messages);
  yield* view.state(diff.state);
}

class Changes {
  readonly #terminal: Terminal;
  readonly #isFull: boolean;

  constructor(terminal: Terminal, isFull: boolean) {
    this.#terminal = terminal;
    this.#isFull = isFull;
  }

  *messages({ sameAtStart, sameAtEnd, removed, added }: Diff["messages"]): Generator<string> {
    if (removed.length + added.length === 0) return;
    const { paint } = this.#terminal;
    const both = sameAtStart + sameAtEnd;
    yield paint.bold("messages") + (both === 0 ? "" : paint.dim(`  ${both} are the same`));
    // One in the place of another is compared with it.
    const pairs = Math.min(removed.length, added.length);
    for (let i = 0; i < pairs; i++)
      yield* this.lines(spoken(removed[i] as Message), spoken(added[i] as Message));
    for (const message of removed.slice(pairs))
      for (const line of spoken(message)) yield* this.minus(line);
    for (const message of added.slice(pairs))
      for (const line of spoken(message)) yield* this.plus(line);
    yield "";
  }

  *state({ added, removed, changed }: Diff["state"]): Generator<string> {
    if (Object.keys(added).length + Object.keys(removed).length + Object.keys(changed).length === 0)
      return;
    yield this.#terminal.paint.bold("state");
    for (const [key, value] of Object.entries(removed))
      yield* this.#value("minus", path("", key), value);
    for (const [key, value] of Object.entries(added))
      yield* this.#value("plus", path("", key), value);
    for (const [key, { from, to }] of Object.entries(changed))
      yield* this.#between(path("", key), from, to);
    yield "";
  }

  /** Only what differs inside of them, by its path. */
  *#between(at: string, from: Json, to: Json): Generator<string> {
    if (JSON.stringify(from) === JSON.stringify(to)) return;
    if (isObject(from) && isObject(to)) {
      for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
        const [before, after] = [
          Object.hasOwn(from, key) ? from[key] : undefined,
          Object.hasOwn(to, key) ? to[key] : undefined,
        ];
        if (before === undefined) yield* this.#value("plus", path(at, key), after as Json);
        else if (after === undefined) yield* this.#value("minus", path(at, key), before);
        else yield* this.#between(path(at, key), before, after);
      }
      return;
    }
    if (Array.isArray(from) && Array.isArray(to)) {
      yield* this.#lists(at, from, to);
      return;
    }
    if (
      typeof from === "string" &&
      typeof to === "string" &&
      (from.includes("\n") || to.includes("\n"))
    ) {
      yield this.#terminal.paint.cyan(`  ${at}`);
      yield* this.lines(block(from), block(to));
      return;
    }
    yield* this.#value("minus", at, from);
    yield* this.#value("plus", at, to);
  }

  /**
   * Item by item where there are as many; otherwise by the longest common part, so that one more in
   * front is one more.
   */
  *#lists(at: string, from: readonly Json[], to: readonly Json[]): Generator<string> {
    if (from.length === to.length) {
      for (const [i, item] of from.entries())
        yield* this.#between(`${at}[${i}]`, item, to[i] as Json);
      return;
    }
    const text = (items: readonly Json[]) => items.map((item) => JSON.stringify(item));
    let [i, j] = [0, 0];
    for (const { sign } of compare(text(from), text(to))) {
      if (sign === "-") yield* this.#value("minus", `${at}[${i}]`, from[i] as Json);
      if (sign === "+") yield* this.#value("plus", `${at}[${j}]`, to[j] as Json);
      if (sign !== "+") i++;
      if (sign !== "-") j++;
    }
  }

  *#value(sign: "minus" | "plus", at: string, value: Json): Generator<string> {
    const text = `${at}: ${inline(JSON.stringify(value))}`;
    yield* this[sign](this.#isFull ? text : clip(text, 400));
  }

  /** The shorter way from one text to another, with a little of what is the same around it. */
  *lines(from: readonly string[], to: readonly string[]): Generator<string> {
    const steps = compare(from, to);
    const near = new Set<number>();
    for (const [i, { sign }] of steps.entries())
      if (sign !== " ") for (let j = i - CONTEXT; j <= i + CONTEXT; j++) near.add(j);
    let isCut = false;
    for (const [i, { sign, line }] of steps.entries()) {
      if (sign === "-") yield* this.minus(line);
      else if (sign === "+") yield* this.plus(line);
      else if (near.has(i))
        for (const row of wrap(line, this.#terminal.columns - 2)) yield `  ${row}`;
      else if (!isCut) yield this.#terminal.paint.dim("  …");
      isCut = sign === " " && !near.has(i);
    }
  }

  *minus(line: string): Generator<string> {
    yield* this.#signed("-", line, this.#terminal.paint.red);
  }

  *plus(line: string): Generator<string> {
    yield* this.#signed("+", line, this.#terminal.paint.green);
  }

  *#signed(sign: string, line: string, paint: (text: string) => string): Generator<string> {
    for (const row of wrap(
      this.#isFull ? line : clip(line, MOST_CHARS),
      this.#terminal.columns - 2,
    ))
      yield paint(`${sign} ${row}`);
  }
}

const isObject = (value: Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const path = (at: string, key: string): string => {
  const shown = /^[A-Za-z_$][\w$-]{0,99}$/.test(key) ? key : inline(JSON.stringify(key));
  if (at === "") return shown;
  return shown === key ? `${at}.${key}` : `${at}[${shown}]`;
};

/** A message as lines: who, and what. */
function spoken(message: Message): string[] {
  const lines = partsOf(message).flatMap((part) => {
    switch (part.type) {
      case "text":
        return block(part.text);
      case "tool-call":
        return [`→ ${inline(part.name)} ${inline(JSON.stringify(part.input))}`];
      case "tool-result":
        return [`← ${part.outcome} ${inline(JSON.stringify(part.output))}`];
      case "reasoning":
        return block(part.text).map((line) => `(${line})`);
      default:
        return [inline(JSON.stringify(part))];
    }
  });
  const [first = "", ...rest] = lines;
  return [`${message.role}: ${first}`, ...rest.map((line) => `  ${line}`)];
}

interface Step {
  readonly sign: "-" | "+" | " ";
  readonly line: string;
}

/**
 * By the longest common lines; texts that are too long for that are taken out and put in as a
 * whole.
 */
export function compare(from: readonly string[], to: readonly string[]): readonly Step[] {
  let start = 0;
  while (start < from.length && start < to.length && from[start] === to[start]) start++;
  let end = 0;
  while (
    end < Math.min(from.length, to.length) - start &&
    from[from.length - 1 - end] === to[to.length - 1 - end]
  )
    end++;
  const [a, b] = [from.slice(start, from.length - end), to.slice(start, to.length - end)];
  const same = (lines: readonly string[]): Step[] => lines.map((line) => ({ sign: " ", line }));
  return [...same(from.slice(0, start)), ...between(a, b), ...same(from.slice(from.length - end))];
}

function between(a: readonly string[], b: readonly string[]): Step[] {
  const whole = (): Step[] => [
    ...a.map((line) => ({ sign: "-", line }) as const),
    ...b.map((line) => ({ sign: "+", line }) as const),
  ];
  if (a.length === 0 || b.length === 0 || a.length * b.length > MOST_CELLS) return whole();
  const wide = b.length + 1;
  const common = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * wide + j] =
        a[i] === b[j]
          ? (common[(i + 1) * wide + j + 1] as number) + 1
          : Math.max(common[(i + 1) * wide + j] as number, common[i * wide + j + 1] as number);
  const steps: Step[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const [left, right] = [a[i], b[j]];
    if (i < a.length && j < b.length && left === right) {
      steps.push({ sign: " ", line: left as string });
      i++;
      j++;
    } else if (
      j >= b.length ||
      (i < a.length &&
        (common[(i + 1) * wide + j] as number) >= (common[i * wide + j + 1] as number))
    ) {
      steps.push({ sign: "-", line: left as string });
      i++;
    } else {
      steps.push({ sign: "+", line: right as string });
      j++;
    }
  }
  return steps;
}
