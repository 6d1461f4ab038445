/**
 * Numbers that are given out and taken back, and that say nothing meanwhile: sessions and documents
 * of all tenants are counted together, and a tenant's cursor would tell how many there are.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";

const CIPHER = "aes-128-ecb";
/** One block of the cipher, in base64url. */
const SEALED_CHARS = 22;
const SEALED = new RegExp(`^[A-Za-z0-9_-]{${SEALED_CHARS}}$`);

const keyOf = (key: string): Buffer =>
  createHash("sha256").update(`sealed number\0${key}`).digest().subarray(0, 16);

/**
 * Seal a number. `list` tells apart what is sealed for one list from what is sealed for another.
 */
export function sealNumber(no: number, list: string, key: string): string {
  const block = Buffer.alloc(16);
  block.writeBigUInt64BE(BigInt(no));
  block.write(list, 8);
  const cipher = createCipheriv(CIPHER, keyOf(key), null).setAutoPadding(false);
  return Buffer.concat([cipher.update(block), cipher.final()]).toString("base64url");
}

/** Open a sealed number. Undefined: it was not sealed for this list with this key. */
export function openNumber(sealed: string, list: string, key: string): number | undefined {
  if (!SEALED.test(sealed)) return undefined;
  const cipher = createDecipheriv(CIPHER, keyOf(key), null).setAutoPadding(false);
  const block = Buffer.concat([cipher.update(Buffer.from(sealed, "base64url")), cipher.final()]);
  const no = Number(block.readBigUInt64BE());
  return Number.isSafeInteger(no) && sealNumber(no, list, key) === sealed ? no : undefined;
}
