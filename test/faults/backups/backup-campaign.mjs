/**
 * Kills whoever makes backups at random moments, and looks each time whether the store and the
 * backup that was there are whole (BACKUP-2).
 */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { open, restoreBackup } from "../../../dist/index.js";
import { startPuppet } from "../../support/children/child.mjs";
import { random } from "../../support/random.mjs";

/** A store of some megabytes, so that a backup takes a while. */
export async function largeStore(path, megabytes) {
  const hold = await open(path);
  const session = await hold.session("large");
  for (let i = 0; i < megabytes; i++) {
    for (let n = 0; n < 250; n++)
      session.append({ role: "user", content: `${i} ${n} `.padEnd(4_000, "x") });
    await session.checkpoint();
  }
  await session.complete();
  await hold.close();
}

/** Puts a backup in a place of its own, and looks at everything in it and at what must be there. */
export async function lookInto(backup, to, acknowledged) {
  await restoreBackup(backup, to);
  const hold = await open(to);
  try {
    const wrong = (await hold.verify()).findings.map(({ code }) => `damaged: ${code}`);
    for (const id of acknowledged)
      if ((await hold.checkpoints.get(id)) === undefined) wrong.push(`${id} is gone`);
    return wrong;
  } finally {
    await hold.close();
  }
}

export async function backupCampaign({ seed, kills, torn = false, onProgress = () => {} }) {
  const rng = random(seed);
  const directory = mkdtempSync(join(tmpdir(), "holdfast-backups-"));
  const path = join(directory, "store.db");
  const backup = join(directory, "backups", "backup.db");
  mkdirSync(join(directory, "backups"));
  const result = { seed, kills: 0, left: 0, wrong: [], names: [] };
  try {
    await largeStore(path, 3);
    const before = await open(path);
    const acknowledged = [(await before.checkpoints.latest("large")).id];
    await before.backup(backup);
    await before.close();
    while (result.kills < kills && !(torn && result.wrong.length > 0)) {
      const child = startPuppet();
      await child.ask({ do: "open", path });
      // Every other one in the middle of a backup, the others wherever they happen to be.
      const stops = torn || result.kills % 2 === 0;
      child.tell({ do: "backups", to: backup, stops, torn });
      await child.heard((branch) => branch[stops ? "stands" : "begins"]);
      if (!stops) await sleep(rng.between(0, 100));
      await child.end();
      result.kills += 1;
      if (readdirSync(join(directory, "backups")).some((name) => name.includes(".draft")))
        result.left += 1;
      const to = join(directory, `restored-${result.kills}.db`);
      const wrong = await lookInto(backup, to, acknowledged).catch((error) => [error.message]);
      for (const what of wrong) result.wrong.push(`kill ${result.kills}: ${what}`);
      for (const suffix of ["", "-wal", "-shm", "-anchors"]) rmSync(to + suffix, { force: true });
      onProgress(result);
    }
    const hold = await open(path);
    for (const { code } of (await hold.verify()).findings)
      result.wrong.push(`the store is damaged: ${code}`);
    if (!torn) await hold.backup(backup, { force: true });
    await hold.close();
    result.names = readdirSync(join(directory, "backups"));
    return result;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
