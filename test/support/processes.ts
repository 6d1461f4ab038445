/**
 * Processes on one store that can be killed: each has a Holdfast of its own, and what a killed one
 * still wants reaches nobody.
 */

import { Holdfast as Opened } from "../../src/holdfast.js";
import type { Clock, Holdfast, HoldfastError, ModelReply, ModelRequest } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import type { Store } from "../../src/store/port.js";
import { through } from "./failures/wrapped.js";

export interface ProcessOptions {
  readonly leaseMs?: number;
  readonly clock?: Clock;
  /** A session that it cannot read: damaged, say. */
  readonly unreadable?: string;
  /** A session that it dies of when it reads it. */
  readonly diesReading?: string;
  /** It takes every other process for dead. */
  readonly steals?: boolean;
  /** It dies at this write (counted from 1), before it is done or after. */
  readonly diesAt?: { readonly write: number; readonly done: boolean };
  /** Whether what it posts counts among its writes. */
  readonly countsPosts?: boolean;
}

export interface Process {
  readonly hold: Holdfast;
  readonly writes: () => number;
  /** Resolves when it has died by itself. */
  readonly died: Promise<void>;
  /** Ends it, as a kill does: others can see that it is dead. */
  kill(): void;
  /** It reaches nobody from here on, and others cannot tell whether it lives. */
  lose(): void;
}

const never = () => new Promise<never>(() => {});

export class Processes {
  readonly #store: Store;
  readonly #living = new Set<Holdfast>();

  private constructor(store: Store) {
    this.#store = store;
  }

  static async on(address: string): Promise<Processes> {
    return new Processes(await openStore(address));
  }

  start({
    leaseMs = 30_000,
    clock = { now: Date.now },
    steals,
    unreadable,
    diesReading,
    diesAt,
    countsPosts,
  }: ProcessOptions = {}): Process {
    const honest = thisMachine();
    const machine = steals ? { ...honest, isDead: () => true } : honest;
    let gone = false;
    let writes = 0;
    let tell = () => {};
    const died = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const lose = () => {
      gone = true;
      this.#living.delete(hold);
    };
    const kill = () => {
      lose();
      machine.leave();
      tell();
    };
    const store = through(this.#store, (name, call, args) => {
      if (name === "close") return Promise.resolve();
      if (name === "watch") return () => {};
      return (async () => {
        if (gone) return never();
        const isLook = name === "session" && args[1] === "end";
        if (isLook && args[0] === unreadable) throw new Error("damaged");
        if (isLook && args[0] === diesReading) kill();
        const isLast =
          (name === "apply" || (countsPosts === true && name === "inbox.post")) &&
          ++writes === diesAt?.write;
        if (isLast && !diesAt.done) kill();
        if (gone) return never();
        const answer = await call();
        if (isLast) kill();
        return gone ? never() : answer;
      })();
    });
    const hold: Holdfast = new Opened(store, machine, clock, leaseMs);
    this.#living.add(hold);
    return { hold, writes: () => writes, died, kill, lose };
  }

  async close(): Promise<void> {
    for (const hold of this.#living) await hold.close();
    await this.#store.close();
  }
}

/** A reply that asks for calls: `[name, input]` each. */
export const asks = (
  ...calls: readonly (readonly [name: string, input: unknown, id?: string])[]
): ModelReply => ({
  content: "",
  toolCalls: calls.map(([name, input, id], i) => ({
    callId: id ?? `${name}-${i}`,
    name,
    input: input as never,
  })),
});

export type Scripted =
  | string
  | ModelReply
  | ((request: ModelRequest) => string | ModelReply | Promise<string | ModelReply>);

/**
 * A model that says what stands in its script at that place of the transcript; past its end,
 * "done".
 */
export function script(...lines: readonly Scripted[]) {
  const requests: ModelRequest[] = [];
  const model = async (request: ModelRequest): Promise<ModelReply> => {
    requests.push(request);
    const line =
      lines[request.messages.filter(({ role }) => role === "assistant").length] ?? "done";
    const said = typeof line === "function" ? await line(request) : line;
    return typeof said === "string" ? { content: said } : said;
  };
  return Object.assign(model, { requests });
}

/** A door: what waits at it goes on when it is opened. */
export function door<T = void>() {
  let open: (value: T) => void = () => {};
  const opened = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

export const coded = (code: HoldfastError["code"]) => ({ code });
