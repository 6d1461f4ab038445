/**
 * The file of one branch as it is read: its saves one after another, each closed by its seal
 * (save-rows.ts).
 *
 * VIEW-1 (D2)  what stands behind the last whole seal is no save. Readers stop before it; the
 *         writer sets it aside before it writes.
 * VIEW-2  a save whose seal says `with` counts once its session's file has reached that version,
 *         one that says `more` with the save that follows it; until then nothing else stands behind
 *         them.
 */
import { closeSync, lstatSync, type Stats } from "node:fs";
import { firstSeq, type Save } from "../../../core/journal/save.js";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { BranchId } from "../../../core/values/ids.js";
import type { SaveQuery } from "../../port/queries.js";
import { openFile, readPieces, readRange } from "../files/files.js";
import { readSaves, type Wants } from "./read-saves.js";
import { SaveOffsets, type Span } from "./save-offsets.js";
import { type Seal, sealOf } from "./save-rows.js";
import { walkBack } from "./walk.js";

/** The half of a journal that only reads. */
export abstract class JournalView {
  readonly branch: BranchId;
  readonly path: string;
  readonly #writes: boolean;
  protected fd: number | undefined;
  protected inode = 0;
  protected spans = new SaveOffsets();
  /** Whether all saves from the first on are in `spans`. */
  protected toBeginning = true;
  /** Behind the last save that counts, behind the last whole seal, and behind all. */
  protected lastEnd = 0;
  protected whole = 0;
  protected size = 0;

  constructor(branch: BranchId, path: string, writes: boolean) {
    this.branch = branch;
    this.path = path;
    this.#writes = writes;
  }

  /** Looks again at what is there. A writer is the only one who changes it, and looks once. */
  look(version: number): void {
    if (this.fd !== undefined && this.#writes) return;
    const found = lstatSync(this.path, { throwIfNoEntry: false });
    if (found === undefined) return this.close();
    try {
      if (
        this.fd === undefined ||
        found.ino !== this.inode ||
        found.size < this.size ||
        this.#wasRewritten(found)
      )
        this.#open();
      else if (found.size === this.size && this.whole === this.lastEnd) return;
      else this.size = found.size;
      this.#findEnd(version);
    } catch (error) {
      // Else the next look would find a journal that is open and seems to have no saves.
      this.close();
      throw error;
    }
  }

  /** Cut and grown again since: what stands where the last save was found is another. */
  #wasRewritten({ size }: Stats): boolean {
    const last = this.spans.last();
    if (size === this.size || last === undefined) return false;
    return sealOf(readRange(this.fd as number, last.seal, last.end - 1))?.seq !== last.seq;
  }

  #open(): void {
    this.close();
    const opened = openFile(this.path, this.#writes ? "write" : "read");
    if (opened === undefined) return;
    this.fd = opened.fd;
    this.inode = opened.stat.ino;
    this.size = opened.stat.size;
    this.toBeginning = false;
  }

