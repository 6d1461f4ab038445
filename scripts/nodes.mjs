/**
 * Runs the tests of the stores, of turns, of search and of the command line on other releases of
 * Node. Build first.
 *
 *   npm run test:nodes              on Node 22 and 24
 *   npm run test:nodes -- 24        on one of them
 *
 * A release comes from the npm registry with its headers, because better-sqlite3 must be compiled
 * for it. Each gets a copy of the checkout with a better-sqlite3 of its own; all other packages are
 * links to those that `npm ci` has installed here.
 */
import { execFileSync, spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const RELEASES = ["22", "24"];
const TESTS = ["test/store", "test/features/runs", "test/features/search", "test/cli"];
const COMPILED = "better-sqlite3";

const root = fileURLToPath(new URL("..", import.meta.url));
const npm =
  process.env.npm_execpath ??
  join(execFileSync("npm", ["root", "-g"], { encoding: "utf8" }).trim(), "npm/bin/npm-cli.js");

function run(program, words, options) {
  const { status, error } = spawnSync(program, words, { stdio: "inherit", ...options });
  if (status !== 0)
    throw new Error(
      `${basename(program)} ${words.join(" ")} failed: ${error?.message ?? `exit code ${status}`}`,
    );
}

/**
 * Installs a release of Node, without changing the one that is installed. Answers the directory of
 * its bin/ and include/.
 */
function installNode(release, place) {
  const name = `node-${process.platform}-${process.arch}`;
  mkdirSync(place);
  run(process.execPath, [
    npm,
    "install",
    "--no-save",
    "--silent",
    "--prefix",
    place,
    `${name}@${release}`,
  ]);
  return join(place, "node_modules", name);
}

function copyCheckout(place) {
  const left = new Set([".git", "node_modules"]);
  cpSync(root, place, { recursive: true, filter: (path) => !left.has(basename(path)) });
  const [from, to] = [join(root, "node_modules"), join(place, "node_modules")];
  mkdirSync(to);
  for (const name of readdirSync(from))
    if (name !== COMPILED && name !== ".vite") symlinkSync(join(from, name), join(to, name));
  cpSync(join(from, COMPILED), join(to, COMPILED), {
    recursive: true,
    filter: (path) => basename(path) !== "build",
  });
}

function testOn(release, place) {
  const node = installNode(release, join(place, "node"));
  const program = join(node, "bin/node");
  const version = execFileSync(program, ["--version"], { encoding: "utf8" }).trim();
  const checkout = join(place, "checkout");
  copyCheckout(checkout);
  const env = {
    ...process.env,
    PATH: `${dirname(program)}${delimiter}${process.env.PATH}`,
    npm_config_nodedir: node,
    // Compiling SQLite takes a minute with all optimizations.
    CFLAGS: "-O1",
    CXXFLAGS: "-O1",
    MAKEFLAGS: "--silent",
  };
  console.log(`\nNode ${version}: compiles ${COMPILED}`);
  run(program, [npm, "run", "--silent", "install"], {
    cwd: join(checkout, "node_modules", COMPILED),
    env,
  });
  console.log(`Node ${version}: vitest run ${TESTS.join(" ")}`);
  run(program, ["node_modules/vitest/vitest.mjs", "run", "--reporter=dot", ...TESTS], {
    cwd: checkout,
    env,
  });
}

if (!existsSync(join(root, "dist/index.js")))
  throw new Error("There is no dist. Run `npm run build` first.");
const releases = process.argv.length > 2 ? process.argv.slice(2) : RELEASES;
const place = mkdtempSync(join(tmpdir(), "holdfast-nodes-"));
// Some tests run as another user.
chmodSync(place, 0o755);
const failed = [];
try {
  for (const release of releases) {
    const began = performance.now();
    const directory = join(place, release);
    mkdirSync(directory);
    try {
      testOn(release, directory);
    } catch (error) {
      console.error(error.message);
      failed.push(release);
    }
    console.log(
      `Node ${release}: ${failed.includes(release) ? "failed" : "passed"} after ${Math.round((performance.now() - began) / 1000)} s`,
    );
  }
} finally {
  rmSync(place, { recursive: true, force: true });
}
process.exitCode = failed.length === 0 ? 0 : 1;
