/**
 * Run again: after it was killed anywhere, on a source that has grown, on sessions that have gone
 * on here; and without changing anything.
 */
import { execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Holdfast, Json, OpenOptions } from "../../src/index.js";
import { KINDS, type MigrationKind, migrate } from "../../src/migrate/index.js";
import { Processes } from "../support/processes.js";
import { isThorough, runs } from "../support/runs.js";
import { agent, checkpoint, conversation } from "./aethershell-files.js";
import { ares, fixtures, place, put, talk, tree, using, view, viewAt } from "./support.js";

const child = fileURLToPath(new URL("import-child.mjs", import.meta.url));

/** What `open` gives where a test brings its own. */
let opener: ((o: OpenOptions) => Holdfast) | undefined;
vi.mock("../../src/open.js", async (original) => {
  const real = await original<typeof import("../../src/open.js")>();
  return {
    ...real,
    open: async (address?: string, o?: OpenOptions) => {
      // A store that is thrown away is nobody's business.
      const own = address === "memory:" ? undefined : opener?.(o ?? {});
      return own ?? real.open(address, o);
    },
  };
});
afterEach(() => {
  opener = undefined;
});

const swarm = (
  session: string,
  id: string,
  at: number,
  parent: string | null,
  state: Json = { id },
) => ({
  [`sessions/${session}/${id}.json`]: {
    ...{
      id,
      session_id: session,
      label: id,
      created_at: `2026-01-28T02:30:0${at}Z`,
      state,
      context: null,
    },
    metadata: {
      tasks_completed: 0,
      token_count: null,
      state_size_bytes: 1,
      context_compressed: false,
      parent_checkpoint_id: parent,
      extra: {},
    },
  },
});

/** A small source of each kind, with all that makes it take more than one write. */
const sources: Readonly<Record<MigrationKind, () => string>> = {
  ares: () =>
    put(place(), {
      ...Object.fromEntries(
        [0, 1, 2].map((step) => [
          `a_${step}.json`,
          ares({ step, status: step === 2 ? "Completed" : "InProgress" }),
        ]),
      ),
      "a_latest.json": "a_1.json",
      "b_0.json": ares({ session: "b", step: 0, status: { Failed: "x" } }),
    }),
  ccswarm: () =>
    put(place(), {
      ...swarm("s", "root", 0, null),
      ...swarm("s", "left", 1, "root"),
      ...swarm("s", "right", 2, "root"),
      ...swarm("f", "f1", 3, "left"),
      "forks.json": {
        forks: {
          f: {
            fork_id: "f",
            parent_session_id: "s",
            checkpoint_id: "left",
            branch_name: "try",
            created_at: "2026-01-28T02:30:03Z",
            status: "Active",
            metadata: {},
          },
          e: {
            fork_id: "e",
            parent_session_id: "s",
            checkpoint_id: "root",
            branch_name: null,
            created_at: "2026-01-28T02:30:04Z",
            status: "Active",
            metadata: {},
          },
        },
        children: {},
      },
    }),
  smooth: () => join(fixtures, "smooth"),
  aethershell: () =>
    put(place(), {
      ...checkpoint("c1", 10, [conversation("x", 2)]),
      ...checkpoint("c2", 20, [conversation("x", 3), conversation("y", 1)]),
      "agents/ag.json": agent(),
      "conversations/x.json": conversation("x", 4, { title: "Ex", archived: true }),
      "conversations/o.json": conversation("o", 1, { agent_id: "gone" }),
    }),
};

/** The same sources, and how they grow: at their ends, in between, and with other words. */
const growth: Readonly<Record<MigrationKind, (path: string) => void>> = {
  ares: (path) =>
    put(path, {
      "a_1.json": ares({ step: 1, messages: talk(5) }),
      "a_3.json": ares({ step: 3 }),
      "a_latest.json": "a_1.json",
      "b_1.json": ares({ session: "b", step: 1 }),
    }),
  ccswarm: (path) =>
    put(path, {
      ...swarm("s", "between", 1, "root"),
      ...swarm("s", "leaf", 4, "left"),
      ...swarm("s", "twig", 5, "between"),
    }),
  smooth: (path) => {
    const first = JSON.parse(readFileSync(join(path, "agent-1/c-1.json"), "utf8")) as object;
    put(path, {
      "agent-1/c-2.json": { ...first, id: "c-2", created_at: "2026-04-05T00:00:00Z" },
      "agent-1/c-3.json": { ...first, id: "c-3", created_at: "2026-04-06T00:00:00Z" },
    });
  },
  aethershell: (path) =>
    put(path, {
      ...checkpoint("c15", 15, [conversation("x", 1)]),
      ...checkpoint("c3", 30, [conversation("y", 2)]),
      "agents/ag.json": agent({ custom_state: { at: { Int: 9 } } }),
      "conversations/x.json": conversation("x", 2),
    }),
};

