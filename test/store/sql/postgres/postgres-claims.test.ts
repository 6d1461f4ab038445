/**
 * Claims in Postgres: many at once, what others keep locked, answers that are lost, and what the
 * server reads.
 */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openStore } from "../../../../src/open.js";
import type { WholeStore as Store } from "../../../../src/store/capabilities.js";
import type { Granting } from "../../../../src/store/port/claims.js";
import type { Database } from "../../../../src/store/sql/database.js";
import { Connections } from "../../../../src/store/sql/postgres/connections.js";
import { PostgresDatabase } from "../../../../src/store/sql/postgres/database.js";
import { numbered, postgresDialect } from "../../../../src/store/sql/postgres/dialect.js";
import { PostgresMaintenance } from "../../../../src/store/sql/postgres/maintenance.js";
import { Notifier } from "../../../../src/store/sql/postgres/notify.js";
import { statementsIn } from "../../../../src/store/sql/statements.js";
import { SqlStore } from "../../../../src/store/sql/store.js";
import { begin, Fixture } from "../../../../src/testing/contract/fixture.js";
import { type Client, PgClient } from "../../../support/pg-client.js";
import { type Direction, Proxy } from "../../../support/proxy.js";
import { postgresUrl } from "../../../support/shared-postgres.js";

const url = postgresUrl();
const serverPort = Number(new URL(url).port);
let proxy: Proxy;
let port: number;
beforeAll(async () => {
  proxy = new Proxy(serverPort);
  port = await proxy.listen();
});
afterAll(() => proxy.close());

let count = 0;
const freshSchema = (): string => `claims-${process.pid}-${++count}`;
const at = (schema: string): string => `${url}?schema=${schema}`;

