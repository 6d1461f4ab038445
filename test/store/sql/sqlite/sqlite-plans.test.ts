/**
 * SQLite finds rows by an index: no statement goes over a whole table, or over all rows of a
 * tenant, and none sorts a list of sessions. The plans are those of a file without statistics,
 * because a store never runs ANALYZE.
 */
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { sqliteDialect } from "../../../../src/store/sql/sqlite/dialect.js";
import type {
  Driver,
  DriverName,
  openDriver,
} from "../../../../src/store/sql/sqlite/driver/driver.js";
import { SCHEMA } from "../../../../src/store/sql/sqlite/driver/schema.js";
import { documentsWith } from "../../../../src/store/sql/sqlite/search/finding.js";
import {
  docsBy,
  inboxBy,
  recordOf,
  sessionsBy,
  sessionWith,
  statementsIn,
} from "../../../../src/store/sql/statements.js";
import {
  filesBelow,
  type Given,
  givenIn,
  type SqlInSource,
  sqlIn,
} from "../../../support/sql-in-source.js";
import { scratch } from "../../../support/stores.js";
import { useWholeLibrary } from "../../../support/whole-library.js";

type Kind = "store" | "index";

/** Every SQL text that went through a driver, by the kind of its file. */
const prepared = vi.hoisted(() => ({ store: new Set<string>(), index: new Set<string>() }));

vi.mock("../../../../src/store/sql/sqlite/driver/driver.js", async (original) => {
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
    booleans.flatMap((tag) =>
      [undefined, false, true].map((archived) =>
        sessionsBy(dialect, { agent, status, tag, archived }),
      ),
    ),
  ),
);

const searches = [
  {},
  { tag: "t" },
  { agent: "a" },
  { agent: "a", tag: "t" },
  { within: { session: "s", no: 1, branches: new Map() } },
].flatMap((scope) =>
  [{}, { role: 1, since: 1, until: 2 }].flatMap((filter) => {
    const { text } = documentsWith("", { ...scope, ...filter });
    return [`${text} LIMIT 50001`, `${text} ORDER BY text.rowid DESC LIMIT 50000`];
  }),
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
    reason: "`past` is what the statement itself has found: the branches of one past.",
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
    reason:
      "It reads the first and the last note of the tenant. Only if there may be 100,000 of them it goes over these.",
  },
  {
    statement: "DELETE FROM unindexed WHERE tenant = ? AND NOT EXISTS",
    lines: ["SEARCH unindexed USING COVERING INDEX unindexed_by_tenant (tenant=?)"],
    reason: "It removes all notes of the tenant.",
  },
  {
    statement: "SELECT coalesce(max(no), 0) FROM unindexed WHERE tenant = ?",
    lines: ["SEARCH unindexed USING COVERING INDEX unindexed_by_tenant (tenant=?)"],
    reason:
      "The highest number stands at the end of the tenant's part of the index: SQLite reads one entry.",
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
    statement:
      "SELECT count(*) FROM session WHERE status IN ('in-progress', 'waiting', 'in-doubt')",
    lines: ["SCAN session USING COVERING INDEX session_by_status"],
    reason: "A restored backup counts the sessions of all tenants that are under way, once.",
  },
  {
    statement:
      "SELECT branch, seq FROM save WHERE (branch, seq) > (?, ?) ORDER BY branch, seq LIMIT 1 OFFSET ?",
    lines: ["SEARCH save USING COVERING INDEX save_by_place ((branch,seq)>(?,?))"],
    reason:
      "stats finds the end of the next stretch of saves, of all tenants: some thousands of entries at a time.",
  },
  {
    statement: "AND (v.branch, v.seq) > (?, ?) AND (v.branch, v.seq) <= (?, ?)",
    lines: ["SEARCH v USING INDEX save_by_place ((branch,seq)>(?,?) AND (branch,seq)<(?,?))"],
    reason: "stats counts all saves, a stretch at a time.",
  },
  {
    statement: "WHERE v.no > ? AND v.no <= ? AND l.tenant = ? ORDER BY v.no",
    lines: ["SEARCH v USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    reason:
      "An index reads what came since. It passes over the saves of other tenants, fifty for each that it wants at most.",
  },
  {
    statement: "SELECT count(*) FROM save v CROSS JOIN branch l ON l.no = v.branch",
    lines: ["SEARCH v USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
    reason:
      "A tenant is told how many of its own saves the index misses. It looks at 100,000 saves at most.",
  },
  {
    statement: "d.owner IN (SELECT value FROM json_each(?))",
    lines: ["SCAN json_each VIRTUAL TABLE INDEX 1:"],
    reason: "json_each goes over the parameter: the branches of one session.",
  },
  {
    statement: "WITH RECURSIVE later",
    lines: ["SCAN p", "SCAN later"],
    reason:
      "`later` is what the statement itself has found: branches that go on from one that no session owns.",
  },
];

/**
 * Lines of a plan that go over more rows than they answer. A search by a range alone goes over the
 * rows of all tenants.
 */
const isWide = (line: string): boolean =>
  /\bAUTOMATIC\b/.test(line) ||
  (/^SCAN /.test(line) &&
    line !== "SCAN CONSTANT ROW" &&
    !/VIRTUAL TABLE INDEX \d+:.*[M=]/.test(line)) ||
  /\((tenant|drained|archived)=\?\)/.test(line) ||
  (/^SEARCH .*[<>]\??/.test(line) && !line.includes("=?"));

const dataOf = (sql: string): boolean =>
  /^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\b/i.test(sql);
const otherOf = (sql: string): boolean =>
  /^\s*(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|CREATE|ALTER|ATTACH|VACUUM)\b/i.test(sql);

/** Whether data is read or written behind something else: such a text is not explained. */
const hasData = (sql: string): boolean =>
  /;\s*(SELECT|INSERT|UPDATE|DELETE|WITH|REPLACE)\b/i.test(sql);

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
  const { openDriver: openReal } = await vi.importActual<{
    readonly openDriver: typeof openDriver;
  }>("../../../../src/store/sql/sqlite/driver/driver.js");
  await useWholeLibrary(place, () => {
    const db = openReal(place);
    db.exec(`INSERT INTO unindexed (tenant, session) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001)
      SELECT substr(key, 8), 1 FROM n CROSS JOIN meta WHERE key LIKE 'search:%'`);
    db.close();
  });
  const texts = { store: [...prepared.store], index: [...prepared.index] };
  databases.store = openReal(place);
  databases.store.exec(`INSERT INTO branch (no, tenant, id, session, fork_branch, fork_seq, body)
    WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 51000) SELECT i, '', 'branch' || i, i, NULL, 0, '' FROM n`);
  databases.index = openReal(`${place}-search`);
  databases.index.prepare("ATTACH DATABASE ? AS store").run(place);
  const all = [
    ...shared(statementsIn(dialect)),
    ...sessionLists,
    docsBy({ of: false }),
    docsBy({ of: true }),
    inboxBy(3),
  ];
  checked = [
    ...[...new Set([...all, ...texts.store])]
      .filter(dataOf)
      .map((sql) => ({ kind: "store", sql }) as const),
    ...[
      ...new Set([recordOf(dialect, "store."), sessionWith("store."), ...searches, ...texts.index]),
    ]
      .filter(dataOf)
      .map((sql) => ({ kind: "index", sql }) as const),
  ];
  const sent = [...texts.store, ...texts.index].filter((sql) => sql !== SCHEMA);
  expect(sent.filter((sql) => hasData(sql) || (!dataOf(sql) && !otherOf(sql)))).toEqual([]);
});

