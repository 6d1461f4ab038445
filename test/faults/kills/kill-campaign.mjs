/**
 * Kills a child at random instants and checks, each time, that what it had acknowledged is there
 * (D1, D2).
 */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { open } from "../../../dist/index.js";
import { start } from "../../support/children/child.mjs";
import { random } from "../../support/random.mjs";

const KILLS_PER_FILE = 50;
const AT_ONCE_MS = 2_000;

/** What the children have acknowledged so far on one file. */
class Acknowledged {
  sessions = new Map();
  checkpoints = new Map();
  /** Removed by an operation that was acknowledged since the last kill. */
  removed = new Set();
  /** Not yet loaded with their whole state. */
  unread = new Set();
  held = new Set();
  flying = new Map();
  faults = [];
  count = 0;

  hear(lines) {
    this.removed = new Set();
    this.held = new Set();
    this.flying = new Map();
    for (const line of lines) {
      if (line.fault) this.faults.push(`the child failed: ${line.fault}`);
      else if (line.begin) this.flying.set(line.n, line);
      else if (line.done) {
        this.flying.delete(line.n);
        this.#done(line);
      }
    }
  }

  #done({ done, session, id, digest, messages, status, head, title, removed = [] }) {
    this.count += 1;
    if (done === "gc") return;
    if (done === "remove") {
      this.#forget(session);
      return;
    }
    const known = this.sessions.get(session) ?? {};
    this.sessions.set(session, known);
    this.held.add(session);
    if (status !== undefined) known.status = status;
    if (title !== undefined) known.title = title;
    if (head !== undefined) known.head = head;
    if (id !== undefined) {
      known.head = id;
      this.checkpoints.set(id, { session, digest, messages });
      this.unread.add(id);
    }
    for (const gone of removed) {
      this.checkpoints.delete(gone);
      this.unread.delete(gone);
      this.removed.add(gone);
    }
  }

  #forget(session) {
    this.sessions.delete(session);
    this.held.delete(session);
    for (const [id, checkpoint] of this.checkpoints) {
      if (checkpoint.session !== session) continue;
      // A fork may have inherited it: then it is there, and the fork's.
      this.checkpoints.delete(id);
      this.unread.delete(id);
    }
  }

  /** Holds the store against what was acknowledged. Answers what is wrong, in words. */
  async check(hold, rng, readAll) {
    const wrong = this.faults.splice(0);
    const flying = [...this.flying.values()];
    const on = (session, ...ops) =>
      flying.some(
        (line) => line.session === session && (ops.length === 0 || ops.includes(line.begin)),
      );

    for (const [id, known] of this.sessions) {
      const found = await hold.sessions.get(id);
      if (found === undefined) {
        if (on(id, "remove")) this.#forget(id);
        else wrong.push(`session ${id} is gone`);
        continue;
      }
      const latest = (await hold.checkpoints.latest(id))?.id;
      if (!on(id)) {
        if (known.head !== latest)
          wrong.push(`session ${id} should be at ${known.head} and is at ${latest}`);
        if (known.status !== found.status)
          wrong.push(`session ${id} should be ${known.status} and is ${found.status}`);
        if (known.title !== undefined && known.title !== found.title)
          wrong.push(`session ${id} should have the title ${known.title} and has ${found.title}`);
      } else
        Object.assign(
          known,
          { head: latest, status: found.status },
          known.title === undefined ? {} : { title: found.title },
        );
    }
    for (const [id, { session, digest, messages }] of this.checkpoints) {
      const found = await hold.checkpoints.get(id);
      if (found === undefined) {
        if (!on(session, "prune", "removeOne", "remove"))
          wrong.push(`checkpoint ${id} of session ${session} is gone`);
        this.checkpoints.delete(id);
        this.unread.delete(id);
      } else if (
        found.digest !== digest ||
        found.messageCount !== messages ||
        found.sessionId !== session
      )
        wrong.push(`checkpoint ${id} differs: ${JSON.stringify(found)}`);
    }
    for (const id of this.removed)
      if ((await hold.checkpoints.get(id)) !== undefined)
        wrong.push(`checkpoint ${id} was removed and is back`);

    const all = [...this.checkpoints.keys()];
    const sample = readAll
      ? all
      : [...this.unread, ...Array.from({ length: Math.min(5, all.length) }, () => rng.pick(all))];
    for (const id of new Set(sample)) {
      const { messages, checkpoint } = await hold.checkpoints.state(id);
      if (
        messages.length !== this.checkpoints.get(id).messages ||
        checkpoint.digest !== this.checkpoints.get(id).digest
      )
        wrong.push(
          `checkpoint ${id} loads with ${messages.length} messages instead of ${this.checkpoints.get(id).messages}`,
        );
    }
    this.unread.clear();

    const verdict = await hold.verify();
    if (!verdict.ok) wrong.push(`verify: ${JSON.stringify(verdict.findings.slice(0, 3))}`);
    return wrong;
  }

  /** The next save works, and at once: the owner is dead, so nobody waits for its lease. */
  async goOn(hold, rng) {
    const id = rng.pick([...(this.held.size > 0 ? this.held : this.sessions.keys())]);
    if (id === undefined) return [];
    const began = performance.now();
    const session = await hold.session(id);
    session.append({ role: "user", content: "after the kill" });
    const { id: saved, digest, messageCount } = await session.checkpoint();
    await session.close();
    const ms = performance.now() - began;
    this.checkpoints.set(saved, { session: id, digest, messages: messageCount });
    Object.assign(this.sessions.get(id), { head: saved, status: session.status });
    return ms > AT_ONCE_MS ? [`the next save on ${id} took ${Math.round(ms)} ms`] : [];
  }
}

