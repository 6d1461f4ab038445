/**
 * Replacing a part of a transcript: which messages change, and which must not.
 *
 * TRANSCRIPT-1  A message that stays the same is not written again: it keeps its number, its time
 *               and what its provider said of it.
 * TRANSCRIPT-2  No change leaves a call without its answer, or an answer without its call, that had
 *               it before.
 */
import { type Message, type MessageInput, partsOf } from "../messages/message.js";
import { entriesIn, listOf } from "../values/check-options.js";
import { type Digest, digest } from "../values/digest.js";
import { equal, type JsonObject } from "../values/json.js";
import { content } from "./diff.js";

/** Takes messages out at a place, and puts others there. */
export interface TranscriptChange<M> {
  readonly start: number;
  readonly remove: number;
  readonly add: readonly M[];
}

/**
 * Compute the version of a transcript from its messages.
 * Another text, another order or another id makes it another version. A fork, an export and a
 * rewind to the same messages have the same one.
 *
 * @example
 * const { messages } = await hold.sessions.state("chat-1");
 * await hold.sessions.replace("chat-1", [], { version: transcriptVersion(messages) });
 */
export function transcriptVersion(messages: readonly Message[]): Digest {
  const read = listOf(messages, "messages", "a list of messages").map(
    (message, i) =>
      Object.fromEntries(entriesIn(message, `messages[${i}]`, "a message")) as unknown as Message,
  );
  return digest(JSON.stringify(read.map((message) => [message.id, content(message)])));
}

/**
 * Whether a message that is given is the one that is there. Fields of its provider need not be
 * given again.
 */
export function isSameMessage(present: Message, given: MessageInput): boolean {
  if (given.id !== undefined && given.id !== present.id) return false;
  const { provider, reply, ...said } = content(present) as JsonObject;
  const kept = {
    ...said,
    ...(given.provider !== undefined && provider !== undefined && { provider }),
    ...(given.reply !== undefined && reply !== undefined && { reply }),
  };
  return equal(kept, content(given));
}

/** With more changes than these it is one change of the whole range: each looks at all ids. */
const MOST_CHANGES = 100;

/**
 * What has to change so that the messages in a range become those that are given, in order and
 * apart from each other. Messages are known by their ids; without one, by standing next to another
 * that stays, or at the end. The id of a message that another one names is not free.
 */
export function changesBetween(
  present: readonly Message[],
  range: { readonly start: number; readonly count: number },
  given: readonly MessageInput[],
): readonly TranscriptChange<number>[] {
  const end = range.start + range.count;
  const places = new Map(present.slice(range.start, end).map(({ id }, i) => [id, range.start + i]));
  const named = new Set(given.map(({ id }) => id));
  const stays = (there: Message, message: MessageInput) =>
    (message.id !== undefined || !named.has(there.id)) && isSameMessage(there, message);
  const tail = sameAtEnd(present, range, given, stays);
  const changes: TranscriptChange<number>[] = [];
  let at = range.start;
  let add: number[] = [];
  const close = (upTo: number) => {
    if (upTo > at || add.length > 0) changes.push({ start: at, remove: upTo - at, add });
    add = [];
  };
  given.slice(0, given.length - tail).forEach((message, i) => {
    const place =
      message.id === undefined ? (add.length === 0 ? at : undefined) : places.get(message.id);
    const there =
      place === undefined || place < at || place >= end - tail ? undefined : present[place];
    if (place === undefined || there === undefined || !stays(there, message)) add.push(i);
    else {
      close(place);
      at = place + 1;
    }
  });
  close(end - tail);
  return changes.length > MOST_CHANGES || movesBack(present, given, changes)
    ? [asOne(changes, range, given.length)]
    : changes;
}

function sameAtEnd(
  present: readonly Message[],
  { start, count }: { readonly start: number; readonly count: number },
  given: readonly MessageInput[],
  stays: (there: Message, message: MessageInput) => boolean,
): number {
  const most = Math.min(count, given.length);
  let same = 0;
  while (
    same < most &&
    stays(present[start + count - 1 - same] as Message, given.at(-1 - same) as MessageInput)
  )
    same++;
  return same;
}

/** Whether a message comes in one change under an id that only goes in a later one. */
function movesBack(
  present: readonly Message[],
  given: readonly MessageInput[],
  changes: readonly TranscriptChange<number>[],
): boolean {
  const leaves = new Map(
    changes.flatMap(({ start, remove }, i) =>
      present.slice(start, start + remove).map(({ id }) => [id, i] as const),
    ),
  );
  return changes.some(({ add }, i) => add.some((at) => (leaves.get(given[at]?.id ?? "") ?? i) > i));
}

/** All changes as one, from the first to the last: what stays in between is written again. */
function asOne(
  changes: readonly TranscriptChange<number>[],
  range: { readonly start: number; readonly count: number },
  given: number,
): TranscriptChange<number> {
  const start = changes[0]?.start ?? range.start;
  const last = changes.at(-1);
  const end = last === undefined ? start : last.start + last.remove;
  // Before the first change and behind the last one, messages stay one for one.
  const before = start - range.start;
  const behind = range.start + range.count - end;
  return {
    start,
    remove: end - start,
    add: Array.from({ length: given - before - behind }, (_, i) => before + i),
  };
}

/** How the calls of a transcript stand, by their ids. */
interface Ends {
  /** Calls that something else follows before their answer, and answers without a call. */
  readonly loose: ReadonlySet<string>;
  /** Calls at the end that have no answer yet. */
  readonly open: ReadonlySet<string>;
  readonly answered: ReadonlySet<string>;
}

function endsOf(messages: Iterable<MessageInput>): Ends {
  const open = new Set<string>();
  const loose = new Set<string>();
  const answered = new Set<string>();
  for (const message of messages) {
    const parts = partsOf(message);
    const calls = parts.flatMap((part) =>
      part.type === "tool-call" && part.by !== "provider" ? [part.callId] : [],
    );
    const answers = parts.flatMap((part) =>
      part.type === "tool-result" && part.by !== "provider" ? [part.callId] : [],
    );
    for (const answer of answers) (open.delete(answer) ? answered : loose).add(answer);
    if (answers.length === 0 && calls.length === 0) {
      for (const call of open) loose.add(call);
      open.clear();
    }
    for (const call of calls) open.add(call);
  }
  return { loose, open, answered };
}

/** TRANSCRIPT-2: a call that a change would part from its answer; undefined where there is none. */
export function tornCall(
  before: Iterable<MessageInput>,
  after: Iterable<MessageInput>,
): string | undefined {
  const [was, is] = [endsOf(before), endsOf(after)];
  const loose = [...is.loose].find((call) => !was.loose.has(call));
  return loose ?? [...is.open].find((call) => was.answered.has(call) && !was.open.has(call));
}
