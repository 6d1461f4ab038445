/**
 * Anchors: where each branch was known to end, kept in a side file. A store's own file cannot tell
 * a tail that was lost (a truncated log, an old copy put back) from one that was never written; an
 * anchor can, up to when it was written.
 *
 * The file is text, one anchor a row with a digest of its own. It is only ever a tail anchor:
 * losing it loses nothing else, so nothing fails because it cannot be written, except to cut what
 * it speaks for.
 *
 * ANCHOR-1  a branch that was deleted on purpose is not reported as lost, whichever process deleted
 *           it, and whenever any of them is killed.
 * ANCHOR-2  a row that was cut short or damaged says nothing, and takes no other row with it.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { HoldfastError, quote } from "../core/values/errors.js";
import { AnchorRows, furthest, sumOf } from "./anchor-rows.js";
import type { TailAnchor } from "./port/copies.js";
import type { Presence } from "./presence.js";
import { exhausted, isExhausted } from "./refusals.js";

const EVERY_MS = 10_000;
/** Branches that are asked for, and written, without a pause. */
const AT_ONCE = 1_000;
/** Rows that may be there in vain. */
const SPARED = 1_000;
/** Of so many bytes and fewer no matter is made. */
const SMALL_BYTES = 64 * 1024;

const doublings = (bytes: number): number =>
  Math.max(0, Math.floor(Math.log2(bytes / SMALL_BYTES)));

type End = Omit<TailAnchor, "branch">;
/** Stands for "no tail anchor any more". */
const FORGOTTEN: End = { seq: 0, check: "" };

export class AnchorFile {
  readonly #path: string;
  readonly #named: string;
  readonly #storeId: string;
  readonly #isGone: (branch: string) => boolean;
  readonly #presence: Presence;
  readonly #timer: NodeJS.Timeout;
  #fresh = new Map<string, End>();
  #writing: Promise<void> = Promise.resolve();

  /**
   * `isGone` says of a branch whether it, or its session, was deleted. `named`: the file that
   * errors name, where this one is a copy of it.
   */
  constructor(
    path: string,
    storeId: string,
    isGone: (branch: string) => boolean,
    presence: Presence,
    named = path,
  ) {
    this.#path = path;
    this.#named = named;
    this.#storeId = storeId;
    this.#isGone = isGone;
    this.#presence = presence;
    this.#timer = setInterval(() => void this.#write().catch(() => {}), EVERY_MS).unref();
  }

  note(branch: string, seq: number, check: string): void {
    this.#fresh.set(branch, { seq, check });
  }

  /** The last anchor of every branch, or of each of these. */
  async read(of?: ReadonlySet<string>): Promise<AnchorRows> {
    await this.#write().catch(() => {});
    const text = await this.#text();
    return new AnchorRows(text, this.#storeId, this.#named, of);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write().catch(() => {});
  }

  async #text(): Promise<string> {
    try {
      return await withFile(this.#path, constants.O_RDONLY, whole);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
      if (isExhausted(error)) throw exhausted(error);
      throw new HoldfastError(
        "IO",
        `The anchors beside the store could not be read (${quote(this.#named)}, ${(error as NodeJS.ErrnoException).code ?? "no plain file"}). Check the disk and the permissions. Anchors only tell a lost end; delete the file to go on without them.`,
        { path: this.#named },
        error,
      );
    }
  }

  #write(): Promise<void> {
    const fresh = this.#fresh;
    if (fresh.size === 0) return this.#writing;
    this.#fresh = new Map();
    const written = this.#writing.then(
      () => this.#append(fresh),
      () => this.#append(fresh),
    );
    this.#writing = written.catch((error) => {
      // Kept for the next time, unless something newer is known by now.
      this.#fresh = new Map([...fresh, ...this.#fresh]);
      throw new HoldfastError(
        "IO",
        `The anchors beside the store could not be written (${quote(this.#path)}).`,
        {},
        error,
      );
    });
    return this.#writing;
  }

  async #append(fresh: ReadonlyMap<string, End>): Promise<void> {
    // Another store may stand in the place of a store that is gone. These rows would tail anchor
    // against it.
    this.#presence.check();
    const ends = [...fresh];
    // The store is asked for each branch, in the same tick: of a hundred thousand branches at once,
    // that would keep others waiting.
    for (let at = 0; at < ends.length; at += AT_ONCE) {
      const wanted = ends.slice(at, at + AT_ONCE).filter(([branch]) => !this.#isGone(branch));
      await this.#appendRows(wanted);
      // ANCHOR-1: a session that was deleted while its rows were being written leaves them without a
      // branch to tail anchor for.
      await this.#appendRows(
        wanted.filter(([branch]) => this.#isGone(branch)).map(([branch]) => [branch, FORGOTTEN]),
      );
    }
  }

  async #appendRows(ends: readonly (readonly [string, End])[]): Promise<void> {
    if (ends.length === 0) return;
    // ANCHOR-2: a line of its own, also after a row that a kill cut short.
    const text = `\n${ends.map(([branch, end]) => this.#row(branch, end)).join("")}`;
    const before = await withFile(
      this.#path,
      constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT,
      async (file) => {
        const { size } = await file.stat();
        await file.appendFile(text);
        return size;
      },
    );
    // A look at all of it each time it has doubled: so it is never many times as long as it has to
    // be, and seldom gone over.
    if (doublings(before + text.length) > doublings(before)) await this.#tidy().catch(() => {});
  }

  async #tidy(): Promise<void> {
    const text = await this.#text();
    const rows = new AnchorRows(text, this.#storeId, this.#named);
    if (rows.count > 2 * rows.size + SPARED) await this.#rewrite([...rows], text.length);
  }

  async #rewrite(anchors: readonly TailAnchor[], bytes: number): Promise<void> {
    const draft = `${this.#path}.${randomBytes(6).toString("hex")}.draft`;
    await writeFile(draft, anchors.map(({ branch, ...end }) => this.#row(branch, end)).join(""), {
      mode: 0o600,
      flag: "wx",
    });
    // Another process wrote meanwhile, perhaps that a branch was deleted: better a long file than a
    // false tail anchor.
    if ((await stat(this.#path)).size === bytes) await rename(draft, this.#path);
    else await rm(draft);
  }

  #row(branch: string, { seq, check }: End): string {
    const text = `${this.#storeId} ${branch} ${seq} ${check} `;
    return `${text}${sumOf(text)}\n`;
  }
}

/** How far the anchors in a text say that a branch has gone, or 0. */
export const anchoredSeq = (text: string, branch: string): number =>
  furthest(text.split("\n").filter((row) => row.split(" ", 2)[1] === branch))?.seq ?? 0;

/**
 * All of a file at once: in pieces, decoding takes longer than reading. Others may append to it
 * meanwhile; that is read the next time.
 */
async function whole(file: FileHandle): Promise<string> {
  const bytes = Buffer.allocUnsafe((await file.stat()).size);
  let filled = 0;
  while (filled < bytes.length) {
    const { bytesRead } = await file.read(bytes, filled, bytes.length - filled, filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return bytes.toString("latin1", 0, filled);
}

/** Opens a file and nothing else: a FIFO in its place would be waited at for ever. */
async function withFile<T>(
  path: string,
  flags: number,
  use: (file: FileHandle) => Promise<T>,
): Promise<T> {
  const file = await open(
    path,
    flags | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0),
    0o600,
  );
  try {
    if (!(await file.stat()).isFile()) throw new Error("it is not a file");
    return await use(file);
  } finally {
    await file.close();
  }
}