/**
 * A place for the n-th store of a campaign: its address, and the path that is there once it begins
 * to be made.
 */
export const sqliteFile = (directory, n) => ({
  address: join(directory, `${n}.db`),
  path: join(directory, `${n}.db`),
});

export const inDirectory = (directory, n) => ({
  address: `dir:${join(directory, `${n}`)}`,
  path: join(directory, `${n}`),
});

/**
 * Schemas of a server. What had reached it when the child died may be done a moment later; nobody
 * says when.
 */
export const inPostgres = (url) => (directory, n) => ({
  address: `${url}?schema=${basename(directory)}-${n}`,
  settleMs: 30,
});

/** How many calls make a store, as a child counts them. */
async function callsOfBirth(address) {
  const child = start(new URL("./kill-child.mjs", import.meta.url));
  child.tell({ path: address, seed: 0, stopAt: 0 });
  const { calls } = await child.heard((line) => line.opened);
  await child.end();
  return calls;
}

/** Waits until the child is to be killed. */
async function theMoment(child, { birth, ackEarly, rng }) {
  if (birth === "points") return child.heard((line) => line.at ?? line.opened);
  if (ackEarly) return child.heard((line) => line.stands ?? line.fault);
  let done = 0;
  if (!birth)
    await child.heard(
      (line) => line.fault !== undefined || (line.done !== undefined && ++done === 2),
    );
  return new Promise((resolve) =>
    setTimeout(resolve, birth ? rng.between(0, 25) : rng.between(0.5, 40)),
  );
}

/**
 * `kills` kills on stores that grow over fifty kills each. Answers how it went; stops at the first
 * kill after which something is wrong. With `birth` a child on a fresh store is killed while it
 * makes it: at some instant, or, with `birth: "points"`, before calls that are spread over all that
 * make it. `place` says where stores are.
 */
export async function killCampaign({
  kills,
  seed,
  place = sqliteFile,
  ackEarly = false,
  birth = false,
  onProgress,
}) {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-kills-"));
  const rng = random(seed);
  const began = performance.now();
  const result = {
    seed,
    kills: 0,
    acknowledged: 0,
    inFlight: 0,
    slowestCheckMs: 0,
    unopened: 0,
    halfMade: 0,
    ms: 0,
    wrong: [],
  };
  // The next child starts while this one works: it waits, loaded, for its orders.
  let next = start(new URL("./kill-child.mjs", import.meta.url));
  let known = new Acknowledged();
  try {
    const calls =
      birth === "points" ? await callsOfBirth(place(directory, kills).address) : undefined;
    for (let n = 0; n < kills && result.wrong.length === 0; n++) {
      const file = birth ? n : Math.floor(n / KILLS_PER_FILE);
      const { address, path, settleMs } = place(directory, file);
      if (birth || n % KILLS_PER_FILE === 0) known = new Acknowledged();
      const child = next;
      next = start(new URL("./kill-child.mjs", import.meta.url));
      // Loaded and waiting: from here on only the store itself is being made.
      await child.heard((line) => line.ready);
      child.tell({
        path: address,
        seed: seed + n,
        ackEarly,
        ...(calls && { stopAt: 1 + Math.floor((n * calls) / kills) }),
      });
      await theMoment(child, { birth, ackEarly, rng });
      await child.end();
      if (child.ended.signal !== "SIGKILL")
        result.wrong.push(`the child ended by itself: ${child.stderr}`);

      known.hear(child.lines);
      if (!child.lines.some((line) => line.opened)) {
        result.unopened += 1;
        if (path !== undefined && existsSync(path)) result.halfMade += 1;
      }
      if (settleMs !== undefined) await new Promise((resolve) => setTimeout(resolve, settleMs));
      result.kills += 1;
      result.inFlight += known.flying.size;
      const checking = performance.now();
      const hold = await open(address);
      try {
        const last = n === kills - 1 || (n + 1) % KILLS_PER_FILE === 0;
        result.wrong.push(...(await known.check(hold, rng, last)));
        result.wrong.push(...(await known.goOn(hold, rng)));
      } catch (error) {
        result.wrong.push(`${error.code ?? error.name}: ${error.message}`);
      } finally {
        await hold.close();
      }
      result.slowestCheckMs = Math.max(result.slowestCheckMs, performance.now() - checking);
      result.acknowledged += known.count;
      known.count = 0;
      for (const [i, what] of result.wrong.entries())
        result.wrong[i] = `kill ${n}, seed ${seed}: ${what}`;
      onProgress?.(result);
    }
  } finally {
    await next.end();
    rmSync(directory, { recursive: true, force: true });
  }
  result.ms = performance.now() - began;
  return result;
}
