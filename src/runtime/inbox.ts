/** Mail to a session from those who do not hold it. Idempotent by id; the holder takes it in between its steps. */
import { randomUUID } from "node:crypto";
import { leavesOpen, mayFollow, openCalls } from "../core/between.js";
import { acts, type Effect } from "../core/effect.js";
import { HoldfastError, quote } from "../core/errors.js";
import type { SessionId } from "../core/ids.js";
import { encode } from "../core/json.js";
import type { MessageInput } from "../core/message.js";
import { isUnderWay } from "../core/status.js";
import type { Mail, Store } from "../store/port.js";
import { type Appended, BESIDE, openLetters } from "./letters.js";
import { type MailDoc, mailOf, mailText, type Settlement } from "./rows.js";
import type { Workspace } from "./workspace.js";

/** More than turns can wait, as long as few processes submit them. Where there are more, all are read: a letter behind them must be seen. */
const AT_ONCE = 2_000;

export interface Letter {
  readonly id: string;
  readonly doc: MailDoc;
  /** The messages that it brings, where they can be taken in now. */
  readonly appended?: Appended;
}

interface Reader {
  readonly store: Store;
  wallMs(): number;
}

/** Letters that may be taken in by now, or by another time. */
export async function readMail(reader: Reader, session: SessionId, dueBy = Math.max(0, reader.wallMs())): Promise<readonly Letter[]> {
  const mail = await allMail(reader.store, session, Math.max(dueBy, BESIDE));
  return mail.flatMap(({ id, text, due }) => (due <= dueBy || due === BESIDE ? [{ id, doc: mailOf(text, session) }] : []));
}

async function allMail(store: Store, session: SessionId, dueBy: number): Promise<readonly Mail[]> {
  for (let limit = AT_ONCE; ; limit *= 2) {
    const mail = await store.inbox(session, { dueBy, limit });
    if (mail.length < limit) return mail;
  }
}

/** Whether a letter changes what is under way. Turns are for who runs the agent, and messages from outside set nothing going. */
export const changesCourse = ({ doc: { kind } }: Letter): boolean => kind !== "turn" && !kind.startsWith("append");

/**
 * Letters that may be taken in by now, and with a cancel the turn that it takes back, though the time of that has not come. What letters of
 * messages hold is read where they can be `appended`.
 */
export async function mailFor(reader: Reader, session: SessionId, appended: () => boolean): Promise<readonly Letter[]> {
  const mail = await withMessages(reader, session, await readMail(reader, session), appended);
  const dropped = turnsTakenBack(mail);
  if (dropped.size === 0) return mail;
  const later = await readMail(reader, session, BESIDE);
  return [
    ...mail,
    ...later.filter(({ id, doc }) => doc.kind === "turn" && dropped.has(doc.turn) && !mail.some((known) => known.id === id)),
  ];
}

async function withMessages(
  reader: Reader,
  session: SessionId,
  mail: readonly Letter[],
  appended: () => boolean,
): Promise<readonly Letter[]> {
  const letters = mail.filter(({ doc }) => doc.kind === "append");
  if (letters.length === 0 || !appended()) return mail;
  const opened = await openLetters(reader.store, session, letters);
  return mail.map((letter) => {
    const found = opened.get(letter.id);
    return found === undefined ? letter : { ...letter, appended: found };
  });
}

const turnsTakenBack = (mail: readonly Letter[]): ReadonlySet<string> =>
  new Set(mail.flatMap(({ doc }) => (doc.kind === "cancel" && doc.turn !== undefined ? [doc.turn] : [])));

export interface PostOptions {
  /** The same id is the same letter. */
  readonly id?: string;
  /** Not to be taken in before. */
  readonly due?: number;
}

/** Posts, and answers whether the same was posted before, or something else under its id. */
export async function tryPost(
  store: Store,
  session: SessionId,
  doc: MailDoc,
  o: PostOptions = {},
): Promise<"posted" | "known" | "conflict"> {
  const posted = await store.post(session, { id: o.id ?? randomUUID(), text: mailText(doc), due: o.due ?? 0 });
  if (posted === "absent") throw noSession(session);
  return posted;
}

export const otherLetter = (session: SessionId, id = ""): HoldfastError =>
  new HoldfastError("CONFLICT", `Something else was sent to session ${quote(session)} under the key ${quote(id)}.`, { sessionId: session });

