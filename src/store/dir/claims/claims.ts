/**
 * What a claim may take: sessions that the index knows to be due, and those that an inbox message
 * waits for.
 */
import { join } from "node:path";
import { monotonicMs } from "../../machine.js";
import { type ClaimQuery, type Granting, MAX_CANDIDATES } from "../../port/claims.js";
import { isForNow } from "../../port/inbox.js";
import type { SessionRow } from "../../port/rows.js";
import { nameOf, pathOfName } from "../files/names.js";
import type { SessionIndex } from "../index/session-index.js";
import { Inbox } from "../sessions/inbox.js";
import { type SessionDoc, sessionRow } from "../sessions/session-file.js";
import type { Found, SessionFiles } from "../sessions/session-files.js";
import type { InboxMarkers } from "./inbox-markers.js";

interface Candidate {
  readonly id: string;
  readonly no: number;
  /** The first of what its head and its inbox messages say. */
  readonly due: number;
  readonly inboxDue: number;
}

const NEVER = Number.POSITIVE_INFINITY;

export class Claims {
  readonly #root: string;
  readonly #sessions: SessionFiles;
  readonly #index: SessionIndex;
  readonly #waiting: InboxMarkers;

  constructor(root: string, sessions: SessionFiles, index: SessionIndex, waiting: InboxMarkers) {
    this.#root = root;
    this.#sessions = sessions;
    this.#index = index;
    this.#waiting = waiting;
  }

  /**
   * The rows of what is due, in the order of a claim, read as they are asked for. `idle` is told of
   * markers behind which nothing waits. A session whose file is damaged is not offered.
   */
  *find(
    { agent, dueBy }: ClaimQuery,
    idle: (name: string) => void = () => {},
  ): Generator<SessionRow> {
    const found = new Map<string, Candidate>();
    for (const { id, no, due } of this.#index.catalogue.due(agent))
      if (due !== null && due <= dueBy) found.set(id, { id, no, due, inboxDue: NEVER });
    for (const { id, no, head, inboxDue } of this.#mailed(agent, idle)) {
      const due = Math.min(head?.due ?? NEVER, inboxDue);
      if (due <= dueBy) found.set(id, { id, no, due, inboxDue });
    }
    const inOrder = [...found.values()].sort((a, b) => a.due - b.due || a.no - b.no);
    for (const { id, inboxDue } of inOrder.slice(0, MAX_CANDIDATES)) {
      const doc = this.#sessions.find(id);
      const row = doc === undefined || doc === "damaged" ? undefined : sessionRow(doc);
      // Its own file is believed, where the index runs ahead of it.
      if (row?.head.agent === agent && Math.min(row.head.due ?? NEVER, inboxDue) <= dueBy)
        yield row;
    }
  }

  /**
   * Whether a claim would take something: `grant` passes over sessions that living owners hold.
   * With `settles` also whether it would find a marker behind which nothing waits: one who writes
   * removes it.
   */
  isWorth(query: ClaimQuery, grant: Granting, { settles }: { readonly settles: boolean }): boolean {
    if (query.limit <= 0) return false;
    let isIdle = false;
    const now = monotonicMs();
    for (const row of this.find(query, () => {
      isIdle = true;
    }))
      if (grant(row, now) !== undefined) return true;
    return settles && isIdle;
  }

  /** The agent's sessions that an inbox message waits for, and from when on. */
  *#mailed(
    agent: string,
    idle: (name: string) => void,
  ): Generator<SessionDoc & { readonly inboxDue: number }> {
    for (const name of this.#waiting.names()) {
      const doc = this.#docOf(name);
      // What is damaged, or is not there, may be restored: its marker stays. Of another agent's the
      // inbox need not be read.
      if (doc === undefined || doc === "damaged" || (doc.head !== null && doc.head.agent !== agent))
        continue;
      const inboxDue = this.#firstDue(doc);
      if (inboxDue === undefined) idle(name);
      else yield { ...doc, inboxDue };
    }
  }

  /** Removes the marker of a session, unless something waits for it (MARKER-2). */
  settle(name: string): void {
    this.#waiting.settle(name, () => {
      const doc = this.#docOf(name);
      if (doc === undefined || doc === "damaged") return true;
      // In this order: a draft that is gone by now has become inbox messages.
      return this.#inbox(doc).hasDraft() || this.#firstDue(doc) !== undefined;
    });
  }

  /**
   * Whether an inbox message waits for a session without a marker that says so: workers would not
   * find it.
   */
  isUnmarked(doc: SessionDoc): boolean {
    const name = nameOf(doc.id);
    // Looked at again: between the two looks it may have been taken in, and its marker removed.
    return (
      this.#firstDue(doc) !== undefined &&
      !this.#waiting.has(name) &&
      this.#firstDue(doc) !== undefined
    );
  }

  #firstDue(doc: SessionDoc): number | undefined {
    const { head, drained } = doc;
    return head === null
      ? undefined
      : this.#inbox(doc).firstDue(drained, (message) => isForNow(head, message));
  }

  /** A name that is no id says which directory it is, and the file there says whose. */
  #docOf(name: string): Found {
    if (nameOf(name) === name) return this.#sessions.find(name);
    const found = this.#sessions.at(join(this.#root, pathOfName(name)));
    if (found === undefined || found === "damaged") return found;
    return nameOf(found.id) === name ? this.#sessions.find(found.id) : "damaged";
  }

  #inbox({ id, no }: SessionDoc): Inbox {
    return new Inbox(this.#sessions.directory(id), no);
  }
}
