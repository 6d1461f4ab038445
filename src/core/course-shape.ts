/** Whether what a journal says of a course is what it must be. For journals that come from stores nobody knows. */
import { isDigest } from "./digest.js";
import { MODES } from "./effect.js";
import { isCount, isObject } from "./shapes.js";

type Fields = Readonly<Record<string, unknown>>;
type Is = (value: unknown) => boolean;

const text: Is = (value) => typeof value === "string";
const maybe =
  (is: Is): Is =>
  (value) =>
    value === undefined || is(value);
const listOf =
  (is: Is): Is =>
  (value) =>
    Array.isArray(value) && value.every(is);
const oneOf =
  (...choices: readonly unknown[]): Is =>
  (value) =>
    choices.includes(value);
const fields =
  (shape: Readonly<Record<string, Is>>): Is =>
  (value) =>
    isObject(value) &&
    Object.keys(value).every((name) => Object.hasOwn(shape, name)) &&
    Object.entries(shape).every(([name, is]) => is((value as Fields)[name]));

const number: Is = (value) => typeof value === "number" && Number.isFinite(value);
const owner = fields({ boot: text, space: text, pid: number, started: text, nonce: text });
const attempt = fields({ no: isCount, at: number, wall: number, forMs: number });
const waits = fields({
  for: oneOf("approval", "repeat", "signal", "child"),
  of: maybe(text),
  uncertain: maybe(oneOf(true)),
  name: maybe(text),
  nth: maybe(isCount),
  until: maybe(number),
  session: maybe(text),
});
const call: Is = (value) => Array.isArray(value) && value.length === 2 && value.every(isCount);
const body: Is = (value) => isObject(value) && ("blob" in value ? isDigest(value["blob"]) && isCount(value["size"]) : "value" in value);
const outcome = oneOf("ok", "error", "denied");

const intent = {
  id: text,
  name: text,
  mode: oneOf(...MODES),
  key: text,
  named: maybe(text),
  call: maybe(call),
  same: text,
  validMs: maybe(number),
  whole: maybe(oneOf(true)),
  model: maybe(oneOf(true)),
  waits: maybe(waits),
  attempt: maybe(attempt),
};
const events: Readonly<Record<string, Is>> = {
  intent: fields(intent),
  begun: fields({ id: text, attempt }),
  waits: fields({ id: text, waits }),
  approved: fields({ id: text, by: maybe(text), note: maybe(text), asked: maybe(isCount) }),
  retry: fields({ id: text, by: maybe(text), asked: maybe(isCount) }),
  signalled: fields({ id: text, name: text, nth: maybe(isCount) }),
  woken: fields({ id: text }),
  doubt: fields({ id: text, inside: maybe(oneOf(true)), why: maybe(text) }),
  done: fields({
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
  return typeof is === "string" && Object.hasOwn(events, is) && events[is]?.(rest) === true;
};

const turn = fields({ id: text, key: maybe(text), same: text, from: isCount, version: maybe(text), steps: isCount, tokens: isCount });
const signal = fields({ name: text, nth: maybe(isCount), body });
const effect = fields({
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
  args: maybe(body),
  result: maybe(body),
  signals: maybe(listOf(signal)),
  outcome: maybe(outcome),
  happened: maybe(oneOf(true)),
});

const record: Readonly<Record<string, Is>> = {
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

/** Whether a field of a record is one of the course, and what it must be. */
export const isCourseField = (name: string, value: unknown): boolean => Object.hasOwn(record, name) && record[name]?.(value) === true;

export const isCourseBase = fields({
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
