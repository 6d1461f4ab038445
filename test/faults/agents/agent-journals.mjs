/**
 * What is known of one store and its ledger while children are killed over it, and what must be so.
 * Nothing here asks the runtime what it thinks: the journal is read from the store as it stands,
 * save by save, and the ledger is the truth about the world.
 */
import { instant } from "./agent-points.mjs";
import { acts } from "./agent-script.mjs";

const PAGE = 500;
const isOver = ({ done }) => done !== undefined;

export class Journals {
  /** By line and number: what was acknowledged, and what was found. */
  #acknowledged = new Map();
  #found = new Map();
  #ends = new Map();
  /** By id, and by key. */
  effects = new Map();
  #byKey = new Map();
  ledger;
  #declared;
  /**
   * Of the ledger, as it was at the last look; and how many of them were held against the journals.
   */
  #lines = [];
  #heard = 0;
  counts = { acknowledged: 0, calls: 0, acts: 0, deduped: 0, settled: 0, checked: 0 };
  wrong = [];

  /** `declared`: the tools, and how they may be called. */
  constructor({ ledger, declared }) {
    this.ledger = ledger;
    this.#declared = declared;
  }

  // ---- taking in

  /** What a child has said, up to now. */
  hear(lines) {
    for (const line of lines) {
      if (line.fault) this.wrong.push(`the child failed: ${line.fault}`);
      for (const save of line.saved ?? [])
        this.#acknowledged.set(`${save.branch}-${save.seq}`, { ...save, n: line.n });
    }
    this.counts.acknowledged = this.#acknowledged.size;
  }

  /** Reads what is new in the journals and in the ledger, and holds the one against the other. */
  async look(store) {
    // First the ledger: what reaches it while the journals are read is held against them the next
    // time.
    this.#lines = [...this.ledger.read()];
    for (const { id, head } of await store.sessions({ limit: PAGE }))
      await this.#readBranch(store, head.branch, id);
    for (const [place, { check, session }] of this.#acknowledged) {
      if (this.#found.get(place) === check) continue;
      this.wrong.push(`save ${place} of ${session} was acknowledged and is gone`);
      this.#acknowledged.delete(place);
    }
    this.#hold();
  }

  /** Everything once more from the beginning. */
  async lookAgain(store) {
    const found = this.#found;
    this.#found = new Map();
    this.#ends = new Map();
    this.effects = new Map();
    this.counts.checked = 0;
    await this.look(store);
    for (const [place, check] of found)
      if (this.#found.get(place) !== check) this.wrong.push(`save ${place} was there and is gone`);
  }

  async #readBranch(store, line, session) {
    for (;;) {
      const from = (this.#ends.get(line) ?? 0) + 1;
      const saves = await store.saves(line, {
        from,
        to: Number.MAX_SAFE_INTEGER,
        limit: PAGE,
        items: true,
        state: true,
      });
      for (const save of saves) {
        const place = `${line}-${save.seq}`;
        this.#found.set(place, save.check);
        this.#ends.set(line, save.seq);
        // What nobody acknowledged was there when it was found, at the latest.
        const when = this.#acknowledged.get(place)?.n ?? instant();
        for (const record of JSON.parse(save.state ?? "[]"))
          this.#record(record, session, when, save.at);
        for (const record of JSON.parse(save.items ?? "[]"))
          if (record.status !== undefined) this.state(record, session, when);
      }
      if (saves.length < PAGE) return;
    }
  }

  #record(record, session, when, at) {
    if (record.effect !== undefined) this.#event(record.effect, session, when);
    if (record.turn !== undefined) this.turn(record.turn, session, at);
  }

  /**
   * Told of every status that is recorded, and when that was at the latest; of every turn, and when
   * by the wall.
   */
  state() {}
  turn() {}

  #event(event, session, when) {
    const { id, is } = event;
    if (is === "intent") {
      const effect = {
        ...event,
        session,
        attempts: event.attempt === undefined ? 0 : 1,
        asked: event.waits === undefined ? 0 : 1,
        isDoubtful: false,
        last: is,
      };
      this.effects.set(id, effect);
      this.#byKey.set(event.key, effect);
      return;
    }
    const effect = this.effects.get(id);
    if (effect === undefined) {
      this.wrong.push(`${id} of ${session}: ${is} without an intent`);
      return;
    }
    effect.last = is;
    if (is === "begun") {
      effect.attempts += 1;
      if (isOver(effect))
        this.wrong.push(`${name(effect)} was begun again after its outcome was recorded`);
    }
    if (is === "doubt" || is === "waits") effect.asked += 1;
    if (is === "doubt") effect.isDoubtful = true;
    else if (is === "retry" || is === "begun") effect.isDoubtful = false;
    if (is === "done") {
      effect.isDoubtful = false;
      if (event.by === "check") this.counts.checked += 1;
      // A second one says nothing: the first counts.
      effect.done ??= { ...event, when };
    }
  }

