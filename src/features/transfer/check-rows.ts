/**
 * The rows of an export, checked against what came before them: branches and saves follow each
 * other, blobs come before the save that names them, and a session gets the branches that came with
 * it. Nothing is written here.
 */
import { checkBodies, type KnownBlob, knowBlob } from "../../core/journal/blob-body.js";
import {
  type BranchEnd,
  begunAt,
  checkChain,
  forkPointEnd,
  rootEnd,
  unknownEnd,
} from "../../core/journal/chain-check.js";
import { open } from "../../core/journal/open-save.js";
import type { Base } from "../../core/journal/record.js";
import type { Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { Blob } from "../../core/messages/message.js";
import {
  type BlobRow,
  type BranchText,
  badRow,
  type PartRow,
  Parts,
  type SessionText,
} from "../../core/transfer/export-format.js";
import { emptyOutline, type Outline, outlineAfter } from "../../core/transfer/outline.js";
import type { Digest } from "../../core/values/digest.js";
import { type HoldfastError, quote } from "../../core/values/errors.js";
import { type BranchId, type Place, placeId, type SessionId } from "../../core/values/ids.js";
import { IMPORTED } from "../../engine/calls/doubt-restored.js";
import type { NewBranch } from "../../store/port/rows.js";
import type { Brought, Target } from "./import-session.js";
import { branchFrom, headFrom, inboxFrom, labelFrom } from "./import-validate.js";

/** Rows that come with a session. */
export type RowOfSession = PartRow | BlobRow | BranchText | { readonly save: Save } | SessionText;

/** What a blob takes in memory beside its bytes. */
const BLOB_BYTES = 500;
/**
 * The blobs of one save are kept until it has come. A forged stream could send blobs without end,
 * and no save.
 */
const MAX_BLOB_BYTES = 2 * 1024 * 1024 * 1024;
/**
 * How many places are remembered that later branches may begin at. Others are looked for in the
 * target.
 */
const PLACES = 50_000;

/** A branch as far as it has come. */
interface Come {
  readonly branch: NewBranch;
  readonly of: SessionId | null;
  readonly end: BranchEnd;
  /** Undefined where its beginning came too long ago to be remembered: a load tells. */
  readonly outline: Outline | undefined;
}

/** A place at which branches may begin. */
type Beginning = Pick<Come, "end" | "outline">;

/** All that came since the last session: it counts once its session's row has come. */
class SinceSession {
  readonly branches = new Map<BranchId, Come>();
  readonly parts = new Parts();
  blobs: Blob[] = [];
  blobBytes = 0;
  current: BranchId | undefined;
  own: SessionId | undefined;
}

export class RowCheck {
  readonly #target: Target;
  readonly #blobs: Map<Digest, KnownBlob>;
  readonly #rowNumber: () => number;
  readonly #branches = new Map<BranchId, Come>();
  /** Checkpoints that came, oldest first, as places at which branches may begin. */
  readonly #places = new Map<string, Beginning>();
  #since = new SinceSession();

  /** `blobs` are filled with what comes. `rowNumber` is of the row that is checked, for errors. */
  constructor(target: Target, blobs: Map<Digest, KnownBlob>, rowNumber: () => number) {
    this.#target = target;
    this.#blobs = blobs;
    this.#rowNumber = rowNumber;
  }

  /** Whether a session has begun to come whose own row has not. */
  get isInSession(): boolean {
    return this.#since.branches.size > 0;
  }

  /** Answers what the row brings, once that is whole. */
  async check(row: RowOfSession): Promise<Brought | undefined> {
    if ("part" in row) this.#since.parts.add(row);
    else if ("blob" in row) this.#blob(row);
    else if ("save" in row) return this.#save(row.save);
    else {
      this.requireWholeSave();
      return "branch" in row ? this.#branch(row) : this.#session(row);
    }
    return undefined;
  }

  requireWholeSave(): void {
    const { parts, blobs } = this.#since;
    if (!parts.isEmpty || blobs.length > 0) throw this.bad("comes in the middle of a save");
  }

  /** Forgets what came since the last session: it is void. */
  forget(): void {
    this.#since = new SinceSession();
  }

  /** Remembers what came since the last session: branches of others may begin on it. */
  keep(): void {
    for (const [id, come] of this.#since.branches) this.#branches.set(id, come);
    this.forget();
  }

  bad(why: string): HoldfastError {
    return badRow(this.#rowNumber(), why);
  }

  #come(branch: BranchId): Come | undefined {
    return this.#since.branches.get(branch) ?? this.#branches.get(branch);
  }

  #blob(row: BlobRow): void {
    const since = this.#since;
    const bytes = since.parts.blob(row);
    if (bytes === undefined) throw this.bad(`does not hold the blob ${row.blob} that it says`);
    since.blobBytes += bytes.length + BLOB_BYTES;
    if (since.blobBytes > MAX_BLOB_BYTES)
      throw this.bad(
        `is one of too many blobs for one save: they come to more than ${MAX_BLOB_BYTES} bytes`,
      );
    this.#blobs.set(row.blob, knowBlob(bytes));
    since.blobs.push({ digest: row.blob, bytes });
  }

  async #branch(row: BranchText): Promise<Brought> {
    const since = this.#since;
    const branch = { id: row.branch, forkPoint: row.forkPoint, text: row.text };
    const doc = branchFrom(branch);
    const before = this.#come(row.branch);
    if (before !== undefined && (before.branch.text !== row.text || before.of !== null))
      throw this.bad("begins a branch that came before");
    if (row.of !== null && row.of !== (since.own ?? row.of))
      throw this.bad("brings a branch of another session");
    const root = { end: rootEnd(doc.prev), outline: emptyOutline };
    const { end, outline } =
      before ?? (row.forkPoint === null ? root : await this.#forkPoint(row.forkPoint, doc.prev));
    if (row.after !== end.seq)
      throw this.bad(`goes on behind ${row.after}, and its branch is at ${end.seq}`);
    if (end.follows !== doc.prev && before === undefined)
      throw this.bad("brings a branch that does not follow what it begins at");
    since.own ??= row.of ?? undefined;
    since.current = row.branch;
    since.branches.set(row.branch, { branch, of: row.of, end, outline });
    return { branch, doc, of: row.of, after: row.after, redacted: row.redacted ?? [] };
  }

  /** Where a branch begins. It must have come before: so no branch can be in its own past. */
  async #forkPoint(forkPoint: Place, prev: Digest): Promise<Beginning> {
    const id = placeId(forkPoint.branch, forkPoint.seq);
    if ((this.#come(forkPoint.branch)?.end.seq ?? 0) < forkPoint.seq)
      throw this.bad(`begins at ${id}, which has not come`);
    const known = this.#places.get(id);
    if (known !== undefined) return { ...known, end: begunAt(known.end) };
    // Longer ago than is remembered: the target has it, or refuses what begins there.
    const save = await this.#target.ctx.journal.saves.holding(forkPoint.branch, forkPoint.seq);
    const isIt = save?.seq === forkPoint.seq && !isGap(save) && open(save, {}).digest === prev;
    return {
      end: isIt ? begunAt(forkPointEnd(save, prev)) : unknownEnd(forkPoint.seq, prev),
      outline: undefined,
    };
  }

  #save(row: Save): Brought {
    const since = this.#since;
    const save = since.parts.save(row);
    if (save === undefined) throw this.bad("does not fit the parts before it");
    const come = since.current === undefined ? undefined : since.branches.get(since.current);
    if (come === undefined || save.branch !== come.branch.id)
      throw this.bad("holds a save of a branch that is not being brought");
    const { end, refs, branches, records } = checkChain(come.end, save);
    if (branches !== undefined && !this.#goesBackTo(come.branch.forkPoint, branches))
      throw this.bad("holds a base that names a branch to which its own does not go back");
    const { blobs } = since;
    const named = new Set(refs);
    if (!blobs.every(({ digest }) => named.has(digest)))
      throw this.bad("does not refer to the blobs before it");
    const missing = refs.find((name) => !this.#blobs.has(name));
    if (missing !== undefined) throw this.bad(`refers to the blob ${missing}, which has not come`);
    const known = (name: Digest) => this.#blobs.get(name);
    for (const record of records) checkBodies(record, known);
    const outline = come.outline && outlineAfter(come.outline, save, records, known);
    if (outline === undefined && come.outline !== undefined)
      throw this.bad("holds a save that cannot be loaded after what came before it");
    since.blobs = [];
    since.blobBytes = 0;
    since.branches.set(save.branch, { ...come, end, outline });
    if (save.mark !== null) {
      const oldest = this.#places.size >= PLACES ? this.#places.keys().next().value : undefined;
      if (oldest !== undefined) this.#places.delete(oldest);
      this.#places.set(placeId(save.branch, save.seq), { end, outline });
    }
    return { save, refs, blobs };
  }

  /**
   * Whether stretches of branches, oldest first, are on the past of a place. A load believes what a
   * base says of them.
   */
  #goesBackTo(forkPoint: Place | null, branches: NonNullable<Base["branches"]>): boolean {
    let left = branches.length;
    for (let place = forkPoint; place !== null && left > 0; ) {
      const [branch, from, to] = branches[left - 1] as (typeof branches)[number];
      const older: Place | null = this.#come(place.branch)?.branch.forkPoint ?? null;
      if (branch === place.branch && from > (older?.seq ?? 0) && from <= to && to <= place.seq)
        left -= 1;
      place = older;
    }
    return left === 0;
  }

  #session(row: SessionText): Brought {
    const { session, on, branches } = row;
    const own = [...this.#since.branches.values()]
      .filter(({ of }) => of === session)
      .map(({ branch }) => branch.id);
    const told = new Set(branches);
    if (
      this.#since.own !== session ||
      own.length !== branches.length ||
      !own.every((id) => told.has(id))
    )
      throw this.bad(`gives session ${quote(session)} other branches than came with it`);
    const { doc, row: head } = headFrom(
      session,
      row.head,
      row.goneOn ? IMPORTED : this.#target.generation,
    );
    const current =
      own.includes(on) && doc.branch === on ? this.#since.branches.get(on) : undefined;
    if (current === undefined)
      throw this.bad(`puts session ${quote(session)} on a branch that is not its own`);
    if (current.end.status !== undefined && current.end.status !== doc.status)
      throw this.bad(
        `says that session ${quote(session)} is ${doc.status}, and its journal says ${current.end.status}`,
      );
    if (current.outline?.isWhole === false)
      throw this.bad(`ends session ${quote(session)} where it cannot be loaded`);
    inboxFrom(session, row.inboxMessages ?? []);
    return { session, head, label: labelFrom(session, row.label) };
  }
}
