/**
 * A desk, its aides and the person outside: what must be so at every kill, once nothing moves any
 * more, and at the end.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { Journals, name } from "../agents/agent-journals.mjs";
import { instant } from "../agents/agent-points.mjs";
import { acts } from "../agents/agent-script.mjs";
import { answerFaults, transcriptFaults } from "../agents/agent-transcript.mjs";
import { Person } from "./desk-person.mjs";
import { deskScript, TOOLS } from "./desk-script.mjs";

const LIMIT = 500;
/**
 * Longer than a beat: a cancel that was sent to a child is taken in by whoever holds it, with its
 * next look.
 */
const TRIES = 80;
/** After these a call may be made, and waits for nobody. */
const READY = new Set(["approved", "retry", "signalled", "woken"]);

export class DeskWorld extends Journals {
  scripts;
  person;
  #shape;
  #broken;
  /** By session: when its turns began, and when it was found to be cancelled. */
  #begun = new Map();
  #cancelledAt = new Map();
  /** From when on a session that was cancelled is told to do something else. */
  #goesOnAt = new Map();
  #acted = new Map();
  #aides = [];

  /** `shape`: by session, how its script is made. */
  constructor({ ledger, seed, rng, broken, shape }) {
    super({ ledger, declared: TOOLS });
    this.#shape = shape;
    this.#broken = broken;
    this.scripts = new Map(
      Object.entries(shape).map(([id, how]) => [id, deskScript(seed, id, how)]),
    );
    this.person = new Person({ world: this, rng, broken });
    Object.assign(this.counts, this.person.counts, { children: 0 });
    this.person.counts = this.counts;
  }

  // ---- what the person asks

  get signals() {
    return [...this.scripts].map(([id, { signals }]) => [id, signals]);
  }

  hasBegun(session) {
    return this.#begun.has(session);
  }

  /** When a turn was begun, by the wall. */
  begunAt(session, turn) {
    return this.#begun.get(session)?.get(turn);
  }

  isCancelled(session) {
    return this.#cancelledAt.has(session);
  }

  /** From now on a session that was cancelled is told to do something else. */
  goesOn(session) {
    this.#goesOnAt.set(session, instant());
  }

  childrenOf(session) {
    return this.#aides.filter((id) => this.#rootOf(id) === session);
  }

