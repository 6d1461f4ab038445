/**
 * Going over the saves of a session, from the newest to the oldest, and putting others in their
 * place.
 *
 * Newest first, because what is copied from a record stands behind it: whoever is killed in between
 * leaves the record itself as it was, and the next one still knows from it what the copies are to
 * become.
 */

import { refsIn, refsOf } from "../../core/journal/blob-refs.js";
import { markOf, markText } from "../../core/journal/checkpoint.js";
import type { JournalRecord } from "../../core/journal/record.js";
import { rewrite } from "../../core/journal/rewrite-save.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import { recordTexts } from "../../core/journal/save-section.js";
import type { Blob, MessageInput } from "../../core/messages/message.js";
import { titleOf } from "../../core/messages/truncate.js";
import { editMark, editRecord, type RecordEdit } from "../../core/redaction/redact-record.js";
import type { NameKind } from "../../core/redaction/redact-text.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { type BranchId, placeId, type SessionId } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import { remembering } from "../../engine/journal/redaction-memory.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import type { Walked } from "../../engine/journal/walk.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Replacement } from "../../store/port/reclaim.js";
import type { OpenCalls, Stretch } from "./affected-sessions.js";
import { Bodies } from "./bodies.js";
import type { Matcher } from "./matcher.js";

const ROWS = 100;
const AT_ONCE = 200;
const BYTES_AT_ONCE = 8 * 1024 * 1024;
const MAX_NAMES = 100;
/**
 * Saves that are edited together, with one bound on the time of a pattern: no more of them, and no
 * more text.
 */
const TOGETHER = 100;
const TOGETHER_BYTES = 256 * 1024;

export interface Name {
  readonly what: NameKind;
  /** The record that it stands in, or the session. */
  readonly at: string;
}

/** What was seen on the way. */
export interface Seen {
  saves: number;
  records: number;
  /** Bodies and files that others are put in the place of. */
  readonly blobs: Set<Digest>;
  readonly exempt: Set<string>;
  readonly names: Name[];
  /** The lowest number that is changed on each branch. */
  readonly first: Map<string, number>;
  /** The same, or what was pruned and may have been (REDACTED-2). */
  readonly stale: Map<BranchId, number>;
  /** Whether the message that was asked for is there. */
  isMessageThere: boolean;
  /** Titles that were taken from messages which are changed, and what they become. */
  readonly titles: Map<string, string>;
  /** Who else holds it in words of their own. Null: a session that was deleted. */
  readonly others: Set<SessionId | null>;
}

const nothingSeen = (): Seen => ({
  saves: 0,
  records: 0,
  blobs: new Set(),
  exempt: new Set(),
  names: [],
  first: new Map(),
  stale: new Map(),
  isMessageThere: false,
  titles: new Map(),
  others: new Set(),
});

export class SaveRewriter {
  readonly #ctx: StoreContext;
  readonly #what: Matcher;
  readonly #calls: OpenCalls;
  readonly #bodies: Bodies;
  readonly #tick: () => void;
  /**
   * Of all that was seen so far: digests of what is edited, and values of a message that goes
   * whole.
   */
  readonly #forgotten = new Set<string>();
  readonly #messageValues = new Set<string>();
  /**
   * Whether a message that goes whole is left for the last: what it says elsewhere is known from
   * it.
   */
  #leavesMessage = false;
  #isSurvey = true;
  seen = nothingSeen();

  /** `tick` is called at every save, and may throw. */
  constructor(ctx: StoreContext, what: Matcher, calls: OpenCalls, tick: () => void) {
    this.#ctx = ctx;
    this.#what = what;
    this.#calls = calls;
    this.#bodies = new Bodies(ctx.journal);
    this.#tick = tick;
  }

