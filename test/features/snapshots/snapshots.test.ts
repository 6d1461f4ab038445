/** Agents, and snapshots of an agent with all its sessions, on every store. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import type { SessionId } from "../../../src/core/values/ids.js";
import { leaseRow } from "../../../src/engine/records/rows.js";
import { Holdfast } from "../../../src/holdfast.js";
import {
  type HoldfastError,
  type MessageInput,
  type OpenOptions,
  open,
  type Session,
  type Snapshot,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { type Replaced, through, wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const user = (content: string): MessageInput => ({ role: "user", content });
const code = (expected: string) =>
  expect.objectContaining({ code: expected }) as unknown as HoldfastError;

/** Says something in a session, with a checkpoint or without, and lets go of it. */
async function say(
  hold: Holdfast,
  id: string,
  text: string,
  o: { readonly agent?: string; readonly mark?: boolean } = {},
): Promise<void> {
  const session = await hold.session(id, { agent: o.agent ?? "ann" });
  session.append(user(text));
  session.set("last", text.repeat(5));
  if (o.mark === false)
    await session.effect("note", {}, { mode: "once", key: text }, async () => "noted");
  else await session.checkpoint();
  await session.close();
}

async function said(hold: Holdfast, id: string): Promise<readonly unknown[]> {
  const session = await hold.session(id);
  const texts = session.messages.map(({ content }) => content);
  await session.close();
  return texts;
}

