/** REPLACE-1 to REPLACE-4: replacing and removing messages of a session from outside a run. */
import { afterEach, describe, expect, test } from "vitest";
import { type ReplaceOptions } from "../../../src/features/conversations/replace.js";
import {
  type Holdfast,
  type HoldfastError,
  type MessageInput,
  type OpenOptions,
  open,
  transcriptVersion,
} from "../../../src/index.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { errorOf } from "../../support/error-of.js";
import { everyStore, stores } from "../../support/stores.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});
async function fresh(address = "memory:", o: OpenOptions = {}): Promise<Holdfast> {
  const hold = await open(address, o);
  opened.push(hold);
  return hold;
}

const user = (content: string, id?: string): MessageInput => ({
  role: "user",
  content,
  ...(id !== undefined && { id }),
});
const messagesOf = async (hold: Holdfast, id = "s") => (await hold.sessions.state(id)).messages;
const said = async (hold: Holdfast, id = "s") =>
  (await messagesOf(hold, id)).map(({ content }) => content);
const versionOf = async (hold: Holdfast, id = "s") => transcriptVersion(await messagesOf(hold, id));

async function withFour(address?: string): Promise<Holdfast> {
  const hold = await fresh(address);
  await hold.sessions.append(
    "s",
    [user("one", "a"), user("two", "b"), user("three", "c"), user("four", "d")],
    {
      create: true,
      agent: "ann",
    },
  );
  return hold;
}

/** Replaces in the session as it stands. */
const replace = async (
  hold: Holdfast,
  messages: readonly MessageInput[],
  o: Omit<ReplaceOptions, "version"> = {},
) => hold.sessions.replace("s", messages, { version: await versionOf(hold), ...o });

