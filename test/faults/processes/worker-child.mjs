/**
 * A worker in a process of its own. Says when it is inside its tool, in which it stays for as long
 * as it is told.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "../../../dist/index.js";
import { scriptedModel } from "../../../dist/testing/index.js";
import { hear, say } from "../../support/children/said.mjs";

const { address, leaseMs, insideMs } = hear();
const hold = await open(address, { leaseMs });
const agent = hold.agent({
  name: "clerk",
  model: scriptedModel([
    { content: "", toolCalls: [{ callId: "1", name: "pay", input: {} }] },
    "paid",
  ]),
  tools: {
    pay: {
      mode: "keyed",
      timeoutMs: 20_000,
      run: async (_input, { key, attempt, signal }) => {
        say({ inside: true, key, attempt });
        await sleep(insideMs, undefined, { signal });
        return key;
      },
    },
  },
});
await hold.worker({ agents: [agent], leaseMs, pollMs: 100 }).start();
say({ started: process.pid });
