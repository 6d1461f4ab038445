/**
 * PORT-9: whatever a tenant names, nothing of another is there. The same ids in two tenants are two
 * sessions.
 */
import { describe, expect, test } from "vitest";
import { type Holdfast, type Message, open } from "../../src/index.js";
import { errorOf } from "../support/error-of.js";
import { stores } from "../support/stores.js";

async function fill(
  hold: Holdfast,
  text: string,
): Promise<{ readonly checkpoint: string; readonly blob: string }> {
  const session = await hold.session("shared name", { agent: "scribe", tags: ["t"], title: text });
  session.append({
    role: "user",
    content: [
      { type: "file", mediaType: "text/plain", data: { bytes: Buffer.from(text.repeat(10)) } },
    ],
  });
  session.append({ role: "user", content: text.repeat(5_000) });
  const { id } = await session.checkpoint(text);
  await session.close();
  const { messages } = await hold.checkpoints.state(id);
  const [{ content }] = messages as readonly [Message, ...Message[]];
  const [{ data }] = content as unknown as readonly [
    { readonly data: { readonly digest: string } },
  ];
  return { checkpoint: id, blob: data.digest };
}

async function everything(hold: Holdfast): Promise<unknown> {
  const { items } = await hold.checkpoints.list("shared name", { branches: "all" });
  return [
    await hold.stats(),
    await hold.sessions.list(),
    items,
    await Promise.all(items.map(({ id }) => hold.checkpoints.state(id))),
  ];
}

describe.each(stores.filter(({ traits }) => traits.durable))("tenants on $name", ({ address }) => {
  test("nothing of another tenant can be seen, counted, forked, changed or deleted", async () => {
    const place = address();
    const holds = await Promise.all(
      ["acme", "Acme", "../acme", undefined].map((tenant) =>
        open(place, tenant === undefined ? {} : { tenant }),
      ),
    );
    const [mine, ...others] = holds as [Holdfast, ...Holdfast[]];
    const own = await fill(mine, "secret");
    const before = await everything(mine);
    for (const other of others) {
      expect(await other.stats()).toEqual({
        agents: 0,
        sessions: 0,
        checkpoints: 0,
        snapshots: 0,
        messages: 0,
        sizeBytes: 0,
      });
      for (const filter of [
        {},
        { agent: "scribe" },
        { tag: "t" },
        { status: "in-progress" as const },
        { archived: false },
      ])
        expect((await other.sessions.list(filter)).items).toEqual([]);
      expect(await other.sessions.get("shared name")).toBeUndefined();
      expect(await other.checkpoints.get(own.checkpoint)).toBeUndefined();
      expect(await other.blob(own.blob)).toBeUndefined();
      for (const call of [
        () => other.checkpoints.state(own.checkpoint),
        () => other.checkpoints.list("shared name"),
        () => other.checkpoints.prune("shared name", { keep: 0 }),
        () => other.checkpoints.diff(own.checkpoint, own.checkpoint),
        () => other.sessions.fork(own.checkpoint, { id: "stolen" }),
        () => other.sessions.update("shared name", { title: "mine now" }),
        () => other.sessions.cancel("shared name"),
        () => other.verify({ sessionId: "shared name" }),
        () => other.sessions.events("shared name")[Symbol.asyncIterator]().next(),
      ])
        expect(await errorOf(call)).toMatchObject({ code: "NOT_FOUND" });
      expect(await other.checkpoints.latest("shared name")).toBeUndefined();
      expect(await other.checkpoints.delete(own.checkpoint)).toMatchObject({ deleted: false });
      expect(await other.sessions.delete("shared name")).toMatchObject({ deleted: false });
      expect(await other.gc()).toMatchObject({ freedBytes: 0, saves: 0, blobs: 0 });
      expect(await other.verify()).toEqual({ ok: true, checked: 0, findings: [] });
      const session = await other.session("visitor");
      session.append({ role: "user", content: "hello" });
      await session.checkpoint();
      for (const call of [
        () => session.rewind(own.checkpoint),
        () => session.switchBranch(own.checkpoint),
        () => session.fork(own.checkpoint, { id: "stolen" }),
      ])
        expect(await errorOf(call)).toMatchObject({ code: "NOT_FOUND" });
      await session.close();
    }
    expect(await everything(mine)).toEqual(before);

    // The same names and the same bytes, in each: and each can end its own.
    for (const [i, other] of others.entries()) {
      const theirs = await fill(other, "secret");
      expect(theirs.blob).toBe(own.blob);
      expect(theirs.checkpoint).not.toBe(own.checkpoint);
      expect((await other.stats()).sessions).toBe(2);
      if (i === 0) {
        await other.sessions.delete("shared name");
        await other.gc();
        expect(await other.blob(own.blob)).toBeUndefined();
      }
    }
    expect(await everything(mine)).toEqual(before);
    expect(await mine.blob(own.blob)).toBeDefined();
    for (const hold of holds) {
      expect((await hold.verify()).ok).toBe(true);
      await hold.close();
    }
    const again = await open(place, { tenant: "acme" });
    expect(await everything(again)).toEqual(before);
    await again.close();
  });

  test("a tenant is a name like others", async () => {
    for (const tenant of ["", "a\0b", "x".repeat(201), 7])
      expect(await errorOf(() => open(address(), { tenant: tenant as string }))).toMatchObject({
        code: "INVALID_ID",
      });
  });
});
