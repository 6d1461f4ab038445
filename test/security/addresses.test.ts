/** B7: an address that was meant for another store does not make a file, and the error says what to write instead. */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open, restoreBackup } from "../../src/index.js";
import { run } from "../cli/command.js";
import { errorOf } from "../support/error-of.js";
import { scratch } from "../support/stores.js";

const PASSWORD = "hunter2xyz";
const SERVER = `postgres://admin:${PASSWORD}@db.invalid/app`;

const refused: readonly (readonly [address: string, hint: RegExp])[] = [
  [`"${SERVER}"`, /quote or a space/],
  [`'${SERVER}'`, /quote or a space/],
  [`“${SERVER}”`, /quote or a space/],
  [`${SERVER}"`, /quote or a space/],
  [` ${SERVER}`, /quote or a space/],
  [`${SERVER}\n`, /quote or a space/],
  ['"agent.db"', /quote or a space/],
  ["agent.db'", /quote or a space/],
  ["agent.db ", /quote or a space/],
  ["\tagent.db", /quote or a space/],
  ['"dir:./state"', /quote or a space/],
  ["dir: ./state", /quote or a space/],
  ['dir:"./state"', /quote or a space/],
  [":memory:", /"memory:"/],
  ["file:agent.db", /path/],
  ["file:///tmp/agent.db", /path/],
  ["file::memory:", /path/],
  ["sqlite://agent.db", /path/],
  [`mysql://admin:${PASSWORD}@db.invalid/app`, /"mysql:"/],
  [`postgress://admin:${PASSWORD}@db.invalid/app`, /"postgress:"/],
  [`store=${SERVER}`, /server/],
  [`./${SERVER}`, /server/],
  [`dir:${SERVER}`, /server/],
  [`//admin:${PASSWORD}@db.invalid/app`, /server/],
  [`a:${PASSWORD}@db.invalid/app`, /server/],
  [`host=db.invalid user=admin password=${PASSWORD}`, /server/],
];

describe("B7: addresses that are not what was meant", () => {
  const cwd = scratch();
  const before = process.cwd();
  beforeAll(() => process.chdir(cwd));
  afterAll(() => process.chdir(before));

  test.each(refused)("%j is refused, and nothing is made", async (address, hint) => {
    for (const call of [() => open(address), () => restoreBackup("b.db", address), () => open(address, { tenant: "acme" })]) {
      const error = (await errorOf(call)) as { code: string; message: string };
      expect(error.code).toMatch(/^(INVALID_OPTION|UNSUPPORTED)$/);
      expect(error.message).toMatch(hint);
      expect(error.message).not.toContain(PASSWORD);
    }
    expect(readdirSync(cwd)).toEqual([]);
  });

  test("the command line says the same, for --store and HOLDFAST_STORE", { timeout: 60_000 }, async () => {
    const place = scratch();
    for (const [address, hint] of [refused[0], refused[13], refused[20]] as typeof refused) {
      const runs = await Promise.all([
        run(["ls"], { cwd: place, env: { HOLDFAST_STORE: address } }),
        run(["doctor", "--store", address], { cwd: place }),
        run(["mcp"], { cwd: place, env: { HOLDFAST_STORE: address } }),
        run(["import", "ares", join(before, "test/migrate/fixtures/ares"), "--dry-run", "--store", address], { cwd: place }),
      ]);
      for (const { exit, stderr, stdout } of runs) {
        expect(exit).not.toBe(0);
        expect(stderr).toMatch(hint);
        expect(stderr + stdout).not.toContain(PASSWORD);
      }
    }
    expect(readdirSync(place)).toEqual([]);
  });

  test("names that only look odd are opened", async () => {
    const place = scratch();
    const names = ["a b.db", "it's.db", "ana@example.com.db", "50%.db", "#1.db", "what?.db", "a=b.db", "memory.db"];
    for (const address of [...names.map((name) => join(place, name)), `dir:${join(place, "a b@c")}`]) await (await open(address)).close();
    for (const name of [...names, "a b@c"]) expect(readdirSync(place)).toContain(name);
  });
});
