/**
 * Removing checkpoints, and with them what no place that must still load needs (core/retention decides what that is).
 *
 * In two passes, each in small steps that writers and other prunes may come between. First the marks go: from then on no fork can begin
 * there. Then a plan is made of what the places that are left need, up to where the line ends at that moment, and the rest is dropped;
 * whatever is added later needs no more of it. A step whose saves are not as they were read is refused, and all is planned anew.
 */
import { acts } from "../core/effect.js";
import { HoldfastError, quote } from "../core/errors.js";
import { type LineId, MAX_SEQ, placeId } from "../core/ids.js";
import { refsOf } from "../core/refs.js";
import { type Keep, type KeptPlace, needed, touches } from "../core/retention.js";
import { drop, firstSeq, gap, isEmpty, isGap, open, priorOf, type Save } from "../core/save.js";
import type { KnownNeeds, Replacement } from "../store/port.js";
import { breathe } from "./breathe.js";
import type { Ground } from "./ground.js";
import { hole, type Segment } from "./journal.js";

const AT_ONCE = 200;

/** Removes the checkpoints of a line at these places. False: somebody else changed the line meanwhile, or began on it: look again. */
export async function removeMarks(ground: Ground, line: LineId, gone: ReadonlySet<number>): Promise<boolean> {
  const children = await ground.store.lines({ origin: line });
  const forked = children.find(({ origin }) => origin !== null && gone.has(origin.seq));
  if (forked?.origin) throw forkBegins(line, forked.origin.seq, forked.session ?? "?");
  const segments = await ground.journal.segments(line);
  const last = Math.max(...gone);
  // A place that is pinned needs no mark to stay: only lines that begin where one goes are in the way.
  if (!(await dropMarks(ground, segments, gone, last, { line: children[0]?.no ?? 0, doc: MAX_SEQ }))) return false;
  return dropSections(ground, segments);
}

async function dropMarks(
  ground: Ground,
  segments: readonly Segment[],
  gone: ReadonlySet<number>,
  last: number,
  known: KnownNeeds,
): Promise<boolean> {
  let lastKept: number | undefined;
  return rewrite(ground, segments, last, known, (save) => {
    lastKept ??= priorOf(save);
    if (isGap(save)) return save;
    const prior = lastKept;
    if (save.mark !== null && !gone.has(save.seq)) lastKept = save.seq;
    return save.mark !== null && gone.has(save.seq) ? drop(save, { items: false, state: false, mark: true, prior }) : save;
  });
}

async function dropSections(ground: Ground, segments: readonly Segment[]): Promise<boolean> {
  const { line } = segments[0] as Segment;
  // In this order: a line that began where something was pinned is there before the pin can be gone.
  const pins = await ground.store.pins(line);
  const children = await ground.store.lines({ origin: line });
  const pinned = new Set([...pins.map(({ seq }) => seq), ...children.flatMap(({ origin }) => origin?.seq ?? [])]);
  const { keep, end, firstMark } = await plan(ground, segments, pinned);
  const known = { line: children[0]?.no ?? 0, doc: Math.max(0, ...pins.map(({ doc }) => doc)) };
  // What was done must be known to whoever goes back before it: to a checkpoint of this line, or of one it comes from.
  const actsFrom = segments.length > 1 ? 0 : firstMark;
  return rewrite(ground, segments, end, known, (save) => {
    if (isGap(save)) return save;
    const first = firstSeq(save);
    const items = save.items !== null && !touches(keep.items, first, first + save.nItems - 1);
    const isFree = save.state !== null && !touches(keep.state, first + save.nItems, save.seq);
    const state = isFree && !(save.seq > actsFrom && tellsOfActs(save));
    const next = items || state ? drop(save, { items, state, mark: false, prior: 0 }) : save;
    // The end of the line stays a save of its own: the next one is appended to it.
    // So does what is pinned: a line may begin there.
    const needless =
      isEmpty(next) &&
      save.seq !== end &&
      !pinned.has(save.seq) &&
      !touches(keep.items, first, save.seq) &&
      !touches(keep.state, first, save.seq);
    return needless ? gap([next]) : next;
  });
}

