/**
 * The agent loop. It is driven by the transcript: calls that are not answered are settled first, then the model is asked. So it needs no
 * deterministic code, and whoever takes a session over goes on from what is there.
 *
 * Commit points: the turn's input; each reply together with the intents of its calls, before any runs; each outcome of a call that acts.
 */
import type { CheckpointOptions } from "../../core/journal/checkpoint.js";
import { pastLimit } from "../../core/messages/limits.js";
import { type EncodedMessage, type Message, type MessageInput, type ToolCallPart, textOf } from "../../core/messages/message.js";
import type { StrategyEvent } from "../../core/retention/strategy.js";
import { isUnderWay, type StatusEvent } from "../../core/sessions/status.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import { callsIn } from "../../engine/calls/bodies.js";
import { words } from "../../engine/calls/caller.js";
import { doubtTurn } from "../../engine/calls/restored.js";
import { tellEvent } from "../../engine/journal/telemetry.js";
import { cancelSession } from "../../engine/lifecycle/outside.js";
import { restate } from "../../engine/session/settle-calls.js";
import { SinceCheckpoint } from "../../engine/session/since-checkpoint.js";
import { ask } from "./ask.js";
import { answerIn } from "./output.js";
import { NOT_NOW, ToolCallPlanner } from "./plan-tool-calls.js";
import { type Prefix, prefixOf, storedPrefix } from "./prefix.js";
import { unanswered } from "./reply.js";
import { Rounds } from "./rounds.js";
import type { Running } from "./running.js";
import { shapeState } from "./state.js";
import { type StagedCall, ToolCalls } from "./tool-calls.js";

export type LoopEnd =
  /** The session's status says how. */
  | { readonly is: "ended"; readonly error?: unknown }
  | { readonly is: "waiting" }
  /** Until then, by the store's clock, another process may be inside a call. */
  | { readonly is: "pause"; readonly until: number }
  | { readonly is: "stopped" };

const INTERRUPTED = "Not made: another input came first.";
/** How often a model is told that its last words do not fit the output's schema. */
const OUTPUT_TRIES = 3;

/** The turn to be begun: its name, a digest of its input, and the input. */
export interface NewTurn {
  readonly id: string;
  readonly key: string | undefined;
  readonly same: string;
  readonly message: MessageInput;
  /** Letters that are taken in by it. */
  readonly drained: readonly string[];
  /** It waited when the store was copied, and may have been run since. */
  readonly isOfBefore?: boolean;
}

export class Loop {
  readonly #running: Running;
  readonly #planner: ToolCallPlanner;
  readonly #calls: ToolCalls;
  readonly #began = performance.now();
  #prefix: Prefix | undefined;
  readonly #rounds: Rounds;
  #misfits = 0;

  constructor(running: Running) {
    this.#running = running;
    this.#planner = new ToolCallPlanner(running);
    this.#calls = new ToolCalls(running);
    this.#rounds = new Rounds(running.bounds.repeats);
  }

