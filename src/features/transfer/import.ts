/**
 * An export taken into this store. Nothing in it is believed: rows are checked against their chain,
 * and what they say by `check-rows.ts`. What has been verified goes to `import-session.ts`, session
 * by session.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { KnownBlob } from "../../core/journal/blob-body.js";
import type { Save } from "../../core/journal/save.js";
import type { Blob } from "../../core/messages/message.js";
import {
  type AgentText,
  badRow,
  endedEarly,
  type InboxText,
  type LeftOut,
  notAnExport,
  RowReader,
  RowSplitter,
  type SessionText,
  type TransferRow,
} from "../../core/transfer/export-format.js";
import { isInstance } from "../../core/values/check-options.js";
import type { Digest } from "../../core/values/digest.js";
import { type ErrorCode, HoldfastError } from "../../core/values/errors.js";
import { type BranchId, type SessionId, typeName } from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import { IMPORTED } from "../../engine/calls/doubt-restored.js";
import { freeBranches } from "../../engine/journal/cut-branches.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { agentFrom } from "../../engine/records/agent-record.js";
import { headOf } from "../../engine/records/rows.js";
import { callback, flag, invalid, options, signalOf } from "../../engine/util/validate.js";
import { yieldNowAndThen } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { RowCheck } from "./check-rows.js";
import type { TransferProgress } from "./export.js";
import {
  Again,
  type Brought,
  type Outcome,
  Refused,
  SessionImport,
  type Target,
} from "./import-session.js";
import { inboxFrom } from "./import-validate.js";

/**
 * An export as text or bytes, in pieces of any size: a file's stream, standard input, what
 * `hold.export` gives.
 */
export type ExportedRows = AsyncIterable<string | Uint8Array> | Iterable<string | Uint8Array>;

export interface ImportOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: TransferProgress) => void;
  /** Verifies everything, and says what would be imported, without a change. */
  readonly dryRun?: boolean;
  /**
   * Nobody goes on with these sessions where they come from. Without it, those that were under way
   * open as in doubt, until somebody has said that they may go on here.
   */
  readonly moved?: boolean;
}

/** What an import has taken in, and what it could not. */
export interface ImportReport {
  /**
   * In the order in which they came. A known one was there already, the same or further on, and
   * stays as it is.
   */
  readonly sessions: readonly { readonly id: string; readonly outcome: "imported" | "known" }[];
  /**
   * Agents whose records came. One that was known is the same here; one that was `kept` is another
   * here, and stays as it is. One was `left-out` where the store keeps no documents.
   */
  readonly agents: readonly {
    readonly id: string;
    readonly outcome: "imported" | "known" | "kept" | "left-out";
  }[];
  /** Sessions that could not be imported, and what to do about it. */
  readonly conflicts: readonly {
    readonly id: string;
    readonly code: ErrorCode;
    readonly message: string;
  }[];
  /** Sessions that the export itself could not hold. */
  readonly leftOut: readonly LeftOut[];
  /** Saves and blobs that were written here. */
  readonly saves: number;
  readonly blobs: number;
  /** The size of the stream. */
  readonly bytes: number;
}

/** A session whose rows are no longer than this is begun again by itself when others disturb it. */
const REPLAY_BYTES = 16 * 1024 * 1024;
const TRIES = 5;
/** What a row takes in memory beside its text. */
const ROW_BYTES = 500;
/**
 * What a check says of something that came from outside, and that no Holdfast would have written.
 */
const DAMAGE: ReadonlySet<ErrorCode> = new Set([
  "CORRUPT",
  "INVALID_ID",
  "INVALID_VALUE",
  "INVALID_OPTION",
]);

export async function importRows(
  ctx: StoreContext,
  rows: ExportedRows,
  given: ImportOptions | undefined,
): Promise<ImportReport> {
  ctx.usable();
  const o = options(given, "import", ["signal", "onProgress", "dryRun", "moved"]);
  const signal = signalOf(o.signal);
  const pieces = piecesOf(rows);
  const pinned = new Set<string>();
  ctx.imports.add(pinned);
  try {
    const came = new Map<Digest, KnownBlob>();
    const generation = flag(o.moved, "moved") ? await ctx.learnGeneration() : IMPORTED;
    const dryRun = flag(o.dryRun, "dryRun") ?? false;
    const wrote = { saves: 0, blobs: 0 };
    const target: Target = {
      ctx,
      dryRun,
      generation,
      came,
      pinned,
      wrote,
      forkPoints: new Map(),
      stale: new Map(),
    };
    return await new Import(target, came, signal, callback(o.onProgress, "onProgress")).run(pieces);
  } finally {
    ctx.imports.delete(pinned);
  }
}

