/** Leaves nothing in the file, or in its log, of what was replaced or removed. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Scrubbed } from "../../port/reclaim.js";
import { translate } from "./driver/committer.js";
import { type Driver, failureOf } from "./driver/driver.js";

/**
 * The file is made anew from what is in it: neither free pages nor gaps inside of pages hold
 * anything else then. The log still does, until it is moved into the file and cut to nothing, which
 * waits for all who are just reading from it.
 */
export async function scrub(db: Driver, deadline: number): Promise<Scrubbed> {
  const left: string[] = [];
  const tries = async (what: string, run: () => boolean): Promise<void> => {
    for (;;) {
      try {
        if (run()) return;
      } catch (error) {
        if (failureOf(error) !== "busy") throw translate(error);
      }
      if (performance.now() > deadline) return void left.push(what);
      await sleep(2 + Math.random() * 18);
    }
  };
  await tries("free pages of the file: others kept it busy. Run it again.", () => {
    vacuum(db);
    return true;
  });
  await tries(
    "the write-ahead log: others were reading from it. Run it again, or close the store everywhere.",
    () => {
      return db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get()?.[0] === 0;
    },
  );
  return { left };
}

function vacuum(db: Driver): void {
  // The copy that it makes is as large as the store: not in memory.
  db.exec("PRAGMA temp_store = FILE");
  try {
    db.exec("VACUUM");
  } finally {
    db.exec("PRAGMA temp_store = MEMORY");
  }
}
