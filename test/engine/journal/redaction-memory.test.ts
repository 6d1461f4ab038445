/** What was redacted is remembered by line: REDACTED-1 and REDACTED-3. */
import { expect, test } from "vitest";
import type { BranchId } from "../../../src/core/values/ids.js";
import {
  redactionsOf,
  remember,
  remembering,
} from "../../../src/engine/journal/redaction-memory.js";
import type { StoreContext } from "../../../src/engine/journal/store-context.js";
import { openStore } from "../../../src/open.js";

const branch = "0123456789abcdef" as BranchId;
const grounded = async () => ({ store: await openStore("memory:") }) as unknown as StoreContext;

test("REDACTED-3: what is exported while a text is removed lacks the id that is kept afterwards", async () => {
  const ctx = await grounded();
  expect(await redactionsOf(ctx, branch)).toEqual([]);
  const meanwhile = await remembering(ctx, new Map([[branch, 7]]), () => redactionsOf(ctx, branch));
  const after = await redactionsOf(ctx, branch);
  expect([meanwhile, after]).toMatchObject([[[expect.any(String), 7]], [[expect.any(String), 7]]]);
  expect(after[0]?.[0]).not.toBe(meanwhile[0]?.[0]);
  // Killed in between: the first id stays, and the redaction is made again.
  await expect(
    remembering(ctx, new Map([[branch, 3]]), async () => {
      throw new Error("killed");
    }),
  ).rejects.toThrow("killed");
  expect(await redactionsOf(ctx, branch)).toMatchObject([after[0], [expect.any(String), 3]]);
});

test("REDACTED-1: of very many, one stands for all, over the whole line", async () => {
  const ctx = await grounded();
  const id = (no: number) => `00000000-0000-4000-8000-${String(no).padStart(12, "0")}`;
  await remember(ctx, branch, () => Array.from({ length: 1_000 }, (_, no) => [id(no), no + 2]));
  expect(await redactionsOf(ctx, branch)).toHaveLength(1_000);
  await remember(ctx, branch, (known) => [...known, [id(1_000), 5]]);
  const [all, ...others] = await redactionsOf(ctx, branch);
  expect([all?.[1], others]).toEqual([1, []]);
  expect(all?.[0]).not.toContain("00000000-0000-4000-8000");
});
