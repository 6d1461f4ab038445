/**
 * Documents beside the sessions (agents, snapshots), a file each: documents/<kind>/<name>.json.
 *
 * A change of one is made when its file is exchanged or removed; one of several, or together with
 * sessions, by commit.json (session-files.ts). One that is asked for by its id is read, and no
 * other. Where all of a kind are gone over, those are read that are not the files they were; a
 * process that reads does so at every call, one that writes once, and from then on it knows that
 * kind.
 *
 * DOCS-1  what is pinned is asked of all documents that may pin something. A writer has gone over
 *         them since it took the lock. Agents and receipts pin nothing (PINS_NOTHING): receipts are
 *         most of what there is, and are left out.
 * DOCS-2  a file counts as the one that was read if inode, size and times are the same, and it had
 *         stood for a while when it was read (STAMP-1). Inodes are used again, and times may be
 *         coarse.
 *
 * Of one that is damaged, kind and name are known from its path: it can be written over and
 * removed. Whose it is, its number and what it pins are not; nor is an id that is no plain name,
 * unless its remains still tell it.
 */
import { lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { type CheckpointId, type Place, placeId } from "../../../core/values/ids.js";
import {
  type Doc,
  type DocQuery,
  type DocRow,
  PINS_NOTHING,
  type Pin,
} from "../../port/documents.js";
import { DAMAGED, sealedText, unsealed } from "../files/checksummed-json.js";
import {
  changeDirectory,
  checkDirectory,
  isDraft,
  makeDirectory,
  namesIn,
  putFile,
  readFile,
  remove,
} from "../files/files.js";
import { nameOf } from "../files/names.js";
import { stampOf } from "../files/stamps.js";
import { DocNumbers, LAST } from "./doc-numbers.js";
import { byBranch, PinIndex } from "./pin-index.js";

export interface FiledDoc extends Omit<Doc, "pins"> {
  readonly no: number;
  readonly pins: readonly CheckpointId[];
}

/**
 * What becomes of a document: what it will be, or, where it ends, the number of the one that does.
 */
export type DocStep =
  | { readonly kind: string; readonly id: string; readonly put: FiledDoc }
  | { readonly kind: string; readonly id: string; readonly ends: number };

interface Seen {
  /** DOCS-2: which file it was read from, where that tells. */
  readonly file: string | undefined;
  readonly doc: FiledDoc;
}

export class DocFiles {
  readonly #root: string;
  /** Steps of a change that is made, and not yet put in place. */
  readonly #pending: () => readonly DocStep[];
  readonly #numbers: DocNumbers;
  /** Of kinds that were gone over: by the name of the kind, and then by path. */
  readonly #kinds = new Map<string, Map<string, Seen>>();
  /** Of all that was seen. */
  readonly #pins = new PinIndex();
  /** Paths of those that are damaged, and may have pinned something. */
  readonly #damaged = new Set<string>();
  /**
   * For the writer: names of kinds that it knows, and whether these are all that may pin something.
   */
  readonly #known = new Set<string>();
  #knowsPins = false;
  #writes = false;

  constructor(root: string, pending: () => readonly DocStep[]) {
    this.#root = join(root, "documents");
    this.#pending = pending;
    this.#numbers = new DocNumbers(this.#root, () => this.#highest());
  }

  /**
   * From here on no other process writes. `isUnchanged`: nor did one since this process wrote last.
   */
  beginWriting({ isUnchanged }: { readonly isUnchanged: boolean }): void {
    this.#writes = true;
    if (isUnchanged) return;
    this.#known.clear();
    this.#knowsPins = false;
    this.#numbers.forget();
  }

  endWriting(): void {
    this.#writes = false;
  }

  // ---- reading

  get(kind: string, id: string): FiledDoc | undefined {
    const step = this.#step(kind, id);
    const path = this.#path(kind, id);
    const name = nameOf(kind);
    const seen = this.#isKnown(name)
      ? this.#kinds.get(name)?.get(path)
      : this.#read(path, undefined);
    const found = seen && (isDamaged(seen.doc) ? { ...seen.doc, kind, id } : seen.doc);
    if (step === undefined) return found;
    if ("put" in step)
      return found === undefined || found.version < step.put.version || found.no < step.put.no
        ? step.put
        : found;
    return found === undefined || isDamaged(found) || found.no === step.ends ? undefined : found;
  }

  list({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }: DocQuery): DocRow[] {
    const all = [...this.#all(nameOf(kind)).values()];
    // Behind all others, each with a number of its own, so that they can be gone over in pages.
    const damaged = all.filter(isDamaged).sort((a, b) => (a.id < b.id ? -1 : 1));
    const rows = damaged.map((doc, i) => ({ ...rowOf(doc), no: DAMAGED_NO - i, text: DAMAGED }));
    const sound = all.filter((doc) => !isDamaged(doc) && (of === undefined || doc.of === of));
    return [...sound.sort((a, b) => b.no - a.no).map(rowOf), ...rows]
      .filter(({ no }) => no < before)
      .slice(0, limit);
  }

  /** Counts the documents of a kind by the names of their files. No file is read. */
  count(kind: string): number {
    const all = new Set(this.#paths(nameOf(kind)));
    for (const step of this.#pending()) {
      if (step.kind !== kind) continue;
      if (this.get(kind, step.id) === undefined) all.delete(this.#path(kind, step.id));
      else all.add(this.#path(kind, step.id));
    }
    return all.size;
  }

  /** All of a kind, by path. */
  #all(name: string): Map<string, FiledDoc> {
    this.#look(name);
    const all = new Map<string, FiledDoc>();
    for (const [path, { doc }] of this.#kinds.get(name) ?? []) all.set(path, doc);
    for (const { kind, id } of this.#pending()) {
      if (nameOf(kind) !== name) continue;
      const doc = this.get(kind, id);
      if (doc === undefined) all.delete(this.#path(kind, id));
      else all.set(this.#path(kind, id), doc);
    }
    return all;
  }

  pins(branch: string): Pin[] {
    this.#lookForPins();
    this.#refuseDamaged();
    return this.#pinsOf(branch);
  }

  isPinned({ branch, seq }: Place): boolean {
    this.#lookForPins();
    const isKnown = this.#pinsOf(branch).some((pin) => pin.seq === seq);
    if (!isKnown) this.#refuseDamaged();
    return isKnown;
  }

  #pinsOf(branch: string): Pin[] {
    const pins = new Map(this.#pins.of(branch));
    for (const { kind, id } of this.#pending())
      pins.set(this.#path(kind, id), byBranch(this.get(kind, id)).get(branch) ?? []);
    return [...pins.values()].flat();
  }

  /** What a damaged one keeps is not known: nothing is taken away until it is. */
  #refuseDamaged(): void {
    if (this.#damaged.size === 0) return;
    const exchanged = new Set(this.#pending().map(({ kind, id }) => this.#path(kind, id)));
    for (const path of this.#damaged)
      if (!exchanged.has(path))
        throw new HoldfastError(
          "CORRUPT",
          `${quote(path)} is damaged. Restore it, or delete it to do without what it says.`,
          { path },
        );
  }

  /** What is damaged, in words. */
  check(): readonly string[] {
    const all = this.#names().flatMap((name) => [...this.#all(name)]);
    return all.flatMap(([path, doc]) => (isDamaged(doc) ? `${quote(path)} is damaged.` : []));
  }

  /** No document ever had a higher number. */
  get last(): number {
    return this.#pending().reduce(
      (last, step) => Math.max(last, "put" in step ? step.put.no : 0),
      this.#numbers.last,
    );
  }

  /** DOCNO-3. Numbers above those that are known can only be those of damaged ones. */
  #highest(): number {
    let [highest, damaged] = [0, 0];
    for (const name of this.#names()) {
      for (const { no } of this.#all(name).values()) {
        if (no <= DAMAGED_NO) damaged += 1;
        else highest = Math.max(highest, no);
      }
    }
    return highest + damaged;
  }

  // ---- writing

  /** Puts a change in place. What is there already is not done again. */
  place(step: DocStep): void {
    const path = this.#path(step.kind, step.id);
    const there = this.#read(path, undefined)?.doc;
    const found = there === undefined || isDamaged(there) ? undefined : there;
    if ("put" in step) {
      if (found === undefined || found.no !== step.put.no || found.version < step.put.version) {
        makeDirectory(join(this.#root, nameOf(step.kind)));
        this.#numbers.keep(step.put.no);
        putFile(path, sealedText(step.put));
        // Known without being read again: from here on it is made, and nothing may make it seem
        // otherwise.
        this.#note(path, { file: undefined, doc: step.put });
      }
    } else if (found === undefined || found.no === step.ends) {
      // Before it goes: none has its number again.
      this.#numbers.keep(step.ends);
      changeDirectory(join(this.#root, nameOf(step.kind)), () => remove(path));
      this.#note(path, undefined);
    }
  }

  #step(kind: string, id: string): DocStep | undefined {
    return this.#pending().findLast((step) => step.kind === kind && step.id === id);
  }

  #path(kind: string, id: string): string {
    return join(this.#root, nameOf(kind), `${nameOf(id)}.json`);
  }

  #isKnown(name: string): boolean {
    return this.#writes && this.#known.has(name);
  }

  /** DOCS-1 */
  #lookForPins(): void {
    if (this.#writes && this.#knowsPins) return;
    for (const name of new Set([...this.#names(), ...this.#kinds.keys()]))
      if (mayPin(name)) this.#look(name);
    this.#knowsPins = this.#writes;
  }

  /** Reads files of a kind that are new or changed. */
  #look(name: string): void {
    if (this.#isKnown(name)) return;
    const seen = this.#kinds.get(name) ?? new Map<string, Seen>();
    this.#kinds.set(name, seen);
    const gone = new Set(seen.keys());
    for (const path of this.#paths(name)) {
      gone.delete(path);
      this.#read(path, seen.get(path));
    }
    for (const path of gone) this.#note(path, undefined);
    if (this.#writes) this.#known.add(name);
  }

  /** The names of all kinds. */
  #names(): string[] {
    if (!checkDirectory(this.#root)) return [];
    // A draft is what one who was killed here has left.
    return namesIn(this.#root).filter(
      (name) => name !== LAST && !isDraft(name) && checkDirectory(join(this.#root, name)),
    );
  }

  #paths(name: string): string[] {
    const directory = join(this.#root, name);
    if (!checkDirectory(this.#root) || !checkDirectory(directory)) return [];
    return namesIn(directory).flatMap((file) =>
      file.endsWith(".json") ? join(directory, file) : [],
    );
  }

  /** What stands at a path, if it is not what was there before. */
  #read(path: string, known: Seen | undefined): Seen | undefined {
    const found = lstatSync(path, { throwIfNoEntry: false, bigint: true });
    const file = found && stampOf(found);
    if (file !== undefined && known?.file === file) return known;
    const doc = found === undefined ? undefined : readDoc(path);
    return this.#note(path, doc === undefined ? undefined : { file, doc });
  }

  #note(path: string, now: Seen | undefined): Seen | undefined {
    const name = basename(dirname(path));
    const seen = this.#kinds.get(name) ?? this.#begun(name);
    // Of a kind that was never gone over nothing is kept.
    if (seen === undefined) return now;
    this.#pins.exchange(path, seen.get(path)?.doc, now?.doc);
    if (now === undefined) seen.delete(path);
    else seen.set(path, now);
    if (now !== undefined && isDamaged(now.doc) && mayPin(name)) this.#damaged.add(path);
    else this.#damaged.delete(path);
    return now;
  }

  /** A kind that was not there when the others were gone over for pins. */
  #begun(name: string): Map<string, Seen> | undefined {
    if (!this.#writes || !this.#knowsPins || !mayPin(name)) return undefined;
    const seen = new Map<string, Seen>();
    this.#kinds.set(name, seen);
    return seen;
  }
}

const pinless: ReadonlySet<string> = new Set([...PINS_NOTHING].map(nameOf));
const mayPin = (name: string): boolean => !pinless.has(name);

/** One that is damaged has no number. */
const DAMAGED_NO = -1;
const isDamaged = ({ no }: FiledDoc): boolean => no <= DAMAGED_NO;

/** Undefined where it has gone meanwhile. */
function readDoc(path: string): FiledDoc | undefined {
  try {
    const text = readFile(path)?.toString();
    if (text === undefined) return undefined;
    const found = unsealed<FiledDoc>(text);
    return found !== undefined && `${nameOf(found.id)}.json` === basename(path)
      ? found
      : damagedDoc(path, text);
  } catch (error) {
    // Something else stands in its place.
    if (error instanceof HoldfastError && error.code === "CORRUPT")
      return damagedDoc(path, undefined);
    throw error;
  }
}

/** What is left of it is shown to whoever asks for it: no digest fits it. */
const damagedDoc = (path: string, text = DAMAGED): FiledDoc => ({
  kind: basename(dirname(path)),
  id: idIn(text, basename(path, ".json")),
  no: DAMAGED_NO,
  of: null,
  version: 0,
  text,
  body: null,
  pins: [],
});

/**
 * The id that the remains still tell, where the file has its name; where they do not, the name
 * itself, which is the id of most.
 */
function idIn(text: string, name: string): string {
  const [, told] = /^ {2}"id": ("(?:[^"\\\n]|\\.)*"),?$/m.exec(text) ?? [];
  try {
    const id: unknown = told && JSON.parse(told);
    return typeof id === "string" && nameOf(id) === name ? id : name;
  } catch {
    return name;
  }
}

export const filedDoc = (
  kind: string,
  id: string,
  no: number,
  put: Omit<Doc, "kind" | "id">,
): FiledDoc => ({
  kind,
  id,
  no,
  of: put.of,
  version: put.version,
  text: put.text,
  body: put.body,
  pins: put.pins.map(({ branch, seq }) => placeId(branch, seq)),
});

export const rowOf = ({ no, kind, id, of, version, text }: FiledDoc): DocRow => ({
  no,
  kind,
  id,
  of,
  version,
  text,
});
