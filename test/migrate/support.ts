/**
 * What tests of the importers share: sources made by hand, and what a store holds, whatever ids it
 * gave.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Holdfast, type Json, type JsonObject, open } from "../../src/index.js";
import { scratch } from "../support/stores.js";

export const fixtures = fileURLToPath(new URL("fixtures", import.meta.url));

const root = scratch();
let count = 0;
/** A place of its own for each test. */
export function place(): string {
  count += 1;
  const path = join(root, String(count));
  mkdirSync(path);
  return path;
}

/** Writes files below a directory; what is not text is written as JSON. */
export function put(directory: string, files: Readonly<Record<string, unknown>>): string {
  for (const [name, value] of Object.entries(files)) {
    const path = join(directory, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(
      path,
      typeof value === "string" || value instanceof Uint8Array
        ? value
        : JSON.stringify(value, undefined, 2),
    );
  }
  return directory;
}

export async function using<T>(store: string, look: (hold: Holdfast) => Promise<T>): Promise<T> {
  const hold = await open(store);
  try {
    return await look(hold);
  } finally {
    await hold.close();
  }
}

const source = (metadata: JsonObject) => (metadata["source"] ?? {}) as JsonObject;

/** All that was imported, by their ids: two stores hold the same where this is equal. */
export const viewAt = (store: string): Promise<Json> => using(store, view);

export async function view(hold: Holdfast): Promise<Json> {
  const sessions: Json[] = [];
  for (const {
    id,
    agent,
    status,
    reason,
    title,
    tags,
    archived,
    metadata,
    createdAt,
    updatedAt,
    forkPoint: origin,
  } of (await hold.sessions.list({ limit: 1_000 })).items) {
    const { items } = await hold.checkpoints.list(id, { branches: "all", limit: 1_000 });
    const theirs = new Map(
      items.map((checkpoint) => [
        checkpoint.id as string,
        source(checkpoint.metadata)["id"] as Json,
      ]),
    );
    const checkpoints: Json[] = [];
    for (const { id: own, digest: _digest, parentId: _parentId, seq: _seq, ...rest } of items) {
      // By its id: a list of all lines says it only within each of them.
      const { parentId } = (await hold.checkpoints.get(own)) ?? {};
      const { messages, state } = await hold.checkpoints.state(own);
      const said = messages.map(({ id: _id, seq: _s, ...message }) => message);
      checkpoints.push({
        ...rest,
        parent: theirs.get(parentId ?? "") ?? null,
        messages: said,
        state,
      } as unknown as Json);
    }
    const now = await hold.sessions.state(id);
    const from = origin && theirs.get(origin.checkpointId);
    const head = {
      id,
      agent,
      status,
      reason,
      title,
      tags,
      archived,
      metadata,
      createdAt,
      updatedAt,
      from,
      messages: now.messages.length,
    };
    sessions.push({
      ...head,
      at: theirs.get((await hold.checkpoints.latest(id))?.id ?? "") ?? null,
      state: now.state,
      checkpoints,
    } as Json);
  }
  const agents: Json[] = [];
  for (const record of (await hold.agents.list({ limit: 1_000 })).items) {
    const snapshots = (await hold.agents.snapshots(record.id, { limit: 1_000 })).items;
    const shown = snapshots.map(({ id: _id, version: _version, digest: _digest, ...rest }) => rest);
    const { version: _version, ...words } = record;
    agents.push({ ...words, snapshots: shown } as unknown as Json);
  }
  const byId = (a: Json, b: Json) =>
    String((a as JsonObject)["id"]) < String((b as JsonObject)["id"]) ? -1 : 1;
  const verified = await hold.verify();
  return JSON.parse(
    JSON.stringify({ sessions: sessions.sort(byId), agents: agents.sort(byId), ok: verified.ok }),
  ) as Json;
}

/** Each checkpoint of a session with its parent, by their ids; and the one it stands at. */
export const tree = (store: string, session = "s") =>
  using(store, async (hold) => {
    const { items } = await hold.checkpoints.list(session, { branches: "all", limit: 1_000 });
    const named = new Map(
      items.map(({ id, metadata }) => [id as string, (metadata["source"] as { id: string }).id]),
    );
    const found = await Promise.all(items.map(({ id }) => hold.checkpoints.get(id)));
    const parents = Object.fromEntries(
      found.map((each) => [named.get(each?.id ?? ""), named.get(each?.parentId ?? "") ?? null]),
    );
    return { parents, at: named.get((await hold.checkpoints.latest(session))?.id ?? "") };
  });

export interface AresStep {
  readonly session?: string;
  readonly step: number;
  readonly agent?: string;
  readonly messages?: readonly unknown[];
  readonly toolCalls?: readonly unknown[];
  readonly partial?: readonly string[];
  readonly timestamp?: number;
  readonly status?: unknown;
}

export const talk = (turns: number): readonly { role: string; content: string }[] =>
  Array.from({ length: turns }, (_, i) => ({
    role: i % 2 === 0 ? "user" : "assistant",
    content: `Turn ${i}: what holds kelp to the rock?`,
  }));

export const ares = ({
  session = "a",
  step,
  agent = "r",
  messages = talk(step + 1),
  toolCalls = [],
  partial = [],
  timestamp,
  status,
}: AresStep) => ({
  id: `${session}-${step}`,
  agent_name: agent,
  session_id: session,
  step,
  messages,
  tool_calls: toolCalls,
  partial_results: partial,
  timestamp: timestamp ?? 1_775_270_000 + step,
  status: status ?? "InProgress",
});
