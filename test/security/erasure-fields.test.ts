/**
 * Every field of a message that can hold a text. `sessions.redact` takes the text out of it, or
 * tells it in `names` and `left`. The hook of `open` takes it out as well, but for names by which
 * things are known. Each row is its own control: without either, a read shows the text.
 */
import { describe, expect, test } from "vitest";
import {
  encodeMessage,
  fieldsOfPart,
  isStoredMessage,
  MAX_MEDIA_TYPE,
} from "../../src/core/messages/message.js";
import { editMessage, type NameKind } from "../../src/core/redaction/redact-text.js";
import {
  type Holdfast,
  type MessageInput,
  open,
  type Part,
  type RedactReport,
  redactions,
} from "../../src/index.js";
import { everyRead, kept } from "../support/everything.js";
import { stores } from "../support/stores.js";

interface Row {
  readonly field: string;
  readonly message: (secret: string) => unknown;
  /** As what it is told, where it stays. */
  readonly name?: NameKind;
}

const PARTS = {
  text: { type: "text", text: "q" },
  reasoning: { type: "reasoning", text: "q" },
  file: { type: "file", mediaType: "text/plain", data: { text: "q" } },
  "tool-call": { type: "tool-call", callId: "c", name: "t", input: {} },
  "tool-result": { type: "tool-result", callId: "c", outcome: "ok", output: "q" },
  opaque: { type: "opaque", format: "f", value: "q" },
} as const satisfies Record<Part["type"], Part>;
const TYPES = Object.keys(PARTS) as Part["type"][];

const message = (field: string, fields: (secret: string) => object, name?: NameKind): Row => ({
  field: `message.${field}`,
  message: (secret) => ({ role: "assistant", content: "q", ...fields(secret) }),
  ...(name && { name }),
});
const reply = (field: string, value: (secret: string) => unknown, name?: NameKind): Row =>
  message(
    `reply.${field}`,
    (secret) => ({ reply: { finish: "stop", [field]: value(secret) } }),
    name,
  );
const part = (
  type: Part["type"],
  field: string,
  value: (secret: string) => unknown,
  name?: NameKind,
): Row => ({
  field: `${type}.${field}`,
  message: (secret) => ({
    role: "assistant",
    content: [{ ...PARTS[type], [field]: value(secret) }],
  }),
  ...(name && { name }),
});
const answer = (field: string, item: (secret: string) => unknown, name?: NameKind): Row => ({
  field: `output[].${field}`,
  message: (secret) => ({
    role: "tool",
    content: [{ ...PARTS["tool-result"], output: [item(secret)] }],
  }),
  ...(name && { name }),
});

const itself = (secret: string): string => secret;
const bytes = new Uint8Array([1, 2, 3]);
const FILE = { type: "file", mediaType: "a/b", data: { text: "q" } };

