/**
 * Whether an owner of a lease is proven dead. Doubt is no proof: to take a lease from the living is
 * worse than to wait for the dead.
 */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { thisMachine } from "../../src/store/machine.js";

const { self, isDead, leave } = thisMachine();
const gone = spawnSync(process.execPath, ["-e", "0"]).pid;

describe("an owner", () => {
  test.each([
    ["that is this very process", self, false],
    ["in a process that has ended", { ...self, pid: gone }, true],
    ["whose pid is another process's by now", { ...self, started: "1" }, true],
    ["from another boot", { ...self, boot: "another" }, true],
    ["in another container", { ...self, space: "pid:[1]", pid: gone }, false],
    ["from a boot without a name, whose pid lives", { ...self, boot: "" }, false],
    ["from a boot without a name, whose process has ended", { ...self, boot: "", pid: gone }, true],
  ])("%s", (_, owner, dead) => {
    expect(isDead(owner, true)).toBe(dead);
  });

  test("from another boot, where the store is shared by machines, may be alive on another", () => {
    expect(isDead({ ...self, boot: "another" }, false)).toBe(false);
  });

  test("that has left is dead, though its process lives", () => {
    const other = thisMachine();
    expect(isDead(other.self, true)).toBe(false);
    other.leave();
    expect([isDead(other.self, true), isDead(self, true)]).toEqual([true, false]);
    leave();
    expect(isDead(self, true)).toBe(true);
  });
});
