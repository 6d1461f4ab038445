/**
 * Kills your agent at every point. The agent runs on a store in memory that stops answering at one
 * point, before or after something was made durable, and never answers that process again; a new
 * one is started on what is there, until it is done. Then once more, one point further on, until a
 * run comes through without meeting its point.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { callback, invalid, listOf, options, wholeNumber } from "../core/values/check-options.js";
import { Holdfast } from "../holdfast.js";
import { intercepted } from "../store/capabilities.js";
import { thisMachine } from "../store/machine.js";
import { MemoryStore } from "../store/memory.js";
import type { Store } from "../store/port.js";

/** The run to kill, and the record of what its tools really did. */
export interface EveryCrashOptions {
  /**
   * One life of your process: define your agents on `hold` and run them, or go on with what is
   * there. Called again on the same store after each crash. What it gave in the life that came
   * through is the end of the run.
   */
  readonly make: (hold: Holdfast) => Promise<unknown>;
  /**
   * What your tools have really done so far, an entry for each act, from a place that does not
   * depend on Holdfast. An act that a provider has recognised by its key, and not done again, has
   * no second entry.
   */
  readonly ledger: () => readonly string[] | Promise<readonly string[]>;
  /** How long one life may take; 5 s by default. */
  readonly lifeMs?: number;
}

/** What `everyCrash` found. */
export interface CrashReport {
  /** How many points it was killed at. */
  readonly points: number;
  /** Acts too many, over all points. */
  readonly doubled: number;
  /** Acts that are missing although the run said that it was completed. */
  readonly lost: number;
  /**
   * Runs that ended with a call of which nobody knows whether it happened: surfaced, for somebody
   * to settle.
   */
  readonly inDoubt: number;
  /** Where something was doubled or lost. */
  readonly findings: readonly {
    readonly point: number;
    readonly doubled: readonly string[];
    readonly lost: readonly string[];
  }[];
}

const LIVES = 20;

const LIFE_MS = 5_000;
const MAX_LIFE_MS = 3_600_000;

function checkCrash(given: EveryCrashOptions): Required<EveryCrashOptions> {
  const o = options(given, "everyCrash", ["make", "ledger", "lifeMs"]);
  const make = callback(o.make, "everyCrash.make");
  const ledger = callback(o.ledger, "everyCrash.ledger");
  if (make === undefined)
    throw invalid(
      "everyCrash.make",
      "give a function that defines and runs your agents on the store it is given",
    );
  if (ledger === undefined)
    throw invalid(
      "everyCrash.ledger",
      "give a function that answers what your tools have done, as a list of texts",
    );
  return {
    make,
    ledger,
    lifeMs:
      o.lifeMs === undefined ? LIFE_MS : wholeNumber(o.lifeMs, "everyCrash.lifeMs", 1, MAX_LIFE_MS),
  };
}

/**
 * Kill your agent at every point, and count what its tools really did.
 *
 * @example
 * const ledger: string[] = [];
 * const pay = { mode: "once", run: () => ledger.push("paid") } as const;
 * const report = await everyCrash({
 *   make: (hold) => hold.agent({ name: "clerk", model, tools: { pay } }).run("job", "Pay Ana."),
 *   ledger: () => ledger,
 * });
 */
export async function everyCrash(given: EveryCrashOptions): Promise<CrashReport> {
  const { make, ledger: told, lifeMs } = checkCrash(given);
  const ledger = async () =>
    listOf(
      await told(),
      "everyCrash.ledger",
      "a function that answers a list of texts",
    ) as readonly string[];
  const acts = async (run: () => Promise<unknown>) => {
    const before = (await ledger()).length;
    const end = await run();
    return { done: (await ledger()).slice(before), end };
  };
  const undisturbed = await acts(() => lives(make, Number.POSITIVE_INFINITY, lifeMs));
  const findings: CrashReport["findings"][number][] = [];
  let inDoubt = 0;
  let point = 1;
  for (; ; point++) {
    const world = new MemoryStore();
    let met = false;
    const { done, end } = await acts(() =>
      lives(make, point, lifeMs, world, () => {
        met = true;
      }),
    );
    if (!met) break;
    if (isInDoubt(end)) inDoubt += 1;
    const doubled = surplus(done, undisturbed.done);
    const lost = isCompleted(end) ? surplus(undisturbed.done, done) : [];
    if (doubled.length > 0 || lost.length > 0) findings.push({ point, doubled, lost });
  }
  const sum = (of: "doubled" | "lost") =>
    findings.reduce((total, finding) => total + finding[of].length, 0);
  return { points: point - 1, doubled: sum("doubled"), lost: sum("lost"), inDoubt, findings };
}

/**
 * Lives one process after the other on one store; the first one ends at a point. Answers what the
 * last one gave.
 */
async function lives(
  make: EveryCrashOptions["make"],
  point: number,
  lifeMs: number,
  world = new MemoryStore(),
  onCrash = () => {},
): Promise<unknown> {
  for (let life = 0; life < LIVES; life++) {
    const machine = thisMachine();
    const crash = new Crash(world, life === 0 ? point : Number.POSITIVE_INFINITY);
    const hold = new Holdfast(crash.store, machine, { now: Date.now }, 30_000);
    const end = await Promise.race([
      Promise.resolve(make(hold)).then((value) => ({ value })),
      crash.happened,
      sleep(lifeMs, "late" as const, { ref: false }),
    ]);
    if (end === "late")
      throw new Error(
        `A life of the process took longer than ${lifeMs} ms${life === 0 ? `, with a crash at point ${point}` : ""}.`,
      );
    machine.leave();
    if (end !== undefined) return end.value;
    onCrash();
  }
  throw new Error(`The run was not done after ${LIVES} lives.`);
}

const CHANGES: ReadonlySet<string> = new Set(["apply", "claims.claim", "inbox.post"]);

/**
 * A process's view of the store, which ends at a point: every second point is before something is
 * made durable, the others after.
 */
class Crash {
  readonly store: Store;
  readonly happened: Promise<undefined>;
  #end: () => void = () => {};
  #isDead = false;
  #points = 0;
  readonly #at: number;

  constructor(world: Store, at: number) {
    this.#at = at;
    this.happened = new Promise((resolve) => {
      this.#end = () => resolve(undefined);
    });
    this.store = intercepted(world, (name, call) =>
      name === "close" ? Promise.resolve() : this.#call(call, CHANGES.has(name)),
    );
  }

  #call(run: () => unknown, changes: boolean): unknown {
    if (this.#isDead) return never();
    if (!changes) return run();
    if (this.#point()) return never();
    const answer = Promise.resolve(run());
    return this.#point() ? answer.then(never) : answer;
  }

  #point(): boolean {
    this.#points += 1;
    if (this.#points !== this.#at) return false;
    this.#isDead = true;
    // After what is under way in this tick has got as far as it would have.
    setImmediate(this.#end);
    return true;
  }
}

const never = (): Promise<never> => new Promise(() => {});

const statusOf = (end: unknown): unknown =>
  typeof end === "object" && end !== null
    ? (end as { readonly status?: unknown }).status
    : undefined;
const isInDoubt = (end: unknown): boolean => statusOf(end) === "in-doubt";
const isCompleted = (end: unknown): boolean =>
  statusOf(end) === undefined || statusOf(end) === "completed";

/** Entries that one list has more often than the other. */
function surplus(of: readonly string[], over: readonly string[]): readonly string[] {
  const left = [...over];
  return of.filter((entry) => {
    const at = left.indexOf(entry);
    if (at !== -1) left.splice(at, 1);
    return at === -1;
  });
}
