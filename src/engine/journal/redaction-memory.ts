/**
 * What was redacted, remembered for as long as the store lasts: also once its session is deleted
 * and its branch is freed. An export of before must not bring the text back.
 *
 * REDACTED-1  a document for each branch has the redactions of it, each a random id and the first
 *             record that it may have changed. They say nothing about a text. An export has them as
 *             well: one that lacks an id is of before that redaction.
 * REDACTED-2  what was pruned before a redaction may have held the text: it counts as changed.
 * REDACTED-3  a redaction is remembered before anything is replaced, and under another id once all
 *             is. An export of in between has the first id alone. After a kill, the redaction is
 *             made again, and has ids of its own.
 */
import { randomUUID } from "node:crypto";
import { isRedactions, type Redactions } from "../../core/transfer/export-format.js";
import { HoldfastError } from "../../core/values/errors.js";
import type { BranchId } from "../../core/values/ids.js";
import { documentsOf } from "../../store/capabilities.js";
import { type DocRow, REDACTED } from "../../store/port/documents.js";
import { sealed, unsealedOr } from "../records/rows.js";
import type { StoreContext } from "./store-context.js";

interface BranchRedacted {
  readonly id: string;
  readonly version: number;
  readonly redactions: Redactions;
}

/** So many are told apart. If there are more, one stands for all of them, over the whole branch. */
const MOST = 1_000;
const TRIES = 100;

/** Of a branch: empty where nothing of it was ever redacted here. */
export async function redactionsOf({ store }: StoreContext, branch: BranchId): Promise<Redactions> {
  const row = await documentsOf(store).get(REDACTED, branch);
  return row === undefined ? [] : redactionsIn(row);
}

/** Throws where they are damaged. */
export function redactionsIn({ id, text }: Pick<DocRow, "id" | "text">): Redactions {
  const doc = unsealedOr<BranchRedacted>(text, () => damaged(id));
  if (doc.id !== id || !isRedactions(doc.redactions)) throw damaged(id);
  return doc.redactions;
}

/**
 * Redacts, and remembers it. `branches`: from which record on each is changed; 0 for what stands
 * beside the journal of the session that owns it.
 */
export async function remembering<T>(
  ctx: StoreContext,
  branches: ReadonlyMap<BranchId, number>,
  redact: () => Promise<T>,
): Promise<T> {
  const [before, after] = [randomUUID(), randomUUID()];
  for (const [branch, from] of branches)
    await remember(ctx, branch, (known) => [...known, [before, from]]);
  const redacted = await redact();
  for (const [branch, from] of branches)
    await remember(ctx, branch, (known) => [
      ...known.filter(([id]) => id !== before),
      [after, from],
    ]);
  return redacted;
}

export async function remember(
  { store }: StoreContext,
  branch: BranchId,
  change: (known: Redactions) => Redactions,
): Promise<void> {
  // A store without documents redacts nothing. What an import brings to it comes as it is.
  if (store.documents === undefined) return;
  for (let tries = 1; ; tries++) {
    const row = await documentsOf(store).get(REDACTED, branch);
    const all = change(row === undefined ? [] : redactionsIn(row));
    const redactions: Redactions = all.length <= MOST ? all : [[randomUUID(), 1]];
    const version = (row?.version ?? 0) + 1;
    const text = sealed({ id: branch, version, redactions } satisfies BranchRedacted);
    const when = row === undefined ? { absent: true as const } : { version: row.version };
    const put = { of: null, version, text, body: null, pins: [] };
    if ((await store.apply([], [{ kind: REDACTED, id: branch, when, put }], "frees")).ok) return;
    // Another process has remembered something of the same branch: this goes behind it.
    if (tries >= TRIES)
      throw new HoldfastError(
        "BUSY",
        `Branch ${branch} is being redacted again and again by others. Try again.`,
        { branch },
      );
  }
}

const damaged = (branch: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The list of what was redacted on branch ${branch} is damaged. Nothing of that branch can be redacted, exported or imported; restore a backup of the store.`,
    { branch },
  );
