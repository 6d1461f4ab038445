/**
 * The file of one line: its saves one after another, each closed by its seal (save-rows.ts).
 *
 * K1 (D2)  what stands behind the last whole seal is no save. Readers stop before it; the writer sets it aside before it writes.
 * K2       a save whose seal says `with` counts once its session's file has reached that version, one that says `more` with the save
 *          that follows it; until then nothing else stands behind them.
 * K3       a file changes in place only at its end. To change what stands before, it is written anew and exchanged.
 * K4       a file whose sync failed is not synced again, but written anew by the next writer (unsynced.ts).
 */
import { closeSync, fstatSync, ftruncateSync, lstatSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { firstSeq, type Save } from "../../../core/journal/save.js";
import type { Digest } from "../../../core/values/digest.js";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { LineId } from "../../../core/values/ids.js";
import type { SaveQuery } from "../../port/queries.js";
import type { Replacement } from "../../port/reclaim.js";
import { codeOf, Unsure } from "../files/failures.js";
import {
  addFile,
  changeDirectory,
  createFile,
  OpenDirectory,
  openFile,
  readPieces,
  readRange,
  remove,
  syncDirectory,
  syncFile,
  writeAll,
} from "../files/files.js";
import type { Unsynced } from "../files/unsynced.js";
import { readSaves, type Wants } from "./read-saves.js";
import { type Piece, Redraft } from "./redraft.js";
import { bytesBefore, isAsRead, type Seal, saveText, sealOf } from "./save-rows.js";
import { type Span, Spans } from "./spans.js";
import { walkBack } from "./walk.js";

const MORE = { more: true } as const;

/** How a journal stood: where it ended, and the row of the seal that stood there. */
interface Moment {
  readonly end: number;
  readonly seal: Buffer;
}

export type DraftOf = Redraft & { readonly of: Moment };

export interface Sealed {
  readonly save: Save;
  readonly refs: readonly Digest[];
}

export class JournalFile {
  readonly line: LineId;
  readonly path: string;
  readonly #writes: boolean;
  readonly #unsynced: Unsynced;
  #fd: number | undefined;
  #inode = 0;
  #spans = new Spans();
  /** Whether all saves from the first on are in `#spans`. */
  #toBeginning = true;
  /** Behind the last save that counts, behind the last whole seal, and behind all. */
  #end = 0;
  #whole = 0;
  #size = 0;
  /** The directory of a file that is new, until both were synced. */
  #directory: OpenDirectory | undefined;

  constructor(line: LineId, path: string, { writes, unsynced }: { readonly writes: boolean; readonly unsynced: Unsynced }) {
    this.line = line;
    this.path = path;
    this.#writes = writes;
    this.#unsynced = unsynced;
  }

  // ---- looking

  /** Looks again at what is there. A writer is the only one who changes it, and looks once. */
  look(version: number): void {
    if (this.#fd !== undefined && this.#writes) return;
    const found = lstatSync(this.path, { throwIfNoEntry: false });
    if (found === undefined) return this.close();
    try {
      if (this.#fd === undefined || found.ino !== this.#inode || found.size < this.#size || this.#wasRewritten(found)) this.#open();
      else if (found.size === this.#size && this.#whole === this.#end) return;
      else this.#size = found.size;
      this.#findEnd(version);
    } catch (error) {
      // Else the next look would find a journal that is open and seems to have no saves.
      this.close();
      throw error;
    }
  }

  /** Cut and grown again since: what stands where the last save was found is another. */
  #wasRewritten({ size }: Stats): boolean {
    const last = this.#spans.last();
    if (size === this.#size || last === undefined) return false;
    return sealOf(readRange(this.#fd as number, last.seal, last.end - 1))?.seq !== last.seq;
  }

  #open(): void {
    this.close();
    const opened = openFile(this.path, this.#writes ? "write" : "read");
    if (opened === undefined) return;
    this.#fd = opened.fd;
    this.#inode = opened.stat.ino;
    this.#size = opened.stat.size;
    this.#toBeginning = false;
  }

  #findEnd(version: number): void {
    if (this.#fd === undefined) return;
    const fd = this.#fd;
    const isFirst = this.#spans.length === 0;
    const found: Span[] = [];
    let whole: number | undefined;
    const toBeginning = walkBack(fd, this.#size, this.#end, (seal, span) => {
      if (whole === undefined && isTorn(fd, span)) return true;
      whole ??= span.end;
      if (found.length === 0 && (seal.more || (seal.with !== undefined && seal.with > version))) return true;
      found.push(span);
      return !isFirst;
    });
    for (const span of found.toReversed()) this.#spans.push(span);
    if (isFirst) this.#toBeginning = toBeginning;
    this.#end = found[0]?.end ?? this.#end;
    this.#whole = whole ?? this.#end;
  }

  /** Walks back as long as `wants` says of the oldest save found so far that it wants more. */
  #reach(wants: (oldest: number) => boolean): void {
    if (this.#toBeginning || this.#fd === undefined) return;
    const oldest = this.#spans.first();
    if (oldest !== undefined && !wants(oldest.seq)) return;
    this.#toBeginning = walkBack(this.#fd, oldest?.start ?? this.#end, 0, (_, span) => {
      this.#spans.unshift(span);
      return wants(span.seq);
    });
  }

  /** Comes nearer to the save with this number, by so many at once. Answers whether it is there: then no read has to go far for it. */
  approach(seq: number, most: number): boolean {
    let left = most;
    this.#reach((oldest) => oldest >= seq && left-- > 0);
    return this.#toBeginning || this.#fd === undefined || (this.#spans.first()?.seq ?? 0) < seq;
  }

  /** How many saves have been found so far. */
  get length(): number {
    return this.#spans.length;
  }

  /** The number of its last record, or undefined where there is no save. */
  get tail(): number | undefined {
    return this.#spans.lastSeq;
  }

  /** Whether there are so many saves, and no more. */
  hasOnly(count: number): boolean {
    this.#reach(() => this.#spans.length <= count);
    return this.#spans.length === count;
  }

  /** Whether saves stand at its end that do not count yet (K2). */
  get hasUncommitted(): boolean {
    return this.#whole > this.#end;
  }

  /** Bytes behind the last whole seal: a save that was cut short, or damage. */
  get strayBytes(): number {
    return this.#whole === 0 && this.#isHeaderOnly() ? 0 : this.#size - this.#whole;
  }

  #isHeaderOnly(): boolean {
    if (this.#fd === undefined || this.#size === 0 || this.#size > 100_000) return this.#size === 0;
    const text = readRange(this.#fd, 0, this.#size).toString();
    return text.startsWith('{"line":') && text.indexOf("\n") === text.length - 1;
  }

  /** The last save, without items and state. */
  last(): Save | undefined {
    const span = this.#spans.last();
    return span && this.#read([span], { items: false, state: false })[0]?.save;
  }

  /** The seal of the first save that ends at this number or a higher one. */
  sealAt(seq: number): Seal | undefined {
    this.#reach((oldest) => oldest >= seq);
    const at = this.#spans.indexOf(seq);
    return at < this.#spans.length ? this.#sealIn(this.#spans.at(at)) : undefined;
  }

  /**
   * The saves that hold any of the records asked for. Where some are missing, the one behind them is given too: its numbers tell. `begins`
   * is the number of the line's first record: nothing is missing before that.
   */
  read({ from, to, limit, newestFirst, items, state }: SaveQuery, begins: number): Save[] {
    const spans = newestFirst ? this.#downFrom(to, from, limit) : this.#upFrom(from, to, limit);
    const saves: Save[] = [];
    for (const { save } of this.#read(spans, { items, state })) {
      if (to < begins && firstSeq(save) === begins) break;
      saves.push(save);
    }
    return saves;
  }

  #upFrom(from: number, to: number, limit: number): Span[] {
    this.#reach((oldest) => oldest >= from);
    const spans: Span[] = [];
    for (let i = this.#spans.indexOf(from); i < this.#spans.length && spans.length < limit; i++) {
      const span = this.#spans.at(i);
      spans.push(span);
      if (span.seq >= to) break;
    }
    return spans;
  }

  #downFrom(to: number, from: number, limit: number): Span[] {
    this.#reach((oldest) => oldest >= to);
    const behind = this.#spans.length - 1 - Math.min(this.#spans.indexOf(to), this.#spans.length - 1);
    this.#reach((oldest) => oldest >= from && this.#spans.length - behind < limit);
    const spans: Span[] = [];
    for (let i = this.#spans.length - 1 - behind; i >= 0 && spans.length < limit; i--) {
      const span = this.#spans.at(i);
      if (span.seq < from) break;
      spans.push(span);
    }
    return spans;
  }

  /** The seals of the saves that end at this number or higher ones, oldest first. */
  seals(from: number, limit: number): readonly Seal[] {
    return this.#read(this.#upFrom(from, Number.MAX_SAFE_INTEGER, limit), { items: false, state: false }).map(({ seal }) => seal);
  }

  #read(spans: readonly Span[], wants: Wants): { readonly save: Save; readonly seal: Seal }[] {
    return spans.length === 0 ? [] : readSaves(this.#fd as number, this.line, spans, wants);
  }

  #sealIn({ seal, end }: Span): Seal {
    const found = sealOf(readRange(this.#fd as number, seal, end - 1));
    if (found === undefined) throw this.damaged("was changed while it was read");
    return found;
  }

  damaged(what: string): HoldfastError {
    return new HoldfastError(
      "CORRUPT",
      `The journal of line ${this.line} (${quote(this.path)}) ${what}. Run verify to see what else is damaged; other sessions are not touched.`,
      { line: this.line, path: this.path },
    );
  }

  // ---- writing

  /** Takes back saves that were written for a change that was never made (K2). */
  dropUncommitted(): void {
    if (this.#fd === undefined || this.#whole === this.#end || this.#size !== this.#whole) return;
    this.#truncate(this.#end);
    this.#sync();
  }

  /** K1: all that does not count. Answers the name of the file that has it now. */
  setAside(): string {
    const fd = this.#fd as number;
    const path = this.path.replace(/\.jsonl$/, "");
    let n = 1;
    while (!addFile(`${path}.tail-${n}`, readPieces(fd, this.#end, this.#size))) n += 1;
    this.#truncate(this.#end);
    this.#sync();
    return `${path}.tail-${n}`;
  }

  /** Appends saves in one write; `sync` makes them last. Where that fails nothing is left of them. */
  append(saves: readonly Sealed[], version: number | undefined, header: () => string): void {
    const last = saves.length - 1;
    // Where its session's file says when they count, it says so for all of them.
    const waits = (i: number) => (version !== undefined ? { with: version } : i < last ? MORE : undefined);
    const texts = saves.map(({ save, refs }, i) => saveText(save, refs, waits(i)));
    const before = this.#end === 0 ? `${header()}\n` : "";
    const body = Buffer.from(texts.length === 1 ? before + texts[0]?.text : before + texts.map(({ text }) => text).join(""));
    if (this.#fd === undefined) this.#create();
    const from = this.#end;
    try {
      writeAll(this.#fd as number, body, from);
    } catch (error) {
      this.#size = from + body.length;
      this.cutBack(from);
      throw error;
    }
    let start = from + Buffer.byteLength(before);
    for (const [i, { seal, text }] of texts.entries()) {
      const bytes = texts.length === 1 ? from + body.length - start : Buffer.byteLength(text);
      const { items, state, mark } = bytesBefore(seal);
      const end = start + bytes;
      const sealAt = start + items + state + mark;
      this.#spans.push({ seq: (saves[i] as Sealed).save.seq, start, state: start + items, mark: start + items + state, seal: sealAt, end });
      start = end;
    }
    this.#end = this.#whole = this.#size = from + body.length;
  }

  /** Whether the file that is open here still stands at its path. */
  get isInPlace(): boolean {
    if (this.#fd === undefined) return true;
    try {
      return lstatSync(this.path, { throwIfNoEntry: false })?.ino === this.#inode;
    } catch {
      // The system does not let us see it: that says nothing of the file.
      return true;
    }
  }

  #create(): void {
    this.#directory = new OpenDirectory(dirname(this.path));
    try {
      this.#fd = createFile(this.path);
      this.#inode = fstatSync(this.#fd).ino;
      this.#toBeginning = true;
    } catch (error) {
      const isMade = this.#fd !== undefined;
      this.close();
      // Else the next write would find a file that is there, and whose directory was never synced.
      if (isMade) remove(this.path);
      throw error;
    }
  }

  get end(): number {
    return this.#end;
  }

  /** Takes back what was appended behind `end`. */
  cutBack(end: number): void {
    try {
      this.#truncate(end);
    } catch (error) {
      throw new Unsure(error);
    }
    // A cut that a power failure takes back would bring a refused save to count.
    this.#sync();
  }

  /** The file to be synced, or undefined where its directory must be as well: then `sync` does both. */
  get fdToSync(): number | undefined {
    return this.#directory === undefined ? this.#fd : undefined;
  }

  /** K4 */
  failedToSync(): void {
    this.#unsynced.add(this.path);
  }

  #sync(): void {
    try {
      syncFile(this.#fd as number);
    } catch (error) {
      this.failedToSync();
      throw error;
    }
  }

  sync(): void {
    if (this.#fd === undefined) return;
    this.#sync();
    this.#directory?.sync();
    this.#closeDirectory();
  }

  #closeDirectory(): void {
    this.#directory?.close();
    this.#directory = undefined;
  }

  #truncate(end: number): void {
    this.#shorten(end);
    let count = this.#spans.length;
    while (count > 0 && this.#spans.at(count - 1).end > end) count -= 1;
    this.#spans.keep(count);
    if (this.#end > end) this.#end = end;
    this.#whole = Math.min(this.#whole, end);
    this.#size = end;
  }

  #shorten(end: number): void {
    try {
      ftruncateSync(this.#fd as number, end);
    } catch (error) {
      // Where the disk failed, no look tells how much of the file it has cut.
      throw codeOf(error) === "EIO" ? new Unsure(error) : error;
    }
  }

  /** The newest saves behind a number, at most `limit`, newest first. */
  newest(after: number, limit: number): Seal[] {
    return this.#downFrom(Number.MAX_SAFE_INTEGER, after + 1, limit).map((span) => this.#sealIn(span));
  }

  /** Whether the save before the last `count` counts only with those behind it (K2). */
  isInGroup(count: number): boolean {
    this.#reach(() => this.#spans.length <= count);
    return count > 0 && count < this.#spans.length && this.#sealIn(this.#spans.at(this.#spans.length - count - 1)).more === true;
  }

  /**
   * Makes the save before the last `count` one that counts by itself, where it counts only with those behind it (K2): they are to go.
   * Answers whether the file was exchanged for that, and has to be looked at again.
   */
  endGroupBefore(count: number): boolean {
    this.#reach(() => this.#spans.length <= count);
    if (count === 0 || count >= this.#spans.length) return false;
    const span = this.#spans.at(this.#spans.length - count - 1);
    const { more, refs = [] } = this.#sealIn(span);
    const [kept] = more ? this.#read([span], { items: true, state: true }) : [];
    if (kept === undefined) return false;
    return this.rewrite([{ save: kept.save, refs, was: [kept.save] }]);
  }

  /** Empties what a change that was never made has left under the name of a line that is new. */
  clear(): void {
    if (this.#fd === undefined || this.#size === 0) return;
    this.#truncate(0);
    this.#sync();
    this.#toBeginning = true;
  }

  /** What a killed process wrote last may be in memory only: whoever builds on it syncs it first. */
  syncOnce(): void {
    if (this.#fd === undefined || this.#directory !== undefined) return;
    this.#sync();
    syncDirectory(dirname(this.path));
  }

  /** Takes the last saves away. */
  dropLast(count: number): void {
    if (count === 0) return;
    this.#reach(() => this.#spans.length < count);
    const first = this.#spans.at(this.#spans.length - count);
    this.#truncate(first.start);
    // With nothing left before it, the next append writes its header again.
    if (this.#spans.length === 0 && this.#toBeginning) this.#truncate(0);
    this.#sync();
  }

  /**
   * K3: saves in the place of others. What stands between and beside them is copied as it is, damage too. False where what is there is not
   * what was read: then nothing is changed.
   */
  rewrite(replacements: readonly Replacement[]): boolean {
    const redraft = this.redraft(replacements);
    try {
      if (!redraft?.copyNow()) return false;
      this.exchange(redraft);
      return true;
    } finally {
      redraft?.end();
    }
  }

  /** The same in two parts: others, and other processes, may append in between. `isUnmoved` tells whether they did nothing else. */
  redraft(replacements: readonly Replacement[]): DraftOf | undefined {
    const pieces: Piece[] = [];
    let copied = 0;
    for (const { save, refs, was } of replacements.toSorted((x, y) => x.save.seq - y.save.seq)) {
      const gone = this.#upFrom(firstSeq(save), save.seq, Number.MAX_SAFE_INTEGER);
      const [first] = gone;
      if (first === undefined || gone.length !== was.length) return undefined;
      const isThere = (fd: number) =>
        gone.every(({ seal, end }, i) => {
          const found = sealOf(readRange(fd, seal, end - 1));
          return found !== undefined && isAsRead(found, was[i] as Save);
        });
      pieces.push({ from: copied, to: first.start }, { text: (fd) => (isThere(fd) ? saveText(save, refs).text : undefined) });
      copied = (gone.at(-1) as Span).end;
    }
    pieces.push({ from: copied, to: this.#end });
    const last = this.#spans.last();
    const seal = last === undefined ? Buffer.alloc(0) : readRange(this.#fd as number, last.seal, last.end);
    return Object.assign(new Redraft(this.path, pieces), { of: { end: this.#end, seal } });
  }

  /** K4: all of it, as it stands, in a file of its own. Has to be looked at again. */
  renew(): void {
    if (this.#fd === undefined) return;
    const of = { end: this.#size, seal: Buffer.alloc(0) };
    const redraft = Object.assign(new Redraft(this.path, [{ from: 0, to: this.#size }]), { of });
    try {
      redraft.copyNow();
      this.exchange(redraft);
    } finally {
      redraft.end();
    }
  }

  /**
   * Whether the file was only appended to since it was drafted, by any process, and the draft is still there. It is the same file, which the
   * draft has open, so its inode cannot be another's. Such a file changes at its end alone (K3): where the same seal stands at the same place,
   * all before it is the same, because each seal names the digest of the save before it.
   */
  isUnmoved({ inode, isThere, of: { end, seal } }: DraftOf): boolean {
    if (this.#fd === undefined || this.#inode !== inode || this.#end < end || !isThere) return false;
    return readRange(this.#fd, end - seal.length, end).equals(seal);
  }

  exchange(redraft: DraftOf): void {
    changeDirectory(dirname(this.path), () => {
      redraft.exchange(redraft.of.end, this.#end);
      // From the rename on this descriptor is of a file that is no more.
      this.close();
    });
  }

  close(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
    this.#closeDirectory();
    this.#spans = new Spans();
    this.#end = this.#whole = this.#size = 0;
    this.#toBeginning = true;
  }
}

/**
 * Whether a save at the very end was written in part: after a power cut, a page that was never written reads as zeros, which no text
 * holds. Two of them, because one changed bit can make one of a space.
 */
function isTorn(fd: number, { start, seal }: Span): boolean {
  let endsWithZero = false;
  for (const piece of readPieces(fd, start, seal)) {
    if ((endsWithZero && piece[0] === 0) || piece.includes("\0\0")) return true;
    endsWithZero = piece.at(-1) === 0;
  }
  return false;
}
