/**
 * Words, queries, scores and snippets. SQLite's own full-text search is asked whether it agrees.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  MOST_REPEATS,
  PASSAGE_WORDS,
  passagesOf,
  textFilesIn,
  textIn,
} from "../../../src/core/search/document.js";
import { frequency, occurrences, scoreOf } from "../../../src/core/search/match.js";
import {
  MAX_QUERY_CHARS,
  MAX_QUERY_WORDS,
  type Phrase,
  parseQuery,
  type Query,
} from "../../../src/core/search/query.js";
import { type Snippet, snippetOf } from "../../../src/core/search/snippet.js";
import { MAX_WORD, split } from "../../../src/core/search/words.js";
import { openDriver } from "../../../src/store/sql/sqlite/driver/driver.js";
import { cpuMs } from "../../support/cpu.js";
import { errorOf } from "../../support/error-of.js";
import { someScripts, someText } from "../../support/texts.js";

const words = (text: string): readonly string[] => split(text).words;
const said = ({ all, none }: Query): string[] => [
  ...all.map(({ words: own, prefix }) => own.join(" ") + (prefix ? "*" : "")),
  ...none.map(({ words: own, prefix }) => `-${own.join(" ")}${prefix ? "*" : ""}`),
];

describe("words", () => {
  test.each([
    ["Hello, World!", ["hello", "world"]],
    ["Café CAFE ｃａｆé cafe\u0301", ["cafe", "cafe", "cafe", "cafe"]],
    ["Straße STRASSE", ["strasse", "strasse"]],
    ["İstanbul ISTANBUL ıstanbul", ["istanbul", "istanbul", "istanbul"]],
    ["ΟΔΟΣ οδος Οδός", ["οδοσ", "οδοσ", "οδοσ"]],
    ["don’t snake_case a-b c++ 3.14", ["don", "t", "snake", "case", "a", "b", "c", "3", "14"]],
    ["日本語 テスト", ["日", "本", "語", "テ", "ス", "ト"]],
    ["ガ ｶﾞ か が", ["ガ", "ガ", "か", "が"]],
    ["abc日本def", ["abc", "日", "本", "def"]],
    ["한국어 검색", ["한국어", "검색"]],
    ["हिन्दी भाषा", ["हिन्दी", "भाषा"]],
    ["ภาษาไทย", ["ภ", "า", "ษ", "า", "ไ", "ท", "ย"]],
    ["שָׁלוֹם שלום", ["שלום", "שלום"]],
    ["مُحَمَّد محمد", ["محمد", "محمد"]],
    ["Привет ПРИВЕТ", ["привет", "привет"]],
    ["½ ① ﬁne", ["1", "2", "1", "fine"]],
    ["❤️ 👩‍👩‍👧 🇩🇪", []],
    ["", []],
  ])("of %s", (text, expected) => {
    expect(words(text)).toEqual(expected);
  });

  test("are found where they stand", () => {
    const text = "a “Café” 日本語 ｶﾞ";
    const { starts, ends } = split(text);
    expect(starts.map((start, i) => text.slice(start, ends[i]))).toEqual([
      "a",
      "Café",
      "日",
      "本",
      "語",
      "ｶﾞ",
    ]);
  });

  test("a long run of letters is divided where another script follows, and looked at once", () => {
    const letters = "a".repeat(2_500);
    expect(split(`${letters}, b`)).toMatchObject({
      words: ["a".repeat(MAX_WORD), "b"],
      starts: [0, 2_502],
    });
    const divided = {
      words: [..."123"].map(() => "a".repeat(MAX_WORD)),
      starts: [0, 1_000, 2_000],
      ends: [1_000, 2_000, 2_501],
    };
    expect(split(`${letters}é`)).toEqual(divided);
    expect(split(`${letters}日b`)).toMatchObject({
      words: [...divided.words, "日", "b"],
      starts: [0, 1_000, 2_000, 2_500, 2_501],
    });
    const ms = (count: number): number => {
      const text = `${"a".repeat(count)}é`;
      const times = Array.from({ length: 5 }, () => {
        return cpuMs(() => split(text));
      });
      return Math.min(...times);
    };
    ms(10_000);
    // Eight times as long where each letter is looked at once, and sixty-four times where a run
    // looks at all behind it.
    expect(ms(1_000_000) / ms(125_000)).toBeLessThan(25);
  });

  test("WORD-4, WORD-5: they are bounded, and hold nothing but letters, numbers and marks; places rise and do not overlap", () => {
    fc.assert(
      fc.property(someText, (text) => {
        const found = split(text);
        let last = 0;
        for (const [i, word] of found.words.entries()) {
          expect(word).toMatch(/^[\p{L}\p{N}\p{M}]+$/u);
          expect(word.length).toBeLessThanOrEqual(MAX_WORD);
          const [start, end] = [found.starts[i] as number, found.ends[i] as number];
          expect(end).toBeGreaterThan(start);
          // Several words of one character have its place.
          if (start !== found.starts[i - 1]) expect(start).toBeGreaterThanOrEqual(last);
          last = end;
        }
      }),
    );
  });

  test("WORD-2: folding what is folded changes nothing", () => {
    fc.assert(
      fc.property(someText, (text) => {
        expect(words(words(text).join(" "))).toEqual(words(text));
      }),
    );
  });

  test("the longest word", () => {
    expect(words("x".repeat(5000))).toEqual(["x".repeat(MAX_WORD)]);
    expect(words("é".repeat(900))).toEqual(["e".repeat(MAX_WORD)]);
    expect(words(`${"x".repeat(MAX_WORD - 1)}𝒳`)[0]?.isWellFormed()).toBe(true);
  });
});

describe("queries", () => {
  test.each([
    ["refund order", ["refund", "order"]],
    ['"two words" more', ["two words", "more"]],
    ['yes -no -"not this"', ["yes", "-no", "-not this"]],
    ['pre* "a pre"*', ["pre*", "a pre*"]],
    ["c++", ["c"]],
    ["a-b", ["a b"]],
    ["body:x", ["body x"]],
    ["NEAR(a b, 2) AND OR NOT", ["near a", "b", "2", "and", "or", "not"]],
    ['"', []],
    ['"""', []],
    ['"open end', ["open end"]],
    ["*", []],
    ["-", []],
    ["- a", ["a"]],
    ["--a", ["-a"]],
    ["日本", ["日 本"]],
    ["日本*", ["日 本*"]],
    ["❤️", []],
    ["", []],
    ["x') OR 1=1 --", ["x", "or", "1 1"]],
    ["\u0000a\u0000b", ["a b"]],
    ["\ud800", []],
    ["a a A á", ["a"]],
  ])("%s", (text, expected) => {
    expect(said(parseQuery(text))).toEqual(expected);
  });

  test("are bounded", async () => {
    expect(
      await errorOf(() =>
        parseQuery(Array.from({ length: MAX_QUERY_WORDS + 1 }, (_, i) => `w${i}`).join(" ")),
      ),
    ).toMatchObject({
      code: "TOO_LARGE",
    });
    expect(await errorOf(() => parseQuery("term ".repeat(10_000)))).toMatchObject({
      code: "TOO_LARGE",
      details: { limit: MAX_QUERY_CHARS },
    });
    expect(
      parseQuery(Array.from({ length: MAX_QUERY_WORDS }, (_, i) => `w${i}`).join(" ")).all,
    ).toHaveLength(MAX_QUERY_WORDS);
  });
});

describe("what of a message is found", () => {
  const none = () => undefined;

  test("text, reasoning, names, calls, results, files", () => {
    const digest = "0".repeat(43);
    const message = {
      role: "assistant" as const,
      name: "Ana",
      metadata: { hidden: "metadata" },
      provider: { x: { hidden: "provider" } },
      content: [
        { type: "text" as const, text: "hello" },
        { type: "reasoning" as const, text: "because" },
        {
          type: "tool-call" as const,
          callId: "hidden",
          name: "refund",
          input: { order: 42, deep: [{ why: "broken" }], yes: true, no: null },
        },
        {
          type: "tool-result" as const,
          callId: "hidden",
          name: "lookup",
          outcome: "ok" as const,
          output: { found: "kelp" },
        },
        {
          type: "tool-result" as const,
          callId: "hidden",
          outcome: "ok" as const,
          output: [{ type: "text" as const, text: "inner" }],
        },
        {
          type: "file" as const,
          name: "notes.txt",
          mediaType: "text/plain",
          data: { digest, sizeBytes: 5 },
        },
        {
          type: "file" as const,
          name: "photo.png",
          mediaType: "image/png",
          data: { digest, sizeBytes: 5 },
        },
        { type: "file" as const, mediaType: "text/plain", data: { text: "inline" } },
        { type: "opaque" as const, format: "f", value: { hidden: "opaque" }, text: "shown" },
      ],
    };
    expect(textFilesIn(message)).toEqual([digest]);
    expect(textIn(message, () => "filed").split("\n")).toEqual([
      "Ana",
      "hello",
      "because",
      "refund",
      "42",
      "broken",
      "lookup",
      "kelp",
      "inner",
      "notes.txt",
      "filed",
      "photo.png",
      "inline",
      "shown",
    ]);
  });

  test("what only looks like parts is texts", () => {
    for (const output of [
      [{ type: "text" }],
      [{ type: "file", mediaType: "text/plain", data: { digest: 7 } }],
      [null, "x"],
      [],
    ]) {
      const part = {
        type: "tool-result" as const,
        callId: "1",
        outcome: "ok" as const,
        output: output as never,
      };
      expect(() => textFilesIn({ role: "tool", content: [part] })).not.toThrow();
      expect(() => textIn({ role: "tool", content: [part] }, none)).not.toThrow();
    }
  });

  test("passages hold all words once, and no word too often", () => {
    const repeated = "a ".repeat(3 * MOST_REPEATS + 7);
    expect([...passagesOf(repeated)].map(({ words: own }) => own.length)).toEqual([
      MOST_REPEATS,
      MOST_REPEATS,
      MOST_REPEATS,
      7,
    ]);
    const many = Array.from({ length: 2 * PASSAGE_WORDS + 5 }, (_, i) => `w${i}`).join(" ");
    expect([...passagesOf(many)].map(({ words: own }) => own.length)).toEqual([
      PASSAGE_WORDS,
      PASSAGE_WORDS,
      5,
    ]);
    const han = "日本語".repeat(5000);
    expect([...passagesOf(han)].flatMap(({ words: own }) => own)).toEqual(words(han));
    expect([...passagesOf(" . ")]).toEqual([]);
  });
});

/** FTS5 over the same words. `match` is put together as the store does it. */
function fts5(documents: readonly (readonly string[])[]) {
  const db = openDriver(":memory:");
  db.exec("CREATE VIRTUAL TABLE f USING fts5(words, content='', tokenize='ascii', detail=full)");
  const insert = db.prepare("INSERT INTO f (rowid, words) VALUES (?, ?)");
  for (const [i, document] of documents.entries()) insert.run(i, document.join(" "));
  const text = ({ words: own, prefix }: Phrase) => `"${own.join(" ")}"${prefix ? "*" : ""}`;
  return ({ all, none }: Query): number[] => {
    const match = `(${all.map(text).join(" AND ")})${none.map((phrase) => ` NOT ${text(phrase)}`).join("")}`;
    const rows = db.prepare("SELECT rowid FROM f WHERE f MATCH ? ORDER BY rowid").all(match);
    return rows.map(([i]) => i as number);
  };
}

