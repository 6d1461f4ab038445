/**
 * Each promise of docs/security.md names the test that holds it, and each test of this directory
 * holds a promise.
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const page = readFileSync(join(root, "docs/security.md"), "utf8");
const named = [...page.matchAll(/`(test\/[\w/-]+\.test\.ts)`/g)].map(([, path]) => path as string);

test("the tests that docs/security.md names are there", () => {
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

test("every test of security is named there", () => {
  const here = readdirSync(join(root, "test/security")).filter(
    (name) => name.endsWith(".test.ts") && name !== "promises.test.ts",
  );
  expect(here.filter((name) => !named.includes(`test/security/${name}`))).toEqual([]);
});

/** Of the lines between two headings, those that begin a promise, each with what belongs to it. */
const promises = page
  .slice(page.indexOf("## What is promised"), page.indexOf("## Limits"))
  .split(/\n(?=Where this ends|Limit:|### )/)
  .filter((part) => !/^(Where this ends|Limit:)/.test(part))
  .flatMap((part) => part.split(/\n(?=- )/).filter((one) => one.startsWith("- ")));

test("every promise names its test", () => {
  expect(promises.length).toBeGreaterThan(20);
  expect(promises.filter((promise) => !/test\/[\w/-]+\.test\.ts/.test(promise))).toEqual([]);
});
