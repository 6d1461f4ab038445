import type { Holdfast, SessionEvent } from "../../../index.js";
import { command, flag, number, SESSION } from "../../framework/command.js";
import { requireSession, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { othersOf, textOf } from "../../render/spoken.js";
import type { Terminal } from "../../terminal/terminal.js";
import { clip, inline, json as jsonText, oneLine, size } from "../../terminal/text.js";
import { JSON_VERSION } from "../../terminal/version.js";

const LIMIT = 20;

export const tail = command({
  name: "tail",
  group: "look",
  looks: true,
  says: "the latest events of a session; with -f also those to come, from any process",
  words: [SESSION],
  options: {
    follow: flag("go on, as it happens, until Ctrl-C or until the session is deleted", "f"),
    lines: number("N", `how many of what is past, ${LIMIT} by default`, 0, 100_000, "n"),
  },
  examples: [["holdfast tail -f order-42", "while another process works on it"]],
  async run({
    words: [word = ""],
    options: { follow, lines: most = LIMIT, json },
    terminal,
    hold,
    signal,
    line,
  }) {
    const store = await hold();
    const { id } = await requireSession(store, word);
    const print = (event: SessionEvent) =>
      process.stdout.write(json ? `${jsonText(event)}\n` : `${told(event, terminal)}\n`);
    if (json)
      process.stdout.write(
        `${jsonText({ version: JSON_VERSION, command: "tail", session: id })}\n`,
      );
    const { events, after } = await last(store, id, most, signal);
    for (const event of events) print(event);
    if (!follow) {
      if (!json) terminal.next([[line(propose("tail", [id], { f: true })), ""]]);
      return undefined;
    }
    for await (const event of store.sessions.events(id, {
      signal,
      ...(after !== undefined && { after }),
    }))
      print(event);
    return undefined;
  },
});

/** The newest events, and where to go on: read from a checkpoint that is far enough back. */
async function last(hold: Holdfast, id: string, most: number, signal: AbortSignal) {
  const { items } = await hold.checkpoints.list(id, { limit: Math.min(1_000, most + 1) });
  const from = items.length > most ? items.at(-1)?.id : undefined;
  const events: SessionEvent[] = [];
  let after: string | undefined = from;
  for await (const event of hold.sessions.events(id, {
    live: false,
    signal,
    ...(from !== undefined && { after: from }),
  })) {
    after = event.cursor;
    events.push(event);
    if (events.length > 2 * most + 100) events.splice(0, events.length - most);
  }
  return { events: most === 0 ? [] : events.slice(-most), after };
}

const MOST_CHARS = 2_000;

function told(event: SessionEvent, terminal: Terminal): string {
  const { paint, columns } = terminal;
  const seq = paint.dim(event.cursor.slice(event.cursor.indexOf("-") + 1).padStart(5));
  const at = paint.dim((event.at === undefined ? "" : event.at.slice(11, 19)).padEnd(8));
  const [what, text] = words(event, terminal);
  return `${seq} ${at} ${what} ${clip(text, Math.min(MOST_CHARS, Math.max(4, columns - 28)))}`;
}

/** What kind of thing it is, coloured, and the rest in words. */
function words(event: SessionEvent, { paint }: Terminal): [string, string] {
  const kind = (name: string, colour: (text: string) => string) => colour(name.padEnd(12));
  switch (event.type) {
    case "message":
      return [
        kind(event.message.role, paint.cyan),
        oneLine([textOf(event.message), ...othersOf(event.message)].join(" ")),
      ];
    case "splice":
      return [
        kind("splice", paint.yellow),
        `${event.removed} messages from ${event.start} on${event.message ? `, in their place: ${oneLine(textOf(event.message))}` : ""}`,
      ];
    case "state":
      return [
        kind("set", paint.blue),
        `${inline(event.key)} = ${inline(JSON.stringify(event.value))}`,
      ];
    case "unset":
      return [kind("unset", paint.blue), inline(event.key)];
    case "list":
      return [
        kind("list", paint.blue),
        `${inline(event.key)}: ${event.removed} out, ${event.items.length} in at ${event.start}`,
      ];
    case "status":
      return [
        kind("status", paint.bold),
        `${event.status}${event.reason === undefined ? "" : `: ${oneLine(event.reason)}`}`,
      ];
    case "checkpoint": {
      const { id, step, kind: made, label, sizeBytes } = event.checkpoint;
      return [
        kind("checkpoint", paint.yellow),
        `${short(id)}  step ${step}, ${made}, ${size(sizeBytes)}${label === undefined ? "" : `, ${oneLine(label)}`}`,
      ];
    }
    case "turn":
      return [kind("turn", paint.dim), inline(event.turnId)];
    case "tool": {
      const { effectId, name, state, by } = event;
      return [
        kind("call", paint.magenta),
        `${name === undefined ? "" : `${inline(name)} `}${state}${by === undefined ? "" : ` by ${inline(by)}`}  ${effectId}`,
      ];
    }
    case "rewind":
      return [kind("rewind", paint.red), `to ${short(event.to)}`];
  }
}
