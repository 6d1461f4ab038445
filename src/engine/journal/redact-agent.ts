/** Run the texts of an agent's record through the store's redactor. */
import type { JsonObject } from "../../core/values/json.js";
import { type AgentDoc, checkAgent } from "../records/agent-record.js";
import type { Redactor } from "./redactor.js";

/**
 * What the hook for redactions leaves of a record, checked anew. Ids are names, and stay; so does
 * what the store has put there.
 */
export function redacted(redactor: Redactor | undefined, doc: AgentDoc): AgentDoc {
  if (redactor === undefined) return doc;
  const { id, version, createdAt, updatedAt, ...words } = doc;
  const { name, type, system, capabilities, config, state, metadata } = words;
  const text = (plain: string, field: string): string =>
    redactor.text(plain, { in: "agent", field });
  const json = (value: JsonObject, field: string): JsonObject =>
    redactor.json(value, { in: "agent", field }) as JsonObject;
  const named = {
    id,
    name: text(name, "name"),
    capabilities: capabilities.map((each) => text(each, "capabilities")),
  };
  const values = {
    config: json(config, "config"),
    state: json(state, "state"),
    metadata: json(metadata, "metadata"),
  };
  const told = {
    type: type === undefined ? null : text(type, "type"),
    system: system === undefined ? null : text(system, "system"),
  };
  return checkAgent({ ...named, ...values, ...told }).next(
    { ...doc, version: version - 1, createdAt },
    updatedAt,
  );
}
