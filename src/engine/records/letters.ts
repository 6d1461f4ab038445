/**
 * Letters with messages from outside a run. They are large, and few take an interest in them: no
 * worker takes a session up for one, and what they hold is read when it can be taken in, not at
 * every look.
 *
 * B1  a letter is there once its bell is, and is seen from then on: `append` is posted behind all
 *     `append-part`s, and names them.
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
import { MAX_IDS } from "../../store/port/inbox.js";
import type { Store } from "../../store/port.js";
import { unlessDamaged } from "./damage.js";
import { type MailDoc, mailOf, mailText } from "./rows.js";

/**
 * Behind every time that a clock can tell. Mail that is due then is looked at, and no reason to
 * take its session up.
 */
export const BESIDE = 8.64e15 + 1;
/** Mail that is due then is looked at by those who know what they are looking for. */
export const HIDDEN = Number.MAX_SAFE_INTEGER;

/** How much text one part has. Variable for tests. */
export const partTuning = { chars: 4 * 1024 * 1024 };

export type Bell = Extract<MailDoc, { readonly kind: "append" }>;

/**
 * What ids of letters hold of a key that a caller gave. Stores keep the ids of letters that were
 * taken in, and keys may hold texts.
 */
export const keyOf = (key: string): string => digest(`key ${key}`);
export const keyLetter = (key: string): string => `append:${key}`;
export const bellLetter = (key: string): string => `bell:${key}`;
export const keyOfBell = (id: string): string => id.slice(bellLetter("").length);
/**
 * Another one for each try. It says when that was: what is left of one that was killed is known by
 * its age.
 */
export const newTag = (wallMs: number): string => `${wallMs}-${randomUUID()}`;
const TAG = /^part:(\d{1,16})-/;
const LEFT_MS = 3_600_000;
/**
 * Whether a part that no bell speaks of will have none: its sender was killed, or failed, long ago.
 */
export const isLeftBehind = (id: string, wallMs: number): boolean =>
  wallMs - Number(TAG.exec(id)?.[1] ?? wallMs) > LEFT_MS;
export const partLetters = (
  key: string,
  { tag, parts }: Pick<Bell, "tag" | "parts">,
): readonly string[] => Array.from({ length: parts }, (_, no) => `part:${tag}:${no}:${key}`);

/** The text of a letter in parts, in their order. Never inside a character. */
export function partsOfText(text: string): readonly MailDoc[] {
  const parts: MailDoc[] = [];
  for (let from = 0; from < text.length || parts.length === 0; ) {
    let to = Math.min(from + partTuning.chars, text.length);
    if (to < text.length && isHighSurrogate(text.charCodeAt(to - 1))) to -= 1;
    parts.push({ kind: "append-part", no: parts.length, text: text.slice(from, to) });
    from = to;
  }
  return parts;
}

const isHighSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdbff;

/** Messages as the text of a letter, with the bytes of their files. */
export const letterText = (messages: readonly PlainMessage[]): string => JSON.stringify(messages);

function messagesIn(text: string): readonly MessageInput[] | undefined {
  try {
    return (JSON.parse(text) as readonly PlainMessage[]).map((message, i) =>
      fromPlain(message, `messages[${i}]`),
    );
  } catch {
    return undefined;
  }
}

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
  bell: Bell,
): Promise<Appended | undefined> {
  const own = keyLetter(key);
  const [waits] = await inboxOf(store).list(session, { ids: [own] });
  const former = bell.former === undefined ? [] : partLetters(key, bell.former);
  const drained = [bellLetter(key), own, ...partLetters(key, bell), ...former];
  if (bell.check !== undefined && waits === undefined) return { messages: [], drained };
  const text = await textOf(store, session, key, bell);
  // One that cannot be read is left where it is: it must not keep its session from being opened.
  const messages = text === undefined ? undefined : messagesIn(text);
  if (messages === undefined) return undefined;
  // A key that says nothing was redacted: what was sent before that is not to be told by its digest
  // either.
  const kept =
    bell.check === undefined || waits?.text === keyText("") ? undefined : keyText(bell.check);
  return {
    messages,
    drained,
    ...(kept !== undefined && kept !== waits?.text && { reworded: { id: own, text: kept } }),
  };
}

export const keyText = (check: string): string => mailText({ kind: "append-key", check });

/** What a letter says; undefined where a part of it is missing or damaged, which `verify` tells. */
async function textOf(
  store: Store,
  session: SessionId,
  key: string,
  bell: Bell,
): Promise<string | undefined> {
  const ids = partLetters(key, bell);
  const texts: string[] = [];
  for (let at = 0; at < ids.length; at += MAX_IDS)
    for (const { text } of await inboxOf(store).list(session, {
      ids: ids.slice(at, at + MAX_IDS),
    })) {
      const doc = await unlessDamaged(() => mailOf(text, session));
      if (doc?.kind === "append-part") texts[doc.no] = doc.text;
    }
  return Object.keys(texts).length === bell.parts ? texts.join("") : undefined;
}

/**
 * What waits under a key: a letter, with the check of its messages unless they were redacted, or
 * only the key, which binds nobody. Undefined where neither does.
 */
export async function waitsUnder(
  store: Store,
  session: SessionId,
  key: string,
): Promise<{ readonly bell: Bell | undefined } | undefined> {
  const mail = await inboxOf(store).list(session, { ids: [keyLetter(key), bellLetter(key)] });
  const found = mail.find(({ id }) => id === bellLetter(key));
  const doc = found && mailOf(found.text, session);
  const bell = doc?.kind === "append" ? doc : undefined;
  const hasKey = mail.some(({ id }) => id === keyLetter(key));
  return hasKey || (bell !== undefined && bell.check === undefined) ? { bell } : undefined;
}