describe.each(stores)("on $name", ({ address, traits }) => {
  test("whole, a range, an insertion, a removal; each can be gone back from", async () => {
    const place = address();
    const hold = await withFour(place);
    const numbers = async () => new Map((await messagesOf(hold)).map(({ id, seq }) => [id, seq]));
    const before = await numbers();
    const first = await replace(hold, [user("one", "a"), user("2", "b"), user("four", "d")]);
    expect(first).toEqual({ removed: 2, added: 1, length: 3, before: expect.any(String) });
    expect(await said(hold)).toEqual(["one", "2", "four"]);
    // Those that stay are the records they were.
    const after = await numbers();
    expect([after.get("a"), after.get("d")]).toEqual([before.get("a"), before.get("d")]);
    expect(await replace(hold, [user("1"), user("1.5")], { from: "a" })).toMatchObject({
      removed: 1,
      added: 2,
      length: 4,
    });
    expect(await replace(hold, [user("3")], { from: "d", count: 0 })).toMatchObject({
      removed: 0,
      added: 1,
      length: 5,
    });
    expect(await said(hold)).toEqual(["1", "1.5", "2", "3", "four"]);
    expect(await replace(hold, [], { from: "b", count: 2 })).toMatchObject({
      removed: 2,
      added: 0,
      length: 3,
    });
    expect(await said(hold)).toEqual(["1", "1.5", "four"]);
    const last = await replace(hold, []);
    expect(last).toMatchObject({ removed: 3, added: 0, length: 0 });
    // The same again changes nothing, and places no checkpoint.
    const count = (await hold.stats()).checkpoints;
    expect(await replace(hold, [])).toEqual({ removed: 0, added: 0, length: 0 });
    expect((await hold.stats()).checkpoints).toBe(count);
    expect(await replace(hold, [user("new")])).toEqual({ removed: 0, added: 1, length: 1 });

    await hold.sessions.rewind("s", last.before as string);
    expect(await said(hold)).toEqual(["1", "1.5", "four"]);
    await hold.sessions.rewind("s", first.before as string);
    expect(await said(hold)).toEqual(["one", "two", "three", "four"]);
    expect(await hold.verify()).toMatchObject({ ok: true });
    if (!traits.durable) return;
    await hold.close();
    expect(await said(await fresh(place))).toEqual(["one", "two", "three", "four"]);
  });

  test("crossed with fork, export, import, snapshot, restore, prune and redaction", async () => {
    const hold = await withFour(address());
    const snap = await hold.agents.snapshot("ann");
    const { before } = await replace(hold, [user("TWO", "b")], { from: "b", count: 2 });
    await hold.sessions.fork(before as string, { id: "old" });
    const newest = await hold.checkpoints.latest("s");
    await hold.sessions.fork(newest?.id as string, { id: "new" });
    expect([await said(hold, "old"), await said(hold, "new")]).toEqual([
      ["one", "two", "three", "four"],
      ["one", "TWO", "four"],
    ]);
    // A fork has the version of what it shares.
    expect(await versionOf(hold, "new")).toBe(await versionOf(hold));
    await hold.sessions.replace("new", [], { version: await versionOf(hold), from: "a" });
    expect(await said(hold)).toEqual(["one", "TWO", "four"]);
    const other = await fresh();
    await other.import(hold.export());
    expect(await said(other)).toEqual(["one", "TWO", "four"]);
    expect(await versionOf(other)).toBe(await versionOf(hold));
    await other.sessions.replace("s", [user("ONE")], { version: await versionOf(hold), from: "a" });
    expect(await said(other)).toEqual(["ONE", "TWO", "four"]);

    const { recovery } = await hold.agents.restore(snap.id);
    expect(await said(hold)).toEqual(["one", "two", "three", "four"]);
    await hold.agents.restore(recovery?.id as string);
    expect(await said(hold)).toEqual(["one", "TWO", "four"]);
    // Removed, a text is still in the history. A redaction finds it there.
    const version = await versionOf(hold);
    await hold.sessions.redact("s", "three");
    expect(await said(hold, "old")).toEqual([
      "one",
      "two",
      expect.not.stringContaining("three"),
      "four",
    ]);
    expect(await versionOf(hold)).toBe(version);
    await hold.checkpoints.prune("s", { keep: 1, branches: "all" });
    for (const id of ["old", "new"]) await hold.sessions.delete(id);
    await hold.agents.pruneSnapshots("ann", { keep: 1 });
    await hold.gc();
    expect(await said(hold)).toEqual(["one", "TWO", "four"]);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("of two who replace the same transcript one is refused, and nothing is lost", async () => {
    const place = address();
    const here = await withFour(place);
    const there = traits.shared && !traits.inBulk ? await fresh(place) : here;
    const version = await versionOf(here);
    const raced = await Promise.allSettled([
      here.sessions.replace("s", [user("here")], { version, from: "b", waitMs: 5_000 }),
      there.sessions.replace("s", [user("there")], { version, from: "c", waitMs: 5_000 }),
    ]);
    const refused = raced
      .filter((one) => one.status === "rejected")
      .map(({ reason }) => (reason as { code: string }).code);
    expect(refused).toEqual(["CONFLICT"]);
    const isHere = raced[0]?.status === "fulfilled";
    expect(await said(there)).toEqual(
      isHere ? ["one", "here", "three", "four"] : ["one", "two", "there", "four"],
    );
  });
});

test("a redaction makes another version: a client that has read the text cannot write it back", async () => {
  const hold = await withFour();
  const version = await versionOf(hold);
  await hold.sessions.redact("s", "two");
  expect(
    await errorOf(() => hold.sessions.replace("s", [user("with two")], { version, from: "a" })),
  ).toMatchObject({ code: "CONFLICT" });
});

test("the hook for redactions sees what comes", async () => {
  const hold = await fresh("memory:", { redact: (text) => text.replaceAll("secret", "•") });
  await hold.sessions.append("s", [user("a secret", "a")], { create: true });
  // The same text is the same message.
  expect(await replace(hold, [user("a secret", "a")])).toMatchObject({ removed: 0, added: 0 });
  await replace(hold, [user("another secret")]);
  expect(await said(hold)).toEqual(["another •"]);
});

test.each<readonly [string, unknown, Record<string, unknown>, string]>([
  ["no version", [], { version: undefined }, "INVALID_OPTION"],
  ["another version", [], { version: "x" }, "CONFLICT"],
  ["a message that is not there", [], { from: "x" }, "INVALID_OPTION"],
  ["more than there are", [], { from: "c", count: 3 }, "INVALID_OPTION"],
  ["a count of nothing", [], { count: 1 }, "INVALID_OPTION"],
  ["an id that stays elsewhere", [user("x", "a")], { from: "b" }, "CONFLICT"],
  ["a message that stays elsewhere", [user("one", "a")], { from: "b" }, "CONFLICT"],
  ["an id twice", [user("x", "e"), user("y", "e")], { from: "b" }, "CONFLICT"],
  ["a message twice", [user("two", "b"), user("x"), user("two", "b")], { from: "b" }, "CONFLICT"],
  ["no messages", "x", {}, "INVALID_VALUE"],
  ["a message that is none", [{ role: "nobody", content: "x" }], {}, "INVALID_VALUE"],
  [
    "a file that is not stored",
    [
      {
        role: "user",
        content: [
          { type: "file", mediaType: "a/b", data: { digest: "A".repeat(43), sizeBytes: 1 } },
        ],
      },
    ],
    {},
    "INVALID_VALUE",
  ],
])("%s is refused, and nothing changes", async (_name, messages, o, code) => {
  const hold = await withFour();
  const version = await versionOf(hold);
  const count = (await hold.stats()).checkpoints;
  expect(
    await errorOf(() => hold.sessions.replace("s", messages as never, { version, ...o } as never)),
  ).toMatchObject({ code });
  expect([await versionOf(hold), (await hold.stats()).checkpoints]).toEqual([version, count]);
  expect(await errorOf(() => hold.sessions.replace("none", [], { version }))).toMatchObject({
    code: "NOT_FOUND",
  });
});

test.each<readonly [string, readonly MessageInput[], readonly string[]]>([
  [
    "behind all of them, with the words of the last",
    [user("one", "a"), user("two", "b"), user("two")],
    ["one", "two", "two"],
  ],
  [
    "in front, with the words of one that moves",
    [user("one"), user("two", "b"), user("one", "a")],
    ["one", "two", "one"],
  ],
  [
    "in between, with the words of its neighbour",
    [user("one", "a"), user("two"), user("two", "b")],
    ["one", "two", "two"],
  ],
])("a new message without an id, %s, is another message", async (_name, given, expected) => {
  const hold = await fresh();
  await hold.sessions.append("s", [user("one", "a"), user("two", "b")], { create: true });
  expect(await replace(hold, given)).toMatchObject({ length: 3 });
  expect(await said(hold)).toEqual(expected);
  const ids = (await messagesOf(hold)).map(({ id }) => id);
  expect(given.map(({ id }, i) => id ?? ids[i])).toEqual(ids);
  expect(await hold.verify()).toMatchObject({ ok: true });
});

test("a call and its answer go together", async () => {
  const hold = await fresh();
  const call = {
    role: "assistant",
    id: "call",
    content: [{ type: "tool-call", callId: "1", name: "look", input: {} }],
  } as const;
  const answer = {
    role: "tool",
    id: "answer",
    content: [{ type: "tool-result", callId: "1", outcome: "ok", output: 1 }],
  } as const;
  await hold.sessions.append("s", [user("go", "a"), call, answer, user("and?", "z")], {
    create: true,
  });
  for (const from of ["call", "answer"])
    expect(await errorOf(() => replace(hold, [], { from }))).toMatchObject({
      code: "INVALID_VALUE",
      details: { found: "1" },
    });
  expect(
    await errorOf(() => replace(hold, [user("wait")], { from: "answer", count: 0 })),
  ).toMatchObject({ code: "INVALID_VALUE" });
  // At the end, too: a call without an answer there is one that is still to be made.
  expect(await errorOf(() => replace(hold, [], { from: "answer", count: 2 }))).toMatchObject({
    code: "INVALID_VALUE",
  });
  expect(await replace(hold, [], { from: "call", count: 2 })).toMatchObject({ length: 2 });
});

describe("while others are at work", () => {
  test("a session that is held is LEASE_HELD, and its holder goes on", async () => {
    const place = everyStore[1]?.address() as string;
    const hold = await withFour(place);
    const version = await versionOf(hold);
    const held = await (await fresh(place)).session("s");
    held.append(user("five"));
    expect(await errorOf(() => hold.sessions.replace("s", [], { version }))).toMatchObject({
      code: "LEASE_HELD",
    });
    await held.checkpoint();
    await held.close();
    expect(await errorOf(() => hold.sessions.replace("s", [], { version }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await said(hold)).toEqual(["one", "two", "three", "four", "five"]);
  });

  test("an open turn is TURN_OPEN, with its call that waits; once it is over, its messages can be replaced", async () => {
    const hold = await fresh();
    const ann = hold.agent({
      name: "ann",
      model: scriptedModel([
        { content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] },
        "Paid.",
        "Again.",
      ]),
      tools: { pay: { mode: "keyed", approval: true, run: async () => "paid" } },
    });
    const { status } = await ann.run("s", "Pay.");
    expect(status).toBe("waiting");
    expect(await errorOf(() => replace(hold, []))).toMatchObject({ code: "TURN_OPEN" });
    const { items } = await hold.effects.list({ status: "waiting" });
    await hold.effects.approve(items[0]?.effectId as string);
    expect((await ann.resume("s")).status).toBe("completed");
    const [input] = await messagesOf(hold);
    const done = await replace(hold, [user("Do pay.")], { from: input?.id as string });
    expect(done).toMatchObject({ removed: 1, added: 1, length: 4 });
    // REPLACE-4
    expect((await hold.sessions.get("s"))?.status).toBe("completed");
    expect(await ann.run("s", "And now?", { key: "2" })).toMatchObject({
      status: "completed",
      output: "Again.",
    });
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("a call that waited when its session was cancelled is BAD_STATUS, which says what to do", async () => {
    const hold = await fresh();
    const ann = hold.agent({
      name: "ann",
      model: scriptedModel([{ content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] }]),
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    await ann.run("s", "Pay.");
    await hold.sessions.cancel("s");
    const refused = await errorOf(() => replace(hold, []));
    expect(refused).toMatchObject({ code: "BAD_STATUS" });
    const { effectId } = (refused as HoldfastError).details;
    expect((refused as Error).message).toContain(`hold.effects.deny("${effectId}", { reason })`);
    await hold.effects.deny(effectId as string, { reason: "no" });
    expect(await replace(hold, [])).toMatchObject({ length: 0 });
  });

  test("a call by hand whose outcome is unknown is BAD_STATUS", async () => {
    const hold = await withFour();
    const session = await hold.session("s");
    const fails = session.effect("mail", {}, { mode: "once", key: "m" }, async () => {
      throw new Error("The socket died.");
    });
    await expect(fails).rejects.toThrow();
    await session.close({ discard: true });
    expect(await errorOf(() => replace(hold, []))).toMatchObject({ code: "BAD_STATUS" });
    expect(await said(hold)).toHaveLength(4);
  });

  test("messages that wait are taken in first, and make it another version", async () => {
    const hold = await withFour();
    const held = await hold.session("s");
    const version = await versionOf(hold);
    held.set("busy", true);
    expect(await hold.sessions.append("s", [user("from outside")])).toMatchObject({ taken: false });
    await held.checkpoint();
    await held.close();
    expect(await errorOf(() => hold.sessions.replace("s", [], { version }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await said(hold)).toHaveLength(5);
  });
});
