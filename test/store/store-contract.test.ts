import { describe, expect, test } from "vitest";
import { openStore } from "../../src/open.js";
import { type StoreHarness, storeContract } from "../../src/testing/index.js";
import { brokenStores } from "../support/failures/broken-stores.js";
import { everyStore } from "../support/stores.js";

describe.each(everyStore)("the store contract on $name", ({ address, traits }) => {
  const make = (): StoreHarness => {
    const place = address();
    return { traits, open: (tenant) => openStore(place, tenant === undefined ? {} : { tenant }) };
  };
  test.each(storeContract)("$name", ({ run }) => run(make));
});

/** A contract that a broken store passes is no contract. */
describe.each(brokenStores)("the store contract rejects a store that $does", ({ make }) => {
  test("at least one case fails", async () => {
    const failures: string[] = [];
    for (const { name, run } of storeContract) await run(make).catch(() => failures.push(name));
    expect(failures).not.toEqual([]);
    expect(failures.length, "and it is not broken altogether").toBeLessThan(storeContract.length);
  });
});
