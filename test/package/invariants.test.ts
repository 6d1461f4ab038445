/**
 * Rules that code and tests cite by a label (`LEASE-2`): each is defined once, in the header of the
 * module that keeps it. The ten promises (D1 to D10) are defined in ARCHITECTURE.md.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { sourcesIn } from "../../scripts/house-facts.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const sources = sourcesIn(`${root}src`).map(({ file, text }) => ({ file: `src/${file}`, text }));
const tests = sourcesIn(`${root}test`)
  .map(({ file, text }) => ({ file: `test/${file}`, text }))
  .filter(({ file }) => file !== "test/package/invariants.test.ts");
const pages = ["ARCHITECTURE.md", "README.md", "docs/security.md"].map((file) => ({
  file,
  text: readFileSync(`${root}${file}`, "utf8"),
}));

/** A label at the beginning of a line of a comment, and two spaces behind it. */
const DEFINED = /^ ?\* ([A-Z]{2,}-\d{1,2})(?: \(D\d+\))? {2}/gm;
const PROMISED = /^- \*\*(D\d{1,2}) /gm;
const CITED = /(?<![\w$.#/"'`-])([A-Z]{2,}-\d{1,2}|D\d{1,2})(?![\w-]|\.\d)/g;
/** What looks like a label and is the name of something else. */
const NAMES = new Set(["UTF-8", "UTF-16", "SHA-256", "ISO-8601", "RFC-3339", "AES-256"]);

interface Place {
  readonly label: string;
  readonly file: string;
}

const labelsIn = (pattern: RegExp, files: readonly { file: string; text: string }[]): Place[] =>
  files.flatMap(({ file, text }) =>
    [...text.matchAll(pattern)].map(([, label = ""]) => ({ label, file })),
  );

/** Comments, and the titles of tests: what stands in other texts is data. */
const wordsOf = (text: string): string =>
  [
    ...(text.match(/\/\*[^]*?\*\/|\/\/.*/g) ?? []),
    ...[...text.matchAll(/\b(?:test|describe|define)\S*\(\s*["'`]([^"'`\n]*)/g)].map(
      ([, title]) => title,
    ),
  ].join("\n");

const defined = [
  ...labelsIn(DEFINED, sources),
  ...labelsIn(
    PROMISED,
    pages.filter(({ file }) => file === "ARCHITECTURE.md"),
  ),
];

function findings(
  definitions: readonly Place[],
  files: readonly { file: string; text: string }[],
): readonly string[] {
  const owners = new Map<string, string[]>();
  for (const { label, file } of definitions)
    owners.set(label, [...(owners.get(label) ?? []), file]);
  const twice = [...owners].filter(([, files]) => files.length > 1);
  const cited = labelsIn(
    CITED,
    files.map(({ file, text }) => ({ file, text: file.endsWith(".md") ? text : wordsOf(text) })),
  );
  return [
    ...twice.map(([label, files]) => `${label} is defined by ${files.join(" and ")}`),
    ...cited
      .filter(({ label }) => !owners.has(label) && !NAMES.has(label))
      .map(({ label, file }) => `${file} cites ${label}, which is defined nowhere`),
  ];
}

test("every label that code, tests or docs cite is defined once", () => {
  expect(defined.length).toBeGreaterThan(100);
  expect(findings(defined, [...sources, ...tests, ...pages])).toEqual([]);
});

test("no rule has a label without the prefix of its module", () => {
  expect(labelsIn(/^ ?\* ([A-Z]\d{1,2})(?: \(D\d+\))? {2}/gm, sources)).toEqual([]);
});

test("all ten promises are defined, and each is cited by a test", () => {
  const promises = Array.from({ length: 10 }, (_, n) => `D${n + 1}`);
  expect(defined.map(({ label }) => label).filter((label) => /^D\d/.test(label))).toEqual(promises);
  const cited = new Set(
    labelsIn(
      CITED,
      tests.map(({ file, text }) => ({ file, text: wordsOf(text) })),
    ).map(({ label }) => label),
  );
  expect(promises.filter((label) => !cited.has(label))).toEqual([]);
});

test("a label without an owner, and one with two, are found", () => {
  const text = "/** Nothing is lost (LOST-1). */";
  expect(findings([], [{ file: "a.ts", text }])).toEqual([
    "a.ts cites LOST-1, which is defined nowhere",
  ]);
  const two = ["a.ts", "b.ts"].map((file) => ({ label: "LOST-1", file }));
  expect(findings(two, [])).toEqual(["LOST-1 is defined by a.ts and b.ts"]);
});
