/**
 * Processes that write to one directory in turns: the lock goes to the process that needs it, and
 * nothing is lost on the way.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test, vi } from "vitest";
import type { Digest } from "../../../src/core/values/digest.js";
import { type Holdfast, open } from "../../../src/index.js";
import { Blobs, type KeptBlob } from "../../../src/store/dir/files/blobs.js";
import { openDir } from "../../../src/store/dir/open.js";
import { digestOf, Fixture } from "../../../src/testing/contract/fixture.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { failure, instead, mend } from "../../support/failures/failing-calls.js";
import { fresh } from "../../support/places.js";
import { random, SEED } from "../../support/random.mjs";
import { compete } from "./compete.mjs";

const puppets: Child[] = [];
afterEach(async () => {
  mend();
  vi.useRealTimers();
  for (const child of puppets.splice(0)) await child.end();
});

async function puppet(path: string): Promise<Child> {
  const child = startPuppet();
  puppets.push(child);
  await child.ask({ do: "open", path: `dir:${path}` });
  return child;
}

const place = (): string => join(fresh(), "store");
const user = (content: string) => [{ role: "user" as const, content }];
const textsOf = async (hold: Holdfast, id: string): Promise<unknown[]> =>
  (await hold.sessions.transcript(id, { format: "openai" })).messages.map(({ content }) => content);
const locksIn = (path: string): string[] =>
  readdirSync(path).filter((name) => name.startsWith("lock-"));

async function until(holds: () => boolean): Promise<void> {
  for (const deadline = Date.now() + 5_000; !holds(); await sleep(5))
    if (Date.now() > deadline) throw new Error("it did not come to hold");
}

test("TENURE-1: a process that appended from outside and lives on keeps no worker from writing, nor a worker that process", async () => {
  const path = place();
  const server = await puppet(path);
  expect(await server.ask({ do: "append", session: "s", texts: ["first"] })).toMatchObject({
    taken: [true],
  });
  await using worker = await open(`dir:${path}`);
  const session = await worker.session("s");
  session.append(...user("worker"));
  await session.checkpoint();
  // Held by the worker: it is sent, and taken in there. Of a session that no process holds it is
  // there to read at once.
  expect(await server.ask({ do: "append", session: "s", texts: ["sent"] })).toMatchObject({
    taken: [false],
  });
  expect(await server.ask({ do: "append", session: "other", texts: ["beside"] })).toMatchObject({
    taken: [true],
  });
  expect(await textsOf(worker, "other")).toEqual(["beside"]);
  await session.close();
  expect(await textsOf(worker, "s")).toEqual(["first", "worker", "sent"]);
  await worker.sessions.update("other", { title: "renamed" });
  expect(await server.ask({ do: "append", session: "other", texts: ["again"] })).toMatchObject({
    taken: [true],
  });
  expect(await textsOf(worker, "other")).toEqual(["beside", "again"]);
  expect(await worker.verify()).toMatchObject({ ok: true });
});

test.each([false, true])(
  "TENURE-2: a process releases the lock unasked, and may then be stopped (it holds a session: %s)",
  async (holds) => {
    const path = place();
    const server = await puppet(path);
    await server.ask({ do: "append", session: "s", texts: ["first"] });
    if (holds) await server.ask({ do: "session", session: "held" });
    await until(() => locksIn(path).some((name) => name.endsWith(".free.json")));
    server.signal("SIGSTOP");
    await using worker = await open(`dir:${path}`, { busyMs: 0 });
    expect((await worker.sessions.append("s", user("second"))).taken).toBe(true);
    server.signal("SIGCONT");
    expect(await server.ask({ do: "append", session: "s", texts: ["third"] })).toMatchObject({
      taken: [true],
    });
    expect(await textsOf(worker, "s")).toEqual(["first", "second", "third"]);
  },
);

test("TENURE-2: a process that saves in a loop does not take the lock for each save", async () => {
  const path = place();
  await using hold = await open(`dir:${path}`);
  const session = await hold.session("s");
  for (let i = 0; i < 20; i++) {
    session.append(...user(`${i}`));
    await session.checkpoint();
  }
  // On a busy machine a save may come so late that the lock was released.
  expect(locksIn(path).every((name) => Number(/\d+/.exec(name)?.[0]) < 10)).toBe(true);
  await session.close();
  await until(() => locksIn(path).some((name) => name.endsWith(".free.json")));
});

/** A store with blobs that nothing refers to any more. */
async function withUnused(path: string, bodies: readonly string[]) {
  const store = await openDir(path);
  const f = new Fixture("a");
  await store.apply([f.begin()]);
  for (const blob of bodies) await store.apply([f.save({ items: 1, blob })]);
  await store.apply([{ session: "a", when: {}, remove: true }]);
  await store.reclaim.cut(f.branch, -1, 100, false);
  return store;
}

