/** Runs of agents: finding the turn that is meant, holding its session while the loop goes, and saying how it ended. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { checkText, MAX_REASON } from "../../core/checkpoint.js";
import { digest } from "../../core/digest.js";
import { HoldfastError, quote } from "../../core/errors.js";
import { checkName, type SessionId, sessionId } from "../../core/ids.js";
import type { Json } from "../../core/json.js";
import { encodeMessage, type MessageInput } from "../../core/message.js";
import type { Ground } from "../ground.js";
import type { Holding } from "../holding.js";
import { isOpen, readMail } from "../inbox.js";
import { openHolding, type SessionOptions } from "../opening.js";
import { oneOf, options, signalOf } from "../options.js";
import { cancelSession } from "../outside.js";
import { observed } from "../telemetry.js";
import { boundsOf, type Definition, definitionOf } from "./define.js";
import type { Input, RunOptions } from "./definition.js";
import type { Sink } from "./events.js";
import { Loop, type LoopEnd, type NewTurn, noTurn } from "./loop.js";
import { resultOf } from "./outcome.js";
import type { RunResult } from "./result.js";
import { type Running, viewOf } from "./running.js";
import { lookAtTurn } from "./turn-end.js";

/** An input, and how it is known again. */
export interface Asking {
  readonly message: MessageInput;
  readonly same: string;
  readonly key: string | undefined;
}

export function askingOf(input: Input, key: unknown): Asking {
  const message: MessageInput =
    typeof input === "string" || Array.isArray(input)
      ? { role: "user", content: input as MessageInput["content"] }
      : (input as MessageInput);
  const { id: _id, ...rest } = encodeMessage(message, "input").value;
  return { message, same: digest(JSON.stringify(rest)).slice(0, 22), key: key === undefined ? undefined : checkName(key, "key") };
}

/** Whether a turn is the one that is asked for. The same key with another input is a CONFLICT. */
function isMeant(
  turn: { readonly key?: string | undefined; readonly same: string } | undefined,
  { key, same }: Asking,
  session: string,
): boolean {
  if (turn === undefined || turn.key !== key) return false;
  if (key !== undefined && turn.same !== same)
    throw new HoldfastError("CONFLICT", `The turn ${quote(key)} of session ${quote(session)} has another input. One key names one turn.`, {
      sessionId: session,
    });
  return turn.same === same;
}

/** Answers whether a turn that has been taken up is to go on. */
type Begun = (loop: Loop) => Promise<boolean>;

/** A run that is under way in this process. */
export interface Active {
  /** What is run; undefined where it is whatever the session is at. */
  readonly turn: { readonly key: string | undefined; readonly same: string } | undefined;
  readonly result: Promise<RunResult>;
  readonly sinks: Set<Sink>;
}

export interface RunRequest {
  readonly definition: Definition;
  readonly id: SessionId;
  /** Absent where the latest turn is to go on, whatever it is. */
  readonly asking: Asking | undefined;
  readonly o: Partial<RunOptions>;
  readonly sink: Sink;
  readonly parent?: SessionId;
}

/** How many turns may wait in one session. */
export const MAX_WAITING = 1_000;

/** A turn on its way to a session. Bytes do not fit into a letter. */
export function turnLetter(turn: string, key: string | undefined, message: MessageInput) {
  const { text, blobs } = encodeMessage(message, "input");
  if (blobs.length > 0)
    throw new HoldfastError("INVALID_VALUE", "input: a turn that waits cannot carry bytes; give a URL, a text, or a file that is kept.", {
      path: "input",
    });
  return { kind: "turn", turn, ...(key !== undefined && { key }), input: JSON.parse(text) as Json } as const;
}

const RUN_OPTIONS = ["key", "context", "signal", "ifBusy", "limits", "tags", "title", "metadata"] as const;
const BUSY = ["wait", "queue", "reject", "interrupt"] as const;
/** How often a session that another process holds is looked at. */
const LOOK_MS = 100;

