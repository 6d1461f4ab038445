/**
 * Fields that an importer does not know, and fields with values that it does not expect: kept in
 * metadata, and named.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Holdfast, Json, JsonObject } from "../../src/index.js";
import { type MigrationKind, type MigrationReport, migrate } from "../../src/migrate/index.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { agent, checkpoint, conversation, message } from "./aethershell-files.js";
import { ares, fixtures, place, put, using } from "./support.js";

type Files = Readonly<Record<string, unknown>>;
const read = (name: string): JsonObject =>
  JSON.parse(readFileSync(join(fixtures, name), "utf8")) as JsonObject;

const {
  id: _id,
  session_id: _session,
  ...indexed
} = Object.values(read("ccswarm/index.json"))[0] as JsonObject;
const fork = {
  fork_id: "f",
  parent_session_id: "session-1",
  checkpoint_id: "k",
  branch_name: "b",
  status: "Active",
  metadata: {},
};
const smooth = {
  ...read("smooth/agent-1/c-1.json"),
  conversation: {
    ...(read("smooth/agent-1/c-1.json")["conversation"] as JsonObject),
    messages: [
      {
        id: "m",
        role: "user",
        content: "hi",
        timestamp: "2026-04-03T21:46:58Z",
        images: [{ url: "https://x/y", detail: "low" }],
      },
      {
        ...{
          id: "n",
          role: "assistant",
          content: "",
          timestamp: "2026-04-03T21:46:58Z",
          reasoning_content: "why",
        },
        tool_calls: [{ id: "c", name: "read", arguments: { path: "a" } }],
      },
      {
        id: "o",
        role: "tool",
        content: "ok",
        tool_call_id: "c",
        tool_name: "read",
        timestamp: "2026-04-03T21:46:58Z",
      },
    ],
  },
};

/**
 * A file with all that is known, for each kind of file. `apart` makes it one that has nothing to do
 * with the others.
 */
const samples: readonly {
  readonly kind: MigrationKind;
  readonly of: string;
  readonly file: JsonObject;
  readonly name: (id: string) => string;
  readonly apart: (file: JsonObject, id: string) => JsonObject;
  readonly beside?: (id: string) => Files;
}[] = [
  {
    kind: "ares",
    of: "checkpoint",
    file: { ...read("ares/a_1.json"), ttl_secs: 60, status: { Failed: "x" } },
    name: (id) => `${id}.json`,
    apart: (file, id) => ({ ...file, session_id: `s-${id}` }),
  },
  {
    kind: "ccswarm",
    of: "checkpoint",
    file: read("ccswarm/sessions/session-1/0b6a1a5e-6b1c-4a55-9b0b-0e6d0c0a0002.json"),
    name: (id) => `sessions/s/${id}.json`,
    apart: (file, id) => ({ ...file, id, session_id: `s-${id}` }),
  },
  {
    kind: "ccswarm",
    of: "index",
    file: indexed,
    name: () => "index.json",
    apart: (file, id) => ({ [id]: file }),
    beside: (id) => ({
      [`sessions/s/${id}.json`]: { ...indexed, id, session_id: `s-${id}`, state: {}, metadata: {} },
    }),
  },
  {
    kind: "ccswarm",
    of: "forks",
    file: fork,
    name: () => "forks.json",
    apart: (file, id) => ({ forks: { [id]: { ...file, fork_id: `f-${id}` } } }),
    beside: () => ({
      "sessions/s/k.json": { id: "k", session_id: "session-1", state: {}, metadata: {} },
    }),
  },
  {
    kind: "smooth",
    of: "checkpoint",
    file: smooth,
    name: (id) => `a/${id}.json`,
    apart: (file, id) => ({ ...file, agent_id: `a-${id}` }),
  },
  {
    kind: "aethershell",
    of: "conversation",
    file: read("aethershell/conversations/conv-1.json"),
    name: (id) => `conversations/${id}.json`,
    apart: (file, id) => ({ ...file, id: `c-${id}` }),
  },
  {
    kind: "aethershell",
    of: "agent",
    file: read("aethershell/agents/agent-1.json"),
    name: (id) => `agents/${id}.json`,
    apart: (file, id) => ({ ...file, agent_id: `a-${id}` }),
  },
  {
    kind: "aethershell",
    of: "checkpoint",
    file: checkpointFile(),
    name: (id) => `checkpoints/${id}.json`,
    apart: ({ conversations, ...file }, id) => ({
      ...file,
      id: `k-${id}`,
      agent_id: `a-${id}`,
      conversations: Array.isArray(conversations)
        ? conversations.map((each) => (each.id === "x" ? { ...each, id: `c-${id}` } : each))
        : conversations,
    }),
  },
];

