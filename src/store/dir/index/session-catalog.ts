/**
 * What there is in a store, without its texts: enough to list and find.
 */
import type { BranchId, Place } from "../../../core/values/ids.js";
import type { NewestSessions } from "../../port/queries.js";
import type { SessionDoc } from "../sessions/session-file.js";

export interface BranchEntry {
  readonly no: number;
  readonly id: BranchId;
  readonly forkPoint: Place | null;
  readonly owner: string | null;
}

export interface Entry {
  readonly id: string;
  readonly no: number;
  /** Null where there is no such session now. */
  readonly status: string | null;
  readonly agent: string | null;
  readonly due: number | null;
  readonly archived: boolean;
  readonly tags: readonly string[];
  readonly branches: readonly BranchEntry[];
  readonly lastBranch: number;
  readonly cut: readonly string[];
}

/** The status of a session whose file was damaged when it was read. */
export const UNREAD = "damaged";

/** Of a session of which nothing is known. */
export const noEntry: Entry = {
  id: "",
  no: -1,
  status: "",
  agent: null,
  due: null,
  archived: false,
  tags: [],
  branches: [],
  lastBranch: 0,
  cut: [],
};

export const entryOf = ({ id, no, head, label, branches, lastBranch, cut }: SessionDoc): Entry => ({
  id,
  no,
  status: head?.status ?? null,
  agent: head?.agent ?? null,
  due: head?.due ?? null,
  archived: label?.archived ?? false,
  tags: label?.tags ?? [],
  branches,
  lastBranch,
  cut,
});

export function isSameEntry(a: Entry, b: Entry): boolean {
  return (
    a.no === b.no &&
    a.status === b.status &&
    a.agent === b.agent &&
    a.due === b.due &&
    a.archived === b.archived &&
    a.lastBranch === b.lastBranch &&
    a.cut.length === b.cut.length &&
    a.tags.length === b.tags.length &&
    a.tags.every((tag, i) => tag === b.tags[i]) &&
    a.branches.length === b.branches.length &&
    a.branches.every(
      (branch, i) => branch.id === b.branches[i]?.id && branch.owner === b.branches[i]?.owner,
    )
  );
}

export interface CatalogEntry extends BranchEntry {
  /** The session in whose directory its journal stands. */
  readonly home: string;
}

const noBranches: ReadonlySet<string> = new Set();

export class SessionCatalog {
  readonly #entries = new Map<string, Entry>();
  readonly #branches = new Map<string, CatalogEntry>();
  /**
   * Branches by the branch they begin on, and by the session they belong to where they stand in
   * another's directory.
   */
  readonly #forks = new Map<string, Set<string>>();
  readonly #away = new Map<string, Set<string>>();
  readonly #cut = new Set<string>();
  /** Sessions that are, or will be, due, by their agent. */
  readonly #due = new Map<string, Set<string>>();
  /** The sessions that there are, newest first; undefined until a list asks for them. */
  #order: readonly Entry[] | undefined;
  lastSession = 0;
  lastBranch = 0;

  get size(): number {
    return this.#entries.size;
  }

  entries(): IterableIterator<Entry> {
    return this.#entries.values();
  }

  entry(id: string): Entry | undefined {
    return this.#entries.get(id);
  }

  branch(id: string): CatalogEntry | undefined {
    return this.#branches.get(id);
  }

  wasCut(branch: string): boolean {
    return this.#cut.has(branch);
  }

  forksOf(branch: string): CatalogEntry[] {
    return this.#standing(this.#forks.get(branch) ?? noBranches);
  }

  /** Branches of this session that stand in another's directory. */
  awayOf(session: string): CatalogEntry[] {
    return this.#standing(this.#away.get(session) ?? noBranches);
  }

  #standing(ids: ReadonlySet<string>): CatalogEntry[] {
    return [...ids].map((id) => this.#branches.get(id) as CatalogEntry);
  }

  set(entry: Entry): void {
    const before = this.#entries.get(entry.id);
    for (const branch of before?.branches ?? []) this.#dropBranch(branch, entry.id);
    if (before !== undefined) this.#dropDue(before);
    this.#entries.set(entry.id, entry);
    if (entry.agent !== null && entry.due !== null) addTo(this.#due, entry.agent, entry.id);
    for (const branch of entry.branches) this.#addBranch(branch, entry.id);
    for (const branch of entry.cut) this.#cut.add(branch);
    this.lastSession = Math.max(this.lastSession, entry.no);
    this.lastBranch = Math.max(this.lastBranch, entry.lastBranch);
    const wasThere = before !== undefined && before.status !== null;
    if (wasThere !== (entry.status !== null) || before?.no !== entry.no) this.#order = undefined;
  }

  #dropDue({ id, agent }: Entry): void {
    if (agent === null) return;
    const ids = this.#due.get(agent);
    ids?.delete(id);
    if (ids?.size === 0) this.#due.delete(agent);
  }

  /** An agent's sessions that are due at some time, in no order. */
  due(agent: string): Entry[] {
    return [...(this.#due.get(agent) ?? [])].map((id) => this.#entries.get(id) as Entry);
  }

  #addBranch(branch: BranchEntry, home: string): void {
    const { no, id, forkPoint, owner } = branch;
    this.#branches.set(id, { no, id, forkPoint, owner, home });
    if (forkPoint !== null) addTo(this.#forks, forkPoint.branch, id);
    if (owner !== null && owner !== home) addTo(this.#away, owner, id);
  }

  #dropBranch({ id, forkPoint, owner }: BranchEntry, home: string): void {
    // Where two directories name one branch, the other has it now.
    if (this.#branches.get(id)?.home !== home) return;
    this.#branches.delete(id);
    if (forkPoint !== null) this.#forks.get(forkPoint.branch)?.delete(id);
    if (owner !== null) this.#away.get(owner)?.delete(id);
  }

  /** Sessions that fit, newest first. */
  *sessions(query: NewestSessions): Generator<Entry> {
    this.#order ??= [...this.#entries.values()]
      .filter(({ status }) => status !== null)
      .sort((a, b) => b.no - a.no);
    const before = query.before ?? Number.POSITIVE_INFINITY;
    for (const { no, id } of this.#order) {
      if (no >= before) continue;
      const entry = this.#entries.get(id);
      if (entry?.no !== no || entry.status === null) continue;
      // Of one whose file was damaged when it was read nothing is known: every list names it.
      if (entry.status === UNREAD || fits(entry, query)) yield entry;
    }
  }
}

export function fits(
  entry: Pick<Entry, "agent" | "status" | "tags" | "archived">,
  query: NewestSessions,
): boolean {
  const { agent, status, tag, archived } = query;
  if (agent !== undefined && entry.agent !== agent) return false;
  if (status !== undefined && entry.status !== status) return false;
  if (tag !== undefined && !entry.tags.includes(tag)) return false;
  return archived === undefined || entry.archived === archived;
}

function addTo(map: Map<string, Set<string>>, key: string, value: string): void {
  const set = map.get(key);
  if (set === undefined) map.set(key, new Set([value]));
  else set.add(value);
}
