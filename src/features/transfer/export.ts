/**
 * Sessions as one stream of rows (core/transfer says how it looks). Everything is verified on the
 * way out, read in pages, and each session is shown as it was at one moment, however it goes on
 * meanwhile.
 *
 * What is remembered while the stream lasts are ids of branches and names of blobs, so that each
 * goes out once; never what they hold.
 */
import {
  type BranchEnd,
  begunAt,
  checkChain,
  forkPointEnd,
  rootEnd,
} from "../../core/journal/chain-check.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import {
  type AgentText,
  blobRows,
  firstRow,
  isSession,
  type LeftOut,
  RowWriter,
  saveRows,
  type TransferRow,
} from "../../core/transfer/export-format.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  checkName,
  checkpointPlace,
  type Place,
  placeId,
  type SessionId,
  sessionId,
} from "../../core/values/ids.js";
import { textBytes } from "../../core/values/json.js";
import { lost } from "../../engine/journal/past.js";
import { redactionsOf } from "../../engine/journal/redaction-memory.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { hole } from "../../engine/journal/walk.js";
import { takeInWhatIsLeft } from "../../engine/lifecycle/deliver-inbox.js";
import { agentOf } from "../../engine/records/agent-record.js";
import { documents } from "../../engine/records/documents.js";
import { branchOf, headOf, headRow, labelOf, rootDigest } from "../../engine/records/rows.js";
import { sessionRows } from "../../engine/records/session-rows.js";
import { noSession, notFound } from "../../engine/util/not-found.js";
import { callback, invalid, options, scopeOf, signalOf } from "../../engine/util/validate.js";
import { yieldNowAndThen, yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { AGENT, type DocRow, REDACTED } from "../../store/port/documents.js";
import type { BranchRow, SessionRow } from "../../store/port/rows.js";
import { type Moment, momentAt } from "./export-checkpoint.js";

/**
 * One session, those of an agent, a session as it was at one of its checkpoints, or, with none of
 * them, all.
 */
export interface ExportFilter {
  readonly session?: string;
  readonly agent?: string;
  /**
   * The session that owns this checkpoint, as it was there: without what came after, its other
   * branches, and its forks.
   */
  readonly checkpoint?: string;
}

export interface TransferProgress {
  /** Sessions that are done. */
  readonly sessions: number;
  readonly saves: number;
  readonly bytes: number;
  /** How many sessions there are in all. */
  readonly of: number;
}

export interface ExportOptions {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: TransferProgress) => void;
  /**
   * Told of each session that could not be exported; the stream names it too, and goes on with the
   * others. Without this function the stream ends with an error, after its last row, that names
   * them.
   */
  readonly onLeftOut?: (left: LeftOut) => void;
}

const BRANCHES = 256;
const MOST_ROWS = 200;
/** What a page of saves should hold, more or less. */
const PAGE_BYTES = 4 * 1024 * 1024;
/**
 * How often a session is begun again that was pruned while it was read, and one that seems damaged:
 * it may only have changed.
 */
const TRIES = { BUSY: 5, CORRUPT: 2 };

export async function* exportRows(
  ctx: StoreContext,
  filter: ExportFilter | undefined,
  given: ExportOptions | undefined,
): AsyncGenerator<string> {
  const fields = options(filter, "export", ["session", "agent", "checkpoint"]);
  const [session, agent, checkpoint] = [
    scopeOf(fields, "session"),
    scopeOf(fields, "agent"),
    scopeOf(fields, "checkpoint"),
  ];
  const o = options(given, "export", ["signal", "onProgress", "onLeftOut"]);
  if ([session, agent, checkpoint].filter((one) => one !== undefined).length > 1)
    throw invalid("export", "it takes one of a session, an agent and a checkpoint");
  const signal = signalOf(o.signal);
  const onProgress = callback(o.onProgress, "onProgress");
  const onLeftOut = callback(o.onLeftOut, "onLeftOut");
  const only = session === undefined ? undefined : sessionId(session);
  await ctx.takeInPosted();
  if (only !== undefined && (await ctx.store.session(only)).row === undefined)
    throw noSession(only);
  if (checkpoint !== undefined) {
    const place = checkpointPlace(checkpoint);
    const found = place && (await ctx.journal.checkpointAt(place));
    if (found === undefined) throw notFound(checkpoint);
    yield* new Export(
      ctx,
      [found.checkpoint.sessionId],
      { signal, onProgress, onLeftOut },
      place,
    ).rows([]);
    return;
  }
  const whose = agent === undefined ? undefined : checkName(agent, "agent");
  const ids = only === undefined ? await idsOf(ctx, whose) : [only];
  const agents = only === undefined ? await agentsOf(ctx, whose) : [];
  yield* new Export(ctx, ids, { signal, onProgress, onLeftOut }).rows(agents);
}

