/**
 * No pattern that is given from outside, and no text that comes from there, blocks the
 * process.
 */
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { describe, expect, test } from "vitest";
import { TimeUp, within } from "../../src/engine/util/within.js";
import { matcherOf } from "../../src/features/redaction/matcher.js";
import { answerIn } from "../../src/features/runs/output.js";
import { open } from "../../src/index.js";
import { looseBytesOf } from "../../src/migrate/reading/messages.js";
import { isThorough } from "../support/runs.js";
import { scratch, stores } from "../support/stores.js";

const BAD = /(a+)+$/;
/** What takes it longer than anybody lives. */
const TEXT = `${"a".repeat(60)}!`;

describe("within", () => {
  test("ends work that takes too long, inside a match and inside a loop, and nothing stays behind", () => {
    expect(() => within(50, () => BAD.test(TEXT))).toThrow(TimeUp);
    expect(() =>
      within(50, () => {
        for (;;);
      }),
    ).toThrow(TimeUp);
    expect(within(5_000, () => "done")).toBe("done");
  });

  test("work that had no processor for most of its time is tried again, and not for ever", () => {
    let tries = 0;
    const waitsOnce = () => {
      tries += 1;
      if (tries === 1) rest(60_000);
      return "done";
    };
    expect(within(50, waitsOnce)).toBe("done");
    expect(tries).toBe(2);
    tries = 0;
    const waits = () => {
      tries += 1;
      rest(60_000);
    };
    expect(() => within(50, waits)).toThrow(TimeUp);
    expect(tries).toBe(4);
  });

  test("gives out what work answers and throws, as it is", () => {
    const answer = { of: new Date(0) };
    expect(within(5_000, () => answer)).toBe(answer);
    const fails = [new Error("no"), "text", undefined, null, Object.freeze({ code: "ERR_OTHER" })];
    const unreadable = new Proxy({}, { get: () => JSON.parse("{") });
    for (const thrown of [...fails, unreadable]) {
      let caught: unknown = "nothing";
      try {
        within(5_000, () => {
          throw thrown;
        });
      } catch (error) {
        caught = error;
      }
      expect(Object.is(caught, thrown)).toBe(true);
    }
  });

  test("one bound inside another is the outer one", () => {
    expect(() => within(50, () => within(60_000, () => BAD.test(TEXT)))).toThrow(TimeUp);
    expect(within(60_000, () => within(1, () => slept(20)))).toBe("slept");
    expect(() => within(10, () => slept(60_000))).toThrow(TimeUp);
  });

  test("work that catches and cleans up is ended as well", () => {
    const seen: string[] = [];
    const stubborn = () => {
      for (;;)
        try {
          BAD.test(TEXT);
        } catch {
          seen.push("caught");
        } finally {
          seen.push("finally");
        }
    };
    expect(() => within(50, stubborn)).toThrow(TimeUp);
    expect(seen).toEqual([]);
  });
});

/** Busy for so long. */
const cell = new Int32Array(new SharedArrayBuffer(4));

/** Blocks the process without using the processor. */
const rest = (ms: number) => Atomics.wait(cell, 0, 0, ms);

/** Uses the processor all the time. */
function slept(ms: number): string {
  for (const until = performance.now() + ms; performance.now() < until; );
  return "slept";
}

describe("a pattern to redact finds what it finds without a bound", () => {
  const patterns = [
    /b+/,
    /b+/g,
    /b+/y,
    /B|c/gi,
    /^b.*$/m,
    /^b.*$/,
    /a.c/s,
    /(?<=a)b/,
    /(?<x>b)\k<x>/,
    /\p{Lu}/u,
    /x*/,
    /\bb\b/,
    /(?![a-])./u,
    /😀/u,
  ];
  const texts = [
    "",
    "abc",
    "bbb",
    "b abc\nbbc\nB",
    "a\nc abbbc Ünder B",
    "x",
    "xxbxx",
    "😀b😀",
    "a".repeat(300),
  ];
  const cases = patterns.flatMap((pattern) =>
    texts.map((text) => [String(pattern), text, pattern] as const),
  );

  test.each(cases)("%s in %j", (_name, text, pattern) => {
    const all = new RegExp(pattern.source, `${pattern.flags.replace(/[gy]/g, "")}g`);
    const expected = text.replace(all, (found) => (found === "" ? "" : "-"));
    const what = matcherOf(pattern, "-");
    const where = { in: "message", role: "user" } as const;
    expect(what.text(text, where)).toBe(expected);
    expect(what.holds(text)).toBe(expected !== text);
    expect(
      what.bounded(text.length, () => [what.text(text, where), what.text(text, where)]),
    ).toEqual([expected, expected]);
    expect(pattern.lastIndex).toBe(0);
  });
});

