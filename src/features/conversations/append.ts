/**
 * Appending to a session from outside a run, without holding it.
 *
 * APPEND-1  once: what is sent under a key is appended once, whoever does it and however often it
 *           is sent. Other messages under the same key are a CONFLICT.
 * APPEND-2  whole: all messages of one call are one save.
 * APPEND-3  never between a call and its answer: messages that come there wait until all calls are
 *           answered.
 * APPEND-4  nothing is set going: a session that has come to rest stays so, and one that waits for
 *           somebody waits on.
 */
import { randomUUID } from "node:crypto";
import { blobsOf, type EncodedMessage, type MessageInput } from "../../core/messages/message.js";
import { digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName, type SessionId, sessionId } from "../../core/values/ids.js";
import { type Json, type JsonObject, textBytes } from "../../core/values/json.js";
import type { Standpoint } from "../../engine/journal/journal.js";
import { tryPost } from "../../engine/journal/post-inbox.js";
import { type OpenedMessage, readInbox } from "../../engine/journal/read-inbox.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { refuseOtherAgent } from "../../engine/lifecycle/acquire-lease.js";
import { ensureSession } from "../../engine/lifecycle/create-session.js";
import { takeIn } from "../../engine/lifecycle/deliver-inbox.js";
import { openHeld } from "../../engine/lifecycle/open-session.js";
import { checkLabel } from "../../engine/lifecycle/session-options.js";
import {
  appendId,
  appendKeyId,
  appendTextId,
  BESIDE,
  HIDDEN,
  keyOf,
  keyText,
  newTag,
  waitsUnder,
} from "../../engine/records/append-messages.js";
import { inboxText } from "../../engine/records/rows.js";
import {
  type GivenMessages,
  MAX_BYTES,
  readMessages,
  tooLarge,
} from "../../engine/session/given-messages.js";
import { tryMessages } from "../../engine/session/named-files.js";
import { WorkingCopy } from "../../engine/session/working-copy.js";
import { noSession } from "../../engine/util/not-found.js";
import { flag, invalid, options } from "../../engine/util/validate.js";
import { type PlainMessage, toPlain, withBytes } from "../../formats/plain.js";
import { inboxOf, requireCapability } from "../../store/capabilities.js";

export interface AppendOptions {
  /** The same key is the same call: it is appended once. */
  readonly key?: string;
  /**
   * Makes the session where there is none; `agent`, `title`, `tags` and `metadata` are given to it
   * then.
   */
  readonly create?: boolean;
  readonly agent?: string;
  readonly title?: string;
  readonly tags?: readonly string[];
  readonly metadata?: JsonObject;
  /**
   * Only says whether they could be appended, by throwing where they could not; how much may wait
   * is not looked at. Appends nothing, and makes no session.
   */
  readonly dryRun?: boolean;
}

export interface AppendReport {
  /** How many messages were sent. */
  readonly count: number;
  /**
   * Whether they are in the transcript by now. Otherwise they are kept, and whoever holds the
   * session takes them in when it can.
   */
  readonly taken: boolean;
}

/** How many calls may wait in one session, and how much text with them. Variable for tests. */
export const waitingLimits = { calls: 100, bytes: 256 * 1024 * 1024 };
const ONCE_TAKEN = " Append again once whoever holds it has taken them in.";

interface Sending {
  readonly session: SessionId;
  readonly name: string;
  /** The name, as ids of inbox messages hold it. */
  readonly key: string;
  /** Whether the name is one that others may know. */
  readonly isKeyed: boolean;
  readonly messages: readonly MessageInput[];
  readonly encoded: readonly EncodedMessage[];
  /** Of all that they say: files by their digests. */
  readonly check: string;
}

/** `open`: nothing was sent under the key, but perhaps by one who failed. */
type Standing = "open" | "sent" | "taken";

