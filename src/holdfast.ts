/** An open store, and all that can be done with it. */
import { Agents } from "./api/agents.js";
import { Checkpoints } from "./api/checkpoints.js";
import { Effects } from "./api/effects.js";
import { Retention } from "./api/retention.js";
import { Sessions } from "./api/sessions.js";
import type { Redact } from "./core/redaction/redact-text.js";
import { isDigest } from "./core/values/digest.js";
import { HoldfastError, quote } from "./core/values/errors.js";
import type { Json } from "./core/values/json.js";
import { isDone } from "./engine/journal/receipts.js";
import { Redactor } from "./engine/journal/redactor.js";
import { type Clock, type Machine, StoreContext } from "./engine/journal/store-context.js";
import type { Telemetry } from "./engine/journal/telemetry.js";
import { takeInWhatIsLeft } from "./engine/lifecycle/deliver-inbox.js";
import { openSession } from "./engine/lifecycle/open-session.js";
import type { Session } from "./engine/lifecycle/session.js";
import { drawId, idAndOptions } from "./engine/lifecycle/session-ids.js";
import type { SessionOptions } from "./engine/lifecycle/session-options.js";
import { abortController } from "./engine/util/abort-signals.js";
import { callback, flag, invalid, options, pathOf, signalOf } from "./engine/util/validate.js";
import { Signals } from "./features/conversations/signals.js";
import { about, type StoreInfo } from "./features/health/store-info.js";
import { type VerifyOptions, type VerifyReport, verifyStore } from "./features/health/verify.js";
import { type GcOptions, type GcReport, gc } from "./features/retention/gc.js";
import { type BoundAgent, bind } from "./features/runs/bound-agent.js";
import type { Agent, AgentDef, Tool } from "./features/runs/define/agent-types.js";
import { defined, definedOf } from "./features/runs/define/compile-agent.js";
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

export interface BackupOptions {
  readonly onProgress?: (progress: BackupProgress) => void;
  readonly signal?: AbortSignal;
  /** Replaces a backup that is there already. */
  readonly force?: boolean;
}

export interface BackupReport extends Backup {
  readonly ms: number;
}