  // ---- at every kill

  /**
   * The calls that reached the world since the last look, against what the journal says of them.
   */
  #hold() {
    for (const line of this.#lines.slice(this.#heard)) {
      this.counts.calls += 1;
      if (line.did === "acted") this.counts.acts += 1;
      if (line.did === "deduped") this.counts.deduped += 1;
      const effect = this.#byKey.get(line.key);
      const what = `${line.name} ${line.callId} of ${line.session}`;
      this.line(line, effect);
      if (!acts(this.#declared[line.name])) continue;
      if (effect === undefined) {
        this.wrong.push(`${what} was called without an intent in the journal`);
        continue;
      }
      const calls = this.#under(line.key).length;
      if (acts(effect) && calls > effect.attempts)
        this.wrong.push(`${what} was called ${calls} times and begun ${effect.attempts} times`);
    }
    this.#heard = this.#lines.length;
    for (const effect of this.effects.values()) this.#holdOne(effect);
  }

  /** Told of every line of the ledger, once, and of the call that it belongs to. */
  line() {}

  #holdOne(effect) {
    const { key, mode, done } = effect;
    if (!acts(effect)) return;
    const calls = this.#under(key);
    if (done !== undefined && calls.some((line) => line.n > done.when))
      this.once(effect, `${name(effect)} was called again after its outcome was recorded`);
    const reached = calls.filter(({ did }) => did !== "nothing").length;
    if (mode === "once" && reached > 1)
      this.once(effect, `${name(effect)}, to be called once, reached the world ${reached} times`);
    // The call itself, whatever keys it was given; a refund by its order.
    const same = ({ name: tool, session, callId, input }) =>
      tool === effect.name &&
      session === effect.session &&
      (effect.named === undefined
        ? callId === calls[0]?.callId
        : `refund:${input.order}` === effect.named);
    const happened =
      calls.length === 0
        ? 0
        : this.#lines.filter((line) => line.did === "acted" && same(line)).length;
    if (happened > 1) this.once(effect, `${name(effect)} happened ${happened} times`);
  }

  #under(key) {
    return this.#lines.filter((line) => line.key === key);
  }

  /** The same is not said again at every kill. */
  once(about, what) {
    about.told ??= new Set();
    if (!about.told.has(what)) this.wrong.push(what);
    about.told.add(what);
  }

  /** The calls of a session that act on the world and are not over. */
  openIn(session) {
    return [...this.effects.values()].filter(
      (effect) => effect.session === session && acts(effect) && !isOver(effect),
    );
  }

  /** What a person finds out about a call of which nobody knows what became. */
  truth({ key }, rng) {
    const act = this.ledger.actUnder(key);
    if (act !== undefined)
      return {
        output: { receipt: act.receipt, ...(act.input.pad && { pad: "p".repeat(act.input.pad) }) },
      };
    return rng.next() < 0.5 ? { error: "it did not happen" } : { retry: true };
  }

  async verify(hold) {
    const verdict = await hold.verify();
    if (!verdict.ok) this.wrong.push(`verify: ${JSON.stringify(verdict.findings.slice(0, 3))}`);
  }
}

export const name = ({ name: tool, id, session }) => `${tool} ${id} of ${session}`;
