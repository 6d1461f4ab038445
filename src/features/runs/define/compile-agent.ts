/** Checks what an author says of an agent, once, and makes of it what the loop works with. */
import type { StandardSchemaV1 } from "@standard-schema/spec";
import { checkText } from "../../../core/journal/checkpoint.js";
import type { Bounds } from "../../../core/messages/limits.js";
import type { Part } from "../../../core/messages/message.js";
import type { ToolDescription } from "../../../core/messages/model.js";
import { type Placement, placement } from "../../../core/retention/strategy.js";
import { checkName } from "../../../core/values/ids.js";
import type { Json } from "../../../core/values/json.js";
import {
  type CallOptions,
  callOptions,
  type Retry,
  retryOf,
} from "../../../engine/calls/call-options.js";
import {
  callback,
  entriesIn,
  flag,
  invalid,
  oneOf,
  options,
  wholeNumber,
} from "../../../engine/util/validate.js";
import type {
  Agent,
  AgentDef,
  Check,
  InputSchema,
  Limits,
  StateShape,
  Tool,
  ToolContext,
  Types,
} from "./agent-types.js";
import { type Schema, schemaOf, standardOf } from "./schema.js";

export interface ToolDefinition {
  readonly name: string;
  readonly schema: Schema;
  readonly options: CallOptions;
  readonly key: ((input: unknown) => unknown) | undefined;
  readonly check: Check<unknown, unknown, unknown> | undefined;
  readonly approval: boolean | ((input: unknown, context: unknown) => unknown);
  readonly toModel: ((output: Json) => string | readonly Part[]) | undefined;
  readonly isMarkedBefore: boolean;
  readonly run: (input: unknown, context: ToolContext) => unknown;
}

export interface Definition {
  readonly name: string;
  readonly version: string | undefined;
  readonly system: string | ((about: unknown) => unknown) | undefined;
  readonly model: AgentDef<unknown, unknown, unknown, unknown>["model"];
  readonly tools: ReadonlyMap<string, ToolDefinition>;
  readonly descriptions: readonly ToolDescription[];
  readonly context: ((session: unknown) => unknown) | undefined;
  readonly state: StateShape<unknown> | undefined;
  readonly output: StandardSchemaV1 | undefined;
  readonly place: Placement;
  readonly marksAny: boolean;
  readonly view: AgentDef<unknown, unknown, unknown, unknown>["view"];
  readonly limits: Bounds;
  readonly modelRetry: Required<Retry>;
}

const TOOL_FIELDS = [
  "description",
  "input",
  "mode",
  "run",
  "key",
  "keyValidMs",
  "check",
  "approval",
  "timeoutMs",
  "retry",
  "toModel",
  "checkpoint",
] as const;

/**
 * What other loops want of a tool, and ours does not look at: one that is made for several is taken
 * as it is.
 */
const OF_OTHERS = [
  "title",
  "annotations",
  "inputSchema",
  "outputSchema",
  "execute",
  "needsApproval",
] as const;

const AGENT_FIELDS = [
  "name",
  "system",
  "model",
  "tools",
  "context",
  "state",
  "output",
  "version",
  "checkpoint",
  "view",
  "limits",
  "modelRetry",
] as const;

class DefinedAgent implements Omit<Agent, Types> {
  readonly name: string;
  readonly #definition: Definition;

  constructor(definition: Definition) {
    this.name = definition.name;
    this.#definition = definition;
  }

  static is(agent: unknown): agent is DefinedAgent {
    return typeof agent === "object" && agent !== null && #definition in agent;
  }

  static definitionOf(agent: DefinedAgent): Definition {
    return agent.#definition;
  }
}

/**
 * Define an agent, without a store; `hold.bind` binds it to one.
 *
 * @example
 * const clerk = agent({ name: "clerk", model, system: "You answer inbox messages." });
 * await hold.bind(clerk).run("inbox message-1", "Answer this inbox message.");
 */
export function agent<
  C = undefined,
  S = Record<string, Json>,
  O = string,
  T extends Record<string, any> = {},
>(definition: AgentDef<{ [K in keyof T]: Tool<T[K], any, C, S> }, C, S, O>): Agent<C, S, O> {
  return defined(definition) as Omit<Agent, Types> as Agent<C, S, O>;
}

/**
 * Checks what an author says of an agent. One that is defined already is bound, and not defined.
 */
export function defined(given: unknown): DefinedAgent {
  if (alreadyDefined(given) !== undefined)
    throw invalid("agent", "it is defined already; bind it with `hold.bind(agent)`");
  return new DefinedAgent(define(given));
}

/** The agent that is given, defined already or bound to a store. */
export function definedOf(given: unknown): DefinedAgent {
  const found = alreadyDefined(given);
  if (found === undefined)
    throw invalid("agent", "it is not defined; define it with `agent`, or with `hold.agent`");
  return found;
}

const alreadyDefined = (given: unknown): DefinedAgent | undefined =>
  [given, boundIn(given)].find((one) => DefinedAgent.is(one));

export const definitionOf = (given: unknown): Definition =>
  DefinedAgent.definitionOf(definedOf(given));

/** The agent that was bound to a store, if that is given. */
function boundIn(given: unknown): unknown {
  try {
    return (given as { readonly agent?: unknown } | null | undefined)?.agent;
  } catch {
    return undefined;
  }
}