describe.each(stores)("agents on $name", ({ address, traits }) => {
  const opened: Holdfast[] = [];
  afterEach(async () => {
    for (const hold of opened.splice(0)) await hold.close();
  });
  const fresh = async (place = address(), options: OpenOptions = {}) => {
    const hold = await open(place, options);
    opened.push(hold);
    return hold;
  };

  test("an agent is made, read and changed; its version rises, and a save of another version is a CONFLICT", async () => {
    let now = Date.UTC(2026, 0, 1);
    const place = address();
    const hold = await fresh(place, { clock: { now: () => now } });
    const first = await hold.agents.save({
      id: "support",
      name: "Support",
      type: "claude",
      system: "Help.",
      capabilities: ["refund", "refund", "email"],
      config: { temperature: 0.5 },
      state: { counter: 42 },
      metadata: { team: "a" },
    });
    expect(first).toEqual({
      id: "support",
      version: 1,
      name: "Support",
      type: "claude",
      system: "Help.",
      capabilities: ["refund", "email"],
      config: { temperature: 0.5 },
      state: { counter: 42 },
      metadata: { team: "a" },
      createdAt: "2026-01-01T00:00:00.000Z",
      updatedAt: "2026-01-01T00:00:00.000Z",
    });
    now += 1_000;
    const second = await hold.agents.save({
      id: "support",
      version: 1,
      state: { counter: 43 },
      type: null,
    });
    expect(second).toEqual({
      ...first,
      type: undefined,
      version: 2,
      state: { counter: 43 },
      updatedAt: "2026-01-01T00:00:01.000Z",
    });
    expect("type" in second).toBe(false);
    await expect(hold.agents.save({ id: "support", version: 1, state: {} })).rejects.toEqual(
      code("CONFLICT"),
    );
    await expect(hold.agents.save({ id: "support", version: 0 })).rejects.toEqual(code("CONFLICT"));
    await expect(hold.agents.save({ id: "nobody", version: 1 })).rejects.toEqual(code("CONFLICT"));
    // What was read goes back in.
    const read = await hold.agents.get("support");
    expect(read).toEqual({ ...second, activeSessions: [] });
    expect(Object.isFrozen(read) && Object.isFrozen(read?.state)).toBe(true);
    expect(
      (await hold.agents.save({ ...(read as NonNullable<typeof read>), system: "Help more." }))
        .version,
    ).toBe(3);
    expect(await hold.agents.get("nobody")).toBeUndefined();
    expect((await hold.stats()).agents).toBe(1);
    if (!traits.durable) return;
    await hold.close();
    expect(await (await fresh(place)).agents.get("support")).toMatchObject({
      version: 3,
      system: "Help more.",
    });
  });

  test("of saves that race, each counts: none is lost, and no version is given twice", async () => {
    const hold = await fresh();
    const saves = await Promise.all(
      Array.from({ length: 8 }, (_, i) => hold.agents.save({ id: "a", metadata: { i } })),
    );
    expect(saves.map(({ version }) => version).sort((a, b) => a - b)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8,
    ]);
    const raced = await Promise.allSettled(
      Array.from({ length: 4 }, () => hold.agents.save({ id: "a", version: 8 })),
    );
    expect(raced.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  });

  test("agents are listed newest first, by pages", async () => {
    const hold = await fresh();
    for (const id of ["a", "b", "c"]) await hold.agents.save({ id });
    const page = await hold.agents.list({ limit: 2 });
    expect(page.items.map(({ id }) => id)).toEqual(["c", "b"]);
    const next = await hold.agents.list({ limit: 2, cursor: page.next as string });
    expect(next.items.map(({ id }) => id)).toEqual(["a"]);
    expect(next.next).toBeUndefined();
    await expect(hold.agents.list({ cursor: "s1" })).rejects.toEqual(code("INVALID_OPTION"));
  });

  test("what is not a record is refused, and nothing is written", async () => {
    const hold = await fresh();
    const bad: readonly [unknown, string][] = [
      [{ id: "" }, "INVALID_ID"],
      [{ id: "a", name: "\0" }, "INVALID_ID"],
      [{ id: "a", nmae: "x" }, "INVALID_OPTION"],
      [{ id: "a", state: [] }, "INVALID_OPTION"],
      [{ id: "a", state: { when: new Date() } }, "INVALID_VALUE"],
      [{ id: "a", capabilities: "all" }, "INVALID_OPTION"],
      [{ id: "a", version: -1 }, "INVALID_OPTION"],
      [{ id: "a", system: "x".repeat(1024 * 1024 + 1) }, "TOO_LARGE"],
    ];
    for (const [given, expected] of bad)
      await expect(hold.agents.save(given as never)).rejects.toEqual(code(expected));
    expect((await hold.agents.list()).items).toEqual([]);
  });

  test("an agent that runs has a record from its first run on, and a session belongs to one agent", async () => {
    const hold = await fresh();
    const model = scriptedModel([{ content: "hello" }, { content: "again" }]);
    const ann = hold.agent({
      name: "ann",
      system: "Be kind.",
      model,
      tools: { look: { mode: "repeatable", run: () => 1 } },
    });
    await ann.run("s1", "hi");
    const record = await hold.agents.get("ann");
    expect(record).toMatchObject({
      version: 1,
      name: "ann",
      system: "Be kind.",
      capabilities: ["look"],
      activeSessions: [],
    });
    await hold.agents.save({ id: "ann", system: "Be brief." });
    await ann.run("s2", "hi");
    expect((await hold.agents.get("ann"))?.system).toBe("Be brief.");
    const bob = hold.agent({ name: "bob", model: scriptedModel([{ content: "no" }]) });
    await expect(bob.run("s1", "hi")).rejects.toEqual(code("CONFLICT"));
    await expect(hold.session("s1", { agent: "bob" })).rejects.toEqual(code("CONFLICT"));
    // Those that are under way are named.
    await say(hold, "s3", "begun");
    expect((await hold.agents.get("ann"))?.activeSessions).toEqual(["s3"]);
  });

  test("what a record cannot hold of an agent is left out, and named; the agent runs all the same", async () => {
    const look = { mode: "repeatable", run: () => 1 } as const;
    const tools = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`tool-${i}`, look]));
    const run = async (hold: Holdfast, name: string, system: string, count: number) => {
      const agent = hold.agent({
        name,
        system,
        model: scriptedModel([{ content: "hello" }]),
        tools: tools(count),
      });
      expect((await agent.run(`of ${name}`, "hi")).status).toBe("completed");
      const {
        system: kept,
        capabilities,
        metadata,
      } = (await hold.agents.get(name)) as NonNullable<Awaited<ReturnType<typeof hold.agents.get>>>;
      return { chars: kept?.length, capabilities: capabilities.length, metadata };
    };
    const hold = await fresh();
    const most = 1024 * 1024;
    expect(await run(hold, "full", "x".repeat(most), 1_000)).toEqual({
      chars: most,
      capabilities: 1_000,
      metadata: {},
    });
    const leftOut = ["system", "capabilities"];
    expect(await run(hold, "more", "x".repeat(most + 1), 1_001)).toEqual({
      capabilities: 1_000,
      metadata: { leftOut },
    });
    // A hook may make it longer, or leave nothing of a name.
    const hooked = await fresh(address(), {
      redact: (text, where) =>
        where.in !== "agent" ? text : where.field === "system" ? text.repeat(2) : text,
    });
    expect(await run(hooked, "grows", "x".repeat(most), 2)).toEqual({
      capabilities: 0,
      metadata: { leftOut: [...leftOut, "config"] },
    });
    const emptied = await fresh(address(), {
      redact: (text, where) => (where.in === "agent" ? "" : text),
    });
    expect(await run(emptied, "empty", "secret", 2)).toMatchObject({
      capabilities: 0,
      metadata: { leftOut: [...leftOut, "config"] },
    });
    // One that fails stores nothing.
    const failing = await fresh(address(), {
      redact: () => {
        throw new Error("no");
      },
    });
    const agent = failing.agent({
      name: "fails",
      system: "x",
      model: scriptedModel([{ content: "hello" }]),
    });
    await expect(agent.run("s", "hi")).rejects.toEqual(code("INVALID_OPTION"));
    expect(await failing.agents.get("fails")).toBeUndefined();
  });

  test("deleting an agent deletes all that is its own and nothing else, in one step", async () => {
    const place = address();
    const hold = await fresh(place);
    await hold.agents.save({ id: "ann" });
    await hold.agents.save({ id: "bob" });
    await say(hold, "a1", "one");
    await say(hold, "a2", "two");
    await say(hold, "b1", "three", { agent: "bob" });
    await say(hold, "alone", "four", { agent: "carl" });
    const { id } = (await hold.checkpoints.latest("a1")) as { id: string };
    await hold.agents.snapshot("ann");
    const kept = await hold.agents.snapshot("bob");
    const nobodys = await hold.session("nobody's");
    nobodys.append(user("five"));
    await nobodys.checkpoint();
    await nobodys.close();
    // A fork is the agent's, too.
    await hold.sessions.fork(id, { id: "a1-fork" });
    await expect(hold.agents.delete("nobody")).rejects.toEqual(code("NOT_FOUND"));
    expect(await hold.agents.delete("ann")).toEqual({ sessions: 3, snapshots: 1, keptFor: [] });
    const check = async (store: Holdfast) => {
      expect((await store.sessions.list()).items.map((session) => session.id).sort()).toEqual([
        "alone",
        "b1",
        "nobody's",
      ]);
      expect(await store.agents.get("ann")).toBeUndefined();
      expect((await store.agents.snapshots("ann")).items).toEqual([]);
      expect((await store.agents.snapshots("bob")).items).toEqual([kept]);
      expect(await said(store, "b1")).toEqual(["three"]);
      expect(await store.verify()).toMatchObject({ ok: true });
      expect(await store.gc()).toMatchObject({ freedBytes: 0, saves: 0, blobs: 0 });
      expect((await store.stats()).messages).toBe(3);
    };
    await check(hold);
    // An agent without a record goes as well.
    expect(await hold.agents.delete("carl")).toMatchObject({ sessions: 1 });
    await say(hold, "alone", "four", { agent: "carl" });
    if (!traits.durable) return;
    await hold.close();
    await check(await fresh(place));
  });

  // ---- snapshots

  test("a snapshot is restored: sessions stand where they stood, later ones are archived, deleted ones are back", async () => {
    let now = Date.UTC(2026, 0, 1);
    const place = address();
    const hold = await fresh(place, { clock: { now: () => now } });
    await hold.agents.save({ id: "ann", state: { counter: 1 } });
    await say(hold, "same", "never touched");
    await say(hold, "grows", "one");
    await say(hold, "no mark", "one", { mark: false });
    await say(hold, "goes", "here");
    await hold.sessions.update("goes", { title: "Away", tags: ["t"], metadata: { k: 1 } });
    await (await hold.session("empty", { agent: "ann" })).close();
    await hold.sessions.update("grows", { tags: ["old"] });
    const snap = await hold.agents.snapshot("ann", {
      name: "before the move",
      metadata: { why: "move" },
    });
    expect(snap).toMatchObject({
      agent: "ann",
      kind: "manual",
      name: "before the move",
      sessions: 5,
      version: 1,
      metadata: { why: "move" },
    });
    expect((await hold.agents.snapshots("ann")).items).toEqual([snap]);

    now += 60_000;
    await hold.agents.save({ id: "ann", state: { counter: 2 }, system: "other" });
    for (const id of ["grows", "no mark", "empty"])
      for (const text of ["two", "three"]) await say(hold, id, text);
    await hold.sessions.update("grows", { tags: ["new"], title: "Grown" });
    expect(await hold.sessions.delete("goes")).toMatchObject({
      deleted: true,
      keptFor: [],
      snapshots: [snap.id],
    });
    await say(hold, "later", "begun later");
    await say(hold, "other", "of another agent", { agent: "bob" });
    for (const id of ["grows", "no mark", "empty"]) await hold.checkpoints.prune(id, { keep: 0 });
    await hold.gc();
    const before = (await hold.sessions.list()).items.length;

    const expected = [
      { id: "empty", outcome: "moved" },
      { id: "goes", outcome: "made" },
      { id: "grows", outcome: "moved" },
      { id: "later", outcome: "archived" },
      { id: "no mark", outcome: "moved" },
      { id: "same", outcome: "same" },
    ];
    const dry = await hold.agents.restore(snap.id, { dryRun: true });
    expect(dry.sessions).toEqual(expected);
    expect(dry.recovery).toBeUndefined();
    expect((await hold.sessions.list()).items).toHaveLength(before);
    expect((await hold.agents.get("ann"))?.state).toEqual({ counter: 2 });

    const told: number[] = [];
    const report = await hold.agents.restore(snap.id, {
      onProgress: (verified) => told.push(verified),
    });
    expect(told).toEqual([1, 2, 3, 4, 5]);
    expect(report.sessions).toEqual(expected);
    expect(report.agent).toMatchObject({ version: 3, state: { counter: 1 } });
    expect(report.recovery).toMatchObject({ kind: "recovery", sessions: 5, version: 2 });
    const check = async (store: Holdfast) => {
      expect(await store.agents.get("ann")).toMatchObject({ version: 3, state: { counter: 1 } });
      expect((await store.agents.get("ann"))?.system).toBeUndefined();
      expect(await said(store, "same")).toEqual(["never touched"]);
      expect(await said(store, "grows")).toEqual(["one"]);
      expect(await said(store, "no mark")).toEqual(["one"]);
      expect(await said(store, "goes")).toEqual(["here"]);
      expect(await said(store, "empty")).toEqual([]);
      expect(await said(store, "later")).toEqual(["begun later"]);
      expect(await said(store, "other")).toEqual(["of another agent"]);
      expect(await store.sessions.get("later")).toMatchObject({ archived: true });
      expect(await store.sessions.get("other")).toMatchObject({ archived: false });
      expect(await store.sessions.get("goes")).toMatchObject({
        title: "Away",
        tags: ["t"],
        metadata: { k: 1 },
        agent: "ann",
      });
      expect(await store.sessions.get("grows")).toMatchObject({ tags: ["old"], title: "one" });
      expect(await store.verify()).toMatchObject({ ok: true, findings: [] });
    };
    await check(hold);

    // And back again: what came later is not lost.
    const back = await hold.agents.restore((report.recovery as Snapshot).id);
    expect(await said(hold, "grows")).toEqual(["one", "two", "three"]);
    expect(await said(hold, "empty")).toEqual(["two", "three"]);
    expect(await hold.sessions.get("later")).toMatchObject({ archived: false });
    expect(await hold.sessions.get("grows")).toMatchObject({ tags: ["new"], title: "Grown" });
    expect(back.sessions).toContainEqual({ id: "goes", outcome: "archived" });
    expect((await hold.agents.get("ann"))?.state).toEqual({ counter: 2 });
    await hold.agents.restore(snap.id);
    // What was said since goes on behind the place that was gone back to.
    await say(hold, "grows", "another way");
    expect(await said(hold, "grows")).toEqual(["one", "another way"]);
    await hold.agents.restore(snap.id);
    if (!traits.durable) return;
    await hold.close();
    const again = await fresh(place);
    await say(again, "grows", "x");
    await again.agents.restore(snap.id);
    expect(await said(again, "grows")).toEqual(["one"]);
    expect(await again.verify()).toMatchObject({ ok: true, findings: [] });
  });

  test("a snapshot notes the labels it is given in place of those of now, and a restore gives them to the sessions", async () => {
    const hold = await fresh();
    for (const id of ["a", "b", "c"]) await say(hold, id, `first words of ${id}`);
    await say(hold, "other", "of another agent", { agent: "bob" });
    await hold.sessions.update("a", {
      title: "Now",
      tags: ["now"],
      archived: true,
      metadata: { now: 1 },
    });
    await hold.sessions.update("b", { title: "Now" });
    const snap = await hold.agents.snapshot("ann", {
      labels: {
        a: { title: "Then", tags: ["then"], archived: false, metadata: { then: 1 } },
        b: { title: null },
        other: { title: "Passed over" },
        missing: { title: "Passed over" },
      },
    });
    // The sessions themselves keep their labels.
    expect(await hold.sessions.get("a")).toMatchObject({
      title: "Now",
      tags: ["now"],
      archived: true,
      metadata: { now: 1 },
    });
    expect((await hold.agents.restore(snap.id)).sessions).toEqual([
      { id: "a", outcome: "labelled" },
      { id: "b", outcome: "labelled" },
      { id: "c", outcome: "same" },
    ]);
    expect(await hold.sessions.get("a")).toMatchObject({
      title: "Then",
      titled: true,
      tags: ["then"],
      archived: false,
      metadata: { then: 1 },
    });
    expect(await hold.sessions.get("b")).toMatchObject({
      title: "first words of b",
      titled: false,
    });
    expect(await hold.sessions.get("other")).toMatchObject({
      title: "of another agent",
      titled: false,
    });
    const bad = [
      null,
      [],
      "x",
      { a: null },
      { a: { title: 5 } },
      { a: { tags: ["\n"] } },
      { a: { archived: 1 } },
      { a: { odd: 1 } },
    ];
    for (const labels of bad)
      await expect(hold.agents.snapshot("ann", { labels: labels as never })).rejects.toThrow(
        /labels|title|tags|archived/,
      );
  });

  test("a session that somebody holds is not put back, unless it is taken over; then its holder is told", async () => {
    const hold = await fresh();
    await say(hold, "a", "one");
    await say(hold, "b", "one");
    const snap = await hold.agents.snapshot("ann");
    await say(hold, "b", "two");
    const held = await hold.session("a", { agent: "ann" });
    // It has not moved: who holds it is in nobody's way.
    expect((await hold.agents.restore(snap.id)).sessions).toEqual([
      { id: "a", outcome: "same" },
      { id: "b", outcome: "moved" },
    ]);
    held.append(user("two"));
    await held.checkpoint();
    await say(hold, "b", "three");
    expect((await hold.agents.restore(snap.id, { dryRun: true })).held).toEqual(["a"]);
    const before = await hold.agents.snapshots("ann");
    await expect(hold.agents.restore(snap.id)).rejects.toEqual(code("LEASE_HELD"));
    expect(await hold.agents.snapshots("ann")).toEqual(before);
    expect(await said(hold, "b")).toEqual(["one", "three"]);
    await held.checkpoint("still mine");
    await hold.agents.restore(snap.id, { takeOver: true });
    held.append(user("too late"));
    await expect(held.checkpoint()).rejects.toEqual(code("STALE_LEASE"));
    expect(held.signal.aborted).toBe(true);
    expect(await said(hold, "a")).toEqual(["one"]);
    expect(await said(hold, "b")).toEqual(["one"]);
  });

  test("a session with a call that is not over is not left", async () => {
    const hold = await fresh();
    await say(hold, "a", "one");
    await say(hold, "b", "one");
    const snap = await hold.agents.snapshot("ann");
    const session = await hold.session("a", { agent: "ann" });
    const failing = session.effect("pay", { n: 1 }, { mode: "once", key: "k" }, async () => {
      throw new Error("nobody knows");
    });
    await expect(failing).rejects.toEqual(code("IN_DOUBT"));
    await session.close();
    await say(hold, "b", "two");
    await expect(hold.agents.restore(snap.id, { takeOver: true })).rejects.toEqual(
      code("BAD_STATUS"),
    );
    expect(await said(hold, "b")).toEqual(["one", "two"]);
    const [pending] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(pending?.effectId as string, { output: "paid" });
    await hold.agents.restore(snap.id);
    expect(await said(hold, "a")).toEqual(["one"]);
    // What was done in the part that was left is not made again without asking.
    const again = await hold.session("a", { agent: "ann" });
    await expect(
      again.effect("pay", { n: 1 }, { mode: "once", key: "k" }, async () => "paid twice"),
    ).rejects.toEqual(code("WAITING"));
  });

  test("a snapshot holds what it points at from prune, delete and gc, and lets go of it when it is deleted", async () => {
    const hold = await fresh();
    for (let i = 0; i < 5; i++) await say(hold, "a", `x${i} ${"long ".repeat(2_000)}`);
    const snap = await hold.agents.snapshot("ann");
    for (let i = 0; i < 5; i++) await say(hold, "a", `y${i}`);
    await hold.sessions.delete("a");
    await hold.gc();
    expect((await hold.stats()).messages).toBe(5);
    expect((await hold.agents.restore(snap.id)).sessions).toEqual([{ id: "a", outcome: "made" }]);
    expect(await said(hold, "a")).toHaveLength(5);
    await hold.sessions.delete("a");
    for (const { id } of (await hold.agents.snapshots("ann")).items)
      await hold.agents.deleteSnapshot(id);
    await expect(hold.agents.deleteSnapshot(snap.id)).rejects.toEqual(code("NOT_FOUND"));
    await expect(hold.agents.restore(snap.id)).rejects.toEqual(code("NOT_FOUND"));
    expect((await hold.gc()).freedBytes).toBeGreaterThan(40_000);
    expect(await hold.stats()).toMatchObject({ messages: 0, sizeBytes: 0 });
  });

  test("a snapshot that is taken while its agent is deleted does not stay", async () => {
    const place = address();
    const hold = await fresh(place);
    for (let i = 0; i < 10; i++) {
      await hold.agents.save({ id: "ann" });
      await say(hold, `s${i}`, "one");
      const raced = [
        hold.agents.delete("ann"),
        ...Array.from({ length: 3 }, () => hold.agents.snapshot("ann")),
      ];
      for (const result of await Promise.allSettled(raced))
        if (result.status === "rejected") expect(result.reason).toEqual(code("NOT_FOUND"));
      expect((await hold.agents.snapshots("ann")).items).toEqual([]);
      expect(await hold.sessions.get(`s${i}`)).toBeUndefined();
    }
  });

  test("what another process has changed twice since is read anew", async () => {
    if (!traits.shared) return;
    const place = address();
    const other = await fresh(place);
    for (let n = 1; n < 8; n++) {
      // One process writes to a directory at a time: this one lets go each time.
      const hold = await open(place);
      const { version } = await hold.agents.save({ id: "ann", state: { n } });
      await hold.agents.save({ id: "ann", state: { n: n + 100 } });
      await hold.close();
      expect(await other.agents.get("ann")).toMatchObject({
        version: version + 1,
        state: { n: n + 100 },
      });
    }
  });

  test("snapshots of a kind fill the page, however many others came after them", async () => {
    const hold = await fresh();
    await hold.agents.save({ id: "ann" });
    const first = await hold.agents.snapshot("ann", { kind: "recovery" });
    for (let i = 0; i < 12; i++) await hold.agents.snapshot("ann");
    const second = await hold.agents.snapshot("ann", { kind: "recovery" });
    const page = await hold.agents.snapshots("ann", { kind: "recovery", limit: 1 });
    expect(page.items).toEqual([second]);
    expect(
      (
        await hold.agents.snapshots("ann", {
          kind: "recovery",
          limit: 5,
          cursor: page.next as string,
        })
      ).items,
    ).toEqual([first]);
    expect((await hold.agents.snapshots("ann", { kind: "recovery", limit: 2 })).items).toEqual([
      second,
      first,
    ]);
  });

  test("what only a snapshot keeps is not found, until it is back", async () => {
    const hold = await fresh();
    await say(hold, "a", "a xylophone");
    expect((await hold.sessions.search("xylophone")).items).toHaveLength(1);
    const snap = await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    expect((await hold.sessions.search("xylophone")).items).toEqual([]);
    await hold.agents.restore(snap.id);
    expect((await hold.sessions.search("xylophone")).items).toMatchObject([
      { sessionId: "a", snippet: "a xylophone" },
    ]);
  });

  test("automatic snapshots are taken where something changed, pruned alone, survive errors and stop at once", async () => {
    const hold = await fresh();
    await say(hold, "a", "one");
    const manual = await hold.agents.snapshot("ann", { kind: "pre-operation" });
    const taken: Snapshot[] = [];
    const errors: unknown[] = [];
    const auto = hold.agents.autoSnapshot("ann", {
      everyMs: 20,
      keep: 2,
      onSnapshot: (snapshot) => {
        taken.push(snapshot);
        if (taken.length === 1) throw new Error("mine");
      },
      onError: (error) => errors.push(error),
    });
    await expect.poll(() => taken.length).toBe(1);
    // Nothing changed: nothing is taken.
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(taken).toHaveLength(1);
    for (const n of [2, 3, 4]) {
      await say(hold, "a", `change ${n}`);
      await expect.poll(() => taken.length).toBe(n);
    }
    expect(errors).toEqual([new Error("mine")]);
    await auto.stop();
    await say(hold, "a", "after the end");
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(taken).toHaveLength(4);
    const left = (await hold.agents.snapshots("ann")).items;
    expect(left.map(({ id }) => id)).toEqual([taken[3]?.id, taken[2]?.id, manual.id]);
    expect((await hold.agents.snapshots("ann", { kind: "automatic" })).items).toHaveLength(2);
    // Of an agent that is not there it says so each time, and goes on.
    const missing = hold.agents.autoSnapshot("nobody", {
      everyMs: 10,
      keep: 1,
      onError: (error) => errors.push(error),
    });
    await expect.poll(() => errors.length).toBeGreaterThanOrEqual(3);
    expect(errors[1]).toEqual(code("NOT_FOUND"));
    await missing.stop();
    expect(() => hold.agents.autoSnapshot("ann", { everyMs: 0, keep: 1 })).toThrow(
      code("INVALID_OPTION"),
    );
    // One that is still going ends with the store.
    hold.agents.autoSnapshot("ann", { everyMs: 10, keep: 1 });
  });

  test("restoring refuses what it cannot use", async () => {
    const hold = await fresh();
    await expect(hold.agents.snapshot("nobody")).rejects.toEqual(code("NOT_FOUND"));
    await expect(hold.agents.restore("snap-none")).rejects.toEqual(code("NOT_FOUND"));
    await hold.agents.save({ id: "ann" });
    await say(hold, "a", "one");
    const snap = await hold.agents.snapshot("ann");
    await expect(hold.agents.snapshot("ann", { kind: "odd" as never })).rejects.toEqual(
      code("INVALID_OPTION"),
    );
    await expect(hold.agents.restore(snap.id, { force: true } as never)).rejects.toEqual(
      code("INVALID_OPTION"),
    );
    const signal = AbortSignal.abort();
    await expect(hold.agents.restore(snap.id, { signal })).rejects.toThrow();
    // Its name was given to a session of another agent since.
    await hold.sessions.delete("a");
    await say(hold, "a", "mine now", { agent: "bob" });
    await expect(hold.agents.restore(snap.id)).rejects.toEqual(code("CONFLICT"));
    expect(await said(hold, "a")).toEqual(["mine now"]);
  });
});

