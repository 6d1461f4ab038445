/** smooth: files with nanoseconds, a database with seconds, and conversations of one agent. */
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Message, partsOf } from "../../src/index.js";
import { migrate } from "../../src/migrate/index.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { errorOf } from "../support/error-of.js";
import { fixtures, place, put, using } from "./support.js";

const message = (i: number, more: object = {}) => ({
  id: `m${i}`,
  role: "user",
  content: `Message ${i}`,
  timestamp: "2026-04-03T21:46:58Z",
  ...more,
});
const conversation = (turns: number, id = "c") => ({
  id,
  messages: Array.from({ length: turns }, (_, i) => message(i)),
  max_context_tokens: 9,
});
const checkpoint = (
  id: string,
  iteration: number,
  { agent = "agent", at = "2026-04-03T21:47:01Z", said = conversation(iteration + 1) } = {},
) => ({
  [`${agent}/${id}.json`]: {
    id,
    agent_id: agent,
    conversation: said,
    iteration,
    metadata: {},
    created_at: at,
  },
});
const steps = (store: string, session: string) =>
  using(store, async (hold) =>
    (await hold.checkpoints.list(session, { limit: 1_000 })).items
      .toReversed()
      .map(({ step }) => step),
  );

test("files: order is that of nanoseconds, then the iteration, then the id", async () => {
  const store = join(place(), "s.db");
  const files = {
    ...checkpoint("z", 0, { at: "2026-04-03T21:47:01.000000001Z" }),
    ...checkpoint("y", 1, { at: "2026-04-03T21:47:01.000000002Z" }),
    ...checkpoint("x", 3, { at: "2026-04-03T21:47:01.5Z" }),
    ...checkpoint("w", 2, { at: "2026-04-03T21:47:01.5Z" }),
    ...checkpoint("b", 5, { at: "2026-04-03T23:47:02.000+02:00" }),
    ...checkpoint("a", 4, { at: "2026-04-03T21:47:02Z" }),
    ...checkpoint("odd", 9, { at: "yesterday" }),
  };
  await migrate("smooth", put(place(), files), store);
  expect(await steps(store, "agent")).toEqual([9, 0, 1, 2, 3, 4, 5]);
});

test("an agent's later conversations are sessions of their own, also after the first was pruned there", async () => {
  const store = join(place(), "s.db");
  const files = {
    ...checkpoint("1", 0, { at: "2026-04-03T21:47:01Z", said: conversation(1, "first") }),
    ...checkpoint("2", 0, { at: "2026-04-03T21:47:02Z", said: conversation(1, "second") }),
    ...checkpoint("3", 1, { at: "2026-04-03T21:47:03Z", said: conversation(2, "first") }),
  };
  const report = await migrate("smooth", put(place(), files), store);
  expect(report.sessions.map(({ id, checkpoints }) => [id, checkpoints])).toEqual([
    ["agent", 2],
    ["agent/second", 1],
  ]);
  const { [`agent/2.json`]: second } = files as Record<string, unknown>;
  const again = await migrate("smooth", put(place(), { "agent/2.json": second }), store);
  expect(again.sessions).toEqual([{ id: "agent/second", outcome: "known", checkpoints: 0 }]);
});

test("an agent whose name looks like one with a conversation keeps its session, whatever is pruned there", async () => {
  const store = join(place(), "s.db");
  const a = (id: string, said: string, at: number) =>
    checkpoint(id, 0, { agent: "a", at: `2026-04-03T21:47:0${at}Z`, said: conversation(1, said) });
  const slashed = (id: string, turns: number) => ({
    [`s/${id}.json`]: {
      ...Object.values(checkpoint(id, turns, { agent: "a/x", said: conversation(turns, "y") }))[0],
    },
  });
  const path = put(place(), { ...a("1", "k", 1), ...a("2", "x", 2), ...slashed("3", 1) });
  const [, , third] = (await migrate("smooth", path, store)).sessions;
  rmSync(join(path, "a/2.json"));
  put(path, slashed("4", 2));
  expect((await migrate("smooth", path, store)).sessions).toEqual([
    { id: "a", outcome: "known", checkpoints: 0 },
    { id: third?.id, outcome: "grown", checkpoints: 1 },
  ]);
});

