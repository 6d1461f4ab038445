/**
 * What is done, and whose answer is lost: nobody goes on as if it were not, or does it to another.
 */
import { describe, expect, test } from "vitest";
import { Holdfast } from "../../src/holdfast.js";
import { HoldfastError } from "../../src/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { MemoryStore } from "../../src/store/memory.js";
import type { Change } from "../../src/store/port/changes.js";
import type { Store } from "../../src/store/port.js";
import { errorOf } from "../support/error-of.js";
import { wrapped } from "../support/failures/wrapped.js";
import { asks, script } from "../support/processes.js";

describe("answers that were lost", () => {
  /** A store that does what it is told, and then says that it cannot be reached. */
  function losing(inner: Store, loses: (changes: readonly Change[]) => boolean): Store {
    return wrapped(inner, {
      async apply(changes) {
        const applied = await inner.apply(changes);
        if (loses(changes)) throw new HoldfastError("UNREACHABLE", "The connection was lost.");
        return applied;
      },
    });
  }

  test("a holder that does not know which line its session is on does not go on with either", async () => {
    const inner = new MemoryStore();
    const hold = new Holdfast(
      losing(inner, ([change]) => change?.branch !== undefined && !change.when.absent),
      thisMachine(),
      { now: Date.now },
      30_000,
    );
    const session = await hold.session("a");
    session.append({ role: "user", content: "one" });
    const { id } = await session.checkpoint();
    session.append({ role: "user", content: "two" });
    await session.checkpoint();
    expect(await errorOf(() => session.rewind(id))).toMatchObject({ code: "UNREACHABLE" });
    expect(session.signal.aborted).toBe(true);
    expect(await errorOf(() => session.append({ role: "user", content: "lost" }))).toMatchObject({
      code: "UNREACHABLE",
    });
    await session.close({ discard: true });
    const again = await hold.session("a");
    expect(again.messages.map(({ content }) => content)).toEqual(["one"]);
    await hold.close();
  });

  test("a delete that is sent again does not end another session of the same name", async () => {
    const inner = new MemoryStore();
    const other = new Holdfast(inner, thisMachine(), { now: Date.now }, 30_000);
    const twice = wrapped(inner, {
      async apply(changes) {
        const applied = await inner.apply(changes);
        if (!changes[0]?.remove) return applied;
        await (await other.session("a")).close();
        return inner.apply(changes);
      },
    });
    const hold = new Holdfast(twice, thisMachine(), { now: Date.now }, 30_000);
    await (await hold.session("a")).close();
    await hold.sessions.delete("a");
    expect(await other.sessions.get("a")).toBeDefined();
    expect(await hold.sessions.delete("never was")).toMatchObject({ deleted: false });
  });

  /**
   * An agent that acts twice, once after it was approved, on a store that is away for one of its
   * writes, before it is done or after.
   */
  async function actsTwice(write: number, done: boolean) {
    const inner = new MemoryStore();
    let writes = 0;
    const orAway = async <T>(go: () => Promise<T>): Promise<T> => {
      writes += 1;
      const isAway = writes === write;
      const lost = new HoldfastError("UNREACHABLE", "The connection was lost.");
      if (isAway && !done) throw lost;
      const answer = await go();
      if (isAway) throw lost;
      return answer;
    };
    const away = wrapped(inner, {
      apply: (changes) => orAway(() => inner.apply(changes)),
      inbox: { post: (session, mail) => orAway(() => inner.inbox.post(session, mail)) },
    });
    const ledger: string[] = [];
    const hold = new Holdfast(away, thisMachine(), { now: Date.now }, 30_000);
    const act = (name: string) => () => ledger.push(name);
    const bot = hold.agent({
      name: "bot",
      model: script(asks(["pay", {}], ["look", {}]), asks(["send", {}])),
      tools: {
        pay: { mode: "keyed", run: act("pay") },
        look: { mode: "repeatable", run: () => "seen" },
        send: { mode: "once", approval: true, run: act("send") },
      },
    });
    // Whoever is told that the store was away tries again.
    const patiently = async <T>(go: () => Promise<T>): Promise<T> => {
      try {
        return await go();
      } catch (error) {
        if ((error as HoldfastError).code !== "UNREACHABLE") throw error;
        return go();
      }
    };
    let result = await patiently(() => bot.run("a", "go", { key: "k" }));
    // A run that lost its session's store in the middle says that it was stopped, and is run again.
    for (let i = 0; i < 3 && result.status !== "completed"; i++) {
      const { items } = await hold.effects.list({ status: "waiting" });
      for (const { effectId } of items) await patiently(() => hold.effects.approve(effectId));
      result = await patiently(() => bot.run("a", "go", { key: "k" }));
    }
    const session = await patiently(() => hold.session("a", { waitMs: 1_000 }));
    const roles = session.messages.map(({ role }) => role);
    await session.close();
    await hold.close().catch(() => {});
    return { status: result.status, ledger, roles, writes };
  }

  const right = {
    status: "completed",
    ledger: ["pay", "send"],
    roles: ["user", "assistant", "tool", "tool", "assistant", "tool", "assistant"],
  };

  test.each(["before it is done", "after"])(
    "an agent's run whose store is away for one write, %s: nothing is lost and nothing made twice",
    async (when) => {
      const { writes } = await actsTwice(0, false);
      expect(writes).toBeGreaterThan(8);
      for (let write = 1; write <= writes; write++)
        expect({ write, ...(await actsTwice(write, when === "after")) }).toMatchObject({
          write,
          ...right,
        });
    },
  );
});
