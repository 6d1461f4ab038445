/**
 * Two holders and one session, in every order in which their steps can happen.
 *
 * The store is a plain object; what it is asked to do is decided by the functions of core/lease.
 * Whatever a holder asks of the store is on its way for a while and lands later, also after its
 * sender has died, so reading and writing are never one step. A pause needs no step of its own:
 * among all orders are those in which a holder does nothing while the clock goes past its lease.
 *
 * Worlds are visited breadth first, each one once, so that what breaks an invariant comes with the
 * shortest way there. Where time, epochs and records are bounded there are finitely many worlds,
 * and the search ends by itself; elsewhere it ends after so many steps.
 */
import { beforeAll, describe, expect, test } from "vitest";
import {
  freeLease,
  type Grant,
  grantLease,
  type Lease,
  type LeaseRequest,
  type Owner,
  releaseLease,
  renewLease,
} from "../../../src/core/sessions/lease.js";
import { isThorough, runs } from "../../support/runs.js";

const LEASE_MS = 2;

/** How far the search goes. */
interface Scope {
  readonly lastMs: number;
  readonly maxEpoch: number;
  readonly maxRecords: number;
  readonly maxSteps: number;
}

type Who = 0 | 1;
const both: readonly Who[] = [0, 1];
const owners: readonly [Owner, Owner] = [owner("A"), owner("B")];

function owner(nonce: string): Owner {
  return Object.freeze({
    boot: "boot",
    space: "pid:1",
    pid: nonce.charCodeAt(0),
    started: "0",
    nonce,
  });
}

interface Write {
  readonly epoch: number;
  /** The number of the record before, as the writer knows it. */
  readonly after: number;
}

interface Holder {
  readonly alive: boolean;
  /** The lease as it was read by one who wants it. */
  readonly seen: Lease | null;
  /** What it believes to hold, and the end of the journal once it has read that. */
  readonly held: Lease | null;
  readonly tail: number | null;
  /** On their way to the store. */
  readonly claim: { readonly read: Lease; readonly lease: Lease } | null;
  readonly renewal: Lease | null;
  readonly release: Lease | null;
  readonly write: Write | null;
}

interface Entry extends Write {
  readonly by: Who;
}

interface World {
  readonly now: number;
  readonly lease: Lease;
  readonly journal: readonly Entry[];
  readonly holders: readonly [Holder, Holder];
}

const idle: Holder = {
  alive: true,
  seen: null,
  held: null,
  tail: null,
  claim: null,
  renewal: null,
  release: null,
  write: null,
};
const start: World = { now: 0, lease: freeLease, journal: [], holders: [idle, idle] };

/** What a protocol is made of. The real one is below; mutants exchange one rule each. */
interface Rules {
  decide(lease: Lease, request: LeaseRequest): Grant;
  /** The condition under which a claim lands. */
  claims(stored: Lease, read: Lease): boolean;
  /** The condition under which a renewal or a release lands. */
  changes(stored: Lease, change: Lease): boolean;
  letGo(lease: Lease): Lease;
  append(world: World, write: Write): "appended" | "known" | "refused";
  isDead(world: World, who: Who): boolean;
}

/**
 * As the runtime asks it of the port: a claim is conditional on epoch and until, all else on the
 * epoch, a write on the tail too.
 */
const real: Rules = {
  decide: grantLease,
  claims: (stored, read) => stored.epoch === read.epoch && stored.until === read.until,
  changes: (stored, change) => stored.epoch === change.epoch,
  letGo: releaseLease,
  append({ lease, journal }, { epoch, after }) {
    if (lease.epoch !== epoch) return "refused";
    if (journal.length === after) return "appended";
    const there = journal[after];
    return there?.epoch === epoch && there.after === after ? "known" : "refused";
  },
  isDead: ({ holders }, who) => !holders[who].alive,
};

// ---- steps

/** One step, and what it did as far as invariants speak of it. */
interface Step {
  readonly name: string;
  readonly to: World;
  readonly granted?: Who;
  readonly accepted?: Entry;
  /** A situation that the search must have met, so that it cannot pass by never going there. */
  readonly met?: Situation;
}

