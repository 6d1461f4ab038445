import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { digest, isDigest } from "../../../src/core/values/digest.js";

const EMPTY = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

describe("digest", () => {
  test("is SHA-256 in base64url: the known value of nothing", () => {
    expect(digest("")).toBe(EMPTY);
    expect(digest(new Uint8Array())).toBe(EMPTY);
  });

  test("D3: equals the streaming hash, for text as UTF-8 and for bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        const expected = createHash("sha256").update(text, "utf8").digest("base64url");
        expect(digest(text)).toBe(expected);
        expect(digest(Buffer.from(text))).toBe(expected);
        expect(isDigest(expected)).toBe(true);
      }),
    );
  });

  test("a view is hashed as the bytes it shows, not as the buffer behind it", () => {
    const buffer = Uint8Array.from([9, 1, 2, 3, 9]);
    expect(digest(buffer.subarray(1, 4))).toBe(digest(Uint8Array.from([1, 2, 3])));
  });
});

test("isDigest takes 43 characters of base64url and nothing else", () => {
  for (const no of [
    EMPTY.slice(1),
    `${EMPTY}A`,
    `${EMPTY}\n`,
    EMPTY.replace("-", "+"),
    EMPTY.replace("_", "/"),
    "",
    43,
    null,
    undefined,
    [EMPTY],
  ]) {
    expect(isDigest(no)).toBe(false);
  }
});
