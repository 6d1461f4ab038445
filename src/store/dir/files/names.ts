/**
 * Names of files and directories, made from ids that may be any text.
 *
 * NAME-1  two ids never have one name, nor two names that differ only by case: not every file
 *         system tells those apart.
 * NAME-2  a name is one component of a path and nothing else: no separator, no dot at its ends, no
 *         device of Windows.
 * NAME-3  an id that is a good name already is its own, so that people find what they look for.
 */
import { hash } from "node:crypto";

const PLAIN = /^[a-z0-9_-](?:[a-z0-9._-]{0,98}[a-z0-9_-])?$/;
const DEVICE = /^(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\.|$)/;
const SLUG_CHARS = 60;
const HASH_CHARS = 20;

export function nameOf(id: string): string {
  if (PLAIN.test(id) && !DEVICE.test(id)) return id;
  // "~" never stands in a plain name: the two kinds cannot meet.
  return `${slugOf(id)}~${hash("sha256", id, "hex").slice(0, HASH_CHARS)}`;
}

const HASHED = /^[a-z0-9_-]*~[0-9a-f]{20}$/;

/** Whether something is called as a session's directory may be. */
export const isName = (name: string): boolean => nameOf(name) === name || HASHED.test(name);

const slugOf = (id: string): string =>
  id
    .slice(0, SLUG_CHARS)
    .toLowerCase()
    .replace(/[^a-z0-9_-]+/g, "-")
    .slice(0, SLUG_CHARS);

/**
 * Where a session's directory stands, below the store's: spread over 256, because some systems are
 * slow with very many in one.
 */
export const sessionPath = (id: string): string => pathOfName(nameOf(id));

/** The same for its name, which is the id, or ends with what its hash begins with. */
export const pathOfName = (name: string): string =>
  `sessions/${(name.split("~")[1] ?? hash("sha256", name, "hex")).slice(0, 2)}/${name}`;

/** A blob's place. Hex, because digests in base64url may differ only by case. */
export function blobPath(digest: string): string {
  const hex = Buffer.from(digest, "base64url").toString("hex");
  return `blobs/${hex.slice(0, 2)}/${hex}`;
}

export const digestOfBlobName = (name: string): string | undefined =>
  /^[0-9a-f]{64}$/.test(name) ? Buffer.from(name, "hex").toString("base64url") : undefined;
