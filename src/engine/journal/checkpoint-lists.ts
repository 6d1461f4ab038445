/** Lists of checkpoints: those of one session, and those of an agent's sessions or of all. */
import type { Checkpoint } from "../../core/journal/checkpoint.js";
import { digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  type BranchId,
  checkName,
  MAX_SEQ,
  type Place,
  parsePlace,
  placeId,
} from "../../core/values/ids.js";
import type { BranchRow } from "../../store/port/rows.js";
import { type HeadDoc, headOf } from "../records/rows.js";
import { sessionRows } from "../records/session-rows.js";
import {
  cursorAt,
  type Damaged,
  invalid,
  limitOf,
  numberOf,
  oneOf,
  options,
  type Page,
} from "../util/validate.js";
import type { OwnedOptions } from "./journal.js";
import { RecordOwners } from "./record-owners.js";
import type { StoreContext } from "./store-context.js";

export interface CheckpointListOptions {
  readonly limit?: number;
  readonly cursor?: string;
  /**
   * `all`: also checkpoints on branches that a session has left by rewinding. `current` by default.
   */
  readonly branches?: "current" | "all";
}

export interface CheckpointFilter extends CheckpointListOptions {
  /** Only checkpoints of this agent's sessions. */
  readonly agent?: string;
}

export interface CheckpointPage extends Page<Checkpoint> {
  /**
   * Sessions of this page whose checkpoints cannot all be shown; absent where there are none.
   * `verify` says more.
   */
  readonly damaged?: readonly Damaged[];
}

interface Walk {
  readonly all: boolean;
  readonly from: Place | undefined;
  /** How many saves are read at a time. */
  readonly atOnce: number;
}

/** How many sessions one page looks at, however few checkpoints they have. */
const SESSIONS = 1_000;
const SESSIONS_AT_ONCE = 50;

/** Lists the checkpoints of one session, newest first. */
export async function listOfSession(
  ctx: StoreContext,
  head: HeadDoc,
  o: CheckpointListOptions | undefined,
): Promise<Page<Checkpoint>> {
  const { limit, cursor, branches } = options(o, "checkpoints.list", [
    "limit",
    "cursor",
    "branches",
  ]);
  const most = limitOf(limit, "limit");
  const all = isAll(branches);
  const from = cursor === undefined ? undefined : placeIn(cursor);
  const items: Checkpoint[] = [];
  for await (const checkpoint of checkpointsOf(ctx, head, {
    all,
    from,
    atOnce: all ? 100 : most + 1,
  })) {
    if (items.length === most) return { items, next: checkpoint.id };
    items.push(checkpoint);
  }
  return { items };
}

const isAll = (branches: unknown): boolean =>
  oneOf(branches, "branches", ["current", "all"]) === "all";

/**
 * Lists the checkpoints of many sessions: the sessions in the order of `sessions.list`, and newest
 * first within each. Each checkpoint comes once, with the session that owns it.
 */
export async function listOfAll(
  ctx: StoreContext,
  filter: CheckpointFilter,
): Promise<CheckpointPage> {
  const { agent, limit, cursor, branches } = options(filter, "checkpoints.list", [
    "agent",
    "limit",
    "cursor",
    "branches",
  ]);
  const most = limitOf(limit, "limit");
  const all = isAll(branches);
  const of = agent === undefined ? {} : { agent: checkName(agent, "agent") };
  const list = JSON.stringify([of.agent ?? null, all]);
  const { cursorKey } = ctx.store;
  const start = cursor === undefined ? undefined : startOf(cursor, list, cursorKey);
  const items: Checkpoint[] = [];
  const damaged: Damaged[] = [];
  const page = (next?: Start): CheckpointPage => ({
    items,
    ...(damaged.length === 0 ? undefined : { damaged }),
    ...(next === undefined ? undefined : { next: cursorOf(next, list, cursorKey) }),
  });
  const recordOwners = new RecordOwners(ctx.store);
  let looked = 0;
  for await (const row of sessionRows(
    ctx.store,
    { ...of, before: start && start.no + 1 },
    SESSIONS_AT_ONCE,
  )) {
    if (looked === SESSIONS) return page({ no: row.no });
    looked += 1;
    try {
      const from = row.no === start?.no ? start.place : undefined;
      for await (const checkpoint of ownedBy(ctx, headOf(row), recordOwners, {
        all,
        from,
        atOnce: most + 1 - items.length,
      })) {
        if (items.length === most) return page({ no: row.no, place: parsePlace(checkpoint.id) });
        items.push(checkpoint);
      }
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
      // The session may have been deleted a moment ago.
      if ((await ctx.store.session(row.id)).row !== undefined)
        damaged.push({ id: row.id, message: error.message });
    }
  }
  return page();
}

