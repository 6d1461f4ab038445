/**
 * The long campaign: the code of test/faults with larger numbers, and then the tests of `--short`
 * with the seed of this run. Build first.
 *
 * With `--short`: only the tests of test/faults, and all runs of those tests that make some of them
 * in `npm test`, with fixed seeds. It takes less than ten minutes on two cores. More words go to
 * vitest: `npm run faults -- --short test/faults/kills`.
 *
 *   HOLDFAST_KILLS         kills at random instants                         10000
 *   HOLDFAST_AGENT_KILLS   kills around the calls of an agent               10000
 *   HOLDFAST_DESK_KILLS    kills around people, signals and children         2000
 *   HOLDFAST_CREW_KILLS    kills of two workers on one store                 2000
 *   HOLDFAST_SNAPSHOT_KILLS  kills while snapshots are taken and restored     2000
 *   HOLDFAST_BACKUP_KILLS  kills of whoever makes backups                    1000
 *   HOLDFAST_BIRTHS        kills while a store is being made                  500
 *   HOLDFAST_ACTING_CALLS  "0" to leave out the table of acting calls
 *   HOLDFAST_FLIPS         flipped bits of the file, or "all"               50000
 *   HOLDFAST_ROUNDS        rounds of processes competing for one session       50
 *   HOLDFAST_SEED          to repeat a run
 */

import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { agentCampaign } from "../test/faults/agents/agent-campaign.mjs";
import { backupCampaign } from "../test/faults/backups/backup-campaign.mjs";
import { crewCampaign } from "../test/faults/crew/crew-campaign.mjs";
import { deskCampaign } from "../test/faults/desk/desk-campaign.mjs";
import {
  cartographer,
  classes,
  damageAll,
  frameBits,
  killedStore,
  soundStore,
  spread,
} from "../test/faults/flips/flip-campaign.mjs";
import { inDirectory, inPostgres, killCampaign } from "../test/faults/kills/kill-campaign.mjs";
import { compete } from "../test/faults/processes/compete.mjs";
import { snapshotCampaign } from "../test/faults/snapshots/snapshot-campaign.mjs";
import { startPostgres } from "../test/support/postgres.mjs";
import { random } from "../test/support/random.mjs";

/** Runs the tests of vitest.faults.config.ts. Answers the exit code. */
async function faultTests(words = [], env = {}) {
  const args = ["node_modules/vitest/vitest.mjs", "run", "-c", "vitest.faults.config.ts", ...words];
  const vitest = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: "inherit",
  });
  const [code, signal] = await once(vitest, "exit");
  return signal === null ? code : 1;
}

if (process.argv[2] === "--short") process.exit(await faultTests(process.argv.slice(3)));

const number = (name, standard) =>
  process.env[name] === "all" ? Number.MAX_SAFE_INTEGER : Number(process.env[name] ?? standard);
const seed = Number(process.env["HOLDFAST_SEED"] ?? randomInt(2 ** 31));
const rng = random(seed);
const directory = mkdtempSync(join(tmpdir(), "holdfast-faults-"));
const table = [];

let shown = 0;
function progress(text) {
  if (performance.now() - shown < 2_000) return;
  shown = performance.now();
  console.error(`  ${text}`);
}

async function campaign(name, run) {
  console.error(name);
  const began = performance.now();
  const { did, wrong } = await run();
  for (const what of wrong.slice(0, 20)) console.error(`  WRONG ${what}`);
  table.push({
    campaign: name,
    did,
    wrong: wrong.length,
    seconds: Math.round((performance.now() - began) / 1000),
  });
}

