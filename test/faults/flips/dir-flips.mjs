/** A small store in a directory, and damage to any file of it. */
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join, relative } from "node:path";
import { open } from "../../../dist/index.js";

/**
 * Two sessions, a fork, a rewind, state, a prune, a redaction, and a deleted session: as little
 * text as that takes.
 */
export async function makeSmall(path) {
  const hold = await open(`dir:${path}`);
  const a = await hold.session("a", { agent: "writer", tags: ["x"] });
  for (let n = 0; n < 4; n++) {
    a.append({ role: "user", content: `q${n}` });
    a.set("step", n);
    await a.checkpoint(n === 2 ? "two" : undefined);
  }
  const at = (await hold.checkpoints.list("a", { limit: 100 })).items;
  await hold.sessions.fork(at[1].id, { id: "B" });
  await a.rewind(at[0].id);
  await hold.checkpoints.prune("a", { keep: 2 });
  await a.complete("done");
  await a.close();
  await hold.sessions.redact("a", ["q1", "two"], { with: "-" });
  const b = await hold.session("B");
  b.append({ role: "user", content: "é𝔘" });
  await b.checkpoint();
  await b.close();
  const gone = await hold.session("gone");
  await gone.checkpoint();
  await gone.close();
  await hold.sessions.delete("gone");
  await hold.close();
}

export async function idsOf(path) {
  const hold = await open(`dir:${path}`);
  const sessions = (await hold.sessions.list({ limit: 100 })).items.map(({ id }) => id);
  const checkpoints = new Set();
  for (const id of sessions)
    for (const { id: at } of (await hold.checkpoints.list(id, { limit: 100, branches: "all" }))
      .items)
      checkpoints.add(at);
  await hold.close();
  return { sessions, checkpoints: [...checkpoints], blobs: [] };
}

/** The files of a store, below its directory. */
export function filesIn(path, directory = path) {
  return readdirSync(directory).flatMap((name) => {
    const at = join(directory, name);
    return statSync(at).isDirectory() ? filesIn(path, at) : [relative(path, at)];
  });
}

/** A copy of the store with one bit of one file changed, or the file cut short. */
export function damagedCopy(from, to, { file, bit, length }) {
  rmSync(to, { recursive: true, force: true });
  mkdirSync(to, { recursive: true });
  cpSync(from, to, { recursive: true });
  const bytes = readFileSync(join(from, file));
  if (length === undefined) bytes[bit >> 3] ^= 1 << (bit & 7);
  writeFileSync(join(to, file), length === undefined ? bytes : bytes.subarray(0, length));
}
