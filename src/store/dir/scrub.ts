/** Files that no longer count, and may hold what must not be found any more: drafts of killed processes, ends that were set aside, mail. */
import { lstatSync } from "node:fs";
import { join } from "node:path";
import { isDraft, namesIn, readFile, remove } from "./files.js";
import { sessionDirectories } from "./rebuild.js";

/** Whoever posts mail needs no lock: a draft as young as this may still become a letter. */
const POSTING_MS = 60_000;

/** Removes them where they hold such a text. Only for the writer: other drafts than those of mail are nobody's then. Answers what is left. */
export function removeRemains(root: string, holds: (text: string) => boolean): readonly string[] {
  const left: string[] = [];
  for (const path of remainsIn(root)) {
    const text = readFile(path)?.toString();
    if (text === undefined || !holds(text)) continue;
    const age = Date.now() - (lstatSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0);
    if (isMail(path) && age < POSTING_MS)
      left.push(`a draft of a letter that somebody may be posting (${path}). Run it again in a minute.`);
    else remove(path);
  }
  return left;
}

const isMail = (path: string): boolean => /[\\/]inbox[\\/][^\\/]+$/.test(path);

function* remainsIn(root: string): Generator<string> {
  yield* draftsIn(root);
  for (const kind of ["", ...namesIn(join(root, "documents"))]) yield* draftsIn(join(root, "documents", kind));
  for (const bucket of namesIn(join(root, "blobs"))) yield* draftsIn(join(root, "blobs", bucket));
  for (const directory of sessionDirectories(root)) {
    yield* draftsIn(directory);
    for (const name of namesIn(directory)) if (/\.tail-[0-9]+$/.test(name)) yield join(directory, name);
    yield* draftsIn(join(directory, "inbox"));
    yield* draftsIn(join(directory, "inbox", "done"));
  }
}

function* draftsIn(directory: string): Generator<string> {
  for (const name of namesIn(directory)) if (isDraft(name)) yield join(directory, name);
}