/** Records of agents, oldest first. One that is damaged stays behind: `verify` names it. */
async function agentsOf(
  { store }: StoreContext,
  only: string | undefined,
): Promise<readonly AgentText[]> {
  const texts: AgentText[] = [];
  const add = (row: DocRow) => {
    try {
      texts.push({ agent: agentOf(row).id, text: row.text });
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
    }
  };
  if (only !== undefined) {
    const row = await documentsOf(store).get(AGENT, only);
    if (row !== undefined) add(row);
    return texts;
  }
  for await (const row of documents(store, { kind: AGENT })) add(row);
  return texts.reverse();
}

/** Oldest first: a fork comes after the session it began on. */
async function idsOf(
  { store }: StoreContext,
  agent: string | undefined,
): Promise<readonly SessionId[]> {
  const ids: SessionId[] = [];
  for await (const { id } of sessionRows(store, { agent })) {
    ids.push(id as SessionId);
    await yieldNowAndThen();
  }
  return ids.reverse();
}

interface Hearers {
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((progress: TransferProgress) => void) | undefined;
  readonly onLeftOut: ((left: LeftOut) => void) | undefined;
}

/** How far a branch has gone out, and as whose. */
interface Sent {
  readonly of: SessionId | null;
  readonly end: BranchEnd;
}

class Export {
  readonly #ctx: StoreContext;
  readonly #ids: readonly SessionId[];
  readonly #hearers: Hearers;
  /** The checkpoint at which the session is exported; its end where there is none. */
  readonly #at: Place | undefined;
  readonly #writer = new RowWriter();
  #branches = new Map<string, Sent>();
  #blobs = new Set<Digest>();
  /** What went out since the last session: it is void if that is begun again. */
  #newBranches = new Map<string, Sent>();
  #newBlobs = new Set<Digest>();
  readonly #leftOut: LeftOut[] = [];
  #sessions = 0;
  #saves = 0;
  #pageRows = 16;
  /** Whether something was ever redacted in this store. */
  #isRedacted = false;

  constructor(ctx: StoreContext, ids: readonly SessionId[], hearers: Hearers, at?: Place) {
    this.#at = at;
    this.#ctx = ctx;
    this.#ids = ids;
    this.#hearers = hearers;
  }

