/**
 * SQLite finds rows by an index: no statement goes over a whole table, or over all rows of a tenant, and none sorts a list of sessions. The
 * plans are those of a file without statistics, because a store never runs ANALYZE.
 */
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { sqliteDialect } from "../src/store/sql/sqlite/dialect.js";
import type { Driver, DriverName, openDriver } from "../src/store/sql/sqlite/driver.js";
import { docsBy, mailBy, recordOf, sessionsBy, sessionWith, statementsIn } from "../src/store/sql/statements.js";
import { literalsIn, type SqlInSource, sqlBelow } from "./support/sql-in-source.js";
import { scratch } from "./support/stores.js";
import { useWholeLibrary } from "./support/whole-library.js";

type Kind = "store" | "index";

/** Every SQL text that went through a driver, by the kind of its file. */
const prepared = vi.hoisted(() => ({ store: new Set<string>(), index: new Set<string>() }));

vi.mock("../src/store/sql/sqlite/driver.js", async (original) => {
  const real = await original<{ readonly openDriver: typeof openDriver }>();
  return {
    ...real,
    openDriver(path: string, name?: DriverName): Driver {
      const db = real.openDriver(path, name);
      const texts = path.includes("-search") ? prepared.index : prepared.store;
      return {
        name: db.name,
        prepare(sql) {
          texts.add(sql);
          return db.prepare(sql);
        },
        exec(sql) {
          texts.add(sql);
          db.exec(sql);
        },
        get inTransaction() {
          return db.inTransaction;
        },
        copyTo: (to, pages, step) => db.copyTo(to, pages, step),
        close: () => db.close(),
      };
    },
  };
});

const dialect = sqliteDialect(() => 0);

/** All statements that both databases share, also those that a program seldom meets. */
function* shared(statements: object): Generator<string> {
  for (const value of Object.values(statements)) {
    if (typeof value === "string") yield value;
    else if (value !== undefined) yield* shared(value);
  }
}

const booleans = [false, true];
const sessionLists = booleans.flatMap((agent) =>
  booleans.flatMap((status) =>
    booleans.flatMap((tag) => [undefined, false, true].map((archived) => sessionsBy(dialect, { agent, status, tag, archived }))),
  ),
);

/** What a plan may say for all that, for these statements alone. */
interface Exception {
  /** A part of the statement. */
  readonly statement: string;
  /** Whole lines of its plan. */
  readonly lines: readonly string[];
  readonly reason: string;
}

