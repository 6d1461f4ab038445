/** How long a client waits for `holdfast mcp`, beyond what it takes to start a process at all. */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { median, now } from "../measure.mjs";

const bin = fileURLToPath(new URL("../../dist/bin/holdfast.js", import.meta.url));

const line = (id, method, params) => `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
const HELLO = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "bench", version: "1" },
};

/** From the start of the process until it has answered its first call, on a store that is there. */
async function start(store) {
  const began = now();
  const child = spawn(process.execPath, [bin, "mcp", "--store", store], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  child.stdin.write(line(1, "initialize", HELLO));
  child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  child.stdin.write(line(2, "tools/call", { name: "persistence_stats", arguments: {} }));
  const times = {};
  for await (const text of createInterface({ input: child.stdout })) {
    const { id } = JSON.parse(text);
    times[id] = (now() - began) / 1000;
    if (id === 2) child.stdin.end();
  }
  return times;
}

export async function mcp({ directory, rounds }) {
  const store = join(directory, "mcp.db");
  await start(store);
  const bare = [];
  const greeted = [];
  const called = [];
  for (let i = 0; i < rounds; i++) {
    const began = now();
    spawnSync(process.execPath, ["-e", "0"]);
    bare.push((now() - began) / 1000);
    const times = await start(store);
    greeted.push(times[1]);
    called.push(times[2]);
  }
  const over = (times) => median(times) - median(bare);
  return [
    {
      name: "holdfast mcp: start to greeting, over node -e 0, ms",
      value: over(greeted),
      floor: 400,
      unit: "ms",
      note: `first call answered ${over(called).toFixed(0)} ms over; node -e 0 ${median(bare).toFixed(0)} ms`,
    },
  ];
}