export class Runs {
  readonly #ground: Ground;
  readonly #active = new Map<SessionId, Active>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  request(agent: unknown, id: unknown, input: Input | undefined, given: RunOptions | undefined, sink: Sink): RunRequest {
    const o = options(given, "run", RUN_OPTIONS);
    oneOf(o.ifBusy, "ifBusy", BUSY);
    signalOf(o.signal);
    const definition = definitionOf(agent);
    boundsOf(o.limits, definition.limits);
    return { definition, id: sessionId(id), asking: input === undefined ? undefined : askingOf(input, o.key), o, sink };
  }

  /** Runs until the turn has ended, waits for somebody, or is to stop. Two that ask for the same turn are given the same answer. */
  async run(request: RunRequest): Promise<RunResult> {
    const { id, asking, o, sink } = request;
    for (;;) {
      const active = this.#active.get(id);
      if (active === undefined) break;
      const { turn, result: going } = active;
      if (turn !== undefined && (asking === undefined || isMeant(turn, asking, id))) {
        active.sinks.add(sink);
        return going;
      }
      if (turn !== undefined && (o.ifBusy ?? "reject") === "reject") throw turnOpen(id);
      if (turn !== undefined && asking !== undefined && o.ifBusy === "queue") return this.#queue(request, asking);
      if (o.ifBusy === "interrupt") await this.#interrupt(id);
      await going.catch(() => {});
    }
    const sinks = new Set([sink]);
    const result = this.#hold({ ...request, sink: (event) => sinks.forEach((each) => each(event)) });
    this.#active.set(id, { turn: asking && { key: asking.key, same: asking.same }, result, sinks });
    try {
      return await result;
    } finally {
      this.#active.delete(id);
    }
  }

  /** Stops a session, or one of its turns, whoever holds it, and the sessions that its calls run. */
  async cancel(id: SessionId | string, reason = "cancelled", turn?: string): Promise<void> {
    await cancelSession(this.#ground, sessionId(id), checkText(reason, "reason", MAX_REASON), turn);
  }

  /** A session's turns wait in its inbox: not without end. */
  async refuseTooMany(id: SessionId, most: number): Promise<void> {
    const waiting = (await readMail(this.#ground, id, Number.MAX_SAFE_INTEGER)).filter(({ doc }) => doc.kind === "turn");
    if (waiting.length >= most)
      throw new HoldfastError("TOO_LARGE", `${most} turns wait in session ${quote(id)} already.`, { sessionId: id, limit: most });
  }

  /** Asks whoever holds the session to end the turn it is at. */
  async #interrupt(id: SessionId): Promise<void> {
    const present = await this.#ground.journal.present(id);
    const turn = present && (await this.#ground.loader.courseAt(present)).turn;
    if (turn !== undefined) await this.#ground.post(id, { kind: "cancel", turn: turn.id, reason: "interrupted by another input" });
  }

  /** Puts the turn behind the one that is open, where it is safe, and takes part in running what comes before it. */
  async #queue({ definition, id, o }: RunRequest, { message, key }: Asking, { isActive = false } = {}): Promise<RunResult> {
    const turn = key ?? randomUUID();
    await this.refuseTooMany(id, MAX_WAITING);
    await this.#ground.post(id, turnLetter(turn, key, message), { id: `turn:${turn}` });
    for (;;) {
      if (o.signal?.aborted) return { sessionId: id, turnId: turn, usage: {}, status: "stopped", reason: "aborted" };
      const end = await lookAtTurn(this.#ground, definition, id, turn);
      if (end !== undefined) return end;
      // Where this run is itself the one that is under way here, it does not wait for itself.
      const active = isActive ? undefined : this.#active.get(id);
      if (active !== undefined) await active.result.catch(() => {});
      else if (!(await this.#help(id, definition, o.signal))) await sleep(LOOK_MS, undefined, { signal: o.signal }).catch(() => {});
    }
  }

  /** Takes the session up where nobody has it. Answers whether it could. */
  async #help(id: SessionId, definition: Definition, signal: AbortSignal | undefined): Promise<boolean> {
    try {
      const held = await openHolding(this.#ground, id, undefined, { make: false });
      try {
        await this.takeUp(held, definition, signal ?? held.signal, async () => true);
      } finally {
        await held.close({ discard: true }).catch(() => {});
      }
      return true;
    } catch (error) {
      if (error instanceof HoldfastError && error.code === "LEASE_HELD") return false;
      throw error;
    }
  }

  /** Opens the session, waiting for a holder that is dying, or that is at the same turn. */
  async #hold(request: RunRequest): Promise<RunResult> {
    const { definition, id, asking, o, parent } = request;
    const given: SessionOptions = {
      agent: definition.name,
      ...(o.title !== undefined && { title: o.title }),
      ...(o.tags !== undefined && { tags: o.tags }),
      ...(o.metadata !== undefined && { metadata: o.metadata }),
    };
    let waited = 0;
    for (;;) {
      if (o.signal?.aborted) return this.#aborted(id, asking);
      try {
        const held = await openHolding(this.#ground, id, given, { make: asking !== undefined, ...(parent !== undefined && { parent }) });
        return await this.#drive(held, request);
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
        const present = await this.#ground.journal.present(id);
        const turn = present && (await this.#ground.loader.courseAt(present)).turn;
        const isBusyElsewhere =
          turn !== undefined && asking !== undefined && !isMeant(turn, asking, id) && isUnderWay(present?.head.status);
        if (isBusyElsewhere && (o.ifBusy ?? "reject") === "reject") throw turnOpen(id);
        if (isBusyElsewhere && o.ifBusy === "queue") return this.#queue(request, asking, { isActive: true });
        if (isBusyElsewhere && o.ifBusy === "interrupt" && waited === 0) await this.#interrupt(id);
        // Held by hand, not by a run: one that lives keeps it for as long as it likes.
        if (turn === undefined && waited > this.#ground.leaseMs + 1_000) throw error;
        await sleep(LOOK_MS, undefined, { signal: o.signal }).catch(() => {});
        waited += LOOK_MS;
      }
    }
  }

  async #aborted(id: SessionId, asking: Asking | undefined): Promise<RunResult> {
    return { sessionId: id, turnId: asking?.key ?? "", usage: {}, status: "stopped", reason: "aborted" };
  }

  async #drive(held: Holding, request: RunRequest): Promise<RunResult> {
    try {
      return await this.#observed(held, request.definition, () => this.#turn(held, request));
    } finally {
      // What rides with the next commit goes now: there is none.
      await held.flush().catch(() => {});
      await held.close({ discard: true }).catch(() => {});
      if (request.parent === undefined) await this.#wakeParent(held);
    }
  }

  #observed<R extends RunResult | undefined>({ id }: Holding, { name, version }: Definition, go: () => Promise<R>): Promise<R> {
    const about = () => ({ type: "run", sessionId: id, agent: name, ...(version !== undefined && { version }) }) as const;
    return observed(this.#ground.telemetry, about, async (tell) => {
      const result = await go();
      if (result !== undefined) tell({ status: result.status, turnId: result.turnId });
      return result;
    });
  }

  /** A call of another session waits for this one. */
  async #wakeParent({ id, work }: Holding): Promise<void> {
    const { parent } = work.head;
    if (parent !== undefined) await this.#ground.post(parent, { kind: "wake", child: id }).catch(() => {});
  }

  async #turn(held: Holding, request: RunRequest): Promise<RunResult> {
    const { asking, o, definition } = request;
    const { course } = held.work.fold;
    if (asking === undefined) {
      if (course.turn === undefined) throw noTurn(held.id);
      if (held.work.fold.status === "completed") return resultOf(held, definition, { is: "ended" }, true);
      return this.#goOn(held, request, await this.#loop(held, request));
    }
    if (isMeant(course.turn, asking, held.id)) {
      const { status } = held.work.fold;
      if (status === "completed") return resultOf(held, definition, { is: "ended" }, true);
      if (status === "cancelled") return resultOf(held, definition, { is: "stopped" }, false);
      return this.#goOn(held, request, await this.#loop(held, request));
    }
    let loop: Loop | undefined;
    if (isOpen(held.work)) {
      const how = o.ifBusy ?? "reject";
      if (how === "reject") throw turnOpen(held.id);
      loop = await this.#loop(held, request);
      if (how === "interrupt") await loop.interrupt();
      else {
        const before = await this.#goOn(held, request, loop);
        if (before.status === "waiting" || before.status === "in-doubt") throw turnOpen(held.id, before.status);
        if (before.status === "stopped") return before;
      }
    }
    loop ??= await this.#loop(held, request);
    // A turn that was cancelled or halted may have left calls that were never made.
    if (loop.isUnanswered) await loop.interrupt();
    const turn: NewTurn = { id: asking.key ?? randomUUID(), key: asking.key, same: asking.same, message: asking.message, drained: [] };
    await loop.begin(turn);
    return resultOf(held, definition, await this.#paced(held, request, loop), false);
  }

  /**
   * Takes a session up for a worker: goes on with its open turn, or begins one that waits in its inbox. Answers how it ended; undefined
   * where there was nothing to do. `begun` is told when the turn can go on from here: what comes before has often been done in vain.
   */
  async takeUp(held: Holding, definition: Definition, signal: AbortSignal, begun: Begun): Promise<RunResult | undefined> {
    const { promise, settle } = announced();
    this.#active.set(held.id, { turn: undefined, result: promise, sinks: new Set() });
    try {
      return await this.#observed(held, definition, () => this.#takeUp(held, definition, signal, begun));
    } finally {
      this.#active.delete(held.id);
      settle();
      await this.#wakeParent(held);
    }
  }

  async #takeUp(held: Holding, definition: Definition, signal: AbortSignal, begun: Begun): Promise<RunResult | undefined> {
    // Somebody must decide first: whatever else waits in its inbox comes after that.
    if (isOpen(held.work) && !canGoOn(held, this.#ground.wallMs())) {
      held.work.redue();
      await held.commit();
      return undefined;
    }
    const loop = await this.#loop(held, { definition, id: held.id, asking: undefined, o: { signal }, sink: () => {} });
    if (isOpen(held.work)) await loop.resume();
    else if (!(await this.#beginNext(held, loop))) {
      held.work.redue();
      await held.commit();
      return undefined;
    }
    if (!(await begun(loop))) return resultOf(held, definition, { is: "ended" }, false);
    const end = await loop.run();
    if (end.is !== "pause") return resultOf(held, definition, end, false);
    held.work.due(this.#ground.wallMs() + Math.max(10, end.until - this.#ground.nowAbout()));
    await held.commit();
    return resultOf(held, definition, { is: "stopped" }, false);
  }

  /** Fails the open turn, or the one that waits in the inbox and could not be begun: it is not tried again and again. */
  async fail(held: Holding, reason: string): Promise<void> {
    const { work } = held;
    const next = isOpen(work) ? undefined : (await readMail(this.#ground, held.id)).find(({ doc }) => doc.kind === "turn");
    if (next?.doc.kind === "turn") {
      const { turn: id, key, input } = next.doc;
      const message = input as unknown as MessageInput;
      work.turn({ id, ...(key !== undefined && { key }), same: askingOf(message, undefined).same });
      work.append([message]);
      // On its own: a save that begins a turn does not say how one ended.
      await held.commit(undefined, [next.id]);
    }
    work.event("fail", reason);
    work.redue();
    await held.commit({ kind: "automatic" });
  }

  /** Begins the oldest turn that waits in the inbox, if there is one. */
  async #beginNext(held: Holding, loop: Loop): Promise<boolean> {
    for (const { id, doc } of await readMail(this.#ground, held.id)) {
      if (doc.kind !== "turn") continue;
      const message = doc.input as unknown as MessageInput;
      const { same } = askingOf(message, undefined);
      const known = held.work.fold.course.turn;
      // Run by somebody under the same key since it was submitted.
      if (doc.key !== undefined && known?.key === doc.key) await held.commit(undefined, [id]);
      else {
        if (loop.isUnanswered) await loop.interrupt();
        await loop.begin({ id: doc.turn, key: doc.key, same, message, drained: [id] });
        return true;
      }
    }
    return false;
  }

  async #goOn(held: Holding, request: RunRequest, loop: Loop): Promise<RunResult> {
    await loop.resume();
    return resultOf(held, request.definition, await this.#paced(held, request, loop), false);
  }

  /** Another process may be inside a call: its time is waited for. */
  async #paced(held: Holding, { o }: RunRequest, loop: Loop): Promise<LoopEnd> {
    const stop = o.signal === undefined ? held.signal : AbortSignal.any([o.signal, held.signal]);
    for (;;) {
      const end = await loop.run();
      if (end.is !== "pause") return end;
      const ms = Math.max(10, end.until - this.#ground.nowAbout());
      await sleep(Math.min(ms, 1_000), undefined, { signal: stop }).catch(() => {});
      if (stop.aborted) return { is: "stopped" };
      await held.takeMail({ ends: true });
    }
  }

  async #loop(held: Holding, { definition, o, sink }: RunRequest): Promise<Loop> {
    const session = viewOf(held);
    const context: unknown = o.context !== undefined ? o.context : await definition.context?.(session);
    const running: Running = {
      held,
      ground: this.#ground,
      definition,
      session,
      context,
      stop: o.signal === undefined ? held.signal : AbortSignal.any([o.signal, held.signal]),
      sink,
      bounds: boundsOf(o.limits, definition.limits),
      runChild: (agent, id, input) => {
        const child = this.request(
          agent,
          id,
          input,
          { ...(o.signal !== undefined && { signal: AbortSignal.any([o.signal, held.signal]) }) },
          () => {},
        );
        return this.run({ ...child, parent: held.id });
      },
    };
    return new Loop(running);
  }
}

/** A promise for those who wait until a run in this process is over. They look for themselves how it ended. */
function announced(): { readonly promise: Promise<never>; readonly settle: () => void } {
  let settle = () => {};
  const promise = new Promise<never>((_resolve, reject) => {
    settle = () => reject(new Error("over"));
  });
  promise.catch(() => {});
  return { promise, settle };
}

/** Whether something of an open turn can be done now, without anybody's word. */
function canGoOn({ work }: Holding, now: number): boolean {
  const { open } = work.fold.course;
  const waits = open.every(({ phase, waits: on }) => {
    const isOver = on?.for === "signal" && on.until !== undefined && on.until <= now;
    return (phase === "waiting" && !isOver) || phase === "doubt";
  });
  return open.length === 0 || !waits;
}

const isUnderWay = (status: string | undefined): boolean => status === "in-progress" || status === "waiting" || status === "in-doubt";

function turnOpen(id: string, status?: string): HoldfastError {
  const why = status === undefined ? "is at another turn" : `is ${status}: its turn cannot go on by itself`;
  return new HoldfastError("TURN_OPEN", `Session ${quote(id)} ${why}. Wait for it, or pass ifBusy: "wait", "queue" or "interrupt".`, {
    sessionId: id,
  });
}
