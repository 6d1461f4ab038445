/** What is to be done about the calls of a reply: decided before anything is staged, so that what is staged is one save. */
import { differs, type Effect, isFailed, NotDone, sameOf, type WaitsFor } from "../../core/effects/effect.js";
import { argumentsFlaw } from "../../core/messages/call-arguments.js";
import type { Message, ToolCallPart } from "../../core/messages/message.js";
import { quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { type Call, words } from "../../engine/calls/caller.js";
import { Repeats } from "../../engine/calls/repeats.js";
import { observed } from "../../engine/journal/telemetry.js";
import { answerOf } from "../../engine/util/thrown.js";
import type { ToolDefinition } from "./define/define.js";
import type { Parsed } from "./define/schema.js";
import type { Running } from "./running.js";
import { CallContext } from "./tool-context.js";

/** What is to be done about a call. */
export type Decision =
  /** It is not made at all: this is its answer. */
  | { readonly do: "refuse"; readonly says: string }
  /** It has an intent. */
  | { readonly do: "go-on"; readonly id: string }
  /** It has an intent, and its turn is over: what became of it is asked, and nothing made. */
  | { readonly do: "ask"; readonly id: string }
  /** It is the same as another: of this reply, or made before under the same name. */
  | { readonly do: "share"; readonly with: number | string }
  | { readonly do: "intend"; readonly call: Call; readonly waits: WaitsFor | undefined; readonly replays: Effect | undefined };

/** What a tool that has answered has set of the session's state. */
export type Sets = ReadonlyMap<string, Json>;

export class Decider {
  readonly #running: Running;
  readonly #repeats: Repeats;
  readonly #sets: Map<string, Sets>;

  /** `sets` is filled by calls that were made, under their effect's id. */
  constructor(running: Running, sets: Map<string, Sets>) {
    this.#running = running;
    this.#repeats = new Repeats(running.held);
    this.#sets = sets;
  }

  get #course() {
    return this.#running.held.work.fold.course;
  }

  /** Decides about all calls of a reply, before anything is staged. `reply` is undefined for one that has just come. */
  async decide(calls: readonly ToolCallPart[], reply: Message | undefined): Promise<readonly Decision[]> {
    const known = reply === undefined ? new Map<number, Effect>() : this.#course.ofReply(reply.seq);
    const withheld = reply && (reply.seq === this.#course.ownReply ? whyWithheld(reply) : NOT_NOW);
    const names = new Map<string, { readonly index: number; readonly same: string }>();
    const decisions: Decision[] = [];
    for (const [index, part] of calls.entries()) {
      const effect = known.get(index);
      if (effect !== undefined) {
        decisions.push({ do: "go-on", id: effect.id });
        // Its twins in this reply are answered like it, whatever became of it.
        if (effect.named !== undefined) names.set(nameOf(effect.name, effect.named), { index, same: effect.same });
      } else if (withheld !== undefined) decisions.push(refuse(withheld));
      else decisions.push(await this.#decideOne(part, index, names));
    }
    return decisions;
  }

  async #decideOne(
    part: ToolCallPart,
    index: number,
    names: Map<string, { readonly index: number; readonly same: string }>,
  ): Promise<Decision> {
    const tool = this.#running.definition.tools.get(part.name);
    if (tool === undefined)
      return refuse(`There is no tool ${quote(part.name)}. Known are: ${[...this.#running.definition.tools.keys()].join(", ") || "none"}.`);
    const bad = argumentsFlaw(part);
    if (bad !== undefined) return refuse(`The arguments of ${quote(part.name)} ${bad}`);
    const parsed = await tool.schema.parse(part.input);
    if ("flaw" in parsed) return refuse(`The arguments of ${quote(part.name)} do not fit: ${parsed.flaw}`);
    const same = sameOf(part.input);
    let named: string | undefined;
    try {
      named = tool.key === undefined ? undefined : checkName(await tool.key(parsed.value), `${part.name}.key`);
    } catch (error) {
      return refuse(`The call of ${quote(part.name)} has no key: ${words(error)}`);
    }
    if (named !== undefined) {
      const first = names.get(nameOf(tool.name, named));
      if (first !== undefined) return differs(first.same, same) ? anotherAct(part.name, named) : { do: "share", with: first.index };
      const before = this.#course.named(tool.name, named);
      if (before !== undefined && !isFailed(before)) {
        return differs(before.same, same) ? anotherAct(part.name, named) : { do: "share", with: before.id };
      }
      names.set(nameOf(tool.name, named), { index, same });
    }
    const call = this.callOf(tool, part, part.input, same, named, parsed);
    const repeat =
      tool.options.mode === "repeatable"
        ? undefined
        : await this.#repeats.find({ name: tool.name, same, ...(named !== undefined && { named }) });
    if (repeat?.replays) return { do: "intend", call, waits: undefined, replays: repeat.replays };
    const waits: WaitsFor | undefined =
      repeat?.waits ?? ((await this.#needsApproval(tool, parsed.value)) ? { for: "approval" } : undefined);
    return { do: "intend", call, waits, replays: undefined };
  }

  /** Where it cannot be told whether somebody must be asked, somebody is asked. */
  async #needsApproval({ approval }: ToolDefinition, args: unknown): Promise<boolean> {
    if (typeof approval === "boolean") return approval;
    try {
      const { context, session } = this.#running;
      return (await approval(args, { context, session })) !== false;
    } catch {
      return true;
    }
  }

  /** A call of a tool, with arguments that may have been parsed already. */
  callOf(tool: ToolDefinition, part: ToolCallPart, input: Json, same: string, named: string | undefined, known?: Parsed): Call {
    const { check, run, schema } = tool;
    return {
      name: tool.name,
      args: input,
      same,
      keepsArgs: false,
      named,
      place: undefined,
      options: tool.options,
      run: async ({ effect, args, attempt, handle }) => {
        // Parsed when it was decided on; again where they were changed, or the decision was another process's.
        const parsed = args === input && known !== undefined ? known : await schema.parse(args);
        if ("flaw" in parsed) throw new NotDone(`The arguments do not fit: ${parsed.flaw}`);
        const context = new CallContext(this.#running, effect, handle, part.callId, attempt);
        const { ground, held, definition } = this.#running;
        const about = { sessionId: held.id, agent: definition.name, tool: tool.name, callId: part.callId, effectId: effect.id };
        const value = await observed(
          ground.telemetry,
          () => ({ type: "tool", ...about, mode: effect.mode, attempt, args }),
          async (tell) => {
            const result = await answerOf(run(parsed.value, context.asTool()));
            tell({ result });
            return result;
          },
        );
        if (context.sets.size > 0) this.#sets.set(effect.id, context.sets);
        return value;
      },
      check: check && (async (request) => check({ ...request, context: this.#running.context })),
    };
  }
}

const nameOf = (tool: string, named: string): string => `${tool}\n${named}`;

const refuse = (says: string): Decision => ({ do: "refuse", says });

const anotherAct = (tool: string, named: string): Decision =>
  refuse(
    `${quote(tool)} was called for ${quote(named)} with other arguments before; this is another act under the same name. It was not made.`,
  );

/**
 * What the model is told of a call that it did not just ask for. A program that can append to a session must not be able to act as its agent,
 * and one that takes an answer out of the transcript must not have the call made again.
 */
export const NOT_NOW =
  "This call was not made now: the message did not come from this agent's model, or its answer was removed from the transcript. In the second case it was made before. Ask for it again only if it is to be made.";

/** Why the calls of a reply must not be made: what was cut off may not be what was meant, and what was withheld is not to be acted on. */
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
