/** Snapshots of an agent hold, beside pointers, the titles, tags and metadata that its sessions had: these are texts like others. */
import { AGENT } from "../../store/port.js";
import { contentsOf, type Entry, SNAPSHOT, withContents } from "../agents/snapshot.js";
import { breathe } from "../breathe.js";
import { documents } from "../documents.js";
import type { Ground } from "../ground.js";

export interface Edited {
  /** Whether anything was changed. */
  readonly isChanged: boolean;
  /** Whether the text is in what is kept of the agent, which is not the session's: there, or in a snapshot. */
  readonly isInAgent: boolean;
}

/** Changes what snapshots say of a session. `edit` answers the entry itself where nothing is to be changed. */
export async function editSnapshots(
  ground: Ground,
  agent: string | undefined,
  session: string,
  edit: (entry: Entry) => Entry,
  holds: (text: string) => boolean,
): Promise<Edited> {
  if (agent === undefined) return { isChanged: false, isInAgent: false };
  let isChanged = false;
  let isInAgent = holds((await ground.store.doc(AGENT, agent))?.text ?? "");
  for await (const { id } of documents(ground.store, { kind: SNAPSHOT, of: agent })) {
    await breathe();
    for (;;) {
      const found = await change(ground, id, session, edit);
      isInAgent ||= holds(found.text) || holds(JSON.stringify(found.agent));
      // Looked at again: somebody else may change, or remove, the same one.
      if (!found.isChanged) break;
      isChanged = true;
    }
  }
  return { isChanged, isInAgent };
}

async function change(
  { store }: Ground,
  id: string,
  session: string,
  edit: (entry: Entry) => Entry,
): Promise<{ readonly isChanged: boolean; readonly agent: unknown; readonly text: string }> {
  const row = await store.doc(SNAPSHOT, id);
  if (row === undefined) return { isChanged: false, agent: null, text: "" };
  const contents = contentsOf(row);
  const { agent } = contents;
  const { text } = row;
  const sessions = contents.sessions.map((entry) => (entry.id === session ? edit(entry) : entry));
  if (sessions.every((entry, i) => entry === contents.sessions[i])) return { isChanged: false, agent, text };
  await store.apply([], [withContents(row, { ...contents, sessions })]);
  return { isChanged: true, agent, text };
}
