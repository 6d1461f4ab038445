/**
 * What was redacted, remembered for as long as the store lasts: also once its session is deleted and its line is freed. An export of before
 * must not bring the text back.
 *
 * REDACTED-1  a document for each line counts lists, which are documents as well; each names saves and their sections, as redacted, by the
 *             beginning of their digests. Those are salted: they say nothing about a text.
 * REDACTED-2  a list is written before the saves are replaced. After a kill in between, the list names sections that are not there, and an
 *             export of that session would be refused. The next redaction, which is needed anyway, corrects that.
 */
import { HoldfastError } from "../../core/errors.js";
import type { LineId } from "../../core/ids.js";
import { type RewrittenSections, rewrittenSections, type Save } from "../../core/save.js";
import { type DocChange, type DocRow, REDACTED } from "../../store/port.js";
import type { Ground } from "../ground.js";
import { sealed, unsealedOr } from "../rows.js";

interface LineRedacted {
  readonly id: LineId;
  readonly version: number;
  readonly lists: number;
  /** The version of the session's label that was redacted last: older ones may hold the text. */
  readonly label?: number;
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
}

const TRIES = 100;

const listId = (line: string, no: number): string => `${line}.${no}`;

async function lineOf({ store }: Ground, line: LineId): Promise<LineRedacted | undefined> {
  const row = await store.doc(REDACTED, line);
  return row && unsealedOr<LineRedacted>(row.text, () => damaged(line));
}

/** Remembers saves, of one line, that were or will be rewritten. Those that are not are passed over. */
export async function rememberSaves(ground: Ground, line: LineId, saves: readonly Save[]): Promise<void> {
  const redacted = saves.flatMap((save) => {
    const sections = rewrittenSections(save);
    return sections === undefined ? [] : [{ seq: save.seq, ...sections }];
  });
  if (redacted.length === 0) return;
  await change(ground, line, (known) => {
    const id = listId(line, known.lists);
    const list: ListRedacted = { id, version: 1, saves: redacted };
    return [{ ...known, lists: known.lists + 1 }, [{ kind: REDACTED, id, when: { absent: true }, put: put(list) }]];
  });
}

/** Remembers that the label of the session which has these lines was redacted, and is of this version now. */
export async function rememberLabel(ground: Ground, lines: readonly LineId[], label: number): Promise<void> {
  for (const line of lines) await change(ground, line, (known) => [{ ...known, label }, []]);
}

async function change(
  ground: Ground,
  line: LineId,
  next: (known: LineRedacted) => readonly [LineRedacted, readonly DocChange[]],
): Promise<void> {
  for (let tries = 1; ; tries++) {
    const known = await lineOf(ground, line);
    const [after, lists] = next(known ?? { id: line, version: 0, lists: 0 });
    const doc = { ...after, version: after.version + 1 };
    const when = known === undefined ? { absent: true as const } : { version: known.version };
    const applied = await ground.store.apply([], [...lists, { kind: REDACTED, id: line, when, put: put(doc) }], "frees");
    if (applied.ok) return;
    // Another process has remembered something of the same line: this goes behind it.
    if (tries >= TRIES) throw new HoldfastError("BUSY", `Line ${line} is being redacted again and again by others. Try again.`, { line });
  }
}

const put = (doc: LineRedacted | ListRedacted) => ({ of: null, version: doc.version, text: sealed(doc), body: null, pins: [] });

/** Undefined where nothing of the line was ever redacted here. */
export async function rememberedOf(ground: Ground, line: LineId): Promise<Remembered | undefined> {
  const known = await lineOf(ground, line);
  if (known === undefined) return undefined;
  const saves = new Map<number, RewrittenSections>();
  for (let no = 0; no < known.lists; no++) {
    const id = listId(line, no);
    const row = await ground.store.doc(REDACTED, id);
    if (row === undefined) throw damaged(line);
    for (const { seq, ...sections } of unsealedOr<ListRedacted>(row.text, () => damaged(line)).saves)
      saves.set(seq, { ...saves.get(seq), ...sections });
  }
  return { saves, label: known.label ?? 0 };
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
