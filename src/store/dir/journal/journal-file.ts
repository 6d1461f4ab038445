/**
 * The file of one branch as it is written (journal-view.ts reads it).
 *
 * VIEW-3  a file changes in place only at its end. To change what stands before, it is written anew
 *         and exchanged.
 * VIEW-4  a file whose sync failed is not synced again, but written anew by the next writer
 *         (unsynced.ts).
 */
import { fstatSync, ftruncateSync } from "node:fs";
import { dirname } from "node:path";
import { firstSeq, type Save } from "../../../core/journal/save.js";
import type { Digest } from "../../../core/values/digest.js";
import type { BranchId } from "../../../core/values/ids.js";
import type { Replacement } from "../../port/reclaim.js";
import { codeOf, Unsure } from "../files/failures.js";
import {
  addFile,
  createFile,
  OpenDirectory,
  putFile,
  readPieces,
  readRange,
  remove,
  syncDirectory,
  syncFile,
  writeAll,
} from "../files/files.js";
import type { Unsynced } from "../files/unsynced.js";
import { JournalView } from "./journal-view.js";
import type { Span } from "./save-offsets.js";
import { bytesBefore, isAsRead, saveText, sealOf } from "./save-rows.js";

const MORE = { more: true } as const;

export interface Sealed {
  readonly save: Save;
  readonly refs: readonly Digest[];
}

export class JournalFile extends JournalView {
  readonly #unsynced: Unsynced;
  /** The directory of a file that is new, until both were synced. */
  #directory: OpenDirectory | undefined;

  constructor(
    branch: BranchId,
    path: string,
    { writes, unsynced }: { readonly writes: boolean; readonly unsynced: Unsynced },
  ) {
    super(branch, path, writes);
    this.#unsynced = unsynced;
  }

  /** Takes back saves that were written for a change that was never made (VIEW-2). */
  dropUncommitted(): void {
    if (this.fd === undefined || this.whole === this.lastEnd || this.size !== this.whole) return;
    this.#truncate(this.lastEnd);
    this.#sync();
  }

  /** VIEW-1: all that does not count. Answers the name of the file that has it now. */
  setAside(): string {
    const fd = this.fd as number;
    const path = this.path.replace(/\.jsonl$/, "");
    let n = 1;
    while (!addFile(`${path}.tail-${n}`, readPieces(fd, this.lastEnd, this.size))) n += 1;
    this.#truncate(this.lastEnd);
    this.#sync();
    return `${path}.tail-${n}`;
  }

  /**
   * Appends saves in one write; `sync` makes them last. Where that fails nothing is left of them.
   */
  append(saves: readonly Sealed[], version: number | undefined, header: () => string): void {
    const last = saves.length - 1;
    // Where its session's file says when they count, it says so for all of them.
    const waits = (i: number) =>
      version !== undefined ? { with: version } : i < last ? MORE : undefined;
    const texts = saves.map(({ save, refs }, i) => saveText(save, refs, waits(i)));
    const before = this.lastEnd === 0 ? `${header()}\n` : "";
    const body = Buffer.from(
      texts.length === 1
        ? before + texts[0]?.text
        : before + texts.map(({ text }) => text).join(""),
    );
    if (this.fd === undefined) this.#create();
    const from = this.lastEnd;
    try {
      writeAll(this.fd as number, body, from);
    } catch (error) {
      this.size = from + body.length;
      this.cutBack(from);
      throw error;
    }
    let start = from + Buffer.byteLength(before);
    for (const [i, { seal, text }] of texts.entries()) {
      const bytes = texts.length === 1 ? from + body.length - start : Buffer.byteLength(text);
      const { items, state, mark } = bytesBefore(seal);
      const end = start + bytes;
      const sealAt = start + items + state + mark;
      this.spans.push({
        seq: (saves[i] as Sealed).save.seq,
        start,
        state: start + items,
        mark: start + items + state,
        seal: sealAt,
        end,
      });
      start = end;
    }
    this.lastEnd = this.whole = this.size = from + body.length;
  }

  #create(): void {
    this.#directory = new OpenDirectory(dirname(this.path));
    try {
      this.fd = createFile(this.path);
      this.inode = fstatSync(this.fd).ino;
      this.toBeginning = true;
    } catch (error) {
      const isMade = this.fd !== undefined;
      this.close();
      // Else the next write would find a file that is there, and whose directory was never synced.
      if (isMade) remove(this.path);
      throw error;
    }
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

