/** Reads everything and says what is damaged. It goes on after damage: the rest is checked too. */
import { checkBodies, type KnownBlob, knowBlob } from "../../core/journal/blob-body.js";
import { refsOf } from "../../core/journal/blob-refs.js";
import { checkSave } from "../../core/journal/chain-check.js";
import { open } from "../../core/journal/open-save.js";
import { firstSeq, type Save } from "../../core/journal/save.js";
import { isGap } from "../../core/journal/save-note.js";
import type { Digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import {
  type BranchId,
  MAX_SEQ,
  placeId,
  type SessionId,
  sessionId,
} from "../../core/values/ids.js";
import { ACTED, actedOf } from "../../engine/calls/deleted-calls.js";
import type { Past } from "../../engine/journal/past.js";
import { readInbox } from "../../engine/journal/read-inbox.js";
import { verifyReceipt } from "../../engine/journal/receipts.js";
import { redactionsIn } from "../../engine/journal/redaction-memory.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { hole } from "../../engine/journal/walk.js";
import { agentOf } from "../../engine/records/agent-record.js";
import { documents } from "../../engine/records/documents.js";
import { policyOf, RETENTION, STORE_RETENTION } from "../../engine/records/policy-store.js";
import { branchOf, labelOf, leaseOf, rootDigest } from "../../engine/records/rows.js";
import { sessionRows } from "../../engine/records/session-rows.js";
import { contentsOf } from "../../engine/records/snapshot-record.js";
import { callback, options } from "../../engine/util/validate.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import { documentsOf } from "../../store/capabilities.js";
import { noTailAnchors, type TailAnchors } from "../../store/port/copies.js";
import { AGENT, type DocRow, RECEIPT, REDACTED, SNAPSHOT } from "../../store/port/documents.js";
import { oneBranch } from "../../store/port/queries.js";
import type { BranchRow } from "../../store/port/rows.js";

interface Finding {
  readonly code: "CORRUPT" | "LOST_TAIL" | "BROKEN_CHAIN" | "STATUS_DIFFERS" | "STORE";
  readonly sessionId?: string;
  readonly branch?: string;
  readonly seq?: number;
  readonly message: string;
}

/** What `verify` has read, and the damage that it found. */
export interface VerifyReport {
  readonly ok: boolean;
  /** Saves that were read and verified. */
  readonly checked: number;
  readonly findings: readonly Finding[];
}

export interface VerifyOptions {
  readonly sessionId?: string;
  /** Called now and then with how many saves have been verified. */
  readonly onProgress?: (checked: number) => void;
}

const ROWS = 500;

export async function verifyStore(ctx: StoreContext, given?: VerifyOptions): Promise<VerifyReport> {
  const { sessionId: only, onProgress } = options(given, "verify", ["sessionId", "onProgress"]);
  const id = only === undefined ? undefined : sessionId(only);
  if (id !== undefined && (await ctx.store.session(id)).row === undefined)
    throw new HoldfastError("NOT_FOUND", `There is no session ${quote(id)}.`, { sessionId: id });
  return new Verification(ctx, callback(onProgress, "onProgress")).run(id);
}

class Verification {
  readonly #ctx: StoreContext;
  readonly #onProgress: ((checked: number) => void) | undefined;
  readonly #findings: Finding[] = [];
  readonly #ends = new Map<string, Save | undefined>();
  /** Branches that could not be read to their end. */
  readonly #unread = new Set<string>();
  #checked = 0;

  constructor(ctx: StoreContext, onProgress: ((checked: number) => void) | undefined) {
    this.#ctx = ctx;
    this.#onProgress = onProgress;
  }

  async run(only: SessionId | undefined): Promise<VerifyReport> {
    const { store } = this.#ctx;
    // Before the ends they are compared with: those may move on meanwhile.
    let anchors: TailAnchors = noTailAnchors;
    if (only === undefined) {
      await this.#guard({}, async () => {
        anchors = (await store.copies?.anchors()) ?? noTailAnchors;
        for (const message of await store.check()) this.#find({ code: "STORE", message });
      });
    }
    await this.#guard({}, async () => {
      for (const branch of await store.branches(
        only === undefined ? { kind: "all" } : { kind: "session", session: only },
      ))
        await this.#branch(branch);
    });
    await this.#guard({}, () => this.#sessions(only));
    if (only === undefined) await this.#guard({}, () => this.#documents());
    await this.#guard({}, () => this.#anchors(anchors));
    return { ok: this.#findings.length === 0, checked: this.#checked, findings: this.#findings };
  }

  async #branch(row: BranchRow): Promise<void> {
    if (row.owned && row.session === null) {
      this.#find({
        code: "CORRUPT",
        branch: row.id,
        message: `Branch ${row.id} belongs to a session whose row is missing.`,
      });
    }
    const where = {
      ...(row.session === null ? undefined : { sessionId: row.session }),
      branch: row.id,
    };
    const whole = await this.#guard(where, async () => {
      const doc = branchOf(row);
      const forkPoint = doc.forkPoint;
      if (
        forkPoint === null
          ? doc.prev !== rootDigest(doc.id)
          : (await this.#ctx.journal.saveAt(forkPoint))?.digest !== doc.prev
      ) {
        this.#find({
          code: "BROKEN_CHAIN",
          ...where,
          seq: forkPoint?.seq ?? 0,
          message: `Branch ${row.id} does not follow what it begins at.`,
        });
      }
      const past = this.#ctx.journal.past(row.id);
      let follows: Digest | undefined = doc.prev;
      let next = (forkPoint?.seq ?? 0) + 1;
      const own = { branch: row.id, from: next, to: MAX_SEQ };
      for await (const saves of this.#ctx.journal.saves.pages(own, {
        items: true,
        state: true,
        rows: ROWS,
      })) {
        for (const save of saves) {
          if (save.seq < next) throw hole(row.id, next);
          if (
            firstSeq(save) !== next ||
            (follows !== undefined && !save.prev.startsWith(follows))
          ) {
            this.#find({
              code: "BROKEN_CHAIN",
              ...where,
              seq: save.seq,
              message: `The save at ${row.id}-${save.seq} does not follow the one before it: something in between is missing or was exchanged.`,
            });
          }
          follows = undefined;
          await this.#guard({ ...where, seq: save.seq }, async () => {
            follows = await this.#save(save, past);
          });
          this.#ends.set(row.id, save);
          next = save.seq + 1;
        }
        this.#onProgress?.(this.#checked);
      }
    });
    if (!whole) this.#unread.add(row.id);
  }

  /** Answers what the next save must follow: of a gap only the beginning of that is known. */
  async #save(save: Save, past: Past): Promise<string> {
    this.#checked += 1;
    if (isGap(save)) return save.check;
    const { digest, items, state } = open(save, {
      items: save.items !== null,
      state: save.state !== null,
      mark: true,
    });
    checkSave(save, items, state);
    const known = new Map<Digest, KnownBlob>();
    let messages = 0;
    for (const record of [...items, ...state]) {
      if (record.append !== undefined || record.item !== undefined) messages += 1;
      for (const name of refsOf(record))
        if (!known.has(name)) known.set(name, knowBlob(await this.#ctx.journal.blob(name)));
      checkBodies(record, (name) => known.get(name));
      for (const [branch, from, to] of record.base?.branches ?? []) {
        const [there] = await past.stretches(from, to);
        if (there?.branch !== branch || there.to !== to)
          throw new HoldfastError(
            "CORRUPT",
            `The base at ${save.branch}-${save.seq} says that its messages stand on branch ${branch}, from ${from} to ${to}. They do not.`,
            { branch: save.branch, seq: save.seq },
          );
      }
    }
    if (save.items !== null && messages !== save.nMessages)
      throw new HoldfastError(
        "CORRUPT",
        `The save at ${save.branch}-${save.seq} miscounts its messages.`,
        {
          branch: save.branch,
          seq: save.seq,
        },
      );
    return digest;
  }

  async #sessions(only: SessionId | undefined): Promise<void> {
    const { store } = this.#ctx;
    if (only !== undefined) return this.#session(only);
    for await (const { id } of sessionRows(store)) await this.#session(id as SessionId);
  }

  async #session(id: SessionId): Promise<void> {
    await this.#guard({ sessionId: id }, async () => {
      const present = await this.#ctx.journal.present(id);
      // It may have been deleted since.
      if (present === undefined) return;
      const { row, head } = present;
      labelOf(row);
      leaseOf(row);
      await readInbox(this.#ctx, id, Number.MAX_SAFE_INTEGER);
      const { fold } = await this.#ctx.loader.tail(present, { sized: false });
      if (fold.status !== head.status) {
        this.#find({
          code: "STATUS_DIFFERS",
          sessionId: id,
          seq: fold.seq,
          message: `Session ${quote(id)} is listed as ${head.status}, and its journal says ${fold.status}.`,
        });
      }
    });
  }

  /** Agents' records, policies, and snapshots with all that they point at. */
  async #documents(): Promise<void> {
    for await (const row of documents(this.#ctx.store, { kind: AGENT }))
      await this.#guard({}, async () => void agentOf(row));
    for (const kind of [RETENTION, STORE_RETENTION])
      for await (const row of documents(this.#ctx.store, { kind: kind }))
        await this.#guard({}, async () => void policyOf(row));
    for await (const row of documents(this.#ctx.store, { kind: ACTED }))
      await this.#guard({}, async () => void actedOf(row));
    for await (const row of documents(this.#ctx.store, { kind: REDACTED }))
      await this.#guard({}, async () => void redactionsIn(row));
    for await (const { id } of documents(this.#ctx.store, { kind: RECEIPT }))
      await this.#guard({}, () => verifyReceipt(this.#ctx, id));
    for await (const { id } of documents(this.#ctx.store, { kind: SNAPSHOT })) {
      const row = await documentsOf(this.#ctx.store).get(SNAPSHOT, id);
      if (row !== undefined) await this.#guard({}, () => this.#snapshot(row));
    }
  }

  async #snapshot(row: DocRow & { readonly body: string | null }): Promise<void> {
    for (const { id, place, digest } of contentsOf(row).sessions) {
      await yieldToEventLoop();
      await this.#guard({ sessionId: id }, async () => {
        if (place === null || (await this.#ctx.journal.saveAt(place))?.digest === digest) return;
        this.#find({
          code: "BROKEN_CHAIN",
          sessionId: id,
          ...place,
          message: `Snapshot ${quote(row.id)} points at ${placeId(place.branch, place.seq)}, and what stands there is something else.`,
        });
      });
    }
  }

  async #anchors(anchors: TailAnchors): Promise<void> {
    for (const { branch, seq, check } of anchors) {
      // Where it ends is not known, and what stopped the reading has been said.
      if (this.#unread.has(branch)) continue;
      const end = this.#ends.get(branch);
      const stays = async () => (await this.#ctx.store.copies?.anchors())?.of(branch);
      if (end === undefined && (await stays()) === undefined) continue;
      const row = (await this.#ctx.store.branches(oneBranch(branch as BranchId)))[0];
      if (end !== undefined && (end.seq > seq || (end.seq === seq && end.check === check)))
        continue;
      this.#find({
        code: "LOST_TAIL",
        ...(row?.session == null ? undefined : { sessionId: row.session }),
        branch,
        seq,
        message: `Branch ${branch} was at ${seq} when the store was last closed, and now ends at ${end?.seq ?? 0}.`,
      });
    }
  }

  /**
   * Damage met on the way becomes a finding, and false; what is no damage goes on to the caller.
   */
  async #guard(
    where: { readonly sessionId?: string; readonly branch?: string; readonly seq?: number },
    run: () => Promise<void>,
  ): Promise<boolean> {
    try {
      await run();
      return true;
    } catch (error) {
      const damage = damageIn(error);
      if (damage === undefined) throw error;
      const { seq, branch } = damage.details;
      this.#find({
        code: "CORRUPT",
        ...where,
        ...(branch === undefined ? undefined : { branch }),
        ...(seq === undefined ? undefined : { seq }),
        message: damage.message,
      });
      return false;
    }
  }

  #find(finding: Finding): void {
    if (!this.#findings.some((known) => known.message === finding.message))
      this.#findings.push(finding);
  }
}

/**
 * What an error says of damage; undefined where it is none. Content over which a reader stumbles is
 * damage, too.
 */
function damageIn(error: unknown): HoldfastError | undefined {
  if (error instanceof HoldfastError) return error.code === "CORRUPT" ? error : undefined;
  if (!(error instanceof TypeError || error instanceof RangeError || error instanceof SyntaxError))
    return undefined;
  return new HoldfastError(
    "CORRUPT",
    `Something stored cannot be read (${error.message}).`,
    {},
    error,
  );
}
