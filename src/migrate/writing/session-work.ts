/**
 * The writing of one session: its steps in order, each after the one that it follows, and at the
 * end where it stands and what is said of it.
 */
import { HoldfastError, quote } from "../../core/values/errors.js";
import type {
  Checkpoint,
  CheckpointOptions,
  JsonObject,
  Session,
  SessionUpdate,
} from "../../index.js";
import { present, withSource } from "../reading/fields.js";
import type { Content, ForeignSession, Step } from "../reading/model.js";
import type { MigratedSession } from "../reading/report.js";
import { type Conflict, keyOf, markOf, type Plan, sourceIn } from "./plan.js";
import { saveStep } from "./save-step.js";
import { give, labelBy, labelOver } from "./session-words.js";
import { checkpointsOf } from "./standing.js";
import { isOfSession, isRefused, type Writing } from "./writing.js";

export class SessionWork {
  readonly #writing: Writing;
  readonly #session: ForeignSession;
  readonly #plan: Plan;
  /** The checkpoint that it begins at, in a fork. */
  readonly #forkPoint: string | undefined;
  /** How many steps come before what is new. */
  readonly #known: number;
  /** Our checkpoints by the keys of steps, and by the steps' ids. */
  readonly #places: Map<string, string>;
  readonly #ids = new Map<string, string>();
  /**
   * What follows a step goes here: after its checkpoint, or, where it was refused, to where that
   * would have gone.
   */
  readonly #under = new Map<string, string>();
  /** Where the session stands; and the checkpoint of the last step before this one that has one. */
  #head: string | undefined;
  #before: string | undefined;
  #conflict: Conflict | undefined;
  #isThere: boolean;
  /**
   * Whether it was found, once it was held, as it was planned; and whether it says that an import
   * is under way.
   */
  #isChecked: boolean;
  #isUnfinished: boolean;
  #done = 0;
  #imported = 0;
  /**
   * The last step so far that is here, and what a snapshot notes of a session that stands at it.
   */
  #last: Step | undefined;
  #label:
    | { readonly step: Step; readonly count: number; readonly label: SessionUpdate }
    | undefined;
  #held: Session | undefined;

  constructor(
    writing: Writing,
    session: ForeignSession,
    plan: Plan,
    { forkPoint, isThere }: { readonly forkPoint: string | undefined; readonly isThere: boolean },
  ) {
    const isHere = writing.into === writing.seen;
    this.#writing = writing;
    this.#session = session;
    this.#plan = plan;
    this.#forkPoint = forkPoint;
    this.#known = isHere ? plan.known : 0;
    this.#places = new Map(isHere ? plan.places : []);
    this.#head = isThere ? plan.head : forkPoint;
    this.#before = this.#head;
    this.#conflict = plan.conflict;
    this.#isThere = isThere;
    this.#isChecked = !isHere;
    this.#isUnfinished = plan.isUnfinished || !isHere;
    for (const step of session.steps) this.#note(step, this.#places.get(keyOf(step)));
  }

  get id(): string {
    return this.#session.id;
  }

  get conflict(): Conflict | undefined {
    return this.#conflict;
  }

  get isThrough(): boolean {
    return this.#done === this.#session.steps.length;
  }

  placeOf(step: string): string | undefined {
    return this.#ids.get(step);
  }

  /** It cannot be written: it is left as it is. */
  leave(message: string): void {
    this.#conflict ??= { message, isOther: false };
  }

