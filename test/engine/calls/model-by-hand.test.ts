/**
 * Which question a recorded reply answers: `session.model`, and calls by hand without a key. Each
 * program is one that a user would write. It is killed at every point, and run again from its
 * beginning.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, Message, Session } from "../../../src/index.js";
import { everyCrash } from "../../../src/testing/index.js";
import { coded, door, Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const textOf = ({ content }: Message): string =>
  typeof content === "string" ? content : JSON.stringify(content);
const said = (messages: readonly Message[]): string[] => messages.map(textOf);

/** A model whose reply names the question it was asked, so that a reply to another one is seen. */
function model() {
  const asked: string[] = [];
  const ask = async ({ messages }: { messages: readonly Message[] }) => {
    const question = said(messages).join("|");
    asked.push(question);
    return `re ${question}`;
  };
  return { asked, ask };
}

interface Program {
  readonly name: string;
  /** One life, from its beginning. Throws where a reply is not the one to its question. */
  readonly live: (session: Session, run: ReturnType<typeof model>) => Promise<void>;
  /**
   * The most questions that may be asked in all, with one kill: those of an undisturbed run, and
   * those whose replies may be lost.
   */
  readonly most: number;
}

const shouldBe = (reply: string, question: string): void => {
  if (reply !== `re ${question}`)
    throw new Error(`WRONG REPLY: ${JSON.stringify(reply)} for ${JSON.stringify(question)}`);
};

