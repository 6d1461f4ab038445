/**
 * Redaction at random, among work, bases, prunes, deletes, forks, rewinds and gc: every checkpoint
 * that is still listed loads what was there when it was taken, but for the text; everything
 * verifies; and nothing of the text is left in the files.
 */
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { type Holdfast, type Json, open, type Session } from "../../../src/index.js";
import { filesWith } from "../../support/bytes.js";
import { runs } from "../../support/runs.js";
import { stores } from "../../support/stores.js";

const { slackBytes } = baseTuning;
beforeEach(() => {
  baseTuning.slackBytes = 300;
});
afterEach(() => {
  baseTuning.slackBytes = slackBytes;
});

const WORDS = ["Marigold-77120-Sorrel", 'Quo"ted\n-88231-Línea', "Hollis-Vane-90412"] as const;

type Command =
  | {
      readonly do: "say" | "set" | "list" | "act";
      readonly word: number;
      readonly bytes: number;
      readonly times: number;
    }
  | { readonly do: "forget"; readonly start: number; readonly count: number }
  | { readonly do: "halt"; readonly word: number }
  | { readonly do: "gc" | "reopen" }
  | { readonly do: "prune"; readonly keep: number }
  | { readonly do: "delete" | "rewind" | "fork" | "remove" | "message"; readonly which: number }
  | { readonly do: "redact"; readonly word: number };

const word = fc.nat({ max: WORDS.length });
const bytes = fc.constantFrom(10, 10, 200, 9_000);
const commands: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constantFrom("say" as const, "set" as const, "list" as const, "act" as const),
      word,
      bytes,
      times: fc.integer({ min: 1, max: 4 }),
    }),
  },
  fc.record({
    do: fc.constant("forget" as const),
    start: fc.nat({ max: 5 }),
    count: fc.nat({ max: 3 }),
  }),
  fc.record({ do: fc.constant("halt" as const), word }),
  fc.record({ do: fc.constantFrom("gc" as const, "reopen" as const) }),
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("prune" as const), keep: fc.nat({ max: 4 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "delete" as const,
        "rewind" as const,
        "fork" as const,
        "remove" as const,
        "message" as const,
      ),
      which: fc.nat({ max: 20 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant("redact" as const),
      word: fc.nat({ max: WORDS.length - 1 }),
    }),
  },
);

const shown = ({ messages, state, status }: Pick<Session, "messages" | "state" | "status">) => ({
  said: messages.map(({ id, content }) => [id, content]),
  state,
  status,
});

const without = (value: unknown, text: string): unknown =>
  JSON.parse(JSON.stringify(value).replaceAll(JSON.stringify(text).slice(1, -1), "[redacted]"));

class Run {
  readonly #hold: Holdfast;
  readonly #seen = new Map<string, unknown>();
  #session: Session;
  #count = 0;

  constructor(hold: Holdfast, session: Session) {
    this.#hold = hold;
    this.#session = session;
  }

