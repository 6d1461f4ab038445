/** Inbox messages with their texts edited: on their way to a session, or while they wait there. */
import type { MessageInput } from "../../core/messages/message.js";
import {
  editDecision,
  editJson,
  editMessage,
  type TextEdit,
} from "../../core/redaction/redact-text.js";
import type { Json } from "../../core/values/json.js";
import type { InboxDoc, Settlement } from "./rows.js";

/**
 * `leavesArgs`: whether the input of the call stays that an inbox message approves. The inbox
 * message itself where nothing was edited.
 */
export function editInboxDoc(doc: InboxDoc, edit: TextEdit, leavesInput: boolean): InboxDoc {
  switch (doc.kind) {
    case "cancel":
      return doc.reason === undefined
        ? doc
        : changed(doc, { reason: edit.text(doc.reason, { in: "reason" }) });
    case "deny":
      return changed(editDecision(doc, edit), { reason: edit.text(doc.reason, { in: "reason" }) });
    case "approve":
      return changed(editDecision(doc, edit), {
        ...(doc.input !== undefined &&
          !leavesInput && { input: editJson(doc.input, edit, { in: "tool-input", name: "" }) }),
      });
    case "settle":
      return changed(editDecision(doc, edit), { as: editSettlement(doc.as, edit) });
    case "late":
      return changed(doc, { as: editSettlement(doc.as, edit) });
    case "signal":
      return changed(doc, { value: editJson(doc.value, edit, { in: "signal", name: doc.name }) });
    case "turn":
      return changed(doc, {
        input: editMessage(doc.input as unknown as MessageInput, edit) as unknown as Json,
      });
    // Messages that are appended from outside have passed a hook before they were put into inbox
    // messages; redaction has a way of its own for them.
    case "append":
    case "append-text":
    case "append-key":
    case "wake":
      return doc;
  }
}

function editSettlement(as: Settlement, edit: TextEdit): Settlement {
  const where = { in: "tool-output" } as const;
  if ("output" in as) return changed(as, { output: editJson(as.output, edit, where) });
  return "error" in as ? changed(as, { error: edit.text(as.error, where) }) : as;
}

function changed<T extends object>(object: T, changes: Readonly<Record<string, unknown>>): T {
  const differs = Object.entries(changes).some(
    ([key, value]) => value !== (object as Readonly<Record<string, unknown>>)[key],
  );
  return differs ? { ...object, ...changes } : object;
}