type Situation =
  | "granted while free"
  | "granted after it ran out"
  | "granted after its owner died"
  | "refused while it is held"
  | "lost to a quicker claim"
  | "lost to a renewal"
  | "renewed after it ran out"
  | "renewal refused"
  | "write accepted in time"
  | "write accepted after it ran out"
  | "write accepted after letting go"
  | "write accepted from the dead"
  | "write known already"
  | "write of a superseded holder refused"
  | "claim of the dead landed";

function change(world: World, who: Who, holder: Partial<Holder>, rest: Partial<World> = {}): World {
  const changed = { ...world.holders[who], ...holder };
  return {
    ...world,
    ...rest,
    holders: who === 0 ? [changed, world.holders[1]] : [world.holders[0], changed],
  };
}

function steps(world: World, rules: Rules, scope: Scope): Step[] {
  const found = both.flatMap((who) => [
    ...ownSteps(world, who, rules, scope),
    ...landings(world, who, rules),
  ]);
  if (world.now < scope.lastMs) found.push({ name: "tick", to: { ...world, now: world.now + 1 } });
  return found;
}

/** What a living holder may do next. */
function ownSteps(world: World, who: Who, rules: Rules, { maxEpoch, maxRecords }: Scope): Step[] {
  const { alive, seen, held, tail, claim, renewal, release, write } = world.holders[who];
  if (!alive) return [];
  const found: Step[] = [
    { name: "crash", to: change(world, who, { alive: false, seen: null, held: null, tail: null }) },
  ];
  if (held === null && seen === null && claim === null)
    found.push({ name: "look", to: change(world, who, { seen: world.lease }) });
  if (seen !== null && seen.epoch < maxEpoch) found.push(ask(world, who, seen, rules));
  if (held === null) return found;
  if (tail === null)
    found.push({ name: "enter", to: change(world, who, { tail: world.journal.length }) });
  else if (write === null && tail < maxRecords)
    found.push({
      name: "write",
      to: change(world, who, { write: { epoch: held.epoch, after: tail } }),
    });
  const renewed = renewLease(held, world.now, LEASE_MS);
  if (renewal === null && renewed.until > held.until)
    found.push({ name: "renew", to: change(world, who, { renewal: renewed }) });
  if (release === null)
    found.push({
      name: "let go",
      to: change(world, who, { release: held, held: null, tail: null }),
    });
  return found;
}

function ask(world: World, who: Who, seen: Lease, rules: Rules): Step {
  const dead = (asked: Owner) => rules.isDead(world, owners.indexOf(asked) as Who);
  const grant = rules.decide(seen, { owner: owners[who], now: world.now, leaseMs: LEASE_MS, dead });
  if ("heldBy" in grant)
    return { name: "ask", to: change(world, who, { seen: null }), met: "refused while it is held" };
  return {
    name: "ask",
    to: change(world, who, { seen: null, claim: { read: seen, lease: grant.granted } }),
  };
}

/** What the store may do next with what is on its way to it. */
function landings(world: World, who: Who, rules: Rules): Step[] {
  const { claim, renewal, release, write } = world.holders[who];
  return [
    ...(claim === null ? [] : [landClaim(world, who, claim, rules)]),
    ...(renewal === null ? [] : [landRenewal(world, who, renewal, rules)]),
    ...(release === null ? [] : [landRelease(world, who, release, rules)]),
    ...(write === null ? [] : landWrite(world, who, write, rules)),
  ];
}

function landClaim(
  world: World,
  who: Who,
  { read, lease }: { read: Lease; lease: Lease },
  rules: Rules,
): Step {
  const stored = world.lease;
  if (!rules.claims(stored, read)) {
    const met =
      stored.epoch === read.epoch && stored.owner !== null
        ? "lost to a renewal"
        : "lost to a quicker claim";
    return { name: "claim lost", to: change(world, who, { claim: null }), met };
  }
  const { alive } = world.holders[who];
  const to = change(
    world,
    who,
    { claim: null, ...(alive ? { held: lease, tail: null } : undefined) },
    { lease },
  );
  if (!alive) return { name: "claim", to, granted: who, met: "claim of the dead landed" };
  if (stored.owner === null) return { name: "claim", to, granted: who, met: "granted while free" };
  return {
    name: "claim",
    to,
    granted: who,
    met: stored.until <= world.now ? "granted after it ran out" : "granted after its owner died",
  };
}

