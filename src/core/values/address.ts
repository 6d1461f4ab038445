/**
 * The address of a store, as people write it.
 *
 * ADDRESS-1  an address that is refused is never said again: a password may be in it, also where it
 *            is not seen to be one.
 * ADDRESS-2  a text that looks like an address of a server is never taken for a path. It would make
 *            a file of that name, and the password would be in the name.
 */

import { invalid } from "./check-options.js";
import { HoldfastError, quote } from "./errors.js";
import { typeName } from "./ids.js";

export type Address =
  | { readonly kind: "sqlite" | "dir"; readonly path: string }
  | { readonly kind: "memory" }
  | { readonly kind: "postgres"; readonly url: string; readonly schema: string | undefined };

/** Spaces and quotes that a shell, a .env file or a page has left around the address. */
const WRAPPED = /^[\s"'`“”‘’]|[\s"'`“”‘’]$/u;
/**
 * A setting that holds a password: of libpq, Npgsql, JDBC, a query, a file of variables, or JSON.
 */
const PASSWORD =
  /(?:^|[\s;,?&"'{])[\w-]*(?:password|passwd|passphrase|pwd|(?<![a-z])pass)["']?\s*[=:]/i;
const NAMES =
  "(?:host|hostaddr|server|data source|port|db|dbname|database|user|username|user id|uid|sslmode)";
/** Each begins at one place or ends at the next separator, so that none of them is quadratic. */
const SERVER: readonly RegExp[] = [
  /:\/\//,
  PASSWORD,
  // Two settings of a server, as libpq and Npgsql write them.
  new RegExp(`^\\W*${NAMES}\\s*=.*[\\s;]${NAMES}\\s*=`, "is"),
  // `//user@host`, and `user:password@host`: the password may hold slashes. In folders further down
  // it is a name such as `slack:ana@host`.
  /^\/\/[^/]*@/,
  /^(?:[./\\]*[/\\])?(?:postgres(?:ql)?[/\\]+)?[^/\\:]*:.*@/is,
  // `host:5432`. A time has fewer digits.
  /^(?:\/\/)?(?:[^/\\:]+|\[[^\]/\\]*\]):\d{4,5}(?:[/\\?;,:]|$)/,
  // A scheme that lost its colon.
  /^\W*postgres(?:ql)?[^\w/\\]{0,3}[/\\]{2}/i,
];
/**
 * Also if it was encoded for a URL. Less is asked here: ids and addresses of pages are encoded to
 * be names of files.
 */
const ENCODED: readonly RegExp[] = [PASSWORD, /^\W*postgres(?:ql)?:/i, /^[^:]*:\/\/[^:]*:.*@/s];
/** On Windows. */
const DRIVE = /^(?:\\\\\?\\)?[a-z]:(?=[\\/])/i;

/** Read an address, or refuse it. */
export function parseAddress(address: unknown): Address {
  if (typeof address !== "string")
    throw invalid("store", `its address is text, not ${typeName(address)}`);
  if (address === "") throw invalid("store", "its address is empty");
  if (address.includes("\0")) throw invalid("store", "its address holds a NUL character");
  // Node and SQLite would each make another name of it.
  if (!address.isWellFormed())
    throw invalid("store", "its address holds half a character (a lone surrogate)");
  if (address === ":memory:")
    throw invalid(
      "store",
      '":memory:" is a name of SQLite, and would be a file here. Use "memory:" for a store that is not kept',
    );
  refuseWrapped(address);
  const scheme = /^([a-z][a-z0-9+.-]+):/i.exec(address)?.[1]?.toLowerCase();
  switch (scheme) {
    case undefined:
      return { kind: "sqlite", path: refuseServer(address) };
    case "postgres":
    case "postgresql":
      return postgresAddress(address);
    case "memory":
      if (address.length > "memory:".length)
        throw invalid(
          "store",
          'nothing comes after "memory:": such a store has no name and no file',
        );
      return { kind: "memory" };
    case "dir": {
      const path = address.slice("dir:".length);
      if (path === "") throw invalid("store", 'a path comes after "dir:"');
      refuseWrapped(path);
      return { kind: "dir", path: refuseServer(path) };
    }
    default:
      throw new HoldfastError(
        "UNSUPPORTED",
        `There is no store for ${quote(`${scheme}:`)}. Known are a path (SQLite), "dir:" with a path, "postgres:" and "memory:".`,
        { found: scheme },
      );
  }
}

function refuseWrapped(text: string): void {
  if (WRAPPED.test(text))
    throw invalid(
      "store",
      "its address begins or ends with a quote or a space. Remove it; some .env files make quotes part of the value",
    );
}

function refuseServer(path: string): string {
  if (isOfServer(path))
    throw invalid(
      "store",
      "its address looks like that of a server, and not like a path. Begin it with postgres:// for Postgres, or give the full path of a file",
    );
  return path;
}

/** Whether a text that is to be a path looks like the address of a server. */
export function isOfServer(path: string, isWindows = process.platform === "win32"): boolean {
  const text = plain(isWindows ? path.replace(DRIVE, "") : path);
  if (SERVER.some((look) => look.test(text))) return true;
  const decoded = plain(
    text.replace(/%(?:25)*([2-7][0-9a-f])/gi, (_, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    ),
  );
  return decoded !== text && ENCODED.some((look) => look.test(decoded));
}

/** Some keyboards and pages make other characters of these. */
const plain = (text: string): string =>
  text
    .replace(/[：﹕︓∶꞉]/g, ":")
    .replace(/[／⁄∕⧸]/g, "/")
    .replace(/＝/g, "=");

interface Parts {
  readonly scheme: string;
  readonly user: string;
  readonly host: string;
  readonly path: string;
  readonly query: readonly string[];
}

/**
 * A `#`, `/` or `?` in a password ends it too early: the rest would be a path or a fragment, and
 * the driver would say it in its errors. The `@` that is left over shows it.
 */
function partsOf(address: string): Parts | undefined {
  const found = /^(postgres(?:ql)?:\/\/)(?:([^/?]*)@)?([^/?@]*)(\/[^?@]*)?(?:\?([^@]*))?$/i.exec(
    address,
  );
  if (found === null || /[\p{Cc}#]/u.test(address)) return undefined;
  const [, scheme = "", userinfo = "", host = "", path = "", query] = found;
  const [user = ""] = userinfo.split(":", 1);
  return { scheme, user, host, path, query: query === undefined ? [] : query.split("&") };
}

/** The schema may stand in the address; the driver must not see it. */
function postgresAddress(address: string): Address {
  const url = urlOf(address);
  if (url === undefined)
    throw invalid(
      "store",
      "this address of Postgres cannot be read. It looks like postgres://user@host:5432/database. In names and passwords, write % as %25, # as %23, / as %2F, ? as %3F and @ as %40",
    );
  if (!url.searchParams.getAll("port").every(isPort))
    throw invalid(
      "store",
      "the port in this address of Postgres must be a number from 1 to 65535. Correct ?port=, or leave it out",
    );
  const schema = url.searchParams.get("schema") ?? undefined;
  url.searchParams.delete("schema");
  return { kind: "postgres", url: url.toString(), schema };
}

const isPort = (text: string): boolean =>
  /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535;

function urlOf(address: string): URL | undefined {
  if (partsOf(address) === undefined) return undefined;
  try {
    const url = new URL(address);
    for (const part of [url.username, url.password, url.hostname, url.pathname])
      decodeURIComponent(part);
    return url;
  } catch {
    // ADDRESS-1: the exception holds the address.
    return undefined;
  }
}

/**
 * Hide what may be a password in a text that repeats words of a person: an address may stand where
 * an id or a command was expected. It is hidden up to the next space or quote, because a password
 * may hold any other character, and a text may be cut.
 */
export const withoutPasswords = (text: string): string =>
  text
    .replace(/(\/\/[^\s"@:/]*:)[^\s"]+/g, "$1…")
    .replace(
      /((?:password|passwd|passphrase|pwd|(?<![a-z])pass)[\\"']*\s*[=:]\s*[\\"']*)[^\s"]+/gi,
      "$1…",
    );

/** Parameters that say where a store is. All others may hold a secret. */
const SHOWN: ReadonlySet<string> = new Set([
  "schema",
  "host",
  "port",
  "user",
  "sslmode",
  "sslrootcert",
]);

/**
 * What may be shown of an address: it has no password, and takes one from elsewhere to open.
 * Undefined: the address cannot be read.
 */
export function shownAddress(address: string): string | undefined {
  try {
    if (parseAddress(address).kind !== "postgres") return address;
  } catch {
    return undefined;
  }
  const { scheme, user, host, path, query } = partsOf(address) as Parts;
  const shown = query.filter((parameter) => SHOWN.has(parameter.split("=", 1)[0] as string));
  return `${scheme}${user === "" ? "" : `${user}@`}${host}${path}${shown.length === 0 ? "" : `?${shown.join("&")}`}`;
}
