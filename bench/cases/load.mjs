/** A checkpoint of 1,000 messages, loaded and verified, against JSON.parse plus SHA-256 of the same bytes. */
import { hash } from "node:crypto";
import { join } from "node:path";
import { open } from "../../dist/index.js";
import { fill, median, now } from "../measure.mjs";

export async function load({ directory, rounds }) {
  const hold = await open(join(directory, "load.db"));
  const session = await hold.session("bench");
  await fill(session, 500);
  const { id } = session.head;
  await session.close();
  const { messages } = await hold.checkpoints.state(id);
  if (messages.length !== 1000) throw new Error(`expected 1000 messages, got ${messages.length}`);
  const bytes = Buffer.from(JSON.stringify(messages.map(({ role, content }) => ({ role, content }))));
  const ours = [];
  const theirs = [];
  for (let i = 0; i < rounds + 20; i++) {
    let start = now();
    hash("sha256", bytes, "hex");
    JSON.parse(bytes.toString("utf8"));
    const bareUs = now() - start;
    start = now();
    await hold.checkpoints.state(id);
    const loadUs = now() - start;
    if (i >= 20) {
      theirs.push(bareUs);
      ours.push(loadUs);
    }
  }
  await hold.close();
  return [
    {
      name: "load of 1,000 messages, verified / JSON.parse + SHA-256",
      value: median(ours) / median(theirs),
      floor: 2.2,
      aim: 1.6,
      note: `${(median(ours) / 1000).toFixed(2)} / ${(median(theirs) / 1000).toFixed(2)} ms`,
    },
  ];
}
