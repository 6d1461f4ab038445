/**
 * Make the calls of one reply: from the plan to their tool messages. Intents are committed before
 * any of them runs, outcomes are recorded as they come, and the tool messages are appended
 * together, in the order of the calls, once all are settled.
 */
import { type Effect, NotDone } from "../../core/effects/effect.js";
import type { Message, MessageInput, ToolCallPart } from "../../core/messages/message.js";
import { inputOf, outputOf, valueOf } from "../../engine/calls/bodies.js";
import {
  type Call,
  CallExecutor,
  type Finished,
  failed,
  finished,
} from "../../engine/calls/execute-call.js";
import { observed } from "../../engine/journal/telemetry.js";
import { restate } from "../../engine/session/settle-calls.js";
import { answerOf } from "../../engine/util/thrown.js";
import type { ToolDefinition } from "./define/compile-agent.js";
import type { Parsed } from "./define/schema.js";
import type { IntendedCall, PlannedCall } from "./plan-tool-calls.js";
import type { RunContext } from "./run-context.js";
import { CallContext } from "./tool-context.js";
import {
  type Answered,
  type Ended,
  endOf,
  recordedEnd,
  type Sets,
  stageOutcome,
  stageSets,
  type ToolMessage,
  toolMessage,
} from "./tool-outcomes.js";

/** A call whose intent is staged, or that needs none. */
export type StagedCall =
  | Exclude<PlannedCall, IntendedCall>
  | (Pick<IntendedCall, "part" | "do" | "waits" | "replays"> & {
      readonly id: string;
      readonly call: Call;
    });

/** One that has an intent. */
type OwnCall = Extract<StagedCall, { readonly id: string }>;

/** What a call is made with. Its input may have been parsed already. */
type CallToMake = Pick<IntendedCall, "part" | "input" | "inputDigest" | "named"> & {
  readonly parsed?: Parsed;
};

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

export class ToolCalls {
  readonly #running: RunContext;
  readonly #executor: CallExecutor;
  /**
   * What the tool of a call has set, by the effect's id and of its newest attempt. Emptied with the
   * outcome.
   */
  readonly #sets = new Map<string, { readonly attempt: number; readonly sets: Sets | undefined }>();

  constructor(running: RunContext) {
    this.#running = running;
    this.#executor = new CallExecutor(running.held, running.stop);
  }

