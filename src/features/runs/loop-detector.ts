/** Whether an agent goes round in circles: what its last replies of a turn asked for. */
import type { StateFold } from "../../core/journal/session-state.js";
import { type Asked, goesRound, MAX_PERIOD } from "../../core/messages/limits.js";
import type { MessageInput } from "../../core/messages/message.js";
import { clip } from "../../core/messages/truncate.js";
import { sortedText } from "../../core/values/json.js";
import { callsIn } from "../../engine/calls/bodies.js";
import { backwards } from "./reply.js";

export class LoopDetector {
  readonly #repeats: number;
  #asked: Asked[] | undefined;

  constructor(repeats: number) {
    this.#repeats = repeats;
  }

  /**
   * In words, where the last replies, and one that has just come, ask for the same again and again.
   */
  find(fold: StateFold, reply: MessageInput | undefined): string | undefined {
    const most = this.#repeats * MAX_PERIOD;
    this.#asked ??= lastAsked(fold, most);
    if (reply !== undefined) this.#asked.push(askedIn(reply));
    if (this.#asked.length > most) this.#asked = this.#asked.slice(-most);
    return goesRound(this.#asked, this.#repeats);
  }
}

/** What the replies of the present turn have asked for, oldest first. */
function lastAsked(fold: StateFold, most: number): Asked[] {
  const from = fold.inFlight.turn?.from ?? 0;
  const asked: Asked[] = [];
  for (const message of backwards(fold)) {
    if (message.seq < from || asked.length === most) break;
    if (message.role === "assistant" && callsIn(message).length > 0)
      asked.unshift(askedIn(message));
  }
  return asked;
}

function askedIn(message: MessageInput): Asked {
  const calls = callsIn(message);
  return {
    same: calls.map(({ name, input }) => `${name} ${sortedText(input)}`).join("\n"),
    get text() {
      return calls
        .map(({ name, input }) => `${name}(${clip(JSON.stringify(input), 200)})`)
        .join(" and ");
    },
  };
}
