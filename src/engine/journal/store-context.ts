/** What every part of an open store shares. */
import type { Owner } from "../../core/sessions/lease.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type BranchId, branchId, drawnSessionId, type SessionId } from "../../core/values/ids.js";
import type { Store } from "../../store/port.js";
import type { InboxDoc } from "../records/rows.js";
import { onAbort } from "../util/abort-signals.js";
import { Salts } from "../util/salts.js";
import { SharedReads } from "../util/shared-reads.js";
import { Journal } from "./journal.js";
import { LeaseKeeper } from "./lease-keeper.js";
import { Loader } from "./loader.js";
import { otherMessage, type PostOptions, tryPost } from "./post-inbox.js";
import type { Redactor } from "./redactor.js";
import type { Telemetry } from "./telemetry.js";
import { Watchers } from "./watchers.js";

/**
 * The wall clock, for the times that people see.
 * Order and leases never depend on it.
 */
export interface Clock {
  /** Answer the milliseconds since 1970. */
  now(): number;
}

/** What a runtime needs to know of the machine; the composition root brings it. */
export interface Machine {
  readonly self: Owner;
  isDead(owner: Owner, oneMachine: boolean): boolean;
  /** Tells that `self` holds nothing any more, whatever leases say that it could not let go of. */
  leave(): void;
}

export class StoreContext {
  readonly store: Store;
  readonly journal: Journal;
  readonly loader: Loader;
  readonly machine: Machine;
  readonly leaseMs: number;
  readonly telemetry: Telemetry | undefined;
  /** What every text is run through before it is staged or posted; undefined where nothing is. */
  readonly redactor: Redactor | undefined;
  readonly salts = new Salts();
  readonly keeper: LeaseKeeper;
  readonly watchers: Watchers;
  /** Reads of those who follow sessions. */
  readonly reads = new SharedReads();
  /**
   * Branches that are just being brought in here, by each import: they belong to nobody yet, and
   * are not to be freed.
   */
  readonly imports = new Set<ReadonlySet<string>>();
  /** Agents whose record is known to be there. */
  readonly knownAgents = new Set<string>();
  /**
   * Calls that are under way here, by their id, and how many attempts at each: one whose time is up
   * may still be at it.
   */
  readonly running = new Map<string, number>();
  /**
   * Called when a session was let go of here, with the inbox messages that were left there: another
   * may have come to it at the last moment.
   */
  released: (session: SessionId, left?: ReadonlySet<string>) => Promise<void> = async () => {};
  /**
   * Takes in what was posted from here and waits for a moment, before sessions are read as a whole.
   */
  takeInPosted: () => Promise<void> = async () => {};
  readonly #clock: Clock;
  readonly #posting = new Set<Promise<void>>();
  #storeClock: { readonly at: number; readonly now: number } | undefined;
  #generation: string | undefined;
  #isClosed = false;

  constructor(
    store: Store,
    machine: Machine,
    clock: Clock,
    leaseMs: number,
    telemetry?: Telemetry,
    redactor?: Redactor,
  ) {
    this.store = store;
    this.machine = machine;
    this.#clock = clock;
    this.leaseMs = leaseMs;
    this.telemetry = telemetry;
    this.redactor = redactor;
    this.watchers = new Watchers(store);
    this.journal = new Journal(store);
    this.loader = new Loader(store, this.journal);
    this.keeper = new LeaseKeeper(store, () => this.now());
    const { gone } = store;
    if (gone) onAbort(gone, () => this.#lost(gone.reason as HoldfastError));
  }

  /** Refuse public calls from now on. The store itself may still be needed to end what is open. */
  closes(): void {
    this.#isClosed = true;
  }

  /** Throw CLOSED in a closed store. For public calls that may answer without asking the store. */
  usable(): void {
    if (this.#isClosed)
      throw new HoldfastError("CLOSED", "The store has been closed. Open it again.");
  }

  /**
   * The store's files are gone. Open sessions end. Followers are woken, and find it out; a worker
   * has no call that fails, so we warn.
   */
  #lost(error: HoldfastError): void {
    process.emitWarning(error.message, "HoldfastWarning");
    this.keeper.endAll(error);
    this.watchers.wakeAll();
  }

  /** Posts to a session, and tells who holds it, if that is somebody here. */
  async post(session: SessionId, doc: InboxDoc, o?: PostOptions): Promise<"posted" | "known"> {
    const posted = await this.tryPost(session, doc, o);
    if (posted === "conflict") throw otherMessage(session, o?.id);
    return posted;
  }

  /** The same, and answers where something else was posted under its id before. */
  async tryPost(
    session: SessionId,
    doc: InboxDoc,
    o?: PostOptions,
  ): Promise<"posted" | "known" | "conflict"> {
    const posted = await tryPost(this.store, session, this.redactor?.inboxMessages(doc) ?? doc, o);
    for (const holder of this.keeper.holders)
      if (holder.id === session) holder.takeInboxSoon(doc.kind);
    this.watchers.changed(session);
    return posted;
  }

  /**
   * Posts what nobody waits for. A store that is closing waits for it; where it is away, what was
   * to be said stays unknown.
   */
  postLate(session: SessionId, doc: InboxDoc, o: PostOptions): Promise<void> {
    const posting = this.post(session, doc, o).then(
      // Whoever was to hear of it may have let go before.
      () => this.released(session),
      () => {},
    );
    this.#posting.add(posting);
    void posting.then(() => this.#posting.delete(posting));
    return posting;
  }

  /** Resolves when all of that is posted. */
  async posted(): Promise<void> {
    await Promise.all(this.#posting);
  }

  /** The store's clock. */
  async now(): Promise<number> {
    const now = await this.store.now();
    this.heard(now);
    return now;
  }

  /** Somebody was told the store's clock just now, in the in-flight work of something else. */
  heard(now: number): void {
    this.#storeClock = { at: performance.now(), now };
  }

  /**
   * The same, from the last time it was asked and what has passed since: whoever holds a session
   * has asked.
   */
  nowAbout(): number {
    const { at, now } = this.#storeClock ?? { at: performance.now(), now: 0 };
    return Math.floor(now + performance.now() - at);
  }

  /** Which generation of the store this is. Asked for once: it changes under nobody's hands. */
  async learnGeneration(): Promise<string> {
    this.#generation ??= (await this.store.copies?.generation()) ?? "";
    return this.#generation;
  }

  /** The same for those who hold a session: whoever opened it has asked. */
  get generation(): string {
    return this.#generation ?? "";
  }

  /** Another one has begun. */
  inGeneration(name: string): void {
    this.#generation = name;
  }

  wallMs(): number {
    const now: unknown = this.#clock.now();
    if (typeof now !== "number" || !(Math.abs(now) <= 8.64e15)) {
      throw new HoldfastError("INVALID_OPTION", "clock: now() gave what is no time.", {
        path: "clock",
      });
    }
    return Math.floor(now);
  }

  newBranchId(): BranchId {
    return branchId(this.#random());
  }

  newSessionId(): SessionId {
    return drawnSessionId(this.wallMs(), this.#random());
  }

  #random(): Uint8Array {
    return Buffer.from(this.salts.next(), "base64url");
  }
}
