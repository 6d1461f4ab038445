/**
 * Sessions, checkpoints and calls as people name them: by an id, the beginning of one, or a place
 * in a session.
 */
import { closest } from "../../core/values/closest.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import type { Checkpoint, Holdfast, Pending, SessionSummary, Snapshot } from "../../index.js";
import { shellWord } from "./next-steps.js";
import type { EffectPage } from "./types.js";

export type Named =
  | { readonly kind: "session"; readonly session: SessionSummary }
  | { readonly kind: "checkpoint"; readonly checkpoint: Checkpoint };

const CHECKPOINT = /^[0-9a-z]{16}-\d+$/;
const ABBREVIATED = /^[0-9a-z]{1,16}-[1-9]\d*$/;
const FEW = 6;
/** How much of a branch's id is shown. */
const SHOWN = 8;

/** As it is shown, and taken back. */
export const short = (id: string): string =>
  CHECKPOINT.test(id) ? `${id.slice(0, SHOWN)}${id.slice(id.indexOf("-"))}` : id;

export async function requireSession(hold: Holdfast, word: string): Promise<SessionSummary> {
  const found = await session(hold, word);
  if (found === undefined) throw await noSession(hold, word);
  return found;
}

/**
 * For what changes something: by its whole id, unless somebody is there who sees which one is
 * meant. A script that deletes a session a second time must not hit the fork that is named after
 * it.
 */
export async function requireSessionToChange(
  hold: Holdfast,
  word: string,
  isSeen: boolean,
): Promise<SessionSummary> {
  if (isSeen) return requireSession(hold, word);
  const found = await hold.sessions.get(word);
  if (found === undefined) throw await noSession(hold, word);
  return found;
}

async function session(hold: Holdfast, word: string): Promise<SessionSummary | undefined> {
  const exact = await hold.sessions.get(word);
  if (exact !== undefined) return exact;
  const ids = await hold.sessions.ids(word, { limit: FEW });
  if (ids.length > 1) throw ambiguous(word, ids);
  return ids[0] === undefined ? undefined : hold.sessions.get(ids[0]);
}

/** A session or a checkpoint: what is named whole comes before what only begins like it. */
export async function resolve(hold: Holdfast, word: string): Promise<Named> {
  const exact = await hold.sessions.get(word);
  if (exact !== undefined) return { kind: "session", session: exact };
  const whole = CHECKPOINT.test(word) ? await hold.checkpoints.get(word) : undefined;
  if (whole !== undefined) return { kind: "checkpoint", checkpoint: whole };
  const alike = await hold.sessions.ids(word, { limit: FEW });
  const checkpoints = ABBREVIATED.test(word) ? await hold.checkpoints.find(word) : [];
  const all = [...alike, ...checkpoints.map(({ id }) => id)];
  if (all.length > 1) throw ambiguous(word, all);
  const checkpoint = checkpoints[0] ?? (all.length === 0 ? await inSession(hold, word) : undefined);
  if (checkpoint !== undefined) return { kind: "checkpoint", checkpoint };
  const found = alike[0] === undefined ? undefined : await hold.sessions.get(alike[0]);
  if (found === undefined) throw await noSession(hold, word, "session or checkpoint");
  return { kind: "session", session: found };
}

/** A checkpoint, or the newest one of a session. */
export async function requireCheckpoint(hold: Holdfast, word: string): Promise<Checkpoint> {
  const named = await resolve(hold, word);
  if (named.kind === "checkpoint") return named.checkpoint;
  const latest = await hold.checkpoints.latest(named.session.id);
  if (latest === undefined)
    throw new HoldfastError(
      "NOT_FOUND",
      `Session ${quote(named.session.id)} has no checkpoint yet.`,
      { sessionId: named.session.id },
    );
  return latest;
}

/** A checkpoint of one session: by its number alone, what comes behind the @, or an id. */
export async function requireCheckpointOf(
  hold: Holdfast,
  { id }: SessionSummary,
  word: string,
): Promise<Checkpoint> {
  const own = await placeOf(hold, id, word.replace(/^@/, ""));
  if (own !== undefined) return own;
  if (/^@|^~?\d+$/.test(word)) throw noPlace(id, word);
  return requireCheckpoint(hold, word);
}

/**
 * The checkpoint before one: its parent, or, where that was pruned, the newest of its branch that
 * is left.
 */
export async function before(
  hold: Holdfast,
  { id, seq, sessionId, parentId }: Checkpoint,
): Promise<Checkpoint | undefined> {
  const parent = parentId === undefined ? undefined : await hold.checkpoints.get(parentId);
  if (parent !== undefined) return parent;
  const line = id.slice(0, id.indexOf("-"));
  for await (const other of allCheckpoints(hold, sessionId, "all"))
    if (other.seq < seq && other.id.startsWith(`${line}-`)) return other;
  return undefined;
}

/** `SESSION@12`, `SESSION@~1`, `SESSION@label`. */
async function inSession(hold: Holdfast, word: string): Promise<Checkpoint | undefined> {
  const at = word.lastIndexOf("@");
  if (at < 1) return undefined;
  const found = await session(hold, word.slice(0, at));
  if (found === undefined) return undefined;
  const place = await placeOf(hold, found.id, word.slice(at + 1));
  if (place !== undefined) return place;
  throw noPlace(found.id, word.slice(at + 1));
}

