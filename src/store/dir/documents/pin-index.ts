/**
 * Which places documents pin, by line: an agent's snapshots pin a place of each of its sessions,
 * and those are asked for one by one.
 */
import { parsePlace } from "../../../core/values/ids.js";
import type { Pin } from "../../port/documents.js";
import type { FiledDoc } from "./doc-files.js";

type Pinning = Pick<FiledDoc, "no" | "pins">;

export class PinIndex {
  /** By line, and then by the path of the document. */
  readonly #byLine = new Map<string, Map<string, readonly Pin[]>>();

  of(line: string): ReadonlyMap<string, readonly Pin[]> {
    return this.#byLine.get(line) ?? none;
  }

  /** Another document stands at a path, or none does. */
  exchange(path: string, before: Pinning | undefined, now: Pinning | undefined): void {
    if (before === now) return;
    for (const line of byLine(before).keys()) {
      const pins = this.#byLine.get(line);
      pins?.delete(path);
      if (pins?.size === 0) this.#byLine.delete(line);
    }
    for (const [line, pins] of byLine(now)) {
      const known = this.#byLine.get(line);
      if (known === undefined) this.#byLine.set(line, new Map([[path, pins]]));
      else known.set(path, pins);
    }
  }
}

/** What one document pins. */
export function byLine(doc: Pinning | undefined): ReadonlyMap<string, readonly Pin[]> {
  const lines = new Map<string, Pin[]>();
  for (const pin of doc?.pins ?? []) {
    const place = parsePlace(pin);
    if (doc === undefined || place === undefined) continue;
    const found = { seq: place.seq, doc: doc.no };
    const known = lines.get(place.line);
    if (known === undefined) lines.set(place.line, [found]);
    else known.push(found);
  }
  return lines;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();
