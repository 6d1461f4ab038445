/**
 * The store in a directory: a save against a bare append, its room on disk, a load, and opening
 * among very many sessions.
 */
import {
  closeSync,
  fdatasyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { sealedText, unsealed } from "../../dist/store/dir/files/checksummed-json.js";
import { sessionPath } from "../../dist/store/dir/files/names.js";
import { median, now, step, timeLoads, timeSaves } from "../measure.mjs";

export async function dir({ directory, rounds, loads, sessions }) {
  // The load first: it is measured on a heap that no other has left.
  const loaded = await loading(directory, loads);
  return [
    ...(await saves(directory, rounds)),
    loaded,
    await atOnce(directory, 128),
    await opening(directory, sessions),
  ];
}

async function saves(directory, rounds) {
  const place = join(directory, "dir-save");
  const hold = await open(`dir:${place}`);
  const bare = openSync(join(directory, "bare.jsonl"), "a");
  const append = (raw) => {
    writeSync(bare, `${raw}\n`);
    fdatasyncSync(bare);
  };
  const { p50, p99, rawBytes } = await timeSaves(await hold.session("bench"), append, {
    rounds,
    warm: 500,
  });
  await hold.close();
  closeSync(bare);
  const disk = bytesIn(place);
  return [
    {
      name: "dir: save p50 / bare append and fdatasync p50",
      ...p50,
      floor: 1.5,
      note: `${p50.note}; p99 ${p99.note}`,
    },
    {
      name: "dir: disk / raw JSON",
      value: disk / rawBytes,
      floor: 1.5,
      note: `${(disk / 1e6).toFixed(1)} / ${(rawBytes / 1e6).toFixed(1)} MB`,
    },
  ];
}

const bytesIn = (path) =>
  statSync(path).isFile()
    ? statSync(path).size
    : readdirSync(path).reduce((sum, name) => sum + bytesIn(join(path, name)), 0);

async function loading(directory, rounds) {
  const hold = await open(`dir:${join(directory, "dir-load")}`);
  const measured = await timeLoads(hold, rounds);
  await hold.close();
  return {
    name: "dir: load of 1,000 messages, verified / JSON.parse + SHA-256",
    ...measured,
    floor: 2.5,
  };
}

/** Many sessions that save in one tick, each to a file of its own. */
async function atOnce(directory, sessions) {
  const hold = await open(`dir:${join(directory, "dir-once")}`);
  const all = [];
  for (let i = 0; i < sessions; i++) all.push(await hold.session(`s-${i}`));
  const save = (session) => {
    session.append(...step());
    return session.checkpoint();
  };
  for (let i = 0; i < 2; i++) await Promise.all(all.map(save));
  const together = [];
  const alone = [];
  for (let i = 0; i < 5; i++) {
    let start = now();
    await Promise.all(all.map(save));
    together.push((now() - start) / sessions);
    start = now();
    for (const session of all) await save(session);
    alone.push((now() - start) / sessions);
  }
  await hold.close();
  return {
    name: `dir: ${sessions} sessions saving at once / one after another`,
    value: median(alone) / median(together),
    floor: 1.3,
    higher: true,
    note: `${Math.round(1e6 / median(together))} / ${Math.round(1e6 / median(alone))} saves/s`,
  };
}

/**
 * Sessions are written as the store writes them, but without a sync for each: only opening is
 * measured.
 */
async function opening(directory, sessions) {
  const place = join(directory, "dir-open");
  const first = await open(`dir:${place}`);
  await (await first.session("s-0", { agent: "bench" })).close();
  await first.close();
  const { check: _check, ...doc } = unsealed(
    readFileSync(join(place, sessionPath("s-0"), "session.json"), "utf8"),
  );
  for (let i = 1; i < sessions; i++) {
    const id = `s-${i}`;
    const line = { ...doc.branches[0], no: i + 1, id: i.toString(32).padStart(16, "0"), owner: id };
    const path = join(place, sessionPath(id));
    mkdirSync(path, { recursive: true });
    const made = {
      ...doc,
      id,
      no: i + 1,
      head: { ...doc.head, branch: line.id },
      branches: [line],
      lastBranch: i + 1,
    };
    writeFileSync(join(path, "session.json"), sealedText(made));
  }
  const times = [];
  for (let i = 0; i < 3; i++) {
    const start = now();
    const hold = await open(`dir:${place}`);
    times.push((now() - start) / 1000);
    const { items } = await hold.sessions.list({ limit: 1 });
    if (items.length !== 1) throw new Error("expected a session");
    await hold.close();
  }
  return {
    name: `dir: open with ${sessions.toLocaleString("en")} sessions, ms`,
    value: median(times),
    floor: 1000,
    unit: "ms",
  };
}
