/** Search through the public surface, the same on every store. */
import { afterEach, describe, expect, test } from "vitest";
import { type FoundItem } from "../../../src/features/search/find.js";
import { type Holdfast, type MessageInput, open } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { stores } from "../../support/stores.js";

let holds: Holdfast[] = [];
let time = Date.parse("2026-01-01T00:00:00Z");
afterEach(async () => {
  for (const hold of holds) await hold.close();
  holds = [];
  time = Date.parse("2026-01-01T00:00:00Z");
});

async function opened(address: string, tenant?: string): Promise<Holdfast> {
  const hold = await open(address, {
    clock: { now: () => (time += 1_000) },
    ...(tenant === undefined ? undefined : { tenant }),
  });
  holds.push(hold);
  return hold;
}

async function say(
  hold: Holdfast,
  id: string,
  texts: readonly (string | MessageInput)[],
  options = {},
): Promise<string> {
  const session = await hold.session(id, options);
  for (const text of texts)
    session.append(typeof text === "string" ? { role: "user", content: text } : text);
  const { id: checkpoint } = await session.checkpoint();
  await session.close();
  return checkpoint;
}

const where = (items: readonly FoundItem[]): string[] =>
  items.map((item) => `${item.sessionId} ${item.kind === "message" ? item.seq : "title"}`);
const shown = (items: readonly FoundItem[]): string[][] =>
  items.map(({ snippet, matches }) => matches.map(([start, end]) => snippet.slice(start, end)));

