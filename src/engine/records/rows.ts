/**
 * The texts of a session's rows. Each carries a digest of itself and names what it belongs to, so
 * that a changed bit, or a row put in another's place, is damage that is seen and not a value that
 * is believed (D3).
 */
import type { Lease } from "../../core/sessions/lease.js";
import { isStatus, type SessionStatus } from "../../core/sessions/status.js";
import { type Digest, digest, isDigest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  type BranchId,
  isBranchId,
  isPlace,
  type Place,
  parsePlace,
  type SessionId,
} from "../../core/values/ids.js";
import {
  deepFreeze,
  equal,
  type Json,
  type JsonObject,
  parseStored,
} from "../../core/values/json.js";
import {
  fields,
  isCount,
  isNumber,
  isObject,
  isString,
  isTime,
  listOf,
  maybe,
  oneOf,
} from "../../core/values/shapes.js";
import type {
  BranchRow,
  Head,
  Label,
  LeaseRow,
  NewBranch,
  SessionRow,
} from "../../store/port/rows.js";
import { isInboxDoc } from "./inbox-shape.js";

export interface HeadDoc {
  readonly id: SessionId;
  readonly branch: BranchId;
  readonly status: SessionStatus;
  readonly reason?: string;
  readonly agent?: string;
  /** Taken from the first user message; a title that somebody gave stands in the label. */
  readonly title?: string;
  readonly createdAt: number;
  /** The wall time from which a worker may take it up; absent where there is nothing to do. */
  readonly due?: number;
  readonly forkPoint?: { readonly sessionId: string; readonly checkpointId: string };
  /** The session whose call runs this one. */
  readonly parent?: SessionId;
  /** It has sessions that its calls run. */
  readonly children?: true;
  /** The generation of the store that it was last set going in; absent in the first. */
  readonly generation?: string;
}

export interface LabelDoc {
  readonly id: SessionId;
  readonly version: number;
  readonly title?: string;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: JsonObject;
}

export interface BranchDoc {
  readonly id: BranchId;
  readonly forkPoint: Place | null;
  /**
   * The digest its first save follows: the fork point's, so that a fork goes on with the chain it
   * came from.
   */
  readonly prev: Digest;
  /** What becomes of a call that was made in the past it left; `ask` where it is absent. */
  readonly effects?: "replay" | "live";
}

const CHECK = 16;
export const sealed = (doc: object): string => {
  const text = JSON.stringify(doc);
  return digest(text).slice(0, CHECK) + text;
};

export function unsealed<T>(text: unknown, what: string, sessionId: string): T {
  return unsealedOr<T>(text, () => damaged(what, sessionId));
}

export function unsealedOr<T>(text: unknown, damage: () => HoldfastError): T {
  if (
    typeof text !== "string" ||
    digest(text.slice(CHECK)).slice(0, CHECK) !== text.slice(0, CHECK)
  )
    throw damage();
  const doc = parseStored(text.slice(CHECK), damage);
  if (!isObject(doc)) throw damage();
  return doc as T;
}

export function damaged(what: string, sessionId: string): HoldfastError {
  return new HoldfastError(
    "CORRUPT",
    `The ${what} of session ${quote(String(sessionId))} is damaged. Run verify to see what else is; other sessions are not touched.`,
    { sessionId },
  );
}

export const headRow = (doc: HeadDoc): Head => ({
  status: doc.status,
  agent: doc.agent ?? null,
  branch: doc.branch,
  due: doc.due ?? null,
  text: sealed(doc),
});

export function headOf({ id, head }: Pick<SessionRow, "id" | "head">): HeadDoc {
  const doc = unsealed<HeadDoc>(head.text, "head", id);
  const isSame =
    doc.id === id &&
    doc.status === head.status &&
    (doc.agent ?? null) === head.agent &&
    doc.branch === head.branch &&
    (doc.due ?? null) === head.due;
  if (!isSame || !isHead(doc)) throw damaged("head", id);
  return doc;
}

export const isHead = fields<HeadDoc>({
  id: isString,
  branch: isBranchId,
  status: isStatus,
  reason: maybe(isString),
  agent: maybe(isString),
  title: maybe(isString),
  createdAt: isTime,
  due: maybe(isNumber),
  forkPoint: maybe(
    fields<NonNullable<HeadDoc["forkPoint"]>>({
      sessionId: isString,
      checkpointId: (id) => typeof id === "string" && parsePlace(id) !== undefined,
    }),
  ),
  parent: maybe(isString),
  children: maybe(oneOf(true)),
  generation: maybe(isString),
});

export const labelRow = (doc: LabelDoc): Label => ({
  version: doc.version,
  archived: doc.archived,
  tags: doc.tags,
  text: sealed(doc),
});

