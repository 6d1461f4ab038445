/** One turn of a session that is held: begun, gone on with, or found to be over. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { sameOf } from "../../core/effects/effect.js";
import { isUnderWay } from "../../core/sessions/status.js";
import type { SessionId } from "../../core/values/ids.js";
import { isMailOfBefore, standstillOf } from "../../engine/calls/restored.js";
import type { Ground } from "../../engine/journal/ground.js";
import { readMail } from "../../engine/journal/read-inbox.js";
import type { Holding } from "../../engine/session/holding.js";
import { cancel, isOpen, leaveInDoubt, restate } from "../../engine/session/settle-calls.js";
import { type Asking, askingOf, isMeant, noTurn, turnOpen } from "./asking.js";
import { boundsOf, type Definition } from "./define/define.js";
import type { Input } from "./define/definition.js";
import type { RunResult } from "./define/result.js";
import { RunEvents } from "./events.js";
import { Loop, type LoopEnd, type NewTurn } from "./loop.js";
import { resultOf } from "./outcome.js";
import { earlierTurn } from "./past-turns.js";
import { type Running, viewOf } from "./running.js";
import type { RunRequest } from "./runs.js";

/** Answers whether a turn that has been taken up is to go on. */
export type Begun = (loop: Loop) => Promise<boolean>;

/** Whoever may be inside a call may be seen to be dead long before its time is over. */
const LOOK_AGAIN_MS = 2_000;

/** Runs an agent in a session that belongs to a call of another. */
type RunChild = (
  agent: unknown,
  id: string,
  input: Input,
  about: { readonly key: string | undefined; readonly parent: SessionId; readonly signal: AbortSignal },
) => Promise<RunResult>;

export class Turns {
  readonly #ground: Ground;
  readonly #runChild: RunChild;

  constructor(ground: Ground, runChild: RunChild) {
    this.#ground = ground;
    this.#runChild = runChild;
  }