const exceptions: readonly Exception[] = [
  {
    statement: "WITH RECURSIVE past",
    lines: ["SCAN p", "SCAN past"],
    reason: "`past` is what the statement itself has found: the lines of one past.",
  },
  {
    statement: "SELECT count(*), (SELECT count(*) FROM (SELECT agent",
    lines: ["SEARCH session USING COVERING INDEX session_of_tenant (tenant=?)", "SCAN a"],
    reason: "stats counts all sessions and agents.",
  },
  {
    statement: "SELECT coalesce(sum(octet_length(bytes)), 0) FROM blob",
    lines: ["SEARCH blob USING INDEX sqlite_autoindex_blob_1 (tenant=?)"],
    reason: "stats adds up the bytes of all blobs.",
  },
  {
    statement: "ORDER BY no DESC LIMIT 1) - (SELECT no FROM unindexed",
    lines: ["SEARCH unindexed USING COVERING INDEX unindexed_by_tenant (tenant=?)"],
    reason: "It reads the first and the last note of the tenant. Only if there may be 100,000 of them it goes over these.",
  },
  {
    statement: "DELETE FROM unindexed WHERE tenant = ? AND NOT EXISTS",
    lines: ["SEARCH unindexed USING COVERING INDEX unindexed_by_tenant (tenant=?)"],
    reason: "It removes all notes of the tenant.",
  },
  {
    statement: "SELECT coalesce(max(no), 0) FROM unindexed WHERE tenant = ?",
    lines: ["SEARCH unindexed USING COVERING INDEX unindexed_by_tenant (tenant=?)"],
    reason: "The highest number stands at the end of the tenant's part of the index: SQLite reads one entry.",
  },
  {
    statement: "FROM sqlite_schema ORDER BY 1",
    lines: ["SCAN sqlite_schema"],
    reason: "Opening a store compares all of its tables and indexes, some forty.",
  },
  {
    statement: "SELECT count(*) FROM meta",
    lines: ["SCAN meta"],
    reason: "A backup begins its read transaction. The table has some five rows.",
  },
  {
    statement: "SELECT count(*) FROM session",
    lines: ["SCAN session USING COVERING INDEX session_of_tenant"],
    reason: "A backup, and a restored one, count the sessions of all tenants once.",
  },
  {
    statement: "SELECT count(*) FROM session WHERE status IN ('in-progress', 'waiting', 'in-doubt')",
    lines: ["SCAN session USING COVERING INDEX session_by_status"],
    reason: "A restored backup counts the sessions of all tenants that are under way, once.",
  },
  {
    statement: "d.owner IN (SELECT value FROM json_each(?))",
    lines: ["SCAN json_each VIRTUAL TABLE INDEX 1:"],
    reason: "json_each goes over the parameter: the lines of one session.",
  },
  {
    statement: "DELETE FROM word WHERE NOT EXISTS",
    lines: ["SCAN word", "SCAN t VIRTUAL TABLE INDEX 257:"],
    reason: "A redaction looks for words that no text has any more. The index of terms is asked for each word.",
  },
];

/** Lines of a plan that go over more rows than they answer. */
const isWide = (line: string): boolean =>
  /\bAUTOMATIC\b/.test(line) ||
  (/^SCAN /.test(line) && line !== "SCAN CONSTANT ROW" && !/VIRTUAL TABLE INDEX \d+:.*M/.test(line)) ||
  /\((tenant|drained|archived)=\?\)/.test(line);

const dataOf = (sql: string): boolean => /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\b/i.test(sql);
const otherOf = (sql: string): boolean => /^\s*(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|CREATE|ALTER|ATTACH|VACUUM)\b/i.test(sql);

const databases = {} as Record<Kind, Driver>;
let checked: readonly { readonly kind: Kind; readonly sql: string }[] = [];

function plan(kind: Kind, sql: string): readonly string[] {
  const params = [...sql.matchAll(/\?/g)].map(() => null);
  return databases[kind]
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .all(...params)
    .map((row) => String(row[3]));
}

beforeAll(async () => {
  const directory = scratch();
  const place = join(directory, "used.db");
  const { openDriver: openReal } = await vi.importActual<{ readonly openDriver: typeof openDriver }>("../src/store/sql/sqlite/driver.js");
  await useWholeLibrary(place, () => {
    const db = openReal(place);
    db.exec(`INSERT INTO unindexed (tenant, session) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001)
      SELECT substr(key, 8), 1 FROM n CROSS JOIN meta WHERE key LIKE 'search:%'`);
    db.close();
  });
  const texts = { store: [...prepared.store], index: [...prepared.index] };
  databases.store = openReal(place);
  databases.store.exec(`INSERT INTO line (no, tenant, id, session, origin_line, origin_seq, body)
    WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 51000) SELECT i, '', 'line' || i, i, NULL, 0, '' FROM n`);
  databases.index = openReal(`${place}-search`);
  databases.index.prepare("ATTACH DATABASE ? AS store").run(place);
  databases.index.exec("CREATE VIRTUAL TABLE IF NOT EXISTS temp.term USING fts5vocab('main', 'text', 'row')");
  const all = [...shared(statementsIn(dialect)), ...sessionLists, docsBy({ of: false }), docsBy({ of: true }), mailBy(3)];
  checked = [
    ...[...new Set([...all, ...texts.store])].filter(dataOf).map((sql) => ({ kind: "store", sql }) as const),
    ...[...new Set([recordOf(dialect, "store."), sessionWith("store."), ...texts.index])]
      .filter(dataOf)
      .map((sql) => ({ kind: "index", sql }) as const),
  ];
  expect([...texts.store, ...texts.index].filter((sql) => !dataOf(sql) && !otherOf(sql))).toEqual([]);
});

