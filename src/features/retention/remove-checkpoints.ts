/**
 * Removing checkpoints, and with them what no place that must still load needs (core/retention
 * decides what that is).
 *
 * A branch is gone over once, from its end to its beginning, in small steps that writers and other
 * prunes may come between. What a place needs stands before it. So whatever still has its
 * checkpoint, because its turn has not come, still has all that loading it needs: a fork may begin
 * there, and a kill may come, at any moment. Only what tells of calls that acted must be there as
 * long as somebody can go back before it; such saves are gone over again once the checkpoints are
 * gone. A step whose saves are not as they were read, or that does not know of a fork, is refused;
 * then all is planned anew.
 */
import { setImmediate as breathe } from "node:timers/promises";
import { acts } from "../../core/effects/effect.js";
import { refsIn } from "../../core/journal/blob-refs.js";
import { drop, gap } from "../../core/journal/drop-sections.js";
import { open } from "../../core/journal/open-save.js";
import { firstSeq, isEmpty, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import { type Keep, type KeptPlace, needed, touches } from "../../core/retention/retention.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { highest } from "../../core/values/highest.js";
import { type BranchId, MAX_SEQ, placeId } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { hole } from "../../engine/journal/walk.js";
import { TimeSlice } from "../../engine/util/time-slice.js";
import { documentsOf, requireCapability } from "../../store/capabilities.js";
import type { KnownNeeds, Replacement, StoreReclaim } from "../../store/port/reclaim.js";
import type { BranchScan, MarkAt } from "./scan-branch.js";

const AT_ONCE = { least: 16, most: 200, first: 32 } as const;
/**
 * Where to take from a branch means to write all of it anew, as much at once as can be held in
 * memory.
 */
const IN_BULK = { least: 20_000, most: 20_000, first: 20_000 } as const;
const MOST_BYTES = 16 * 1024 * 1024;
/**
 * What is read before others have their turn: there, an answer that is at hand keeps everybody
 * waiting.
 */
const PAGE = { inBulk: 25, else: 200 };

export interface Removal {
  /** How many checkpoints went. */
  readonly removed: number;
  /** False: somebody else changed the branch meanwhile, look again. */
  readonly done: boolean;
}

export interface RemoveOptions {
  readonly signal?: AbortSignal | undefined;
  /** No reason for a process to stay alive. */
  readonly idle?: boolean | undefined;
  /** Told after every step how many went with it. */
  readonly onRemoved?: ((count: number) => void) | undefined;
}

/** Removes the checkpoints of a branch at these places. */
export async function removeMarks(
  ctx: StoreContext,
  survey: BranchScan,
  gone: ReadonlySet<number>,
  o: RemoveOptions = {},
): Promise<Removal> {
  const forked = survey.forks.find(
    ({ forkPoint }) => forkPoint !== null && gone.has(forkPoint.seq),
  );
  if (forked?.forkPoint)
    throw forkBegins(survey.branch, forked.forkPoint.seq, forked.session ?? "?");
  const plan = await planFor(ctx, survey, gone);
  const first = new Rewriting(ctx, survey, plan, o);
  const { removed, done } = await first.run(survey.end?.seq ?? 0);
  if (!done || first.heldBack === 0) return { removed, done };
  // The checkpoints before them are gone by now: nobody can go back there, and be about to do the
  // same again.
  const last = new Rewriting(
    ctx,
    survey,
    { ...plan, gone: new Set(), actsFrom: plan.actsIn },
    { signal: o.signal, idle: o.idle },
  );
  return { removed, done: (await last.run(first.heldBack)).done };
}

interface Plan {
  readonly gone: ReadonlySet<number>;
  /** Checkpoints that stay, by rising number. */
  readonly stay: readonly number[];
  readonly pinned: ReadonlySet<number>;
  readonly keep: Keep;
  /**
   * Calls that act, told of behind this number, stay known: at first, and once the checkpoints are
   * gone.
   */
  readonly actsFrom: number;
  readonly actsIn: number;
}

/**
 * What the places on a branch that must go on loading need: kept checkpoints, what is pinned or
 * begun at, and the end.
 */
async function planFor(
  { loader }: StoreContext,
  { past, from, marks, pinned, end }: BranchScan,
  gone: ReadonlySet<number>,
): Promise<Plan> {
  const stays = marks.filter(({ seq }) => !gone.has(seq));
  const lastByBase = new Map<number, number>();
  // Branches begin at checkpoints, and where a snapshot has put a session back: those that stay are
  // all the places there can be.
  for (const { base, seq } of [...stays, ...pinned, ...(end === undefined ? [] : [end])])
    lastByBase.set(base, Math.max(seq, lastByBase.get(base) ?? 0));
  const places: KeptPlace[] = [];
  for (const [base, seq] of lastByBase)
    places.push({
      seq,
      base,
      ranges: base === 0 ? [] : (await loader.base(past, base)).base.ranges,
    });
  // What was done must be known to whoever goes back before it: to a checkpoint of this branch, or
  // of one it comes from.
  const firstOf = (left: readonly MarkAt[]) =>
    from > 1 ? 0 : Math.min(left[0]?.seq ?? MAX_SEQ, pinned[0]?.seq ?? MAX_SEQ);
  return {
    gone,
    stay: stays.map(({ seq }) => seq),
    pinned: new Set(pinned.map(({ seq }) => seq)),
    keep: needed(places),
    actsFrom: firstOf(marks),
    actsIn: firstOf(stays),
  };
}

/** A save, and what is to stand in its place: itself where nothing changes. */
interface Changed {
  readonly was: Save;
  readonly save: Save;
  /** Blobs that this refers to. */
  readonly refs: Replacement["refs"];
}

class Rewriting {
  readonly #ctx: StoreContext;
  readonly #survey: BranchScan;
  readonly #plan: Plan;
  readonly #options: RemoveOptions;
  readonly #reclaim: StoreReclaim;
  /** The last fork and the last pin that are known of. */
  #known: KnownNeeds;
  /** The gap that the last step has left at its lower end: it grows with the next. */
  #above: Save | undefined;
  /**
   * The newest save that only stays because checkpoints before it are still there; 0 where there is
   * none.
   */
  heldBack = 0;

  constructor(ctx: StoreContext, survey: BranchScan, plan: Plan, o: RemoveOptions) {
    this.#ctx = ctx;
    this.#survey = survey;
    this.#plan = plan;
    this.#options = o;
    this.#reclaim = requireCapability(ctx.store, "reclaim", "Removing checkpoints");
    this.#known = survey.known;
  }

  /** Goes over the branch from a save that ends there to its beginning. */
  async run(newest: number): Promise<Removal> {
    const { store } = this.#ctx;
    const { from } = this.#survey;
    const { signal, idle, onRemoved } = this.#options;
    const timeSlice = new TimeSlice(store, {
      ...(store.traits.inBulk ? IN_BULK : AT_ONCE),
      rests: true,
      signal,
      idle,
    });
    let removed = 0;
    for (let at = newest; at >= from; ) {
      const step = await timeSlice.step((size) => this.#step(at, size));
      if (step === undefined) {
        if (!(await this.#knowsAll())) return { removed, done: false };
        continue;
      }
      at = step.next;
      removed += step.removed;
      if (step.removed > 0) onRemoved?.(step.removed);
    }
    return { removed, done: true };
  }

  /** Undefined: it was refused. */
  async #step(
    at: number,
    limit: number,
  ): Promise<{ readonly next: number; readonly removed: number } | undefined> {
    const { branch, from } = this.#survey;
    const { store, journal } = this.#ctx;
    let next = at;
    let bytes = 0;
    const changes: Changed[] = [];
    const rows = Math.min(limit, store.traits.inBulk ? PAGE.inBulk : PAGE.else);
    const own = { branch, from, to: at, session: null };
    // Verified first: what is written back must not make damage look sound.
    const walk = { newestFirst: true, items: true, state: true, rows, opens: nothing };
    for await (const page of journal.saves.walk([own], walk)) {
      for (const { save: was } of page) {
        if (was.seq !== next) throw hole(branch, next);
        next = firstSeq(was) - 1;
        const save = this.#change(was);
        changes.push({ was, save, refs: save === was || isGap(save) ? [] : refsIn(save) });
        bytes += textBytes(was.items) + textBytes(was.state);
      }
      await breathe();
      if (changes.length >= limit || bytes >= MOST_BYTES) break;
    }
    const { replacements, below } = this.#replacements(changes);
    if (
      replacements.length > 0 &&
      !(await this.#reclaim.replace(branch, replacements, this.#known))
    )
      return undefined;
    this.#above = below;
    const removed = changes.filter(
      ({ was, save }) => was.mark !== null && save.mark === null,
    ).length;
    return { next, removed };
  }

  #change(save: Save): Save {
    const { keep, gone, actsFrom, actsIn } = this.#plan;
    if (isGap(save)) return save;
    const first = firstSeq(save);
    const mark = save.mark !== null && gone.has(save.seq);
    const items = save.items !== null && !touches(keep.items, first, first + save.nItems - 1);
    const isFree = save.state !== null && !touches(keep.state, first + save.nItems, save.seq);
    const tells = isFree && save.seq > actsFrom && tellsOfActs(save);
    if (tells && save.seq <= actsIn) this.heldBack = Math.max(this.heldBack, save.seq);
    const state = isFree && !tells;
    const next =
      mark || items || state
        ? drop(save, { items, state, mark, prior: mark ? this.#priorTo(save.seq) : 0 })
        : save;
    // The end of the branch stays a save of its own: the next one is appended to it. So does what
    // is pinned: a branch may begin there.
    const isPlace = save.seq === this.#survey.end?.seq || this.#plan.pinned.has(save.seq);
    const needless =
      isEmpty(next) &&
      !isPlace &&
      !touches(keep.items, first, save.seq) &&
      !touches(keep.state, first, save.seq);
    return needless ? gap([next]) : next;
  }

  /** Where lists go on behind a checkpoint that goes: at the newest before it that stays. */
  #priorTo(seq: number): number {
    const { stay } = this.#plan;
    let low = 0;
    for (let high = stay.length; low < high; ) {
      const middle = (low + high) >> 1;
      if ((stay[middle] as number) < seq) low = middle + 1;
      else high = middle;
    }
    return stay[low - 1] ?? this.#survey.priorToAll;
  }

  /**
   * What is to be put in place. Gaps that come to stand side by side become one, also with the one
   * that the last step has left.
   */
  #replacements(newestFirst: readonly Changed[]): {
    readonly replacements: readonly Replacement[];
    readonly below: Save | undefined;
  } {
    const replacements: Replacement[] = [];
    let empty: Changed[] =
      this.#above === undefined ? [] : [{ was: this.#above, save: this.#above, refs: [] }];
    const closeGap = (): Save | undefined => {
      const [first, ...rest] = empty.toReversed();
      empty = [];
      if (first === undefined) return undefined;
      if (rest.length === 0 && first.save === first.was) return first.save;
      const save = gap([first.save, ...rest.map((one) => one.save)]);
      replacements.push({ save, refs: [], was: [first.was, ...rest.map(({ was }) => was)] });
      return save;
    };
    for (const change of newestFirst) {
      const { was, save, refs } = change;
      if (isGap(save)) {
        empty.push(change);
        continue;
      }
      closeGap();
      if (save !== was) replacements.push({ save, refs, was: [was] });
    }
    const below = closeGap();
    return { replacements: replacements.toReversed(), below };
  }

  /**
   * Whether a step was refused only for forks and pins where nothing goes: then it can be tried
   * again.
   */
  async #knowsAll(): Promise<boolean> {
    const { store } = this.#ctx;
    const { branch, end } = this.#survey;
    const { gone, stay, pinned } = this.#plan;
    const forks = await store.branches({ kind: "forks", of: branch });
    const pins = await documentsOf(store).pins(branch);
    const docs = pins.map(({ doc }) => doc);
    const known = { branch: forks[0]?.no ?? 0, doc: highest(0, docs) };
    if (known.branch <= this.#known.branch && known.doc <= this.#known.doc) return false;
    // Places that stay, and all behind the end, have what they need.
    const staying = new Set(stay);
    const loads = (seq: number) => staying.has(seq) || pinned.has(seq) || seq >= (end?.seq ?? 0);
    if (
      forks.some(
        ({ forkPoint }) => forkPoint !== null && (gone.has(forkPoint.seq) || !loads(forkPoint.seq)),
      )
    )
      return false;
    if (pins.some(({ seq }) => !loads(seq))) return false;
    this.#known = known;
    return true;
  }
}

const nothing = () => ({});

/** Whether a save's state says something of calls that act on the world. */
function tellsOfActs(save: Save): boolean {
  if (!save.state?.includes('"effect":')) return false;
  return open(save, { state: true }).state.some(
    ({ effect }) => effect !== undefined && !(effect.is === "intent" && !acts(effect)),
  );
}

function forkBegins(branch: BranchId, seq: number, fork: string): HoldfastError {
  const checkpointId = placeId(branch, seq);
  return new HoldfastError(
    "CONFLICT",
    `Session ${quote(fork)} begins at checkpoint ${checkpointId}: it stays as long as that does.`,
    {
      checkpointId,
    },
  );
}
