/**
 * Postgres as a database of the SQL store: a save is one call of a function, everything else a
 * transaction of a few round trips.
 *
 * LOCKS-1 (D5)  what is written to a session is written under its lock: a save finds the epoch that
 *          a grant left, and a grant what was saved.
 * LOCKS-2 (D4)  a commit whose answer was lost is settled by looking for its work, not by doing it
 *          again.
 * LOCKS-3  a transaction names its tenant, and leaves nothing behind on its connection: a pooler
 *          may stand in between.
 */
import { firstSeq } from "../../../core/journal/save.js";
import type { BranchId } from "../../../core/values/ids.js";
import type { Applied, Change, NewSave } from "../../port/changes.js";
import type { Traits } from "../../port/info.js";
import type { Begun, Database, Dialect, Job, Param, Procedure, Row, SqlCall } from "../database.js";
import { pack } from "../rows.js";
import { Appends } from "./appends.js";
import type { Connection, Connections } from "./connections.js";
import { asBytes, NOW, numbered, postgresDialect } from "./dialect.js";
import { Locks } from "./locks.js";
import type { Notifier } from "./notify.js";
import { PerSessionQueue } from "./per-session-queue.js";
import type { Answer, Statement } from "./pg-client.js";
import { Reads } from "./reads.js";

export interface PostgresSettings {
  /** Quoted. */
  readonly schema: string;
  /** What lock keys are made of (POSTGRES-5). */
  readonly space: string;
  readonly tenant: string;
  /** Whether transactions are `read committed` without being told. */
  readonly readCommitted: boolean;
  /** How many saves may wait. */
  readonly queue: number;
  /** How long a lock is waited for, and the answer to a save. */
  readonly lockMs: number;
  readonly answerMs: number;
}

const BEGIN: Statement = { text: "BEGIN ISOLATION LEVEL READ COMMITTED", params: [] };
const COMMIT: Statement = { text: "COMMIT", params: [] };
const ROLLBACK: Statement = { text: "ROLLBACK", params: [] };

export class PostgresDatabase implements Database {
  readonly traits: Traits = { durable: true, oneMachine: false, shared: true };
  readonly dialect: Dialect = postgresDialect;
  readonly tryLock: Database["tryLock"];
  readonly lockAll: Database["lockAll"];
  readonly #connections: Connections;
  readonly #notices: Notifier;
  readonly #tenant: string;
  readonly #turns = new PerSessionQueue();
  readonly #appends: Appends;
  readonly #reads: Reads;
  readonly #beginAs: Statement;
  readonly #save: string;
  readonly #saveWithBlobs: string;
  readonly #lockMs: string;
  readonly #answerMs: number;
  readonly #locks: Locks;

