/** Which of the four systems a directory or file looks like. */
import { open } from "node:fs/promises";
import type { JsonObject } from "../../index.js";
import { Documents } from "./documents.js";
import { at } from "./fields.js";
import { jsonFiles, rootOf } from "./files.js";
import type { MigrationKind } from "./model.js";
import { Report } from "./report.js";

/** How many files are looked at. */
const SAMPLE = 50;
const SQLITE = "SQLite format 3\0";

/** Guess which system wrote what is at a path; undefined if it looks like none of them. */
export async function guessKind(path: string): Promise<MigrationKind | undefined> {
  const { root, isDirectory } = await rootOf(path);
  if (!isDirectory) return (await beginsWith(root, SQLITE)) ? "smooth" : undefined;
  const report = new Report();
  const files = await jsonFiles(root, report);
  const votes = new Map<MigrationKind, number>();
  for await (const { value } of new Documents(root, report, undefined).each(
    files.slice(0, SAMPLE),
  )) {
    const kind = kindOf(value);
    if (kind !== undefined) votes.set(kind, (votes.get(kind) ?? 0) + 1);
  }
  return [...votes].sort((a, b) => b[1] - a[1])[0]?.[0];
}

function kindOf(value: JsonObject): MigrationKind | undefined {
  const has = (...keys: readonly string[]): boolean =>
    keys.every((key) => at(value, key) !== undefined);
  if (has("session_id", "step", "agent_name")) return "ares";
  if (has("session_id", "state", "id")) return "ccswarm";
  if (has("agent_id", "conversation", "iteration")) return "smooth";
  if (
    has("agent_id", "agent_state") ||
    has("agent_id", "custom_state") ||
    has("agent_id", "messages", "last_message_at")
  )
    return "aethershell";
  return undefined;
}

async function beginsWith(path: string, text: string): Promise<boolean> {
  const handle = await open(path);
  try {
    const { buffer } = await handle.read(Buffer.alloc(text.length), 0, text.length, 0);
    return buffer.toString("latin1") === text;
  } finally {
    await handle.close();
  }
}
