/**
 * Directories for the fault tests, removed when the test run's process ends. Anybody may pass
 * through them: some tests are somebody else.
 */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { scratch } from "./stores.js";

let root: string | undefined;
let count = 0;

export function fresh(): string {
  if (root === undefined) {
    root = scratch();
    chmodSync(root, 0o755);
  }
  count += 1;
  const directory = join(root, String(count));
  mkdirSync(directory, { mode: 0o755 });
  return directory;
}
