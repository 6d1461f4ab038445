/**
 * Whether what a model function gave is a reply. It is the author's code: what it misspells is
 * refused by its name, with the right one.
 */
import {
  FINISHES,
  fieldsOfPart,
  isObject,
  noSuchPart,
  type Part,
} from "../../core/messages/message.js";
import type { ModelReply } from "../../core/messages/model.js";
import { HoldfastError, pathTo } from "../../core/values/errors.js";
import { typeName } from "../../core/values/ids.js";
import { fieldsOf, invalidValue, isList, itemsOf } from "../../core/values/json.js";

export interface GivenCall {
  readonly callId: string;
  readonly name: string;
  readonly input: unknown;
}

export interface Given extends Omit<ModelReply, "content" | "toolCalls"> {
  readonly content: string | readonly Part[];
  readonly toolCalls: readonly GivenCall[];
}

type Hints = Readonly<Record<string, string>>;

const CALLS = "Use toolCalls: a list of { callId, name, input }.";
const CONTENT = "Use content: a text, or a list of parts.";
const FINISH = `Use finish: ${[...FINISHES].join(", ")}. The provider's own word goes into rawFinish.`;
/** By the name in lower case, without underscores. */
const OF_REPLY: Hints = {
  toolcalls: CALLS,
  toolcall: CALLS,
  tooluse: CALLS,
  calls: CALLS,
  functioncall: CALLS,
  functioncalls: CALLS,
  finishreason: FINISH,
  stopreason: FINISH,
  text: CONTENT,
  message: CONTENT,
  messages: CONTENT,
  output: CONTENT,
  parts: CONTENT,
  reasoning: CONTENT,
  choices: "Use content and toolCalls, with what choices[0].message says.",
  id: "Use responseId.",
  role: "Leave it out: a reply is the assistant's.",
};
const CALL_ID = "Use callId.";
const CALL_INPUT = "Use input: a value, or its JSON as text.";
const OF_CALL: Hints = {
  function: "Use name and input, with what function.name and function.arguments say.",
  args: CALL_INPUT,
  arguments: CALL_INPUT,
  parameters: CALL_INPUT,
  id: CALL_ID,
  callid: CALL_ID,
  toolcallid: CALL_ID,
  tool: "Use name.",
  toolname: "Use name.",
  type: "Leave it out.",
};
const OF_PART: Hints = {
  args: "Use input.",
  arguments: "Use input.",
  content: "Use text.",
  iserror: "Use outcome: ok, error or denied.",
  result: "Use output.",
  toolcallid: "Use callId.",
  toolname: "Use name.",
};
const OWN = "What is a provider's own goes into provider.";
const INPUT = "Use inputTokens.";
const OUTPUT = "Use outputTokens.";
/**
 * Only names that would count no tokens are refused: others may stand beside those that are
 * counted.
 */
const OF_USAGE: Hints = {
  prompttokens: INPUT,
  inputtokens: INPUT,
  completiontokens: OUTPUT,
  outputtokens: OUTPUT,
};

const REPLY = [
  "content",
  "toolCalls",
  "finish",
  "rawFinish",
  "usage",
  "provider",
  "model",
  "responseId",
];
const CALL = ["callId", "name", "input"];

/** The fields of a reply, each read once. Throws where it has others, or one of another type. */
export function replyOf(given: unknown): Given {
  const reply = objectIn(given, "reply", "a model's reply", "content");
  refuseOthers(
    reply,
    "reply",
    "a model's reply",
    REPLY,
    OF_REPLY,
    `It may have: ${REPLY.join(", ")}.`,
  );
  const { content, toolCalls = [], ...rest } = reply;
  const { finish, usage } = rest;
  if (finish !== undefined && !FINISHES.has(finish))
    throw invalidValue("reply.finish", `a finish is one of ${[...FINISHES].join(", ")}`);
  if (isObject(usage)) refuseMisspelled(usage, "reply.usage");
  const said =
    typeof content === "string" ? content : itemsOf(content, "reply.content")?.map(partOf);
  if (said === undefined)
    throw invalidValue(
      "reply.content",
      `it is ${typeName(content)}, and must be a text or a list of parts`,
    );
  const calls = itemsOf(toolCalls, "reply.toolCalls")?.map(callOf);
  if (calls === undefined)
    throw invalidValue(
      "reply.toolCalls",
      `it is ${typeName(toolCalls)}, and must be a list of calls`,
    );
  return {
    ...(rest as Omit<ModelReply, "content" | "toolCalls">),
    content: said,
    toolCalls: calls,
  };
}

