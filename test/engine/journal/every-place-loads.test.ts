/**
 * D2, D8: whatever is done to a session while it is open (work, bases, prunes, deletes, forks,
 * rewinds, snapshots), every checkpoint that is still listed loads what was there when it was
 * taken, a session that is opened again is the one that was left, and a snapshot brings back every
 * session as it was.
 */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { type Holdfast, type Json, open, type Session } from "../../../src/index.js";
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
  | { readonly do: "say"; readonly times: number; readonly bytes: number }
  | { readonly do: "list"; readonly start: number; readonly count: number }
  | { readonly do: "set"; readonly key: string; readonly bytes: number; readonly times: number }
  | { readonly do: "forget"; readonly start: number; readonly count: number }
  | { readonly do: "halt" | "reopen" | "gc" }
  | { readonly do: "prune"; readonly keep: number }
  | { readonly do: "snapshot" }
  | {
      readonly do: "delete" | "rewind" | "fork" | "remove" | "restore" | "unsnap";
      readonly which: number;
    };

/** The largest are kept as blobs. */
const bytes = fc.constantFrom(10, 10, 200, 200, 9_000);
const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("say" as const),
      times: fc.integer({ min: 1, max: 3 }),
      bytes,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("set" as const),
      key: fc.constantFrom("a", "b"),
      bytes,
      times: fc.integer({ min: 1, max: 6 }),
    }),
  },
  fc.record({
    do: fc.constant("list" as const),
    start: fc.nat({ max: 3 }),
    count: fc.nat({ max: 2 }),
  }),
  fc.record({
    do: fc.constant("forget" as const),
    start: fc.nat({ max: 5 }),
    count: fc.nat({ max: 3 }),
  }),
  fc.record({ do: fc.constantFrom("halt" as const, "reopen" as const, "gc" as const) }),
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant("prune" as const), keep: fc.nat({ max: 4 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("snapshot" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "delete" as const,
        "rewind" as const,
        "fork" as const,
        "remove" as const,
        "restore" as const,
        "unsnap" as const,
      ),
      which: fc.nat({ max: 20 }),
    }),
  },
);

const shown = ({ messages, state, status }: Pick<Session, "messages" | "state" | "status">) => ({
  said: messages.map(({ id, content }) => [id, content]),
  state,
  status,
});

class Run {
  readonly #hold: Holdfast;
  readonly #seen = new Map<string, unknown>();
  /** What each session was when a snapshot was taken, by the snapshot's id. */
  readonly #snapshots = new Map<string, ReadonlyMap<string, unknown>>();
  #session: Session;
  #count = 0;

  constructor(hold: Holdfast, session: Session) {
    this.#hold = hold;
    this.#session = session;
  }

