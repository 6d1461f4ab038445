/** Agents that run other agents: each in a session of its own, which is found again. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  agent,
  type Holdfast,
  type Message,
  type ModelReply,
  type ModelRequest,
  partsOf,
  type ToolResultPart,
} from "../../../src/index.js";
import { asks, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const outputs = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) =>
      (partsOf(message) as readonly ToolResultPart[]).map(({ output }) => output),
    );

describe.each(stores)("children on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  /**
   * A parent whose tool runs a child that has the given model and tools, and gives back how it
   * ended.
   */
  const family = (
    hold: Holdfast,
    model: (request: ModelRequest) => Promise<ModelReply>,
    o: {
      readonly mode?: "repeatable" | "keyed";
      readonly tools?: object;
      readonly runs?: string[];
      readonly as?: string;
    } = {},
  ) => {
    const child = agent({
      name: "child",
      model,
      output: z.string().or(z.number()),
      tools: (o.tools ?? {}) as {},
    });
    const tools = {
      delegate: {
        mode: o.mode ?? "repeatable",
        run: async (
          _input: unknown,
          ctx: {
            run: (
              agent: typeof child,
              input: string,
              o?: { as?: string },
            ) => Promise<{ status: string; sessionId: string }>;
          },
        ) => {
          const result = await ctx.run(child, "count", o.as === undefined ? {} : { as: o.as });
          o.runs?.push(result.sessionId);
          return JSON.parse(JSON.stringify(result)) as { status: string };
        },
      },
    } as const;
    return hold.agent({
      name: "parent",
      model: script(asks(["delegate", {}])),
      tools: tools as never,
    });
  };
  const messagesOf = async (id: string) => {
    const session = await on.start().hold.session(id, { waitMs: 2_000 });
    await session.close();
    return session.messages;
  };

  test("a child has a session of its own, and its answer goes to the tool that ran it", async () => {
    const { hold } = on.start();
    const runs: string[] = [];
    expect(await family(hold, script("7"), { runs }).run("a", "go")).toMatchObject({
      status: "completed",
    });
    expect(outputs(await messagesOf("a"))).toMatchObject([{ status: "completed", output: 7 }]);
    expect(await hold.sessions.get(runs[0] as string)).toMatchObject({
      agent: "child",
      status: "completed",
    });
    const { items } = await hold.sessions.list({ agent: "child" });
    expect(items).toHaveLength(1);
  });

  test.each(["repeatable", "keyed"] as const)(
    "a child of a %s tool is found again after a kill, and goes on where it was",
    async (mode) => {
      const first = on.start();
      const inside = door();
      const counted: string[] = [];
      const tools = (stuck: boolean) => ({
        count: { mode: "once", run: () => (counted.push("count"), 1) },
        stick: {
          mode: "repeatable",
          run: () => (stuck ? (inside.open(), new Promise(() => {})) : 2),
        },
      });
      const model = () => script(asks(["count", {}]), asks(["stick", {}]), "3");
      void family(first.hold, model(), { mode, tools: tools(true) }).run("a", "go");
      await inside.opened;
      first.kill();
      const { hold } = on.start();
      expect(
        await family(hold, model(), { mode, tools: tools(false) }).run("a", "go"),
      ).toMatchObject({ status: "completed" });
      expect(counted).toEqual(["count"]);
      expect((await hold.sessions.list({ agent: "child" })).items).toHaveLength(1);
      expect(outputs(await messagesOf("a"))).toMatchObject([{ status: "completed", output: 3 }]);
    },
  );

  test("a child that has answered is not run again when its parent is killed behind it", async () => {
    const first = on.start();
    const inside = door();
    const model = script("7");
    const child = agent({ name: "child", model });
    const parent = (hold: Holdfast, stuck: boolean) =>
      hold.agent({
        name: "parent",
        model: script(asks(["delegate", {}])),
        tools: {
          delegate: {
            mode: "repeatable",
            run: async (_input, { run }) => {
              const result = await run(child, "count");
              if (stuck) {
                inside.open();
                await new Promise(() => {});
              }
              return result.status === "completed"
                ? [result.output, result.replayed]
                : result.status;
            },
          },
        },
      });
    void parent(first.hold, true).run("a", "go");
    await inside.opened;
    first.kill();
    expect(await parent(on.start().hold, false).run("a", "go")).toMatchObject({
      status: "completed",
    });
    expect(outputs(await messagesOf("a"))).toEqual([["7", true]]);
    expect(model.requests).toHaveLength(1);
  });

  test("a child that waits makes its parent wait; once it is approved, both go on", async () => {
    const { hold } = on.start();
    const tools = { pay: { mode: "once", approval: true, run: () => "paid" } };
    const parent = family(hold, script(asks(["pay", {}]), "1"), { tools });
    const waiting = await parent.run("a", "go");
    expect(waiting).toMatchObject({
      status: "waiting",
      pending: [{ name: "delegate", waitsFor: { for: "child" } }],
    });
    const { items } = await hold.effects.list({ status: "waiting", agent: "child" });
    expect(items).toMatchObject([{ name: "pay" }]);
    expect(await parent.run("a", "go")).toMatchObject({ status: "waiting" });
    await on.start().hold.effects.approve(items[0]?.effectId as string);
    expect(await parent.run("a", "go")).toMatchObject({ status: "completed" });
    expect(outputs(await messagesOf("a"))).toMatchObject([{ status: "completed", output: 1 }]);
  });

  test("a child that is in doubt makes its parent wait, until it is settled", async () => {
    const { hold } = on.start();
    const tools = { pay: { mode: "once", run: () => Promise.reject(new Error("reset")) } };
    const parent = family(hold, script(asks(["pay", {}]), "1"), { tools });
    expect(await parent.run("a", "go")).toMatchObject({ status: "waiting" });
    const [doubt] = (await hold.effects.list({ status: "in-doubt" })).items;
    await hold.effects.settle(doubt?.effectId as string, { output: "paid" });
    expect(await parent.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test.each(["denied", "settled"])(
    "a child of a call that is %s is cancelled: nobody runs it any more",
    async (how) => {
      const { hold } = on.start();
      const pay = { mode: "once", approval: true, run: () => expect.fail("made") };
      const bot = family(hold, script(asks(["pay", {}])), { tools: { pay } });
      const waiting = await bot.run("a", "go");
      const id = waiting.status === "waiting" ? (waiting.pending[0]?.effectId as string) : "";
      if (how === "denied") await hold.effects.deny(id, { reason: "not now" });
      else await hold.effects.settle(id, { output: { status: "done by hand" } });
      const [child] = (await hold.sessions.list({ agent: "child" })).items;
      expect(child).toMatchObject({ status: "cancelled" });
      expect((await hold.effects.list({ status: "waiting" })).items).toEqual([]);
      expect(await bot.resume("a")).toMatchObject({ status: "completed" });
    },
  );

  test("a child that fails is an answer, too", async () => {
    const { hold } = on.start();
    const broken = async () => {
      throw Object.assign(new Error("bad request"), { status: 400 });
    };
    expect(await family(hold, broken).run("a", "go")).toMatchObject({ status: "completed" });
    expect(outputs(await messagesOf("a"))).toMatchObject([
      { status: "failed", error: { message: "bad request" } },
    ]);
  });

  test("several children of one call are told apart by their order, or by name", async () => {
    const { hold } = on.start();
    const child = agent({
      name: "child",
      model: async ({ messages }) => ({ content: `${String(messages[0]?.content)}!` }),
    });
    const parent = hold.agent({
      name: "parent",
      model: script(asks(["delegate", {}])),
      tools: {
        delegate: {
          mode: "repeatable",
          run: async (_input, { run }) => {
            const results = await Promise.all([
              run(child, "one"),
              run(child, "two"),
              run(child, "three", { as: "third" }),
            ]);
            return results.map((result) =>
              result.status === "completed" ? result.output : result.status,
            );
          },
        },
      },
    });
    await parent.run("a", "go");
    expect(outputs(await messagesOf("a"))).toEqual([["one!", "two!", "three!"]]);
    const { items } = await hold.sessions.list({ agent: "child" });
    expect(new Set(items.map(({ id }) => id)).size).toBe(3);
    expect(items.some(({ id }) => id.endsWith("third"))).toBe(true);
  });

  test("cancelling a session cancels the children that it runs", async () => {
    const { hold } = on.start();
    const inside = door();
    const stick = {
      mode: "repeatable",
      run: (_input: unknown, { signal }: { signal: AbortSignal }) => (
        inside.open(),
        new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(new Error("stopped"))),
        )
      ),
    };
    const run = family(hold, script(asks(["stick", {}])), { tools: { stick } }).run("a", "go");
    await inside.opened;
    await hold.sessions.cancel("a", "enough");
    expect(await run).toMatchObject({ status: "stopped", reason: "cancelled" });
    const [child] = (await hold.sessions.list({ agent: "child" })).items;
    await expect
      .poll(async () => (await hold.sessions.get(child?.id as string))?.status)
      .toBe("cancelled");
  });

  test("a child that was cancelled by itself is an answer for its parent", async () => {
    const { hold } = on.start();
    const tools = { pay: { mode: "once", approval: true, run: () => "paid" } };
    const parent = family(hold, script(asks(["pay", {}])), { tools });
    await parent.run("a", "go");
    const [child] = (await hold.sessions.list({ agent: "child" })).items;
    await hold.sessions.cancel(child?.id as string, "not this one");
    expect(await parent.run("a", "go")).toMatchObject({ status: "completed" });
    expect(outputs(await messagesOf("a"))).toMatchObject([
      { status: "stopped", reason: "cancelled" },
    ]);
  });

  test("deleting a session deletes the children that it ran", async () => {
    const { hold } = on.start();
    await family(hold, script("7")).run("a", "go");
    await family(hold, script("8")).run("b", "go");
    const [second, first] = (await hold.sessions.list({ agent: "child" })).items;
    expect([first?.parent, second?.parent]).toEqual(["a", "b"]);
    expect(await hold.sessions.delete("a", { dryRun: true })).toMatchObject({
      deleted: true,
      sessions: 2,
      keptFor: [],
      children: [first?.id],
    });
    expect((await hold.sessions.list({ agent: "child" })).items).toHaveLength(2);
    expect(await hold.sessions.delete("a")).toMatchObject({
      deleted: true,
      sessions: 2,
      keptFor: [],
      children: [first?.id],
    });
    expect((await hold.sessions.list({ agent: "child" })).items).toHaveLength(1);
    await hold.sessions.delete("b");
    expect((await hold.sessions.list({})).items).toEqual([]);
    await hold.gc();
    expect(await hold.verify()).toMatchObject({ ok: true });
  });

  test("aborting the parent stops the child, and both can be resumed", async () => {
    const { hold } = on.start();
    const abort = new AbortController();
    const model = async (request: ModelRequest): Promise<ModelReply> => {
      if (!abort.signal.aborted) {
        abort.abort();
        await new Promise((_resolve, reject) => {
          if (request.signal.aborted) reject(request.signal.reason as Error);
          request.signal.addEventListener("abort", () => reject(request.signal.reason as Error));
        });
      }
      return { content: "5" };
    };
    const parent = family(hold, model);
    expect(await parent.run("a", "go", { signal: abort.signal })).toMatchObject({
      status: "stopped",
      reason: "aborted",
    });
    expect(await parent.resume("a")).toMatchObject({ status: "completed" });
    expect(outputs(await messagesOf("a"))).toMatchObject([{ status: "completed", output: 5 }]);
  });

  test("grandchildren: waiting goes all the way up, and back down", async () => {
    const { hold } = on.start();
    const grandchild = agent({
      name: "grandchild",
      model: script(asks(["pay", {}]), "paid"),
      tools: { pay: { mode: "once", approval: true, run: () => 1 } },
    });
    const child = agent({
      name: "child",
      model: script(asks(["ask", {}]), "asked"),
      tools: {
        ask: {
          mode: "repeatable",
          run: async (_input, { run }) => (await run(grandchild, "pay")).status,
        },
      },
    });
    const parent = hold.agent({
      name: "parent",
      model: script(asks(["ask", {}])),
      tools: {
        ask: { mode: "keyed", run: async (_input, { run }) => (await run(child, "ask")).status },
      },
    });
    expect(await parent.run("a", "go")).toMatchObject({ status: "waiting" });
    const [pay] = (await hold.effects.list({ status: "waiting", agent: "grandchild" })).items;
    await hold.effects.approve(pay?.effectId as string);
    expect(await parent.run("a", "go")).toMatchObject({ status: "completed" });
    expect(outputs(await messagesOf("a"))).toEqual(["completed"]);
    await hold.sessions.delete("a");
    expect((await hold.sessions.list({})).items).toEqual([]);
  });

  test("a tool that may run only once is not run again because its child waited", async () => {
    const { hold } = on.start();
    let ran = 0;
    const child = agent({
      name: "child",
      model: script(asks(["pay", {}])),
      tools: { pay: { mode: "once", approval: true, run: () => 1 } },
    });
    const parent = hold.agent({
      name: "parent",
      model: script(asks(["delegate", {}])),
      tools: {
        delegate: {
          mode: "once",
          run: async (_input, { run }) => {
            ran += 1;
            return (await run(child, "go")).status;
          },
        },
      },
    });
    await parent.run("a", "go");
    for (const { effectId } of (await hold.effects.list({ status: "waiting", agent: "child" }))
      .items)
      await hold.effects.approve(effectId);
    await parent.run("a", "go");
    expect(ran).toBe(1);
  });
});
