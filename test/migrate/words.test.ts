/**
 * Titles, tags, archived flags and metadata of conversations: as in the source, at every checkpoint
 * and after every import.
 */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Holdfast, JsonObject } from "../../src/index.js";
import { migrate } from "../../src/migrate/index.js";
import { agent, checkpoint, conversation, message } from "./aethershell-files.js";
import { place, put, using, viewAt } from "./support.js";

const source = (metadata: JsonObject | undefined) => (metadata?.["source"] ?? {}) as JsonObject;
/** What a person would see of a session, without the note of the import. */
async function words(hold: Holdfast, id = "x") {
  const { title, titled, tags, archived, metadata } = (await hold.sessions.get(id)) ?? {};
  const { source: _source, ...own } = metadata ?? {};
  return {
    title: titled === true ? title : null,
    tags: [...(tags ?? [])].sort(),
    archived,
    metadata: own,
  };
}
const wordsAt = (store: string, id = "x") => using(store, (hold) => words(hold, id));
const live = (turns: number, more: object = {}) => ({
  "conversations/x.json": conversation("x", turns, more),
});
const run = (path: string, store: string, o = {}) => migrate("aethershell", path, store, o);
const file = () => join(place(), "s.db");

const said = (
  title: string | null,
  tags: readonly string[],
  archived: boolean,
  metadata: object,
) => ({ title, tags, archived, metadata });

