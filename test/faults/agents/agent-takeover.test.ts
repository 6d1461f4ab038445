/**
 * EFFECT-4, D5: a session whose holder was killed, or stopped for longer than its lease lasts, while it
 * was inside a call.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { openStore } from "../../../src/open.js";
import { type Child, type Line, start } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";
import { Ledger } from "./agent-ledger.mjs";
import { settle } from "./agent-settle.mjs";

const TIME_MS = 1_200;
const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.signal("SIGCONT");
    await child.end();
  }
});

/** One session, one call; each process is told where to stand still. */
function scene(tool: string) {
  const directory = fresh();
  const address = join(directory, "store.db");
  const path = join(directory, "ledger");
  const ledger = new Ledger(path);
  let run = 0;
  const visit = async <T>(
    look: (store: Awaited<ReturnType<typeof openStore>>) => Promise<T>,
  ): Promise<T> => {
    const store = await openStore(address);
    try {
      return await look(store);
    } finally {
      await store.close();
    }
  };
  const scripts = {
    s0: [{ input: "s0: turn 0", replies: [[{ callId: "0.0", name: tool, input: {} }]] }],
  };
  const child = async ({
    at,
    ...o
  }: {
    readonly at?: string;
    readonly leaseMs?: number;
    readonly timeoutMs?: number;
  } = {}) => {
    const started = start(new URL("./agent-child.mjs", import.meta.url));
    children.push(started);
    await started.heard((branch) => branch.ready);
    const stopAt = at === undefined ? {} : { stopAt: { point: at, nth: 1 } };
    started.tell({
      address,
      ledger: path,
      seed: 1,
      run: run++,
      sessions: ["s0"],
      scripts,
      ...stopAt,
      ...o,
    });
    return started;
  };
  return {
    child,
    visit,
    did: () => ledger.read().map(({ did, run: by }) => `${did} by ${by}`),
    /** Every save of the session, and its head. */
    journal: () =>
      visit(async (store) => {
        const head = (await store.session("s0")).row?.head;
        if (head === undefined) return [];
        const saves = await store.saves(head.branch, {
          from: 1,
          to: 1e9,
          limit: 1_000,
          items: true,
          state: true,
        });
        return [head.text, ...saves.map(({ seq, check }) => `${seq} ${check}`)];
      }),
  };
}

/** What a child answers when it can do no more. */
async function idle(child: Child, from = 0): Promise<Line> {
  return (
    await child.heard((branch) => branch.idle !== undefined || branch.fault !== undefined, { from })
  ).idle?.[0];
}

/** Stands at a point, is stopped there, and will go on as soon as it is woken. */
async function stopped(child: Child, at: string): Promise<void> {
  await child.heard((branch) => branch.at === at);
  child.signal("SIGSTOP");
  child.tell({ go: true });
}

test("a killed holder's session is taken over at once, and its call is finished under its key", async () => {
  const { child, did } = scene("charge");
  const holder = await child({ at: "inside-tool-after-act" });
  await holder.heard((branch) => branch.at !== undefined);
  const next = await child();
  await sleep(400);
  expect(next.lines.some((branch) => branch.idle !== undefined)).toBe(false);
  const began = performance.now();
  await holder.end();
  expect(await idle(next)).toMatchObject({ status: "completed", pending: [] });
  expect(performance.now() - began).toBeLessThan(2_000);
  expect(did()).toEqual(["acted by 0", "deduped by 1"]);
});

test.each([
  { at: "before-intent", calls: ["acted by 1"], waits: false },
  { at: "after-intent", calls: ["acted by 1"], waits: true },
  { at: "inside-tool-before-act", calls: ["acted by 1", "deduped by 0"], waits: true },
  { at: "inside-tool-after-act", calls: ["acted by 0", "deduped by 1"], waits: true },
  { at: "after-tool", calls: ["acted by 0", "deduped by 1"], waits: true },
  { at: "after-outcome", calls: ["acted by 0"], waits: false },
])(
  "a holder that is stopped past its lease $at changes nothing when it is woken",
  async ({ at, calls, waits }) => {
    const { child, did, journal, visit } = scene("charge");
    const began = performance.now();
    const holder = await child({ at, leaseMs: 300, timeoutMs: TIME_MS });
    await stopped(holder, at);
    const next = await child({ leaseMs: 300, timeoutMs: TIME_MS });
    expect(await idle(next)).toMatchObject({ status: "completed" });
    // Whoever took over waited until the call must have ended.
    if (waits) expect(performance.now() - began).toBeGreaterThan(TIME_MS);
    const before = await journal();
    holder.signal("SIGCONT");
    expect(await idle(holder)).toMatchObject({ status: "stopped", reason: "superseded" });
    expect(await journal()).toEqual(before);
    expect(did()).toEqual(calls);
    // What it answered too late waits for the next holder, who has no use for it.
    const third = await child();
    expect(await idle(third)).toMatchObject({ status: "completed" });
    expect(
      await visit((store) => store.inbox.list("s0", { dueBy: Number.MAX_SAFE_INTEGER, limit: 10 })),
    ).toEqual([]);
    expect(did()).toEqual(calls);
  },
);

test("what a stopped holder answers late settles a call that is still open", async () => {
  const { child, did } = scene("post");
  const holder = await child({ at: "inside-tool-after-act", leaseMs: 300, timeoutMs: TIME_MS });
  await stopped(holder, "inside-tool-after-act");
  const next = await child({ leaseMs: 300, timeoutMs: TIME_MS });
  expect(await idle(next)).toMatchObject({ status: "in-doubt", pending: [{ is: "in-doubt" }] });
  holder.signal("SIGCONT");
  expect(await idle(holder)).toMatchObject({ status: "stopped", reason: "superseded" });
  const from = next.lines.length;
  next.tell({ go: true });
  expect(await idle(next, from)).toMatchObject({ status: "completed" });
  expect(did()).toEqual(["acted by 0"]);
});

test("a holder that is stopped before its call begins does not make it once its time is up", async () => {
  const { child, did, visit } = scene("post");
  const holder = await child({ at: "after-intent", leaseMs: 300, timeoutMs: TIME_MS });
  await stopped(holder, "after-intent");
  const next = await child({ leaseMs: 300, timeoutMs: TIME_MS });
  const { status, pending } = await idle(next);
  expect(status).toBe("in-doubt");
  await visit((store) => settle(store, "s0", pending[0].effectId, 1, { retry: true }));
  const from = next.lines.length;
  next.tell({ go: true });
  expect(await idle(next, from)).toMatchObject({ status: "completed" });
  holder.signal("SIGCONT");
  expect(await idle(holder)).toMatchObject({ status: "stopped", reason: "superseded" });
  expect(did()).toEqual(["acted by 1"]);
});
