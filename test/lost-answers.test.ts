/** What is done, and whose answer is lost: nobody goes on as if it were not, or does it to another. */
import { describe, expect, test } from "vitest";
import { HoldfastError } from "../src/index.js";
import { Holdfast } from "../src/runtime/holdfast.js";
import { thisMachine } from "../src/store/machine.js";
import { MemoryStore } from "../src/store/memory.js";
import type { Change, Store } from "../src/store/port.js";
import { errorOf } from "./support/error-of.js";

describe("answers that were lost", () => {
  /** A store that does what it is told, and then says that it cannot be reached. */
  function losing(inner: Store, loses: (changes: readonly Change[]) => boolean): Store {
    const apply: Store["apply"] = async (changes) => {
      const applied = await inner.apply(changes);
      if (loses(changes)) throw new HoldfastError("UNREACHABLE", "The connection was lost.");
      return applied;
    };
    return new Proxy(inner, {
      get: (target, name) => {
        const value: unknown = name === "apply" ? apply : target[name as keyof Store];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  test("a holder that does not know which line its session is on does not go on with either", async () => {
    const inner = new MemoryStore();
    const hold = new Holdfast(
      losing(inner, ([change]) => change?.line !== undefined && !change.when.absent),
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
    expect(await errorOf(() => session.append({ role: "user", content: "lost" }))).toMatchObject({ code: "UNREACHABLE" });
    await session.close({ discard: true });
    const again = await hold.session("a");
    expect(again.messages.map(({ content }) => content)).toEqual(["one"]);
    await hold.close();
  });

  test("a delete that is sent again does not end another session of the same name", async () => {
    const inner = new MemoryStore();
    const other = new Holdfast(inner, thisMachine(), { now: Date.now }, 30_000);
    const twice = new Proxy(inner, {
      get: (target, name) => {
        if (name === "apply")
          return async (changes: readonly Change[]) => {
            const applied = await inner.apply(changes);
            if (!changes[0]?.remove) return applied;
            await (await other.session("a")).close();
            return inner.apply(changes);
          };
        const value: unknown = target[name as keyof Store & keyof MemoryStore];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const hold = new Holdfast(twice, thisMachine(), { now: Date.now }, 30_000);
    await (await hold.session("a")).close();
    await hold.sessions.delete("a");
    expect(await other.sessions.get("a")).toBeDefined();
    expect(await errorOf(() => hold.sessions.delete("never was"))).toMatchObject({ code: "NOT_FOUND" });
  });
});
