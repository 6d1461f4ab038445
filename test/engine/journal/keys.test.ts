/**
 * KEY-1 to KEY-3: what is called under a key is done once, whoever did not hear the answer, on every
 * store.
 */
import { afterEach, describe, expect, test } from "vitest";
import { Holdfast as Hold } from "../../../src/holdfast.js";
import {
  agent,
  type Holdfast,
  HoldfastError,
  open,
  transcriptVersion,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import type { WholeStore as Store } from "../../../src/store/capabilities.js";
import { thisMachine } from "../../../src/store/machine.js";
import { type DocChange, RECEIPT } from "../../../src/store/port/documents.js";
import { scriptedModel } from "../../../src/testing/index.js";
import { errorOf } from "../../support/error-of.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { stores } from "../../support/stores.js";

const SECRET = "the heron flies at dawn";

/** A call, what it does when it is done, counted, and the same with another input. */
interface Case {
  readonly name: string;
  readonly call: (hold: Holdfast, at: Places, key: string | undefined) => Promise<unknown>;
  readonly other: (hold: Holdfast, at: Places, key: string) => Promise<unknown>;
  readonly done: (hold: Holdfast, at: Places) => Promise<number>;
}

interface Places {
  readonly first: string;
  readonly second: string;
  readonly snapshot: string;
  /** Of the messages in the session. */
  readonly version: string;
}

const o = (key: string | undefined) => (key === undefined ? undefined : { key });
const branches = async (hold: Holdfast) => {
  const { items } = await hold.checkpoints.list("s", { branches: "all" });
  return new Set(items.map(({ id }) => id.split("-")[0])).size;
};

const cases: readonly Case[] = [
  {
    name: "agents.save",
    call: (hold, _, key) => hold.agents.save({ id: "ann", system: SECRET }, o(key)),
    other: (hold, _, key) => hold.agents.save({ id: "ann", system: "other" }, { key }),
    done: async (hold) => ((await hold.agents.get("ann"))?.version ?? 0) - 1,
  },
  {
    name: "agents.set",
    call: (hold, _, key) => hold.agents.set("ann", "note", SECRET, o(key)),
    other: (hold, _, key) => hold.agents.set("ann", "note", "other", { key }),
    done: async (hold) => ((await hold.agents.get("ann"))?.version ?? 0) - 1,
  },
  {
    name: "agents.unset",
    call: (hold, _, key) => hold.agents.unset("ann", "note", o(key)),
    other: (hold, _, key) => hold.agents.unset("ann", "other", { key }),
    done: async (hold) => ((await hold.agents.get("ann"))?.version ?? 0) - 1,
  },
  {
    name: "agents.snapshot",
    call: (hold, _, key) => hold.agents.snapshot("ann", { name: SECRET, ...o(key) }),
    other: (hold, _, key) => hold.agents.snapshot("ann", { key }),
    done: async (hold) => (await hold.agents.snapshots("ann")).items.length - 1,
  },
  {
    name: "agents.restore",
    call: (hold, { snapshot }, key) => hold.agents.restore(snapshot, o(key)),
    other: (hold, { snapshot }, key) => hold.agents.restore(snapshot, { takeOver: true, key }),
    done: async (hold) => (await hold.agents.snapshots("ann", { kind: "recovery" })).items.length,
  },
  {
    name: "agents.deleteSnapshot",
    call: (hold, { snapshot }, key) => hold.agents.deleteSnapshot(snapshot, o(key)),
    other: (hold, _, key) => hold.agents.deleteSnapshot("snap-other", { key }),
    done: async (hold) => 1 - (await hold.agents.snapshots("ann")).items.length,
  },
  {
    name: "agents.delete",
    call: (hold, _, key) => hold.agents.delete("ann", o(key)),
    other: (hold, _, key) => hold.agents.delete("bob", { key }),
    done: async (hold) => ((await hold.agents.get("ann")) === undefined ? 1 : 0),
  },
  {
    name: "sessions.update",
    call: (hold, _, key) => hold.sessions.update("s", { title: SECRET }, o(key)),
    other: (hold, _, key) => hold.sessions.update("s", { title: "other" }, { key }),
    done: async (hold) => ((await hold.sessions.get("s"))?.title === SECRET ? 1 : 0),
  },
  {
    name: "sessions.replace",
    call: (hold, { version }, key) =>
      hold.sessions.replace("s", [{ role: "user", content: SECRET }], { version, ...o(key) }),
    other: (hold, { version }, key) => hold.sessions.replace("s", [], { version, key }),
    done: async (hold) => {
      const { messages } = await hold.sessions.state("s");
      return messages.filter(({ content }) => content === SECRET).length;
    },
  },
  {
    name: "sessions.delete",
    call: (hold, _, key) => hold.sessions.delete("s", o(key)),
    other: (hold, _, key) => hold.sessions.delete("t", { key }),
    done: async (hold) => ((await hold.sessions.get("s")) === undefined ? 1 : 0),
  },
  {
    name: "fork",
    call: (hold, { first }, key) => hold.sessions.fork(first, { id: "f", ...o(key) }),
    other: (hold, { second }, key) => hold.sessions.fork(second, { id: "f", key }),
    done: async (hold) => (await hold.sessions.list({ agent: "ann" })).items.length - 1,
  },
  {
    name: "checkpoints.create",
    call: (hold, _, key) => hold.checkpoints.create("s", { label: SECRET, ...o(key) }),
    other: (hold, _, key) => hold.checkpoints.create("s", { label: "other", key }),
    done: async (hold) => (await hold.checkpoints.list("s")).items.length - 2,
  },
  {
    name: "rewind",
    call: (hold, { first }, key) => hold.sessions.rewind("s", first, o(key)),
    other: (hold, { second }, key) => hold.sessions.rewind("s", second, { key }),
    done: async (hold) => {
      // So that the line it is on can be seen.
      await hold.checkpoints.create("s");
      return (await branches(hold)) - 1;
    },
  },
];

async function prepare(hold: Holdfast): Promise<Places> {
  await hold.agents.save({ id: "ann" });
  const session = await hold.session("s", { agent: "ann" });
  session.append({ role: "user", content: "one" });
  const { id: first } = await session.checkpoint();
  await session.effect("mail", { to: "eve" }, { mode: "once", key: "m" }, async () => "sent");
  const { id: second } = await session.checkpoint();
  await session.close();
  const { id: snapshot } = await hold.agents.snapshot("ann");
  const version = transcriptVersion((await hold.sessions.state("s")).messages);
  return { first, second, snapshot, version };
}

const isReceipt = ({ kind, put }: DocChange) => kind === RECEIPT && put !== undefined;
const holdOn = (store: Store, now = Date.now) =>
  new Hold(store, thisMachine(), { now }, 30_000, { indexed: false });

/** Applies what comes with a receipt, and then says that it cannot be reached. */
function losing(inner: Store): { readonly store: Store; readonly lost: () => number } {
  let lost = 0;
  const lose = (docs: readonly DocChange[] = []): void => {
    if (lost > 0 || !docs.some(isReceipt)) return;
    lost++;
    throw new HoldfastError("UNREACHABLE", "The answer was lost.");
  };
  const store = wrapped(inner, {
    async apply(changes, docs) {
      const applied = await inner.apply(changes, docs);
      lose(docs);
      return applied;
    },
    documents: {
      async capture(query, decide) {
        let docs: readonly DocChange[] | undefined;
        const applied = await inner.documents.capture(query, (sessions) => {
          const decided = decide(sessions);
          docs = decided?.docs;
          return decided;
        });
        lose(docs);
        return applied;
      },
    },
  });
  return { store, lost: () => lost };
}

describe.each(stores)("keys on $name", ({ address }) => {
  const opened: Holdfast[] = [];
  afterEach(async () => {
    for (const hold of opened.splice(0)) await hold.close().catch(() => {});
  });
  const keep = <H extends Holdfast>(hold: H): H => {
    opened.push(hold);
    return hold;
  };

  test.each(cases)(
    "$name: asked again it is done once, and answered as before",
    async ({ call, other, done }) => {
      const hold = keep(await open(address(), { search: false }));
      const at = await prepare(hold);
      const answer = await call(hold, at, "k");
      expect(await errorOf(() => other(hold, at, "k"))).toMatchObject({ code: "CONFLICT" });
      expect(await call(hold, at, "k")).toEqual(answer);
      expect(await done(hold, at)).toBe(1);
      expect((await hold.verify()).ok).toBe(true);
    },
  );

  test.each(cases)(
    "$name: done, and the answer lost, it is not done again",
    async ({ call, done }) => {
      const inner = await openStore(address());
      const { store, lost } = losing(inner);
      const hold = keep(holdOn(store));
      const at = await prepare(hold);
      // It looks whether it was done before it says that it was not.
      const answer = await call(hold, at, "k");
      expect(lost()).toBe(1);
      expect(await call(hold, at, "k")).toEqual(answer);
      expect(await done(hold, at)).toBe(1);
    },
  );

  test.each(cases)(
    "$name: failed before it was done, it is done when it is asked for again",
    async ({ call, done }) => {
      const inner = await openStore(address());
      let fails = true;
      const failing = (docs: readonly DocChange[] = []) => fails && docs.some(isReceipt);
      const store = wrapped(inner, {
        async apply(changes, docs) {
          if (failing(docs)) throw new HoldfastError("BUSY", "Not now.");
          return inner.apply(changes, docs);
        },
        documents: {
          async capture(query, decide) {
            let failed = false;
            const applied = await inner.documents.capture(query, (sessions) => {
              const decided = decide(sessions);
              failed = failing(decided?.docs);
              return failed ? undefined : decided;
            });
            if (failed) throw new HoldfastError("BUSY", "Not now.");
            return applied;
          },
        },
      });
      const hold = keep(holdOn(store));
      const at = await prepare(hold);
      expect(await errorOf(() => call(hold, at, "k"))).toMatchObject({ code: "BUSY" });
      fails = false;
      await call(hold, at, "k");
      expect(await done(hold, at)).toBe(1);
    },
  );

  test.each(cases)("$name: two at once are one", async ({ call, done }) => {
    const hold = keep(await open(address(), { search: false }));
    const at = await prepare(hold);
    const waiting = [call(hold, at, "k"), call(hold, at, "k"), call(hold, at, "k")];
    const outcomes = await Promise.allSettled(waiting);
    const answers = outcomes.flatMap((outcome) =>
      outcome.status === "fulfilled" ? [outcome.value] : [],
    );
    // Whoever needs the session itself may find another at it.
    for (const outcome of outcomes)
      if (outcome.status === "rejected")
        expect(outcome.reason).toMatchObject({ code: "LEASE_HELD" });
    expect(answers.length).toBeGreaterThan(0);
    for (const answer of answers) expect(answer).toEqual(answers[0]);
    expect(await call(hold, at, "k")).toEqual(answers[0]);
    expect(await done(hold, at)).toBe(1);
  });

  test.each(cases.filter(({ name }) => name === "checkpoints.create" || name === "rewind"))(
    "$name: one that waits for its twin lets go of the session as well",
    async ({ name, done }) => {
      const hold = keep(await open(address(), { search: false }));
      const at = await prepare(hold);
      const o = { key: "k", waitMs: 5_000 };
      const call = () =>
        name === "rewind"
          ? hold.sessions.rewind("s", at.first, o)
          : hold.checkpoints.create("s", o);
      const [one, two, three] = await Promise.all([call(), call(), call()]);
      expect(two).toEqual(one);
      expect(three).toEqual(one);
      // Nobody holds it.
      await (await hold.session("s")).close();
      expect(await done(hold, at)).toBe(1);
    },
  );

  test("what was asked for is forgotten with a redaction, the key is not", async () => {
    const inner = await openStore(address());
    const hold = keep(holdOn(inner));
    await prepare(hold);
    await hold.sessions.update("s", { title: "pin 4711" }, { key: "1" });
    const args = async () =>
      (await inner.documents.list({ kind: RECEIPT, limit: 10 })).map(
        ({ text }) => /"args":"([^"]*)"/.exec(text)?.[1],
      );
    expect(await args()).toEqual([expect.stringMatching(/^.{20}/)]);
    await hold.sessions.redact("s", "4711", { scrub: false });
    expect(await args()).toEqual([""]);
    await hold.sessions.update("s", { title: "again" }, { key: "1" });
    expect((await hold.sessions.get("s"))?.title).not.toBe("again");
    expect(await errorOf(() => hold.sessions.delete("s", { key: "1" }))).toMatchObject({
      code: "CONFLICT",
    });
  });

  test("a receipt that is damaged is found, and says so to whoever asks; what is gone since is told as it stands", async () => {
    const inner = await openStore(address());
    const hold = keep(holdOn(inner));
    const at = await prepare(hold);
    await hold.agents.save({ id: "ann" }, { key: "k" });
    const [{ id } = { id: "" }] = await inner.documents.list({ kind: RECEIPT, limit: 1 });
    const row = await inner.documents.get(RECEIPT, id);
    await inner.apply(
      [],
      [
        {
          kind: RECEIPT,
          id,
          when: {},
          put: { of: null, version: 2, text: row?.text as string, body: "7", pins: [] },
        },
      ],
    );
    expect(await hold.verify()).toMatchObject({ ok: false, findings: [{ code: "CORRUPT" }] });
    expect(await errorOf(() => hold.agents.save({ id: "ann" }, { key: "k" }))).toMatchObject({
      code: "CORRUPT",
    });
    const restored = await hold.agents.restore(at.snapshot, { key: "r" });
    await hold.agents.deleteSnapshot(restored.recovery?.id as string);
    await hold.agents.deleteSnapshot(at.snapshot);
    const again = await hold.agents.restore(at.snapshot, { key: "r" });
    expect(again.sessions).toEqual(restored.sessions);
    expect(again).toMatchObject({ snapshot: { id: at.snapshot, agent: "ann" } });
    await hold.sessions.rewind("s", at.first, { key: "w" });
    await hold.sessions.delete("s");
    await hold.gc();
    expect(await errorOf(() => hold.sessions.rewind("s", at.first, { key: "w" }))).toMatchObject({
      code: "NOT_FOUND",
    });
  });

  test("a deleted session's name may be used again: the delete is not made to the new one", async () => {
    const hold = keep(await open(address(), { search: false }));
    await prepare(hold);
    await hold.sessions.delete("s", { key: "k" });
    await (await hold.session("s")).close();
    await hold.sessions.delete("s", { key: "k" });
    expect(await hold.sessions.get("s")).toBeDefined();
  });

  test("that there was nothing to delete is an answer, too: what is made later is not what was meant", async () => {
    const hold = keep(await open(address(), { search: false }));
    const removeAgent = () => hold.agents.delete("later", { key: "a" });
    expect(await errorOf(removeAgent)).toMatchObject({ code: "NOT_FOUND" });
    await hold.agents.save({ id: "later" });
    expect(await errorOf(removeAgent)).toMatchObject({ code: "NOT_FOUND" });
    expect(await hold.agents.get("later")).toBeDefined();
    const removeSession = () => hold.sessions.delete("later", { key: "s" });
    expect(await removeSession()).toMatchObject({ deleted: false });
    await (await hold.session("later")).close();
    expect(await removeSession()).toMatchObject({ deleted: false });
    expect(await hold.sessions.has("later")).toBe(true);
  });

  test("KEY-2: of two removals under one key at the same moment one is made, and the other changes nothing", async () => {
    const hold = keep(await open(address(), { search: false }));
    const at = await prepare(hold);
    const third = await hold.checkpoints.create("s");
    // Those that nothing begins at: the newest stays, and what a snapshot points at is no
    // checkpoint of it.
    const outcomes = await Promise.allSettled(
      [at.first, third.id].map((id) => hold.checkpoints.delete(id, { key: "k" })),
    );
    expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
    expect((await hold.checkpoints.list("s")).items).toHaveLength(2);
    const done = outcomes[0]?.status === "fulfilled" ? at.first : third.id;
    expect(await hold.checkpoints.delete(done, { key: "k" })).toEqual({
      deleted: true,
      checkpoints: 1,
    });
    expect((await hold.checkpoints.list("s")).items).toHaveLength(2);
    // Without the key it is another call, and there is nothing to remove any more.
    expect(await hold.checkpoints.delete(done)).toEqual({ deleted: false, checkpoints: 0 });
    expect(await hold.checkpoints.delete(done, { key: "another" })).toEqual({
      deleted: false,
      checkpoints: 0,
    });
    expect(await hold.checkpoints.delete(done, { key: "another" })).toEqual({
      deleted: false,
      checkpoints: 0,
    });
  });

  test("after a redaction a key still stands for what it was done to", async () => {
    const hold = keep(await open(address(), { search: false }));
    await prepare(hold);
    await (await hold.session("b")).close();
    await (await hold.session("c")).close();
    await hold.sessions.delete("b", { key: "k" });
    await hold.sessions.redact("s", "one", { scrub: false });
    expect(await errorOf(() => hold.sessions.delete("c", { key: "k" }))).toMatchObject({
      code: "CONFLICT",
    });
    expect(await hold.sessions.get("c")).toBeDefined();
  });

  test("a child that vanishes while its parent is deleted is no answer for the parent", async () => {
    const inner = await openStore(address());
    const hold = keep(holdOn(inner));
    const aide = agent({ name: "aide", model: scriptedModel(["done"]) });
    const desk = hold.agent({
      name: "desk",
      model: scriptedModel([
        { content: "", toolCalls: [{ callId: "1", name: "ask", input: {} }] },
        "done",
      ]),
      tools: {
        ask: { mode: "repeatable", run: async (_input, { run }) => (await run(aide, "go")).status },
      },
    });
    await desk.run("parent", "go");
    const child = (await hold.sessions.list({ agent: "aide" })).items[0]?.id as string;
    expect(child).toBeDefined();
    // It goes as soon as it is known that there is one.
    const session = async (id: string) => {
      const row = await inner.session(id);
      if (id === child && row !== undefined)
        await inner.apply([{ session: child, when: {}, remove: true }]);
      return row;
    };
    const other = holdOn(wrapped(inner, { session }));
    expect(await other.sessions.delete("parent", { key: "k" })).toMatchObject({
      deleted: true,
      sessions: 1,
      keptFor: [],
    });
    expect(await hold.sessions.get("parent")).toBeUndefined();
  });

  test("KEY-3: receipts say nothing of what was said, and are forgotten after a week", async () => {
    const inner = await openStore(address());
    let now = Date.now();
    const hold = keep(holdOn(inner, () => now));
    const at = await prepare(hold);
    const kept = cases.filter(({ name }) => !/delete/i.test(name));
    for (const { name, call } of kept) await call(hold, at, `${SECRET} ${name}`);
    const receipts = async () => inner.documents.list({ kind: RECEIPT, limit: 100 });
    const rows = await receipts();
    expect(rows).toHaveLength(kept.length);
    for (const { id } of rows) {
      const row = await inner.documents.get(RECEIPT, id);
      expect(row).toBeDefined();
      expect(JSON.stringify(row)).not.toContain("heron");
    }
    await hold.gc();
    expect(await receipts()).toHaveLength(kept.length);
    now += 7 * 24 * 60 * 60 * 1_000 + 1_000;
    await hold.gc();
    expect(await receipts()).toHaveLength(kept.length);
    now += 24 * 60 * 60 * 1_000;
    await hold.gc({ dryRun: true });
    expect(await receipts()).toHaveLength(kept.length);
    await hold.gc();
    expect(await receipts()).toHaveLength(0);
  });

  // The control: without a key the same is done as often as it is asked for.
  test.each(cases.filter(({ name }) => /save|snapshot$|restore|create|rewind/.test(name)))(
    "$name: without a key it is done twice",
    async ({ call, done }) => {
      const hold = keep(await open(address(), { search: false }));
      const at = await prepare(hold);
      await call(hold, at, undefined);
      if (call === cases.find(({ name }) => name === "rewind")?.call)
        await hold.checkpoints.create("s");
      await call(hold, at, undefined);
      expect(await done(hold, at)).toBe(2);
    },
  );
});