describe("killed at any write, before it is done or after", () => {
  interface Death {
    readonly write: number;
    readonly done: boolean;
  }

  /**
   * Imports, in a process that dies; then in one that does not; what there is then, and how many
   * writes the last one took.
   */
  async function dyingOnce(
    kind: MigrationKind,
    path: string,
    processes: Processes,
    diesAt: Death | undefined,
  ): Promise<number> {
    let writes = 0;
    const once = async (dies: Death | undefined) => {
      let died: Promise<void> | undefined;
      opener = ({ clock }) => {
        const started = processes.start({ ...(clock && { clock }), ...(dies && { diesAt: dies }) });
        died = started.died;
        writes = started.writes();
        const { hold } = started;
        return new Proxy(hold, {
          get: (of, name) => {
            writes = started.writes();
            const value = Reflect.get(of, name, of) as unknown;
            return typeof value === "function" ? (value.bind(of) as unknown) : value;
          },
        });
      };
      const done = migrate(kind, path, "store.db");
      await (dies === undefined ? done : Promise.race([done, until(() => died)]));
    };
    if (diesAt !== undefined) await once(diesAt);
    await once(undefined);
    opener = undefined;
    return writes;
  }

  /** What is there at the end is the same, wherever it died. */
  async function sameWhereverItDies(
    run: (diesAt?: Death) => Promise<{ seen: Json; writes: number }>,
    least: number,
  ): Promise<void> {
    const whole = await run();
    expect(whole.writes).toBeGreaterThan(least);
    for (let write = 1; write <= whole.writes; write += runs(2, 1))
      for (const done of isThorough ? [false, true] : [write % 4 === 1])
        expect((await run({ write, done })).seen, `write ${write}, ${done}`).toEqual(whole.seen);
  }

  const seenIn = async (processes: Processes): Promise<Json> => {
    const seen = await view(processes.start().hold);
    await processes.close();
    return seen;
  };

  test.each(KINDS)("%s: run again, it is as if it had been run once", async (kind) => {
    const path = sources[kind]();
    const run = async (diesAt?: Death) => {
      const processes = await Processes.on("memory:");
      const writes = await dyingOnce(kind, path, processes, diesAt);
      return { seen: await seenIn(processes), writes };
    };
    await sameWhereverItDies(run, kind === "smooth" ? 2 : 4);
  });

  test.each(KINDS)("%s: a source that has grown, also in between", async (kind) => {
    const [first, grown] = [place(), place()];
    for (const path of [first, grown]) cpSync(sources[kind](), path, { recursive: true });
    growth[kind](grown);
    const run = async (diesAt?: Death) => {
      const processes = await Processes.on("memory:");
      await dyingOnce(kind, first, processes, undefined);
      const writes = await dyingOnce(kind, grown, processes, diesAt);
      return { seen: await seenIn(processes), writes };
    };
    await sameWhereverItDies(run, 2);
  });

  /** Resolves with what comes to be there. */
  async function until(promised: () => Promise<void> | undefined): Promise<void> {
    for (;;) {
      const there = promised();
      if (there !== undefined) return there;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
});

test("stopped by a signal at any point, it goes on", async () => {
  const path = sources.ccswarm();
  const once = join(place(), "s.db");
  await migrate("ccswarm", path, once);
  const store = join(place(), "s.db");
  let stops = 0;
  for (let after = 1; ; after++) {
    let asked = 0;
    // A signal that aborts when it is looked at so many times.
    const signal = Object.assign(Object.create(AbortSignal.prototype) as AbortSignal, {
      throwIfAborted: () => {
        asked += 1;
        if (asked === after) throw new Error("stopped");
      },
    });
    const ended = await migrate("ccswarm", path, store, { signal }).then(
      () => true,
      (error: Error) => error.message !== "stopped",
    );
    if (ended) break;
    stops += 1;
  }
  expect(stops).toBeGreaterThan(15);
  expect(await viewAt(store)).toEqual(await viewAt(once));
});

test("two at once: what one is at, the other leaves alone, and nothing is there twice", async () => {
  const path = sources.ccswarm();
  const once = join(place(), "s.db");
  await migrate("ccswarm", path, once);
  for (let i = 0; i < 3; i++) {
    const store = join(place(), "s.db");
    const both = await Promise.all([
      migrate("ccswarm", path, store),
      migrate("ccswarm", path, store),
    ]);
    expect(
      both.flatMap(({ sessions }) => sessions.filter(({ outcome }) => outcome === "conflict"))
        .length,
    ).toBeLessThan(6);
    await migrate("ccswarm", path, store);
    expect(await viewAt(store)).toEqual(await viewAt(once));
  }
});

test("another import that comes between the plan and the lease is noticed", async () => {
  const store = join(place(), "s.db");
  const path = put(place(), {
    "a_0.json": ares({ step: 0 }),
    "a_1.json": ares({ step: 1 }),
    "a_latest.json": "a_1.json",
  });
  await migrate("ares", path, store);
  // The other one ends where this one has planned to begin.
  put(path, { "a_2.json": ares({ step: 2 }) });
  // Two looks at each file, one before the session is planned, and this.
  const before = 2 * readdirSync(path).length + 2;
  let looks = 0;
  const signal = Object.assign(Object.create(AbortSignal.prototype) as AbortSignal, {
    throwIfAborted: () => {
      looks += 1;
      if (looks === before) execFileSync(process.execPath, [child, "ares", path, store]);
    },
  });
  const report = await migrate("ares", path, store, { signal });
  expect(report.sessions).toMatchObject([
    { outcome: "conflict", message: expect.stringContaining("somebody else meanwhile") },
  ]);
  await using(store, async (hold) =>
    expect(
      (await hold.checkpoints.list("a", { branches: "all" })).items.map(({ step }) => step),
    ).toEqual([2, 1, 0]),
  );
  expect((await migrate("ares", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
});

if (isThorough)
  test("killed by the system, again and again, in other processes", async () => {
    const files = Object.fromEntries(
      Array.from({ length: 4 }, (_, i) => `s${i}`).flatMap((session) =>
        Array.from(
          { length: 25 },
          (_, step) => [`${session}_${step}.json`, ares({ session, step })] as const,
        ),
      ),
    );
    const path = put(place(), files);
    const once = join(place(), "s.db");
    await migrate("ares", path, once);
    const store = join(place(), "s.db");
    let kills = 0;
    for (let ms = 1; ; ms *= 4) {
      const running = spawn(process.execPath, [child, "ares", path, store], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const code = await new Promise<number | null>((resolve) => {
        // From when it has begun to read.
        running.stdout.once("data", () => setTimeout(() => running.kill("SIGKILL"), ms));
        running.once("exit", resolve);
      });
      if (code === 0) break;
      kills += 1;
    }
    expect(kills).toBeGreaterThan(1);
    expect(await viewAt(store)).toEqual(await viewAt(once));
  });

describe("a source that has grown", () => {
  test("is continued, in every store", async () => {
    for (const store of [join(place(), "s.db"), `dir:${join(place(), "d")}`]) {
      const path = put(place(), {
        "a_0.json": ares({ step: 0 }),
        "b_0.json": ares({ session: "b", step: 0 }),
      });
      await migrate("ares", path, store);
      put(path, {
        "a_1.json": ares({ step: 1 }),
        "a_2.json": ares({ step: 2, status: "Completed" }),
        "c_0.json": ares({ session: "c", step: 0 }),
      });
      const report = await migrate("ares", path, store);
      expect(
        report.sessions.map(({ id, outcome, checkpoints }) => [id, outcome, checkpoints]),
      ).toEqual([
        ["a", "grown", 2],
        ["b", "known", 0],
        ["c", "imported", 1],
      ]);
      const all = join(place(), "s.db");
      await migrate("ares", path, all);
      expect(await viewAt(store)).toEqual(await viewAt(all));
    }
  });

  test("with something that belongs in between: it is on a line of its own; what belongs before everything is left out", async () => {
    const store = join(place(), "s.db");
    const path = put(place(), { "a_1.json": ares({ step: 1 }), "a_4.json": ares({ step: 4 }) });
    await migrate("ares", path, store);
    put(path, Object.fromEntries([0, 2, 3, 5].map((step) => [`a_${step}.json`, ares({ step })])));
    const report = await migrate("ares", path, store);
    expect(report.sessions).toEqual([{ id: "a", outcome: "grown", checkpoints: 3 }]);
    expect(report.notes).toEqual([{ path: "a_0.json", what: expect.stringContaining("left out") }]);
    expect(await tree(store, "a")).toEqual({
      parents: { "a-1": null, "a-2": "a-1", "a-3": "a-2", "a-4": "a-1", "a-5": "a-4" },
      at: "a-5",
    });
    const before = await viewAt(store);
    expect((await migrate("ares", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
    expect(await viewAt(store)).toEqual(before);
  });

  test("that was pruned here is not brought back", async () => {
    const store = join(place(), "s.db");
    const steps = (...numbers: readonly number[]) =>
      Object.fromEntries(numbers.map((step) => [`a_${step}.json`, ares({ step })]));
    const path = put(place(), steps(0, 1, 2, 3, 4, 5));
    await migrate("ares", path, store);
    const held = () =>
      using(store, async (hold) =>
        (await hold.checkpoints.list("a", { branches: "all" })).items.map(({ step }) => step),
      );
    await using(store, async (hold) => {
      const { items } = await hold.checkpoints.list("a");
      // What a fork begins at is kept.
      await hold.sessions.fork(items.at(-2)?.id as string, { id: "f" });
      await hold.checkpoints.prune("a", { keep: 2 });
    });
    const kept = await held();
    expect(kept).toContain(1);
    expect(kept).not.toContain(2);
    expect((await migrate("ares", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
    expect(await held()).toEqual(kept);
    put(path, steps(6));
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { outcome: "grown", checkpoints: 1 },
    ]);
    expect(await held()).toEqual([6, ...kept]);
  });

  test("bit by bit, in any order of its files, is the tree that one run makes, where nothing comes late", async () => {
    for (const [name, current] of [
      ["a_1.json", 1],
      ["a_3.json", 3],
      [undefined, 3],
    ] as const) {
      const store = join(place(), "s.db");
      const path = place();
      for (const step of [0, 1, 2, 3]) {
        put(path, {
          [`a_${step}.json`]: ares({ step }),
          "a_latest.json": `a_${Math.floor(step / 2)}.json`,
        });
        await migrate("ares", path, store);
      }
      put(path, { "a_latest.json": name ?? "gone.json" });
      await migrate("ares", path, store);
      const once = join(place(), "s.db");
      await migrate("ares", path, once);
      expect(await tree(store, "a")).toEqual(await tree(once, "a"));
      expect((await tree(store, "a")).at).toBe(`a-${current}`);
    }
  });
});

describe("sessions that are not the import's", () => {
  const source = () =>
    put(place(), { "a_0.json": ares({ step: 0 }), "b_0.json": ares({ session: "b", step: 0 }) });
  const conflicts = async (
    change: (hold: Holdfast) => Promise<unknown>,
    { before = true } = {},
  ) => {
    const store = join(place(), "s.db");
    const path = source();
    if (before) await migrate("ares", path, store);
    await using(store, change);
    put(path, { "a_1.json": ares({ step: 1 }) });
    const was = await using(store, async (hold) => JSON.stringify(await hold.sessions.state("a")));
    const report = await migrate("ares", path, store);
    const [a, b] = report.sessions;
    expect(b).toMatchObject({ id: "b", outcome: before ? "known" : "imported" });
    expect(await using(store, async (hold) => JSON.stringify(await hold.sessions.state("a")))).toBe(
      was,
    );
    return a;
  };

  test("are left as they are, and the others are imported", async () => {
    const another = {
      id: "a",
      outcome: "conflict",
      checkpoints: 0,
      message: expect.stringContaining("another session"),
    };
    expect(
      await conflicts(
        async (hold) => (await hold.session("a")).append({ role: "user", content: "mine" }),
        { before: false },
      ),
    ).toEqual(another);
    expect(
      await conflicts((hold) =>
        hold.sessions.update("a", { metadata: { source: { kind: "smooth", id: "a" } } }),
      ),
    ).toEqual(another);
  });

  test("nor those that have gone on here: with a checkpoint, a message, or back to an earlier place", async () => {
    const gone = { outcome: "conflict", message: expect.stringContaining("gone on here") };
    expect(
      await conflicts((hold) => hold.checkpoints.create("a", { label: "mine" })),
    ).toMatchObject(gone);
    expect(
      await conflicts((hold) => hold.sessions.append("a", [{ role: "user", content: "mine" }])),
    ).toMatchObject(gone);
    // A reply of a model is durable without a checkpoint.
    const asks = async (hold: Holdfast) => {
      const session = await hold.session("a");
      await session.model(async () => "mine");
      await session.close();
    };
    expect(await conflicts(asks)).toMatchObject(gone);
    const store = join(place(), "s.db");
    const path = put(place(), { "a_0.json": ares({ step: 0 }), "a_1.json": ares({ step: 1 }) });
    await migrate("ares", path, store);
    await using(store, async (hold) => {
      const { items } = await hold.checkpoints.list("a");
      await hold.sessions.rewind("a", items[1]?.id as string);
    });
    put(path, { "a_2.json": ares({ step: 2 }) });
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { outcome: "conflict", message: expect.stringContaining("put back") },
    ]);
  });

  test("nor one that somebody holds, or of the same id from another source", async () => {
    const store = join(place(), "s.db");
    const path = source();
    await migrate("ares", path, store);
    put(path, { "a_1.json": ares({ step: 1 }) });
    await using(store, async (hold) => {
      const session = await hold.session("a");
      const report = await migrate("ares", path, store);
      expect(report.sessions).toMatchObject([
        { id: "a", outcome: "conflict", message: expect.stringContaining("is held by") },
        { outcome: "known" },
      ]);
      await session.close();
    });
    const other = put(place(), swarm("a", "x", 0, null));
    expect((await migrate("ccswarm", other, store)).sessions).toMatchObject([
      { id: "a", outcome: "conflict" },
    ]);
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { id: "a", outcome: "grown", checkpoints: 1 },
      {},
    ]);
  });

  test("what people said of a session here stays; what they left alone follows the source", async () => {
    const store = join(place(), "s.db");
    const said = (turns: number, more: object) => ({
      "conversations/x.json": conversation("x", turns, more),
    });
    const path = put(place(), {
      ...said(1, { title: "Theirs", tags: ["t", "b"] }),
      "conversations/y.json": conversation("y", 1, { title: "Why" }),
    });
    await migrate("aethershell", path, store);
    await using(store, async (hold) => {
      const { metadata } = (await hold.sessions.get("x")) ?? {};
      await hold.sessions.update("x", {
        title: "Mine",
        archived: true,
        metadata: { ...metadata, mine: 1 },
      });
    });
    for (const turns of [2, 3]) {
      put(path, {
        ...said(turns, { title: "Theirs again", tags: ["u", `n${turns}`, "c"] }),
        "conversations/y.json": conversation("y", turns, { title: "Y" }),
      });
      expect((await migrate("aethershell", path, store)).sessions).toMatchObject([
        { outcome: "grown" },
        { outcome: "grown" },
      ]);
      await using(store, async (hold) => {
        const kept = {
          title: "Mine",
          tags: expect.arrayContaining([`n${turns}`]),
          archived: true,
          metadata: { mine: 1, source: { kind: "aethershell" } },
        };
        expect(await hold.sessions.get("x")).toMatchObject(kept);
        expect(await hold.sessions.get("y")).toMatchObject({ title: "Y", archived: false });
      });
    }
  });

  test("nor one of the same id from another directory of the same kind", async () => {
    const store = join(place(), "s.db");
    const other = (steps: number) =>
      put(
        place(),
        Object.fromEntries(
          Array.from({ length: steps }, (_, step) => [
            `a_${step}.json`,
            ares({ step, agent: "other" }),
          ]),
        ),
      );
    const path = source();
    await migrate("ares", path, store);
    const before = await viewAt(store);
    for (const steps of [1, 3]) {
      const report = await migrate("ares", other(steps), store);
      expect(report.sessions).toMatchObject([
        { outcome: "conflict", message: expect.stringContaining("another session of this id") },
      ]);
    }
    expect(await viewAt(store)).toEqual(before);
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { outcome: "known" },
      { outcome: "known" },
    ]);
  });
});

describe("a dry run", () => {
  test.each(KINDS)("%s: makes no store, and says what the run then does", async (kind) => {
    const path = sources[kind]();
    const folder = place();
    for (const store of [join(folder, "s.db"), `dir:${join(folder, "d")}`]) {
      const dry = await migrate(kind, path, store, { dryRun: true });
      expect(readdirSync(folder).filter((name) => store.endsWith(name))).toEqual([]);
      const { dryRun, ...real } = await migrate(kind, path, store);
      expect(dryRun).toBe(false);
      expect(dry).toEqual({ ...real, dryRun: true, storedBytes: expect.any(Number) });
      expect(Math.abs(dry.storedBytes - real.storedBytes)).toBeLessThan(real.storedBytes / 10);
      const before = await viewAt(store);
      const again = await migrate(kind, path, store, { dryRun: true });
      expect(
        new Set(
          [...again.sessions, ...again.agents, ...again.snapshots].map(({ outcome }) => outcome),
        ),
      ).toEqual(new Set(["known"]));
      expect(await viewAt(store)).toEqual(before);
    }
  });

  test("does not make a store of an empty file or directory", async () => {
    const path = sources.ares();
    const file = join(put(place(), { "s.db": "" }), "s.db");
    const folder = place();
    for (const store of [file, `dir:${folder}`]) {
      expect((await migrate("ares", path, store, { dryRun: true })).sessions).toMatchObject([
        { outcome: "imported" },
        { outcome: "imported" },
      ]);
      expect([readFileSync(file).length, readdirSync(folder)]).toEqual([0, []]);
    }
    for (const store of [file, `dir:${folder}`])
      expect((await migrate("ares", path, store)).sessions).toMatchObject([
        { outcome: "imported" },
        { outcome: "imported" },
      ]);
  });

  test("is planned against what is there: growth, conflicts, and values that are refused", async () => {
    const store = join(place(), "s.db");
    const path = put(place(), {
      "a_0.json": ares({ step: 0 }),
      "b_0.json": ares({ session: "b", step: 0 }),
    });
    await migrate("ares", path, store);
    await using(store, (hold) => hold.checkpoints.create("b"));
    const bad = `{"session_id":"c","step":0,"id":"c","agent_name":"r","messages":[{"role":"user","content":"\\ud800"}],"tool_calls":[]}`;
    put(path, {
      "a_1.json": ares({ step: 1 }),
      "c_0.json": bad,
      "d_0.json": bad.replace('"c"', '"d"'),
      "d_1.json": ares({ session: "d", step: 1 }),
    });
    const size = () => readFileSync(store).length;
    const before = size();
    const dry = await migrate("ares", path, store, { dryRun: true });
    expect(size()).toBe(before);
    expect(dry.sessions).toMatchObject([
      { id: "a", outcome: "grown", checkpoints: 1 },
      { id: "b", outcome: "conflict" },
      { id: "c", outcome: "refused", checkpoints: 0 },
      { id: "d", outcome: "imported", checkpoints: 1 },
    ]);
    expect(dry.skipped).toMatchObject([
      { path: "c_0.json", why: expect.stringContaining("lone surrogate") },
      { path: "d_0.json", why: expect.stringContaining("lone surrogate") },
    ]);
    const real = await migrate("ares", path, store);
    expect(real).toMatchObject({ sessions: dry.sessions, skipped: dry.skipped, notes: dry.notes });
    await using(store, async (hold) => expect(await hold.sessions.get("c")).toBeUndefined());
  });
});

test("progress is told, files and then sessions; tenants are apart; a long transcript is stored once", async () => {
  const store = join(place(), "s.db");
  const path = put(
    place(),
    Object.fromEntries(
      Array.from({ length: 40 }, (_, step) => [
        `a_${step}.json`,
        ares({ step, messages: talk(step * 3) }),
      ]),
    ),
  );
  const told: (readonly [number, number, number])[] = [];
  await migrate("ares", path, store, {
    tenant: "t",
    onProgress: ({ files, of, sessions }) => told.push([files, of, sessions]),
  });
  expect(told[0]).toEqual([1, 40, 0]);
  expect(told.at(-1)).toEqual([40, 40, 1]);
  await using(store, async (hold) => expect((await hold.sessions.list()).items).toEqual([]));
  expect((await migrate("ares", path, store, { tenant: "t" })).sessions).toMatchObject([
    { outcome: "known" },
  ]);
  expect(existsSync(store)).toBe(true);
});
