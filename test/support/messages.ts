/**
 * Arbitrary messages of our model: every part in every role, every kind of file data, and fields
 * that nobody has heard of.
 */
import fc from "fast-check";
import { digest } from "../../src/core/values/digest.js";
import type { MessageInput, Part } from "../../src/index.js";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom("", " ", "\n", "{}", '{"a":1}', "[1]", "null", "42"),
);
const key = fc.oneof(
  fc.string({ maxLength: 6 }),
  fc.constantFrom("__proto__", "constructor", "type", "role", "bytes", "content", "cache_control"),
);
const json = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false),
    fc.integer(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (n === 0 ? 0 : n)),
    text,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(key, tie("value"), { maxKeys: 3 }),
  ),
})).value as fc.Arbitrary<never>;
const object = fc.dictionary(key, json, { maxKeys: 3 }) as fc.Arbitrary<never>;
const name = fc.string({
  unit: fc.constantFrom("a", "B", "-", "_", ".", "é", "9"),
  minLength: 1,
  maxLength: 8,
});
const who = fc.constantFrom(
  "openai",
  "openai-responses",
  "anthropic",
  "ai-sdk",
  "google",
  "__proto__",
);
const fields = fc.oneof(
  object,
  fc.constantFrom(
    { cache_control: { type: "ephemeral" } },
    { signature: "c2ln" },
    { id: "rs_1", encrypted_content: "gAAA" },
    { providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } } },
    { image_url: { detail: "low" } },
    { type: "custom" },
    { "holdfast-content": "parts" },
  ),
) as fc.Arbitrary<never>;
const provider = fc.dictionary(who, fields, { minKeys: 1, maxKeys: 2 }) as fc.Arbitrary<never>;
const bytes = fc.uint8Array({ maxLength: 8 });
const mediaType = fc.constantFrom(
  "image/png",
  "image/tiff",
  "image/*",
  "application/pdf",
  "audio/wav",
  "audio/mpeg",
  "text/plain",
  "odd",
  "a/b;c=d",
  "",
);

const data = fc.oneof(
  bytes.map((some) => ({ bytes: some })),
  // Of bytes that no message brings: one file named in two ways is the same file.
  bytes.map((some) => ({
    digest: digest(Buffer.concat([some, Buffer.from("elsewhere")])),
    sizeBytes: some.length + 9,
  })),
  fc.webUrl().map((url) => ({ url })),
  fc.constant({ url: "data:image/png;base64,AAAA" }),
  text.map((some) => ({ text: some })),
  fc.dictionary(who, name, { minKeys: 1, maxKeys: 2 }).map((ref) => ({ ref })),
);

/** Fields that a part has no word for, of whatever type. */
const KNOWN = new Set(["id", "provider", "name", "raw", "by", "reasoning", "text"]);
const odd = (object as fc.Arbitrary<object>).map((fields) =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => !KNOWN.has(name))),
);

const optional = <T extends object>(part: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc
    .tuple(
      part,
      fc.option(fc.record({ id: name, provider }, { requiredKeys: [] }), {
        nil: undefined,
        freq: 2,
      }),
      fc.option(odd, { nil: undefined, freq: 12 }),
    )
    .map(([is, more, unknown]) => ({ ...unknown, ...is, ...more }));

/** Ids are few, so that calls and results meet. */
const callId = fc.constantFrom("c1", "c2", "c3", "call 4", "");
const shown = fc.letrec((tie) => ({
  text: optional(text.map((some) => ({ type: "text", text: some }))),
  reasoning: optional(text.map((some) => ({ type: "reasoning", text: some }))),
  file: optional(
    fc.record(
      { type: fc.constant("file"), mediaType, data, name, reasoning: fc.constant(true) },
      { requiredKeys: ["type", "mediaType", "data"] },
    ),
  ),
  call: optional(
    fc.record(
      {
        type: fc.constant("tool-call"),
        callId,
        name,
        input: fc.oneof(json, object),
        raw: text,
        by: fc.constant("provider"),
      },
      { requiredKeys: ["type", "callId", "name", "input"] },
    ),
  ),
  result: optional(
    fc.record(
      {
        type: fc.constant("tool-result"),
        callId,
        outcome: fc.constantFrom("ok", "error", "denied"),
        output: fc.oneof(
          json,
          text,
          fc.array(fc.oneof(tie("text"), tie("file"), tie("part")), { maxLength: 3 }),
        ),
        name,
        by: fc.constant("provider"),
      },
      { requiredKeys: ["type", "callId", "outcome", "output"] },
    ),
  ),
  opaque: optional(
    fc.record(
      {
        type: fc.constant("opaque"),
        format: fc.oneof(
          fc
            .tuple(
              fc.constantFrom("openai", "openai-responses", "anthropic", "ai-sdk"),
              fc.constantFrom("message", "part", "refusal"),
            )
            .map((both) => both.join("/")),
          name,
        ),
        value: fc.oneof(json, fields),
        text,
      },
      { requiredKeys: ["type", "format", "value"] },
    ),
  ),
  part: fc.oneof(
    { maxDepth: 3, depthSize: "small" },
    tie("text"),
    tie("reasoning"),
    tie("file"),
    tie("call"),
    tie("opaque"),
    tie("result"),
  ),
}));
const part = shown.part as fc.Arbitrary<Part>;

const usage = fc.record(
  { inputTokens: fc.nat(), outputTokens: fc.nat(), raw: object },
  { requiredKeys: [] },
);
const reply = fc.record(
  {
    finish: fc.constantFrom("stop", "tool-calls", "length", "error"),
    model: name,
    responseId: name,
    usage,
  },
  { requiredKeys: ["finish"] },
);

const message = fc.record(
  {
    role: fc.constantFrom("system", "user", "assistant", "tool"),
    content: fc.oneof(text, fc.array(part, { maxLength: 4 })),
    id: name,
    name,
    parentId: name,
    provider,
    metadata: object,
    reply,
  },
  { requiredKeys: ["role", "content"] },
) as unknown as fc.Arbitrary<MessageInput>;

/** A conversation as it mostly is: a reply with calls, their answers, and more. */
const turn = fc
  .tuple(
    fc.array(message, { maxLength: 2 }),
    fc.array(part, { maxLength: 3 }),
    fc.subarray(["c1", "c2", "c3"]),
    json,
    fc.boolean(),
  )
  .map(([before, said, calls, output, together]): MessageInput[] => {
    const results = calls.map(
      (callId) => ({ type: "tool-result", callId, name: "look", outcome: "ok", output }) as const,
    );
    const asked = calls.map(
      (callId) => ({ type: "tool-call", callId, name: "look", input: { of: callId } }) as const,
    );
    return [
      ...before,
      { role: "assistant", content: [...said, ...asked] },
      ...(together
        ? [{ role: "tool" as const, content: results }]
        : results.map((one) => ({ role: "tool" as const, content: [one] }))),
    ];
  });

export const messages = fc.oneof(
  fc.array(message, { maxLength: 5 }),
  fc.array(turn, { maxLength: 3 }).map((turns) => turns.flat()),
);