  toCancel() {
    return Object.keys(this.#shape).filter((id) => this.#shape[id].isCut);
  }

  // ---- reading

  turn({ id }, session, at) {
    const begun = this.#begun.get(session) ?? new Map();
    this.#begun.set(session, begun);
    if (begun.has(id)) this.wrong.push(`turn ${id} of ${session} was begun twice`);
    begun.set(id, at);
  }

  state({ status }, session, when) {
    if (status !== "cancelled") return;
    this.#cancelledAt.set(session, Math.min(when, this.#cancelledAt.get(session) ?? when));
  }

  line(line, effect) {
    const { name, input, session, callId, did, entered } = line;
    const what = `${name} ${callId} of ${session}`;
    if (TOOLS[name].approval) this.#holdToDecision(line, effect, what);
    if (input.hears !== undefined && !isDeepStrictEqual(line.heard, input.hears))
      this.wrong.push(
        `${what} should have heard ${JSON.stringify(input.hears)} and heard ${JSON.stringify(line.heard)}`,
      );
    if (input.errand !== undefined && line.output !== `${input.errand.flat().length} answers`)
      this.wrong.push(`${what} was told by its aide: ${line.output}`);
    const root = this.#rootOf(session);
    const since = Math.min(
      this.#cancelledAt.get(root) ?? Number.POSITIVE_INFINITY,
      this.person.cancelled.get(root) ?? Number.POSITIVE_INFINITY,
    );
    if (entered > since && entered < (this.#goesOnAt.get(root) ?? Number.POSITIVE_INFINITY))
      this.wrong.push(`${what} was begun after ${root} was cancelled`);
    if (did !== "acted" || !acts(TOOLS[name])) return;
    const times = (this.#acted.get(input.id) ?? 0) + 1;
    this.#acted.set(input.id, times);
    if (times > 1) this.wrong.push(`${name} ${input.id} happened ${times} times in all`);
  }

  #holdToDecision({ entered, input }, effect, what) {
    const decided = this.person.decisions.get(effect?.id);
    if (decided === undefined || decided.at > entered)
      this.wrong.push(`${what} was made before anybody had approved it`);
    else if (decided.decision === "deny")
      this.wrong.push(`${what} was made although it was denied`);
    else if (!isDeepStrictEqual(input, decided.input))
      this.wrong.push(`${what} was made with ${JSON.stringify(input)}, which nobody approved`);
  }

  /** The session that a child belongs to: its id begins with that of the call that runs it. */
  #rootOf(session) {
    return this.effects.get(session.slice(0, session.indexOf("/")))?.session ?? session;
  }

  async look(store) {
    const aides = await store.sessions({ agent: "aide", limit: LIMIT });
    await super.look(store);
    this.#aides = aides.map(({ id }) => id);
    const children = new Map();
    for (const id of this.#aides) {
      const of = id.slice(0, id.indexOf("/"));
      children.set(of, (children.get(of) ?? 0) + 1);
      if (!this.effects.has(of)) this.wrong.push(`${id} is the child of no call`);
    }
    this.counts.children = children.size;
    for (const [of, count] of children)
      if (count > 1) this.wrong.push(`the call ${of} has ${count} children`);
  }

  // ---- when nothing moves any more

  orders() {
    const turns = Object.fromEntries(
      [...this.scripts.keys()].map((id) => [id, this.#goesOnAt.has(id) ? 1 : 0]),
    );
    return { sessions: [...this.scripts.keys()], turns, shape: this.#shape };
  }

  /** Whether a session was cancelled, and nothing else is to be done there yet. */
  #isAtRest(root) {
    return this.#cancelledAt.has(root) && !this.#goesOnAt.has(root);
  }

  /** Whatever is not over must be seen by those who look for it. */
  async surfaced({ store, hold }) {
    // What was read may have changed before it is asked for: a person decides meanwhile. What stays
    // so is wrong.
    for (let tries = 0; (await this.#untold(hold)).length > 0; tries++) {
      if (tries === TRIES) {
        this.wrong.push(...(await this.#untold(hold)));
        return;
      }
      await sleep(50);
      await this.look(store);
    }
  }

  async #untold(hold) {
    const untold = [];
    const listed = new Set();
    for (const status of this.#broken === "lists-no-doubt" ? ["waiting"] : ["waiting", "in-doubt"])
      for (const { effectId, status: is } of (await hold.effects.list({ status, limit: LIMIT }))
        .items)
        if (is === status) listed.add(effectId);
    for (const session of new Set([...this.effects.values()].map((effect) => effect.session))) {
      // What an aide had begun ends with the call that ran it.
      if (this.#cancelledAt.has(session) && (session.includes("/") || this.#isAtRest(session)))
        continue;
      for (const effect of this.openIn(session))
        if (!READY.has(effect.last) && !listed.has(effect.id))
          untold.push(`${name(effect)} is open (${effect.last}), and nobody is told`);
    }
    return untold;
  }

  /**
   * What a child answers once it can do no more. The person then does all there is to do. Answers
   * whether all sessions are done.
   */
  async idle(there, ends) {
    await this.surfaced(there);
    let all = true;
    for (const { session, status, reason, error } of ends) {
      const isCut = this.#shape[session].isCut === true;
      const isLast = !isCut || this.#goesOnAt.has(session);
      if (status === "completed" && isLast) continue;
      all = false;
      if (status === "stopped" && reason === "cancelled" && isCut && !isLast) this.goesOn(session);
      else if (status !== "waiting" && status !== "in-doubt" && !(status === "open" && isCut))
        this.wrong.push(
          `${session} is ${status} and can do no more: ${error?.message ?? reason ?? ""}`,
        );
    }
    if (all) return true;
    const did = await this.person.act(there, { all: true, mayWrite: this.mayWrite });
    this.#still = did > 0 ? 0 : this.#still + 1;
    if (this.#still > 5)
      this.wrong.push(`nobody can do anything, and nothing ends: ${JSON.stringify(ends)}`);
    return false;
  }
  #still = 0;
  /** Whether somebody else may write while a child lives. */
  mayWrite = true;

  // ---- at the end

  async finish({ store, hold }) {
    this.#begun = new Map();
    await this.lookAgain(store);
    for (const [id, { turns }] of this.scripts) {
      if (!turns.at(-1).cut) await this.#finishOne(hold, id, turns);
      else if ((await hold.sessions.get(id)).status !== "cancelled")
        this.wrong.push(`${id} was cancelled, and is not at its end`);
      const begun = [...(this.#begun.get(id)?.keys() ?? [])];
      if (begun.length !== turns.length)
        this.wrong.push(
          `${id} should have begun ${turns.length} turns and began ${begun.join(", ") || "none"}`,
        );
    }
    for (const { id, head } of await store.sessions({ agent: "aide", limit: LIMIT })) {
      // What it had begun was left where it was; the calls themselves have been held against the
      // ledger.
      if (head.status !== "completed" && this.#cancelledAt.has(this.#rootOf(id))) continue;
      const [input] = (await hold.checkpoints.state((await hold.checkpoints.latest(id)).id))
        .messages;
      await this.#finishOne(hold, id, [
        { input: input.content, replies: JSON.parse(input.content) },
      ]);
    }
    await this.verify(hold);
  }

  async #finishOne(hold, id, turns) {
    const session = await hold.session(id);
    const { messages, state, status } = session;
    const open = await session.unfinished();
    await session.close();
    if (open.length > 0) this.wrong.push(`${id} has ${open.length} unfinished calls at its end`);
    if (status !== "completed") this.wrong.push(`${id} is ${status} at its end`);
    const effects = [...this.effects.values()].filter((effect) => effect.session === id);
    const answered = (answer) => this.#answerFaults({ ...answer, effects, state });
    this.wrong.push(...transcriptFaults({ id, turns, messages, effects, answered }));
  }

  #answerFaults(answer) {
    const { call, own, told } = answer;
    // Of what does no harm, and was not made any more because its turn was cut, nothing need be
    // known.
    if (!acts(TOOLS[call.name]) && told.outcome !== "ok") return [];
    const wrong =
      own === undefined && told.outcome !== "ok"
        ? []
        : answerFaults({ ...answer, ledger: this.ledger, declared: TOOLS });
    const decided = this.person.decisions.get(own?.id)?.decision;
    if (decided === "deny" && told.outcome !== "denied")
      wrong.push(`was denied, and the model is told: ${JSON.stringify(told.output)}`);
    return wrong;
  }
}
