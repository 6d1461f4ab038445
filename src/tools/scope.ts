/** Tools may be for one agent only: then nothing of another's is there for them. */
import type { Checkpoint } from "../core/journal/checkpoint.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import type { SessionId } from "../core/values/ids.js";
import type { SessionSummary } from "../engine/lifecycle/session-summary.js";
import { noAgent } from "../engine/records/agent-record.js";
import { noSnapshot, type Snapshot } from "../engine/records/snapshot-record.js";
import { unlessDamaged } from "../engine/records/tolerate-damage.js";
import { noSession, notFound } from "../engine/util/not-found.js";
import { invalid } from "../engine/util/validate.js";
import type { Call, Hold } from "./definition.js";

/**
 * Where something of another's is meant: it is not there. What is nobody's any more is left to
 * whoever is asked to do something about it.
 */
export async function refuseForeign(
  call: Call,
  find: (call: Call) => Promise<unknown>,
): Promise<void> {
  if (call.agent === undefined) return;
  try {
    await find(ALL);
  } catch (error) {
    const code = error instanceof HoldfastError ? error.code : undefined;
    if (code === "NOT_FOUND") return;
    // Of what is damaged nobody can say whose it is. And a store that does not answer has not said
    // that there is nothing.
    if (code !== "CORRUPT") throw error;
  }
  await find(call);
}

/** Of other sessions that are named: those that may be known of. */
export async function ownAmong(
  hold: Hold,
  { agent }: Call,
  ids: readonly string[],
): Promise<readonly string[]> {
  const some = ids.slice(0, MAX_NAMED);
  if (agent === undefined) return some;
  const own: string[] = [];
  for (const id of some)
    if ((await unlessDamaged(() => hold.sessions.get(id)))?.agent === agent) own.push(id);
  return own;
}

/** Of lists that only tell what was done. */
export const MAX_NAMED = 100;

/** The agent that is meant. */
export function agentFor({ agent }: Call, given: string): string {
  if (agent !== undefined && given !== agent) throw noAgent(given);
  return given;
}

/** The agent that a list is of; undefined for all. */
export function agentFilter(
  { agent }: Call,
  given: string | undefined,
): { readonly agent?: string } {
  if (agent !== undefined && given !== undefined && given !== agent) throw noAgent(given);
  const wanted = agent ?? given;
  return wanted === undefined ? {} : { agent: wanted };
}

export async function requireSession(hold: Hold, call: Call, id: string): Promise<SessionSummary> {
  const found = await inSight(call, () => hold.sessions.get(id));
  if (found === undefined || (call.agent !== undefined && found.agent !== call.agent))
    throw noSession(id as SessionId);
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
    if (snapshot === undefined || (call.agent !== undefined && snapshot.agent !== call.agent))
      throw noSnapshot(id);
    return { snapshot };
  }
  return { checkpoint: await requireCheckpoint(hold, call, id) };
}

export async function requireCheckpoint(hold: Hold, call: Call, id: string): Promise<Checkpoint> {
  if (isSnapshot(id))
    throw invalid(
      "id",
      `${quote(id)} is a checkpoint of an agent, and one of a conversation is wanted: checkpoint_list with \`session\` tells them`,
    );
  const checkpoint = await inSight(call, () => hold.checkpoints.get(id));
  if (checkpoint === undefined) throw notFound(id);
  if (
    call.agent !== undefined &&
    (await inSight(call, () => hold.sessions.get(checkpoint.sessionId)))?.agent !== call.agent
  )
    throw notFound(id);
  return checkpoint;
}

/** Of two fields exactly one is needed. */
export function agentOrSession(
  call: Call,
  { agent, session }: { readonly agent?: string; readonly session?: string },
): { readonly agent: string } | { readonly session: string } {
  if (session !== undefined && agent !== undefined)
    throw invalid("session", "give either an agent or a conversation, not both");
  if (session !== undefined) return { session };
  const wanted = agent ?? call.agent;
  if (wanted === undefined)
    throw invalid("session", "say of which agent, or of which conversation");
  return { agent: agentFor(call, wanted) };
}

/**
 * An agent is at work in the conversation in which it calls a tool, and cannot be made to wait for
 * itself.
 */
export function refuseSelf({ self }: Call, session: string): void {
  if (session === self)
    throw new HoldfastError(
      "BAD_STATUS",
      `You are at work in ${quote(session)}: its checkpoints are placed as you go, and it can be neither put back, rewritten nor deleted from inside. Make a checkpoint of the agent, or fork from one that is there.`,
      { sessionId: session },
    );
}
