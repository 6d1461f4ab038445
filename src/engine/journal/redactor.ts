/**
 * The redaction hook: run over every text before it is staged or posted, so that a live run and a
 * resumed one see the same, and nothing is written that it did not see. What is staged may have
 * been run through it before (an inbox message that is taken in, a result that was handed out): it
 * must leave its own words as they are.
 */
import type { InFlightRecord } from "../../core/effects/in-flight.js";
import type { CheckpointOptions } from "../../core/journal/checkpoint.js";
import {
  checkMetadata,
  checkText,
  MAX_DESCRIPTION,
  MAX_LABEL,
} from "../../core/journal/checkpoint.js";
import { type EncodedMessage, encodeMessage } from "../../core/messages/message.js";
import {
  editDecision,
  editJson,
  editMessage,
  type Redact,
  type RedactionPlace,
  type TextEdit,
} from "../../core/redaction/redact-text.js";
import { HoldfastError } from "../../core/values/errors.js";
import { typeName } from "../../core/values/ids.js";
import { type Encoded, encode, type Json, type JsonObject } from "../../core/values/json.js";
import { editInboxDoc } from "../records/edit-inbox.js";
import type { InboxDoc } from "../records/rows.js";

export class Redactor {
  readonly #edit: TextEdit;
  /** What has been run through it. */
  readonly #done = new WeakSet<object>();

  constructor(hook: Redact) {
    this.#edit = { text: (text, where) => callRedact(hook, text, where) };
  }

  text(text: string, where: RedactionPlace): string {
    return this.#edit.text(text, where);
  }

  json(value: Json, where: RedactionPlace): Json {
    return editJson(value, this.#edit, where);
  }

  /** An encoded value, encoded anew where the hook changed it. */
  encoded(given: Encoded, where: RedactionPlace, path: string): Encoded {
    if (this.#done.has(given)) return given;
    const value = this.json(given.value, where);
    return this.#remember(value === given.value ? given : encode(value, path));
  }

  message(given: EncodedMessage, path: string): EncodedMessage {
    if (this.#done.has(given)) return given;
    const value = editMessage(given.value, this.#edit);
    if (value === given.value) return this.#remember(given);
    // Files were taken out of it before, and come along.
    return this.#remember({ ...encodeMessage(value, path), blobs: given.blobs });
  }

  #remember<T extends object>(encoded: T): T {
    this.#done.add(encoded);
    return encoded;
  }

  /** Label, description and metadata of a checkpoint. */
  mark(given: CheckpointOptions): CheckpointOptions {
    const { label, description, metadata } = given;
    if (label === undefined && description === undefined && metadata === undefined) return given;
    const where = (field: string) => ({ in: "checkpoint", field }) as const;
    return {
      ...given,
      ...(label !== undefined && {
        label: checkText(this.text(label, where("label")), "checkpoint.label", MAX_LABEL),
      }),
      ...(description !== undefined && {
        description: checkText(
          this.text(description, where("description")),
          "checkpoint.description",
          MAX_DESCRIPTION,
        ),
      }),
      ...(metadata !== undefined && { metadata: this.metadata(metadata, "checkpoint") }),
    };
  }

  metadata(metadata: JsonObject, of: "checkpoint" | "session"): JsonObject {
    const edited = this.json(metadata, { in: of });
    return edited === metadata ? metadata : checkMetadata(edited, "metadata");
  }

  /**
   * What a record of the in-flight work carries, and the words in it. `toolOf` names the tool of a
   * call.
   */
  inFlight(
    record: InFlightRecord,
    body: Encoded | undefined,
    toolOf: (effect: string) => string | undefined,
  ): { readonly record: InFlightRecord; readonly body: Encoded | undefined } {
    const { effect } = record;
    const where = placeOf(record, toolOf);
    const edited = body && where && this.encoded(body, where, where.in);
    if (effect === undefined || !("by" in effect || "note" in effect))
      return { record, body: edited ?? body };
    return {
      record: { ...record, effect: editDecision(effect, this.#edit) },
      body: edited ?? body,
    };
  }

  /** An inbox message, but for the input of a call: whoever posts that knows the tool it is for. */
  inboxMessages(doc: InboxDoc): InboxDoc {
    return editInboxDoc(doc, this.#edit, true);
  }
}

function placeOf(
  { effect, signal }: InFlightRecord,
  toolOf: (effect: string) => string | undefined,
): RedactionPlace | undefined {
  if (signal !== undefined) return { in: "signal", name: signal };
  switch (effect?.is) {
    case "intent":
      return { in: "tool-input", name: effect.name };
    case "approved":
      return { in: "tool-input", name: toolOf(effect.id) ?? "" };
    case "signalled":
      return { in: "signal", name: effect.name };
    case "done": {
      const name = toolOf(effect.id);
      return { in: "tool-output", ...(name !== undefined && { name }) };
    }
    default:
      return undefined;
  }
}

/** What a function gives in the place of a text, checked. */
export function callRedact(hook: Redact, text: string, where: RedactionPlace): string {
  let edited: unknown;
  try {
    edited = hook(text, where);
  } catch (cause) {
    throw failed("threw an error", cause);
  }
  if (typeof edited !== "string") throw failed(`gave ${typeName(edited)}, and no text`);
  if (!edited.isWellFormed()) throw failed("gave a text with half a character (a lone surrogate)");
  return edited;
}

const failed = (what: string, cause?: unknown): HoldfastError =>
  new HoldfastError(
    "INVALID_OPTION",
    `redact: the function ${what}. What it was given was not stored.`,
    { path: "redact" },
    cause,
  );
