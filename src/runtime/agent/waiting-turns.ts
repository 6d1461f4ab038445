/**
 * Bound the turns that wait in a session's inbox.
 *
 * WAITING-1  The turns are counted before the first one of this process, and again after every `STEP`. So a thousand submits do not read a
 *            thousand letters each, and each other process may pass the bound by `STEP` at most.
 */
import { HoldfastError, quote } from "../../core/errors.js";
import type { SessionId } from "../../core/ids.js";
import type { Ground } from "../ground.js";
import { readMail } from "../inbox.js";
import { BESIDE } from "../letters.js";

const MAX_WAITING = 1_000;
const STEP = 50;
/** Sessions whose count is remembered. */
const MOST_SESSIONS = 1_000;

export class WaitingTurns {
  readonly #ground: Ground;
  /** How many more turns may be posted before they are counted again. */
  readonly #left = new Map<SessionId, number>();

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** Make room for one more turn, or throw TOO_LARGE. */
  async admit(id: SessionId): Promise<void> {
    const left = this.#left.get(id) ?? (await this.#room(id));
    this.#left.delete(id);
    if (left > 1) this.#left.set(id, left - 1);
    const [oldest] = this.#left.keys();
    if (oldest !== undefined && this.#left.size > MOST_SESSIONS) this.#left.delete(oldest);
  }

  async #room(id: SessionId): Promise<number> {
    const waiting = (await readMail(this.#ground, id, BESIDE)).filter(({ doc }) => doc.kind === "turn").length;
    if (waiting < MAX_WAITING) return Math.min(STEP, MAX_WAITING - waiting);
    throw new HoldfastError("TOO_LARGE", `${MAX_WAITING} turns wait in session ${quote(id)} already.`, {
      sessionId: id,
      limit: MAX_WAITING,
    });
  }
}
