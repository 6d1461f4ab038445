/** Make a session where there is none. */
import { freeLease, type Lease } from "../../core/sessions/lease.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Applied } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import type { NewBranch } from "../../store/port/rows.js";
import type { StoreContext } from "../journal/store-context.js";
import {
  type HeadDoc,
  headOf,
  headRow,
  type LabelDoc,
  labelRow,
  leaseRow,
  newBranch,
  rootDigest,
} from "../records/rows.js";
import { inThisGeneration, orFound, refuseOtherAgent } from "./acquire-lease.js";
import { type SessionOptions, type Wanted, wanted } from "./session-options.js";

/** Makes a session, held by nobody, where there is none. */
export async function ensureSession(
  ctx: StoreContext,
  id: unknown,
  given: SessionOptions | undefined,
): Promise<SessionId> {
  const want = { ...wanted(ctx, id, given), parent: undefined };
  for (;;) {
    const row = (await ctx.store.session(want.id)).row;
    if (row !== undefined) {
      refuseOtherAgent(headOf(row), want);
      return want.id;
    }
    if ((await make(ctx, { ...want, leaseMs: undefined })).applied.ok) return want.id;
  }
}

/** Makes a session, held by nobody, with this label; refused where there is one. */
export async function makeSession(
  ctx: StoreContext,
  id: SessionId,
  {
    agent,
    label,
    alongside,
  }: {
    readonly agent: string | undefined;
    readonly label: Partial<LabelDoc>;
    readonly alongside: readonly DocChange[];
  },
): Promise<Applied> {
  const want = {
    ...wanted(ctx, id, agent === undefined ? {} : { agent }),
    leaseMs: undefined,
    parent: undefined,
  };
  return (await make(ctx, want, { label, alongside })).applied;
}

export async function madeLease(ctx: StoreContext, want: Wanted): Promise<Lease | undefined> {
  const { applied, lease } = await make(ctx, want);
  return applied.ok ? lease : undefined;
}

async function make(
  ctx: StoreContext,
  want: Omit<Wanted, "leaseMs"> & { readonly leaseMs: number | undefined },
  more: { readonly label?: Partial<LabelDoc>; readonly alongside?: readonly DocChange[] } = {},
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const branch = ctx.newBranchId();
  const head: HeadDoc = {
    id: want.id,
    branch,
    status: "in-progress",
    ...(want.agent === undefined ? undefined : { agent: want.agent }),
    createdAt: ctx.wallMs(),
    ...(want.parent === undefined ? undefined : { parent: want.parent }),
    ...(await inThisGeneration(ctx)),
  };
  const label: LabelDoc = {
    id: want.id,
    version: 1,
    ...(want.title === undefined ? undefined : { title: want.title }),
    tags: want.tags,
    archived: false,
    metadata: want.metadata,
    ...more.label,
  };
  const root = newBranch({ id: branch, forkPoint: null, prev: rootDigest(branch) });
  return begin(ctx, head, label, root, want.leaseMs, more.alongside);
}

/**
 * Makes a session, held by this process where it is given time for that. Its epoch goes on from one
 * of the same name that was deleted, so that late writers of that one stay fenced. Most names are
 * new: the store says when one is not.
 */
export async function begin(
  ctx: StoreContext,
  head: HeadDoc,
  label: LabelDoc,
  branch: NewBranch,
  leaseMs: number | undefined,
  alongside: readonly DocChange[] = [],
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const held =
    leaseMs === undefined
      ? freeLease
      : {
          owner: ctx.machine.self,
          until: (await ctx.now()) + leaseMs,
          ...(await inThisGeneration(ctx)),
        };
  for (let buried = 0; ; buried = (await ctx.store.session(head.id)).buried) {
    const lease = { ...held, epoch: buried + 1 };
    const change = {
      head: headRow(head),
      label: labelRow(label),
      lease: leaseRow(head.id, lease),
      branch,
    };
    const applied = await orFound(
      ctx,
      { session: head.id, when: { absent: true, buried }, ...change },
      // The id of its branch is nobody else's.
      (row) => row.head.text === change.head.text,
      alongside,
    );
    if (applied.ok || applied.why !== "epoch") return { applied, lease };
  }
}
