/** In-flight work in bases: what is restored is what was there. */
import { expect, test } from "vitest";
import type { Body } from "../../../src/core/effects/effect.js";
import { InFlight, type InFlightRecord } from "../../../src/core/effects/in-flight.js";

const attempt = { no: 1, at: 1, wall: 1, forMs: 5 };
const waits = { for: "signal", name: "go" } as const;

function inFlightOf(...records: readonly (readonly [InFlightRecord, Body?])[]): InFlight {
  const inFlight = new InFlight();
  for (const [record, body] of records) inFlight.apply(record, body, 1);
  return inFlight;
}

function restored(inFlight: InFlight): InFlight {
  const twin = new InFlight();
  twin.applyBase(JSON.parse(JSON.stringify(inFlight.toBase())));
  return twin;
}

const intent = { is: "intent", name: "act", mode: "keyed", inputDigest: "s" } as const;

test("calls come back in their order, those with a name too: the first that waits for a signal is the one that is given it", () => {
  const inFlight = inFlightOf(
    [{ effect: { ...intent, id: "l-1.1", key: "a", call: [1, 0], waits } }],
    [{ effect: { ...intent, id: "l-1.2", key: "b", call: [1, 1], named: "n", waits } }],
  );
  expect(restored(inFlight).open).toEqual(inFlight.open);
});

test("signals that nobody has had, and children, count among what a base must say", () => {
  const inFlight = inFlightOf(
    [{ effect: { ...intent, id: "l-1.1", key: "a", call: [1, 0], named: "n", attempt } }],
    [{ child: "l-1.1/1" }],
    ...Array.from({ length: 100 }, () => [{ signal: "go" }, { value: "x".repeat(1_000) }] as const),
  );
  const text = JSON.stringify(inFlight.toBase());
  expect(inFlight.weight).toBeGreaterThan(text.length * 0.8);
  expect(restored(inFlight).weight).toBe(inFlight.weight);
  inFlight.apply({ effect: { id: "l-1.1", is: "signalled", name: "go" } }, undefined, 1);
  inFlight.leaveBranch();
  expect(restored(inFlight).weight).toBe(inFlight.weight);
});

test("the keys of the last thousand turns are known, also behind a base", () => {
  const turn = (key: string) => ({
    turn: { id: key, key, inputDigest: "s", from: 1, steps: 0, tokens: 0 },
  });
  const inFlight = inFlightOf(...Array.from({ length: 1_100 }, (_, i) => [turn(`m${i}`)] as const));
  for (const one of [inFlight, inFlight.copy(), restored(inFlight)]) {
    expect([
      one.hadTurn("m1099"),
      one.hadTurn("m100"),
      one.hadTurn("m99"),
      one.hadTurn("other"),
    ]).toEqual([true, true, false, false]);
    expect(one.weight).toBe(inFlight.weight);
  }
  expect(inFlight.weight).toBeGreaterThan(JSON.stringify(inFlight.toBase()).length * 0.9);
});
