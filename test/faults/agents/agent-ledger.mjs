/**
 * The world outside: an append-only file with a line for every call that reached it. Whoever is
 * called under a key that it knows answers as it did before. A line that a kill has cut short is no
 * line, and what it would have said has not happened.
 */
import { closeSync, fstatSync, openSync, readSync, writeSync } from "node:fs";

export class Ledger {
  #file;
  #at = 0;
  #rest = "";
  lines = [];

  constructor(path) {
    this.#file = openSync(path, "a+");
    const { size } = fstatSync(this.#file);
    const last = Buffer.alloc(1);
    if (size > 0 && readSync(this.#file, last, 0, 1, size - 1) === 1 && last[0] !== 10)
      writeSync(this.#file, "\n");
  }

  /** The lines of others since the last look, and one's own. */
  read() {
    const chunk = Buffer.alloc(fstatSync(this.#file).size - this.#at);
    if (chunk.length === 0) return this.lines;
    this.#at += readSync(this.#file, chunk, 0, chunk.length, this.#at);
    const parts = (this.#rest + chunk.toString("utf8")).split("\n");
    this.#rest = parts.pop();
    for (const part of parts) {
      try {
        this.lines.push(JSON.parse(part));
      } catch {
        // Cut short, and ended by whoever came next.
      }
    }
    return this.lines;
  }

  /** The calls that came under a key, in their order. */
  under(key) {
    return this.read().filter((line) => line.key === key);
  }

  /** What happened under a key, if anything did. */
  actUnder(key) {
    return this.under(key).find(({ did }) => did === "acted");
  }

  write(line) {
    writeSync(this.#file, `${JSON.stringify(line)}\n`);
  }

  close() {
    closeSync(this.#file);
  }
}
