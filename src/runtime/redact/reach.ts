/** How far a redaction reaches: the lines of a session and what they go back to, who shares what is changed, and which calls are not over. */
import { type LineId, MAX_SEQ, type Place, type SessionId } from "../../core/ids.js";
import type { LineRow } from "../../store/port.js";
import { descendants, pastOfSession } from "../family.js";
import type { Ground } from "../ground.js";

/** A line, as far as the session goes along it. */
export interface Stretch {
  readonly line: LineId;
  readonly row: LineRow;
  readonly from: number;
  readonly to: number;
  /** The number of the newest line that begins on it. */
  readonly forks: number;
}

/** Lines that begin on others come before those: what is copied from a record stands behind it. */
export async function stretchesOf(ground: Ground, session: SessionId): Promise<readonly Stretch[]> {
  const stretches: Stretch[] = [];
  for (const { row, to } of (await pastOfSession(ground, session)).values()) {
    const forks = (await ground.store.lines({ origin: row.id }))[0]?.no ?? 0;
    stretches.push({ line: row.id, row, from: (row.origin?.seq ?? 0) + 1, to, forks });
  }
  return stretches.toSorted((a, b) => b.row.no - a.row.no);
}

/** Who goes back to a record that is changed. */
export interface Shared {
  /** The other sessions that do. */
  readonly sharers: readonly SessionId[];
  /** Whether a place does, be it of a session that was deleted. */
  readonly by: (place: Place) => boolean;
}

/** `first`: the lowest number that is changed on each line. */
export async function sharedBy(
  ground: Ground,
  session: SessionId,
  stretches: readonly Stretch[],
  first: ReadonlyMap<string, number>,
): Promise<Shared> {
  const lines = stretches.flatMap(({ row }) => (first.has(row.id) ? [row] : []));
  const family = new Map((await descendants(ground, lines)).map((row) => [row.id as string, row]));
  const sharers = new Set<SessionId>();
  for (const { id, session: owner } of family.values()) {
    if (owner !== null && owner !== session && goesBackTo(family, id, first)) sharers.add(owner as SessionId);
  }
  return { sharers: [...sharers].toSorted(), by: ({ line, seq }) => goesBackTo(family, line, first, seq) };
}

function goesBackTo(family: ReadonlyMap<string, LineRow>, id: string, first: ReadonlyMap<string, number>, end = MAX_SEQ): boolean {
  let to = end;
  for (let row = family.get(id); row !== undefined; row = row.origin === null ? undefined : family.get(row.origin.line)) {
    if ((first.get(row.id) ?? Number.POSITIVE_INFINITY) <= to) return true;
    to = row.origin?.seq ?? 0;
  }
  return false;
}

/** Calls that are not over, by the place of the reply that asks for them, and by themselves. */
export class OpenCalls {
  readonly ids = new Set<string>();
  readonly #byReply = new Map<string, Map<number, string>>();

  static async of(ground: Ground, sessions: readonly SessionId[]): Promise<OpenCalls> {
    const calls = new OpenCalls();
    for (const session of sessions) await calls.#add(ground, session);
    return calls;
  }

  async #add(ground: Ground, session: SessionId): Promise<void> {
    const present = await ground.journal.present(session);
    if (present === undefined) return;
    const { open } = await ground.loader.courseAt(present);
    if (open.length === 0) return;
    const past = ground.journal.pastOf(present);
    for (const { id, call } of open) {
      this.ids.add(id);
      const line = call && (await past.lineAt(call[0]));
      if (call === undefined || line === undefined) continue;
      const place = `${line}-${call[0]}`;
      this.#byReply.set(place, (this.#byReply.get(place) ?? new Map<number, string>()).set(call[1], id));
    }
  }

  at(line: string, reply: number, index: number): string | undefined {
    return this.#byReply.get(`${line}-${reply}`)?.get(index);
  }
}
