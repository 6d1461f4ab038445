/**
 * APPEND-3 as a model: an agent that asks and answers, and letters that come at any time. Whatever
 * happens, no letter stands between the two.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { leavesOpen, mayFollow, openCalls } from "../../../src/core/messages/append-position.js";
import type { MessageInput } from "../../../src/core/messages/message.js";

const user = (content: string): MessageInput => ({ role: "user", content });
const call = (...ids: readonly string[]): MessageInput => ({
  role: "assistant",
  content: ids.map((callId) => ({ type: "tool-call", callId, name: "look", input: {} })),
});
const answer = (...ids: readonly string[]): MessageInput => ({
  role: "tool",
  content: ids.map((callId) => ({ type: "tool-result", callId, outcome: "ok", output: null })),
});
const open = (...messages: readonly MessageInput[]) => [...openCalls(messages.toReversed())];

test("calls of the last reply are open until they are answered", () => {
  expect(open()).toEqual([]);
  expect(open(user("x"))).toEqual([]);
  expect(open(call("a", "b"))).toEqual(["a", "b"]);
  expect(open(call("a", "b"), answer("a"))).toEqual(["b"]);
  expect(open(call("a", "b"), answer("b"), answer("a"))).toEqual([]);
  expect(open(call("a"), call("b"), answer("b"))).toEqual(["a"]);
  expect(open(call("a"), answer("a"), call("b"))).toEqual(["b"]);
  // A reply that asks for nothing has left what was asked before it.
  expect(open(call("a"), { role: "assistant", content: "never mind" })).toEqual([]);
  expect(
    open({
      role: "assistant",
      content: [{ type: "tool-call", callId: "a", name: "x", input: {}, by: "provider" }],
    }),
  ).toEqual([]);
});

test("what only answers open calls may follow, and then anything", () => {
  const two = new Set(["a", "b"]);
  for (const fine of [
    [],
    [answer("a")],
    [answer("b", "a")],
    [answer("b"), answer("a"), user("x")],
    [answer("a", "b"), call("c")],
  ])
    expect(mayFollow(two, fine)).toBe(true);
  for (const wrong of [
    [user("x")],
    [answer("c")],
    [answer("a"), user("x")],
    [answer("a"), answer("a")],
    [call("c")],
    [{ ...user(""), content: [] }],
  ])
    expect(mayFollow(two, wrong)).toBe(false);
  expect(mayFollow(new Set(), [user("x")])).toBe(true);
  expect(leavesOpen([user("x"), call("a")])).toBe(true);
  expect(leavesOpen([call("a"), answer("a")])).toBe(false);
});

type Event =
  | { readonly do: "reply"; readonly calls: number }
  | { readonly do: "answer" }
  | { readonly do: "turn" }
  | { readonly do: "letter"; readonly messages: readonly MessageInput[] };

/** Letters that cannot be told from what the agent does, but for their words. */
const letter = fc.constantFrom<(readonly MessageInput[])[]>(
  [user("outside")],
  [user("outside"), user("outside")],
  [call("x1"), answer("x1"), user("outside")],
  [answer("x1"), user("outside")],
  [{ role: "assistant", content: "outside" }],
);
const events: fc.Arbitrary<Event[]> = fc.array(
  fc.oneof(
    fc.record({ do: fc.constant("reply" as const), calls: fc.nat(2) }),
    fc.record({ do: fc.constant("answer" as const) }),
    fc.record({ do: fc.constant("turn" as const) }),
    fc.record({ do: fc.constant("letter" as const), messages: letter }),
  ),
  { maxLength: 30 },
);

type Rule = (open: ReadonlySet<string>, messages: readonly MessageInput[]) => boolean;

/** Plays what an agent, and others, do. `fits` says when a letter is taken in. */
function play(
  happens: readonly Event[],
  fits: Rule,
): { readonly transcript: readonly MessageInput[]; readonly waiting: number } {
  const transcript: MessageInput[] = [];
  let waiting: (readonly MessageInput[])[] = [];
  let asked: string[] = [];
  let next = 0;
  const look = () => {
    waiting = waiting.filter((messages) => {
      const isTaken = fits(openCalls(transcript.toReversed()), messages);
      if (isTaken) transcript.push(...messages);
      return !isTaken;
    });
  };
  for (const event of happens) {
    if (event.do === "letter") waiting.push(event.messages);
    if (event.do === "turn" && asked.length === 0) transcript.push(user("turn"));
    if (event.do === "reply" && asked.length === 0) {
      asked = Array.from({ length: event.calls }, () => `c${next++}`);
      transcript.push(
        asked.length === 0 ? { role: "assistant", content: "words" } : call(...asked),
      );
    }
    if (event.do === "answer" && asked.length > 0) {
      transcript.push(...asked.map((id) => answer(id)));
      asked = [];
    }
    look();
  }
  return { transcript, waiting: waiting.length };
}

/** Whether the agent's own answers stand right behind the calls that asked for them. */
const isOrderly = (transcript: readonly MessageInput[]): boolean => {
  const ids = transcript.flatMap(({ content }) =>
    typeof content === "string"
      ? ["-"]
      : content.flatMap((part) => ("callId" in part ? [`${part.type[5]}${part.callId}`] : ["-"])),
  );
  return ids.every((id, i) => {
    if (!id.startsWith("rc")) return true;
    // Back over other answers of the same reply, and then over its calls.
    let at = i - 1;
    while (ids[at]?.startsWith("rc")) at -= 1;
    while (ids[at]?.startsWith("cc") && ids[at] !== `c${id.slice(1)}`) at -= 1;
    return ids[at] === `c${id.slice(1)}`;
  });
};

describe("E3", () => {
  test("no letter comes between a call and its answer, and none waits once all is answered", () => {
    fc.assert(
      fc.property(events, (happens) => {
        const { transcript, waiting } = play(happens, mayFollow);
        expect(isOrderly(transcript)).toBe(true);
        if (openCalls(transcript.toReversed()).size === 0) expect(waiting).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  test.each<[string, Rule]>([
    ["takes everything at once", () => true],
    [
      "looks only at the first message",
      (calls, [first]) => calls.size === 0 || first?.role === "tool",
    ],
    [
      "takes one answer for all",
      (calls, messages) => calls.size === 0 || messages.some(({ role }) => role === "tool"),
    ],
  ])("the check catches a rule that %s", (_, rule) => {
    const found = fc.check(
      fc.property(events, (happens) => isOrderly(play(happens, rule).transcript)),
      { numRuns: 2_000 },
    );
    expect(found.failed).toBe(true);
  });

  test("the check catches a rule that takes nothing", () => {
    const found = fc.check(
      fc.property(events, (happens) => {
        const { transcript, waiting } = play(happens, () => false);
        return openCalls(transcript.toReversed()).size > 0 || waiting === 0;
      }),
    );
    expect(found.failed).toBe(true);
  });
});
