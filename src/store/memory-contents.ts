/** All that a store in memory holds, and how one change is made to it, or refused. */
import { firstSeq, type Save } from "../core/journal/save.js";
import type { Digest } from "../core/values/digest.js";
import type { Place } from "../core/values/ids.js";
import type { Change, NewSave, Refusal } from "./port/changes.js";
import type { Doc, DocChange, Pin } from "./port/documents.js";
import { drainedText, type InboxMessage } from "./port/inbox.js";
import type { BranchRow, SessionRow } from "./port/rows.js";

export interface Kept {
  readonly save: Save;
  readonly refs: readonly Digest[];
}

export interface KeptDoc extends Doc {
  readonly no: number;
}

interface Branch {
  row: BranchRow;
  /** By rising number. */
  saves: Kept[];
}

/** All that there is. Every change is noted, so that a refused apply is taken back whole (PORT-1). */
export class Contents {
  readonly sessions = new Map<string, SessionRow>();
  readonly buried = new Map<string, number>();
  readonly branches = new Map<string, Branch>();
  readonly inboxes = new Map<string, Map<string, InboxMessage & { readonly drained: boolean }>>();
  readonly blobs = new Map<Digest, Uint8Array>();
  readonly docs = new Map<string, KeptDoc>();
  generation = "";
  nextSession = 1;
  nextBranch = 1;
  nextDoc = 1;
  #undo: (() => void)[] = [];

  put<K, V>(map: Map<K, V>, key: K, value: V): void {
    const before = map.get(key);
    const had = map.has(key);
    map.set(key, value);
    this.#undo.push(() => (had ? map.set(key, before as V) : map.delete(key)));
  }

  remove<K, V>(map: Map<K, V>, key: K): void {
    const before = map.get(key);
    if (!map.delete(key)) return;
    this.#undo.push(() => map.set(key, before as V));
  }

  push(branch: Branch, kept: Kept): void {
    branch.saves.push(kept);
    this.#undo.push(() => branch.saves.pop());
  }

  keep(): void {
    this.#undo = [];
  }

