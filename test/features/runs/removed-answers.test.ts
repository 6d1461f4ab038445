/**
 * D6: the answer of a call is taken out of the transcript. The call has been made, and is not made
 * again.
 */
import { afterEach, describe, expect, test } from "vitest";
import { type Holdfast, transcriptVersion } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { asks, door, Processes, type Scripted, script } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

let on: Processes | undefined;
afterEach(() => on?.close());

/** Fails the first time. */
const failsOnce = () => {
  let asked = 0;
  return () => {
    asked += 1;
    if (asked === 1) throw Object.assign(new Error("no such model"), { isRetryable: false });
    return "Done.";
  };
};
const answersIn = async (hold: Holdfast) =>
  (await hold.sessions.state("s")).messages
    .filter(({ role }) => role === "tool")
    .map(({ content }) => content[0])
    .map((part) => JSON.stringify(part));

describe.each(stores)("on $name", ({ address }) => {
  test.each(["once", "keyed", "repeatable"] as const)("a %s call", async (mode) => {
    on = await Processes.on(address());
    const made: string[] = [];
    /** An agent whose turn fails after its call was made, and one that is asked to go on. */
    const clerk = (hold: Holdfast, ...branches: readonly Scripted[]) =>
      hold.agent({
        name: "clerk",
        model: script(...branches),
        tools: { pay: { mode, run: () => made.push("paid") } },
      });
    const first = on.start();
    expect(await clerk(first.hold, asks(["pay", {}]), failsOnce()).run("s", "Pay.")).toMatchObject({
      status: "failed",
    });
    expect(made).toHaveLength(1);

    // From outside a run it is refused.
    const { messages } = await first.hold.sessions.state("s");
    const version = transcriptVersion(messages);
    const torn = () =>
      first.hold.sessions.replace("s", [], { version, from: messages.at(-1)?.id as string });
    expect(await errorOf(torn)).toMatchObject({ code: "INVALID_VALUE" });

    // By hand it is taken out, and the process dies.
    const session = await first.hold.session("s");
    session.splice("messages", messages.length - 1, 1);
    await session.checkpoint();
    first.kill();
    const { hold } = on.start();
    expect(await answersIn(hold)).toEqual([]);
    const { id } = (await hold.checkpoints.latest("s")) ?? {};
    await hold.sessions.fork(id as string, { id: "fork" });
    expect(await clerk(hold, asks(["pay", {}]), "Done.").resume("fork")).toMatchObject({
      status: "completed",
    });
    expect(await clerk(hold, asks(["pay", {}]), "Done.").resume("s")).toMatchObject({
      status: "completed",
      output: "Done.",
    });
    expect(made).toHaveLength(1);
    expect(await answersIn(hold)).toEqual([expect.stringContaining("it was made before")]);
  });

  test("another input begins behind it, and the model is told", async () => {
    on = await Processes.on(address());
    const { hold } = on.start();
    const made: string[] = [];
    const model = script(asks(["pay", {}]), failsOnce());
    const agent = hold.agent({
      name: "clerk",
      model,
      tools: { pay: { mode: "once", run: () => made.push("paid") } },
    });
    await agent.run("s", "Pay.");
    const session = await hold.session("s");
    session.splice("messages", 2, 1);
    await session.checkpoint();
    await session.close();
    expect(await agent.run("s", "And now?", { ifBusy: "interrupt" })).toMatchObject({
      status: "completed",
      output: "Done.",
    });
    expect(made).toHaveLength(1);
    expect(await answersIn(hold)).toEqual([expect.stringContaining("it was made before")]);
  });
});

test.each(["once", "keyed"] as const)(
  "the reply of a %s call in which a process was killed cannot be removed",
  async (mode) => {
    on = await Processes.on("memory:");
    const first = on.start();
    let made = 0;
    const inside = door();
    const clerk = (hold: Holdfast, run: () => unknown) =>
      hold.agent({
        name: "clerk",
        model: script(asks(["pay", {}]), "Done."),
        tools: { pay: { mode, run } },
      });
    const pays = async () => {
      made += 1;
      inside.open();
      await new Promise(() => {});
    };
    void clerk(first.hold, pays)
      .run("s", "Pay.")
      .catch(() => {});
    await inside.opened;
    first.kill();
    const { hold } = on.start();
    const session = await hold.session("s");
    for (const edit of [
      () => session.splice("messages", 1, 1),
      () => session.splice("messages", 0, 2),
      () => session.save({ messages: [{ role: "user", content: "Pay." }] }),
    ])
      expect(await errorOf(edit)).toMatchObject({
        code: "BAD_STATUS",
        details: { effectId: expect.any(String) },
      });
    await session.close({ discard: true });
    expect(made).toBe(1);
  },
);

test("a reply with a call that is not over cannot be removed, and the agent goes on with it", async () => {
  on = await Processes.on("memory:");
  const { hold } = on.start();
  const made: string[] = [];
  const agent = hold.agent({
    name: "clerk",
    model: script(asks(["pay", {}]), "Done."),
    tools: { pay: { mode: "once", approval: true, run: () => made.push("paid") } },
  });
  const { pending = [] } = (await agent.run("s", "Pay.")) as {
    pending?: readonly { readonly effectId: string }[];
  };
  const effectId = pending[0]?.effectId as string;
  const session = await hold.session("s");
  const refusal = { code: "BAD_STATUS", details: { effectId } };
  expect(await errorOf(() => session.splice("messages", 1, 1))).toMatchObject(refusal);
  expect(
    await errorOf(() => session.save({ messages: [{ role: "user", content: "Other." }] })),
  ).toMatchObject(refusal);
  // What stands before it may change.
  session.splice("messages", 0, 1, { role: "user", content: "Pay, please." });
  await session.checkpoint();
  await session.close();
  await hold.effects.approve(effectId);
  expect(await agent.resume("s")).toMatchObject({ status: "completed", output: "Done." });
  expect(made).toEqual(["paid"]);
});

test("a reply whose call was denied after a cancel may go, and nothing of it is left", async () => {
  on = await Processes.on("memory:");
  const { hold } = on.start();
  const agent = hold.agent({
    name: "clerk",
    model: script(asks(["pay", {}]), "Done."),
    tools: { pay: { mode: "once", approval: true, run: () => "paid" } },
  });
  const { pending = [] } = (await agent.run("s", "Pay.")) as {
    pending?: readonly { readonly effectId: string }[];
  };
  await hold.sessions.cancel("s");
  await hold.effects.deny(pending[0]?.effectId as string, { reason: "no" });
  const session = await hold.session("s");
  session.splice("messages", 1, 1);
  await session.checkpoint();
  expect(await session.unfinished()).toEqual([]);
  await session.close();
  expect(await hold.sessions.append("s", [{ role: "user", content: "And?" }])).toMatchObject({
    taken: true,
  });
  expect(await hold.verify()).toMatchObject({ ok: true });
});
