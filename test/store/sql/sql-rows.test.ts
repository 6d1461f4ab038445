/** A save as a row of the SQL store: what is packed into one column comes back as it was. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { open } from "../../../src/core/journal/open-save.js";
import type { Save } from "../../../src/core/journal/save.js";
import { CHECK_CHARS } from "../../../src/core/journal/save-digest.js";
import { seal } from "../../../src/core/journal/seal-save.js";
import { digest } from "../../../src/core/values/digest.js";
import { branchId } from "../../../src/core/values/ids.js";
import { pack, saveParams, saveRow } from "../../../src/store/sql/rows.js";
import { thrown } from "../../core/values/thrown.js";

const branch = branchId(new Uint8Array(10));
const digests = fc.string().map(digest);
const saves: fc.Arbitrary<Save> = fc.record({
  branch: fc.constant(branch),
  seq: fc.nat(),
  at: fc.oneof(fc.nat(), fc.integer({ min: -8.64e15, max: 8.64e15 })),
  nItems: fc.nat(),
  nState: fc.nat(),
  nMark: fc.nat({ max: 1 }),
  nMessages: fc.nat(),
  prior: fc.nat({ max: 2 ** 31 }),
  base: fc.nat(),
  prev: digests,
  check: digests.map((text) => text.slice(0, CHECK_CHARS)),
  itemsDigest: fc.option(digests),
  stateDigest: fc.option(digests),
  mark: fc.option(fc.string()),
  note: fc.option(fc.string()),
  items: fc.option(fc.string()),
  state: fc.option(fc.string()),
});

const row = (save: Save) => saveParams(1, save, (text) => text).slice(1);

test("a save comes back as it was", () => {
  fc.assert(
    fc.property(saves, (save) => {
      expect(saveRow(branch, row(save))).toEqual(save);
    }),
    { numRuns: 1_000 },
  );
});

test("D3: one that was cut short or has a strange character differs from what it was", () => {
  fc.assert(
    fc.property(
      saves,
      fc.nat(),
      fc.option(fc.string({ minLength: 1, maxLength: 1 })),
      (save, where, wrong) => {
        const sound = pack(save);
        const at = where % sound.length;
        const head =
          wrong === null ? sound.slice(0, at) : sound.slice(0, at) + wrong + sound.slice(at + 1);
        fc.pre(head !== sound);
        const bare = { ...save, mark: null, note: null, items: null, state: null };
        expect(saveRow(branch, [save.seq, head, null, null, null, null])).not.toEqual(bare);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("D3: bytes, or a number for a text, make a save that no digest fits, and leave the types as they are", () => {
  const { save, digest: sealed } = seal({
    branch,
    after: 0,
    at: 5,
    prior: 0,
    base: 0,
    prev: digest("before"),
    items: ['{"append":1}'],
    nMessages: 1,
    state: ['{"unset":"b"}'],
    mark: '{"checkpoint":{"step":1,"messages":1,"bytes":1}}',
    salt: () => "0123456789abcdef",
  });
  expect(open(saveRow(branch, row(save)), {}).digest).toBe(sealed);
  for (const column of row(save).keys()) {
    for (const strange of [new Uint8Array(3), 1.5, column === 0 ? "3" : 1]) {
      const bad = saveRow(branch, row(save).with(column, strange as string));
      expect(thrown(() => open(bad, {}))).toMatchObject({ code: "CORRUPT" });
      const types = Object.values(bad).map((value) => (value === null ? "null" : typeof value));
      expect(types.every((type) => ["null", "string", "number"].includes(type))).toBe(true);
    }
  }
});
