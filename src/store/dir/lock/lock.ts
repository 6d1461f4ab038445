/**
 * Who writes: one process at a time. It keeps the lock for as long as it needs it (lock-tenure.ts).
 *
 * LOCK-1  a lock is a file lock-<n>.json. It is taken by linking a draft to the next number: the
 *         system lets one be first.
 * LOCK-2  a number is never used again. The holder releases its lock by a second name for its file,
 *         lock-<n>.free.json, which needs neither room nor a descriptor. Only a later holder
 *         removes the two.
 * LOCK-3  a lock is free if its holder released it, or is proven dead: on this machine, and of
 *         another boot, or a process that has ended. Another machine, another container, or doubt:
 *         it is not.
 * LOCK-4  a process that waits for the lock says so (lock-queue.ts). The holder looks whether one
 *         waits, and releases the lock.
 * LOCK-5  of those who wait the first takes the lock, and a process that has released it waits
 *         behind them.
 * LOCK-6  a call that fails while the lock is taken leaves it held here, or free. A living process
 *         that does not know that it holds the lock would lock out all others, and itself.
 *
 * The names need not outlive a power cut, which ends every holder. The content does: a lock that
 * says nothing is not free.
 */
import { linkSync, lstatSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describeOwner, type Owner } from "../../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import { thisMachine } from "../../machine.js";
import { identityOf, isMoved } from "../../presence.js";
import { isUnseen } from "../files/failures.js";
import { addFile, checkDirectory, isDraft, namesIn, readFile, remove } from "../files/files.js";
import { isAwaited, QueuePlace } from "./lock-queue.js";

interface Holder {
  readonly owner: Owner;
  readonly host: string;
  readonly machine: string;
}

/** The newest lock there is; number 0 where there is none. */
interface Newest {
  readonly number: number;
  readonly isFree: boolean;
  readonly holder: Holder | undefined;
}

const NAME = /^lock-([1-9][0-9]{0,14})(\.free)?\.json$/;
/**
 * How long a free lock is left to those who have waited longer: many times as long as they sleep.
 */
const YIELD_MS = 200;

export class Lock {
  readonly #root: string;
  readonly #machine = thisMachine();
  #number: number | undefined;
  #identity = "";
  #isAgain = false;

  constructor(root: string) {
    this.#root = root;
  }

  /** The number of the lock that is held here, or 0. */
  get number(): number {
    return this.#number ?? 0;
  }

  /** Whether the lock before the one that is held here was held here too. */
  get isAgain(): boolean {
    return this.#isAgain;
  }

  /** LOCK-4: whether another process waits for the lock that is held here. */
  get isWanted(): boolean {
    return this.#number !== undefined && isAwaited(this.#root);
  }

  look(): Newest {
    const { number, isReleased } = this.#newest();
    const holder = number === 0 ? undefined : this.#read(number);
    // LOCK-6: one that was linked here, and could be neither taken nor removed.
    const isLeft = this.#number === undefined && this.#isOwn(holder);
    return {
      number,
      isFree: number === 0 || isReleased || isLeft || isFree(holder, this.#machine.isDead),
      holder,
    };
  }

  #isOwn(holder: Holder | undefined): boolean {
    return holder?.owner?.nonce === this.#machine.self.nonce;
  }

  #newest(): { readonly number: number; readonly isReleased: boolean } {
    let [number, isReleased] = [0, false];
    for (const name of namesIn(this.#root)) {
      const [, found, free] = NAME.exec(name) ?? [];
      if (found === undefined || Number(found) < number) continue;
      isReleased = free !== undefined || (isReleased && Number(found) === number);
      number = Number(found);
    }
    return { number, isReleased };
  }

