import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { drop, gap } from "../../../src/core/journal/drop-sections.js";
import { open } from "../../../src/core/journal/open-save.js";
import { type JournalRecord, record, SALT_CHARS } from "../../../src/core/journal/record.js";
import { firstSeq, isEmpty, type Save } from "../../../src/core/journal/save.js";
import { CHECK_CHARS } from "../../../src/core/journal/save-digest.js";
import { isGap, priorOf } from "../../../src/core/journal/save-note.js";
import { recordBytes } from "../../../src/core/journal/save-section.js";
import { type Draft, seal } from "../../../src/core/journal/seal-save.js";
import { digest, isDigest } from "../../../src/core/values/digest.js";
import { type BranchId, branchId } from "../../../src/core/values/ids.js";
import { expectCode, thrown } from "../values/thrown.js";

const line = branchId(Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
const other = branchId(new Uint8Array(10));
const ALL = { items: true, state: true, mark: true } as const;

let drawn = 0;
/** Never the same twice, and the same in every run. */
const salt = (): string => digest(`salt ${drawn++}`).slice(0, SALT_CHARS);

// Texts that would be torn if rows were parted by anything that can stand inside JSON.
const text = fc.oneof(
  fc.string({
    unit: fc.constantFrom(
      ",\n",
      '",\n"',
      "},\n{",
      ",\\n",
      "\n",
      "\r",
      "\u2028",
      '"',
      "\\",
      "ü",
      "東",
      "👩",
      "\ufffd",
    ),
    maxLength: 12,
  }),
  fc.string({ unit: "grapheme" }),
);
const append = text.map((content) =>
  record([["append", JSON.stringify({ role: "user", content })]]),
);
const set = fc.tuple(text, text).map(([key, value]) =>
  record([
    ["set", JSON.stringify(key)],
    ["value", JSON.stringify(value)],
  ]),
);
const checkpoint = text.map((label) => markOf(label));
const number = fc.nat({ max: 2 ** 32 - 1 });

const drafts: fc.Arbitrary<Draft> = fc.record({
  branch: fc.uint8Array({ minLength: 10, maxLength: 10 }).map(branchId),
  after: fc.nat({ max: 1_000 }),
  at: fc.integer({ min: 0, max: 2 ** 45 }),
  prior: number,
  base: number,
  prev: fc.string().map(digest),
  items: fc.array(append, { maxLength: 5 }),
  nMessages: fc.nat({ max: 5 }),
  state: fc.array(set, { maxLength: 5 }),
  mark: fc.option(checkpoint),
  salt: fc.constant(salt),
});

function markOf(label: string): string {
  return record([
    ["checkpoint", JSON.stringify({ step: 1, label, messages: 2, bytes: 3 })],
    ["salt", JSON.stringify(salt())],
  ]);
}

function draft(rest: Partial<Draft> = {}): Draft {
  return {
    branch: line,
    after: 6,
    at: 1_700_000_000_000,
    prior: 5,
    base: 4,
    prev: digest("before"),
    items: [
      '{"append":{"role":"user","content":"für 👩,\\n"}}',
      '{"append":{"role":"assistant","content":"ok"}}',
    ],
    nMessages: 2,
    state: ['{"set":"a","value":1}', '{"unset":"b"}'],
    mark: markOf("before the refund"),
    salt,
    ...rest,
  };
}

/** Saves on one line, each following the one before. */
function chained(count: number): { saves: Save[]; digests: string[] } {
  const saves: Save[] = [];
  const digests: string[] = [];
  for (let i = 0; i < count; i++) {
    const before = saves.at(-1);
    const { save, digest: end } = seal(
      draft({
        after: before?.seq ?? 0,
        prior: before?.seq ?? 0,
        prev: digests.at(-1) ?? digest("root"),
      }),
    );
    saves.push(save);
    digests.push(end);
  }
  return { saves, digests };
}

const parsed = (texts: readonly string[]) => texts.map((one) => JSON.parse(one) as JournalRecord);

function expectCorrupt(save: Save): void {
  const { code, details } = thrown(() => open(save, ALL));
  expect({ code, details }).toEqual({
    code: "CORRUPT",
    details: { branch: save.branch, seq: save.seq },
  });
}

function verifies(save: Save): boolean {
  try {
    open(save, {});
    return true;
  } catch {
    return false;
  }
}

/**
 * Every text that differs from this one in one place: a character exchanged, taken out, or put in.
 * By characters and not by halves of pairs: digests are over UTF-8, which has no lone surrogates,
 * and no store can hand one out.
 */
function* damaged(whole: string): Generator<string> {
  const characters = [...whole];
  for (const [i, character] of characters.entries()) {
    const head = characters.slice(0, i).join("");
    const tail = characters.slice(i + 1).join("");
    yield head + tail;
    for (const wrong of ["A", "B", "0", " ", '"', ",", "\n", "\u0000", "\ufffd"]) {
      if (wrong !== character) yield head + wrong + tail;
      yield head + wrong + character + tail;
    }
  }
  yield `${whole} `;
}

describe("seal and open", () => {
  test("JOURNAL-2: what was sealed opens with the same digest, and gives back every record in its order", () => {
    fc.assert(
      fc.property(drafts, (given) => {
        const { save, digest: end } = seal(given);
        const opened = open(save, ALL);
        expect(opened.digest).toBe(end);
        expect(opened.items).toEqual(parsed(given.items));
        expect(opened.state).toEqual(parsed(given.state));
        expect(save.mark).toBe(given.mark);
        expect(isDigest(end)).toBe(true);
        expect(end.startsWith(save.check)).toBe(true);
        expect(save.check).toHaveLength(CHECK_CHARS);
      }),
    );
  });

  test("JOURNAL-1: records are numbered on from the one before, items first, the checkpoint last", () => {
    fc.assert(
      fc.property(drafts, (given) => {
        const { save } = seal(given);
        expect(firstSeq(save)).toBe(given.after + 1);
        expect(save.seq).toBe(
          given.after + given.items.length + given.state.length + (given.mark === null ? 0 : 1),
        );
        expect([save.nItems, save.nState, save.nMark]).toEqual([
          given.items.length,
          given.state.length,
          given.mark === null ? 0 : 1,
        ]);
      }),
    );
  });

  test("a section that is not asked for is verified and not parsed", () => {
    const { save, digest: end } = seal(draft());
    expect(open(save, {})).toEqual({ digest: end, items: [], state: [] });
    expect(open(save, { state: true }).items).toEqual([]);
    expect(open(save, { state: true }).state).toHaveLength(2);
  });

  test("a section that was not read is stood for by its digest, and is damage where it is needed", () => {
    const { save, digest: end } = seal(draft());
    const header = { ...save, items: null, state: null };
    expect(open(header, { mark: true }).digest).toBe(end);
    expectCode("CORRUPT", () => open(header, { items: true }));
    expectCode("CORRUPT", () => open(header, { state: true }));
    expect(open({ ...save, items: null }, { state: true }).state).toHaveLength(2);
  });

  test("JOURNAL-1: a section with more rows than it says is damage, even where it was sealed that way", () => {
    const { save } = seal(draft({ items: ['{"append":1},\n{"append":2}'] }));
    expect(thrown(() => open(save, ALL)).message).toContain("miscounts its records");
  });

  test("JOURNAL-3: the same content sealed twice has other texts and other digests", () => {
    const [one, two] = [seal(draft()).save, seal(draft()).save];
    expect(one.items).not.toBe(two.items);
    expect(one.state).not.toBe(two.state);
    expect(one.itemsDigest).not.toBe(two.itemsDigest);
    expect(one.stateDigest).not.toBe(two.stateDigest);
  });

  test("JOURNAL-3: no digest of a section can be found by guessing its records", () => {
    const { save } = seal(draft());
    const guessed = [draft().items, draft().state].map((records) => digest(records.join(",\n")));
    expect(guessed).not.toContain(save.itemsDigest);
    expect(guessed).not.toContain(save.stateDigest);
  });

  test("rows part without ambiguity, whatever the texts hold: each record's bytes are its own", () => {
    fc.assert(
      fc.property(drafts, ({ items, state, ...rest }) => {
        const { save } = seal({ ...rest, items, state });
        expect(recordBytes(save.items)).toEqual(items.map((one) => Buffer.byteLength(one)));
        expect(recordBytes(save.state)).toEqual(state.map((one) => Buffer.byteLength(one)));
      }),
      { numRuns: 300 },
    );
  });
});

describe("JOURNAL-2: damage is seen", () => {
  const { save } = seal(draft());

  test.each(["items", "state", "mark", "prev", "check", "branch"] as const)(
    "in any character of %s",
    (field) => {
      for (const wrong of damaged(save[field] as string))
        expectCorrupt({ ...save, [field]: wrong });
    },
  );

  // Beside its section a stored digest is not read: the section itself is hashed. It is covered
  // from the moment it stands alone.
  test.each([
    ["items", "itemsDigest"],
    ["state", "stateDigest"],
  ] as const)("in any character of the digest that stands for %s", (section, field) => {
    for (const wrong of damaged(save[field] as string))
      expectCode("CORRUPT", () => open({ ...save, [section]: null, [field]: wrong }, {}));
    expectCode("CORRUPT", () => open({ ...save, [section]: null, [field]: null }, {}));
  });

  test.each(["seq", "at", "nItems", "nState", "nMark", "nMessages", "prior", "base"] as const)(
    "in the number %s",
    (field) => {
      fc.assert(
        fc.property(
          fc.oneof(fc.integer({ min: -3, max: 3 }), fc.integer()).filter((by) => by !== 0),
          (by) => {
            expectCorrupt({ ...save, [field]: save[field] + by });
          },
        ),
      );
    },
  );

  test("in numbers that were exchanged: no two fields run together", () => {
    const fields = [
      "seq",
      "at",
      "nItems",
      "nState",
      "nMark",
      "nMessages",
      "prior",
      "base",
    ] as const;
    const { save: distinct } = seal(draft({ items: draft().items.slice(0, 1), nMessages: 9 }));
    for (const one of fields) {
      for (const two of fields)
        if (distinct[one] !== distinct[two])
          expectCorrupt({ ...distinct, [one]: distinct[two], [two]: distinct[one] });
    }
  });

  test("in digits that moved from one number to the next", () => {
    const { save: counted } = seal(
      draft({
        state: Array.from({ length: 12 }, () => '{"unset":"b"}'),
        items: draft().items.slice(0, 1),
      }),
    );
    expect([counted.nItems, counted.nState]).toEqual([1, 12]);
    expectCode("CORRUPT", () => open({ ...counted, nItems: 11, nState: 2 }, {}));
    const { save: pointed } = seal(draft({ prior: 1, base: 23 }));
    expectCode("CORRUPT", () => open({ ...pointed, prior: 12, base: 3 }, {}));
  });

  test.each(["items", "state", "mark"] as const)("where %s is gone without a word", (field) => {
    expectCorrupt({ ...save, [field]: null });
  });

  test("where one section stands in another's place, or comes from another save", () => {
    const foreign = seal(draft()).save;
    expectCorrupt({ ...save, items: save.state, state: save.items });
    expectCorrupt({ ...save, items: foreign.items });
    expectCorrupt({ ...save, state: foreign.state });
    expectCorrupt({ ...save, mark: foreign.mark });
  });

  test("where the save was put on another line", () => {
    expectCorrupt({ ...save, branch: other as BranchId });
  });

  test("in any save, by any one character of any one text", () => {
    const fields = fc.constantFrom("items", "state", "mark", "prev", "check", "branch");
    fc.assert(
      fc.property(
        drafts,
        fields,
        fc.nat(),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 1 }),
        (given, field, where, wrong) => {
          const sound = seal(given).save;
          const whole = sound[field as "items"];
          if (whole === null) return;
          const characters = [...whole];
          const at = where % characters.length;
          fc.pre(characters[at] !== wrong);
          expectCorrupt({
            ...sound,
            [field]: [...characters.slice(0, at), wrong, ...characters.slice(at + 1)].join(""),
          });
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("JOURNAL-4: a section that was dropped leaves its digest", () => {
  const { save, digest: end } = seal(draft());
  const flags = [false, true];
  const combinations = flags.flatMap((items) =>
    flags.flatMap((state) => flags.map((mark) => ({ items, state, mark }))),
  );

  test.each(combinations)(
    "without items: $items, state: $state, mark: $mark the chain digest stays the same",
    (gone) => {
      const left = drop(save, { ...gone, prior: 2 });
      const need = { items: !gone.items, state: !gone.state, mark: true };
      const opened = open(left, need);
      expect(opened.digest).toBe(end);
      expect(opened.items).toEqual(gone.items ? [] : parsed(draft().items));
      expect(opened.state).toEqual(gone.state ? [] : parsed(draft().state));
      expect(left.mark).toBe(gone.mark ? null : save.mark);
      expect(left.check).toBe(save.check);
      expect(open({ ...left, items: null, state: null }, { mark: true }).digest).toBe(end);
      expect(isEmpty(left)).toBe(gone.items && gone.state && gone.mark);
      if (gone.items) expectCode("CORRUPT", () => open(left, { items: true }));
      if (gone.state) expectCode("CORRUPT", () => open(left, { state: true }));
    },
  );

  // Pruning verifies a save, drops a section and writes the rest back: what was sound must not be
  // damage afterwards.
  test.each([
    ["items", "itemsDigest"],
    ["state", "stateDigest"],
  ] as const)(
    "a damaged digest beside sound %s is seen before they go, or not handed on",
    (section, field) => {
      const bad = { ...save, [field]: digest("something else") };
      const left = drop(bad, {
        items: section === "items",
        state: section === "state",
        mark: false,
        prior: 2,
      });
      expect(verifies(bad)).toBe(verifies(left));
    },
  );

  test("a checkpoint that says nothing but numbers is damage where any of it changes, and can be dropped", () => {
    const { save: plain, digest: sealed } = seal(
      draft({ mark: '{"checkpoint":{"step":1,"messages":2,"bytes":3}}' }),
    );
    for (const wrong of damaged(plain.mark as string))
      expectCode("CORRUPT", () => open({ ...plain, mark: wrong }, {}));
    const left = drop(plain, { items: false, state: false, mark: true, prior: 2 });
    expect(left.mark).toBeNull();
    expect(open(left, { mark: true }).digest).toBe(sealed);
  });

  test("nothing of a text that was dropped is left anywhere in the save", () => {
    const secret = "the-secret-word";
    const { save: telling } = seal(
      draft({
        items: [record([["append", JSON.stringify(secret)]])],
        state: [
          record([
            ["set", JSON.stringify(secret)],
            ["value", "1"],
          ]),
        ],
        mark: markOf(secret),
      }),
    );
    expect(
      JSON.stringify(drop(telling, { items: true, state: true, mark: true, prior: 0 })),
    ).not.toContain(secret);
  });

  test("sections that go one after the other leave what they leave when they go at once", () => {
    const atOnce = drop(save, { items: true, state: true, mark: true, prior: 2 });
    const first = drop(save, { items: false, state: false, mark: true, prior: 2 });
    const second = drop(first, { items: true, state: false, mark: false, prior: 2 });
    expect(drop(second, { items: false, state: true, mark: false, prior: 2 })).toEqual(atOnce);
  });

  test("dropping nothing changes nothing, and drop never changes the save it is given", () => {
    const before = structuredClone(save);
    expect(drop(save, { items: false, state: false, mark: false, prior: 2 })).toEqual(save);
    drop(save, { items: true, state: true, mark: true, prior: 2 });
    expect(save).toEqual(before);
  });

  test("damage in what is left is still seen", () => {
    const left = drop(save, { items: true, state: false, mark: true, prior: 2 });
    for (const wrong of damaged(left.state as string))
      expectCode("CORRUPT", () => open({ ...left, state: wrong }, { state: true }));
    for (const field of [
      "seq",
      "at",
      "nItems",
      "nState",
      "nMark",
      "nMessages",
      "prior",
      "base",
    ] as const) {
      expectCode("CORRUPT", () => open({ ...left, [field]: left[field] + 1 }, {}));
    }
  });
});

describe("notes", () => {
  const { save } = seal(draft());
  const noted = drop(save, { items: false, state: false, mark: true, prior: 2 });

  test("priorOf: the save's own, or where the list of checkpoints goes on once its checkpoint was dropped", () => {
    expect(priorOf(save)).toBe(5);
    expect(priorOf(noted)).toBe(2);
    // Set when the checkpoint goes, and left alone when sections go after it.
    expect(priorOf(drop(noted, { items: true, state: false, mark: false, prior: 1 }))).toBe(2);
  });

  test("a checkpoint that was dropped is no gap", () => {
    expect(isGap(save)).toBe(false);
    expect(isGap(noted)).toBe(false);
  });

  test("JOURNAL-4: any damaged character of a note is CORRUPT for whoever reads it", () => {
    for (const wrong of damaged(noted.note as string)) {
      const bad = { ...noted, note: wrong };
      expectCode("CORRUPT", () => open(bad, {}));
      expectCode("CORRUPT", () => isGap(bad));
      expectCode("CORRUPT", () => priorOf(bad));
    }
  });

  test("JOURNAL-4: a note is about its own save: moved to another, or taken away, it is CORRUPT", () => {
    const elsewhere = drop(seal(draft({ after: 60 })).save, {
      items: false,
      state: false,
      mark: true,
      prior: 2,
    });
    expectCode("CORRUPT", () => open({ ...elsewhere, note: noted.note }, {}));
    expectCode("CORRUPT", () => open({ ...noted, note: null }, {}));
  });
});

describe("JOURNAL-5: a range that was dropped whole leaves one gap", () => {
  const { saves, digests } = chained(4);
  const [first, second, third, fourth] = saves as [Save, Save, Save, Save];
  const emptied = (save: Save, prior = 0) =>
    drop(save, { items: true, state: true, mark: true, prior });

  test("it stands for the records of all of them, between the digests before and after", () => {
    const left = gap([emptied(second, 1), emptied(third, second.seq)]);
    expect(isGap(left)).toBe(true);
    expect(isEmpty(left)).toBe(true);
    expect(firstSeq(left)).toBe(firstSeq(second));
    expect(left.seq).toBe(third.seq);
    expect(left.prev).toBe(digests[0]);
    expect(fourth.prev.startsWith(left.check)).toBe(true);
    expect(priorOf(left)).toBe(1);
  });

  test("neighbours on both sides still follow: numbers and digests go on across it", () => {
    const left = gap([emptied(second), emptied(third)]);
    expect([firstSeq(left), firstSeq(fourth)]).toEqual([first.seq + 1, left.seq + 1]);
    expect([left.prev, fourth.prev]).toEqual([open(first, {}).digest, digests[2]]);
  });

  test("gaps grow into one, the same as if all had gone at once", () => {
    const grown = gap([gap([emptied(first), emptied(second)]), emptied(third)]);
    expect(grown).toEqual(gap([emptied(first), emptied(second), emptied(third)]));
    expect(gap([grown])).toEqual(grown);
  });

  test("how much it stands for is damage where it differs from its note", () => {
    const left = gap([emptied(second), emptied(third)]);
    for (const field of ["nItems", "nState", "nMark", "nMessages"] as const)
      expectCode("CORRUPT", () => isGap({ ...left, [field]: left[field] + 1 }));
    expectCode("CORRUPT", () => isGap({ ...left, nState: 0 }));
  });

  test("what it held cannot be had any more", () => {
    const left = gap([emptied(second)]);
    for (const need of [{}, { items: true }, { state: true }, { mark: true }])
      expectCode("CORRUPT", () => open(left, need));
  });

  // Its time and pointers stand for nothing any more.
  test("its line, its end and the digests around it are covered by its note", () => {
    const left = gap([emptied(second), emptied(third)]);
    for (const field of ["prev", "check", "branch", "note"] as const) {
      for (const wrong of damaged(left[field] as string))
        expectCode("CORRUPT", () => isGap({ ...left, [field]: wrong }));
    }
    for (const by of [-1, 1]) expectCode("CORRUPT", () => isGap({ ...left, seq: left.seq + by }));
  });

  test("a gap without its note is CORRUPT, not an empty save", () => {
    expectCode("CORRUPT", () =>
      open({ ...gap([emptied(second), emptied(third)]), note: null }, {}),
    );
  });
});
