/**
 * Check the package as a person installs it: no install scripts, no driver needed on Node 24, and a
 * checkout that builds itself.
 */
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { open } from "../../src/index.js";
import { isThorough } from "../support/runs.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
};

const made: string[] = [];
afterEach(() => {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
});

/** Copy parts of the project into an empty folder; everything else is absent there. */
function copyOf(...parts: readonly string[]): string {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-package-"));
  made.push(dir);
  for (const part of ["package.json", ...parts])
    cpSync(join(root, part), join(dir, part), { recursive: true });
  return dir;
}

const run = (dir: string, ...args: readonly string[]) => {
  const env = { ...process.env, TMPDIR: join(dir, "tmp") };
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: dir,
    env,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
};

/**
 * Install the package's required dependencies only, as npm does where the optional one cannot be
 * built.
 */
function withoutDriver(): string {
  const dir = copyOf("dist");
  for (const name of Object.keys(manifest.dependencies)) {
    mkdirSync(join(dir, "node_modules", name, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), join(dir, "node_modules", name), "junction");
  }
  return dir;
}

const opening = (address: string) => `
  import { open } from "./dist/index.js";
  try {
    const hold = await open(${JSON.stringify(address)});
    await (await hold.session("a")).close();
    await hold.close();
    console.log("works");
  } catch ({ code, message }) {
    console.log(code, message);
  }`;

test("npm runs no script of ours when a user installs the package", () => {
  const atInstall = [
    "preinstall",
    "install",
    "postinstall",
    "prepublish",
    "preprepare",
    "prepare",
    "postprepare",
  ];
  expect(atInstall.filter((name) => name in manifest.scripts)).toEqual([]);
});

/** Install the driver without its binary, as `npm install --ignore-scripts` does. */
function withoutBinary(): string {
  const dir = withoutDriver();
  for (const part of ["package.json", "lib"])
    cpSync(
      join(root, "node_modules/better-sqlite3", part),
      join(dir, "node_modules/better-sqlite3", part),
      { recursive: true },
    );
  for (const name of ["bindings", "file-uri-to-path"])
    symlinkSync(join(root, "node_modules", name), join(dir, "node_modules", name), "junction");
  return dir;
}

const hasSqlite = Number.parseInt(process.versions.node, 10) >= 24;

describe.each([
  { what: "better-sqlite3", installed: withoutDriver, remedy: "Run `npm install better-sqlite3`." },
  {
    what: "the binary of better-sqlite3",
    installed: withoutBinary,
    remedy: "Run `npm rebuild better-sqlite3 --ignore-scripts=false`.",
  },
])(
  "without $what, Node 24 uses its own SQLite, and older ones name the command",
  ({ installed, remedy }) => {
    const said = (error: string) => {
      expect(error).toMatch(
        /better-sqlite3, the SQLite driver for Node [\d.]+, could not be loaded\./,
      );
      expect(error).toContain(remedy);
      expect(error.trim().split("\n")).toHaveLength(1);
    };

    test("a store is opened, or no file is left", () => {
      const dir = installed();
      const { stdout } = run(dir, "--input-type=module", "--eval", opening("made/a.db"));
      if (hasSqlite) return expect(stdout).toBe("works\n");
      said(stdout);
      expect(stdout).toMatch(/^UNSUPPORTED /);
      expect(existsSync(join(dir, "made"))).toBe(false);
    });

    test("a backup is restored, or no file is left", async () => {
      const dir = installed();
      const hold = await open(join(dir, "store.db"));
      await hold.backup(join(dir, "backup.db"));
      await hold.close();
      const restoring = `
      import { restoreBackup } from "./dist/index.js";
      await restoreBackup("backup.db", "made/a.db").then(() => console.log("works"), ({ code, message }) => console.log(code, message));`;
      const { stdout } = run(dir, "--input-type=module", "--eval", restoring);
      if (hasSqlite) return expect(stdout).toBe("works\n");
      said(stdout);
      expect(existsSync(join(dir, "made"))).toBe(false);
    });

    test("the demo runs, or says so in one line", () => {
      const dir = installed();
      mkdirSync(join(dir, "tmp"));
      const { status, stdout, stderr } = run(dir, "dist/bin/holdfast.js", "demo");
      expect(readdirSync(join(dir, "tmp"))).toEqual([]);
      if (hasSqlite) return expect(status).toBe(0);
      said(stderr);
      expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    });
  },
);

test("without better-sqlite3, the stores that do not need it work", () => {
  const dir = withoutDriver();
  for (const address of ["dir:state", "memory:"])
    expect(run(dir, "--input-type=module", "--eval", opening(address)).stdout, address).toBe(
      "works\n",
    );
});

if (isThorough)
  test("the first command in a fresh checkout builds it", () => {
    const dir = copyOf("bin", "src", "tsconfig.json", "tsconfig.build.json", "rolldown.config.mjs");
    symlinkSync(join(root, "node_modules"), join(dir, "node_modules"), "junction");
    const first = run(dir, "bin/holdfast.js", "--version");
    expect(first).toMatchObject({ status: 0, stdout: "0.1.0\n" });
    expect(first.stderr).toContain("Building Holdfast");
    expect(run(dir, "bin/holdfast.js", "--version")).toEqual({
      status: 0,
      stdout: "0.1.0\n",
      stderr: "",
    });
  });

test("a build that fails is told, with what to run", () => {
  const dir = copyOf("bin");
  const { status, stderr } = run(dir, "bin/holdfast.js", "--version");
  expect(status).toBe(1);
  expect(stderr).toContain("The build failed. Run `npm ci`, then `npm run build`.");
});
