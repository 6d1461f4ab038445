/**
 * The tools by which an agent keeps and looks up its own memory, and by which others look into what
 * agents have stored. Each is defined once, here; our loop, other loops and MCP are given the same.
 */
import { checkName } from "../core/values/ids.js";
import type { CheckRequest, Settled } from "../engine/calls/call-options.js";
import { KEY_VALID_MS } from "../engine/journal/receipts.js";
import {
  entriesIn,
  flag,
  invalid,
  listOf,
  options,
  scopeOf,
  signalOf,
} from "../engine/util/validate.js";
import type { ToolContext } from "../features/runs/define/agent-types.js";
import { agentDelete, agentList, agentLoad, agentSave } from "./agents.js";
import { callTool, checked, surely } from "./calling.js";
import {
  checkpointCreate,
  checkpointDelete,
  checkpointDiff,
  checkpointFork,
  checkpointList,
  checkpointRestore,
} from "./checkpoints.js";
import {
  conversationDelete,
  conversationList,
  conversationLoad,
  conversationSave,
  conversationSearch,
} from "./conversations.js";
import type { Annotations, Hold, Spec } from "./definition.js";
import { conversationFile } from "./files.js";
import type { Shape } from "./schema.js";
import { persistenceStats } from "./stats.js";

const all = [
  agentSave,
  agentLoad,
  agentDelete,
  agentList,
  conversationSave,
  conversationLoad,
  conversationFile,
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

/** The name of a tool that `hold.tools()` can give. */
export type ToolName = (typeof all)[number]["name"];
/** The names of all tools that `hold.tools()` can give. */
export const TOOL_NAMES: readonly ToolName[] = all.map(({ name }) => name);

/** Those that change something. */
type Changing<S = (typeof all)[number]> = S extends {
  readonly name: infer N;
  readonly does: "adds" | "changes" | "removes";
}
  ? N
  : never;

/**
 * The tools that `hold.tools()` gives for these options.
 * If the compiler does not know the options, any of the tools may be there.
 */
export type ToolsFor<O extends ToolsOptions> =
  IsOpen<O> extends true
    ? { readonly [N in ToolName]?: ToolOf<N> }
    : { readonly [N in Left<O>]: ToolOf<N> };

type ToolOf<N extends ToolName, S = Extract<(typeof all)[number], { readonly name: N }>> =
  S extends Spec<N, any, infer I, infer A> ? StoreTool<I, A> : never;

type Left<O extends ToolsOptions> = Exclude<
  O extends { readonly only: readonly (infer N extends ToolName)[] } ? N : ToolName,
  | (O extends { readonly readOnly: true } ? Changing : never)
  | (O extends { readonly agent: string } ? "persistence_stats" : never)
>;

type IsOpen<O extends ToolsOptions> =
  | ("readOnly" extends keyof O ? (boolean extends O["readOnly"] ? true : never) : never)
  | ("only" extends keyof O
      ? ToolName extends NonNullable<O["only"]>[number]
        ? true
        : never
      : never)
  | ("agent" extends keyof O ? (undefined extends O["agent"] ? true : never) : never) extends never
  ? false
  : true;

/** Which tools `hold.tools()` gives, and for whom. */
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

/**
 * A tool of `hold.tools()`, for our loop, the AI SDK's and others.
 * It has a description, schemas and a function.
 */
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
  run(this: void, input: I, context: ToolContext): Promise<A>;
  // ---- others
  readonly inputSchema: Shape<I & { readonly idempotencyKey?: string }>;
  readonly outputSchema: Shape<A>;
  readonly needsApproval: boolean;
  execute(
    this: void,
    input: I & { readonly idempotencyKey?: string },
    options?: { readonly abortSignal?: AbortSignal | undefined },
  ): Promise<A>;
}

/** Those that are wanted. */
function specsFor(given: ToolsOptions | undefined): {
  readonly specs: readonly Spec[];
  readonly agent: string | undefined;
  readonly asks: boolean;
} {
  const o = options(given, "tools", ["only", "readOnly", "agent", "approval"]);
  const readOnly = flag(o.readOnly, "readOnly") ?? false;
  const agent = scopeOf(o, "agent") === undefined ? undefined : checkName(o.agent, "agent");
  const only =
    o.only === undefined ? undefined : listOf(o.only, "only", "a list of names of tools");
  for (const name of only ?? [])
    if (!(TOOL_NAMES as readonly unknown[]).includes(name))
      throw invalid(
        "only",
        `there is no tool ${JSON.stringify(name)}; known are ${TOOL_NAMES.join(", ")}`,
      );
  const specs = all.filter(
    ({ name, does, inScope }) =>
      (only === undefined || only.includes(name)) &&
      (!readOnly || does === "reads") &&
      (agent === undefined || inScope),
  );
  return { specs, agent, asks: flag(o.approval, "approval") ?? false };
}

export function toolsFor<O extends ToolsOptions>(hold: Hold, given: O | undefined): ToolsFor<O> {
  const { specs, agent, asks } = specsFor(given);
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
      run: (input, { key, signal, session }) =>
        surely(signal, () => callTool(hold, one, input, { agent, signal, key, self: session.id })),
      inputSchema: keyedInput,
      outputSchema: output,
      needsApproval: approval,
      execute: async (input, o) => callTool(hold, one, input, { agent, signal: signalIn(o) }),
    };
    return [name as ToolName, Object.freeze(tool)];
  });
  return Object.fromEntries(tools) as unknown as ToolsFor<O>;
}

/**
 * The signal among what a loop passes beside the input. The other fields are the loop's own.
 */
function signalIn(given: unknown): AbortSignal | undefined {
  if (given === undefined) return undefined;
  const beside = Object.fromEntries(entriesIn(given, "options", "an object with an abortSignal"));
  return signalOf(beside["abortSignal"]);
}
