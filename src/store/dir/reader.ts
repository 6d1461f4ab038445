/**
 * What is read from a directory: by the writer, who knows its sessions, and by anybody else, who
 * looks again each time.
 */
import type { Save } from "../../core/journal/save.js";
import type { BranchId } from "../../core/values/ids.js";
import { firstFrom } from "../beginnings.js";
import type { InboxMessage, InboxQuery, Posted } from "../port/inbox.js";
import type { BranchQuery, SaveQuery, SessionQuery } from "../port/queries.js";
import type { BranchRow, Present, SessionFound, SessionRow } from "../port/rows.js";
import type { InboxMarkers } from "./claims/inbox-markers.js";
import { DAMAGED } from "./files/checksummed-json.js";
import { nameOf } from "./files/names.js";
import {
  type CatalogEntry,
  type Entry,
  fits,
  noEntry,
  type SessionCatalog,
} from "./index/session-catalog.js";
import type { SessionIndex } from "./index/session-index.js";
import type { Approach } from "./journal/approach.js";
import type { JournalCache } from "./journal/journal-cache.js";
import type { JournalFile } from "./journal/journal-file.js";
import { Inbox } from "./sessions/inbox.js";
import { branchRow, type SessionDoc, sessionRow } from "./sessions/session-file.js";
import type { Found, SessionFiles } from "./sessions/session-files.js";

export class Reader {
  readonly #sessions: SessionFiles;
  readonly #journals: JournalCache;
  readonly #index: SessionIndex;
  readonly #waiting: InboxMarkers;

  constructor(
    sessions: SessionFiles,
    journals: JournalCache,
    index: SessionIndex,
    waiting: InboxMarkers,
  ) {
    this.#sessions = sessions;
    this.#journals = journals;
    this.#index = index;
    this.#waiting = waiting;
  }

