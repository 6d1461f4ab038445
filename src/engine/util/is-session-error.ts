/** Failures that concern one session, or one agent, alone. */
import type { ErrorCode, HoldfastError } from "../../core/values/errors.js";

const OF_ONE: readonly ErrorCode[] = ["CORRUPT", "BUSY", "CONFLICT", "LEASE_HELD"];

/** Whether an error concerns one session, or one agent, alone: the others can be pruned. */
export const isSessionError = ({ code }: HoldfastError): boolean => OF_ONE.includes(code);

/** Told of each agent whose snapshots were looked at. */
export interface ToldOfSnapshots {
  readonly pruned: (agent: string, removed: number) => void;
  readonly failed: (agent: string | undefined, error: HoldfastError) => void;
}
