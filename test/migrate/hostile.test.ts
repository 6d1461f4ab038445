/**
 * Sources that were torn, or made to lead astray: nothing outside of them is read, and the rest is
 * imported.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KINDS, type MigrationKind, migrate } from "../../src/migrate/index.js";
import { runs } from "../support/runs.js";
import { agent, checkpoint, conversation } from "./aethershell-files.js";
import { ares, fixtures, place, put, talk, using, viewAt } from "./support.js";

describe("torn files", () => {
  const torn: Readonly<Record<MigrationKind, string>> = {
    ares: "a_1.json",
    ccswarm: "sessions/session-1/0b6a1a5e-6b1c-4a55-9b0b-0e6d0c0a0002.json",
    smooth: "agent-1/c-1.json",
    aethershell: "checkpoints/cp-1.json",
  };

  test.each(KINDS)(
    "%s: cut at any length, it is reported, and the rest is imported",
    async (kind) => {
      const name = torn[kind];
      const whole = readFileSync(join(fixtures, kind, name));
      const path = place();
      cpSync(join(fixtures, kind), path, { recursive: true });
      if (kind === "smooth") cpSync(join(path, "agent-1/c-1.json"), join(path, "agent-1/c-0.json"));
      // Every length near both ends, and some in between.
      const step = runs(3, 1) * (kind === "aethershell" ? 97 : 17);
      for (
        let length = 0;
        length < whole.length;
        length += length < 25 || length > whole.length - 25 ? 1 : step
      ) {
        writeFileSync(join(path, name), whole);
        truncateSync(join(path, name), length);
        const report = await migrate(kind, path, "memory:", { dryRun: length % 2 === 1 });
        expect(report.skipped.filter((skipped) => skipped.path === name)).toHaveLength(1);
        expect(report.sessions.length, `${length}`).toBeGreaterThan(0);
        expect(report.sessions.every(({ outcome }) => outcome === "imported")).toBe(true);
      }
    },
  );

  test("alone, one is reported and no error; bytes that are no text, lists, and files that are none of theirs", async () => {
    const path = put(place(), {
      "a_0.json": '{"session_id": "a", "step": 0, "mess',
      "b_0.json": Buffer.from([0x7b, 0xff, 0xfe, 0x7d]),
      "c_0.json": "[]",
      "d_0.json": { session_id: 7, step: "x" },
      "e_0.json": { session_id: "e", step: 1.5 },
      "f_0.json": ares({ session: "f", step: 0, messages: [{ role: "user" }] }),
      "f_1.json": { ...ares({ session: "f", step: 1 }), messages: { 0: "x" } },
      "g_0.json": { session_id: "g", step: 0 },
      "h.txt": "x",
    });
    const report = await migrate("ares", path, "memory:");
    expect(report.skipped.map((skipped) => [skipped.path, skipped.why])).toEqual([
      ["a_0.json", "It is torn, or not JSON."],
      ["b_0.json", "It is not UTF-8."],
      ["c_0.json", "It holds JSON, but no object."],
      ["d_0.json", expect.stringContaining("no checkpoint of ares")],
      ["e_0.json", expect.stringContaining("no checkpoint of ares")],
      ["f_0.json", expect.stringContaining("messages[0] is no message")],
      ["f_1.json", expect.stringContaining("messages is no list")],
    ]);
    expect(report.sessions.map(({ id, outcome }) => [id, outcome])).toEqual([
      ["f", "refused"],
      ["g", "imported"],
    ]);
    expect(report.notes).toMatchObject([
      { what: expect.stringContaining("1 file does not end in .json") },
    ]);
    expect(await migrate("ares", put(place(), { "a_0.json": "{" }), "memory:")).toMatchObject({
      sessions: [],
      skipped: [{ path: "a_0.json" }],
    });
  });
});

describe("nothing outside is read", () => {
  const CANARY = "the canary that must not be stored";
  const secret = () =>
    put(place(), {
      "x_0.json": ares({ session: "x", step: 0, messages: [{ role: "user", content: CANARY }] }),
    });

  test("links to files and directories, pipes, sockets, pointers; one that is given as the path is the giver's choice", async () => {
    const outside = secret();
    const path = put(place(), { "a_0.json": ares({ step: 0 }) });
    symlinkSync(join(outside, "x_0.json"), join(path, "x_0.json"));
    symlinkSync(outside, join(path, "linked"));
    symlinkSync("/dev/zero", join(path, "zero.json"));
    symlinkSync(join(path, "loop"), join(path, "loop"));
    put(path, {
      "x_latest.json": join(outside, "x_0.json"),
      "a_latest.json": `../${outside.split("/").at(-1)}/x_0.json`,
    });
    execFileSync("mkfifo", [join(path, "pipe.json")]);
    const socket = createServer().listen(join(path, "socket.json"));
    const store = join(place(), "s.db");
    const report = await migrate("ares", path, store);
    socket.close();
    expect(report.sessions).toMatchObject([{ id: "a", outcome: "imported" }]);
    expect(report.skipped.map((skipped) => [skipped.path, skipped.why])).toEqual([
      ["linked", expect.stringContaining("not followed")],
      ["loop", expect.stringContaining("not followed")],
      ["pipe.json", "It is not a regular file."],
      ["socket.json", "It is not a regular file."],
      ["x_0.json", expect.stringContaining("not followed")],
      ["zero.json", expect.stringContaining("not followed")],
    ]);
    expect(report.notes).toHaveLength(2);
    expect(JSON.stringify(await viewAt(store))).not.toContain(CANARY);
    // The control: the same file inside is imported, also through a link that was given.
    const link = join(place(), "link");
    symlinkSync(outside, link);
    const control = join(place(), "s.db");
    expect(await migrate("ares", link, control)).toMatchObject({
      sessions: [{ id: "x" }],
      skipped: [],
    });
    expect(JSON.stringify(await viewAt(control))).toContain(CANARY);
  });

  test("a directory that becomes a link, and a file that is exchanged, while it is being imported", async () => {
    const outside = put(place(), {
      "b_0.json": ares({ session: "b", step: 0, messages: [{ role: "user", content: CANARY }] }),
    });
    const path = put(place(), {
      "a_0.json": ares({ step: 0 }),
      "in/b_0.json": ares({ session: "b", step: 0 }),
      "z_0.json": ares({ session: "z", step: 0 }),
    });
    const store = join(place(), "s.db");
    let read = 0;
    const report = await migrate("ares", path, store, {
      onProgress: () => {
        read += 1;
        if (read === 1) {
          execFileSync("mv", [join(path, "in"), join(path, "was")]);
          symlinkSync(outside, join(path, "in"));
        }
        // All were looked over: what is written is read again.
        if (read === 3)
          put(path, {
            "z_0.json": ares({
              session: "z",
              step: 0,
              messages: [{ role: "user", content: CANARY }],
            }),
          });
      },
    });
    expect(report.skipped.map((skipped) => [skipped.path, skipped.why])).toEqual([
      ["in/b_0.json", "It was replaced while it was being imported."],
      ["z_0.json", expect.stringContaining("changed while it was being imported")],
    ]);
    expect(report.sessions.map(({ id, outcome }) => [id, outcome])).toEqual([
      ["a", "imported"],
      ["z", "refused"],
    ]);
    expect(JSON.stringify(await viewAt(store))).not.toContain(CANARY);
  });

  test("directories without an end, and files that are too large", async () => {
    const path = put(place(), { "a_0.json": ares({ step: 0 }), "large.json": "" });
    mkdirSync(join(path, ...Array<string>(20).fill("d")), { recursive: true });
    truncateSync(join(path, "large.json"), 300 * 1024 * 1024);
    const report = await migrate("ares", path, "memory:");
    expect(report.sessions).toHaveLength(1);
    expect(report.skipped.map(({ why }) => why)).toEqual([
      expect.stringContaining("16 levels"),
      expect.stringContaining("larger than 256 MiB"),
    ]);
  });
});

describe("ids", () => {
  test("that look like paths are text, and make no files", async () => {
    const ids = [
      "../../etc/passwd",
      "/etc/passwd",
      "..",
      ".",
      "a/b\\c",
      "con",
      "x.json",
      "*",
      "$(id)",
      "__proto__",
      "constructor",
      "latest",
    ];
    const files = Object.fromEntries(
      ids.map((session, i) => [`${i}_0.json`, ares({ session, step: 0, agent: session })]),
    );
    for (const store of ["s.db", "d"]) {
      const folder = place();
      const address = store === "d" ? `dir:${join(folder, store)}` : join(folder, store);
      const report = await migrate("ares", put(place(), files), address);
      expect(report.sessions.map(({ id }) => id).toSorted()).toEqual(ids.toSorted());
      expect(readdirSync(folder).every((name) => name.startsWith(store))).toBe(true);
      await using(address, async (hold) => {
        for (const id of ids) expect(await hold.sessions.get(id)).toMatchObject({ id, agent: id });
      });
    }
  });

  test("that Holdfast does not take are replaced, the same each time, and said", async () => {
    const ids = ["", "a\nb", "a\tb", "é".repeat(150), "x".repeat(300), `${"x".repeat(300)}y`];
    const files = Object.fromEntries(
      ids.map((session, i) => [`${i}_0.json`, ares({ session, step: 0, agent: session })]),
    );
    const path = put(place(), files);
    const store = join(place(), "s.db");
    const report = await migrate("ares", path, store);
    expect(new Set(report.sessions.map(({ id }) => id)).size).toBe(ids.length);
    expect(report.sessions.every(({ outcome }) => outcome === "imported")).toBe(true);
    // The last two look the same in a note.
    expect(report.notes).toHaveLength(ids.length - 1);
    const again = await migrate("ares", path, store);
    expect(again.sessions.map(({ id, outcome }) => [id, outcome])).toEqual(
      report.sessions.map(({ id }) => [id, "known"]),
    );
    await using(store, async (hold) => {
      const found = (await hold.sessions.list()).items.map(
        ({ metadata }) => (metadata["source"] as { id: string }).id,
      );
      expect(found.toSorted()).toEqual(ids.toSorted());
    });
  });

  test("that come to the same are kept apart", async () => {
    const said = (id: string) => ({ id, messages: [], max_context_tokens: 1 });
    const one = (agent: string, id: string, at: number) => ({
      [`${id}.json`]: {
        id,
        agent_id: agent,
        conversation: said(agent === "a" ? "b/c" : id),
        iteration: 0,
        metadata: {},
        created_at: `2026-04-03T21:47:0${at}Z`,
      },
    });
    const files = { ...one("a", "first", 1), ...one("a/b", "c0", 2), ...one("a/b", "c", 3) };
    (files["first.json"] as { conversation: object }).conversation = said("b");
    files["second.json"] = {
      ...(files["first.json"] as object),
      id: "second",
      conversation: said("b/c"),
      created_at: "2026-04-03T21:47:05Z",
    } as never;
    const report = await migrate("smooth", put(place(), files), join(place(), "s.db"));
    expect(new Set(report.sessions.map(({ id }) => id)).size).toBe(4);
    expect(
      report.sessions.every(
        ({ outcome, checkpoints }) => outcome === "imported" && checkpoints === 1,
      ),
    ).toBe(true);
    expect(report.notes.map(({ what }) => what).join()).toContain("or is taken");
  });
});

test("values that Holdfast refuses leave their checkpoint out, with the reason, and the next ones follow", async () => {
  const deep = `${"[".repeat(600)}${"]".repeat(600)}`;
  const text = (step: number, partial: string) =>
    JSON.stringify(ares({ step })).replace('"partial_results":[]', `"partial_results":${partial}`);
  const path = put(place(), {
    "a_0.json": ares({ step: 0 }),
    "a_1.json": text(1, deep),
    "a_2.json": text(2, `["\\udfff"]`),
    "a_3.json": text(3, "[".repeat(2_000) + "]".repeat(2_000)),
    "a_4.json": ares({ step: 4, messages: talk(2) }),
  });
  const store = join(place(), "s.db");
  const report = await migrate("ares", path, store);
  expect(report.sessions).toEqual([{ id: "a", outcome: "imported", checkpoints: 2 }]);
  expect(report.skipped.map((skipped) => skipped.why)).toEqual([
    expect.stringContaining("nested deeper than 1000"),
    expect.stringContaining("nested deeper than 512"),
    expect.stringContaining("lone surrogate"),
  ]);
  await using(store, async (hold) =>
    expect((await hold.sessions.state("a")).messages).toHaveLength(2),
  );
  // One that comes last is tried again, and is no growth.
  put(path, { "a_5.json": text(5, deep) });
  expect((await migrate("ares", path, store)).sessions).toMatchObject([
    { outcome: "grown", checkpoints: 0 },
  ]);
  expect((await migrate("ares", path, store)).sessions).toMatchObject([
    { outcome: "known", checkpoints: 0 },
  ]);
});

describe("what Holdfast refuses beside the steps is left out with the reason, and the rest is imported, each time", () => {
  const large = { x: "y".repeat(2_000_000) };

  test.each([
    ["a title", { title: "\ud800" }, 'The title of session "x"'],
    ["metadata", { title: "Kept", metadata: large }, 'The metadata of session "x"'],
    [
      "metadata that is no text",
      { title: "Kept", metadata: { k: "\ud800" } },
      'The metadata of session "x"',
    ],
    [
      "what is said of where it came from",
      { title: "Kept", tags: [`${"t".repeat(2_000_000)}`] },
      'Field "tags" is too large',
    ],
  ])("%s of a session", async (_name, more, why) => {
    const store = join(place(), "s.db");
    const path = put(place(), {
      "conversations/x.json": conversation("x", 2, more),
      "conversations/y.json": conversation("y", 1),
    });
    const report = await migrate("aethershell", path, store);
    expect(report.sessions).toMatchObject([
      { id: "y", outcome: "imported" },
      { id: "x", outcome: "imported", checkpoints: 1 },
    ]);
    expect(report.skipped).toMatchObject([
      { path: "conversations/x.json", why: expect.stringContaining(why) },
    ]);
    await using(store, async (hold) => {
      expect((await hold.sessions.state("x")).messages).toHaveLength(2);
      if ("metadata" in more || "tags" in more)
        expect(await hold.sessions.get("x")).toMatchObject({ title: "Kept" });
    });
    expect(
      (await migrate("aethershell", path, store)).sessions.map(({ outcome }) => outcome),
    ).toEqual(["known", "known"]);
  });

  test("names and descriptions of snapshots; the agent is imported all the same", async () => {
    for (const more of [{ name: "\ud800" }, { description: "\ud800" }]) {
      const store = join(place(), "s.db");
      const path = put(place(), {
        ...checkpoint("c1", 10, [conversation("x", 1)], more),
        ...checkpoint("c2", 20, [conversation("x", 2)], more),
        ...checkpoint("c3", 30, [conversation("z", 2)]),
        ...checkpoint("c4", 40, [], {
          ...more,
          agent_id: "other",
          agent_state: agent({ agent_id: "other" }),
        }),
        "agents/ag.json": agent(),
      });
      // A mark with such words leaves the checkpoint of the session out as well.
      const report = await migrate("aethershell", path, store);
      expect(report.snapshots.map(({ id, outcome, message }) => [id, outcome, message])).toEqual([
        ["c1", "refused", expect.stringContaining("lone surrogate")],
        ["c2", "refused", expect.stringContaining("lone surrogate")],
        ["c3", "imported", undefined],
        ["c4", "refused", expect.stringContaining("lone surrogate")],
      ]);
      expect(report.agents.map(({ id, outcome }) => [id, outcome])).toEqual([
        ["ag", "imported"],
        ["other", "imported"],
      ]);
      const before = await viewAt(store);
      await migrate("aethershell", path, store);
      expect(await viewAt(store)).toEqual(before);
    }
  });

  test("snapshots of very many conversations say how many", async () => {
    const store = join(place(), "s.db");
    const many = Array.from({ length: 101 }, (_, i) => conversation(`c${i}`, 0));
    await migrate("aethershell", put(place(), checkpoint("c1", 10, many)), store);
    await using(store, async (hold) => {
      const [only] = (await hold.agents.snapshots("ag")).items;
      expect(only).toMatchObject({
        sessions: 101,
        metadata: { source: { conversationCount: 101 } },
      });
    });
  });

  test("metadata of a fork", async () => {
    const swarm = (session: string, id: string) => ({
      [`sessions/${session}/${id}.json`]: {
        id,
        session_id: session,
        created_at: "2026-01-28T02:30:00Z",
        state: { id },
        metadata: {},
      },
    });
    const fork = {
      fork_id: "f",
      parent_session_id: "s",
      checkpoint_id: "k",
      branch_name: "try",
      created_at: "2026-01-28T03:00:00Z",
    };
    const path = put(place(), {
      ...swarm("s", "k"),
      ...swarm("z", "q"),
      "forks.json": { forks: { f: { ...fork, metadata: large } } },
    });
    const store = join(place(), "s.db");
    const report = await migrate("ccswarm", path, store);
    expect(report.sessions.map(({ id, outcome }) => [id, outcome])).toEqual(
      ["s", "f", "z"].map((id) => [id, "imported"]),
    );
    expect(report.skipped).toMatchObject([{ why: expect.stringContaining("larger than") }]);
    await using(store, async (hold) =>
      expect(await hold.sessions.get("f")).toMatchObject({
        title: "try",
        forkPoint: { sessionId: "s" },
      }),
    );
    expect((await migrate("ccswarm", path, store)).sessions.map(({ outcome }) => outcome)).toEqual([
      "known",
      "known",
      "known",
    ]);
  });
});

test("whatever stands in a directory, it is reported or imported, and never an unknown error", async () => {
  const value = fc.oneof(
    fc.jsonValue(),
    fc.string(),
    fc.record({
      session_id: fc.anything(),
      step: fc.anything(),
      agent_id: fc.anything(),
      id: fc.anything(),
    }),
  );
  const message = fc.record(
    {
      role: fc.oneof(fc.string(), fc.jsonValue()),
      content: fc.oneof(fc.string(), fc.jsonValue()),
      tool_calls: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  const anything = fc.record(
    {
      ...{
        session_id: fc.string(),
        agent_id: fc.string(),
        id: fc.string(),
        step: fc.oneof(fc.nat(), fc.jsonValue()),
        created_at: fc.oneof(fc.nat(), fc.date().map(String), fc.jsonValue()),
      },
      ...{
        messages: fc.oneof(fc.array(message), fc.jsonValue()),
        state: fc.jsonValue(),
        context: fc.jsonValue(),
        metadata: fc.jsonValue(),
        status: fc.jsonValue(),
      },
      ...{
        conversation: fc.oneof(
          fc.record({ id: fc.string(), messages: fc.array(message) }),
          fc.jsonValue(),
        ),
        iteration: fc.jsonValue(),
        tags: fc.jsonValue(),
      },
      ...{
        agent_state: fc.jsonValue(),
        conversations: fc.array(fc.jsonValue()),
        custom_state: fc.jsonValue(),
        config: fc.jsonValue(),
        title: fc.jsonValue(),
      },
    },
    { requiredKeys: ["session_id", "agent_id", "id"] },
  );
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...KINDS),
      fc.array(fc.oneof(anything, value), { minLength: 1, maxLength: 5 }),
      async (kind, values) => {
        const folders = {
          ares: [""],
          ccswarm: ["sessions/s/"],
          smooth: ["a/"],
          aethershell: ["agents/", "conversations/", "checkpoints/"],
        }[kind];
        const files = values.flatMap((each, i) =>
          folders.map(
            (folder) => [`${folder}${i}.json`, JSON.stringify(each) ?? "undefined"] as const,
          ),
        );
        const told = await migrate(kind, put(place(), Object.fromEntries(files)), "memory:").catch(
          (error: { code?: string }) => error.code ?? error,
        );
        if (typeof told === "string") expect(["NOT_FOUND", "INVALID_OPTION"]).toContain(told);
        else expect(told).toMatchObject({ kind });
      },
    ),
    { numRuns: runs(50, 150) },
  );
});
