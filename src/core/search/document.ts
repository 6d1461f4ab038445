/**
 * What of a message can be found, and how it is divided.
 *
 * Its text and reasoning; its name; names, inputs and results of tool calls (texts and numbers in
 * their JSON); names of files, and what stands in text files. Not metadata, not what providers want
 * back, and not what is in opaque parts but for their text.
 *
 * A long message is several passages, each found by itself. A passage ends after `PASSAGE_WORDS`
 * words, and before any word would occur more than `MOST_REPEATS` times: indexes count no further
 * than that.
 */
import { type FileData, type MessageInput, type Part, partsOf } from "../messages/message.js";
import { clip } from "../messages/truncate.js";
import { type Digest, isDigest } from "../values/digest.js";
import type { Json } from "../values/json.js";
import { Splitter, type Words } from "./words.js";

export const PASSAGE_WORDS = 4096;
export const MOST_REPEATS = 255;
/** Of a message that is longer, the rest is not found. */
const MAX_TEXT_CHARS = 1_000_000;
/** A file that is longer is found by its name alone. */
const MAX_FILE_BYTES = 1_000_000;

/** The files in a message whose text is to be found, by the digests that they are kept under. */
export function textFilesIn(message: MessageInput): readonly Digest[] {
  if (typeof message.content === "string") return [];
  const found: Digest[] = [];
  const look = (parts: readonly Part[]): void => {
    for (const part of parts) {
      if (
        part.type === "file" &&
        isText(part.mediaType) &&
        "digest" in part.data &&
        part.data.sizeBytes <= MAX_FILE_BYTES
      )
        found.push(part.data.digest);
      if (part.type === "tool-result" && arePart(part.output)) look(part.output);
    }
  };
  look(message.content);
  return found;
}

/** `file` gives the text of those files. */
export function textIn(
  message: MessageInput,
  file: (digest: Digest) => string | undefined,
): string {
  if (typeof message.content === "string" && message.name === undefined)
    return clip(message.content, MAX_TEXT_CHARS);
  const texts = new Texts();
  if (message.name !== undefined) texts.add(message.name);
  ofParts(partsOf(message), file, texts);
  return texts.joined();
}

class Texts {
  readonly #texts: string[] = [];
  #chars = 0;

  get isFull(): boolean {
    return this.#chars >= MAX_TEXT_CHARS;
  }

  add(text: string): void {
    if (text === "" || this.isFull) return;
    this.#texts.push(clip(text, MAX_TEXT_CHARS - this.#chars));
    this.#chars += text.length + 1;
  }

  joined(): string {
    return this.#texts.join("\n");
  }
}

function ofParts(
  parts: readonly Part[],
  file: (digest: Digest) => string | undefined,
  texts: Texts,
): void {
  for (const part of parts) {
    switch (part.type) {
      case "text":
      case "reasoning":
        texts.add(part.text);
        break;
      case "tool-call":
        texts.add(part.name);
        ofJson(part.input, texts);
        break;
      case "tool-result":
        if (part.name !== undefined) texts.add(part.name);
        if (arePart(part.output)) ofParts(part.output, file, texts);
        else ofJson(part.output as Json, texts);
        break;
      case "file":
        if (part.name !== undefined) texts.add(part.name);
        ofFile(part.mediaType, part.data, file, texts);
        break;
      case "opaque":
        if (part.text !== undefined) texts.add(part.text);
        break;
    }
  }
}

function ofFile(
  mediaType: string,
  data: FileData,
  file: (digest: Digest) => string | undefined,
  texts: Texts,
): void {
  if ("text" in data) texts.add(data.text);
  else if ("digest" in data && isText(mediaType) && data.sizeBytes <= MAX_FILE_BYTES)
    texts.add(file(data.digest) ?? "");
}

/** Texts and numbers, in their order. */
function ofJson(value: Json, texts: Texts): void {
  if (texts.isFull) return;
  if (typeof value === "string") texts.add(value);
  else if (typeof value === "number") texts.add(String(value));
  else if (Array.isArray(value)) for (const item of value) ofJson(item, texts);
  else if (typeof value === "object" && value !== null)
    for (const item of Object.values(value)) ofJson(item as Json, texts);
}

/**
 * What a tool answered may be parts, and may only look like them: then its texts are found all the
 * same.
 */
const arePart = (output: unknown): output is readonly Part[] =>
  Array.isArray(output) && output.length > 0 && output.every((part) => isPart(part));

function isPart(part: unknown): boolean {
  if (typeof part !== "object" || part === null) return false;
  const { type, text, mediaType, data } = part as Readonly<Record<string, unknown>>;
  if (type === "text") return typeof text === "string";
  if (type !== "file" || typeof mediaType !== "string" || typeof data !== "object" || data === null)
    return false;
  const { digest, sizeBytes, text: own } = data as Readonly<Record<string, unknown>>;
  return (
    (own === undefined || typeof own === "string") &&
    (digest === undefined || (isDigest(digest) && typeof sizeBytes === "number"))
  );
}

const isText = (mediaType: string): boolean =>
  /^(text\/|application\/(json|xml|yaml|x-yaml|javascript|toml)\b)/i.test(mediaType);

/** The passages of a text, one after another; none where it holds no words. */
export function* passagesOf(text: string): Generator<Words> {
  const splitter = new Splitter(text);
  for (let more = true; more || splitter.count > 0; ) {
    more = more && splitter.upTo(PASSAGE_WORDS);
    if (splitter.count > 0) yield splitter.take(lengthOf(splitter.words));
  }
}

/** How many of these words, from the first on, are one passage. */
function lengthOf(words: readonly string[]): number {
  const most = Math.min(words.length, PASSAGE_WORDS);
  if (most <= MOST_REPEATS) return most;
  const repeats = new Map<string, number>();
  for (let i = 0; i < most; i++) {
    const word = words[i] as string;
    const often = (repeats.get(word) ?? 0) + 1;
    if (often > MOST_REPEATS) return i;
    repeats.set(word, often);
  }
  return most;
}