describe.each(stores)("sessions.redact on $name", ({ address }) => {
  test("a pattern that takes too long is refused by its name, nothing is changed, and a better one is taken", async () => {
    const hold = await open(address());
    const session = await hold.session("a", { title: "aaa" });
    for (let i = 0; i < 30; i++) {
      session.append({ role: "user", content: i === 20 ? TEXT : `number ${i}: aaa` });
      await session.checkpoint();
    }
    await session.close();
    await expect(hold.sessions.redact("a", BAD)).rejects.toMatchObject({
      name: "HoldfastError",
      code: "INVALID_OPTION",
      message: expect.stringMatching(
        /\/\(a\+\)\+\$\/.* took longer than \d+ ms.*no repetition inside another/,
      ),
    });
    const after = await hold.session("a");
    expect(after.messages.map(({ content }) => content)).toContain("number 7: aaa");
    expect(await hold.sessions.get("a")).toMatchObject({ title: "aaa" });
    after.append({ role: "user", content: "more: aaa" });
    await after.checkpoint();
    await after.close();
    expect(await hold.sessions.redact("a", /a{1,100}$/)).toMatchObject({
      records: 30,
      outside: true,
    });
    const redacted = await hold.session("a");
    expect(redacted.messages.map(({ content }) => content)).toEqual(
      Array.from({ length: 31 }, (_, i) =>
        i === 20 ? TEXT : i === 30 ? "more: [redacted]" : `number ${i}: [redacted]`,
      ),
    );
    await redacted.close();
    expect((await hold.verify()).findings).toEqual([]);
    await hold.close();
  });
});

describe("sessions.redact", () => {
  if (isThorough)
    test("has the bound for a file, for what stands beside the journal, and for the words in its place", async () => {
      const hold = await open("memory:");
      const file = await hold.session("file");
      file.append({
        role: "user",
        content: [{ type: "file", mediaType: "text/plain", data: { bytes: Buffer.from(TEXT) } }],
      });
      await file.checkpoint();
      await file.close();
      await (await hold.session("title", { title: TEXT })).close();
      const slow = { code: "INVALID_OPTION", message: expect.stringContaining("took longer than") };
      await expect(hold.sessions.redact("file", BAD)).rejects.toMatchObject(slow);
      await expect(hold.sessions.redact("title", BAD)).rejects.toMatchObject(slow);
      await expect(hold.sessions.redact("title", BAD, { with: TEXT })).rejects.toMatchObject(slow);
      await hold.close();
    });

  test("is not asked about files of the store that no longer count: these go", async () => {
    const root = scratch();
    const hold = await open(`dir:${root}`);
    const session = await hold.session("a");
    session.append({ role: "user", content: "aaa" });
    await session.checkpoint();
    await session.close();
    const left = join(root, "x.0123456789ab.draft");
    writeFileSync(left, TEXT);
    expect(await hold.sessions.redact("a", BAD)).toMatchObject({ records: 1 });
    expect(existsSync(left)).toBe(false);
    const after = await hold.session("a");
    after.append({ role: "user", content: "more" });
    await after.checkpoint();
    expect(after.messages.map(({ content }) => content)).toEqual(["[redacted]", "more"]);
    await after.close();
    await hold.close();
  });

  test("a pattern that cannot be read is refused", async () => {
    const hold = await open("memory:");
    await (await hold.session("a")).close();
    const broken = Object.create(RegExp.prototype) as RegExp;
    await expect(hold.sessions.redact("a", broken)).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
    await hold.close();
  });
});

describe("texts from outside, under patterns of our own", () => {
  const MANY = 300_000;

  test("an answer in a fence, with any number of line ends", async () => {
    const output = {
      "~standard": { version: 1, vendor: "own", validate: (value: unknown) => ({ value }) },
    } as never;
    const answer = (content: string) =>
      within(5_000, () => answerIn({ role: "assistant", content } as never, output));
    for (const text of [
      '{"n":1}',
      ' \n```json\n{"n":1}\n```\n',
      '```\n{"n":1}```',
      '```json  \n\n\n {"n":1}\n\n ```',
    ])
      expect(await answer(text)).toEqual({ value: { n: 1 } });
    for (const text of ["```", "``````", '```{"n":1}```', "```js\n1\n```"])
      expect(await answer(text)).toHaveProperty("flaw");
    expect(await answer(`\`\`\`${"\n".repeat(MANY)}x`)).toHaveProperty("flaw");
    expect(
      await answer(
        `${"\n".repeat(MANY)}\`\`\`json${" \n".repeat(MANY)}{}${"\n".repeat(MANY)}\`\`\``,
      ),
    ).toEqual({ value: {} });
  });

  test("base64 of another system, with any number of =", () => {
    expect(within(5_000, () => looseBytesOf(`${"=".repeat(MANY)}x`))).toBeUndefined();
    expect(looseBytesOf("aGk=")).toEqual(Buffer.from("hi"));
    expect(looseBytesOf("aG\nk")).toEqual(Buffer.from("hi"));
  });
});

test("a bound holds in a worker thread", async () => {
  const file = fileURLToPath(new URL("../../dist/engine/util/within.js", import.meta.url));
  const worker = new Worker(
    `import(${JSON.stringify(file)}).then(({ within }) => {
      const { parentPort } = require("node:worker_threads");
      const tried = (work) => { try { return within(50, work); } catch (error) { return error.name; } };
      parentPort.postMessage([tried(() => ${BAD}.test(${JSON.stringify(TEXT)})), tried(() => "done")]);
    });`,
    { eval: true },
  );
  expect(
    await new Promise((resolve, reject) => worker.once("message", resolve).once("error", reject)),
  ).toEqual(["TimeUp", "done"]);
  await worker.terminate();
});
