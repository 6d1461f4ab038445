/** Bound the turns that wait in a session's inbox. */
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { InboxLimit } from "../../engine/journal/inbox-limit.js";
import type { PostOptions } from "../../engine/journal/post-inbox.js";
import { readInbox } from "../../engine/journal/read-inbox.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { BESIDE } from "../../engine/records/append-messages.js";
import type { InboxDoc } from "../../engine/records/rows.js";

const MAX_WAITING = 1_000;
/** Sessions whose count is remembered. */
const MOST_SESSIONS = 1_000;

export class WaitingTurns {
  readonly #ctx: StoreContext;
  readonly #rooms = new Map<SessionId, InboxLimit>();

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  /** Posts a turn. Throws TOO_LARGE where too many wait. */
  async post(id: SessionId, turn: InboxDoc, o: PostOptions): Promise<void> {
    const room = this.#rooms.get(id) ?? new InboxLimit(() => this.#left(id));
    // Those that were used last are remembered.
    this.#rooms.delete(id);
    this.#rooms.set(id, room);
    const [oldest] = this.#rooms.keys();
    if (oldest !== undefined && this.#rooms.size > MOST_SESSIONS) this.#rooms.delete(oldest);
    await room.post(() => this.#ctx.post(id, turn, o));
  }

  async #left(id: SessionId): Promise<number> {
    const waiting = (await readInbox(this.#ctx, id, BESIDE)).filter(
      ({ doc }) => doc.kind === "turn",
    ).length;
    if (waiting < MAX_WAITING) return MAX_WAITING - waiting;
    throw new HoldfastError(
      "TOO_LARGE",
      `${MAX_WAITING} turns wait in session ${quote(id)} already.`,
      {
        sessionId: id,
        limit: MAX_WAITING,
      },
    );
  }
}
