import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/seed.ts"],
    include: ["test/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Tests start real processes and sync real disks: two at a time is what two cores bear.
    maxWorkers: 2,
    pool: "forks",
    // Some tests tear journals on purpose, many times.
    execArgv: ["--disable-warning=HoldfastWarning"],
  },
});
