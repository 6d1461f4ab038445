/**
 * The life of calls, in every order in which its steps can happen: two processes that hold one
 * session in turn, the calls of one reply, and a world that is acted on.
 *
 * What may be done about a call is decided by the functions of core/effect, what is known of it by
 * a Course, and who holds the session by core/lease. What stands between them is modelled after the
 * runtime: a save lands or is refused as a whole; a call runs in its process for as long as it
 * likes; what it answers after nobody waits for it any more is posted. A pause needs no step of its
 * own: among all orders are those in which a process does nothing while time passes it by.
 *
 * What is taken for granted: whoever is asked, `check` or a person, tells the truth. That a call
 * did not happen is said only where it cannot happen any more: by a person who knows that nobody is
 * inside, or by a `check` that was told so. A request that is on the wire when its process dies has
 * happened by then, or never does.
 */

import {
  acts,
  type Effect,
  type EffectEvent,
  endOf,
  likeness,
  type Mode,
  type Move,
  nextMove,
  type Situation,
  UNKNOWN,
} from "../../../src/core/effects/effect.js";
import { InFlight, type InFlightRecord } from "../../../src/core/effects/in-flight.js";
import { freeLease, grantLease, type Lease, type Owner } from "../../../src/core/sessions/lease.js";

const LEASE_MS = 1;
/**
 * For how long an attempt may last: longer than a lease, so that another may hold the session
 * before.
 */
export const TIMEOUT_MS = 2;
const KEY_VALID_MS = 4;
/** How often one holder runs a call by itself. */
const TRIES = 2;
/** By the wall it is always some other time. */
const WALL = 1_000;
const REPLY = 1;

/** What is called. */
export interface Kind {
  readonly mode: Mode;
  readonly check?: true;
  /** What `key(input)` gives. */
  readonly named?: string;
  /**
   * What its input is on the line that is begun by going back, or by forking: the same, or
   * others under the same name.
   */
  readonly againWith?: string;
  /** Its input is redacted before the other line, or the fork, asks for it again. */
  readonly redacted?: true;
  /**
   * Nothing goes wrong with it but what goes wrong with its process: so that there are not too many
   * worlds with two calls.
   */
  readonly calm?: true;
}

/** How far the search goes. */
export interface Scope {
  readonly maxEpoch: number;
  readonly maxAttempts: number;
  readonly maxLetters: number;
  /** How many processes may be started in place of dead ones. */
  readonly restarts: number;
  readonly goesBack: boolean;
  readonly forks: boolean;
  /** Whether the session may be cancelled. Whoever takes it up again after that goes on with it. */
  readonly cancels?: true;
}

// ---- what there is

type Who = 0 | 1;
const both: readonly Who[] = [0, 1];

/** A call that is being run, in its process. */
interface Running {
  readonly call: number;
  readonly id: string;
  readonly no: number;
  readonly key: string;
  /** When its time is up. */
  readonly end: number;
  readonly acted: boolean;
  /** Nobody waits for it any more: what it answers is late. */
  readonly over: boolean;
  /** What became of an attempt before this one is not known. */
  readonly blurred: boolean;
}

/** Where a holder is with a call. */
interface Making {
  readonly id: string;
  readonly at: "deciding" | "starting" | "inside" | "answered" | "failed";
  /** The attempt it is about to make, or makes. */
  readonly no: number;
  readonly tries: number;
  readonly asked: boolean;
  readonly mustRun: boolean;
  readonly blurred: boolean;
  readonly by?: "check";
}

interface Process {
  readonly up: boolean;
  /** Counts those that were started in its place. */
  readonly life: number;
  /** Of the lease it believes to hold; 0: none. */
  readonly epoch: number;
  /** The journal as it knows it: only where another holds the session, and it does not know. */
  readonly view: InFlight | null;
  readonly making: readonly (Making | null)[];
  readonly running: readonly Running[];
}

interface OpenedMessage {
  readonly kind: "late" | "settle" | "approve" | "deny";
  readonly id: string;
  readonly no: number;
  readonly as: "ok" | "error" | "retry";
}

/** What happened outside. A keyed provider knows a key from the time it acted under it. */
interface Act {
  readonly id: string;
  readonly key: string;
  readonly at: number;
}

interface Fork {
  readonly from: InFlight;
  readonly inFlight: InFlight;
}

export interface World {
  readonly now: number;
  readonly lease: Lease;
  /** What the journal says on the session's line. */
  readonly inFlight: InFlight;
  readonly branch: "a" | "b";
  /** What it said at the checkpoint one can go back to. */
  readonly place: InFlight;
  /** What was made on the line that was left. */
  readonly left: readonly Effect[];
  readonly processes: readonly [Process, Process];
  readonly inbox: readonly OpenedMessage[];
  readonly ledger: readonly Act[];
  readonly fork: Fork | null;
}

const owners = new Map<string, Owner>();
function ownerOf(who: Who, life: number): Owner {
  const nonce = `${"AB"[who]}${life}`;
  const known = owners.get(nonce);
  if (known !== undefined) return known;
  const made = Object.freeze({
    boot: "boot",
    space: "pid:1",
    pid: who * 10 + life,
    started: "0",
    nonce,
  });
  owners.set(nonce, made);
  return made;
}

// ---- rules

/** What is decided, and by whom. The real rules are below; mutants exchange one each. */
export interface Rules {
  readonly next: (effect: Effect, situation: Situation) => Move;
  readonly likeness: typeof likeness;
  /** Whether a save lands. */
  readonly lands: (lease: Lease, epoch: number) => boolean;
  /** Whether a call is started only after the save that says so. */
  readonly savesFirst: boolean;
  /** Whether the journal is asked once more between that save and the start. */
  readonly looksAgain: boolean;
  /** What the journal is told of a new attempt. */
  readonly begun: (
    effect: Effect,
    attempt: NonNullable<Effect["attempt"]>,
  ) => readonly EffectEvent[];
  /** The key that an attempt is given. */
  readonly keyFor: (effect: Effect) => string;
  /** What a throw says of a call that acts. */
  readonly thrown: "nothing" | "error";
  /**
   * Whether "nothing happened" speaks for the whole call. `blurred`: what became of an earlier
   * attempt is not known.
   */
  readonly notDoneCounts: (blurred: boolean) => boolean;
  /** Whether `check` may be told that nobody is inside any more. */
  readonly isAlone: (
    effect: Effect,
    holder: Situation["holder"],
    own: readonly Running[],
  ) => boolean;
  /** What a late outcome changes. */
  readonly late: (effect: Effect, letter: OpenedMessage) => readonly EffectEvent[];
  /** Whether what a person said holds for the call as it stands. */
  readonly settles: (effect: Effect, letter: OpenedMessage) => boolean;
}

