/** Looking at sessions, and changing what stands outside their journals. Needs no lease. */
import { checkText, MAX_REASON } from "../core/journal/checkpoint.js";
import { checkName, checkpointPlace, type SessionId, sessionId } from "../core/values/ids.js";
import { encode, type Json, type JsonObject } from "../core/values/json.js";
import { once } from "../engine/journal/receipts.js";
import type { StoreContext } from "../engine/journal/store-context.js";
import { cancelSession } from "../engine/lifecycle/deliver-inbox.js";
import { fork } from "../engine/lifecycle/fork-session.js";
import {
  type OutsideOptions,
  rewindFromOutside,
  switchFromOutside,
} from "../engine/lifecycle/one-shot-rewind.js";
import { readState, type StateThere, stateThere } from "../engine/lifecycle/read-state.js";
import { checkPolicy, type RewindOptions, type RewindReport } from "../engine/lifecycle/rewind.js";
import type { ForkOptions } from "../engine/lifecycle/session.js";
import { drawId, idOrDrawn } from "../engine/lifecycle/session-ids.js";
import {
  getSession,
  type SessionSummary,
  summaryAt,
  summaryOf,
} from "../engine/lifecycle/session-summary.js";
import type { SessionUpdate } from "../engine/records/rows.js";
import { isThere } from "../engine/records/tolerate-damage.js";
import type { GivenMessages } from "../engine/session/given-messages.js";
import { noSession, notFound } from "../engine/util/not-found.js";
import { type KeyOptions, limitOf, options, type PageOptions } from "../engine/util/validate.js";
import {
  type AppendOptions,
  type AppendReport,
  appendTo,
} from "../features/conversations/append.js";
import {
  type DeleteOptions,
  type DeleteReport,
  deleteSession,
} from "../features/conversations/delete-session.js";
import { type EventOptions, follow, type SessionEvent } from "../features/conversations/events.js";
import {
  forksOf,
  listSessions,
  type SessionFilter,
  type SessionPage,
} from "../features/conversations/list-sessions.js";
import {
  type ReplaceOptions,
  type ReplaceReport,
  replaceIn,
} from "../features/conversations/replace.js";
import type { Signals } from "../features/conversations/signals.js";
import { type TranscriptOptions, transcriptOf } from "../features/conversations/transcripts.js";
import { type UpdateOptions, updateSession } from "../features/conversations/update-session.js";
import type { RedactWhat } from "../features/redaction/matcher.js";
import { type RedactOptions, redactSession } from "../features/redaction/redact.js";
import type { RedactReport } from "../features/redaction/report.js";
import type { SearchFilter, SearchPage } from "../features/search/find.js";
import type { IndexOptions, IndexReport, Search } from "../features/search/search.js";
import type { Format, Transcript } from "../formats/transcript.js";

/** At which place a state is wanted. */
export interface StateOptions {
  /** A checkpoint of the session; its end by default. */
  readonly at?: string;
}

/** What a session holds at a place in its history. */
export interface SessionState extends StateThere {
  readonly session: SessionSummary;
}

/** The parts of an open store that more than its sessions use. */
interface Parts {
  readonly search: Search;
  readonly signals: Signals;
  /** Aborts when the store is closed. */
  readonly closing: AbortSignal;
}

/**
 * All sessions of a store: list, read, search, change, fork and rewind them. No call needs a lease.
 */
export class Sessions {
  readonly #ctx: StoreContext;
  readonly #search: Search;
  readonly #signals: Signals;
  readonly #closing: AbortSignal;

  constructor(ctx: StoreContext, { search, signals, closing }: Parts) {
    this.#ctx = ctx;
    this.#search = search;
    this.#signals = signals;
    this.#closing = closing;
  }

  /**
   * Find messages and titles that hold all the given words, the best first.
   * `refund order`, `"these in a row"`, `-without`, `begin*`. Case and accents do not count, in any
   * script.
   *
   * @example
   * const { items } = await hold.sessions.search('refund "order 42" -test', { agent: "support" });
   */
  search(words: string, filter?: SearchFilter): Promise<SearchPage> {
    return this.#search.find(words, filter);
  }

  /**
   * Bring the index for search up to date, or make it anew.
   * A store without an index has nothing to do.
   *
   * @example
   * await hold.sessions.index({ rebuild: true, onProgress: ({ behind }) => console.log(behind) });
   */
  index(o?: IndexOptions): Promise<IndexReport> {
    return this.#search.bring(o);
  }

