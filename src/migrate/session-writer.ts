/**
 * Writes sessions with the public API, one step at a time. `save` stages what differs from the step before, so what the source repeats is
 * stored once.
 */
import { HoldfastError, quote } from "../core/errors.js";
import type { Checkpoint, CheckpointOptions, Holdfast, JsonObject, Session } from "../index.js";
import { withSource } from "./fields.js";
import type { Content, ForeignSession, MigrationKind, Step } from "./model.js";
import { clipped, nameOf } from "./names.js";
import { type Decision, decide, keyOf, markOf, sourceIn } from "./plan.js";
import type { Report } from "./report.js";
import { checkpointsOf, standingOf } from "./standing.js";

/** The times that are written: what the source says, not when it was imported. */
export interface SourceClock {
  now(): number;
  at: number;
}

export interface Writing {
  readonly kind: MigrationKind;
  /** What is written to; in a dry run a store of its own. */
  readonly into: Holdfast;
  /** What it is planned against. */
  readonly seen: Holdfast | undefined;
  readonly clock: SourceClock;
  readonly report: Report;
}

/** Values that Holdfast refuses: the step is left out, and the rest goes on. */
const REFUSED: ReadonlySet<string> = new Set(["INVALID_VALUE", "INVALID_ID", "INVALID_OPTION", "TOO_LARGE", "CONFLICT", "BAD_STATUS"]);
/** What concerns one session: it is left as it is. */
const OF_SESSION: ReadonlySet<string> = new Set(["LEASE_HELD", "STALE_LEASE", "CORRUPT", "CONFLICT", "IN_DOUBT"]);
const MAX_REASON = 100_000;

export const isRefused = (error: unknown): error is HoldfastError => error instanceof HoldfastError && REFUSED.has(error.code);

interface Work {
  readonly session: ForeignSession;
  readonly decision: Decision;
  /** Our checkpoints by the keys of steps, and by their ids. */
  readonly places: Map<string, string>;
  readonly ids: Map<string, string>;
  readonly ours: Set<string>;
  /** The checkpoint that it begins at, in a fork. */
  readonly origin: string | undefined;
  left: number;
  imported: number;
  isThere: boolean;
  /** Whether it was found, once it was held, as it was planned. */
  isChecked: boolean;
  conflict: string | undefined;
}

export class SessionWriter {
  readonly #writing: Writing;
  readonly #work = new Map<string, Work>();
  readonly #taken = new Set<string>();
  #open: { readonly work: Work; readonly session: Session } | undefined;

  constructor(writing: Writing) {
    this.#writing = writing;
  }

  /** Decides what is to be done with a session. Its steps come later. */
  async begin(given: ForeignSession): Promise<void> {
    const { kind, seen, into, report } = this.#writing;
    const session = this.#named(given);
    const origin = session.origin && this.#work.get(session.origin.session)?.ids.get(session.origin.step);
    let decision: Decision;
    try {
      // In a dry run the checkpoint of the fork is one of another store.
      const known = into === seen ? origin : (await seen?.sessions.get(session.id))?.origin?.checkpointId;
      decision = decide(kind, session, seen && (await standingOf(seen, session.id)), known);
    } catch (error) {
      if (!(error instanceof HoldfastError) || !OF_SESSION.has(error.code)) throw error;
      decision = { outcome: "conflict", message: error.message, fresh: new Set(), late: new Set(), places: new Map(), count: 0 };
    }
    const isHere = into === seen;
    const places = new Map(isHere ? decision.places : []);
    const ids = new Map<string, string>();
    for (const step of session.steps) {
      const place = places.get(keyOf(step));
      if (place !== undefined && !ids.has(step.id)) ids.set(step.id, place);
    }
    const isThere = isHere && decision.outcome !== "conflict" && (await into.sessions.get(session.id)) !== undefined;
    const work: Work = {
      session,
      decision,
      places,
      ids,
      ours: new Set(places.values()),
      origin,
      left: session.steps.length,
      imported: 0,
      isThere,
      isChecked: !isHere,
      conflict: decision.outcome === "conflict" ? decision.message : undefined,
    };
    this.#work.set(session.foreign, work);
    const parent = session.origin && this.#work.get(session.origin.session);
    if (parent?.conflict !== undefined && origin === undefined && parent.decision.isOther !== true)
      work.conflict ??= `The session that it was forked from, ${quote(parent.session.id)}, could not be imported: ${parent.conflict}`;
    else if (session.origin !== undefined && origin === undefined)
      report.note(
        `The checkpoint that session ${quote(session.id)} was forked from could not be imported: it is a session of its own here.`,
      );
    for (const { path, id } of decision.late)
      report.note(
        `Checkpoint ${quote(id)} is not here, and later ones of its session are: it cannot be put between them, and is left out.`,
        path,
      );
    if (work.left === 0) await this.#finish(work);
  }

