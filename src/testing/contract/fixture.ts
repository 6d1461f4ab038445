/** Sessions and saves for tests of stores: well formed, and made without a runtime. */
import { gap } from "../../core/journal/drop-sections.js";
import { record } from "../../core/journal/record.js";
import type { Save } from "../../core/journal/save.js";
import { seal } from "../../core/journal/seal-save.js";
import { digest } from "../../core/values/digest.js";
import { type BranchId, branchId, type Place } from "../../core/values/ids.js";
import type { Change, NewSave } from "../../store/port/changes.js";
import type { Freed } from "../../store/port/reclaim.js";
import type { Head, Label, LeaseRow, NewBranch } from "../../store/port/rows.js";

let made = 0;

function freshBranch(): BranchId {
  made += 1;
  const bytes = new Uint8Array(10);
  new DataView(bytes.buffer).setUint32(0, made);
  new DataView(bytes.buffer).setUint32(4, process.pid);
  return branchId(bytes);
}

interface Begin {
  readonly agent?: string;
  readonly status?: string;
  readonly due?: number;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly epoch?: number;
  readonly until?: number;
  readonly version?: number;
  readonly forkPoint?: Place;
  readonly branch?: BranchId;
}

type Beginning = Change & {
  readonly head: Head;
  readonly label: Label;
  readonly lease: LeaseRow;
  readonly branch: NewBranch;
};

/** The change that makes a session. */
export function begin(id: string, o: Begin = {}): Beginning {
  const branch = o.branch ?? freshBranch();
  const { agent = null, status = "in-progress", due = null, tags = [], archived = false } = o;
  const { epoch = 1, until = 0, version = 1, forkPoint = null } = o;
  return {
    session: id,
    when: { absent: true },
    head: { status, agent, branch, due, text: `head of ${id}` },
    label: { version, archived, tags, text: `label of ${id}` },
    lease: { epoch, until, text: `lease of ${id}` },
    branch: { id: branch, forkPoint, text: `branch of ${id}` },
  };
}

interface Shape {
  readonly items?: number;
  readonly state?: number;
  readonly mark?: boolean;
  readonly text?: string;
  /** A text kept as a blob that the save refers to. */
  readonly blob?: string;
  readonly bytes?: Uint8Array;
}

/** A session whose saves are made one after another. */
export class Fixture {
  readonly id: string;
  readonly branch: BranchId;
  readonly saves: Save[] = [];
  readonly #begin: Begin;
  #after: number;
  #prev = digest("start");

  constructor(id: string, o: Begin = {}) {
    this.id = id;
    this.branch = o.branch ?? freshBranch();
    this.#begin = { ...o, branch: this.branch };
    this.#after = o.forkPoint?.seq ?? 0;
  }

  begin(o: Begin = {}): Beginning {
    return begin(this.id, { ...this.#begin, ...o });
  }

  /** The next save, as a change, and the one after it from here on. */
  save(shape: Shape, epoch = 1): Change {
    const { fresh, end } = this.#make(shape);
    this.saves.push(fresh.save);
    this.#after = fresh.save.seq;
    this.#prev = end;
    return { session: this.id, when: { epoch }, saves: [fresh] };
  }

  /** A save that could be next, without counting on it. */
  peek(shape: Shape, epoch = 1): Change {
    return { session: this.id, when: { epoch }, saves: [this.#make(shape).fresh] };
  }

  /** The same change with its save moved up the branch, past records that are not there. */
  later(change: Change, by: number): Change {
    return {
      ...change,
      saves: (change.saves ?? []).map((fresh) => ({
        ...fresh,
        save: { ...fresh.save, seq: fresh.save.seq + by },
      })),
    };
  }

  /** The same place, with other content. */
  rewritten(change: Change): Change {
    return {
      ...change,
      saves: (change.saves ?? []).map((fresh) => ({
        ...fresh,
        save: { ...fresh.save, check: "0000000000000000" },
      })),
    };
  }

  fork(id: string, seq: number): NewBranch {
    return begin(id, { forkPoint: { branch: this.branch, seq } }).branch;
  }

  forked(id: string, seq: number): Fixture {
    return new Fixture(id, { forkPoint: { branch: this.branch, seq } });
  }

  gapOf(first: number, last: number): Save {
    const [one, ...rest] = this.saves
      .slice(first, last + 1)
      .map((save) => ({ ...save, items: null, state: null, mark: null }));
    return gap([one as Save, ...rest]);
  }

  #make({ items = 0, state = 0, mark = false, text = "", blob = "", bytes }: Shape): {
    fresh: NewSave;
    end: string;
  } {
    const { save, digest: end } = seal({
      branch: this.branch,
      after: this.#after,
      at: 1_000,
      prior: 0,
      base: 0,
      prev: this.#prev,
      items: Array.from({ length: items }, (_, i) =>
        record([
          [
            "append",
            JSON.stringify({ role: "user", content: `${this.id} ${this.#after} ${i} ${text}` }),
          ],
        ]),
      ),
      nMessages: items,
      state: Array.from({ length: state }, (_, i) =>
        record([
          ["set", `"k${i}"`],
          ["value", String(this.#after)],
        ]),
      ),
      mark: mark ? record([["checkpoint", "{}"]]) : null,
      salt: () => "0123456789abcdef",
    });
    const content = bytes ?? Buffer.from(blob);
    const blobs = content.length === 0 ? [] : [{ digest: digest(content), bytes: content }];
    return { fresh: { save, refs: blobs.map((kept) => kept.digest), blobs }, end };
  }
}

export const branchOf = (saves: readonly Save[]): BranchId => (saves[0] as Save).branch;
export const digestOf = (text: string): string => digest(Buffer.from(text));
export const bytesOf = (bytes: readonly number[]): string => digest(Uint8Array.from(bytes));
export const freed = (texts: readonly string[]): Freed => ({
  count: texts.length,
  bytes: texts.reduce((sum, text) => sum + text.length, 0),
});
