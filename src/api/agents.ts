/** Agents: what is kept of each, snapshots of one with all its sessions, and going back to them. */
import type { Json } from "../core/values/json.js";
import type { StoreContext } from "../engine/journal/store-context.js";
import type { AgentInput, AgentRecord } from "../engine/records/agent-record.js";
import type { Snapshot, SnapshotOptions } from "../engine/records/snapshot-record.js";
import type { IntervalTask } from "../engine/util/interval-task.js";
import type { KeyOptions, PageOptions } from "../engine/util/validate.js";
import { type AutoSnapshotOptions, autoSnapshot } from "../features/snapshots/auto-snapshot.js";
import { type DeleteAgentReport, deleteAgent } from "../features/snapshots/delete-agent.js";
import { deleteSnapshot } from "../features/snapshots/delete-snapshot.js";
import {
  type AgentPage,
  type AgentWithSessions,
  getAgent,
  listAgents,
} from "../features/snapshots/list-agents.js";
import {
  getSnapshot,
  listSnapshots,
  type SnapshotFilter,
  type SnapshotPage,
} from "../features/snapshots/list-snapshots.js";
import {
  type PruneSnapshotsOptions,
  type PruneSnapshotsReport,
  pruneSnapshots,
} from "../features/snapshots/prune-snapshots.js";
import type { RestoreOptions, RestoreReport } from "../features/snapshots/restore-report.js";
import { restoreSnapshot } from "../features/snapshots/restore-snapshot.js";
import { saveAgent, setStateKey, unsetStateKey } from "../features/snapshots/save-agent.js";
import { takeSnapshot } from "../features/snapshots/take-snapshot.js";
import { requireCapability } from "../store/capabilities.js";

/** The records of agents, snapshots of an agent with all its sessions, and going back to one. */
export class Agents {
  readonly #ctx: StoreContext;
  readonly #automatic = new Set<IntervalTask>();

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  // ---- records

