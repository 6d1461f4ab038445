/** The hook: nothing is stored that it did not see, and a live run sees what a resumed one will. */
import { describe, expect, test } from "vitest";
import { type RedactionPlace } from "../../../src/core/redaction/redact-text.js";
import { type Holdfast, open, partsOf, redactions } from "../../../src/index.js";
import { filesWith } from "../../support/bytes.js";
import { asks, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const SECRET = "Thessaly-Brandt-40771";
const redact = (text: string) => text.replaceAll(SECRET, "[x]");

/** Says it everywhere a program can. */
async function tellAll(hold: Holdfast, made: unknown[]): Promise<void> {
  const session = await hold.session("a", {
    title: SECRET,
    tags: [`t ${SECRET}`],
    metadata: { [SECRET]: [SECRET] },
  });
  session.append({ role: "user", content: `I am ${SECRET}`, metadata: { x: SECRET } });
  session.append({
    role: "assistant",
    provider: { p: { sig: SECRET } },
    content: [
      { type: "text", text: SECRET },
      { type: "tool-call", callId: "c", name: "t", input: { who: SECRET } },
      { type: "tool-result", callId: "c", outcome: "ok", output: { [SECRET]: SECRET } },
      { type: "file", mediaType: "text/plain", name: SECRET, data: { text: SECRET } },
      { type: "opaque", format: "f", value: [SECRET] },
    ],
  });
  session.splice("messages", 0, 0, { role: "system", content: SECRET });
  session.set("k", { deep: [SECRET] });
  session.set("list", ["a"]);
  session.splice("list", 1, 0, SECRET);
  session.save({ state: { ...session.state, more: SECRET } });
  await session.checkpoint({ label: SECRET, description: SECRET, metadata: { [SECRET]: SECRET } });
  made.push(
    await session.effect("act", { who: SECRET }, { mode: "once", key: "k" }, async ({ who }) => [
      who,
      SECRET,
    ]),
  );
  made.push(
    await session.effect("look", { who: SECRET }, { mode: "repeatable" }, async ({ who }) => [
      who,
      SECRET,
    ]),
  );
  made.push(await session.model(async () => ({ said: SECRET })));
  await session.halt(`why: ${SECRET}`);
  await session.close();
  await hold.sessions.update("a", {
    title: `again ${SECRET}`,
    tags: [SECRET],
    metadata: { y: SECRET },
  });
  await hold.sessions.signal("a", "s", { v: SECRET });
  const done = await hold.session("done");
  await done.complete({ out: SECRET });
  await done.close();

  const bot = hold.agent({
    name: "bot",
    system: `You know ${SECRET}.`,
    model: script(
      asks(["ask", { q: SECRET }], ["look", { q: SECRET }], ["fails", {}]),
      `It is ${SECRET}`,
    ),
    tools: {
      ask: {
        mode: "once",
        approval: true,
        run: async ({ q }: { q: string }, context) => (
          made.push(q), context.set("s", SECRET), { a: SECRET }
        ),
      },
      look: { mode: "repeatable", run: async ({ q }: { q: string }) => `${q} ${SECRET}` },
      fails: {
        mode: "repeatable",
        run: async () => {
          throw new Error(`no ${SECRET}`);
        },
      },
    },
  });
  const turn = await bot.submit("b", `find ${SECRET}`, { key: "t", title: SECRET });
  await hold.worker({ agents: [bot] }).drain({ maxMs: 10_000 });
  const [waiting] = (await hold.effects.list({ status: "waiting" })).items;
  await hold.effects.approve(waiting?.effectId ?? "", {
    by: SECRET,
    note: SECRET,
    input: { q: `now ${SECRET}` },
  });
  made.push(await bot.run("b", `find ${SECRET}`, { key: "t" }));
  made.push(await turn.result({ timeoutMs: 5_000 }));
  // The same input under the same key is the same turn, though what is stored is another text.
  expect(await bot.run("b", `find ${SECRET}`, { key: "t" })).toMatchObject({
    status: "completed",
    replayed: true,
  });
  await hold.sessions.cancel("b", `enough of ${SECRET}`);
  await bot.submit("c", `later ${SECRET}`, { atMs: Date.now() + 3_600_000 });
}

describe.each(stores)("the redaction hook on $name", ({ name, address }) => {
  const isOnDisk = name === "sqlite" || name === "dir";

  test("it sees every text before it is stored, and what it gave is what everybody sees", async () => {
    const at = address();
    const hold = await open(at, { redact });
    const made: unknown[] = [];
    await tellAll(hold, made);
    expect(JSON.stringify(made)).not.toContain(SECRET);
    expect(made.slice(0, 3)).toEqual([["[x]", "[x]"], ["[x]", "[x]"], { said: "[x]" }]);
    const live = await hold.session("a");
    const seen = JSON.stringify([
      live.messages,
      live.state,
      live.reason,
      live.head,
      await hold.sessions.list({}),
    ]);
    expect(seen).not.toContain(SECRET);
    await live.close();
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
    if (isOnDisk) expect(filesWith(at, SECRET)).toEqual([]);
  });

  test("negative control: without it, all of that is there", async () => {
    const at = address();
    const hold = await open(at);
    const made: unknown[] = [];
    await tellAll(hold, made);
    expect(JSON.stringify(made)).toContain(SECRET);
    if (isOnDisk) expect(filesWith(at, SECRET)).not.toEqual([]);
    await hold.close();
  });
});

describe("the hook", () => {
  test("is told what a text is", async () => {
    const places = new Map<string, Set<string>>();
    const note = (text: string, where: RedactionPlace) => {
      if (text.includes(SECRET)) {
        const { in: what, field: _field, ...rest } = where;
        places.set(what, (places.get(what) ?? new Set()).add(JSON.stringify(rest)));
      }
      return text;
    };
    const hold = await open("memory:", { redact: note });
    await tellAll(hold, []);
    await hold.close();
    const told = Object.fromEntries(
      [...places].map(([what, rests]) => [what, [...rests].toSorted()]),
    );
    expect(told).toEqual({
      session: ["{}"],
      message: ['{"role":"assistant"}', '{"role":"system"}', '{"role":"user"}'],
      "tool-input": ['{"name":"act"}', '{"name":"ask"}', '{"name":"look"}', '{"name":"t"}'],
      "tool-output": [
        '{"name":"act"}',
        '{"name":"ask"}',
        '{"name":"fails"}',
        '{"name":"look"}',
        '{"name":"model"}',
        "{}",
      ],
      state: ['{"key":"k"}', '{"key":"list"}', '{"key":"more"}', '{"key":"s"}'],
      checkpoint: ["{}"],
      signal: ['{"name":"s"}'],
      output: ["{}"],
      reason: ["{}"],
      note: ["{}"],
      system: ["{}"],
      agent: ["{}"],
    });
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("oops");
      },
    ],
    ["gives no string", () => undefined as never],
    ["gives half a character", () => "\ud800"],
  ])("that %s: a typed error, and nothing is staged", async (_does, broken) => {
    let isBroken = false;
    const hold = await open("memory:", { redact: (text) => (isBroken ? broken() : text) });
    const session = await hold.session("a");
    session.append({ role: "user", content: "before" });
    const { id } = await session.checkpoint();
    isBroken = true;
    const code = expect.objectContaining({ code: "INVALID_OPTION", details: { path: "redact" } });
    expect(() => session.append({ role: "user", content: "x" })).toThrow(code);
    expect(() => session.set("k", "x")).toThrow(code);
    await expect(session.checkpoint("label")).rejects.toEqual(code);
    await expect(session.fail("why")).rejects.toEqual(code);
    await expect(
      session.effect("t", { a: "x" }, { mode: "once", key: "k" }, async () => 1),
    ).rejects.toEqual(code);
    await expect(hold.sessions.signal("a", "s", "x")).rejects.toEqual(code);
    await expect(hold.sessions.update("a", { title: "x" })).rejects.toEqual(code);
    isBroken = false;
    expect([session.messages.length, session.state, session.head?.id]).toEqual([1, {}, id]);
    // A call that was made is not made again because its output could not be redacted.
    let times = 0;
    const made = session.effect("t", {}, { mode: "once", key: "k2" }, async () => {
      times += 1;
      isBroken = true;
      return "result";
    });
    await expect(made).rejects.toThrow();
    isBroken = false;
    await session
      .effect("t", {}, { mode: "once", key: "k2" }, async () => (times += 1))
      .catch(() => {});
    expect(times).toBe(1);
    await session.close({ discard: true });
    await hold.close();
  });

  test("a function is needed", async () => {
    await expect(open("memory:", { redact: "x" as never })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });

  test("the ready set leaves inputs of calls alone: a tool is run with what the model said", async () => {
    const given: unknown[] = [];
    const run = async (redactsInputs: boolean) => {
      const hold = await open("memory:", { redact: redactions({ toolInputs: redactsInputs }) });
      const bot = hold.agent({
        name: "bot",
        model: script(asks(["mail", { to: "bob@example.com" }]), "done"),
        tools: {
          mail: {
            mode: "once",
            run: async ({ to }: { to: string }) => (given.push(to), `sent to ${to}`),
          },
        },
      });
      await bot.run("a", "write to bob@example.com");
      const session = await hold.session("a");
      const parts = session.messages.flatMap((message) => partsOf(message));
      await hold.close();
      return parts.map((part) =>
        part.type === "tool-call"
          ? part.input
          : part.type === "tool-result"
            ? part.output
            : "text" in part && part.text,
      );
    };
    expect(await run(false)).toEqual([
      "write to [email]",
      { to: "bob@example.com" },
      "sent to [email]",
      "done",
    ]);
    expect(await run(true)).toEqual([
      "write to [email]",
      { to: "[email]" },
      "sent to [email]",
      "done",
    ]);
    expect(given).toEqual(["bob@example.com", "[email]"]);
  });

  test("a save of the same whole state changes nothing, though what is stored differs from what is given", async () => {
    const hold = await open("memory:", { redact });
    const session = await hold.session("a");
    const whole = {
      messages: [{ role: "user" as const, content: SECRET, id: "1" }],
      state: { k: SECRET, list: [SECRET, "b"] },
    };
    session.save(whole);
    const { seq } = await session.checkpoint();
    session.save(whole);
    session.append(whole.messages[0] as never);
    expect((await session.checkpoint()).seq).toBe(seq + 1);
    await hold.close();
  });
});

