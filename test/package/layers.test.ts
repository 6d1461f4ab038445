/**
 * Who may import whom. A folder is a room with a door: it imports only what its layer allows, and
 * no folders import each other in a circle.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  cyclesIn,
  featureImports,
  folderEdges,
  folderOf,
  type Import,
  importsOf,
  sourcesIn,
} from "../../scripts/house-facts.mjs";

const sources = sourcesIn(fileURLToPath(new URL("../../src", import.meta.url)));
const imports = importsOf(sources);
const files = new Set(sources.map(({ file }) => file));

const PORT = ["store/port.ts", "store/port", "store/search-port.ts", "store/capabilities.ts"];
/** Values into values, and nothing else: all rooms above may use them. */
const PURE = ["core", "formats"];
const SCHEMAS = ["@standard-schema/spec", "@cfworker/json-schema"];

/**
 * For each room, what its files may import besides their own folder. The longest name that fits a
 * file counts. Entries are folders, with all below them, or files, or packages; `node:` stands for
 * all of Node.
 */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: ["core", "node:crypto", "node:util/types"],
  formats: ["core"],
  store: ["store", "core", "node:"],
  "engine/util": ["core", ...PORT, "node:"],
  "engine/records": [...PURE, ...PORT, "engine/util", "node:crypto"],
  "engine/journal": [...PURE, ...PORT, "engine/util", "engine/records", "node:"],
  "engine/session": [...PURE, ...PORT, "engine/util", "engine/records", "engine/journal", "node:"],
  "engine/calls": [
    ...PURE,
    ...PORT,
    "engine/util",
    "engine/records",
    "engine/journal",
    "engine/session",
    "node:",
  ],
  "engine/lifecycle": [
    ...PURE,
    ...PORT,
    "engine/util",
    "engine/records",
    "engine/journal",
    "engine/session",
    "engine/calls",
    "node:",
  ],
  features: [...PURE, ...PORT, "engine", ...SCHEMAS, "node:"],
  "features/runs": [...PURE, ...PORT, "engine", "features/runs", ...SCHEMAS, "node:"],
  api: [...PURE, ...PORT, "engine", "features", "node:"],
  tools: [
    ...PURE,
    "engine",
    "features/runs",
    "api",
    ...SCHEMAS,
    "node:crypto",
    "node:timers/promises",
  ],
  "holdfast.ts": ["core", ...PORT, "engine", "features", "api", "tools"],
  "open.ts": ["core", "store", "engine", "holdfast.ts"],
  "index.ts": ["core", "engine", "features", "api", "holdfast.ts", "open.ts"],
  testing: ["testing", "core", "store", "engine/journal/store-context.ts", "holdfast.ts", "node:"],
  otel: ["core", "engine/journal/telemetry.ts", "@opentelemetry/api", "node:module", "node:os"],
  server: ["server", "core", "engine", "api", "tools", "@modelcontextprotocol/server", "node:"],
  migrate: ["migrate", "core/values", "index.ts", "store/sql/sqlite/driver/driver.ts", "node:"],
  cli: ["cli", "core/values", "index.ts", "migrate/index.ts", "server", "node:"],
};

const isIn = (path: string, entry: string): boolean =>
  path === entry || path.startsWith(`${entry}/`) || (entry === "node:" && path.startsWith("node:"));

const roomOf = (file: string): string =>
  Object.keys(allowed)
    .filter((room) => isIn(file, room))
    .toSorted((a, b) => b.length - a.length)[0] ?? "";

const violations = (found: readonly Import[]): readonly string[] =>
  found
    .filter(({ from, to }) => folderOf(from) !== folderOf(to))
    .filter(({ from, to }) => !(allowed[roomOf(from)] ?? []).some((entry) => isIn(to, entry)))
    .map(({ from, to }) => `${from} imports ${to}`);

const circles = (found: readonly Import[]) =>
  cyclesIn(folderEdges(found, (file) => files.has(file)));

test("every import goes in an allowed direction", () => {
  expect(imports.length).toBeGreaterThan(2_000);
  expect(violations(imports)).toEqual([]);
});

test("every file is in a room", () => {
  expect([...files].filter((file) => roomOf(file) === "")).toEqual([]);
});

test("no folders import each other in a circle, types included", () => {
  expect(circles(imports)).toEqual([]);
});

test("no feature imports another", () => {
  expect(featureImports(imports)).toEqual([]);
});

test("no folder has more than 25 files", () => {
  const tests = sourcesIn(fileURLToPath(new URL("..", import.meta.url)));
  const sizes = new Map<string, number>();
  for (const { file } of [
    ...sources,
    ...tests.map(({ file, text }) => ({ file: join("test", file), text })),
  ])
    sizes.set(folderOf(file), (sizes.get(folderOf(file)) ?? 0) + 1);
  expect([...sizes].filter(([, size]) => size > 25)).toEqual([]);
});

test.each([
  ["core/journal/session-state.ts", "engine/lifecycle/session.ts"],
  ["core/journal/session-state.ts", "node:fs"],
  ["engine/lifecycle/session.ts", "store/sql/store.ts"],
  ["engine/records/rows.ts", "engine/journal/store-context.ts"],
  ["features/health/verify.ts", "api/sessions.ts"],
  ["features/health/verify.ts", "features/runs/runs.ts"],
  ["store/memory.ts", "better-sqlite3"],
])("the check sees that %s must not import %s", (from, to) => {
  expect(violations([{ from, to }])).toHaveLength(1);
});

test("the check sees a circle", () => {
  const back = { from: "engine/util/validate.ts", to: "engine/journal/store-context.ts" };
  expect(circles([...imports, back])).toHaveLength(1);
});
