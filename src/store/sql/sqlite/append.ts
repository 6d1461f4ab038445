/**
 * The quick way for a save that comes alone: one statement, which is its own transaction,
 * conditional on the epoch.
 */
import { firstSeq, type Save } from "../../../core/journal/save.js";
import type { Applied, Change, Refusal } from "../../port/changes.js";
import { checkOf, saveParams } from "../rows.js";
import { saveColumns, savePlaceholders, tail } from "../statements.js";
import type { BranchKey, BranchKeys } from "./branch-keys.js";
import type { Work } from "./driver/committer.js";
import type { Prepared } from "./driver/prepared.js";

const epochOf = "SELECT no, epoch FROM session WHERE tenant = ? AND id = ?";
const headAt = "SELECT head FROM save WHERE branch = ? AND seq = ?";
/** On a branch whose end is known. */
const appendNext = `INSERT INTO save (branch, seq, ${saveColumns}) SELECT ?, ?, ${savePlaceholders} WHERE (SELECT epoch FROM session WHERE no = ?) = ?`;
/** If the session's epoch and the branch's end are as expected. */
const appendIf = `INSERT INTO save (branch, seq, ${saveColumns})
  SELECT ?, ?, ${savePlaceholders} WHERE (SELECT epoch FROM session WHERE tenant = ? AND id = ?) = ? AND ${tail} = ?`;

/** Sections are texts, and kept as such. */
export const asText = (text: string | null): string | null => text;

export class Appender {
  readonly #statements: Prepared;
  readonly #branches: BranchKeys;
  readonly #tenant: string;
  readonly #saved: (save: Save) => void;

  /** `saved` is told of every save that was committed. */
  constructor(
    statements: Prepared,
    branches: BranchKeys,
    tenant: string,
    saved: (save: Save) => void,
  ) {
    this.#statements = statements;
    this.#branches = branches;
    this.#tenant = tenant;
    this.#saved = saved;
  }

  append(change: Change, save: Save): Work<Applied> {
    let session: number | undefined;
    return {
      simple: true,
      refused: (applied) => !applied.ok,
      run: () => {
        const last = this.#branches.of(save.branch);
        session = last?.end?.session;
        if (last !== undefined && this.#appendNext(last, change, save)) return done;
        // Looked up anew: a branch that was cut, and brought in again by another process, has
        // another number.
        this.#branches.forget(save.branch);
        const key = this.#branches.of(save.branch);
        // Looked up before the save is made: nothing may fail after it.
        const [no, epoch] = this.#statements.of(epochOf).get(this.#tenant, change.session) ?? [];
        session = no as number | undefined;
        const why: Refusal | undefined =
          no === undefined ? "absent" : epoch === change.when.epoch ? undefined : "epoch";
        if (why === undefined && key !== undefined && this.#appendIf(key, change, save))
          return done;
        if (why === undefined && key !== undefined && this.#isThere(key, save)) return known;
        return { ok: false, change: 0, why: why ?? "tail" };
      },
      // Once it is committed, and not before: what was taken back is no end to go on from. Nor is a
      // save that was there already.
      committed: (applied) => {
        if (applied.ok) this.#saved(save);
        const { session: id, when } = change;
        const isNew = applied === done && session !== undefined;
        this.#branches.endsAt(
          save.branch,
          isNew
            ? { id, session: session as number, epoch: when.epoch as number, seq: save.seq }
            : undefined,
        );
      },
    };
  }

  /**
   * Where this process knows the end of the branch. False: it does not, or another holder has come.
   */
  #appendNext(key: BranchKey, change: Change, save: Save): boolean {
    const { end } = key;
    if (
      end?.id !== change.session ||
      end.seq !== firstSeq(save) - 1 ||
      end.epoch !== change.when.epoch
    )
      return false;
    const params = saveParams(key.no, save, asText);
    params.push(end.session, end.epoch);
    return this.#statements.of(appendNext).run(...params) > 0;
  }

  #appendIf(key: BranchKey, { session, when }: Change, save: Save): boolean {
    const params = saveParams(key.no, save, asText);
    params.push(
      this.#tenant,
      session,
      when.epoch as number,
      key.no,
      key.forkSeq,
      firstSeq(save) - 1,
    );
    return this.#statements.of(appendIf).run(...params) > 0;
  }

  #isThere(key: BranchKey, save: Save): boolean {
    const [head] = this.#statements.of(headAt).get(key.no, save.seq) ?? [];
    return checkOf(head) === save.check;
  }
}

const done: Applied = { ok: true };
/** It was there already. */
const known: Applied = { ok: true };
