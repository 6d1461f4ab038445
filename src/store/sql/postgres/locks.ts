/** Advisory locks: their keys (POSTGRES-5), and the order that all take them in. */
import { createHash } from "node:crypto";
import type { Lock, SqlCall } from "../database.js";
import type { Statement } from "./pg-client.js";

const MAX_KEYS = 10_000;

export class Locks {
  /** What all that has to do with blobs locks. */
  readonly blobs: string;
  readonly #space: string;
  readonly #keys = new Map<string, string>();

  /** `space` is what keys are made of. */
  constructor(space: string, tenant: string) {
    this.#space = `${space}\0${tenant}\0`;
    this.blobs = this.#key("blobs", "");
  }

  session(id: string): string {
    return this.#key("session", id);
  }

  /**
   * Always in one order, also with those of `lockAll`, which come later: so jobs never wait for
   * each other in a circle.
   */
  take(locks: readonly Lock[]): readonly Statement[] {
    const keys = new Map<string, { readonly order: string; readonly shared: boolean }>();
    for (const lock of locks) {
      const [kind, name] = namesOf(lock);
      const key = this.#key(kind.slice(2), name);
      const shared =
        ("blobs" in lock && lock.blobs === "use") || ("pins" in lock && lock.pins === "take");
      keys.set(key, { order: `${kind} ${key}`, shared });
    }
    return [...keys]
      .sort(([, a], [, b]) => (a.order < b.order ? -1 : 1))
      .map(([key, { shared }]) => ({
        text: `SELECT pg_advisory_xact_lock${shared ? "_shared" : ""}($1)`,
        params: [key],
      }));
  }

  /** As `Database.tryLock`. LOCKS-1 also holds for claims, which do not wait. */
  readonly tryLock = (session: string): SqlCall => ({
    text: "SELECT pg_try_advisory_xact_lock(?)",
    params: [this.session(session)],
    changes: false,
  });

  /** As `Database.lockAll`. */
  readonly lockAll = (sessions: readonly string[]): readonly SqlCall[] =>
    [...new Set(sessions.map((session) => this.session(session)))]
      .sort()
      .map((key) => ({ text: "SELECT pg_advisory_xact_lock(?)", params: [key], changes: false }));

  #key(kind: string, name: string): string {
    const text = `${this.#space}${kind}\0${name}`;
    let key = this.#keys.get(text);
    if (key === undefined) {
      key = createHash("sha256").update(text).digest().readBigInt64BE(0).toString();
      if (this.#keys.size >= MAX_KEYS) this.#keys.clear();
      this.#keys.set(text, key);
    }
    return key;
  }
}

/**
 * What a lock is called, behind its place in the order that all take them in: a capture has that of
 * pins before it knows its sessions.
 */
function namesOf(lock: Lock): readonly [kind: string, name: string] {
  if ("session" in lock) return ["2 session", lock.session];
  if ("branch" in lock) return ["3 branch", lock.branch];
  return "blobs" in lock ? ["4 blobs", ""] : ["1 pins", ""];
}