function landRenewal(world: World, who: Who, renewal: Lease, rules: Rules): Step {
  const { held } = world.holders[who];
  const own = held?.epoch === renewal.epoch;
  if (!rules.changes(world.lease, renewal))
    return {
      name: "renewal refused",
      to: change(world, who, { renewal: null, ...(own ? lost : undefined) }),
      met: "renewal refused",
    };
  const to = change(
    world,
    who,
    { renewal: null, ...(own ? { held: renewal } : undefined) },
    { lease: renewal },
  );
  return {
    name: "renewal",
    to,
    ...(world.lease.until <= world.now ? { met: "renewed after it ran out" as const } : undefined),
  };
}

function landRelease(world: World, who: Who, release: Lease, rules: Rules): Step {
  return {
    name: "release",
    to: change(
      world,
      who,
      { release: null },
      rules.changes(world.lease, release) ? { lease: rules.letGo(release) } : {},
    ),
  };
}

function landWrite(world: World, who: Who, write: Write, rules: Rules): Step[] {
  const { alive, held } = world.holders[who];
  const own = held?.epoch === write.epoch;
  const answer = rules.append(world, write);
  if (answer === "refused")
    return [
      {
        name: "write refused",
        to: change(world, who, { write: null, ...(own ? lost : undefined) }),
        met: "write of a superseded holder refused",
      },
    ];
  const told = { write: null, ...(own ? { tail: write.after + 1 } : undefined) };
  if (answer === "known")
    return [{ name: "write known", to: change(world, who, told), met: "write known already" }];
  const accepted: Entry = { ...write, by: who };
  const journal = [...world.journal, accepted];
  const met = !alive
    ? ("write accepted from the dead" as const)
    : !own
      ? ("write accepted after letting go" as const)
      : world.lease.until <= world.now
        ? ("write accepted after it ran out" as const)
        : ("write accepted in time" as const);
  const landed: Step = { name: "write", to: change(world, who, told, { journal }), accepted, met };
  // The answer is lost: the writer does not know, keeps the write as it is, and sends it again
  // (D4).
  return [
    landed,
    { ...landed, name: "write unacknowledged", to: change(world, who, {}, { journal }) },
  ];
}

/** How a holder takes it that it was superseded. */
const lost = { held: null, tail: null } as const;

// ---- invariants

interface Invariant {
  readonly name: string;
  readonly holds: (from: World, step: Step) => boolean;
}

const invariants: readonly Invariant[] = [
  {
    name: "LEASE-1: the epoch never falls",
    holds: (from, { to }) => to.lease.epoch >= from.lease.epoch,
  },
  {
    name: "LEASE-1: every grant raises the epoch",
    holds: (from, { to, granted }) => granted === undefined || to.lease.epoch > from.lease.epoch,
  },
  {
    name: "LEASE-1: at most one holder's epoch is the stored one",
    holds: (_, { to }) =>
      to.holders.filter(({ held }) => held !== null && held.epoch === to.lease.epoch).length <= 1,
  },
  {
    name: "LEASE-2: the lease of a living holder is not granted away before it runs out",
    holds({ lease, now, holders }, { granted }) {
      if (granted === undefined || lease.owner === null) return true;
      return now >= lease.until || !holders[owners.indexOf(lease.owner) as Who].alive;
    },
  },
  {
    name: "D5: a write is accepted only under the epoch that is stored at that moment",
    holds: ({ lease }, { accepted }) => accepted === undefined || accepted.epoch === lease.epoch,
  },
  {
    name: "JOURNAL-1: records are numbered without gaps",
    holds: (_, { to }) => to.journal.every(({ after }, i) => after === i),
  },
  {
    name: "D5: history is linear: epochs do not interleave, and each is one holder's",
    holds: (_, { to: { journal } }) =>
      journal.every((entry, i) => {
        const before = journal[i - 1];
        return (
          before === undefined ||
          before.epoch < entry.epoch ||
          (before.epoch === entry.epoch && before.by === entry.by)
        );
      }),
  },
];