const bodies = Array.from({ length: 12 }, (_, i) => `body ${i}`);
const slowly = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

test("another process writes while a sweep looks through all journals", async () => {
  const path = place();
  const making = await withUnused(path, bodies);
  for (let i = 0; i < 12; i++) {
    const f = new Fixture(`long ${i}`);
    await making.apply([f.begin(), ...Array.from({ length: 210 }, () => f.save({ items: 1 }))]);
  }
  await making.close();
  const [sweeping, other] = [await openDir(path), await openDir(path)];
  const done: string[] = [];
  let opened = 0;
  const real = instead("openSync", (...args: unknown[]) => {
    if (!String(args[0]).endsWith(".jsonl") || !String(args[0]).includes("sessions"))
      return real(...args);
    opened += 1;
    slowly(40);
    return real(...args);
  });
  const sweep = sweeping.reclaim.sweep(100, false).then(({ count }) => done.push(`swept ${count}`));
  await until(() => opened > 0);
  await other.apply([new Fixture("b").begin()]).then(() => done.push("wrote"));
  await sweep;
  expect(done).toEqual(["wrote", `swept ${bodies.length}`]);
  for (const store of [sweeping, other]) await store.close();
});

test("BLOB-1: what another process refers to while a sweep is under way stays, be it before it goes or after", async () => {
  const path = place();
  const [sweeping, other] = [await withUnused(path, bodies), await openDir(path)];
  // Slow, so that others have time to ask for the lock between two directories of blobs.
  const read = instead("readdirSync", (...args: unknown[]) => {
    if (String(args[0]).includes("blobs")) slowly(10);
    return read(...args);
  });
  const remove = instead("unlinkSync", (...args: unknown[]) => {
    if (String(args[0]).includes("blobs")) slowly(30);
    return remove(...args);
  });
  const g = new Fixture("b");
  const sweep = sweeping.reclaim.sweep(100, false);
  await other.apply([g.begin()]);
  for (const blob of bodies) await other.apply([g.save({ items: 1, blob })]);
  expect((await sweep).count).toBeLessThanOrEqual(bodies.length);
  for (const body of bodies)
    expect(await other.blob(digestOf(body)), body).toEqual(new Uint8Array(Buffer.from(body)));
  for (const store of [sweeping, other]) await store.close();
});

