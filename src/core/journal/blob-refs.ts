/**
 * Which blobs a record refers to: its own body, the files of its message, and the big values a base
 * names.
 */
import { inFlightRefs } from "../effects/in-flight.js";
import type { Digest } from "../values/digest.js";
import { open } from "./open-save.js";
import type { Base, JournalRecord } from "./record.js";
import type { Save } from "./save.js";

export function refsOf(record: JournalRecord): readonly Digest[] {
  const refs: Digest[] = [];
  if (record.blob !== undefined) refs.push(record.blob);
  if (record.files !== undefined) refs.push(...record.files);
  if (record.prefix !== undefined) refs.push(record.prefix);
  if (record.base !== undefined) refs.push(...baseRefs(record.base));
  return refs;
}

export const baseRefs = ({ state, inFlight }: Base): readonly Digest[] => [
  ...state.flatMap(([, , blob]) => blob ?? []),
  ...(inFlight === undefined ? [] : inFlightRefs(inFlight)),
];

/** The blobs that what is left of a save refers to. */
export function refsIn(save: Save): readonly Digest[] {
  const { items, state } = open(save, { items: save.items !== null, state: save.state !== null });
  return [...items, ...state].flatMap(refsOf);
}