  get #work() {
    return this.#running.held.work;
  }

  get #inFlight() {
    return this.#work.fold.inFlight;
  }

  /** Stages the intents of calls that have none yet. */
  intend({ seq }: Message, planned: readonly PlannedCall[]): readonly StagedCall[] {
    const staged = planned.map((plan, index): StagedCall => {
      if (plan.do !== "intend") return plan;
      const call = this.#callOf(plan.tool, plan);
      const { id } = this.#executor.intend({ ...call, place: [seq, index] }, plan.waits);
      return { part: plan.part, do: "intend", waits: plan.waits, replays: plan.replays, id, call };
    });
    // A person who is to approve a call need not wait for its siblings to end.
    if (planned.some((plan) => plan.do === "intend" && plan.waits !== undefined))
      restate(this.#work);
    return staged;
  }

  /** Makes all calls of a reply, as far as they can be made now, and stages what came of it. */
  async make(reply: Message, calls: readonly StagedCall[]): Promise<Settled> {
    const { events, ctx, held } = this.#running;
    let left = calls.length;
    let acted = false;
    let open = false;
    const ends = new Map<number, Ended>();
    await Promise.all(
      calls.map(async (call, index) => {
        const end: Ended =
          call.do === "refuse"
            ? {
                is: "answer",
                effect: undefined,
                made: failed(call.says, undefined),
                sets: undefined,
              }
            : call.do === "share"
              ? { is: "open" }
              : await this.#makeOne(call);
        ends.set(index, end);
        left -= 1;
        if (end.is === "open" && call.do !== "share") open = true;
        if (end.is === "stopped") open = true;
        const told = end.is === "recorded" ? await recordedEnd(ctx, end.effect) : endOf(end);
        const effectId = "id" in call ? call.id : undefined;
        if (told !== undefined) events.call(call.part, { effectId, ...told });
        const isActing =
          end.is === "answer" && end.effect !== undefined && end.effect.mode !== "repeatable";
        if (isActing) acted = true;
        // The last one is recorded together with the tool messages; those before it as they come.
        // Where this holder was superseded there will be no such messages: recording fails, and
        // passes it on.
        if (isActing && (left > 0 || open || held.ended !== undefined))
          ends.set(index, await this.#record(end, end.effect as Effect));
      }),
    );
    // Calls that are the same as others are answered like them.
    for (const [index, call] of calls.entries()) {
      if (call.do !== "share") continue;
      const shared = this.#shared(call.with, ends);
      ends.set(index, shared);
      if (shared.is !== "answer" && shared.is !== "recorded") open = true;
      else {
        const { effect } = shared;
        const told =
          shared.is === "recorded" ? await recordedEnd(ctx, shared.effect) : endOf(shared);
        if (told !== undefined)
          events.call(call.part, { effectId: effect?.id, ...told, state: "replayed" });
      }
    }
    const fresh = [...ends.values()].flatMap((end) =>
      end.is === "answer" && end.effect !== undefined
        ? [{ effect: end.effect, made: end.made }]
        : [],
    );
    if (open) {
      await this.#tellOpen(calls);
      return { all: false, acted, fresh, ...this.#leaveOpen(ends) };
    }
    await this.#answer(reply, calls, ends);
    return { all: true, acted, fresh, pauseUntil: undefined, stopped: false };
  }

  async #tellOpen(calls: readonly StagedCall[]): Promise<void> {
    const { events, ctx } = this.#running;
    for (const call of calls) {
      const effect = "id" in call ? this.#inFlight.get(call.id) : undefined;
      const effectId = effect?.id;
      if (effect?.phase === "doubt") events.call(call.part, { effectId, state: "in-doubt" });
      if (effect?.phase !== "waiting") continue;
      const input = await inputOf(ctx, effect, call.part);
      events.call(call.part, { effectId, state: "waiting", input });
    }
  }

  /**
   * Answers the calls of a reply whose turn is over: those that were not begun with `says`, the
   * others as far as that can be known.
   */
  leave(reply: Message, calls: readonly ToolCallPart[], says: string): Promise<Settled> {
    const known = this.#inFlight.ofReply(reply.seq);
    const left = calls.map((part, index): StagedCall => {
      const effect = known.get(index);
      return effect === undefined
        ? { part, do: "refuse", says }
        : { part, do: "ask", id: effect.id };
    });
    return this.make(reply, left);
  }

  /**
   * The commit that was to record outcomes has failed for good: the present holder of the session
   * is told of them.
   */
  async late({ fresh }: Settled): Promise<void> {
    for (const { effect, made } of fresh) await this.#executor.late(effect, made);
  }

  // ---- one call

  async #makeOne(own: OwnCall): Promise<Ended> {
    const { part, id } = own;
    const { held, ctx, definition, events } = this.#running;
    const effect = this.#inFlight.get(id) as Effect;
    if (effect.phase === "done") return { is: "recorded", effect };
    if (own.do === "intend" && own.replays !== undefined) {
      const { id: from, outcome = "ok", happened } = own.replays;
      const made = {
        ...finished(await outputOf(ctx, own.replays), undefined),
        outcome,
        ...(happened && { happened }),
        from,
      };
      return { is: "answer", effect, made, sets: undefined };
    }
    const tool = definition.tools.get(effect.name);
    // A tool that is gone leaves its call in doubt: this program cannot say what it did.
    if (tool === undefined) return this.#doubt(effect);
    const call =
      own.do === "intend"
        ? own.call
        : this.#callOf(
            { ...tool, options: { ...tool.options, mode: effect.mode } },
            {
              part,
              input: effect.input === undefined ? part.input : await valueOf(ctx, effect.input),
              inputDigest: effect.inputDigest,
              named: effect.named,
            },
          );
    this.#wake(effect);
    const fresh = own.do === "intend" && own.waits === undefined;
    if (fresh) events.call(part, { effectId: id, state: "started", input: call.input });
    const made =
      own.do === "ask"
        ? await this.#executor.ask(id, call)
        : await this.#executor.make(id, call, { fresh });
    switch (made.is) {
      case "finished": {
        const sets = this.#sets.get(id)?.sets;
        this.#sets.delete(id);
        return { is: "answer", effect: this.#inFlight.get(id) ?? effect, made, sets };
      }
      case "done":
        return { is: "recorded", effect: made.effect };
      case "waits":
        held.work.inFlight({ effect: { id, is: "waits", waits: made.waits } });
        return { is: "open" };
      case "waiting":
        return { is: "open" };
      case "doubt":
        return this.#doubt(this.#inFlight.get(id) ?? effect, made.why);
      case "pause":
        return { is: "open", pauseUntil: made.until };
      case "stopped":
        return { is: "stopped" };
    }
  }

  /** The call of a tool as the engine makes it. The tool's `run` is called here. */
  #callOf(
    { name, options, check, run, schema }: ToolDefinition,
    { part, input, inputDigest, named, parsed: known }: CallToMake,
  ): Call {
    return {
      name,
      input,
      inputDigest,
      keepsInput: false,
      named,
      place: undefined,
      options,
      run: async ({ effect, input: given, attempt, handle }) => {
        // Parsed when it was planned; again where they were changed, or the plan was another
        // process's.
        const parsed = given === input && known !== undefined ? known : await schema.parse(given);
        if ("flaw" in parsed) throw new NotDone(`The input does not fit: ${parsed.flaw}`);
        const context = new CallContext(this.#running, effect, handle, part.callId, attempt);
        this.#sets.set(effect.id, { attempt, sets: undefined });
        const { ctx, held, definition } = this.#running;
        const about = {
          sessionId: held.id,
          agent: definition.name,
          effectId: effect.id,
          callId: part.callId,
          name,
        };
        const value = await observed(
          ctx.telemetry,
          () => ({ type: "tool", ...about, mode: effect.mode, attempt, input: given }),
          async (tell) => {
            const output = await answerOf(run(parsed.value, context.asTool()));
            tell({ output });
            return output;
          },
        );
        // An attempt whose time was up may end after the next one has begun: its values are not
        // that one's.
        if (context.sets.size > 0 && this.#sets.get(effect.id)?.attempt === attempt)
          this.#sets.set(effect.id, { attempt, sets: context.sets });
        return value;
      },
      check: check && (async (request) => check({ ...request, context: this.#running.context })),
    };
  }

  #doubt({ id, phase }: Effect, why?: string): Ended {
    if (phase !== "doubt")
      this.#work.inFlight({ effect: { id, is: "doubt", ...(why !== undefined && { why }) } });
    return { is: "open" };
  }

  /** A wait whose time is up is over. A child may have gone on since: the tool looks for itself. */
  #wake({ id, waits }: Effect): void {
    const { ctx } = this.#running;
    const isOver =
      waits?.for === "child" ||
      (waits?.for === "signal" && waits.until !== undefined && waits.until <= ctx.wallMs());
    if (isOver) this.#work.inFlight({ effect: { id, is: "woken" } });
  }

  // ---- what came of them

  /** Records the outcome of one call on its own. */
  async #record(end: Answered, effect: Effect): Promise<Ended> {
    stageOutcome(this.#work, effect, end);
    try {
      await this.#running.held.commitSurely();
    } catch (error) {
      await this.#executor.late(effect, end.made);
      throw error;
    }
    return { is: "recorded", effect: this.#inFlight.get(effect.id) ?? effect };
  }

  /** How the call ended that another is the same as. */
  #shared(other: number | string, ends: ReadonlyMap<number, Ended>): Ended {
    if (typeof other === "number") return ends.get(other) ?? { is: "open" };
    // If it was made just now, the journal does not have its outcome yet.
    const made = [...ends.values()].find((end) => end.is === "answer" && end.effect?.id === other);
    if (made !== undefined) return made;
    const effect = this.#inFlight.get(other);
    return effect?.phase === "done" ? { is: "recorded", effect } : { is: "open" };
  }

  /**
   * Some calls have no answer yet: the others are recorded, and the session's status says what it
   * waits for.
   */
  #leaveOpen(ends: ReadonlyMap<number, Ended>): Pick<Settled, "pauseUntil" | "stopped"> {
    let pauseUntil: number | undefined;
    let stopped = false;
    for (const end of ends.values()) {
      if (end.is === "answer" && end.effect !== undefined)
        stageOutcome(this.#work, end.effect, end);
      if (end.is === "stopped") stopped = true;
      if (end.is === "open" && end.pauseUntil !== undefined)
        pauseUntil = Math.max(pauseUntil ?? 0, end.pauseUntil);
    }
    restate(this.#work);
    return { pauseUntil, stopped };
  }

  /**
   * Stages the tool messages of a reply, in the order of its calls, and with them the outcomes that
   * are not recorded yet.
   */
  async #answer(
    reply: Message,
    calls: readonly StagedCall[],
    ends: ReadonlyMap<number, Ended>,
  ): Promise<void> {
    const work = this.#work;
    // Everything that takes time comes before the first word is staged: what is staged from here on
    // is one save.
    const messages: ToolMessage[] = [];
    for (const [index, { part }] of calls.entries())
      messages.push(await toolMessage(this.#running, part, ends.get(index) as Ended));
    const before = work.fold.messageCount;
    work.append(messages.map(({ part }): MessageInput => ({ role: "tool", content: [part] })));
    for (const [index, { isPlain }] of messages.entries()) {
      const end = ends.get(index) as Ended;
      if (end.is !== "answer" || end.effect === undefined || end.effect.mode === "repeatable")
        continue;
      if (this.#inFlight.get(end.effect.id)?.phase === "done") continue;
      const message = work.fold.messageAt(before + index) as Message;
      stageOutcome(
        work,
        end.effect,
        end,
        isPlain && end.effect.named === undefined ? message.seq : undefined,
      );
    }
    for (const end of ends.values())
      if (end.is === "answer" && end.effect?.mode === "repeatable") stageSets(work, end.sets);
    work.inFlight({ answered: reply.seq });
    restate(work);
  }
}
