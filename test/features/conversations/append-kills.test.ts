/** APPEND-1 under kills: whoever dies, and at whichever write, what is sent under a key is there once. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MAX_SEQ } from "../../../src/core/values/ids.js";
import {
  appendKeyId,
  HIDDEN,
  keyOf,
  openAppends,
} from "../../../src/engine/records/append-messages.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import { type Holdfast, HoldfastError, type MessageInput } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const some: readonly MessageInput[] = [
  { role: "user", content: "one" },
  {
    role: "user",
    content: [{ type: "file", mediaType: "a/b", data: { bytes: Uint8Array.from([1, 2]) } }],
  },
];
test("a text that no bell speaks of does not stay where its sender knows it", async () => {
  const store = await openStore("memory:");
  let fails = "";
  const post: Store["inbox"]["post"] = async (session, mail) => {
    if (fails !== "" && mail.id.startsWith(fails)) throw new HoldfastError("BUSY", "busy for now");
    return store.inbox.post(session, mail);
  };
  const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
  const [holder, hold] = [made(store), made(wrapped(store, { inbox: { post } }))];
  const session = await holder.session("a");
  const texts = async () =>
    (await store.inbox.list("a", { dueBy: HIDDEN, limit: 100 })).filter(({ id }) =>
      id.startsWith("text:"),
    );
  for (fails of ["bell:", "text:"])
    await expect(hold.sessions.append("a", some, { key: "k" })).rejects.toMatchObject({
      code: "BUSY",
    });
  expect(await texts()).toEqual([]);
  fails = "";
  expect(await hold.sessions.append("a", some, { key: "k" })).toMatchObject({ taken: false });
  expect(await texts()).toHaveLength(1);
  await session.close();
  expect(await texts()).toEqual([]);
  await hold.close();
});

test("a text of a letter that is damaged keeps nobody from its session", async () => {
  const store = await openStore("memory:");
  const inbox: Store["inbox"]["list"] = async (session, query) =>
    (await store.inbox.list(session, query)).map((mail) =>
      mail.id.startsWith("text:") ? { ...mail, text: `${mail.text.slice(0, -9)}~` } : mail,
    );
  const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
  const hold = made(wrapped(store, { inbox: { list: inbox } }));
  // A call is open: what comes must wait.
  const call: MessageInput = {
    role: "assistant",
    content: [{ type: "tool-call", callId: "c", name: "look", input: {} }],
  };
  const answer: MessageInput = {
    role: "tool",
    content: [{ type: "tool-result", callId: "c", outcome: "ok", output: 1 }],
  };
  await hold.sessions.append("a", [call], { create: true });
  expect(await hold.sessions.append("a", some, { key: "k" })).toMatchObject({ taken: false });
  expect(await hold.sessions.append("a", [answer])).toMatchObject({ taken: true });
  const session = await hold.session("a");
  expect(session.messages).toHaveLength(2);
  await session.close();
  expect((await hold.sessions.redact("a", "one")).left.join()).toContain("messages");
  await hold.close();
});

/** Every write that there is, before it and behind it. */
const MOST = 40;

test("APPEND-1: a store that is away for a moment while messages are taken in does not have them taken in twice", async () => {
  const store = await openStore("memory:");
  let fails = 0;
  const blob: Store["blob"] = async (name) => {
    if (fails-- > 0) throw new HoldfastError("UNREACHABLE", "away");
    return store.blob(name);
  };
  const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
  const [holder, hold] = [made(wrapped(store, { blob })), made(store)];
  const session = await holder.session("a");
  // It may be a file: that is asked for when it is saved.
  const looks = { type: "file", mediaType: "a/b", data: { digest: "A".repeat(43), sizeBytes: 1 } };
  await hold.sessions.append("a", [
    {
      role: "tool",
      content: [{ type: "tool-result", callId: "c", outcome: "ok", output: [looks] as never }],
    },
  ]);
  await sleep(250);
  fails = 1;
  await session.checkpoint();
  await expect.poll(() => session.messages.length).toBe(1);
  await sleep(20);
  expect([session.messages.length, fails]).toEqual([1, 0]);
  await session.checkpoint();
  await session.close();
  const again = await hold.session("a");
  expect(again.messages).toHaveLength(1);
  await hold.close();
});