  /** Under an id that no other session of the source has here. */
  #named(session: ForeignSession): ForeignSession {
    const { id: wanted, foreign } = session;
    const id = this.#taken.has(wanted) ? nameOf(`${wanted}\0${foreign}`) : wanted;
    this.#taken.add(id);
    if (id !== foreign)
      this.#writing.report.note(`Session ${quote(foreign)} is ${quote(id)} here: its own id is not one that Holdfast takes, or is taken.`);
    return { ...session, id };
  }

  async step(foreign: string, step: Step): Promise<void> {
    const work = this.#work.get(foreign) as Work;
    const { decision, places } = work;
    const isWritten = places.has(keyOf(step)) || decision.late.has(step);
    if (work.conflict === undefined && !isWritten) await this.#write(work, step);
    work.left -= 1;
    if (work.left === 0) await this.#finish(work);
  }

  async #write(work: Work, step: Step): Promise<void> {
    const { report } = this.#writing;
    try {
      const content = await step.load();
      const session = await this.#session(work, step);
      await this.#goTo(work, session, step);
      await save(session, content, { ...content.mark, metadata: this.#metadata(work, step, content) });
      const made = session.head as Checkpoint;
      work.places.set(keyOf(step), made.id);
      work.ours.add(made.id);
      if (!work.ids.has(step.id)) work.ids.set(step.id, made.id);
      if (work.decision.fresh.has(step)) work.imported += 1;
      report.stored(step.path, step.bytes);
      if (step.twin !== undefined) report.stored(step.twin.path, step.twin.bytes);
    } catch (error) {
      if (isRefused(error)) report.skip(step.path, `Checkpoint ${quote(step.id)}: ${error.message}`);
      else this.#fails(work, error);
      // What was staged of it goes.
      await this.close();
    }
  }

  #metadata({ session }: Work, step: Step, content: Content): JsonObject {
    const { kind } = this.#writing;
    return withSource(content.metadata, { kind, session: session.foreign, id: step.id, digest: step.digest, ...content.source });
  }

  /** Where the step follows another than the last one, the session goes back to that, on a new line. */
  async #goTo({ ids }: Work, session: Session, { parent }: Step): Promise<void> {
    const place = parent === undefined ? undefined : ids.get(parent);
    if (place !== undefined && session.head?.id !== place) await session.rewind(place);
  }

  /** The session, held: one at a time. */
  async #session(work: Work, at: { readonly at: number | undefined }): Promise<Session> {
    const { into, clock, kind } = this.#writing;
    const { session: foreign } = work;
    if (this.#open?.work !== work) {
      await this.close();
      clock.at = foreign.at ?? at.at ?? clock.at;
      if (!work.isThere && work.origin !== undefined) await this.#fork(work, work.origin);
      const { id, agent, title, tags, source } = foreign;
      const session = await into.session(id, {
        ...(agent !== undefined && !work.isThere && { agent }),
        ...(title !== undefined && { title }),
        ...(tags !== undefined && { tags }),
        metadata: { source: { kind, id: foreign.foreign, ...source } },
      });
      this.#open = { work, session };
      await this.#refuseChanged(work, session);
      work.isThere = true;
    }
    clock.at = at.at ?? clock.at;
    return this.#open.session;
  }

  async #fork(work: Work, origin: string): Promise<void> {
    await this.#writing.into.fork(origin, { id: work.session.id });
    work.isThere = true;
    work.isChecked = true;
  }

  /** Somebody else may have been at it between the plan and the lease: another import, say. */
  async #refuseChanged(work: Work, { id, metadata, head }: Session): Promise<void> {
    const isOurs = work.origin !== undefined || sourceIn(metadata)?.["id"] === work.session.foreign;
    const isPlace = head === undefined || head.id === work.origin || work.ours.has(head.id);
    const isSame = work.isChecked || (await checkpointsOf(this.#writing.into, id)).length === work.decision.count;
    if (!isOurs || !isPlace || !isSame)
      throw new HoldfastError("STALE_LEASE", `Session ${quote(id)} was changed by somebody else meanwhile. Run the import again.`, {
        sessionId: id,
      });
    work.isChecked = true;
  }

  /** One session cannot be written: the others are. */
  #fails(work: Work, error: unknown): void {
    if (!(error instanceof HoldfastError) || !OF_SESSION.has(error.code)) throw error;
    work.conflict = error.message;
  }

  async #finish(work: Work): Promise<void> {
    const { report } = this.#writing;
    if (work.conflict === undefined) {
      try {
        await this.#settle(work);
      } catch (error) {
        this.#fails(work, error);
      }
    }
    await this.close();
    const { session, decision, imported, conflict, isThere } = work;
    // What was refused is tried again each time, and is no growth.
    const isKnown = decision.outcome === "grown" && imported === 0 && decision.isRelabelled === false;
    const outcome = conflict !== undefined ? "conflict" : !isThere ? "refused" : isKnown ? "known" : decision.outcome;
    report.sessions.push({ id: session.id, outcome, checkpoints: imported, ...(conflict !== undefined && { message: conflict }) });
    report.progress();
  }

  /** Puts the session where the source says that it stands, and what is said of it beside it. */
  async #settle(work: Work): Promise<void> {
    const { into, kind, clock } = this.#writing;
    const { session: foreign, places } = work;
    // A fork that nothing was added to is there all the same.
    if (!work.isThere && work.origin !== undefined) {
      clock.at = foreign.at ?? clock.at;
      await this.#fork(work, work.origin);
    }
    if (!work.isThere) return;
    const before = await into.sessions.get(foreign.id);
    if (before === undefined) return;
    if (places.size === 0 && work.origin === undefined) {
      // All its steps were refused: an empty session would say that there was nothing.
      await this.close();
      await into.sessions.delete(foreign.id);
      work.isThere = false;
      return;
    }
    const mark = markOf(foreign);
    if (sourceIn(before.metadata)?.["mark"] === mark && sourceIn(before.metadata)?.["id"] === foreign.foreign) return;
    const current = foreign.current && places.get(keyOf(foreign.current));
    if (current !== undefined) {
      const session = await this.#session(work, { at: foreign.current?.at });
      if (session.head?.id !== current) await session.rewind(current);
    }
    await this.close();
    const { title, tags, archived, metadata } = foreign;
    const at = foreign.current && { at: keyOf(foreign.current) };
    const source = { kind, id: foreign.foreign, ...foreign.source, ...at, mark };
    const isOwn = sourceIn(before.metadata)?.["id"] === foreign.foreign;
    // A fork begins with the words of its parent; those are not its own.
    const words = isOwn ? { title, tags } : { title: title ?? null, tags: tags ?? [] };
    await into.sessions.update(foreign.id, {
      ...(words.title !== undefined && { title: words.title }),
      ...(words.tags !== undefined && { tags: words.tags }),
      ...(archived !== undefined && { archived }),
      metadata: { ...(isOwn ? before.metadata : undefined), ...withSource(metadata, source) },
    });
  }

  /** Lets go of the session that is held. */
  async close(): Promise<void> {
    const open = this.#open;
    this.#open = undefined;
    await open?.session.close({ discard: true });
  }
}

/** One checkpoint, whatever the step says of the session's status. */
async function save(session: Session, { messages, state, end }: Content, mark: CheckpointOptions): Promise<void> {
  session.save({ ...(messages && { messages }), ...(state && { state }) });
  const status = end === undefined ? "in-progress" : ({ complete: "completed", fail: "failed", halt: "halted" } as const)[end.as];
  // What has come to rest goes on by work, and a step may say that it goes on without having changed anything.
  const [key] = Object.keys(session.state);
  if (session.status !== "in-progress" && session.status !== status && key !== undefined) session.set(key, session.state[key] as never);
  if (end === undefined) await session.checkpoint(mark);
  else if (end.as === "complete") await session.complete(undefined, mark);
  else await session[end.as](clipped(end.reason, MAX_REASON), mark);
}
