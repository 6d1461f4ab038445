/** TRANSCRIPT-1, TRANSCRIPT-2: which messages change. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  changesBetween,
  tornCall,
  transcriptVersion,
} from "../../../src/core/journal/transcript-change.js";
import type { Message, MessageInput } from "../../../src/core/messages/message.js";

const message = (id: string, content: string, i = 0): Message => ({
  id,
  role: "user",
  content,
  seq: i + 1,
  createdAt: "2026-01-01T00:00:00.000Z",
});
const transcript = (count: number): readonly Message[] =>
  Array.from({ length: count }, (_, i) => message(`m${i}`, `text ${i}`, i));

/** What a transcript becomes, and which of its messages are still the same objects. */
function applied(
  present: readonly Message[],
  given: readonly MessageInput[],
  range: { start: number; count: number },
): readonly unknown[] {
  const after: unknown[] = [...present];
  let moved = 0;
  for (const { start, remove, add } of changesBetween(present, range, given)) {
    after.splice(start + moved, remove, ...add.map((i) => given[i]));
    moved += add.length - remove;
  }
  return after;
}

const said = (all: readonly unknown[]) =>
  (all as readonly MessageInput[]).map(({ id, content }) => `${id}: ${content as string}`);

test("the given messages stand in the range afterwards, and nothing else changes", () => {
  const given = fc.uniqueArray(fc.nat(14), { maxLength: 12 }).chain((ids) =>
    fc.tuple(
      ...ids.map((i) =>
        fc.oneof(
          { weight: 3, arbitrary: fc.constant({ id: `m${i}`, content: `text ${i}` }) },
          fc.constant({ id: `m${i}`, content: "another" }),
          // Without an id, with the words of a message that is there, which another may name.
          fc.nat(14).map((other) => ({ id: undefined, content: `text ${other}` })),
        ),
      ),
    ),
  );
  fc.assert(
    fc.property(fc.nat(10), fc.nat(10), fc.nat(10), given, (length, from, most, replacement) => {
      const present = transcript(length);
      const start = Math.min(from, length);
      const range = { start, count: Math.min(most, length - start) };
      const messages = replacement.map(
        ({ id, content }) => ({ role: "user", content, ...(id !== undefined && { id }) }) as const,
      );
      const expected = [
        ...present.slice(0, start),
        ...messages,
        ...present.slice(start + range.count),
      ];
      const after = applied(present, messages, range) as readonly MessageInput[];
      expect(after.map(({ content }) => content)).toEqual(expected.map(({ content }) => content));
      // One without an id may be one that is there; never one that another message names.
      const wanted = (expected as readonly MessageInput[]).map(({ id }) => id);
      for (const [i, { id }] of after.entries())
        if (wanted[i] !== undefined) expect(id).toBe(wanted[i]);
      const ids = after.flatMap(({ id }) => id ?? []);
      const isTaken = messages.some(({ id }) =>
        present.some((one, i) => one.id === id && (i < start || i >= start + range.count)),
      );
      if (!isTaken) expect(new Set(ids).size).toBe(ids.length);
    }),
    { seed: 7, numRuns: 500 },
  );
});

