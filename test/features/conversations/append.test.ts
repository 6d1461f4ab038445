/** Appending to a session from outside a run: APPEND-1 to APPEND-4. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HIDDEN } from "../../../src/engine/records/append-messages.js";
import { waitingLimits } from "../../../src/features/conversations/append.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, type MessageInput, textOf } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

/** The texts of a session, as whoever opens it finds them. */
const said = async (hold: Holdfast, id: string): Promise<string[]> => {
  const session = await hold.session(id, { waitMs: 5_000 });
  await session.close();
  return session.messages.map(short);
};

const short = (message: MessageInput): string => {
  const parts = typeof message.content === "string" ? [] : message.content;
  const kinds = parts.flatMap((part) =>
    "callId" in part ? [`${part.type} ${part.callId}`] : part.type === "text" ? [] : [part.type],
  );
  return [message.role, textOf(message), ...kinds].filter((word) => word !== "").join(" ");
};

const user = (content: string, more?: Partial<MessageInput>): MessageInput => ({
  role: "user",
  content,
  ...more,
});

describe.each(stores)("append on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  const epochOf = async (hold: Holdfast, id: string): Promise<number> => {
    const session = await hold.session(id, { waitMs: 5_000 });
    await session.close();
    return session.epoch;
  };

  test("APPEND-4: a session that is completed stays so, with more in its transcript, and can be forked there", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script("hello") });
    await bot.run("a", "hi", { key: "k" });
    const before = await hold.checkpoints.latest("a");
    expect(
      await hold.sessions.append("a", [user("one"), { role: "assistant", content: "two" }]),
    ).toEqual({ count: 2, taken: true });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "completed", title: "hi" });
    expect(await said(hold, "a")).toEqual([
      "user hi",
      "assistant hello",
      "user one",
      "assistant two",
    ]);
    const after = await hold.checkpoints.latest("a");
    expect(after).toMatchObject({ messageCount: 4, status: "completed", step: before?.step });
    expect((await hold.checkpoints.state(after?.id as string)).messages).toHaveLength(4);
    // The turn is what it was, and the next one sees what was said.
    expect(await bot.run("a", "hi", { key: "k" })).toMatchObject({
      status: "completed",
      replayed: true,
      output: "hello",
    });
    await bot.run("a", "more", { key: "l" });
    expect(await said(hold, "a")).toEqual([
      "user hi",
      "assistant hello",
      "user one",
      "assistant two",
      "user more",
      "assistant done",
    ]);
  });

  test("makes no session unless it is asked to; what it is given then is the session's", async () => {
    const { hold } = on.start();
    expect(await errorOf(() => hold.sessions.append("a", [user("x")]))).toMatchObject(
      coded("NOT_FOUND"),
    );
    expect(
      await errorOf(() => hold.sessions.append("a", [user("x")], { title: "T" })),
    ).toMatchObject(coded("INVALID_OPTION"));
    expect(await hold.sessions.get("a")).toBeUndefined();
    const o = { create: true, agent: "bot", title: "T", tags: ["x"], metadata: { a: 1 }, key: "k" };
    expect(await hold.sessions.append("a", [user("x")], o)).toEqual({ count: 1, taken: true });
    expect(await hold.sessions.append("a", [user("x")], o)).toEqual({ count: 1, taken: true });
    expect(await hold.sessions.get("a")).toMatchObject({
      agent: "bot",
      title: "T",
      tags: ["x"],
      metadata: { a: 1 },
      status: "in-progress",
    });
    expect(await said(hold, "a")).toEqual(["user x"]);
    expect(
      await errorOf(() => hold.sessions.append("a", [user("y")], { create: true, agent: "other" })),
    ).toMatchObject(coded("CONFLICT"));
    expect(await hold.sessions.append("a", [])).toEqual({ count: 0, taken: true });
  });

  test("APPEND-1: one key is one call, also when what it appended is gone from the transcript; without one, each call appends", async () => {
    const { hold } = on.start();
    await hold.sessions.append("a", [user("x")], { create: true, key: "k" });
    const session = await hold.session("a");
    session.splice("messages", 0, 1, { role: "system", content: "shortened" });
    await session.checkpoint();
    await session.close();
    expect(await hold.sessions.append("a", [user("x")], { key: "k" })).toEqual({
      count: 1,
      taken: true,
    });
    expect(await errorOf(() => hold.sessions.append("a", [user("y")], { key: "k" }))).toMatchObject(
      coded("CONFLICT"),
    );
    expect(
      await errorOf(() => hold.sessions.append("a", [user("x"), user("x")], { key: "k" })),
    ).toMatchObject(coded("CONFLICT"));
    expect(await said(hold, "a")).toEqual(["system shortened"]);
    for (let i = 0; i < 2; i++) await hold.sessions.append("a", [user("y")]);
    expect(await said(hold, "a")).toEqual(["system shortened", "user y", "user y"]);
    // Many at once, from several processes: one of them does it.
    const others = Array.from({ length: 6 }, () => on.start().hold);
    await Promise.all(others.map((other) => other.sessions.append("a", [user("z")], { key: "z" })));
    expect((await said(hold, "a")).filter((branch) => branch === "user z")).toHaveLength(1);
  });

  test("APPEND-1: a call that fails leaves its key to others, and one that is refused for its key is told which it was", async () => {
    const { hold } = on.start();
    await hold.sessions.append("a", [user("x", { id: "m1" })], { create: true });
    const wrong = [user("y", { id: "m1" })];
    for (const key of ["free", "held"]) {
      const session = key === "held" ? await on.start().hold.session("a") : undefined;
      for (let i = 0; i < 2; i++)
        expect(await errorOf(() => hold.sessions.append("a", wrong, { key }))).toMatchObject(
          coded("CONFLICT"),
        );
      expect(await hold.sessions.append("a", [user(key)], { key })).toEqual({
        count: 1,
        taken: key === "free",
      });
      // As long as it waits, and once it was taken in.
      for (let i = 0; i < 2; i++) {
        const error = await errorOf(() => hold.sessions.append("a", wrong, { key }));
        expect(error).toMatchObject({
          code: "CONFLICT",
          message: expect.stringContaining(`under the key "${key}"`) as string,
        });
        await session?.close();
      }
      expect(await hold.sessions.append("a", [user(key)], { key })).toEqual({
        count: 1,
        taken: true,
      });
    }
    expect(await said(hold, "a")).toEqual(["user x", "user free", "user held"]);
  });

  test("APPEND-1: a message whose id is known is passed over; the same id with other words is a CONFLICT, and nothing is written", async () => {
    const { hold } = on.start();
    await hold.sessions.append("a", [user("x", { id: "m1" })], { create: true });
    await hold.sessions.append("a", [user("x", { id: "m1" }), user("y", { id: "m2" })]);
    expect(await said(hold, "a")).toEqual(["user x", "user y"]);
    for (const wrong of [
      [user("new"), user("z", { id: "m1" })],
      [user("u", { id: "m3" }), user("v", { id: "m3" })],
    ])
      expect(await errorOf(() => hold.sessions.append("a", wrong))).toMatchObject(
        coded("CONFLICT"),
      );
    expect(await said(hold, "a")).toEqual(["user x", "user y"]);
    // To whom it is held by, too: nobody would hear of it there.
    const session = await on.start().hold.session("a");
    expect(await errorOf(() => hold.sessions.append("a", [user("z", { id: "m1" })]))).toMatchObject(
      coded("CONFLICT"),
    );
    await session.close();
  });

  test("APPEND-2: where another holds the session it takes them in between its steps, all at once", async () => {
    const holder = on.start({ leaseMs: 600 }).hold;
    const { hold } = on.start();
    const session = await holder.session("a");
    session.append(user("mine"));
    await session.checkpoint();
    expect(await hold.sessions.append("a", [user("one"), user("two")], { key: "k" })).toEqual({
      count: 2,
      taken: false,
    });
    expect(await hold.sessions.append("a", [user("one"), user("two")], { key: "k" })).toMatchObject(
      { count: 2 },
    );
    await expect.poll(() => session.messages.length).toBe(3);
    expect(session.messages.map(short)).toEqual(["user mine", "user one", "user two"]);
    expect(await hold.sessions.append("a", [user("one"), user("two")], { key: "k" })).toEqual({
      count: 2,
      taken: true,
    });
    // What it has staged is not saved by somebody else's letter; at the latest it is taken in when
    // the session is let go of.
    session.append(user("staged"));
    expect(await hold.sessions.append("a", [user("three")])).toMatchObject({ taken: false });
    await sleep(300);
    expect(session.messages.map(short)).toEqual([
      "user mine",
      "user one",
      "user two",
      "user staged",
    ]);
    await session.checkpoint();
    await session.close();
    expect(await said(hold, "a")).toEqual([
      "user mine",
      "user one",
      "user two",
      "user staged",
      "user three",
    ]);
  });

  test("a letter to a holder that died is not lost: whoever opens the session next takes it in", async () => {
    const holder = on.start();
    const { hold } = on.start();
    await holder.hold.session("a");
    // Nobody can see yet that it is dead.
    holder.lose();
    expect(await hold.sessions.append("a", [user("one")], { key: "k" })).toMatchObject({
      taken: false,
    });
    holder.kill();
    expect(await said(on.start({ steals: true }).hold, "a")).toEqual(["user one"]);
    expect(await hold.sessions.append("a", [user("one")], { key: "k" })).toEqual({
      count: 1,
      taken: true,
    });
  });

  test("files come along, with their bytes or by their name, whether somebody holds the session or not", async () => {
    const { hold } = on.start();
    const bytes = Uint8Array.from([1, 2, 3]);
    const file = (data: object): MessageInput => ({
      role: "user",
      content: [{ type: "file", mediaType: "image/png", data: data as never }],
    });
    const shown: MessageInput = {
      role: "tool",
      content: [
        {
          type: "tool-result",
          callId: "c",
          outcome: "ok",
          output: [{ type: "file", mediaType: "a/b", data: { bytes: Uint8Array.from([9]) } }],
        },
      ],
    };
    const nowhere = { digest: "A".repeat(43), sizeBytes: 3 };
    await hold.sessions.append("a", [file({ bytes }), shown], { create: true });
    const session = await on.start().hold.session("a");
    const stored = (
      session.messages[0] as unknown as {
        content: [{ data: { digest: string; sizeBytes: number } }];
      }
    ).content[0].data;
    expect(stored).toMatchObject({ sizeBytes: 3 });
    const mine = Uint8Array.from([4, 5]);
    const sending = hold.sessions.append("a", [file({ bytes: mine }), file(stored), shown]);
    // What the caller does with its buffer meanwhile is its own business.
    mine.fill(0);
    expect(await sending).toMatchObject({ taken: false });
    expect(await errorOf(() => hold.sessions.append("a", [file(nowhere)]))).toMatchObject(
      coded("INVALID_VALUE"),
    );
    await session.close();
    expect(await errorOf(() => hold.sessions.append("a", [file(nowhere)]))).toMatchObject(
      coded("INVALID_VALUE"),
    );
    const { messages } = await hold.sessions.transcript("a", { format: "openai", files: "inline" });
    const url = (base64: string) => ({
      role: "user",
      content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } }],
    });
    expect(messages).toEqual([url("AQID"), url("BAU="), url("AQID")]);
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("much is one letter, and one save", async () => {
    const { hold } = on.start();
    await hold.sessions.append("a", [user("first")], { create: true });
    const session = await on.start().hold.session("a");
    const much = Array.from({ length: 3 }, (_, i) => user(`${i}${"🪸é".repeat(500_000)}`));
    expect(await hold.sessions.append("a", much, { key: "k" })).toMatchObject({ taken: false });
    await session.close();
    expect(await hold.sessions.append("a", much, { key: "k" })).toEqual({ count: 3, taken: true });
    const again = await hold.session("a");
    expect(again.messages.slice(1).map(({ content }) => content)).toEqual(
      much.map(({ content }) => content),
    );
    await again.close();
    expect((await hold.checkpoints.list("a")).items[0]).toMatchObject({ messageCount: 4 });
  });

  // ---- while an agent is at work

  test("APPEND-3: while a tool runs a letter waits, and the model is told of it as soon as all is answered", async () => {
    const { hold } = on.start();
    const inside = door();
    const out = door();
    const model = script(asks(["look", {}], ["look", {}]), "done");
    const bot = hold.agent({
      name: "bot",
      model,
      tools: { look: { mode: "once", run: async () => (inside.open(), await out.opened, "seen") } },
    });
    const running = bot.run("a", "go");
    await inside.opened;
    const other = on.start().hold;
    expect(await other.sessions.append("a", [user("one")])).toMatchObject({ taken: false });
    expect(await hold.sessions.append("a", [user("two")])).toMatchObject({ taken: false });
    out.open();
    expect(await running).toMatchObject({ status: "completed" });
    expect(await said(hold, "a")).toEqual([
      "user go",
      "assistant tool-call look-0 tool-call look-1",
      "tool tool-result look-0",
      "tool tool-result look-1",
      "user one",
      "user two",
      "assistant done",
    ]);
    expect(model.requests[1]?.messages.map(short).slice(-2)).toEqual(["user one", "user two"]);
  });

  test("APPEND-3: while a model is asked a letter waits; behind its last words it is taken in, and begins no turn", async () => {
    const { hold } = on.start();
    const asked = door();
    const answer = door();
    const model = script(async () => (asked.open(), await answer.opened, "done"));
    const running = hold.agent({ name: "bot", model }).run("a", "go");
    await asked.opened;
    expect(await hold.sessions.append("a", [user("one")])).toMatchObject({ taken: false });
    answer.open();
    expect(await running).toMatchObject({ status: "completed", output: "done" });
    expect(await said(hold, "a")).toEqual(["user go", "assistant done", "user one"]);
    expect(model.requests).toHaveLength(1);
    expect(await hold.sessions.get("a")).toMatchObject({ status: "completed" });
  });

  test("APPEND-3, APPEND-4: in a session that waits for somebody it waits too, wakes nobody, and comes behind the answer", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}])),
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    const waiting = await bot.run("a", "go");
    const { hold: other } = on.start();
    const worker = other.worker({
      agents: [other.agent({ name: "bot", model: script() })],
      pollMs: 10,
      onSigterm: false,
    });
    await worker.start();
    expect(await other.sessions.append("a", [user("one")], { key: "k" })).toEqual({
      count: 1,
      taken: false,
    });
    const before = await epochOf(other, "a");
    await sleep(300);
    // One for this look itself: nobody else has opened it meanwhile.
    expect(await epochOf(other, "a")).toBe(before + 1);
    expect(worker.stats()).toMatchObject({ ran: 0, failed: 0 });
    await worker.stop();
    expect(await hold.sessions.get("a")).toMatchObject({ status: "waiting" });
    const [pending] = waiting.status === "waiting" ? waiting.pending : [];
    await hold.effects.approve(pending?.effectId as string);
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect((await said(hold, "a")).slice(1)).toEqual([
      "assistant tool-call pay-0",
      "tool tool-result pay-0",
      "user one",
      "assistant done",
    ]);
  });

  test("APPEND-3: behind a run that was halted with calls open it waits, without end to nobody, and comes with the next turn", async () => {
    const { hold } = on.start();
    const calls = Array.from({ length: 3 }, () => asks(["look", { at: 1 }]));
    const bot = hold.agent({
      name: "bot",
      model: script(...calls, "done"),
      tools: { look: { mode: "repeatable", run: () => "seen" } },
    });
    expect(await bot.run("a", "go", { limits: { repeats: 3 } })).toMatchObject({
      status: "halted",
    });
    expect(await hold.sessions.append("a", [user("one")])).toMatchObject({ taken: false });
    const worker = hold.worker({ agents: [bot], pollMs: 10, onSigterm: false });
    await worker.start();
    const before = await epochOf(hold, "a");
    await sleep(200);
    expect(await epochOf(hold, "a")).toBe(before + 1);
    await worker.stop();
    expect((await said(hold, "a")).at(-1)).toBe("assistant tool-call look-0");
    await bot.run("a", "again");
    expect((await said(hold, "a")).slice(-4)).toEqual([
      "tool tool-result look-0",
      "user again",
      "user one",
      "assistant done",
    ]);
  });

  test("an agent at work does not make calls that came from outside", async () => {
    const { hold } = on.start();
    const inside = door();
    const out = door();
    const made: unknown[] = [];
    const look = {
      mode: "repeatable",
      run: async (at: unknown) => (made.push(at), inside.open(), await out.opened, "seen"),
    } as const;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["look", {}]), "done"),
      tools: { look },
    });
    const running = bot.run("a", "go");
    await inside.opened;
    const call: MessageInput = {
      role: "assistant",
      content: [{ type: "tool-call", callId: "c", name: "look", input: { from: "outside" } }],
    };
    await hold.sessions.append("a", [user("one"), call]);
    out.open();
    await running;
    expect(made).toEqual([{}]);
    expect((await said(hold, "a")).slice(-3)).toEqual([
      "assistant done",
      "user one",
      "assistant tool-call c",
    ]);
  });

  test("calls that came from outside are answered from there, and by nothing else", async () => {
    const { hold } = on.start();
    const call = (...ids: string[]): MessageInput => ({
      role: "assistant",
      content: ids.map((callId) => ({ type: "tool-call", callId, name: "look", input: {} })),
    });
    const answer = (callId: string): MessageInput => ({
      role: "tool",
      content: [{ type: "tool-result", callId, outcome: "ok", output: 1 }],
    });
    await hold.sessions.append("a", [user("go"), call("c1"), call("c2", "c3")], { create: true });
    expect(await hold.sessions.append("a", [user("between")])).toMatchObject({ taken: false });
    expect(await hold.sessions.append("a", [answer("c9")])).toMatchObject({ taken: false });
    expect(await hold.sessions.append("a", [answer("c1"), user("between")])).toMatchObject({
      taken: false,
    });
    expect(await hold.sessions.append("a", [answer("c3")])).toMatchObject({ taken: true });
    expect(
      await hold.sessions.append("a", [answer("c2"), answer("c1"), user("then")]),
    ).toMatchObject({ taken: true });
    expect((await said(hold, "a")).slice(3)).toEqual([
      "tool tool-result c3",
      "tool tool-result c2",
      "tool tool-result c1",
      "user then",
      "user between",
      "tool tool-result c9",
      "tool tool-result c1",
      "user between",
    ]);
  });
});

