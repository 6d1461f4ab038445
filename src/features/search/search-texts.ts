/** The texts of records and of titles, as they are found and shown. */
import { messageIn } from "../../core/journal/blob-body.js";
import { open } from "../../core/journal/open-save.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { MessageInput } from "../../core/messages/message.js";
import { passagesOf, textFilesIn, textIn } from "../../core/search/document.js";
import type { Query } from "../../core/search/query.js";
import type { Digest } from "../../core/values/digest.js";
import type { Journal } from "../../engine/journal/journal.js";
import { headOf, labelOf } from "../../engine/records/rows.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import type { SessionRow } from "../../store/port/rows.js";
import { type Document, ROLES } from "../../store/search-port.js";

const MOST_OPENED = 4;

/** A message as it stands in a record, with all of its text. */
export interface Text {
  readonly message: MessageInput;
  readonly seq: number;
  readonly at: number;
  readonly text: string;
}

/** The messages of a save. Verified; what was dropped has none. */
export async function* textsIn(journal: Journal, save: Save): AsyncGenerator<Text> {
  const records = recordsOf(save);
  for (let i = 0; i < records.length; i++) {
    const text = await textOf(journal, save, firstSeq(save) + i, records[i]);
    if (text !== undefined) yield text;
  }
}

/**
 * Texts by the numbers of their records. A save may hold thousands of them: those that were opened
 * last are not opened again.
 */
export class OpenedTexts {
  readonly #journal: Journal;
  readonly #opened: Opened[] = [];

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  at(given: Save, seq: number): Promise<Text | undefined> {
    // What was verified is gone on with, and not what was read since.
    const { save, records } =
      this.#opened.find((known) => isAsRead(known.save, given)) ?? this.#open(given);
    return textOf(this.#journal, save, seq, records[seq - firstSeq(save)]);
  }

  #open(save: Save): Opened {
    const opened = { save, records: recordsOf(save) };
    if (this.#opened.push(opened) > MOST_OPENED) this.#opened.shift();
    return opened;
  }
}

interface Opened {
  readonly save: Save;
  readonly records: readonly JournalRecord[];
}

/** It may have been replaced, or damaged, meanwhile. */
const isAsRead = (a: Save, b: Save): boolean =>
  a.branch === b.branch &&
  a.seq === b.seq &&
  a.check === b.check &&
  a.note === b.note &&
  a.items === b.items;

const recordsOf = (save: Save): readonly JournalRecord[] =>
  save.items === null || isGap(save) ? [] : open(save, { items: true }).items;

async function textOf(
  journal: Journal,
  save: Save,
  seq: number,
  record: JournalRecord | undefined,
): Promise<Text | undefined> {
  if (record === undefined || (record.append === undefined && record.item === undefined))
    return undefined;
  const body =
    record.blob === undefined
      ? (record.append ?? record.item)
      : messageIn(await blobText(journal, record.blob), record.blob);
  const message = body as MessageInput;
  const files = new Map<Digest, string>();
  // What a tool answered may only look like a file: the record says which are.
  for (const name of textFilesIn(message))
    if (record.files?.includes(name)) files.set(name, await blobText(journal, name));
  return {
    message,
    seq,
    at: save.at - (record.ago ?? 0),
    text: textIn(message, (name) => files.get(name)),
  };
}

const blobText = async (journal: Journal, name: Digest): Promise<string> =>
  Buffer.from(await journal.blob(name)).toString("utf8");

/**
 * No query asks for this symbol: words are inbox messages, numbers and marks (WORD-5). An index takes
 * it for a word.
 */
const DAMAGED = "\u2400";
export const ofDamage: Query = { all: [{ words: [DAMAGED], prefix: false }], none: [] };

/** Says that a record is missing or damaged. Its passage is one that no text has. */
export const damageAt = (branch: number, seq: number, at: number): Document => ({
  kind: "message",
  of: branch,
  seq,
  passage: -1,
  role: 0,
  at,
  words: [DAMAGED],
});

/** What is to be found in a save, on a branch that is at `before`; damage, too. */
export async function documentsOf(
  journal: Journal,
  branch: number,
  before: number,
  save: Save,
): Promise<readonly Document[]> {
  const missing = firstSeq(save) === before + 1 ? [] : [damageAt(branch, before + 1, save.at)];
  const found: Document[] = [];
  const isRead = await unlessDamaged(async () => {
    for await (const text of textsIn(journal, save)) found.push(...documentsIn(branch, text));
    return true;
  });
  return [...missing, ...(isRead ? found : [damageAt(branch, firstSeq(save), save.at)])];
}

/** What is to be found of a text. */
function* documentsIn(branch: number, { message, seq, at, text }: Text): Generator<Document> {
  const role = ROLES.indexOf(message.role);
  let passage = 0;
  for (const { words } of passagesOf(text))
    yield { kind: "message", of: branch, seq, passage: passage++, role, at, words };
}

/** The title that somebody gave. One that is made of the first message is found as that message. */
export function titleIn(row: SessionRow): Text | undefined {
  const { title } = labelOf(row);
  if (title === undefined) return undefined;
  return {
    message: { role: "user", content: title },
    seq: 0,
    at: headOf(row).createdAt,
    text: title,
  };
}

export function* titlesIn(row: SessionRow): Generator<Document> {
  const title = titleIn(row);
  if (title === undefined) return;
  for (const { words } of passagesOf(title.text)) {
    yield { kind: "title", of: row.no, seq: 0, passage: 0, role: 0, at: title.at, words };
    return;
  }
}
