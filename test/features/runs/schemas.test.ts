/** What schemas refuse: inputs, state and output. */
import { type } from "arktype";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  type InputSchema,
  type Json,
  type Message,
  partsOf,
  type ToolResultPart,
} from "../../../src/index.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const results = (messages: readonly Message[]) =>
  messages
    .filter(({ role }) => role === "tool")
    .flatMap((message) => partsOf(message) as readonly ToolResultPart[]);

const jsonSchema = {
  type: "object",
  properties: { n: { type: "integer", minimum: 1 } },
  required: ["n"],
} as const;
const kinds: readonly { readonly kind: string; readonly input: InputSchema<{ n: number }> }[] = [
  { kind: "zod", input: z.object({ n: z.int().min(1) }) },
  { kind: "arktype", input: type({ n: "number.integer >= 1" }) },
  { kind: "a plain JSON Schema", input: jsonSchema },
  { kind: "{ jsonSchema }", input: { jsonSchema } },
  {
    kind: "valibot through { jsonSchema, parse }",
    input: {
      jsonSchema: { type: "object" },
      parse: (value: Json) => v.parse(v.object({ n: v.pipe(v.number(), v.minValue(1)) }), value),
    },
  },
];

describe.each(stores)("schemas on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());
  const messagesOf = async (id: string) => {
    const session = await on.start().hold.session(id);
    await session.close();
    return session.messages;
  };

  test.each(kinds)(
    "an input that does not fit $kind is told to the model, and the call is not made",
    async ({ input }) => {
      const made: unknown[] = [];
      const model = script(
        asks(["t", { n: 1 }], ["t", { n: 0 }], ["t", {}], ["t", null], ["t", "not json"]),
      );
      const tools = {
        t: { mode: "once", input, run: (input: unknown) => (made.push(input), "made") },
      } as const;
      expect(
        await on.start().hold.agent({ name: "bot", model, tools }).run("a", "go"),
      ).toMatchObject({ status: "completed" });
      expect(made).toEqual([{ n: 1 }]);
      expect(results(await messagesOf("a")).map(({ outcome }) => outcome)).toEqual([
        "ok",
        "error",
        "error",
        "error",
        "error",
      ]);
      expect(model.requests[0]?.tools[0]?.inputSchema).toMatchObject({ type: "object" });
    },
  );

  test("a tool is given what its schema makes of the input; the transcript keeps what the model said", async () => {
    const seen: unknown[] = [];
    const model = script(asks(["t", { n: "7" }], ["p", { when: "2026-01-02" }]));
    const bot = on.start().hold.agent({
      name: "bot",
      model,
      tools: {
        t: {
          mode: "once",
          input: z.object({ n: z.coerce.number(), unit: z.string().default("kg") }),
          run: (input) => (seen.push(input), 1),
        },
        p: {
          mode: "once",
          input: {
            jsonSchema: { type: "object" },
            parse: (value: Json) => new Date((value as { when: string }).when),
          },
          run: (when) => (seen.push(when.getUTCFullYear()), 1),
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(seen).toEqual([{ n: 7, unit: "kg" }, 2026]);
    expect((await messagesOf("a"))[1]?.content).toMatchObject([
      { input: { n: "7" } },
      { input: { when: "2026-01-02" } },
    ]);
  });

  test("a schema that cannot tell its JSON Schema is refused where it is given, with what to do", async () => {
    const { hold } = on.start();
    const input = v.object({ n: v.number() }) as never;
    expect(() =>
      hold.agent({
        name: "bot",
        model: script(),
        tools: { t: { mode: "once", input, run: () => 1 } },
      }),
    ).toThrow(/valibot/);
  });

  test("an output has its schema: the model is told what does not fit, three times at most", async () => {
    const output = z.object({ total: z.number() });
    const { hold } = on.start();
    const model = script("no JSON", '{"total":"3"}', '```json\n{"total":3}\n```');
    const done = await hold.agent({ name: "bot", model, output }).run("a", "go");
    expect(done).toMatchObject({ status: "completed", output: { total: 3 } });
    expect(model.requests[2]?.messages.at(-1)).toMatchObject({
      role: "user",
      content: expect.stringContaining("total"),
    });
    expect(await hold.agent({ name: "bot", model, output }).run("a", "go")).toMatchObject({
      replayed: true,
      output: { total: 3 },
    });
    const stubborn = script("no", "no", "no", "no", "no");
    expect(await hold.agent({ name: "bot", model: stubborn, output }).run("b", "go")).toMatchObject(
      { status: "failed" },
    );
    expect(stubborn.requests).toHaveLength(3);
  });

  test("an output is given as its schema makes it, also from the record", async () => {
    const output = v.pipe(
      v.object({ day: v.string() }),
      v.transform(({ day }) => day.toUpperCase()),
    );
    const bot = on.start().hold.agent({ name: "bot", model: script('{"day":"monday"}'), output });
    expect(await bot.run("a", "go")).toMatchObject({ output: "MONDAY", replayed: false });
    expect(await bot.run("a", "go")).toMatchObject({ output: "MONDAY", replayed: true });
  });

  test("state begins as its initial value, and is set together with the outcome of a call", async () => {
    const first = on.start();
    const schema = z.object({ count: z.number(), seen: z.array(z.string()) });
    const model = script(asks(["count", {}], ["fails", {}]), asks(["count", {}]));
    const bot = first.hold.agent({
      name: "bot",
      model,
      state: { schema, initial: { count: 0, seen: [] } },
      tools: {
        count: {
          mode: "once",
          run: (_input, { session, set }) => {
            set("count", session.state.count + 1);
            return session.state.count;
          },
        },
        fails: {
          mode: "repeatable",
          run: (_input, { set }) => {
            set("seen", ["never"]);
            throw new Error("no");
          },
        },
      },
    });
    await bot.run("a", "go");
    const session = await first.hold.session("a");
    expect(session.state).toEqual({ count: 2, seen: [] });
    await session.close();
  });

  test("a tool that sets what does not fit the state fails, and nothing is set", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["t", {}])),
      state: { schema: z.object({ count: z.number() }), initial: { count: 0 } },
      tools: { t: { mode: "repeatable", run: (_input, { set }) => set("count", "many" as never) } },
    });
    await bot.run("a", "go");
    expect(results(await messagesOf("a"))).toMatchObject([
      { outcome: "error", output: expect.stringContaining("count") },
    ]);
    const session = await hold.session("a");
    expect(session.state).toEqual({ count: 0 });
    await session.close();
  });

  test("old state is upgraded once, with the version it had; a newer one than the program knows is refused", async () => {
    const { hold } = on.start();
    const from: number[] = [];
    const v1 = hold.agent({
      name: "bot",
      model: script(),
      state: { schema: z.object({ n: z.number() }), initial: { n: 1 } },
    });
    const v3 = hold.agent({
      name: "bot",
      model: script(),
      state: {
        schema: z.object({ ns: z.array(z.number()) }),
        version: 3,
        upgrade: (old, version) => {
          from.push(version);
          return { ns: [old["n"] as number] };
        },
      },
    });
    await v1.run("a", "one");
    await v3.run("a", "two");
    await v3.run("a", "three");
    expect(from).toEqual([1]);
    const session = await hold.session("a");
    expect(session.state).toEqual({ ns: [1] });
    await session.close();
    await expect(v1.run("a", "four")).rejects.toMatchObject(coded("CONFLICT"));
  });

  test("an upgrade that gives what does not fit changes nothing", async () => {
    const { hold } = on.start();
    await hold
      .agent({
        name: "bot",
        model: script(),
        state: { schema: z.object({ n: z.number() }), initial: { n: 1 } },
      })
      .run("a", "one");
    const state = {
      schema: z.object({ m: z.number() }),
      version: 2,
      upgrade: () => ({ m: "?" }) as never,
    };
    const bad = hold.agent({ name: "bot", model: script(), state });
    await expect(bad.run("a", "two")).rejects.toMatchObject(coded("INVALID_VALUE"));
    const session = await hold.session("a");
    expect([session.state, session.messages.length]).toEqual([{ n: 1 }, 2]);
    await session.close();
  });

  test("a state that is set by a call is there after a kill, if and only if its outcome is", async () => {
    const first = on.start();
    const inside = door();
    const agentOf = (hold: typeof first.hold, stuck: boolean) =>
      hold.agent({
        name: "bot",
        model: script(asks(["pay", {}], ["stuck", {}])),
        tools: {
          pay: { mode: "once", run: (_input, { set }) => (set("paid", true), "paid") },
          stuck: {
            mode: "keyed",
            run: async (_input, { set, session }) => {
              set("stuck", stuck);
              if (!stuck) return session.state["paid"] ?? null;
              await expect.poll(() => session.state["paid"]).toBe(true);
              inside.open();
              return new Promise<boolean>(() => {});
            },
          },
        },
      });
    void agentOf(first.hold, true).run("a", "go");
    await inside.opened;
    await new Promise((resolve) => setTimeout(resolve, 50));
    first.kill();
    const { hold } = on.start();
    const before = await hold.session("a");
    expect(before.state).toEqual({ paid: true });
    await before.close();
    expect(await agentOf(hold, false).run("a", "go")).toMatchObject({ status: "completed" });
    expect(results(await messagesOf("a")).map(({ output }) => output)).toEqual(["paid", true]);
    const after = await hold.session("a");
    expect(after.state).toEqual({ paid: true, stuck: false });
    await after.close();
  });
});
