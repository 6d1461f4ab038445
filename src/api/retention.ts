/** Retention: which policies there are, and applying them to all sessions they hold for. */
import type { RetentionPolicy } from "../core/retention/policy.js";
import { HoldfastError } from "../core/values/errors.js";
import { checkName } from "../core/values/ids.js";
import type { StoreContext } from "../engine/journal/store-context.js";
import { checkPolicy } from "../engine/records/check-policy.js";
import { policyFor, storedPolicy, storePolicy } from "../engine/records/policy-store.js";
import type { IntervalTask } from "../engine/util/interval-task.js";
import { isSessionError } from "../engine/util/is-session-error.js";
import {
  callback,
  flag,
  invalid,
  oneOf,
  options,
  scopeOf,
  signalOf,
} from "../engine/util/validate.js";
import { gc } from "../features/retention/gc.js";
import { pruneBy } from "../features/retention/prune-session.js";
import { type SweepOptions, sweepEvery } from "../features/retention/sweep.js";
import {
  type RetentionProgress,
  type RetentionReport,
  Tally,
} from "../features/retention/tally.js";
import { applyToSnapshots } from "../features/snapshots/prune-snapshots.js";
import { requireCapability } from "../store/capabilities.js";
import type { SessionRow } from "../store/port/rows.js";
import type { Store } from "../store/port.js";

export interface PolicyOptions {
  /** Whose sessions it is for; without it, for all whose agent has none of its own. */
  readonly agent?: string;
}

export interface ApplyOptions extends PolicyOptions {
  /** Only answers what would go. */
  readonly dryRun?: boolean;
  /** `all`: also on branches that sessions have left by rewinding. */
  readonly branches?: "current" | "all";
  readonly onProgress?: (progress: RetentionProgress) => void;
  /** Stops between two steps. What has gone by then is gone. */
  readonly signal?: AbortSignal;
}

const SESSIONS = 100;