test("a hook does not reach the fields of a record, and may leave nothing of a text", async () => {
  const hold = await open("memory:", {
    redact: (text) =>
      /secret/.test(text) ? "" : text.replace(/state|metadata|version|createdAt|system/g, "x"),
  });
  const saved = await hold.agents.save({
    id: "ann",
    system: "a secret",
    state: { state: "state" },
    metadata: { k: 1 },
  });
  expect(saved).toMatchObject({ version: 1, system: "", state: { x: "x" }, metadata: { k: 1 } });
  expect(await hold.agents.get("ann")).toMatchObject(saved);
  await hold
    .agent({ name: "bob", system: "the secret", model: async () => ({ content: "ok" }) })
    .run("s", "hi");
  expect(JSON.stringify(await hold.agents.get("bob"))).not.toContain("secret");
  expect(await hold.agents.snapshot("ann", { metadata: { metadata: 1 } })).toMatchObject({
    metadata: { x: 1 },
  });
  await hold.close();
});

test.each(stores)("agents and snapshots pass the hook, too: $name", async ({ address }) => {
  const hold = await open(address(), { redact: (text) => text.replaceAll("hunter2", "***") });
  try {
    const saved = await hold.agents.save({
      id: "ann",
      system: "It is hunter2.",
      state: { deep: ["hunter2"] },
      metadata: { hunter2: 1 },
    });
    expect(JSON.stringify(saved)).not.toContain("hunter2");
    expect(await hold.agents.get("ann")).toMatchObject({
      system: "It is ***.",
      state: { deep: ["***"] },
      metadata: { "***": 1 },
    });
    const snap = await hold.agents.snapshot("ann", {
      name: "before hunter2",
      metadata: { why: "hunter2" },
    });
    expect(snap).toMatchObject({ name: "before ***", metadata: { why: "***" } });
    await hold
      .agent({ name: "bob", system: "Say hunter2.", model: async () => ({ content: "ok" }) })
      .run("s", "hi");
    expect((await hold.agents.get("bob"))?.system).toBe("Say ***.");
  } finally {
    await hold.close();
  }
});
