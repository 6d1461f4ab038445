/**
 * Checks a JSON Schema before it is used: what the validator would trip over at the first call is
 * refused where the schema is given.
 *
 * SCHEMA-1  every keyword that the validator reads has the type that it reads it as, and every
 *           pattern compiles.
 * SCHEMA-2  every `$ref` is found in the schema, and leads to an end before the validator goes
 *           further into a value.
 */
import { format, type Schema } from "@cfworker/json-schema";
import { pathTo, quote } from "../../../core/values/errors.js";
import { type Json, type JsonObject, MAX_DEPTH } from "../../../core/values/json.js";
import { words } from "../../../engine/calls/execute-call.js";
import { invalid } from "../../../engine/util/validate.js";

/** Where the validator finds what a `$ref` names. */
export type Lookup = Readonly<Record<string, Schema | boolean>>;

type Rule = readonly [is: (value: Json) => boolean, what: string];

const isText = (value: Json | undefined): value is string => typeof value === "string";
const isMap = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isNames = (value: Json | undefined): boolean => Array.isArray(value) && value.every(isText);
const isFormat = (value: Json): boolean =>
  isText(value) && (Object.hasOwn(format, value) || !(value in format));

const TYPES = ["string", "number", "integer", "boolean", "object", "array", "null"];
const isType = (value: Json): boolean => isText(value) && TYPES.includes(value);

const TEXT: Rule = [isText, "a text"];
const NUMBER: Rule = [(value) => typeof value === "number", "a number"];
const COUNT: Rule = [
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
  "a whole number that is not negative",
];

const RULES: ReadonlyMap<string, Rule> = new Map([
  ...["$id", "$ref", "$anchor", "pattern"].map((name) => [name, TEXT] as const),
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map(
    (name) => [name, NUMBER] as const,
  ),
  ...["Length", "Items", "Properties", "Contains"].flatMap((of) => [
    [`min${of}`, COUNT] as const,
    [`max${of}`, COUNT] as const,
  ]),
  ["multipleOf", [(value) => typeof value === "number" && value > 0, "a number above 0"]],
  ["uniqueItems", [(value) => typeof value === "boolean", "true or false"]],
  ["required", [isNames, "a list of names"]],
  [
    "dependentRequired",
    [
      (value) => isMap(value) && Object.values(value).every(isNames),
      "an object with lists of names",
    ],
  ],
  ["enum", [Array.isArray, "a list of values"]],
  [
    "type",
    [
      (value) => (Array.isArray(value) ? value.every(isType) : isType(value)),
      `one of ${TYPES.join(", ")}, or a list of them`,
    ],
  ],
  ["format", [isFormat, "the name of a format"]],
]);

/**
 * Keywords that the validator gets wrong, or passes over: an input would seem to be checked that is
 * not.
 */
const UNSUPPORTED = ["$dynamicRef", "$recursiveRef"];

/**
 * Where schemas stand in a schema, and which of these look at the same value again instead of a
 * part of it.
 */
const ONE = [
  ...["not", "if", "then", "else", "items", "additionalItems", "unevaluatedItems", "contains"],
  ...["additionalProperties", "unevaluatedProperties", "propertyNames"],
];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = [
  "$defs",
  "definitions",
  "properties",
  "patternProperties",
  "dependentSchemas",
  "dependencies",
];
const IN_PLACE: ReadonlySet<string> = new Set([
  "allOf",
  "anyOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "dependentSchemas",
  "dependencies",
]);

/**
 * Throws where the schema cannot be used. `root` is as the validator has read it: it writes beside
 * a `$ref` what that names.
 */
export function checkSchema(root: JsonObject, lookup: Lookup, path: string): void {
  new SchemaCheck(lookup).check(root, path);
}

class SchemaCheck {
  readonly #lookup: Lookup;
  /** Each schema, with the path by which it was found. */
  readonly #seen = new Map<Json, string>();
  /** For each schema, how many more the validator goes through for the same value. */
  readonly #heights = new Map<Json, number>();

  constructor(lookup: Lookup) {
    this.#lookup = lookup;
  }

