/** Claims in a directory: markers, the lock, and mail that another process posts meanwhile. */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { nameOf, sessionPath } from "../../../src/store/dir/files/names.js";
import { openDir } from "../../../src/store/dir/open.js";
import type { Granting } from "../../../src/store/port/claims.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import { start } from "../../support/children/child.mjs";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => join(root, `store-${++count}`);

const take: Granting = ({ lease: { epoch, until } }, now) =>
  until > now ? undefined : { epoch: epoch + 1, until: now + 60_000, text: `claimed ${epoch + 1}` };
const claim = async (store: Store, dueBy = 0): Promise<string[]> =>
  (await store.claims.claim({ agent: "x", dueBy, limit: 10 }, take)).map(({ id }) => id);
const marked = (path: string): string[] => readdirSync(join(path, "waiting")).toSorted();
const mail = (id: string, due = 0) => ({ id, text: id, due });

test("any id has a marker of its own, which goes once its mail was taken in, or with its session", async () => {
  const path = fresh();
  const store = await openDir(path);
  const ids = ["a", "A", "a~b", "é", "../x", "con", "x".repeat(200), " "];
  await store.apply(ids.map((id) => begin(id, { agent: "x" })));
  for (const id of ids) await store.inbox.post(id, mail("m"));
  await store.inbox.post("a", mail("later", 100));
  expect(marked(path)).toEqual(ids.map(nameOf).toSorted());
  expect(await claim(store)).toEqual(ids);
  for (const id of ids.slice(0, 4)) await store.apply([{ session: id, when: {}, drained: ["m"] }]);
  for (const id of ids.slice(4)) await store.apply([{ session: id, when: {}, remove: true }]);
  expect(marked(path)).toEqual(["a~"]);
  expect(await store.check()).toEqual([]);
  await store.close();
});

test("what else stands among the markers is left alone, and is no session", async () => {
  const path = fresh();
  const store = await openDir(path);
  await store.apply([begin("a", { agent: "x" })]);
  await store.inbox.post("a", mail("m"));
  const strange = [".DS_Store", "Thumbs.db", "nobody", "~", "..~", "x~0123456789abcdef0123"];
  for (const name of strange) writeFileSync(join(path, "waiting", name), "");
  mkdirSync(join(path, "waiting", "directory"));
  expect(await claim(store)).toEqual(["a"]);
  expect(marked(path)).toEqual([...strange, "directory", "a"].toSorted());
  // In the place of a marker.
  await store.apply([begin("directory")]);
  await expect(store.inbox.post("directory", mail("m"))).rejects.toMatchObject({ code: "CORRUPT" });
  expect(await store.inbox.list("directory", { dueBy: 0, limit: 1 })).toEqual([]);
  await store.close();
  rmSync(join(path, "waiting"), { recursive: true });
  symlinkSync(root, join(path, "waiting"));
  await expect(openDir(path)).rejects.toMatchObject({ code: "CORRUPT" });
});

test("verify tells of mail that has no marker", async () => {
  const path = fresh();
  const store = await openDir(path);
  await store.apply([begin("a", { agent: "x" })]);
  await store.inbox.post("a", mail("m"));
  expect(await store.check()).toEqual([]);
  rmSync(join(path, "waiting", "a"));
  expect(await store.check()).toEqual([expect.stringMatching(/Mail waits for session "a"/)]);
  await store.close();
});

test("who finds nothing to claim does not become the one who writes", async () => {
  const path = fresh();
  const making = await openDir(path);
  await making.apply([begin("a", { agent: "x", due: 50 })]);
  await making.close();
  const locks = (): string[] => readdirSync(path).filter((name) => name.startsWith("lock-"));
  const before = locks();
  const store = await openDir(path);
  expect(await claim(store, 49)).toEqual([]);
  expect(locks()).toEqual(before);
  expect(await claim(store, 50)).toEqual(["a"]);
  expect(locks()).not.toEqual(before);
  await store.close();
});

test("who finds only sessions that others hold does not become the one who writes", async () => {
  const path = fresh();
  const making = await openDir(path);
  await making.apply([begin("a", { agent: "x", due: 1 }), begin("b", { agent: "x", due: 2 })]);
  await making.inbox.post("b", mail("m"));
  await making.close();
  const locks = (): string[] => readdirSync(path).filter((name) => name.startsWith("lock-"));
  const before = locks();
  const store = await openDir(path);
  const asked: string[] = [];
  expect(
    await store.claims.claim({ agent: "x", dueBy: 5, limit: 1 }, ({ id }) => void asked.push(id)),
  ).toEqual([]);
  expect(asked.toSorted()).toEqual(["a", "b"]);
  expect(locks()).toEqual(before);
  await store.close();
});

