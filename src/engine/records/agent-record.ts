/** What is kept of an agent, as callers give it and see it, and as its document holds it. */
import { checkMetadata, checkText } from "../../core/journal/checkpoint.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { deepFreeze, encode, equal, type Json, type JsonObject } from "../../core/values/json.js";
import { isTime } from "../../core/values/shapes.js";
import { isoTime } from "../../core/values/time.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT, type DocChange, type DocRow } from "../../store/port/documents.js";
import type { Store } from "../../store/port.js";
import { invalid, listOf, options, wholeNumber } from "../util/validate.js";
import { sealed, unsealedOr } from "./rows.js";

/** What `agents.save` takes: fields that are not given stay, and null takes one away. */
export interface AgentInput {
  readonly id: string;
  /**
   * The version that was read: where it is another by now, that is a CONFLICT. 0 for one that is to
   * be made.
   */
  readonly version?: number;
  readonly name?: string;
  /** What it runs on, or whatever else tells kinds of agents apart. */
  readonly type?: string | null;
  readonly system?: string | null;
  readonly capabilities?: readonly string[];
  readonly config?: JsonObject;
  /** All of its state. To change some of its keys, give `set` and `unset` instead. */
  readonly state?: JsonObject;
  /**
   * Keys of its state, with the values they get. The other keys stay as another process has saved
   * them.
   */
  readonly set?: JsonObject;
  /** Keys of its state that go. */
  readonly unset?: readonly string[];
  readonly metadata?: JsonObject;
}

/** What the store keeps of an agent. */
export interface AgentRecord {
  readonly id: string;
  /** 1 when it is made, and one more with each save. */
  readonly version: number;
  readonly name: string;
  readonly type?: string;
  readonly system?: string;
  readonly capabilities: readonly string[];
  readonly config: JsonObject;
  readonly state: JsonObject;
  readonly metadata: JsonObject;
  readonly createdAt: string;
  readonly updatedAt: string;
}

/** As its document holds it. */
export interface AgentDoc extends Omit<AgentRecord, "createdAt" | "updatedAt"> {
  readonly createdAt: number;
  readonly updatedAt: number;
}

export const MAX_SYSTEM = 1024 * 1024;
export const MAX_NAMES = 1_000;
const MAX_STATE_BYTES = 4 * 1024 * 1024;
const none: JsonObject = Object.freeze({});

/** A record that came out of `get` may go back in: what the store has put there is left behind. */
const ASSIGNED = ["createdAt", "updatedAt", "activeSessions"] as const;
const FIELDS = [
  "id",
  "version",
  "name",
  "type",
  "system",
  "capabilities",
  "config",
  "state",
  "set",
  "unset",
  "metadata",
] as const;

type Fields = { -readonly [K in (typeof FIELDS)[number]]?: AgentInput[K] };

export interface CheckedAgent {
  readonly id: string;
  readonly version: number | undefined;
  /** Whether it changes keys of the state, and so needs the record that is there. */
  readonly isEdit: boolean;
  /** The record, from the one that is there or from nothing. */
  readonly next: (before: AgentDoc | undefined, now: number) => AgentDoc;
}

export function checkAgent(given: AgentInput): CheckedAgent {
  const o = options(
    given as AgentInput & Record<(typeof ASSIGNED)[number], unknown>,
    "agents.save",
    [...FIELDS, ...ASSIGNED],
  ) as Fields;
  const id = checkName(o.id, "agent id");
  const version =
    o.version === undefined
      ? undefined
      : wholeNumber(o.version, "version", 0, Number.MAX_SAFE_INTEGER);
  const fields = {
    ...(o.name === undefined ? undefined : { name: checkName(o.name, "name") }),
    ...(o.capabilities === undefined
      ? undefined
      : { capabilities: checkNames(o.capabilities, "capabilities") }),
    ...(o.config === undefined ? undefined : { config: checkObject(o.config, "config") }),
    ...(o.state === undefined ? undefined : { state: checkObject(o.state, "state") }),
    ...(o.metadata === undefined ? undefined : { metadata: checkMetadata(o.metadata, "metadata") }),
  };
  const edit = editOf(o);
  const type = o.type === undefined || o.type === null ? o.type : checkName(o.type, "type");
  const system =
    o.system === undefined || o.system === null
      ? o.system
      : checkText(o.system, "system", MAX_SYSTEM);
  const next = (before: AgentDoc | undefined, now: number): AgentDoc => {
    const { type: typeBefore, system: systemBefore, ...rest } = before ?? empty(id, now);
    const typeNow = type === undefined ? typeBefore : type;
    const systemNow = system === undefined ? systemBefore : system;
    return {
      ...rest,
      ...fields,
      ...(edit && { state: edit(rest.state) }),
      ...(typeNow == null ? undefined : { type: typeNow }),
      ...(systemNow == null ? undefined : { system: systemNow }),
      version: rest.version + 1,
      updatedAt: now,
    };
  };
  return { id, version, isEdit: edit !== undefined, next };
}

