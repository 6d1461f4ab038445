/**
 * What was redacted, remembered for as long as the store lasts: also once its session is deleted
 * and its line is freed. An export of before must not bring the text back.
 *
 * REDACTED-1  a document for each line counts lists, which are documents as well; each names saves
 *             and their sections, as redacted, by the beginning of their digests. Those are salted:
 *             they say nothing about a text.
 * REDACTED-2  what was pruned before a redaction may have held the text: the line names those saves
 *             as well. An export that still has them is of before.
 * REDACTED-3  a list is written before the saves are replaced. After a kill in between, the list
 *             names sections that are not there, and an export of that session would be refused.
 *             The next redaction, which is needed anyway, corrects that.
 */
import {
  isUnredacted,
  type RewrittenSections,
  rewrittenSections,
} from "../../core/journal/rewrite-save.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { LineId } from "../../core/values/ids.js";
import { documentsOf } from "../../store/capabilities.js";
import { type DocChange, type DocRow, REDACTED } from "../../store/port/documents.js";
import { sealed, unsealedOr } from "../records/rows.js";
import type { Ground } from "./ground.js";

interface LineRedacted {
  readonly id: LineId;
  readonly version: number;
  readonly lists: number;
  /** The version of the session's label that was redacted last: older ones may hold the text. */
  readonly label?: number;
  /**
   * The session's own title after a redaction, and where the line ended then: an export that ends
   * there, or earlier, has this title or none.
   */
  readonly head?: { readonly seq: number; readonly title: string | null };
  /**
   * REDACTED-2: from and to which record something was pruned, and what: all, or the sections that
   * are named.
   */
  readonly absent?: readonly (readonly [from: number, to: number, sections: string])[];
}

interface ListRedacted {
  readonly id: string;
  readonly version: 1;
  readonly saves: readonly (RewrittenSections & { readonly seq: number })[];
}

/** What an import must not bring back to a line. */
export interface Remembered {
  readonly saves: ReadonlyMap<number, RewrittenSections>;
  readonly label: number;
  readonly head: LineRedacted["head"];
  readonly absent: NonNullable<LineRedacted["absent"]>;
}

/** Whether a save that comes has something that was redacted here, or may be. */
export function isStale({ saves, absent }: Remembered, save: Save): boolean {
  const redacted = saves.get(save.seq);
  if (redacted !== undefined && isUnredacted(save, redacted)) return true;
  if (isGap(save)) return false;
  const there = SECTIONS.filter((section) => save[section] !== null);
  return absent.some(([from, to, sections]) => {
    if (save.seq < from || firstSeq(save) > to) return false;
    return sections === ALL
      ? there.length > 0
      : there.some((section) => sections.split(" ").includes(section));
  });
}

const SECTIONS = ["items", "state", "mark"] as const;
const ALL = "";
/** So many stretches are named. If there are more, one stretch stands for all of them. */
const MOST_ABSENT = 1_000;

/**
 * What of a line is not there any more, newest first or in any order: gaps, and sections that were
 * dropped.
 */
export class Absent {
  readonly #found: [from: number, to: number, sections: string][] = [];

  note(save: Save): void {
    const counts = { items: save.nItems, state: save.nState, mark: save.nMark };
    const sections = isGap(save)
      ? ALL
      : SECTIONS.filter((section) => counts[section] > 0 && save[section] === null).join(" ");
    if (sections === ALL && !isGap(save)) return;
    const last = this.#found.at(-1);
    const from = firstSeq(save);
    // Those that stand next to each other are one.
    if (
      last !== undefined &&
      last[2] === sections &&
      (last[0] === save.seq + 1 || last[1] === from - 1)
    ) {
      last[0] = Math.min(last[0], from);
      last[1] = Math.max(last[1], save.seq);
    } else this.#found.push([from, save.seq, sections]);
  }

  get stretches(): readonly (readonly [from: number, to: number, sections: string])[] {
    const found = this.#found;
    if (found.length <= MOST_ABSENT) return found;
    return [
      [
        Math.min(...found.map(([from]) => from)),
        Math.max(...found.map(([, to]) => to)),
        "items state",
      ],
    ];
  }
}

const TRIES = 100;

const listId = (line: string, no: number): string => `${line}.${no}`;

