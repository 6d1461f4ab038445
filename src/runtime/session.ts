/**
 * A session in the hands of its holder: operations are staged, shown at once, and durable when the next checkpoint resolves.
 *
 * S3  once superseded, nothing this object does changes anything (D5).
 */
import { type Checkpoint, type CheckpointOptions, checkOptions, checkText, MAX_REASON } from "../core/checkpoint.js";
import { HoldfastError, quote } from "../core/errors.js";
import { checkpointPlace, type LineId, MAX_SEQ, type Place, placeId, type SessionId } from "../core/ids.js";
import { encode, type Json, type JsonObject, type Storable } from "../core/json.js";
import { type Lease, releaseLease } from "../core/lease.js";
import type { Message, MessageInput } from "../core/message.js";
import type { SessionStatus, StatusEvent } from "../core/status.js";
import type { Change } from "../store/port.js";
import { lately } from "./breathe.js";
import type { Ground } from "./ground.js";
import { historyOf } from "./history.js";
import { readMail } from "./inbox.js";
import { lineAt } from "./journal.js";
import { type Holder, superseded } from "./lease-keeper.js";
import { flag, limitOf, numberOf, options, type Page, wholeNumber } from "./options.js";
import { type HeadDoc, headRow, type LabelDoc, leaseRow, newLine } from "./rows.js";
import { SaveQueue } from "./save-queue.js";
import { type Standing, Workspace } from "./workspace.js";

export interface Opening extends Standing {
  readonly label: LabelDoc;
  readonly lease: Lease;
  readonly leaseMs: number;
}

/** Opens a fork that has just been made, in this process's hands. */
export type ForkOpener = (at: Place, id: unknown, from: Omit<Standing, "head"> | undefined) => Promise<Session>;

const MAIL_EVERY_MS = 200;

type Keys<S> = keyof S & string;

export class Session<S extends object = Record<string, Json>> implements Holder, AsyncDisposable {
  readonly id: SessionId;
  readonly leaseMs: number;
  lease: Lease;
  readonly #ground: Ground;
  readonly #openFork: ForkOpener;
  readonly #label: LabelDoc;
  /** Another one after a rewind or an adopt. */
  #work: Workspace;
  readonly #queue: SaveQueue;
  readonly #abort = new AbortController();
  /** It was just opened, and whoever opened it has looked. */
  #lookedForMailAt = performance.now();
  #moving = false;
  #ended: HoldfastError | undefined;

  /** Made by `hold.session` and `session.fork`, not by hand. */
  constructor(ground: Ground, opening: Opening, openFork: ForkOpener) {
    this.#ground = ground;
    this.#openFork = openFork;
    this.id = opening.head.id;
    this.leaseMs = opening.leaseMs;
    this.lease = opening.lease;
    this.#label = opening.label;
    this.#work = new Workspace(ground, opening);
    this.#queue = new SaveQueue(ground, this.id, opening.lease.epoch);
    ground.keeper.add(this);
  }

  // ---- what it holds

  get messages(): readonly Message[] {
    return this.#work.fold.messages;
  }

  get state(): Readonly<S> {
    return this.#work.fold.state as Readonly<S>;
  }

  get status(): SessionStatus {
    return this.#work.fold.status;
  }

  get reason(): string | undefined {
    return this.#work.fold.reason;
  }

  /** What `complete` was given. */
  get output(): Json | undefined {
    return this.#work.fold.output;
  }

  /** The newest checkpoint. */
  get head(): Checkpoint | undefined {
    return this.#work.latest;
  }

  get agent(): string | undefined {
    return this.#work.head.agent;
  }

  /** As they were when the session was opened. */
  get tags(): readonly string[] {
    return this.#label.tags;
  }

  get metadata(): JsonObject {
    return this.#label.metadata;
  }

  /** Aborts when the lease is lost or the session cancelled; the reason says which. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  // ---- staging

  /** Stages messages. One whose id is known already is passed over; the same id with other content is a CONFLICT. */
  append(...messages: readonly MessageInput[]): void {
    this.#usable();
    this.#work.append(messages);
  }

