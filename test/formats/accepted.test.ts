/**
 * What providers refuse is not written: whatever a transcript holds, its messages are ones that
 * they take.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fromFormat, toFormat } from "../../src/formats/index.js";
import { type MessageInput, type Part } from "../../src/index.js";
import { messages } from "../support/messages.js";
import { runs } from "../support/runs.js";

type Item = Readonly<Record<string, unknown>> & { readonly role?: string; readonly type?: string };
type Block = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Without what is given back verbatim: for that, whoever put it there answers. */
const own = messages.map((all) =>
  all.map(({ provider: _provider, ...message }) => ({
    ...message,
    content: plain(message.content),
  })),
);

function plain(content: MessageInput["content"]): MessageInput["content"] {
  if (typeof content === "string") return content;
  return content.flatMap((part: Part): Part[] => {
    // What a tool answered is any JSON.
    if (typeof part !== "object" || part === null || Array.isArray(part)) return [part];
    if (part.type === "opaque") return [];
    const { provider: _provider, ...rest } = part;
    return [
      rest.type === "tool-result" && Array.isArray(rest.output)
        ? { ...rest, output: plain(rest.output as Part[]) as Part[] }
        : rest,
    ];
  });
}

const blocksOf = ({ content }: Item): readonly Block[] =>
  Array.isArray(content) ? (content as Block[]) : [];

/** Calls and answers, as each format has them: what an item asks for, and what it answers. */
interface Reading {
  readonly asks: readonly string[];
  readonly answers: readonly string[];
}

const readings: Record<
  "openai" | "openai-responses" | "anthropic" | "ai-sdk",
  (item: Item) => Reading
> = {
  openai: ({ role, tool_calls: calls = [], tool_call_id: id }) => ({
    asks: role === "assistant" ? (calls as { id: string }[]).map((call) => call.id) : [],
    answers: role === "tool" ? [id as string] : [],
  }),
  "openai-responses": ({ type, call_id: id }) => ({
    asks: type === "function_call" ? [id as string] : [],
    answers: type === "function_call_output" ? [id as string] : [],
  }),
  anthropic: (item) => ({
    asks: blocksOf(item).flatMap(({ type, id }) => (type === "tool_use" ? [id as string] : [])),
    answers: blocksOf(item).flatMap(({ type, tool_use_id: id }) =>
      type === "tool_result" ? [id as string] : [],
    ),
  }),
  "ai-sdk": (item) => ({
    asks: blocksOf(item).flatMap(({ type, toolCallId: id, providerExecuted }) =>
      type === "tool-call" && providerExecuted !== true ? [id as string] : [],
    ),
    answers:
      item.role === "tool"
        ? blocksOf(item).flatMap(({ type, toolCallId: id }) =>
            type === "tool-result" ? [id as string] : [],
          )
        : [],
  }),
};

/** What is wrong with the order of calls and answers, in words. */
function disorder(items: readonly Item[], read: (item: Item) => Reading): string | undefined {
  let open = new Set<string>();
  let isAnswering = false;
  for (const [i, item] of items.entries()) {
    const { asks, answers } = read(item);
    for (const id of answers)
      if (!open.delete(id)) return `${i}: answers ${id}, which nobody asked for`;
    if (answers.length > 0) isAnswering = true;
    // A reply may be several items, until the first of its calls is answered.
    const goesOn =
      !isAnswering &&
      read === readings["openai-responses"] &&
      (item.role ?? "assistant") === "assistant";
    if (open.size > 0 && answers.length === 0 && !goesOn)
      return `${i}: comes between a call and its answer`;
    if (asks.length > 0 && answers.length === 0) {
      if (isAnswering && open.size > 0) return `${i}: asks again before all is answered`;
      open = new Set([...(isAnswering ? [] : open), ...asks]);
      isAnswering = false;
    }
  }
  return undefined;
}

describe.each(["openai", "openai-responses", "anthropic", "ai-sdk"] as const)("%s", (format) => {
  test("answers follow their calls, nothing comes between, and none is without the other", () => {
    fc.assert(
      fc.property(own, (all) => {
        expect(
          disorder(toFormat(format, all).messages as Item[], readings[format]),
        ).toBeUndefined();
      }),
      { numRuns: runs(120, 400) },
    );
  });

  test("the check sees a message between a call and its answer, an answer without a call, and a call without an answer", () => {
    const call: MessageInput = {
      role: "assistant",
      content: [{ type: "tool-call", callId: "c", name: "look", input: {} }],
    };
    const answer: MessageInput = {
      role: "tool",
      content: [{ type: "tool-result", callId: "c", name: "look", outcome: "ok", output: "x" }],
    };
    const user: MessageInput = { role: "user", content: "and?" };
    const [asks, answers, more] = toFormat(format, [call, answer, user]).messages as [
      Item,
      Item,
      Item,
    ];
    for (const wrong of [[asks, more, answers], [answers], [asks, more], [answers, asks]])
      expect(disorder(wrong, readings[format])).toBeDefined();
    expect(disorder([asks, answers, more], readings[format])).toBeUndefined();
    // What is written in its place: the answer is brought to its call, and what lacks the other is
    // left out.
    expect(toFormat(format, [call, user, answer]).messages).toEqual([asks, answers, more]);
    expect(toFormat(format, [answer, user]).messages).toEqual([more]);
    expect(toFormat(format, [call, user]).messages).toEqual([more]);
    // At the end it is still to be answered.
    expect(toFormat(format, [call]).messages).toEqual([asks]);
    // Of two calls with one id only one can be answered.
    expect(toFormat(format, [call, call, answer, user]).messages).toEqual([asks, answers, more]);
    expect(toFormat(format, [call, call]).messages).toEqual([asks]);
  });
});