test("TENURE-2: claims that find nothing are no writes: the lock is released while they go on", async () => {
  const path = fresh();
  const store = await openDir(path);
  await store.apply([begin("held", { agent: "x", due: 0 }), begin("idle", { agent: "x" })]);
  // A marker that nothing waits behind is no reason to keep the lock either.
  mkdirSync(join(path, "waiting"));
  writeFileSync(join(path, "waiting", "idle"), "");
  const isFree = (): boolean => readdirSync(path).some((name) => name.endsWith(".free.json"));
  for (const deadline = Date.now() + 10_000; !isFree(); await sleep(20)) {
    expect(Date.now()).toBeLessThan(deadline);
    expect(await store.claims.claim({ agent: "x", dueBy: 5, limit: 1 }, () => undefined)).toEqual(
      [],
    );
  }
  expect(marked(path)).toEqual([]);
  await store.close();
});

test("who waits for something to be due is not woken by a lock that is taken and released, nor by a lease", async () => {
  const path = fresh();
  const store = await openDir(path);
  await store.apply([begin("a", { agent: "x", due: 5 })]);
  await store.close();
  const size = () => statSync(join(path, "changes.jsonl")).size;
  const before = size();
  const again = await openDir(path);
  await again.apply([{ session: "a", when: {}, lease: { epoch: 1, until: 0, text: "x" } }]);
  expect(size()).toBe(before);
  let woken = 0;
  const stop = again.watch(undefined, () => {
    woken += 1;
  });
  await sleep(300);
  woken = 0;
  const other = await openDir(path);
  await again.close();
  await other.apply([{ session: "a", when: {}, lease: { epoch: 2, until: 0, text: "x" } }]);
  expect(size()).toBe(before);
  expect(woken).toBe(0);
  await other.apply([begin("b", { agent: "x", due: 5 })]);
  expect(size()).toBeGreaterThan(before);
  await other.close();
  stop();
});

test("a store that is opened knows what is due, and a damaged session keeps nobody from the others", async () => {
  const path = fresh();
  const making = await openDir(path);
  await making.apply([
    begin("a", { agent: "x", due: 5 }),
    begin("b", { agent: "x", due: 6 }),
    begin("c", { agent: "x", due: 7 }),
  ]);
  await making.close();
  const opened = await openDir(path);
  const seen: string[] = [];
  await opened.claims.claim({ agent: "x", dueBy: 6, limit: 10 }, ({ id }) => void seen.push(id));
  expect(seen).toEqual(["a", "b"]);
  await opened.close();
  writeFileSync(join(path, sessionPath("a"), "session.json"), "{}");
  const store = await openDir(path);
  expect(await claim(store, 7)).toEqual(["b", "c"]);
  await store.close();
});

test("mail that another process posts, over and over, is found by claims alone, to the last", {
  timeout: 120_000,
}, async () => {
  const path = fresh();
  const store = await openDir(path);
  const sessions = ["a", "b", "C"];
  await store.apply(sessions.map((id) => begin(id, { agent: "x" })));
  const each = 150;
  const posters = sessions.map((session) => {
    const child = start(new URL("../../support/children/dir-child.mjs", import.meta.url));
    child.tell({
      do: "post",
      path,
      session,
      mail: Array.from({ length: each }, (_, i) => mail(`m${i}`)),
    });
    return child;
  });
  let found = 0;
  for (
    const deadline = Date.now() + 100_000;
    found < each * sessions.length && Date.now() < deadline;
  ) {
    const rows = await store.claims.claim({ agent: "x", dueBy: 0, limit: 10 }, ({ lease }) => ({
      ...lease,
      epoch: lease.epoch + 1,
    }));
    for (const { id } of rows) {
      const drained = (await store.inbox.list(id, { dueBy: 0, limit: 100 })).map((one) => one.id);
      expect(drained).not.toEqual([]);
      await store.apply([{ session: id, when: {}, drained }]);
      found += drained.length;
    }
    // Others run.
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect(found).toBe(each * sessions.length);
  for (const child of posters) await child.closed;
  expect(await claim(store)).toEqual([]);
  expect(marked(path)).toEqual([]);
  await store.close();
});

test("one who opened it before a newer format was written does not write to it", async () => {
  const path = fresh();
  const store = await openDir(path);
  const birth = join(path, "holdfast.json");
  const text = readFileSync(birth, "utf8");
  writeFileSync(birth, text.replace('"format":1', '"format":2'));
  await expect(store.apply([begin("a")])).rejects.toMatchObject({ code: "NEWER_FORMAT" });
  writeFileSync(birth, text);
  expect(await store.apply([begin("a")])).toEqual({ ok: true });
  await store.close();
});
