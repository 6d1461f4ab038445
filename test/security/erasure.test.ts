/**
 * Erasure as a table: each place where a text can stand, crossed with what copies it, on every
 * store. After `redact`, no read and no byte of the store holds the text, or `left` names the
 * place. Each row is its own control: before `redact`, the text is found.
 */
import { rmSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { baseTuning } from "../../src/core/journal/session-state.js";
import { type RedactWhat } from "../../src/features/redaction/matcher.js";
import { Holdfast as Opened } from "../../src/holdfast.js";
import {
  agent,
  type Holdfast,
  HoldfastError,
  type MessageInput,
  open,
  type RedactReport,
  restoreBackup,
  type Session,
  type SessionOptions,
} from "../../src/index.js";
import { openStore } from "../../src/open.js";
import { thisMachine } from "../../src/store/machine.js";
import type { Store } from "../../src/store/port.js";
import { filesWith } from "../support/bytes.js";
import { everyRead, kept } from "../support/everything.js";
import { wrapped } from "../support/failures/wrapped.js";
import { asks, script } from "../support/processes.js";
import { eachNth } from "../support/runs.js";
import { everyStore, type StoreKind, stores } from "../support/stores.js";

const SECRET = "Thessaly-Okonkwo-70331-quayside";

const { slackBytes } = baseTuning;
beforeEach(() => {
  baseTuning.slackBytes = 300;
});
afterEach(() => {
  baseTuning.slackBytes = slackBytes;
});

interface Row {
  readonly place: string;
  /** Puts the text into session `a`, and copies it. */
  readonly plant: (hold: Holdfast, kind: StoreKind, address: string) => Promise<unknown>;
  /** What `left` says, where something stays. Postgres always names its own files besides. */
  readonly left?: readonly RegExp[];
  /** Does what `left` says is to be done. */
  readonly then?: (hold: Holdfast, report: RedactReport) => Promise<unknown>;
  /** Names that stay: neither a read nor a byte search can be empty. */
  readonly stays?: true;
}

const said = (content: MessageInput["content"]): MessageInput => ({ role: "user", content });

/** Works on a session that it opens, and answers its last checkpoint. */
async function on(
  hold: Holdfast,
  id: string,
  work: (session: Session) => unknown,
  o?: SessionOptions,
): Promise<string> {
  const session = await hold.session(id, o);
  await work(session);
  const checkpoint = await session.checkpoint();
  await session.close();
  return checkpoint.id;
}

/** So many steps that a base is written, and another. */
async function steps(session: Session, count = 10): Promise<void> {
  for (let n = 0; n < count; n++) {
    session.append(said(`step ${n}`));
    session.set("step", { n, words: "plain ".repeat(60) });
    await session.checkpoint();
  }
}

const work = (hold: Holdfast, id: string): Promise<string> =>
  on(hold, id, (session) => steps(session));
const redactOthers = async (hold: Holdfast, { others }: RedactReport) => {
  for (const id of others) await hold.sessions.redact(id, SECRET);
};

const acting = (hold: Holdfast, tools = {}) =>
  hold.agent({
    name: "ann",
    model: script(
      asks(["look", { who: SECRET }]),
      `found ${SECRET}`,
      "yes",
      "again",
      "and again",
      "more",
    ),
    tools: {
      look: { mode: "repeatable", run: async ({ who }: { who: string }) => ({ found: who }) },
      ...tools,
    },
  });

const rows: readonly Row[] = [
  // ---- forks and bases
  {
    place: "state, copied into a base of a fork",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", { name: SECRET })), {
        id: "f",
      });
      await work(hold, "f");
    },
  },
  {
    place: "state as a body of its own, copied into a base of a fork",
    plant: async (hold) => {
      await hold.sessions.fork(
        await on(hold, "a", (a) => a.set("who", `${SECRET} ${"x".repeat(9_000)}`)),
        {
          id: "f",
        },
      );
      await work(hold, "f");
    },
  },
  {
    place: "state, copied into bases of a fork of a fork, and of a deleted one between them",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", SECRET)), { id: "f" });
      await hold.sessions.fork(await work(hold, "f"), { id: "g" });
      await hold.sessions.delete("f");
      await work(hold, "g");
    },
  },
  {
    place: "a list, copied into a base of a fork that has put items of its own between",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("list", ["one", SECRET, "two"])), {
        id: "f",
      });
      await on(hold, "f", async (f) => {
        f.splice("list", 1, 0, "between");
        await steps(f);
      });
    },
  },
  {
    place: "the past of a fork, copied into a base of its origin",
    plant: async (hold) => {
      await hold.sessions.fork(
        await on(hold, "forkPoint", (session) => session.set("who", SECRET)),
        {
          id: "a",
        },
      );
      await work(hold, "forkPoint");
      await work(hold, "a");
    },
  },
  {
    place: "inputs and outputs of calls, output and title, copied into a base of a fork",
    plant: async (hold) => {
      await acting(hold).run("a", `who is ${SECRET}?`);
      const { items } = await hold.checkpoints.list("a", { limit: 1 });
      await hold.sessions.fork((items[0] as { id: string }).id, { id: "f" });
      await work(hold, "f");
    },
  },
  {
    place: "a call by hand, copied into a base of a fork",
    plant: async (hold) => {
      const id = await on(hold, "a", (a) =>
        a.effect("mail", { to: SECRET }, { mode: "once", key: "k" }, async ({ to }) => ({
          sent: to,
        })),
      );
      await hold.sessions.fork(id, { id: "f" });
      await work(hold, "f");
    },
  },
  {
    place: "a signal that waits, copied into a base of a fork",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.append(said("hello")));
      await hold.sessions.signal("a", "news", { of: SECRET });
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said("more"))), { id: "f" });
      await work(hold, "f");
    },
  },
  {
    place: "words of a fork's own",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET))), { id: "f" });
      await on(hold, "f", (f) => f.append(said(`I say ${SECRET}, too`)));
    },
  },
  {
    place: "state of a fork's own, copied into its base",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET))), { id: "f" });
      await on(hold, "f", async (f) => {
        f.set("mine", `my ${SECRET}`);
        await steps(f);
      });
    },
  },
  {
    place: "tags, metadata and mail of a fork's own",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET))), { id: "f" });
      await hold.sessions.update("f", { tags: [SECRET], metadata: { of: SECRET } });
    },
  },
  {
    place: "state that was pruned, and is only in a base of a fork",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", SECRET)), { id: "f" });
      await work(hold, "f");
      await on(hold, "a", (a) => a.set("who", "another"));
      await work(hold, "a");
      await hold.checkpoints.prune("f", { keep: 1 });
      await hold.checkpoints.prune("a", { keep: 1 });
    },
  },
  {
    place: "names in a fork's own records",
    plant: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET))), { id: "f" });
      await on(hold, "f", (f) => f.set(`of ${SECRET}`, 1));
    },
    left: [/names by which things are known/],
    stays: true,
  },
  {
    place: "the tags of a fork, in a snapshot",
    plant: async (hold) => {
      await hold.sessions.fork(
        await on(hold, "a", (a) => a.append(said(SECRET)), { agent: "ann" }),
        {
          id: "f",
        },
      );
      await hold.sessions.update("f", { tags: [SECRET] });
      await hold.agents.snapshot("ann");
      await hold.sessions.update("f", { tags: [] });
    },
  },
  {
    place: "the title of a fork, whose message was pruned before",
    plant: async (hold) => {
      const id = await on(hold, "a", async (a) => {
        a.append(said(SECRET));
        await a.checkpoint();
        a.splice("messages", 0, 1, said("summary"));
        await steps(a);
      });
      await hold.checkpoints.prune("a", { keep: 1 });
      await hold.sessions.fork(id, { id: "f" });
    },
    left: [/redact "f", too/],
    then: redactOthers,
  },
  // ---- rewinds
  {
    place: "a past that was left by a rewind, with bases behind it",
    plant: (hold) =>
      on(hold, "a", async (a) => {
        a.append(said("hello"));
        const { id } = await a.checkpoint();
        a.append(said(SECRET));
        a.set("who", SECRET);
        await steps(a);
        await a.rewind(id);
        await steps(a);
      }),
  },
  {
    place: "a past that was left by a rewind, and then forked",
    plant: async (hold) => {
      let left = "";
      await on(hold, "a", async (a) => {
        const { id } = await a.checkpoint();
        a.set("who", SECRET);
        left = (await a.checkpoint()).id;
        await a.rewind(id);
        a.append(said("another way"));
      });
      await hold.sessions.fork(left, { id: "f" });
      await work(hold, "f");
    },
  },
  // ---- snapshots
  {
    place: "a snapshot: titles, tags and metadata",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.append(said(`I am ${SECRET}`)), {
        agent: "ann",
        tags: [SECRET],
        metadata: { of: SECRET },
      });
      await hold.agents.snapshot("ann");
      await hold.sessions.update("a", { tags: [], metadata: {} });
    },
  },
  {
    place: "what a restore went back from, and to",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.set("who", SECRET), { agent: "ann" });
      const { id } = await hold.agents.snapshot("ann");
      await on(hold, "a", (a) => a.append(said(SECRET)));
      await hold.agents.restore(id);
      await work(hold, "a");
    },
  },
  {
    place: "a deleted fork that a snapshot keeps",
    plant: async (hold) => {
      await hold.sessions.fork(
        await on(hold, "a", (a) => a.append(said(SECRET)), { agent: "ann" }),
        {
          id: "f",
        },
      );
      await on(hold, "f", (f) => f.append(said(`and ${SECRET} again`)));
      await hold.agents.snapshot("ann");
      await hold.sessions.delete("f");
    },
  },
  // ---- beside the journal
  {
    place: "title, tags, metadata and archived",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.append(said("hello")), {
        title: `of ${SECRET}`,
        tags: [SECRET],
        metadata: { [SECRET]: SECRET },
      });
      await hold.sessions.update("a", { archived: true });
    },
  },
  {
    place: "label, description, metadata and reason of checkpoints",
    plant: async (hold) => {
      const a = await hold.session("a");
      await a.checkpoint({ label: SECRET, description: SECRET, metadata: { of: SECRET } });
      await a.halt(`no more of ${SECRET}`);
      await a.close();
    },
  },
  {
    place: "letters that wait: signals, turns, cancels",
    plant: async (hold) => {
      const bot = acting(hold);
      await bot.submit("a", `who is ${SECRET}?`, { atMs: 8e15 });
      const session = await hold.session("a");
      await hold.sessions.signal("a", "news", { of: SECRET });
      await session.close();
    },
  },
  {
    place: "keys of appends and signals",
    plant: async (hold) => {
      await hold.sessions.append("a", [said("hello")], { key: `append ${SECRET}`, create: true });
      await hold.sessions.signal("a", "news", 1, { key: `signal ${SECRET}` });
      await hold.sessions.append("a", [said(SECRET)]);
    },
  },
  {
    place: "keys of forks, updates and deletes",
    plant: async (hold) => {
      const id = await on(hold, "a", (a) => a.append(said(SECRET)));
      await hold.sessions.fork(id, { id: "f", key: `fork ${SECRET}` });
      await hold.sessions.update("a", { title: SECRET }, { key: `update ${SECRET}` });
      await hold.sessions.delete("f", { key: `delete ${SECRET}` });
    },
  },
  {
    place: "names: keys of turns and calls, state keys, signals, tools, message ids",
    plant: async (hold) => {
      await acting(hold).run("a", "hello", { key: `turn ${SECRET}` });
      await on(hold, "a", async (a) => {
        a.set(SECRET, 1);
        a.append({ ...said("x"), id: SECRET });
        await a.effect(`tool ${SECRET}`, {}, { mode: "once", key: SECRET }, async () => 1);
      });
    },
    left: [/names by which things are known/],
    stays: true,
  },
  {
    place: "names: the key of a turn that waits, its agent, its parent",
    plant: async (hold) => {
      const bot = hold.agent({ name: `bot of ${SECRET}`, model: script("yes") });
      await bot.submit("a", "hello", { key: `turn ${SECRET}`, atMs: 8e15 });
    },
    left: [/names by which things are known/, /what is kept of agent/],
    stays: true,
  },
  {
    place: "the input of a call that waits",
    plant: (hold) =>
      hold
        .agent({
          name: "ann",
          model: script(asks(["mail", { to: SECRET }]), "done"),
          tools: { mail: { mode: "once", approval: true, run: async () => 1 } },
        })
        .run("a", "hello"),
    left: [/inputs of calls that are not over/],
    then: async (hold) => {
      for (const { effectId } of (await hold.effects.list({ status: "waiting" })).items)
        await hold.effects.deny(effectId, { by: "bo", reason: "no" });
      await hold.sessions.redact("a", SECRET);
    },
  },
  {
    place: "the record of its agent",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.append(said(SECRET)), { agent: "ann" });
      await hold.agents.save({ id: "ann", state: { knows: SECRET } });
      await hold.agents.snapshot("ann");
    },
    left: [/what is kept of agent "ann"/, /delete "snap-/],
    then: async (hold) => {
      await hold.agents.set("ann", "knows", "nothing");
      for (const { id } of (await hold.agents.snapshots("ann")).items)
        await hold.agents.deleteSnapshot(id);
      expect((await hold.gc({ scrub: true })).left?.filter((one) => !/server/.test(one))).toEqual(
        [],
      );
    },
  },
  {
    place: "a session that its call ran",
    plant: async (hold) => {
      const child = agent({ name: "child", model: script(`${SECRET} it is`) });
      const tools = {
        delegate: {
          mode: "repeatable" as const,
          run: async (
            _input: object,
            { run }: { run: (one: typeof child, input: string) => Promise<unknown> },
          ) => void (await run(child, `look for ${SECRET}`)),
        },
      };
      await hold
        .agent({ name: "ann", model: script(asks(["delegate", {}]), "done"), tools: tools as {} })
        .run("a", `hello ${SECRET}`);
    },
    left: [/what other sessions said themselves/],
    then: redactOthers,
  },
  // ---- bodies
  {
    place: "files: texts, bytes, and a large message",
    plant: (hold) =>
      on(hold, "a", (a) => {
        const file = (bytes: Buffer) =>
          ({ type: "file", mediaType: "text/plain", name: SECRET, data: { bytes } }) as const;
        a.append(
          said([
            file(Buffer.from(`a file of ${SECRET}`)),
            file(Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(SECRET)])),
          ]),
        );
        a.append(said(`${"words ".repeat(3_000)}${SECRET}`));
      }),
  },
  {
    place: "a file that another session holds, too",
    plant: async (hold) => {
      const file = {
        type: "file",
        mediaType: "text/plain",
        data: { bytes: Buffer.from(`${"x".repeat(9_000)} ${SECRET}`) },
      } as const;
      for (const id of ["a", "b"]) await on(hold, id, (session) => session.append(said([file])));
    },
    left: [/bodies that other sessions hold/],
    then: (hold) => hold.sessions.redact("b", SECRET),
  },
  // ---- deleted and pruned
  {
    place: "what was pruned, and what was deleted",
    plant: async (hold) => {
      await on(hold, "a", async (a) => {
        a.set("who", SECRET);
        await a.checkpoint();
        a.set("who", "another");
        await steps(a);
      });
      await hold.checkpoints.prune("a", { keep: 1 });
      const id = await on(hold, "a", (a) => a.append(said(SECRET)));
      await hold.sessions.fork(id, { id: "f" });
      await on(hold, "f", (f) => f.append(said(`more of ${SECRET}`)));
      await hold.sessions.delete("f");
    },
  },
  {
    place: "words in the index for search",
    plant: async (hold) => {
      await on(hold, "a", (a) => a.append(said(`find ${SECRET} here`)));
      await hold.sessions.index();
      await hold.sessions.search("Thessaly");
    },
  },
];

