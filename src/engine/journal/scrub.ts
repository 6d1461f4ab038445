/**
 * Removing text from a store's files, and from the index for search, that is not in the store any
 * more.
 */
import { HoldfastError, quote } from "../../core/values/errors.js";
import { documentsOf } from "../../store/capabilities.js";
import { SNAPSHOT } from "../../store/port/documents.js";
import type { StoreReclaim } from "../../store/port/reclaim.js";
import { documents } from "../records/documents.js";
import { contentsOf } from "../records/snapshot-record.js";
import { unlessDamaged } from "../records/tolerate-damage.js";
import { yieldToEventLoop } from "../util/yield-to-event-loop.js";
import { descendants } from "./descendants.js";
import type { StoreContext } from "./store-context.js";

const BRANCHES = 500;
const MOST_NAMED = 20;

/**
 * `holds` says of a text that no longer counts whether it must go. Answers what is left, in words.
 */
export async function scrub(
  { store }: StoreContext,
  reclaim: Pick<StoreReclaim, "scrub">,
  holds: (text: string) => boolean,
): Promise<readonly string[]> {
  const unpurged: string[] = [];
  try {
    await store.index?.purge();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    unpurged.push(`words in the index for search: it could not be gone over (${error.message}).`);
  }
  const { left } = await reclaim.scrub(holds);
  return [...unpurged, ...left];
}

/**
 * What deleted sessions have said and the store must keep, in words: forks go on from it, or
 * snapshots can bring it back.
 */
export async function keptOfDeleted(ctx: StoreContext): Promise<readonly string[]> {
  const forks = await forksOfDeleted(ctx);
  const snapshots = await snapshotsOfDeleted(ctx);
  return [
    ...(forks.size > 0
      ? [
          `pasts of deleted sessions that forks go on from: delete, or redact, ${named(forks)}, and scrub again.`,
        ]
      : []),
    ...(snapshots.size > 0
      ? [`what snapshots keep of deleted sessions: delete ${named(snapshots)}, and scrub again.`]
      : []),
  ];
}

const named = (ids: ReadonlySet<string>): string =>
  [...ids].slice(0, MOST_NAMED).map(quote).join(", ") +
  (ids.size > MOST_NAMED ? `, … (${ids.size} in all)` : "");

async function forksOfDeleted(ctx: StoreContext): Promise<ReadonlySet<string>> {
  const forks = new Set<string>();
  for (let before = Number.MAX_SAFE_INTEGER; ; ) {
    await yieldToEventLoop();
    const rows = await ctx.store.branches({ kind: "all", before, limit: BRANCHES });
    for (const { session } of await descendants(
      ctx,
      rows.filter(({ owned }) => !owned),
    ))
      if (session !== null) forks.add(session);
    before = rows.at(-1)?.no ?? 0;
    if (rows.length < BRANCHES) return forks;
  }
}

async function snapshotsOfDeleted(ctx: StoreContext): Promise<ReadonlySet<string>> {
  const { store } = ctx;
  const snapshots = new Set<string>();
  for await (const { id } of documents(store, { kind: SNAPSHOT })) {
    await yieldToEventLoop();
    const row = await documentsOf(store).get(SNAPSHOT, id);
    const contents = row && (await unlessDamaged(() => contentsOf(row)));
    for (const { id: session } of contents?.sessions ?? [])
      if ((await store.session(session)).row === undefined) snapshots.add(id);
  }
  return snapshots;
}
