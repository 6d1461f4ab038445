/**
 * What followers of a session are told of its calls. A record of a call says what is new of it; its
 * name, its id in the reply, and what messages say of it are looked up here.
 */
import type { Effect, EffectEvent } from "../../core/effects/effect.js";
import { branchOfEffect } from "../../core/effects/effect.js";
import { open } from "../../core/journal/open-save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { ToolEvent, ToolState } from "../../core/messages/agent-event.js";
import { type Message, partsOf, type ToolCallPart } from "../../core/messages/message.js";
import { type BranchId, parsePlace } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { answerOf, askedIn, callsIn } from "../../engine/calls/bodies.js";
import type { Past } from "../../engine/journal/past.js";
import type { StoreContext } from "../../engine/journal/store-context.js";

/** `name` and `callId` are absent only where the beginning of the call was pruned. */
export interface SessionToolEvent extends ToolEvent {
  readonly effectId: string;
  /** With the first event of a call: which call of which reply it is, for ids are used again. */
  readonly call?: { readonly seq: number; readonly index: number };
  readonly by?: string;
  /** Of somebody who approved it. */
  readonly note?: string;
}

type Facts = Pick<ToolEvent, "name" | "callId">;
type Intent = Extract<EffectEvent, { readonly is: "intent" }>;

/** Of how many calls a follower remembers the names: of others the journal is asked. */
const MAX_KNOWN = 1_000;

export class CallTeller {
  readonly #ctx: StoreContext;
  readonly #known = new Map<string, Facts>();
  /** The messages of the save that is being told. */
  readonly #messages = new Map<number, Message>();

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  saveBegins(): void {
    this.#messages.clear();
  }

  saw(message: Message): void {
    this.#messages.set(message.seq, message);
  }

  /** `body`: what the record carries. */
  async tell(past: Past, event: EffectEvent, body: Json | undefined): Promise<SessionToolEvent> {
    if (event.is === "intent") return this.#begins(past, event, body);
    const about = {
      type: "tool",
      effectId: event.id,
      ...(await this.#facts(past, event.id)),
    } as const;
    const by = "by" in event && event.by !== undefined && { by: event.by };
    switch (event.is) {
      case "begun":
        return { ...about, state: "started" };
      case "waits":
        return { ...about, state: "waiting" };
      case "doubt":
        return { ...about, state: "in-doubt" };
      case "done": {
        const output = body ?? (await this.#said(event));
        return {
          ...about,
          state: endOf(event),
          ...by,
          outcome: event.outcome,
          ...(output !== undefined && { output }),
        };
      }
      case "approved":
        return {
          ...about,
          state: "ready",
          ...by,
          ...(event.note !== undefined && { note: event.note }),
          ...(body !== undefined && { input: body }),
        };
      default:
        return { ...about, state: "ready", ...by };
    }
  }

  async #begins(past: Past, event: Intent, body: Json | undefined): Promise<SessionToolEvent> {
    const { id, call, waits } = event;
    const asked = await this.#asked(past, event);
    const input = body ?? asked?.input;
    return {
      type: "tool",
      effectId: id,
      ...this.#remember(event, asked),
      state: waits === undefined ? "started" : "waiting",
      ...(call !== undefined && { call: { seq: call[0], index: call[1] } }),
      ...(input !== undefined && { input }),
    };
  }

  /** The call in its reply, which most often stands in the same save. */
  async #asked(past: Past, event: Pick<Effect, "call">): Promise<ToolCallPart | undefined> {
    const reply = event.call && this.#messages.get(event.call[0]);
    return reply !== undefined
      ? callsIn(reply)[event.call?.[1] ?? 0]
      : askedIn(this.#ctx, past, event);
  }

  #remember({ id, name }: Intent, asked: ToolCallPart | undefined): Facts {
    const facts = { ...(asked !== undefined && { callId: asked.callId }), name };
    const [oldest] = this.#known.size >= MAX_KNOWN ? this.#known.keys() : [];
    if (oldest !== undefined) this.#known.delete(oldest);
    this.#known.set(id, facts);
    return facts;
  }

  async #facts(past: Past, id: string): Promise<Facts> {
    const known = this.#known.get(id);
    if (known !== undefined) return known;
    const intent = await this.#intentOf(id);
    return intent === undefined ? {} : this.#remember(intent, await this.#asked(past, intent));
  }

  /** The id of a call tells where its intent stands: in the save that comes next there. */
  async #intentOf(id: string): Promise<Intent | undefined> {
    const place = parsePlace(id.slice(0, id.lastIndexOf(".")));
    const { saves } = this.#ctx.journal;
    const save =
      place && (await saves.firstFrom(branchOfEffect(id) as BranchId, place.seq, { state: true }));
    if (save === undefined || isGap(save) || save.state === null) return undefined;
    for (const { effect } of open(save, { state: true }).state)
      if (effect?.is === "intent" && effect.id === id) return effect;
    return undefined;
  }

  /** What the tool message says, where the record does not. */
  async #said(event: Extract<EffectEvent, { readonly is: "done" }>): Promise<Json | undefined> {
    const { id, said } = event;
    const message = said === undefined ? undefined : this.#messages.get(said);
    if (message === undefined)
      return said === undefined ? undefined : answerOf(this.#ctx, { id, said });
    return partsOf(message).find((part) => part.type === "tool-result")?.output as Json | undefined;
  }
}

function endOf({ outcome, from }: Extract<EffectEvent, { readonly is: "done" }>): ToolState {
  if (outcome !== "ok") return outcome;
  return from === undefined ? "done" : "replayed";
}
