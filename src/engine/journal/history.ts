/**
 * Every message of a past up to a record that is there, newest first, whether it is still in the
 * transcript or not.
 */
import { viewOfRecord } from "../../core/journal/message-view.js";
import { firstSeq } from "../../core/journal/save.js";
import type { Message } from "../../core/messages/message.js";
import type { Page } from "../util/validate.js";
import type { Past } from "./past.js";
import type { StoreContext } from "./store-context.js";
import { growingRows } from "./walk.js";

const ROWS = 500;

export async function historyOf(
  { journal }: StoreContext,
  past: Past,
  upTo: number,
  limit: number,
): Promise<Page<Message>> {
  const found: Message[] = [];
  for await (const page of journal.saves.walk(past, {
    to: upTo,
    newestFirst: true,
    items: true,
    // A save often holds a question and an answer.
    rows: growingRows(Math.ceil((limit + 1) / 2), ROWS),
  })) {
    // What retention has dropped is no damage here: history shows what is left.
    for (const { save, items } of page) {
      for (const [i, record] of [...items.entries()].toReversed()) {
        const seq = firstSeq(save) + i;
        if (seq > upTo || (record.append === undefined && record.item === undefined)) continue;
        if (found.length === limit)
          return { items: found, next: `m${(found.at(-1) as Message).seq}` };
        const body =
          record.blob === undefined
            ? undefined
            : Buffer.from(await journal.blob(record.blob)).toString("utf8");
        found.push(viewOfRecord(record, body, seq, save));
      }
    }
  }
  return { items: found };
}
