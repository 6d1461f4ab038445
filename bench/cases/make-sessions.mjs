/** Makes sessions of 50 messages, in a process of its own. */
import { open } from "../../dist/index.js";
import { fill } from "../measure.mjs";

const [path, sessions] = process.argv.slice(2);
const hold = await open(path);
for (let i = 0; i < Number(sessions); i++) {
  const session = await hold.session(`s${i}`, { agent: "bench" });
  await fill(session, 25);
  await session.close();
}
await hold.close();
