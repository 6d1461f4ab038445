/**
 * What an inbox message in an inbox may say. Every read asks whether its shape is right, so that no
 * reader stumbles over an inbox message that was sealed by another hand.
 */
import {
  fields,
  type Is,
  isCount,
  isObject,
  isString,
  maybe,
  oneOf,
} from "../../core/values/shapes.js";
import type { InboxDoc, Settlement } from "./rows.js";

const any: Is = () => true;
const said: Is = (value) => value !== undefined;

type Said<K extends string> = Extract<Settlement, { readonly [Name in K]: unknown }>;
const settlements: readonly Is[] = [
  fields<Said<"output">>({ output: said }),
  fields<Said<"error">>({ error: isString, happened: maybe(oneOf(true)) }),
  fields<Said<"retry">>({ retry: oneOf(true) }),
];
const isSettlement: Is = (value) => settlements.some((is) => is(value));

const about = { effectId: isString, asked: isCount, by: maybe(isString) };

type Says<K extends InboxDoc["kind"]> = Omit<Extract<InboxDoc, { readonly kind: K }>, "kind">;
const inboxMessages: { readonly [K in InboxDoc["kind"]]: Is } = {
  cancel: fields<Says<"cancel">>({ reason: maybe(isString), turn: maybe(isString) }),
  approve: fields<Says<"approve">>({ ...about, note: maybe(isString), input: any }),
  deny: fields<Says<"deny">>({ ...about, reason: isString }),
  settle: fields<Says<"settle">>({ ...about, as: isSettlement }),
  late: fields<Says<"late">>({ effectId: isString, attempt: isCount, as: isSettlement }),
  signal: fields<Says<"signal">>({ name: isString, value: said }),
  wake: fields<Says<"wake">>({ child: isString }),
  turn: fields<Says<"turn">>({ turn: isString, key: maybe(isString), input: said }),
  append: fields<Says<"append">>({ check: isString, tag: isString, bytes: isCount }),
  "append-text": fields<Says<"append-text">>({ messages: Array.isArray }),
  "append-key": fields<Says<"append-key">>({ check: isString }),
};

export function isInboxDoc(doc: unknown): doc is InboxDoc {
  if (!isObject(doc)) return false;
  const { kind, ...rest } = doc;
  return (
    typeof kind === "string" &&
    Object.hasOwn(inboxMessages, kind) &&
    inboxMessages[kind as InboxDoc["kind"]](rest)
  );
}