  takeBack(): void {
    for (const undo of this.#undo.reverse()) undo();
    this.#undo = [];
  }
}

export function applyOne(into: Contents, change: Change): Refusal | undefined {
  const {
    session,
    when,
    branch,
    loose,
    claims = [],
    saves = [],
    head,
    label,
    lease,
    remove,
  } = change;
  const row = into.sessions.get(session);
  if (when.absent) {
    if (row !== undefined) return "exists";
    if (when.buried !== undefined && when.buried !== (into.buried.get(session) ?? 0))
      return "epoch";
    if (head !== undefined && label !== undefined && lease !== undefined)
      into.put(into.sessions, session, { no: into.nextSession++, id: session, head, label, lease });
    else if (head ?? label ?? lease ?? branch)
      throw new TypeError("a new session needs head, label and lease");
  } else {
    if (row === undefined) return "absent";
    if (when.epoch !== undefined && row.lease.epoch !== when.epoch) return "epoch";
    if (when.until !== undefined && row.lease.until !== when.until) return "until";
    if (when.version !== undefined && row.label.version !== when.version) return "version";
    into.put(into.sessions, session, {
      ...row,
      head: head ?? row.head,
      label: label ?? row.label,
      lease: lease ?? row.lease,
    });
  }
  const known = loose && into.branches.get(loose.id)?.row;
  if (known !== undefined && (known.owned || known.text !== loose?.text)) return "branch";
  const begun = branch ?? (known === undefined ? loose : undefined);
  if (begun !== undefined) {
    const { forkPoint } = begun;
    if (
      forkPoint !== null &&
      !(branch === undefined ? saveAt(into, forkPoint) !== undefined : canBeginAt(into, forkPoint))
    )
      return "forkPoint";
    const owner = branch === undefined ? { owned: false, session: null } : { owned: true, session };
    into.put(into.branches, begun.id, {
      row: { ...begun, no: into.nextBranch++, ...owner },
      saves: [],
    });
  }
  for (const id of claims) {
    const claimed = into.branches.get(id);
    if (claimed === undefined || claimed.row.owned) return "branch";
    into.put(into.branches, id, { ...claimed, row: { ...claimed.row, owned: true, session } });
  }
  for (const fresh of saves) if (!append(into, fresh)) return "tail";
  changeInbox(into, change);
  if (remove) bury(into, session);
  return undefined;
}

export function applyDoc(
  into: Contents,
  { kind, id, when, put, remove }: DocChange,
): Refusal | undefined {
  const key = docKey(kind, id);
  const there = into.docs.get(key);
  if (when.absent && there !== undefined) return "exists";
  if (!when.absent && there === undefined) return "absent";
  if (when.version !== undefined && there?.version !== when.version) return "version";
  if (remove) into.remove(into.docs, key);
  if (put === undefined) return undefined;
  if (!put.pins.every((place) => saveAt(into, place) !== undefined)) return "forkPoint";
  const known = remove ? undefined : there;
  into.put(into.docs, key, {
    ...put,
    kind,
    id,
    no: known?.no ?? into.nextDoc++,
    pins: known?.pins ?? put.pins,
  });
  return undefined;
}

export const docKey = (kind: string, id: string): string => `${kind}\0${id}`;

export const pinsOf = ({ docs }: Contents, branch: string): readonly Pin[] =>
  [...docs.values()].flatMap(({ no, pins }) =>
    pins.flatMap((pin) => (pin.branch === branch ? { seq: pin.seq, doc: no } : [])),
  );

function changeInbox(
  into: Contents,
  { session, drained = [], reworded = [], forgets }: Change,
): void {
  const inbox = into.inboxes.get(session);
  if (inbox === undefined) return;
  for (const { id, text } of reworded) {
    const message = inbox.get(id);
    if (message?.drained === false) into.put(inbox, id, { ...message, text });
  }
  for (const id of drained) {
    const message = inbox.get(id);
    if (message?.drained === false)
      into.put(inbox, id, { ...message, drained: true, text: drainedText(message.text) });
  }
  if (forgets)
    for (const [id, message] of inbox)
      if (message.drained) into.put(inbox, id, { ...message, text: "" });
}

function append(into: Contents, { save, refs, blobs }: NewSave): boolean {
  const branch = into.branches.get(save.branch);
  if (branch === undefined) return false;
  const last = branch.saves.at(-1)?.save;
  const tail = last?.seq ?? branch.row.forkPoint?.seq ?? 0;
  if (tail !== firstSeq(save) - 1)
    return branch.saves[indexOf(branch.saves, save.seq)]?.save.check === save.check;
  into.push(branch, { save, refs });
  for (const { digest, bytes } of blobs)
    if (!into.blobs.has(digest)) into.put(into.blobs, digest, bytes.slice());
  return true;
}

function bury(into: Contents, session: string): void {
  const row = into.sessions.get(session) as SessionRow;
  into.remove(into.sessions, session);
  into.remove(into.inboxes, session);
  into.put(into.buried, session, row.lease.epoch);
  for (const [id, branch] of into.branches)
    if (branch.row.session === session)
      into.put(into.branches, id, {
        ...branch,
        row: { ...branch.row, owned: false, session: null },
      });
}

function canBeginAt(into: Contents, place: Place): boolean {
  const save = saveAt(into, place);
  return (
    save !== undefined &&
    (save.mark !== null || pinsOf(into, place.branch).some(({ seq }) => seq === place.seq))
  );
}

function saveAt(into: Contents, { branch, seq }: Place): Save | undefined {
  const saves = into.branches.get(branch)?.saves ?? [];
  const save = saves[indexOf(saves, seq)]?.save;
  return save?.seq === seq ? save : undefined;
}

/** The place of the first save whose last record has this number or a higher one. */
export function indexOf(saves: readonly Kept[], seq: number): number {
  let low = 0;
  let high = saves.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((saves[middle] as Kept).save.seq < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}
