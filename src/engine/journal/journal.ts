/**
 * Reading journals: which branches a branch goes back to, its end, and its checkpoints. Everything
 * that is handed on has been verified.
 */
import { type Checkpoint, checkpointOf } from "../../core/journal/checkpoint.js";
import { open } from "../../core/journal/open-save.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap, priorOf } from "../../core/journal/save-note.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type BranchId, MAX_SEQ, type Place, type SessionId } from "../../core/values/ids.js";
import { noTailAnchors, type TailAnchors } from "../../store/port/copies.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow, SessionRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import { type BranchDoc, branchOf, type HeadDoc, headOf } from "../records/rows.js";
import { FIRST_BRANCHES, lost, Past, type Segment } from "./past.js";
import { RecordOwners } from "./record-owners.js";
import { checkAnchor, hole, SaveReader } from "./walk.js";

/** A save whose sections were not read, verified. */
export interface Read {
  readonly save: Save;
  readonly digest: Digest;
}

/** A checkpoint, its save, and the past it stands on. */
export interface CheckpointRead extends Read {
  readonly checkpoint: Checkpoint;
  readonly session: string;
  readonly past: Past;
}

/** Where a session stands: what it says of itself, the branch it is on, and where that ends. */
export interface Standpoint {
  readonly row: SessionRow;
  readonly head: HeadDoc;
  readonly branch: BranchDoc;
  readonly tail: Read | undefined;
}

export interface OwnedOptions {
  readonly recordOwners?: RecordOwners | undefined;
  /** End at the first branch that belongs to another session than the one that asks. */
  readonly own?: boolean;
}

