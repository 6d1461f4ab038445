/**
 * A call whose input was redacted cannot be compared any more: the next call of its tool waits
 * for a person.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { baseTuning } from "../../../src/core/journal/session-state.js";
import { redactions } from "../../../src/features/redaction/redactions.js";
import { type Checkpoint, type Holdfast, open, type Session } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, coded, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const SECRET = "ambrose@quill.example";

/**
 * An agent that sends one mail, with or without a name for it, and remembers what was really sent.
 */
const mailer = (
  hold: Holdfast,
  sent: unknown[],
  { named = false, mode = "once" as "once" | "keyed", to = SECRET } = {},
) =>
  hold.agent({
    name: "mailer",
    checkpoint: "before-step",
    model: script(asks(["mail", { to }]), "sent"),
    tools: {
      mail: {
        mode,
        ...(named && { key: () => "mail:1" }),
        run: async (input) => (sent.push(input), `sent ${sent.length}`),
      },
    },
  });

const firstOf = async (hold: Holdfast, id: string) =>
  (await hold.checkpoints.list(id, { limit: 100 })).items.at(-1) as Checkpoint;
const uncertain = {
  status: "waiting",
  pending: [{ name: "mail", waitsFor: { for: "repeat", uncertain: true } }],
};

describe.each(stores.filter(({ traits }) => traits.oneMachine && !traits.inBulk))(
  "repeats after a redaction on $name",
  ({ address }) => {
    let hold: Holdfast;
    beforeEach(async () => {
      hold = await open(address());
    });
    afterEach(() => hold.close());

    const rewindToFirst = async (effects?: "ask" | "replay" | "live") =>
      hold.sessions.rewind(
        "a",
        (await firstOf(hold, "a")).id,
        effects === undefined ? {} : { effects },
      );

    // ---- in the loop

    test.each(["once", "keyed"] as const)(
      "redact, then rewind: a finished %s call is not made again, it waits",
      async (mode) => {
        const sent: unknown[] = [];
        const bot = mailer(hold, sent, { mode });
        await bot.run("a", "go");
        await hold.sessions.redact("a", SECRET);
        await rewindToFirst();
        expect(await bot.resume("a")).toMatchObject(uncertain);
        expect(sent).toHaveLength(1);
      },
    );

    test("rewind, then redact: it waits as well; replay does not answer from the redacted call, live makes it", async () => {
      const sent: unknown[] = [];
      const bot = mailer(hold, sent);
      await bot.run("a", "go");
      await rewindToFirst("replay");
      await hold.sessions.redact("a", SECRET);
      const waiting = await bot.resume("a");
      expect(waiting).toMatchObject(uncertain);
      await hold.effects.deny(
        waiting.status === "waiting" ? (waiting.pending[0]?.effectId ?? "") : "",
        { reason: "no" },
      );
      await bot.resume("a");
      expect(sent).toHaveLength(1);
      await rewindToFirst("live");
      expect(await bot.resume("a")).toMatchObject({ status: "completed" });
      expect(sent).toHaveLength(2);
    });

    test("another tool is not held up, and another redaction does not hold up this one", async () => {
      const sent: unknown[] = [];
      const bot = mailer(hold, sent);
      await bot.run("a", `go, ${"unrelated"}`);
      await hold.sessions.redact("a", "unrelated");
      await rewindToFirst();
      const waiting = await bot.resume("a");
      // Its input is as it was: it is known to be the same.
      expect(waiting).toMatchObject({
        status: "waiting",
        pending: [{ waitsFor: { for: "repeat" } }],
      });
      expect(waiting).not.toMatchObject(uncertain);
      await hold.sessions.cancel("a");
      await hold.sessions.redact("a", SECRET);
      const session = await hold.session("a");
      expect(
        await session.effect("pay", { to: SECRET }, { mode: "once", key: "p" }, async () => "paid"),
      ).toBe("paid");
      await session.close();
    });

    test.each([
      ["the same name is the same act", "mail:1", { for: "repeat" }],
      ["a name that differs is another act", "mail:2", undefined],
    ] as const)(
      "of calls that have names, %s, whatever their inputs were",
      async (_what, key, waits) => {
        const session = await hold.session("a");
        const before = await session.checkpoint();
        const mail = (s: Session, named: string) =>
          s.effect("mail", { to: SECRET }, { mode: "once", key: named }, async () => "sent");
        await mail(session, "mail:1");
        await session.checkpoint();
        await session.close();
        await hold.sessions.redact("a", SECRET);
        const again = await hold.session("a");
        await again.rewind(before.id);
        if (waits === undefined) expect(await mail(again, key)).toBe("sent");
        else await expect(mail(again, key)).rejects.toMatchObject(coded("WAITING"));
        const pending = await again.unfinished();
        expect(pending.map(({ waitsFor }) => waitsFor)).toEqual(
          waits === undefined ? [] : [expect.objectContaining(waits)],
        );
        expect(pending).not.toMatchObject([{ waitsFor: { uncertain: true } }]);
        await again.close();
      },
    );

    test("a fork, a fork of it, a branch that is switched to, and a session that was pruned do not forget it", async () => {
      const sent: unknown[] = [];
      const bot = mailer(hold, sent);
      await bot.run("a", "go");
      await hold.sessions.redact("a", SECRET);
      const first = await firstOf(hold, "a");
      await hold.sessions.fork(first.id, { id: "b" });
      await hold.checkpoints.prune("a", { keep: 1 });
      await hold.gc();
      expect(await bot.resume("b")).toMatchObject(uncertain);
      await hold.sessions.fork(first.id, { id: "c" });
      await hold.sessions.fork((await firstOf(hold, "c")).id, { id: "d" });
      expect(await bot.resume("d")).toMatchObject(uncertain);
      const { before } = await hold.sessions.rewind("a", first.id);
      await hold.sessions.switchBranch("a", before as string);
      await hold.sessions.rewind("a", first.id);
      expect(await bot.resume("a")).toMatchObject(uncertain);
      expect(sent).toHaveLength(1);
    });

    test("an export brings it along", async () => {
      const sent: unknown[] = [];
      await mailer(hold, sent).run("a", "go");
      await hold.sessions.redact("a", SECRET);
      await rewindToFirst();
      const rows: string[] = [];
      for await (const row of hold.export({ session: "a" })) rows.push(row);
      const there = await open("memory:");
      await there.import(rows, { moved: true });
      expect(await mailer(there, sent).resume("a")).toMatchObject(uncertain);
      expect(sent).toHaveLength(1);
      await there.close();
    });

    // ---- on the same line

    test.each(["once", "keyed"] as const)(
      "by hand on the same line: a %s call under its key is answered from the record",
      async (mode) => {
        let made = 0;
        const mail = (s: Session, to: string, key = "k") =>
          s.effect("mail", { to }, { mode, key }, async () => `sent ${++made}`);
        const session = await hold.session("a");
        expect(await mail(session, SECRET)).toBe("sent 1");
        await session.checkpoint();
        await session.close();
        await hold.sessions.redact("a", SECRET);
        const again = await hold.session("a");
        expect(await mail(again, SECRET)).toBe("sent 1");
        expect(await mail(again, "[redacted]")).toBe("sent 1");
        expect(await mail(again, "ben", "k2")).toBe("sent 2");
        // What was not redacted is compared as before.
        await expect(mail(again, SECRET, "k2")).rejects.toMatchObject(coded("CONFLICT"));
        await again.close();
      },
    );

    test("a base that copies the call says the same", async () => {
      const { slackBytes } = baseTuning;
      baseTuning.slackBytes = 200;
      try {
        let made = 0;
        const mail = (s: Session) =>
          s.effect(
            "mail",
            { to: SECRET },
            { mode: "once", key: "k" },
            async () => `sent ${++made}`,
          );
        const session = await hold.session("a");
        await mail(session);
        for (let n = 0; n < 20; n++) {
          session.set("n", `${n} ${"z".repeat(100)}`);
          await session.checkpoint();
        }
        await session.close();
        await hold.sessions.redact("a", SECRET);
        await hold.checkpoints.prune("a", { keep: 1 });
        const again = await hold.session("a");
        expect(await mail(again)).toBe("sent 1");
        await again.close();
        let rows = "";
        for await (const row of hold.export({ session: "a" })) rows += row;
        const { valueDigest } = await import("../../../src/core/effects/effect.js");
        expect(rows).not.toContain(valueDigest({ to: SECRET }));
      } finally {
        baseTuning.slackBytes = slackBytes;
      }
    });

    test("in the loop on the same line: a call that has a name is answered from the record, and is no other act", async () => {
      const sent: unknown[] = [];
      const bot = hold.agent({
        name: "mailer",
        model: script(
          asks(["mail", { to: SECRET }]),
          "sent",
          asks(["mail", { to: SECRET }]),
          "sent again",
        ),
        tools: {
          mail: {
            mode: "once",
            key: () => "mail:1",
            run: async (input) => (sent.push(input), "sent"),
          },
        },
      });
      await bot.run("a", "go", { key: "t1" });
      await hold.sessions.redact("a", SECRET);
      expect(await bot.run("a", "again", { key: "t2" })).toMatchObject({
        status: "completed",
        output: "sent again",
      });
      expect(sent).toHaveLength(1);
      const session = await hold.session("a");
      expect(JSON.stringify(session.messages)).not.toContain("another act");
      await session.close();
    });

    // ---- turns

    test("a turn whose input was redacted: its key is still its name", async () => {
      const sent: unknown[] = [];
      const bot = mailer(hold, sent);
      await bot.run("a", `write to ${SECRET}`, { key: "t1" });
      await hold.sessions.redact("a", SECRET);
      expect(await bot.run("a", `write to ${SECRET}`, { key: "t1" })).toMatchObject({
        status: "completed",
        replayed: true,
      });
      expect(sent).toHaveLength(1);
    });

    test("a turn without a key whose input was redacted: the same words do not begin a second turn unasked", async () => {
      const sent: unknown[] = [];
      const bot = mailer(hold, sent);
      await bot.run("a", `write to ${SECRET}`);
      await hold.sessions.redact("a", SECRET);
      const error = await errorOf(() => bot.run("a", `write to ${SECRET}`));
      expect(error).toMatchObject({
        ...coded("CONFLICT"),
        message: expect.stringContaining("key"),
      });
      expect(sent).toHaveLength(1);
      expect(await bot.resume("a")).toMatchObject({ status: "completed", replayed: true });
      expect(await bot.run("a", "something else", { key: "t2" })).toMatchObject({
        status: "completed",
        output: "done",
      });
    });
  },
);

