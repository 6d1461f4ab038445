/**
 * The tools by which an agent keeps and looks up its own memory, and by which others look into what agents have stored. Each is defined
 * once, here; our loop, other loops and MCP are given the same.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { digest } from "../core/digest.js";
import { NotDone } from "../core/effect.js";
import { HoldfastError } from "../core/errors.js";
import { checkName } from "../core/ids.js";
import type { JsonObject } from "../core/json.js";
import type { ToolContext } from "../runtime/agent/definition.js";
import type { CheckRequest, Settled } from "../runtime/effects/spec.js";
import { flag, invalid, options } from "../runtime/options.js";
import { KEY_VALID_MS } from "../runtime/receipts.js";
import { agentDelete, agentList, agentLoad, agentSave } from "./agents.js";
import { checkpointCreate, checkpointDelete, checkpointDiff, checkpointFork, checkpointList, checkpointRestore } from "./checkpoints.js";
import { conversationDelete, conversationList, conversationLoad, conversationSave, conversationSearch } from "./conversations.js";
import type { Annotations, Hold, Spec } from "./definition.js";
import type { Shape } from "./schema.js";
import { persistenceStats } from "./stats.js";

const all = [
  agentSave,
  agentLoad,
  agentDelete,
  agentList,
  conversationSave,
  conversationLoad,
  conversationDelete,
  conversationList,
  conversationSearch,
  checkpointCreate,
  checkpointRestore,
  checkpointList,
  checkpointDelete,
  checkpointFork,
  checkpointDiff,
  persistenceStats,
] as const;

export type ToolName = (typeof all)[number]["name"];
export const TOOL_NAMES: readonly ToolName[] = all.map(({ name }) => name);

/** Those that change something. */
type Changing<S = (typeof all)[number]> = S extends { readonly name: infer N; readonly does: "adds" | "changes" | "removes" } ? N : never;

/** The tools that are there for these options; where these are not known to the compiler, any of them may be. */
export type ToolsFor<O extends ToolsOptions> =
  IsOpen<O> extends true ? { readonly [N in ToolName]?: ToolOf<N> } : { readonly [N in Left<O>]: ToolOf<N> };

type ToolOf<N extends ToolName, S = Extract<(typeof all)[number], { readonly name: N }>> =
  S extends Spec<N, any, infer I, infer A> ? StoreTool<I, A> : never;

type Left<O extends ToolsOptions> = Exclude<
  O extends { readonly only: readonly (infer N extends ToolName)[] } ? N : ToolName,
  (O extends { readonly readOnly: true } ? Changing : never) | (O extends { readonly agent: string } ? "persistence_stats" : never)
>;

type IsOpen<O extends ToolsOptions> =
  | ("readOnly" extends keyof O ? (boolean extends O["readOnly"] ? true : never) : never)
  | ("only" extends keyof O ? (ToolName extends NonNullable<O["only"]>[number] ? true : never) : never)
  | ("agent" extends keyof O ? (undefined extends O["agent"] ? true : never) : never) extends never
  ? false
  : true;

export interface ToolsOptions {
  /** Only these. */
  readonly only?: readonly ToolName[];
  /** Only those that change nothing. */
  readonly readOnly?: boolean;
  /** Only what is this agent's: nothing of another's is there for them. */
  readonly agent?: string;
  /** Whether a person must approve a call that deletes something, or goes back to a checkpoint. */
  readonly approval?: boolean;
}

/** A tool that our loop takes, and the AI SDK's, and whoever else asks for a description, schemas and a function. */
export type StoreTool<I = any, A = any> = StoreToolCommon<I, A> &
  (
    | { readonly mode: "repeatable" }
    | {
        readonly mode: "keyed";
        readonly keyValidMs: number;
        readonly retry: { readonly attempts: number };
        check(this: void, request: CheckRequest<any>): Promise<Settled<A>>;
      }
  );

interface StoreToolCommon<I, A> {
  readonly title: string;
  readonly description: string;
  readonly annotations: Annotations;
  // ---- our loop
  readonly input: Shape<I>;
  readonly approval: boolean;
  run(this: void, args: I, context: ToolContext): Promise<A>;
  // ---- others
  readonly inputSchema: Shape<I & { readonly idempotencyKey?: string }>;
  readonly outputSchema: Shape<A>;
  readonly needsApproval: boolean;
  execute(
    this: void,
    args: I & { readonly idempotencyKey?: string },
    options?: { readonly abortSignal?: AbortSignal | undefined },
  ): Promise<A>;
}

