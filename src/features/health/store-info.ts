/** What an open store is, and how it is doing, for people and for `holdfast doctor`. */
import { describeOwner, grantLease } from "../../core/sessions/lease.js";
import { isUnderWay } from "../../core/sessions/status.js";
import { HoldfastError } from "../../core/values/errors.js";
import { isoTime } from "../../core/values/time.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { headOf, leaseOf } from "../../engine/records/rows.js";
import { sessionRows } from "../../engine/records/session-rows.js";
import type { About } from "../../store/port/info.js";
import type { SessionRow } from "../../store/port/rows.js";

interface HeldLease {
  readonly sessionId: string;
  readonly holder: string;
  readonly remainingMs: number;
}

/** What an open store is, who holds which sessions, and what you should know of it. */
export interface StoreInfo extends About {
  /** How the index for search stands; absent where there is none yet. */
  readonly index?: { readonly behind: number };
  readonly sessions: {
    /** How many were looked at: the newest 100,000 at most. */
    readonly looked: number;
    readonly byStatus: Readonly<Record<string, number>>;
    readonly lastWeek: number;
    readonly oldest?: string;
    /** Their own rows are damaged; `verify` says more. */
    readonly damaged: number;
  };
  readonly leases: {
    /** The first hundred of them. */
    readonly held: readonly HeldLease[];
    /**
     * Sessions that are under way and whose holder is gone: whoever comes next takes them up. The
     * first hundred.
     */
    readonly abandoned: readonly string[];
    readonly counts: { readonly held: number; readonly abandoned: number };
  };
  /** Which generation this is; absent until it was first put back from a copy. */
  readonly generation?: string;
}

const MOST = 100_000;
const MOST_NAMED = 100;
const WEEK_MS = 7 * 24 * 60 * 60 * 1_000;

export async function about(ctx: StoreContext, isIndexed: boolean): Promise<StoreInfo> {
  const { store } = ctx;
  const survey = new SessionSurvey(ctx, await ctx.now(), await ctx.learnGeneration());
  for await (const row of sessionRows(store)) {
    survey.take(row);
    if (survey.looked === MOST) break;
  }
  const { index } = store;
  const generation = await ctx.learnGeneration();
  return {
    ...(await store.info()).about,
    ...(isIndexed &&
      index !== undefined &&
      (await index.exists()) && { index: { behind: await index.missing() } }),
    ...survey.report(),
    ...(generation !== "" && { generation }),
  };
}

class SessionSurvey {
  readonly #ctx: StoreContext;
  readonly #now: number;
  readonly #generation: string;
  readonly #byStatus: Record<string, number> = {};
  readonly #held: HeldLease[] = [];
  readonly #abandoned: string[] = [];
  readonly #counts = { held: 0, abandoned: 0 };
  #lastWeek = 0;
  #oldest = Number.POSITIVE_INFINITY;
  #damaged = 0;
  looked = 0;

  constructor(ctx: StoreContext, now: number, generation: string) {
    this.#ctx = ctx;
    this.#now = now;
    this.#generation = generation;
  }

  take(row: SessionRow): void {
    this.looked += 1;
    try {
      const { status, createdAt } = headOf(row);
      this.#byStatus[status] = (this.#byStatus[status] ?? 0) + 1;
      if (createdAt > this.#ctx.wallMs() - WEEK_MS) this.#lastWeek += 1;
      this.#oldest = Math.min(this.#oldest, createdAt);
      this.#lease(row);
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
      this.#damaged += 1;
    }
  }

  #lease(row: SessionRow): void {
    const lease = leaseOf(row);
    if (lease.owner === null) return;
    const { machine, store, leaseMs } = this.#ctx;
    const grant = grantLease(lease, {
      owner: machine.self,
      now: this.#now,
      leaseMs,
      generation: this.#generation,
      dead: (owner) => machine.isDead(owner, store.traits.oneMachine),
    });
    if ("heldBy" in grant) {
      this.#counts.held += 1;
      if (this.#held.length < MOST_NAMED)
        this.#held.push({
          sessionId: row.id,
          holder: describeOwner(grant.heldBy),
          remainingMs: Math.ceil(grant.remainingMs),
        });
    } else if (isUnderWay(row.head.status)) {
      this.#counts.abandoned += 1;
      if (this.#abandoned.length < MOST_NAMED) this.#abandoned.push(row.id);
    }
  }

  report(): Pick<StoreInfo, "sessions" | "leases"> {
    return {
      sessions: {
        looked: this.looked,
        byStatus: this.#byStatus,
        lastWeek: this.#lastWeek,
        ...(Number.isFinite(this.#oldest) && { oldest: isoTime(this.#oldest) }),
        damaged: this.#damaged,
      },
      leases: { held: this.#held, abandoned: this.#abandoned, counts: this.#counts },
    };
  }
}
