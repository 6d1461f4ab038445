/** An agent bound to a store. */
import { randomUUID } from "node:crypto";
import type { AgentEvent } from "../../core/messages/agent-event.js";
import { turnMessageId } from "../../engine/calls/doubt-restored.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { ensureSession } from "../../engine/lifecycle/create-session.js";
import { drawId, idAndInput } from "../../engine/lifecycle/session-ids.js";
import { options, signalOf, wholeNumber } from "../../engine/util/validate.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Agent, Input, RunOptions, SubmitOptions, Types } from "./define/agent-types.js";
import { type Definition, definitionOf } from "./define/compile-agent.js";
import type { RunResult } from "./define/result.js";
import { ensureAgent } from "./ensure-record.js";
import { EventQueue } from "./events.js";
import type { Runs } from "./runs.js";
import { endOfTurn } from "./turn-end.js";
import { requestOf, turnInputOf, turnMessage } from "./turn-input.js";

/** How long to wait for the end of a turn. */
interface ResultOptions {
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
}

/** A turn that was given to an agent. */
export interface Turn<O = unknown> {
  readonly sessionId: string;
  readonly turnId: string;
  /** Resolve when the turn has ended, or waits for a decision. */
  result(o?: ResultOptions): Promise<RunResult<O>>;
  /** Stop the turn. */
  cancel(reason?: string): Promise<void>;
}

/** A run whose events can be read while it goes, once. */
export interface RunStream<O = unknown>
  extends AsyncIterable<AgentEvent>,
    Pick<Turn<O>, "sessionId"> {
  /** Resolve when the run has ended; events that were not read are dropped. */
  result(): Promise<RunResult<O>>;
  /** Stop the run and its session. */
  cancel(reason?: string): Promise<void>;
}

/** An input with its options, in one object. A session that is left out is a new one. */
type Ask<O> = O & { readonly input: Input; readonly session?: string };

/** An agent that runs on a store. */
export interface BoundAgent<C = any, S = any, O = any> extends Agent<C, S, O> {
  /**
   * Run a turn, and resolve when it has ended or waits for a decision.
   * It goes on with the latest turn if that has this input (or key), and else begins one. Without
   * `session` the turn has a new session; under the same key it is the same one.
   */
  run(id: string, input: Input, o?: RunOptions<C>): Promise<RunResult<O>>;
  /**
   * Without `session` the turn has a new session, whose id the answer tells. Under the same key it
   * is the same session.
   */
  run(ask: Ask<RunOptions<C>>): Promise<RunResult<O>>;
  /** Run a turn, and read its events while it goes on. */
  stream(id: string, input: Input, o?: RunOptions<C>): RunStream<O>;
  stream(ask: Ask<RunOptions<C>>): RunStream<O>;
  /** Record a turn, and leave it to a worker. */
  submit(id: string, input: Input, o?: SubmitOptions): Promise<Turn<O>>;
  submit(ask: Ask<SubmitOptions>): Promise<Turn<O>>;
  /** Go on with the latest turn, whichever it is. */
  resume(id: string, o?: RunOptions<C>): Promise<RunResult<O>>;
}

export function bind(ctx: StoreContext, runs: Runs, agent: unknown): BoundAgent {
  return new Binding(ctx, runs, definitionOf(agent), agent) as Omit<
    BoundAgent,
    Types
  > as BoundAgent;
}

class Binding implements Omit<BoundAgent, Types> {
  readonly name: string;
  /** What it was made of: binding it again binds the same. */
  readonly agent: unknown;
  readonly #ctx: StoreContext;
  readonly #runs: Runs;
  readonly #definition: Definition;

  constructor(ctx: StoreContext, runs: Runs, definition: Definition, agent: unknown) {
    this.name = definition.name;
    this.agent = agent;
    this.#ctx = ctx;
    this.#runs = runs;
    this.#definition = definition;
  }

  async run(...given: readonly unknown[]): Promise<RunResult> {
    const { id, input, o } = this.#asked<RunOptions>(given);
    return this.#runs.run(this.#request(id, input, o));
  }

  async resume(id: string, o?: RunOptions): Promise<RunResult> {
    return this.#runs.run(this.#request(id, undefined, o));
  }

  #request(id: string, input: Input | undefined, o: RunOptions | undefined) {
    return requestOf(this, id, input, o, this.#ctx.redactor);
  }

  #asked<O extends object>(given: readonly unknown[]) {
    return idAndInput<Input, O>(given, (key) => drawId(this.#ctx, `agent ${this.name}`, key));
  }

  stream(...given: readonly unknown[]): RunStream {
    const { id, input, o } = this.#asked<RunOptions>(given);
    const queue = new EventQueue();
    const request = this.#request(id, input, o);
    const result = this.#runs.run(request, (event) => queue.push(event)).finally(() => queue.end());
    // Whoever only reads events learns of a failure when they end.
    result.catch(() => {});
    return {
      sessionId: request.id,
      result: () => result,
      cancel: (reason) => this.#runs.cancel(request.id, reason),
      async *[Symbol.asyncIterator]() {
        yield* queue;
        await result;
      },
    };
  }

  async submit(...given: readonly unknown[]): Promise<Turn> {
    requireCapability(this.#ctx.store, "inbox", "agent.submit");
    const asked = this.#asked<SubmitOptions>(given);
    const o = options(asked.o, "submit", ["key", "tags", "title", "metadata", "atMs"]);
    const { message, key } = turnInputOf(asked.input, o.key, this.#ctx.redactor);
    const due = o.atMs === undefined ? 0 : wholeNumber(o.atMs, "atMs", 0, 8.64e15);
    const turn = key ?? randomUUID();
    const doc = turnMessage(turn, key, message);
    await ensureAgent(this.#ctx, this.#definition);
    const session = await ensureSession(this.#ctx, asked.id, {
      agent: this.name,
      ...(o.title !== undefined && { title: o.title }),
      ...(o.tags !== undefined && { tags: o.tags }),
      ...(o.metadata !== undefined && { metadata: o.metadata }),
    });
    await this.#runs.waiting.post(session, doc, { id: await turnMessageId(this.#ctx, turn), due });
    return this.turn(session, turn);
  }

  /** A turn that was submitted, or run, before. */
  turn(session: string, turnId: string): Turn {
    return {
      sessionId: session,
      turnId,
      result: async (o) => {
        const { signal, timeoutMs } = options(o, "result", ["signal", "timeoutMs"]);
        const most =
          timeoutMs === undefined
            ? undefined
            : wholeNumber(timeoutMs, "timeoutMs", 0, Number.MAX_SAFE_INTEGER);
        return endOfTurn(this.#ctx, this.#definition, session, turnId, signalOf(signal), most);
      },
      cancel: (reason) => this.#runs.cancel(session, reason, turnId),
    };
  }
}