test.each([
  ["its time rises, whatever the clock says", () => vi.useFakeTimers({ toFake: ["Date"], now: 0 })],
  ["times are kept by the second", () => roundTimes(1_000)],
  ["times are kept by two seconds", () => roundTimes(2_000)],
  ["times cannot be set", () => void instead("utimesSync", () => raise("EPERM"))],
  ["times are not set", () => void instead("utimesSync", () => {})],
])("BLOB-1: a blob that is referred to anew is told from what it was: %s", async (_, prepare) => {
  const blobs = new Blobs(place());
  const blob = { digest: digestOf("x") as Digest, bytes: Buffer.from("x") };
  blobs.add(blob);
  prepare();
  for (const refer of [
    () => blobs.add(blob),
    () => blobs.keep(blob.digest),
    () => blobs.keep(blob.digest),
  ]) {
    const [before] = [...blobs.all()].flat();
    refer();
    expect(blobs.removeIf(before as KeptBlob)).toBe(false);
  }
  const [last] = [...blobs.all()].flat();
  expect(blobs.removeIf(last as KeptBlob)).toBe(true);
  expect(blobs.removeIf(last as KeptBlob)).toBe(false);
  blobs.keep(blob.digest);
  expect(blobs.get(blob.digest)).toBeUndefined();
});

const raise = (code: string): never => {
  throw failure(code);
};

/** A file system that knows times only so well. */
function roundTimes(ms: number): void {
  const real = instead("utimesSync", (path: unknown, ...times: never[]) => {
    const rounded = times.map((time) => (Math.floor((Number(time) * 1_000) / ms) * ms) / 1_000);
    return real(path, ...rounded);
  });
}

test("ANCHOR-1: a line that another process has deleted since is not reported as lost", async () => {
  const path = place();
  const [one, two] = [await openDir(path), await openDir(path)];
  const [kept, gone] = [new Fixture("kept"), new Fixture("gone")];
  await one.apply([kept.begin(), gone.begin()]);
  for (const f of [kept, gone]) await one.apply([f.save({ items: 1, mark: true })]);
  await two.apply([{ session: "gone", when: {}, remove: true }]);
  await two.close();
  // Writes its anchors only now.
  await one.close();
  const after = await openDir(path);
  expect([...(await after.copies.anchors())].map(({ branch }) => branch)).toEqual([kept.branch]);
  await after.close();
});

test("D5: processes on sessions of their own in one directory do not disturb each other", async () => {
  const result = await compete({
    address: `dir:${place()}`,
    processes: 3,
    count: 6,
    seed: SEED,
    own: true,
  });
  expect(result).toMatchObject({ wrong: [], lost: { LEASE_HELD: 0, STALE_LEASE: 0 } });
});

test("D5: processes compete for one session in a directory and leave one linear history", async () => {
  const result = await compete({
    address: `dir:${place()}`,
    processes: 3,
    count: 10,
    seed: SEED,
    waitMs: 20,
  });
  expect(result.wrong).toEqual([]);
  expect(result.lost.LEASE_HELD).toBeGreaterThan(0);
});

test("processes that write in turns and are killed at random moments lose nothing that was acknowledged", async () => {
  const path = place();
  const rng = random(SEED);
  await using hold = await open(`dir:${path}`);
  const acknowledged: string[] = [];
  for (let round = 0; round < 4; round++) {
    const child = await puppet(path);
    child.tell({
      do: "append",
      session: "s",
      texts: Array.from({ length: 1_000 }, (_, i) => `${round} ${i}`),
    });
    const ours = Array.from({ length: 3 }, (_, i) => `ours ${round} ${i}`);
    for (const text of ours) {
      await hold.sessions.append("s", user(text), { create: true, key: text });
      acknowledged.push(text);
    }
    await sleep(rng.whole(0, 60));
    child.signal("SIGKILL");
    await child.closed;
    acknowledged.push(...child.lines.flatMap((line) => line.appended ?? []));
  }
  // Acknowledged and sent: the next who opens the session takes it in.
  await (await hold.session("s", { waitMs: 5_000 })).close();
  const texts = (await textsOf(hold, "s")) as string[];
  expect(new Set(texts).size, `seed ${SEED}: each once`).toBe(texts.length);
  expect(
    acknowledged.filter((text) => !texts.includes(text)),
    `seed ${SEED}`,
  ).toEqual([]);
  expect(acknowledged.length).toBeGreaterThan(12);
  expect(await hold.verify()).toMatchObject({ ok: true });
});
