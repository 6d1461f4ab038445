/**
 * Decisions about one call that come at once: one stands, and whoever said something else is told
 * which.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import {
  type Holdfast,
  type HoldfastError,
  open,
  type Pending,
  type RunResult,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { post } from "../../faults/agents/agent-settle.mjs";
import { wrapped } from "../../support/failures/wrapped.js";
import { asks, coded, door, Processes, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

type Decide = (hold: Holdfast, id: string) => Promise<void>;
interface Decision {
  readonly name: string;
  readonly decide: Decide;
  /** What others are told of it. */
  readonly words: string;
  readonly details: { readonly decision: string; readonly decidedBy?: string };
}

const approvals: readonly Decision[] = [
  {
    name: "approve",
    decide: (hold, id) => hold.effects.approve(id, { by: "ana" }),
    words: 'was already approved by "ana"',
    details: { decision: "approved", decidedBy: "ana" },
  },
  {
    name: "approve with another input",
    decide: (hold, id) => hold.effects.approve(id, { by: "ben", input: { sum: 1 } }),
    words: 'was already approved by "ben", with the input {"sum":1}',
    details: { decision: "approved", decidedBy: "ben" },
  },
  {
    name: "deny",
    decide: (hold, id) => hold.effects.deny(id, { by: "cem", reason: "too much" }),
    words: 'was already denied by "cem": "too much"',
    details: { decision: "denied", decidedBy: "cem" },
  },
];
const settlements: readonly Decision[] = [
  {
    name: "settle with an output",
    decide: (hold, id) => hold.effects.settle(id, { by: "dan", output: { paid: 5 } }),
    words: 'was already settled by "dan", with the output {"paid":5}',
    details: { decision: "output", decidedBy: "dan" },
  },
  {
    name: "settle with another output",
    decide: (hold, id) => hold.effects.settle(id, { output: "paid" }),
    words: 'was already settled, with the output "paid"',
    details: { decision: "output" },
  },
  {
    name: "settle with an error",
    decide: (hold, id) => hold.effects.settle(id, { by: "eve", error: "it failed" }),
    words: 'was already settled by "eve", with the error "it failed"',
    details: { decision: "error", decidedBy: "eve" },
  },
  {
    name: "settle to be made again",
    decide: (hold, id) => hold.effects.settle(id, { by: "fay", retry: true }),
    words: 'was already settled by "fay": it is to be made again',
    details: { decision: "retry", decidedBy: "fay" },
  },
];

const pairsOf = (all: readonly Decision[]) =>
  all.flatMap((one, i) => all.slice(i).map((other) => [one, other] as const));
const pendingIn = (result: RunResult): readonly Pending[] =>
  result.status === "waiting" || result.status === "in-doubt"
    ? result.pending
    : expect.fail(result.status);

/** An agent that asks for so many payments at once. */
const payer = (hold: Holdfast, count: number, approval: boolean, made: unknown[] = []) =>
  hold.agent({
    name: "payer",
    model: script(
      asks(...Array.from({ length: count }, (_, n) => ["pay", { sum: 5, n }] as const)),
    ),
    tools: {
      pay: {
        mode: "once",
        approval,
        run: (input) => {
          made.push(input);
          if (!approval) throw new Error("gateway timeout");
          return "paid";
        },
      },
    },
  });

