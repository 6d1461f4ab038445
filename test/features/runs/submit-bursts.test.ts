/**
 * Many turns submitted to one session: a submit does not read all turns that wait, and the bound
 * holds (INBOXLIMIT-1, INBOXLIMIT-2).
 */
import { expect, test } from "vitest";
import { inboxText } from "../../../src/engine/records/rows.js";
import { Holdfast } from "../../../src/holdfast.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const local = stores.filter(({ name }) => name === "memory" || name === "sqlite");

test.each(local)(
  "a thousand submits read few letters, and one more is refused, on $name",
  async ({ address }) => {
    const store = await openStore(address());
    let letters = 0;
    const counting = wrapped(store, {
      inbox: {
        list: async (session, query) => {
          const found = await store.inbox.list(session, query);
          letters += found.length;
          return found;
        },
      },
    });
    const hold = new Holdfast(counting, thisMachine(), { now: Date.now }, 30_000, {
      indexed: false,
    });
    const agent = hold.agent({ name: "a", model: scriptedModel(["done"]) });
    for (let i = 0; i < 1_000; i++) await agent.submit("s", "go", { key: `k${i}` });
    // 0 + 50 + 100 + … + 950: one count after every fifty. Each submit that counts would read half
    // a million.
    expect(letters).toBeLessThanOrEqual(10_000);
    await expect(agent.submit("s", "go")).rejects.toMatchObject({
      code: "TOO_LARGE",
      details: { limit: 1_000 },
    });
    await agent.submit("another", "go");
    await hold.close();
  },
);

test.each(local)(
  "of turns that are submitted at the same moment, a thousand wait; a person is still heard, on $name",
  async ({ address }) => {
    const hold = new Holdfast(
      await openStore(address()),
      thisMachine(),
      { now: Date.now },
      30_000,
      { indexed: false },
    );
    const agent = hold.agent({
      name: "a",
      model: scriptedModel([
        { content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] },
        "Paid.",
      ]),
      tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
    });
    expect(await agent.run("s", "pay")).toMatchObject({ status: "waiting" });
    const sent = await Promise.allSettled(
      Array.from({ length: 1_200 }, (_, i) => agent.submit("s", `turn ${i}`)),
    );
    expect(sent.filter(({ status }) => status === "fulfilled")).toHaveLength(1_000);
    await hold.sessions.cancel("s");
    expect((await hold.sessions.get("s"))?.status).toBe("cancelled");
    await hold.close();
  },
);

test("a letter is seen behind more turns than may wait: other processes have passed the bound", async () => {
  const store = await openStore("memory:");
  const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000, { indexed: false });
  const session = await hold.session("s");
  await session.checkpoint();
  for (let i = 0; i < 2_100; i++)
    await store.inbox.post("s", {
      id: `t${i}`,
      text: inboxText({ kind: "turn", turn: `t${i}`, input: "go" }),
      due: 0,
    });
  await session.close();
  await hold.sessions.cancel("s");
  expect((await hold.sessions.get("s"))?.status).toBe("cancelled");
  await hold.close();
});
