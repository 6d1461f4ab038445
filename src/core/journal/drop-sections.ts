/** Drop sections of saves, and make one gap of saves that hold nothing any more (JOURNAL-4, JOURNAL-5). */
import { firstSeq, type Save } from "./save.js";
import { inChain } from "./save-digest.js";
import { type Note, noteOf, priorOf, readNote, writeNote } from "./save-note.js";

export interface Drop {
  readonly items: boolean;
  readonly state: boolean;
  readonly mark: boolean;
  readonly prior: number;
}

/** The save without some of its sections. */
export function drop(save: Save, what: Drop): Save {
  const { items, state, marked, ...known } = readNote(save) ?? {};
  const kept: Note = {
    ...known,
    ...(items !== undefined && !what.items && { items }),
    ...(state !== undefined && !what.state && { state }),
    ...(marked !== undefined && !what.mark && { marked }),
  };
  const gone =
    what.mark && save.mark !== null
      ? { mark: known.mark ?? inChain(save.mark), prior: what.prior }
      : undefined;
  return {
    ...save,
    items: what.items ? null : save.items,
    state: what.state ? null : save.state,
    mark: what.mark ? null : save.mark,
    note: noteOf(save, { ...kept, ...gone }),
  };
}

/** One gap for saves that stand next to each other and hold nothing any more. */
export function gap(saves: readonly [Save, ...Save[]]): Save {
  const first = saves[0];
  const last = saves.at(-1) as Save;
  const open = {
    ...last,
    nItems: 0,
    nState: last.seq - firstSeq(first) + 1,
    nMark: 0,
    nMessages: 0,
    prev: first.prev,
    itemsDigest: null,
    stateDigest: null,
    items: null,
    state: null,
    mark: null,
  };
  // Where its first save goes on: pointers of the others may lead into the gap itself.
  return { ...open, note: writeNote(open, { gap: open.nState, prior: priorOf(first) }) };
}