// ---- the search

interface Node {
  readonly world: World;
  readonly way: Node | undefined;
  readonly step: string;
}

interface Outcome {
  readonly worlds: number;
  /** Whether there was nothing left to visit. */
  readonly complete: boolean;
  readonly met: ReadonlySet<Situation>;
  /** The invariants that did not hold, each with the shortest way to where it broke. */
  readonly broken: ReadonlyMap<string, string>;
}

function search(rules: Rules, scope: Scope): Outcome {
  const visited = new Set([keyOf(start)]);
  const met = new Set<Situation>();
  const broken = new Map<string, string>();
  let layer: Node[] = [{ world: start, way: undefined, step: "start" }];
  for (let depth = 0; layer.length > 0 && depth < scope.maxSteps; depth++) {
    const next: Node[] = [];
    for (const node of layer) {
      for (const step of steps(node.world, rules, scope)) {
        const reached: Node = { world: step.to, way: node, step: step.name };
        if (step.met !== undefined) met.add(step.met);
        for (const { name, holds } of invariants)
          if (!holds(node.world, step) && !broken.has(name)) broken.set(name, wayTo(reached));
        const key = keyOf(step.to);
        if (visited.has(key)) continue;
        visited.add(key);
        next.push(reached);
      }
    }
    layer = next;
  }
  return { worlds: visited.size, complete: layer.length === 0, met, broken };
}

/**
 * A step replaces the holder it is about, and only that one, so comparing them tells whose step it
 * was.
 */
function wayTo({ world, way, step }: Node): string {
  if (way === undefined) return step;
  const who = both.find((one) => world.holders[one] !== way.world.holders[one]);
  return `${wayTo(way)}, ${who === undefined ? "" : `${owners[who].nonce}: `}${step}`;
}

/**
 * One text for each world, and the same one for the world in which A and B have changed places:
 * neither the rules nor the invariants tell them apart, so one of the two is enough.
 */
function keyOf(world: World): string {
  const [a, b] = [keyFrom(world, 0), keyFrom(world, 1)];
  return a < b ? a : b;
}

/** A character for each fact, seen with `first` as the first of the two. */
function keyFrom({ now, lease, journal, holders }: World, first: Who): string {
  const me = owners[first];
  const codes = [now, leaseCode(lease, me)];
  pushHolder(codes, holders[first], me);
  pushHolder(codes, holders[first === 0 ? 1 : 0], me);
  for (const entry of journal) codes.push(writeCode(entry), entry.by === first ? 0 : 1);
  return String.fromCharCode(...codes);
}

function pushHolder(
  codes: number[],
  { alive, seen, held, tail, claim, renewal, release, write }: Holder,
  me: Owner,
): void {
  codes.push(
    alive ? 1 : 0,
    leaseCode(seen, me),
    leaseCode(held, me),
    tail === null ? 0 : tail + 1,
    writeCode(write),
  );
  codes.push(
    leaseCode(renewal, me),
    leaseCode(release, me),
    leaseCode(claim && claim.read, me),
    leaseCode(claim && claim.lease, me),
  );
}

function leaseCode(lease: Lease | null, me: Owner): number {
  if (lease === null) return 0;
  return (
    1 +
    (lease.epoch * 3 + (lease.owner === null ? 0 : lease.owner === me ? 1 : 2)) * 16 +
    lease.until
  );
}

function writeCode(write: Write | null): number {
  return write === null ? 0 : 1 + write.epoch * 8 + write.after;
}

const situations = Object.keys({
  "granted while free": true,
  "granted after it ran out": true,
  "granted after its owner died": true,
  "refused while it is held": true,
  "lost to a quicker claim": true,
  "lost to a renewal": true,
  "renewed after it ran out": true,
  "renewal refused": true,
  "write accepted in time": true,
  "write accepted after it ran out": true,
  "write accepted after letting go": true,
  "write accepted from the dead": true,
  "write known already": true,
  "write of a superseded holder refused": true,
  "claim of the dead landed": true,
} satisfies Record<Situation, true>);

