/**
 * What the three test configurations share: vitest.config.ts, vitest.stores.config.ts and
 * vitest.faults.config.ts.
 */
import {
  accessSync,
  chmodSync,
  constants,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineConfig, type ViteUserConfig } from "vitest/config";
import { changedSince, comparedWith, testsOf } from "./scripts/changed-tests.mjs";

interface TestFile {
  readonly file: string;
  readonly text: string;
}

/** A file that exchanges a module, or a call of node:fs, for another gets a process of its own. */
const EXCHANGES = /\bvi\.(doM|m)ock\(|failing-calls|syncBuiltinESMExports/;

const testFiles: readonly TestFile[] = readdirSync("test", { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => join("test", name))
  .map((file) => ({ file, text: readFileSync(file, "utf8") }));

const RUN_DIRECTORY = "HOLDFAST_RUN_DIRECTORY";
const RAM_DISK = "/dev/shm";
const MOST_BYTES = 4 * 2 ** 30;

/**
 * Makes the directory of this run's stores, which is removed when the run ends: in memory, where
 * there is room, because tests wait for thousands of syncs. Campaigns of faults use a disk. The
 * name is short, because messages cut long paths.
 */
export function runDirectory(on: "memory" | "disk"): string {
  // Vitest reads the configuration again for each project.
  const known = process.env[RUN_DIRECTORY];
  if (known !== undefined) return known;
  const directory = mkdtempSync(join(on === "memory" && hasRoom() ? RAM_DISK : tmpdir(), "hf-"));
  process.env[RUN_DIRECTORY] = directory;
  // Some tests run as another user, who copies a store here.
  chmodSync(directory, 0o1777);
  process.once("exit", () => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function hasRoom(): boolean {
  try {
    accessSync(RAM_DISK, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = statfsSync(RAM_DISK);
    return bavail * bsize > MOST_BYTES;
  } catch {
    return false;
  }
}

export const isFault = ({ file }: TestFile): boolean => file.startsWith("test/faults/");

/**
 * Runs the test files that are wanted. A worker loads the library once for all files that change
 * nothing for their process.
 */
export function testsThat(
  isWanted: (file: TestFile) => boolean,
  env: Readonly<Record<string, string>> = {},
): ViteUserConfig {
  const commit = comparedWith(process.argv);
  const changed = commit === undefined ? undefined : changedSince(commit);
  const affected = changed && new Set(testsOf(changed, testFiles));
  const wanted = testFiles.filter((test) => isWanted(test) && affected?.has(test.file) !== false);
  const filesOf = (isolate: boolean) =>
    wanted.filter(({ text }) => EXCHANGES.test(text) === isolate).map(({ file }) => file);
  const project = (name: string, isolate: boolean) => ({
    extends: true as const,
    test: { name, isolate, include: filesOf(isolate) },
  });
  return defineConfig({
    test: {
      globalSetup: ["test/support/global-setup.ts"],
      setupFiles: ["test/support/seed.ts"],
      env,
      testTimeout: 60_000,
      hookTimeout: 60_000,
      // A test waits until something is so, however busy the machine is, and not for a while.
      expect: { poll: { timeout: 20_000, interval: 10 } },
      // Many tests wait for a process or a disk: a third one uses the time.
      maxWorkers: Number(process.env["WORKERS"] ?? 3),
      pool: "forks",
      // Some tests tear journals on purpose, many times.
      execArgv: ["--disable-warning=HoldfastWarning"],
      projects: [project("shared", false), project("alone", true)],
    },
  });
}
