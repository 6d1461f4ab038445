import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type Format,
  fromFormat,
  type GivenTranscript,
  toFormat,
} from "../../src/formats/index.js";
import { type MessageInput, type Part, partsOf } from "../../src/index.js";
import { documents } from "./documents.js";

const through = (value: unknown) => JSON.parse(JSON.stringify(value)) as never;
const isWhole = (message: MessageInput) =>
  partsOf(message).some((part) => part.type === "opaque" && part.format.endsWith("/message"));

describe.each(documents)("$format", (document) => {
  const { format, messages } = document;

  test("FORMAT-2: comes back as it was, with nothing in the remainder", () => {
    expect(toFormat(format, fromFormat(document))).toEqual(document);
    expect(toFormat(format, fromFormat(through(document)))).toEqual(document);
  });

  test("is understood: only what has no word in ours is kept whole", () => {
    const odd = fromFormat(document).flatMap((message) =>
      isWhole(message) ? partsOf(message).map((part) => (part as { value: object }).value) : [],
    );
    const known: Record<Format, readonly string[]> = {
      openai: ["function"],
      "openai-responses": [
        "web_search_call",
        "computer_call",
        "computer_call_output",
        "item_reference",
        "hologram_call",
      ],
      anthropic: [],
      "ai-sdk": [],
      "ai-sdk-ui": [],
    };
    expect(
      odd.map(
        (value) =>
          (value as { type?: string; role?: string }).type ?? (value as { role?: string }).role,
      ),
    ).toEqual(known[format]);
  });

  test("FORMAT-2 holds for any part of it, in any order, with fields that nobody has heard of, and with what has the wrong type", () => {
    const one = fc.constantFrom(...(messages as readonly never[]));
    const wrong = fc.oneof(
      fc.dictionary(
        fc.constantFrom(
          "role",
          "type",
          "content",
          "output",
          "call_id",
          "tool_calls",
          "x",
          "__proto__",
          "holdfast-content",
        ),
        fc.jsonValue({ maxDepth: 2 }),
      ),
      fc.constant({ role: "user", content: null }),
    );
    const item = fc.oneof(
      { weight: 6, arbitrary: one },
      {
        weight: 2,
        arbitrary: fc.tuple(one, wrong).map(([is, more]) => ({ ...(is as object), ...more })),
      },
      { weight: 1, arbitrary: wrong },
    );
    const parts = fc
      .tuple(one, fc.array(fc.nat(12), { maxLength: 3 }), fc.jsonValue({ maxDepth: 1 }))
      .map(([is, drops, other]) => {
        const { content } = is as { content?: unknown };
        if (!Array.isArray(content)) return is;
        const left = content
          .filter((_, i) => !drops.includes(i))
          .map((part: unknown, i) => (drops[0] === i ? other : part));
        return { ...(is as object), content: left };
      });
    const system =
      document.system === undefined
        ? fc.constant({})
        : fc.constantFrom(
            {},
            { system: document.system },
            { system: "Be brief." },
            { system: "" },
            { system: 5 },
            { system: [] },
          );
    fc.assert(
      fc.property(fc.array(fc.oneof(item, parts), { maxLength: 8 }), system, (some, apart) => {
        const given = through({ format, messages: some, ...(apart as object) }) as GivenTranscript;
        expect(toFormat(format, fromFormat(given))).toEqual(given);
      }),
      { numRuns: 300 },
    );
  });

  test("FORMAT-1 holds for what it says, in every format", () => {
    const ours = fromFormat(document);
    for (const { format: other } of documents)
      expect(fromFormat(through(toFormat(other, ours)))).toEqual(ours);
  });

  test("FORMAT-2 has a control: without what was kept for this format, it does not come back", () => {
    const forgets = fromFormat(document).map((message) => ({
      ...message,
      content:
        typeof message.content === "string"
          ? message.content
          : message.content.map(({ provider: _provider, ...part }) => part as Part),
    }));
    expect(toFormat(format, forgets)).not.toEqual(document);
  });
});
