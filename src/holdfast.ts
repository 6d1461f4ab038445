/** An open store, and all that can be done with it. */
import { Agents } from "./api/agents.js";
import { Checkpoints } from "./api/checkpoints.js";
import { Effects } from "./api/effects.js";
import { Retention } from "./api/retention.js";
import { Sessions } from "./api/sessions.js";
import { checkText, MAX_REASON } from "./core/journal/checkpoint.js";
import type { Redact } from "./core/redaction/redact-text.js";
import { isDigest } from "./core/values/digest.js";
import { HoldfastError, quote } from "./core/values/errors.js";
import { checkName, checkpointPlace, type SessionId, sessionId } from "./core/values/ids.js";
import { encode, type Json } from "./core/values/json.js";
import { type Clock, Ground, type Machine } from "./engine/journal/ground.js";
import { isDone, once } from "./engine/journal/receipts.js";
import { Redactor } from "./engine/journal/redactor.js";
import type { Telemetry } from "./engine/journal/telemetry.js";
import { fork } from "./engine/lifecycle/fork-session.js";
import { checkPolicy, type RewindOptions, type Rewound } from "./engine/lifecycle/lines.js";
import { openSession } from "./engine/lifecycle/open-session.js";
import { cancelSession, takeInWhatIsLeft } from "./engine/lifecycle/outside.js";
import type { ForkOptions, Session } from "./engine/lifecycle/session.js";
import { drawId, idAndOptions, idOrDrawn } from "./engine/lifecycle/session-ids.js";
import type { SessionOptions } from "./engine/lifecycle/session-options.js";
import { type SessionSummary, summaryOf } from "./engine/lifecycle/session-summary.js";
import {
  adoptFromOutside,
  type OutsideOptions,
  rewindFromOutside,
} from "./engine/lifecycle/steering.js";
import { abortController } from "./engine/util/aborting.js";
import { noSession, notFound } from "./engine/util/not-found.js";
import type { KeyOption } from "./engine/util/options.js";
import { callback, flag, invalid, options, pathOf, signalOf } from "./engine/util/options.js";
import { type EventOptions, follow, type SessionEvent } from "./features/conversations/events.js";
import { Signals } from "./features/conversations/signals.js";
import { about, type StoreAbout } from "./features/health/about.js";
import { type Verdict, type VerifyOptions, verifyStore } from "./features/health/verify.js";
import { type GcOptions, type GcReport, gc } from "./features/retention/gc.js";
import { type BoundAgent, bind } from "./features/runs/bound.js";
import type { Agent, AgentDef, Tool } from "./features/runs/define/definition.js";
import { Runs } from "./features/runs/runs.js";
import { Worker, type WorkerOptions } from "./features/runs/workers/worker.js";
import { Search } from "./features/search/search.js";
import { type ExportFilter, type ExportOptions, exportRows } from "./features/transfer/export.js";
import {
  type ExportedRows,
  type ImportOptions,
  type ImportReport,
  importRows,
} from "./features/transfer/import.js";
import { requireCapability } from "./store/capabilities.js";
import type { Backup, BackupProgress } from "./store/port/copies.js";
import type { Counts } from "./store/port/info.js";
import type { Store } from "./store/port.js";
import { type ToolsFor, type ToolsOptions, toolsFor } from "./tools/tools.js";

/** What an open store may be given besides. */
export interface Extras {
  readonly telemetry?: Telemetry;
  readonly redact?: Redact | undefined;
  /** Whether an index for search is made and kept up. */
  readonly indexed?: boolean;
}

export interface BackupRequest {
  readonly onProgress?: (progress: BackupProgress) => void;
  readonly signal?: AbortSignal;
  /** Replaces a backup that is there already. */
  readonly force?: boolean;
}

export interface BackupReport extends Backup {
  readonly ms: number;
}

export class Holdfast implements AsyncDisposable {
  readonly agents: Agents;
  readonly sessions: Sessions;
  readonly checkpoints: Checkpoints;
  readonly retention: Retention;
  readonly #ground: Ground;
  readonly effects: Effects;
  readonly #search: Search;
  readonly #indexed: boolean;
  readonly #runs: Runs;
  readonly #signals: Signals;
  readonly #workers = new Set<Worker>();
  readonly #closing = abortController();