  /** Takes the lock, or asks for it and waits. */
  async take(busyMs: number): Promise<void> {
    if (this.#number !== undefined && !this.#isReleased(this.#number)) return;
    this.#number = undefined;
    const place = new QueuePlace(this.#root);
    const began = performance.now();
    let free = { number: -1, since: 0 };
    try {
      place.clear();
      for (;;) {
        const newest = this.look();
        const ahead = place.ahead();
        const now = performance.now();
        const isLate = now - began >= busyMs;
        if (newest.isFree) {
          if (newest.number !== free.number) free = { number: newest.number, since: now };
          const isPassed = now - free.since >= YIELD_MS;
          if (isPassed) place.pass(ahead);
          if ((ahead.length === 0 || isPassed || isLate) && this.#tryTake(newest)) return;
          if (!checkDirectory(this.#root))
            throw new HoldfastError("IO", `${quote(this.#root)} is gone.`);
        }
        if (isLate) throw this.#busy(newest);
        place.take();
        await sleep(ahead.length === 0 ? 2 : 5 + Math.random() * 10);
      }
    } finally {
      // LOCK-6: one that stays is removed as that of a process which does not come.
      attempt(() => place.leave());
    }
  }

  #tryTake(before: Newest): boolean {
    const number = before.number + 1;
    if (!this.#add(number)) return false;
    const identity = this.#confirm(number);
    if (identity === undefined) return false;
    this.#isAgain = this.#isOwn(before.holder);
    this.#number = number;
    this.#identity = identity;
    // LOCK-6: the next holder removes what stays.
    attempt(() => this.#clearAway(number));
    return true;
  }

  /**
   * The identity of the lock that was just linked here. Undefined where it does not count: then it
   * is gone.
   */
  #confirm(number: number): string | undefined {
    let identity = "";
    try {
      // A process that was slow may have linked a number that others took and removed long ago.
      if (this.#newest().number === number) identity = identityOf(this.#path(number));
    } finally {
      if (identity === "") attempt(() => remove(this.#path(number)));
    }
    return identity === "" ? undefined : identity;
  }

  #clearAway(number: number): void {
    for (const name of namesIn(this.#root)) {
      const older = Number(NAME.exec(name)?.[1] ?? number) < number;
      // Drafts of those who were killed, and perhaps of one who is just trying: it will find that
      // it has to wait.
      if (older || (isDraft(name) && name.startsWith("lock-"))) remove(join(this.#root, name));
    }
  }

  #add(number: number): boolean {
    try {
      return addFile(this.#path(number), this.#text(), { lasting: false });
    } catch (error) {
      // The draft was cleared away by one who was first.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      // Linked, and what came after failed: it must not stand in our own way.
      attempt(() => {
        if (this.#isOwn(this.#read(number))) remove(this.#path(number));
      });
      throw error;
    }
  }

  /**
   * The path of the lock that is held here, where it is no longer our file: then others may be
   * writing.
   */
  findMoved(): string | undefined {
    const path = this.#number === undefined ? undefined : this.#path(this.#number);
    return path !== undefined && isMoved(path, this.#identity) ? path : undefined;
  }

  #text(): string {
    const holder: Holder = { owner: this.#machine.self, host: hostname(), machine: machineId() };
    return `${JSON.stringify(holder)}\n`;
  }

  /** LOCK-2 */
  release(): void {
    if (this.#number === undefined) return;
    try {
      linkSync(this.#path(this.#number), this.#path(this.#number, ".free"));
    } catch (error) {
      // Where the disk failed it may have been released all the same: from then on others write.
      if (!this.#isReleased(this.#number)) throw error;
    }
    this.#number = undefined;
  }

  #isReleased(number: number): boolean {
    return lstatSync(this.#path(number, ".free"), { throwIfNoEntry: false }) !== undefined;
  }

  /**
   * For the end of the store, also where the lock could not be released: its holder writes no more.
   */
  leave(): void {
    this.#machine.leave();
  }

  #read(number: number): Holder | undefined {
    try {
      return JSON.parse(readFile(this.#path(number))?.toString() ?? "") as Holder;
    } catch (error) {
      if (isUnseen(error)) throw error;
      return undefined;
    }
  }

  #busy({ number, holder }: Newest): HoldfastError {
    const who =
      holder?.owner === undefined
        ? "an unknown process"
        : `${describeOwner(holder.owner)} on ${quote(String(holder.host))}`;
    return new HoldfastError(
      "BUSY",
      `The store is being written by ${who}, which has not released the lock in time. Try again, or end that process. If it is gone for good, remove ${quote(this.#path(number))}.`,
      { holder: who },
    );
  }

  #path(number: number, what: "" | ".free" = ""): string {
    return join(this.#root, `lock-${number}${what}.json`);
  }
}

/** LOCK-3 */
function isFree(
  holder: Holder | undefined,
  isDead: (owner: Owner, oneMachine: boolean) => boolean,
): boolean {
  if (holder === undefined || typeof holder !== "object") return false;
  return (
    holder.host === hostname() &&
    holder.machine === machineId() &&
    typeof holder.owner === "object" &&
    isDead(holder.owner, true)
  );
}

/** Does what is no harm where it fails. */
function attempt(run: () => void): void {
  try {
    run();
  } catch {}
}

let knownMachine: string | undefined;

/** The name a system gave itself when it was set up; empty where it has none. */
function machineId(): string {
  if (knownMachine === undefined) {
    try {
      knownMachine = readFileSync("/etc/machine-id", "utf8").trim();
    } catch {
      knownMachine = "";
    }
  }
  return knownMachine;
}
