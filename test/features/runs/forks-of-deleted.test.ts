/**
 * What was done by sessions that a fork comes from, however far back, and whether or not they are
 * still there.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ACTED } from "../../../src/engine/calls/deleted-calls.js";
import { Holdfast as Opened } from "../../../src/holdfast.js";
import {
  type Checkpoint,
  type Holdfast,
  HoldfastError,
  open,
  type Session,
} from "../../../src/index.js";
import { openStore } from "../../../src/open.js";
import { thisMachine } from "../../../src/store/machine.js";
import { wrapped } from "../../support/failures/wrapped.js";
import { asks, coded, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

describe.each(stores)("calls of sessions that a fork comes from on $name", ({ address }) => {
  let hold: Holdfast;
  let made: string[];
  beforeEach(async () => {
    made = [];
    hold = await open(address());
  });
  afterEach(() => hold.close());

  const pay = (session: Session, to: string, tool = "pay") =>
    session.effect(
      tool,
      { to },
      { mode: "once", key: `${tool}:${to}` },
      async () => (made.push(to), `paid ${to}`),
    );
  const tools = () => ({
    pay: { mode: "once" as const, run: ({ to }: { to: string }) => (made.push(to), "paid") },
  });
  const opened = async (id: string, use: (session: Session) => Promise<void>, o = {}) => {
    const session = await hold.session(id, o);
    await use(session);
    await session.close();
  };
  /** A session that has a checkpoint, and has paid Ana behind it. */
  const paid = async (): Promise<Checkpoint> => {
    let before: Checkpoint | undefined;
    await opened(
      "a",
      async (session) => {
        session.append({ role: "user", content: "go" });
        before = await session.checkpoint();
        await pay(session, "ana");
        await session.checkpoint();
      },
      { agent: "clerk" },
    );
    return before as Checkpoint;
  };

  test("a fork of a fork knows what was done on a line that the first session has left", async () => {
    const first = await paid();
    await opened("a", async (session) => {
      const later = await session.checkpoint();
      await session.rewind(later.id);
      await pay(session, "ben");
      await session.checkpoint();
      // The line on which Ben was paid is in nobody's past from here on.
      await session.rewind(first.id);
      await session.checkpoint();
    });
    await hold.sessions.fork(first.id, { id: "b" });
    await opened("b", async (session) => void (await session.checkpoint("here")));
    await hold.sessions.fork(((await hold.checkpoints.latest("b")) as Checkpoint).id, { id: "c" });
    await opened("c", async (session) => {
      await expect(pay(session, "ben")).rejects.toMatchObject(coded("WAITING"));
      await expect(pay(session, "ana")).rejects.toMatchObject(coded("WAITING"));
      expect(await pay(session, "cem")).toBe("paid cem");
    });
    expect(made).toEqual(["ana", "ben", "cem"]);
  });

  test("a fork of a session that was deleted: the tools that it acted with wait for a person", async () => {
    const before = await paid();
    await hold.sessions.fork(before.id, { id: "b" });
    await hold.sessions.fork(before.id, { id: "live", effects: "live" });
    await hold.sessions.delete("a");
    await hold.gc();
    await opened("b", async (session) => {
      await expect(pay(session, "ana")).rejects.toMatchObject({
        ...coded("WAITING"),
        message: expect.stringContaining("deleted"),
      });
      await expect(pay(session, "ben")).rejects.toMatchObject(coded("WAITING"));
      expect(await session.unfinished()).toMatchObject([
        { waitsFor: { uncertain: true } },
        { waitsFor: { uncertain: true } },
      ]);
      // Nothing was done with this one.
      expect(await pay(session, "ana", "mail")).toBe("paid ana");
    });
    expect(made).toEqual(["ana", "ana"]);
    await opened("live", async (session) => expect(await pay(session, "ana")).toBe("paid ana"));
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
  });

  test("a session that did nothing behind its fork leaves nothing to ask about, and nothing is kept of it", async () => {
    let first: Checkpoint | undefined;
    await opened("a", async (session) => {
      await pay(session, "ana");
      first = await session.checkpoint();
      await session.checkpoint();
    });
    await hold.sessions.fork((first as Checkpoint).id, { id: "b" });
    await hold.sessions.delete("a");
    await opened("b", async (session) => {
      expect(await pay(session, "ana")).toBe("paid ana");
      expect(await pay(session, "ben")).toBe("paid ben");
    });
    expect(made).toEqual(["ana", "ben"]);
  });

  test("a fork of a fork whose sessions were deleted one after the other still asks", async () => {
    const before = await paid();
    await hold.sessions.fork(before.id, { id: "b" });
    await opened("b", async (session) => {
      await session.checkpoint();
      await pay(session, "ben", "mail");
      await session.checkpoint();
    });
    const [, earlier] = (await hold.checkpoints.list("b", { limit: 10 })).items;
    await hold.sessions.fork((earlier as Checkpoint).id, { id: "c" });
    await hold.sessions.delete("a");
    await hold.sessions.delete("b");
    await hold.gc();
    await opened("c", async (session) => {
      await expect(pay(session, "x")).rejects.toMatchObject(coded("WAITING"));
      await expect(pay(session, "x", "mail")).rejects.toMatchObject(coded("WAITING"));
    });
    expect(made).toEqual(["ana", "ben"]);
  });

  test("a session that was deleted and is brought back by a snapshot asks as well", async () => {
    await opened("a", async (session) => void (await session.checkpoint()), { agent: "clerk" });
    const { id: snapshot } = await hold.agents.snapshot("clerk");
    await opened("a", async (session) => {
      await pay(session, "ana");
      await session.checkpoint();
    });
    await hold.sessions.delete("a");
    await hold.gc();
    await hold.agents.restore(snapshot);
    await opened("a", async (session) => {
      await expect(pay(session, "ana")).rejects.toMatchObject(coded("WAITING"));
    });
    expect(made).toEqual(["ana"]);
  });

  test("a fork of a session that a deleted agent had run asks as well", async () => {
    const writer = hold.agent({
      name: "writer",
      checkpoint: "before-step",
      model: script(asks(["pay", { to: "ana" }])),
      tools: tools(),
    });
    const desk = hold.agent({
      name: "desk",
      model: script(asks(["poem", {}])),
      tools: {
        poem: {
          mode: "repeatable",
          run: async (_input, context) => void (await context.run(writer, "go")),
        },
      },
    });
    await desk.run("d", "go");
    const child = (await hold.sessions.list({ agent: "writer" })).items[0]?.id as string;
    const before = (await hold.checkpoints.list(child, { limit: 10 })).items.at(-1);
    await hold.sessions.fork((before as Checkpoint).id, { id: "b" });
    await hold.agents.delete("desk");
    await hold.gc();
    expect(await hold.sessions.get(child)).toBeUndefined();
    expect(await writer.resume("b")).toMatchObject({
      status: "waiting",
      pending: [{ waitsFor: { for: "repeat", uncertain: true } }],
    });
    expect(made).toEqual(["ana"]);
  });
});

