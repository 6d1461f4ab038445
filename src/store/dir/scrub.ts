/**
 * Files that no longer count, and may hold what must not be found any more: drafts of killed
 * processes, ends that were set aside, inbox messages.
 */
import { closeSync, lstatSync } from "node:fs";
import { join } from "node:path";
import { isDraft, namesIn, openFile, readRange, remove } from "./files/files.js";
import { sessionDirectories } from "./index/rebuild.js";

/**
 * Whoever posts inbox messages needs no lock: a draft as young as this may still become an inbox
 * message.
 */
const POSTING_MS = 60_000;
const PIECE_BYTES = 64 * 1024 * 1024;
const OVERLAP_BYTES = 1024 * 1024;

/**
 * Removes them where they hold such a text. Only for the writer: while it has the lock, no other
 * process has drafts, except of inbox messages. Answers what is left.
 */
export function removeRemains(root: string, holds: (text: string) => boolean): readonly string[] {
  const left: string[] = [];
  for (const path of remainsIn(root)) {
    if (!holdsAny(path, holds)) continue;
    const age = Date.now() - (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (isInboxDoc(path) && age < POSTING_MS)
      left.push(
        `a draft of a letter that somebody may be posting (${path}). Run it again in a minute.`,
      );
    else remove(path);
  }
  return left;
}

/**
 * A file may be longer than a string can be. What overlaps finds a text that stands on both sides
 * of a cut.
 */
function holdsAny(path: string, holds: (text: string) => boolean): boolean {
  const opened = openFile(path);
  if (opened === undefined) return false;
  try {
    const { size } = opened.stat;
    for (let at = 0; at < size; at += PIECE_BYTES)
      if (
        holds(readRange(opened.fd, at, Math.min(size, at + PIECE_BYTES + OVERLAP_BYTES)).toString())
      )
        return true;
    return false;
  } finally {
    closeSync(opened.fd);
  }
}

const isInboxDoc = (path: string): boolean => /[\\/]inbox[\\/][^\\/]+$/.test(path);

function* remainsIn(root: string): Generator<string> {
  yield* draftsIn(root);
  for (const kind of ["", ...namesIn(join(root, "documents"))])
    yield* draftsIn(join(root, "documents", kind));
  for (const bucket of namesIn(join(root, "blobs"))) yield* draftsIn(join(root, "blobs", bucket));
  for (const directory of sessionDirectories(root)) {
    yield* draftsIn(directory);
    for (const name of namesIn(directory))
      if (/\.tail-[0-9]+$/.test(name)) yield join(directory, name);
    yield* draftsIn(join(directory, "inbox"));
    yield* draftsIn(join(directory, "inbox", "done"));
  }
}

function* draftsIn(directory: string): Generator<string> {
  for (const name of namesIn(directory)) if (isDraft(name)) yield join(directory, name);
}
