/** What a caller may say of a session that is opened or made, checked. */
import { checkMetadata, checkText } from "../../core/journal/checkpoint.js";
import { MAX_LEASE_MS } from "../../core/sessions/lease.js";
import { HoldfastError } from "../../core/values/errors.js";
import { checkName, type SessionId, sessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import type { StoreContext } from "../journal/store-context.js";
import type { LabelDoc } from "../records/rows.js";
import { listOf, options, wholeNumber } from "../util/validate.js";

/** How a session is opened, and what it is given if it is new. */
export interface SessionOptions {
  /** The agent it belongs to. Opening it under another one is a CONFLICT. */
  readonly agent?: string;
  /**
   * Title, tags and metadata are given to a session that is made by this call; later ones are
   * changed with `sessions.update`.
   */
  readonly title?: string;
  readonly tags?: readonly string[];
  readonly metadata?: JsonObject;
  /** How long to wait for another holder to let go. */
  readonly waitMs?: number;
  readonly leaseMs?: number;
}

export const MAX_TITLE_CHARS = 1_000;

const MAX_TAGS = 100;

export function checkTags(tags: unknown, path: string): readonly string[] {
  const given = listOf(tags, path, "a list of names", MAX_TAGS + 1);
  if (given.length > MAX_TAGS)
    throw new HoldfastError("TOO_LARGE", `${path}: more than ${MAX_TAGS} tags.`, {
      path,
      limit: MAX_TAGS,
    });
  return [...new Set(given.map((tag, i) => checkName(tag, `${path}[${i}]`)))];
}

/** Title, tags and metadata that are given, checked, and as they are to be stored. */
export function checkLabel(
  { redactor }: StoreContext,
  given: Pick<SessionOptions, "title" | "tags" | "metadata">,
): Partial<LabelDoc> {
  const title =
    given.title === undefined ? undefined : checkText(given.title, "title", MAX_TITLE_CHARS);
  const tags = given.tags === undefined ? undefined : checkTags(given.tags, "tags");
  const metadata =
    given.metadata === undefined ? undefined : checkMetadata(given.metadata, "metadata");
  const text = (plain: string, field: string): string =>
    redactor?.text(plain, { in: "session", field }) ?? plain;
  return {
    ...(title !== undefined && {
      title: checkText(text(title, "title"), "title", MAX_TITLE_CHARS),
    }),
    ...(tags !== undefined && {
      tags: checkTags(
        tags.map((tag) => text(tag, "tags")),
        "tags",
      ),
    }),
    ...(metadata !== undefined && {
      metadata: redactor?.metadata(metadata, "session") ?? metadata,
    }),
  };
}

export interface Wanted {
  readonly id: SessionId;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly metadata: JsonObject;
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly parent: SessionId | undefined;
}

export function wanted(
  ctx: StoreContext,
  id: unknown,
  given: SessionOptions | undefined,
): Omit<Wanted, "parent"> {
  const o = options(given, "session", ["agent", "title", "tags", "metadata", "waitMs", "leaseMs"]);
  const { title, tags = [], metadata = {} } = checkLabel(ctx, o);
  return {
    id: sessionId(id),
    agent: o.agent === undefined ? undefined : checkName(o.agent, "agent"),
    title,
    tags,
    metadata,
    waitMs: checkWaitMs(o.waitMs) ?? 0,
    leaseMs: checkLeaseMs(o.leaseMs) ?? ctx.leaseMs,
  };
}

export const checkLeaseMs = (leaseMs: unknown): number | undefined =>
  leaseMs === undefined ? undefined : wholeNumber(leaseMs, "leaseMs", 100, MAX_LEASE_MS);

export const checkWaitMs = (waitMs: unknown): number | undefined =>
  waitMs === undefined ? undefined : wholeNumber(waitMs, "waitMs", 0, MAX_LEASE_MS);
