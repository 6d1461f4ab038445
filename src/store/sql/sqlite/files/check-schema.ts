/**
 * Whether a file has the tables of a store, and nothing else. A view, a trigger, a generated column
 * or an index over an expression is code that its author chose, and SQLite runs it at the
 * statements of the process that opens the file.
 *
 * TABLES-1  the schema is compared, text by text, before the first statement that reads or writes a
 *           table, or checks its trees. A store that is being made has no tables yet, and nothing
 *           else either.
 */
import { HoldfastError, quote } from "../../../../core/values/errors.js";
import { type Driver, type DriverName, openDriver } from "../driver/driver.js";
import { formatOf, SCHEMA } from "../driver/schema.js";

/**
 * Throw where the tables of a file are not those of the format. Runs nothing that the file holds.
 */
export function checkSchema(db: Driver, file: string): void {
  const format = formatOf(Number(db.prepare("PRAGMA user_version").get()?.[0]));
  const found = schemaOf(db);
  const expected = format === 0 ? NONE : schemaMade(db.name);
  const odd =
    found.find((entry) => !expected.has(entry)) ??
    [...expected].find((entry) => !found.includes(entry));
  if (odd === undefined && found.length === expected.size) return;
  throw new HoldfastError(
    "CORRUPT",
    `${quote(file)} does not have the tables it should (${quote((odd ?? found.join(", ")).slice(0, 200))}). Another program changed it; restore a backup. Nothing was changed here.`,
    { path: file },
  );
}

export const schemaOf = (db: Driver): readonly string[] =>
  db
    .prepare(
      "SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1",
    )
    .all()
    .map(([entry]) => String(entry));

const NONE: ReadonlySet<string> = new Set();
let made: ReadonlySet<string> | undefined;

function schemaMade(driver: DriverName): ReadonlySet<string> {
  if (made !== undefined) return made;
  const db = openDriver(":memory:", driver);
  try {
    db.exec(SCHEMA);
    made = new Set(schemaOf(db));
    return made;
  } finally {
    db.close();
  }
}
