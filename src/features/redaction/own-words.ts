/**
 * What a fork, or the origin of one, said itself behind the past that it shares. Its bases repeat
 * both, and only what is shared is edited in them (Z3, `core/redaction/redact-record.ts`).
 */
import type { JournalRecord } from "../../core/journal/record.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { OwnWords, Whose } from "../../core/redaction/redact-record.js";
import { type LineId, type Place, parsePlace } from "../../core/values/ids.js";
import type { Stretch } from "./reach.js";

/** What the records of one line have written, each with the number of the first that did. */
interface Written {
  readonly stretch: Stretch;
  readonly keys: Map<string, number>;
  readonly lists: Map<string, number>;
  readonly effects: Map<string, number>;
  status: number;
  /** From where on something was pruned: it may have written anything. */
  pruned: number;
}

const NEVER = Number.POSITIVE_INFINITY;

export class OwnWordsOf {
  readonly #lines = new Map<LineId, Written>();

  /** Takes note of a save. In any order. */
  note(stretch: Stretch, save: Save, records: readonly JournalRecord[]): void {
    const written = this.#lines.get(stretch.line) ?? {
      stretch,
      keys: new Map(),
      lists: new Map(),
      effects: new Map(),
      status: NEVER,
      pruned: NEVER,
    };
    this.#lines.set(stretch.line, written);
    const at = firstSeq(save);
    if (isGap(save) || (save.state === null && save.nState > 0))
      written.pruned = Math.min(written.pruned, at);
    for (const { set, unset, list, effect, status } of records) {
      const key = set ?? unset;
      if (key !== undefined) first(written.keys, key, at);
      if (list !== undefined) first(written.lists, list, at);
      if (effect !== undefined) first(written.effects, effect.id, at);
      if (status !== undefined) written.status = Math.min(written.status, at);
    }
  }

  /** As they are for a base in a save. */
  before({ line, seq }: Save, holds: () => void): OwnWords {
    const past = [...this.#past(line, seq)];
    const has = (is: (written: Written) => number | undefined): boolean =>
      past.some(([written, to]) => (is(written) ?? NEVER) <= to);
    const orPruned = (): Whose => (has(({ pruned }) => pruned) ? "known" : "shared");
    return {
      key: (key) => {
        if (has(({ keys }) => keys.get(key))) return "own";
        return has(({ lists }) => lists.get(key)) ? "known" : orPruned();
      },
      effect: (id) => {
        if (this.#isBehind(past, parsePlace(id.split(".")[0] ?? ""))) return "own";
        return has(({ effects }) => effects.get(id)) ? "known" : orPruned();
      },
      status: () => (has(({ status }) => status) ? "own" : orPruned()),
      turn: (from) =>
        past.some(([{ stretch }, to]) => from >= stretch.from && from <= to) ? "own" : "shared",
      holds,
    };
  }

  /** The line of a base and those that it goes back to, as far as they are not shared. */
  *#past(line: LineId, seq: number): Generator<readonly [Written, number]> {
    let to = seq;
    for (let at: LineId | undefined = line; at !== undefined; ) {
      const written: Written | undefined = this.#lines.get(at);
      if (written === undefined) return;
      if (to >= written.stretch.from) yield [written, to];
      to = written.stretch.row.origin?.seq ?? 0;
      at = written.stretch.row.origin?.line;
    }
  }

  #isBehind(past: readonly (readonly [Written, number])[], place: Place | undefined): boolean {
    return past.some(([{ stretch }]) => stretch.line === place?.line && place.seq >= stretch.from);
  }
}

function first(into: Map<string, number>, name: string, at: number): void {
  into.set(name, Math.min(into.get(name) ?? NEVER, at));
}
