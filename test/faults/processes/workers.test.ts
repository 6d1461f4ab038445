/**
 * Workers in processes of their own: one that is killed is taken over from, one that is told to end
 * hands back in time.
 */
import { afterEach, describe, expect, test } from "vitest";
import { agent, open } from "../../../src/index.js";
import { type Child, start } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";
import { postgresUrl } from "../../support/shared-postgres.js";

const LEASE_MS = 1_500;
const children: Child[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) await child.end();
});

async function worker(address: string, insideMs: number): Promise<Child> {
  const child = start(new URL("./worker-child.mjs", import.meta.url));
  children.push(child);
  child.tell({ address, leaseMs: LEASE_MS, insideMs });
  await child.heard((branch) => branch.started);
  return child;
}

const clerk = agent({ name: "clerk", model: async () => ({ content: "nobody asks this one" }) });

let count = 0;
const places = [
  { name: "one machine", address: () => `${fresh()}/store.db` },
  {
    name: "many machines",
    address: () =>
      `${postgresUrl()}?schema=${encodeURIComponent(`workers ${process.pid}-${++count}`)}`,
  },
];

describe.each(places)("workers, $name", ({ address }) => {
  test("a worker that is killed inside a call is taken over from within the lease, and the call is made under its key", async () => {
    const place = address();
    await using hold = await open(place);
    const first = await worker(place, 60_000);
    const turn = await hold.bind(clerk).submit("s", "go", { key: "k" });
    const begun = await first.heard((branch) => branch.inside);
    const second = await worker(place, 0);
    const killed = performance.now();
    first.signal("SIGKILL");
    const result = await turn.result({ timeoutMs: 20_000 });
    expect(result).toMatchObject({ status: "completed", output: "paid" });
    // The lease, the time that the call may still take, and some for polling and for starting.
    expect(performance.now() - killed).toBeLessThan(LEASE_MS + 4_000);
    const again = await second.heard((branch) => branch.inside);
    expect(again).toMatchObject({ key: begun.key, attempt: 2 });
  });

  test("a worker that is told to end hands back within 5 s, ends as it was told, and its lease is free", async () => {
    const place = address();
    await using hold = await open(place);
    const first = await worker(place, 60_000);
    const turn = await hold.bind(clerk).submit("s", "go", { key: "k" });
    await first.heard((branch) => branch.inside);
    const told = performance.now();
    first.signal("SIGTERM");
    expect(await first.closed).toMatchObject({ signal: "SIGTERM" });
    expect(performance.now() - told).toBeLessThan(5_000);
    // At once: nobody has to wait for a lease to run out.
    await (await hold.session("s")).close();
    await worker(place, 0);
    expect(await turn.result({ timeoutMs: 20_000 })).toMatchObject({ status: "completed" });
  });
});
