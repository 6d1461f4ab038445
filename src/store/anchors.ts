/**
 * Anchors: where each line was known to end, kept in a side file. A store's own file cannot tell a tail that was lost (a truncated
 * log, an old copy put back) from one that was never written; an anchor can, up to when it was written.
 *
 * The file is text, one anchor a row with a digest of its own. It is only ever a witness: losing it loses nothing else.
 */
import { appendFile, readFile, rename, writeFile } from "node:fs/promises";
import { digest } from "../core/digest.js";
import { HoldfastError, quote } from "../core/errors.js";
import type { Anchor } from "./port.js";

const EVERY_MS = 10_000;

export class Anchors {
  readonly #path: string;
  readonly #storeId: string;
  readonly #timer: NodeJS.Timeout;
  #fresh = new Map<string, { seq: number; check: string }>();
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, storeId: string) {
    this.#path = path;
    this.#storeId = storeId;
    this.#timer = setInterval(() => void this.#write().catch(() => {}), EVERY_MS).unref();
  }

  note(line: string, seq: number, check: string): void {
    this.#fresh.set(line, { seq, check });
  }

  /** A line that is about to be cut on purpose needs no witness any more. Written before it is cut: a crash must not accuse anybody. */
  async forget(line: string): Promise<void> {
    this.#fresh.set(line, { seq: 0, check: "" });
    await this.#write();
  }

  /** The last anchor of every line. Rows that do not match their digest are passed over: a damaged witness says nothing. */
  async read(): Promise<readonly Anchor[]> {
    await this.#write();
    let text: string;
    try {
      text = await readFile(this.#path, "utf8");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
      throw new HoldfastError("IO", `The anchors beside the store could not be read (${this.#path}).`, {}, error);
    }
    const anchors = new Map<string, Anchor>();
    let rows = 0;
    for (const row of text.split("\n")) {
      const [store, line, seq, end, check] = row.split(" ");
      if (store === undefined || line === undefined || check === undefined || check !== digest(row.slice(0, -check.length)).slice(0, 16))
        continue;
      rows += 1;
      if (store !== this.#storeId) {
        throw new HoldfastError(
          "CORRUPT",
          `The anchors in ${quote(this.#path)} belong to another store: a file, or its write-ahead log, was exchanged. Put back what belongs together, or delete the anchors to accept what is there.`,
        );
      }
      if (seq === "0") anchors.delete(line);
      else anchors.set(line, { line, seq: Number(seq), check: end ?? "" });
    }
    if (rows > 2 * anchors.size + 1_000) await this.#rewrite([...anchors.values()]);
    return [...anchors.values()];
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#write();
  }

  #write(): Promise<void> {
    const fresh = this.#fresh;
    if (fresh.size === 0) return this.#writing;
    this.#fresh = new Map();
    const rows = [...fresh].map(([line, { seq, check }]) => this.#row(line, seq, check)).join("");
    this.#writing = this.#writing.then(() => appendFile(this.#path, rows, { mode: 0o600 }));
    return this.#writing;
  }

  async #rewrite(anchors: readonly Anchor[]): Promise<void> {
    const draft = `${this.#path}.${process.pid}`;
    await writeFile(draft, anchors.map(({ line, seq, check }) => this.#row(line, seq, check)).join(""), { mode: 0o600 });
    await rename(draft, this.#path);
  }

  #row(line: string, seq: number, check: string): string {
    const text = `${this.#storeId} ${line} ${seq} ${check} `;
    return `${text}${digest(text).slice(0, 16)}\n`;
  }
}
