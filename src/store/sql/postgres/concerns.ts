/**
 * What an operator should know of a Postgres server and of the way to it, and what to do about it.
 * Pure.
 */
import { quote } from "../../../core/values/errors.js";
import type { Concern } from "../../port/info.js";

/** The connection as this process has it. A pooler may stand in between. */
export interface Link {
  /** Undefined for a socket in the file system. */
  readonly address: string | undefined;
  readonly encrypted: boolean;
}

export interface ServerFacts {
  /** Settings that are off, and without which a loss of power loses something. */
  readonly off: readonly string[];
  readonly role: string;
  /** Whether row level security does not hold for the role. */
  readonly bypasses: boolean;
  /** Quoted, with their schema: tables on which it is off, or not forced. */
  readonly unforced: readonly string[];
  readonly link: Link | undefined;
}

const LOOPBACK = /^(?:::ffff:)?127\.|^::1$/i;

export function concernsOf({
  off,
  role,
  bypasses,
  unforced,
  link,
}: ServerFacts): readonly Concern[] {
  const concerns: Concern[] = [];
  if (off.length > 0)
    concerns.push({
      code: "NOT_SYNCED",
      message: `The server runs with ${off.join(" and ")} off: a loss of power can lose or damage what was acknowledged.`,
      fix: `ALTER SYSTEM SET ${off.join(" = on; ALTER SYSTEM SET ")} = on; SELECT pg_reload_conf();`,
    });
  if (bypasses)
    concerns.push({
      code: "RLS_BYPASSED",
      message: `Row level security does not hold for the role ${quote(role)}: only the statements themselves keep tenants apart.`,
      fix: "Connect as a role that is no superuser and has no BYPASSRLS, and that owns the schema or was granted its tables.",
    });
  if (unforced.length > 0)
    concerns.push({
      code: "RLS_OFF",
      message: `Row level security is off, or not forced on the owner, for ${unforced.join(", ")}: only the statements themselves keep tenants apart.`,
      fix: unforced
        .map((table) => `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;`)
        .join(" "),
    });
  if (link?.address !== undefined && !link.encrypted && !LOOPBACK.test(link.address))
    concerns.push({
      code: "NO_TLS",
      message: `The connection to Postgres at ${link.address} is not encrypted: others on the way can read and change all that is stored.`,
      fix: "Turn on ssl in the server's postgresql.conf, and add sslmode=verify-full to the address (and sslrootcert=FILE for a CA of your own).",
    });
  return concerns;
}
