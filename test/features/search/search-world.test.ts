/**
 * An index finds what going over the store finds, whatever is done to the store and whenever it
 * takes that in: compared after every few of random commands, on each store that has an index.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { type Holdfast, HoldfastError, open, type Session } from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { openDriver } from "../../../src/store/sql/sqlite/driver/driver.js";
import { runs } from "../../support/runs.js";
import { everyStore, stores } from "../../support/stores.js";

const slackBytes = baseTuning.slackBytes;
beforeAll(() => {
  baseTuning.slackBytes = 200;
});
afterAll(() => {
  baseTuning.slackBytes = slackBytes;
});

const RUNS = runs(6, 24);
const SESSIONS = ["a", "b", "c"] as const;
const WORDS = ["kelp", "rock", "sand", "refund", "日本", "本語", "Café"] as const;

const who = fc.nat(SESSIONS.length - 1);
const words = fc
  .array(fc.constantFrom(...WORDS), { minLength: 1, maxLength: 5 })
  .map((all) => all.join(" "));

type Command =
  | {
      readonly do: "say";
      readonly who: number;
      readonly texts: readonly string[];
      readonly big: boolean;
    }
  | { readonly do: "compact"; readonly who: number; readonly text: string }
  | { readonly do: "title"; readonly who: number; readonly text: string }
  | { readonly do: "rewind" | "fork"; readonly who: number; readonly at: number }
  | { readonly do: "prune" | "delete"; readonly who: number }
  | { readonly do: "gc" | "index" | "rebuild" | "purge" | "reopen" }
  | { readonly do: "look"; readonly words: string };

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("say" as const),
      who,
      texts: fc.array(words, { minLength: 1, maxLength: 3 }),
      big: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("compact" as const), who, text: words }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("title" as const), who, text: words }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("rewind" as const, "fork" as const),
      who,
      at: fc.nat(20),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("prune" as const), who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("delete" as const), who }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "gc" as const,
        "index" as const,
        "index" as const,
        "rebuild" as const,
        "purge" as const,
        "reopen" as const,
      ),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("look" as const),
      words: fc.oneof(words, fc.constantFrom(...WORDS)),
    }),
  },
);

/** `meddle` is called after each command. */
class World {
  readonly #address: string;
  readonly #meddle: () => Promise<void>;
  readonly #checkpoints: string[] = [];
  readonly #open = new Map<string, Session>();
  #indexed: Holdfast | undefined;
  #plain: Holdfast | undefined;
  #time = Date.parse("2026-01-01T00:00:00Z");

  constructor(address: string, meddle: () => Promise<void> = async () => {}) {
    this.#address = address;
    this.#meddle = meddle;
  }

  async run(commands: readonly Command[]): Promise<void> {
    // It begins to be kept here, and not at the first look: what goes before is what it has to
    // forget.
    await (await this.#holds()).indexed.sessions.search("anything");
    for (const one of commands) {
      this.#time += 1_000;
      try {
        await this.#one(one);
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
      }
      await this.#meddle();
    }
    for (const word of WORDS) await this.#look(word);
  }

  async close(): Promise<void> {
    this.#open.clear();
    await this.#indexed?.close();
    await this.#plain?.close();
    this.#indexed = undefined;
    this.#plain = undefined;
  }

  async #holds(): Promise<{ readonly indexed: Holdfast; readonly plain: Holdfast }> {
    const clock = { now: () => this.#time };
    this.#indexed ??= await open(this.#address, { clock });
    this.#plain ??= await open(this.#address, { clock, search: false });
    return { indexed: this.#indexed, plain: this.#plain };
  }

  async #session(n: number): Promise<Session> {
    const id = SESSIONS[n] as string;
    const session = this.#open.get(id) ?? (await (await this.#holds()).indexed.session(id));
    this.#open.set(id, session);
    return session;
  }

  async #look(text: string): Promise<void> {
    const { indexed, plain } = await this.#holds();
    for (const filter of [{ limit: 1_000 }, { sessionId: "a", limit: 1_000 }]) {
      let ours = await indexed.sessions.search(text, filter);
      // A search catches up for a moment only, and a busy machine may not get far in it.
      for (let tries = 0; ours.behind !== undefined && tries < 50; tries++)
        ours = await indexed.sessions.search(text, filter);
      const theirs = await plain.sessions.search(text, filter);
      const shape = (page: typeof ours) =>
        page.items.map(({ score: _score, ...item }) => JSON.stringify(item)).toSorted();
      expect(ours.behind).toBeUndefined();
      expect(shape(ours)).toEqual(shape(theirs));
    }
  }

