/**
 * Calls of a session by hand: what is made, what is answered from the record, and what nobody may
 * make again.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NotDone } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { coded, door, Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const quick = { attempts: 3, backoffMs: 1 };

describe.each(stores)("effects by hand on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  test.each(["repeatable", "keyed", "once"] as const)(
    "a %s call is made once under its key, also by the next process",
    async (mode) => {
      const first = on.start();
      let made = 0;
      const pay = async ({ order }: { order: number }) => ({ order, paid: ++made });
      const session = await first.hold.session("a");
      const answer = await session.effect("pay", { order: 42 }, { mode, key: "pay:42" }, pay);
      expect(answer).toEqual({ order: 42, paid: 1 });
      expect(await session.effect("pay", { order: 42 }, { mode, key: "pay:42" }, pay)).toEqual(
        answer,
      );
      await session.checkpoint();
      first.kill();
      const again = await on.start().hold.session("a");
      expect(await again.effect("pay", { order: 42 }, { mode, key: "pay:42" }, pay)).toEqual(
        answer,
      );
      expect(made).toBe(1);
    },
  );

  test.each(["keyed", "once"] as const)(
    "what a %s call answered is durable when it resolves, without a checkpoint",
    async (mode) => {
      const first = on.start();
      const session = await first.hold.session("a");
      await session.effect("pay", {}, { mode, key: "k" }, async () => "paid");
      first.kill();
      const again = await on.start().hold.session("a");
      expect(
        await again.effect("pay", {}, { mode, key: "k" }, () => expect.fail("made twice")),
      ).toBe("paid");
    },
  );

  test("a call that acts needs a key of the caller's; a repeatable one does not", async () => {
    const session = await on.start().hold.session("a");
    const pay = async () => 1;
    for (const mode of ["keyed", "once"] as const)
      await expect(session.effect("pay", {}, { mode } as never, pay)).rejects.toMatchObject(
        coded("INVALID_OPTION"),
      );
    await expect(session.effect("pay", {}, { mode: "twice" } as never, pay)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    await expect(session.effect("pay", {}, {} as never, pay)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
    expect(await session.effect("pay", {}, { mode: "repeatable" }, pay)).toBe(1);
  });

  test("the same key with another input is a CONFLICT, and the order of properties is no difference", async () => {
    const session = await on.start().hold.session("a");
    const o = { mode: "keyed", key: "k" } as const;
    await session.effect("pay", { order: 1, sum: 2 }, o, async () => "paid");
    await expect(
      session.effect("pay", { order: 1, sum: 3 }, o, async () => "paid"),
    ).rejects.toMatchObject(coded("CONFLICT"));
    expect(
      await session.effect("pay", { sum: 2, order: 1 }, o, () => expect.fail("made twice")),
    ).toBe("paid");
    // Another effect may use the same words.
    expect(await session.effect("ship", { order: 1 }, o, async () => "shipped")).toBe("shipped");
  });

  test("every attempt is given the same key, in the shape of a UUID, and the next process the same again", async () => {
    const keys: string[] = [];
    const first = on.start();
    const session = await first.hold.session("a");
    const inside = door();
    let tries = 0;
    void session.effect(
      "pay",
      {},
      { mode: "keyed", key: "k", retry: quick },
      async (_input, { key }) => {
        keys.push(key);
        tries += 1;
        if (tries < 3) throw new Error("connection reset");
        inside.open();
        return new Promise<string>(() => {});
      },
    );
    await inside.opened;
    first.kill();
    const again = await on.start().hold.session("a");
    const answer = await again.effect(
      "pay",
      {},
      { mode: "keyed", key: "k" },
      async (_input, { key }) => {
        keys.push(key);
        return "paid";
      },
    );
    expect(answer).toBe("paid");
    expect(keys).toHaveLength(4);
    expect(new Set(keys).size).toBe(1);
    expect(keys[0]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
  });

  test("NotDone is a failure that is known: the call may be made anew, with another input too", async () => {
    const session = await on.start().hold.session("a");
    const o = { mode: "once", key: "k" } as const;
    const refused = await errorOf(() =>
      session.effect("pay", { sum: 1 }, o, async () => {
        throw new NotDone("no money");
      }),
    );
    expect(refused).toBeInstanceOf(NotDone);
    expect(refused).toMatchObject({ message: "no money" });
    expect(session.status).toBe("in-progress");
    expect(await session.effect("pay", { sum: 1 }, o, async () => "paid")).toBe("paid");
    const other = { mode: "once", key: "k2" } as const;
    await errorOf(() =>
      session.effect("pay", { sum: 1 }, other, () => Promise.reject(new NotDone("no money"))),
    );
    expect(await session.effect("pay", { sum: 2 }, other, async () => "paid less")).toBe(
      "paid less",
    );
  });

  test("NotDone is retried as often as was said, whatever the mode", async () => {
    const session = await on.start().hold.session("a");
    for (const mode of ["repeatable", "keyed", "once"] as const) {
      let made = 0;
      const answer = await session.effect(
        "pay",
        {},
        { mode, key: mode, retry: quick },
        async () => {
          made += 1;
          if (made < 3) throw new NotDone("not yet");
          return made;
        },
      );
      expect([mode, answer]).toEqual([mode, 3]);
    }
  });

  test("a keyed call that throws is made again under its key, then asked after, then in doubt", async () => {
    const session = await on.start().hold.session("a");
    const seen: string[] = [];
    const error = await errorOf(() =>
      session.effect(
        "pay",
        { sum: 1 },
        {
          mode: "keyed",
          key: "k",
          retry: { attempts: 2, backoffMs: 1 },
          check: async ({ input }) => void seen.push(`checked ${JSON.stringify(input)}`),
        },
        async () => {
          seen.push("made");
          throw new Error("gateway timeout");
        },
      ),
    );
    expect(seen).toEqual(["made", "made", 'checked {"sum":1}']);
    expect(error).toMatchObject({ code: "IN_DOUBT", cause: { message: "gateway timeout" } });
    expect(session.status).toBe("in-doubt");
  });

  test("a once call that throws is never made again by itself: it is asked after, and then in doubt", async () => {
    const session = await on.start().hold.session("a");
    let made = 0;
    const act = async () => {
      made += 1;
      throw new Error("gateway timeout");
    };
    const o = { mode: "once", key: "k", retry: quick } as const;
    await expect(session.effect("pay", {}, o, act)).rejects.toMatchObject(coded("IN_DOUBT"));
    await expect(session.effect("pay", {}, o, act)).rejects.toMatchObject(coded("IN_DOUBT"));
    expect(made).toBe(1);
    const [pending, ...others] = await session.unfinished();
    expect(others).toEqual([]);
    expect(pending).toMatchObject({
      sessionId: "a",
      name: "pay",
      input: {},
      mode: "once",
      status: "in-doubt",
    });
  });

  test.each([
    ["its output", { output: { found: true } }, { found: true }],
    ["its error", { error: "declined" }, "declined"],
  ])("check may say %s, and that is the outcome from then on", async (_what, says, expected) => {
    const session = await on.start().hold.session("a");
    const o = {
      mode: "once",
      key: "k",
      check: async () => says as { output: { found: boolean } },
    } as const;
    const make = () => session.effect("pay", {}, o, () => Promise.reject(new Error("reset")));
    const answer = "error" in says ? ((await errorOf(make)) as Error).message : await make();
    expect(answer).toEqual(expected);
    expect(session.status).toBe("in-progress");
    if ("output" in says)
      expect(
        await session.effect("pay", {}, { mode: "once", key: "k" }, () =>
          expect.fail("made twice"),
        ),
      ).toEqual(expected);
  });

  test("check may say that it did not happen: then it is made again, and asked after again", async () => {
    const session = await on.start().hold.session("a");
    const seen: string[] = [];
    const answer = await session.effect(
      "pay",
      {},
      {
        mode: "once",
        key: "k",
        check: async () => {
          seen.push("checked");
          return { retry: true };
        },
      },
      async () => {
        seen.push("made");
        if (seen.length < 4) throw new Error("reset");
        return "paid";
      },
    );
    expect(answer).toBe("paid");
    expect(seen).toEqual(["made", "checked", "made", "checked", "made"]);
  });

  test("a check that throws has no answer", async () => {
    const session = await on.start().hold.session("a");
    const check = () => Promise.reject(new Error("no network"));
    const call = session.effect("pay", {}, { mode: "once", key: "k", check }, () =>
      Promise.reject(new Error("reset")),
    );
    await expect(call).rejects.toMatchObject(coded("IN_DOUBT"));
  });

  test("after a kill, check is told that the holder is dead, when the call began, and its key", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    const inside = door<string>();
    void session.effect("pay", { sum: 1 }, { mode: "once", key: "k" }, async (_input, { key }) => {
      inside.open(key);
      return new Promise<string>(() => {});
    });
    const key = await inside.opened;
    first.kill();
    const again = await on.start().hold.session("a");
    const asked: unknown[] = [];
    const check = async (request: object) => {
      asked.push(request);
      return { output: "found" };
    };
    expect(
      await again.effect("pay", { sum: 1 }, { mode: "once", key: "k", check }, () =>
        expect.fail("made twice"),
      ),
    ).toBe("found");
    expect(asked).toEqual([
      { key, input: { sum: 1 }, holder: "dead", startedAt: expect.stringMatching(/^\d{4}-.*Z$/) },
    ]);
  });

  test("while another process may still be inside it, nothing is asked or done before its time is up", async () => {
    const first = on.start({ leaseMs: 100 });
    const session = await first.hold.session("a");
    const inside = door();
    const began = performance.now();
    void session.effect("pay", {}, { mode: "once", key: "k", timeoutMs: 600 }, async () => {
      inside.open();
      return new Promise<string>(() => {});
    });
    await inside.opened;
    first.lose();
    const again = await on.start().hold.session("a", { waitMs: 5_000 });
    expect(performance.now() - began).toBeLessThan(500);
    const holders: unknown[] = [];
    const check = async ({ holder }: { holder: unknown }) => {
      holders.push(holder);
      return { output: Math.round(performance.now() - began) };
    };
    const at = await again.effect(
      "pay",
      {},
      { mode: "once", key: "k", check, timeoutMs: 600 },
      () => expect.fail("made twice"),
    );
    expect(at).toBeGreaterThanOrEqual(590);
    expect(holders).toEqual(["unknown"]);
  });

  test("a call that takes longer than it may is unknown, its signal aborts, and check is told that it may still be at it", async () => {
    const session = await on.start().hold.session("a");
    const holders: unknown[] = [];
    let aborted: unknown;
    const answer = await session.effect(
      "pay",
      {},
      {
        mode: "once",
        key: "k",
        timeoutMs: 20,
        check: async ({ holder }) => {
          holders.push(holder);
          return { output: "found" };
        },
      },
      (_input, { signal }) => {
        signal.addEventListener("abort", () => {
          aborted = (signal.reason as Error).name;
        });
        return new Promise<string>(() => {});
      },
    );
    expect([answer, holders, aborted]).toEqual(["found", ["unknown"], "TimeoutError"]);
  });

  test("an outcome that comes too late settles a call that is still in doubt", async () => {
    const session = await on.start().hold.session("a");
    const late = door<string>();
    const o = { mode: "once", key: "k", timeoutMs: 10 } as const;
    await expect(session.effect("pay", {}, o, () => late.opened)).rejects.toMatchObject(
      coded("IN_DOUBT"),
    );
    late.open("paid after all");
    await expect.poll(() => session.status).toBe("in-progress");
    expect(await session.effect("pay", {}, o, () => expect.fail("made twice"))).toBe(
      "paid after all",
    );
  });

  test("a key that those who are called may have forgotten is not used again", async () => {
    let now = 1_700_000_000_000;
    const clock = { now: () => now };
    const first = on.start({ clock });
    const session = await first.hold.session("a");
    const inside = door();
    const o = { mode: "keyed", key: "k", keyValidMs: 60_000 } as const;
    void session.effect("pay", {}, o, () => {
      inside.open();
      return new Promise<string>(() => {});
    });
    await inside.opened;
    first.kill();
    now += 60_000;
    const again = await on.start({ clock }).hold.session("a");
    await expect(again.effect("pay", {}, o, () => expect.fail("made twice"))).rejects.toMatchObject(
      coded("IN_DOUBT"),
    );
    const [pending] = await again.unfinished();
    await again.close();
    const hold = on.start({ clock }).hold;
    await hold.effects.settle(pending?.effectId as string, { retry: true, by: "ana" });
    expect(await (await hold.session("a")).effect("pay", {}, o, async () => "paid")).toBe("paid");
  });

  test("a result that is not JSON is an error with its path, and the call is not made again for it", async () => {
    const session = await on.start().hold.session("a");
    let made = 0;
    const make = (mode: "once" | "keyed") =>
      session.effect("pay", {}, { mode, key: mode, retry: quick }, (async () => ({
        at: [{ when: new Date(++made) }],
      })) as never);
    for (const mode of ["once", "keyed"] as const)
      await expect(make(mode)).rejects.toMatchObject({
        code: "INVALID_VALUE",
        message: expect.stringContaining("at[0].when"),
      });
    expect(made).toBe(2);
    expect(session.status).toBe("in-progress");
    await expect(
      session.effect("pay", {}, { mode: "repeatable" }, (async () => 1n) as never),
    ).rejects.toMatchObject(coded("INVALID_VALUE"));
    await expect(
      session.effect("pay", { when: new Date() } as never, { mode: "repeatable" }, async () => 1),
    ).rejects.toMatchObject({
      code: "INVALID_VALUE",
      message: expect.stringContaining("input.when"),
    });
  });

  test("a result that is large is kept whole", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    const large = { pages: Array.from({ length: 50 }, (_, i) => `${i} ${"x".repeat(1_000)}`) };
    await session.effect(
      "read",
      { big: "y".repeat(20_000) },
      { mode: "once", key: "k" },
      async () => large,
    );
    first.kill();
    const again = await on.start().hold.session("a");
    expect(
      await again.effect("read", { big: "y".repeat(20_000) }, { mode: "once", key: "k" }, () =>
        expect.fail("again"),
      ),
    ).toEqual(large);
  });

  test("what is answered from the record is what was answered live, also where it cannot be told apart in JSON", async () => {
    const session = await on.start().hold.session("a");
    const make = () =>
      session.effect("f", {}, { mode: "once", key: "k" }, (async () => ({
        a: undefined,
        b: [-0],
        c: null,
      })) as never) as Promise<unknown>;
    const live = await make();
    expect(live).toEqual({ b: [0], c: null });
    expect(Object.keys(live as object)).toEqual(["b", "c"]);
    expect(await make()).toStrictEqual(live);
    const nothing = () =>
      session.effect(
        "g",
        {},
        { mode: "once", key: "k" },
        (async () => undefined) as never,
      ) as Promise<unknown>;
    expect(await nothing()).toStrictEqual(await nothing());
  });

  test("two that ask for the same key at once are given the same answer, from one call", async () => {
    const session = await on.start().hold.session("a");
    let made = 0;
    const make = () => session.effect("pay", {}, { mode: "keyed", key: "k" }, async () => ++made);
    expect(await Promise.all([make(), make(), make()])).toEqual([1, 1, 1]);
  });

  test("a repeatable call without a key is known by the last checkpoint, its name, its input and which of its like it is", async () => {
    const first = on.start();
    const made: string[] = [];
    const session = await first.hold.session("a");
    await session.checkpoint("here");
    const all = async (s: typeof session) => {
      const search = (q: string) =>
        s.effect("search", { q }, { mode: "repeatable" }, async ({ q: asked }) => {
          made.push(asked);
          return `${asked} ${made.length}`;
        });
      return [await search("kelp"), await search("kelp"), await search("rock")];
    };
    const live = await all(session);
    expect(live).toEqual(["kelp 1", "kelp 2", "rock 3"]);
    // Rides with the next commit, which need not be a checkpoint.
    await session.effect("pay", {}, { mode: "once", key: "k" }, async () => 1);
    first.kill();
    const again = await on.start().hold.session("a");
    expect(await all(again)).toEqual(live);
    expect(made).toEqual(["kelp", "kelp", "rock"]);
    await again.checkpoint("further on");
    expect(await all(again)).toEqual(["kelp 4", "kelp 5", "rock 6"]);
  });

  test("a repeatable call whose outcome was never committed is made again under the same key", async () => {
    const first = on.start();
    const keys: string[] = [];
    const search = async (_input: object, { key }: { key: string }) => void keys.push(key);
    const session = await first.hold.session("a");
    await session.checkpoint();
    await session.effect("search", {}, { mode: "repeatable" }, search as never);
    first.kill();
    const again = await on.start().hold.session("a");
    await again.effect("search", {}, { mode: "repeatable" }, search as never);
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBe(keys[1]);
  });

  test("a repeatable call that throws is retried as often as was said, and then throws what it threw; nothing is in doubt", async () => {
    const session = await on.start().hold.session("a");
    let made = 0;
    const error = new TypeError("no network");
    const make = () =>
      session.effect(
        "search",
        {},
        { mode: "repeatable", retry: { attempts: 2, backoffMs: 1 } },
        () => {
          made += 1;
          return Promise.reject(error);
        },
      );
    expect(await errorOf(make)).toBe(error);
    expect(made).toBe(2);
    expect(session.status).toBe("in-progress");
    expect(await session.unfinished()).toEqual([]);
    // What failed may be asked for again.
    expect(await errorOf(make)).toBe(error);
    expect(made).toBe(4);
  });

  test("what a model answered is durable when it resolves, and is not asked for again after a kill", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    session.append({ role: "user", content: "hello" });
    await session.checkpoint();
    let asked = 0;
    const ask = (s: typeof session) =>
      s.model(async ({ messages }) => ({ text: `${messages.length} ${++asked}` }));
    expect(await ask(session)).toEqual({ text: "1 1" });
    first.kill();
    const again = await on.start().hold.session("a");
    expect(await ask(again)).toEqual({ text: "1 1" });
    again.append({ role: "assistant", content: "1 1" });
    await again.checkpoint();
    expect(await ask(again)).toEqual({ text: "2 2" });
  });

  test("a model that was being asked at the kill is asked again under the same key", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    session.append({ role: "user", content: "hello" });
    await session.checkpoint();
    const keys: string[] = [];
    const inside = door();
    void session.model(({ key }) => {
      keys.push(key);
      inside.open();
      return new Promise<string>(() => {});
    });
    await inside.opened;
    first.kill();
    await (await on.start().hold.session("a")).model(async ({ key }) => keys.push(key));
    expect(keys).toHaveLength(2);
    expect(keys[0]).toBe(keys[1]);
  });

  test("a session that is in doubt goes on once somebody has settled it, and by whom stays in the journal", async () => {
    const first = on.start();
    const session = await first.hold.session("a", { agent: "x" });
    const o = { mode: "once", key: "k" } as const;
    await errorOf(() =>
      session.effect("pay", { sum: 1 }, o, () => Promise.reject(new Error("reset"))),
    );
    await expect(session.complete()).rejects.toMatchObject(coded("BAD_STATUS"));
    await session.close();
    const { hold } = on.start();
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-doubt" });
    const { items } = await hold.effects.list({ status: "in-doubt" });
    expect(items).toMatchObject([{ sessionId: "a", name: "pay", input: { sum: 1 } }]);
    await hold.effects.settle(items[0]?.effectId as string, {
      output: { refunded: true },
      by: "ana",
    });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
    const again = await hold.session("a");
    expect(await again.effect("pay", { sum: 1 }, o, () => expect.fail("made twice"))).toEqual({
      refunded: true,
    });
  });

  test("a call that outlives its session's holder tells its outcome to the next one", async () => {
    const session = await on.start().hold.session("a");
    const inside = door();
    const late = door<string>();
    const call = session.effect("pay", {}, { mode: "once", key: "k" }, () => {
      inside.open();
      return late.opened;
    });
    await inside.opened;
    await session.close({ discard: true });
    const again = await on.start().hold.session("a");
    late.open("paid");
    await errorOf(() => call);
    await expect
      .poll(async () => (await again.checkpoint(), (await again.unfinished()).length), {
        interval: 250,
      })
      .toBe(0);
    expect(
      await again.effect("pay", {}, { mode: "once", key: "k" }, () => expect.fail("made twice")),
    ).toBe("paid");
  });
});
