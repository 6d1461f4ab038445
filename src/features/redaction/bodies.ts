/**
 * Bodies that records refer to: fetched before a save is edited, some of them kept for the next,
 * because bases name the same again and again.
 */
import type { Blob } from "../../core/messages/message.js";
import type { Stored } from "../../core/redaction/redact-record.js";
import { type Digest, digest } from "../../core/values/digest.js";
import type { Journal } from "../../engine/journal/journal.js";

const KEPT_BYTES = 32 * 1024 * 1024;

export class Bodies {
  readonly #journal: Journal;
  /** The last used last. */
  readonly #known = new Map<Digest, Uint8Array>();
  #bytes = 0;
  #made = new Map<Digest, Blob>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** Has these at hand, verified. */
  async fetch(names: readonly Digest[]): Promise<void> {
    for (const name of names) {
      const known = this.#known.get(name);
      if (known !== undefined) this.#forget(name, known);
      this.#remember(name, known ?? (await this.#journal.blob(name)));
    }
    const needed = new Set(names);
    for (const [name, bytes] of this.#known) {
      if (this.#bytes <= KEPT_BYTES) return;
      if (!needed.has(name)) this.#forget(name, bytes);
    }
  }

  #remember(name: Digest, bytes: Uint8Array): void {
    this.#known.set(name, bytes);
    this.#bytes += bytes.length;
  }

  #forget(name: Digest, bytes: Uint8Array): void {
    this.#known.delete(name);
    this.#bytes -= bytes.length;
  }

  get(name: Digest): Uint8Array {
    const bytes = this.#known.get(name);
    if (bytes === undefined) throw new TypeError("a body that no record refers to");
    return bytes;
  }

  keep(bytes: Uint8Array): Stored {
    const name = digest(bytes);
    this.#made.set(name, { digest: name, bytes });
    return { digest: name, bytes: bytes.length };
  }

  /** Those of what was kept since it was last taken that are referred to. */
  take(refs: readonly Digest[]): readonly Blob[] {
    const made = this.#made;
    this.#made = new Map();
    return [...made.values()].filter(({ digest: name }) => refs.includes(name));
  }
}
