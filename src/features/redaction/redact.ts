/**
 * Removing a text from a session: from every record of its branches and of what they go back to,
 * from the bodies these refer to, from what stands outside of its journal, and from the files of
 * the store.
 *
 * Nothing is held in between: killed at any point, it is run again. Every save is exchanged whole,
 * and verifies before and after.
 */
import { editJson } from "../../core/redaction/redact-text.js";
import { MAX_LEASE_MS } from "../../core/sessions/lease.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type SessionId, sessionId } from "../../core/values/ids.js";
import type { Json } from "../../core/values/json.js";
import { freeBranches } from "../../engine/journal/cut-branches.js";
import { descendants } from "../../engine/journal/descendants.js";
import { superseded } from "../../engine/journal/lease-keeper.js";
import { forgetArguments } from "../../engine/journal/receipts.js";
import { remembering } from "../../engine/journal/redaction-memory.js";
import { scrub } from "../../engine/journal/scrub.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { childrenOf, takeInWhatIsLeft } from "../../engine/lifecycle/deliver-inbox.js";
import { headOf, headRow, labelOf, labelRow } from "../../engine/records/rows.js";
import type { Entry } from "../../engine/records/snapshot-record.js";
import { noSession } from "../../engine/util/not-found.js";
import {
  callback,
  flag,
  invalid,
  options,
  signalOf,
  wholeNumber,
} from "../../engine/util/validate.js";
import { requireCapability } from "../../store/capabilities.js";
import type { Change } from "../../store/port/changes.js";
import type { StoreReclaim } from "../../store/port/reclaim.js";
import { OpenCalls, type Shared, sharedBy, stretchesOf } from "./affected-sessions.js";
import { SessionLocks } from "./lock-sessions.js";
import { type Matcher, matcherOf, type RedactWhat } from "./matcher.js";
import { editSnapshots } from "./redact-snapshots.js";
import { besideJournal, type InAgent, inReport, type RedactReport } from "./report.js";
import { type Name, SaveRewriter, type Seen } from "./rewrite-saves.js";
import { editEntry, editHead, editLabel } from "./row-edits.js";
import { WaitingInbox, waitingInbox } from "./waiting-inbox.js";

export interface RedactOptions {
  /**
   * What stands in its place; `[redacted]` by default. A set of redactions has words of its own.
   */
  readonly with?: string;
  /** Says what would be changed, without a change. */
  readonly dryRun?: boolean;
  /** Called now and then with how many saves have been looked at. */
  readonly onProgress?: (looked: number) => void;
  readonly signal?: AbortSignal;
  /** How long to wait for whoever holds the session, or one that shares what is changed. */
  readonly waitMs?: number;
  /**
   * Whether the store's files are gone over as well: true by default. A SQLite file is written anew
   * for that; whoever redacts many sessions does it with the last.
   */
  readonly scrub?: boolean;
}

const UNSCRUBBED = ["what the store's files hold beside what counts: they were not gone over."];
const TRIES = 20;
const SWEPT_AT_ONCE = 500;
const MAX_WITH = 1_000;

export async function redactSession(
  ctx: StoreContext,
  id: unknown,
  what: RedactWhat,
  given?: RedactOptions,
): Promise<RedactReport> {
  const session = sessionId(id);
  const o = options(given, "sessions.redact", [
    "with",
    "dryRun",
    "onProgress",
    "signal",
    "waitMs",
    "scrub",
  ]);
  if (o.with !== undefined && typeof what === "function")
    throw invalid("with", "a set of redactions has words of its own");
  const wanted = matcherOf(what, checkWith(o.with ?? "[redacted]"));
  const waitMs = o.waitMs === undefined ? 0 : wholeNumber(o.waitMs, "waitMs", 0, MAX_LEASE_MS);
  const hearers = { signal: signalOf(o.signal), onProgress: callback(o.onProgress, "onProgress") };
  if ((await ctx.store.session(session)).row === undefined) throw noSession(session);
  const scrubs = flag(o.scrub, "scrub") ?? true;
  requireCapability(ctx.store, "documents", "hold.sessions.redact");
  const redacting = new Redacting(ctx, session, wanted, hearers);
  return flag(o.dryRun, "dryRun") ? redacting.look(scrubs) : redacting.run(waitMs, scrubs);
}

function checkWith(text: unknown): string {
  if (typeof text !== "string" || text.length > MAX_WITH || !text.isWellFormed())
    throw invalid("with", `it must be a text of ${MAX_WITH} characters at most`);
  return text;
}

interface Hearers {
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((looked: number) => void) | undefined;
}

