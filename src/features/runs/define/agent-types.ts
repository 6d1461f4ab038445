/**
 * What an agent is, as its author says it; the types by which inputs, context, state and output
 * are inferred.
 */
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "@standard-schema/spec";
import type {
  Message,
  MessageInput,
  Part,
  ToolCallPart,
  ToolResultPart,
} from "../../../core/messages/message.js";
import type { ModelReply, ModelRequest } from "../../../core/messages/model.js";
import type { Strategy } from "../../../core/retention/strategy.js";
import type { Json, JsonObject, Storable } from "../../../core/values/json.js";
import type { CheckRequest, Retry, Settled } from "../../../engine/calls/call-options.js";
import type { RunResult } from "./result.js";

/**
 * A schema for the input of a tool.
 * zod, valibot, arktype and others that can tell their JSON Schema; a plain JSON Schema; or one
 * with a `parse` of your own, by which inputs are inferred. `parse` may be async, and the model
 * is told what it throws.
 */
export type InputSchema<T> =
  | (StandardSchemaV1<never, T> & StandardJSONSchemaV1<never, T>)
  | (StandardSchemaV1<any, T> & StandardJSONSchemaV1<any, T>)
  | { readonly jsonSchema: JsonObject; readonly parse?: (value: Json) => T | PromiseLike<T> }
  | {
      readonly type: "object";
      readonly properties?: JsonObject;
      readonly [keyword: string]: Json | undefined;
    };

/** A session, as tools and functions of an agent see it. */
export interface SessionView<S> {
  readonly id: string;
  readonly messages: readonly Message[];
  readonly state: Readonly<S>;
  readonly metadata: JsonObject;
  readonly tags: readonly string[];
}

interface ChildOptions {
  /** Names the child: the same name in the same call is the same session. */
  readonly as?: string;
}

interface WaitOptions<T> {
  /** Checks the value of the signal, and gives it its type. */
  readonly schema?: StandardSchemaV1<any, T>;
  readonly timeoutMs?: number;
}

/** What a tool is given beside its arguments. */
export interface ToolContext<C = any, S = any> {
  /** Hand it to whoever is called: by it they know a second call for the same. */
  readonly key: string;
  /** The call as the reply names it, and as people and the journal do. */
  readonly callId: string;
  readonly effectId: string;
  readonly attempt: number;
  /** Aborts when the call's time is up, or the run is to stop. */
  readonly signal: AbortSignal;
  readonly context: C;
  readonly session: SessionView<S>;
  /** Set a key of the session's state, together with the outcome of this call. */
  set<K extends keyof S & string>(
    this: void,
    key: K,
    value: S[K] extends Json ? S[K] : S[K] & Storable<S[K]>,
  ): void;
  /** Show something to those who follow the run's stream; it is not kept. */
  emit(this: void, data: Json): void;
  /**
   * Run another agent in a session of its own, which is found again after a crash.
   * While that waits for a decision, so does this call, and the tool is then run again from its
   * beginning: not in a tool that may run only once. Children without a name (`as`) are counted,
   * apart from those that have one.
   */
  run<O>(
    this: void,
    agent: Agent<any, any, O>,
    input: Input,
    o?: ChildOptions,
  ): Promise<RunResult<O>>;
  /**
   * Wait for `hold.sessions.signal(sessionId, name, value)`, however long that takes.
   * The session is left as waiting, and the tool is run again from its beginning when the signal
   * has come. It answers undefined once the time is up. Not in a tool that may run only once.
   */
  wait<T = Json>(this: void, name: string, o?: WaitOptions<T>): Promise<T | undefined>;
}

type In<A> = unknown extends A ? any : A;

interface ToolCommon<A, R, C, S> {
  readonly description?: string;
  readonly input?: InputSchema<A>;
  readonly run: (input: In<A>, context: ToolContext<C, S>) => R | Promise<R>;
  /** Whether a person must approve the call first. */
  readonly approval?:
    | boolean
    | ((input: In<A>, context: ApprovalContext<C, S>) => boolean | Promise<boolean>);
  /** How long one attempt may take; 10 minutes by default. */
  readonly timeoutMs?: number;
  readonly retry?: Retry;
  /** What the model is told of an output; the output itself by default. */
  readonly toModel?: (output: R) => string | readonly Part[];
  /**
   * Places a checkpoint of kind pre-operation before a reply's calls are made, if this is one of
   * them.
   */
  readonly checkpoint?: "before";
}

