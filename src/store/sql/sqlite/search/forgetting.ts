/**
 * Forgetting what the store has noted as gone: some of it before the next saves are taken in, or
 * all of it, so that nothing is left in the file either. What is gone may be forgotten twice. The
 * highest numbers of saves that went may be given again, so the mark goes back to what was left of
 * them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../../../core/values/errors.js";
import type { Driver } from "../driver/driver.js";
import type { Note, Notes } from "./notes.js";
import type { Marks, OpenIndex } from "./open-index.js";

const AT_ONCE = { least: 20, most: 200 };
const TRUNCATES = 100;

/**
 * Forgets what the first of these notes say is gone, up to one that speaks of a session. `limit` is
 * the size of a step. Answers where the index is then; undefined where others are at it.
 */
export function forgetSome(
  index: OpenIndex,
  notes: readonly Note[],
  from: Marks,
  limit: number,
): Marks | undefined {
  if (notes[0]?.kind !== "gone") return from;
  return index.transaction(() => {
    const now = index.marks();
    if (now.note !== from.note) return undefined;
    let { save, note } = now;
    let left = Math.min(AT_ONCE.most, Math.max(AT_ONCE.least, limit));
    for (const one of notes) {
      if (one.kind !== "gone") break;
      left -= index.remove(one.branch, one.first, one.last, left);
      save = Math.min(save, one.ceiling);
      // What is left of it comes the next time.
      if (left === 0) break;
      note = one.no;
    }
    index.mark({ ...now, save, note });
    return { ...now, save, note };
  });
}

/** Forgets all that is noted, and leaves nothing of it in the file. */
export async function forgetForGood(index: OpenIndex, notes: Notes): Promise<void> {
  await forgetAll(index, notes);
  try {
    const { writer } = index.file;
    await index.patiently(() => {
      writer.exec("INSERT INTO text (text) VALUES ('optimize')");
      return true;
    });
    writer.exec("PRAGMA temp_store = FILE; VACUUM; PRAGMA temp_store = MEMORY");
    await truncate(writer);
  } catch (error) {
    throw index.failed(error);
  }
}

/** Others may be reading from the log just now. */
async function truncate(writer: Driver): Promise<void> {
  for (let tries = 0; writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.[0] !== 0; tries++) {
    if (tries >= TRUNCATES)
      throw new HoldfastError(
        "BUSY",
        "Others were reading from the log of the index. Run it again.",
      );
    await sleep(20 + Math.random() * 20);
  }
}

/** All that notes speak of, in whatever order. They stay: titles are still to be looked at. */
async function forgetAll(index: OpenIndex, notes: Notes): Promise<void> {
  for (let after = index.marks().note, left = true; left; ) {
    const some = await notes.after(after, AT_ONCE.most);
    left = some.length > 0;
    for (const note of some) {
      for (let removed = AT_ONCE.most; removed === AT_ONCE.most; )
        removed = await index.patiently(() => forgetPart(index, note));
      after = note.no;
    }
  }
}

function forgetPart(index: OpenIndex, note: Note): number {
  const marks = index.marks();
  const isGone = note.kind === "gone";
  const removed = isGone
    ? index.remove(note.branch, note.first, note.last, AT_ONCE.most)
    : index.remove(-note.session, 0, 0, AT_ONCE.most);
  index.mark(isGone ? { ...marks, save: Math.min(marks.save, note.ceiling) } : marks);
  return removed;
}
