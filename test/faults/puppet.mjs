/** A process that does what it is told, one order a line, and answers each: for tests in which the parent decides who does what when. */
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { open, restoreBackup } from "../../dist/index.js";
import { say } from "./said.mjs";

let hold;
const sessions = new Map();

/** What a backup must not do. */
async function copyIntoPlace(from, to) {
  const bytes = readFileSync(from);
  writeFileSync(to, "");
  for (let at = 0; at < bytes.length; at += 262_144) {
    appendFileSync(to, bytes.subarray(at, at + 262_144));
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

const orders = {
  async ready() {},
  async open({ path, options }) {
    hold = await open(path, options);
    return { pid: process.pid };
  },
  async session({ session, options }) {
    const held = await hold.session(session, options);
    sessions.set(session, held);
    held.signal.addEventListener("abort", () => say({ aborted: session, code: held.signal.reason?.code }));
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
  async backup({ to, force }) {
    return hold.backup(to, { force });
  },
  /** Makes one backup after the other. `torn`: into its place, and not beside it. */
  async backups({ to, torn = false }) {
    if (torn) await hold.backup(`${to}.whole`, { force: true });
    for (;;) {
      say({ begins: true });
      await (torn ? copyIntoPlace(`${to}.whole`, to) : hold.backup(to, { force: true }));
    }
  },
  async restore({ from, to, force }) {
    return restoreBackup(from, to, { force });
  },
  async close() {
    await hold.close();
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
