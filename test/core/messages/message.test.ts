import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  blobsOf,
  encodeMessage,
  type MessageInput,
  type Part,
  partsOf,
  type Reply,
  textOf,
} from "../../../src/core/messages/message.js";
import { costOf, noCost, tokensIn } from "../../../src/core/messages/usage.js";
import { digest } from "../../../src/core/values/digest.js";

const tokensOf = (message: MessageInput): number => tokensIn(costOf(message) ?? noCost);

import { MAX_TITLE, titleOf } from "../../../src/core/messages/truncate.js";
import { runs } from "../../support/runs.js";
import { expectCode, expectRefused, thrown } from "../values/thrown.js";

const bytes = Uint8Array.from([1, 2, 3]);
const stored = { digest: digest(bytes), sizeBytes: 3 };

const parts = {
  text: { type: "text", text: "hi" },
  reasoning: { type: "reasoning", text: "hm" },
  file: { type: "file", mediaType: "image/png", data: { url: "https://example.org/a.png" } },
  "tool-call": { type: "tool-call", callId: "c1", name: "search", input: { q: "x" } },
  "tool-result": { type: "tool-result", callId: "c1", outcome: "ok", output: { hits: 3 } },
  opaque: { type: "opaque", format: "vendor/v1", value: [1, 2] },
} as const satisfies Record<Part["type"], Part>;

const withPart = (part: unknown, role = "user") => ({ role, content: [part] });
const encodePart = (part: unknown) => encodeMessage(withPart(part), "messages[0]");
const storedPart = (part: unknown) => encodePart(part).value.content[0];
const without = (part: object, field: string) =>
  Object.fromEntries(Object.entries(part).filter(([key]) => key !== field));

/** A message that is sound but for what is given. */
const message = (rest: object): unknown => ({ role: "user", content: "hi", ...rest });

