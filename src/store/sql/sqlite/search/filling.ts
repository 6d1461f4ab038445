/**
 * Taking saves into an open index. They have numbers in the order of their coming, and the index
 * remembers up to which it has them. What went, the store has noted: it is forgotten before the
 * next saves are read. Whoever removes something while its save is on its way into the index has it
 * noted behind the mark of the notes, and it is forgotten the next time.
 */
import type { BranchId } from "../../../../core/values/ids.js";
import type { Document, Fresh } from "../../../search-port.js";
import type { Database, Row } from "../../database.js";
import { saveRow, sessionRow } from "../../rows.js";
import { type Statements, statementsIn } from "../../statements.js";
import { forgetSome } from "./forgetting.js";
import type { Note, Notes } from "./notes.js";
import { MARKS, type Marks, type OpenIndex } from "./open-index.js";

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
  /** Whether some of it was taken in, and the titles of these sessions are out of the way. */
  begun: boolean;
}

const lastSave = "SELECT coalesce(max(no), 0) FROM save";
/** What a save is known by, whatever its number is. */
const saveWith = "SELECT branch || ' ' || seq || ' ' || head FROM save WHERE no = ?";
/**
 * Saves of a stretch of numbers, also those without texts: what is missing before one of them is
 * noticed by it.
 */
const savesAfter = `SELECT v.no, v.branch,
    coalesce((SELECT max(p.seq) FROM save p WHERE p.branch = v.branch AND p.seq < v.seq), l.fork_seq, 0),
    l.id, v.seq, v.head, v.mark, v.note, v.items, NULL FROM save v CROSS JOIN branch l ON l.no = v.branch
  WHERE v.no > ? AND v.no <= ? AND l.tenant = ? ORDER BY v.no LIMIT CAST(? AS bigint)`;
const ownAfter =
  "SELECT count(*) FROM save v CROSS JOIN branch l ON l.no = v.branch WHERE v.no > ? AND v.no <= ? AND l.tenant = ?";
/** Saves of all tenants that are looked at to count a tenant's own: some 10 ms. */
const MOST_COUNTED = 100_000;
/**
 * Of numbers that are other tenants' so many are passed over at once for each save that is wanted.
 */
const STRETCH = 50;
/** Notes that were taken in are removed when there are so many of them. */
const NOTES_KEPT = 1_000;
/** Others are at it. */
const NOTHING: Fresh = { saves: [], sessions: [], isLast: false };
const CAUGHT_UP: Fresh = { saves: [], sessions: [], isLast: true };

export class Filling {
  readonly #db: Database;
  readonly #sql: Statements;
  readonly #tenant: string;
  readonly #notes: Notes;
  readonly #index: OpenIndex;
  readonly #steps = new WeakMap<Fresh, Step>();

  constructor(db: Database, tenant: string, notes: Notes, index: OpenIndex) {
    this.#db = db;
    this.#sql = statementsIn(db.dialect);
    this.#tenant = tenant;
    this.#notes = notes;
    this.#index = index;
  }

