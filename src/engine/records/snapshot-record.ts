/**
 * A snapshot: an agent's record, and the places of all its sessions. Pointers, not copies: its
 * document pins the places, and what stands there stays for as long as it does.
 */
import { type CheckpointKind, MAX_DESCRIPTION } from "../../core/journal/checkpoint.js";
import { open } from "../../core/journal/open-save.js";
import { type Digest, digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { Place } from "../../core/values/ids.js";
import { type JsonObject, parseStored } from "../../core/values/json.js";
import { isoTime } from "../../core/values/time.js";
import { type DocChange, type DocRow, SNAPSHOT } from "../../store/port/documents.js";
import type { Present } from "../../store/port/rows.js";
import type { Store } from "../../store/port.js";
import type { KeyOptions } from "../util/validate.js";
import type { AgentDoc } from "./agent-record.js";
import { documents } from "./documents.js";
import type { Relabel, SessionUpdate } from "./rows.js";
import {
  branchOf,
  type HeadDoc,
  headOf,
  type LabelDoc,
  labelOf,
  sealed,
  unsealedOr,
} from "./rows.js";

export const MAX_SNAPSHOT_NAME = 1_000;
export { MAX_DESCRIPTION };
/** How many sessions of one agent are put aside, put back or deleted in one step. */
export const MAX_SESSIONS = 50_000;

/** What to say of a snapshot. */
export interface SnapshotOptions extends KeyOptions {
  readonly name?: string;
  readonly description?: string;
  /** manual by default. */
  readonly kind?: CheckpointKind;
  readonly metadata?: JsonObject;
  /**
   * Labels by session id, for a snapshot of an earlier time: what a session was called then. A
   * restore gives it to the session again. What a label does not say is as it stands now. Sessions
   * of other agents are passed over.
   */
  readonly labels?: Readonly<Record<string, SessionUpdate>>;
}

/** An agent's record, and where each of its sessions stood at one moment. */
export interface Snapshot {
  readonly id: string;
  readonly agent: string;
  readonly kind: CheckpointKind;
  readonly name?: string;
  readonly description?: string;
  readonly createdAt: string;
  /** How many sessions the agent had. */
  readonly sessions: number;
  /** The version of its record; absent where there was none. */
  readonly version?: number;
  /**
   * The size of the snapshot's own text in UTF-8: the record, and of each session its place, title,
   * tags and metadata. The messages and state at these places are stored once, with the sessions,
   * and do not count.
   */
  readonly sizeBytes: number;
  /**
   * The SHA-256 of that text. Each place in it comes with the digest of the session's history up to
   * there. So two snapshots with the same digest hold the same record and the same sessions. Id,
   * kind, name, description, metadata and time are not part of it. A redaction that changes a
   * title, a tag or metadata in the snapshot changes its size and its digest.
   */
  readonly digest: string;
  readonly metadata: JsonObject;
}

interface SnapshotDoc extends Omit<Snapshot, "createdAt"> {
  readonly createdAt: number;
}

/** A session in a snapshot: where it stood, and what stood beside its journal. */
export interface Entry {
  readonly id: string;
  /** Null where nothing had been saved yet. */
  readonly place: Place | null;
  /** The digest at the place. */
  readonly digest: Digest | null;
  readonly head: Pick<HeadDoc, "createdAt" | "title" | "forkPoint" | "parent" | "children">;
  readonly label: Omit<LabelDoc, "id" | "version">;
}

export interface Contents {
  readonly agent: AgentDoc | null;
  /**
   * What was left of a record that could not be read. It is kept for people, and is not put back.
   */
  readonly damaged?: string;
  readonly sessions: readonly Entry[];
}

/** The label of a session as another time had it. */
export const withLabel = (entry: Entry, relabel: Relabel | undefined): Entry =>
  relabel === undefined ? entry : { ...entry, label: relabel(entry.label) };

/**
 * Where a session stands now. Throws where its rows are damaged: a snapshot of what cannot be read
 * is none.
 */
export function entryOf({ row, branch, end }: Present): Entry {
  const { id, createdAt, title, forkPoint, parent, children } = headOf(row);
  const { id: _id, version: _version, ...label } = labelOf(row);
  if (branch === undefined)
    throw new HoldfastError("CORRUPT", `The branch of session ${quote(id)} is missing.`, {
      sessionId: id,
    });
  const doc = branchOf(branch);
  const place = end === undefined ? doc.forkPoint : { branch: end.branch, seq: end.seq };
  const head = {
    createdAt,
    ...(title === undefined ? undefined : { title }),
    ...(forkPoint === undefined ? undefined : { forkPoint }),
    ...(parent === undefined ? undefined : { parent }),
    ...(children === undefined ? undefined : { children }),
  };
  return {
    id,
    place,
    digest: end === undefined ? doc.forkPoint && doc.prev : open(end, {}).digest,
    head,
    label,
  };
}

/** The document of a snapshot, and how it is seen. */
export function newSnapshot(
  about: Omit<Snapshot, "sessions" | "version" | "createdAt" | "sizeBytes" | "digest"> & {
    readonly createdAt: number;
  },
  contents: Contents,
): { readonly change: DocChange; readonly snapshot: Snapshot } {
  const { agent, sessions } = contents;
  const body = JSON.stringify(contents);
  const doc: SnapshotDoc = {
    ...about,
    sessions: sessions.length,
    ...(agent === null ? undefined : { version: agent.version }),
    ...measured(body),
  };
  const pins = sessions.flatMap(({ place }) => place ?? []);
  const change: DocChange = {
    kind: SNAPSHOT,
    id: about.id,
    when: { absent: true },
    put: { of: about.agent, version: 1, text: sealed(doc), body, pins },
  };
  return { change, snapshot: shown(doc) };
}

const measured = (body: string) => ({ sizeBytes: Buffer.byteLength(body), digest: digest(body) });

const docOf = ({ id, of, text }: DocRow): SnapshotDoc => {
  const doc = unsealedOr<SnapshotDoc>(text, () => damagedSnapshot(id));
  if (doc.id !== id || doc.agent !== of) throw damagedSnapshot(id);
  return doc;
};

export const snapshotOf = (row: DocRow): Snapshot => shown(docOf(row));

/** What it holds, verified against its digest. */
export function contentsOf(row: DocRow & { readonly body: string | null }): Contents {
  const { digest: named } = docOf(row);
  if (row.body === null || digest(row.body) !== named) throw damagedSnapshot(row.id);
  return parseStored(row.body, () => damagedSnapshot(row.id)) as Contents;
}

/** The same snapshot with other words in it. It points where it did. */
export function withContents(row: DocRow, contents: Contents): DocChange {
  const body = JSON.stringify(contents);
  const doc: SnapshotDoc = { ...docOf(row), ...measured(body) };
  const put = { of: row.of, version: row.version + 1, text: sealed(doc), body, pins: [] };
  return { kind: SNAPSHOT, id: row.id, when: { version: row.version }, put };
}

const shown = ({ createdAt, ...rest }: SnapshotDoc): Snapshot =>
  Object.freeze({ ...rest, createdAt: isoTime(createdAt) });

const damagedSnapshot = (id: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `Snapshot ${quote(id)} is damaged. Nothing was changed; delete it to do without it, or run verify to see what else is.`,
    { found: id },
  );

export const noSnapshot = (id: string): HoldfastError =>
  new HoldfastError("NOT_FOUND", `There is no snapshot ${quote(id)}. List those of its agent.`, {
    found: id,
  });

/** Those that are known to be the agent's, newest first. */
export async function snapshotsOf(store: Store, agent: string): Promise<readonly DocRow[]> {
  const all: DocRow[] = [];
  for await (const row of documents(store, { kind: SNAPSHOT, of: agent }))
    if (row.of === agent) all.push(row);
  return all;
}
