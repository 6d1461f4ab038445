/**
 * Mail in a directory: what is damaged waits for its time like the rest, and what is large and not
 * due is not read.
 */
import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { BESIDE, HIDDEN } from "../../../src/engine/records/append-messages.js";
import { type Holdfast, open } from "../../../src/index.js";
import { DAMAGED } from "../../../src/store/dir/files/checksummed-json.js";
import { sessionPath } from "../../../src/store/dir/files/names.js";
import { openDir } from "../../../src/store/dir/open.js";
import { Fixture } from "../../../src/testing/contract/fixture.js";
import { scratch } from "../../support/stores.js";

const root = scratch();
let count = 0;
const fresh = (): string => join(root, `mail-${++count}`);
const inboxOf = (path: string) => join(path, sessionPath("a"), "inbox");
const rewrite = (file: string, change: (text: string) => string) => {
  const text = readFileSync(file, "utf8");
  writeFileSync(file, change(text));
  expect(readFileSync(file, "utf8")).not.toBe(text);
};

async function made(path: string) {
  const store = await openDir(path);
  await store.apply([new Fixture("a").begin()]);
  return store;
}

describe("mail that is damaged", () => {
  test("keeps its place and its time, where its head can be read", async () => {
    const path = fresh();
    const store = await made(path);
    for (const [i, due] of [0, HIDDEN, 0, 500].entries())
      await store.inbox.post("a", { id: `m${i}`, text: `text ${i}`, due });
    for (const i of [1, 2, 3])
      rewrite(join(inboxOf(path), `m${i}.json`), (text) => text.replace(`text ${i}`, `tixt ${i}`));
    expect(await store.inbox.list("a", { dueBy: 100, limit: 10 })).toEqual([
      { id: "m0", text: "text 0", due: 0 },
      { id: "m2", text: DAMAGED, due: 0 },
    ]);
    const all = await store.inbox.list("a", { dueBy: HIDDEN, limit: 10 });
    expect(all.map(({ id, due }) => [id, due])).toEqual([
      ["m0", 0],
      ["m1", HIDDEN],
      ["m2", 0],
      ["m3", 500],
    ]);
    expect(all.filter(({ text }) => text === DAMAGED)).toHaveLength(3);
    await store.close();
  });

  test.each([
    ["no number", (text: string) => text.replace('"due": ', '"due": x')],
    ["another id", (text: string) => text.replace('"id": "m1"', '"id": "m2"')],
    ["a time that none can have", (text: string) => text.replace('"due": ', '"due": 99')],
    ["nothing", () => ""],
  ])("is due at once where its head is damaged: %s", async (_name, change) => {
    const path = fresh();
    const store = await made(path);
    for (const text of ["short", "long ".repeat(20_000)]) {
      await store.inbox.post("a", { id: "m1", text, due: HIDDEN });
      expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toEqual([]);
      rewrite(join(inboxOf(path), "m1.json"), change);
      expect(await store.inbox.list("a", { dueBy: 0, limit: 10 })).toMatchObject([
        { text: DAMAGED, due: 0 },
      ]);
      await store.apply([{ session: "a", when: { epoch: 1 }, remove: true }]);
      await store.apply([new Fixture("a").begin({ epoch: 2 })]);
    }
    await store.close();
  });

  const call = {
    role: "assistant",
    content: [{ type: "tool-call", callId: "c", name: "look", input: {} }],
  } as const;
  const said = async (hold: Holdfast): Promise<number> => {
    const session = await hold.session("a");
    await session.close();
    return session.messages.length;
  };

  test("and a part of a letter lets its session be opened; verify tells of it", async () => {
    const path = fresh();
    let hold = await open(`dir:${path}`);
    await hold.sessions.append("a", [{ role: "user", content: "go" }, call], { create: true });
    await hold.sessions.append("a", [{ role: "user", content: "hello" }], { key: "k" });
    await hold.close();
    const part = readdirSync(inboxOf(path)).find((name) => name.startsWith("text-")) as string;
    rewrite(join(inboxOf(path), part), (text) => text.replace("hello", "jello"));
    hold = await open(`dir:${path}`);
    expect(await said(hold)).toBe(2);
    const answer = { type: "tool-result", callId: "c", outcome: "ok", output: 1 } as const;
    expect(await hold.sessions.append("a", [{ role: "tool", content: [answer] }])).toMatchObject({
      taken: true,
    });
    expect(await said(hold)).toBe(3);
    expect(await hold.verify()).toMatchObject({
      ok: false,
      findings: [{ code: "CORRUPT", sessionId: "a" }],
    });
    // Once it is as it was, it is taken in.
    await hold.close();
    rewrite(join(inboxOf(path), part), (text) => text.replace("jello", "hello"));
    hold = await open(`dir:${path}`);
    expect(await said(hold)).toBe(4);
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    await hold.close();
  });
});

test("of mail that is large and not due no more is read than its head; what is asked for is read, and checked", async () => {
  const path = fresh();
  const store = await made(path);
  const text = "é".repeat(100_000);
  await store.inbox.post("a", { id: "Large One", text, due: HIDDEN });
  const [name] = readdirSync(inboxOf(path)).filter((one) => one.endsWith(".json")) as [string];
  const file = join(inboxOf(path), name);
  const { size } = statSync(file);
  // More than a text can hold: whoever reads all of it fails.
  truncateSync(file, 520 * 1024 * 1024);
  expect(await store.inbox.list("a", { dueBy: BESIDE, limit: 10 })).toEqual([]);
  expect(await store.inbox.post("a", { id: "next", text: "next", due: 0 })).toBe("posted");
  expect(await store.inbox.list("a", { dueBy: BESIDE, limit: 10 })).toEqual([
    { id: "next", text: "next", due: 0 },
  ]);
  await expect(store.inbox.list("a", { dueBy: HIDDEN, limit: 10 })).rejects.toThrow();
  truncateSync(file, size);
  const large = { id: "Large One", text, due: HIDDEN };
  expect(await store.inbox.list("a", { ids: ["Large One"] })).toEqual([large]);
  expect(await store.inbox.list("a", { dueBy: HIDDEN, limit: 10 })).toEqual([
    large,
    { id: "next", text: "next", due: 0 },
  ]);
  rewrite(file, (whole) => whole.replace('éé"', 'éè"'));
  expect(await store.inbox.list("a", { dueBy: HIDDEN, limit: 1 })).toEqual([
    { ...large, text: DAMAGED },
  ]);
  await store.close();
});
