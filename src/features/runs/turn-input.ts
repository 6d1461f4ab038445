/** What is asked of an agent: an input, and how it is known again. */
import { messageDigest, UNKNOWN } from "../../core/effects/effect.js";
import {
  type EncodedMessage,
  encodeMessage,
  type MessageInput,
} from "../../core/messages/message.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, type SessionId, sessionId } from "../../core/values/ids.js";
import { invalidValue, isList, type Json } from "../../core/values/json.js";
import type { Redactor } from "../../engine/journal/redactor.js";
import { oneOf, options, signalOf } from "../../engine/util/validate.js";
import { withBytes } from "../../formats/plain.js";
import type { Input, RunOptions } from "./define/agent-types.js";
import { boundsOf, type Definition, definitionOf } from "./define/compile-agent.js";

/** An input, and how it is known again. */
export interface TurnInput {
  readonly message: MessageInput;
  readonly inputDigest: string;
  readonly key: string | undefined;
}

/** What is asked of an agent in one call, checked. */
export interface RunRequest {
  readonly definition: Definition;
  readonly id: SessionId;
  /** Undefined if the latest turn is to go on. */
  readonly asking: TurnInput | undefined;
  readonly o: Partial<RunOptions>;
  readonly parent?: SessionId;
}

const RUN_OPTIONS = [
  "key",
  "context",
  "signal",
  "ifBusy",
  "limits",
  "tags",
  "title",
  "metadata",
] as const;
const BUSY = ["wait", "queue", "reject", "interrupt"] as const;

/** Checks what is asked of an agent. Without an input, its latest turn is to go on. */
export function requestOf(
  agent: unknown,
  id: unknown,
  input: Input | undefined,
  given: RunOptions | undefined,
  redactor: Redactor | undefined,
): RunRequest {
  const o = options(given, "run", RUN_OPTIONS);
  oneOf(o.ifBusy, "ifBusy", BUSY);
  signalOf(o.signal);
  const definition = definitionOf(agent);
  boundsOf(o.limits, definition.limits);
  return {
    definition,
    id: sessionId(id),
    asking: input === undefined ? undefined : turnInputOf(input, o.key, redactor),
    o,
  };
}

/** `redactor`: by what is stored it is known again, and not by what was given. */
export function turnInputOf(input: Input, key: unknown, redactor: Redactor | undefined): TurnInput {
  const message: MessageInput =
    typeof input === "string" || isList(input)
      ? { role: "user", content: input as MessageInput["content"] }
      : (input as MessageInput);
  const encoded = encodeMessage(message, "input");
  checkInput(encoded.value);
  const { value } = redactor?.message(encoded, "input") ?? encoded;
  return {
    message: copyOf(encoded),
    inputDigest: messageDigest(value),
    key: key === undefined ? undefined : checkName(key, "key"),
  };
}

/**
 * The loop would make calls that stand in an input, and take results for answers. A client that
 * could write them could act as the model.
 */
function checkInput({ role, content, reply, provider }: MessageInput): void {
  if (role !== "user")
    throw invalidValue(
      "input.role",
      `it is ${quote(role)}, and an input has the role "user". Add other messages with hold.sessions.append`,
    );
  if (reply !== undefined)
    throw invalidValue(
      "input.reply",
      "an input has no reply: only a model's message says how the model was asked",
    );
  if (provider !== undefined) throw ownFields("input.provider");
  if (typeof content === "string") return;
  for (const [i, part] of content.entries()) {
    const path = `input.content[${i}]`;
    if (part.type === "tool-call" || part.type === "tool-result")
      throw invalidValue(
        `${path}.type`,
        `an input cannot hold a ${part.type}: calls come from the model, and results from tools`,
      );
    if (part.type === "opaque") throw ownFields(path);
    if (part.provider !== undefined) throw ownFields(`${path}.provider`);
  }
}

/**
 * Fields of a provider's own are written as they are: `role: "system"` among them would be the
 * provider's role.
 */
const ownFields = (path: string) =>
  invalidValue(
    path,
    "an input cannot hold a provider's own fields: they could change its role. Add them in the agent's view or model",
  );

/** The message as it was checked: its owner may change the original before it is stored. */
function copyOf({ value, blobs }: EncodedMessage): MessageInput {
  return blobs.length === 0
    ? value
    : withBytes(value, new Map(blobs.map(({ digest, bytes }) => [digest, bytes])));
}

/**
 * Whether a turn is the one that is asked for. The same key with another input is a CONFLICT. If
 * the turn's input was redacted, its key alone tells. Without a key Holdfast cannot tell, and
 * answers with a CONFLICT: it neither begins a second turn nor gives an old answer unasked.
 */
export function isMeant(
  turn: { readonly key?: string | undefined; readonly inputDigest: string } | undefined,
  { key, inputDigest }: TurnInput,
  session: string,
): boolean {
  if (turn === undefined || turn.key !== key) return false;
  if (turn.inputDigest === UNKNOWN) {
    if (key !== undefined) return true;
    throw new HoldfastError(
      "CONFLICT",
      `The input of the latest turn of session ${quote(session)} was redacted, so Holdfast cannot tell whether this input is the same. Call resume to go on with that turn, or pass a key to begin another.`,
      { sessionId: session },
    );
  }
  if (key !== undefined && turn.inputDigest !== inputDigest)
    throw new HoldfastError(
      "CONFLICT",
      `The turn ${quote(key)} of session ${quote(session)} has another input. One key names one turn.`,
      {
        sessionId: session,
      },
    );
  return turn.inputDigest === inputDigest;
}

/** A turn on its way to a session. Bytes do not fit into an inbox message. */
export function turnMessage(turn: string, key: string | undefined, message: MessageInput) {
  const { text, blobs } = encodeMessage(message, "input");
  if (blobs.length > 0)
    throw new HoldfastError(
      "INVALID_VALUE",
      "input: a turn that waits cannot carry bytes; give a URL, a text, or a file that is kept.",
      {
        path: "input",
      },
    );
  return {
    kind: "turn",
    turn,
    ...(key !== undefined && { key }),
    input: JSON.parse(text) as Json,
  } as const;
}

export function turnOpen(id: string, status?: string): HoldfastError {
  const why =
    status === undefined ? "is at another turn" : `is ${status}: its turn cannot go on by itself`;
  return new HoldfastError(
    "TURN_OPEN",
    `Session ${quote(id)} ${why}. Wait for it, or pass ifBusy: "wait", "queue" or "interrupt".`,
    {
      sessionId: id,
    },
  );
}

export function noTurn(id: string): HoldfastError {
  return new HoldfastError(
    "BAD_STATUS",
    `Session ${quote(id)} has no turn to go on with. Run the agent with an input.`,
    { sessionId: id },
  );
}
