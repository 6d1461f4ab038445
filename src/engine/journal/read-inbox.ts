/** Reading a session's inbox: which letters may be taken in by now. */
import type { SessionId } from "../../core/values/ids.js";
import { inboxOf } from "../../store/capabilities.js";
import type { Mail } from "../../store/port/inbox.js";
import type { Store } from "../../store/port.js";
import { type Appended, BESIDE, openLetters } from "../records/letters.js";
import { type MailDoc, mailOf } from "../records/rows.js";

/**
 * More than turns can wait, as long as few processes submit them. Where there are more, all are
 * read: a letter behind them must be seen.
 */
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
export async function readMail(
  reader: Reader,
  session: SessionId,
  dueBy = Math.max(0, reader.wallMs()),
): Promise<readonly Letter[]> {
  const mail = await allMail(reader.store, session, Math.max(dueBy, BESIDE));
  return mail.flatMap(({ id, text, due }) =>
    due <= dueBy || due === BESIDE ? [{ id, doc: mailOf(text, session) }] : [],
  );
}

async function allMail(store: Store, session: SessionId, dueBy: number): Promise<readonly Mail[]> {
  for (let limit = AT_ONCE; ; limit *= 2) {
    const mail = await inboxOf(store).list(session, { dueBy, limit });
    if (mail.length < limit) return mail;
  }
}

/**
 * Whether a letter changes what is under way. Turns are for who runs the agent, and messages from
 * outside set nothing going.
 */
export const changesInFlight = ({ doc: { kind } }: Letter): boolean =>
  kind !== "turn" && !kind.startsWith("append");

/**
 * Letters that may be taken in by now, and with a cancel the turn that it takes back, though the
 * time of that has not come. What letters of messages hold is read where they can be `appended`.
 */
export async function mailFor(
  reader: Reader,
  session: SessionId,
  appended: () => boolean,
): Promise<readonly Letter[]> {
  const mail = await withMessages(reader, session, await readMail(reader, session), appended);
  const dropped = turnsTakenBack(mail);
  if (dropped.size === 0) return mail;
  const later = await readMail(reader, session, BESIDE);
  return [
    ...mail,
    ...later.filter(
      ({ id, doc }) =>
        doc.kind === "turn" && dropped.has(doc.turn) && !mail.some((known) => known.id === id),
    ),
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

export const turnsTakenBack = (mail: readonly Letter[]): ReadonlySet<string> =>
  new Set(
    mail.flatMap(({ doc }) => (doc.kind === "cancel" && doc.turn !== undefined ? [doc.turn] : [])),
  );
