/**
 * What the compiler knows of transcripts: the format that was asked for, and messages as a
 * provider's own library has them.
 */
import { expect, expectTypeOf, test } from "vitest";
import {
  fromFormat,
  type Transcript,
  type TranscriptMessage,
  toFormat,
} from "../../../src/formats/index.js";
import { open } from "../../../src/index.js";

/**
 * As libraries of providers have them: interfaces without an index, and lists that can be changed.
 */
interface TextBlock {
  type: "text";
  text: string;
}
interface ProviderMessage {
  role: "user" | "assistant";
  content: string | TextBlock[];
}
const send = (messages: ProviderMessage[]): number => messages.length;

test("messages are what the provider's library calls them, both ways", async () => {
  await using hold = await open("memory:");
  const theirs: ProviderMessage[] = [{ role: "user", content: [{ type: "text", text: "hi" }] }];
  await hold.sessions.append("a", { format: "anthropic", messages: theirs }, { create: true });
  const plain = await hold.sessions.transcript("a", { format: "anthropic" });
  expectTypeOf(plain.format).toEqualTypeOf<"anthropic">();
  const typed = await hold.sessions.transcript<ProviderMessage>("a", { format: "anthropic" });
  expectTypeOf(typed).toEqualTypeOf<Transcript<ProviderMessage>>();
  expect(send(typed.messages)).toBe(1);
  expectTypeOf(fromFormat(plain)).toEqualTypeOf<TranscriptMessage[]>();
  await hold.sessions.append("b", fromFormat(plain), { create: true });
  await hold.sessions.append("c", plain, { create: true });
  const session = await hold.session("c");
  expectTypeOf(toFormat("openai", session.messages).format).toEqualTypeOf<"openai">();
  expect(send(toFormat<ProviderMessage>("openai", session.messages).messages)).toBe(1);
  // @ts-expect-error: there is no such format
  expect(() => toFormat("telegram", session.messages)).toThrow();
});
