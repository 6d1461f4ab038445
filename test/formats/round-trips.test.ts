import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FORMATS, fromFormat, toFormat } from "../../src/formats/transcript.js";
import type { Json, MessageInput, Part } from "../../src/index.js";
import { messages } from "../support/messages.js";
import { runs } from "../support/runs.js";

const call = (callId: string, name: string, input: Json, by?: "provider"): Part => ({
  type: "tool-call",
  callId,
  name,
  input,
  ...(by !== undefined && { by }),
});

/**
 * A call of the provider's, and one of ours with the same id in the next message of the same reply:
 * the answer is to ours.
 */
const sameId = (first: readonly Part[], output: Json): MessageInput[] => [
  { role: "assistant", content: first },
  { role: "assistant", content: [call("c1", "look", { of: "c1" })] },
  {
    role: "tool",
    content: [{ type: "tool-result", callId: "c1", name: "look", outcome: "ok", output }],
  },
];
const sameIds = [
  sameId([call("c1", "a", {}, "provider"), call("call 4", "a", [])], {}),
  sameId([call("", "a", {}), call("c1", "a", 0, "provider")], 0),
];

const options = {
  numRuns: runs(80, 250),
  examples: sameIds.map((ours): [MessageInput[]] => [ours]),
};
const through = (value: unknown) => JSON.parse(JSON.stringify(value)) as never;

describe.each(FORMATS)("%s", (format) => {
  test("FORMAT-1: ours, written, sent as JSON and read again, is what it was", () => {
    fc.assert(
      fc.property(messages, (ours) => {
        expect(fromFormat(through(toFormat(format, ours)))).toEqual(ours as MessageInput[]);
      }),
      options,
    );
  });

  test("FORMAT-2: what was written, and read without the remainder, is written as it was", () => {
    fc.assert(
      fc.property(messages, (ours) => {
        const { remainder: _remainder, ...theirs } = toFormat(format, ours);
        const again = toFormat(format, fromFormat(through(theirs)));
        expect(again).toEqual(through(theirs));
      }),
      options,
    );
  });
});

test("a call of the provider's is not given what answers another with the same id", () => {
  const [ours] = sameIds as [MessageInput[]];
  expect(toFormat("ai-sdk-ui", ours).messages.map(({ parts }) => parts)).toEqual([
    [
      {
        type: "tool-a",
        toolCallId: "c1",
        input: {},
        providerExecuted: true,
        state: "input-available",
      },
      { type: "tool-a", toolCallId: "call 4", input: [], state: "input-available" },
    ],
    [
      {
        type: "tool-look",
        toolCallId: "c1",
        input: { of: "c1" },
        state: "output-available",
        output: {},
      },
    ],
  ]);
});

test("FORMAT-2: what is written as it was, but from two messages, is kept whole", () => {
  const asked = { type: "tool-look", toolCallId: "c1", input: {}, output: "x" };
  const theirs = {
    format: "ai-sdk-ui",
    messages: [
      // In a state that nobody has heard of, with the output that answers the next call of this id.
      { id: "a", role: "assistant", parts: [{ ...asked, state: "output-soon" }] },
      { id: "b", role: "assistant", parts: [{ ...asked, state: "output-available" }] },
    ],
  } as const;
  const ours = fromFormat(theirs);
  expect(ours.map(({ content }) => (content as Part[]).map(({ type }) => type))).toEqual([
    ["opaque"],
    ["tool-call", "tool-result"],
  ]);
  expect(toFormat("ai-sdk-ui", ours)).toEqual(theirs);
});