function piecesOf(rows: unknown): ExportedRows {
  if (typeof rows === "string" || isInstance(rows, Uint8Array)) return [rows];
  if (isIterated(rows)) return rows;
  throw invalid(
    "rows",
    `an export is text or bytes that can be iterated over, not ${typeName(rows)}`,
  );
}

function isIterated(rows: unknown): rows is ExportedRows {
  try {
    return (
      typeof rows === "object" &&
      rows !== null &&
      (Symbol.asyncIterator in rows || Symbol.iterator in rows)
    );
  } catch (cause) {
    throw invalid("rows", "reading it threw an error", cause);
  }
}

/** Bringing in what came since the last session. */
class Unit {
  into: SessionImport;
  /**
   * What came, to be brought in again where others disturb it; undefined where that is too much to
   * keep.
   */
  replay: Brought[] | undefined = [];
  replayBytes = 0;
  tries = 1;
  failure: Refused | undefined;
  constructor(target: Target) {
    this.into = new SessionImport(target);
  }
}

class Import {
  readonly #target: Target;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: ((progress: TransferProgress) => void) | undefined;
  readonly #splitter = new RowSplitter();
  readonly #reader = new RowReader();
  readonly #check: RowCheck;
  #unit: Unit;
  readonly #sessions: { readonly id: string; readonly outcome: Outcome }[] = [];
  readonly #conflicts: {
    readonly id: string;
    readonly code: ErrorCode;
    readonly message: string;
  }[] = [];
  readonly #leftOut: LeftOut[] = [];
  readonly #agents: {
    readonly id: string;
    readonly outcome: "imported" | "known" | "kept" | "left-out";
  }[] = [];
  readonly #agentIds = new Set<string>();
  /** Branches of sessions that were refused: what no other needs of them is freed at the end. */
  readonly #needless = new Set<BranchId>();
  #of = 0;
  #saves = 0;
  #bytes = 0;

  constructor(
    target: Target,
    blobs: Map<Digest, KnownBlob>,
    signal: AbortSignal | undefined,
    onProgress: ((progress: TransferProgress) => void) | undefined,
  ) {
    this.#target = target;
    this.#check = new RowCheck(target, blobs, () => this.#reader.rows);
    this.#signal = signal;
    this.#onProgress = onProgress;
    this.#unit = new Unit(target);
  }

  async run(pieces: ExportedRows): Promise<ImportReport> {
    for await (const piece of pieces as AsyncIterable<unknown>) {
      if (typeof piece !== "string" && !(piece instanceof Uint8Array))
        throw invalid("rows", `an export comes as text or bytes, not as ${typeName(piece)}`);
      this.#bytes += typeof piece === "string" ? Buffer.byteLength(piece) : piece.length;
      for (const row of this.#splitter.push(piece)) await this.#row(row);
    }
    const rest = this.#splitter.end();
    // A last row without its line break is whole, or it is where the stream was cut.
    if (this.#reader.fits(rest) || (this.#reader.ended && rest !== "")) await this.#row(rest);
    else if (this.#reader.rows === 0 && !isBeginning(rest)) throw notAnExport();
    if (!this.#reader.ended) throw endedEarly(this.#reader.rows);
    if (!this.#target.dryRun) await freeBranches(this.#target.ctx, [...this.#needless]);
    this.#tell();
    return this.#report();
  }

  #report(): ImportReport {
    const { saves, blobs } = this.#target.wrote;
    const frozen = <T extends object>(list: readonly T[]): readonly T[] =>
      Object.freeze(list.map((item) => Object.freeze(item)));
    return Object.freeze({
      sessions: frozen(this.#sessions),
      agents: frozen(this.#agents),
      conflicts: frozen(this.#conflicts),
      leftOut: frozen(this.#leftOut),
      saves,
      blobs,
      bytes: this.#bytes,
    });
  }

  #tell(): void {
    this.#onProgress?.({
      sessions: this.#sessions.length + this.#conflicts.length,
      saves: this.#saves,
      bytes: this.#bytes,
      of: this.#of,
    });
  }

  async #row(text: string): Promise<void> {
    this.#signal?.throwIfAborted();
    await yieldNowAndThen();
    const row = this.#reader.read(text);
    let brought: Brought | undefined;
    try {
      brought = await this.#verified(row);
    } catch (error) {
      throw this.#damage(error);
    }
    if (brought !== undefined) await this.#bring(brought);
    if (!("session" in row)) return;
    if (this.#unit.failure === undefined && row.inboxMessages !== undefined)
      await this.#post(row.session, row.inboxMessages);
    this.#done(row);
  }

  /** Whatever cannot be is damage of its row, also where reading it stumbled. */
  #damage(error: unknown): unknown {
    const { rows } = this.#reader;
    if (!(error instanceof HoldfastError)) return badRow(rows, "holds what cannot be read", error);
    if (error.details.row === rows || !DAMAGE.has(error.code)) return error;
    return badRow(rows, `cannot be: ${error.message.replace(/\.( .*)?$/s, "")}`, error);
  }

  async #verified(row: TransferRow): Promise<Brought | undefined> {
    const check = this.#check;
    if ("part" in row || "blob" in row || "save" in row || "branch" in row || "session" in row) {
      const brought = await check.check(row);
      if ("save" in row) {
        this.#saves += 1;
        if (this.#saves % 200 === 0) this.#tell();
      }
      return brought;
    }
    check.requireWholeSave();
    if ("agent" in row) await this.#agent(row);
    else if ("holdfast" in row) this.#of = row.sessions;
    else if ("again" in row) this.#next();
    else if ("left" in row) {
      this.#leftOut.push({ id: row.left, code: row.code, message: row.message });
      for (const id of this.#unit.into.loose) this.#needless.add(id);
      this.#next();
    } else if (check.isInSession) throw check.bad("ends the export in the middle of a session");
    return undefined;
  }

  /** What came since the last session is void. */
  #next(): void {
    this.#check.forget();
    this.#unit = new Unit(this.#target);
  }

  async #agent({ agent, text }: AgentText): Promise<void> {
    if (this.#check.isInSession || this.#agentIds.has(agent))
      throw this.#check.bad("is not where it belongs");
    this.#agentIds.add(agent);
    const change = agentFrom(agent, text);
    const { ctx, dryRun } = this.#target;
    if (ctx.store.documents === undefined) {
      this.#agents.push({ id: agent, outcome: "left-out" });
      return;
    }
    for (;;) {
      const there = await documentsOf(ctx.store).get(change.kind, agent);
      const outcome = there === undefined ? "imported" : there.text === text ? "known" : "kept";
      if (outcome === "imported" && !dryRun && !(await ctx.store.apply([], [change])).ok) continue;
      this.#agents.push({ id: agent, outcome });
      return;
    }
  }

  // ---- bringing in

  async #bring(brought: Brought): Promise<void> {
    const unit = this.#unit;
    if (unit.failure !== undefined) return;
    unit.replay?.push(brought);
    unit.replayBytes += "save" in brought ? bytesOf(brought) : ROW_BYTES;
    if (unit.replayBytes > REPLAY_BYTES) unit.replay = undefined;
    let todo: readonly Brought[] = [brought];
    for (;;) {
      try {
        for (const one of todo) {
          const outcome = await unit.into.take(one);
          if (outcome !== undefined && "session" in one)
            this.#sessions.push({ id: one.session, outcome });
        }
        return;
      } catch (error) {
        if (error instanceof Refused) unit.failure = error;
        else if (!(error instanceof Again)) throw error;
        else if (unit.replay === undefined || unit.tries >= TRIES) unit.failure = busy();
        if (unit.failure !== undefined) return;
        unit.tries += 1;
        unit.into = new SessionImport(this.#target);
        todo = unit.replay ?? [];
        await sleep(Math.random() * 5 * unit.tries);
      }
    }
  }

  /** Posts what became of open calls to a session that was not opened here since it came. */
  async #post(session: SessionId, inboxMessages: readonly InboxText[]): Promise<void> {
    const { ctx, dryRun } = this.#target;
    const row = dryRun ? undefined : (await ctx.store.session(session)).row;
    if (row === undefined || headOf(row).generation !== IMPORTED) return;
    // Without an inbox these calls are in doubt when the session is opened.
    if (ctx.store.inbox === undefined) return;
    for (const { id, doc } of inboxFrom(session, inboxMessages))
      await ctx.tryPost(session, doc, { id });
  }

  #done({ session }: SessionText): void {
    const unit = this.#unit;
    if (unit.failure !== undefined) {
      const { code, message } = unit.failure;
      this.#conflicts.push({ id: session, code, message });
      // What was disturbed is gone on with the next time; what was refused is only needed by forks.
      if (code !== "BUSY") for (const id of unit.into.loose) this.#needless.add(id);
    }
    this.#check.keep();
    this.#unit = new Unit(this.#target);
    this.#tell();
  }
}

/** Whether a text that was cut is the beginning of an export. */
const isBeginning = (text: string): boolean =>
  text !== "" && (text.startsWith(BEGINNING) || BEGINNING.startsWith(text));
const BEGINNING = '{"holdfast":"export",';

function busy(): Refused {
  return new Refused(
    "BUSY",
    "Others freed what was being brought in, again and again. Import it again, and it goes on from there.",
  );
}

const bytesOf = ({
  save,
  blobs,
}: {
  readonly save: Save;
  readonly blobs: readonly Blob[];
}): number =>
  textBytes(save.items) +
  textBytes(save.state) +
  textBytes(save.mark) +
  blobs.reduce((sum, { bytes }) => sum + bytes.length, 0) +
  ROW_BYTES;
