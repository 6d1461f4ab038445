/**
 * What has been staged since the last save: records already checked and encoded, waiting for a
 * number and a seal.
 *
 * Items come first in a save, so the number of a staged message is known at once: live code sees
 * the id that a resumed run will see. This is the hot path of every save: texts are put together
 * once, and nothing is made that most saves do not need.
 */

import type { Body as InFlightBody } from "../../core/effects/effect.js";
import type { InFlightRecord } from "../../core/effects/in-flight.js";
import { BLOB_FROM } from "../../core/journal/record.js";
import type { Body, Row } from "../../core/journal/session-state.js";
import { type Blob, blobsOf, type EncodedMessage } from "../../core/messages/message.js";
import { costOf } from "../../core/messages/usage.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { Encoded } from "../../core/values/json.js";

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
  /**
   * In the order in which they are written. What sets or unsets a key stands under a name made of
   * it: a later one takes its place, so that keys come back in the order in which a live run sees
   * them. All others stand under a number.
   */
  #state = new Map<string | number, Staged>();
  #next = 0;
  /** The numbers of changes of the list under a key, since it was last set here. */
  #lists = new Map<string, number[]>();
  #messages = 0;
  #bytes = 0;
  #ascii = true;
  #namesFiles = false;
  /** Shared by the messages of this save; told its size when it is sealed. */
  row: Row = { bytes: 0 };

  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#state.size === 0;
  }

  /** How many items are staged: the next one's number is this far behind the last save. */
  get itemCount(): number {
    return this.#items.length;
  }

  /** Files that staged messages name without bringing them. */
  foreignFiles(): readonly Digest[] {
    if (!this.#namesFiles) return none;
    return this.#items.flatMap(({ files = none, blobs }) =>
      files.filter((name) => !blobs.some((blob) => blob.digest === name)),
    );
  }

  /** Sends a file along with the messages that name it. */
  brings(file: Blob): void {
    for (const staged of this.#items)
      if (staged.files?.includes(file.digest) && !staged.blobs.includes(file))
        staged.blobs = [...staged.blobs, file];
  }

  /** Takes back that a file is kept: a tool answered something that only looks like one. */
  notAFile(name: Digest): void {
    for (const staged of this.#items)
      if (staged.files?.includes(name)) staged.files = staged.files.filter((file) => file !== name);
  }

  /** Room for more, or an error before anything is staged. */
  reserve(records: number, bytes: number): void {
    if (this.#items.length + this.#state.size + records > MAX_STAGED) {
      throw new HoldfastError(
        "TOO_LARGE",
        `More than ${MAX_STAGED} changes are staged. Checkpoint in between.`,
        { limit: MAX_STAGED },
      );
    }
    if (this.#bytes + bytes > MAX_STAGED_BYTES) {
      throw new HoldfastError(
        "TOO_LARGE",
        `More than ${MAX_STAGED_BYTES} bytes are staged. Checkpoint in between.`,
        {
          limit: MAX_STAGED_BYTES,
        },
      );
    }
    this.#bytes += bytes;
  }

  /** A message at the end of the transcript, or at a place in it with others taken out there. */
  message(
    message: EncodedMessage,
    at: number,
    splice?: readonly [start: number, remove: number],
  ): Body {
    const start =
      splice === undefined ? '{"append":' : `{"splice":[${splice[0]},${splice[1]}],"item":`;
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
    this.#items.push({
      text: `{"status":"${status}"${why}${output === undefined ? "" : `,"output":${output}`}`,
      blobs: none,
    });
  }

  set(key: string, value: Encoded): Body {
    const { staged, body } = outOfRow(`{"set":${JSON.stringify(key)},"value":`, value);
    const name = `set ${key}`;
    if (this.#state.has(name)) this.#dropLists(key);
    else this.#lists.delete(key);
    this.#state.set(name, staged);
    return body;
  }

  unset(key: string): void {
    this.#dropLists(key);
    this.#state.delete(`set ${key}`);
    // Behind all others, though it was there before.
    this.#state.delete(`unset ${key}`);
    this.#state.set(`unset ${key}`, { text: `{"unset":${JSON.stringify(key)}`, blobs: none });
  }

  /** Changes of a list that is set or unset behind them change nothing. */
  #dropLists(key: string): void {
    for (const at of this.#lists.get(key) ?? none) this.#state.delete(at);
    this.#lists.delete(key);
  }

  list(key: string, start: number, remove: number, items: Encoded): void {
    const at = this.#push(
      outOfRow(`{"list":${JSON.stringify(key)},"splice":[${start},${remove}],"items":`, items)
        .staged,
    );
    const others = this.#lists.get(key);
    if (others === undefined) this.#lists.set(key, [at]);
    else others.push(at);
  }

  #push(staged: Staged): number {
    this.#next += 1;
    this.#state.set(this.#next, staged);
    return this.#next;
  }

  /** A record of the in-flight work, with what it has to carry. */
  inFlight(
    record: InFlightRecord,
    body: Encoded | undefined,
    at: number,
  ): InFlightBody | undefined {
    const text = JSON.stringify(record).slice(0, -1);
    if (body === undefined) {
      this.#push({ text, blobs: none, at });
      return undefined;
    }
    if (body.bytes < BLOB_FROM) {
      this.#push({ text: `${text},"body":${body.text}`, blobs: none, at });
      return { value: body.value };
    }
    const blob = blobOf(body);
    this.#push({
      text: `${text},"blob":"${blob.digest}","size":${body.bytes}`,
      blobs: [blob],
      body: blob.digest,
      at,
    });
    return { blob: blob.digest, size: body.bytes };
  }

  /** What the model is given before the transcript, as a blob of its own, however small. */
  prefix(prefix: Encoded, since: number): Digest {
    const blob = blobOf(prefix);
    this.#push({
      text: `{"prefix":"${blob.digest}","since":${since}`,
      blobs: [blob],
      body: blob.digest,
    });
    return blob.digest;
  }

  /** The sections of the save, and an empty staging from here on. */
  take(at: number): Sections {
    const refs: Digest[] = [];
    const blobs: Blob[] = [];
    const texts = (section: Iterable<Staged>): string[] =>
      Array.from(section, (staged) => {
        if (staged.body !== undefined) refs.push(staged.body);
        if (staged.blobs.length > 0) blobs.push(...staged.blobs);
        let { text } = staged;
        if (staged.files !== undefined && staged.files.length > 0) {
          refs.push(...staged.files);
          text += `,"files":${JSON.stringify(staged.files)}`;
        }
        return staged.at === undefined || staged.at === at
          ? `${text}}`
          : `${text},"ago":${at - staged.at}}`;
      });
    const sections = {
      items: texts(this.#items),
      state: texts(this.#state.values()),
      nMessages: this.#messages,
      refs,
      blobs,
      ascii: this.#ascii,
    };
    this.#items = [];
    this.#state = new Map();
    this.#next = 0;
    this.#lists = new Map();
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

const inBlob = (blob: Blob, { bytes }: { readonly bytes: number }): string =>
  `null,"blob":"${blob.digest}","size":${bytes}`;

/** A body in its record, or, when it is big, in a blob that the record names. */
function outOfRow(start: string, value: Encoded): { readonly staged: Staged; readonly body: Body } {
  if (value.bytes < BLOB_FROM) {
    return {
      staged: { text: start + value.text, blobs: none },
      body: { bytes: value.bytes, blob: undefined },
    };
  }
  const blob = blobOf(value);
  return {
    staged: { text: start + inBlob(blob, value), blobs: [blob], body: blob.digest },
    body: { bytes: value.bytes, blob: blob.digest },
  };
}
