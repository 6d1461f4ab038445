/** Who may import whom. A layer that reaches past its neighbours is how a design is lost. */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const src = fileURLToPath(new URL("../src", import.meta.url));

/** For each layer, what its files may import besides themselves. Entries are layers, files, or `node:`. */
const allowed: Readonly<Record<string, readonly string[]>> = {
  core: ["node:crypto", "node:util/types"],
  store: ["core", "node:"],
  runtime: ["core", "store/port.ts", "store/search-port.ts", "@standard-schema/spec", "@cfworker/json-schema", "node:"],
  tools: ["core", "runtime", "@standard-schema/spec", "node:crypto", "node:timers/promises"],
  "holdfast.ts": ["core", "store/port.ts", "runtime", "tools"],
  testing: ["core", "store", "runtime", "holdfast.ts", "node:"],
  otel: [
    "core/errors.ts",
    "core/given.ts",
    "core/ids.ts",
    "core/message.ts",
    "runtime/telemetry.ts",
    "@opentelemetry/api",
    "node:module",
    "node:os",
  ],
  server: ["core", "runtime", "tools", "@modelcontextprotocol/server", "node:"],
  cli: ["core/address.ts", "core/closest.ts", "core/errors.ts", "core/lossless-json.ts", "index.ts", "migrate", "server", "node:"],
  migrate: [
    "core/address.ts",
    "core/errors.ts",
    "core/given.ts",
    "core/ids.ts",
    "core/json.ts",
    "core/lossless-json.ts",
    "index.ts",
    "store/sql/sqlite/driver.ts",
    "node:",
  ],
  "open.ts": ["core", "store", "runtime", "holdfast.ts"],
  "index.ts": ["core", "store/port.ts", "runtime", "tools", "holdfast.ts", "open.ts"],
};

interface Import {
  readonly from: string;
  readonly to: string;
}

function imports(): Import[] {
  return readdirSync(src, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => {
      const text = readFileSync(join(src, file), "utf8");
      const found = [...text.matchAll(/^(?:import|export)[^;]*?from "([^"]+)";|^import "([^"]+)";|import\("([^"]+)"\)/gms)];
      return found.map((match) => {
        const target = match[1] ?? match[2] ?? match[3] ?? "";
        const to = target.startsWith(".") ? relative(src, join(src, dirname(file), target)).replace(/\.js$/, ".ts") : target;
        return { from: file, to };
      });
    });
}

export function violations(found: readonly Import[]): string[] {
  return found
    .filter(({ from, to }) => {
      const layer = from.split("/")[0] as string;
      if (to.split("/")[0] === layer) return false;
      return !(allowed[layer] ?? []).some(
        (entry) => to === entry || to.startsWith(`${entry}/`) || (entry === "node:" && to.startsWith("node:")),
      );
    })
    .map(({ from, to }) => `${from} imports ${to}`);
}

test("every import goes in an allowed direction", () => {
  const found = imports();
  expect(found.length).toBeGreaterThan(100);
  expect(violations(found)).toEqual([]);
});

test("the check sees a wrong direction", () => {
  expect(violations([{ from: "core/fold.ts", to: "runtime/session.ts" }])).toHaveLength(1);
  expect(violations([{ from: "core/fold.ts", to: "node:fs" }])).toHaveLength(1);
  expect(violations([{ from: "runtime/session.ts", to: "store/sql/store.ts" }])).toHaveLength(1);
  expect(violations([{ from: "store/memory.ts", to: "better-sqlite3" }])).toHaveLength(1);
});
