/**
 * Which tests `vitest --changed` runs: those in the folder that mirrors the one of a changed file,
 * and those that import the file. Of these Vitest runs the ones that reach the file by imports.
 * Nearly every test imports `src/index.ts`, and so all of `src`: by imports alone, nearly all tests
 * would run.
 */
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import { importsOf } from "./house-facts.mjs";

/** What concerns every test. */
const OF_ALL = /^(package(-lock)?\.json|vitest\..*|tsconfig\..*)$|^test\/support\//;

/** The commit that the words of a vitest command compare with; undefined without `--changed`. */
export function comparedWith(words) {
  const at = words.findIndex((word) => word === "--changed" || word.startsWith("--changed="));
  if (at === -1) return undefined;
  const [, given] = words[at].split("=");
  const next = words[at + 1];
  return given ?? (next === undefined || next.startsWith("-") ? "HEAD" : next);
}

/**
 * The files that differ from a commit, with those that git does not know yet. Undefined where git
 * cannot tell: Vitest says why.
 */
export function changedSince(commit) {
  const answers = [
    ["diff", "--name-only", "--relative", commit, "--"],
    ["ls-files", "--others", "--exclude-standard"],
  ].map((words) => spawnSync("git", words, { encoding: "utf8" }));
  if (answers.some(({ status }) => status !== 0)) return undefined;
  return answers.flatMap(({ stdout }) => stdout.split("\n")).filter((file) => file !== "");
}

/** Of `tests`, with their texts, those to run for the files that changed. */
export function testsOf(changed, tests) {
  const all = tests.map(({ file }) => file);
  if (changed.some((file) => OF_ALL.test(file))) return all;
  const folders = changed.map((file) => folderOfTests(file, all));
  const files = new Set(changed);
  const imports = new Set(
    importsOf(tests)
      .filter(({ to }) => files.has(to))
      .map(({ from }) => from),
  );
  return all.filter(
    (file) => imports.has(file) || folders.some((folder) => file.startsWith(`${folder}/`)),
  );
}

/** The folder of tests for a file: the nearest that has any. */
function folderOfTests(file, tests) {
  if (!/^(src|test)\//.test(file)) return undefined;
  let folder = dirname(file).replace(/^src/, "test");
  while (folder !== "test" && !tests.some((test) => test.startsWith(`${folder}/`)))
    folder = dirname(folder);
  // The files at the top are the door to all.
  return folder === "test" ? "test/api" : folder;
}
