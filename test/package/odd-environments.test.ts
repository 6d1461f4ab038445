/**
 * Programs that run in other ways than a file with all packages installed: the same answers, or an
 * error that says what to install.
 */
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { scratch } from "../support/stores.js";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Evaluation {
  readonly cwd: string;
  readonly flags?: readonly string[];
  readonly NODE_OPTIONS?: string;
}

async function evaluate(
  code: string,
  { cwd, flags = ["--input-type=module"], NODE_OPTIONS = "" }: Evaluation,
): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, "-e", code], {
    cwd,
    env: { ...process.env, NODE_OPTIONS },
  });
  return stdout;
}

const dist = pathToFileURL(join(root, "dist", "index.js")).href;

test.each([
  { how: "node --input-type=module -e" },
  { how: "NODE_OPTIONS=--input-type=module", flags: [], NODE_OPTIONS: "--input-type=module" },
])("backup and restoreBackup work under $how", async (how) => {
  const directory = scratch();
  const said = await evaluate(
    `import { open, restoreBackup } from ${JSON.stringify(dist)};
    const hold = await open("a.db");
    await (await hold.session("s")).checkpoint();
    await hold.backup("copy.db");
    await hold.close();
    console.log((await restoreBackup("copy.db", "b.db")).sessions);`,
    { cwd: directory, ...how },
  );
  expect(said).toBe("1\n");
});

test("without @opentelemetry/api, otel() says what to install; the rest of the package works", async () => {
  const place = join(scratch(), "node_modules");
  const own = join(place, "holdfast");
  mkdirSync(own, { recursive: true });
  cpSync(join(root, "dist"), join(own, "dist"), { recursive: true });
  cpSync(join(root, "package.json"), join(own, "package.json"));
  for (const name of [
    "better-sqlite3",
    "bindings",
    "file-uri-to-path",
    "@cfworker",
    "@standard-schema",
  ])
    symlinkSync(join(root, "node_modules", name), join(place, name));
  const said = await evaluate(
    `import { HoldfastError, open } from "holdfast";
    import { otel } from "holdfast/otel";
    await (await open("memory:")).close();
    try { otel(); } catch (error) { console.log(error instanceof HoldfastError, error.code, error.message); }`,
    { cwd: place },
  );
  expect(said).toBe(
    "true UNSUPPORTED holdfast/otel needs the package @opentelemetry/api. Install it: npm install @opentelemetry/api\n",
  );
});