class Redacting {
  readonly #ctx: StoreContext;
  readonly #session: SessionId;
  readonly #what: Matcher;
  readonly #hearers: Hearers;
  readonly #reclaim: StoreReclaim;
  #leases: SessionLocks | undefined;
  #looked = 0;
  #outsideChanged = false;
  /** Whether messages wait to be appended, and hold it. */
  #isInboxLeft = false;
  /** The agent, and where what is kept of it holds the text. */
  #inAgentOf: InAgent | undefined;
  /** Snapshots that could not be gone over. */
  #damaged: readonly string[] = [];
  /** Other sessions that hold it in words of their own. */
  #others: readonly SessionId[] = [];

  constructor(ctx: StoreContext, session: SessionId, what: Matcher, hearers: Hearers) {
    this.#ctx = ctx;
    this.#session = session;
    this.#what = what;
    this.#hearers = hearers;
    this.#reclaim = requireCapability(ctx.store, "reclaim", "hold.sessions.redact");
  }

  #tick = (): void => {
    this.#hearers.signal?.throwIfAborted();
    this.#leases?.check();
    this.#looked += 1;
    if (this.#looked % 100 === 0) this.#hearers.onProgress?.(this.#looked);
  };

  // ---- looking

  async look(scrubs: boolean): Promise<RedactReport> {
    const { seen, shared } = await this.#survey([]);
    const outside = await this.#isOutside(shared, seen);
    await this.#lookAtOthers(shared, seen);
    return this.#report(seen, shared, { outside, keptBlobs: [], left: scrubs ? [] : UNSCRUBBED });
  }

