/**
 * What `sessions.redact` does to messages that wait to be appended: all of a letter is gone over,
 * and nothing is left to guess it from.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import { encodeMessage } from "../../../src/core/messages/message.js";
import { digest } from "../../../src/core/values/digest.js";
import {
  bellLetter,
  HIDDEN,
  keyLetter,
  keyOf,
  keyText,
  newTag,
  partTuning,
} from "../../../src/engine/records/letters.js";
import type { MailDoc } from "../../../src/engine/records/rows.js";
import { LetterEdits } from "../../../src/features/redaction/letters.js";
import { whatOf } from "../../../src/features/redaction/what.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, type MessageInput, textOf } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { coded, Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const { chars } = partTuning;
beforeEach(() => {
  partTuning.chars = 300;
});
afterEach(() => {
  partTuning.chars = chars;
});

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

const allMail = async (store: Store, id: string): Promise<string> =>
  JSON.stringify(await store.inbox.list(id, { dueBy: HIDDEN, limit: 1_000 }));

const transcript = async (hold: Holdfast, id: string): Promise<string[]> => {
  const session = await hold.session(id, { waitMs: 5_000 });
  await session.close();
  return session.messages.map(textOf);
};

test.each(stores)("letters of several parts, and files in them, on $name", async ({ address }) => {
  const store = await openStore(address());
  const hold = new Opened(store, thisMachine(), { now: Date.now }, 30_000);
  await waitingIn(hold, "a");
  const small = [user(`small ${SECRET}`)];
  const plain = [user("plain")];
  const long = "🪸é ".repeat(100);
  const large = [
    user(`${SECRET} ${long}`),
    user([{ type: "text", text: `${long}${SECRET}` }, file(`a file: ${SECRET}`), file("another")]),
  ];
  for (const [key, messages] of Object.entries({ small, plain, large }))
    expect(await hold.sessions.append("a", messages, { key })).toMatchObject({ taken: false });
  // It fails, and leaves its key behind.
  await errorOf(() =>
    hold.sessions.append("a", [user(SECRET, { id: "m" }), user("other", { id: "m" })], {
      key: "failed",
    }),
  );
  const checks = [
    checkOf(...small),
    checkOf(...large),
    checkOf(user(SECRET, { id: "m" }), user("other", { id: "m" })),
  ];
  const before = await allMail(store, "a");
  expect(before.split(`:${keyOf("large")}"`).length).toBeGreaterThan(4);
  for (const text of [SECRET, checkOf(...plain), ...checks]) expect(before).toContain(text);

  expect(await hold.sessions.redact("a", SECRET, { dryRun: true })).toMatchObject({
    outside: true,
  });
  expect(await allMail(store, "a")).toBe(before);
  const { outside, left } = await hold.sessions.redact("a", SECRET, { waitMs: 5_000 });
  expect([outside, left.filter((one) => one.includes("messages"))]).toEqual([true, []]);
  const after = await allMail(store, "a");
  for (const text of [SECRET, Buffer.from(`a file: ${SECRET}`).toString("base64"), ...checks])
    expect(after).not.toContain(text);
  // What is taken for the same by now, and what is not.
  for (const messages of [small, [user("other")]])
    expect(await hold.sessions.append("a", messages, { key: "small" })).toMatchObject({
      taken: false,
    });
  expect(
    await errorOf(() => hold.sessions.append("a", [user("other")], { key: "plain" })),
  ).toMatchObject(coded("CONFLICT"));
  expect((await hold.sessions.redact("a", SECRET, { waitMs: 5_000 })).outside).toBe(false);

  expect(await hold.sessions.append("a", [answer])).toMatchObject({ taken: true });
  expect((await transcript(hold, "a")).slice(3)).toEqual([
    "small [redacted]",
    "plain",
    `[redacted] ${long}`,
    `${long}[redacted]`,
  ]);
  const { messages } = await hold.sessions.transcript("a", { format: "openai", files: "inline" });
  expect(JSON.stringify(messages)).toContain(Buffer.from("a file: [redacted]").toString("base64"));
  for (const other of [small, [user("other")]])
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
  "a message that waits is found by the id its sender gave it, on $name",
  async ({ address }) => {
    const hold = new Opened(await openStore(address()), thisMachine(), { now: Date.now }, 30_000);
    await waitingIn(hold, "a");
    await hold.sessions.append("a", [
      user("one", { id: "m1" }),
      user([{ type: "text", text: "two" }, file("three")], { id: "m2" }),
    ]);
    expect(await errorOf(() => hold.sessions.redact("a", { message: "m3" }))).toMatchObject(
      coded("NOT_FOUND"),
    );
    expect(await hold.sessions.redact("a", { message: "m2" })).toMatchObject({
      outside: true,
      records: 0,
    });
    await hold.sessions.append("a", [answer]);
    expect((await transcript(hold, "a")).slice(3)).toEqual(["one", "[redacted]"]);
    const { messages } = await hold.sessions.transcript("a", { format: "openai", files: "inline" });
    expect(JSON.stringify(messages)).not.toContain(Buffer.from("three").toString("base64"));
    await hold.close();
  },
);

test.each(stores)(
  "killed at any write, it is run again, and letters come once, on $name",
  async ({ address }) => {
    const at = address();
    const on = await Processes.on(at);
    const { hold } = on.start();
    let deaths = 0;
    for (const done of [false, true])
      for (let write = 1, isThrough = false; !isThrough; write++) {
        const id = `s${done}${write}`;
        await waitingIn(hold, id);
        await hold.sessions.append(id, [user(`one ${SECRET}`)], { key: "k" });
        const dying = on.start({ diesAt: { write, done }, countsPosts: true });
        // On a busy machine the look at the mail that an append begins may still hold the session.
        const redacting = { scrub: false, waitMs: 10_000 };
        const redacted = dying.hold.sessions.redact(id, SECRET, redacting).then(() => true);
        isThrough = await Promise.race([redacted, dying.died.then(() => false)]);
        dying.kill();
        if (!isThrough) deaths += 1;
        await on.start().hold.sessions.redact(id, SECRET, redacting);
        expect(await hold.sessions.append(id, [user(`one ${SECRET}`)], { key: "k" })).toMatchObject(
          { taken: false },
        );
        await hold.sessions.append(id, [answer]);
        expect((await transcript(hold, id)).slice(3)).toEqual(["one [redacted]"]);
        expect(write).toBeLessThan(20);
      }
    expect(deaths).toBeGreaterThanOrEqual(8);
    await on.close();
  },
);

test("a letter in whose place something else was appended does not come to stand for itself", () => {
  const bell = { kind: "append", check: "c", tag: "t", parts: 1, bytes: 9 } as const;
  const part = { kind: "append-part", no: 0, text: JSON.stringify([user(SECRET)]) } as const;
  const edits = (...keys: readonly string[]) =>
    new LetterEdits(
      new Map<string, MailDoc>([
        ["bell:k", bell],
        ["part:t:0:k", part],
        ...keys.map((key) => [key, { kind: "append-key", check: "c" }] as const),
      ]),
      whatOf(SECRET, "[redacted]"),
      0,
      () => {},
    );
  expect(edits()).toMatchObject({
    posted: [],
    reworded: [],
    drained: expect.arrayContaining(["bell:k", "part:t:0:k"]) as string[],
  });
  expect(edits("append:k")).toMatchObject({
    reworded: [{ id: "bell:k" }],
    drained: expect.arrayContaining(["append:k"]) as string[],
  });
  expect(edits("append:k").drained).not.toContain("bell:k");
});

test("parts that no bell speaks of: of one who may be about to ring nothing is said to be gone, and what was left long ago goes", () => {
  const now = Date.now();
  const part = { kind: "append-part", no: 0, text: JSON.stringify([user(SECRET)]) } as const;
  const ids = [newTag(now - 60_000), newTag(now - 2 * 3_600_000)].map(
    (tag) => `part:${tag}:0:k`,
  ) as [string, string];
  const edits = new LetterEdits(
    new Map(ids.map((id) => [id, part])),
    whatOf(SECRET, "[redacted]"),
    now,
    () => {},
  );
  expect(edits).toMatchObject({ isLeft: true, reworded: [{ id: ids[0] }], drained: [ids[1]] });
});

class Gate {
  open = (): void => {};
  readonly isOpen = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}

test("a redaction between the parts of a letter and its bell leaves no digest of what they said", async () => {
  const store = await openStore("memory:");
  const [ring, rung] = [new Gate(), new Gate()];
  const post: Store["inbox"]["post"] = async (session, mail) => {
    if (mail.id === bellLetter(keyOf("k"))) {
      ring.open();
      await rung.isOpen;
    }
    return store.inbox.post(session, mail);
  };
  const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
  const [hold, sender] = [made(store), made(wrapped(store, { inbox: { post } }))];
  await waitingIn(hold, "a");
  const sending = sender.sessions.append("a", [user(`pin ${SECRET}`)], { key: "k" });
  await ring.isOpen;
  expect((await hold.sessions.redact("a", SECRET)).left.join()).toContain("being sent");
  rung.open();
  expect(await sending).toMatchObject({ taken: false });
  await hold.sessions.append("a", [answer]);
  expect((await transcript(hold, "a")).slice(3)).toEqual(["pin [redacted]"]);
  // Whoever guesses what it was is not told so.
  const guess = (check: string) =>
    store.inbox.post("a", { id: keyLetter(keyOf("k")), text: keyText(check), due: 0 });
  expect(await guess(checkOf(user(`pin ${SECRET}`)))).toBe(await guess(checkOf(user("pin 1"))));
  await hold.close();
});
