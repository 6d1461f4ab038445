/**
 * Runs of agents: who runs a session's turn in this process, and waiting for those who run it
 * elsewhere.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { checkText, MAX_REASON } from "../../core/journal/checkpoint.js";
import { isUnderWay } from "../../core/sessions/status.js";
import { HoldfastError } from "../../core/values/errors.js";
import { type SessionId, sessionId } from "../../core/values/ids.js";
import { turnMessageId } from "../../engine/calls/doubt-restored.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { observed } from "../../engine/journal/telemetry.js";
import { refuseOtherAgent } from "../../engine/lifecycle/acquire-lease.js";
import { cancelSession } from "../../engine/lifecycle/deliver-inbox.js";
import { openHeld } from "../../engine/lifecycle/open-session.js";
import type { SessionOptions } from "../../engine/lifecycle/session-options.js";
import { headOf } from "../../engine/records/rows.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import { linked } from "../../engine/util/abort-signals.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { ensureAgent } from "./ensure-record.js";
import type { Sink, Tell } from "./events.js";
import { earlierTurn } from "./past-turns.js";
import { type TurnOptions, TurnRunner, type WhyHalt } from "./run-turn.js";
import { lookAtTurn } from "./turn-end.js";
import {
  isMeant,
  type RunRequest,
  requestOf,
  type TurnInput,
  turnMessage,
  turnOpen,
} from "./turn-input.js";
import { WaitingTurns } from "./waiting-turns.js";

/** A run that is under way in this process. */
export interface Active {
  readonly agent: string;
  /** What is run; undefined where it is whatever the session is at. */
  readonly turn: { readonly key: string | undefined; readonly inputDigest: string } | undefined;
  readonly result: Promise<RunResult>;
  readonly sinks: Set<Sink>;
}

/** How often a session that another process holds is looked at. */
const LOOK_MS = 100;
const MADE_MS = 5;

