/**
 * Shapes of inputs and answers, said once: as a JSON Schema, as a type, and as a Standard Schema
 * that other loops can ask.
 */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { notAmong } from "../core/values/closest.js";
import { HoldfastError } from "../core/values/errors.js";
import { typeName } from "../core/values/ids.js";
import { encode, fieldsOf, isList, type Json, type JsonObject } from "../core/values/json.js";
import { schemaOf } from "../features/runs/define/schema.js";

declare const of: unique symbol;

export interface Field<T> {
  readonly json: JsonObject;
  readonly isOptional?: true;
  /** For the compiler only. */
  readonly [of]?: T;
}

export interface Shape<T> extends Field<T>, StandardSchemaV1<T, T>, StandardJSONSchemaV1<T, T> {
  readonly "~standard": StandardSchemaV1.Props<T, T> & StandardJSONSchemaV1.Props<T, T>;
}

type Fields = Readonly<Record<string, Field<unknown>>>;
type OptionalIn<F extends Fields> = {
  [K in keyof F]: F[K] extends { readonly isOptional: true } ? K : never;
}[keyof F];
type Said<F> = F extends Field<infer T> ? T : never;
export type ObjectOf<F extends Fields> = {
  readonly [K in Exclude<keyof F, OptionalIn<F>>]: Said<F[K]>;
} & {
  readonly [K in OptionalIn<F>]?: Said<F[K]>;
};

export const text = (description: string, more: JsonObject = {}): Field<string> => ({
  json: { type: "string", description, ...more },
});
export const id = (description: string): Field<string> =>
  text(description, { minLength: 1, maxLength: 200 });
export const whole = (description: string, minimum = 0, maximum?: number): Field<number> => ({
  json: {
    type: "integer",
    description,
    minimum,
    ...(maximum === undefined ? undefined : { maximum }),
  },
});
export const number = (description: string): Field<number> => ({
  json: { type: "number", description },
});
export const flag = (description: string): Field<boolean> => ({
  json: { type: "boolean", description },
});
export const choice = <const T extends string>(
  description: string,
  values: readonly T[],
): Field<T> => ({
  json: { type: "string", description, enum: values },
});
export const always = <const T extends string>(value: T): Field<T> => ({
  json: { type: "string", const: value },
});
export const list = <T>(
  description: string,
  items: Field<T>,
  maxItems?: number,
): Field<readonly T[]> => ({
  json: {
    type: "array",
    description,
    items: items.json,
    ...(maxItems === undefined ? undefined : { maxItems }),
  },
});
/**
 * Any object of JSON. Said in so many words: some loops close an object that does not say that it
 * is open.
 */
export const json = (description: string): Field<JsonObject> => ({
  json: { type: "object", description, additionalProperties: {} },
});
export const either = <A, B>(description: string, a: Field<A>, b: Field<B>): Field<A | B> => ({
  json: { description, anyOf: [a.json, b.json] },
});
export const orNull = <T>({ json: given }: Field<T>): Field<T | null> => ({
  json: { ...given, type: [given.type as string, "null"] },
});
export const optional = <T>(field: Field<T>): Field<T> & { readonly isOptional: true } => ({
  ...field,
  isOptional: true,
});

/** An object with these fields and no others. */
export function object<F extends Fields>(fields: F, description?: string): Shape<ObjectOf<F>> {
  const names = Object.keys(fields);
  const required = names.filter((name) => fields[name]?.isOptional !== true);
  const schema: JsonObject = {
    type: "object",
    ...(description === undefined ? undefined : { description }),
    properties: Object.fromEntries(names.map((name) => [name, fields[name]?.json ?? {}])),
    ...(required.length === 0 ? undefined : { required }),
    additionalProperties: false,
  };
  return { json: schema, "~standard": standard<ObjectOf<F>>(schema) };
}

function standard<T>(schema: JsonObject): Shape<T>["~standard"] {
  let known: ReturnType<typeof schemaOf> | undefined;
  return {
    version: 1,
    vendor: "holdfast",
    validate: async (value) => {
      const read = readFields(value, schema);
      if ("flaw" in read) return { issues: [{ message: read.flaw }] };
      // Made when it is first asked: most tools are never called.
      known ??= schemaOf(schema, "schema");
      const parsed = await known.parse(read.value);
      return "flaw" in parsed
        ? { issues: [{ message: parsed.flaw }] }
        : { value: parsed.value as T };
    },
    // A copy: some loops write into what they are given.
    jsonSchema: { input: () => structuredClone(schema), output: () => structuredClone(schema) },
  };
}

/**
 * Copies an input, as JSON. A value that is no JSON of ours, or a name that is none of the fields,
 * is a flaw. Validators differ about `__proto__` and half characters. A field that is undefined is
 * absent.
 */
function readFields(
  value: unknown,
  { properties }: JsonObject,
): { readonly value: Json } | { readonly flaw: string } {
  if (typeof value !== "object" || value === null || isList(value))
    return { flaw: `An input is an object, not ${typeName(value)}.` };
  try {
    // Each field is read once, and here: a proxy of the caller's may throw, or answer differently
    // the second time.
    const fields = fieldsOf(value, "input");
    const unknown = Object.keys(fields).find(
      (name) => !Object.hasOwn(properties as JsonObject, name),
    );
    if (unknown !== undefined)
      return { flaw: `There is no ${notAmong(unknown, Object.keys(properties as JsonObject))}.` };
    return { value: encode(fields, "input").value };
  } catch (error) {
    return { flaw: error instanceof HoldfastError ? error.message : String(error) };
  }
}
