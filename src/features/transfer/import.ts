/**
 * An export taken into this store. Nothing in it is believed: rows are checked against their chain,
 * saves against theirs, blobs against their names, and what a save refers to is computed from its
 * records. What has been verified goes to `bring-in.ts`, session by session.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { checkBodies, type KnownBlob, knowBlob } from "../../core/journal/blob-body.js";
import {
  begunAt,
  follow,
  type LineEnd,
  originEnd,
  rootEnd,
  unknownEnd,
} from "../../core/journal/follow.js";
import { open } from "../../core/journal/open-save.js";
import type { Base } from "../../core/journal/record.js";
import type { Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { Blob } from "../../core/messages/message.js";
import { emptyOutline, type Outline, outlineAfter } from "../../core/transfer/outline.js";
import {
  type AgentText,
  badRow,
  endedEarly,
  type LeftOut,
  type LetterText,
  type LineText,
  notAnExport,
  Parts,
  RowReader,
  RowSplitter,
  type SessionText,
  type TransferRow,
} from "../../core/transfer/transfer.js";
import type { Digest } from "../../core/values/digest.js";
import { type ErrorCode, HoldfastError, quote } from "../../core/values/errors.js";
import { isInstance } from "../../core/values/given.js";
import {
  type LineId,
  type Place,
  placeId,
  type SessionId,
  typeName,
} from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import { IMPORTED } from "../../engine/calls/restored.js";
import { freeLines } from "../../engine/journal/cut-lines.js";
import type { Ground } from "../../engine/journal/ground.js";
import { agentFrom } from "../../engine/records/agent-record.js";
import { headOf } from "../../engine/records/rows.js";
import { breatheNowAndThen } from "../../engine/util/breathe.js";
import { callback, flag, invalid, options, signalOf } from "../../engine/util/options.js";
import type { NewLine } from "../../store/port/rows.js";
import { Again, BringIn, type Brought, type Outcome, Refused, type Target } from "./bring-in.js";
import type { TransferProgress } from "./export.js";
import { headFrom, labelFrom, lettersFrom, lineFrom } from "./foreign-rows.js";

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

export interface ImportReport {
  /**
   * In the order in which they came. A known one was there already, the same or further on, and
   * stays as it is.
   */
  readonly sessions: readonly { readonly id: string; readonly outcome: "imported" | "known" }[];
  /**
   * Agents whose records came. One that was known is the same here; one that was `kept` is another
   * here, and stays as it is.
   */
  readonly agents: readonly {
    readonly id: string;
    readonly outcome: "imported" | "known" | "kept";
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
 * The blobs of one save are kept until it has come. A forged stream could send blobs without end,
 * and no save.
 */
const MAX_BLOB_BYTES = 2 * 1024 * 1024 * 1024;
/**
 * How many places are remembered that later lines may begin at. Others are looked for in the
 * target.
 */
const PLACES = 50_000;
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
  ground: Ground,
  rows: ExportedRows,
  given: ImportOptions | undefined,
): Promise<ImportReport> {
  ground.usable();
  const o = options(given, "import", ["signal", "onProgress", "dryRun", "moved"]);
  const signal = signalOf(o.signal);
  const pieces = piecesOf(rows);
  const pinned = new Set<string>();
  ground.imports.add(pinned);
  try {
    const came = new Map<Digest, KnownBlob>();
    const incarnation = flag(o.moved, "moved") ? await ground.learnIncarnation() : IMPORTED;
    const dryRun = flag(o.dryRun, "dryRun") ?? false;
    const wrote = { saves: 0, blobs: 0 };
    const target: Target = {
      ground,
      dryRun,
      incarnation,
      came,
      pinned,
      wrote,
      origins: new Map(),
      stale: new Map(),
    };
    return await new Import(target, came, signal, callback(o.onProgress, "onProgress")).run(pieces);
  } finally {
    ground.imports.delete(pinned);
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

/** A line as far as it has come. */
interface Come {
  readonly line: NewLine;
  readonly of: SessionId | null;
  readonly end: LineEnd;
  /** Undefined where its beginning came too long ago to be remembered: a load tells. */
  readonly outline: Outline | undefined;
}

/** A place at which lines may begin. */
type Beginning = Pick<Come, "end" | "outline">;

/** All that came since the last session: it counts once its session's row has come. */
class Unit {
  readonly lines = new Map<LineId, Come>();
  readonly parts = new Parts();
  blobs: Blob[] = [];
  blobBytes = 0;
  current: LineId | undefined;
  own: SessionId | undefined;
  into: BringIn;
  /**
   * What came, to be brought in again where others disturb it; undefined where that is too much to
   * keep.
   */
  replay: Brought[] | undefined = [];
  replayBytes = 0;
  tries = 1;
  failure: Refused | undefined;
  constructor(target: Target) {
    this.into = new BringIn(target);
  }
}

class Import {
  readonly #target: Target;
  readonly #blobs: Map<Digest, KnownBlob>;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: ((progress: TransferProgress) => void) | undefined;
  readonly #splitter = new RowSplitter();
  readonly #reader = new RowReader();
  readonly #lines = new Map<LineId, Come>();
  /** Checkpoints that came, oldest first, as places at which lines may begin. */
  readonly #places = new Map<string, Beginning>();
  #unit: Unit;
  readonly #sessions: { readonly id: string; readonly outcome: Outcome }[] = [];
  readonly #conflicts: {
    readonly id: string;
    readonly code: ErrorCode;
    readonly message: string;
  }[] = [];
  readonly #leftOut: LeftOut[] = [];
  readonly #agents: { readonly id: string; readonly outcome: "imported" | "known" | "kept" }[] = [];
  readonly #agentIds = new Set<string>();
  /** Lines of sessions that were refused: what no other needs of them is freed at the end. */
  readonly #needless = new Set<LineId>();
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
    this.#blobs = blobs;
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
    if (!this.#target.dryRun) await freeLines(this.#target.ground, [...this.#needless]);
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
    await breatheNowAndThen();
    const row = this.#reader.read(text);
    let brought: Brought | undefined;
    try {
      brought = await this.#verified(row);
    } catch (error) {
      throw this.#damage(error);
    }
    if (brought !== undefined) await this.#bring(brought);
    if (!("session" in row)) return;
    if (this.#unit.failure === undefined && row.letters !== undefined)
      await this.#post(row.session, row.letters);
    this.#done(row);
  }

  /** Whatever cannot be is damage of its row, also where reading it stumbled. */
  #damage(error: unknown): unknown {
    const { rows } = this.#reader;
    if (!(error instanceof HoldfastError)) return badRow(rows, "holds what cannot be read", error);
    if (error.details.row === rows || !DAMAGE.has(error.code)) return error;
    return badRow(rows, `cannot be: ${error.message.replace(/\.( .*)?$/s, "")}`, error);
  }

  // ---- verifying

  async #verified(row: TransferRow): Promise<Brought | undefined> {
    const unit = this.#unit;
    if ("part" in row) {
      unit.parts.add(row);
      return undefined;
    }
    if ("blob" in row) {
      const bytes = unit.parts.blob(row);
      if (bytes === undefined) throw this.#bad(`does not hold the blob ${row.blob} that it says`);
      unit.blobBytes += bytes.length + ROW_BYTES;
      if (unit.blobBytes > MAX_BLOB_BYTES)
        throw this.#bad(
          `is one of too many blobs for one save: they come to more than ${MAX_BLOB_BYTES} bytes`,
        );
      this.#blobs.set(row.blob, knowBlob(bytes));
      unit.blobs.push({ digest: row.blob, bytes });
      return undefined;
    }
    if ("save" in row) return this.#save(row.save);
    if (!unit.parts.isEmpty || unit.blobs.length > 0)
      throw this.#bad("comes in the middle of a save");
    if ("line" in row) return this.#line(row);
    if ("session" in row) return this.#session(row);
    if ("agent" in row) await this.#agent(row);
    else if ("holdfast" in row) this.#of = row.sessions;
    else if ("again" in row) this.#unit = new Unit(this.#target);
    else if ("left" in row) {
      this.#leftOut.push({ id: row.left, code: row.code, message: row.message });
      for (const id of unit.into.loose) this.#needless.add(id);
      this.#unit = new Unit(this.#target);
    } else if (unit.lines.size > 0) throw this.#bad("ends the export in the middle of a session");
    return undefined;
  }

  #bad(why: string): HoldfastError {
    return badRow(this.#reader.rows, why);
  }

  #come(line: LineId): Come | undefined {
    return this.#unit.lines.get(line) ?? this.#lines.get(line);
  }

  async #line(row: LineText): Promise<Brought> {
    const unit = this.#unit;
    const line = { id: row.line, origin: row.origin, text: row.text };
    const doc = lineFrom(line);
    const before = this.#come(row.line);
    if (before !== undefined && (before.line.text !== row.text || before.of !== null))
      throw this.#bad("begins a line that came before");
    if (row.of !== null && row.of !== (unit.own ?? row.of))
      throw this.#bad("brings a line of another session");
    const root = { end: rootEnd(doc.prev), outline: emptyOutline };
    const { end, outline } =
      before ?? (row.origin === null ? root : await this.#origin(row.origin, doc.prev));
    if (row.after !== end.seq)
      throw this.#bad(`goes on behind ${row.after}, and its line is at ${end.seq}`);
    if (end.follows !== doc.prev && before === undefined)
      throw this.#bad("brings a line that does not follow what it begins at");
    unit.own ??= row.of ?? undefined;
    unit.current = row.line;
    unit.lines.set(row.line, { line, of: row.of, end, outline });
    return { line, doc, of: row.of, after: row.after };
  }

  /** Where a line begins. It must have come before: so no line can be in its own past. */
  async #origin(origin: Place, prev: Digest): Promise<Beginning> {
    const id = placeId(origin.line, origin.seq);
    if ((this.#come(origin.line)?.end.seq ?? 0) < origin.seq)
      throw this.#bad(`begins at ${id}, which has not come`);
    const known = this.#places.get(id);
    if (known !== undefined) return { ...known, end: begunAt(known.end) };
    // Longer ago than is remembered: the target has it, or refuses what begins there.
    const save = await this.#target.ground.journal.saves.holding(origin.line, origin.seq);
    const isIt = save?.seq === origin.seq && !isGap(save) && open(save, {}).digest === prev;
    return {
      end: isIt ? begunAt(originEnd(save, prev)) : unknownEnd(origin.seq, prev),
      outline: undefined,
    };
  }

  #save(row: Save): Brought {
    const unit = this.#unit;
    const save = unit.parts.save(row);
    if (save === undefined) throw this.#bad("does not fit the parts before it");
    const come = unit.current === undefined ? undefined : unit.lines.get(unit.current);
    if (come === undefined || save.line !== come.line.id)
      throw this.#bad("holds a save of a line that is not being brought");
    const { end, refs, lines, records } = follow(come.end, save);
    if (lines !== undefined && !this.#goesBackTo(come.line.origin, lines))
      throw this.#bad("holds a base that names a line to which its own does not go back");
    const { blobs } = unit;
    const named = new Set(refs);
    if (!blobs.every(({ digest }) => named.has(digest)))
      throw this.#bad("does not refer to the blobs before it");
    const missing = refs.find((name) => !this.#blobs.has(name));
    if (missing !== undefined) throw this.#bad(`refers to the blob ${missing}, which has not come`);
    const known = (name: Digest) => this.#blobs.get(name);
    for (const record of records) checkBodies(record, known);
    const outline = come.outline && outlineAfter(come.outline, save, records, known);
    if (outline === undefined && come.outline !== undefined)
      throw this.#bad("holds a save that cannot be loaded after what came before it");
    unit.blobs = [];
    unit.blobBytes = 0;
    unit.lines.set(save.line, { ...come, end, outline });
    if (save.mark !== null) {
      const oldest = this.#places.size >= PLACES ? this.#places.keys().next().value : undefined;
      if (oldest !== undefined) this.#places.delete(oldest);
      this.#places.set(placeId(save.line, save.seq), { end, outline });
    }
    this.#saves += 1;
    if (this.#saves % 200 === 0) this.#tell();
    return { save, refs, blobs };
  }

  /**
   * Whether stretches of lines, oldest first, are on the past of a place. A load believes what a
   * base says of them.
   */
  #goesBackTo(origin: Place | null, lines: NonNullable<Base["lines"]>): boolean {
    let left = lines.length;
    for (let place = origin; place !== null && left > 0; ) {
      const [line, from, to] = lines[left - 1] as (typeof lines)[number];
      const older: Place | null = this.#come(place.line)?.line.origin ?? null;
      if (line === place.line && from > (older?.seq ?? 0) && from <= to && to <= place.seq)
        left -= 1;
      place = older;
    }
    return left === 0;
  }

  #session(row: SessionText): Brought {
    const { session, on, lines } = row;
    const own = [...this.#unit.lines.values()]
      .filter(({ of }) => of === session)
      .map(({ line }) => line.id);
    const told = new Set(lines);
    if (
      this.#unit.own !== session ||
      own.length !== lines.length ||
      !own.every((id) => told.has(id))
    )
      throw this.#bad(`gives session ${quote(session)} other lines than came with it`);
    const { doc, row: head } = headFrom(
      session,
      row.head,
      row.goneOn ? IMPORTED : this.#target.incarnation,
    );
    const current = own.includes(on) && doc.line === on ? this.#unit.lines.get(on) : undefined;
    if (current === undefined)
      throw this.#bad(`puts session ${quote(session)} on a line that is not its own`);
    if (current.end.status !== undefined && current.end.status !== doc.status)
      throw this.#bad(
        `says that session ${quote(session)} is ${doc.status}, and its journal says ${current.end.status}`,
      );
    if (current.outline?.isWhole === false)
      throw this.#bad(`ends session ${quote(session)} where it cannot be loaded`);
    lettersFrom(session, row.letters ?? []);
    return { session, head, label: labelFrom(session, row.label) };
  }

  async #agent({ agent, text }: AgentText): Promise<void> {
    if (this.#unit.lines.size > 0 || this.#agentIds.has(agent))
      throw this.#bad("is not where it belongs");
    this.#agentIds.add(agent);
    const change = agentFrom(agent, text);
    const { ground, dryRun } = this.#target;
    for (;;) {
      const there = await ground.store.doc(change.kind, agent);
      const outcome = there === undefined ? "imported" : there.text === text ? "known" : "kept";
      if (outcome === "imported" && !dryRun && !(await ground.store.apply([], [change])).ok)
        continue;
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
        unit.into = new BringIn(this.#target);
        todo = unit.replay ?? [];
        await sleep(Math.random() * 5 * unit.tries);
      }
    }
  }

  /** Posts what became of open calls to a session that was not opened here since it came. */
  async #post(session: SessionId, letters: readonly LetterText[]): Promise<void> {
    const { ground, dryRun } = this.#target;
    const row = dryRun ? undefined : await ground.store.session(session);
    if (row === undefined || headOf(row).incarnation !== IMPORTED) return;
    for (const { id, doc } of lettersFrom(session, letters))
      await ground.tryPost(session, doc, { id });
  }

  #done({ session }: SessionText): void {
    const unit = this.#unit;
    if (unit.failure !== undefined) {
      const { code, message } = unit.failure;
      this.#conflicts.push({ id: session, code, message });
      // What was disturbed is gone on with the next time; what was refused is only needed by forks.
      if (code !== "BUSY") for (const id of unit.into.loose) this.#needless.add(id);
    }
    for (const [id, come] of unit.lines) this.#lines.set(id, come);
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
