/** JSON that others wrote, read without loss. */
import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sortedText } from "../../../src/core/values/json.js";
import { compacted, parseJson } from "../../../src/core/values/lossless-json.js";
import type { Json, JsonObject } from "../../../src/index.js";
import { cpuMs } from "../../support/cpu.js";
import { errorOf } from "../../support/error-of.js";

const read = (text: string) => parseJson(text).value;

/** A value with those numbers that became text as the doubles that they would have been. */
function likeDoubles(value: Json, plain: Json): Json {
  if (typeof plain === "number" && typeof value === "string") return Number(value);
  if (Array.isArray(value))
    return value.map((item, i) => likeDoubles(item as Json, (plain as Json[])[i] as Json));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      likeDoubles(item, (plain as JsonObject)[key] as Json),
    ]),
  );
}

describe("LOSSLESS-1: numbers past a double", () => {
  test("are text with the same digits, and are named", () => {
    const text =
      '{"a": 9007199254740993, "b": [1, {"c d": -9223372036854775808}], "e": 1e400, "f": 9007199254740991, "g": 1.0, "h": 1e+21}';
    const { value, texts } = parseJson(text);
    expect(value).toEqual({
      a: "9007199254740993",
      b: [1, { "c d": "-9223372036854775808" }],
      e: "1e400",
      f: 2 ** 53 - 1,
      g: 1,
      h: 1e21,
    });
    expect(texts).toEqual({ count: 3, paths: ["a", 'b[1]["c d"]', "e"] });
    expect(parseJson(`[${Array.from({ length: 9 }, () => 2n ** 64n).join()}]`).texts).toEqual({
      count: 9,
      paths: ["[0]", "[1]", "[2]", "[3]", "[4]"],
    });
    expect(read("18446744073709551615")).toBe("18446744073709551615");
  });

  test("are seen in every spelling, and numbers that a double holds are left", () => {
    const text =
      "[9007199254740993.0, 9.007199254740993e15, 90071992547409930e-1, -9007199254740993.00, 9007199254740993.5]";
    expect(read(text)).toEqual([
      "9007199254740993.0",
      "9.007199254740993e15",
      "90071992547409930e-1",
      "-9007199254740993.00",
      "9007199254740993.5",
    ]);
    expect(
      read("[9007199254740992.0, 9.007199254740992e15, 1e20, 1e21, 1.5e300, 0.1, 123456789.1234]"),
    ).toEqual([2 ** 53, 2 ** 53, 1e20, 1e21, 1.5e300, 0.1, 123456789.1234]);
  });

  test("are not looked for in strings", () => {
    const texts = [
      "9007199254740993",
      'a \\" 9007199254740993',
      "\\\\",
      '\\\\"',
      '","9007199254740993',
      "\u2028[{",
      "é😀",
    ];
    for (const text of texts) {
      const json = JSON.stringify({ [text]: [text, { [text]: text }] }, undefined, 2);
      expect(parseJson(json)).toMatchObject({ value: JSON.parse(json), texts: { count: 0 } });
    }
  });

  test("whatever else is there stays as it is", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(undefined, 1, 2, "\t"), (given, indent) => {
        const text = JSON.stringify(given, undefined, indent);
        expect(likeDoubles(parseJson(text).value, JSON.parse(text) as Json)).toEqual(
          JSON.parse(text),
        );
      }),
      { numRuns: 300 },
    );
    fc.assert(
      fc.property(fc.array(fc.bigInt({ min: -(2n ** 64n), max: 2n ** 64n })), (numbers) => {
        const back = read(`[${numbers.join(" , ")}]`) as readonly (number | string)[];
        expect(back.map((number) => BigInt(number))).toEqual(numbers);
      }),
    );
  });

  test("keys are data, whatever they are called", () => {
    const value = read('{"__proto__": {"x": 9007199254740993}, "constructor": 1}') as JsonObject;
    expect(Object.keys(value)).toEqual(["__proto__", "constructor"]);
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
  });
});

test("LOSSLESS-2: what is not JSON is refused", async () => {
  const bad = [
    "",
    " ",
    "{",
    '{"a":1',
    "[1,]",
    "{9007199254740993: 1}",
    "[9007199254740993 1]",
    "09007199254740993",
    "NaN",
    "[-]",
    '"\u0001"',
    "a_1.json",
  ];
  for (const text of bad)
    expect(await errorOf(() => parseJson(text)), text).toMatchObject({ code: "INVALID_VALUE" });
});

test("LOSSLESS-3: nesting is bounded, and the time is linear", async () => {
  expect(await errorOf(() => parseJson("[".repeat(100_000) + "]".repeat(100_000)))).toMatchObject({
    code: "INVALID_VALUE",
  });
  expect(read("[".repeat(1_000) + "]".repeat(1_000))).toHaveLength(1);
  const backslashes = JSON.stringify("\\".repeat(1_000_000));
  const quotes = JSON.stringify('"'.repeat(1_000_000));
  const took = cpuMs(() =>
    expect(read(`[${backslashes},${quotes},${"9".repeat(1_000_000)}]`)).toHaveLength(3),
  );
  expect(took).toBeLessThan(2_000);
});

test("a part of the text without whitespace is what was hashed when it was written", () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom(1, 2, "\t", "\r\n"), (value, indent) => {
      const pretty = JSON.stringify({ before: 1, value, after: [2] }, undefined, indent as string);
      const span = parseJson(pretty).spans.get("value");
      expect([...compacted(pretty, span ?? [0, 0])].join("")).toBe(JSON.stringify(value));
    }),
  );
  const rows = JSON.stringify(
    { rows: Array.from({ length: 5_000 }, (_, i) => ({ i })) },
    undefined,
    2,
  );
  const hash = createHash("md5");
  for (const piece of compacted(rows, [0, rows.length])) hash.update(piece);
  expect(hash.digest("hex")).toBe(
    createHash("md5")
      .update(JSON.stringify(JSON.parse(rows)))
      .digest("hex"),
  );
});

test("equal values have the same sorted text", () => {
  expect(sortedText({ b: [1, { d: 1, c: null }], a: "x" })).toBe(
    sortedText(JSON.parse('{"a":"x","b":[1,{"c":null,"d":1}]}') as Json),
  );
});