const plain = (documents: readonly (readonly string[])[], query: Query): number[] =>
  documents.flatMap((document, i) => (occurrences(query, document) ? [i] : []));

const someQuery = fc
  .array(
    fc.tuple(
      fc.constantFrom("", "", "", "-"),
      fc.array(someScripts, { minLength: 1, maxLength: 3 }),
      fc.constantFrom("", "", "*"),
    ),
    {
      minLength: 1,
      maxLength: 3,
    },
  )
  .map((chunks) =>
    chunks.map(([minus, own, star]) => `${minus}"${own.join(" ")}"${star}`).join(" "),
  );

describe("matching", () => {
  test("is FTS5's, in every script", () => {
    fc.assert(
      fc.property(
        fc.array(someText, { minLength: 1, maxLength: 12 }),
        someQuery,
        (texts, asked) => {
          const documents = texts.map(words).filter(({ length }) => length > 0);
          const query = parseQuery(asked);
          fc.pre(documents.length > 0 && query.all.length > 0);
          expect(plain(documents, query)).toEqual(fts5(documents)(query));
        },
      ),
    );
  });

  test("the comparison sees a hit too many, and one too few", () => {
    const documents = ["kelp holds to rock", "kelp", "rock and rock", "sand"].map(words);
    const theirs = fts5(documents)(parseQuery("rock"));
    expect(plain(documents, parseQuery("rock"))).toEqual(theirs);
    expect(plain(documents, parseQuery("roc*"))).toEqual(theirs);
    expect(plain(documents.slice(0, 2), parseQuery("rock"))).not.toEqual(theirs);
    expect(plain(documents, parseQuery("kelp"))).not.toEqual(theirs);
  });
});