test("no statistics were gathered", () => {
  expect(
    databases.store.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'").all(),
  ).toEqual([]);
  expect(databases.store.prepare("SELECT count(*) FROM branch").get()?.[0]).toBeGreaterThan(50_000);
});

test("no statement goes over a whole table, or over all that a tenant has", () => {
  const wide = checked.flatMap(({ kind, sql }) => {
    const allowed = exceptions
      .filter(({ statement }) => sql.includes(statement))
      .flatMap(({ lines }) => lines);
    const lines = plan(kind, sql).filter((line) => isWide(line) && !allowed.includes(line));
    return lines.length === 0 ? [] : [{ kind, sql, lines }];
  });
  expect(wide).toEqual([]);
});

test("every exception is needed", () => {
  for (const { statement, lines, reason } of exceptions) {
    const found = checked
      .filter(({ sql }) => sql.includes(statement))
      .flatMap(({ kind, sql }) => plan(kind, sql));
    expect(found, reason).toEqual(expect.arrayContaining([...lines]));
  }
});

/**
 * Parts of statements in these files are chosen by the code beside them, and each choice is looked
 * at: `checked` begins with them.
 */
const MADE_OF_PARTS: readonly string[] = [
  "statements.ts",
  "sqlite/dialect.ts",
  "sqlite/search/finding.ts",
  "search-filters.ts",
];

/** A literal that only stands inside of other statements, all of which were looked at. */
const PIECE = "statements.ts: SELECT no FROM unindexed WHERE tenant = ? ORDER BY no … LIMIT 1";

/**
 * Other statements with a gap. All that is ever put into it was seen while the whole library was
 * used.
 */
