/**
 * D7: the same search on the same corpus finds the same on every store, in every script and for
 * hostile queries. Memory is the reference. Order and scores are each store's own.
 */
import fc from "fast-check";
import { beforeAll, describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.js";
import { stores } from "../../support/stores.js";
import { someScripts, someText } from "../../support/texts.js";

const texts = fc.sample(someText, { numRuns: 150 });
const queries = [
  ...fc
    .sample(
      fc.array(
        fc.tuple(fc.constantFrom("", "", "-", '"'), someScripts, fc.constantFrom("", "", "*", '"')),
        { minLength: 1, maxLength: 3 },
      ),
      { numRuns: 80 },
    )
    .map((parts) => parts.map(([before, word, after]) => before + word + after).join(" ")),
  ...[
    "c++",
    "a-b",
    '"',
    "NEAR(",
    "AND",
    "*",
    "body:x",
    "",
    " ",
    "日",
    "日本",
    "本語",
    "東京",
    "ไทย",
    "❤️",
    "\u0000",
    "'",
    "\\",
    "x' & !'y",
    "<->",
    ":*",
  ],
];

/** The same to the millisecond in every store. */
async function filled(
  address: string,
  change: (texts: readonly string[]) => readonly string[] = (all) => all,
): Promise<Holdfast> {
  let time = Date.parse("2026-01-01T00:00:00Z");
  const hold = await open(address, { clock: { now: () => time } });
  const all = change(texts);
  for (let n = 0; n < 5; n++) {
    const session = await hold.session(`s${n}`, { title: all[n] ?? "" });
    for (const content of all.slice(n * 30, n * 30 + 30)) {
      time += 1_000;
      session.append({ role: "user", content });
    }
    await session.checkpoint();
    await session.close();
  }
  return hold;
}

async function answers(hold: Holdfast): Promise<readonly unknown[]> {
  const found = [];
  for (const words of queries) {
    let { items, ...page } = await hold.sessions.search(words, { limit: 200 });
    // A slow machine does not take in all there is in the time that a search gives it.
    for (let tries = 0; page.behind !== undefined && tries < 50; tries++) {
      await hold.sessions.index();
      ({ items, ...page } = await hold.sessions.search(words, { limit: 200 }));
    }
    expect(items.map(({ score }) => score)).toEqual(
      items.map(({ score }) => score).toSorted((a, b) => b - a),
    );
    found.push({
      words,
      ...page,
      items: items
        .map((item) => ({
          sessionId: item.sessionId,
          seq: item.kind === "message" ? item.seq : 0,
          snippet: item.snippet,
          matches: item.matches,
        }))
        .toSorted((a, b) => a.sessionId.localeCompare(b.sessionId) || a.seq - b.seq),
    });
  }
  return found;
}

describe("search agrees", () => {
  let expected: readonly unknown[];
  beforeAll(async () => {
    const memory = await filled("memory:");
    expected = await answers(memory);
    await memory.close();
  });

  test.each(stores)("$name", async ({ address }) => {
    const hold = await filled(address());
    expect(await answers(hold)).toEqual(expected);
    await hold.close();
  });

  test("and not where one text is another", async () => {
    const hold = await filled("memory:", (all) =>
      all.map((text, i) => (i === 40 ? `${text} 日本 kelp` : text)),
    );
    expect(await answers(hold)).not.toEqual(expected);
    await hold.close();
  });
});
