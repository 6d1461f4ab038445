/** Search by going over everything that there is: for stores without an index, and what indexes are compared with. */
import { HoldfastError } from "../../core/errors.js";
import { MAX_SEQ } from "../../core/ids.js";
import { frequency, occurrences, Scoring } from "../../core/search/match.js";
import type { Query } from "../../core/search/query.js";
import type { LineRow, SessionRow, Store } from "../../store/port.js";
import { type Document, type Finder, type FindOptions, type Found, type Hit, MOST_RANKED } from "../../store/search-port.js";
import { breathe } from "../breathe.js";
import type { Journal } from "../journal.js";
import { documentsIn, textsIn, titlesIn } from "./texts.js";

const ROWS = 200;

interface Matched {
  readonly document: Document;
  readonly owner: LineRow | SessionRow;
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
    const matched: Matched[] = [];
    const counts = query.all.map(() => 0);
    let documents = 0;
    let words = 0;
    for await (const { document, owner } of this.#documents()) {
      documents += 1;
      words += document.words.length;
      for (const [i, phrase] of query.all.entries()) if (frequency(phrase, document.words) > 0) counts[i] = (counts[i] as number) + 1;
      if (!isWanted(document, owner, options)) continue;
      const found = occurrences(query, document.words);
      if (found !== undefined) matched.push({ document, owner, frequencies: found.map(({ length }) => length) });
    }
    const scoring = new Scoring({ documents, words }, counts);
    const scored = matched
      .toSorted((a, b) => newerFirst(a.document, b.document))
      .slice(0, MOST_RANKED)
      .map((match) => ({ ...match, score: scoring.score(match.frequencies, match.document.words.length) }))
      .sort((a, b) => b.score - a.score || newerFirst(a.document, b.document));
    const { offset, limit } = options;
    const hits = await Promise.all(scored.slice(offset, offset + limit).map((match) => this.#hit(match)));
    return { hits, more: scored.length > offset + limit };
  }

  async #hit({ document, owner, score }: Matched & { readonly score: number }): Promise<Hit> {
    if (document.kind === "title") return { kind: "title", session: owner as SessionRow, score };
    const line = owner as LineRow;
    const { seq, passage } = document;
    const [save] = await this.#store.saves(line.id, { from: seq, to: seq, limit: 1, items: true, state: false });
    return { kind: "message", line, save, seq, passage, score };
  }

  async *#documents(): AsyncGenerator<{ readonly document: Document; readonly owner: LineRow | SessionRow }> {
    for (const line of await this.#store.lines({ all: true })) {
      for (let at = 1; ; ) {
        await breathe();
        const saves = await this.#store.saves(line.id, { from: at, to: MAX_SEQ, limit: ROWS, items: true, state: false });
        for (const save of saves) {
          at = save.seq + 1;
          for (const document of await readable(() => this.#ofSave(line, save))) yield { document, owner: line };
        }
        if (saves.length < ROWS) break;
      }
    }
    for (let before: number | undefined; ; ) {
      await breathe();
      const rows = await this.#store.sessions({ limit: ROWS, ...(before === undefined ? undefined : { before }) });
      for (const row of rows) {
        before = row.no;
        for (const document of await readable(async () => [...titlesIn(row)])) yield { document, owner: row };
      }
      if (rows.length < ROWS) return;
    }
  }

  async #ofSave(line: LineRow, save: Parameters<typeof textsIn>[1]): Promise<Document[]> {
    const found: Document[] = [];
    for await (const text of textsIn(this.#journal, save)) for (const document of documentsIn(line.no, text)) found.push(document);
    return found;
  }
}

/** What is damaged cannot be found; `verify` says so. The rest can. */
export async function readable(read: () => Promise<readonly Document[]>): Promise<readonly Document[]> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return [];
    throw error;
  }
}

function isWanted(
  { kind, role, at, seq }: Document,
  owner: LineRow | SessionRow,
  { within, agent, tag, role: wanted, since, until }: FindOptions,
): boolean {
  if (wanted !== undefined && role !== wanted) return false;
  if ((since !== undefined && at < since) || (until !== undefined && at >= until)) return false;
  if (kind === "title") {
    const { id, head, label } = owner as SessionRow;
    if (within !== undefined && within.session !== id) return false;
    return (agent === undefined || head.agent === agent) && (tag === undefined || label.tags.includes(tag));
  }
  // Whose line it is, and what that session is, is looked at by the caller.
  const upTo = within?.lines.get((owner as LineRow).id)?.upTo;
  return within === undefined || (upTo !== undefined && seq <= upTo);
}

/** Also the order of those with the same score. Lines and sessions are numbered apart: titles come first. */
function newerFirst(a: Omit<Document, "words">, b: Omit<Document, "words">): number {
  return b.at - a.at || (a.role === 0 ? 0 : 1) - (b.role === 0 ? 0 : 1) || b.of - a.of || b.seq - a.seq || a.passage - b.passage;
}
