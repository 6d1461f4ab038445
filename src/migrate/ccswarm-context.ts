/** The context of a ccswarm checkpoint: bytes as a list of numbers, which a flag may call compressed. */
import * as zlib from "node:zlib";
import type { Json, JsonObject } from "../index.js";

/** What is unpacked may be this large; a few bytes can say that they are a terabyte. */
const MAX_UNPACKED = 64 * 1024 * 1024;

/** Text where it is UTF-8, else base64; undefined where there is none. */
export function contextOf(given: Json | undefined, isCompressed: boolean, note: (what: string) => void): JsonObject | undefined {
  if (given === undefined || given === null) return undefined;
  const bytes = bytesIn(given);
  if (bytes === undefined) {
    note("Its context is no list of bytes: kept as it stands.");
    return { value: given };
  }
  if (!isCompressed) return shown(bytes);
  const unpacked = unpack(bytes);
  if (unpacked !== undefined) return { ...shown(unpacked.bytes), compressed: unpacked.how };
  note("Its context is said to be compressed and cannot be unpacked (zstd, gzip and zlib were tried): its bytes are kept as they are.");
  return { ...shown(bytes), compressed: "unknown" };
}

function bytesIn(given: Json): Uint8Array | undefined {
  if (!Array.isArray(given)) return undefined;
  const bytes = new Uint8Array(given.length);
  for (const [i, byte] of (given as readonly Json[]).entries()) {
    if (typeof byte !== "number" || !Number.isInteger(byte) || byte < 0 || byte > 255) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}

function shown(bytes: Uint8Array): JsonObject {
  const text = Buffer.from(bytes).toString("utf8");
  return Buffer.from(text).equals(bytes) ? { text } : { base64: Buffer.from(bytes).toString("base64") };
}

type Unpack = (bytes: Uint8Array, options: { readonly maxOutputLength: number }) => Uint8Array;
/** Only newer versions of Node have it. */
const zstd = (zlib as unknown as { readonly zstdDecompressSync?: Unpack }).zstdDecompressSync;

function unpack(bytes: Uint8Array): { readonly bytes: Uint8Array; readonly how: string } | undefined {
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