function checkpointFile(): JsonObject {
  return Object.values(
    checkpoint("k", 1, [conversation("x", 2, { title: "T", tags: ["t"], metadata: { k: "v" } })]),
  )[0] as JsonObject;
}

type Path = readonly (string | number)[];
/** Of what these hold, everything is kept whole: one place in them stands for all. */
const WHOLE = ["state", "config", "custom_state", "arguments"];
/** Messages of a checkpoint are read as those of a conversation. */
const MAX_DEPTH: Readonly<Record<string, number>> = { "aethershell checkpoint": 3 };
/** The value at each place of a value, the outermost first. One item of a list stands for all. */
function* places(value: Json, path: Path = []): Generator<readonly [Path, Json]> {
  yield [path, value];
  if (typeof value !== "object" || value === null) return;
  const entries = Array.isArray(value)
    ? (value as readonly Json[]).map((item, i) => [i, item] as const)
    : Object.entries(value);
  const chosen =
    Array.isArray(value) || WHOLE.includes(String(path.at(-1))) ? entries.slice(0, 1) : entries;
  for (const [key, item] of chosen) yield* places(item as Json, [...path, key]);
}
const placesOf = ({ kind, of, file }: (typeof samples)[number]) =>
  [...places(file)].filter(([path]) => path.length <= (MAX_DEPTH[`${kind} ${of}`] ?? 100));
function changed(value: Json, [key, ...rest]: Path, to: (value: Json) => Json): Json {
  if (key === undefined) return to(value);
  if (Array.isArray(value))
    return (value as readonly Json[]).map((item, i) =>
      i === key ? changed(item, rest, to) : item,
    );
  const of = value as JsonObject;
  return { ...of, [key]: changed(of[key] as Json, rest, to) };
}

interface Imported {
  readonly report: MigrationReport;
  readonly seen: string;
  readonly store: string;
}
async function imported(kind: MigrationKind, files: Files): Promise<Imported> {
  const store = join(place(), "s.db");
  const report = await migrate(kind, put(place(), files), store);
  return { report, seen: await using(store, dump), store };
}

/** All that a store says, as text. */
async function dump(hold: Holdfast): Promise<string> {
  const all: unknown[] = [];
  for (const session of (await hold.sessions.list({ limit: 1_000 })).items)
    all.push(
      await hold.sessions.state(session.id),
      (await hold.checkpoints.list(session.id, { limit: 1_000 })).items,
    );
  for (const record of (await hold.agents.list({ limit: 1_000 })).items)
    all.push(record, (await hold.agents.snapshots(record.id, { limit: 1_000 })).items);
  return JSON.stringify(all);
}

/** Many files that differ from a sample in one place each, in one import. */
async function eachApart(
  sample: (typeof samples)[number],
  changes: readonly ((file: JsonObject) => Json)[],
): Promise<Imported> {
  const files: Record<string, unknown> = {};
  for (const [i, change] of changes.entries()) {
    const id = `n${i}`;
    const file = sample.apart(change(sample.file) as JsonObject, id);
    const name = sample.name(id);
    const before = files[name] as JsonObject | undefined;
    // Several in one file.
    if (before === undefined) files[name] = file;
    else if ("forks" in before)
      files[name] = {
        forks: { ...(before["forks"] as JsonObject), ...(file["forks"] as JsonObject) },
      };
    else files[name] = { ...before, ...file };
    Object.assign(files, sample.beside?.(id));
  }
  const text = Object.fromEntries(
    Object.entries(files).map(([name, file]) => [
      name,
      JSON.stringify(file).replaceAll(/"@(\d+)@"/g, "$1"),
    ]),
  );
  return imported(sample.kind, text);
}

const named = ({ report }: Imported) =>
  report.notes.flatMap(({ what }) =>
    [...what.matchAll(/^Field "(.*)" cannot be mapped/g)].map((found) => String(found[1])),
  );