const doneBy = (id: string, as: OpenedMessage["as"], by?: string): EffectEvent => ({
  id,
  is: "done",
  outcome: as === "ok" ? "ok" : "error",
  ...(by !== undefined && { by }),
});

export const real: Rules = {
  next: nextMove,
  likeness,
  lands: (lease, epoch) => lease.epoch === epoch,
  savesFirst: true,
  looksAgain: true,
  begun: ({ id }, attempt) => [{ id, is: "begun", attempt }],
  keyFor: ({ key }) => key,
  thrown: "nothing",
  notDoneCounts: (blurred) => !blurred,
  // A keyed call is begun again over attempts that may not have ended, and the journal knows only
  // who began the last one.
  isAlone: (effect, holder, own) =>
    holder !== "unknown" &&
    own.length === 0 &&
    !(effect.mode === "keyed" && (effect.attempt?.no ?? 0) > 1),
  late(effect, { no, as }) {
    const counts = as === "ok" || effect.attempt?.no === no;
    return counts && (effect.phase === "begun" || effect.phase === "doubt")
      ? [doneBy(effect.id, as, "late")]
      : [];
  },
  // That it happened stays true; that it did not holds for the attempts that were made by then.
  settles: (effect, { no, as }) => as === "ok" || (effect.attempt?.no ?? 0) === no,
};

// ---- steps

/** A situation that a search must have met, so that it cannot pass by never going there. */
export const situations = [
  "intents saved",
  "crash before the intent",
  "crash between the save and the start",
  "crash inside, before it acted",
  "crash inside, after it acted",
  "crash before the outcome is saved",
  "crash in doubt",
  "taken over from the dead: before it acted",
  "taken over from the dead: after it acted",
  "taken over from the silent: while it is inside and in its time",
  "taken over from the silent: while it is inside past its time",
  "a pause until another's time is up",
  "the same process again, with its own call still inside",
  "save of a superseded holder refused",
  "outcome of a superseded holder posted",
  "run again under its key",
  "acted once for two attempts",
  "key no longer valid",
  "nothing happened: run again",
  "nothing happened: its outcome",
  "nothing happened, but perhaps before",
  "timed out",
  "answered past its time",
  "check: result",
  "check: error",
  "check: retry",
  "check: no answer",
  "check told that somebody may be inside",
  "in doubt",
  "cancelled while it is inside",
  "cancelled after it acted",
  "settled: output",
  "settled: error",
  "settled: retry",
  "settled too late",
  "late outcome settled a call",
  "late outcome settled a doubt",
  "late outcome of a call that is done",
  "late failure of an earlier attempt",
  "outcome recorded while another was on its way",
  "shared by name",
  "went back",
  "went back to where a call was open",
  "went back to where a call was done",
  "repeat waits",
  "repeat by name waits",
  "repeat approved and made",
  "repeat denied",
  "fork waits",
  "fork made what nobody had made",
  "fork approved and made",
] as const;
export type Met = (typeof situations)[number];

/** One step, and what it did as far as invariants speak of it. */
export interface Step {
  readonly name: string;
  readonly to: World;
  readonly met: readonly Met[];
  /** The code of a call was started. */
  readonly started?: Running;
  /**
   * The journal says that an attempt begins, or another asks what became of one. `told`: what
   * `check` is told.
   */
  readonly about?: {
    readonly id: string;
    readonly by: Who;
    readonly is: "begun" | "check";
    readonly told?: "dead" | "unknown";
    readonly asked?: boolean;
  };
  /**
   * On a line that others were left for: a call that begins there, and what was made in the part
   * left behind.
   */
  readonly begins?: { readonly effect: Effect; readonly left: readonly Effect[] };
  /** It happened, for the first time or again. */
  readonly acted?: { readonly mode: Mode; readonly again: boolean; readonly inTime: boolean };
  /** A save was sent. */
  readonly saved?: { readonly epoch: number };
  readonly took?: OpenedMessage;
}

const met = (...found: readonly (Met | false)[]): readonly Met[] =>
  found.filter((one) => one !== false);

export class Model {
  readonly #kinds: readonly Kind[];
  readonly #scope: Scope;
  readonly #rules: Rules;
  readonly #courses = new Map<string, InFlight>();
  readonly #shorts = new Map<string, string>();
  readonly #followers = new Map<InFlight, Map<string, InFlight>>();
  readonly #keys = new Map<InFlight, string[]>();

  constructor(kinds: readonly Kind[], scope: Scope, rules: Rules) {
    this.#kinds = kinds;
    this.#scope = scope;
    this.#rules = rules;
  }

  /** A holds the session, and nothing was called yet. */
  start(): World {
    const none = this.#intern(new InFlight());
    const grant = grantLease(freeLease, {
      owner: ownerOf(0, 1),
      now: 0,
      leaseMs: LEASE_MS,
      dead: () => false,
    });
    const idle: Process = {
      up: true,
      life: 1,
      epoch: 0,
      view: null,
      making: this.#kinds.map(() => null),
      running: [],
    };
    return {
      now: 0,
      lease: (grant as { granted: Lease }).granted,
      inFlight: none,
      branch: "a",
      place: none,
      left: [],
      processes: [{ ...idle, epoch: 1 }, idle],
      inbox: [],
      ledger: [],
      fork: null,
    };
  }