/** An open store, and all that can be done with it. */
export class Holdfast implements AsyncDisposable {
  readonly agents: Agents;
  readonly sessions: Sessions;
  readonly checkpoints: Checkpoints;
  readonly retention: Retention;
  readonly #ctx: StoreContext;
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
    this.#ctx = new StoreContext(
      store,
      machine,
      clock,
      leaseMs,
      telemetry,
      redact && new Redactor(redact),
    );
    this.#ctx.released = (id, left) => takeInWhatIsLeft(this.#ctx, id, left);
    this.#runs = new Runs(this.#ctx);
    this.#signals = new Signals(this.#ctx);
    this.#ctx.takeInPosted = () => this.#signals.flush();
    this.effects = new Effects(this.#ctx);
    this.#search = new Search(this.#ctx, indexed);
    this.#indexed = indexed;
    this.agents = new Agents(this.#ctx);
    this.sessions = new Sessions(this.#ctx, {
      search: this.#search,
      signals: this.#signals,
      closing: this.#closing.signal,
    });
    this.checkpoints = new Checkpoints(this.#ctx);
    this.retention = new Retention(this.#ctx);
  }

  /**
   * Define an agent, and bind it to this store.
   * Put `context` before the functions that use it: TypeScript infers its type from top to bottom.
   *
   * @example
   * const support = hold.agent({
   *   name: "support",
   *   model,
   *   tools: { lookup: { mode: "repeatable", run: async ({ order }) => ({ order }) } },
   * });
   * const done = await support.run("order-42", "Where is order 42?");
   */
  agent<C = undefined, S = Record<string, Json>, O = string, T extends Record<string, any> = {}>(
    definition: AgentDef<{ [K in keyof T]: Tool<T[K], any, C, S> }, C, S, O>,
  ): BoundAgent<C, S, O> {
    this.#ctx.usable();
    return bind(this.#ctx, this.#runs, defined(definition));
  }

  /**
   * Bind an agent that `agent` has defined without a store.
   *
   * @example
   * const clerk = agent({ name: "clerk", model });
   * const done = await hold.bind(clerk).run("inbox message-1", "Answer this inbox message.");
   */
  bind<C, S, O>(agent: Agent<C, S, O>): BoundAgent<C, S, O> {
    this.#ctx.usable();
    return bind(this.#ctx, this.#runs, definedOf(agent));
  }

  /**
   * Open a session for work, and hold its lease until it is closed.
   * A session that is not there is made. Without an id it is a new one, whose id is drawn:
   * `session.id`.
   *
   * @example
   * await using session = await hold.session("research-7", { agent: "researcher", waitMs: 5_000 });
   * session.append({ role: "user", content: "What holds kelp to the rock?" });
   * await session.checkpoint();
   */
  session<S extends object = Record<string, Json>>(
    id: string,
    o?: SessionOptions,
  ): Promise<Session<S>>;
  session<S extends object = Record<string, Json>>(o: SessionOptions): Promise<Session<S>>;
  session<S extends object = Record<string, Json>>(): Promise<Session<S>>;
  async session<S extends object>(...given: readonly unknown[]): Promise<Session<S>> {
    const { id, o } = idAndOptions<SessionOptions>(this.#ctx, given);
    return openSession<S>(this.#ctx, id, o);
  }

  /**
   * Make a worker, which runs submitted turns, and sessions whose holder died.
   *
   * @example
   * const worker = hold.worker({ agents: [support], concurrency: 8 });
   * await worker.start();
   * await worker.stop({ graceMs: 5_000 });
   */
  worker(o: WorkerOptions): Worker {
    this.#ctx.usable();
    const worker = new Worker(this.#ctx, this.#runs, o);
    this.#workers.add(worker);
    return worker;
  }

  /**
   * Make tools by which an agent keeps and looks up its own memory.
   * They are for `hold.agent({ tools })`, the AI SDK, or any other loop. `holdfast mcp` serves the
   * same.
   *
   * @example
   * const helper = hold.agent({ name: "helper", model, tools: hold.tools({ agent: "helper" }) });
   */
  tools<const O extends ToolsOptions = {}>(o?: O): ToolsFor<O> {
    this.#ctx.usable();
    const { agents, sessions, checkpoints } = this;
    const hold = {
      agents,
      sessions,
      checkpoints,
      stats: this.stats.bind(this),
      blob: this.blob.bind(this),
      newestSession: async (agent: string, before: number) =>
        (await this.#ctx.store.sessions({ agent, before, limit: 1 }))[0]?.id,
      sessionNumber: async (agent: string, id: string) => {
        const row = (await this.#ctx.store.session(id)).row;
        return row?.head.agent === agent ? row.no : undefined;
      },
      newSessionId: (call: string, key: string | undefined) => drawId(this.#ctx, call, key),
      isDone: (key: string) => isDone(this.#ctx, key),
    };
    return toolsFor(hold, o);
  }

  /**
   * Read and verify the bytes of a file part.
   *
   * @example
   * const bytes = await hold.blob("A".repeat(43));
   */
  async blob(digest: string): Promise<Uint8Array | undefined> {
    if (!isDigest(digest)) throw invalid("digest", "it is not the digest of a file part");
    return (await this.#ctx.store.blob(digest)) === undefined
      ? undefined
      : this.#ctx.journal.blob(digest);
  }

  /**
   * Export a session, an agent's sessions or all of them, as one stream of text.
   * Each row is JSON, and verified on the way out. A session comes as it was at one moment, with
   * all its branches and the parts that it shares with others. No process is held up meanwhile.
   *
   * @example
   * for await (const row of hold.export({ session: "order-42" })) process.stdout.write(row);
   */
  export(what?: ExportFilter, o?: ExportOptions): AsyncIterable<string> {
    return exportRows(this.#ctx, what, o);
  }

  /**
   * Take in what `export` gave, in any store.
   * Run twice, or after it was interrupted, it goes on where it was; a session is seen once it is
   * whole. Sessions keep their ids, checkpoints, forks and digests. One that cannot be taken in is
   * named among the conflicts.
   *
   * @example
   * const other = await open("copy.db");
   * const { conflicts } = await other.import(hold.export({ agent: "support" }));
   */
  import(rows: ExportedRows, o?: ImportOptions): Promise<ImportReport> {
    return importRows(this.#ctx, rows, o);
  }

  /**
   * Write a copy of the whole store, of all tenants, to a file.
   * It is the store at one moment, while other processes go on. `restoreBackup` puts it in place;
   * opened by itself it is a store of its own. Only a store in one SQLite file, opened without a
   * tenant, has backups: others say what to do instead.
   *
   * @example
   * const { bytes, ms } = await hold.backup("backups/agent.db", { force: true });
   */
  async backup(path: string, given?: BackupOptions): Promise<BackupReport> {
    const o = options(given, "backup", ["onProgress", "signal", "force"]);
    const began = performance.now();
    const made = await requireCapability(this.#ctx.store, "copies", "hold.backup").backup(
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
   * Mark this store as a copy that was put back, while the original may have gone on.
   * Sessions that were under way open as in doubt. It is for copies that Holdfast did not make
   * itself (pg_restore, a directory, a file system's snapshot), before anything is run, and while
   * no other process has the store open. It concerns all tenants: only a store that was opened
   * without one does it.
   *
   * @example
   * await hold.markRestored();
   */
  async markRestored(): Promise<void> {
    const copies = requireCapability(this.#ctx.store, "copies", "hold.markRestored");
    const [held] = this.#ctx.keeper.holders;
    if (held !== undefined)
      throw new HoldfastError(
        "BAD_STATUS",
        `Session ${quote(held.id)} is open here. Close all sessions before another generation begins.`,
        {
          sessionId: held.id,
        },
      );
    this.#ctx.inGeneration(await copies.begin());
  }

  /**
   * Tell what the store is, who holds which sessions, and what you should know of it.
   * Each concern comes with the command or change that mends it.
   *
   * @example
   * for (const { message, fix } of (await hold.info()).concerns) console.log(message, fix);
   */
  info(): Promise<StoreInfo> {
    return about(this.#ctx, this.#indexed);
  }

  /**
   * Count agents, sessions, checkpoints, snapshots, messages and bytes.
   * Nothing is estimated. `sizeBytes` is what was stored; a file on disk is a little larger.
   *
   * @example
   * const { sessions, sizeBytes } = await hold.stats();
   */
  async stats(): Promise<Counts> {
    return (await this.#ctx.store.info("counts")).counts as Counts;
  }

  /**
   * Read everything, and tell what is damaged.
   *
   * @example
   * const { ok, findings } = await hold.verify();
   */
  verify(o?: VerifyOptions): Promise<VerifyReport> {
    return verifyStore(this.#ctx, o);
  }

  /**
   * Free what nothing refers to any more.
   * These are pasts of deleted sessions that no fork needs, blobs, and room in files. It works in
   * small steps, so that other processes can write meanwhile.
   *
   * @example
   * const { freedBytes } = await hold.gc({ dryRun: true });
   */
  gc(o?: GcOptions): Promise<GcReport> {
    return gc(this.#ctx, o);
  }

  /**
   * Let go of every session that is still open here, and of the store.
   * Their staged work is discarded; saved work is safe. Followers of `events` come to their end.
   * Every later call throws CLOSED.
   *
   * @example
   * await hold.close();
   */
  async close(): Promise<void> {
    this.#ctx.closes();
    for (const worker of this.#workers) await worker.stop({ graceMs: 0 }).catch(() => {});
    await this.#signals.flush();
    await this.agents.stop();
    await this.retention.stop();
    this.#closing.abort();
    this.#ctx.released = async () => {};
    this.#ctx.watchers.wakeAll();
    for (const holder of this.#ctx.keeper.holders)
      await holder.close({ discard: true, aborts: true }).catch(() => {});
    this.#ctx.keeper.stop();
    await this.#ctx.posted();
    await this.#search.close();
    await this.#ctx.store.close();
    this.#ctx.machine.leave();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
