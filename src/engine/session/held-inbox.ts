/**
 * Take in what others post to a session while it is held: one look after the other, between its
 * steps.
 */
import type { CheckpointOptions } from "../../core/journal/checkpoint.js";
import type { Lease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { SessionId } from "../../core/values/ids.js";
import { superseded } from "../journal/lease-keeper.js";
import { changesInFlight, inboxFor, type OpenedMessage } from "../journal/read-inbox.js";
import type { StoreContext } from "../journal/store-context.js";
import type { InboxDoc } from "../records/rows.js";
import { lately } from "../util/yield-to-event-loop.js";
import { isOpen } from "./settle-calls.js";
import { mayAppend, takeIn } from "./take-in-inbox.js";
import type { WorkingCopy } from "./working-copy.js";

const INBOX_EVERY_MS = 200;

/** The held session, as far as its inbox is concerned. */
interface Taker {
  readonly id: SessionId;
  readonly ctx: StoreContext;
  readonly lease: Lease;
  readonly work: WorkingCopy;
  readonly ended: HoldfastError | undefined;
  /** It is going to another branch. */
  readonly isMoving: boolean;
  isStaged(inboxMessage: OpenedMessage): boolean;
  commit(mark: CheckpointOptions | undefined, drained: readonly string[]): Promise<unknown>;
  sendTaken(): Promise<void>;
  endsWith(saved: Promise<unknown>, error: HoldfastError): Promise<void>;
  endIfStale(error: unknown): unknown;
  wakeParent(): Promise<void>;
}

export class HeldInbox {
  readonly #held: Taker;
  /** It was just opened, and whoever opened it has looked. */
  #lookedAt = performance.now();
  #taking = Promise.resolve();
  /** Inbox messages that were there at the last look and could not be taken in. */
  #left: ReadonlySet<string> | undefined;
  #appendsWait = false;
  /**
   * A model is being asked: what is said to it is the transcript as it stands, and nothing comes
   * between that and its reply.
   */
  isAsking = false;

  constructor(held: Taker) {
    this.#held = held;
  }

  get left(): ReadonlySet<string> | undefined {
    return this.#left;
  }

  /** Resolves when no inbox message is being taken in. */
  idle(): Promise<void> {
    return this.#taking.catch(() => {});
  }

  /** Between steps, but not at every one of many quick saves: heartbeats look as well. */
  takeInboxNowAndThen(): void {
    if (lately() - this.#lookedAt > INBOX_EVERY_MS) this.takeInboxSoon();
  }

  takeInboxSoon(posted?: InboxDoc["kind"]): void {
    // A run that comes to its next step before the look is done looks itself.
    if (posted === "append") this.#appendsWait = true;
    this.#lookedAt = performance.now();
    void this.takeInbox({ ends: true }).catch(() => {
      // Left in the inbox: the next save or beat tries again.
    });
  }

  /**
   * Takes in what others have posted. A holder that is at work is ended by a cancel, so that it
   * stops; one that has just opened the session, or is about to let go of it, is not.
   */
  takeInbox(o: { readonly ends: boolean }): Promise<void> {
    // One after the other: what one look has staged must not be staged by the next.
    this.#taking = this.#taking.catch(() => {}).then(() => this.#takeInbox(o));
    return this.#taking;
  }

  /**
   * Between two steps of a run: messages from outside that could not be taken in when they came.
   */
  async takeWaiting(): Promise<void> {
    if (!this.#appendsWait) return;
    await this.takeInbox({ ends: true }).catch(() => {
      // Left in the inbox, or on its way: the next look or save tries again. The run does not fail
      // by what others say to it.
    });
  }

  /**
   * Takes in an inbox message that was not posted. It is written while no other is taken in.
   * Answers whether there is one, and it could be.
   */
  async takeMessage(write: () => Promise<OpenedMessage | undefined>): Promise<boolean> {
    const held = this.#held;
    const taking = this.#taking
      .catch(() => {})
      .then(async () => {
        await held.sendTaken();
        const inboxMessage = await write();
        if (inboxMessage === undefined) return false;
        await this.#rewordKeys([inboxMessage]);
        return (
          held.work.isSaved &&
          mayAppend(held.work) &&
          (await this.#save([inboxMessage], { ends: false })).length > 0
        );
      });
    this.#taking = taking.then(
      () => {},
      () => {},
    );
    return taking;
  }

  async #takeInbox({ ends }: { readonly ends: boolean }): Promise<void> {
    const held = this.#held;
    for (;;) {
      await held.sendTaken();
      const all = await inboxFor(held.ctx, held.id, () => !this.isAsking && mayAppend(held.work));
      await this.#rewordKeys(all);
      // What is staged already, and could not be sealed, is not to be staged again.
      const inboxMessages = all.filter((inboxMessage) => !held.isStaged(inboxMessage));
      // Before it is taken in: whoever is killed behind that tells nobody any more, and a parent
      // would sleep on.
      const isTaken =
        held.work.isSaved &&
        inboxMessages.some(
          (inboxMessage) =>
            changesInFlight(inboxMessage) && (inboxMessage.doc.kind !== "wake" || !ends),
        );
      if (isTaken) await held.wakeParent();
      this.#left = undefined;
      this.#appendsWait = inboxMessages.some(({ doc }) => doc.kind === "append");
      if (held.ended || held.isMoving) return;
      const cancel = cancelIn(inboxMessages, held.work);
      // What a caller by hand has staged is not to be saved by somebody else's inbox message; a
      // cancel cannot wait for it.
      if (cancel === undefined && !held.work.isSaved) return;
      const taken = await this.#save(inboxMessages, { ends, cancel });
      this.#left = new Set(
        inboxMessages.filter((inboxMessage) => !taken.includes(inboxMessage)).map(({ id }) => id),
      );
      this.#appendsWait = inboxMessages.some(
        (inboxMessage) => inboxMessage.doc.kind === "append" && !taken.includes(inboxMessage),
      );
      if (taken.length === 0 || (cancel !== undefined && ends)) return;
    }
  }

  /**
   * Whoever posted a key first may have failed, and others have sent something else under it: what
   * is kept of it is what is appended.
   */
  async #rewordKeys(inboxMessages: readonly OpenedMessage[]): Promise<void> {
    const reworded = inboxMessages.flatMap(({ appended }) => appended?.reworded ?? []);
    if (reworded.length === 0) return;
    const { id: session, ctx, lease } = this.#held;
    const applied = await ctx.store.apply([{ session, when: { epoch: lease.epoch }, reworded }]);
    if (!applied.ok) throw this.#held.endIfStale(superseded(session));
  }

  /** Stages what inbox messages change, and saves it. Answers those that are taken in. */
  async #save(
    inboxMessages: readonly OpenedMessage[],
    { ends, cancel }: { readonly ends: boolean; readonly cancel?: OpenedMessage | undefined },
  ): Promise<readonly OpenedMessage[]> {
    const held = this.#held;
    const taken = takeIn(held.work, inboxMessages, { isAtWork: ends, appends: !this.isAsking });
    if (taken.length === 0) return taken;
    const drained = taken.flatMap(({ id, appended }) => appended?.drained ?? [id]);
    const saved = held.commit(markFor(held.work, taken, cancel), drained);
    // It is sealed, and this holder ends with it: what came of a call in the meantime would be
    // work, and take the cancel back.
    await (cancel !== undefined && ends ? held.endsWith(saved, cancelled(held.id, cancel)) : saved);
    if (taken.some(changesInFlight)) await held.wakeParent();
    return taken;
  }
}

