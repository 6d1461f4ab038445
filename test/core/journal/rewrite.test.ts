/**
 * JOURNAL-4 to JOURNAL-6: sections that are rewritten, dropped and gone in gaps, in any order, and the chain they
 * leave.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { markText } from "../../../src/core/journal/checkpoint.js";
import { drop, gap } from "../../../src/core/journal/drop-sections.js";
import { open } from "../../../src/core/journal/open-save.js";
import { record, SALT_CHARS } from "../../../src/core/journal/record.js";
import { rewrite } from "../../../src/core/journal/rewrite-save.js";
import { isSame, type Save } from "../../../src/core/journal/save.js";
import { isGap, priorOf } from "../../../src/core/journal/save-note.js";
import { recordTexts } from "../../../src/core/journal/save-section.js";
import { seal } from "../../../src/core/journal/seal-save.js";
import { digest } from "../../../src/core/values/digest.js";
import { branchId } from "../../../src/core/values/ids.js";
import { expectCode } from "../values/thrown.js";

let drawn = 0;
const salt = (): string => digest(`salt ${drawn++}`).slice(0, SALT_CHARS);
const branch = branchId(Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
const append = (content: string) => record([["append", JSON.stringify({ role: "user", content })]]);
const set = (value: string) =>
  record([
    ["set", '"k"'],
    ["value", JSON.stringify(value)],
  ]);
const mark = (label: string) => markText({ step: 1, messages: 1, bytes: 1, label }, salt);
const ALL = { items: true, state: true, mark: true } as const;

const make = (words: string) =>
  seal({
    branch,
    after: 4,
    at: 1_000,
    prior: 3,
    base: 0,
    prev: digest("before"),
    items: [append(`${words} 1`), append(`${words} 2`)],
    nMessages: 2,
    state: [set(words)],
    mark: mark(words),
    salt,
  });

type Step = {
  readonly do: "rewrite" | "drop";
  readonly items: boolean;
  readonly state: boolean;
  readonly mark: boolean;
};

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    do: fc.constantFrom("rewrite" as const, "drop" as const),
    items: fc.boolean(),
    state: fc.boolean(),
    mark: fc.boolean(),
  }),
  { maxLength: 6 },
);

function take(save: Save, step: Step, n: number): Save {
  if (step.do === "drop")
    return drop(save, { items: step.items, state: step.state, mark: step.mark, prior: 2 });
  return rewrite(save, {
    ...(step.items && save.items !== null && { items: [append(`new ${n}`), append("x")] }),
    ...(step.state && save.state !== null && { state: [set(`new ${n}`)] }),
    ...(step.mark && save.mark !== null && { mark: mark(`new ${n}`) }),
    salt,
  });
}

test("JOURNAL-6: whatever is rewritten and dropped, what is left verifies, and the chain is the one that was sealed", () => {
  fc.assert(
    fc.property(steps, (taken) => {
      const { save: first, digest: sealed } = make("secret words");
      let save = first;
      for (const [n, step] of taken.entries()) {
        const next = take(save, step, n);
        // Whoever has read the one before does not take this for it.
        const changes = (["items", "state", "mark"] as const).some(
          (name) => next[name] !== save[name],
        );
        expect(isSame(save, next)).toBe(!changes);
        save = next;
        const opened = open(save, {
          items: save.items !== null,
          state: save.state !== null,
          mark: true,
        });
        expect(opened.digest).toBe(sealed);
        expect(priorOf(save)).toBe(save.mark === null ? 2 : 3);
        for (const name of ["items", "state", "mark"] as const) {
          const isNew = taken.slice(0, n + 1).some((one) => one.do === "rewrite" && one[name]);
          if (save[name] !== null && isNew) {
            expect(save[name]).not.toContain("secret words");
          }
        }
      }
      const whole = gap([drop(save, { items: true, state: true, mark: true, prior: 1 })]);
      expect(isGap(whole)).toBe(true);
      expect(JSON.stringify(whole)).not.toContain("secret");
    }),
  );
});

test("JOURNAL-6: nothing is left of what was there: not its text, not its salt, and not a digest that one could guess at", () => {
  const { save } = make("4111");
  const after = rewrite(save, {
    items: [append("…"), append("…")],
    state: [set("…")],
    mark: mark("…"),
    salt,
  });
  const saltOf = (text: string | null) => /"([\w-]{16})"[\]}]$/.exec(text ?? "")?.[1] as string;
  const all = JSON.stringify(after);
  for (const section of [save.items, save.state, save.mark])
    expect(all).not.toContain(saltOf(section));
  for (const text of ["4111", append("4111 1"), set("4111")])
    expect(all).not.toContain(digest(text));
  expect(recordTexts(after.items)).toEqual([append("…"), append("…")]);
});

test("JOURNAL-6: a changed bit in a section that was rewritten, in its note or its digest, is found", () => {
  const { save } = make("words");
  const after = rewrite(save, {
    items: [append("…"), append("…")],
    state: [set("…")],
    mark: mark("…"),
    salt,
  });
  open(after, ALL);
  for (const name of ["items", "state", "mark", "note"] as const) {
    const text = after[name] as string;
    for (let i = 0; i < text.length; i++) {
      const changed =
        text.slice(0, i) + String.fromCharCode(text.charCodeAt(i) ^ 1) + text.slice(i + 1);
      expectCode("CORRUPT", () => open({ ...after, [name]: changed }, ALL));
    }
    // What was there before does not come back under the note, nor what is there now without it.
    expectCode("CORRUPT", () => open({ ...after, [name]: save[name] }, ALL));
  }
  expectCode("CORRUPT", () => open({ ...save, items: after.items }, ALL));
});

test("JOURNAL-6: there are as many records as before, or nothing is rewritten", () => {
  const { save } = make("words");
  expect(() => rewrite(save, { items: [append("…")], salt })).toThrow(TypeError);
  expect(() => rewrite(save, { state: [], salt })).toThrow(TypeError);
});
