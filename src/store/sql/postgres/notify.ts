/**
 * Tells other processes that sessions have changed, and hears it from them. A hint only: saves do
 * not wait for it, and what is lost with a process or a connection is made good by looking now and
 * then.
 *
 * What is sent is a digest, and so is the channel: every role of the database may listen, and shall
 * not learn names. They are digests with the store's own id (POSTGRES-5), so that a name cannot be checked
 * by guessing it. A NOTIFY inside every save would make all commits of the database wait for each
 * other; many changes are told in one, apart from them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { digest } from "../../../core/values/digest.js";
import type { Watching } from "../database.js";
import { type Connections, end } from "./connections.js";
import type { Client } from "./pg-client.js";

const TOLD_EVERY_MS = 20;
const NAME_CHARS = 16;
/** A notice holds less than 8,000 bytes. */
const AT_ONCE = 400;
const RECONNECT_MS = 500;
const LONGEST_MS = 30_000;

export class Notifier implements Watching {
  readonly #connections: Connections;
  readonly #channel: string;
  readonly #space: string;
  readonly #wakes = new Map<string, Set<() => void>>();
  #changed = new Set<string>();
  #timer: NodeJS.Timeout | undefined;
  #listening: Client | undefined;
  #running = false;
  #closed = false;

  constructor(connections: Connections, space: string, tenant: string) {
    this.#connections = connections;
    this.#channel = `holdfast_${digest(space).slice(0, NAME_CHARS)}`;
    this.#space = `${space}\0${tenant}`;
  }

  tell(session: string): void {
    if (this.#closed) return;
    this.#changed.add(session);
    this.#timer ??= setTimeout(() => void this.#flush(), TOLD_EVERY_MS).unref();
  }

  watch(session: string | undefined, wake: () => void): () => void {
    const name = session === undefined ? this.#tenantName : this.#nameOf(session);
    const wakes = this.#wakes.get(name) ?? new Set();
    this.#wakes.set(name, wakes);
    const own = () => wake();
    wakes.add(own);
    if (!this.#running) void this.#listen();
    return () => {
      wakes.delete(own);
      if (wakes.size === 0 && this.#wakes.get(name) === wakes) this.#wakes.delete(name);
      if (this.#wakes.size === 0) void this.#listening?.end().catch(() => {});
    };
  }

  async close(): Promise<void> {
    this.#wakes.clear();
    await this.#flush();
    this.#closed = true;
    if (this.#listening) await end(this.#listening);
  }

  get #tenantName(): string {
    return digest(this.#space).slice(0, NAME_CHARS);
  }

  #nameOf(session: string): string {
    return digest(`${this.#space}\0${session}`).slice(0, NAME_CHARS);
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const names = [...this.#changed].map((session) => this.#nameOf(session));
    this.#changed = new Set();
    for (let i = 0; i < names.length; i += AT_ONCE) {
      const params = [this.#channel, [this.#tenantName, ...names.slice(i, i + AT_ONCE)].join("")];
      await this.#connections
        .use((connection) => connection.send([{ text: "SELECT pg_notify($1, $2)", params }]))
        .catch(() => {});
    }
  }

  /** Listens as long as anybody follows anything. */
  async #listen(): Promise<void> {
    this.#running = true;
    for (
      let pauseMs = RECONNECT_MS;
      this.#wakes.size > 0 && !this.#closed;
      pauseMs = Math.min(2 * pauseMs, LONGEST_MS)
    ) {
      let client: Client | undefined;
      try {
        client = await this.#connections.apart();
        this.#listening = client;
        const listening = client;
        const ended = new Promise<void>((resolve) => listening.on("end", () => resolve()));
        client.on("notification", ({ payload = "" }) => {
          for (let i = 0; i < payload.length; i += NAME_CHARS)
            for (const wake of this.#wakes.get(payload.slice(i, i + NAME_CHARS)) ?? []) wake();
        });
        client.unref();
        await client.query(`LISTEN "${this.#channel}"`);
        pauseMs = RECONNECT_MS / 2;
        // Whatever happened before it listened, or while it could not.
        for (const wakes of this.#wakes.values()) for (const wake of wakes) wake();
        if (this.#wakes.size > 0 && !this.#closed) await ended;
      } catch {
        // Polling goes on; this is tried again. A standby does not let anybody listen.
      }
      if (client) await end(client);
      this.#listening = undefined;
      if (this.#wakes.size > 0 && !this.#closed)
        await sleep(pauseMs * (0.5 + Math.random()), undefined, { ref: false });
    }
    this.#running = false;
  }
}
