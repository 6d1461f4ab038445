import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  BLOB_FROM,
  bodyBytes,
  type JournalRecord,
  record,
} from "../../../src/core/journal/record.js";
import { digest } from "../../../src/core/values/digest.js";

type Fields = readonly (readonly [name: string, text: string])[];

// Of one, two, three and four bytes, and those that JSON writes as escapes.
const text = fc.string({
  unit: fc.constantFrom("a", "ü", "東", "👩", '"', "\\", "\n", "\u0000", "\u2028", ","),
  maxLength: 20,
});
const body = fc
  .oneof(fc.jsonValue({ maxDepth: 3, stringUnit: "grapheme" }), text)
  .map((value) => JSON.stringify(value));
const list = fc
  .array(fc.oneof(fc.integer(), text), { maxLength: 5 })
  .map((value) => JSON.stringify(value));
const key = text.map((value) => JSON.stringify(value));
const count = fc.oneof(fc.nat({ max: 12 }), fc.nat());
const place = fc.tuple(count, count).map(([start, remove]) => `[${start},${remove}]`);
/**
 * Absent where the message was staged in the same millisecond; below zero where the clock was put
 * back.
 */
const ago = fc
  .option(fc.oneof(fc.nat(), fc.integer()).filter((ms) => ms !== 0))
  .map((ms): Fields => (ms === null ? [] : [["ago", String(ms)]]));

const sizeOf = (fields: Fields): number => {
  const written = record(fields);
  return bodyBytes(JSON.parse(written) as JournalRecord, Buffer.byteLength(written));
};

describe("record", () => {
  test("is one JSON object with the fields in the order given", () => {
    fc.assert(
      fc.property(key, body, ago, (name, value, when) => {
        const written = record([["set", name], ["value", value], ...when]);
        expect(Object.keys(JSON.parse(written) as object)).toEqual([
          "set",
          "value",
          ...when.map(([field]) => field),
        ]);
        expect(JSON.stringify((JSON.parse(written) as JournalRecord).value)).toBe(value);
        expect(written).not.toContain("\n");
      }),
    );
  });

  test("an example, as people see it", () => {
    expect(
      record([
        ["splice", "[3,1]"],
        ["item", '{"role":"user","content":"hi"}'],
        ["ago", "12"],
      ]),
    ).toBe('{"splice":[3,1],"item":{"role":"user","content":"hi"},"ago":12}');
  });
});

describe("bodyBytes is the byte length of the body", () => {
  test("a message at the end", () => {
    fc.assert(
      fc.property(body, ago, (value, when) => {
        expect(sizeOf([["append", value], ...when])).toBe(Buffer.byteLength(value));
      }),
    );
  });

  test("a message put in", () => {
    fc.assert(
      fc.property(place, body, ago, (at, value, when) => {
        expect(sizeOf([["splice", at], ["item", value], ...when])).toBe(Buffer.byteLength(value));
      }),
    );
  });

  test("a value under a key", () => {
    fc.assert(
      fc.property(key, body, (name, value) => {
        expect(
          sizeOf([
            ["set", name],
            ["value", value],
          ]),
        ).toBe(Buffer.byteLength(value));
      }),
    );
  });

  test("a body kept as a blob, whatever kind of record names it", () => {
    const kinds: fc.Arbitrary<Fields> = fc.oneof(
      fc.constant<Fields>([["append", "null"]]),
      place.map(
        (at): Fields => [
          ["splice", at],
          ["item", "null"],
        ],
      ),
      key.map(
        (name): Fields => [
          ["set", name],
          ["value", "null"],
        ],
      ),
      fc.tuple(key, place).map(
        ([name, at]): Fields => [
          ["list", name],
          ["splice", at],
          ["items", "null"],
        ],
      ),
    );
    fc.assert(
      fc.property(
        kinds,
        fc.integer({ min: BLOB_FROM, max: 2 ** 26 }),
        ago,
        (fields, size, when) => {
          expect(
            sizeOf([
              ...fields,
              ["blob", JSON.stringify(digest("x"))],
              ["size", String(size)],
              ...when,
            ]),
          ).toBe(size);
        },
      ),
    );
  });

  test("items put into a list", () => {
    fc.assert(
      fc.property(key, place, list, (name, at, items) => {
        expect(
          sizeOf([
            ["list", name],
            ["splice", at],
            ["items", items],
          ]),
        ).toBe(Buffer.byteLength(items));
      }),
    );
  });

  test("messages taken out have no body", () => {
    fc.assert(
      fc.property(place, (at) => {
        expect(sizeOf([["splice", at]])).toBe(0);
      }),
    );
  });

  test("a key taken away, a status and a base have no body", () => {
    fc.assert(
      fc.property(key, text, (name, reason) => {
        expect(sizeOf([["unset", name]])).toBe(0);
        expect(
          sizeOf([
            ["status", '"failed"'],
            ["reason", JSON.stringify(reason)],
          ]),
        ).toBe(0);
        expect(
          sizeOf([
            [
              "base",
              JSON.stringify({
                status: "in-progress",
                reason,
                step: 1,
                cost: [0, 0, 0, 0, 0],
                ranges: [[1, 2]],
                state: [],
              }),
            ],
          ]),
        ).toBe(0);
      }),
    );
  });
});
