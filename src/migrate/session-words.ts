/**
 * What is said of a session beside its steps.
 *
 * W1  a word that people have changed here since the last import stays as they left it.
 * W2  a word that Holdfast refuses is left out, and said; the others are written. What the import must know again is written last.
 */
import { quote } from "../core/errors.js";
import { sortedText } from "../core/json.js";
import type { Json, JsonObject, SessionSummary } from "../index.js";
import { objectAt, present, withSource } from "./fields.js";
import type { ForeignSession } from "./model.js";
import { digestOf } from "./names.js";
import { sourceIn } from "./plan.js";
import { compareTexts } from "./times.js";
import { isRefused, type Writing } from "./writing.js";

const WORDS = ["title", "tags", "archived"] as const;
type Word = (typeof WORDS)[number];

/** Tags have no order. */
const digestOfWord = (word: Json | readonly string[] | undefined): string =>
  digestOf(sortedText(Array.isArray(word) ? (word as readonly string[]).toSorted(compareTexts) : ((word as Json | undefined) ?? null)));

/** `known` is what the next import must find. */
export async function writeWords(writing: Writing, foreign: ForeignSession, before: SessionSummary, known: JsonObject): Promise<void> {
  const { into, report } = writing;
  const { id, title, tags, archived } = foreign;
  const source = sourceIn(before.metadata);
  const isOwn = source?.["id"] === foreign.foreign;
  const left = (isOwn && source && objectAt(source, "left")) || {};
  // A fork begins with the words of its parent; those are not its own.
  const given: JsonObject = isOwn
    ? defined({ title, tags, archived })
    : { title: title ?? null, tags: tags ?? [], ...defined({ archived }) };
  const isTheirs = (word: Word): boolean => Object.hasOwn(left, word) && left[word] !== digestOfWord(before[word]);
  const said = Object.fromEntries(Object.entries(given).filter(([word]) => !isTheirs(word as Word)));
  const now = WORDS.map((word): readonly [Word, Json] => [word, isTheirs(word) ? (left[word] as Json) : leftAs(said, before, word)]);
  const note = { ...known, left: present(Object.fromEntries(now)) };
  const kept = isOwn ? before.metadata : undefined;
  const metadata = { ...kept, ...withSource(foreign.metadata, { ...foreign.source, ...note }) };
  try {
    await into.sessions.update(id, { ...said, metadata });
    return;
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  // W2: one at a time, as nobody says which of them it was.
  const path = foreign.steps.at(-1)?.path ?? foreign.foreign;
  const takes = async (word: string, value: Json): Promise<boolean> => {
    try {
      await into.sessions.update(id, { [word]: value });
      return true;
    } catch (error) {
      if (!isRefused(error)) throw error;
      report.skip(path, `The ${word} of session ${quote(id)}: ${error.message}`);
      return false;
    }
  };
  for (const [word, value] of Object.entries(said)) await takes(word, value);
  if (!(await takes("metadata", metadata)) && !(await takes("metadata", { ...kept, source: note })))
    await into.sessions.update(id, { metadata: { source: note } });
}

/** A title that is taken away is the first words of the session again, and nobody's. */
const leftAs = (said: JsonObject, before: SessionSummary, word: Word): string | null =>
  said[word] === null ? null : digestOfWord(said[word] ?? before[word]);

const defined = (words: { readonly [K in Word]?: Json | undefined }): JsonObject =>
  Object.fromEntries(Object.entries(words).filter((entry): entry is [string, Json] => entry[1] !== undefined));