  get #catalogue(): SessionCatalog {
    return this.#index.catalogue;
  }

  // ---- sessions

  find(id: string, how?: "end"): SessionFound {
    const present = how === "end" ? this.present(id) : undefined;
    if (present !== undefined) return { ...present, buried: 0 };
    const found = this.#sessions.find(id);
    const row = this.#sessionRow(id, found);
    const isBuried = row === undefined && found !== undefined && found !== "damaged";
    return { row, buried: isBuried ? found.buried : 0 };
  }

  session(id: string): SessionRow | undefined {
    return this.#sessionRow(id, this.#sessions.find(id));
  }

  #sessionRow(id: string, found: Found): SessionRow | undefined {
    const entry = this.#catalogue.entry(id);
    if (found !== undefined && found !== "damaged") return sessionRow(found);
    // Its file cannot be read, or is gone, and the index knows of it.
    if (entry !== undefined && entry.status !== null) return damagedRow(entry);
    return found === "damaged" ? damagedRow({ ...noEntry, id }) : undefined;
  }

  present(id: string): Present | undefined {
    for (let tries = 0; ; tries++) {
      const before = this.#sessions.find(id);
      const row = this.session(id);
      if (row === undefined) return undefined;
      const branch = this.branch(row.head.branch);
      const end = branch === undefined ? undefined : this.#journal(row.head.branch)?.last();
      // Of one instant: another process may have changed it since it was read.
      if (versionOf(this.#sessions.find(id)) === versionOf(before) || tries > 100)
        return { row, branch, end };
    }
  }

  sessions(query: SessionQuery): SessionRow[] {
    const rows: SessionRow[] = [];
    if (query.limit <= 0) return rows;
    if ("beginning" in query) {
      const all = [...this.#catalogue.sessions({ limit: Number.MAX_SAFE_INTEGER })];
      const ids = firstFrom(
        all.map(({ id }) => id),
        query.beginning,
        query.limit,
      );
      return ids.flatMap((id) => this.session(id) ?? []);
    }
    for (const entry of this.#catalogue.sessions(query)) {
      const row = this.session(entry.id);
      // Asked again: the index may be a little ahead of what it speaks of, or behind.
      if (row === undefined || (query.before !== undefined && row.no >= query.before)) continue;
      const { head, label } = row;
      if (head.text !== DAMAGED && !fits({ ...head, ...label }, query)) continue;
      rows.push(row);
      if (rows.length >= query.limit) break;
    }
    return rows;
  }

  /** Where an agent's sessions stand, the oldest first. */
  presents(agent: string, limit: number): Present[] {
    const ids = [...this.#catalogue.sessions({ agent, limit: Number.MAX_SAFE_INTEGER })]
      .map(({ id }) => id)
      .reverse();
    return ids.slice(0, limit).flatMap((id) => {
      const present = this.present(id);
      return present?.row.head.agent === agent ? [present] : [];
    });
  }

  // ---- branches

  branch(id: string): BranchRow | undefined {
    const standing = this.#catalogue.branch(id);
    return standing && this.#row(standing);
  }

  #row(standing: CatalogEntry): BranchRow | undefined {
    const found = this.#sessions.find(standing.home);
    if (found === undefined || found === "damaged") {
      const { no, id, forkPoint, owner } = standing;
      return { no, id, forkPoint, owned: owner !== null, session: owner, text: DAMAGED };
    }
    const branch = found.branches.find(({ id }) => id === standing.id);
    return branch && branchRow(branch);
  }

  #past(id: string, limit: number): BranchRow[] {
    const past: BranchRow[] = [];
    for (
      let row = this.branch(id);
      row !== undefined;
      row = row.forkPoint === null ? undefined : this.branch(row.forkPoint.branch)
    ) {
      past.push(row);
      // Branches never begin on themselves. Where damage makes it seem so, this ends it, too.
      if (past.length === limit) break;
    }
    return past;
  }

  branches(query: BranchQuery): BranchRow[] {
    if (query.kind === "past") return this.#past(query.id, query.limit);
    if (query.kind === "beginning") {
      const ids = [...this.#allBranches()].map(({ id }) => id);
      return firstFrom(ids, query.beginning, query.limit).flatMap((id) => this.branch(id) ?? []);
    }
    const rows = this.#some(query)
      .flatMap((standing) => this.#row(standing) ?? [])
      .sort((a, b) => b.no - a.no);
    return query.kind === "later-forks"
      ? rows
          .filter(({ no }) => no > query.after)
          .slice(-query.limit)
          .reverse()
      : rows;
  }

  #some(query: Exclude<BranchQuery, { readonly kind: "past" | "beginning" }>): CatalogEntry[] {
    if (query.kind === "session") return this.#branchesOf(query.session);
    if (query.kind !== "all") return this.#catalogue.forksOf(query.of);
    const { before = Number.MAX_SAFE_INTEGER, limit } = query;
    const all = [...this.#allBranches()].filter(({ no }) => no < before);
    return limit === undefined ? all : all.sort((a, b) => b.no - a.no).slice(0, limit);
  }

  #branchesOf(session: string): CatalogEntry[] {
    const own =
      this.#catalogue.entry(session)?.branches.filter(({ owner }) => owner === session) ?? [];
    return [
      ...own.map((branch) => ({ ...branch, home: session })),
      ...this.#catalogue.awayOf(session),
    ];
  }

  *#allBranches(): Generator<CatalogEntry> {
    for (const { id, branches } of this.#catalogue.entries())
      for (const branch of branches) yield { ...branch, home: id };
  }

  // ---- saves

  /** Undefined where they are far from the branch's end: asked again, it is nearer to them. */
  saves(branch: BranchId, query: SaveQuery, approach: Approach): Save[] | undefined {
    const standing = this.#catalogue.branch(branch);
    const journal = standing && this.journal(standing);
    if (journal === undefined) return [];
    if (!approach.step(journal, query.newestFirst ? query.to : query.from)) return undefined;
    return journal.read(query, (standing?.forkPoint?.seq ?? 0) + 1);
  }

  #journal(branch: string): JournalFile | undefined {
    const standing = this.#catalogue.branch(branch);
    return standing && this.journal(standing);
  }

  /** The journal of a branch, or undefined where the branch is gone. */
  journal(standing: Pick<CatalogEntry, "id" | "home">): JournalFile | undefined {
    const found = this.#sessions.find(standing.home);
    const doc = found === "damaged" ? undefined : found;
    if (doc !== undefined && !doc.branches.some(({ id }) => id === standing.id)) return undefined;
    // Where its session's file is damaged, whoever reads its branches is told by their rows.
    return this.#journals.of(standing, doc?.version ?? Number.MAX_SAFE_INTEGER);
  }

  // ---- inbox messages

  post(session: string, message: InboxMessage): Posted {
    const doc = this.#sessions.get(session);
    if (doc === undefined || doc.head === null) return "absent";
    const name = nameOf(session);
    const posted = this.#inbox(doc).post(message, doc.drained, () => this.#waiting.mark(name));
    if (posted === "posted") this.#waiting.posted(name);
    return posted;
  }

  inbox(session: string, query: InboxQuery): InboxMessage[] {
    const doc = this.#sessions.get(session);
    return doc === undefined || doc.head === null
      ? []
      : this.#inbox(doc).waiting(doc.drained, query);
  }

  #inbox({ id, no }: SessionDoc): Inbox {
    return new Inbox(this.#sessions.directory(id), no);
  }
}

const versionOf = (found: Found): number =>
  found === undefined || found === "damaged" ? -1 : found.version;

/**
 * No digest fits it: whoever reads it is told that the session is damaged, and the others of a list
 * are not hidden by it.
 */
const damagedRow = ({ id, no, status, agent, archived, tags }: Entry): SessionRow => ({
  no,
  id,
  head: { status: status ?? "", agent, branch: "" as BranchId, due: null, text: DAMAGED },
  label: { version: -1, archived, tags, text: DAMAGED },
  lease: { epoch: -1, until: -1, text: DAMAGED },
});
