/** Puts together the parts of a SQL store from a file that is open and set up. */
import type { Save } from "../../../core/journal/save.js";
import type { DatabaseParts } from "../database.js";
import { SqliteDatabase } from "./database.js";
import { Committer } from "./driver/committer.js";
import type { Driver } from "./driver/driver.js";
import { type OpenedFile, SqliteMaintenance } from "./maintenance.js";
import { SpaceReclaimer } from "./reclaim-space.js";
import { SqliteWatch } from "./watch.js";
import { Writes } from "./writes.js";

export function sqliteParts(driver: Driver, opened: OpenedFile, tenant: string): DatabaseParts {
  const { place, presence, anchors, refuses, reserve, busyMs } = opened;
  reserve?.keep();
  const committer = new Committer(driver, { busyMs, presence, refuses });
  const room = new SpaceReclaimer(driver, place);
  const writes = new Writes(committer, room, place, reserve);
  const watching = new SqliteWatch(driver);
  const saved = (save: Save) => anchors.note(save);
  const db = new SqliteDatabase(driver, committer, writes, {
    tenant,
    busyMs,
    gone: presence.gone,
    saved,
  });
  // A process that was killed may have left a long log on a full disk.
  if (refuses === undefined) room.letGo();
  return {
    db,
    watching,
    maintenance: new SqliteMaintenance({ driver, db, committer, room, writes, watching, opened }),
  };
}
