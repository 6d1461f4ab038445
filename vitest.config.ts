/** The tests of `npm test`: fixed seeds, under five minutes on two cores. The campaigns are in vitest.faults.config.ts. */
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/seed.ts"],
    include: ["test/**/*.test.ts"],
    exclude: ["test/faults/**"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Tests start real processes and sync real disks: two at a time is what two cores bear.
    maxWorkers: Number(process.env["WORKERS"] ?? 2),
    pool: "forks",
    // Some tests tear journals on purpose, many times.
    execArgv: ["--disable-warning=HoldfastWarning"],
    // A worker loads the library once, and not for each file. A test that changes something for its whole process puts it back.
    isolate: false,
  },
});
