/** What an import did, collected as it goes. */
import { quote } from "../../core/values/errors.js";
import type { MigrationKind } from "./model.js";

/** What became of one item of an import. */
export type Outcome =
  /** New here. */
  | "imported"
  /** Imported before; what has come since was added. */
  | "grown"
  /** Imported before, and nothing has come since. */
  | "known"
  /** Something else has this id here, or it has gone on here by itself: left as it is. */
  | "conflict"
  /** None of it could be taken in; `skipped` and the notes say why. */
  | "refused";

/** What an import did with one session. */
export interface MigratedSession {
  readonly id: string;
  readonly outcome: Outcome;
  /** How many were imported now. */
  readonly checkpoints: number;
  readonly message?: string;
}

/** What an import did with one agent. */
export interface MigratedAgent {
  readonly id: string;
  readonly outcome: Outcome;
  readonly message?: string;
}

/** What an import did with one snapshot. */
export interface MigratedSnapshot {
  /** The id of the checkpoint that it was. */
  readonly id: string;
  readonly agent: string;
  readonly outcome: Outcome;
  readonly message?: string;
}

/** What an import has read, taken in and left out. */
export interface MigrationReport {
  readonly kind: MigrationKind;
  readonly path: string;
  readonly dryRun: boolean;
  readonly sessions: readonly MigratedSession[];
  readonly agents: readonly MigratedAgent[];
  readonly snapshots: readonly MigratedSnapshot[];
  /** How many files (or rows of a database) were read. */
  readonly files: number;
  /** What was left out, and why. Paths are relative, and text as somebody else named it. */
  readonly skipped: readonly { readonly path: string; readonly why: string }[];
  readonly notes: readonly { readonly path?: string; readonly what: string }[];
  /**
   * What was imported now took this much there, and takes this much here: sessions as they are
   * counted by `stats`, agents and their snapshots as JSON. In a dry run: all of it, also what is
   * here already.
   */
  readonly sourceBytes: number;
  readonly storedBytes: number;
}

/** How far an import is. */
export interface MigrationProgress {
  /** Files (or rows) read, of how many. */
  readonly files: number;
  readonly of: number;
  /** Sessions that are done. */
  readonly sessions: number;
}

/** How many lines of each kind are kept; a last one counts the others. */
const MAX_LINES = 10_000;

/** Takes what is found in one file. */
export interface FileReport {
  note(what: string): void;
  /** A field that is kept in `metadata.source.unmapped`. */
  unmapped(field: string): void;
  /** A field for which metadata has no room. */
  tooLarge(field: string): void;
}

const nothing = (): void => {};
/** For a file that is looked over, and is read again when it is written. */
export const UNREPORTED: FileReport = { note: nothing, unmapped: nothing, tooLarge: nothing };

export class Report {
  readonly sessions: MigratedSession[] = [];
  readonly agents: MigratedAgent[] = [];
  readonly snapshots: MigratedSnapshot[] = [];
  readonly #skipped: { path: string; why: string }[] = [];
  readonly #notes: { path?: string; what: string }[] = [];
  readonly #said = new Set<string>();
  readonly #unmapped = new Map<string, { readonly path: string; count: number }>();
  readonly #sources = new Map<string, number>();
  readonly #tell: ((progress: MigrationProgress) => void) | undefined;
  #more = { skipped: 0, notes: 0 };
  #taken = 0;
  #strange = 0;
  #files = 0;
  #of = 0;

  constructor(tell?: (progress: MigrationProgress) => void) {
    this.#tell = tell;
  }

  /** Whether something was there that nobody can tell what it was. */
  get anyTorn(): boolean {
    return this.#skipped.length + this.#more.skipped > this.#strange;
  }

  /** How many files there are. */
  expects(files: number): void {
    this.#of = files;
  }

  fileRead(): void {
    this.#files += 1;
    this.progress();
  }

  progress(): void {
    this.#tell?.({
      files: this.#files,
      of: Math.max(this.#of, this.#files),
      sessions: this.sessions.length,
    });
  }

  skip(path: string, why: string): undefined {
    if (this.#skipped.length < MAX_LINES) this.#skipped.push({ path, why });
    else this.#more.skipped += 1;
  }

  /** It can be read, and is something else. */
  strange(path: string, why: string): void {
    this.skip(path, why);
    this.#strange += 1;
  }

  /** Said once, however often it is found. */
  note(what: string, path?: string): void {
    const said = `${path ?? ""}\n${what}`;
    if (this.#said.has(said)) return;
    if (this.#notes.length >= MAX_LINES) {
      this.#more.notes += 1;
      return;
    }
    this.#said.add(said);
    this.#notes.push(path === undefined ? { what } : { path, what });
  }

  /** The report for one file. */
  of(path: string): FileReport {
    return {
      note: (what) => this.note(what, path),
      unmapped: (field) => this.#countUnmapped(field, path),
      tooLarge: (field) =>
        this.skip(path, `Field ${quote(field)} is too large for metadata: left out.`),
    };
  }

  #countUnmapped(field: string, path: string): void {
    const found = this.#unmapped.get(field);
    if (found !== undefined) found.count += 1;
    else if (this.#unmapped.size < MAX_LINES) this.#unmapped.set(field, { path, count: 1 });
    else this.#more.notes += 1;
  }

  /** Something of this file is stored now. */
  stored(path: string, bytes: number): void {
    this.#sources.set(path, bytes);
  }

  /** Something takes this much that the store does not count. */
  takes(bytes: number): void {
    this.#taken += bytes;
  }

  /** Each field that has no counterpart here, with the file in which it was found first. */
  #unmappedNotes(): readonly { readonly path: string; readonly what: string }[] {
    return [...this.#unmapped].map(([field, { path, count }]) => ({
      path,
      what: `Field ${quote(field)} cannot be mapped. Its value is kept in metadata.source.unmapped. Found ${count === 1 ? "once" : `${count} times, here first`}.`,
    }));
  }

  end(about: Pick<MigrationReport, "kind" | "path" | "dryRun" | "storedBytes">): MigrationReport {
    const { skipped, notes } = this.#more;
    return {
      ...about,
      storedBytes: about.storedBytes + this.#taken,
      sessions: this.sessions,
      agents: this.agents,
      snapshots: this.snapshots,
      files: this.#files,
      skipped:
        skipped === 0
          ? this.#skipped
          : [...this.#skipped, { path: "", why: `${skipped} more were left out.` }],
      notes: [
        ...this.#notes,
        ...this.#unmappedNotes(),
        ...(notes === 0 ? [] : [{ what: `There are ${notes} more notes.` }]),
      ],
      sourceBytes: [...this.#sources.values()].reduce((sum, bytes) => sum + bytes, 0),
    };
  }
}