describe.each(stores)("decisions on $name", ({ traits, address }) => {
  let on: Processes;
  let handles: readonly Holdfast[];
  beforeEach(async () => {
    const at = address();
    on = await Processes.on(traits.durable ? "memory:" : at);
    handles = traits.durable
      ? [await open(at), await open(at)]
      : [on.start().hold, on.start().hold];
  });
  afterEach(async () => {
    if (traits.durable) for (const hold of handles) await hold.close();
    await on.close();
  });

  describe.each([
    ["waits for approval", [...approvals, ...settlements], true],
    ["is in doubt", settlements, false],
  ] as const)("about a call that %s", (_what, decisions, approval) => {
    test.each([
      ["from one process", 0],
      ["from two", 1],
    ] as const)(
      "all pairs at once, %s: one stands, and the other is told which",
      async (_how, second) => {
        const pairs = pairsOf(decisions);
        const [hold, other] = [handles[0], handles[second]] as [Holdfast, Holdfast];
        const pending = pendingIn(await payer(hold, pairs.length, approval).run("a", "go"));
        expect(pending).toHaveLength(pairs.length);
        const ends = await Promise.all(
          pairs.map(([one, two], i) => {
            const id = pending[i]?.effectId as string;
            return Promise.allSettled([one.decide(hold, id), two.decide(other, id)]);
          }),
        );
        for (const [i, [one, two]] of pairs.entries()) {
          const [first, last] = ends[i] as [PromiseSettledResult<void>, PromiseSettledResult<void>];
          const about = `${one.name}, ${two.name}: ${JSON.stringify([first, last])}`;
          if (one === two) {
            expect([first.status, last.status], about).toEqual(["fulfilled", "fulfilled"]);
            continue;
          }
          const [winner, lost] = first.status === "fulfilled" ? [one, last] : [two, first];
          expect([first.status, last.status].toSorted(), about).toEqual(["fulfilled", "rejected"]);
          const reason = (lost as PromiseRejectedResult).reason as HoldfastError;
          expect(reason, about).toMatchObject({
            ...coded("CONFLICT"),
            details: { effectId: pending[i]?.effectId, ...winner.details },
          });
          expect(reason.message, about).toContain(winner.words);
        }
      },
    );
  });

  test("the decision that stands is the one that counts, and the same again, by another, resolves", async () => {
    const made: unknown[] = [];
    const [hold, other] = handles as [Holdfast, Holdfast];
    const bot = payer(hold, 2, true, made);
    const [first, second] = pendingIn(await bot.run("a", "go")).map(({ effectId }) => effectId) as [
      string,
      string,
    ];
    await Promise.all([
      hold.effects.approve(first, { by: "ana" }),
      other.effects.approve(first, { by: "ben" }),
    ]);
    const ends = await Promise.allSettled([
      hold.effects.deny(second, { reason: "no" }),
      other.effects.approve(second),
    ]);
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toHaveLength(ends[1]?.status === "fulfilled" ? 2 : 1);
  });
});

describe("decisions, one after the other", () => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on("memory:");
  });
  afterEach(() => on.close());

  test("while another process holds the session, the first letter stands before it is taken in", async () => {
    const first = on.start();
    const semaphore = door<string>();
    const bot = first.hold.agent({
      name: "bot",
      model: script(asks(["pay", {}], ["slow", {}])),
      tools: {
        pay: { mode: "once", approval: true, run: () => "paid" },
        slow: { mode: "once", run: () => semaphore.opened },
      },
    });
    const run = bot.run("a", "go");
    const { hold } = on.start();
    let id = "";
    await expect
      .poll(async () => {
        id = (await hold.effects.list({ status: "waiting" })).items[0]?.effectId ?? "";
        return id;
      })
      .not.toBe("");
    await hold.effects.deny(id, { by: "ana", reason: "too much" });
    await hold.effects.deny(id, { by: "ana", reason: "too much" });
    await expect(hold.effects.approve(id, { by: "ben" })).rejects.toMatchObject({
      ...coded("CONFLICT"),
      message: `The call "${id}" of "pay" was already denied by "ana": "too much". This decision does not count.`,
    });
    semaphore.open("done");
    const result = await run;
    expect(result.status === "completed" ? result : await bot.run("a", "go")).toMatchObject({
      status: "completed",
    });
  });

  test("a call that has gone on says which decision it went on with", async () => {
    const { hold } = on.start();
    const { id } = await repeated(hold);
    await hold.effects.deny(id, { by: "ana", reason: "twice is enough" });
    await hold.effects.deny(id, { by: "ana", reason: "twice is enough" });
    await expect(hold.effects.approve(id)).rejects.toMatchObject({
      ...coded("CONFLICT"),
      message: expect.stringContaining('denied by "ana": "twice is enough"'),
      details: { decision: "denied", decidedBy: "ana" },
    });
  });

  test("each doubt is a new decision: settled to be made again, and in doubt once more, it is settled anew", async () => {
    const { hold } = on.start();
    const bot = payer(hold, 1, false);
    for (const as of [{ retry: true }, { retry: true }, { output: "paid" }] as const) {
      const [pending] = pendingIn(await bot.run("a", "go"));
      await hold.effects.settle(pending?.effectId as string, as);
    }
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
  });

  test("a cancel wins over an approval, whichever comes first: nothing is made any more", async () => {
    const { hold } = on.start();
    const made: unknown[] = [];
    const bot = payer(hold, 1, true, made);
    for (const id of ["a", "b"]) {
      const effect = pendingIn(await bot.run(id, "go"))[0]?.effectId as string;
      const both = [
        () => hold.sessions.cancel(id),
        () => hold.effects.approve(effect).catch(() => {}),
      ];
      await Promise.all((id === "a" ? both : both.toReversed()).map((act) => act()));
      expect(await hold.sessions.get(id)).toMatchObject({ status: "cancelled" });
      await bot.run(id, "go");
    }
    expect(made).toEqual([]);
  });
});

