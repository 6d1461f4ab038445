/** Examples that come to an end by themselves are run as they stand. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { scratch } from "../support/stores.js";

test("a transcript of one provider's goes on with another's", async () => {
  const example = fileURLToPath(new URL("../../examples/transcripts.mjs", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [example], { cwd: scratch() });
  expect(stdout.split("\n")).toEqual([
    "taken in: true",
    "system: You help people with their orders.",
    'user: "Where is order 42?"',
    'assistant: [{"type":"tool_use","id":"call_1","name":"lookup","input":{"order":42}}]',
    'user: [{"type":"tool_result","tool_use_id":"call_1","content":"{\\"state\\":\\"shipped\\",\\"days\\":2}"}]',
    'assistant: "It was shipped, and takes two days."',
    'user: "The parcel arrived."',
    "back again: system, user, assistant, tool, assistant, user",
    "",
  ]);
});

test("an agent writes down what it is told, and another process looks it up", async () => {
  const example = fileURLToPath(new URL("../../examples/memory.mjs", import.meta.url));
  const cwd = scratch();
  const run = async (...said: string[]) =>
    (await promisify(execFile)(process.execPath, [example, ...said], { cwd })).stdout.split(
      "\n",
    )[0];
  expect(await run("Where do I live?")).toBe("You have not told me.");
  expect(await run()).toBe("I have written that down.");
  expect(await run("Where do I live?")).toBe("You said: I live in Bergen, and I like kelp.");
});
