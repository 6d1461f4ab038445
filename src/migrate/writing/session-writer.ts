/** Writes sessions with the public API, one step at a time, and holds one session at a time. */
import { quote } from "../../core/values/errors.js";
import type { SessionUpdate } from "../../index.js";
import type { ForeignSession, Step } from "../reading/model.js";
import { nameOf } from "../reading/names.js";
import { inConflict, type Plan, planOf } from "./plan.js";
import { SessionWork } from "./session-work.js";
import { standingOf } from "./standing.js";
import { isOfSession, type Writing } from "./writing.js";

export class SessionWriter {
  readonly #writing: Writing;
  readonly #works = new Map<string, SessionWork>();
  readonly #byAgent = new Map<string, SessionWork[]>();
  readonly #taken = new Set<string>();
  #holding: SessionWork | undefined;

  constructor(writing: Writing) {
    this.#writing = writing;
  }

  /** Decides what is to be done with a session. Its steps come later. */
  async begin(given: ForeignSession): Promise<void> {
    const { into, seen, report } = this.#writing;
    const session = this.#named(given);
    const parent = session.forkPoint && this.#works.get(session.forkPoint.session);
    const forkPoint = session.forkPoint && parent?.placeOf(session.forkPoint.step);
    const plan = await this.#plan(session, forkPoint);
    const isThere =
      into === seen &&
      plan.conflict === undefined &&
      (await into.sessions.get(session.id)) !== undefined;
    const work = new SessionWork(this.#writing, session, plan, { forkPoint, isThere });
    this.#works.set(session.foreign, work);
    if (session.agent !== undefined) this.#of(session.agent).push(work);
    if (session.forkPoint !== undefined && forkPoint === undefined) {
      if (parent?.conflict !== undefined && !parent.conflict.isOther)
        work.leave(
          `The session that it was forked from, ${quote(parent.id)}, could not be imported: ${parent.conflict.message}`,
        );
      else
        report.note(
          `The checkpoint that session ${quote(session.id)} was forked from could not be imported: it is a session of its own here.`,
        );
    }
    for (const { path, id } of plan.late)
      report.note(
        `Checkpoint ${quote(id)} is not here, and later ones of its session are: it cannot be put between them, and is left out.`,
        path,
      );
    if (session.steps.length === 0) await this.#end(work);
  }

  #of(agent: string): SessionWork[] {
    const works = this.#byAgent.get(agent) ?? [];
    this.#byAgent.set(agent, works);
    return works;
  }

  async #plan(session: ForeignSession, forkPoint: string | undefined): Promise<Plan> {
    const { kind, into, seen } = this.#writing;
    try {
      // In a dry run the checkpoint of the fork is one of another store.
      const known =
        into === seen ? forkPoint : (await seen?.sessions.get(session.id))?.forkPoint?.checkpointId;
      return planOf(kind, session, seen && (await standingOf(seen, session.id)), known);
    } catch (error) {
      if (!isOfSession(error)) throw error;
      return inConflict(error.message);
    }
  }

  /** Under an id that no other session of the source has here. */
  #named(session: ForeignSession): ForeignSession {
    const { id: wanted, foreign } = session;
    const id = this.#taken.has(wanted) ? nameOf(`${wanted}\0${foreign}`) : wanted;
    this.#taken.add(id);
    if (id !== foreign)
      this.#writing.report.note(
        `Session ${quote(foreign)} is ${quote(id)} here: its own id is not one that Holdfast takes, or is taken.`,
      );
    return { ...session, id };
  }

  async step(foreign: string, step: Step): Promise<void> {
    const work = this.#works.get(foreign) as SessionWork;
    if (this.#holding !== work) await this.close();
    this.#holding = work;
    await work.step(step);
    if (work.isThrough) await this.#end(work);
  }

  /**
   * What the source said of an agent's sessions at the steps that were written last, by their ids.
   */
  async labels(agent: string): Promise<Readonly<Record<string, SessionUpdate>>> {
    const labels: [string, SessionUpdate][] = [];
    for (const work of this.#of(agent)) {
      const label = await work.label();
      if (label !== undefined) labels.push([work.id, label]);
    }
    return Object.fromEntries(labels);
  }

  async #end(work: SessionWork): Promise<void> {
    if (this.#holding !== work) await this.close();
    const { report } = this.#writing;
    report.sessions.push(await work.end());
    report.progress();
  }

  /** Lets go of the session that is held. */
  async close(): Promise<void> {
    await this.#holding?.release();
    this.#holding = undefined;
  }
}
