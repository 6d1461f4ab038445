/** What the three test configurations share: vitest.config.ts, vitest.stores.config.ts and vitest.faults.config.ts. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig, type ViteUserConfig } from "vitest/config";

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

export const isFault = ({ file }: TestFile): boolean => file.startsWith("test/faults/");

/** Runs the test files that are wanted. A worker loads the library once for all files that change nothing for their process. */
export function testsThat(isWanted: (file: TestFile) => boolean, env: Readonly<Record<string, string>> = {}): ViteUserConfig {
  const wanted = testFiles.filter(isWanted);
  const filesOf = (isolate: boolean) => wanted.filter(({ text }) => EXCHANGES.test(text) === isolate).map(({ file }) => file);
  const project = (name: string, isolate: boolean) => ({ extends: true as const, test: { name, isolate, include: filesOf(isolate) } });
  return defineConfig({
    test: {
      globalSetup: ["test/support/global-setup.ts"],
      setupFiles: ["test/support/seed.ts"],
      env,
      testTimeout: 60_000,
      hookTimeout: 60_000,
      // Many tests wait for a process or a disk: a third one uses the time.
      maxWorkers: Number(process.env["WORKERS"] ?? 3),
      pool: "forks",
      // Some tests tear journals on purpose, many times.
      execArgv: ["--disable-warning=HoldfastWarning"],
      projects: [project("shared", false), project("alone", true)],
    },
  });
}
