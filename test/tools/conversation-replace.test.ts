/**
 * The tool conversation_save with `replace`: for clients that save a whole conversation, or edit a
 * part of it.
 */
import { afterEach, expect, test } from "vitest";
import { Holdfast as Hold } from "../../src/holdfast.js";
import { type Holdfast, HoldfastError, type JsonObject, open } from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import { scriptedModel } from "../../src/testing/index.js";
import { errorOf } from "../support/error-of.js";
import { wrapped } from "../support/failures/wrapped.js";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const hold of opened.splice(0)) await hold.close();
});

async function world() {
  const hold = await open("memory:");
  opened.push(hold);
  return { hold, ...client(hold) };
}

/** A client, and what it sees of the conversation. */
function client(hold: Holdfast, agent?: string) {
  const { conversation_save: save, conversation_load: load } =
    agent === undefined ? hold.tools() : hold.tools({ agent });
  const said = async (id = "talk") =>
    ((await load.execute({ id })).items as readonly { content: unknown }[]).map(
      ({ content }) => content,
    );
  const version = async (id = "talk") => (await load.execute({ id })).version as string;
  return { save: save.execute, load: load.execute, said, version };
}

const texts = (...given: readonly string[]) =>
  given.map((content) => ({ role: "user" as const, content }));

test("append, replace whole, replace a range, remove: under a key each is done once", async () => {
  const { save, load, said, version } = await world();
  await save({ id: "talk", messages: texts("one", "two", "three"), idempotencyKey: "1" });
  const { items } = await load({ id: "talk" });
  const ids = (items as readonly { id: string }[]).map(({ id }) => id);
  const removing = {
    id: "talk",
    replace: { version: await version(), from: ids[1] as string, count: 2 },
    idempotencyKey: "2",
  };
  const removed = await save(removing);
  expect(removed).toMatchObject({ count: 0, replaced: { removed: 2, added: 0, length: 1 } });
  expect(await save(removing)).toEqual(removed);
  const whole = {
    id: "talk",
    replace: { version: await version() },
    messages: texts("one", "2"),
    title: "T",
    idempotencyKey: "3",
  };
  expect(await save(whole)).toMatchObject({
    session: { title: "T" },
    replaced: { removed: 0, added: 1, length: 2 },
  });
  await save({ id: "talk", messages: texts("three"), idempotencyKey: "4" });
  // Asked for again after others have gone on, it is not done again.
  expect(await save(whole)).toMatchObject({ replaced: { removed: 0, added: 1, length: 2 } });
  expect(await said()).toEqual(["one", "2", "three"]);
  // A key stands for one call, of whichever kind: nothing is changed by another.
  const seen = await version();
  for (const other of [
    { ...whole, messages: texts("other") },
    { ...whole, idempotencyKey: "4", replace: { version: seen } },
    { id: "talk", messages: texts("other"), idempotencyKey: "3" },
  ])
    expect(await errorOf(() => save(other))).toMatchObject({ code: "CONFLICT" });
  expect(await version()).toBe(seen);
});

test("what was loaded may be saved again, and keeps what its provider said", async () => {
  const { hold, save, load } = await world();
  await hold
    .agent({
      name: "ann",
      model: scriptedModel([{ content: "Hello.", usage: { inputTokens: 7, outputTokens: 3 } }]),
    })
    .run("talk", "Hi.");
  const before = await load({ id: "talk" });
  const messages = before.items as unknown as Parameters<typeof save>[0]["messages"];
  const replace = { version: before.version as string };
  expect(await save({ id: "talk", replace, ...(messages && { messages }) })).toMatchObject({
    replaced: { removed: 0, added: 0 },
  });
  expect(await load({ id: "talk" })).toEqual(before);
  expect(JSON.stringify(before.items)).toContain('"reply"');
});

test("refused: a stale version, a wipe that was not said, a conversation that is not there, and another agent's", async () => {
  const { hold, save, said, version } = await world();
  await save({ id: "talk", agent: "ann", messages: texts("one") });
  const seen = await version();
  await save({ id: "talk", messages: texts("two") });
  expect(
    await errorOf(() => save({ id: "talk", replace: { version: seen }, messages: [] })),
  ).toMatchObject({ code: "CONFLICT" });
  const now = { version: await version() };
  expect(await errorOf(() => save({ id: "talk", replace: now }))).toMatchObject({
    code: "INVALID_OPTION",
    details: { path: "messages" },
  });
  expect(await errorOf(() => save({ id: "none", replace: now, messages: [] }))).toMatchObject({
    code: "NOT_FOUND",
  });
  expect(
    await errorOf(() => save({ id: "talk", agent: "bob", replace: now, messages: [] })),
  ).toMatchObject({ code: "CONFLICT" });
  const bob = client(hold, "bob");
  expect(await errorOf(() => bob.save({ id: "talk", replace: now, messages: [] }))).toMatchObject({
    code: "CONFLICT",
  });
  const ann = client(hold, "ann");
  expect(await ann.save({ id: "talk", replace: now, messages: texts("own") })).toMatchObject({
    replaced: { length: 1 },
  });
  expect(await said()).toEqual(["own"]);
});

test("an agent edits another conversation of its own, and not the one that it is at work in", async () => {
  const { hold, save, said, version } = await world();
  await save({ id: "notes", agent: "ann", messages: texts("wrong") });
  const call = (id: string, name: string, input: JsonObject) => ({
    content: "",
    toolCalls: [{ callId: id, name, input }],
  });
  const replace = { version: await version("notes") };
  const ann = hold.agent({
    name: "ann",
    model: scriptedModel([
      call("1", "conversation_save", { id: "notes", replace, messages: texts("right") }),
      call("2", "conversation_save", { id: "chat", replace, messages: [] }),
      "Done.",
    ]),
    tools: { ...hold.tools({ agent: "ann" }) },
  });
  expect(await ann.run("chat", "Mend your notes.")).toMatchObject({
    status: "completed",
    output: "Done.",
  });
  expect(await said("notes")).toEqual(["right"]);
  const { messages } = await hold.sessions.state("chat");
  expect(JSON.stringify(messages)).toContain("BAD_STATUS: You are at work in");
  expect(messages).toHaveLength(6);
});

test("interrupted between the messages and the title, the same call ends what was begun", async () => {
  let fails = false;
  const store = await openStore("memory:");
  const apply: typeof store.apply = (changes, docs) => {
    if (fails && changes.some(({ label }) => label !== undefined))
      throw new HoldfastError("UNREACHABLE", "The server is away.");
    return store.apply(changes, docs);
  };
  const hold = new Hold(wrapped(store, { apply }), thisMachine(), { now: Date.now }, 30_000);
  opened.push(hold);
  const { save, said, version } = client(hold);
  await save({ id: "talk", messages: texts("one") });
  const whole = {
    id: "talk",
    replace: { version: await version() },
    messages: texts("two"),
    title: "T",
    idempotencyKey: "k",
  };
  fails = true;
  expect(await errorOf(() => save(whole))).toMatchObject({ code: "UNREACHABLE" });
  fails = false;
  expect(await save(whole)).toMatchObject({
    session: { title: "T" },
    replaced: { removed: 1, added: 1, length: 1 },
  });
  expect(await said()).toEqual(["two"]);
});