/** Those that are wanted. */
function specsFor(given: ToolsOptions | undefined): { readonly specs: readonly Spec[]; readonly agent: string | undefined } {
  const o = options(given, "tools", ["only", "readOnly", "agent", "approval"]);
  const readOnly = flag(o.readOnly, "readOnly") ?? false;
  const agent = o.agent === undefined ? undefined : checkName(o.agent, "agent");
  if (o.only !== undefined && !Array.isArray(o.only)) throw invalid("only", "it is a list of names of tools");
  for (const name of o.only ?? [])
    if (!(TOOL_NAMES as readonly unknown[]).includes(name))
      throw invalid("only", `there is no tool ${JSON.stringify(name)}; known are ${TOOL_NAMES.join(", ")}`);
  const specs = all.filter(
    ({ name, does, inScope }) =>
      (o.only === undefined || (o.only as readonly string[]).includes(name)) &&
      (!readOnly || does === "reads") &&
      (agent === undefined || inScope),
  );
  return { specs, agent };
}

/** Makes a call whose arguments fit. */
async function callTool(
  hold: Hold,
  spec: Spec,
  { idempotencyKey, ...args }: { readonly idempotencyKey?: string } & JsonObject,
  { agent, signal, key, self }: Calling,
): Promise<JsonObject> {
  // Before anything is done; what has begun is brought to its end.
  signal?.throwIfAborted();
  const given = idempotencyKey ?? key;
  return spec.run(hold, args, { key: given === undefined ? undefined : ownKey(agent, given), agent, signal, self });
}

interface Calling {
  readonly agent: string | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly key?: string;
  readonly self?: string;
}

/** What one agent calls its calls is nothing to another. */
function ownKey(agent: string | undefined, given: string): string {
  const key = checkName(given, "idempotencyKey");
  return agent === undefined ? key : digest(`${agent}\n${key}`);
}

export function toolsFor<O extends ToolsOptions>(hold: Hold, given: O | undefined): ToolsFor<O> {
  const { specs, agent } = specsFor(given);
  const asks = flag(given?.approval, "approval") ?? false;
  const tools = specs.map((one): [ToolName, StoreTool] => {
    const { name, title, description, annotations, input, keyedInput, output, does } = one;
    const approval = asks && does === "removes";
    const tool: StoreTool = {
      title,
      description,
      annotations,
      ...(does === "reads"
        ? { mode: "repeatable" }
        : {
            mode: "keyed",
            keyValidMs: KEY_VALID_MS,
            retry: { attempts: 1 },
            check: (request) => checked(hold, one, request, agent),
          }),
      input,
      approval,
      run: (args, { key, signal, session }) => surely(signal, () => callTool(hold, one, args, { agent, signal, key, self: session.id })),
      inputSchema: keyedInput,
      outputSchema: output,
      needsApproval: approval,
      execute: (args, o) => callTool(hold, one, args, { agent, signal: o?.abortSignal }),
    };
    return [name as ToolName, Object.freeze(tool)];
  });
  return Object.fromEntries(tools) as unknown as ToolsFor<O>;
}

/** Whether it was done, and what it answers then: under its key, the same. */
async function checked(
  hold: Hold,
  one: Spec,
  { key, args, startedAt }: CheckRequest<any>,
  agent: string | undefined,
): Promise<Settled<JsonObject>> {
  return patiently(undefined, async () => {
    if (!(await hold.isDone(ownKey(agent, key)))) {
      // What was done so long ago may be forgotten.
      return Date.now() - Date.parse(startedAt) > KEY_VALID_MS ? undefined : { retry: true };
    }
    try {
      return { result: await callTool(hold, one, args as JsonObject, { agent, key }) };
    } catch (error) {
      if (!isRefusal(error) || error.retryable) throw error;
      return { error: `It was done, and what it has made is not as it was: ${error.code}: ${error.message}` };
    }
  });
}

/** What is refused was not done, and the model is told; our loop would otherwise not know. */
async function surely<R>(signal: AbortSignal, call: () => Promise<R>): Promise<R> {
  try {
    return await patiently(signal, call);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    throw new NotDone(`${error.code}: ${error.message}`, { cause: error });
  }
}

/** After these nobody knows what became of it. */
const OPEN: ReadonlySet<string> = new Set(["UNREACHABLE", "IO", "DISK_FULL", "CLOSED"]);
const isRefusal = (error: unknown): error is HoldfastError => error instanceof HoldfastError && !OPEN.has(error.code);

const PATIENCE_MS = 10_000;
const PASSING: ReadonlySet<string> = new Set(["UNREACHABLE", "BUSY", "DISK_FULL"]);

/** While the store is away or busy it is asked again, for a while: under its key a call is made once. */
async function patiently<R>(signal: AbortSignal | undefined, call: () => Promise<R>): Promise<R> {
  const deadline = performance.now() + PATIENCE_MS;
  for (let pause = 50; ; pause = Math.min(2 * pause, 1_000)) {
    try {
      return await call();
    } catch (error) {
      const isPassing = error instanceof HoldfastError && PASSING.has(error.code);
      if (!isPassing || performance.now() > deadline || signal?.aborted) throw error;
    }
    await sleep(pause, undefined, signal && { signal }).catch(() => {});
  }
}