test.each(["messages", "a signal"])(
  "APPEND-1: where the save that takes in %s fails for a passing reason, the next look does not take them in again",
  async (what) => {
    const store = await openStore("memory:");
    let fails = 0;
    const apply: Store["apply"] = async (changes, docs) => {
      if (changes.some(({ drained = [] }) => drained.length > 0) && fails-- > 0)
        throw new HoldfastError("BUSY", "busy for now");
      return store.apply(changes, docs);
    };
    const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
    const [holder, hold] = [made(wrapped(store, { apply })), made(store)];
    const session = await holder.session("a");
    fails = 2;
    if (what === "messages")
      expect(await hold.sessions.append("a", some, { key: "k" })).toMatchObject({ taken: false });
    else await hold.sessions.signal("a", "news", 1, { key: "k" });
    // Whatever is posted in the same process is a reason to look.
    for (let i = 0; i < 5; i++) await holder.sessions.signal("a", "look", i).then(() => sleep(10));
    expect(fails).toBeLessThanOrEqual(0);
    await session.checkpoint();
    await session.close();
    const again = await hold.session("a");
    expect(again.messages).toHaveLength(what === "messages" ? some.length : 0);
    const query = { from: 1, to: MAX_SEQ, limit: 1_000, items: false, state: true };
    const saves = (
      await Promise.all(
        (
          await store.branches({ kind: "session", session: "a" })
        ).map(({ id }) => store.saves(id, query)),
      )
    ).flat();
    expect(saves.filter(({ state }) => state?.includes("news"))).toHaveLength(
      what === "messages" ? 0 : 1,
    );
    await again.close();
    await hold.close();
  },
);

test("APPEND-1: a letter that comes while the same is appended without one, and is looked at just then, does not have it appended twice", async () => {
  const store = await openStore("memory:");
  const made = (on: Store): Holdfast => new Opened(on, thisMachine(), { now: Date.now }, 30_000);
  const other = made(store);
  await (await other.session("a")).close();
  let posts = 0;
  const post: Store["inbox"]["post"] = async (session, mail) => {
    const posted = await store.inbox.post(session, mail);
    // It holds the session, and is about to append.
    if (mail.id === appendKeyId(keyOf("k")) && ++posts === 3) {
      expect(await other.sessions.append("a", some, { key: "k" })).toMatchObject({ taken: false });
      // A look at the mail is what a signal brings about.
      await hold.sessions.signal("a", "look", 1);
    }
    return posted;
  };
  const hold = made(wrapped(store, { inbox: { post } }));
  expect(await hold.sessions.append("a", some, { key: "k" })).toEqual({ count: 2, taken: true });
  expect(posts).toBeGreaterThanOrEqual(3);
  const session = await other.session("a", { waitMs: 5_000 });
  expect(session.messages).toHaveLength(2);
  await session.close();
  expect(await store.inbox.list("a", { dueBy: Number.MAX_SAFE_INTEGER, limit: 10 })).toEqual([]);
  await hold.close();
});

