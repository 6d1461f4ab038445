/**
 * Remember which tools acted in a past that is deleted, where a fork or a snapshot still goes back
 * to a place before those calls.
 *
 * The calls themselves go with their session. A document for each branch that stays names their
 * tools, so that a fork waits for a person before it calls such a tool again. The apply that
 * removes the session writes it.
 */
import { type BranchNode, reach } from "../../core/retention/retention.js";
import { highest } from "../../core/values/highest.js";
import { type BranchId, MAX_SEQ } from "../../core/values/ids.js";
import { equal } from "../../core/values/json.js";
import { documentsOf, requireCapability } from "../../store/capabilities.js";
import type { DocChange, DocRow } from "../../store/port/documents.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import { documents } from "../records/documents.js";
import { damaged, sealed, unsealed } from "../records/rows.js";
import { unlessDamaged } from "../records/tolerate-damage.js";
import { AbandonedCalls } from "./abandoned-calls.js";

export const ACTED = "acted";

export interface ActedDoc {
  /** The branch that stays. */
  readonly id: BranchId;
  readonly version: number;
  /** Each tool, with the id of its last call. */
  readonly tools: readonly { readonly name: string; readonly effectId: string }[];
  /** What was deleted could not be read: every tool may have acted. */
  readonly unreadable?: true;
}

export class Acted {
  readonly #store: Store;
  readonly #branches: readonly BranchId[];
  /** Undefined where the branches could not be read. */
  readonly #left: AbandonedCalls | undefined;

  private constructor(
    store: Store,
    branches: readonly BranchId[],
    left: AbandonedCalls | undefined,
  ) {
    this.#store = store;
    this.#branches = branches;
    this.#left = left;
  }

  /**
   * `own`: the branches of what is deleted. `family`: these, without an owner, and all that began
   * on them. `goes`: the numbers of snapshots that are deleted in the same step.
   */
  static async of(
    ctx: StoreContext,
    own: readonly BranchRow[],
    family: readonly BranchNode[],
    goes: ReadonlySet<number> = new Set(),
  ): Promise<Acted> {
    const kept = await unlessDamaged(() => keptOf(ctx.store, own, family, goes));
    const left = kept && (await unlessDamaged(() => AbandonedCalls.beyond(ctx, own, kept)));
    return new Acted(
      ctx.store,
      kept === undefined ? own.map(({ id }) => id) : [...kept.keys()],
      left,
    );
  }

  /** What is to be kept, read up to now; nothing where that is kept already. */
  async docs(): Promise<readonly DocChange[]> {
    if (this.#branches.length === 0) return [];
    const calls = await unlessDamaged(async () => this.#left?.all());
    const tools = [...new Map((calls ?? []).map(({ name, id }) => [name, id]))].map(
      ([name, effectId]) => ({ name, effectId }),
    );
    if (calls !== undefined && tools.length === 0) return [];
    const changes: DocChange[] = [];
    for (const id of this.#branches) {
      const row = await documentsOf(this.#store).get(ACTED, id);
      const says = { tools, ...(calls === undefined && { unreadable: true as const }) };
      const known = row && (await unlessDamaged(() => actedOf(row)));
      if (
        known !== undefined &&
        equal(says, { tools: known.tools, ...(known.unreadable && { unreadable: true }) })
      )
        continue;
      const version = (row?.version ?? 0) + 1;
      const put = {
        of: null,
        version,
        text: sealed({ id, version, ...says } satisfies ActedDoc),
        body: null,
        pins: [],
      };
      changes.push({
        kind: ACTED,
        id,
        when: row === undefined ? { absent: true } : { version: row.version },
        put,
      });
    }
    if (changes.length > 0)
      requireCapability(this.#store, "documents", "Deleting what forks must know the calls of");
    return changes;
  }

  /** Keep what has come since: those who held the session may have gone on until it was removed. */
  async keepMore(): Promise<void> {
    for (;;) {
      const docs = await this.docs();
      if (docs.length === 0 || (await this.#store.apply([], docs, "frees")).ok) return;
    }
  }
}

/** How far each branch stays. */
async function keptOf(
  store: Store,
  own: readonly BranchRow[],
  family: readonly BranchNode[],
  goes: ReadonlySet<number>,
) {
  const needed = reach(family);
  const kept = new Map<BranchId, number>();
  for (const { id } of own) {
    const pinned = (await documentsOf(store).pins(id)).flatMap(({ seq, doc }) =>
      goes.has(doc) ? [] : seq,
    );
    const last = highest(needed.get(id) ?? 0, pinned);
    if (last > 0) kept.set(id, last);
  }
  return kept;
}

/** What is kept of pasts that were deleted behind the places where this past goes on. */
export async function actedIn({ store }: StoreContext, past: Past): Promise<readonly ActedDoc[]> {
  const found: ActedDoc[] = [];
  for (const { branch, to } of await past.all()) {
    const row = to === MAX_SEQ ? undefined : await documentsOf(store).get(ACTED, branch);
    if (row !== undefined) found.push(actedOf(row));
  }
  return found;
}

export function actedOf({ id, version, text }: Pick<DocRow, "id" | "version" | "text">): ActedDoc {
  const doc = unsealed<ActedDoc>(text, "list of tools that acted", "(deleted)");
  if (doc.id !== id || doc.version !== version)
    throw damaged("list of tools that acted", "(deleted)");
  return doc;
}

/** Forget branches that are gone. */
export async function forgetActed(
  { store }: StoreContext,
  { signal }: { readonly signal: AbortSignal | undefined },
): Promise<void> {
  const gone: string[] = [];
  for await (const { id } of documents(store, { kind: ACTED })) {
    signal?.throwIfAborted();
    if ((await store.branches(oneBranch(id)))[0] === undefined) gone.push(id);
  }
  for (const id of gone) await store.apply([], [{ kind: ACTED, id, when: {}, remove: true }]);
}
