/**
 * The index for search of a SQLite store: full text in FTS5, in a file of its own (`index-file.ts`).
 *
 * Saves have numbers in the order of their coming, and the index remembers up to which it has taken them in. What went, the store has
 * noted: it is forgotten before the next saves are read. The highest numbers that went may be given again, so the mark goes back to what
 * was left of them. Whoever removes something while its save is on its way into the index has it noted behind the mark of the notes, and
 * it is forgotten the next time.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../../../core/errors.js";
import type { LineId } from "../../../../core/ids.js";
import type { Query } from "../../../../core/search/query.js";
import type { Document, FindOptions, Found, Fresh, Hit, SearchIndex } from "../../../search-port.js";
import { change } from "../../asks.js";
import type { Database, Param, Row } from "../../database.js";
import { hitOf, hitParams, type Numbered } from "../../hits.js";
import { saveRow, sessionRow } from "../../rows.js";
import { recordOf, type Statements, sessionWith, statementsIn } from "../../statements.js";
import { indexKey } from "../../writer.js";
import { translate } from "../committer.js";
import { type Driver, failureOf } from "../driver.js";
import { Prepared } from "../prepared.js";
import { IndexFile, type IndexPlace } from "./index-file.js";
import { Ranked } from "./ranking.js";
import { Vocabulary } from "./vocabulary.js";

/** Where the index is: the last save and the last note it has taken in, and how far it has gone over sessions (all: -1). */
interface Marks {
  readonly save: number;
  readonly note: number;
  readonly session: number;
}

/** What `next` has looked at. */
interface Step {
  /** How often anything was taken in before. */
  readonly turn: number;
  readonly to: Marks;
  readonly from: Marks;
  /** Sessions whose titles are to be looked at anew. */
  readonly sessions: readonly number[];
  /** What the last save is known by; undefined where it is gone. */
  readonly last: string | undefined;
  begun: boolean;
}

interface Open {
  readonly file: IndexFile;
  readonly write: Prepared;
  readonly read: Prepared;
  readonly vocabulary: Vocabulary;
}

const notesAfter =
  "SELECT no, line, first, last, ceiling, session FROM unindexed WHERE tenant = ? AND no > ? ORDER BY no LIMIT CAST(? AS bigint)";
const lastNote = "SELECT coalesce(max(no), 0) FROM unindexed WHERE tenant = ?";
const dropNotes = "DELETE FROM unindexed WHERE tenant = ? AND no <= ?";
const lastSave = "SELECT coalesce(max(no), 0) FROM save";
/** What a save is known by, whatever its number is. */
const saveWith = "SELECT line || ' ' || seq || ' ' || head FROM save WHERE no = ?";
const incarnation = "SELECT value FROM meta WHERE key = 'incarnation'";
/** Saves with texts, of a stretch of numbers. */
const savesAfter = `SELECT v.no, v.line, l.id, v.seq, v.head, v.mark, v.note, v.items, NULL FROM save v CROSS JOIN line l ON l.no = v.line
  WHERE v.no > ? AND v.no <= ? AND l.tenant = ? AND v.items IS NOT NULL ORDER BY v.no LIMIT CAST(? AS bigint)`;
/** Of numbers that are other tenants', or saves without text, so many are passed over at once for each save that is wanted. */
const STRETCH = 50;
/** To take a document out takes as long as to take it in. */
const FORGOTTEN_AT_ONCE = { least: 20, most: 200 };
/** Notes that were taken in are removed when there are so many of them. */
const NOTES_KEPT = 1_000;
/** How long a busy index is waited for by whoever must have it. */
const BUSY_MS = 5_000;
const TRUNCATES = 100;
const KEYS = ["turn", "purges", "save", "note", "session"] as const;

export class SqliteIndex implements SearchIndex {
  readonly #db: Database;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #place: IndexPlace;
  readonly #storeId: string;
  readonly #record: string;
  readonly #title = sessionWith("store.");
  readonly #steps = new WeakMap<Fresh, Step>();
  #open: Open | undefined;
  #beginning: Promise<void> | undefined;
  /** Whose documents are in the transaction that is open. */
  #putting: Fresh | undefined;
  #isKept: boolean | undefined;
  #purges = -1;
  #closed = false;

