/**
 * What `sessions.redact` does to messages that wait to be appended: those that can be taken in are
 * gone over with the transcript, and the report names the others.
 */
import { expect, test } from "vitest";
import { encodeMessage } from "../../../src/core/messages/message.js";
import { digest } from "../../../src/core/values/digest.js";
import { appendTextId, HIDDEN, newTag } from "../../../src/engine/records/append-messages.js";
import { inboxText } from "../../../src/engine/records/rows.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, type MessageInput, textOf } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { errorOf } from "../../support/error-of.js";
import { coded, Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const SECRET = "Marigold-77120-Sorrel";
const user = (content: MessageInput["content"], more?: Partial<MessageInput>): MessageInput => ({
  role: "user",
  content,
  ...more,
});
const file = (text: string) =>
  ({ type: "file", mediaType: "text/plain", data: { bytes: Buffer.from(text) } }) as const;
const call: MessageInput = {
  role: "assistant",
  content: [{ type: "tool-call", callId: "c", name: "look", input: {} }],
};
const answer: MessageInput = {
  role: "tool",
  content: [{ type: "tool-result", callId: "c", outcome: "ok", output: 1 }],
};

/** What a call is known by, as long as it may be told from others. */
const checkOf = (...messages: readonly MessageInput[]): string =>
  digest(messages.map((one) => encodeMessage(one, "m").text).join("\n"));

/** A session in which letters wait that nobody keeps: a call is open that came from outside. */
const waitingIn = async (hold: Holdfast, id: string): Promise<void> => {
  expect(await hold.sessions.append(id, [user("go"), call], { create: true })).toMatchObject({
    taken: true,
  });
};

const allMessages = async (store: Store, id: string): Promise<string> =>
  JSON.stringify(await store.inbox.list(id, { dueBy: HIDDEN, limit: 1_000 }));

const transcript = async (hold: Holdfast, id: string): Promise<string[]> => {
  const session = await hold.session(id, { waitMs: 5_000 });
  await session.close();
  return session.messages.map(textOf);
};

const WAITS = "messages that wait to be appended";
const waits = (left: readonly string[]): readonly string[] =>
  left.filter((one) => one.startsWith(WAITS));

test.each(stores)("letters that cannot be taken in yet, on $name", async ({ address }) => {
  const store = await openStore(address());
  const hold = new Opened(store, thisMachine(), { now: Date.now }, 30_000);
  await waitingIn(hold, "a");
  const long = "🪸é ".repeat(100);
  const letters = {
    small: [user(`small ${SECRET}`)],
    plain: [user("plain")],
    large: [user(long), user([{ type: "text", text: long }, file(`a file: ${SECRET}`)])],
  };
  for (const [key, messages] of Object.entries(letters)) {
    expect(await hold.sessions.append("a", messages, { key })).toMatchObject({ taken: false });
    if (key === "plain") expect(waits((await hold.sessions.redact("a", long)).left)).toEqual([]);
  }
  // It fails, and leaves its key behind.
  const twice = [user(SECRET, { id: "m" }), user("other", { id: "m" })];
  await errorOf(() => hold.sessions.append("a", twice, { key: "failed" }));
  expect(await allMessages(store, "a")).toContain(checkOf(...twice));
  const before = await allMessages(store, "a");
  const { left } = await hold.sessions.redact("a", SECRET, { dryRun: true });
  expect([waits(left).length, await allMessages(store, "a")]).toEqual([1, before]);
  expect(waits((await hold.sessions.redact("a", SECRET)).left)).toHaveLength(1);
  expect(await allMessages(store, "a")).not.toContain(checkOf(...twice));
  for (const [key, messages] of Object.entries(letters)) {
    expect(await hold.sessions.append("a", messages, { key })).toMatchObject({ taken: false });
    expect(await errorOf(() => hold.sessions.append("a", [user("other")], { key }))).toMatchObject(
      coded("CONFLICT"),
    );
  }

  expect(await hold.sessions.append("a", [answer])).toMatchObject({ taken: true });
  expect(waits((await hold.sessions.redact("a", SECRET)).left)).toEqual([]);
  expect((await transcript(hold, "a")).slice(3)).toEqual(["small [redacted]", "plain", long, long]);
  const { messages } = await hold.sessions.transcript("a", { format: "openai", files: "inline" });
  expect(JSON.stringify(messages)).toContain(Buffer.from("a file: [redacted]").toString("base64"));
  // Of what was said under a key, nothing is left to compare with.
  for (const other of [letters.small, [user("other")]])
    expect(await hold.sessions.append("a", other, { key: "small" })).toEqual({
      count: 1,
      taken: true,
    });
  expect(await hold.sessions.append("a", [user("at last")], { key: "failed" })).toEqual({
    count: 1,
    taken: true,
  });
  expect((await transcript(hold, "a")).slice(7)).toEqual(["at last"]);
  expect(await store.inbox.list("a", { dueBy: HIDDEN, limit: 10 })).toEqual([]);
  await hold.close();
});

test.each(stores)(
  "what was sent to a holder that died is taken in first, on $name",
  async ({ address }) => {
    const on = await Processes.on(address());
    const { hold } = on.start();
    const dying = on.start();
    await dying.hold.session("a");
    const said = [user(`one ${SECRET}`), user("two", { id: "m2" })];
    expect(await hold.sessions.append("a", said, { key: "k" })).toMatchObject({ taken: false });
    dying.kill();
    const { records, left } = await hold.sessions.redact("a", SECRET, { scrub: false });
    expect([records, waits(left)]).toEqual([1, []]);
    expect(await transcript(hold, "a")).toEqual(["one [redacted]", "two"]);
    expect(await hold.sessions.append("a", said, { key: "k" })).toMatchObject({ taken: true });
    expect(await transcript(hold, "a")).toEqual(["one [redacted]", "two"]);
    await on.close();
  },
);

test("a message that waits is not found by its id before it is taken in", async () => {
  const hold = new Opened(await openStore("memory:"), thisMachine(), { now: Date.now }, 30_000);
  await waitingIn(hold, "a");
  await hold.sessions.append("a", [user("one", { id: "m1" })]);
  expect(await errorOf(() => hold.sessions.redact("a", { message: "m1" }))).toMatchObject(
    coded("NOT_FOUND"),
  );
  await hold.sessions.append("a", [answer]);
  await hold.sessions.redact("a", { message: "m1" });
  expect((await transcript(hold, "a")).slice(3)).toEqual(["[redacted]"]);
  await hold.close();
});

test("a text that no bell speaks of: of one who may be about to ring nothing is changed, and what was left long ago goes", async () => {
  const store = await openStore("memory:");
  const hold = new Opened(store, thisMachine(), { now: Date.now }, 30_000);
  await hold.sessions.append("a", [user("go")], { create: true });
  const ids = [60_000, 2 * 3_600_000].map((ms) => appendTextId("k", newTag(Date.now() - ms)));
  const text = inboxText({ kind: "append-text", messages: [{ role: "user", content: SECRET }] });
  for (const id of ids) await store.inbox.post("a", { id, text, due: HIDDEN });
  expect(waits((await hold.sessions.redact("a", SECRET)).left)).toHaveLength(1);
  expect((await store.inbox.list("a", { dueBy: HIDDEN, limit: 10 })).map(({ id }) => id)).toEqual([
    ids[0],
  ]);
  await hold.close();
});
