/** What `holdfast/testing` gives to those who test their own agents. */
import { expect, test } from "vitest";
import { type Holdfast, open, type Tool } from "../../src/index.js";
import { everyCrash, manualClock, scriptedModel } from "../../src/testing/index.js";

const model = () =>
  scriptedModel([
    { content: "", toolCalls: [{ callId: "1", name: "lookup", input: {} }] },
    {
      content: "",
      toolCalls: [
        { callId: "2", name: "refund", input: { order: 42 } },
        { callId: "3", name: "mail", input: {} },
      ],
    },
    "done",
  ]);

/** A bank that knows keys, a mail server that does not, and what they did. */
function world() {
  const ledger: string[] = [];
  const known = new Set<string>();
  const tools = {
    lookup: { mode: "repeatable", run: () => "found" },
    refund: {
      mode: "keyed",
      run: (_input: unknown, { key }: { key: string }) => {
        if (!known.has(key)) ledger.push("refund");
        known.add(key);
        return "refunded";
      },
    },
    mail: {
      mode: "once",
      run: (_input: unknown, { key }: { key: string }) => {
        ledger.push("mail");
        known.add(key);
        return "sent";
      },
      check: ({ key }: { key: string }) =>
        known.has(key) ? { output: "sent" } : { retry: true as const },
    },
  } satisfies Record<string, Tool>;
  return { ledger, tools };
}

const clerk = (tools: Record<string, Tool>) => (hold: Holdfast) =>
  hold
    .agent({ name: "clerk", model: model(), tools: tools as Record<string, Tool> })
    .run("job", "go");

test("an agent that is killed at every point does everything once", async () => {
  const { ledger, tools } = world();
  const report = await everyCrash({ make: clerk(tools), ledger: () => ledger });
  expect(report).toEqual({
    points: expect.any(Number) as number,
    doubled: 0,
    lost: 0,
    inDoubt: 0,
    findings: [],
  });
  expect(report.points).toBeGreaterThanOrEqual(14);
});

test("an act that is said to be repeatable, and is not, is found doubled", async () => {
  const { ledger, tools } = world();
  const refund: Tool = { mode: "repeatable", run: () => ledger.push("refund") };
  const report = await everyCrash({ make: clerk({ ...tools, refund }), ledger: () => ledger });
  expect(report.doubled).toBeGreaterThan(0);
  expect(report.findings[0]?.doubled).toEqual(["refund"]);
});

test("a check that says what is not so is found: an act is lost, or doubled", async () => {
  const lazy = world();
  const lost = await everyCrash({
    make: clerk({
      ...lazy.tools,
      mail: { ...lazy.tools.mail, check: () => ({ output: "surely" }) },
    }),
    ledger: () => lazy.ledger,
  });
  expect(lost.lost).toBeGreaterThan(0);
  const eager = world();
  const doubled = await everyCrash({
    make: clerk({ ...eager.tools, mail: { ...eager.tools.mail, check: () => ({ retry: true }) } }),
    ledger: () => eager.ledger,
  });
  expect(doubled.doubled).toBeGreaterThan(0);
});

test("without a check, an act of which nobody knows is surfaced, and neither doubled nor lost in silence", async () => {
  const { ledger, tools } = world();
  const mail: Tool = { mode: "once", run: tools.mail.run };
  const report = await everyCrash({ make: clerk({ ...tools, mail }), ledger: () => ledger });
  expect(report).toMatchObject({ doubled: 0, lost: 0 });
  expect(report.inDoubt).toBeGreaterThan(0);
});

test("a life that hangs is told from one that ends", async () => {
  const report = everyCrash({ make: () => new Promise(() => {}), ledger: () => [], lifeMs: 50 });
  await expect(report).rejects.toThrow("took longer than 50 ms");
});

test("a scripted model goes on by the transcript, keeps what it was asked, and says when its script is at an end", async () => {
  const script = scriptedModel(["one", async ({ messages }) => `two, after ${messages.length}`]);
  await using hold = await open("memory:");
  const agent = hold.agent({ name: "a", model: script, modelRetry: { attempts: 1 } });
  expect(await agent.run("s", "first")).toMatchObject({ output: "one" });
  expect(await agent.run("s", "second")).toMatchObject({ output: "two, after 3" });
  expect(await agent.run("s", "third")).toMatchObject({
    status: "failed",
    error: { message: expect.stringContaining("2 replies") as string },
  });
  expect(script.requests).toHaveLength(3);
});

test("a manual clock stands still until it is moved", async () => {
  const clock = manualClock(Date.UTC(2031, 4, 1));
  await using hold = await open("memory:", { clock });
  const session = await hold.session("s");
  const first = await session.checkpoint();
  clock.advance(60_000);
  const second = await session.checkpoint();
  expect([first.createdAt, second.createdAt]).toEqual([
    "2031-05-01T00:00:00.000Z",
    "2031-05-01T00:01:00.000Z",
  ]);
});
