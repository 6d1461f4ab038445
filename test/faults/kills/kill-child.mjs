/**
 * Works on a store until it is killed. Says `begin` before every operation and `done` after it has
 * resolved: what was done must survive, and what was begun and not done may have happened or not.
 */
import fs from "node:fs";
import { createRequire, syncBuiltinESMExports } from "node:module";
import { baseTuning } from "../../../dist/core/journal/session-state.js";
import { open } from "../../../dist/index.js";
// Loaded now, and not while the store is being made.
import "../../../dist/store/dir/open.js";
import "../../../dist/store/sql/postgres/postgres.js";
import { defaultDriver } from "../../../dist/store/sql/sqlite/driver/driver.js";
import { hear, say } from "../../support/children/said.mjs";
import { random } from "../../support/random.mjs";

say({ ready: true });
// Bases come every few saves, as they do in long histories.
baseTuning.slackBytes = 500;

const { path, seed, lanes = 3, ackEarly = false, stopAt } = hear();
const WEIGHTS = {
  save: 60,
  fork: 7,
  forkAside: 4,
  rewind: 7,
  prune: 6,
  removeOne: 3,
  remove: 4,
  gc: 3,
  redact: 2,
  complete: 4,
  title: 5,
  leave: 4,
};
const MOST_SESSIONS = 6;

let count = 0;
process.on("unhandledRejection", fail);

let calls = 0;
if (stopAt !== undefined) countCalls();
const hold = await open(path);
say({ opened: process.pid, calls });
if (stopAt !== undefined) hear();
for (let lane = 0; lane < lanes; lane++) work(lane).catch(fail);

function fail(error) {
  say({ fault: `${error.code ?? error.name}: ${error.message}\n${error.stack}` });
  process.exit(1);
}

/** Counts the calls that make a store in files, and stands still before number `stopAt`. */
function countCalls() {
  const counted = (target, names) => {
    for (const name of names) {
      const call = target[name];
      target[name] = function (...args) {
        // The child speaks by the first descriptor.
        if (args[0] !== 1 && ++calls === stopAt) {
          say({ at: calls });
          hear();
        }
        return call.apply(this, args);
      };
    }
  };
  counted(fs, [
    "openSync",
    "writeSync",
    "writeFileSync",
    "fsyncSync",
    "fdatasyncSync",
    "linkSync",
    "renameSync",
    "mkdirSync",
    "ftruncateSync",
  ]);
  syncBuiltinESMExports();
  const require = createRequire(import.meta.url);
  const Database =
    defaultDriver() === "node:sqlite"
      ? require("node:sqlite").DatabaseSync
      : require("better-sqlite3");
  counted(Database.prototype, ["exec", "prepare"]);
}

async function durable(op, session, run) {
  const n = ++count;
  say({ n, begin: op, session });
  say({ n, done: op, session, ...(await run()) });
}

/**
 * The broken child of the negative control: it says that the save is done before it is, and stands
 * still to be killed.
 */
async function saidTooEarly(session, run, saved) {
  const n = ++count;
  say({ n, begin: "save", session });
  void run();
  say({ n, done: "save", session, ...saved() });
  say({ stands: true });
  hear();
}

