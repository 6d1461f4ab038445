/** Snapshots of an agent hold, beside pointers, the titles, tags and metadata that its sessions had: these are texts like others. */
import type { DocRow } from "../../store/port.js";
import { contentsOf, type Entry, SNAPSHOT, withContents } from "../agents/snapshot.js";
import { breathe } from "../breathe.js";
import type { Ground } from "../ground.js";

const ROWS = 200;

/** Changes what snapshots say of a session. `edit` answers the entry itself where nothing is to be changed. Answers whether anything was. */
export async function editSnapshots(
  ground: Ground,
  agent: string | undefined,
  session: string,
  edit: (entry: Entry) => Entry,
): Promise<boolean> {
  let isChanged = false;
  for await (const id of agent === undefined ? [] : snapshotsOf(ground, agent)) {
    await breathe();
    // Somebody else may change, or remove, the same one.
    while (await changes(ground, id, session, edit)) isChanged = true;
  }
  return isChanged;
}

async function* snapshotsOf({ store }: Ground, agent: string): AsyncGenerator<string> {
  for (let before: number | undefined; ; ) {
    const rows: readonly DocRow[] = await store.docs({ kind: SNAPSHOT, of: agent, limit: ROWS, ...(before !== undefined && { before }) });
    for (const { id } of rows) yield id;
    before = rows.at(-1)?.no;
    if (rows.length < ROWS) return;
  }
}

async function changes({ store }: Ground, id: string, session: string, edit: (entry: Entry) => Entry): Promise<boolean> {
  const row = await store.doc(SNAPSHOT, id);
  if (row === undefined) return false;
  const contents = contentsOf(row);
  const sessions = contents.sessions.map((entry) => (entry.id === session ? edit(entry) : entry));
  if (sessions.every((entry, i) => entry === contents.sessions[i])) return false;
  await store.apply([], [withContents(row, { ...contents, sessions })]);
  return true;
}