  /** Looks at everything, and changes nothing. */
  async survey(stretches: readonly Stretch[]): Promise<Seen> {
    for (const stretch of stretches) for await (const _ of this.#edits(stretch));
    return this.seen;
  }

  /**
   * Changes everything, after a survey that found something. False: another process changed a
   * branch meanwhile, or began one on it. Look again.
   */
  async rewrite(stretches: readonly Stretch[]): Promise<boolean> {
    this.#isSurvey = false;
    return remembering(this.#ctx, this.seen.stale, async () => {
      for (const leavesMessage of this.#what.message === undefined ? [false] : [true, false]) {
        this.#leavesMessage = leavesMessage;
        for (const stretch of stretches) if (!(await this.#rewrite(stretch))) return false;
      }
      return true;
    });
  }

  async #rewrite(stretch: Stretch): Promise<boolean> {
    let batch: Replacement[] = [];
    let bytes = 0;
    // What is pinned stays where it is, and loads: only words change.
    const known = { branch: stretch.forks, doc: Number.MAX_SAFE_INTEGER };
    const flush = async (): Promise<boolean> => {
      const replaced =
        batch.length === 0 ||
        (await requireCapability(this.#ctx.store, "reclaim", "hold.sessions.redact").replace(
          stretch.branch,
          batch,
          known,
        ));
      batch = [];
      bytes = 0;
      return replaced;
    };
    if (!this.seen.first.has(stretch.branch)) return true;
    for await (const replacement of this.#edits(stretch)) {
      batch.push(replacement);
      bytes += sizeOf(replacement);
      if ((batch.length >= AT_ONCE || bytes >= BYTES_AT_ONCE) && !(await flush())) return false;
    }
    return flush();
  }

  async *#saves({ branch, row, from, to }: Stretch): AsyncGenerator<Walked> {
    const own = { branch, from, to, session: row.session };
    for await (const page of this.#ctx.journal.saves.walk([own], {
      newestFirst: true,
      items: true,
      state: true,
      rows: ROWS,
    }))
      for (const walked of page) {
        this.#tick();
        yield walked;
      }
  }

  /**
   * What is to stand in the place of saves. Those without bodies are edited together, up to one
   * that has some.
   */
  async *#edits(stretch: Stretch): AsyncGenerator<Replacement> {
    let group: Opened[] = [];
    let size = 0;
    for await (const { save, digest, items, state } of this.#saves(stretch)) {
      if (this.#isSurvey && !stretch.isLookedAt && isPruned(save)) this.#stale(save);
      // A gap holds nothing to edit.
      if (digest === undefined) continue;
      const refs = [...items, ...state].flatMap(refsOf);
      group.push({ save, items, state, refs });
      size += sizeOf({ save });
      if (refs.length === 0 && group.length < TOGETHER && size < TOGETHER_BYTES) continue;
      yield* await this.#editTogether(group, size, stretch);
      group = [];
      size = 0;
    }
    yield* await this.#editTogether(group, size, stretch);
  }

  #stale(save: Save): void {
    const first = firstSeq(save);
    this.seen.stale.set(save.branch, Math.min(this.seen.stale.get(save.branch) ?? first, first));
  }

  async #editTogether(
    group: readonly Opened[],
    size: number,
    stretch: Stretch,
  ): Promise<readonly Replacement[]> {
    const refs = group.flatMap((opened) => opened.refs);
    await this.#bodies.fetch(refs);
    const bytes = refs.reduce((sum, name) => sum + this.#bodies.get(name).length, size);
    const edited = this.#what.bounded(bytes, () =>
      group.flatMap((opened) => this.#edited(opened, stretch) ?? []),
    );
    // Counted here: bounded work may be done more than once (WITHIN-1).
    this.seen.saves += edited.length;
    for (const { records } of edited) this.seen.records += records;
    return edited.map(({ replacement }) => replacement);
  }

  /** What is to stand in the place of a save; undefined where it stays. */
  #edited({ save, items, state, refs }: Opened, stretch: Stretch): Edited | undefined {
    if (stretch.isLookedAt) {
      if (this.#isSurvey) this.#lookAt(save, stretch, [...items, ...state]);
      return undefined;
    }
    const first = firstSeq(save);
    const edit = this.#edit(save);
    let changed = 0;
    const texts = (
      records: readonly JournalRecord[],
      section: string | null,
      from: number,
    ): readonly string[] | undefined => {
      const edited = records.map((record, i) => editRecord(record, from + i, edit(from + i)));
      const count = edited.filter((record, i) => record !== records[i]).length;
      if (count === 0) return undefined;
      changed += count;
      const before = recordTexts(section);
      return edited.map((record, i) =>
        record === records[i] ? (before[i] as string) : JSON.stringify(record),
      );
    };
    // What is said elsewhere of a message is known from the items.
    const newItems = texts(items, save.items, first);
    const newState = texts(state, save.state, first + save.nItems);
    const mark = save.mark === null ? undefined : this.#mark(save.mark);
    if (newItems === undefined && newState === undefined && mark === undefined) {
      this.#bodies.take([]);
      return undefined;
    }
    if (mark !== undefined) changed += 1;
    const lowest = newItems !== undefined || newState !== undefined ? first : save.seq;
    this.seen.first.set(save.branch, Math.min(this.seen.first.get(save.branch) ?? lowest, lowest));
    this.#stale(save);
    const salt = () => this.#ctx.salts.next();
    const made = rewrite(save, {
      ...(newItems && { items: newItems }),
      ...(newState && { state: newState }),
      ...(mark && { mark }),
      salt,
    });
    return { replacement: this.#replacement(made, save, refs), records: changed };
  }

  /** Whether another session, which does not share what is changed, holds it. */
  #lookAt(save: Save, { row }: Stretch, records: readonly JournalRecord[]): void {
    const owner = row.session as SessionId | null;
    if (this.#what.message !== undefined || this.seen.others.has(owner)) return;
    const edit = this.#looking(() => this.seen.others.add(owner));
    const mark = save.mark === null ? undefined : markOf(save.mark);
    if (
      records.some((record) => editRecord(record, 0, edit) !== record) ||
      (mark !== undefined && editMark(mark, edit) !== mark)
    )
      this.seen.others.add(owner);
  }

  /** Edits as any other does, and leaves no trace. `named` is told of names that hold the text. */
  #looking(named: () => unknown): RecordEdit {
    const name = (given: string): void => void (this.#what.holds(given) && named());
    return {
      texts: { text: this.#what.text, numbers: true, name },
      body: (name) => this.#bodies.get(name),
      keep: (bytes) => ({ digest: digest(bytes), bytes: bytes.length }),
      file: this.#what.file,
      openCall: () => undefined,
      isOpen: () => false,
      exempt: () => {},
      edited: () => {},
      forgotten: new Set(),
    };
  }

  #replacement(save: Save, was: Save, before: readonly Digest[]): Replacement {
    const refs = [...new Set(refsIn(save))];
    for (const name of before) if (!refs.includes(name)) this.seen.blobs.add(name);
    return { save, refs, was: [was], blobs: this.#bodies.take(refs) };
  }

  #mark(text: string): string | undefined {
    const checkpoint = markOf(text);
    const edited = editMark(checkpoint, { texts: { text: this.#what.text, numbers: true } });
    if (edited === checkpoint) return undefined;
    return markText(edited, () => this.#ctx.salts.next());
  }

  #edit({ branch }: Save): (seq: number) => RecordEdit {
    const what = this.#what;
    const isMessage = (message: MessageInput, seq: number): boolean =>
      (message.id ?? placeId(branch, seq)) === what.message;
    const all = () => what.replacement;
    const whole =
      what.message === undefined
        ? undefined
        : { edit: { text: all, numbers: true }, file: () => Buffer.from(what.replacement) };
    return (seq) => ({
      texts: {
        text: what.text,
        numbers: true,
        name: (name, kind) => this.#name(name, kind, placeId(branch, seq)),
      },
      body: (name) => this.#bodies.get(name),
      keep: (bytes) => this.#bodies.keep(bytes),
      file: what.file,
      openCall: (reply, index) => this.#calls.at(branch, reply, index),
      isOpen: (id) => this.#calls.ids.has(id),
      exempt: (id) => void this.seen.exempt.add(id),
      edited: (before, after) => this.#title(before, after),
      forgotten: this.#forgotten,
      ...(whole && {
        whole: {
          ...whole,
          values: this.#messageValues,
          is: (message: MessageInput, at: number) => {
            if (!isMessage(message, at)) return false;
            this.seen.isMessageThere = true;
            return !this.#leavesMessage;
          },
        },
      }),
    });
  }

  #title(before: MessageInput, after: MessageInput): void {
    const title = titleOf(before);
    if (title !== undefined) this.seen.titles.set(title, titleOf(after) ?? this.#what.replacement);
  }

  #name(name: string, what: NameKind, at: string): void {
    const { names } = this.seen;
    if (names.length >= MAX_NAMES || !this.#what.holds(name)) return;
    if (!names.some((known) => known.at === at && known.what === what)) names.push({ what, at });
  }
}

/** What is to stand in the place of a save, and how many records that changes. */
interface Edited {
  readonly replacement: Replacement;
  readonly records: number;
}

interface Opened {
  readonly save: Save;
  readonly items: readonly JournalRecord[];
  readonly state: readonly JournalRecord[];
  readonly refs: readonly Digest[];
}

const isPruned = (save: Save): boolean =>
  isGap(save) ||
  (save.items === null && save.nItems > 0) ||
  (save.state === null && save.nState > 0) ||
  (save.mark === null && save.nMark > 0);

const sizeOf = ({ save, blobs = [] }: Pick<Replacement, "save" | "blobs">): number =>
  textBytes(save.items) +
  textBytes(save.state) +
  textBytes(save.mark) +
  blobs.reduce((sum: number, { bytes }: Blob) => sum + bytes.length, 0);
