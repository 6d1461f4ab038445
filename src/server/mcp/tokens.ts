/** Who may ask, and whose tenant they see: a token each. */
import { createHash, timingSafeEqual } from "node:crypto";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";

const LEAST_CHARS = 16;

interface Known {
  readonly tenant: string | undefined;
  readonly digest: Buffer;
}

export class Tokens {
  readonly #known: Known[] = [];

  add(token: string, tenant: string | undefined, where: string): this {
    if (!/^[\x21-\x7e]+$/.test(token) || token.length < LEAST_CHARS)
      throw new HoldfastError(
        "INVALID_OPTION",
        `${where}: a token is ${LEAST_CHARS} characters or more, without spaces.`,
        { path: where },
      );
    if (this.tenantOf(token) !== undefined)
      throw new HoldfastError(
        "INVALID_OPTION",
        `${where}: the same token stands there twice. Each opens one tenant.`,
        { path: where },
      );
    this.#known.push({ tenant, digest: hash(token) });
    return this;
  }

  /**
   * Undefined where nobody knows it. All are compared, each in the same time: how long it takes
   * tells nothing.
   */
  tenantOf(token: string): { readonly tenant: string | undefined } | undefined {
    const given = hash(token);
    let found: Known | undefined;
    for (const known of this.#known) if (timingSafeEqual(known.digest, given)) found = known;
    return found && { tenant: found.tenant };
  }

  /** Whose there are, in the order of their coming. */
  get tenants(): readonly (string | undefined)[] {
    return this.#known.map(({ tenant }) => tenant);
  }
}

/**
 * A tenant and its token on each line; a line that begins with # says nothing, and - is the tenant
 * without a name.
 */
export function tokensIn(text: string, path: string): Tokens {
  const tokens = new Tokens();
  for (const [i, line] of text.split(/\r?\n/).entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const where = `${path}:${i + 1}`;
    const [tenant = "", token, ...more] = line.trim().split(/\s+/);
    if (token === undefined || more.length > 0)
      throw new HoldfastError(
        "INVALID_OPTION",
        `${where}: a line holds a tenant and its token, and nothing else.`,
        { path: where },
      );
    tokens.add(token, tenant === "-" ? undefined : checkName(tenant, "tenant"), where);
  }
  if (tokens.tenants.length === 0)
    throw new HoldfastError("INVALID_OPTION", `${quote(path)} holds no token.`, { path });
  return tokens;
}

const hash = (token: string): Buffer => createHash("sha256").update(token).digest();
