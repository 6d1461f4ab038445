/**
 * Giving out sessions that are due, as procedures. No lock is waited for: what others are just
 * writing to is left for the next claim.
 */
import {
  type ClaimQuery,
  type Granting,
  MAX_CANDIDATES,
  type StoreClaims,
} from "../port/claims.js";
import type { SessionRow } from "../port/rows.js";
import type { Access } from "./access.js";
import type { Database, Job, Procedure, Row, SqlCall } from "./database.js";
import { change, look, row, rowsOf } from "./procedure.js";
import { sessionRow } from "./rows.js";
import type { Statements } from "./statements.js";

/** A place in the order of a claim: when a session is due, and its number. */
type Position = readonly [wake: number, no: number];

/** Before all that is due. */
const FIRST: Position = [Number.MIN_SAFE_INTEGER, 0];

class Claims {
  readonly #db: Pick<Database, "dialect" | "tryLock">;
  readonly #sql: Statements;
  readonly #tenant: string;

  constructor(db: Pick<Database, "dialect" | "tryLock">, sql: Statements, tenant: string) {
    this.#db = db;
    this.#sql = sql;
    this.#tenant = tenant;
  }

  /** Whether there is anything to claim. */
  any({ agent, dueBy, limit }: ClaimQuery): SqlCall {
    return look(this.#sql.due, this.#tenant, agent, dueBy, ...FIRST, Math.min(limit, 1));
  }

  /**
   * Where the answer to the commit was lost, and the leases are there as they were granted, they
   * are the answer. Where the server stays away, the claim fails, and the leases that it may have
   * left run out by themselves.
   */
  claim(query: ClaimQuery, grant: Granting): Job<readonly SessionRow[]> {
    let granted: SessionRow[] = [];
    return {
      locks: [],
      steps: () => {
        granted = [];
        return this.#claim(query, grant, granted);
      },
      refused: (rows) => rows.length === 0,
      settle: () => this.#settle(granted),
    };
  }

  *#claim(
    query: ClaimQuery,
    grant: Granting,
    granted: SessionRow[],
  ): Procedure<readonly SessionRow[]> {
    let after = FIRST;
    // As many as are wanted, and ever more where they are passed over.
    for (
      let left = MAX_CANDIDATES, page = 0;
      left > 0 && granted.length < query.limit;
      left -= page
    ) {
      page = Math.min(left, Math.max(query.limit - granted.length, 2 * page));
      const found = yield* rowsOf(
        this.#sql.due,
        this.#tenant,
        query.agent,
        query.dueBy,
        ...after,
        page,
      );
      yield* this.#grant(yield* this.#ours(found), query, grant, granted);
      if (found.length < page) break;
      const [no, , wake] = found.at(-1) as Row;
      after = [wake as number, no as number];
    }
    return granted;
  }

  /** The numbers of those that nobody else is writing to. */
  *#ours(found: readonly Row[]): Procedure<readonly number[]> {
    const { tryLock } = this.#db;
    const locked =
      tryLock && found.length > 0 ? yield found.map(([, id]) => tryLock(id as string)) : undefined;
    return found
      .filter((_, i) => locked === undefined || locked[i]?.[0]?.[0] === 1)
      .map(([no]) => no as number);
  }

  /** Looks at each again, now that nobody can change it, and writes the leases that are granted. */
  *#grant(
    ours: readonly number[],
    { agent, dueBy, limit }: ClaimQuery,
    grant: Granting,
    granted: SessionRow[],
  ): Procedure<void> {
    if (ours.length === 0) return;
    const { dueNow, updateLease } = this.#sql;
    const { clock } = this.#db.dialect;
    const rows = (yield ours.map((no) =>
      look(dueNow, ...clock.params(), no, this.#tenant, agent, dueBy),
    )).flat();
    const leases: SqlCall[] = [];
    for (const [now, ...columns] of rows) {
      const found = sessionRow(columns);
      const lease = granted.length < limit ? grant(found, now as number) : undefined;
      if (lease === undefined) continue;
      leases.push(change(updateLease, lease.epoch, lease.until, lease.text, found.no));
      granted.push({ ...found, lease });
    }
    if (leases.length > 0) yield leases;
  }

  *#settle(granted: readonly SessionRow[]): Procedure<readonly SessionRow[] | undefined> {
    for (const { id, lease } of granted) {
      const now = yield* row(this.#sql.session, this.#tenant, id);
      if (now === undefined || sessionRow(now).lease.text !== lease.text) return undefined;
    }
    return granted.length === 0 ? undefined : granted;
  }
}

export function claimsOf(store: Access): StoreClaims {
  const claims = new Claims(store.db, store.sql, store.tenant);
  return {
    async claim(query, grant) {
      // Looked for first: a worker that finds nothing to do keeps no other from writing.
      const { text, params } = claims.any(query);
      return (await store.read(text, ...params)).length === 0
        ? []
        : store.write(claims.claim(query, grant));
    },
  };
}