/** A session that waits because it would do the same again, and whoever holds it has let go. */
async function repeated(
  hold: Holdfast,
): Promise<{ readonly id: string; readonly before: string; readonly waits: string }> {
  const session = await hold.session("a");
  const before = await session.checkpoint();
  const pay = () => session.effect("pay", {}, { mode: "once", key: "k" }, async () => "paid");
  await pay();
  await session.rewind(before.id);
  const { details } = (await pay().catch((error: unknown) => error)) as HoldfastError;
  const waits = await session.checkpoint();
  await session.close();
  return { id: details.effectId as string, before: before.id, waits: waits.id };
}

describe("decisions that come second", () => {
  /** A store; `before` is done once, before the next decision is posted. */
  const opened = async () => {
    const store = await openStore("memory:");
    const next: { before?: (() => Promise<unknown>) | undefined } = {};
    const late = wrapped(store, {
      inbox: {
        post: async (session, mail) => {
          const { before } = next;
          if (mail.id.startsWith("decide:")) next.before = undefined;
          if (mail.id.startsWith("decide:")) await before?.();
          return store.inbox.post(session, mail);
        },
      },
    });
    return {
      store,
      next,
      hold: new Opened(late, thisMachine(), { now: Date.now }, 30_000) as Holdfast,
    };
  };

  test.each([
    ["the same words resolve", { output: "paid" }, undefined],
    ["others are told of it", { error: "never" }, 'was already over, with the output "paid"'],
  ] as const)("after what the call itself has answered too late: %s", async (_what, as, words) => {
    for (const isHeld of [false, true]) {
      const { store, next, hold } = await opened();
      const id = pendingIn(await payer(hold, 1, false).run("a", "go"))[0]?.effectId as string;
      // Whoever holds it does not look into its mail just now.
      const holder = new Opened(store, thisMachine(), { now: Date.now }, 30_000) as Holdfast;
      const session = isHeld ? await holder.session("a") : undefined;
      next.before = () =>
        post(
          store,
          "a",
          { kind: "late", effectId: id, attempt: 1, as: { output: "paid" } },
          `late:${id}:1`,
        );
      const settled = hold.effects.settle(id, as);
      if (words === undefined) await settled;
      else
        await expect(settled).rejects.toMatchObject({
          ...coded("CONFLICT"),
          message: expect.stringContaining(words),
        });
      await session?.close();
      await hold.close();
    }
  });

  test("after a signal: the call has gone on, and a denial is told so; while it waits anew, it can be denied", async () => {
    const { store, next, hold } = await opened();
    const agent = hold.agent({
      name: "waiter",
      model: script(asks(["ask", {}])),
      tools: {
        ask: {
          mode: "keyed",
          run: async (_input, { wait }) => [await wait("one"), await wait("two")] as never,
        },
      },
    });
    const id = pendingIn(await agent.run("a", "go"))[0]?.effectId as string;
    next.before = () => post(store, "a", { kind: "signal", name: "one", value: 1 });
    await expect(hold.effects.deny(id, { reason: "no" })).rejects.toMatchObject({
      ...coded("CONFLICT"),
      message: expect.stringContaining("has gone on"),
    });
    expect(await agent.run("a", "go")).toMatchObject({
      status: "waiting",
      pending: [{ waitsFor: { for: "signal", name: "two" } }],
    });
    await hold.effects.deny(id, { reason: "no" });
    expect(await agent.run("a", "go")).toMatchObject({ status: "completed" });
    await hold.close();
  });

  test("after the session has left the line: it decides nothing, and can be made when the session is back", async () => {
    const { next, hold } = await opened();
    const { id, before, waits } = await repeated(hold);
    next.before = () => hold.sessions.rewind("a", before);
    await expect(hold.effects.deny(id, { reason: "no" })).rejects.toMatchObject(coded("CONFLICT"));
    await hold.sessions.switchBranch("a", waits);
    expect(await hold.sessions.get("a")).toMatchObject({ status: "waiting" });
    await hold.effects.deny(id, { reason: "no" });
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
    await hold.close();
  });
});

test("a decision is looked for back to the call's intent, and no further: saves before it are no hole", async () => {
  const on = await Processes.on("memory:");
  const { hold } = on.start();
  const session = await hold.session("a");
  for (let i = 0; i < 3; i++) await session.checkpoint();
  let id = "";
  await session.effect("pay", {}, { mode: "once", key: "k" }, async () => {
    id = (await session.unfinished())[0]?.effectId as string;
    return "paid";
  });
  await session.close();
  // It was over before anyone decided: what it answered stands.
  await expect(hold.effects.settle(id, { error: "no" })).rejects.toMatchObject({
    code: "CONFLICT",
    details: { decision: "output" },
  });
  await hold.effects.settle(id, { output: "paid" });
  await on.close();
});
