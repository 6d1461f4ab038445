/** What a restore is asked for, what it answers, and what is kept of the answer under a key. */
import type { JsonObject } from "../../core/values/json.js";
import type { AgentRecord } from "../../engine/records/agent-record.js";
import type { Snapshot } from "../../engine/records/snapshot-record.js";
import type { KeyOptions } from "../../engine/util/validate.js";

export interface RestoreOptions extends KeyOptions {
  /** Takes sessions from those who hold them, instead of refusing with LEASE_HELD. */
  readonly takeOver?: boolean;
  /** Says what would change, and changes nothing. */
  readonly dryRun?: boolean;
  readonly signal?: AbortSignal;
  /** Told how many sessions of the snapshot have been verified, and of how many. */
  readonly onProgress?: (verified: number, of: number) => void;
}

/**
 * What becomes of a session. `moved`: it goes back to where it was. `made`: it was deleted, and is
 * there again. `labelled`: only its title, tags or metadata change. `archived`: it was begun later,
 * and is kept. `same`: it stands where it stood.
 */
export type Restoring = "moved" | "made" | "labelled" | "archived" | "same";

export interface RestoreReport {
  readonly snapshot: Snapshot;
  /** What was there before, to go back to; absent in a dry run. */
  readonly recovery?: Snapshot;
  /** The record as it is afterwards; absent where the snapshot had none. */
  readonly agent?: AgentRecord;
  readonly sessions: readonly { readonly id: string; readonly outcome: Restoring }[];
  /**
   * Sessions that others hold and that would change; absent where there are none, or after they
   * were taken over.
   */
  readonly held?: readonly string[];
}

/** What is kept of a restore under a key. */
export interface RestoredKept extends JsonObject {
  /** Without its name and description. */
  readonly snapshot: JsonObject;
  readonly recovery: string;
  readonly sessions: readonly (readonly [id: string, outcome: string])[];
}

export const keptOf = ({
  snapshot: { name: _name, description: _description, ...snapshot },
  recovery,
  sessions,
}: RestoreReport): RestoredKept => ({
  // The digest is of texts that may be redacted later: it is forgotten here.
  snapshot: { ...snapshot, digest: "", metadata: {} },
  recovery: recovery?.id ?? "",
  sessions: sessions.map(({ id, outcome }) => [id, outcome] as const),
});
