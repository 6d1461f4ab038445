/**
 * What a format could not say of messages: found by reading back what was written, so that nothing
 * is forgotten.
 *
 * REMAINDER-1  for each of our messages, in their order, there is the number of the format's
 *              message that says all of it, or an entry: which messages it is in (`as`), fields
 *              that differ, and its content as far as it differs, with numbers for parts that are
 *              there.
 * REMAINDER-2  an entry counts as long as the messages it names are as they were (`check`). What
 *              somebody has changed since is taken as it is now, and what was added comes behind.
 * REMAINDER-3  each part is named once: a small document cannot become a large transcript.
 */
import { isObject } from "../core/messages/message.js";
import { digest } from "../core/values/digest.js";
import {
  equal,
  freeze,
  invalidValue,
  type Json,
  type JsonObject,
  sortedText,
} from "../core/values/json.js";
import { type PlainMessage, type PlainPart, partsIn } from "./plain.js";

type Entry = JsonObject & {
  readonly as: readonly number[];
  readonly check?: string;
  /** Fields that the format's message has and ours does not. */
  readonly without?: readonly string[];
  readonly content?: string | readonly Json[];
};

/** What a provider's format cannot say of a transcript, kept beside it. */
export interface Remainder {
  readonly messages: readonly (number | JsonObject)[];
}

const OF_ENTRY: ReadonlySet<string> = new Set(["as", "check", "without", "content"]);
const CHECK = 16;

// ---- finding

/**
 * What is to be kept of `ours`, which reads as `theirs`. `of`: which of ours each of theirs says
 * something of.
 */
export function remainderOf(
  ours: readonly PlainMessage[],
  theirs: readonly PlainMessage[],
  of: readonly (readonly number[])[],
): Remainder | undefined {
  const places = ours.map((): number[] => []);
  for (const [at, those] of of.entries()) for (const index of those) places[index]?.push(at);
  const used = new Set<PlainPart>();
  const parts = theirs.map(partsIn);
  let isPlain = ours.length === theirs.length;
  const messages = ours.map((message, index) => {
    const as = places[index] as readonly number[];
    const [at = -1] = as;
    const alone =
      as.length === 1 && of[at]?.length === 1 ? (theirs[at] as PlainMessage) : undefined;
    if (alone !== undefined && equal(alone as unknown as Json, message as unknown as Json)) {
      if (at !== index) isPlain = false;
      return at;
    }
    isPlain = false;
    const said = as.flatMap((place) => parts[place] as readonly PlainPart[]);
    const check =
      as.length === 0
        ? undefined
        : { check: checkOf(as.map((place) => theirs[place] as PlainMessage)) };
    const entry = {
      as,
      ...check,
      ...fieldsOf(message, alone),
      ...contentOf(message, alone, said, used),
    };
    return frozenEntry(entry, message, index);
  });
  return isPlain ? undefined : { messages };
}

/**
 * A change to a part stands one level deeper than the part did: where that is too deep, the part is
 * kept whole.
 */
function frozenEntry(entry: JsonObject, { content }: PlainMessage, index: number): JsonObject {
  try {
    return freeze(entry, `remainder.messages[${index}]`) as JsonObject;
  } catch {
    return freeze({ ...entry, content: content as Json }, `messages[${index}]`) as JsonObject;
  }
}

const checkOf = (messages: readonly PlainMessage[]): string =>
  digest(sortedText(messages as unknown as Json)).slice(0, CHECK);

function fieldsOf(message: PlainMessage, alone: PlainMessage | undefined): JsonObject {
  const { content: _content, ...ours } = message as unknown as JsonObject;
  const { content: _theirs, ...theirs } = (alone ?? {}) as JsonObject;
  const [set, without] = difference(theirs, ours);
  return { ...set, ...(without.length > 0 && { without }) };
}

/** The fields to set, and those to take away. */
function difference(
  from: JsonObject,
  to: JsonObject,
): readonly [set: JsonObject, without: readonly string[]] {
  const set = Object.entries(to).filter(
    ([key, value]) => !Object.hasOwn(from, key) || !equal(from[key], value),
  );
  return [Object.fromEntries(set), Object.keys(from).filter((key) => !Object.hasOwn(to, key))];
}

function contentOf(
  { content }: PlainMessage,
  alone: PlainMessage | undefined,
  said: readonly PlainPart[],
  used: Set<PlainPart>,
): { readonly content?: Json } {
  if (alone !== undefined && equal(alone.content as Json, content as Json)) return {};
  if (typeof content === "string") return { content };
  const queues = queuesOf(said, used);
  return {
    content: content.map((part): Json => {
      const queue = queues.get(keyOf(part));
      const at = queue?.places[queue.next];
      const like = at === undefined ? undefined : said[at];
      if (queue === undefined || at === undefined || like === undefined || !isAlike(like, part))
        return part as unknown as Json;
      queue.next += 1;
      used.add(like);
      const [set, without] = difference(
        like as unknown as JsonObject,
        part as unknown as JsonObject,
      );
      if (Object.keys(set).length === 0 && without.length === 0) return at;
      return without.length === 0 ? [at, set] : [at, set, without];
    }),
  };
}

/**
 * Parts keep their order on the way: each is looked for among those of its kind, from where the
 * last one was found.
 */
interface Queue {
  readonly places: number[];
  next: number;
}

