/**
 * Records with their texts edited: everything a journal holds that somebody said. Numbers, places
 * and names stay, and there are as many records as before, so that whatever refers to one still
 * finds it.
 *
 * REDACT-1  a digest of an input that was edited becomes `UNKNOWN`: nothing may be taken for the
 *           same, or for another, by what is left. Which digests those are is known once all that
 *           holds such texts was seen (`forgotten`), so a journal is gone over twice.
 * REDACT-2  the input of a call that is not over stays, wherever it stands: whoever makes the call
 *           must find it as it was.
 */

import {
  type Body,
  type Effect,
  type EffectEvent,
  messageDigest,
  UNKNOWN,
  valueDigest,
} from "../effects/effect.js";
import type { InFlightBase, Turn } from "../effects/in-flight.js";
import { jsonIn, messageIn } from "../journal/blob-body.js";
import { MAX_DESCRIPTION, MAX_LABEL, MAX_REASON, type Mark } from "../journal/checkpoint.js";
import type { Base, JournalRecord } from "../journal/record.js";
import { type MessageInput, partsOf } from "../messages/message.js";
import type { Digest } from "../values/digest.js";
import type { Json, JsonObject } from "../values/json.js";
import {
  editDecision,
  editJson,
  editMessage,
  type RedactionPlace,
  type TextEdit,
} from "./redact-text.js";

/** A body on its way: its name, and its size. */
export interface Stored {
  readonly digest: Digest;
  readonly bytes: number;
}

export interface RecordEdit {
  readonly texts: Pick<TextEdit, "text" | "numbers" | "name">;
  /** The bodies that a save's records refer to, as they are. */
  readonly body: (name: Digest) => Uint8Array;
  /** Keeps another body. */
  readonly keep: (bytes: Uint8Array) => Stored;
  /** Another content for a file, or undefined where it stays. */
  readonly file: (bytes: Uint8Array) => Uint8Array | undefined;
  /** The call that is not over and was asked for here, or undefined. */
  readonly openCall: (reply: number, index: number) => string | undefined;
  readonly isOpen: (effectId: string) => boolean;
  /** Told of a call that is not over and has an input that would have been edited. */
  readonly exempt: (effectId: string) => void;
  /** Told of messages that were edited. */
  readonly edited: (before: MessageInput, after: MessageInput) => void;
  /**
   * REDACT-1: digests of what was edited. Filled while records are edited, and looked up by those that
   * are edited then or later.
   */
  readonly forgotten: Set<string>;
  readonly whole?: Whole;
}

/**
 * A message that is to go whole, with values of it that stand elsewhere too: those are filled in
 * while it is edited.
 */
interface Whole {
  readonly is: (message: MessageInput, seq: number) => boolean;
  readonly edit: Pick<TextEdit, "text" | "numbers" | "name">;
  readonly file: (bytes: Uint8Array) => Uint8Array;
  readonly values: Set<string>;
}

/** A record with its texts edited; the same where nothing was. `seq` is its number. */
export function editRecord(record: JournalRecord, seq: number, edit: RecordEdit): JournalRecord {
  return new Editing(edit).record(record, seq);
}

/** A checkpoint with its texts edited; the same where nothing was. */
export function editMark(mark: Mark, { texts }: Pick<RecordEdit, "texts">): Mark {
  const where = { in: "checkpoint" } as const;
  const { label, description, reason, metadata } = mark;
  const words = {
    ...(label !== undefined && {
      label: cutTo(texts.text(label, { ...where, field: "label" }), MAX_LABEL),
    }),
    ...(description !== undefined && {
      description: cutTo(
        texts.text(description, { ...where, field: "description" }),
        MAX_DESCRIPTION,
      ),
    }),
    ...(reason !== undefined && {
      reason: cutTo(texts.text(reason, { in: "reason" }), MAX_REASON),
    }),
    ...(metadata !== undefined && { metadata: editJson(metadata, texts, where) as JsonObject }),
  };
  return changed(mark, words);
}

/**
 * A text that has grown by what stands in the place of another is cut: nothing may be written that
 * cannot be read. Never inside a character.
 */