/** Retention policies: set them, and apply them to all sessions. */
export class Retention {
  readonly #ctx: StoreContext;
  #sweep: IntervalTask | undefined;

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  /**
   * Set which checkpoints and snapshots are kept, for one agent or as the store's policy.
   * The store's policy holds for agents that have none of their own. Setting it removes nothing
   * yet.
   *
   * @example
   * await hold.retention.set({ keep: 50, daily: 30 }, { agent: "support" });
   */
  async set(policy: RetentionPolicy, o?: PolicyOptions): Promise<void> {
    const agent = agentIn(o, "retention.set");
    if (policy === undefined) throw invalid("policy", "it must be given; `clear` takes one away");
    await storePolicy(this.#policies("set"), agent, checkPolicy(policy, "retention.set"));
  }

  /**
   * Read the policy that was set for an agent, or for the store.
   *
   * @example
   * const policy = await hold.retention.get({ agent: "support" });
   */
  async get(o?: PolicyOptions): Promise<RetentionPolicy | undefined> {
    return storedPolicy(this.#policies("get"), agentIn(o, "retention.get"));
  }

  /**
   * Take a policy away, and answer whether there was one.
   *
   * @example
   * await hold.retention.clear({ agent: "support" });
   */
  async clear(o?: PolicyOptions): Promise<boolean> {
    return storePolicy(this.#policies("clear"), agentIn(o, "retention.clear"), undefined);
  }

  /**
   * Prune the snapshots of every agent, then every session, each by its policy.
   * A damaged or busy session is named, and the others are pruned. A snapshot that a restore reads
   * just now stays.
   *
   * @example
   * const report = await hold.retention.apply({ dryRun: true });
   */
  async apply(given?: ApplyOptions): Promise<RetentionReport> {
    const o = options(given, "retention.apply", [
      "agent",
      "dryRun",
      "branches",
      "onProgress",
      "signal",
    ]);
    requireCapability(this.#policies("apply"), "reclaim", "hold.retention.apply");
    return this.#apply({
      agent: scopeOf(o, "agent") === undefined ? undefined : checkName(o.agent, "agent"),
      dryRun: flag(o.dryRun, "dryRun") ?? false,
      branches: oneOf(o.branches, "branches", ["current", "all"]) ?? "current",
      onProgress: callback(o.onProgress, "onProgress"),
      signal: signalOf(o.signal),
    });
  }

  /**
   * Apply the policies and run `gc` from time to time, until it is stopped.
   * It also ends with the store, and keeps no process alive. A store has one sweep at a time.
   *
   * @example
   * const task = hold.retention.sweep({ everyMs: 3_600_000, onSwept: console.log });
   * await task.stop();
   */
  sweep(o: SweepOptions): IntervalTask {
    this.#ctx.usable();
    requireCapability(this.#policies("sweep"), "reclaim", "hold.retention.sweep");
    if (this.#sweep !== undefined)
      throw new HoldfastError(
        "CONFLICT",
        "A sweep goes on already in this process. Stop that one before another is begun.",
      );
    const sweep = sweepEvery(o, {
      run: async (signal) => {
        const swept = await this.#apply({
          agent: undefined,
          dryRun: false,
          branches: "current",
          signal,
          idle: true,
        });
        return {
          ...swept,
          freedBytes: (await gc(this.#ctx, { signal }, { idle: true })).freedBytes,
        };
      },
      // Stopped a second time, it does not let go of the one that was begun since.
      stopped: () => {
        if (this.#sweep === sweep) this.#sweep = undefined;
      },
    });
    this.#sweep = sweep;
    return sweep;
  }

  /** The store, which must keep policies. */
  #policies(call: string): Store {
    requireCapability(this.#ctx.store, "documents", `hold.retention.${call}`);
    return this.#ctx.store;
  }

  /** @internal Stop the sweep, when the store is closed. */
  async stop(): Promise<void> {
    await this.#sweep?.stop();
  }

  async #apply(o: Applying): Promise<RetentionReport> {
    const { agent, signal } = o;
    const tally = new Tally(o.onProgress);
    const policies: Policies = new Map();
    await applyToSnapshots(this.#ctx, agent, o, tally.ofSnapshots);
    for (let before: number | undefined; ; ) {
      signal?.throwIfAborted();
      const page = {
        ...(agent === undefined ? undefined : { agent }),
        ...(before === undefined ? undefined : { before }),
        limit: SESSIONS,
      };
      const rows: readonly SessionRow[] = await this.#ctx.store.sessions(page);
      for (const row of rows) {
        await this.#one(row, policies, o, tally);
        signal?.throwIfAborted();
      }
      before = rows.at(-1)?.no;
      if (rows.length < SESSIONS) return tally.report();
    }
  }

  async #one(
    { id, head: { agent } }: SessionRow,
    policies: Policies,
    o: Applying,
    tally: Tally,
  ): Promise<void> {
    try {
      if (!policies.has(agent)) policies.set(agent, await policyFor(this.#ctx.store, agent));
      const policy = policies.get(agent);
      if (policy === undefined) return tally.looked();
      const { removed } = await pruneBy(this.#ctx, id, policy, { ...o, onProgress: undefined });
      tally.pruned(id, removed);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      // It was deleted in between.
      if (error.code === "NOT_FOUND") return;
      if (!isSessionError(error)) throw error;
      tally.failed(id, error);
    }
  }
}

/** By agent, as far as they were asked for. */
type Policies = Map<string | null, RetentionPolicy | undefined>;

interface Applying {
  readonly agent: string | undefined;
  readonly dryRun: boolean;
  readonly branches: "current" | "all";
  readonly onProgress?: ((progress: RetentionProgress) => void) | undefined;
  readonly signal: AbortSignal | undefined;
  readonly idle?: boolean;
}

function agentIn(o: PolicyOptions | undefined, what: string): string | undefined {
  const agent = scopeOf(options(o, what, ["agent"]), "agent");
  return agent === undefined ? undefined : checkName(agent, "agent");
}
