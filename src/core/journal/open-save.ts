/** Open a save: verify what was read of it, and parse the sections that are needed. */
import { type Digest, digest } from "../values/digest.js";
import { parseStored } from "../values/json.js";
import { isRecord } from "./check-record.js";
import type { JournalRecord } from "./record.js";
import { corrupt, type Save } from "./save.js";
import { CHECK_CHARS, chain, inChain } from "./save-digest.js";
import { readNote } from "./save-note.js";

/**
 * Which sections a reader needs. One that is needed and absent is damage; one that is not needed is
 * stood for by its digest.
 */
export interface Need {
  readonly items?: boolean;
  readonly state?: boolean;
  readonly mark?: boolean;
}

/** A save that was verified: its digest, and the records of the sections that were needed. */
export interface Opened {
  readonly digest: Digest;
  readonly items: readonly JournalRecord[];
  readonly state: readonly JournalRecord[];
}

const nothing: readonly JournalRecord[] = [];

/**
 * Verifies what was read of a save, and parses the sections that are needed. A gap has nothing to
 * verify and nothing to give.
 */
export function open(save: Save, need: Need): Opened {
  const note = readNote(save);
  if (note?.gap !== undefined) throw corrupt(save, "was dropped, and is needed");
  if (need.items && save.nItems > 0 && save.items === null)
    throw corrupt(save, "has lost its items");
  if (need.state && save.nState > 0 && save.state === null)
    throw corrupt(save, "has lost its state");
  const mark = note?.mark ?? (save.mark === null ? "" : inChain(save.mark));
  if (need.mark && save.nMark > 0 && mark === "") throw corrupt(save, "has lost its checkpoint");
  if (
    (save.items !== null && (note?.items ?? save.itemsDigest) !== digest(save.items)) ||
    (save.state !== null && (note?.state ?? save.stateDigest) !== digest(save.state)) ||
    (save.mark !== null && note?.mark !== undefined && note.marked !== digest(save.mark))
  ) {
    throw corrupt(save, "has a section that does not match its digest");
  }
  const sealed = chain(save, mark);
  if (sealed.slice(0, CHECK_CHARS) !== save.check) throw corrupt(save, "does not match its digest");
  const items = need.items ? parse(save, save.items, save.nItems) : nothing;
  const state = need.state ? parse(save, save.state, save.nState) : nothing;
  return { digest: sealed, items, state };
}

function parse(save: Save, text: string | null, count: number): readonly JournalRecord[] {
  const records = text === null ? [""] : parseStored(text, () => corrupt(save, UNREADABLE));
  // The last one is the salt.
  if (!Array.isArray(records) || typeof records.pop() !== "string") throw corrupt(save, UNREADABLE);
  if (records.length !== count) throw corrupt(save, "miscounts its records");
  if (!records.every((record) => isRecord(record, save.at))) throw corrupt(save, UNREADABLE);
  return records;
}

const UNREADABLE = "holds a record that cannot be";
