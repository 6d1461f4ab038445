/**
 * The checksum in an AetherShell checkpoint: of the text of its agent and conversations as they
 * were written, without whitespace. It cannot be had from the values: 1.0 would be 1, and keys
 * would stand in another order.
 */
import { createHash } from "node:crypto";
import { compacted } from "../../core/values/lossless-json.js";
import type { Document } from "../reading/documents.js";
import { textAt } from "../reading/fields.js";

/** By the length of the text that it gives. */
const ALGORITHMS: ReadonlyMap<number, string> = new Map([
  [32, "md5"],
  [64, "sha256"],
]);

export function checkChecksum({ text, spans, value }: Document): "matches" | "differs" | "unknown" {
  const said = textAt(value, "checksum") ?? "";
  const algorithm = ALGORITHMS.get(said.length);
  const agent = spans.get("agent_state");
  const conversations = spans.get("conversations");
  if (algorithm === undefined || agent === undefined || conversations === undefined)
    return "unknown";
  const hash = hashOf(algorithm);
  if (hash === undefined) return "unknown";
  hash.update("[");
  for (const piece of compacted(text, agent)) hash.update(piece);
  hash.update(",");
  for (const piece of compacted(text, conversations)) hash.update(piece);
  return hash.update("]").digest("hex") === said.toLowerCase() ? "matches" : "differs";
}

/** Some builds of OpenSSL have no MD5. */
function hashOf(algorithm: string): ReturnType<typeof createHash> | undefined {
  try {
    return createHash(algorithm);
  } catch {
    return undefined;
  }
}
