/** One process, two holders: each takes the other for dead. The shortest form of a kill. */
import { Holdfast } from "../../src/holdfast.js";
import { agent, type ModelReply, type RunResult } from "../../src/index.js";
import type { Store } from "../../src/store/index.js";
import { thisMachine } from "../../src/store/machine.js";
import { door } from "./processes.js";

export type Tools = Record<string, object>;
interface Asked {
  readonly name: string;
  readonly input?: object;
}

export const holdOf = (store: Store) =>
  new Holdfast(store, { ...thisMachine(), isDead: () => true }, { now: Date.now }, 30_000);

export const clerk = (store: Store, tools: Tools, ...calls: readonly Asked[]) =>
  holdOf(store).bind(asking("clerk", tools, ...calls));

/** Asks for these calls once, and ends when they are answered. */
export function asking(name: string, tools: Tools, ...calls: readonly Asked[]) {
  const toolCalls = calls.map(({ name, input = {} }, i) => ({
    callId: `c${i}`,
    name,
    input: input as never,
  }));
  const model = async ({
    messages,
  }: {
    readonly messages: readonly { readonly role: string }[];
  }): Promise<ModelReply> =>
    messages.some(({ role }) => role === "assistant")
      ? { content: "done" }
      : { content: "", toolCalls };
  return agent({ name, model, tools: tools as never });
}

export const never = () => new Promise(() => {});
/** A tool that is entered and never answers, and a promise of when it is. */
export function entered(mode: string, more: object = {}) {
  const inside = door();
  const run = () => {
    inside.open();
    return never();
  };
  return { inside: inside.opened, tool: { mode, run, ...more } };
}
export const inDoubt = (result: RunResult) =>
  result.status === "in-doubt" ? result.pending.map(({ name }) => name) : result.status;