  constructor(db: Database, place: IndexPlace, storeId: string) {
    this.#db = db;
    this.#sql = statementsIn(db.dialect);
    this.#tenant = place.tenant;
    this.#place = place;
    this.#storeId = storeId;
    this.#record = recordOf(db.dialect, "store.");
  }

  /** Looked up once: who begins one later keeps it up, too. */
  async exists(): Promise<boolean> {
    this.#isKept ??= (await this.#db.read(this.#sql.isIndexed, [indexKey(this.#tenant)])).length > 0;
    if (this.#isKept) await this.begin(false);
    return this.#isKept;
  }

  begin(anew: boolean): Promise<void> {
    if (!anew && this.#open?.file.isThere()) return Promise.resolve();
    const begun = (this.#beginning ?? Promise.resolve())
      .catch(() => {})
      .then(() => this.#begin(anew))
      .finally(() => {
        if (this.#beginning === begun) this.#beginning = undefined;
      });
    this.#beginning = begun;
    return begun;
  }

  async #begin(anew: boolean): Promise<void> {
    if (this.#closed || (!anew && this.#open?.file.isThere())) return;
    this.#leave();
    const key = indexKey(this.#tenant);
    // From here on the store notes what goes.
    if ((await this.#db.read(this.#sql.isIndexed, [key])).length === 0) await this.#write(this.#sql.beginIndex, key);
    this.#isKept = true;
    const [born] = await this.#db.read(incarnation, []);
    const note = await this.#number(lastNote, this.#tenant);
    const most = await this.#number(lastSave);
    this.#enter(`${this.#storeId} ${String(born?.[0] ?? "")}`, anew, note);
    if (await this.#isOfAnotherTime(most, note)) {
      this.#leave();
      this.#enter(`${this.#storeId} ${String(born?.[0] ?? "")}`, true, note);
    }
  }

  /** An older copy of the store was put back: numbers of saves come again, or came already, that the index has taken in as others. */
  async #isOfAnotherTime(most: number, note: number): Promise<boolean> {
    const marks = this.#marks();
    const [last] = this.#file().write.of("SELECT value FROM meta WHERE key = 'last'").get() ?? [];
    const [there] = await this.#db.read(saveWith, [marks.save]);
    return (marks.save > most && marks.note >= note) || (last !== undefined && there !== undefined && there[0] !== last);
  }

  #enter(identity: string, anew: boolean, note: number): void {
    try {
      const file = IndexFile.open(this.#place, identity, anew);
      const write = new Prepared(file.writer);
      this.#open = { file, write, read: new Prepared(file.reader), vocabulary: new Vocabulary(write) };
      const values: Record<(typeof KEYS)[number], number> = { turn: 0, purges: 0, save: 0, note, session: 0 };
      for (const [key, value] of Object.entries(values))
        write.of("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING").run(key, value);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  async behind(): Promise<number> {
    const { save, note } = this.#marks();
    const notes = await this.#db.read(notesAfter, [this.#tenant, note, 1]);
    return Math.max(0, (await this.#number(lastSave)) - save) + notes.length;
  }

  // ---- taking in

  async next(limit: number): Promise<Fresh> {
    this.#abandon();
    const from = this.#marks();
    const notes = await this.#db.read(notesAfter, [this.#tenant, from.note, limit]);
    const upTo = this.#forget(notes, from, Math.min(FORGOTTEN_AT_ONCE.most, Math.max(FORGOTTEN_AT_ONCE.least, limit)));
    if (upTo === undefined) return NOTHING;
    const turn = this.#turn();
    const sessions = noted(notes, upTo.note);
    const fresh: Row[] = [];
    for (const no of sessions.keys()) fresh.push(...(await this.#db.read(this.#sql.sessionByNo, [this.#tenant, no])));
    let { session } = upTo;
    if (session >= 0) {
      const more = await this.#db.read(sessionsAfter(this.#sql), [this.#tenant, session, limit]);
      fresh.push(...more.filter(([no]) => !sessions.has(no as number)));
      session = more.length < limit ? -1 : (more.at(-1)?.[0] as number);
      for (const [no] of more) sessions.set(no as number, 0);
    }
    const most = await this.#number(lastSave);
    // Most of the time there is nothing.
    if (most <= upTo.save && session < 0 && notes.length === 0) return CAUGHT_UP;
    const end = Math.min(most, upTo.save + limit * STRETCH);
    const rows = await this.#db.read(savesAfter, [upTo.save, end, this.#tenant, limit]);
    const save = rows.length === limit ? (rows.at(-1)?.[0] as number) : Math.max(end, upTo.save);
    const note = Math.max(upTo.note, ...sessions.values());
    const [last] = (await this.#db.read(saveWith, [save]))[0] ?? [];
    const found: Fresh = {
      sessions: fresh.map(sessionRow),
      saves: rows.map(([, line, id, ...row]) => ({ line: line as number, save: saveRow(id as LineId, row) })),
      isLast: save >= most && session < 0 && notes.length < limit && note >= ((notes.at(-1)?.[0] as number | undefined) ?? 0),
    };
    this.#steps.set(found, {
      turn,
      from: upTo,
      to: { save, note, session },
      sessions: [...sessions.keys()],
      last: last as string,
      begun: false,
    });
    return found;
  }

  /** Forgets what the first of these notes say is gone, up to one that speaks of a session. Undefined where others are at it. */
  #forget(notes: readonly Row[], from: Marks, most: number): Marks | undefined {
    const first = notes[0];
    if (first === undefined || first[1] === null) return from;
    return this.#transaction(() => {
      const now = this.#marks();
      if (now.note !== from.note) return undefined;
      let { save, note } = now;
      let left = most;
      for (const [no, line, firstSeq, lastSeq, ceiling] of notes as readonly number[][]) {
        if (line === null) break;
        left -= this.#remove(line as number, firstSeq as number, lastSeq as number, left);
        save = Math.min(save, ceiling as number);
        // What is left of it comes the next time.
        if (left === 0) break;
        note = no as number;
      }
      this.#mark({ ...now, save, note });
      return { ...now, save, note };
    });
  }

  /** Removes documents of some records, `most` at most. Answers how many. */
  #remove(owner: number, first: number, last: number, most: number): number {
    const { write, vocabulary } = this.#file();
    const docs = write
      .of(
        "SELECT d.no, w.words FROM doc d JOIN doc_words w ON w.no = d.no WHERE d.owner = ? AND d.seq BETWEEN ? AND ? LIMIT CAST(? AS bigint)",
      )
      .all(owner, first, last, most);
    for (const [no, words] of docs) {
      write.of("INSERT INTO text (text, rowid, words) VALUES ('delete', ?, ?)").run(no as number, vocabulary.unpack(words as Uint8Array));
      for (const table of ["doc", "doc_words"]) write.of(`DELETE FROM ${table} WHERE no = ?`).run(no as number);
    }
    return docs.length;
  }

  async put(fresh: Fresh, documents: readonly Document[], done: boolean): Promise<boolean> {
    const step = this.#steps.get(fresh);
    if (step === undefined) return fresh === CAUGHT_UP;
    const { from, to, sessions } = step;
    const isMoved = KEYS_OF_MARKS.some((key) => from[key] !== to[key]);
    if (documents.length === 0 && sessions.length === 0 && !isMoved && !step.begun) return true;
    try {
      if (!this.#enterStep(fresh, step)) return false;
      for (const document of documents) this.#add(document);
      if (!done) return true;
      this.#mark(to, step.last);
      this.#file().file.writer.exec("COMMIT");
      this.#putting = undefined;
    } catch (error) {
      this.#abandon();
      if (failureOf(error) === "busy") return false;
      throw this.#failed(error);
    }
    if (fresh.isLast) await this.#dropNotes(to.note);
    return true;
  }

  /** One transaction for all documents of a step, however many calls bring them. False where others were quicker. */
  #enterStep(fresh: Fresh, step: Step): boolean {
    if (this.#putting === fresh) return true;
    // It was begun, and given up for something else.
    if (step.begun || this.#putting !== undefined) return false;
    this.#file().file.writer.exec("BEGIN IMMEDIATE");
    this.#putting = fresh;
    step.begun = true;
    if (this.#turn() !== step.turn) {
      this.#abandon();
      return false;
    }
    this.#heedPurges();
    for (const no of step.sessions) this.#remove(-no, 0, 0, 10);
    return true;
  }

  #add({ kind, of, seq, passage, role, at, words }: Document): void {
    const { write, vocabulary } = this.#file();
    const owner = kind === "title" ? -of : of;
    const insert = `INSERT INTO doc (owner, seq, passage, role, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING no`;
    const no = write.of(insert).get(owner, seq, passage, role, at)?.[0] as number | undefined;
    if (no === undefined) return;
    write.of("INSERT INTO doc_words (no, words) VALUES (?, ?)").run(no, vocabulary.pack(words));
    write.of("INSERT INTO text (rowid, words) VALUES (?, ?)").run(no, words.join(" "));
  }

  /** Synced first: an index that a power cut throws back must find them again. */
  async #dropNotes(upTo: number): Promise<void> {
    const [oldest] = await this.#db.read(notesAfter, [this.#tenant, 0, 1]);
    if (oldest === undefined || upTo - (oldest[0] as number) < NOTES_KEPT) return;
    const [busy] = this.#file().file.writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() ?? [];
    if (busy === 0) await this.#write(dropNotes, this.#tenant, upTo);
  }

  // ---- finding

  async find(query: Query, options: FindOptions): Promise<Found> {
    const open = this.#file();
    const ranked = this.#look(open, () => new Ranked(open.read, query, options));
    return {
      count: ranked.count,
      read: async (offset, limit) => this.#look(open, () => this.#hits(open, ranked.page(open.read, offset, limit))),
    };
  }

  #hits({ read }: Open, places: readonly (Numbered | undefined)[]): (Hit | undefined)[] {
    return places.map((one) => {
      if (one === undefined) return undefined;
      const statement = read.of(one.owner < 0 ? this.#title : this.#record);
      return hitOf(one, statement.get(...hitParams(one, this.#tenant)));
    });
  }

  /** One look at both files: taking their locks for each of some forty statements was measured to cost a tenth of a search. */
  #look<T>(open: Open, run: () => T): T {
    // Numbers of another file say nothing about this one.
    if (open !== this.#file()) throw translate(new Error("the index was made anew"));
    const { reader } = open.file;
    try {
      reader.exec("BEGIN");
      return run();
    } catch (error) {
      throw this.#failed(error);
    } finally {
      if (this.#open === open && reader.inTransaction) reader.exec("COMMIT");
    }
  }

  // ---- forgetting for good

  async purge(): Promise<void> {
    // Asked anew: another process may have begun it.
    if ((await this.#db.read(this.#sql.isIndexed, [indexKey(this.#tenant)])).length === 0) return;
    await this.begin(false);
    await this.#forgetAll();
    try {
      const { writer } = this.#file().file;
      writer.exec("CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab('main', 'text', 'row')");
      await this.#patiently(() => {
        writer.exec("INSERT INTO text (text) VALUES ('optimize')");
        writer.exec("DELETE FROM word WHERE NOT EXISTS (SELECT 1 FROM temp.term t WHERE t.term = word.word)");
        writer.exec("UPDATE meta SET value = value + 1 WHERE key IN ('turn', 'purges')");
        return true;
      });
      this.#file().vocabulary.forget();
      writer.exec("PRAGMA temp_store = FILE; VACUUM; PRAGMA temp_store = MEMORY");
      await this.#truncate(writer);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Others may be reading from the log just now. */
  async #truncate(writer: Driver): Promise<void> {
    for (let tries = 0; writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.[0] !== 0; tries++) {
      if (tries >= TRUNCATES) throw new HoldfastError("BUSY", "Others were reading from the log of the index. Run it again.");
      await sleep(20 + Math.random() * 20);
    }
  }

  /** All that notes speak of, in whatever order. They stay: titles are still to be looked at, and what is gone may be forgotten twice. */
  async #forgetAll(): Promise<void> {
    for (let after = this.#marks().note, left = true; left; ) {
      const notes = await this.#db.read(notesAfter, [this.#tenant, after, FORGOTTEN_AT_ONCE.most]);
      this.#abandon();
      left = notes.length > 0;
      for (const [no, line, first, last, ceiling, session] of notes as readonly number[][]) {
        const [owner, from, to] = line === null ? [-(session as number), 0, 0] : [line as number, first as number, last as number];
        const { most } = FORGOTTEN_AT_ONCE;
        for (let removed = most; removed === most; )
          removed = await this.#patiently(() => {
            const marks = this.#marks();
            const count = this.#remove(owner, from, to, most);
            this.#mark({ ...marks, save: Math.min(marks.save, ceiling ?? marks.save) });
            return count;
          });
        after = no as number;
      }
    }
  }

  // ---- the file

  #file(): Open {
    if (this.#open === undefined) throw translate(new Error("the index is not open"));
    return this.#open;
  }

  #value(key: (typeof KEYS)[number]): number {
    return this.#file().write.of("SELECT value FROM meta WHERE key = ?").get(key)?.[0] as number;
  }

  #marks(): Marks {
    const { write } = this.#file();
    return Object.fromEntries(write.of("SELECT key, value FROM meta WHERE key IN ('save', 'note', 'session')").all()) as unknown as Marks;
  }

  #turn(): number {
    return this.#value("turn");
  }

  #mark(marks: Marks, last?: string): void {
    const { write } = this.#file();
    if (last === undefined) write.of("DELETE FROM meta WHERE key = 'last'").run();
    else write.of("INSERT INTO meta (key, value) VALUES ('last', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value").run(last);
    for (const key of KEYS_OF_MARKS) write.of("UPDATE meta SET value = ? WHERE key = ?").run(marks[key], key);
    write.of("UPDATE meta SET value = value + 1 WHERE key = 'turn'").run();
  }

  /** Words that nobody used were removed, perhaps by another process: their numbers are not what they were. */
  #heedPurges(): void {
    const purges = this.#value("purges");
    if (purges !== this.#purges) this.#file().vocabulary.forget();
    this.#purges = purges;
  }

  /** Undefined where others keep it busy, or where `run` answers that. */
  #transaction<T>(run: () => T | undefined): T | undefined {
    const { writer } = this.#file().file;
    try {
      writer.exec("BEGIN IMMEDIATE");
      this.#heedPurges();
      const answer = run();
      writer.exec(answer === undefined ? "ROLLBACK" : "COMMIT");
      return answer;
    } catch (error) {
      this.#abandon();
      if (failureOf(error) === "busy") return undefined;
      throw this.#failed(error);
    }
  }

  /** The same for what must be done. What is on its way into the index is given up for it. */
  async #patiently<T>(run: () => T): Promise<T> {
    for (const deadline = performance.now() + BUSY_MS; ; await sleep(5)) {
      this.#abandon();
      const answer = this.#transaction(run);
      if (answer !== undefined) return answer;
      if (performance.now() > deadline) throw new HoldfastError("BUSY", "Others kept the index for search busy. Try again.");
    }
  }

  /** Takes back what is not committed. */
  #abandon(): void {
    this.#putting = undefined;
    const open = this.#open;
    if (!open?.file.writer.inTransaction) return;
    open.vocabulary.forget();
    open.file.writer.exec("ROLLBACK");
  }

  /** X2: a damaged index is made anew the next time somebody wants it. */
  #failed(error: unknown): Error {
    if (failureOf(error) === "corrupt" || failureOf(error) === "other") {
      this.#open?.file.remove();
      this.#open = undefined;
    }
    return translate(error);
  }

  async #number(text: string, ...params: Param[]): Promise<number> {
    return (await this.#db.read(text, params))[0]?.[0] as number;
  }

  async #write(text: string, ...params: Param[]): Promise<void> {
    await this.#db.write({
      locks: [],
      *steps() {
        yield [change(text, ...params)];
      },
      refused: () => false,
    });
  }

  #leave(): void {
    this.#abandon();
    this.#open?.file.close();
    this.#open = undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#beginning?.catch(() => {});
    this.#leave();
  }
}

const KEYS_OF_MARKS = ["save", "note", "session"] as const;
/** Others are at it. */
const NOTHING: Fresh = { saves: [], sessions: [], isLast: false };
const CAUGHT_UP: Fresh = { saves: [], sessions: [], isLast: true };

/** Sessions of which notes speak, in a row from the first note behind a mark on, each with its last note. */
function noted(notes: readonly Row[], after: number): Map<number, number> {
  const sessions = new Map<number, number>();
  for (const [no, line, , , , session] of notes as readonly (readonly (number | null)[])[]) {
    if ((no as number) <= after) continue;
    if (line !== null) break;
    sessions.set(session as number, no as number);
  }
  return sessions;
}

const sessionsAfter = ({ sessionByNo }: Statements): string =>
  sessionByNo.replace("s.no = ?", "s.no > ? ORDER BY s.no LIMIT CAST(? AS bigint)");
