/**
 * D3: whichever save is missing, each public read answers as before, says CORRUPT with the place,
 * or names the damage apart.
 */
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Save } from "../../../src/core/journal/save.js";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, type HoldfastError, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import type { Store } from "../../../src/store/port.js";
import { wrapped } from "../../support/failures/wrapped.js";

const Database = createRequire(import.meta.url)("better-sqlite3") as new (
  path: string,
) => {
  exec(sql: string): void;
  prepare(sql: string): { all(): { no: number; id: string; seq: number }[] };
  close(): void;
};

/** Memory, where there is some: syncs cost nothing there. */
const root = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "holdfast-holes-"));
const { slackBytes } = baseTuning;
// Bases come every few saves: what stands before one of them is not loaded, and a hole there is
// found by those who walk.
beforeAll(() => {
  baseTuning.slackBytes = 100;
});
afterAll(() => {
  baseTuning.slackBytes = slackBytes;
  rmSync(root, { recursive: true, force: true });
});
const fresh = (): string => mkdtempSync(join(root, "at-"));

/** Pays once in a turn, and says so. Nobody may ask it again. */
const clerk = (mayWork: boolean) => ({
  name: "clerk",
  model: async ({ messages }: { readonly messages: readonly { readonly role: string }[] }) => {
    if (!mayWork) throw new Error("the model was asked again");
    if (messages.at(-1)?.role === "tool") return { content: "it is paid" };
    return {
      content: "",
      toolCalls: [{ callId: `c${messages.length}`, name: "pay", input: { sum: messages.length } }],
    };
  },
  tools: {
    pay: {
      mode: "once" as const,
      run: (_input: unknown, { set }: { set(this: void, key: string, value: string): void }) => {
        if (!mayWork) expect.fail("paid again");
        set("note", "x".repeat(300));
        return { paid: "yes" };
      },
    },
    ask: { mode: "once" as const, approval: true, run: () => "asked" },
  },
});
const TURNS = ["first", "second", "third"];

/**
 * Turns under keys, a session that was rewound, its fork, and a call that waits. Answers the ids of
 * all checkpoints.
 */
async function make(hold: Holdfast): Promise<readonly string[]> {
  const bot = hold.agent(clerk(true) as never);
  for (const turn of TURNS)
    expect(await bot.run("turns", turn, { key: turn })).toMatchObject({ status: "completed" });
  // What was said is put in fewer words: from then on nobody loads the turns themselves.
  const talk = await hold.session("turns");
  talk.splice("messages", 0, talk.messages.length, { role: "user", content: "so far" });
  for (let n = 0; n < 3; n++) {
    talk.set("note", `${n} `.padEnd(300, "x"));
    await talk.checkpoint();
  }
  await talk.complete("it is paid");
  await talk.close();
  const session = await hold.session("a", { agent: "writer" });
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    session.append({ role: "user", content: `message ${n}` });
    session.set("n", `${n} `.padEnd(300, "x"));
    ids.push((await session.checkpoint(`c${n}`)).id);
  }
  await session.rewind(ids[2] as string);
  session.append({ role: "user", content: "after the rewind" });
  await session.checkpoint();
  await session.close();
  await hold.sessions.fork(ids[1] as string, { id: "fork" });
  const fork = await hold.session("fork");
  fork.append({ role: "user", content: "message of the fork" });
  await fork.checkpoint();
  fork.append({ role: "user", content: "another of the fork" });
  await fork.complete("done");
  await fork.close();
  const waits = hold.agent({
    ...clerk(true),
    name: "asker",
    model: async () => ({
      content: "",
      toolCalls: [{ callId: "w", name: "ask", input: { what: "may I" } }],
    }),
  } as never);
  expect(await waits.run("waits", "go")).toMatchObject({ status: "waiting" });
  const all = new Set<string>();
  for (const id of SESSIONS)
    for (const { id: at } of (await hold.checkpoints.list(id, { branches: "all", limit: 100 }))
      .items)
      all.add(at);
  return [...all];
}
const SESSIONS = ["turns", "a", "fork", "waits"];

type Ask = (hold: Holdfast) => Promise<unknown>;