interface Takes {
  /** Whether calls of the session may be under way here. */
  readonly isAtWork: boolean;
  /** Whether messages from outside may be appended now, as far as the holder is concerned. */
  readonly appends: boolean;
}

/** Stages what letters change, and what follows from it for the session's status. Answers those that are taken in by that. */
export function takeIn(work: Workspace, mail: readonly Letter[], takes: Takes): readonly Letter[] {
  const dropped = turnsTakenBack(mail);
  const taken = mail.filter((letter) => stage(work, letter, takes) || (letter.doc.kind === "turn" && dropped.has(letter.doc.turn)));
  if (taken.length > 0) restate(work);
  return taken;
}

/** Answers whether the letter is done with. Turns wait until the one before is over, and are begun by whoever runs the agent. */
function stage(work: Workspace, { doc, appended }: Letter, { isAtWork, appends }: Takes): boolean {
  const { course } = work.fold;
  switch (doc.kind) {
    case "turn":
    case "append-part":
    case "append-key":
      return false;
    case "append":
      return appends && appended !== undefined && stageAppended(work, appended.messages);
    case "cancel":
      if (doc.turn !== undefined && (doc.turn !== course.turn?.id || !isOpen(work))) return true;
      if (isUnderWay(work.fold.status)) cancel(work, doc.reason ?? "cancelled");
      return true;
    case "approve": {
      const effect = course.get(doc.effect);
      if (effect?.phase !== "waiting" || effect.asked !== doc.asked) return true;
      work.course(
        { effect: { id: effect.id, is: "approved", ...said(doc), asked: doc.asked } },
        doc.args === undefined ? undefined : encode(doc.args, "args"),
      );
      return true;
    }
    case "deny": {
      const effect = course.get(doc.effect);
      if (effect?.phase === "waiting" && effect.asked === doc.asked) finish(work, effect, { error: doc.reason }, "denied", doc);
      return true;
    }
    case "settle": {
      const effect = course.get(doc.effect);
      // That it happened stays true; that it did not, and may be made again, was said of one time.
      const counts = "result" in doc.as || effect?.asked === doc.asked;
      if (counts && (effect?.phase === "waiting" || effect?.phase === "doubt")) settle(work, effect, doc.as, doc);
      return true;
    }
    case "late": {
      const effect = course.get(doc.effect);
      if (effect?.phase !== "begun" && effect?.phase !== "doubt") return true;
      // What was done counts whenever it was. That nothing was done counts for the last attempt, and only where none before it is open.
      const isOnly = effect.attempt?.no === doc.attempt && (doc.attempt === 1 || effect.mode === "once");
      const happened = "result" in doc.as || ("error" in doc.as && doc.as.happened === true);
      if (happened || isOnly) settle(work, effect, doc.as, { by: "late" });
      return true;
    }
    case "signal": {
      const waiting = course.open.find(({ waits }) => waits?.for === "signal" && waits.name === doc.name);
      const value = encode(doc.value, "signal");
      if (waiting === undefined) work.course({ signal: doc.name }, value);
      else work.course({ effect: { id: waiting.id, is: "signalled", name: doc.name, ...nthOf(waiting) } }, value);
      return true;
    }
    case "wake": {
      // The call that runs the child is about to wait for it, perhaps: that would be slept over. It stays until that is known. A call that
      // nobody is at is run again from its beginning, and looks at the child itself: a letter that stayed for it would stay for ever.
      const runner = course.get(doc.child.slice(0, doc.child.indexOf("/")));
      if (isAtWork && runner !== undefined && (runner.phase === "begun" || runner.phase === "ready")) return false;
      for (const { id, waits } of course.open)
        if (waits?.for === "child" && waits.session === doc.child) work.course({ effect: { id, is: "woken" } });
      return true;
    }
  }
}

/** Whether messages from outside may be looked at: where calls are open, only those that answer them may come, and only by hand. */
export const mayAppend = (work: Workspace): boolean => isAnswerable(work) || openCalls(newestFirst(work)).size === 0;

/** No agent is at the session's calls: whoever has asked for them is somewhere else. */
const isAnswerable = (work: Workspace): boolean => !isOpen(work) && work.fold.course.open.length + work.fold.course.doneCount === 0;

/** Whether messages may stand behind what is there. An agent at work would take calls that nobody has answered for its own. */
const fits = (work: Workspace, messages: readonly MessageInput[]): boolean => {
  const open = openCalls(newestFirst(work));
  if (open.size > 0 && !(isAnswerable(work) && mayFollow(open, messages))) return false;
  return !isOpen(work) || !leavesOpen(messages);
};

