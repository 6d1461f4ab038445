/** An index that is open: what is in it, how far it has come, and transactions on it. */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../../../core/values/errors.js";
import type { Document } from "../../../search-port.js";
import { translate } from "../driver/committer.js";
import { failureOf } from "../driver/driver.js";
import { Prepared } from "../driver/prepared.js";
import { IndexFile, type IndexPlace } from "./index-file.js";

/**
 * Where the index is: the last save and the last note it has taken in, and how far it has gone over
 * sessions (all: -1).
 */
export interface Marks {
  readonly save: number;
  readonly note: number;
  readonly session: number;
}

export const MARKS = ["save", "note", "session"] as const;

/** How long a busy index is waited for by whoever must have it. */
const BUSY_MS = 5_000;

export class OpenIndex {
  readonly file: IndexFile;
  readonly #write: Prepared;
  readonly #read: Prepared;
  #isOpen = true;

  /** `identity` says whose it must be; `note` is where the notes of one that is new begin. */
  constructor(place: IndexPlace, identity: string, anew: boolean, note: number) {
    let file: IndexFile | undefined;
    try {
      file = IndexFile.open(place, identity, anew);
      this.#write = new Prepared(file.writer);
      const values: Record<keyof Marks | "turn", number> = {
        turn: 0,
        save: 0,
        note,
        session: 0,
      };
      for (const [key, value] of Object.entries(values))
        this.#write
          .of("INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING")
          .run(key, value);
    } catch (error) {
      if (isBeyondUse(error)) file?.remove();
      else file?.close();
      throw translate(error);
    }
    this.file = file;
    this.#read = new Prepared(file.reader);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Whether it is still the one that others use. */
  get isThere(): boolean {
    return this.#isOpen && this.file.isThere();
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.file.close();
  }

  // ---- how far it has come

  marks(): Marks {
    return Object.fromEntries(
      this.#write.of("SELECT key, value FROM meta WHERE key IN ('save', 'note', 'session')").all(),
    ) as unknown as Marks;
  }

  /** How often anything was taken in, or forgotten. */
  turn(): number {
    return this.#write.of("SELECT value FROM meta WHERE key = 'turn'").get()?.[0] as number;
  }

  /** What the last save is known by that was taken in, where it was there. */
  last(): unknown {
    return this.#write.of("SELECT value FROM meta WHERE key = 'last'").get()?.[0];
  }

  mark(marks: Marks, last?: string): void {
    const write = this.#write;
    if (last === undefined) write.of("DELETE FROM meta WHERE key = 'last'").run();
    else
      write
        .of(
          "INSERT INTO meta (key, value) VALUES ('last', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        )
        .run(last);
    for (const key of MARKS)
      write.of("UPDATE meta SET value = ? WHERE key = ?").run(marks[key], key);
    write.of("UPDATE meta SET value = value + 1 WHERE key = 'turn'").run();
  }

  // ---- documents

  add({ kind, of, seq, passage, role, at, words }: Document): void {
    const write = this.#write;
    const owner = kind === "title" ? -of : of;
    const insert = `INSERT INTO doc (owner, seq, passage, role, at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING no`;
    const no = write.of(insert).get(owner, seq, passage, role, at)?.[0] as number | undefined;
    if (no === undefined) return;
    write.of("INSERT INTO text (rowid, words) VALUES (?, ?)").run(no, words.join(" "));
  }

  /** Removes documents of some records, `most` at most. Answers how many. */
  remove(owner: number, first: number, last: number, most: number): number {
    const write = this.#write;
    const docs = write
      .of("SELECT no FROM doc WHERE owner = ? AND seq BETWEEN ? AND ? LIMIT CAST(? AS bigint)")
      .all(owner, first, last, most);
    for (const [no] of docs) {
      write.of("DELETE FROM text WHERE rowid = ?").run(no as number);
      write.of("DELETE FROM doc WHERE no = ?").run(no as number);
    }
    return docs.length;
  }

  // ---- transactions

  /**
   * One look at both files: taking their locks for each of some forty statements was measured to
   * cost a tenth of a search.
   */
  look<T>(run: (statements: Prepared) => T): T {
    // Numbers of one file say nothing about another that is in its place by now.
    if (!this.#isOpen) throw notOpen();
    const { reader } = this.file;
    try {
      reader.exec("BEGIN");
      return run(this.#read);
    } catch (error) {
      throw this.failed(error);
    } finally {
      if (this.#isOpen && reader.inTransaction) reader.exec("COMMIT");
    }
  }

  /** Undefined where others keep it busy, or where `run` answers that. */
  transaction<T>(run: () => T | undefined): T | undefined {
    const { writer } = this.file;
    try {
      writer.exec("BEGIN IMMEDIATE");
      const answer = run();
      writer.exec(answer === undefined ? "ROLLBACK" : "COMMIT");
      return answer;
    } catch (error) {
      if (this.#isOpen && writer.inTransaction) writer.exec("ROLLBACK");
      if (failureOf(error) === "busy") return undefined;
      throw this.failed(error);
    }
  }

  /** The same for what must be done. */
  async patiently<T>(run: () => T): Promise<T> {
    for (const deadline = performance.now() + BUSY_MS; ; await sleep(5)) {
      const answer = this.transaction(run);
      if (answer !== undefined) return answer;
      if (performance.now() > deadline)
        throw new HoldfastError("BUSY", "Others kept the index for search busy. Try again.");
    }
  }

  /**
   * SEARCHFILE-2: a damaged index is made anew the next time somebody wants it. One that was closed meanwhile
   * is not damaged for that.
   */
  failed(error: unknown): Error {
    if (this.#isOpen && isBeyondUse(error)) {
      this.#isOpen = false;
      this.file.remove();
    }
    return translate(error);
  }
}

export const notOpen = (): Error => translate(new Error("the index is not open"));

const isBeyondUse = (error: unknown): boolean =>
  failureOf(error) === "corrupt" || failureOf(error) === "other";
