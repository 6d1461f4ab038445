/** Which blobs a record refers to: its own body, the files of its message, and the big values a base names. */
import type { Digest } from "./digest.js";
import type { JournalRecord } from "./record.js";

export function refsOf(record: JournalRecord): readonly Digest[] {
  const refs: Digest[] = [];
  if (record.blob !== undefined) refs.push(record.blob);
  if (record.files !== undefined) refs.push(...record.files);
  for (const [, , blob] of record.base?.state ?? []) if (blob !== undefined) refs.push(blob);
  return refs;
}