describe.each(stores)("append under kills on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  const texts = async (hold: Holdfast, id: string): Promise<number> => {
    const session = await hold.session(id, { waitMs: 5_000 });
    await session.close();
    return session.messages.length;
  };

  /**
   * Runs `act` in a process that dies at its first write, its second, and so on, until it gets
   * through. Answers how often it died.
   */
  const atEachWrite = async (
    act: (hold: Holdfast, id: string, at: number) => Promise<unknown>,
    check: (id: string) => Promise<void>,
  ) => {
    let deaths = 0;
    for (const done of [false, true]) {
      for (let write = 1; write < MOST; write++) {
        const id = `s${done}${write}`;
        await (await on.start().hold.session(id)).close();
        const dying = on.start({ diesAt: { write, done }, countsPosts: true });
        const acted = act(dying.hold, id, write).then(() => true);
        acted.catch(() => {});
        const isThrough = await Promise.race([acted, dying.died.then(() => false)]);
        if (!isThrough) deaths += 1;
        dying.kill();
        await check(id);
        if (isThrough) break;
        expect(write).toBeLessThan(MOST - 1);
      }
    }
    return deaths;
  };

  test("of who appends to a session that nobody holds", async () => {
    const { hold } = on.start();
    const deaths = await atEachWrite(
      (dying, id) => dying.sessions.append(id, some, { key: "k" }),
      async (id) => {
        expect(await hold.sessions.append(id, some, { key: "k" })).toEqual({
          count: 2,
          taken: true,
        });
        expect(await texts(hold, id)).toBe(2);
      },
    );
    expect(deaths).toBeGreaterThanOrEqual(6);
  });

  test("a control: without a key, whoever sends again after a kill appends again", async () => {
    const { hold } = on.start();
    const counts: number[] = [];
    await atEachWrite(
      (dying, id) => dying.sessions.append(id, some),
      async (id) => {
        await hold.sessions.append(id, some);
        counts.push(await texts(hold, id));
      },
    );
    expect(counts).toContain(4);
  });

  test("of who sends to a session that another holds", async () => {
    const { hold } = on.start();
    const held = new Map<string, Awaited<ReturnType<Holdfast["session"]>>>();
    const deaths = await atEachWrite(
      async (dying, id) => {
        held.set(id, await hold.session(id));
        await dying.sessions.append(id, some, { key: "k" });
      },
      async (id) => {
        await on.start().hold.sessions.append(id, some, { key: "k" });
        await held.get(id)?.close();
        expect(await texts(hold, id)).toBe(2);
        expect(await hold.sessions.append(id, some, { key: "k" })).toEqual({
          count: 2,
          taken: true,
        });
      },
    );
    expect(deaths).toBeGreaterThanOrEqual(6);
  });

  test("of who sends: under its key something else may be sent, unless it was sent by then", async () => {
    const { hold } = on.start();
    const other: readonly MessageInput[] = [{ role: "user", content: "other" }];
    const counts: number[] = [];
    for (const isHeld of [false, true]) {
      const held = new Map<string, Awaited<ReturnType<Holdfast["session"]>>>();
      await atEachWrite(
        async (dying, at) => {
          const id = `${at}${isHeld}`;
          await (await hold.session(id)).close();
          if (isHeld) held.set(id, await hold.session(id));
          await dying.sessions.append(id, some, { key: "k" });
        },
        async (at) => {
          const id = `${at}${isHeld}`;
          const answers: unknown[] = [];
          for (const messages of [other, some, other])
            answers.push(
              await on
                .start()
                .hold.sessions.append(id, messages, { key: "k" })
                .then(
                  ({ count }) => count,
                  ({ code }) => code,
                ),
            );
          await held.get(id)?.close();
          const count = await texts(hold, id);
          expect(answers).toEqual(count === 2 ? ["CONFLICT", 2, "CONFLICT"] : [1, "CONFLICT", 1]);
          expect(await hold.sessions.append(id, count === 2 ? some : other, { key: "k" })).toEqual({
            count,
            taken: true,
          });
          counts.push(count);
        },
      );
    }
    // Killed early it has left the key to others, killed late it has not.
    for (const count of [1, 2])
      expect(counts.filter((one) => one === count).length).toBeGreaterThanOrEqual(4);
  });

  test("of who takes it in", async () => {
    const { hold } = on.start();
    const deaths = await atEachWrite(
      async (dying, id) => {
        const session = await dying.session(id);
        await hold.sessions.append(id, some, { key: "k" });
        await session.close();
      },
      async (id) => {
        expect(await texts(hold, id)).toBeLessThanOrEqual(2);
        await hold.sessions.append(id, some, { key: "k" });
        expect(await texts(hold, id)).toBe(2);
      },
    );
    expect(deaths).toBeGreaterThanOrEqual(4);
  });

  test("a letter whose messages were appended in another way meanwhile holds nothing", async () => {
    const { hold } = on.start();
    const session = await on.start().hold.session("a");
    await hold.sessions.append("a", some, { key: "k" });
    const letter = {
      id: "bell:k",
      doc: { kind: "append", check: "", tag: "t", bytes: 9 },
    } as const;
    const store = (inbox: readonly string[]) =>
      ({
        inbox: {
          list: async (_: string, { ids }: { ids: readonly string[] }) =>
            inbox.filter((id) => ids.includes(id)).map((id) => ({ id, text: "", due: 0 })),
        },
      }) as never;
    expect((await openAppends(store([]), "a" as never, [letter])).get("bell:k")?.messages).toEqual(
      [],
    );
    // Still to be taken in, and not whole: it waits.
    expect((await openAppends(store(["append:k"]), "a" as never, [letter])).size).toBe(0);
    await session.close();
    expect(await texts(hold, "a")).toBe(2);
  });
});