  /**
   * Make an agent's record, or change it.
   * Fields that are not given stay as they are, and its version rises by one with each save. A
   * damaged record is made anew, from the given fields alone, by a save that names no version.
   *
   * @example
   * await hold.agents.save({ id: "researcher", name: "Researcher", state: { topic: "kelp" } });
   */
  async save(agent: AgentInput, o?: KeyOptions): Promise<AgentRecord> {
    return saveAgent(this.#in("hold.agents.save"), agent, o);
  }

  /**
   * Set one key of an agent's state.
   * The other keys stay as they are, also those that another process saves at the same time. The
   * agent must have a record.
   *
   * @example
   * await hold.agents.set("researcher", "topic", "kelp");
   */
  async set(id: string, key: string, value: Json, o?: KeyOptions): Promise<AgentRecord> {
    return setStateKey(this.#in("hold.agents.set"), id, { key, value }, o);
  }

  /**
   * Take one key out of an agent's state.
   * A key that is not there is no error, and the rest stays.
   *
   * @example
   * await hold.agents.unset("researcher", "topic");
   */
  async unset(id: string, key: string, o?: KeyOptions): Promise<AgentRecord> {
    return unsetStateKey(this.#in("hold.agents.unset"), id, key, o);
  }

  /**
   * Read an agent's record, and how many sessions it has.
   *
   * @example
   * const record = await hold.agents.get("researcher");
   * console.log(record?.state, record?.version);
   */
  async get(id: string): Promise<AgentWithSessions | undefined> {
    return getAgent(this.#in("hold.agents.get"), id);
  }

  /**
   * List agents, newest first.
   *
   * @example
   * const { items, next } = await hold.agents.list({ limit: 50 });
   * for (const { id, name } of items) console.log(id, name);
   */
  async list(o?: PageOptions): Promise<AgentPage> {
    return listAgents(this.#in("hold.agents.list"), o);
  }

  /**
   * Delete an agent in one step, with its record, its snapshots and its sessions.
   * Sessions that their calls ran go, too. Parts that forks of other agents share are kept for
   * those, and the answer names them.
   *
   * @example
   * const { keptFor } = await hold.agents.delete("researcher", { key: "request-7" });
   */
  async delete(id: string, o?: KeyOptions): Promise<DeleteAgentReport> {
    return deleteAgent(this.#in("hold.agents.delete"), id, o);
  }

  // ---- snapshots

  /**
   * Note an agent's record, and where each of its sessions stands.
   * It needs no lease, and holds up no session.
   *
   * @example
   * const { id } = await hold.agents.snapshot("researcher", { name: "before the update" });
   * await hold.agents.restore(id);
   */
  async snapshot(id: string, o?: SnapshotOptions): Promise<Snapshot> {
    return takeSnapshot(this.#in("hold.agents.snapshot"), id, o);
  }

  /**
   * List the snapshots of an agent, newest first.
   * A damaged one does not hide the others: the answer names it apart.
   *
   * @example
   * const { items } = await hold.agents.snapshots("researcher", { kind: "manual" });
   */
  async snapshots(id: string, filter?: SnapshotFilter): Promise<SnapshotPage> {
    return listSnapshots(this.#in("hold.agents.snapshots"), id, filter);
  }

  /**
   * Read one snapshot.
   *
   * @example
   * const snapshot = await hold.agents.getSnapshot("snap-7k3fa1b2c4d5e6f7");
   */
  async getSnapshot(snapshotId: string): Promise<Snapshot | undefined> {
    return getSnapshot(this.#in("hold.agents.getSnapshot"), snapshotId);
  }

  /**
   * Put an agent and its sessions back to where a snapshot found them.
   * Their state of before is a snapshot too, of kind `recovery`.
   *
   * @example
   * const { recovery } = await hold.agents.restore("snap-7k3fa1b2c4d5e6f7", { dryRun: true });
   */
  async restore(snapshotId: string, o?: RestoreOptions): Promise<RestoreReport> {
    return restoreSnapshot(this.#in("hold.agents.restore"), snapshotId, o);
  }

  /**
   * Remove a snapshot.
   * `prune` and `gc` free the parts of sessions that only this snapshot kept.
   *
   * @example
   * await hold.agents.deleteSnapshot("snap-7k3fa1b2c4d5e6f7");
   */
  async deleteSnapshot(snapshotId: string, o?: KeyOptions): Promise<void> {
    return deleteSnapshot(this.#in("hold.agents.deleteSnapshot"), snapshotId, o);
  }

  /**
   * Remove the snapshots of an agent that no rule keeps.
   * Without rules, those of the agent's policy count, or of the store's (`snapshots`). The newest
   * stays, and so does one that a restore reads just now. `prune` and `gc` free the parts of
   * sessions that only the removed ones kept.
   *
   * @example
   * const { removed } = await hold.agents.pruneSnapshots("researcher", { keep: 10 });
   */
  async pruneSnapshots(id: string, o?: PruneSnapshotsOptions): Promise<PruneSnapshotsReport> {
    return pruneSnapshots(this.#in("hold.agents.pruneSnapshots"), id, o);
  }

  /**
   * Take a snapshot of kind `automatic` every so often, if something has changed.
   * The newest `keep` of them stay. It begins at once, reports errors and goes on after them, and
   * ends with `stop` or with the store.
   *
   * @example
   * const task = hold.agents.autoSnapshot("researcher", { everyMs: 3_600_000, keep: 24 });
   * await task.stop();
   */
  autoSnapshot(id: string, o: AutoSnapshotOptions): IntervalTask {
    const automatic = autoSnapshot(this.#in("hold.agents.autoSnapshot"), id, o, () =>
      this.#automatic.delete(automatic),
    );
    this.#automatic.add(automatic);
    return automatic;
  }

  /** @internal Stop automatic snapshots, when the store is closed. */
  async stop(): Promise<void> {
    for (const automatic of this.#automatic) await automatic.stop();
  }

  #in(call: string): StoreContext {
    requireCapability(this.#ctx.store, "documents", call);
    return this.#ctx;
  }
}
