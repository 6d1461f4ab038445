/**
 * The agents of a campaign, their sessions and their scripts: what must be so once nothing moves
 * any more, and at the end.
 */
import { Journals, name } from "./agent-journals.mjs";
import { scriptOf, sessionIds, TOOLS } from "./agent-script.mjs";
import { settle } from "./agent-settle.mjs";
import { answerFaults, transcriptFaults } from "./agent-transcript.mjs";

const STRATEGIES = [undefined, "never", "after-model", "before-step"];
const SESSIONS = 5;

export class World extends Journals {
  #seed;
  #rng;
  #scripts;

  /** `script`: the turns of one session, in place of those that the seed gives. */
  constructor({ ledger, seed, rng, script }) {
    super({ ledger, declared: TOOLS });
    this.#seed = seed;
    this.#rng = rng;
    this.#scripts =
      script === undefined
        ? Object.fromEntries(sessionIds(SESSIONS).map((id) => [id, scriptOf(seed, id)]))
        : { s0: script };
  }

  get #sessions() {
    return Object.keys(this.#scripts);
  }

  orders() {
    return {
      sessions: this.#sessions,
      scripts: this.#scripts,
      checkpoint: STRATEGIES[this.#seed % STRATEGIES.length],
    };
  }

  /**
   * What a child answers once it can do no more: whatever is not over must be listed, and the rest
   * be done. A person then settles what is in doubt by what really happened. Answers whether all
   * sessions are done.
   */
  async idle({ store }, ends) {
    let all = true;
    for (const { session, status, pending, error, reason } of ends) {
      const open = this.openIn(session);
      const listed = new Set(pending.map(({ effectId }) => effectId));
      for (const effect of open)
        if (!listed.has(effect.id))
          this.wrong.push(`${name(effect)} is open, and ${session} (${status}) does not list it`);
      if (status === "completed") continue;
      all = false;
      if (status !== "in-doubt" || open.length === 0) {
        this.wrong.push(
          `${session} stays ${status} with ${open.length} open calls: ${error?.message ?? reason ?? ""}`,
        );
        continue;
      }
      for (const effect of open) {
        if (!effect.isDoubtful) this.wrong.push(`${name(effect)} is open and not in doubt`);
        this.counts.settled += 1;
        await settle(store, session, effect.id, effect.asked, this.truth(effect, this.#rng));
      }
    }
    return all;
  }

  /**
   * Everything once more from the beginning, the transcripts word for word, and what each call was
   * answered with.
   */
  async finish({ store, hold }) {
    await this.lookAgain(store);
    for (const id of this.#sessions) {
      const session = await hold.session(id);
      const open = await session.unfinished();
      if (open.length > 0) this.wrong.push(`${id} has ${open.length} unfinished calls at its end`);
      if (session.status !== "completed") this.wrong.push(`${id} is ${session.status} at its end`);
      const effects = [...this.effects.values()].filter((effect) => effect.session === id);
      const answered = (answer) =>
        answerFaults({
          ...answer,
          effects,
          state: session.state,
          ledger: this.ledger,
          declared: TOOLS,
        });
      this.wrong.push(
        ...transcriptFaults({
          id,
          turns: this.#scripts[id],
          messages: session.messages,
          effects,
          answered,
        }),
      );
      await session.close();
    }
    await this.verify(hold);
  }
}
