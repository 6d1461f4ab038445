/**
 * Somebody outside, in a process that is never killed: approves and denies, sends signals, cancels,
 * and says what became of calls of which nobody knows. Keeps in mind what was decided when, for
 * whoever judges it.
 */
import { keyOf } from "../../../dist/engine/records/append-messages.js";
import { instant } from "../agents/agent-points.mjs";
import { post } from "../agents/agent-settle.mjs";
import { changed } from "./desk-script.mjs";

const LIMIT = 200;

/** Whoever runs the session may have found out by itself in the meantime. */
function unlessOver(error) {
  if (error.code !== "BAD_STATUS" && error.code !== "NOT_FOUND" && error.code !== "CONFLICT")
    throw error;
}

export class Person {
  /** By call: what was decided, and from when on it may be known. */
  decisions = new Map();
  /** By session: from when on it is known to be cancelled. */
  cancelled = new Map();
  #settled = new Map();
  #sent = new Map();
  #world;
  #rng;
  #broken;
  counts = { approved: 0, changed: 0, denied: 0, signals: 0, doubled: 0, cancels: 0 };

  constructor({ world, rng, broken }) {
    this.#world = world;
    this.#rng = rng;
    this.#broken = broken;
  }

  /**
   * Does some of what there is to do, or `all` of it. `isLive`: a process may be at work on the
   * sessions: what is in doubt is then left for later. `mayWrite`: where one process writes the
   * store, letters are only posted.
   */
  async act(there, { all = false, isLive = false, mayWrite = true }) {
    const hand = {
      ...there,
      all,
      mayWrite,
      isFull: () => mayWrite && this.#rng.next() < 0.6,
      wants: (odds) => all || this.#rng.next() < odds,
    };
    let did = 0;
    const waiting = await this.#list(there.hold, "waiting");
    for (const pending of waiting)
      if (pending.waitsFor?.for === "approval" && hand.wants(0.6))
        did += await this.#decide(hand, pending);
    did += await this.#signal(hand, waiting);
    if (!isLive)
      for (const pending of await this.#list(there.hold, "in-doubt"))
        if (hand.wants(0.7)) did += await this.#settle(hand, pending);
    if ((all && did === 0) || this.#rng.next() < 0.15) did += await this.#cancel(hand);
    return did;
  }

  async #list(hold, status) {
    return (await hold.effects.list({ status, limit: LIMIT })).items.filter(
      (pending) => pending.status === status,
    );
  }

  async #decide({ store, hold, isFull, mayWrite }, { effectId: id, sessionId, input }) {
    const { decision } = input;
    const before = this.decisions.get(id);
    if (before?.isTakenIn || decision === "never" || (before !== undefined && !mayWrite)) return 0;
    const by = "a person";
    const other = decision === "change" ? changed(input) : undefined;
    // Whoever was killed after posting finds it undecided still, and decides again.
    const isTakenIn = isFull() || before !== undefined;
    this.decisions.set(id, {
      decision,
      input: other ?? input,
      at: before?.at ?? instant(),
      isTakenIn,
    });
    if (before === undefined)
      this.counts[{ approve: "approved", change: "changed", deny: "denied" }[decision]] += 1;
    if (!isTakenIn) {
      // As if whoever decided had been killed before the letter was taken in.
      const letter =
        decision === "deny"
          ? { kind: "deny", reason: "no" }
          : { kind: "approve", ...(other && { input: other }) };
      // Calls wait for approval once, before they are begun.
      await post(store, sessionId, { ...letter, effectId: id, asked: 1, by });
    } else if (decision === "deny")
      await hold.effects.deny(id, { by, reason: "no" }).catch(unlessOver);
    else await hold.effects.approve(id, { by, ...(other && { input: other }) }).catch(unlessOver);
    return 1;
  }

  /** Signals come in their order, before anybody waits for them or after, and some come twice. */
  async #signal({ store, hold, isFull, all, wants }, waiting) {
    let did = 0;
    for (const [session, signals] of this.#world.signals) {
      const isWaiting = waiting.some(
        ({ sessionId, waitsFor }) => sessionId === session && waitsFor?.for === "signal",
      );
      const sent = this.#sent.get(session) ?? 0;
      const next = signals[sent];
      if (
        next === undefined ||
        !this.#world.hasBegun(session) ||
        !(isWaiting ? wants(0.6) : !all && this.#rng.next() < 0.1)
      )
        continue;
      const send = (key) =>
        isFull()
          ? hold.sessions.signal(session, next.name, next.value, { key })
          : post(
              store,
              session,
              { kind: "signal", name: next.name, value: next.value },
              `signal:${keyOf(`${next.name}\n${key}`)}`,
            );
      await send(`${sent}`);
      this.#sent.set(session, sent + 1);
      this.counts.signals += 1;
      did += 1;
      const isUnderTwoKeys = this.#broken === "signals-under-two-keys";
      // At least one is sent twice, whatever the numbers say.
      if (this.#rng.next() > 0.5 && this.counts.doubled > 0 && !isUnderTwoKeys) continue;
      this.counts.doubled += 1;
      await send(isUnderTwoKeys ? `${sent}, again` : `${sent}`);
    }
    return did;
  }

  async #settle({ store, hold, isFull, mayWrite }, { effectId: id, sessionId }) {
    const effect = this.#world.effects.get(id);
    // Just come: the world has not looked since.
    if (effect === undefined) return 0;
    const attempt = `${id} ${effect.attempts}`;
    const before = this.#settled.get(attempt);
    if (before?.isTakenIn || (before !== undefined && !mayWrite)) return 0;
    const isTakenIn = isFull() || before !== undefined;
    const as = before?.as ?? this.#world.truth(effect, this.#rng);
    this.#settled.set(attempt, { as, isTakenIn });
    if (before === undefined) this.#world.counts.settled += 1;
    if (isTakenIn) await hold.effects.settle(id, { ...as, by: "a person" }).catch(unlessOver);
    else
      await post(store, sessionId, {
        kind: "settle",
        effectId: id,
        asked: effect.asked,
        by: "a person",
        as,
      });
    return 1;
  }

  async #cancel({ store, hold, mayWrite }) {
    const session = this.#world
      .toCancel()
      .find((id) => this.#world.hasBegun(id) && !this.cancelled.has(id));
    if (session === undefined) return 0;
    const reason = "changed my mind";
    if (mayWrite) await hold.sessions.cancel(session, reason);
    else
      for (const id of [session, ...this.#world.childrenOf(session)])
        await post(store, id, { kind: "cancel", reason });
    this.counts.cancels += 1;
    // Whoever holds it takes it in by itself, and that is found in the journal.
    this.cancelled.set(
      session,
      (await hold.sessions.get(session)).status === "cancelled"
        ? instant()
        : Number.POSITIVE_INFINITY,
    );
    return 1;
  }
}
