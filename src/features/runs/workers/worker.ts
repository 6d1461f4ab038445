/**
 * Workers: take turns that were submitted, and sessions whose holder died, and run them.
 *
 * WORKER-1  what is taken is held by a lease like any other: a worker that dies is taken over from.
 * WORKER-2  a session that ends its process again and again without getting anywhere is set aside,
 *           and says so.
 * WORKER-3  agents take turns: none is starved by another's backlog.
 */
import { HoldfastError } from "../../../core/values/errors.js";
import type { SessionId } from "../../../core/values/ids.js";
import { words } from "../../../engine/calls/execute-call.js";
import type { StoreContext } from "../../../engine/journal/store-context.js";
import { enter } from "../../../engine/lifecycle/open-session.js";
import { checkLeaseMs } from "../../../engine/lifecycle/session-options.js";
import { leaseOf } from "../../../engine/records/rows.js";
import type { HeldSession } from "../../../engine/session/held-session.js";
import { abortController } from "../../../engine/util/abort-signals.js";
import { flag, invalid, listOf, options, wholeNumber } from "../../../engine/util/validate.js";
import type { SessionRow } from "../../../store/port/rows.js";
import type { BoundAgent } from "../bound-agent.js";
import { type Definition, definitionOf } from "../define/compile-agent.js";
import type { Runs } from "../runs.js";
import { failTurn } from "../turns.js";
import { SessionClaims } from "./claim-sessions.js";

/** Which agents a worker runs, and how. */
export interface WorkerOptions {
  readonly agents: readonly BoundAgent[];
  /** How many sessions it runs at once; 8 by default. */
  readonly concurrency?: number;
  readonly leaseMs?: number;
  /** How often it looks for work where nobody wakes it; 1 s by default. */
  readonly pollMs?: number;
  /**
   * How often a session may end its process at the same place before it is set aside; 5 by default.
   */
  readonly attempts?: number;
  /** Whether a SIGTERM to the process stops it; it does unless this is false. */
  readonly onSigterm?: boolean;
}

export interface StopOptions {
  /** How long runs have to come to an end before they are handed back; 5 s by default. */
  readonly graceMs?: number;
}

export interface DrainOptions {
  /** How long it may take; as long as there is something to do by default. */
  readonly maxMs?: number;
}

/** What a worker does, and has done since it was made. */
export interface WorkerStats {
  readonly running: number;
  /** Turns that were run to an end or a wait. */
  readonly ran: number;
  /** Sessions that were let go of before that. */
  readonly handedBack: number;
  readonly setAside: number;
  readonly failed: number;
}

export interface DrainReport {
  /** How many turns were run to an end or a wait. */
  readonly ran: number;
}

const GRACE_MS = 5_000;
/** Of the grace, what tools have to end by themselves once they are told to. */
const LAST_MS = 1_500;
/** However often it is woken, it looks no more often than this. */
const LEAST_MS = 20;
const BACKOFF_MS = 5_000;
const REST_MS = 1_000;

/** A worker: it takes submitted turns, and sessions whose holder died, and runs them. */
export class Worker {
  readonly #ctx: StoreContext;
  readonly #runs: Runs;
  readonly #agents: readonly Definition[];
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #pollMs: number;
  readonly #onSigterm: boolean;
  readonly #claims: SessionClaims;
  readonly #running = new Map<SessionId, Promise<void>>();
  #abort = abortController();
  #stopping = false;
  #looking: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #woken = false;
  #first = 0;
  #counts = { ran: 0, handedBack: 0, setAside: 0, failed: 0 };

