/**
 * Files of JSON, read twice: lightly when the source is looked over, and one at a time when it is
 * written.
 */
import { HoldfastError } from "../../core/values/errors.js";
import { type Parsed, parseJson } from "../../core/values/lossless-json.js";
import type { JsonObject } from "../../index.js";
import { isObject } from "./fields.js";
import { type FoundFile, readFound, textOfBytes, unreadable } from "./files.js";
import type { Step } from "./model.js";
import { digestOf } from "./names.js";
import type { Report } from "./report.js";
import type { Moment } from "./times.js";

export interface Document extends Parsed {
  readonly file: FoundFile;
  readonly text: string;
  /** Of the bytes. */
  readonly digest: string;
  readonly value: JsonObject;
}

/** What a file says of a step without being read again. */
export const stepIn = (
  file: FoundFile,
  {
    id,
    digest,
    time,
  }: { readonly id: string; readonly digest: string; readonly time: Moment | undefined },
): Omit<Step, "load"> => ({
  id,
  digest,
  at: time?.ms ?? file.mtimeMs,
  path: file.path,
  bytes: file.bytes,
});

export class Documents {
  readonly #root: string;
  readonly #report: Report;
  readonly #signal: AbortSignal | undefined;
  /** The one that was read last: a file may hold a hundred conversations. */
  #last: Document | undefined;

  constructor(root: string, report: Report, signal: AbortSignal | undefined) {
    this.#root = root;
    this.#report = report;
    this.#signal = signal;
  }

  /**
   * Each file that holds an object, one at a time; the others are reported, unless `other` knows
   * what to make of their text.
   */
  async *each(
    files: readonly FoundFile[],
    other?: (file: FoundFile, text: string) => boolean,
  ): AsyncGenerator<Document> {
    for (const file of files) {
      this.#signal?.throwIfAborted();
      let text: string | undefined;
      try {
        const bytes = await readFound(this.#root, file);
        text = textOfBytes(bytes);
        const document = documentOf(file, bytes, text);
        const { count, paths } = document.texts;
        if (count > 0)
          this.#report.note(
            `${numbersKept(count)}: ${paths.join(", ")}${count > paths.length ? ", …" : ""}.`,
            file.path,
          );
        yield document;
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        if (text === undefined || other?.(file, text) !== true)
          this.#report.skip(file.path, error.message);
      }
      this.#report.fileRead();
    }
  }

  /** The same file again, to be written. */
  async again(file: FoundFile, digest: string): Promise<Document> {
    if (this.#last?.file === file && this.#last.digest === digest) return this.#last;
    this.#last = undefined;
    const bytes = await readFound(this.#root, file);
    if (digestOf(bytes) !== digest)
      throw unreadable("It changed while it was being imported. Run the import again.");
    this.#last = documentOf(file, bytes, textOfBytes(bytes));
    return this.#last;
  }
}

function documentOf(file: FoundFile, bytes: Uint8Array, text: string): Document {
  const parsed = parseJson(text);
  if (!isObject(parsed.value)) throw unreadable("It holds JSON, but no object.");
  return { ...parsed, value: parsed.value, file, text, digest: digestOf(bytes) };
}

export const numbersKept = (count: number): string =>
  `${count} ${count === 1 ? "number is" : "numbers are"} past what a double holds and kept as text`;