export function cutTo(text: string, most: number): string {
  if (text.length <= most) return text;
  const cut = text.slice(0, most);
  return cut.isWellFormed() ? cut : cut.slice(0, -1);
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The object with these in the place of what it has, or the object itself where they are what it
 * has.
 */
function changed<T extends object>(object: T, changes: Fields): T {
  const differs = Object.entries(changes).some(([key, value]) => value !== (object as Fields)[key]);
  return differs ? { ...object, ...changes } : object;
}

class Editing {
  readonly #edit: RecordEdit;

  constructor(edit: RecordEdit) {
    this.#edit = edit;
  }

  record(record: JournalRecord, seq: number): JournalRecord {
    const { append, item, status, set, unset, list, base, effect, turn, prefix, signal, child } =
      record;
    if (append !== undefined) return this.#message(record, "append", seq);
    if (item !== undefined) return this.#message(record, "item", seq);
    if (status !== undefined) return this.#status(record);
    for (const key of [set, unset, list]) if (key !== undefined) this.#name(key, "state-key");
    if (set !== undefined) return this.#value(record, "value", { in: "state", key: set });
    if (list !== undefined) return this.#value(record, "items", { in: "state", key: list });
    if (base !== undefined) return changed(record, { base: this.#base(base) });
    if (effect !== undefined) return this.#effectRecord(record, effect);
    if (turn !== undefined) return changed(record, { turn: this.#turn(turn) });
    if (prefix !== undefined) return changed(record, { prefix: this.#prefix(prefix) });
    if (signal !== undefined) {
      this.#name(signal, "signal");
      return this.#value(record, "body", { in: "signal", name: signal });
    }
    if (child !== undefined) this.#name(child, "session-id");
    return record;
  }

  #name(name: string, what: Parameters<NonNullable<TextEdit["name"]>>[1]): void {
    this.#edit.texts.name?.(name, what);
  }

  // ---- bodies

  #json(value: Json, where: RedactionPlace): Json {
    const { whole, texts } = this.#edit;
    const isWhole =
      whole !== undefined && whole.values.size > 0 && whole.values.has(valueDigest(value));
    return editJson(value, isWhole ? whole.edit : texts, where);
  }

  #bodyText(name: Digest): string {
    return Buffer.from(this.#edit.body(name)).toString("utf8");
  }

  #parsed(name: Digest): Json {
    return jsonIn(this.#bodyText(name), name);
  }

  #keep(value: unknown): { readonly blob: Digest; readonly size: number } {
    const { digest: blob, bytes: size } = this.#edit.keep(Buffer.from(JSON.stringify(value)));
    return { blob, size };
  }

  /** A record with a value in it, or with one that is kept as a blob. */
  #value(
    record: JournalRecord,
    field: "value" | "items" | "body",
    where: RedactionPlace,
  ): JournalRecord {
    if (record.blob === undefined) {
      const value = record[field] as Json | undefined;
      return value === undefined ? record : changed(record, { [field]: this.#json(value, where) });
    }
    const before = this.#parsed(record.blob);
    const after = this.#json(before, where);
    return after === before ? record : { ...record, ...this.#keep(after) };
  }

  #body(body: Body, where: RedactionPlace): Body {
    if ("value" in body) return changed(body, { value: this.#json(body.value, where) });
    const before = this.#parsed(body.blob);
    const after = this.#json(before, where);
    return after === before ? body : this.#keep(after);
  }

  // ---- the transcript

  #message(record: JournalRecord, field: "append" | "item", seq: number): JournalRecord {
    const { whole } = this.#edit;
    const before = (
      record.blob === undefined
        ? record[field]
        : messageIn(this.#bodyText(record.blob), record.blob)
    ) as MessageInput;
    const files = new Map<Digest, Stored>();
    const isWhole = whole?.is(before, seq) === true;
    if (isWhole)
      for (const value of valuesIn(before))
        if (isTelling(value)) whole.values.add(valueDigest(value));
    const after = editMessage(before, {
      ...(isWhole ? whole.edit : this.#edit.texts),
      file: (name) =>
        record.files?.includes(name)
          ? this.#file(name, files, isWhole ? whole.file : this.#edit.file)
          : undefined,
      leaves: (index) => this.#leaves(before, seq, index),
    });
    if (after === before) return record;
    this.#edit.edited(before, after);
    this.#forget(before, after);
    const named = record.files?.map((name) => files.get(name)?.digest ?? name);
    const body = record.blob === undefined ? { [field]: after } : this.#keep(after);
    return { ...record, ...body, ...(named && { files: named }) };
  }

  #file(
    name: Digest,
    files: Map<Digest, Stored>,
    change: RecordEdit["file"],
  ): { readonly digest: Digest; readonly sizeBytes: number } | undefined {
    const other = change(this.#edit.body(name));
    if (other === undefined) return undefined;
    const kept = this.#edit.keep(other);
    files.set(name, kept);
    return { digest: kept.digest, sizeBytes: kept.bytes };
  }

  /** REDACT-2 */
  #leaves(message: MessageInput, seq: number, index: number): boolean {
    const id = this.#edit.openCall(seq, index);
    if (id === undefined) return false;
    const part = callsIn(message)[index];
    const { texts, whole } = this.#edit;
    const edit = whole?.is(message, seq) ? whole.edit : texts;
    if (
      part !== undefined &&
      editMessage({ role: "assistant", content: [part] }, edit).content[0] !== part
    )
      this.#edit.exempt(id);
    return true;
  }

  /** REDACT-1 */
  #forget(before: MessageInput, after: MessageInput): void {
    this.#edit.forgotten.add(messageDigest(before));
    const calls = callsIn(after);
    for (const [i, { input }] of callsIn(before).entries())
      if (calls[i]?.input !== input) this.#edit.forgotten.add(valueDigest(input));
  }

  #status(record: JournalRecord): JournalRecord {
    const { reason, output } = record;
    return changed(record, {
      ...(reason !== undefined && { reason: this.#reason(reason) }),
      ...(output !== undefined && { output: this.#json(output, { in: "output" }) }),
    });
  }

  #reason(reason: string): string {
    return cutTo(this.#edit.texts.text(reason, { in: "reason" }), MAX_REASON);
  }

  // ---- calls and turns

  #inputDigest(inputDigest: string): string {
    return this.#edit.forgotten.has(inputDigest) ? UNKNOWN : inputDigest;
  }

  #turn(turn: Turn): Turn {
    for (const name of [turn.key, turn.id]) if (name !== undefined) this.#name(name, "turn-key");
    return changed(turn, { inputDigest: this.#inputDigest(turn.inputDigest) });
  }

  #prefix(name: Digest): Digest {
    const before = this.#parsed(name);
    const after = this.#json(before, { in: "system" });
    return after === before ? name : this.#keep(after).blob;
  }

  #effectRecord(record: JournalRecord, effect: EffectEvent): JournalRecord {
    switch (effect.is) {
      case "intent": {
        this.#effectNames(effect);
        const edited = this.#inputRecord(record, effect.id, {
          in: "tool-input",
          name: effect.name,
        });
        return this.#edit.isOpen(effect.id)
          ? edited
          : changed(edited, {
              effect: changed(effect, { inputDigest: this.#inputDigest(effect.inputDigest) }),
            });
      }
      case "approved":
        return this.#decision(
          this.#inputRecord(record, effect.id, { in: "tool-input", name: "" }),
          effect,
        );
      case "retry":
        return this.#decision(record, effect);
      case "waits":
        if (effect.waits.for === "signal") this.#name(effect.waits.name, "signal");
        return record;
      case "signalled":
        this.#name(effect.name, "signal");
        return this.#value(record, "body", { in: "signal", name: effect.name });
      case "done":
        return this.#decision(this.#value(record, "body", { in: "tool-output" }), effect);
      default:
        return record;
    }
  }

  #decision(
    record: JournalRecord,
    effect: Extract<EffectEvent, { is: "approved" | "retry" | "done" }>,
  ): JournalRecord {
    return changed(record, {
      effect: editDecision(effect, this.#edit.texts),
    });
  }

  #effectNames({ name, named, waits }: Pick<Effect, "name" | "named" | "waits">): void {
    this.#name(name, "tool");
    if (named !== undefined) this.#name(named, "effect-key");
    if (waits?.for === "signal") this.#name(waits.name, "signal");
  }

  #inputRecord(record: JournalRecord, id: string, where: RedactionPlace): JournalRecord {
    if (record.body === undefined && record.blob === undefined) return record;
    const before = record.blob === undefined ? (record.body as Json) : this.#parsed(record.blob);
    const after = this.#json(before, where);
    if (after === before) return record;
    // REDACT-2
    if (this.#edit.isOpen(id)) {
      this.#edit.exempt(id);
      return record;
    }
    this.#edit.forgotten.add(valueDigest(before));
    return { ...record, ...(record.blob === undefined ? { body: after } : this.#keep(after)) };
  }

  // ---- bases

  #base(base: Base): Base {
    const { reason, output, inFlight, state } = base;
    return changed(base, {
      ...(reason !== undefined && { reason: this.#reason(reason) }),
      ...(output !== undefined && { output: this.#json(output, { in: "output" }) }),
      ...(inFlight !== undefined && { inFlight: this.#inFlight(inFlight) }),
      state: each(state, (entry) => this.#stateEntry(entry)),
    });
  }

  #stateEntry(entry: Base["state"][number]): Base["state"][number] {
    const [key, value, blob] = entry;
    const where = { in: "state", key } as const;
    this.#name(key, "state-key");
    if (blob === undefined) {
      const after = this.#json(value, where);
      return after === value ? entry : [key, after];
    }
    const before = this.#parsed(blob);
    const after = this.#json(before, where);
    if (after === before) return entry;
    const kept = this.#keep(after);
    return [key, null, kept.blob, kept.size];
  }

  #inFlight(inFlight: InFlightBase): InFlightBase {
    const { effects, turn, prefix, signals } = inFlight;
    return changed(inFlight, {
      ...(effects && { effects: each(effects, (effect) => this.#effect(effect)) }),
      ...(turn && { turn: this.#turn(turn) }),
      ...(prefix !== undefined && { prefix: this.#prefix(prefix) }),
      ...(signals && { signals: this.#signals(signals) }),
    });
  }

  #signals<S extends { readonly name: string; readonly body: Body }>(signals: readonly S[]) {
    return each(signals, (signal) =>
      changed(signal, { body: this.#body(signal.body, { in: "signal", name: signal.name }) }),
    );
  }

  #effect(effect: Effect): Effect {
    this.#effectNames(effect);
    const { id, name, input, output, signals, inputDigest } = effect;
    const isOpen = this.#edit.isOpen(id);
    const edited = input && this.#input(input, id, { in: "tool-input", name });
    return changed(editDecision(effect, this.#edit.texts), {
      ...(edited && { input: edited }),
      ...(output && { output: this.#body(output, { in: "tool-output", name }) }),
      ...(signals && { signals: this.#signals(signals) }),
      inputDigest: isOpen ? inputDigest : this.#inputDigest(inputDigest),
    });
  }

  #input(input: Body, id: string, where: RedactionPlace): Body {
    const after = this.#body(input, where);
    if (after === input) return input;
    if (this.#edit.isOpen(id)) {
      this.#edit.exempt(id);
      return input;
    }
    // The record that this was copied from may have been redacted before, from another session that
    // shares it.
    this.#edit.forgotten.add(
      valueDigest("value" in input ? input.value : this.#parsed(input.blob)),
    );
    return after;
  }
}

/** The list with each item edited, or the list itself where none was. */
function each<T>(list: readonly T[], change: (item: T, index: number) => T): readonly T[] {
  const edited = list.map(change);
  return edited.every((item, i) => item === list[i]) ? list : edited;
}

const callsIn = (message: MessageInput) =>
  partsOf(message).flatMap((part) =>
    part.type === "tool-call" && part.by !== "provider" ? [part] : [],
  );

/** A value that is written short may be anything else's: `"ok"`, 1, true. */
const isTelling = (value: Json): boolean => JSON.stringify(value).length >= TELLING_CHARS;
const TELLING_CHARS = 16;

/**
 * What a message says that the in-flight work may say again: inputs of calls, and what tools
 * answered.
 */
const valuesIn = (message: MessageInput): readonly Json[] =>
  partsOf(message).flatMap((part) =>
    part.type === "tool-call"
      ? [part.input]
      : part.type === "tool-result"
        ? [part.output as Json]
        : [],
  );
