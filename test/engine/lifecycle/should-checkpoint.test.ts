/** The strategies of the agent loop, asked from a loop of the caller's own. */
import { afterEach, describe, expect, test } from "vitest";
import type { Session, Strategy } from "../../../src/index.js";
import { manualClock } from "../../../src/testing/index.js";
import { coded, Processes } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const user = (content: string) => ({ role: "user", content }) as const;
const reply = (content: string) => ({ role: "assistant", content }) as const;
const asks = (...ids: readonly string[]) =>
  ({
    role: "assistant",
    content: ids.map((callId) => ({ type: "tool-call", callId, name: "look", input: {} }) as const),
  }) as const;
const answers = (callId: string) =>
  ({
    role: "tool",
    content: [{ type: "tool-result", callId, outcome: "ok", output: "seen" }],
  }) as const;

const MINUTE = 60_000;
const strategies: Readonly<Record<string, Strategy>> = {
  "after-tool": "after-tool",
  "after-model": "after-model",
  "before-step": "before-step",
  never: "never",
  "2 steps": { everySteps: 2 },
  "3 messages": { everyMessages: 3 },
  minute: { everyMs: MINUTE },
  function: ({ step, event }) => step === 2 && event === "model",
};
const wantedBy = (session: Session): readonly string[] =>
  Object.entries(strategies).flatMap(([name, strategy]) =>
    session.shouldCheckpoint(strategy) ? [name] : [],
  );

let on: Processes | undefined;
afterEach(() => on?.close());

describe.each(stores.filter(({ name }) => name === "memory" || name === "sqlite"))(
  "on $name",
  ({ address }) => {
    test("each strategy answers from what came since the last checkpoint, and the same after a kill", async () => {
      on = await Processes.on(address());
      const clock = manualClock(1_700_000_000_000);
      let process = on.start({ clock });
      let session = await process.hold.session("a");
      expect(wantedBy(session)).toEqual([]);
      /** Saves without a checkpoint, kills the process, and opens the session in another. */
      const killed = async () => {
        const live = wantedBy(session);
        await session.model(async () => "unused", { key: `${session.messages.length}` });
        process.kill();
        process = (on as Processes).start({ clock });
        session = await process.hold.session("a");
        expect(wantedBy(session)).toEqual(live);
      };
      session.append(user("go"));
      expect(wantedBy(session)).toEqual(["before-step"]);
      await killed();
      session.append(asks("1", "2"));
      expect(wantedBy(session)).toEqual(["after-model"]);
      await killed();
      session.append(answers("1"));
      // Between two answers of one reply.
      expect(wantedBy(session)).toEqual(["3 messages"]);
      session.append(answers("2"));
      await killed();
      expect(wantedBy(session)).toEqual(["after-tool", "before-step", "3 messages"]);
      await session.checkpoint();
      expect(wantedBy(session)).toEqual([]);
      clock.advance(2 * MINUTE);
      // Time alone is no reason: nothing came.
      expect(wantedBy(session)).toEqual([]);
      session.append(reply("One."));
      expect(wantedBy(session)).toEqual(["after-model", "minute", "function"]);
      session.append(user("more"), reply("Two."));
      await killed();
      expect(wantedBy(session)).toEqual([
        "after-model",
        "2 steps",
        "3 messages",
        "minute",
        "function",
      ]);
      await session.checkpoint();
      session.set("plan", 1);
      clock.advance(MINUTE);
      expect(wantedBy(session)).toEqual(["minute"]);
      session.unset("plan");
      await session.checkpoint();
      await session.effect("look", {}, { mode: "keyed", key: "k" }, () => "seen");
      expect(wantedBy(session)).toEqual(["after-tool"]);
      await killed();
      expect(wantedBy(session)).toEqual(["after-tool"]);
      await session.close({ discard: true });
    });

    test("after a fork and a rewind the counts begin at the checkpoint that was gone back to", async () => {
      on = await Processes.on(address());
      const clock = manualClock(1_700_000_000_000);
      const { hold } = on.start({ clock });
      const session = await hold.session("a");
      session.append(user("1"));
      const first = await session.checkpoint();
      session.append(user("2"), user("3"), user("4"));
      expect(session.shouldCheckpoint({ everyMessages: 3 })).toBe(true);
      await session.checkpoint();
      clock.advance(2 * MINUTE);
      const fork = await session.fork(first.id);
      await session.rewind(first.id);
      for (const one of [session, fork]) {
        expect(wantedBy(one)).toEqual([]);
        one.append(user("5"), user("6"));
        expect(one.shouldCheckpoint({ everyMessages: 3 })).toBe(false);
        one.append(user("7"));
        expect(one.shouldCheckpoint({ everyMessages: 3 })).toBe(true);
        expect(one.shouldCheckpoint({ everyMs: MINUTE })).toBe(one === session);
        await one.close({ discard: true });
      }
    });
  },
);

test("a function is told what came since the last checkpoint", async () => {
  on = await Processes.on("memory:");
  const clock = manualClock(1_700_000_000_000);
  const session = await on.start({ clock }).hold.session("a");
  session.append(user("go"));
  await session.checkpoint();
  session.append(reply("One."), user("more"), reply("Two."));
  clock.advance(MINUTE);
  const told: unknown[] = [];
  const wanted = session.shouldCheckpoint(({ event, step, steps, messages, ms }) => {
    told.push({ event, step, steps, messages, ms });
    return messages >= 3;
  });
  expect(wanted).toBe(true);
  expect(told).toEqual([{ event: "model", step: 2, steps: 2, messages: 3, ms: MINUTE }]);
  await session.close({ discard: true });
});

test("a strategy that is none is refused, and so is a session that is closed", async () => {
  on = await Processes.on("memory:");
  const session = await on.start().hold.session("a");
  for (const strategy of [
    "sometimes",
    {},
    { everyMessages: 0 },
    { everyMessages: 1, everyMs: 1 },
    null,
  ])
    expect(() => session.shouldCheckpoint(strategy as never)).toThrow(
      expect.objectContaining(coded("INVALID_OPTION")),
    );
  await session.close();
  expect(() => session.shouldCheckpoint()).toThrow(expect.objectContaining(coded("CLOSED")));
});
