/**
 * The tests of `npm run faults -- --short`: every campaign with fixed seeds, and the tests of `npm
 * test` that have more runs to make, on every store.
 */
import { isFault, runDirectory, testsThat } from "./vitest.shared.js";

export default testsThat((file) => isFault(file) || file.text.includes("support/runs.js"), {
  HOLDFAST_RUNS: "all",
  HOLDFAST_STORES: process.env["HOLDFAST_STORES"] ?? "all",
  TMPDIR: runDirectory("disk"),
});
