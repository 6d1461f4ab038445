/** Looking at sessions, and changing what stands outside their journals. Needs no lease. */
import { checkText } from "../core/journal/checkpoint.js";
import { type SessionStatus, statusTable } from "../core/sessions/status.js";
import { HoldfastError } from "../core/values/errors.js";
import { checkName, type SessionId, sessionId } from "../core/values/ids.js";
import type { JsonObject } from "../core/values/json.js";
import { isoTime } from "../core/values/time.js";
import type { Ground } from "../engine/journal/ground.js";
import type { Standpoint } from "../engine/journal/journal.js";
import { once, type Receipt } from "../engine/journal/receipts.js";
import { refuseOtherAgent } from "../engine/lifecycle/acquire-lease.js";
import { makeSession } from "../engine/lifecycle/create-session.js";
import { look, type StateThere, stateThere } from "../engine/lifecycle/look.js";
import { relabelBy } from "../engine/lifecycle/relabel.js";
import { requireSession } from "../engine/lifecycle/require-session.js";
import { isThere } from "../engine/records/damage.js";
import type { Relabel, SessionUpdate } from "../engine/records/rows.js";
import { type HeadDoc, headOf, type LabelDoc, labelOf, labelRow } from "../engine/records/rows.js";
import type { GivenMessages } from "../engine/session/given-messages.js";
import { noSession } from "../engine/util/not-found.js";
import type { KeyOption } from "../engine/util/options.js";
import { cursorAt, type Damaged, flag, invalid, limitOf, numberOf, oneOf, options, type Page } from "../engine/util/options.js";
import { type AppendOptions, type AppendResult, appendTo } from "../features/conversations/append.js";
import { type Replaced, type ReplaceOptions, replaceIn } from "../features/conversations/replace.js";
import { type Deleted, type DeleteOptions, deleteSession } from "../features/conversations/session-deleting.js";
import { type TranscriptOptions, transcriptOf } from "../features/conversations/transcripts.js";
import { type RedactOptions, redactSession } from "../features/redaction/redact.js";
import type { RedactReport } from "../features/redaction/report.js";
import type { RedactWhat } from "../features/redaction/what.js";
import type { SearchFilter, SearchPage } from "../features/search/find.js";
import type { IndexOptions, Search } from "../features/search/search.js";
import type { Format, Transcript } from "../formats/transcript.js";
import type { Change } from "../store/port/changes.js";
import type { Witnesses } from "../store/port/copies.js";
import type { SessionRow } from "../store/port/rows.js";

export interface SessionSummary {
  readonly id: SessionId;
  readonly agent?: string;
  readonly status: SessionStatus;
  readonly reason?: string;
  readonly title?: string;
  /** Whether the title was given. Otherwise the title is the session's first words. */
  readonly titled: boolean;
  readonly tags: readonly string[];
  readonly archived: boolean;
  readonly metadata: JsonObject;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly origin?: { readonly sessionId: string; readonly checkpointId: string };
  /** The session whose call runs this one. */
  readonly parent?: string;
}

export interface SessionState extends StateThere {
  readonly session: SessionSummary;
}

export interface SessionFilter {
  readonly agent?: string;
  readonly status?: SessionStatus;
  readonly tag?: string;
  readonly archived?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export interface SessionPage extends Page<SessionSummary> {
  /** Sessions of this page that cannot be shown; absent where there are none. `verify` says more. */
  readonly damaged?: readonly Damaged[];
}

export interface UpdateOptions extends KeyOption {
  /** Makes the session where there is none, as one of `agent`. */
  readonly create?: boolean;
  readonly agent?: string;
  /** What else is done under the key, in whatever words: with others it is another call. */
  readonly about?: string;
}

const MAX_ABOUT = 1024 * 1024;

export const STATUSES = Object.keys(statusTable) as SessionStatus[];

export class Sessions {
  readonly #ground: Ground;
  readonly #search: Search;

  constructor(ground: Ground, search: Search) {
    this.#ground = ground;
    this.#search = search;
  }

  /**
   * Messages and titles that hold all these words, the best first: `refund order`, `"these in a row"`, `-without`, `begin*`. Words are
   * compared without case and accents, in any script.
   */
  search(words: string, filter?: SearchFilter): Promise<SearchPage> {
    return this.#search.find(words, filter);
  }

  /** Brings the index for search up to date, to the end, or makes it anew. Where there is none, there is nothing to do. */
  index(o?: IndexOptions): Promise<{ readonly taken: number }> {
    return this.#search.bring(o);
  }

  async get(id: string): Promise<SessionSummary | undefined> {
    const present = await this.#ground.journal.present(sessionId(id));
    return present && this.#shown(present);
  }