describe("a restored checkpoint", () => {
  const then = {
    c1: { x: said(null, [], false, {}), y: said("Why", ["y"], true, { of: "y1" }) },
    c2: {
      x: said("First", ["a", "b"], true, { k: "1", gone: "x" }),
      y: said(null, [], false, { of: "y2" }),
    },
    c3: { x: said("Second", ["b"], false, { k: "2" }), y: said("Why", [], true, {}) },
  };
  const now = {
    x: said("Now", ["n"], true, { k: "now", source: "theirs" }),
    y: said(null, ["z"], false, { of: "now" }),
  };
  const both = (turns: number, of: { readonly x: object; readonly y: object }) => [
    conversation("x", turns, of.x),
    conversation("y", turns, of.y),
  ];
  const files = {
    ...checkpoint("c1", 10, both(1, then.c1)),
    ...checkpoint("c2", 20, both(2, then.c2)),
    ...checkpoint("c3", 30, both(3, then.c3)),
    "conversations/x.json": conversation("x", 4, now.x),
    "conversations/y.json": conversation("y", 4, now.y),
    "agents/ag.json": agent(),
  };
  const snapshot = async (hold: Holdfast, id: string) =>
    (await hold.agents.snapshots("ag")).items.find(({ metadata }) => source(metadata)["id"] === id)
      ?.id as string;

  test("gives each session the words that it had then", async () => {
    const store = file();
    await run(put(place(), files), store);
    await using(store, async (hold) => {
      const today = [await words(hold, "x"), await words(hold, "y")];
      // Metadata with a field of our name stands in the note.
      expect(today).toEqual([{ ...now.x, metadata: {} }, now.y]);
      for (const id of ["c2", "c1", "c3"] as const) {
        await hold.agents.restore(await snapshot(hold, id));
        expect([await words(hold, "x"), await words(hold, "y")]).toEqual([then[id].x, then[id].y]);
      }
      // What was there before the first restore is not lost.
      const recovery = (await hold.agents.snapshots("ag", { kind: "recovery" })).items.at(-1);
      await hold.agents.restore(recovery?.id as string);
      expect([await words(hold, "x"), await words(hold, "y")]).toEqual(today);
      expect(await hold.verify()).toMatchObject({ ok: true });
    });
  });

  test("has been put back here: the next import leaves it there", async () => {
    for (const id of ["c1", "c3"]) {
      const store = file();
      const path = put(place(), files);
      await run(path, store);
      await using(store, async (hold) => hold.agents.restore(await snapshot(hold, id)));
      const turns = () =>
        using(store, async (hold) => (await hold.sessions.state("x")).messages.length);
      const before = await turns();
      for (const live of [
        conversation("x", 5, { ...now.x, title: "Later" }),
        conversation("x", 4, now.x),
      ]) {
        put(path, { "conversations/x.json": live });
        expect(
          (await run(path, store)).sessions.find((session) => session.id === "x"),
        ).toMatchObject({ outcome: "conflict" });
        expect([await wordsAt(store), await turns()]).toEqual([then[id as "c1"].x, before]);
      }
    }
  });

  test("of the newest state changes nothing, and the next import goes on", async () => {
    const store = file();
    const path = put(place(), {
      ...checkpoint("c1", 10, [conversation("x", 2, now.x)]),
      ...live(2, now.x),
      "agents/ag.json": agent(),
    });
    await run(path, store);
    const { sessions } = await using(store, async (hold) =>
      hold.agents.restore(await snapshot(hold, "c1")),
    );
    expect(sessions).toEqual([{ id: "x", outcome: "same" }]);
    expect((await run(path, store)).sessions).toMatchObject([{ outcome: "known" }]);
    put(path, live(3, { title: "Grown" }));
    expect((await run(path, store)).sessions).toMatchObject([{ outcome: "grown", checkpoints: 1 }]);
    expect(await wordsAt(store)).toMatchObject({ title: "Grown" });
  });

  test("each checkpoint of a session keeps the metadata that the conversation had", async () => {
    const store = file();
    await run(put(place(), files), store);
    await using(store, async (hold) => {
      const { items } = await hold.checkpoints.list("x");
      expect(items.toReversed().map(({ metadata }) => metadata)).toMatchObject([
        { source: { id: "c1" } },
        {
          k: "1",
          gone: "x",
          source: { id: "c2", title: "First", tags: ["a", "b"], archived: true },
        },
        { k: "2", source: { id: "c3", title: "Second", tags: ["b"] } },
        { source: { title: "Now", metadata: { k: "now", source: "theirs" } } },
      ]);
    });
  });

  test("a person's words stay while a new checkpoint comes in; its snapshot has those of the source", async () => {
    const store = file();
    const path = put(place(), {
      ...checkpoint("c1", 10, both(1, then.c1)),
      "agents/ag.json": agent(),
    });
    await run(path, store);
    await using(store, (hold) => hold.sessions.update("x", { title: "Mine", tags: ["mine"] }));
    put(path, checkpoint("c2", 20, both(2, then.c2)));
    await run(path, store);
    expect(await wordsAt(store)).toEqual({ ...then.c2.x, title: "Mine", tags: ["mine"] });
    await using(store, async (hold) => {
      await hold.agents.restore(await snapshot(hold, "c2"));
      expect(await words(hold)).toEqual(then.c2.x);
    });
  });

  test("words that Holdfast refuses are left out of the snapshot, and said", async () => {
    const store = file();
    const path = put(place(), {
      ...checkpoint("c1", 10, [conversation("x", 1, { title: "\ud800", tags: ["kept"] })]),
      ...live(2, { title: "Now" }),
      "agents/ag.json": agent(),
    });
    const report = await run(path, store);
    expect(report.snapshots).toMatchObject([{ outcome: "imported" }]);
    expect(report.skipped).toMatchObject([
      { path: "checkpoints/c1.json", why: expect.stringContaining('The title of session "x"') },
    ]);
    await using(store, async (hold) => {
      await hold.agents.restore(await snapshot(hold, "c1"));
      expect(await words(hold)).toMatchObject({ tags: ["kept"] });
    });
  });
});

