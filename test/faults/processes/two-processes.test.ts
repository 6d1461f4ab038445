/** D5: one holder per session. A loser is told why, and one that was superseded changes nothing. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { open } from "../../../src/index.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";
import { SEED } from "../../support/random.mjs";
import { compete } from "./compete.mjs";

const Database = createRequire(import.meta.url)("better-sqlite3") as new (
  path: string,
  options: object,
) => { prepare(sql: string): { all(): unknown[] }; exec(sql: string): void; close(): void };

/** Every row of every table that a holder writes, as text. */
function dump(path: string): string {
  const db = new Database(path, { readonly: true });
  try {
    return JSON.stringify(
      ["save", "session", "branch", "blob", "ref", "inbox"].map((table) =>
        db.prepare(`SELECT * FROM ${table}`).all(),
      ),
    );
  } finally {
    db.close();
  }
}

const puppets: Child[] = [];
async function puppet(path: string, options: object = {}): Promise<Child> {
  const child = startPuppet();
  puppets.push(child);
  await child.ask({ do: "open", path, options });
  return child;
}
/**
 * Stops a process where it writes nothing: one that is stopped inside a write keeps the file
 * locked. It goes on as soon as it is woken.
 */
async function stop(child: Child): Promise<void> {
  child.tell({ do: "stand" });
  await child.heard((line) => line.stands === true);
  child.signal("SIGSTOP");
  child.tell({ go: true });
}
afterEach(async () => {
  for (const child of puppets.splice(0)) await child.end();
});

test.each([2, 4, 8])(
  "D5: %i processes compete for one session and leave one linear history",
  async (processes) => {
    const result = await compete({
      processes,
      count: Math.ceil(240 / processes),
      seed: SEED,
      waitMs: 20,
    });
    expect(result.wrong).toEqual([]);
    expect(result.lost.LEASE_HELD).toBeGreaterThan(0);
  },
);

test("D5: processes that stall past their lease lose it, are told so, and lose no message", async () => {
  const result = await compete({
    processes: 4,
    count: 12,
    seed: SEED,
    leaseMs: 100,
    stallMs: 250,
    waitMs: 20,
  });
  expect(result.wrong).toEqual([]);
  expect(result.lost.STALE_LEASE).toBeGreaterThan(0);
});

test("processes on sessions of their own in one file do not disturb each other", async () => {
  const result = await compete({ processes: 6, count: 15, seed: SEED, own: true });
  expect(result.wrong).toEqual([]);
  expect(result.lost).toEqual({ LEASE_HELD: 0, STALE_LEASE: 0 });
});

test("processes that open a store at the same moment, new or not, all get it, and can read it at once", async () => {
  const directory = fresh();
  const all = await Promise.all(
    Array.from({ length: 8 }, (_, i) => puppet(join(directory, `first-${i}.db`))),
  );
  const errors: unknown[] = [];
  const together = async (order: { readonly do: string; readonly [key: string]: unknown }) => {
    for (const { error } of await Promise.all(all.map((child) => child.ask(order))))
      if (error) errors.push(`${order.do}: ${error.code}`);
  };
  for (let round = 0; round < 40; round++) {
    await together({ do: "close" });
    // Every fourth round the file is new; in the others the last to close has just taken the log
    // away.
    await together({ do: "open", path: join(directory, `round-${Math.floor(round / 4)}.db`) });
    await together({ do: "verify" });
  }
  expect(errors).toEqual([]);
});

test("negative control: a process that writes a message twice is caught", async () => {
  const result = await compete({
    processes: 2,
    count: 10,
    seed: SEED,
    waitMs: 20,
    doubleWrite: true,
  });
  expect(result.wrong.join("\n")).toMatch(/instead of 0\.\.9/);
});

