/**
 * Inbox messages with messages from outside a run. They are large, and few take an interest in
 * them: no worker takes a session up for one, and what they hold is read when it can be taken in,
 * not at every look.
 *
 * INBOX-1  an inbox message is there once its bell is, and is seen from then on: `append` is posted
 *          behind the `append-text` that it names.
 * INBOX-2  `append-key` is posted before the bell. Alone it binds nobody: whoever posted it may
 *          have failed. With a bell, that says what was sent under the key; once it was taken in,
 *          what is kept of it tells the same messages from others, long after.
 * INBOX-3  only who holds the session takes in, and rewords, a key inbox message: what is kept of
 *          it is what was appended.
 */
import { randomUUID } from "node:crypto";
import type { MessageInput } from "../../core/messages/message.js";
import { digest } from "../../core/values/digest.js";
import type { SessionId } from "../../core/values/ids.js";
import { fromPlain, type PlainMessage } from "../../formats/plain.js";
import { inboxOf } from "../../store/capabilities.js";
import type { Store } from "../../store/port.js";
import { type InboxDoc, inboxDocOf, inboxText } from "./rows.js";

/**
 * Behind every time that a clock can tell. An inbox message that is due then is looked at, and no
 * reason to take its session up.
 */
export const BESIDE = 8.64e15 + 1;
/** An inbox message that is due then is looked at by those who know what they are looking for. */
export const HIDDEN = Number.MAX_SAFE_INTEGER;

type AppendDoc = Extract<InboxDoc, { readonly kind: "append" }>;
type Texts = Extract<InboxDoc, { readonly kind: "append-text" }>;

/**
 * What ids of inbox messages hold of a key that a caller gave. Stores keep the ids of inbox
 * messages that were taken in, and keys may hold texts.
 */
export const keyOf = (key: string): string => digest(`key ${key}`);
export const appendKeyId = (key: string): string => `append:${key}`;
export const appendId = (key: string): string => `bell:${key}`;
const appendKeyOf = (id: string): string => id.slice(appendId("").length);
/**
 * Another one for each try. It says when that was: what is left of one that was killed is known by
 * its age.
 */
export const newTag = (wallMs: number): string => `${wallMs}-${randomUUID()}`;
const TAG = /^text:(\d{1,16})-/;
const LEFT_MS = 3_600_000;
/**
 * Whether a text that no bell speaks of will have none: its sender was killed, or failed, long ago.
 */
export const isLeftBehind = (id: string, wallMs: number): boolean =>
  wallMs - Number(TAG.exec(id)?.[1] ?? wallMs) > LEFT_MS;
export const appendTextId = (key: string, tag: string): string => `text:${tag}:${key}`;

export const messagesOf = ({ messages }: Texts): readonly MessageInput[] =>
  (messages as unknown as readonly PlainMessage[]).map((message, i) =>
    fromPlain(message, `messages[${i}]`),
  );

/** What is taken in with an inbox message of messages. */
export interface Appended {
  readonly messages: readonly MessageInput[];
  /** All that it came in. */
  readonly drained: readonly string[];
  /** INBOX-3: other words for its key inbox message, before it is taken in. */
  readonly reworded?: { readonly id: string; readonly text: string };
}

/**
 * What inbox messages hold, by the id of each; one that is not whole is left out. Where its key
 * inbox message is gone, something was appended under the key in another way meanwhile: then it
 * holds nothing.
 */
export async function openAppends(
  store: Store,
  session: SessionId,
  inboxMessages: readonly { readonly id: string; readonly doc: InboxDoc }[],
): Promise<ReadonlyMap<string, Appended>> {
  const found = new Map<string, Appended>();
  for (const { id, doc } of inboxMessages) {
    const opened =
      doc.kind === "append" ? await openAppend(store, session, appendKeyOf(id), doc) : undefined;
    if (opened !== undefined) found.set(id, opened);
  }
  return found;
}

async function openAppend(
  store: Store,
  session: SessionId,
  key: string,
  { check, tag }: AppendDoc,
): Promise<Appended | undefined> {
  const [own, told] = [appendKeyId(key), appendTextId(key, tag)];
  const drained = [appendId(key), own, told];
  const inboxMessages = await inboxOf(store).list(session, { ids: [own, told] });
  const waits = inboxMessages.find(({ id }) => id === own)?.text;
  if (waits === undefined) return { messages: [], drained };
  // One that cannot be read is left where it is, and `verify` tells: it must not keep its session
  // from being opened.
  const messages = messagesIn(inboxMessages.find(({ id }) => id === told)?.text, session);
  if (messages === undefined) return undefined;
  // A key that says nothing was redacted: what was sent before that is not to be told by its digest
  // either.
  const kept = keyText(check);
  const isSame = waits === kept || waits === keyText("");
  return { messages, drained, ...(!isSame && { reworded: { id: own, text: kept } }) };
}

function messagesIn(
  text: string | undefined,
  session: SessionId,
): readonly MessageInput[] | undefined {
  try {
    const doc = text === undefined ? undefined : inboxDocOf(text, session);
    return doc?.kind === "append-text" ? messagesOf(doc) : undefined;
  } catch {
    return undefined;
  }
}

export const keyText = (check: string): string => inboxText({ kind: "append-key", check });

/**
 * What waits under a key: an inbox message, with the check of its messages, or only the key, which
 * binds nobody. Undefined where neither does.
 */
export async function waitsUnder(
  store: Store,
  session: SessionId,
  key: string,
): Promise<{ readonly append: AppendDoc | undefined } | undefined> {
  const inboxMessages = await inboxOf(store).list(session, {
    ids: [appendKeyId(key), appendId(key)],
  });
  const found = inboxMessages.find(({ id }) => id === appendId(key));
  const doc = found && inboxDocOf(found.text, session);
  return inboxMessages.some(({ id }) => id === appendKeyId(key))
    ? { append: doc?.kind === "append" ? doc : undefined }
    : undefined;
}
