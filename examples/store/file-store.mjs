/**
 * A store in one file of JSON lines. Each line is what one `apply` changed. The store writes the
 * line and syncs the file before it answers, and reads all lines again when it is opened. It has
 * the required part of the port alone (docs/store.md), and one process has it open at a time.
 */
import fs from "node:fs";
import { dirname, resolve } from "node:path";
import { firstFrom, firstSeq, HoldfastError, storeClosed } from "holdfast/store";

/** Bodies of blobs are bytes. JSON has none. */
const coded = (code) => (name, value) =>
  name === "blobs" ? value.map((blob) => ({ ...blob, bytes: code(blob.bytes) })) : value;
const inText = coded((bytes) => Buffer.from(bytes).toString("base64"));
const inBytes = coded((text) => Buffer.from(text, "base64"));

export class FileStore {
  traits = { durable: true, oneMachine: true, shared: false };
  #path;
  #file;
  #isClosed = false;
  #sessions = new Map();
  /** The epochs of deleted sessions. */
  #buried = new Map();
  /** Each branch has its row, and its saves by rising number. */
  #branches = new Map();
  #blobs = new Map();
  /** How many sessions and branches were made: the number of the last of each. */
  #made = new Map(Object.entries({ session: 0, branch: 0 }));
  #undo = [];