  /**
   * Read a session's summary: its status, title, tags and metadata.
   *
   * @example
   * const summary = await hold.sessions.get("order-42");
   * console.log(summary?.status, summary?.title);
   */
  get(id: string): Promise<SessionSummary | undefined> {
    return getSession(this.#ctx, id);
  }

  /**
   * Tell whether there is such a session, without loading it.
   * A damaged one counts as there.
   *
   * @example
   * if (!(await hold.sessions.has("order-42"))) console.log("No such order.");
   */
  async has(id: string): Promise<boolean> {
    const known = sessionId(id);
    return isThere(async () => (await this.#ctx.store.session(known)).row);
  }

  /**
   * List ids that begin with a text, in the order of their bytes: 20, or `limit`.
   *
   * @example
   * const ids = await hold.sessions.ids("order-", { limit: 100 });
   */
  async ids(beginning: string, o?: Pick<PageOptions, "limit">): Promise<readonly SessionId[]> {
    const { limit } = options(o, "sessions.ids", ["limit"]);
    if (beginning !== "") checkName(beginning, "the beginning of an id");
    const query = { beginning, limit: limitOf(limit, "limit") };
    return (await this.#ctx.store.sessions(query)).map(({ id }) => id as SessionId);
  }

  /**
   * List the sessions that were forked from this one, newest first: 20, or `limit`.
   * A damaged one is named apart.
   *
   * @example
   * const { items } = await hold.sessions.forks("order-42");
   */
  forks(id: string, o?: Pick<PageOptions, "limit">): Promise<Omit<SessionPage, "next">> {
    return forksOf(this.#ctx, id, o);
  }

  /**
   * Load and verify a session's state, at its end or at one of its checkpoints.
   *
   * @example
   * const { messages, state } = await hold.sessions.state("order-42");
   */
  async state(id: string, o?: StateOptions): Promise<SessionState> {
    const { at } = options(o, "sessions.state", ["at"]);
    const { present, ...there } = await readState(this.#ctx, sessionId(id), at);
    return {
      session: await summaryAt(this.#ctx, present),
      ...(await stateThere(this.#ctx, present.head.id, there)),
    };
  }

  /**
   * List sessions, newest first.
   * A damaged session does not hide the others: the answer names it apart.
   *
   * @example
   * const { items, next } = await hold.sessions.list({ agent: "support", status: "waiting" });
   */
  list(filter?: SessionFilter): Promise<SessionPage> {
    return listSessions(this.#ctx, filter);
  }

  /**
   * Change a session's title, tags, metadata, or whether it is archived.
   * Fields that are not given stay as they are.
   *
   * @example
   * await hold.sessions.update("order-42", { title: "Broken teapot", tags: ["refund"] });
   */
  update(id: string, update: SessionUpdate, given?: UpdateOptions): Promise<SessionSummary> {
    return updateSession(this.#ctx, id, update, given);
  }

  /**
   * Read the messages of a session in the format of a provider, verified.
   * It gives the end of the session, or a checkpoint. You can hand `messages` to that provider.
   * `remainder` holds what its format cannot say. `M` is the provider's own type for a message.
   *
   * @example
   * const { messages, remainder } = await hold.sessions.transcript("chat-1", { format: "openai" });
   */
  transcript<M = JsonObject, const F extends Format = Format>(
    id: string,
    o: TranscriptOptions<F>,
  ): Promise<Transcript<M, F>> {
    return transcriptOf<M, F>(this.#ctx, id, o);
  }

  /**
   * Append messages, or a transcript in a provider's format, without holding the session.
   * They are one save, never come between a call and its answer, and begin no turn. A process that
   * holds the session takes them in between its steps.
   *
   * @example
   * await hold.sessions.append("chat-1", [{ role: "user", content: "hi" }], { key: "message-17" });
   */
  append(id: string, messages: GivenMessages, o?: AppendOptions): Promise<AppendReport> {
    return appendTo(this.#ctx, id, messages, o);
  }

  /**
   * Put messages in the place of all messages, or of a range.
   * An empty list removes them. `version` says which transcript the caller has seen: if there is
   * another by now, that is a CONFLICT. The history keeps the messages of before.
   *
   * @example
   * const { messages } = await hold.sessions.state("chat-1");
   * await hold.sessions.replace("chat-1", [], { version: transcriptVersion(messages) });
   */
  replace(id: string, messages: GivenMessages, o: ReplaceOptions): Promise<ReplaceReport> {
    return replaceIn(this.#ctx, id, messages, o);
  }

  /**
   * Delete a session, and those that its calls ran.
   * Parts that forks share, and parts that snapshots point at, are kept for these: the answer names
   * both, and counts what went. If there is no such session, the answer says so; it is no error.
   *
   * @example
   * const { deleted, keptFor } = await hold.sessions.delete("order-42");
   */
  delete(id: string, o?: DeleteOptions): Promise<DeleteReport> {
    return deleteSession(this.#ctx, id, o);
  }

  /**
   * Remove a text from a session, and from the store's files.
   * It goes from every record of the past, and from all that these refer to. The records keep their
   * places, and verify. The answer says what could not be removed, and who else shares what was
   * changed.
   *
   * @example
   * const report = await hold.sessions.redact("order-42", "ana@example.com");
   */
  redact(id: string, what: RedactWhat, o?: RedactOptions): Promise<RedactReport> {
    return redactSession(this.#ctx, id, what, o);
  }

  // ---- another place in its history

  /**
   * Make a session that begins at a checkpoint.
   * Nothing is copied, and the session is not open. Without an id, it gets a new one.
   *
   * @example
   * const { id } = await hold.sessions.fork("7k3fa1b2c4d5e6f7-12", { id: "order-42-again" });
   */
  async fork(at: string, o?: ForkOptions & KeyOptions): Promise<SessionSummary> {
    this.#ctx.usable();
    const fields = options(o, "sessions.fork", ["id", "effects", "key"]);
    const { effects, key } = fields;
    const id = idOrDrawn(fields, "id", () => drawId(this.#ctx, "fork", key));
    const policy = checkPolicy(effects);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    return once<string, SessionSummary>(
      this.#ctx,
      { key, name: "fork", to: id, args: { at, effects: policy } },
      async (receipt) => {
        const { head, label } = await fork(this.#ctx, place, id, policy, receipt);
        return summaryOf(head, label);
      },
      async (made) => (await this.get(made)) ?? Promise.reject(noSession(made as SessionId)),
    );
  }

  /**
   * Put a session that no process holds back to one of its checkpoints, on a new branch.
   * The old branch keeps what came after. The answer names the calls that had already been made.
   *
   * @example
   * const { before, passed } = await hold.sessions.rewind("order-42", "7k3fa1b2c4d5e6f7-12");
   * if (before !== undefined) await hold.sessions.switchBranch("order-42", before);
   */
  rewind(id: string, at: string, o?: RewindOptions & OutsideOptions): Promise<RewindReport> {
    return rewindFromOutside(this.#ctx, id, at, o);
  }

  /**
   * Switch a session back to a branch that it has left, at the branch's end.
   * Name any checkpoint of that branch.
   *
   * @example
   * await hold.sessions.switchBranch("order-42", "7k3fa1b2c4d5e6f7-20");
   */
  switchBranch(id: string, at: string, o?: Omit<OutsideOptions, "key">): Promise<void> {
    return switchFromOutside(this.#ctx, id, at, o);
  }

  // ---- while it runs

  /**
   * Read what happened in a session, from the beginning or a cursor on, and then live.
   * It follows other processes, too, and ends when the session is deleted.
   *
   * @example
   * for await (const event of hold.sessions.events("order-42")) console.log(event.type);
   */
  events(id: string, o?: EventOptions): AsyncIterable<SessionEvent> {
    return follow(this.#ctx, id, o, this.#closing);
  }

  /**
   * Stop a session, also one that another process holds.
   * The holder learns of it at its next save or heartbeat. If there is no holder, it is done here.
   *
   * @example
   * await hold.sessions.cancel("order-42", "The customer changed their mind.");
   */
  async cancel(id: string, reason = "cancelled"): Promise<void> {
    await cancelSession(this.#ctx, sessionId(id), checkText(reason, "reason", MAX_REASON));
  }

  /**
   * Give a value to the tool of a session that waits for it by name (`ctx.wait`), or will.
   * The same key is the same signal.
   *
   * @example
   * await hold.sessions.signal("order-42", "shipped", { parcel: "X1" }, { key: "shipment-9" });
   */
  async signal(id: string, name: string, value: Json, o?: KeyOptions): Promise<void> {
    const { key } = options(o, "sessions.signal", ["key"]);
    const session = sessionId(id);
    const doc = {
      kind: "signal",
      name: checkName(name, "signal name"),
      value: encode(value, "signal").value,
    } as const;
    await this.#signals.send(session, doc, key === undefined ? undefined : checkName(key, "key"));
  }
}