function partOf(given: unknown, i: number): Part {
  const path = `reply.content[${i}]`;
  const part = objectIn(given, path, "a part", "a type");
  const names = fieldsOfPart(part.type);
  if (names === undefined) throw noSuchPart(path);
  refuseOthers(part, path, `a ${String(part.type)} part`, names, OF_PART, OWN);
  return part as unknown as Part;
}

function callOf(given: unknown, i: number): GivenCall {
  const path = `reply.toolCalls[${i}]`;
  const call = objectIn(given, path, "a call", "callId, name and input");
  refuseOthers(call, path, "a call", CALL, OF_CALL, `It has: ${CALL.join(", ")}.`);
  for (const field of ["callId", "name"])
    if (typeof call[field] !== "string")
      throw invalidValue(
        `${path}.${field}`,
        `it is ${typeName(call[field])}, and must be a string`,
      );
  if (call.input === undefined)
    throw invalidValue(`${path}.input`, "a call needs an input; pass {} where there is none");
  return call as unknown as GivenCall;
}

/** The fields of an object that are not undefined. */
function objectIn(
  given: unknown,
  path: string,
  what: string,
  has: string,
): Record<string, unknown> {
  if (typeof given !== "object" || given === null || isList(given))
    throw invalidValue(path, `${what} is an object with ${has}, not ${typeName(given)}`);
  return Object.fromEntries(
    Object.entries(fieldsOf(given, path)).filter(([, value]) => value !== undefined),
  );
}

/**
 * Refuses fields that are not among `names`: first one that is often misspelled, with the right
 * name.
 */
function refuseOthers(
  fields: object,
  path: string,
  what: string,
  names: readonly string[],
  hints: Hints,
  otherwise: string,
): void {
  const odd = Object.keys(fields).filter((name) => !names.includes(name));
  const worst = odd.find((name) => hintFor(hints, name) !== undefined) ?? odd[0];
  if (worst === undefined) return;
  const more = odd.filter((name) => name !== worst);
  const nor = more.length === 0 ? "" : `, nor ${more.join(", ")}`;
  throw refusal(
    pathTo(path, worst),
    `${what} has no such field${nor}. ${hintFor(hints, worst) ?? otherwise}`,
  );
}

function refuseMisspelled(usage: Readonly<Record<string, unknown>>, path: string): void {
  for (const name of Object.keys(usage)) {
    const isCounted = name === "inputTokens" || name === "outputTokens";
    const hint = isCounted ? undefined : hintFor(OF_USAGE, name);
    if (hint !== undefined)
      throw refusal(pathTo(path, name), `its tokens would not be counted. ${hint}`);
    const count = usage[name];
    if (
      isCounted &&
      count !== undefined &&
      !(typeof count === "number" && Number.isFinite(count) && count >= 0)
    )
      throw invalidValue(pathTo(path, name), "a count of tokens is a number from 0 on");
  }
}

function hintFor(hints: Hints, name: string): string | undefined {
  const plain = name.toLowerCase().replaceAll("_", "");
  return Object.hasOwn(hints, plain) ? hints[plain] : undefined;
}

/** As `invalidValue`, with sentences that end by themselves. */
const refusal = (path: string, says: string): HoldfastError =>
  new HoldfastError("INVALID_VALUE", `${path}: ${says}`, { path });
