/** Agents: what is kept of each, snapshots of one with all its sessions, and going back to them. */
import type { CheckpointKind } from "../core/journal/checkpoint.js";
import type { Json } from "../core/values/json.js";
import type { Ground } from "../engine/journal/ground.js";
import type { AgentInput, AgentRecord } from "../engine/records/agent-record.js";
import type { Snapshot, SnapshotOptions } from "../engine/records/snapshot-record.js";
import type { KeyOption } from "../engine/util/options.js";
import {
  type AutoSnapshot,
  type AutoSnapshotOptions,
  autoSnapshot,
} from "../features/snapshots/auto-snapshot.js";
import { type DeletedAgent, deleteAgent } from "../features/snapshots/delete-agent.js";
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
  type SnapshotPage,
} from "../features/snapshots/list-snapshots.js";
import {
  type PrunedSnapshots,
  pruneSnapshots,
  type SnapshotPruneOptions,
} from "../features/snapshots/prune-snapshots.js";
import type { RestoreOptions, RestoreReport } from "../features/snapshots/restore-report.js";
import { restoreSnapshot } from "../features/snapshots/restore-snapshot.js";
import { saveAgent, setStateKey, unsetStateKey } from "../features/snapshots/save-agent.js";
import { takeSnapshot } from "../features/snapshots/take-snapshot.js";
import { requireCapability } from "../store/capabilities.js";

export class Agents {
  readonly #ground: Ground;
  readonly #automatic = new Set<AutoSnapshot>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  // ---- records

  /**
   * Makes an agent, or changes it. What is not given stays as it is; its version is one more with
   * each save. A record that is damaged is made anew by a save that names no version, from what is
   * given alone.
   */
  async save(agent: AgentInput, o?: KeyOption): Promise<AgentRecord> {
    return saveAgent(this.#in("hold.agents.save"), agent, o);
  }

  /**
   * Sets one key of an agent's state. The other keys stay as they are, also those that another
   * process saves at the same time. The agent must have a record.
   */
  async set(id: string, key: string, value: Json, o?: KeyOption): Promise<AgentRecord> {
    return setStateKey(this.#in("hold.agents.set"), id, { key, value }, o);
  }

  /**
   * Takes one key out of an agent's state, as `set` sets one. A key that is not there is none to
   * take out, and the rest stays.
   */
  async unset(id: string, key: string, o?: KeyOption): Promise<AgentRecord> {
    return unsetStateKey(this.#in("hold.agents.unset"), id, key, o);
  }

  async get(id: string): Promise<AgentWithSessions | undefined> {
    return getAgent(this.#in("hold.agents.get"), id);
  }

  /** Newest first. */
  async list(o?: { readonly limit?: number; readonly cursor?: string }): Promise<AgentPage> {
    return listAgents(this.#in("hold.agents.list"), o);
  }

  /**
   * Deletes an agent in one step: its record, its snapshots, its sessions, and those that their
   * calls ran. What forks of other agents share with them is kept for those, and the answer names
   * them.
   */
  async delete(id: string, o?: KeyOption): Promise<DeletedAgent> {
    return deleteAgent(this.#in("hold.agents.delete"), id, o);
  }

  // ---- snapshots

  /**
   * Notes an agent's record and where each of its sessions stands. Needs no lease, and holds nobody
   * up.
   */
  async snapshot(id: string, o?: SnapshotOptions): Promise<Snapshot> {
    return takeSnapshot(this.#in("hold.agents.snapshot"), id, o);
  }

  /** Newest first. One that is damaged does not hide the others: it is named apart. */
  async snapshots(
    id: string,
    o?: { readonly kind?: CheckpointKind; readonly limit?: number; readonly cursor?: string },
  ): Promise<SnapshotPage> {
    return listSnapshots(this.#in("hold.agents.snapshots"), id, o);
  }

  async getSnapshot(snapshotId: string): Promise<Snapshot | undefined> {
    return getSnapshot(this.#in("hold.agents.getSnapshot"), snapshotId);
  }

  /**
   * Puts an agent and its sessions back to where a snapshot found them. What was there before is a
   * snapshot too, of kind `recovery`.
   */
  async restore(snapshotId: string, o?: RestoreOptions): Promise<RestoreReport> {
    return restoreSnapshot(this.#in("hold.agents.restore"), snapshotId, o);
  }

  /** Removes a snapshot. What only it kept is freed by `prune` and `gc`. */
  async deleteSnapshot(snapshotId: string, o?: KeyOption): Promise<void> {
    return deleteSnapshot(this.#in("hold.agents.deleteSnapshot"), snapshotId, o);
  }

  /**
   * Removes the snapshots of an agent that no rule keeps: the rules that are given, else those of
   * its policy, or the store's (`snapshots`). The newest stays, and so does one that a restore
   * reads just now. What only they kept is freed by `prune` and `gc`.
   */
  async pruneSnapshots(id: string, o?: SnapshotPruneOptions): Promise<PrunedSnapshots> {
    return pruneSnapshots(this.#in("hold.agents.pruneSnapshots"), id, o);
  }

  /**
   * Takes a snapshot (`automatic`) every so often, where something has changed, and keeps the
   * newest of them. It begins at once, goes on after errors, which it reports, and ends with `stop`
   * or with the store.
   */
  autoSnapshot(id: string, o: AutoSnapshotOptions): AutoSnapshot {
    const automatic = autoSnapshot(this.#in("hold.agents.autoSnapshot"), id, o, () =>
      this.#automatic.delete(automatic),
    );
    this.#automatic.add(automatic);
    return automatic;
  }

  /** With the store. */
  async stop(): Promise<void> {
    for (const automatic of this.#automatic) await automatic.stop();
  }

  #in(call: string): Ground {
    requireCapability(this.#ground.store, "documents", call);
    return this.#ground;
  }
}
