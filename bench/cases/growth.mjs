/**
 * What must not grow: a rewind with the rewinds before it, and opening a fork with the sessions in
 * the store.
 */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { median, now } from "../measure.mjs";

/** Each line begins on the one before. The state does not grow, so a load has no more to answer. */
export async function rewinds({ directory, early, late }) {
  const hold = await open(join(directory, "rewinds.db"));
  const session = await hold.session("rewound");
  const times = [];
  for (let i = 0; i < late; i++) {
    session.set("round", i);
    const { id } = await session.checkpoint();
    session.set("round", "left behind");
    await session.checkpoint();
    const start = now();
    await session.rewind(id);
    times.push(now() - start);
  }
  await hold.close();
  const around = (end) => median(times.slice(end - Math.floor(early / 2), end));
  return [
    {
      name: `rewind number ${late} / number ${early} of a session, SQLite`,
      value: around(late) / around(early),
      floor: 1.5,
      aim: 1.1,
      note: `${around(late).toFixed(0)} / ${around(early).toFixed(0)} µs`,
    },
  ];
}

export async function openFork({ directory, few, many, rounds }) {
  const hold = await open(join(directory, "forks.db"));
  const first = await hold.session("first");
  first.append({ role: "user", content: "hello" });
  const { id } = await first.checkpoint();
  await first.close();
  await hold.sessions.fork(id, { id: "fork" });
  const opened = async () => {
    const times = [];
    for (let i = 0; i < rounds; i++) {
      const start = now();
      const session = await hold.session("fork");
      times.push(now() - start);
      await session.close();
    }
    return median(times);
  };
  let made = 2;
  const fill = async (upTo) => {
    for (; made < upTo; made += 100) {
      const group = await Promise.all(
        Array.from({ length: 100 }, (_, i) => hold.session(`s-${made + i}`)),
      );
      await Promise.all(group.map((session) => session.close()));
    }
  };
  await fill(few);
  const before = await opened();
  await fill(many);
  const after = await opened();
  await hold.close();
  return [
    {
      name: `opening a fork among ${many} sessions / among ${few}, SQLite`,
      value: after / before,
      floor: 1.5,
      aim: 1.1,
      note: `${after.toFixed(0)} / ${before.toFixed(0)} µs`,
    },
  ];
}