/**
 * What is done later must not bring it back: restores, rewinds, forks, work with new bases, prunes,
 * moves, backups.
 */
async function goOn(hold: Holdfast, kind: StoreKind, address: string): Promise<void> {
  // What is above the stores is the same on all of them.
  if (kind.name !== "memory" && kind.name !== "sqlite") return;
  for (const { id: of } of (await hold.agents.list()).items)
    for (const { id } of (await hold.agents.snapshots(of)).items) await hold.agents.restore(id);
  const { items } = await hold.checkpoints.list("a", { limit: 100, branches: "all" });
  for (const at of [items.at(0)?.id, items.at(-1)?.id])
    if (at !== undefined) {
      await hold.sessions
        .rewind("a", at, { effects: "replay" })
        .catch((error: { code: string }) => expect(error.code).toBe("CONFLICT"));
      await work(hold, (await hold.sessions.fork(at)).id);
    }
  for (const { id } of (await hold.sessions.list()).items)
    await hold.checkpoints.prune(id, { keep: 1 });
  await hold.gc();
  const elsewhere = await open("memory:");
  expect((await elsewhere.import(await exported(hold))).conflicts).toEqual([]);
  expect(await everyRead(elsewhere)).not.toContain(SECRET);
  await elsewhere.close();
  expect(await everyRead(hold)).not.toContain(SECRET);
  expect(await kept(kind, address, SECRET)).toEqual([]);
  expect((await hold.verify()).findings).toEqual([]);
  if (kind.name !== "sqlite") return;
  await hold.backup(`${address}.copy`);
  expect(filesWith(`${address}.copy`, SECRET)).toEqual([]);
}

