/**
 * A session in the hands of its holder: the lease, the state it works on, and saves on their way.
 * What sessions by hand and the agent loop have in common.
 *
 * SAVE-3  once superseded, nothing this object does changes anything (D5).
 */
import type { Checkpoint, CheckpointOptions } from "../../core/journal/checkpoint.js";
import type { Lease } from "../../core/sessions/lease.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { BranchId, SessionId } from "../../core/values/ids.js";
import type { Change } from "../../store/port/changes.js";
import type { DocChange } from "../../store/port/documents.js";
import { type Holder, outdone, superseded } from "../journal/lease-keeper.js";
import type { OpenedMessage } from "../journal/read-inbox.js";
import type { StoreContext } from "../journal/store-context.js";
import { tellEvent } from "../journal/telemetry.js";
import { type HeadDoc, headRow, type InboxDoc, type LabelDoc, leaseRow } from "../records/rows.js";
import { abortController } from "../util/abort-signals.js";
import { HeldInbox } from "./held-inbox.js";
import { bringFiles, tryMessages } from "./named-files.js";
import { putBackLease } from "./release-lease.js";
import { retryPatiently } from "./retry-patiently.js";
import { SaveQueue } from "./save-queue.js";
import { type Standing, WorkingCopy } from "./working-copy.js";

export interface Opening extends Standing {
  readonly label: LabelDoc;
  readonly lease: Lease;
  readonly leaseMs: number;
}

/**
 * For how long a store that is away is waited for: with an outcome, and before anything has
 * happened.
 */
const OUTCOME_MS = 60_000;
const STEP_MS = 10_000;
const NONE: readonly string[] = [];

export class HeldSession implements Holder {
  readonly id: SessionId;
  readonly leaseMs: number;
  lease: Lease;
  readonly ctx: StoreContext;
  readonly label: LabelDoc;
  readonly inbox: HeldInbox;
  /** Another one after a rewind or a switchBranch. */
  #work: WorkingCopy;
  readonly #queue: SaveQueue;
  readonly #abort = abortController();
  /** Inbox messages whose changes are staged, to be drained with the save that has these. */
  readonly #drained = new Set<string>();
  #moving = false;
  #ended: HoldfastError | undefined;