  #text(command: { readonly word: number; readonly bytes: number }): string {
    return `${this.#count++} ${WORDS[command.word] ?? "plain"} `.padEnd(command.bytes, "x");
  }

  async #save(label?: string): Promise<void> {
    const { id } = await this.#session.checkpoint(label);
    this.#seen.set(id, shown(this.#session));
  }

  async do(command: Command): Promise<void> {
    const session = this.#session;
    switch (command.do) {
      case "say":
        for (let i = 0; i < command.times; i++)
          session.append({ role: "user", content: this.#text(command) });
        return this.#save(WORDS[command.word]);
      case "set":
        for (let i = 0; i < command.times; i++) {
          session.set(i % 2 === 0 ? "a" : "b", { deep: [this.#text(command)] });
          await this.#save();
        }
        return;
      case "list":
        if (session.state["list"] === undefined) session.set("list", [this.#text(command)]);
        else
          session.splice(
            "list",
            Math.min(1, (session.state["list"] as Json[]).length),
            0,
            this.#text(command),
          );
        return this.#save();
      case "act":
        await session.effect(
          "act",
          { n: this.#text(command) },
          { mode: "once", key: `${this.#count++}` },
          async ({ n }) => n,
        );
        return this.#save();
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
        await session.halt(`enough of ${WORDS[command.word] ?? "it"}`);
        this.#seen.set(session.head?.id ?? "", shown(session));
        return;
      case "prune":
        await this.#hold.checkpoints.prune(session.id, { keep: command.keep });
        return;
      case "gc":
        await this.#hold.gc();
        return;
      case "reopen":
        return this.#reopen(shown(session));
      case "redact":
        return this.#redact(WORDS[command.word] as string);
      case "message":
        return this.#redactMessage(command.which);
      case "remove":
        return this.#remove(command.which);
      default:
        return this.#at(command.do, command.which);
    }
  }

  async #reopen(before: unknown): Promise<void> {
    await this.#session.close();
    this.#session = await this.#hold.session(this.#session.id);
    expect(shown(this.#session)).toEqual(before);
  }

  /** Takes the text out of every session: a fork that is redacted changes what the others share. */
  async #redact(text: string): Promise<void> {
    const before = without(shown(this.#session), text);
    await this.#session.close();
    for (const { id } of (await this.#hold.sessions.list({ limit: 1_000 })).items) {
      const dry = await this.#hold.sessions.redact(id, text, { dryRun: true });
      const {
        keptBlobs: _blobs,
        left: _left,
        ...report
      } = await this.#hold.sessions.redact(id, text);
      expect({ ...dry, ...report }).toEqual(dry);
      expect((await this.#hold.sessions.redact(id, text, { dryRun: true })).records).toBe(0);
    }
    for (const [id, seen] of this.#seen) this.#seen.set(id, without(seen, text));
    this.#session = await this.#hold.session(this.#session.id);
    expect(shown(this.#session)).toEqual(before);
  }

  async #redactMessage(which: number): Promise<void> {
    const message = this.#session.messages[which % Math.max(1, this.#session.messages.length)];
    if (message === undefined) return;
    await this.#session.close();
    await this.#hold.sessions.redact(this.#session.id, { message: message.id });
    for (const [id, seen] of this.#seen) {
      const { said, ...rest } = seen as ReturnType<typeof shown>;
      this.#seen.set(id, {
        ...rest,
        said: said.map(([at, content]) => [at, at === message.id ? "[redacted]" : content]),
      });
    }
    this.#session = await this.#hold.session(this.#session.id);
  }

  /** Deletes another session: what forks share with it stays. */
  async #remove(which: number): Promise<void> {
    const others = (await this.#hold.sessions.list({ limit: 1_000 })).items.filter(
      ({ id }) => id !== this.#session.id,
    );
    const chosen = others[which % Math.max(1, others.length)];
    if (chosen !== undefined) await this.#hold.sessions.delete(chosen.id);
  }

  async #at(what: "delete" | "rewind" | "fork", which: number): Promise<void> {
    const { items } = await this.#hold.checkpoints.list(this.#session.id, { limit: 1_000 });
    const id = items[which % Math.max(1, items.length)]?.id;
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

  async check(): Promise<void> {
    for (const { id: session } of (await this.#hold.sessions.list({ limit: 1_000 })).items) {
      for (const { id } of (
        await this.#hold.checkpoints.list(session, { limit: 1_000, branches: "all" })
      ).items)
        expect(shown(await this.#hold.checkpoints.state(id))).toEqual(this.#seen.get(id));
    }
  }

  /**
   * In the end everything goes. What belongs to nobody any more must be freed first: it is no
   * session's to redact.
   */
  async end(files: ((text: string) => readonly string[]) | undefined): Promise<void> {
    await this.do({ do: "gc" });
    for (const text of WORDS) await this.#redact(text);
    await this.check();
    await this.#session.close();
    expect((await this.#hold.verify()).findings).toEqual([]);
    for (const text of WORDS) expect(files?.(text) ?? []).toEqual([]);
  }
}

const RUNS = runs(4, 20);

test.each(stores)(
  "whatever is redacted, every place loads: $name",
  { timeout: 120_000 + RUNS * 2_000 },
  async ({ name, address, traits }) => {
    const isOnDisk = name === "sqlite" || name === "dir";
    await fc.assert(
      fc.asyncProperty(
        fc.array(commands, { minLength: 1, maxLength: 20, size: "max" }),
        async (all) => {
          const at = address();
          const hold = await open(at);
          try {
            const run = new Run(hold, await hold.session("a"));
            for (const command of all) await run.do(command);
            await run.check();
            await run.end(isOnDisk ? (text) => filesWith(at, text) : undefined);
          } finally {
            await hold.close();
          }
        },
      ),
      { numRuns: name === "memory" ? RUNS * 4 : traits.oneMachine ? RUNS : Math.ceil(RUNS / 4) },
    );
  },
);
