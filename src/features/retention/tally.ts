/** Counting what retention has removed, and from where. */
import type { ErrorCode, HoldfastError } from "../../core/values/errors.js";
import type { ToldOfSnapshots } from "../../engine/util/is-session-error.js";

export interface RetentionProgress {
  /** How many were looked at. */
  readonly sessions: number;
  /** How many checkpoints went. */
  readonly removed: number;
  /** How many snapshots of agents went. They go before the checkpoints do. */
  readonly removedSnapshots: number;
}

export interface RetentionReport extends RetentionProgress {
  /** From which sessions how many checkpoints went; the first thousand. */
  readonly pruned: readonly { readonly sessionId: string; readonly removed: number }[];
  /** Sessions that could not be pruned, and why; the first thousand. The others were. */
  readonly failed: readonly {
    readonly sessionId: string;
    readonly code: ErrorCode;
    readonly message: string;
  }[];
  /** From which agents how many snapshots went; the first thousand. */
  readonly prunedSnapshots: readonly { readonly agent: string; readonly removed: number }[];
  /**
   * Agents whose snapshots could not be pruned, and why; the first thousand. Without an agent: the
   * store's policy is damaged.
   */
  readonly failedSnapshots: readonly {
    readonly agent?: string;
    readonly code: ErrorCode;
    readonly message: string;
  }[];
  /** What a sweep has freed afterwards, in bytes; absent where nothing was to be freed by it. */
  readonly freedBytes?: number;
}

const MOST_NAMED = 1_000;

export class Tally {
  readonly #onProgress: ((progress: RetentionProgress) => void) | undefined;
  readonly #pruned: RetentionReport["pruned"][number][] = [];
  readonly #failed: RetentionReport["failed"][number][] = [];
  readonly #prunedSnapshots: RetentionReport["prunedSnapshots"][number][] = [];
  readonly #failedSnapshots: RetentionReport["failedSnapshots"][number][] = [];
  #sessions = 0;
  #removed = 0;
  #removedSnapshots = 0;

  constructor(onProgress: ((progress: RetentionProgress) => void) | undefined) {
    this.#onProgress = onProgress;
  }

  get #progress(): RetentionProgress {
    return {
      sessions: this.#sessions,
      removed: this.#removed,
      removedSnapshots: this.#removedSnapshots,
    };
  }

  looked(): void {
    this.#sessions += 1;
    this.#onProgress?.(this.#progress);
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

  readonly ofSnapshots: ToldOfSnapshots = {
    pruned: (agent, removed) => {
      this.#removedSnapshots += removed;
      if (removed > 0 && this.#prunedSnapshots.length < MOST_NAMED)
        this.#prunedSnapshots.push({ agent, removed });
      if (removed > 0) this.#onProgress?.(this.#progress);
    },
    failed: (agent, { code, message }) => {
      const whose = agent === undefined ? undefined : { agent };
      if (this.#failedSnapshots.length < MOST_NAMED)
        this.#failedSnapshots.push({ ...whose, code, message });
    },
  };

  report(): RetentionReport {
    return Object.freeze({
      ...this.#progress,
      pruned: this.#pruned,
      failed: this.#failed,
      prunedSnapshots: this.#prunedSnapshots,
      failedSnapshots: this.#failedSnapshots,
    });
  }
}
