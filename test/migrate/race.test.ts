/**
 * A directory that is a link only in the moments in which somebody looks: nothing outside is read.
 */
import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { migrate } from "../../src/migrate/index.js";
import { ares, place, put, viewAt } from "./support.js";

/** Called around each look at a path. */
let around: ((call: string, path: string) => (() => void) | undefined) | undefined;
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const watched = (call: "lstat" | "open" | "readdir") => async (path: string, more: never) => {
    const end = around?.(call, String(path));
    try {
      return await (real[call] as (path: string, more: unknown) => Promise<unknown>)(path, more);
    } finally {
      end?.();
    }
  };
  return { ...real, lstat: watched("lstat"), open: watched("open"), readdir: watched("readdir") };
});
afterEach(() => {
  around = undefined;
});

const CANARY = "the canary that must not be stored";

test.each([[["lstat", "open"]], [["readdir", "lstat", "open"]], [["readdir"]], [["open"]]])(
  "in the moments of %j",
  async (calls) => {
    const secret = ares({ session: "b", step: 0, messages: [{ role: "user", content: CANARY }] });
    const outside = put(place(), { "b_0.json": secret, "other_0.json": secret });
    const path = put(place(), {
      "a_0.json": ares({ step: 0 }),
      "in/b_0.json": ares({ session: "b", step: 0 }),
    });
    const folder = join(path, "in");
    const aside = join(place(), "aside");
    mkdirSync(aside);
    let isSwapped = false;
    let swaps = 0;
    around = (call, seen) => {
      const isMeant =
        calls.includes(call) &&
        !isSwapped &&
        (call === "readdir" ? seen === folder : seen.startsWith(`${folder}/`));
      if (!isMeant) return undefined;
      renameSync(folder, join(aside, "in"));
      symlinkSync(outside, folder);
      isSwapped = true;
      swaps += 1;
      return () => {
        renameSync(folder, join(aside, `link-${swaps}`));
        renameSync(join(aside, "in"), folder);
        isSwapped = false;
      };
    };
    const store = join(place(), "s.db");
    const report = await migrate("ares", path, store);
    around = undefined;
    expect(swaps).toBeGreaterThan(0);
    expect(report.sessions).toContainEqual({ id: "a", outcome: "imported", checkpoints: 1 });
    expect(JSON.stringify(await viewAt(store))).not.toContain(CANARY);
  },
);
