/**
 * The name of a scope that is given and undefined: a program that lost a name must not reach more
 * than it meant.
 */
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open, transcriptVersion } from "../../src/index.js";
import { coded } from "../support/processes.js";

let hold: Holdfast | undefined;
afterEach(() => hold?.close());

async function collect(rows: AsyncIterable<string>): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const row of rows) all.push(row);
  return all;
}
const lost = (name: string): never => ({ [name]: undefined }) as never;

const calls: Readonly<Record<string, (store: Holdfast) => unknown>> = {
  "export({ session })": (store) => collect(store.export(lost("session"))),
  "export({ agent })": (store) => collect(store.export(lost("agent"))),
  "export({ checkpoint })": (store) => collect(store.export(lost("checkpoint"))),
  "sessions.delete(id, { agent })": (store) => store.sessions.delete("a", lost("agent")),
  "sessions.delete(id, { agent, dryRun })": (store) =>
    store.sessions.delete("a", { agent: undefined, dryRun: true } as never),
  "retention.set(policy, { agent })": (store) => store.retention.set({ keep: 1 }, lost("agent")),
  "retention.get({ agent })": (store) => store.retention.get(lost("agent")),
  "retention.clear({ agent })": (store) => store.retention.clear(lost("agent")),
  "retention.apply({ agent })": (store) => store.retention.apply(lost("agent")),
  "sessions.replace(id, [], { from })": async (store) =>
    store.sessions.replace("a", [], {
      version: transcriptVersion((await store.sessions.state("a")).messages),
      from: undefined,
    } as never),
  "conversation_save({ replace: { from } })": async (store) => {
    const { version } = await store.tools().conversation_load.execute({ id: "a" });
    return store.tools().conversation_save.execute({
      id: "a",
      messages: [],
      replace: { version, from: undefined } as never,
    });
  },
  "tools({ agent })": (store) => store.tools(lost("agent")),
};

test.each(Object.entries(calls))("%s is refused, and nothing is changed", async (_name, call) => {
  hold = await open("memory:");
  const session = await hold.session("a", { agent: "ann" });
  session.append({ role: "user", content: "stays" });
  await session.checkpoint();
  await session.close();
  const before = [await hold.stats(), await hold.retention.get()];
  await expect((async () => call(hold as Holdfast))()).rejects.toMatchObject({
    ...coded("INVALID_OPTION"),
    message: expect.stringMatching(
      /^(session|agent|checkpoint|from): it is undefined\. Give a name, or leave it out to mean all\.$/,
    ),
  });
  expect([await hold.stats(), await hold.retention.get()]).toEqual(before);
});
