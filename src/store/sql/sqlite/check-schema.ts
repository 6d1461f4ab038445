/**
 * Whether a file has the tables of a store, and nothing else. A view, a trigger, a generated column or an index over an expression is code
 * that its author chose, and SQLite runs it at the statements of the process that opens the file.
 *
 * SCHEMA-1  the schema is compared, text by text, before the first statement that reads or writes a table, migrates it, or checks its trees.
 * SCHEMA-2  a store of an older format must have the tables of that format: it is compared before it is migrated.
 */
import { HoldfastError, quote } from "../../../core/errors.js";
import { type Driver, type DriverName, openDriver } from "./driver.js";
import { formatOf, migrations } from "./schema.js";

/** Throw where the tables of a file are not those of its format. Runs nothing that the file holds. */
export function checkSchema(db: Driver, file: string): void {
  const format = formatOf(Number(db.prepare("PRAGMA user_version").get()?.[0]));
  const found = schemaOf(db);
  const expected = schemaOfFormat(format, db.name);
  const odd = found.find((entry) => !expected.has(entry)) ?? [...expected].find((entry) => !found.includes(entry));
  if (odd === undefined && found.length === expected.size) return;
  throw new HoldfastError(
    "CORRUPT",
    `${quote(file)} does not have the tables it should (${quote((odd ?? found.join(", ")).slice(0, 200))}). Another program changed it; restore a backup. Nothing was changed here.`,
    { path: file },
  );
}

export const schemaOf = (db: Driver): readonly string[] =>
  db
    .prepare("SELECT type || ' ' || name || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1")
    .all()
    .map(([entry]) => String(entry));

const known = new Map<number, ReadonlySet<string>>();

function schemaOfFormat(format: number, driver: DriverName): ReadonlySet<string> {
  const before = known.get(format);
  if (before !== undefined) return before;
  const db = openDriver(":memory:", driver);
  try {
    for (const migration of migrations.slice(0, format)) db.exec(migration);
    const entries = new Set(schemaOf(db));
    known.set(format, entries);
    return entries;
  } finally {
    db.close();
  }
}
