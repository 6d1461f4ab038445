/**
 * Two workers on one store, each killed again and again and started anew, while turns are
 * submitted, for now and for later, and people decide what they must. In the end every turn must
 * have been run once, and nothing have happened twice.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { overStores, tally, visit } from "../agents/agent-runs.mjs";
import { counts, points } from "../desk/desk-campaign.mjs";
import { sqliteFile } from "../kills/kill-campaign.mjs";
import { CrewWorld } from "./crew-world.mjs";

const program = {
  child: new URL("./crew-child.mjs", import.meta.url),
  points,
  nth: 3,
  counts: { ...counts, turns: 0, later: 0 },
};
const WORKERS = 2;
const KILLS_A_STORE = 12;
/** Once nothing is killed any more, something happens again long before. */
const PATIENCE_MS = 20_000;

/** `kills` kills, over as many stores as it takes. `broken` names what must be caught. */
export function crewCampaign({ kills, seed, place = sqliteFile, broken, onProgress }) {
  return overStores(
    { kills, seed, place, program },
    async (result, { address, path, ledger, seed: own }, rng, spare) => {
      const world = new CrewWorld({ ledger, seed: own, rng, broken });
      const before = { ...result };
      const most = Math.min(kills, result.kills + KILLS_A_STORE);
      const agents = own % 2 ? ["desk"] : ["desk", "aide"];
      // On a server, claims leave alone what a dead worker of the same machine has: its lease must
      // run out.
      const order = {
        address,
        ledger: path,
        seed: own,
        broken,
        agents,
        ...(address.startsWith("postgres") && { leaseMs: 1_500 }),
      };
      let end;
      const over = new Promise((resolve) => {
        end = resolve;
      });
      const crew = { order, rng, spare, result, world, most, children: [], over };
      await visit(address, async (there) => {
        const lanes = Array.from({ length: WORKERS }, () => lane(crew));
        await outside(crew, there).catch((error) => world.wrong.push(`outside: ${error.stack}`));
        end("over");
        await Promise.all(lanes);
        for (const child of crew.children) world.hear(child.lines);
        await world.look(there.store);
        if (world.wrong.length === 0) await world.finish(there);
      });
      tally(result, before, world, `seed ${own}`);
      onProgress?.(result);
    },
  );
}

/** One worker after another, each for a while; once there were enough kills, one that stays. */
async function lane({ order, rng, spare, result, world, most, children, over }) {
  for (let end; end !== "over" && world.wrong.length === 0; ) {
    const child = await spare();
    children.push(child);
    const isKilled = result.kills < most;
    if (isKilled) result.kills += 1;
    const { point, stopAt } = isKilled ? spare.point() : {};
    child.tell({ ...order, run: result.runs++, ...world.orders(), ...(stopAt && { stopAt }) });
    const stands = child
      .heard((line) => line.at ?? line.fault, { withinMs: 600_000 })
      .catch(() => {});
    end = await Promise.race([
      over,
      stands,
      ...(isKilled ? [sleep(rng.between(20, 600), "now")] : []),
    ]);
    const where = end === "now" || end === "over" ? "anywhere" : point;
    if (isKilled) result.points[where] = (result.points[where] ?? 0) + 1;
    await child.end();
    if (child.ended.signal !== "SIGKILL")
      world.wrong.push(`the worker ended by itself: ${child.stderr}`);
  }
}

/** Whoever submits turns, and decides what people must, until all is done. */
async function outside({ children, result, world, most, rng }, there) {
  let deadline = Number.POSITIVE_INFINITY;
  let stood = "";
  while (world.wrong.length === 0) {
    await sleep(rng.between(5, 50));
    await world.submit(there.hold);
    for (const child of children) world.hear(child.lines);
    if (await world.lookForAll(there.store)) return;
    await world.person.act(there, { all: rng.next() < 0.3 });
    const stands = JSON.stringify(world.counts);
    if (result.kills >= most && stands !== stood) deadline = performance.now() + PATIENCE_MS;
    stood = stands;
    if (performance.now() > deadline)
      world.wrong.push(`it does not end: ${await world.standing(there)}`);
  }
}
