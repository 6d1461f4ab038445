/** What lists and callers are shown of a session. */
import type { SessionStatus } from "../../core/sessions/status.js";
import { type SessionId, sessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { isoTime } from "../../core/values/time.js";
import type { TailAnchors } from "../../store/port/copies.js";
import type { SessionRow } from "../../store/port/rows.js";
import type { Standpoint } from "../journal/journal.js";
import type { StoreContext } from "../journal/store-context.js";
import { type HeadDoc, headOf, type LabelDoc, labelOf } from "../records/rows.js";

/** A session, as lists show it. */
export interface SessionSummary {
  readonly id: SessionId;
  readonly agent?: string;
  readonly status: SessionStatus;
  readonly reason?: string;
  readonly title?: string;
  /** Whether the title was given. Otherwise the title is the session's first words. */
  readonly titled: boolean;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: JsonObject;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly forkPoint?: { readonly sessionId: string; readonly checkpointId: string };
  /** The session whose call runs this one. */
  readonly parent?: string;
}

/**
 * When something was last saved; on a branch that was just begun, when that was from which it
 * begins.
 */
async function savedAt(
  { journal }: StoreContext,
  { branch, createdAt }: HeadDoc,
  tail: Standpoint["tail"],
): Promise<number> {
  if (tail !== undefined) return tail.save.at;
  const forkPoint = (await journal.branch(branch))?.doc.forkPoint;
  const save = forkPoint ? await journal.saveAt(forkPoint) : undefined;
  return Math.max(createdAt, save?.save.at ?? createdAt);
}

/** The session, as it stands. */
export async function getSession(
  ctx: StoreContext,
  id: string,
): Promise<SessionSummary | undefined> {
  const present = await ctx.journal.present(sessionId(id));
  return present && summaryAt(ctx, present);
}

export async function summaryAt(
  ctx: StoreContext,
  { row, head, tail }: Standpoint,
): Promise<SessionSummary> {
  return summaryOf(head, labelOf(row), await savedAt(ctx, head, tail));
}

/** `ends`: where branches end, if that was looked up for several rows at once. */
export async function summaryOfRow(
  ctx: StoreContext,
  row: SessionRow,
  ends?: TailAnchors,
): Promise<SessionSummary> {
  const head = headOf(row);
  return summaryOf(
    head,
    labelOf(row),
    await savedAt(ctx, head, await ctx.journal.tail(head.branch, ends)),
  );
}

export function summaryOf(
  head: HeadDoc,
  label: LabelDoc,
  updatedAt = head.createdAt,
): SessionSummary {
  const { id, status, reason, agent, title: firstWords, createdAt, forkPoint, parent } = head;
  const { title = firstWords, tags, archived, metadata } = label;
  return Object.freeze({
    id,
    ...(agent === undefined ? undefined : { agent }),
    status,
    ...(reason === undefined ? undefined : { reason }),
    ...(title === undefined ? undefined : { title }),
    titled: label.title !== undefined,
    tags,
    archived,
    metadata,
    createdAt: isoTime(createdAt),
    updatedAt: isoTime(updatedAt),
    ...(forkPoint === undefined ? undefined : { forkPoint }),
    ...(parent === undefined ? undefined : { parent }),
  });
}
