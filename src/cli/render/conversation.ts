/**
 * A session as one reads a conversation: who said what, which calls were made, and what became of
 * them.
 */
import type { Json, Message, Part, SessionEvent } from "../../index.js";
import type { Terminal } from "../terminal/terminal.js";
import { block, bytesOf, clip, inline, oneLine, size, wrap } from "../terminal/text.js";
import { partsOf } from "./spoken.js";
import { painted } from "./status.js";

/**
 * What became of calls, by the place of the reply that asked for them and which of its calls it is;
 * and those made by hand, by number.
 */
export interface Calls {
  readonly inReplies: ReadonlyMap<string, CallOutcome>;
  readonly byHand: readonly (CallOutcome & { readonly seq: number })[];
}

interface CallOutcome {
  readonly effectId: string;
  readonly name: string;
  readonly state: string;
  readonly by?: string;
  /** What somebody said who approved it: another input, a note. */
  readonly approved?: { readonly by?: string; readonly input?: Json; readonly note?: string };
  readonly input?: Json;
  readonly output?: Json;
}

export const NO_CALLS: Calls = { inReplies: new Map(), byHand: [] };

/**
 * Puts together what the events of a session tell of calls, up to a cursor. Undefined where that
 * does not come: it is another past.
 */
export async function callsIn(
  events: AsyncIterable<SessionEvent>,
  upTo?: string,
): Promise<Calls | undefined> {
  const calls = new Map<string, { outcome: CallOutcome; at: string | undefined; seq: number }>();
  let isThere = upTo === undefined;
  for await (const event of events) {
    if (event.type === "tool") {
      const known = calls.get(event.effectId);
      const outcome = told(known?.outcome, event);
      const at = event.call === undefined ? known?.at : `${event.call.seq}.${event.call.index}`;
      calls.set(event.effectId, { outcome, at, seq: known?.seq ?? seqOf(event.cursor) });
    }
    if (event.cursor !== upTo) continue;
    isThere = true;
    break;
  }
  if (!isThere) return undefined;
  const all = [...calls.values()];
  return {
    inReplies: new Map(
      all.flatMap(({ at, outcome }) => (at === undefined ? [] : [[at, outcome] as const])),
    ),
    byHand: all.flatMap(({ at, outcome, seq }) => (at === undefined ? [{ ...outcome, seq }] : [])),
  };
}

function told(
  before: CallOutcome | undefined,
  event: Extract<SessionEvent, { type: "tool" }>,
): CallOutcome {
  const { effectId, state, by, input, note, output } = event;
  const isFirst = before === undefined;
  const isApproved = state === "ready" && (by !== undefined || input !== undefined);
  return {
    ...before,
    effectId,
    name: event.name ?? before?.name ?? "",
    state,
    ...(by !== undefined && !isApproved && { by }),
    ...(isApproved && {
      approved: {
        ...(by !== undefined && { by }),
        ...(input !== undefined && { input }),
        ...(note !== undefined && { note }),
      },
    }),
    ...(isFirst && input !== undefined && { input }),
    ...(output !== undefined && { output }),
  };
}

const seqOf = (cursor: string): number => Number(cursor.slice(cursor.indexOf("-") + 1));

const MOST_LINES = 40;
const MOST_CHARS = 4_000;

/** From a message on: `from` counts them. */
export function* conversation(
  messages: readonly Message[],
  calls: Calls,
  terminal: Terminal,
  { isFull, from }: { readonly isFull: boolean; readonly from: number },
): Generator<string> {
  const first = from === 0 ? 0 : (messages[from]?.seq ?? 0);
  const byHand = calls.byHand.filter(({ seq }) => seq >= first).sort((a, b) => a.seq - b.seq);
  const view = new View(terminal, answered(messages, calls), isFull);
  for (const message of messages.slice(from)) {
    while ((byHand[0]?.seq ?? Number.POSITIVE_INFINITY) < message.seq)
      yield* view.byHand(byHand.shift() as CallOutcome);
    yield* view.message(message);
  }
  for (const call of byHand) yield* view.byHand(call);
}

