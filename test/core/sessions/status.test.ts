import { describe, expect, test } from "vitest";
import {
  isStatus,
  nextStatus,
  type SessionStatus,
  type StatusEvent,
  statusTable,
} from "../../../src/core/sessions/status.js";
import { thrown } from "../values/thrown.js";

const events: readonly StatusEvent[] = [
  "work",
  "wait",
  "doubt",
  "settle",
  "complete",
  "fail",
  "halt",
  "cancel",
];

/** The table of the design, in full; "no" where the status does not allow the event. */
const table: Readonly<Record<SessionStatus, readonly (SessionStatus | "no")[]>> = {
  // work           wait        doubt       settle         complete     fail      halt      cancel
  "in-progress": [
    "in-progress",
    "waiting",
    "in-doubt",
    "in-progress",
    "completed",
    "failed",
    "halted",
    "cancelled",
  ],
  waiting: ["waiting", "waiting", "in-doubt", "in-progress", "no", "failed", "halted", "cancelled"],
  "in-doubt": ["in-doubt", "in-doubt", "in-doubt", "in-progress", "no", "no", "no", "in-doubt"],
  completed: ["in-progress", "no", "no", "completed", "completed", "no", "no", "completed"],
  failed: ["in-progress", "no", "no", "failed", "no", "failed", "no", "failed"],
  halted: ["in-progress", "no", "no", "halted", "no", "no", "halted", "halted"],
  cancelled: ["in-progress", "no", "no", "cancelled", "no", "no", "no", "cancelled"],
};

const cells = (Object.keys(table) as SessionStatus[]).flatMap((status) =>
  events.map((event, i) => ({ status, event, next: table[status][i] as SessionStatus | "no" })),
);

test("the table has these statuses and no others", () => {
  expect(Object.keys(statusTable).toSorted()).toEqual(Object.keys(table).toSorted());
  for (const status of Object.keys(statusTable) as SessionStatus[]) {
    expect(
      Object.keys(statusTable[status]).every((event) =>
        (events as readonly string[]).includes(event),
      ),
    ).toBe(true);
  }
});

describe("nextStatus", () => {
  test.each(cells.filter(({ next }) => next !== "no"))(
    "$status, $event: $next",
    ({ status, event, next }) => {
      expect(nextStatus(status, event)).toBe(next);
    },
  );

  test.each(cells.filter(({ next }) => next === "no"))(
    "$status, $event: BAD_STATUS",
    ({ status, event }) => {
      const { code, message, details } = thrown(() => nextStatus(status, event));
      expect(code).toBe("BAD_STATUS");
      expect(message).toContain(status);
      expect(message).toContain(event);
      expect(details.found).toBe(status);
    },
  );

  test("in-doubt outranks waiting, which outranks in-progress: a lower event never takes a higher status away", () => {
    const rank: readonly SessionStatus[] = ["in-progress", "waiting", "in-doubt"];
    const raising: readonly StatusEvent[] = ["work", "wait", "doubt"];
    for (const [was, status] of rank.entries()) {
      for (const [to, event] of raising.entries())
        expect(nextStatus(status, event)).toBe(rank[Math.max(was, to)]);
    }
  });
});

test("isStatus knows the seven, and nothing an object brings along", () => {
  for (const status of Object.keys(table)) expect(isStatus(status)).toBe(true);
  for (const no of [
    "",
    "done",
    "in progress",
    "constructor",
    "__proto__",
    "toString",
    null,
    undefined,
    1,
    ["waiting"],
  ]) {
    expect(isStatus(no)).toBe(false);
  }
});
