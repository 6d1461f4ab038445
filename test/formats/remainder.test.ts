import { expect, test } from "vitest";
import { fromFormat, toFormat } from "../../src/formats/index.js";
import { type Message, type MessageInput } from "../../src/index.js";

const ours: readonly MessageInput[] = [
  { role: "system", content: "Be brief.", id: "s" },
  { role: "user", content: "Hello", id: "u", metadata: { from: "app" } },
  {
    role: "assistant",
    content: [
      { type: "reasoning", text: "Hm." },
      { type: "text", text: "Hi." },
    ],
    id: "a",
    reply: { finish: "stop" },
  },
];
const through = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

test("what a format says of itself needs no remainder", () => {
  const plain: MessageInput[] = [
    { role: "user", content: "Hello" },
    { role: "assistant", content: "Hi." },
  ];
  for (const format of ["openai", "openai-responses", "anthropic", "ai-sdk"] as const)
    expect(toFormat(format, plain)).toEqual({ format, messages: plain });
});

test("of a part that is there only what differs stands in the remainder", () => {
  const text = "x".repeat(10_000);
  const long: MessageInput[] = [
    { role: "user", content: [{ type: "text", text, provider: { other: { a: 1 } } }], id: "u" },
    {
      role: "assistant",
      content: [{ type: "tool-call", callId: "c", name: "look", input: { text } }],
    },
    {
      role: "tool",
      content: [
        { type: "tool-result", callId: "c", name: "look", outcome: "error", output: { text } },
      ],
    },
  ];
  for (const format of ["openai", "openai-responses", "anthropic", "ai-sdk"] as const) {
    const { remainder } = toFormat(format, long);
    expect(JSON.stringify(remainder).length).toBeLessThan(600);
  }
});

test("REMAINDER-2: what was said since comes behind, and all that was kept still counts", () => {
  const transcript = through(toFormat("openai", ours));
  transcript.messages.push({ role: "user", content: "More?" });
  expect(fromFormat(transcript)).toEqual([...ours, { role: "user", content: "More?" }]);
});

test("REMAINDER-2: a message that was changed is taken as it is now, and the others keep what is theirs", () => {
  const transcript = through(toFormat("openai", ours));
  transcript.messages[1] = { role: "user", content: "Good day" };
  expect(fromFormat(transcript)).toEqual([ours[0], { role: "user", content: "Good day" }, ours[2]]);
});

test("REMAINDER-2: of a transcript that was cut nothing is made up", () => {
  const transcript = through(toFormat("openai", ours));
  transcript.messages.length = 2;
  expect(fromFormat(transcript)).toEqual(ours.slice(0, 2));
});

test("a message that a format cannot say at all comes back in its place", () => {
  const odd: MessageInput[] = [
    { role: "user", content: "one" },
    { role: "user", content: [{ type: "opaque", format: "mine", value: { a: 1 } }] },
    { role: "system", content: "two" },
    { role: "user", content: "three" },
  ];
  const anthropic = through(toFormat("anthropic", odd));
  expect(anthropic).toMatchObject({
    system: "two",
    messages: [{ content: "one" }, { content: "three" }],
  });
  expect(fromFormat(anthropic)).toEqual(odd);
});

test("messages of a session keep when they were said; their numbers are the session's own", () => {
  const message: Message = {
    role: "user",
    content: "Hello",
    id: "u",
    createdAt: "2026-01-01T00:00:00.000Z",
    seq: 7,
  };
  const { seq: _seq, ...rest } = message;
  expect(fromFormat(through(toFormat("anthropic", [message])))).toEqual([rest]);
});

test("bytes are written where a provider takes them, and kept in the remainder where it does not", () => {
  const bytes = Uint8Array.from([1, 2, 3]);
  const file = { type: "file", mediaType: "image/png", data: { bytes } } as const;
  const both: MessageInput[] = [
    { role: "user", content: [file] },
    { role: "assistant", content: [file] },
  ];
  const transcript = through(toFormat("openai", both));
  expect(transcript.messages).toEqual([
    {
      role: "user",
      content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AQID" } }],
    },
  ]);
  expect(fromFormat(transcript)).toEqual(both);
});
