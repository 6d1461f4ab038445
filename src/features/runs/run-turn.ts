/**
 * Run a turn of a held session: the one that is asked for, the open one, or the next in the inbox.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { isMessageOfBefore, standstillOf } from "../../engine/calls/doubt-restored.js";
import { readInbox } from "../../engine/journal/read-inbox.js";
import type { HeldSession } from "../../engine/session/held-session.js";
import { cancel, isOpen, restate } from "../../engine/session/settle-calls.js";
import type { Input, RunOptions } from "./define/agent-types.js";
import { boundsOf, type Definition } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { RunEvents, type Tell } from "./events.js";
import { Loop } from "./loop.js";
import { type LoopEnd, resultOf } from "./outcome.js";
import { earlierTurn } from "./past-turns.js";
import type { Prefix } from "./prompt-prefix.js";
import { type ChildRunner, type RunContext, viewOf } from "./run-context.js";
import { ToolCalls } from "./tool-calls.js";
import { isMeant, noTurn, type TurnInput, turnInputOf, turnOpen } from "./turn-input.js";
import { beginTurn, haltTurn, leaveTurn, resumeTurn } from "./turns.js";

/**
 * Answers why a turn that has been taken up is halted before it goes on; undefined where it is to
 * go on.
 */
export type WhyHalt = () => Promise<string | undefined>;

/** The holder that may be inside a call may be seen to be dead long before its time is over. */
const LOOK_AGAIN_MS = 2_000;

/** How the turns of a session are run. */
export interface TurnOptions {
  readonly definition: Definition;
  readonly o: Pick<Partial<RunOptions>, "context" | "limits" | "ifBusy">;
  readonly tell: Tell;
  /** Aborts when nothing more is to be begun. */
  readonly stop: AbortSignal;
  readonly runChild: ChildRunner;
}

/** A run that can begin calls: the agent's context has been made. */
interface Started {
  readonly running: RunContext;
  readonly calls: ToolCalls;
  readonly loop: Loop;
}

export class TurnRunner {
  readonly #held: HeldSession;
  readonly #given: TurnOptions;

  constructor(held: HeldSession, given: TurnOptions) {
    this.#held = held;
    this.#given = given;
  }

