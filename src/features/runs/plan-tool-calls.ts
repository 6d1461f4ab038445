/**
 * Plan the calls of a reply: which are made, which are refused, and which are answered from
 * another. Planning reads and asks, and changes nothing. So all that follows from a plan is staged
 * at once, and is one save.
 */
import {
  differs,
  type Effect,
  isFailed,
  valueDigest,
  type WaitsFor,
} from "../../core/effects/effect.js";
import { inputFlaw } from "../../core/messages/call-input.js";
import type { Message, ToolCallPart } from "../../core/messages/message.js";
import { quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { words } from "../../engine/calls/execute-call.js";
import { Repeats } from "../../engine/calls/repeats.js";
import type { ToolDefinition } from "./define/compile-agent.js";
import type { Parsed } from "./define/schema.js";
import type { RunContext } from "./run-context.js";

/** A call, and what is to be done about it. */
export type PlannedCall =
  /** It is not made at all: `says` is its answer. */
  | { readonly part: ToolCallPart; readonly do: "refuse"; readonly says: string }
  /** It has an intent. */
  | { readonly part: ToolCallPart; readonly do: "go-on"; readonly id: string }
  /** It has an intent, and its turn is over: its outcome is asked for, and nothing made. */
  | { readonly part: ToolCallPart; readonly do: "ask"; readonly id: string }
  /**
   * It is the same as another: of this reply (its index), or made before under the same name (the
   * id of its effect).
   */
  | { readonly part: ToolCallPart; readonly do: "share"; readonly with: number | string }
  | IntendedCall;

/** A call that is to have an intent. */
export interface IntendedCall {
  readonly part: ToolCallPart;
  readonly do: "intend";
  readonly tool: ToolDefinition;
  readonly input: Json;
  readonly inputDigest: string;
  readonly named: string | undefined;
  readonly parsed: Parsed;
  /** What it waits for before it is made. */
  readonly waits: WaitsFor | undefined;
  /** The call of a past that was left which it is answered from. */
  readonly replays: Effect | undefined;
}

/**
 * The calls of a reply that have a name, by tool and name: where each stands, and a digest of its
 * input.
 */
type Names = Map<string, { readonly index: number; readonly inputDigest: string }>;

export class ToolCallPlanner {
  readonly #running: RunContext;
  readonly #repeats: Repeats;

  constructor(running: RunContext) {
    this.#running = running;
    this.#repeats = new Repeats(running.held);
  }

  get #inFlight() {
    return this.#running.held.work.fold.inFlight;
  }

  /** Plans all calls of a reply. `reply` is undefined for one that has just come. */
  async plan(
    calls: readonly ToolCallPart[],
    reply: Message | undefined,
  ): Promise<readonly PlannedCall[]> {
    const known =
      reply === undefined ? new Map<number, Effect>() : this.#inFlight.ofReply(reply.seq);
    const withheld =
      reply && (reply.seq === this.#inFlight.ownReply ? whyWithheld(reply) : NOT_NOW);
    const names: Names = new Map();
    const planned: PlannedCall[] = [];
    for (const [index, part] of calls.entries()) {
      const effect = known.get(index);
      if (effect !== undefined) {
        planned.push({ part, do: "go-on", id: effect.id });
        // Its twins in this reply are answered like it, however it ended.
        if (effect.named !== undefined)
          names.set(nameOf(effect.name, effect.named), { index, inputDigest: effect.inputDigest });
      } else if (withheld !== undefined) planned.push(refuse(part, withheld));
      else planned.push(await this.#planOne(part, index, names));
    }
    return planned;
  }

  async #planOne(part: ToolCallPart, index: number, names: Names): Promise<PlannedCall> {
    const { tools } = this.#running.definition;
    const tool = tools.get(part.name);
    if (tool === undefined)
      return refuse(
        part,
        `There is no tool ${quote(part.name)}. Known are: ${[...tools.keys()].join(", ") || "none"}.`,
      );
    const bad = inputFlaw(part);
    if (bad !== undefined) return refuse(part, `The input of ${quote(part.name)} ${bad}`);
    const { input } = part;
    const parsed = await tool.schema.parse(input);
    if ("flaw" in parsed)
      return refuse(part, `The input of ${quote(part.name)} does not fit: ${parsed.flaw}`);
    const inputDigest = valueDigest(input);
    let named: string | undefined;
    try {
      named =
        tool.key === undefined
          ? undefined
          : checkName(await tool.key(parsed.value), `${part.name}.key`);
    } catch (error) {
      return refuse(part, `The call of ${quote(part.name)} has no key: ${words(error)}`);
    }
    if (named !== undefined) {
      const twin = this.#twinOf(tool.name, named, names);
      if (twin !== undefined)
        return differs(twin.inputDigest, inputDigest)
          ? anotherAct(part, named)
          : { part, do: "share", with: twin.with };
      names.set(nameOf(tool.name, named), { index, inputDigest });
    }
    const intend = (waits: WaitsFor | undefined, replays?: Effect): IntendedCall => ({
      part,
      do: "intend",
      tool,
      input,
      inputDigest,
      named,
      parsed,
      waits,
      replays,
    });
    const repeat =
      tool.options.mode === "repeatable"
        ? undefined
        : await this.#repeats.find({
            name: tool.name,
            inputDigest,
            ...(named !== undefined && { named }),
          });
    if (repeat?.replays) return intend(undefined, repeat.replays);
    if (repeat?.waits) return intend(repeat.waits);
    return intend(
      (await this.#needsApproval(tool, parsed.value)) ? { for: "approval" } : undefined,
    );
  }

  /** A call under the same name: of this reply, or made before. */
  #twinOf(
    tool: string,
    named: string,
    names: Names,
  ): { readonly with: number | string; readonly inputDigest: string } | undefined {
    const first = names.get(nameOf(tool, named));
    if (first !== undefined) return { with: first.index, inputDigest: first.inputDigest };
    const before = this.#inFlight.named(tool, named);
    return before === undefined || isFailed(before)
      ? undefined
      : { with: before.id, inputDigest: before.inputDigest };
  }

  /** If Holdfast cannot tell whether a person must approve the call, a person must. */
  async #needsApproval({ approval }: ToolDefinition, input: unknown): Promise<boolean> {
    if (typeof approval === "boolean") return approval;
    try {
      const { context, session } = this.#running;
      return (await approval(input, { context, session })) !== false;
    } catch {
      return true;
    }
  }
}

