/**
 * The process that the demo kills: runs the agent for each order, or goes on where the last one
 * stopped.
 */
import { writeSync } from "node:fs";
import { join } from "node:path";
import { open } from "../../index.js";
import { ORDERS, type Point, supportAgent } from "./agent.js";
import { World } from "./world.js";

const [directory = "", dieAt, dieFor] = process.argv.slice(2);
const tell = (event: object) => writeSync(1, `${JSON.stringify(event)}\n`);

function at(point: Point, order: number): void {
  if (point !== dieAt || String(order) !== dieFor) return;
  tell({ point });
  // Nothing of this process goes on from here: the parent ends it.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
}

try {
  await work();
} catch (error) {
  // As an event: what Node prints of an error has the source beside it, which is one long line
  // here.
  tell({ failed: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
}

async function work(): Promise<void> {
  await using hold = await open(join(directory, "agent.db"));
  const support = hold.bind(
    supportAgent(new World(join(directory, "ledger.jsonl")), {
      at,
      says: (text) => tell({ says: text }),
    }),
  );
  for (const order of ORDERS) {
    const before =
      (await hold.sessions.get(`order-${order}`)) &&
      (await hold.checkpoints.latest(`order-${order}`));
    if (before?.status === "completed") continue;
    if (before !== undefined)
      tell({ says: `goes on with order ${order}, from step ${before.step}` });
    const done = await support.run(`order-${order}`, `Refund order ${order}, it arrived broken.`);
    tell(
      done.status === "completed"
        ? { output: done.output }
        : { failed: `order ${order} ended as ${done.status}` },
    );
  }
}