describe.each(stores)("sessions that go on while they are restored, on $name", ({ address }) => {
  /** Something is done each time, after the sessions to be moved are seized and before they are. */
  async function meanwhile(
    act: (store: Store, time: number) => Promise<void>,
  ): Promise<{ hold: Holdfast; snap: Snapshot; store: Store }> {
    const store = await openStore(address());
    let holds = 0;
    const capture: Store["documents"]["capture"] = async (query, decide) => {
      if (query.hold && ++holds % 2 === 0) await act(store, holds / 2);
      return store.documents.capture(query, decide);
    };
    const hold = new Holdfast(
      wrapped(store, { documents: { capture } }),
      thisMachine(),
      { now: Date.now },
      30_000,
    );
    await say(hold, "a", "one");
    await say(hold, "b", "one");
    const snap = await hold.agents.snapshot("ann");
    await say(hold, "a", "later");
    return { hold, snap, store };
  }

  test.each([{ takeOver: true }, {}])(
    "RESTORE-2: one that was where it should be is seized too, %o",
    async (o) => {
      const { hold, snap } = await meanwhile(async (_store, time) => {
        if (time === 1) await say(hold, "b", "meanwhile");
      });
      try {
        const { sessions, recovery } = await hold.agents.restore(snap.id, o);
        expect(sessions).toEqual([
          { id: "a", outcome: "moved" },
          { id: "b", outcome: "moved" },
        ]);
        for (const id of ["a", "b"]) expect(await said(hold, id)).toEqual(["one"]);
        await hold.agents.restore(recovery?.id as string, o);
        expect(await said(hold, "b")).toEqual(["one", "meanwhile"]);
        expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
      } finally {
        await hold.close();
      }
    },
  );

  test("one that is held by then is LEASE_HELD without takeOver, and is taken with it", async () => {
    let session: Session | undefined;
    const { hold, snap } = await meanwhile(async (_store, time) => {
      if (time !== 1) return;
      session = await hold.session("b");
      session.append(user("meanwhile"));
      await session.checkpoint();
    });
    try {
      await expect(hold.agents.restore(snap.id)).rejects.toEqual(code("LEASE_HELD"));
      expect(await said(hold, "a")).toEqual(["one", "later"]);
      await hold.agents.restore(snap.id, { takeOver: true });
      expect(await said(hold, "b")).toEqual(["one"]);
    } finally {
      await session?.close().catch(() => {});
      await hold.close();
    }
  });

  test("where that does not end, it is a CONFLICT that says so, and nothing is changed", async () => {
    let taken = 0;
    const { hold, snap } = await meanwhile(async (store) => {
      taken += 1;
      const { row } = await store.session("a");
      const lease = { epoch: (row?.lease.epoch ?? 0) + 1, owner: null, until: 0 };
      await store.apply([{ session: "a", when: {}, lease: leaseRow("a" as SessionId, lease) }]);
    });
    try {
      const error = await hold.agents
        .restore(snap.id, { takeOver: true })
        .catch((thrown: HoldfastError) => thrown);
      expect(error).toMatchObject({
        code: "CONFLICT",
        message: expect.stringContaining("again and again"),
      });
      expect(taken).toBe(10);
      expect((await hold.agents.snapshots("ann")).items).toEqual([snap]);
      expect(await said(hold, "a")).toEqual(["one", "later"]);
    } finally {
      await hold.close();
    }
  });
});

