/** Claims in one SQLite file: what they read of a large store, and several at once. */
import { join } from "node:path";
import { expect, test } from "vitest";
import type { WholeStore as Store } from "../../../../src/store/capabilities.js";
import { type Granting, MAX_CANDIDATES } from "../../../../src/store/port/claims.js";
import { sqliteDialect } from "../../../../src/store/sql/sqlite/dialect.js";
import { type Driver, openDriver } from "../../../../src/store/sql/sqlite/driver/driver.js";
import { openSqlite } from "../../../../src/store/sql/sqlite/sqlite.js";
import { statementsIn } from "../../../../src/store/sql/statements.js";
import { begin } from "../../../../src/testing/contract/fixture.js";
import { scratch } from "../../../support/stores.js";

const directory = scratch();
let count = 0;
const fresh = (): string => join(directory, `claims-${++count}.db`);

function inFile<T>(path: string, use: (db: Driver) => T): T {
  const db = openDriver(path);
  try {
    return use(db);
  } finally {
    db.close();
  }
}

const take: Granting = ({ lease: { epoch, until } }, now) =>
  until > now ? undefined : { epoch: epoch + 1, until: now + 60_000, text: `claimed ${epoch + 1}` };

/**
 * Sessions as rows, and nothing else of them: most have ended, some are another agent's and have
 * mail.
 */
async function large(path: string, sessions: number): Promise<void> {
  await (await openSqlite(path)).close();
  inFile(path, (db) =>
    db.exec(`
      BEGIN;
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${sessions})
        INSERT INTO session (tenant, id, status, agent, branch, head, epoch, until, lease, version, archived, tags, label, wake)
        SELECT '', 's' || i, 'completed', CASE WHEN i % 3 = 0 THEN 'busy' ELSE 'x' END, 'l' || i, printf('%.200c', 'h'), 1, 0, 'lease', 1, 0, '[]',
          printf('%.200c', 'l'), CASE WHEN i % 3 = 0 THEN 0 END FROM n;
      INSERT INTO inbox (session, id, body, drained, due) SELECT no, 'm', 'body', 0, 0 FROM session WHERE agent = 'busy';
      INSERT INTO inbox (session, id, body, drained, due) SELECT no, 'm', 'body', 1, 0 FROM session WHERE agent = 'x';
      COMMIT;
    `),
  );
}

async function medianMs(times: number, run: () => Promise<unknown>): Promise<number> {
  const took: number[] = [];
  for (let i = 0; i < times; i++) {
    const began = performance.now();
    await run();
    took.push(performance.now() - began);
  }
  return took.toSorted((a, b) => a - b)[times >> 1] as number;
}

test("no statement of a claim, or of mail, goes over all sessions or all mail", async () => {
  const path = fresh();
  await (await openSqlite(path)).close();
  inFile(path, (db) => {
    const { due, dueNow, updateWake, hasten, post, inbox, drain } = statementsIn(
      sqliteDialect(() => 0),
    );
    const planOf = (text: string) =>
      db
        .prepare(`EXPLAIN QUERY PLAN ${text}`)
        .all(...Array.from({ length: text.split("?").length - 1 }, () => 1))
        .map((row) => String(row[3]));
    for (const text of [due, dueNow, updateWake, hasten, post, inbox, drain]) {
      const plan = planOf(text).join("\n");
      expect(plan, text).toMatch(/SEARCH/);
      expect(plan, text).not.toMatch(/SCAN|TEMP B-TREE/);
    }
    expect(planOf(due)).toEqual([
      expect.stringMatching(/session_by_wake \(tenant=\? AND agent=\? AND \(?wake/),
    ]);
    // Negative control: a plan that goes over all of it says so.
    expect(planOf("SELECT count(*) FROM inbox WHERE due = ?").join()).toMatch(/SCAN/);
  });
});

test("a claim in a large store takes no longer than in an empty one, whether it finds something or not", async () => {
  const [small, big] = [fresh(), fresh()];
  await large(small, 10);
  await large(big, 100_000);
  const stores: Store[] = [await openSqlite(small), await openSqlite(big)];
  for (const store of stores) {
    const nothing = await medianMs(101, () =>
      store.claims.claim({ agent: "x", dueBy: 100, limit: 10 }, take),
    );
    // Well under one on a machine that does nothing else; what reads all of it takes tens.
    expect(nothing).toBeLessThan(2);
    await store.apply([begin("due", { agent: "x", due: 50 })]);
    const found = await medianMs(101, () =>
      store.claims.claim({ agent: "x", dueBy: 100, limit: 10 }, () => undefined),
    );
    expect(found).toBeLessThan(2);
    await store.close();
  }
});

test("a claim looks at a bounded number of sessions, however many are held", async () => {
  const path = fresh();
  await large(path, 4_000);
  const store = await openSqlite(path);
  let looked = 0;
  const passOver = () => void (looked += 1);
  expect(await store.claims.claim({ agent: "busy", dueBy: 100, limit: 3 }, passOver)).toEqual([]);
  expect(looked).toBe(MAX_CANDIDATES);
  const last: Granting = (row, now) => (++looked === MAX_CANDIDATES ? take(row, now) : undefined);
  looked = 0;
  expect(
    (await store.claims.claim({ agent: "busy", dueBy: 100, limit: 3 }, last)).map(({ id }) => id),
  ).toEqual([`s${3 * MAX_CANDIDATES}`]);
  await store.close();
});

test("several connections that claim at once are given each session once", async () => {
  const path = fresh();
  const stores = await Promise.all([openSqlite(path), openSqlite(path), openSqlite(path)]);
  await stores[0]?.apply(
    Array.from({ length: 90 }, (_, i) => begin(`s${i}`, { agent: "x", due: i })),
  );
  const claim = async (store: Store) =>
    (await store.claims.claim({ agent: "x", dueBy: 100, limit: 4 }, take)).map(({ id }) => id);
  const claimed = (
    await Promise.all(Array.from({ length: 30 }, (_, i) => claim(stores[i % 3] as Store)))
  ).flat();
  expect(new Set(claimed).size).toBe(90);
  expect(claimed).toHaveLength(90);
  for (const store of stores) await store.close();
});
