/**
 * Kills a child that takes and restores snapshots, and looks, each time, whether all of an agent's
 * sessions are as they were or as they were to be.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { open } from "../../../dist/index.js";
import { start } from "../../support/children/child.mjs";
import { random } from "../../support/random.mjs";
import { sqliteFile } from "../kills/kill-campaign.mjs";

const KILLS_PER_FILE = 25;
const nothing = () => ({ sessions: {}, agent: 0, snapshots: {} });

/** What there is. */
async function look(hold) {
  const sessions = {};
  for (const { id, archived } of (await hold.sessions.list({ agent: "ann", limit: 1000 })).items) {
    const session = await hold.session(id);
    sessions[id] = { texts: session.messages.map(({ content }) => content), archived };
    await session.close();
  }
  const record = await hold.agents.get("ann");
  return { sessions, agent: record?.state.n ?? 0 };
}

const sorted = ({ sessions, agent }) => ({
  agent,
  sessions: Object.fromEntries(Object.entries(sessions).sort(([a], [b]) => (a < b ? -1 : 1))),
});
const isSame = (a, b) => isDeepStrictEqual(sorted(a), sorted(b));

export async function snapshotCampaign({
  kills,
  seed,
  place = sqliteFile,
  torn = false,
  onProgress,
}) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-snaps-"));
  const rng = random(seed);
  const result = { seed, kills: 0, done: {}, inFlight: {}, wrong: [] };
  let next = start(new URL("./snapshot-child.mjs", import.meta.url));
  let world = nothing();
  try {
    for (let n = 0; n < kills && result.wrong.length === 0; n++) {
      const { address, settleMs } = place(directory, Math.floor(n / KILLS_PER_FILE));
      if (n % KILLS_PER_FILE === 0) world = nothing();
      const child = next;
      next = start(new URL("./snapshot-child.mjs", import.meta.url));
      await child.heard((line) => line.ready);
      child.tell({ path: address, seed: seed + n, world, torn });
      await child.heard(
        (line) => (torn ? line.stands : line.begin) !== undefined || line.fault !== undefined,
      );
      if (!torn) await new Promise((resolve) => setTimeout(resolve, rng.between(0.5, 60)));
      await child.end();
      if (child.ended.signal !== "SIGKILL")
        result.wrong.push(`the child ended by itself: ${child.stderr}`);
      if (settleMs !== undefined) await new Promise((resolve) => setTimeout(resolve, settleMs));
      let before = world;
      let flying;
      for (const line of child.lines) {
        if (line.fault) result.wrong.push(`the child failed: ${line.fault}`);
        if (line.begin) flying = line;
        if (line.done) {
          flying = undefined;
          before = { ...line.after, snapshots: line.snapshots ?? before.snapshots };
          result.done[line.done] = (result.done[line.done] ?? 0) + 1;
        }
      }
      if (flying) result.inFlight[flying.begin] = (result.inFlight[flying.begin] ?? 0) + 1;
      result.kills += 1;
      const hold = await open(address);
      try {
        const found = await look(hold);
        if (!isSame(found, before) && !(flying && isSame(found, flying.after)))
          result.wrong.push(
            `in ${flying?.begin ?? "nothing"}: found ${JSON.stringify(found)}, after ${JSON.stringify(before)}, before ${JSON.stringify(flying?.after)}`,
          );
        const verdict = await hold.verify();
        if (!verdict.ok)
          result.wrong.push(`verify: ${JSON.stringify(verdict.findings.slice(0, 3))}`);
        const there = new Set(
          (await hold.agents.snapshots("ann", { limit: 1000 })).items.map(({ id }) => id),
        );
        const lost = Object.keys(before.snapshots).filter((id) => !there.has(id));
        if (lost.length > 0 && flying?.begin !== "unsnap" && flying?.begin !== "end")
          result.wrong.push(`snapshots ${lost.join(", ")} are gone`);
        world = {
          ...found,
          snapshots: Object.fromEntries(
            Object.entries(before.snapshots).filter(([id]) => there.has(id)),
          ),
        };
      } catch (error) {
        result.wrong.push(`${error.code ?? error.name}: ${error.message}\n${error.stack}`);
      } finally {
        await hold.close();
      }
      for (const [i, what] of result.wrong.entries())
        result.wrong[i] = `kill ${n}, seed ${seed}: ${what}`;
      onProgress?.(result);
    }
  } finally {
    await next.end();
    rmSync(directory, { recursive: true, force: true });
  }
  return result;
}
