/**
 * What has been staged since the last save: records already checked and encoded, waiting for a number and a seal.
 *
 * Items come first in a save, so the number of a staged message is known at once: live code sees the id that a resumed run will see.
 * This is the hot path of every save: texts are put together once, and nothing is made that most saves do not need.
 */
import type { CourseRecord } from "../core/course.js";
import { type Digest, digest } from "../core/digest.js";
import type { Body as CourseBody } from "../core/effect.js";
import { HoldfastError } from "../core/errors.js";
import type { Body, Row } from "../core/fold.js";
import type { Encoded } from "../core/json.js";
import { type Blob, blobsOf, type EncodedMessage } from "../core/message.js";
import { BLOB_FROM } from "../core/record.js";
import { costOf } from "../core/usage.js";

interface Staged {
  /** The record without its closing brace. */
  readonly text: string;
  blobs: readonly Blob[];
  /** The blob that holds its body. */
  readonly body?: Digest;
  /** The files its message names, as far as they are known to be kept. */
  files?: readonly Digest[];
  /** When a message was staged; it is told from the save's own time where they differ. */
  readonly at?: number;
  /** The state key it is about. */
  readonly key?: string;
  /** Whether it sets the key or unsets it; absent where it changes a list. */
  readonly sets?: boolean;
}

export interface Sections {
  readonly items: readonly string[];
  readonly state: string[];
  readonly nMessages: number;
  readonly refs: readonly Digest[];
  readonly blobs: readonly Blob[];
  /** Every item is as many bytes as characters. */
  readonly ascii: boolean;
}

const MAX_STAGED = 100_000;
const MAX_STAGED_BYTES = 256 * 1024 * 1024;

const none: readonly never[] = [];