describe.each(stores)("redaction leaves nothing, or says so, on $name", (kind) => {
  const isServer = kind.name === "postgres";

  test.each(eachNth(2, rows))("$place", async ({ plant, left = [], then, stays }) => {
    const address = kind.address();
    const hold = await open(address);
    // Another process that has read it all: what it remembers must not be shown again.
    const other = kind.traits.shared ? await open(address) : undefined;
    try {
      await plant(hold, kind, address);
      // The control: it can be found.
      expect(
        (await everyRead(hold)).includes(SECRET) || (await kept(kind, address, SECRET)).length > 0,
      ).toBe(true);
      if (other) await everyRead(other);
      const report = await hold.sessions.redact("a", SECRET);
      const own = isServer ? report.left.filter((one) => !/server/.test(one)) : report.left;
      expect(own).toEqual(left.map((one) => expect.stringMatching(one)));
      if (stays) return;
      await then?.(hold, report);
      for (const each of other ? [hold, other] : [hold]) {
        expect(await everyRead(each)).not.toContain(SECRET);
        expect((await each.sessions.search("Thessaly")).items).toEqual([]);
      }
      expect(await kept(kind, address, SECRET)).toEqual([]);
      expect((await hold.verify()).findings).toEqual([]);
      await goOn(hold, kind, address);
    } finally {
      await other?.close();
      await hold.close();
    }
  });
});

