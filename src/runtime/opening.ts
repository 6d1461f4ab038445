/** How a session comes into a holder's hands: made, taken over, or forked. */
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Checkpoint, checkMetadata, checkText } from "../core/checkpoint.js";
import { HoldfastError, quote } from "../core/errors.js";
import { checkName, MAX_SEQ, type Place, placeId, type SessionId, sessionId } from "../core/ids.js";
import type { Json, JsonObject } from "../core/json.js";
import { describeOwner, freeLease, grantLease, type Lease, MAX_LEASE_MS } from "../core/lease.js";
import { isUnderWay, onNewLine } from "../core/status.js";
import type { Applied, Change, DocChange, NewLine, SessionRow } from "../store/port.js";
import { breatheNowAndThen } from "./breathe.js";
import type { EffectPolicy } from "./effects/repeats.js";
import type { Ground } from "./ground.js";
import { Holding, type Opening } from "./holding.js";
import { noSession } from "./inbox.js";
import { notFound } from "./lines.js";
import { listOf, options, wholeNumber } from "./options.js";
import type { Receipt } from "./receipts.js";
import { leaveToSomebody } from "./restored.js";
import { type HeadDoc, headOf, headRow, type LabelDoc, labelOf, labelRow, leaseOf, leaseRow, newLine, rootDigest } from "./rows.js";
import { Session } from "./session.js";
import type { Standing } from "./workspace.js";

export interface SessionOptions {
  /** The agent it belongs to. Opening it under another one is a CONFLICT. */
  readonly agent?: string;
  /** Title, tags and metadata are given to a session that is made by this call; later ones are changed with `sessions.update`. */
  readonly title?: string;
  readonly tags?: readonly string[];
  readonly metadata?: JsonObject;
  /** How long to wait for another holder to let go. */
  readonly waitMs?: number;
  readonly leaseMs?: number;
}

export const MAX_TITLE_CHARS = 1_000;
const MAX_TAGS = 100;

export function checkTags(tags: unknown, path: string): readonly string[] {
  const given = listOf(tags, path, "a list of names", MAX_TAGS + 1);
  if (given.length > MAX_TAGS) throw new HoldfastError("TOO_LARGE", `${path}: more than ${MAX_TAGS} tags.`, { path, limit: MAX_TAGS });
  return [...new Set(given.map((tag, i) => checkName(tag, `${path}[${i}]`)))];
}

/** Title, tags and metadata that are given, checked, and as they are to be stored. */
export function checkLabel({ redactor }: Ground, given: Pick<SessionOptions, "title" | "tags" | "metadata">): Partial<LabelDoc> {
  const title = given.title === undefined ? undefined : checkText(given.title, "title", MAX_TITLE_CHARS);
  const tags = given.tags === undefined ? undefined : checkTags(given.tags, "tags");
  const metadata = given.metadata === undefined ? undefined : checkMetadata(given.metadata, "metadata");
  const text = (plain: string, field: string): string => redactor?.text(plain, { in: "session", field }) ?? plain;
  return {
    ...(title !== undefined && { title: checkText(text(title, "title"), "title", MAX_TITLE_CHARS) }),
    ...(tags !== undefined && {
      tags: checkTags(
        tags.map((tag) => text(tag, "tags")),
        "tags",
      ),
    }),
    ...(metadata !== undefined && { metadata: redactor?.metadata(metadata, "session") ?? metadata }),
  };
}

interface Wanted {
  readonly id: SessionId;
  readonly agent: string | undefined;
  readonly title: string | undefined;
  readonly tags: readonly string[];
  readonly metadata: JsonObject;
  readonly waitMs: number;
  readonly leaseMs: number;
  readonly parent: SessionId | undefined;
}

function wanted(ground: Ground, id: unknown, given: SessionOptions | undefined): Omit<Wanted, "parent"> {
  const o = options(given, "session", ["agent", "title", "tags", "metadata", "waitMs", "leaseMs"]);
  const { title, tags = [], metadata = {} } = checkLabel(ground, o);
  return {
    id: sessionId(id),
    agent: o.agent === undefined ? undefined : checkName(o.agent, "agent"),
    title,
    tags,
    metadata,
    waitMs: checkWaitMs(o.waitMs) ?? 0,
    leaseMs: checkLeaseMs(o.leaseMs) ?? ground.leaseMs,
  };
}

export const checkLeaseMs = (leaseMs: unknown): number | undefined =>
  leaseMs === undefined ? undefined : wholeNumber(leaseMs, "leaseMs", 100, MAX_LEASE_MS);

