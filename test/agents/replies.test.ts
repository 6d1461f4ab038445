/** Replies of models: those of another shape fail the turn with the name that is wrong. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast, ModelReply } from "../../src/index.js";
import { Processes } from "../support/processes.js";

let on: Processes;
let hold: Holdfast;
beforeEach(async () => {
  on = await Processes.on("memory:");
  hold = on.start().hold;
});
afterEach(() => on.close());

const text = (value: string) => ({ type: "text", text: value });
const call = { id: "1", name: "act", arguments: {} };

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
    [{ content: "hi", finish: "end_turn" }, "reply.finish", "tool-calls"],
    [{ content: "", toolCalls: [null] }, "reply.toolCalls[0]", "null"],
    [{ content: "", toolCalls: { 0: call } }, "reply.toolCalls", "a list"],
    [{ content: "", toolCalls: [call, { id: "2", function: { name: "act" } }] }, "reply.toolCalls[1].function", "arguments"],
    [{ content: "", toolCalls: [{ ...call, args: {} }] }, "reply.toolCalls[0].args", "arguments"],
    [{ content: "", toolCalls: [{ id: "1", name: "act" }] }, "reply.toolCalls[0].arguments", "{}"],
    [{ content: "", toolCalls: [{ id: 1, name: "act", arguments: {} }] }, "reply.toolCalls[0].id", "number"],
    [{ content: [null] }, "reply.content[0]", "null"],
    [{ content: ["hi"] }, "reply.content[0]", "string"],
    [{ content: [text("a"), { type: "text", text: "b", cache_control: {} }] }, "reply.content[1].cache_control", "provider"],
    [{ content: [{ type: "tool-call", callId: "1", name: "act", input: {}, args: {} }] }, "reply.content[0].args", "input"],
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
    const bot = hold.agent({ name: "bot", model, tools: { act: { mode: "once", run: () => (made += 1) } } });
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
      content: [text("hi"), { type: "reasoning", text: "hm", id: "r", provider: { some: { signed: "x" } } }],
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