  set<K extends Keys<S>>(key: K, value: S[K] extends Json ? S[K] : S[K] & Storable<S[K]>): void {
    this.#usable();
    this.#work.set(key, value);
  }

  unset<K extends Keys<S>>(key: K): void {
    this.#usable();
    this.#work.unset(key);
  }

  /** Removes and puts in items of a list: the transcript under `messages`, or a list under a state key. */
  splice(key: string, start: number, deleteCount: number, ...items: readonly (Json | MessageInput)[]): void {
    this.#usable();
    this.#work.splice(key, start, deleteCount, items);
  }

  /** Takes a whole state and stages what differs from the present one. Parts that are not given stay as they are. */
  save(whole: { readonly messages?: readonly MessageInput[]; readonly state?: Partial<S> }): void {
    this.#usable();
    this.#work.save(whole);
  }

  // ---- saving

  /** Makes everything staged durable, with a checkpoint at its end. */
  checkpoint(label?: string | CheckpointOptions): Promise<Checkpoint> {
    return this.#save(label);
  }

  async complete(output?: Json): Promise<void> {
    await this.#finish("complete", undefined, output === undefined ? undefined : encode(output, "output").value);
  }

  async fail(reason: string): Promise<void> {
    await this.#finish("fail", checkText(reason, "reason", MAX_REASON));
  }

  async halt(reason: string): Promise<void> {
    await this.#finish("halt", checkText(reason, "reason", MAX_REASON));
  }