const KILLS = number("HOLDFAST_KILLS", 10_000);
const AGENT_KILLS = number("HOLDFAST_AGENT_KILLS", 10_000);
const DESK_KILLS = number("HOLDFAST_DESK_KILLS", 2_000);
const CREW_KILLS = number("HOLDFAST_CREW_KILLS", 2_000);
const SNAPSHOT_KILLS = number("HOLDFAST_SNAPSHOT_KILLS", 2_000);
const BIRTHS = number("HOLDFAST_BIRTHS", 500);
const server = await startPostgres();
for (const [kind, where] of [
  ["a SQLite file", {}],
  ["a directory", { place: inDirectory }],
  ["Postgres", { place: inPostgres(server.url()) }],
]) {
  if (KILLS > 0)
    await campaign(`kill -9 while working in ${kind}`, async () => {
      const result = await killCampaign({
        ...where,
        kills: KILLS,
        seed,
        onProgress: ({ kills, acknowledged }) =>
          progress(`${kills} of ${KILLS} kills, ${acknowledged} acknowledged`),
      });
      return {
        did: `${result.kills} kills, ${result.acknowledged} acknowledged, ${result.inFlight} in flight`,
        wrong: result.wrong,
      };
    });
  if (AGENT_KILLS > 0)
    await campaign(`kill -9 around the calls of an agent in ${kind}`, async () => {
      const { kills, stores, calls, deduped, checked, settled, wrong } = await agentCampaign({
        ...where,
        kills: AGENT_KILLS,
        seed,
        onProgress: (so) =>
          progress(`${so.kills} of ${AGENT_KILLS} kills, ${so.stores} stores, ${so.calls} calls`),
      });
      return {
        did: `${kills} kills, ${calls} calls in ${stores} stores: ${deduped} known by key, ${checked} checked, ${settled} settled`,
        wrong,
      };
    });
  if (DESK_KILLS > 0)
    await campaign(`kill -9 around people, signals and children in ${kind}`, async () => {
      const { kills, stores, calls, children, settled, wrong, ...so } = await deskCampaign({
        ...where,
        kills: DESK_KILLS,
        seed,
        onProgress: (so) =>
          progress(`${so.kills} of ${DESK_KILLS} kills, ${so.stores} stores, ${so.calls} calls`),
      });
      const decided = so.approved + so.changed + so.denied;
      return {
        did: `${kills} kills, ${calls} calls in ${stores} stores: ${decided} decided, ${so.signals} signals, ${children} children, ${so.cancels} cancels, ${settled} settled`,
        wrong,
      };
    });
  // Where one process writes, there are no two workers.
  if (CREW_KILLS > 0 && where.place !== inDirectory)
    await campaign(`kill -9 of two workers on ${kind}`, async () => {
      const { kills, stores, turns, later, calls, settled, wrong } = await crewCampaign({
        ...where,
        kills: CREW_KILLS,
        seed,
        onProgress: (so) =>
          progress(`${so.kills} of ${CREW_KILLS} kills, ${so.stores} stores, ${so.turns} turns`),
      });
      return {
        did: `${kills} kills, ${turns} turns (${later} for later) and ${calls} calls in ${stores} stores, ${settled} settled`,
        wrong,
      };
    });
  if (SNAPSHOT_KILLS > 0)
    await campaign(`kill -9 while snapshots are taken and restored in ${kind}`, async () => {
      const { kills, done, inFlight, wrong } = await snapshotCampaign({
        ...where,
        kills: SNAPSHOT_KILLS,
        seed,
        onProgress: (so) =>
          progress(`${so.kills} of ${SNAPSHOT_KILLS} kills, ${so.done.restore ?? 0} restored`),
      });
      return {
        did: `${kills} kills, ${done.restore ?? 0} restored, ${inFlight.restore ?? 0} restores under way`,
        wrong,
      };
    });
  if (BIRTHS > 0)
    await campaign(`kill -9 while ${kind} is made`, async () => {
      const result = await killCampaign({
        ...where,
        kills: BIRTHS,
        seed,
        birth: true,
        onProgress: ({ kills }) => progress(`${kills} of ${BIRTHS} kills`),
      });
      return { did: `${result.kills} kills`, wrong: result.wrong };
    });
}

