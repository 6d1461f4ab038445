/** E1 under kills: whoever dies, and at whichever write, what is sent under a key is there once. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, MessageInput } from "../../src/index.js";
import { openLetters } from "../../src/runtime/letters.js";
import { Processes } from "../support/processes.js";
import { stores } from "../support/stores.js";

const some: readonly MessageInput[] = [
  { role: "user", content: "one" },
  { role: "user", content: [{ type: "file", mediaType: "a/b", data: { bytes: Uint8Array.from([1, 2]) } }] },
];
/** Every write that there is, before it and behind it. */
const MOST = 40;

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

  /** Runs `act` in a process that dies at its first write, its second, and so on, until it gets through. Answers how often it died. */
  const atEachWrite = async (act: (hold: Holdfast, id: string, at: number) => Promise<unknown>, check: (id: string) => Promise<void>) => {
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
        expect(await hold.sessions.append(id, some, { key: "k" })).toEqual({ count: 2, taken: true });
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
        expect(await hold.sessions.append(id, some, { key: "k" })).toEqual({ count: 2, taken: true });
      },
    );
    expect(deaths).toBeGreaterThanOrEqual(6);
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
    const letter = { id: "bell:k", doc: { kind: "append", check: "", parts: 1 } } as const;
    const store = (inbox: readonly string[]) => ({ inbox: async () => inbox.map((id) => ({ id, text: "", due: 0 })) }) as never;
    expect((await openLetters(store([]), "a" as never, [letter])).get("bell:k")?.messages).toEqual([]);
    // Still to be taken in, and not whole: it waits.
    expect((await openLetters(store(["append:k"]), "a" as never, [letter])).size).toBe(0);
    await session.close();
    expect(await texts(hold, "a")).toBe(2);
  });
});