export class Runs {
  readonly #ctx: StoreContext;
  readonly #active = new Map<SessionId, Active>();
  readonly waiting: WaitingTurns;

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
    this.waiting = new WaitingTurns(ctx);
  }

  /**
   * Runs until the turn has ended, waits for somebody, or is to stop. Two that ask for the same
   * turn are given the same answer.
   */
  async run(request: RunRequest, sink?: Sink): Promise<RunResult> {
    const { id, asking, o, definition } = request;
    for (;;) {
      const active = this.#active.get(id);
      if (active === undefined) break;
      const { turn, result: going } = active;
      if (active.agent !== definition.name) {
        // What another agent is at is not what is asked for here, be it the same words.
        const row = (await this.#ctx.store.session(id)).row;
        if (row !== undefined) refuseOtherAgent(headOf(row), { id, agent: definition.name });
        await going.catch(() => {});
        continue;
      }
      if (turn !== undefined && (asking === undefined || isMeant(turn, asking, id))) {
        if (sink !== undefined) active.sinks.add(sink);
        return going;
      }
      const { isOther, earlier } = await this.#look(id, definition, asking);
      if (earlier !== undefined) return earlier;
      if ((o.ifBusy ?? "reject") === "reject" && (turn !== undefined || isOther))
        throw turnOpen(id);
      if (turn !== undefined && asking !== undefined && o.ifBusy === "queue")
        return this.#queue(request, asking);
      if (o.ifBusy === "interrupt") await this.#interrupt(id);
      await going.catch(() => {});
    }
    const sinks = new Set(sink === undefined ? [] : [sink]);
    const tell: Tell = (make) => {
      if (sinks.size === 0) return;
      const event = make();
      for (const each of sinks) each(event);
    };
    const result = this.#hold(request, tell);
    this.#active.set(id, {
      agent: definition.name,
      turn: asking && { key: asking.key, inputDigest: asking.inputDigest },
      result,
      sinks,
    });
    try {
      return await result;
    } finally {
      this.#active.delete(id);
    }
  }

  /**
   * Stops a session, or one of its turns, whoever holds it, and the sessions that its calls run.
   */
  async cancel(id: SessionId | string, reason = "cancelled", turn?: string): Promise<void> {
    await cancelSession(this.#ctx, sessionId(id), checkText(reason, "reason", MAX_REASON), turn);
  }

  /** Asks whoever holds the session to end the turn it is at. */
  async #interrupt(id: SessionId): Promise<void> {
    const present = await this.#ctx.journal.present(id);
    const turn = present && (await this.#ctx.loader.inFlightAt(present)).turn;
    requireCapability(this.#ctx.store, "inbox", 'agent.run with ifBusy: "interrupt"');
    if (turn !== undefined)
      await this.#ctx.post(id, {
        kind: "cancel",
        turn: turn.id,
        reason: "interrupted by another input",
      });
  }

  /**
   * Puts the turn behind the one that is open, where it is safe, and takes part in running what
   * comes before it.
   */
  async #queue(
    { definition, id, o }: RunRequest,
    { message, key }: TurnInput,
    { isActive = false } = {},
  ): Promise<RunResult> {
    requireCapability(this.#ctx.store, "inbox", 'agent.run with ifBusy: "queue"');
    const turn = key ?? randomUUID();
    await this.#made(id);
    await this.waiting.post(id, turnMessage(turn, key, message), {
      id: await turnMessageId(this.#ctx, turn),
    });
    for (;;) {
      if (o.signal?.aborted) return aborted(id, turn);
      const end = await lookAtTurn(this.#ctx, definition, id, turn);
      if (end !== undefined) return end;
      // Where this run is itself the one that is under way here, it does not wait for itself.
      const active = isActive ? undefined : this.#active.get(id);
      if (active !== undefined) await active.result.catch(() => {});
      else if (!(await this.#help(id, definition, o.signal)))
        await sleep(LOOK_MS, undefined, { signal: o.signal }).catch(() => {});
    }
  }

  /** The run that is under way may have begun this instant: its session is waited for. */
  async #made(id: SessionId): Promise<void> {
    while (this.#active.has(id) && (await this.#ctx.store.session(id)).row === undefined)
      await sleep(MADE_MS);
  }

  /** Takes the session up where nobody has it. Answers whether that did anything. */
  async #help(
    id: SessionId,
    definition: Definition,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    try {
      const held = await openHeld(this.#ctx, id, undefined, { make: false });
      try {
        return (
          (await this.takeUp(held, definition, signal ?? held.signal, async () => undefined)) !==
          undefined
        );
      } finally {
        await held.close({ discard: true }).catch(() => {});
      }
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "LEASE_HELD") return false;
      throw error;
    }
  }

  /** Opens the session, waiting for a holder that is dying, or that is at the same turn. */
  async #hold(request: RunRequest, tell: Tell): Promise<RunResult> {
    const { definition, id, asking, o, parent } = request;
    const given: SessionOptions = {
      agent: definition.name,
      ...(o.title !== undefined && { title: o.title }),
      ...(o.tags !== undefined && { tags: o.tags }),
      ...(o.metadata !== undefined && { metadata: o.metadata }),
    };
    await ensureAgent(this.#ctx, definition);
    let waited = 0;
    for (;;) {
      if (o.signal?.aborted) return aborted(id, asking?.key ?? "");
      try {
        const held = await openHeld(this.#ctx, id, given, {
          make: asking !== undefined,
          ...(parent !== undefined && { parent }),
        });
        return await this.#drive(held, request, tell);
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
        const {
          turn,
          isOther: isBusyElsewhere,
          earlier,
        } = await this.#look(id, definition, asking);
        if (earlier !== undefined) return earlier;
        if (isBusyElsewhere && (o.ifBusy ?? "reject") === "reject") throw turnOpen(id);
        if (isBusyElsewhere && asking !== undefined && o.ifBusy === "queue")
          return this.#queue(request, asking, { isActive: true });
        if (isBusyElsewhere && o.ifBusy === "interrupt" && waited === 0) await this.#interrupt(id);
        // Held by hand, not by a run: one that lives keeps it for as long as it likes.
        if (turn === undefined && waited > this.#ctx.leaseMs + 1_000) throw error;
        await sleep(LOOK_MS, undefined, { signal: o.signal }).catch(() => {});
        waited += LOOK_MS;
      }
    }
  }

  /**
   * The turn that a session is at, whether that is under way and another than is asked for, and how
   * that one ended if it came before.
   */
  async #look(id: SessionId, definition: Definition, asking: TurnInput | undefined) {
    const present = await this.#ctx.journal.present(id);
    if (present === undefined) return { turn: undefined, isOther: false, earlier: undefined };
    const inFlight = await this.#ctx.loader.inFlightAt(present);
    const { turn } = inFlight;
    const isOther =
      turn !== undefined &&
      asking !== undefined &&
      !isMeant(turn, asking, id) &&
      isUnderWay(present.head.status);
    const earlier = await earlierTurn(
      this.#ctx,
      definition,
      { session: id, branch: present.head.branch, inFlight },
      asking,
    );
    return { turn, isOther, earlier };
  }

  async #drive(held: HeldSession, request: RunRequest, tell: Tell): Promise<RunResult> {
    const { definition, o, asking } = request;
    const { signal: stop, unlink } = linked(held.signal, o.signal);
    try {
      return await this.#observed(held, definition, () =>
        this.#runner(held, { definition, o, tell, stop }).run(asking),
      );
    } finally {
      unlink();
      // What rides with the next commit goes now: there is none.
      await held.flush().catch(() => {});
      await held.close({ discard: true }).catch(() => {});
      if (request.parent === undefined) await held.wakeParent();
    }
  }

  #runner(held: HeldSession, given: Omit<TurnOptions, "runChild">): TurnRunner {
    const { redactor } = this.#ctx;
    return new TurnRunner(held, {
      ...given,
      runChild: (agent, id, input, key) => {
        const o = { signal: given.stop, ...(key !== undefined && { key }) };
        return this.run({ ...requestOf(agent, id, input, o, redactor), parent: held.id });
      },
    });
  }

  #observed<R extends RunResult | undefined>(
    { id }: HeldSession,
    { name, version }: Definition,
    go: () => Promise<R>,
  ): Promise<R> {
    const about = () =>
      ({
        type: "run",
        sessionId: id,
        agent: name,
        ...(version !== undefined && { version }),
      }) as const;
    return observed(this.#ctx.telemetry, about, async (tell) => {
      const result = await go();
      if (result !== undefined) tell({ status: result.status, turnId: result.turnId });
      return result;
    });
  }

  /**
   * Takes a session up for a worker: goes on with its open turn, or begins one that waits in its
   * inbox. Answers how it ended; undefined where there was nothing to do. `whyHalt` is asked when
   * the turn can go on from here: what comes before has often been done in vain.
   */
  async takeUp(
    held: HeldSession,
    definition: Definition,
    signal: AbortSignal,
    whyHalt: WhyHalt,
  ): Promise<RunResult | undefined> {
    const { promise, settle } = announced();
    const { signal: stop, unlink } = linked(held.signal, signal);
    this.#active.set(held.id, {
      agent: definition.name,
      turn: undefined,
      result: promise,
      sinks: new Set(),
    });
    try {
      return await this.#observed(held, definition, () =>
        this.#runner(held, { definition, o: {}, tell: () => {}, stop }).takeUp(whyHalt),
      );
    } finally {
      unlink();
      this.#active.delete(held.id);
      settle();
      await held.wakeParent();
    }
  }
}

/** How a run ends that was stopped before it held its session. */
const aborted = (sessionId: string, turnId: string): RunResult => ({
  sessionId,
  turnId,
  usage: {},
  status: "stopped",
  reason: "aborted",
});

/**
 * A promise for those who wait until a run in this process is over. They look for themselves how it
 * ended.
 */
function announced(): { readonly promise: Promise<never>; readonly settle: () => void } {
  let settle = () => {};
  const promise = new Promise<never>((_resolve, reject) => {
    settle = () => reject(new Error("over"));
  });
  promise.catch(() => {});
  return { promise, settle };
}
