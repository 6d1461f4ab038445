/** One save through the public surface against a bare one-row insert of the same bytes, taken in turns. */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { bareTable, median, now, quantile, step } from "../measure.mjs";

export async function save({ directory, rounds }) {
  const hold = await open(join(directory, "save.db"));
  const session = await hold.session("bench");
  const bare = bareTable(join(directory, "bare.db"));
  const ours = [];
  const theirs = [];
  for (let i = 0; i < rounds + 500; i++) {
    const messages = step();
    const raw = JSON.stringify(messages);
    let start = now();
    bare.insert(raw);
    const bareUs = now() - start;
    start = now();
    session.append(...messages);
    await session.checkpoint();
    const saveUs = now() - start;
    // The first saves grow the log and warm the code.
    if (i >= 500) {
      theirs.push(bareUs);
      ours.push(saveUs);
    }
  }
  await hold.close();
  bare.close();
  return [
    {
      name: "save p50 / bare insert p50",
      value: median(ours) / median(theirs),
      floor: 1.35,
      aim: 1.2,
      note: `${median(ours).toFixed(0)} / ${median(theirs).toFixed(0)} µs`,
    },
    {
      name: "save p99 / bare insert p99",
      value: quantile(ours, 0.99) / quantile(theirs, 0.99),
      floor: 1.6,
      note: `${quantile(ours, 0.99).toFixed(0)} / ${quantile(theirs, 0.99).toFixed(0)} µs`,
    },
  ];
}
