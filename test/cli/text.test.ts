/** Text on its way to a terminal, and texts compared. */
import { spawnSync } from "node:child_process";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { propose, shellLine, shellWord } from "../../src/cli/framework/next-steps.js";
import { compare } from "../../src/cli/render/changes.js";
import { table } from "../../src/cli/render/table.js";
import { paint } from "../../src/cli/terminal/colours.js";
import {
  ago,
  block,
  clip,
  inline,
  json,
  oneLine,
  size,
  width,
  wrap,
} from "../../src/cli/terminal/text.js";
import { closest } from "../../src/core/values/closest.js";
import { cpuMs } from "../support/cpu.js";

const anything = fc.oneof(
  fc.string({ unit: "binary", maxLength: 60 }),
  fc.string({ unit: "grapheme", maxLength: 60 }),
);
const UNSEEN = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;

describe("V1", () => {
  test("whatever is stored, nothing that is not seen is sent", () => {
    fc.assert(
      fc.property(anything, (text) => {
        expect(inline(text)).not.toMatch(UNSEEN);
        expect(oneLine(text)).not.toMatch(UNSEEN);
        for (const line of block(text)) expect(line).not.toMatch(UNSEEN);
        expect(shellWord(text)).not.toMatch(UNSEEN);
        expect(json({ text }).replaceAll("\n", "")).not.toMatch(UNSEEN);
        if (text.isWellFormed()) expect(JSON.parse(json({ text }))).toEqual({ text });
      }),
      { numRuns: 2_000 },
    );
  });

  test("characters without a shape become visible, by their Unicode properties", () => {
    const hidden = {
      "a tag": "\u{e0041}",
      "the end of tags": "\u{e007f}",
      "a language tag": "\u{e0001}",
      "a selector of the supplement": "\u{e0100}",
      "an ignorable that is not assigned": "\u{e0fff}",
      "a selector of another style": "\ufe00",
      "a soft hyphen": "\u00ad",
      "a grapheme joiner": "\u034f",
      "a Hangul filler": "\u3164",
      "a zero width space": "\u200b",
      "a word joiner": "\u2060",
      "an invisible times": "\u2062",
      "a Mongolian vowel separator": "\u180e",
      "an override": "\u202e",
      "an isolate": "\u2066",
      "a musical format character": "\u{1d173}",
      "a noncharacter": "\uffff",
      "a joiner alone": "\u200d",
      "a selector alone": "\ufe0f",
    };
    for (const [what, character] of Object.entries(hidden)) {
      const point = `\\u{${(character.codePointAt(0) as number).toString(16)}}`;
      expect(inline(`a${character}`), what).toBe(`a${point}`);
      expect(json({ character }), what).not.toContain(character);
      expect(JSON.parse(json({ character })), what).toEqual({ character });
    }
    // In a script that it does not join, and behind what is no emoji.
    for (const text of [
      "a\u200db",
      "я\u200dя",
      "日\u200d本",
      "é\u200de",
      "1\ufe0f",
      "a1\ufe0fb",
      "#\ufe0e",
    ])
      expect(inline(text), text).toBe(
        text
          .replace(/\u200d/u, "\\u{200d}")
          .replace(/[\ufe0e\ufe0f]/u, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`),
      );
    // A text that is hidden behind an emoji.
    expect(inline("😀\ufe0f\ufe0f\ufe0e")).toBe("😀\ufe0f\\u{fe0f}\\u{fe0e}");
    expect(
      inline(`a${[..."hi"].map((c) => String.fromCodePoint(0xe0000 + c.charCodeAt(0))).join("")}`),
    ).toBe("a\\u{e0068}\\u{e0069}");
  });

  test("emoji and scripts keep the joiners and selectors that they are written with", () => {
    for (const text of [
      "👩‍👩‍👧",
      "❤️",
      "❤️‍🔥",
      "🏳️‍🌈",
      "1️⃣",
      "☎︎",
      "👍🏽",
      "👩🏽‍💻",
      "क्‍ष",
      "\u0600",
      "\ue000",
    ])
      expect(inline(text)).toBe(text);
  });

  test("what is seen stays as it is", () => {
    expect(inline("Ünïcode 日本 👩‍👩‍👧 \\n")).toBe("Ünïcode 日本 👩‍👩‍👧 \\n");
    expect(inline("a\u001b[31m\u0000\r\u202e\u009b")).toBe("a\\e[31m\\0\\r\\u{202e}\\u{9b}");
    expect(block("a\r\nb\tc")).toEqual(["a", "b    c"]);
  });
});

describe("V2", () => {
  test("columns are those of a terminal", () => {
    expect(
      ["abc", "日本", "👩‍👩‍👧", "é", "e\u0301", "👍🏽", "", "\u001b[31mred\u001b[39m"].map(width),
    ).toEqual([3, 4, 2, 1, 1, 2, 0, 3]);
  });

  test("what is cut fits, and what fits is not cut", () => {
    fc.assert(
      fc.property(anything, fc.integer({ min: 1, max: 30 }), (text, columns) => {
        const shown = inline(text);
        const cut = clip(shown, columns);
        expect(width(cut)).toBeLessThanOrEqual(columns);
        if (width(shown) <= columns) expect(cut).toBe(shown);
        else expect(cut.endsWith("…")).toBe(true);
      }),
      { numRuns: 2_000 },
    );
  });

  test("what is wrapped fits, and loses nothing but spaces", () => {
    fc.assert(
      fc.property(anything, fc.integer({ min: 10, max: 40 }), (text, columns) => {
        const shown = inline(text);
        const rows = wrap(shown, columns);
        const indent = /^ */.exec(shown)?.[0].length ?? 0;
        for (const row of rows)
          expect(width(row)).toBeLessThanOrEqual(Math.max(columns, indent + 8));
        expect(rows.join("").replaceAll(" ", "")).toBe(shown.replaceAll(" ", ""));
      }),
      { numRuns: 2_000 },
    );
  });

  test("spaces of other scripts are text: they stay at the end of a row and by themselves", () => {
    expect(wrap("kelp holds\u2003 on", 11)).toEqual(["kelp holds\u2003", "on"]);
    expect(wrap("a holdfast\u2003", 10)).toEqual(["a", "holdfast\u2003"]);
    expect(wrap("a holdfast \u2003", 10)).toEqual(["a holdfast", "\u2003"]);
  });

  test("a table fits as far as its columns may be cut, and leaves out one in which nothing stands", () => {
    const plain = { paint: paint(false) };
    const columns = [{ title: "ID" }, { title: "NONE" }, { title: "TEXT", least: 5 }];
    const rows = [
      ["a", "", "long enough to be cut"],
      ["bb", "", "日本語日本語"],
    ];
    expect(table(columns, rows, { ...plain, columns: 14 })).toEqual([
      "ID  TEXT",
      "a   long enou…",
      "bb  日本語日…",
    ]);
    expect(table(columns, rows, { ...plain, columns: Number.POSITIVE_INFINITY })).toEqual([
      "ID  TEXT",
      "a   long enough to be cut",
      "bb  日本語日本語",
    ]);
  });
});

describe("what is proposed can be pasted", () => {
  const ids = fc.oneof(
    fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 }),
    fc.constantFrom(
      "-x",
      "--json",
      "--",
      "a b",
      "it's",
      "$(touch x)",
      "`id`",
      "*",
      "~root",
      "=ls",
      "a\\b",
      "rtl-\u202eabc",
      "zero\u200bwidth",
      "!!",
      "#x",
      "日本",
    ),
  );

  test("a shell takes each word for what it was", () => {
    const words = fc.sample(ids, 150).filter((word) => !/[\p{Cc}\ud800-\udfff]/u.test(word));
    const script = words.map((word) => `printf '%s\\0' ${shellWord(word)}`).join("\n");
    const { stdout, status } = spawnSync("bash", ["--norc"], {
      input: script,
      encoding: "utf8",
      env: { LANG: "C.UTF-8", PATH: process.env["PATH"] },
    });
    expect([status, stdout.split("\0").slice(0, -1)]).toEqual([0, words]);
    for (const word of words) expect(shellWord(word)).not.toMatch(UNSEEN);
  });

  test("options come first, and words that look like one stand behind --", () => {
    expect(
      shellLine(
        propose("log", ["-x"], {
          graph: true,
          store: "a b.db",
          limit: 5,
          tenant: undefined,
          all: false,
        }),
      ),
    ).toBe("holdfast log --graph --store 'a b.db' --limit 5 -- -x");
    expect(shellLine(propose("fork", ["a"], { id: "-b" }))).toBe("holdfast fork --id=-b a");
    expect(shellLine(propose("tail", ["a"], { f: true }))).toBe("holdfast tail -f a");
  });
});

test("long lines are cut and wrapped in time that grows with what is shown of them", () => {
  const long = "日本語".repeat(200_000);
  const took = cpuMs(() => {
    expect(width(clip(long, 80))).toBeLessThanOrEqual(80);
    expect(clip(long, Number.POSITIVE_INFINITY)).toBe(long);
    expect(wrap(long.slice(0, 60_000), 80).length).toBe(1_500);
    expect(wrap("a".repeat(200_000), 80).length).toBe(2_500);
  });
  expect(took).toBeLessThan(2_000);
});

test("times and sizes in few words", () => {
  const now = Date.UTC(2026, 0, 31);
  const before = (ms: number) => ago(new Date(now - ms).toISOString(), now);
  expect(
    [0, 9_999, 30_000, 180_000, 7_200_000, 3 * 86_400_000, 40 * 86_400_000, -60_000].map(before),
  ).toEqual([
    "just now",
    "just now",
    "30 s ago",
    "3 min ago",
    "2 h ago",
    "3 d ago",
    "2025-12-22",
    "2026-01-31 00:01:00Z",
  ]);
  expect([0, 999, 1_000, 12_345, 9_999_999, 1_234_000_000].map(size)).toEqual([
    "0 B",
    "999 B",
    "1.0 kB",
    "12 kB",
    "10.0 MB",
    "1.23 GB",
  ]);
});

test("what was meant: what is close, and nothing that is not", () => {
  expect(
    ["shwo", "sttas", "colud", "x", "ls", "verfy", "resto"].map((word) =>
      closest(word, ["show", "stats", "ls", "verify", "restore"]),
    ),
  ).toEqual(["show", "stats", undefined, undefined, "ls", "verify", "restore"]);
});

describe("texts compared line by line", () => {
  test("what is taken out and put in makes one of the other, by as few lines as there can be", () => {
    const lines = fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 12 });
    fc.assert(
      fc.property(lines, lines, (from, to) => {
        const steps = compare(from, to);
        const side = (...signs: string[]) =>
          steps.filter(({ sign }) => signs.includes(sign)).map(({ line }) => line);
        expect(side(" ", "-")).toEqual(from);
        expect(side(" ", "+")).toEqual(to);
        expect(side(" ")).toHaveLength(longestCommon(from, to));
      }),
      { numRuns: 500 },
    );
  });

  test("texts that are too long for that are compared at once, whole", () => {
    const [a, b] = [
      Array.from({ length: 20_000 }, (_, i) => `a${i}`),
      Array.from({ length: 20_000 }, (_, i) => `b${i}`),
    ];
    expect(cpuMs(() => expect(compare(a, b)).toHaveLength(40_000))).toBeLessThan(2_000);
  });
});

function longestCommon(
  [a, ...from]: readonly string[],
  to: readonly string[],
  known = new Map<string, number>(),
): number {
  if (a === undefined || to.length === 0) return 0;
  const key = `${from.length} ${to.length}`;
  const before = known.get(key);
  if (before !== undefined) return before;
  const at = to.indexOf(a);
  const without = longestCommon(from, to, known);
  const best =
    at === -1 ? without : Math.max(without, 1 + longestCommon(from, to.slice(at + 1), known));
  known.set(key, best);
  return best;
}
