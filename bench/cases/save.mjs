/**
 * One save through the public surface against a bare one-row insert of the same bytes, taken in
 * turns.
 */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { bareTable, timeSaves } from "../measure.mjs";

export async function save({ directory, rounds }) {
  const hold = await open(join(directory, "save.db"));
  const bare = bareTable(join(directory, "bare.db"));
  const { p50, p99 } = await timeSaves(await hold.session("bench"), bare.insert, {
    rounds,
    warm: 2000,
  });
  await hold.close();
  bare.close();
  return [
    { name: "save p50 / bare insert p50", ...p50, floor: 1.35, aim: 1.2 },
    { name: "save p99 / bare insert p99", ...p99, floor: 1.6 },
  ];
}