/** What can be redacted, besides a text. A function changes it, too. */
const whats: readonly (readonly [string, RedactWhat])[] = [
  ["a pattern", /Thessaly-[\w-]+/],
  ["several texts", ["nothing of this", SECRET]],
  ["a function", (text) => text.replaceAll(SECRET, "…")],
];

describe.each(stores)(
  "copies in forks go, in each way to say what is redacted, on $name",
  (kind) => {
    test.each(whats)("%s", async (_name, what) => {
      const address = kind.address();
      const hold = await open(address);
      const id = await on(hold, "a", async (a) => {
        a.set("who", { name: SECRET });
        await a.effect("mail", { to: SECRET }, { mode: "once", key: "k" }, async ({ to }) => ({
          sent: to,
        }));
      });
      await hold.sessions.fork(id, { id: "f" });
      await work(hold, "f");
      await hold.sessions.redact("a", what);
      expect(await everyRead(hold)).not.toContain(SECRET);
      expect(await kept(kind, address, SECRET)).toEqual([]);
      await hold.close();
    });

    test("a message: with its calls, and their copies", async () => {
      const address = kind.address();
      const hold = await open(address);
      await acting(hold).run("a", "who is it?");
      const asked = (await hold.sessions.state("a")).messages.find(
        ({ role }) => role === "assistant",
      );
      const { items } = await hold.checkpoints.list("a", { limit: 1 });
      await hold.sessions.fork((items[0] as { id: string }).id, { id: "f" });
      await work(hold, "f");
      await hold.sessions.redact("a", { message: asked?.id as string });
      expect(
        JSON.stringify([
          (await hold.sessions.state("f")).messages[1],
          (await hold.sessions.state("a")).messages[1],
        ]),
      ).not.toContain(SECRET);
      expect((await hold.verify()).findings).toEqual([]);
      await hold.close();
    });

    test("what a fork said itself goes with what it shares", async () => {
      const hold = await open(kind.address());
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", { name: SECRET })), {
        id: "f",
      });
      await on(hold, "f", async (f) => {
        f.set("mine", { also: SECRET });
        await steps(f);
      });
      const { others } = await hold.sessions.redact("a", SECRET);
      expect(others).toEqual([]);
      expect((await hold.sessions.state("f")).state).toMatchObject({
        who: { name: "[redacted]" },
        mine: { also: "[redacted]" },
      });
      await hold.close();
    });
  },
);

