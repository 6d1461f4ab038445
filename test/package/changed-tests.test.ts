/** What `vitest --changed` runs: the tests of a changed file, and not all that reach it. */
import { expect, test } from "vitest";
import { changedSince, comparedWith, testsOf } from "../../scripts/changed-tests.mjs";

const state = {
  file: "test/core/journal/session-state.test.ts",
  text: 'import { house } from "../../../scripts/house.mjs";\n',
};
const walk = {
  file: "test/engine/journal/walk.test.ts",
  text: 'import { StateFold } from "../../../src/core/journal/session-state.js";\n',
};
const find = {
  file: "test/features/search/find.test.ts",
  text: 'import { open } from "../../../src/index.js";\n',
};
const list = { file: "test/api/list.test.ts", text: "" };
const tests = [state, walk, find, list];

test.each([
  ["of its folder, and those that import it", "src/core/journal/session-state.ts", [state, walk]],
  ["of the nearest folder that has any", "src/features/search/deep/er/find.ts", [find]],
  ["of the door, for what stands at it", "src/open.ts", [list]],
  ["beside a test that changed", "test/features/search/find.test.ts", [find]],
  ["above a helper that changed", "test/features/search/corpus/draw.ts", [find]],
  ["that import a script", "scripts/house.mjs", [state]],
  ["all, for what all of them use", "test/support/seed.ts", tests],
  ["all, for their settings", "vitest.shared.ts", tests],
  ["none, for a page", "docs/cli.md", []],
])("the tests %s", (_, changed, expected) => {
  expect(testsOf([changed], tests)).toEqual(expected.map(({ file }) => file));
});

test.each([
  [["run"], undefined],
  [["run", "--changed"], "HEAD"],
  [["run", "--changed", "--bail=1"], "HEAD"],
  [["run", "--changed", "HEAD~2"], "HEAD~2"],
  [["run", "--changed=main", "test/core"], "main"],
])("%j compares with %s", (words, commit) => {
  expect(comparedWith(words)).toBe(commit);
});

test("what git does not know as a commit is left to Vitest to refuse", () => {
  expect(changedSince("no-such-commit")).toBeUndefined();
});
