/**
 * The figures we promise, as ratios taken in one run. `npm run bench` takes some minutes; `npm run
 * bench -- --quick` checks that the programs work, with numbers too small to judge by. Exits with 1
 * where a floor is missed by more than noise.
 */
import { spawnSync } from "node:child_process";
import { cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { loopSteps, resume, waiting } from "./cases/agents.mjs";
import { cli } from "./cases/cli.mjs";
import { dir } from "./cases/dir.mjs";
import { gc } from "./cases/gc.mjs";
import { openFork, rewinds } from "./cases/growth.mjs";
import { load } from "./cases/load.mjs";
import { longRuns } from "./cases/long-runs.mjs";
import { atOnce, lookups } from "./cases/many-sessions.mjs";
import { mcp } from "./cases/mcp.mjs";
import { postgres, postgresLoad } from "./cases/postgres.mjs";
import { save } from "./cases/save.mjs";
import { search } from "./cases/search.mjs";
import { snapshots } from "./cases/snapshots.mjs";
import { bareTable, median, now, prose, scratch } from "./measure.mjs";

const quick = process.argv.includes("--quick");
const only = process.argv.slice(2).filter((word) => !word.startsWith("--"));
/** Runs of the same program differ by this much on a busy machine. */
const NOISE = 1.05;

const cases = {
  save: (directory) => save({ directory, rounds: quick ? 200 : 10_000 }),
  long: (directory) =>
    longRuns({
      directory,
      rounds: quick ? 100 : 1500,
      steps: quick ? [100, 1000, 2000] : [100, 1000, 10_000, 100_000],
    }),
  load: (directory) => load({ directory, rounds: quick ? 20 : 200 }),
  once: (directory) => atOnce({ directory, rounds: quick ? 2 : 12, sessions: quick ? 64 : 512 }),
  lookups: (directory) =>
    lookups({
      directory,
      rounds: quick ? 100 : 5000,
      sessions: quick ? 100 : 10_000,
      checkpoints: 100,
      about: 200,
    }),
  rewinds: (directory) => rewinds({ directory, early: quick ? 20 : 100, late: quick ? 60 : 500 }),
  openFork: (directory) =>
    openFork({
      directory,
      few: quick ? 200 : 2000,
      many: quick ? 1000 : 40_000,
      rounds: quick ? 20 : 200,
    }),
  dir: (directory) =>
    dir({
      directory,
      rounds: quick ? 200 : 5000,
      loads: quick ? 20 : 200,
      sessions: quick ? 1000 : 10_000,
    }),
  gc: (directory) =>
    gc({ directory, checkpoints: quick ? 2000 : 100_000, sessions: quick ? 4 : 100 }),
  search: (directory) =>
    search({
      directory,
      messages: quick ? 2000 : 1_000_000,
      queries: quick ? 10 : 200,
      saves: quick ? 200 : 6000,
    }),
  postgres: () =>
    postgres({
      rounds: quick ? 100 : 3000,
      steps: quick ? [100, 300] : [100, 1000, 10_000],
      together: { sessions: quick ? 8 : 32, rounds: quick ? 2 : 8 },
    }),
  postgresLoad: () => postgresLoad({ rounds: quick ? 20 : 200 }),
  loop: (directory) =>
    loopSteps({ directory, steps: quick ? 50 : 1000, at: quick ? [50, 200] : [100, 1000, 10_000] }),
  resume: (directory) =>
    resume({ directory, messages: quick ? 500 : 10_000, rounds: quick ? 3 : 15 }),
  snapshots: (directory) =>
    snapshots({ directory, sessions: quick ? 50 : 1000, rounds: quick ? 3 : 20 }),
  mcp: (directory) => mcp({ directory, rounds: quick ? 3 : 25 }),
  cli: (directory) => cli({ directory, rounds: quick ? 3 : 25, sessions: quick ? 1_000 : 100_000 }),
  waiting: (directory) => waiting({ directory, sessions: quick ? 50 : 1000 }),
};

const chosen = Object.keys(cases).filter((name) => only.length === 0 || only.includes(name));

process.exitCode = process.argv.includes("--here") ? await here(chosen) : apart();

/** Each case in a process of its own: none is measured on the heap that another has left. */
function apart() {
  const directory = scratch();
  console.log(
    `${cpus()[0]?.model.trim() ?? "cpu"}, ${cpus().length} cores, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, Node ${process.versions.node}, files in ${process.env.BENCH_DIR ?? "the system's temporary directory"}`,
  );
  console.log(`limits of this machine: bare insert with sync ${limits(directory)}\n`);
  console.log(
    `${"".padEnd(66)}${"measured".padStart(9)}${"floor".padStart(8)}${"aim".padStart(8)}`,
  );
  let failed = 0;
  for (const name of chosen) {
    const { status } = spawnSync(
      process.execPath,
      [fileURLToPath(import.meta.url), name, "--here", ...(quick ? ["--quick"] : [])],
      {
        stdio: "inherit",
      },
    );
    if (status !== 0) failed += 1;
  }
  if (quick) console.log("\nquick: numbers too small to judge by");
  return failed > 0 ? 1 : 0;
}

async function here(names) {
  const directory = scratch();
  let missed = 0;
  for (const name of names) {
    for (const { name: what, value, floor, aim, unit, higher, note } of await cases[name](
      directory,
    )) {
      const miss = !quick && (higher ? value * NOISE < floor : value > floor * NOISE);
      const reached =
        aim === undefined ? "" : (higher ? value >= aim : value <= aim) ? "  aim" : "";
      if (miss) missed += 1;
      const show = (number) =>
        number === undefined ? "" : unit ? number.toFixed(1) : `${number.toFixed(2)}x`;
      console.log(
        `${what.padEnd(66)}${show(value).padStart(9)}${show(floor).padStart(8)}${show(aim).padStart(8)}${miss ? "  MISSED" : reached}${note ? `   ${note}` : ""}`,
      );
    }
  }
  return missed > 0 ? 1 : 0;
}

function limits(where) {
  const bare = bareTable(`${where}/limits.db`);
  const times = Array.from({ length: 500 }, () => {
    const body = prose(2000);
    const start = now();
    bare.insert(body);
    return now() - start;
  });
  bare.close();
  return `${median(times).toFixed(0)} µs`;
}
