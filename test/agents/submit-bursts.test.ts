/** Many turns submitted to one session: a submit does not read all turns that wait, and the bound holds (WAITING-1). */
import { expect, test } from "vitest";
import { Holdfast } from "../../src/holdfast.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import { scriptedModel } from "../../src/testing/index.js";
import { stores } from "../support/stores.js";
import { wrapped } from "../support/wrapped.js";

const local = stores.filter(({ name }) => name === "memory" || name === "sqlite");

test.each(local)("a thousand submits read few letters, and one more is refused, on $name", async ({ address }) => {
  const store = await openStore(address());
  let letters = 0;
  const counting = wrapped(store, {
    inbox: async (session, query) => {
      const found = await store.inbox(session, query);
      letters += found.length;
      return found;
    },
  });
  const hold = new Holdfast(counting, thisMachine(), { now: Date.now }, 30_000, { indexed: false });
  const agent = hold.agent({ name: "a", model: scriptedModel(["done"]) });
  for (let i = 0; i < 1_000; i++) await agent.submit("s", "go", { key: `k${i}` });
  // 0 + 50 + 100 + … + 950: one count after every fifty. Each submit that counts would read half a million.
  expect(letters).toBeLessThanOrEqual(10_000);
  await expect(agent.submit("s", "go")).rejects.toMatchObject({ code: "TOO_LARGE", details: { limit: 1_000 } });
  await agent.submit("another", "go");
  await hold.close();
});
