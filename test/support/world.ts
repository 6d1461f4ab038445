/**
 * A store under random commands. Every world is given the same commands and keeps a log of what it
 * answered, in terms that do not depend on random ids: two worlds on two stores must keep the same
 * log. It also remembers what each checkpoint held when it was made.
 */
import fc from "fast-check";
import {
  type Checkpoint,
  type Holdfast,
  HoldfastError,
  type Json,
  open,
  type Session,
} from "../../src/index.js";
import { someScripts } from "./texts.js";

export type Command =
  | {
      readonly do: "append";
      readonly who: number;
      readonly texts: readonly string[];
      readonly big: boolean;
    }
  | { readonly do: "set"; readonly who: number; readonly key: string; readonly value: Json }
  | { readonly do: "unset"; readonly who: number; readonly key: string }
  | {
      readonly do: "splice";
      readonly who: number;
      readonly key: string;
      readonly start: number;
      readonly remove: number;
      readonly items: readonly string[];
    }
  | {
      readonly do: "save";
      readonly who: number;
      readonly keep: number;
      readonly texts: readonly string[];
      readonly state: Readonly<Record<string, Json>>;
    }
  | { readonly do: "checkpoint"; readonly who: number; readonly label: string }
  | { readonly do: "finish"; readonly who: number; readonly how: "complete" | "fail" | "halt" }
  | { readonly do: "fork"; readonly at: number; readonly id: number }
  | { readonly do: "rewind"; readonly who: number; readonly at: number }
  | { readonly do: "switch"; readonly who: number; readonly at: number }
  | { readonly do: "prune"; readonly who: number; readonly keep: number }
  | { readonly do: "remove"; readonly at: number }
  | { readonly do: "delete"; readonly who: number }
  | {
      readonly do: "update";
      readonly who: number;
      readonly title: string;
      readonly tags: readonly string[];
    }
  | { readonly do: "cancel"; readonly who: number }
  | { readonly do: "history"; readonly who: number }
  | {
      readonly do: "search";
      readonly words: string;
      readonly within: number | null;
      readonly tag: boolean;
    }
  | { readonly do: "gc" }
  | { readonly do: "reopen" };

const SESSIONS = ["a", "b", "c", "d"] as const;

const who = fc.nat(SESSIONS.length - 1);
const at = fc.nat(30);
const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.array(someScripts, { maxLength: 3 }).map((words) => words.join(" ")),
);
const key = fc.constantFrom("plan", "notes", "__proto__", "constructor", "10", "2");
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.array(text, { maxLength: 4 }),
  text,
) as fc.Arbitrary<never>;

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append" as const),
      who,
      texts: fc.array(text, { minLength: 1, maxLength: 3 }),
      big: fc.boolean(),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("checkpoint" as const), who, label: text }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("set" as const), who, key, value }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unset" as const), who, key }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant("splice" as const),
      who,
      key: fc.oneof(fc.constant("messages"), key),
      start: fc.nat(4),
      remove: fc.nat(3),
      items: fc.array(text, { maxLength: 3 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("save" as const),
      who,
      keep: fc.nat(6),
      texts: fc.array(text, { maxLength: 2 }),
      state: fc.dictionary(fc.constantFrom("plan", "notes"), value),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("finish" as const),
      who,
      how: fc.constantFrom("complete" as const, "fail" as const, "halt" as const),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("fork" as const), at, id: who }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("rewind" as const), who, at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("switch" as const), who, at }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("prune" as const), who, keep: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), at }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("delete" as const), who }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("update" as const),
      who,
      title: text,
      tags: fc.array(fc.constantFrom("x", "y"), { maxLength: 2 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("cancel" as const), who }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("history" as const), who }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("search" as const),
      words: fc.array(someScripts, { minLength: 1, maxLength: 2 }).map((words) => words.join(" ")),
      within: fc.option(who, { freq: 5 }),
      tag: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ do: "gc" } as const) },
  { weight: 3, arbitrary: fc.constant({ do: "reopen" } as const) },
);

