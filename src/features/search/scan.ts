/**
 * Search by going over everything that there is: for stores without an index, and what indexes are
 * compared with.
 */
import type { Save } from "../../core/journal/save.js";
import { frequency, ownScore, Scoring } from "../../core/search/match.js";
import type { Query } from "../../core/search/query.js";
import { MAX_SEQ } from "../../core/values/ids.js";
import { Heirs } from "../../engine/journal/heirs.js";
import type { Journal } from "../../engine/journal/journal.js";
import { unlessDamaged } from "../../engine/records/damage.js";
import { breathe } from "../../engine/util/breathe.js";
import type { LineRow, SessionRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import {
  type DamagedPlace,
  type Document,
  type Finder,
  type FindOptions,
  type Found,
  type Hit,
  isScoped,
  MOST_RANKED,
} from "../../store/search-port.js";
import { isCutShort } from "./damaged.js";
import { damageAt, documentsOf, titlesIn } from "./texts.js";

const ROWS = 200;

/** What is kept of a text that matches: not its words, for it may be all that there is. */
interface Matched extends Omit<Document, "words"> {
  readonly owner: LineRow | SessionRow;
  readonly length: number;
  readonly frequencies: readonly number[];
}

export class Scan implements Finder {
  readonly #store: Store;
  readonly #journal: Journal;

  constructor(store: Store, journal: Journal) {
    this.#store = store;
    this.#journal = journal;
  }

  async find(query: Query, options: FindOptions): Promise<Found> {
    let matched: Matched[] = [];
    const counts = query.all.map(() => 0);
    const corpus = { documents: 0, words: 0 };
    const damaged: DamagedPlace[] = [];
    const lines = new LinesOf(this.#store, options);
    const scoped = isScoped(options);
    for await (const { document, owner } of this.#documents(lines)) {
      const { words, ...place } = document;
      if (document.passage < 0) {
        if (
          isWithin(document, owner as LineRow, options) &&
          (await lines.has(owner as LineRow, document.seq))
        )
          damaged.push({ line: owner as LineRow, seq: document.seq });
        continue;
      }
      corpus.documents += 1;
      corpus.words += words.length;
      const frequencies = query.all.map((phrase) => frequency(phrase, words));
      for (const [i, often] of frequencies.entries())
        if (often > 0) counts[i] = (counts[i] as number) + 1;
      if (frequencies.includes(0) || query.none.some((phrase) => frequency(phrase, words) > 0))
        continue;
      if (
        !isWanted(document, owner, options) ||
        (document.kind === "message" && !(await lines.has(owner as LineRow, document.seq)))
      )
        continue;
      matched.push({ ...place, owner, length: words.length, frequencies });
      if (matched.length >= 2 * MOST_RANKED) matched = newest(matched);
    }
    const scoring = new Scoring(corpus, counts);
    const scoreOf = ({ frequencies, length }: Matched): number =>
      scoped ? ownScore(frequencies, length) : scoring.score(frequencies, length);
    const scored = newest(matched)
      .map((match) => ({ ...match, score: scoreOf(match) }))
      .sort((a, b) => b.score - a.score || newerFirst(a, b));
    return {
      count: scored.length,
      damaged,
      read: (offset, limit) =>
        Promise.all(scored.slice(offset, offset + limit).map((match) => this.#hit(match))),
    };
  }

  async #hit({
    kind,
    owner,
    seq,
    passage,
    score,
  }: Matched & { readonly score: number }): Promise<Hit> {
    if (kind === "title") return { kind, session: owner as SessionRow, score };
    const line = owner as LineRow;
    const save = await this.#journal.saves.holding(line.id, seq, { items: true });
    return { kind, line, save, seq, passage, score };
  }

  /**
   * Of lines and sessions that are wanted: within a scope others are not read, for how long that
   * takes would tell of them.
   */
  async *#documents(
    wanted: LinesOf,
  ): AsyncGenerator<{ readonly document: Document; readonly owner: LineRow | SessionRow }> {
    for (const line of await this.#store.branches({ kind: "all" })) {
      if (!(await wanted.mayHave(line))) continue;
      let last: Pick<Save, "seq" | "at"> = { seq: line.origin?.seq ?? 0, at: 0 };
      const own = { line: line.id, from: last.seq + 1, to: MAX_SEQ };
      for await (const saves of this.#journal.saves.pages(own, { items: true, rows: ROWS })) {
        for (const save of saves) {
          for (const document of await documentsOf(this.#journal, line.no, last.seq, save))
            yield { document, owner: line };
          last = save;
        }
      }
      const { seq, at } = last;
      if (line.session !== null && (await isCutShort(this.#journal, { line: line.id, seq })))
        yield { document: damageAt(line.no, seq + 1, at), owner: line };
    }
    for (let before: number | undefined; ; ) {
      await breathe();
      const rows = await this.#store.sessions({
        limit: ROWS,
        ...(before === undefined ? undefined : { before }),
      });
      for (const row of rows) {
        before = row.no;
        if (!wanted.mayHaveTitle(row)) continue;
        for (const document of await readable(async () => [...titlesIn(row)]))
          yield { document, owner: row };
      }
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
  owner: LineRow | SessionRow,
  { within, role: wanted, since, until, ...of }: FindOptions,
): boolean {
  if (wanted !== undefined && role !== wanted) return false;
  if ((since !== undefined && at < since) || (until !== undefined && at >= until)) return false;
  if (kind === "title")
    return within === undefined ? isOf(owner as SessionRow, of) : within.session === owner.id;
  return isWithin({ seq }, owner as LineRow, { ...(within && { within }) });
}

function isWithin(
  { seq }: Pick<Document, "seq">,
  { id }: LineRow,
  { within }: Pick<FindOptions, "within">,
): boolean {
  const upTo = within?.lines.get(id)?.upTo;
  return within === undefined || (upTo !== undefined && seq <= upTo);
}

/** Lines of sessions that were asked for. */
class LinesOf {
  readonly #store: Store;
  readonly #heirs: Heirs;
  readonly #options: FindOptions;
  readonly #known = new Map<string, boolean>();

  constructor(store: Store, options: FindOptions) {
    this.#store = store;
    this.#heirs = new Heirs(store);
    this.#options = options;
  }

  /** Whether something of a line may be wanted, by what the line says itself. */
  async mayHave(line: LineRow): Promise<boolean> {
    const { within } = this.#options;
    if (within !== undefined) return within.lines.has(line.id);
    return !isScoped(this.#options) || line.session === null || this.has(line, 0);
  }

  mayHaveTitle(row: SessionRow): boolean {
    const { within } = this.#options;
    if (within !== undefined) return within.session === row.id;
    return !isScoped(this.#options) || isOf(row, this.#options);
  }

  /** Whether a record of a line is. One that no session owns is that of its heir. */
  async has({ id, session: owner }: LineRow, seq: number): Promise<boolean> {
    const { agent, tag } = this.#options;
    if (agent === undefined && tag === undefined) return true;
    const session = owner ?? (await this.#heirs.of(id, seq));
    if (session === undefined) return false;
    let known = this.#known.get(session);
    if (known === undefined) {
      const row = (await this.#store.session(session)).row;
      known = row !== undefined && isOf(row, this.#options);
      this.#known.set(session, known);
    }
    return known;
  }
}

const isOf = ({ head, label }: SessionRow, { agent, tag }: FindOptions): boolean =>
  (agent === undefined || head.agent === agent) && (tag === undefined || label.tags.includes(tag));

const newest = (matched: readonly Matched[]): Matched[] =>
  matched.length > MOST_RANKED ? matched.toSorted(newerFirst).slice(0, MOST_RANKED) : [...matched];

/**
 * Also the order of those with the same score. Lines and sessions are numbered apart: titles come
 * first.
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
