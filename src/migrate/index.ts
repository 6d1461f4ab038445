/** Brings in what other systems wrote: `migrate("ares", "path/to/checkpoints", "agent.db")`. */
import { readdirSync, statSync } from "node:fs";
import { parseAddress } from "../core/values/address.js";
import { callback, options as checked, flag, signalOf } from "../core/values/check-options.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { checkName } from "../core/values/ids.js";
import { type Holdfast, type JsonObject, open } from "../index.js";
import { readAethershell } from "./aethershell/aethershell.js";
import { readAres } from "./ares/ares.js";
import { readCcswarm } from "./ccswarm/ccswarm.js";
import { rootOf } from "./reading/files.js";
import { guessKind } from "./reading/guess.js";
import { type Foreign, KINDS, type MigrationKind, type Reading } from "./reading/model.js";
import { type MigrationProgress, type MigrationReport, Report } from "./reading/report.js";
import { readSmooth } from "./smooth/smooth.js";
import { sourceIn } from "./writing/plan.js";
import { Trial } from "./writing/trial.js";
import { writeAll } from "./writing/write-all.js";
import type { SourceClock } from "./writing/writing.js";

export { guessKind } from "./reading/guess.js";
export { KINDS, type MigrationKind } from "./reading/model.js";
export type {
  MigratedAgent,
  MigratedSession,
  MigratedSnapshot,
  MigrationProgress,
  MigrationReport,
  Outcome,
} from "./reading/report.js";

/** How an import from another system is run. */
export interface MigrateOptions {
  /** Changes nothing, makes no store, and says what would be done. */
  readonly dryRun?: boolean;
  readonly tenant?: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: MigrationProgress) => void;
}

interface Known {
  readonly read: (reading: Reading) => Promise<Foreign>;
  /** What is expected at the path. */
  readonly expects: string;
  readonly takesFile: boolean;
}

const READERS: Readonly<Record<MigrationKind, Known>> = {
  ares: { read: readAres, expects: "a directory of files <session>_<step>.json", takesFile: false },
  ccswarm: {
    read: readCcswarm,
    expects: "a directory with sessions/<session>/<checkpoint>.json",
    takesFile: false,
  },
  smooth: {
    read: readSmooth,
    expects: "a directory of <agent>/<checkpoint>.json, or a SQLite database",
    takesFile: true,
  },
  aethershell: {
    read: readAethershell,
    expects: "a directory with agents/, conversations/ and checkpoints/",
    takesFile: false,
  },
};

/**
 * Import what another system wrote at a path into a store.
 * `store` is an address as `open` takes it. Run again, it goes on where it was killed, adds what
 * has come since, and imports nothing twice. The report names what could not be read or taken in,
 * and the rest is imported.
 *
 * @example
 * const report = await migrate("ares", "path/to/checkpoints", "agent.db", { dryRun: true });
 */
export async function migrate(
  kind: MigrationKind,
  path: string,
  store?: string,
  o?: MigrateOptions,
): Promise<MigrationReport> {
  const { read, expects, takesFile } = checkKind(kind);
  const given = checked(o, "migrate", ["dryRun", "tenant", "signal", "onProgress"]);
  const dryRun = flag(given.dryRun, "dryRun") ?? false;
  const signal = signalOf(given.signal);
  const onProgress = callback(given.onProgress, "onProgress");
  const tenant = given.tenant === undefined ? undefined : checkName(given.tenant, "tenant");
  const { root, isDirectory } = await rootOf(path);
  if (!isDirectory && !takesFile) throw await unlike(kind, path, expects);
  const clock: SourceClock = { at: Date.now(), now: () => clock.at };
  const options = { ...(tenant !== undefined && { tenant }) };
  const report = new Report(onProgress);
  const opened: Holdfast[] = [];
  const hold = async (
    address: string | undefined,
    more: Parameters<typeof open>[1],
  ): Promise<Holdfast> => {
    const made = await open(address, more);
    opened.push(made);
    return made;
  };
  const trial = new Trial();
  let foreign: Foreign | undefined;
  try {
    const isThere = !dryRun || isStore(store, report);
    // Nothing is made before it is known that there is something to import.
    let target: Holdfast | undefined;
    const seen = async (): Promise<Holdfast | undefined> => {
      if (isThere && target === undefined && (dryRun || existing(store)))
        target = await hold(store, { ...options, clock });
      return target;
    };
    const sourceOf = async (session: string): Promise<JsonObject | undefined> => {
      const summary = await (await seen())?.sessions.get(session);
      return summary && sourceIn(summary.metadata);
    };
    foreign = await read({ root, report, signal, sourceOf });
    if (foreign.acts.length === 0 && !(await isTorn(kind, path, report)))
      throw await unlike(kind, path, expects);
    const against = await seen();
    const into = dryRun
      ? await hold("memory:", { clock, search: false })
      : (against ?? (await hold(store, { ...options, clock })));
    const before = (await into.stats()).sizeBytes;
    await writeAll(
      foreign,
      { kind, into, seen: dryRun ? against : into, clock, report, trial },
      signal,
    );
    const storedBytes = Math.max(0, (await into.stats()).sizeBytes - before);
    return report.end({ kind, path, dryRun, storedBytes });
  } finally {
    await foreign?.close?.();
    await trial.close();
    for (const each of opened) await each.close();
  }
}

function checkKind(kind: unknown): Known {
  if (typeof kind === "string" && Object.hasOwn(READERS, kind))
    return READERS[kind as MigrationKind];
  throw new HoldfastError("INVALID_OPTION", `kind: it must be one of ${KINDS.join(", ")}.`, {
    path: "kind",
  });
}

/** Whether there is something, of which nothing could be read. */
const isTorn = async (kind: MigrationKind, path: string, { anyTorn }: Report): Promise<boolean> =>
  anyTorn && [undefined, kind].includes(await guessKind(path));

async function unlike(kind: MigrationKind, path: string, expects: string): Promise<HoldfastError> {
  const other = await guessKind(path);
  if (other !== undefined && other !== kind)
    return new HoldfastError(
      "INVALID_OPTION",
      `${quote(path)} looks like what ${other} writes: holdfast import ${other} ${quote(path)}`,
      {
        path,
      },
    );
  return new HoldfastError(
    "NOT_FOUND",
    `There is nothing of ${kind} at ${quote(path)}. Expected is ${expects}.`,
    { path },
  );
}

/** Postgres may make its tables when it is opened, and a dry run makes nothing. */
function isStore(store: string | undefined, report: Report): boolean {
  if (addressOf(store).kind !== "postgres") return existing(store);
  report.note(
    "A dry run does not look at what a store in Postgres holds: what is there already counts as new.",
  );
  return false;
}

/**
 * Whether a store is there already: an empty file or directory is none yet. A server cannot be
 * asked before it is opened.
 */
function existing(store: string | undefined): boolean {
  const address = addressOf(store);
  if (address.kind === "memory") return false;
  if (address.kind === "postgres") return true;
  const { path } = address;
  const found = statSync(path, { throwIfNoEntry: false });
  return (
    found !== undefined && (found.isDirectory() ? readdirSync(path).length > 0 : found.size > 0)
  );
}

const addressOf = (store = process.env["HOLDFAST_STORE"] || ".holdfast/state.db") =>
  parseAddress(store);