  #findEnd(version: number): void {
    if (this.fd === undefined) return;
    const fd = this.fd;
    const isFirst = this.spans.length === 0;
    const found: Span[] = [];
    let whole: number | undefined;
    const toBeginning = walkBack(fd, this.size, this.lastEnd, (seal, span) => {
      if (whole === undefined && isTorn(fd, span)) return true;
      whole ??= span.end;
      if (found.length === 0 && (seal.more || (seal.with !== undefined && seal.with > version)))
        return true;
      found.push(span);
      return !isFirst;
    });
    for (const span of found.toReversed()) this.spans.push(span);
    if (isFirst) this.toBeginning = toBeginning;
    this.lastEnd = found[0]?.end ?? this.lastEnd;
    this.whole = whole ?? this.lastEnd;
  }

  /** Walks back as long as `wants` says of the oldest save found so far that it wants more. */
  protected reach(wants: (oldest: number) => boolean): void {
    if (this.toBeginning || this.fd === undefined) return;
    const oldest = this.spans.first();
    if (oldest !== undefined && !wants(oldest.seq)) return;
    this.toBeginning = walkBack(this.fd, oldest?.start ?? this.lastEnd, 0, (_, span) => {
      this.spans.unshift(span);
      return wants(span.seq);
    });
  }

  /**
   * Comes nearer to the save with this number, by so many at once. Answers whether it is there:
   * then no read has to go far for it.
   */
  approach(seq: number, most: number): boolean {
    let left = most;
    this.reach((oldest) => oldest >= seq && left-- > 0);
    return this.toBeginning || this.fd === undefined || (this.spans.first()?.seq ?? 0) < seq;
  }

  /** How many saves have been found so far. */
  get length(): number {
    return this.spans.length;
  }

  /** The number of its last record, or undefined where there is no save. */
  get tail(): number | undefined {
    return this.spans.lastSeq;
  }

  /** Whether there are so many saves, and no more. */
  hasOnly(count: number): boolean {
    this.reach(() => this.spans.length <= count);
    return this.spans.length === count;
  }

  /** Whether saves stand at its end that do not count yet (VIEW-2). */
  get hasUncommitted(): boolean {
    return this.whole > this.lastEnd;
  }

  /** Bytes behind the last whole seal: a save that was cut short, or damage. */
  get strayBytes(): number {
    return this.whole === 0 && this.#isHeaderOnly() ? 0 : this.size - this.whole;
  }

  #isHeaderOnly(): boolean {
    if (this.fd === undefined || this.size === 0 || this.size > 100_000) return this.size === 0;
    const text = readRange(this.fd, 0, this.size).toString();
    return text.startsWith('{"branch":') && text.indexOf("\n") === text.length - 1;
  }

  /** The last save, without items and state. */
  last(): Save | undefined {
    const span = this.spans.last();
    return span && this.readSpans([span], { items: false, state: false })[0]?.save;
  }

  /** The seal of the first save that ends at this number or a higher one. */
  sealAt(seq: number): Seal | undefined {
    this.reach((oldest) => oldest >= seq);
    const at = this.spans.indexOf(seq);
    return at < this.spans.length ? this.sealIn(this.spans.at(at)) : undefined;
  }

  /**
   * The saves that hold any of the records asked for. Where some are missing, the one behind them
   * is given too: its numbers tell. `begins` is the number of the branch's first record: nothing is
   * missing before that.
   */
  read({ from, to, limit, newestFirst, items, state }: SaveQuery, begins: number): Save[] {
    const spans = newestFirst ? this.downFrom(to, from, limit) : this.upFrom(from, to, limit);
    const saves: Save[] = [];
    for (const { save } of this.readSpans(spans, { items, state })) {
      if (to < begins && firstSeq(save) === begins) break;
      saves.push(save);
    }
    return saves;
  }

  protected upFrom(from: number, to: number, limit: number): Span[] {
    this.reach((oldest) => oldest >= from);
    const spans: Span[] = [];
    for (let i = this.spans.indexOf(from); i < this.spans.length && spans.length < limit; i++) {
      const span = this.spans.at(i);
      spans.push(span);
      if (span.seq >= to) break;
    }
    return spans;
  }

  protected downFrom(to: number, from: number, limit: number): Span[] {
    this.reach((oldest) => oldest >= to);
    const behind = this.spans.length - 1 - Math.min(this.spans.indexOf(to), this.spans.length - 1);
    this.reach((oldest) => oldest >= from && this.spans.length - behind < limit);
    const spans: Span[] = [];
    for (let i = this.spans.length - 1 - behind; i >= 0 && spans.length < limit; i--) {
      const span = this.spans.at(i);
      if (span.seq < from) break;
      spans.push(span);
    }
    return spans;
  }

  /** The seals of the saves that end at this number or higher ones, oldest first. */
  seals(from: number, limit: number): readonly Seal[] {
    return this.readSpans(this.upFrom(from, Number.MAX_SAFE_INTEGER, limit), {
      items: false,
      state: false,
    }).map(({ seal }) => seal);
  }

  protected readSpans(
    spans: readonly Span[],
    wants: Wants,
  ): { readonly save: Save; readonly seal: Seal }[] {
    return spans.length === 0 ? [] : readSaves(this.fd as number, this.branch, spans, wants);
  }

  protected sealIn({ seal, end }: Span): Seal {
    const found = sealOf(readRange(this.fd as number, seal, end - 1));
    if (found === undefined) throw this.damaged("was changed while it was read");
    return found;
  }

  /** Whether the file that is open here still stands at its path. */
  get isInPlace(): boolean {
    if (this.fd === undefined) return true;
    try {
      return lstatSync(this.path, { throwIfNoEntry: false })?.ino === this.inode;
    } catch {
      // The system does not let us see it: that says nothing of the file.
      return true;
    }
  }

  damaged(what: string): HoldfastError {
    return new HoldfastError(
      "CORRUPT",
      `The journal of branch ${this.branch} (${quote(this.path)}) ${what}. Run verify to see what else is damaged; other sessions are not touched.`,
      { branch: this.branch, path: this.path },
    );
  }

  /** The newest saves behind a number, at most `limit`, newest first. */
  newest(after: number, limit: number): Seal[] {
    return this.downFrom(Number.MAX_SAFE_INTEGER, after + 1, limit).map((span) =>
      this.sealIn(span),
    );
  }

  /** Whether the save before the last `count` counts only with those behind it (VIEW-2). */
  isInGroup(count: number): boolean {
    this.reach(() => this.spans.length <= count);
    return (
      count > 0 &&
      count < this.spans.length &&
      this.sealIn(this.spans.at(this.spans.length - count - 1)).more === true
    );
  }

  get end(): number {
    return this.lastEnd;
  }

  close(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
    this.spans = new SaveOffsets();
    this.lastEnd = this.whole = this.size = 0;
    this.toBeginning = true;
  }
}

/**
 * Whether a save at the very end was written in part: after a power cut, a page that was never
 * written reads as zeros, which no text holds. Two of them, because one changed bit can make one of
 * a space.
 */
function isTorn(fd: number, { start, seal }: Span): boolean {
  let endsWithZero = false;
  for (const piece of readPieces(fd, start, seal)) {
    if ((endsWithZero && piece[0] === 0) || piece.includes("\0\0")) return true;
    endsWithZero = piece.at(-1) === 0;
  }
  return false;
}
