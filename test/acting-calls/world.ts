/**
 * A world in which an act can be counted: a ledger outside of Holdfast, a call that acts, and the
 * agent or program that makes it.
 */
import {
  agent,
  type Holdfast,
  HoldfastError,
  type ModelRequest,
  type Tool,
} from "../../src/index.js";
import { asks, door, type Process } from "../support/processes.js";

/** A kind of acting call. By hand a call always has a key of the caller's. */
export interface Kind {
  readonly mode: "once" | "keyed";
  readonly by: "loop" | "hand";
  /** In the loop: whether the tool has `key(input)`. */
  readonly named: boolean;
}

export const kinds: readonly Kind[] = (["once", "keyed"] as const).flatMap((mode) => [
  { mode, by: "hand", named: true },
  { mode, by: "loop", named: true },
  { mode, by: "loop", named: false },
]);

/** How far the first call came before anything else was done. */
export type Stage = "done" | "killed after the act" | "killed before the act";
export const stages: readonly Stage[] = ["done", "killed after the act", "killed before the act"];

/** What asking for the same act again came to. */
export type Outcome = "answered" | "waiting" | "in-doubt" | "refused";

export class World {
  readonly kind: Kind;
  /** An entry for each act. A provider that honours keys makes none for a key that it has seen. */
  readonly ledger: { readonly session: string; readonly key: string }[] = [];
  readonly #keys = new Set<string>();
  /** What a call does besides: it may never come back. */
  #stage: Stage = "done";
  readonly #inside = door();

  constructor(kind: Kind) {
    this.kind = kind;
  }

  #act(session: string, key: string): string | Promise<string> {
    if (this.#stage === "killed before the act") {
      this.#inside.open();
      return new Promise<string>(() => {});
    }
    if (this.kind.mode === "once" || !this.#keys.has(key)) this.ledger.push({ session, key });
    this.#keys.add(key);
    if (this.#stage === "done") return "paid";
    this.#inside.open();
    return new Promise<string>(() => {});
  }

  /** The agent that pays when it is told to. Its replies depend on the transcript alone. */
  clerk() {
    const { mode, named } = this.kind;
    const pay: Tool = {
      mode,
      ...(named && { key: () => "pay:ana" }),
      run: (_input, { key, session }) => this.#act(session.id, key),
    };
    const model = async ({ messages }: ModelRequest) => {
      const last = messages.findLastIndex(({ role }) => role === "user");
      const isPay = JSON.stringify(messages[last]?.content).includes("pay");
      const isPaid = messages.slice(last).some(({ role }) => role === "tool");
      return isPay && !isPaid ? asks(["pay", { to: "ana" }]) : { content: "done" };
    };
    return agent({ name: "clerk", model, tools: { pay } });
  }

  /** A session with a checkpoint before anything was done, and its id. */
  async prepare({ hold }: Process): Promise<string> {
    if (this.kind.by === "loop") {
      await hold.bind(this.clerk()).run("s", "hello", { key: "first" });
    } else {
      const session = await hold.session("s", { agent: "clerk" });
      session.append({ role: "user", content: "hello" });
      await session.checkpoint("before");
      await session.close();
    }
    const { items } = await hold.checkpoints.list("s");
    return items[0]?.id as string;
  }

  /** Asks for the act for the first time. Killed inside of it, the process never answers. */
  async begin(process: Process, stage: Stage): Promise<void> {
    this.#stage = stage;
    const acting = this.again(process.hold, "s");
    if (stage === "done") {
      const outcome = await acting;
      if (outcome !== "answered") throw new Error(`The first call is ${outcome}.`);
      return;
    }
    await this.#inside.opened;
    process.kill();
    this.#stage = "done";
  }

  /** Asks for the act in a session, for the first time or again. */
  async again(hold: Holdfast, id: string): Promise<Outcome> {
    try {
      return this.kind.by === "loop" ? await this.#inLoop(hold, id) : await this.#byHand(hold, id);
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #inLoop(hold: Holdfast, id: string): Promise<Outcome> {
    const { status } = await hold.bind(this.clerk()).run(id, "pay ana", { key: "second" });
    return status === "completed"
      ? "answered"
      : status === "waiting" || status === "in-doubt"
        ? status
        : "refused";
  }

  async #byHand(hold: Holdfast, id: string): Promise<Outcome> {
    const session = await hold.session(id, { waitMs: 2_000 });
    try {
      const { mode } = this.kind;
      await session.effect(
        "pay",
        { to: "ana" },
        { mode, key: "pay:ana", retry: { attempts: 1 } },
        (_input, { key }) => this.#act(id, key),
      );
      await session.checkpoint();
      return "answered";
    } finally {
      await session.close({ discard: true });
    }
  }
}

/** Refusals of which a caller is told. Anything else is a defect of its own. */
function outcomeOf(error: unknown): Outcome {
  const code = error instanceof HoldfastError ? error.code : undefined;
  if (code === "WAITING") return "waiting";
  if (code === "IN_DOUBT") return "in-doubt";
  if (
    code === "BAD_STATUS" ||
    code === "NOT_FOUND" ||
    code === "CONFLICT" ||
    code === "TURN_OPEN" ||
    code === "UNSUPPORTED"
  )
    return "refused";
  throw error;
}

/** Does something that may be refused, and answers whether it was done. */
export async function tried(run: () => Promise<unknown>): Promise<boolean> {
  try {
    await run();
    return true;
  } catch (error) {
    outcomeOf(error);
    return false;
  }
}
