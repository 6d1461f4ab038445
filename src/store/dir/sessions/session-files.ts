/**
 * The sessions' files, and how they change.
 *
 * SESSIONFILE-1  a change of one session is made when its session.json is exchanged (FILE-1).
 * SESSIONFILE-2  a change of several, or of documents beside them, is made when commit.json is
 *                there, with what they will be. Then each is put in its place, and commit.json
 *                goes. Whoever reads looks at both: the higher version counts.
 * SESSIONFILE-3  the writer knows what it wrote; everybody else reads again at every call.
 */
import { lstatSync } from "node:fs";
import { dirname, join } from "node:path";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { DocFiles, type DocStep } from "../documents/doc-files.js";
import { sealedText, unsealed } from "../files/checksummed-json.js";
import { Unsure } from "../files/failures.js";
import {
  changeDirectory,
  checkDirectory,
  makeDirectory,
  putFile,
  readFile,
  remove,
  syncDirectory,
} from "../files/files.js";
import { sessionPath } from "../files/names.js";
import { docOf, docText, type SessionDoc, upToDate } from "./session-file.js";

const KNOWN = 2_000;

interface Pending {
  readonly sessions: readonly SessionDoc[];
  readonly documents?: readonly DocStep[];
}

export type Found = SessionDoc | "damaged" | undefined;

export class SessionFiles {
  readonly #root: string;
  readonly #commit: string;
  readonly documents: DocFiles;
  #writes = false;
  /** SESSIONFILE-3, the last used last. */
  readonly #known = new Map<string, SessionDoc>();

  constructor(root: string) {
    this.#root = root;
    this.#commit = join(root, "commit.json");
    this.documents = new DocFiles(root, () => this.#pending()?.documents ?? []);
  }

  directory(id: string): string {
    return join(this.#root, sessionPath(id));
  }

  find(id: string): Found {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    // Before the session's own file: it may be put in its place, and be gone, in between.
    const pending = this.#pending()?.sessions.find((doc) => doc.id === id);
    const doc = later(readDoc(this.directory(id), id), pending);
    if (this.#writes && doc !== undefined && doc !== "damaged") this.#remember(doc);
    return doc;
  }

  /**
   * What stands in a session's directory, whosever it is, or will once a change that is made is put
   * in place (SESSIONFILE-2).
   */
  at(directory: string, unfinished = this.unfinished()): Found {
    return later(readDoc(directory, undefined), unfinished.get(directory));
  }

  /**
   * By their directories, the sessions of a change that is made, and not yet put in place: these
   * may not be there yet.
   */
  unfinished(): ReadonlyMap<string, SessionDoc> {
    return new Map(this.#pending()?.sessions.map((doc) => [this.directory(doc.id), doc]));
  }

  /** As {@link find}, for who needs it sound. */
  get(id: string): SessionDoc | undefined {
    const found = this.find(id);
    if (found !== "damaged") return found;
    throw new HoldfastError(
      "CORRUPT",
      `The file of session ${quote(id)} (${quote(join(this.directory(id), "session.json"))}) is damaged. Run verify to see what else is; other sessions are not touched.`,
      { sessionId: id },
    );
  }

  /**
   * From here on no other process writes. Finishes what a killed writer left half done.
   * `isUnchanged`: since this process wrote last.
   */
  beginWriting({ isUnchanged }: { readonly isUnchanged: boolean }): void {
    // Before anything is finished: what is remembered of documents may be of another time.
    this.documents.beginWriting({ isUnchanged });
    this.finish();
    this.#writes = true;
  }

  endWriting(): void {
    this.documents.endWriting();
    this.#writes = false;
    this.#known.clear();
  }

  /** Puts what changes in place. `lasting` is false where it need not outlive a power cut. */
  put(
    docs: readonly SessionDoc[],
    { lasting }: { readonly lasting: boolean },
    documents: readonly DocStep[] = [],
  ): void {
    const [only] = docs;
    const [step] = documents;
    if (docs.length === 1 && only !== undefined && step === undefined) this.#place(only, lasting);
    else {
      // Else what stands unfinished would later be put in the place of a newer document: one that
      // has ended has no version to tell by.
      this.finish();
      if (docs.length === 0 && documents.length === 1 && step !== undefined)
        this.documents.place(step);
      else this.#putTogether(docs, documents);
    }
    for (const doc of docs) this.#remember(doc);
  }

  #putTogether(sessions: readonly SessionDoc[], documents: readonly DocStep[]): void {
    putFile(
      this.#commit,
      sealedText({ sessions, ...(documents.length === 0 ? undefined : { documents }) }),
    );
    // SESSIONFILE-2: made. Where one cannot be put in its place now, commit.json stays, and says what it is.
    try {
      this.finish();
    } catch (error) {
      if (error instanceof Unsure) throw error;
    }
  }

  /** SESSIONFILE-2 */
  finish(): void {
    const pending = this.#pending();
    for (const doc of pending?.sessions ?? []) {
      if (later(readDoc(this.directory(doc.id), doc.id), doc) === doc) this.#place(doc, true);
      // Put there by one who was killed before it could say so to the disk.
      else syncDirectory(this.directory(doc.id));
    }
    for (const step of pending?.documents ?? []) this.documents.place(step);
    // If it comes back after a power cut it does no harm to sessions: what it says is no newer than
    // what is there. A document that was ended since would come back with it.
    if (pending?.documents !== undefined) changeDirectory(this.#root, () => remove(this.#commit));
    else if (pending !== undefined) remove(this.#commit);
  }

  #place(doc: SessionDoc, lasting: boolean): void {
    const directory = this.directory(doc.id);
    if (doc.version === 1) makeDirectory(directory);
    putFile(join(directory, "session.json"), docText(doc), { lasting });
  }

  #pending(): Pending | undefined {
    if (lstatSync(this.#commit, { throwIfNoEntry: false }) === undefined) return undefined;
    const text = readFile(this.#commit)?.toString();
    if (text === undefined) return undefined;
    const found = unsealed<Pending>(text);
    if (found === undefined)
      throw new HoldfastError(
        "CORRUPT",
        `${quote(this.#commit)} is damaged: a change of several sessions was being made. Restore a backup.`,
      );
    return { ...found, sessions: found.sessions.map(upToDate) };
  }

  #remember(doc: SessionDoc): void {
    if (!this.#writes) return;
    this.#known.delete(doc.id);
    this.#known.set(doc.id, doc);
    const [oldest] = this.#known.keys();
    if (this.#known.size > KNOWN && oldest !== undefined) this.#known.delete(oldest);
  }
}

/** SESSIONFILE-2: the higher version counts. */
const later = (found: Found, pending: SessionDoc | undefined): Found =>
  pending !== undefined &&
  (found === undefined || found === "damaged" || found.version < pending.version)
    ? pending
    : found;

/** What stands in a session's directory. `id` undefined: whatever it is. */
function readDoc(directory: string, id: string | undefined): Found {
  if (!checkDirectory(dirname(directory)) || !checkDirectory(directory)) return undefined;
  try {
    const text = readFile(join(directory, "session.json"))?.toString();
    return text === undefined ? undefined : (docOf(text, id) ?? "damaged");
  } catch (error) {
    // Something else stands in its place.
    if (error instanceof HoldfastError && error.code === "CORRUPT") return "damaged";
    throw error;
  }
}
