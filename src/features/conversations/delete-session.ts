/** Deleting a session, with those that its calls ran. */
import {
  checkName,
  type Place,
  parsePlace,
  type SessionId,
  sessionId,
} from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { Acted } from "../../engine/calls/deleted-calls.js";
import { ownedBy } from "../../engine/journal/checkpoint-lists.js";
import { cutBranches } from "../../engine/journal/cut-branches.js";
import { descendants } from "../../engine/journal/descendants.js";
import { once, type Receipt } from "../../engine/journal/receipts.js";
import { RecordOwners } from "../../engine/journal/record-owners.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { childrenOf } from "../../engine/lifecycle/deliver-inbox.js";
import { headOf } from "../../engine/records/rows.js";
import { contentsOf, snapshotsOf } from "../../engine/records/snapshot-record.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import type { KeyOptions } from "../../engine/util/validate.js";
import { flag, options, scopeOf } from "../../engine/util/validate.js";
import { yieldNowAndThen } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { SNAPSHOT } from "../../store/port/documents.js";
import type { BranchRow, SessionRow } from "../../store/port/rows.js";

export interface DeleteOptions extends KeyOptions {
  /** Only where it is this agent's; otherwise nothing is deleted. */
  readonly agent?: string;
  /** Only answers what would go, and what would be kept. */
  readonly dryRun?: boolean;
}

/** What deleting a session has removed, and what is kept for others. */
export interface DeleteReport {
  /** False where there is no such session. */
  readonly deleted: boolean;
  /** How many sessions go: it, and those that its calls ran. */
  readonly sessions: number;
  /**
   * How many checkpoints go with them. Those that forks share stay. Of a damaged session those that
   * can be read are counted.
   */
  readonly checkpoints: number;
  /** Forks for which a shared part is kept. */
  readonly keptFor: readonly string[];
  /** Sessions that its calls ran, and that went with it; absent where there were none. */
  readonly children?: readonly string[];
  /** Snapshots from which it can be brought back, in part or whole; absent where there are none. */
  readonly snapshots?: readonly string[];
}

type Answer = DeleteReport & JsonObject;
const ABSENT: Answer = { deleted: false, sessions: 0, checkpoints: 0, keptFor: [] };
const AT_ONCE = 200;

export async function deleteSession(
  ctx: StoreContext,
  id: string,
  o?: DeleteOptions,
): Promise<DeleteReport> {
  const known = sessionId(id);
  const fields = options(o, "sessions.delete", ["key", "agent", "dryRun"]);
  const { key, dryRun } = fields;
  const agent = scopeOf(fields, "agent");
  const only = agent === undefined ? undefined : checkName(agent, "agent");
  if (flag(dryRun, "dryRun")) {
    const survey = await surveyed(ctx, known, only);
    return survey === undefined ? ABSENT : withCheckpoints(ctx, known, survey.answer);
  }
  return once<Answer, DeleteReport>(
    ctx,
    { key, name: "sessions.delete", to: known, args: {} },
    async (receipt) => {
      const survey = await surveyed(ctx, known, only);
      if (survey !== undefined)
        return deleteIt(ctx, survey, await withCheckpoints(ctx, known, survey.answer), receipt);
      // Kept as well: a session that is made under the name later is another one.
      if (receipt.isKept) receipt.check(await ctx.store.apply([], receipt.docs(ABSENT)), 0);
      return ABSENT;
    },
    (answer) => answer,
  );
}

async function deleteIt(
  ctx: StoreContext,
  survey: Survey,
  answer: Answer,
  receipt?: Receipt<Answer>,
): Promise<DeleteReport> {
  const { row, children, own, family } = survey;
  const { id } = row;
  // First: whoever deletes again after a crash finds them by their parent.
  for (const child of children) {
    const theirs = await surveyed(ctx, child, undefined);
    if (theirs !== undefined) await deleteIt(ctx, theirs, theirs.answer);
  }
  const left = family.map((branch) =>
    branch.session === id ? { ...branch, owned: false, session: null } : branch,
  );
  const acted = await Acted.of(ctx, own, left);
  const isGone = await remove(ctx, row, { answer, receipt, acted });
  ctx.watchers.changed(id);
  // The session is deleted. What something damaged may need is freed by `gc`, once that is mended
  // or gone.
  await unlessDamaged(() => cutBranches(ctx, own, left, { dryRun: false }));
  return isGone ? answer : ABSENT;
}

interface Survey {
  readonly row: SessionRow & { readonly id: SessionId };
  readonly children: readonly SessionId[];
  readonly own: readonly BranchRow[];
  readonly family: readonly BranchRow[];
  readonly answer: Answer;
}

