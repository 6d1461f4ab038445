/** Directories of ares: pointers, ids that clash, statuses, and what is there twice. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { migrate } from "../../src/migrate/index.js";
import { ares, place, put, talk, tree, using } from "./support.js";

const what = (report: { notes: readonly { what: string }[] }) =>
  report.notes.map((note) => note.what).join("\n");

test("sessions whose ids begin alike, or hold the word latest, stay apart", async () => {
  const files = Object.fromEntries(
    ["a", "a_b", "a_1", "latest", "the_latest_one", "a_latest"].flatMap((session) => [
      ...[0, 1, 10].map((step) => [`${session}_${step}.json`, ares({ session, step })] as const),
      [`${session}_latest.json`, `${session}_10.json\n`] as const,
    ]),
  );
  const report = await migrate("ares", put(place(), files), "memory:");
  expect(report.sessions.map(({ id, checkpoints }) => [id, checkpoints])).toEqual(
    ["a", "a_1", "a_b", "a_latest", "latest", "the_latest_one"].map((id) => [id, 3]),
  );
  expect(report).toMatchObject({ skipped: [], notes: [] });
});

test("the newer compact form, with the time after which a checkpoint expires", async () => {
  const { status, ...rest } = ares({ step: 4 });
  const store = join(place(), "s.db");
  const files = {
    "a_4.json": JSON.stringify({ ...rest, id: "r/run-1:step4", ttl_secs: 60, later: [1], status }),
  };
  expect(await migrate("ares", put(place(), files), store)).toMatchObject({
    sessions: [{ id: "a", checkpoints: 1 }],
    skipped: [],
  });
  await using(store, async (hold) => {
    const [only] = (await hold.checkpoints.list("a")).items;
    expect(only).toMatchObject({
      step: 4,
      metadata: { source: { id: "r/run-1:step4", ttlSecs: 60, timestamp: 1_775_270_004 } },
    });
  });
});

test("statuses, also where nothing else changed, one checkpoint each", async () => {
  const statuses = [
    "InProgress",
    "Completed",
    "InProgress",
    { Failed: "OOM" },
    { Halted: "goes round" },
    { Halted: "again" },
    "Completed",
    "Completed",
    "Odd",
  ];
  const same = { messages: talk(1), timestamp: 1_775_270_000 };
  const files = Object.fromEntries(
    statuses.map((status, step) => [`a_${step}.json`, ares({ step, status, ...same })]),
  );
  const store = join(place(), "s.db");
  const report = await migrate("ares", put(place(), files), store);
  expect(report.notes.map((note) => note.what)).toEqual([
    'Its status "\\"Odd\\"" is not known: taken for InProgress.',
    'Field "status" cannot be mapped. Its value is kept in metadata.source.unmapped. Found once.',
  ]);
  await using(store, async (hold) => {
    const { items } = await hold.checkpoints.list("a", { limit: 100 });
    expect(
      items.toReversed().map(({ step, status, reason, kind }) => [step, status, reason, kind]),
    ).toEqual(
      (
        [
          ["in-progress", undefined],
          ["completed", undefined],
          ["in-progress", undefined],
          ["failed", "OOM"],
          ["halted", "goes round"],
          ["halted", "again"],
          ["completed", undefined],
          ["completed", undefined],
          ["in-progress", undefined],
        ] as const
      ).map(([status, reason], step) => [step, status, reason, "automatic"]),
    );
    expect(await hold.sessions.get("a")).toMatchObject({ status: "in-progress" });
  });
});

describe("pointers", () => {
  const five = Object.fromEntries(
    [0, 1, 2, 3, 4].map((step) => [`a_${step}.json`, ares({ step })]),
  );
  const standing = async (files: Readonly<Record<string, unknown>>) => {
    const store = join(place(), "s.db");
    const report = await migrate("ares", put(place(), files), store);
    const shown = await using(store, async (hold) => ({
      messages: (await hold.sessions.state("a")).messages.length,
      current: (await hold.checkpoints.list("a")).items.map(({ step }) => step),
      all: (await hold.checkpoints.list("a", { branches: "all" })).items.map(({ step }) => step),
    }));
    expect(shown.all).toEqual([4, 3, 2, 1, 0]);
    return { ...shown, report, store };
  };

  test("to a lower step: the session stands there, and the rest is on the line it left", async () => {
    const { current, messages, report, store } = await standing({
      ...five,
      "a_latest.json": "a_2.json",
    });
    expect([current, messages]).toEqual([[2, 1, 0], 3]);
    expect(what(report)).toContain("was last saved at step 2");
    const path = put(place(), { ...five, "a_latest.json": "a_2.json" });
    expect(await migrate("ares", path, store)).toMatchObject({ sessions: [{ outcome: "known" }] });
    // It went on from there: step 3 was saved again with other words.
    put(path, {
      "a_3.json": ares({
        step: 3,
        messages: [...talk(3), { role: "user", content: "Otherwise." }],
      }),
      "a_latest.json": "a_3.json",
    });
    put(path, { "a_5.json": ares({ step: 5 }), "a_latest.json": "a_5.json" });
    const grown = await migrate("ares", path, store);
    expect(grown.sessions).toMatchObject([{ outcome: "grown", checkpoints: 2 }]);
    await using(store, async (hold) => {
      expect((await hold.checkpoints.list("a")).items.map(({ step }) => step)).toEqual([
        5, 4, 3, 2, 1, 0,
      ]);
      expect(
        (await hold.checkpoints.list("a", { branches: "all" })).items.filter(
          ({ step }) => step === 3,
        ),
      ).toHaveLength(2);
    });
  });

  test("that moves, also to the last step: the session follows it each time, and is never in conflict with itself", async () => {
    const store = join(place(), "s.db");
    const path = put(place(), five);
    for (const step of [1, 4, 2, 0, 4]) {
      put(path, { "a_latest.json": `a_${step}.json` });
      expect((await migrate("ares", path, store)).sessions).toMatchObject([
        { outcome: expect.stringMatching("imported|grown") },
      ]);
      expect((await migrate("ares", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
      expect((await tree(store, "a")).at).toBe(`a-${step}`);
    }
    put(path, { "a_5.json": ares({ step: 5 }), "a_latest.json": "a_5.json" });
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { outcome: "grown", checkpoints: 1 },
    ]);
    expect(await tree(store, "a")).toMatchObject({ at: "a-5", parents: { "a-5": "a-4" } });
  });

  test("to a step that was saved again in other words: the session stands there", async () => {
    const store = join(place(), "s.db");
    const path = put(place(), { ...five, "a_latest.json": "a_4.json" });
    await migrate("ares", path, store);
    put(path, {
      "a_2.json": ares({
        step: 2,
        messages: [...talk(2), { role: "user", content: "Otherwise." }],
      }),
      "a_latest.json": "a_2.json",
    });
    expect((await migrate("ares", path, store)).sessions).toMatchObject([
      { outcome: "grown", checkpoints: 1 },
    ]);
    await using(store, async (hold) => {
      expect((await hold.sessions.state("a")).messages.map(({ content }) => content)).toContain(
        "Otherwise.",
      );
      expect((await hold.checkpoints.list("a")).items.map(({ step }) => step)).toEqual([2, 1, 0]);
    });
    expect((await migrate("ares", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
  });

  test.each([
    ["dangling", "a_9.json", "no checkpoint of its session"],
    ["to another session", "b_0.json", "no checkpoint of its session"],
    ["to an absolute path", "/etc/passwd.json", "was not followed"],
    ["upwards", "../../secret.json", "was not followed"],
    ["to itself", "a_latest.json", "no checkpoint of its session"],
  ])("%s: said, and the highest step is the latest", async (_name, target, why) => {
    const { current, report } = await standing({
      ...five,
      "b_0.json": ares({ session: "b", step: 0 }),
      "a_latest.json": target,
    });
    expect(current).toEqual([4, 3, 2, 1, 0]);
    expect(what(report)).toContain(why);
  });

  test.each(["", "a_2.js", " \n"])(
    "torn (%j): said, and the highest step is the latest",
    async (text) => {
      const { current, report } = await standing({ ...five, "a_latest.json": text });
      expect(current).toEqual([4, 3, 2, 1, 0]);
      expect(report.skipped).toMatchObject([
        { path: "a_latest.json", why: expect.stringContaining("torn or empty") },
      ]);
    },
  );

  test("of a directory below: it names a file beside it", async () => {
    const store = join(place(), "s.db");
    const below = Object.fromEntries(
      Object.entries({ ...five, "a_latest.json": "a_2.json" }).map(([name, file]) => [
        `below/${name}`,
        file,
      ]),
    );
    await migrate("ares", put(place(), below), store);
    expect((await tree(store, "a")).at).toBe("a-2");
  });

  test("of a session that is not there", async () => {
    const { report } = await standing({ ...five, "gone_latest.json": "gone_3.json" });
    expect(report.notes).toMatchObject([
      { path: "gone_latest.json", what: expect.stringContaining("no checkpoint here") },
    ]);
  });
});

test("a step that is there twice, agents that share a session, and roles that nobody else has", async () => {
  const store = join(place(), "s.db");
  const again = ares({
    step: 1,
    timestamp: 1_775_270_900,
    agent: "other",
    messages: [
      { role: "Planner", content: "x" },
      { role: "HUMAN", content: "y" },
    ],
  });
  const files = {
    "a_0.json": ares({ step: 0 }),
    "a_1.json": ares({ step: 1 }),
    "a_1 copy.json": ares({ step: 1 }),
    "a_1b.json": again,
  };
  const report = await migrate("ares", put(place(), files), store);
  expect(report.sessions).toMatchObject([{ id: "a", checkpoints: 3 }]);
  for (const said of [
    "is the same as",
    "there twice, in other words",
    'shared by agents: "r", "other"',
    'role "Planner" is stored as user',
  ])
    expect(what(report)).toContain(said);
  await using(store, async (hold) => {
    const { messages, session } = await hold.sessions.state("a");
    expect(messages.map(({ role, metadata }) => [role, metadata])).toEqual([
      ["user", { source: { role: "Planner" } }],
      ["user", { source: { role: "HUMAN" } }],
    ]);
    expect(session.agent).toBe("r");
    expect((await hold.checkpoints.latest("a"))?.metadata).toMatchObject({
      source: { agent: "other" },
    });
  });
});

test("what every step repeats is stored once, and the report says how much smaller it became", async () => {
  const long = (n: number) =>
    Array.from({ length: n }, (_, i) => ({ role: "user", content: `${i} `.padEnd(200, "kelp ") }));
  const files = Object.fromEntries(
    Array.from({ length: 60 }, (_, step) => [
      `a_${step}.json`,
      ares({ step, messages: long(step + 1) }),
    ]),
  );
  const report = await migrate("ares", put(place(), files), join(place(), "s.db"));
  expect(report.sessions).toMatchObject([{ checkpoints: 60 }]);
  expect(report.sourceBytes / report.storedBytes).toBeGreaterThan(8);
});
