/** Tools may be for one agent only: then nothing of another's is there for them. */
import type { Checkpoint } from "../core/checkpoint.js";
import { HoldfastError } from "../core/errors.js";
import type { SessionId } from "../core/ids.js";
import { noAgent } from "../runtime/agents/record.js";
import { noSnapshot, type Snapshot } from "../runtime/agents/snapshot.js";
import { noSession } from "../runtime/inbox.js";
import { notFound } from "../runtime/lines.js";
import { invalid } from "../runtime/options.js";
import type { SessionSummary } from "../runtime/sessions.js";
import type { Call, Hold } from "./definition.js";

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
  const found = await hold.sessions.get(id);
  if (found === undefined || (call.agent !== undefined && found.agent !== call.agent)) throw noSession(id as SessionId);
  return found;
}

export type Marked = { readonly checkpoint: Checkpoint } | { readonly snapshot: Snapshot };

/** Whoever sees everything. */
export const ALL: Call = { key: undefined, agent: undefined, signal: undefined };

export const isSnapshot = (id: string): boolean => id.startsWith("snap-");

/** A checkpoint of a conversation, or one of an agent: their ids tell. */
export async function requireMark(hold: Hold, call: Call, id: string): Promise<Marked> {
  if (isSnapshot(id)) {
    const snapshot = await hold.agents.getSnapshot(id);
    if (snapshot === undefined || (call.agent !== undefined && snapshot.agent !== call.agent)) throw noSnapshot(id);
    return { snapshot };
  }
  return { checkpoint: await requireCheckpoint(hold, call, id) };
}

export async function requireCheckpoint(hold: Hold, call: Call, id: string): Promise<Checkpoint> {
  const checkpoint = await hold.checkpoints.get(id);
  if (checkpoint === undefined) throw notFound(id);
  if (call.agent !== undefined && (await hold.sessions.get(checkpoint.sessionId))?.agent !== call.agent) throw notFound(id);
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
