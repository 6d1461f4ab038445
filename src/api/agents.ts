/** Agents: what is kept of each, snapshots of one with all its sessions, and going back to them. */
import { type CheckpointKind, checkMetadata, checkText, KINDS } from "../core/journal/checkpoint.js";
import { isUnderWay, type SessionStatus, statusTable } from "../core/sessions/status.js";
import { HoldfastError, pathTo, quote } from "../core/values/errors.js";
import { checkName } from "../core/values/ids.js";
import { encode, type Json, type JsonObject } from "../core/values/json.js";
import type { Ground } from "../engine/journal/ground.js";
import { once, onceRemoved, type Receipt } from "../engine/journal/receipts.js";
import { redacted } from "../engine/journal/redact-agent.js";
import { relabelBy } from "../engine/lifecycle/relabel.js";
import {
  type AgentDoc,
  type AgentInput,
  type AgentRecord,
  agentOf,
  type CheckedAgent,
  checkAgent,
  emptyAfter,
  noAgent,
  putAgent,
  recordOf,
  soundAgent,
} from "../engine/records/agent-record.js";
import type { Relabel, SessionUpdate } from "../engine/records/rows.js";
import {
  entryOf,
  MAX_DESCRIPTION,
  MAX_SESSIONS,
  MAX_SNAPSHOT_NAME,
  newSnapshot,
  noSnapshot,
  restoringIn,
  type Snapshot,
  type SnapshotOptions,
  snapshotOf,
  snapshotsOf,
  withLabel,
} from "../engine/records/snapshot-record.js";
import type { KeyOption } from "../engine/util/options.js";
import {
  callback,
  cursorAt,
  type Damaged,
  entriesIn,
  flag,
  limitOf,
  numberOf,
  oneOf,
  options,
  type Page,
  signalOf,
} from "../engine/util/options.js";
import { type AutoSnapshot, type AutoSnapshotOptions, autoSnapshot } from "../features/snapshots/auto-snapshot.js";
import { capture } from "../features/snapshots/capture.js";
import { type DeletedAgent, deleteAgent } from "../features/snapshots/deleting.js";
import { type PrunedSnapshots, pruneSnapshots, type SnapshotPruneOptions } from "../features/snapshots/prune-snapshots.js";
import { Restore, type RestoredKept, type RestoreOptions, type RestoreReport, type Restoring } from "../features/snapshots/restoring.js";
import { removeUnlessInUse, whileInUse } from "../features/snapshots/snapshot-in-use.js";
import { AGENT, type DocRow, SNAPSHOT } from "../store/port/documents.js";

/** An agent, and those of its sessions that are under way: the newest first, 1,000 at most. */
export interface AgentWithSessions extends AgentRecord {
  readonly activeSessions: readonly string[];
}

export interface AgentPage extends Page<AgentRecord> {
  /** Agents of this page whose record cannot be read; absent where there are none. */
  readonly damaged?: readonly Damaged[];
}

export interface SnapshotPage extends Page<Snapshot> {
  /**
   * Snapshots of this page that cannot be read, whatever their kind; absent where there are none. Of one that a directory holds nobody can
   * say whose it was: it is named with every agent.
   */
  readonly damaged?: readonly Damaged[];
}

const MAX_ACTIVE = 1_000;
const UNDER_WAY = (Object.keys(statusTable) as SessionStatus[]).filter(isUnderWay);
const TRIES = 10;

export class Agents {
  readonly #ground: Ground;
  readonly #automatic = new Set<AutoSnapshot>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  // ---- records

