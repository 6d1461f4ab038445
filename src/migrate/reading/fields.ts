/**
 * Reads the fields of an object that another program wrote.
 *
 * FIELDS-1  A getter answers a value of the type that it names, and counts the field as mapped.
 *           Null counts as absent. A field with a value of another type stays unmapped.
 * FIELDS-2  `source` keeps each unmapped field under `unmapped`, by its path, and tells the report.
 *           A reader that does not ask for a field cannot lose it.
 */
import { HoldfastError, pathTo } from "../../core/values/errors.js";
import { sortedText } from "../../core/values/json.js";
import type { Json, JsonObject } from "../../index.js";
import { clipped, isName, nameOf } from "./names.js";
import type { FileReport } from "./report.js";

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export const at = (of: JsonObject, key: string): Json | undefined =>
  Object.hasOwn(of, key) ? of[key] : undefined;

export function textAt(of: JsonObject, key: string): string | undefined {
  const value = at(of, key);
  return typeof value === "string" ? value : undefined;
}

export function objectAt(of: JsonObject, key: string): JsonObject | undefined {
  const value = at(of, key);
  return isObject(value) ? value : undefined;
}

export function listAt(of: JsonObject, key: string): readonly Json[] | undefined {
  const value = at(of, key);
  return isList(value) ? value : undefined;
}

const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);

/** A whole number of any size: those past a double were read as text. */
export function integerOf(value: Json | undefined): bigint | undefined {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : undefined;
  return typeof value === "string" && /^-?\d{1,40}$/.test(value) ? BigInt(value) : undefined;
}

/** A whole number from 0 on, as Holdfast's checkpoints hold it. */
export const isCount = (value: Json | undefined): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;

/** What is given, without what is null or absent. */
export const present = (fields: Readonly<Record<string, Json | undefined>>): JsonObject =>
  Object.fromEntries(
    Object.entries(fields).filter(
      (entry): entry is [string, Json] => entry[1] !== undefined && entry[1] !== null,
    ),
  );

/**
 * Metadata of theirs with a note of where it came from beside it, under `source`. Theirs goes into
 * the note where it has a field of that name itself.
 */
export const withSource = (theirs: JsonObject | undefined, source: JsonObject): JsonObject =>
  theirs !== undefined && Object.hasOwn(theirs, "source")
    ? { source: { ...source, metadata: theirs } }
    : { ...theirs, source };

const bytesOf = (value: Json): number => Buffer.byteLength(JSON.stringify(value));

/** Metadata may have 1 MiB. The rest is for what the import notes itself. */
const ROOM = 1024 * 1024 - 32 * 1024;

/**
 * How many bytes a source note may have beside metadata of theirs. Metadata that is too large is
 * refused as a whole.
 */
export function roomBeside(metadata: JsonObject | undefined): number {
  const taken = metadata === undefined ? 0 : bytesOf(metadata);
  return taken > ROOM ? ROOM : ROOM - taken;
}

/** Whether metadata of theirs can be stored beside a source note. */
export const canKeep = (metadata: JsonObject): boolean =>
  bytesOf(metadata) <= ROOM && isStorable(metadata);

interface Unmapped {
  /**
   * From the object that keeps it, and from the file's outermost object, without the numbers of
   * list items.
   */
  readonly path: string;
  readonly field: string;
  readonly value: Json;
  readonly told: FileReport;
}

export class Fields {
  readonly #of: JsonObject;
  readonly #told: FileReport;
  readonly #where: string;
  readonly #mapped = new Set<string>();
  readonly #inner = new Map<string, Fields>();

  /** `where` is the place of the object in its file, for the report. */
  constructor(of: JsonObject, told: FileReport, where = "") {
    this.#of = of;
    this.#told = told;
    this.#where = where;
  }

