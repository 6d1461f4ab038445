/**
 * Names that Postgres is given.
 *
 * POSTGRES-4  no name is cut. Postgres takes the first 63 bytes of a longer name without an error,
 *             and two long names would mean one thing.
 */
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { typeName } from "../../../core/values/ids.js";

const MAX_BYTES = 63;
const CONTROL = /\p{Cc}/u;

/** Checks the name of a schema, from the options or from the address. */
export function checkSchema(name: unknown): string {
  if (typeof name !== "string") throw refused("schema", `its name is text, not ${typeName(name)}`);
  if (name === "") throw refused("schema", "its name is empty");
  refuseCut(name, "schema");
  // It stands in the bodies of functions, which are quoted by $$.
  if (name.includes("$"))
    throw refused("schema", `${quote(name)} holds a "$". Choose a name without it`);
  if (CONTROL.test(name) || !name.isWellFormed())
    throw refused(
      "schema",
      `${quote(name)} holds a control character or half a character. Choose a name without it`,
    );
  if (name.startsWith("pg_"))
    throw refused(
      "schema",
      `${quote(name)} begins with "pg_", which Postgres keeps for itself. Choose another`,
    );
  return name;
}

/** POSTGRES-4 */
export function refuseCut(name: string, what: "schema" | "database" | "user"): void {
  const bytes = Buffer.byteLength(name);
  if (bytes > MAX_BYTES)
    throw refused(
      what,
      `${quote(name)} has ${bytes} bytes. Postgres cuts names at ${MAX_BYTES}: choose a shorter one`,
      MAX_BYTES,
    );
}

const refused = (path: string, why: string, limit?: number): HoldfastError =>
  new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, {
    path,
    ...(limit === undefined ? undefined : { limit }),
  });
