/**
 * Saves on their way to the store.
 *
 * SAVE-1  every save goes through one conditional append: this epoch, this branch, this end.
 *         Nothing else writes the journal.
 * SAVE-2  a save that failed is unknown. It stays sealed as it is and is sent again before anything
 *         newer, so it lands once (D4).
 */
import type { Checkpoint } from "../../core/journal/checkpoint.js";
import { firstSeq } from "../../core/journal/save.js";
import type { SessionId } from "../../core/values/ids.js";
import type { Applied, Change, NewSave } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import { outdone, superseded } from "../journal/lease-keeper.js";
import type { StoreContext } from "../journal/store-context.js";
import { type HeadDoc, headRow } from "../records/rows.js";
import { yieldNowAndThen } from "../util/yield-to-event-loop.js";

/** A save on its way: sealed, and kept until the store has said that it is there. */
export interface Sealed {
  readonly save: NewSave;
  /** The head, where it changed. */
  readonly head: HeadDoc | undefined;
  readonly checkpoint: Checkpoint | undefined;
  readonly drained: readonly string[];
  /** What else is changed in the same step. */
  readonly docs?: readonly DocChange[];
}

export class SaveQueue {
  readonly #ctx: StoreContext;
  readonly #session: SessionId;
  readonly #epoch: number;
  readonly #saved: (sealed: Sealed) => void;
  #pending: Sealed[] = [];
  #sending: Promise<void> | undefined;

  /** `saved` is told of each save once it is in the store. */
  constructor(
    ctx: StoreContext,
    session: SessionId,
    epoch: number,
    saved: (sealed: Sealed) => void,
  ) {
    this.#ctx = ctx;
    this.#session = session;
    this.#epoch = epoch;
    this.#saved = saved;
  }

  get isEmpty(): boolean {
    return this.#pending.length === 0;
  }

  /**
   * Whether an inbox message goes with what is still on its way: until then it is in the inbox, as
   * if nobody had looked at it.
   */
  get takesInbox(): boolean {
    return this.#pending.some(({ drained }) => drained.length > 0);
  }

  /** The record before the first that is still on its way. */
  get sentUpTo(): number {
    return firstSeq((this.#pending[0] as Sealed).save.save) - 1;
  }

  /** Resolves when this save, and all before it, are in the store. */
  async send(sealed: Sealed): Promise<void> {
    this.#pending.push(sealed);
    while (this.#pending.includes(sealed)) await (this.#sending ?? this.#sendAll());
    const breath = yieldNowAndThen();
    if (breath) await breath;
  }

  /** Keeps a save, to be sent with the next one. */
  hold(sealed: Sealed): void {
    this.#pending.push(sealed);
  }

  /** Resolves when nothing is left to send. */
  async flush(): Promise<void> {
    while (!this.isEmpty) await (this.#sending ?? this.#sendAll());
  }

  #sendAll(): Promise<void> {
    const batch = this.#pending.slice();
    this.#sending = this.#apply(batch).then(
      (applied) => {
        this.#sending = undefined;
        if (!applied.ok)
          throw applied.change === 0 ? superseded(this.#session) : outdone(this.#session);
        this.#pending = this.#pending.slice(batch.length);
        this.#ctx.watchers.changed(this.#session);
        for (const sealed of batch) this.#saved(sealed);
      },
      (error: unknown) => {
        this.#sending = undefined;
        throw error;
      },
    );
    return this.#sending;
  }

  #apply(batch: readonly Sealed[]): Promise<Applied> {
    let docs: readonly DocChange[] | undefined;
    for (const sealed of batch)
      if (sealed.docs !== undefined) docs = [...(docs ?? []), ...sealed.docs];
    return this.#ctx.store.apply([this.#change(batch)], docs);
  }

  #change(batch: readonly Sealed[]): Change {
    const saves: NewSave[] = [];
    let head: HeadDoc | undefined;
    let drained: string[] | undefined;
    for (const sealed of batch) {
      saves.push(sealed.save);
      head = sealed.head ?? head;
      if (sealed.drained.length > 0) drained = [...(drained ?? []), ...sealed.drained];
    }
    const change: { -readonly [K in keyof Change]: Change[K] } = {
      session: this.#session,
      when: { epoch: this.#epoch },
      saves,
    };
    if (head !== undefined) change.head = headRow(head);
    if (drained !== undefined) change.drained = drained;
    return change;
  }
}
