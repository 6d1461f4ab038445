/** Lines, however they are cut, and whose question one was that is too long. */
import { expect, test } from "vitest";
import { Lines } from "../../../src/server/mcp/lines.js";

test.each([1, 3, 100, 4_095, 4_096, 4_097, 5_000, 65_536, 1_000_000])(
  "in chunks of %i bytes",
  (size) => {
    const long = "y".repeat(40_000);
    const text = [
      `{"jsonrpc":"2.0","id":"first","method":"x","params":{"id":1,"a":"${long}"}}`,
      `{"params":{"id":2,"a":"${long}"},"id":77}`,
      `{"params":{"id":3,"a":"${long}","id":4}}`,
      "",
      "ok",
      "rest",
    ].join("\n");
    const bytes = Buffer.from(text);
    const lines = new Lines(20_000);
    const seen: unknown[] = [];
    for (let i = 0; i < bytes.length; i += size)
      for (const line of lines.take(bytes.subarray(i, i + size)))
        seen.push(Buffer.isBuffer(line) ? line.toString() : line.id);
    expect(seen).toEqual(["first", 77, undefined, "\n", "ok\n"]);
    expect(lines.rest()?.toString()).toBe("rest");
  },
);
