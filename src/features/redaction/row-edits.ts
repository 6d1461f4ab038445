/**
 * What stands beside a session's journal, and in snapshots of it, with its texts edited. The same,
 * or undefined, where nothing is changed.
 */
import { MAX_REASON } from "../../core/journal/checkpoint.js";
import { cutTo } from "../../core/redaction/redact-record.js";
import { editJson } from "../../core/redaction/redact-text.js";
import { type BranchId, checkName, type SessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { checkTags, MAX_TITLE_CHARS } from "../../engine/lifecycle/session-options.js";
import type { HeadDoc, LabelDoc } from "../../engine/records/rows.js";
import type { Entry } from "../../engine/records/snapshot-record.js";
import type { Matcher } from "./matcher.js";
import type { Seen } from "./rewrite-saves.js";

export function editHead(head: HeadDoc, { text }: Matcher, { titles }: Seen): HeadDoc {
  const { title, reason } = head;
  // It is the beginning of a message, and may hold the beginning of what is to go.
  const newTitle =
    title === undefined
      ? undefined
      : (titles.get(title) ?? text(title, { in: "session", field: "title" }));
  const newReason = reason === undefined ? undefined : text(reason, { in: "reason" });
  if (newTitle === title && newReason === reason) return head;
  return {
    ...head,
    ...(newTitle !== undefined && { title: cutTo(newTitle, MAX_TITLE_CHARS) }),
    ...(newReason !== undefined && { reason: cutTo(newReason, MAX_REASON) }),
  };
}

/** What a snapshot says of a session. */
export function editEntry(entry: Entry, what: Matcher, seen: Seen): Entry {
  const id = entry.id as SessionId;
  const head = { ...entry.head, id, branch: "" as BranchId, status: "in-progress" } as const;
  const { title } = editHead(head, what, seen);
  const label = editLabel({ ...entry.label, id, version: 0 }, what);
  if (title === entry.head.title && label === undefined) return entry;
  const { id: _id, version: _version, ...words } = label ?? { ...entry.label, id, version: 0 };
  return { ...entry, head: { ...entry.head, ...(title !== undefined && { title }) }, label: words };
}

export function editLabel(label: LabelDoc, { text }: Matcher): LabelDoc | undefined {
  const { title, tags, metadata, version } = label;
  const newTitle = title === undefined ? undefined : text(title, { in: "session", field: "title" });
  const newTags = tags.map((tag) => text(tag, { in: "session", field: "tags" }));
  const newMetadata = editJson(metadata, { text, numbers: true }, { in: "session" }) as JsonObject;
  if (newTitle === title && newMetadata === metadata && newTags.every((tag, i) => tag === tags[i]))
    return undefined;
  const named = newTags.filter((tag) => tag !== "");
  return {
    ...label,
    version: version + 1,
    ...(newTitle !== undefined && { title: cutTo(newTitle, MAX_TITLE_CHARS) }),
    tags: checkTags(named.map(tagWithin), "tags"),
    metadata: newMetadata,
  };
}

const REDACTED_TAG = "[redacted]";

/** A tag is a name. What was put in the place of a text may be none, or make the tag too long. */
function tagWithin(tag: string): string {
  try {
    return checkName(tag, "tag");
  } catch {
    return REDACTED_TAG;
  }
}
