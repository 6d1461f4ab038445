/**
 * What happens at the edges: in the moment between two things, with code of an author's that fails,
 * and with much of everything.
 */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Telemetry } from "../../../src/engine/journal/telemetry.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import {
  type Holdfast,
  HoldfastError,
  type ToolContext,
  type WorkerOptions,
} from "../../../src/index.js";
import { thisMachine } from "../../../src/store/machine.js";
import { MemoryStore } from "../../../src/store/memory.js";
import { type Call, through } from "../../support/failures/wrapped.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** An agent whose call runs another, which waits for somebody's word. */
function withChild(hold: Holdfast) {
  const child = hold.agent({
    name: "child",
    model: script(asks(["act", {}])),
    tools: { act: { mode: "keyed", approval: true, run: () => 1 } },
  });
  return hold.agent({
    name: "bot",
    model: script(asks(["sub", {}])),
    tools: {
      sub: { mode: "repeatable", run: async (_, { run }) => (await run(child, "go")).status },
    },
  });
}

describe.each(stores.filter(({ name }) => name === "sqlite" || name === "postgres"))(
  "edges on $name",
  ({ address }) => {
    let on: Processes;
    beforeEach(async () => {
      on = await Processes.on(address());
    });
    afterEach(() => on.close());
    const worker = (hold: Holdfast, o: WorkerOptions) =>
      hold.worker({ pollMs: 50, onSigterm: false, ...o });

    test("a worker that has just started knows the store's clock: nobody asks about its calls before their time is up", async () => {
      let checks = 0;
      const inside = door();
      const botOf = (hold: Holdfast) =>
        hold.agent({
          name: "bot",
          model: script(asks(["act", {}])),
          tools: {
            act: {
              mode: "once",
              timeoutMs: 30_000,
              run: () => {
                inside.open();
                return new Promise(() => {});
              },
              check: () => {
                checks += 1;
                return undefined;
              },
            },
          },
        });
      await botOf(on.start().hold).submit("a", "go");
      const first = on.start({ leaseMs: 200 });
      void worker(first.hold, { agents: [botOf(first.hold)], leaseMs: 200 }).drain({
        maxMs: 60_000,
      });
      await inside.opened;
      first.lose();
      const stop = new AbortController();
      const second = botOf(on.start().hold).resume("a", { signal: stop.signal });
      await pause(700);
      stop.abort();
      await second;
      expect(checks).toBe(0);
    });
  },
);

/** A file that is not stored: an answer that only looks like one. */
const picture = {
  type: "file",
  mediaType: "image/png",
  data: { digest: "A".repeat(43), size: 3 },
} as never;

type Way = (go: () => unknown) => unknown;

/** A process on a store in memory, of which some calls go another way. */
function caught(ways: Partial<Record<Call, Way>>, telemetry?: Telemetry): Holdfast {
  const store = through(new MemoryStore(), (name, go) => ways[name]?.(go) ?? go());
  return new Opened(store, thisMachine(), { now: Date.now }, 30_000, telemetry && { telemetry });
}

