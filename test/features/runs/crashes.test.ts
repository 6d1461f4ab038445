/**
 * D6: an agent that is killed goes on; a call whose outcome is recorded is never made again, and
 * none is silently repeated.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, Mode } from "../../../src/index.js";
import { type Message, partsOf, type ToolResultPart } from "../../../src/index.js";
import { asks, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message) as readonly ToolResultPart[])
    .map(({ name, outcome, output }) => [name, outcome, output]);

describe.each(stores)("kills on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  /**
   * Two turns with calls of every mode, several at once; `world` is what was done outside, by key.
   */
  function twoTurns(hold: Holdfast, world: { mode: Mode; key: string }[]) {
    const act =
      (mode: Mode) =>
      (_input: unknown, { key }: { key: string }) => {
        world.push({ mode, key });
        return `${mode} done`;
      };
    const bot = hold.agent({
      name: "bot",
      model: script(
        asks(["look", {}], ["charge", { n: 1 }], ["mail", { n: 1 }]),
        asks(["mail", { n: 2 }]),
        "first",
        asks(["refund", { n: 1 }], ["look", { n: 2 }]),
        "second",
      ),
      tools: {
        look: { mode: "repeatable", run: act("repeatable") },
        charge: { mode: "keyed", run: act("keyed") },
        refund: { mode: "keyed", key: ({ n }) => `refund:${n}`, run: act("keyed") },
        mail: {
          mode: "once",
          run: act("once"),
          check: async ({ key }) =>
            world.some((done) => done.key === key) ? { output: "once done" } : { retry: true },
        },
      },
    });
    return async () => {
      // As a program does that was started again: a turn before the latest is not asked for.
      const session = await hold.session("a", { agent: "bot" });
      const isAtSecond = session.messages.some(({ content }) => content === "two");
      await session.close();
      if (!isAtSecond) expect(await bot.run("a", "one")).toMatchObject({ status: "completed" });
      return bot.run("a", "two");
    };
  }

  test("at every write, before and after it: the next process ends where an undisturbed one does", async () => {
    const clean = on.start();
    const seen: { mode: Mode; key: string }[] = [];
    await twoTurns(clean.hold, seen)();
    const session = await clean.hold.session("a");
    const expected = session.messages.map(({ role, content }) => ({ role, content }));
    await session.close();
    await clean.hold.sessions.delete("a");
    const writes = clean.writes();
    expect(writes).toBeGreaterThan(8);
    for (let write = 1; write <= writes; write++) {
      for (const done of [false, true]) {
        const world: { mode: Mode; key: string }[] = [];
        const dying = on.start({ diesAt: { write, done } });
        await Promise.race([twoTurns(dying.hold, world)(), dying.died]);
        const next = on.start();
        const result = await twoTurns(next.hold, world)();
        const again = await next.hold.session("a");
        const found = again.messages.map(({ role, content }) => ({ role, content }));
        const once = world.filter(({ mode }) => mode === "once").map(({ key }) => key);
        const acts = new Set(
          world.filter(({ mode }) => mode !== "repeatable").map(({ key }) => key),
        );
        const where = `killed ${done ? "after" : "before"} write ${write}`;
        expect({ where, result, found, once, acts }).toMatchObject({
          where,
          result: { status: "completed", output: "second" },
          found: expected,
          once: [...new Set(once)],
          acts: { size: 4 },
        });
        next.kill();
        await on.start().hold.sessions.delete("a");
      }
    }
  });

  test("a model that was being asked at the kill is asked again under the same key; one that has answered is not", async () => {
    const first = on.start();
    const inside = door();
    const keys: string[] = [];
    const agentOf = (hold: Holdfast, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: async (request) => {
          keys.push(request.key);
          if (request.messages.length === 1) return asks(["pay", {}]);
          inside.open();
          return stuck ? new Promise(() => {}) : { content: "done" };
        },
        tools: { pay: { mode: "once", run: () => "paid" } },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    first.kill();
    expect(await agentOf(on.start().hold, false).run("a", "go")).toMatchObject({
      status: "completed",
      replayed: false,
    });
    expect(keys).toHaveLength(3);
    expect(keys[1]).toBe(keys[2]);
    expect(keys[0]).not.toBe(keys[1]);
  });

  const killedInside = async (
    mode: Mode,
    o: { readonly timeoutMs?: number; readonly lost?: boolean } = {},
  ) => {
    const first = on.start({ leaseMs: 100 });
    const inside = door<string>();
    const { timeoutMs } = o;
    const bot = first.hold.agent({
      name: "bot",
      model: script(asks(["act", { n: 1 }])),
      tools: {
        act: {
          mode,
          ...(timeoutMs !== undefined && { timeoutMs }),
          run: (_input, { key }) => {
            inside.open(key);
            return new Promise(() => {});
          },
        },
      },
    });
    void bot.run("a", "go");
    const key = await inside.opened;
    if (o.lost) first.lose();
    else first.kill();
    return key;
  };
  const next = (tool: object) =>
    on.start().hold.agent({
      name: "bot",
      model: script(asks(["act", { n: 1 }])),
      tools: { act: tool as { mode: "once"; run: () => number } },
    });

  test("repeatable: it is run again", async () => {
    await killedInside("repeatable");
    expect(await next({ mode: "repeatable", run: () => 1 }).run("a", "go")).toMatchObject({
      status: "completed",
    });
  });

  test("keyed: it is run again under the same key", async () => {
    const key = await killedInside("keyed");
    const keys: string[] = [];
    const run = (_input: unknown, ctx: { key: string }) => keys.push(ctx.key);
    expect(await next({ mode: "keyed", run }).run("a", "go")).toMatchObject({
      status: "completed",
    });
    expect(keys).toEqual([key]);
  });

  test("once: without a check it is in doubt, and stays so until somebody settles it", async () => {
    const key = await killedInside("once");
    const bot = next({ mode: "once", run: () => expect.fail("made twice") });
    const result = await bot.run("a", "go");
    expect(result).toMatchObject({
      status: "in-doubt",
      pending: [{ sessionId: "a", name: "act", input: { n: 1 }, key }],
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "in-doubt" });
    expect(await bot.resume("a")).toMatchObject({ status: "in-doubt" });
    const { hold } = on.start();
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-doubt" });
    const id = result.status === "in-doubt" ? (result.pending[0]?.effectId as string) : "";
    await hold.effects.settle(id, { output: "it happened" });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test("once: check is asked with input, context and a dead holder", async () => {
    const key = await killedInside("once");
    const asked: unknown[] = [];
    const bot = on.start().hold.agent({
      name: "bot",
      model: script(asks(["act", { n: 1 }])),
      context: () => ({ db: 1 }),
      tools: {
        act: {
          mode: "once",
          run: () => expect.fail("made twice"),
          check: async (request) => {
            asked.push(request);
            return { output: "found" };
          },
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(asked).toEqual([
      { key, input: { n: 1 }, holder: "dead", context: { db: 1 }, startedAt: expect.any(String) },
    ]);
  });

  test("while the old process may live, nothing is checked or run before its time is up, and check is told", async () => {
    await killedInside("once", { timeoutMs: 700, lost: true });
    const began = performance.now();
    const holders: unknown[] = [];
    const check = async ({ holder }: { holder: unknown }) => {
      holders.push(holder, performance.now() - began > 300);
      return { output: "found" };
    };
    expect(
      await next({ mode: "once", run: () => expect.fail("made twice"), check }).run("a", "go"),
    ).toMatchObject({ status: "completed" });
    expect(holders).toEqual(["unknown", true]);
  });

  test("the mode that a call was begun with counts, whatever the program says today", async () => {
    await killedInside("once");
    expect(
      await next({ mode: "repeatable", run: () => expect.fail("made twice") }).run("a", "go"),
    ).toMatchObject({ status: "in-doubt" });
  });

  test("a tool that is gone leaves its call in doubt; with the tool back it goes on", async () => {
    await killedInside("keyed");
    const without = on.start().hold.agent({ name: "bot", model: script(asks(["act", { n: 1 }])) });
    expect(await without.run("a", "go")).toMatchObject({
      status: "in-doubt",
      pending: [{ name: "act" }],
    });
    const { hold } = on.start();
    const { items } = await hold.effects.list({ status: "in-doubt" });
    await hold.effects.settle(items[0]?.effectId as string, { retry: true });
    expect(await next({ mode: "keyed", run: () => "again" }).run("a", "go")).toMatchObject({
      status: "completed",
    });
    const session = await hold.session("a");
    expect(results(session.messages)).toEqual([["act", "ok", "again"]]);
    await session.close();
  });

  test("a tool that is gone may be settled with its output", async () => {
    await killedInside("repeatable");
    const { hold } = on.start();
    const without = hold.agent({ name: "bot", model: script(asks(["act", { n: 1 }])) });
    const result = await without.run("a", "go");
    expect(result).toMatchObject({
      status: "in-doubt",
      pending: [{ name: "act", input: { n: 1 }, mode: "repeatable" }],
    });
    await hold.effects.settle(
      result.status === "in-doubt" ? (result.pending[0]?.effectId as string) : "",
      { error: "removed" },
    );
    expect(await without.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test("a run that lost its session to another stops as superseded, and what it still finds out reaches the other", async () => {
    const first = on.start({ leaseMs: 100 });
    const inside = door();
    const late = door<string>();
    const model = script(asks(["act", { n: 1 }]));
    const bot = first.hold.agent({
      name: "bot",
      model,
      tools: { act: { mode: "once", timeoutMs: 400, run: () => (inside.open(), late.opened) } },
    });
    const run = bot.run("a", "go");
    await inside.opened;
    // Its heartbeat is late for longer than its lease lasts, as if the process had been paused.
    const taken = await stolen(on, "a");
    late.open("paid");
    expect(await run).toMatchObject({ status: "stopped", reason: "superseded" });
    await taken();
    expect(
      await next({ mode: "once", run: () => expect.fail("made twice") }).run("a", "go"),
    ).toMatchObject({ status: "completed" });
  });
});

/**
 * Takes a session away from whoever holds it, as one does whose lease has run out. Answers how to
 * let go of it.
 */
async function stolen(on: Processes, id: string): Promise<() => Promise<void>> {
  const thief = on.start({ steals: true });
  const session = await thief.hold.session(id);
  return () => session.close();
}