test("anthropic is sent no empty text, no thinking that it did not sign, and nothing but the two roles", () => {
  fc.assert(
    fc.property(own, (all) => {
      const { system, messages: items } = toFormat("anthropic", all);
      const blocks = [
        ...(Array.isArray(system) ? system : []),
        ...(items as unknown as Item[]).flatMap(blocksOf),
      ] as Block[];
      if (typeof system === "string") expect(system).not.toBe("");
      for (const item of items as unknown as Item[]) {
        expect(["user", "assistant"]).toContain(item.role);
        expect(Object.keys(item)).toEqual(["role", "content"]);
        expect(
          typeof item.content === "string" ? item.content.trim() : item.content,
        ).not.toHaveLength(0);
        // Answers come first in their message.
        const kinds = blocksOf(item).map(({ type }) => type === "tool_result");
        expect(kinds).toEqual(kinds.toSorted((a, b) => Number(b) - Number(a)));
      }
      for (const block of blocks) {
        expect(["text", "image", "document", "tool_use", "tool_result"]).toContain(block.type);
        if (block.type === "text") expect((block.text as string).trim()).not.toBe("");
        if (block.type === "tool_use") expect(block.input).toEqual(expect.objectContaining({}));
        for (const id of [block.id, block.tool_use_id])
          if (id !== undefined) expect(id).toMatch(/^[a-zA-Z0-9_-]+$/);
      }
    }),
    { numRuns: runs(120, 400) },
  );
});

test("a transcript goes from one provider to another", () => {
  const ours = fromFormat({
    format: "openai",
    messages: [
      { role: "system", content: "You help with orders." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look:" },
          { type: "image_url", image_url: { url: "https://example.org/a.png" } },
        ],
      },
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [
          { id: "call_1", type: "function", function: { name: "look", arguments: '{"order":42}' } },
          { id: "call_2", type: "function", function: { name: "look", arguments: '{"order":43}' } },
        ],
      },
      { role: "tool", tool_call_id: "call_1", content: '{"state":"broken"}' },
      { role: "tool", tool_call_id: "call_2", content: "not found" },
      { role: "assistant", content: "It is broken." },
    ],
  });
  const { remainder, ...anthropic } = toFormat("anthropic", ours);
  expect(remainder).toBeDefined();
  expect(anthropic).toEqual({
    format: "anthropic",
    system: "You help with orders.",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Look:" },
          { type: "image", source: { type: "url", url: "https://example.org/a.png" } },
        ],
      },
      {
        role: "assistant",
        content: [
          { type: "text", text: "I look." },
          { type: "tool_use", id: "call_1", name: "look", input: { order: 42 } },
          { type: "tool_use", id: "call_2", name: "look", input: { order: 43 } },
        ],
      },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "call_1", content: '{"state":"broken"}' },
          { type: "tool_result", tool_use_id: "call_2", content: "not found" },
        ],
      },
      { role: "assistant", content: "It is broken." },
    ],
  });
  expect(toFormat("openai-responses", ours).messages).toEqual([
    { role: "system", content: "You help with orders." },
    {
      role: "user",
      content: [
        { type: "input_text", text: "Look:" },
        { type: "input_image", image_url: "https://example.org/a.png" },
      ],
    },
    { role: "assistant", content: [{ type: "output_text", text: "I look." }] },
    { type: "function_call", call_id: "call_1", name: "look", arguments: '{"order":42}' },
    { type: "function_call", call_id: "call_2", name: "look", arguments: '{"order":43}' },
    { type: "function_call_output", call_id: "call_1", output: '{"state":"broken"}' },
    { type: "function_call_output", call_id: "call_2", output: "not found" },
    { role: "assistant", content: "It is broken." },
  ]);
  expect(toFormat("ai-sdk", ours).messages).toEqual([
    { role: "system", content: "You help with orders." },
    {
      role: "user",
      content: [
        { type: "text", text: "Look:" },
        { type: "file", data: "https://example.org/a.png", mediaType: "image/*" },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "text", text: "I look." },
        { type: "tool-call", toolCallId: "call_1", toolName: "look", input: { order: 42 } },
        { type: "tool-call", toolCallId: "call_2", toolName: "look", input: { order: 43 } },
      ],
    },
    {
      role: "tool",
      content: [
        {
          type: "tool-result",
          toolCallId: "call_1",
          toolName: "look",
          output: { type: "json", value: { state: "broken" } },
        },
      ],
    },
    {
      role: "tool",
      content: [
        {
          type: "tool-result",
          toolCallId: "call_2",
          toolName: "look",
          output: { type: "text", value: "not found" },
        },
      ],
    },
    { role: "assistant", content: "It is broken." },
  ]);
});