export const checkWaitMs = (waitMs: unknown): number | undefined =>
  waitMs === undefined ? undefined : wholeNumber(waitMs, "waitMs", 0, MAX_LEASE_MS);

/** Opens a session, making it where there is none. */
export async function openSession<S extends object = Record<string, Json>>(
  ground: Ground,
  id: unknown,
  given: SessionOptions | undefined,
  o?: HoldingOptions,
): Promise<Session<S>> {
  return sessionOf<S>(ground, await openHolding(ground, id, given, o));
}

interface HoldingOptions {
  /** Whether a session that is not there is made. */
  readonly make?: boolean;
  /** The session whose call makes it. */
  readonly parent?: SessionId;
  readonly signal?: AbortSignal | undefined;
}

export async function openHolding(
  ground: Ground,
  id: unknown,
  given: SessionOptions | undefined,
  { make: makes = true, parent, signal }: HoldingOptions = {},
): Promise<Holding> {
  const want = { ...wanted(ground, id, given), parent };
  const deadline = performance.now() + want.waitMs;
  for (;;) {
    signal?.throwIfAborted();
    await breatheNowAndThen();
    const row = await ground.store.session(want.id);
    if (row === undefined && !makes) throw noSession(want.id);
    const lease = row === undefined ? await madeLease(ground, want) : await take(ground, row, want, deadline);
    if (lease === undefined) continue;
    return enter(ground, want.id, lease, want.leaseMs);
  }
}

/** Makes a session, held by nobody, where there is none. */
export async function ensureSession(ground: Ground, id: unknown, given: SessionOptions | undefined): Promise<SessionId> {
  const want = { ...wanted(ground, id, given), parent: undefined };
  for (;;) {
    const row = await ground.store.session(want.id);
    if (row !== undefined) {
      refuseOtherAgent(headOf(row), want);
      return want.id;
    }
    if ((await make(ground, { ...want, leaseMs: undefined })).applied.ok) return want.id;
  }
}

/** Makes a session, held by nobody, with this label; refused where there is one. */
export async function makeSession(
  ground: Ground,
  id: SessionId,
  {
    agent,
    label,
    alongside,
  }: { readonly agent: string | undefined; readonly label: Partial<LabelDoc>; readonly alongside: readonly DocChange[] },
): Promise<Applied> {
  const want = { ...wanted(ground, id, agent === undefined ? {} : { agent }), leaseMs: undefined, parent: undefined };
  return (await make(ground, want, { label, alongside })).applied;
}

async function madeLease(ground: Ground, want: Wanted): Promise<Lease | undefined> {
  const { applied, lease } = await make(ground, want);
  return applied.ok ? lease : undefined;
}

async function make(
  ground: Ground,
  want: Omit<Wanted, "leaseMs"> & { readonly leaseMs: number | undefined },
  more: { readonly label?: Partial<LabelDoc>; readonly alongside?: readonly DocChange[] } = {},
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const line = ground.newLineId();
  const head: HeadDoc = {
    id: want.id,
    line,
    status: "in-progress",
    ...(want.agent === undefined ? undefined : { agent: want.agent }),
    createdAt: ground.wallMs(),
    ...(want.parent === undefined ? undefined : { parent: want.parent }),
    ...(await inThisIncarnation(ground)),
  };
  const label: LabelDoc = {
    id: want.id,
    version: 1,
    ...(want.title === undefined ? undefined : { title: want.title }),
    tags: want.tags,
    archived: false,
    metadata: want.metadata,
    ...more.label,
  };
  const root = newLine({ id: line, origin: null, prev: rootDigest(line) });
  return begin(ground, head, label, root, want.leaseMs, more.alongside);
}

/**
 * Makes a session, held by this process where it is given time for that. Its epoch goes on from one of the same name that was deleted,
 * so that late writers of that one stay fenced. Most names are new: the store says when one is not.
 */
async function begin(
  ground: Ground,
  head: HeadDoc,
  label: LabelDoc,
  line: NewLine,
  leaseMs: number | undefined,
  alongside: readonly DocChange[] = [],
): Promise<{ readonly applied: Applied; readonly lease: Lease }> {
  const held =
    leaseMs === undefined
      ? freeLease
      : { owner: ground.machine.self, until: (await ground.now()) + leaseMs, ...(await inThisIncarnation(ground)) };
  for (let buried = 0; ; buried = await ground.store.buriedEpoch(head.id)) {
    const lease = { ...held, epoch: buried + 1 };
    const change = { head: headRow(head), label: labelRow(label), lease: leaseRow(head.id, lease), line };
    const applied = await orFound(
      ground,
      { session: head.id, when: { absent: true, buried }, ...change },
      // The id of its line is nobody else's.
      (row) => row.head.text === change.head.text,
      alongside,
    );
    if (applied.ok || applied.why !== "epoch") return { applied, lease };
  }
}