describe("what is kept of sessions that were deleted", () => {
  /**
   * A store, and one that is open on it and cannot read the journal of a line once `isDamaged` says
   * so.
   */
  const opened = async (isDamaged: () => boolean) => {
    const store = await openStore("memory:");
    const unreadable = wrapped(store, {
      saves: async (branch, query) => {
        if (isDamaged() && query.state) throw new HoldfastError("CORRUPT", "damaged");
        return store.saves(branch, query);
      },
    });
    return {
      store,
      hold: new Opened(unreadable, thisMachine(), { now: Date.now }, 30_000) as Holdfast,
    };
  };
  const pay = (session: Session, tool = "pay") =>
    session.effect(tool, {}, { mode: "once", key: tool }, async () => "paid");

  test("it goes with the last fork that needs it", async () => {
    const { store, hold } = await opened(() => false);
    const session = await hold.session("a");
    const before = await session.checkpoint();
    await pay(session);
    await session.checkpoint();
    await session.close();
    await hold.sessions.fork(before.id, { id: "b" });
    await hold.sessions.delete("a");
    expect(await store.documents.list({ kind: ACTED, limit: 10 })).toHaveLength(1);
    await hold.gc();
    expect(await store.documents.list({ kind: ACTED, limit: 10 })).toHaveLength(1);
    await hold.sessions.delete("b");
    await hold.gc();
    expect(await store.documents.list({ kind: ACTED, limit: 10 })).toEqual([]);
    await hold.close();
  });

  test("a session that cannot be read is deleted all the same: every tool may have acted", async () => {
    let damaged = false;
    const { hold } = await opened(() => damaged);
    const session = await hold.session("a");
    const before = await session.checkpoint();
    await pay(session);
    await session.checkpoint();
    await session.close();
    await hold.sessions.fork(before.id, { id: "b" });
    damaged = true;
    await hold.sessions.delete("a");
    damaged = false;
    const fork = await hold.session("b");
    await expect(pay(fork)).rejects.toMatchObject(coded("WAITING"));
    await expect(pay(fork, "mail")).rejects.toMatchObject(coded("WAITING"));
    await fork.close();
    await hold.close();
  });
});
