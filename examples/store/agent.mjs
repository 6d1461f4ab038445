/**
 * Runs an agent on the store of this folder. The second argument names a call in which the process
 * kills itself; run again without it, the agent goes on with that call:
 *
 *     node examples/store/agent.mjs orders.jsonl tell
 *     node examples/store/agent.mjs orders.jsonl
 */
import { open } from "holdfast";
import { scriptedModel } from "holdfast/testing";
import { FileStore } from "./file-store.mjs";

const [path = "orders.jsonl", diesIn] = process.argv.slice(2);
const hold = await open(new FileStore(path));
const ship = {
  input: { type: "object" },
  mode: "once",
  run: () => {
    console.log("shipped");
    return "label-7";
  },
};
const tell = {
  input: { type: "object" },
  mode: "keyed",
  run: () => {
    if (diesIn === "tell") process.kill(process.pid, "SIGKILL");
    console.log("told");
    return "ok";
  },
};
const clerk = hold.agent({
  name: "clerk",
  tools: { ship, tell },
  model: scriptedModel([
    { content: [{ type: "tool-call", callId: "c1", name: "ship", input: {} }] },
    { content: [{ type: "tool-call", callId: "c2", name: "tell", input: {} }] },
    "The order is on its way.",
  ]),
});
const { status, output } = await clerk.run("order-42", "Ship order 42.", { key: "order-42" });
console.log(`${status}: ${output}`);
await hold.close();
