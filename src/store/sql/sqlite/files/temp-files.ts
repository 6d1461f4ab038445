/**
 * Drafts of files that are as large as a store: written beside the place they are for, and renamed
 * once they are whole and synced. One that a killed process left behind is cleared away by the next
 * that writes a draft for the same place.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { digest } from "../../../../core/values/digest.js";
import { thisMachine } from "../../../machine.js";

/**
 * Of a draft whose process cannot be asked for: it was on another machine, or in another container.
 */
const LEFT_AFTER_MS = 24 * 60 * 60 * 1_000;
/** The draft itself goes last: whoever is killed in between leaves what is found again. */
const PARTS = ["-journal", "-wal", "-shm", ""] as const;

/** Makes an empty draft for a path, which its owner alone can read. */
export function newDraft(path: string): string {
  clearLeft(dirname(path), `${basename(path)}.`, dropDraft);
  const draft = `${path}.${draftName()}`;
  closeSync(openSync(draft, "wx", 0o600));
  return draft;
}

/** A name that says which process made it. */
export const draftName = (): string =>
  `${here()}-${process.pid}-${randomBytes(6).toString("hex")}.draft`;

function here(): string {
  const { boot, space } = thisMachine().self;
  return digest(`${boot}\0${space}`).slice(0, 8);
}

/**
 * Drops what processes left in a directory that are gone: names of {@link draftName} behind a
 * prefix.
 */
export function clearLeft(directory: string, prefix: string, drop: (path: string) => void): void {
  const { self, isDead } = thisMachine();
  const ours = here();
  for (const name of readdirSync(directory)) {
    const found = name.startsWith(prefix) ? DRAFT.exec(name.slice(prefix.length)) : null;
    if (found === null) continue;
    const path = join(directory, name);
    if (
      found[1] === ours
        ? isDead({ ...self, pid: Number(found[2]), started: "", nonce: "" }, true)
        : isOld(path)
    )
      drop(path);
  }
}

/** Whether a file is the draft of one with this name. */
export const isDraftOf = (name: string, other: string): boolean =>
  other.startsWith(`${name}.`) && DRAFT.test(other.slice(name.length + 1));

const DRAFT = /^([\w-]{8})-(\d+)-[0-9a-f]{12}\.draft$/;

const isOld = (path: string): boolean =>
  Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Number.NaN) > LEFT_AFTER_MS;

/** With what SQLite may have put beside it. */
export function dropDraft(draft: string): void {
  for (const suffix of PARTS) rmSync(draft + suffix, { force: true });
}

/**
 * Nothing of it is lost by a power cut from here on. `first` is done as soon as it is synced, and
 * before it is in its place.
 */
export async function putInPlace(
  draft: string,
  path: string,
  first: () => void = () => {},
): Promise<void> {
  const file = await open(draft, "r+");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
  first();
  renameSync(draft, path);
  syncDirectory(dirname(path));
}

function syncDirectory(path: string): void {
  // There, directories cannot be opened; the system orders such changes by itself.
  if (process.platform === "win32") return;
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
