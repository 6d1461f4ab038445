/** `npm test` makes the same choices in every run: all of them come from one seed. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SEED } from "../support/random.mjs";

const root = new URL("..", import.meta.url).pathname;
const drawn = /Math\.random\(|randomInt\(|seed: *Date\.now/;

test("no test draws numbers of its own", () => {
  const all = readdirSync(root, { recursive: true, encoding: "utf8" });
  const files = all.filter(
    (file) => /\.m?ts$|\.mjs$/.test(file) && file !== "package/seeds.test.ts",
  );
  expect(files.length).toBeGreaterThan(150);
  expect(files.filter((file) => drawn.test(readFileSync(join(root, file), "utf8")))).toEqual([]);
  expect("sleep(Math.random() * 5)").toMatch(drawn);
});

test("property tests draw their cases from the seed", () => {
  expect(fc.readConfigureGlobal().seed).toBe(SEED);
  const some = () => fc.sample(fc.integer(), 5);
  expect(some()).toEqual(some());
});
