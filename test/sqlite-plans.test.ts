/** Lists of sessions in SQLite are read in their order: none is sorted, however many sessions there are. */
import { expect, test } from "vitest";
import { sqliteDialect } from "../src/store/sql/sqlite/dialect.js";
import { openDriver } from "../src/store/sql/sqlite/driver.js";
import { migrations } from "../src/store/sql/sqlite/schema.js";
import { sessionsBy } from "../src/store/sql/statements.js";

const db = openDriver(":memory:");
for (const migration of migrations) db.exec(migration);
const plan = (statement: string): string => {
  const params = [...statement.matchAll(/\?/g)].map(() => null);
  return db
    .prepare(`EXPLAIN QUERY PLAN ${statement}`)
    .all(...params)
    .map((row) => String(row[3]))
    .join("; ");
};

const booleans = [false, true];
const cases = booleans.flatMap((named) =>
  booleans.flatMap((agent) =>
    booleans.flatMap((status) =>
      booleans.flatMap((tag) => [undefined, false, true].map((archived) => ({ named, agent, status, tag, archived, alone: true }))),
    ),
  ),
);

test.each(cases)("%o", (filter) => {
  expect(
    plan(
      sessionsBy(
        sqliteDialect(() => 0),
        filter,
      ),
    ),
  ).not.toContain("TEMP B-TREE");
});

test("negative control: the look sees a list that is sorted", () => {
  expect(plan("SELECT no FROM session s WHERE s.tenant = ? AND s.no < ? ORDER BY s.id || s.no")).toContain("TEMP B-TREE");
  expect(plan("SELECT no FROM session s WHERE s.tenant = ? AND s.no < ? ORDER BY s.no DESC LIMIT CAST(? AS bigint)")).toContain(
    "TEMP B-TREE",
  );
});
