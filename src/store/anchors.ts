/**
 * Anchors: where each line was known to end, kept in a side file. A store's own file cannot tell a tail that was lost (a truncated
 * log, an old copy put back) from one that was never written; an anchor can, up to when it was written.
 *
 * The file is text, one anchor a row with a digest of its own. It is only ever a witness: losing it loses nothing else, so nothing
 * fails because it cannot be written, except to cut what it speaks for.
 *
 * A1  a line that was deleted on purpose is not reported as lost, whichever process deleted it, and whenever any of them is killed.
 * A2  a row that was cut short or damaged says nothing, and takes no other row with it.
 */
import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { digest } from "../core/digest.js";
import { HoldfastError, quote } from "../core/errors.js";
import type { Anchor } from "./port.js";

const EVERY_MS = 10_000;

type End = Omit<Anchor, "line">;
/** Stands for "no witness any more". */
const FORGOTTEN: End = { seq: 0, check: "" };

export class Anchors {
  readonly #path: string;
  readonly #storeId: string;
  readonly #isGone: (line: string) => boolean;
  readonly #timer: NodeJS.Timeout;
  #fresh = new Map<string, End>();
  #writing: Promise<void> = Promise.resolve();

  /** `isGone` says of a line whether it, or its session, was deleted. */
  constructor(path: string, storeId: string, isGone: (line: string) => boolean) {
    this.#path = path;
    this.#storeId = storeId;
    this.#isGone = isGone;
    this.#timer = setInterval(() => void this.#write().catch(() => {}), EVERY_MS).unref();
  }

  note(line: string, seq: number, check: string): void {
    this.#fresh.set(line, { seq, check });
  }

  /** The last anchor of every line. */
  async read(): Promise<readonly Anchor[]> {
    await this.#write().catch(() => {});
    const text = await this.#text();
    const anchors = new Map<string, Anchor>();
    let rows = 0;
    for (const { store, line, seq, check } of rowsOf(text)) {
      rows += 1;
      if (store !== this.#storeId) {
        throw new HoldfastError(
          "CORRUPT",
          `The anchors in ${quote(this.#path)} belong to another store: a file, or its write-ahead log, was exchanged. Put back what belongs together, or delete the anchors to accept what is there.`,
        );
      }
      if (seq === 0) anchors.delete(line);
      // The furthest: a process that was slower to write may have known less.
      else if (seq >= (anchors.get(line)?.seq ?? 0)) anchors.set(line, { line, seq, check });
    }
    if (rows > 2 * anchors.size + 1_000) await this.#rewrite([...anchors.values()], Buffer.byteLength(text)).catch(() => {});
    return [...anchors.values()];
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write().catch(() => {});
  }

  async #text(): Promise<string> {
    try {
      return await withFile(this.#path, constants.O_RDONLY, (file) => file.readFile("utf8"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
      throw new HoldfastError("IO", `The anchors beside the store could not be read (${quote(this.#path)}).`, {}, error);
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
      throw new HoldfastError("IO", `The anchors beside the store could not be written (${quote(this.#path)}).`, {}, error);
    });
    return this.#writing;
  }

  async #append(fresh: ReadonlyMap<string, End>): Promise<void> {
    const wanted = [...fresh].filter(([line]) => !this.#isGone(line));
    await this.#appendRows(wanted);
    // A1: a session that was deleted while its rows were being written leaves them without a line to witness for.
    await this.#appendRows(wanted.filter(([line]) => this.#isGone(line)).map(([line]) => [line, FORGOTTEN]));
  }

  async #appendRows(ends: readonly (readonly [string, End])[]): Promise<void> {
    if (ends.length === 0) return;
    // A2: a line of its own, also after a row that a kill cut short.
    const text = `\n${ends.map(([line, end]) => this.#row(line, end)).join("")}`;
    await withFile(this.#path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, (file) => file.appendFile(text));
  }

  async #rewrite(anchors: readonly Anchor[], bytes: number): Promise<void> {
    const draft = `${this.#path}.${randomBytes(6).toString("hex")}.draft`;
    await writeFile(draft, anchors.map(({ line, ...end }) => this.#row(line, end)).join(""), { mode: 0o600, flag: "wx" });
    // Another process wrote meanwhile, perhaps that a line was deleted: better a long file than a false witness.
    if ((await stat(this.#path)).size === bytes) await rename(draft, this.#path);
    else await rm(draft);
  }

  #row(line: string, { seq, check }: End): string {
    const text = `${this.#storeId} ${line} ${seq} ${check} `;
    return `${text}${sumOf(text)}\n`;
  }
}

interface AnchorRow extends Anchor {
  readonly store: string;
}

/** A2: rows that are whole. */
function* rowsOf(text: string): Generator<AnchorRow> {
  for (const row of text.split("\n")) {
    const [store, line, seq, check, sum] = row.split(" ");
    if (store === undefined || line === undefined || sum === undefined || sum !== sumOf(row.slice(0, -sum.length))) continue;
    yield { store, line, seq: Number(seq), check: check ?? "" };
  }
}

/** How far the anchors in a text say that a line has gone, or 0. */
export function anchoredSeq(text: string, line: string): number {
  let furthest = 0;
  for (const row of rowsOf(text)) if (row.line === line) furthest = row.seq === 0 ? 0 : Math.max(furthest, row.seq);
  return furthest;
}

const sumOf = (text: string): string => digest(text).slice(0, 16);

/** Opens a file and nothing else: a FIFO in its place would be waited at for ever. */
async function withFile<T>(path: string, flags: number, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, flags | (constants.O_NONBLOCK ?? 0) | (constants.O_NOFOLLOW ?? 0), 0o600);
  try {
    if (!(await file.stat()).isFile()) throw new Error("it is not a file");
    return await use(file);
  } finally {
    await file.close();
  }
}
