/** Changes to inboxes, as procedures: an inbox message is posted, and taken in. */
import type { Change } from "../port/changes.js";
import {
  drainedText,
  type InboxMessage,
  isDrained,
  type Posted,
  type StoreInbox,
  TURN_MESSAGES,
} from "../port/inbox.js";
import type { Access } from "./access.js";
import type { Job, Procedure } from "./database.js";
import { change, changed, look, row } from "./procedure.js";
import { inboxRow } from "./rows.js";
import { inboxBy, type Statements } from "./statements.js";

export class Inbox {
  readonly #sql: Statements;
  readonly #tenant: string;

  constructor(sql: Statements, tenant: string) {
    this.#sql = sql;
    this.#tenant = tenant;
  }

  /** `committed` is told of an inbox message that is new. */
  post(session: string, message: InboxMessage, committed: () => void): Job<Posted> {
    return {
      locks: [{ session }],
      steps: () => this.#post(session, message),
      refused: () => false,
      committed: (posted) => {
        if (posted === "posted") committed();
      },
    };
  }

  *#post(session: string, { id, text, due }: InboxMessage): Procedure<Posted> {
    if ((yield* changed(this.#sql.post, id, text, due, this.#tenant, session)) > 0) {
      const hasten = id.startsWith(TURN_MESSAGES) ? this.#sql.hastenUnlessWaits : this.#sql.hasten;
      yield [change(hasten, due, this.#tenant, session, due)];
      return "posted";
    }
    const [before, drained] = (yield* row(this.#sql.messageBody, this.#tenant, session, id)) ?? [];
    if (before === undefined) return "absent";
    return before === text || (drained === 1 && isDrained(before as string, text))
      ? "known"
      : "conflict";
  }

  *takeIn({ drained = [], reworded = [], forgets }: Change, no: number): Procedure<void> {
    const asks = reworded.map(({ id, text }) => change(this.#sql.reword, text, no, id));
    if (forgets) asks.push(change(this.#sql.forgetDrained, no));
    if (drained.length > 0) {
      if (asks.length > 0) yield asks.splice(0);
      const bodies = yield drained.map((id) => look(this.#sql.waitingBody, no, id));
      for (const [i, id] of drained.entries()) {
        const body = bodies[i]?.[0]?.[0];
        if (body !== undefined)
          asks.push(
            change(this.#sql.drain, typeof body === "string" ? drainedText(body) : "", no, id),
          );
      }
      asks.push(change(this.#sql.updateWake, no));
    }
    if (asks.length > 0) yield asks;
  }
}

export const inboxOf = (store: Access, inbox: Inbox): StoreInbox => ({
  post: (session, message) =>
    store.write(inbox.post(session, message, () => store.db.posted(session))),
  async list(session, query) {
    const { sql, tenant } = store;
    if (!("ids" in query))
      return (await store.read(sql.inbox, tenant, session, query.dueBy, query.limit)).map(inboxRow);
    const { ids } = query;
    store.checkOpen();
    return ids.length === 0
      ? []
      : (await store.read(inboxBy(ids.length), tenant, session, ...ids)).map(inboxRow);
  },
});
