/**
 * In-flight work of a run: what a session has begun and not finished. Part of the fold, and small:
 * of calls that are over only those are kept that may be asked for again.
 */
import type { Owner } from "../sessions/lease.js";
import { type Digest, digest } from "../values/digest.js";
import { type Json, jsonBytes } from "../values/json.js";
import { acts, applyEvent, type Body, type Effect, type EffectEvent } from "./effect.js";

/** One turn: an input, and all that is done until the agent has answered it. */
export interface Turn {
  readonly id: string;
  /** The caller's own name for it. */
  readonly key?: string;
  /** A digest of its input, or `UNKNOWN`. */
  readonly inputDigest: string;
  /** The number of its first message. */
  readonly from: number;
  /** The agent's version when it began. */
  readonly version?: string;
  /** The session's replies and tokens before it. */
  readonly steps: number;
  readonly tokens: number;
}

/** A signal that nobody waits for yet. */
interface Signal {
  readonly name: string;
  readonly body: Body;
}

/** What a record says of the in-flight work. */
export interface InFlightRecord {
  readonly effect?: EffectEvent;
  /** All calls of the reply with this number have their tool messages. */
  readonly answered?: number;
  /**
   * The reply with this number is the agent's own, and asks for calls. Said where no intent of a
   * call says it.
   */
  readonly ownReply?: number;
  readonly turn?: Turn;
  /** The process that begins calls from here on. */
  readonly held?: Owner;
  /** System text and tools as the model is given them from here on, as a blob. */
  readonly prefix?: Digest;
  /** With it: the number of the first message under it. */
  readonly since?: number;
  /** The version of the state's shape. */
  readonly shape?: number;
  readonly signal?: string;
  readonly child?: string;
}

export interface InFlightBase {
  readonly effects?: readonly Effect[];
  readonly ownReply?: number;
  readonly turn?: Turn;
  readonly held?: Owner;
  readonly prefix?: Digest;
  readonly since?: number;
  readonly shape?: number;
  readonly signals?: readonly Signal[];
  readonly children?: readonly string[];
  readonly replayed?: readonly string[];
  readonly turns?: readonly string[];
}

export class InFlight {
  turn: Turn | undefined;
  holder: Owner | undefined;
  prefix: Digest | undefined;
  prefixSince = 0;
  shape: number | undefined;
  /**
   * The newest reply of the agent's own that asks for calls, until all of them have their answers.
   * No other message's calls are made: one whose answer was taken out of the transcript has been
   * made before.
   */
  ownReply: number | undefined;
  /** By id: calls that are not over, and those that are but have no tool message yet. */
  #calls = new Map<string, Effect>();
  /** Calls that act and were given a name, by tool and name: for ever. */
  #named = new Map<string, Effect>();
  /** Calls that do not act and were given a name: the latest MAX_NAMED. */
  #reread = new Map<string, Effect>();
  /**
   * PLACE-1: calls by hand without a name, by their keys, that earlier saves recorded. A later
   * change of messages or state drops them.
   */
  #passing = new Map<string, Effect>();
  /** The same, recorded since the last save. */
  #recent = new Map<string, Effect>();
  #passingWeight = 0;
  #signals: readonly Signal[] = [];
  #children: readonly string[] = [];
  #replayed: readonly string[] = [];
  /** Short digests of the keys that turns were given, the newest last. */
  #turns: readonly string[] = [];
  /**
   * About how much a base must say of what stays: calls by hand, calls that were given a name,
   * signals, children.
   */
  weight = 0;

  copy(): InFlight {
    const twin = new InFlight();
    Object.assign(twin, this);
    twin.#calls = new Map(this.#calls);
    twin.#named = new Map(this.#named);
    twin.#reread = new Map(this.#reread);
    twin.#passing = new Map(this.#passing);
    twin.#recent = new Map(this.#recent);
    twin.#passingWeight = this.#passingWeight;
    twin.#signals = this.#signals;
    twin.#children = this.#children;
    twin.#replayed = this.#replayed;
    twin.#turns = this.#turns;
    return twin;
  }

  // ---- what it holds

