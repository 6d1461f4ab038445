/**
 * A store in Postgres: opening it, what it refuses and says, tenants, poolers, and what is asked of
 * the server.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Save } from "../../../../src/core/journal/save.js";
import { HoldfastError, open } from "../../../../src/index.js";
import { openStore } from "../../../../src/open.js";
import type { WholeStore as Store } from "../../../../src/store/capabilities.js";
import { Fixture } from "../../../../src/testing/contract/fixture.js";
import { storeContract } from "../../../../src/testing/index.js";
import { errorOf } from "../../../support/error-of.js";
import { type Client, PgClient } from "../../../support/pg-client.js";
import { type Server, startPostgres } from "../../../support/postgres.mjs";
import { Pooler } from "../../../support/proxy.js";
import { eachNth, isThorough } from "../../../support/runs.js";

let server: Server;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

async function as<T>(user: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new PgClient({ connectionString: server.url(user) });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

let count = 0;
const freshSchema = (): string => `s${++count}`;
const at = (schema: string, user = "holdfast"): string =>
  `${server.url(user)}?schema=${encodeURIComponent(schema)}`;

async function saveOne(address: string, options: object = {}): Promise<void> {
  const hold = await open(address, options);
  const session = await hold.session("a");
  session.append({ role: "user", content: "hello" });
  await session.checkpoint();
  await hold.close();
}

async function refusal(call: () => Promise<unknown>): Promise<HoldfastError> {
  const error = await errorOf(call);
  expect(error).toBeInstanceOf(HoldfastError);
  return error as HoldfastError;
}

describe("opening", () => {
  test.each(["holdfast", "My Schema", 'a"b; DROP SCHEMA public; --', "ünïcode", "select"])(
    "any schema name is quoted: %s",
    async (schema) => {
      const hold = await open(server.url(), { schema });
      const session = await hold.session("a");
      session.append({ role: "user", content: "hello" });
      await session.checkpoint();
      expect((await hold.verify()).ok).toBe(true);
      await hold.close();
      const names = await server.run("SELECT 1 FROM pg_namespace WHERE nspname = $1", {
        values: [schema],
      });
      expect(names).toHaveLength(1);
      expect(await server.run("SELECT 1 FROM pg_namespace WHERE nspname = 'public'")).toHaveLength(
        1,
      );
    },
  );

  const cut = "s".repeat(63);

  test.each([
    ["63 bytes", cut],
    ["63 bytes of longer characters", "ü".repeat(31).concat("s")],
  ])("POSTGRES-4: a name of %s is a schema of that name", async (_, schema) => {
    await saveOne(at(schema));
    expect(
      await server.run("SELECT 1 FROM pg_namespace WHERE nspname = $1", { values: [schema] }),
    ).toHaveLength(1);
  });

  test.each([
    ["64 bytes", `${cut}1`, "64 bytes"],
    ["64 bytes of longer characters", "ü".repeat(32), "64 bytes"],
    ["a dollar sign", "a$b", '"$"'],
    ["dollar quotes", "a$$; DROP SCHEMA public; --", '"$"'],
    ["a line break", "a\nb", "control character"],
    ["the beginning of the server's own", "pg_mine", '"pg_"'],
    ["nothing in it", "", "empty"],
  ])(
    "POSTGRES-4: a schema name with %s is refused, in the options and in the address",
    async (_, schema, said) => {
      const before = await server.run("SELECT nspname FROM pg_namespace ORDER BY 1");
      for (const call of [() => open(server.url(), { schema }), () => open(at(schema))]) {
        const error = await refusal(call);
        expect(error).toMatchObject({ code: "INVALID_OPTION", details: { path: "schema" } });
        expect(error.message).toContain(said);
      }
      expect(await server.run("SELECT nspname FROM pg_namespace ORDER BY 1")).toEqual(before);
    },
  );

  test("POSTGRES-4: a database or a role whose name would be cut is refused", async () => {
    await server.run(`CREATE DATABASE "${cut}" OWNER holdfast`);
    const address = (change: (url: URL) => void): string => {
      const url = new URL(server.url());
      change(url);
      return url.toString();
    };
    await saveOne(address((url) => (url.pathname = cut)));
    const database = await refusal(() => open(address((url) => (url.pathname = `${cut}1`))));
    expect(database).toMatchObject({
      code: "INVALID_OPTION",
      details: { path: "database", limit: 63 },
    });
    const user = await refusal(() => open(address((url) => (url.username = `${cut}1`))));
    expect(user).toMatchObject({ code: "INVALID_OPTION", details: { path: "user", limit: 63 } });
  });

  test("a schema that is dropped while it is open acknowledges nothing, also once it is made again", async () => {
    const schema = freshSchema();
    const hold = await open(at(schema));
    const session = await hold.session("a");
    const save = async (): Promise<unknown> => {
      session.append({ role: "user", content: "hello" });
      return session.checkpoint();
    };
    await save();
    await server.run(`DROP SCHEMA "${schema}" CASCADE`);
    expect(await refusal(save)).toMatchObject({ code: "NOT_A_STORE" });
    expect(await refusal(() => hold.sessions.list())).toMatchObject({ code: "NOT_A_STORE" });
    const again = await open(at(schema));
    expect(await refusal(save)).toMatchObject({ code: "STALE_LEASE" });
    expect(session.signal.aborted).toBe(true);
    expect((await again.sessions.list()).items).toEqual([]);
    await again.close();
    await hold.close();
  });

  test("the address may name the schema, and two schemas are two stores", async () => {
    const [one, two] = [freshSchema(), freshSchema()];
    await saveOne(at(one));
    const hold = await open(at(two));
    expect(await hold.sessions.get("a")).toBeUndefined();
    await hold.close();
    const again = await open(server.url(), { schema: one });
    expect(await again.sessions.get("a")).toBeDefined();
    await again.close();
  });

  test("POSTGRES-1: sixteen that open a new schema at the same moment all get it", async () => {
    const address = at(freshSchema());
    const holds = await Promise.all(
      Array.from({ length: 16 }, () => open(address, { connections: 2 })),
    );
    for (const hold of holds) expect(await hold.stats()).toMatchObject({ sessions: 0 });
    for (const hold of holds) await hold.close();
  });

  test("POSTGRES-1: a role that may make nothing can use what is there, and is told what to do where nothing is", async () => {
    const schema = freshSchema();
    await server.run(
      `CREATE ROLE clerk LOGIN; CREATE SCHEMA "${schema}" AUTHORIZATION clerk; REVOKE CREATE ON DATABASE holdfast FROM PUBLIC`,
    );
    await saveOne(at(schema, "clerk"));
    await saveOne(at(schema, "clerk"));
    const error = await refusal(() => open(at("not there", "clerk")));
    expect(error.code).toBe("DENIED");
    expect(error.message).toMatch(/CREATE SCHEMA "not there" AUTHORIZATION/);
    // In a schema that belongs to somebody else.
    const other = freshSchema();
    await server.run(`CREATE SCHEMA "${other}"; GRANT USAGE ON SCHEMA "${other}" TO clerk`);
    expect((await refusal(() => open(at(other, "clerk")))).code).toBe("DENIED");
    // Nothing was left half made.
    expect(
      await server.run(
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1",
        { values: [other] },
      ),
    ).toEqual([]);
  });

  test("POSTGRES-2: a schema of a newer version is refused and left alone", async () => {
    const schema = freshSchema();
    await saveOne(at(schema));
    await server.run(`UPDATE "${schema}".meta SET value = '99' WHERE key = 'format'`);
    const error = await refusal(() => open(at(schema)));
    expect(error).toMatchObject({ code: "NEWER_FORMAT", details: { found: 99 } });
    expect(await server.run(`SELECT value FROM "${schema}".meta WHERE key = 'format'`)).toEqual([
      { value: "99" },
    ]);
  });

  test("a schema with tables of another program is refused and left alone", async () => {
    const schema = freshSchema();
    await server.run(
      `CREATE SCHEMA "${schema}" AUTHORIZATION holdfast; CREATE TABLE "${schema}".theirs (x int)`,
    );
    expect((await refusal(() => open(at(schema)))).code).toBe("NOT_A_STORE");
    const tables = await server.run("SELECT tablename FROM pg_tables WHERE schemaname = $1", {
      values: [schema],
    });
    expect(tables).toEqual([{ tablename: "theirs" }]);
  });

  test("what is wrong with an address is said, and never its password", async () => {
    const none = `postgres://holdfast:hunter2@127.0.0.1:1/holdfast`;
    const began = performance.now();
    const refused = await refusal(() => open(none));
    expect(refused).toMatchObject({ code: "UNREACHABLE", retryable: true });
    expect(
      performance.now() - began,
      "nobody waits for a server that was never there",
    ).toBeLessThan(2_000);
    const missing = await refusal(() => open(server.url("holdfast", "no_such_database")));
    expect(missing.code).toBe("NOT_FOUND");
    expect(missing.message).toMatch(/createdb/);
    await server.run("CREATE ROLE guarded LOGIN PASSWORD 'right'");
    const wrong = await refusal(() => open(server.url("guarded:hunter2")));
    expect(wrong.code).toBe("DENIED");
    expect(wrong.message).toMatch(/password/);
    const nobody = await refusal(() => open(server.url("nobody_we_know")));
    expect(nobody.code).toBe("DENIED");
    for (const error of [refused, missing, wrong, nobody]) {
      expect(JSON.stringify([error.message, error.details])).not.toMatch(/hunter2/);
      expect(error.message).not.toMatch(/\p{Cc}/u);
    }
  });

  test("a database that does not keep UTF-8 is refused", async () => {
    await server.run(
      "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C' OWNER holdfast",
      { database: "postgres" },
    );
    const error = await refusal(() => open(server.url("holdfast", "latin")));
    expect(error).toMatchObject({ code: "UNSUPPORTED", details: { found: "LATIN1" } });
  });

  test("only Postgres takes its options, and not any values", async () => {
    for (const option of [{ schema: "x" }, { connections: 2 }, { queue: 5 }, { prepare: true }])
      expect((await refusal(() => open("memory:", option))).code).toBe("INVALID_OPTION");
    for (const option of [
      { schema: "" },
      { schema: "a\0b" },
      { connections: 0 },
      { connections: 1.5 },
      { queue: -1 },
      { prepare: "yes" },
    ])
      expect((await refusal(() => open(server.url(), option as never))).code).toMatch(/^INVALID_/);
  });
});

describe("tenants", () => {
  test("PORT-9: row level security is forced on every table, and shows nothing to those who do not say who they are", async () => {
    const schema = freshSchema();
    for (const tenant of ["acme", "other"]) await saveOne(at(schema), { tenant });
    await saveOne(at(schema));
    const tables = await server.run(
      `SELECT c.relname, c.relrowsecurity, c.relforcerowsecurity FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND c.relkind = 'r' AND c.relname <> 'meta'`,
      { values: [schema] },
    );
    expect(tables.length).toBeGreaterThan(8);
    for (const table of tables)
      expect(table).toMatchObject({ relrowsecurity: true, relforcerowsecurity: true });
    const rowsSeen = (client: Client) =>
      client.query(
        `SELECT (SELECT count(*)::int FROM "${schema}".session) AS sessions, (SELECT count(*)::int FROM "${schema}".save) AS saves`,
      );
    await as("holdfast", async (client) => {
      expect((await rowsSeen(client)).rows).toEqual([{ sessions: 0, saves: 0 }]);
      await client.query(`BEGIN; SELECT "${schema}".begin_as('=acme', '1000')`);
      expect((await rowsSeen(client)).rows).toEqual([{ sessions: 1, saves: 1 }]);
      expect(
        (
          await client.query(
            `UPDATE "${schema}".session SET status = 'stolen' WHERE tenant = '=other'`,
          )
        ).rowCount,
      ).toBe(0);
      await expect(
        client.query(`UPDATE "${schema}".session SET tenant = '=other'`),
      ).rejects.toThrow(/row-level security/);
      await client.query("ROLLBACK");
      // What the transaction said does not stay behind.
      expect((await rowsSeen(client)).rows).toEqual([{ sessions: 0, saves: 0 }]);
    });
    // Negative control: whom row level security does not hold sees them all.
    await as("postgres", async (client) =>
      expect((await rowsSeen(client)).rows).toEqual([{ sessions: 3, saves: 3 }]),
    );
  });

  test("PORT-9: a superuser's tenants do not see each other either", async () => {
    const schema = freshSchema();
    await saveOne(at(schema, "postgres"), { tenant: "acme" });
    const hold = await open(at(schema, "postgres"), { tenant: "other" });
    expect(await hold.stats()).toMatchObject({ sessions: 0, messages: 0 });
    expect((await hold.sessions.list()).items).toEqual([]);
    await hold.close();
  });
});

describe("search", () => {
  test("goes by the index of words, below the policies", async () => {
    const schema = freshSchema();
    const hold = await open(at(schema));
    const session = await hold.session("s");
    for (let i = 0; i < 300; i++) session.append({ role: "user", content: `kelp number ${i}` });
    await session.checkpoint();
    await session.close();
    const scans = async (): Promise<unknown> => {
      const text =
        "SELECT idx_scan::int AS n FROM pg_stat_user_indexes WHERE schemaname = $1 AND indexrelname = 'passage_by_words'";
      return (await server.run(text, { values: [schema] }))[0]?.["n"];
    };
    await hold.sessions.index();
    for (let i = 0; i < 10; i++)
      expect((await hold.sessions.search(`kelp ${i}`)).items).toHaveLength(1);
    await hold.close();
    // A server process tells of its work when it ends, and a little later. Each search looks for
    // the words, and for the word under which damage is kept.
    await expect.poll(scans, { interval: 50 }).toBe(20);
  });
});

describe("what is asked of the server", () => {
  const contract = eachNth(8, storeContract);

  test("LOCKS-3: behind a pooler that moves every transaction to another connection, all of the contract holds", {
    timeout: 120_000,
  }, async () => {
    const pooler = new Pooler(server.port, 3);
    const port = await pooler.listen();
    const behind = (schema: string) => at(schema).replace(`:${server.port}/`, `:${port}/`);
    const traits = { durable: true, oneMachine: false, shared: true };
    const make = () => {
      const schema = freshSchema();
      return {
        traits,
        open: (tenant?: string) =>
          openStore(behind(schema), {
            connections: 3,
            ...(tenant === undefined ? {} : { tenant }),
          }),
      };
    };
    for (const { run } of contract) await run(make);
    expect(pooler.switches).toBeGreaterThan(isThorough ? 1_000 : 100);
    // Negative control: what does rely on its connection fails there.
    const hold = await open(behind(freshSchema()), { prepare: true, connections: 1, busyMs: 200 });
    const error = await errorOf(async () => {
      for (let i = 0; i < 10; i++) await hold.stats();
    });
    expect(error).toBeInstanceOf(HoldfastError);
    await hold.close();
    await pooler.close();
  });

  test("prepared by name, all of the contract holds too", { timeout: 120_000 }, async () => {
    const traits = { durable: true, oneMachine: false, shared: true };
    const make = () => {
      const schema = freshSchema();
      return {
        traits,
        open: (tenant?: string) =>
          openStore(at(schema), { prepare: true, ...(tenant === undefined ? {} : { tenant }) }),
      };
    };
    for (const { run } of contract) await run(make);
  });

  test.each(["serializable"])(
    "a role whose transactions are %s gets the same",
    { timeout: 120_000 },
    async (level) => {
      const role = `strict_${level.length}`;
      const schemas: string[] = [];
      await server.run(
        `CREATE ROLE ${role} LOGIN; ALTER ROLE ${role} SET default_transaction_isolation = '${level}'`,
      );
      const traits = { durable: true, oneMachine: false, shared: true };
      const make = async () => {
        const schema = freshSchema();
        schemas.push(schema);
        await server.run(`CREATE SCHEMA "${schema}" AUTHORIZATION ${role}`);
        return {
          traits,
          open: (tenant?: string) =>
            openStore(at(schema, role), tenant === undefined ? {} : { tenant }),
        };
      };
      for (const { run } of contract) await run(make);
      expect(schemas).toHaveLength(contract.length);
    },
  );

  test("D1: a commit is waited for also where the server's default is not to", async () => {
    const schema = freshSchema();
    await server.run(
      `CREATE ROLE hasty LOGIN; CREATE SCHEMA "${schema}" AUTHORIZATION hasty; ALTER ROLE hasty SET synchronous_commit = off`,
    );
    const hold = await open(at(schema, "hasty"));
    const session = await hold.session("a");
    // What was written of the log, against what was put into it before. The writer in the
    // background comes five times a second.
    const behind = async () =>
      (
        await server.run(
          "SELECT (pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn())::int AS bytes",
        )
      )[0]?.["bytes"] as number;
    let most = 0;
    for (let i = 0; i < 30; i++) {
      session.append({ role: "user", content: "x".repeat(2_000) });
      await session.checkpoint();
      most = Math.max(most, await behind());
    }
    expect(most).toBeLessThan(2_000);
    await hold.close();
    // Negative control.
    let hasty = 0;
    await as("hasty", async (client) => {
      await client.query(`CREATE TABLE "${schema}".loose (body text)`);
      for (let i = 0; i < 30; i++) {
        await client.query(`INSERT INTO "${schema}".loose VALUES ($1)`, ["x".repeat(1_900)]);
        hasty = Math.max(hasty, await behind());
      }
    });
    expect(hasty).toBeGreaterThan(2_000);
  });

  test("a load reads each save of a long line about once, also before the server has figures of its tables", async () => {
    const schema = freshSchema();
    const making = await open(at(schema));
    const session = await making.session("a");
    for (let n = 0; n < 1_500; n++) {
      session.append({ role: "user", content: `message ${n}` });
      await session.checkpoint();
    }
    await making.close();
    const rowsRead = () =>
      as("postgres", async (client) => {
        const { rows } = await client.query(
          "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read AS rows FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'save'",
          [schema],
        );
        return Number(rows[0]?.["rows"]);
      });
    const before = await rowsRead();
    const hold = await open(at(schema), { connections: 1 });
    const { id } = (await hold.checkpoints.latest("a")) ?? { id: "" };
    expect((await hold.checkpoints.state(id)).messages).toHaveLength(1_500);
    await hold.close();
    // A connection tells the server what it has read when it ends.
    await expect.poll(rowsRead).toBeGreaterThan(before + 1_490);
    expect((await rowsRead()) - before).toBeLessThan(2 * 1_500);
  });

  test("a past, a page of lines and a blob are found without going over all lines, also before the server has figures", async () => {
    const schema = freshSchema();
    const making = await open(at(schema));
    const session = await making.session("a");
    session.append({ role: "user", content: "a body that is kept apart ".repeat(600) });
    const { id } = await session.checkpoint();
    await making.sessions.fork(id, { id: "b" });
    await making.close();
    await as("holdfast", async (client) => {
      await client.query("BEGIN");
      await client.query(`SELECT "${schema}".begin_as('=', '1000')`);
      await client.query(`INSERT INTO "${schema}".branch (tenant, id, session, fork_branch, fork_seq, body)
        SELECT '=', 'branch' || i, NULL, NULL, 0, '' FROM generate_series(1, 20000) i`);
      await client.query("COMMIT");
    });
    const rowsRead = () =>
      as("postgres", async (client) => {
        const { rows } = await client.query(
          "SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read AS rows FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'branch'",
          [schema],
        );
        return Number(rows[0]?.["rows"]);
      });
    const before = await rowsRead();
    const store = await openStore(at(schema), { connections: 1 });
    const { branch: line } = (await store.session("b")).row?.head ?? { branch: "" };
    expect(await store.branches({ kind: "past", id: line, limit: 32 })).toHaveLength(2);
    expect(await store.branches({ kind: "all", limit: 20 })).toHaveLength(20);
    expect(await store.reclaim.sweep(10, true)).toMatchObject({ count: 0 });
    await store.close();
    // A connection tells the server what it has read when it ends.
    await expect.poll(rowsRead).toBeGreaterThan(before + 20);
    expect((await rowsRead()) - before).toBeLessThan(200);
  });

  test("whoever captures, begins lines and takes from them waits for others in one order: nobody has to be let go of", async () => {
    const address = at(freshSchema());
    const all = await Promise.all(Array.from({ length: 3 }, () => openStore(address)));
    const [capturing, beginning, taking] = all as [Store, Store, Store];
    const deadlocks = async () =>
      Number((await server.run("SELECT sum(deadlocks) AS n FROM pg_stat_database"))[0]?.["n"]);
    const before = await deadlocks();
    const f = new Fixture("a", { agent: "x" });
    expect(await capturing.apply([f.begin()])).toEqual({ ok: true });
    expect(await capturing.apply([f.save({ items: 1, mark: true })])).toEqual({ ok: true });
    const end = performance.now() + 1_500;
    const again = async (run: () => Promise<unknown>) => {
      while (performance.now() < end) await run();
    };
    // Pins, then sessions; a session, then the line it begins on; a line, and pins.
    await Promise.all([
      ...[1, 2].map(() =>
        again(() =>
          capturing.documents.capture({ agent: "x", limit: 10, hold: true }, () => undefined),
        ),
      ),
      ...[1, 2].map(() =>
        again(() =>
          beginning.apply([
            { session: "a", when: { epoch: 1 }, branch: f.fork("a", (f.saves[0] as Save).seq) },
          ]),
        ),
      ),
      ...[1, 2, 3].map(() => again(() => taking.reclaim.cut(f.branch, -1, 10, false))),
    ]);
    // A connection tells the server what it has counted when it ends.
    for (const store of all) await store.close();
    await sleep(200);
    expect((await deadlocks()) - before).toBe(0);
  });

  test("a pool of one with a short queue says when it is full, and works on", async () => {
    const hold = await open(at(freshSchema()), { connections: 1, queue: 3, busyMs: 400 });
    const session = await hold.session("a");
    session.append({ role: "user", content: "one" });
    await session.checkpoint();
    const all = await Promise.allSettled(Array.from({ length: 60 }, () => hold.stats()));
    const refused = all.filter(({ status }) => status === "rejected") as PromiseRejectedResult[];
    expect(refused.length).toBeGreaterThan(0);
    for (const { reason } of refused)
      expect(reason).toMatchObject({ code: "BUSY", retryable: true });
    expect(all.some(({ status }) => status === "fulfilled")).toBe(true);
    session.append({ role: "user", content: "two" });
    expect((await session.checkpoint()).messageCount).toBe(2);
    await hold.close();
  });

  test("the connections are as many as was said, and none is left", async () => {
    const schema = freshSchema();
    const hold = await open(at(schema), { connections: 3 });
    const sessions = await Promise.all(Array.from({ length: 40 }, (_, i) => hold.session(`s${i}`)));
    const open_ = async () =>
      (
        await server.run(
          "SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name = 'holdfast' AND usename = 'holdfast'",
        )
      )[0]?.["n"] as number;
    let most = 0;
    const done = Promise.all(
      sessions.map(async (session) => {
        for (let i = 0; i < 5; i++) {
          session.append({ role: "user", content: String(i) });
          await session.checkpoint();
        }
      }),
    );
    for (let i = 0; i < 5; i++) most = Math.max(most, await open_());
    await done;
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThanOrEqual(3);
    await hold.close();
    await expect.poll(open_).toBe(0);
  });
});
