/**
 * Loading never reads more than about twice what it returns, however much has been overwritten or
 * compacted away.
 */
import { afterEach, describe, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { Holdfast } from "../../../src/holdfast.js";
import { open } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { Store } from "../../../src/store/index.js";
import { thisMachine } from "../../../src/store/machine.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const { slackBytes } = baseTuning;
afterEach(() => {
  baseTuning.slackBytes = slackBytes;
});

/** A store that counts the bytes it hands out. */
function counting(inner: Store): { readonly store: Store; read: number } {
  const counter = { read: 0, store: inner };
  counter.store = new Proxy(inner, {
    get(target, name: keyof Store) {
      const method = target[name];
      if (typeof method !== "function") return method;
      if (name !== "saves" && name !== "blob") return method.bind(target);
      return async (...args: never[]) => {
        const answer = await (method as (...a: never[]) => Promise<unknown>).apply(target, args);
        for (const save of Array.isArray(answer)
          ? (answer as { items: string | null; state: string | null }[])
          : []) {
          counter.read += Buffer.byteLength(save.items ?? "") + Buffer.byteLength(save.state ?? "");
        }
        if (answer instanceof Uint8Array) counter.read += answer.length;
        return answer;
      };
    },
  });
  return counter;
}

type Work = (hold: Holdfast) => Promise<void>;

const text = (i: number, size: number) => `${i} `.padEnd(size, "kelp ");

const histories: readonly { readonly name: string; readonly work: Work }[] = [
  {
    name: "a state of 3 KB written at every step, beside short messages",
    async work(hold) {
      const session = await hold.session("a");
      for (let i = 0; i < 600; i++) {
        session.append({ role: "user", content: text(i, 200) });
        session.set("plan", text(i, 3_000));
        await session.checkpoint();
      }
    },
  },
  {
    name: "big tool results that are compacted away",
    async work(hold) {
      const session = await hold.session("a");
      for (let i = 0; i < 300; i++) {
        session.append(
          { role: "user", content: text(i, 100) },
          { role: "tool", content: text(i, 12_000) },
        );
        await session.checkpoint();
        session.splice("messages", i, 1 + 1, { role: "user", content: text(i, 100) });
        await session.checkpoint();
      }
    },
  },
  {
    name: "a transcript cut down to a summary, again and again, and then forked",
    async work(hold) {
      let session = await hold.session("a0");
      for (let i = 0; i < 900; i++) {
        session.append({ role: "assistant", content: text(i, 500) });
        const { id } = await session.checkpoint();
        if (session.messages.length > 50)
          session.splice("messages", 0, 45, { role: "system", content: "summary" });
        if (i % 300 === 299) {
          await session.checkpoint();
          session = await session.fork(session.head?.id ?? id, { id: `a${i}` });
        }
      }
      session.append({ role: "user", content: "end" });
      await session.checkpoint();
      await hold.sessions.fork(session.head?.id as string, { id: "a" });
    },
  },
];

async function readAndReturned(
  address: string,
  work: Work,
): Promise<{ readonly read: number; readonly returned: number }> {
  const counter = counting(await openStore(address));
  const hold = new Holdfast(counter.store, thisMachine(), { now: Date.now }, 30_000);
  try {
    await work(hold);
    for (const { id } of (await hold.sessions.list({ limit: 10 })).items)
      await (await hold.session(id).catch(() => undefined))?.close();
    counter.read = 0;
    const latest = await hold.checkpoints.latest("a");
    const { messages, state } = await hold.checkpoints.state(latest?.id as string);
    return { read: counter.read, returned: Buffer.byteLength(JSON.stringify({ messages, state })) };
  } finally {
    await hold.close();
  }
}

describe.each(stores)("loads on $name", ({ address }) => {
  test.each(histories)("$name: at most about twice", { timeout: 60_000 }, async ({ work }) => {
    const { read, returned } = await readAndReturned(address(), work);
    expect(read).toBeLessThan(2 * returned + slackBytes);
  });

  test("the last message of a long history reads a few saves", async () => {
    const counter = counting(await openStore(address()));
    const hold = new Holdfast(counter.store, thisMachine(), { now: Date.now }, 30_000);
    const session = await hold.session("a");
    for (let i = 0; i < 300; i++) {
      session.append({ role: "user", content: text(i, 1_000) });
      void session.checkpoint();
    }
    await session.checkpoint();
    counter.read = 0;
    expect((await session.history({ limit: 1 })).items).toHaveLength(1);
    expect(counter.read).toBeLessThan(10_000);
    counter.read = 0;
    expect((await session.history({ limit: 300 })).items).toHaveLength(300);
    expect(counter.read, "control: the whole of it").toBeGreaterThan(300_000);
    await session.close();
    await hold.close();
  });

  test("acting calls look once for the end of each line that was left", async () => {
    const at = address();
    const making = await open(at);
    const session = await making.session("a");
    const first = await session.checkpoint();
    for (let n = 0; n < 5; n++) {
      session.set("n", n);
      await session.checkpoint();
      await session.rewind(first.id);
    }
    await session.checkpoint();
    await session.close();
    await making.close();
    let ends = 0;
    const inner = await openStore(at);
    const saves: Store["saves"] = (branch, query) => {
      if (query.newestFirst && query.limit === 1) ends += 1;
      return inner.saves(branch, query);
    };
    const hold = new Holdfast(wrapped(inner, { saves }), thisMachine(), { now: Date.now }, 30_000);
    const held = await hold.session("a");
    const pay = (n: number) =>
      held.effect("pay", { n }, { mode: "once", key: `pay:${n}` }, async () => n);
    await pay(0);
    const looked = ends;
    for (let n = 1; n < 4; n++) await pay(n);
    expect(ends).toBe(looked);
    await held.close();
    await hold.close();
  });

  test("without bases the same check fails", { timeout: 60_000 }, async () => {
    baseTuning.slackBytes = Number.POSITIVE_INFINITY;
    const { read, returned } = await readAndReturned(
      address(),
      (histories[0] as { work: Work }).work,
    );
    expect(read).toBeGreaterThan(4 * returned + slackBytes);
  });
});