test("D5: a holder paused past its lease changes no row when it wakes, throws STALE_LEASE and aborts its signal", async () => {
  const path = join(fresh(), "store.db");
  const old = await puppet(path);
  await old.ask({ do: "session", session: "a", options: { leaseMs: 300 } });
  await old.ask({ do: "save", session: "a", text: "old" });
  await stop(old);
  await sleep(400);

  const next = await puppet(path);
  expect(
    await next.ask({ do: "session", session: "a", options: { leaseMs: 60_000 } }),
  ).toMatchObject({ messages: 1 });
  expect((await next.ask({ do: "save", session: "a", text: "new" })).error).toBeUndefined();
  const before = dump(path);

  // The order waits in its pipe: the save is the first thing it does when it wakes, before a
  // heartbeat could tell it.
  old.tell({ do: "save", session: "a", text: "too late" });
  old.signal("SIGCONT");
  expect(await old.heard((line) => line.answer === "save" && line.error)).toMatchObject({
    error: { name: "HoldfastError", code: "STALE_LEASE" },
  });
  expect(await old.ask({ do: "signal", session: "a" })).toMatchObject({
    aborted: true,
    code: "STALE_LEASE",
  });
  // Nor do a second try, the heartbeat, or closing change anything.
  expect(await old.ask({ do: "save", session: "a", text: "again" })).toMatchObject({
    error: { code: "STALE_LEASE" },
  });
  await sleep(250);
  await old.ask({ do: "close-session", session: "a" });
  expect(dump(path)).toBe(before);

  expect((await next.ask({ do: "save", session: "a", text: "on" })).error).toBeUndefined();
  expect(dump(path), "negative control: the dump shows a row that changed").not.toBe(before);
});

test("D5: a heartbeat that finds itself superseded aborts the signal without any save", async () => {
  const path = join(fresh(), "store.db");
  const old = await puppet(path);
  await old.ask({ do: "session", session: "a", options: { leaseMs: 300 } });
  await stop(old);
  await sleep(400);
  const next = await puppet(path);
  await next.ask({ do: "session", session: "a", options: { leaseMs: 60_000 } });
  const before = dump(path);
  old.signal("SIGCONT");
  expect(await old.heard((line) => line.aborted === "a")).toMatchObject({ code: "STALE_LEASE" });
  expect(dump(path)).toBe(before);
});

test("D5: a holder that is paused within its lease keeps it", async () => {
  const path = join(fresh(), "store.db");
  const old = await puppet(path);
  await old.ask({ do: "session", session: "a", options: { leaseMs: 30_000 } });
  await stop(old);
  const next = await puppet(path);
  expect(await next.ask({ do: "session", session: "a" })).toMatchObject({
    error: { code: "LEASE_HELD" },
  });
  old.signal("SIGCONT");
  expect((await old.ask({ do: "save", session: "a", text: "still mine" })).error).toBeUndefined();
});

test("a killed holder's session is free at once, and a living holder is named", async () => {
  const path = join(fresh(), "store.db");
  const holder = await puppet(path);
  await holder.ask({ do: "session", session: "a" });
  await holder.ask({ do: "save", session: "a", text: "one" });

  const hold = await open(path);
  const refused = await hold.session("a").then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(refused).toMatchObject({
    code: "LEASE_HELD",
    retryable: true,
    details: { sessionId: "a", holder: `process ${holder.pid}` },
  });
  const { remainingMs } = (refused as { details: { remainingMs: number } }).details;
  expect(remainingMs).toBeGreaterThan(10_000);
  expect(remainingMs).toBeLessThanOrEqual(30_000);

  holder.signal("SIGKILL");
  // Not reaped yet, perhaps: a zombie holds nothing either.
  const began = performance.now();
  const session = await hold.session("a", { waitMs: 5_000 });
  expect(performance.now() - began).toBeLessThan(2_000);
  session.append({ role: "user", content: "two" });
  expect((await session.checkpoint()).messageCount).toBe(2);
  await hold.close();
});

test("a store that was closed in this process no longer holds its sessions, even where letting go failed", async () => {
  // What a user does after IO: close, open again, go on. The first store's lease must not stand in
  // the way for 30 s.
  const path = join(fresh(), "store.db");
  const first = await open(path, { busyMs: 100 });
  const session = await first.session("a");
  session.append({ role: "user", content: "one" });
  await session.checkpoint();
  const other = new Database(path, {});
  other.exec("BEGIN IMMEDIATE");
  // Letting go finds the file locked until it gives up.
  await first.close();
  other.exec("ROLLBACK");
  other.close();
  const second = await open(path);
  const again = await second.session("a", { waitMs: 1_000 });
  expect(again.messages).toHaveLength(1);
  await second.close();
});