  constructor(path) {
    this.#path = resolve(path);
    lock(`${this.#path}.lock`);
    this.#file = fs.openSync(this.#path, "a+", 0o600);
    // The name of a new file must last, too.
    const directory = fs.openSync(dirname(this.#path), "r");
    fs.fsyncSync(directory);
    fs.closeSync(directory);
    this.#replay();
  }

  async apply(changes) {
    this.#checkOpen();
    for (const [i, change] of changes.entries()) {
      const why = this.#change(change);
      if (why !== undefined) {
        this.#takeBack();
        return { ok: false, change: i, why };
      }
    }
    try {
      const line = Buffer.from(`${JSON.stringify(changes, inText)}\n`);
      for (let at = 0; at < line.length; ) at += fs.writeSync(this.#file, line, at);
      fs.fsyncSync(this.#file);
    } catch (error) {
      // Whether the line is there is unknown. To open the store again tells.
      this.#end();
      throw new HoldfastError("IO", `The store could not write ${this.#path}.`, {}, error);
    }
    this.#undo = [];
    return { ok: true };
  }

  /** Makes a change, or answers why it is refused. Each step notes how it is taken back. */
  #change(change) {
    const { session: id, when, branch, loose, claims = [], saves = [] } = change;
    const { head, label, lease } = change;
    const row = this.#sessions.get(id);
    if (when.absent) {
      if (row !== undefined) return "exists";
      if (when.buried !== undefined && when.buried !== (this.#buried.get(id) ?? 0)) return "epoch";
      if (head && label && lease)
        this.#put(this.#sessions, id, { no: this.#number("session"), id, head, label, lease });
    } else {
      if (row === undefined) return "absent";
      if (when.epoch !== undefined && row.lease.epoch !== when.epoch) return "epoch";
      if (when.until !== undefined && row.lease.until !== when.until) return "until";
      if (when.version !== undefined && row.label.version !== when.version) return "version";
      const next = { head: head ?? row.head, label: label ?? row.label, lease: lease ?? row.lease };
      this.#put(this.#sessions, id, { ...row, ...next });
    }
    const why = this.#begin(id, branch, loose);
    if (why !== undefined) return why;
    for (const claimed of claims) {
      const found = this.#branches.get(claimed);
      if (found === undefined || found.row.owned) return "branch";
      this.#own(found, id);
    }
    for (const save of saves) if (!this.#append(save)) return "tail";
    if (change.remove) {
      this.#put(this.#buried, id, this.#sessions.get(id).lease.epoch);
      this.#put(this.#sessions, id, undefined);
      for (const one of this.#branches.values()) if (one.row.session === id) this.#own(one, null);
    }
    return undefined;
  }

  /** A branch begins at a checkpoint. One that is brought in begins at any save. */
  #begin(session, branch, loose) {
    const known = loose && this.#branches.get(loose.id)?.row;
    if (known && (known.owned || known.text !== loose.text)) return "branch";
    const made = branch ?? (known ? undefined : loose);
    if (made === undefined) return undefined;
    if (made.forkPoint !== null) {
      const found = this.#branches.get(made.forkPoint.branch)?.saves ?? [];
      const save = found.find(({ seq }) => seq === made.forkPoint.seq);
      if (save === undefined || (branch && save.mark === null)) return "forkPoint";
    }
    const owner = { owned: branch !== undefined, session: branch ? session : null };
    const row = { no: this.#number("branch"), ...made, ...owner };
    this.#put(this.#branches, made.id, { row, saves: [] });
    return undefined;
  }

  #own(branch, session) {
    const row = { ...branch.row, owned: session !== null, session };
    this.#put(this.#branches, row.id, { ...branch, row });
  }

  #append({ save, blobs }) {
    const branch = this.#branches.get(save.branch);
    if (branch === undefined) return false;
    const tail = branch.saves.at(-1)?.seq ?? branch.row.forkPoint?.seq ?? 0;
    // One that is there already is there: its answer was lost, and it was sent again.
    if (tail !== firstSeq(save) - 1)
      return branch.saves.some(({ seq, check }) => seq === save.seq && check === save.check);
    branch.saves.push(save);
    this.#undo.push(() => branch.saves.pop());
    for (const { digest, bytes } of blobs)
      if (!this.#blobs.has(digest)) this.#put(this.#blobs, digest, Buffer.from(bytes));
    return true;
  }

  #number(of) {
    this.#put(this.#made, of, this.#made.get(of) + 1);
    return this.#made.get(of);
  }

  /** `undefined` removes. */
  #put(map, key, value) {
    const before = map.get(key);
    const set = (it) => (it === undefined ? map.delete(key) : map.set(key, it));
    set(value);
    this.#undo.push(() => set(before));
  }

  #takeBack() {
    for (const undo of this.#undo.reverse()) undo();
    this.#undo = [];
  }

  /** A line that a killed process did not finish was never acknowledged. It is set aside. */
  #replay() {
    const all = fs.readFileSync(this.#path);
    const whole = all.lastIndexOf("\n") + 1;
    if (whole < all.length) {
      fs.appendFileSync(`${this.#path}.torn`, all.subarray(whole));
      fs.ftruncateSync(this.#file, whole);
    }
    const lines = all.subarray(0, whole).toString().split("\n").slice(0, -1);
    for (const [i, text] of lines.entries()) {
      try {
        for (const change of JSON.parse(text, inBytes))
          if (this.#change(change)) throw new Error("refused");
      } catch (error) {
        this.#end();
        throw new HoldfastError("CORRUPT", `Line ${i + 1} of ${this.#path} is damaged.`, {}, error);
      }
    }
    this.#undo = [];
  }

  async session(id, how) {
    this.#checkOpen();
    const row = this.#sessions.get(id);
    if (row === undefined) return { row, buried: this.#buried.get(id) ?? 0 };
    const branch = this.#branches.get(row.head.branch);
    const last = branch?.saves.at(-1);
    const end = last && { ...last, items: null, state: null };
    return how === "end" ? { row, branch: branch?.row, end, buried: 0 } : { row, buried: 0 };
  }

  async sessions({ beginning, agent, status, tag, archived, before = Infinity, limit }) {
    this.#checkOpen();
    if (beginning !== undefined)
      return firstFrom(this.#sessions.keys(), beginning, limit).map((id) => this.#sessions.get(id));
    const fits = (wanted, is) => wanted === undefined || wanted === is;
    return newestFirst([...this.#sessions.values()])
      .filter(({ no, head }) => no < before && fits(agent, head.agent) && fits(status, head.status))
      .filter(({ label }) => fits(archived, label.archived))
      .filter(({ label }) => tag === undefined || label.tags.includes(tag))
      .slice(0, limit);
  }

  async branches({ kind, id, session, of, after, beginning, before = Infinity, limit }) {
    this.#checkOpen();
    if (kind === "past") {
      const past = [];
      const rowOf = (branch) => this.#branches.get(branch)?.row;
      for (let row = rowOf(id); row && past.length < limit; row = rowOf(row.forkPoint?.branch))
        past.push(row);
      return past;
    }
    if (kind === "beginning")
      return firstFrom(this.#branches.keys(), beginning, limit).map(
        (one) => this.#branches.get(one).row,
      );
    const rows = newestFirst([...this.#branches.values()].map(({ row }) => row));
    if (kind === "session") return rows.filter((row) => row.session === session);
    if (kind === "all") return rows.filter(({ no }) => no < before).slice(0, limit);
    const forks = rows.filter(({ forkPoint }) => forkPoint?.branch === of);
    if (kind === "forks") return forks;
    const later = forks.filter(({ no }) => no > after);
    return later.reverse().slice(0, limit);
  }

  async saves(branch, { from, to, limit, newestFirst: isBackward, items, state }) {
    this.#checkOpen();
    const found = (this.#branches.get(branch)?.saves ?? []).filter(
      (save) => save.seq >= from && firstSeq(save) <= to,
    );
    const without = { ...(items ? {} : { items: null }), ...(state ? {} : { state: null }) };
    if (isBackward) found.reverse();
    return found.slice(0, limit).map((save) => ({ ...save, ...without }));
  }

  async blob(digest) {
    this.#checkOpen();
    return this.#blobs.has(digest) ? Uint8Array.from(this.#blobs.get(digest)) : undefined;
  }

  /** The same clock for all processes of the machine: it runs from its start. */
  async now() {
    return Number(process.hrtime.bigint() / 1_000_000n);
  }

  /** No other process changes it. */
  watch() {
    return () => {};
  }

  async info(how) {
    this.#checkOpen();
    const engine = { kind: "file", engine: "JSON branches", format: 1, concerns: [] };
    const about = { ...engine, place: this.#path, synced: "the file, at every change" };
    if (how !== "counts") return { about };
    const saves = [...this.#branches.values()].flatMap((branch) => branch.saves);
    const texts = saves.flatMap(({ items, state, mark }) => [items ?? "", state ?? "", mark ?? ""]);
    const sizes = [...texts.map((text) => Buffer.from(text)), ...this.#blobs.values()];
    const counts = {
      agents: new Set([...this.#sessions.values()].flatMap(({ head }) => head.agent ?? [])).size,
      sessions: this.#sessions.size,
      checkpoints: saves.filter(({ mark }) => mark !== null).length,
      snapshots: 0,
      messages: saves.reduce((sum, { nMessages }) => sum + nMessages, 0),
      sizeBytes: sizes.reduce((sum, { length }) => sum + length, 0),
    };
    return { about, counts };
  }

  async check() {
    this.#checkOpen();
    return [];
  }

  async close() {
    if (!this.#isClosed) this.#end();
  }

  #end() {
    this.#isClosed = true;
    fs.closeSync(this.#file);
    fs.rmSync(`${this.#path}.lock`, { force: true });
  }

  #checkOpen() {
    if (this.#isClosed) throw storeClosed();
  }
}

const newestFirst = (rows) => rows.sort((a, b) => b.no - a.no);

/** A process that was killed has left its lock: it is taken over. */
function lock(path) {
  const holder = fs.existsSync(path) ? Number(fs.readFileSync(path, "utf8")) : 0;
  try {
    if (holder > 0) process.kill(holder, 0);
  } catch {
    fs.rmSync(path);
    return lock(path);
  }
  if (holder > 0) throw new HoldfastError("BUSY", `Process ${holder} has the store open.`);
  fs.writeFileSync(path, String(process.pid), { flag: "wx" });
}