  async *rows(agents: readonly AgentText[]): AsyncGenerator<string> {
    const [redacted] = await documentsOf(this.#ctx.store).list({ kind: REDACTED, limit: 1 });
    this.#isRedacted = redacted !== undefined;
    yield this.#writer.write(firstRow(this.#ids.length));
    for (const agent of agents) yield this.#writer.write(agent);
    for (const id of this.#ids) {
      for await (const row of this.#tries(id)) yield this.#writer.write(row);
      this.#tell();
    }
    yield this.#writer.write({ end: { rows: this.#writer.rows + 1, sessions: this.#sessions } });
    this.#tell();
    if (this.#leftOut.length > 0 && this.#hearers.onLeftOut === undefined)
      throw incomplete(this.#leftOut);
  }

  #tell(): void {
    this.#hearers.signal?.throwIfAborted();
    this.#hearers.onProgress?.({
      sessions: this.#sessions,
      saves: this.#saves,
      bytes: this.#writer.bytes,
      of: this.#ids.length,
    });
  }

  async *#tries(id: SessionId): AsyncGenerator<TransferRow> {
    // Damage has taken its name: it cannot be looked up, and no row can name it.
    if (!isSession(id))
      return this.#leave({
        id,
        code: "CORRUPT",
        message: "The row of a session is damaged. Run verify.",
      });
    // Inbox messages do not travel. What another process has just sent comes along, if the session
    // can be opened.
    await takeInWhatIsLeft(this.#ctx, id);
    for (let tries = 1; ; tries++) {
      try {
        yield* this.#session(id);
        for (const [branch, sent] of this.#newBranches) this.#branches.set(branch, sent);
        for (const name of this.#newBlobs) this.#blobs.add(name);
        this.#forget();
        return;
      } catch (error) {
        if (
          !(error instanceof HoldfastError) ||
          (error.code !== "CORRUPT" && error.code !== "BUSY")
        )
          throw error;
        this.#forget();
        const isThere = (await this.#ctx.store.session(id)).row !== undefined;
        if (isThere && tries >= TRIES[error.code]) {
          const message = error.message.slice(0, 1_000).toWellFormed();
          this.#leave({ id, code: error.code, message });
          yield { left: id, code: error.code, message };
          return;
        }
        yield { again: id };
        // Deleted meanwhile: then it is not there to be exported.
        if (!isThere) return;
      }
    }
  }

  #leave(left: LeftOut): void {
    this.#leftOut.push(Object.freeze(left));
    this.#hearers.onLeftOut?.(left);
  }

  #forget(): void {
    this.#newBranches = new Map();
    this.#newBlobs = new Set();
  }

  async *#session(id: SessionId): AsyncGenerator<TransferRow> {
    const moment =
      this.#at === undefined ? await this.#moment(id) : await momentAt(this.#ctx, this.#at);
    if (moment === undefined) return;
    const { session, branches } = moment;
    for (const branch of branches) {
      yield* this.#past(branch.row);
      yield* this.#branch(branch.row, id, branch.to);
    }
    yield { ...session, branches: branches.map((branch) => branch.row.id) };
    this.#sessions += 1;
  }

  /**
   * What the session is at one moment: its row, and where each of its branches ends. Only the
   * branch it is on can grow, so if it is on the same one before and after the others were looked
   * at, they ended there all the while.
   */
  async #moment(id: SessionId): Promise<Moment | undefined> {
    const { journal, store } = this.#ctx;
    for (;;) {
      const present = await journal.present(id);
      if (present === undefined) return undefined;
      labelOf(present.row);
      const branches: { readonly row: BranchRow; readonly to: number }[] = [];
      for (const row of (await store.branches({ kind: "session", session: id })).toReversed()) {
        const end = row.id === present.head.branch ? present.tail : await journal.tail(row.id);
        branches.push({ row, to: end?.save.seq ?? row.forkPoint?.seq ?? 0 });
      }
      const after = (await store.session(id)).row;
      if (after === undefined) return undefined;
      if (after.head.text === present.row.head.text) {
        if (!branches.some(({ row }) => row.id === present.head.branch))
          throw new HoldfastError(
            "CORRUPT",
            `Session ${quote(id)} is on a branch that is not its own.`,
            { sessionId: id },
          );
        const { row, head } = present;
        return {
          session: {
            session: id,
            on: head.branch,
            head: withoutGeneration(row),
            label: row.label.text,
          },
          branches,
        };
      }
      await yieldToEventLoop();
      this.#hearers.signal?.throwIfAborted();
    }
  }

  // ---- branches

  /** What a branch goes back to, oldest first, as far as it has not gone out yet. */
  async *#past(branch: BranchRow): AsyncGenerator<TransferRow> {
    const shared: { readonly row: BranchRow; readonly to: number }[] = [];
    let place: Place | null = branch.forkPoint;
    let rows: readonly BranchRow[] = [];
    for (; place !== null && !this.#has(place); ) {
      if (rows.length === 0)
        rows = await this.#ctx.store.branches({ kind: "past", id: place.branch, limit: BRANCHES });
      const [row, ...rest] = rows;
      if (row?.id !== place.branch || (row.forkPoint !== null && row.forkPoint.seq >= place.seq))
        throw lost(place.branch);
      shared.push({ row, to: place.seq });
      place = row.forkPoint;
      rows = rest;
    }
    for (const { row, to } of shared.toReversed()) yield* this.#branch(row, null, to);
  }

  #sent(branch: string): Sent | undefined {
    return this.#newBranches.get(branch) ?? this.#branches.get(branch);
  }

  #has({ branch, seq }: Place): boolean {
    return (this.#sent(branch)?.end.seq ?? 0) >= seq;
  }

  async *#branch(row: BranchRow, of: SessionId | null, to: number): AsyncGenerator<TransferRow> {
    const sent = this.#sent(row.id);
    // It went out with its session, as it was then: what is wanted of it now was added since, and
    // begun on by another of the same name.
    if (sent !== undefined && (sent.of !== null || sent.end.seq > to)) throw changed(row, to);
    let end = sent?.end ?? (await this.#beginning(row));
    const redacted = this.#isRedacted ? await redactionsOf(this.#ctx, row.id) : [];
    yield {
      branch: row.id,
      of,
      forkPoint: row.forkPoint,
      after: end.seq,
      text: row.text,
      ...(redacted.length > 0 && { redacted }),
    };
    const missing = { branch: row.id, from: end.seq + 1, to };
    // `follow` checks more than a walk does, and tells what was pruned meanwhile from damage.
    for await (const saves of this.#ctx.journal.saves.pages(missing, {
      items: true,
      state: true,
      rows: () => this.#pageRows,
    })) {
      let bytes = 0;
      for (const save of saves) {
        // A gap that reaches over what has been read: the branch was pruned in between.
        if (save.seq > to || (firstSeq(save) <= end.seq && isGap(save))) throw changed(row, to);
        const followed = checkChain(end, save);
        for (const name of followed.refs) yield* this.#blob(name);
        yield* saveRows(save);
        end = followed.end;
        bytes += bytesOf(save);
        this.#saves += 1;
      }
      this.#pageRows = Math.max(
        1,
        Math.min(MOST_ROWS, Math.floor((PAGE_BYTES * saves.length) / Math.max(1, bytes))),
      );
      this.#tell();
    }
    if (end.seq < to) throw hole(row.id, end.seq + 1);
    this.#newBranches.set(row.id, { of, end });
  }

  async #beginning(row: BranchRow): Promise<BranchEnd> {
    const { id, forkPoint, prev } = branchOf(row);
    if (forkPoint === null && prev === rootDigest(id)) return rootEnd(prev);
    const found = forkPoint === null ? undefined : await this.#ctx.journal.saveAt(forkPoint);
    if (found === undefined || found.digest !== prev)
      throw new HoldfastError("CORRUPT", `Branch ${id} does not follow what it begins at.`, {
        branch: id,
        seq: forkPoint?.seq ?? 0,
      });
    return begunAt(forkPointEnd(found.save, found.digest));
  }

  async *#blob(name: Digest): AsyncGenerator<TransferRow> {
    if (this.#blobs.has(name) || this.#newBlobs.has(name)) return;
    yield* blobRows(name, await this.#ctx.journal.blob(name));
    this.#newBlobs.add(name);
  }
}

const bytesOf = ({ items, state, mark }: Save): number =>
  textBytes(items) + textBytes(state) + textBytes(mark);

function changed({ id, session }: BranchRow, to: number): HoldfastError {
  return new HoldfastError(
    "BUSY",
    `The past up to ${placeId(id, to)} was changed while it was exported. Export it again.`,
    {
      branch: id,
      ...(session === null ? undefined : { sessionId: session }),
    },
  );
}

function incomplete(left: readonly LeftOut[]): HoldfastError {
  const named = left.slice(0, 10).map(({ id }) => quote(id));
  const more = left.length > named.length ? ` and ${left.length - named.length} more` : "";
  const [first] = left as readonly [LeftOut, ...LeftOut[]];
  return new HoldfastError(
    first.code,
    `The export is complete but for ${left.length === 1 ? "session" : "sessions"} ${named.join(", ")}${more}, left out because of this: ${first.message} All the others can be imported. Pass onLeftOut to be told instead of this error.`,
    { sessionId: first.id },
  );
}

/** The head as it stands but for what concerns this store alone. */
function withoutGeneration(row: SessionRow): string {
  const { generation, ...head } = headOf(row);
  return generation === undefined ? row.head.text : headRow(head).text;
}