  /**
   * The file to be synced, or undefined where its directory must be as well: then `sync` does both.
   */
  get fdToSync(): number | undefined {
    return this.#directory === undefined ? this.fd : undefined;
  }

  /** VIEW-4 */
  failedToSync(): void {
    this.#unsynced.add(this.path);
  }

  #sync(): void {
    try {
      syncFile(this.fd as number);
    } catch (error) {
      this.failedToSync();
      throw error;
    }
  }

  sync(): void {
    if (this.fd === undefined) return;
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
    let count = this.spans.length;
    while (count > 0 && this.spans.at(count - 1).end > end) count -= 1;
    this.spans.keep(count);
    if (this.lastEnd > end) this.lastEnd = end;
    this.whole = Math.min(this.whole, end);
    this.size = end;
  }

  #shorten(end: number): void {
    try {
      ftruncateSync(this.fd as number, end);
    } catch (error) {
      // Where the disk failed, no look tells how much of the file it has cut.
      throw codeOf(error) === "EIO" ? new Unsure(error) : error;
    }
  }

  /**
   * Makes the save before the last `count` one that counts by itself, where it counts only with
   * those behind it (VIEW-2): they are to go. Answers whether the file was exchanged for that, and has
   * to be looked at again.
   */
  endGroupBefore(count: number): boolean {
    this.reach(() => this.spans.length <= count);
    if (count === 0 || count >= this.spans.length) return false;
    const span = this.spans.at(this.spans.length - count - 1);
    const { more, refs = [] } = this.sealIn(span);
    const [kept] = more ? this.readSpans([span], { items: true, state: true }) : [];
    if (kept === undefined) return false;
    return this.rewrite([{ save: kept.save, refs, was: [kept.save] }]);
  }

  /** Empties what a change that was never made has left under the name of a branch that is new. */
  clear(): void {
    if (this.fd === undefined || this.size === 0) return;
    this.#truncate(0);
    this.#sync();
    this.toBeginning = true;
  }

  /**
   * What a killed process wrote last may be in memory only: whoever builds on it syncs it first.
   */
  syncOnce(): void {
    if (this.fd === undefined || this.#directory !== undefined) return;
    this.#sync();
    syncDirectory(dirname(this.path));
  }

  /** Takes the last saves away. */
  dropLast(count: number): void {
    if (count === 0) return;
    this.reach(() => this.spans.length < count);
    const first = this.spans.at(this.spans.length - count);
    this.#truncate(first.start);
    // With nothing left before it, the next append writes its header again.
    if (this.spans.length === 0 && this.toBeginning) this.#truncate(0);
    this.#sync();
  }

  /**
   * VIEW-3: saves in the place of others. What stands between and beside them is copied as it is,
   * damage too. False where what is there is not what was read: then nothing is changed.
   */
  rewrite(replacements: readonly Replacement[]): boolean {
    const fd = this.fd as number;
    const stretches: { readonly from: number; readonly to: number; readonly text: string }[] = [];
    for (const { save, refs, was } of replacements.toSorted((x, y) => x.save.seq - y.save.seq)) {
      const gone = this.upFrom(firstSeq(save), save.seq, Number.MAX_SAFE_INTEGER);
      const [first, last] = [gone[0], gone.at(-1)];
      const isThere = ({ seal, end }: Span, i: number) => {
        const found = sealOf(readRange(fd, seal, end - 1));
        return found !== undefined && isAsRead(found, was[i] as Save);
      };
      if (!first || !last || gone.length !== was.length || !gone.every(isThere)) return false;
      stretches.push({ from: first.start, to: last.end, text: saveText(save, refs).text });
    }
    const end = this.lastEnd;
    const pieces = function* () {
      let copied = 0;
      for (const { from, to, text } of stretches) {
        yield* readPieces(fd, copied, from);
        yield Buffer.from(text);
        copied = to;
      }
      yield* readPieces(fd, copied, end);
    };
    this.#exchange(pieces());
    return true;
  }

  /** VIEW-4: all of it, as it stands, in a file of its own. Has to be looked at again. */
  renew(): void {
    if (this.fd !== undefined) this.#exchange(readPieces(this.fd, 0, this.size));
  }

  #exchange(pieces: Iterable<Uint8Array>): void {
    try {
      putFile(this.path, pieces);
    } catch (error) {
      if (error instanceof Unsure) this.close();
      throw error;
    }
    // This descriptor is of a file that is no more.
    this.close();
  }

  override close(): void {
    super.close();
    this.#closeDirectory();
  }
}
