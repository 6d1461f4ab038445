/**
 * The world outside of the demo's agent: a bank and a mail server, in a file of their own that
 * Holdfast knows nothing of.
 */
import { appendFileSync, readFileSync } from "node:fs";

export interface Entry {
  readonly who: "bank" | "mail" | "model";
  readonly did: string;
  readonly order: number;
  readonly key: string;
}

export class World {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  note(entry: Entry): void {
    appendFileSync(this.#file, `${JSON.stringify(entry)}\n`);
  }

  entries(): readonly Entry[] {
    try {
      return readFileSync(this.#file, "utf8")
        .split("\n")
        .filter((row) => row !== "")
        .map((row) => JSON.parse(row) as Entry);
    } catch {
      return [];
    }
  }

  /** Pays, as banks do: whoever comes again with the same key is told of the first time. */
  refund(order: number, key: string): { readonly receipt: string } {
    const known = this.entries().some((entry) => entry.did === "refund" && entry.key === key);
    this.note({ who: "bank", did: known ? "recognised the key" : "refund", order, key });
    return { receipt: `R-${order}-${key.slice(0, 4)}` };
  }

  /** Sends, as mail servers do: as often as it is told to. */
  send(order: number, key: string): { readonly sent: true } {
    this.note({ who: "mail", did: "send", order, key });
    return { sent: true };
  }

  hasSent(key: string): boolean {
    return this.entries().some((entry) => entry.did === "send" && entry.key === key);
  }
}