const programs: readonly Program[] = [
  {
    name: "no message yet",
    most: 3,
    live: async (session, run) => {
      shouldBe(await session.model(run.ask), "");
      shouldBe(await session.model(run.ask), "");
    },
  },
  {
    name: "a loop that only sets state",
    most: 5,
    live: async (session, run) => {
      for (let step = Number(session.state["step"] ?? 0); step < 4; step++) {
        const reply = await session.model(
          async ({ messages }) => `${await run.ask({ messages })}${step}`,
        );
        shouldBe(reply, `${step}`);
        session.set("step", step + 1);
      }
    },
  },
  {
    name: "a checkpoint for each step",
    most: 5,
    live: async (session, run) => {
      for (let step = Number(session.state["step"] ?? 0); step < 4; step++) {
        shouldBe(
          await session.model(async ({ messages }) => `${await run.ask({ messages })}${step}`),
          `${step}`,
        );
        session.set("step", step + 1);
        await session.checkpoint();
      }
    },
  },
  {
    name: "one checkpoint for each turn",
    most: 5,
    live: async (session, run) => {
      for (const question of ["q1", "q2"]) {
        if (said(session.messages).includes(`answer ${question}`)) continue;
        if (!said(session.messages).includes(question))
          session.append({ role: "user", content: question });
        for (const voice of ["draft", "final"]) {
          const reply = await session.model(
            async (context) => `${await run.ask(context)} ${voice}`,
          );
          shouldBe(reply, `${said(session.messages).join("|")} ${voice}`);
        }
        session.append({ role: "assistant", content: `answer ${question}` });
        await session.checkpoint();
      }
    },
  },
  {
    name: "a transcript loop",
    most: 4,
    live: async (session, run) => {
      const questions = ["q1", "q2", "q3"];
      while (session.messages.length < 6) {
        const before = session.messages.length;
        if (before % 2 === 0)
          session.append({ role: "user", content: questions[before / 2] as string });
        const reply = await session.model(run.ask);
        shouldBe(reply, said(session.messages).join("|"));
        session.append({ role: "assistant", content: reply });
      }
    },
  },
  {
    name: "a retry after an error",
    most: 5,
    live: async (session, run) => {
      for (const question of ["q1", "q2"]) {
        if (said(session.messages).includes(`answer ${question}`)) continue;
        if (!said(session.messages).includes(question))
          session.append({ role: "user", content: question });
        let tries = 0;
        const once = () =>
          session.model(async (context) => {
            tries += 1;
            if (tries === 1) throw new Error("rate limit");
            return run.ask(context);
          });
        const reply = await once().catch(once);
        shouldBe(reply, said(session.messages).join("|"));
        session.append({ role: "assistant", content: `answer ${question}` });
      }
    },
  },
  {
    name: "compaction by splice",
    most: 6,
    live: async (session, run) => {
      if (session.messages.length === 0)
        session.append(
          { role: "user", content: "q1" },
          { role: "user", content: "q2" },
          { role: "user", content: "q3" },
        );
      if (session.messages.length === 3) {
        shouldBe(await session.model(run.ask), "q1|q2|q3");
        // The last message stays, so that only the drop of the reply tells the two questions apart.
        session.splice("messages", 0, 2, { role: "user", content: "sum" });
        await session.checkpoint();
      }
      shouldBe(await session.model(run.ask), "sum|q3");
      shouldBe(await session.model(run.ask), "sum|q3");
    },
  },
  {
    name: "compaction that is not saved before the next question",
    most: 6,
    live: async (session, run) => {
      if (session.messages.length === 0)
        session.append({ role: "user", content: "q1" }, { role: "user", content: "q2" });
      if (textOf(session.messages[0] as Message) === "q1") {
        shouldBe(await session.model(run.ask), "q1|q2");
        session.splice("messages", 0, 1, { role: "user", content: "sum" });
      }
      shouldBe(await session.model(run.ask), "sum|q2");
    },
  },
  {
    name: "two calls at once",
    most: 4,
    live: async (session, run) => {
      if (session.messages.length === 0) session.append({ role: "user", content: "q" });
      const voice = (name: string) =>
        session.model(async ({ messages }) => `${await run.ask({ messages })} ${name}`);
      const [one, two] = await Promise.all([voice("one"), voice("two")]);
      shouldBe(one as string, "q one");
      shouldBe(two as string, "q two");
    },
  },
  {
    name: "a program that sets the same state again",
    most: 2,
    live: async (session, run) => {
      if (session.messages.length === 0)
        session.append({ role: "user", content: "What holds kelp to the rock?" });
      session.set("phase", "search");
      await session.checkpoint("before the search");
      const page = await session.effect(
        "search",
        { q: "kelp" },
        { mode: "repeatable" },
        async ({ q }) => `What ${q} holds on with.`,
      );
      const answer = await session.model(run.ask);
      shouldBe(answer, "What holds kelp to the rock?");
      session.append({ role: "assistant", content: `${answer} ${page}` });
    },
  },
  {
    name: "a key for each question",
    most: 3,
    live: async (session, run) => {
      for (const question of ["q1", "q2"]) {
        if (!said(session.messages).includes(question))
          session.append({ role: "user", content: question });
        const upTo = said(session.messages).slice(0, said(session.messages).indexOf(question) + 1);
        const reply = await session.model(
          async () => run.ask({ messages: session.messages.slice(0, upTo.length) }),
          { key: question },
        );
        shouldBe(reply, upTo.join("|"));
      }
    },
  },
];

