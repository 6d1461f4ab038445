/**
 * Letters with messages that wait to be appended, with their texts edited.
 *
 * The parts of one are written anew beside the old ones, and then its bell speaks of the new ones:
 * killed in between, it is whole. Of what it said before nothing is kept to compare with: its key
 * is taken in, and it stands for itself from then on.
 */
import { encodeMessage } from "../../core/messages/message.js";
import { editMessage, type TextEdit } from "../../core/redaction/redact-text.js";
import { digest } from "../../core/values/digest.js";
import {
  type Bell,
  isLeftBehind,
  keyLetter,
  keyOfBell,
  keyText,
  letterText,
  partLetters,
  partsOfText,
} from "../../engine/records/letters.js";
import { type MailDoc, mailText } from "../../engine/records/rows.js";
import { fromPlain, type PlainMessage, toPlain, withBytes } from "../../formats/plain.js";
import type { What } from "./what.js";

type Waiting = ReadonlyMap<string, MailDoc>;

export class LetterEdits {
  /** To be posted before the rest is done. */
  readonly posted: { readonly id: string; readonly doc: MailDoc }[] = [];
  readonly reworded: { readonly id: string; readonly text: string }[] = [];
  readonly drained: string[] = [];
  /** Whether there is something that cannot be read, or not yet: its sender may be at it. */
  isLeft = false;
  /** Whether the message that was asked for is there. */
  isMessageThere = false;
  readonly #what: What;
  readonly #wallMs: number;
  readonly #name: TextEdit["name"];

  constructor(mail: Waiting, what: What, wallMs: number, name: NonNullable<TextEdit["name"]>) {
    this.#what = what;
    this.#wallMs = wallMs;
    this.#name = name;
    const spokenOf = new Set<string>();
    for (const [id, doc] of mail)
      if (doc.kind === "append") for (const own of this.#letter(mail, id, doc)) spokenOf.add(own);
    for (const [id, doc] of mail) if (!spokenOf.has(id)) this.#alone(id, doc);
  }

  /** Answers what belongs to it. */
  #letter(mail: Waiting, id: string, bell: Bell): readonly string[] {
    const key = keyOfBell(id);
    const parts = partLetters(key, bell);
    const others = [
      keyLetter(key),
      ...(bell.former === undefined ? [] : partLetters(key, bell.former)),
    ];
    const all = [...others, ...parts];
    const text = textOf(mail, parts);
    const edited = text === undefined ? undefined : this.#text(text);
    // Something else was appended under its key: it holds nothing.
    if (bell.check !== undefined && !mail.has(keyLetter(key))) this.drained.push(id, ...all);
    else if (edited === undefined) this.isLeft = true;
    else if (edited !== text) {
      this.#write(key, id, bell, edited);
      this.drained.push(...all);
      // What whoever was killed before has left.
    } else if (bell.check === undefined)
      this.drained.push(...others.filter((other) => mail.has(other)));
    return all;
  }

  #write(key: string, id: string, { tag, parts }: Bell, text: string): void {
    const docs = partsOfText(text);
    // The same each time: whoever was killed behind some of them goes on with those.
    const bell = {
      kind: "append",
      tag: digest(tag),
      parts: docs.length,
      bytes: Buffer.byteLength(text),
      former: { tag, parts },
    } as const;
    for (const [i, own] of partLetters(key, bell).entries())
      this.posted.push({ id: own, doc: docs[i] as MailDoc });
    this.reworded.push({ id, text: mailText(bell) });
  }

  /**
   * What no bell speaks of: whoever sends it is about to post that, or has failed. Whom a key binds
   * is not known from it. What was left goes.
   */
  #alone(id: string, doc: MailDoc): void {
    if (doc.kind === "append-key" && doc.check !== "")
      this.reworded.push({ id, text: keyText("") });
    if (doc.kind !== "append-part") return;
    if (isLeftBehind(id, this.#wallMs)) {
      this.drained.push(id);
      return;
    }
    const edited = this.#text(doc.text);
    // Its bell will still speak of what it was.
    if (edited !== doc.text) this.isLeft = true;
    if (edited !== undefined && edited !== doc.text)
      this.reworded.push({ id, text: mailText({ ...doc, text: edited }) });
  }

  /** The same where nothing is changed, undefined where it cannot be read. */
  #text(text: string): string | undefined {
    const messages = messagesIn(text);
    const edited = messages?.map((message, i) => this.#message(message, `messages[${i}]`));
    return edited?.some((message, i) => message !== messages?.[i])
      ? letterText(edited)
      : messages && text;
  }

  #message(message: PlainMessage, path: string): PlainMessage {
    const what = this.#what;
    const isWhole = what.message !== undefined && message.id === what.message;
    if (isWhole) this.isMessageThere = true;
    const { value, blobs } = encodeMessage(fromPlain(message, path), path);
    const files = new Map(blobs.map((blob): [string, Uint8Array] => [blob.digest, blob.bytes]));
    const edited = editMessage(value, {
      text: isWhole ? () => what.replacement : what.text,
      numbers: true,
      ...(this.#name && { name: this.#name }),
      file: (name) => {
        const bytes = files.get(name);
        const other = bytes && (isWhole ? Buffer.from(what.replacement) : what.file(bytes));
        if (other === undefined) return undefined;
        files.set(digest(other), other);
        return { digest: digest(other), sizeBytes: other.length };
      },
    });
    return edited === value ? message : toPlain(withBytes(edited, files), path);
  }
}

function textOf(mail: Waiting, parts: readonly string[]): string | undefined {
  const texts = parts
    .map((id) => mail.get(id))
    .flatMap((doc) => (doc?.kind === "append-part" ? [doc.text] : []));
  return texts.length === parts.length ? texts.join("") : undefined;
}

function messagesIn(text: string): readonly PlainMessage[] | undefined {
  try {
    const messages = JSON.parse(text) as readonly PlainMessage[];
    for (const [i, message] of messages.entries()) fromPlain(message, `messages[${i}]`);
    return messages;
  } catch {
    return undefined;
  }
}
