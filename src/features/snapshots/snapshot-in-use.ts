/**
 * Keeping a snapshot while a restore reads it.
 *
 * USE-1  A restore notes itself in the snapshot's document before it reads the snapshot, renews the
 *        note while it reads, and takes it out at its end. The note ends by itself when the process
 *        is dead, or does not renew it for two minutes.
 * USE-2  What removes snapshots by a rule removes the version that it has looked at, and none with
 *        a note. A restore that begins in between has changed the version. `agents.deleteSnapshot`
 *        and `agents.delete` do what a person asks for, and do not look.
 */
import { randomUUID } from "node:crypto";
import { grantLease, type Lease } from "../../core/sessions/lease.js";
import type { Ground } from "../../engine/journal/ground.js";
import { inThisIncarnation } from "../../engine/lifecycle/acquire-lease.js";
import { noSnapshot, restoringIn, withRestoring } from "../../engine/records/snapshot-record.js";
import { documentsOf } from "../../store/capabilities.js";
import { type DocRow, SNAPSHOT } from "../../store/port/documents.js";

const NOTED_MS = 120_000;
const RENEWED_MS = 30_000;

type Whole = DocRow & { readonly body: string | null };

/**
 * Reads a snapshot for a restore, and keeps it until `restore` has ended. `renew` is called now and
 * then meanwhile.
 */
export async function whileInUse<R>(
  ground: Ground,
  id: string,
  restore: (row: Whole, renew: () => Promise<void>) => Promise<R>,
): Promise<R> {
  const token = randomUUID();
  const row = await note(ground, id, token, true);
  if (row === undefined) throw noSnapshot(id);
  let noted = performance.now();
  const renew = async (): Promise<void> => {
    if (performance.now() - noted < RENEWED_MS) return;
    noted = performance.now();
    await note(ground, id, token, true);
  };
  try {
    return await restore(row, renew);
  } finally {
    // Where that fails, the note ends by itself.
    await note(ground, id, token, false).catch(() => {});
  }
}

/**
 * Puts a restore's note into the snapshot, or takes it out. Notes of restores that have ended go,
 * too. Undefined where it is gone.
 */
async function note(
  ground: Ground,
  id: string,
  token: string,
  isAdded: boolean,
): Promise<Whole | undefined> {
  for (;;) {
    const row = await documentsOf(ground.store).get(SNAPSHOT, id);
    if (row === undefined) return undefined;
    const now = await ground.now();
    const own = {
      epoch: 0,
      owner: ground.machine.self,
      until: now + NOTED_MS,
      token,
      ...(await inThisIncarnation(ground)),
    };
    const others = restoringIn(row).filter(
      (lease) => lease.token !== token && lasts(ground, lease, now),
    );
    const applied = await ground.store.apply(
      [],
      [withRestoring(row, isAdded ? [...others, own] : others)],
    );
    if (applied.ok) return row;
    // Another restore, or a redaction, has changed it: read it again.
  }
}

function lasts({ machine, store, incarnation }: Ground, lease: Lease, now: number): boolean {
  const dead = (owner: NonNullable<Lease["owner"]>) =>
    machine.isDead(owner, store.traits.oneMachine);
  return (
    "heldBy" in
    grantLease(lease, { owner: machine.self, now, leaseMs: NOTED_MS, incarnation, dead })
  );
}

/** Whether a restore reads the snapshot. */
export async function isInUse(ground: Ground, restoring: readonly Lease[]): Promise<boolean> {
  if (restoring.length === 0) return false;
  await ground.learnIncarnation();
  const now = await ground.now();
  return restoring.some((lease) => lasts(ground, lease, now));
}

/**
 * Removes a snapshot that was read, unless a restore reads it (USE-2). Answers whether it went by
 * this.
 */
export async function removeUnlessInUse(
  ground: Ground,
  { id, version, restoring }: Unused,
): Promise<boolean> {
  for (let [at, leases] = [version, restoring]; ; ) {
    if (await isInUse(ground, leases)) return false;
    const { ok } = await ground.store.apply(
      [],
      [{ kind: SNAPSHOT, id, when: { version: at }, remove: true }],
    );
    if (ok) return true;
    const row = await documentsOf(ground.store).get(SNAPSHOT, id);
    if (row === undefined) return false;
    [at, leases] = [row.version, restoringIn(row)];
  }
}

interface Unused {
  readonly id: string;
  readonly version: number;
  readonly restoring: readonly Lease[];
}
