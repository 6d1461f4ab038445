/** A role that may only connect can neither freeze a store nor find out what happens in it. */
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digest } from "../../src/core/values/digest.js";
import { type Holdfast, open } from "../../src/index.js";
import { errorOf } from "../support/error-of.js";
import { type Client, PgClient } from "../support/pg-client.js";
import { postgresUrl } from "../support/shared-postgres.js";

const STRANGER = `stranger_${process.pid}`;
const urlOf = (user: string): string =>
  Object.assign(new URL(postgresUrl()), { username: user }).toString();
const connected = async (user: string): Promise<Client> => {
  const client = new PgClient({ connectionString: urlOf(user) });
  await client.connect();
  return client;
};

let admin: Client;
let count = 0;
const freshSchema = (): string => `roles ${process.pid} ${++count}`;
const at = (schema: string): string => `${postgresUrl()}?schema=${encodeURIComponent(schema)}`;
const keyOf = (text: string): string =>
  createHash("sha256").update(text).digest().readBigInt64BE(0).toString();

/** What the locks of a store were made of, and what they are made of behind the store's own id. */
const lockNames = (schema: string, tenant: string): readonly string[] =>
  [`session\0a`, `session\0b`, "line\0", "blobs\0", "pins\0"].map(
    (name) => `"${schema}"\0=${tenant}\0${name}`,
  );

async function storeIdOf(schema: string): Promise<string> {
  const { rows } = await admin.query(`SELECT value FROM "${schema}".meta WHERE key = 'store'`);
  return rows[0]?.["value"] as string;
}

/** Everything that takes a lock. */
async function useAll(hold: Holdfast): Promise<void> {
  const session = await hold.session("a", { agent: "ann" });
  session.append({
    role: "user",
    content: [
      { type: "file", mediaType: "text/plain", data: { bytes: Buffer.from("x".repeat(20_000)) } },
    ],
  });
  const { id } = await session.checkpoint();
  await (await session.fork(id, { id: "b" })).close();
  await session.close();
  await hold.agents.save({ id: "ann" });
  await hold.agents.snapshot("ann");
  await hold.sessions.delete("b");
  await hold.gc();
}

/** Waits until another connection waits for a lock: then it can be told that it did. */
async function untilWaiting(text: string): Promise<void> {
  for (let i = 0; i < 500; i++) {
    const asked =
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1 AND pid <> pg_backend_pid()";
    if ((await admin.query(asked, [`%${text}%`])).rows.length > 0) return;
    await sleep(10);
  }
  throw new Error(`no connection waited with ${text}`);
}

