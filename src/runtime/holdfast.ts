/** An open store, and all that can be done with it. */
import { checkText, MAX_REASON } from "../core/checkpoint.js";
import { isDigest } from "../core/digest.js";
import { checkName, checkpointPlace, sessionId } from "../core/ids.js";
import { encode, type Json } from "../core/json.js";
import type { Counts, Store } from "../store/port.js";
import { type BoundAgent, bind } from "./agent/bound.js";
import { agent } from "./agent/define.js";
import type { Agent, AgentDef, Tool } from "./agent/definition.js";
import { Runs } from "./agent/runs.js";
import { Checkpoints } from "./checkpoints.js";
import { Effects } from "./effects/people.js";
import { POLICIES } from "./effects/repeats.js";
import { type EventOptions, follow, type SessionEvent } from "./events.js";
import { type ExportFilter, type ExportOptions, exportRows } from "./export.js";
import { type Clock, Ground, type Machine } from "./ground.js";
import { type ExportedRows, type ImportOptions, type ImportReport, importRows } from "./import.js";
import { fork, openSession, type SessionOptions } from "./opening.js";
import { flag, invalid, oneOf, options } from "./options.js";
import { cancelSession, refuseTooManySignals, takeIn, takeInWhatIsLeft } from "./outside.js";
import { type ForkOptions, notFound, type Session } from "./session.js";
import { cutLines, type SessionSummary, Sessions, summaryOf } from "./sessions.js";
import type { Telemetry } from "./telemetry.js";
import { type Verdict, type VerifyOptions, verifyStore } from "./verify.js";
import { Worker, type WorkerOptions } from "./worker.js";

const SWEPT_AT_ONCE = 500;

export class Holdfast implements AsyncDisposable {
  readonly sessions: Sessions;
  readonly checkpoints: Checkpoints;
  readonly #ground: Ground;
  readonly effects: Effects;
  readonly #runs: Runs;
  readonly #workers = new Set<Worker>();
  readonly #closing = new AbortController();