async function placeOf(hold: Holdfast, id: string, place: string): Promise<Checkpoint | undefined> {
  const back = /^~(\d{1,9})$/.exec(place);
  let passed = 0;
  for await (const checkpoint of allCheckpoints(hold, id)) {
    if (
      back !== null
        ? passed === Number(back[1])
        : String(checkpoint.seq) === place || checkpoint.label === place
    )
      return checkpoint;
    passed += 1;
  }
  return undefined;
}

/** Newest first. */
export async function* allCheckpoints(
  hold: Holdfast,
  id: string,
  branches: "current" | "all" = "current",
): AsyncGenerator<Checkpoint> {
  for (let cursor: string | undefined; ; ) {
    const page = await hold.checkpoints.list(id, {
      limit: 1_000,
      branches,
      ...(cursor !== undefined && { cursor }),
    });
    yield* page.items;
    if (page.next === undefined) return;
    cursor = page.next;
  }
}

/** Calls that are not over: those that wait, and those in doubt. */
export async function allEffects(
  hold: Holdfast,
  o: { readonly status?: string | undefined; readonly agent?: string | undefined } = {},
): Promise<Required<Omit<EffectPage, "next">>> {
  const items: Pending[] = [];
  const damaged = new Map<string, NonNullable<EffectPage["damaged"]>[number]>();
  for (const status of ["in-doubt", "waiting"] as const) {
    if (o.status !== undefined && o.status !== status) continue;
    for (let cursor: string | undefined; ; ) {
      const page = await hold.effects.list({
        status,
        limit: 1_000,
        ...(o.agent !== undefined && { agent: o.agent }),
        ...(cursor !== undefined && { cursor }),
      });
      items.push(...page.items);
      for (const one of page.damaged ?? []) damaged.set(one.id, one);
      if (page.next === undefined) break;
      cursor = page.next;
    }
  }
  return { items, damaged: [...damaged.values()] };
}

/** By its id, the beginning of it, or the session it is of, where that has only one. */
export async function requireEffect(hold: Holdfast, word: string): Promise<Pending> {
  const exact = await hold.effects.get(word);
  if (exact !== undefined) return exact;
  const { items: open, damaged } = await allEffects(hold);
  const [line = "", ...rest] = word.split("-");
  const isShort = (id: string) =>
    rest.length > 0 && id.startsWith(line) && id.slice(id.indexOf("-") + 1) === rest.join("-");
  const alike = open.filter(
    ({ effectId, sessionId }) =>
      effectId.startsWith(word) || isShort(effectId) || sessionId === word,
  );
  if (alike.length > 1)
    throw ambiguous(
      word,
      alike.map(({ effectId }) => effectId),
    );
  const [found] = alike;
  const [hidden] = damaged;
  if (found === undefined && hidden !== undefined)
    throw new HoldfastError(
      "CORRUPT",
      `Whether there is a call ${quote(word)} is not known: session ${quote(hidden.id)} is damaged. ${hidden.message}`,
      { sessionId: hidden.id },
    );
  if (found === undefined)
    throw new HoldfastError(
      "NOT_FOUND",
      `There is no call ${quote(word)} that waits or is in doubt. List them: holdfast effects`,
      {
        effectId: word,
      },
    );
  return found;
}

/** How many of each agent are looked through for one by the beginning of its id. */
const SNAPSHOTS = 1_000;

export async function requireSnapshot(hold: Holdfast, word: string): Promise<Snapshot> {
  const exact = await hold.agents.getSnapshot(word);
  if (exact !== undefined) return exact;
  const alike: Snapshot[] = [];
  for await (const agent of agentIds(hold))
    alike.push(
      ...(await hold.agents.snapshots(agent, { limit: SNAPSHOTS })).items.filter(({ id }) =>
        id.startsWith(word),
      ),
    );
  if (alike.length > 1)
    throw ambiguous(
      word,
      alike.map(({ id }) => id),
    );
  const [found] = alike;
  if (found === undefined)
    throw new HoldfastError(
      "NOT_FOUND",
      `There is no snapshot ${quote(word)}. List them: holdfast snapshots AGENT`,
      { found: word },
    );
  return found;
}

export async function* agentIds(hold: Holdfast): AsyncGenerator<string> {
  for (let cursor: string | undefined; ; ) {
    const page = await hold.agents.list({ limit: 1_000, ...(cursor !== undefined && { cursor }) });
    for (const { id } of page.items) yield id;
    if (page.next === undefined) return;
    cursor = page.next;
  }
}

const noPlace = (id: string, place: string): HoldfastError =>
  new HoldfastError(
    "NOT_FOUND",
    `Session ${quote(id)} has no checkpoint ${quote(place)}. List them: holdfast log ${shellWord(id)}`,
    {
      sessionId: id,
    },
  );

function ambiguous(word: string, ids: readonly string[]): HoldfastError {
  const some = ids.slice(0, FEW - 1).map((id) => quote(short(id)));
  return new HoldfastError(
    "INVALID_ID",
    `${quote(word)} may be ${some.join(", ")}${ids.length > some.length ? ", and others" : ""}. Say more of it.`,
    { found: word },
  );
}

async function noSession(hold: Holdfast, word: string, what = "session"): Promise<HoldfastError> {
  const { items } = await hold.sessions.list({ limit: 200 });
  const meant = closest(
    word,
    items.map(({ id }) => id),
  );
  return new HoldfastError(
    "NOT_FOUND",
    `There is no ${what} ${quote(word)}. ${meant === undefined ? "List them: holdfast ls" : `Did you mean ${quote(meant)}?`}`,
    { found: word },
  );
}
