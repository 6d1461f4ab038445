/** Schemas: what a model is told of a tool's arguments, and whether those it sends fit. */
import { type Schema as CfSchema, Validator } from "@cfworker/json-schema";
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { HoldfastError } from "../../core/errors.js";
import { encode, type Json, type JsonObject } from "../../core/json.js";
import { words } from "../effects/caller.js";
import { invalid } from "../options.js";

/** What was given, as the schema gives it out; or what is wrong with it, in words for the model. */
export type Parsed = { readonly value: unknown } | { readonly flaw: string };

export interface Schema {
  readonly json: JsonObject;
  parse(value: Json): Parsed | Promise<Parsed>;
}

const ANYTHING: Schema = { json: Object.freeze({ type: "object", properties: {} }), parse: (value) => ({ value }) };

export function schemaOf(given: unknown, path: string): Schema {
  if (given === undefined) return ANYTHING;
  try {
    return readSchema(given, path);
  } catch (error) {
    throw error instanceof HoldfastError ? error : invalid(path, `it cannot be used as a schema: ${words(error)}`, error);
  }
}

function readSchema(given: unknown, path: string): Schema {
  if ((typeof given !== "object" && typeof given !== "function") || given === null) throw invalid(path, "it must be a schema");
  if (isStandard(given)) return standard(given, path);
  const { jsonSchema, parse } = given as { readonly jsonSchema?: unknown; readonly parse?: unknown };
  if (jsonSchema === undefined) return plain(given, undefined, path);
  if (parse !== undefined && typeof parse !== "function") throw invalid(`${path}.parse`, "it must be a function");
  return plain(jsonSchema, parse as ((value: Json) => unknown) | undefined, `${path}.jsonSchema`);
}

const isStandard = (given: object): given is StandardSchemaV1 & Partial<StandardJSONSchemaV1> => "~standard" in given;

function standard(schema: StandardSchemaV1 & Partial<StandardJSONSchemaV1>, path: string): Schema {
  const { jsonSchema, vendor } = schema["~standard"] as Partial<StandardJSONSchemaV1.Props> & { readonly vendor: string };
  if (jsonSchema === undefined) {
    throw invalid(
      path,
      `a schema of ${vendor} that cannot tell its JSON Schema; use a version that can, its converter to a Standard JSON Schema, or { jsonSchema, parse }`,
    );
  }
  let json: unknown;
  try {
    json = jsonSchema.input({ target: "draft-2020-12" });
  } catch {
    try {
      json = jsonSchema.input({ target: "draft-07" });
    } catch (cause) {
      throw invalid(path, `its JSON Schema cannot be told: ${words(cause)}`);
    }
  }
  return {
    json: objectOf(json, path),
    // What its checks and transforms throw is told to the model, as what `parse` of a plain schema throws is.
    async parse(value) {
      try {
        return await validate(schema, value);
      } catch (error) {
        return { flaw: words(error) };
      }
    },
  };
}

/** Asks a Standard Schema. */
export function validate(schema: StandardSchemaV1, value: unknown): Parsed | Promise<Parsed> {
  const result = schema["~standard"].validate(value);
  return result instanceof Promise ? result.then(parsed) : parsed(result);
}

function parsed(result: StandardSchemaV1.Result<unknown>): Parsed {
  if (result.issues === undefined) return { value: result.value };
  return {
    flaw: result.issues
      .slice(0, 20)
      .map(({ message, path = [] }) => {
        const where = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".");
        return where === "" ? message : `${where}: ${message}`;
      })
      .join("; "),
  };
}

function plain(given: unknown, parse: ((value: Json) => unknown) | undefined, path: string): Schema {
  const json = objectOf(given, path);
  const validator = new Validator(structuredClone(json) as CfSchema, "2020-12", false);
  return {
    json,
    parse(value) {
      const { valid, errors } = validator.validate(value);
      // The first errors say which keyword of the whole failed; the last ones what is wrong where.
      if (!valid)
        return {
          flaw: errors
            .slice(-10)
            .map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`)
            .join("; "),
        };
      if (parse === undefined) return { value };
      try {
        return { value: parse(value) };
      } catch (error) {
        return { flaw: words(error) };
      }
    },
  };
}

function objectOf(given: unknown, path: string): JsonObject {
  const { value } = encode(given, path);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid(path, "a JSON Schema is an object");
  return value as JsonObject;
}
