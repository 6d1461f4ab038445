/** Transcripts of sessions in providers' formats, and what stands outside a session's journal. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fromFormat } from "../../../src/formats/index.js";
import { FORMATS } from "../../../src/formats/transcript.js";
import { type Holdfast, type MessageInput, open } from "../../../src/index.js";
import { errorOf } from "../../support/error-of.js";
import { coded } from "../../support/processes.js";
import { stores } from "../../support/stores.js";

const ours: readonly MessageInput[] = [
  { role: "system", content: "Be brief." },
  {
    role: "user",
    content: [
      { type: "text", text: "Look:" },
      { type: "file", mediaType: "image/png", data: { bytes: Uint8Array.from([1, 2, 3]) } },
    ],
    metadata: { from: "app" },
  },
  {
    role: "assistant",
    content: [{ type: "tool-call", callId: "c", name: "look", input: { order: 42 } }],
    reply: { finish: "tool-calls", usage: { inputTokens: 3 } },
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        callId: "c",
        name: "look",
        outcome: "error",
        output: { state: "broken" },
      },
    ],
  },
  { role: "assistant", content: "It is broken." },
];

describe.each(stores)("transcripts on $name", ({ address }) => {
  let hold: Holdfast;
  beforeEach(async () => {
    hold = await open(address());
  });
  afterEach(() => hold.close());

  const stored = async (id: string) => {
    const session = await hold.session(id);
    await session.close();
    return session.messages;
  };

  test.each(FORMATS)(
    "a session goes out as %s and comes in again as another, or as itself",
    async (format) => {
      await hold.sessions.append("a", ours, { create: true });
      const before = await stored("a");
      for (const files of ["inline", "remainder"] as const) {
        const transcript = JSON.parse(
          JSON.stringify(await hold.sessions.transcript("a", { format, files })),
        ) as never;
        await hold.sessions.append(`b ${files}`, transcript, { create: true });
        const after = await stored(`b ${files}`);
        const without = ({
          createdAt: _createdAt,
          seq: _seq,
          ...message
        }: (typeof before)[number]) => message;
        expect(after.map(without)).toEqual(before.map(without));
        // Its messages have ids by now: appended to the session they came from, they are known
        // there.
        expect(await hold.sessions.append("a", transcript)).toEqual({
          count: ours.length,
          taken: true,
        });
        expect(await stored("a")).toEqual(before);
      }
    },
  );

  test("the transcript at a checkpoint is what it was there, also of a past that was left or is shared", async () => {
    const session = await hold.session("a");
    session.append({ role: "user", content: "one" });
    const first = await session.checkpoint();
    session.append({ role: "user", content: "two" });
    const second = await session.checkpoint();
    const fork = await session.fork(second.id, { id: "b" });
    await fork.close();
    await session.rewind(first.id);
    session.append({ role: "user", content: "three" });
    await session.checkpoint();
    await session.close();
    await (await hold.session("c")).close();
    const texts = async (id: string, at?: string) =>
      (
        await hold.sessions.transcript(id, { format: "openai", ...(at !== undefined && { at }) })
      ).messages.map(({ content }) => content);
    expect(await texts("a")).toEqual(["one", "three"]);
    expect(await texts("a", first.id)).toEqual(["one"]);
    expect(await texts("a", second.id)).toEqual(["one", "two"]);
    expect(await texts("b", first.id)).toEqual(["one"]);
    expect(await errorOf(() => texts("c", first.id))).toMatchObject(coded("CONFLICT"));
    expect(await errorOf(() => texts("a", "nothing"))).toMatchObject(coded("NOT_FOUND"));
    expect(await errorOf(() => texts("nobody"))).toMatchObject(coded("NOT_FOUND"));
    for (const wrong of [
      { format: "telegram" },
      {},
      undefined,
      { format: "openai", files: "all" },
      { format: "openai", file: "inline" },
    ])
      expect(await errorOf(() => hold.sessions.transcript("a", wrong as never))).toMatchObject(
        coded("INVALID_OPTION"),
      );
  });

  test("a file that is kept is named in the remainder, and its bytes can be asked for; what only looks like one stays what it is", async () => {
    const looks = {
      type: "file",
      mediaType: "image/png",
      data: { digest: "A".repeat(43), sizeBytes: 3 },
    };
    await hold.sessions.append(
      "a",
      [
        {
          role: "user",
          content: [
            { type: "file", mediaType: "image/png", data: { bytes: Uint8Array.from([1, 2, 3]) } },
          ],
        },
        {
          role: "assistant",
          content: [{ type: "tool-call", callId: "c", name: "look", input: {} }],
        },
        {
          role: "tool",
          content: [{ type: "tool-result", callId: "c", outcome: "ok", output: [looks] as never }],
        },
      ],
      { create: true },
    );
    const named = await hold.sessions.transcript("a", { format: "openai" });
    expect(JSON.stringify(named.messages)).not.toContain("AQID");
    expect(fromFormat(named)[0]).toMatchObject({ content: [{ data: { sizeBytes: 3 } }] });
    const inline = await hold.sessions.transcript("a", { format: "openai", files: "inline" });
    expect(inline.messages[0]).toEqual({
      role: "user",
      content: [{ type: "image_url", image_url: { url: "data:image/png;base64,AQID" } }],
    });
    expect(fromFormat(inline)[2]).toMatchObject({ content: [{ output: [looks] }] });
  });

  test("a title that was given can be taken away again; tags and metadata are replaced, and what is not given stays", async () => {
    await hold.sessions.append("a", [{ role: "user", content: "First words" }], {
      create: true,
      title: "Mine",
      tags: ["x", "y"],
      metadata: { a: 1 },
    });
    expect(await hold.sessions.update("a", { title: null })).toMatchObject({
      title: "First words",
      tags: ["x", "y"],
      metadata: { a: 1 },
    });
    expect(
      await hold.sessions.update("a", { tags: [], metadata: {}, archived: true }),
    ).toMatchObject({
      tags: [],
      metadata: {},
      archived: true,
    });
    expect((await hold.sessions.list({ archived: false })).items).toEqual([]);
    expect((await hold.sessions.list({ archived: true })).items).toMatchObject([
      { id: "a", title: "First words" },
    ]);
    expect((await hold.sessions.list({ tag: "x" })).items).toEqual([]);
    expect(await hold.sessions.update("a", { title: "Again" })).toMatchObject({
      title: "Again",
      archived: true,
    });
    expect(await errorOf(() => hold.sessions.update("a", { title: 5 as never }))).toMatchObject(
      coded("INVALID_OPTION"),
    );
  });
});
