/**
 * Outcomes that cannot be known: what `check` may answer, what tools may throw and answer, and that
 * a session does not end over them.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { agent, type Tool } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const trap = () => {
  throw new Error("trapped");
};
/** Every way of looking at it throws. */
const trapping = (): object =>
  new Proxy(
    {},
    Object.fromEntries(
      ["get", "has", "ownKeys", "getPrototypeOf", "getOwnPropertyDescriptor", "set"].map((name) => [
        name,
        trap,
      ]),
    ),
  );

/** What `check` may answer by mistake, and what is said of it. */
const nonsense: readonly (readonly [name: string, answer: unknown, says: string])[] = [
  ["{ retry: false }", { retry: false }, "{ retry } with a value that is not true"],
  ["{ retry: 'yes' }", { retry: "yes" }, "{ retry } with a value that is not true"],
  ["{ retry: undefined }", { retry: undefined }, "an object without a defined field"],
  ["{ output, retry: false }", { output: 1, retry: false }, 'the fields "output", "retry"'],
  ["{ output, error }", { output: 1, error: "no" }, 'the fields "output", "error"'],
  ["{ output: undefined }", { output: undefined }, "an object without a defined field"],
  ["{}", {}, "an object without a defined field"],
  ["[]", [], "an array"],
  ["{ done: true }", { done: true }, 'the field "done"'],
  ["{ error: 5 }", { error: 5 }, "{ error } with a value that is not text"],
  ["a function", () => true, "a function"],
  ["true", true, "true"],
  ["text", "yes", "a string"],
  ["a Date", new Date(0), "Date"],
];

describe.each(stores)("outcomes that are unknown, on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  test.each(nonsense)(
    "check that answers %s leaves the outcome unknown, and says why",
    async (_name, answer, says) => {
      const { hold } = on.start();
      const session = await hold.session("a");
      let made = 0;
      const check = (async () => answer) as never;
      const error = await errorOf(() =>
        session.effect("pay", {}, { mode: "once", key: "k", check }, async () => {
          made += 1;
          throw new Error("reset");
        }),
      );
      expect(made).toBe(1);
      expect(error).toMatchObject({
        code: "IN_DOUBT",
        message: expect.stringContaining(says),
        cause: { message: "reset" },
      });
      expect(session.status).toBe("in-doubt");
      expect(await session.unfinished()).toMatchObject([
        { status: "in-doubt", why: expect.stringContaining(says) },
      ]);
    },
  );

  test("check that answers a result beside an undefined error has said the result", async () => {
    const session = await on.start().hold.session("a");
    const check = (async () => ({ output: 1, error: undefined, retry: undefined })) as never;
    expect(
      await session.effect("pay", {}, { mode: "once", key: "k", check }, () =>
        Promise.reject(new Error("reset")),
      ),
    ).toBe(1);
  });

  test.each(["once", "keyed"] as const)(
    "a %s call whose result cannot be kept was made, and is not made again under its key",
    async (mode) => {
      const first = on.start();
      const session = await first.hold.session("a");
      let made = 0;
      const pay = (async () => ({ at: new Date(++made) })) as never;
      const check = (async () => ({ output: { at: new Date(0) } })) as never;
      for (let i = 0; i < 2; i++)
        await expect(
          session.effect("pay", {}, { mode, key: "k", check }, pay),
        ).rejects.toMatchObject({
          code: "INVALID_VALUE",
          message: expect.stringContaining("Date is not JSON"),
        });
      const reset = () => Promise.reject(new Error("reset"));
      for (let i = 0; i < 2; i++)
        await expect(
          session.effect("pay", {}, { mode, key: "c", check, retry: { attempts: 1 } }, reset),
        ).rejects.toMatchObject(coded("INVALID_VALUE"));
      first.kill();
      const again = await on.start().hold.session("a");
      for (const key of ["k", "c"])
        await expect(
          again.effect("pay", {}, { mode, key }, () => expect.fail("made again")),
        ).rejects.toMatchObject(coded("INVALID_VALUE"));
      expect(made).toBe(1);
      await again.complete();
    },
  );

  test("in the loop, the model that asks again is told that the call was made", async () => {
    let made = 0;
    const pay: Tool = {
      mode: "once",
      key: () => "pay:ana",
      run: (() => ({ at: new Date(++made) })) as never,
    };
    const clerk = agent({
      name: "clerk",
      model: script(asks(["pay", {}, "1"]), asks(["pay", {}, "2"]), "done"),
      tools: { pay },
    });
    const { hold } = on.start();
    expect(await hold.bind(clerk).run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toBe(1);
    const { messages } = await hold.sessions.state("a");
    expect(
      JSON.stringify(messages).split("The call was made, but its output could not be kept").length,
    ).toBe(3);
  });

  test("a session does not end over a call whose outcome is unknown", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    const inside = door();
    void session.effect("pay", {}, { mode: "once", key: "k" }, () => {
      inside.open();
      return new Promise<string>(() => {});
    });
    await inside.opened;
    await expect(session.complete("all paid")).rejects.toMatchObject(coded("BAD_STATUS"));
    first.kill();
    const { hold } = on.start();
    const again = await hold.session("a");
    for (const end of [
      () => again.complete("all paid"),
      () => again.fail("no"),
      () => again.halt("no"),
    ])
      await expect(end()).rejects.toMatchObject({
        code: expect.stringMatching(/IN_DOUBT|BAD_STATUS/),
      });
    await again.close({ discard: true });
    const { items } = await hold.effects.list({ status: "in-doubt" });
    expect(items).toMatchObject([{ sessionId: "a", name: "pay" }]);
    await hold.effects.settle(items[0]?.effectId as string, { output: "paid" });
    const last = await hold.session("a");
    await last.complete("all paid");
    expect(last.status).toBe("completed");
  });

  test("a session does not end over a keyed call either, and the call can be made again under its key", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    const inside = door();
    const o = { mode: "keyed", key: "k" } as const;
    void session.effect("pay", {}, o, () => {
      inside.open();
      return new Promise<string>(() => {});
    });
    await inside.opened;
    first.kill();
    const again = await on.start().hold.session("a");
    await expect(again.complete()).rejects.toMatchObject({
      code: "IN_DOUBT",
      message: expect.stringContaining('under its key "k"'),
    });
    expect(await again.effect("pay", {}, o, async () => "paid")).toBe("paid");
    await again.complete();
  });
});

