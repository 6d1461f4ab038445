/**
 * Calls under a key of the caller's: whoever did not hear the answer asks again, and it is done
 * once.
 *
 * KEY-1  what a call changes and its receipt are one apply: both are there, or neither is. Only of
 *        a checkpoint that is deleted the receipt comes first: its id never comes back, and whoever
 *        asks again ends what was begun.
 * KEY-2  the same key for another call, or with other arguments, is a CONFLICT and changes nothing.
 *        Only of two sessions that are deleted under one key at the same moment, the one that is
 *        not may have lost those that its calls ran: they go first.
 * KEY-3  a receipt holds no text of anybody: ids, numbers, and a digest of the arguments that
 *        nobody can guess back who does not know the key. The key itself is not in it.
 */
import { type Digest, digest } from "../../core/values/digest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { encode, type Json, sortedText } from "../../core/values/json.js";
import { documentsOf, requireCapability } from "../../store/capabilities.js";
import type { Applied } from "../../store/port/changes.js";
import { type DocChange, type DocRow, RECEIPT } from "../../store/port/documents.js";
import { documents } from "../records/documents.js";
import { sealed, unsealedOr } from "../records/rows.js";
import { unlessDamaged } from "../records/tolerate-damage.js";
import type { StoreContext } from "./store-context.js";

const DAY_MS = 24 * 60 * 60 * 1_000;
/** For how long a key is known at least. */
export const KEY_VALID_MS = 7 * DAY_MS;
/** After which `gc` forgets it: a day later, whatever clocks say. */
const KEPT_MS = KEY_VALID_MS + DAY_MS;

/**
 * Where the arguments were, once they are forgotten: then a key stands for its call, whatever they
 * are.
 */
const FORGOTTEN = "";
const AT_ONCE = 200;

interface ReceiptDoc {
  readonly id: string;
  readonly call: string;
  /** Digests, with the key in them: of what it was done to, and of all that was said. */
  readonly to: string;
  readonly args: string;
  readonly at: number;
  readonly answer: Digest;
}

/** What goes into the same apply as that which was asked for. */
export interface Receipt<A extends Json> {
  /** False where the call has no key. */
  readonly isKept: boolean;
  /** They stand last. */
  docs(answer: A): readonly DocChange[];
  /**
   * Throws where an apply was refused for the receipt that stood last in it: the same was done by
   * another call meanwhile.
   */
  check(applied: Applied, before: number): void;
}

interface Call {
  readonly key: unknown;
  readonly name: string;
  /** What it is done to: an id. */
  readonly to: string;
  readonly args: unknown;
}

/**
 * Does what is asked for, unless that was done under the same key: then `again` answers from what
 * was kept.
 */
export async function once<A extends Json, R>(
  ctx: StoreContext,
  { key, name, to, args }: Call,
  act: (receipt: Receipt<A>) => Promise<R>,
  again: (answer: A) => R | Promise<R>,
): Promise<R> {
  if (key === undefined) return act(NONE);
  requireCapability(ctx.store, "documents", `hold.${name} with a key`);
  const call = { key: checkName(key, "key"), name, args: encode(args, name).value };
  const id = receiptId(call.key);
  // KEY-3: whoever has the store alone would have to guess the key as well.
  const about = {
    call: name,
    to: digest(`${call.key}\n${name}\n${to}`),
    args: digest(`${call.key}\n${name}\n${to}\n${sortedText(call.args)}`),
  };
  const known = async (): Promise<{ readonly answer: A } | undefined> => {
    const row = await documentsOf(ctx.store).get(RECEIPT, id);
    if (row === undefined) return undefined;
    const doc = receiptOf(row);
    const body = bodyOf(row, doc);
    const isSame =
      doc.call === name &&
      doc.to === about.to &&
      (doc.args === FORGOTTEN || doc.args === about.args);
    if (!isSame) throw conflict(call.key);
    return { answer: JSON.parse(body) as A };
  };
  const before = await known();
  if (before !== undefined) return again(before.answer);
  try {
    return await act({
      isKept: true,
      docs: (answer) => {
        const body = JSON.stringify(answer);
        const doc: ReceiptDoc = { id, ...about, at: ctx.wallMs(), answer: digest(body) };
        return [
          {
            kind: RECEIPT,
            id,
            when: { absent: true },
            put: { of: to, version: 1, text: sealed(doc), body, pins: [] },
          },
        ];
      },
      check: (applied, place) => {
        if (!applied.ok && applied.change >= place) throw repeated(call.key);
      },
    });
  } catch (error) {
    // Another was first with the same key, or it was done and only the answer was lost.
    const meanwhile = await known().catch((found: unknown) => {
      throw found instanceof HoldfastError && found.code === "CONFLICT" ? found : error;
    });
    if (meanwhile !== undefined) return again(meanwhile.answer);
    throw error;
  }
}

const NONE: Receipt<Json> = { isKept: false, docs: () => [], check: () => {} };