  /** Tell whether there is such a session, without loading anything of it. One that is damaged counts as there. */
  async has(id: string): Promise<boolean> {
    const known = sessionId(id);
    return isThere(() => this.#ground.store.session(known));
  }

  /** Ids that begin with a text, in the order of their bytes; 20 of them, or `limit`. */
  async ids(beginning: string, o?: { readonly limit?: number }): Promise<readonly SessionId[]> {
    const { limit } = options(o, "sessions.ids", ["limit"]);
    if (beginning !== "") checkName(beginning, "the beginning of an id");
    return (await this.#ground.store.idsFrom(beginning, limitOf(limit, "limit"))).sessions as readonly SessionId[];
  }

  /** Sessions that begin at a place of this one, newest first: 20 of them, or `limit`. One that is damaged is named apart. */
  async forks(id: string, o?: { readonly limit?: number }): Promise<Omit<SessionPage, "next">> {
    const { limit } = options(o, "sessions.forks", ["limit"]);
    const most = limitOf(limit, "limit");
    const { id: session } = await requireSession(this.#ground, id);
    const begun = (await this.#ground.store.lines({ session })).map((line) => this.#ground.store.lines({ origin: line.id }));
    const lines = (await Promise.all(begun)).flat().sort((a, b) => b.no - a.no);
    const forks = new Set(lines.flatMap((line) => line.session ?? []));
    forks.delete(session);
    const damaged: Damaged[] = [];
    const get = (fork: string): Promise<SessionSummary | undefined> =>
      this.get(fork).catch((error: unknown) => {
        if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
        damaged.push({ id: fork, message: error.message });
        return undefined;
      });
    const found = await Promise.all([...forks].slice(0, most).map(get));
    return { items: found.filter((fork) => fork !== undefined), ...(damaged.length > 0 && { damaged }) };
  }

  /** The state at its end, or at one of its checkpoints, verified. */
  async state(id: string, o?: { readonly at?: string }): Promise<SessionState> {
    const { at } = options(o, "sessions.state", ["at"]);
    const { present, ...there } = await look(this.#ground, sessionId(id), at);
    return { session: await this.#shown(present), ...(await stateThere(this.#ground, present.head.id, there)) };
  }

  /** Newest first. A session that is damaged does not hide the others: it is named apart. */
  async list(filter?: SessionFilter): Promise<SessionPage> {
    const { agent, status, tag, archived, limit, cursor } = options(filter, "sessions.list", [
      "agent",
      "status",
      "tag",
      "archived",
      "limit",
      "cursor",
    ]);
    const most = limitOf(limit, "limit");
    const isArchived = flag(archived, "archived");
    const isStatus = oneOf(status, "status", STATUSES);
    const rows = await this.#ground.store.sessions({
      ...(agent === undefined ? undefined : { agent: checkName(agent, "agent") }),
      ...(isStatus === undefined ? undefined : { status: isStatus }),
      ...(tag === undefined ? undefined : { tag: checkName(tag, "tag") }),
      ...(isArchived === undefined ? undefined : { archived: isArchived }),
      ...(cursor === undefined ? undefined : { before: numberOf(cursor, "s", this.#ground.store.cursorKey) }),
      limit: most + 1,
    });
    const shown = rows.slice(0, most);
    const ends = shown.length === 0 ? undefined : this.#ground.journal.endsOf(shown.map(({ head }) => head.line));
    // Told of each session that needs them.
    ends?.catch(() => {});
    const items: SessionSummary[] = [];
    const damaged: Damaged[] = [];
    for (const row of shown) {
      try {
        items.push(await this.#summary(row, await ends));
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "CORRUPT") throw error;
        // What is missing may have been deleted with the session, a moment ago.
        if ((await this.#ground.store.session(row.id)) !== undefined) damaged.push({ id: row.id, message: error.message });
      }
    }
    const last = rows.length > most ? shown.at(-1) : undefined;
    return {
      items,
      ...(damaged.length === 0 ? undefined : { damaged }),
      ...(last === undefined ? undefined : { next: cursorAt(last.no, "s", this.#ground.store.cursorKey) }),
    };
  }

  /** Changes title, tags, archived or metadata; what is not given stays. */
  async update(id: string, update: SessionUpdate, given?: UpdateOptions): Promise<SessionSummary> {
    const known = sessionId(id);
    const { key, create, agent, about } = options(given, "sessions.update", ["key", "create", "agent", "about"]);
    const isMade = flag(create, "create") ?? false;
    if (about !== undefined) checkText(about, "about", MAX_ABOUT);
    if (agent !== undefined && !isMade) throw invalid("agent", "it is given to a session that is made; pass create: true with it");
    const made = isMade ? { agent: agent === undefined ? undefined : checkName(agent, "agent") } : undefined;
    const relabel = relabelBy(this.#ground, update, "sessions.update");
    return once<null, SessionSummary>(
      this.#ground,
      { key, name: "sessions.update", to: known, args: { update, about, ...made } },
      (receipt) => this.#relabel(known, relabel, { made, receipt }),
      async () => this.#summary(await requireSession(this.#ground, known)),
    );
  }

  async #relabel(
    id: SessionId,
    relabel: Relabel,
    { made, receipt }: { made: { agent: string | undefined } | undefined; receipt: Receipt<null> },
  ): Promise<SessionSummary> {
    for (;;) {
      const row = await this.#ground.store.session(id);
      if (row === undefined && made === undefined) throw noSession(id);
      if (row !== undefined && made !== undefined) refuseOtherAgent(headOf(row), { id, agent: made.agent });
      const docs = receipt.docs(null);
      const applied =
        row === undefined
          ? await makeSession(this.#ground, id, { agent: made?.agent, label: relabel(UNLABELLED), alongside: docs })
          : await this.#ground.store.apply([relabelled(row, relabel)], docs);
      if (applied.ok) return this.#summary(await requireSession(this.#ground, id));
      receipt.check(applied, 1);
      // Somebody else has made or changed it in between: read it again, and change that.
    }
  }

  /**
   * The transcript in the format of a provider, verified: its end, or what it was at a checkpoint. `messages` can be handed to that provider;
   * what its format cannot say stands aside. `M` is what the provider's own library calls a message.
   */
  transcript<M = JsonObject, const F extends Format = Format>(id: string, o: TranscriptOptions<F>): Promise<Transcript<M, F>> {
    return transcriptOf<M, F>(this.#ground, id, o);
  }

  /**
   * Appends messages, or a transcript in a provider's format, from outside a run and without holding the session. They are one save, never
   * come between a call and its answer, and begin no turn. Where somebody holds the session, it takes them in between its steps.
   */
  append(id: string, messages: GivenMessages, o?: AppendOptions): Promise<AppendResult> {
    return appendTo(this.#ground, id, messages, o);
  }

  /**
   * Puts messages in the place of others, from outside a run: of all, or of a range; none removes them. `version` says which transcript the
   * caller has seen (`transcriptVersion`): where it is another by now, that is a CONFLICT. What was there stays in the history.
   */
  replace(id: string, messages: GivenMessages, o: ReplaceOptions): Promise<Replaced> {
    return replaceIn(this.#ground, id, messages, o);
  }

  /**
   * Deletes a session, and those that its calls ran. What forks of it share is kept for them, and what snapshots point at for these; the
   * answer names both, and counts what went. That there is no such session is an answer, not an error.
   */
  delete(id: string, o?: DeleteOptions): Promise<Deleted> {
    return deleteSession(this.#ground, id, o);
  }

  /**
   * Removes a text from the session: from every record of its past, from what it refers to, and from the store's files. What it stood in
   * keeps its place, and verifies. The answer says what could not be removed, and who else shares what was changed.
   */
  redact(id: string, what: RedactWhat, o?: RedactOptions): Promise<RedactReport> {
    return redactSession(this.#ground, id, what, o);
  }

  async #shown({ row, head, tail }: Standpoint): Promise<SessionSummary> {
    return summaryOf(head, labelOf(row), await savedAt(this.#ground, head, tail));
  }

  async #summary(row: SessionRow, ends?: Witnesses): Promise<SessionSummary> {
    const head = headOf(row);
    return summaryOf(head, labelOf(row), await savedAt(this.#ground, head, await this.#ground.journal.tail(head.line, ends)));
  }
}

/** When something was last saved; on a line that was just begun, when that was from which it begins. */
async function savedAt({ journal }: Ground, { line, createdAt }: HeadDoc, tail: Standpoint["tail"]): Promise<number> {
  if (tail !== undefined) return tail.save.at;
  const origin = (await journal.line(line))?.doc.origin;
  const save = origin ? await journal.saveAt(origin) : undefined;
  return Math.max(createdAt, save?.save.at ?? createdAt);
}

const UNLABELLED = { tags: [], archived: false, metadata: {} };

function relabelled(row: SessionRow, relabel: Relabel): Change {
  const before = labelOf(row);
  return { session: row.id, when: { version: before.version }, label: labelRow({ ...relabel(before), version: before.version + 1 }) };
}

export function summaryOf(head: HeadDoc, label: LabelDoc, updatedAt = head.createdAt): SessionSummary {
  const { id, status, reason, agent, title: firstWords, createdAt, origin, parent } = head;
  const { title = firstWords, tags, archived, metadata } = label;
  return Object.freeze({
    id,
    ...(agent === undefined ? undefined : { agent }),
    status,
    ...(reason === undefined ? undefined : { reason }),
    ...(title === undefined ? undefined : { title }),
    titled: label.title !== undefined,
    tags,
    archived,
    metadata,
    createdAt: isoTime(createdAt),
    updatedAt: isoTime(updatedAt),
    ...(origin === undefined ? undefined : { origin }),
    ...(parent === undefined ? undefined : { parent }),
  });
}
