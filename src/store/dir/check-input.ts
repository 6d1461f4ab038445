/** What a plan looks at, from the files of a store. */
import { HoldfastError } from "../../core/values/errors.js";
import type { CheckInput } from "./check-changes.js";
import { Unsure } from "./files/failures.js";
import type { CatalogEntry } from "./index/session-catalog.js";
import type { JournalFile } from "./journal/journal-file.js";
import { Inbox } from "./sessions/inbox.js";
import type { StoreFiles } from "./store-files.js";

export function checkInputOf({
  sessions,
  journals,
  index,
}: Pick<StoreFiles, "sessions" | "journals" | "index">): CheckInput {
  const journal = (branch: CatalogEntry): JournalFile =>
    journals.of(branch, sessions.get(branch.home)?.version ?? 0);
  return {
    get lastSession() {
      return index.catalogue.lastSession;
    },
    get lastBranch() {
      return index.catalogue.lastBranch;
    },
    doc: (id) => {
      const doc = sessions.get(id);
      if (doc === undefined && index.catalogue.entry(id)?.status != null) throw lost(id);
      return doc;
    },
    branch: (id) => index.catalogue.branch(id),
    awayOf: (session) => index.catalogue.awayOf(session),
    documents: sessions.documents,
    tail: (branch) => journal(branch).tail,
    sealAt: (branch, seq) => journal(branch).sealAt(seq),
    waiting: ({ id, no: session }, ids) => new Inbox(sessions.directory(id), session).has(ids),
    unmoved: (doc) => {
      try {
        new Inbox(sessions.directory(doc.id), doc.no).clear(doc.drained);
        return [];
      } catch (error) {
        if (error instanceof Unsure) throw error;
        return doc.drained;
      }
    },
  };
}

export const lost = (id: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The file of session ${JSON.stringify(id)} is gone. Put it back, or open the store again to go on without it.`,
    {
      sessionId: id,
    },
  );