/** What heads and leases say of the incarnation they are of; nothing in a store that never was put back. */
export async function inThisIncarnation(ground: Ground): Promise<{ readonly incarnation?: string }> {
  const incarnation = await ground.learnIncarnation();
  return incarnation === "" ? {} : { incarnation };
}

/** A session belongs to one agent. */
export function refuseOtherAgent(head: HeadDoc, { id, agent }: Pick<Wanted, "id" | "agent">): void {
  if (agent === undefined || head.agent === agent) return;
  throw new HoldfastError(
    "CONFLICT",
    `Session ${quote(id)} belongs to ${head.agent === undefined ? "no agent" : `agent ${quote(head.agent)}`}, not to ${quote(agent)}.`,
    { sessionId: id },
  );
}

/** Takes the lease of a session that is there, to take something away from it, and nothing else. */
export async function takeLeaseToFree(ground: Ground, id: SessionId, waitMs: number, signal: AbortSignal | undefined): Promise<Lease> {
  const deadline = performance.now() + waitMs;
  for (;;) {
    signal?.throwIfAborted();
    const row = await ground.store.session(id);
    if (row === undefined) throw noSession(id);
    const lease = await take(ground, row, { id, agent: undefined, leaseMs: ground.leaseMs, how: "frees" }, deadline);
    if (lease !== undefined) return lease;
  }
}

type Taking = Pick<Wanted, "id" | "agent" | "leaseMs"> & { readonly how?: "frees" };

async function take(ground: Ground, row: SessionRow, want: Taking, deadline: number): Promise<Lease | undefined> {
  refuseOtherAgent(headOf(row), want);
  const before = leaseOf(row);
  const { oneMachine } = ground.store.traits;
  const grant = grantLease(before, {
    owner: ground.machine.self,
    now: await ground.now(),
    leaseMs: want.leaseMs,
    incarnation: await ground.learnIncarnation(),
    dead: (owner) => ground.machine.isDead(owner, oneMachine),
  });
  if ("heldBy" in grant) {
    const left = deadline - performance.now();
    if (left <= 0) {
      const remainingMs = Math.ceil(grant.remainingMs);
      const holder = describeOwner(grant.heldBy);
      throw new HoldfastError(
        "LEASE_HELD",
        `Session ${quote(want.id)} is held by ${holder} for ${remainingMs} ms more, unless it renews its lease. Wait with waitMs, or let it finish.`,
        { sessionId: want.id, holder, remainingMs },
      );
    }
    await sleep(Math.min(left, grant.remainingMs, 50) + Math.random() * 10);
    return undefined;
  }
  // Two openings of one process in one instant are told apart by it.
  const granted = { ...grant.granted, token: randomUUID() };
  const lease = leaseRow(want.id, granted);
  const applied = await orFound(
    ground,
    { session: want.id, when: { epoch: before.epoch, until: before.until }, lease },
    (now) => now.lease.text === lease.text,
    [],
    want.how,
  );
  return applied.ok ? granted : undefined;
}

/** Where the answer was lost, the store is asked whether it was done: a lease that nobody knows of would keep all others waiting. */
async function orFound(
  ground: Ground,
  change: Change,
  isDone: (row: SessionRow) => boolean,
  alongside: readonly DocChange[] = [],
  how?: "frees",
): Promise<Applied> {
  try {
    return await ground.store.apply([change], alongside, how);
  } catch (error) {
    if (!(error instanceof HoldfastError) || (error.code !== "UNREACHABLE" && error.code !== "IO")) throw error;
    const row = await ground.store.session(change.session).catch(() => undefined);
    if (row !== undefined && isDone(row)) return { ok: true };
    throw error;
  }
}

