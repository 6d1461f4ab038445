/**
 * What may come between a call that acts and the same call again. Each answers the sessions in
 * which it may be asked for, and where.
 */
import { join } from "node:path";
import { restoreBackup } from "../../src/index.js";
import { type Process, Processes } from "../support/processes.js";
import { type StoreKind, scratch } from "../support/stores.js";
import { type Outcome, tried, type World } from "./world.js";

interface Scene {
  readonly world: World;
  readonly store: StoreKind;
  readonly on: Processes;
  readonly process: Process;
  /** The checkpoint before the act. */
  readonly before: string;
  readonly snapshot: string;
}

interface After {
  readonly sessions: readonly string[];
  /** Another store, where the operation leads to one. */
  readonly elsewhere?: Processes;
}

interface Operation {
  /** What the first session answers when a call that was done is asked for again. */
  readonly expects: Outcome;
  readonly run: (scene: Scene) => Promise<After>;
}

const here = (...sessions: readonly string[]): After => ({ sessions });

export const operations: Readonly<Record<string, Operation>> = {
  rewind: {
    expects: "waiting",
    run: async ({ process: { hold }, before }) => {
      await tried(() => hold.sessions.rewind("s", before));
      return here("s");
    },
  },
  fork: {
    expects: "waiting",
    run: async ({ process: { hold }, before }) => {
      await hold.sessions.fork(before, { id: "t" });
      return here("t", "s");
    },
  },
  "fork of a fork": {
    expects: "waiting",
    run: async ({ process: { hold }, before }) => {
      await hold.sessions.fork(before, { id: "t" });
      const session = await hold.session("t");
      const { id } = await session.checkpoint();
      await session.close();
      await hold.sessions.fork(id, { id: "u" });
      return here("u", "t", "s");
    },
  },
  redact: {
    expects: "answered",
    run: async ({ process: { hold } }) => {
      await tried(() => hold.sessions.redact("s", "ana"));
      return here("s");
    },
  },
  "redact and rewind": {
    expects: "waiting",
    run: async ({ process: { hold }, before }) => {
      await tried(() => hold.sessions.redact("s", "ana"));
      await tried(() => hold.sessions.rewind("s", before));
      return here("s");
    },
  },
  prune: {
    expects: "answered",
    run: async ({ process: { hold }, before }) => {
      const session = await hold.session("s");
      for (let i = 0; i < 3; i++) await session.checkpoint();
      await session.close();
      // All that came after the place that somebody may go back to.
      const { items } = await hold.checkpoints.list("s");
      for (const { id } of items.slice(1))
        if (id !== before) await tried(() => hold.checkpoints.delete(id));
      return here("s");
    },
  },
  "prune to the last": {
    expects: "answered",
    run: async ({ process: { hold } }) => {
      await hold.checkpoints.prune("s", { keep: 1 });
      return here("s");
    },
  },
  gc: {
    expects: "answered",
    run: async ({ process: { hold } }) => {
      await hold.gc();
      return here("s");
    },
  },
  "snapshot and restore": {
    expects: "waiting",
    run: async ({ process: { hold }, snapshot }) => {
      await tried(() => hold.agents.restore(snapshot, { takeOver: true }));
      return here("s");
    },
  },
  "delete, then restore a snapshot": {
    expects: "waiting",
    run: async ({ process: { hold }, snapshot }) => {
      await hold.sessions.delete("s");
      await hold.agents.restore(snapshot);
      return here("s");
    },
  },
  "export and import": {
    expects: "answered",
    run: async ({ store, process: { hold } }) => {
      const rows: string[] = [];
      for await (const row of hold.export()) rows.push(row);
      const elsewhere = await Processes.on(store.address());
      await elsewhere.start().hold.import(rows);
      return { sessions: ["s"], elsewhere };
    },
  },
  "backup and restore": {
    expects: "answered",
    run: async ({ store, process: { hold } }) => {
      if (store.name !== "sqlite") {
        // The same store stands for a copy that was put back.
        await hold.markRestored();
        return here("s");
      }
      const directory = scratch();
      await hold.backup(join(directory, "backup.db"));
      await restoreBackup(join(directory, "backup.db"), join(directory, "restored.db"));
      return { sessions: ["s"], elsewhere: await Processes.on(join(directory, "restored.db")) };
    },
  },
  "delete of the origin": {
    expects: "waiting",
    run: async ({ process: { hold }, before }) => {
      await hold.sessions.fork(before, { id: "t" });
      await hold.sessions.delete("s");
      await hold.gc();
      return here("t");
    },
  },
  cancel: {
    expects: "answered",
    run: async ({ process: { hold } }) => {
      await hold.sessions.cancel("s", "changed my mind");
      return here("s");
    },
  },
  "a second worker": {
    expects: "answered",
    run: async ({ world, process: { hold } }) => {
      await hold.worker({ agents: [hold.bind(world.clerk())] }).drain({ maxMs: 2_000 });
      return here("s");
    },
  },
};
