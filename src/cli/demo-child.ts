/** The process that the demo kills: goes on from the step the session is at, and tells of every save once it is durable. */
import { writeSync } from "node:fs";
import { open } from "../index.js";

const [file, steps] = process.argv.slice(2);
const hold = await open(file);
const session = await hold.session("demo");
writeSync(1, `from ${session.messages.length}\n`);
for (let step = session.messages.length + 1; step <= Number(steps); step++) {
  session.append({ role: "assistant", content: `step ${step}` });
  const { digest } = await session.checkpoint();
  writeSync(1, `saved ${step} ${digest}\n`);
}
await session.complete();
await hold.close();