describe("parts", () => {
  test.each(Object.values(parts))("$type passes in every role, as it is", (part) => {
    for (const role of ["system", "user", "assistant", "tool"]) {
      const { value, text, blobs } = encodeMessage(withPart(part, role), "m");
      expect(value).toEqual({ role, content: [part] });
      expect(JSON.parse(text)).toEqual({ role, content: [part] });
      expect(blobs).toEqual([]);
    }
  });

  const required: readonly (readonly [Part["type"], string])[] = [
    ["text", "text"],
    ["reasoning", "text"],
    ["file", "mediaType"],
    ["file", "data"],
    ["tool-call", "callId"],
    ["tool-call", "name"],
    ["tool-call", "input"],
    ["tool-result", "callId"],
    ["tool-result", "outcome"],
    ["tool-result", "output"],
    ["opaque", "format"],
    ["opaque", "value"],
  ];

  test.each(required)("%s needs %s", (type, field) => {
    const why = `a ${type} part needs it`;
    expectRefused(`messages[0].content[0].${field}`, why, () =>
      encodePart(without(parts[type], field)),
    );
    expectRefused(`messages[0].content[0].${field}`, why, () =>
      encodePart({ ...parts[type], [field]: undefined }),
    );
  });

  const anyJson = new Set(["input", "output", "value"]);

  test.each(required.filter(([, field]) => !anyJson.has(field)))(
    "%s.%s of another type is refused",
    (type, field) => {
      const kind = field === "data" ? "an object" : "a string";
      const others: readonly (readonly [wrong: unknown, name: string])[] = [
        [null, "null"],
        [5, "number"],
        [["x"], "an array"],
        field === "data" ? ["x", "string"] : [{}, "Object"],
      ];
      for (const [wrong, name] of others) {
        expectRefused(`messages[0].content[0].${field}`, `it is ${name}, and must be ${kind}`, () =>
          encodePart({ ...parts[type], [field]: wrong }),
        );
      }
    },
  );

  test.each(required.filter(([, field]) => anyJson.has(field)))(
    "%s.%s is any JSON",
    (type, field) => {
      for (const value of [null, false, 0, "", [], {}]) {
        const part = { ...parts[type], [field]: value };
        expect(storedPart(part)).toEqual(part);
      }
      expectRefused(`messages[0].content[0].${field}`, "Date is not JSON", () =>
        encodePart({ ...parts[type], [field]: new Date() }),
      );
    },
  );

  test.each(Object.values(parts))("$type: id is a string and provider an object", (part) => {
    const both = { ...part, id: "p1", provider: { anthropic: { cache: true } } };
    expect(storedPart(both)).toEqual(both);
    expectRefused("messages[0].content[0].id", "it is number, and must be a string", () =>
      encodePart({ ...part, id: 7 }),
    );
    expectRefused("messages[0].content[0].provider", "it is string, and must be an object", () =>
      encodePart({ ...part, provider: "x" }),
    );
  });

  test.each([
    ["an unknown one", "image"],
    ["none", undefined],
    ["one that every object has", "constructor"],
    ["__proto__", "__proto__"],
    ["null", null],
  ])("a type that is %s is refused", (_, type) => {
    const why = "a part's type is text, reasoning, file, tool-call, tool-result or opaque";
    expectRefused("messages[0].content[0].type", why, () => encodePart({ type, text: "x" }));
  });

  test("a type that only turns into one when it is spelled out is refused", () => {
    expectCode("INVALID_VALUE", () => encodePart({ type: ["text"], text: "x" }));
  });

  test.each([
    ["a string", "hi"],
    ["null", null],
    ["an array", []],
    ["a number", 5],
  ])("a part that is %s is refused", (_, part) => {
    expectRefused("messages[0].content[0]", "a part is an object with a type", () =>
      encodePart(part),
    );
  });

  test("an outcome is ok, error or denied", () => {
    for (const outcome of ["ok", "error", "denied"])
      expect(storedPart({ ...parts["tool-result"], outcome })).toMatchObject({ outcome });
    expectRefused("messages[0].content[0].outcome", "an outcome is ok, error or denied", () =>
      encodePart({ ...parts["tool-result"], outcome: "maybe" }),
    );
  });

  test.each([
    ["tool-call", "raw", 5, "it is number, and must be a string"],
    ["tool-call", "by", "me", 'it is string, and must be "provider" or absent'],
    ["tool-result", "by", null, 'it is null, and must be "provider" or absent'],
    ["tool-result", "name", {}, "it is Object, and must be a string"],
    ["file", "name", 5, "it is number, and must be a string"],
    ["file", "reasoning", "yes", "it is string, and must be true or absent"],
    ["opaque", "text", [], "it is an array, and must be a string"],
  ] as const)("%s.%s: %j is refused", (type, field, value, why) => {
    expectRefused(`messages[0].content[0].${field}`, why, () =>
      encodePart({ ...parts[type], [field]: value }),
    );
    expect(storedPart({ ...parts[type], [field]: undefined })).toEqual(parts[type]);
  });

  test("VALUE-2: each property of a part and of its data is read once", () => {
    let reads = 0;
    const once = (fields: object) => {
      const watched = {};
      for (const [key, value] of Object.entries(fields)) {
        let met = false;
        const get = () => {
          reads += 1;
          if (met) throw new Error(`${key} is read twice`);
          met = true;
          return value;
        };
        Object.defineProperty(watched, key, { enumerable: true, get });
      }
      return watched;
    };
    const file = once({ type: "file", mediaType: "a/b", data: once({ bytes }) });
    encodeMessage(
      once({ role: "tool", content: [once({ ...parts["tool-result"], output: [file] })] }),
      "m",
    );
    expect(reads).toBe(10);
  });

  test.each([
    ["a part", "messages[0].content[0]", (bad: unknown) => bad],
    ["file data", "messages[0].content[0].data", (data: unknown) => ({ ...parts.file, data })],
    [
      "file bytes",
      "messages[0].content[0].data.bytes",
      (bad: unknown) => ({ ...parts.file, data: { bytes: bad } }),
    ],
    [
      "an output",
      "messages[0].content[0].output",
      (output: unknown) => ({ ...parts["tool-result"], output }),
    ],
    [
      "a part of an output",
      "messages[0].content[0].output[0]",
      (bad: unknown) => ({ ...parts["tool-result"], output: [bad] }),
    ],
  ])("a revoked proxy as %s is refused with its path", (_, path, part) => {
    for (const target of [{}, []]) {
      const { proxy, revoke } = Proxy.revocable(target, {});
      revoke();
      const { code, details } = thrown(() => encodePart(part(proxy)));
      expect({ code, path: details.path }).toEqual({ code: "INVALID_VALUE", path });
    }
  });

  test("the path counts parts: the third is the third", () => {
    const content = [parts.text, parts.reasoning, { type: "text" }];
    expectRefused("messages[4].content[2].text", "a text part needs it", () =>
      encodeMessage({ role: "user", content }, "messages[4]"),
    );
  });
});