  /**
   * Makes an agent, or changes it. What is not given stays as it is; its version is one more with each save. A record that is damaged is
   * made anew by a save that names no version, from what is given alone.
   */
  async save(agent: AgentInput, o?: KeyOption): Promise<AgentRecord> {
    const { key } = options(o, "agents.save", ["key"]);
    const checked = checkAgent(agent);
    return once<number, AgentRecord>(
      this.#ground,
      { key, name: "agents.save", to: checked.id, args: agent },
      (receipt) => this.#save(checked, receipt),
      async () => recordOf(await this.#required(checked.id)),
    );
  }

  /**
   * Sets one key of an agent's state. The other keys stay as they are, also those that another process saves at the same time. The agent must
   * have a record.
   */
  async set(id: string, key: string, value: Json, o?: KeyOption): Promise<AgentRecord> {
    const name = checkName(key, "state key");
    const { value: copy } = encode(value, pathTo("state", name));
    return this.#edit("agents.set", id, { set: Object.fromEntries([[name, copy]]) }, o);
  }

  /** Takes one key out of an agent's state, as `set` sets one. A key that is not there is none to take out, and the rest stays. */
  async unset(id: string, key: string, o?: KeyOption): Promise<AgentRecord> {
    return this.#edit("agents.unset", id, { unset: [checkName(key, "state key")] }, o);
  }

  async #edit(name: string, given: string, args: Pick<AgentInput, "set" | "unset">, o: KeyOption | undefined): Promise<AgentRecord> {
    const { key } = options(o, name, ["key"]);
    const checked = checkAgent({ id: given, ...args });
    const { id } = checked;
    return once<number, AgentRecord>(
      this.#ground,
      { key, name, to: id, args },
      (receipt) => this.#save(checked, receipt, { makes: false }),
      async () => recordOf(await this.#required(id)),
    );
  }

  async #save({ id, version, isEdit, next }: CheckedAgent, receipt: Receipt<number>, { makes = true } = {}): Promise<AgentRecord> {
    for (;;) {
      const row = await this.#ground.store.doc(AGENT, id);
      if (row === undefined && !makes) throw noAgent(id);
      const now = this.#ground.wallMs();
      // Of a damaged record an edit would keep nothing but itself.
      const before = row && (version === undefined && !isEdit ? (soundAgent(row) ?? emptyAfter(row, now)) : agentOf(row));
      const found = before?.version ?? 0;
      if (version !== undefined && version !== found) throw conflict(id, version, found);
      const after = redacted(this.#ground.redactor, next(before, now));
      const applied = await this.#ground.store.apply([], [putAgent(after, row), ...receipt.docs(after.version)]);
      if (applied.ok) return recordOf(after);
      receipt.check(applied, 1);
      // Somebody else saved it in between: read it again, and change that.
    }
  }

  async get(id: string): Promise<AgentWithSessions | undefined> {
    const doc = await this.#doc(checkName(id, "agent id"));
    return doc && Object.freeze({ ...recordOf(doc), activeSessions: await this.#active(doc.id) });
  }

  async #doc(id: string): Promise<AgentDoc | undefined> {
    const row = await this.#ground.store.doc(AGENT, id);
    return row && agentOf(row);
  }

  async #required(id: string): Promise<AgentDoc> {
    const doc = await this.#doc(id);
    if (doc === undefined) throw noAgent(id);
    return doc;
  }

  async #active(agent: string): Promise<readonly string[]> {
    const rows = await Promise.all(UNDER_WAY.map((status) => this.#ground.store.sessions({ agent, status, limit: MAX_ACTIVE })));
    return rows
      .flat()
      .sort((a, b) => b.no - a.no)
      .slice(0, MAX_ACTIVE)
      .map((row) => row.id);
  }

  /** Newest first. */
  async list(o?: { readonly limit?: number; readonly cursor?: string }): Promise<AgentPage> {
    const { limit, cursor } = options(o, "agents.list", ["limit", "cursor"]);
    return this.#page({ kind: AGENT }, limit, cursor, (row) => recordOf(agentOf(row)));
  }

  /** What is damaged does not hide the rest. */
  async #page<T>(
    of: { readonly kind: string; readonly of?: string },
    limit: unknown,
    cursor: unknown,
    show: (row: DocRow) => T | undefined,
  ): Promise<Page<T> & { readonly damaged?: readonly Damaged[] }> {
    const most = limitOf(limit, "limit");
    const items: T[] = [];
    const damaged: Damaged[] = [];
    const named = () => (damaged.length === 0 ? undefined : { damaged });
    for (let before = cursor === undefined ? undefined : numberOf(cursor, "d", this.#ground.store.cursorKey); ; ) {
      const rows = await this.#ground.store.docs({ ...of, ...(before === undefined ? undefined : { before }), limit: most + 1 });
      for (const row of rows) {
        // One more is there; whether it will be shown is seen when it is asked for.
        if (items.length === most) return { items, ...named(), next: cursorAt(before ?? row.no + 1, "d", this.#ground.store.cursorKey) };
        before = row.no;
        try {
          const shown = show(row);
          if (shown !== undefined) items.push(shown);
        } catch (error) {
          if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
          damaged.push({ id: row.id, message: error.message });
        }
      }
      if (rows.length <= most) return { items, ...named() };
    }
  }

  /**
   * Deletes an agent in one step: its record, its snapshots, its sessions, and those that their calls ran. What forks of other agents
   * share with them is kept for those, and the answer names them.
   */
  async delete(id: string, o?: KeyOption): Promise<DeletedAgent> {
    const { key } = options(o, "agents.delete", ["key"]);
    const agent = checkName(id, "agent id");
    return onceRemoved<JsonObject, DeletedAgent>(
      this.#ground,
      { key, name: "agents.delete", to: agent, args: {} },
      (receipt) => deleteAgent(this.#ground, agent, receipt),
      (answer) => answer as unknown as DeletedAgent,
    );
  }

  // ---- snapshots

  /** Notes an agent's record and where each of its sessions stands. Needs no lease, and holds nobody up. */
  async snapshot(id: string, o?: SnapshotOptions): Promise<Snapshot> {
    const agent = checkName(id, "agent id");
    const { key, ...args } = options(o, "agents.snapshot", ["name", "description", "kind", "metadata", "labels", "key"]);
    const { name, description, kind, metadata } = args;
    const labels = this.#labels(args.labels);
    const checkedKind = oneOf(kind, "kind", KINDS) ?? "manual";
    const said = {
      ...(name === undefined ? undefined : { name: checkText(name, "name", MAX_SNAPSHOT_NAME) }),
      ...(description === undefined ? undefined : { description: checkText(description, "description", MAX_DESCRIPTION) }),
      metadata: metadata === undefined ? {} : checkMetadata(metadata, "metadata"),
    };
    return once<string, Snapshot>(
      this.#ground,
      { key, name: "agents.snapshot", to: agent, args },
      async (receipt) =>
        (await this.#snapshot(agent, { kind: checkedKind, ...this.#redactedWords(said) }, { receipt, labels })) as Snapshot,
      (made) => this.#madeSnapshot(made),
    );
  }

  async #madeSnapshot(id: string): Promise<Snapshot> {
    const found = await this.getSnapshot(id);
    if (found === undefined) throw noSnapshot(id);
    return found;
  }

  #labels(labels: SnapshotOptions["labels"]): ReadonlyMap<string, Relabel> {
    const given = labels === undefined ? [] : entriesIn(labels, "labels", "an object with a label for each session id");
    if (given.length > MAX_SESSIONS)
      throw new HoldfastError("TOO_LARGE", `labels: more than ${MAX_SESSIONS} sessions.`, { path: "labels", limit: MAX_SESSIONS });
    return new Map(given.map(([id, label]) => [id, relabelBy(this.#ground, label as SessionUpdate, pathTo("labels", id))]));
  }

  #redactedWords<T extends Pick<Snapshot, "name" | "description" | "metadata">>(said: T): T {
    const { redactor } = this.#ground;
    if (redactor === undefined) return said;
    const { name, description, metadata } = said;
    return {
      ...said,
      ...(name !== undefined && { name: checkText(redactor.text(name, { in: "snapshot", field: "name" }), "name", MAX_SNAPSHOT_NAME) }),
      ...(description !== undefined && {
        description: checkText(redactor.text(description, { in: "snapshot", field: "description" }), "description", MAX_DESCRIPTION),
      }),
      metadata: checkMetadata(redactor.json(metadata, { in: "snapshot", field: "metadata" }), "metadata"),
    };
  }

  /** `unless`: not where this is the digest of what it would hold. */
  async #snapshot(
    agent: string,
    about: Pick<Snapshot, "kind" | "name" | "description" | "metadata">,
    {
      unless,
      receipt,
      labels,
    }: { readonly unless?: string | undefined; readonly receipt?: Receipt<string>; readonly labels?: ReadonlyMap<string, Relabel> },
  ): Promise<Snapshot | undefined> {
    await this.#ground.takeInPosted();
    for (let tries = 0; tries < TRIES; tries++) {
      const record = await this.#doc(agent);
      // It is still the record when the sessions are looked at.
      const still = { kind: AGENT, id: agent, when: record === undefined ? { absent: true as const } : { version: record.version } };
      let made: Snapshot | undefined;
      const applied = await capture(this.#ground, { agent, hold: false }, (sessions) => {
        made = undefined;
        if (record === undefined && sessions.length === 0) throw noAgent(agent);
        const now = { id: this.#newId(), agent, createdAt: this.#ground.wallMs() };
        const entries = sessions.map(entryOf).map((entry) => withLabel(entry, labels?.get(entry.id)));
        const { change, snapshot } = newSnapshot({ ...now, ...about }, { agent: record ?? null, sessions: entries });
        if (snapshot.digest === unless) return undefined;
        made = snapshot;
        return { changes: [], docs: [still, change, ...(receipt?.docs(snapshot.id) ?? [])] };
      });
      if (applied.ok) return made;
      receipt?.check(applied, 2);
      if (applied.why === "origin")
        throw new HoldfastError("CORRUPT", `A session of agent ${quote(agent)} does not stand where it says. Run verify.`, {});
    }
    throw new HoldfastError("BUSY", `The record of agent ${quote(agent)} was saved again and again meanwhile. Try again.`, {});
  }

  #newId(): string {
    return `snap-${this.#ground.newLineId()}`;
  }

  /** Newest first. One that is damaged does not hide the others: it is named apart. */
  async snapshots(
    id: string,
    o?: { readonly kind?: CheckpointKind; readonly limit?: number; readonly cursor?: string },
  ): Promise<SnapshotPage> {
    const agent = checkName(id, "agent id");
    const { kind, limit, cursor } = options(o, "agents.snapshots", ["kind", "limit", "cursor"]);
    const only = oneOf(kind, "kind", KINDS);
    return this.#page({ kind: SNAPSHOT, of: agent }, limit, cursor, (row) => {
      const snapshot = snapshotOf(row);
      return only === undefined || snapshot.kind === only ? snapshot : undefined;
    });
  }

  async getSnapshot(snapshotId: string): Promise<Snapshot | undefined> {
    const row = await this.#ground.store.doc(SNAPSHOT, checkName(snapshotId, "snapshot id"));
    return row && snapshotOf(row);
  }

  /** Puts an agent and its sessions back to where a snapshot found them. What was there before is a snapshot too, of kind `recovery`. */
  async restore(snapshotId: string, o?: RestoreOptions): Promise<RestoreReport> {
    const id = checkName(snapshotId, "snapshot id");
    const { takeOver, dryRun, signal, onProgress, key } = options(o, "agents.restore", [
      "takeOver",
      "dryRun",
      "signal",
      "onProgress",
      "key",
    ]);
    const told = callback(onProgress, "onProgress");
    const stop = signalOf(signal);
    const isTaken = flag(takeOver, "takeOver") ?? false;
    const isDry = flag(dryRun, "dryRun") ?? false;
    if (key !== undefined) checkName(key, "key");
    const given = { takeOver: isTaken, ...(stop && { signal: stop }), ...(told && { onProgress: told }) };
    if (isDry) {
      const row = await this.#ground.store.doc(SNAPSHOT, id);
      if (row === undefined) throw noSnapshot(id);
      return new Restore(this.#ground, row, given).look();
    }
    return once<RestoredKept, RestoreReport>(
      this.#ground,
      { key, name: "agents.restore", to: id, args: { takeOver: isTaken } },
      async (receipt) => {
        await this.#ground.takeInPosted();
        return whileInUse(this.#ground, id, (row, renew) =>
          new Restore(this.#ground, row, { ...given, renew }).run(() => this.#newId(), receipt),
        );
      },
      async (kept) => {
        // What it was restored from, and what was there before, may be deleted since.
        const snapshot = (await this.getSnapshot(id)) ?? (kept.snapshot as unknown as Snapshot);
        const recovery = await this.getSnapshot(kept.recovery);
        const agent = await this.#doc(snapshot.agent);
        const sessions = kept.sessions.map(([session, outcome]) => ({ id: session, outcome: outcome as Restoring }));
        return { snapshot, ...(recovery && { recovery }), ...(agent && { agent: recordOf(agent) }), sessions };
      },
    );
  }

  /** Removes a snapshot. What only it kept is freed by `prune` and `gc`. */
  async deleteSnapshot(snapshotId: string, o?: KeyOption): Promise<void> {
    const { key } = options(o, "agents.deleteSnapshot", ["key"]);
    const id = checkName(snapshotId, "snapshot id");
    await onceRemoved<null, void>(
      this.#ground,
      { key, name: "agents.deleteSnapshot", to: id, args: {} },
      async (receipt) => {
        const applied = await this.#ground.store.apply([], [{ kind: SNAPSHOT, id, when: {}, remove: true }, ...receipt.docs(null)]);
        receipt.check(applied, 1);
        if (!applied.ok) throw noSnapshot(id);
      },
      () => {},
    );
  }

  /**
   * Removes the snapshots of an agent that no rule keeps: the rules that are given, else those of its policy, or the store's (`snapshots`). The
   * newest stays, and so does one that a restore reads just now. What only they kept is freed by `prune` and `gc`.
   */
  async pruneSnapshots(id: string, o?: SnapshotPruneOptions): Promise<PrunedSnapshots> {
    return pruneSnapshots(this.#ground, checkName(id, "agent id"), o);
  }

  /**
   * Takes a snapshot (`automatic`) every so often, where something has changed, and keeps the newest of them. It begins at once, goes on
   * after errors, which it reports, and ends with `stop` or with the store.
   */
  autoSnapshot(id: string, o: AutoSnapshotOptions): AutoSnapshot {
    this.#ground.usable();
    const agent = checkName(id, "agent id");
    const automatic = autoSnapshot(o, {
      take: async () => {
        const [newest] = await this.#automatics(agent, 1);
        const about = { kind: "automatic", metadata: {} } as const;
        return this.#snapshot(agent, about, { unless: newest && snapshotOf(newest).digest });
      },
      prune: async (keep) => {
        for (const row of (await this.#automatics(agent, Number.MAX_SAFE_INTEGER)).slice(keep))
          await removeUnlessInUse(this.#ground, { ...row, restoring: restoringIn(row) });
      },
      stopped: () => this.#automatic.delete(automatic),
    });
    this.#automatic.add(automatic);
    return automatic;
  }

  /** Newest first; one that is damaged is passed over, and stays. */
  async #automatics(agent: string, most: number): Promise<readonly DocRow[]> {
    const isAutomatic = (row: DocRow) => {
      try {
        return snapshotOf(row).kind === "automatic";
      } catch {
        return false;
      }
    };
    return (await snapshotsOf(this.#ground.store, agent)).filter(isAutomatic).slice(0, most);
  }

  /** With the store. */
  async stop(): Promise<void> {
    for (const automatic of this.#automatic) await automatic.stop();
  }
}

const conflict = (id: string, version: number, found: number): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Agent ${quote(id)} is at version ${found}, and this save is of version ${version}: somebody else saved it. Read it again.`,
    { found },
  );
