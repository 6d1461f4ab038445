/**
 * The agent loop: settle the calls of the last reply, ask the model, save, again. It is driven by
 * the transcript. So it needs no deterministic code, and a process that takes a session over goes
 * on from what is there.
 *
 * Commit points: the turn's input (turns.ts); each reply together with the intents of its calls,
 * before any runs; each outcome of a call that acts.
 */
import type { CheckpointOptions } from "../../core/journal/checkpoint.js";
import { pastLimit } from "../../core/messages/limits.js";
import {
  type EncodedMessage,
  type Message,
  type ToolCallPart,
  textOf,
} from "../../core/messages/message.js";
import { callsIn } from "../../engine/calls/bodies.js";
import { words } from "../../engine/calls/execute-call.js";
import { callModel } from "./call-model.js";
import { LoopDetector } from "./loop-detector.js";
import type { LoopEnd } from "./outcome.js";
import { answerIn } from "./output.js";
import { checkpointAt, checkpointBefore } from "./place-checkpoints.js";
import { ToolCallPlanner } from "./plan-tool-calls.js";
import type { Prefix } from "./prompt-prefix.js";
import { unanswered } from "./reply.js";
import type { RunContext } from "./run-context.js";
import type { StagedCall, ToolCalls } from "./tool-calls.js";
import { endTurn } from "./turns.js";

/** How often a model is told that its last words do not fit the output's schema. */
const OUTPUT_TRIES = 3;

export class Loop {
  readonly #running: RunContext;
  readonly #planner: ToolCallPlanner;
  readonly #calls: ToolCalls;
  readonly #rounds: LoopDetector;
  readonly #began = performance.now();
  #misfits = 0;

  constructor(running: RunContext, calls: ToolCalls) {
    this.#running = running;
    this.#planner = new ToolCallPlanner(running);
    this.#calls = calls;
    this.#rounds = new LoopDetector(running.bounds.repeats);
  }

