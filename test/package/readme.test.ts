/**
 * The programs in the README and in docs/ are run as they stand, those of a page one after the
 * other, in an empty directory.
 */
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { scratch } from "../support/stores.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = readFileSync(join(root, "README.md"), "utf8");
// The page of the command line is made from the commands, which have tests of their own.
const pages = [
  "README.md",
  ...readdirSync(join(root, "docs")).flatMap((name) => (name === "cli.md" ? [] : [`docs/${name}`])),
];

test.each(pages)("the programs in %s run", { timeout: 60_000 }, async (page) => {
  const text = readFileSync(join(root, page), "utf8");
  const programs = [...text.matchAll(/```ts\n(.*?)```/gs)].map((match) => match[1] as string);
  expect(programs.length).toBeGreaterThanOrEqual(1);
  const directory = scratch();
  // A package of its own: whatever stands above the temporary directory is not asked.
  writeFileSync(join(directory, "package.json"), "{}");
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(root, join(directory, "node_modules", "holdfast"));
  for (const [i, program] of programs.entries())
    writeFileSync(join(directory, `program-${i}.mjs`), program);
  // One process, because starting twenty takes longer than what they do.
  const all = programs.map((_, i) => `await import("./program-${i}.mjs");\n`).join("");
  writeFileSync(join(directory, "programs.mjs"), `${all}console.log("All have run.");`);
  const { stdout } = await promisify(execFile)(process.execPath, ["programs.mjs"], {
    cwd: directory,
  });
  expect(stdout).toMatch(/All have run\.\n$/);
});

test("the two commands stand on top", () => {
  expect(readme.split("\n").slice(0, 6).join("\n")).toMatch(
    /npm ci && npx holdfast demo[\s\S]*npm ci && npm test/,
  );
});

test("the demo runs as a program of its own, and nothing happens twice", {
  timeout: 60_000,
}, async () => {
  // By its own name, as npx does: the file must be executable.
  const { stdout } = await promisify(execFile)(join(root, "bin", "holdfast.js"), ["demo"], {
    cwd: scratch(),
  });
  expect(stdout.match(/✖ SIGKILL/g)).toHaveLength(5);
  expect(stdout.match(/refunded once, mail sent once/g)).toHaveLength(2);
  expect(stdout).toMatch(/asked 8 times for 8 replies: none paid twice/);
  expect(stdout).toMatch(/digest chain intact/);
  // Without a terminal there are no escapes.
  expect(stdout).not.toContain("\u001b");
});
