/**
 * How the text of a section is written and read: one JSON array with a record to a row, and a salt
 * in the last one (JOURNAL-3).
 */
import { holdsHalf } from "../values/json.js";
import { type JournalRecord, SALT_CHARS } from "./record.js";

/** Raw line breaks cannot occur inside JSON text, so it reads as one record to a row. */
const BETWEEN = ",\n";

/**
 * Records, a row each, and a salt in the last one. Put together piece by piece: the text is made
 * flat once, when it is hashed.
 */
export function section(records: readonly string[], salt: () => string): string | null {
  if (records.length === 0) return null;
  let text = "[";
  for (const record of records) text += record + BETWEEN;
  return `${text}"${salt()}"]`;
}

/**
 * Whether a section is written as `section` writes it: code that measures or rewrites records finds
 * each where it must be.
 */
export function isPlain(text: string, records: readonly JournalRecord[]): boolean {
  let plain = "[";
  for (const record of records) plain += JSON.stringify(record) + BETWEEN;
  return text.startsWith(plain) && SALT.test(text.slice(plain.length)) && !holdsHalf(text);
}

const SALT = /^"[A-Za-z0-9_-]{16}"\]$/;

/** The bytes of each record's text in a section. */
export function recordBytes(text: string | null): readonly number[] {
  if (text === null) return [];
  const records = recordTexts(text);
  const ascii = Buffer.byteLength(text) === text.length;
  return records.map((record) => (ascii ? record.length : Buffer.byteLength(record)));
}

/** The texts of a section's records. */
export const recordTexts = (section: string | null): readonly string[] =>
  section === null ? [] : section.slice(1, -(SALT_CHARS + 3 + BETWEEN.length)).split(BETWEEN);