describe.each(stores)("what a redaction must leave alone, on $name", (kind) => {
  test("what a fork says elsewhere: its records and its bases agree", async () => {
    const hold = await open(kind.address());
    await hold.sessions.fork(
      await on(hold, "a", (a) => (a.set("who", SECRET), a.set("list", [SECRET, "one"]))),
      { id: "f" },
    );
    await on(hold, "f", async (f) => {
      f.set("mine", SECRET);
      f.set("who", SECRET);
      await f.effect("mail", { to: SECRET }, { mode: "once", key: "k" }, async ({ to }) => to);
      await f.checkpoint();
      await steps(f);
      await f.halt(`no more of ${SECRET}`);
    });
    const seen = async () => {
      const { items } = await hold.checkpoints.list("f", { limit: 100 });
      return Promise.all(items.map(async ({ id }) => (await hold.checkpoints.state(id)).state));
    };
    const before = await seen();
    expect((await hold.sessions.redact("a", SECRET)).others).toEqual([]);
    expect(await seen()).toEqual(
      JSON.parse(JSON.stringify(before).replaceAll(SECRET, "[redacted]")),
    );
    expect(before.filter((state) => "mine" in state).length).toBeGreaterThan(3);
    expect(await hold.sessions.get("f")).toMatchObject({ reason: "no more of [redacted]" });
    await hold.close();
  });

  test("short values that a message says, too", async () => {
    const hold = await open(kind.address());
    await on(hold, "a", async (a) => {
      a.set("status", "ok");
      a.set("count", 1);
      a.append({
        role: "assistant",
        content: [{ type: "tool-call", callId: "c", name: "look", input: 1 }],
      });
      a.append({
        role: "tool",
        id: "m",
        content: [{ type: "tool-result", callId: "c", outcome: "ok", output: "ok" }],
      });
    });
    await hold.sessions.redact("a", { message: "m" });
    const { state, messages } = await hold.sessions.state("a");
    expect(state).toEqual({ status: "ok", count: 1 });
    expect(JSON.stringify(messages[1])).toContain("[redacted]");
    await hold.close();
  });

  test("limits: what stands in the place of a text never makes a session unreadable", async () => {
    const hold = await open(kind.address());
    const session = await hold.session("a", {
      title: `B~b ${"t".repeat(996)}`,
      tags: [`B~b ${"g".repeat(190)}`, "B~b"],
    });
    session.append(said("B~b says hello"));
    await session.checkpoint({
      label: `B~b ${"l".repeat(996)}`,
      description: `B~b ${"d".repeat(99_990)}`,
    });
    await session.halt(`B~b ${"r".repeat(99_990)}`);
    await session.close();
    for (const o of [{}, { with: "two\nlines ".repeat(90) }]) {
      await hold.sessions.redact("a", o.with === undefined ? "B~b" : "[redacted]", o);
      expect((await hold.verify()).findings).toEqual([]);
      expect(await everyRead(hold)).not.toContain("B~b");
      const elsewhere = await open("memory:");
      expect((await elsewhere.import(await exported(hold))).conflicts).toEqual([]);
      await elsewhere.close();
    }
    await hold.close();
  });

  test("keys of other calls, and of the session if nothing is found", async () => {
    const hold = await open(kind.address());
    for (const id of ["a", "b"])
      await hold.sessions.append(id, [said("hello")], { create: true, key: `append ${id}` });
    for (const id of ["a", "b"])
      await hold.sessions.update(id, { title: "one" }, { key: `update ${id}` });
    const other = (id: string) =>
      hold.sessions.update(id, { title: "two" }, { key: `update ${id}` });
    const more = (id: string) => hold.sessions.append(id, [said("bye")], { key: `append ${id}` });
    await hold.sessions.redact("a", "nothing of this");
    for (const call of [other, more])
      for (const id of ["a", "b"])
        await expect(call(id)).rejects.toMatchObject({ code: "CONFLICT" });
    await hold.sessions.redact("a", "hello");
    for (const call of [other, more])
      await expect(call("b")).rejects.toMatchObject({ code: "CONFLICT" });
    for (const call of [other, more]) await call("a");
    await hold.close();
  });

  test("a fork that began before the text comes in with an export of before; what a refused import brought is not remembered", async () => {
    const hold = await open(kind.address());
    await hold.sessions.fork(await on(hold, "a", (a) => a.append(said("hello"))), { id: "g" });
    await on(hold, "a", (a) => a.append(said(SECRET)));
    const old = await exported(hold);
    await hold.sessions.redact("a", SECRET);
    const clean = await exported(hold);
    await remove(hold);
    await hold.gc();
    for (const outcome of ["imported", "known"]) {
      const { sessions, conflicts } = await hold.import(old);
      expect(conflicts.map(({ id, code }) => [id, code])).toEqual([["a", "CONFLICT"]]);
      expect(sessions).toEqual([{ id: "g", outcome }]);
    }
    await remove(hold);
    const elsewhere = await open("memory:");
    await elsewhere.import(clean);
    await elsewhere.sessions.redact("a", "hello");
    await on(hold, "a", (a) => a.append(said("another")));
    expect((await hold.import(await exported(elsewhere))).conflicts.length).toBeGreaterThan(0);
    await elsewhere.close();
    await remove(hold);
    await hold.gc();
    // The fork did come in, with more redacted.
    expect((await hold.import(clean)).conflicts.map(({ id }) => id)).toEqual(["g"]);
    await hold.close();
  });

  test("a pattern that asks for a whole text finds it in agents, in mail of forks and in files", async () => {
    const hold = await open(kind.address());
    await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET)), { agent: "ann" }), {
      id: "f",
    });
    await hold.agents.save({ id: "ann", state: { knows: SECRET } });
    await hold.sessions.signal("f", "news", SECRET);
    const { left, others } = await hold.sessions.redact("a", /^Thessaly-[\w-]+$/);
    expect(left.join()).toContain('agent "ann"');
    expect(others).toEqual([]);
    await hold.close();
  });
});