describe("file data", () => {
  const file = (data: unknown) => ({ type: "file", mediaType: "image/png", data });

  test.each([
    ["url", { url: "https://example.org" }],
    ["text", { text: "a,b" }],
    ["ref", { ref: { openai: "file-1" } }],
    ["digest", stored],
  ])("%s passes as it is", (_, data) => expect(storedPart(file(data))).toEqual(file(data)));

  test.each([
    ["url", { url: 5 }, "it is number, and must be a string"],
    ["text", { text: null }, "it is null, and must be a string"],
    ["ref", { ref: "x" }, "it is string, and must be an object"],
  ])("%s of another type is refused", (kind, data, why) =>
    expectRefused(`messages[0].content[0].data.${kind}`, why, () => encodePart(file(data))),
  );

  const oneOf = "file data is one of bytes, digest, url, text and ref";
  test.each([
    ["none of them", {}],
    ["something else", { path: "/etc/passwd" }],
    ["url and text", { url: "u", text: "t" }],
    ["digest and ref", { ...stored, ref: {} }],
  ])("%s is refused", (_, data) =>
    expectRefused("messages[0].content[0].data", oneOf, () => encodePart(file(data))),
  );

  test.each([
    ["url", { url: "u" }],
    ["text", { text: "t" }],
    ["ref", { ref: {} }],
  ])("bytes and %s are refused: neither is silently dropped", (_, other) => {
    expectCode("INVALID_VALUE", () => encodePart(file({ bytes, ...other })));
  });

  test.each([
    ["no size", { digest: stored.digest }],
    ["a size below zero", { ...stored, sizeBytes: -1 }],
    ["half a byte", { ...stored, sizeBytes: 1.5 }],
    ["a size in words", { ...stored, sizeBytes: "3" }],
    ["a digest too short", { ...stored, digest: "abc" }],
    ["a digest that is a path", { ...stored, digest: "../".repeat(15).slice(0, 43) }],
  ])("a stored file with %s is refused", (_, data) => {
    expectRefused(
      "messages[0].content[0].data",
      "a stored file has a digest and its sizeBytes",
      () => encodePart(file(data)),
    );
  });

  test("bytes leave for a blob under their digest, and the part keeps digest and size", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (content) => {
        const { value, blobs } = encodePart({ ...file({ bytes: content }), name: "a.png" });
        expect(value.content).toEqual([
          { ...file({ digest: digest(content), sizeBytes: content.length }), name: "a.png" },
        ]);
        expect(blobs).toEqual([{ digest: digest(content), bytes: content }]);
        expect(blobsOf(value.content)).toEqual([digest(content)]);
      }),
    );
  });

  test("bytes inside a tool result leave too, also in a result inside a result", () => {
    const inner = Uint8Array.from([4, 5]);
    const result = (output: unknown) => ({ ...parts["tool-result"], output });
    const { value, blobs } = encodePart(
      result([{ type: "text", text: "see" }, file({ bytes }), result([file({ bytes: inner })])]),
    );
    const innerStored = { digest: digest(inner), sizeBytes: 2 };
    expect(value.content[0]).toEqual(
      result([{ type: "text", text: "see" }, file(stored), result([file(innerStored)])]),
    );
    expect(blobs.map((blob) => blob.digest)).toEqual([stored.digest, innerStored.digest]);
    expect(blobsOf(value.content)).toEqual([stored.digest, innerStored.digest]);
  });

  test("VALUE-3: the blob is a copy: a buffer that the caller uses again does not change it", () => {
    const mine = Buffer.from("before");
    const { blobs } = encodePart(file({ bytes: mine }));
    mine.write("after!");
    expect(Buffer.from((blobs[0] as { bytes: Uint8Array }).bytes).toString()).toBe("before");
    expect(digest((blobs[0] as { bytes: Uint8Array }).bytes)).toBe(blobs[0]?.digest);
  });

  test("a view gives the bytes it shows, not the buffer behind it", () => {
    expect(
      encodePart(file({ bytes: Uint8Array.from([0, 1, 2, 3, 0]).subarray(1, 4) })).blobs,
    ).toEqual([{ digest: stored.digest, bytes }]);
  });

  test.each([
    ["an array of numbers", [1, 2]],
    ["text", "AAEC"],
    ["an ArrayBuffer", new ArrayBuffer(2)],
    ["undefined", undefined],
  ])("bytes that are %s are refused", (_, wrong) => {
    expectRefused("messages[0].content[0].data.bytes", "file bytes are a Uint8Array", () =>
      encodePart(file({ bytes: wrong })),
    );
    expectRefused(
      "messages[0].content[0].output[1].data.bytes",
      "file bytes are a Uint8Array",
      () => encodePart({ ...parts["tool-result"], output: ["x", file({ bytes: wrong })] }),
    );
  });

  test("bytes anywhere else are refused like any value that is not JSON", () => {
    expectRefused("messages[0].content[0].input.file", "Uint8Array is not JSON", () =>
      encodePart({ ...parts["tool-call"], input: { file: bytes } }),
    );
  });

  // A tool's own JSON may look like parts: a listing of a directory is the plainest case.
  test.each([
    ["without data", { type: "file", name: "a.txt" }],
    ["with data that is text", { type: "file", data: "a.txt" }],
    ["with data that is null", { type: "file", data: null }],
    ["with a digest of another system", { type: "file", data: { digest: "sha256:0f" } }],
  ])("a tool's output that only looks like a file part, %s, is JSON like any other", (_, entry) => {
    const { value } = encodePart({ ...parts["tool-result"], output: [entry] });
    expect(value.content[0]).toMatchObject({ output: [entry] });
    expect(blobsOf(value.content)).toEqual([]);
  });

  test("a file in a tool's output that gives bytes is a part, and needs what a file part needs", () => {
    const output = [{ type: "file", data: { bytes } }];
    expectRefused("messages[0].content[0].output[0].mediaType", "a file part needs it", () =>
      encodePart({ ...parts["tool-result"], output }),
    );
    const sizes = [{ type: "file", name: "a.txt", data: { bytes: 1_024 } }];
    expect(storedPart({ ...parts["tool-result"], output: sizes })).toMatchObject({ output: sizes });
  });

  test("what else stands beside the bytes stays there", () => {
    expect(storedPart(file({ bytes, width: 3, url: undefined }))).toEqual(
      file({ ...stored, width: 3 }),
    );
  });

  test("bytes whose buffer was given away are refused", () => {
    const gone = new Uint8Array(3);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    const { code, details } = thrown(() => encodePart(file({ bytes: gone })));
    expect({ code, path: details.path }).toEqual({
      code: "INVALID_VALUE",
      path: "messages[0].content[0].data.bytes",
    });
  });

  test("a list of parts with a name or a symbol of its own is refused, not stored without", () => {
    for (const extra of [{ name: "x" }, { [Symbol("x")]: 1 }]) {
      expectCode("INVALID_VALUE", () =>
        encodeMessage({ role: "user", content: Object.assign([parts.text], extra) }, "m"),
      );
      expectCode("INVALID_VALUE", () =>
        encodePart({ ...parts["tool-result"], output: Object.assign([1], extra) }),
      );
    }
  });

  test("D8: results that share one another along a billion paths are refused at once", () => {
    let shared: unknown = parts.text;
    for (let i = 0; i < 30; i++) shared = { ...parts["tool-result"], output: [shared, shared] };
    expectCode("TOO_LARGE", () => encodePart(shared));
  });

  test("D8: tool results that hold one another in a circle are refused, and do not exhaust the stack", () => {
    const ring = { ...parts["tool-result"], output: [] as unknown[] };
    ring.output.push(ring);
    expectCode("INVALID_VALUE", () => encodePart(ring));
  });

  test("D8: tool results nested past the depth limit are refused, and do not exhaust the stack", () => {
    let deep: unknown = parts.text;
    for (let i = 0; i < 50_000; i++) deep = { ...parts["tool-result"], output: [deep] };
    expectCode("INVALID_VALUE", () => encodePart(deep));
  });
});

