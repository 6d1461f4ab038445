/**
 * Searching sessions: what is asked, where it is looked for, and what is shown of what was found.
 *
 * A message is found once, as that of the session that owns its branch, or inherits it
 * (`record-owners.ts`). What an index says is read from the store and verified before it is shown:
 * a text that was pruned, cut or redacted a moment ago is not shown.
 */
import type { Role } from "../../core/messages/message.js";
import { passagesOf } from "../../core/search/document.js";
import { occurrences } from "../../core/search/match.js";
import { parseQuery, type Query } from "../../core/search/query.js";
import { snippetOf } from "../../core/search/snippet.js";
import type { Words } from "../../core/search/words.js";
import { quote } from "../../core/values/errors.js";
import { checkName, placeId, type SessionId, sessionId, typeName } from "../../core/values/ids.js";
import { isoTime } from "../../core/values/time.js";
import { pastOfSession } from "../../engine/journal/descendants.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import {
  type Damaged,
  invalid,
  limitOf,
  numberOf,
  oneOf,
  options,
  type Page,
} from "../../engine/util/validate.js";
import { yieldToEventLoop } from "../../engine/util/yield-to-event-loop.js";
import {
  type FindOptions,
  type Found,
  type Hit,
  MOST_RANKED,
  ROLES,
} from "../../store/search-port.js";
import { checkHit, DamageReport } from "./damaged.js";
import { OwnerLookup, type Wanted } from "./owner-lookup.js";
import { OpenedTexts, type Text, titleIn } from "./search-texts.js";

export interface SearchFilter {
  /** Of the session in which it is found. */
  readonly agent?: string;
  readonly tag?: string;
  /** Only this session: what is on its branches, and what it shares of others. */
  readonly sessionId?: string;
  /** Only messages of this role; then no titles. */
  readonly role?: Role;
  /** ISO times: from, and before. Of a title, when its session was made. */
  readonly since?: string;
  readonly until?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

interface FoundText {
  readonly sessionId: SessionId;
  readonly createdAt: string;
  /** One row of the text around what was found; … stands where it was cut. */
  readonly snippet: string;
  /** Where in the snippet: from, and up to but not including. */
  readonly matches: readonly (readonly [start: number, end: number])[];
  /** How well it fits; higher is better. Comparable within one search on one store only. */
  readonly score: number;
}

interface FoundMessage extends FoundText {
  readonly kind: "message";
  readonly messageId: string;
  readonly seq: number;
  readonly role: Role;
}

/** A title that somebody gave to a session. */
interface FoundTitle extends FoundText {
  readonly kind: "title";
}

export type FoundItem = FoundMessage | FoundTitle;

export interface SearchPage extends Page<FoundItem> {
  /**
   * Present where the index has not taken in all there is: about how many saves are missing.
   * `sessions.index()` brings them in.
   */
  readonly behind?: number;
  /** Sessions of which something is missing or damaged, so that it cannot be found. */
  readonly damaged?: readonly Damaged[];
}

const FILTERS = ["agent", "tag", "sessionId", "role", "since", "until", "limit", "cursor"] as const;
/**
 * How many hits are looked at for one page: a filter may leave few of them. Whoever wants more goes
 * on with the cursor.
 */
const MOST_LOOKED_AT = 2_000;
/** How many of them are read at once, from the second time on. */
const AT_ONCE = 50;

export interface Asked {
  readonly query: Query;
  readonly filter: FindOptions;
  readonly limit: number;
  readonly offset: number;
}

/** A page of what was found. */
export async function pageOf(ctx: StoreContext, found: Found, asked: Asked): Promise<SearchPage> {
  const items: FoundItem[] = [];
  const owners = new OwnerLookup(ctx.store, asked.filter);
  const report = new DamageReport(ctx, owners);
  const shows = { ctx, owners, report, texts: new OpenedTexts(ctx.journal), asked };
  let { offset } = asked;
  const last = Math.min(found.count, offset + MOST_LOOKED_AT);
  // No more saves are read than can be shown. Where some of them were not, a few more: not one by
  // one.
  for (
    let atOnce = Math.min(AT_ONCE, asked.limit);
    offset < last && items.length < asked.limit;
    atOnce = AT_ONCE
  ) {
    for (const hit of await found.read(offset, Math.min(atOnce, last - offset))) {
      await yieldToEventLoop();
      offset += 1;
      const item = hit && (await show(shows, hit));
      if (item !== undefined && items.push(item) === asked.limit) break;
    }
  }
  await report.look(found.damaged);
  const damaged = report.entries;
  return {
    items,
    ...(offset < found.count && { next: `f${offset}` }),
    ...(damaged.length > 0 && { damaged }),
  };
}

/** Undefined where nothing can be found. */
export async function askedOf(
  ctx: StoreContext,
  words: unknown,
  given: SearchFilter | undefined,
): Promise<Asked | undefined> {
  if (typeof words !== "string")
    throw invalid("words", `what is looked for is text, not ${typeName(words)}`);
  const o = options(given, "sessions.search", FILTERS);
  const role = oneOf(o.role, "role", ROLES.slice(1) as readonly Role[]);
  const since = timeOf(o.since, "since");
  const until = timeOf(o.until, "until");
  const offset = o.cursor === undefined ? 0 : numberOf(o.cursor, "f");
  if (offset > MOST_RANKED) throw invalid("cursor", "it did not come from this list");
  const limit = limitOf(o.limit, "limit");
  const ofSession = {
    ...(o.agent === undefined ? undefined : { agent: checkName(o.agent, "agent") }),
    ...(o.tag === undefined ? undefined : { tag: checkName(o.tag, "tag") }),
  };
  const session = o.sessionId === undefined ? undefined : sessionId(o.sessionId);
  const query = parseQuery(words);
  // Whatever is found in a session counts as its own, also what it shares: then the session is
  // asked what it is, and not its branches.
  const within = session === undefined ? undefined : await branchesOf(ctx, session, ofSession);
  if (query.all.length === 0 || (session !== undefined && within === undefined)) return undefined;
  const filter = {
    ...(within === undefined ? ofSession : { within }),
    ...(role === undefined ? undefined : { role: ROLES.indexOf(role) }),
    ...(since === undefined ? undefined : { since }),
    ...(until === undefined ? undefined : { until }),
  };
  return { query, filter, limit, offset };
}

function timeOf(value: unknown, path: string): number | undefined {
  if (value === undefined) return undefined;
  const at = typeof value === "string" ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(at))
    throw invalid(
      path,
      `${typeof value === "string" ? quote(value) : "it"} is no time like 2026-01-31T12:00:00Z`,
    );
  return at;
}

