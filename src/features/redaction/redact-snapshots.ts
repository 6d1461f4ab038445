/**
 * Snapshots of an agent hold, beside pointers, the titles, tags and metadata that its sessions had:
 * these are texts like others.
 */
import { HoldfastError } from "../../core/values/errors.js";
import type { Json } from "../../core/values/json.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { documents } from "../../engine/records/documents.js";
import { unsealedOr } from "../../engine/records/rows.js";
import { contentsOf, type Entry, withContents } from "../../engine/records/snapshot-record.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT, SNAPSHOT } from "../../store/port/documents.js";

export interface Edited {
  /** Whether anything was changed. */
  readonly isChanged: boolean;
  /** Whether the text is in what is kept of the agent, which is not the session's. */
  readonly isInRecord: boolean;
  /** Snapshots that hold it in what they keep of the agent, or are called. */
  readonly holding: readonly string[];
  /** Snapshots that cannot be read. */
  readonly damaged: readonly string[];
}

export interface Editing {
  /** Answers the entry itself where nothing is to be changed. */
  readonly edit: (entry: Entry) => Entry;
  readonly holds: (value: Json) => boolean;
  /** Whether an entry of another session that shares the past holds it in words of that session. */
  readonly isOthers: (entry: Entry) => boolean;
  readonly dryRun: boolean;
}

/** Changes what an agent's snapshots say of its sessions. */
export async function editSnapshots(
  ctx: StoreContext,
  agent: string,
  { edit, holds, isOthers, dryRun }: Editing,
): Promise<Edited> {
  const damaged: string[] = [];
  let isChanged = false;
  const holding: string[] = [];
  const record = await documentsOf(ctx.store).get(AGENT, agent);
  const isInRecord = record !== undefined && holds(valueIn(record.text));
  for await (const { id } of documents(ctx.store, { kind: SNAPSHOT, of: agent })) {
    await yieldToEventLoop();
    for (;;) {
      const found = await change(ctx, id, edit, dryRun);
      if (found === "damaged") damaged.push(id);
      if (found === "damaged" || found === undefined) break;
      if (found.isDone && (found.ofAgent.some(holds) || found.entries.some(isOthers)))
        holding.push(id);
      isChanged ||= found.isChanged;
      if (found.isDone) break;
      // Somebody else has changed, or removed, the same one: looked at again.
    }
  }
  return { isChanged, isInRecord, holding, damaged };
}

interface Changed {
  readonly isChanged: boolean;
  readonly isDone: boolean;
  /** Texts that are not the sessions'. */
  readonly ofAgent: readonly Json[];
  readonly entries: readonly Entry[];
}

/** Undefined where it is gone. */
async function change(
  { store }: StoreContext,
  id: string,
  edit: (entry: Entry) => Entry,
  dryRun: boolean,
): Promise<Changed | "damaged" | undefined> {
  const row = await documentsOf(store).get(SNAPSHOT, id);
  const contents = row && (await unlessDamaged(() => contentsOf(row)));
  if (row === undefined || contents === undefined) return row && "damaged";
  const { sessions, ...rest } = contents;
  const edited = sessions.map(edit);
  const isChanged = edited.some((entry, i) => entry !== sessions[i]);
  const isWritten = isChanged && !dryRun;
  const isDone =
    !isWritten ||
    (await store.apply([], [withContents(row, { ...contents, sessions: edited })], "frees")).ok;
  return {
    isChanged,
    isDone,
    ofAgent: [valueIn(row.text), (rest.agent ?? null) as Json, rest.damaged ?? ""],
    entries: edited,
  };
}

/** What stands in a sealed text: a pattern is asked about values, and not about their JSON. */
function valueIn(text: string): Json {
  try {
    return unsealedOr<Json>(text, () => new HoldfastError("CORRUPT", "damaged"));
  } catch {
    return text;
  }
}