export function labelOf({ id, label }: SessionRow): LabelDoc {
  const doc = unsealed<LabelDoc>(label.text, "label", id);
  const isSame =
    doc.id === id &&
    doc.version === label.version &&
    doc.archived === label.archived &&
    equal(doc.tags, label.tags);
  if (!isSame || !isLabel(doc)) throw damaged("label", id);
  return deepFreeze(doc);
}

export const isLabel = fields<LabelDoc>({
  id: isString,
  version: isCount,
  title: maybe(isString),
  tags: listOf(isString),
  archived: oneOf(true, false),
  metadata: isObject,
});

type LeaseDoc = { readonly id: SessionId } & Lease;

export const leaseRow = (id: SessionId, lease: Lease): LeaseRow => ({
  epoch: lease.epoch,
  until: lease.until,
  text: sealed({ id, ...lease } satisfies LeaseDoc),
});

export function leaseOf({ id, lease }: SessionRow): Lease {
  const doc = unsealed<LeaseDoc>(lease.text, "lease", id);
  if (doc.id !== id || doc.epoch !== lease.epoch || doc.until !== lease.until)
    throw damaged("lease", id);
  const { id: _id, ...own } = doc;
  return own;
}

export const newBranch = (doc: BranchDoc): NewBranch => ({
  id: doc.id,
  forkPoint: doc.forkPoint,
  text: sealed(doc),
});

export function branchOf({ id, session, forkPoint, text }: BranchRow): BranchDoc {
  const doc = unsealed<BranchDoc>(text, "branch", session ?? "(deleted)");
  const isSame = doc.id === id && equal(doc.forkPoint as Json, forkPoint as Json);
  if (!isSame || !isBranch(doc)) throw damaged("branch", session ?? "(deleted)");
  return doc;
}

const isBranch = fields<BranchDoc>({
  id: isBranchId,
  forkPoint: (forkPoint) => forkPoint === null || isPlace(forkPoint),
  prev: isDigest,
  effects: maybe(oneOf("replay", "live")),
});

/** The digest that the first save of a branch with no fork point follows. */
export const rootDigest = (branch: BranchId): Digest => digest(`line ${branch}`);

/** What is posted to a session's inbox. */
export type InboxDoc =
  | { readonly kind: "cancel"; readonly reason?: string; readonly turn?: string }
  /**
   * `asked`: which time the call waits, or is in doubt, this decides about. So in `deny` and
   * `settle`.
   */
  | ({ readonly kind: "approve"; readonly note?: string; readonly input?: Json } & AboutCall)
  | ({ readonly kind: "deny"; readonly reason: string } & AboutCall)
  | ({ readonly kind: "settle"; readonly as: Settlement } & AboutCall)
  /** What a call answered after its time, or after its holder was superseded. */
  | {
      readonly kind: "late";
      readonly effectId: string;
      readonly attempt: number;
      readonly as: Settlement;
    }
  | { readonly kind: "signal"; readonly name: string; readonly value: Json }
  /** Something changed for a child session that a call waits for. */
  | { readonly kind: "wake"; readonly child: string }
  | { readonly kind: "turn"; readonly turn: string; readonly key?: string; readonly input: Json }
  /** Messages from outside a run: what they say stands in an `append-text` of this tag. */
  | {
      readonly kind: "append";
      /** Of what they say. */
      readonly check: string;
      /** Random: nothing can be guessed from it. */
      readonly tag: string;
      /** How much text waits with it. */
      readonly bytes: number;
    }
  | { readonly kind: "append-text"; readonly messages: Json }
  /** Under which key messages are appended, or were. */
  | { readonly kind: "append-key"; readonly check: string };

interface AboutCall {
  readonly effectId: string;
  readonly asked: number;
  readonly by?: string;
}

/** `happened`: the call was made, and only its output could not be kept. */
export type Settlement =
  | { readonly output: Json }
  | { readonly error: string; readonly happened?: true }
  | { readonly retry: true };

export const inboxText = (doc: InboxDoc): string => sealed(doc);
export function inboxDocOf(text: string, sessionId: string): InboxDoc {
  const doc = unsealed<InboxDoc>(text, "inbox", sessionId);
  if (!isInboxDoc(doc)) throw damaged("inbox", sessionId);
  return doc;
}

/** What to change of a session; fields that are not given stay as they are. */
export interface SessionUpdate {
  /** Null takes a title away that was given: the first words stand in for it then. */
  readonly title?: string | null;
  readonly tags?: readonly string[];
  readonly archived?: boolean;
  readonly metadata?: JsonObject;
}

/** Gives a label its changes. */
export type Relabel = <L extends Omit<LabelDoc, "id" | "version">>(label: L) => L;
