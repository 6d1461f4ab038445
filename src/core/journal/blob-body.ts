/**
 * Bodies that are kept as blobs: the JSON text of a message or a value, under its digest. A digest
 * says nothing about what is in it.
 */
import { inFlightBodies } from "../effects/in-flight.js";
import { blobsOf, isStoredMessage, type MessageInput } from "../messages/message.js";
import { type Digest, isDigest } from "../values/digest.js";
import { HoldfastError } from "../values/errors.js";
import {
  holdsHalf,
  isDeeper,
  type Json,
  MAX_DEPTH,
  MAX_VALUE_BYTES,
  parseStored,
} from "../values/json.js";
import type { JournalRecord } from "./record.js";

const unfit = (name: Digest, cause?: unknown): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The blob ${name} is whole, and is not what its record takes it for.`,
    { found: name },
    cause,
  );

export const jsonIn = (text: string, name: Digest): Json =>
  parseStored(text, (cause) => unfit(name, cause)) as Json;

export function listIn(text: string, name: Digest): readonly Json[] {
  const list = jsonIn(text, name);
  if (!Array.isArray(list)) throw unfit(name);
  return list;
}

export function messageIn(text: string, name: Digest): MessageInput {
  const message: unknown = jsonIn(text, name);
  if (!isStoredMessage(message)) throw unfit(name);
  return message;
}

/** What a blob can stand for. */
export interface KnownBlob {
  readonly bytes: number;
  readonly is: "message" | "list" | "json" | "bytes";
  /** The files that a message names. */
  readonly files: readonly NamedFile[];
}

interface NamedFile {
  readonly digest: Digest;
  readonly sizeBytes: number;
  /** What a tool answered may only look like a file. */
  readonly isSure: boolean;
}

const JSON_STARTS: ReadonlySet<number | undefined> = new Set(
  Array.from('{["-0123456789tfn', (first) => first.charCodeAt(0)),
);

const NO_FILES: readonly NamedFile[] = [];
const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Look at a blob once: a later record that refers to it need not read it again. */
export function knowBlob(bytes: Uint8Array): KnownBlob {
  const plain = { bytes: bytes.length, is: "bytes", files: NO_FILES } as const;
  if (bytes.length > MAX_VALUE_BYTES || !JSON_STARTS.has(bytes[0])) return plain;
  let text: string;
  let value: unknown;
  try {
    text = UTF8.decode(bytes);
    value = JSON.parse(text);
  } catch {
    return plain;
  }
  // Written otherwise than `encode` writes it, it is a file that happens to be JSON.
  if (isDeeper(value, MAX_DEPTH) || JSON.stringify(value) !== text || holdsHalf(text)) return plain;
  if (Array.isArray(value)) return { ...plain, is: "list" };
  return isStoredMessage(value)
    ? { ...plain, is: "message", files: filesIn(value) }
    : { ...plain, is: "json" };
}

function filesIn({ content }: MessageInput): readonly NamedFile[] {
  if (typeof content === "string") return NO_FILES;
  const sure = content.flatMap((part) =>
    part.type === "file" && "digest" in part.data && isDigest(part.data.digest)
      ? [{ ...part.data, isSure: true }]
      : [],
  );
  const nested = content.flatMap((part) =>
    part.type === "tool-result" ? blobsOf(part.output as Json) : [],
  );
  return [...sure, ...nested.map((digest) => ({ digest, sizeBytes: -1, isSure: false }))];
}

/**
 * Throws where a record takes a blob for what it is not, or names a file that does not come with
 * it.
 */
export function checkBodies(
  record: JournalRecord,
  known: (name: Digest) => KnownBlob | undefined,
): void {
  const { append, item, list, blob, size, prefix, base } = record;
  const isMessage = append !== undefined || item !== undefined;
  const body = (name: Digest, bytes: number, is: readonly KnownBlob["is"][] = JSON_KINDS) => {
    const found = known(name);
    if (found === undefined || found.bytes !== bytes || !is.includes(found.is)) throw unfit(name);
  };
  if (blob !== undefined)
    body(
      blob,
      size as number,
      isMessage ? ["message"] : list === undefined ? JSON_KINDS : ["list"],
    );
  if (prefix !== undefined) body(prefix, known(prefix)?.bytes ?? 0, ["json"]);
  for (const [, , name, bytes] of base?.state ?? [])
    if (name !== undefined) body(name, bytes as number);
  for (const kept of base?.inFlight === undefined ? [] : inFlightBodies(base.inFlight))
    if ("blob" in kept) body(kept.blob, kept.size);
  if (base?.inFlight?.prefix !== undefined)
    body(base.inFlight.prefix, known(base.inFlight.prefix)?.bytes ?? 0, ["json"]);
  if (isMessage) checkFiles(record, known);
}

const JSON_KINDS: readonly KnownBlob["is"][] = ["message", "list", "json"];

function checkFiles(
  { append, item, blob, files = [] }: JournalRecord,
  known: (name: Digest) => KnownBlob | undefined,
): void {
  const named =
    blob === undefined ? filesIn((append ?? item) as MessageInput) : (known(blob)?.files ?? []);
  for (const name of files) if (!named.some((file) => file.digest === name)) throw unfit(name);
  for (const { digest, sizeBytes, isSure } of named)
    if (isSure && (!files.includes(digest) || known(digest)?.bytes !== sizeBytes))
      throw unfit(digest);
}