  steps(world: World): Step[] {
    const found = [
      ...both.flatMap((who) => this.#stepsOf(world, who)),
      ...this.#people(world),
      ...this.#forked(world),
    ];
    found.push({ name: "tick", to: { ...world, now: world.now + 1 }, met: [] });
    return found;
  }

  #stepsOf(world: World, who: Who): Step[] {
    const me = at(world, who);
    if (!me.up)
      return me.life + world.processes[who === 0 ? 1 : 0].life - 2 < this.#scope.restarts
        ? [restart(world, who)]
        : [];
    return [
      // One that does nothing may as well live: it is only ever asked about.
      ...(me.epoch === 0 && me.running.length === 0 ? [] : [this.#crash(world, who)]),
      ...this.#takeOver(world, who),
      ...me.running.flatMap((running) => this.#inside(world, who, running)),
      ...(me.epoch === 0 ? [] : this.#holding(world, who)),
    ];
  }

  // ---- processes

  #crash(world: World, who: Who): Step {
    const { making, running, epoch } = at(world, who);
    const places = met(
      epoch !== 0 && this.#missing(inFlightOf(world, who)).length > 0 && "crash before the intent",
      making.some((one) => one?.at === "starting") && "crash between the save and the start",
      running.some(({ acted }) => !acted) && "crash inside, before it acted",
      running.some(({ acted }) => acted) && "crash inside, after it acted",
      making.some((one) => one?.at === "answered") && "crash before the outcome is saved",
      epoch === world.lease.epoch &&
        openIn(world.inFlight).some(({ phase }) => phase === "doubt") &&
        "crash in doubt",
    );
    const to = change(world, who, {
      up: false,
      epoch: 0,
      view: null,
      making: making.map(() => null),
      running: [],
    });
    return { name: "crash", to, met: places };
  }

  #takeOver(world: World, who: Who): Step[] {
    const me = at(world, who);
    const isIdle = me.making.every((one) => one === null);
    if (
      me.epoch === world.lease.epoch ||
      (me.epoch !== 0 && !isIdle) ||
      world.lease.epoch >= this.#scope.maxEpoch
    )
      return [];
    const before = world.lease.owner as Owner;
    const grant = grantLease(world.lease, {
      owner: ownerOf(who, me.life),
      now: world.now,
      leaseMs: LEASE_MS,
      dead: (owner) => !isAlive(world, owner),
    });
    if (!("granted" in grant)) return [];
    const other: Who = who === 0 ? 1 : 0;
    const them = at(world, other);
    const open = openIn(world.inFlight).filter(
      (effect) => acts(effect) && effect.phase === "begun",
    );
    const theirs = them.running.filter(({ id }) => open.some((effect) => effect.id === id));
    const isDead = !isAlive(world, before);
    const places = met(
      isDead &&
        open.some(({ id }) => !happened(world, id)) &&
        "taken over from the dead: before it acted",
      isDead &&
        open.some(({ id }) => happened(world, id)) &&
        "taken over from the dead: after it acted",
      theirs.some(({ end }) => world.now < end) &&
        "taken over from the silent: while it is inside and in its time",
      theirs.some(({ end }) => world.now >= end) &&
        "taken over from the silent: while it is inside past its time",
      me.running.length > 0 && "the same process again, with its own call still inside",
    );
    const superseded =
      them.epoch === world.lease.epoch ? change(world, other, { view: world.inFlight }) : world;
    const to = change(
      superseded,
      who,
      { epoch: grant.granted.epoch, view: null },
      { lease: grant.granted },
    );
    return [{ name: `${"AB"[who]} takes over`, to, met: places }];
  }

  // ---- saving

  /**
   * What a holder adds to the journal. Refused, it learns that it was superseded, and posts what it
   * knows.
   */
  #save(
    world: World,
    who: Who,
    events: readonly EffectEvent[],
    then: (saved: World) => Omit<Step, "saved">,
  ): Step {
    const me = at(world, who);
    if (!this.#rules.lands(world.lease, me.epoch)) {
      const { to, posted } = this.#superseded(world, who);
      return {
        name: "save refused",
        to,
        met: met(
          "save of a superseded holder refused",
          posted && "outcome of a superseded holder posted",
        ),
        saved: { epoch: me.epoch },
      };
    }
    const inFlight = this.#applied(world.inFlight, events, ownerOf(who, me.life));
    return { ...then({ ...world, inFlight }), saved: { epoch: me.epoch } };
  }

  #applied(inFlight: InFlight, events: readonly EffectEvent[], self: Owner | undefined): InFlight {
    const text = `${self?.nonce}${JSON.stringify(events)}`;
    let followers = this.#followers.get(inFlight);
    if (followers === undefined) {
      followers = new Map();
      this.#followers.set(inFlight, followers);
    }
    const known = followers.get(text);
    if (known !== undefined) return known;
    const after = inFlight.copy();
    const begins = events.some(
      (event) => event.is === "begun" || (event.is === "intent" && event.attempt !== undefined),
    );
    if (self !== undefined && begins && after.holder?.nonce !== self.nonce)
      after.apply({ held: self }, undefined, 0);
    for (const event of events) {
      const record: InFlightRecord = { effect: event };
      after.apply(record, event.is === "done" ? { value: event.outcome } : undefined, 0);
    }
    const one = this.#intern(after);
    followers.set(text, one);
    return one;
  }

