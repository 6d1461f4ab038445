/**
 * Inbox messages, a file each, in the directory of its session: anybody may post, without the lock.
 *
 * POST-1  the system lets one file of a name be first, so an id is posted once.
 * POST-2  an inbox message is taken in when its session's file says so; moving it to done/ only
 *         clears up, and may come later.
 * POST-3  inbox messages belongs to a session's number: that of an older session of the same name
 *         is not there for a later one.
 */
import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { highest } from "../../../core/values/highest.js";
import {
  drainedText,
  type InboxMessage,
  type InboxQuery,
  isDrained,
  type Posted,
} from "../../port/inbox.js";
import { DAMAGED, sealedText } from "../files/checksummed-json.js";
import {
  addFile,
  checkDirectory,
  isDraft,
  makeDirectory,
  namesIn,
  putFile,
  remove,
  syncDirectory,
} from "../files/files.js";
import {
  glimpseMessage,
  type MessageFile,
  type MessageHead,
  messageName,
  readInbox,
} from "./message-file.js";

type Known = Pick<MessageFile, "text">;

/** An inbox message that waits has its text; of what was taken in there is less. */
const isKnown = (known: Known, { text }: InboxMessage): boolean => isDrained(known.text, text);

const DRAFT_MS = 3_600_000;

export class Inbox {
  readonly #path: string;
  /** The number of the session whose inbox messages it is. */
  readonly #session: number;

  constructor(sessionDirectory: string, session: number) {
    this.#path = join(sessionDirectory, "inbox");
    this.#session = session;
  }

  /** `mark` leaves a marker for those who look for inbox messages (MARKER-1). */
  post(message: InboxMessage, drained: readonly string[], mark: () => void): Posted {
    const path = this.#file(message.id);
    const before = this.#known(message.id);
    if (before !== undefined) {
      // Its poster may not have said so to the disk yet, or ever.
      syncDirectory(this.#path);
      return isKnown(before, message) ? "known" : "conflict";
    }
    makeDirectory(join(this.#path, "done"));
    const numbers = this.#all().map((known) => known.n);
    const n = 1 + highest(0, numbers);
    const text = sealedText({
      n,
      session: this.#session,
      id: message.id,
      due: message.due,
      text: message.text,
    } satisfies MessageFile);
    if (!addFile(path, text, { drafted: mark })) {
      const other = this.#known(message.id);
      if (other !== undefined) return isKnown(other, message) ? "known" : "conflict";
      // POST-3: it waits for a session that is no more.
      putFile(path, text, { drafted: mark });
    }
    // Between the look and the link another may have been posted, taken in and moved.
    const done = this.#read(this.#doneFile(message.id));
    if (done === undefined && !drained.includes(message.id)) return "posted";
    remove(path);
    return done === undefined || isKnown(done, message) ? "known" : "conflict";
  }

  #known(id: string): Known | undefined {
    return this.#read(this.#doneFile(id)) ?? this.#read(this.#file(id));
  }

  /** An inbox message that waits, oldest first. */
  waiting(drained: readonly string[], query: InboxQuery): InboxMessage[] {
    const taken = new Set(drained);
    const found =
      "ids" in query
        ? this.#named(query.ids.filter((id) => !taken.has(id)))
        : this.#all()
            .filter(({ id, due }) => !taken.has(id) && due <= query.dueBy)
            .slice(0, query.limit);
    return found.flatMap(({ id, text = this.#read(this.#file(id))?.text, due }) =>
      // It may have been taken in since.
      text === undefined ? [] : [{ id, text, due }],
    );
  }

  /**
   * From when on something waits that counts, which may be never; undefined where nothing waits.
   */
  firstDue(
    drained: readonly string[],
    counts: (message: MessageHead) => boolean = () => true,
  ): number | undefined {
    const taken = new Set(drained);
    const waiting = this.#all().filter(({ id }) => !taken.has(id));
    if (waiting.length === 0) return undefined;
    return waiting
      .filter(counts)
      .reduce((first, { due }) => Math.min(first, due), Number.POSITIVE_INFINITY);
  }

  /**
   * Whether somebody may be posting just now. What a killed process has left is no draft for ever.
   */
  hasDraft(): boolean {
    const oldest = Date.now() - DRAFT_MS;
    return namesIn(this.#path).some(
      (name) =>
        isDraft(name) &&
        (lstatSync(join(this.#path, name), { throwIfNoEntry: false })?.mtimeMs ?? 0) > oldest,
    );
  }

  #all(): MessageHead[] {
    return this.#in(namesIn(this.#path).filter((name) => name.endsWith(".json") && !isDraft(name)));
  }

  /** An inbox message that waits in files of these names. */
  #in(names: readonly string[]): MessageHead[] {
    checkDirectory(this.#path);
    return names
      .flatMap((name) => {
        const message = glimpseMessage(join(this.#path, name), this.#session);
        return message !== undefined && this.#read(join(this.#path, "done", name)) === undefined
          ? [{ message, name }]
          : [];
      })
      .sort((a, b) => a.message.n - b.message.n || (a.name < b.name ? -1 : 1))
      .map(({ message }) => message);
  }

  /** One that is damaged does not say what its id is: it is the one that was asked for. */
  #named(ids: readonly string[]): MessageHead[] {
    return [...new Set(ids)]
      .flatMap((id) => this.#in([messageName(id)]).map((message) => ({ ...message, id })))
      .sort((a, b) => a.n - b.n);
  }

  /** Those of these ids that wait. */
  has(ids: readonly string[]): string[] {
    return ids.filter((id) => glimpseMessage(this.#file(id), this.#session) !== undefined);
  }

  /**
   * POST-2: nothing is left of what was taken in but a digest, in a file that is there before the other
   * goes.
   */
  clear(drained: readonly string[]): void {
    const cleared = drained.flatMap((id) => {
      const message = this.#read(this.#file(id));
      return message === undefined ? [] : [{ ...message, id }];
    });
    if (cleared.length === 0) return;
    for (const message of cleared) this.#done({ ...message, text: drainedText(message.text) });
    syncDirectory(join(this.#path, "done"));
    for (const { id } of cleared) remove(this.#file(id));
    syncDirectory(this.#path);
  }

  /** Other words for an inbox message that waits. */
  reword(
    drained: readonly string[],
    { id, text }: { readonly id: string; readonly text: string },
  ): void {
    const message = this.#read(this.#file(id));
    if (message !== undefined && !drained.includes(id))
      putFile(this.#file(id), sealedText({ ...message, text } satisfies MessageFile));
  }

  /** Forgets what inbox messages said that was taken in. */
  forget(): void {
    for (const name of namesIn(join(this.#path, "done"))) {
      const message = isDraft(name) ? undefined : this.#read(join(this.#path, "done", name));
      if (message !== undefined && message.text !== "" && message.text !== DAMAGED)
        this.#done({ ...message, text: "" });
    }
    if (checkDirectory(join(this.#path, "done"))) syncDirectory(join(this.#path, "done"));
  }

  #done(message: MessageFile): void {
    putFile(this.#doneFile(message.id), sealedText(message satisfies MessageFile), {
      lasting: false,
    });
  }

  /** With the session its an inbox message goes too. */
  removeAll(): void {
    if (checkDirectory(this.#path)) rmSync(this.#path, { recursive: true, force: true });
  }

  #file(id: string): string {
    return join(this.#path, messageName(id));
  }

  #doneFile(id: string): string {
    return join(this.#path, "done", messageName(id));
  }

  #read(path: string): MessageFile | undefined {
    return readInbox(path, this.#session);
  }
}