describe("messages", () => {
  const full: MessageInput = {
    role: "assistant",
    content: "hi",
    id: "m1",
    name: "planner",
    parentId: "m0",
    provider: { openai: { store: true } },
    metadata: { mine: [1, null] },
    reply: { finish: "stop", model: "x", usage: { inputTokens: 1 } },
  };

  test("every field passes, in the order given", () => {
    expect(encodeMessage(full, "m").text).toBe(JSON.stringify(full));
  });

  test("what the journal assigned is left behind, so that a message may go back in", () => {
    expect(
      encodeMessage({ ...full, seq: 9, createdAt: "2020-01-01T00:00:00.000Z" }, "m").text,
    ).toBe(JSON.stringify(full));
  });

  test("a role and a text alone, which need no walk, give what the walk gives", () => {
    const roles = fc.constantFrom("system", "user", "assistant", "tool", "admin", null);
    const contents = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.string({ unit: fc.constantFrom("a", '"', "\\", "\n", "\u2028", "東", "👩", "\ud83d") }),
      fc.constantFrom(5, undefined, "x".repeat(1_100_000)),
    );
    const answer = (input: object) => {
      try {
        const { value, ...rest } = encodeMessage(input, "m");
        return {
          ...rest,
          value,
          keys: Object.keys(value),
          frozen: Object.isFrozen(value),
          plain: Object.getPrototypeOf(value),
        };
      } catch (error) {
        return error;
      }
    };
    fc.assert(
      fc.property(roles, contents, fc.boolean(), (role, content, turned) => {
        const short = turned ? { content, role } : { role, content };
        // A field that is undefined is absent, and sends it the long way.
        expect(answer(short)).toEqual(answer({ ...short, id: undefined }));
      }),
      { numRuns: runs(60, 500) },
    );
  });

  test("VALUE-3: the value is not the caller's own, and what it holds is frozen", () => {
    const mine = { role: "user", content: [{ type: "text", text: "a" }] };
    const { value } = encodeMessage(mine, "m");
    (mine.content[0] as { text: string }).text = "b";
    expect(value.content).toEqual([{ type: "text", text: "a" }]);
    expect([value.content, value.content[0]].every(Object.isFrozen)).toBe(true);
    expect(value).not.toBe(mine);
    const flat = { role: "user", content: "a" };
    expect(encodeMessage(flat, "m").value).not.toBe(flat);
  });

  test.each([
    ["null", null, "null"],
    ["text", "hi", "string"],
    ["an array", [], "an array"],
    ["undefined", undefined, "undefined"],
  ])("a message that is %s is refused", (_, input, name) => {
    expectRefused("m", `a message is an object with role and content, not ${name}`, () =>
      encodeMessage(input, "m"),
    );
  });

  test("a field that is not a message's is refused by name", () => {
    expectRefused(
      "m.contents",
      "a message has no such field; `metadata` holds what is your own",
      () => encodeMessage(message({ contents: "x" }), "m"),
    );
  });

  test("a field's name is shown in the message, not sent to the terminal", () => {
    expect(thrown(() => encodeMessage(message({ "\u001b[2J": 1 }), "m")).message).not.toContain(
      "\u001b",
    );
  });

  test("a class instance, or a symbol as a field, is refused as it is in any value", () => {
    class Note {
      readonly role = "user";
      readonly content = "x";
    }
    expectRefused("m", "Note is not JSON", () => encodeMessage(new Note(), "m"));
    expectRefused("m", "a symbol as a key is not JSON", () =>
      encodeMessage(message({ [Symbol("x")]: 1 }), "m"),
    );
  });

  test("VALUE-1: a field that is undefined is absent", () => {
    expect(encodeMessage(message({ unknown: undefined }), "m").text).toBe(
      '{"role":"user","content":"hi"}',
    );
    expect(encodeMessage(message({ id: undefined, metadata: undefined }), "m").text).toBe(
      '{"role":"user","content":"hi"}',
    );
  });

  test("a getter that throws is refused with its path", () => {
    const bad = {
      role: "user",
      get content(): string {
        throw new Error("no");
      },
    };
    const error = thrown(() => encodeMessage(bad, "m"));
    expect({ code: error.code, path: error.details.path }).toEqual({
      code: "INVALID_VALUE",
      path: "m.content",
    });
  });

  test.each([
    ["role", "user ", "a role is system, user, assistant or tool"],
    ["role", undefined, "a role is system, user, assistant or tool"],
    ["role", "developer", "a role is system, user, assistant or tool"],
    ["content", 5, "content is a string or an array of parts"],
    ["content", undefined, "content is a string or an array of parts"],
    ["content", {}, "content is a string or an array of parts"],
    ["name", 5, "it is number, and must be a string"],
    ["provider", [], "it is an array, and must be an object"],
    ["metadata", "x", "it is string, and must be an object"],
    ["metadata", null, "it is null, and must be an object"],
    ["reply", null, "it is null, and must be an object"],
    ["reply", [], "it is an array, and must be an object"],
  ])("%s: %j is refused", (field, value, why) =>
    expectRefused(`m.${field}`, why, () => encodeMessage(message({ [field]: value }), "m")),
  );

  test.each(["id", "parentId"])("%s follows the rule of names", (field) => {
    expect(encodeMessage(message({ [field]: "ü".repeat(100) }), "m").value).toMatchObject({
      [field]: "ü".repeat(100),
    });
    for (const no of ["", 5, "a\n", "ü".repeat(101)]) {
      const { code, details } = thrown(() => encodeMessage(message({ [field]: no }), "m"));
      expect({ code, path: details.path }).toEqual({ code: "INVALID_ID", path: `m.${field}` });
    }
  });

  test("reply: a finish from the list, and usage that is an object", () => {
    for (const finish of [
      "stop",
      "tool-calls",
      "length",
      "content-filter",
      "pause",
      "error",
      "other",
    ]) {
      expect(encodeMessage(message({ reply: { finish } }), "m").value.reply).toEqual({ finish });
    }
    const { details } = thrown(() =>
      encodeMessage(message({ reply: { finish: "end_turn" } }), "m"),
    );
    expect(details.path).toBe("m.reply.finish");
    expectRefused("m.reply.usage", "it is number, and must be an object", () =>
      encodeMessage(message({ reply: { finish: "stop", usage: 5 } }), "m"),
    );
  });

  test("what is not JSON is refused inside metadata, provider and reply too", () => {
    expectRefused("m.metadata.at", "Date is not JSON", () =>
      encodeMessage(message({ metadata: { at: new Date() } }), "m"),
    );
    expectRefused("m.provider.x.n", "NaN is not JSON", () =>
      encodeMessage(message({ provider: { x: { n: Number.NaN } } }), "m"),
    );
  });
});

