/**
 * What a failure of Postgres means for what comes next, and what it is called to those who use the
 * store.
 */
import { HoldfastError, quote } from "../../../core/values/errors.js";

/**
 * `lost`: the connection is gone, and whether the last statement was done is unknown. `conflict`:
 * the server gave it up, and it can be tried again. `away`: it takes no writes, or no connections,
 * now. `other`: trying again does not help.
 */
export type Failure = "lost" | "conflict" | "away" | "other";

const SOCKET = new Set([
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "ECONNABORTED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENETDOWN",
]);
const CONFLICT = new Set(["40001", "40P01", "55P03"]);
// Cannot connect now, too many connections, read-only: a server that starts, is full, or is (still,
// or by now) a standby.
const AWAY = new Set(["57P03", "53300", "53400", "25006", "ECONNREFUSED", "EAI_AGAIN"]);
// Shut down by an administrator, by a crash of another backend, because the database was dropped,
// or after idling in a transaction.
const GONE = new Set(["57P01", "57P02", "57P04", "57P05", "25P03", "25P04"]);

const codeOf = (error: unknown): string => {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === "string" ? code : "";
};

const saidBy = (error: unknown): string => (error instanceof Error ? error.message : String(error));

export function failureOf(error: unknown): Failure {
  if (error instanceof HoldfastError) return "other";
  const code = codeOf(error);
  if (CONFLICT.has(code)) return "conflict";
  if (AWAY.has(code)) return "away";
  if (SOCKET.has(code) || GONE.has(code) || code.startsWith("08")) return "lost";
  // The driver has no codes for its own: a connection that ended, or that could not be made in
  // time.
  return code === "" && /terminat|not queryable|timeout|was closed/i.test(saidBy(error))
    ? "lost"
    : "other";
}

/**
 * Nobody listens there. Where a name has several addresses, the driver's exception holds one for
 * each.
 */
export const isRefused = (error: unknown): boolean =>
  codeOf(error) === "ECONNREFUSED" ||
  ((error as { errors?: unknown[] } | undefined)?.errors ?? []).some(
    (one) => codeOf(one) === "ECONNREFUSED",
  );

/**
 * A driver's exception as ours. Never shown raw, and never with the address: a password may be in
 * it.
 */
export function translate(error: unknown): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const code = codeOf(error);
  const said = quote(saidBy(error));
  switch (code) {
    case "28P01":
    case "28000":
      return new HoldfastError(
        "DENIED",
        `Postgres refuses this role or password (${said}). Check the address, PGPASSWORD, and pg_hba.conf.`,
        {},
        error,
      );
    case "3D000":
      return new HoldfastError(
        "NOT_FOUND",
        `Postgres has no such database (${said}). Create it with createdb, or correct the address.`,
        {},
        error,
      );
    case "42501":
      return new HoldfastError(
        "DENIED",
        `The role may not do this (${said}). Connect as the role that made the schema, or grant it.`,
        {},
        error,
      );
    case "3F000":
    case "42P01":
    case "42883":
      return new HoldfastError(
        "NOT_A_STORE",
        `The store's tables are not there any more (${said}). Open it again to make them.`,
        {},
        error,
      );
    case "53100":
      return new HoldfastError(
        "DISK_FULL",
        "The database has no room left on its disk. Nothing was written; try again once there is room.",
        {},
        error,
      );
    case "58030":
      return new HoldfastError(
        "IO",
        `The disk of the Postgres server failed (${said}). The stored data may be sound. Check the server's disk and log, then try again.`,
        {},
        error,
      );
    case "53200":
      return new HoldfastError(
        "TOO_LARGE",
        `Postgres has no room for so much in one step (${said}). Raise its max_locks_per_transaction, or do less at once.`,
        {},
        error,
      );
    case "53300":
      return new HoldfastError(
        "UNREACHABLE",
        "Postgres has no connection left. Lower `connections`, raise its max_connections, or put a pooler in front.",
        {},
        error,
      );
    case "25006":
      return new HoldfastError(
        "UNREACHABLE",
        "This server is a standby: it takes no writes. Connect to the primary.",
        {},
        error,
      );
    case "ENOTFOUND":
    case "ECONNREFUSED":
      return new HoldfastError(
        "UNREACHABLE",
        `No Postgres answers there (${said}). Start it, or correct the address.`,
        {},
        error,
      );
    case "ERR_SOCKET_BAD_PORT":
      return new HoldfastError(
        "INVALID_OPTION",
        "The port of Postgres must be a number from 1 to 65535. Correct PGPORT.",
        {},
        error,
      );
    case "XX001":
    case "XX002":
    case "22021":
      return new HoldfastError(
        "CORRUPT",
        `The database is damaged (${said}). Restore a backup.`,
        {},
        error,
      );
  }
  if (failureOf(error) === "conflict")
    return new HoldfastError("BUSY", "Others kept changing the same rows. Try again.", {}, error);
  if (failureOf(error) !== "other") {
    return new HoldfastError(
      "UNREACHABLE",
      `The connection to Postgres was lost (${said}). Whether the last write is kept is unknown until it is sent again.`,
      {},
      error,
    );
  }
  return new HoldfastError(
    "IO",
    `Postgres failed (${said}${code === "" ? "" : `, ${code}`}).`,
    {},
    error,
  );
}
