/** The files that a store in a directory is made of, by what they hold. */
import { join } from "node:path";
import { Presence } from "../presence.js";
import { Reserve } from "../reserve.js";
import { Claims } from "./claims/claims.js";
import { InboxMarkers } from "./claims/inbox-markers.js";
import { Blobs } from "./files/blobs.js";
import { SessionIndex } from "./index/session-index.js";
import { JournalCache } from "./journal/journal-cache.js";
import { Lock } from "./lock/lock.js";
import { Reader } from "./reader.js";
import { SessionFiles } from "./sessions/session-files.js";

/**
 * A delete writes some small files. To prune, a journal is written anew: one that is longer needs
 * more room than this.
 */
const RESERVE_BYTES = 512 * 1024;

/** The log by which processes tell each other which sessions have changed. */
export const CHANGES = "changes.jsonl";

export interface StoreFiles {
  readonly root: string;
  readonly sessions: SessionFiles;
  readonly journals: JournalCache;
  readonly index: SessionIndex;
  readonly blobs: Blobs;
  readonly waiting: InboxMarkers;
  readonly due: Claims;
  readonly reader: Reader;
  readonly lock: Lock;
  readonly presence: Presence;
  readonly reserve: Reserve;
}

/**
 * `findMoved` answers the path of what is no longer the directory, or the store, that was opened.
 */
export function storeFiles(root: string, findMoved: () => string | undefined): StoreFiles {
  const sessions = new SessionFiles(root);
  const journals = new JournalCache((id) => sessions.directory(id));
  const index = new SessionIndex(join(root, CHANGES), (id) => {
    const found = sessions.find(id);
    return found === "damaged" ? undefined : found;
  });
  const waiting = new InboxMarkers(root);
  const lock = new Lock(root);
  return {
    root,
    sessions,
    journals,
    index,
    blobs: new Blobs(root),
    waiting,
    due: new Claims(root, sessions, index, waiting),
    reader: new Reader(sessions, journals, index, waiting),
    lock,
    presence: new Presence(() => findMoved() ?? lock.findMoved()),
    reserve: new Reserve(join(root, "reserve"), RESERVE_BYTES),
  };
}
