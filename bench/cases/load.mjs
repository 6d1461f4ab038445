/** A checkpoint of 1,000 messages, loaded and verified. */
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { timeLoads } from "../measure.mjs";

export async function load({ directory, rounds }) {
  const hold = await open(join(directory, "load.db"));
  const measured = await timeLoads(hold, rounds);
  await hold.close();
  return [
    {
      name: "load of 1,000 messages, verified / JSON.parse + SHA-256",
      ...measured,
      floor: 2.2,
      aim: 1.6,
    },
  ];
}
