/**
 * The calls of one reply: what is to be done about each is decided first, intents are committed before any of them runs, outcomes are
 * recorded as they come, and their tool messages are appended together, in the order of the calls, once all are settled.
 */
import type { Effect } from "../../core/effects/effect.js";
import type { ToolState } from "../../core/messages/agent-event.js";
import { encodeMessage, type Message, type MessageInput, type ToolCallPart, type ToolResultPart } from "../../core/messages/message.js";
import { resultOf, valueOf } from "../../engine/calls/bodies.js";
import { Caller, type Finished, failed, finished } from "../../engine/calls/caller.js";
import { tellEvent } from "../../engine/journal/telemetry.js";
import { restate } from "../../engine/session/settle-calls.js";
import { Decider, type Decision, type Sets } from "./decide.js";
import type { ToolDefinition } from "./define/define.js";
import { cursorOf, type Running } from "./running.js";

/** How a call ended: with an answer for the model, or without one for now. */
type Ended =
  | {
      readonly is: "answer";
      readonly effect: Effect | undefined;
      readonly made: Finished;
      readonly sets: Sets | undefined;
    }
  /** Its answer is in the journal already. */
  | { readonly is: "recorded"; readonly effect: Effect }
  | { readonly is: "open"; readonly pauseUntil?: number }
  | { readonly is: "stopped" };

/** A tool message, and whether it says the result as it is. */
interface Told {
  readonly part: ToolResultPart;
  readonly isPlain: boolean;
}

export interface Settled {
  /** All calls have their tool messages. */
  readonly all: boolean;
  /** Whether something of it must be committed at once. */
  readonly acted: boolean;
  /** Until when, by the store's clock, another process may be inside one of them. */
  readonly pauseUntil: number | undefined;
  readonly stopped: boolean;
  /** Outcomes that are recorded with the next commit. */
  readonly fresh: readonly { readonly effect: Effect; readonly made: Finished }[];
}

export class Calls {
  readonly #running: Running;
  readonly #caller: Caller;
  readonly #decider: Decider;
  readonly #sets = new Map<string, Sets>();

  constructor(running: Running) {
    this.#running = running;
    this.#caller = new Caller(running.held, running.stop);
    this.#decider = new Decider(running, this.#sets);
  }

  decide(calls: readonly ToolCallPart[], reply: Message | undefined): Promise<readonly Decision[]> {
    return this.#decider.decide(calls, reply);
  }

