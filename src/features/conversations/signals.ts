/**
 * Signals to a session. A signal is there once it is posted. It is taken in at once where a call
 * waits for it, and where it comes alone. In a burst the others wait in the inbox for a moment and
 * are taken in together: each would open the session, with all signals that wait.
 *
 * SIGNAL-1  whether a call waits for a signal is looked up after the signal was posted. A holder
 *           that begins to wait later looks at its inbox before it lets go, and finds the signal
 *           there.
 * SIGNAL-2  at most `MAX_SIGNALS` wait in the session and in its inbox together (INBOXLIMIT-1,
 *           INBOXLIMIT-2).
 */
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { InboxLimit } from "../../engine/journal/inbox-limit.js";
import { otherMessage } from "../../engine/journal/post-inbox.js";
import { readInbox } from "../../engine/journal/read-inbox.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { takeIn } from "../../engine/lifecycle/deliver-inbox.js";
import { keyOf } from "../../engine/records/append-messages.js";
import type { InboxDoc } from "../../engine/records/rows.js";
import { requireCapability } from "../../store/capabilities.js";
import { WAITS } from "../../store/port/inbox.js";

/** How many signals may wait for a call that waits for them. */
const MAX_SIGNALS = 1_000;
const TOGETHER_MS = 100;

/** A session to which signals were sent a moment ago. */
interface Burst {
  readonly room: InboxLimit;
  /** Whether signals were posted that nothing has taken in here. */
  isPosted: boolean;
  /** Whether one was sent since the timer last ran, and how many are being sent. */
  isFresh: boolean;
  sending: number;
  /**
   * The end of the session's branch when its calls were last looked at, and what they waited for
   * then.
   */
  end: string | undefined;
  names: ReadonlySet<string>;
  readonly timer: NodeJS.Timeout;
}

type Signal = Extract<InboxDoc, { readonly kind: "signal" }>;

export class Signals {
  readonly #ctx: StoreContext;
  readonly #bursts = new Map<SessionId, Burst>();

  constructor(ctx: StoreContext) {
    this.#ctx = ctx;
  }

  /** Posts a signal. The same key is the same signal. */
  async send(session: SessionId, signal: Signal, key: string | undefined): Promise<void> {
    requireCapability(this.#ctx.store, "inbox", "hold.sessions.signal");
    const known = this.#bursts.get(session);
    const burst = known ?? this.#begin(session);
    burst.sending += 1;
    try {
      await burst.room.post(() => this.#post(session, signal, key));
      if (known === undefined || (await this.#isWaitedFor(session, signal.name, burst)))
        await takeIn(this.#ctx, session);
      else burst.isPosted = true;
    } finally {
      burst.isFresh = true;
      burst.sending -= 1;
    }
  }

  async #post(session: SessionId, signal: Signal, key: string | undefined): Promise<void> {
    const id = key === undefined ? {} : { id: `signal:${keyOf(`${signal.name}\n${key}`)}` };
    if ((await this.#ctx.tryPost(session, signal, id)) === "conflict")
      throw otherMessage(session, key);
  }

  /**
   * Takes in what was posted and waits. With the store, and before it is read as a whole. A burst
   * that goes on is ended by its timer.
   */
  async flush(): Promise<void> {
    for (const [session, burst] of [...this.#bursts]) {
      await this.#takeIn(session, burst);
      if (burst.sending === 0 && !burst.isPosted) this.#end(session, burst);
    }
  }

  #begin(session: SessionId): Burst {
    const timer = setInterval(() => void this.#tick(session, burst), TOGETHER_MS).unref();
    const room = new InboxLimit(() => this.#left(session, burst));
    const burst: Burst = {
      room,
      isPosted: false,
      isFresh: true,
      sending: 0,
      end: undefined,
      names: new Set(),
      timer,
    };
    this.#bursts.set(session, burst);
    return burst;
  }

  /** Once no more come, what was posted is taken in, and the burst is over. */
  async #tick(session: SessionId, burst: Burst): Promise<void> {
    const isGoingOn = burst.isFresh || burst.sending > 0;
    burst.isFresh = false;
    if (isGoingOn) return;
    this.#end(session, burst);
    await this.#takeIn(session, burst);
  }

  #end(session: SessionId, burst: Burst): void {
    clearInterval(burst.timer);
    if (this.#bursts.get(session) === burst) this.#bursts.delete(session);
  }

  /**
   * Where it fails, the inbox messages are still there: the next that opens the session takes them
   * in.
   */
  async #takeIn(session: SessionId, burst: Burst): Promise<void> {
    if (!burst.isPosted) return;
    burst.isPosted = false;
    await takeIn(this.#ctx, session).catch(() => {});
  }

  /** For how many signals there is room. Throws where there is none. */
  async #left(session: SessionId, burst: Burst): Promise<number> {
    await this.#takeIn(session, burst);
    const present = await this.#ctx.journal.present(session);
    if (present === undefined) return 1;
    const { signals } = await this.#ctx.loader.inFlightAt(present);
    const posted = (await readInbox(this.#ctx, session)).filter(({ doc }) => doc.kind === "signal");
    const room = MAX_SIGNALS - signals.length - posted.length;
    if (room > 0) return room;
    throw new HoldfastError(
      "TOO_LARGE",
      `${MAX_SIGNALS} signals wait in session ${quote(session)}, and no tool has asked for them. Let the agent run, or send fewer.`,
      {
        sessionId: session,
        limit: MAX_SIGNALS,
      },
    );
  }

  /** SIGNAL-1. What calls wait for changes with a save only: until the next one it is known. */
  async #isWaitedFor(session: SessionId, name: string, burst: Burst): Promise<boolean> {
    const present = await this.#ctx.journal.present(session);
    if (present === undefined || !WAITS.includes(present.head.status)) return false;
    const end = `${present.head.branch} ${present.tail?.digest ?? ""}`;
    if (burst.end !== end) {
      const { open } = await this.#ctx.loader.inFlightAt(present);
      burst.names = new Set(
        open.flatMap(({ waits }) => (waits?.for === "signal" ? [waits.name] : [])),
      );
      burst.end = end;
    }
    return burst.names.has(name);
  }
}
