/**
 * Files of conversations. A file is stored under its digest, once for a tenant, and a digest is no
 * right to read it: a file is read as part of a conversation that may be seen, and named only in a
 * conversation that has it. Otherwise a digest would tell what others have.
 */
import {
  blobsOf,
  type FilePart,
  isObject,
  type MessageInput,
  type Part,
} from "../core/messages/message.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { unlessDamaged } from "../engine/records/tolerate-damage.js";
import { notStored } from "../engine/session/named-files.js";
import { type Call, type Hold, spec } from "./definition.js";
import { id, optional, text, whole } from "./schema.js";
import { requireCheckpoint, requireSession } from "./scope.js";

/** With base64, about one page. */
const BYTES = 12_000;
const MAX_BYTES = 1024 * 1024;

export const conversationFile = spec({
  name: "conversation_file",
  title: "Read a file of a conversation",
  description:
    "The bytes of a file that is part of a message, in base64. conversation_load tells its digest: `data: { digest, sizeBytes }`. A long file comes in parts: pass `next` as `from`.",
  does: "reads",
  holdsStored: true,
  input: {
    id: id("The conversation's id."),
    digest: id("The digest of the file, as it stands in the message."),
    at: optional(id("One of its checkpoints, for a file that is there no more at its end.")),
    from: optional(whole("The first byte to read; 0 by default.")),
    limit: optional(whole(`How many bytes at most; ${BYTES} by default.`, 1, MAX_BYTES)),
  },
  output: {
    digest: text("The digest of the whole file."),
    mediaType: text("What it is."),
    name: optional(text("What it is called.")),
    sizeBytes: whole("How many bytes the file has."),
    from: whole("The first byte of these."),
    bytes: text("The bytes, in base64."),
    next: optional(whole("There is more: pass it as `from`.")),
  },
  async run(hold, { id: given, digest, at, from = 0, limit = BYTES }, call) {
    await requireSession(hold, call, given);
    const checkpoint = at === undefined ? undefined : await requireCheckpoint(hold, call, at);
    const { messages } = await hold.sessions.state(given, checkpoint && { at: checkpoint.id });
    const part = messages
      .flatMap(({ content }) => filesIn(content))
      .find(({ data }) => "digest" in data && data.digest === digest);
    // What a tool answered may only look like a file.
    const whole = part && (await hold.blob(digest));
    if (part === undefined || whole === undefined) throw noFile(given, digest);
    const { mediaType, name } = part;
    const bytes = Buffer.from(whole.buffer, whole.byteOffset, whole.length).subarray(
      from,
      from + limit,
    );
    const end = from + bytes.length;
    return {
      digest,
      mediaType,
      ...(name !== undefined && { name }),
      sizeBytes: whole.length,
      from,
      bytes: bytes.toString("base64"),
      ...(end < whole.length && { next: end }),
    };
  },
});

/** In the order in which they stand, also in what tools answered. */
function filesIn(content: unknown): readonly FilePart[] {
  if (!Array.isArray(content)) return [];
  return content.filter(isObject).flatMap((part) => {
    if (part.type === "tool-result") return filesIn(part.output);
    return part.type === "file" && blobsOf([part as unknown as Part]).length > 0
      ? [part as unknown as FilePart]
      : [];
  });
}

const noFile = (session: string, digest: string): HoldfastError =>
  new HoldfastError(
    "NOT_FOUND",
    `Conversation ${quote(session)} has no file ${quote(digest)}. conversation_load tells those it has.`,
    {
      sessionId: session,
      found: digest,
    },
  );

/**
 * Refuses messages of one agent that name a file which their conversation does not have: as one
 * that is not stored at all.
 */
export async function refuseForeignFiles(
  hold: Hold,
  call: Call,
  session: string,
  said: readonly MessageInput[],
): Promise<void> {
  if (call.agent === undefined) return;
  const named = said.flatMap(({ content }) =>
    typeof content === "string" ? [] : blobsOf(content),
  );
  if (named.length === 0) return;
  const isThere = (await unlessDamaged(() => hold.sessions.get(session)))?.agent === call.agent;
  const { messages } = isThere ? await hold.sessions.state(session) : { messages: [] };
  const own = new Set(
    messages.flatMap(({ content }) => (typeof content === "string" ? [] : blobsOf(content))),
  );
  for (const name of named) if (!own.has(name)) throw notStored(name);
}