  /**
   * Who else holds it in words of their own: forks, sessions that calls ran, and what these are
   * related to in the same way. A message is in its own session alone.
   */
  async #lookAtOthers(shared: Shared, seen: Seen): Promise<void> {
    const found = new Set<SessionId>();
    const known = new Set<SessionId>([this.#session]);
    const forks = (of: Shared, by: Seen): readonly SessionId[] => {
      for (const session of by.others) if (session !== null) found.add(session);
      return [...new Set(of.others.flatMap(({ row }) => (row.session ?? []) as SessionId | []))];
    };
    const queue = [...forks(shared, seen)];
    const isText = this.#what.message === undefined;
    if (isText) queue.push(...(await childrenOf(this.#ctx, this.#session)));
    const isFork = new Set(forks(shared, seen));
    for (const session of isText ? queue : []) {
      if (known.has(session)) continue;
      known.add(session);
      this.#tick();
      // One that shares what is changed was gone over, and so were the branches of any other.
      if (isFork.has(session)) {
        if (!shared.sharers.includes(session) && (await this.#isBeside(session, seen)))
          found.add(session);
      } else {
        const probe = new Redacting(this.#ctx, session, this.#what, this.#hearers);
        const theirs = await probe.#survey([]);
        if (await probe.#isHolding(theirs.seen, theirs.shared)) found.add(session);
        for (const fork of forks(theirs.shared, theirs.seen)) queue.push(isFork.add(fork) && fork);
      }
      if (this.#what.holds(session)) seen.names.push({ what: "session-id", at: session });
      queue.push(...(await childrenOf(this.#ctx, session)));
    }
    this.#others = [...found].filter((session) => session !== this.#session).toSorted();
  }

  /** Whether the session, without those around it, holds the text. */
  async #isHolding(seen: Seen, shared: Shared): Promise<boolean> {
    // First: it may name more.
    const isOutside = await this.#isOutside(shared, seen);
    return isOutside || seen.records + seen.names.length + seen.exempt.size > 0;
  }

  /** Whether what stands outside of the journals is to be changed. */
  async #isOutside(shared: Shared, seen: Seen): Promise<boolean> {
    let isFound = await this.#snapshots(shared, seen, true);
    for (const id of [this.#session, ...shared.sharers]) {
      const inboxMessages = this.#inboxDocOf(id);
      isFound = (await inboxMessages.isHolding(seen)) || isFound;
      this.#isInboxLeft ||= inboxMessages.isLeft;
      isFound ||= (await this.#outside(id, seen)) !== undefined;
    }
    return isFound;
  }

  #inboxDocOf(id: SessionId): WaitingInbox {
    return new WaitingInbox(this.#ctx, id, this.#what, (seen, name, as) =>
      this.#name(seen, name, as),
    );
  }

  /** Whether a fork's row, or an inbox message that waits for it, holds the text. */
  async #isBeside(session: SessionId, seen: Seen): Promise<boolean> {
    const row = (await this.#ctx.store.session(session)).row;
    if (row === undefined) return false;
    const head = headOf(row);
    if (
      editHead(head, this.#what, seen) !== head ||
      editLabel(labelOf(row), this.#what) !== undefined
    )
      return true;
    const { sound } = await waitingInbox(this.#ctx, session);
    return [...sound.values()].some((doc) => this.#holdsIn(doc as unknown as Json));
  }

  /**
   * What there is to change, and who shares it. `known`: sessions of which it is known that they
   * do.
   */
  async #survey(known: readonly SessionId[]) {
    const stretches = await stretchesOf(this.#ctx, this.#session);
    for (let sessions = [this.#session, ...known]; ; ) {
      const calls = await OpenCalls.of(this.#ctx, sessions);
      const rewriting = new SaveRewriter(this.#ctx, this.#what, calls, this.#tick);
      const seen = await rewriting.survey(stretches);
      await this.#nameHead(seen);
      const { message } = this.#what;
      if (message !== undefined && !seen.isMessageThere) throw noMessage(this.#session, message);
      const shared = await sharedBy(this.#ctx, this.#session, stretches, seen.first);
      // Whoever shares it may have calls that are not over: those are exempt as well.
      const others = shared.sharers.filter((sharer) => !sessions.includes(sharer));
      if ((await OpenCalls.of(this.#ctx, others)).ids.size === 0) {
        await rewriting.survey(shared.others);
        return { stretches, rewriting, seen, shared };
      }
      sessions = [...sessions, ...others];
    }
  }

  /** Names that stand in the session's own row: they stay. */
  async #nameHead(seen: Seen): Promise<void> {
    const row = (await this.#ctx.store.session(this.#session)).row;
    const { agent, parent, forkPoint } = row === undefined ? {} : headOf(row);
    for (const id of [this.#session, parent, forkPoint?.sessionId])
      if (id !== undefined) this.#name(seen, id, "session-id");
    if (agent !== undefined) this.#name(seen, agent, "agent");
  }

  /** Whether a value holds it in any of its texts. */
  #holdsIn(value: Json): boolean {
    return (
      editJson(value, { text: this.#what.text, numbers: true }, { in: "message", role: "user" }) !==
      value
    );
  }

  #name(seen: Seen, name: string, what: Name["what"]): void {
    const at = this.#session;
    if (
      this.#what.holds(name) &&
      !seen.names.some((known) => known.at === at && known.what === what)
    )
      seen.names.push({ what, at });
  }

  // ---- changing

  async run(waitMs: number, scrubs: boolean): Promise<RedactReport> {
    const leases = new SessionLocks(this.#ctx, waitMs, this.#hearers.signal);
    this.#leases = leases;
    try {
      // What waits and can be taken in is gone over with the journal.
      await takeInWhatIsLeft(this.#ctx, this.#session);
      await leases.take([this.#session]);
      await this.#freeForks();
      let found = await this.#survey([]);
      for (let tries = 1; ; tries++) {
        // Whoever shares it may have gone on before the lease was taken.
        while (await leases.take(found.shared.sharers))
          found = await this.#survey(found.shared.sharers);
        const { shared } = found;
        const seen = { ...found.seen };
        // First: titles are known from messages as they were.
        const outside = await this.#changeAll(shared, seen);
        // Copies first: they are known by what they were copied from.
        const isFound = outside || seen.records > 0;
        if (!isFound || (await found.rewriting.rewrite([...shared.others, ...found.stretches]))) {
          const keptBlobs = await this.#sweep(seen);
          for (const id of isFound ? [this.#session, ...shared.sharers] : [])
            await forgetArguments(this.#ctx, id);
          const left = scrubs
            ? await scrub(this.#ctx, this.#reclaim, this.#what.inFile)
            : UNSCRUBBED;
          await this.#lookAtOthers(shared, seen);
          this.#hearers.onProgress?.(this.#looked);
          return this.#report(seen, shared, { outside, keptBlobs, left });
        }
        if (tries >= TRIES) throw busy(this.#session);
        found = await this.#survey(shared.sharers);
      }
    } finally {
      await leases.release();
    }
  }

  /** What deleted forks said is freed, unless it is needed. Deleting frees it in most cases. */
  async #freeForks(): Promise<void> {
    const family = await descendants(
      this.#ctx,
      await this.#ctx.store.branches({ kind: "session", session: this.#session }),
    );
    await freeBranches(
      this.#ctx,
      family.flatMap(({ id, owned }) => (owned ? [] : id)),
    );
  }

  #report(
    seen: Seen,
    { sharers }: Shared,
    rest: Pick<RedactReport, "outside" | "keptBlobs" | "left">,
  ): RedactReport {
    const { records, saves, blobs, exempt, names } = seen;
    const others = this.#others;
    const beside = besideJournal(this.#inAgentOf, this.#damaged, this.#isInboxLeft);
    const left = [...inReport(seen, others, rest.keptBlobs), ...beside, ...rest.left];
    return Object.freeze({
      records,
      saves,
      blobs: blobs.size,
      sharedWith: sharers,
      others,
      exempt: [...exempt].toSorted(),
      names,
      ...rest,
      left,
    });
  }

  async #changeAll(shared: Shared, seen: Seen): Promise<boolean> {
    this.#isInboxLeft = false;
    for (const id of [this.#session, ...shared.sharers]) {
      const inboxMessages = this.#inboxDocOf(id);
      // First: of what it takes in nothing is to be kept either.
      const epoch = (this.#leases as SessionLocks).epoch(id);
      this.#outsideChanged = (await inboxMessages.change(seen, epoch)) || this.#outsideChanged;
      this.#isInboxLeft ||= inboxMessages.isLeft;
      this.#outsideChanged = (await this.#change(id, seen)) || this.#outsideChanged;
    }
    this.#outsideChanged = (await this.#snapshots(shared, seen, false)) || this.#outsideChanged;
    return this.#outsideChanged;
  }

  /**
   * Whoever shares what is changed is of the same agent, be it deleted since. Answers whether there
   * is anything to change.
   */
  async #snapshots({ sharers, by, others }: Shared, seen: Seen, dryRun: boolean): Promise<boolean> {
    const agent = (await this.#ctx.store.session(this.#session)).row?.head.agent ?? undefined;
    if (agent === undefined) return false;
    const sessions = new Set<string>([this.#session, ...sharers]);
    const isEdited = (entry: Entry): boolean =>
      sessions.has(entry.id) || (entry.place !== null && by(entry.place));
    const edit = (entry: Entry): Entry =>
      isEdited(entry) ? editEntry(entry, this.#what, seen) : entry;
    const holds = (value: Json): boolean => this.#holdsIn(value);
    const isOthers = (entry: Entry): boolean =>
      !isEdited(entry) &&
      others.some(({ row }) => row.session === entry.id) &&
      holds(entry as unknown as Json);
    const edited = await editSnapshots(this.#ctx, agent, { edit, holds, isOthers, dryRun });
    this.#inAgentOf = { agent, isInRecord: edited.isInRecord, snapshots: edited.holding };
    this.#damaged = edited.damaged;
    return edited.isChanged;
  }

  /**
   * Frees bodies that nothing refers to any more. Answers those that were replaced, and are still
   * needed.
   */
  async #sweep({ blobs }: Seen): Promise<readonly string[]> {
    const { store } = this.#ctx;
    let after: Digest | undefined;
    do ({ next: after } = await this.#reclaim.sweep(SWEPT_AT_ONCE, false, after));
    while (after !== undefined);
    const keptBlobs: string[] = [];
    for (const name of blobs) if ((await store.blob(name)) !== undefined) keptBlobs.push(name);
    return keptBlobs;
  }

  /** Changes what stands outside of a session's journal. Answers whether there was anything. */
  async #change(id: SessionId, seen: Seen): Promise<boolean> {
    for (;;) {
      const change = await this.#outside(id, seen);
      // What inbox messages said that was taken in is forgotten with anything else: a digest does
      // not tell what it stands for.
      if (change === undefined && seen.records === 0 && !this.#outsideChanged) return false;
      const epoch = (this.#leases as SessionLocks).epoch(id);
      const when = { epoch, ...change?.when };
      const branches =
        change === undefined
          ? []
          : await this.#ctx.store.branches({ kind: "session", session: id });
      const applied = await remembering(
        this.#ctx,
        new Map(branches.map((branch) => [branch.id, 0])),
        () => this.#ctx.store.apply([{ session: id, ...change, when, forgets: true }], [], "frees"),
      );
      if (applied.ok) return change !== undefined;
      // The label is anybody's, and was changed in between.
      if (applied.why !== "version") throw superseded(id);
    }
  }

  /** What is to be changed outside of a session's journal. */
  async #outside(id: SessionId, seen: Seen): Promise<Omit<Change, "session"> | undefined> {
    const row = (await this.#ctx.store.session(id)).row;
    if (row === undefined) throw noSession(id);
    const before = headOf(row);
    const head = editHead(before, this.#what, seen);
    const label = editLabel(labelOf(row), this.#what);
    if (head === before && label === undefined) return undefined;
    return {
      when: label === undefined ? {} : { version: label.version - 1 },
      ...(head !== before && { head: headRow(head) }),
      ...(label && { label: labelRow(label) }),
    };
  }
}

function noMessage(session: string, message: string): HoldfastError {
  return new HoldfastError(
    "NOT_FOUND",
    `There is no message ${quote(message)} in session ${quote(session)}, it was pruned, or it waits to be appended.`,
    {
      sessionId: session,
    },
  );
}

function busy(session: string): HoldfastError {
  return new HoldfastError(
    "BUSY",
    `Session ${quote(session)} was pruned or forked again and again while it was redacted. Try again.`,
    {
      sessionId: session,
    },
  );
}