describe("limits, which are above all stores", () => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on("memory:");
  });
  afterEach(() => on.close());

  test("past its limits it is refused, and nothing is sent", async () => {
    const { hold } = on.start();
    await (await hold.session("a")).close();
    const large: MessageInput = {
      role: "user",
      content: [
        { type: "file", mediaType: "a/b", data: { bytes: new Uint8Array(65 * 1024 * 1024) } },
      ],
    };
    expect(await errorOf(() => hold.sessions.append("a", [large]))).toMatchObject(
      coded("TOO_LARGE"),
    );
    expect(
      await errorOf(() =>
        hold.sessions.append(
          "a",
          Array.from({ length: 10_001 }, () => user("x")),
        ),
      ),
    ).toMatchObject(coded("TOO_LARGE"));
    for (const wrong of [
      "x",
      null,
      {},
      { role: "user", content: "x" },
      [{ role: "nobody", content: "x" }],
      [null],
    ])
      expect(await errorOf(() => hold.sessions.append("a", wrong as never))).toMatchObject(
        coded("INVALID_VALUE"),
      );
    expect(
      await errorOf(() => hold.sessions.append("a", [user("x")], { kee: "k" } as never)),
    ).toMatchObject(coded("INVALID_OPTION"));
    expect(await errorOf(() => hold.sessions.append("a", [user("x")], { key: "" }))).toMatchObject(
      coded("INVALID_ID"),
    );
    expect(await said(hold, "a")).toEqual([]);
  });

  test("not more than a hundred calls wait", async () => {
    const { hold } = on.start();
    const session = await on.start().hold.session("a");
    for (let i = 0; i < 100; i++)
      expect(await hold.sessions.append("a", [user(`${i}`)])).toMatchObject({ taken: false });
    expect(await errorOf(() => hold.sessions.append("a", [user("x")], { key: "k" }))).toMatchObject(
      coded("TOO_LARGE"),
    );
    await session.close();
    expect(await said(hold, "a")).toEqual(Array.from({ length: 100 }, (_, i) => `user ${i}`));
    // That it was refused uses up no key.
    expect(await hold.sessions.append("a", [user("y")], { key: "k" })).toEqual({
      count: 1,
      taken: true,
    });
  });

  test("not more than so many bytes wait", async () => {
    const { hold } = on.start();
    const session = await on.start().hold.session("a");
    const { bytes } = waitingLimits;
    waitingLimits.bytes = 1_000;
    try {
      expect(await hold.sessions.append("a", [user("é".repeat(200))])).toMatchObject({
        taken: false,
      });
      expect(
        await errorOf(() => hold.sessions.append("a", [user("é".repeat(300))], { key: "k" })),
      ).toMatchObject({
        code: "TOO_LARGE",
        message: expect.stringContaining("more than 1000 bytes") as string,
      });
      expect(await hold.sessions.append("a", [user("é".repeat(200))], { key: "k" })).toMatchObject({
        taken: false,
      });
      await session.close();
      expect(await hold.sessions.append("a", [user("é".repeat(300))])).toMatchObject({
        taken: true,
      });
      expect(await said(hold, "a")).toHaveLength(3);
    } finally {
      waitingLimits.bytes = bytes;
    }
  });

  test("a letter is found, and told to be taken in, however much else waits; and none of that is read for it", async () => {
    const store = await openStore("memory:");
    const reads: number[] = [];
    const inbox: Store["inbox"]["list"] = async (id, query) => {
      const mail = await store.inbox.list(id, query);
      reads.push(mail.length);
      return mail;
    };
    const hold = new Opened(
      wrapped(store, { inbox: { list: inbox } }),
      thisMachine(),
      { now: Date.now },
      30_000,
    );
    const session = await new Opened(store, thisMachine(), { now: Date.now }, 30_000).session("a");
    for (let i = 0; i < 10_001; i++)
      await store.inbox.post("a", { id: `append:${i}`, text: "never read", due: HIDDEN });
    for (const taken of [false, true]) {
      expect(await hold.sessions.append("a", [user("one")], { key: "k" })).toEqual({
        count: 1,
        taken,
      });
      await session.close();
    }
    expect(await said(hold, "a")).toEqual(["user one"]);
    expect(Math.max(...reads)).toBeLessThan(5);
    await hold.close();
  });
});
