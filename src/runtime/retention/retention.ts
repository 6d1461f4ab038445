/** Retention: which policies there are, and applying them to all sessions they hold for. */
import { type ErrorCode, HoldfastError } from "../../core/errors.js";
import { checkName } from "../../core/ids.js";
import type { RetentionPolicy } from "../../core/policy.js";
import type { SessionRow } from "../../store/port.js";
import type { Ground } from "../ground.js";
import { callback, flag, invalid, oneOf, options, signalOf } from "../options.js";
import { gc } from "./gc.js";
import { checkPolicy } from "./policy.js";
import { pruneBy } from "./pruning.js";
import { policyFor, storedPolicy, storePolicy } from "./stored.js";
import { type Sweep, type SweepOptions, sweepEvery } from "./sweep.js";

export interface PolicyOptions {
  /** Whose sessions it is for; without it, for all whose agent has none of its own. */
  readonly agent?: string;
}

export interface ApplyOptions extends PolicyOptions {
  /** Only answers what would go. */
  readonly dryRun?: boolean;
  /** `all`: also on lines that sessions have left by rewinding. */
  readonly lines?: "current" | "all";
  readonly onProgress?: (progress: RetentionProgress) => void;
  /** Stops between two steps. What has gone by then is gone. */
  readonly signal?: AbortSignal;
}

export interface RetentionProgress {
  /** How many were looked at. */
  readonly sessions: number;
  readonly removed: number;
}

export interface RetentionReport extends RetentionProgress {
  /** From which sessions how many checkpoints went; the first thousand. */
  readonly pruned: readonly { readonly sessionId: string; readonly removed: number }[];
  /** Sessions that could not be pruned, and why; the first thousand. The others were. */
  readonly failed: readonly { readonly sessionId: string; readonly code: ErrorCode; readonly message: string }[];
  /** What a sweep has freed afterwards, in bytes; absent where nothing was to be freed by it. */
  readonly freedBytes?: number;
}

const SESSIONS = 100;
const MOST_NAMED = 1_000;
/** What concerns a session alone: the others can be pruned. */
const OF_ONE: readonly ErrorCode[] = ["CORRUPT", "BUSY", "CONFLICT", "LEASE_HELD"];

