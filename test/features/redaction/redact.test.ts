/** `sessions.redact` on every store: the text is nowhere, and everything else is what it was. */
import { describe, expect, test } from "vitest";
import {
  type Holdfast,
  HoldfastError,
  type Message,
  open,
  redactions,
  type Session,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { filesWith } from "../../support/bytes.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";
import { holdOf } from "../../support/two-holders.js";

const SECRET = 'Zoë "Quill" O’Hara-7741\nof the Meridian Lighthouse';
const BIG = `${"lorem ipsum dolor ".repeat(600)}${SECRET}${" sit amet".repeat(100)}`;
const file = (text: string | Uint8Array) =>
  ({
    type: "file",
    mediaType: "text/plain",
    data: { bytes: typeof text === "string" ? Buffer.from(text) : text },
  }) as const;

/** A session that has said it everywhere. */
async function tell(hold: Holdfast): Promise<Session> {
  const session = await hold.session("a", {
    title: `about ${SECRET}`,
    tags: ["plain"],
    metadata: { who: { [SECRET]: [SECRET] } },
  });
  session.append(
    { role: "user", content: `I am ${SECRET}.` },
    { role: "assistant", content: BIG, metadata: { seen: SECRET } },
  );
  session.append({
    role: "tool",
    content: [
      {
        type: "tool-result",
        callId: "1",
        outcome: "ok",
        output: [file(`bytes of ${SECRET}`), { deep: { [SECRET]: SECRET } }] as never,
      },
      file(Buffer.concat([Buffer.from([0xff, 0xfe, 0]), Buffer.from(SECRET)])),
      { type: "reasoning", text: SECRET, provider: { x: { note: SECRET } } },
      {
        type: "tool-call",
        callId: "2",
        name: "t",
        input: { who: SECRET },
        raw: JSON.stringify({ who: SECRET }),
      },
      { type: "opaque", format: "x", value: { inside: [SECRET] } },
    ],
  });
  session.set("plan", { note: SECRET, n: 1 });
  session.set("big", [BIG]);
  session.set("list", ["x"]);
  await session.checkpoint({
    label: `at ${SECRET}`,
    description: SECRET,
    metadata: { [SECRET]: SECRET },
  });
  session.splice("list", 1, 0, SECRET, BIG);
  await session.effect("lookup", { who: SECRET }, { mode: "once", key: "k1" }, async ({ who }) => ({
    found: who,
  }));
  await session.effect(
    "lookup",
    { who: SECRET },
    { mode: "repeatable" },
    async ({ who }) => BIG + who,
  );
  await session.checkpoint();
  await session.halt(`because of ${SECRET}`);
  return session;
}

describe.each(stores)("redact on $name", ({ name, address }) => {
  test("the text is nowhere, and the rest is as it was", async () => {
    const at = address();
    const hold = await open(at);
    const session = await tell(hold);
    const before = (await hold.checkpoints.list("a")).items;
    const states = await Promise.all(before.map(({ id }) => hold.checkpoints.state(id)));
    await session.close();
    await hold.sessions.signal("a", "hint", { value: SECRET });
    if (name === "sqlite" || name === "dir") expect(filesWith(at, SECRET)).not.toEqual([]);
    const dry = await hold.sessions.redact("a", SECRET, { dryRun: true });
    const report = await hold.sessions.redact("a", SECRET);
    expect(dry).toEqual({ ...report, left: [], keptBlobs: [] });
    expect(report).toMatchObject({
      sharedWith: [],
      exempt: [],
      names: [],
      keptBlobs: [],
      outside: true,
    });
    expect(report.left.length).toBe(name === "postgres" ? 2 : 0);
    if (name === "sqlite" || name === "dir") expect(filesWith(at, SECRET)).toEqual([]);
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    const after = (await hold.checkpoints.list("a")).items;
    const without = (value: unknown) =>
      JSON.parse(
        [SECRET].reduce(
          (text, secret) =>
            text
              .replaceAll(JSON.stringify(JSON.stringify(secret)).slice(3, -3), "[redacted]")
              .replaceAll(JSON.stringify(secret).slice(1, -1), "[redacted]"),
          JSON.stringify(value),
        ),
      );
    expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    for (const [i, { id }] of after.entries()) {
      const now = await hold.checkpoints.state(id);
      const was = states[i];
      const plain = (state: unknown) =>
        JSON.parse(JSON.stringify(state).replace(/"(digest|sizeBytes)":("[^"]*"|\d+)/g, '"$1":0'));
      expect(plain(now)).toEqual(plain(without(was)));
    }
    const again = await hold.session("a");
    expect(again.reason).toBe("because of [redacted]");
    expect((await hold.sessions.get("a"))?.metadata).toEqual({
      who: { "[redacted]": ["[redacted]"] },
    });
    again.append({ role: "user", content: "goes on" });
    await again.checkpoint();
    await again.close();
    await hold.close();
    const reopened = await open(at);
    if (name !== "memory") expect(await reopened.verify()).toMatchObject({ ok: true });
    await reopened.close();
  });

  test("what is shared is changed once, and the answer names who shares it: they are gone over whole", async () => {
    const hold = await open(address());
    const parent = await hold.session("parent", { agent: "x" });
    parent.append({ role: "user", content: "a secret word" });
    const { id: early } = await parent.checkpoint();
    parent.append({ role: "user", content: "and then a secret again" });
    const { id: late } = await parent.checkpoint();
    await hold.sessions.fork(early, { id: "mine" });
    await hold.sessions.fork(late, { id: "late" });
    const mine = await hold.session("mine");
    mine.append({ role: "user", content: "my own secret" });
    await mine.checkpoint();
    await hold.sessions.fork((await mine.checkpoint()).id, { id: "child" });
    const child = await hold.session("child");
    child.append({ role: "user", content: "the child's secret" });
    await child.checkpoint();
    // Somebody holds a session that shares it: nothing is changed.
    await expect(hold.sessions.redact("mine", "secret")).rejects.toMatchObject({
      code: "LEASE_HELD",
    });
    for (const session of [parent, mine, child]) await session.close();
    const stale = await hold.session("late");
    const waiting = hold.sessions.redact("mine", "secret", { waitMs: 20_000 });
    await new Promise((resolve) => setTimeout(resolve, 100));
    await stale.close();
    const report = await waiting;
    expect(report).toMatchObject({ sharedWith: ["child", "late", "parent"], saves: 4, records: 4 });
    const said = async (id: string) => {
      const session = await hold.session(id);
      await session.close();
      return session.messages.map(({ content }) => content);
    };
    expect(await said("mine")).toEqual(["a [redacted] word", "my own [redacted]"]);
    expect(await said("child")).toEqual([
      "a [redacted] word",
      "my own [redacted]",
      "the child's [redacted]",
    ]);
    expect(await said("late")).toEqual(["a [redacted] word", "and then a [redacted] again"]);
    expect((await hold.sessions.get("late"))?.title).toBe("a [redacted] word");
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });

  test("whoever held the session before is fenced: it has the text in memory, and would write it again", async () => {
    const store = await openStore(address());
    const first = holdOf(store);
    const old = await first.session("a");
    old.append({ role: "user", content: "a secret word" });
    await old.checkpoint();
    old.set("copy", old.messages[0]?.content as string);
    // To another process it is dead, and does not know.
    const second = holdOf(store);
    await second.sessions.redact("a", "secret");
    await expect(old.checkpoint()).rejects.toMatchObject({ code: "STALE_LEASE" });
    const next = await second.session("a");
    expect([next.messages[0]?.content, next.state]).toEqual(["a [redacted] word", {}]);
    await second.close();
  });

  test("several texts, a pattern, a ready set, and other words in their place", async () => {
    const hold = await open(address());
    const session = await hold.session("a");
    session.append({
      role: "user",
      content: "Ann and Annabel, bob@example.com, order 4711, 4111 1111 1111 1111",
    });
    session.set("n", { order: 4711, price: 12 });
    await session.checkpoint();
    await session.close();
    const text = async () =>
      (await hold.session("a").then(async (held) => (await held.close(), held))).messages[0]
        ?.content;
    await hold.sessions.redact("a", ["Ann", "Annabel"], { with: "<name>" });
    expect(await text()).toBe(
      "<name> and <name>, bob@example.com, order 4711, 4111 1111 1111 1111",
    );
    await hold.sessions.redact("a", /order \d+|^4711$/y, { with: "<order>" });
    expect(await text()).toBe("<name> and <name>, bob@example.com, <order>, 4111 1111 1111 1111");
    expect(await hold.sessions.redact("a", redactions({ cards: false }))).toMatchObject({
      records: 1,
    });
    expect(await text()).toBe("<name> and <name>, [email], <order>, 4111 1111 1111 1111");
    expect(await hold.sessions.redact("a", redactions())).toMatchObject({ records: 1 });
    expect(await hold.sessions.redact("a", redactions())).toMatchObject({
      records: 0,
      saves: 0,
      outside: false,
    });
    expect(await text()).toBe("<name> and <name>, [email], <order>, [card]");
    expect((await hold.session("a")).state).toEqual({ n: { order: "<order>", price: 12 } });
    await hold.close();
  });

  test("a message goes whole, by its id, with what was taken from it", async () => {
    const hold = await open(address());
    const session = await hold.session("a");
    session.append(
      { role: "user", content: "my name is Ann", id: "m1" },
      { role: "assistant", content: "hello Ann" },
    );
    session.append({
      role: "tool",
      id: "m3",
      name: "x",
      metadata: { a: 1 },
      content: [
        { type: "tool-result", callId: "c", outcome: "ok", output: { found: ["Ann", 42] } },
        file("Ann"),
      ],
    });
    await session.checkpoint();
    await session.close();
    await expect(hold.sessions.redact("a", { message: "nobody" })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect(await hold.sessions.redact("a", { message: "m1" })).toMatchObject({
      records: 1,
      saves: 1,
      outside: true,
    });
    await hold.sessions.redact("a", { message: "m3" }, { with: "-" });
    const again = await hold.session("a");
    const [one, two, three] = again.messages;
    expect(one).toMatchObject({ id: "m1", role: "user", content: "[redacted]" });
    expect(two?.content).toBe("hello Ann");
    expect(three).toMatchObject({ id: "m3", name: "-", metadata: { "-": "-" } });
    expect(three?.content).toMatchObject([
      { type: "tool-result", callId: "c", outcome: "ok", output: { "-": ["-", "-"] } },
      { type: "file" },
    ]);
    const { digest } = ((three as Message).content[1] as unknown as { data: { digest: string } })
      .data;
    expect(Buffer.from((await hold.blob(digest)) ?? []).toString()).toBe("-");
    expect((await hold.sessions.get("a"))?.title).toBe("[redacted]");
    await again.close();
    expect((await hold.sessions.redact("a", { message: "m1" })).records).toBe(0);
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });

  test("names that things are known by stay, and the answer says where; bodies that others need stay, and it says that", async () => {
    const hold = await open(address());
    for (const id of ["a", "b"]) {
      const session = await hold.session(id);
      session.append({ role: "user", content: "hello", id: `mail of ${id} to bob@example.com` });
      session.set("bob@example.com", BIG);
      await session.checkpoint();
      await session.close();
    }
    const first = await hold.sessions.redact("a", [SECRET, "bob@example.com"]);
    expect(first.names.map(({ what }) => what).toSorted()).toEqual(["message-id", "state-key"]);
    expect(first.keptBlobs.length).toBe(1);
    expect(first.sharedWith).toEqual([]);
    const second = await hold.sessions.redact("b", SECRET);
    expect(second.keptBlobs).toEqual([]);
    expect(await hold.blob(first.keptBlobs[0] as string)).toBeUndefined();
    await hold.close();
  });

  test("nothing is half done: killed at any point, it is run again, and what is there verifies", {
    timeout: 120_000,
  }, async () => {
    for (let n = 1; ; n++) {
      const store = await openStore(address());
      const first = holdOf(store);
      await (await tell(first)).close();
      const whole = await first.sessions.redact("a", SECRET, { dryRun: true });
      let calls = 0;
      const until = <A extends unknown[], T>(real: (...args: A) => Promise<T>) => {
        return async (...args: A): Promise<T> => {
          calls += 1;
          if (calls > n) throw new HoldfastError("IO", "killed");
          return real(...args);
        };
      };
      const killed = holdOf(
        wrapped(store, {
          apply: until((...args: Parameters<Store["apply"]>) => store.apply(...args)),
          reclaim: {
            replace: until((...args: Parameters<Store["reclaim"]["replace"]>) =>
              store.reclaim.replace(...args),
            ),
            sweep: until((...args: Parameters<Store["reclaim"]["sweep"]>) =>
              store.reclaim.sweep(...args),
            ),
            scrub: until((...args: Parameters<Store["reclaim"]["scrub"]>) =>
              store.reclaim.scrub(...args),
            ),
          },
        }),
      );
      const ended = await killed.sessions.redact("a", SECRET).then(
        () => "done",
        ({ message }: Error) => message,
      );
      const next = holdOf(store);
      expect((await next.verify()).findings).toEqual([]);
      const report = await next.sessions.redact("a", SECRET);
      expect(report.records).toBeLessThanOrEqual(whole.records);
      expect((await next.verify()).findings).toEqual([]);
      const { messages, state } = await next.session("a");
      expect(JSON.stringify([messages, state])).not.toContain("Meridian");
      expect((await next.sessions.get("a"))?.title).toBe("about [redacted]");
      await next.close();
      if (ended !== "done") continue;
      expect(n).toBeGreaterThan(4);
      break;
    }
  });
});

describe("what can be redacted", () => {
  test("bad input is refused, and nothing is changed", async () => {
    const hold = await open("memory:");
    const session = await hold.session("a");
    session.append({ role: "user", content: "a secret 😀 word" });
    await session.checkpoint();
    await session.close();
    const refused = async (what: unknown, o?: object, code = "INVALID_OPTION") =>
      expect(
        hold.sessions.redact("a", what as never, o),
        JSON.stringify([what, o]),
      ).rejects.toMatchObject({ code });
    for (const what of [
      "",
      [],
      ["x", ""],
      [1],
      7,
      null,
      undefined,
      {},
      { message: "x", more: 1 },
      "\ud800",
    ])
      await refused(what);
    await refused({ message: 1 }, undefined, "INVALID_ID");
    await refused("secret", { with: "[secret]" });
    await refused(/s[a-z]+/, { with: "some" });
    await refused("x", { with: 7 });
    await refused("x", { with: "x".repeat(1_001) });
    await refused("x", { dryRun: 1 });
    await refused("x", { waitMs: -1 });
    await refused("x", { what: 1 });
    await refused(redactions(), { with: "x" });
    await refused(/\ud83d/);
    await refused(() => 1);
    await refused(() => {
      throw new Error("oops");
    });
    await refused(
      Array.from({ length: 1_001 }, (_, i) => `t${i}`),
      undefined,
      "TOO_LARGE",
    );
    await refused("x".repeat(2 ** 20 + 1), undefined, "TOO_LARGE");
    await expect(hold.sessions.redact("nobody", "x")).rejects.toMatchObject({ code: "NOT_FOUND" });
    const signal = AbortSignal.abort(new Error("stopped"));
    await expect(hold.sessions.redact("a", "secret", { signal })).rejects.toThrow("stopped");
    expect((await hold.session("a")).messages[0]?.content).toBe("a secret 😀 word");
    await hold.close();
  });

  test("many texts, long ones, and what would come to be one of them", async () => {
    const hold = await open("memory:");
    const session = await hold.session("a");
    const long = "long and longer ".repeat(5_000);
    session.append(
      { role: "user", content: `${long}!` },
      { role: "user", content: "n17 n170 aaabbb" },
    );
    await session.checkpoint();
    await session.close();
    await hold.sessions.redact("a", [long, ...Array.from({ length: 900 }, (_, i) => `n${i}`)], {
      with: "-",
    });
    await hold.sessions.redact("a", "ab", { with: "" });
    // On both sides of where they are no longer looked for together.
    for (const length of [9_999, 10_000, 10_001, 2_000, 60_000, 2 ** 20])
      expect((await hold.sessions.redact("a", "ü".repeat(length), { dryRun: true })).records).toBe(
        0,
      );
    expect((await hold.session("a")).messages.map(({ content }) => content)).toEqual([
      "-!",
      "- - ",
    ]);
    await hold.close();
  });

  test("progress is told, and a pattern that finds nothing changes nothing", async () => {
    const hold = await open("memory:");
    const session = await hold.session("a");
    for (let n = 0; n < 250; n++) {
      session.append({ role: "user", content: "word" });
      await session.checkpoint();
    }
    await session.close();
    const told: number[] = [];
    const report = await hold.sessions.redact("a", /x*/, {
      onProgress: (looked) => told.push(looked),
    });
    expect(report).toMatchObject({ records: 0, saves: 0 });
    expect(told).toEqual([100, 200, 250]);
    await hold.close();
  });
});

describe.each(stores)("redaction beside search and snapshots, on $name", ({ name, address }) => {
  test("a text goes out of the index and of snapshots, which still bring everything back", async () => {
    const place = address();
    const isOnDisk = name === "sqlite" || name === "dir";
    const hold = await open(place);
    try {
      const session = await hold.session("a", {
        agent: "ann",
        title: "About Xylophagous things",
        tags: ["xylophagous"],
      });
      session.append(
        { role: "user", content: "a xylophagous beetle" },
        { role: "assistant", content: "in the rafters" },
      );
      await session.checkpoint();
      await session.close();
      await hold.sessions.index();
      // What an agent is told is the agent's own, and is named.
      await hold.agents.save({ id: "ann", system: "You know xylophagous beetles." });
      const told = await hold.sessions.redact("a", "no such text");
      expect(told.left.join()).not.toContain("ann");
      await hold.agents.snapshot("ann");
      await hold.agents.save({ id: "ann", system: null });
      expect(
        (await hold.sessions.redact("a", "xylophagous beetles", { scrub: false })).left[0],
      ).toMatch(/agent "ann"/);
      for (const { id } of (await hold.agents.snapshots("ann")).items)
        await hold.agents.deleteSnapshot(id);
      expect((await hold.sessions.search("xylophagous")).items).toHaveLength(2);
      const snap = await hold.agents.snapshot("ann");
      // The index too, where there is one.
      if (isOnDisk)
        expect(
          filesWith(place, "xylophagous").some(
            (found) => name === "dir" || found.includes("-search"),
          ),
        ).toBe(true);
      const { left } = await hold.sessions.redact("a", /xylophagous/i);
      expect((await hold.sessions.search("xylophagous")).items).toEqual([]);
      expect((await hold.sessions.search("redacted beetle")).items).toHaveLength(1);
      await hold.sessions.delete("a");
      await hold.agents.restore(snap.id);
      const again = await hold.session("a");
      expect(again.messages.map(({ content }) => content)).toEqual([
        "a [redacted] beetle",
        "in the rafters",
      ]);
      expect(await hold.sessions.get("a")).toMatchObject({
        title: "About [redacted] things",
        tags: ["[redacted]"],
      });
      await again.close();
      expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
      if (isOnDisk) expect(left).toEqual([]);
    } finally {
      await hold.close();
    }
    if (isOnDisk) expect(filesWith(place, "xylophagous")).toEqual([]);
  });
});
