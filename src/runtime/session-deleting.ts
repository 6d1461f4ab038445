/** Deleting a session, with those that its calls ran. */
import { checkName, type SessionId, sessionId } from "../core/ids.js";
import type { JsonObject } from "../core/json.js";
import { type LineRow, type SessionRow, SNAPSHOT } from "../store/port.js";
import { contentsOf, snapshotsOf } from "./agents/snapshot.js";
import { unlessDamaged, unlessGone } from "./damage.js";
import { Acted } from "./effects/acted.js";
import { descendants } from "./family.js";
import type { Ground } from "./ground.js";
import { noSession } from "./inbox.js";
import { flag, options } from "./options.js";
import { childrenOf } from "./outside.js";
import { type KeyOption, onceRemoved, type Receipt } from "./receipts.js";
import { cutLines } from "./retention/gc.js";

export interface DeleteOptions extends KeyOption {
  /** Only where it is this agent's; otherwise it is NOT_FOUND. */
  readonly agent?: string;
  /** Only answers what would go, and what would be kept. */
  readonly dryRun?: boolean;
}

export interface Deleted {
  readonly keptFor: readonly string[];
  /** Sessions that its calls ran, and that went with it; absent where there were none. */
  readonly children?: readonly string[];
  /** Snapshots from which it can be brought back, in part or whole; absent where there are none. */
  readonly snapshots?: readonly string[];
}

export async function deleteSession(ground: Ground, id: string, o?: DeleteOptions): Promise<Deleted> {
  const known = sessionId(id);
  const { key, agent, dryRun } = options(o, "sessions.delete", ["key", "agent", "dryRun"]);
  const only = agent === undefined ? undefined : checkName(agent, "agent");
  if (flag(dryRun, "dryRun")) return (await surveyed(ground, known, only)).answer;
  return onceRemoved<JsonObject, Deleted>(
    ground,
    { key, name: "sessions.delete", to: known, args: {} },
    (receipt) => deleteIt(ground, known, only, receipt),
    (answer) => answer as unknown as Deleted,
  );
}

async function deleteIt(ground: Ground, id: SessionId, only: string | undefined, receipt: Receipt<JsonObject>): Promise<Deleted> {
  const { row, children, own, family, answer } = await surveyed(ground, id, only);
  // First: whoever deletes again after a crash finds them by their parent.
  for (const child of children) await unlessGone(() => deleteSession(ground, child));
  const left = family.map((line) => (line.session === id ? { ...line, owned: false, session: null } : line));
  const acted = await Acted.of(ground, own, left);
  await remove(ground, row, { answer, receipt, acted });
  ground.watchers.changed(id);
  // The session is deleted. What something damaged may need is freed by `gc`, once that is mended or gone.
  await unlessDamaged(() => cutLines(ground, own, left, { dryRun: false }));
  return answer;
}

/** What would go, and what that would leave. */
async function surveyed(ground: Ground, id: SessionId, only: string | undefined) {
  const { store } = ground;
  const row = await store.session(id);
  if (row === undefined || (only !== undefined && row.head.agent !== only)) throw noSession(id);
  const children = await childrenOf(ground, id);
  const theirs = await Promise.all(children.map((child) => unlessGone(() => surveyed(ground, child, undefined))));
  // One that is gone meanwhile does not go with this.
  const all = children.flatMap((child, i) => (theirs[i] === undefined ? [] : [child, ...(theirs[i].answer.children ?? [])]));
  const own = await store.lines({ session: id });
  const family = await descendants(ground, own);
  const below = theirs.flatMap((their) => their?.answer ?? []);
  const snapshots = [...new Set([...(await snapshotsInto(ground, row, own)), ...below.flatMap((one) => one.snapshots ?? [])])];
  const goes = new Set<string>([id, ...all]);
  const sharing = [...family.flatMap(({ session }) => session ?? []), ...below.flatMap(({ keptFor: theirKept }) => theirKept)];
  const keptFor = [...new Set(sharing.filter((session) => !goes.has(session)))].sort();
  const answer: Deleted & JsonObject = {
    keptFor,
    ...(all.length === 0 ? undefined : { children: all }),
    ...(snapshots.length === 0 ? undefined : { snapshots }),
  };
  return { row, children, own, family, answer };
}

/** Ends the session that was there, and no other of its name: one may be made while this waits for an answer. */
async function remove(
  { store }: Ground,
  first: SessionRow,
  { answer, receipt, acted }: { readonly answer: JsonObject; readonly receipt: Receipt<JsonObject>; readonly acted: Acted },
): Promise<void> {
  for (let row: SessionRow | undefined = first; ; row = await store.session(first.id)) {
    const there = row?.no === first.no ? row : undefined;
    if (there === undefined && !receipt.isKept) return;
    const removal = there === undefined ? [] : [{ session: there.id, when: { epoch: there.lease.epoch }, remove: true as const }];
    const kept = await acted.docs();
    const applied = await store.apply(removal, [...kept, ...receipt.docs(answer)]);
    if (applied.ok) break;
    receipt.check(applied, removal.length + kept.length);
    // It was taken in between: by whoever, it goes.
  }
  await acted.keepMore();
}

/** Snapshots that point into a session's lines. */
async function snapshotsInto(ground: Ground, { head: { agent } }: SessionRow, own: readonly LineRow[]): Promise<readonly string[]> {
  const { store } = ground;
  const pinning = await unlessDamaged(async () => {
    const docs = new Set<number>();
    for (const { id: line } of own) for (const { doc } of await store.pins(line)) docs.add(doc);
    return docs;
  });
  if (pinning?.size === 0 || agent == null) return [];
  const found: string[] = [];
  for (const row of await snapshotsOf(store, agent))
    if (pinning?.has(row.no) ?? (await pointsInto(ground, row.id, own))) found.push(row.id);
  return found;
}

/** Where a damaged snapshot hides what is pinned, those that are sound say themselves where they point. */
async function pointsInto({ store }: Ground, snapshot: string, own: readonly LineRow[]): Promise<boolean> {
  const row = await store.doc(SNAPSHOT, snapshot);
  const contents = row && (await unlessDamaged(() => contentsOf(row)));
  return contents?.sessions.some(({ place }) => own.some(({ id }) => id === place?.line)) ?? false;
}