export async function appendTo(
  ctx: StoreContext,
  id: string,
  given: GivenMessages,
  o: AppendOptions | undefined,
): Promise<AppendReport> {
  const { key, create, dryRun, ...label } = options(o, "sessions.append", [
    "key",
    "create",
    "agent",
    "title",
    "tags",
    "metadata",
    "dryRun",
  ]);
  const session = sessionId(id);
  const name = key === undefined ? randomUUID() : checkName(key, "key");
  const isMade = flag(create, "create") ?? false;
  const odd = Object.keys(label).find((name) => label[name as keyof typeof label] !== undefined);
  if (!isMade && odd !== undefined)
    throw invalid(odd, "it is given to a session that is made; pass create: true with it");
  const { messages, encoded } = readMessages(ctx, given);
  if (flag(dryRun, "dryRun") ?? false) {
    checkLabel(ctx, label);
    const present = await ctx.journal.present(session);
    if (present === undefined && !isMade) throw noSession(session);
    if (present !== undefined) {
      refuseOtherAgent(present.head, { id: session, agent: label.agent });
      await tryThere(ctx, present, encoded);
    }
    return { count: messages.length, taken: false };
  }
  requireCapability(ctx.store, "inbox", "hold.sessions.append");
  if (isMade) await ensureSession(ctx, session, label);
  const check = digest(encoded.map(({ text }) => text).join("\n"));
  const sending = {
    session,
    name,
    key: keyOf(name),
    isKeyed: key !== undefined,
    messages,
    encoded,
    check,
  };
  let stands = sending.isKeyed ? await standing(ctx, sending) : "open";
  if (stands === "open") stands = await appendHere(ctx, sending);
  if (stands === "open") await postAll(ctx, sending);
  if (stands !== "taken") await takeIn(ctx, session);
  return {
    count: messages.length,
    taken: stands === "taken" || (await standing(ctx, sending)) === "taken",
  };
}

const postKey = (ctx: StoreContext, { session, key, check }: Sending) =>
  tryPost(ctx.store, session, { kind: "append-key", check }, { id: appendKeyId(key), due: HIDDEN });

/** APPEND-1: what became of a call with this key. Throws where it was another one. */
async function standing(ctx: StoreContext, sending: Sending): Promise<Standing> {
  const { session, key, check } = sending;
  if ((await postKey(ctx, sending)) === "posted") return "open";
  const waits = await waitsUnder(ctx.store, session, key);
  if (waits !== undefined) {
    if (waits.append !== undefined && waits.append.check !== check) throw conflict(sending);
    return waits.append === undefined ? "open" : "sent";
  }
  // It is taken in by now: what is kept of it tells whether it was the same.
  if ((await postKey(ctx, sending)) === "conflict") throw conflict(sending);
  return "taken";
}

const conflict = ({ session, name }: Sending): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `Other messages were appended to session ${quote(session)} under the key ${quote(name)}. Append these under a key of their own.`,
    { sessionId: session },
  );

/**
 * Where nobody holds the session, and nothing stands in the way, they are appended without being
 * sent.
 */
async function appendHere(ctx: StoreContext, sending: Sending): Promise<Standing> {
  const { session, key, messages, encoded, check } = sending;
  try {
    const held = await openHeld(ctx, session, undefined, { make: false });
    try {
      let stands: Standing = "open";
      const isTaken = await held.inbox.takeMessage(async (): Promise<OpenedMessage | undefined> => {
        // By whoever held it before, perhaps, or out of an inbox message just now. From here on
        // nobody else can.
        if (sending.isKeyed) stands = await standing(ctx, sending);
        if (stands !== "open") return undefined;
        await tryMessages(ctx.store, held.work, encoded);
        const isOther = (await postKey(ctx, sending)) === "conflict";
        return {
          id: appendId(key),
          doc: { kind: "append", check, tag: "", bytes: 0 },
          // Not the bell: one that comes in this moment is another's, who is to hear that it was
          // not taken in.
          appended: {
            messages,
            drained: [appendKeyId(key)],
            ...(isOther && { reworded: { id: appendKeyId(key), text: keyText(check) } }),
          },
        };
      });
      return isTaken ? "taken" : stands;
    } finally {
      await held.close({ discard: true });
    }
  } catch (error) {
    // Held by another, or the store is busy: it is sent.
    if (error instanceof HoldfastError && error.retryable) return "open";
    throw error;
  }
}