/** Everything that can be asked of the store without changing it. */
function questions(ids: readonly string[]): ReadonlyMap<string, Ask> {
  const asks = new Map<string, Ask>();
  const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
    const found: T[] = [];
    for await (const item of items) found.push(item);
    return found;
  };
  for (const turn of TURNS)
    asks.set(`run ${turn}`, (hold) =>
      hold.agent(clerk(false) as never).run("turns", turn, { key: turn }),
    );
  for (const id of SESSIONS) {
    asks.set(`sessions.get ${id}`, (hold) => hold.sessions.get(id));
    asks.set(`sessions.state ${id}`, (hold) => hold.sessions.state(id));
    asks.set(`checkpoints.latest ${id}`, (hold) => hold.checkpoints.latest(id));
    asks.set(`checkpoints.list ${id}`, (hold) =>
      hold.checkpoints.list(id, { branches: "all", limit: 100 }),
    );
    asks.set(`events ${id}`, (hold) => all(hold.sessions.events(id, { live: false })));
    asks.set(`export ${id}`, async (hold) =>
      (await all(hold.export({ sessions: [id] } as never))).join(""),
    );
    asks.set(`history ${id}`, async (hold) => {
      const session = await hold.session(id);
      try {
        return {
          messages: session.messages,
          state: session.state,
          history: await session.history({ limit: 100 }),
        };
      } finally {
        await session.close({ discard: true });
      }
    });
  }
  for (const id of ids) {
    asks.set(`checkpoints.get ${id}`, (hold) => hold.checkpoints.get(id));
    asks.set(`checkpoints.state ${id}`, (hold) => hold.checkpoints.state(id));
    asks.set(`events after ${id}`, (hold) =>
      all(hold.sessions.events(ownerOf(id), { live: false, after: id })),
    );
  }
  asks.set("sessions.list", (hold) => hold.sessions.list());
  asks.set("sessions.forks", (hold) => hold.sessions.forks("a"));
  asks.set("sessions.search", (hold) => hold.sessions.search("message"));
  asks.set("search in a session", (hold) => hold.sessions.search("message", { sessionId: "fork" }));
  asks.set("effects.list", (hold) => hold.effects.list({ status: "waiting" }));
  return asks;
}
const owners = new Map<string, string>();
const ownerOf = (id: string): string => owners.get(id) as string;

/** The answers by question: values as text, or the code of an error. */
async function answers(
  hold: Holdfast,
  asks: ReadonlyMap<string, Ask>,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const [name, ask] of asks)
    found.set(
      name,
      await ask(hold).then(
        // How well a text fits depends on all others.
        (value) =>
          JSON.stringify(value, (key, part) => (key === "score" ? undefined : part)) ?? "undefined",
        (error: HoldfastError) =>
          `${error.code ?? error.message} ${JSON.stringify(error.details ?? {})}`,
      ),
    );
  return found;
}

/** What is neither the truth, nor CORRUPT with a place, nor an answer that names damage. */
function untrue(
  truth: ReadonlyMap<string, string>,
  damaged: ReadonlyMap<string, string>,
): string[] {
  const wrong: string[] = [];
  for (const [name, value] of damaged) {
    const isTold =
      /^CORRUPT .*"(line|seq|found|sessionId)":/.test(value) || value.includes('"damaged":[');
    if (value !== truth.get(name) && !isTold)
      wrong.push(`${name}: ${value.slice(0, 200)} instead of ${truth.get(name)?.slice(0, 100)}`);
  }
  return wrong;
}

async function made(address: string) {
  const hold = await open(address);
  const ids = await make(hold);
  for (const id of SESSIONS)
    for (const { id: at, sessionId } of (
      await hold.checkpoints.list(id, { branches: "all", limit: 100 })
    ).items)
      owners.set(at, sessionId);
  await hold.close();
  const asks = questions(ids);
  return { ids, asks };
}

