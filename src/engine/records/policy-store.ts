/** Policies that are kept: one for the store, and one for each agent that has its own. */
import type { RetentionPolicy } from "../../core/retention/policy.js";
import { HoldfastError } from "../../core/values/errors.js";
import { equal } from "../../core/values/json.js";
import { documentsOf } from "../../store/capabilities.js";
import type { DocRow } from "../../store/port/documents.js";
import type { Store } from "../../store/port.js";
import { checkPolicy } from "./check-policy.js";
import { sealed, unsealedOr } from "./rows.js";

/** Of an agent, under its id. */
export const RETENTION = "retention";
/** Of the store; there is one. */
export const STORE_RETENTION = "store-retention";
const THE_STORE = "store";

interface PolicyDoc {
  readonly agent?: string;
  readonly version: number;
  readonly policy: RetentionPolicy;
}

const nameOf = (agent: string | undefined) =>
  agent === undefined ? { kind: STORE_RETENTION, id: THE_STORE } : { kind: RETENTION, id: agent };

/** What a document says, verified. */
export function policyOf({ kind, id, version, text }: DocRow): RetentionPolicy {
  const doc = unsealedOr<PolicyDoc>(text, damaged);
  if (doc.version !== version || !equal(nameOf(doc.agent), { kind, id })) throw damaged();
  return checkPolicy(doc.policy, "policy");
}

/** The policy that was set for an agent, or for the store; undefined where none was. */
export async function storedPolicy(
  store: Store,
  agent?: string,
): Promise<RetentionPolicy | undefined> {
  const { kind, id } = nameOf(agent);
  const row = await documentsOf(store).get(kind, id);
  return row && policyOf(row);
}

/** The policy that holds for the sessions of an agent: its own, or the store's. */
export async function policyFor(
  store: Store,
  agent: string | null | undefined,
): Promise<RetentionPolicy | undefined> {
  return (agent == null ? undefined : await storedPolicy(store, agent)) ?? storedPolicy(store);
}

/**
 * Puts a policy in the place of the one that is there; undefined takes it away. Answers whether
 * there was one.
 */
export async function storePolicy(
  store: Store,
  agent: string | undefined,
  policy: RetentionPolicy | undefined,
): Promise<boolean> {
  const name = nameOf(agent);
  for (;;) {
    // By its number alone: one that is damaged can be set anew.
    const before = await documentsOf(store).get(name.kind, name.id);
    if (before === undefined && policy === undefined) return false;
    const version = (before?.version ?? 0) + 1;
    const doc: PolicyDoc | undefined = policy && {
      ...(agent === undefined ? undefined : { agent }),
      version,
      policy,
    };
    const when = before === undefined ? { absent: true as const } : { version: before.version };
    const put = doc && { of: agent ?? null, version, text: sealed(doc), body: null, pins: [] };
    const applied = await store.apply(
      [],
      [{ ...name, when, ...(put === undefined ? { remove: true as const } : { put }) }],
    );
    if (applied.ok) return before !== undefined;
    // Somebody else set it in between: whoever is last is right.
  }
}

const damaged = (): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    "A retention policy is damaged. Nothing is removed by it; set it anew.",
  );
