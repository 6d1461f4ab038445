import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Format, fromFormat, toFormat } from "../../src/formats/index.js";
import { FORMATS } from "../../src/formats/transcript.js";
import { HoldfastError, type MessageInput } from "../../src/index.js";
import { thrown } from "../core/values/thrown.js";
import { runs } from "../support/runs.js";
import { documents } from "./documents.js";

const through = (value: unknown) => JSON.parse(JSON.stringify(value)) as never;
const refused = (given: unknown): readonly [code: string, path: string | undefined] => {
  const { code, details } = thrown(() => fromFormat(given as never));
  return [code, details.path];
};

describe("a document that is none", () => {
  test.each([
    ["nothing", undefined, "transcript"],
    ["a text", "openai", "transcript"],
    ["a list", [], "transcript"],
    ["no format", { messages: [] }, "transcript.format"],
    ["a format of another", { format: "constructor", messages: [] }, "transcript.format"],
    ["no messages", { format: "openai" }, "transcript.messages"],
    ["messages that are none", { format: "openai", messages: "x" }, "transcript.messages"],
    ["a message that is a text", { format: "openai", messages: ["x"] }, "transcript.messages[0]"],
    ["a message that is a list", { format: "openai", messages: [[]] }, "transcript.messages[0]"],
    [
      "a date in a message",
      { format: "openai", messages: [{ role: "user", content: [{ when: new Date() }] }] },
      "transcript.messages[0].content[0].when",
    ],
    ["a field of a request", { format: "openai", messages: [], model: "x" }, "transcript"],
    [
      "system text where there is none",
      { format: "openai", messages: [], system: "x" },
      "transcript.system",
    ],
    [
      "a list as remainder",
      { format: "openai", messages: [], remainder: [] },
      "transcript.remainder",
    ],
    [
      "an empty remainder",
      { format: "openai", messages: [], remainder: {} },
      "transcript.remainder",
    ],
    [
      "an entry that is none",
      { format: "openai", messages: [], remainder: { messages: ["x"] } },
      "transcript.remainder.messages[0]",
    ],
    [
      "an entry in no message",
      { format: "openai", messages: [], remainder: { messages: [{ as: [0.5] }] } },
      "transcript.remainder.messages[0]",
    ],
    [
      "an entry twice in one",
      { format: "openai", messages: [{}], remainder: { messages: [{ as: [0, 0] }] } },
      "transcript.remainder.messages[0]",
    ],
    [
      "content of another kind",
      { format: "openai", messages: [], remainder: { messages: [{ as: [], content: 5 }] } },
      "transcript.remainder.messages[0].content",
    ],
    [
      "names of another kind",
      { format: "openai", messages: [], remainder: { messages: [{ as: [], without: "x" }] } },
      "transcript.remainder.messages[0].without",
    ],
    [
      "a message without a role",
      { format: "openai", messages: [], remainder: { messages: [{ as: [], content: "x" }] } },
      "messages[0].role",
    ],
    [
      "a message without content",
      { format: "openai", messages: [], remainder: { messages: [{ as: [], role: "user" }] } },
      "messages[0].content",
    ],
    [
      "a part that is not there",
      {
        format: "openai",
        messages: [],
        remainder: { messages: [{ as: [], role: "user", content: [3] }] },
      },
      "transcript.remainder.messages[0].content[0]",
    ],
    [
      "a change of nothing",
      {
        format: "openai",
        messages: [],
        remainder: { messages: [{ as: [], role: "user", content: [[{}]] }] },
      },
      "transcript.remainder.messages[0].content[0]",
    ],
    [
      "bytes that are none",
      {
        format: "openai",
        messages: [],
        remainder: {
          messages: [
            {
              as: [],
              role: "user",
              content: [{ type: "file", mediaType: "a/b", data: { bytes: "?" } }],
            },
          ],
        },
      },
      "messages[0].content[0].data.bytes",
    ],
  ])("%s", (_, given, path) => {
    expect(refused(given)).toEqual(["INVALID_VALUE", path]);
  });

  test("messages that cannot be read, or that are no messages of ours", () => {
    const throws = {
      get role() {
        throw new Error("no");
      },
    };
    expect(thrown(() => toFormat("openai", [throws as never])).details.path).toBe(
      "messages[0].role",
    );
    expect(thrown(() => toFormat("openai", "x" as never)).details.path).toBe("messages");
    expect(thrown(() => toFormat("telegram" as never, [])).details.path).toBe("format");
    expect(
      thrown(() => toFormat("openai", [{ role: "user", content: 5 } as never])).details.path,
    ).toBe("messages[0].content");
    expect(thrown(() => fromFormat(throws as never)).code).toBe("INVALID_VALUE");
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(thrown(() => fromFormat(proxy as never)).code).toBe("INVALID_VALUE");
    expect(thrown(() => fromFormat({ format: "openai", messages: [proxy] } as never)).code).toBe(
      "INVALID_VALUE",
    );
  });

  test("too many messages", () => {
    const many = Array.from({ length: 100_001 }, () => ({ role: "user", content: "x" }));
    expect(thrown(() => toFormat("openai", many as MessageInput[])).code).toBe("TOO_LARGE");
    expect(refused({ format: "openai", messages: many })).toEqual([
      "TOO_LARGE",
      "transcript.messages",
    ]);
  });
});

