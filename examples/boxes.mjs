/**
 * An agent that survives, without a key: its model is a script. Run it, stop it with Ctrl-C (or
 * kill -9) while it counts, and run it again:
 *
 *   node examples/boxes.mjs
 */
import { setTimeout as sleep } from "node:timers/promises";
import { open } from "holdfast";
import { scriptedModel } from "holdfast/testing";

const hold = await open("example.db");
const call = (n) => ({
  content: `I pack box ${n}.`,
  toolCalls: [{ callId: `box-${n}`, name: "pack", input: { box: n } }],
});

const packer = hold.agent({
  name: "packer",
  model: scriptedModel([call(1), call(2), call(3), "All three boxes are packed."]),
  tools: {
    pack: {
      mode: "keyed",
      key: ({ box }) => `pack:${box}`,
      run: async ({ box }, { key, attempt, signal }) => {
        console.log(`packing box ${box}, attempt ${attempt}, key ${key}`);
        await sleep(2_000, undefined, { signal });
        return { packed: box };
      },
    },
  },
});

const done = await packer.run("boxes", "Pack three boxes.");
console.log(
  done.status === "completed" ? done.output : done,
  done.replayed ? "(from the record)" : "",
);
await hold.close();
