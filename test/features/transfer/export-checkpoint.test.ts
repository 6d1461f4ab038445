/**
 * One checkpoint exported alone: the imported session stands there, and nothing that came after is
 * in the stream.
 */
import { afterEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { type Checkpoint, open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { run } from "../../cli/command.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { forged, lookAtAll, rowsOf } from "../../support/moving.js";
import { coded } from "../../support/processes.js";
import { scratch, stores } from "../../support/stores.js";

const holds: Holdfast[] = [];
afterEach(async () => {
  for (const hold of holds.splice(0)) await hold.close();
});
const keep = (hold: Holdfast): Holdfast => {
  holds.push(hold);
  return hold;
};
const at = async (address: string): Promise<Holdfast> =>
  keep(await open(address, { search: false }));

/** Says something and places a checkpoint. What comes after the exported one says LATER. */
async function say(
  hold: Holdfast,
  id: string,
  ...texts: readonly string[]
): Promise<readonly string[]> {
  const session = await hold.session(id, { agent: "ann" });
  const ids: string[] = [];
  for (const text of texts) {
    session.append(
      { role: "user", content: text },
      { role: "assistant", content: `${text} ${"x".repeat(9_000)}` },
    );
    session.set("said", [text, ...((session.state["said"] as string[] | undefined) ?? [])]);
    ids.push((await session.checkpoint(text)).id);
  }
  await session.close();
  return ids;
}

/**
 * By what was done to the session: the checkpoint to export, and what its import into its own store
 * answers.
 */
const situations: Readonly<
  Record<string, (hold: Holdfast) => Promise<{ readonly id: string; readonly again?: "conflict" }>>
> = {
  "the middle of a session": async (hold) => ({
    id: (await say(hold, "a", "one", "two", "LATER"))[1] as string,
  }),
  "the end of a session": async (hold) => ({
    id: (await say(hold, "a", "one", "two"))[1] as string,
  }),
  "the first checkpoint, before there are words": async (hold) => {
    const session = await hold.session("a", { agent: "ann" });
    const { id } = await session.checkpoint();
    await session.close();
    await say(hold, "a", "LATER");
    return { id };
  },
  "a redacted checkpoint": async (hold) => {
    const [, id = ""] = await say(hold, "a", "one", "two LATER", "LATER");
    await hold.sessions.redact("a", "LATER", { scrub: false });
    return { id };
  },
  "a pruned past": async (hold) => {
    const ids = await say(hold, "a", "one", "two", "three", "four", "LATER");
    await hold.checkpoints.prune("a", { keep: 2 });
    return { id: ids[3] as string };
  },
  "a line that was left": async (hold) => {
    const [first = "", second = ""] = await say(hold, "a", "one", "two", "LATER");
    await hold.sessions.rewind("a", first);
    await say(hold, "a", "LATER");
    return { id: second };
  },
  "a line behind a rewind": async (hold) => {
    const [first = ""] = await say(hold, "a", "one", "LATER");
    await hold.sessions.rewind("a", first);
    return { id: (await say(hold, "a", "another way", "LATER"))[0] as string };
  },
  "a fork whose past belongs to another session": async (hold) => {
    const [, second = ""] = await say(hold, "a", "one", "two", "LATER");
    await hold.sessions.fork(second, { id: "f" });
    return { id: (await say(hold, "f", "in f", "LATER"))[0] as string };
  },
  "a past that a fork inherited": async (hold) => {
    const [first = "", second = ""] = await say(hold, "a", "one", "LATER", "LATER");
    await hold.sessions.fork(second, { id: "f" });
    await hold.sessions.delete("a");
    await say(hold, "f", "LATER");
    // The session of this store does not own the line.
    return { id: first, again: "conflict" };
  },
  "a session that came back from a snapshot": async (hold) => {
    const [first = ""] = await say(hold, "a", "one", "LATER");
    const { id } = await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    await hold.agents.restore(id);
    return { id: first, again: "conflict" };
  },
};

describe.each(stores)("out of $name", ({ name: store, address }) => {
  const names = Object.keys(situations);
  test.each(store === "memory" || store === "sqlite" ? names : names.slice(-2))(
    "%s",
    async (name) => {
      const source = await at(address());
      const { id, again } = await (situations[name] as (typeof situations)[string])(source);
      const there = await source.checkpoints.state(id);
      const before = await lookAtAll(source);
      const rows = await rowsOf(source.export({ checkpoint: id }));
      expect(rows.join("")).not.toContain("LATER");

      const target = await at(store === "memory" ? "memory:" : address());
      const session = there.checkpoint.sessionId;
      expect((await target.import(rows, { dryRun: true })).sessions).toEqual([
        { id: session, outcome: "imported" },
      ]);
      expect((await target.import(rows)).sessions).toEqual([{ id: session, outcome: "imported" }]);
      const { messages, state, status, session: made } = await target.sessions.state(session);
      expect({ messages, state, status }).toEqual({
        messages: there.messages,
        state: there.state,
        status: there.status,
      });
      expect(made).toMatchObject({ id: session, agent: "ann" });
      expect(await target.checkpoints.latest(session)).toEqual(there.checkpoint);
      expect((await target.sessions.list()).items).toHaveLength(1);
      expect(await target.verify()).toMatchObject({ ok: true });
      expect((await target.import(rows)).sessions).toEqual([{ id: session, outcome: "known" }]);
      // It goes on there.
      await say(target, session, "goes on");
      await target.gc();
      expect(await target.verify()).toMatchObject({ ok: true });
      expect((await target.import(rows)).sessions).toEqual([{ id: session, outcome: "known" }]);
      expect((await target.sessions.state(session)).messages).toHaveLength(messages.length + 2);

      // Where there is more of the session, nothing is cut back.
      const report = await source.import(rows);
      if (again === "conflict")
        expect(report.conflicts).toMatchObject([{ id: session, code: "CONFLICT" }]);
      else expect(report.sessions).toEqual([{ id: session, outcome: "known" }]);
      expect(await lookAtAll(source)).toEqual(before);
      expect(await source.verify()).toMatchObject({ ok: true });
    },
  );
});

test("what is asked for must be one thing, and there", async () => {
  const hold = await at("memory:");
  const [id = ""] = await say(hold, "a", "one");
  const first = (filter: object) =>
    hold
      .export(filter as never)
      [Symbol.asyncIterator]()
      .next();
  await expect(first({ checkpoint: id, session: "a" })).rejects.toMatchObject(
    coded("INVALID_OPTION"),
  );
  await expect(first({ checkpoint: 5 })).rejects.toMatchObject(coded("INVALID_ID"));
  for (const unknown of ["a", `${id}0`])
    await expect(first({ checkpoint: unknown })).rejects.toMatchObject(coded("NOT_FOUND"));
});

describe("calls that are open at the checkpoint", () => {
  interface Tool {
    readonly mode: "once" | "keyed";
    readonly approval?: true;
  }
  const made = (hold: Holdfast, acts: string[], tool: Tool) =>
    hold.agent({
      name: "clerk",
      checkpoint: "after-model",
      model: scriptedModel([
        { content: "", toolCalls: [{ callId: "1", name: "pay", input: { euros: 5 } }] },
        "Paid.",
      ]),
      tools: { pay: { ...tool, run: () => (acts.push("pay"), { receipt: "R-1" }) } },
    });
  /**
   * The source runs the call to its end. Answers the rows of the first, or the last, checkpoint at
   * which the call is open.
   */
  const opened = async (tool: Tool, which: "first" | "last" = "first") => {
    const source = await at("memory:");
    const acts: string[] = [];
    const clerk = made(source, acts, tool);
    let result = await clerk.run("job", "Pay Ana.");
    if (result.status === "waiting") {
      await source.effects.approve(result.pending[0]?.effectId as string, { by: "ana" });
      result = await clerk.resume("job");
    }
    expect(result).toMatchObject({ status: "completed" });
    expect(acts).toEqual(["pay"]);
    const open = (await source.checkpoints.list("job")).items.filter(
      ({ messageCount }) => messageCount === 2,
    );
    const { id } = open.at(which === "first" ? -1 : 0) as Checkpoint;
    return { acts, rows: await rowsOf(source.export({ checkpoint: id })) };
  };
  const goOn = async (hold: Holdfast, acts: string[], tool: Tool) => {
    const clerk = made(hold, acts, tool);
    const stopped = await clerk.resume("job");
    // The session may go on where it comes from: a person has to say that it may go on here.
    expect(stopped).toMatchObject({ status: "in-doubt", pending: [{ name: "(imported)" }] });
    await hold.effects.settle(
      (stopped.status === "in-doubt" && stopped.pending[0]?.effectId) as string,
      { retry: true },
    );
    return clerk.resume("job");
  };

  const tools: readonly Tool[] = [
    { mode: "once" },
    { mode: "keyed" },
    { mode: "once", approval: true },
  ];
  test.each(tools)("%j: its outcome comes along, and it is not made again", async (tool) => {
    for (const moved of [false, true]) {
      const { acts, rows } = await opened(tool);
      const target = await at("memory:");
      // It has gone on where it comes from: that it was moved is not believed.
      await target.import(rows, { moved });
      expect(await goOn(target, acts, tool)).toMatchObject({
        status: "completed",
        output: "Paid.",
      });
      expect(acts).toEqual(["pay"]);
      expect(JSON.stringify((await target.sessions.state("job")).messages)).toContain("R-1");
      expect(await target.verify()).toMatchObject({ ok: true });
    }
  });

  test("one that was approved and not begun is in doubt, and not made again", async () => {
    const tool = { mode: "once", approval: true } as const;
    const { acts, rows } = await opened(tool, "last");
    const target = await at("memory:");
    await target.import(rows, { moved: true });
    const stopped = await made(target, acts, tool).resume("job");
    expect(stopped).toMatchObject({
      status: "in-doubt",
      pending: [{ name: "pay" }, { name: "(imported)" }],
    });
    expect(acts).toEqual(["pay"]);
  });

  test("an import that was killed before the outcomes were posted brings them when it is run again", async () => {
    const { acts, rows } = await opened({ mode: "once" });
    const store = await openStore("memory:");
    const killed = new Holdfast(
      wrapped(store, { inbox: { post: () => Promise.reject(new Error("killed")) } }),
      thisMachine(),
      { now: Date.now },
      30_000,
    );
    await expect(killed.import(rows)).rejects.toThrow("killed");
    const target = keep(new Holdfast(store, thisMachine(), { now: Date.now }, 30_000));
    expect((await target.import(rows)).sessions).toEqual([{ id: "job", outcome: "known" }]);
    expect(await goOn(target, acts, { mode: "once" })).toMatchObject({ status: "completed" });
    expect(acts).toEqual(["pay"]);
  });

  test("letters that tell anything but an outcome are refused", async () => {
    const { rows } = await opened({ mode: "once" });
    const target = await at("memory:");
    for (const letter of [{ id: "late:x:1", text: "{}" }, { id: "late:x:1" }, "late"]) {
      const other = forged(rows, (all) =>
        all.map((row) => ("session" in row ? { ...row, inboxMessages: [letter as never] } : row)),
      );
      await expect(target.import(other)).rejects.toMatchObject(coded("CORRUPT"));
    }
    expect((await target.sessions.list()).items).toEqual([]);
  });

  test("a call without a recorded outcome is in doubt", async () => {
    const source = await at("memory:");
    const session = await source.session("job", { agent: "clerk" });
    const call = session.effect(
      "pay",
      {},
      { mode: "once", key: "k" },
      () => new Promise<string>(() => {}),
    );
    call.catch(() => {});
    await expect.poll(async () => (await session.unfinished()).length).toBe(1);
    const { id } = await session.checkpoint();
    const target = await at("memory:");
    await target.import(source.export({ checkpoint: id }));
    const there = await target.session("job");
    let made = 0;
    await expect(
      there.effect("pay", {}, { mode: "once", key: "k" }, () => `${(made += 1)}`),
    ).rejects.toMatchObject(coded("IN_DOUBT"));
    expect(made).toBe(0);
    await there.close();
    await session.close({ discard: true }).catch(() => {});
  });
});

test("the command line exports one checkpoint by the names that it knows checkpoints by", async () => {
  const cwd = scratch();
  const hold = await open(`${cwd}/state.db`, { search: false });
  const [, second = ""] = await say(hold, "a", "one", "two", "LATER");
  await hold.close();
  const env = { cwd };
  const exported = await run(
    ["export", "--checkpoint", second, "--store", "state.db", "-o", "one.jsonl"],
    env,
  );
  expect(exported).toMatchObject({ exit: 0, stdout: expect.stringMatching(/^1 session, /) });
  const imported = await run(
    ["import", "holdfast", "one.jsonl", "--store", "other.db", "--json"],
    env,
  );
  expect(JSON.parse(imported.stdout)).toMatchObject({
    sessions: [{ id: "a", outcome: "imported" }],
  });
  expect(
    await run(["export", "a", "--checkpoint", second, "--store", "state.db"], env),
  ).toMatchObject({ exit: 2 });
  expect(
    await run(["export", "--checkpoint", "nothing", "--store", "state.db", "-o", "two.jsonl"], env),
  ).toMatchObject({ exit: 3 });
});

test("D8 no session is read whole before its first row", async () => {
  const store = await openStore("memory:");
  let rows = 0;
  const counting = wrapped(store, {
    saves: async (line, query) => {
      const found = await store.saves(line, query);
      if (query.items) rows += found.length;
      return found;
    },
  });
  const hold = keep(
    new Holdfast(counting, thisMachine(), { now: Date.now }, 30_000, { indexed: false }),
  );
  const session = await hold.session("a");
  for (let i = 0; i < 1_000; i++) {
    session.append({ role: "user", content: `${i}` });
    await session.checkpoint();
  }
  await session.close();
  const { id } = (await hold.checkpoints.latest("a")) as Checkpoint;
  rows = 0;
  const exported = await rowsOf(hold.export({ checkpoint: id }));
  expect(exported.length).toBeGreaterThan(1_000);
  // Each save once, and a page in which the words of its title are looked for.
  expect(rows).toBeLessThanOrEqual(1_200);
});