  /** Made by `hold.worker`. */
  constructor(ctx: StoreContext, runs: Runs, given: WorkerOptions) {
    const o = options(given, "worker", [
      "agents",
      "concurrency",
      "leaseMs",
      "pollMs",
      "attempts",
      "onSigterm",
    ]);
    const agents = listOf(o.agents, "agents", "a list of agents that the worker runs");
    if (agents.length === 0) throw invalid("agents", "a worker needs agents to run");
    this.#ctx = ctx;
    this.#runs = runs;
    this.#agents = agents.map(definitionOf);
    if (new Set(this.#agents.map(({ name }) => name)).size < this.#agents.length)
      throw invalid("agents", "two of them have one name");
    this.#concurrency =
      o.concurrency === undefined ? 8 : wholeNumber(o.concurrency, "concurrency", 1, 100_000);
    this.#leaseMs = checkLeaseMs(o.leaseMs) ?? ctx.leaseMs;
    this.#pollMs = o.pollMs === undefined ? 1_000 : wholeNumber(o.pollMs, "pollMs", 10, 3_600_000);
    const attempts = o.attempts === undefined ? 5 : wholeNumber(o.attempts, "attempts", 1, 1_000);
    this.#claims = new SessionClaims(ctx, { leaseMs: this.#leaseMs, attempts });
    this.#onSigterm = flag(o.onSigterm, "onSigterm") ?? true;
  }

  /** Count what the worker does, and has done. */
  stats(): WorkerStats {
    return { running: this.#running.size, ...this.#counts };
  }

  /** Begin to take up sessions, and resolve after the first look for work. */
  async start(): Promise<void> {
    this.#ctx.usable();
    if (this.#looking !== undefined) return;
    this.#abort = abortController();
    this.#stopping = false;
    const leave = [
      this.#ctx.watchers.followAll(() => this.#look()),
      this.#ctx.store.watch(undefined, () => this.#look()),
      ...(this.#onSigterm ? [this.#untilSigterm()] : []),
    ];
    const first = this.#takeSome();
    // From here on it can be stopped, also before it has looked for the first time.
    this.#looking = first
      .then(
        () => this.#lookOn(),
        () => {
          this.#looking = undefined;
        },
      )
      .finally(() => leave.forEach((stop) => stop()));
    await first;
  }

  /**
   * Take up nothing more, and let running turns come to an end.
   * The worker hands back those that have not ended after the grace.
   */
  async stop(o?: StopOptions): Promise<void> {
    const { graceMs } = options(o, "stop", ["graceMs"]);
    const grace = graceMs === undefined ? GRACE_MS : wholeNumber(graceMs, "graceMs", 0, 3_600_000);
    const looking = this.#looking;
    this.#looking = undefined;
    this.#stopping = true;
    this.#look();
    // One that is started again meanwhile has another.
    const abort = this.#abort;
    const patience = setTimeout(() => abort.abort(handBack()), Math.max(0, grace - LAST_MS));
    // What was being claimed when this began is run, or handed back, like the rest.
    await looking;
    await Promise.all(this.#running.values());
    clearTimeout(patience);
    abort.abort(handBack());
  }

  /** Run what there is to do, and no longer than it may: for cron and serverless. */
  async drain(o?: DrainOptions): Promise<DrainReport> {
    this.#ctx.usable();
    const { maxMs } = options(o, "drain", ["maxMs"]);
    const most =
      maxMs === undefined
        ? Number.POSITIVE_INFINITY
        : wholeNumber(maxMs, "maxMs", 0, Number.MAX_SAFE_INTEGER);
    if (this.#looking !== undefined)
      throw invalid("drain", "the worker has been started; it takes what there is by itself");
    this.#abort = abortController();
    this.#stopping = false;
    const before = this.#counts.ran;
    const deadline = performance.now() + most;
    const patience =
      most === Number.POSITIVE_INFINITY
        ? undefined
        : setTimeout(() => this.#abort.abort(handBack()), Math.max(0, most - LAST_MS));
    const leave = this.#ctx.watchers.followAll(() => this.#look());
    try {
      while (performance.now() < deadline - LAST_MS || most === Number.POSITIVE_INFINITY) {
        const took = await this.#takeSome();
        if (!took && this.#running.size === 0) break;
        if (this.#running.size > 0) await Promise.race(this.#running.values());
      }
      await Promise.all(this.#running.values());
    } finally {
      clearTimeout(patience);
      leave();
    }
    return { ran: this.#counts.ran - before };
  }

  // ---- looking

  #look(): void {
    this.#woken = true;
    this.#wake?.();
  }

  async #lookOn(): Promise<void> {
    while (this.#looking !== undefined) {
      this.#woken = false;
      let took = false;
      try {
        took = await this.#takeSome();
      } catch {
        // The store is busy or away: the next look tries again. Where its files are gone there is
        // nothing more to take.
        if (this.#ctx.store.gone?.aborted) return;
      }
      if (this.#looking === undefined) return;
      await this.#rest(took ? LEAST_MS : this.#pollMs);
    }
  }

  /** Until somebody wakes it, but never less than a moment. */
  async #rest(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, Math.min(ms, LEAST_MS)));
    if (this.#woken || ms <= LEAST_MS || this.#looking === undefined) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms - LEAST_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = undefined;
  }

  /**
   * Takes one session of each agent in turn, until there is no room or nothing left (WORKER-3). Answers
   * whether it took any.
   */
  async #takeSome(): Promise<boolean> {
    let took = false;
    let idle = 0;
    while (
      this.#running.size < this.#concurrency &&
      idle < this.#agents.length &&
      !this.#stopping &&
      !this.#abort.signal.aborted
    ) {
      const definition = this.#agents[this.#first % this.#agents.length] as Definition;
      this.#first += 1;
      const rows = await this.#claims.claim(definition.name, (id) => this.#running.has(id));
      idle = rows.length === 0 ? idle + 1 : 0;
      for (const row of rows) {
        took = true;
        const id = row.id as SessionId;
        this.#running.set(
          id,
          this.#run(row, definition).finally(() => {
            this.#running.delete(id);
            this.#look();
          }),
        );
      }
    }
    return took;
  }

  // ---- running

  async #run(row: SessionRow, definition: Definition): Promise<void> {
    const id = row.id as SessionId;
    const lease = leaseOf(row);
    let held: HeldSession | undefined;
    try {
      if (this.#claims.isHopeless(lease)) {
        this.#counts.setAside += 1;
        return await this.#claims.setAside(row, lease);
      }
      held = await enter(this.#ctx, id, lease, this.#leaseMs);
      const holding = held;
      const result = await this.#runs.takeUp(holding, definition, this.#abort.signal, async () => {
        const reason = await this.#claims.whyHalt(holding);
        if (reason !== undefined) this.#counts.setAside += 1;
        return reason;
      });
      if (holding.work.fold.status === "waiting" || holding.work.fold.status === "in-doubt")
        this.#claims.rest(id, lease, REST_MS);
      if (result === undefined) return;
      if (result.status === "stopped") this.#counts.handedBack += 1;
      else this.#counts.ran += 1;
    } catch (error) {
      this.#counts.failed += 1;
      // Damaged, or the store is away: the others are not held up by it.
      if (held === undefined) this.#claims.rest(id, lease, BACKOFF_MS, { evenIfDue: true });
      await this.#failed(held, error);
    } finally {
      await held?.close({ discard: true }).catch(() => {});
    }
  }

  /** What goes wrong outside of the turn's own steps: the agent's own code, or the store. */
  async #failed(held: HeldSession | undefined, error: unknown): Promise<void> {
    if (held === undefined || held.ended !== undefined) return;
    try {
      const isPassing = error instanceof HoldfastError && error.retryable;
      if (!isPassing) return await failTurn(held, words(error));
      this.#claims.rest(held.id, held.lease, BACKOFF_MS);
      held.work.due(this.#ctx.wallMs() + BACKOFF_MS);
      await held.commit();
    } catch {
      // It stays as it is, and is taken up again later.
      this.#claims.rest(held.id, held.lease, BACKOFF_MS);
    }
  }

  // ---- the end

  /** SIGTERM: finishes or hands back, then ends as the process would have without this. */
  #untilSigterm(): () => void {
    const terminate = () => {
      void this.stop().finally(() => {
        if (process.listenerCount("SIGTERM") === 0) process.kill(process.pid, "SIGTERM");
      });
    };
    process.once("SIGTERM", terminate);
    return () => process.off("SIGTERM", terminate);
  }
}

const handBack = () => new DOMException("The worker is stopping.", "AbortError");
