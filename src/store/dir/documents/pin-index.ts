/**
 * Which places documents pin, by branch: an agent's snapshots pin a place of each of its sessions,
 * and those are asked for one by one.
 */
import { parsePlace } from "../../../core/values/ids.js";
import type { Pin } from "../../port/documents.js";
import type { FiledDoc } from "./doc-files.js";

type Pinning = Pick<FiledDoc, "no" | "pins">;

export class PinIndex {
  /** By branch, and then by the path of the document. */
  readonly #byBranch = new Map<string, Map<string, readonly Pin[]>>();

  of(branch: string): ReadonlyMap<string, readonly Pin[]> {
    return this.#byBranch.get(branch) ?? none;
  }

  /** Another document stands at a path, or none does. */
  exchange(path: string, before: Pinning | undefined, now: Pinning | undefined): void {
    if (before === now) return;
    for (const branch of byBranch(before).keys()) {
      const pins = this.#byBranch.get(branch);
      pins?.delete(path);
      if (pins?.size === 0) this.#byBranch.delete(branch);
    }
    for (const [branch, pins] of byBranch(now)) {
      const known = this.#byBranch.get(branch);
      if (known === undefined) this.#byBranch.set(branch, new Map([[path, pins]]));
      else known.set(path, pins);
    }
  }
}

/** What one document pins. */
export function byBranch(doc: Pinning | undefined): ReadonlyMap<string, readonly Pin[]> {
  const branches = new Map<string, Pin[]>();
  for (const pin of doc?.pins ?? []) {
    const place = parsePlace(pin);
    if (doc === undefined || place === undefined) continue;
    const found = { seq: place.seq, doc: doc.no };
    const known = branches.get(place.branch);
    if (known === undefined) branches.set(place.branch, [found]);
    else known.push(found);
  }
  return branches;
}

const none: ReadonlyMap<string, never> = new Map<string, never>();