/** Puts in the place of each save what `change` makes of it, up to a record number. Gaps that come to stand side by side become one. */
async function rewrite(
  { store }: Ground,
  segments: readonly Segment[],
  to: number,
  known: KnownNeeds,
  change: (save: Save) => Save,
): Promise<boolean> {
  const { line, from } = segments[0] as Segment;
  for (let at = from; at <= to; ) {
    await breathe();
    const saves = await store.saves(line, { from: at, to, limit: AT_ONCE, items: true, state: true });
    const replacements: Replacement[] = [];
    let empty: { readonly save: Save; readonly was: Save }[] = [];
    const closeGap = () => {
      const [first, ...rest] = empty;
      if (first && (rest.length > 0 || first.save !== first.was)) {
        replacements.push({ save: gap([first.save, ...rest.map(({ save }) => save)]), refs: [], was: empty.map(({ was }) => was) });
      }
      empty = [];
    };
    for (const was of saves) {
      if (firstSeq(was) !== at) throw hole(line, at);
      at = was.seq + 1;
      // Verified first: what is written back must not make damage look sound.
      if (!isGap(was)) open(was, {});
      const save = change(was);
      if (isGap(save)) empty.push({ save, was });
      else {
        closeGap();
        if (save !== was) replacements.push({ save, refs: refsIn(save), was: [was] });
      }
    }
    closeGap();
    if (replacements.length > 0 && !(await store.replace(line, replacements, known))) return false;
    if (saves.length === 0) throw hole(line, at);
  }
  return true;
}

/** What the places on a line that must go on loading need: kept checkpoints, the end, and `pinned`. One for each base is enough. */
async function plan(
  { store, loader }: Ground,
  segments: readonly Segment[],
  pinned: ReadonlySet<number>,
): Promise<{ readonly keep: Keep; readonly end: number; readonly firstMark: number }> {
  const { line, from } = segments[0] as Segment;
  const lastByBase = new Map<number, number>();
  let end: Save | undefined;
  let firstMark = MAX_SEQ;
  for (let at = from; ; ) {
    const saves = await store.saves(line, { from: at, to: MAX_SEQ, limit: 1_000, items: false, state: false });
    for (const save of saves) {
      if (firstSeq(save) !== at) throw hole(line, at);
      at = save.seq + 1;
      end = save;
      if (isGap(save)) continue;
      open(save, {});
      // Lines begin at checkpoints, and where a snapshot has put a session back.
      if (save.mark === null && !pinned.has(save.seq)) continue;
      lastByBase.set(save.base, save.seq);
      firstMark = Math.min(firstMark, save.seq);
    }
    if (saves.length === 0) break;
  }
  if (end !== undefined) lastByBase.set(end.base, end.seq);
  const places: KeptPlace[] = [];
  for (const [base, seq] of lastByBase)
    places.push({ seq, base, ranges: base === 0 ? [] : (await loader.base(segments, base)).base.ranges });
  return { keep: needed(places), end: end?.seq ?? from - 1, firstMark };
}

/** Whether a save's state says something of calls that act on the world. */
function tellsOfActs(save: Save): boolean {
  if (!save.state?.includes('"effect":')) return false;
  return open(save, { state: true }).state.some(({ effect }) => effect !== undefined && !(effect.is === "intent" && !acts(effect)));
}

/** The blobs that what is left of a save refers to. */
export function refsIn(save: Save): Replacement["refs"] {
  const { items, state } = open(save, { items: save.items !== null, state: save.state !== null });
  return [...items, ...state].flatMap(refsOf);
}

function forkBegins(line: LineId, seq: number, fork: string): HoldfastError {
  const checkpointId = placeId(line, seq);
  return new HoldfastError("CONFLICT", `Session ${quote(fork)} begins at checkpoint ${checkpointId}: it stays as long as that does.`, {
    checkpointId,
  });
}
