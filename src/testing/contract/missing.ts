/** Calls that need a capability: where the store has it not, each is refused. */
import assert from "node:assert/strict";
import type { HoldfastError } from "../../core/values/errors.js";
import { Holdfast } from "../../holdfast.js";
import type { Capability } from "../../store/capabilities.js";
import { thisMachine } from "../../store/machine.js";
import type { ContractCase } from "./case.js";

interface World {
  readonly hold: Holdfast;
  /** Of the session "a". */
  readonly checkpoint: string;
}

type Call = (world: World) => unknown;

const bot = { name: "bot", model: async () => ({ content: "done" }) };
const message = { role: "user", content: "x" } as const;
const hourly = { everyMs: 3_600_000, keep: 1, onSwept: () => {}, onError: () => {} };
const key = "k";

/** Search needs no index: without one, it goes over the store. */
export const CALLS: Readonly<Record<Exclude<Capability, "index">, Readonly<Record<string, Call>>>> =
  {
    inbox: {
      "agent.submit": ({ hold }) => hold.agent(bot).submit("a", "go"),
      "stream.cancel": async ({ hold }) => {
        const stream = hold.agent(bot).stream("b", "go");
        await stream.result();
        await stream.cancel();
      },
      "hold.sessions.cancel": ({ hold }) => hold.sessions.cancel("a"),
      "hold.sessions.signal": ({ hold }) => hold.sessions.signal("a", "name", 1),
      "hold.sessions.append": ({ hold }) => hold.sessions.append("a", [message]),
      "hold.effects.approve": ({ hold }) => hold.effects.approve("e"),
      "hold.effects.deny": ({ hold }) => hold.effects.deny("e", { reason: "no" }),
      "hold.effects.settle": ({ hold }) => hold.effects.settle("e", { output: 1 }),
    },
    claims: {
      "hold.worker": ({ hold }) => hold.worker({ agents: [hold.agent(bot)], onSigterm: false }),
    },
    documents: {
      "hold.agents.save": ({ hold }) => hold.agents.save({ id: "bot" }),
      "hold.agents.set": ({ hold }) => hold.agents.set("bot", "n", 1),
      "hold.agents.unset": ({ hold }) => hold.agents.unset("bot", "n"),
      "hold.agents.get": ({ hold }) => hold.agents.get("bot"),
      "hold.agents.list": ({ hold }) => hold.agents.list(),
      "hold.agents.delete": ({ hold }) => hold.agents.delete("bot"),
      "hold.agents.snapshot": ({ hold }) => hold.agents.snapshot("bot"),
      "hold.agents.snapshots": ({ hold }) => hold.agents.snapshots("bot"),
      "hold.agents.getSnapshot": ({ hold }) => hold.agents.getSnapshot("s"),
      "hold.agents.restore": ({ hold }) => hold.agents.restore("s"),
      "hold.agents.deleteSnapshot": ({ hold }) => hold.agents.deleteSnapshot("s"),
      "hold.agents.pruneSnapshots": ({ hold }) => hold.agents.pruneSnapshots("bot", { keep: 1 }),
      "hold.agents.autoSnapshot": ({ hold }) => hold.agents.autoSnapshot("bot", hourly),
      "hold.retention.set": ({ hold }) => hold.retention.set({ keep: 1 }),
      "hold.retention.get": ({ hold }) => hold.retention.get(),
      "hold.retention.clear": ({ hold }) => hold.retention.clear(),
      "hold.retention.apply": ({ hold }) => hold.retention.apply(),
      "hold.retention.sweep": ({ hold }) => hold.retention.sweep(hourly),
      "hold.sessions.redact": ({ hold }) => hold.sessions.redact("a", "kelp"),
      "hold.sessions.fork with a key": ({ hold, checkpoint }) =>
        hold.sessions.fork(checkpoint, { id: "f", key }),
      "hold.sessions.rewind with a key": ({ hold, checkpoint }) =>
        hold.sessions.rewind("a", checkpoint, { key }),
      "hold.sessions.update with a key": ({ hold }) =>
        hold.sessions.update("a", { title: "t" }, { key }),
      "hold.sessions.replace with a key": ({ hold }) =>
        hold.sessions.replace("a", [message], { version: "v", key }),
      "hold.sessions.delete with a key": ({ hold }) => hold.sessions.delete("a", { key }),
      "hold.checkpoints.create with a key": ({ hold }) => hold.checkpoints.create("a", { key }),
      "hold.checkpoints.delete with a key": ({ hold, checkpoint }) =>
        hold.checkpoints.delete(checkpoint, { key }),
    },
    reclaim: {
      "hold.gc": ({ hold }) => hold.gc(),
      "hold.checkpoints.prune": ({ hold }) => hold.checkpoints.prune("a", { keep: 1 }),
      "hold.checkpoints.delete": ({ hold, checkpoint }) => hold.checkpoints.delete(checkpoint),
      "hold.retention.apply": ({ hold }) => hold.retention.apply(),
      "hold.retention.sweep": ({ hold }) => hold.retention.sweep(hourly),
      "hold.sessions.redact": ({ hold }) => hold.sessions.redact("a", "kelp"),
    },
    copies: {
      "hold.backup": ({ hold }) => hold.backup("copy.db"),
      "hold.markRestored": ({ hold }) => hold.markRestored(),
    },
  };

const caseOf = (capability: keyof typeof CALLS): ContractCase => ({
  name: `a store without ${capability} refuses the calls that need it, and names it`,
  needs: [capability],
  async run(make) {
    const store = await (await make()).open();
    const hold = new Holdfast(store, thisMachine(), { now: Date.now }, 30_000);
    try {
      const session = await hold.session("a");
      session.append(message);
      const { id: checkpoint } = await session.checkpoint();
      await session.close();
      for (const [name, call] of Object.entries(CALLS[capability])) {
        // It may be that it needs two, and says the other one.
        const refused = ({ code, details }: HoldfastError) =>
          code === "UNSUPPORTED" && store[details.capability as Capability] === undefined;
        await assert.rejects(async () => call({ hold, checkpoint }), refused, name);
      }
    } finally {
      await hold.close();
    }
  },
});

/** For stores that lack what a case names. */
export const missing: readonly ContractCase[] = (Object.keys(CALLS) as (keyof typeof CALLS)[]).map(
  caseOf,
);
