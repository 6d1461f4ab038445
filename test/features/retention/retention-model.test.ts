/**
 * Whatever is pruned by whatever policies, deleted, forked, rewound, put aside and collected: what
 * a policy keeps is exactly what a plain reading of it says, and everything that is left loads what
 * was there when it was taken.
 */
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import type { RetentionPolicy } from "../../../src/core/retention/policy.js";
import { Holdfast } from "../../../src/holdfast.js";
import {
  type Checkpoint,
  type CheckpointKind,
  HoldfastError,
  type Session,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { policies, stays, steps } from "../../support/policies.js";
import { runs } from "../../support/runs.js";
import { stores } from "../../support/stores.js";

const { slackBytes } = baseTuning;
// Bases come every few saves, as they do in long histories.
beforeEach(() => {
  baseTuning.slackBytes = 300;
});
afterEach(() => {
  baseTuning.slackBytes = slackBytes;
});

type Command =
  | {
      readonly do: "save";
      readonly who: number;
      readonly after: readonly number[];
      readonly bytes: number;
      readonly label: boolean;
      readonly kind: CheckpointKind;
    }
  | {
      readonly do: "prune";
      readonly who: number;
      readonly policy: RetentionPolicy;
      readonly all: boolean;
    }
  | {
      readonly do: "policy";
      readonly agent: number | null;
      readonly policy: RetentionPolicy | null;
    }
  | { readonly do: "fork" | "rewind" | "remove"; readonly who: number; readonly at: number }
  | { readonly do: "forget" | "delete" | "snapshot" | "unsnap"; readonly who: number }
  | { readonly do: "apply" | "gc" };

const who = fc.nat({ max: 3 });
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("save" as const),
      who,
      after: fc.array(steps, { minLength: 1, maxLength: 6 }),
      bytes: fc.constantFrom(10, 200, 200, 9_000),
      label: fc.boolean(),
      kind: fc.constantFrom("automatic" as const, "manual" as const, "pre-operation" as const),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("prune" as const),
      who,
      policy: policies,
      all: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("policy" as const),
      agent: fc.option(fc.nat({ max: 1 })),
      policy: fc.option(policies),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("fork" as const, "rewind" as const, "remove" as const),
      who,
      at: fc.nat({ max: 30 }),
    }),
  },
  fc.record({
    do: fc.constantFrom(
      "forget" as const,
      "delete" as const,
      "snapshot" as const,
      "unsnap" as const,
    ),
    who,
  }),
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("apply" as const, "gc" as const) }) },
);

const AGENTS = ["x", "y"] as const;
const shown = ({ messages, state, status }: Pick<Session, "messages" | "state" | "status">) => ({
  said: messages.map(({ id, content }) => [id, content]),
  state,
  status,
});

class Run {
  readonly #store: Store;
  readonly #hold: Holdfast;
  readonly #seen = new Map<string, unknown>();
  readonly #open = new Map<string, Session>();
  readonly #policies = new Map<string | null, RetentionPolicy>();
  readonly #snapshots: string[] = [];
  #now = Date.UTC(2026, 0, 1);
  #count = 0;

  constructor(store: Store, pruned: Store = store) {
    this.#store = store;
    this.#hold = new Holdfast(pruned, thisMachine(), { now: () => this.#now }, 30_000);
  }