test("messages: images, reasoning, names, ids that repeat", async () => {
  const messages = [
    message(0, { role: "system" }),
    message(1, {
      images: [
        { url: "https://x/y.png", detail: "high" },
        { url: "data:image/png;base64,aGk=" },
        { url: "data:,a%20b" },
      ],
    }),
    message(2, {
      role: "assistant",
      reasoning_content: "Hm.",
      tool_calls: [{ id: "t", name: "read", arguments: { n: 1 } }],
    }),
    message(3, { role: "tool", tool_call_id: "t", tool_name: "read" }),
    message(1, { content: "the same id again" }),
    message(5, { id: "", role: "developer" }),
  ];
  const store = join(place(), "s.db");
  const files = checkpoint("1", 0, { said: { ...conversation(0), messages } as never });
  expect(await migrate("smooth", put(place(), files), store)).toMatchObject({
    skipped: [],
    sessions: [{ checkpoints: 1 }],
  });
  await using(store, async (hold) => {
    const shown = (await hold.sessions.state("agent")).messages;
    expect(shown).toHaveLength(6);
    expect(partsOf(shown[1] as Message)).toMatchObject([
      { type: "text" },
      {
        mediaType: "image/*",
        data: { url: "https://x/y.png" },
        provider: { smooth: { detail: "high" } },
      },
      { mediaType: "image/png", data: { sizeBytes: 2 } },
      { mediaType: "text/plain", data: { sizeBytes: 3 } },
    ]);
    expect(partsOf(shown[2] as Message)).toMatchObject([
      { type: "reasoning", text: "Hm." },
      { type: "text" },
      { type: "tool-call", input: { n: 1 } },
    ]);
    expect(partsOf(shown[3] as Message)).toEqual([
      { type: "tool-result", callId: "t", name: "read", outcome: "ok", output: "Message 3" },
    ]);
    expect(shown[4]).toMatchObject({ content: "the same id again", metadata: { repeats: "m1" } });
    expect(shown[5]).toMatchObject({
      role: "system",
      metadata: { source: { id: "", role: "developer" } },
    });
  });
});