describe("edges", () => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on("memory:");
  });
  afterEach(() => on.close());
  const worker = (hold: Holdfast, o: WorkerOptions) =>
    hold.worker({ pollMs: 50, onSigterm: false, ...o });

  test("a call whose child was stopped is gone on with at once: it is not taken for one that is still under way", async () => {
    const { hold } = on.start();
    const asked = door();
    let blocks = true;
    const child = hold.agent({
      name: "child",
      model: async () => {
        if (!blocks) return { content: "done" };
        asked.open();
        return new Promise<never>(() => {});
      },
    });
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["sub", {}])),
      tools: {
        sub: {
          mode: "keyed",
          timeoutMs: 60_000,
          run: async (_, { run }) => (await run(child, "go")).status,
        },
      },
    });
    const stop = new AbortController();
    const first = bot.run("a", "go", { signal: stop.signal });
    await asked.opened;
    stop.abort();
    expect(await first).toMatchObject({ status: "stopped" });
    blocks = false;
    expect(await Promise.race([bot.resume("a"), pause(2_000)])).toMatchObject({
      status: "completed",
    });
  });

  test("a parent does not sleep over what came for its child while that was ending", async () => {
    let isDecided = false;
    const hold = caught(
      {},
      {
        async around(operation, go) {
          const result = await go(() => {});
          if (operation.type === "run" && operation.agent === "child" && !isDecided) {
            isDecided = true;
            const [pending] = (await hold.effects.list({ status: "waiting" })).items;
            await hold.effects.approve(pending?.effectId ?? "");
            await pause(20);
          }
          return result;
        },
      },
    );
    const bot = withChild(hold);
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    await hold.close();
  });

  test("what a call did is not taken for saved where a file that its message names could not be read", async () => {
    let reads = 0;
    let saved: number | undefined;
    const hold = caught({
      blob: () => {
        reads += 1;
        if (reads === 1) throw new HoldfastError("BUSY", "Not now.");
        return undefined;
      },
    });
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}]), async () => {
        saved = (await hold.checkpoints.latest("a"))?.messageCount;
        return "done";
      }),
      tools: { act: { mode: "once", run: () => 1, toModel: () => [picture] } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect({ reads, saved }).toEqual({ reads: 2, saved: 3 });
    await hold.close();
  });

  test("a checkpoint is placed also behind an answer that looks like a file", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["look", {}])),
      tools: { look: { mode: "repeatable", run: () => 1, toModel: () => [picture] } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(
      (await hold.checkpoints.list("a")).items.map(({ messageCount }) => messageCount),
    ).toEqual([4, 3]);
  });

  test("a strategy that throws does not lose what a call did", async () => {
    const { hold } = on.start();
    let fails = true;
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["act", {}])),
      tools: { act: { mode: "once", run: () => 1 } },
      checkpoint: ({ event }) => {
        if (event === "tool" && fails) throw new Error("no idea");
        return false;
      },
    });
    await expect(bot.run("a", "go")).rejects.toThrow("no idea");
    fails = false;
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
  });

  test.each<[string, () => unknown]>([
    ["nothing", () => undefined],
    ["a promise", async () => "later"],
    ["a number that is none", () => Number.NaN],
    ["a big number", () => 5n],
    ["a text with half a character", () => "\ud800"],
  ])("what toModel gives does not lose what a call did: %s", async (_name, toModel) => {
    const { hold } = on.start();
    const model = script(asks(["act", {}]));
    const bot = hold.agent({
      name: "bot",
      model,
      tools: { act: { mode: "once", run: () => 17, toModel: toModel as never } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    // The result itself is told instead.
    expect(model.requests[1]?.messages.at(-1)?.content).toMatchObject([{ output: 17 }]);
  });

  test("a call that was denied is not asked about again for its twin in the same reply", async () => {
    const { hold } = on.start();
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", { n: 1 }, "x"], ["pay", { n: 1 }, "y"])),
      tools: { pay: { mode: "keyed", approval: true, key: () => "one", run: () => 1 } },
    });
    const first = await bot.run("a", "go");
    const [pending, ...others] = first.status === "waiting" ? first.pending : [];
    expect(others).toEqual([]);
    await hold.effects.deny(pending?.effectId ?? "", { reason: "no" });
    expect(await bot.resume("a")).toMatchObject({ status: "completed" });
  });

  test("a schema that throws is an answer to the model, not the end of the run", async () => {
    const { hold } = on.start();
    const json = () => ({ type: "object" });
    const validate = () => {
      throw new Error("no idea");
    };
    const input = {
      "~standard": {
        version: 1,
        vendor: "mine",
        jsonSchema: { input: json, output: json },
        validate,
      },
    } as const;
    const model = script(asks(["look", {}]));
    const bot = hold.agent({
      name: "bot",
      model,
      tools: { look: { mode: "repeatable", input, run: () => 1 } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(model.requests[1]?.messages.at(-1)?.content).toMatchObject([
      { outcome: "error", output: expect.stringContaining("no idea") },
    ]);
  });

  test("another agent does not take part in a run that is not its own", async () => {
    const { hold } = on.start();
    const asked = door();
    const goOn = door();
    const own = hold.agent({
      name: "own",
      model: async () => {
        asked.open();
        await goOn.opened;
        return { content: "mine" };
      },
    });
    const other = hold.agent({ name: "other", model: script() });
    const first = own.run("s", "hi");
    await asked.opened;
    await expect(other.run("s", "hi")).rejects.toMatchObject(coded("CONFLICT"));
    await expect(other.run("s", "ho", { ifBusy: "queue" })).rejects.toMatchObject(
      coded("CONFLICT"),
    );
    goOn.open();
    expect(await first).toMatchObject({ status: "completed", output: "mine" });
  });

  test("another input is rejected also where a worker of this process is at the turn", async () => {
    const { hold } = on.start();
    const asked = door();
    const goOn = door();
    const bot = hold.agent({
      name: "bot",
      model: async () => {
        asked.open();
        await goOn.opened;
        return { content: "done" };
      },
    });
    await bot.submit("s", "hi");
    const works = worker(hold, { agents: [bot] });
    await works.start();
    await asked.opened;
    const other = bot.run("s", "ho").catch((error: unknown) => error);
    const same = bot.run("s", "hi");
    expect(await Promise.race([other, pause(1_000)])).toMatchObject(coded("TURN_OPEN"));
    goOn.open();
    expect(await same).toMatchObject({ status: "completed", output: "done" });
    await works.stop();
  });

  test("a submitted turn whose message names a file that is not stored fails, too", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script() });
    const gone = {
      type: "file",
      mediaType: "image/png",
      data: { digest: "A".repeat(43), sizeBytes: 3 },
    } as never;
    const turn = await bot.submit("s", [gone]);
    const works = worker(hold, { agents: [bot] });
    await works.start();
    expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining("not stored") },
    });
    await works.stop();
  });

  test("a submitted turn whose message cannot be appended fails once, and is not tried again and again", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script() });
    await bot.run("s", { role: "user", id: "m", content: "one" });
    const turn = await bot.submit("s", {
      role: "user",
      id: "m",
      content: "another under the same id",
    });
    const works = worker(hold, { agents: [bot] });
    await works.start();
    expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({
      status: "failed",
      error: { message: expect.stringContaining('"m"') },
    });
    await pause(200);
    expect(works.stats().failed).toBe(1);
    expect(await (await bot.submit("s", "the next")).result({ timeoutMs: 1_000 })).toMatchObject({
      status: "completed",
    });
    await works.stop();
  });

  test("waiting for a turn that has not begun does not read the session's past", async () => {
    let reads = 0;
    const hold = caught({
      saves: () => {
        reads += 1;
        return undefined;
      },
    });
    const bot = hold.agent({ name: "bot", model: script() });
    for (let i = 0; i < 200; i++) await bot.run("s", `turn ${i}`);
    const turn = await bot.submit("s", "later", { atMs: Date.now() + 1_000_000 });
    reads = 0;
    await expect(turn.result({ timeoutMs: 0 })).rejects.toMatchObject(coded("BUSY"));
    expect(reads).toBeLessThan(3);
    await hold.close();
  });

  test("a name for a child that is too long is refused before the child is noted, and says how long it may be", async () => {
    const { hold } = on.start();
    const child = hold.agent({ name: "child", model: script() });
    const model = script(asks(["sub", {}]));
    const bot = hold.agent({
      name: "bot",
      model,
      tools: {
        sub: { mode: "repeatable", run: (_, { run }) => run(child, "go", { as: "n".repeat(190) }) },
      },
    });
    expect(await bot.run("s", "go")).toMatchObject({ status: "completed" });
    expect(model.requests[1]?.messages.at(-1)?.content).toMatchObject([
      { output: expect.stringMatching(/^run\.as: .* bytes at most/) },
    ]);
  });

  test("children without a name that are begun in another order after a kill are refused, and act once", async () => {
    const paid: string[] = [];
    const both = door();
    let order = ["ana", "bob"];
    const desk = (hold: Holdfast, stays: boolean) => {
      const payer = hold.agent({
        name: "payer",
        model: async ({ messages }) => {
          const to = JSON.stringify(messages[0]?.content).includes("ana") ? "ana" : "bob";
          return messages.length === 1 ? asks(["pay", { to }]) : { content: `paid ${to}` };
        },
        tools: { pay: { mode: "once", run: ({ to }: { to: string }) => paid.push(to) } },
      });
      const run = async (_input: unknown, context: ToolContext) => {
        for (const name of order) await context.run(payer, name);
        both.open();
        return stays ? new Promise<string>(() => {}) : "done";
      };
      return hold.agent({
        name: "desk",
        model: script(asks(["all", {}]), "done"),
        tools: { all: { mode: "repeatable", run } },
      });
    };
    const first = on.start();
    void desk(first.hold, true).run("s", "go");
    await both.opened;
    first.kill();
    order = ["bob", "ana"];
    const { hold } = on.start();
    await desk(hold, false).run("s", "go");
    expect(paid).toEqual(["ana", "bob"]);
    expect(JSON.stringify((await hold.sessions.state("s")).messages)).toContain(
      "Give each a name: { as }",
    );
  });

  test("a child that was given a name is never one that was counted, nor one of another name", async () => {
    const { hold } = on.start();
    const names = ["1", "2", "#2", "2/1", "/2", "as:2", "as:as:2", ":2", "3"];
    const ran: (readonly [as: string | undefined, session: string])[] = [];
    const grandchild = hold.agent({ name: "grandchild", model: script("small") });
    const child = hold.agent({
      name: "child",
      model: script(asks(["sub", {}])),
      tools: {
        sub: {
          mode: "repeatable",
          run: async (_, { run }) => (await run(grandchild, "go", { as: "1" })).sessionId,
        },
      },
    });
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["sub", {}])),
      tools: {
        sub: {
          mode: "repeatable",
          run: async (_, { run }) => {
            for (const as of [undefined, ...names, undefined, undefined, "1"])
              ran.push([
                as,
                (await run(child, `for ${as}`, as === undefined ? {} : { as })).sessionId,
              ]);
          },
        },
      },
    });
    expect(await bot.run("s", "go")).toMatchObject({ status: "completed" });
    expect(ran).toHaveLength(names.length + 4);
    const distinct = new Set(ran.map(([, session]) => session));
    expect(distinct.size).toBe(names.length + 3);
    // The same name again is the same child.
    expect(ran.at(-1)).toEqual(ran[1]);
    const ids = (await hold.sessions.list({ agent: "child", limit: 100 })).items.map(
      ({ id }) => id,
    );
    expect(ids.toSorted()).toEqual([...distinct].toSorted());
    // A child of a child belongs to a call of its own: the same name is another session.
    expect((await hold.sessions.list({ agent: "grandchild", limit: 100 })).items).toHaveLength(
      names.length + 3,
    );
    await hold.sessions.delete("s");
    expect((await hold.sessions.list({ limit: 100 })).items).toEqual([]);
  });

  test("a listener that gives back nothing, or swallows an error, changes nothing", async () => {
    const hold = caught(
      {},
      {
        async around(_operation, go) {
          await go(() => {}).catch(() => {});
          return undefined as never;
        },
      },
    );
    expect(await hold.agent({ name: "bot", model: script("well") }).run("a", "go")).toMatchObject({
      status: "completed",
      output: "well",
    });
    const failing = async () => {
      throw new Error("away");
    };
    const bad = hold.agent({ name: "bad", model: failing, modelRetry: { attempts: 1 } });
    expect(await bad.run("b", "go")).toMatchObject({
      status: "failed",
      error: { message: "away" },
    });
    await hold.close();
  });

  test("runs leave nothing behind on a signal that outlives them", async () => {
    const { hold } = on.start();
    const model = script();
    const bot = hold.agent({ name: "bot", model });
    const { signal } = new AbortController();
    let listeners = 0;
    const listen = signal.addEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof listen>) => {
      listeners += 1;
      listen(...args);
    };
    for (let i = 0; i < 3; i++) await bot.run("a", `turn ${i}`, { signal });
    expect(listeners).toBe(1);
    // Those that are made of others are kept by these until they are collected, and a trace of them
    // longer.
    const sources = Object.getOwnPropertySymbols(signal).find(
      (name) => name.description === "kDependantSignals",
    );
    expect(
      sources === undefined
        ? 0
        : (((signal as never)[sources] as Set<unknown> | undefined)?.size ?? 0),
    ).toBe(0);
  });

  test("many calls in one reply, and many runs under one signal, do not look like a leak", async () => {
    const warnings: string[] = [];
    const warned = ({ name }: Error) => warnings.push(name);
    process.on("warning", warned);
    const { hold } = on.start();
    const many = Array.from({ length: 20 }, (_, i) => i);
    const bot = hold.agent({
      name: "bot",
      model: script(asks(...many.map((n) => ["act", { n }] as const))),
      tools: { act: { mode: "keyed", run: () => pause(1).then(() => 1) } },
    });
    const { signal } = new AbortController();
    await Promise.all(many.map((n) => bot.run(`s${n}`, "go", { signal })));
    await bot.run("alone", "go");
    await pause(10);
    process.off("warning", warned);
    expect(warnings).toEqual([]);
  });

  test("a worker that is stopped while it starts is stopped, and can be started again", async () => {
    const { hold } = on.start();
    const bot = hold.agent({ name: "bot", model: script() });
    const works = worker(hold, { agents: [bot] });
    const starting = works.start();
    await works.stop();
    await starting;
    const turn = await bot.submit("s", "hi");
    await expect(turn.result({ timeoutMs: 150 })).rejects.toMatchObject(coded("BUSY"));
    await works.start();
    expect(await turn.result({ timeoutMs: 1_000 })).toMatchObject({ status: "completed" });
    await works.stop();
  });

  test("a stop waits also for what was being claimed when it came", async () => {
    const claiming = door();
    const goOn = door();
    let isFirst = true;
    const hold = caught({
      "claims.claim": (go) => {
        if (isFirst) return go();
        claiming.open();
        return goOn.opened.then(go);
      },
    });
    const bot = hold.agent({
      name: "bot",
      model: async () => pause(50).then(() => ({ content: "done" })),
    });
    const works = worker(hold, { agents: [bot] });
    await works.start();
    isFirst = false;
    const turn = await bot.submit("s", "hi");
    await claiming.opened;
    const stopped = works.stop();
    goOn.open();
    await stopped;
    expect(works.stats().running).toBe(0);
    expect(await turn.result({ timeoutMs: 0 })).toMatchObject({ status: "completed" });
    await hold.close();
  });

  test("a child that an interrupted call waited for is cancelled: nobody would run it any more", async () => {
    const { hold } = on.start();
    const bot = withChild(hold);
    expect(await bot.run("s", "go")).toMatchObject({ status: "waiting" });
    const [pending] = (await hold.effects.list({ status: "waiting", agent: "child" })).items;
    expect(await bot.run("s", "never mind", { ifBusy: "interrupt" })).toMatchObject({
      status: "completed",
    });
    expect((await hold.effects.list({ status: "waiting" })).items).toEqual([]);
    expect((await hold.sessions.get(pending?.sessionId ?? ""))?.status).toBe("cancelled");
  });
});
