/** Schemas: what a model is told of a tool's input, and whether the one it sends fits. */
import { setImmediate } from "node:timers/promises";
import {
  type Schema as CfSchema,
  dereference,
  validate as fit,
  type OutputUnit,
} from "@cfworker/json-schema";
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import { HoldfastError } from "../../../core/values/errors.js";
import { encode, type Json, type JsonObject, jsonBytes } from "../../../core/values/json.js";
import { words } from "../../../engine/calls/execute-call.js";
import { invalid } from "../../../engine/util/validate.js";
import { TimeUp, within } from "../../../engine/util/within.js";
import { checkSchema } from "./check-schema.js";

/** What was given, as the schema gives it out; or what is wrong with it, in words for the model. */
export type Parsed = { readonly value: unknown } | { readonly flaw: string };

export interface Schema {
  readonly json: JsonObject;
  parse(value: Json): Parsed | Promise<Parsed>;
}

/**
 * How long it may take to read a JSON Schema, and to check a value of some size against it: its
 * patterns may come from outside.
 */
const READ_MS = 1_000;
const CHECK_MS = 500;
const CHECK_MS_PER_KIB = 1;
const MAX_FLAW = 500;

const ANYTHING: Schema = {
  json: Object.freeze({ type: "object", properties: {} }),
  parse: (value) => ({ value }),
};

export function schemaOf(given: unknown, path: string): Schema {
  if (given === undefined) return ANYTHING;
  try {
    return readSchema(given, path);
  } catch (error) {
    if (!(error instanceof HoldfastError))
      throw invalid(path, `it cannot be used as a schema: ${words(error)}`, error);
    throw error.code === "INVALID_OPTION"
      ? error
      : new HoldfastError("INVALID_OPTION", error.message, error.details, error);
  }
}

function readSchema(given: unknown, path: string): Schema {
  if ((typeof given !== "object" && typeof given !== "function") || given === null)
    throw invalid(path, "it must be a schema");
  if (isStandard(given)) return standard(given, path);
  const { jsonSchema, parse } = given as {
    readonly jsonSchema?: unknown;
    readonly parse?: unknown;
  };
  if (jsonSchema === undefined) return plain(given, undefined, path);
  if (parse !== undefined && typeof parse !== "function")
    throw invalid(`${path}.parse`, "it must be a function");
  return plain(jsonSchema, parse as ((value: Json) => unknown) | undefined, `${path}.jsonSchema`);
}

const isStandard = (given: object): given is StandardSchemaV1 & Partial<StandardJSONSchemaV1> =>
  "~standard" in given;

/** The Standard Schema that is given. */
export function standardOf(given: unknown, path: string): StandardSchemaV1 {
  try {
    const { validate: asks } = (given as StandardSchemaV1)["~standard"];
    if (typeof asks === "function") return given as StandardSchemaV1;
  } catch {}
  throw invalid(path, "it must be a Standard Schema (zod, valibot, arktype, …)");
}

function standard(schema: StandardSchemaV1 & Partial<StandardJSONSchemaV1>, path: string): Schema {
  const { jsonSchema, vendor } = standardOf(schema, path)[
    "~standard"
  ] as Partial<StandardJSONSchemaV1.Props> & { readonly vendor: string };
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
  return { json: objectOf(json, path), parse: (value) => validate(schema, value) };
}

/**
 * Asks a Standard Schema. What its checks and transforms throw is a flaw, as what `parse` of a
 * plain schema throws is.
 */
export function validate(schema: StandardSchemaV1, value: unknown): Parsed | Promise<Parsed> {
  const thrown = (error: unknown): Parsed => ({ flaw: words(error) });
  try {
    const result = schema["~standard"].validate(value);
    // Not every promise is one of ours: there are other realms, and other kinds.
    return "then" in result ? Promise.resolve(result).then(parsed).catch(thrown) : parsed(result);
  } catch (error) {
    return thrown(error);
  }
}

function parsed(result: StandardSchemaV1.Result<unknown>): Parsed {
  if (result.issues === undefined) return { value: result.value };
  return {
    flaw: result.issues
      .slice(0, 20)
      .map(({ message, path = [] }) => {
        const where = path
          .map((part) => String(typeof part === "object" ? part.key : part))
          .join(".");
        return short(where === "" ? message : `${where}: ${message}`);
      })
      .join("; "),
  };
}

function plain(
  given: unknown,
  parse: ((value: Json) => unknown) | undefined,
  path: string,
): Schema {
  const json = objectOf(given, path);
  const flawIn = checker(json, path);
  return {
    json,
    async parse(value) {
      const flaw = flawIn(value);
      // What else this process does goes on before the next value is checked.
      if (flaw?.startsWith(TOO_SLOW)) await setImmediate();
      if (flaw !== undefined) return { flaw };
      if (parse === undefined) return { value };
      try {
        return { value: await parse(value) };
      } catch (error) {
        return { flaw: words(error) };
      }
    },
  };
}

const TOO_SLOW = "checking them took too long";
const TOO_DEEP =
  "they are nested too deeply, or have too many flaws, for the schema to check them. Try smaller ones";

/** Reads a JSON Schema. Answers a function that says what is wrong with a value. */
function checker(json: JsonObject, path: string): (value: Json) => string | undefined {
  // The validator writes into it.
  const schema = structuredClone(json) as CfSchema;
  const lookup = within(READ_MS, () => {
    const known = dereference(schema);
    checkSchema(schema as JsonObject, known, path);
    return known;
  });
  return (value) => {
    const ms = Math.ceil(CHECK_MS + (CHECK_MS_PER_KIB * jsonBytes(value)) / 1024);
    try {
      const { valid, errors } = within(ms, () => fit(value, schema, "2020-12", lookup, false));
      return valid ? undefined : flawOf(errors);
    } catch (error) {
      if (error instanceof TimeUp)
        return `${TOO_SLOW}: it was stopped after ${ms} ms. A pattern of the schema needs too long for them. Try others`;
      return error instanceof RangeError ? TOO_DEEP : words(error);
    }
  };
}

/** The first errors say which keyword of the whole failed; the last ones what is wrong where. */
const flawOf = (errors: readonly OutputUnit[]): string =>
  errors
    .slice(-10)
    .map(({ instanceLocation, error }) => short(`${instanceLocation}: ${error}`))
    .join("; ");

/** Some flaws name all that would fit. */
const short = (flaw: string): string =>
  flaw.length > MAX_FLAW ? `${flaw.slice(0, MAX_FLAW)}…`.toWellFormed() : flaw;

function objectOf(given: unknown, path: string): JsonObject {
  const { value } = encode(given, path);
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw invalid(path, "a JSON Schema is an object");
  return value as JsonObject;
}