test("no statistics were gathered", () => {
  expect(databases.store.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'").all()).toEqual([]);
  expect(databases.store.prepare("SELECT count(*) FROM line").get()?.[0]).toBeGreaterThan(50_000);
});

test("no statement goes over a whole table, or over all that a tenant has", () => {
  const wide = checked.flatMap(({ kind, sql }) => {
    const allowed = exceptions.filter(({ statement }) => sql.includes(statement)).flatMap(({ lines }) => lines);
    const lines = plan(kind, sql).filter((line) => isWide(line) && !allowed.includes(line));
    return lines.length === 0 ? [] : [{ kind, sql, lines }];
  });
  expect(wide).toEqual([]);
});

test("every exception is needed", () => {
  for (const { statement, lines, reason } of exceptions) {
    const found = checked.filter(({ sql }) => sql.includes(statement)).flatMap(({ kind, sql }) => plan(kind, sql));
    expect(found, reason).toEqual(expect.arrayContaining([...lines]));
  }
});

/** Pieces that are put into other statements, each of which is looked at. */
const missing = (literals: readonly SqlInSource[]): readonly SqlInSource[] =>
  literals.filter(({ pattern }) => !checked.some(({ sql }) => pattern.test(sql)));

test("every statement in the source was looked at", () => {
  const literals = sqlBelow("src/store/sql", ["postgres/"]);
  expect(literals.length).toBeGreaterThan(100);
  expect(missing(literals).map(({ file, text }) => `${file}: ${text}`)).toEqual([]);
});

test("every list of sessions is read in its order", () => {
  expect(sessionLists.filter((sql) => plan("store", sql).join("; ").includes("TEMP B-TREE"))).toEqual([]);
});

test("snapshots are counted in an index, and no document is read for it", () => {
  expect(plan("store", statementsIn(dialect).snapshotCount).join()).toContain("USING COVERING INDEX doc_by_kind (tenant=? AND kind=?)");
});

test("negative control: the look sees scans, automatic indexes, a whole tenant, and lists that are sorted", () => {
  const wide = (sql: string) => plan("store", sql).filter(isWide);
  expect(wide("SELECT tenant FROM line WHERE id = ? AND session IS NOT NULL")).not.toEqual([]);
  expect(
    wide(`WITH RECURSIVE past (id) AS (SELECT id FROM line WHERE tenant = ? AND id = ?
        UNION SELECT o.origin_line FROM line o JOIN past p ON o.id = p.id WHERE o.tenant = ? AND o.origin_line IS NOT NULL)
      SELECT l.no FROM past JOIN line l ON l.tenant = ? AND l.id = past.id ORDER BY l.origin_seq DESC`).join(),
  ).toContain("AUTOMATIC");
  expect(wide("SELECT body FROM line WHERE tenant = ? AND body = ?")).not.toEqual([]);
  expect(wide("SELECT body FROM line WHERE tenant = ? AND id = ?")).toEqual([]);
  const sorted = "SELECT no FROM session s WHERE s.tenant = ? AND s.no < ? ORDER BY s.id || s.no";
  expect(plan("store", sorted).join("; ")).toContain("TEMP B-TREE");
});

test("negative control: a statement that was not looked at is missed", () => {
  const [parts] = literalsIn("const a = `SELECT ${b(`x${'y'}`)} FROM nowhere`; // `SELECT 1`").filter(([first]) => first === "SELECT ");
  expect(parts).toEqual(["SELECT ", " FROM nowhere"]);
  expect(missing([{ file: "a.ts", text: "", pattern: /SELECT [\s\S]* FROM nowhere/ }])).toHaveLength(1);
});