/** The inbox message that cancels what is under way. */
function cancelIn(
  inboxMessages: readonly OpenedMessage[],
  work: WorkingCopy,
): OpenedMessage | undefined {
  const { turn } = work.fold.inFlight;
  return inboxMessages.find(
    ({ doc }) =>
      doc.kind === "cancel" && (doc.turn === undefined || (doc.turn === turn?.id && isOpen(work))),
  );
}

/** What was appended to a session that no agent is at can be forked from, and gone back to. */
function markFor(
  work: WorkingCopy,
  taken: readonly OpenedMessage[],
  cancel: OpenedMessage | undefined,
): CheckpointOptions | undefined {
  if (cancel !== undefined) return { kind: "automatic" };
  const isAppended = !work.isSaved && taken.some(({ doc }) => doc.kind === "append");
  return isAppended && !isOpen(work) ? { kind: "automatic", step: work.fold.step } : undefined;
}

function cancelled(id: SessionId, { doc }: OpenedMessage): HoldfastError {
  const reason = (doc.kind === "cancel" ? doc.reason : undefined) ?? "cancelled";
  return new HoldfastError(
    "BAD_STATUS",
    `Session ${quote(id)} was cancelled: ${quote(reason)}. Open it again to go on with it.`,
    {
      sessionId: id,
      found: "cancelled",
    },
  );
}
