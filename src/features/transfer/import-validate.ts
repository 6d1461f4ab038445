/**
 * Texts of rows that came from outside: sealed by somebody, vouched for by nobody. They are
 * believed in nothing.
 */
import { isEffectId } from "../../core/effects/effect.js";
import { checkMetadata, checkText, MAX_REASON } from "../../core/journal/checkpoint.js";
import {
  type InboxText,
  MAX_INBOX_CHARS,
  MAX_INBOX_MESSAGES,
} from "../../core/transfer/export-format.js";
import { isDigest } from "../../core/values/digest.js";
import { checkName, type SessionId, sessionId } from "../../core/values/ids.js";
import { equal, holdsHalf, isDeeper, MAX_DEPTH } from "../../core/values/json.js";
import { isTime } from "../../core/values/shapes.js";
import { decisionId, lateId } from "../../engine/calls/decisions.js";
import { checkTags, MAX_TITLE_CHARS } from "../../engine/lifecycle/session-options.js";
import {
  type BranchDoc,
  branchOf,
  damaged,
  type HeadDoc,
  headRow,
  type InboxDoc,
  inboxDocOf,
  inboxText,
  isHead,
  isLabel,
  type LabelDoc,
  labelRow,
  newBranch,
  rootDigest,
  unsealed,
} from "../../engine/records/rows.js";
import type { Head, Label, NewBranch } from "../../store/port/rows.js";

/**
 * The head in a text, as one of a generation. What is brought in is not due, whatever it was
 * where it came from: two stores would go on with it.
 */
export function headFrom(
  id: SessionId,
  text: string,
  generation: string,
): { readonly doc: HeadDoc; readonly row: Head } {
  const doc = unsealed<HeadDoc>(text, "head", id);
  const { status, agent, reason, title, due, forkPoint, parent } = doc;
  const isFit =
    doc.id === id &&
    isHead(doc) &&
    (agent === undefined || checkName(agent, "agent") === agent) &&
    (reason === undefined || checkText(reason, "reason", MAX_REASON) === reason) &&
    (title === undefined || checkText(title, "title", MAX_TITLE_CHARS) === title) &&
    (due === undefined || isTime(due)) &&
    (forkPoint === undefined || sessionId(forkPoint.sessionId) === forkPoint.sessionId) &&
    (parent === undefined || sessionId(parent) === parent);
  if (!isFit || headRow(doc).text !== text) throw damaged("head", id);
  const { due: _due, generation: _there, ...idle } = doc;
  // What is over needs nobody's word to be what it is.
  const isOver = status === "completed" || status === "cancelled";
  return {
    doc: idle,
    row: headRow(isOver || generation === "" ? idle : { ...idle, generation }),
  };
}

/** The label in a text. */
export function labelFrom(id: SessionId, text: string): Label {
  const doc = unsealed<LabelDoc>(text, "label", id);
  const { version, title, tags, metadata } = doc;
  const isFit =
    doc.id === id &&
    isLabel(doc) &&
    version >= 1 &&
    (title === undefined || checkText(title, "title", MAX_TITLE_CHARS) === title) &&
    checkTags(tags, "tags").length === tags.length &&
    equal(checkMetadata(metadata, "metadata"), metadata);
  const row = labelRow(doc);
  if (!isFit || row.text !== text) throw damaged("label", id);
  return row;
}

/**
 * The inbox messages that came with a session, as `export` writes them: each tells the outcome of
 * another call, under the id of such an inbox message, and says nothing else. A person's name stays
 * where it was said.
 */
export function inboxFrom(
  id: SessionId,
  inboxMessages: readonly InboxText[],
): readonly { readonly id: string; readonly doc: InboxDoc }[] {
  if (inboxMessages.length > MAX_INBOX_MESSAGES) throw damaged("inbox", id);
  const calls = new Set<string>();
  return inboxMessages.map((inboxMessage) => {
    const doc =
      inboxMessage.text.length <= MAX_INBOX_CHARS ? inboxDocOf(inboxMessage.text, id) : undefined;
    if ((doc?.kind !== "late" && doc?.kind !== "settle") || inboxText(doc) !== inboxMessage.text)
      throw damaged("inbox", id);
    const named =
      doc.kind === "late"
        ? lateId(doc.effectId, doc.attempt)
        : decisionId(doc.effectId, doc.asked, 0);
    const isFit =
      inboxMessage.id === named &&
      isEffectId(doc.effectId) &&
      !calls.has(doc.effectId) &&
      !("by" in doc) &&
      !("retry" in doc.as) &&
      !("output" in doc.as && isDeeper(doc.as.output, MAX_DEPTH)) &&
      !holdsHalf(inboxMessage.text);
    if (!isFit) throw damaged("inbox", id);
    calls.add(doc.effectId);
    return { id: inboxMessage.id, doc };
  });
}

/** The branch in a text. */
export function branchFrom(branch: NewBranch): BranchDoc {
  const doc = branchOf({ ...branch, no: 0, owned: false, session: null });
  const isRoot = doc.forkPoint === null && doc.prev === rootDigest(doc.id);
  if (
    (doc.forkPoint === null ? !isRoot : !isDigest(doc.prev)) ||
    newBranch(doc).text !== branch.text
  )
    throw damaged("branch", "(imported)");
  return doc;
}