describe("two holders of one session", () => {
  if (isThorough)
    test("LEASE-1, LEASE-2, LEASE-3, D4, D5, JOURNAL-1: hold in every world of two epochs and two records, to the end", () => {
      const { broken, met, complete, worlds } = search(real, {
        lastMs: 3,
        maxEpoch: 2,
        maxRecords: 2,
        maxSteps: Number.POSITIVE_INFINITY,
      });
      expect([...broken]).toEqual([]);
      // A search that never went where the invariants bite would pass as well.
      expect([...met].toSorted()).toEqual(situations.toSorted());
      expect(complete).toBe(true);
      expect(worlds).toBeGreaterThan(100_000);
    });

  const MOST_STEPS = runs(14, 16);
  test(`LEASE-1, LEASE-2, LEASE-3, D4, D5, JOURNAL-1: hold within ${MOST_STEPS} steps where the lease goes to and fro and three records are written`, () => {
    const { broken, met } = search(real, {
      lastMs: 4,
      maxEpoch: 3,
      maxRecords: 3,
      maxSteps: MOST_STEPS,
    });
    expect([...broken]).toEqual([]);
    expect([...met].toSorted()).toEqual(situations.toSorted());
  });
});

describe("protocols with one rule broken are caught", () => {
  const scope: Scope = { lastMs: 3, maxEpoch: 2, maxRecords: 2, maxSteps: 12 };
  const mutants: readonly (readonly [what: string, rules: Partial<Rules>, caught: string])[] = [
    [
      "a write that ignores the epoch",
      {
        append: (world, write) =>
          real.append({ ...world, lease: { ...world.lease, epoch: write.epoch } }, write),
      },
      "D5: a write is accepted only under the epoch that is stored at that moment",
    ],
    [
      "a write that ignores the tail",
      { append: ({ lease }, { epoch }) => (lease.epoch === epoch ? "appended" : "refused") },
      "JOURNAL-1: records are numbered without gaps",
    ],
    [
      "a grant that ignores until",
      { decide: (lease, request) => grantLease({ ...lease, until: request.now }, request) },
      "LEASE-2: the lease of a living holder is not granted away before it runs out",
    ],
    [
      "a grant that takes the living for dead",
      { isDead: () => true },
      "LEASE-2: the lease of a living holder is not granted away before it runs out",
    ],
    [
      "a grant that does not raise the epoch",
      {
        decide(lease, request) {
          const grant = grantLease(lease, request);
          return "granted" in grant && lease.epoch > 0
            ? { granted: { ...grant.granted, epoch: lease.epoch } }
            : grant;
        },
      },
      "LEASE-1: at most one holder's epoch is the stored one",
    ],
    [
      "a claim that ignores what was read",
      { claims: () => true },
      "LEASE-1: every grant raises the epoch",
    ],
    [
      "a claim that looks at the epoch it read and not at until",
      { claims: (stored, read) => stored.epoch === read.epoch },
      "LEASE-2: the lease of a living holder is not granted away before it runs out",
    ],
    [
      "a renewal or release that ignores the epoch",
      { changes: () => true },
      "LEASE-1: the epoch never falls",
    ],
    [
      "letting go of the epoch with the lease",
      { letGo: () => freeLease },
      "LEASE-1: the epoch never falls",
    ],
  ];

  const caughtBy = new Map<string, ReadonlyMap<string, string>>();
  beforeAll(() => {
    for (const [what, rules] of mutants)
      caughtBy.set(what, search({ ...real, ...rules }, scope).broken);
  });

  test.each(mutants)("%s", (what, _, invariant) => {
    expect([...(caughtBy.get(what)?.keys() ?? [])]).toContain(invariant);
  });

  test("every invariant is broken by one of them: none is there for show", () => {
    const broken = new Set([...caughtBy.values()].flatMap((found) => [...found.keys()]));
    expect(invariants.map(({ name }) => name).filter((name) => !broken.has(name))).toEqual([]);
  });

  test("the real protocol passes in the same scope", () => {
    expect([...search(real, scope).broken]).toEqual([]);
  });
});
