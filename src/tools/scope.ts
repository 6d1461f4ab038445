/** Tools may be for one agent only: then nothing of another's is there for them. */
import type { Checkpoint } from "../core/checkpoint.js";
import { HoldfastError } from "../core/errors.js";
import type { SessionId } from "../core/ids.js";
import { noAgent } from "../runtime/agents/record.js";
import { noSnapshot, type Snapshot } from "../runtime/agents/snapshot.js";
import { unlessDamaged } from "../runtime/damage.js";
import { noSession } from "../runtime/inbox.js";
import { notFound } from "../runtime/lines.js";
import { invalid } from "../runtime/options.js";
import type { SessionSummary } from "../runtime/sessions.js";
import type { Call, Hold } from "./definition.js";

/** Where something of another's is meant: it is not there. What is nobody's any more is left to whoever is asked to do something about it. */
export async function refuseForeign(call: Call, find: (call: Call) => Promise<unknown>): Promise<void> {
  if (call.agent === undefined) return;
  // Of what is damaged nobody can say whose it is.
  const isThere = await find(ALL).then(
    () => true,
    (error: unknown) => error instanceof HoldfastError && error.code === "CORRUPT",
  );
  if (isThere) await find(call);
}

/** The agent that is meant. */
export function agentFor({ agent }: Call, given: string): string {
  if (agent !== undefined && given !== agent) throw noAgent(given);
  return given;
}

/** The agent that a list is of; undefined for all. */
export function agentFilter({ agent }: Call, given: string | undefined): { readonly agent?: string } {
  if (agent !== undefined && given !== undefined && given !== agent) throw noAgent(given);
  const wanted = agent ?? given;
  return wanted === undefined ? {} : { agent: wanted };
}

export async function requireSession(hold: Hold, call: Call, id: string): Promise<SessionSummary> {
  const found = await inSight(call, () => hold.sessions.get(id));
  if (found === undefined || (call.agent !== undefined && found.agent !== call.agent)) throw noSession(id as SessionId);
  return found;
}

/** For tools of one agent what is damaged is not there: nobody can say whose it is. */
const inSight = <T>(call: Call, find: () => Promise<T>): Promise<T | undefined> =>
  call.agent === undefined ? find() : unlessDamaged(find);

export type Marked = { readonly checkpoint: Checkpoint } | { readonly snapshot: Snapshot };

const ALL: Call = { key: undefined, agent: undefined, signal: undefined, self: undefined };

export const isSnapshot = (id: string): boolean => id.startsWith("snap-");

/** A checkpoint of a conversation, or one of an agent: their ids tell. */
export async function requireMark(hold: Hold, call: Call, id: string): Promise<Marked> {
  if (isSnapshot(id)) {
    const snapshot = await inSight(call, () => hold.agents.getSnapshot(id));
    if (snapshot === undefined || (call.agent !== undefined && snapshot.agent !== call.agent)) throw noSnapshot(id);
    return { snapshot };
  }
  return { checkpoint: await requireCheckpoint(hold, call, id) };
}

export async function requireCheckpoint(hold: Hold, call: Call, id: string): Promise<Checkpoint> {
  const checkpoint = await inSight(call, () => hold.checkpoints.get(id));
  if (checkpoint === undefined) throw notFound(id);
  if (call.agent !== undefined && (await inSight(call, () => hold.sessions.get(checkpoint.sessionId)))?.agent !== call.agent)
    throw notFound(id);
  return checkpoint;
}

/** Of two arguments exactly one is needed. */
export function agentOrSession(
  call: Call,
  { agent, session }: { readonly agent?: string; readonly session?: string },
): { readonly agent: string } | { readonly session: string } {
  if (session !== undefined && agent !== undefined) throw invalid("session", "give either an agent or a conversation, not both");
  if (session !== undefined) return { session };
  const wanted = agent ?? call.agent;
  if (wanted === undefined) throw invalid("session", "say of which agent, or of which conversation");
  return { agent: agentFor(call, wanted) };
}

/** Something is removed that is not there: that is what was asked for. */
export async function unlessGone<T>(remove: () => Promise<T>): Promise<T | undefined> {
  try {
    return await remove();
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "NOT_FOUND") return undefined;
    throw error;
  }
}
