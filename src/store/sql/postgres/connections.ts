/**
 * Connections to Postgres: a pool of a stated size, and a bounded queue in front of it.
 *
 * Failures are tried again with a pause that grows and differs, until `busyMs` have passed since
 * the first of them. Whether a commit whose answer was lost was made is not known: whoever tries
 * again is told so.
 *
 * The pool is our own: of `pg`'s, each use was measured to cost a tenth of a save on one machine.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError } from "../../../core/values/errors.js";
import type { Link } from "./concerns.js";
import { failureOf, isRefused, translate } from "./failures.js";
import { refuseCut } from "./names.js";
import {
  type Answer,
  Batch,
  type Client,
  type ConnectOptions,
  loadPg,
  type Statement,
} from "./pg-client.js";

export interface ConnectionSettings {
  readonly url: string;
  readonly connections: number;
  readonly queue: number;
  readonly busyMs: number;
  readonly prepare: boolean;
}

/**
 * A connection that is one caller's for now. `withinMs` says how long an answer may take; after
 * that the connection is given up: a network can fall silent without a word.
 */
export interface Connection {
  /** `each` is told every answer as soon as it has come. */
  send(
    statements: readonly Statement[],
    each?: (answer: Answer, index: number) => void,
  ): Promise<readonly Answer[]>;
}

export interface UseOptions {
  readonly withinMs?: number;
  /** Whether what the server gave up is tried again here; otherwise the caller is told. */
  readonly retriesConflicts?: boolean;
}

const SHORTEST_MS = 5;
const LONGEST_MS = 250;
/** Longer than a read takes, but for those that go over the whole store. */
const ANSWER_MS = 10_000;
const END_MS = 2_000;
/** Unused for so long, a connection is given back to the server. */
const IDLE_MS = 30_000;

interface Idle {
  readonly client: Client;
  readonly since: number;
}

export class Connections {
  readonly #settings: ConnectionSettings;
  readonly #connect: () => Promise<Client>;
  /** The one used last comes first, so that the others grow old. */
  readonly #idle: Idle[] = [];
  readonly #waiting: (() => void)[] = [];
  readonly #drained: (() => void)[] = [];
  readonly #reaper: NodeJS.Timeout;
  #free: number;
  /** Calls that have not ended, also those that wait to try again. */
  #using = 0;
  /**
   * Whether a server has ever answered. Before that, a refused connection is a wrong address, and
   * nothing to wait for.
   */
  #reached = false;
  #closed = false;
  #link: Link | undefined;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#free = settings.connections;
    const { Client } = loadPg();
    this.#connect = async () => {
      const client = new Client(connectOptions(settings));
      // As the driver has read them, from the address or the environment.
      for (const what of ["database", "user"] as const) refuseCut(client[what] ?? "", what);
      // An idle connection that ends is no news: the next caller gets another.
      client.on("error", () => this.#drop(client));
      client.on("end", () => this.#drop(client));
      try {
        await client.connect();
      } catch (error) {
        // The driver leaves the socket open, and its timer would destroy it with an error that no
        // listener hears: the process would end.
        client.connection.stream.destroy();
        throw error;
      }
      const { remoteAddress: address, encrypted = false } = client.connection.stream;
      this.#link = { address, encrypted };
      return client;
    };
    this.#reaper = setInterval(() => this.#reap(), IDLE_MS / 2).unref();
  }

  get size(): number {
    return this.#settings.connections;
  }

  /** How the newest connection goes to the server. */
  get link(): Link | undefined {
    return this.#link;
  }

  /** One connection beside the pool, for what stays on it. */
  apart(): Promise<Client> {
    return this.#connect();
  }