describe("a program that is killed at every point is never given the reply to another question", () => {
  test.each(programs)("$name", async ({ live, most }) => {
    let run = model();
    const wrong: unknown[] = [];
    let worst = 0;
    const report = await everyCrash({
      make: async (hold) => {
        // A new store: this is another run.
        if ((await hold.sessions.get("s")) === undefined) run = model();
        const session = await hold.session("s", { waitMs: 1_000 });
        if (session.status === "completed") return;
        await live(session, run).catch((error: unknown) => wrong.push(error));
        await session.complete("done");
        worst = Math.max(worst, run.asked.length);
      },
      ledger: () => [],
    });
    expect(report.points).toBeGreaterThan(3);
    expect(wrong).toEqual([]);
    expect(worst).toBeLessThanOrEqual(most);
  });

  test("a rewind and a fork ask again, and are then given their own replies", async () => {
    let run = model();
    const wrong: unknown[] = [];
    let worst = 0;
    const live = async (hold: Holdfast) => {
      const session = await hold.session("s", { waitMs: 1_000 });
      const voice = (name: string) => async (context: { messages: readonly Message[] }) =>
        `${await run.ask(context)} ${name}`;
      const labels = async (branches?: "all") =>
        (await hold.checkpoints.list("s", branches && { branches })).items.map(
          ({ label }) => label,
        );
      if (session.messages.length === 0) session.append({ role: "user", content: "q" });
      if (!(await labels()).includes("here")) await session.checkpoint("here");
      if (!(await labels("all")).includes("first")) {
        shouldBe(await session.model(voice("first")), "q first");
        await session.checkpoint("first");
      }
      const { items } = await hold.checkpoints.list("s", { branches: "all" });
      const here = items.find(({ label }) => label === "here")?.id as string;
      if ((await labels()).includes("first")) await session.rewind(here);
      shouldBe(await session.model(voice("rewound")), "q rewound");
      const isForked = (await hold.sessions.get("t")) !== undefined;
      const fork = isForked
        ? await hold.session("t", { waitMs: 1_000 })
        : await session.fork(here, { id: "t" });
      shouldBe(await fork.model(voice("forked")), "q forked");
      await fork.close();
      await session.complete("done");
      await session.close();
    };
    await everyCrash({
      ledger: () => [],
      make: async (hold) => {
        if ((await hold.sessions.get("s")) === undefined) run = model();
        await live(hold).catch((error: unknown) => wrong.push(error));
        worst = Math.max(worst, run.asked.length);
      },
    });
    expect(wrong).toEqual([]);
    expect(worst).toBeLessThanOrEqual(4);
  });
});

describe("a payment loop by hand", () => {
  const people = ["ana", "bob", "cy"];

  /** The model names the next person to pay, from what the transcript says was paid. */
  const next = async ({ messages }: { messages: readonly Message[] }) => {
    const paid = said(messages).filter((text) => text.startsWith("paid "));
    return people[paid.length] ?? "all";
  };

  test.each(["keyed", "once"] as const)(
    "pays each person once with %s, killed at every point",
    async (mode) => {
      const ledger: { readonly to: string; readonly key: string }[] = [];
      const ends: string[] = [];
      const report = await everyCrash({
        ledger: () => ledger.map(({ to }) => to),
        make: async (hold) => {
          const session = await hold.session("pay", { waitMs: 1_000 });
          if (session.messages.length === 0) {
            session.append({ role: "user", content: "Pay everybody." });
            await session.checkpoint("start");
          }
          for (;;) {
            const to = await session.model(next);
            if (to === "all") break;
            const check = ({ key }: { key: string }) =>
              ledger.some((entry) => entry.key === key)
                ? { output: "paid" }
                : { retry: true as const };
            // The key names the step, so that nothing but the reply keeps a person from being paid
            // twice.
            const step = session.messages.length;
            await session.effect(
              "pay",
              { to },
              { mode, key: `${step}:${to}`, check },
              async (_input, { key }) => {
                if (mode === "once" || !ledger.some((entry) => entry.key === key))
                  ledger.push({ to, key });
                return "paid";
              },
            );
            session.append({ role: "assistant", content: `paid ${to}` });
          }
          await session.checkpoint("end");
          ends.push(said(session.messages).join("|"));
          await session.close();
        },
      });
      expect(report).toMatchObject({ doubled: 0, lost: 0, findings: [] });
      expect(report.points).toBeGreaterThan(10);
      expect(new Set(ends)).toEqual(new Set(["Pay everybody.|paid ana|paid bob|paid cy"]));
    },
  );
});