const WITH_GAPS: readonly string[] = [
  // The columns of a save, and where a line ends: constants.
  "sqlite/append.ts: INSERT INTO save (branch, seq, …) SELECT ?, ?, … WHERE (SELECT epoch FROM session WHERE no = ?) = ?",
  "sqlite/append.ts: INSERT INTO save (branch, seq, …)\n  SELECT ?, ?, … WHERE (SELECT epoch FROM session WHERE tenant = ? AND id = ?) = ? AND … = ?",
  // All sessions, or those of some states.
  "sqlite/files/restore.ts: SELECT count(*) FROM session …",
];

/** Literals that no statement was made of, and those with a gap that are not known. */
const missing = (literals: readonly SqlInSource[]): readonly string[] =>
  literals
    .filter(({ file, text, pattern, hasGaps }) => {
      const name = `${file}: ${text}`;
      if (hasGaps && !MADE_OF_PARTS.includes(file) && !WITH_GAPS.includes(name)) return true;
      const seen = name === PIECE ? new RegExp(pattern.source.slice(1, -1)) : pattern;
      return !checked.some(({ sql }) => seen.test(sql));
    })
    .map(({ file, text }) => `${file}: ${text}`);

/** What is given to a call as SQL and cannot be told from the source. */
const handedOn: readonly string[] = [
  // They hand on what their callers give, and the callers are looked at.
  "procedure.ts: text",
  "access.ts: statement",
  "reads.ts: statement",
  "sqlite/database.ts: text",
  "sqlite/driver/prepared.ts: text",
  "sqlite/driver/driver.ts: sql",
  // One of several of the shared statements.
  "docs.ts: text",
  "claims.ts: text",
  "reads.ts: by.newestFirst",
  "reads.ts: by.oldestFirst",
  "removals.ts: text",
  "writer.ts: text",
  "writer.ts: at",
  "inbox.ts: hasten",
  // Of these, `checked` has each variant.
  "inbox.ts: inboxBy(ids.length)",
  "docs.ts: statement",
  "sqlite/search/finding.ts: this.#title",
  "sqlite/search/finding.ts: this.#record",
  // Statements with gaps, see above.
  "sqlite/append.ts: appendIf",
  "sqlite/append.ts: appendNext",
  "sqlite/files/restore.ts: `SELECT count(*) FROM session ${where}`",
  // Of these, `checked` has each variant.
  "sqlite/search/finding.ts: text + rest",
  // Tables are made, and a transaction is begun.
  "sqlite/set-up.ts: SCHEMA",
  "sqlite/files/check-schema.ts: SCHEMA",
  "sqlite/set-up.ts: begin",
  // No SQL: methods of the same name.
  "sqlite/append.ts: save.branch",
  "sqlite/maintenance.ts: of",
  "sqlite/files/temp-files.ts: name.slice(prefix.length)",
  "sqlite/driver/driver.ts: code",
  "sqlite/tenant-anchors.ts: ofTenant(branch)",
  "sqlite/tenant-anchors.ts: of && new Set([...of].map(ofTenant))",
];

/**
 * Arguments that the test does not know: neither literals, nor statements that both databases
 * share, nor on the list above.
 */
const unknown = (given: readonly Given[]): readonly string[] =>
  given
    .filter(({ kind, path, sql, file, text }) => {
      if (kind === "statement") return !isShared(path);
      if (kind === "literal") return !dataOf(sql) && (!otherOf(sql) || hasData(sql));
      return kind === "other" && !handedOn.includes(`${file}: ${text}`);
    })
    .map(({ file, text }) => `${file}: ${text}`);

function isShared(path: readonly string[]): boolean {
  let found: unknown = statementsIn(dialect);
  for (const name of path) found = (found as Readonly<Record<string, unknown>> | undefined)?.[name];
  return (
    typeof found === "string" ||
    path.some((name) => ["spendSession", "spendLine", "spendDoc"].includes(name))
  );
}

const sources = [...filesBelow("src/store/sql", ["postgres/"])];

test("every statement in the source was looked at", () => {
  const literals = sources.flatMap(({ file, source }) => sqlIn(file, source));
  expect(literals.length).toBeGreaterThan(100);
  expect(missing(literals)).toEqual([]);
});

test("every statement and every argument that is allowed for is there", () => {
  const literals = sources
    .flatMap(({ file, source }) => sqlIn(file, source))
    .map(({ file, text }) => `${file}: ${text}`);
  const given = sources
    .flatMap(({ file, source }) => givenIn(file, source))
    .map(({ file, text }) => `${file}: ${text}`);
  expect([PIECE, ...WITH_GAPS].filter((name) => !literals.includes(name))).toEqual([]);
  expect(handedOn.filter((name) => !given.includes(name))).toEqual([]);
});

test("every call that takes SQL is given a statement that was looked at", () => {
  const given = sources.flatMap(({ file, source }) => givenIn(file, source));
  expect(given.length).toBeGreaterThan(200);
  expect(unknown(given)).toEqual([]);
});

