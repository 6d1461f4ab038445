/**
 * D3: rows that are missing, as a damaged page or a careless hand leaves them. Nothing hangs,
 * nothing is left out in silence.
 */
import { copyFileSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { open } from "../../../src/index.js";
import { run } from "../../cli/command.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";

const Database = createRequire(import.meta.url)("better-sqlite3") as new (
  path: string,
) => {
  exec(sql: string): void;
  prepare(sql: string): { all(): unknown[] };
  close(): void;
};

let child: Child | undefined;
afterAll(() => child?.end());

/**
 * A store with one session of so many checkpoints; `removed` of them, newest first, are removed
 * properly. Then a row is taken out.
 */
async function holed(checkpoints: number, removed: number, sql: string): Promise<string> {
  const path = join(fresh(), "store.db");
  const hold = await open(path);
  const session = await hold.session("a");
  const ids: string[] = [];
  for (let n = 0; n < checkpoints; n++) {
    session.append({ role: "user", content: `message ${n}` });
    ids.push((await session.checkpoint()).id);
  }
  for (let n = 0; n < removed; n++) await hold.checkpoints.delete(ids.pop() as string);
  await hold.close();
  const db = new Database(path);
  db.exec(sql);
  db.close();
  return path;
}

/** Asks in another process: what hangs there can be ended here. */
async function asked(
  path: string,
  order: { readonly do: string; readonly [key: string]: unknown },
): Promise<Record<string, unknown>> {
  child ??= startPuppet();
  await child.ask({ do: "open", path });
  const answer = await child.ask({ session: "a", ...order }, { withinMs: 4_000 });
  await child.ask({ do: "close" });
  return answer;
}

const rowAt = (n: number): string =>
  `DELETE FROM save WHERE no = (SELECT no FROM save ORDER BY no LIMIT 1 OFFSET ${n})`;

test("a list does not leave out a checkpoint whose row is missing", async () => {
  const path = await holed(6, 0, rowAt(3));
  expect(await asked(path, { do: "list" })).toMatchObject({ error: { code: "CORRUPT" } });
});

test("latest does not hang where the save it points to is missing", async () => {
  const path = await holed(3, 1, rowAt(1));
  expect(await asked(path, { do: "latest" })).toMatchObject({ error: { code: "CORRUPT" } });
});

test("prune does not hang or go on where a save is missing", async () => {
  const path = await holed(6, 1, rowAt(4));
  expect(await asked(path, { do: "prune", keep: 1 })).toMatchObject({ error: { code: "CORRUPT" } });
});

test("a list does not come out empty where all saves are missing and an anchor knows better", async () => {
  const path = await holed(3, 0, "DELETE FROM save");
  expect(await asked(path, { do: "list" })).toMatchObject({ error: { code: "CORRUPT" } });
});

test("verify reports a session whose row is missing while its lines are there", async () => {
  const path = await holed(3, 0, "DELETE FROM session");
  expect(await asked(path, { do: "verify" })).toMatchObject({ ok: false });
});

test("gc does not destroy the saves of a session whose row is missing", async () => {
  const path = await holed(3, 0, "DELETE FROM session");
  await asked(path, { do: "gc" });
  const db = new Database(path);
  expect(db.prepare("SELECT count(*) AS saves FROM save").all()).toEqual([{ saves: 3 }]);
  db.close();
});

test.each(["x''", "99", "-1"])(
  "a checkpoint is not another session's where the number a line begins behind was changed to %s",
  async (value) => {
    const path = join(fresh(), "store.db");
    const hold = await open(path);
    const origin = await (await hold.session("a")).checkpoint();
    await hold.sessions.fork(origin.id, { id: "fork" });
    const { id } = await (await hold.session("fork")).checkpoint();
    await hold.close();
    const damaged = new Database(path);
    damaged.exec(`UPDATE branch SET fork_seq = ${value} WHERE fork_branch IS NULL`);
    damaged.close();
    const reading = await open(path);
    await expect(reading.checkpoints.get(id)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(await reading.verify()).toMatchObject({ ok: false });
    await reading.close();
  },
);

test("an empty file with anchors beside it is a store that was lost, not a new one", async () => {
  const path = await holed(3, 0, "SELECT 1");
  truncateSync(path, 0);
  await expect(open(path)).rejects.toMatchObject({ name: "HoldfastError" });
});

/**
 * A session that ends at its anchor, and a fork that begins there, with bases of its own: loading
 * it does not read that save. Then `damage` is done to the save, and the fork pays.
 */
async function paysAtAnchor(
  damage: (db: InstanceType<typeof Database>, older: string) => void,
): Promise<readonly [answer: string, paid: number]> {
  const path = join(fresh(), "store.db");
  const older = `${path}-older`;
  const first = await open(path);
  await talk(first, "a", 2);
  await first.close();
  copyFileSync(path, older);
  const changed = await open(older);
  await talk(changed, "a", 1);
  await changed.close();
  const hold = await open(path);
  const at = await talk(hold, "a", 1);
  await hold.sessions.fork(at, { id: "fork" });
  const { slackBytes } = baseTuning;
  baseTuning.slackBytes = 100;
  await talk(hold, "fork", 20);
  baseTuning.slackBytes = slackBytes;
  await hold.close();
  const db = new Database(path);
  damage(db, older);
  db.close();
  const reading = await open(path);
  const fork = await reading.session("fork");
  let paid = 0;
  const answer = await fork
    .effect("pay", { sum: 1 }, { mode: "once", key: "p" }, async () => {
      paid += 1;
      return "paid";
    })
    .catch(({ code }: { code: string }) => code);
  await fork.close({ discard: true });
  await reading.close();
  return [answer, paid];
}

/** Sets a key so many times. Answers the last place. */
async function talk(hold: Awaited<ReturnType<typeof open>>, id: string, times: number) {
  const session = await hold.session(id);
  for (let n = 0; n < times; n++) {
    session.set("n", `${n} ${times}`.padEnd(300, "x"));
    await session.checkpoint();
  }
  const { id: at } = (await hold.checkpoints.latest(id)) as { id: string };
  await session.close();
  return at;
}

const LAST = "(SELECT min(no) + 2 FROM save)";

test.each([
  ["is missing", `DELETE FROM save WHERE no = ${LAST}`],
  [
    "is another's",
    `UPDATE save SET (head, mark, note, items, state) = (SELECT head, mark, note, items, state FROM older.save WHERE no = ${LAST}) WHERE no = ${LAST}`,
  ],
])(
  "WALK-3: a fork pays nothing where the end of the line it was forked from %s",
  async (_, sql) => {
    const damaged = await paysAtAnchor((db, older) => {
      db.exec(`ATTACH '${older}' AS older`);
      db.exec(sql);
    });
    expect(damaged).toEqual(["CORRUPT", 0]);
  },
);

test("negative control: a fork pays where that end is sound", async () => {
  expect(await paysAtAnchor(() => {})).toEqual(["paid", 1]);
});

test("negative control: without a hole the same questions are answered", async () => {
  const path = await holed(6, 1, "SELECT 1");
  expect(await asked(path, { do: "list" })).toMatchObject({ checkpoints: 5 });
  expect(await asked(path, { do: "latest" })).toMatchObject({ checkpoint: { messageCount: 5 } });
  expect(await asked(path, { do: "prune", keep: 1 })).toMatchObject({ removed: 4 });
});

test("whichever save is missing, a state comes whole or not at all, also where a base names its messages by their numbers", async () => {
  const before = baseTuning.slackBytes;
  baseTuning.slackBytes = 500;
  try {
    const path = join(fresh(), "store.db");
    const making = await open(path);
    const session = await making.session("a");
    for (let n = 0; n < 30; n++) {
      session.append({ role: "user", content: `message ${n}` });
      session.set("k", `${n} `.padEnd(400, "x"));
      await session.checkpoint();
    }
    const { id } = (await making.checkpoints.latest("a")) as { id: string };
    await making.close();
    const sound = readFileSync(path);
    const answers: (number | string)[] = [];
    for (let n = 0; n < 30; n++) {
      const copy = join(fresh(), "store.db");
      writeFileSync(copy, sound);
      const db = new Database(copy);
      db.exec(rowAt(n));
      db.close();
      const hold = await open(copy);
      answers.push(
        await hold.checkpoints.state(id).then(
          ({ messages }) => messages.length,
          (error: { code: string }) => error.code,
        ),
      );
      await hold.close();
    }
    // The newest is what was asked for; without it there is nothing at that place.
    expect(answers).toEqual([...Array.from({ length: 29 }, () => "CORRUPT"), "NOT_FOUND"]);
  } finally {
    baseTuning.slackBytes = before;
  }
});

test("history and events do not leave out what a missing save held", async () => {
  const path = await holed(6, 0, rowAt(2));
  const hold = await open(path);
  const reading = hold.sessions.events("a")[Symbol.asyncIterator]();
  const heard: unknown[] = [];
  const told = (async () => {
    for (;;) heard.push((await reading.next()).value?.type);
  })();
  await expect(told).rejects.toMatchObject({ code: "CORRUPT" });
  expect(heard).toEqual(["message", "checkpoint", "message", "checkpoint"]);
  await hold.close();
  // A session that is open finds out when it asks further back.
  const sound = await holed(6, 0, "SELECT 1");
  const working = await open(sound);
  const session = await working.session("a");
  const db = new Database(sound);
  db.exec(rowAt(2));
  db.close();
  expect((await session.history({ limit: 2 })).items.map(({ content }) => content)).toEqual([
    "message 5",
    "message 4",
  ]);
  await expect(session.history({ limit: 4 })).rejects.toMatchObject({ code: "CORRUPT" });
  await expect(session.history({ before: 7 })).rejects.toMatchObject({ code: "CORRUPT" });
  await working.close();
});

test("verify goes on past rows that cannot be read, and calls no line lost that is there", async () => {
  const changes = {
    "a column of a line":
      "UPDATE branch SET body = x'00' WHERE session = (SELECT no FROM session WHERE id = 'a')",
    "what a save says of itself":
      "UPDATE save SET head = 'x' || substr(head, 2) WHERE no = (SELECT no FROM save ORDER BY no LIMIT 1 OFFSET 2)",
    "a section that became bytes":
      "UPDATE save SET items = x'00' WHERE no = (SELECT no FROM save ORDER BY no LIMIT 1 OFFSET 2)",
    "the tags of its session": "UPDATE session SET tags = 'K]' WHERE id = 'a'",
  };
  for (const [what, sql] of Object.entries(changes)) {
    const path = await holed(6, 0, "SELECT 1");
    const made = await open(path);
    const other = await made.session("b");
    other.append({ role: "user", content: "of b" });
    await other.checkpoint();
    await made.close();
    const db = new Database(path);
    db.exec(`${sql}; UPDATE save SET items = replace(items, 'of b', 'of c')`);
    db.close();
    const hold = await open(path);
    const { findings } = await hold.verify();
    const found = new Set(findings.map(({ sessionId }) => sessionId));
    expect(found, what).toEqual(new Set(["a", "b"]));
    expect(
      findings.filter(({ code }) => code === "LOST_TAIL"),
      what,
    ).toEqual([]);
    expect((await hold.verify({ sessionId: "a" })).ok, what).toBe(false);
    await hold.close();
  }
});

test("a session whose calls cannot be read does not hide the calls of others", async () => {
  const path = join(fresh(), "store.db");
  const hold = await open(path);
  const clerk = hold.agent({
    name: "clerk",
    model: async () => ({ content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] }),
    tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
  });
  for (const id of ["first", "bad", "last"])
    expect(await clerk.run(id, "pay")).toMatchObject({ status: "waiting" });
  await hold.close();
  const db = new Database(path);
  db.exec("DELETE FROM save WHERE no = 3");
  db.close();
  const reading = await open(path);
  const first = await reading.effects.list({ status: "waiting", limit: 2 });
  expect(first.items).toMatchObject([{ sessionId: "last" }]);
  expect(first.damaged).toMatchObject([{ id: "bad", message: expect.any(String) }]);
  const rest = await reading.effects.list({ status: "waiting", cursor: first.next as string });
  expect(rest).toMatchObject({ items: [{ sessionId: "first" }] });
  expect(rest).not.toHaveProperty("damaged");
  await reading.close();
  const shown = await run(["effects", "--json", "--store", path], { cwd: fresh() });
  expect(JSON.parse(shown.stdout)).toMatchObject({
    items: [{ sessionId: "last" }, { sessionId: "first" }],
    damaged: [{ id: "bad" }],
  });
  const approved = await run(["approve", "first", "--store", path], { cwd: fresh() });
  expect(approved).toMatchObject({ exit: 0 });
});

test("D5: an epoch that cannot be read is not taken for a lower one when its session is deleted", async () => {
  const path = await holed(1, 0, "UPDATE session SET epoch = x'05'");
  const hold = await open(path);
  await expect(hold.session("a")).rejects.toMatchObject({ code: "CORRUPT" });
  await hold.sessions.delete("a");
  await expect(hold.session("a")).rejects.toMatchObject({ code: "CORRUPT" });
  await (await hold.session("another")).close();
  await hold.close();
});

test("a session whose row was changed does not hide the others from a list, nor is it passed over in silence", async () => {
  const path = await holed(1, 0, "SELECT 1");
  const made = await open(path);
  for (const id of ["b", "c"]) await (await made.session(id)).close();
  await made.close();
  const db = new Database(path);
  db.exec("UPDATE session SET head = replace(head, 'in-progress', 'in-dispute!') WHERE id = 'b'");
  db.close();
  const hold = await open(path);
  const { items, damaged } = await hold.sessions.list();
  expect(items.map(({ id }) => id)).toEqual(["c", "a"]);
  expect(damaged).toEqual([{ id: "b", message: expect.stringContaining("is damaged") }]);
  expect((await hold.verify()).findings).toContainEqual(
    expect.objectContaining({ code: "CORRUPT", sessionId: "b" }),
  );
  await hold.close();
});