/**
 * Of a call that may be made again, the journal keeps only what it answered: the message with its
 * result tells that it is over. A result is of the first call of its id that has none yet, for ids
 * are used again.
 */
function answered(messages: readonly Message[], calls: Calls): Calls {
  const inReplies = new Map(calls.inReplies);
  const waiting = new Map<string, { readonly at: string; readonly name: string }[]>();
  for (const message of messages) {
    let nth = 0;
    for (const part of partsOf(message)) {
      if (part.type === "tool-call") {
        const known = waiting.get(part.callId) ?? [];
        waiting.set(part.callId, [...known, { at: `${message.seq}.${nth++}`, name: part.name }]);
      } else if (part.type === "tool-result") {
        const call = waiting.get(part.callId)?.shift();
        const known = call && inReplies.get(call.at);
        if (
          call === undefined ||
          (known !== undefined && known.state !== "started" && known.state !== "ready")
        )
          continue;
        inReplies.set(call.at, {
          effectId: "",
          ...known,
          name: call.name,
          state: part.outcome === "ok" ? "done" : part.outcome,
        });
      }
    }
  }
  return { ...calls, inReplies };
}

class View {
  readonly #terminal: Terminal;
  readonly #calls: Calls;
  readonly #isFull: boolean;

  constructor(terminal: Terminal, calls: Calls, isFull: boolean) {
    this.#terminal = terminal;
    this.#calls = calls;
    this.#isFull = isFull;
  }

  *message(message: Message): Generator<string> {
    const { paint } = this.#terminal;
    const { role, name, content, createdAt, reply, seq } = message;
    const who = {
      user: paint.cyan,
      assistant: paint.green,
      system: paint.yellow,
      tool: paint.magenta,
    }[role];
    const tokens = reply?.usage === undefined ? "" : `, ${tokensOf(reply.usage)}`;
    const model = reply?.model === undefined ? "" : `, ${inline(reply.model)}`;
    const about = `${this.#terminal.time(createdAt)}, ${size(bytesOf(content))}${model}${tokens}`;
    yield `${paint.bold(who(role))}${name === undefined ? "" : ` ${inline(name)}`}  ${paint.dim(`#${seq}, ${about}`)}`;
    if (typeof content === "string") yield* this.#text(content);
    else {
      let nth = 0;
      for (const part of content)
        yield* this.#part(part, part.type === "tool-call" ? `${seq}.${nth++}` : "");
    }
    yield "";
  }