  /** Made by `open`, not by hand. */
  constructor(store: Store, machine: Machine, clock: Clock, leaseMs: number, telemetry?: Telemetry) {
    this.#ground = new Ground(store, machine, clock, leaseMs, telemetry);
    this.#ground.released = (id, left) => takeInWhatIsLeft(this.#ground, id, left);
    this.#runs = new Runs(this.#ground);
    this.effects = new Effects(this.#ground);
    this.sessions = new Sessions(this.#ground);
    this.checkpoints = new Checkpoints(this.#ground);
  }

  /** Binds an agent to this store. */
  agent<C = undefined, S = Record<string, Json>, O = string, T extends Record<string, any> = {}>(
    definition: AgentDef<{ [K in keyof T]: Tool<T[K], any, C, S> }, C, S, O>,
  ): BoundAgent<C, S, O>;
  agent<C, S, O>(defined: Agent<C, S, O>): BoundAgent<C, S, O>;
  agent(given: Agent | AgentDef<{}, any, any, any>): BoundAgent {
    return bind(this.#ground, this.#runs, "model" in given ? agent(given) : given);
  }

  /** Opens a session for work, making it where there is none, and holds its lease until it is closed. */
  session<S extends object = Record<string, Json>>(id: string, o?: SessionOptions): Promise<Session<S>> {
    return openSession<S>(this.#ground, id, o);
  }

  /** A new session that begins at a checkpoint. Nothing is copied, and nobody holds it yet. */
  async fork(at: string, o: ForkOptions): Promise<SessionSummary> {
    const { id, effects } = options(o, "fork", ["id", "effects"]);
    const policy = oneOf(effects, "effects", POLICIES) ?? "ask";
    const place = checkpointPlace(at);
    if (place === undefined) throw notFound(at);
    const { head, label } = await fork(this.#ground, place, id, policy);
    return summaryOf(head, label);
  }

  /** What happened in a session, from the beginning or a cursor on, and then live, from any process. Ends when the session is deleted. */
  events(id: string, o?: EventOptions): AsyncIterable<SessionEvent> {
    return follow(this.#ground, id, o, this.#closing.signal);
  }

  /** Stops a session, whoever holds it. A holder learns of it at its next save or heartbeat; where there is none, it is done here. */
  async cancel(id: string, reason = "cancelled"): Promise<void> {
    await cancelSession(this.#ground, sessionId(id), checkText(reason, "reason", MAX_REASON));
  }

  /** Gives a value to whatever in a session waits for it by name (`ctx.wait`), or will. The same key is the same signal. */
  async signal(id: string, name: string, value: Json, o?: { readonly key?: string }): Promise<void> {
    const { key } = options(o, "signal", ["key"]);
    const session = sessionId(id);
    const doc = { kind: "signal", name: checkName(name, "signal name"), value: encode(value, "signal").value } as const;
    await refuseTooManySignals(this.#ground, session);
    await this.#ground.post(session, doc, key === undefined ? {} : { id: `signal:${doc.name}:${checkName(key, "key")}` });
    await takeIn(this.#ground, session);
  }

  /** Takes turns that were submitted, and sessions whose holder died, and runs them. */
  worker(o: WorkerOptions): Worker {
    const worker = new Worker(this.#ground, this.#runs, o);
    this.#workers.add(worker);
    return worker;
  }

  /** The bytes of a file part, verified. */
  async blob(digest: string): Promise<Uint8Array | undefined> {
    if (!isDigest(digest)) throw invalid("digest", "it is not the digest of a file part");
    return (await this.#ground.store.blob(digest)) === undefined ? undefined : this.#ground.journal.blob(digest);
  }

  /**
   * A session, an agent's sessions or all of them as one stream of text, a row of JSON at a time: verified on the way out, each session as
   * it was at one moment, with all its lines and what it shares with others. Nothing is held up meanwhile.
   */
  export(what?: ExportFilter, o?: ExportOptions): AsyncIterable<string> {
    return exportRows(this.#ground, what, o);
  }

  /**
   * Takes in what `export` gave, in any store. Run twice, or after it was interrupted, it goes on where it was; a session is seen once it
   * is whole. Sessions keep their ids, checkpoints, forks and digests. One that cannot be taken in is named among the conflicts.
   */
  import(rows: ExportedRows, o?: ImportOptions): Promise<ImportReport> {
    return importRows(this.#ground, rows, o);
  }

  /** Counted, not estimated. `sizeBytes` is what was stored; a file on disk is a little larger. */
  stats(): Promise<Counts> {
    return this.#ground.store.counts();
  }

  /** Reads everything and says what is damaged. */
  verify(o?: VerifyOptions): Promise<Verdict> {
    return verifyStore(this.#ground, o);
  }

  /** Frees what nothing refers to any more: pasts of deleted sessions that no fork needs, and blobs. */
  async gc(o?: { readonly dryRun?: boolean }): Promise<{ readonly freedBytes: number }> {
    const dryRun = flag(options(o, "gc", ["dryRun"]).dryRun, "dryRun") ?? false;
    const { store, imports } = this.#ground;
    const lines = await store.lines({ all: true });
    let freedBytes = await cutLines(
      this.#ground,
      lines.filter(({ id, owned }) => !owned && ![...imports].some((brought) => brought.has(id))),
      lines,
      dryRun,
    );
    for (let count = SWEPT_AT_ONCE; count === SWEPT_AT_ONCE; ) {
      const swept = await store.sweep(dryRun ? Number.MAX_SAFE_INTEGER : SWEPT_AT_ONCE, dryRun);
      freedBytes += swept.bytes;
      count = dryRun ? 0 : swept.count;
    }
    if (!dryRun) await store.compact();
    return { freedBytes };
  }

  /** Lets go of every session that is still open here, and of the store. Staged work of theirs is discarded; saved work is safe. */
  async close(): Promise<void> {
    for (const worker of this.#workers) await worker.stop({ graceMs: 0 }).catch(() => {});
    this.#closing.abort();
    this.#ground.released = async () => {};
    this.#ground.watchers.wakeAll();
    for (const holder of this.#ground.keeper.holders) await holder.close({ discard: true, aborts: true }).catch(() => {});
    this.#ground.keeper.stop();
    await this.#ground.posted();
    await this.#ground.store.close();
    this.#ground.machine.leave();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
