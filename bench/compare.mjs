/**
 * Compare two builds in one run: `node bench/compare.mjs ../other/dist [--rounds=40]
 * [--case="loop step"]`. Each round does the same work with either build, in turns, and the table
 * shows the medians. Ratios below 1 mean that this build is faster.
 */
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { startPostgres } from "../test/support/postgres.mjs";
import { median, now, prose, scratch } from "./measure.mjs";

const [other, ...rest] = process.argv.slice(2);
if (other === undefined) throw new Error("Name the dist folder of the other build.");
const option = (name) =>
  rest.find((word) => word.startsWith(`--${name}=`))?.slice(`--${name}=`.length);
const rounds = Number(option("rounds") ?? 40);
const directory = scratch();
const builds = {
  this: await import("../dist/index.js"),
  other: await import(pathToFileURL(join(resolve(other), "index.js")).href),
};

const MESSAGES = 400;
const texts = Array.from({ length: 64 }, () => prose(1000));
const text = (n) => texts[n % texts.length];

async function filled(hold, id, steps) {
  const session = await hold.session(id);
  for (let n = 0; n < steps; n++) {
    session.append({ role: "user", content: text(n) }, { role: "assistant", content: text(n + 1) });
    session.set("step", n);
    if (n % 50 === 49 || n === steps - 1) await session.checkpoint();
    else void session.checkpoint();
  }
  await session.close();
}

const all = async (items) => {
  let count = 0;
  for await (const _ of items) count += 1;
  return count;
};

const bot = (turns) => ({
  name: "bot",
  model: async ({ messages }) =>
    messages.at(-1).role === "tool" && messages.length % (2 * turns) === 0
      ? { content: "done" }
      : {
          // As a part of the message: it had this shape in older builds, too.
          content: [
            {
              type: "tool-call",
              callId: `c${messages.length}`,
              name: "look",
              input: { at: messages.length },
            },
          ],
        },
  tools: { look: { mode: "repeatable", run: () => ({ found: true }) } },
  limits: { steps: turns },
});

/**
 * What one round does. `prepare` is done once for each build; the time of `work` is divided by
 * `per`.
 */
const cases = {
  save: {
    per: 200,
    prepare: (hold) => hold.session("saves"),
    async work(_hold, session) {
      for (let n = 0; n < 200; n++) {
        session.append({ role: "user", content: text(n) });
        await session.checkpoint();
      }
    },
  },
  load: {
    per: 10,
    prepare: (hold) => filled(hold, "loads", MESSAGES),
    work: times(10, async (hold) => (await hold.session("loads")).close()),
  },
  "load a place": {
    per: 10,
    async prepare(hold) {
      await filled(hold, "places", MESSAGES);
      return (await hold.checkpoints.list("places", { limit: 100 })).items.at(-1).id;
    },
    work: times(10, (hold, id) => hold.checkpoints.state(id)),
  },
  "loop step": {
    per: 50,
    prepare: () => ({ turn: 0 }),
    async work(hold, state) {
      state.turn += 1;
      await hold.agent(bot(50)).run(`turns-${state.turn}`, "go");
    },
  },
  "list 100 checkpoints": {
    per: 10,
    prepare: (hold) => filled(hold, "lists", MESSAGES),
    work: times(10, (hold) => hold.checkpoints.list("lists", { limit: 100 })),
  },
  events: {
    per: 1,
    prepare: (hold) => filled(hold, "told", MESSAGES),
    // A build of before has it on the open store.
    work: (hold) => all((hold.events ? hold : hold.sessions).events("told", { live: false })),
  },
  export: {
    per: 1,
    prepare: (hold) => filled(hold, "moved", MESSAGES),
    work: (hold) => all(hold.export({ session: "moved" })),
  },
  "search without an index": {
    per: 1,
    prepare: (hold) => filled(hold, "found", MESSAGES),
    work: (hold) => hold.sessions.search("customer", { sessionId: "found" }),
  },
  verify: {
    per: 1,
    prepare: (hold) => filled(hold, "sound", 50),
    work: (hold) => hold.verify({ sessionId: "sound" }),
  },
};

function times(count, work) {
  return async (hold, made) => {
    for (let n = 0; n < count; n++) await work(hold, made);
  };
}

const table = [];
const server = await startPostgres({ settings: { fsync: "on" } });
const addressOf = {
  memory: () => "memory:",
  sqlite: (name) => join(directory, `${name}.db`),
  dir: (name) => `dir:${join(directory, name)}`,
  postgres: (name) => `${server.url()}?schema=${name}`,
};
for (const store of Object.keys(addressOf))
  for (const [name, one] of Object.entries(cases)) {
    if (name !== (option("case") ?? name)) continue;
    const sides = {};
    for (const [side, { open }] of Object.entries(builds)) {
      const address = addressOf[store](`${side}-${name.replaceAll(" ", "-")}`);
      const hold = await open(address, { search: false });
      sides[side] = { hold, made: await one.prepare(hold), took: [], cpu: [] };
    }
    for (let round = 0; round < rounds; round++)
      // The one that goes first in a round goes second in the next.
      for (const side of round % 2 === 0 ? ["this", "other"] : ["other", "this"]) {
        const { hold, made, took, cpu } = sides[side];
        const before = process.cpuUsage();
        const began = now();
        await one.work(hold, made);
        took.push((now() - began) / one.per);
        const { user, system } = process.cpuUsage(before);
        cpu.push((user + system) / one.per);
      }
    for (const { hold, made } of Object.values(sides)) {
      if (name === "save") await made.close();
      await hold.close();
    }
    // The first rounds warm both builds.
    const of = (side, what) => median(sides[side][what].slice(Math.floor(rounds / 4)));
    table.push({
      store,
      case: name,
      "this µs": Math.round(of("this", "took")),
      "other µs": Math.round(of("other", "took")),
      ratio: Number((of("this", "took") / of("other", "took")).toFixed(3)),
      "CPU ratio": Number((of("this", "cpu") / of("other", "cpu")).toFixed(3)),
    });
  }
await server.remove();
console.table(table);