const rows: readonly Row[] = [
  message("content", (content) => ({ content })),
  message("name", (name) => ({ name })),
  message("id", (id) => ({ id }), "message-id"),
  message("parentId", (parentId) => ({ parentId }), "message-id"),
  message("provider", (secret) => ({ provider: { p: { [secret]: secret } } })),
  message("metadata", (secret) => ({ metadata: { [secret]: secret } })),
  reply("provider", itself, "provider"),
  reply("model", itself, "model"),
  reply("responseId", itself, "response-id"),
  reply("rawFinish", itself),
  reply("hidden", itself),
  reply("hidden object", (secret) => ({ deep: [{ [secret]: 1 }] })),
  message("reply[key]", (secret) => ({ reply: { finish: "stop", [secret]: 1 } })),
  reply("usage.raw", (secret) => ({ usage: { raw: { said: secret } } })),
  reply("usage", (secret) => ({ inputTokens: 1, raw: { said: secret } })),
  reply("usage", (secret) => ({ inputTokens: secret, hidden: secret, [secret]: 1 })),
  ...TYPES.flatMap((type) => [
    part(type, "id", itself, "part-id"),
    part(type, "provider", (secret) => ({ p: { said: secret } })),
    part(type, "hidden", itself),
  ]),
  part("text", "text", itself),
  ...(["format", "by", "mediaType", "callId", "outcome"] as const).map((field) =>
    part("text", field, itself),
  ),
  part("reasoning", "text", itself),
  part("file", "name", itself),
  part("file", "mediaType", itself),
  part("file", "mediaType", (secret) => `a/b; name=${secret}`),
  part("file", "mediaType", (secret) => `application/x-${secret}`),
  part("file", "mediaType", (secret) => `image/png; name="${secret}"`),
  part("file", "data", (text) => ({ text })),
  part("file", "data", (url) => ({ url })),
  part("file", "data", (secret) => ({ ref: { p: secret } })),
  part("file", "data", (secret) => ({ url: "q", hidden: secret, sizeBytes: secret })),
  part("tool-call", "callId", itself, "call-id"),
  part("tool-call", "name", itself, "tool"),
  part("tool-call", "input", itself),
  part("tool-call", "raw", itself),
  part("tool-result", "callId", itself, "call-id"),
  part("tool-result", "name", itself, "tool"),
  part("tool-result", "output", itself),
  part("opaque", "format", itself),
  part("opaque", "value", itself),
  part("opaque", "text", itself),
  ...(["id", "format", "by", "name", "mediaType", "hidden", "callId", "outcome"] as const).map(
    (field) => answer(`file ${field}`, (secret) => ({ ...FILE, [field]: secret })),
  ),
  answer("file mediaType parameter", (secret) => ({ ...FILE, mediaType: `a/b; name=${secret}` })),
  answer("file digest that is none", (secret) => ({
    ...FILE,
    data: { digest: secret, sizeBytes: secret },
  })),
  answer(
    "file digest of no file",
    (secret) => ({ ...FILE, data: { digest: secret.padEnd(43, "x"), sizeBytes: 1 } }),
    "file",
  ),
  answer("kept file", (secret) => ({ ...FILE, id: secret, data: { bytes, name: secret } })),
  ...(["callId", "id", "name", "by", "outcome", "hidden"] as const).map((field) =>
    answer(`tool-result ${field}`, (secret) => ({
      ...PARTS["tool-result"],
      output: ["q"],
      [field]: secret,
    })),
  ),
  answer("tool-result, its file", (secret) => ({
    type: "tool-result",
    output: [{ ...FILE, id: secret, data: { bytes } }],
  })),
  answer("tool-result, bytes of its file", (secret) => ({
    type: "tool-result",
    output: [{ ...FILE, data: { bytes: Buffer.from(secret) } }],
  })),
];

/** No two of them begin alike. */
const secretOf = (n: number): string => `Quay${String(n).padStart(3, "0")}side`;
const SECRETS = /Quay[0-9]{3}side/g;
const all = rows.map((row, n) => ({ ...row, id: `s${n}`, secret: secretOf(n) }));

/** No read shows bytes in an answer: the store is looked through. */
const bytesRow = all.at(-1) as (typeof all)[number];

async function fill(hold: Holdfast): Promise<void> {
  for (const { id, secret, message: make } of all) {
    const session = await hold.session(id);
    session.append(make(secret) as MessageInput);
    await session.checkpoint();
    await session.close();
  }
}

describe.each(stores)("on $name", ({ name, address }) => {
  test("redact takes the text out of each field, or tells it", { timeout: 60_000 }, async () => {
    const at = address();
    const hold = await open(at);
    await fill(hold);
    const before = await everyRead(hold);
    const bytesBefore = await kept({ name }, at, bytesRow.secret);
    const reports = new Map<string, RedactReport>();
    for (const { id, secret } of all)
      reports.set(id, await hold.sessions.redact(id, secret, { scrub: false }));
    const after = await everyRead(hold);
    for (const row of all) {
      const { names, left } = reports.get(row.id) as RedactReport;
      if (row !== bytesRow)
        expect(before.includes(row.secret), `${row.field}: the control`).toBe(true);
      expect(after.includes(row.secret), row.field).toBe(row.name !== undefined);
      expect(
        names.map(({ what }) => what),
        row.field,
      ).toEqual(row.name === undefined ? [] : [row.name]);
      expect(
        left.some((words) => words.includes("names by which things are known")),
        row.field,
      ).toBe(row.name !== undefined);
    }
    expect((await hold.verify()).findings).toEqual([]);
    await hold.gc({ scrub: true });
    await hold.close();
    if (name !== "memory") expect(bytesBefore, "the control").not.toEqual([]);
    expect(await kept({ name }, at, bytesRow.secret)).toEqual([]);
  });
});

test("the hook takes the text out of each field, but for names", async () => {
  const hold = await open("memory:", { redact: (text) => text.replace(SECRETS, "[x]") });
  await fill(hold);
  const found = new Set((await everyRead(hold)).match(SECRETS));
  expect(all.filter((row) => found.has(row.secret)).map(({ field }) => field)).toEqual(
    all.filter(({ name }) => name !== undefined).map(({ field }) => field),
  );
  await hold.close();
});