/** D3: whatever of a snapshot is damaged, restoring it is refused, and nothing is changed. */
describe.each(stores)("a damaged snapshot on $name", ({ address }) => {
  const flipped = (text: string, at: number) =>
    `${text.slice(0, at)}${text[at] === "0" ? "1" : "0"}${text.slice(at + 1)}`;

  /** Each damages what is read of the snapshot that is restored. */
  const damages: Readonly<Record<string, (store: Store) => Replaced>> = {
    "its text": (store) => ({
      documents: {
        get: async (kind, id) => {
          const row = await store.documents.get(kind, id);
          return row && kind === "snapshot" ? { ...row, text: flipped(row.text, 60) } : row;
        },
      },
    }),
    "its body": (store) => ({
      documents: {
        get: async (kind, id) => {
          const row = await store.documents.get(kind, id);
          return row?.body == null
            ? row
            : { ...row, body: flipped(row.body, row.body.length - 20) };
        },
      },
    }),
    "its owner": (store) => ({
      documents: {
        get: async (kind, id) => {
          const row = await store.documents.get(kind, id);
          return row && kind === "snapshot" ? { ...row, of: "bob" } : row;
        },
      },
    }),
    "the text of a message that it points at": (store) => ({
      saves: async (line, query) =>
        (await store.saves(line, query)).map((save) =>
          save.items === null ? save : { ...save, items: flipped(save.items, 30) },
        ),
    }),
    "a save that it points at": (store) => ({
      saves: async (line, query) => (await store.saves(line, query)).filter(({ seq }) => seq !== 3),
    }),
    "a blob that it needs": () => ({ blob: async () => Buffer.from("something else") }),
  };

  test.each(Object.entries(damages))("%s", async (_name, damage) => {
    const store = await openStore(address());
    let damaged: Replaced = {};
    // Looked up at every call: the damage comes later.
    const late = through(store, (name, call, args) => {
      const own = name === "documents.get" ? damaged.documents?.get : damaged[name as "blob"];
      return own === undefined ? call() : (own as (...given: unknown[]) => unknown)(...args);
    });
    const hold = new Holdfast(late, thisMachine(), { now: Date.now }, 30_000);
    try {
      await hold.agents.save({ id: "ann", state: { n: 1 } });
      for (const text of ["one", "two", "x".repeat(20_000)]) await say(hold, "a", text);
      await say(hold, "b", "one");
      const snap = await hold.agents.snapshot("ann");
      await hold.agents.save({ id: "ann", state: { n: 2 } });
      for (const id of ["a", "b"]) await say(hold, id, "later");
      const look = async () => [
        await hold.sessions.list(),
        await hold.agents.list(),
        (await hold.agents.snapshots("ann")).items.length,
        (await store.branches({ kind: "all" })).length,
        (await store.sessions({ limit: 10 })).map(({ lease }) => lease.epoch),
      ];
      const before = await look();
      damaged = damage(store);
      await expect(hold.agents.restore(snap.id)).rejects.toEqual(code("CORRUPT"));
      await expect(hold.agents.restore(snap.id, { dryRun: true })).rejects.toEqual(code("CORRUPT"));
      expect((await hold.verify()).ok).toBe(false);
      damaged = {};
      expect(await look()).toEqual(before);
      await hold.agents.restore(snap.id);
      expect(await said(hold, "b")).toEqual(["one"]);
    } finally {
      await hold.close();
    }
  });
});