describe.each(samples)("$kind, $of", (sample) => {
  test("an unknown field of any object is kept", async () => {
    const objects = placesOf(sample).filter(
      ([, value]) => typeof value === "object" && value !== null && !Array.isArray(value),
    );
    const changes = objects.map(
      ([path], i) =>
        (file: JsonObject): Json =>
          changed(file, path, (value) => ({ ...(value as JsonObject), unheard: `canary-${i}.` })),
    );
    const found = await eachApart(sample, changes);
    expect(found.report.skipped).toEqual([]);
    for (const i of changes.keys())
      expect(found.seen, JSON.stringify(objects[i]?.[0])).toContain(`canary-${i}.`);
    expect(named(found).length).toBeGreaterThan(0);
  });

  test.each([
    ["an odd value", (i: number): Json => ({ odd: `canary-${i}.` }), (i: number) => `canary-${i}.`],
    [
      "a number past 2^53",
      (i: number): Json => `@${9_007_199_254_740_993n + 2n * BigInt(i)}@`,
      (i: number) => String(9_007_199_254_740_993n + 2n * BigInt(i)),
    ],
  ])("%s in the place of any value is kept, or its file is named", async (_name, odd, text) => {
    const chosen = placesOf(sample).filter(([path]) => path.length > 0);
    const found = await eachApart(
      sample,
      chosen.map(
        ([path], i) =>
          (file: JsonObject): Json =>
            changed(file, path, () => odd(i)),
      ),
    );
    const { skipped, notes } = found.report;
    const said = JSON.stringify([skipped, notes]);
    for (const [i, [path]] of chosen.entries()) {
      // These are what tells the files apart here.
      if (
        path.length === 1 &&
        ["id", "session_id", "agent_id", "fork_id"].includes(String(path[0]))
      )
        continue;
      // What was skipped is named; so is what was left out.
      const isNamed =
        skipped.some((each) => each.path === sample.name(`n${i}`)) ||
        notes.some(
          (each) =>
            (each.path === sample.name(`n${i}`) || each.what.includes(`"n${i}"`)) &&
            each.what.includes("left out"),
        );
      // The content of an attachment is stored as a blob.
      if (path.includes("attachments") && path.at(-1) === "content") continue;
      expect(
        found.seen.includes(text(i)) || isNamed || said.includes(text(i)),
        JSON.stringify(path),
      ).toBe(true);
    }
  });
});

const unmappedIn = (metadata: JsonObject | undefined) =>
  (metadata?.["source"] as JsonObject | undefined)?.["unmapped"];