  #superseded(world: World, who: Who): { readonly to: World; readonly posted: boolean } {
    const { making, running } = at(world, who);
    let to = change(world, who, {
      epoch: 0,
      view: null,
      making: making.map(() => null),
      // Nobody will ever hear of those that do no harm.
      running: running.flatMap((one) =>
        acts(this.#kinds[one.call] as Kind) ? [{ ...one, over: true }] : [],
      ),
    });
    const view = inFlightOf(world, who);
    let posted = false;
    for (const one of making) {
      const effect = one === null ? undefined : view.get(one.id);
      if (
        one === null ||
        effect === undefined ||
        !acts(effect) ||
        (one.at !== "answered" && one.at !== "failed")
      )
        continue;
      to = this.#post(to, {
        kind: "late",
        id: one.id,
        no: effect.attempt?.no ?? 1,
        as: one.at === "answered" ? "ok" : "error",
      });
      posted = true;
    }
    return { to, posted };
  }

  /** Where there is no room for it, it is lost: whoever posts late does so as well as it can. */
  #post(world: World, letter: OpenedMessage): World {
    if (world.inbox.length >= this.#scope.maxLetters) return world;
    if (
      letter.kind === "late" &&
      world.inbox.some(
        ({ kind, id, no }) => kind === "late" && id === letter.id && no === letter.no,
      )
    )
      return world;
    return {
      ...world,
      inbox: [...world.inbox, letter].toSorted((a, b) => (letterCode(a) < letterCode(b) ? -1 : 1)),
    };
  }

  // ---- a holder, or one who believes to be

  #holding(world: World, who: Who): Step[] {
    const found: Step[] = [];
    const inFlight = inFlightOf(world, who);
    const { making, epoch } = at(world, who);
    const missing = this.#missing(inFlight);
    if (missing.length > 0 && making.every((one) => one === null))
      found.push(this.#intend(world, who, missing));
    for (const [call, one] of making.entries()) found.push(...this.#make(world, who, call, one));
    if (epoch === world.lease.epoch) {
      for (const [i, letter] of world.inbox.entries())
        if (world.inbox.indexOf(letter) === i) found.push(this.#take(world, who, letter));
      found.push(
        ...this.#branches(world, who),
        ...(this.#scope.cancels ? this.#cancel(world, who) : []),
      );
    }
    return found;
  }

  /** A cancel that is taken in ends the holder. What it has begun is in doubt from then on. */
  #cancel(world: World, who: Who): Step[] {
    const begun = openIn(world.inFlight).filter(
      (effect) => acts(effect) && effect.phase === "begun",
    );
    if (begun.length === 0) return [];
    const doubts = begun.map(({ id }): EffectEvent => ({ id, is: "doubt", inside: true }));
    return [
      this.#save(world, who, doubts, (saved) => ({
        name: "cancel",
        to: this.#superseded(saved, who).to,
        met: met(
          begun.some(({ id }) => isInside(world, id)) && "cancelled while it is inside",
          begun.some(({ id }) => happened(world, id)) && "cancelled after it acted",
        ),
      })),
    ];
  }

  /** The calls of the reply that the journal says nothing of. */
  #missing(inFlight: InFlight): readonly number[] {
    return this.#kinds.flatMap((_, call) =>
      this.#find(inFlight, call) === undefined ? [call] : [],
    );
  }

  #find(inFlight: InFlight, call: number): Effect | undefined {
    const { named } = this.#kinds[call] as Kind;
    const shared = named === undefined ? undefined : inFlight.named(TOOL, named);
    return inFlight.ofReply(REPLY).get(call) ?? shared;
  }

  #intentOf(
    branch: string,
    call: number,
    now: number,
    left: readonly Effect[],
  ): EffectEvent & { readonly is: "intent" } {
    const { mode, named, againWith, redacted } = this.#kinds[call] as Kind;
    const inputDigest =
      branch === "a" || againWith === undefined ? `input ${named ?? call}` : againWith;
    const id = `${branch}-${call}`;
    const asked = { name: TOOL, inputDigest, ...(named !== undefined && { named }) };
    const like = left.find(
      (made) =>
        this.#rules.likeness(asked, redacted ? { ...made, inputDigest: UNKNOWN } : made) !==
        "other",
    );
    return {
      id,
      is: "intent",
      name: TOOL,
      mode,
      key: `key of ${id}`,
      ...(named !== undefined && { named }),
      call: [REPLY, call],
      inputDigest,
      ...(mode === "keyed" && { validMs: KEY_VALID_MS }),
      ...(like === undefined || mode === "repeatable"
        ? { attempt: attemptAt(now, 1) }
        : { waits: { for: "repeat", of: like.id } }),
    };
  }

  /** Intents of one reply are one save. Calls of the same name are one. */
  #intend(world: World, who: Who, missing: readonly number[]): Step {
    const names = new Set<string>();
    const intents: (EffectEvent & { readonly is: "intent" })[] = [];
    for (const call of missing) {
      const { named } = this.#kinds[call] as Kind;
      if (named !== undefined && names.has(named)) continue;
      if (named !== undefined) names.add(named);
      intents.push(this.#intentOf(world.branch, call, world.now, world.left));
    }
    const begun = intents.filter(({ waits }) => waits === undefined);
    if (!this.#rules.savesFirst) return this.#startUnsaved(world, who, begun[0]);
    return this.#save(world, who, intents, (saved) => {
      const making = at(saved, who).making.map((one, call) => {
        const intent = begun.find((other) => other.call?.[1] === call);
        return intent === undefined
          ? one
          : { ...fresh(intent.id), at: "starting" as const, tries: 1 };
      });
      const first = begun.map(({ id }) => saved.inFlight.get(id) as Effect).find(acts);
      const waits = intents.flatMap((intent) => (intent.waits === undefined ? [] : [intent]));
      return {
        name: "intend",
        to: change(saved, who, { making }),
        met: met(
          "intents saved",
          intents.length < missing.length && "shared by name",
          waits.length > 0 && "repeat waits",
          waits.some(({ inputDigest }) =>
            world.left.every((made) => made.inputDigest !== inputDigest),
          ) && "repeat by name waits",
        ),
        ...(first !== undefined && { begins: { effect: first, left: world.left } }),
      };
    });
  }

  #startUnsaved(
    world: World,
    who: Who,
    intent: (EffectEvent & { readonly is: "intent" }) | undefined,
  ): Step {
    if (intent === undefined) return { name: "wait", to: world, met: [] };
    const call = intent.call?.[1] ?? 0;
    const started: Running = {
      call,
      id: intent.id,
      no: 1,
      key: intent.key,
      end: world.now + TIMEOUT_MS,
      acted: false,
      over: false,
      blurred: false,
    };
    const { making, running } = at(world, who);
    const next = making.map((one, i) =>
      i === call ? { ...fresh(intent.id), at: "inside" as const, tries: 1 } : one,
    );
    return {
      name: "start",
      to: change(world, who, { making: next, running: [...running, started] }),
      met: [],
      started,
    };
  }

  #make(world: World, who: Who, call: number, one: Making | null): Step[] {
    const inFlight = inFlightOf(world, who);
    if (one === null) {
      const effect = inFlight.ofReply(REPLY).get(call);
      if (effect === undefined || effect.phase === "done" || effect.phase === "waiting") return [];
      return this.#decide(world, who, call, fresh(effect.id));
    }
    switch (one.at) {
      case "deciding":
        return this.#decide(world, who, call, one);
      case "starting":
        return [this.#start(world, who, call, one)];
      case "inside":
        return [];
      case "answered":
      case "failed":
        return [this.#record(world, who, call, one)];
    }
  }

  #record(world: World, who: Who, call: number, { id, at: stage, by }: Making): Step {
    const wasDone = world.inFlight.get(id)?.phase === "done";
    return this.#save(
      world,
      who,
      [doneBy(id, stage === "answered" ? "ok" : "error", by)],
      (saved) => ({
        name: stage === "answered" ? "record result" : "record error",
        to: making(saved, who, call, null),
        met: met(wasDone && "outcome recorded while another was on its way"),
      }),
    );
  }

  #decide(world: World, who: Who, call: number, one: Making): Step[] {
    const effect = inFlightOf(world, who).get(one.id);
    if (effect === undefined)
      return [{ name: "stop", to: making(world, who, call, null), met: [] }];
    const { check } = this.#kinds[call] as Kind;
    const holder = one.tries > 0 ? "ended" : holderOf(world, who, effect);
    const situation: Situation = {
      holder,
      now: world.now,
      wall: world.now + WALL,
      triesLeft: one.tries < TRIES,
      canCheck: check === true && !one.asked,
    };
    const move: Move =
      one.mustRun && effect.phase !== "done" ? { do: "run" } : this.#rules.next(effect, situation);
    switch (move.do) {
      case "answer":
      case "wait":
        return [{ name: "answer", to: making(world, who, call, null), met: [] }];
      case "pause":
        return [
          {
            name: "pause",
            to: making(world, who, call, null),
            met: met("a pause until another's time is up"),
          },
        ];
      case "fail":
        return [{ name: "fail", to: making(world, who, call, { ...one, at: "failed" }), met: [] }];
      case "doubt":
        return this.#doubt(world, who, call, effect);
      case "check":
        return this.#check(world, who, call, one, effect, holder);
      case "run":
        return this.#begin(world, who, call, one, effect);
    }
  }

  #doubt(world: World, who: Who, call: number, effect: Effect): Step[] {
    if (effect.phase === "doubt")
      return at(world, who).making[call] === null
        ? []
        : [{ name: "still in doubt", to: making(world, who, call, null), met: [] }];
    const isOld =
      effect.mode === "keyed" &&
      effect.first !== undefined &&
      world.now - effect.first.at + TIMEOUT_MS > KEY_VALID_MS;
    return [
      this.#save(world, who, [{ id: effect.id, is: "doubt" }], (saved) => ({
        name: "doubt",
        to: making(saved, who, call, null),
        met: met("in doubt", isOld && "key no longer valid"),
      })),
    ];
  }

  #check(
    world: World,
    who: Who,
    call: number,
    one: Making,
    effect: Effect,
    holder: Situation["holder"],
  ): Step[] {
    const own = at(world, who).running.filter(({ id }) => id === effect.id);
    const told = this.#rules.isAlone(effect, holder, own) ? "dead" : "unknown";
    const about = { id: effect.id, by: who, is: "check", told } as const;
    const inside = met(told === "unknown" && "check told that somebody may be inside");
    const answer = (name: Met & `check: ${string}`, next: Partial<Making>): Step => ({
      name,
      to: making(world, who, call, { ...one, asked: true, ...next }),
      met: [name, ...inside],
      about,
    });
    const nothing = answer("check: no answer", {});
    const found = [
      effect.phase === "doubt" ? { ...nothing, to: making(world, who, call, null) } : nothing,
    ];
    if (happened(world, effect.id))
      found.push(answer("check: result", { at: "answered", by: "check" }));
    else if (told === "dead" || !isInside(world, effect.id)) {
      found.push(answer("check: error", { at: "failed", by: "check" }));
      found.push(answer("check: retry", { mustRun: true, blurred: false }));
    }
    return found;
  }

  /** EFFECT-1: the journal says so before it is begun again. Of what does no harm it need not. */
  #begin(world: World, who: Who, call: number, one: Making, effect: Effect): Step[] {
    const no = (effect.attempt?.no ?? 0) + 1;
    const next: Making = {
      ...one,
      at: "starting",
      no: acts(effect) ? no : 1,
      tries: one.tries + 1,
      asked: false,
      mustRun: false,
      blurred: one.mustRun ? one.blurred : effect.phase === "begun",
    };
    if (!acts(effect))
      return one.tries >= TRIES
        ? []
        : [{ name: "run", to: making(world, who, call, next), met: [] }];
    if (no > this.#scope.maxAttempts) return [];
    const event = this.#rules.begun(effect, attemptAt(world.now, no));
    return [
      this.#save(world, who, event, (saved) => ({
        name: "begin",
        to: making(saved, who, call, next),
        met: met(
          effect.mode === "keyed" &&
            effect.phase === "begun" &&
            !one.mustRun &&
            "run again under its key",
          effect.waited?.[0]?.for === "repeat" && "repeat approved and made",
        ),
        about: {
          id: effect.id,
          by: who,
          is: "begun",
          asked: one.mustRun || effect.phase === "ready",
        },
        begins: { effect: saved.inFlight.get(effect.id) as Effect, left: world.left },
      })),
    ];
  }

  #start(world: World, who: Who, call: number, one: Making): Step {
    const effect = inFlightOf(world, who).get(one.id) as Effect;
    if (this.#rules.looksAgain && effect.phase === "done")
      return { name: "do not start", to: making(world, who, call, null), met: [] };
    const started: Running = {
      call,
      id: effect.id,
      no: one.no,
      key: this.#rules.keyFor(effect),
      end: acts(effect) ? endOf(effect) : world.now + TIMEOUT_MS,
      acted: false,
      over: false,
      blurred: one.blurred,
    };
    const inside = making(world, who, call, { ...one, at: "inside" });
    return {
      name: "start",
      to: change(inside, who, { running: [...at(inside, who).running, started] }),
      met: [],
      started,
    };
  }

  // ---- a call that runs

  #inside(world: World, who: Who, running: Running): Step[] {
    const { call, acted, over, end, id } = running;
    const kind = this.#kinds[call] as Kind;
    if (!acts(kind))
      return [
        this.#answers(world, who, running),
        ...(kind.calm ? [] : [this.#throws(world, who, running)]),
      ];
    const found = kind.calm && !over ? [] : [this.#throws(world, who, running)];
    if (acted) found.push(this.#answers(world, who, running));
    else
      found.push(
        this.#acts(world, who, running, kind.mode),
        ...(kind.calm ? [] : [this.#notDone(world, who, running)]),
      );
    const one = at(world, who).making[call];
    if (!over && world.now >= end && one?.id === id) {
      const to = making(replaced(world, who, running, { ...running, over: true }), who, call, {
        ...one,
        at: "deciding",
        blurred: true,
      });
      found.push({ name: "time out", to, met: met("timed out") });
    }
    return found;
  }

  #acts(world: World, who: Who, running: Running, mode: Mode): Step {
    const { id, key, end } = running;
    const to = replaced(world, who, running, { ...running, acted: true });
    const again = happened(world, id);
    // Whoever is called knows a key for as long as it is valid; without one it does as it is told.
    const known = world.ledger.find(
      (act) => mode === "keyed" && act.key === key && world.now - act.at < KEY_VALID_MS,
    );
    if (known !== undefined)
      return { name: "known by its key", to, met: met("acted once for two attempts") };
    const act: Act = { id, key, at: mode === "keyed" ? world.now : -KEY_VALID_MS };
    const ledger = [...to.ledger.filter((other) => other.key !== key), act].toSorted((a, b) =>
      a.key < b.key ? -1 : 1,
    );
    return {
      name: "act",
      to: { ...to, ledger },
      met: [],
      acted: { mode, again, inTime: world.now < end },
    };
  }

  #answers(world: World, who: Who, running: Running): Step {
    const { call, id, no, over, end } = running;
    const to = replaced(world, who, running, undefined);
    const one = at(world, who).making[call];
    if (over || one === null || one === undefined)
      return {
        name: "answer late",
        to: acts(this.#kinds[call] as Kind)
          ? this.#post(to, { kind: "late", id, no, as: "ok" })
          : to,
        met: [],
      };
    const places = met(world.now >= end && "answered past its time");
    return { name: "answer", to: making(to, who, call, { ...one, at: "answered" }), met: places };
  }

  #throws(world: World, who: Who, running: Running): Step {
    const { call, over } = running;
    const to = replaced(world, who, running, undefined);
    const one = at(world, who).making[call];
    if (over || one === null || one === undefined) return { name: "throw late", to, met: [] };
    const isError = this.#rules.thrown === "error" && acts(this.#kinds[call] as Kind);
    return {
      name: "throw",
      to: making(to, who, call, { ...one, at: isError ? "failed" : "deciding", blurred: true }),
      met: [],
    };
  }

  /** Nothing happened, it says: in this attempt. */
  #notDone(world: World, who: Who, running: Running): Step {
    const { call, id, no, over, blurred } = running;
    const to = replaced(world, who, running, undefined);
    const one = at(world, who).making[call];
    const counts = this.#rules.notDoneCounts(blurred);
    if (over || one === null || one === undefined)
      return {
        name: "not done, late",
        to: counts ? this.#post(to, { kind: "late", id, no, as: "error" }) : to,
        met: [],
      };
    if (!counts)
      return {
        name: "not done",
        to: making(to, who, call, { ...one, at: "deciding" }),
        met: met("nothing happened, but perhaps before"),
      };
    if (one.tries >= TRIES)
      return {
        name: "not done",
        to: making(to, who, call, { ...one, at: "failed" }),
        met: met("nothing happened: its outcome"),
      };
    return {
      name: "not done",
      to: making(to, who, call, { ...one, at: "deciding", mustRun: true }),
      met: met("nothing happened: run again"),
    };
  }

  // ---- letters

  /** What people say of calls that wait for their word, as long as there is room for it. */
  #people(world: World): Step[] {
    if (world.inbox.length >= this.#scope.maxLetters) return [];
    return openIn(world.inFlight).flatMap(({ id, phase, waits, attempt }) => {
      const say = (kind: OpenedMessage["kind"], as: OpenedMessage["as"]): Step => ({
        name: `${kind} ${as}`,
        to: this.#post(world, { kind, id, no: attempt?.no ?? 0, as }),
        met: [],
      });
      if (phase === "waiting" && waits?.for === "repeat")
        return [say("approve", "ok"), say("deny", "error")];
      if (phase !== "doubt") return [];
      if (happened(world, id)) return [say("settle", "ok")];
      return isInside(world, id) ? [] : [say("settle", "error"), say("settle", "retry")];
    });
  }

  #take(world: World, who: Who, letter: OpenedMessage): Step {
    const effect = world.inFlight.get(letter.id);
    const events = effect === undefined ? [] : this.#says(effect, letter);
    const inbox = world.inbox.toSpliced(world.inbox.indexOf(letter), 1);
    const is = (phase: Effect["phase"]) => effect?.phase === phase;
    const { kind, as } = letter;
    const counted = events.length > 0;
    const places = met(
      kind === "late" && counted && is("begun") && "late outcome settled a call",
      kind === "late" && counted && is("doubt") && "late outcome settled a doubt",
      kind === "late" && is("done") && "late outcome of a call that is done",
      kind === "late" &&
        as === "error" &&
        !counted &&
        !is("done") &&
        effect !== undefined &&
        "late failure of an earlier attempt",
      kind === "settle" && counted && `settled: ${as === "ok" ? "output" : as}`,
      kind === "settle" && !counted && is("doubt") && "settled too late",
      kind === "deny" && counted && "repeat denied",
    );
    return this.#save(world, who, events, (saved) => ({
      name: `take ${kind} ${as}`,
      to: { ...saved, inbox },
      met: places,
      took: letter,
    }));
  }

  #says(effect: Effect, letter: OpenedMessage): readonly EffectEvent[] {
    const { id, phase } = effect;
    switch (letter.kind) {
      case "late":
        return this.#rules.late(effect, letter);
      case "approve":
        return phase === "waiting" ? [{ id, is: "approved" }] : [];
      case "deny":
        return phase === "waiting" ? [{ id, is: "done", outcome: "denied" }] : [];
      case "settle":
        if (phase !== "doubt" || !this.#rules.settles(effect, letter)) return [];
        return letter.as === "retry"
          ? [{ id, is: "retry", by: "person" }]
          : [doneBy(id, letter.as, "person")];
    }
  }

  // ---- lines

  #branches(world: World, who: Who): Step[] {
    if (!this.#scope.goesBack || world.branch !== "a") return [];
    const found: Step[] = [];
    if (world.place.toBase() === undefined && world.inFlight !== world.place)
      found.push({ name: "checkpoint", to: { ...world, place: world.inFlight }, met: [] });
    const isOpen = openIn(world.inFlight).some(
      (effect) => acts(effect) && effect.first !== undefined,
    );
    if (
      isOpen ||
      at(world, who).making.some((one) => one !== null) ||
      effectsOf(world.inFlight).length === 0
    )
      return found;
    const places = met(
      "went back",
      effectsOf(world.place).some((effect) => acts(effect) && effect.phase !== "done") &&
        "went back to where a call was open",
      effectsOf(world.place).some((effect) => acts(effect) && effect.phase === "done") &&
        "went back to where a call was done",
    );
    const to: World = {
      ...world,
      branch: "b",
      inFlight: this.#begunAt(world.place),
      left: leftBehind(world.inFlight, world.place),
    };
    found.push({ name: "go back", to, met: places });
    return found;
  }

  #begunAt(place: InFlight): InFlight {
    const inFlight = place.copy();
    inFlight.leaveBranch();
    return this.#intern(inFlight);
  }

  /**
   * A fork is held by a process of its own, and only its first call is looked at: what matters is
   * whether it is begun.
   */
  #forked(world: World): Step[] {
    const { fork } = world;
    if (!this.#scope.forks) return [];
    if (fork === null)
      return [
        {
          name: "fork",
          to: { ...world, fork: { from: world.place, inFlight: this.#begunAt(world.place) } },
          met: [],
        },
      ];
    const left = [...world.left, ...leftBehind(world.inFlight, fork.from)];
    const effect = this.#find(fork.inFlight, 0);
    const goOn = (events: readonly EffectEvent[]): World => ({
      ...world,
      fork: { ...fork, inFlight: this.#applied(fork.inFlight, events, undefined) },
    });
    const begun = (to: World) => ({ effect: to.fork?.inFlight.get("f-0") as Effect, left });
    if (effect === undefined) {
      const intent = this.#intentOf("f", 0, world.now, left);
      const to = goOn([intent]);
      const isNew = intent.waits === undefined && acts(intent);
      return [
        {
          name: "fork: intend",
          to,
          met: met(
            intent.waits !== undefined && "fork waits",
            isNew && "fork made what nobody had made",
          ),
          ...(isNew && { begins: begun(to) }),
        },
      ];
    }
    if (effect.phase === "waiting")
      return [{ name: "fork: approve", to: goOn([{ id: effect.id, is: "approved" }]), met: [] }];
    if (effect.phase !== "ready") return [];
    const to = goOn([{ id: effect.id, is: "begun", attempt: attemptAt(world.now, 1) }]);
    return [{ name: "fork: begin", to, met: met("fork approved and made"), begins: begun(to) }];
  }

  // ---- telling worlds apart

  /**
   * Courses that say the same are one object, so that what was found out about one need not be
   * found out again.
   */
  #intern(inFlight: InFlight): InFlight {
    const text = JSON.stringify(inFlight.toBase() ?? null);
    const known = this.#courses.get(text);
    if (known === undefined) this.#courses.set(text, inFlight);
    return known ?? inFlight;
  }

  /**
   * One text for all worlds that go on in the same way. Times count by how far off they are, and
   * only as far as somebody asks: so there are finitely many worlds, and no last moment.
   */
  keyOf(world: World): string {
    const { now, lease, inFlight, branch, place, left, processes, inbox, ledger, fork } = world;
    const owner = processes.findIndex(
      ({ up, life }, who) => up && ownerOf(who as Who, life) === lease.owner,
    );
    let key = `${branch}${lease.epoch}${owner === -1 ? "-" : `${owner}${lease.until > now ? 1 : 0}`}${this.#keyOfInFlight(inFlight, now)}`;
    if (this.#scope.goesBack || this.#scope.forks)
      key += `@${branch === "a" || fork === null ? this.#short(keyOfPlace(place)) : ""}`;
    for (const effect of left) key += `<${effect.id}${effect.attempt?.no}`;
    for (const { up, life, epoch, view, making: made, running } of processes) {
      key += `|${up ? 1 : 0}${life}${epoch}${view === null ? "-" : this.#keyOfInFlight(view, now)}`;
      for (const one of made) key += one === null ? "-" : this.#short(keyOfMaking(one));
      for (const { id, no, key: under, end, acted, over, blurred } of running)
        key += this.#short(
          `${id}${no}${under}${Math.max(0, end - now)}${acted ? 1 : 0}${over ? 1 : 0}${blurred ? 1 : 0}`,
        );
    }
    key += "|";
    for (const letter of inbox) key += this.#short(letterCode(letter));
    key += "|";
    // For how long a key is known matters as long as somebody may still act under it.
    for (const { id, key: under, at: when } of ledger)
      key += this.#short(
        `${id}${under}${mayAct(world, id) ? Math.min(now - when, KEY_VALID_MS) : ""}`,
      );
    return fork === null
      ? key
      : `${key}|${this.#short(`${keyOfPlace(fork.from)}|${keyOfPlace(fork.inFlight)}`)}`;
  }

  #keyOfInFlight(inFlight: InFlight, now: number): string {
    let keys = this.#keys.get(inFlight);
    if (keys === undefined) {
      keys = [];
      this.#keys.set(inFlight, keys);
    }
    keys[now] ??= this.#short(keyOfInFlight(inFlight, now));
    return keys[now];
  }

  /** A character for each text: worlds are many, and what they are made of is little. */
  #short(text: string): string {
    const known = this.#shorts.get(text);
    if (known !== undefined) return known;
    if (this.#shorts.size > 0xf000)
      throw new Error("There are not enough characters to tell these worlds apart.");
    const short = String.fromCharCode(0x100 + this.#shorts.size);
    this.#shorts.set(text, short);
    return short;
  }
}

