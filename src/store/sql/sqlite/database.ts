/**
 * SQLite as a database of the SQL store: one connection, answers in the same tick, commits of one
 * tick together.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Save } from "../../../core/journal/save.js";
import type { BranchId } from "../../../core/values/ids.js";
import { monotonicMs } from "../../machine.js";
import type { Applied, Change, NewSave } from "../../port/changes.js";
import type { Traits } from "../../port/info.js";
import type { Begun, Database, Dialect, Job, Param, Row, SqlCall } from "../database.js";
import { Appender } from "./append.js";
import { BranchKeys } from "./branch-keys.js";
import { sqliteDialect } from "./dialect.js";
import { type Committer, translate } from "./driver/committer.js";
import { type Driver, failureOf } from "./driver/driver.js";
import { Prepared } from "./driver/prepared.js";
import type { Writes } from "./writes.js";

export interface SqliteSettings {
  readonly tenant: string;
  readonly busyMs: number;
  readonly gone: AbortSignal;
  /** Told of every save that was committed. */
  readonly saved: (save: Save) => void;
}

export class SqliteDatabase implements Database {
  readonly traits: Traits = { durable: true, oneMachine: true, shared: true };
  readonly dialect: Dialect = sqliteDialect(monotonicMs);
  readonly gone: AbortSignal;
  readonly tryLock = undefined;
  readonly lockAll = undefined;
  readonly #saved: (save: Save) => void;
  readonly #committer: Committer;
  readonly #writes: Writes;
  readonly #statements: Prepared;
  readonly #branches: BranchKeys;
  readonly #appender: Appender;
  readonly #busyMs: number;

  constructor(
    driver: Driver,
    committer: Committer,
    writes: Writes,
    { tenant, busyMs, gone, saved }: SqliteSettings,
  ) {
    this.gone = gone;
    this.#saved = saved;
    this.#committer = committer;
    this.#writes = writes;
    this.#statements = new Prepared(driver);
    this.#branches = new BranchKeys(driver, this.#statements, tenant);
    this.#appender = new Appender(this.#statements, this.#branches, tenant, saved);
    this.#busyMs = busyMs;
  }

  append(change: Change, { save, refs }: NewSave): Promise<Applied> | undefined {
    return refs.length > 0 ? undefined : this.#writes.add(this.#appender.append(change, save));
  }

  write<T>({ steps, refused, committed, removes }: Job<T>): Promise<T> {
    const run = (): T => {
      const work = steps();
      for (let step = work.next(); ; ) {
        if (step.done) return step.value;
        step = work.next(step.value.map((ask) => this.#ask(ask)));
      }
    };
    const job = { simple: false, refused, run, ...(committed && { committed }) };
    return removes ? this.#writes.remove(() => this.#committer.submit(job)) : this.#writes.add(job);
  }

  #ask({ text, params, changes }: SqlCall): readonly Row[] {
    const statement = this.#statements.of(text);
    return changes ? [[statement.run(...params)]] : statement.all(...params);
  }

  applied(changes: readonly Change[], begun: readonly Begun[]): void {
    for (const { id, no, forkSeq, sessionId, session, epoch } of begun) {
      this.#branches.remember(id, {
        no,
        forkSeq,
        end: epoch === undefined ? undefined : { id: sessionId, session, epoch, seq: forkSeq },
      });
    }
    for (const { saves = [] } of changes) {
      for (const { save } of saves) {
        this.#saved(save);
        this.#branches.endsAt(save.branch, undefined);
      }
    }
  }

  posted(_session: string): void {}

  wasCut(branch: BranchId): void {
    this.#branches.forget(branch);
  }

  read(text: string, params: readonly Param[]): Promise<readonly Row[]> {
    return this.#patiently(() => this.#statements.of(text).all(...params));
  }

  readSaves(text: string, params: readonly Param[]): Promise<readonly Row[]> {
    return this.read(text, params);
  }

  /** Reads wait only for a process that is just recovering the file or its log. */
  async #patiently<T>(look: () => T): Promise<T> {
    this.gone.throwIfAborted();
    let isSecond = false;
    for (let deadline: number | undefined; ; ) {
      try {
        return look();
      } catch (error) {
        const failure = failureOf(error);
        // A read that the disk failed once is called damage, too: what is damaged is damaged the
        // second time.
        if (failure === "corrupt" && !isSecond) isSecond = true;
        else if (failure !== "busy") throw translate(error);
        deadline ??= performance.now() + this.#busyMs;
        if (performance.now() > deadline) throw translate(error);
      }
      await sleep(2 + Math.random() * 18);
    }
  }

  async now(): Promise<number> {
    return monotonicMs();
  }
}
