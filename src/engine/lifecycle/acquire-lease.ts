/** Take the lease of a session that is there, or say who holds it. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { describeOwner, grantLease, type Lease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Applied, Change } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { StoreContext } from "../journal/store-context.js";
import { type HeadDoc, headOf, leaseOf, leaseRow } from "../records/rows.js";
import { noSession } from "../util/not-found.js";
import type { Wanted } from "./session-options.js";

/**
 * What heads and leases say of the generation they are of; nothing in a store that never was put
 * back.
 */
export async function inThisGeneration(
  ctx: StoreContext,
): Promise<{ readonly generation?: string }> {
  const generation = await ctx.learnGeneration();
  return generation === "" ? {} : { generation };
}

/** A session belongs to one agent. */
export function refuseOtherAgent(head: HeadDoc, { id, agent }: Pick<Wanted, "id" | "agent">): void {
  if (agent === undefined || head.agent === agent) return;
  throw new HoldfastError(
    "CONFLICT",
    `Session ${quote(id)} belongs to ${head.agent === undefined ? "no agent" : `agent ${quote(head.agent)}`}, not to ${quote(agent)}.`,
    { sessionId: id },
  );
}

/** Takes the lease of a session that is there, to take something away from it, and nothing else. */
export async function takeLeaseToFree(
  ctx: StoreContext,
  id: SessionId,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<Lease> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    signal?.throwIfAborted();
    const row = (await ctx.store.session(id)).row;
    if (row === undefined) throw noSession(id);
    const lease = await take(
      ctx,
      row,
      { id, agent: undefined, leaseMs: ctx.leaseMs, how: "frees" },
      deadline,
    );
    if (lease !== undefined) return lease;
  }
}

type Taking = Pick<Wanted, "id" | "agent" | "leaseMs"> & { readonly how?: "frees" };

export async function take(
  ctx: StoreContext,
  row: SessionRow,
  want: Taking,
  deadline: number,
): Promise<Lease | undefined> {
  refuseOtherAgent(headOf(row), want);
  const before = leaseOf(row);
  const { oneMachine } = ctx.store.traits;
  const grant = grantLease(before, {
    owner: ctx.machine.self,
    now: await ctx.now(),
    leaseMs: want.leaseMs,
    generation: await ctx.learnGeneration(),
    dead: (owner) => ctx.machine.isDead(owner, oneMachine),
  });
  if ("heldBy" in grant) {
    const left = deadline - performance.now();
    if (left <= 0) {
      const remainingMs = Math.ceil(grant.remainingMs);
      const holder = describeOwner(grant.heldBy);
      throw new HoldfastError(
        "LEASE_HELD",
        `Session ${quote(want.id)} is held by ${holder} for ${remainingMs} ms more, unless it renews its lease. Wait with waitMs, or let it finish.`,
        { sessionId: want.id, holder, remainingMs },
      );
    }
    await sleep(Math.min(left, grant.remainingMs, 50) + Math.random() * 10);
    return undefined;
  }
  // Two openings of one process in one instant are told apart by it.
  const granted = { ...grant.granted, token: randomUUID() };
  const lease = leaseRow(want.id, granted);
  const applied = await orFound(
    ctx,
    { session: want.id, when: { epoch: before.epoch, until: before.until }, lease },
    (now) => now.lease.text === lease.text,
    [],
    want.how,
  );
  return applied.ok ? granted : undefined;
}

/**
 * Where the answer was lost, the store is asked whether it was done: a lease that nobody knows of
 * would keep all others waiting.
 */
export async function orFound(
  ctx: StoreContext,
  change: Change,
  isDone: (row: SessionRow) => boolean,
  alongside: readonly DocChange[] = [],
  how?: "frees",
): Promise<Applied> {
  try {
    return await ctx.store.apply([change], alongside, how);
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "UNREACHABLE" && error.code !== "IO"))
      throw error;
    const found = await ctx.store.session(change.session).catch(() => undefined);
    if (found?.row !== undefined && isDone(found.row)) return { ok: true };
    throw error;
  }
}