/** Work to be done in a world. */
export const commands = fc.array(command, { maxLength: 40, size: "max" });

interface Remembered {
  readonly id: string;
  readonly holds: unknown;
}

export class World {
  readonly log: unknown[] = [];
  readonly #address: string;
  readonly #reopens: boolean;
  #hold: Holdfast | undefined;
  readonly #open = new Map<string, Session>();
  readonly #checkpoints: Remembered[] = [];
  readonly #names = new Map<string, string>();
  #time = 1_700_000_000_000;

  constructor(address: string, reopens: boolean) {
    this.#address = address;
    this.#reopens = reopens;
  }

  async run(commands: readonly Command[]): Promise<void> {
    for (const command of commands) {
      this.#time += 1_000;
      try {
        this.log.push([command.do, this.#plain(await this.#one(command))]);
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        this.log.push([
          command.do,
          error.code,
          this.#plain(error.message.replace(/process \d+ for \d+ ms/, "somebody")),
        ]);
      }
    }
    await this.#closeSessions();
    this.log.push(["end", this.#plain(await this.dump())]);
  }

  /**
   * What a caller can see, and whether each checkpoint that is left still holds what it held when
   * it was made.
   */
  async dump(): Promise<unknown> {
    const hold = await this.store();
    const verdict = await hold.verify();
    const { items: sessions } = await hold.sessions.list({ limit: 100 });
    const seen = [];
    for (const session of sessions) {
      const lists = {
        past: (await hold.checkpoints.list(session.id, { limit: 1000 })).items,
        all: (await hold.checkpoints.list(session.id, { limit: 1000, branches: "all" })).items,
        latest: await hold.checkpoints.latest(session.id),
      };
      seen.push({ session, ...lists });
    }
    const left = [];
    for (const { id, holds } of this.#checkpoints) {
      if ((await hold.checkpoints.get(id)) === undefined) continue;
      const { messages, state, status, checkpoint } = await hold.checkpoints.state(id);
      left.push({
        checkpoint,
        same: JSON.stringify(this.#plain({ messages, state, status })) === JSON.stringify(holds),
      });
    }
    return { verdict, seen, left, stats: await hold.stats() };
  }

  async close(): Promise<void> {
    await this.#hold?.close();
  }

  /** The store it works on. */
  async store(): Promise<Holdfast> {
    this.#hold ??= await open(this.#address, { clock: { now: () => this.#time } });
    return this.#hold;
  }

  async #session(who: number): Promise<Session> {
    const id = SESSIONS[who] as string;
    const known = this.#open.get(id);
    if (known) return known;
    const session = await (await this.store()).session(id);
    this.#open.set(id, session);
    return session;
  }

  async #closeSessions(): Promise<void> {
    for (const session of this.#open.values()) await session.close({ discard: true });
    this.#open.clear();
  }

  async #one(command: Command): Promise<unknown> {
    const hold = await this.store();
    switch (command.do) {
      case "append": {
        const session = await this.#session(command.who);
        session.append(
          ...command.texts.map((text) => ({
            role: "user" as const,
            content: command.big ? text.padEnd(9_000, "+") : text,
          })),
        );
        return this.#seen(session);
      }
      case "set": {
        const session = await this.#session(command.who);
        session.set(command.key, command.value);
        return this.#seen(session);
      }
      case "unset": {
        const session = await this.#session(command.who);
        session.unset(command.key);
        return this.#seen(session);
      }
      case "splice": {
        const session = await this.#session(command.who);
        const items =
          command.key === "messages"
            ? command.items.map((content) => ({ role: "assistant" as const, content }))
            : command.items;
        session.splice(command.key, command.start, command.remove, ...items);
        return this.#seen(session);
      }
      case "save": {
        const session = await this.#session(command.who);
        const messages = [
          ...session.messages.slice(0, command.keep),
          ...command.texts.map((content) => ({ role: "tool" as const, content })),
        ];
        session.save({ messages, state: command.state });
        return this.#seen(session);
      }
      case "checkpoint": {
        const session = await this.#session(command.who);
        return this.#remember(await session.checkpoint(command.label), session);
      }
      case "finish": {
        const session = await this.#session(command.who);
        await (command.how === "complete"
          ? session.complete({ done: true })
          : session[command.how]("because"));
        return session.head && this.#remember(session.head, session);
      }
      case "fork":
        return hold.sessions.fork(this.#at(command.at), { id: SESSIONS[command.id] as string });
      case "rewind": {
        const session = await this.#session(command.who);
        await session.rewind(this.#at(command.at));
        return { ...this.#seen(session), head: session.head };
      }
      case "switch": {
        const session = await this.#session(command.who);
        await session.switchBranch(this.#at(command.at));
        return { ...this.#seen(session), head: session.head };
      }
      case "prune":
        return hold.checkpoints.prune(SESSIONS[command.who] as string, { keep: command.keep });
      case "remove":
        return hold.checkpoints.delete(this.#at(command.at));
      case "delete": {
        const id = SESSIONS[command.who] as string;
        const answer = await hold.sessions.delete(id);
        await this.#open.get(id)?.close({ discard: true });
        this.#open.delete(id);
        return answer;
      }
      case "update":
        return hold.sessions.update(SESSIONS[command.who] as string, {
          title: command.title,
          tags: command.tags,
        });
      case "cancel": {
        const id = SESSIONS[command.who] as string;
        await this.#open.get(id)?.close({ discard: true });
        this.#open.delete(id);
        return hold.sessions.cancel(id, "enough");
      }
      case "history":
        return (await this.#session(command.who)).history({ limit: 7 });
      case "search": {
        const { words, within, tag } = command;
        const filter = {
          ...(within === null ? undefined : { sessionId: SESSIONS[within] as string }),
          ...(tag && { tag: "x" }),
          limit: 1_000,
        };
        let { items, ...page } = await hold.sessions.search(words, filter);
        // A slow machine does not take in all there is in the time that a search gives it.
        for (let tries = 0; page.behind !== undefined && tries < 50; tries++) {
          await hold.sessions.index();
          ({ items, ...page } = await hold.sessions.search(words, filter));
        }
        return {
          ...page,
          items: items.map(({ score: _score, ...item }) => JSON.stringify(item)).toSorted(),
        };
      }
      case "gc":
        return void (await hold.gc());
      case "reopen":
        await this.#closeSessions();
        if (this.#reopens) {
          await this.#hold?.close();
          this.#hold = undefined;
        }
        return undefined;
    }
  }

  #seen({ messages, state, status }: Session): Record<string, unknown> {
    return { messages, state, status };
  }

  #remember(checkpoint: Checkpoint, session: Session): Checkpoint {
    this.#checkpoints.push({ id: checkpoint.id, holds: this.#plain(this.#seen(session)) });
    return checkpoint;
  }

  #at(n: number): string {
    return (
      this.#checkpoints.at(n % Math.max(1, this.#checkpoints.length))?.id ?? "0000000000000000-1"
    );
  }

  /** Line ids are random and digests salted: they are told by the order in which they were met. */
  #plain(value: unknown): unknown {
    if (value === undefined) return undefined;
    const text = JSON.stringify(value, (key, part) => (key === "digest" ? "…" : part)) as string;
    return JSON.parse(
      text.replace(/(?<=["\s])[0-9a-hjkmnp-tv-z]{16}(?=-\d+[\\"\s.:])/g, (branch) => {
        if (!this.#names.has(branch)) this.#names.set(branch, `line${this.#names.size}`);
        return this.#names.get(branch) as string;
      }),
    );
  }
}