describe("every read, with a hole at every save", () => {
  test("sqlite", async () => {
    const path = join(fresh(), "store.db");
    const { asks } = await made(path);
    const files = ["", "-anchors"].map((suffix) => [suffix, readFileSync(path + suffix)] as const);
    const copied = (directory: string): string => {
      for (const [suffix, bytes] of files)
        writeFileSync(join(directory, `store.db${suffix}`), bytes);
      return join(directory, "store.db");
    };
    const asked = async (at: string) => {
      const hold = await open(at);
      const found = await answers(hold, asks);
      await hold.close();
      return found;
    };
    const truth = await asked(copied(fresh()));
    const db = new Database(path);
    const rows = db
      .prepare(
        "SELECT v.no AS no, l.id AS id, v.seq AS seq FROM save v JOIN branch l ON l.no = v.branch ORDER BY v.no",
      )
      .all();
    db.close();
    expect(rows.length).toBeGreaterThan(15);
    let told = 0;
    for (const { no, id, seq } of rows) {
      const at = copied(fresh());
      const damage = new Database(at);
      damage.exec(`DELETE FROM save WHERE no = ${no}`);
      damage.close();
      const found = await asked(at);
      expect(untrue(truth, found), `without ${id}-${seq}`).toEqual([]);
      if ([...found.values()].some((value) => value.startsWith("CORRUPT"))) told += 1;
    }
    expect(told, "holes that somebody was told of").toBe(rows.length);
  });

  test("dir", async () => {
    const path = join(fresh(), "store");
    const { asks } = await made(`dir:${path}`);
    const asked = async (at: string) => {
      const hold = await open(`dir:${at}`);
      const found = await answers(hold, asks);
      await hold.close();
      return found;
    };
    const journals = readdirSync(path, { recursive: true, encoding: "utf8" }).filter((name) =>
      /^sessions\/.*\.jsonl$/.test(name),
    );
    const sound = join(fresh(), "sound");
    cpSync(path, sound, { recursive: true });
    const truth = await asked(sound);
    let holes = 0;
    for (const journal of journals) {
      const [header = "", ...rows] = readFileSync(join(path, journal), "utf8")
        .split("\n")
        .slice(0, -1);
      const ends = rows.flatMap((row, i) => (row.startsWith('{"seal":') ? [i] : []));
      for (const [n, end] of ends.entries()) {
        const copy = join(fresh(), "copy");
        mkdirSync(copy);
        cpSync(path, copy, { recursive: true });
        const left = [
          header,
          ...rows.slice(0, n === 0 ? 0 : (ends[n - 1] as number) + 1),
          ...rows.slice(end + 1),
        ];
        writeFileSync(join(copy, journal), `${left.join("\n")}\n`);
        const found = await asked(copy);
        expect(untrue(truth, found), `${journal} without save ${n}`).toEqual([]);
        rmSync(copy, { recursive: true });
        holes += 1;
      }
    }
    expect(holes).toBeGreaterThan(15);
  });

  test("memory, where nothing but a line's own records can tell", async () => {
    const store = await openStore("memory:");
    const on = (behind: Store): Holdfast =>
      new Opened(behind, thisMachine(), { now: Date.now }, 30_000) as Holdfast;
    const asks = questions(await make(on(store)));
    for (const id of SESSIONS)
      for (const { id: at, sessionId } of (
        await on(store).checkpoints.list(id, { branches: "all", limit: 100 })
      ).items)
        owners.set(at, sessionId);
    const truth = await answers(on(store), asks);
    const lines = await store.branches({ kind: "all" });
    let holes = 0;
    for (const { id: line } of lines) {
      const saves = await store.saves(line, {
        from: 1,
        to: 1e9,
        limit: 1_000,
        items: false,
        state: false,
      });
      // The last one of a line may never have been: there are no anchors.
      for (const { seq } of saves.slice(0, -1)) {
        const without = (of: string, found: readonly Save[]) =>
          found.filter((save) => of !== line || save.seq !== seq);
        const holed = wrapped(store, {
          saves: async (of, query) =>
            without(of, await store.saves(of, { ...query, limit: query.limit + 1 })).slice(
              0,
              query.limit,
            ),
        });
        expect(untrue(truth, await answers(on(holed), asks)), `without ${line}-${seq}`).toEqual([]);
        holes += 1;
      }
    }
    expect(holes).toBeGreaterThan(10);
  });
});
