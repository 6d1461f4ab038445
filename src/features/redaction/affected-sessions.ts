/**
 * How far a redaction reaches: the branches of a session and what they go back to, who shares what
 * is changed, and which calls are not over.
 */
import { type BranchId, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import { descendants, pastOfSession } from "../../engine/journal/descendants.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import type { BranchRow } from "../../store/port/rows.js";

/** A branch, as far as the session goes along it. */
export interface Stretch {
  readonly branch: BranchId;
  readonly row: BranchRow;
  readonly from: number;
  readonly to: number;
  /** The number of the newest branch that begins on it. */
  readonly forks: number;
  /** Of another session, which does not go back to what is changed: nothing is edited here. */
  readonly isLookedAt?: boolean;
}

/**
 * Branches that begin on others come before those: what is copied from a record stands behind it.
 */
export async function stretchesOf(
  ctx: StoreContext,
  session: SessionId,
): Promise<readonly Stretch[]> {
  const stretches: Stretch[] = [];
  for (const { row, to } of (await pastOfSession(ctx, session)).values())
    stretches.push(await stretch(ctx, row, 0, to));
  return stretches.toSorted(newestFirst);
}

async function stretch(
  { store }: StoreContext,
  row: BranchRow,
  after: number,
  to: number,
): Promise<Stretch> {
  const forks = (await store.branches({ kind: "forks", of: row.id }))[0]?.no ?? 0;
  return { branch: row.id, row, from: Math.max(after, row.forkPoint?.seq ?? 0) + 1, to, forks };
}

const newestFirst = (a: Stretch, b: Stretch): number => b.row.no - a.row.no;

/** Who goes back to a record that is changed. */
export interface Shared {
  /** The other sessions that do. */
  readonly sharers: readonly SessionId[];
  /** Whether a place does, be it of a session that was deleted. */
  readonly by: (place: Place) => boolean;
  /** What these, and other forks of the session, said behind it. Newest branches first. */
  readonly others: readonly Stretch[];
}

/** `first`: the lowest number that is changed on each branch. */
export async function sharedBy(
  ctx: StoreContext,
  session: SessionId,
  stretches: readonly Stretch[],
  first: ReadonlyMap<string, number>,
): Promise<Shared> {
  const branches = stretches.flatMap(({ row }) =>
    first.has(row.id) || row.session === session ? [row] : [],
  );
  const along = new Map(stretches.map(({ branch, to }) => [branch, to]));
  const family = new Map((await descendants(ctx, branches)).map((row) => [row.id as string, row]));
  const sharers = new Set<SessionId>();
  const others: Stretch[] = [];
  for (const row of family.values()) {
    const shares = goesBackTo(family, row.id, first);
    if (row.session !== null && row.session !== session && shares)
      sharers.add(row.session as SessionId);
    const to = along.get(row.id) ?? 0;
    // A fork of the session is looked at in any case: a base may hold what was pruned since.
    const isFork = to === 0 && comesFrom(family, row, session);
    if (to < MAX_SEQ && (shares || isFork))
      others.push({
        ...(await stretch(ctx, row, to, MAX_SEQ)),
        isLookedAt: !shares,
      });
  }
  return {
    sharers: [...sharers].toSorted(),
    by: ({ branch, seq }) => goesBackTo(family, branch, first, seq),
    others: others.toSorted(newestFirst),
  };
}

function comesFrom(
  family: ReadonlyMap<string, BranchRow>,
  branch: BranchRow,
  session: SessionId,
): boolean {
  for (
    let row: BranchRow | undefined = branch;
    row !== undefined;
    row = row.forkPoint === null ? undefined : family.get(row.forkPoint.branch)
  )
    if (row.session === session) return true;
  return false;
}

function goesBackTo(
  family: ReadonlyMap<string, BranchRow>,
  id: string,
  first: ReadonlyMap<string, number>,
  end = MAX_SEQ,
): boolean {
  let to = end;
  for (
    let row = family.get(id);
    row !== undefined;
    row = row.forkPoint === null ? undefined : family.get(row.forkPoint.branch)
  ) {
    if ((first.get(row.id) ?? Number.POSITIVE_INFINITY) <= to) return true;
    to = row.forkPoint?.seq ?? 0;
  }
  return false;
}

/** Calls that are not over, by the place of the reply that asks for them, and by themselves. */
export class OpenCalls {
  readonly ids = new Set<string>();
  readonly #byReply = new Map<string, Map<number, string>>();

  static async of(ctx: StoreContext, sessions: readonly SessionId[]): Promise<OpenCalls> {
    const calls = new OpenCalls();
    for (const session of sessions) await calls.#add(ctx, session);
    return calls;
  }

  async #add(ctx: StoreContext, session: SessionId): Promise<void> {
    const present = await ctx.journal.present(session);
    if (present === undefined) return;
    const { open } = await ctx.loader.inFlightAt(present);
    if (open.length === 0) return;
    const past = ctx.journal.pastOf(present);
    for (const { id, call } of open) {
      this.ids.add(id);
      const branch = call && (await past.branchAt(call[0]));
      if (call === undefined || branch === undefined) continue;
      const place = `${branch}-${call[0]}`;
      this.#byReply.set(
        place,
        (this.#byReply.get(place) ?? new Map<number, string>()).set(call[1], id),
      );
    }
  }

  at(branch: string, reply: number, index: number): string | undefined {
    return this.#byReply.get(`${branch}-${reply}`)?.get(index);
  }
}
