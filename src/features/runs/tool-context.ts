/** What a tool is given, and what it asks for through it. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { Effect } from "../../core/effects/effect.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, MAX_ID_BYTES, type SessionId } from "../../core/values/ids.js";
import { encode, type Json } from "../../core/values/json.js";
import type { Handle } from "../../engine/calls/attempt.js";
import { valueOf } from "../../engine/calls/bodies.js";
import { invalid, options, wholeNumber } from "../../engine/util/validate.js";
import type { Input, ToolContext } from "./define/agent-types.js";
import { standardOf, validate } from "./define/schema.js";
import type { RunContext } from "./run-context.js";
import { checkState } from "./state.js";

/** Begins what a named child adds to the id of the call that runs it. No number begins so. */
const NAMED = "as:";

const MAX_WAIT_MS = 10 * 365 * 24 * 60 * 60_000;

/** One attempt at a call: what it has set so far, and how often it has asked for what. */
export class CallContext {
  readonly #running: RunContext;
  readonly #effect: Effect;
  readonly #handle: Handle;
  readonly #callId: string;
  readonly #attempt: number;
  /** State that is to be set with the outcome. */
  readonly sets = new Map<string, Json>();
  readonly #asked = new Map<string, number>();

  constructor(
    running: RunContext,
    effect: Effect,
    handle: Handle,
    callId: string,
    attempt: number,
  ) {
    this.#running = running;
    this.#effect = effect;
    this.#handle = handle;
    this.#callId = callId;
    this.#attempt = attempt;
  }

  asTool(): ToolContext {
    const { context, session, tell } = this.#running;
    const handle = this.#handle;
    return {
      key: this.#effect.key,
      callId: this.#callId,
      effectId: this.#effect.id,
      attempt: this.#attempt,
      get signal() {
        return handle.signal;
      },
      context,
      session,
      set: (key, value) => this.#set(key, value),
      emit: (data) => {
        const { value } = encode(data, "data");
        tell(() => ({
          type: "data",
          effectId: this.#effect.id,
          callId: this.#callId,
          data: value,
        }));
      },
      run: (agent, input, o) => this.#run(agent, input, o) as never,
      wait: (name, o) => this.#wait(name, o) as never,
    };
  }

  #set(key: string, value: unknown): void {
    const name = checkName(key, "state key");
    if (name === "messages") throw invalid("state.messages", "the transcript is the loop's");
    const { value: kept } = encode(value, `state.${name}`);
    checkState(this.#running.definition.state, {
      ...(this.#running.session.state as object),
      ...Object.fromEntries(this.sets),
      [name]: kept,
    });
    this.sets.set(name, kept);
  }

  #nth(what: string): number {
    const n = this.#asked.get(what) ?? 0;
    this.#asked.set(what, n + 1);
    return n;
  }

  async #wait(
    given: string,
    o?: { readonly schema?: StandardSchemaV1; readonly timeoutMs?: number },
  ): Promise<unknown> {
    const name = checkName(given, "signal name");
    const { schema, timeoutMs } = options(o, "wait", ["schema", "timeoutMs"]);
    if (schema !== undefined) standardOf(schema, "wait.schema");
    if (this.#effect.mode === "once")
      throw invalid(
        "wait",
        "a tool that may run only once cannot wait: it is run again from its beginning when the signal has come",
      );
    const { held, ctx } = this.#running;
    const count = this.#nth(`signal ${name}`);
    const nth = count === 0 ? undefined : { nth: count };
    const isThis = (other: { readonly name: string; readonly nth?: number }) =>
      other.name === name && (other.nth ?? 0) === count;
    let current = held.work.fold.inFlight.get(this.#effect.id) ?? this.#effect;
    const had = () => current.signals?.find(isThis);
    const before = current.waited?.flatMap((wait) =>
      wait.for === "signal" && isThis(wait) ? [wait.until] : [],
    )[0];
    const isOver = (end: number | undefined) => end !== undefined && end <= ctx.wallMs();
    if (had() === undefined && isOver(before)) return undefined;
    if (
      had() === undefined &&
      held.work.fold.inFlight.signals.some((signal) => signal.name === name)
    ) {
      // One that came before anybody waited. It is this call's from here on, also after a crash.
      held.work.inFlight({ effect: { id: this.#effect.id, is: "signalled", name, ...nth } });
      await held.commit();
      current = held.work.fold.inFlight.get(this.#effect.id) as Effect;
    }
    const signal = had();
    if (signal !== undefined) {
      const value = await valueOf(ctx, signal.body);
      if (schema === undefined) return value;
      const parsed = await validate(schema, value);
      if ("value" in parsed) return parsed.value;
      throw new HoldfastError(
        "INVALID_VALUE",
        `The signal ${quote(name)} does not fit what is waited for: ${parsed.flaw}.`,
        {
          path: `signal.${name}`,
        },
      );
    }
    const until =
      before ??
      (timeoutMs === undefined
        ? undefined
        : ctx.wallMs() + wholeNumber(timeoutMs, "wait.timeoutMs", 0, MAX_WAIT_MS));
    if (isOver(until)) return undefined;
    return this.#handle.suspend({
      for: "signal",
      name,
      ...nth,
      ...(until !== undefined && { until }),
    });
  }

  async #run(agent: unknown, input: Input, o?: { readonly as?: string }): Promise<unknown> {
    const { as } = options(o, "run", ["as"]);
    if (this.#effect.mode === "once")
      throw invalid(
        "run",
        "a tool that may run only once cannot run an agent: it is run again from its beginning when that has waited",
      );
    // Children without a name are counted. The prefix keeps them apart: `2` is the second one, and
    // `as:2` the one that is named so.
    const id = `${this.#effect.id}/${as === undefined ? this.#nth("child") + 1 : `${NAMED}${checkName(as, "as")}`}`;
    if (Buffer.byteLength(id) > MAX_ID_BYTES)
      throw invalid(
        "run.as",
        `it must be ${MAX_ID_BYTES - this.#effect.id.length - 1 - NAMED.length} bytes at most: it is part of a session's id`,
      );
    const { held, runChild } = this.#running;
    if (!held.work.fold.inFlight.children.includes(id)) {
      held.work.adopts(id as SessionId);
      await held.commit();
    }
    // A child that is counted has one turn. Where children are begun in another order than before,
    // each would be given another's input.
    const key = as === undefined ? "only" : undefined;
    const result = await this.#handle
      .outOfTime(() => runChild(agent, id, input, key))
      .catch((error: unknown) => {
        throw key !== undefined && error instanceof HoldfastError && error.code === "CONFLICT"
          ? otherChild(id, error)
          : error;
      });
    if (result.status === "waiting" || result.status === "in-doubt")
      return this.#handle.suspend({ for: "child", session: id });
    // Its parent is being stopped too, and finds it again.
    if (result.status === "stopped" && result.reason !== "cancelled") return this.#handle.stopped();
    return result;
  }
}

function otherChild(id: string, cause: HoldfastError): HoldfastError {
  return new HoldfastError(
    "CONFLICT",
    `The child ${quote(id)} was run with another input before. Children without a name are counted in the order in which ctx.run is called. Give each a name: { as }.`,
    { sessionId: id, path: "run.as" },
    cause,
  );
}
