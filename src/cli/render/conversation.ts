/** A session as one reads a conversation: who said what, which calls were made, and what became of them. */
import type { Json, Message, Part, SessionEvent } from "../../index.js";
import type { Terminal } from "../terminal.js";
import { block, inline, oneLine, size, wrap } from "../text.js";
import { partsOf } from "./spoken.js";
import { painted } from "./status.js";

/** What became of calls, by the place of the reply that asked for them and which of its calls it is; and those made by hand, by number. */
export interface Calls {
  readonly inReplies: ReadonlyMap<string, CallOutcome>;
  readonly byHand: readonly (CallOutcome & { readonly seq: number })[];
}

interface CallOutcome {
  readonly effectId: string;
  readonly name: string;
  readonly state: string;
  readonly by?: string;
}

export const NO_CALLS: Calls = { inReplies: new Map(), byHand: [] };

/** Puts together what the events of a session tell of calls, up to a cursor. Undefined where that does not come: it is another past. */
export async function callsIn(events: AsyncIterable<SessionEvent>, upTo?: string): Promise<Calls | undefined> {
  const calls = new Map<string, { outcome: CallOutcome; at: string | undefined; seq: number }>();
  let isThere = upTo === undefined;
  for await (const event of events) {
    if (event.type === "tool") {
      const known = calls.get(event.effectId);
      const { effectId, state, by } = event;
      const outcome = { effectId, name: event.name ?? known?.outcome.name ?? "", state, ...(by !== undefined && { by }) };
      const at = event.call === undefined ? known?.at : `${event.call.seq}.${event.call.index}`;
      calls.set(effectId, { outcome, at, seq: known?.seq ?? seqOf(event.cursor) });
    }
    if (event.cursor !== upTo) continue;
    isThere = true;
    break;
  }
  if (!isThere) return undefined;
  const all = [...calls.values()];
  return {
    inReplies: new Map(all.flatMap(({ at, outcome }) => (at === undefined ? [] : [[at, outcome] as const]))),
    byHand: all.flatMap(({ at, outcome, seq }) => (at === undefined ? [{ ...outcome, seq }] : [])),
  };
}

const seqOf = (cursor: string): number => Number(cursor.slice(cursor.indexOf("-") + 1));

const MOST_LINES = 40;

export function* conversation(messages: readonly Message[], calls: Calls, terminal: Terminal, isFull: boolean): Generator<string> {
  const byHand = [...calls.byHand].sort((a, b) => a.seq - b.seq);
  const view = new View(terminal, answered(messages, calls), isFull);
  for (const message of messages) {
    while ((byHand[0]?.seq ?? Number.POSITIVE_INFINITY) < message.seq) yield* view.byHand(byHand.shift() as CallOutcome);
    yield* view.message(message);
  }
  for (const call of byHand) yield* view.byHand(call);
}

/** Of a call that may be made again, the journal keeps only what it answered: the message with its result tells that it is over. */
function answered(messages: readonly Message[], calls: Calls): Calls {
  const outcomes = new Map<string, string>();
  for (const message of messages)
    for (const part of partsOf(message))
      if (part.type === "tool-result") outcomes.set(part.callId, part.outcome === "ok" ? "done" : part.outcome);
  const inReplies = new Map(calls.inReplies);
  for (const message of messages) {
    let nth = 0;
    for (const part of partsOf(message)) {
      if (part.type !== "tool-call") continue;
      const at = `${message.seq}.${nth++}`;
      const outcome = outcomes.get(part.callId);
      const known = inReplies.get(at);
      if (outcome === undefined || (known !== undefined && known.state !== "started" && known.state !== "ready")) continue;
      inReplies.set(at, { effectId: known?.effectId ?? "", name: part.name, state: outcome });
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
    const who = { user: paint.cyan, assistant: paint.green, system: paint.yellow, tool: paint.magenta }[role];
    const tokens = reply?.usage === undefined ? "" : `, ${tokensOf(reply.usage)}`;
    const model = reply?.model === undefined ? "" : `, ${inline(reply.model)}`;
    const about = `${this.#terminal.time(createdAt)}, ${size(JSON.stringify(content).length)}${model}${tokens}`;
    yield `${paint.bold(who(role))}${name === undefined ? "" : ` ${inline(name)}`}  ${paint.dim(`#${seq}, ${about}`)}`;
    if (typeof content === "string") yield* this.#text(content);
    else {
      let nth = 0;
      for (const part of content) yield* this.#part(part, part.type === "tool-call" ? `${seq}.${nth++}` : "");
    }
    yield "";
  }

  *byHand({ name, state, by, effectId }: CallOutcome): Generator<string> {
    const { paint } = this.#terminal;
    yield `${paint.bold("call")} ${paint.bold(inline(name))}  ${painted(state, paint)}${by === undefined ? "" : paint.dim(` by ${inline(by)}`)}  ${paint.dim(effectId)}`;
    yield "";
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
        const state =
          outcome === undefined
            ? ""
            : `  ${painted(outcome.state, paint)}${outcome.by === undefined ? "" : paint.dim(` by ${inline(outcome.by)}`)}`;
        yield* this.#folded(`  ${paint.bold("→")} ${paint.bold(inline(part.name))}`, part.input, state);
        if (outcome?.state === "in-doubt" || outcome?.state === "waiting") yield paint.dim(`      ${outcome.effectId}`);
        return;
      }
      case "tool-result": {
        const name = part.name === undefined ? "" : ` ${inline(part.name)}`;
        const state = part.outcome === "ok" ? "" : `  ${painted(part.outcome, paint)}`;
        yield* this.#folded(`  ${paint.bold("←")}${name}`, part.output as Json, state);
        return;
      }
      case "opaque":
        yield `  ${paint.blue("kept as it came")} ${paint.dim(`${inline(part.format)}, ${size(JSON.stringify(part.value).length)}`)}`;
        if (part.text !== undefined) yield* this.#text(part.text);
    }
  }

  *#text(text: string): Generator<string> {
    for (const line of this.#lines(text)) yield line === "" ? "" : `  ${line}`;
  }

  *#lines(text: string): Generator<string> {
    const lines = block(text);
    const shown = this.#isFull ? lines : lines.slice(0, MOST_LINES);
    for (const line of shown) yield* wrap(line, this.#terminal.columns - 2);
    if (shown.length < lines.length) yield this.#terminal.paint.dim(`… ${lines.length - shown.length} more lines; --full shows them`);
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
    const lines = typeof value === "string" ? block(value) : block(JSON.stringify(value, undefined, 2));
    const shown = this.#isFull ? lines : lines.slice(0, 8);
    for (const line of shown) for (const row of wrap(line, columns - 6)) yield `      ${this.#isFull ? row : row.slice(0, 400)}`;
    if (shown.length < lines.length) yield paint.dim(`      … ${lines.length - shown.length} more lines; --full shows them`);
  }
}

function fileData(data: Extract<Part, { type: "file" }>["data"]): string {
  if ("digest" in data) return `${size(data.sizeBytes)}, ${data.digest.slice(0, 12)}`;
  if ("url" in data) return inline(data.url);
  if ("text" in data) return size(data.text.length);
  return "ref" in data ? oneLine(JSON.stringify(data.ref)) : "bytes";
}

function tokensOf({ inputTokens = 0, outputTokens = 0 }: { readonly inputTokens?: number; readonly outputTokens?: number }): string {
  return `${inputTokens.toLocaleString("en-US")} → ${outputTokens.toLocaleString("en-US")} tokens`;
}
