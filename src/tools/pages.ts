/**
 * Long answers in pages: so many characters at most, for what a model is handed is what it has to
 * read. Something that is longer than a page by itself comes in pieces of its JSON text.
 */
import { digest } from "../core/values/digest.js";
import { quote } from "../core/values/errors.js";
import { invalid } from "../engine/util/validate.js";
import { object, text, whole } from "./schema.js";

/**
 * Clients warn of answers that are longer than about twice this, and put much longer ones aside.
 */
export const PAGE_CHARS = 20_000;

export const piece = object(
  {
    piece: text(
      "A stretch of the JSON text of something too long for one page; join the pieces in their order.",
    ),
    from: whole("Where in that text it begins."),
    of: whole("How long that text is."),
  },
  "A part of something that is too long for one page.",
);

export interface Piece {
  readonly piece: string;
  readonly from: number;
  readonly of: number;
}

export interface Paged<T> {
  readonly items: readonly (T | Piece)[];
  readonly next?: string;
}

interface Paging<T> {
  /** What is paged: a cursor of something else is refused. */
  readonly of: string;
  readonly first?: number;
  readonly chars?: number;
  /**
   * Where items are only ever added at the end: what each is known by. Otherwise whatever changes
   * ends the pages.
   */
  readonly idOf?: (item: T) => string;
}

/** As many of the items as a page holds, from the cursor on; `first` where there is none. */
export function pageOf<T>(
  all: readonly T[],
  cursor: string | undefined,
  paging: Paging<T>,
): Paged<T> {
  const { first = 0, chars = PAGE_CHARS } = paging;
  const start = cursor === undefined ? { index: first, from: 0 } : placeOf(all, cursor, paging);
  const items: (T | Piece)[] = [];
  const goOn = (index: number, from = 0) => ({
    items,
    next: cursorAt(all, { index, from }, paging),
  });
  let room = chars;
  for (let { index, from } = start; index < all.length; index++, from = 0) {
    const item = all[index] as T;
    const said = JSON.stringify(item);
    if (from === 0 && said.length <= room) {
      items.push(item);
      room -= said.length;
      continue;
    }
    // What fits on a page of its own is not torn, and nothing is for the sake of a few words.
    if (items.length > 0 && from === 0 && (said.length <= chars || room < chars / 4))
      return goOn(index);
    const to = cutAt(said, from + Math.max(room, 1));
    items.push({ piece: said.slice(from, to), from, of: said.length });
    if (to < said.length) return goOn(index, to);
    room -= to - from;
    if (room <= 0 && index + 1 < all.length) return goOn(index + 1);
  }
  return { items };
}

/** Not between the two halves of a character. */
function cutAt(said: string, at: number): number {
  if (at >= said.length) return said.length;
  const code = said.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

interface Place {
  readonly index: number;
  readonly from: number;
}

const cursorAt = <T>(all: readonly T[], { index, from }: Place, paging: Paging<T>): string =>
  `p${index}${from === 0 ? "" : `.${from}`}-${markOf(all, { index, from }, paging)}`;

/**
 * By it a cursor knows again what came before it: pages of two versions are not joined to one that
 * never was.
 */
function markOf<T>(all: readonly T[], { index, from }: Place, { of, idOf }: Paging<T>): string {
  const before =
    idOf === undefined ? JSON.stringify(all) : JSON.stringify(all.slice(0, index).map(idOf));
  return digest(`${of}\n${before}\n${from === 0 ? "" : JSON.stringify(all[index])}`).slice(0, 12);
}

function placeOf<T>(all: readonly T[], cursor: string, paging: Paging<T>): Place {
  const found = /^p(0|[1-9][0-9]{0,9})(?:\.([1-9][0-9]{0,14}))?-([0-9a-zA-Z_-]{12})$/.exec(cursor);
  const place = { index: Number(found?.[1]), from: Number(found?.[2] ?? 0) };
  if (found === null || place.index >= all.length || markOf(all, place, paging) !== found[3])
    throw invalid(
      "cursor",
      `${quote(cursor)} did not come from this answer, or what it went through has changed since: begin anew`,
    );
  return place;
}

/** A list with as many of its items as a page holds, by asking for fewer where they are long. */
export async function fitting<P extends { readonly items: readonly unknown[] }>(
  limit: number | undefined,
  ask: (limit: number) => Promise<P>,
): Promise<P> {
  for (let most = limit ?? 20; ; ) {
    const page = await ask(most);
    const chars = JSON.stringify(page).length;
    const fewer = Math.floor((page.items.length * PAGE_CHARS) / chars);
    if (chars <= PAGE_CHARS * 1.5 || page.items.length <= 1) return page;
    most = Math.max(1, Math.min(fewer, page.items.length - 1));
  }
}