  async behind(): Promise<number> {
    const { save, note } = this.#index.marks();
    const notes = await this.#notes.after(note, 1);
    return Math.max(0, (await this.#lastSave()) - save) + notes.length;
  }

  async missing(): Promise<number> {
    const { save, note } = this.#index.marks();
    const notes = await this.#notes.after(note, 1);
    const [own] = await this.#db.read(ownAfter, [save, save + MOST_COUNTED, this.#tenant]);
    return (own?.[0] as number) + notes.length;
  }

  /**
   * An older copy of the store was put back: numbers of saves come again, or came already, that the
   * index has taken in as others.
   */
  async isOfAnotherTime(): Promise<boolean> {
    const { save, note } = this.#index.marks();
    const last = this.#index.last();
    // In this order: others may go on meanwhile, and what they remove is noted.
    const most = await this.#lastSave();
    if (save > most && note >= (await this.#notes.last())) return true;
    const there = await this.#known(save);
    return last !== undefined && there !== undefined && there !== last;
  }

  async next(limit: number): Promise<Fresh> {
    const from = this.#index.marks();
    const notes = await this.#notes.after(from.note, limit);
    const upTo = forgetSome(this.#index, notes, from, limit);
    if (upTo === undefined) return NOTHING;
    const turn = this.#index.turn();
    const sessions = noted(notes, upTo.note);
    const fresh: Row[] = [];
    for (const no of sessions.keys())
      fresh.push(...(await this.#db.read(this.#sql.sessionByNo, [this.#tenant, no])));
    let { session } = upTo;
    if (session >= 0) {
      const more = await this.#db.read(this.#sql.sessionsAfter, [this.#tenant, session, limit]);
      fresh.push(...more.filter(([no]) => !sessions.has(no as number)));
      session = more.length < limit ? -1 : (more.at(-1)?.[0] as number);
      for (const [no] of more) sessions.set(no as number, 0);
    }
    const most = await this.#lastSave();
    // Most of the time there is nothing.
    if (most <= upTo.save && upTo.session < 0 && notes.length === 0) return CAUGHT_UP;
    const end = Math.min(most, upTo.save + limit * STRETCH);
    const rows = await this.#db.read(savesAfter, [upTo.save, end, this.#tenant, limit]);
    const save = rows.length === limit ? (rows.at(-1)?.[0] as number) : Math.max(end, upTo.save);
    const note = Math.max(upTo.note, ...sessions.values());
    const found: Fresh = {
      sessions: fresh.map(sessionRow),
      saves: rows.map(([, branch, before, id, ...row]) => ({
        branch: branch as number,
        before: before as number,
        save: saveRow(id as BranchId, row),
      })),
      isLast:
        save >= most && session < 0 && notes.length < limit && note >= (notes.at(-1)?.no ?? 0),
    };
    const to = { save, note, session };
    this.#steps.set(found, {
      turn,
      from: upTo,
      to,
      sessions: [...sessions.keys()],
      last: await this.#known(save),
      begun: false,
    });
    return found;
  }

  async put(fresh: Fresh, documents: readonly Document[], done: boolean): Promise<boolean> {
    const step = this.#steps.get(fresh);
    if (step === undefined) return fresh === CAUGHT_UP;
    const { from, to, sessions } = step;
    const isMoved = MARKS.some((key) => from[key] !== to[key]);
    if (documents.length === 0 && sessions.length === 0 && !isMoved) return true;
    const isIn = this.#index.transaction(() => {
      // Others were quicker.
      if (this.#index.turn() !== step.turn) return undefined;
      if (!step.begun) for (const no of sessions) this.#index.remove(-no, 0, 0, 10);
      for (const document of documents) this.#index.add(document);
      if (done) this.#index.mark(to, step.last);
      return true;
    });
    if (isIn === undefined) return false;
    step.begun = true;
    if (done && fresh.isLast) await this.#dropNotes(to.note);
    return true;
  }

  /** Synced first: an index that a power cut throws back must find them again. */
  async #dropNotes(upTo: number): Promise<void> {
    const [oldest] = await this.#notes.after(0, 1);
    if (oldest === undefined || upTo - oldest.no < NOTES_KEPT) return;
    const [busy] = this.#index.file.writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get() ?? [];
    if (busy === 0) await this.#notes.drop(upTo);
  }

  async #lastSave(): Promise<number> {
    return (await this.#db.read(lastSave, []))[0]?.[0] as number;
  }

  async #known(save: number): Promise<string | undefined> {
    return (await this.#db.read(saveWith, [save]))[0]?.[0] as string | undefined;
  }
}

/**
 * Sessions of which notes speak, in a row from the first note behind a mark on, each with its last
 * note.
 */
function noted(notes: readonly Note[], after: number): Map<number, number> {
  const sessions = new Map<number, number>();
  for (const note of notes) {
    if (note.no <= after) continue;
    if (note.kind === "gone") break;
    sessions.set(note.session, note.no);
  }
  return sessions;
}
