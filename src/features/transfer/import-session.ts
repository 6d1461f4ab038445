/**
 * What came with one session, brought into the target: its branches belong to nobody until one
 * apply makes the session and gives them to it. A session that is small enough is brought in whole
 * by that one apply. Others leave branches that nobody owns if the import is killed; the next one
 * goes on from where those end, and `gc` frees them if there is none.
 */

import { refsIn } from "../../core/journal/blob-refs.js";
import { open } from "../../core/journal/open-save.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { Blob } from "../../core/messages/message.js";
import { freeLease } from "../../core/sessions/lease.js";
import type { Redactions } from "../../core/transfer/export-format.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { type ErrorCode, HoldfastError, quote } from "../../core/values/errors.js";
import {
  type BranchId,
  MAX_SEQ,
  type Place,
  placeId,
  type SessionId,
} from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import { freeBranches } from "../../engine/journal/cut-branches.js";
import { redactionsOf, remember } from "../../engine/journal/redaction-memory.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { type BranchDoc, leaseRow } from "../../engine/records/rows.js";
import type { Change, NewSave } from "../../store/port/changes.js";
import { oneBranch } from "../../store/port/queries.js";
import type { Head, Label, NewBranch } from "../../store/port/rows.js";

/**
 * What a stream says, verified: a branch begins or goes on, a save follows on it, and at the end
 * comes the session.
 */
export type Brought =
  | {
      readonly branch: NewBranch;
      readonly doc: BranchDoc;
      readonly of: SessionId | null;
      readonly after: number;
      readonly redacted: Redactions;
    }
  | NewSave
  | { readonly session: SessionId; readonly head: Head; readonly label: Label };

export type Outcome = "imported" | "known";

/** Somebody else changed the target meanwhile: the session is begun again. */
export class Again extends Error {}

/** The session cannot be brought in as it is; others can. */
export class Refused extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** What all sessions of one import share. */
export interface Target {
  readonly ctx: StoreContext;
  readonly dryRun: boolean;
  /** What the heads of sessions say that they are of. */
  readonly generation: string;
  /** The blobs that came so far: a dry run would have brought them in. */
  readonly came: ReadonlyMap<Digest, unknown>;
  /** Branches that were brought in and that gc must leave alone meanwhile. */
  readonly pinned: Set<string>;
  readonly wrote: { saves: number; blobs: number };
  /**
   * Branches that came, with what they begin on, and those of them from which the target has
   * removed texts that came.
   */
  readonly forkPoints: Map<BranchId, Place | null>;
  /** From which record on. */
  readonly stale: Map<BranchId, number>;
}

interface TargetBranch {
  readonly branch: NewBranch;
  readonly of: SessionId | null;
  /** Who owns it in the target; undefined where nobody does, so that it can be added to. */
  readonly owner: string | null | undefined;
  /** Where it ended in the target before. */
  readonly tail: Save | undefined;
  /** Where it ends, as far as it came, and the save that came last. */
  end: number;
  last: NewSave | undefined;
  /** The session it is brought in for: its own, which is not there yet, or one that cannot be. */
  readonly home: string;
  /** In the target, which owns it, it is not what came. */
  differs: boolean;
  /** The target, where it belongs to nobody, has dropped something of it that came. */
  lacks: boolean;
  /** What the target has of it, read a few saves ahead of what comes. */
  ahead: Save[];
  /** What was redacted on it here, be it that the branch is gone, and not where it comes from. */
  readonly here: Redactions;
  /** What was redacted where it comes from, and not here. */
  readonly there: Redactions;
}

const SAVES_AT_ONCE = 200;
const BYTES_AT_ONCE = 4 * 1024 * 1024;

const AHEAD = 50;

export class SessionImport {
  readonly #target: Target;
  readonly #branches = new Map<BranchId, TargetBranch>();
  #current: TargetBranch | undefined;
  /** Changes that have not been applied yet, and what they hold. */
  #pending: (Change & { readonly loose: NewBranch; readonly saves: NewSave[] })[] = [];
  #saves = 0;
  #newBlobs = 0;
  #bytes = 0;
  /** Blobs that saves brought in here refer to: as long as those saves are there, so are they. */
  readonly #sure = new Set<Digest>();

