/**
 * What a session does, on every store. Random mixtures of the same are in api/equal-stores.test.ts.
 */
import { afterEach, describe, expect, test } from "vitest";
import {
  type Holdfast,
  type HoldfastError,
  type Json,
  type Message,
  type MessageInput,
  type OpenOptions,
  open,
  type SessionEvent,
  textOf,
} from "../../../src/index.js";
import { stores } from "../../support/stores.js";

const user = (content: string): MessageInput => ({ role: "user", content });
const says = (content: string): MessageInput => ({ role: "assistant", content });
/** All that is told of session "a" after a cursor, up to its newest checkpoint. */
async function told(hold: Holdfast, after: string | undefined): Promise<SessionEvent[]> {
  const end = (await hold.checkpoints.latest("a"))?.id;
  const events: SessionEvent[] = [];
  for await (const event of hold.sessions.events("a", after === undefined ? {} : { after })) {
    events.push(event);
    if (event.cursor === end) break;
  }
  return events;
}

const code = (expected: string) =>
  expect.objectContaining({ code: expected }) as unknown as HoldfastError;

describe.each(stores)("sessions on $name", ({ address, traits }) => {
  const opened: Holdfast[] = [];
  afterEach(async () => {
    for (const hold of opened.splice(0)) await hold.close();
  });
  const fresh = async (place = address(), options: OpenOptions = {}) => {
    const hold = await open(place, options);
    opened.push(hold);
    return hold;
  };

  test("staged work is seen at once, with the ids it will keep", async () => {
    const place = address();
    const hold = await fresh(place);
    const session = await hold.session("a");
    session.append(user("one"), says("two"));
    session.set("plan", ["x"]);
    const live = { messages: session.messages, state: session.state };
    expect(live.messages.map(({ id, seq }) => [id.split("-")[1], seq])).toEqual([
      ["1", 1],
      ["2", 2],
    ]);
    await session.checkpoint();
    expect(session.messages).toEqual(live.messages);
    await session.close();
    const again = await hold.session("a");
    expect({ messages: again.messages, state: again.state }).toEqual(live);
    expect(Object.isFrozen(again.messages)).toBe(true);
    expect(Object.isFrozen(again.state)).toBe(true);
  });

  test("times are those of staging and saving, and are the same after a resume", async () => {
    let now = Date.UTC(2026, 0, 1);
    const hold = await fresh(address(), { clock: { now: () => now } });
    const session = await hold.session("a");
    session.append(user("early"));
    now += 60_000;
    session.append(says("late"));
    now += 1_000;
    const { createdAt } = await session.checkpoint();
    const times = session.messages.map((message) => message.createdAt);
    expect([...times, createdAt]).toEqual([
      "2026-01-01T00:00:00.000Z",
      "2026-01-01T00:01:00.000Z",
      "2026-01-01T00:01:01.000Z",
    ]);
    await session.close();
    expect((await hold.session("a")).messages.map((message) => message.createdAt)).toEqual(times);
  });

  test("order is by number: a clock that goes back a day, or stands still, changes nothing", async () => {
    let now = Date.UTC(2026, 0, 2);
    const hold = await fresh(address(), { clock: { now: () => now } });
    const session = await hold.session("a");
    for (const [i, step] of [0, -86_400_000, 0, 315_360_000_000, -1].entries()) {
      now += step;
      session.append(user(`${i}`));
      await session.checkpoint(`${i}`);
    }
    const { items } = await hold.checkpoints.list("a");
    expect(items.map(({ label }) => label)).toEqual(["4", "3", "2", "1", "0"]);
    expect(await hold.checkpoints.latest("a")).toEqual(items[0]);
    expect(await hold.session("a").catch((error: unknown) => error)).toEqual(code("LEASE_HELD"));
  });

  test("a message whose id is known is passed over; the same id with other content is a conflict", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append({ ...user("hi"), id: "m1" });
    session.append({ ...user("hi"), id: "m1" }, { ...says("ho"), id: "m2" });
    expect(session.messages.map(({ id }) => id)).toEqual(["m1", "m2"]);
    expect(() => session.append({ ...user("other"), id: "m1" })).toThrow(code("CONFLICT"));
    await session.checkpoint();
    await session.close();
    const again = await hold.session("a");
    again.append({ ...user("hi"), id: "m1" });
    expect(again.messages).toHaveLength(2);
    // A message that came out of a session may go back in.
    again.append(again.messages[0] as MessageInput);
    expect(again.messages).toHaveLength(2);
  });

  test("an append with one bad message stages none of them", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    expect(() => session.append(user("fine"), { role: "nobody", content: "x" } as never)).toThrow(
      code("INVALID_VALUE"),
    );
    expect(session.messages).toEqual([]);
    await session.close();
  });

  test("save takes a whole state and writes what is new", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.save({ messages: [user("1"), says("2")], state: { plan: ["x"], gone: 1 } });
    await session.checkpoint();
    const before = (await hold.stats()).messages;
    session.save({ messages: [user("1"), says("2"), user("3")], state: { plan: ["x", "y"] } });
    await session.checkpoint();
    expect((await hold.stats()).messages).toBe(before + 1);
    expect(session.messages.map(({ content }) => content)).toEqual(["1", "2", "3"]);
    expect(session.state).toEqual({ plan: ["x", "y"] });
    session.save({ messages: [user("1"), says("changed")] });
    expect(session.messages.map(({ content }) => content)).toEqual(["1", "changed"]);
    expect(session.state).toEqual({ plan: ["x", "y"] });
  });

  test("splice compacts the transcript; history still shows what was taken out", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(...Array.from({ length: 10 }, (_, i) => user(`${i}`)));
    await session.checkpoint();
    session.splice("messages", 0, 8, says("summary"));
    await session.checkpoint();
    expect(session.messages.map(({ content }) => content)).toEqual(["summary", "8", "9"]);
    const page = await session.history({ limit: 4 });
    expect(page.items.map(({ content }) => content)).toEqual(["summary", "9", "8", "7"]);
    const rest = await session.history({ cursor: page.next as string, limit: 100 });
    expect(rest.items.map(({ content }) => content)).toEqual(["6", "5", "4", "3", "2", "1", "0"]);
    await session.close();
    expect((await hold.session("a")).messages.map(({ content }) => content)).toEqual([
      "summary",
      "8",
      "9",
    ]);
  });

  test("checkpoints carry what they should", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("hi"), {
      ...says("ho"),
      reply: { finish: "stop", usage: { inputTokens: 10, outputTokens: 5 } },
    });
    const first = await session.checkpoint({
      label: "l",
      description: "d",
      kind: "pre-operation",
      tasksCompleted: 2,
      metadata: { a: 1 },
    });
    expect(first).toMatchObject({
      step: 1,
      kind: "pre-operation",
      label: "l",
      description: "d",
      tasksCompleted: 2,
      tokenCount: 15,
      messageCount: 2,
      status: "in-progress",
      metadata: { a: 1 },
      seq: 3,
      sessionId: "a",
    });
    expect(first.parentId).toBeUndefined();
    const second = await session.checkpoint({ step: 7 });
    expect(second).toMatchObject({
      step: 7,
      kind: "manual",
      tasksCompleted: 2,
      parentId: first.id,
    });
    expect((await session.checkpoint()).step).toBe(8);
    expect(await hold.checkpoints.get(first.id)).toEqual(first);
    expect(session.head?.step).toBe(8);
    await session.close();
    expect((await hold.session("a")).head?.step).toBe(8);
  });

  test("statuses follow the table, and work sets a session going again", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    await session.complete({ answer: 42 });
    expect([session.status, session.output]).toEqual(["completed", { answer: 42 }]);
    await expect(session.fail("late")).rejects.toEqual(code("BAD_STATUS"));
    session.append(user("more"));
    expect([session.status, session.output]).toEqual(["in-progress", undefined]);
    await session.halt("the same call three times", { label: "stuck", metadata: { loops: 3 } });
    expect(session.head).toMatchObject({
      kind: "automatic",
      label: "stuck",
      metadata: { loops: 3 },
      status: "halted",
    });
    await expect(session.complete(undefined, { kind: "odd" as "manual" })).rejects.toEqual(
      code("INVALID_OPTION"),
    );
    expect(await hold.sessions.get("a")).toMatchObject({
      status: "halted",
      reason: "the same call three times",
    });
    await session.close();
    const again = await hold.session("a");
    expect([again.status, again.reason]).toEqual(["halted", "the same call three times"]);
    expect((await hold.sessions.list({ status: "halted" })).items).toHaveLength(1);
    expect((await hold.sessions.list({ status: "in-progress" })).items).toHaveLength(0);
  });

  test("a fork shares the past and goes its own way; its origin may be deleted under it", async () => {
    const hold = await fresh();
    const session = await hold.session("a", { agent: "x", title: "T", tags: ["t"] });
    session.append(user("shared"));
    session.set("k", 1);
    const at = await session.checkpoint();
    session.append(says("only a"));
    await session.checkpoint();
    const fork = await session.fork(at.id, { id: "b" });
    expect(fork.messages).toEqual(session.messages.slice(0, 1));
    expect(fork.head).toMatchObject({ id: at.id });
    fork.append(says("only b"));
    const first = await fork.checkpoint();
    expect(first.parentId).toBe(at.id);
    expect(await hold.sessions.get("b")).toMatchObject({
      agent: "x",
      title: "T",
      tags: ["t"],
      forkPoint: { sessionId: "a", checkpointId: at.id },
    });
    await session.close();
    expect(await hold.sessions.delete("a")).toMatchObject({
      deleted: true,
      sessions: 1,
      keptFor: ["b"],
    });
    // What they shared is the fork's now.
    expect(await hold.checkpoints.get(at.id)).toEqual({ ...at, sessionId: "b" });
    await hold.gc();
    await fork.close();
    expect((await hold.session("b")).messages.map(({ content }) => content)).toEqual([
      "shared",
      "only b",
    ]);
    expect(await hold.verify()).toMatchObject({ ok: true });
    expect(await hold.sessions.fork(at.id, { id: "c" })).toMatchObject({
      forkPoint: { sessionId: "b", checkpointId: at.id },
    });
  });

  test("rewind goes back on a new branch, keeps the old one, and switchBranch returns to it", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("1"));
    const first = await session.checkpoint("first");
    session.append(user("2"));
    const second = await session.checkpoint("second");
    expect(await session.rewind(first.id)).toEqual({ before: second.id, passed: [] });
    session.append(user("3"));
    const third = await session.checkpoint("third");
    const labels = async (branches?: "all") =>
      (await hold.checkpoints.list("a", branches ? { branches } : {})).items.map(
        ({ label }) => label,
      );
    expect(await labels()).toEqual(["third", "first"]);
    expect(await labels("all")).toEqual(["third", "second", "first"]);
    await session.switchBranch(second.id);
    expect(session.messages.map(({ content }) => content)).toEqual(["1", "2"]);
    expect(await labels()).toEqual(["second", "first"]);
    await session.switchBranch(third.id);
    session.append(user("4"));
    await session.checkpoint("fourth");
    await session.close();
    expect((await hold.session("a")).messages.map(({ content }) => content)).toEqual([
      "1",
      "3",
      "4",
    ]);
  });

  test("a checkpoint has the same parent wherever it is listed: also the first on a line that begins at another", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("one"));
    const first = await session.checkpoint();
    session.append(user("two"));
    await session.checkpoint();
    await session.rewind(first.id);
    session.append(user("three"));
    const third = await session.checkpoint();
    expect(third.parentId).toBe(first.id);
    const { items } = await hold.checkpoints.list("a", { branches: "all" });
    expect(items.map(({ id, parentId }) => [id, parentId])).toEqual(
      await Promise.all(
        items.map(async ({ id }) => [id, (await hold.checkpoints.get(id))?.parentId]),
      ),
    );
    expect(items).toHaveLength(3);
    expect(items[0]).toEqual(third);
    const paged = [];
    for (let cursor: string | undefined; ; ) {
      const page = await hold.checkpoints.list("a", {
        branches: "all",
        limit: 1,
        ...(cursor !== undefined && { cursor }),
      });
      paged.push(...page.items);
      if (page.next === undefined) break;
      cursor = page.next;
    }
    expect(paged).toEqual(items);
  });

  test("ids are found by how they begin, and sessions by what they begin at", async () => {
    const hold = await fresh();
    const session = await hold.session("order-1", { agent: "x" });
    session.append(user("one"));
    const first = await session.checkpoint("here");
    await (await session.fork(first.id, { id: "order-1b" })).close();
    await session.rewind(first.id);
    session.append(user("two"));
    const second = await session.checkpoint();
    await session.close();
    await hold.sessions.fork(second.id, { id: "order-2" });
    await (await hold.session("other")).close();

    expect(await hold.sessions.ids("order")).toEqual(["order-1", "order-1b", "order-2"]);
    expect(await hold.sessions.ids("", { limit: 1 })).toEqual(["order-1"]);
    expect((await hold.sessions.forks("order-1")).items.map(({ id }) => id)).toEqual([
      "order-2",
      "order-1b",
    ]);
    expect(await hold.sessions.forks("order-2")).toEqual({ items: [] });
    await expect(hold.sessions.forks("none")).rejects.toEqual(code("NOT_FOUND"));

    const [line, seq] = second.id.split("-");
    expect(await hold.checkpoints.find(`${line?.slice(0, 9)}-${seq}`)).toEqual([second]);
    expect(await hold.checkpoints.find(`${line?.slice(0, 9)}-9`)).toEqual([]);
    for (const odd of ["order-1", "-2", "%-2", `${line}`])
      expect(await hold.checkpoints.find(odd)).toEqual([]);
  });

  test("a store says how it is doing: what it is, who holds what, and what somebody should know", async () => {
    const hold = await fresh();
    const held = await hold.session("a");
    held.append(user("one"));
    await held.checkpoint();
    await (await hold.session("b")).complete("done");
    const about = await hold.info();
    expect(about.sessions).toMatchObject({
      looked: 2,
      byStatus: { "in-progress": 1, completed: 1 },
      lastWeek: 2,
      damaged: 0,
    });
    expect(about.leases.held.map(({ sessionId, holder }) => [sessionId, holder])).toEqual([
      ["b", `process ${process.pid}`],
      ["a", `process ${process.pid}`],
    ]);
    expect(about.leases.abandoned).toEqual([]);
    expect(about).toMatchObject({ place: expect.stringMatching(/./), concerns: expect.any(Array) });
    expect(about.index).toBeUndefined();
    await held.close();
    expect((await hold.info()).leases.held).toHaveLength(1);
  });

  test("events that are not live end with what there was, though somebody goes on writing", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("one"));
    await session.checkpoint();
    let told = 0;
    for await (const { at } of hold.sessions.events("a", { live: false })) {
      told += 1;
      expect(at).toMatch(/^\d{4}-/);
      session.append(user("more"));
      await session.checkpoint();
    }
    expect(told).toBe(2);
    await session.close();
  });

  test("a session switches to a branch that it has left, from outside", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("one"));
    const first = await session.checkpoint();
    session.append(user("two"));
    const second = await session.checkpoint();
    await session.rewind(first.id);
    await expect(hold.sessions.switchBranch("a", second.id)).rejects.toEqual(code("LEASE_HELD"));
    await session.close();
    await hold.sessions.switchBranch("a", second.id);
    await hold.sessions.switchBranch("a", second.id);
    expect((await hold.sessions.state("a")).messages.map(textOf)).toEqual(["one", "two"]);
    await expect(hold.sessions.switchBranch("b", second.id)).rejects.toEqual(code("NOT_FOUND"));
    expect(await hold.sessions.get("b")).toBeUndefined();
  });

  test("prune keeps the newest, fork points, and everything that still loads", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    const made = [];
    for (let i = 0; i < 10; i++) {
      session.append(user(`${i}`));
      session.set("k", i);
      made.push(await session.checkpoint(`${i}`));
    }
    await hold.sessions.fork(made[4]?.id as string, { id: "b" });
    expect(await hold.checkpoints.prune("a", { keep: 3 })).toEqual({ removed: 6 });
    expect((await hold.checkpoints.list("a")).items.map(({ label }) => label)).toEqual([
      "9",
      "8",
      "7",
      "4",
    ]);
    expect(await hold.checkpoints.prune("a", { keep: 3 })).toEqual({ removed: 0 });
    expect((await hold.checkpoints.state(made[7]?.id as string)).state).toEqual({ k: 7 });
    expect((await hold.checkpoints.state(made[4]?.id as string)).messages).toHaveLength(5);
    await expect(hold.checkpoints.state(made[5]?.id as string)).rejects.toEqual(code("NOT_FOUND"));
    await expect(hold.checkpoints.delete(made[4]?.id as string)).rejects.toEqual(code("CONFLICT"));
    expect(await hold.checkpoints.delete(made[8]?.id as string)).toEqual({
      deleted: true,
      checkpoints: 1,
    });
    expect(await hold.checkpoints.delete(made[8]?.id as string)).toEqual({
      deleted: false,
      checkpoints: 0,
    });
    expect((await hold.checkpoints.list("a")).items.map(({ label }) => label)).toEqual([
      "9",
      "7",
      "4",
    ]);
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    session.append(user("goes on"));
    expect((await session.checkpoint()).parentId).toBe(made[9]?.id);
  });

  test("deleting leaves nothing that a late write could bring back", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("1"));
    await session.checkpoint();
    expect(await hold.sessions.delete("a")).toEqual({
      deleted: true,
      sessions: 1,
      checkpoints: 1,
      keptFor: [],
    });
    session.append(user("late"));
    await expect(session.checkpoint()).rejects.toEqual(code("STALE_LEASE"));
    expect(session.signal.aborted).toBe(true);
    expect(await hold.sessions.get("a")).toBeUndefined();
    const again = await hold.session("a");
    expect(again.messages).toEqual([]);
    expect(again.epoch).toBe(2);
    await expect(session.checkpoint()).rejects.toEqual(code("STALE_LEASE"));
    expect(await hold.sessions.delete("unknown")).toEqual({
      deleted: false,
      sessions: 0,
      checkpoints: 0,
      keptFor: [],
    });
  });

  test("one holder at a time: LEASE_HELD names the holder and the time left, waitMs waits", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    const held = (await hold.session("a").catch((error: unknown) => error)) as HoldfastError;
    expect(held).toEqual(code("LEASE_HELD"));
    expect(held.details.holder).toContain(String(process.pid));
    expect(held.details.remainingMs).toBeGreaterThan(20_000);
    const waiting = hold.session("a", { waitMs: 5_000 });
    setTimeout(() => void session.close(), 50);
    expect((await waiting).epoch).toBe(2);
    expect(() => session.append(user("x"))).toThrow(code("CLOSED"));
  });

  test("a lease is renewed while it is held", async () => {
    const hold = await fresh();
    await hold.session("a", { leaseMs: 150 });
    await new Promise((resolve) => setTimeout(resolve, 600));
    await expect(hold.session("a")).rejects.toEqual(code("LEASE_HELD"));
  });

  test("another agent's session is a conflict", async () => {
    const hold = await fresh();
    await (await hold.session("a", { agent: "x" })).close();
    await expect(hold.session("a", { agent: "y" })).rejects.toEqual(code("CONFLICT"));
    expect((await hold.session("a", { agent: "x" })).agent).toBe("x");
  });

  test("close throws for staged work, unless it is to be discarded", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("x"));
    await expect(session.close()).rejects.toEqual(code("UNSAVED"));
    await expect(session.rewind("0000000000000000-1")).rejects.toEqual(code("UNSAVED"));
    await session.close({ discard: true });
    await session.close();
    const again = await hold.session("a");
    expect(again.messages).toEqual([]);
    again.append(user("y"));
    await expect(again[Symbol.asyncDispose]()).rejects.toEqual(code("UNSAVED"));
    await (await hold.session("a")).close();
  });

  test("cancel reaches a holder, and is done here where there is none", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("x"));
    await session.checkpoint();
    await hold.sessions.cancel("a", "stopped by the user");
    await new Promise<void>((resolve) =>
      session.signal.aborted
        ? resolve()
        : session.signal.addEventListener("abort", () => resolve()),
    );
    expect(await hold.sessions.get("a")).toMatchObject({
      status: "cancelled",
      reason: "stopped by the user",
    });
    expect(() => session.append(user("y"))).toThrow(code("BAD_STATUS"));
    await session.close();
    await (await hold.session("b")).close();
    await hold.sessions.cancel("b");
    expect(await hold.sessions.get("b")).toMatchObject({
      status: "cancelled",
      reason: "cancelled",
    });
    await expect(hold.sessions.cancel("nobody")).rejects.toEqual(code("NOT_FOUND"));
    const again = await hold.session("a");
    again.append(user("goes on"));
    await again.checkpoint();
    expect(again.status).toBe("in-progress");
  });

  test("titles come from the first user message, and labels override them", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(
      { role: "system", content: "be kind" },
      user("  \n What holds kelp\tto the rock?\nIt is wet there."),
    );
    await session.checkpoint();
    expect((await hold.sessions.get("a"))?.title).toBe("What holds kelp to the rock?");
    await hold.sessions.update("a", {
      title: "Kelp",
      tags: ["b", "a"],
      archived: true,
      metadata: { m: 1 },
    });
    expect(await hold.sessions.get("a")).toMatchObject({
      title: "Kelp",
      tags: ["b", "a"],
      archived: true,
      metadata: { m: 1 },
    });
    await Promise.all([
      hold.sessions.update("a", { title: "1" }),
      hold.sessions.update("a", { archived: false }),
      hold.sessions.update("a", { metadata: {} }),
    ]);
    expect(await hold.sessions.get("a")).toMatchObject({
      title: "1",
      tags: ["b", "a"],
      archived: false,
      metadata: {},
    });
  });

  test("files are kept once under their digest, and read back verified", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    const bytes = new Uint8Array(20_000).fill(7);
    const file = (name: string): MessageInput => ({
      role: "user",
      content: [{ type: "file", mediaType: "image/png", name, data: { bytes } }],
    });
    session.append(file("a.png"), file("b.png"));
    bytes.fill(0);
    await session.checkpoint();
    const part = (
      (session.messages[0] as Message).content as unknown as {
        data: { digest: string; sizeBytes: number };
      }[]
    )[0];
    expect(part?.data.sizeBytes).toBe(20_000);
    expect((await hold.blob(part?.data.digest as string))?.every((byte) => byte === 7)).toBe(true);
    expect((await hold.stats()).sizeBytes).toBeLessThan(21_500);
    // A message that came out of one session may go into another: its file is known by its digest.
    const other = await hold.session("b");
    other.append({ ...(session.messages[0] as MessageInput), id: "copied" });
    await other.checkpoint();
    expect(await hold.verify()).toMatchObject({ ok: true });
    other.append({
      role: "user",
      content: [{ type: "file", mediaType: "x", data: { digest: "A".repeat(43), sizeBytes: 1 } }],
    });
    await expect(other.checkpoint()).rejects.toEqual(code("INVALID_VALUE"));
  });

  test("files of a big message survive pruning and gc", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append({
      role: "user",
      content: [
        { type: "text", text: "x".repeat(9_000) },
        { type: "file", mediaType: "x", data: { bytes: Buffer.from("kept") } },
      ],
    });
    await session.checkpoint();
    session.set("k", 1);
    await session.checkpoint();
    await hold.checkpoints.prune("a", { keep: 1 });
    await hold.gc();
    const file = (
      (session.messages[0] as Message).content as unknown as {
        type: string;
        data?: { digest: string };
      }[]
    )[1];
    expect(Buffer.from((await hold.blob(file?.data?.digest as string)) ?? []).toString()).toBe(
      "kept",
    );
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("diff says what differs, as data and in words", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("same"), says("before"));
    session.save({ state: { kept: 1, changed: "a", removed: true } });
    const a = await session.checkpoint();
    session.splice("messages", 1, 1, says("after"));
    session.save({ state: { kept: 1, changed: "b", added: [] } });
    await session.complete();
    const diff = await hold.checkpoints.diff(a.id, session.head?.id as string);
    expect(diff.messages).toMatchObject({
      sameAtStart: 1,
      removed: [{ content: "before" }],
      added: [{ content: "after" }],
    });
    expect(diff.state).toEqual({
      added: { added: [] },
      removed: { removed: true },
      changed: { changed: { from: "a", to: "b" } },
    });
    expect(diff.status).toEqual({ from: "in-progress", to: "completed" });
    expect(diff.text.split("\n")).toEqual([
      "- assistant: before",
      "+ assistant: after",
      "- state.removed: true",
      "+ state.added: []",
      '~ state.changed: "a" → "b"',
      "status: in-progress → completed",
    ]);
    expect(await hold.checkpoints.diff(a.id, a.id)).toMatchObject({
      equal: true,
      text: "no difference",
    });
  });

  test("events tell the past from a cursor on, then what comes, and rewinds", {
    timeout: 20_000,
  }, async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("1"));
    session.set("k", 1);
    const first = await session.checkpoint("first");
    const stop = new AbortController();
    const seen: SessionEvent[] = [];
    const following = (async () => {
      for await (const event of hold.sessions.events("a", { signal: stop.signal }))
        seen.push(event);
    })();
    const until = async (n: number) => {
      while (seen.length < n) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    await until(3);
    session.append(user("2"));
    await session.checkpoint("second");
    await until(5);
    await session.rewind(first.id);
    session.append(user("3"));
    await session.complete();
    await until(9);
    stop.abort();
    await following;
    expect(
      seen.map((event) =>
        event.type === "message"
          ? event.message.content
          : event.type === "checkpoint"
            ? event.checkpoint.label
            : event.type,
      ),
    ).toEqual(["1", "state", "first", "2", "second", "rewind", "3", "status", undefined]);
    const rest: string[] = [];
    const again = new AbortController();
    for await (const event of hold.sessions.events("a", {
      after: (seen[4] as SessionEvent).cursor,
      signal: again.signal,
    })) {
      rest.push(event.type);
      if (rest.length === 4) again.abort();
    }
    expect(rest).toEqual(["rewind", "message", "status", "checkpoint"]);
  });

  test("events applied in order are the session, and going on after any of them misses none", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("1"), says("2"), user("3"));
    session.set("plan", ["a", "b"]);
    session.set("gone", 1);
    await session.checkpoint();
    session.splice("messages", 0, 2, says("summary"), says("and more"));
    session.splice("messages", 1, 0, user("in the middle"));
    session.splice("plan", 1, 1, "c", "d");
    session.unset("gone");
    session.append(user("long ".repeat(3_000)));
    session.set("big", "value ".repeat(3_000));
    await session.checkpoint();
    session.splice("messages", 2, 1);
    await session.complete({ answer: 42 });
    const all = await told(hold, undefined);
    const messages: unknown[] = [];
    const state: Record<string, unknown> = {};
    let status = "in-progress";
    for (const event of all) {
      if (event.type === "message") messages.push(event.message);
      else if (event.type === "splice")
        messages.splice(event.start, event.removed, ...(event.message ? [event.message] : []));
      else if (event.type === "state") state[event.key] = event.value;
      else if (event.type === "unset") delete state[event.key];
      else if (event.type === "list")
        state[event.key] = (state[event.key] as Json[]).toSpliced(
          event.start,
          event.removed,
          ...event.items,
        );
      else if (event.type === "status") status = event.status;
    }
    expect(messages).toEqual(session.messages);
    expect(state).toEqual(session.state);
    expect(status).toBe("completed");
    expect(new Set(all.map(({ cursor }) => cursor)).size).toBe(all.length);
    for (const [i, { cursor }] of all.slice(0, -1).entries())
      expect(await told(hold, cursor)).toEqual(all.slice(i + 1));
  });

  test("a follower of a session that is deleted, and made again under its name, comes to an end", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    session.append(user("1"));
    await session.checkpoint();
    await session.close();
    const events = hold.sessions.events("a")[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ type: "message" });
    expect((await events.next()).value).toMatchObject({ type: "checkpoint" });
    await hold.sessions.delete("a");
    const other = await hold.session("a");
    other.append(user("another"));
    await other.checkpoint();
    expect(await events.next()).toEqual({ value: undefined, done: true });
  });

  test("a store that is closed lets go of its sessions, and says so", async () => {
    const place = address();
    const hold = await fresh(place);
    const session = await hold.session("a");
    session.append(user("x"));
    await session.checkpoint();
    await hold.close();
    await expect(hold.sessions.list()).rejects.toEqual(code("CLOSED"));
    expect(() => session.append(user("y"))).toThrow(code("CLOSED"));
    const again = await fresh(place);
    expect((await again.session("a")).messages).toHaveLength(traits.durable ? 1 : 0);
  });

  test("concurrent checkpoints of one session keep their order, and each save is one", async () => {
    const hold = await fresh();
    const session = await hold.session("a");
    const made = await Promise.all(
      Array.from({ length: 50 }, (_, i) => {
        session.append(user(`${i}`));
        return session.checkpoint(`${i}`);
      }),
    );
    expect(made.map(({ step }) => step)).toEqual(Array.from({ length: 50 }, (_, i) => i + 1));
    expect(
      (await hold.checkpoints.list("a", { limit: 100 })).items.map(({ label }) => Number(label)),
    ).toEqual(Array.from({ length: 50 }, (_, i) => 49 - i));
    expect((await hold.checkpoints.state(made[24]?.id as string)).messages).toHaveLength(25);
  });

  test("lists are paged, and every page follows the one before", async () => {
    const hold = await fresh();
    for (let i = 0; i < 7; i++) await (await hold.session(`s${i}`)).close();
    const session = await hold.session("s0");
    for (let i = 0; i < 7; i++) await session.checkpoint(`${i}`);
    const pages = async <T>(
      list: (cursor?: string) => Promise<{ items: readonly T[]; next?: string }>,
    ) => {
      const found: T[] = [];
      for (let cursor: string | undefined; ; ) {
        const page = await list(cursor);
        expect(page.items.length).toBeLessThanOrEqual(3);
        found.push(...page.items);
        if (page.next === undefined) return found;
        cursor = page.next;
      }
    };
    expect(
      (
        await pages((cursor) => hold.sessions.list({ limit: 3, ...(cursor ? { cursor } : {}) }))
      ).map(({ id }) => id),
    ).toEqual(["s6", "s5", "s4", "s3", "s2", "s1", "s0"]);
    expect(
      (
        await pages((cursor) =>
          hold.checkpoints.list("s0", { limit: 3, ...(cursor ? { cursor } : {}) }),
        )
      ).map(({ label }) => label),
    ).toEqual(["6", "5", "4", "3", "2", "1", "0"]);
  });
});
