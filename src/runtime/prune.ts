/**
 * Removing checkpoints, and with them what no place that must still load needs (core/retention decides what that is).
 *
 * Works in small steps, each one applied only if no fork was begun on the line since the plan was made.
 */
import { HoldfastError, quote } from "../core/errors.js";
import { type LineId, MAX_SEQ, placeId } from "../core/ids.js";
import { refsOf } from "../core/refs.js";
import { type KeptPlace, needed, touches } from "../core/retention.js";
import { drop, firstSeq, gap, isEmpty, isGap, open, type Save } from "../core/save.js";
import type { NewSave } from "../store/port.js";
import type { Ground } from "./ground.js";
import { hole, type Segment } from "./journal.js";

const AT_ONCE = 200;

/** Removes the checkpoints of a line at these places. False: a fork was begun meanwhile, plan anew. */
export async function removeMarks(ground: Ground, line: LineId, gone: ReadonlySet<number>): Promise<boolean> {
  const { store, journal } = ground;
  const children = await store.lines({ origin: line });
  for (const { origin } of children) {
    if (origin && gone.has(origin.seq))
      throw forkBegins(line, origin.seq, children.find((child) => child.origin?.seq === origin.seq)?.session ?? "?");
  }
  const known = children[0]?.no ?? 0;
  const segments = await journal.segments(line);
  const keep = needed(await keptPlaces(ground, segments, gone, new Set(children.flatMap(({ origin }) => origin?.seq ?? []))));
  const tail = (await journal.tail(line))?.save.seq ?? 0;
  const start = (segments[0] as Segment).from;
  let lastKept: number | undefined;
  for (let at = start; at <= tail; ) {
    const saves = await store.saves(line, { from: at, to: tail, limit: AT_ONCE, items: true, state: true });
    const changed: NewSave[] = [];
    let empty: Save[] = [];
    const closeGap = () => {
      const [first, ...rest] = empty;
      if (first !== undefined && (rest.length > 0 || !isGap(first))) changed.push(withRefs(gap([first, ...rest])));
      empty = [];
    };
    for (const save of saves) {
      lastKept ??= save.prior;
      const next = isGap(save) ? save : dropped(save, gone, keep, lastKept);
      if (save.mark !== null && !gone.has(save.seq)) lastKept = save.seq;
      // The end of the line stays a save of its own: the next one is appended to it.
      if (
        isEmpty(next) &&
        save.seq !== tail &&
        !touches(keep.items, firstSeq(save), save.seq) &&
        !touches(keep.state, firstSeq(save), save.seq)
      )
        empty.push(next);
      else {
        closeGap();
        if (next !== save) changed.push(withRefs(next));
      }
    }
    closeGap();
    if (changed.length > 0 && !(await store.replace(line, changed, known))) return false;
    const last = saves.at(-1);
    if (last === undefined) return true;
    at = last.seq + 1;
  }
  return true;
}

function dropped(save: Save, gone: ReadonlySet<number>, keep: ReturnType<typeof needed>, prior: number): Save {
  // Verified first: what is written back must not make damage look sound.
  open(save, {});
  const first = firstSeq(save);
  const items = save.items !== null && !touches(keep.items, first, first + save.nItems - 1);
  const state = save.state !== null && !touches(keep.state, first + save.nItems, save.seq);
  const mark = save.mark !== null && gone.has(save.seq);
  return items || state || mark ? drop(save, { items, state, mark, prior }) : save;
}

/** The places on a line that must go on loading: kept checkpoints, the end, and where forks begin. One for each base is enough. */
async function keptPlaces(
  { store, loader }: Ground,
  segments: readonly Segment[],
  gone: ReadonlySet<number>,
  origins: ReadonlySet<number>,
): Promise<readonly KeptPlace[]> {
  const { line, from } = segments[0] as Segment;
  const lastByBase = new Map<number, number>();
  let end: Save | undefined;
  for (let at = from; ; ) {
    const saves = await store.saves(line, { from: at, to: MAX_SEQ, limit: 1_000, items: false, state: false });
    for (const save of saves) {
      if (firstSeq(save) !== (end === undefined ? from : end.seq + 1)) throw hole(line, firstSeq(save) - 1);
      end = save;
      if (isGap(save)) continue;
      open(save, {});
      if ((save.mark !== null && !gone.has(save.seq)) || origins.has(save.seq)) lastByBase.set(save.base, save.seq);
    }
    if (saves.length === 0) break;
    at = (saves.at(-1) as Save).seq + 1;
  }
  if (end !== undefined) lastByBase.set(end.base, end.seq);
  return Promise.all(
    [...lastByBase].map(async ([base, seq]) => ({ seq, base, ranges: base === 0 ? [] : (await loader.base(segments, base)).base.ranges })),
  );
}

/** A save as it is written back, with the blobs that are left in it. */
function withRefs(save: Save): NewSave {
  if (isGap(save)) return { save, refs: [], blobs: [] };
  const { items, state } = open(save, { items: save.items !== null, state: save.state !== null });
  return { save, refs: [...items, ...state].flatMap(refsOf), blobs: [] };
}

function forkBegins(line: LineId, seq: number, fork: string): HoldfastError {
  const checkpointId = placeId(line, seq);
  return new HoldfastError("CONFLICT", `Session ${quote(fork)} begins at checkpoint ${checkpointId}: it stays as long as that does.`, {
    checkpointId,
  });
}