  get #work() {
    return this.#running.held.work;
  }

  get #fold() {
    return this.#work.fold;
  }

  /** Runs until the turn has ended, waits, or is to stop. */
  async run(prefix: Prefix): Promise<LoopEnd> {
    const { held, stop } = this.#running;
    try {
      for (;;) {
        if (stop.aborted) return { is: "stopped" };
        if (this.#fold.inFlight.standstill !== undefined) return { is: "waiting" };
        const open = unanswered(this.#fold);
        const end =
          open === undefined
            ? await this.#step(prefix)
            : await this.#settle(open.reply, open.calls);
        if (end !== undefined) return end;
      }
    } catch (error) {
      if (stop.aborted || held.ended !== undefined) return { is: "stopped" };
      throw error;
    } finally {
      held.inbox.isAsking = false;
    }
  }

  // ---- settling calls

  /**
   * Settles the calls of a reply that was there when this run began, or that has just been saved.
   */
  async #settle(reply: Message, calls: readonly ToolCallPart[]): Promise<LoopEnd | undefined> {
    const known = this.#fold.inFlight.ofReply(reply.seq);
    if (known.size === 0) {
      const round = this.#rounds.find(this.#fold, undefined);
      if (round !== undefined) return endTurn(this.#running, "halt", { reason: round });
    }
    const staged = this.#calls.intend(reply, await this.#planner.plan(calls, reply));
    // An inbox message may have changed what a call waits for; and what is intended now must be
    // there before it runs.
    if (!this.#work.isSaved) await this.#running.held.commitStep();
    return this.#make(reply, staged);
  }

  /** Makes the calls of a reply, and saves what came of them. */
  async #make(reply: Message, calls: readonly StagedCall[]): Promise<LoopEnd | undefined> {
    const { held, events } = this.#running;
    const settled = await this.#calls.make(reply, calls);
    let mark: CheckpointOptions | undefined;
    let failure: { readonly error: unknown } | undefined;
    try {
      mark = settled.all
        ? (checkpointAt(this.#running, "tool") ?? checkpointAt(this.#running, "step"))
        : undefined;
    } catch (error) {
      // The strategy is the author's own code: what the calls have done is saved before its error
      // is told.
      failure = { error };
    }
    // Two looks at the strategy, one save: a strategy that wants both is given one.
    if (!settled.all || settled.acted || !held.commitLater(mark)) {
      try {
        await held.commitSurely(mark);
      } catch (error) {
        await this.#calls.late(settled);
        throw error;
      }
    }
    events.messages();
    if (failure !== undefined) throw failure.error;
    if (settled.all) return undefined;
    if (settled.stopped) return { is: "stopped" };
    if (settled.pauseUntil !== undefined) return { is: "pause", until: settled.pauseUntil };
    // Something may have come in the meantime by which a call can go on: a child that it waits for
    // has told so, say.
    await held.inbox.takeInbox({ ends: true });
    events.status();
    return this.#fold.inFlight.open.some(({ phase }) => phase === "ready")
      ? undefined
      : { is: "waiting" };
  }

  // ---- asking the model

  async #step(prefix: Prefix): Promise<LoopEnd | undefined> {
    const { held, stop, events } = this.#running;
    // All calls are answered: what others have to say comes before the model is asked again.
    await held.inbox.takeWaiting();
    if (stop.aborted) return { is: "stopped" };
    const past = this.#pastLimit();
    if (past !== undefined) return endTurn(this.#running, "halt", { reason: past });
    let encoded: EncodedMessage;
    held.inbox.isAsking = true;
    try {
      encoded = await callModel(this.#running, prefix, this.#fold.replies + 1);
    } catch (error) {
      if (stop.aborted) return { is: "stopped" };
      return endTurn(this.#running, "fail", { reason: words(error), error });
    }
    const reply = encoded.value;
    const calls = callsIn(reply);
    const finish = reply.reply?.finish;
    if (
      calls.length === 0 ||
      finish === "length" ||
      finish === "content-filter" ||
      finish === "error"
    )
      return this.#last(encoded);
    const round = this.#rounds.find(this.#fold, reply);
    const planned = round === undefined ? await this.#planner.plan(calls, undefined) : [];
    stop.throwIfAborted();
    const message = this.#append(encoded);
    const staged = this.#calls.intend(message, planned);
    this.#owns(message);
    if (round !== undefined) return endTurn(this.#running, "halt", { reason: round });
    const names = calls.map(({ name }) => name);
    await held.commitStep(
      checkpointBefore(this.#running, names) ?? checkpointAt(this.#running, "model"),
    );
    events.messages();
    return this.#make(message, staged);
  }

  /** The limit of the turn that is reached, in words. */
  #pastLimit(): string | undefined {
    const { replies, tokens, inFlight } = this.#fold;
    const used = {
      steps: replies - (inFlight.turn?.steps ?? 0),
      tokens: tokens - (inFlight.turn?.tokens ?? 0),
      ms: performance.now() - this.#began,
    };
    return pastLimit(used, this.#running.bounds);
  }

  #append(reply: EncodedMessage): Message {
    this.#work.appendEncoded(reply);
    this.#running.held.inbox.isAsking = false;
    return this.#fold.messageAt(-1) as Message;
  }

  /**
   * Notes that the calls of a reply are the agent's own, where no intent says so. Calls of other
   * messages are never made.
   */
  #owns({ seq }: Message): void {
    if (this.#fold.inFlight.ownReply !== seq) this.#work.inFlight({ ownReply: seq });
  }

  /** A reply that asks for nothing more, or that must not be acted on. */
  async #last(reply: EncodedMessage): Promise<LoopEnd | undefined> {
    const { definition, held, events } = this.#running;
    const message = this.#append(reply);
    if (callsIn(message).length > 0) this.#owns(message);
    switch (message.reply?.finish) {
      case "length":
        return endTurn(this.#running, "halt", {
          reason: "The model's reply was cut off at its length limit.",
        });
      case "content-filter":
        return endTurn(this.#running, "fail", {
          reason: "The model's provider withheld the reply (content filter).",
        });
      case "error":
        return endTurn(this.#running, "fail", {
          reason: "The model's provider ended the reply with an error.",
        });
      case "pause":
        await held.commitStep(
          checkpointAt(this.#running, "model") ?? checkpointAt(this.#running, "step"),
        );
        events.messages();
        return undefined;
      default:
        break;
    }
    if (definition.output === undefined)
      return endTurn(this.#running, "complete", { output: textOf(message) });
    const output = await answerIn(message, definition.output);
    if ("value" in output) return endTurn(this.#running, "complete", { output: output.value });
    this.#misfits += 1;
    if (this.#misfits >= OUTPUT_TRIES)
      return endTurn(this.#running, "fail", {
        reason: `The answer does not fit the output's schema: ${output.flaw}`,
      });
    this.#work.append([
      {
        role: "user",
        content: `Your answer does not fit: ${output.flaw}. Answer again, with nothing but JSON that fits.`,
      },
    ]);
    await held.commitStep(checkpointAt(this.#running, "model"));
    events.messages();
    return undefined;
  }
}
