/** What the kills of desk-kills.test.ts and crew-kills.test.ts have found, each in its shortest form. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { openStore } from "../../src/open.js";
import type { Store } from "../../src/testing/index.js";
import { asking, holdOf, never } from "./two-holders.js";

type Run = (agent: object, input: string) => Promise<{ readonly status: string }>;

/** A desk whose one tool runs an aide, whose one tool is given. */
function desk(store: Store, tool: object, mode = "repeatable") {
  const aide = asking("aide", { post: tool }, { name: "post" });
  const delegate = { mode, run: async (_args: unknown, { run }: { run: Run }) => (await run(aide, "go")).status };
  return holdOf(store).agent(asking("desk", { delegate }, { name: "delegate" }));
}

test("whoever opens a session whose call was killed while it ran a child can let go of it, though the child has gone on", async () => {
  const store = await openStore("memory:");
  void desk(store, { mode: "once", run: never }).run("a", "go");
  await sleep(30);
  const hold = holdOf(store);
  await hold.cancel("a");
  const session = await hold.session("a");
  expect(await Promise.race([session.close(), sleep(2_000, "does not end")])).toBeUndefined();
  expect(await store.inbox("a", { dueBy: 0, limit: 10 })).toEqual([]);
});
