/**
 * A process that does one thing to a store in a directory, as it is told: for tests in which
 * another process matters.
 */
import { Lock } from "../../../dist/store/dir/lock/lock.js";
import { openDir } from "../../../dist/store/dir/open.js";
import { hear, say } from "./said.mjs";

const order = hear();

const orders = {
  /** Takes the lock when the parent says so, and says whether it has it. */
  async race({ path, busyMs }) {
    say({ ready: true });
    hear();
    const lock = new Lock(path);
    try {
      await lock.take(busyMs);
      say({ won: true });
    } catch (error) {
      say({ won: false, code: error.code });
    }
    hear();
  },
  /** Opens the store, writes, and blocks with the lock until it is killed. */
  async hold({ path, changes }) {
    const store = await openDir(path);
    for (const change of changes) await store.apply(change);
    say({ held: process.pid });
    hear();
  },
  /** Reads a line over and over, and says what it saw of its saves. */
  async follow({ path, branch, until }) {
    const store = await openDir(path);
    say({ ready: true });
    const wrong = [];
    let seen = 0;
    while (seen < until) {
      const saves = await store.saves(branch, {
        from: 1,
        to: 2 ** 32 - 1,
        limit: 10_000,
        items: true,
        state: true,
      });
      if (saves.length < seen) wrong.push(`${saves.length} after ${seen}`);
      for (const [i, save] of saves.entries()) {
        if (save.seq !== 2 * (i + 1) || JSON.parse(save.items).length !== 2)
          wrong.push(`save ${i} is ${save.seq}`);
      }
      seen = saves.length;
    }
    await store.close();
    say({ wrong, seen });
  },
  async post({ path, session, mail }) {
    const store = await openDir(path);
    const answers = [];
    for (const one of mail) answers.push(await store.inbox.post(session, one));
    await store.close();
    say({ answers });
  },
};

await orders[order.do](order);