/**
 * Sends them to whoever holds the session. What could not be taken in there is refused here: nobody
 * would hear of it.
 */
async function postAll(ctx: StoreContext, sending: Sending): Promise<void> {
  const { session, key, messages, encoded, check } = sending;
  const present = await ctx.journal.present(session);
  if (present === undefined) throw noSession(session);
  await tryThere(ctx, present, encoded);
  const plain = await Promise.all(messages.map((message) => selfContained(ctx, message)));
  const text = inboxText({ kind: "append-text", messages: plain as unknown as Json });
  const bytes = textBytes(text);
  if (bytes > 2 * MAX_BYTES) throw tooLarge(bytes);
  await refuseTooMuchWaiting(ctx, session, bytes);
  const tag = newTag(ctx.wallMs());
  const id = appendTextId(key, tag);
  await postKey(ctx, sending);
  let isPosted = false;
  try {
    const posted = await inboxOf(ctx.store).post(session, { id, text, due: HIDDEN });
    if (posted === "absent") throw noSession(session);
    isPosted = true;
    const append = { kind: "append", check, tag, bytes } as const;
    await ctx.post(session, append, { id: appendId(key), due: BESIDE });
  } catch (error) {
    const code = error instanceof HoldfastError ? error.code : undefined;
    // A text that no bell speaks of is of no use to anybody. Where it is not known whether one
    // does, redaction removes it when it is old.
    if (!isPosted || code === "CONFLICT" || code === "BUSY")
      await ctx.store.apply([{ session, when: {}, drained: [id] }]).catch(() => {});
    // Another was first, with the same or with something else.
    if (code !== "CONFLICT") throw error;
  }
}

/** Throws where they could not be appended to a session as it stands. */
async function tryThere(
  ctx: StoreContext,
  present: Standpoint,
  encoded: readonly EncodedMessage[],
): Promise<void> {
  const { fold, end } = await ctx.loader.tail(present, { sized: false });
  await tryMessages(
    ctx.store,
    new WorkingCopy(ctx, {
      head: present.head,
      fold,
      end,
      past: ctx.journal.pastOf(present),
      latest: undefined,
    }),
    encoded,
  );
}

async function refuseTooMuchWaiting(
  ctx: StoreContext,
  session: SessionId,
  bytes: number,
): Promise<void> {
  const waiting = (await readInbox(ctx, session)).flatMap(({ doc }) =>
    doc.kind === "append" ? [doc] : [],
  );
  const { calls: most, bytes: mostBytes } = waitingLimits;
  if (waiting.length >= most)
    throw new HoldfastError(
      "TOO_LARGE",
      `${most} calls of append wait in session ${quote(session)} already.${ONCE_TAKEN}`,
      {
        sessionId: session,
        limit: most,
      },
    );
  if (waiting.reduce((sum, doc) => sum + doc.bytes, bytes) > mostBytes)
    throw new HoldfastError(
      "TOO_LARGE",
      `messages: together with what waits in session ${quote(session)} already they would be more than ${mostBytes} bytes.${ONCE_TAKEN}`,
      { sessionId: session, limit: mostBytes },
    );
}

/**
 * With the bytes of files that it only names: they may be gone when it is taken in, and it would
 * not be.
 */
async function selfContained(ctx: StoreContext, message: MessageInput): Promise<PlainMessage> {
  const files = new Map<string, Uint8Array>();
  // What a tool answered may only look like a file.
  for (const name of typeof message.content === "string" ? [] : blobsOf(message.content))
    if ((await ctx.store.blob(name)) !== undefined) files.set(name, await ctx.journal.blob(name));
  return toPlain(withBytes(message, files), "messages");
}