  async #save(): Promise<void> {
    const { id } = await this.#session.checkpoint();
    this.#seen.set(id, shown(this.#session));
  }

  async #pick(which: number): Promise<string | undefined> {
    const { items } = await this.#hold.checkpoints.list(this.#session.id, { limit: 1_000 });
    return items[which % Math.max(1, items.length)]?.id;
  }

  async do(command: Command): Promise<void> {
    const session = this.#session;
    switch (command.do) {
      case "say":
        for (let i = 0; i < command.times; i++)
          session.append({ role: "user", content: `${this.#count++} `.padEnd(command.bytes, "x") });
        return this.#save();
      case "set":
        for (let i = 0; i < command.times; i++) {
          session.set(command.key, `${this.#count++} `.padEnd(command.bytes, "x"));
          await this.#save();
        }
        return;
      case "list": {
        const { length } = (session.state["list"] ?? []) as Json[];
        const start = Math.min(command.start, length);
        if (session.state["list"] === undefined) session.set("list", [this.#count++]);
        else
          session.splice(
            "list",
            start,
            Math.min(command.count, length - start),
            this.#count++,
            "x".repeat(100),
          );
        return this.#save();
      }
      case "forget": {
        const start = Math.min(command.start, session.messages.length);
        session.splice(
          "messages",
          start,
          Math.min(command.count, session.messages.length - start),
          { role: "user", content: "summary" },
        );
        return this.#save();
      }
      case "halt":
        await session.halt("enough");
        this.#seen.set(session.head?.id ?? "", shown(session));
        return;
      case "prune":
        await this.#hold.checkpoints.prune(session.id, { keep: command.keep });
        return;
      case "gc":
        await this.#hold.gc();
        return;
      case "reopen": {
        const before = shown(session);
        await session.close();
        this.#session = await this.#hold.session(session.id);
        expect(shown(this.#session)).toEqual(before);
        return;
      }
      case "remove":
        return this.#remove(command.which);
      case "snapshot": {
        const before = await this.#all();
        this.#snapshots.set((await this.#hold.agents.snapshot("ann")).id, before);
        return;
      }
      case "unsnap": {
        const chosen = this.#anySnapshot(command.which);
        if (chosen === undefined) return;
        await this.#hold.agents.deleteSnapshot(chosen);
        this.#snapshots.delete(chosen);
        return;
      }
      case "restore":
        return this.#restore(this.#anySnapshot(command.which));
      default:
        return this.#at(command.do, await this.#pick(command.which));
    }
  }

  #anySnapshot(which: number): string | undefined {
    return [...this.#snapshots.keys()][which % Math.max(1, this.#snapshots.size)];
  }

  /** Every session as it is now. */
  async #all(): Promise<ReadonlyMap<string, unknown>> {
    const all = new Map<string, unknown>([[this.#session.id, shown(this.#session)]]);
    for (const { id } of (await this.#hold.sessions.list({ limit: 1_000 })).items) {
      if (all.has(id)) continue;
      const session = await this.#hold.session(id);
      all.set(id, shown(session));
      await session.close();
    }
    return all;
  }

  async #restore(snapshot: string | undefined): Promise<void> {
    if (snapshot === undefined) return;
    const before = await this.#all();
    await this.#session.close();
    const { recovery, sessions } = await this.#hold.agents.restore(snapshot);
    this.#snapshots.set(recovery?.id as string, before);
    const wanted = this.#snapshots.get(snapshot) as ReadonlyMap<string, unknown>;
    expect(sessions.map(({ id }) => id).sort()).toEqual(
      [...new Set([...wanted.keys(), ...before.keys()])].sort(),
    );
    this.#session = await this.#hold.session(
      sessions.find(({ id }) => id === this.#session.id)?.id ?? "a",
      { agent: "ann" },
    );
    const now = await this.#all();
    for (const [id, was] of [...before, ...wanted])
      expect([id, now.get(id)]).toEqual([id, wanted.get(id) ?? was]);
    for (const id of before.keys())
      if (!wanted.has(id))
        expect(await this.#hold.sessions.get(id)).toMatchObject({ archived: true });
  }

  /** Deletes another session: what forks share with it stays. */
  async #remove(which: number): Promise<void> {
    const { items } = await this.#hold.sessions.list({ limit: 1_000 });
    const others = items.filter(({ id }) => id !== this.#session.id);
    const chosen = others[which % Math.max(1, others.length)];
    if (chosen !== undefined) await this.#hold.sessions.delete(chosen.id);
  }

  async #at(what: "delete" | "rewind" | "fork", id: string | undefined): Promise<void> {
    if (id === undefined) return;
    if (what === "rewind") await this.#session.rewind(id);
    if (what === "delete")
      await this.#hold.checkpoints
        .delete(id)
        .catch((error: { code: string }) => expect(error.code).toBe("CONFLICT"));
    if (what === "fork") {
      const fork = await this.#session.fork(id, { id: `fork-${this.#count++}` });
      await this.#session.close();
      this.#session = fork;
    }
  }

  /** All that is listed, of every session there is. */
  async check(): Promise<void> {
    for (const { id: session } of (await this.#hold.sessions.list({ limit: 1_000 })).items) {
      for (const { id } of (
        await this.#hold.checkpoints.list(session, { limit: 1_000, branches: "all" })
      ).items)
        expect(shown(await this.#hold.checkpoints.state(id))).toEqual(this.#seen.get(id));
    }
  }

  async end(): Promise<void> {
    await this.do({ do: "reopen" });
    await this.check();
    const { findings } = await this.#hold.verify();
    expect(findings).toEqual([]);
  }
}

const RUNS = runs(6, 60);

test.each(stores)(
  "every place that is listed loads: $name",
  { timeout: 120_000 + RUNS * 200 },
  async ({ name, address, traits }) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(commands, { minLength: 1, maxLength: 25, size: "max" }),
        async (all) => {
          const hold = await open(address());
          try {
            const run = new Run(hold, await hold.session("a", { agent: "ann" }));
            for (const command of all) {
              await run.do(command);
              await run.check();
            }
            await run.end();
          } finally {
            await hold.close();
          }
        },
      ),
      // A schema for each run, and a round trip for each step: fewer, over a wire.
      { numRuns: name === "memory" ? RUNS * 4 : traits.oneMachine ? RUNS : Math.ceil(RUNS / 5) },
    );
  },
);

test("a session that was pruned while it was open goes on, and loads, also where a later base spans what is gone", async () => {
  for (const { address } of stores) {
    const hold = await open(address());
    const run = new Run(hold, await hold.session("a"));
    await run.do({ do: "say", times: 1, bytes: 10 });
    await run.do({ do: "set", key: "a", bytes: 200, times: 12 });
    await run.do({ do: "halt" });
    await run.do({ do: "set", key: "a", bytes: 200, times: 12 });
    await run.do({ do: "prune", keep: 1 });
    await run.do({ do: "say", times: 1, bytes: 10 });
    await run.do({ do: "set", key: "a", bytes: 200, times: 12 });
    await run.end();
    await hold.close();
  }
});
