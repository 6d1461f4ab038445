/**
 * How long one waits for a command: the version, beside a bare Node, and a list of sessions in a
 * store that has many.
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "../../dist/index.js";
import { median, now } from "../measure.mjs";

const bin = fileURLToPath(new URL("../../dist/bin/holdfast.js", import.meta.url));
const AT_ONCE = 1_000;

async function make(store, sessions) {
  const hold = await open(store, { search: false });
  for (let i = 0; i < sessions; i += AT_ONCE) {
    const ids = Array.from(
      { length: Math.min(AT_ONCE, sessions - i) },
      (_, j) => `session-${i + j}`,
    );
    const some = await Promise.all(ids.map((id) => hold.session(id, { agent: "bench" })));
    for (const session of some)
      session.append({ role: "user", content: `What is ${session.id} about?` });
    await Promise.all(some.map((session) => session.checkpoint()));
    await Promise.all(some.map((session) => session.close()));
  }
  await hold.close();
}

export async function cli({ directory, rounds, sessions }) {
  const store = join(directory, "cli.db");
  await make(store, sessions);
  const taken = { bare: [], version: [], ls: [], query: [] };
  const timed = (name, args) => {
    const began = now();
    const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8" });
    taken[name].push((now() - began) / 1000);
    if (status !== 0) throw new Error(`${args.join(" ")}: ${stderr}`);
  };
  for (let i = 0; i < rounds; i++) {
    timed("bare", ["-e", "0"]);
    timed("version", [bin, "--version"]);
    timed("ls", [bin, "ls", "--store", store]);
    const hold = await open(store, { checks: false });
    const began = now();
    await hold.sessions.list({ archived: false });
    taken.query.push((now() - began) / 1000);
    await hold.close();
  }
  const [bare, version, ls, query] = ["bare", "version", "ls", "query"].map((name) =>
    median(taken[name]),
  );
  return [
    {
      name: "holdfast --version, of node -e 0",
      value: version / bare,
      floor: 1.5,
      note: `${version.toFixed(0)} ms, node -e 0 ${bare.toFixed(0)} ms`,
    },
    {
      name: `holdfast ls in ${sessions.toLocaleString("en-US")} sessions, over node -e 0 and its query, ms`,
      value: ls - bare - query,
      floor: 150,
      unit: "ms",
      note: `${ls.toFixed(0)} ms in all, its query ${query.toFixed(1)} ms`,
    },
  ];
}
