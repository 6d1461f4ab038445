import type { Checkpoint, Holdfast, Json, SessionSummary } from "../../../index.js";
import { type Answer, command, flag, number } from "../../framework/command.js";
import { resolve, short } from "../../framework/ids.js";
import { type Proposal, propose } from "../../framework/next-steps.js";
import type { SessionState } from "../../framework/types.js";
import { type Calls, callsIn, conversation, NO_CALLS } from "../../render/conversation.js";
import { painted } from "../../render/status.js";
import type { Terminal } from "../../terminal/terminal.js";
import { block, bytesOf, clip, counted, inline, oneLine, size, wrap } from "../../terminal/text.js";
import { deciding } from "./effects.js";

export const show = command({
  name: "show",
  group: "look",
  looks: true,
  says: "a session, or one of its checkpoints, as a conversation: messages, calls and what became of them, state",
  words: [
    {
      name: "ID",
      says: "of a session or a checkpoint; SESSION@12 is a session's checkpoint 12",
      completes: "checkpoint",
    },
  ],
  options: {
    full: flag("cut nothing short"),
    last: number("N", "only the last so many messages", 1, 1_000_000, "n"),
    state: flag("only the state"),
  },
  examples: [
    ["holdfast show order-42", ""],
    ["holdfast show order-42@~1 --full", "the checkpoint before its newest, nothing cut"],
    ["holdfast show order-42 --state --json", ""],
  ],
  async run({
    words: [word = ""],
    options: { full, last, state: onlyState },
    terminal,
    hold,
  }): Promise<Answer> {
    const store = await hold();
    const named = await resolve(store, word);
    const at = named.kind === "checkpoint" ? named.checkpoint : undefined;
    const there = await stateOf(
      store,
      named.kind === "session" ? named.session.id : named.checkpoint.sessionId,
      at,
    );
    const calls = onlyState ? NO_CALLS : await callsOf(store, there.session, at);
    const json = {
      session: there.session,
      ...(at && { checkpoint: at }),
      status: there.status,
      state: there.state,
    };
    const lines = onlyState
      ? block(JSON.stringify(there.state, undefined, 2))
      : whole(there, at, calls, terminal, { isFull: full, last });
    return {
      json: onlyState
        ? json
        : {
            ...json,
            messages: there.messages,
            effects: there.effects,
            calls: [...calls.inReplies.values(), ...calls.byHand],
          },
      lines,
      next: nextOf(there, at),
      pages: true,
    };
  },
});

/** A checkpoint may be of a past that its session has left: it is read by itself. */
async function stateOf(
  hold: Holdfast,
  id: string,
  at: Checkpoint | undefined,
): Promise<SessionState> {
  if (at === undefined) return hold.sessions.state(id);
  const [{ checkpoint: _, ...there }, session] = await Promise.all([
    hold.checkpoints.state(at.id),
    hold.sessions.get(id),
  ]);
  return { session: session ?? (await hold.sessions.state(id)).session, ...there };
}

async function callsOf(
  hold: Holdfast,
  { id }: SessionSummary,
  at: Checkpoint | undefined,
): Promise<Calls> {
  return (await callsIn(hold.sessions.events(id, { live: false }), at?.id)) ?? NO_CALLS;
}

function nextOf(
  { session, status, effects }: SessionState,
  at: Checkpoint | undefined,
): Proposal[] {
  if (at !== undefined)
    return [
      propose("fork", [at.id], {}, "another way from here"),
      propose("rewind", [session.id, at.id], {}, "back to here"),
    ];
  const open = effects.find((effect) => effect.status === status);
  return open === undefined ? [propose("log", [session.id], { graph: true })] : deciding(open);
}

function* whole(
  there: SessionState,
  at: Checkpoint | undefined,
  calls: Calls,
  terminal: Terminal,
  {
    isFull,
    last = Number.POSITIVE_INFINITY,
  }: { readonly isFull: boolean; readonly last: number | undefined },
): Generator<string> {
  yield* head(there, at, terminal);
  yield "";
  if (there.messages.length === 0 && calls.byHand.length === 0) {
    yield terminal.paint.dim("Nothing was said yet.");
    yield "";
  }
  const left = Math.max(0, there.messages.length - last);
  if (left > 0) {
    yield terminal.paint.dim(`… ${counted(left, "message")} before these`);
    yield "";
  }
  yield* conversation(there.messages, calls, terminal, { isFull, from: left });
  yield* stateLines(there.state, terminal, isFull);
  yield* openCalls(there, terminal);
}

function* head(
  { session, status, messages }: SessionState,
  at: Checkpoint | undefined,
  terminal: Terminal,
): Generator<string> {
  const { paint } = terminal;
  const { id, agent, title, tags, createdAt, updatedAt, forkPoint, reason, archived } = session;
  const bytes = messages.reduce((sum, { content }) => sum + bytesOf(content), 0);
  yield `${paint.bold(inline(id))}  ${painted(at?.status ?? status, paint)}${agent === undefined ? "" : `  ${inline(agent)}`}${archived ? paint.dim("  archived") : ""}`;
  if (title !== undefined) yield paint.cyan(clip(oneLine(title), terminal.columns));
  if (reason !== undefined && at === undefined)
    for (const line of block(reason))
      for (const row of wrap(line, terminal.columns)) yield paint.red(row);
  yield paint.dim(
    `begun ${terminal.time(createdAt)}, last saved ${terminal.time(updatedAt)}, ${counted(messages.length, "message")}, ${size(bytes)}`,
  );
  if (tags.length > 0) yield paint.dim(`tags ${tags.map(inline).join(", ")}`);
  if (forkPoint !== undefined)
    yield paint.dim(
      `forked from ${inline(forkPoint.sessionId)} at ${short(forkPoint.checkpointId)}`,
    );
  if (at !== undefined)
    yield paint.dim(
      `at checkpoint ${at.id}, step ${at.step}, ${at.kind}, ${terminal.time(at.createdAt)}${at.label === undefined ? "" : `: ${oneLine(at.label)}`}`,
    );
}

const MOST_CHARS = 400;

function* stateLines(
  state: { readonly [key: string]: Json },
  terminal: Terminal,
  isFull: boolean,
): Generator<string> {
  const entries = Object.entries(state);
  if (entries.length === 0) return;
  const { paint, columns } = terminal;
  yield paint.bold("state");
  for (const [key, value] of entries) {
    const text = JSON.stringify(value);
    const name = `  ${paint.cyan(inline(key))}`;
    if (text.length + key.length + 4 <= Math.min(columns, 120)) yield `${name}  ${inline(text)}`;
    else {
      yield `${name}  ${paint.dim(size(Buffer.byteLength(text)))}`;
      const lines = block(JSON.stringify(value, undefined, 2));
      const shown = isFull ? lines : lines.slice(0, 8).map((line) => clip(line, MOST_CHARS));
      for (const line of shown) for (const row of wrap(line, columns - 4)) yield `    ${row}`;
      if (!isFull && lines.length > 8)
        yield paint.dim(`    … ${lines.length - 8} more lines; --full shows them`);
    }
  }
  yield "";
}

function* openCalls({ effects }: SessionState, terminal: Terminal): Generator<string> {
  if (effects.length === 0) return;
  const { paint } = terminal;
  yield paint.bold("calls that are not over");
  for (const { effectId, name, status, since, mode, waitsFor } of effects)
    yield `  ${painted(status, paint)}  ${paint.bold(inline(name))}  ${effectId}  ${paint.dim(`${mode}, since ${terminal.time(since)}${waitsFor === undefined ? "" : `, waits for ${waitsFor.for}`}`)}`;
  yield "";
}