  /** Runs the turn that is asked for; without `asking` the latest one. */
  async run(asking: TurnInput | undefined): Promise<RunResult> {
    const held = this.#held;
    const { fold } = held.work;
    const { inFlight } = fold;
    if (asking === undefined) {
      if (inFlight.turn === undefined) throw noTurn(held.id);
      if (fold.status === "completed") return this.#result({ is: "ended" }, true);
      return this.#goOn(await this.#start());
    }
    if (isMeant(inFlight.turn, asking, held.id)) {
      if (fold.status === "completed") return this.#result({ is: "ended" }, true);
      if (fold.status === "cancelled") return this.#result({ is: "stopped" });
      if (fold.isCancelling) return this.#result({ is: "waiting" });
      return this.#goOn(await this.#start());
    }
    const { definition, o } = this.#given;
    const earlier = await earlierTurn(
      held.ctx,
      definition,
      { session: held.id, branch: held.branch, inFlight },
      asking,
    );
    if (earlier !== undefined) return earlier;
    const isBusy = isOpen(held.work);
    const how = o.ifBusy ?? "reject";
    if (isBusy && how === "reject") throw turnOpen(held.id);
    const started = await this.#start();
    if (isBusy && how === "interrupt") cancel(held.work, "interrupted by another input");
    else if (isBusy) {
      const before = await this.#goOn(started);
      if (before.status === "waiting" || before.status === "in-doubt")
        throw turnOpen(held.id, before.status);
      if (before.status === "stopped") return before;
    }
    if (!(await this.#leave(started))) return this.#result({ is: "stopped" });
    const { key, inputDigest, message } = asking;
    const prefix = await beginTurn(started.running, {
      id: key ?? randomUUID(),
      key,
      inputDigest,
      message,
      drained: [],
    });
    // The loop of the turn before has counted that turn's rounds.
    const loop = new Loop(started.running, started.calls);
    return this.#result(await this.#runPatiently({ ...started, loop }, prefix));
  }

  /**
   * Runs the open turn, or one that waits in the inbox. Answers undefined where there is nothing to
   * do.
   */
  async takeUp(whyHalt: WhyHalt): Promise<RunResult | undefined> {
    const held = this.#held;
    const { ctx, work } = held;
    // A person must decide first: what else waits in its inbox comes after that.
    const now = ctx.wallMs();
    const { inFlight, isCancelling } = work.fold;
    if (
      isCancelling ||
      (isOpen(work) && (inFlight.goesOnAt(now) ?? Number.POSITIVE_INFINITY) > now)
    ) {
      // A holder that died may have noted what became of its calls, and not what follows from that.
      restate(work);
      await held.commit();
      return undefined;
    }
    const started = await this.#start();
    const prefix = isOpen(work)
      ? await resumeTurn(started.running)
      : await this.#beginNext(started);
    if (prefix === undefined) {
      work.redue();
      await held.commit();
      return undefined;
    }
    const reason = await whyHalt();
    if (reason !== undefined) {
      await haltTurn(started.running, reason);
      return this.#result({ is: "ended" });
    }
    const end = await started.loop.run(prefix);
    if (end.is !== "pause") return this.#result(end);
    const leftMs = Math.max(10, end.until - ctx.nowAbout());
    work.due(ctx.wallMs() + Math.min(leftMs, LOOK_AGAIN_MS));
    await held.commit();
    return this.#result({ is: "stopped" });
  }

  /** Begins the oldest turn that waits in the inbox, if there is one. */
  async #beginNext(started: Started): Promise<Prefix | undefined> {
    const held = this.#held;
    for (const { id, doc } of await readInbox(held.ctx, held.id)) {
      if (doc.kind !== "turn") continue;
      const { message, inputDigest } = turnInputOf(
        doc.input as unknown as Input,
        undefined,
        held.ctx.redactor,
      );
      // Run by another caller under the same key since it was submitted.
      if (doc.key !== undefined && held.work.fold.inFlight.hadTurn(doc.key))
        await held.commit(undefined, [id]);
      else {
        if (!(await this.#leave(started))) return undefined;
        const isOfBefore = isMessageOfBefore(held.ctx, id);
        return beginTurn(started.running, {
          id: doc.turn,
          key: doc.key,
          inputDigest,
          message,
          drained: [id],
          isOfBefore,
        });
      }
    }
    return undefined;
  }

  async #goOn(started: Started): Promise<RunResult> {
    if ((await standstillOf(this.#held, "go on")) !== undefined)
      return this.#result({ is: "waiting" });
    return this.#result(await this.#runPatiently(started, await resumeTurn(started.running)));
  }

  /** Another process may be inside a call: its time is waited for. */
  async #runPatiently({ loop }: Started, prefix: Prefix): Promise<LoopEnd> {
    for (;;) {
      const end = await loop.run(prefix);
      if (end.is !== "pause") return end;
      await this.#pause(end.until);
      if (this.#given.stop.aborted) return { is: "stopped" };
    }
  }

  /**
   * Leaves the turn before, which is over, for another. Answers false where this run is to stop
   * first.
   */
  async #leave({ calls }: Started): Promise<boolean> {
    for (;;) {
      const end = await leaveTurn(this.#held, calls);
      if (end === undefined) return true;
      if (end.is === "pause") await this.#pause(end.until);
      if (end.is === "stopped" || this.#given.stop.aborted) return false;
    }
  }

  async #pause(until: number): Promise<void> {
    const { stop } = this.#given;
    const ms = Math.max(10, until - this.#held.ctx.nowAbout());
    await sleep(Math.min(ms, 1_000), undefined, { signal: stop }).catch(() => {});
    if (!stop.aborted) await this.#held.inbox.takeInbox({ ends: true });
  }

  /** Makes the agent's context, and with it all parts of a run. */
  async #start(): Promise<Started> {
    const held = this.#held;
    const { definition, o, tell, stop, runChild } = this.#given;
    const session = viewOf(held);
    const context: unknown =
      o.context !== undefined ? o.context : await definition.context?.(session);
    const running: RunContext = {
      held,
      ctx: held.ctx,
      definition,
      session,
      context,
      stop,
      tell,
      events: new RunEvents(held, definition, tell),
      bounds: boundsOf(o.limits, definition.limits),
      runChild,
    };
    const calls = new ToolCalls(running);
    return { running, calls, loop: new Loop(running, calls) };
  }

  #result(end: LoopEnd, replayed = false): Promise<RunResult> {
    return resultOf(this.#held, this.#given.definition, end, replayed);
  }
}
