/**
 * Search by going over everything that there is: for stores without an index, and what indexes are
 * compared with.
 */
import type { Save } from "../../core/journal/save.js";
import { frequency, scoreOf } from "../../core/search/match.js";
import type { Query } from "../../core/search/query.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import type { Journal } from "../../engine/journal/journal.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow, SessionRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import {
  type DamagedPlace,
  type Document,
  type FindOptions,
  type Found,
  type Hit,
  MOST_RANKED,
} from "../../store/search-port.js";
import { isCutShort } from "./damaged.js";
import { OwnerLookup } from "./owner-lookup.js";
import { damageAt, documentsOf, titlesIn } from "./search-texts.js";

const ROWS = 200;

/** What is kept of a text that matches: not its words, for it may be all that there is. */
interface Matched extends Omit<Document, "words"> {
  readonly owner: BranchRow | SessionRow;
  readonly score: number;
}

export class Scan {
  readonly #store: Store;
  readonly #journal: Journal;

  constructor(store: Store, journal: Journal) {
    this.#store = store;
    this.#journal = journal;
  }

  find(query: Query, options: FindOptions): Promise<Found> {
    return this.#find(query, options, Number.POSITIVE_INFINITY) as Promise<Found>;
  }

  /** The same where there are at most so many texts to go over; else undefined. */
  findAmong(query: Query, options: FindOptions, most: number): Promise<Found | undefined> {
    return this.#find(query, options, most);
  }

  async #find(query: Query, options: FindOptions, most: number): Promise<Found | undefined> {
    let matched: Matched[] = [];
    const damaged: DamagedPlace[] = [];
    const owners = new OwnerLookup(this.#store, options);
    let count = 0;
    for await (const { document, owner } of this.#documents(options)) {
      const { words, ...place } = document;
      if (
        place.kind === "message" &&
        (await owners.ofRecord(owner as BranchRow, place.seq)) === undefined
      )
        continue;
      if (place.passage < 0) {
        if (isWithin(place, owner.id, options))
          damaged.push({ branch: owner as BranchRow, seq: place.seq });
        continue;
      }
      count += 1;
      if (count > most) return undefined;
      const frequencies = query.all.map((phrase) => frequency(phrase, words));
      if (frequencies.includes(0) || query.none.some((phrase) => frequency(phrase, words) > 0))
        continue;
      if (!isWanted(document, owner, options)) continue;
      matched.push({ ...place, owner, score: scoreOf(frequencies, words.length) });
      if (matched.length >= 2 * MOST_RANKED) matched = newest(matched);
    }
    const best = newest(matched).sort((a, b) => b.score - a.score || newerFirst(a, b));
    return {
      count: best.length,
      damaged,
      read: (offset, limit) =>
        Promise.all(best.slice(offset, offset + limit).map((match) => this.#hit(match))),
    };
  }

  async #hit({ kind, owner, seq, passage, score }: Matched): Promise<Hit> {
    if (kind === "title") return { kind, session: owner as SessionRow, score };
    const branch = owner as BranchRow;
    const save = await this.#journal.saves.holding(branch.id, seq, { items: true });
    return { kind, branch, save, seq, passage, score };
  }

  async *#documents(
    options: FindOptions,
  ): AsyncGenerator<{ readonly document: Document; readonly owner: BranchRow | SessionRow }> {
    for await (const branch of this.#branches(options)) {
      let last: Pick<Save, "seq" | "at"> = { seq: branch.forkPoint?.seq ?? 0, at: 0 };
      const own = { branch: branch.id, from: last.seq + 1, to: MAX_SEQ };
      for await (const saves of this.#journal.saves.pages(own, { items: true, rows: ROWS })) {
        for (const save of saves) {
          for (const document of await documentsOf(this.#journal, branch.no, last.seq, save))
            yield { document, owner: branch };
          last = save;
        }
      }
      const { seq, at } = last;
      if (branch.session !== null && (await isCutShort(this.#journal, { branch: branch.id, seq })))
        yield { document: damageAt(branch.no, seq + 1, at), owner: branch };
    }
    for await (const row of this.#sessions(options))
      for (const document of await readable(async () => [...titlesIn(row)]))
        yield { document, owner: row };
  }

  /**
   * Branches on which something may be wanted. Of a scope: its own, and those without an owner that
   * they go back to. Others are not read, for how long that takes would tell of them.
   */
  async *#branches(options: FindOptions): AsyncGenerator<BranchRow> {
    const { within, agent } = options;
    if (within === undefined && agent === undefined)
      return yield* await this.#store.branches({ kind: "all" });
    const seen = new Set<string>();
    for (const id of within?.branches.keys() ?? []) {
      const [branch] = await this.#store.branches(oneBranch(id));
      if (branch !== undefined) yield branch;
    }
    if (within !== undefined) return;
    for await (const { id: session } of this.#sessions(options)) {
      for (const own of await this.#store.branches({ kind: "session", session })) {
        yield own;
        let { forkPoint } = own;
        while (forkPoint !== null && !seen.has(forkPoint.branch)) {
          seen.add(forkPoint.branch);
          const found: readonly BranchRow[] = await this.#store.branches(
            oneBranch(forkPoint.branch),
          );
          const [branch] = found;
          if (branch === undefined || branch.session !== null) break;
          yield branch;
          forkPoint = branch.forkPoint;
        }
      }
    }
  }

  /** Sessions whose titles may be wanted. */
  async *#sessions({ within, agent, tag }: FindOptions): AsyncGenerator<SessionRow> {
    if (within !== undefined) {
      const { row } = await this.#store.session(within.session);
      if (row !== undefined) yield row;
      return;
    }
    const query = {
      limit: ROWS,
      ...(agent !== undefined && { agent }),
      ...(tag !== undefined && { tag }),
    };
    for (let before: number | undefined; ; ) {
      await yieldToEventLoop();
      const rows = await this.#store.sessions({
        ...query,
        ...(before !== undefined && { before }),
      });
      yield* rows;
      before = rows.at(-1)?.no;
      if (rows.length < ROWS) return;
    }
  }
}

/** A title that is damaged cannot be found; lists of sessions name it. The rest can. */
export const readable = async (
  read: () => Promise<readonly Document[]>,
): Promise<readonly Document[]> => (await unlessDamaged(read)) ?? [];

function isWanted(
  { kind, role, at, seq }: Document,
  { id }: BranchRow | SessionRow,
  { role: wanted, since, until, within }: FindOptions,
): boolean {
  if (wanted !== undefined && role !== wanted) return false;
  if ((since !== undefined && at < since) || (until !== undefined && at >= until)) return false;
  return kind === "title" || isWithin({ seq }, id, { ...(within && { within }) });
}

function isWithin(
  { seq }: Pick<Document, "seq">,
  branch: string,
  { within }: Pick<FindOptions, "within">,
): boolean {
  const upTo = within?.branches.get(branch as BranchId)?.upTo;
  return within === undefined || (upTo !== undefined && seq <= upTo);
}

const newest = (matched: readonly Matched[]): Matched[] =>
  matched.length > MOST_RANKED ? matched.toSorted(newerFirst).slice(0, MOST_RANKED) : [...matched];

/**
 * Also the order of those with the same score. Branches and sessions are numbered apart: titles
 * come first.
 */
function newerFirst(a: Matched, b: Matched): number {
  return (
    b.at - a.at ||
    (a.role === 0 ? 0 : 1) - (b.role === 0 ? 0 : 1) ||
    b.of - a.of ||
    b.seq - a.seq ||
    a.passage - b.passage
  );
}