  constructor(ctx: StoreContext, opening: Opening) {
    this.ctx = ctx;
    this.id = opening.head.id;
    this.leaseMs = opening.leaseMs;
    this.lease = opening.lease;
    this.label = opening.label;
    this.#work = new WorkingCopy(ctx, opening);
    this.#queue = new SaveQueue(ctx, this.id, opening.lease.epoch, ({ checkpoint }) =>
      this.#tell(checkpoint),
    );
    this.inbox = new HeldInbox(this);
    ctx.keeper.add(this);
  }

  get work(): WorkingCopy {
    return this.#work;
  }

  get branch(): BranchId {
    return this.#work.head.branch;
  }

  /**
   * Aborts when the lease is lost, the session cancelled or the store closed; the reason says
   * which.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get ended(): HoldfastError | undefined {
    return this.#ended;
  }

  get isMoving(): boolean {
    return this.#moving;
  }

  /** Nothing is staged, and nothing on its way. */
  get isQuiet(): boolean {
    return this.#work.isSaved && this.#queue.isEmpty;
  }

  /** The last record that is in the store, as far as this holder knows. */
  get storedUpTo(): number {
    return this.#queue.isEmpty ? this.#work.fold.seq : this.#queue.sentUpTo;
  }

  usable(): void {
    if (this.#ended) throw this.#ended;
    if (this.#moving) {
      throw new HoldfastError(
        "BAD_STATUS",
        `Session ${quote(this.id)} is going to another branch. Wait for rewind or switchBranch to resolve.`,
        {
          sessionId: this.id,
        },
      );
    }
  }

  // ---- saving

  /**
   * Makes everything staged durable, with a checkpoint at its end. `alongside`: what else is
   * changed in the same step.
   */
  async checkpoint(
    mark: CheckpointOptions,
    alongside?: (checkpoint: Checkpoint) => readonly DocChange[],
  ): Promise<Checkpoint> {
    return (await this.commit(mark, [], alongside)) as Checkpoint;
  }

  /** Throws where a message could not be appended and saved; stages nothing. */
  async tryMessage(message: unknown): Promise<void> {
    await tryMessages(this.ctx.store, this.#work, [this.#work.encode(message, "input")]);
  }

  /** Makes everything staged durable. What is staged when this is called is one save. */
  async commit(
    mark?: CheckpointOptions,
    drained: readonly string[] = [],
    alongside?: (checkpoint: Checkpoint) => readonly DocChange[],
  ): Promise<Checkpoint | undefined> {
    this.usable();
    // What follows may fail before anything is sealed: whichever save comes to have what is staged
    // takes them in.
    for (const id of drained) this.#drained.add(id);
    const named = this.#work.foreignFiles();
    if (named.length > 0) await bringFiles(this.ctx.store, this.#work, named);
    this.usable();
    if (mark === undefined && this.#work.isSaved) {
      await this.flush();
      await this.#applyHead();
      return undefined;
    }
    const sealed = this.#work.seal(mark, this.#takeDrained());
    const docs = sealed.checkpoint && alongside?.(sealed.checkpoint);
    try {
      await this.#queue.send(docs === undefined ? sealed : { ...sealed, docs });
    } catch (error) {
      // What goes with something else is not sent again: this holder knows of a save that may not
      // be there, and ends.
      if (docs !== undefined && error instanceof HoldfastError) this.superseded(error);
      throw this.endIfStale(error);
    }
    this.inbox.takeInboxNowAndThen();
    return sealed.checkpoint;
  }

  #tell(checkpoint: Checkpoint | undefined): void {
    if (checkpoint === undefined) return;
    tellEvent(this.ctx.telemetry, () => ({
      type: "checkpoint",
      sessionId: this.id,
      agent: this.#work.head.agent,
      checkpoint,
    }));
  }

  /**
   * The same for what would be paid for twice, or be in doubt: a reply, and that a call is begun.
   * Not at once given up for a passing reason.
   */
  commitStep(mark?: CheckpointOptions, drained: readonly string[] = []): Promise<void> {
    return this.#patiently(STEP_MS, mark, drained);
  }

  /**
   * The same for the outcome of a call that has been made, which would otherwise be one of which
   * nobody knows.
   */
  commitSurely(mark?: CheckpointOptions): Promise<void> {
    return this.#patiently(OUTCOME_MS, mark, []);
  }

  /** While the store is busy, full or away, it is tried again. */
  #patiently(
    patienceMs: number,
    mark: CheckpointOptions | undefined,
    drained: readonly string[],
  ): Promise<void> {
    return retryPatiently(patienceMs, {
      // Once it is sealed it waits in the queue, and is sent again from there. A file that could
      // not be read comes before that.
      attempt: (isFirst) =>
        isFirst || !this.#work.isSaved ? this.commit(mark, drained) : this.flush(),
      isOver: () => this.#ended !== undefined,
      signal: this.signal,
    });
  }

  /** Without a record: when the session is due again, and inbox messages that change nothing. */
  async #applyHead(): Promise<void> {
    const head = this.#work.takeHead();
    const drained = this.#takeDrained();
    if (head === undefined && drained.length === 0) return;
    const change = {
      session: this.id,
      when: { epoch: this.lease.epoch },
      drained,
      ...(head && { head: headRow(head) }),
    };
    const applied = await this.ctx.store.apply([change]).catch((error: unknown) => {
      // They go with the next one.
      if (head !== undefined) this.#work.headAgain();
      for (const id of drained) this.#drained.add(id);
      throw error;
    });
    if (!applied.ok) throw this.endIfStale(superseded(this.id));
    this.ctx.watchers.changed(this.id);
  }

  #takeDrained(): readonly string[] {
    if (this.#drained.size === 0) return NONE;
    const drained = [...this.#drained];
    this.#drained.clear();
    return drained;
  }

  /** How far the session has come. What was only begun again does not count. */
  get progress(): string {
    const { replies, messageCount, inFlight } = this.#work.fold;
    return `${this.branch} ${replies} ${messageCount} ${inFlight.doneCount}`;
  }

  /** Notes where the session was when it was last taken up, and how often in vain. */
  async noteAttempts(attempts: number): Promise<void> {
    const lease = { ...this.lease, attempts, seen: this.progress };
    const { epoch, until } = this.lease;
    const applied = await this.ctx.store.apply([
      { session: this.id, when: { epoch, until }, lease: leaseRow(this.id, lease) },
    ]);
    // Renewed in between: the next one carries it.
    this.lease = { ...this.lease, attempts, seen: lease.seen };
    if (!applied.ok && applied.why !== "until") throw this.endIfStale(superseded(this.id));
  }

  /**
   * Seals what is staged, to go with the next commit: it would do no harm to lose it. Answers
   * whether it could: files that are named have to be read first.
   */
  commitLater(mark: CheckpointOptions | undefined): boolean {
    this.usable();
    if (this.#work.foreignFiles().length > 0) return false;
    if (mark === undefined && this.#work.isSaved) return true;
    this.#queue.hold(this.#work.seal(mark, this.#takeDrained()));
    return true;
  }

  /** Resolves when nothing that was sealed is left to send. */
  async flush(): Promise<void> {
    await this.#queue.flush().catch((error: unknown) => {
      throw this.endIfStale(error);
    });
  }

  endIfStale(error: unknown): unknown {
    if (error instanceof HoldfastError && error.code === "STALE_LEASE") this.superseded(error);
    return this.#ended ?? error;
  }

  // ---- another branch

  /**
   * Going to another branch: everything staged must be saved, everything sealed sent, and nothing
   * may come in between.
   */
  async move(go: () => Promise<void>): Promise<void> {
    this.usable();
    if (!this.#work.isSaved)
      throw unsaved(
        this.id,
        "Checkpoint first, or close with { discard: true } and open it again.",
      );
    this.#moving = true;
    try {
      await this.#queue.flush();
      await go();
    } catch (error) {
      throw this.endIfStale(error);
    } finally {
      this.#moving = false;
    }
  }

  /**
   * Puts the session on a branch, begun with it or there before. Answers whether the branch could
   * be begun.
   */
  async moveTo(
    branch: BranchId,
    to: Omit<Standing, "head">,
    begun: Change["branch"],
    alongside: readonly DocChange[] = [],
  ): Promise<boolean> {
    // Whoever goes to another branch has said that the session goes on here.
    this.#work.joins();
    const { reason: _before, due: _due, ...rest } = this.#work.head;
    const { status, reason } = to.fold;
    const head: HeadDoc = {
      ...rest,
      branch,
      status,
      ...(reason === undefined ? undefined : { reason }),
    };
    const change = {
      session: this.id,
      when: { epoch: this.lease.epoch },
      head: headRow(head),
      ...(begun === undefined ? undefined : { branch: begun }),
    };
    const applied = await this.ctx.store.apply([change], alongside).catch((error: unknown) => {
      throw this.#endIfUnknown(error);
    });
    if (!applied.ok && applied.why === "forkPoint") return false;
    if (!applied.ok)
      throw applied.change === 0 ? this.endIfStale(superseded(this.id)) : outdone(this.id);
    this.#work = new WorkingCopy(this.ctx, { ...to, head });
    this.ctx.watchers.changed(this.id);
    return true;
  }

  /**
   * Where nobody can say which branch the session is on by now, this holder must not go on with
   * either.
   */
  #endIfUnknown(error: unknown): unknown {
    if (!(error instanceof HoldfastError) || (error.code !== "UNREACHABLE" && error.code !== "IO"))
      return error;
    const advice = `Whether session ${quote(this.id)} is on another branch now is unknown. Open it again to see.`;
    this.superseded(new HoldfastError(error.code, advice, { sessionId: this.id }, error));
    return this.#ended;
  }

  // ---- the inbox

  takeInboxSoon(posted?: InboxDoc["kind"]): void {
    this.inbox.takeInboxSoon(posted);
  }

  /** Whether an inbox message waits for the save that has what it changes. */
  isStaged(inboxMessage: OpenedMessage): boolean {
    return this.#drained.has(inboxMessage.id);
  }

  /**
   * Sends an inbox message that was taken in, and could not be saved for a passing reason: it would
   * be taken in again.
   */
  async sendTaken(): Promise<void> {
    if (this.#queue.takesInbox && this.#ended === undefined) await this.flush();
  }

  /** A session that runs another waits for it, and goes on when something has changed there. */
  async wakeParent(): Promise<void> {
    const { parent } = this.#work.head;
    if (parent !== undefined)
      await this.ctx.post(parent, { kind: "wake", child: this.id }).catch(() => {});
  }

  // ---- the end

  /** Ends with a save that is on its way. The signal aborts once it is there. */
  async endsWith(saved: Promise<unknown>, error: HoldfastError): Promise<void> {
    this.#ended = error;
    try {
      await saved;
    } finally {
      this.#abort.abort(this.#ended);
    }
  }

  superseded(error: HoldfastError): void {
    this.#ended ??= error;
    this.ctx.keeper.remove(this);
    this.#abort.abort(this.#ended);
  }

  /**
   * Lets go of the session. Staged work that was not saved throws, unless it is to be discarded.
   * `aborts`: under whoever works with it.
   */
  async close({
    discard,
    aborts = false,
  }: {
    readonly discard: boolean;
    readonly aborts?: boolean;
  }): Promise<void> {
    const stale = this.#ended?.code === "STALE_LEASE";
    if (this.#ended?.code === "CLOSED") return;
    if (!discard && !stale && !this.#ended) {
      if (!this.#work.isSaved)
        throw unsaved(this.id, "Checkpoint first, or close with { discard: true }.");
      await this.flush();
    }
    // What was posted to this holder is not left to the next: it may never come.
    if (!this.#ended) await this.inbox.takeInbox({ ends: false }).catch(() => {});
    // Ended by a cancel that is still on its way to the store.
    else if (!stale) await this.inbox.idle();
    this.ctx.keeper.remove(this);
    this.#ended = new HoldfastError(
      "CLOSED",
      `Session ${quote(this.id)} has been closed. Open it again.`,
      { sessionId: this.id },
    );
    if (aborts) this.#abort.abort(this.#ended);
    if (!stale) {
      await putBackLease(this.ctx.store, this.id, this.lease);
      await this.ctx.released(this.id, this.inbox.left);
    }
    this.ctx.watchers.changed(this.id);
  }
}

export function unsaved(session: string, advice: string): HoldfastError {
  return new HoldfastError(
    "UNSAVED",
    `Session ${quote(session)} has staged work that was not saved. ${advice}`,
    { sessionId: session },
  );
}