function queuesOf(
  said: readonly PlainPart[],
  used: ReadonlySet<PlainPart>,
): ReadonlyMap<string, Queue> {
  const queues = new Map<string, Queue>();
  for (const [i, part] of said.entries()) {
    if (used.has(part)) continue;
    const key = keyOf(part);
    const queue = queues.get(key);
    if (queue === undefined) queues.set(key, { places: [i], next: 0 });
    else queue.places.push(i);
  }
  return queues;
}

const keyOf = (part: PlainPart): string =>
  "callId" in part ? `${part.type} ${part.callId}` : part.type;

/** The fields that make up most of a part: where they are the same, only what differs is kept. */
const BODY = {
  text: "text",
  reasoning: "text",
  file: "data",
  "tool-call": "input",
  "tool-result": "output",
  opaque: "value",
} as const;

function isAlike(like: PlainPart, part: PlainPart): boolean {
  const body = BODY[part.type];
  return equal((like as unknown as JsonObject)[body], (part as unknown as JsonObject)[body]);
}

// ---- applying

/**
 * Our messages, from what theirs say and what was kept. Nothing of `theirs` is left out, and
 * nothing comes twice.
 */
export function withRemainder(
  theirs: readonly PlainMessage[],
  given: unknown,
  path: string,
): readonly PlainMessage[] {
  const list: unknown = isObject(given) ? given.messages : undefined;
  if (!Array.isArray(list)) throw invalidValue(path, "the remainder is an object with messages");
  const told = new Set<number>();
  const tell = (at: number): readonly PlainMessage[] => {
    const message = told.has(at) ? undefined : theirs[at];
    told.add(at);
    return message === undefined ? [] : [message];
  };
  const used = new Set<PlainPart>();
  const parts = theirs.map(partsIn);
  const pathOf = (i: number) => `${path}.messages[${i}]`;
  const entries = list.map((each: unknown, i) => (isPlace(each) ? each : entryOf(each, pathOf(i))));
  const shares = new Map<number, number>();
  for (const each of entries)
    for (const at of isPlace(each) ? [each] : each.as) shares.set(at, (shares.get(at) ?? 0) + 1);
  const ours = entries.flatMap((entry, i): readonly PlainMessage[] => {
    if (isPlace(entry)) return tell(entry);
    const { as, check } = entry;
    const those = as.flatMap((at) => theirs[at] ?? []);
    if (those.length < as.length || (as.length > 0 && check !== checkOf(those)))
      return as.flatMap(tell);
    const [at = -1] = as;
    const alone = as.length === 1 && shares.get(at) === 1 ? theirs[at] : undefined;
    for (const place of as) told.add(place);
    const said = as.flatMap((place) => parts[place] as readonly PlainPart[]);
    return [messageOf(entry, alone, said, used, pathOf(i))];
  });
  return [...ours, ...theirs.flatMap((_, at) => tell(at))];
}

const isPlace = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

function entryOf(value: unknown, path: string): Entry {
  if (
    !isObject(value) ||
    !Array.isArray(value.as) ||
    !value.as.every(isPlace) ||
    new Set(value.as).size < value.as.length
  )
    throw invalidValue(
      path,
      "it is the number of a message, or says in `as` which messages it is in",
    );
  const { without, content } = value;
  if (without !== undefined && !isNames(without))
    throw invalidValue(`${path}.without`, "it is a list of names");
  if (content !== undefined && typeof content !== "string" && !Array.isArray(content))
    throw invalidValue(`${path}.content`, "it is a text or a list");
  return value as Entry;
}

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((name) => typeof name === "string");

function messageOf(
  entry: Entry,
  alone: PlainMessage | undefined,
  said: readonly PlainPart[],
  used: Set<PlainPart>,
  path: string,
): PlainMessage {
  const { content } = entry;
  const set = Object.fromEntries(Object.entries(entry).filter(([key]) => !OF_ENTRY.has(key)));
  const fields = changed((alone ?? {}) as JsonObject, set, entry.without ?? []);
  if (content === undefined) return fields as unknown as PlainMessage;
  const whole =
    typeof content === "string"
      ? content
      : content.map((part, i) => partOf(part, said, used, `${path}.content[${i}]`));
  return { ...fields, content: whole } as unknown as PlainMessage;
}

const changed = (from: JsonObject, set: JsonObject, without: readonly string[]): JsonObject =>
  Object.fromEntries(
    Object.entries({ ...from, ...set }).filter(
      ([key]) => !without.includes(key) || Object.hasOwn(set, key),
    ),
  );

function partOf(
  value: Json,
  said: readonly PlainPart[],
  used: Set<PlainPart>,
  path: string,
): PlainPart {
  const [at, set = {}, without = []] = Array.isArray(value) ? (value as readonly Json[]) : [value];
  if (!isPlace(at)) {
    if (Array.isArray(value)) throw invalidValue(path, "a change begins with the number of a part");
    return value as unknown as PlainPart;
  }
  const part = said[at];
  if (part === undefined || used.has(part))
    throw invalidValue(path, "there is no such part, or it is named twice");
  used.add(part);
  if (!isObject(set) || !isNames(without))
    throw invalidValue(path, "a change is fields to set, and names of those to take away");
  return changed(part as unknown as JsonObject, set as JsonObject, without) as unknown as PlainPart;
}