  #note(step: Step, place: string | undefined): void {
    if (place === undefined) return;
    this.#places.set(keyOf(step), place);
    if (!this.#ids.has(step.id)) this.#ids.set(step.id, place);
    if (!this.#under.has(step.id)) this.#under.set(step.id, place);
  }

  async step(step: Step): Promise<void> {
    if (this.#conflict === undefined && !this.#plan.late.has(step)) {
      const back = this.#done < this.#known ? this.#head : undefined;
      if (!this.#places.has(keyOf(step))) await this.#write(step, back);
      const place = this.#places.get(keyOf(step));
      this.#before = place ?? this.#before;
      if (place !== undefined) this.#last = step;
    }
    this.#done += 1;
  }

  /**
   * What the source said of the session at the last step so far: what would be written if the
   * source ended there.
   */
  async label(): Promise<SessionUpdate | undefined> {
    const { trial, report } = this.#writing;
    const step = this.#last;
    const count = this.#places.size;
    // A session that is elsewhere, from an import before, keeps the label that it has there.
    const isThere =
      step !== undefined &&
      this.#conflict === undefined &&
      this.#places.get(keyOf(step)) === this.#head;
    if (step?.words === undefined || !isThere) return undefined;
    if (this.#label?.step === step && this.#label.count === count) return this.#label.label;
    const { foreign, identity, current } = this.#session;
    const then = {
      id: this.id,
      foreign,
      at: undefined,
      ...step.words,
      steps: [step],
      ...(current && { current: step }),
    };
    const known = {
      kind: this.#writing.kind,
      id: foreign,
      ...present({ identity, at: keyOf(step) }),
      count,
      mark: markOf(then),
    };
    const label = await give(
      labelBy(step.words, known),
      (update) => trial.label(update),
      (word, why) =>
        report.skip(
          step.path,
          `The ${word} of session ${quote(this.id)} in checkpoint ${quote(step.id)}: ${why}`,
        ),
    );
    this.#label = { step, count, label };
    return label;
  }

  /** `back`: where the session goes again, once the step stands beside its own way. */
  async #write(step: Step, back: string | undefined): Promise<void> {
    const { report, trial } = this.#writing;
    const after =
      (step.parent === undefined ? undefined : this.#under.get(step.parent)) ?? this.#before;
    try {
      const content = await step.load();
      const mark = { ...content.mark, metadata: this.#metadata(step, content) };
      if (after !== this.#head) await trial.step(content, mark);
      await this.#save(step, after, content, mark);
      if (back !== undefined) await this.#goTo(back, step.at);
    } catch (error) {
      if (isRefused(error)) {
        report.skip(step.path, `Checkpoint ${quote(step.id)}: ${error.message}`);
        if (after !== undefined && !this.#under.has(step.id)) this.#under.set(step.id, after);
      } else this.#fails(error);
      // What was staged of it goes.
      await this.release();
    }
  }

  async #save(
    step: Step,
    after: string | undefined,
    content: Content,
    mark: CheckpointOptions,
  ): Promise<void> {
    const { report } = this.#writing;
    await this.#goTo(after, step.at);
    const session = await this.#hold(step.at);
    await saveStep(session, content, mark);
    const made = session.head as Checkpoint;
    this.#head = made.id;
    if (!this.#plan.places.has(keyOf(step))) this.#imported += 1;
    this.#note(step, made.id);
    report.stored(step.path, step.bytes);
    if (step.twin !== undefined) report.stored(step.twin.path, step.twin.bytes);
  }

  #metadata(step: Step, content: Content): JsonObject {
    const { kind } = this.#writing;
    return withSource(content.metadata, {
      kind,
      session: this.#session.foreign,
      id: step.id,
      digest: step.digest,
      ...content.source,
    });
  }

  async #goTo(place: string | undefined, at: number | undefined): Promise<void> {
    if (place === undefined || place === this.#head) return;
    await (await this.#hold(at)).rewind(place);
    this.#head = place;
  }

  async #hold(at: number | undefined): Promise<Session> {
    const { into, clock, kind } = this.#writing;
    const { id, agent, foreign, at: begun } = this.#session;
    if (this.#held === undefined) {
      clock.at = begun ?? at ?? clock.at;
      await this.#fork();
      const about = {
        ...(agent !== undefined && !this.#isThere && { agent }),
        metadata: { source: { kind, id: foreign } },
      };
      this.#held = await into.session(id, about);
      await this.#refuseChanged(this.#held);
      this.#isThere = true;
    }
    clock.at = at ?? clock.at;
    return this.#held;
  }

  async #fork(): Promise<void> {
    if (this.#isThere || this.#forkPoint === undefined) return;
    await this.#writing.into.sessions.fork(this.#forkPoint, { id: this.#session.id });
    this.#isThere = true;
    this.#isChecked = true;
  }

  /** Somebody else may have been at it between the plan and the lease: another import, say. */
  async #refuseChanged({ id, metadata, head }: Session): Promise<void> {
    const { into } = this.#writing;
    const source = sourceIn(metadata);
    const isOurs = this.#forkPoint !== undefined || source?.["id"] === this.#session.foreign;
    const isSame = this.#isChecked || (await checkpointsOf(into, id)).length === this.#plan.count;
    if (!isOurs || head?.id !== this.#head || !isSame)
      throw new HoldfastError(
        "STALE_LEASE",
        `Session ${quote(id)} was changed by somebody else meanwhile. Run the import again.`,
        {
          sessionId: id,
        },
      );
    this.#isChecked = true;
    if (this.#isUnfinished) return;
    // IMPORT-4: killed from here on, it stands where nobody has put it.
    await into.sessions.update(id, {
      metadata: { ...metadata, source: { ...source, isUnfinished: true } },
    });
    this.#isUnfinished = true;
  }

  /** One session cannot be written: the others are. */
  #fails(error: unknown): void {
    if (!isOfSession(error)) throw error;
    this.leave(error.message);
  }

  async end(): Promise<MigratedSession> {
    if (this.#conflict === undefined) {
      try {
        await this.#settle();
      } catch (error) {
        this.#fails(error);
      }
    }
    await this.release();
    const { outcome: planned, isRelabelled } = this.#plan;
    const checkpoints = this.#imported;
    if (this.#conflict !== undefined)
      return { id: this.id, outcome: "conflict", checkpoints, message: this.#conflict.message };
    // What was refused is tried again each time, and is no growth.
    const isKnown = planned === "grown" && checkpoints === 0 && !isRelabelled;
    return {
      id: this.id,
      outcome: !this.#isThere ? "refused" : isKnown ? "known" : planned,
      checkpoints,
    };
  }

  /** Puts the session where the source says that it stands, and what is said of it beside it. */
  async #settle(): Promise<void> {
    const { into, kind, clock, report } = this.#writing;
    const { current, identity, foreign, at, id, steps } = this.#session;
    clock.at = at ?? clock.at;
    // A fork that nothing was added to is there all the same.
    await this.#fork();
    const before = this.#isThere ? await into.sessions.get(id) : undefined;
    if (before === undefined) return;
    if (this.#places.size === 0 && this.#forkPoint === undefined) {
      // All its steps were refused: an empty session would say that there was nothing.
      await this.release();
      await into.sessions.delete(id);
      this.#isThere = false;
      return;
    }
    const source = sourceIn(before.metadata) ?? {};
    const mark = markOf(this.#session);
    const isSaid =
      source["mark"] === mark && source["id"] === foreign && source["isUnfinished"] !== true;
    if (isSaid) return;
    // Killed in between, it may stand beside its own way.
    const end = this.#plan.isUnfinished ? this.#before : undefined;
    await this.#goTo((current && this.#places.get(keyOf(current))) ?? end, current?.at);
    await this.release();
    const [here] = [...this.#places].find(([, place]) => place === this.#head) ?? [];
    const had =
      source["id"] === foreign && typeof source["count"] === "number" ? source["count"] : 0;
    const count = Math.max(had + this.#imported, this.#places.size);
    const known = { kind, id: foreign, ...present({ identity, at: here }), count, mark };
    const path = steps.at(-1)?.path ?? foreign;
    await give(
      labelOver(before, source["id"] === foreign, this.#session, known),
      (update) => into.sessions.update(id, update),
      (word, why) => report.skip(path, `The ${word} of session ${quote(id)}: ${why}`),
    );
  }

  async release(): Promise<void> {
    const held = this.#held;
    this.#held = undefined;
    await held?.close({ discard: true });
  }
}
