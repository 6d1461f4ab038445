/**
 * Replies of models: those of another shape fail the turn with the name that is wrong, and
 * an input that cannot be used goes back to the model.
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { toFormat } from "../../../src/formats/transcript.js";
import type { Holdfast, ModelReply, ToolResultPart } from "../../../src/index.js";
import { asks, Processes, script } from "../../support/processes.js";

let on: Processes;
let hold: Holdfast;
beforeEach(async () => {
  on = await Processes.on("memory:");
  hold = on.start().hold;
});
afterEach(() => on.close());

const text = (value: string) => ({ type: "text", text: value });
const call = { callId: "1", name: "act", input: {} };
const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);

describe("replies of another shape", () => {
  const wrong: readonly (readonly [reply: unknown, path: string, says: string])[] = [
    [{ content: "", tool_calls: [call] }, "reply.tool_calls", "toolCalls"],
    [{ content: "", toolcalls: [call] }, "reply.toolcalls", "toolCalls"],
    [{ content: "", function_call: call }, "reply.function_call", "toolCalls"],
    [{ content: "", finish_reason: "stop" }, "reply.finish_reason", "finish"],
    [{ content: "", stopReason: "end_turn" }, "reply.stopReason", "finish"],
    [{ text: "hi" }, "reply.text", "content"],
    [{ message: { content: "hi" } }, "reply.message", "content"],
    [{ choices: [] }, "reply.choices", "content"],
    [{ role: "assistant", content: "hi" }, "reply.role", "Leave it out"],
    [{ content: "hi", colour: "red" }, "reply.colour", "responseId"],
    [{ content: "hi", colour: "red", tool_calls: [] }, "reply.tool_calls", "colour"],
    [{ content: "hi", usage: { prompt_tokens: 3 } }, "reply.usage.prompt_tokens", "inputTokens"],
    [
      { content: "hi", usage: { inputTokens: "60" } },
      "reply.usage.inputTokens",
      "a number from 0 on",
    ],
    [
      { content: "hi", usage: { outputTokens: -60 } },
      "reply.usage.outputTokens",
      "a number from 0 on",
    ],
    [{ content: "hi", finish: "end_turn" }, "reply.finish", "tool-calls"],
    [{ content: "", toolCalls: [null] }, "reply.toolCalls[0]", "null"],
    [{ content: "", toolCalls: { 0: call } }, "reply.toolCalls", "a list"],
    [
      { content: "", toolCalls: [call, { callId: "2", function: { name: "act" } }] },
      "reply.toolCalls[1].function",
      "Use name and input",
    ],
    [{ content: "", toolCalls: [{ ...call, args: {} }] }, "reply.toolCalls[0].args", "Use input"],
    [
      { content: "", toolCalls: [{ ...call, arguments: "{}" }] },
      "reply.toolCalls[0].arguments",
      "Use input",
    ],
    [{ content: "", toolCalls: [{ ...call, id: "1" }] }, "reply.toolCalls[0].id", "Use callId"],
    [
      { content: "", toolCalls: [{ ...call, tool_call_id: "1" }] },
      "reply.toolCalls[0].tool_call_id",
      "Use callId",
    ],
    [{ content: "", toolCalls: [{ ...call, tool: "act" }] }, "reply.toolCalls[0].tool", "Use name"],
    [{ content: "", toolCalls: [{ callId: "1", name: "act" }] }, "reply.toolCalls[0].input", "{}"],
    [
      { content: "", toolCalls: [{ callId: 1, name: "act", input: {} }] },
      "reply.toolCalls[0].callId",
      "number",
    ],
    [{ content: [null] }, "reply.content[0]", "null"],
    [{ content: ["hi"] }, "reply.content[0]", "string"],
    [
      { content: [text("a"), { type: "text", text: "b", cache_control: {} }] },
      "reply.content[1].cache_control",
      "provider",
    ],
    [
      { content: [{ type: "tool-call", callId: "1", name: "act", input: {}, args: {} }] },
      "reply.content[0].args",
      "input",
    ],
    [{ content: [{ type: "tool_use", id: "1" }] }, "reply.content[0].type", "tool-call"],
    [{ content: 3 }, "reply.content", "number"],
    [{}, "reply.content", "undefined"],
    ["hi", "reply", "content"],
    [null, "reply", "null"],
    [[text("a")], "reply", "an array"],
  ];

  test.each(wrong)("%j fails the turn at %s", async (reply, path, says) => {
    let asked = 0;
    let made = 0;
    const model = async () => {
      asked += 1;
      return reply as ModelReply;
    };
    const bot = hold.agent({
      name: "bot",
      model,
      tools: { act: { mode: "once", run: () => (made += 1) } },
    });
    const result = await bot.run("a", "go");
    expect(result).toMatchObject({ status: "failed", error: { code: "INVALID_VALUE" } });
    const { message } = (result as Extract<typeof result, { status: "failed" }>).error;
    expect(message.startsWith(`${path}: `), message).toBe(true);
    expect(message).toContain(says);
    // Asking again would not change the author's code.
    expect([asked, made]).toEqual([1, 0]);
  });

  test("fields that are undefined are absent, and all that a reply may have is taken", async () => {
    const reply = {
      content: [
        text("hi"),
        { type: "reasoning", text: "hm", id: "r", provider: { some: { signed: "x" } } },
      ],
      toolCalls: undefined,
      tool_calls: undefined,
      finish: "stop",
      rawFinish: "end_turn",
      usage: { inputTokens: 1, totalTokens: 2 },
      provider: { some: { a: 1 } },
      model: "m",
      responseId: "r-1",
    };
    const bot = hold.agent({ name: "bot", model: async () => reply as never });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed", output: "hi" });
  });
});

describe("an input that cannot be used", () => {
  /** What a tool was called with, and what the model was told, for the input of a call. */
  async function called(input: unknown) {
    const made: unknown[] = [];
    const model = script(asks(["act", input]), "done");
    const bot = hold.agent({
      name: "bot",
      model,
      tools: { act: { mode: "once", run: (given) => made.push(given) } },
    });
    const result = await bot.run("a", "go");
    expect(result).toMatchObject({ status: "completed", output: "done" });
    const messages = (await hold.sessions.state("a"))?.messages ?? [];
    const told = messages.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.filter(({ type }) => type === "tool-result"),
    );
    // The next request shows each provider an input that it takes.
    const anthropic = toFormat("anthropic", messages);
    expect(JSON.stringify(anthropic.messages)).toMatch(
      /"type":"tool_use","id":"act-0","name":"act","input":[{[]/,
    );
    expect((await hold.verify()).ok).toBe(true);
    return { made, told: String((told[0] as ToolResultPart).output), messages };
  }

  const unusable: readonly (readonly [what: string, input: unknown, says: RegExp])[] = [
    ["text that is no JSON", '{"order": 4', /is not JSON: \{"order": 4/],
    ["an escape of half a character", '{"to":"\\ud800"}', /half a character/],
    ["half a character", '{"to":"\ud800"}', /half a character/],
    ["a number that overflows", '{"list":[1,1e400]}', /list\[1\].*string/],
    ["an integer past 2^53", '{"order":9007199254740993}', /order.*string/],
    ["a negative integer past 2^53", "[-9007199254740993]", /\[0\].*string/],
    ["10,000 levels", nested(10_000), /nested/],
    ["levels that no message can hold", nested(511), /nested/],
    ["an object with half a character", { to: "\ud800" }, /half a character/],
    ["an object with a number that overflowed", { n: Number.POSITIVE_INFINITY }, /Infinity/],
    ["an object of 10,000 levels", JSON.parse(nested(10_000)), /nested/],
    ["a bigint", { n: 9007199254740993n }, /bigint/],
    ["65 MiB", `"${"x".repeat(65 * 1024 * 1024)}"`, /larger than 64 MiB/],
  ];

  test.each(unusable)(
    "%s goes back to the model, and the tool is not run",
    async (_what, input, says) => {
      const { made, told } = await called(input);
      expect(made).toEqual([]);
      expect(told).toMatch(says);
      expect(told).toContain('"act"');
      expect(told.length).toBeLessThan(2_000);
    },
  );

  const usable: readonly (readonly [what: string, input: unknown, seen: unknown])[] = [
    ["no text", "", {}],
    [
      "numbers that are exact",
      '{"order":9007199254740991, "n": 1.5e300}',
      { order: 9007199254740991, n: 1.5e300 },
    ],
    ["digits in a string", '{"order":"9007199254740993"}', { order: "9007199254740993" }],
    ["escapes of a whole character", '{"to":"\\ud83d\\ude00"}', { to: "😀" }],
    ["400 levels", nested(400), JSON.parse(nested(400))],
  ];

  test.each(usable)("%s: taken as it is", async (_what, input, seen) => {
    const { made } = await called(input);
    expect(made).toEqual([seen]);
  });

  test("a call among the parts of a reply is treated alike, and one whose text has spaces is made", async () => {
    const made: unknown[] = [];
    const part = (callId: string, input: unknown, raw?: string) => ({
      type: "tool-call",
      callId,
      name: "act",
      input,
      ...(raw !== undefined && { raw }),
    });
    const content = [
      part("1", { to: "\ud800" }),
      part("2", { order: 4 }, '{ "order": 4 }'),
      part("3", { order: 9007199254740992 }, '{"order":9007199254740993}'),
    ];
    const bot = hold.agent({
      name: "bot",
      model: script({ content: content as never }, "done"),
      tools: { act: { mode: "once", run: (given) => made.push(given) } },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed" });
    expect(made).toEqual([{ order: 4 }]);
  });

  test("the model can send the number as a string the next time", async () => {
    const made: unknown[] = [];
    const bot = hold.agent({
      name: "bot",
      model: script(
        asks(["act", '{"order":9007199254740993}', "1"]),
        asks(["act", '{"order":"9007199254740993"}', "2"]),
        "done",
      ),
      tools: {
        act: {
          mode: "once",
          input: z.object({ order: z.union([z.number(), z.string()]) }),
          run: (given) => made.push(given),
        },
      },
    });
    expect(await bot.run("a", "go")).toMatchObject({ status: "completed", output: "done" });
    expect(made).toEqual([{ order: "9007199254740993" }]);
  });
});

test("an output with a number that JSON.parse would change does not fit, and the model is told where", async () => {
  const model = script('{"order":9007199254740993}', '{"order":"9007199254740993"}');
  const output = z.object({ order: z.union([z.number(), z.string()]) });
  const bot = hold.agent({ name: "bot", model, output });
  expect(await bot.run("a", "go")).toMatchObject({
    status: "completed",
    output: { order: "9007199254740993" },
  });
  expect(model.requests[1]?.messages.at(-1)?.content).toMatch(/order.*string/);
});