describe("messages that stay are not written again", () => {
  const present = transcript(5);
  const all = { start: 0, count: 5 };
  const text = ({ id, content }: Message): MessageInput => ({ role: "user", id, content });
  const changes = (given: readonly MessageInput[], range = all) =>
    changesBetween(present, range, given).map(({ start, remove, add }) => [
      start,
      remove,
      add.length,
    ]);

  test.each<readonly [string, readonly MessageInput[], readonly number[][]]>([
    ["the same", present.map(text), []],
    ["the same, without ids", present.map(({ content }) => ({ role: "user", content })), []],
    ["nothing", [], [[0, 5, 0]]],
    ["one more at the end", [...present.map(text), { role: "user", content: "new" }], [[5, 0, 1]]],
    ["one gone", present.filter((_, i) => i !== 2).map(text), [[2, 1, 0]]],
    [
      "two changed, apart",
      present.map((one, i) => (i === 0 || i === 4 ? { ...text(one), content: "x" } : text(one))),
      [
        [0, 1, 1],
        [4, 1, 1],
      ],
    ],
    [
      "one moved to the front",
      [text(present[4] as Message), ...present.slice(0, 4).map(text)],
      [
        [0, 4, 0],
        [5, 0, 4],
      ],
    ],
    [
      "one changed and moved: one change, since its id is in use until then",
      [{ role: "user", id: "m4", content: "x" }, ...present.slice(0, 3).map(text)],
      [[0, 5, 4]],
    ],
  ])("%s", (_name, given, expected) => {
    expect(changes(given)).toEqual(expected);
  });

  test("very many changes are one", () => {
    const long = transcript(500);
    const given = long.map((one, i) => (i % 2 ? text(one) : { ...text(one), content: "x" }));
    expect(changesBetween(long, { start: 0, count: 500 }, given)).toHaveLength(1);
    expect(said(applied(long, given, { start: 0, count: 500 }))).toEqual(said(given));
  });

  test("what its provider said of a message need not be given again; another of it makes it another message", () => {
    const reply = {
      ...(present[0] as Message),
      role: "assistant",
      reply: { finish: "stop" },
    } as Message;
    const given = { role: "assistant", id: "m0", content: "text 0" } as const;
    expect(changesBetween([reply], { start: 0, count: 1 }, [given])).toEqual([]);
    expect(
      changesBetween([reply], { start: 0, count: 1 }, [{ ...given, reply: { finish: "length" } }]),
    ).toHaveLength(1);
  });
});

test("a version is that of ids, order and content, and not of numbers and times", () => {
  const present = transcript(3);
  const version = transcriptVersion(present);
  expect(
    transcriptVersion(
      present.map((one) => ({ ...one, seq: one.seq + 7, createdAt: "2027-01-01T00:00:00.000Z" })),
    ),
  ).toBe(version);
  for (const other of [
    present.toReversed(),
    present.slice(1),
    [message("x", "text 0"), ...present.slice(1)],
    [message("m0", "x"), ...present.slice(1)],
  ])
    expect(transcriptVersion(other)).not.toBe(version);
});

test("TRANSCRIPT-2 a call is torn where it loses its answer, or an answer its call", () => {
  const call = (callId: string): MessageInput => ({
    role: "assistant",
    content: [{ type: "tool-call", callId, name: "look", input: {} }],
  });
  const answer = (callId: string): MessageInput => ({
    role: "tool",
    content: [{ type: "tool-result", callId, name: "look", outcome: "ok", output: 1 }],
  });
  const user: MessageInput = { role: "user", content: "and?" };
  const whole = [user, call("a"), call("b"), answer("b"), answer("a"), user];
  const without = (...at: readonly number[]) => whole.filter((_, i) => !at.includes(i));
  expect(tornCall(whole, whole)).toBeUndefined();
  expect(tornCall(whole, without(0, 5))).toBeUndefined();
  expect(tornCall(whole, without(1, 4))).toBeUndefined();
  expect(tornCall(whole, without(4))).toBe("a");
  expect(tornCall(whole, without(1))).toBe("a");
  // At the end, too: a call without an answer there is one that is still to be made.
  expect(tornCall(whole, without(4, 5))).toBe("a");
  expect(tornCall(whole, [user, call("a")])).toBe("a");
  // Those that were torn before, or never had an answer, may stay so.
  expect(tornCall([call("a"), user], [call("a"), user, user])).toBeUndefined();
  expect(tornCall([user, call("a")], [call("a")])).toBeUndefined();
  expect(tornCall([user], [user, call("a")])).toBeUndefined();
  // An id that was used before.
  expect(
    tornCall([call("a"), answer("a"), user, call("a")], [call("a"), answer("a"), call("a")]),
  ).toBeUndefined();
});