export class Journal {
  readonly #store: Store;
  /** The saves of branches. All reading of saves goes through it. */
  readonly saves: SaveReader;
  readonly #docs = new Map<string, BranchDoc>();
  #anchors: TailAnchors | Promise<TailAnchors> | undefined;
  #hasListed = false;
  readonly #branches = {
    read: (branch: BranchId, limit: number) => this.#pastRows(branch, limit),
    verified: (row: BranchRow) => this.#remember(branchOf(row)),
  };

  constructor(store: Store) {
    this.#store = store;
    this.saves = new SaveReader(store, () => this.#knownEnds());
  }

  // ---- branches

  /** A branch and who owns it now, or undefined. */
  async branch(
    id: BranchId,
  ): Promise<{ readonly doc: BranchDoc; readonly session: string | null } | undefined> {
    const row = (await this.#store.branches(oneBranch(id)))[0];
    return row && { doc: this.#remember(branchOf(row)), session: row.session };
  }

  #remember(doc: BranchDoc): BranchDoc {
    if (this.#docs.size > 10_000) this.#docs.clear();
    this.#docs.set(doc.id, doc);
    return doc;
  }

  /** The past of a branch, up to a record. Nothing is read before the caller asks it. */
  past(branch: BranchId, to = MAX_SEQ): Past {
    return new Past(this.#branches, { branch, seq: to });
  }

  /** The same of the branch that a session is on. */
  pastOf({ row, branch: { id, forkPoint } }: Pick<Standpoint, "row" | "branch">): Past {
    const own = { branch: id, from: (forkPoint?.seq ?? 0) + 1, to: MAX_SEQ, session: row.id };
    return new Past(this.#branches, forkPoint, { known: [own] });
  }

  /**
   * Most branches begin nowhere else, and that never changes: then there is only their owner to
   * look for.
   */
  async #pastRows(branch: BranchId, limit: number): Promise<readonly BranchRow[]> {
    if (this.#docs.get(branch)?.forkPoint !== null)
      return this.#store.branches({ kind: "past", id: branch, limit: limit });
    const row = (await this.#store.branches(oneBranch(branch)))[0];
    return row === undefined ? [] : [row];
  }

  // ---- ends and places

  /** Where a session stands, in one look; or undefined. */
  async present(id: SessionId): Promise<Standpoint | undefined> {
    const anchors = await this.#knownEnds();
    const found = await this.#store.session(id, "end");
    if (found.row === undefined) return undefined;
    const head = headOf(found.row);
    if (found.branch === undefined) throw lost(head.branch);
    const branch = this.#docs.get(head.branch) ?? this.#remember(branchOf(found.branch));
    checkAnchor(anchors, head.branch, found.end);
    return { row: found.row, head, branch, tail: found.end && read(found.end) };
  }

  /** The last save of a branch, without its sections, or undefined where it has none. */
  async tail(branch: BranchId, ends?: TailAnchors): Promise<Read | undefined> {
    const anchors = ends ?? (await this.#knownEnds());
    const save = await this.saves.last(branch);
    checkAnchor(anchors, branch, save);
    return save && read(save);
  }

  /**
   * Where branches ended when their anchors were written. Read before the ends themselves: those
   * only move on.
   */
  #knownEnds(): TailAnchors | Promise<TailAnchors> {
    if (this.#store.copies === undefined) return noTailAnchors;
    this.#anchors ??= this.#store.copies.anchors().then(
      (anchors) => {
        this.#anchors = anchors;
        return anchors;
      },
      (error: unknown) => {
        this.#anchors = undefined;
        throw error;
      },
    );
    return this.#anchors;
  }

  /** Whether a branch had gone further than a record when its anchor was written. */
  async isBehindAnchor(branch: BranchId, seq: number): Promise<boolean> {
    return ((await this.#knownEnds()).of(branch)?.seq ?? 0) > seq;
  }

  /**
   * The same for a few branches, for whoever lists once: all there are need not be kept in mind for
   * that.
   */
  async endsOf(branches: readonly BranchId[]): Promise<TailAnchors> {
    const isFirst = !this.#hasListed;
    this.#hasListed = true;
    const { copies } = this.#store;
    return copies !== undefined && isFirst && this.#anchors === undefined
      ? copies.anchors(new Set(branches))
      : this.#knownEnds();
  }

  /**
   * Branches were cut, and came back another way: what was known of their ends is asked for anew.
   */
  forgetEnds(): void {
    this.#anchors = undefined;
  }

  /** The save that ends at exactly this place, or undefined. */
  async saveAt({ branch, seq }: Place): Promise<Read | undefined> {
    const save = await this.saves.holding(branch, seq);
    if (save !== undefined && isGap(save) && firstSeq(save) <= seq) return undefined;
    // Verified even where it is not the one: a save whose number was changed must not make another
    // seem never to have been.
    const found = save && !isGap(save) ? read(save) : undefined;
    if (save === undefined || firstSeq(save) > seq) await this.checkAbsent({ branch, seq });
    return save?.seq === seq ? found : undefined;
  }

  /**
   * Throws where a record that no save holds must have been there: one behind it is on the same
   * branch.
   */
  async checkAbsent({ branch, seq }: Place): Promise<void> {
    if ((await this.saves.firstFrom(branch, seq)) === undefined) return;
    const forkPoint = (await this.branch(branch))?.doc.forkPoint;
    if (seq > (forkPoint?.seq ?? 0)) throw hole(branch, seq);
  }

  /**
   * The checkpoint at a place, whose it is, and the past that it stands on. What no session goes
   * back to is not known.
   */
  async checkpointAt(place: Place): Promise<CheckpointRead | undefined> {
    const looking = this.saveAt(place);
    // Both at once. What is found on a branch that no session shares does not matter.
    looking.catch(() => {});
    const rows = await this.#pastRows(place.branch, FIRST_BRANCHES);
    const [row] = rows;
    if (row === undefined) return undefined;
    const past = new Past(this.#branches, place, { rows });
    // Verified before its owner is believed: damage can take that away.
    const doc = this.#remember(branchOf(row));
    if (row.session === null && row.owned)
      throw new HoldfastError("CORRUPT", `Branch ${row.id} belongs to a session that is missing.`, {
        branch: row.id,
      });
    const session = (row.session ?? (await new RecordOwners(this.#store).of(row.id, place.seq))) as
      | SessionId
      | undefined;
    if (session === undefined) return undefined;
    const found = await looking;
    if (found === undefined) {
      // It may never have been; but where an anchor knows that the branch's end was lost, nobody is
      // told so.
      if (row.session !== null) await this.tail(place.branch);
      return undefined;
    }
    const checkpoint = await this.#checkpoint(found, session, doc, past);
    return checkpoint && { ...found, checkpoint, session, past };
  }

  /**
   * Whether a checkpoint is one of a session's: its own, or on what its branches share with others.
   * `past` is that of its branch.
   */
  async isOf(session: SessionId, { branch, seq }: Place, past: Past): Promise<boolean> {
    if ((await past.branchAt(seq)) === branch) return true;
    // What a fork shares is the longest where it began: behind a rewind, the branch it has left
    // goes further.
    const oldest = (await this.#store.branches({ kind: "session", session })).at(-1);
    return oldest !== undefined && (await this.past(oldest.id).branchAt(seq)) === branch;
  }

  async #checkpoint(
    { save, digest: end }: Read,
    session: SessionId,
    { id, forkPoint }: BranchDoc,
    past = this.past(id),
  ): Promise<Checkpoint | undefined> {
    // Only a parent on another branch has to be looked for.
    const parent =
      save.prior > 0 && save.prior <= (forkPoint?.seq ?? 0)
        ? await past.branchAt(save.prior)
        : undefined;
    return checkpointOf(save, end, session, () => parent ?? id);
  }

  /**
   * Checkpoints along a past, newest first, from a record number on. Saves without a checkpoint are
   * jumped over by the pointer every save has to the checkpoint before it.
   */
  async *checkpoints(
    past: Past,
    asker: SessionId,
    from: number,
    atOnce: number,
    { recordOwners = new RecordOwners(this.#store), own = false }: OwnedOptions = {},
  ): AsyncGenerator<Checkpoint> {
    let seq = from;
    while (seq > 0) {
      const segment: Segment | undefined = (await past.downTo(seq)).find(
        ({ from: first, to }) => seq >= first && seq <= to,
      );
      if (segment === undefined) return;
      const { branch } = segment;
      if (
        own &&
        (segment.session ?? (await recordOwners.of(branch, segment.to)) ?? asker) !== asker
      )
        return;
      // A branch with no saves yet goes on at its fork point.
      let next = segment.from - 1;
      // One full page: the pointer of its last save leads on.
      for await (const page of this.saves.walk([segment], {
        to: seq,
        newestFirst: true,
        rows: atOnce,
        opens: markOnly,
      })) {
        for (const { save, digest: end } of page) {
          next = priorOf(save);
          if (end === undefined || save.seq > segment.to) continue;
          // The asker itself goes back to it. The session that inherits it may be deleted by now.
          const owner =
            segment.session ??
            (save.mark === null ? undefined : await recordOwners.of(branch, save.seq)) ??
            asker;
          const parent =
            save.prior < segment.from && save.prior > 0
              ? await past.branchAt(save.prior)
              : undefined;
          const checkpoint = checkpointOf(save, end, owner as SessionId, () => parent ?? branch);
          if (checkpoint) yield checkpoint;
        }
        if (page.length === atOnce) break;
      }
      if (next >= seq) throw hole(branch, seq);
      seq = next;
    }
  }

  /** The newest checkpoint of a branch's past, from where the branch ends. */
  async latest(
    tail: Read | undefined,
    branch: BranchDoc,
    session: SessionId,
    past = this.past(branch.id),
  ): Promise<Checkpoint | undefined> {
    if (tail !== undefined && tail.save.mark !== null)
      return this.#checkpoint(tail, session, branch, past);
    for await (const checkpoint of this.checkpoints(past, session, MAX_SEQ, 1)) return checkpoint;
    return undefined;
  }

  /** A blob, verified. */
  async blob(name: Digest): Promise<Uint8Array> {
    const bytes = await this.#store.blob(name);
    if (bytes === undefined || digest(bytes) !== name) {
      throw new HoldfastError(
        "CORRUPT",
        `The blob ${name} is ${bytes === undefined ? "missing" : "damaged"}.`,
        { found: name },
      );
    }
    return bytes;
  }
}

const markOnly = () => ({ mark: true });
const read = (save: Save): Read => ({ save, digest: open(save, {}).digest });