/**
 * The branches of a session and those they go back to, each as far as it is shared. Undefined where
 * it is not one that was asked for.
 */
async function branchesOf(
  ctx: StoreContext,
  session: SessionId,
  wanted: Wanted,
): Promise<FindOptions["within"]> {
  const row = await new OwnerLookup(ctx.store, wanted).wanted(session);
  if (row === undefined) return undefined;
  const along = await pastOfSession(ctx, session);
  const branches = new Map(
    [...along].map(([id, { row: branch, to }]) => [id, { no: branch.no, upTo: to }]),
  );
  return { session, no: row.no, branches };
}

interface Shows {
  readonly ctx: StoreContext;
  readonly report: DamageReport;
  readonly owners: OwnerLookup;
  readonly texts: OpenedTexts;
  readonly asked: Asked;
}

/**
 * Undefined where it is not there any more, or is not what was asked for. What is damaged is
 * reported.
 */
async function show(shows: Shows, hit: Hit): Promise<FoundItem | undefined> {
  const { owners, report, asked } = shows;
  const owner = asked.filter.within?.session ?? (await owners.of(hit));
  if (owner === undefined) return undefined;
  if (hit.kind === "message")
    return report.tell(hit.branch, hit.seq, () => shown(shows, hit, owner));
  return hit.session.id === owner ? unlessDamaged(() => shown(shows, hit, owner)) : undefined;
}

async function shown(
  { ctx, texts, asked: { query, filter } }: Shows,
  hit: Hit,
  owner: string,
): Promise<FoundItem | undefined> {
  if (hit.kind === "message") await checkHit(ctx, hit.branch, hit.seq, hit.save);
  const found =
    hit.kind === "title" ? titleIn(hit.session) : hit.save && (await texts.at(hit.save, hit.seq));
  const words = found && passageOf(found.text, hit.kind === "title" ? 0 : hit.passage);
  const places = words && occurrences(query, words.words);
  if (
    found === undefined ||
    words === undefined ||
    places === undefined ||
    !isWanted(found, hit, filter)
  )
    return undefined;
  const { text: snippet, matches } = snippetOf(found.text, words, query, places);
  const { message, seq, at } = found;
  const { score } = hit;
  const sessionId = owner as SessionId;
  const createdAt = isoTime(at);
  if (hit.kind === "title")
    return Object.freeze({ kind: "title", sessionId, createdAt, snippet, matches, score });
  const messageId = message.id ?? placeId(hit.branch.id, seq);
  return Object.freeze({
    kind: "message",
    sessionId,
    messageId,
    seq,
    role: message.role,
    createdAt,
    snippet,
    matches,
    score,
  });
}

/** What an index says may be of another by now. */
function isWanted(
  { message, seq, at }: Text,
  hit: Hit,
  { role, since, until, within }: FindOptions,
): boolean {
  if ((since !== undefined && at < since) || (until !== undefined && at >= until)) return false;
  if (hit.kind === "title") return role === undefined;
  if (role !== undefined && ROLES.indexOf(message.role) !== role) return false;
  return within === undefined || seq <= (within.branches.get(hit.branch.id)?.upTo ?? 0);
}

function passageOf(text: string, wanted: number): Words | undefined {
  let passage = 0;
  for (const words of passagesOf(text)) if (passage++ === wanted) return words;
  return undefined;
}
