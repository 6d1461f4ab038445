/**
 * Letters with messages from outside a run. They are large, and few take an interest in them: no worker takes a session up for one, and
 * what they hold is read when it can be taken in, not at every look.
 *
 * B1  a letter is there once its last part is, and is seen from then on: `append` is posted behind all `append-part`s.
 * B2  `append-key` is posted before all else, and tells the same letter from another under the same key, also long after it was taken in.
 */
import { HoldfastError, quote } from "../core/errors.js";
import { fromPlain, type PlainMessage } from "../core/formats/plain.js";
import type { SessionId } from "../core/ids.js";
import type { MessageInput } from "../core/message.js";
import type { Mail, Store } from "../store/port.js";
import { type MailDoc, mailOf } from "./rows.js";

/** Behind every time that a clock can tell. Mail that is due then is looked at, and no reason to take its session up. */
export const BESIDE = 8.64e15 + 1;
/** Mail that is due then is looked at by those who know what they are looking for. */
export const HIDDEN = Number.MAX_SAFE_INTEGER;

/** How much text one part has. */
const PART_CHARS = 4 * 1024 * 1024;
const MAX_MAIL = 10_000;

export const keyLetter = (key: string): string => `append:${key}`;
export const bellLetter = (key: string): string => `bell:${key}`;
const partLetter = (key: string, check: string, no: number): string => `part:${check}:${no}:${key}`;

/** The parts of a letter, to be posted in this order. Never inside a character. */
export function partsOfLetter(key: string, check: string, text: string): readonly { readonly id: string; readonly doc: MailDoc }[] {
  const parts: { id: string; doc: MailDoc }[] = [];
  for (let from = 0; from < text.length || parts.length === 0; ) {
    let to = Math.min(from + PART_CHARS, text.length);
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    const no = parts.length;
    parts.push({ id: partLetter(key, check, no), doc: { kind: "append-part", check, no, text: text.slice(from, to) } });
    from = to;
  }
  return parts;
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;

/** Messages as the text of a letter, with the bytes of their files. */
export const letterText = (messages: readonly PlainMessage[]): string => JSON.stringify(messages);

function messagesIn(text: string): readonly MessageInput[] | undefined {
  try {
    return (JSON.parse(text) as readonly PlainMessage[]).map((message, i) => fromPlain(message, `messages[${i}]`));
  } catch {
    return undefined;
  }
}

/** What is taken in with a letter of messages. */
export interface Appended {
  readonly messages: readonly MessageInput[];
  /** All that it came in. */
  readonly drained: readonly string[];
}

/**
 * What letters hold, by the id of each; one that is not whole is left out. Where its key letter is gone, the same was appended in another way
 * meanwhile: then it holds nothing.
 */
export async function openLetters(
  store: Store,
  session: SessionId,
  letters: readonly { readonly id: string; readonly doc: MailDoc }[],
): Promise<ReadonlyMap<string, Appended>> {
  const found = new Map<string, Appended>();
  const all = await store.inbox(session, { dueBy: HIDDEN, limit: MAX_MAIL });
  // What is behind these is not known: nothing may be taken for gone.
  if (all.length === MAX_MAIL) return found;
  for (const { id, doc } of letters) {
    if (doc.kind !== "append") continue;
    const key = id.slice(bellLetter("").length);
    const parts = partsIn(all, session, key, doc);
    const drained = [id, keyLetter(key), ...parts.map((part) => part.id)];
    if (!isWaiting(all, key)) found.set(id, { messages: [], drained });
    else if (parts.length === doc.parts) {
      const messages = messagesIn(parts.map((part) => part.text).join(""));
      // One that cannot be read is left where it is: it must not keep its session from being opened.
      if (messages !== undefined) found.set(id, { messages, drained });
    }
  }
  return found;
}

const isWaiting = (all: readonly Mail[], key: string): boolean => all.some(({ id }) => id === keyLetter(key));

/** Whether what was sent under a key is still to be taken in; undefined where that is asked of nobody. */
export async function waitsUnder(store: Store, session: SessionId, key: string): Promise<"key" | "letter" | undefined> {
  const all = await store.inbox(session, { dueBy: HIDDEN, limit: MAX_MAIL });
  if (!isWaiting(all, key) && all.length === MAX_MAIL)
    throw new HoldfastError("TOO_LARGE", `${MAX_MAIL} letters wait in session ${quote(session)}. Let somebody take them in first.`, {
      sessionId: session,
      limit: MAX_MAIL,
    });
  if (!isWaiting(all, key)) return undefined;
  return all.some(({ id }) => id === bellLetter(key)) ? "letter" : "key";
}

function partsIn(
  all: readonly Mail[],
  session: SessionId,
  key: string,
  { check, parts }: { readonly check: string; readonly parts: number },
) {
  const wanted = new Set(Array.from({ length: parts }, (_, no) => partLetter(key, check, no)));
  return all
    .filter(({ id }) => wanted.has(id))
    .flatMap(({ id, text }) => {
      const doc = mailOf(text, session);
      return doc.kind === "append-part" ? [{ id, no: doc.no, text: doc.text }] : [];
    })
    .sort((a, b) => a.no - b.no);
}
