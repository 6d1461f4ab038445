/**
 * What is said of a session beside its steps: title, tags, archived, metadata.
 *
 * LABEL-1  A session has the words of its source, also where the source has changed or removed them
 *          since the last import. A word, or a field of metadata, that people have changed here
 *          since then stays as they left it.
 * LABEL-2  A word that Holdfast refuses is left out, and said; the others are written. What the
 *          import must know again is written last.
 */
import { sortedText } from "../../core/values/json.js";
import type { Json, JsonObject, SessionSummary, SessionUpdate } from "../../index.js";
import { objectAt, textAt } from "../reading/fields.js";
import type { Words } from "../reading/model.js";
import { digestOf } from "../reading/names.js";
import { compareTexts } from "../reading/times.js";
import { sourceIn } from "./plan.js";
import { isRefused } from "./writing.js";

const WORDS = ["title", "tags", "archived"] as const;
type Word = (typeof WORDS)[number];

interface Said {
  readonly title: string | null;
  readonly tags: readonly string[];
  readonly archived: boolean;
}

/** Digests of what an import wrote: where a word has another one by now, people have changed it. */
type Left = Readonly<Record<Word, string>> & { readonly metadata: JsonObject };

/** What is to be written, and how the next import knows it again. */
export interface Label {
  readonly said: Partial<Said>;
  /** Fields of metadata: those that people have here, and those of the source. */
  readonly kept: JsonObject;
  readonly ours: JsonObject;
  /** Metadata that has a field of our name goes into the note. */
  readonly noted: JsonObject | undefined;
  readonly source: JsonObject | undefined;
  readonly known: JsonObject;
  readonly was: Left;
  readonly left: Left;
}

const NOTHING: Said = { title: null, tags: [], archived: false };

const saidBy = ({ title, tags, archived }: Words): Said => ({
  title: title ?? NOTHING.title,
  tags: tags ?? NOTHING.tags,
  archived: archived ?? NOTHING.archived,
});

/** The first words of a session stand in for a title, and are none. */
const saidHere = ({ title, titled, tags, archived }: SessionSummary): Said => ({
  title: titled ? (title ?? null) : null,
  tags,
  archived,
});

/** Tags have no order. */
const digestsOf = ({ title, tags, archived }: Said, metadata: JsonObject): Left => ({
  title: digestOf(sortedText(title)),
  tags: digestOf(sortedText(tags.toSorted(compareTexts))),
  archived: digestOf(sortedText(archived)),
  metadata: Object.fromEntries(
    Object.entries(metadata).map(([key, value]) => [key, digestOf(sortedText(value))]),
  ),
});

/** What an import has noted. Before its end, it has written nothing. */
function leftIn(note: JsonObject): Left {
  const nothing = digestsOf(NOTHING, {});
  const left = objectAt(note, "left") ?? {};
  const noted = Object.fromEntries(
    WORDS.map((word) => [word, textAt(left, word) ?? nothing[word]]),
  ) as Record<Word, string>;
  return { ...noted, metadata: objectAt(left, "metadata") ?? {} };
}

/** The words of a source, and `known`, which the next import must find. */
export function labelBy(words: Words, known: JsonObject): Label {
  const said = saidBy(words);
  const isNoted = words.metadata !== undefined && Object.hasOwn(words.metadata, "source");
  const ours = isNoted ? {} : (words.metadata ?? {});
  const noted = isNoted ? words.metadata : undefined;
  return {
    said,
    kept: {},
    ours,
    noted,
    source: words.source,
    known,
    was: digestsOf(NOTHING, {}),
    left: digestsOf(said, ours),
  };
}

/**
 * LABEL-1: the same for a session that is here. A fork begins with the words of its parent (`isOwn`
 * is false): those are not its own.
 */
export function labelOver(
  before: SessionSummary,
  isOwn: boolean,
  words: Words,
  known: JsonObject,
): Label {
  const given = labelBy(words, known);
  const { source: _source, ...fields } = before.metadata;
  const now = digestsOf(saidHere(before), fields);
  const was = isOwn ? leftIn(sourceIn(before.metadata) ?? {}) : now;
  const isTheirs = (word: Word): boolean =>
    now[word] !== was[word] && now[word] !== given.left[word];
  const isTheirField = (key: string): boolean =>
    now.metadata[key] !== was.metadata[key] && now.metadata[key] !== given.left.metadata[key];
  const only = <T extends Json>(
    of: Readonly<Record<string, T>>,
    isMeant: (key: string) => boolean,
  ): Record<string, T> => Object.fromEntries(Object.entries(of).filter(([key]) => isMeant(key)));
  const isOurField = (key: string): boolean => !isTheirField(key);
  const digests = Object.fromEntries(
    WORDS.map((word) => [word, (isTheirs(word) ? was : given.left)[word]]),
  ) as Record<Word, string>;
  return {
    ...given,
    // What is as it should be is not written: people may change it meanwhile.
    said: only(
      given.said as unknown as JsonObject,
      (word) => !isTheirs(word as Word) && now[word as Word] !== given.left[word as Word],
    ),
    kept: only(fields, isTheirField),
    ours: only(given.ours, isOurField),
    was,
    left: {
      ...digests,
      metadata: { ...only(given.left.metadata, isOurField), ...only(was.metadata, isTheirField) },
    },
  };
}

type Update = (update: SessionUpdate) => Promise<unknown>;

/** LABEL-2. Answers what was taken. `refused` is told of the rest. */
export async function give(
  label: Label,
  update: Update,
  refused: (word: string, why: string) => void,
): Promise<SessionUpdate> {
  const { said, kept, ours, noted, source, known, was, left } = label;
  const all = {
    ...said,
    metadata: {
      ...kept,
      ...ours,
      source: { ...source, ...known, left, ...(noted && { metadata: noted }) },
    },
  };
  if ((await refusal(update, all)) === undefined) return all;
  // One at a time: the error does not say which of them it was.
  const taken: { -readonly [K in keyof SessionUpdate]: SessionUpdate[K] } = {};
  let digests = left;
  for (const [word, value] of Object.entries(said)) {
    const why = await refusal(update, { [word]: value });
    if (why === undefined) Object.assign(taken, { [word]: value });
    else {
      digests = { ...digests, [word]: was[word as Word] };
      refused(word, why);
    }
  }
  const whole = { ...all.metadata, source: { ...all.metadata.source, left: digests } };
  const why = await refusal(update, { metadata: whole });
  if (why === undefined) return { ...taken, metadata: whole };
  refused("metadata", why);
  const note = { ...known, left: { ...digests, metadata: {} } };
  for (const metadata of [
    { ...kept, source: { ...source, ...note } },
    { ...kept, source: note },
  ])
    if ((await refusal(update, { metadata })) === undefined) return { ...taken, metadata };
  await update({ metadata: { source: note } });
  return { ...taken, metadata: { source: note } };
}

/** Why an update is refused; undefined where it was made. */
async function refusal(update: Update, given: SessionUpdate): Promise<string | undefined> {
  try {
    await update(given);
    return undefined;
  } catch (error) {
    if (!isRefused(error)) throw error;
    return error.message;
  }
}