  async #finish(event: StatusEvent, reason?: string, output?: Json): Promise<void> {
    this.#usable();
    this.#work.event(event, reason, output);
    await this.#save({ kind: "automatic" });
  }

  async #save(label: string | CheckpointOptions | undefined, drained: readonly string[] = []): Promise<Checkpoint> {
    this.#usable();
    const given = checkOptions(label);
    for (const name of this.#work.foreignFiles()) {
      const bytes = await this.#ground.store.blob(name);
      if (bytes === undefined) this.#work.missesFile(name);
      // It comes with the save: whoever used it may be gone, and it with them, before this is there.
      else this.#work.bringsFile({ digest: name, bytes });
    }
    this.#usable();
    const sealed = this.#work.seal(given, drained);
    try {
      await this.#queue.send(sealed);
    } catch (error) {
      throw this.#endIfStale(error);
    }
    if (lately() - this.#lookedForMailAt > MAIL_EVERY_MS) this.takeMailSoon();
    return sealed.checkpoint;
  }

  #endIfStale(error: unknown): unknown {
    if (error instanceof HoldfastError && error.code === "STALE_LEASE") this.superseded(error);
    return this.#ended ?? error;
  }

  // ---- history

  /** Every message ever appended on this session's past, newest first: also those that a splice has taken out. */
  async history(o?: { readonly before?: number; readonly limit?: number; readonly cursor?: string }): Promise<Page<Message>> {
    const { before, limit, cursor } = options(o, "history", ["before", "limit", "cursor"]);
    const upTo = Math.min(
      // What is on its way to the store is not there yet.
      this.#queue.isEmpty ? this.#work.fold.seq : this.#queue.sentUpTo,
      before === undefined ? MAX_SEQ : wholeNumber(before, "before", 1, MAX_SEQ + 1) - 1,
      cursor === undefined ? MAX_SEQ : numberOf(cursor, "m") - 1,
    );
    return historyOf(this.#ground, this.#work.segments, upTo, limitOf(limit, "limit"));
  }

  // ---- lines

  /** A new session that begins at one of this session's checkpoints, or at any other. Nothing is copied. */
  async fork(at: string, o: { readonly id: string }): Promise<Session<S>> {
    this.#usable();
    const { id } = options(o, "fork", ["id"]);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    // The state at the newest checkpoint is in memory already, unless something was staged since.
    const { fold, end, segments, latest } = this.#work;
    const here = place.line === this.#line && place.seq === fold.seq && this.#work.isSaved && this.#queue.isEmpty;
    const from = here ? { fold: fold.copy(), end, segments, latest } : undefined;
    return (await this.#openFork(place, id, from)) as unknown as Session<S>;
  }

  /** Puts this session back to one of its checkpoints, on a new line. What came after is kept, on the old one. */
  async rewind(at: string): Promise<{ readonly passed: readonly [] }> {
    await this.#move(at, async (place) => {
      const segments = await this.#ground.journal.segments(place.line, place.seq);
      if (!(await this.#isOwnPast(place))) throw foreign(at, this.id, "fork from it instead");
      const { fold, end } = await this.#ground.loader.place(place, { sized: true });
      const line = this.#ground.newLineId();
      const latest = (await this.#ground.journal.checkpointAt(place))?.checkpoint;
      const here = { line, from: place.seq + 1, to: MAX_SEQ, session: this.id };
      await this.#moveTo(line, { fold, end, segments: [here, ...segments], latest }, newLine({ id: line, origin: place, prev: end }));
    });
    return { passed: [] };
  }

  /** Makes the line of one of this session's checkpoints the main one, at its end. */
  async adopt(at: string): Promise<void> {
    await this.#move(at, async ({ line }) => {
      const found = await this.#ground.journal.line(line);
      if (found?.session !== this.id) throw foreign(at, this.id, "only a line of the session itself can be adopted");
      const tail = await this.#ground.journal.tail(line);
      const { fold, end } = await this.#ground.loader.tail({ line: found.doc, tail }, { sized: true });
      const segments = await this.#ground.journal.segments(line);
      const latest = await this.#ground.journal.latest(tail, found.doc, this.id);
      await this.#moveTo(line, { fold, end, segments, latest }, undefined);
    });
  }

  /** Going to another line: everything staged must be saved, everything sealed sent, and nothing may come in between. */
  async #move(at: string, go: (place: Place) => Promise<void>): Promise<void> {
    this.#usable();
    if (!this.#work.isSaved) throw unsaved(this.id, "Checkpoint first, or close with { discard: true } and open it again.");
    this.#moving = true;
    try {
      await this.#queue.flush();
      await go(await this.#requirePlace(at));
    } catch (error) {
      throw this.#endIfStale(error);
    } finally {
      this.#moving = false;
    }
  }

  async #moveTo(line: LineId, to: Omit<Standing, "head">, begun: Change["line"]): Promise<void> {
    const { reason: _before, ...rest } = this.#work.head;
    const { status, reason } = to.fold;
    const head: HeadDoc = { ...rest, line, status, ...(reason === undefined ? undefined : { reason }) };
    const change = {
      session: this.id,
      when: { epoch: this.lease.epoch },
      head: headRow(head),
      ...(begun === undefined ? undefined : { line: begun }),
    };
    const applied = await this.#ground.store.apply([change]).catch((error: unknown) => {
      throw this.#endIfUnknown(error);
    });
    if (!applied.ok) {
      if (applied.why === "origin") throw notFound(begun?.origin ? placeId(begun.origin.line, begun.origin.seq) : line);
      throw this.#endIfStale(superseded(this.id));
    }
    this.#work = new Workspace(this.#ground, { ...to, head });
    this.#ground.watchers.changed(this.id);
  }

  /** Where nobody can say which line the session is on by now, this holder must not go on with either. */
  #endIfUnknown(error: unknown): unknown {
    if (!(error instanceof HoldfastError) || (error.code !== "UNREACHABLE" && error.code !== "IO")) return error;
    const advice = `Whether session ${quote(this.id)} is on another line now is unknown. Open it again to see.`;
    this.superseded(new HoldfastError(error.code, advice, { sessionId: this.id }, error));
    return this.#ended;
  }

  async #isOwnPast(place: Place): Promise<boolean> {
    if ((await this.#ground.journal.line(place.line))?.session === this.id) return true;
    return lineAt(this.#work.segments, place.seq) === place.line;
  }

  async #requirePlace(at: string): Promise<Place> {
    const place = checkpointPlace(at);
    const found = place && (await this.#ground.journal.saveAt(place));
    if (place === undefined || found === undefined || found.save.mark === null) throw notFound(at);
    return place;
  }

  // ---- the inbox

  /** Between steps, but not at every one of many quick saves: heartbeats look as well. */
  takeMailSoon(): void {
    this.#lookedForMailAt = performance.now();
    void this.takeMail({ ends: true }).catch(() => {
      // Left in the inbox: the next save or beat tries again.
    });
  }

  /**
   * Takes in what others have posted. A holder that is at work is ended by a cancel, so that it stops; one that has just opened the
   * session, or is about to let go of it, is not.
   */
  async takeMail({ ends }: { readonly ends: boolean }): Promise<void> {
    const mail = await readMail(this.#ground.store, this.id);
    const cancels = mail.filter(({ doc }) => doc.kind === "cancel");
    const [first] = cancels;
    if (first === undefined || this.#ended || this.#moving) return;
    const reason = first.doc.reason ?? "cancelled";
    this.#work.event("cancel", this.#work.fold.transition("cancel") === undefined ? undefined : reason);
    await this.#save(
      { kind: "automatic" },
      cancels.map(({ id }) => id),
    );
    if (!ends) return;
    this.#ended = new HoldfastError(
      "BAD_STATUS",
      `Session ${quote(this.id)} was cancelled: ${quote(reason)}. Open it again to go on with it.`,
      { sessionId: this.id, found: "cancelled" },
    );
    this.#abort.abort(this.#ended);
  }

  // ---- the end

  superseded(error: HoldfastError): void {
    this.#ended ??= error;
    this.#ground.keeper.remove(this);
    this.#abort.abort(this.#ended);
  }

  /** Lets go of the session. Staged work that was not saved throws, unless it is to be discarded. */
  async close(o?: { readonly discard?: boolean }): Promise<void> {
    const discard = flag(options(o, "close", ["discard"]).discard, "discard") ?? false;
    const stale = this.#ended?.code === "STALE_LEASE";
    if (this.#ended?.code === "CLOSED") return;
    if (!discard && !stale && !this.#ended) {
      if (!this.#work.isSaved) throw unsaved(this.id, "Checkpoint first, or close with { discard: true }.");
      await this.#queue.flush().catch((error: unknown) => {
        throw this.#endIfStale(error);
      });
    }
    // What was posted to this holder is not left to the next: it may never come.
    if (!this.#ended) await this.takeMail({ ends: false }).catch(() => {});
    this.#ground.keeper.remove(this);
    this.#ended = new HoldfastError("CLOSED", `Session ${quote(this.id)} has been closed. Open it again.`, { sessionId: this.id });
    if (!stale)
      await this.#ground.store.apply([
        { session: this.id, when: { epoch: this.lease.epoch }, lease: leaseRow(this.id, releaseLease(this.lease)) },
      ]);
    this.#ground.watchers.changed(this.id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const lost = !this.#ended && (!this.#work.isSaved || !this.#queue.isEmpty);
    await this.close({ discard: true });
    if (lost) throw unsaved(this.id, "It was discarded with the session.");
  }

  get #line(): LineId {
    return this.#work.head.line;
  }

  #usable(): void {
    if (this.#ended) throw this.#ended;
    if (this.#moving) {
      throw new HoldfastError("BAD_STATUS", `Session ${quote(this.id)} is going to another line. Wait for rewind or adopt to resolve.`, {
        sessionId: this.id,
      });
    }
  }
}

export function notFound(id: string): HoldfastError {
  return new HoldfastError("NOT_FOUND", `There is no checkpoint ${quote(id)}. List those of its session.`, { checkpointId: id });
}

function foreign(at: string, session: string, advice: string): HoldfastError {
  return new HoldfastError("CONFLICT", `Checkpoint ${quote(at)} is not in the past of session ${quote(session)}: ${advice}.`, {
    sessionId: session,
    checkpointId: at,
  });
}

function unsaved(session: string, advice: string): HoldfastError {
  return new HoldfastError("UNSAVED", `Session ${quote(session)} has staged work that was not saved. ${advice}`, { sessionId: session });
}