export class Retention {
  readonly #ground: Ground;
  #sweep: Sweep | undefined;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** Says which checkpoints are kept: of an agent's sessions, or of all whose agent has no policy of its own. Nothing is removed by it yet. */
  async set(policy: RetentionPolicy, o?: PolicyOptions): Promise<void> {
    const agent = agentIn(o, "retention.set");
    if (policy === undefined) throw invalid("policy", "it must be given; `clear` takes one away");
    await storePolicy(this.#ground.store, agent, checkPolicy(policy, "retention.set"));
  }

  /** The policy that was set for an agent, or for the store. */
  async get(o?: PolicyOptions): Promise<RetentionPolicy | undefined> {
    return storedPolicy(this.#ground.store, agentIn(o, "retention.get"));
  }

  /** Takes a policy away. Answers whether there was one. */
  async clear(o?: PolicyOptions): Promise<boolean> {
    return storePolicy(this.#ground.store, agentIn(o, "retention.clear"), undefined);
  }

  /** Prunes every session by the policy that holds for it. One that is damaged or busy is named, and the others are pruned. */
  async apply(given?: ApplyOptions): Promise<RetentionReport> {
    const o = options(given, "retention.apply", ["agent", "dryRun", "lines", "onProgress", "signal"]);
    return this.#apply({
      agent: o.agent === undefined ? undefined : checkName(o.agent, "agent"),
      dryRun: flag(o.dryRun, "dryRun") ?? false,
      lines: oneOf(o.lines, "lines", ["current", "all"]) ?? "current",
      onProgress: callback(o.onProgress, "onProgress"),
      signal: signalOf(o.signal),
    });
  }

  /**
   * Applies the policies, and frees what nothing needs any more, now and from time to time, until it is stopped or the store is closed.
   * It keeps no process alive. One at a time.
   */
  sweep(o: SweepOptions): Sweep {
    this.#ground.usable();
    if (this.#sweep !== undefined)
      throw new HoldfastError("CONFLICT", "A sweep goes on already in this process. Stop that one before another is begun.");
    const sweep = sweepEvery(o, {
      run: async (signal) => {
        const swept = await this.#apply({ agent: undefined, dryRun: false, lines: "current", signal, idle: true });
        return { ...swept, freedBytes: (await gc(this.#ground, { signal }, { idle: true })).freedBytes };
      },
      // Stopped a second time, it does not let go of the one that was begun since.
      stopped: () => {
        if (this.#sweep === sweep) this.#sweep = undefined;
      },
    });
    this.#sweep = sweep;
    return sweep;
  }

  /** With the store. */
  async stop(): Promise<void> {
    await this.#sweep?.stop();
  }

  async #apply(o: Applying): Promise<RetentionReport> {
    const { agent, signal } = o;
    const tally = new Tally(o.onProgress);
    const policies: Policies = new Map();
    for (let before: number | undefined; ; ) {
      signal?.throwIfAborted();
      const page = {
        ...(agent === undefined ? undefined : { agent }),
        ...(before === undefined ? undefined : { before }),
        limit: SESSIONS,
      };
      const rows: readonly SessionRow[] = await this.#ground.store.sessions(page);
      for (const row of rows) {
        await this.#one(row, policies, o, tally);
        signal?.throwIfAborted();
      }
      before = rows.at(-1)?.no;
      if (rows.length < SESSIONS) return tally.report();
    }
  }

  async #one({ id, head: { agent } }: SessionRow, policies: Policies, o: Applying, tally: Tally): Promise<void> {
    try {
      if (!policies.has(agent)) policies.set(agent, await policyFor(this.#ground.store, agent));
      const policy = policies.get(agent);
      if (policy === undefined) return tally.looked();
      const { removed } = await pruneBy(this.#ground, id, policy, { ...o, onProgress: undefined });
      tally.pruned(id, removed);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      // It was deleted in between.
      if (error.code === "NOT_FOUND") return;
      if (!OF_ONE.includes(error.code)) throw error;
      tally.failed(id, error);
    }
  }
}

/** By agent, as far as they were asked for. */
type Policies = Map<string | null, RetentionPolicy | undefined>;

interface Applying {
  readonly agent: string | undefined;
  readonly dryRun: boolean;
  readonly lines: "current" | "all";
  readonly onProgress?: ((progress: RetentionProgress) => void) | undefined;
  readonly signal: AbortSignal | undefined;
  readonly idle?: boolean;
}

class Tally {
  readonly #onProgress: ((progress: RetentionProgress) => void) | undefined;
  readonly #pruned: RetentionReport["pruned"][number][] = [];
  readonly #failed: RetentionReport["failed"][number][] = [];
  #sessions = 0;
  #removed = 0;

  constructor(onProgress: ((progress: RetentionProgress) => void) | undefined) {
    this.#onProgress = onProgress;
  }

  looked(): void {
    this.#sessions += 1;
    this.#onProgress?.({ sessions: this.#sessions, removed: this.#removed });
  }

  pruned(sessionId: string, removed: number): void {
    this.#removed += removed;
    if (removed > 0 && this.#pruned.length < MOST_NAMED) this.#pruned.push({ sessionId, removed });
    this.looked();
  }

  failed(sessionId: string, { code, message }: HoldfastError): void {
    if (this.#failed.length < MOST_NAMED) this.#failed.push({ sessionId, code, message });
    this.looked();
  }

  report(): RetentionReport {
    return Object.freeze({ sessions: this.#sessions, removed: this.#removed, pruned: this.#pruned, failed: this.#failed });
  }
}

function agentIn(o: PolicyOptions | undefined, what: string): string | undefined {
  const { agent } = options(o, what, ["agent"]);
  return agent === undefined ? undefined : checkName(agent, "agent");
}
