/**
 * A process that does what it is told, one order a line, and answers each: for tests in which the
 * parent decides who does what when.
 */
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { open, restoreBackup } from "../../../dist/index.js";
import { hear, say } from "./said.mjs";

let hold;
const taken = [];
const sessions = new Map();

/** What a backup must not do: it is killed in the middle of this. */
function copyIntoPlace(from, to) {
  const bytes = readFileSync(from);
  writeFileSync(to, bytes.subarray(0, bytes.length / 2));
  standStill();
}

function standStill() {
  say({ stands: true });
  hear();
}

const orders = {
  async ready() {},
  async stand() {
    standStill();
  },
  async open({ path, options }) {
    hold = await open(path, options);
    return { pid: process.pid };
  },
  async session({ session, options }) {
    const held = await hold.session(session, options);
    sessions.set(session, held);
    held.signal.addEventListener("abort", () =>
      say({ aborted: session, code: held.signal.reason?.code }),
    );
    return { messages: held.messages.length };
  },
  /** Saves `times` times `count` messages; answers the last checkpoint. */
  async save({ session, text, count = 1, times = 1 }) {
    let checkpoint;
    for (let n = 0; n < times; n++) {
      for (let i = 0; i < count; i++) sessions.get(session).append({ role: "user", content: text });
      checkpoint = await sessions.get(session).checkpoint();
      say({ saved: checkpoint.id });
    }
    return { checkpoint };
  },
  /** Tries again what a failed save left behind. */
  async again({ session }) {
    return { checkpoint: await sessions.get(session).checkpoint() };
  },
  /** Appends from outside, one call a text, and says which was acknowledged. */
  async append({ session, texts }) {
    const taken = [];
    for (const text of texts) {
      taken.push(
        (
          await hold.sessions.append(session, [{ role: "user", content: text }], {
            create: true,
            key: text,
          })
        ).taken,
      );
      say({ appended: text });
    }
    return { taken };
  },
  /** Opens files until the system gives no more. */
  async "take-descriptors"() {
    try {
      for (;;) taken.push(openSync("/dev/null", "r"));
    } catch (error) {
      return { code: error.code };
    }
  },
  /** Opens a store once more, as another part of a program would. */
  async "open-again"({ path }) {
    await (await open(path)).close();
  },
  async "give-descriptors"() {
    for (const fd of taken.splice(0)) closeSync(fd);
  },
  async "close-session"({ session }) {
    await sessions.get(session).close();
  },
  async signal({ session }) {
    const { aborted, reason } = sessions.get(session).signal;
    return { aborted, code: reason?.code };
  },
  async delete({ session }) {
    await hold.sessions.delete(session);
  },
  async list({ session }) {
    return { checkpoints: (await hold.checkpoints.list(session, { limit: 1000 })).items.length };
  },
  async latest({ session }) {
    return { checkpoint: await hold.checkpoints.latest(session) };
  },
  async prune({ session, keep }) {
    return hold.checkpoints.prune(session, { keep });
  },
  async gc() {
    return hold.gc();
  },
  async verify() {
    return hold.verify();
  },
  async about() {
    return hold.info();
  },
  async backup({ to, force }) {
    return hold.backup(to, { force });
  },
  /**
   * Makes one backup after the other. `stops`: stands still in the middle of the first. `torn`:
   * that into its place, and not beside it.
   */
  async backups({ to, stops = false, torn = false }) {
    if (torn) {
      await hold.backup(`${to}.whole`, { force: true });
      copyIntoPlace(`${to}.whole`, to);
    }
    for (;;) {
      say({ begins: true });
      await hold.backup(to, { force: true, ...(stops && { onProgress: standStill }) });
    }
  },
  async restore({ from, to, force }) {
    return restoreBackup(from, to, { force });
  },
  async close() {
    await hold?.close();
  },
  async setuid({ uid }) {
    process.setgid(uid);
    process.setuid(uid);
  },
};

createInterface({ input: process.stdin }).on("line", async (line) => {
  const order = JSON.parse(line);
  try {
    say({ answer: order.do, ...(await orders[order.do](order)) });
  } catch (error) {
    const { name, code, message, details, retryable } = error;
    say({ answer: order.do, error: { name, code, message, details, retryable } });
  }
});
