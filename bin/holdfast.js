#!/usr/bin/env node
/**
 * Start the command line. The package carries `dist`; a fresh checkout does not, so the first command builds it.
 * The package has no `prepare` script, because npm shows that one to users as an install script.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const built = new URL("../dist/bin/holdfast.js", import.meta.url);
if (!existsSync(built)) {
  process.stderr.write("Building Holdfast. This happens once in a checkout.\n");
  const cwd = fileURLToPath(new URL("..", import.meta.url));
  const { status, stdout, stderr, error } = spawnSync("npm", ["run", "build"], { cwd, encoding: "utf8" });
  if (status !== 0) {
    process.stderr.write(`${stdout ?? ""}${stderr ?? ""}${error?.message ?? ""}\nThe build failed. Run \`npm ci\`, then \`npm run build\`.\n`);
    process.exit(1);
  }
}
await import(built.href);
