/**
 * What an attacker can do to an export: change anything in it, and seal it again. All checks and
 * digests of the result are right.
 */
import { refsIn } from "../../src/core/journal/blob-refs.js";
import type { Save } from "../../src/core/journal/save.js";
import { recordTexts } from "../../src/core/journal/save-section.js";
import { freeLease } from "../../src/core/sessions/lease.js";
import {
  type BranchText,
  RowReader,
  RowWriter,
  type SessionText,
  type TransferRow,
} from "../../src/core/transfer/export-format.js";
import { digest } from "../../src/core/values/digest.js";
import { leaseRow } from "../../src/engine/records/rows.js";
import { headFrom, labelFrom } from "../../src/features/transfer/import-validate.js";
import type { NewSave } from "../../src/store/port/changes.js";
import type { Store } from "../../src/store/port.js";

const SALT = "AAAAAAAAAAAAAAAA";
export const section = (records: readonly string[]): string =>
  `[${records.map((record) => `${record},\n`).join("")}"${SALT}"]`;
export const recordsOf = recordTexts;
/** The text of a value with a number of levels. JSON.stringify could not write it. */
export const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

export const read = (rows: readonly string[]): TransferRow[] => {
  const reader = new RowReader();
  return rows.map((row) => reader.read(row.slice(0, -1)));
};

/** Rows as an export, with the digests of all saves made anew: each follows the one before it. */
export function resealed(rows: readonly TransferRow[]): string[] {
  const now = new Map<string, string>();
  const writer = new RowWriter();
  const made: TransferRow[] = rows.slice(0, -1).map((row) => {
    if ("branch" in row && row.forkPoint !== null) return lineAt(row, now);
    return "save" in row ? { save: sealedAgain(row.save, now) } : row;
  });
  return [...made, { end: { rows: made.length + 1, sessions: 0 } } as TransferRow].map((row) =>
    writer.write(row),
  );
}

function lineAt(row: BranchText, now: ReadonlyMap<string, string>): BranchText {
  const doc = JSON.parse(row.text.slice(16)) as { prev: string };
  return { ...row, text: sealed({ ...doc, prev: now.get(doc.prev) ?? doc.prev }) };
}

/** A text of a head, a label or a line. */
export const sealed = (doc: object): string => sealedText(JSON.stringify(doc));
export const sealedText = (text: string): string => digest(text).slice(0, 16) + text;

function chain(save: Save): string {
  const {
    branch: line,
    seq,
    at,
    nItems,
    nState,
    nMark,
    nMessages,
    prior,
    base,
    prev,
    itemsDigest,
    stateDigest,
    mark,
    note,
  } = save;
  const kept = note === null ? undefined : (JSON.parse(note.slice(43)) as { mark?: string }).mark;
  const marked = kept ?? (mark === null ? "" : mark.endsWith("}}") ? mark : digest(mark));
  return digest(
    `${line} ${seq} ${at} ${nItems} ${nState} ${nMark} ${nMessages} ${prior} ${base} ${prev} ${itemsDigest ?? ""} ${stateDigest ?? ""} ${marked}`,
  );
}

/** Digests of dropped and rewritten sections stay: what they were made of is not known. */
function sealedAgain(given: Save, now: Map<string, string>): Save {
  const { before, ...save } = given as Save & { before?: string };
  const prev = now.get(save.prev) ?? save.prev;
  if (save.note !== null) {
    const told = JSON.parse(save.note.slice(43)) as { gap?: number };
    // A gap says only the beginning of what comes behind it: nothing in front of one is changed
    // here.
    if (told.gap !== undefined) return save;
    const check = chain({ ...save, prev });
    now.set(before ?? chain(save), check);
    const again = { ...save, prev, check: check.slice(0, 16) };
    const text = save.note.slice(43);
    return {
      ...again,
      note: digest(`${again.branch} ${again.seq} ${again.prev} ${again.check} ${text}`) + text,
    };
  }
  const fresh = {
    ...save,
    prev,
    itemsDigest: save.items === null ? save.itemsDigest : digest(save.items),
    stateDigest: save.state === null ? save.stateDigest : digest(save.state),
  };
  const end = chain(fresh);
  now.set(before ?? chain(save), end);
  return { ...fresh, check: end.slice(0, 16) };
}

/** Change one save. What it was is kept aside until it is sealed: those that follow name that. */
export function edit(
  rows: readonly TransferRow[],
  which: (save: Save) => boolean,
  to: (save: Save) => Partial<Save>,
): TransferRow[] {
  let isDone = false;
  const made = rows.map((row) => {
    if (isDone || !("save" in row) || !which(row.save)) return row;
    isDone = true;
    return { save: { ...row.save, ...to(row.save), before: chain(row.save) } as Save };
  });
  if (!isDone) throw new Error("no save is like that");
  return made;
}

/**
 * Put what an export holds into a store past all checks of an import: a file that another hand has
 * written.
 */
export async function plant(store: Store, rows: readonly string[]): Promise<void> {
  const blobs = new Map<string, Uint8Array>();
  const lines: { row: BranchText; saves: NewSave[] }[] = [];
  for (const row of read(rows)) {
    if ("blob" in row) blobs.set(row.blob, Buffer.from(row.base64, "base64"));
    if ("branch" in row) lines.push({ row, saves: [] });
    if ("save" in row) lines.at(-1)?.saves.push(newSave(row.save, blobs));
    if ("session" in row) await plantSession(store, row, lines.splice(0));
  }
}

function newSave(save: Save, blobs: ReadonlyMap<string, Uint8Array>): NewSave {
  let refs: readonly string[] = [];
  try {
    refs = refsIn(save);
  } catch {
    // Monstrous: no reader says what it refers to.
  }
  return {
    save,
    refs,
    blobs: refs.flatMap((name) =>
      blobs.has(name) ? [{ digest: name, bytes: blobs.get(name) as Uint8Array }] : [],
    ),
  };
}

async function plantSession(
  store: Store,
  row: SessionText,
  lines: readonly { row: BranchText; saves: NewSave[] }[],
): Promise<void> {
  const { session, head, label } = row;
  const loose = lines.map(({ row: { branch: line, forkPoint: origin, text }, saves }) => ({
    session: `\u0001import ${line}`,
    when: { absent: true } as const,
    loose: { id: line, forkPoint: origin, text },
    saves,
  }));
  const made = {
    session,
    when: { absent: true, buried: 0 } as const,
    head: headFrom(session, head, "").row,
    label: labelFrom(session, label),
    lease: leaseRow(session, { ...freeLease, epoch: 1 }),
    claims: lines.map(({ row: { branch: line } }) => line),
  };
  const applied = await store.apply([...loose, made]);
  if (!applied.ok) throw new Error(`it could not be planted: ${JSON.stringify(applied)}`);
}
