import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type BranchId,
  branchId,
  checkName,
  checkpointPlace,
  MAX_ID_BYTES,
  MAX_SEQ,
  parsePlace,
  placeId,
  sessionId,
  typeName,
} from "../../../src/core/values/ids.js";
import { expectCode, thrown } from "./thrown.js";

const tenBytes = fc.uint8Array({ minLength: 10, maxLength: 10 });
const lines = tenBytes.map(branchId);
const seqs = fc.oneof(
  fc.integer({ min: 1, max: 100 }),
  fc.integer({ min: 1, max: MAX_SEQ }),
  fc.constant(MAX_SEQ),
);

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";

/** The ten bytes that a line id stands for, read as one number in base 32. */
function bytesOf(id: string): Uint8Array {
  let value = 0n;
  for (const digit of id) value = value * 32n + BigInt(ALPHABET.indexOf(digit));
  return Uint8Array.from({ length: 10 }, (_, i) => Number((value >> BigInt(8 * (9 - i))) & 255n));
}

describe("line ids", () => {
  test("are 16 characters that nobody mistakes for one another", () => {
    fc.assert(
      fc.property(tenBytes, (random) => {
        const id = branchId(random);
        expect(id).toMatch(/^[0-9abcdefghjkmnpqrstvwxyz]{16}$/);
      }),
    );
  });

  test("keep all 80 random bits: no two draws share an id", () => {
    fc.assert(
      fc.property(tenBytes, (random) => {
        expect(bytesOf(branchId(random))).toEqual(random);
      }),
    );
  });

  test("use ten bytes of what they are given", () => {
    fc.assert(
      fc.property(tenBytes, fc.uint8Array(), (random, more) => {
        expect(branchId(Uint8Array.from([...random, ...more]))).toBe(branchId(random));
      }),
    );
  });
});

describe("places", () => {
  test("go into an id and come back", () => {
    fc.assert(
      fc.property(lines, seqs, (line, seq) => {
        expect(parsePlace(placeId(line, seq))).toEqual({ branch: line, seq });
        expect(checkpointPlace(placeId(line, seq))).toEqual({ branch: line, seq });
      }),
    );
  });

  test("have one spelling each: whatever parses is spelled as its place", () => {
    const near = fc.oneof(
      fc
        .tuple(lines, fc.oneof(fc.nat().map(String), fc.stringMatching(/^[0-9 +e.-]{0,12}$/)))
        .map(([line, n]) => `${line}-${n}`),
      fc.string(),
    );
    fc.assert(
      fc.property(near, (text) => {
        const place = parsePlace(text);
        if (place !== undefined) expect(placeId(place.branch, place.seq)).toBe(text);
      }),
    );
  });

  const line = "0123456789abcdef" as BranchId;

  test.each([
    ["the number 0", `${line}-0`],
    ["a leading zero", `${line}-01`],
    ["a sign", `${line}-+1`],
    ["an exponent", `${line}-1e3`],
    ["a number past the last", `${line}-${MAX_SEQ + 1}`],
    ["eleven digits", `${line}-10000000000`],
    ["no number", `${line}-`],
    ["no line", "-1"],
    ["a letter that is not used", `${line.replace("a", "o")}-1`],
    ["something behind", `${line}-1 `],
    ["a line break behind", `${line}-1\n`],
    ["something before", ` ${line}-1`],
    ["nothing", ""],
  ])("%s names no place", (_, text) => expect(parsePlace(text)).toBeUndefined());

  test("a caller's argument that is no name at all is refused, and unknown text is not found", () => {
    expectCode("INVALID_ID", () => checkpointPlace(7));
    expectCode("INVALID_ID", () => checkpointPlace(""));
    expect(checkpointPlace("latest")).toBeUndefined();
  });
});

describe("checkName", () => {
  const fits = (text: string) =>
    text.length > 0 &&
    Buffer.byteLength(text) <= MAX_ID_BYTES &&
    text.isWellFormed() &&
    !/\p{Cc}/u.test(text);

  test("takes 1 to 200 bytes of well-formed text without control characters, as it is, and refuses all else", () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary", maxLength: 80 }),
      fc.string({ unit: "grapheme", maxLength: 60 }),
      fc.string({
        unit: fc.constantFrom("a", "ü", "東", "👩", "\ud83d", "\u0000", "\u0085"),
        maxLength: 90,
      }),
    );
    fc.assert(
      fc.property(texts, (text) => {
        if (fits(text)) expect(checkName(text, "name")).toBe(text);
        else expectCode("INVALID_ID", () => checkName(text, "name"));
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ["ASCII", "a", 200],
    ["two bytes each", "ü", 100],
    ["three bytes each", "東", 66],
    ["four bytes each", "👩", 50],
  ])("the limit counts bytes: %s", (_, unit, most) => {
    expect(checkName(unit.repeat(most), "name")).toBe(unit.repeat(most));
    const { code, details } = thrown(() => checkName(unit.repeat(most + 1), "name"));
    expect({ code, details }).toEqual({
      code: "INVALID_ID",
      details: { path: "name", limit: MAX_ID_BYTES },
    });
  });

  test.each([
    [undefined, "undefined"],
    [null, "null"],
    [5, "number"],
    [["a"], "an array"],
    [new Date(0), "Date"],
    [Object.create(null), "an object"],
  ])("what is no string is named by its type: %s", (value, type) => {
    expect(thrown(() => checkName(value, "agent")).message).toBe(
      `agent must be a string, not ${type}.`,
    );
  });

  test("a control character is shown in the message, not sent", () => {
    expect(thrown(() => checkName("a\u001b[2J", "tag")).message).toBe(
      'tag "a\\u001b[2J" holds a control character.',
    );
  });

  // An id may come from a request's body, so the object in its place may say anything under
  // `constructor`.
  test("D9: text inside a value that is no string never reaches the message raw", () => {
    const fromOutside: unknown = JSON.parse('{"constructor":{"name":"\\u001b[2J"}}');
    expect(thrown(() => checkName(fromOutside, "session id")).message).not.toContain("\u001b");
  });

  test("sessionId says which id it is about", () => {
    expect(sessionId("order-42")).toBe("order-42");
    expect(thrown(() => sessionId("")).message).toBe("session id is empty.");
  });
});

test("D9: typeName trusts only the plain name of a function, and no proxy throws through it", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const throwing = new Proxy(
    {},
    {
      get() {
        throw new Error("no");
      },
    },
  );
  const constructed = (constructor: unknown) => ({ constructor });
  const renamed = (name: unknown) =>
    constructed(Object.defineProperty(() => 0, "name", { value: name }));
  for (const value of [
    proxy,
    throwing,
    JSON.parse('{"constructor":{"name":{"toString":0}}}'),
    constructed({ name: "Date" }),
    constructed(null),
    renamed("\u001b[2J"),
    renamed("x".repeat(62)),
    renamed({ toString: 0 }),
    renamed("Two\nLines"),
  ])
    expect(typeName(value)).toBe("an object");
});

test("typeName names what people call it", () => {
  class Plan {}
  const named = [
    null,
    [],
    {},
    new Plan(),
    new Map(),
    Object.create(null),
    "x",
    1n,
    undefined,
    () => 0,
  ].map(typeName);
  expect(named).toEqual([
    "null",
    "an array",
    "Object",
    "Plan",
    "Map",
    "an object",
    "string",
    "bigint",
    "undefined",
    "function",
  ]);
});
