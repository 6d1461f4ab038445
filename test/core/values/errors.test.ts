import { describe, expect, test } from "vitest";
import {
  type ErrorCode,
  errorTable,
  HoldfastError,
  quote,
} from "../../../src/core/values/errors.js";

const codes = Object.keys(errorTable) as ErrorCode[];

describe("the table", () => {
  test("has the codes that the rest of Holdfast and its docs speak of", () => {
    expect(codes.toSorted()).toEqual(
      [
        "BAD_STATUS",
        "IN_DOUBT",
        "TURN_OPEN",
        "WAITING",
        "BUSY",
        "CLOSED",
        "CONFLICT",
        "CORRUPT",
        "DENIED",
        "DISK_FULL",
        "INVALID_ID",
        "INVALID_OPTION",
        "INVALID_VALUE",
        "IO",
        "LEASE_HELD",
        "NEWER_FORMAT",
        "NOT_A_STORE",
        "NOT_FOUND",
        "STALE_LEASE",
        "TOO_LARGE",
        "UNREACHABLE",
        "UNSAVED",
        "UNSUPPORTED",
      ].toSorted(),
    );
  });

  test.each(codes)(
    "%s has an HTTP status, an exit code, whether to retry, and a sentence",
    (code) => {
      const { http, exit, retryable, says } = errorTable[code];
      expect(http).toBeGreaterThanOrEqual(400);
      expect(http).toBeLessThan(600);
      expect(Number.isInteger(http)).toBe(true);
      // 0 says that all went well, and shells take the numbers from 126 on for themselves.
      expect(exit).toBeGreaterThanOrEqual(1);
      expect(exit).toBeLessThan(126);
      expect(Number.isInteger(exit)).toBe(true);
      expect(typeof retryable).toBe("boolean");
      expect(says).toMatch(/^[A-Z].{10,}\.$/);
    },
  );

  test("only what others or time can change is worth the same call again", () => {
    expect(codes.filter((code) => errorTable[code].retryable).toSorted()).toEqual([
      "BUSY",
      "DISK_FULL",
      "LEASE_HELD",
      "UNREACHABLE",
    ]);
  });

  test("the caller's mistakes are 4xx and the store's troubles are 5xx", () => {
    const callers: readonly ErrorCode[] = [
      "INVALID_ID",
      "INVALID_VALUE",
      "INVALID_OPTION",
      "TOO_LARGE",
      "NOT_FOUND",
      "CONFLICT",
    ];
    const stores: readonly ErrorCode[] = [
      "CORRUPT",
      "NOT_A_STORE",
      "NEWER_FORMAT",
      "UNSUPPORTED",
      "BUSY",
      "DISK_FULL",
      "IO",
    ];
    for (const code of callers) expect(errorTable[code].http).toBeLessThan(500);
    for (const code of stores) expect(errorTable[code].http).toBeGreaterThanOrEqual(500);
  });
});

describe("HoldfastError", () => {
  test.each(codes)("%s carries its code, the table's retryable, and frozen details", (code) => {
    const error = new HoldfastError(code, "What happened. What to do.", { path: "state.x" });
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe("HoldfastError");
    expect(error.code).toBe(code);
    expect(error.retryable).toBe(errorTable[code].retryable);
    expect(error.details).toEqual({ path: "state.x" });
    expect(Object.isFrozen(error.details)).toBe(true);
  });

  test("keeps a cause that was given, and shows none that was not", () => {
    const cause = new Error("driver");
    expect(new HoldfastError("IO", "It failed.", {}, cause).cause).toBe(cause);
    expect("cause" in new HoldfastError("IO", "It failed.")).toBe(false);
  });
});

describe("quote", () => {
  test("plain text stands in quotes, as it is", () => {
    expect(quote("order-42 für 東京 👩‍👩‍👧")).toBe('"order-42 für 東京 👩‍👩‍👧"');
    expect(quote('say "hi" \\ there')).toBe('"say \\"hi\\" \\\\ there"');
  });

  const hidden = {
    "C0 controls": range(0x00, 0x1f),
    "DEL and C1 controls": range(0x7f, 0x9f),
    "line and paragraph separators": range(0x2028, 0x2029),
    "bidi marks": [0x061c, 0x200e, 0x200f],
    "bidi embeddings and overrides": range(0x202a, 0x202e),
    "bidi isolates": range(0x2066, 0x2069),
  };

  test.each(Object.entries(hidden))("%s are shown, not sent", (_, units) => {
    for (const unit of units) {
      const shown = quote(`a${String.fromCharCode(unit)}b`);
      expect(shown).toMatch(/^"a\\[\w]+b"$/);
      expect(JSON.parse(shown)).toBe(`a${String.fromCharCode(unit)}b`);
    }
  });

  test("the characters next to those ranges are left as they are", () => {
    for (const unit of [0x20, 0x7e, 0xa0, 0x2027, 0x202f])
      expect(quote(String.fromCharCode(unit))).toHaveLength(3);
  });

  test("a terminal escape does not reach the terminal", () => {
    expect(quote("\u001b[2J\u009b31m")).toBe('"\\u001b[2J\\u009b31m"');
  });

  test("D8: 80 characters stand whole, 81 are cut to 77 and an ellipsis", () => {
    expect(quote("x".repeat(80))).toBe(`"${"x".repeat(80)}"`);
    expect(quote("x".repeat(81))).toBe(`"${"x".repeat(77)}…"`);
  });

  test("a pair cut in half is shown as an escape: the message stays well-formed", () => {
    const shown = quote(`${"x".repeat(76)}👩${"x".repeat(10)}`);
    expect(shown.isWellFormed()).toBe(true);
    expect(shown).toBe(`"${"x".repeat(76)}\\ud83d…"`);
  });
});

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, i) => from + i);
}