interface ApprovalContext<C, S> {
  readonly context: C;
  readonly session: SessionView<S>;
}

/** A function that finds out whether a call happened, when Holdfast cannot tell. */
export type Check<A, R, C> = (request: CheckRequest<A, C>) => Promise<Settled<R>> | Settled<R>;

/** A tool of an agent; its `mode` says what may be done after a crash. */
export type Tool<A = any, R = any, C = any, S = any> = ToolCommon<A, R, C, S> &
  (
    | { readonly mode: "repeatable"; readonly check?: never }
    | {
        readonly mode: "keyed";
        /**
         * A name for what the call does (`refund:42`): the same name is answered from the first
         * call.
         */
        readonly key?: (input: In<A>) => string;
        /** For how long those who are called know a key again; a day by default. */
        readonly keyValidMs?: number;
        readonly check?: Check<A, R, C>;
      }
    | {
        readonly mode: "once";
        readonly key?: (input: In<A>) => string;
        readonly check?: Check<A, R, C>;
      }
  );

export interface Limits {
  /** Replies in one turn; 100 by default. */
  readonly steps?: number;
  /** How often the same calls may come in a row, or a cycle of calls in turn; 10 by default. */
  readonly repeats?: number;
  /** Tokens in one turn, in and out. */
  readonly tokens?: number;
  /** How long one run or resume may take. */
  readonly wallMs?: number;
}

export interface StateShape<S> {
  readonly schema: StandardSchemaV1<any, S>;
  readonly version?: number;
  readonly initial?: NoInfer<S>;
  readonly upgrade?: (old: JsonObject, from: number) => NoInfer<S>;
}

/** The definition of an agent: its model, its tools, and how its runs go. */
export interface AgentDef<T, C, S, O> {
  readonly name: string;
  /** Where it is a function, it stands behind `context`: that is how its type is inferred. */
  readonly system?:
    | string
    | ((about: {
        readonly context: C;
        readonly session: SessionView<S>;
      }) => string | Promise<string>);
  readonly model: (request: ModelRequest) => Promise<ModelReply>;
  readonly tools?: T;
  /** What its tools need, made once for each run of a session. */
  readonly context?: (session: SessionView<S>) => C | Promise<C>;
  readonly state?: StateShape<S>;
  readonly output?: StandardSchemaV1<any, O>;
  readonly version?: string;
  readonly checkpoint?: Strategy;
  /** What the model sees of the transcript. */
  readonly view?: (
    messages: readonly Message[],
    about: { readonly session: SessionView<S> },
  ) => readonly Message[];
  readonly limits?: Limits;
  readonly modelRetry?: Retry;
}

declare const types: unique symbol;
export type Types = typeof types;

/** An agent without a store; `hold.bind` binds it to one. */
export interface Agent<C = any, S = any, O = any> {
  readonly name: string;
  /** For the compiler only: without it, anything that has a name would be taken for an agent. */
  readonly [types]: (context: C, state: S) => O;
}

/**
 * What an input may consist of: calls are the model's to ask for, and their results come from
 * tools.
 */
type InputPart = Exclude<Part, ToolCallPart | ToolResultPart>;

interface InputMessage extends Omit<MessageInput, "role" | "content" | "reply"> {
  readonly role: "user";
  readonly content: string | readonly InputPart[];
}

/**
 * What the user says: a text, parts, or a message of the user.
 * Other roles are refused, because a client may have made the message.
 */
export type Input = string | readonly InputPart[] | InputMessage;

/** How a turn is run. */
export interface RunOptions<C = any> {
  /** Names the turn: the same key is the same turn. Code for chats always passes one. */
  readonly key?: string;
  readonly context?: C;
  readonly signal?: AbortSignal;
  /** What to do while another input is being worked on. */
  readonly ifBusy?: "wait" | "queue" | "reject" | "interrupt";
  readonly limits?: Limits;
  /** Title, tags and metadata are given to a session that is made by this call. */
  readonly tags?: readonly string[];
  readonly title?: string;
  readonly metadata?: JsonObject;
}

/** How a turn is left to a worker. */
export interface SubmitOptions
  extends Omit<RunOptions<never>, "context" | "signal" | "ifBusy" | "limits"> {
  /** Not before this time, in milliseconds since 1970. */
  readonly atMs?: number;
}