const ofMemory = stores.filter(
  ({ name }) => name === "memory" || name === "sqlite" || name === "dir",
);

test.each(ofMemory)(
  "killed before any write, it is run again, and nothing is left: $name",
  async (kind) => {
    for (let at = 1, isOver = false; !isOver; at++) {
      const address = kind.address();
      const store = await openStore(address);
      let writes = 0;
      const failing =
        <A extends readonly unknown[], R>(write: (...args: A) => Promise<R>) =>
        async (...args: A): Promise<R> => {
          writes += 1;
          if (writes >= at) throw new HoldfastError("IO", "killed");
          return write(...args);
        };
      const made = (of: Store, leaseMs = 30_000) =>
        new Opened(of, thisMachine(), { now: Date.now }, leaseMs);
      const hold = made(store);
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", SECRET)), { id: "f" });
      await work(hold, "f");
      await hold.sessions.update("a", { tags: [SECRET] });
      const killed = made(
        wrapped(store, {
          apply: failing(store.apply.bind(store)),
          reclaim: {
            replace: failing((...args: Parameters<typeof store.reclaim.replace>) =>
              store.reclaim.replace(...args),
            ),
          },
        }),
        100,
      );
      await killed.sessions
        .redact("a", SECRET)
        .catch((error: { code: string }) => expect(error.code).toBe("IO"));
      isOver = writes < at;
      expect((await hold.verify()).findings).toEqual([]);
      expect((await hold.sessions.redact("a", SECRET, { waitMs: 60_000 })).left).toEqual([]);
      expect(await everyRead(hold)).not.toContain(SECRET);
      expect(await kept(kind, address, SECRET)).toEqual([]);
      const clean = await exported(hold);
      await remove(hold);
      await hold.gc();
      expect((await hold.import(clean)).conflicts).toEqual([]);
      await hold.close();
      // The control: there is more than one write to be killed at.
      if (isOver) expect(at).toBeGreaterThan(8);
    }
  },
);

