/**
 * The table of dependencies in docs/security.md says all that a user installs, why, and what runs
 * at the install.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), "utf8");

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}
interface Locked {
  readonly dev?: boolean;
  readonly hasInstallScript?: boolean;
}

const manifest = JSON.parse(read("package.json")) as Manifest;
const { packages } = JSON.parse(read("package-lock.json")) as {
  readonly packages: Readonly<Record<string, Locked>>;
};

interface Row {
  readonly name: string;
  readonly kind: string;
  readonly why: string;
  readonly script: string;
}

/** The rows of the table that begins with this head. */
function table(text: string): readonly Row[] {
  const lines = text.split("\n");
  const head = lines.findIndex((line) =>
    /^\| package \| kind \| why \| install script \|$/.test(line),
  );
  if (head < 0) return [];
  const rows = lines.slice(head + 2);
  const end = rows.findIndex((line) => !line.startsWith("|"));
  return rows.slice(0, end < 0 ? rows.length : end).map((line) => {
    const [name = "", kind = "", why = "", script = ""] = line
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim());
    return { name: name.replaceAll("`", ""), kind, why, script };
  });
}

const kinds: readonly (readonly [kind: string, names: readonly string[]])[] = [
  ["required", Object.keys(manifest.dependencies)],
  ["optional", Object.keys(manifest.optionalDependencies)],
  ["peer, optional", Object.keys(manifest.peerDependencies)],
];

describe("the dependencies in docs/security.md", () => {
  const rows = table(read("docs/security.md"));

  test.each(kinds)("%s: all of them, and no others", (kind, names) => {
    expect(rows.filter((row) => row.kind === kind).map(({ name }) => name)).toEqual(names);
  });

  test("each has a reason, and says what the lockfile says of its install script", () => {
    expect(rows).toHaveLength(kinds.flatMap(([, names]) => names).length);
    for (const { name, why, script } of rows) {
      expect([name, why.length > 10]).toEqual([name, true]);
      expect([name, script.split(/[ :]/)[0]]).toEqual([
        name,
        packages[`node_modules/${name}`]?.hasInstallScript === true ? "yes" : "none",
      ]);
    }
  });

  test("no package below them runs an install script", () => {
    const told = new Set(rows.map(({ name }) => `node_modules/${name}`));
    const scripts = Object.entries(packages).filter(
      ([path, { dev, hasInstallScript }]) => dev !== true && hasInstallScript && !told.has(path),
    );
    expect(scripts.map(([path]) => path)).toEqual([]);
  });

  test("control: the table is read, row by row", () => {
    const text =
      "x\n| package | kind | why | install script |\n| --- | --- | --- | --- |\n| `a` | required | It is needed. | none |\n\n| b |";
    expect(table(text)).toEqual([
      { name: "a", kind: "required", why: "It is needed.", script: "none" },
    ]);
  });
});