describe("a field is kept where it belongs, by its path, and named once with how often it was found", () => {
  test("ares", async () => {
    const messages = [{ role: "user", content: "hi", cost: 1 }];
    const { report, store } = await imported("ares", {
      "a_0.json": { ...ares({ step: 0, messages }), extra: { deep: [null] } },
      "a_1.json": {
        ...ares({
          step: 1,
          messages: [...messages, { role: "assistant", content: "yo", cost: 2 }],
        }),
        extra: null,
      },
    });
    expect(report.notes).toEqual([
      {
        path: "a_0.json",
        what: 'Field "messages[].cost" cannot be mapped. Its value is kept in metadata.source.unmapped. Found 3 times, here first.',
      },
      {
        path: "a_0.json",
        what: 'Field "extra" cannot be mapped. Its value is kept in metadata.source.unmapped. Found 2 times, here first.',
      },
    ]);
    await using(store, async (hold) => {
      expect(
        (await hold.sessions.state("a")).messages.map(({ metadata }) => unmappedIn(metadata)),
      ).toEqual([{ cost: 1 }, { cost: 2 }]);
      expect(
        (await hold.checkpoints.list("a")).items.map(({ metadata }) => unmappedIn(metadata)),
      ).toEqual([{ extra: null }, { extra: { deep: [null] } }]);
    });
  });

  test("ccswarm: a count of tokens past 2^53 is kept as text", async () => {
    const text = JSON.stringify({
      id: "k",
      session_id: "s",
      state: {},
      metadata: { token_count: "@", tasks_completed: 3, hue: 1 },
    });
    const { report, store } = await imported("ccswarm", {
      "sessions/s/k.json": text.replace('"@"', "9007199254740993"),
      "index.json": { k: { id: "k", rank: 7 } },
      "forks.json": {
        version: 2,
        forks: { f: { ...fork, parent_session_id: "s", colour: "red" } },
        children: { s: ["f", "gone"] },
      },
    });
    expect(report.notes.map(({ path, what }) => [path, what])).toEqual(
      expect.arrayContaining([
        [
          "sessions/s/k.json",
          "1 number is past what a double holds and kept as text: metadata.token_count.",
        ],
        [
          "sessions/s/k.json",
          expect.stringContaining('Field "metadata.token_count" cannot be mapped'),
        ],
        ["index.json", expect.stringContaining('Field "[].rank" cannot be mapped')],
        ["forks.json", expect.stringContaining('Field "forks[].colour" cannot be mapped')],
        ["forks.json", expect.stringContaining('Field "version" cannot be mapped')],
        ["forks.json", expect.stringContaining('"gone", which is no fork')],
      ]),
    );
    await using(store, async (hold) => {
      const latest = await hold.checkpoints.latest("s");
      expect(latest).toMatchObject({ tasksCompleted: 3 });
      expect(latest).not.toHaveProperty("tokenCount");
      expect(unmappedIn(latest?.metadata)).toEqual({
        "metadata.token_count": "9007199254740993",
        "metadata.hue": 1,
        "index.json.rank": 7,
      });
      expect(unmappedIn((await hold.sessions.get("f"))?.metadata)).toEqual({
        colour: "red",
        "forks.json.version": 2,
      });
    });
  });

  test("smooth, also of a database that has other columns", async () => {
    const path = join(place(), "a.db");
    const db = openDriver(path);
    db.exec(`CREATE TABLE checkpoints (id TEXT PRIMARY KEY, agent_id TEXT, iteration INTEGER, conversation BLOB, metadata TEXT, created_at INTEGER,
      cost REAL, "a ""b" INTEGER, bytes BLOB, empty TEXT, made TEXT GENERATED ALWAYS AS (id) VIRTUAL)`);
    const said = {
      id: "c",
      mood: "good",
      messages: [{ id: "m", role: "user", content: "hi", stars: 5 }],
      max_context_tokens: 1,
    };
    db.prepare(
      "INSERT INTO checkpoints VALUES ('k', 'ag', 1, CAST(? AS BLOB), '[1]', 1775270000, 0.5, 9223372036854775807, x'00ff', NULL)",
    ).run(JSON.stringify(said));
    db.close();
    const store = join(place(), "s.db");
    const report = await migrate("smooth", path, store);
    expect(named({ report, seen: "", store })).toEqual([
      "conversation.messages[].stars",
      "cost",
      String.raw`[\"a \\\"b\"]`,
      "bytes",
      "metadata",
      "conversation.mood",
    ]);
    await using(store, async (hold) => {
      expect(unmappedIn((await hold.checkpoints.latest("ag"))?.metadata)).toEqual({
        ...{
          cost: 0.5,
          '["a \\"b"]': "9223372036854775807",
          bytes: { hex: "00FF" },
          metadata: "[1]",
          "conversation.mood": "good",
        },
      });
      expect(
        (await hold.sessions.state("ag")).messages.map(({ metadata }) => unmappedIn(metadata)),
      ).toEqual([{ stars: 5 }]);
    });
    expect((await migrate("smooth", path, store)).sessions).toMatchObject([{ outcome: "known" }]);
  });

  test("aethershell: of messages, conversations, agents and checkpoints", async () => {
    const calls = [{ id: "c", name: "n", arguments: {}, result: null, status: "Running", ms: 12 }];
    const said = (turns: number) =>
      conversation("x", turns, {
        mood: turns,
        messages: [message(0, { vote: 1, tool_calls: calls, tokens: 4 })],
      });
    const { report, store } = await imported("aethershell", {
      ...checkpoint("c1", 10, [said(1)], {
        agent_state: agent({ shade: 1 }),
        flavour: "sweet",
        checkpoint_type: "Hourly",
      }),
      "conversations/x.json": said(2),
      "agents/ag.json": agent({ shade: 2, name: "n".repeat(300) }),
    });
    expect(named({ report, seen: "", store }).toSorted()).toEqual(
      [
        ...[
          "agent_state.shade",
          "shade",
          "name",
          "checkpoint_type",
          "flavour",
          "conversations[].mood",
          "mood",
        ],
        ...[
          "conversations[].messages[].vote",
          "conversations[].messages[].tool_calls[].ms",
          "messages[].vote",
          "messages[].tool_calls[].ms",
        ],
      ].toSorted(),
    );
    await using(store, async (hold) => {
      expect(
        (await hold.sessions.state("x")).messages.map(({ metadata }) => unmappedIn(metadata)),
      ).toEqual([{ vote: 1, "tool_calls[0].ms": 12 }]);
      expect(
        (await hold.checkpoints.list("x")).items.map(({ metadata }) => unmappedIn(metadata)),
      ).toEqual([{ mood: 2 }, { mood: 1 }]);
      expect(unmappedIn((await hold.sessions.get("x"))?.metadata)).toEqual({ mood: 2 });
      expect(unmappedIn((await hold.agents.get("ag"))?.metadata)).toEqual({
        shade: 2,
        name: "n".repeat(300),
      });
      const [snapshot] = (await hold.agents.snapshots("ag")).items;
      expect(unmappedIn(snapshot?.metadata)).toEqual({
        flavour: "sweet",
        checkpoint_type: "Hourly",
      });
      await hold.agents.restore(snapshot?.id as string);
      expect(unmappedIn((await hold.sessions.get("x"))?.metadata)).toEqual({ mood: 1 });
      expect(unmappedIn((await hold.agents.get("ag"))?.metadata)).toEqual({ shade: 1 });
    });
  });

  test("a checkpoint without an agent: its conversations keep what it says", async () => {
    const { store } = await imported(
      "aethershell",
      checkpoint("c1", 10, [conversation("x", 1)], { agent_state: null, flavour: "sweet" }),
    );
    await using(store, async (hold) =>
      expect(unmappedIn((await hold.checkpoints.latest("x"))?.metadata)).toEqual({
        "checkpoint.flavour": "sweet",
      }),
    );
    const alone = await imported("aethershell", {
      ...checkpoint("c1", 10, [], { agent_state: 7, flavour: "sweet" }),
      "conversations/x.json": conversation("x", 1),
    });
    expect(alone.report.skipped.map(({ why }) => why)).toEqual(
      ["agent_state", "flavour"].map((field) =>
        expect.stringContaining(`Field "${field}" belongs to no agent`),
      ),
    );
  });
});

