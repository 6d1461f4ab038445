/**
 * Saves on their way to Postgres. A few at a time go by themselves and at once; those that come
 * meanwhile wait, and go together in one transaction and one round trip: on one machine that was
 * measured twice as fast as a connection for each.
 *
 * BATCH-1  saves of one session go in the order in which they came.
 * BATCH-2  saves that go together fail apart (PORT-4): a refusal is an answer like others, and
 *          after an exception each goes alone.
 */
import type { HoldfastError } from "../../../core/values/errors.js";
import type { Applied, Refusal } from "../../port/changes.js";
import { queueFull } from "../../refusals.js";
import type { Connections } from "./connections.js";
import type { PerSessionQueue } from "./per-session-queue.js";
import type { Statement } from "./pg-client.js";

export interface Append {
  readonly session: string;
  /** The session's lock. Those that go together are taken in one order by everybody. */
  readonly lock: string;
  /** Says it, perhaps again. */
  readonly call: (again: boolean) => Statement;
}

interface Waiting extends Append {
  readonly resolve: (applied: Applied) => void;
  readonly reject: (error: unknown) => void;
}

/** Saves of one session that nothing else stands between. */
interface Run {
  readonly saves: Waiting[];
  /** What the session's turn is as long as nothing else was asked for. */
  turn: Promise<void> | undefined;
  sent: (() => void) | undefined;
}

export interface AppendSettings {
  readonly queue: number;
  readonly answerMs: number;
  /** What stands before and behind a call so that it is a transaction of the right kind. */
  readonly before: readonly Statement[];
  readonly after: readonly Statement[];
  /** Told of every save that was committed. */
  readonly saved: (session: string) => void;
}

const MOST_TOGETHER = 100;
const MOST_FLYING = 4;

export class Appends {
  readonly #connections: Connections;
  readonly #turns: PerSessionQueue;
  readonly #settings: AppendSettings;
  /** Runs that can still be added to, by session. */
  readonly #open = new Map<string, Run>();
  readonly #ready: Run[] = [];
  #waiting = 0;
  #flying = 0;

  constructor(connections: Connections, turns: PerSessionQueue, settings: AppendSettings) {
    this.#connections = connections;
    this.#turns = turns;
    this.#settings = settings;
  }

  append(append: Append): Promise<Applied> {
    const { queue } = this.#settings;
    if (this.#waiting >= queue) return Promise.reject(queueFull(queue));
    this.#waiting += 1;
    return new Promise<Applied>((resolve, reject) => this.#join({ ...append, resolve, reject }));
  }

  #join(save: Waiting): void {
    const { session } = save;
    const open = this.#open.get(session);
    if (open !== undefined && open.turn === this.#turns.last(session)) {
      open.saves.push(save);
      return;
    }
    const run: Run = { saves: [save], turn: undefined, sent: undefined };
    this.#open.set(session, run);
    void this.#turns.take([session], async () => {
      const sent = new Promise<void>((resolve) => {
        run.sent = resolve;
      });
      this.#ready.push(run);
      this.#pump();
      await sent;
    });
    run.turn = this.#turns.last(session);
  }

  #pump(): void {
    const free = Math.min(MOST_FLYING, this.#connections.size) - this.#flying;
    if (free <= 0 || this.#ready.length === 0) return;
    const together = Math.min(MOST_TOGETHER, Math.ceil(this.#ready.length / free));
    for (let i = 0; i < free && this.#ready.length > 0; i++)
      void this.#fly(this.#ready.splice(0, together));
  }

  async #fly(runs: readonly Run[]): Promise<void> {
    this.#flying += 1;
    // From here on nobody joins them.
    for (const run of runs) {
      const session = (run.saves[0] as Waiting).session;
      if (this.#open.get(session) === run) this.#open.delete(session);
    }
    const inOrder =
      runs.length === 1
        ? runs
        : runs.toSorted((a, b) =>
            (a.saves[0] as Waiting).lock < (b.saves[0] as Waiting).lock ? -1 : 1,
          );
    await this.#send(inOrder.flatMap(({ saves }) => saves));
    this.#flying -= 1;
    for (const { saves } of runs) this.#waiting -= saves.length;
    for (const { sent } of runs) sent?.();
    this.#pump();
  }

  async #send(saves: readonly Waiting[]): Promise<void> {
    const { before, after, answerMs, saved } = this.#settings;
    const sessions = [...new Set(saves.map(({ session }) => session))];
    try {
      const answers = await this.#connections.use(
        (connection, again) =>
          connection.send([...before, ...saves.map(({ call }) => call(again)), ...after]),
        // One that others keep waiting must not keep those waiting that go with it.
        { withinMs: answerMs, retriesConflicts: sessions.length === 1 },
      );
      for (const [i, { session, resolve }] of saves.entries()) {
        const applied = appliedOf(answers[before.length + i]?.rows[0]?.[0]);
        if (applied.ok) saved(session);
        resolve(applied);
      }
    } catch (error) {
      const { code } = error as HoldfastError;
      // BATCH-2. What was tried for as long as it may be would only be tried again.
      const isFinal =
        code === "UNREACHABLE" || code === "CLOSED" || (code === "BUSY" && sessions.length === 1);
      if (saves.length === 1 || isFinal) for (const { reject } of saves) reject(error);
      else if (sessions.length > 1)
        await Promise.all(
          sessions.map((session) => this.#send(saves.filter((save) => save.session === session))),
        );
      else for (const save of saves) await this.#send([save]);
    }
  }
}

/** What the function says. */
function appliedOf(said: unknown): Applied {
  return said === "ok" || said === "known"
    ? { ok: true }
    : { ok: false, change: 0, why: said as Refusal };
}
