/**
 * Two callers on one store, with one of them stopped at an await while the other runs: every such
 * order is legal between processes, so every one must leave a sound store.
 */

import { afterEach, describe, expect, test } from "vitest";
import { Holdfast } from "../../../src/holdfast.js";
import { type HoldfastError, type Session } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { Store } from "../../../src/store/index.js";
import { thisMachine } from "../../../src/store/machine.js";
import { type Call, through } from "../../support/failures/wrapped.js";
import { eachNth, runs } from "../../support/runs.js";
import { stores } from "../../support/stores.js";

type Hooks = Partial<Record<`${"before" | "after"} ${Call}`, () => Promise<void>>>;

const code = (expected: string) =>
  expect.objectContaining({ code: expected }) as unknown as HoldfastError;

/** Runs each hook the first time its moment comes. */
function hooked(store: Store, hooks: Hooks): Store {
  const once = async (moment: keyof Hooks) => {
    const hook = hooks[moment];
    delete hooks[moment];
    await hook?.();
  };
  return through(store, async (name, call) => {
    await once(`before ${name}`);
    const answer = await call();
    await once(`after ${name}`);
    return answer;
  });
}

describe.each(stores)("interleavings on $name", ({ address }) => {
  const opened: Holdfast[] = [];
  afterEach(async () => {
    for (const hold of opened.splice(0)) await hold.close().catch(() => {});
  });
  const on = (store: Store) => {
    const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
    opened.push(hold);
    return hold;
  };
  /** The one who is not stopped, and a way to make one who is, on the same store. */
  const two = async () => {
    const store = await openStore(address());
    return { free: on(store), stopped: (hooks: Hooks) => on(hooked(store, hooks)) };
  };

  /** A state that is written anew at every step, so that pruning has something to drop. */
  const work = async (session: Session, steps: number) => {
    const made = [];
    for (let i = 0; i < steps; i++) {
      session.append({ role: "user", content: `${i}` });
      session.set("k", `${i} `.padEnd(2_500, "x"));
      made.push((await session.checkpoint(`${i}`)).id);
    }
    return made;
  };

  const isSound = async (hold: Holdfast) => {
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    for (const { id: session } of (await hold.sessions.list({ limit: 100 })).items) {
      for (const { id } of (await hold.checkpoints.list(session, { limit: 1000, branches: "all" }))
        .items)
        await hold.checkpoints.state(id);
    }
  };

  test("saves that land while a line is pruned are kept", { timeout: 30_000 }, async () => {
    for (const moment of [
      "before branches",
      "after branches",
      "before saves",
      "after saves",
      "before reclaim.replace",
      "after reclaim.replace",
    ] as const) {
      const { free, stopped } = await two();
      const session = await free.session("a");
      await work(session, runs(20, 60));
      const pruning = stopped({
        [moment]: async () => {
          await work(session, 20);
        },
      });
      await pruning.checkpoints.prune("a", { keep: 2 });
      await session.close();
      await isSound(free);
      expect((await free.session("a")).messages).toHaveLength(runs(40, 80));
    }
  });

  test("a fork that is begun in the middle of a prune loads, or is refused", {
    timeout: 30_000,
  }, async () => {
    for (const moment of eachNth(2, [
      "after branches",
      "before reclaim.replace",
      "after reclaim.replace",
    ] as const)) {
      const { free, stopped } = await two();
      const session = await free.session("a");
      const made = await work(session, 450);
      await session.close();
      const answers: unknown[] = [];
      const pruning = stopped({
        [moment]: async () => {
          for (const n of [3, 205, 440])
            answers.push(
              await free.sessions
                .fork(made[n] as string, { id: `f${n}` })
                .catch((error: HoldfastError) => error.code),
            );
        },
      });
      await pruning.checkpoints.prune("a", { keep: 3 });
      expect(answers).toHaveLength(3);
      await isSound(free);
    }
  });

  test("a prune that is cut short leaves nothing listed that does not load", async () => {
    for (const steps of eachNth(3, [2, 0, 5])) {
      const { free, stopped } = await two();
      const session = await free.session("a");
      await work(session, 450);
      await session.close();
      let left = steps;
      const cut = async (): Promise<void> => {
        if (left-- === 0) throw new Error("killed");
        hooks["before reclaim.replace"] = cut;
      };
      const hooks: Hooks = { "before reclaim.replace": cut };
      await stopped(hooks)
        .checkpoints.prune("a", { keep: 3 })
        .catch(() => {});
      await isSound(free);
    }
  });

  test("two prunes at once leave a sound line", { timeout: 30_000 }, async () => {
    for (const moment of eachNth(4, [
      "before reclaim.replace",
      "after branches",
      "after saves",
      "after reclaim.replace",
    ] as const)) {
      const { free, stopped } = await two();
      const session = await free.session("a");
      await work(session, 300);
      await session.close();
      const pruning = stopped({
        [moment]: async () => {
          await free.checkpoints.prune("a", { keep: 1 });
        },
      });
      await pruning.checkpoints.prune("a", { keep: 130 });
      await isSound(free);
      expect((await free.checkpoints.list("a")).items).toHaveLength(1);
    }
  });

  test("D5: no epoch is given twice, also where a session is made and deleted while another is made", async () => {
    const { free, stopped } = await two();
    let old: Session | undefined;
    const liveAndDie = async () => {
      const fork = old === undefined ? "f" : "g";
      old = await free.session("a");
      old.set("who", "old");
      await free.sessions.fork((await old.checkpoint()).id, { id: fork });
      await free.sessions.delete("a");
    };
    // Once before it is first tried, and once more when it has learnt of that and is about to try
    // again.
    const hooks: Hooks = {
      "after session": async () => {
        await liveAndDie();
        hooks["after session"] = liveAndDie;
      },
    };
    const late = stopped(hooks);
    const young = await late.session("a");
    young.set("who", "young");
    await young.checkpoint();
    expect([old?.epoch, young.epoch]).toEqual([2, 3]);
    await expect(old?.complete("z")).rejects.toEqual(code("STALE_LEASE"));
    await young.close();
    expect((await free.session("a")).state).toEqual({ who: "young" });
  });

  test("nothing is staged or saved while a session goes to another line", async () => {
    const { free } = await two();
    const session = await free.session("a");
    const [first] = await work(session, 3);
    const going = session.rewind(first as string);
    expect(() => session.append({ role: "user", content: "lost?" })).toThrow(code("BAD_STATUS"));
    await expect(session.checkpoint()).rejects.toEqual(code("BAD_STATUS"));
    await going;
    session.append({ role: "user", content: "after" });
    await session.checkpoint();
    await session.close();
    expect((await free.session("a")).messages.map(({ content }) => content)).toEqual([
      "0",
      "after",
    ]);
  });

  test("a cancel is not lost where the holder closes before it looked", async () => {
    const { free, stopped } = await two();
    const session = await free.session("a");
    await stopped({}).sessions.cancel("a", "enough");
    await session.close();
    expect(await free.sessions.get("a")).toMatchObject({ status: "cancelled", reason: "enough" });
  });

  test("verify does not accuse a store whose holder goes on meanwhile", async () => {
    for (const moment of [
      "after anchors",
      "after branches",
      "after saves",
      "after sessions",
    ] as const) {
      const { free, stopped } = await two();
      const session = await free.session("a");
      await work(session, 5);
      const verifying = stopped({
        [moment]: async () => {
          await work(session, 5);
          await session.complete();
          await session.close();
        },
      });
      expect(await verifying.verify()).toMatchObject({ ok: true, findings: [] });
    }
  });

  test.each([
    ["saves", async (_free: Holdfast, session: Session) => void (await session.checkpoint())],
    [
      "sessions of one save",
      async (free: Holdfast, _: Session, n: number) => {
        const made = await free.session(`s${n}`);
        await made.checkpoint();
        await made.close();
      },
    ],
    [
      "sessions that are only opened",
      async (free: Holdfast, _: Session, n: number) => (await free.session(`s${n % 9}`)).close(),
    ],
  ])("%s that follow each other without end let timers run", async (_, again) => {
    const { free } = await two();
    const session = await free.session("a");
    // A disk or a machine that is slow may hold up one of them for long. But once a timer is late,
    // it is not made to wait for many more.
    let late = 0;
    let most = 0;
    let ran = performance.now();
    const timer = setInterval(() => {
      late = 0;
      ran = performance.now();
    }, 5);
    const start = ran;
    for (let n = 0; n < 60 || performance.now() - start < 300; n++) {
      await again(free, session, n);
      if (performance.now() - ran > 75) late += 1;
      most = Math.max(most, late);
    }
    clearInterval(timer);
    expect(most).toBeLessThanOrEqual(20);
  });

  test("a holder whose session was deleted, and made again by others under its name, forks what a fork has kept", async () => {
    const { free, stopped } = await two();
    const session = await free.session("a", { agent: "mine" });
    session.append({ role: "user", content: "of the deleted one" });
    const { id } = await session.checkpoint();
    await free.sessions.fork(id, { id: "keeps it" });
    const other = stopped({});
    await other.sessions.delete("a");
    await other.session("a", { agent: "theirs" });
    const kept = { agent: "mine", forkPoint: { sessionId: "keeps it", checkpointId: id } };
    await (await session.fork(id, { id: "by the holder" })).close();
    expect(await free.sessions.get("by the holder")).toMatchObject(kept);
    expect(await free.sessions.fork(id, { id: "by another" })).toMatchObject(kept);
    for (const fork of ["keeps it", "by the holder", "by another"])
      await free.sessions.delete(fork);
    await expect(session.fork(id, { id: "stolen" })).rejects.toEqual(code("NOT_FOUND"));
    await expect(free.sessions.fork(id, { id: "stolen" })).rejects.toEqual(code("NOT_FOUND"));
  });

  test("a fork of a removed checkpoint says which one is not there", async () => {
    const { free } = await two();
    const session = await free.session("a");
    const [, second] = await work(session, 2);
    await free.checkpoints.delete(second as string);
    await expect(session.fork(second as string, { id: "b" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      details: { checkpointId: second },
    });
  });

  test("a session that is deleted while a list is put together is not called damaged", async () => {
    const { free, stopped } = await two();
    for (const id of ["a", "b"]) await work(await free.session(id), 1);
    const listing = stopped({
      "after sessions": async () => void (await free.sessions.delete("a")),
    });
    expect((await listing.sessions.list()).damaged).toBeUndefined();
    expect((await listing.sessions.list()).items.map(({ id }) => id)).toEqual(["b"]);
  });

  test("a cancel reaches a holder at its next save, however slow it is", async () => {
    const { free, stopped } = await two();
    const session = await free.session("a");
    await session.checkpoint();
    await stopped({}).sessions.cancel("a", "stop");
    await new Promise((resolve) => setTimeout(resolve, 250));
    await session.checkpoint();
    await expect.poll(() => session.signal.aborted).toBe(true);
    await expect(session.checkpoint()).rejects.toEqual(code("BAD_STATUS"));
  });
});