describe("other roles of the same database", () => {
  let stranger: Client;
  beforeAll(async () => {
    admin = await connected("postgres");
    await admin.query(`CREATE ROLE ${STRANGER} LOGIN`);
    stranger = await connected(STRANGER);
  });
  afterAll(async () => {
    await stranger.end();
    await admin.query(`DROP ROLE ${STRANGER}`);
    await admin.end();
  });

  test("locks that are guessed freeze neither the first open nor any call", async () => {
    const schema = freshSchema();
    const guessed = [
      `migrate\0"${schema}"`,
      ...lockNames(schema, ""),
      ...lockNames(schema, "acme"),
    ];
    for (const name of guessed) await stranger.query("SELECT pg_advisory_lock($1)", [keyOf(name)]);
    try {
      for (const tenant of [undefined, "acme"]) {
        const hold = await open(at(schema), {
          busyMs: 1_000,
          ...(tenant !== undefined && { tenant }),
        });
        await useAll(hold);
        await hold.close();
      }
    } finally {
      await stranger.query("SELECT pg_advisory_unlock_all()");
    }
  });

  test("the same locks behind the store's own id do make a call wait", async () => {
    const schema = freshSchema();
    const hold = await open(at(schema), { busyMs: 300 });
    await useAll(hold);
    const id = await storeIdOf(schema);
    for (const name of lockNames(schema, ""))
      await stranger.query("SELECT pg_advisory_lock($1)", [keyOf(`${id}\0${name}`)]);
    expect(
      await errorOf(() => hold.sessions.append("a", [{ role: "user", content: "more" }])),
    ).toMatchObject({ code: "BUSY" });
    expect(await errorOf(() => hold.agents.snapshot("ann"))).toMatchObject({ code: "BUSY" });
    await stranger.query("SELECT pg_advisory_unlock_all()");
    await hold.sessions.append("a", [{ role: "user", content: "more" }]);
    await hold.agents.snapshot("ann");
    await hold.close();
  });

  test("the id is drawn for each store, and other roles can neither read it nor lock its table", async () => {
    const [one, two] = [freshSchema(), freshSchema()];
    for (const schema of [one, two]) await (await open(at(schema))).close();
    expect(await storeIdOf(one)).toMatch(/^[\w-]{16}$/);
    expect(await storeIdOf(one)).not.toBe(await storeIdOf(two));
    const refuses = async (statement: string) => {
      expect(await errorOf(() => stranger.query(`BEGIN; ${statement}`))).toMatchObject({
        code: "42501",
      });
      await stranger.query("ROLLBACK");
    };
    const reaching = [
      `SELECT * FROM "${one}".meta`,
      `LOCK TABLE "${one}".meta IN ACCESS SHARE MODE`,
      `CREATE TABLE "${one}".x ()`,
    ];
    for (const statement of reaching) await refuses(statement);
    // In a schema that all may use, the table is still its owner's.
    await admin.query(`GRANT USAGE ON SCHEMA "${one}" TO PUBLIC`);
    for (const statement of reaching) await refuses(statement);
  });

  test("where pg_lock_status is revoked, other roles do not see the keys of held locks, and the store needs it not", async () => {
    // In a database of its own: the right is one for the whole database.
    const database = `roles_${process.pid}`;
    await admin.query(`CREATE DATABASE ${database} OWNER holdfast`);
    const within = (url: string): string =>
      Object.assign(new URL(url), { pathname: `/${database}` }).toString();
    const [owner, other] = ["postgres", STRANGER].map(
      (user) => new PgClient({ connectionString: within(urlOf(user)) }),
    ) as [Client, Client];
    try {
      await Promise.all([owner.connect(), other.connect()]);
      await owner.query("SELECT pg_advisory_lock(77)");
      const look = () => other.query("SELECT objid FROM pg_locks WHERE locktype = 'advisory'");
      // The limit that is documented.
      expect((await look()).rows).toContainEqual({ objid: 77 });
      await owner.query("REVOKE EXECUTE ON FUNCTION pg_lock_status() FROM PUBLIC");
      expect(await errorOf(look)).toMatchObject({ code: "42501" });
      const hold = await open(within(postgresUrl()));
      await useAll(hold);
      await hold.close();
    } finally {
      await Promise.all([owner.end(), other.end()]);
      await admin.query(`DROP DATABASE ${database} WITH (FORCE)`);
    }
  });

  test("notices go to no channel that can be guessed, and say nothing that can be checked by guessing", async () => {
    const schema = freshSchema();
    const hold = await open(at(schema));
    const id = await storeIdOf(schema);
    const channelOf = (text: string) => `holdfast_${digest(text).slice(0, 16)}`;
    const heard: { channel: string; payload: string }[] = [];
    (stranger as unknown as NodeJS.EventEmitter).on("notification", (notice) => heard.push(notice));
    const guessed = [`"${schema}"`, schema, `"${schema}"\0`, ""].map(channelOf);
    // The control: only one who knows the id can listen.
    const real = channelOf(`${id}\0"${schema}"`);
    for (const channel of [...guessed, real]) await stranger.query(`LISTEN "${channel}"`);
    await hold.sessions.append("a", [{ role: "user", content: "hello" }], { create: true });
    for (let i = 0; i < 500 && heard.length === 0; i++) {
      await sleep(10);
      await stranger.query("SELECT 1");
    }
    await hold.close();
    expect(new Set(heard.map(({ channel }) => channel))).toEqual(new Set([real]));
    const names = heard.flatMap(({ payload }) => payload.match(/.{16}/g) ?? []);
    expect(names).toContain(digest(`${id}\0"${schema}"\0=\0a`).slice(0, 16));
    for (const guess of ["=", "", "=\0a", "a", `"${schema}"\0=\0a`])
      expect(names).not.toContain(digest(guess).slice(0, 16));
    await stranger.query("UNLISTEN *");
  });
});

describe("the first open, without a lock that can be guessed", () => {
  beforeAll(async () => {
    admin = await connected("postgres");
  });
  afterAll(async () => admin.end());

  test.each(["none", "empty"])(
    "eight that come at once make one store, schema: %s",
    async (before) => {
      const schema = freshSchema();
      if (before === "empty") await admin.query(`CREATE SCHEMA "${schema}" AUTHORIZATION holdfast`);
      const holds = await Promise.all(
        Array.from({ length: 8 }, () => open(at(schema), { connections: 2 })),
      );
      await Promise.all(
        holds.map((hold, i) =>
          hold.sessions.append(`s${i}`, [{ role: "user", content: "hello" }], { create: true }),
        ),
      );
      for (const hold of holds) expect((await hold.sessions.list()).items).toHaveLength(8);
      await Promise.all(holds.map((hold) => hold.close()));
    },
  );

  /** Another process that is the first, and has come so far. */
  const first: readonly (readonly [string, (schema: string) => string, string])[] = [
    ["has made the schema", (schema) => `CREATE SCHEMA "${schema}"`, "CREATE SCHEMA"],
    [
      "has made the first table",
      (schema) => `CREATE TABLE "${schema}".meta (key text PRIMARY KEY, value text NOT NULL)`,
      "CREATE TABLE",
    ],
  ];
  for (const [name, statement, waits] of first)
    test.each(["ROLLBACK", "COMMIT"])(
      `one that waits for another that ${name} goes on after its %s`,
      async (end) => {
        const schema = freshSchema();
        if (waits === "CREATE TABLE")
          await admin.query(`CREATE SCHEMA "${schema}" AUTHORIZATION holdfast`);
        const other = await connected("holdfast");
        await other.query("BEGIN");
        await other.query(statement(schema));
        if (waits === "CREATE TABLE")
          await other.query(
            `INSERT INTO "${schema}".meta VALUES ('store', 'AAAAAAAAAAAAAAAA'), ('format', '0')`,
          );
        const opening = open(at(schema));
        await untilWaiting(waits);
        await other.query(end);
        await other.end();
        const hold = await opening;
        await hold.sessions.append("a", [{ role: "user", content: "hello" }], { create: true });
        await hold.close();
        if (waits === "CREATE TABLE")
          expect((await storeIdOf(schema)) === "AAAAAAAAAAAAAAAA").toBe(end === "COMMIT");
      },
    );
});