  /**
   * Runs `work` on a connection, again while that can help. `again` says that an earlier try may
   * have been done.
   */
  async use<T>(
    work: (connection: Connection, again: boolean) => Promise<T>,
    options: UseOptions = {},
  ): Promise<T> {
    this.#using += 1;
    try {
      return await this.#patiently(work, options);
    } finally {
      this.#using -= 1;
      if (this.#using === 0) for (const resolve of this.#drained.splice(0)) resolve();
    }
  }

  async #patiently<T>(
    work: (connection: Connection, again: boolean) => Promise<T>,
    { withinMs = ANSWER_MS, retriesConflicts = true }: UseOptions,
  ): Promise<T> {
    let deadline: number | undefined;
    let again = false;
    for (let pauseMs = SHORTEST_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_MS)) {
      try {
        return await this.#once(work, again, withinMs);
      } catch (error) {
        const failure = failureOf(error);
        const isFinal = failure === "other" || (failure === "conflict" && !retriesConflicts);
        if (isFinal || this.#closed || (!this.#reached && isRefused(error))) throw translate(error);
        if (failure === "lost") again = true;
        deadline ??= performance.now() + this.#settings.busyMs;
        if (performance.now() > deadline) throw translate(error);
      }
      await sleep(pauseMs * (0.5 + Math.random()));
      if (this.#closed)
        throw new HoldfastError("CLOSED", "The store was closed before this could be tried again.");
    }
  }

  async #once<T>(
    work: (connection: Connection, again: boolean) => Promise<T>,
    again: boolean,
    withinMs: number,
  ): Promise<T> {
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait();
    let client = this.#idle.pop()?.client;
    let usable = false;
    try {
      if (client === undefined) {
        client = await this.#connect();
        this.#reached = true;
      } else client.ref();
      const own = client;
      const done = await work(
        { send: (statements, each) => this.#send(own, statements, withinMs, each) },
        again,
      );
      usable = true;
      return done;
    } catch (error) {
      // What the server itself refused leaves the connection as it was, once a transaction is taken
      // back; but of statements that were prepared on the way nobody knows.
      if (client !== undefined && failureOf(error) !== "lost" && !this.#settings.prepare)
        usable = await takenBack(client);
      throw error;
    } finally {
      if (client !== undefined) this.#giveBack(client, usable);
      this.#leave();
    }
  }

  async #send(
    client: Client,
    statements: readonly Statement[],
    withinMs: number,
    each?: (answer: Answer, index: number) => void,
  ): Promise<readonly Answer[]> {
    const batch = new Batch(statements, this.#settings.prepare, each);
    client.query(batch);
    const timer = setTimeout(() => client.connection.stream.destroy(), withinMs);
    try {
      return await batch.answers;
    } finally {
      clearTimeout(timer);
    }
  }

  #giveBack(client: Client, usable: boolean): void {
    if (usable && !this.#closed) {
      // Never the reason that a process stays alive.
      client.unref();
      this.#idle.push({ client, since: performance.now() });
    } else void end(client);
  }

  #drop(client: Client): void {
    const at = this.#idle.findIndex((idle) => idle.client === client);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  #reap(): void {
    const oldest = performance.now() - IDLE_MS;
    while (this.#idle.length > 0 && (this.#idle[0] as Idle).since < oldest)
      void end((this.#idle.shift() as Idle).client);
  }

  async #wait(): Promise<void> {
    const { queue, busyMs, connections } = this.#settings;
    if (this.#waiting.length >= queue) {
      throw new HoldfastError(
        "BUSY",
        `All ${connections} connections to Postgres are in use, and ${queue} callers wait already. Wait for some of them, or raise \`connections\` or \`queue\`.`,
        { limit: queue },
      );
    }
    await new Promise<void>((resolve, reject) => {
      const go = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1);
        reject(
          new HoldfastError(
            "BUSY",
            `All ${connections} connections to Postgres were in use for ${busyMs} ms. Try again, or raise \`connections\`.`,
            { limit: connections },
          ),
        );
      }, busyMs);
      this.#waiting.push(go);
    });
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next) return next();
    this.#free += 1;
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#reaper);
    if (this.#using > 0) await new Promise<void>((resolve) => this.#drained.push(resolve));
    await Promise.all(this.#idle.splice(0).map(({ client }) => end(client)));
  }
}

/** Ends a connection that is perhaps all that the process lives for by now. */
export async function end(client: Client): Promise<void> {
  client.ref();
  const timer = setTimeout(() => client.connection.stream.destroy(), END_MS);
  await client.end().catch(() => {});
  clearTimeout(timer);
}

async function takenBack(client: Client): Promise<boolean> {
  try {
    await client.query("ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

const connectOptions = ({ url, busyMs }: ConnectionSettings): ConnectOptions => ({
  connectionString: url,
  application_name: "holdfast",
  connectionTimeoutMillis: Math.max(1_000, busyMs),
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
});
