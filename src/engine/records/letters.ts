/**
 * Letters with messages from outside a run. They are large, and few take an interest in them: no
 * worker takes a session up for one, and what they hold is read when it can be taken in, not at
 * every look.
 *
 * B1  a letter is there once its bell is, and is seen from then on: `append` is posted behind the
 *     `append-text` that it names.
 * B2  `append-key` is posted before the bell. Alone it binds nobody: whoever posted it may have
 *     failed. With a bell, that says what was sent under the key; once it was taken in, what is
 *     kept of it tells the same messages from others, long after.
 * B3  only who holds the session takes in, and rewords, a key letter: what is kept of it is what
 *     was appended.
 */
import { randomUUID } from "node:crypto";
import type { MessageInput } from "../../core/messages/message.js";
import { digest } from "../../core/values/digest.js";
import type { SessionId } from "../../core/values/ids.js";
import { fromPlain, type PlainMessage } from "../../formats/plain.js";
import { inboxOf } from "../../store/capabilities.js";
import type { Store } from "../../store/port.js";
import { type MailDoc, mailOf, mailText } from "./rows.js";

/**
 * Behind every time that a clock can tell. Mail that is due then is looked at, and no reason to
 * take its session up.
 */
export const BESIDE = 8.64e15 + 1;
/** Mail that is due then is looked at by those who know what they are looking for. */
export const HIDDEN = Number.MAX_SAFE_INTEGER;

type Bell = Extract<MailDoc, { readonly kind: "append" }>;
type Texts = Extract<MailDoc, { readonly kind: "append-text" }>;

/**
 * What ids of letters hold of a key that a caller gave. Stores keep the ids of letters that were
 * taken in, and keys may hold texts.
 */
export const keyOf = (key: string): string => digest(`key ${key}`);
export const keyLetter = (key: string): string => `append:${key}`;
export const bellLetter = (key: string): string => `bell:${key}`;
const keyOfBell = (id: string): string => id.slice(bellLetter("").length);
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
export const textLetter = (key: string, tag: string): string => `text:${tag}:${key}`;

export const messagesOf = ({ messages }: Texts): readonly MessageInput[] =>
  (messages as unknown as readonly PlainMessage[]).map((message, i) =>
    fromPlain(message, `messages[${i}]`),
  );

/** What is taken in with a letter of messages. */
export interface Appended {
  readonly messages: readonly MessageInput[];
  /** All that it came in. */
  readonly drained: readonly string[];
  /** B3: other words for its key letter, before it is taken in. */
  readonly reworded?: { readonly id: string; readonly text: string };
}

/**
 * What letters hold, by the id of each; one that is not whole is left out. Where its key letter is
 * gone, something was appended under the key in another way meanwhile: then it holds nothing.
 */
export async function openLetters(
  store: Store,
  session: SessionId,
  letters: readonly { readonly id: string; readonly doc: MailDoc }[],
): Promise<ReadonlyMap<string, Appended>> {
  const found = new Map<string, Appended>();
  for (const { id, doc } of letters) {
    const opened =
      doc.kind === "append" ? await openLetter(store, session, keyOfBell(id), doc) : undefined;
    if (opened !== undefined) found.set(id, opened);
  }
  return found;
}

async function openLetter(
  store: Store,
  session: SessionId,
  key: string,
  { check, tag }: Bell,
): Promise<Appended | undefined> {
  const [own, told] = [keyLetter(key), textLetter(key, tag)];
  const drained = [bellLetter(key), own, told];
  const mail = await inboxOf(store).list(session, { ids: [own, told] });
  const waits = mail.find(({ id }) => id === own)?.text;
  if (waits === undefined) return { messages: [], drained };
  // One that cannot be read is left where it is, and `verify` tells: it must not keep its session
  // from being opened.
  const messages = messagesIn(mail.find(({ id }) => id === told)?.text, session);
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
    const doc = text === undefined ? undefined : mailOf(text, session);
    return doc?.kind === "append-text" ? messagesOf(doc) : undefined;
  } catch {
    return undefined;
  }
}

export const keyText = (check: string): string => mailText({ kind: "append-key", check });

/**
 * What waits under a key: a letter, with the check of its messages, or only the key, which binds
 * nobody. Undefined where neither does.
 */
export async function waitsUnder(
  store: Store,
  session: SessionId,
  key: string,
): Promise<{ readonly bell: Bell | undefined } | undefined> {
  const mail = await inboxOf(store).list(session, { ids: [keyLetter(key), bellLetter(key)] });
  const found = mail.find(({ id }) => id === bellLetter(key));
  const doc = found && mailOf(found.text, session);
  return mail.some(({ id }) => id === keyLetter(key))
    ? { bell: doc?.kind === "append" ? doc : undefined }
    : undefined;
}
