/**
 * Keeping it small: policies that are kept, applied by hand and by themselves; gc in steps; and
 * that room is really given back.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { type RetentionReport } from "../../../src/features/retention/tally.js";
import { Holdfast as Hold } from "../../../src/holdfast.js";
import { type Holdfast, open, type Session } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import { openDriver } from "../../../src/store/sql/sqlite/driver/driver.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { PgClient } from "../../support/pg-client.js";
import { isThorough } from "../../support/runs.js";
import { everyStore, scratch, stores } from "../../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

const on = (store: Store): Holdfast => {
  const hold = new Hold(store, thisMachine(), { now: Date.now }, 30_000);
  opened.push(hold);
  return hold;
};
const begin = async (address: string): Promise<Holdfast> => {
  const hold = await open(address);
  opened.push(hold);
  return hold;
};

async function work(session: Session, count: number, bytes = 20): Promise<string[]> {
  const made: string[] = [];
  for (let i = 0; i < count; i++) {
    session.append({ role: "user", content: `${i} `.padEnd(bytes, "x") });
    session.set("state", `${i} `.padEnd(bytes, "y"));
    made.push((await session.checkpoint()).id);
  }
  return made;
}

async function session(
  hold: Holdfast,
  id: string,
  agent: string,
  count: number,
): Promise<string[]> {
  const made = await hold.session(id, { agent });
  const ids = await work(made, count);
  await made.close();
  return ids;
}

const listed = async (hold: Holdfast, id: string) =>
  (await hold.checkpoints.list(id, { limit: 1_000 })).items.map((one) => one.id);

describe.each(stores)("retention on $name", ({ address }) => {
  test("a policy of its agent, else of the store, else nothing", async () => {
    const hold = await begin(address());
    await session(hold, "a", "x", 6);
    await session(hold, "b", "y", 6);
    expect(await hold.checkpoints.prune("a")).toEqual({ removed: 0 });
    await hold.retention.set({ keep: 4 });
    await hold.retention.set({ keep: 2 }, { agent: "x" });
    expect(await hold.retention.get()).toEqual({ keep: 4 });
    expect(await hold.retention.get({ agent: "x" })).toEqual({ keep: 2 });
    expect(await hold.retention.get({ agent: "y" })).toBeUndefined();
    expect(await hold.checkpoints.prune("b", { dryRun: true })).toMatchObject({ removed: 2 });
    const progress: unknown[] = [];
    expect(await hold.retention.apply({ dryRun: true })).toMatchObject({ sessions: 2, removed: 6 });
    expect(await listed(hold, "a")).toHaveLength(6);
    expect(await hold.retention.apply({ agent: "y" })).toMatchObject({
      sessions: 1,
      removed: 2,
      pruned: [{ sessionId: "b", removed: 2 }],
    });
    const report = await hold.retention.apply({ onProgress: (one) => progress.push(one) });
    const none = { removedSnapshots: 0, prunedSnapshots: [], failedSnapshots: [] };
    expect(report).toEqual({
      sessions: 2,
      removed: 4,
      pruned: [{ sessionId: "a", removed: 4 }],
      failed: [],
      ...none,
    });
    expect(progress.at(-1)).toEqual({ sessions: 2, removed: 4, removedSnapshots: 0 });
    expect(await hold.retention.clear({ agent: "x" })).toBe(true);
    expect(await hold.retention.clear({ agent: "x" })).toBe(false);
    await hold.retention.set({ keep: 1 }, { agent: "y" });
    expect(await hold.agents.delete("y")).toMatchObject({ sessions: 1 });
    expect(await hold.retention.get({ agent: "y" })).toBeUndefined();
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("what would go, how far it is, and a stop in between", { timeout: 20_000 }, async () => {
    const hold = await begin(address());
    const ids = await session(hold, "a", "x", 120);
    const would = await hold.checkpoints.prune("a", { keep: 20, dryRun: true });
    expect(would).toEqual({ removed: 100, ids: ids.slice(0, 100).toReversed() });
    const stop = new AbortController();
    const seen: number[] = [];
    const stopped = hold.checkpoints.prune("a", {
      keep: 20,
      signal: stop.signal,
      onProgress: ({ removed, of }) => {
        expect(of).toBe(100);
        seen.push(removed);
        stop.abort(new Error("enough"));
      },
    });
    // A store that does it in one step is done by then.
    const said = await stopped.catch((error: Error) => error.message);
    expect(said).toEqual(seen[0] === 100 ? { removed: 100 } : "enough");
    expect(seen).toHaveLength(1);
    expect(await listed(hold, "a")).toHaveLength(120 - (seen[0] as number));
    for (const id of await listed(hold, "a")) await hold.checkpoints.state(id);
    expect((await hold.checkpoints.prune("a", { keep: 20 })).removed).toBe(
      100 - (seen[0] as number),
    );
    expect(await listed(hold, "a")).toEqual(ids.slice(100).toReversed());
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("a session that is damaged, and one that others keep changing, do not stop the rest", async () => {
    const store = await openStore(address(), {});
    const hold = on(store);
    for (const id of ["a", "b", "c"]) await session(hold, id, "x", 5);
    await hold.retention.set({ keep: 2 });
    const lineOf = async (id: string) => (await store.session(id)).row?.head.branch;
    const [bad, busy] = [await lineOf("a"), await lineOf("c")];
    const holes = wrapped(store, {
      saves: async (line, query) =>
        (await store.saves(line, query)).filter((_, i) => line !== bad || i !== 1),
      reclaim: {
        replace: async (line, replacements, known) =>
          line !== busy && store.reclaim.replace(line, replacements, known),
      },
    });
    const report = await new Hold(
      holes,
      thisMachine(),
      { now: Date.now },
      30_000,
    ).retention.apply();
    expect(report).toMatchObject({
      sessions: 3,
      removed: 3,
      pruned: [{ sessionId: "b", removed: 3 }],
    });
    expect(report.failed.map(({ sessionId, code }) => [sessionId, code])).toEqual([
      ["c", "BUSY"],
      ["a", "CORRUPT"],
    ]);
  });

  test("what was done stays known while anybody can go back before it, also where a prune is cut short", async () => {
    const store = await openStore(address(), {});
    const hold = on(store);
    const made = await hold.session("a");
    await made.checkpoint("before");
    let done = 0;
    const pay = (one: Session) =>
      one.effect("pay", {}, { mode: "once", key: "pay" }, async () => ++done);
    await pay(made);
    await work(made, 90, 300);
    await made.close();
    let left = 1;
    const cut = wrapped(store, {
      reclaim: {
        replace: async (...args) => {
          if (left-- === 0) throw new Error("killed");
          return store.reclaim.replace(...args);
        },
      },
    });
    await new Hold(cut, thisMachine(), { now: Date.now }, 30_000).checkpoints
      .prune("a", { keep: 1 })
      .catch(() => {});
    const first = (await hold.checkpoints.list("a", { limit: 1_000 })).items.at(-1);
    if (first?.label === "before") {
      const again = await hold.session("a");
      await again.rewind(first.id);
      await expect(pay(again)).rejects.toMatchObject({ code: "WAITING" });
    }
    expect(done).toBe(1);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("gc says what it frees, on the way and at the end, and can be stopped", {
    timeout: 20_000,
  }, async () => {
    const hold = await begin(address());
    for (const id of ["a", "b"]) {
      const made = await hold.session(id);
      await work(made, 20, id === "a" ? 9_000 : 9_100);
      await made.close();
    }
    const kept = (await hold.checkpoints.list("a", { limit: 1_000 })).items[10]?.id as string;
    await hold.sessions.fork(kept, { id: "c" });
    for (const id of ["a", "b"]) await hold.sessions.delete(id);
    const would = await hold.gc({ dryRun: true });
    // Those of `b`, and of `a` what came behind the fork: each save has a message and a state.
    expect(would).toMatchObject({ blobs: 40 + 20 });
    const stop = new AbortController();
    const reports: number[] = [];
    const enough = new Error("enough");
    stop.abort(enough);
    await expect(hold.gc({ signal: stop.signal })).rejects.toBe(enough);
    const freed = await hold.gc({ onProgress: ({ freedBytes }) => reports.push(freedBytes) });
    expect(freed).toMatchObject({ freedBytes: would.freedBytes, blobs: would.blobs, saves: 0 });
    expect(reports).toContain(freed.freedBytes);
    expect(await hold.gc()).toMatchObject({ freedBytes: 0, blobs: 0 });
    expect((await hold.session("c")).messages).toHaveLength(10);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("a sweep tells what it removed, also where that is nothing, and ends with the store", async () => {
    const hold = await begin(address());
    await session(hold, "a", "x", 5);
    await hold.retention.set({ keep: 2 });
    const reports: RetentionReport[] = [];
    const sweep = hold.retention.sweep({ everyMs: 20, onSwept: (report) => reports.push(report) });
    expect(() => hold.retention.sweep({ everyMs: 20, onSwept: () => {} })).toThrow(
      expect.objectContaining({ code: "CONFLICT" }),
    );
    await expect.poll(() => reports.length).toBeGreaterThan(2);
    expect(reports[0]).toMatchObject({
      sessions: 1,
      removed: 3,
      pruned: [{ sessionId: "a", removed: 3 }],
      failed: [],
    });
    expect(reports[1]).toMatchObject({ sessions: 1, removed: 0, pruned: [], failed: [] });
    await sweep.stop();
    await sweep.stop();
    const count = reports.length;
    const next = hold.retention.sweep({ everyMs: 20, onSwept: (report) => reports.push(report) });
    await expect.poll(() => reports.length).toBeGreaterThan(count);
    await hold.close();
    const closed = reports.length;
    await sleep(60);
    expect(reports).toHaveLength(closed);
    await next.stop();
  });
});

describe("the sweep", () => {
  test("survives what goes wrong, and says so", async () => {
    const store = await openStore("memory:", {});
    let failing = true;
    const sick = wrapped(store, {
      sessions: async (query) => {
        if (failing) throw new Error("away");
        return store.sessions(query);
      },
    });
    const hold = on(sick);
    const errors: unknown[] = [];
    const reports: unknown[] = [];
    const sweep = hold.retention.sweep({
      everyMs: 10,
      onSwept: (report) => {
        reports.push(report);
        throw new Error("thrown by who is told");
      },
      onError: (error) => {
        errors.push((error as Error).message);
        throw new Error("this one too");
      },
    });
    const warnings: string[] = [];
    const warned = (warning: Error) => warnings.push(warning.message);
    process.on("warning", warned);
    await expect.poll(() => errors).toContain("away");
    failing = false;
    await expect.poll(() => reports.length).toBeGreaterThan(1);
    await sweep.stop();
    process.off("warning", warned);
    expect(errors).toContain("thrown by who is told");
    expect(warnings.join()).toContain("this one too");
  });

  test("it is not begun without somebody who is told", async () => {
    const hold = await begin("memory:");
    const begun = (o: object) => () => hold.retention.sweep(o as never);
    expect(begun({ everyMs: 1_000 })).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
    expect(begun({ everyMs: 0, onSwept: () => {} })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION" }),
    );
    expect(begun({ onSwept: () => {} })).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION" }),
    );
  });

  test("one that is under way ends at once when it is stopped, and keeps no process alive", {
    timeout: 30_000,
  }, async () => {
    const hold = await begin(join(scratch(), "store.db"));
    await session(hold, "a", "x", 400);
    await hold.retention.set({ keep: 1 });
    const sweep = hold.retention.sweep({
      everyMs: 60_000,
      onSwept: () => expect.unreachable("it was stopped"),
    });
    await sleep(5);
    const begun = performance.now();
    await sweep.stop();
    expect(performance.now() - begun).toBeLessThan(1_000);
    const program = `
      import { open } from ${JSON.stringify(new URL("../../../dist/index.js", import.meta.url).href)};
      const hold = await open("memory:");
      hold.retention.sweep({ everyMs: 60_000, onSwept: () => console.log("swept") });`;
    const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
      timeout: 20_000,
      encoding: "utf8",
    });
    expect({ stdout, status }).toEqual({ stdout: "swept\n", status: 0 });
  });
});

describe("room on disk", () => {
  const bytesIn = (path: string): number => {
    if (!existsSync(path)) return 0;
    return statSync(path).isFile()
      ? statSync(path).size
      : readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0);
  };
  const fill = async (hold: Holdfast, id: string, count: number) => {
    const made = await hold.session(id);
    for (let i = 0; i < count; i += 100)
      await Promise.all(
        Array.from({ length: 100 }, () => {
          made.set("state", "y".repeat(2_000));
          made.set("body", `${i} `.padEnd(9_000, "z"));
          return made.checkpoint();
        }),
      );
    await made.close();
  };

  test.each(stores.filter(({ traits }) => traits.durable && traits.oneMachine))(
    "$name gives it back",
    { timeout: 60_000 },
    async ({ address }) => {
      const place = address();
      const path = place.replace("dir:", "");
      const size = () => bytesIn(path) + bytesIn(`${path}-wal`);
      const hold = await begin(place);
      const empty = size();
      await fill(hold, "a", 2_000);
      await fill(hold, "b", 2_000);
      const full = size() - empty;
      await hold.checkpoints.prune("a", { keep: 5 });
      await hold.sessions.delete("b");
      const { freedBytes, returnedBytes } = await hold.gc();
      const { sizeBytes } = await hold.stats();
      // The log of before may take up to 8 MB; what stays is little more than what is stored.
      expect(size() - empty).toBeLessThan(full / 10 + sizeBytes);
      expect(returnedBytes + freedBytes).toBeGreaterThan(0);
      expect(await hold.verify()).toMatchObject({ ok: true });
      expect(await listed(hold, "a")).toHaveLength(5);
      const again = await hold.session("a");
      await work(again, 3);
      expect(await hold.verify()).toMatchObject({ ok: true });
    },
  );

  if (isThorough)
    test("a server has no row of it any more, and uses the room again once it has vacuumed, which it does by itself", {
      timeout: 30_000,
    }, async () => {
      const kind = everyStore.find(({ traits }) => !traits.oneMachine);
      const place = kind?.address() as string;
      const hold = await begin(place);
      await fill(hold, "a", 1_000);
      await fill(hold, "b", 1_000);
      const url = new URL(place);
      const schema = url.searchParams.get("schema") as string;
      url.search = "";
      const client = new PgClient({ connectionString: url.href });
      await client.connect();
      try {
        const table = `"${schema}".save`;
        const pages = async () =>
          Number(
            (await client.query("SELECT pg_relation_size($1::regclass) / 8192 AS pages", [table]))
              .rows[0]?.["pages"],
          );
        const before = await pages();
        await hold.checkpoints.prune("a", { keep: 5 });
        await hold.sessions.delete("b");
        expect(await hold.gc()).toMatchObject({ returnedBytes: 0 });
        expect((await hold.stats()).checkpoints).toBe(5);
        // What was freed is used again: as much as before finds room in the pages there are.
        await othersHaveEnded(client);
        await client.query(`VACUUM ${table}`);
        await fill(hold, "c", 1_500);
        expect(await pages()).toBeLessThan(before * 1.1);
      } finally {
        await client.end();
      }
      expect(await hold.verify()).toMatchObject({ ok: true });
    });

  test("an older SQLite store, which cannot do it in steps, is copied once where it is small", async () => {
    const path = join(scratch(), "store.db");
    const hold = await begin(path);
    await fill(hold, "a", 500);
    await hold.close();
    opened.length = 0;
    const db = openDriver(path);
    db.exec("PRAGMA auto_vacuum = NONE; VACUUM");
    db.close();
    const before = statSync(path).size;
    const again = await begin(path);
    await again.sessions.delete("a");
    expect(statSync(path).size).toBe(before);
    expect((await again.gc()).returnedBytes).toBeGreaterThan(before / 2);
    expect(statSync(path).size).toBeLessThan(before / 2);
    expect(await again.verify()).toMatchObject({ ok: true });
  });

  test("what is appended to a journal while it is written anew is in it", async () => {
    const hold = await begin(`dir:${join(scratch(), "store")}`);
    await fill(hold, "a", 3_000);
    const made = await hold.session("a");
    const pruning = hold.checkpoints.prune("a", { keep: 10 });
    let saves = 0;
    let over = false;
    void pruning.then(() => {
      over = true;
    });
    while (!over) {
      made.append({ role: "user", content: `${saves++}` });
      await made.checkpoint();
      await sleep(1);
    }
    const { removed } = await pruning;
    expect(removed).toBeGreaterThanOrEqual(2_990);
    expect(saves).toBeGreaterThan(1);
    await made.close();
    expect((await hold.session("a")).messages).toHaveLength(saves);
    expect(removed + (await listed(hold, "a")).length).toBe(3_000 + saves);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });
});

/**
 * What was removed may still be seen by transactions of other tests that began before: until they
 * end it is not vacuumed.
 */
async function othersHaveEnded(client: InstanceType<typeof PgClient>): Promise<void> {
  const xid = (await client.query("SELECT pg_current_xact_id()::xid::text AS xid")).rows[0]?.[
    "xid"
  ];
  const older =
    "SELECT 1 FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND age(backend_xmin) >= age($1::text::xid)";
  while ((await client.query(older, [xid])).rows.length > 0) await sleep(20);
}
