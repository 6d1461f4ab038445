/**
 * Freeing what nothing refers to, in small steps beside everybody's work: pasts of deleted sessions
 * that no fork needs, then blobs, then room in files. Each step is safe by itself, so it may be
 * stopped, or killed, between any two.
 */
import type { BranchNode } from "../../core/retention/retention.js";
import type { Digest } from "../../core/values/digest.js";
import { forgetActed } from "../../engine/calls/deleted-calls.js";
import { cutBranches } from "../../engine/journal/cut-branches.js";
import { forgetReceipts } from "../../engine/journal/receipts.js";
import { keptOfDeleted, scrub } from "../../engine/journal/scrub.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { fixed, IN_BULK, TimeSlice, type TimeSliceOptions } from "../../engine/util/time-slice.js";
import { callback, flag, options, signalOf } from "../../engine/util/validate.js";
import { requireCapability } from "../../store/capabilities.js";
import type { StoreReclaim } from "../../store/port/reclaim.js";

export interface GcOptions {
  /** Only answers what would be freed; what only pasts that would go refer to is not counted. */
  readonly dryRun?: boolean;
  readonly onProgress?: (progress: GcReport) => void;
  /** Stops between two steps. What was freed by then is free. */
  readonly signal?: AbortSignal;
  /**
   * Removes from the store's files all that was deleted, replaced or freed before, and from the
   * index for search. A SQLite file is written anew for that, which needs room for a copy and keeps
   * others from writing meanwhile. `left` names what stays.
   */
  readonly scrub?: boolean;
}

export interface GcReport {
  /** What was stored, and is not any more: saves and blobs. */
  readonly freedBytes: number;
  readonly saves: number;
  readonly blobs: number;
  /**
   * By how much files became shorter. A database server gives room back by itself, later. 0 for one
   * of several tenants that share a file.
   */
  readonly returnedBytes: number;
  /**
   * With `scrub`: where text of deleted sessions may still be found, in words. Empty where nothing
   * of them is left in the store.
   */
  readonly left?: readonly string[];
}

/** `idle`: it is no reason for a process to stay alive. */
export async function gc(
  ctx: StoreContext,
  given: GcOptions | undefined,
  { idle = false } = {},
): Promise<GcReport> {
  const o = options(given, "gc", ["dryRun", "onProgress", "signal", "scrub"]);
  return new Collection(ctx, {
    dryRun: flag(o.dryRun, "dryRun") ?? false,
    onProgress: callback(o.onProgress, "onProgress"),
    signal: signalOf(o.signal),
    scrub: flag(o.scrub, "scrub") ?? false,
    idle,
  }).run();
}

interface Collecting {
  readonly dryRun: boolean;
  readonly onProgress: ((progress: GcReport) => void) | undefined;
  readonly signal: AbortSignal | undefined;
  readonly scrub: boolean;
  readonly idle: boolean;
}

class Collection {
  readonly #ctx: StoreContext;
  readonly #how: Collecting;
  readonly #reclaim: StoreReclaim;
  #report: GcReport = { freedBytes: 0, saves: 0, blobs: 0, returnedBytes: 0 };

  constructor(ctx: StoreContext, how: Collecting) {
    this.#ctx = ctx;
    this.#how = how;
    this.#reclaim = requireCapability(ctx.store, "reclaim", "hold.gc");
  }

  async run(): Promise<GcReport> {
    await this.#branches();
    await this.#blobs();
    if (this.#how.dryRun) return this.#report;
    await forgetReceipts(this.#ctx, this.#how);
    await forgetActed(this.#ctx, this.#how);
    await this.#room();
    if (!this.#how.scrub) return this.#report;
    const left = [
      ...(await keptOfDeleted(this.#ctx)),
      ...(await scrub(this.#ctx, this.#reclaim, () => true)),
    ];
    return Object.freeze({ ...this.#report, left });
  }

  #tell(more: Partial<GcReport>): void {
    const { freedBytes, saves, blobs, returnedBytes } = this.#report;
    this.#report = Object.freeze({
      freedBytes: freedBytes + (more.freedBytes ?? 0),
      saves: saves + (more.saves ?? 0),
      blobs: blobs + (more.blobs ?? 0),
      returnedBytes: returnedBytes + (more.returnedBytes ?? 0),
    });
    this.#how.onProgress?.(this.#report);
  }

  #timeSlice(sizes: Omit<TimeSliceOptions, "signal" | "idle">, inBulk: number): TimeSlice {
    const { store } = this.#ctx;
    return new TimeSlice(store, {
      ...sizes,
      ...(store.traits.inBulk ? fixed(inBulk) : undefined),
      signal: this.#how.signal,
      idle: this.#how.idle,
    });
  }

  async #branches(): Promise<void> {
    const { imports } = this.#ctx;
    const branches = await this.#nodes();
    const isComing = (id: string) => [...imports].some((brought) => brought.has(id));
    const loose = branches.filter(({ id, owned }) => !owned && !isComing(id));
    await cutBranches(this.#ctx, loose, branches, {
      dryRun: this.#how.dryRun,
      signal: this.#how.signal,
      idle: this.#how.idle,
      onCut: ({ count, bytes }) => this.#tell({ saves: count, freedBytes: bytes }),
    });
  }

  /**
   * Branches that are nobody's, and those that begin on others: all that says how far a past is
   * needed. Newest first.
   */
  async #nodes(): Promise<readonly BranchNode[]> {
    const { store } = this.#ctx;
    const timeSlice = this.#timeSlice(
      { least: 50, most: 5_000, first: 200, rests: false },
      IN_BULK.branches,
    );
    const nodes: BranchNode[] = [];
    let before = Number.MAX_SAFE_INTEGER;
    const look = async (limit: number): Promise<boolean> => {
      const rows = await store.branches({ kind: "all", before, limit });
      for (const { id, owned, forkPoint } of rows)
        if (!owned || forkPoint !== null) nodes.push({ id, owned, forkPoint });
      before = rows.at(-1)?.no ?? 0;
      return rows.length === limit;
    };
    while (await timeSlice.step(look));
    return nodes;
  }

  async #blobs(): Promise<void> {
    const timeSlice = this.#timeSlice(
      { least: 32, most: 5_000, first: 64, rests: true },
      IN_BULK.blobs,
    );
    for (let after: Digest | undefined; ; ) {
      const { count, bytes, next } = await timeSlice.step((limit) =>
        this.#reclaim.sweep(limit, this.#how.dryRun, after),
      );
      if (count > 0) this.#tell({ blobs: count, freedBytes: bytes });
      if (next === undefined) return;
      after = next;
    }
  }

  async #room(): Promise<void> {
    const timeSlice = this.#timeSlice(
      { least: 16, most: 1_000, first: 32, rests: true },
      IN_BULK.blobs,
    );
    const giveBack = async (limit: number): Promise<boolean> => {
      const { count, bytes } = await this.#reclaim.compact(limit);
      if (bytes > 0) this.#tell({ returnedBytes: bytes });
      return count === limit;
    };
    while (await timeSlice.step(giveBack));
  }
}
