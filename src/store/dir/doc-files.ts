/**
 * Documents beside the sessions (agents, snapshots), a file each: documents/<kind>/<name>.json.
 *
 * A change of one is made when its file is exchanged or removed; one of several, or together with sessions, by commit.json
 * (session-files.ts). The writer knows what there is; everybody else looks again at every call. One that is asked for by its id is read;
 * where all are gone over, those are read that are not the files they were.
 *
 * Of one that is damaged, kind and name are known from its path: it can be written over and removed. Whose it is, its number and what it
 * pins are not; nor is an id that is no plain name, unless its remains still tell it.
 */
import { lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { HoldfastError, quote } from "../../core/errors.js";
import { type CheckpointId, type Place, placeId } from "../../core/ids.js";
import { AGENT, type Doc, type DocQuery, type DocRow, type Pin } from "../port.js";
import { changeDirectory, checkDirectory, isDraft, makeDirectory, namesIn, putFile, readFile, remove } from "./files.js";
import { nameOf } from "./names.js";
import { byLine, PinIndex } from "./pin-index.js";
import { sealedText, unsealed } from "./sealed.js";
import { DAMAGED } from "./session-file.js";
import { stampOf } from "./stamps.js";

export interface FiledDoc extends Omit<Doc, "pins"> {
  readonly no: number;
  readonly pins: readonly CheckpointId[];
}

/** What becomes of a document: what it will be, or, where it ends, the number of the one that does. */
export type DocStep =
  | { readonly kind: string; readonly id: string; readonly put: FiledDoc }
  | { readonly kind: string; readonly id: string; readonly ends: number };

interface Seen {
  /** Which file it was read from, where that tells. */
  readonly file: string | undefined;
  readonly doc: FiledDoc;
}

const LAST = "last.json";

export class DocFiles {
  readonly #root: string;
  /** Steps of a change that is made, and not yet put in place. */
  readonly #pending: () => readonly DocStep[];
  /** By path. */
  #seen = new Map<string, Seen>();
  /** Of all that was seen. */
  #pins = new PinIndex();
  /** Paths of those that are damaged, and may have pinned something. */
  readonly #damaged = new Set<string>();
  #writes = false;

  constructor(root: string, pending: () => readonly DocStep[]) {
    this.#root = join(root, "documents");
    this.#pending = pending;
  }

  /** From here on no other process writes. `isUnchanged`: nor did one since this process wrote last. */
  beginWriting({ isUnchanged }: { readonly isUnchanged: boolean }): void {
    if (!isUnchanged) {
      // All of it anew: a file that was seen before may be of another time.
      this.#seen = new Map();
      this.#pins = new PinIndex();
      this.#damaged.clear();
      this.#look();
    }
    this.#writes = true;
  }

  endWriting(): void {
    this.#writes = false;
  }

  // ---- reading

  get(kind: string, id: string): FiledDoc | undefined {
    const step = this.#step(kind, id);
    const path = this.#path(kind, id);
    const seen = this.#writes ? this.#seen.get(path) : this.#read(path, undefined);
    const found = seen && (isDamaged(seen.doc) ? { ...seen.doc, kind, id } : seen.doc);
    if (step === undefined) return found;
    if ("put" in step) return found === undefined || found.version < step.put.version || found.no < step.put.no ? step.put : found;
    return found === undefined || isDamaged(found) || found.no === step.ends ? undefined : found;
  }

  list({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }: DocQuery): DocRow[] {
    const all = [...this.#all(kind).values()];
    // Behind all others, each with a number of its own, so that they can be gone over in pages.
    const damaged = all.filter(isDamaged).sort((a, b) => (a.id < b.id ? -1 : 1));
    const rows = damaged.map((doc, i) => ({ ...rowOf(doc), no: DAMAGED_NO - i, text: DAMAGED }));
    const sound = all.filter((doc) => !isDamaged(doc) && (of === undefined || doc.of === of));
    return [...sound.sort((a, b) => b.no - a.no).map(rowOf), ...rows].filter(({ no }) => no < before).slice(0, limit);
  }

  /** Counts the documents of a kind by the names of their files. No file is read. */
  count(kind: string): number {
    const all = new Set(this.#paths(kind));
    for (const step of this.#pending()) {
      if (step.kind !== kind) continue;
      if (this.get(kind, step.id) === undefined) all.delete(this.#path(kind, step.id));
      else all.add(this.#path(kind, step.id));
    }
    return all.size;
  }

  /** All of a kind, or of all kinds, by path. */
  #all(kind?: string): Map<string, FiledDoc> {
    if (!this.#writes) this.#look(kind);
    const all = new Map([...this.#seen].map(([path, { doc }]) => [path, doc]));
    for (const step of this.#pending()) {
      const path = this.#path(step.kind, step.id);
      const doc = this.get(step.kind, step.id);
      if (doc === undefined) all.delete(path);
      else all.set(path, doc);
    }
    for (const path of all.keys()) if (!isOfKind(path, kind)) all.delete(path);
    return all;
  }

  pins(line: string): Pin[] {
    if (!this.#writes) this.#look();
    this.#refuseDamaged();
    return this.#pinsOf(line);
  }

  isPinned({ line, seq }: Place): boolean {
    if (!this.#writes) this.#look();
    const isKnown = this.#pinsOf(line).some((pin) => pin.seq === seq);
    if (!isKnown) this.#refuseDamaged();
    return isKnown;
  }

  #pinsOf(line: string): Pin[] {
    const pins = new Map(this.#pins.of(line));
    for (const { kind, id } of this.#pending()) pins.set(this.#path(kind, id), byLine(this.get(kind, id)).get(line) ?? []);
    return [...pins.values()].flat();
  }

  /** What a damaged one keeps is not known: nothing is taken away until it is. */
  #refuseDamaged(): void {
    if (this.#damaged.size === 0) return;
    const exchanged = new Set(this.#pending().map(({ kind, id }) => this.#path(kind, id)));
    for (const path of this.#damaged)
      if (!exchanged.has(path))
        throw new HoldfastError("CORRUPT", `${quote(path)} is damaged. Restore it, or delete it to do without what it says.`, { path });
  }

  /** What is damaged, in words. */
  check(): readonly string[] {
    return [...this.#all()].flatMap(([path, doc]) => (isDamaged(doc) ? `${quote(path)} is damaged.` : []));
  }

  /** No document ever had a higher number. */
  get last(): number {
    const ended = readFile(join(this.#root, LAST))?.toString();
    const highest = ended === undefined ? 0 : (unsealed<{ readonly no: number }>(ended)?.no ?? 0);
    const all = [...this.#all().values()];
    // Numbers above those that are known can only be those of damaged ones.
    return Math.max(highest, ...all.map(({ no }) => no)) + all.filter(isDamaged).length;
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
        putFile(path, sealedText(step.put));
        // Known without being read again: from here on it is made, and nothing may make it seem otherwise.
        this.#note(path, { file: undefined, doc: step.put });
      }
    } else if (found === undefined || found.no === step.ends) {
      // Before it goes: none has its number again.
      putFile(join(this.#root, LAST), sealedText({ no: this.last }));
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

  /** Reads files that are new or changed: of one kind, or of all. */
  #look(kind?: string): void {
    const gone = new Set([...this.#seen.keys()].filter((path) => isOfKind(path, kind)));
    for (const path of this.#paths(kind)) {
      gone.delete(path);
      this.#read(path, this.#seen.get(path));
    }
    for (const path of gone) this.#note(path, undefined);
  }

  *#paths(kind?: string): Generator<string> {
    if (!checkDirectory(this.#root)) return;
    for (const name of kind === undefined ? namesIn(this.#root) : [nameOf(kind)]) {
      // A draft is what one who was killed here has left.
      if (name === LAST || isDraft(name) || !checkDirectory(join(this.#root, name))) continue;
      for (const file of namesIn(join(this.#root, name))) if (file.endsWith(".json")) yield join(this.#root, name, file);
    }
  }

  /** What stands at a path, if it is not what was there before. */
  #read(path: string, known: Seen | undefined): Seen | undefined {
    const found = lstatSync(path, { throwIfNoEntry: false, bigint: true });
    const file = found && stampOf(found);
    if (file !== undefined && known?.file === file) return known;
    const doc = found === undefined ? undefined : readDoc(path);
    return this.#note(path, doc === undefined ? undefined : { file, doc });
  }

  #note(path: string, seen: Seen | undefined): Seen | undefined {
    this.#pins.exchange(path, this.#seen.get(path)?.doc, seen?.doc);
    if (seen === undefined) this.#seen.delete(path);
    else this.#seen.set(path, seen);
    // An agent's record pins nothing.
    if (seen !== undefined && isDamaged(seen.doc) && seen.doc.kind !== AGENT) this.#damaged.add(path);
    else this.#damaged.delete(path);
    return seen;
  }
}

const isOfKind = (path: string, kind: string | undefined): boolean => kind === undefined || basename(dirname(path)) === nameOf(kind);

/** One that is damaged has no number. */
const DAMAGED_NO = -1;
const isDamaged = ({ no }: FiledDoc): boolean => no <= DAMAGED_NO;

/** Undefined where it has gone meanwhile. */
function readDoc(path: string): FiledDoc | undefined {
  try {
    const text = readFile(path)?.toString();
    if (text === undefined) return undefined;
    const found = unsealed<FiledDoc>(text);
    return found !== undefined && `${nameOf(found.id)}.json` === basename(path) ? found : damagedDoc(path, text);
  } catch (error) {
    // Something else stands in its place.
    if (error instanceof HoldfastError && error.code === "CORRUPT") return damagedDoc(path, undefined);
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

/** The id that the remains still tell, where the file has its name; where they do not, the name itself, which is the id of most. */
function idIn(text: string, name: string): string {
  const [, told] = /^ {2}"id": ("(?:[^"\\\n]|\\.)*"),?$/m.exec(text) ?? [];
  try {
    const id: unknown = told && JSON.parse(told);
    return typeof id === "string" && nameOf(id) === name ? id : name;
  } catch {
    return name;
  }
}

export const filedDoc = (kind: string, id: string, no: number, put: Omit<Doc, "kind" | "id">): FiledDoc => ({
  kind,
  id,
  no,
  of: put.of,
  version: put.version,
  text: put.text,
  body: put.body,
  pins: put.pins.map(({ line, seq }) => placeId(line, seq)),
});

export const rowOf = ({ no, kind, id, of, version, text }: FiledDoc): DocRow => ({ no, kind, id, of, version, text });