interface Move {
  readonly way: string;
  /**
   * Makes session `a`, and what goes with it. Answers the rows of an export that still has the
   * text.
   */
  readonly before: (hold: Holdfast) => Promise<readonly string[]>;
  readonly redact?: (hold: Holdfast) => Promise<unknown>;
  readonly then: (hold: Holdfast) => Promise<unknown>;
}

async function exported(hold: Holdfast): Promise<readonly string[]> {
  const all: string[] = [];
  for await (const row of hold.export()) all.push(row);
  return all;
}

const remove = async (hold: Holdfast): Promise<void> => {
  for (const { id } of (await hold.sessions.list({ limit: 100 })).items)
    await hold.sessions.delete(id);
};

const moves: readonly Move[] = [
  {
    way: "deleted",
    before: async (hold) => (await on(hold, "a", (a) => a.append(said(SECRET))), exported(hold)),
    then: remove,
  },
  {
    way: "deleted and freed",
    before: async (hold) => (
      await on(hold, "a", (a) => a.set("who", `${SECRET} ${"x".repeat(9_000)}`)), exported(hold)
    ),
    then: async (hold) => (await remove(hold), hold.gc({ scrub: true })),
  },
  {
    way: "pruned, deleted and freed",
    before: async (hold) => (await on(hold, "a", (a) => a.append(said(SECRET))), exported(hold)),
    then: async (hold) => {
      await work(hold, "a");
      await hold.checkpoints.prune("a", { keep: 1 });
      await remove(hold);
      await hold.gc();
    },
  },
  {
    way: "pruned before it was redacted",
    before: async (hold) => {
      await on(hold, "a", (a) => a.set("who", SECRET));
      const old = await exported(hold);
      await work(hold, "a");
      await hold.checkpoints.prune("a", { keep: 1 });
      return old;
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "in the title alone",
    before: async (hold) => {
      await on(hold, "a", async (a) => {
        a.append(said(SECRET));
        await a.checkpoint();
        a.splice("messages", 0, 1, said("summary"));
        await steps(a);
      });
      await hold.checkpoints.prune("a", { keep: 1 });
      return exported(hold);
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "redacted for another text first, exported, and then redacted",
    before: async (hold) => {
      await on(hold, "a", (a) => a.append(said(`hello ${SECRET}`)));
      await hold.sessions.redact("a", "hello");
      return exported(hold);
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "in tags and metadata only",
    before: async (hold) => {
      await on(hold, "a", (a) => a.append(said("hello")), {
        tags: [SECRET],
        metadata: { of: SECRET },
      });
      return exported(hold);
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "a fork, with the copy in its base",
    before: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.set("who", SECRET)), { id: "f" });
      await work(hold, "f");
      return exported(hold);
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "a fork with words of its own",
    before: async (hold) => {
      await hold.sessions.fork(await on(hold, "a", (a) => a.append(said(SECRET))), { id: "f" });
      await on(hold, "f", (f) => f.append(said("my own")));
      return exported(hold);
    },
    then: async (hold) => (await remove(hold), hold.gc()),
  },
  {
    way: "redacted in another store, and brought here",
    before: async (hold) => {
      const other = await open("memory:");
      await on(other, "a", (a) => a.append(said(SECRET)));
      const old = await exported(other);
      await other.sessions.redact("a", SECRET);
      await hold.import(await exported(other));
      await other.close();
      return old;
    },
    redact: async () => {},
    then: async (hold) => (await remove(hold), hold.gc()),
  },
];

describe.each(stores)("an export of before does not bring it back, on $name", (kind) => {
  const redactIt = (hold: Holdfast) => hold.sessions.redact("a", SECRET);

  test.each(moves)("$way", async ({ before, redact = redactIt, then }) => {
    const address = kind.address();
    let hold = await open(address);
    const old = await before(hold);
    // The control: elsewhere, the text comes with it.
    const elsewhere = await open("memory:");
    await elsewhere.import(old);
    expect(await everyRead(elsewhere)).toContain(SECRET);
    await remove(elsewhere);
    await elsewhere.gc();
    await redact(hold);
    const clean = await exported(hold);
    await then(hold);
    if (kind.traits.durable) {
      await hold.close();
      hold = await open(address);
    }
    const ids = (await hold.sessions.list()).items;
    expect(ids).toEqual([]);
    for (const dryRun of [true, false, false]) {
      const report = await hold.import(old, { dryRun });
      expect(report.sessions).toEqual([]);
      // Also forks: each time it is tried, and not as something that may work the next time.
      const refused = { code: "CONFLICT", message: expect.stringContaining("redacted here") };
      expect(report.conflicts).toEqual(report.conflicts.map(({ id }) => ({ id, ...refused })));
      expect(report.conflicts[0]?.id).toBe("a");
    }
    await hold.gc({ scrub: true });
    expect(await everyRead(hold)).not.toContain(SECRET);
    expect(await kept(kind, address, SECRET)).toEqual([]);
    // An export that was made afterwards is taken in, and one that was redacted further elsewhere.
    expect((await elsewhere.import(clean)).conflicts).toEqual([]);
    expect((await hold.import(clean)).conflicts).toEqual([]);
    await elsewhere.sessions.redact("a", /hello|redacted|another/, { with: "***" });
    const further = await exported(elsewhere);
    await elsewhere.close();
    await remove(hold);
    await hold.gc();
    expect((await hold.import(further)).conflicts).toEqual([]);
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });

  test("negative control: what was not redacted comes back", async () => {
    const hold = await open(kind.address());
    await on(hold, "a", (a) => a.append(said(SECRET)));
    const old = await exported(hold);
    await remove(hold);
    await hold.gc();
    expect((await hold.import(old)).conflicts).toEqual([]);
    expect(await everyRead(hold)).toContain(SECRET);
    await hold.close();
  });
});

describe.each(stores)("delete and scrub, on $name", (kind) => {
  /**
   * All that a session can leave: text in every place, a pruned past, rewinds, bodies, mail, an
   * index.
   */
  const fill = async (hold: Holdfast): Promise<void> => {
    await acting(hold).run("a", `who is ${SECRET}?`, { tags: [SECRET], metadata: { of: SECRET } });
    const first = await on(hold, "a", async (a) => {
      a.set("who", `${SECRET} ${"x".repeat(9_000)}`);
      await steps(a);
    });
    await on(hold, "a", (a) => a.append(said(SECRET)));
    await hold.sessions.rewind("a", first, { effects: "replay" });
    await hold.checkpoints.prune("a", { keep: 2 });
    await hold.sessions.signal("a", "news", SECRET, { key: SECRET });
    await hold.sessions.index();
  };

  test("after delete and gc with scrub, no byte of the store holds the text", async () => {
    const address = kind.address();
    const hold = await open(address);
    await on(hold, "b", (b) => b.append(said("something else")));
    await fill(hold);
    await hold.sessions.delete("a");
    // The control: deleted, it is still in the files of these.
    if (kind.name === "sqlite" || kind.name === "dir")
      expect(await kept(kind, address, SECRET)).not.toEqual([]);
    expect((await hold.gc()).left).toBeUndefined();
    const { left } = await hold.gc({ scrub: true });
    expect(kind.name === "postgres" ? left?.length : left).toEqual(
      kind.name === "postgres" ? 2 : [],
    );
    expect(await everyRead(hold)).not.toContain(SECRET);
    expect(await kept(kind, address, SECRET)).toEqual([]);
    expect((await hold.sessions.search("else")).items).toHaveLength(1);
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
    expect(await kept(kind, address, SECRET)).toEqual([]);
  });

  test("what forks and snapshots keep of a deleted session is named, and goes once they are deleted", async () => {
    const address = kind.address();
    const hold = await open(address);
    await hold.sessions.fork(
      await on(hold, "a", (a) => a.append(said(SECRET)), { agent: "ann", tags: [SECRET] }),
      { id: "f" },
    );
    await hold.sessions.update("f", { tags: [] });
    const { id } = await hold.agents.snapshot("ann");
    await hold.sessions.delete("a");
    const own = (left: readonly string[] = []) => left.filter((one) => !/server/.test(one));
    expect(own((await hold.gc({ scrub: true })).left)).toEqual([
      expect.stringContaining('"f"'),
      expect.stringContaining(id),
    ]);
    await hold.agents.deleteSnapshot(id);
    expect(own((await hold.gc({ scrub: true })).left)).toEqual([expect.stringContaining('"f"')]);
    await hold.sessions.delete("f");
    expect(own((await hold.gc({ scrub: true })).left)).toEqual([]);
    expect(await kept(kind, address, SECRET)).toEqual([]);
    await hold.close();
  });

  test("a dry run scrubs nothing", async () => {
    const hold = await open(kind.address());
    await fill(hold);
    await hold.sessions.delete("a");
    expect((await hold.gc({ dryRun: true, scrub: true })).left).toBeUndefined();
    await hold.close();
  });
});

test("a store that a restore put aside is named, by redact and by gc; once it is deleted, nothing is left", async () => {
  const kind = everyStore.find(({ name }) => name === "sqlite") as StoreKind;
  const [address, copy] = [kind.address(), `${kind.address()}.backup`];
  const first = await open(address);
  await on(first, "a", (a) => a.append(said(SECRET)));
  await first.backup(copy);
  await first.close();
  const { setAside = "" } = await restoreBackup(copy, address, { force: true });
  const hold = await open(address);
  const named = [expect.stringContaining(setAside)];
  expect((await hold.sessions.redact("a", SECRET)).left).toEqual(named);
  expect((await hold.gc({ scrub: true })).left).toEqual(named);
  expect(filesWith(address, SECRET)).toEqual([setAside]);
  for (const suffix of ["", "-anchors"]) rmSync(setAside + suffix, { force: true });
  expect((await hold.gc({ scrub: true })).left).toEqual([]);
  expect(filesWith(address, SECRET)).toEqual([]);
  await hold.close();
});