/**
 * The same for what removes something. That there is nothing to remove is an answer as well, and is
 * kept: what is made under the name later is not what was meant.
 */
export async function onceRemoved<A extends Json, R>(
  ctx: StoreContext,
  call: Call,
  act: (receipt: Receipt<A | Absent>) => Promise<R>,
  again: (answer: A) => R | Promise<R>,
): Promise<R> {
  return once<A | Absent, R>(
    ctx,
    call,
    async (receipt) => {
      try {
        return await act(receipt);
      } catch (error) {
        if (!(error instanceof HoldfastError) || error.code !== "NOT_FOUND") throw error;
        if (receipt.isKept)
          receipt.check(await ctx.store.apply([], receipt.docs({ absent: error.message })), 0);
        throw error;
      }
    },
    (answer) => {
      if (isAbsent(answer)) throw new HoldfastError("NOT_FOUND", answer.absent);
      return again(answer as A);
    },
  );
}

type Absent = { readonly absent: string };
const isAbsent = (answer: unknown): answer is Absent =>
  typeof answer === "object" && answer !== null && "absent" in answer;

/** Whether something was done under a key. */
export const isDone = async ({ store }: StoreContext, key: string): Promise<boolean> =>
  (await documentsOf(store).get(RECEIPT, receiptId(checkName(key, "key")))) !== undefined;

const receiptId = (key: string): string => digest(`receipt ${key}`);

/** Forgets keys that nobody can be told to count on any more. */
export async function forgetReceipts(
  ctx: StoreContext,
  { signal }: { readonly signal: AbortSignal | undefined },
): Promise<void> {
  const { store } = ctx;
  const limit = ctx.wallMs() - KEPT_MS;
  const old: string[] = [];
  for await (const row of documents(store, { kind: RECEIPT })) {
    signal?.throwIfAborted();
    // One that is damaged stays: whoever asks under its key is to hear of it.
    if (((await unlessDamaged(async () => receiptOf(row)))?.at ?? limit) < limit) old.push(row.id);
  }
  const removal = (id: string) => ({ kind: RECEIPT, id, when: {}, remove: true as const });
  for (let i = 0; i < old.length; i += AT_ONCE) {
    signal?.throwIfAborted();
    const some = old.slice(i, i + AT_ONCE).map(removal);
    // Where another is at the same, some of them are gone.
    if (!(await store.apply([], some)).ok) for (const one of some) await store.apply([], [one]);
  }
}

/**
 * Of what was said in calls that were done to something, nothing is left, not even a digest: a
 * person who can guess the key could guess it. The keys stay known, and what was done.
 */
export async function forgetArguments({ store }: StoreContext, of: string): Promise<void> {
  let some: DocChange[] = [];
  const write = async () => {
    // Where one of them is changed or gone meanwhile, the others are not to wait for it.
    if (!(await store.apply([], some, "frees")).ok)
      for (const one of some) await store.apply([], [one], "frees");
    some = [];
  };
  for await (const { id } of documents(store, { kind: RECEIPT, of })) {
    const row = await documentsOf(store).get(RECEIPT, id);
    const doc = row && (await unlessDamaged(() => receiptOf(row)));
    if (row === undefined || doc === undefined || doc.args === FORGOTTEN) continue;
    const { version, body } = row;
    const put = {
      of,
      version: version + 1,
      text: sealed({ ...doc, args: FORGOTTEN }),
      body,
      pins: [],
    };
    some.push({ kind: RECEIPT, id, when: { version }, put });
    if (some.length === AT_ONCE) await write();
  }
  if (some.length > 0) await write();
}

/** Throws where it, or what was answered, is damaged. */
export async function verifyReceipt({ store }: StoreContext, id: string): Promise<void> {
  const row = await documentsOf(store).get(RECEIPT, id);
  if (row !== undefined) bodyOf(row, receiptOf(row));
}

function bodyOf({ body }: { readonly body: string | null }, { answer }: ReceiptDoc): string {
  if (body === null || digest(body) !== answer) throw damaged();
  return body;
}

function receiptOf({ id, text }: Pick<DocRow, "id" | "text">): ReceiptDoc {
  const doc = unsealedOr<ReceiptDoc>(text, damaged);
  if (doc.id !== id) throw damaged();
  return doc;
}

const repeated = (key: string): HoldfastError =>
  new HoldfastError(
    "BUSY",
    `The call under the key ${quote(key)} is being made by another just now. Try again.`,
    { found: key },
  );

const conflict = (key: string): HoldfastError =>
  new HoldfastError(
    "CONFLICT",
    `The key ${quote(key)} stands for another call, or for one with other arguments. Nothing was done; give each call a key of its own.`,
    { found: key },
  );

const damaged = (): HoldfastError =>
  new HoldfastError(
    "CORRUPT",
    "What is kept of a call under its key is damaged. Look at how things stand, and call under another key.",
  );
