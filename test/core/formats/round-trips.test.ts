import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FORMATS, fromFormat, toFormat } from "../../../src/core/formats/transcript.js";
import type { MessageInput } from "../../../src/index.js";
import { messages } from "../../support/messages.js";

const runs = { numRuns: Number(process.env["HOLDFAST_RUNS"] ?? 250) };
const through = (value: unknown) => JSON.parse(JSON.stringify(value)) as never;

describe.each(FORMATS)("%s", (format) => {
  test("F1: ours, written, sent as JSON and read again, is what it was", () => {
    fc.assert(
      fc.property(messages, (ours) => {
        expect(fromFormat(through(toFormat(format, ours)))).toEqual(ours as MessageInput[]);
      }),
      runs,
    );
  });

  test("F2: what was written, and read without what stands aside, is written as it was", () => {
    fc.assert(
      fc.property(messages, (ours) => {
        const { aside: _aside, ...theirs } = toFormat(format, ours);
        const again = toFormat(format, fromFormat(through(theirs)));
        expect(again).toEqual(through(theirs));
      }),
      runs,
    );
  });
});