const mayAct = (world: World, id: string): boolean =>
  (world.inFlight.get(id)?.phase ?? "done") !== "done" || isInside(world, id);

/** What a holder still asks of where it is. */
function keyOfMaking({ id, at: stage, no, tries, asked, mustRun, blurred, by }: Making): string {
  const flags = (...set: readonly boolean[]) => set.map((one) => (one ? 1 : 0)).join("");
  switch (stage) {
    case "deciding":
      return `d${id}${tries}${flags(asked, mustRun, mustRun && blurred)}`;
    case "starting":
      return `s${id}${no}${tries}${flags(blurred)}`;
    case "inside":
      return `i${id}${tries}`;
    case "answered":
    case "failed":
      return `${stage[0]}${id}${flags(by !== undefined)}`;
  }
}

/**
 * Of a place to go back to only that is asked what is over there, and what it is for that something
 * waits.
 */
function keyOfPlace(inFlight: InFlight): string {
  let key = "";
  for (const { id, phase, outcome, by, waited } of effectsOf(inFlight))
    key += `;${id}${phase}${outcome}${by}${waited?.[0]?.for}`;
  return key;
}

/** Of a call that is done nobody asks when, and of one that is not begun nobody asks who. */
function keyOfInFlight(inFlight: InFlight, now: number): string {
  let key = "";
  for (const effect of effectsOf(inFlight)) {
    const {
      id,
      key: under,
      inputDigest,
      phase,
      mode,
      attempt,
      first,
      holder,
      outcome,
      by,
      waits,
      waited,
    } = effect;
    key += `;${id}${under.slice(4)}${inputDigest}${phase}${attempt?.no}${waits?.for}${waited?.[0]?.for}`;
    if (phase === "done") key += `${outcome}${by}`;
    else if (mode === "keyed" && first !== undefined)
      key += `~${Math.min(now - first.at, KEY_VALID_MS)}`;
    if (phase === "begun" || phase === "doubt")
      key += `${holder?.nonce}${Math.max(0, endOf(effect) - now)}`;
  }
  return key;
}