describe("the database", () => {
  const SCHEMA = `CREATE TABLE checkpoints (id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, iteration INTEGER NOT NULL, conversation BLOB NOT NULL,
    metadata TEXT DEFAULT '{}', created_at INTEGER NOT NULL);
    CREATE INDEX idx_checkpoints_agent ON checkpoints(agent_id, created_at DESC)`;
  const SECOND = 1_775_252_821;

  function database(path: string) {
    const db = openDriver(path);
    db.exec("PRAGMA journal_mode = WAL");
    db.exec(SCHEMA);
    const insert = db.prepare(
      "INSERT INTO checkpoints VALUES (?, 'agent', CAST(? AS INTEGER), ?, ?, CAST(? AS INTEGER))",
    );
    const add = (
      id: string,
      iteration: number | bigint,
      said: unknown = conversation(Number(iteration) + 1),
      at: number | bigint = SECOND,
      metadata: string | null = "{}",
    ) =>
      insert.run(
        id,
        String(iteration),
        Buffer.from(typeof said === "string" ? said : JSON.stringify(said)),
        metadata,
        String(at),
      );
    return { db, add };
  }
  const listed = (folder: string) =>
    readdirSync(folder).map((name) => [name, readFileSync(join(folder, name)).toString("base64")]);

  test("rows of one second are in the order of their iterations, and those of one iteration in which they came", async () => {
    const path = join(place(), "operator.db");
    const { db, add } = database(path);
    for (const [i, iteration] of [0, 1, 2, 3, 3, 5, 4, 6, 7, 8].entries())
      add(`id-${9 - i}`, iteration, conversation(i + 1));
    db.close();
    const store = join(place(), "s.db");
    const report = await migrate("smooth", path, store);
    expect(report).toMatchObject({ files: 10, sessions: [{ id: "agent", checkpoints: 10 }] });
    expect(await steps(store, "agent")).toEqual([0, 1, 2, 3, 3, 4, 5, 6, 7, 8]);
    await using(store, async (hold) => {
      expect((await hold.sessions.state("agent")).messages).toHaveLength(10);
      expect((await hold.checkpoints.latest("agent"))?.createdAt).toBe(
        new Date(SECOND * 1000).toISOString(),
      );
    });
    expect(report.storedBytes).toBeLessThan(report.sourceBytes);
    expect((await migrate("smooth", path, store)).sessions).toMatchObject([
      { outcome: "known", checkpoints: 0 },
    ]);
  });

  test("what is in the log only is read, and nothing of the source is changed or made", async () => {
    const folder = place();
    const { db, add } = database(join(folder, "live.db"));
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    for (let i = 0; i < 5; i++) add(`id-${i}`, i);
    // As a crash leaves it: the log beside the file, without its shared memory.
    const left = place();
    for (const name of ["live.db", "live.db-wal"])
      copyFileSync(join(folder, name), join(left, name));
    expect(statSync(join(left, "live.db-wal")).size).toBeGreaterThan(0);
    for (const place of [folder, left]) {
      const before = listed(place);
      expect((await migrate("smooth", join(place, "live.db"), "memory:")).sessions).toMatchObject([
        { id: "agent", checkpoints: 5 },
      ]);
      expect(listed(place)).toEqual(before);
    }
    // Whoever has it open goes on.
    add("id-5", 5);
    expect((await migrate("smooth", join(folder, "live.db"), "memory:")).sessions).toMatchObject([
      { checkpoints: 6 },
    ]);
    db.close();
  });

  test("a row that is torn is reported and the others imported; numbers of 64 bits and the blob of the samples are read", async () => {
    const path = join(place(), "operator.db");
    const { db, add } = database(path);
    add("good", 1);
    add("torn", 2, '{"id":"c","messages":[');
    add("list", 3, "[]");
    add("metadata", 4, conversation(5), SECOND, "{");
    add(
      "sample",
      5,
      readFileSync(join(fixtures, "smooth/sqlite-conversation-blob.json"), "utf8"),
      SECOND,
      null,
    );
    add("late", 7, conversation(1), 2n ** 62n);
    add("bigger", 2n ** 62n + 1n, conversation(1), SECOND + 1);
    add("huge", 2n ** 62n, conversation(1), SECOND + 1);
    add("odd", 1, conversation(1), SECOND - 1, "[1]");
    add("big", 8, '{"id":"c","messages":[],"max_context_tokens":18446744073709551615}', SECOND + 2);
    db.close();
    const store = join(place(), "s.db");
    const report = await migrate("smooth", path, store);
    expect(report.skipped.map(({ path: row, why }) => [row, why])).toEqual([
      ["checkpoints[2]", "It is torn, or not JSON."],
      ["checkpoints[3]", "Its conversation is no object."],
    ]);
    // A good conversation, whatever stands beside it.
    expect(
      report.notes
        .filter(({ what }) => what.includes("Its metadata is torn"))
        .map(({ path: row }) => row),
    ).toEqual(["checkpoints[4]", "checkpoints[9]"]);
    expect(report.notes).toContainEqual({
      path: "checkpoints[9]",
      what: expect.stringMatching(/^Field "metadata" .* Found 2 times/),
    });
    expect(report.notes).toContainEqual({
      path: "checkpoints[10]",
      what: expect.stringContaining("kept as text"),
    });
    expect(report.sessions.map(({ id, checkpoints }) => [id, checkpoints])).toEqual([
      ["agent", 7],
      ["agent/conv-1", 1],
    ]);
    await using(store, async (hold) => {
      const ids = (await hold.checkpoints.list("agent")).items.map(
        ({ metadata }) => metadata["source"],
      );
      expect(ids).toMatchObject([
        { id: "big", maxContextTokens: "18446744073709551615" },
        { id: "bigger", iteration: "4611686018427387905" },
        { id: "huge", iteration: "4611686018427387904" },
        { id: "metadata" },
        { id: "good" },
        { id: "odd" },
        { id: "late", createdAt: "4611686018427387904" },
      ]);
    });
  });

  test("another database, one with a view in the table's place, and a log that is a link", async () => {
    const folder = place();
    const other = openDriver(join(folder, "other.db"));
    other.exec("CREATE TABLE things (id)");
    other.close();
    const view = openDriver(join(folder, "view.db"));
    view.exec(
      "CREATE VIEW checkpoints AS SELECT 1 AS id, 2 AS agent_id, 3 AS iteration, 4 AS conversation, 5 AS metadata, 6 AS created_at",
    );
    view.close();
    for (const name of ["other.db", "view.db"])
      expect(await errorOf(() => migrate("smooth", join(folder, name), "memory:"))).toMatchObject({
        code: "INVALID_OPTION",
      });
    const { db, add } = database(join(folder, "good.db"));
    add("a", 0);
    db.close();
    symlinkSync(join(folder, "other.db"), join(folder, "good.db-wal"));
    expect((await migrate("smooth", join(folder, "good.db"), "memory:")).sessions).toMatchObject([
      { checkpoints: 1 },
    ]);
  });

  describe("a rollback journal", () => {
    /**
     * As SQLite writes one, or as somebody would who wants a file deleted: where no page is to be
     * put back, only a name at its end counts.
     */
    function journal(naming?: string): Buffer {
      const magic = Buffer.from([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
      const words = (...numbers: readonly number[]) =>
        Buffer.concat(
          numbers.map((number) => {
            const word = Buffer.alloc(4);
            word.writeUInt32BE(number >>> 0);
            return word;
          }),
        );
      const head = Buffer.concat([magic, words(0, 1234, 4, 512, 4096)], 512);
      if (naming === undefined) return head;
      const name = Buffer.from(naming);
      const sum = name.reduce((so, byte) => so + byte, 0);
      return Buffer.concat([
        head,
        words(0x4000_0000 / 4096 + 1),
        name,
        words(name.length, sum),
        magic,
      ]);
    }
    const withJournal = (bytes: Buffer | string) => {
      const folder = place();
      const { db, add } = database(join(folder, "a.db"));
      db.exec("PRAGMA journal_mode = DELETE");
      add("a", 0);
      db.close();
      put(folder, { "a.db-journal": bytes });
      return folder;
    };

    test("that is in use, or names a file for SQLite to delete, is not read: the import says what to do, and nothing is gone", async () => {
      const precious = join(put(place(), { "precious.txt": "mine" }), "precious.txt");
      const cases = [
        [journal(precious), true],
        [journal(precious), false],
        [journal(), false],
      ] as const;
      const tried = cases.map(async ([bytes, dryRun]) => {
        const folder = withJournal(bytes);
        const before = listed(folder);
        const error = await errorOf(() =>
          migrate("smooth", join(folder, "a.db"), "memory:", { dryRun }),
        );
        expect(error).toMatchObject({
          code: "BUSY",
          message: expect.stringContaining("open the database once with sqlite3"),
        });
        expect(listed(folder)).toEqual(before);
      });
      await Promise.all(tried);
      expect(existsSync(precious)).toBe(true);
    });

    test("that was ended is no matter", async () => {
      for (const bytes of ["", Buffer.alloc(512)])
        expect(
          (await migrate("smooth", join(withJournal(bytes), "a.db"), "memory:")).sessions,
        ).toMatchObject([{ checkpoints: 1 }]);
    });
  });

  test("copies that killed imports left are swept after a day, and no others", async () => {
    const old = mkdtempSync(join(tmpdir(), "holdfast-import-"));
    const young = mkdtempSync(join(tmpdir(), "holdfast-import-"));
    const day = new Date(Date.now() - 25 * 60 * 60 * 1000);
    put(old, { "copy.db": "x" });
    utimesSync(old, day, day);
    const path = join(place(), "a.db");
    const { db, add } = database(path);
    add("a", 0);
    db.close();
    await migrate("smooth", path, "memory:");
    expect([existsSync(old), existsSync(young)]).toEqual([false, true]);
    rmdirSync(young);
  });

  test("a damaged file is an error that says so, or rows that are reported", async () => {
    const folder = place();
    const { db, add } = database(join(folder, "a.db"));
    for (let i = 0; i < 50; i++) add(`id-${i}`, i);
    db.close();
    const bytes = readFileSync(join(folder, "a.db"));
    for (let page = 1; page < bytes.length / 4096; page += 3) {
      const damaged = Buffer.from(bytes).fill(0xaa, page * 4096, page * 4096 + 4096);
      const path = join(put(place(), { "b.db": damaged }), "b.db");
      const answer = await migrate("smooth", path, "memory:").then(
        ({ skipped, sessions }) =>
          skipped.length + sessions.reduce((sum, { checkpoints }) => sum + checkpoints, 0),
        ({ code }: { code: string }) => code,
      );
      expect(
        ["INVALID_OPTION", "CORRUPT", "NOT_FOUND"].includes(String(answer)) || Number(answer) > 0,
        String(answer),
      ).toBe(true);
    }
  });
});
