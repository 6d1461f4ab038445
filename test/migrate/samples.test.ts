/** The samples of the four systems, as they are. */
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { guessKind, KINDS, migrate } from "../../src/migrate/index.js";
import { fixtures, place, using, view } from "./support.js";

describe("the samples", () => {
  test.each(KINDS)("%s: is imported, and again changes nothing", async (kind) => {
    const store = join(place(), "s.db");
    const report = await migrate(kind, join(fixtures, kind), store);
    console.log(JSON.stringify(report, undefined, 1));
    const first = await view(store);
    console.log(JSON.stringify(first, undefined, 1));
    const again = await migrate(kind, join(fixtures, kind), store);
    console.log(JSON.stringify(again, undefined, 1));
    expect(await view(store)).toEqual(first);
  });
});