const TOOL = "tool";

const fresh = (id: string): Making => ({
  id,
  at: "deciding",
  no: 1,
  tries: 0,
  asked: false,
  mustRun: false,
  blurred: false,
});
const attemptAt = (now: number, no: number) => ({
  no,
  at: now,
  wall: now + WALL,
  forMs: TIMEOUT_MS,
});
const at = (world: World, who: Who): Process => world.processes[who];
const letterCode = ({ kind, id, no, as }: OpenedMessage): string => `${kind[0]}${id}${no}${as[0]};`;

/** The journal as a process knows it. */
const inFlightOf = (world: World, who: Who): InFlight => at(world, who).view ?? world.inFlight;

const effects = new WeakMap<InFlight, readonly Effect[]>();

/**
 * All calls that in-flight work knows. Courses are not changed any more once they are part of a
 * world.
 */
export function effectsOf(inFlight: InFlight): readonly Effect[] {
  const known = effects.get(inFlight);
  if (known !== undefined) return known;
  const found = inFlight.toBase()?.effects ?? [];
  effects.set(inFlight, found);
  return found;
}

const openIn = (inFlight: InFlight): readonly Effect[] =>
  effectsOf(inFlight).filter(({ phase }) => phase !== "done");

/** What was made behind a place: also what was open there. */
const leftBehind = (inFlight: InFlight, place: InFlight): readonly Effect[] =>
  effectsOf(inFlight).filter(
    ({ id, first }) => first !== undefined && place.get(id)?.phase !== "done",
  );