/** With the lease in hand: reads the session's state. If that fails, the lease is let go again. */
export async function enter(ground: Ground, id: SessionId, lease: Lease, leaseMs: number): Promise<Holding> {
  let held: Holding | undefined;
  try {
    const present = await ground.journal.present(id);
    if (present === undefined)
      throw new HoldfastError("STALE_LEASE", `Session ${quote(id)} was deleted while it was being opened.`, { sessionId: id });
    const { row, head, line, tail } = present;
    const past = ground.journal.pastOf(present);
    const { fold, end } = await ground.loader.tail(present, { sized: true }, past);
    const opening = {
      head,
      label: labelOf(row),
      lease,
      leaseMs,
      fold,
      end,
      past,
      latest: await ground.journal.latest(tail, line, id, past),
    };
    held = new Holding(ground, opening);
    await held.takeMail({ ends: false });
    await leaveToSomebody(held);
    return held;
  } catch (error) {
    if (held !== undefined) ground.keeper.remove(held);
    await ground.store
      .apply([{ session: id, when: { epoch: lease.epoch }, lease: leaseRow(id, { ...freeLease, epoch: lease.epoch }) }])
      .catch(() => {});
    throw error;
  }
}

/** Makes a fork, held by nobody. */
export async function fork(
  ground: Ground,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  receipt?: Receipt<string>,
): Promise<{ readonly head: HeadDoc; readonly label: LabelDoc }> {
  return makeFork(ground, at, id, effects, { receipt });
}

async function forkAndOpen(
  ground: Ground,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  here: Omit<Standing, "head"> | undefined,
): Promise<Session> {
  const { head, label, lease, latest } = await makeFork(ground, at, id, effects, {
    leaseMs: ground.leaseMs,
    known: here?.latest,
  });
  if (here === undefined) return sessionOf(ground, await enter(ground, head.id, lease, ground.leaseMs));
  // All of it is in hand: nobody else can have touched what was made this instant.
  const own = { line: head.line, from: at.seq + 1, to: MAX_SEQ, session: head.id };
  here.fold.leaveLine();
  const opening: Opening = { ...here, head, label, lease, leaseMs: ground.leaseMs, past: here.past.followedBy(own), latest };
  return sessionOf(ground, new Holding(ground, opening));
}

const sessionOf = <S extends object>(ground: Ground, held: Holding): Session<S> =>
  new Session<S>(held, (at, forkId, effects, from) => forkAndOpen(ground, at, forkId, effects, from));

async function makeFork(
  ground: Ground,
  at: Place,
  id: unknown,
  effects: EffectPolicy,
  { leaseMs, known, receipt }: { leaseMs?: number; known?: Checkpoint | undefined; receipt?: Receipt<string> | undefined },
): Promise<{ readonly head: HeadDoc; readonly label: LabelDoc; readonly lease: Lease; readonly latest: Checkpoint }> {
  const made = sessionId(id);
  const { checkpoint, row } = await forkable(ground, at, known);
  const from = headOf(row);
  const line = ground.newLineId();
  const head: HeadDoc = {
    id: made,
    line,
    status: onNewLine(checkpoint.status),
    ...(checkpoint.reason === undefined || isUnderWay(checkpoint.status) ? undefined : { reason: checkpoint.reason }),
    ...(from.agent === undefined ? undefined : { agent: from.agent }),
    ...(from.title === undefined ? undefined : { title: from.title }),
    createdAt: ground.wallMs(),
    origin: { sessionId: checkpoint.sessionId, checkpointId: checkpoint.id },
    ...(await inThisIncarnation(ground)),
  };
  const { title, tags, metadata } = labelOf(row);
  const label: LabelDoc = { id: made, version: 1, ...(title === undefined ? undefined : { title }), tags, archived: false, metadata };
  const policy = effects === "ask" ? undefined : { effects };
  const fork = newLine({ id: line, origin: at, prev: checkpoint.digest, ...policy });
  const { applied, lease } = await begin(ground, head, label, fork, leaseMs, receipt?.docs(made));
  receipt?.check(applied, 1);
  if (applied.ok) return { head, label, lease, latest: checkpoint };
  if (applied.why === "exists")
    throw new HoldfastError("CONFLICT", `There is a session ${quote(made)} already. Choose another id for the fork.`, { sessionId: made });
  throw notFound(placeId(at.line, at.seq));
}

/** What a fork begins at, and the row of its session. What a holder knows of its own end counts while the session is on that line. */
async function forkable(
  ground: Ground,
  at: Place,
  known: Checkpoint | undefined,
): Promise<{ readonly checkpoint: Checkpoint; readonly row: SessionRow }> {
  const row = known && (await ground.store.session(known.sessionId));
  if (known?.id === placeId(at.line, at.seq) && row?.head.line === at.line) return { checkpoint: known, row };
  const checkpoint = (await ground.journal.checkpointAt(at))?.checkpoint;
  const owner = checkpoint && (await ground.store.session(checkpoint.sessionId));
  if (checkpoint === undefined || owner === undefined) throw notFound(placeId(at.line, at.seq));
  return { checkpoint, row: owner };
}
