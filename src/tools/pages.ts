/**
 * Long answers in pages: so many characters at most, for what a model is handed is what it has to read. Something that is longer than a page
 * by itself comes in pieces of its JSON text.
 */
import { invalid } from "../runtime/options.js";
import { object, text, whole } from "./schema.js";

/** Clients warn of answers that are longer than about twice this, and put much longer ones aside. */
export const PAGE_CHARS = 20_000;

export const piece = object(
  {
    piece: text("A stretch of the JSON text of something too long for one page; join the pieces in their order."),
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

/** As many of the items as a page holds, from the cursor on; `first` where there is none. */
export function pageOf<T>(all: readonly T[], cursor: string | undefined, { first = 0, chars = PAGE_CHARS } = {}): Paged<T> {
  const start = cursor === undefined ? { index: first, from: 0 } : placeOf(cursor, all.length);
  const items: (T | Piece)[] = [];
  let room = chars;
  for (let { index, from } = start; index < all.length; index++, from = 0) {
    const item = all[index] as T;
    const said = JSON.stringify(item);
    if (from > said.length) throw strange(cursor);
    if (from === 0 && said.length <= room) {
      items.push(item);
      room -= said.length;
      continue;
    }
    // What fits on a page of its own is not torn, and nothing is for the sake of a few words.
    if (items.length > 0 && from === 0 && (said.length <= chars || room < chars / 4)) return { items, next: `p${index}` };
    const to = cutAt(said, from + Math.max(room, 1));
    items.push({ piece: said.slice(from, to), from, of: said.length });
    if (to < said.length) return { items, next: `p${index}.${to}` };
    room -= to - from;
    if (room <= 0 && index + 1 < all.length) return { items, next: `p${index + 1}` };
  }
  return { items };
}

/** Not between the two halves of a character. */
function cutAt(said: string, at: number): number {
  if (at >= said.length) return said.length;
  const code = said.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at + 1 : at;
}

function placeOf(cursor: string, length: number): { readonly index: number; readonly from: number } {
  const found = /^p(0|[1-9][0-9]{0,9})(?:\.([1-9][0-9]{0,14}))?$/.exec(cursor);
  const index = Number(found?.[1]);
  if (found === null || index >= length) throw strange(cursor);
  return { index, from: Number(found[2] ?? 0) };
}

const strange = (cursor: string | undefined) =>
  invalid("cursor", `${JSON.stringify(cursor)} did not come from this answer, or what it went through has changed`);