export class Staging {
  #items: Staged[] = [];
  #state: Staged[] = [];
  #messages = 0;
  #bytes = 0;
  #ascii = true;
  #namesFiles = false;
  /** Shared by the messages of this save; told its size when it is sealed. */
  row: Row = { bytes: 0 };

  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#state.length === 0;
  }

  /** How many items are staged: the next one's number is this far behind the last save. */
  get itemCount(): number {
    return this.#items.length;
  }

  /** Files that staged messages name without bringing them. */
  foreignFiles(): readonly Digest[] {
    if (!this.#namesFiles) return none;
    return this.#items.flatMap(({ files = none, blobs }) => files.filter((name) => !blobs.some((blob) => blob.digest === name)));
  }

  /** Sends a file along with the messages that name it. */
  brings(file: Blob): void {
    for (const staged of this.#items)
      if (staged.files?.includes(file.digest) && !staged.blobs.includes(file)) staged.blobs = [...staged.blobs, file];
  }

  /** Takes back that a file is kept: a tool answered something that only looks like one. */
  notAFile(name: Digest): void {
    for (const staged of this.#items) if (staged.files?.includes(name)) staged.files = staged.files.filter((file) => file !== name);
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

  /** A message at the end of the transcript, or at a place in it with others taken out there. */
  message(message: EncodedMessage, at: number, splice?: readonly [start: number, remove: number]): Body {
    const start = splice === undefined ? '{"append":' : `{"splice":[${splice[0]},${splice[1]}],"item":`;
    const found = typeof message.value.content === "string" ? none : blobsOf(message.value.content);
    const files = found.length === 0 ? undefined : { files: found };
    if (files !== undefined) this.#namesFiles = true;
    this.#messages += 1;
    if (message.text.length !== message.bytes) this.#ascii = false;
    if (message.bytes < BLOB_FROM) {
      this.#items.push({ text: start + message.text, blobs: message.blobs, at, ...files });
      return { bytes: message.bytes, blob: undefined };
    }
    const blob = blobOf(message);
    const cost = costOf(message.value);
    const text = `${start}${inBlob(blob, message)}${cost === undefined ? "" : `,"cost":${JSON.stringify(cost)}`}`;
    this.#items.push({ text, blobs: [blob, ...message.blobs], body: blob.digest, at, ...files });
    return { bytes: message.bytes, blob: blob.digest };
  }

  removeMessages(start: number, remove: number): void {
    this.#items.push({ text: `{"splice":[${start},${remove}]`, blobs: none });
  }

  status(status: string, reason: string | undefined, output: string | undefined): void {
    if (reason !== undefined || output !== undefined) this.#ascii = false;
    const why = reason === undefined ? "" : `,"reason":${JSON.stringify(reason)}`;
    this.#items.push({ text: `{"status":"${status}"${why}${output === undefined ? "" : `,"output":${output}`}`, blobs: none });
  }

  set(key: string, value: Encoded): Body {
    const { staged, body } = outOfRow(`{"set":${JSON.stringify(key)},"value":`, value, { key, sets: true });
    // In the place of an earlier one, so that keys come back in the order in which a live run sees them.
    const before = this.#state.findLastIndex((other) => other.key === key && other.sets !== undefined);
    if (this.#state[before]?.sets) {
      this.#state = [...this.#state.slice(0, before), staged, ...this.#state.slice(before + 1).filter((other) => other.key !== key)];
    } else this.#state.push(staged);
    return body;
  }

  unset(key: string): void {
    this.#state = this.#state.filter((staged) => staged.key !== key);
    this.#state.push({ text: `{"unset":${JSON.stringify(key)}`, blobs: none, key, sets: false });
  }

  list(key: string, start: number, remove: number, items: Encoded): void {
    this.#state.push(outOfRow(`{"list":${JSON.stringify(key)},"splice":[${start},${remove}],"items":`, items, { key }).staged);
  }

  /** A record of the course, with what it has to carry. */
  course(record: CourseRecord, body: Encoded | undefined, at: number): CourseBody | undefined {
    const text = JSON.stringify(record).slice(0, -1);
    if (body === undefined) {
      this.#state.push({ text, blobs: none, at });
      return undefined;
    }
    if (body.bytes < BLOB_FROM) {
      this.#state.push({ text: `${text},"body":${body.text}`, blobs: none, at });
      return { value: body.value };
    }
    const blob = blobOf(body);
    this.#state.push({ text: `${text},"blob":"${blob.digest}","size":${body.bytes}`, blobs: [blob], body: blob.digest, at });
    return { blob: blob.digest, size: body.bytes };
  }

  /** What the model is given before the transcript, as a blob of its own, however small. */
  prefix(prefix: Encoded, since: number): Digest {
    const blob = blobOf(prefix);
    this.#state.push({ text: `{"prefix":"${blob.digest}","since":${since}`, blobs: [blob], body: blob.digest });
    return blob.digest;
  }

  /** The sections of the save, and an empty staging from here on. */
  take(at: number): Sections {
    const refs: Digest[] = [];
    const blobs: Blob[] = [];
    const texts = (section: readonly Staged[]): string[] =>
      section.map((staged) => {
        if (staged.body !== undefined) refs.push(staged.body);
        if (staged.blobs.length > 0) blobs.push(...staged.blobs);
        let { text } = staged;
        if (staged.files !== undefined && staged.files.length > 0) {
          refs.push(...staged.files);
          text += `,"files":${JSON.stringify(staged.files)}`;
        }
        return staged.at === undefined || staged.at === at ? `${text}}` : `${text},"ago":${at - staged.at}}`;
      });
    const sections = { items: texts(this.#items), state: texts(this.#state), nMessages: this.#messages, refs, blobs, ascii: this.#ascii };
    this.#items = [];
    this.#state = [];
    this.#messages = 0;
    this.#bytes = 0;
    this.#ascii = true;
    this.#namesFiles = false;
    this.row = { bytes: 0 };
    return sections;
  }
}

function blobOf({ text }: { readonly text: string }): Blob {
  const bytes = Buffer.from(text);
  return { digest: digest(bytes), bytes };
}

const inBlob = (blob: Blob, { bytes }: { readonly bytes: number }): string => `null,"blob":"${blob.digest}","size":${bytes}`;

/** A body in its record, or, when it is big, in a blob that the record names. */
function outOfRow(
  start: string,
  value: Encoded,
  about: { readonly key: string; readonly sets?: boolean },
): { readonly staged: Staged; readonly body: Body } {
  if (value.bytes < BLOB_FROM) {
    return { staged: { text: start + value.text, blobs: none, ...about }, body: { bytes: value.bytes, blob: undefined } };
  }
  const blob = blobOf(value);
  return {
    staged: { text: start + inBlob(blob, value), blobs: [blob], body: blob.digest, ...about },
    body: { bytes: value.bytes, blob: blob.digest },
  };
}
