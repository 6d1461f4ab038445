/** What the writers share: where they write to, and which errors end what. */
import { HoldfastError } from "../../core/values/errors.js";
import type { Holdfast } from "../../index.js";
import type { MigrationKind } from "../reading/model.js";
import type { Report } from "../reading/report.js";
import type { Trial } from "./trial.js";

/** The times that are written: what the source says, not when it was imported. */
export interface SourceClock {
  now(): number;
  at: number;
}

export interface Writing {
  readonly kind: MigrationKind;
  /** What is written to; in a dry run a store of its own. */
  readonly into: Holdfast;
  /** What it is planned against. */
  readonly seen: Holdfast | undefined;
  readonly clock: SourceClock;
  readonly report: Report;
  readonly trial: Trial;
}

/** Values that Holdfast refuses: what holds them is left out, and the rest goes on. */
const REFUSED: ReadonlySet<string> = new Set([
  "INVALID_VALUE",
  "INVALID_ID",
  "INVALID_OPTION",
  "TOO_LARGE",
  "CONFLICT",
  "BAD_STATUS",
]);
/** What concerns one session: it is left as it is. */
const OF_SESSION: ReadonlySet<string> = new Set([
  "LEASE_HELD",
  "STALE_LEASE",
  "CORRUPT",
  "CONFLICT",
  "IN_DOUBT",
]);

const isOf = (error: unknown, codes: ReadonlySet<string>): error is HoldfastError =>
  error instanceof HoldfastError && codes.has(error.code);

export const isRefused = (error: unknown): error is HoldfastError => isOf(error, REFUSED);
export const isOfSession = (error: unknown): error is HoldfastError => isOf(error, OF_SESSION);