function change(
  world: World,
  who: Who,
  process: Partial<Process>,
  rest: Partial<World> = {},
): World {
  const changed = { ...world.processes[who], ...process };
  return {
    ...world,
    ...rest,
    processes: who === 0 ? [changed, world.processes[1]] : [world.processes[0], changed],
  };
}

const making = (world: World, who: Who, call: number, one: Making | null): World =>
  change(world, who, { making: at(world, who).making.with(call, one) });

const replaced = (world: World, who: Who, running: Running, by: Running | undefined): World =>
  change(world, who, {
    running: at(world, who).running.flatMap((one) =>
      one !== running ? [one] : by === undefined ? [] : [by],
    ),
  });

const restart = (world: World, who: Who): Step => ({
  name: "restart",
  to: change(world, who, { up: true, life: at(world, who).life + 1 }),
  met: [],
});

export const isAlive = (world: World, { nonce }: Owner): boolean =>
  both.some((who) => at(world, who).up && ownerOf(who, at(world, who).life).nonce === nonce);

/** As the runtime finds out who is, or was, inside. */
function holderOf(world: World, who: Who, { id, holder, phase }: Effect): "dead" | "unknown" {
  if (phase !== "begun" && phase !== "doubt") return "dead";
  const me = at(world, who);
  if (me.running.some((one) => one.id === id) || holder === undefined) return "unknown";
  return holder.nonce === ownerOf(who, me.life).nonce || !isAlive(world, holder)
    ? "dead"
    : "unknown";
}

export const happened = ({ ledger }: World, id: string): boolean =>
  ledger.some((act) => act.id === id);

/** Whether it may still happen: somebody runs it and it has not acted, or is about to run it. */
const isInside = ({ processes }: World, id: string): boolean =>
  processes.some(
    ({ running, making: made }) =>
      running.some((one) => one.id === id && !one.acted) ||
      made.some((one) => one?.id === id && one.at === "starting"),
  );