const BACKUP_KILLS = number("HOLDFAST_BACKUP_KILLS", 1_000);
if (BACKUP_KILLS > 0)
  await campaign("kill -9 of whoever makes backups", async () => {
    const { kills, left, wrong } = await backupCampaign({
      seed,
      kills: BACKUP_KILLS,
      onProgress: (so) => progress(`${so.kills} of ${BACKUP_KILLS} kills`),
    });
    return { did: `${kills} kills, ${left} in the middle of a backup`, wrong };
  });

const ROUNDS = number("HOLDFAST_ROUNDS", 50);
if (ROUNDS > 0)
  await campaign("processes that compete for one session", async () => {
    const wrong = [];
    const lost = { LEASE_HELD: 0, STALE_LEASE: 0 };
    for (let round = 0; round < ROUNDS && wrong.length === 0; round++) {
      const stalls = round % 2 === 1;
      const result = await compete({
        // In turns a SQLite file and a schema of the server.
        ...(round % 4 < 2 ? {} : { address: `${server.url()}?schema=compete-${round}` }),
        processes: 2 + (round % 15),
        count: 20,
        seed: seed + round * 100,
        waitMs: 20,
        ...(stalls ? { leaseMs: 100, stallMs: 250 } : {}),
      });
      wrong.push(...result.wrong);
      lost.LEASE_HELD += result.lost.LEASE_HELD;
      lost.STALE_LEASE += result.lost.STALE_LEASE;
      progress(`${round + 1} of ${ROUNDS} rounds`);
    }
    return {
      did: `${ROUNDS} rounds, ${lost.LEASE_HELD} times LEASE_HELD, ${lost.STALE_LEASE} times STALE_LEASE`,
      wrong,
    };
  });

if (process.env.HOLDFAST_ACTING_CALLS !== "0")
  await campaign("acting calls crossed with everything else, on every store", async () => {
    const env = { ...process.env, HOLDFAST_ACTING_CALLS: "all" };
    const vitest = spawn(
      process.execPath,
      [
        "node_modules/vitest/vitest.mjs",
        "run",
        "test/acting-calls",
        "--reporter=dot",
        "--testTimeout=3600000",
      ],
      {
        env,
        stdio: ["ignore", "inherit", "inherit"],
      },
    );
    const [code] = await once(vitest, "exit");
    return { did: "every cell", wrong: code === 0 ? [] : ["see above"] };
  });

await campaign("the tests of --short, with this seed", async () => {
  const code = await faultTests(["--reporter=dot"], { HOLDFAST_SEED: String(seed) });
  return { did: "every test", wrong: code === 0 ? [] : ["see above"] };
});

const FLIPS = number("HOLDFAST_FLIPS", 50_000);
async function flips(name, make, bits) {
  await campaign(name, async () => {
    const { store, files, path } = await make(mkdtempSync(join(directory, "store-")));
    const jobs = bits(files, path);
    const result = await damageAll({
      store,
      jobs,
      onProgress: (done, { wrong }) => progress(`${done} of ${jobs.length}, ${wrong.length} wrong`),
    });
    for (const line of classes(result.wrong, cartographer(path))) console.error(`  WRONG ${line}`);
    return {
      did: `${result.jobs} bits: ${result.found} found, ${result.harmless} harmless`,
      wrong: result.wrong.map(({ wrong }) => wrong[0]),
    };
  });
}
const anywhere = (suffix) => (files) => spread(suffix, files[suffix].length, FLIPS, rng);
if (FLIPS > 0) {
  await flips("flipped bits of headers and types", soundStore, (_, path) =>
    frameBits(path, FLIPS, rng),
  );
  await flips("flipped bits in the file", soundStore, anywhere(""));
  await flips("flipped bits in the log of a killed process", killedStore, anywhere("-wal"));
  await flips("flipped bits in the anchors", soundStore, anywhere("-anchors"));
}

await server.remove();
rmSync(directory, { recursive: true, force: true });
console.error(`seed ${seed}`);
console.table(table);
process.exitCode = table.some(({ wrong }) => wrong > 0) ? 1 : 0;
