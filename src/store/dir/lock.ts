/**
 * Who writes: one process at a time, which keeps the lock until it closes the store.
 *
 * O1  a lock is a file lock-<n>.json. It is taken by linking a draft to the next number: the system lets one be first.
 * O2  a number is never used again: whoever lets go says so in the file, and only a later holder removes it.
 * O3  a lock is free if its holder let go, or is proven dead: on this machine, and of another boot, or a process that has ended. Another
 *     machine, another container, or doubt: it is not.
 */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, quote } from "../../core/errors.js";
import { describeOwner, type Owner } from "../../core/lease.js";
import { thisMachine } from "../machine.js";
import { identityOf, isMoved } from "../presence.js";
import { isUnreadable, translate } from "./failures.js";
import { addFile, checkDirectory, isDraft, namesIn, putFile, readFile, remove } from "./files.js";

interface Holder {
  readonly owner: Owner;
  readonly host: string;
  readonly machine: string;
  readonly released: boolean;
}

const NAME = /^lock-([1-9][0-9]{0,14})\.json$/;

export class Lock {
  readonly #root: string;
  readonly #machine = thisMachine();
  #number: number | undefined;
  #identity = "";

  constructor(root: string) {
    this.#root = root;
  }

  get isHeld(): boolean {
    return this.#number !== undefined;
  }

  /** The number of the lock that is held here, or 0. */
  get number(): number {
    return this.#number ?? 0;
  }

  /** The highest number there is, and whether somebody may hold it. */
  look(): { readonly number: number; readonly isFree: boolean } {
    const number = this.#highest();
    return { number, isFree: number === 0 || isFree(this.#read(number), this.#machine.isDead) };
  }

  /** Takes the lock, or waits for it. */
  async take(busyMs: number): Promise<void> {
    if (this.#number !== undefined) return;
    const deadline = performance.now() + busyMs;
    for (;;) {
      const number = this.#highest();
      const holder = number === 0 ? undefined : this.#read(number);
      if (number === 0 || isFree(holder, this.#machine.isDead)) {
        if (this.#tryTake(number + 1)) return;
        if (!checkDirectory(this.#root)) throw new HoldfastError("IO", `${quote(this.#root)} is gone.`);
      }
      if (performance.now() >= deadline) throw this.#busy(number, holder);
      await sleep(2 + Math.random() * 18);
    }
  }

  #tryTake(number: number): boolean {
    if (!this.#add(number)) return false;
    // Whoever was slow may have linked a number that others took and removed long ago.
    if (this.#highest() !== number) {
      remove(this.#path(number));
      return false;
    }
    this.#number = number;
    this.#identity = identityOf(this.#path(number));
    for (const name of namesIn(this.#root)) {
      const older = Number(NAME.exec(name)?.[1] ?? number) < number;
      // Drafts of those who were killed, and perhaps of one who is just trying: it will find that it has to wait.
      if (older || (isDraft(name) && name.startsWith("lock-"))) remove(join(this.#root, name));
    }
    return true;
  }

  #add(number: number): boolean {
    try {
      return addFile(this.#path(number), this.#text(false));
    } catch (error) {
      // The draft was cleared away by one who was first.
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      // Linked, and what came after failed: it must not stand in our own way.
      if (this.#read(number)?.owner?.nonce === this.#machine.self.nonce) remove(this.#path(number));
      throw translate(error);
    }
  }

  /** The path of the lock that is held here, where it is no longer our file: then others may be writing. */
  findMoved(): string | undefined {
    const path = this.#number === undefined ? undefined : this.#path(this.#number);
    return path !== undefined && isMoved(path, this.#identity) ? path : undefined;
  }

  #text(released: boolean): string {
    const holder: Holder = { owner: this.#machine.self, host: hostname(), machine: machineId(), released };
    return `${JSON.stringify(holder)}\n`;
  }

  /** O2 */
  release(): void {
    if (this.#number !== undefined) putFile(this.#path(this.#number), this.#text(true));
    this.#number = undefined;
  }

  /** For the end of the store, also where the lock could not be released: its holder writes no more. */
  leave(): void {
    this.#machine.leave();
  }

  #highest(): number {
    return namesIn(this.#root).reduce((highest, name) => Math.max(highest, Number(NAME.exec(name)?.[1] ?? 0)), 0);
  }

  #read(number: number): Holder | undefined {
    try {
      return JSON.parse(readFile(this.#path(number))?.toString() ?? "") as Holder;
    } catch (error) {
      if (isUnreadable(error)) throw translate(error);
      return undefined;
    }
  }

  #busy(number: number, holder: Holder | undefined): HoldfastError {
    const who =
      holder?.owner === undefined ? "somebody who cannot be told" : `${describeOwner(holder.owner)} on ${quote(String(holder.host))}`;
    return new HoldfastError(
      "BUSY",
      `The store is being written by ${who}, and a directory has one writing process. Let it close the store, or read only. If it is gone for good, remove ${quote(this.#path(number))}.`,
      { holder: who },
    );
  }

  #path(number: number): string {
    return join(this.#root, `lock-${number}.json`);
  }
}

/** O3 */
function isFree(holder: Holder | undefined, isDead: (owner: Owner, oneMachine: boolean) => boolean): boolean {
  if (holder === undefined || typeof holder !== "object") return false;
  if (holder.released === true) return true;
  return holder.host === hostname() && holder.machine === machineId() && typeof holder.owner === "object" && isDead(holder.owner, true);
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