describe.each(stores)("sessions that were put back, on $name", ({ address }) => {
  // Bases come every few saves: what a place needs is not what a later one does.
  const { slackBytes } = baseTuning;
  beforeEach(() => {
    baseTuning.slackBytes = 300;
  });
  afterEach(() => {
    baseTuning.slackBytes = slackBytes;
  });

  /**
   * The session goes on from a place that has no checkpoint any more, and that nothing pins any
   * more.
   */
  async function putBack(hold: Holdfast): Promise<void> {
    for (const text of ["one", "two", "three"]) await say(hold, "a", `${text} ${"x".repeat(300)}`);
    const snap = await hold.agents.snapshot("ann");
    for (let i = 0; i < 10; i++) await say(hold, "a", `later ${i} ${"x".repeat(300)}`);
    await hold.checkpoints.prune("a", { keep: 2 });
    await hold.agents.restore(snap.id);
    for (const { id } of (await hold.agents.snapshots("ann")).items)
      await hold.agents.deleteSnapshot(id);
  }
  const texts = async (hold: Holdfast, id: string) =>
    (await said(hold, id)).map((text) => String(text).split(" ")[0]);

  test("RESTORE-2: the place that a line begins at loads for as long as the line is there", async () => {
    const hold = await open(address());
    try {
      await putBack(hold);
      // Also once nothing else on the old line has to.
      const { items } = await hold.checkpoints.list("a", { branches: "all" });
      expect(items).toHaveLength(2);
      for (const { id } of items) await hold.checkpoints.delete(id);
      await hold.gc();
      expect(await texts(hold, "a")).toEqual(["one", "two", "three"]);
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    } finally {
      await hold.close();
    }
  });

  test("they move to other stores like any other", async () => {
    const hold = await open(address());
    const other = await open(address());
    try {
      await putBack(hold);
      await say(hold, "a", "other way");
      const rows: string[] = [];
      for await (const row of hold.export()) rows.push(row);
      const report = await other.import(rows);
      expect(report.conflicts).toEqual([]);
      expect(await texts(other, "a")).toEqual(["one", "two", "three", "other"]);
      expect(await other.verify()).toMatchObject({ ok: true, findings: [] });
      expect((await other.import(rows)).sessions).toEqual([{ id: "a", outcome: "known" }]);
    } finally {
      await hold.close();
      await other.close();
    }
  });
});
