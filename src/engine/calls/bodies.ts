/** Inputs and outputs of calls, wherever they are kept. */
import { type Body, branchOfEffect, type Effect } from "../../core/effects/effect.js";
import { jsonIn } from "../../core/journal/blob-body.js";
import { viewOfRecord } from "../../core/journal/message-view.js";
import { open } from "../../core/journal/open-save.js";
import { firstSeq } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import { type Message, partsOf, type ToolCallPart } from "../../core/messages/message.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { BranchId } from "../../core/values/ids.js";
import { deepFreeze, type Json } from "../../core/values/json.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import { hole } from "../journal/walk.js";

export async function valueOf({ journal }: StoreContext, body: Body | undefined): Promise<Json> {
  if (body === undefined) return null;
  if ("value" in body) return body.value;
  return deepFreeze(jsonIn(Buffer.from(await journal.blob(body.blob)).toString("utf8"), body.blob));
}

/**
 * The input of a call: its own, or the one in the reply that asked for it; null where that was
 * pruned.
 */
export async function inputOf(
  ctx: StoreContext,
  { input }: Pick<Effect, "input">,
  asked: ToolCallPart | undefined,
): Promise<Json> {
  return input === undefined && asked !== undefined ? asked.input : valueOf(ctx, input);
}

/**
 * A call as the reply that asks for it says it. Undefined of a call by hand, and where the reply
 * was pruned.
 */
export async function askedIn(
  ctx: StoreContext,
  past: Past,
  { call }: Pick<Effect, "call">,
): Promise<ToolCallPart | undefined> {
  if (call === undefined) return undefined;
  const [seq, index] = call;
  const branch = await past.branchAt(seq);
  const reply = branch && (await messageAt(ctx, branch, seq));
  return reply && callsIn(reply)[index];
}

/**
 * What a call that is done answered, from its record or from the tool message that says it;
 * undefined where that was pruned.
 */
export async function answerOf(
  ctx: StoreContext,
  { id, output, said }: Pick<Effect, "id" | "output" | "said">,
): Promise<Json | undefined> {
  if (output !== undefined || said === undefined) return valueOf(ctx, output);
  const message = await messageAt(ctx, branchOfEffect(id) as BranchId, said);
  return (
    message &&
    ((partsOf(message).find((part) => part.type === "tool-result")?.output ?? null) as Json)
  );
}

/** The same of a call on the session's own past, where it must be there. */
export async function outputOf(ctx: StoreContext, effect: Effect): Promise<Json> {
  const answer = await answerOf(ctx, effect);
  if (answer === undefined)
    throw new HoldfastError(
      "CORRUPT",
      `The message that says what the call ${effect.id} answered is missing.`,
      { effectId: effect.id },
    );
  return answer;
}

async function messageAt(
  ctx: StoreContext,
  branch: BranchId,
  seq: number,
): Promise<Message | undefined> {
  const save = await ctx.journal.saves.holding(branch, seq, { items: true });
  if (save === undefined || firstSeq(save) > seq) {
    // The end of a branch that no session owns may have been freed. Of any other branch it must be
    // there.
    if ((await ctx.journal.branch(branch))?.session != null) throw hole(branch, seq);
    return undefined;
  }
  if (isGap(save) || save.items === null) return undefined;
  const record = open(save, { items: true }).items[seq - firstSeq(save)];
  if (record === undefined) return undefined;
  const body =
    record.blob === undefined
      ? undefined
      : Buffer.from(await ctx.journal.blob(record.blob)).toString("utf8");
  return viewOfRecord(record, body, seq, save);
}

/** The calls that a message asks for, without those that its provider makes itself. */
export function callsIn(message: Parameters<typeof partsOf>[0]) {
  return partsOf(message).flatMap((part) =>
    part.type === "tool-call" && part.by !== "provider" ? [part] : [],
  );
}