  constructor(target: Target) {
    this.#target = target;
  }

  /** Branches that were brought in and belong to nobody, unless the session came after them. */
  get loose(): readonly BranchId[] {
    return [...this.#branches.values()].flatMap(({ branch, owner }) =>
      owner === undefined ? branch.id : [],
    );
  }

  async take(brought: Brought): Promise<Outcome | undefined> {
    if ("save" in brought) {
      await this.#save(brought);
      return undefined;
    }
    await this.#leaveBranch();
    if ("session" in brought) return this.#session(brought.session, brought.head, brought.label);
    await this.#branch(brought);
    return undefined;
  }

  // ---- branches

  async #branch({
    branch,
    doc,
    of,
    after,
    redacted,
  }: Extract<Brought, { branch: NewBranch }>): Promise<void> {
    const { store } = this.#target.ctx;
    const known = this.#branches.get(branch.id);
    if (known === undefined) {
      const row = (await store.branches(oneBranch(branch.id)))[0];
      if (row !== undefined && row.text !== branch.text)
        throw new Refused(
          "CONFLICT",
          `Branch ${branch.id} is another one here. Import it into another store.`,
        );
      const owner = row?.owned ? row.session : undefined;
      this.#target.forkPoints.set(branch.id, doc.forkPoint);
      if (owner === undefined) this.#refuseStale(branch.id);
      if (row === undefined && doc.forkPoint !== null)
        await this.#checkForkPoint(doc.forkPoint, doc);
      const tail =
        row === undefined ? undefined : await this.#target.ctx.journal.saves.last(branch.id);
      const home =
        of !== null && (await store.session(of)).row === undefined ? of : nobodys(branch.id);
      const known = await this.#orRefused(() => redactionsOf(this.#target.ctx, branch.id));
      const here = without(known, redacted);
      const there = without(redacted, known);
      const nothing = {
        end: after,
        last: undefined,
        differs: false,
        lacks: false,
        ahead: [],
      };
      this.#branches.set(branch.id, { branch, of, home, owner, tail, here, there, ...nothing });
      if (owner === undefined) this.#target.pinned.add(branch.id);
    } else if (of !== null) this.#branches.set(branch.id, { ...known, of });
    this.#current = this.#branches.get(branch.id) as TargetBranch;
    // Also one with no saves yet has to be there.
    if (this.#current.owner === undefined) this.#open(this.#current);
  }

  /** What a branch begins at must be in the target, the same. */
  async #checkForkPoint(forkPoint: Place, { prev }: BranchDoc): Promise<void> {
    const { store } = this.#target.ctx;
    if (
      this.#pending.some(({ saves }) =>
        saves.some(({ save }) => save.branch === forkPoint.branch && save.seq === forkPoint.seq),
      )
    )
      return;
    const found = await this.#at(forkPoint);
    const isPlace = found !== undefined && found.seq === forkPoint.seq && !isGap(found);
    if (
      isPlace &&
      open(found, {}).digest === prev &&
      (found.mark !== null || (await this.#loads(forkPoint)))
    )
      return;
    // A dry run has not brought it in; and what belongs to nobody may have been freed since it was.
    if (!isPlace && this.#target.dryRun) return;
    if (!isPlace && (await store.branches(oneBranch(forkPoint.branch)))[0]?.owned !== true)
      throw new Again();
    throw new Refused(
      "CONFLICT",
      `It begins at ${placeId(forkPoint.branch, forkPoint.seq)}, and that is not there, or another. Delete the session that owns branch ${forkPoint.branch} here, or import into another tenant or store.`,
    );
  }

  /** Where its checkpoint is gone, or never was, what it needs may have been pruned here. */
  async #loads(place: Place): Promise<boolean> {
    try {
      await this.#target.ctx.loader.place(place, { sized: false });
      return true;
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "CORRUPT") return false;
      throw error;
    }
  }

  /** The save that holds a record, without its sections. */
  async #at({ branch, seq }: Place): Promise<Save | undefined> {
    const save = await this.#target.ctx.journal.saves.holding(branch, seq);
    if (save !== undefined && firstSeq(save) <= seq) return save;
    await this.#checkAbsent({ branch, seq });
    return undefined;
  }

  /** Damage of the target is not taken for another history: the import names the place. */
  #checkAbsent(place: Place): Promise<void> {
    return this.#orRefused(() => this.#target.ctx.journal.checkAbsent(place));
  }

  async #orRefused<T>(look: () => Promise<T>): Promise<T> {
    try {
      return await look();
    } catch (error) {
      throw error instanceof HoldfastError && error.code === "CORRUPT"
        ? new Refused("CORRUPT", error.message)
        : error;
    }
  }

  /** Compares what came of a branch with what the target had of it. */
  async #leaveBranch(): Promise<void> {
    const current = this.#current;
    this.#current = undefined;
    if (current === undefined) return;
    const { branch, of, owner, tail, end, last } = current;
    if (owner !== undefined) {
      current.differs = last !== undefined && !(await this.#isThere(last.save, true));
      if (current.differs && of === null)
        throw new Refused(
          "CONFLICT",
          `It shares branch ${branch.id} with session ${quote(owner ?? "?")}, which has gone another way here. Delete that one, or import into another tenant or store.`,
        );
    } else if (tail !== undefined && tail.seq > end) {
      // More than came is right only where it is not to be given to this session.
      if (of !== null || (last !== undefined && !(await this.#isThere(last.save, false))))
        await this.#free(current);
    }
  }

  /**
   * Whether the target holds this save. One that went in a gap is taken for the same: what stands
   * around it is chained to it.
   */
  async #isThere(save: Save, orGap: boolean): Promise<boolean> {
    const there = await this.#at(save);
    if (there === undefined) return false;
    return there.seq === save.seq ? there.check === save.check : orGap && isGap(there);
  }

  /**
   * A branch that nobody owns holds something else, or more: what an import has left of another
   * export. It goes, and all begins again.
   */
  async #free({ branch, tail }: TargetBranch): Promise<void> {
    const { ctx, dryRun } = this.#target;
    if (dryRun) return;
    await freeBranches(ctx, [branch.id]);
    const left = await this.#target.ctx.journal.saves.last(branch.id);
    if (left !== undefined && left.seq === tail?.seq)
      throw new Refused(
        "CONFLICT",
        `Branch ${branch.id} is kept here for a fork, and is not as it was exported. Export the session anew, or import into another tenant or store.`,
      );
    throw new Again();
  }

  // ---- saves

  async #save(fresh: NewSave): Promise<void> {
    const current = this.#current as TargetBranch;
    const { save } = fresh;
    const { owner, tail } = current;
    current.last = fresh;
    current.end = save.seq;
    if (!isGap(save) && current.here.some(([, from]) => from > 0 && from <= save.seq))
      await this.#noteStale(save);
    // A branch that a session owns here is not added to; but others that begin on it may be.
    if (owner !== undefined) return;
    if (tail !== undefined && firstSeq(save) <= tail.seq) return this.#compare(current, fresh);
    // What follows may need what was dropped before it, and may repeat what was redacted.
    if (current.lacks) await this.#free(current);
    this.#refuseStale(save.branch);
    const blobs = await this.#blobs(fresh);
    const sent = { ...fresh, blobs };
    current.last = sent;
    this.#open(current).push(sent);
    this.#saves += 1;
    this.#newBlobs += fresh.blobs.length;
    this.#bytes +=
      textBytes(save.items) +
      textBytes(save.state) +
      blobs.reduce((sum, { bytes }) => sum + bytes.length, 0);
    if (this.#saves >= SAVES_AT_ONCE || this.#bytes >= BYTES_AT_ONCE) await this.#flush();
  }

  /**
   * A save that is there already, on a branch that belongs to nobody: the same, and with as much of
   * it.
   */
  async #compare(current: TargetBranch, { save, refs }: NewSave): Promise<void> {
    const { branch, of, tail } = current;
    const there = await this.#ahead(current, save);
    if (
      there === undefined ||
      save.seq > (tail as Save).seq ||
      (there.seq === save.seq ? there.check !== save.check : !isGap(there))
    )
      return this.#free(current);
    for (const name of refs) this.#sure.add(name);
    const sections = ["items", "state", "mark"] as const;
    if (sections.some((section) => there[section] === null && save[section] !== null)) {
      current.lacks = true;
      if (of !== null) await this.#free(current);
    } else if (
      of !== null &&
      !this.#target.dryRun &&
      (sections.some((section) => there[section] !== null && save[section] === null) ||
        current.there.length > 0)
    ) {
      // What was dropped or redacted where it comes from is not brought back, unless a fork here
      // needs it.
      await freeBranches(this.#target.ctx, [branch.id]);
      if ((await this.#target.ctx.journal.saves.last(branch.id))?.seq !== tail?.seq)
        throw new Again();
    }
  }

  /** The save of the target that holds the last record of one that came. */
  async #ahead(current: TargetBranch, { branch, seq }: Save): Promise<Save | undefined> {
    while ((current.ahead[0]?.seq ?? seq) < seq) current.ahead.shift();
    if (current.ahead.length === 0) {
      const rest = { branch, from: seq, to: MAX_SEQ };
      for await (const page of this.#target.ctx.journal.saves.pages(rest, {
        items: true,
        state: true,
        rows: AHEAD,
      })) {
        current.ahead = [...page];
        break;
      }
    }
    return current.ahead[0];
  }

  /** What came before stays, for forks that begin there. */
  async #noteStale({ branch, ...save }: Save): Promise<void> {
    const { stale } = this.#target;
    const from = firstSeq({ ...save });
    if (!stale.has(branch)) await this.#flush();
    stale.set(branch, Math.min(stale.get(branch) ?? from, from));
  }

  /** What was redacted here since it was exported must not come back with what goes on from it. */
  #refuseStale(branch: BranchId): void {
    const { stale, forkPoints } = this.#target;
    let to = MAX_SEQ;
    for (let id: BranchId | undefined = branch; id !== undefined && stale.size > 0; ) {
      if ((stale.get(id) ?? Number.POSITIVE_INFINITY) <= to)
        throw new Refused(
          "CONFLICT",
          `It was redacted here after it was exported (branch ${id}), and the export may hold the text. Nothing of it was imported. Export it anew.`,
        );
      const forkPoint: Place | null | undefined = forkPoints.get(id);
      to = forkPoint?.seq ?? 0;
      id = forkPoint?.branch;
    }
  }

  /**
   * Every blob that a save refers to comes with it, unless a save before it holds it there: none
   * can be swept in between.
   */
  async #blobs({ refs, blobs }: NewSave): Promise<readonly Blob[]> {
    const { ctx, dryRun, came } = this.#target;
    const all = [...blobs];
    const brought = new Set(blobs.map((blob) => blob.digest));
    for (const name of refs) {
      if (!this.#sure.has(name) && !brought.has(name) && !(dryRun && came.has(name))) {
        const bytes = await ctx.store.blob(name);
        if (bytes === undefined || digest(bytes) !== name)
          throw new Refused(
            "CONFLICT",
            `The blob ${name} came with another session, and is not here: that one was not imported, or was pruned here. Export this session alone, and import that.`,
          );
        all.push({ digest: name, bytes });
      }
      this.#sure.add(name);
    }
    return all;
  }

  /**
   * The saves of a branch that are to be applied next. Each batch says that the branch belongs to
   * nobody: else it is not added to.
   */
  #open({ branch, home }: TargetBranch): NewSave[] {
    const last = this.#pending.at(-1);
    if (last?.loose.id === branch.id) return last.saves;
    const saves: NewSave[] = [];
    this.#pending.push({ session: home, when: { absent: true }, loose: branch, saves });
    return saves;
  }

  async #flush(): Promise<void> {
    if (this.#pending.length > 0) await this.#apply(this.#pending);
    this.#pending = [];
    this.#saves = 0;
    this.#newBlobs = 0;
    this.#bytes = 0;
  }

  async #apply(changes: readonly Change[]): Promise<void> {
    const { ctx, dryRun, wrote } = this.#target;
    if (!dryRun && !(await ctx.store.apply(changes)).ok) throw new Again();
    wrote.saves += this.#saves;
    wrote.blobs += this.#newBlobs;
  }

  // ---- the session

  async #session(id: SessionId, head: Head, label: Label): Promise<Outcome> {
    const { ctx, dryRun } = this.#target;
    const own = [...this.#branches.values()].filter(({ of }) => of === id);
    if ((await ctx.store.session(id)).row !== undefined) {
      if (own.every(({ owner, differs }) => owner === id && !differs)) return "known";
      // Its branches are brought in all the same: forks that come with it may begin on them.
      await this.#flush();
      throw new Refused(
        "CONFLICT",
        `There is a session ${quote(id)} here already, and its history is another one: it is behind the export, it has gone another way, or it is another session. Delete it here and import again, or import into another tenant or store.`,
      );
    }
    const taken = own.find(({ owner }) => owner !== undefined);
    if (taken !== undefined)
      throw new Refused(
        "CONFLICT",
        `Branch ${taken.branch.id} of session ${quote(id)} belongs to session ${quote(taken.owner ?? "?")} here.`,
      );
    for (const { branch, here } of own) {
      // Its title, tags and metadata come as they were.
      if (here.some(([, from]) => from === 0)) this.#target.stale.set(branch.id, 0);
      this.#refuseStale(branch.id);
    }
    if (dryRun) await this.#flush();
    else await this.#make(id, head, label, own);
    return "imported";
  }

  /**
   * One apply: what is left to bring in, and the session, which is given its branches if each still
   * ends where it should.
   */
  async #make(
    id: SessionId,
    head: Head,
    label: Label,
    own: readonly TargetBranch[],
  ): Promise<void> {
    const { store } = this.#target.ctx;
    const ends: NewSave[] = [];
    for (const { branch, tail, last } of own) {
      const isPending =
        last !== undefined && this.#pending.some(({ saves }) => saves.includes(last));
      const end = last ?? (tail && (await this.#stored(branch.id)));
      if (end !== undefined && !isPending) ends.push(end);
    }
    // It is known by now that the session will be here.
    for (const { branch, owner, there } of this.#branches.values())
      if (owner === undefined && there.length > 0)
        await remember(this.#target.ctx, branch.id, (known) => [
          ...known,
          ...without(there, known),
        ]);
    const claims = own.map(({ branch }) => branch.id);
    const buried = (await store.session(id)).buried;
    const lease = leaseRow(id, { ...freeLease, epoch: buried + 1 });
    await this.#apply([
      ...this.#pending,
      { session: id, when: { absent: true, buried }, head, label, lease, claims, saves: ends },
    ]);
    this.#target.ctx.journal.forgetEnds();
  }

  /**
   * The last save of a branch of which nothing came with this session: it came before, with another
   * that begins on it.
   */
  async #stored(branch: BranchId): Promise<NewSave> {
    const save = await this.#target.ctx.journal.saves.last(branch, { items: true, state: true });
    if (save === undefined) throw new Again();
    return { save, refs: refsIn(save), blobs: [] };
  }
}

const without = (some: Redactions, others: Redactions): Redactions =>
  some.filter(([id]) => !others.some(([other]) => other === id));

/** A name that no session can have: only branches come with it. */
const nobodys = (branch: BranchId): string => `\u0001import ${branch}`;
