/** Looking at sessions, and changing what stands outside their journals. Needs no lease. */
import { checkText, MAX_REASON } from "../core/journal/checkpoint.js";
import { checkName, checkpointPlace, type SessionId, sessionId } from "../core/values/ids.js";
import { encode, type Json, type JsonObject } from "../core/values/json.js";
import type { Ground } from "../engine/journal/ground.js";
import { once } from "../engine/journal/receipts.js";
import { fork } from "../engine/lifecycle/fork-session.js";
import { checkPolicy, type RewindOptions, type RewindReport } from "../engine/lifecycle/lines.js";
import { look, type StateThere, stateThere } from "../engine/lifecycle/look.js";
import { cancelSession } from "../engine/lifecycle/outside.js";
import type { ForkOptions } from "../engine/lifecycle/session.js";
import { drawId, idOrDrawn } from "../engine/lifecycle/session-ids.js";
import {
  getSession,
  type SessionSummary,
  summaryAt,
  summaryOf,
} from "../engine/lifecycle/session-summary.js";
import {
  type OutsideOptions,
  rewindFromOutside,
  switchFromOutside,
} from "../engine/lifecycle/steering.js";
import { isThere } from "../engine/records/damage.js";
import type { SessionUpdate } from "../engine/records/rows.js";
import type { GivenMessages } from "../engine/session/given-messages.js";
import { noSession, notFound } from "../engine/util/not-found.js";
import { type KeyOptions, limitOf, options, type PageOptions } from "../engine/util/options.js";
import {
  type AppendOptions,
  type AppendReport,
  appendTo,
} from "../features/conversations/append.js";
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
import {
  type DeleteOptions,
  type DeleteReport,
  deleteSession,
} from "../features/conversations/session-deleting.js";
import type { Signals } from "../features/conversations/signals.js";
import { type TranscriptOptions, transcriptOf } from "../features/conversations/transcripts.js";
import { type UpdateOptions, updateSession } from "../features/conversations/update-session.js";
import { type RedactOptions, redactSession } from "../features/redaction/redact.js";
import type { RedactReport } from "../features/redaction/report.js";
import type { RedactWhat } from "../features/redaction/what.js";
import type { SearchFilter, SearchPage } from "../features/search/find.js";
import type { IndexOptions, Search } from "../features/search/search.js";
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

export class Sessions {
  readonly #ground: Ground;
  readonly #search: Search;
  readonly #signals: Signals;
  readonly #closing: AbortSignal;

  constructor(ground: Ground, { search, signals, closing }: Parts) {
    this.#ground = ground;
    this.#search = search;
    this.#signals = signals;
    this.#closing = closing;
  }

  /**
   * Messages and titles that hold all these words, the best first: `refund order`, `"these in a
   * row"`, `-without`, `begin*`. Words are compared without case and accents, in any script.
   */
  search(words: string, filter?: SearchFilter): Promise<SearchPage> {
    return this.#search.find(words, filter);
  }

  /**
   * Brings the index for search up to date, to the end, or makes it anew. Where there is none,
   * there is nothing to do.
   */
  index(o?: IndexOptions): Promise<{ readonly taken: number }> {
    return this.#search.bring(o);
  }