async function lineOf({ store }: Ground, line: LineId): Promise<LineRedacted | undefined> {
  const row = await documentsOf(store).get(REDACTED, line);
  return row && unsealedOr<LineRedacted>(row.text, () => damaged(line));
}

/**
 * Remembers saves, of one line, that were or will be rewritten. Those that are not are passed over.
 */
export async function rememberSaves(
  ground: Ground,
  line: LineId,
  saves: readonly Save[],
): Promise<void> {
  const redacted = saves.flatMap((save) => {
    const sections = rewrittenSections(save);
    return sections === undefined ? [] : [{ seq: save.seq, ...sections }];
  });
  if (redacted.length === 0) return;
  await change(ground, line, (known) => {
    const id = listId(line, known.lists);
    const list: ListRedacted = { id, version: 1, saves: redacted };
    return [
      { ...known, lists: known.lists + 1 },
      [{ kind: REDACTED, id, when: { absent: true }, put: put(list) }],
    ];
  });
}

/** Remembers what is absent on a line that is redacted (REDACTED-2). */
export async function rememberAbsent(ground: Ground, line: LineId, absent: Absent): Promise<void> {
  const { stretches } = absent;
  if (stretches.length > 0)
    await change(ground, line, (known) => [{ ...known, absent: stretches }, []]);
}

/** Remembers the title of a session, which is on this line, after a redaction. */
export async function rememberHead(
  ground: Ground,
  line: LineId,
  head: { readonly seq: number; readonly title: string | null },
): Promise<void> {
  await change(ground, line, (known) => [{ ...known, head }, []]);
}

/**
 * Remembers that the label of the session which has these lines was redacted, and is of this
 * version now.
 */
export async function rememberLabel(
  ground: Ground,
  lines: readonly LineId[],
  label: number,
): Promise<void> {
  for (const line of lines) await change(ground, line, (known) => [{ ...known, label }, []]);
}

async function change(
  ground: Ground,
  line: LineId,
  next: (known: LineRedacted) => readonly [LineRedacted, readonly DocChange[]],
): Promise<void> {
  // A store without documents redacts nothing. What an import brings to it comes as it is.
  if (ground.store.documents === undefined) return;
  for (let tries = 1; ; tries++) {
    const known = await lineOf(ground, line);
    const [after, lists] = next(known ?? { id: line, version: 0, lists: 0 });
    const doc = { ...after, version: after.version + 1 };
    const when = known === undefined ? { absent: true as const } : { version: known.version };
    const applied = await ground.store.apply(
      [],
      [...lists, { kind: REDACTED, id: line, when, put: put(doc) }],
      "frees",
    );
    if (applied.ok) return;
    // Another process has remembered something of the same line: this goes behind it.
    if (tries >= TRIES)
      throw new HoldfastError(
        "BUSY",
        `Line ${line} is being redacted again and again by others. Try again.`,
        { line },
      );
  }
}

const put = (doc: LineRedacted | ListRedacted) => ({
  of: null,
  version: doc.version,
  text: sealed(doc),
  body: null,
  pins: [],
});

/** Undefined where nothing of the line was ever redacted here. */
export async function rememberedOf(ground: Ground, line: LineId): Promise<Remembered | undefined> {
  const known = await lineOf(ground, line);
  if (known === undefined) return undefined;
  const saves = new Map<number, RewrittenSections>();
  for (let no = 0; no < known.lists; no++) {
    const id = listId(line, no);
    const row = await documentsOf(ground.store).get(REDACTED, id);
    if (row === undefined) throw damaged(line);
    for (const { seq, ...sections } of unsealedOr<ListRedacted>(row.text, () => damaged(line))
      .saves)
      saves.set(seq, { ...saves.get(seq), ...sections });
  }
  return { saves, label: known.label ?? 0, head: known.head, absent: known.absent ?? [] };
}

/** Throws where it is damaged. */
export function verifyRedacted({ id, text }: DocRow): void {
  if (unsealedOr<LineRedacted | ListRedacted>(text, () => damaged(id)).id !== id) throw damaged(id);
}

const damaged = (line: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The list of what was redacted on line ${line} is damaged. Nothing of that line can be redacted or imported; restore a backup of the store.`,
    { line },
  );
