/**
 * The context of a ccswarm checkpoint: bytes as a list of numbers, which a flag may call
 * compressed.
 */
import * as zlib from "node:zlib";
import type { Json, JsonObject } from "../../index.js";

/** What is unpacked may be this large; a few bytes can say that they are a terabyte. */
const MAX_UNPACKED = 64 * 1024 * 1024;

/**
 * A context grows from one checkpoint to the next, and of a list only what is new is stored. Of
 * base64, whole groups of four.
 */
const PIECE = 1_024;

/**
 * The keys of a state that hold it: `context` is text in pieces, which are one text when they are
 * joined. What else it is, where it is no plain UTF-8, says `contextFormat`: pieces of base64,
 * unpacked, or a value that is no bytes. None where there is no context.
 */
export function contextOf(
  given: Json | undefined,
  isCompressed: boolean,
  note: (what: string) => void,
): JsonObject {
  if (given === undefined || given === null) return {};
  const bytes = bytesIn(given);
  if (bytes === undefined) {
    note("Its context is no list of bytes: kept as it stands.");
    return { context: given, contextFormat: { encoding: "none" } };
  }
  if (!isCompressed) return shown(bytes);
  const unpacked = unpack(bytes);
  if (unpacked !== undefined) return shown(unpacked.bytes, { compressed: unpacked.how });
  note(
    "Its context is said to be compressed and cannot be unpacked (zstd, gzip and zlib were tried): its bytes are kept as they are.",
  );
  return shown(bytes, { compressed: "unknown" });
}

function bytesIn(given: Json): Uint8Array | undefined {
  if (!Array.isArray(given)) return undefined;
  const bytes = new Uint8Array(given.length);
  for (const [i, byte] of (given as readonly Json[]).entries()) {
    if (typeof byte !== "number" || !Number.isInteger(byte) || byte < 0 || byte > 255)
      return undefined;
    bytes[i] = byte;
  }
  return bytes;
}

function shown(bytes: Uint8Array, more: JsonObject = {}): JsonObject {
  const text = Buffer.from(bytes).toString("utf8");
  const isText = Buffer.from(text).equals(bytes);
  const format = isText ? more : { encoding: "base64", ...more };
  const context = inPieces(isText ? text : Buffer.from(bytes).toString("base64"));
  return { context, ...(Object.keys(format).length > 0 && { contextFormat: format }) };
}

function inPieces(text: string): readonly string[] {
  const pieces: string[] = [];
  for (let from = 0; from < text.length; ) {
    // Not between the halves of a character.
    const isWhole = text.slice(from, from + PIECE).isWellFormed();
    const to = from + (isWhole ? PIECE : PIECE + 1);
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}

type Unpack = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array;
/** Only newer versions of Node have it. */
const zstd = (zlib as unknown as { readonly zstdDecompressSync?: Unpack }).zstdDecompressSync;

function unpack(
  bytes: Uint8Array,
): { readonly bytes: Uint8Array; readonly how: string } | undefined {
  const [first = 0, second = 0] = bytes;
  const ways: (readonly [how: string, fits: boolean, unpack: Unpack | undefined])[] = [
    ["zstd", first === 0x28 && second === 0xb5, zstd],
    ["gzip", first === 0x1f && second === 0x8b, zlib.gunzipSync],
    ["zlib", (first & 15) === 8 && ((first << 8) | second) % 31 === 0, zlib.inflateSync],
  ];
  for (const [how, fits, run] of ways) {
    if (!fits || run === undefined) continue;
    try {
      return { bytes: run(bytes, { maxOutputLength: MAX_UNPACKED }), how };
    } catch {
      // Not that, or too large.
    }
  }
  return undefined;
}
