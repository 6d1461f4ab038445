/** Agents: what is kept of each, snapshots of one with all its sessions, and going back to them. */
import type { Json } from "../core/values/json.js";
import type { Ground } from "../engine/journal/ground.js";
import type { AgentInput, AgentRecord } from "../engine/records/agent-record.js";
import type { Snapshot, SnapshotOptions } from "../engine/records/snapshot-record.js";
import type { IntervalTask } from "../engine/util/every.js";
import type { KeyOptions, PageOptions } from "../engine/util/options.js";
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

export class Agents {
  readonly #ground: Ground;
  readonly #automatic = new Set<IntervalTask>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  // ---- records

  /**
   * Makes an agent, or changes it. What is not given stays as it is; its version is one more with
   * each save. A record that is damaged is made anew by a save that names no version, from what is
   * given alone.
   */
  save(agent: AgentInput, o?: KeyOptions): Promise<AgentRecord> {
    return saveAgent(this.#ground, agent, o);
  }

  /**
   * Sets one key of an agent's state. The other keys stay as they are, also those that another
   * process saves at the same time. The agent must have a record.
   */
  set(id: string, key: string, value: Json, o?: KeyOptions): Promise<AgentRecord> {
    return setStateKey(this.#ground, id, { key, value }, o);
  }

  /**
   * Takes one key out of an agent's state, as `set` sets one. A key that is not there is none to
   * take out, and the rest stays.
   */
  unset(id: string, key: string, o?: KeyOptions): Promise<AgentRecord> {
    return unsetStateKey(this.#ground, id, key, o);
  }

  get(id: string): Promise<AgentWithSessions | undefined> {
    return getAgent(this.#ground, id);
  }

  /** Newest first. */
  list(o?: PageOptions): Promise<AgentPage> {
    return listAgents(this.#ground, o);
  }

  /**
   * Deletes an agent in one step: its record, its snapshots, its sessions, and those that their
   * calls ran. What forks of other agents share with them is kept for those, and the answer names
   * them.
   */
  delete(id: string, o?: KeyOptions): Promise<DeleteAgentReport> {
    return deleteAgent(this.#ground, id, o);
  }

  // ---- snapshots

  /**
   * Notes an agent's record and where each of its sessions stands. Needs no lease, and holds nobody
   * up.
   */
  snapshot(id: string, o?: SnapshotOptions): Promise<Snapshot> {
    return takeSnapshot(this.#ground, id, o);
  }

  /** Newest first. One that is damaged does not hide the others: it is named apart. */
  snapshots(id: string, filter?: SnapshotFilter): Promise<SnapshotPage> {
    return listSnapshots(this.#ground, id, filter);
  }

  getSnapshot(snapshotId: string): Promise<Snapshot | undefined> {
    return getSnapshot(this.#ground, snapshotId);
  }

  /**
   * Puts an agent and its sessions back to where a snapshot found them. What was there before is a
   * snapshot too, of kind `recovery`.
   */
  restore(snapshotId: string, o?: RestoreOptions): Promise<RestoreReport> {
    return restoreSnapshot(this.#ground, snapshotId, o);
  }

  /** Removes a snapshot. What only it kept is freed by `prune` and `gc`. */
  deleteSnapshot(snapshotId: string, o?: KeyOptions): Promise<void> {
    return deleteSnapshot(this.#ground, snapshotId, o);
  }

  /**
   * Removes the snapshots of an agent that no rule keeps: the rules that are given, else those of
   * its policy, or the store's (`snapshots`). The newest stays, and so does one that a restore
   * reads just now. What only they kept is freed by `prune` and `gc`.
   */
  pruneSnapshots(id: string, o?: PruneSnapshotsOptions): Promise<PruneSnapshotsReport> {
    return pruneSnapshots(this.#ground, id, o);
  }

  /**
   * Takes a snapshot (`automatic`) every so often, where something has changed, and keeps the
   * newest of them. It begins at once, goes on after errors, which it reports, and ends with `stop`
   * or with the store.
   */
  autoSnapshot(id: string, o: AutoSnapshotOptions): IntervalTask {
    const automatic = autoSnapshot(this.#ground, id, o, () => this.#automatic.delete(automatic));
    this.#automatic.add(automatic);
    return automatic;
  }

  /** With the store. */
  async stop(): Promise<void> {
    for (const automatic of this.#automatic) await automatic.stop();
  }
}
