/**
 * Changing the an inbox message that waits for a session. What could be taken in is in the journal
 * by now. Of the rest, messages that wait to be appended stay as they are, and the report names
 * them: their sender may send them again, and is to be told that they are the same.
 */
import { encodeMessage } from "../../core/messages/message.js";
import { editMessage } from "../../core/redaction/redact-text.js";
import type { SessionId } from "../../core/values/ids.js";
import { superseded } from "../../engine/journal/lease-keeper.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import {
  appendId,
  appendKeyId,
  appendTextId,
  HIDDEN,
  isLeftBehind,
  keyText,
  messagesOf,
} from "../../engine/records/append-messages.js";
import { editInboxDoc } from "../../engine/records/edit-inbox.js";
import { type InboxDoc, inboxDocOf, inboxText } from "../../engine/records/rows.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import { inboxOf } from "../../store/capabilities.js";
import { OpenCalls } from "./affected-sessions.js";
import type { Matcher } from "./matcher.js";
import type { Name, Seen } from "./rewrite-saves.js";

interface Edits {
  readonly reworded: readonly { readonly id: string; readonly text: string }[];
  readonly drained: readonly string[];
}

/** The an inbox message that waits for a session. `isDamaged`: some of it cannot be read. */
export async function waitingInbox({ store }: StoreContext, session: SessionId) {
  const inboxMessages = await inboxOf(store).list(session, {
    dueBy: HIDDEN,
    limit: Number.MAX_SAFE_INTEGER,
  });
  const sound = new Map<string, InboxDoc>();
  for (const { id, text } of inboxMessages) {
    const doc = await unlessDamaged(() => inboxDocOf(text, session));
    if (doc !== undefined) sound.set(id, doc);
  }
  return { sound, isDamaged: sound.size < inboxMessages.length };
}

export class WaitingInbox {
  readonly #ctx: StoreContext;
  readonly #session: SessionId;
  readonly #what: Matcher;
  readonly #name: (seen: Seen, name: string, what: Name["what"]) => void;
  #isLeft = false;

  /** `name` is told of each name in the an inbox message that may hold the text: names stay. */
  constructor(
    ctx: StoreContext,
    session: SessionId,
    what: Matcher,
    name: (seen: Seen, name: string, what: Name["what"]) => void,
  ) {
    this.#ctx = ctx;
    this.#session = session;
    this.#what = what;
    this.#name = name;
  }

  /** Whether messages that wait to be appended hold the text, or cannot be read. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Whether the text is in it. */
  async isHolding(seen: Seen): Promise<boolean> {
    const { reworded, drained } = await this.#edits(seen);
    return this.#isLeft || reworded.length + drained.length > 0;
  }

  /** Changes what waits for the session. Answers whether there was anything. */
  async change(seen: Seen, epoch: number): Promise<boolean> {
    const edits = await this.#edits(seen);
    if (edits.reworded.length + edits.drained.length === 0) return false;
    const change = { session: this.#session, when: { epoch }, ...edits };
    const applied = await this.#ctx.store.apply([change], [], "frees");
    if (!applied.ok) throw superseded(this.#session);
    return true;
  }

  async #edits(seen: Seen): Promise<Edits> {
    const open = await OpenCalls.of(this.#ctx, [this.#session]);
    const { sound, isDamaged } = await waitingInbox(this.#ctx, this.#session);
    this.#isLeft = isDamaged;
    const edit = { text: this.#what.text, numbers: true };
    const reworded: { id: string; text: string }[] = [];
    const spokenOf = this.#spokenOf(sound);
    const drained: string[] = [];
    for (const [id, doc] of sound) {
      if (doc.kind === "append-text" && !spokenOf.has(id) && isLeftBehind(id, this.#ctx.wallMs()))
        drained.push(id);
      else if (doc.kind === "append-text") this.#isLeft ||= this.#isIn(doc);
      // Of a call that failed: whom it binds is not known from it, and it may be a digest of the
      // text.
      else if (doc.kind === "append-key" && !spokenOf.has(id) && doc.check !== "")
        reworded.push({ id, text: keyText("") });
      if (doc.kind === "turn")
        for (const key of [doc.turn, doc.key])
          if (key !== undefined) this.#name(seen, key, "turn-key");
      if (doc.kind === "signal") this.#name(seen, doc.name, "signal");
      const isOpen = doc.kind === "approve" && open.ids.has(doc.effectId);
      if (isOpen && editInboxDoc(doc, edit, false) !== editInboxDoc(doc, edit, true))
        seen.exempt.add(doc.effectId);
      const edited = editInboxDoc(doc, edit, isOpen);
      if (edited !== doc) reworded.push({ id, text: inboxText(edited) });
    }
    return { reworded, drained };
  }

  /** The texts and keys of inbox messages that wait to be appended. */
  #spokenOf(sound: ReadonlyMap<string, InboxDoc>): ReadonlySet<string> {
    const ids = new Set<string>();
    for (const [id, doc] of sound)
      if (doc.kind === "append") {
        const key = id.slice(appendId("").length);
        ids.add(appendKeyId(key)).add(appendTextId(key, doc.tag));
      }
    return ids;
  }

  /** Whether messages hold the text, in their files as well. */
  #isIn(doc: Extract<InboxDoc, { readonly kind: "append-text" }>): boolean {
    try {
      return messagesOf(doc).some((message, i) => {
        const { value, blobs } = encodeMessage(message, `messages[${i}]`);
        const edit = { text: this.#what.text, numbers: true };
        return (
          editMessage(value, edit) !== value ||
          blobs.some(({ bytes }) => this.#what.file(bytes) !== undefined)
        );
      });
    } catch {
      return true;
    }
  }
}