// ---- the hook

describe("repeats under a hook that redacts", () => {
  test.each([
    ["redactions()", redactions()],
    ["redactions over inputs", redactions({ toolInputs: true })],
    ["a function", (text: string) => text.replaceAll(SECRET, "<somebody>")],
  ] as const)("%s: the same call again is known to be the same", async (_what, redact) => {
    const hold = await open("memory:", { redact });
    const sent: unknown[] = [];
    const bot = mailer(hold, sent);
    await bot.run("a", "go");
    await hold.sessions.rewind("a", (await firstOf(hold, "a")).id);
    const waiting = await bot.resume("a");
    expect(waiting).toMatchObject({
      status: "waiting",
      pending: [{ name: "mail", waitsFor: { for: "repeat" } }],
    });
    expect(waiting).not.toMatchObject(uncertain);
    expect(sent).toHaveLength(1);
    const session = await hold.session("b");
    const mail = () =>
      session.effect("mail", { to: SECRET }, { mode: "once", key: "k" }, async () => "sent");
    const before = await session.checkpoint();
    expect(await mail()).toBe("sent");
    expect(await mail()).toBe("sent");
    await session.checkpoint();
    await session.rewind(before.id);
    await expect(mail()).rejects.toMatchObject(coded("WAITING"));
    await session.close();
    await hold.close();
  });
});
