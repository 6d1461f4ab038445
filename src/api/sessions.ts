/** Looking at sessions, and changing what stands outside their journals. Needs no lease. */
import { checkName, type SessionId, sessionId } from "../core/values/ids.js";
import type { JsonObject } from "../core/values/json.js";
import type { Ground } from "../engine/journal/ground.js";
import { look, type StateThere, stateThere } from "../engine/lifecycle/look.js";
import { getSession, type SessionSummary, summaryAt } from "../engine/lifecycle/session-summary.js";
import { isThere } from "../engine/records/damage.js";
import type { SessionUpdate } from "../engine/records/rows.js";
import type { GivenMessages } from "../engine/session/given-messages.js";
import { limitOf, options } from "../engine/util/options.js";
import {
  type AppendOptions,
  type AppendResult,
  appendTo,
} from "../features/conversations/append.js";
import {
  forksOf,
  listSessions,
  type SessionFilter,
  type SessionPage,
} from "../features/conversations/list-sessions.js";
import {
  type Replaced,
  type ReplaceOptions,
  replaceIn,
} from "../features/conversations/replace.js";
import {
  type Deleted,
  type DeleteOptions,
  deleteSession,
} from "../features/conversations/session-deleting.js";
import { type TranscriptOptions, transcriptOf } from "../features/conversations/transcripts.js";
import { type UpdateOptions, updateSession } from "../features/conversations/update-session.js";
import { type RedactOptions, redactSession } from "../features/redaction/redact.js";
import type { RedactReport } from "../features/redaction/report.js";
import type { RedactWhat } from "../features/redaction/what.js";
import type { SearchFilter, SearchPage } from "../features/search/find.js";
import type { IndexOptions, Search } from "../features/search/search.js";
import type { Format, Transcript } from "../formats/transcript.js";

export interface SessionState extends StateThere {
  readonly session: SessionSummary;
}

export class Sessions {
  readonly #ground: Ground;
  readonly #search: Search;

  constructor(ground: Ground, search: Search) {
    this.#ground = ground;
    this.#search = search;
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
    return isThere(async () => (await this.#ground.store.session(known)).row);
  }

  /** Ids that begin with a text, in the order of their bytes; 20 of them, or `limit`. */
  async ids(beginning: string, o?: { readonly limit?: number }): Promise<readonly SessionId[]> {
    const { limit } = options(o, "sessions.ids", ["limit"]);
    if (beginning !== "") checkName(beginning, "the beginning of an id");
    const query = { beginning, limit: limitOf(limit, "limit") };
    return (await this.#ground.store.sessions(query)).map(({ id }) => id as SessionId);
  }

  /**
   * Sessions that begin at a place of this one, newest first: 20 of them, or `limit`. One that is
   * damaged is named apart.
   */
  forks(id: string, o?: { readonly limit?: number }): Promise<Omit<SessionPage, "next">> {
    return forksOf(this.#ground, id, o);
  }

  /** The state at its end, or at one of its checkpoints, verified. */
  async state(id: string, o?: { readonly at?: string }): Promise<SessionState> {
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
   * `messages` can be handed to that provider; what its format cannot say stands aside. `M` is what
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
  append(id: string, messages: GivenMessages, o?: AppendOptions): Promise<AppendResult> {
    return appendTo(this.#ground, id, messages, o);
  }

  /**
   * Puts messages in the place of others, from outside a run: of all, or of a range; none removes
   * them. `version` says which transcript the caller has seen (`transcriptVersion`): where it is
   * another by now, that is a CONFLICT. What was there stays in the history.
   */
  replace(id: string, messages: GivenMessages, o: ReplaceOptions): Promise<Replaced> {
    return replaceIn(this.#ground, id, messages, o);
  }

  /**
   * Deletes a session, and those that its calls ran. What forks of it share is kept for them, and
   * what snapshots point at for these; the answer names both, and counts what went. That there is
   * no such session is an answer, not an error.
   */
  delete(id: string, o?: DeleteOptions): Promise<Deleted> {
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
}
