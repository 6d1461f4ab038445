/** Files that messages name without bringing their bytes: they must be stored already. */
import { blobsOf, type EncodedMessage, type Message } from "../../core/messages/message.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { Store } from "../../store/port.js";
import type { WorkingCopy } from "./working-copy.js";

/** Throws where messages could not be appended and saved; stages nothing. */
export async function tryMessages(
  store: Store,
  work: WorkingCopy,
  messages: readonly EncodedMessage[],
): Promise<void> {
  for (const name of work.tryMessages(messages))
    if ((await store.blob(name)) === undefined) throw notStored(name);
}

/** Reads files that staged messages name. */
export async function bringFiles(
  store: Store,
  work: WorkingCopy,
  names: readonly Digest[],
): Promise<void> {
  for (const name of names) {
    const bytes = await store.blob(name);
    if (bytes === undefined) work.missesFile(name);
    // It comes with the save: whoever used it may be gone, and it with them, before this is there.
    else work.bringsFile({ digest: name, bytes });
  }
}

/**
 * The files that messages name and do not bring. What a tool answered may only look like one, and
 * names none.
 */
export const filesNotBrought = (messages: readonly EncodedMessage[]): readonly Digest[] =>
  messages.flatMap(({ value: { content: parts }, blobs }) => {
    const named =
      typeof parts === "string"
        ? []
        : parts.flatMap((part) => (part.type === "tool-result" ? [] : blobsOf([part])));
    return named.filter((name) => !blobs.some(({ digest }) => digest === name));
  });

/**
 * Whether a message says that one of its parts is this file. What a tool answered does not count.
 */
export const isNamedIn = (messages: readonly Message[], name: Digest): boolean =>
  messages.some(
    ({ content: parts }) =>
      typeof parts !== "string" &&
      parts.some(
        (part) => part.type === "file" && "digest" in part.data && part.data.digest === name,
      ),
  );

export function notStored(name: Digest): HoldfastError {
  return new HoldfastError(
    "INVALID_VALUE",
    `messages: one names the file ${quote(name)}, which is not stored. Give its bytes instead.`,
    {
      path: "messages",
      found: name,
    },
  );
}
