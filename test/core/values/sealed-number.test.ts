import fc from "fast-check";
import { expect, test } from "vitest";
import { openNumber, sealNumber } from "../../../src/core/values/sealed-number.js";

const number = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

test("a sealed number is opened again, with the same key and for the same list alone", () => {
  fc.assert(
    fc.property(number, fc.string(), fc.string(), (no, key, other) => {
      const sealed = sealNumber(no, "s", key);
      expect(sealed).toMatch(/^[\w-]{22}$/);
      expect(openNumber(sealed, "s", key)).toBe(no);
      expect(openNumber(sealed, "d", key)).toBeUndefined();
      if (other !== key) expect(openNumber(sealed, "s", other)).toBeUndefined();
    }),
    { seed: 12 },
  );
});

test("neighbours look nothing like each other, and no other text is one", () => {
  const all = Array.from({ length: 200 }, (_, no) => sealNumber(no, "s", "key"));
  expect(new Set(all.map((sealed) => sealed.slice(0, 6))).size).toBe(200);
  expect(all.toSorted()).not.toEqual(all);
  const sealed = sealNumber(7, "s", "key");
  for (let at = 0; at < sealed.length; at++)
    for (const letter of ["A", "_"])
      if (sealed[at] !== letter)
        expect(
          openNumber(`${sealed.slice(0, at)}${letter}${sealed.slice(at + 1)}`, "s", "key"),
        ).toBeUndefined();
  for (const text of ["", "7", `${sealed}A`, sealed.slice(1), `${sealed}=`, "~".repeat(22)])
    expect(openNumber(text, "s", "key")).toBeUndefined();
});