async function asOwner<T>(use: (client: Client) => Promise<T>): Promise<T> {
  const client = new PgClient({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

const take: Granting = ({ lease: { epoch, until } }, now) =>
  until > now
    ? undefined
    : { epoch: epoch + 1, until: now + 600_000, text: `claimed ${epoch + 1}` };
const claim = async (store: Store, limit = 5): Promise<string[]> =>
  (await store.claims.claim({ agent: "x", dueBy: 1_000, limit }, take)).map(({ id }) => id);
const due = (ids: readonly string[]) => ids.map((id, i) => begin(id, { agent: "x", due: i }));

/** Claims from all of these at once, until nothing is left. Answers what each was given. */
async function claimAll(stores: readonly Store[]): Promise<string[]> {
  const claimed: string[] = [];
  const worker = async (store: Store) => {
    for (let idle = 0; idle < 20; ) {
      const found = await claim(store);
      claimed.push(...found);
      idle = found.length === 0 ? idle + 1 : 0;
    }
  };
  await Promise.all(stores.flatMap((store) => Array.from({ length: 6 }, () => worker(store))));
  return claimed;
}

test("two stores that claim at once, many times, are given each session once", {
  timeout: 120_000,
}, async () => {
  const address = at(freshSchema());
  const stores = [await openStore(address), await openStore(address)];
  const ids = Array.from({ length: 300 }, (_, i) => `s${i}`);
  await stores[0]?.apply(due(ids));
  const claimed = await claimAll(stores);
  expect(claimed.toSorted()).toEqual(ids.toSorted());
  for (const { lease } of (await stores[1]?.sessions({ limit: 1_000 })) ?? [])
    expect(lease.epoch).toBe(2);
  for (const store of stores) await store.close();
});

test("negative control: without the locks two claims are given the same session", {
  timeout: 120_000,
}, async () => {
  class Careless extends PostgresDatabase {
    override readonly dialect = { ...postgresDialect, claiming: "" };
    override readonly tryLock: Database["tryLock"] = undefined;
  }
  const schema = freshSchema();
  const made = await openStore(at(schema));
  const stores = [1, 2].map(() => {
    const connections = new Connections({
      url,
      connections: 10,
      queue: 100,
      busyMs: 5_000,
      prepare: false,
    });
    const quoted = `"${schema}"`;
    const settings = {
      schema: quoted,
      space: quoted,
      tenant: "=",
      readCommitted: true,
      queue: 100,
      lockMs: 1_000,
      answerMs: 5_000,
    };
    const notices = new Notifier(connections, quoted, "=");
    const db = new Careless(connections, notices, settings);
    return new SqlStore(
      { db, watching: notices, maintenance: new PostgresMaintenance(db, connections, notices) },
      { tenant: "=" },
    );
  });
  let twice = 0;
  for (let round = 0; twice === 0 && round < 20; round++) {
    const ids = Array.from({ length: 100 }, (_, i) => `${round}-${i}`);
    await made.apply(due(ids));
    twice += (await claimAll(stores)).length - ids.length;
  }
  expect(twice).toBeGreaterThan(0);
  for (const store of [...stores, made]) await store.close();
});

test("LOCKS-1: what others are just writing to is neither waited for nor given", async () => {
  const schema = freshSchema();
  const store = await openStore(at(schema));
  await store.apply(due(["locked", "row", "free"]));
  await asOwner(async (client) => {
    const id = (await client.query(`SELECT value FROM "${schema}".meta WHERE key = 'store'`))
      .rows[0]?.["value"];
    const key = createHash("sha256")
      .update(`${id}\0"${schema}"\0=\0session\0locked`)
      .digest()
      .readBigInt64BE(0)
      .toString();
    await client.query(`BEGIN; SELECT "${schema}".begin_as('=', '1000')`);
    await client.query("SELECT pg_advisory_xact_lock($1)", [key]);
    await client.query("SELECT 1 FROM session WHERE id = 'row' FOR UPDATE");
    const began = performance.now();
    expect(await claim(store)).toEqual(["free"]);
    expect(performance.now() - began).toBeLessThan(1_000);
    await client.query("ROLLBACK");
  });
  expect(await claim(store)).toEqual(["locked", "row"]);
  await store.close();
});

test("LOCKS-1: what is saved beside claims is there for whoever is given the session, and nothing comes after it", async () => {
  const address = at(freshSchema());
  const [holder, worker] = [await openStore(address), await openStore(address)];
  for (let round = 0; round < 40; round++) {
    const f = new Fixture(`s${round}`, { agent: "x", due: 0 });
    await holder.apply([f.begin()]);
    let seen: number | undefined;
    const saving = (async () => {
      while ((await holder.apply([f.save({ items: 1 })])).ok);
      // The last one was refused.
      return f.saves.length - 1;
    })();
    for (const deadline = Date.now() + 5_000; seen === undefined && Date.now() < deadline; ) {
      const [found] = await claim(worker, 1);
      if (found !== undefined) seen = (await worker.session(found, "end"))?.end?.seq ?? 0;
    }
    const saved = await saving;
    expect(seen).toBe(saved);
    expect((await worker.session(f.id, "end"))?.end?.seq ?? 0).toBe(saved);
  }
  await holder.close();
  await worker.close();
});

test.each<Direction>(["to server", "to client"])(
  "LOCKS-2: a claim whose connection is cut %s is done once, and is answered",
  { timeout: 180_000 },
  async (direction) => {
    const address = at(freshSchema());
    const made = await openStore(address);
    const store = await openStore(address.replace(`:${serverPort}/`, `:${port}/`), {
      connections: 1,
      busyMs: 10_000,
    });
    const one = async (id: string) => {
      await made.apply([begin(id, { agent: "x", due: 0 })]);
      expect(await claim(store)).toEqual([id]);
      expect((await made.session(id)).row?.lease.epoch).toBe(2);
    };
    await one("first");
    proxy.cutAt(undefined);
    await one("second");
    const bytes = proxy.seen[direction];
    const before = proxy.cuts;
    // The end of it is the commit, and its answer.
    for (let n = 0; n <= bytes; n += n > bytes - 60 ? 2 : 97) {
      proxy.cutAt({ direction, bytes: n });
      await one(`cut at ${n}`);
      await sleep(10);
    }
    expect(proxy.cuts - before).toBeGreaterThan(15);
    await store.close();
    await made.close();
  },
);

test("the server reads along one index, however many sessions have ended and however much mail others have", async () => {
  const schema = freshSchema();
  const store = await openStore(at(schema));
  await store.apply(due(["one", "two"]));
  await asOwner(async (client) => {
    await client.query(`BEGIN; SELECT "${schema}".begin_as('=', '1000')`);
    await client.query(`INSERT INTO session (id, status, agent, branch, head, epoch, until, lease, version, archived, tags, label, wake)
      SELECT 's' || i, 'completed', CASE WHEN i % 3 = 0 THEN 'busy' ELSE 'x' END, 'l' || i, repeat('h', 200), 1, 0, 'lease', 1, 0, '[]', 'label',
        CASE WHEN i % 3 = 0 THEN 0 END FROM generate_series(1, 20000) i`);
    await client.query(
      "INSERT INTO inbox (session, id, body, drained, due) SELECT no, 'm', 'body', CASE WHEN agent = 'x' THEN 1 ELSE 0 END, 0 FROM session",
    );
    const blocksOf = async (text: string, params: readonly (string | number)[]) => {
      let own = numbered(text);
      for (const [i, value] of [...params.entries()].toReversed())
        own = own.replaceAll(`$${i + 1}`, JSON.stringify(value).replaceAll('"', "'"));
      const { rows } = await client.query(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${own}`);
      const [{ Plan }] = (rows[0] as { "QUERY PLAN": [{ Plan: Record<string, number> }] })[
        "QUERY PLAN"
      ];
      return (Plan["Shared Hit Blocks"] as number) + (Plan["Shared Read Blocks"] as number);
    };
    const { due: find, updateWake, inbox } = statementsIn(postgresDialect);
    expect(await blocksOf(find, ["=", "x", 1_000, -1, 0, 10])).toBeLessThan(50);
    expect(await blocksOf(updateWake, [1])).toBeLessThan(50);
    expect(await blocksOf(inbox, ["=", "s3", 0, 100])).toBeLessThan(50);
    // Negative control: what goes over all of it says so.
    expect(
      await blocksOf("SELECT count(*) FROM session WHERE tenant = ? AND label = ?", ["=", "label"]),
    ).toBeGreaterThan(300);
    await client.query("COMMIT");
  });
  expect(await claim(store)).toEqual(["one", "two"]);
  await store.close();
});