test("a key that a tool puts into a field of a file is not stored", async () => {
  const key = ["sk", "ant", "api03", "aB3dE5".repeat(12)].join("-");
  const hold = await open("memory:", { redact: redactions() });
  const session = await hold.session("a");
  const output = [
    { ...FILE, mediaType: `a/${key}`, id: key, format: key, by: key },
  ] as unknown as Part[];
  session.append({
    role: "tool",
    content: [{ type: "tool-result", callId: "c", outcome: "ok", output }],
  });
  await session.checkpoint();
  expect(await everyRead(hold)).not.toContain(key);
  await session.close();
  await hold.close();
});

/** Words of a closed list, and what rows reach through their own fields. */
const CLOSED = new Set(["type", "by", "outcome", "reasoning"]);

test.each(TYPES)("the table has every field of a %s part", (type) => {
  const has = new Set(rows.map(({ field }) => field));
  const fields = (fieldsOfPart(type) ?? []).filter((field) => !CLOSED.has(field));
  expect(fields.filter((field) => !has.has(`${type}.${field}`))).toEqual([]);
});

describe("a message that is edited stays a message", () => {
  const masked = { text: () => "[gone]" };
  const edited = (given: unknown) => editMessage(encodeMessage(given, "m").value, masked);

  test.each(rows)("$field", ({ message: make }) => {
    expect(isStoredMessage(JSON.parse(JSON.stringify(edited(make("Quay")))))).toBe(true);
  });

  test.each([
    ["image/png", "image/png"],
    ["text/plain; charset=utf-8", "text/plain"],
    ["application/x-Quay", "application/octet-stream"],
    ["Quay", "application/octet-stream"],
  ])("the media type %j of a text that goes becomes %j", (mediaType, type) => {
    expect(
      edited({ role: "user", content: [{ ...PARTS.file, mediaType }] }).content[0],
    ).toMatchObject({ mediaType: type });
  });

  test("a file of a tool's answer stays readable", () => {
    const { value } = encodeMessage(
      {
        role: "tool",
        content: [{ ...PARTS["tool-result"], output: [{ ...FILE, data: { bytes } }] }],
      },
      "m",
    );
    const dataOf = ({ content }: MessageInput) =>
      (content[0] as unknown as { output: { data: object }[] }).output[0]?.data;
    expect(dataOf(editMessage(value, masked))).toEqual(dataOf(value));
  });

  test("a common media type that holds the text is told", async () => {
    const hold = await open("memory:");
    const session = await hold.session("a");
    session.append({ role: "user", content: [{ ...PARTS.file, mediaType: "image/png" }] });
    await session.checkpoint();
    await session.close();
    const { names, left } = await hold.sessions.redact("a", "png");
    expect(names.map(({ what }) => what)).toEqual(["media-type"]);
    expect(left.length).toBeGreaterThan(0);
    await hold.close();
  });
});

describe("what a media type and a reply may be", () => {
  const file = (mediaType: unknown, data: object) => ({
    role: "user",
    content: [{ type: "file", mediaType, data }],
  });
  const long = `a/${"b".repeat(MAX_MEDIA_TYPE)}`;

  test.each([
    ["a long media type", file(long, { text: "q" }), "m.content[0].mediaType"],
    ["a long media type of bytes", file(long, { bytes }), "m.content[0].mediaType"],
    [
      "one in an answer",
      {
        role: "tool",
        content: [
          { ...PARTS["tool-result"], output: [{ ...FILE, mediaType: long, data: { bytes } }] },
        ],
      },
      "mediaType",
    ],
    ...["provider", "model", "responseId", "rawFinish"].map((field): [string, unknown, string] => [
      `a ${field} that is no text`,
      { role: "assistant", content: "q", reply: { finish: "stop", [field]: { a: 1 } } },
      `m.reply.${field}`,
    ]),
  ])("%s is refused", (_what, given, path) => {
    expect(() => encodeMessage(given, "m")).toThrow(path);
  });

  test("the longest is taken, and a forged message with a longer one is none", () => {
    expect(() =>
      encodeMessage(file(long.slice(0, MAX_MEDIA_TYPE), { text: "q" }), "m"),
    ).not.toThrow();
    expect(isStoredMessage(file(long, { text: "q" }))).toBe(false);
  });
});