  get(id: string): Promise<SessionSummary | undefined> {
    return getSession(this.#ground, id);
  }

  /**
   * Tell whether there is such a session, without loading anything of it. One that is damaged
   * counts as there.
   */
  async has(id: string): Promise<boolean> {
    const known = sessionId(id);
    return isThere(() => this.#ground.store.session(known));
  }

  /** Ids that begin with a text, in the order of their bytes; 20 of them, or `limit`. */
  async ids(beginning: string, o?: Pick<PageOptions, "limit">): Promise<readonly SessionId[]> {
    const { limit } = options(o, "sessions.ids", ["limit"]);
    if (beginning !== "") checkName(beginning, "the beginning of an id");
    return (await this.#ground.store.idsFrom(beginning, limitOf(limit, "limit")))
      .sessions as readonly SessionId[];
  }

  /**
   * Sessions that begin at a place of this one, newest first: 20 of them, or `limit`. One that is
   * damaged is named apart.
   */
  forks(id: string, o?: Pick<PageOptions, "limit">): Promise<Omit<SessionPage, "next">> {
    return forksOf(this.#ground, id, o);
  }

  /** The state at its end, or at one of its checkpoints, verified. */
  async state(id: string, o?: StateOptions): Promise<SessionState> {
    const { at } = options(o, "sessions.state", ["at"]);
    const { present, ...there } = await look(this.#ground, sessionId(id), at);
    return {
      session: await summaryAt(this.#ground, present),
      ...(await stateThere(this.#ground, present.head.id, there)),
    };
  }

  /** Newest first. A session that is damaged does not hide the others: it is named apart. */
  list(filter?: SessionFilter): Promise<SessionPage> {
    return listSessions(this.#ground, filter);
  }

  /** Changes title, tags, archived or metadata; what is not given stays. */
  update(id: string, update: SessionUpdate, given?: UpdateOptions): Promise<SessionSummary> {
    return updateSession(this.#ground, id, update, given);
  }

  /**
   * The transcript in the format of a provider, verified: its end, or what it was at a checkpoint.
   * `messages` can be handed to that provider; `remainder` holds what its format cannot say. `M` is what
   * the provider's own library calls a message.
   */
  transcript<M = JsonObject, const F extends Format = Format>(
    id: string,
    o: TranscriptOptions<F>,
  ): Promise<Transcript<M, F>> {
    return transcriptOf<M, F>(this.#ground, id, o);
  }

  /**
   * Appends messages, or a transcript in a provider's format, from outside a run and without
   * holding the session. They are one save, never come between a call and its answer, and begin no
   * turn. Where somebody holds the session, it takes them in between its steps.
   */
  append(id: string, messages: GivenMessages, o?: AppendOptions): Promise<AppendReport> {
    return appendTo(this.#ground, id, messages, o);
  }

  /**
   * Puts messages in the place of others, from outside a run: of all, or of a range; none removes
   * them. `version` says which transcript the caller has seen (`transcriptVersion`): where it is
   * another by now, that is a CONFLICT. What was there stays in the history.
   */
  replace(id: string, messages: GivenMessages, o: ReplaceOptions): Promise<ReplaceReport> {
    return replaceIn(this.#ground, id, messages, o);
  }

  /**
   * Deletes a session, and those that its calls ran. What forks of it share is kept for them, and
   * what snapshots point at for these; the answer names both, and counts what went. That there is
   * no such session is an answer, not an error.
   */
  delete(id: string, o?: DeleteOptions): Promise<DeleteReport> {
    return deleteSession(this.#ground, id, o);
  }

  /**
   * Removes a text from the session: from every record of its past, from what it refers to, and
   * from the store's files. What it stood in keeps its place, and verifies. The answer says what
   * could not be removed, and who else shares what was changed.
   */
  redact(id: string, what: RedactWhat, o?: RedactOptions): Promise<RedactReport> {
    return redactSession(this.#ground, id, what, o);
  }

  // ---- another place in its history

  /**
   * Make a session that begins at a checkpoint. Nothing is copied, and the session is not open.
   * Without an id, it gets a new one.
   */
  async fork(at: string, o?: ForkOptions & KeyOptions): Promise<SessionSummary> {
    this.#ground.usable();
    const fields = options(o, "sessions.fork", ["id", "effects", "key"]);
    const { effects, key } = fields;
    const id = idOrDrawn(fields, "id", () => drawId(this.#ground, "fork", key));
    const policy = checkPolicy(effects);
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    return once<string, SessionSummary>(
      this.#ground,
      { key, name: "fork", to: id, args: { at, effects: policy } },
      async (receipt) => {
        const { head, label } = await fork(this.#ground, place, id, policy, receipt);
        return summaryOf(head, label);
      },
      async (made) => (await this.get(made)) ?? Promise.reject(noSession(made as SessionId)),
    );
  }

  /**
   * Put a session that no process holds back to one of its checkpoints, on a new branch. The old
   * branch keeps what came after. Answers what had been done by then, as `session.rewind` does.
   */
  rewind(id: string, at: string, o?: RewindOptions & OutsideOptions): Promise<RewindReport> {
    return rewindFromOutside(this.#ground, id, at, o);
  }

  /**
   * Make the branch of one of a session's checkpoints, which the session has left, its current one
   * again, at the branch's end.
   */
  switchBranch(id: string, at: string, o?: Omit<OutsideOptions, "key">): Promise<void> {
    return switchFromOutside(this.#ground, id, at, o);
  }

  // ---- while it runs

  /**
   * Read what happened in a session, from the beginning or a cursor on, and then live, from any
   * process. Ends when the session is deleted.
   */
  events(id: string, o?: EventOptions): AsyncIterable<SessionEvent> {
    return follow(this.#ground, id, o, this.#closing);
  }

  /**
   * Stop a session, also one that another process holds. A holder learns of it at its next save or
   * heartbeat; where there is none, it is done here.
   */
  async cancel(id: string, reason = "cancelled"): Promise<void> {
    await cancelSession(this.#ground, sessionId(id), checkText(reason, "reason", MAX_REASON));
  }

  /**
   * Give a value to the tool of a session that waits for it by name (`ctx.wait`), or will. The same
   * key is the same signal.
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