  get #work() {
    return this.#running.held.work;
  }

  get #fold() {
    return this.#work.fold;
  }

  // ---- beginning

  /** Begins a turn. */
  async begin({ id, key, same, message, drained, isOfBefore = false }: NewTurn): Promise<void> {
    const { held, definition, session, context } = this.#running;
    // Before anything is staged: what is left of a turn that could not be begun would be taken for one that was.
    await held.tryMessage(message);
    // One that is there already would be passed over, and the turn would have no input.
    if (message.id !== undefined && this.#fold.messages.some((known) => known.id === message.id))
      throw new HoldfastError(
        "CONFLICT",
        `A message with id ${quote(message.id)} is in session ${quote(held.id)} already. Give the input another id.`,
        {
          sessionId: held.id,
        },
      );
    shapeState(held, definition.state);
    const { prefix, encoded, digest } = await prefixOf(definition, { context, session }, held.ground.redactor);
    this.#prefix = prefix;
    const version = definition.version === undefined ? undefined : { version: definition.version };
    this.#work.turn({ id, ...(key !== undefined && { key }), same, ...version });
    // Next to the input, which is the first message under it.
    if (this.#fold.course.prefix !== digest) this.#work.prefix(encoded);
    this.#work.append([message]);
    if (isOfBefore) doubtTurn(this.#work, id);
    this.#work.redue();
    await held.commitStep(this.#mark("step"), drained);
    this.#running.events.messages();
  }

  /** Goes on with a turn that was begun before, by this process or another. */
  async resume(): Promise<void> {
    const { held, definition, session, context } = this.#running;
    shapeState(held, definition.state);
    const { prefix, digest } = await prefixOf(definition, { context, session }, held.ground.redactor);
    const pinned = this.#fold.course.prefix;
    this.#prefix = pinned === undefined || pinned === digest ? prefix : await storedPrefix(held.ground, pinned);
    const { status, isCancelling } = this.#fold;
    if (!isUnderWay(status) || isCancelling) this.#work.event("work");
    restate(this.#work);
    const { latest } = this.#work;
    const isMarked = this.#work.isSaved && this.#fold.prior === this.#fold.seq && latest?.kind === "recovery";
    if (definition.marksAny && !isMarked) await held.checkpoint({ kind: "recovery", step: this.#fold.replies });
    else await held.commit();
    const turnId = this.#fold.course.turn?.id ?? "";
    tellEvent(held.ground.telemetry, () => ({
      type: "resume",
      sessionId: held.id,
      agent: definition.name,
      turnId,
      step: this.#fold.replies,
    }));
  }

  /** Ends the run with a reason; it can be resumed. */
  async halt(reason: string): Promise<void> {
    // What nobody knows of stays so: it must be settled, whatever else happens.
    if (this.#fold.status !== "in-doubt") await this.#end("halt", reason);
    else {
      this.#work.due(undefined);
      await this.#running.held.commit();
    }
  }

  /**
   * Leaves a turn that is over, for another: calls that it asked for and that were not made are answered so. What is in doubt is asked about,
   * and not made again. Staged, for the commit that begins the other: whoever comes after a kill finds the turn as over as it was. Answers what
   * it is kept by.
   */
  async leave(): Promise<LoopEnd | undefined> {
    const { held } = this.#running;
    const open = unanswered(this.#fold);
    if (open === undefined) return undefined;
    const left: string[] = [];
    for (const { id, phase, waits } of this.#fold.course.ofReply(open.reply.seq).values()) {
      if (phase === "done" || phase === "doubt") continue;
      if (waits?.for === "child") left.push(waits.session);
      this.#work.course({ effect: { id, is: "done", outcome: "denied", by: "interrupt" } }, encode(INTERRUPTED, "reason"));
    }
    // What comes next may take its time, or is done elsewhere.
    if (this.#fold.isCancelling || left.length > 0) await held.commit();
    // Nobody runs them any more: what they wait for is not to be asked about.
    for (const child of left) await cancelSession(held.ground, child as SessionId, INTERRUPTED);
    const isOwn = open.reply.seq === this.#fold.course.ownReply;
    const settled = await this.#calls.leave(open.reply, open.calls, isOwn ? INTERRUPTED : NOT_NOW);
    if (settled.all) return undefined;
    await held.commitSurely();
    if (settled.stopped) return { is: "stopped" };
    if (settled.pauseUntil !== undefined) return { is: "pause", until: settled.pauseUntil };
    const effectId = this.#fold.course.open.find(({ phase }) => phase === "doubt")?.id;
    throw new HoldfastError(
      "TURN_OPEN",
      `Session ${quote(held.id)} has a call of which nobody knows what became. Settle ${effectId ?? "it"} first.`,
      { sessionId: held.id, ...(effectId !== undefined && { effectId }) },
    );
  }

  // ---- going

  async run(): Promise<LoopEnd> {
    const { stop } = this.#running;
    try {
      for (;;) {
        if (stop.aborted) return { is: "stopped" };
        if (this.#fold.course.standstill !== undefined) return { is: "waiting" };
        const open = unanswered(this.#fold);
        const end = open === undefined ? await this.#step() : await this.#settle(open.reply, open.calls);
        if (end !== undefined) return end;
      }
    } catch (error) {
      if (stop.aborted || this.#running.held.ended !== undefined) return { is: "stopped" };
      throw error;
    } finally {
      this.#running.held.isAsking = false;
    }
  }

  /** Settles the calls of a reply that was there when this run began, or that has just been saved. */
  async #settle(reply: Message, calls: readonly ToolCallPart[]): Promise<LoopEnd | undefined> {
    const known = this.#fold.course.ofReply(reply.seq);
    if (known.size === 0) {
      const round = this.#rounds.find(this.#fold, undefined);
      if (round !== undefined) return this.#end("halt", round);
    }
    const staged = this.#calls.intend(reply, await this.#planner.plan(calls, reply));
    // A letter may have changed what a call waits for; and what is intended now must be there before it runs.
    if (!this.#work.isSaved) await this.#running.held.commitStep();
    return this.#make(reply, staged);
  }

  async #make(reply: Message, calls: readonly StagedCall[]): Promise<LoopEnd | undefined> {
    const { held } = this.#running;
    const settled = await this.#calls.make(reply, calls);
    let mark: CheckpointOptions | undefined;
    let failure: { readonly error: unknown } | undefined;
    try {
      mark = settled.all ? (this.#mark("tool") ?? this.#mark("step")) : undefined;
    } catch (error) {
      // The strategy is the author's own code: what the calls have done is saved before anybody hears of it.
      failure = { error };
    }
    // Two looks at the strategy, one save: whoever wants both is given one.
    if (!settled.all || settled.acted || !held.commitLater(mark)) {
      try {
        await held.commitSurely(mark);
      } catch (error) {
        await this.#calls.late(settled);
        throw error;
      }
    }
    this.#running.events.messages();
    if (failure !== undefined) throw failure.error;
    if (settled.all) return undefined;
    if (settled.stopped) return { is: "stopped" };
    if (settled.pauseUntil !== undefined) return { is: "pause", until: settled.pauseUntil };
    // Something may have come in the meantime by which a call can go on: a child that it waits for has told so, say.
    await held.takeMail({ ends: true });
    this.#running.events.status();
    return this.#fold.course.open.some(({ phase }) => phase === "ready") ? undefined : { is: "waiting" };
  }

  async #step(): Promise<LoopEnd | undefined> {
    const { bounds, held, stop } = this.#running;
    // All calls are answered: what others have to say comes before the model is asked again.
    await held.takeWaiting();
    if (stop.aborted) return { is: "stopped" };
    const turn = this.#fold.course.turn;
    const used = {
      steps: this.#fold.replies - (turn?.steps ?? 0),
      tokens: this.#fold.tokens - (turn?.tokens ?? 0),
      ms: performance.now() - this.#began,
    };
    const past = pastLimit(used, bounds);
    if (past !== undefined) return this.#end("halt", past);
    const step = this.#fold.replies + 1;
    let encoded: EncodedMessage;
    held.isAsking = true;
    try {
      encoded = await ask(this.#running, this.#prefix as Prefix, step);
    } catch (error) {
      if (stop.aborted) return { is: "stopped" };
      return this.#end("fail", words(error), error);
    }
    const reply = encoded.value;
    const calls = callsIn(reply);
    const finish = reply.reply?.finish;
    if (calls.length === 0 || finish === "length" || finish === "content-filter" || finish === "error") return this.#last(encoded);
    const round = this.#rounds.find(this.#fold, reply);
    const planned = round === undefined ? await this.#planner.plan(calls, undefined) : [];
    this.#running.stop.throwIfAborted();
    const message = this.#append(encoded);
    const staged = this.#calls.intend(message, planned);
    this.#owns(message);
    if (round !== undefined) return this.#end("halt", round);
    await this.#running.held.commitStep(this.#markBefore(calls.map(({ name }) => name)) ?? this.#mark("model"));
    this.#running.events.messages();
    return this.#make(message, staged);
  }

  #append(reply: EncodedMessage): Message {
    this.#work.appendEncoded(reply);
    this.#running.held.isAsking = false;
    return this.#fold.messageAt(-1) as Message;
  }

  /** Notes that the calls of a reply are the agent's own, where no intent says so. Calls of other messages are never made. */
  #owns({ seq }: Message): void {
    if (this.#fold.course.ownReply !== seq) this.#work.course({ ownReply: seq });
  }

  // ---- ending

  /** A reply that asks for nothing more, or that must not be acted on. */
  async #last(reply: EncodedMessage): Promise<LoopEnd | undefined> {
    const { definition } = this.#running;
    const message = this.#append(reply);
    if (callsIn(message).length > 0) this.#owns(message);
    switch (message.reply?.finish) {
      case "length":
        return this.#end("halt", "The model's reply was cut off at its length limit.");
      case "content-filter":
        return this.#end("fail", "The model's provider withheld the reply (content filter).");
      case "error":
        return this.#end("fail", "The model's provider ended the reply with an error.");
      case "pause":
        await this.#running.held.commitStep(this.#mark("model") ?? this.#mark("step"));
        this.#running.events.messages();
        return undefined;
      default:
        break;
    }
    if (definition.output === undefined) return this.#end("complete", undefined, undefined, textOf(message));
    const output = await answerIn(message, definition.output);
    if ("value" in output) return this.#end("complete", undefined, undefined, output.value);
    this.#misfits += 1;
    if (this.#misfits >= OUTPUT_TRIES) return this.#end("fail", `The answer does not fit the output's schema: ${output.flaw}`);
    this.#work.append([
      { role: "user", content: `Your answer does not fit: ${output.flaw}. Answer again, with nothing but JSON that fits.` },
    ]);
    await this.#running.held.commitStep(this.#mark("model"));
    this.#running.events.messages();
    return undefined;
  }

  async #end(event: StatusEvent, reason?: string, error?: unknown, output?: Json): Promise<LoopEnd> {
    this.#work.event(event, reason, output);
    this.#work.redue();
    await this.#running.held.commitStep(this.#running.definition.marksAny ? this.#newMark("automatic") : undefined);
    this.#running.events.messages();
    this.#running.events.status();
    return { is: "ended", ...(error !== undefined && { error }) };
  }

  // ---- checkpoints

  #mark(event: StrategyEvent): CheckpointOptions | undefined {
    const { definition, held } = this.#running;
    const since = new SinceCheckpoint(held.ground, this.#work, this.#fold.replies);
    return definition.place.at(event, since) ? this.#newMark("automatic") : undefined;
  }

  #markBefore(names: readonly string[]): CheckpointOptions | undefined {
    const { tools } = this.#running.definition;
    return names.some((name) => tools.get(name)?.isMarkedBefore) ? this.#newMark("pre-operation") : undefined;
  }

  #newMark(kind: "automatic" | "pre-operation"): CheckpointOptions {
    return { kind, step: this.#fold.replies };
  }
}
