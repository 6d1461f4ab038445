/**
 * Replacing and removing messages of a session from outside a run. The caller holds the session for
 * just that.
 *
 * REPLACE-1  What was replaced stays in the journal, and a checkpoint before the change leads back
 *            to it.
 * REPLACE-2  The change is made to the transcript that the caller has seen, or not at all:
 *            CONFLICT.
 * REPLACE-3  No change is made while another process holds the session (LEASE_HELD), while a turn
 *            is open (TURN_OPEN), or while a call is not over (BAD_STATUS).
 * REPLACE-4  Nothing is set going by it: a session that has come to rest stays so.
 */
import {
  changesBetween,
  isSameMessage,
  type TranscriptChange,
  tornCall,
  transcriptVersion,
} from "../../core/journal/transcript-change.js";
import type { EncodedMessage, Message, MessageInput } from "../../core/messages/message.js";
import { digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, sessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { once, type Receipt } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { type OutsideOptions, waitOf, withSession } from "../../engine/lifecycle/with-session.js";
import { type GivenMessages, readMessages } from "../../engine/session/given-messages.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import { isOpen } from "../../engine/session/settle-calls.js";
import { invalid, options, scopeOf, wholeNumber } from "../../engine/util/validate.js";

export interface ReplaceOptions extends OutsideOptions {
  /** The transcript that the caller has seen: `transcriptVersion(messages)`. */
  readonly version: string;
  /** The id of the first message that goes. Without it, all messages go. */
  readonly from?: string;
  /** How many go, beginning with `from`; 1 by default. With 0 the messages are put before it. */
  readonly count?: number;
}

export interface ReplaceReport {
  /** How many messages went, and how many came. One that stays the same counts as neither. */
  readonly removed: number;
  readonly added: number;
  /** How many messages there are now. */
  readonly length: number;
  /**
   * The checkpoint before the change, to go back to; absent where nothing changed, or there was no
   * message before.
   */
  readonly before?: string;
}

interface Range {
  readonly from: string | undefined;
  readonly count: number | undefined;
}

interface Given extends Range {
  readonly version: string;
  readonly encoded: readonly EncodedMessage[];
}

export async function replaceIn(
  ctx: StoreContext,
  id: string,
  given: GivenMessages,
  o: ReplaceOptions,
): Promise<ReplaceReport> {
  const session = sessionId(id);
  const fields = options(o, "sessions.replace", [
    "version",
    "from",
    "count",
    "key",
    "waitMs",
    "signal",
  ]);
  const { version, count, key, waitMs, signal } = fields;
  const from = scopeOf(fields, "from");
  if (typeof version !== "string")
    throw invalid(
      "version",
      "it must be given: `transcriptVersion` of the messages that you have seen",
    );
  if (count !== undefined && from === undefined)
    throw invalid("count", "it counts from a message: give `from` with it");
  const range = {
    from: from === undefined ? undefined : checkName(from, "from"),
    count:
      count === undefined ? undefined : wholeNumber(count, "count", 0, Number.MAX_SAFE_INTEGER),
  };
  const { encoded } = readMessages(ctx, given);
  const said = digest(encoded.map(({ text }) => text).join("\n"));
  return once<JsonObject, ReplaceReport>(
    ctx,
    { key, name: "sessions.replace", to: session, args: { said, version, ...range } },
    (receipt) =>
      withSession(ctx, session, waitOf(waitMs, signal), (held) =>
        replace(held, { ...range, version, encoded }, receipt),
      ),
    (kept) => kept as unknown as ReplaceReport,
  );
}

async function replace(
  held: HeldSession,
  given: Given,
  receipt: Receipt<JsonObject>,
): Promise<ReplaceReport> {
  const { work } = held;
  const present = work.fold.messages;
  refuseBusy(held);
  if (transcriptVersion(present) !== given.version) throw another(held.id);
  const changes = changesIn(held, present, given);
  const sum = (of: (change: TranscriptChange<EncodedMessage>) => number) =>
    changes.reduce((all, change) => all + of(change), 0);
  const [removed, added] = [sum(({ remove }) => remove), sum(({ add }) => add.length)];
  const length = present.length + added - removed;
  if (changes.length === 0) {
    if (receipt.isKept)
      receipt.check(await held.ctx.store.apply([], receipt.docs({ removed, added, length })), 0);
    return { removed, added, length };
  }
  refuseTornCalls(held, present, changes);
  const before = present.length === 0 ? undefined : await checkpointHere(held);
  const answer = { removed, added, length, ...(before !== undefined && { before }) };
  work.spliceFromOutside(changes);
  await held.checkpoint({ kind: "automatic", step: work.fold.step }, () => receipt.docs(answer));
  return answer;
}

/** REPLACE-1 */
async function checkpointHere(held: HeldSession): Promise<string> {
  const { latest, fold } = held.work;
  return (
    latest?.seq === fold.seq
      ? latest
      : await held.checkpoint({ kind: "pre-operation", step: fold.step })
  ).id;
}

/** REPLACE-3 */
function refuseBusy({ id, work }: HeldSession): void {
  if (isOpen(work))
    throw new HoldfastError(
      "TURN_OPEN",
      `A turn is under way in session ${quote(id)}: its messages cannot be replaced before it is over. Let it finish, or cancel it.`,
      { sessionId: id },
    );
  const [open] = work.fold.inFlight.open;
  if (open === undefined) return;
  const end =
    open.phase === "waiting"
      ? `Approve or deny it: \`hold.effects.deny("${open.id}", { reason })\``
      : "Let it finish, or settle it";
  throw new HoldfastError(
    "BAD_STATUS",
    `The call of ${quote(open.name)} (${open.id}) in session ${quote(id)} is not over: its messages cannot be replaced before it is. ${end}.`,
    { sessionId: id, effectId: open.id },
  );
}

function changesIn(
  { work }: HeldSession,
  present: readonly Message[],
  { encoded, from, count }: Given,
): readonly TranscriptChange<EncodedMessage>[] {
  const found = from === undefined ? 0 : present.findIndex(({ id }) => id === from);
  if (found === -1)
    throw invalid("from", `there is no message ${quote(from ?? "")} in the transcript`);
  const left = present.length - found;
  const range = {
    start: found,
    count: from === undefined ? left : wholeNumber(count ?? 1, "count", 0, left),
  };
  refuseTakenIds(present, range, encoded);
  const byId = new Map(
    present.slice(range.start, range.start + range.count).map((message) => [message.id, message]),
  );
  const asStored = (at: number): EncodedMessage => {
    const message = encoded[at] as EncodedMessage;
    const there = byId.get(message.value.id ?? "");
    // One that only moves keeps what its provider said of it.
    return there !== undefined && isSameMessage(there, message.value)
      ? work.encode(there, `messages[${at}]`)
      : message;
  };
  return changesBetween(
    present,
    range,
    encoded.map(({ value }) => value),
  ).map((change) => ({ ...change, add: change.add.map(asStored) }));
}

/**
 * An id names one message. Staging passes over a message that is there already, so one that stays
 * must not be given again.
 */
function refuseTakenIds(
  present: readonly Message[],
  range: { start: number; count: number },
  encoded: readonly EncodedMessage[],
): void {
  const staying = new Set(present.toSpliced(range.start, range.count).map(({ id }) => id));
  const given = new Set<string>();
  for (const [at, { value }] of encoded.entries()) {
    const { id } = value;
    if (id === undefined) continue;
    const why = staying.has(id)
      ? "is not among those that you replace"
      : given.has(id)
        ? "is given twice"
        : undefined;
    given.add(id);
    if (why === undefined) continue;
    const path = `messages[${at}].id`;
    throw new HoldfastError(
      "CONFLICT",
      `${path}: the message ${quote(id)} ${why}. Give each message once.`,
      { path },
    );
  }
}

/** TRANSCRIPT-2 */
function refuseTornCalls(
  { id }: HeldSession,
  present: readonly Message[],
  changes: readonly TranscriptChange<EncodedMessage>[],
): void {
  const after: MessageInput[] = [];
  let at = 0;
  for (const { start, remove, add } of changes) {
    after.push(...present.slice(at, start), ...add.map(({ value }) => value));
    at = start + remove;
  }
  after.push(...present.slice(at));
  const torn = tornCall(present, after);
  if (torn === undefined) return;
  throw new HoldfastError(
    "INVALID_VALUE",
    `messages: the call ${quote(torn)} and its answer would be torn apart in session ${quote(id)}. Replace or remove both.`,
    { path: "messages", sessionId: id, found: torn },
  );
}

const another = (id: string): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `The messages of session ${quote(id)} are not those of this version any more. Load them again.`,
    {
      sessionId: id,
    },
  );