describe("textOf and partsOf", () => {
  const mixed: MessageInput = {
    role: "assistant",
    content: [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "a" },
      parts["tool-call"],
      { type: "text", text: "b" },
      { ...parts.opaque, text: "no" },
    ],
  };

  test("text is the text parts, in order and nothing between", () => {
    expect(textOf(mixed)).toBe("ab");
    expect(textOf({ role: "user", content: "plain" })).toBe("plain");
    expect(textOf({ role: "user", content: [] })).toBe("");
  });

  test("parts of a plain text are one text part, and of parts the parts themselves", () => {
    expect(partsOf({ role: "user", content: "plain" })).toEqual([{ type: "text", text: "plain" }]);
    expect(partsOf(mixed)).toBe(mixed.content);
  });
});

describe("tokensOf", () => {
  const reply = (usage?: Reply["usage"]): MessageInput => ({
    role: "assistant",
    content: "",
    reply: { finish: "stop", ...(usage && { usage }) },
  });

  test("is input and output; the rest is counted in those already", () => {
    expect(
      tokensOf(
        reply({
          inputTokens: 100,
          outputTokens: 20,
          cacheReadTokens: 90,
          cacheWriteTokens: 5,
          reasoningTokens: 7,
        }),
      ),
    ).toBe(120);
  });

  test("what was not reported counts as none", () => {
    expect(tokensOf(reply({ outputTokens: 20 }))).toBe(20);
    expect(tokensOf(reply())).toBe(0);
    expect(tokensOf({ role: "user", content: "hi" })).toBe(0);
  });

  test("numbers past all counting stay countable", () => {
    expect(tokensOf(reply({ inputTokens: Number.MAX_VALUE, outputTokens: Number.MAX_VALUE }))).toBe(
      Number.MAX_SAFE_INTEGER,
    );
  });

  test("whatever a provider reports, the count is a whole number from 0 on", () => {
    const odd = fc.oneof(
      fc.double({ max: 1e15 }),
      fc.string(),
      fc.constant(null),
      fc.boolean(),
      fc.array(fc.nat()),
    );
    fc.assert(
      fc.property(odd, odd, (inputTokens, outputTokens) => {
        const tokens = tokensOf(reply({ inputTokens, outputTokens } as Reply["usage"] & object));
        expect(Number.isInteger(tokens) && tokens >= 0).toBe(true);
      }),
    );
  });
});

