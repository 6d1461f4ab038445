/**
 * Which tests `vitest --changed` runs: those in the folder that mirrors the one of a changed file,
 * and those that import the file. Nearly every test imports `src/index.ts`, and so all of `src`:
 * without this, `--changed` would run nearly all tests.
 */
import { execFileSync } from "node:child_process";
import { dirname } from "node:path";
import { importsOf } from "./house-facts.mjs";

/** The commit that the words of a vitest command compare with; undefined without `--changed`. */
export function comparedWith(words) {
  const at = words.findIndex((word) => word === "--changed" || word.startsWith("--changed="));
  if (at === -1) return undefined;
  const [, given] = (words[at] ?? "").split("=");
  const next = words[at + 1];
  const isRef = next !== undefined && !next.startsWith("-") && !next.startsWith("test");
  return given ?? (isRef ? next : "HEAD");
}

/** The files that differ from a commit, with those that git does not know yet. */
export function changedSince(commit) {
  const git = (...words) => execFileSync("git", words, { encoding: "utf8" }).split("\n");
  const changed = git("diff", "--name-only", "--relative", commit, "--");
  const fresh = git("ls-files", "--others", "--exclude-standard");
  return [...changed, ...fresh].filter((file) => file !== "");
}

/** Of `tests`, with their texts, those to run for the files that changed. */
export function testsOf(changed, tests) {
  const files = new Set(changed);
  const folders = changed.map((file) => mirrorOf(file, tests));
  const imports = new Set(
    importsOf(tests)
      .filter(({ to }) => files.has(to))
      .map(({ from }) => from),
  );
  return tests
    .map(({ file }) => file)
    .filter(
      (file) =>
        files.has(file) ||
        imports.has(file) ||
        folders.some((folder) => file.startsWith(`${folder}/`)),
    );
}

/** The folder of tests for a file: the nearest above it that has any. */
function mirrorOf(file, tests) {
  if (!file.startsWith("src/")) return undefined;
  for (let folder = dirname(file); folder !== "src"; folder = dirname(folder)) {
    const mirror = folder.replace(/^src/, "test");
    if (tests.some((test) => test.file.startsWith(`${mirror}/`))) return mirror;
  }
  // The files at the top are the door to all.
  return "test/api";
}
