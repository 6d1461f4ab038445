/**
 * The index for search of a store in Postgres: documents as tsvector, in the store's own schema.
 *
 * Saves have no order of coming here. They are read by the transactions they came with, from the
 * oldest on that was open when the last round began; what was taken in already is passed over,
 * because a document has one place. Whoever takes in saves first forgets what was noted as gone,
 * and gives up what it has read if anything was noted meanwhile: then it may have read what is not
 * there any more.
 */
import type { Query } from "../../../../core/search/query.js";
import type { BranchId } from "../../../../core/values/ids.js";
import type {
  Document,
  FindOptions,
  Fresh,
  Hit,
  IndexFound,
  SearchIndex,
} from "../../../search-port.js";
import type { Database, Procedure, Row, SqlCall } from "../../database.js";
import { againOf, firstOfEach, hitOf, hitParams, type Numbered } from "../../hits.js";
import { indexKey } from "../../index-notes.js";
import { change, look, row, rowsOf } from "../../procedure.js";
import { saveRow, sessionRow } from "../../rows.js";
import { recordOf, type Statements, statementsIn } from "../../statements.js";
import { arrayOf, byIndex, rank } from "./ranking.js";

interface State {
  readonly turn: number;
  readonly session: number;
  readonly isNew: number;
  readonly tx: number;
  readonly oldest: number;
  readonly atTx: number;
  readonly atBranch: number;
  readonly atSeq: number;
}

interface Step {
  readonly turn: number;
  readonly from: State;
  readonly to: State;
  /** Notes of sessions, and the sessions whose titles are looked at anew. */
  readonly notes: readonly string[];
  readonly sessions: readonly string[];
  /** Whether some of it was taken in, and the titles of these sessions are out of the way. */
  begun: boolean;
}

const columns = "turn, session, is_new, tx, oldest, at_tx, at_branch, at_seq";
const saveColumns =
  "v.branch, (SELECT l.id FROM branch l WHERE l.no = v.branch), v.tx, v.seq, v.head, convert_from(v.mark, 'UTF8'), v.note, convert_from(v.items, 'UTF8'), NULL";
/** The number of the save before it, or of the place at which its branch begins. */
const before = `coalesce((SELECT p.seq FROM save p WHERE p.tenant = v.tenant AND p.branch = v.branch AND p.seq < v.seq ORDER BY p.seq DESC LIMIT 1),
  (SELECT l.fork_seq FROM branch l WHERE l.no = v.branch), 0)`;
/** Their branches one by one: a planner that knows no figures yet would begin with all branches. */
const saves = (where: string, order: string): string =>
  `SELECT ${saveColumns}, ${before} FROM save v WHERE v.tenant = ? AND ${where} ORDER BY ${order} LIMIT CAST(? AS bigint)`;
const oldestOpen = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
/** So many transactions are looked at in one round. */
const ROUND = 5_000;
const FORGOTTEN_AT_ONCE = 100;
const MOST_COUNTED = 10_000;
/** Documents that go in with one statement. */
const TOGETHER = 100;

export class PostgresIndex implements SearchIndex {
  readonly #db: Database;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #record: string;
  readonly #steps = new WeakMap<Fresh, Step>();
  #isKept: boolean;

  /**
   * `isKept`: there was an index when the store was opened. Where there is none, nobody shall wait
   * for a server to say so.
   */
  constructor(db: Database, tenant: string, isKept: boolean) {
    this.#isKept = isKept;
    this.#db = db;
    this.#sql = statementsIn(db.dialect);
    this.#tenant = tenant;
    this.#record = recordOf(db.dialect, "");
  }

  /** As it was when the store was opened: who begins one later keeps it up, too. */
  async exists(): Promise<boolean> {
    return this.#isKept;
  }

  async begin(anew: boolean): Promise<void> {
    if (!anew && (await this.exists())) return;
    await this.#write(() => this.#begin(anew));
    this.#isKept = true;
  }

