/**
 * What the kills of agent-kills.test.ts have found, each in its shortest form. One process, two
 * holders: the second takes the first for dead.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { NotDone } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { Store } from "../../../src/store/index.js";
import { clerk, entered, holdOf, inDoubt } from "../../support/two-holders.js";

test("a call that does no harm is over when it is answered", async () => {
  const store = await openStore("memory:");
  const bound = clerk(store, { lookup: { mode: "repeatable", run: () => 1 } }, { name: "lookup" });
  expect((await bound.run("a", "go")).status).toBe("completed");
  const session = await holdOf(store).session("a");
  expect(await session.unfinished()).toEqual([]);
});

test("that a second attempt did nothing says nothing of the first", async () => {
  const said = [new Error("socket hang up"), new NotDone("refused"), new NotDone("refused")];
  const run = () => {
    throw said.shift();
  };
  const refund = { mode: "keyed", retry: { attempts: 3, backoffMs: 1 }, run };
  expect(
    inDoubt(await clerk(await openStore("memory:"), { refund }, { name: "refund" }).run("a", "go")),
  ).toEqual(["refund"]);
});

test("that an attempt before a kill may have acted is not forgotten either", async () => {
  const store = await openStore("memory:");
  const { inside, tool } = entered("keyed");
  void clerk(store, { refund: tool }, { name: "refund" }).run("a", "go");
  await inside;
  const run = () => {
    throw new NotDone("refused");
  };
  const refund = { mode: "keyed", retry: { attempts: 2, backoffMs: 1 }, run };
  expect(inDoubt(await clerk(store, { refund }, { name: "refund" }).run("a", "go"))).toEqual([
    "refund",
  ]);
});

test("two calls of one name in one reply are answered together, also after a kill", async () => {
  const store = await openStore("memory:");
  const calls = [{ name: "refund" }, { name: "refund" }];
  const { inside, tool } = entered("keyed", { key: () => "1" });
  void clerk(store, { refund: tool }, ...calls).run("a", "go");
  await inside;
  const refund = { mode: "keyed", key: () => "1", run: () => "refunded" };
  expect((await clerk(store, { refund }, ...calls).run("a", "go")).status).toBe("completed");
});

test("a call whose time is up before it could begin is not made: others may have settled it", async () => {
  const store = await openStore("memory:");
  const slow = new Proxy(store, {
    get(target, name) {
      const value = target[name as keyof Store] as unknown;
      if (name === "apply")
        return async (...[changes, docs]: Parameters<Store["apply"]>) => {
          const applied = await store.apply(changes, docs);
          if (
            changes.some(({ saves = [] }) =>
              saves.some(({ save }) => save.state?.includes('"is":"intent"')),
            )
          )
            await sleep(1_100);
          return applied;
        };
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  let made = 0;
  const post = { mode: "once", timeoutMs: 30, run: () => ++made };
  const result = await clerk(slow, { post }, { name: "post" }).run("a", "go");
  expect([result.status, made]).toEqual(["completed", 0]);
});

test("that a late attempt did nothing says nothing of one before it", async () => {
  const store = await openStore("memory:");
  const said = [
    () => Promise.reject(new Error("socket hang up")),
    () => sleep(120).then(() => Promise.reject(new NotDone("refused"))),
  ];
  const refund = {
    mode: "keyed",
    timeoutMs: 60,
    retry: { attempts: 2, backoffMs: 1 },
    run: () => said.shift()?.(),
  };
  const bound = clerk(store, { refund }, { name: "refund" });
  expect(inDoubt(await bound.run("a", "go"))).toEqual(["refund"]);
  await sleep(100);
  expect(inDoubt(await bound.run("a", "go"))).toEqual(["refund"]);
});

test("a superseded holder passes on what all of its calls answered, not only the first", async () => {
  const store = await openStore("memory:");
  const gates = new Map<string, () => void>();
  const gated = (name: string) => ({
    mode: "once",
    run: () => new Promise((resolve) => gates.set(name, () => resolve(name))),
  });
  const left = async () => (await holdOf(store).effects.list({ status: "in-doubt" })).items.length;
  const tools = { post: gated("post"), wire: gated("wire") };
  const calls = [{ name: "post" }, { name: "wire" }];
  void clerk(store, tools, ...calls).run("a", "go");
  await expect.poll(() => gates.size).toBe(2);
  const next = clerk(store, tools, ...calls);
  expect(inDoubt(await next.run("a", "go"))).toEqual(["post", "wire"]);
  gates.get("post")?.();
  await expect.poll(left).toBe(1);
  gates.get("wire")?.();
  await expect.poll(left).toBe(0);
  expect((await next.run("a", "go")).status).toBe("completed");
});