/** What would go, and what that would leave; undefined where there is no such session. */
async function surveyed(
  ctx: StoreContext,
  id: SessionId,
  only: string | undefined,
): Promise<Survey | undefined> {
  const { store } = ctx;
  const row = (await store.session(id)).row;
  if (row === undefined || (only !== undefined && row.head.agent !== only)) return undefined;
  const children = await childrenOf(ctx, id);
  const theirs = await Promise.all(children.map((child) => surveyed(ctx, child, undefined)));
  // One that is gone meanwhile does not go with this.
  const all = children.flatMap((child, i) =>
    theirs[i] === undefined ? [] : [child, ...(theirs[i].answer.children ?? [])],
  );
  const own = await store.branches({ kind: "session", session: id });
  const family = await descendants(ctx, own);
  const below = theirs.flatMap((their) => their?.answer ?? []);
  const snapshots = [
    ...new Set([
      ...(await snapshotsInto(ctx, row, own)),
      ...below.flatMap((one) => one.snapshots ?? []),
    ]),
  ];
  const goes = new Set<string>([id, ...all]);
  const sharing = [
    ...family.flatMap(({ session }) => session ?? []),
    ...below.flatMap(({ keptFor: theirKept }) => theirKept),
  ];
  const keptFor = [...new Set(sharing.filter((session) => !goes.has(session)))].sort();
  const answer: Answer = {
    deleted: true,
    sessions: goes.size,
    checkpoints: 0,
    keptFor,
    ...(all.length === 0 ? undefined : { children: all }),
    ...(snapshots.length === 0 ? undefined : { snapshots }),
  };
  return { row: { ...row, id }, children, own, family, answer };
}

/**
 * Counts the checkpoints that go with sessions: those that belong to one of them, and that no other
 * session inherits.
 */
async function withCheckpoints(ctx: StoreContext, id: SessionId, answer: Answer): Promise<Answer> {
  const goes = [id, ...(answer.children ?? [])];
  const owners = new RecordOwners(ctx.store);
  const recordOwners = new RecordOwners(ctx.store, new Set(goes));
  let checkpoints = 0;
  for (const one of goes) {
    await unlessDamaged(async () => {
      const row = (await ctx.store.session(one)).row;
      if (row === undefined) return;
      const newer = new Set(
        (await ctx.store.branches({ kind: "session", session: one }))
          .slice(0, -1)
          .map(({ id: branch }) => branch),
      );
      for await (const checkpoint of ownedBy(ctx, headOf(row), owners, {
        all: true,
        from: undefined,
        atOnce: AT_ONCE,
      })) {
        await yieldNowAndThen();
        const place = parsePlace(checkpoint.id) as Place;
        if ((await recordOwners.of(place.branch, place.seq)) === undefined) checkpoints += 1;
        // On its oldest branch, and on the past that this goes back to, all that is older stays as
        // well.
        else if (!newer.has(place.branch)) break;
      }
    });
  }
  return { ...answer, checkpoints };
}

/**
 * Ends the session that was there, and no other of its name: one may be made while this waits for
 * an answer. Answers whether it was there to the end.
 */
async function remove(
  { store }: StoreContext,
  first: SessionRow,
  {
    answer,
    receipt,
    acted,
  }: {
    readonly answer: Answer;
    readonly receipt: Receipt<Answer> | undefined;
    readonly acted: Acted;
  },
): Promise<boolean> {
  let isGone = false;
  for (let row: SessionRow | undefined = first; ; row = (await store.session(first.id)).row) {
    const there = row?.no === first.no ? row : undefined;
    if (there === undefined && receipt?.isKept !== true) return false;
    const removal =
      there === undefined
        ? []
        : [{ session: there.id, when: { epoch: there.lease.epoch }, remove: true as const }];
    const kept = await acted.docs();
    const applied = await store.apply(removal, [
      ...kept,
      ...(receipt?.docs(there === undefined ? ABSENT : answer) ?? []),
    ]);
    isGone = there !== undefined;
    if (applied.ok) break;
    receipt?.check(applied, removal.length + kept.length);
    // It was taken in between: by whoever, it goes.
  }
  await acted.keepMore();
  return isGone;
}

/** Snapshots that point into a session's branches. */
async function snapshotsInto(
  ctx: StoreContext,
  { head: { agent } }: SessionRow,
  own: readonly BranchRow[],
): Promise<readonly string[]> {
  const { store } = ctx;
  const pinning = await unlessDamaged(async () => {
    const docs = new Set<number>();
    for (const { id: branch } of own)
      for (const { doc } of await documentsOf(store).pins(branch)) docs.add(doc);
    return docs;
  });
  if (pinning?.size === 0 || agent == null) return [];
  const found: string[] = [];
  for (const row of await snapshotsOf(store, agent))
    if (pinning?.has(row.no) ?? (await pointsInto(ctx, row.id, own))) found.push(row.id);
  return found;
}

/**
 * Where a damaged snapshot hides what is pinned, those that are sound say themselves where they
 * point.
 */
async function pointsInto(
  { store }: StoreContext,
  snapshot: string,
  own: readonly BranchRow[],
): Promise<boolean> {
  const row = await documentsOf(store).get(SNAPSHOT, snapshot);
  const contents = row && (await unlessDamaged(() => contentsOf(row)));
  return (
    contents?.sessions.some(({ place }) => own.some(({ id }) => id === place?.branch)) ?? false
  );
}
