/**
 * The store in memory: nothing is kept after the process. It is also the reference that other
 * stores are compared to, so it is written to be read, not to be fast. The rules of a change are in
 * memory-contents.ts.
 */
import { firstSeq, isSame, type Save } from "../core/journal/save.js";
import type { Digest } from "../core/values/digest.js";
import { highest } from "../core/values/highest.js";
import type { LineId } from "../core/values/ids.js";
import { textBytes } from "../core/values/json.js";
import { firstFrom } from "./beginnings.js";
import { newIncarnation } from "./incarnation.js";
import {
  applyDoc,
  applyOne,
  Contents,
  docKey,
  indexOf,
  type Kept,
  type KeptDoc,
  pinsOf,
} from "./memory-contents.js";
import type { Applied, Change } from "./port/changes.js";
import { type ClaimQuery, type Granting, MAX_CANDIDATES } from "./port/claims.js";
import { type Backup, noWitnesses, type Witnesses } from "./port/copies.js";
import {
  AGENT,
  type CaptureQuery,
  type Decision,
  type DocChange,
  type DocQuery,
  type DocRow,
  type Pin,
  SNAPSHOT,
} from "./port/documents.js";
import { type InboxQuery, isDrained, isForNow, type Mail, type Posted } from "./port/inbox.js";
import type { About, Counts, Traits } from "./port/info.js";
import type { Beginnings, LineQuery, SaveQuery, SessionQuery } from "./port/queries.js";
import type { Freed, KnownNeeds, Replacement, Scrubbed, Swept } from "./port/reclaim.js";
import type { LineRow, Present, SessionRow } from "./port/rows.js";
import type { Store } from "./port.js";
import { noBackup, storeClosed } from "./refusals.js";

export class MemoryStore implements Store {
  readonly traits: Traits = { durable: false, oneMachine: true, shared: false };
  readonly #contents = new Contents();
  #closed = false;

  async apply(changes: readonly Change[], docs: readonly DocChange[] = []): Promise<Applied> {
    return this.#apply({ changes, docs });
  }