  *byHand(call: CallOutcome): Generator<string> {
    const { paint } = this.#terminal;
    const { name, input, output, effectId } = call;
    yield* this.#folded(
      `${paint.bold("call")} ${paint.bold(inline(name))}`,
      input ?? null,
      `  ${this.#outcome(call)}  ${paint.dim(effectId)}`,
    );
    if (output !== undefined) yield* this.#folded(`  ${paint.bold("←")}`, output, "");
    yield "";
  }

  #outcome({ state, by, approved }: CallOutcome): string {
    const { paint } = this.#terminal;
    const who = by === undefined ? "" : ` by ${inline(by)}`;
    if (approved === undefined) return `${painted(state, paint)}${paint.dim(who)}`;
    const otherwise =
      approved.input === undefined
        ? ""
        : ` with ${clip(inline(JSON.stringify(approved.input)), 200)}`;
    const note = approved.note === undefined ? "" : `: ${oneLine(approved.note)}`;
    return `${painted(state, paint)}${paint.dim(`${who}, approved${approved.by === undefined ? "" : ` by ${inline(approved.by)}`}${otherwise}${note}`)}`;
  }

  *#part(part: Part, call: string): Generator<string> {
    const { paint } = this.#terminal;
    switch (part.type) {
      case "text":
        return yield* this.#text(part.text);
      case "reasoning":
        for (const line of this.#lines(part.text)) yield `  ${paint.dim(line)}`;
        return;
      case "file":
        yield `  ${paint.blue("file")} ${inline(part.name ?? "")}${part.name === undefined ? "" : " "}${paint.dim(`${inline(part.mediaType)}, ${fileData(part.data)}`)}`;
        return;
      case "tool-call": {
        const outcome = this.#calls.inReplies.get(call);
        const state = outcome === undefined ? "" : `  ${this.#outcome(outcome)}`;
        yield* this.#folded(
          `  ${paint.bold("→")} ${paint.bold(inline(part.name))}`,
          part.input,
          state,
        );
        if (outcome?.state === "in-doubt" || outcome?.state === "waiting")
          yield paint.dim(`      ${outcome.effectId}`);
        return;
      }
      case "tool-result": {
        const name = part.name === undefined ? "" : ` ${inline(part.name)}`;
        const state = part.outcome === "ok" ? "" : `  ${painted(part.outcome, paint)}`;
        yield* this.#folded(`  ${paint.bold("←")}${name}`, part.output as Json, state);
        return;
      }
      case "opaque":
        yield `  ${paint.blue("kept as it came")} ${paint.dim(`${inline(part.format)}, ${size(bytesOf(part.value))}`)}`;
        if (part.text !== undefined) yield* this.#text(part.text);
    }
  }

  *#text(text: string): Generator<string> {
    for (const line of this.#lines(text)) yield line === "" ? "" : `  ${line}`;
  }

  *#lines(text: string): Generator<string> {
    const lines = block(text);
    const shown = this.#isFull ? lines : lines.slice(0, MOST_LINES);
    for (const line of shown)
      yield* wrap(this.#isFull ? line : cut(line), this.#terminal.columns - 2);
    if (shown.length < lines.length)
      yield this.#terminal.paint.dim(
        `… ${lines.length - shown.length} more lines; --full shows them`,
      );
  }

  /** A value behind its beginning: in one line where it fits, otherwise cut, with its size. */
  *#folded(before: string, value: Json, after: string): Generator<string> {
    const { paint, columns } = this.#terminal;
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const room = Math.min(columns, 120) - 8;
    const short = oneLine(text);
    if (short.length <= room) {
      yield `${before} ${short}${after}`;
      return;
    }
    yield `${before}${after}  ${paint.dim(size(Buffer.byteLength(text)))}`;
    const lines =
      typeof value === "string" ? block(value) : block(JSON.stringify(value, undefined, 2));
    const shown = this.#isFull ? lines : lines.slice(0, 8);
    for (const line of shown)
      for (const row of wrap(this.#isFull ? line : clip(line, 400), columns - 6))
        yield `      ${row}`;
    if (shown.length < lines.length)
      yield paint.dim(`      … ${lines.length - shown.length} more lines; --full shows them`);
  }
}

/** A line that has no end is not shown to its end. */
const cut = (line: string): string =>
  line.length <= MOST_CHARS
    ? line
    : `${line.slice(0, MOST_CHARS)}… (${size(Buffer.byteLength(line))} in this line; --full shows it)`;

function fileData(data: Extract<Part, { type: "file" }>["data"]): string {
  if ("digest" in data) return `${size(data.sizeBytes)}, ${data.digest.slice(0, 12)}`;
  if ("url" in data) return inline(data.url);
  if ("text" in data) return size(Buffer.byteLength(data.text));
  return "ref" in data ? oneLine(JSON.stringify(data.ref)) : "bytes";
}

function tokensOf({
  inputTokens = 0,
  outputTokens = 0,
}: {
  readonly inputTokens?: number;
  readonly outputTokens?: number;
}): string {
  return `${inputTokens.toLocaleString("en-US")} → ${outputTokens.toLocaleString("en-US")} tokens`;
}
