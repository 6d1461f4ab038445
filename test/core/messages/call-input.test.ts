/** Arguments of calls, as models give them. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { callInputOf, inputFlaw, readInput } from "../../../src/core/messages/call-input.js";
import { encodeMessage, isObject, partsOf } from "../../../src/core/messages/message.js";
import { fromFormat, toFormat } from "../../../src/formats/transcript.js";
import type { Json } from "../../../src/index.js";

/** Pieces of JSON, whole and torn, with what JavaScript cannot keep. */
const piece = fc.constantFrom(
  ...[
    '{"a":',
    "}",
    "[",
    "]",
    ",",
    '"',
    "\\",
    "\\ud800",
    "\ud800",
    "\udc00",
    "9007199254740993",
    "1e400",
    "-1",
    "null",
    " ",
    "é",
    "…",
  ],
);
const text = fc.oneof(
  fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join("")),
  fc.json(),
  fc.constantFrom(
    `${"[".repeat(600)}${"]".repeat(600)}`,
    `${"[".repeat(2_000)}${"]".repeat(2_000)}`,
    `{"a":"${"x".repeat(70_000)}`,
    "{}x",
  ),
);

test("INPUT-1, INPUT-2: an input is what JSON.parse reads, without loss, or has a flaw that is found again in what is stored", () => {
  fc.assert(
    fc.property(text, (given) => {
      const stored = callInputOf(given);
      encodeMessage(
        { role: "assistant", content: [{ type: "tool-call", callId: "c", name: "t", ...stored }] },
        "reply",
      );
      const { flaw } = readInput(given);
      expect(inputFlaw(stored) === undefined).toBe(flaw === undefined);
      if (flaw === undefined && given.trim() !== "")
        expect(stored.input).toEqual(JSON.parse(given));
    }),
    { seed: 7, numRuns: 2_000 },
  );
});

test("INPUT-2: a value that cannot be stored has a flaw in what is stored, whatever it was", () => {
  const deep = (levels: number) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`) as Json;
  for (const given of [
    { a: "\ud800" },
    { "\ud800": 1 },
    [Number.NEGATIVE_INFINITY],
    deep(600),
    1n,
  ]) {
    const stored = callInputOf(given);
    expect(inputFlaw(stored)).toMatch(/^is not JSON: input/);
    // INPUT-3
    expect(isObject(stored.input)).toBe(true);
  }
});

test.each(["openai", "openai-responses"] as const)(
  "in %s, a number that would be changed keeps its digits, both ways",
  (format) => {
    const args = '{"order":9007199254740993}';
    const messages: readonly Json[] =
      format === "openai"
        ? [
            {
              role: "assistant",
              content: null,
              tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: args } }],
            },
          ]
        : [{ type: "function_call", call_id: "c", name: "t", arguments: args }];
    const read = fromFormat({ format, messages } as never);
    expect(partsOf(read[0] as never)).toMatchObject([
      { input: { order: "9007199254740993" }, raw: args },
    ]);
    expect(toFormat(format, read).messages).toEqual(messages);
    expect(JSON.stringify(toFormat("anthropic", read).messages)).toContain(
      '"order":"9007199254740993"',
    );
  },
);

test.each([
  '{"order":9007199254740993}',
  '{"to":"\\ud800"}',
  `${"[".repeat(600)}${"]".repeat(600)}`,
])("a result that is %.40s stays text", (content) => {
  const call = {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: "{}" } }],
  };
  const messages = [call, { role: "tool", tool_call_id: "c", content }];
  const read = fromFormat({ format: "openai", messages });
  expect(partsOf(read[1] as never)).toMatchObject([{ output: content }]);
  expect(toFormat("openai", read).messages).toEqual(messages);
});