describe.each(stores)("search: $name", ({ address, traits }) => {
  test("words, phrases, exclusions and beginnings, the best first", async () => {
    const hold = await opened(address());
    await say(hold, "a", [
      "The refund of order 42",
      "refund refund refund",
      "an order of kelp and other things that are long",
    ]);
    await say(hold, "b", ["order refunds", "Nothing here", "refund the order"]);
    await say(
      hold,
      "c",
      Array.from({ length: 10 }, (_, i) => `filler number ${i}`),
    );
    const found = async (words: string) => where((await hold.sessions.search(words)).items);
    expect(await found("refund order")).toEqual(["b 3", "a 1"]);
    expect(await found('"refund order"')).toEqual([]);
    expect(await found('"order refunds"')).toEqual(["b 1"]);
    expect(await found("refund -order")).toEqual(["a 2"]);
    expect((await found("refund*")).sort()).toEqual(["a 1", "a 2", "b 1", "b 3"]);
    expect(await found("nothing")).toEqual(["b 2"]);
    expect(await found("absent")).toEqual([]);
    const { items } = await hold.sessions.search("refund");
    expect(where(items)[0]).toBe("a 2");
    expect(items[0]).toMatchObject({
      kind: "message",
      role: "user",
      snippet: "refund refund refund",
      createdAt: expect.any(String),
    });
    expect(shown(items)[0]).toEqual(["refund", "refund", "refund"]);
    expect(items.map(({ score }) => score)).toEqual(
      items.map(({ score }) => score).toSorted((x, y) => y - x),
    );
  });

  test("any script, without accents and case", async () => {
    const hold = await opened(address());
    await say(hold, "s", [
      "Café in 東京都で日本語を話す",
      "CAFE\u0301 STRASSE",
      "ภาษาไทยง่ายมาก",
      "Привет, мир",
      "مُحَمَّد",
      "한국어 검색",
      "हिन्दी भाषा",
    ]);
    const found = async (words: string) => shown((await hold.sessions.search(words)).items);
    expect(await found("cafe")).toEqual([["CAFE\u0301"], ["Café"]]);
    expect(await found("straße")).toEqual([["STRASSE"]]);
    expect(await found("日本")).toEqual([["日本"]]);
    expect(await found("京都")).toEqual([["京都"]]);
    expect(await found("日語")).toEqual([]);
    expect(await found("ไทย")).toEqual([["ไทย"]]);
    expect(await found("привет")).toEqual([["Привет"]]);
    expect(await found("محمد")).toEqual([["مُحَمَّد"]]);
    expect(await found("한국*")).toEqual([["한국어"]]);
    expect(await found("भाषा")).toEqual([["भाषा"]]);
  });

  test("what of a message is found: calls, results, names, files, long bodies", async () => {
    const hold = await opened(address());
    const bytes = new TextEncoder().encode("inside the file");
    await say(hold, "s", [
      {
        role: "assistant",
        name: "Ana",
        content: [
          { type: "reasoning", text: "pondering" },
          {
            type: "tool-call",
            callId: "1",
            name: "lookup",
            input: { order: 4711, deep: ["kelp"] },
          },
        ],
        metadata: { hidden: "metadata" },
      },
      {
        role: "tool",
        content: [{ type: "tool-result", callId: "1", outcome: "ok", output: { says: "seaweed" } }],
      },
      {
        role: "user",
        content: [{ type: "file", name: "notes.md", mediaType: "text/markdown", data: { bytes } }],
      },
      { role: "user", content: `${"long ".repeat(3000)} needle` },
    ]);
    const found = async (words: string) => where((await hold.sessions.search(words)).items);
    for (const words of ["ana", "pondering", "lookup", "4711", "kelp"])
      expect(await found(words), words).toEqual(["s 1"]);
    expect(await found("seaweed")).toEqual(["s 2"]);
    expect(await found("notes")).toEqual(["s 3"]);
    expect(await found("inside file")).toEqual(["s 3"]);
    expect(await found("metadata")).toEqual([]);
    const { items } = await hold.sessions.search("needle");
    expect(where(items)).toEqual(["s 4"]);
    expect(items[0]?.snippet).toMatch(/^…long .* needle$/);
  });

  test("filters: agent, tag, session, role, time", async () => {
    const hold = await opened(address());
    await say(hold, "a", ["kelp one"], { agent: "x", tags: ["vip"] });
    const between = new Date(time + 500).toISOString();
    await say(hold, "b", [{ role: "assistant", content: "kelp two" }], { agent: "y" });
    await say(hold, "c", ["kelp three"], { agent: "x" });
    const found = async (filter: object) =>
      where((await hold.sessions.search("kelp", filter)).items).sort();
    expect(await found({})).toEqual(["a 1", "b 1", "c 1"]);
    expect(await found({ agent: "x" })).toEqual(["a 1", "c 1"]);
    expect(await found({ tag: "vip" })).toEqual(["a 1"]);
    expect(await found({ sessionId: "b" })).toEqual(["b 1"]);
    expect(await found({ sessionId: "none" })).toEqual([]);
    expect(await found({ role: "assistant" })).toEqual(["b 1"]);
    expect(await found({ since: between })).toEqual(["b 1", "c 1"]);
    expect(await found({ until: between })).toEqual(["a 1"]);
    expect(await found({ agent: "x", since: between, role: "user" })).toEqual(["c 1"]);
    await hold.sessions.update("b", { tags: ["vip"] });
    expect(await found({ tag: "vip" })).toEqual(["a 1", "b 1"]);
  });

  test("pages by agent and tag are full, whatever else there is", async () => {
    const hold = await opened(address());
    for (let i = 0; i < 24; i++)
      await say(
        hold,
        `s${i}`,
        ["kelp"],
        i % 4 === 0 ? { agent: "x", tags: ["vip"], title: "Kelp" } : { agent: "y" },
      );
    for (const filter of [{ agent: "x" }, { tag: "vip" }]) {
      const pages: (readonly [items: readonly string[], next: string | undefined])[] = [];
      for (let cursor: string | undefined, n = 0; n === 0 || cursor !== undefined; n++) {
        const { items, next } = await hold.sessions.search("kelp", {
          ...filter,
          limit: 5,
          ...(cursor && { cursor }),
        });
        pages.push([where(items), next]);
        cursor = next;
      }
      const found = [20, 16, 12, 8, 4, 0].flatMap((n) => [`s${n} title`, `s${n} 1`]);
      expect(pages.flatMap(([items]) => items).toSorted()).toEqual(found.toSorted());
      expect(pages.map(([items, next]) => [items.length, next])).toEqual([
        [5, "f5"],
        [5, "f10"],
        [2, undefined],
      ]);
    }
  });

  test("titles of other sessions are none of a session's hits", async () => {
    const hold = await opened(address());
    for (let i = 0; i < 3; i++)
      await say(hold, `s${i}`, ["other words"], { title: `Kelp and what else there is in ${i}` });
    await say(hold, "a", ["kelp"]);
    const { items, next } = await hold.sessions.search("kelp", { sessionId: "a", limit: 1 });
    expect(where(items)).toEqual(["a 1"]);
    expect(next).toBeUndefined();
  });

  test("what a session shares counts as its own, also by agent and tag", async () => {
    const hold = await opened(address());
    const at = await say(hold, "a", ["shared kelp"], { agent: "x", tags: ["old"] });
    await hold.sessions.fork(at, { id: "b" });
    await hold.sessions.update("b", { tags: ["vip"], title: "Kelp of b" });
    const found = async (filter: object) =>
      where((await hold.sessions.search("kelp", filter)).items).sort();
    expect(await found({ sessionId: "b" })).toEqual(["b 1", "b title"]);
    expect(await found({ sessionId: "b", tag: "vip" })).toEqual(["b 1", "b title"]);
    expect(await found({ sessionId: "b", agent: "x" })).toEqual(["b 1", "b title"]);
    expect(await found({ sessionId: "b", tag: "old" })).toEqual([]);
    expect(await found({ sessionId: "b", agent: "y" })).toEqual([]);
    expect(await found({ sessionId: "a", tag: "vip" })).toEqual([]);
    expect(await found({ sessionId: "a", tag: "old" })).toEqual(["a 1"]);
  });

  test("titles that somebody gave, as they are now", async () => {
    const hold = await opened(address());
    await say(hold, "a", ["hello"], { title: "Kelp on rocks", agent: "x" });
    await say(hold, "b", ["of kelp and sand"], { agent: "y" });
    const found = async (words: string, filter = {}) =>
      where((await hold.sessions.search(words, filter)).items).sort();
    expect(await found("kelp")).toEqual(["a title", "b 1"]);
    expect(await found("kelp", { agent: "x" })).toEqual(["a title"]);
    expect(await found("kelp", { sessionId: "a" })).toEqual(["a title"]);
    expect(await found("kelp", { sessionId: "b" })).toEqual(["b 1"]);
    expect(await found("kelp", { role: "user" })).toEqual(["b 1"]);
    await hold.sessions.update("a", { title: "Sand" });
    expect(await found("kelp")).toEqual(["b 1"]);
    expect(await found("sand")).toEqual(["a title", "b 1"]);
    await hold.sessions.delete("a");
    expect(await found("sand")).toEqual(["b 1"]);
  });

  test("forks share what they share, and it is found once", async () => {
    const hold = await opened(address());
    const at = await say(hold, "a", ["shared kelp"]);
    await say(hold, "a", ["kelp of a alone"]);
    await hold.sessions.fork(at, { id: "b" });
    await say(hold, "b", ["kelp of b alone"]);
    await hold.sessions.fork(at, { id: "c" });
    const found = async (filter = {}) =>
      where((await hold.sessions.search("kelp", filter)).items).sort();
    expect(await found()).toEqual(["a 1", "a 3", "b 3"]);
    expect(await found({ sessionId: "b" })).toEqual(["b 1", "b 3"]);
    expect(await found({ sessionId: "c" })).toEqual(["c 1"]);
    await hold.sessions.delete("a");
    expect(await found()).toEqual(["b 1", "b 3"]);
    await hold.sessions.delete("b");
    expect(await found()).toEqual(["c 1"]);
    await hold.sessions.delete("c");
    expect(await found()).toEqual([]);
  });

  test("rewound, compacted and pruned", async () => {
    const hold = await opened(address());
    const session = await hold.session("a");
    session.append({ role: "user", content: "kelp first" });
    const first = await session.checkpoint();
    session.append({ role: "user", content: "kelp second" });
    await session.checkpoint();
    await session.rewind(first.id);
    session.append({ role: "user", content: "kelp third" });
    await session.checkpoint();
    const found = async () => shown((await hold.sessions.search("kelp")).items).length;
    // What was left is still a session's, on another line of it.
    expect(await found()).toBe(3);
    session.splice("messages", 0, 2, { role: "user", content: "a summary of kelp" });
    await session.checkpoint();
    expect(await found()).toBe(4);
    for (let i = 0; i < 30; i++) {
      session.set("filler", "x".repeat(8_000 + i));
      await session.checkpoint();
    }
    await hold.checkpoints.prune("a", { keep: 1 });
    const left = (await hold.sessions.search("kelp")).items;
    for (const { snippet } of left) expect(snippet).not.toContain("third");
    await session.close();
  });

  test("pages go on where the last one ended", async () => {
    const hold = await opened(address());
    await say(
      hold,
      "a",
      Array.from({ length: 25 }, (_, i) => `kelp ${"and more ".repeat(i % 7)}`),
    );
    const all: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages === 0 || cursor !== undefined; pages++) {
      const page = await hold.sessions.search("kelp", {
        limit: 10,
        ...(cursor === undefined ? undefined : { cursor }),
      });
      all.push(...where(page.items));
      cursor = page.next;
    }
    expect(all).toHaveLength(25);
    expect(new Set(all).size).toBe(25);
    expect(all).toEqual(where((await hold.sessions.search("kelp", { limit: 100 })).items));
  });

  test("equal scores: the newest first", async () => {
    const hold = await opened(address());
    for (let i = 0; i < 4; i++) await say(hold, `s${i}`, ["kelp", "other"]);
    expect(where((await hold.sessions.search("kelp")).items)).toEqual([
      "s3 1",
      "s2 1",
      "s1 1",
      "s0 1",
    ]);
  });

  test("tenants find their own alone", async () => {
    if (!traits.durable)
      return expect((await opened(address())).sessions.search("kelp")).resolves.toEqual({
        items: [],
      });
    const at = address();
    const [one, two] = [await opened(at, "one"), await opened(at, "two")];
    await say(one, "a", ["kelp of one"]);
    await say(two, "a", ["kelp of two"]);
    expect(shown((await one.sessions.search("kelp one")).items)).toHaveLength(1);
    expect(shown((await one.sessions.search("two")).items)).toEqual([]);
    expect(shown((await two.sessions.search("kelp two")).items)).toHaveLength(1);
  });

  test("hostile text is inert, in what is kept and in what is asked", async () => {
    const hold = await opened(address());
    const hostile = [
      "c++",
      "a-b",
      '"',
      "NEAR(",
      "AND",
      "OR NOT",
      "*",
      "body:x",
      "x') OR 1=1 --",
      "{words}: a",
      "^a",
      "a + b",
      "'",
      "\\",
      ":*",
      "!a & b | c",
      "<->",
      "❤️ 👩‍👩‍👧",
      "日本",
      "\u0000",
      "%_",
      "a\u0000b",
      "-",
      "--",
      '-"',
      "\u200d",
      "\ud83d",
    ];
    await say(
      hold,
      "s",
      hostile.filter((text) => text.isWellFormed() && text !== ""),
    );
    for (const words of hostile) {
      const { items } = await hold.sessions.search(words);
      for (const item of items) expect(item.matches.length, words).toBeGreaterThan(0);
    }
    expect(shown((await hold.sessions.search("c++")).items)).toEqual([["c"], ["c"]]);
    expect(shown((await hold.sessions.search("body:x")).items)).toEqual([["body:x"]]);
    expect((await hold.sessions.search("")).items).toEqual([]);
    expect(await errorOf(() => hold.sessions.search("term ".repeat(10_000)))).toMatchObject({
      code: "TOO_LARGE",
    });
    expect(
      await errorOf(() =>
        hold.sessions.search(Array.from({ length: 500 }, (_, i) => `t${i}`).join(" ")),
      ),
    ).toMatchObject({
      code: "TOO_LARGE",
    });
  });

  test.each([
    [{ limit: -1 }],
    [{ limit: 0 }],
    [{ limit: 1e9 }],
    [{ limit: "10" }],
    [{ cursor: "s1" }],
    [{ cursor: "f99999999" }],
    [{ cursor: "f0" }],
    [{ role: "title" }],
    [{ since: "yesterday-ish" }],
    [{ until: 7 }],
    [{ "x') OR 1=1 --": 1 }],
  ])("refuses %j", async (filter) => {
    const hold = await opened(address());
    expect(await errorOf(() => hold.sessions.search("kelp", filter as never))).toMatchObject({
      code: "INVALID_OPTION",
    });
  });

  test("refuses what is not text", async () => {
    const hold = await opened(address());
    for (const words of [undefined, null, 7, {}, ["a"]])
      expect(await errorOf(() => hold.sessions.search(words as never))).toMatchObject({
        code: "INVALID_OPTION",
      });
  });
});
