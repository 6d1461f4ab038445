/**
 * Postgres, synced: a save against a bare insert with commit, many sessions at once, long runs, and
 * loads.
 */
import pg from "pg";
import { open } from "../../dist/index.js";
import { startPostgres } from "../../test/support/postgres.mjs";
import { fill, median, now, step, timeLoads, timeSaves } from "../measure.mjs";

/** One row with the same bytes, kept as the store keeps them: not compressed, in the row. */
async function bareTable(server) {
  await server.run(`CREATE TABLE bare (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body bytea NOT NULL) WITH (toast_tuple_target = 8160);
    ALTER TABLE bare ALTER COLUMN body SET STORAGE EXTERNAL; ALTER TABLE bare OWNER TO holdfast`);
}

async function connect(server) {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  return client;
}

const insert = (client, body) => client.query("INSERT INTO bare (body) VALUES ($1)", [body]);

export async function postgres({ rounds, steps, together }) {
  const server = await startPostgres({ settings: { fsync: "on", max_connections: 120 } });
  try {
    await bareTable(server);
    return [
      ...(await saves(server, rounds)),
      ...(await atOnce(server, together)),
      ...(await longRun(server, steps, Math.min(rounds, 500))),
    ];
  } finally {
    await server.remove();
  }
}

async function saves(server, rounds) {
  const hold = await open(server.url(), { connections: 1 });
  const client = await connect(server);
  const { p50 } = await timeSaves(await hold.session("bench"), (raw) => insert(client, raw), {
    rounds,
    warm: 500,
    form: (text) => Buffer.from(text),
  });
  await client.end();
  await hold.close();
  return [{ name: "postgres: save p50 / bare insert with commit p50", ...p50, floor: 1.4 }];
}

/**
 * The rate of many who save without waiting for each other, against as many bare inserts on as many
 * connections.
 */
async function atOnce(server, { sessions: count, rounds }) {
  const hold = await open(server.url(), { connections: count });
  const sessions = await Promise.all(
    Array.from({ length: count }, (_, i) => hold.session(`at once ${i}`)),
  );
  const clients = await Promise.all(Array.from({ length: count }, () => connect(server)));
  const each = Array.from({ length: 40 }, () => {
    const messages = step();
    return { messages, raw: Buffer.from(JSON.stringify(messages)) };
  });
  const bare = () =>
    Promise.all(
      clients.map(
        async (client) =>
          void (await each.reduce(
            (before, { raw }) => before.then(() => insert(client, raw)),
            Promise.resolve(),
          )),
      ),
    );
  const save = async (session, { messages }) => {
    session.append(...messages);
    await session.checkpoint();
  };
  const ours = () =>
    Promise.all(
      sessions.map((session) =>
        each.reduce((before, one) => before.then(() => save(session, one)), Promise.resolve()),
      ),
    );
  const rates = { ours: [], theirs: [] };
  for (let i = 0; i < rounds + 1; i++) {
    let start = now();
    await bare();
    const bareUs = now() - start;
    start = now();
    await ours();
    const oursUs = now() - start;
    if (i > 0) {
      rates.theirs.push((count * each.length) / (bareUs / 1e6));
      rates.ours.push((count * each.length) / (oursUs / 1e6));
    }
  }
  for (const client of clients) await client.end();
  await hold.close();
  return [
    {
      name: `postgres: ${count} sessions at once / bare inserts on ${count} connections`,
      value: median(rates.ours) / median(rates.theirs),
      floor: 0.8,
      higher: true,
      note: `${median(rates.ours).toFixed(0)} / ${median(rates.theirs).toFixed(0)} per second`,
    },
  ];
}

async function longRun(server, steps, rounds) {
  const hold = await open(server.url(), { connections: 1 });
  const runs = [];
  for (const length of steps) {
    const session = await hold.session(`long ${length}`);
    await fill(session, length);
    runs.push({ length, session, times: [] });
  }
  // In turns, so that the machine's moods fall on all of them alike.
  for (let i = 0; i < rounds; i++) {
    for (const { session, times } of runs) {
      const messages = step();
      const start = now();
      session.append(...messages);
      await session.checkpoint();
      times.push(now() - start);
    }
  }
  await hold.close();
  const [first, ...later] = runs;
  return later.map(({ length, times }) => ({
    name: `postgres: save at step ${length} / at step ${first.length}`,
    value: median(times) / median(first.times),
    floor: 1.1,
    note: `${median(times).toFixed(0)} / ${median(first.times).toFixed(0)} µs`,
  }));
}

export async function postgresLoad({ rounds }) {
  const server = await startPostgres({ settings: { fsync: "on" } });
  try {
    const hold = await open(server.url());
    const measured = await timeLoads(hold, rounds);
    await hold.close();
    return [
      {
        name: "postgres: load of 1,000 messages, verified / JSON.parse + SHA-256",
        ...measured,
        floor: 3.5,
      },
    ];
  } finally {
    await server.remove();
  }
}