  /**
   * Empties it where it is new, or was given up, for more was noted than anybody took in; `anew`
   * does so in any case.
   */
  *#begin(anew: boolean): Procedure<void> {
    const tenant = this.#tenant;
    const key = indexKey(tenant);
    if (!anew && (yield* row(this.#sql.indexName, key)) !== undefined) return;
    // Always first: whoever takes something in has it too.
    yield* rowsOf("SELECT 1 FROM passage_state WHERE tenant = ? FOR UPDATE", tenant);
    yield [
      change(this.#sql.beginIndex, key, "1"),
      change("DELETE FROM passage WHERE tenant = ?", tenant),
      change(
        `INSERT INTO passage_state (tenant, ${columns}) SELECT ?, 0, 0, 0, ${oldestOpen}, 0, 0, 0, 0
          ON CONFLICT (tenant) DO UPDATE SET turn = passage_state.turn + 1, session = 0, is_new = 0, tx = excluded.tx, oldest = 0,
          at_tx = 0, at_branch = 0, at_seq = 0`,
        tenant,
      ),
    ];
  }

  missing(): Promise<number> {
    return this.behind();
  }

  async behind(): Promise<number> {
    const [found] = await this.#db.read(`SELECT ${columns} FROM passage_state WHERE tenant = ?`, [
      this.#tenant,
    ]);
    if (found === undefined) return 0;
    const { isNew, tx, atBranch, atSeq } = stateOf(found);
    const counted = (from: string) =>
      `SELECT count(*) FROM (SELECT 1 FROM ${from} LIMIT ${MOST_COUNTED}) AS counted`;
    const tenant = this.#tenant;
    const asks =
      isNew === 1
        ? [byIndex, look(counted("save WHERE tenant = ? AND tx >= ?"), tenant, tx)]
        : [
            look(
              counted("save WHERE tenant = ? AND (branch, seq) > (?, ?)"),
              tenant,
              atBranch,
              atSeq,
            ),
          ];
    return this.#write(function* () {
      const answers = yield [...asks, look(counted("unindexed WHERE tenant = ?"), tenant)];
      return (answers.at(-2)?.[0]?.[0] as number) + (answers.at(-1)?.[0]?.[0] as number);
    });
  }

  // ---- taking in

  async next(limit: number): Promise<Fresh> {
    const { from, notes, sessions: noted, isLast } = await this.#write(() => this.#forget(limit));
    const { rows, to, isRoundOver } = await this.#write(() =>
      savesAfter(this.#tenant, from, limit),
    );
    const sessions: Row[] = [];
    for (const no of new Set(noted))
      sessions.push(...(await this.#db.read(this.#sql.sessionByNo, [this.#tenant, Number(no)])));
    let { session } = to;
    if (session >= 0) {
      const more = await this.#db.read(this.#sql.sessionsAfter, [this.#tenant, session, limit]);
      sessions.push(...more.filter(([no]) => !noted.includes(String(no))));
      session = more.length < limit ? -1 : (more.at(-1)?.[0] as number);
    }
    const fresh: Fresh = {
      sessions: sessions.map(sessionRow),
      saves: rows.map(([branch, id, , ...save]) => ({
        branch: branch as number,
        before: save.pop() as number,
        save: saveRow(id as BranchId, save),
      })),
      isLast: isLast && session < 0 && from.isNew === 1 && isRoundOver && to.tx >= to.oldest,
    };
    this.#steps.set(fresh, {
      turn: from.turn,
      from,
      to: { ...to, session },
      notes,
      sessions: [...new Set([...noted, ...sessions.map(([no]) => String(no))])],
      begun: false,
    });
    return fresh;
  }

  /** Forgets what is gone. Answers where the index is, and of which sessions notes speak. */
  *#forget(limit: number): Procedure<{
    from: State;
    notes: readonly string[];
    sessions: readonly string[];
    isLast: boolean;
  }> {
    const state = look(
      `SELECT ${columns} FROM passage_state WHERE tenant = ? FOR UPDATE`,
      this.#tenant,
    );
    const [states, named] = yield [state, look(this.#sql.indexName, indexKey(this.#tenant))];
    if (named?.length === 0) yield* this.#begin(true);
    const [found] = (named?.length === 0 ? (yield [state])[0] : states) ?? [];
    if (found === undefined) throw new TypeError("the index was not begun");
    const from = stateOf(found);
    const [gone = [], sessions = []] = yield [
      look(
        `DELETE FROM unindexed WHERE tenant = ? AND no IN
          (SELECT no FROM unindexed WHERE tenant = ? AND branch IS NOT NULL ORDER BY no LIMIT ${FORGOTTEN_AT_ONCE}) RETURNING branch, first, last`,
        this.#tenant,
        this.#tenant,
      ),
      look(
        "SELECT no, session FROM unindexed WHERE tenant = ? AND branch IS NULL ORDER BY no LIMIT CAST(? AS bigint)",
        this.#tenant,
        limit,
      ),
    ];
    if (gone.length > 0)
      yield [
        ...gone.map(([branch, first, last]) =>
          change(
            "DELETE FROM passage WHERE tenant = ? AND owner = ? AND seq BETWEEN ? AND ?",
            this.#tenant,
            branch as number,
            first as number,
            last as number,
          ),
        ),
        change("UPDATE passage_state SET turn = turn + 1 WHERE tenant = ?", this.#tenant),
      ];
    return {
      from: gone.length > 0 ? { ...from, turn: from.turn + 1 } : from,
      notes: sessions.map(([no]) => String(no)),
      sessions: sessions.map(([, session]) => String(session)),
      isLast: gone.length < FORGOTTEN_AT_ONCE && sessions.length < limit,
    };
  }

  async put(fresh: Fresh, documents: readonly Document[], done: boolean): Promise<boolean> {
    const step = this.#steps.get(fresh);
    if (step === undefined) return false;
    const isMoved = JSON.stringify(step.from) !== JSON.stringify(step.to);
    if (documents.length === 0 && step.sessions.length === 0 && step.notes.length === 0 && !isMoved)
      return true;
    const isIn = await this.#write(() => this.#put(step, documents, done));
    step.begun ||= isIn;
    return isIn;
  }

  *#put(step: Step, documents: readonly Document[], done: boolean): Procedure<boolean> {
    const { turn, to, notes, sessions } = step;
    const tenant = this.#tenant;
    const [now] =
      (yield* row("SELECT turn FROM passage_state WHERE tenant = ? FOR UPDATE", tenant)) ?? [];
    if (now !== turn) return false;
    if (
      (yield* row(
        "SELECT 1 FROM unindexed WHERE tenant = ? AND branch IS NOT NULL LIMIT 1",
        tenant,
      )) !== undefined
    )
      return false;
    if (!step.begun && sessions.length > 0)
      yield [
        change(
          "DELETE FROM passage WHERE tenant = ? AND owner = ANY(CAST(? AS bigint[]))",
          tenant,
          arrayOf(sessions.map((no) => `-${no}`)),
        ),
      ];
    if (done && notes.length > 0)
      yield [
        change(
          "DELETE FROM unindexed WHERE tenant = ? AND no = ANY(CAST(? AS bigint[]))",
          tenant,
          arrayOf(notes),
        ),
      ];
    for (let i = 0; i < documents.length; i += TOGETHER)
      yield [adding(tenant, documents.slice(i, i + TOGETHER))];
    if (done)
      yield [
        change(
          "UPDATE passage_state SET turn = turn + 1, session = ?, is_new = ?, tx = ?, oldest = ?, at_tx = ?, at_branch = ?, at_seq = ? WHERE tenant = ?",
          to.session,
          to.isNew,
          to.tx,
          to.oldest,
          to.atTx,
          to.atBranch,
          to.atSeq,
          tenant,
        ),
      ];
    return true;
  }

  // ---- finding

  async find(query: Query, options: FindOptions): Promise<IndexFound> {
    const best = await this.#write(() => rank(this.#tenant, query, options));
    return {
      count: best.length,
      read: (offset, limit) => this.#write(() => this.#read(best.slice(offset, offset + limit))),
    };
  }

  *#read(places: readonly Numbered[]): Procedure<readonly (Hit | undefined)[]> {
    const { sessionByNo } = this.#sql;
    const hits = new Map<Numbered, Hit | undefined>();
    // Those of one branch may be in one large save: a few first, which may be all that has to be
    // read.
    for (let ofEach = 1; hits.size < places.length; ofEach *= 4) {
      const left = places.filter((one) => !hits.has(one));
      const now = firstOfEach(left, ofEach);
      const rows = yield now.map((one) =>
        look(one.owner < 0 ? sessionByNo : this.#record, ...hitParams(one, this.#tenant)),
      );
      for (const [i, one] of now.entries()) hits.set(one, hitOf(one, rows[i]?.[0]));
      const read = [...hits.values()];
      for (const one of left) {
        const again = hits.has(one) ? undefined : againOf(read, one);
        if (again !== undefined) hits.set(one, again);
      }
    }
    return places.map((one) => hits.get(one));
  }

  /**
   * What is removed from a table is removed from its files when the server vacuums it, as
   * everything else in this store.
   */
  async purge(): Promise<void> {
    // Asked anew: another process may have begun it.
    if ((await this.#db.read(this.#sql.indexName, [indexKey(this.#tenant)])).length === 0)
      return this.#write(() => this.#empty());
    do await this.#write(() => this.#forget(1));
    while (await this.#hasNotes());
    await this.#write(() => this.#forgetTitles());
  }

  /** What is left of one that was given up. */
  *#empty(): Procedure<void> {
    yield* rowsOf("SELECT 1 FROM passage_state WHERE tenant = ? FOR UPDATE", this.#tenant);
    yield [
      change("DELETE FROM passage WHERE tenant = ?", this.#tenant),
      change("UPDATE passage_state SET turn = turn + 1 WHERE tenant = ?", this.#tenant),
    ];
  }

  async #hasNotes(): Promise<boolean> {
    return (
      (
        await this.#db.read(
          "SELECT 1 FROM unindexed WHERE tenant = ? AND branch IS NOT NULL LIMIT 1",
          [this.#tenant],
        )
      ).length > 0
    );
  }

  /** Those that notes speak of. The notes stay, so that they are looked at anew. */
  *#forgetTitles(): Procedure<void> {
    yield* rowsOf("SELECT 1 FROM passage_state WHERE tenant = ? FOR UPDATE", this.#tenant);
    const noted = "SELECT -session FROM unindexed WHERE tenant = ? AND session IS NOT NULL";
    yield [
      change(
        `DELETE FROM passage WHERE tenant = ? AND owner IN (${noted})`,
        this.#tenant,
        this.#tenant,
      ),
      change("UPDATE passage_state SET turn = turn + 1 WHERE tenant = ?", this.#tenant),
    ];
  }

  async close(): Promise<void> {}

  #write<T>(steps: () => Procedure<T>): Promise<T> {
    return this.#db.write({ locks: [], steps, refused: (answer) => answer === false });
  }
}

interface Saves {
  readonly rows: readonly Row[];
  /** Where the index is once it has them. */
  readonly to: State;
  readonly isRoundOver: boolean;
}

/**
 * Saves that come next: all there are, in the order of branches, and from then on by the
 * transactions they came with.
 */
function* savesAfter(tenant: string, from: State, limit: number): Procedure<Saves> {
  const start = { atTx: 0, atBranch: 0, atSeq: 0 };
  if (from.isNew === 0) {
    const text = saves("(v.branch, v.seq) > (?, ?)", "v.branch, v.seq");
    const rows = yield* rowsOf(text, tenant, from.atBranch, from.atSeq, limit);
    const isRoundOver = rows.length < limit;
    return {
      rows: here(rows),
      to: { ...from, ...(isRoundOver ? { ...start, isNew: 1 } : placeOf(rows)) },
      isRoundOver,
    };
  }
  const { tx, atTx, atBranch, atSeq } = from;
  const end = tx + ROUND;
  const text = saves(
    "v.tx >= ? AND v.tx < ? AND (v.tx, v.branch, v.seq) > (?, ?, ?)",
    "v.tx, v.branch, v.seq",
  );
  const asks = [
    look(`SELECT ${oldestOpen}`),
    byIndex,
    look(text, tenant, tx, end, atTx, atBranch, atSeq, limit),
  ];
  const [open = [], , rows = []] = yield asks;
  // What commits later than this round began is behind the oldest that was open then, wherever the
  // round is by now.
  const oldest = atTx === 0 ? (open[0]?.[0] as number) : from.oldest;
  const isRoundOver = rows.length < limit;
  if (!isRoundOver)
    return { rows: here(rows), to: { ...from, ...placeOf(rows), oldest }, isRoundOver };
  const isStill = rows.length === 0 && atTx === 0 && oldest - tx < ROUND / 2;
  // Not written down for its own sake: that would be a transaction for each search.
  const to = isStill ? from : { ...from, ...start, oldest, tx: Math.min(end, oldest) };
  return { rows: here(rows), to, isRoundOver };
}

function placeOf(rows: readonly Row[]): Pick<State, "atTx" | "atBranch" | "atSeq"> {
  const [branch, , tx, seq] = rows.at(-1) as readonly number[];
  return { atTx: tx ?? 0, atBranch: branch as number, atSeq: seq as number };
}

/** Those whose branch is still there. */
const here = (rows: readonly Row[]): readonly Row[] => rows.filter((found) => found[1] !== null);

const stateOf = ([turn, session, isNew, tx, oldest, atTx, atBranch, atSeq]: Row): State =>
  ({ turn, session, isNew, tx, oldest, atTx, atBranch, atSeq }) as unknown as State;

/** Those that are there already stay as they are. */
function adding(tenant: string, documents: readonly Document[]): SqlCall {
  const column = (of: (document: Document) => number) =>
    arrayOf(documents.map((document) => String(of(document))));
  return change(
    `WITH given AS (
       SELECT * FROM unnest(CAST(? AS bigint[]), CAST(? AS bigint[]), CAST(? AS integer[]), CAST(? AS integer[]), CAST(? AS bigint[]), CAST(? AS tsvector[]))
         AS g (owner, seq, part, role, at, words)),
     added AS (
       INSERT INTO passage (tenant, owner, seq, part, role, at)
         SELECT CAST(? AS text), owner, seq, part, role, at FROM given ON CONFLICT DO NOTHING RETURNING no, owner, seq, part)
     INSERT INTO passage_words (no, tenant, words)
       SELECT a.no, CAST(? AS text), g.words FROM added a JOIN given g ON g.owner = a.owner AND g.seq = a.seq AND g.part = a.part`,
    column(({ kind, of }) => (kind === "title" ? -of : of)),
    column(({ seq }) => seq),
    column(({ passage }) => passage),
    column(({ role }) => role),
    column(({ at }) => at),
    arrayOf(documents.map(({ words }) => vectorOf(words))),
    tenant,
    tenant,
  );
}

/** Words with their places, as Postgres reads them. */
function vectorOf(words: readonly string[]): string {
  const places = new Map<string, number[]>();
  for (const [i, word] of words.entries()) {
    const own = places.get(word);
    if (own === undefined) places.set(word, [i + 1]);
    else own.push(i + 1);
  }
  return [...places].map(([word, at]) => `'${word}':${at.join(",")}`).join(" ");
}