  /** Made by `open`, not by hand. */
  constructor(
    store: Store,
    machine: Machine,
    clock: Clock,
    leaseMs: number,
    { telemetry, redact, indexed = true }: Extras = {},
  ) {
    this.#ground = new Ground(
      store,
      machine,
      clock,
      leaseMs,
      telemetry,
      redact && new Redactor(redact),
    );
    this.#ground.released = (id, left) => takeInWhatIsLeft(this.#ground, id, left);
    this.#runs = new Runs(this.#ground);
    this.#signals = new Signals(this.#ground);
    this.#ground.takeInPosted = () => this.#signals.flush();
    this.effects = new Effects(this.#ground);
    this.#search = new Search(this.#ground, indexed);
    this.#indexed = indexed;
    this.agents = new Agents(this.#ground);
    this.sessions = new Sessions(this.#ground, this.#search);
    this.checkpoints = new Checkpoints(this.#ground);
    this.retention = new Retention(this.#ground);
  }

  /** Binds an agent to this store. */
  agent<C = undefined, S = Record<string, Json>, O = string, T extends Record<string, any> = {}>(
    definition: AgentDef<{ [K in keyof T]: Tool<T[K], any, C, S> }, C, S, O>,
  ): BoundAgent<C, S, O>;
  agent<C, S, O>(defined: Agent<C, S, O>): BoundAgent<C, S, O>;
  agent(given: Agent | AgentDef<{}, any, any, any>): BoundAgent {
    this.#ground.usable();
    return bind(this.#ground, this.#runs, given);
  }

  /**
   * Opens a session for work, making it where there is none, and holds its lease until it is
   * closed. Without an id it makes a new one, whose id is drawn: `session.id`.
   */
  session<S extends object = Record<string, Json>>(
    id: string,
    o?: SessionOptions,
  ): Promise<Session<S>>;
  session<S extends object = Record<string, Json>>(o: SessionOptions): Promise<Session<S>>;
  session<S extends object = Record<string, Json>>(): Promise<Session<S>>;
  async session<S extends object>(...given: readonly unknown[]): Promise<Session<S>> {
    const { id, o } = idAndOptions<SessionOptions>(this.#ground, given);
    return openSession<S>(this.#ground, id, o);
  }

  /**
   * Make a session that begins at a checkpoint. Nothing is copied, and the session is not open.
   * Without an id, it gets a new one.
   */
  async fork(at: string, o?: ForkOptions & KeyOption): Promise<SessionSummary> {
    this.#ground.usable();
    const fields = options(o, "fork", ["id", "effects", "key"]);
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
      async (made) =>
        (await this.sessions.get(made)) ?? Promise.reject(noSession(made as SessionId)),
    );
  }

  /**
   * Puts a session that nobody holds back to one of its checkpoints, on a new line. What came after
   * is kept, on the old one. Answers what had been done by then, as `session.rewind` does.
   */
  rewind(id: string, at: string, o?: RewindOptions & OutsideOptions): Promise<Rewound> {
    return rewindFromOutside(this.#ground, id, at, o);
  }

  /**
   * Makes the line of one of a session's checkpoints, which it has left by rewinding, its main one
   * again, at its end.
   */
  adopt(id: string, at: string, o?: Omit<OutsideOptions, "key">): Promise<void> {
    return adoptFromOutside(this.#ground, id, at, o);
  }

  /**
   * What happened in a session, from the beginning or a cursor on, and then live, from any process.
   * Ends when the session is deleted.
   */
  events(id: string, o?: EventOptions): AsyncIterable<SessionEvent> {
    return follow(this.#ground, id, o, this.#closing.signal);
  }

  /**
   * Stops a session, whoever holds it. A holder learns of it at its next save or heartbeat; where
   * there is none, it is done here.
   */
  async cancel(id: string, reason = "cancelled"): Promise<void> {
    await cancelSession(this.#ground, sessionId(id), checkText(reason, "reason", MAX_REASON));
  }

  /**
   * Gives a value to whatever in a session waits for it by name (`ctx.wait`), or will. The same key
   * is the same signal.
   */
  async signal(
    id: string,
    name: string,
    value: Json,
    o?: { readonly key?: string },
  ): Promise<void> {
    const { key } = options(o, "signal", ["key"]);
    const session = sessionId(id);
    const doc = {
      kind: "signal",
      name: checkName(name, "signal name"),
      value: encode(value, "signal").value,
    } as const;
    await this.#signals.send(session, doc, key === undefined ? undefined : checkName(key, "key"));
  }

  /** Takes turns that were submitted, and sessions whose holder died, and runs them. */
  worker(o: WorkerOptions): Worker {
    this.#ground.usable();
    const worker = new Worker(this.#ground, this.#runs, o);
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Tools by which an agent keeps and looks up its own memory, for `hold.agent({ tools })`, the AI
   * SDK, or any other loop. `holdfast mcp` serves the same.
   */
  tools<const O extends ToolsOptions = {}>(o?: O): ToolsFor<O> {
    this.#ground.usable();
    const { agents, sessions, checkpoints } = this;
    const hold = {
      agents,
      sessions,
      checkpoints,
      fork: this.fork.bind(this),
      rewind: this.rewind.bind(this),
      stats: this.stats.bind(this),
      blob: this.blob.bind(this),
      newestSession: async (agent: string, before: number) =>
        (await this.#ground.store.sessions({ agent, before, limit: 1 }))[0]?.id,
      sessionNumber: async (agent: string, id: string) => {
        const row = (await this.#ground.store.session(id)).row;
        return row?.head.agent === agent ? row.no : undefined;
      },
      newSessionId: (call: string, key: string | undefined) => drawId(this.#ground, call, key),
      isDone: (key: string) => isDone(this.#ground, key),
    };
    return toolsFor(hold, o);
  }

  /** The bytes of a file part, verified. */
  async blob(digest: string): Promise<Uint8Array | undefined> {
    if (!isDigest(digest)) throw invalid("digest", "it is not the digest of a file part");
    return (await this.#ground.store.blob(digest)) === undefined
      ? undefined
      : this.#ground.journal.blob(digest);
  }

  /**
   * A session, an agent's sessions or all of them as one stream of text, a row of JSON at a time:
   * verified on the way out, each session as it was at one moment, with all its lines and what it
   * shares with others. Nothing is held up meanwhile.
   */
  export(what?: ExportFilter, o?: ExportOptions): AsyncIterable<string> {
    return exportRows(this.#ground, what, o);
  }

  /**
   * Takes in what `export` gave, in any store. Run twice, or after it was interrupted, it goes on
   * where it was; a session is seen once it is whole. Sessions keep their ids, checkpoints, forks
   * and digests. One that cannot be taken in is named among the conflicts.
   */
  import(rows: ExportedRows, o?: ImportOptions): Promise<ImportReport> {
    return importRows(this.#ground, rows, o);
  }

  /**
   * Writes a copy of the whole store, of all tenants, to a file, as it is at one moment and while
   * others go on. `restoreBackup` puts it in place; opened by itself it is a store of its own. Only
   * for stores in one SQLite file, opened without a tenant: others say what to do instead.
   */
  async backup(path: string, given?: BackupRequest): Promise<BackupReport> {
    const o = options(given, "backup", ["onProgress", "signal", "force"]);
    const began = performance.now();
    const made = await requireCapability(this.#ground.store, "copies", "hold.backup").backup(
      pathOf(path, "backup"),
      {
        onProgress: callback(o.onProgress, "onProgress"),
        signal: signalOf(o.signal),
        force: flag(o.force, "force") ?? false,
      },
    );
    return Object.freeze({ ...made, ms: Math.round(performance.now() - began) });
  }

  /**
   * Says that this store is a copy that was put back, and that the original may have gone on: what
   * was under way opens as in doubt. For copies that Holdfast did not make itself (pg_restore, a
   * directory, a file system's snapshot), before anything is run, and while no other process has
   * the store open. For all tenants: only a store that was opened without one does it.
   */
  async beginIncarnation(): Promise<void> {
    const copies = requireCapability(this.#ground.store, "copies", "hold.beginIncarnation");
    const [held] = this.#ground.keeper.holders;
    if (held !== undefined)
      throw new HoldfastError(
        "BAD_STATUS",
        `Session ${quote(held.id)} is open here. Close all sessions before another incarnation begins.`,
        {
          sessionId: held.id,
        },
      );
    this.#ground.inIncarnation(await copies.begin());
  }

  /**
   * What the store is and stands on, who holds what, and what somebody should know of it, each with
   * what to do.
   */
  about(): Promise<StoreAbout> {
    return about(this.#ground, this.#indexed);
  }

  /** Counted, not estimated. `sizeBytes` is what was stored; a file on disk is a little larger. */
  async stats(): Promise<Counts> {
    return (await this.#ground.store.info("counts")).counts as Counts;
  }

  /** Reads everything and says what is damaged. */
  verify(o?: VerifyOptions): Promise<Verdict> {
    return verifyStore(this.#ground, o);
  }

  /**
   * Frees what nothing refers to any more: pasts of deleted sessions that no fork needs, blobs, and
   * room in files. In small steps, so that others can write meanwhile.
   */
  gc(o?: GcOptions): Promise<GcReport> {
    return gc(this.#ground, o);
  }

  /**
   * Lets go of every session that is still open here, and of the store. Staged work of theirs is
   * discarded; saved work is safe. Followers of `events` come to their end. Every later call throws
   * CLOSED.
   */
  async close(): Promise<void> {
    this.#ground.closes();
    for (const worker of this.#workers) await worker.stop({ graceMs: 0 }).catch(() => {});
    await this.#signals.flush();
    await this.agents.stop();
    await this.retention.stop();
    this.#closing.abort();
    this.#ground.released = async () => {};
    this.#ground.watchers.wakeAll();
    for (const holder of this.#ground.keeper.holders)
      await holder.close({ discard: true, aborts: true }).catch(() => {});
    this.#ground.keeper.stop();
    await this.#ground.posted();
    await this.#search.close();
    await this.#ground.store.close();
    this.#ground.machine.leave();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
