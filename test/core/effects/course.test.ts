/** The course in bases: what is restored is what was there. */
import { expect, test } from "vitest";
import { Course, type CourseRecord } from "../../../src/core/effects/course.js";
import type { Body } from "../../../src/core/effects/effect.js";

const attempt = { no: 1, at: 1, wall: 1, forMs: 5 };
const waits = { for: "signal", name: "go" } as const;

function courseOf(...records: readonly (readonly [CourseRecord, Body?])[]): Course {
  const course = new Course();
  for (const [record, body] of records) course.apply(record, body, 1);
  return course;
}

function restored(course: Course): Course {
  const twin = new Course();
  twin.applyBase(JSON.parse(JSON.stringify(course.toBase())));
  return twin;
}

const intent = { is: "intent", name: "act", mode: "keyed", inputDigest: "s" } as const;

test("calls come back in their order, those with a name too: the first that waits for a signal is the one that is given it", () => {
  const course = courseOf(
    [{ effect: { ...intent, id: "l-1.1", key: "a", call: [1, 0], waits } }],
    [{ effect: { ...intent, id: "l-1.2", key: "b", call: [1, 1], named: "n", waits } }],
  );
  expect(restored(course).open).toEqual(course.open);
});

test("signals that nobody has had, and children, count among what a base must say", () => {
  const course = courseOf(
    [{ effect: { ...intent, id: "l-1.1", key: "a", call: [1, 0], named: "n", attempt } }],
    [{ child: "l-1.1/1" }],
    ...Array.from({ length: 100 }, () => [{ signal: "go" }, { value: "x".repeat(1_000) }] as const),
  );
  const text = JSON.stringify(course.toBase());
  expect(course.weight).toBeGreaterThan(text.length * 0.8);
  expect(restored(course).weight).toBe(course.weight);
  course.apply({ effect: { id: "l-1.1", is: "signalled", name: "go" } }, undefined, 1);
  course.leaveLine();
  expect(restored(course).weight).toBe(course.weight);
});

test("the keys of the last thousand turns are known, also behind a base", () => {
  const turn = (key: string) => ({
    turn: { id: key, key, inputDigest: "s", from: 1, steps: 0, tokens: 0 },
  });
  const course = courseOf(...Array.from({ length: 1_100 }, (_, i) => [turn(`m${i}`)] as const));
  for (const one of [course, course.copy(), restored(course)]) {
    expect([
      one.hadTurn("m1099"),
      one.hadTurn("m100"),
      one.hadTurn("m99"),
      one.hadTurn("other"),
    ]).toEqual([true, true, false, false]);
    expect(one.weight).toBe(course.weight);
  }
  expect(course.weight).toBeGreaterThan(JSON.stringify(course.toBase()).length * 0.9);
});
