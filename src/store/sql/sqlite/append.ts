/**
 * The quick way for a save that comes alone: one statement, which is its own transaction,
 * conditional on the epoch.
 */
import { firstSeq, type Save } from "../../../core/journal/save.js";
import type { Applied, Change, Refusal } from "../../port/changes.js";
import { checkOf, saveParams } from "../rows.js";
import { saveColumns, savePlaceholders, tail } from "../statements.js";
import type { Work } from "./driver/committer.js";
import type { Prepared } from "./driver/prepared.js";
import type { LineKey, LineKeys } from "./line-keys.js";

const epochOf = "SELECT no, epoch FROM session WHERE tenant = ? AND id = ?";
const headAt = "SELECT head FROM save WHERE line = ? AND seq = ?";
/** On a line whose end is known. */
const appendNext = `INSERT INTO save (line, seq, ${saveColumns}) SELECT ?, ?, ${savePlaceholders} WHERE (SELECT epoch FROM session WHERE no = ?) = ?`;
/** If the session's epoch and the line's end are as expected. */
const appendIf = `INSERT INTO save (line, seq, ${saveColumns})
  SELECT ?, ?, ${savePlaceholders} WHERE (SELECT epoch FROM session WHERE tenant = ? AND id = ?) = ? AND ${tail} = ?`;

/** Sections are texts, and kept as such. */
export const asText = (text: string | null): string | null => text;

export class Appender {
  readonly #statements: Prepared;
  readonly #lines: LineKeys;
  readonly #tenant: string;
  readonly #saved: (save: Save) => void;

  /** `saved` is told of every save that was committed. */
  constructor(statements: Prepared, lines: LineKeys, tenant: string, saved: (save: Save) => void) {
    this.#statements = statements;
    this.#lines = lines;
    this.#tenant = tenant;
    this.#saved = saved;
  }

  append(change: Change, save: Save): Work<Applied> {
    let session: number | undefined;
    return {
      simple: true,
      refused: (applied) => !applied.ok,
      run: () => {
        const last = this.#lines.of(save.line);
        session = last?.end?.session;
        if (last !== undefined && this.#appendNext(last, change, save)) return done;
        // Looked up anew: a line that was cut, and brought in again by another process, has another
        // number.
        this.#lines.forget(save.line);
        const key = this.#lines.of(save.line);
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
        this.#lines.endsAt(
          save.line,
          isNew
            ? { id, session: session as number, epoch: when.epoch as number, seq: save.seq }
            : undefined,
        );
      },
    };
  }

  /**
   * Where this process knows the end of the line. False: it does not, or another holder has come.
   */
  #appendNext(key: LineKey, change: Change, save: Save): boolean {
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

  #appendIf(key: LineKey, { session, when }: Change, save: Save): boolean {
    const params = saveParams(key.no, save, asText);
    params.push(
      this.#tenant,
      session,
      when.epoch as number,
      key.no,
      key.originSeq,
      firstSeq(save) - 1,
    );
    return this.#statements.of(appendIf).run(...params) > 0;
  }

  #isThere(key: LineKey, save: Save): boolean {
    const [head] = this.#statements.of(headAt).get(key.no, save.seq) ?? [];
    return checkOf(head) === save.check;
  }
}

const done: Applied = { ok: true };
/** It was there already. */
const known: Applied = { ok: true };
