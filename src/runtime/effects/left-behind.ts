/**
 * What was done in pasts that a session has left: by rewinding or adopting another line, or, where it is a fork, by the session it comes from.
 * A call on the new line that equals one of those is not made without asking.
 */
import { bodyIn } from "../../core/course.js";
import { acts, applyEvent, type Effect, isRepeat } from "../../core/effect.js";
import { type LineId, MAX_SEQ, type SessionId } from "../../core/ids.js";
import { firstSeq, isGap, open } from "../../core/save.js";
import { breathe } from "../breathe.js";
import type { Ground } from "../ground.js";
import { hole, type Segment } from "../journal.js";

/** A stretch of a line, read as far as it goes, and the calls that were made on it or were open where it begins. */
interface Stretch {
  readonly line: LineId;
  readonly to: number;
  next: number;
  readonly calls: Map<string, Effect>;
}

const ROWS = 500;

export class LeftBehind {
  readonly #ground: Ground;
  readonly #stretches: readonly Stretch[];

  private constructor(ground: Ground, stretches: readonly Stretch[]) {
    this.#ground = ground;
    this.#stretches = stretches;
  }

  /** All that this session, and the one it was forked from, did on other lines than its own past. */
  static async of(ground: Ground, session: SessionId, origin: string | undefined, past: readonly Segment[]): Promise<LeftBehind> {
    const stretches: Stretch[] = [];
    for (const { line, to } of past) if (to !== MAX_SEQ) stretches.push(await after(ground, line, to));
    for (const owner of new Set([session as string, ...(origin === undefined ? [] : [origin])])) {
      for (const { id, origin: begins } of await ground.store.lines({ session: owner }))
        if (!past.some(({ line }) => line === id))
          stretches.push({ line: id, to: MAX_SEQ, next: (begins?.seq ?? 0) + 1, calls: new Map() });
    }
    return new LeftBehind(ground, stretches);
  }

  /** What was done on a past behind a place: what going back there leaves behind. */
  static async behind(ground: Ground, past: readonly Segment[], seq: number): Promise<readonly Effect[]> {
    const stretches: Stretch[] = [];
    for (const { line, from, to } of past.toReversed()) {
      if (to <= seq) continue;
      stretches.push(from <= seq ? { ...(await after(ground, line, seq)), to } : { line, to, next: from, calls: new Map() });
    }
    return new LeftBehind(ground, stretches).all();
  }

  /** Calls that act and were begun, oldest first; read up to now at every call. */
  async all(): Promise<readonly Effect[]> {
    for (const stretch of this.#stretches) await this.#read(stretch);
    return this.#stretches.flatMap(({ calls }) => [...calls.values()].filter(({ first }) => first !== undefined));
  }

  /** One that is like a call, preferably one that nothing was answered from yet. */
  async find(call: Pick<Effect, "name" | "same" | "named">, isUsed: (id: string) => boolean): Promise<Effect | undefined> {
    const like = (await this.all()).filter((made) => isRepeat(call, made));
    return like.find(({ id }) => !isUsed(id)) ?? like[0];
  }

  async #read(stretch: Stretch): Promise<void> {
    while (stretch.next <= stretch.to) {
      await breathe();
      const { line, next, to, calls } = stretch;
      const saves = await this.#ground.store.saves(line, { from: next, to, limit: ROWS, items: false, state: true });
      for (const save of saves) {
        if (firstSeq(save) > stretch.next) throw hole(line, stretch.next);
        stretch.next = save.seq + 1;
        // What was pruned cannot be known any more.
        if (isGap(save) || save.state === null) continue;
        for (const record of open(save, { state: true }).state) {
          const { effect: event } = record;
          if (event === undefined) continue;
          const about = { at: save.at - (record.ago ?? 0), holder: undefined, body: bodyIn(record) };
          const effect = applyEvent(calls.get(event.id), event, about);
          if (effect !== undefined && acts(effect)) calls.set(effect.id, effect);
        }
      }
      if (saves.length < ROWS) return;
    }
  }
}

/** What follows a place on its line: also what becomes of the calls that are open there. */
async function after({ journal, loader }: Ground, line: LineId, seq: number): Promise<Stretch> {
  const found = await journal.saveAt({ line, seq });
  const course = found && (await loader.course(found));
  const open = (course?.open ?? []).filter(acts);
  return { line, to: MAX_SEQ, next: seq + 1, calls: new Map(open.map((effect) => [effect.id, effect])) };
}
