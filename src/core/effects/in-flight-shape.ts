/**
 * Whether what a journal says of in-flight work is what it must be. For journals that come from
 * stores nobody knows.
 */
import type { Owner } from "../sessions/lease.js";
import { isDigest } from "../values/digest.js";
import {
  fields,
  type Is,
  isCount,
  isObject,
  listOf,
  maybe,
  isNumber as number,
  oneOf,
  type Shape,
  isString as text,
} from "../values/shapes.js";
import { type Attempt, type Effect, type EffectEvent, MODES, type WaitsFor } from "./effect.js";
import type { InFlightBase, InFlightRecord, Turn } from "./in-flight.js";

const owner = fields<Owner>({ boot: text, space: text, pid: number, started: text, nonce: text });
const attempt = fields<Attempt>({ no: isCount, at: number, wall: number, forMs: number });
const waits = fields<WaitsFor>({
  for: oneOf("approval", "repeat", "signal", "child"),
  of: maybe(text),
  uncertain: maybe(oneOf(true)),
  name: maybe(text),
  nth: maybe(isCount),
  until: maybe(number),
  session: maybe(text),
});
const call: Is = (value) => Array.isArray(value) && value.length === 2 && value.every(isCount);
const body: Is = (value) =>
  isObject(value) &&
  ("blob" in value ? isDigest(value["blob"]) && isCount(value["size"]) : "value" in value);
const outcome = oneOf("ok", "error", "denied");

type Event<K extends EffectEvent["is"]> = Omit<Extract<EffectEvent, { readonly is: K }>, "is">;

const intent: Shape<Event<"intent">> = {
  id: text,
  name: text,
  mode: oneOf(...MODES),
  key: text,
  named: maybe(text),
  call: maybe(call),
  inputDigest: text,
  validMs: maybe(number),
  whole: maybe(oneOf(true)),
  model: maybe(oneOf(true)),
  waits: maybe(waits),
  attempt: maybe(attempt),
};
const events: { readonly [K in EffectEvent["is"]]: Is } = {
  intent: fields<Event<"intent">>(intent),
  begun: fields<Event<"begun">>({ id: text, attempt }),
  waits: fields<Event<"waits">>({ id: text, waits }),
  approved: fields<Event<"approved">>({
    id: text,
    by: maybe(text),
    note: maybe(text),
    asked: maybe(isCount),
  }),
  retry: fields<Event<"retry">>({ id: text, by: maybe(text), asked: maybe(isCount) }),
  signalled: fields<Event<"signalled">>({ id: text, name: text, nth: maybe(isCount) }),
  woken: fields<Event<"woken">>({ id: text }),
  doubt: fields<Event<"doubt">>({ id: text, inside: maybe(oneOf(true)), why: maybe(text) }),
  done: fields<Event<"done">>({
    id: text,
    outcome,
    said: maybe(isCount),
    by: maybe(text),
    from: maybe(text),
    asked: maybe(isCount),
    happened: maybe(oneOf(true)),
  }),
};
const event: Is = (value) => {
  if (!isObject(value)) return false;
  const { is, ...rest } = value;
  return (
    typeof is === "string" && Object.hasOwn(events, is) && events[is as EffectEvent["is"]](rest)
  );
};

const turn = fields<Turn>({
  id: text,
  key: maybe(text),
  inputDigest: text,
  from: isCount,
  version: maybe(text),
  steps: isCount,
  tokens: isCount,
});
const signal = fields<NonNullable<Effect["signals"]>[number]>({
  name: text,
  nth: maybe(isCount),
  body,
});
const effect = fields<Effect>({
  ...intent,
  since: number,
  phase: oneOf("begun", "waiting", "ready", "doubt", "done"),
  asked: maybe(isCount),
  inside: maybe(oneOf(true)),
  why: maybe(text),
  first: maybe(attempt),
  waited: maybe(listOf(waits)),
  holder: maybe(owner),
  holders: maybe(listOf(owner)),
  input: maybe(body),
  output: maybe(body),
  signals: maybe(listOf(signal)),
  outcome: maybe(outcome),
  said: maybe(isCount),
  by: maybe(text),
  from: maybe(text),
  happened: maybe(oneOf(true)),
});

const record: Shape<InFlightRecord> = {
  effect: maybe(event),
  answered: maybe(isCount),
  ownReply: maybe(isCount),
  turn: maybe(turn),
  held: maybe(owner),
  prefix: maybe(isDigest),
  since: maybe(isCount),
  shape: maybe(isCount),
  signal: maybe(text),
  child: maybe(text),
};

/** Whether a field of a record is one of the in-flight work, and what it must be. */
export const isInFlightField = (name: string, value: unknown): boolean =>
  Object.hasOwn(record, name) && record[name as keyof InFlightRecord](value);

export const isInFlightBase = fields<InFlightBase>({
  effects: maybe(listOf(effect)),
  ownReply: maybe(isCount),
  turn: maybe(turn),
  held: maybe(owner),
  prefix: maybe(isDigest),
  since: maybe(isCount),
  shape: maybe(isCount),
  signals: maybe(listOf(signal)),
  children: maybe(listOf(text)),
  replayed: maybe(listOf(text)),
  turns: maybe(listOf(text)),
});