  /** The turn that is asked for, or the latest one. */
  async run(held: Holding, request: RunRequest, stop: AbortSignal): Promise<RunResult> {
    const { asking, o, definition } = request;
    const { course } = held.work.fold;
    if (asking === undefined) {
      if (course.turn === undefined) throw noTurn(held.id);
      if (held.work.fold.status === "completed") return resultOf(held, definition, { is: "ended" }, true);
      return this.#goOn(held, request, stop, await this.#loop(held, request, stop));
    }
    if (isMeant(course.turn, asking, held.id)) {
      const { status } = held.work.fold;
      if (status === "completed") return resultOf(held, definition, { is: "ended" }, true);
      if (status === "cancelled") return resultOf(held, definition, { is: "stopped" }, false);
      if (held.work.fold.isCancelling) return resultOf(held, definition, { is: "waiting" }, false);
      return this.#goOn(held, request, stop, await this.#loop(held, request, stop));
    }
    const earlier = await earlierTurn(this.#ground, definition, { session: held.id, line: held.line, course }, asking);
    if (earlier !== undefined) return earlier;
    let loop: Loop | undefined;
    if (isOpen(held.work)) {
      const how = o.ifBusy ?? "reject";
      if (how === "reject") throw turnOpen(held.id);
      loop = await this.#loop(held, request, stop);
      if (how === "interrupt") cancel(held.work, "interrupted by another input");
      else {
        const before = await this.#goOn(held, request, stop, loop);
        if (before.status === "waiting" || before.status === "in-doubt") throw turnOpen(held.id, before.status);
        if (before.status === "stopped") return before;
      }
    }
    loop ??= await this.#loop(held, request, stop);
    if (!(await this.#left(held, stop, loop))) return resultOf(held, definition, { is: "stopped" }, false);
    const turn: NewTurn = { id: asking.key ?? randomUUID(), key: asking.key, same: asking.same, message: asking.message, drained: [] };
    await loop.begin(turn);
    return resultOf(held, definition, await this.#paced(held, stop, loop), false);
  }

  /** The open turn, or one that waits in the inbox; undefined where there is nothing to do. */
  async takeUp(held: Holding, definition: Definition, stop: AbortSignal, begun: Begun): Promise<RunResult | undefined> {
    // Somebody must decide first: whatever else waits in its inbox comes after that.
    const now = this.#ground.wallMs();
    const { course, isCancelling } = held.work.fold;
    if (isCancelling || (isOpen(held.work) && (course.goesOnAt(now) ?? Number.POSITIVE_INFINITY) > now)) {
      // Whoever died may have noted what became of its calls, and not what follows from that.
      restate(held.work);
      await held.commit();
      return undefined;
    }
    const loop = await this.#loop(held, { definition, o: {}, tell: () => {} }, stop);
    if (isOpen(held.work)) await loop.resume();
    else if (!(await this.#beginNext(held, stop, loop))) {
      held.work.redue();
      await held.commit();
      return undefined;
    }
    if (!(await begun(loop))) return resultOf(held, definition, { is: "ended" }, false);
    const end = await loop.run();
    if (end.is !== "pause") return resultOf(held, definition, end, false);
    const leftMs = Math.max(10, end.until - this.#ground.nowAbout());
    held.work.due(this.#ground.wallMs() + Math.min(leftMs, LOOK_AGAIN_MS));
    await held.commit();
    return resultOf(held, definition, { is: "stopped" }, false);
  }

  /** Fails the open turn, or the one that waits in the inbox and could not be begun: it is not tried again and again. */
  async fail(held: Holding, reason: string): Promise<void> {
    const { work } = held;
    // As it is stored: what was staged for the next turn says that something is under way.
    const wasOpen = work.fold.course.turn !== undefined && isUnderWay((await this.#ground.journal.present(held.id))?.head.status);
    const next = wasOpen ? undefined : (await readMail(this.#ground, held.id)).find(({ doc }) => doc.kind === "turn");
    if (next?.doc.kind === "turn") {
      const { turn: id, key, input } = next.doc;
      // That it cannot be appended may be why it could not be begun. The turn is over without it.
      const asking = await this.#fitting(held, input as unknown as Input);
      work.turn({ id, ...(key !== undefined && { key }), same: asking?.same ?? sameOf(input) });
      if (asking !== undefined) work.append([asking.message]);
      // On its own: a save that begins a turn does not say how one ended.
      await held.commit(undefined, [next.id]);
    }
    leaveInDoubt(work);
    // What nobody knows of comes first: once it is settled the turn is gone on with, and fails again if it must.
    if (work.fold.status === "in-doubt") {
      work.due(undefined);
      await held.commit();
      return;
    }
    work.event("fail", reason);
    work.redue();
    await held.commit({ kind: "automatic" });
  }

  /** An input that can be appended; undefined for others. */
  async #fitting(held: Holding, input: Input): Promise<Asking | undefined> {
    try {
      const asking = askingOf(input, undefined, this.#ground.redactor);
      await held.tryMessage(asking.message);
      return asking;
    } catch {
      return undefined;
    }
  }

  /** Begins the oldest turn that waits in the inbox, if there is one. */
  async #beginNext(held: Holding, stop: AbortSignal, loop: Loop): Promise<boolean> {
    for (const { id, doc } of await readMail(this.#ground, held.id)) {
      if (doc.kind !== "turn") continue;
      const { message, same } = askingOf(doc.input as unknown as Input, undefined, this.#ground.redactor);
      // Run by somebody under the same key since it was submitted.
      if (doc.key !== undefined && held.work.fold.course.hadTurn(doc.key)) await held.commit(undefined, [id]);
      else {
        if (!(await this.#left(held, stop, loop))) return false;
        const isOfBefore = isMailOfBefore(this.#ground, id);
        await loop.begin({ id: doc.turn, key: doc.key, same, message, drained: [id], isOfBefore });
        return true;
      }
    }
    return false;
  }

  async #goOn(held: Holding, request: RunRequest, stop: AbortSignal, loop: Loop): Promise<RunResult> {
    if ((await standstillOf(held, "go on")) !== undefined) return resultOf(held, request.definition, { is: "waiting" }, false);
    await loop.resume();
    return resultOf(held, request.definition, await this.#paced(held, stop, loop), false);
  }

  /** Another process may be inside a call: its time is waited for. */
  async #paced(held: Holding, stop: AbortSignal, loop: Loop): Promise<LoopEnd> {
    for (;;) {
      const end = await loop.run();
      if (end.is !== "pause") return end;
      await this.#pause(held, stop, end.until);
      if (stop.aborted) return { is: "stopped" };
    }
  }

  /** Leaves the turn before, which is over, for another. Answers false where this run is to stop first. */
  async #left(held: Holding, stop: AbortSignal, loop: Loop): Promise<boolean> {
    for (;;) {
      const end = await loop.leave();
      if (end === undefined) return true;
      if (end.is === "pause") await this.#pause(held, stop, end.until);
      if (end.is === "stopped" || stop.aborted) return false;
    }
  }

  async #pause(held: Holding, stop: AbortSignal, until: number): Promise<void> {
    const ms = Math.max(10, until - this.#ground.nowAbout());
    await sleep(Math.min(ms, 1_000), undefined, { signal: stop }).catch(() => {});
    if (!stop.aborted) await held.takeMail({ ends: true });
  }

  async #loop(held: Holding, { definition, o, tell }: Pick<RunRequest, "definition" | "o" | "tell">, stop: AbortSignal): Promise<Loop> {
    const session = viewOf(held);
    const context: unknown = o.context !== undefined ? o.context : await definition.context?.(session);
    const running: Running = {
      held,
      ground: this.#ground,
      definition,
      session,
      context,
      stop,
      tell,
      events: new RunEvents(held, definition, tell),
      bounds: boundsOf(o.limits, definition.limits),
      runChild: (agent, id, input, key) => this.#runChild(agent, id, input, { key, parent: held.id, signal: stop }),
    };
    return new Loop(running);
  }
}
