/**
 * Mail, a file each, in the directory of its session: anybody may post, without the lock.
 *
 * M1  the system lets one file of a name be first, so an id is posted once.
 * M2  mail is taken in when its session's file says so; moving it to done/ only clears up, and may
 *     come later.
 * M3  mail belongs to a session's number: that of an older session of the same name is not there
 *     for a later one.
 */
import { lstatSync, rmSync } from "node:fs";
import { join } from "node:path";
import { highest } from "../../../core/values/highest.js";
import {
  drainedText,
  type InboxQuery,
  isDrained,
  type Mail,
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
import { glimpseMail, type MailFile, type MailHead, mailName, readMail } from "./mail-file.js";

type Known = Pick<MailFile, "text">;

/** Mail that waits has its text; of what was taken in there is less. */
const isKnown = (known: Known, { text }: Mail): boolean => isDrained(known.text, text);

const DRAFT_MS = 3_600_000;

export class Inbox {
  readonly #path: string;
  /** The number of the session whose mail it is. */
  readonly #session: number;

  constructor(sessionDirectory: string, session: number) {
    this.#path = join(sessionDirectory, "inbox");
    this.#session = session;
  }

  /** `mark` leaves a marker for those who look for mail (K1). */
  post(mail: Mail, drained: readonly string[], mark: () => void): Posted {
    const path = this.#file(mail.id);
    const before = this.#known(mail.id);
    if (before !== undefined) {
      // Its poster may not have said so to the disk yet, or ever.
      syncDirectory(this.#path);
      return isKnown(before, mail) ? "known" : "conflict";
    }
    makeDirectory(join(this.#path, "done"));
    const numbers = this.#all().map((known) => known.n);
    const n = 1 + highest(0, numbers);
    const text = sealedText({
      n,
      session: this.#session,
      id: mail.id,
      due: mail.due,
      text: mail.text,
    } satisfies MailFile);
    if (!addFile(path, text, { drafted: mark })) {
      const other = this.#known(mail.id);
      if (other !== undefined) return isKnown(other, mail) ? "known" : "conflict";
      // M3: it waits for a session that is no more.
      putFile(path, text, { drafted: mark });
    }
    // Between the look and the link another may have been posted, taken in and moved.
    const done = this.#read(this.#doneFile(mail.id));
    if (done === undefined && !drained.includes(mail.id)) return "posted";
    remove(path);
    return done === undefined || isKnown(done, mail) ? "known" : "conflict";
  }

  #known(id: string): Known | undefined {
    return this.#read(this.#doneFile(id)) ?? this.#read(this.#file(id));
  }

  /** Mail that waits, oldest first. */
  waiting(drained: readonly string[], query: InboxQuery): Mail[] {
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
    counts: (mail: MailHead) => boolean = () => true,
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

  #all(): MailHead[] {
    return this.#in(namesIn(this.#path).filter((name) => name.endsWith(".json") && !isDraft(name)));
  }

  /** Mail that waits in files of these names. */
  #in(names: readonly string[]): MailHead[] {
    checkDirectory(this.#path);
    return names
      .flatMap((name) => {
        const mail = glimpseMail(join(this.#path, name), this.#session);
        return mail !== undefined && this.#read(join(this.#path, "done", name)) === undefined
          ? [{ mail, name }]
          : [];
      })
      .sort((a, b) => a.mail.n - b.mail.n || (a.name < b.name ? -1 : 1))
      .map(({ mail }) => mail);
  }

  /** One that is damaged does not say what its id is: it is the one that was asked for. */
  #named(ids: readonly string[]): MailHead[] {
    return [...new Set(ids)]
      .flatMap((id) => this.#in([mailName(id)]).map((mail) => ({ ...mail, id })))
      .sort((a, b) => a.n - b.n);
  }

  /** Those of these ids that wait. */
  has(ids: readonly string[]): string[] {
    return ids.filter((id) => glimpseMail(this.#file(id), this.#session) !== undefined);
  }

  /**
   * M2: nothing is left of what was taken in but a digest, in a file that is there before the other
   * goes.
   */
  clear(drained: readonly string[]): void {
    const cleared = drained.flatMap((id) => {
      const mail = this.#read(this.#file(id));
      return mail === undefined ? [] : [{ ...mail, id }];
    });
    if (cleared.length === 0) return;
    for (const mail of cleared) this.#done({ ...mail, text: drainedText(mail.text) });
    syncDirectory(join(this.#path, "done"));
    for (const { id } of cleared) remove(this.#file(id));
    syncDirectory(this.#path);
  }

  /** Other words for mail that waits. */
  reword(
    drained: readonly string[],
    { id, text }: { readonly id: string; readonly text: string },
  ): void {
    const mail = this.#read(this.#file(id));
    if (mail !== undefined && !drained.includes(id))
      putFile(this.#file(id), sealedText({ ...mail, text } satisfies MailFile));
  }

  /** Forgets what mail said that was taken in. */
  forget(): void {
    for (const name of namesIn(join(this.#path, "done"))) {
      const mail = isDraft(name) ? undefined : this.#read(join(this.#path, "done", name));
      if (mail !== undefined && mail.text !== "" && mail.text !== DAMAGED)
        this.#done({ ...mail, text: "" });
    }
    if (checkDirectory(join(this.#path, "done"))) syncDirectory(join(this.#path, "done"));
  }

  #done(mail: MailFile): void {
    putFile(this.#doneFile(mail.id), sealedText(mail satisfies MailFile), { lasting: false });
  }

  /** With the session its mail goes too. */
  removeAll(): void {
    if (checkDirectory(this.#path)) rmSync(this.#path, { recursive: true, force: true });
  }

  #file(id: string): string {
    return join(this.#path, mailName(id));
  }

  #doneFile(id: string): string {
    return join(this.#path, "done", mailName(id));
  }

  #read(path: string): MailFile | undefined {
    return readMail(path, this.#session);
  }
}
