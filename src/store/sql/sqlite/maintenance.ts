/** Looks after the file of a store, and what stands beside it. */
import { dirname } from "node:path";
import type { HoldfastError } from "../../../core/values/errors.js";
import { bytesOf, concernsAbout, filesOf } from "../../place.js";
import {
  type Backup,
  type BackupOptions,
  noTailAnchors,
  type TailAnchors,
} from "../../port/copies.js";
import type { About } from "../../port/info.js";
import type { Freed, Scrubbed } from "../../port/reclaim.js";
import { identityOf, type Presence } from "../../presence.js";
import type { Reserve } from "../../reserve.js";
import type { Database, Maintenance } from "../database.js";
import { type Committer, translate } from "./driver/committer.js";
import type { Driver } from "./driver/driver.js";
import { stay } from "./driver/open-files.js";
import { FORMAT } from "./driver/schema.js";
import { findingsOf } from "./driver/unreadable.js";
import { backup } from "./files/backup.js";
import { copiesBeside } from "./files/copies.js";
import { anchorsForbidden, areAnchorsForbidden } from "./files/look-only.js";
import type { SpaceReclaimer } from "./reclaim-space.js";
import { scrub } from "./scrub.js";
import type { TenantAnchors } from "./tenant-anchors.js";
import type { SqliteWatch } from "./watch.js";
import type { Writes } from "./writes.js";

/** A file that is open, and what the store keeps beside it. */
export interface OpenedFile {
  /** It may be a copy of the one that the caller named. */
  readonly file: string;
  /** The store that the caller named. */
  readonly place: string;
  /** Whether the files are still those that were opened. */
  readonly presence: Presence;
  readonly anchors: Pick<TenantAnchors, "note" | "read" | "close">;
  /** The error of each write, where the store can only be looked at. */
  readonly refuses?: HoldfastError;
  /** Room to delete by, on a full disk. */
  readonly reserve?: Reserve;
  readonly busyMs: number;
  /** Called once the file is closed. */
  readonly leave: () => void;
}

export interface Maintained {
  readonly driver: Driver;
  readonly db: Pick<Database, "read">;
  readonly committer: Committer;
  readonly room: SpaceReclaimer;
  readonly writes: Writes;
  readonly watching: SqliteWatch;
  readonly opened: OpenedFile;
}

export class SqliteMaintenance implements Maintenance {
  readonly #of: Maintained;

  constructor(of: Maintained) {
    this.#of = of;
  }

  async anchors(of?: ReadonlySet<string>): Promise<TailAnchors> {
    return this.#isWithoutAnchors ? noTailAnchors : this.#of.opened.anchors.read(of);
  }

  get #isWithoutAnchors(): boolean {
    const { refuses, place } = this.#of.opened;
    return refuses !== undefined && areAnchorsForbidden(place);
  }

  async check(): Promise<readonly string[]> {
    const rows = await this.#of.db.read("PRAGMA integrity_check", []);
    try {
      return findingsOf(rows, this.#of.opened.place).filter((branch) => branch !== "ok");
    } catch (error) {
      throw translate(error);
    }
  }

  async backup(path: string, o: BackupOptions): Promise<Backup> {
    const { driver, opened } = this.#of;
    opened.presence.check();
    // It has a connection of its own, which outlasts the store if that is closed meanwhile.
    const left = stay(identityOf(opened.file));
    try {
      return await backup(opened, driver.name, path, o);
    } finally {
      left();
    }
  }

  async about(): Promise<About> {
    const { driver, opened } = this.#of;
    const { place } = opened;
    try {
      const files = filesOf(place);
      return {
        kind: "sqlite",
        place,
        engine: `SQLite ${String(driver.prepare("SELECT sqlite_version()").get()?.[0])} (${driver.name})`,
        format: FORMAT,
        diskBytes: bytesOf(files),
        synced: "a write-ahead log, at every commit",
        concerns: [
          ...concernsAbout(dirname(place), files),
          ...(this.#isWithoutAnchors ? [anchorsForbidden(place)] : []),
        ],
      };
    } catch (error) {
      throw translate(error);
    }
  }

  async compact(limit: number): Promise<Freed> {
    const { room, writes, opened } = this.#of;
    // It would use up the room to delete by, and free nothing (RECLAIM-1).
    if (room.isHeld && !room.isShrinkable) return { count: 0, bytes: 0 };
    const freed = await writes.remove(() => writes.giveBack(limit));
    if (freed.count < limit) {
      room.emptyLog();
      await opened.reserve?.make();
    }
    return freed;
  }

  async scrub(): Promise<Scrubbed> {
    const { driver, committer, writes, opened } = this.#of;
    return writes.remove(async () => {
      await committer.drain();
      if (opened.refuses !== undefined) throw opened.refuses;
      const { left } = await scrub(driver, performance.now() + opened.busyMs);
      return { left: [...left, ...copiesBeside(opened.place)] };
    });
  }

  async close(): Promise<void> {
    const { driver, committer, room, watching, opened } = this.#of;
    const { anchors, leave, presence, reserve } = opened;
    watching.end();
    await committer.drain();
    // SQLite moves the log when the last connection is closed, also where there is no room for all
    // of it (RECLAIM-1).
    if (room.isHeld && !presence.gone.aborted && !room.letGo()) reserve?.keepRest();
    reserve?.close();
    await anchors.close();
    presence.close();
    try {
      driver.close();
    } finally {
      leave();
      // SQLite has removed what it needed beside the store.
      reserve?.takeBack();
    }
  }
}