test("a text fits better the more often it holds the words, and the shorter it is", () => {
  expect(scoreOf([2], 10)).toBeGreaterThan(scoreOf([1], 10));
  expect(scoreOf([1], 10)).toBeGreaterThan(scoreOf([1], 11));
  expect(scoreOf([1, 1], 10)).toBeGreaterThan(scoreOf([2], 10));
});

const snippet = (text: string, query: Query): Snippet => {
  const found = split(text);
  return snippetOf(text, found, query, occurrences(query, found.words) ?? []);
};

describe("snippets", () => {
  test("show where the words stand", () => {
    const text = `${"before ".repeat(40)}the Refund of\norder 42 ${"after ".repeat(60)}`;
    const { text: shown, matches } = snippet(text, parseQuery("refund order"));
    expect(shown).toMatch(/^…before .*the Refund of order 42 after .*…$/);
    expect(matches.map(([start, end]) => shown.slice(start, end))).toEqual(["Refund", "order"]);
  });

  test("show the place where most of what was looked for stands together", () => {
    const text = `kelp ${"and so on ".repeat(60)} kelp on a rock ${"and so on ".repeat(60)} rock`;
    const { text: shown, matches } = snippet(text, parseQuery("kelp rock"));
    expect(matches.map(([start, end]) => shown.slice(start, end))).toEqual(["kelp", "rock"]);
  });

  test("hold at least one match, are bounded, and never cut a character", () => {
    fc.assert(
      fc.property(someText, someText, fc.nat(40), someScripts, (before, after, times, word) => {
        const query = parseQuery(`"${word}"`);
        fc.pre(query.all.length > 0);
        const text = `${before.repeat(times)} ${word} ${after.repeat(times)}`;
        const { text: shown, matches } = snippet(text, query);
        expect(shown.isWellFormed()).toBe(true);
        expect(shown.length).toBeLessThan(600);
        expect(matches.length).toBeGreaterThan(0);
        let last = 0;
        for (const [start, end] of matches) {
          expect(start).toBeGreaterThanOrEqual(last);
          expect(end).toBeGreaterThan(start);
          expect(end).toBeLessThanOrEqual(shown.length);
          last = end;
        }
        // What is cut off begins with no mark: it would belong to what is shown.
        const [start, end] = matches[0] as readonly [number, number];
        expect(frequency(query.all[0] as Phrase, words(shown.slice(start, end)))).toBeGreaterThan(
          0,
        );
        expect(shown.replace(/^…/, "")).not.toMatch(/^[\p{M}\u200d]/u);
      }),
    );
  });
});
