/** Texts cut short for people, never inside a character. */
import { type MessageInput, textOf } from "./message.js";

export const MAX_TITLE = 80;
const TITLE_SEEKS = 4_000;

/**
 * A title from the first user message: its first line with text, cut between characters as a reader
 * sees them.
 */
export function titleOf(message: MessageInput): string | undefined {
  if (message.role !== "user") return undefined;
  for (const row of clip(textOf(message), TITLE_SEEKS).split(/[\n\r\u2028\u2029]/)) {
    const line = row
      .replace(/[\p{Cc}\s]+/gu, " ")
      .trim()
      .toWellFormed();
    if (line !== "") return line.length <= MAX_TITLE ? line : `${clusters(line, MAX_TITLE - 1)}…`;
  }
  return undefined;
}

function clusters(line: string, most: number): string {
  let kept = "";
  for (const { segment } of new Intl.Segmenter("en", { granularity: "grapheme" }).segment(
    clip(line, MAX_TITLE * 4),
  )) {
    if (kept.length + segment.length > most) break;
    kept += segment;
  }
  // One character can be longer than a title: an inbox message with a hundred marks.
  return kept.trimEnd() || clip(line, most);
}

/** The beginning of a text, so many units long, or one less where that would halve a pair. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  const last = text.charCodeAt(most - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? most - 1 : most);
}