const nameOf = (tool: string, named: string): string => `${tool}\n${named}`;

const refuse = (part: ToolCallPart, says: string): PlannedCall => ({ part, do: "refuse", says });

const anotherAct = (part: ToolCallPart, named: string): PlannedCall =>
  refuse(
    part,
    `${quote(part.name)} was called for ${quote(named)} with another input before; this is another act under the same name. It was not made.`,
  );

/**
 * What the model is told of a call that it did not just ask for. A program that can append to a
 * session must not be able to act as its agent, and one that takes an answer out of the transcript
 * must not have the call made again.
 */
export const NOT_NOW =
  "This call was not made now: the message did not come from this agent's model, or its answer was removed from the transcript. In the second case it was made before. Ask for it again only if it is to be made.";

/**
 * Why the calls of a reply must not be made: what was cut off may not be what was meant, and what
 * was withheld is not to be acted on.
 */
function whyWithheld({ reply }: Message): string | undefined {
  const notMade = (why: string) => `${why}; this call was not made. Ask for it again.`;
  switch (reply?.finish) {
    case "length":
      return notMade("The reply was cut off at its length limit");
    case "content-filter":
      return notMade("The reply was withheld by its provider (content filter)");
    case "error":
      return notMade("The reply ended with an error of its provider");
    default:
      return undefined;
  }
}
