/** Every message of a past up to a record that is there, newest first, whether it is still in the transcript or not. */
import { reviveRecord } from "../../core/journal/revive.js";
import { firstSeq, isGap, open } from "../../core/journal/save.js";
import type { Message } from "../../core/messages/message.js";
import type { Page } from "../util/options.js";
import type { Ground } from "./ground.js";
import { hole } from "./journal.js";
import type { Past } from "./past.js";

const ROWS = 200;

export async function historyOf({ store, journal }: Ground, past: Past, upTo: number, limit: number): Promise<Page<Message>> {
  const found: Message[] = [];
  for await (const { line, from, to } of past) {
    for (let at = Math.min(upTo, to); at >= from; ) {
      const saves = await store.saves(line, { from, to: at, limit: ROWS, newestFirst: true, items: true, state: false });
      if (saves.length === 0) throw hole(line, at);
      let next = at;
      for (const save of saves) {
        if (save.seq < next || firstSeq(save) > next) throw hole(line, next);
        // What retention has dropped is no damage here: history shows what is left.
        const { items } = isGap(save) || save.items === null ? { items: [] } : open(save, { items: true });
        for (const [i, record] of [...items.entries()].toReversed()) {
          const seq = firstSeq(save) + i;
          if (seq > at || (record.append === undefined && record.item === undefined)) continue;
          if (found.length === limit) return { items: found, next: `m${(found.at(-1) as Message).seq}` };
          const body = record.blob === undefined ? undefined : Buffer.from(await journal.blob(record.blob)).toString("utf8");
          found.push(reviveRecord(record, body, seq, save));
        }
        next = firstSeq(save) - 1;
      }
      at = next;
    }
  }
  return { items: found };
}
