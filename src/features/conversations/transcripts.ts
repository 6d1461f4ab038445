/** Transcripts of sessions in the formats of providers, verified. Needs no lease. */
import { blobsOf, type Message, type MessageInput } from "../../core/messages/message.js";
import { HoldfastError } from "../../core/values/errors.js";
import { sessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { readState } from "../../engine/lifecycle/read-state.js";
import { invalid, oneOf, options } from "../../engine/util/validate.js";
import { withBytes } from "../../formats/plain.js";
import { FORMATS, type Format, type Transcript, toFormat } from "../../formats/transcript.js";

export interface TranscriptOptions<F extends Format = Format> {
  readonly format: F;
  /**
   * `inline` writes the bytes of files into the messages; otherwise a file that is kept here is
   * named in the remainder.
   */
  readonly files?: "inline" | "remainder";
  /** A checkpoint of the session; its end by default. */
  readonly at?: string;
}

/** How many bytes of files one transcript takes along. */
const MAX_FILE_BYTES = 64 * 1024 * 1024;

export async function transcriptOf<M = JsonObject, F extends Format = Format>(
  ctx: StoreContext,
  id: string,
  o: TranscriptOptions<F>,
): Promise<Transcript<M, F>> {
  const { format, files, at } = options(o, "sessions.transcript", ["format", "files", "at"]);
  const known = oneOf<F>(format, "format", FORMATS as readonly F[]);
  if (known === undefined) throw invalid("format", `it must be one of ${FORMATS.join(", ")}`);
  const how = oneOf(files, "files", ["inline", "remainder"]);
  const { messages } = (await readState(ctx, sessionId(id), at)).fold;
  return toFormat<M, F>(known, how === "inline" ? await withFiles(ctx, messages) : messages);
}

async function withFiles(
  ctx: StoreContext,
  messages: readonly Message[],
): Promise<readonly MessageInput[]> {
  let total = 0;
  const files = new Map<string, Uint8Array>();
  for (const { content } of messages) {
    for (const name of typeof content === "string" ? [] : blobsOf(content)) {
      // What a tool answered may only look like a file.
      if (files.has(name) || (await ctx.store.blob(name)) === undefined) continue;
      const bytes = await ctx.journal.blob(name);
      total += bytes.length;
      if (total > MAX_FILE_BYTES)
        throw new HoldfastError(
          "TOO_LARGE",
          `The files of this transcript hold more than ${MAX_FILE_BYTES} bytes. Leave them out of the messages, and read each with \`blob\`.`,
          { limit: MAX_FILE_BYTES },
        );
      files.set(name, bytes);
    }
  }
  return messages.map((message) => withBytes(message, files));
}