describe.each(stores)("replies by hand on $name", ({ address }) => {
  let on: Processes;
  beforeEach(async () => {
    on = await Processes.on(address());
  });
  afterEach(() => on.close());

  test("what was discarded is asked for again, and not answered from an older reply", async () => {
    const { hold } = on.start();
    const run = model();
    const session = await hold.session("a");
    session.append({ role: "user", content: "q1" });
    const one = await session.model(run.ask);
    session.append({ role: "assistant", content: one }, { role: "user", content: "q2" });
    await session.model(run.ask);
    await session.close({ discard: true });
    const again = await hold.session("a");
    expect(said(again.messages)).toEqual(["q1", "re q1", "q2"]);
    expect(await again.model(run.ask)).toBe("re q1|re q1|q2");
    expect(run.asked).toHaveLength(2);
  });

  /**
   * What comes between a reply and the same question again, and whether the model is asked again.
   * Answers another store, if it leads to one.
   */
  const between: Readonly<
    Record<
      string,
      { readonly asks: boolean; readonly run: (hold: Holdfast, here: string) => Promise<unknown> }
    >
  > = {
    "a label": { asks: false, run: (hold) => hold.sessions.update("a", { title: "T" }) },
    prune: { asks: false, run: (hold) => hold.checkpoints.prune("a", { keep: 1 }) },
    gc: { asks: false, run: (hold) => hold.gc() },
    "redaction of the state": { asks: true, run: (hold) => hold.sessions.redact("a", "ask") },
    "a fork of it": { asks: false, run: (hold, here) => hold.sessions.fork(here, { id: "b" }) },
    "a rewind": { asks: true, run: (hold, here) => hold.sessions.rewind("a", here) },
    "a rewind, and back": {
      asks: false,
      run: async (hold, here) => {
        const { before } = await hold.sessions.rewind("a", here);
        await hold.sessions.switchBranch("a", before as string);
      },
    },
    "a snapshot that is restored": {
      asks: true,
      run: async (hold, here) => {
        const { id } = await hold.agents.snapshot("clerk");
        await hold.sessions.rewind("a", here);
        await hold.agents.restore(id);
      },
    },
    "a message from outside": {
      asks: true,
      run: (hold) => hold.sessions.append("a", [{ role: "user", content: "more" }], { key: "m" }),
    },
    "export and import": {
      asks: false,
      run: async (hold) => {
        const elsewhere = await Processes.on(address());
        await elsewhere.start().hold.import(hold.export());
        return elsewhere;
      },
    },
    "a copy that was put back": { asks: false, run: (hold) => hold.markRestored() },
  };

  test.each(Object.entries(between))(
    "after %s a question is given its own reply",
    async (_name, { asks, run }) => {
      const first = on.start();
      const asked = model();
      const session = await first.hold.session("a", { agent: "clerk" });
      session.append({ role: "user", content: "first" });
      await session.checkpoint();
      session.append({ role: "user", content: "q" });
      session.set("phase", "ask");
      const here = (await session.checkpoint("here")).id;
      await session.model(asked.ask);
      await session.model(async () => "kept", { key: "k" });
      await session.checkpoint("later");
      first.kill();
      const led = await run(on.start().hold, here);
      const elsewhere = led instanceof Processes ? led : undefined;
      const { hold } = (elsewhere ?? on).start();
      const again = await hold.session("a", { waitMs: 2_000 });
      // Asked anew, the model answers the transcript as it is now.
      expect(await again.model(async () => "asked again")).toBe(
        asks ? "asked again" : "re first|q",
      );
      await again.close({ discard: true });
      await elsewhere?.close();
    },
  );

  test("a reply that was redacted is given as it is stored, and never the text that was removed", async () => {
    const first = on.start();
    const session = await first.hold.session("a");
    session.append({ role: "user", content: "q" });
    await session.model(async () => "my secret reply");
    await session.model(async () => "another secret", { key: "k" });
    await session.checkpoint();
    first.kill();
    const { hold } = on.start();
    await hold.sessions.redact("a", "secret");
    const again = await hold.session("a");
    const fail = async () => expect.fail("asked again");
    for (const reply of [await again.model(fail), await again.model(fail, { key: "k" })])
      expect(reply).not.toContain("secret");
  });

  test("a checkpoint does not change the place, with a base or without", async () => {
    const { hold } = on.start();
    const run = model();
    const session = await hold.session("a");
    session.append({ role: "user", content: "q" });
    session.set("notes", ["x".repeat(10_000)]);
    await session.model(run.ask);
    for (let i = 0; i < 3; i++) await session.checkpoint();
    await session.close();
    const again = await hold.session("a");
    expect(await again.model(run.ask)).toBe("re q");
    expect(run.asked).toEqual(["q"]);
    // The second question at the place is another one.
    await again.model(run.ask);
    expect(run.asked).toEqual(["q", "q"]);
  });

  test("a key is given its reply wherever it is asked for; a tool called model has keys of its own", async () => {
    const { hold } = on.start();
    const session = await hold.session("a");
    expect(await session.model(async () => "one", { key: "k" })).toBe("one");
    expect(
      await session.effect("model", null, { mode: "repeatable", key: "k" }, async () => "tool"),
    ).toBe("tool");
    expect(await session.effect("model", null, { mode: "repeatable" }, async () => "tool 2")).toBe(
      "tool 2",
    );
    session.append({ role: "user", content: "more" });
    session.set("x", 1);
    await session.checkpoint();
    await session.close();
    const again = await hold.session("a");
    expect(await again.model(async () => expect.fail("asked twice"), { key: "k" })).toBe("one");
    expect(
      await Promise.all([1, 2].map((n) => again.model(async () => `both ${n}`, { key: "b" }))),
    ).toEqual(["both 1", "both 1"]);
    await expect(again.model(async () => 1, { key: "" })).rejects.toMatchObject(
      coded("INVALID_ID"),
    );
    await expect(again.model(async () => 1, { keys: "x" } as never)).rejects.toMatchObject(
      coded("INVALID_OPTION"),
    );
  });

  test("messages from outside wait while a model is being asked, and come behind its reply", async () => {
    const first = on.start();
    const { hold } = first;
    const run = model();
    const session = await hold.session("a");
    session.append({ role: "user", content: "q" });
    await session.checkpoint();
    const inside = door();
    const leave = door();
    const answer = session.model(async (context) => {
      inside.open();
      await leave.opened;
      return run.ask(context);
    });
    await inside.opened;
    await hold.sessions.append("a", [{ role: "user", content: "and more" }], { key: "m" });
    await session.checkpoint();
    expect(said(session.messages)).toEqual(["q"]);
    leave.open();
    session.append({ role: "assistant", content: await answer });
    await session.checkpoint();
    await expect
      .poll(async () => (await session.checkpoint(), said(session.messages)), { interval: 250 })
      .toEqual(["q", "re q", "and more"]);
  });
});