describe("what cannot be read", () => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on("memory:");
  });
  afterEach(() => on.close());

  const throwing = {
    throws: () => {
      throw trapping();
    },
    "throws later": async () => {
      throw trapping();
    },
  };

  test.each(Object.entries(throwing))(
    "a call by hand that %s a trapping Proxy is in doubt; a repeatable one throws",
    async (_name, run) => {
      const session = await on.start().hold.session("a");
      for (const mode of ["once", "keyed"] as const) {
        const o = { mode, key: mode, retry: { attempts: 1 } } as const;
        await expect(session.effect("pay", {}, o, run as never)).rejects.toMatchObject(
          coded("IN_DOUBT"),
        );
      }
      expect(
        await errorOf(() => session.effect("look", {}, { mode: "repeatable" }, run as never)),
      ).toMatchObject({
        message: "It threw a value that cannot be read.",
      });
    },
  );

  test.each(["keyed", "once"] as const)(
    "a %s tool that answers one is made once, and is in doubt until check says more",
    async (mode) => {
      const session = await on.start().hold.session("a");
      let made = 0;
      const run = (() => {
        made += 1;
        return trapping();
      }) as never;
      await expect(session.effect("pay", {}, { mode, key: "k" }, run)).rejects.toMatchObject(
        coded("IN_DOUBT"),
      );
      expect(made).toBe(1);
      const check = (() => trapping()) as never;
      await expect(session.effect("pay", {}, { mode, key: "k", check }, run)).rejects.toMatchObject(
        coded("IN_DOUBT"),
      );
      expect(made).toBe(1);
    },
  );

  const cases: readonly (readonly [string, Tool])[] = [
    [
      "a once tool that throws one",
      { mode: "once", run: () => Promise.reject(trapping() as Error) },
    ],
    [
      "a keyed tool that throws one",
      { mode: "keyed", retry: { attempts: 1 }, run: () => Promise.reject(trapping() as Error) },
    ],
    ["a once tool that answers one", { mode: "once", run: (() => trapping()) as never }],
    ["a keyed tool that answers one", { mode: "keyed", run: (() => trapping()) as never }],
    [
      "a check that answers one",
      {
        mode: "once",
        run: () => Promise.reject(new Error("reset")),
        check: (() => trapping()) as never,
      },
    ],
    [
      "a check that throws one",
      {
        mode: "once",
        run: () => Promise.reject(new Error("reset")),
        check: () => Promise.reject(trapping() as Error),
      },
    ],
  ];
  test.each(cases)(
    "in the loop, %s leaves the session in doubt, and the process alive",
    async (_name, tool) => {
      let made = 0;
      const run: Tool["run"] = (input, context) => {
        made += 1;
        return tool.run(input, context);
      };
      const clerk = agent({
        name: "clerk",
        model: script(asks(["pay", {}]), "done"),
        tools: { pay: { ...tool, run } as Tool },
      });
      expect(await on.start().hold.bind(clerk).run("a", "go")).toMatchObject({
        status: "in-doubt",
      });
      expect(made).toBe(1);
    },
  );

  test("a repeatable tool that throws one is an error that the model is told", async () => {
    const look: Tool = { mode: "repeatable", run: () => Promise.reject(trapping() as Error) };
    const clerk = agent({
      name: "clerk",
      model: script(asks(["look", {}]), "done"),
      tools: { look },
    });
    expect(await on.start().hold.bind(clerk).run("a", "go")).toMatchObject({
      status: "completed",
      output: "done",
    });
  });

  test("a model that throws one fails the turn", async () => {
    const clerk = agent({
      name: "clerk",
      modelRetry: { attempts: 1 },
      model: () => Promise.reject(trapping() as Error),
    });
    const result = await on.start().hold.bind(clerk).run("a", "go");
    expect(result).toMatchObject({
      status: "failed",
      error: { message: "It threw a value that cannot be read." },
    });
  });
});