describe.each(FORMATS)("%s", (format: Format) => {
  test("`__proto__` is a key like others, wherever it stands", () => {
    const odd = JSON.parse(
      '{"__proto__":{"admin":true},"role":"user","content":[{"type":"text","text":"x","__proto__":{"admin":true}}]}',
    ) as never;
    const [message] = fromFormat({ format, messages: [odd] });
    expect((message as { admin?: boolean }).admin).toBeUndefined();
    expect(({} as { admin?: boolean }).admin).toBeUndefined();
    expect(JSON.stringify(toFormat(format, [message as MessageInput]).messages[0])).toContain(
      "__proto__",
    );
    const remainder = JSON.parse(
      '{"messages":[{"as":[],"role":"user","content":"x","metadata":{"__proto__":{"admin":true}}}]}',
    ) as never;
    const [kept] = fromFormat({ format, messages: [], remainder });
    expect(Object.keys(kept?.metadata ?? {})).toEqual(["__proto__"]);
    expect(
      refused({
        format,
        messages: [],
        remainder: JSON.parse(
          '{"messages":[{"as":[],"role":"user","content":"x","__proto__":{}}]}',
        ),
      })[0],
    ).toBe("INVALID_VALUE");
  });

  test("thousands of parts, calls and messages, take no long time", () => {
    const parts = Array.from({ length: runs(2_000, 10_000) }, (_, i) => ({
      type: "text" as const,
      text: `word ${i}`,
    }));
    const calls = Array.from({ length: runs(1_000, 2_000) }, (_, i) => ({
      type: "tool-call" as const,
      callId: `c${i}`,
      name: "look",
      input: { i },
    }));
    const results = calls.map(({ callId }) => ({
      type: "tool-result" as const,
      callId,
      outcome: "ok" as const,
      output: { callId },
    }));
    const ours: MessageInput[] = [
      { role: "user", content: parts },
      { role: "assistant", content: calls },
      { role: "tool", content: results },
      ...Array.from({ length: 2_000 }, (_, i) => ({
        role: "user" as const,
        content: "x",
        id: `m${i}`,
      })),
    ];
    const began = performance.now();
    expect(fromFormat(through(toFormat(format, ours)))).toEqual(ours);
    expect(performance.now() - began).toBeLessThan(8_000);
  });

  test("nesting to the last level that messages have comes back, and deeper is refused", () => {
    const nested = (levels: number) => {
      let value: unknown = 1;
      for (let i = 0; i < levels; i++) value = [value];
      return value;
    };
    const deep = (levels: number): MessageInput[] => [
      {
        role: "assistant",
        content: [{ type: "tool-call", callId: "c", name: "look", input: nested(levels) as never }],
      },
      {
        role: "tool",
        content: [
          {
            type: "tool-result",
            callId: "c",
            outcome: "ok",
            output: nested(levels) as never,
            name: "x",
          },
        ],
      },
    ];
    let most = 512;
    while (most > 0 && isRefused(() => toFormat(format, deep(most)))) most -= 1;
    expect(most).toBeGreaterThan(500);
    expect(fromFormat(through(toFormat(format, deep(most))))).toEqual(deep(most));
    expect(refused({ format, messages: [{ role: "user", content: nested(600) }] })[0]).toBe(
      "INVALID_VALUE",
    );
    expect(refused({ format, messages: [], remainder: { messages: [nested(600)] } })[0]).toBe(
      "INVALID_VALUE",
    );
    expect(refused({ format, messages: [{ role: "user", content: nested(100_000) }] })[0]).toBe(
      "INVALID_VALUE",
    );
  });

  test("a small document does not become a large transcript: each part is named once", () => {
    const messages = [{ role: "user", content: [{ type: "text", text: "x".repeat(1_000) }] }];
    const { remainder } = toFormat(format, [
      { ...(fromFormat({ format, messages })[0] as MessageInput), id: "a" },
    ]);
    const [entry] = (remainder?.messages ?? []) as readonly {
      readonly as: readonly number[];
      readonly check: string;
    }[];
    const { as, check } = entry as { readonly as: readonly number[]; readonly check: string };
    const twice = {
      messages: [
        { as, check, role: "user", content: [0] },
        { as, check, role: "user", content: [0] },
      ],
    };
    expect(refused({ format, messages, remainder: twice })).toEqual([
      "INVALID_VALUE",
      "transcript.remainder.messages[1].content[0]",
    ]);
    expect(
      refused({
        format,
        messages,
        remainder: { messages: [{ as, check, role: "user", content: [0, 0] }] },
      })[0],
    ).toBe("INVALID_VALUE");
  });

  test("whatever is given, nothing but a HoldfastError is thrown", () => {
    const document = documents.find((each) => each.format === format);
    const any = fc.anything({
      maxDepth: 4,
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSparseArray: true,
      withTypedArray: true,
    });
    const given = fc.oneof(
      any,
      fc.record(
        {
          format: fc.constant(format),
          messages: fc.oneof(fc.array(any), any),
          system: any,
          remainder: any,
        },
        { requiredKeys: ["format"] },
      ),
      fc.record({
        format: fc.constant(format),
        messages: fc.constant(document?.messages),
        remainder: fc.record({ messages: fc.array(any) }),
      }),
    );
    fc.assert(
      fc.property(given, any, (one, other) => {
        for (const run of [
          () => fromFormat(one as never),
          () => toFormat(format, [other] as never),
          () => toFormat(format, one as never),
        ]) {
          try {
            run();
          } catch (error) {
            expect(error).toBeInstanceOf(HoldfastError);
          }
        }
      }),
      { numRuns: runs(100, 300) },
    );
  });
});

function isRefused(run: () => unknown): boolean {
  try {
    run();
    return false;
  } catch {
    return true;
  }
}
