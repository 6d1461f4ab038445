/** Turns that were submitted to workers: when, and what must have become of them. */
import { setTimeout as sleep } from "node:timers/promises";
import { keyOf } from "../../../dist/engine/records/append-messages.js";
import { DeskWorld } from "../desk/desk-world.mjs";

const SHAPE = {
  s0: { turns: 2 },
  s1: { turns: 2 },
  s2: {},
  s3: { isLater: true },
  s4: { isCut: true },
  s5: { isCut: true, isLast: true },
};
const LATER_MS = 1_500;
/** So late that a worker which begins such a turn at all begins it early. */
const MUCH_LATER_MS = 3_600_000;
const ALL = Number.MAX_SAFE_INTEGER;

export class CrewWorld extends DeskWorld {
  /** By session: the turns that it was given, and from when on each may be begun. */
  #given = new Map(Object.keys(SHAPE).map((id) => [id, []]));
  #rng;
  #laterMs;

  constructor(about) {
    super({ ...about, shape: SHAPE });
    this.#rng = about.rng;
    this.#laterMs = about.broken === "comes-early" ? MUCH_LATER_MS : LATER_MS;
    Object.assign(this.counts, { turns: 0, later: 0 });
  }

  orders() {
    return { shape: SHAPE };
  }

  /**
   * Submits some of what is left to submit, and the same again at times: it is known by its key.
   */
  async submit(hold) {
    // A name is enough for whoever submits.
    const bound = hold.agent({
      name: "desk",
      model: async () => ({ content: "nobody asks this one" }),
    });
    for (const [session, { turns }] of this.scripts) {
      const given = this.#given.get(session);
      const turn = turns[given.length];
      const isAfterCut = given.length > 0 && turns[0].cut;
      if (
        turn === undefined ||
        this.#rng.next() < 0.5 ||
        (isAfterCut && !this.isCancelled(session))
      )
        continue;
      const isLast = given.length === turns.length - 1;
      const { isLater = isLast && this.#rng.next() < 0.4 } = SHAPE[session];
      const atMs = isLater
        ? Date.now() + this.#rng.whole(this.#laterMs / 2, this.#laterMs)
        : undefined;
      const o = { key: String(given.length), ...(atMs !== undefined && { atMs }) };
      if (isAfterCut) this.goesOn(session);
      given.push({ atMs, turn: await bound.submit(session, turn.input, o) });
      this.counts.turns += 1;
      if (atMs !== undefined) this.counts.later += 1;
      if (this.#rng.next() < 0.3) await bound.submit(session, turn.input, o);
    }
  }

  /**
   * Looks, and answers whether every turn has come to its end. A turn that waits nowhere and was
   * not begun is lost.
   */
  async lookForAll(store) {
    const waiting = new Map();
    for (const [session, given] of this.#given)
      if (given.length > 0)
        waiting.set(
          session,
          (await store.inbox.list(session, { dueBy: ALL, limit: 100 })).map(({ id }) => id),
        );
    await this.look(store);
    let all = true;
    for (const [session, given] of this.#given) {
      for (const [n, { atMs }] of given.entries()) {
        const begun = this.begunAt(session, String(n));
        if (begun === undefined && !waiting.get(session).includes(`turn:${keyOf(`${n}`)}`))
          this.once(given, `turn ${n} of ${session} is lost`);
        if (begun < atMs)
          this.once(given, `turn ${n} of ${session} was begun ${atMs - begun} ms too early`);
      }
      const { turns } = this.scripts.get(session);
      const { length } = turns;
      const end = turns.at(-1).cut ? "cancelled" : "completed";
      if (
        this.begunAt(session, String(length - 1)) === undefined ||
        (await store.session(session)).row.head.status !== end
      )
        all = false;
    }
    return all;
  }

  /** Where each session stands, for whoever wonders why it does not end. */
  async standing({ store, hold }) {
    const rows = [...(await store.sessions({ limit: 100 }))].map(
      ({ id, head: { status, due } }) => ({ id, status, due }),
    );
    const waiting = (await hold.effects.list({ status: "waiting" })).items.map(
      ({ sessionId, name, waitsFor }) => ({
        sessionId,
        name,
        waitsFor,
      }),
    );
    return JSON.stringify({ rows, waiting });
  }

  async finish(there) {
    for (const [session, given] of this.#given)
      for (const [n, { turn }] of given.entries()) {
        const { status, reason } = await Promise.race([
          turn.result(),
          sleep(5_000, { status: "under way" }),
        ]);
        const isCut = this.scripts.get(session).turns[n].cut === true;
        if (isCut ? reason !== "cancelled" : status !== "completed")
          this.wrong.push(`turn ${n} of ${session} is said to be ${status} ${reason ?? ""}`);
      }
    await super.finish(there);
  }
}