  async #one(one: Command): Promise<void> {
    const { indexed: hold } = await this.#holds();
    switch (one.do) {
      case "say": {
        const session = await this.#session(one.who);
        for (const text of one.texts)
          session.append({
            role: "user",
            content: one.big ? `${text} ${"long ".repeat(2000)}` : text,
          });
        this.#checkpoints.push((await session.checkpoint()).id);
        return;
      }
      case "compact": {
        const session = await this.#session(one.who);
        session.splice("messages", 0, session.messages.length, { role: "user", content: one.text });
        this.#checkpoints.push((await session.checkpoint()).id);
        return;
      }
      case "title":
        return void (await hold.sessions.update(SESSIONS[one.who] as string, { title: one.text }));
      case "rewind":
        return void (await (
          await this.#session(one.who)
        ).rewind(this.#checkpoints[one.at % this.#checkpoints.length] ?? "none"));
      case "fork":
        return void (await hold.sessions.fork(
          this.#checkpoints[one.at % this.#checkpoints.length] ?? "none",
          { id: SESSIONS[one.who] as string },
        ));
      case "prune":
        return void (await hold.checkpoints.prune(SESSIONS[one.who] as string, { keep: 1 }));
      case "delete": {
        const id = SESSIONS[one.who] as string;
        await this.#open.get(id)?.close({ discard: true });
        this.#open.delete(id);
        return void (await hold.sessions.delete(id));
      }
      case "gc":
        return void (await hold.gc());
      case "index":
        return void (await hold.sessions.index());
      case "rebuild":
        return void (await hold.sessions.index({ rebuild: true }));
      case "purge": {
        // As whoever redacts does it.
        const store = await openStore(this.#address);
        await store.index?.purge();
        return store.close();
      }
      case "reopen":
        return this.close();
      case "look":
        return this.#look(one.words);
    }
  }
}

/** Whether a store has an index at all. Those that have none have nothing to compare. */
async function isIndexed(address: string): Promise<boolean> {
  const store = await openStore(address);
  await store.close();
  return store.index !== undefined;
}

async function holds(
  address: string,
  commands: readonly Command[],
  meddle?: () => Promise<void>,
): Promise<void> {
  const world = new World(address, meddle);
  try {
    await world.run(commands);
  } finally {
    await world.close();
  }
}

const some = fc.array(command, { maxLength: 25, size: "max" });

/** Two who look at one store: what is in memory has one. */
const shared = stores.filter(({ traits }) => traits.shared);

describe.each(shared)("search under random commands: $name", ({ address, traits }) => {
  test("finds what there is, by whatever means", { timeout: 300_000 }, async () => {
    if (!(await isIndexed(address()))) return;
    await fc.assert(
      fc.asyncProperty(some, (commands) => holds(address(), commands)),
      { numRuns: traits.oneMachine ? RUNS : Math.ceil(RUNS / 4) },
    );
  });
});

/** A store that tells its index less than it should, seen by the same commands. */
describe.each([
  ["does not note what goes", "DELETE FROM unindexed"],
  [
    "says that no number was given again",
    "UPDATE unindexed SET ceiling = 1000000 WHERE branch IS NOT NULL",
  ],
])("the comparison sees a store that %s", (_, statement) => {
  test("in SQLite", { timeout: 300_000 }, async () => {
    const [sqlite] = everyStore.filter(({ name }) => name === "sqlite");
    const failing = fc.asyncProperty(some, async (commands) => {
      const place = (sqlite as (typeof stores)[number]).address();
      await (await openStore(place)).close();
      const db = openDriver(place);
      try {
        await holds(place, commands, async () => db.exec(statement));
      } finally {
        db.close();
      }
    });
    const { failed } = await fc.check(failing, { numRuns: 400, endOnFailure: true });
    expect(failed).toBe(true);
  });
});