  constructor(
    connections: Connections,
    notices: Notifier,
    { schema, space, tenant, readCommitted, queue, lockMs, answerMs }: PostgresSettings,
  ) {
    this.#connections = connections;
    this.#notices = notices;
    this.#tenant = tenant;
    this.#appends = new Appends(connections, this.#turns, {
      queue,
      answerMs,
      before: readCommitted ? [] : [BEGIN],
      after: readCommitted ? [] : [COMMIT],
      saved: (session) => notices.tell(session),
    });
    this.#lockMs = String(lockMs);
    this.#answerMs = answerMs;
    this.#beginAs = { text: `SELECT ${schema}.begin_as($1, $2)`, params: [tenant, this.#lockMs] };
    this.#save = `SELECT ${schema}.save($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`;
    this.#saveWithBlobs = `SELECT ${schema}.save_with_blobs($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)`;
    this.#reads = new Reads(connections, this.#beginAs);
    this.#locks = new Locks(space, tenant);
    this.tryLock = this.#locks.tryLock;
    this.lockAll = this.#locks.lockAll;
  }

  // ---- writing

  append(change: Change, fresh: NewSave): Promise<Applied> | undefined {
    // What the function does not take.
    if (fresh.save.note !== null) return undefined;
    const { session } = change;
    const lock = this.#locks.session(session);
    return this.#appends.append({ session, lock, call: this.#saveCall(change, fresh, lock) });
  }

  /** A fresh save has no note: nothing was dropped of it. */
  #saveCall(
    { session, when }: Change,
    { save, refs, blobs }: NewSave,
    lock: string,
  ): (again: boolean) => Statement {
    const params: Param[] = [
      this.#tenant,
      lock,
      session,
      when.epoch as number,
      save.branch,
      firstSeq(save) - 1,
      save.seq,
      pack(save),
      asBytes(save.mark),
      asBytes(save.items),
      asBytes(save.state),
      this.#lockMs,
    ];
    if (refs.length === 0)
      return (again) => ({ text: this.#save, params: [...params, String(again)], says: "text" });
    const list = (values: readonly string[]) => `{${values.join(",")}}`;
    const bodies = blobs.map(
      ({ bytes }) =>
        `"\\\\x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("hex")}"`,
    );
    const blobParams = [
      this.#locks.blobs,
      list(refs),
      list(blobs.map(({ digest }) => digest)),
      list(bodies),
    ];
    return (again) => ({
      text: this.#saveWithBlobs,
      params: [...params, String(again), ...blobParams],
      says: "text",
    });
  }

  write<T>(job: Job<T>): Promise<T> {
    const locks = this.#locks.take(job.locks);
    const sessions = job.locks.flatMap((lock) => ("session" in lock ? lock.session : []));
    const run = async (connection: Connection, again: boolean) => {
      const answer = await this.#transaction(connection, job, locks, again);
      job.committed?.(answer);
      return answer;
    };
    return this.#turns.take(sessions, () =>
      this.#connections.use(run, { withinMs: this.#answerMs }),
    );
  }

  async #transaction<T>(
    connection: Connection,
    job: Job<T>,
    locks: readonly Statement[],
    again: boolean,
  ): Promise<T> {
    let opening: readonly Statement[] = [BEGIN, this.#beginAs, ...locks];
    const send = async (asks: readonly SqlCall[]): Promise<readonly (readonly Row[])[]> => {
      const answers = await connection.send([...opening, ...asks.map(statementOf)]);
      const own = answers.slice(opening.length);
      opening = [];
      return asks.map(({ changes }, i) => rowsOf(own[i] as Answer, changes));
    };
    // LOCKS-2: an earlier try may have been done. Then there is nothing to change, and only to tell.
    const settled = again && job.settle ? await drive(job.settle(), send) : undefined;
    const answer = settled ?? (await drive(job.steps(), send));
    if (opening.length === 0)
      await connection.send([settled !== undefined || job.refused(answer) ? ROLLBACK : COMMIT]);
    return answer;
  }

  applied(changes: readonly Change[], _begun: readonly Begun[]): void {
    for (const { session } of changes) this.#notices.tell(session);
  }

  posted(session: string): void {
    this.#notices.tell(session);
  }

  wasCut(_branch: BranchId): void {}

  // ---- reading

  read(text: string, params: readonly Param[], how?: "long"): Promise<readonly Row[]> {
    const statement = statementOf({ text, params });
    return how === "long" ? this.#reads.readLong(statement) : this.#reads.read(statement);
  }

  async readSaves(text: string, params: readonly Param[]): Promise<readonly Row[]> {
    return (await this.#reads.read({ text: numbered(text), params, says: "bytes" })).map(savesRow);
  }

  async now(): Promise<number> {
    const ask = { text: `SELECT ${NOW}`, params: [] };
    return this.#connections.use(
      async (connection) => (await connection.send([ask]))[0]?.rows[0]?.[0] as number,
    );
  }
}

const statementOf = ({
  text,
  params,
}: {
  readonly text: string;
  readonly params: readonly Param[];
}): Statement => ({
  text: numbered(text),
  params,
});

/** The number comes as text, like all else. */
const savesRow = ([seq, ...rest]: Row): Row => [Number(seq), ...rest];

const rowsOf = ({ rows, count }: Answer, changes: boolean): readonly Row[] =>
  changes ? [[count]] : rows;

async function drive<T>(
  work: Procedure<T>,
  send: (asks: readonly SqlCall[]) => Promise<readonly (readonly Row[])[]>,
): Promise<T> {
  for (let step = work.next(); ; ) {
    if (step.done) return step.value;
    step = work.next(await send(step.value));
  }
}
