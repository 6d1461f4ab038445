/** One save through the public surface against a bare one-row insert of the same bytes, taken in turns. */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { bareTable, median, now, quantile, step } from "../measure.mjs";

/** The first saves grow the log, and the engine compiles what it sees often. */
const WARM = 2000;

export async function save({ directory, rounds }) {
  const hold = await open(join(directory, "save.db"));
  const session = await hold.session("bench");
  const bare = bareTable(join(directory, "bare.db"));
  const ours = [];
  const theirs = [];
  // Made before anything is measured: what is thrown away in making them is nobody's cost.
  const steps = Array.from({ length: rounds + WARM }, () => {
    const messages = step();
    return { messages, raw: JSON.stringify(messages) };
  });
  for (const [i, { messages, raw }] of steps.entries()) {
    let start = now();
    bare.insert(raw);
    const bareUs = now() - start;
    start = now();
    session.append(...messages);
    await session.checkpoint();
    const saveUs = now() - start;
    if (i >= WARM) {
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