describe("titleOf", () => {
  const title = (content: string) => titleOf({ role: "user", content });
  const family = "👨‍👩‍👧‍👦";
  const graphemes = (text: string) =>
    [...new Intl.Segmenter("en", { granularity: "grapheme" }).segment(text)].map(
      ({ segment }) => segment,
    );

  test("is the first line with text of a user's message, on one row with single spaces", () => {
    expect(title("  \n\n  Plan\ta   trip \r\nto Rome")).toBe("Plan a trip");
    for (const end of ["\n", "\r\n", "\r", "\u2028", "\u2029"])
      expect(title(`one${end}two`)).toBe("one");
    expect(titleOf({ role: "user", content: [parts.file, { type: "text", text: "Look" }] })).toBe(
      "Look",
    );
  });

  test("there is none without text, and none from other roles", () => {
    expect(title(" \n\t ")).toBeUndefined();
    expect(titleOf({ role: "user", content: [parts.file] })).toBeUndefined();
    for (const role of ["system", "assistant", "tool"] as const)
      expect(titleOf({ role, content: "Hello" })).toBeUndefined();
  });

  test("holds no control characters", () => {
    expect(title("a\u0000b\u001b[2Jc\u0085d")).toBe("a b [2Jc d");
  });

  test("a first line of control characters only is not a line with text", () => {
    expect(title("\u0001\nHello")).toBe("Hello");
  });

  test(`${MAX_TITLE} characters stand whole, one more is cut to fit with an ellipsis`, () => {
    expect(title("x".repeat(MAX_TITLE))).toBe("x".repeat(MAX_TITLE));
    expect(title("x".repeat(MAX_TITLE + 1))).toBe(`${"x".repeat(MAX_TITLE - 1)}…`);
  });

  test.each([
    ["a family", family],
    ["a letter with marks", "e\u0301\u0323"],
    ["a flag", "🇩🇪"],
    ["a skin tone", "👍🏽"],
    ["a pair", "𝒳"],
    ["Hangul jamo", "\u1112\u1161\u11ab"],
  ])("a cut never goes through %s, wherever it falls", (_, cluster) => {
    for (let shift = 0; shift < cluster.length + 2; shift++) {
      const text = "a".repeat(shift) + cluster.repeat(60);
      const cut = title(text) as string;
      expect(cut.length).toBeLessThanOrEqual(MAX_TITLE);
      expect(cut.endsWith("…")).toBe(true);
      const kept = graphemes(cut.slice(0, -1));
      expect(kept).toEqual(graphemes(text).slice(0, kept.length));
      // And no more was taken off than had to be.
      expect(cut.length + cluster.length).toBeGreaterThan(MAX_TITLE);
    }
  });

  test("any text gives a title that is well-formed, on one row, within its length, and a beginning of the text", () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc.string({ unit: fc.constantFrom("a", " ", family, "e\u0301", "👍🏽"), maxLength: 120 }),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const made = title(text);
        if (made === undefined) return;
        expect(made.isWellFormed()).toBe(true);
        expect(made.length).toBeGreaterThan(0);
        expect(made.length).toBeLessThanOrEqual(MAX_TITLE);
        expect(made).not.toMatch(/\p{Cc}|[\u2028\u2029]/u);
        expect(made.trim()).toBe(made);
      }),
      { numRuns: 300 },
    );
  });

  test("a single character as a reader sees it that is too long for a title is not cut inside a pair", () => {
    expect(title(`👩${"\u0301".repeat(100)}`)).not.toContain("\ufffd");
  });

  test("what is looked at is bounded, and that bound does not cut through a pair either", () => {
    expect(title(`${" ".repeat(3_999)}👩 hello`) ?? "").not.toContain("\ufffd");
  });
});