test("past 8 MiB of replies at one place a reply is not kept, and the next holder asks again", async () => {
  const on = await Processes.on("memory:");
  const { hold } = on.start();
  const session = await hold.session("a");
  const large = "x".repeat(7_000);
  const count = 1_250;
  let made = 0;
  for (let i = 0; i < count; i++)
    await session.effect("read", { i }, { mode: "repeatable" }, async () => `${++made} ${large}`);
  await session.checkpoint();
  await session.close();
  const again = await hold.session("a");
  const first = await again.effect("read", { i: 0 }, { mode: "repeatable" }, async () =>
    expect.fail("made again"),
  );
  expect((first as string).slice(0, 2)).toBe("1 ");
  expect(
    await again.effect("read", { i: count - 1 }, { mode: "repeatable" }, async () => "again"),
  ).toBe("again");
  await on.close();
});

test("of calls under a key that do not act, the latest 1,000 are kept", async () => {
  const on = await Processes.on("memory:");
  const { hold } = on.start();
  const session = await hold.session("a");
  for (let i = 0; i < 1_001; i++)
    await session.effect("read", { i }, { mode: "repeatable", key: `k${i}` }, async () => i);
  await session.effect("pay", {}, { mode: "once", key: "k" }, async () => "paid");
  await session.close();
  const again = await hold.session("a");
  const read = (i: number) =>
    again.effect("read", { i }, { mode: "repeatable", key: `k${i}` }, async () => -1);
  expect([await read(1), await read(1_000), await read(0)]).toEqual([1, 1_000, -1]);
  expect(
    await again.effect("pay", {}, { mode: "once", key: "k" }, async () =>
      expect.fail("paid twice"),
    ),
  ).toBe("paid");
  await on.close();
});