  async #session(which: number): Promise<Session> {
    const { items } = await this.#hold.sessions.list({ limit: 100 });
    const known = items[which % (items.length + 1)]?.id;
    const id = known ?? `s${this.#count++}`;
    const agent = known === undefined ? { agent: AGENTS[which % 2] as string } : {};
    const session = this.#open.get(id) ?? (await this.#hold.session(id, agent));
    this.#open.set(id, session);
    return session;
  }

  async #checkpoints(id: string): Promise<readonly Checkpoint[]> {
    return (await this.#hold.checkpoints.list(id, { limit: 1_000 })).items;
  }

  /**
   * The checkpoints of a session's past that a policy should leave, and those that it should take.
   */
  async #expected(
    id: string,
    policy: RetentionPolicy,
  ): Promise<{ readonly left: string[]; readonly gone: string[] }> {
    const forkPoints = new Set(
      (await this.#store.branches({ kind: "all" })).flatMap(({ forkPoint }) =>
        forkPoint ? `${forkPoint.branch}-${forkPoint.seq}` : [],
      ),
    );
    const all = await this.#checkpoints(id);
    const own = all.filter(({ sessionId }) => sessionId === id);
    const dated = own.map(({ createdAt, kind, label }) => ({
      at: Date.parse(createdAt),
      kind,
      labelled: label !== undefined,
    }));
    const gone = own
      .filter((one, i) => !stays(dated, i, policy, this.#now) && !forkPoints.has(one.id))
      .map((one) => one.id);
    return { left: all.map((one) => one.id).filter((one) => !gone.includes(one)), gone };
  }

  async do(command: Command): Promise<void> {
    switch (command.do) {
      case "save": {
        const session = await this.#session(command.who);
        for (const step of command.after) {
          this.#now += step;
          if (this.#count % 2 === 0)
            session.append({ role: "user", content: `${this.#count} `.padEnd(command.bytes, "x") });
          session.set("k", `${this.#count++} `.padEnd(command.bytes, "x"));
          const { id } = await session.checkpoint({
            kind: command.kind,
            ...(command.label ? { label: `l${this.#count}` } : undefined),
          });
          this.#seen.set(id, shown(session));
        }
        return;
      }
      case "prune": {
        const { id } = await this.#session(command.who);
        const branches = command.all ? "all" : "current";
        const { left, gone } = await this.#expected(id, command.policy);
        // With no policy at all, the one that was set holds.
        if (Object.keys(command.policy).length === 0) return;
        if (!command.all)
          expect(
            await this.#hold.checkpoints.prune(id, { ...command.policy, dryRun: true }),
          ).toEqual({ removed: gone.length, ids: gone });
        const { removed } = await this.#hold.checkpoints.prune(id, { ...command.policy, branches });
        if (!command.all) expect(removed).toBe(gone.length);
        expect((await this.#checkpoints(id)).map((one) => one.id)).toEqual(left);
        return;
      }
      case "policy": {
        const agent = command.agent === null ? null : (AGENTS[command.agent] as string);
        const of = agent === null ? {} : { agent };
        if (command.policy === null)
          expect(await this.#hold.retention.clear(of)).toBe(this.#policies.delete(agent));
        else {
          this.#policies.set(agent, command.policy);
          await this.#hold.retention.set(command.policy, of);
        }
        expect(await this.#hold.retention.get(of)).toEqual(this.#policies.get(agent));
        return;
      }
      case "apply":
        return this.#apply();
      case "gc":
        await this.#hold.gc();
        return;
      case "forget": {
        const session = await this.#session(command.who);
        const { length } = session.messages;
        session.splice("messages", 0, Math.min(2, length), { role: "user", content: "summary" });
        this.#seen.set((await session.checkpoint()).id, shown(session));
        return;
      }
      case "delete": {
        const session = await this.#session(command.who);
        await session.close({ discard: true });
        this.#open.delete(session.id);
        await this.#hold.sessions.delete(session.id);
        return;
      }
      case "snapshot":
        // An agent of which there is nothing has no snapshot either.
        if (
          (await this.#hold.sessions.list({ agent: AGENTS[command.who % 2] as string })).items
            .length === 0
        )
          return;
        this.#snapshots.push(
          (await this.#hold.agents.snapshot(AGENTS[command.who % 2] as string)).id,
        );
        return;
      case "unsnap": {
        const id = this.#snapshots.pop();
        if (id !== undefined) await this.#hold.agents.deleteSnapshot(id);
        return;
      }
      default:
        return this.#at(command.do, command.who, command.at);
    }
  }

  /** Every session by the policy of its agent, or of the store. */
  async #apply(): Promise<void> {
    const sessions = (await this.#hold.sessions.list({ limit: 100 })).items;
    const expected = new Map<string, { readonly left: string[]; readonly gone: string[] }>();
    for (const { id, agent } of sessions)
      expected.set(
        id,
        await this.#expected(
          id,
          this.#policies.get(agent ?? null) ?? this.#policies.get(null) ?? {},
        ),
      );
    const report = await this.#hold.retention.apply();
    expect(report.failed).toEqual([]);
    expect(report.sessions).toBe(sessions.length);
    for (const { id } of sessions) {
      const { gone } = expected.get(id) as { gone: string[] };
      expect(report.pruned.find(({ sessionId }) => sessionId === id)?.removed ?? 0).toBe(
        gone.length,
      );
    }
    const goneAll = new Set([...expected.values()].flatMap(({ gone }) => gone));
    // A past that is shared is shown with the checkpoints that its owner has left.
    for (const { id } of sessions)
      expect((await this.#checkpoints(id)).map((one) => one.id)).toEqual(
        expected.get(id)?.left.filter((one) => !goneAll.has(one)),
      );
  }

  async #at(what: "fork" | "rewind" | "remove", which: number, at: number): Promise<void> {
    const session = await this.#session(which);
    const all = await this.#checkpoints(session.id);
    const id = all[at % Math.max(1, all.length)]?.id;
    if (id === undefined) return;
    if (what === "rewind") await session.rewind(id);
    else if (what === "fork") await this.#hold.sessions.fork(id, { id: `f${this.#count++}` });
    else
      await this.#hold.checkpoints.delete(id).catch((error: unknown) => {
        if (!(error instanceof HoldfastError) || error.code !== "CONFLICT") throw error;
      });
  }

  async check(): Promise<void> {
    for (const { id: session } of (await this.#hold.sessions.list({ limit: 100 })).items)
      for (const { id } of (
        await this.#hold.checkpoints.list(session, { limit: 1_000, branches: "all" })
      ).items)
        expect(shown(await this.#hold.checkpoints.state(id))).toEqual(this.#seen.get(id));
    for (const session of this.#open.values()) expect(session.signal.aborted).toBe(false);
  }

  async end(): Promise<void> {
    await this.check();
    const open = [...this.#open.values()].map((session) => [session.id, shown(session)] as const);
    for (const session of this.#open.values()) await session.close();
    for (const [id, before] of open) {
      const again = await this.#hold.session(id);
      expect(shown(again)).toEqual(before);
      await again.close();
    }
    // What snapshots point at is there, whatever has become of the checkpoints at those places.
    for (const id of this.#snapshots) await this.#hold.agents.restore(id);
    expect((await this.#hold.verify()).findings).toEqual([]);
  }

  close(): Promise<void> {
    return this.#hold.close();
  }
}

const RUNS = runs(6, 60);

async function holds(open: () => Promise<Run>, numRuns: number): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      fc.array(command, { minLength: 1, maxLength: 25, size: "max" }),
      async (commands) => {
        const run = await open();
        try {
          for (const one of commands) await run.do(one);
          await run.check();
          await run.end();
        } finally {
          await run.close();
        }
      },
    ),
    { numRuns },
  );
}

describe("what policies keep, and that it loads", () => {
  test.each(stores)(
    "on $name",
    { timeout: 120_000 + RUNS * 500 },
    async ({ name, address, traits }) => {
      const runs = name === "memory" ? RUNS * 4 : traits.oneMachine ? RUNS : Math.ceil(RUNS / 6);
      await holds(async () => new Run(await openStore(address(), {})), runs);
    },
  );

  test("the same run catches a store that drops a little too much", {
    timeout: 60_000,
  }, async () => {
    const greedy = async () => {
      const store = await openStore("memory:", {});
      const replace: Store["reclaim"]["replace"] = (branch, replacements, known) =>
        store.reclaim.replace(
          branch,
          replacements.map((one) => ({
            ...one,
            save: { ...one.save, items: one.save.mark === null ? null : one.save.items },
          })),
          known,
        );
      return new Run(store, wrapped(store, { reclaim: { replace } }));
    };
    await expect(holds(greedy, 300)).rejects.toThrow();
  });
});
