/**
 * Putting an agent and its sessions back to where a snapshot found them.
 *
 * RESTORE-1  everything the snapshot points at is read and verified before anything is changed.
 * RESTORE-2  the change is one step: a snapshot of what is there now (`recovery`), the agent's
 *            record, and every session on its new branch. It is made whole or not at all, and no
 *            one who held a session before can write to it after.
 * RESTORE-3  nothing is lost by it: sessions go to new branches and keep the old ones, those begun
 *            later are archived, those deleted come back.
 */
import { describeOwner, grantLease, type Lease, releaseLease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { placeId, type SessionId } from "../../core/values/ids.js";
import { unsettled } from "../../engine/calls/pending.js";
import type { Receipt } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { inThisGeneration } from "../../engine/lifecycle/acquire-lease.js";
import { putAgent, recordOf, soundAgent, versionIn } from "../../engine/records/agent-record.js";
import { leaseOf, leaseRow } from "../../engine/records/rows.js";
import {
  type Contents,
  contentsOf,
  entryOf,
  newSnapshot,
  noSnapshot,
  type Snapshot,
  snapshotOf,
} from "../../engine/records/snapshot-record.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import type { Change } from "../../store/port/changes.js";
import {
  AGENT,
  type Decision,
  type DocChange,
  type DocRow,
  SNAPSHOT,
} from "../../store/port/documents.js";
import type { Present } from "../../store/port/rows.js";
import {
  made,
  moved,
  type OnNewBranch,
  outcomesOf,
  relabelled,
  type Verified,
} from "./restore-plan.js";
import {
  keptOf,
  type RestoredKept,
  type RestoreOptions,
  type RestoreReport,
  type Restoring,
} from "./restore-report.js";
import { lookAt, withAgentSessions } from "./with-agent-sessions.js";

/** For how long sessions are kept from others while they are looked at before they are moved. */
const SEIZED_MS = 120_000;

type Options = { readonly takeOver: boolean } & Pick<RestoreOptions, "signal" | "onProgress">;

export class SnapshotRestore {
  readonly #ctx: StoreContext;
  readonly #contents: Contents;
  readonly #snapshot: Snapshot;
  readonly #o: Options;

  constructor(ctx: StoreContext, row: DocRow & { readonly body: string | null }, o: Options) {
    this.#ctx = ctx;
    this.#snapshot = snapshotOf(row);
    this.#contents = contentsOf(row);
    this.#o = o;
  }

  /** Says what would change. */
  async look(): Promise<RestoreReport> {
    const verified = await this.#verify();
    const now = await this.#ctx.now();
    await this.#ctx.learnGeneration();
    const sessions = await lookAt(this.#ctx, this.#snapshot.agent);
    const outcomes = outcomesOf(sessions, verified);
    const held = sessions.filter(
      (present) => this.#holderOf(present, now) && outcomes.get(present.row.id) === "moved",
    );
    return this.#report(
      outcomes,
      held.length === 0 ? undefined : { held: held.map(({ row }) => row.id) },
    );
  }

  async run(newId: () => string, receipt: Receipt<RestoredKept>): Promise<RestoreReport> {
    const verified = await this.#verify();
    for (let tries = 0; tries < TRIES; tries++) {
      this.#o.signal?.throwIfAborted();
      const seized = await this.#seize(verified);
      try {
        await this.#refuseOpenCalls(seized);
        const report = await this.#apply(verified, seized, newId, receipt);
        if (report !== undefined) return report;
      } catch (error) {
        await this.#letGo(seized);
        throw error;
      }
      await this.#letGo(seized);
    }
    throw goesOn(this.#snapshot.agent);
  }

  /** RESTORE-1 */
  async #verify(): Promise<ReadonlyMap<string, Verified>> {
    const verified = new Map<string, Verified>();
    const { sessions } = this.#contents;
    for (const entry of sessions) {
      this.#o.signal?.throwIfAborted();
      await yieldToEventLoop();
      const { place, digest } = entry;
      if (place === null)
        verified.set(entry.id, { entry, status: "in-progress", reason: undefined });
      else {
        const { fold, end } = await this.#ctx.loader.place(place, { sized: false });
        if (end !== digest)
          throw new HoldfastError(
            "CORRUPT",
            `What stands at ${placeId(place.branch, place.seq)} is not what snapshot ${quote(this.#snapshot.id)} points at. Nothing was changed.`,
            { sessionId: entry.id, branch: place.branch, seq: place.seq },
          );
        fold.leaveBranch();
        verified.set(entry.id, { entry, status: fold.status, reason: fold.reason });
      }
      this.#o.onProgress?.(verified.size, sessions.length);
    }
    return verified;
  }

  /** Nobody writes to what is to be moved from here on. */
  async #seize(verified: ReadonlyMap<string, Verified>): Promise<ReadonlyMap<string, Lease>> {
    const now = await this.#ctx.now();
    const generation = await inThisGeneration(this.#ctx);
    const seized = new Map<string, Lease>();
    await withAgentSessions(this.#ctx, { agent: this.#snapshot.agent, hold: true }, (sessions) => {
      seized.clear();
      const outcomes = outcomesOf(sessions, verified);
      const changes: Change[] = [];
      for (const present of sessions) {
        const { id } = present.row;
        if (outcomes.get(id) !== "moved") continue;
        const holder = this.#holderOf(present, now);
        if (holder !== undefined && !this.#o.takeOver) throw held(id, holder);
        const before = leaseOf(present.row);
        const lease: Lease = {
          epoch: before.epoch + 1,
          owner: this.#ctx.machine.self,
          until: now + SEIZED_MS,
          ...generation,
        };
        seized.set(id, lease);
        changes.push({
          session: id,
          when: { epoch: before.epoch },
          lease: leaseRow(id as SessionId, lease),
        });
      }
      return { changes, docs: [] };
    });
    return seized;
  }

  #holderOf({ row }: Present, now: number): string | undefined {
    const { machine, store } = this.#ctx;
    const grant = grantLease(leaseOf(row), {
      owner: machine.self,
      now,
      generation: this.#ctx.generation,
      leaseMs: SEIZED_MS,
      dead: (owner) => machine.isDead(owner, store.traits.oneMachine),
    });
    return "heldBy" in grant ? describeOwner(grant.heldBy) : undefined;
  }

  /** A branch that is left must not take calls with it of which nobody knows what becomes. */
  async #refuseOpenCalls(seized: ReadonlyMap<string, Lease>): Promise<void> {
    for (const id of seized.keys()) {
      await yieldToEventLoop();
      const present = await this.#ctx.journal.present(id as SessionId);
      const [open] =
        present === undefined ? [] : unsettled((await this.#ctx.loader.inFlightAt(present)).open);
      if (open === undefined) continue;
      throw new HoldfastError(
        "BAD_STATUS",
        `The call of ${quote(open.name)} (${open.id}) in session ${quote(id)} is not over: the session cannot be put back before it is. Settle it, or let it finish.`,
        { sessionId: id, effectId: open.id },
      );
    }
  }

  /**
   * RESTORE-2. Undefined where a session is to be moved that is not seized, or not any more: then all of
   * them are seized anew.
   */
  async #apply(
    verified: ReadonlyMap<string, Verified>,
    seized: ReadonlyMap<string, Lease>,
    newId: () => string,
    receipt: Receipt<RestoredKept>,
  ): Promise<RestoreReport | undefined> {
    const { store } = this.#ctx;
    const { agent } = this.#snapshot;
    for (let tries = 0; tries < TRIES; tries++) {
      const row = await documentsOf(store).get(AGENT, agent);
      const still = await this.#still();
      const buried = new Map<string, number>();
      for (const id of verified.keys()) {
        const there = await store.session(id);
        if (there.row === undefined) buried.set(id, there.buried);
        else if (there.row.head.agent !== agent) throw another(id, agent);
      }
      let report: RestoreReport | undefined;
      let isSeized = true;
      let before = 0;
      const applied = await withAgentSessions(
        this.#ctx,
        { agent, hold: true, also: [...buried.keys()] },
        (sessions) => {
          report = undefined;
          isSeized = this.#isSeized(sessions, verified, seized);
          if (!isSeized) return undefined;
          const decided = this.#decide(sessions, verified, seized, buried, row, newId());
          report = decided?.report;
          if (report === undefined || decided === undefined) return undefined;
          const { changes } = decided.decision;
          const docs = [...decided.decision.docs, still];
          before = changes.length + docs.length;
          return { changes, docs: [...docs, ...receipt.docs(keptOf(report))] };
        },
      );
      receipt.check(applied, before);
      if (!isSeized) return undefined;
      if (report !== undefined && applied.ok) {
        for (const { id } of report.sessions) this.#ctx.watchers.changed(id as SessionId);
        return report;
      }
      // Its record was saved, or a session deleted, in between.
    }
    throw new HoldfastError(
      "BUSY",
      `Agent ${quote(agent)} was changed again and again while it was restored. Try again.`,
      {},
    );
  }

  /**
   * That the snapshot says what it said when it was read: a redaction may have taken a text out of
   * it since, which must not come back.
   */
  async #still(): Promise<DocChange> {
    const { id, digest } = this.#snapshot;
    const row = await documentsOf(this.#ctx.store).get(SNAPSHOT, id);
    if (row === undefined) throw noSnapshot(id);
    if (snapshotOf(row).digest !== digest)
      throw new HoldfastError(
        "BUSY",
        `Snapshot ${quote(id)} was redacted while it was restored. Nothing was changed. Try again.`,
        {},
      );
    return { kind: SNAPSHOT, id, when: { version: row.version } };
  }

  /**
   * One that stood where it should may have gone on since, and one that was seized may have been
   * taken over.
   */
  #isSeized(
    sessions: readonly Present[],
    verified: ReadonlyMap<string, Verified>,
    seized: ReadonlyMap<string, Lease>,
  ): boolean {
    const outcomes = outcomesOf(sessions, verified);
    return sessions.every(
      ({ row }) =>
        outcomes.get(row.id) !== "moved" || seized.get(row.id)?.epoch === leaseOf(row).epoch,
    );
  }

  /** Undefined where something has changed since it was looked at. */
  #decide(
    sessions: readonly Present[],
    verified: ReadonlyMap<string, Verified>,
    seized: ReadonlyMap<string, Lease>,
    buried: ReadonlyMap<string, number>,
    row: DocRow | undefined,
    recoveryId: string,
  ): { readonly decision: Decision; readonly report: RestoreReport } | undefined {
    const outcomes = outcomesOf(sessions, verified);
    const changes: Change[] = [];
    for (const present of sessions) {
      const { id } = present.row;
      const outcome = outcomes.get(id);
      if (outcome === "moved")
        changes.push(
          moved(
            present,
            verified.get(id) as Verified,
            seized.get(id) as Lease,
            this.#onNewBranch(),
          ),
        );
      else if (outcome === "labelled" || outcome === "archived")
        changes.push(relabelled(present, verified.get(id)?.entry));
    }
    for (const [id, one] of verified) {
      if (outcomes.get(id) !== "made") continue;
      const epoch = buried.get(id);
      if (epoch === undefined) return undefined;
      changes.push(made(one, this.#snapshot.agent, epoch, this.#onNewBranch()));
    }
    const now = this.#ctx.wallMs();
    const about = {
      id: recoveryId,
      agent: this.#snapshot.agent,
      kind: "recovery",
      createdAt: now,
      metadata: {},
    } as const;
    const name = `before ${this.#snapshot.name ?? this.#snapshot.id} was restored`
      .slice(0, 200)
      .toWellFormed();
    const record = row && soundAgent(row);
    const left = row !== undefined && record === undefined ? { damaged: row.text } : undefined;
    const contents = { agent: record ?? null, ...left, sessions: sessions.map(entryOf) };
    const recovery = newSnapshot({ ...about, name, ...(left && { description: LEFT }) }, contents);
    const docs = [recovery.change];
    const was = this.#contents.agent;
    const version =
      record?.version ?? Math.max(was?.version ?? 0, row === undefined ? 0 : versionIn(row));
    const next = was && { ...was, version: version + 1, updatedAt: now };
    if (next !== null) docs.push(putAgent(next, row));
    const report = this.#report(outcomes, {
      recovery: recovery.snapshot,
      ...(next === null ? undefined : { agent: recordOf(next) }),
    });
    return { decision: { changes, docs }, report };
  }

  #report(
    outcomes: ReadonlyMap<string, Restoring>,
    more: Partial<RestoreReport> | undefined,
  ): RestoreReport {
    const { agent } = this.#contents;
    return {
      snapshot: this.#snapshot,
      ...(agent === null ? undefined : { agent: recordOf(agent) }),
      sessions: [...outcomes]
        .map(([id, outcome]) => ({ id, outcome }))
        .sort((a, b) => (a.id < b.id ? -1 : 1)),
      ...more,
    };
  }

  #onNewBranch(): OnNewBranch {
    return { branch: this.#ctx.newBranchId(), generation: this.#ctx.generation };
  }

  async #letGo(seized: ReadonlyMap<string, Lease>): Promise<void> {
    for (const [id, lease] of seized)
      await this.#ctx.store
        .apply([
          {
            session: id,
            when: { epoch: lease.epoch },
            lease: leaseRow(id as SessionId, releaseLease(lease)),
          },
        ])
        .catch(() => {});
  }
}

const TRIES = 10;

const LEFT =
  "The record of the agent was damaged. What was left of its text is kept here, and is not put back.";

const goesOn = (agent: string): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Sessions of agent ${quote(agent)} went on, or were taken over, again and again while they were to be put back. None was. Stop whoever works on them, and try again.`,
    { found: agent },
  );

const another = (id: string, agent: string): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Session ${quote(id)} was deleted, and made again by another than agent ${quote(agent)}: it cannot be put back. Delete it, or rename it by a fork.`,
    { sessionId: id },
  );

const held = (id: string, holder: string): HoldfastError =>
  new HoldfastError(
    "LEASE_HELD",
    `Session ${quote(id)} is held by ${holder}: it cannot be put back meanwhile. Let it finish, or restore with takeOver.`,
    { sessionId: id, holder },
  );
