/** The lines by which clients are set up: whatever stands there starts the server. */
import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { commands } from "../../../src/cli/commands.js";
import { STORE_OPTIONS } from "../../../src/cli/framework/command.js";
import { errorOf } from "../../support/error-of.js";
import { bin } from "../../support/mcp/connect.js";
import { scratch } from "../../support/stores.js";

const page = readFileSync(fileURLToPath(new URL("../../../docs/mcp.md", import.meta.url)), "utf8");
const PREFIX = ["-y", "-p", "holdfast", "-p", "@modelcontextprotocol/server", "holdfast"];

interface Setup {
  readonly command: string;
  readonly args: readonly string[];
}

const setups = [...page.matchAll(/```json\n(.*?)```/gs)].flatMap(([, text = ""]) => {
  const { mcpServers, servers } = JSON.parse(text) as Record<string, Record<string, Setup>>;
  return Object.values(mcpServers ?? servers ?? {});
});
const [, typed = ""] = /claude mcp add --transport stdio holdfast -- npx (.*)/.exec(page) ?? [];
const all = [...setups, { command: "npx", args: typed.split(" ") }];

test("there is one for each client", () => {
  expect(all).toHaveLength(5);
});

test.each(all)("$args starts it", async ({ command, args }) => {
  expect(command).toBe("npx");
  expect(args.slice(0, PREFIX.length)).toEqual(PREFIX);
  const own = args
    .slice(PREFIX.length)
    .map((word, i, words) => (words[i - 1] === "--store" ? join(scratch(), "agent.db") : word));
  const child = spawn(process.execPath, [bin, ...own], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.write(
    `${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } } })}\n`,
  );
  const answer = await new Promise<string>((resolve) =>
    child.stdout.once("data", (chunk: Buffer) => resolve(chunk.toString())),
  );
  expect(JSON.parse(answer)).toMatchObject({ id: 1, result: { serverInfo: { name: "holdfast" } } });
  child.stdin.end();
  expect(await new Promise((resolve) => child.once("close", resolve))).toBe(0);
});

test("every option is on the page, and every option on the page is one", () => {
  const own = commands.find(({ name }) => name === "mcp")?.options ?? {};
  const known = new Set(Object.keys({ ...own, ...STORE_OPTIONS }).map((name) => `--${name}`));
  const told = new Set([...page.matchAll(/^\| `(--[a-z-]+)/gm)].map(([, name]) => name));
  expect(told).toEqual(known);
});

test("where the SDK is not installed, it says what to install; other commands do without", async () => {
  const root = fileURLToPath(new URL("../../..", import.meta.url));
  const place = join(scratch(), "node_modules");
  const own = join(place, "holdfast");
  mkdirSync(own, { recursive: true });
  cpSync(join(root, "dist", "bin"), join(own, "dist", "bin"), { recursive: true });
  cpSync(join(root, "package.json"), join(own, "package.json"));
  for (const name of readdirSync(join(root, "node_modules")))
    if (name !== "@modelcontextprotocol" && !name.startsWith("."))
      symlinkSync(join(root, "node_modules", name), join(place, name));
  const run = (...args: string[]) =>
    promisify(execFile)(process.execPath, [join(own, "dist", "bin", "holdfast.js"), ...args], {
      cwd: place,
      env: { ...process.env, HOLDFAST_STORE: "x.db" },
    });
  for (const args of [[], ["--http", "0"]])
    expect(await errorOf(() => run("mcp", ...args))).toMatchObject({
      code: 1,
      stderr:
        "holdfast: MCP needs the package @modelcontextprotocol/server. Install it: npm install @modelcontextprotocol/server (UNSUPPORTED)\n",
    });
  expect((await run("--version")).stdout).toMatch(/^\d/);
});