async function work(lane) {
  const rng = random(seed * 31 + lane);
  const mine = (await hold.sessions.list({ limit: 1000 })).items
    .map(({ id }) => id)
    .filter((id) => id.startsWith(`${lane}-`));
  const fresh = () => `${lane}-${seed}-${++count}`;
  let session;
  let words = 0;

  const saved = () => {
    const { id, digest, messageCount } = session.head;
    return { id, digest, messages: messageCount, status: session.status };
  };
  const enter = async (id) => {
    await durable("open", id, async () => {
      session = await hold.session(id);
      return { status: session.status, head: session.head?.id };
    });
    if (!mine.includes(id)) mine.push(id);
  };
  const past = async () => (await hold.checkpoints.list(session.id, { limit: 1000 })).items;

  const ops = {
    save() {
      for (let n = rng.whole(1, 3); n > 0; n--)
        session.append({
          role: "user",
          content: `${seed}:${++words} ${"word ".repeat(rng.whole(0, 60))}`,
        });
      session.set("step", words);
      if (rng.next() < 0.05) session.set("plan", `${words} ${"p".repeat(9000)}`);
      if (rng.next() < 0.05 && session.messages.length > 4)
        session.splice("messages", 1, 2, { role: "assistant", content: "shorter" });
      if (ackEarly) return saidTooEarly(session.id, () => session.checkpoint(), saved);
      return durable("save", session.id, async () => {
        await session.checkpoint();
        return saved();
      });
    },
    async fork() {
      if (session.head === undefined) return;
      const id = fresh();
      const at = session.head.id;
      let made;
      await durable("fork", id, async () => {
        made = await session.fork(at, { id });
        return { head: at, status: made.status };
      });
      mine.push(id);
      const [stay, go] = rng.next() < 0.5 ? [made, session] : [session, made];
      await go.close();
      session = stay;
    },
    async forkAside() {
      const at = (await past()).filter(({ sessionId }) => sessionId === session.id);
      if (at.length === 0) return;
      const id = fresh();
      const { id: head, status } = rng.pick(at);
      await durable("fork", id, async () => {
        await hold.sessions.fork(head, { id });
        return { head, status };
      });
      mine.push(id);
    },
    async rewind() {
      const at = await past();
      if (at.length < 2) return;
      const { id, status } = rng.pick(at.slice(0, 8));
      await durable("rewind", session.id, async () => {
        await session.rewind(id);
        return { head: id, status };
      });
    },
    async prune() {
      const keep = rng.whole(1, 4);
      const before = (await past()).map(({ id }) => id);
      await durable("prune", session.id, async () => {
        const { removed } = await hold.checkpoints.prune(session.id, { keep });
        const left = new Set((await past()).map(({ id }) => id));
        const gone = before.filter((id) => !left.has(id));
        if (gone.length !== removed || before.slice(0, keep).some((id) => !left.has(id)))
          say({
            fault: `prune of ${session.id} with keep ${keep} said ${removed} of ${before.length}, and ${gone.length} went`,
          });
        return { removed: gone };
      });
    },
    async removeOne() {
      const at = (await past()).slice(1).filter(({ sessionId }) => sessionId === session.id);
      if (at.length === 0) return;
      const { id } = rng.pick(at);
      await durable("removeOne", session.id, async () => {
        try {
          await hold.checkpoints.delete(id);
          return { removed: [id] };
        } catch (error) {
          // A fork begins there.
          if (error.code !== "CONFLICT") throw error;
          return { removed: [] };
        }
      });
    },
    async remove() {
      const others = mine.filter((id) => id !== session.id);
      if (others.length < MOST_SESSIONS - 1 && (others.length === 0 || rng.next() < 0.5)) return;
      const id = rng.pick(others);
      await durable("remove", id, async () => {
        await hold.sessions.delete(id);
        return {};
      });
      mine.splice(mine.indexOf(id), 1);
    },
    gc: () => durable("gc", null, async () => hold.gc()),
    /** Some words of one of its sessions, which nobody of this lane holds then. */
    async redact() {
      await session.close();
      session = undefined;
      const id = rng.pick(mine);
      const number = rng.whole(0, 9);
      await durable("redact", id, async () => {
        await hold.sessions.redact(
          id,
          new RegExp(`\\d*${number}:\\d+ (?=word)|${"p".repeat(50)}`),
          { with: "-", scrub: rng.next() < 0.3 },
        );
        return {};
      });
    },
    complete: () =>
      durable("complete", session.id, async () => {
        await session.complete({ words });
        return saved();
      }),
    async title() {
      const title = `title ${++words}`;
      await durable("title", session.id, async () => {
        await hold.sessions.update(session.id, { title });
        return { title };
      });
    },
    async leave() {
      await session.close();
      session = undefined;
    },
  };

  for (;;) {
    if (session === undefined)
      await enter(mine.length < 2 || rng.next() < 0.2 ? fresh() : rng.pick(mine));
    await (mine.length > MOST_SESSIONS ? ops.remove() : ops[rng.weighted(WEIGHTS)]());
  }
}