function* newestFirst({ fold }: Workspace): Generator<MessageInput> {
  for (let i = fold.messageCount - 1; i >= 0; i--) yield fold.messageAt(i) as MessageInput;
}

/**
 * Whoever sent them has looked whether they can be stored. Where somebody was first with the same id and other words, they are passed over:
 * a letter that cannot be taken in must not keep the session from being opened.
 */
function stageAppended(work: Workspace, messages: readonly MessageInput[]): boolean {
  if (!fits(work, messages)) return false;
  const isFirst = work.isSaved;
  try {
    work.appendFromOutside(messages);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    // Together with what is staged already it may be too much: then it goes with the next save.
    return isFirst || error.code !== "TOO_LARGE";
  }
  return true;
}

const nthOf = ({ waits }: Effect) => (waits?.for === "signal" && waits.nth !== undefined ? { nth: waits.nth } : undefined);

/** Whether a turn is under way and is to go on, as far as the session's status says. */
export const isOpen = ({ fold: { status, course, isCancelling } }: Workspace): boolean =>
  course.turn !== undefined && isUnderWay(status) && !isCancelling;

const said = ({ by, note }: { readonly by?: string; readonly note?: string }) => ({
  ...(by !== undefined && { by }),
  ...(note !== undefined && { note }),
});

/** Ends what is under way. Nothing of it is made any more. */
export function cancel(work: Workspace, reason: string): void {
  // Whether it goes on is decided by that.
  const { standstill } = work.fold.course;
  if (standstill !== undefined) finish(work, standstill, { error: reason }, "denied", {});
  leaveInDoubt(work);
  work.event("cancel", reason);
}

/** Nobody goes on with this session by itself: of calls that have begun, somebody must say what became of them, unless they say it themselves. */
export function leaveInDoubt(work: Workspace): void {
  for (const effect of work.fold.course.open)
    if (effect.phase === "begun" && acts(effect)) work.course({ effect: { id: effect.id, is: "doubt", inside: true } });
  restate(work);
}

/** Who decided, and which time. */
interface Decided {
  readonly by?: string;
  readonly asked?: number;
}

function settle(work: Workspace, effect: Effect, as: Settlement, decided: Decided): void {
  if (effect.whole) return settleWhole(work, effect, as, decided);
  if ("retry" in as) work.course({ effect: { id: effect.id, is: "retry", ...decidedIn(decided) } });
  else finish(work, effect, as, "result" in as ? "ok" : "error", decided);
}

const decidedIn = ({ by, asked }: Decided): Decided => ({ ...(by !== undefined && { by }), ...(asked !== undefined && { asked }) });

/** It may go on from where it stands; or, with an error, it is not to go on here. */
function settleWhole(work: Workspace, effect: Effect, as: Settlement, decided: Decided): void {
  if (!("error" in as)) return finish(work, effect, { result: "result" in as ? as.result : null }, "ok", decided);
  finish(work, effect, as, "error", decided);
  cancel(work, as.error);
}

function finish(
  work: Workspace,
  { id }: Effect,
  as: { readonly result: unknown } | { readonly error: string; readonly happened?: true },
  outcome: "ok" | "error" | "denied",
  decided: Decided,
): void {
  const body = encode("result" in as ? as.result : as.error, "result");
  const happened = "error" in as && as.happened && { happened: as.happened };
  work.course({ effect: { id, is: "done", outcome, ...decidedIn(decided), ...happened } }, body);
}

/** The status that follows from the calls that are open, and when there is something to do: in-doubt outranks waiting outranks in-progress. */
export function restate(work: Workspace): void {
  const { status, reason, course, isCancelling } = work.fold;
  if (isUnderWay(status)) {
    const phases = new Set(course.open.map(({ phase }) => phase));
    const target = phases.has("doubt") ? "in-doubt" : phases.has("waiting") ? "waiting" : "in-progress";
    if (target !== status && status !== "in-progress" && target !== "in-doubt") work.event("settle");
    if (isCancelling && target !== "in-doubt") work.event("cancel", reason);
    else if (target !== status && target !== "in-progress") work.event(target === "in-doubt" ? "doubt" : "wait");
  }
  work.redue();
}

export function noSession(id: string): HoldfastError {
  return new HoldfastError("NOT_FOUND", `There is no session ${quote(id)}.`, { sessionId: id });
}
