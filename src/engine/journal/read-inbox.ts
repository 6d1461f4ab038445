/** Reading a session's inbox: which inbox messages may be taken in by now. */
import type { SessionId } from "../../core/values/ids.js";
import { inboxOf } from "../../store/capabilities.js";
import type { InboxMessage } from "../../store/port/inbox.js";
import type { Store } from "../../store/port.js";
import { type Appended, BESIDE, openAppends } from "../records/append-messages.js";
import { type InboxDoc, inboxDocOf } from "../records/rows.js";

/**
 * More than turns can wait, as long as few processes submit them. Where there are more, all are
 * read: an inbox message behind them must be seen.
 */
const AT_ONCE = 2_000;

export interface OpenedMessage {
  readonly id: string;
  readonly doc: InboxDoc;
  /** The messages that it brings, where they can be taken in now. */
  readonly appended?: Appended;
}

interface Reader {
  readonly store: Store;
  wallMs(): number;
}

/** Inbox messages that may be taken in by now, or by another time. */
export async function readInbox(
  reader: Reader,
  session: SessionId,
  dueBy = Math.max(0, reader.wallMs()),
): Promise<readonly OpenedMessage[]> {
  const inboxMessages = await allMessages(reader.store, session, Math.max(dueBy, BESIDE));
  return inboxMessages.flatMap(({ id, text, due }) =>
    due <= dueBy || due === BESIDE ? [{ id, doc: inboxDocOf(text, session) }] : [],
  );
}

async function allMessages(
  store: Store,
  session: SessionId,
  dueBy: number,
): Promise<readonly InboxMessage[]> {
  for (let limit = AT_ONCE; ; limit *= 2) {
    const inboxMessages = await inboxOf(store).list(session, { dueBy, limit });
    if (inboxMessages.length < limit) return inboxMessages;
  }
}

/**
 * Whether an inbox message changes what is under way. Turns are for who runs the agent, and
 * messages from outside set nothing going.
 */
export const changesInFlight = ({ doc: { kind } }: OpenedMessage): boolean =>
  kind !== "turn" && !kind.startsWith("append");

/**
 * Inbox messages that may be taken in by now, and with a cancel the turn that it takes back, though
 * the time of that has not come. What inbox messages of messages hold is read where they can be
 * `appended`.
 */
export async function inboxFor(
  reader: Reader,
  session: SessionId,
  appended: () => boolean,
): Promise<readonly OpenedMessage[]> {
  const inboxMessages = await withMessages(
    reader,
    session,
    await readInbox(reader, session),
    appended,
  );
  const dropped = turnsTakenBack(inboxMessages);
  if (dropped.size === 0) return inboxMessages;
  const later = await readInbox(reader, session, BESIDE);
  return [
    ...inboxMessages,
    ...later.filter(
      ({ id, doc }) =>
        doc.kind === "turn" &&
        dropped.has(doc.turn) &&
        !inboxMessages.some((known) => known.id === id),
    ),
  ];
}

async function withMessages(
  reader: Reader,
  session: SessionId,
  inboxMessages: readonly OpenedMessage[],
  appended: () => boolean,
): Promise<readonly OpenedMessage[]> {
  const appends = inboxMessages.filter(({ doc }) => doc.kind === "append");
  if (appends.length === 0 || !appended()) return inboxMessages;
  const opened = await openAppends(reader.store, session, appends);
  return inboxMessages.map((inboxMessage) => {
    const found = opened.get(inboxMessage.id);
    return found === undefined ? inboxMessage : { ...inboxMessage, appended: found };
  });
}

export const turnsTakenBack = (inboxMessages: readonly OpenedMessage[]): ReadonlySet<string> =>
  new Set(
    inboxMessages.flatMap(({ doc }) =>
      doc.kind === "cancel" && doc.turn !== undefined ? [doc.turn] : [],
    ),
  );
