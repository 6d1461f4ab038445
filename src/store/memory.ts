/**
 * The store in memory: nothing is kept after the process. It is also the reference that other
 * stores are compared to, so it is written to be read, not to be fast. The rules of a change are in
 * memory-contents.ts.
 */
import { firstSeq, isSame, type Save } from "../core/journal/save.js";
import type { Digest } from "../core/values/digest.js";
import { highest } from "../core/values/highest.js";
import type { BranchId } from "../core/values/ids.js";
import { textBytes } from "../core/values/json.js";
import { firstFrom } from "./beginnings.js";
import { newGeneration } from "./generation.js";
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
import { MAX_CANDIDATES, type StoreClaims } from "./port/claims.js";
import { noTailAnchors, type StoreCopies } from "./port/copies.js";
import {
  AGENT,
  type Decision,
  type DocChange,
  type DocRow,
  SNAPSHOT,
  type StoreDocuments,
} from "./port/documents.js";
import { type InboxMessage, isDrained, isForNow, type StoreInbox } from "./port/inbox.js";
import type { About, Counts, Info, Traits } from "./port/info.js";
import type { BranchQuery, SaveQuery, SessionQuery } from "./port/queries.js";
import type { Replacement, StoreReclaim } from "./port/reclaim.js";
import type { BranchRow, Present, SessionFound, SessionRow } from "./port/rows.js";
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

  readonly documents: StoreDocuments = {
    get: async (kind, id) => {
      const found = this.#open().docs.get(docKey(kind, id));
      return found && { ...docRow(found), body: found.body };
    },
    list: async ({ kind, of, before = Number.MAX_SAFE_INTEGER, limit }) =>
      [...this.#open().docs.values()]
        .filter(
          (doc) => doc.kind === kind && (of === undefined || doc.of === of) && doc.no < before,
        )
        .sort((a, b) => b.no - a.no)
        .slice(0, limit)
        .map(docRow),
    pins: async (branch) => pinsOf(this.#open(), branch),
    capture: async ({ agent, limit }, decide) => {
      const own = [...this.#open().sessions.values()]
        .filter(({ head }) => head.agent === agent)
        .sort((a, b) => a.no - b.no);
      const decision = decide(own.slice(0, limit).map((row) => this.#present(row)));
      return decision === undefined ? { ok: true } : this.#apply(decision);
    },
  };

  async now(): Promise<number> {
    return Math.floor(performance.now());
  }

  async session(id: string, how?: "end"): Promise<SessionFound> {
    const { sessions, buried } = this.#open();
    const row = sessions.get(id);
    if (row === undefined) return { row, buried: buried.get(id) ?? 0 };
    return how === undefined ? { row, buried: 0 } : { ...this.#present(row), buried: 0 };
  }

  #present(row: SessionRow): Present {
    const branch = this.#contents.branches.get(row.head.branch);
    const end = branch?.saves.at(-1)?.save;
    return { row, branch: branch?.row, end: end && { ...end, items: null, state: null } };
  }

  async sessions(query: SessionQuery): Promise<readonly SessionRow[]> {
    const { sessions } = this.#open();
    if ("beginning" in query)
      return firstFrom(sessions.keys(), query.beginning, query.limit).map(
        (id) => sessions.get(id) as SessionRow,
      );
    const { agent, status, tag, archived, before, limit } = query;
    return [...sessions.values()]
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

  async info(how?: "counts"): Promise<Info> {
    this.#open();
    const about: About = {
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
    return how === undefined ? { about } : { about, counts: this.#counts() };
  }

  async branches(query: BranchQuery): Promise<readonly BranchRow[]> {
    const { branches } = this.#open();
    if (query.kind === "past") return this.#past(query.id, query.limit);
    const newest = [...branches.values()].map(({ row }) => row).sort((a, b) => b.no - a.no);
    switch (query.kind) {
      case "session":
        return newest.filter(({ session }) => session === query.session);
      case "forks":
        return newest.filter(({ forkPoint }) => forkPoint?.branch === query.of);
      case "later-forks":
        return newest
          .filter(({ no, forkPoint }) => forkPoint?.branch === query.of && no > query.after)
          .slice(-query.limit)
          .reverse();
      case "beginning":
        return firstFrom(branches.keys(), query.beginning, query.limit).flatMap(
          (id) => branches.get(id)?.row ?? [],
        );
      case "all":
        return newest
          .filter(({ no }) => no < (query.before ?? Number.MAX_SAFE_INTEGER))
          .slice(0, query.limit);
    }
  }

  #past(id: string, limit: number): readonly BranchRow[] {
    const past: BranchRow[] = [];
    const { branches } = this.#contents;
    for (
      let row = branches.get(id)?.row;
      row !== undefined;
      row = row.forkPoint === null ? undefined : branches.get(row.forkPoint.branch)?.row
    ) {
      past.push(row);
      if (past.length === limit) break;
    }
    return past;
  }

  async saves(
    branch: BranchId,
    { from, to, limit, newestFirst, items, state }: SaveQuery,
  ): Promise<readonly Save[]> {
    const all = this.#open().branches.get(branch)?.saves ?? [];
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

  readonly reclaim: StoreReclaim = {
    replace: async (branch, replacements, known) => {
      const { branches } = this.#open();
      const found = branches.get(branch);
      if (
        found === undefined ||
        [...branches.values()].some(
          ({ row }) => row.forkPoint?.branch === branch && row.no > known.branch,
        )
      )
        return false;
      if (pinsOf(this.#contents, branch).some(({ doc }) => doc > known.doc)) return false;
      const within = ({ save }: Replacement, seq: number) =>
        firstSeq(save) <= seq && seq <= save.seq;
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
    },
    cut: async (branch, after, limit, dryRun) => {
      const { branches } = this.#open();
      const found = branches.get(branch);
      if (found === undefined || found.row.owned) return { count: 0, bytes: 0 };
      const forked = [...branches.values()].flatMap(({ row }) =>
        row.forkPoint?.branch === branch ? row.forkPoint.seq : [],
      );
      const pinned = pinsOf(this.#contents, branch).map(({ seq }) => seq);
      const behind = highest(after, dryRun ? pinned : [...pinned, ...forked]);
      const goes = found.saves.filter(({ save }) => save.seq > behind).slice(-limit);
      if (!dryRun) {
        found.saves = found.saves.slice(0, found.saves.length - goes.length);
        if (after === -1 && found.saves.length === 0 && forked.length + pinned.length === 0)
          branches.delete(branch);
      }
      return {
        count: goes.length,
        bytes: goes.reduce((sum, { save }) => sum + saveBytes(save), 0),
      };
    },
    sweep: async (limit, dryRun, after = "") => {
      const { branches, blobs } = this.#open();
      const used = new Set(
        [...branches.values()].flatMap(({ saves }) => saves.flatMap(({ refs }) => refs)),
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
    },
    compact: async () => {
      this.#open();
      return { count: 0, bytes: 0 };
    },
    scrub: async () => {
      this.#open();
      return { left: [] };
    },
  };

  async blob(digest: Digest): Promise<Uint8Array | undefined> {
    return this.#open().blobs.get(digest)?.slice();
  }

  readonly inbox: StoreInbox = {
    post: async (session, message) => {
      const { sessions, inboxes } = this.#open();
      if (!sessions.has(session)) return "absent";
      const inbox =
        inboxes.get(session) ?? new Map<string, InboxMessage & { readonly drained: boolean }>();
      const known = inbox.get(message.id);
      if (known !== undefined)
        return (known.drained ? isDrained(known.text, message.text) : known.text === message.text)
          ? "known"
          : "conflict";
      inboxes.set(session, inbox.set(message.id, { ...message, drained: false }));
      return "posted";
    },
    list: async (session, query) => {
      this.#open();
      const waiting = this.#waiting(session);
      const found =
        "ids" in query
          ? waiting.filter(({ id }) => query.ids.includes(id))
          : waiting.filter(({ due }) => due <= query.dueBy).slice(0, query.limit);
      return found.map(({ id, text, due }) => ({ id, text, due }));
    },
  };

  #waiting(session: string): readonly InboxMessage[] {
    return [...(this.#contents.inboxes.get(session)?.values() ?? [])].filter(
      ({ drained }) => !drained,
    );
  }

  readonly claims: StoreClaims = {
    claim: async ({ agent, dueBy, limit }, grant) => {
      const { sessions } = this.#open();
      const now = await this.now();
      const granted: SessionRow[] = [];
      const candidates = [...sessions.values()]
        .filter(({ head }) => head.agent === agent)
        .map((row) => {
          const message = this.#waiting(row.id).filter((one) => isForNow(row.head, one));
          return {
            row,
            due: Math.min(
              ...[row.head, ...message].map(({ due }) => due ?? Number.POSITIVE_INFINITY),
            ),
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
    },
  };

  /** There are no other processes. */
  watch(): () => void {
    return () => {};
  }

  readonly copies: StoreCopies = {
    generation: async () => this.#open().generation,
    begin: async () => {
      this.#open().generation = newGeneration();
      return this.#contents.generation;
    },
    backup: async () => {
      this.#open();
      throw noBackup("What is in memory can be exported (hold.export).");
    },
    anchors: async () => noTailAnchors,
  };

  #counts(): Counts {
    const { sessions, branches, blobs, docs } = this.#open();
    const saves = [...branches.values()].flatMap((branch) => branch.saves.map(({ save }) => save));
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

  async check(): Promise<readonly string[]> {
    this.#open();
    return [];
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