/** Yields the checkpoints of a session that belong to it (ARCHITECTURE, "Owner"). */
export async function* ownedBy(
  ctx: StoreContext,
  head: HeadDoc,
  recordOwners: RecordOwners,
  { from, ...walk }: Walk,
): AsyncGenerator<Checkpoint> {
  // The session may have left the branch of the cursor since: then all is gone over, and what came
  // before the cursor is passed over.
  const isThere = from !== undefined && (await isOn(ctx, head, from, walk.all));
  const begins = isThere ? from : undefined;
  for await (const checkpoint of checkpointsOf(ctx, head, {
    ...walk,
    from: begins,
    recordOwners,
    own: true,
  })) {
    // On a past that is shared, all that is older belongs to others too.
    if (checkpoint.sessionId !== head.id) return;
    if (isThere || from === undefined || checkpoint.seq <= from.seq) yield checkpoint;
  }
}

async function isOn(
  ctx: StoreContext,
  { id, branch }: HeadDoc,
  place: Place,
  all: boolean,
): Promise<boolean> {
  if (all)
    return (
      (await branchWith(ctx, await ctx.store.branches({ kind: "session", session: id }), place)) !==
      undefined
    );
  return isAlong(ctx, branch, place);
}

/** Tells whether a branch's past goes through a place. */
const isAlong = async (
  { journal }: StoreContext,
  branch: BranchId,
  place: Place,
): Promise<boolean> => (await journal.past(branch).branchAt(place.seq)) === place.branch;

/**
 * Where to look, and whether only at what the session owns: branches of others are not gone into.
 */
interface Walking extends Walk, OwnedOptions {}

function checkpointsOf(
  ctx: StoreContext,
  head: HeadDoc,
  walk: Walking,
): AsyncGenerator<Checkpoint> {
  return walk.all ? onAllBranches(ctx, head, walk) : onPast(ctx, head, walk);
}

async function* onPast(
  { journal }: StoreContext,
  { id, branch }: HeadDoc,
  { from, atOnce, ...owned }: Walking,
): AsyncGenerator<Checkpoint> {
  const past = journal.past(branch);
  if (from !== undefined && (await past.branchAt(from.seq)) !== from.branch) throw strange(from);
  yield* journal.checkpoints(past, id, from?.seq ?? MAX_SEQ, atOnce, owned);
}

async function* onAllBranches(
  ctx: StoreContext,
  { id: session }: HeadDoc,
  { from, atOnce, ...owned }: Walking,
): AsyncGenerator<Checkpoint> {
  const { journal, store } = ctx;
  const own = await store.branches({ kind: "session", session });
  const last = own.at(-1);
  if (last === undefined) return;
  // The oldest branch goes on into the past it shares with others, if it is a fork's; of the others
  // only their own part is shown.
  const start = from === undefined ? 0 : await branchWith(ctx, own, from);
  if (start === undefined) throw strange(from as Place);
  for (const [i, { id }] of own.slice(start).entries()) {
    const upTo = (i === 0 ? from?.seq : undefined) ?? MAX_SEQ;
    for await (const checkpoint of journal.checkpoints(
      journal.past(id),
      session,
      upTo,
      atOnce,
      owned,
    )) {
      if (id !== last.id && parsePlace(checkpoint.id)?.branch !== id) break;
      yield checkpoint;
    }
  }
}

/** Which of a session's branches shows a place. */
async function branchWith(
  ctx: StoreContext,
  own: readonly BranchRow[],
  place: Place,
): Promise<number | undefined> {
  const at = own.findIndex(
    ({ id, forkPoint }) => id === place.branch && place.seq > (forkPoint?.seq ?? 0),
  );
  if (at !== -1) return at;
  const oldest = own.length - 1;
  const last = own[oldest];
  return last !== undefined && (await isAlong(ctx, last.id, place)) ? oldest : undefined;
}

// ---- cursors

function placeIn(cursor: unknown): Place {
  const place = typeof cursor === "string" ? parsePlace(cursor) : undefined;
  if (place === undefined) throw foreign(cursor);
  return place;
}

/** Where a page begins: at a session's number, and at a place of that session. */
interface Start {
  readonly no: number;
  readonly place?: Place | undefined;
}

/** A cursor that was changed, or that comes from a list with another filter, has another check. */
function cursorOf({ no, place }: Start, list: string, key: string | undefined): string {
  const text = [
    cursorAt(no, "c", key),
    ...(place === undefined ? [] : [placeId(place.branch, place.seq)]),
  ].join(".");
  return `${text}.${digest(`${text}\n${list}`).slice(0, 12)}`;
}

function startOf(cursor: unknown, list: string, key: string | undefined): Start {
  const found =
    typeof cursor === "string"
      ? /^(c[A-Za-z0-9_-]+)(?:\.([^.]+))?\.[A-Za-z0-9_-]{12}$/.exec(cursor)
      : null;
  if (found === null) throw foreign(cursor);
  const start = { no: numberOf(found[1], "c", key), place: parsePlace(found[2] ?? "") };
  if (cursor !== cursorOf(start, list, key)) throw foreign(cursor);
  return start;
}

const foreign = (cursor: unknown): HoldfastError =>
  invalid(
    "cursor",
    `${typeof cursor === "string" ? quote(cursor) : "it"} did not come from this list`,
  );
const strange = ({ branch, seq }: Place): HoldfastError => foreign(placeId(branch, seq));
