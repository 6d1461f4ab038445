/** What it costs to put an agent with many sessions aside, and to put it back. */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { median, now, step } from "../measure.mjs";

export async function snapshots({ directory, sessions, rounds }) {
  const results = [];
  for (const [store, address] of [
    ["sqlite", join(directory, "snapshots.db")],
    ["dir", `dir:${join(directory, "snapshots")}`],
  ]) {
    const hold = await open(address);
    await hold.agents.save({ id: "ann", state: { counter: 1 } });
    await Promise.all(
      Array.from({ length: sessions }, async (_, i) => {
        const session = await hold.session(`s${i}`, { agent: "ann" });
        for (let n = 0; n < 3; n++) {
          session.append(...step(500));
          await session.checkpoint();
        }
        await session.close();
      }),
    );
    const took = [];
    let last;
    for (let i = 0; i < rounds; i++) {
      const start = now();
      last = await hold.agents.snapshot("ann");
      took.push((now() - start) / 1000);
    }
    if (last.sessions !== sessions)
      throw new Error(`the snapshot holds ${last.sessions} of ${sessions} sessions`);
    const session = await hold.session("s0");
    session.append(...step(500));
    await session.checkpoint();
    await session.close();
    const start = now();
    await hold.agents.restore(last.id);
    const restored = (now() - start) / 1000;
    await hold.close();
    results.push({
      name: `${store}: a snapshot of an agent with ${sessions} sessions, ms`,
      value: median(took),
      ...(store === "sqlite" && { floor: 50 }),
      unit: "ms",
      note: `restored, and all of it verified, in ${restored.toFixed(0)} ms`,
    });
  }
  return results;
}