function define(given: unknown): Definition {
  if (given === undefined)
    throw invalid("agent", "give an object with at least a name and a model, not undefined");
  const o = options(given as AgentDef<unknown, unknown, unknown, unknown>, "agent", AGENT_FIELDS);
  const name = checkName(o.name, "agent name");
  if (callback(o.model, "agent.model") === undefined)
    throw invalid("agent.model", "an agent needs a model");
  const tools = toolsOf(o.tools);
  const { system } = o;
  if (system !== undefined && typeof system !== "string" && typeof system !== "function")
    throw invalid("agent.system", "it must be text or a function");
  return {
    name,
    version: o.version === undefined ? undefined : checkName(o.version, "agent.version"),
    system: system as Definition["system"],
    model: o.model as Definition["model"],
    tools: new Map(tools.map(({ tool }) => [tool.name, tool])),
    descriptions: tools.map(({ description }) => description),
    context: callback(o.context, "agent.context") as Definition["context"],
    state: stateOf(o.state),
    output: outputOf(o.output),
    place: placement(o.checkpoint),
    marksAny: o.checkpoint !== "never",
    view: callback(o.view, "agent.view"),
    limits: boundsOf(o.limits, DEFAULTS),
    modelRetry: retryOf(o.modelRetry, "agent.modelRetry", 3),
  };
}

const DEFAULTS: Bounds = {
  steps: 100,
  repeats: 10,
  tokens: Number.MAX_SAFE_INTEGER,
  wallMs: Number.MAX_SAFE_INTEGER,
};

/** Limits, each at least 1; what is not given stays as it was. */
export function boundsOf(given: Limits | undefined, standard: Bounds): Bounds {
  const o = options(given, "limits", ["steps", "repeats", "tokens", "wallMs"]);
  const of = (name: keyof Bounds, least = 1) =>
    o[name] === undefined
      ? standard[name]
      : wholeNumber(o[name], `limits.${name}`, least, Number.MAX_SAFE_INTEGER);
  return {
    steps: of("steps"),
    repeats: of("repeats", 2),
    tokens: of("tokens"),
    wallMs: of("wallMs"),
  };
}

function toolsOf(
  given: unknown,
): { readonly tool: ToolDefinition; readonly description: ToolDescription }[] {
  if (given === undefined) return [];
  return entriesIn(given, "agent.tools", "an object with tools by their names").map(
    ([name, tool]) => toolOf(checkName(name, "tool name"), tool),
  );
}

/**
 * Define a tool on its own, with the type of its input.
 *
 * @example
 * const refund = tool({
 *   mode: "keyed",
 *   input: { jsonSchema: { type: "object" }, parse: (value) => ({ order: Number(value) }) },
 *   key: ({ order }) => `refund:${order}`,
 *   run: async ({ order }, { key }) => ({ refunded: order, under: key }),
 * });
 */
export function tool<A, R, C = unknown, S = any>(
  definition: Tool<A, R, C, S> & { readonly input: InputSchema<A> },
): Tool<A, R, C, S> {
  if (definition === undefined)
    throw invalid("tool", "give an object with at least input, mode and run, not undefined");
  toolOf("tool", definition, "tool");
  return definition;
}

function toolOf(
  name: string,
  given: unknown,
  path = `agent.tools.${name}`,
): { readonly tool: ToolDefinition; readonly description: ToolDescription } {
  const o = options(
    given as Record<(typeof TOOL_FIELDS)[number] | (typeof OF_OTHERS)[number], unknown>,
    path,
    [...TOOL_FIELDS, ...OF_OTHERS],
  );
  if (callback(o.run, `${path}.run`) === undefined)
    throw invalid(`${path}.run`, "a tool needs something to run");
  const checked = callOptions(o, path);
  if (checked.mode === "repeatable" && (o.key !== undefined || o.check !== undefined))
    throw invalid(path, "a repeatable call is run again: it has neither key nor check");
  const schema = schemaOf(o.input, `${path}.input`);
  const { approval } = o;
  if (typeof approval !== "function") flag(approval, `${path}.approval`);
  const tool: ToolDefinition = {
    name,
    schema,
    options: checked,
    key: callback(o.key, `${path}.key`) as ToolDefinition["key"],
    check: callback(o.check, `${path}.check`) as ToolDefinition["check"],
    approval: (approval ?? false) as ToolDefinition["approval"],
    toModel: callback(o.toModel, `${path}.toModel`) as ToolDefinition["toModel"],
    isMarkedBefore: oneOf(o.checkpoint, `${path}.checkpoint`, ["before"]) !== undefined,
    run: o.run as ToolDefinition["run"],
  };
  const description =
    o.description === undefined ? "" : checkText(o.description, `${path}.description`, 100_000);
  return { tool, description: Object.freeze({ name, description, inputSchema: schema.json }) };
}

function stateOf(given: unknown): StateShape<unknown> | undefined {
  if (given === undefined) return undefined;
  const { schema, version, initial, upgrade } = options(
    given as StateShape<unknown>,
    "agent.state",
    ["schema", "version", "initial", "upgrade"],
  );
  if (version !== undefined)
    wholeNumber(version, "agent.state.version", 1, Number.MAX_SAFE_INTEGER);
  callback(upgrade, "agent.state.upgrade");
  return {
    schema: standardOf(schema, "agent.state.schema"),
    ...(version !== undefined && { version }),
    ...(initial !== undefined && { initial }),
    ...(upgrade !== undefined && { upgrade }),
  };
}

function outputOf(given: unknown): StandardSchemaV1 | undefined {
  return given === undefined ? undefined : standardOf(given, "agent.output");
}