  check(root: Json, path: string): void {
    // Lists and no recursion: a `$ref` leads to another, and there may be any number of them. Most
    // targets have a place of their own as well.
    const todo: (readonly [Json, string])[] = [[root, path]];
    const targets: (readonly [Json, string])[] = [];
    for (let next = todo.pop(); next !== undefined; next = todo.pop() ?? targets.pop()) {
      const [schema, at] = next;
      if (typeof schema === "boolean" || this.#seen.has(schema)) continue;
      if (!isMap(schema)) throw invalid(at, "a schema is an object, true or false");
      this.#seen.set(schema, at);
      this.#checkKeywords(schema, at);
      for (const { schema: below, path: where } of subschemas(schema, at))
        todo.push([below, where]);
      const target = this.#target(schema, at);
      if (target !== undefined) targets.push([target, pathTo(at, "$ref")]);
    }
    for (const schema of this.#seen.keys()) this.#height(schema, 0);
  }

  #checkKeywords(schema: JsonObject, path: string): void {
    for (const [keyword, value] of Object.entries(schema)) {
      const at = pathTo(path, keyword);
      if (UNSUPPORTED.includes(keyword))
        throw invalid(at, "this keyword is not supported. Use $ref");
      const [is, what] = RULES.get(keyword) ?? [];
      if (is !== undefined && !is(value as Json)) throw invalid(at, `it must be ${what}`);
      if (keyword === "pattern") checkPattern(value as string, at);
      if (keyword === "patternProperties" && isMap(value))
        for (const pattern of Object.keys(value)) checkPattern(pattern, pathTo(at, pattern));
    }
  }

  /** What its `$ref` names. */
  #target(schema: JsonObject, path: string): Json | undefined {
    const { $ref, __absolute_ref__ } = schema as {
      readonly $ref?: string;
      readonly __absolute_ref__?: string;
    };
    if ($ref === undefined) return undefined;
    const target = this.#lookup[__absolute_ref__ || $ref];
    if (target === undefined)
      throw invalid(
        `${path}.$ref`,
        `${quote($ref)} is not in this schema. Put what it names under $defs, and name it "#/$defs/…"`,
      );
    return target as Json;
  }

  #height(schema: Json, depth: number): number {
    const path = this.#seen.get(schema);
    if (!isMap(schema) || path === undefined) return 0;
    const known = this.#heights.get(schema);
    if (depth + (known ?? 0) > MAX_DEPTH)
      throw invalid(
        path,
        `its $ref leads back to it, or through more than ${MAX_DEPTH} schemas, and never into a part of the value`,
      );
    if (known !== undefined) return known;
    const again = subschemas(schema, path).flatMap(({ keyword, schema: below }) =>
      IN_PLACE.has(keyword) ? [below] : [],
    );
    const height = [this.#target(schema, path) ?? true, ...again].reduce<number>(
      (most, one) => Math.max(most, 1 + this.#height(one, depth + 1)),
      0,
    );
    this.#heights.set(schema, height);
    return height;
  }
}

interface Subschema {
  readonly keyword: string;
  readonly schema: Json;
  readonly path: string;
}

/** The schemas that stand in a schema. Throws where a list or an object of them is none. */
function subschemas(schema: JsonObject, path: string): readonly Subschema[] {
  const found: Subschema[] = [];
  const add = (keyword: string, below: Json, ...keys: readonly (string | number)[]): void =>
    void found.push({
      keyword,
      schema: below,
      path: [keyword, ...keys].reduce<string>(pathTo, path),
    });
  const lists = (keyword: string, list: readonly Json[]): void =>
    list.forEach((below, i) => add(keyword, below, i));
  for (const [keyword, value] of Object.entries(schema) as readonly (readonly [string, Json])[]) {
    if (keyword === "items" && Array.isArray(value)) lists(keyword, value);
    else if (ONE.includes(keyword)) add(keyword, value);
    else if (LISTS.includes(keyword)) {
      if (!Array.isArray(value))
        throw invalid(pathTo(path, keyword), "it must be a list of schemas");
      lists(keyword, value);
    } else if (MAPS.includes(keyword)) {
      if (!isMap(value)) throw invalid(pathTo(path, keyword), "it must be an object with schemas");
      for (const [key, below] of Object.entries(value) as readonly (readonly [string, Json])[])
        if (keyword !== "dependencies" || !isNames(below)) add(keyword, below, key);
    }
  }
  return found;
}

/**
 * As the validator makes one. It is compiled when it is first used, and may be refused only then.
 */
function checkPattern(pattern: string, path: string): void {
  try {
    new RegExp(pattern, "u").test("");
  } catch (cause) {
    // Its words begin with the pattern, however long that is.
    const why = words(
      cause instanceof Error ? cause.message.slice(-200).replace(/^.*\/u: /s, "") : cause,
    );
    throw invalid(path, `${quote(pattern)} cannot be used as a pattern with the flag u: ${why}`);
  }
}
