/** A closed store answers every public method with CLOSED, and never as if it were empty. */
import { describe, expect, test } from "vitest";
import { call, methodsOf, Options, openWorld, plain, surfaces } from "../support/public-calls.js";
import { stores } from "../support/stores.js";

const REFUSED = ["CLOSED", "INVALID_OPTION", "INVALID_VALUE", "INVALID_ID"];

test("the table names every public method", async () => {
  const world = await openWorld("memory:");
  for (const { name, of, calls } of surfaces)
    expect(Object.keys(calls).sort(), name).toEqual(methodsOf(of(world)));
  const listed = surfaces.map(({ of }) => of(world));
  const parts = Object.values(world.hold).filter((part) => typeof part === "object");
  expect(parts.filter((part) => !listed.includes(part))).toEqual([]);
  await world.hold.close();
});

describe.each(stores)("$name", ({ address }) => {
  test("every method of a closed store throws CLOSED", async () => {
    const world = await openWorld(address());
    const tools = Object.entries(world.hold.tools());
    await world.hold.close();
    const codes: Record<string, unknown> = {};
    const note = async (
      name: string,
      answer: Promise<unknown>,
      allowed: readonly unknown[] = ["CLOSED"],
    ): Promise<void> => {
      const code = await answer.then(
        () => "answered",
        (error: { code?: string }) => error.code ?? error,
      );
      if (!allowed.includes(code)) codes[name] = code;
    };
    for (const { name, of, calls, still = [] } of surfaces)
      for (const [method, args] of Object.entries(calls)) {
        if (still.includes(method)) continue;
        const given = args(world);
        await note(`${name}.${method}`, call(of(world), method, plain(given)));
        // A name of nothing is not looked for in the store.
        for (const [at, arg] of given.entries())
          if (typeof arg === "string")
            await note(
              `${name}.${method}, argument ${at + 1} names nothing`,
              call(of(world), method, plain(given.with(at, "nothing"))),
              REFUSED,
            );
        const bare = given.map((arg) => (arg instanceof Options ? undefined : arg));
        // Where options are required, that they are missing may be said first.
        await note(`${name}.${method}, no options`, call(of(world), method, bare), REFUSED);
      }
    for (const [name, tool] of tools)
      await note(
        `tools.${name}`,
        tool.execute(toolArguments[name as keyof typeof toolArguments] as never),
      );
    expect(codes).toEqual({});
  });

  test("what a closed store still answers can be asked for without an error", async () => {
    const world = await openWorld(address());
    await world.hold.close();
    for (const { of, calls, still = [] } of surfaces)
      for (const method of still)
        await call(of(world), method, plain(calls[method]?.(world) ?? []));
  });

  test("followers that wait when the store is closed come to their end, and new ones throw CLOSED", async () => {
    const world = await openWorld(address());
    const waiting = world.hold.sessions
      .events("free", { after: world.checkpoint.id })
      [Symbol.asyncIterator]();
    const next = waiting.next();
    const before = world.hold.sessions.events("free");
    const rows = world.hold.export();
    await world.hold.close();
    expect(await next).toEqual({ done: true, value: undefined });
    for (const iterable of [before, rows, world.hold.sessions.events("free"), world.hold.export()])
      await expect(iterable[Symbol.asyncIterator]().next()).rejects.toMatchObject({
        code: "CLOSED",
      });
  });
});

const toolArguments = {
  agent_save: { id: "x" },
  agent_load: { id: "agent" },
  agent_delete: { id: "agent" },
  agent_list: {},
  conversation_save: { id: "free", messages: [] },
  conversation_load: { id: "free" },
  conversation_file: { id: "free", digest: "none" },
  conversation_delete: { id: "free" },
  conversation_list: {},
  conversation_search: { query: "kelp" },
  checkpoint_create: { session: "free" },
  checkpoint_restore: { id: "0000000000000000-1" },
  checkpoint_list: { session: "free" },
  checkpoint_delete: { id: "0000000000000000-1" },
  checkpoint_fork: { id: "0000000000000000-1", as: "fork" },
  checkpoint_diff: { from: "0000000000000000-1", to: "0000000000000000-1" },
  persistence_stats: {},
};
