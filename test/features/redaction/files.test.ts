/**
 * Redacted text is nowhere in a store's files: neither in what counts nor in what does not any
 * more.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { openDriver } from "../../../src/store/sql/sqlite/driver/driver.js";
import { filesWith } from "../../support/bytes.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { PgClient } from "../../support/pg-client.js";
import { postgresUrl } from "../../support/shared-postgres.js";
import { everyStore, scratch } from "../../support/stores.js";

const SECRET = "Calliope-Underwood-55120-lighthouse";

async function fill(hold: Holdfast, id = "a"): Promise<void> {
  const session = await hold.session(id, { tags: [SECRET, "other"] });
  for (let n = 0; n < 40; n++) {
    session.append({
      role: "user",
      content:
        n % 4 === 0 ? `${n} ${SECRET} ${"words ".repeat(n * 10)}` : `${n} ${"others ".repeat(20)}`,
    });
    session.set("note", `${SECRET} ${n}`);
    if (n === 9) session.append({ role: "user", content: `${SECRET} ${"big ".repeat(4_000)}` });
    await session.checkpoint(n === 5 ? SECRET : undefined);
  }
  await session.close();
  await hold.checkpoints.prune(id, { keep: 12 });
}

const onDisk = everyStore.filter(({ name }) => name === "sqlite" || name === "dir");

test.each(onDisk)(
  "negative control on $name: without scrub, it is still there",
  async ({ address }) => {
    const at = address();
    const store = await openStore(at);
    const hold = new Opened(
      wrapped(store, { reclaim: { scrub: async () => ({ left: [] }) } }),
      thisMachine(),
      { now: Date.now },
      30_000,
    );
    await fill(hold);
    // As a killed process leaves it.
    if (at.startsWith("dir:"))
      writeFileSync(join(at.slice(4), "commit.json.0123456789ab.draft"), SECRET);
    await hold.sessions.redact("a", SECRET);
    expect(filesWith(at, SECRET)).not.toEqual([]);
    await hold.sessions.redact("a", SECRET);
    await store.reclaim.scrub((text) => text.includes(SECRET));
    expect(filesWith(at, SECRET)).toEqual([]);
    await hold.close();
  },
);

test("sqlite: whoever reads from the log keeps it from being cut, and the answer says so; the next time it goes", async () => {
  const at = join(scratch(), "busy.db");
  const hold = await open(at, { busyMs: 150 });
  await fill(hold);
  const reader = openDriver(at);
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM save").get();
  const { left } = await hold.sessions.redact("a", SECRET);
  expect(left.join()).toContain("write-ahead log");
  expect(filesWith(at, SECRET)).not.toEqual([]);
  reader.exec("COMMIT");
  reader.close();
  expect((await hold.sessions.redact("a", SECRET)).left).toEqual([]);
  expect(filesWith(at, SECRET)).toEqual([]);
  await hold.close();
});

test("dir: ends that were set aside, drafts of killed processes and mail of before are gone over", async () => {
  const root = join(scratch(), "store");
  const first = await open(`dir:${root}`);
  await fill(first);
  await first.sessions.signal("a", "x", 1);
  await first.close();
  const [bucket = ""] = readdirSync(join(root, "sessions"));
  const [name = ""] = readdirSync(join(root, "sessions", bucket));
  const directory = join(root, "sessions", bucket, name);
  const [journal = ""] = readdirSync(directory).filter((file) => file.endsWith(".jsonl"));
  // A save that was cut short, a draft of one who was killed, an end that was set aside long ago,
  // and letters as an older version left them.
  appendFileSync(
    join(directory, journal),
    `{"append":{"role":"user","content":"${SECRET}"}}\n{"seal":{"seq":9`,
  );
  writeFileSync(join(directory, "session.json.0123456789ab.draft"), SECRET);
  writeFileSync(join(directory, "0123456789abcdef.tail-3"), `{"x":"${SECRET}"}`);
  writeFileSync(join(directory, "0123456789abcdef.tail-4"), "harmless");
  mkdirSync(join(directory, "inbox", "done"), { recursive: true });
  const draft = join(directory, "inbox", "m.json.0123456789ab.draft");
  writeFileSync(draft, SECRET);
  const hold = await open(`dir:${root}`);
  expect((await hold.sessions.redact("a", SECRET)).left.join()).toContain("draft of a letter");
  expect(filesWith(`dir:${root}`, SECRET)).toEqual([draft]);
  utimesSync(draft, 1, 1);
  expect((await hold.sessions.redact("a", SECRET)).left).toEqual([]);
  expect(filesWith(`dir:${root}`, SECRET)).toEqual([]);
  expect(existsSync(join(directory, "0123456789abcdef.tail-4"))).toBe(true);
  expect((await hold.sessions.list({ tag: "other" })).items.map(({ id }) => id)).toEqual(["a"]);
  await hold.close();
});

test("postgres: once the server has rewritten its tables, none of their files holds it", {
  timeout: 60_000,
}, async () => {
  const schema = `redact-${process.pid}`;
  const url = postgresUrl();
  const hold = await open(`${url}?schema=${schema}`);
  await fill(hold);
  const admin = new PgClient({ connectionString: url.replace(/\/\/\w+@/, "//postgres@") });
  await admin.connect();
  const filesOf = async () => {
    const { rows } = await admin.query(
      `SELECT current_setting('data_directory') || '/' || pg_relation_filepath(c.oid) AS path FROM pg_class c
       WHERE (c.relnamespace = $1::regnamespace OR c.oid IN (SELECT i.indexrelid FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid WHERE t.relnamespace = $1::regnamespace)
         OR c.oid IN (SELECT reltoastrelid FROM pg_class WHERE relnamespace = $1::regnamespace)) AND pg_relation_filepath(c.oid) IS NOT NULL`,
      [`"${schema}"`],
    );
    return rows
      .map(({ path }) => String(path))
      .filter((path) => existsSync(path) && readFileSync(path).includes(SECRET));
  };
  await admin.query("CHECKPOINT");
  expect(await filesOf()).not.toEqual([]);
  const { left } = await hold.sessions.redact("a", SECRET);
  expect(left.join()).toContain("VACUUM FULL");
  const { rows } = await admin.query(
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::regnamespace",
    [`"${schema}"`],
  );
  const rewritten = async () => {
    for (const { relname } of rows)
      await admin.query(`VACUUM FULL "${schema}"."${String(relname)}"`);
    await admin.query("CHECKPOINT");
    return filesOf();
  };
  // The server keeps what a transaction that others have open could still see.
  await expect.poll(rewritten, { timeout: 30_000, interval: 200 }).toEqual([]);
  await admin.end();
  expect((await hold.verify()).findings).toEqual([]);
  await hold.close();
});