  #apply({ changes, docs }: Decision): Applied {
    const into = this.#open();
    const steps = [
      ...changes.map((change) => () => applyOne(into, change)),
      ...docs.map((doc) => () => applyDoc(into, doc)),
    ];
    for (const [i, step] of steps.entries()) {
      const why = step();
      if (why === undefined) continue;
      into.takeBack();
      return { ok: false, change: i, why };
    }
    into.keep();
    return { ok: true };
  }

  async capture(
    { agent, limit }: CaptureQuery,
    decide: (sessions: readonly Present[]) => Decision | undefined,
  ): Promise<Applied> {
    const own = [...this.#open().sessions.values()]
      .filter(({ head }) => head.agent === agent)
      .sort((a, b) => a.no - b.no);
    const decision = decide(own.slice(0, limit).map((session) => this.#present(session)));
    return decision === undefined ? { ok: true } : this.#apply(decision);
  }

  async doc(
    kind: string,
    id: string,
  ): Promise<(DocRow & { readonly body: string | null }) | undefined> {
    const found = this.#open().docs.get(docKey(kind, id));
    return found && { ...docRow(found), body: found.body };
  }

  async docs({
    kind,
    of,
    before = Number.MAX_SAFE_INTEGER,
    limit,
  }: DocQuery): Promise<readonly DocRow[]> {
    return [...this.#open().docs.values()]
      .filter((doc) => doc.kind === kind && (of === undefined || doc.of === of) && doc.no < before)
      .sort((a, b) => b.no - a.no)
      .slice(0, limit)
      .map(docRow);
  }

  async pins(line: LineId): Promise<readonly Pin[]> {
    return pinsOf(this.#open(), line);
  }

  async now(): Promise<number> {
    return Math.floor(performance.now());
  }

  async session(id: string): Promise<SessionRow | undefined> {
    return this.#open().sessions.get(id);
  }

  async present(id: string): Promise<Present | undefined> {
    const session = this.#open().sessions.get(id);
    return session && this.#present(session);
  }

  #present(session: SessionRow): Present {
    const line = this.#contents.lines.get(session.head.line);
    const end = line?.saves.at(-1)?.save;
    return { session, line: line?.row, end: end && { ...end, items: null, state: null } };
  }

  async sessions({
    agent,
    status,
    tag,
    archived,
    before,
    limit,
  }: SessionQuery): Promise<readonly SessionRow[]> {
    return [...this.#open().sessions.values()]
      .filter(({ no, head, label }) => {
        if (before !== undefined && no >= before) return false;
        if (agent !== undefined && head.agent !== agent) return false;
        if (status !== undefined && head.status !== status) return false;
        if (tag !== undefined && !label.tags.includes(tag)) return false;
        return archived === undefined || label.archived === archived;
      })
      .sort((a, b) => b.no - a.no)
      .slice(0, limit);
  }

  async buriedEpoch(id: string): Promise<number> {
    return this.#open().buried.get(id) ?? 0;
  }

  async idsFrom(beginning: string, limit: number): Promise<Beginnings> {
    const { sessions, lines } = this.#open();
    return {
      sessions: firstFrom(sessions.keys(), beginning, limit),
      lines: firstFrom(lines.keys(), beginning, limit),
    };
  }

  async about(): Promise<About> {
    return {
      kind: "memory",
      place: "memory:",
      engine: "this process",
      format: 1,
      diskBytes: 0,
      synced: "not at all",
      concerns: [
        {
          code: "NOT_KEPT",
          message: "What is stored goes with this process.",
          fix: 'Open a file instead: open("agent.db"), or --store agent.db.',
        },
      ],
    };
  }

  async line(id: string): Promise<LineRow | undefined> {
    return this.#open().lines.get(id)?.row;
  }

  async past(id: string, limit: number): Promise<readonly LineRow[]> {
    const past: LineRow[] = [];
    const { lines } = this.#open();
    for (
      let row = lines.get(id)?.row;
      row !== undefined;
      row = row.origin === null ? undefined : lines.get(row.origin.line)?.row
    ) {
      past.push(row);
      if (past.length === limit) break;
    }
    return past;
  }

  async lines(of: LineQuery): Promise<readonly LineRow[]> {
    const rows = [...this.#open().lines.values()]
      .map(({ row }) => row)
      .filter((row) => {
        if ("session" in of) return row.session === of.session;
        return "origin" in of
          ? row.origin?.line === of.origin
          : row.no < (of.before ?? Number.MAX_SAFE_INTEGER);
      })
      .sort((a, b) => b.no - a.no);
    if ("after" in of)
      return rows
        .filter(({ no }) => no > of.after)
        .slice(-of.limit)
        .reverse();
    return rows.slice(0, "all" in of ? of.limit : undefined);
  }

  async saves(
    line: LineId,
    { from, to, limit, newestFirst, items, state }: SaveQuery,
  ): Promise<readonly Save[]> {
    const all = this.#open().lines.get(line)?.saves ?? [];
    const found: Save[] = [];
    const start = newestFirst ? after(all, to) : indexOf(all, from);
    for (
      let i = start;
      i >= 0 && i < all.length && found.length < limit;
      i += newestFirst ? -1 : 1
    ) {
      const { save } = all[i] as Kept;
      if (save.seq < from || firstSeq(save) > to) break;
      found.push({ ...save, items: items ? save.items : null, state: state ? save.state : null });
    }
    return found;
  }

  async replace(
    line: LineId,
    replacements: readonly Replacement[],
    known: KnownNeeds,
  ): Promise<boolean> {
    const { lines } = this.#open();
    const found = lines.get(line);
    if (
      found === undefined ||
      [...lines.values()].some(({ row }) => row.origin?.line === line && row.no > known.line)
    )
      return false;
    if (pinsOf(this.#contents, line).some(({ doc }) => doc > known.doc)) return false;
    const within = ({ save }: Replacement, seq: number) => firstSeq(save) <= seq && seq <= save.seq;
    for (const replacement of replacements) {
      const there = found.saves
        .filter(({ save }) => within(replacement, save.seq))
        .map(({ save }) => save);
      if (
        there.length !== replacement.was.length ||
        !there.every((save, i) => isSame(save, replacement.was[i] as Save))
      )
        return false;
    }
    const kept = found.saves.filter(
      ({ save }) => !replacements.some((replacement) => within(replacement, save.seq)),
    );
    found.saves = [...kept, ...replacements.map(({ save, refs }) => ({ save, refs }))].sort(
      (a, b) => a.save.seq - b.save.seq,
    );
    for (const { digest, bytes } of replacements.flatMap(({ blobs = [] }) => blobs))
      if (!this.#contents.blobs.has(digest)) this.#contents.blobs.set(digest, bytes.slice());
    return true;
  }

  async cut(line: LineId, after: number, limit: number, dryRun: boolean): Promise<Freed> {
    const { lines } = this.#open();
    const found = lines.get(line);
    if (found === undefined || found.row.owned) return { count: 0, bytes: 0 };
    const forked = [...lines.values()].flatMap(({ row }) =>
      row.origin?.line === line ? row.origin.seq : [],
    );
    const pinned = pinsOf(this.#contents, line).map(({ seq }) => seq);
    const behind = highest(after, dryRun ? pinned : [...pinned, ...forked]);
    const goes = found.saves.filter(({ save }) => save.seq > behind).slice(-limit);
    if (!dryRun) {
      found.saves = found.saves.slice(0, found.saves.length - goes.length);
      if (after === -1 && found.saves.length === 0 && forked.length + pinned.length === 0)
        lines.delete(line);
    }
    return { count: goes.length, bytes: goes.reduce((sum, { save }) => sum + saveBytes(save), 0) };
  }

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.#open().blobs.get(digest)?.slice();
  }

  async sweep(limit: number, dryRun: boolean, after = ""): Promise<Swept> {
    const { lines, blobs } = this.#open();
    const used = new Set(
      [...lines.values()].flatMap(({ saves }) => saves.flatMap(({ refs }) => refs)),
    );
    const behind = [...blobs]
      .filter(([digest]) => digest > after)
      .sort(([a], [b]) => (a < b ? -1 : 1));
    const seen = behind.slice(0, limit);
    const unused = seen.filter(([digest]) => !used.has(digest));
    if (!dryRun) for (const [digest] of unused) blobs.delete(digest);
    const freed = {
      count: unused.length,
      bytes: unused.reduce((sum, [, bytes]) => sum + bytes.length, 0),
    };
    const last = seen.length < behind.length ? seen.at(-1)?.[0] : undefined;
    return last === undefined ? freed : { ...freed, next: last };
  }

  async post(session: string, mail: Mail): Promise<Posted> {
    const { sessions, inboxes } = this.#open();
    if (!sessions.has(session)) return "absent";
    const inbox = inboxes.get(session) ?? new Map<string, Mail & { readonly drained: boolean }>();
    const known = inbox.get(mail.id);
    if (known !== undefined)
      return (known.drained ? isDrained(known.text, mail.text) : known.text === mail.text)
        ? "known"
        : "conflict";
    inboxes.set(session, inbox.set(mail.id, { ...mail, drained: false }));
    return "posted";
  }

  async inbox(session: string, query: InboxQuery): Promise<readonly Mail[]> {
    this.#open();
    const waiting = this.#waiting(session);
    const found =
      "ids" in query
        ? waiting.filter(({ id }) => query.ids.includes(id))
        : waiting.filter(({ due }) => due <= query.dueBy).slice(0, query.limit);
    return found.map(({ id, text, due }) => ({ id, text, due }));
  }

  #waiting(session: string): readonly Mail[] {
    return [...(this.#contents.inboxes.get(session)?.values() ?? [])].filter(
      ({ drained }) => !drained,
    );
  }

  async claim(
    { agent, dueBy, limit }: ClaimQuery,
    grant: Granting,
  ): Promise<readonly SessionRow[]> {
    const { sessions } = this.#open();
    const now = await this.now();
    const granted: SessionRow[] = [];
    const candidates = [...sessions.values()]
      .filter(({ head }) => head.agent === agent)
      .map((row) => {
        const mail = this.#waiting(row.id).filter((one) => isForNow(row.head, one));
        return {
          row,
          due: Math.min(...[row.head, ...mail].map(({ due }) => due ?? Number.POSITIVE_INFINITY)),
        };
      })
      .filter(({ due }) => due <= dueBy)
      .sort((a, b) => a.due - b.due || a.row.no - b.row.no)
      .slice(0, MAX_CANDIDATES);
    for (const { row } of candidates) {
      if (granted.length >= limit) break;
      const lease = grant(row, now);
      if (lease === undefined) continue;
      sessions.set(row.id, { ...row, lease });
      granted.push({ ...row, lease });
    }
    return granted;
  }

  /** There are no other processes. */
  watch(): () => void {
    return () => {};
  }

  watchAll(): () => void {
    return () => {};
  }

  async incarnation(): Promise<string> {
    return this.#open().incarnation;
  }

  async beginIncarnation(): Promise<string> {
    this.#open().incarnation = newIncarnation();
    return this.incarnation();
  }

  async backup(): Promise<Backup> {
    this.#open();
    throw noBackup("What is in memory can be exported (hold.export).");
  }

  async counts(): Promise<Counts> {
    const { sessions, lines, blobs, docs } = this.#open();
    const saves = [...lines.values()].flatMap((line) => line.saves.map(({ save }) => save));
    return {
      agents: new Set([
        ...[...sessions.values()].flatMap(({ head }) => head.agent ?? []),
        ...[...docs.values()].flatMap(({ kind, id }) => (kind === AGENT ? id : [])),
      ]).size,
      sessions: sessions.size,
      checkpoints: saves.filter(({ mark }) => mark !== null).length,
      snapshots: [...docs.values()].filter(({ kind }) => kind === SNAPSHOT).length,
      messages: saves.reduce((sum, save) => sum + (save.items === null ? 0 : save.nMessages), 0),
      sizeBytes:
        saves.reduce((sum, save) => sum + saveBytes(save), 0) +
        [...blobs.values()].reduce((sum, { length }) => sum + length, 0),
    };
  }

  async anchors(): Promise<Witnesses> {
    return noWitnesses;
  }

  async check(): Promise<readonly string[]> {
    this.#open();
    return [];
  }

  async compact(): Promise<Freed> {
    this.#open();
    return { count: 0, bytes: 0 };
  }

  async scrub(): Promise<Scrubbed> {
    this.#open();
    return { left: [] };
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  #open(): Contents {
    if (this.#closed) throw storeClosed();
    return this.#contents;
  }
}

const docRow = ({ no, kind, id, of, version, text }: KeptDoc): DocRow => ({
  no,
  kind,
  id,
  of,
  version,
  text,
});

const saveBytes = ({ items, state, mark }: Save): number =>
  textBytes(items) + textBytes(state) + textBytes(mark);

/** The place of the last save that holds records up to this number. */
const after = (saves: readonly Kept[], seq: number): number =>
  Math.min(indexOf(saves, seq), saves.length - 1);