/** What `set` and `unset` make of a state; undefined where neither is given. */
function editOf({ state, set, unset }: Fields): ((before: JsonObject) => JsonObject) | undefined {
  if (set === undefined && unset === undefined) return undefined;
  if (state !== undefined)
    throw invalid("state", "it replaces the whole state: give it, or `set` and `unset`");
  const values = set === undefined ? none : checkObject(set, "set");
  const gone = new Set(unset === undefined ? [] : checkNames(unset, "unset"));
  const both = Object.keys(values).find((key) => gone.has(key));
  if (both !== undefined) throw invalid("unset", `${quote(both)} is among the keys that are set`);
  return (before) => {
    const kept = Object.entries(before).filter(([key]) => !gone.has(key));
    return checkObject(Object.fromEntries([...kept, ...Object.entries(values)]), "state");
  };
}

const empty = (id: string, now: number): AgentDoc => ({
  id,
  version: 0,
  name: id,
  capabilities: [],
  config: none,
  state: none,
  metadata: none,
  createdAt: now,
  updatedAt: now,
});

function checkNames(value: unknown, path: string): readonly string[] {
  const names = listOf(value, path, "a list of names", MAX_NAMES + 1);
  if (names.length > MAX_NAMES)
    throw new HoldfastError("TOO_LARGE", `${path}: more than ${MAX_NAMES}.`, {
      path,
      limit: MAX_NAMES,
    });
  return [...new Set(names.map((name, i) => checkName(name, `${path}[${i}]`)))];
}

function checkObject(value: unknown, path: string): JsonObject {
  const { value: copy } = encode(value, path, MAX_STATE_BYTES);
  if (typeof copy !== "object" || copy === null || Array.isArray(copy))
    throw invalid(path, "it must be an object");
  return copy as JsonObject;
}

// ---- the document

export function agentOf(row: DocRow): AgentDoc {
  const doc = unsealedOr<AgentDoc>(row.text, () => damagedAgent(row.id));
  if (doc.id !== row.id || doc.version !== row.version) throw damagedAgent(row.id);
  return deepFreeze(doc);
}

export async function findAgent(store: Store, id: string): Promise<AgentDoc | undefined> {
  const row = await documentsOf(store).get(AGENT, id);
  return row && agentOf(row);
}

export async function requireAgent(store: Store, id: string): Promise<AgentDoc> {
  const doc = await findAgent(store, id);
  if (doc === undefined) throw noAgent(id);
  return doc;
}

/** Undefined where it is damaged. */
export function soundAgent(row: DocRow): AgentDoc | undefined {
  try {
    return agentOf(row);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "CORRUPT") return undefined;
    throw error;
  }
}

/**
 * A record that says nothing, for the next to follow one that is damaged: with its version, where
 * that is known.
 */
export const emptyAfter = (row: DocRow, now: number): AgentDoc => ({
  ...empty(row.id, now),
  version: versionIn(row),
});

export const versionIn = ({ version }: DocRow): number =>
  Number.isSafeInteger(version) && version > 0 ? version : 0;

/** Puts a record in the place of the one that was read, or makes it. */
export const putAgent = (
  next: AgentDoc,
  before: Pick<DocRow, "version"> | undefined,
): DocChange => ({
  kind: AGENT,
  id: next.id,
  when: before === undefined ? { absent: true } : { version: before.version },
  put: { of: null, version: next.version, text: sealed(next), body: null, pins: [] },
});

/**
 * A record that came from outside: sealed by somebody, vouched for by nobody. It is believed in
 * nothing.
 */
export function agentFrom(id: string, text: string): DocChange {
  const doc = unsealedOr<AgentDoc>(text, () => damagedForeign(id));
  const { version, createdAt, updatedAt, ...fields } = doc;
  const checked = checkAgent(fields).next(
    { ...empty(id, createdAt), version: version - 1 },
    updatedAt,
  );
  const isFit =
    Number.isSafeInteger(version) && version >= 1 && isTime(createdAt) && isTime(updatedAt);
  if (
    doc.id !== id ||
    !isFit ||
    !equal(checked as unknown as Json, doc as unknown as Json) ||
    sealed(doc) !== text
  )
    throw damagedForeign(id);
  return putAgent(doc, undefined);
}

export const recordOf = ({ createdAt, updatedAt, ...rest }: AgentDoc): AgentRecord =>
  Object.freeze({ ...rest, createdAt: isoTime(createdAt), updatedAt: isoTime(updatedAt) });

const damagedAgent = (id: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The record of agent ${quote(id)} is damaged. Restore a snapshot of the agent, save it anew without a version, or delete it; verify says what else is damaged.`,
    { found: id },
  );

const damagedForeign = (id: string): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    `The record of agent ${quote(id)} is damaged in what was brought here.`,
    { found: id },
  );

export const noAgent = (id: string): HoldfastError =>
  new HoldfastError("NOT_FOUND", `There is no agent ${quote(id)}.`, { found: id });