describe("the source changes what it says", () => {
  const none = { title: null, tags: [], archived: false, metadata: {} };
  const some = { title: "Some", tags: ["a", "b"], archived: true, metadata: { k: "1", l: "2" } };
  const others = {
    title: "Others",
    tags: ["b", "c"],
    archived: false,
    metadata: { l: "3", m: "4" },
  };

  test.each([
    ["with no message before", 0, 2],
    ["with the same messages", 2, 2],
    ["with more messages", 1, 3],
  ])(
    "%s: the session says the same, and run again it changes nothing",
    async (_name, before, after) => {
      for (const [first, second] of [
        [none, some],
        [some, others],
        [some, none],
      ] as const) {
        const store = file();
        const path = put(place(), live(before, first));
        await run(path, store);
        expect(await wordsAt(store)).toEqual(first);
        put(path, live(after, second));
        const dry = await run(path, store, { dryRun: true });
        expect(await wordsAt(store)).toEqual(first);
        const report = await run(path, store);
        expect(report.sessions).toMatchObject([{ outcome: "grown" }]);
        expect(dry.sessions).toEqual(report.sessions);
        expect(await wordsAt(store)).toEqual(second);
        const seen = await viewAt(store);
        expect((await run(path, store)).sessions).toEqual([
          { id: "x", outcome: "known", checkpoints: 0 },
        ]);
        expect(await viewAt(store)).toEqual(seen);
      }
    },
  );

  test("a title that comes after the first message of a user", async () => {
    const store = file();
    const path = put(place(), live(0, { messages: [message(1)] }));
    await run(path, store);
    for (const title of [null, "Late", "Later"]) {
      put(path, live(3, { title }));
      await run(path, store);
      expect(await wordsAt(store)).toMatchObject({ title });
    }
  });

  test("a word that a person changed stays, and so does a field of metadata; the others follow", async () => {
    const store = file();
    const path = put(place(), live(1, some));
    await run(path, store);
    await using(store, async (hold) => {
      const { k: _k, ...metadata } = (await hold.sessions.get("x"))?.metadata ?? {};
      await hold.sessions.update("x", {
        title: "Mine",
        metadata: { ...metadata, l: "mine", own: 1 },
      });
    });
    for (const turns of [2, 3]) {
      put(path, live(turns, { ...others, metadata: { k: `${turns}`, l: "3", m: `${turns}` } }));
      await run(path, store);
      expect(await wordsAt(store)).toEqual({
        ...others,
        title: "Mine",
        metadata: { l: "mine", own: 1, m: `${turns}` },
      });
    }
    // One that a person took away is not given again.
    await using(store, (hold) => hold.sessions.update("x", { title: null }));
    put(path, live(4, { ...others, title: "Again" }));
    await run(path, store);
    expect(await wordsAt(store)).toMatchObject({ title: null });
  });

  test("after it was moved to another store, and beside a fork that a person made", async () => {
    const [store, moved] = [file(), file()];
    const path = put(place(), live(1, none));
    await run(path, store);
    await using(store, async (hold) => {
      await hold.sessions.fork((await hold.checkpoints.latest("x"))?.id as string, { id: "fork" });
      await using(moved, (other) => other.import(hold.export()));
    });
    put(path, live(2, some));
    for (const to of [store, moved]) {
      expect((await run(path, to)).sessions).toMatchObject([{ outcome: "grown", checkpoints: 1 }]);
      expect(await wordsAt(to)).toEqual(some);
      expect(await wordsAt(to, "fork")).toEqual(none);
    }
  });

  test("a branch that is named later is the title of its session", async () => {
    const store = file();
    const step = (session: string, id: string) => ({
      [`sessions/${session}/${id}.json`]: {
        id,
        session_id: session,
        created_at: "2026-01-28T02:30:00Z",
        state: { id },
        metadata: {},
      },
    });
    const path = put(place(), { ...step("s", "k"), ...step("f", "q") });
    await migrate("ccswarm", path, store);
    const fork = {
      fork_id: "f",
      parent_session_id: "s",
      checkpoint_id: "k",
      branch_name: "try",
      status: "Active",
      metadata: { why: "x" },
    };
    put(path, { "forks.json": { forks: { f: fork }, children: { s: ["f"] } } });
    await migrate("ccswarm", path, store);
    expect(await wordsAt(store, "f")).toEqual({
      title: "try",
      tags: ["try"],
      archived: false,
      metadata: { why: "x" },
    });
  });
});
