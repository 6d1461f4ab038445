/** Make a session where there is none. */
import { freeLease, type Lease } from "../../core/sessions/lease.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Applied } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import type { NewLine } from "../../store/port/rows.js";
import type { Ground } from "../journal/ground.js";
import {
  type HeadDoc,
  headOf,
  headRow,
  type LabelDoc,
  labelRow,
  leaseRow,
  newLine,
  rootDigest,
} from "../records/rows.js";
import { inThisIncarnation, orFound, refuseOtherAgent } from "./acquire-lease.js";
import { type SessionOptions, type Wanted, wanted } from "./session-options.js";

/** Makes a session, held by nobody, where there is none. */
export async function ensureSession(
  ground: Ground,
  id: unknown,
  given: SessionOptions | undefined,
): Promise<SessionId> {
  const want = { ...wanted(ground, id, given), parent: undefined };
  for (;;) {
    const row = (await ground.store.session(want.id)).row;
    if (row !== undefined) {
      refuseOtherAgent(headOf(row), want);
      return want.id;
    }
    if ((await make(ground, { ...want, leaseMs: undefined })).applied.ok) return want.id;
  }
}

/** Makes a session, held by nobody, with this label; refused where there is one. */
export async function makeSession(
  ground: Ground,
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
    ...wanted(ground, id, agent === undefined ? {} : { agent }),
    leaseMs: undefined,
    parent: undefined,
  };
  return (await make(ground, want, { label, alongside })).applied;
}

export async function madeLease(ground: Ground, want: Wanted): Promise<Lease | undefined> {
  const { applied, lease } = await make(ground, want);
  return applied.ok ? lease : undefined;
}

async function make(
  ground: Ground,
  want: Omit<Wanted, "leaseMs"> & { readonly leaseMs: number | undefined },
  more: { readonly label?: Partial<LabelDoc>; readonly alongside?: readonly DocChange[] } = {},
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const line = ground.newLineId();
  const head: HeadDoc = {
    id: want.id,
    line,
    status: "in-progress",
    ...(want.agent === undefined ? undefined : { agent: want.agent }),
    createdAt: ground.wallMs(),
    ...(want.parent === undefined ? undefined : { parent: want.parent }),
    ...(await inThisIncarnation(ground)),
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
  const root = newLine({ id: line, origin: null, prev: rootDigest(line) });
  return begin(ground, head, label, root, want.leaseMs, more.alongside);
}

/**
 * Makes a session, held by this process where it is given time for that. Its epoch goes on from one
 * of the same name that was deleted, so that late writers of that one stay fenced. Most names are
 * new: the store says when one is not.
 */
export async function begin(
  ground: Ground,
  head: HeadDoc,
  label: LabelDoc,
  line: NewLine,
  leaseMs: number | undefined,
  alongside: readonly DocChange[] = [],
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const held =
    leaseMs === undefined
      ? freeLease
      : {
          owner: ground.machine.self,
          until: (await ground.now()) + leaseMs,
          ...(await inThisIncarnation(ground)),
        };
  for (let buried = 0; ; buried = (await ground.store.session(head.id)).buried) {
    const lease = { ...held, epoch: buried + 1 };
    const change = {
      head: headRow(head),
      label: labelRow(label),
      lease: leaseRow(head.id, lease),
      line,
    };
    const applied = await orFound(
      ground,
      { session: head.id, when: { absent: true, buried }, ...change },
      // The id of its line is nobody else's.
      (row) => row.head.text === change.head.text,
      alongside,
    );
    if (applied.ok || applied.why !== "epoch") return { applied, lease };
  }
}