  /** A field that is kept as it stands, with any value. */
  any(key: string): Json | undefined {
    this.#mapped.add(key);
    return at(this.#of, key);
  }

  #typed<T extends Json>(key: string, isType: (value: Json) => value is T): T | undefined {
    const value = at(this.#of, key);
    if (value === undefined || value === null || isType(value)) this.#mapped.add(key);
    return value !== undefined && isType(value) ? value : undefined;
  }

  text(key: string): string | undefined {
    return this.#typed(key, (value) => typeof value === "string");
  }

  /** One of these texts. */
  choice<T extends string>(key: string, choices: readonly T[]): T | undefined {
    return this.#typed(key, (value): value is T => (choices as readonly Json[]).includes(value));
  }

  flag(key: string): boolean | undefined {
    return this.#typed(key, (value) => typeof value === "boolean");
  }

  count(key: string): number | undefined {
    return this.#typed(key, isCount);
  }

  integer(key: string): bigint | undefined {
    return integerOf(this.#typed(key, (value): value is Json => integerOf(value) !== undefined));
  }

  /** An object that is kept whole. */
  object(key: string): JsonObject | undefined {
    return this.#typed(key, isObject);
  }

  /** A list that is kept whole. */
  list(key: string): readonly Json[] | undefined {
    return this.#typed(key, isList);
  }

  /**
   * A field that another place says as well. Where that says something else, the field stays
   * unmapped.
   */
  same(key: string, other: Json | undefined): void {
    if (sortedText(at(this.#of, key) ?? null) === sortedText(other ?? null)) this.#mapped.add(key);
  }

  /** A text as a name that Holdfast takes. Where that is another text, the field stays unmapped. */
  name(key: string): string | undefined {
    const text = textAt(this.#of, key);
    if (text === undefined || text === "" || isName(text)) return this.text(key) || undefined;
    return nameOf(text);
  }

  /** The beginning of a text. Where that is not all of it, the field stays unmapped. */
  clipped(key: string, most: number): string | undefined {
    const text = textAt(this.#of, key);
    return text !== undefined && text.length > most ? clipped(text, most) : this.text(key);
  }

  /** A list that may be absent. Anything else in its place is an error, and never an empty list. */
  items(key: string): readonly Json[] {
    const list = this.list(key);
    if (list !== undefined || (at(this.#of, key) ?? null) === null) return list ?? [];
    throw new HoldfastError("INVALID_VALUE", `Its ${key} is no list.`, { path: key });
  }

  /** The same, of objects. What stays unmapped of them is kept by this one. */
  objects(key: string): readonly Fields[] {
    const items = this.items(key);
    if (!items.every(isObject))
      throw new HoldfastError("INVALID_VALUE", `Its ${key} hold something else than objects.`, {
        path: key,
      });
    return items.map((item, i) =>
      this.#into(`${keyed("", key)}[${i}]`, item, `${shown(this.#where, key)}[]`),
    );
  }

  /** An object inside of this one. What stays unmapped of it is kept by this one. */
  fields(key: string): Fields | undefined {
    const inner = this.object(key);
    return inner && this.#into(keyed("", key), inner, shown(this.#where, key));
  }

  #into(path: string, of: JsonObject, where: string): Fields {
    const found = this.#inner.get(path) ?? new Fields(of, this.#told, where);
    this.#inner.set(path, found);
    return found;
  }

  /** Keeps what stays unmapped of an object elsewhere that says more of this one. */
  adopt(path: string, other: Fields): void {
    this.#inner.set(path, other);
  }

  /**
   * The note of where it came from: what is given, and what stays unmapped. It takes `room` bytes
   * at most; what is left out is told.
   */
  source(
    kept: Readonly<Record<string, Json | undefined>>,
    room: number = roomBeside(undefined),
  ): JsonObject {
    let left = room;
    const fits = (key: string, value: Json): boolean => {
      const bytes = room === Number.POSITIVE_INFINITY ? 0 : bytesOf(key) + bytesOf(value) + 2;
      if (bytes > left) return false;
      left -= bytes;
      return true;
    };
    const note = Object.entries(present(kept)).filter(([key, value]) => {
      const isKept = fits(key, value);
      if (!isKept) this.#told.tooLarge(shown(this.#where, key));
      return isKept;
    });
    const unmapped = [...this.#unmapped("")].filter(({ path, field, value, told }) => {
      const isKept = fits(path, value);
      if (isKept) told.unmapped(field);
      else told.tooLarge(field);
      return isKept;
    });
    const more = unmapped.map(({ path, value }) => [path, stored(value)] as const);
    return {
      ...Object.fromEntries(note.map(([key, value]) => [key, stored(value)])),
      ...(more.length > 0 && { unmapped: Object.fromEntries(more) }),
    };
  }

  /** The fields that stay unmapped so far, as the report names them. */
  get unmapped(): readonly string[] {
    return [...this.#unmapped("")].map(({ field }) => field);
  }

  *#unmapped(path: string): Generator<Unmapped> {
    for (const [key, value] of Object.entries(this.#of))
      if (!this.#mapped.has(key))
        yield { path: keyed(path, key), field: shown(this.#where, key), value, told: this.#told };
    for (const [key, inner] of this.#inner) yield* inner.#unmapped(joined(path, key));
  }
}

/** Holdfast refuses deeper values, and text with half a character: they are kept as JSON text. */
const stored = (value: Json): Json => (isStorable(value) ? value : JSON.stringify(value));
const MAX_DEPTH = 400;

function isStorable(value: Json, depth = 0): boolean {
  if (typeof value === "string") return value.isWellFormed();
  if (typeof value !== "object" || value === null) return true;
  if (depth === MAX_DEPTH) return false;
  return Object.entries(value).every(
    ([key, item]) => key.isWellFormed() && isStorable(item as Json, depth + 1),
  );
}

/** A path with one more key. No two keys have the same path: a value is kept by it. */
const keyed = (path: string, key: string): string =>
  joined(path, /^[A-Za-z_$][\w$]*$/.test(key) ? key : `[${JSON.stringify(key)}]`);

const joined = (path: string, more: string): string =>
  path === "" || more.startsWith("[") ? `${path}${more}` : `${path}.${more}`;

/** The same for people: long keys are cut. */
function shown(path: string, key: string): string {
  const longer = pathTo(path, key);
  return longer.startsWith(".") ? longer.slice(1) : longer;
}
