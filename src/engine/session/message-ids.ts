/**
 * The ids of a session's messages: no id is taken twice, and a message that is there already is
 * passed over.
 */
import { content } from "../../core/journal/diff.js";
import type { StateFold } from "../../core/journal/session-state.js";
import type { EncodedMessage, Message, MessageInput } from "../../core/messages/message.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { type BranchId, parsePlace, type SessionId } from "../../core/values/ids.js";
import { equal } from "../../core/values/json.js";

export class MessageIds {
  readonly #fold: StateFold;
  readonly #session: SessionId;
  readonly #branch: BranchId;
  /** Made of the transcript once a message with an id comes. */
  #known: Map<string, Message> | undefined;

  constructor(
    fold: StateFold,
    { id, branch }: { readonly id: SessionId; readonly branch: BranchId },
  ) {
    this.#fold = fold;
    this.#session = id;
    this.#branch = branch;
  }

  /** A message was appended. */
  add(message: Message): void {
    this.#known?.set(message.id, message);
  }

  /** The transcript was changed in the middle. */
  forget(): void {
    this.#known = undefined;
  }

  /**
   * Those that are not in the transcript already. Only a message that says the same may come twice.
   */
  fresh(
    messages: readonly EncodedMessage[],
    splice: readonly [start: number, remove: number] | undefined,
  ): readonly EncodedMessage[] {
    if (!messages.some(({ value }) => value.id !== undefined)) return messages;
    const leaving = new Set(
      splice && this.#fold.messages.slice(splice[0], splice[0] + splice[1]).map(({ id }) => id),
    );
    this.#known ??= new Map(this.#fold.messages.map((message) => [message.id, message]));
    const known = this.#known;
    const given = new Map<string, MessageInput>();
    return messages.filter(({ value }) => {
      const { id } = value;
      if (id === undefined) return true;
      this.#refuseReserved(id);
      const twin = given.get(id) ?? (leaving.has(id) ? undefined : known.get(id));
      given.set(id, value);
      if (twin === undefined) return true;
      if (splice === undefined && equal(content(twin), content(value))) return false;
      throw new HoldfastError(
        "CONFLICT",
        `A message with id ${quote(id)} is in session ${quote(this.#session)} already, ${splice ? "at another place" : "with other content"}.`,
        { sessionId: this.#session },
      );
    });
  }

  /** The id of a record to come must not be taken by another message before it. */
  #refuseReserved(id: string): void {
    const place = parsePlace(id);
    if (place?.branch === this.#branch && place.seq > this.#fold.seq && !this.#known?.has(id)) {
      throw new HoldfastError(
        "INVALID_ID",
        `${quote(id)} is the id that a later message of this session will be given. Choose another.`,
        {
          path: "messages.id",
        },
      );
    }
  }
}
