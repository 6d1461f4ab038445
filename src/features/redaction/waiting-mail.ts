/** Changing the mail that waits for a session. */
import type { SessionId } from "../../core/values/ids.js";
import type { Ground } from "../../engine/journal/ground.js";
import { superseded } from "../../engine/journal/lease-keeper.js";
import { tryPost } from "../../engine/journal/post-inbox.js";
import { unlessDamaged } from "../../engine/records/damage.js";
import { editMail } from "../../engine/records/edit-mail.js";
import { HIDDEN } from "../../engine/records/letters.js";
import { type MailDoc, mailOf, mailText } from "../../engine/records/rows.js";
import { inboxOf } from "../../store/capabilities.js";
import { LetterEdits } from "./letters.js";
import { OpenCalls } from "./reach.js";
import type { Name, Seen } from "./rewriting.js";
import type { What } from "./what.js";

type Edits = Pick<LetterEdits, "posted" | "reworded" | "drained">;

/** The mail that waits for a session. `isDamaged`: some of it cannot be read. */
export async function waitingMail({ store }: Ground, session: SessionId) {
  const mail = await inboxOf(store).list(session, {
    dueBy: HIDDEN,
    limit: Number.MAX_SAFE_INTEGER,
  });
  const sound = new Map<string, MailDoc>();
  for (const { id, text } of mail) {
    const doc = await unlessDamaged(() => mailOf(text, session));
    if (doc !== undefined) sound.set(id, doc);
  }
  return { sound, isDamaged: sound.size < mail.length };
}

export class WaitingMail {
  readonly #ground: Ground;
  readonly #session: SessionId;
  readonly #what: What;
  readonly #name: (seen: Seen, name: string, what: Name["what"]) => void;
  #isLeft = false;

  /** `name` is told of each name in the mail that may hold the text: names stay. */
  constructor(
    ground: Ground,
    session: SessionId,
    what: What,
    name: (seen: Seen, name: string, what: Name["what"]) => void,
  ) {
    this.#ground = ground;
    this.#session = session;
    this.#what = what;
    this.#name = name;
  }

  /** Whether messages wait to be appended that cannot be read, or not yet. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Whether there is anything to change. */
  async isHolding(seen: Seen): Promise<boolean> {
    const { reworded, drained } = await this.#edits(seen);
    return reworded.length + drained.length > 0;
  }

  /** Changes what waits for the session. Answers whether there was anything. */
  async change(seen: Seen, epoch: number): Promise<boolean> {
    const { posted, reworded, drained } = await this.#edits(seen);
    const { store } = this.#ground;
    const anew: { id: string; text: string }[] = [];
    for (const { id, doc } of posted)
      if ((await tryPost(store, this.#session, doc, { id, due: HIDDEN })) === "conflict")
        anew.push({ id, text: mailText(doc) });
    if (reworded.length + drained.length === 0) return false;
    // In this order: a bell speaks of parts that are there.
    const changed = { reworded: [...anew, ...reworded], drained };
    const change = { session: this.#session, when: { epoch }, ...changed };
    const applied = await store.apply([change], [], "frees");
    if (!applied.ok) throw superseded(this.#session);
    return true;
  }

  /** A message that waits to be appended has the id that its sender gave it, or none yet. */
  async hasMessage(): Promise<boolean> {
    return this.#letters(await this.#read(), () => {}).isMessageThere;
  }

  async #edits(seen: Seen): Promise<Edits> {
    const open = await OpenCalls.of(this.#ground, [this.#session]);
    const mail = await this.#read();
    const letters = this.#letters(mail, (name, what) => this.#name(seen, name, what));
    this.#isLeft ||= letters.isLeft;
    const edit = { text: this.#what.text, numbers: true };
    const others = [...mail].flatMap(([letter, doc]) => {
      if (doc.kind === "turn")
        for (const key of [doc.turn, doc.key])
          if (key !== undefined) this.#name(seen, key, "turn-key");
      if (doc.kind === "signal") this.#name(seen, doc.name, "signal");
      const isOpen = doc.kind === "approve" && open.ids.has(doc.effect);
      if (isOpen && editMail(doc, edit, false) !== editMail(doc, edit, true))
        seen.exempt.add(doc.effect);
      const edited = editMail(doc, edit, isOpen);
      return edited === doc ? [] : [{ id: letter, text: mailText(edited) }];
    });
    return {
      posted: letters.posted,
      reworded: [...others, ...letters.reworded],
      drained: letters.drained,
    };
  }

  async #read(): Promise<ReadonlyMap<string, MailDoc>> {
    const { sound, isDamaged } = await waitingMail(this.#ground, this.#session);
    this.#isLeft = isDamaged;
    return sound;
  }

  #letters(
    mail: ReadonlyMap<string, MailDoc>,
    name: (name: string, what: Name["what"]) => void,
  ): LetterEdits {
    return new LetterEdits(mail, this.#what, this.#ground.wallMs(), name);
  }
}
