/**
 * Works on an agent's sessions, one operation after the other, until it is killed. Before each it
 * says what all of them will be when it is done: whoever looks after the kill must find that, or
 * what was before, and nothing in between.
 */
import { baseTuning } from "../../../dist/core/journal/session-state.js";
import { open } from "../../../dist/index.js";
import { hear, say } from "../../support/children/said.mjs";
import { random } from "../../support/random.mjs";

say({ ready: true });
baseTuning.slackBytes = 500;

const { path, seed, world, torn = false } = hear();
process.on("unhandledRejection", fail);
const rng = random(seed);
const hold = await open(path);
say({ opened: process.pid });

function fail(error) {
  say({ fault: `${error.code ?? error.name}: ${error.message}\n${error.stack}` });
  process.exit(1);
}

let { sessions, agent, snapshots } = world;
let words = 0;

/** Says what will be, does it, and says that it is done. */
async function durable(op, after, run) {
  say({ begin: op, after });
  const more = await run();
  ({ sessions, agent } = after);
  say({ done: op, after, ...more });
}

const with_ = (id, session) => ({ agent, sessions: { ...sessions, [id]: session } });
const without = (id) => {
  const { [id]: _gone, ...rest } = sessions;
  return { agent, sessions: rest };
};
const ids = () => Object.keys(sessions);
const texts = (n) =>
  Array.from({ length: n }, () => `${seed}:${++words} ${"word ".repeat(rng.whole(0, 40))}`);

const ops = {
  async say() {
    const id =
      ids().length < 2 || (ids().length < 5 && rng.next() < 0.3)
        ? `s${rng.whole(1, 8)}`
        : rng.pick(ids());
    let session;
    await durable(
      "open",
      sessions[id] ? { sessions, agent } : with_(id, { texts: [], archived: false }),
      async () => {
        session = await hold.session(id, { agent: "ann" });
        return {};
      },
    );
    const before = sessions[id];
    const fresh = texts(rng.whole(1, 3));
    session.append(...fresh.map((content) => ({ role: "user", content })));
    session.set("plan", fresh[0].repeat(4));
    await durable("say", with_(id, { ...before, texts: [...before.texts, ...fresh] }), async () =>
      session.checkpoint().then(() => ({})),
    );
    await session.close();
  },
  async record() {
    await durable("record", { sessions, agent: agent + 1 }, () =>
      hold.agents.save({ id: "ann", state: { n: agent + 1 } }).then(() => ({})),
    );
  },
  async remove() {
    if (ids().length < 3) return;
    const id = rng.pick(ids());
    await durable("remove", without(id), () => hold.sessions.delete(id).then(() => ({})));
  },
  async snapshot() {
    await durable("snapshot", { sessions, agent }, async () => {
      const { id } = await hold.agents.snapshot("ann");
      snapshots = { ...snapshots, [id]: { sessions, agent } };
      return { snapshots };
    });
  },
  async unsnap() {
    const [id, ...rest] = Object.keys(snapshots);
    if (rest.length < 2) return;
    const { [id]: _gone, ...left } = snapshots;
    snapshots = left;
    await durable("unsnap", { sessions, agent }, () =>
      hold.agents.deleteSnapshot(id).then(() => ({ snapshots })),
    );
  },
  async restore() {
    const id = rng.pick(Object.keys(snapshots));
    if (id === undefined) return;
    const was = snapshots[id];
    const later = Object.fromEntries(
      Object.entries(sessions)
        .filter(([name]) => was.sessions[name] === undefined)
        .map(([name, session]) => [name, { ...session, archived: true }]),
    );
    const before = { sessions, agent };
    await durable(
      "restore",
      { sessions: { ...later, ...was.sessions }, agent: was.agent },
      async () => {
        const { recovery } = torn ? await tornRestore(id, was) : await hold.agents.restore(id);
        snapshots = { ...snapshots, [recovery.id]: before };
        return { snapshots };
      },
    );
  },
  async prune() {
    if (ids().length === 0) return;
    await durable("prune", { sessions, agent }, () =>
      hold.checkpoints.prune(rng.pick(ids()), { keep: rng.whole(0, 2) }).then(() => ({})),
    );
  },
  gc: () => durable("gc", { sessions, agent }, () => hold.gc().then(() => ({}))),
  async end() {
    if (rng.next() > 0.15) return;
    snapshots = {};
    await durable("end", { sessions: {}, agent: 0 }, () =>
      hold.agents.delete("ann").then(() => ({ snapshots })),
    );
  },
};

/**
 * The broken child of the negative control: it puts sessions back one by one, and stands still
 * after the first to be killed.
 */
async function tornRestore(_id, was) {
  const [name] = Object.keys(was.sessions);
  const session = await hold.session(name, { agent: "ann" });
  session.splice(
    "messages",
    0,
    session.messages.length,
    ...was.sessions[name].texts.map((content) => ({ role: "user", content })),
  );
  await session.checkpoint();
  say({ stands: true });
  hear();
}

/** Until there are two sessions, both as a snapshot has them and further on. */
async function thenTorn() {
  await ops.record();
  while (ids().length < 2) await ops.say();
  await ops.snapshot();
  while (
    ids().some(
      (id) => sessions[id].texts.length === Object.values(snapshots)[0].sessions[id]?.texts.length,
    )
  )
    await ops.say();
  await ops.restore();
}

const WEIGHTS = {
  say: 30,
  record: 6,
  remove: 6,
  snapshot: 12,
  unsnap: 4,
  restore: 24,
  prune: 10,
  gc: 4,
  end: 2,
};
if (torn) await thenTorn();
if (agent === 0) await ops.record();
for (;;) await (agent === 0 ? ops.record() : ops[rng.weighted(WEIGHTS)]());
