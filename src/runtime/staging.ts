/**
 * What has been staged since the last save: operations already checked and encoded, waiting for a number and a seal.
 *
 * Items come first in a save, so the number of a staged message is known at once: live code sees the id that a resumed run will see.
 */
import { type Digest, digest } from "../core/digest.js";
import { HoldfastError } from "../core/errors.js";
import type { Body, Row } from "../core/fold.js";
import type { Encoded } from "../core/json.js";
import { type Blob, blobsOf, type EncodedMessage } from "../core/message.js";
import { BLOB_FROM, record } from "../core/record.js";

type Fields = readonly (readonly [name: string, text: string])[];

interface Staged {
  readonly fields: Fields;
  readonly blobs: readonly Blob[];
  readonly refs: readonly Digest[];
  /** When a message was staged; it is told from the save's own time where they differ. */
  readonly at?: number;
  /** The state key it is about. */
  readonly key?: string;
  /** Whether it sets the key or unsets it; absent where it changes a list. */
  readonly sets?: boolean;
}

export interface Sections {
  readonly items: string[];
  readonly state: string[];
  readonly nMessages: number;
  readonly refs: readonly Digest[];
  readonly blobs: readonly Blob[];
}

export const MAX_STAGED = 100_000;
export const MAX_STAGED_BYTES = 256 * 1024 * 1024;

export class Staging {
  #items: Staged[] = [];
  #state: Staged[] = [];
  #messages = 0;
  #bytes = 0;
  /** Shared by the messages of this save; told its size when it is sealed. */
  row: Row = { bytes: 0 };

  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#state.length === 0;
  }

  /** How many items are staged: the next one's number is this far behind the last save. */
  get itemCount(): number {
    return this.#items.length;
  }

  /** Room for more, or an error before anything is staged. */
  reserve(records: number, bytes: number): void {
    if (this.#items.length + this.#state.length + records > MAX_STAGED) {
      throw new HoldfastError("TOO_LARGE", `More than ${MAX_STAGED} changes are staged. Checkpoint in between.`, { limit: MAX_STAGED });
    }
    if (this.#bytes + bytes > MAX_STAGED_BYTES) {
      throw new HoldfastError("TOO_LARGE", `More than ${MAX_STAGED_BYTES} bytes are staged. Checkpoint in between.`, {
        limit: MAX_STAGED_BYTES,
      });
    }
    this.#bytes += bytes;
  }

  /** A message at the end of the transcript, or at `index` with `remove` others taken out there. */
  message(message: EncodedMessage, at: number, splice?: readonly [start: number, remove: number]): Body {
    const { fields, blobs, body } = outOfRow(splice ? "item" : "append", message);
    const refs = [...blobs.map((blob) => blob.digest), ...blobsOf(message.value.content)];
    const place: Fields = splice ? [["splice", `[${splice[0]},${splice[1]}]`]] : [];
    this.#items.push({ fields: [...place, ...fields], blobs: [...blobs, ...message.blobs], refs, at });
    this.#messages += 1;
    return body;
  }

  removeMessages(start: number, remove: number): void {
    this.#items.push({ fields: [["splice", `[${start},${remove}]`]], blobs: [], refs: [] });
  }

  status(fields: Fields): void {
    this.#items.push({ fields, blobs: [], refs: [] });
  }

  set(key: string, value: Encoded): Body {
    const { fields, blobs, body } = outOfRow("value", value);
    const staged: Staged = {
      fields: [["set", JSON.stringify(key)], ...fields],
      blobs,
      refs: blobs.map((blob) => blob.digest),
      key,
      sets: true,
    };
    // In the place of an earlier one, so that keys come back in the order in which a live run sees them.
    const before = this.#state.findLastIndex((other) => other.key === key && other.sets !== undefined);
    if (this.#state[before]?.sets) {
      this.#state = [...this.#state.slice(0, before), staged, ...this.#state.slice(before + 1).filter((other) => other.key !== key)];
    } else this.#state.push(staged);
    return body;
  }

  unset(key: string): void {
    this.#state = this.#state.filter((staged) => staged.key !== key);
    this.#state.push({ fields: [["unset", JSON.stringify(key)]], blobs: [], refs: [], key, sets: false });
  }

  list(key: string, start: number, remove: number, items: Encoded): void {
    const { fields, blobs } = outOfRow("items", items);
    const place: Fields = [
      ["list", JSON.stringify(key)],
      ["splice", `[${start},${remove}]`],
    ];
    this.#state.push({ fields: [...place, ...fields], blobs, refs: blobs.map((blob) => blob.digest), key });
  }

  /** The sections of the save, and an empty staging from here on. */
  take(at: number): Sections {
    const texts = (staged: Staged): string => {
      const ago = staged.at === undefined ? 0 : at - staged.at;
      return record(ago === 0 ? staged.fields : [...staged.fields, ["ago", String(ago)]]);
    };
    const all = [...this.#items, ...this.#state];
    const sections = {
      items: this.#items.map(texts),
      state: this.#state.map(texts),
      nMessages: this.#messages,
      refs: [...new Set(all.flatMap(({ refs }) => refs))],
      blobs: all.flatMap(({ blobs }) => blobs),
    };
    this.#items = [];
    this.#state = [];
    this.#messages = 0;
    this.#bytes = 0;
    this.row = { bytes: 0 };
    return sections;
  }
}

/** A body in its record, or, when it is big, in a blob that the record names. */
function outOfRow(
  name: string,
  { text, bytes }: Encoded<unknown>,
): { readonly fields: Fields; readonly blobs: readonly Blob[]; readonly body: Body } {
  if (bytes < BLOB_FROM) return { fields: [[name, text]], blobs: [], body: { bytes, blob: undefined } };
  const content = Buffer.from(text);
  const blob = { digest: digest(content), bytes: content };
  return {
    fields: [
      [name, "null"],
      ["blob", `"${blob.digest}"`],
      ["size", String(bytes)],
    ],
    blobs: [blob],
    body: { bytes, blob: blob.digest },
  };
}
