/** What people and other programs do about calls: look at those that wait or are in doubt, and decide. None of it needs the lease. */
import { type Effect, lineOfEffect } from "../core/effects/effect.js";
import { checkText, MAX_REASON } from "../core/journal/checkpoint.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { checkName, isLineId, type SessionId } from "../core/values/ids.js";
import { encode, type Json } from "../core/values/json.js";
import {
  type Decision,
  type DecisionLetter,
  decisionId,
  decisionIn,
  inWords,
  isSame,
  isStillAsked,
  lateDecision,
  lateId,
  standing,
} from "../engine/calls/decisions.js";
import { type Pending, pendingOf } from "../engine/calls/pending.js";
import type { Ground } from "../engine/journal/ground.js";
import { cancelSession, takeIn } from "../engine/lifecycle/outside.js";
import { headOf, mailOf, type Settlement } from "../engine/records/rows.js";
import { cursorAt, invalid, limitOf, numberOf, oneOf, options, type Page } from "../engine/util/options.js";
import type { SessionRow } from "../store/port/rows.js";

export interface EffectFilter {
  readonly status: "waiting" | "in-doubt";
  readonly agent?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

interface Decided {
  /** Who decided. Kept in the journal. */
  readonly by?: string;
}

export class Effects {
  readonly #ground: Ground;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  /** Calls that wait for somebody, or of which nobody knows what became; those of the newest sessions first. */
  async list(filter: EffectFilter): Promise<Page<Pending>> {
    const { status, agent, limit, cursor } = options(filter, "effects.list", ["status", "agent", "limit", "cursor"]);
    const wanted = oneOf(status, "status", ["waiting", "in-doubt"]);
    if (wanted === undefined) throw invalid("status", "it must be one of waiting, in-doubt");
    const most = limitOf(limit, "limit");
    const of = agent === undefined ? undefined : checkName(agent, "agent");
    let before = cursor === undefined ? undefined : numberOf(cursor, "s", this.#ground.store.cursorKey);
    const items: Pending[] = [];
    for (;;) {
      const row = await this.#next(wanted, of, before);
      if (row === undefined) return { items };
      // All calls of one session stand on one page.
      if (items.length >= most) return { items, next: cursorAt(row.no + 1, "s", this.#ground.store.cursorKey) };
      before = row.no;
      items.push(...(await this.#of(row.id as SessionId)).filter((pending) => pending.status === wanted));
    }
  }

  /** A session in doubt may have calls that wait, too. */
  async #next(status: "waiting" | "in-doubt", agent: string | undefined, before: number | undefined): Promise<SessionRow | undefined> {
    const query = { ...(agent !== undefined && { agent }), ...(before !== undefined && { before }), limit: 1 };
    const [inDoubt] = await this.#ground.store.sessions({ ...query, status: "in-doubt" });
    const [waiting] = status === "waiting" ? await this.#ground.store.sessions({ ...query, status: "waiting" }) : [];
    return inDoubt === undefined || (waiting !== undefined && waiting.no > inDoubt.no) ? waiting : inDoubt;
  }

  async #of(session: SessionId): Promise<readonly Pending[]> {
    const present = await this.#ground.journal.present(session);
    if (present === undefined) return [];
    const course = await this.#ground.loader.courseAt(present);
    const past = this.#ground.journal.pastOf(present);
    return Promise.all(course.open.map((effect) => pendingOf(this.#ground, session, past, effect)));
  }

  /** One call that is not over, or undefined. */
  async get(id: string): Promise<Pending | undefined> {
    const found = await this.#find(id);
    return found === undefined ? undefined : (await this.#of(found.session)).find(({ effectId }) => effectId === id);
  }

  /** Lets a call that waits be made, with other arguments if they are given. */
  async approve(id: string, o?: Decided & { readonly args?: Json; readonly note?: string }): Promise<void> {
    const { by, args, note } = options(o, "effects.approve", ["by", "args", "note"]);
    const call = await this.#require(id, ["waiting"], (effect) => effect.waits?.for === "approval" || effect.waits?.for === "repeat");
    await this.#decide(call, {
      kind: "approve",
      ...about(call),
      ...who(by),
      ...(note !== undefined && { note: checkText(note, "note", MAX_REASON) }),
      ...(args !== undefined && { args: this.#args(args, call.effect.name) }),
    });
  }

  #args(args: Json, tool: string): Json {
    const { value } = encode(args, "args");
    return this.#ground.redactor?.json(value, { in: "arguments", tool }) ?? value;
  }

  /** A call that waits is not made; the model is told why. */
  async deny(id: string, o: Decided & { readonly reason: string }): Promise<void> {
    const { by, reason } = options(o, "effects.deny", ["by", "reason"]);
    const why = checkText(reason, "reason", MAX_REASON);
    const call = await this.#require(id, ["waiting"]);
    await this.#decide(call, { kind: "deny", ...about(call), ...who(by), reason: why });
    await this.#leaveChild(call.effect, why);
  }

  /** Says what became of a call: its result, its error, or that it did not happen and is to be made again. */
  async settle(
    id: string,
    o: ({ readonly result: Json } | { readonly error: string } | { readonly retry: true }) & Decided,
  ): Promise<void> {
    const given = options(o as { result?: Json; error?: string; retry?: true; by?: string }, "effects.settle", [
      "result",
      "error",
      "retry",
      "by",
    ]);
    const said = (["result", "error", "retry"] as const).filter((name) => given[name] !== undefined);
    if (said.length !== 1) throw invalid("effects.settle", "say one of result, error and retry: true");
    const as: Settlement =
      given.result !== undefined
        ? { result: encode(given.result, "result").value }
        : given.error !== undefined
          ? { error: checkText(given.error, "error", MAX_REASON) }
          : { retry: true };
    if ("retry" in as && given.retry !== true) throw invalid("retry", "it must be true");
    const call = await this.#require(id, ["waiting", "doubt"]);
    await this.#decide(call, { kind: "settle", ...about(call), ...who(given.by), as });
    if (!("retry" in as)) await this.#leaveChild(call.effect, "The call that ran it was settled.");
  }

  /** Nobody runs the child of a call that is over: what it waits for is not to be asked about. */
  async #leaveChild({ id, waits }: Effect, reason: string): Promise<void> {
    if (waits?.for !== "child") return;
    const now = (await this.#find(id))?.effect;
    // Woken in the meantime, it goes on with its child.
    if (now !== undefined && now.phase !== "done") return;
    await cancelSession(this.#ground, waits.session as SessionId, reason).catch((error: unknown) => {
      if (!(error instanceof HoldfastError) || error.code !== "NOT_FOUND") throw error;
    });
  }

  /**
   * Post a decision, and find out whether it stands. The first letter about this time that the call waits, or is in doubt, stands; another one
   * that says the same resolves too, and one that says something else is a CONFLICT. If another process holds the session, its next look takes
   * the letter in.
   */
  async #decide({ session, effect, stands: before }: Decidable, doc: DecisionLetter): Promise<void> {
    const said = decisionIn((this.#ground.redactor?.mail(doc) as DecisionLetter | undefined) ?? doc);
    if (before !== undefined && isSame(before, said, effect)) return;
    if (before !== undefined) throw alreadyDecided(effect, session, before);
    for (let again = 0; ; again++) {
      const id = decisionId(effect.id, doc.asked, again);
      const isOurs = (await this.#ground.tryPost(session, doc, { id })) !== "conflict";
      await takeIn(this.#ground, session);
      const inMail = await this.#inMail(session, effect, id);
      const found = inMail === undefined ? await standing(this.#ground, effect.id, doc.asked) : undefined;
      if (found?.isThisTime && isOurs) return;
      const stands = inMail ?? found?.decision;
      if (stands !== undefined && isSame(stands, said, effect)) return;
      // The letter was taken in while the session was on another line, and decided nothing: it is posted anew.
      const isOpen = !inMail && !found?.isThisTime && isStillAsked((await this.#find(effect.id))?.effect, doc.asked);
      if (!isOpen) throw alreadyDecided(effect, session, stands);
    }
  }

  /** The decision that will stand once the letter of this id is taken in; undefined if it does not wait any more. */
  async #inMail(session: SessionId, { id: effect, attempt }: Effect, id: string): Promise<Decision | undefined> {
    const ids = [id, lateId(effect, attempt?.no ?? 1)];
    const letters = (await this.#ground.store.inbox(session, { ids })).map((letter) => ({ ...letter, doc: mailOf(letter.text, session) }));
    if (!letters.some((letter) => letter.id === id)) return undefined;
    // What the call itself has answered counts if it came first.
    const [first] = letters.filter(({ doc }) => doc.kind !== "late" || "result" in doc.as);
    return first?.doc.kind === "late" ? lateDecision(first.doc.as) : decisionIn(first?.doc as DecisionLetter);
  }

  async #find(id: string): Promise<{ readonly session: SessionId; readonly effect: Effect | undefined } | undefined> {
    this.#ground.usable();
    const line = lineOfEffect(checkName(id, "effect id"));
    const owner = isLineId(line) ? (await this.#ground.journal.line(line))?.session : undefined;
    const present = owner == null ? undefined : await this.#ground.journal.present(owner as SessionId);
    if (present === undefined) return undefined;
    return { session: headOf(present.row).id, effect: (await this.#ground.loader.courseAt(present)).get(id) };
  }

  /** A call that can be decided about, or that was: then with the decision that stands. */
  async #require(id: string, phases: readonly Effect["phase"][], fits: (effect: Effect) => boolean = () => true): Promise<Decidable> {
    const found = await this.#find(id);
    if (found?.effect === undefined)
      throw new HoldfastError("NOT_FOUND", `There is no call ${quote(id)} that is not over.`, { effectId: id });
    const { effect, session } = found;
    if (phases.includes(effect.phase) && fits(effect)) return { session, effect };
    const stands = await standing(this.#ground, id, effect.asked);
    if (stands !== undefined && (stands.isThisTime || effect.phase === "done")) return { session, effect, stands: stands.decision };
    const is = effect.phase === "doubt" ? "in doubt" : (effect.waits?.for ?? effect.phase);
    throw new HoldfastError("BAD_STATUS", `The call ${quote(id)} of ${quote(effect.name)} does not wait for this: it is ${is}.`, {
      sessionId: session,
      effectId: id,
    });
  }
}

interface Decidable {
  readonly session: SessionId;
  readonly effect: Effect;
  readonly stands?: Decision;
}

/** Which call it is about, and which time that waits or is in doubt. */
const about = ({ effect: { id, asked = 0 } }: Decidable) => ({ effect: id, asked });

function alreadyDecided({ id, name }: Effect, session: SessionId, stands: Decision | undefined): HoldfastError {
  const says = stands === undefined ? "no longer waits for this: it has gone on" : `was already ${inWords(stands)}`;
  return new HoldfastError("CONFLICT", `The call ${quote(id)} of ${quote(name)} ${says}. This decision does not count.`, {
    sessionId: session,
    effectId: id,
    ...(stands !== undefined && { decision: stands.is }),
    ...(stands?.by !== undefined && { decidedBy: stands.by }),
  });
}

const who = (by: unknown): { readonly by?: string } => (by === undefined ? {} : { by: checkName(by, "by") });