  get #course() {
    return this.#running.held.work.fold.course;
  }

  // ---- making

  /** Stages the intents of calls that have none yet. Answers the ids of effects by the calls' index, and which of them are new. */
  intend(reply: Message, decisions: readonly Decision[]): ReadonlyMap<number, { readonly id: string; readonly fresh: boolean }> {
    const ids = new Map<number, { id: string; fresh: boolean }>();
    for (const [index, decision] of decisions.entries()) {
      if (decision.do === "go-on" || decision.do === "ask") ids.set(index, { id: decision.id, fresh: false });
      if (decision.do !== "intend") continue;
      const { id } = this.#caller.intend({ ...decision.call, place: [reply.seq, index] }, decision.waits);
      ids.set(index, { id, fresh: decision.waits === undefined && decision.replays === undefined });
    }
    // Whoever is to approve a call need not wait for its siblings to end.
    if (decisions.some((decision) => decision.do === "intend" && decision.waits !== undefined)) restate(this.#running.held.work);
    return ids;
  }

  /** Makes all calls of a reply, as far as they can be made now, and stages what came of it. */
  async make(
    reply: Message,
    calls: readonly ToolCallPart[],
    decisions: readonly Decision[],
    ids: ReadonlyMap<number, { readonly id: string; readonly fresh: boolean }>,
  ): Promise<Settled> {
    let left = calls.length;
    let acted = false;
    let open = false;
    const ends = new Map<number, Ended>();
    await Promise.all(
      calls.map(async (part, index) => {
        const decision = decisions[index] as Decision;
        const own = ids.get(index);
        const end: Ended =
          decision.do === "refuse"
            ? { is: "answer", effect: undefined, made: failed(decision.says, undefined), sets: undefined }
            : decision.do === "share"
              ? { is: "open" }
              : await this.#makeOne(part, decision, own as { id: string; fresh: boolean });
        ends.set(index, end);
        left -= 1;
        if (end.is === "open" && decision.do !== "share") open = true;
        if (end.is === "stopped") open = true;
        this.#tell(part, end);
        const isActing = end.is === "answer" && end.effect !== undefined && end.effect.mode !== "repeatable";
        if (isActing) acted = true;
        // The last one is recorded together with the tool messages; those before it as they come. Where this holder was superseded there
        // will be no such messages: recording fails, and passes it on.
        if (isActing && (left > 0 || open || this.#running.held.ended !== undefined)) await this.#record(index, end, ends);
      }),
    );
    // Calls that are the same as others are answered like them.
    for (const [index, decision] of decisions.entries()) {
      if (decision.do !== "share") continue;
      const shared = await this.#shared(decision.with, ends);
      ends.set(index, shared);
      if (shared.is !== "answer" && shared.is !== "recorded") open = true;
      else this.#say(calls[index] as ToolCallPart, "replayed");
    }
    const fresh = [...ends.values()].flatMap((end) =>
      end.is === "answer" && end.effect !== undefined ? [{ effect: end.effect, made: end.made }] : [],
    );
    if (open) {
      const left = this.#leaveOpen(ends);
      for (const [index, part] of calls.entries()) this.#tellOpen(part, ids.get(index)?.id);
      return { all: false, acted, fresh, ...left };
    }
    await this.#answer(reply, calls, ends);
    return { all: true, acted, fresh, pauseUntil: undefined, stopped: false };
  }

  /** Answers the calls of a reply whose turn is over: those that nobody has begun with `says`, the others as far as that can be known. */
  leave(reply: Message, calls: readonly ToolCallPart[], says: string): Promise<Settled> {
    const known = this.#course.ofReply(reply.seq);
    const decisions = calls.map((_, index): Decision => {
      const effect = known.get(index);
      return effect === undefined ? { do: "refuse", says } : { do: "ask", id: effect.id };
    });
    return this.make(reply, calls, decisions, this.intend(reply, decisions));
  }

  /** The commit that was to record outcomes has failed for good: whoever holds the session now is told of them. */
  async late({ fresh }: Settled): Promise<void> {
    for (const { effect, made } of fresh) await this.#caller.late(effect, made);
  }

  async #makeOne(part: ToolCallPart, decision: Decision, { id, fresh }: { readonly id: string; readonly fresh: boolean }): Promise<Ended> {
    const effect = this.#course.get(id) as Effect;
    if (effect.phase === "done") return { is: "recorded", effect };
    if (decision.do === "intend" && decision.replays !== undefined) {
      const { replays } = decision;
      const made = {
        ...finished(await resultOf(this.#running.ground, replays), undefined),
        outcome: replays.outcome ?? "ok",
        ...(replays.happened && { happened: replays.happened }),
        from: replays.id,
      };
      return { is: "answer", effect, made, sets: undefined };
    }
    const tool = this.#running.definition.tools.get(effect.name);
    // A tool that is gone leaves its call in doubt: nobody here can say what it did.
    if (tool === undefined) return this.#doubt(effect);
    const call =
      decision.do === "intend"
        ? decision.call
        : this.#decider.callOf(
            { ...tool, options: { ...tool.options, mode: effect.mode } },
            part,
            effect.args === undefined ? part.input : await valueOf(this.#running.ground, effect.args),
            effect.same,
            effect.named,
          );
    this.#wake(effect);
    if (fresh) this.#say(part, "started");
    const made = decision.do === "ask" ? await this.#caller.ask(id, call) : await this.#caller.make(id, call, { fresh });
    switch (made.is) {
      case "finished": {
        const sets = this.#sets.get(id);
        this.#sets.delete(id);
        return { is: "answer", effect: this.#course.get(id) ?? effect, made, sets };
      }
      case "done":
        return { is: "recorded", effect: made.effect };
      case "waits":
        this.#running.held.work.course({ effect: { id, is: "waits", waits: made.waits } });
        return { is: "open" };
      case "waiting":
        return { is: "open" };
      case "doubt":
        return this.#doubt(this.#course.get(id) ?? effect, made.why);
      case "pause":
        return { is: "open", pauseUntil: made.until };
      case "stopped":
        return { is: "stopped" };
    }
  }

  #doubt({ id, phase }: Effect, why?: string): Ended {
    if (phase !== "doubt") this.#running.held.work.course({ effect: { id, is: "doubt", ...(why !== undefined && { why }) } });
    return { is: "open" };
  }

  /** A wait whose time is up is over. A child may have gone on since: the tool looks for itself. */
  #wake({ id, waits }: Effect): void {
    const { held, ground } = this.#running;
    const isOver = waits?.for === "child" || (waits?.for === "signal" && waits.until !== undefined && waits.until <= ground.wallMs());
    if (isOver) held.work.course({ effect: { id, is: "woken" } });
  }

  /** The outcome of one call, on its own. */
  async #record(index: number, end: Extract<Ended, { is: "answer" }>, ends: Map<number, Ended>): Promise<void> {
    const { held } = this.#running;
    const effect = end.effect as Effect;
    this.#stageDone(effect, end, undefined);
    try {
      await held.commitSurely();
    } catch (error) {
      await this.#caller.late(effect, end.made);
      throw error;
    }
    ends.set(index, { is: "recorded", effect: this.#course.get(effect.id) ?? effect });
  }

  #stageDone(effect: Effect, { made, sets }: Extract<Ended, { is: "answer" }>, said: number | undefined): void {
    const { work } = this.#running.held;
    for (const [key, value] of sets ?? []) work.set(key, value);
    const { outcome, by, from, body, happened } = made;
    const event = {
      id: effect.id,
      is: "done",
      outcome,
      ...(said !== undefined && { said }),
      ...(by !== undefined && { by }),
      ...(from !== undefined && { from }),
      ...(happened && { happened }),
    } as const;
    work.course({ effect: event }, said === undefined ? body : undefined);
  }

  async #shared(other: number | string, ends: ReadonlyMap<number, Ended>): Promise<Ended> {
    if (typeof other === "number") return ends.get(other) ?? { is: "open" };
    // Where it was made just now, the journal does not have its outcome yet.
    const made = [...ends.values()].find((end) => end.is === "answer" && end.effect?.id === other);
    if (made !== undefined) return made;
    const effect = this.#course.get(other);
    return effect?.phase === "done" ? { is: "recorded", effect } : { is: "open" };
  }

  /** Some calls have no answer yet: the others are recorded, and the session's status says what it waits for. */
  #leaveOpen(ends: ReadonlyMap<number, Ended>): Pick<Settled, "pauseUntil" | "stopped"> {
    let pauseUntil: number | undefined;
    let stopped = false;
    for (const end of ends.values()) {
      if (end.is === "answer" && end.effect !== undefined) this.#stageDone(end.effect, end, undefined);
      if (end.is === "stopped") stopped = true;
      if (end.is === "open" && end.pauseUntil !== undefined) pauseUntil = Math.max(pauseUntil ?? 0, end.pauseUntil);
    }
    restate(this.#running.held.work);
    return { pauseUntil, stopped };
  }

  // ---- answering

  /** Stages the tool messages of a reply, in the order of its calls, and with them the outcomes that are not recorded yet. */
  async #answer(reply: Message, calls: readonly ToolCallPart[], ends: ReadonlyMap<number, Ended>): Promise<void> {
    const { held, definition } = this.#running;
    const { work } = held;
    // Everything that takes time comes before the first word is staged: what is staged from here on is one save.
    const told: Told[] = [];
    for (const [index, call] of calls.entries())
      told.push(await this.#toModel(call, ends.get(index) as Ended, definition.tools.get(call.name)?.toModel));
    const before = work.fold.messageCount;
    work.append(told.map(({ part }): MessageInput => ({ role: "tool", content: [part] })));
    for (const [index, { isPlain }] of told.entries()) {
      const end = ends.get(index) as Ended;
      if (end.is !== "answer" || end.effect === undefined || end.effect.mode === "repeatable") continue;
      if (this.#course.get(end.effect.id)?.phase === "done") continue;
      const message = work.fold.messageAt(before + index) as Message;
      this.#stageDone(end.effect, end, isPlain && end.effect.named === undefined ? message.seq : undefined);
    }
    for (const end of ends.values())
      if (end.is === "answer" && end.effect?.mode === "repeatable") for (const [key, value] of end.sets ?? []) work.set(key, value);
    work.course({ answered: reply.seq });
    restate(work);
  }

  async #toModel(call: ToolCallPart, end: Ended, toModel: ToolDefinition["toModel"]): Promise<Told> {
    const outcome = end.is === "answer" ? end.made.outcome : end.is === "recorded" ? (end.effect.outcome ?? "ok") : "error";
    const result =
      end.is === "answer" ? end.made.body.value : end.is === "recorded" ? await resultOf(this.#running.ground, end.effect) : null;
    const base = { type: "tool-result", callId: call.callId, name: call.name, outcome } as const;
    const plain = { part: { ...base, output: result }, isPlain: true };
    if (outcome !== "ok" || toModel === undefined) return plain;
    try {
      const part = { ...base, output: toModel(result) };
      // Checked here, so that what cannot be stored does not stop the run.
      encodeMessage({ role: "tool", content: [part] }, "toModel");
      return { part, isPlain: false };
    } catch {
      return plain;
    }
  }

  // ---- telling

  #tell(part: ToolCallPart, end: Ended): void {
    if (end.is === "recorded") this.#say(part, end.effect.outcome === "ok" ? "replayed" : (end.effect.outcome ?? "done"));
    if (end.is !== "answer") return;
    const { outcome, from } = end.made;
    this.#say(part, outcome !== "ok" ? outcome : from === undefined ? "done" : "replayed");
  }

  #tellOpen(part: ToolCallPart, id: string | undefined): void {
    const phase = id === undefined ? undefined : this.#course.get(id)?.phase;
    if (phase === "waiting") this.#say(part, "waiting");
    if (phase === "doubt") this.#say(part, "in-doubt");
  }

  #say({ callId, name }: ToolCallPart, state: ToolState): void {
    const { tell, ground, held, definition } = this.#running;
    tell(() => ({ type: "tool", callId, name, state, cursor: cursorOf(this.#running) }));
    const about = { sessionId: held.id, agent: definition.name, callId, tool: name, known: definition.tools.has(name) };
    tellEvent(ground.telemetry, () => ({ type: "call", ...about, state }));
  }
}