  get(id: string): Effect | undefined {
    return this.#calls.get(id) ?? this.#kept().find((effect) => effect.id === id);
  }

  #kept(): Effect[] {
    return [this.#named, this.#reread, this.#passing, this.#recent].flatMap((calls) => [
      ...calls.values(),
    ]);
  }

  /** The call of this name to this tool, whatever became of it. */
  named(tool: string, name: string): Effect | undefined {
    const key = nameKey({ name: tool, named: name });
    return this.#named.get(key) ?? this.#reread.get(key);
  }

  /** The recorded answer of `session.model` under this key of the caller's. */
  reply(named: string): Effect | undefined {
    return this.#reread.get(nameKey({ name: "model", named, model: true }));
  }

  /**
   * The call by hand under this key of its place, if neither messages nor state have changed since
   * the save that recorded it.
   */
  passing(key: string): Effect | undefined {
    return this.#recent.get(key) ?? this.#passing.get(key);
  }

  /** The calls of a reply, by their index. */
  ofReply(reply: number): ReadonlyMap<number, Effect> {
    const found = new Map<number, Effect>();
    for (const effect of this.#calls.values())
      if (effect.call?.[0] === reply) found.set(effect.call[1], effect);
    return found;
  }

  /** Calls that are not over. */
  get open(): readonly Effect[] {
    return [...this.#calls.values()].filter(({ phase }) => phase !== "done");
  }

  /** What keeps the session as a whole from going on, until somebody says that it may. */
  get standstill(): Effect | undefined {
    return this.open.find(({ whole }) => whole);
  }

  /**
   * From when on something can be done without anybody's word: now, when a wait runs out, or,
   * undefined, not before somebody has said it.
   */
  goesOnAt(now: number): number | undefined {
    const { open } = this;
    if (this.standstill !== undefined) return undefined;
    if (open.length === 0 || open.some(({ phase }) => phase !== "waiting" && phase !== "doubt"))
      return now;
    const ends = open.flatMap(({ waits }) =>
      waits?.for === "signal" && waits.until !== undefined ? [waits.until] : [],
    );
    return ends.length === 0 ? undefined : Math.min(...ends);
  }

  /** How many calls are over and have no tool message yet. */
  get doneCount(): number {
    return this.#calls.size - this.open.length;
  }

  /** Whether a call by hand is over that was begun behind a record: its id tells where. */
  endedAfter(seq: number): boolean {
    return this.#kept().some(
      ({ id, phase, model }) =>
        phase === "done" && !model && Number.parseInt(id.slice(id.indexOf("-") + 1), 10) > seq,
    );
  }

  get signals(): readonly Signal[] {
    return this.#signals;
  }

  get children(): readonly string[] {
    return this.#children;
  }

  /** Calls in pasts that were left from which calls of this branch were answered. */
  get replayed(): readonly string[] {
    return this.#replayed;
  }

  /** Whether a turn of this key was begun; of many turns only the latest are known. */
  hadTurn(key: string): boolean {
    return this.#turns.includes(shortOf(key));
  }

  // ---- records

  apply(record: InFlightRecord, body: Body | undefined, at: number): void {
    const {
      effect,
      answered,
      ownReply,
      turn,
      held,
      prefix,
      since = 0,
      shape,
      signal,
      child,
    } = record;
    if (effect !== undefined) this.#event(effect, body, at);
    if (answered !== undefined) this.#answered(answered);
    if (ownReply !== undefined) this.ownReply = ownReply;
    if (turn !== undefined) this.#begins(turn);
    if (held !== undefined) this.holder = held;
    if (prefix !== undefined) {
      this.prefix = prefix;
      this.prefixSince = since;
    }
    if (shape !== undefined) this.shape = shape;
    if (signal !== undefined) {
      this.#signals = [...this.#signals, { name: signal, body: body as Body }];
      this.weight += weightOfBody(body);
    }
    if (child !== undefined && !this.#children.includes(child)) {
      this.#children = [...this.#children, child];
      this.weight += child.length;
    }
  }

  #begins(turn: Turn): void {
    this.turn = turn;
    if (turn.key === undefined) return;
    this.weight -= weightOfTurns(this.#turns);
    this.#turns = [...this.#turns, shortOf(turn.key)].slice(-MAX_TURNS);
    this.weight += weightOfTurns(this.#turns);
  }

  #event(event: EffectEvent, body: Body | undefined, at: number): void {
    let given = body;
    if (event.is === "signalled" && body === undefined) {
      // The oldest of that name which nobody has had.
      const first = this.#signals.find(({ name }) => name === event.name);
      given = first?.body;
      if (first !== undefined) this.weight -= weightOfBody(given);
      this.#signals = this.#signals.filter((signal) => signal !== first);
    }
    const after = applyEvent(this.#calls.get(event.id), event, {
      at,
      holder: this.holder,
      body: given,
    });
    if (after === undefined) return;
    if (event.is === "intent" && event.call !== undefined) this.ownReply = event.call[0];
    if (event.is === "done" && event.from !== undefined)
      this.#replayed = [...this.#replayed, event.from];
    const isOver = after.phase === "done";
    // By hand there is no tool message to wait for.
    if (isOver && after.call === undefined) this.#calls.delete(after.id);
    else this.#calls.set(after.id, after);
    if (after.named !== undefined) this.#name(after.named, after);
    else if (isOver && after.call === undefined) this.#pass(this.#recent, after);
  }

  /**
   * Past the bound an answer is not kept, and asked for again after a crash: one that is dropped in
   * the middle would shift the others.
   */
  #pass(into: Map<string, Effect>, effect: Effect): void {
    // Made again by a holder for which messages or state had changed in between, and back.
    if (this.#passing.has(effect.key)) this.placeChanges();
    const weight = weightOf(effect);
    if (this.#passingWeight + weight > MAX_PASSING_WEIGHT) return;
    this.#passingWeight += weight;
    this.weight += weight;
    into.set(effect.key, effect);
  }

  #name(named: string, effect: Effect): void {
    const key = nameKey({ ...effect, named });
    const into = acts(effect) ? this.#named : this.#reread;
    this.#unname(key);
    this.weight += weightOf(effect);
    into.set(key, effect);
    const [oldest] = this.#reread.size > MAX_NAMED ? this.#reread.keys() : [];
    if (oldest !== undefined) this.#unname(oldest);
  }

  #unname(key: string): void {
    this.weight -= weightOf(this.#named.get(key)) + weightOf(this.#reread.get(key));
    this.#named.delete(key);
    this.#reread.delete(key);
  }

  #answered(reply: number): void {
    if (this.ownReply === reply) this.ownReply = undefined;
    for (const effect of [...this.#calls.values()]) {
      if (effect.call?.[0] !== reply) continue;
      // Those that do no harm have no outcome of their own: their tool message is it.
      this.#calls.delete(effect.id);
      const { call: _call, ...over } = effect;
      if (effect.named !== undefined) this.#name(effect.named, over);
    }
  }

  get hasPassing(): boolean {
    return this.#passing.size > 0;
  }

  /**
   * PLACE-1: messages or state change here. Answers that earlier saves recorded were given to a
   * question that is no longer the last one.
   */
  placeChanges(): void {
    if (this.#passing.size > 0) this.#passing = this.#drop(this.#passing);
  }

  #drop(calls: Map<string, Effect>): Map<string, Effect> {
    let weight = 0;
    for (const effect of calls.values()) weight += weightOf(effect);
    this.#passingWeight -= weight;
    this.weight -= weight;
    return new Map();
  }

  /** A save ends here. */
  saveEnds(): void {
    if (this.#recent.size === 0) return;
    for (const [key, effect] of this.#recent) this.#passing.set(key, effect);
    this.#recent = new Map();
  }

  /**
   * Another branch begins here: it does not own the calls that are open on the one it comes from.
   */
  leaveBranch(): void {
    for (const [id, { phase }] of [...this.#calls]) if (phase !== "done") this.#calls.delete(id);
    for (const [key, { phase }] of [...this.#named, ...this.#reread])
      if (phase !== "done") this.#unname(key);
    // Their keys name the branch that is left.
    this.#passing = this.#drop(this.#passing);
    this.#recent = this.#drop(this.#recent);
    this.holder = undefined;
  }

  // ---- bases

  toBase(): InFlightBase | undefined {
    // Those that are not over come first, in their order: the first that waits for a signal is the
    // one that is given it.
    const effects = new Map(
      [...this.#calls.values(), ...this.#kept()].map((effect) => [effect.id, effect]),
    );
    const base: InFlightBase = {
      ...(effects.size > 0 && { effects: [...effects.values()] }),
      ...(this.ownReply !== undefined && { ownReply: this.ownReply }),
      ...(this.turn && { turn: this.turn }),
      ...(this.holder && { held: this.holder }),
      ...(this.prefix !== undefined && { prefix: this.prefix, since: this.prefixSince }),
      ...(this.shape !== undefined && { shape: this.shape }),
      ...(this.#signals.length > 0 && { signals: this.#signals }),
      ...(this.#children.length > 0 && { children: this.#children }),
      ...(this.#replayed.length > 0 && { replayed: this.#replayed }),
      ...(this.#turns.length > 0 && { turns: this.#turns }),
    };
    return Object.keys(base).length === 0 ? undefined : base;
  }

  applyBase(base: InFlightBase): void {
    const {
      effects = [],
      ownReply,
      turn,
      held,
      prefix,
      since = 0,
      shape,
      signals = [],
      children = [],
      replayed = [],
      turns = [],
    } = base;
    for (const effect of effects) {
      const isOver = effect.phase === "done";
      if (!isOver || effect.call !== undefined) this.#calls.set(effect.id, effect);
      if (effect.named !== undefined) this.#name(effect.named, effect);
      else if (isOver && effect.call === undefined) this.#pass(this.#passing, effect);
    }
    this.ownReply = ownReply;
    this.turn = turn;
    this.holder = held;
    this.prefix = prefix;
    this.prefixSince = since;
    this.shape = shape;
    this.#signals = signals;
    this.#children = children;
    this.#replayed = replayed;
    this.#turns = turns;
    this.weight += weightOfTurns(turns);
    for (const { body } of signals) this.weight += weightOfBody(body);
    for (const child of children) this.weight += child.length;
  }
}

const weightOf = (effect: Effect | undefined): number =>
  effect === undefined ? 0 : 300 + weightOfBody(effect.output);

const weightOfBody = (body: Body | undefined): number =>
  body === undefined ? 0 : "value" in body ? jsonBytes(body.value) : 100;

/**
 * A turn that is asked for again under its key is answered from the record: for so many turns back.
 */
const MAX_TURNS = 1_000;
const SHORT_CHARS = 11;
const weightOfTurns = ({ length }: readonly string[]): number => length * (SHORT_CHARS + 3);
const shortOf = (key: string): string => digest(key).slice(0, SHORT_CHARS);

/** How many calls under a key that do not act are kept: one that is older is made again. */
const MAX_NAMED = 1_000;
/** How much is kept of calls by hand that have no name. */
const MAX_PASSING_WEIGHT = 8 * 1024 * 1024;

/** Calls of `session.model` have names of their own: a tool may be called `model`, too. */
const nameKey = ({ name, named, model }: Pick<Effect, "name" | "named" | "model">): string =>
  `${model ? "" : name}\n${named ?? ""}`;

/** The blobs that a base's in-flight work refers to. */
export function inFlightRefs(base: InFlightBase): readonly Digest[] {
  const refs = inFlightBodies(base).flatMap((body) => ("blob" in body ? [body.blob] : []));
  return base.prefix === undefined ? refs : [...refs, base.prefix];
}

export const inFlightBodies = ({ effects = [], signals = [] }: InFlightBase): readonly Body[] =>
  [
    ...effects.flatMap(({ input, output, signals: given = [] }) => [
      input,
      output,
      ...given.map(({ body }) => body),
    ]),
    ...signals.map(({ body }) => body),
  ].filter((body) => body !== undefined);

/** A body as its record holds it. */
export function bodyIn(record: {
  readonly body?: Json;
  readonly blob?: Digest;
  readonly size?: number;
}): Body | undefined {
  if (record.blob !== undefined) return { blob: record.blob, size: record.size as number };
  return record.body === undefined ? undefined : { value: record.body };
}
