/** Files that the docs name are there. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const files = ["src", "test", "bench", "examples", "faults", "scripts"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" }).map(
    (file) => `/${folder}/${file}`,
  ),
);
const pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].concat(
  readdirSync(join(root, "docs"), { encoding: "utf8" }).map((name) => `docs/${name}`),
);

/** Paths in backticks: of a source file, or of a folder below one of ours. */
const namedIn = (text: string): readonly string[] =>
  [
    ...text.matchAll(
      /`((?:[\w-]+\/)*[\w-]+\.(?:test\.)?(?:ts|mjs)|(?:src|test|bench|faults|scripts)\/[\w/-]+)`/g,
    ),
  ].map(([, path]) => path as string);

const missing = (text: string): readonly string[] =>
  namedIn(text).filter(
    (path) => !files.some((file) => file.endsWith(`/${path.replace(/\/$/, "")}`)),
  );

test.each(pages)("%s names files that are there", (page) => {
  expect(missing(readFileSync(join(root, page), "utf8"))).toEqual([]);
});

test("the check sees a file that is not there", () => {
  expect(missing("see `src/runtime/agents` and `record-owners.ts`, `nothing.ts`")).toEqual([
    "src/runtime/agents",
    "nothing.ts",
  ]);
});
