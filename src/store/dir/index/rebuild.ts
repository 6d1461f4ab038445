/** Reads what all sessions' files say. */
import { closeSync } from "node:fs";
import { basename, join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import type { BranchId } from "../../../core/values/ids.js";
import { isUnseen } from "../files/failures.js";
import { namesIn, openFile, readRange } from "../files/files.js";
import { sessionPath } from "../files/names.js";
import type { SessionFiles } from "../sessions/session-files.js";
import { type Entry, entryOf, noEntry, UNREAD } from "./session-catalog.js";

const AT_ONCE = 200;

/** The directories of all sessions. */
export function sessionDirectories(root: string): string[] {
  const sessions = join(root, "sessions");
  return namesIn(sessions)
    .filter((name) => /^[0-9a-f]{2}$/.test(name))
    .flatMap((bucket) =>
      namesIn(join(sessions, bucket)).map((name) => join(sessions, bucket, name)),
    );
}

export async function readAllEntries(root: string, sessions: SessionFiles): Promise<Entry[]> {
  const entries: Entry[] = [];
  // SESSIONFILE-2: in this order. What is put in its place in between is found there.
  const unfinished = sessions.unfinished();
  const directories = [...new Set([...unfinished.keys(), ...sessionDirectories(root)])];
  let unnumbered = 0;
  for (const [i, directory] of directories.entries()) {
    if (i % AT_ONCE === 0) await breathe();
    const found = sessions.at(directory, unfinished);
    if (found === undefined) continue;
    // One that cannot be read, or stands where it does not belong, is listed all the same: somebody
    // has to be told.
    if (found !== "damaged" && directory === join(root, sessionPath(found.id)))
      entries.push(entryOf(found));
    else
      entries.push(
        damagedEntry(root, directory) ?? { ...damaged, id: basename(directory), no: --unnumbered },
      );
  }
  return entries;
}

const damaged = { ...noEntry, status: UNREAD };

interface Header {
  readonly branch: BranchId;
  readonly session: string;
  readonly number: number;
  readonly no: number;
  readonly forkPoint: Entry["branches"][number]["forkPoint"];
}

/** What the first rows of its journals say of a session whose own file is damaged. */
function damagedEntry(root: string, directory: string): Entry | undefined {
  const headers = namesIn(directory)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => headerOf(join(directory, name)) ?? [])
    .filter(
      ({ branch, session }) =>
        typeof branch === "string" &&
        typeof session === "string" &&
        join(root, sessionPath(session)) === directory,
    )
    .sort((a, b) => a.no - b.no);
  const last = headers.at(-1);
  if (last === undefined) return undefined;
  const branches = headers.map(({ branch, no, forkPoint, session }) => ({
    no,
    id: branch,
    forkPoint,
    owner: session,
  }));
  return { ...damaged, id: last.session, no: last.number, branches, lastBranch: last.no };
}

function headerOf(path: string): Header | undefined {
  try {
    const opened = openFile(path);
    if (opened === undefined) return undefined;
    try {
      const [row = ""] = readRange(opened.fd, 0, Math.min(opened.stat.size, 4096))
        .toString()
        .split("\n", 1);
      return JSON.parse(row) as Header;
    } finally {
      closeSync(opened.fd);
    }
  } catch (error) {
    if (isUnseen(error)) throw error;
    return undefined;
  }
}
