/**
 * What a user installs: the files of the package, and what the lockfile lets npm put beside them.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");

interface Locked {
  readonly version?: string;
  readonly integrity?: string;
  readonly resolved?: string;
  readonly link?: boolean;
  readonly dev?: boolean;
  readonly optional?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
}

/** As npm would pack it. Scripts are off: `dist` is what the build before the tests has made. */
function packed(): readonly string[] {
  const { stdout, stderr, status } = spawnSync(
    "npm",
    ["pack", "--dry-run", "--json", "--ignore-scripts"],
    {
      cwd: root,
      encoding: "utf8",
      shell: process.platform === "win32",
    },
  );
  expect(status, stderr).toBe(0);
  const [pack] = JSON.parse(stdout) as [{ readonly files: readonly { readonly path: string }[] }];
  return pack.files.map(({ path }) => path);
}

/**
 * The source that an output comes from. The command line is put together into files of other names.
 */
const hasSource = (path: string): boolean =>
  /^dist\/bin\/[\w-]+\.js$/.test(path) ||
  (/(?:\.d\.ts|\.js)$/.test(path) &&
    existsSync(join(root, path.replace(/^dist/, "src").replace(/(?:\.d\.ts|\.js)$/, ".ts"))));

describe("the packed files", () => {
  const files = packed();
  const isOutput = (path: string): boolean => path.startsWith("dist/");

  test("are those of the list in packed-files.txt", () => {
    expect(files.filter((path) => !isOutput(path)).toSorted()).toEqual(
      read("test/security/packed-files.txt").trim().split("\n"),
    );
  });

  test("are outputs of a source otherwise; if one is stale, remove dist and build again", () => {
    const outputs = files.filter(isOutput);
    expect(outputs.length).toBeGreaterThan(100);
    expect(outputs).toEqual(
      expect.arrayContaining(["dist/index.js", "dist/index.d.ts", "dist/bin/holdfast.js"]),
    );
    expect(outputs.filter((path) => !hasSource(path))).toEqual([]);
    expect(outputs.filter((path) => path.startsWith("dist/cli/"))).toEqual([]);
  });

  test("control: an output without a source is seen", () => {
    expect(
      ["dist/no-such-source.js", "dist/index.js.map", "dist/bin/deep/x.js"].filter(hasSource),
    ).toEqual([]);
  });
});

describe("the lockfile", () => {
  const { packages } = JSON.parse(read("package-lock.json")) as {
    readonly packages: Readonly<Record<string, Locked>>;
  };
  const entries = Object.entries(packages).filter(([path]) => path !== "");
  /**
   * What npm leaves out of a lockfile: binaries of our own tools for other systems than the one it
   * was written on.
   */
  const isOtherSystem = ({ dev, optional, os, cpu }: Locked): boolean =>
    dev === true && optional === true && (os !== undefined || cpu !== undefined);

  test("holds the digest of every package, but for tools of other systems", () => {
    const without = entries.filter(([, { integrity }]) => integrity === undefined);
    expect(without.filter(([, entry]) => !isOtherSystem(entry)).map(([path]) => path)).toEqual([]);
    for (const [path, { integrity }] of entries)
      if (integrity !== undefined) expect([path, integrity.slice(0, 7)]).toEqual([path, "sha512-"]);
  });

  test("names no address: every package comes from the registry of the user", () => {
    expect(
      entries
        .filter(([, { resolved, link }]) => resolved !== undefined || link === true)
        .map(([path]) => path),
    ).toEqual([]);
  });

  test("control: a package of a user without its digest would be told", () => {
    expect(
      [
        { version: "1.0.0" },
        { dev: true },
        { dev: true, optional: true },
        { optional: true, os: ["linux"] },
      ].filter(isOtherSystem),
    ).toEqual([]);
  });
});

test("the manifest names one repository in all its fields, or none", () => {
  const { repository, bugs, homepage } = JSON.parse(read("package.json")) as Readonly<
    Record<string, unknown>
  >;
  const address =
    typeof repository === "object" && repository !== null
      ? (repository as { readonly url?: unknown }).url
      : repository;
  const expected =
    typeof address === "string" ? address.replace(/^git\+/, "").replace(/\.git$/, "") : undefined;
  const told = [
    typeof bugs === "object" && bugs !== null ? (bugs as { readonly url?: unknown }).url : bugs,
    homepage,
  ];
  for (const field of told)
    if (field !== undefined)
      expect(String(field).startsWith(expected ?? "a repository, which is absent")).toBe(true);
});
