/** Many sessions in one file: saving at once, and looking things up among a million checkpoints. */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { median, now, prose, step } from "../measure.mjs";

export async function atOnce({ directory, sessions = 512, rounds }) {
  const hold = await open(join(directory, "at-once.db"));
  const all = [];
  for (let i = 0; i < sessions; i++) all.push(await hold.session(`s-${i}`));
  const save = (session, messages) => {
    session.append(...messages);
    return session.checkpoint();
  };
  const fresh = () => all.map(() => step());
  // Every session has some pages of its own before anything is measured.
  for (let i = 0; i < 4; i++) {
    const messages = fresh();
    await Promise.all(all.map((session, n) => save(session, messages[n])));
  }
  const together = [];
  const alone = [];
  for (let i = 0; i < rounds; i++) {
    const first = fresh();
    const second = fresh();
    let start = now();
    await Promise.all(all.map((session, n) => save(session, first[n])));
    together.push((now() - start) / sessions);
    start = now();
    for (const [n, session] of all.entries()) await save(session, second[n]);
    alone.push((now() - start) / sessions);
  }
  await hold.close();
  const rate = (us) => Math.round(1e6 / us);
  return [
    {
      name: `${sessions} sessions saving at once / one after another`,
      value: median(alone) / median(together),
      floor: 5,
      aim: 6,
      higher: true,
      note: `${rate(median(together))} / ${rate(median(alone))} saves/s`,
    },
  ];
}

export async function lookups({ directory, sessions, checkpoints, rounds, about }) {
  const path = join(directory, "lookups.db");
  let hold = await open(path);
  for (let first = 0; first < sessions; first += 500) {
    const group = await Promise.all(
      Array.from({ length: Math.min(500, sessions - first) }, (_, i) =>
        hold.session(`s-${first + i}`),
      ),
    );
    for (let n = 0; n < checkpoints; n += 10) {
      await Promise.all(
        group.flatMap((session) =>
          Array.from({ length: Math.min(10, checkpoints - n) }, () => {
            session.append({ role: "user", content: prose(about) });
            return session.checkpoint();
          }),
        ),
      );
    }
    await Promise.all(group.map((session) => session.close()));
    if (process.stderr.isTTY)
      process.stderr.write(`\r  filling: ${first + group.length} of ${sessions} sessions `);
  }
  if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  await hold.close();
  hold = await open(path);
  const id = (i) => `s-${(i * 7919) % sessions}`;
  const latest = async (ask) => {
    const times = [];
    for (let i = 0; i < rounds; i++) {
      const start = now();
      await hold.checkpoints.latest(ask(i));
      times.push(now() - start);
    }
    return median(times.slice(rounds / 2));
  };
  const once = await latest(id);
  const again = await latest((i) => id(i % 100));
  const list = [];
  for (let i = 0; i < rounds; i++) {
    const start = now();
    const { items } = await hold.checkpoints.list(id(i), { limit: 20 });
    list.push(now() - start);
    if (items.length !== Math.min(20, checkpoints))
      throw new Error(`expected 20 checkpoints, got ${items.length}`);
  }
  await hold.close();
  const among = `among ${(sessions * checkpoints).toLocaleString("en")} in ${sessions.toLocaleString("en")} sessions`;
  return [
    {
      name: `latest checkpoint, ${among}, µs`,
      value: again,
      floor: 20,
      aim: 10,
      unit: "µs",
      note: `a hundred of them asked again and again; ${once.toFixed(1)} where each is asked once`,
    },
    {
      name: `list of 20, ${among}, µs`,
      value: median(list),
      floor: 150,
      aim: 80,
      unit: "µs",
      note: "each asked once",
    },
  ];
}