describe("a field that metadata cannot hold", () => {
  test("is left out and said where it is too large, and the rest is imported", async () => {
    const large = "y".repeat(2_000_000);
    const { report, seen } = await imported("ares", {
      "a_0.json": { ...ares({ step: 0 }), large, small: "kept" },
    });
    expect(report.skipped).toEqual([
      { path: "a_0.json", why: 'Field "large" is too large for metadata: left out.' },
    ]);
    expect(report.sessions).toMatchObject([{ outcome: "imported", checkpoints: 1 }]);
    expect(seen).toContain('"unmapped":{"small":"kept"}');
  });

  test("is kept as JSON text where Holdfast refuses its value", async () => {
    const deep = `${"[".repeat(600)}7${"]".repeat(600)}`;
    const text = JSON.stringify({ ...ares({ step: 0 }), half: ["\ud800"], deep: "@" }).replace(
      '"@"',
      deep,
    );
    const { report, store } = await imported("ares", { "a_0.json": text });
    expect(report.skipped).toEqual([]);
    await using(store, async (hold) => {
      expect(unmappedIn((await hold.checkpoints.latest("a"))?.metadata)).toEqual({
        half: String.raw`["\ud800"]`,
        deep,
      });
    });
  });

  test("keys that look alike are kept apart", async () => {
    const { seen } = await imported("ccswarm", {
      "sessions/s/k.json": {
        ...{ id: "k", session_id: "s", state: {}, "metadata.hue": 1, metadata: { hue: 2 } },
        [`${"k".repeat(200)}1`]: 3,
        [`${"k".repeat(200)}2`]: 4,
        __proto__: null,
      },
    });
    expect(seen).toContain(String.raw`"[\"metadata.hue\"]":1`);
    expect(seen).toContain('"metadata.hue":2');
    expect(seen).toContain('k1":3');
    expect(seen).toContain('k2":4');
  });
});