test("every list of sessions is read in its order", () => {
  expect(
    sessionLists.filter((sql) => plan("store", sql).join("; ").includes("TEMP B-TREE")),
  ).toEqual([]);
});

test("snapshots are counted in an index, and no document is read for it", () => {
  expect(plan("store", statementsIn(dialect).snapshotCount).join()).toContain(
    "USING COVERING INDEX doc_by_kind (tenant=? AND kind=?)",
  );
});

test("negative control: the look sees scans, automatic indexes, a whole tenant, and lists that are sorted", () => {
  const wide = (sql: string) => plan("store", sql).filter(isWide);
  expect(wide("SELECT tenant FROM branch WHERE id = ? AND session IS NOT NULL")).not.toEqual([]);
  expect(
    wide(`WITH RECURSIVE past (id) AS (SELECT id FROM branch WHERE tenant = ? AND id = ?
        UNION SELECT o.fork_branch FROM branch o JOIN past p ON o.id = p.id WHERE o.tenant = ? AND o.fork_branch IS NOT NULL)
      SELECT l.no FROM past JOIN branch l ON l.tenant = ? AND l.id = past.id ORDER BY l.fork_seq DESC`).join(),
  ).toContain("AUTOMATIC");
  expect(wide("SELECT body FROM branch WHERE tenant = ? AND body = ?")).not.toEqual([]);
  expect(wide("SELECT body FROM branch WHERE tenant = ? AND id = ?")).toEqual([]);
  const sorted = "SELECT no FROM session s WHERE s.tenant = ? AND s.no < ? ORDER BY s.id || s.no";
  expect(plan("store", sorted).join("; ")).toContain("TEMP B-TREE");
});

test("negative control: the look sees a range of numbers that goes over the rows of all tenants", () => {
  const wide = (sql: string) => plan("store", sql).filter(isWide);
  expect(
    wide("SELECT body FROM branch WHERE +tenant = ? AND no < ? ORDER BY no DESC LIMIT 5"),
  ).not.toEqual([]);
  expect(wide("SELECT head FROM save WHERE (branch, seq) > (?, ?) AND head = ?")).not.toEqual([]);
  expect(wide("SELECT head FROM save WHERE branch = ? AND seq > ?")).toEqual([]);
});

test.each([
  [
    "is the beginning of another",
    'db.read("SELECT no, fork_seq FROM branch WHERE tenant = ?", [])',
  ],
  [
    "is the end of another",
    'db.read("SELECT seq FROM save WHERE branch = ? ORDER BY seq DESC LIMIT 1", [])',
  ],
  ["is in lower case", 'db.read("select no from branch where body = ?", [])'],
  ["has a part that is not known", "db.read(`SELECT id FROM branch WHERE ${column} = ?`, [])"],
  ["begins with a part that is not known", "db.read(`${verb} id FROM branch WHERE body = ?`, [])"],
  ["is joined", 'db.read(["SELECT id", "FROM branch", "WHERE body = ?"].join(" "), [])'],
  ["stands behind another", 'db.exec("PRAGMA optimize; DELETE FROM branch WHERE body = 1")'],
  ["stands behind a remark", 'db.exec("/* all */ DELETE FROM branch")'],
  ["is added up", 'db.read("SELECT id" + " FROM branch", [])'],
  ["has a name that is not known", "db.prepare(text)"],
  [
    "has a name of two meanings",
    'const text = "SELECT value FROM meta WHERE key = ?"; (text) => db.prepare(text)',
  ],
  ["is chosen by a condition", 'db.prepare(isA ? "SELECT value FROM meta WHERE key = ?" : text)'],
  ["is none of the shared ones", "this.#db.read(this.#sql.branchKeys, [])"],
  [
    "is kept for later",
    "const wide = `SELECT id FROM branch WHERE ${column} = ?`; db.read(wide, [])",
  ],
])("negative control: a statement that %s is missed", (_name, source) => {
  expect([...missing(sqlIn("a.ts", source)), ...unknown(givenIn("a.ts", source))]).not.toEqual([]);
});

test.each([
  ["a literal", 'db.read("SELECT no, fork_seq FROM branch WHERE tenant = ? AND id = ?", [])'],
  [
    "a shared one",
    "const { branchKey } = this.#sql; db.read(this.#sql.branchKey, []); db.read(branchKey, [])",
  ],
  [
    "a constant",
    'const key = "SELECT no, fork_seq FROM branch WHERE tenant = ? AND id = ?"; db.prepare(key)',
  ],
])("%s that was looked at is not missed", (_name, source) => {
  expect([...missing(sqlIn("a.ts", source)), ...unknown(givenIn("a.ts", source))]).toEqual([]);
});
