/**
 * No password of an address is in an error, in what the command line prints, or in what a store
 * says of itself.
 */
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { shownAddress } from "../../src/core/values/address.js";
import { open, restoreBackup } from "../../src/index.js";
import { run } from "../cli/command.js";
import { errorOf } from "../support/error-of.js";
import { postgresUrl } from "../support/shared-postgres.js";
import { scratch } from "../support/stores.js";

const { host } = new URL(postgresUrl());
const DATABASE = `${host}/holdfast`;

/** Addresses that people write by mistake, and the parts of the password that must not be seen. */
const odd: readonly (readonly [address: string, ...secrets: string[]])[] = [
  ["postgres://admin:hunt#er2xyz@db.invalid/app", "er2xyz", "hunt#"],
  ["postgres://admin:hunt/er2xyz@db.invalid/app", "er2xyz", "hunt/"],
  ["postgres://admin:hunt?er2xyz@db.invalid/app", "er2xyz", "hunt?"],
  // A password that begins with digits would be taken for a port, and its end for the name of a
  // database on this machine.
  [`postgres://127.0.0.1:${host.split(":")[1]}/er2xyz@db.invalid/app?user=holdfast`, "er2xyz"],
  ["postgres://127.0.0.1:1?er2xyz@db.invalid/app", "er2xyz"],
  ["postgres://127.0.0.1:1#er2xyz@db.invalid/app", "er2xyz"],
  ["postgres://admin:hunter2xyz@db.invalid:99999/app", "hunter2xyz"],
  ["postgres://admin:hunter2xyz@db.invalid:port/app", "hunter2xyz"],
  ["postgres://admin:hunter2xyz@/app", "hunter2xyz"],
  ["postgres://admin:hunter2xyz@db invalid/app", "hunter2xyz"],
  ["postgres:admin:hunter2xyz@db.invalid/app", "hunter2xyz"],
  [`postgres:/admin:hunter2xyz@${DATABASE}`, "hunter2xyz"],
  ["postgres://admin:hunter2xyz%E0@db.invalid/app", "hunter2xyz"],
  ["postgres://admin:hunter2xyz%@db.invalid/app", "hunter2xyz"],
  ["postgres://admin:hunter\n2xyz@db.invalid/app", "2xyz", "hunter"],
  ["postgres://admin:hunter2xyz@h1.invalid:1,h2.invalid:2/app", "hunter2xyz"],
  ["postgres://db.invalid:1/app?user=admin&password=hunt#er2xyz", "er2xyz", "hunt#"],
  ["postgres://db.invalid:1/app?user=admin&password=hunt@er2xyz", "er2xyz", "hunt@"],
  // These can be read, and fail later.
  ["postgres://admin:hunter2xyz@db.invalid/app", "hunter2xyz"],
  ["postgres://admin:hunt@er2xyz@db.invalid/app", "er2xyz", "hunt@"],
  ["postgres://admin:hunt%23er2xyz@127.0.0.1:1/app", "er2xyz", "hunt%23", "hunt#"],
  ["postgres://127.0.0.1:1/app?user=admin&password=hunt%2Fer2xyz", "er2xyz", "hunt%2F", "hunt/"],
  [`postgres://guarded:hunter2xyz@${DATABASE}`, "hunter2xyz"],
  [`postgres://no_such_role:hunter2xyz@${DATABASE}`, "hunter2xyz"],
  [`postgres://holdfast:hunter2xyz@${host}/no_such_database`, "hunter2xyz"],
  [`postgres://${DATABASE}?user=guarded&password=hunter2xyz`, "hunter2xyz"],
  [`postgres://holdfast:hunter2xyz@${DATABASE}?schema=pg_own`, "hunter2xyz"],
  [`postgres://holdfast:hunter2xyz@${DATABASE}?sslmode=verify-full`, "hunter2xyz"],
  [`postgres://holdfast:hunter2xyz@${DATABASE}?sslcert=/nowhere/cert.pem`, "hunter2xyz"],
  // Not for Postgres, or not seen to be.
  ['"postgres://admin:hunter2xyz@db.invalid/app"', "hunter2xyz"],
  ["mysql://admin:hunter2xyz@db.invalid/app", "hunter2xyz"],
  ["dir:postgres://admin:hunter2xyz@db.invalid/app", "hunter2xyz"],
  ["//admin:hunter2xyz@db.invalid/app", "hunter2xyz"],
  ["a:hunter2xyz@db.invalid/app", "hunter2xyz"],
  ["host=db.invalid user=admin password=hunter2xyz", "hunter2xyz"],
];

/** All that can be seen of a value, by any of the ways in which programs log one. */
function seen(value: unknown): string {
  const said = inspect(value, {
    depth: Number.POSITIVE_INFINITY,
    showHidden: true,
    maxStringLength: null,
  });
  const chain: unknown[] = [];
  for (let at = value; at instanceof Error && !chain.includes(at); at = at.cause) {
    const own = Object.fromEntries(
      Object.getOwnPropertyNames(at).map((name) => [name, String((at as never)[name])]),
    );
    chain.push(JSON.stringify(at), own, String(at), at.stack);
  }
  return `${said}\n${JSON.stringify(chain)}`;
}

describe("passwords in addresses", () => {
  // What is wrongly taken for a path shall not stay in the repository.
  const before = process.cwd();
  beforeAll(() => process.chdir(scratch()));
  afterAll(() => process.chdir(before));

  test.each(odd)("open(%j) fails, and its error has no password", async (address, ...secrets) => {
    const error = await errorOf(() => open(address, { busyMs: 200 }));
    expect(error).toMatchObject({ name: "HoldfastError" });
    for (const secret of secrets) expect(seen(error)).not.toContain(secret);
  });

  test("the look at errors finds what is hidden deep in one", () => {
    const deep = new Error("a", {
      cause: new Error("b", { cause: Object.assign(new Error("c"), { input: "hunter2xyz" }) }),
    });
    const hidden = Object.defineProperty(new Error("a"), "input", {
      value: "hunter2xyz",
      enumerable: false,
    });
    for (const error of [deep, hidden]) expect(seen(error)).toContain("hunter2xyz");
  });

  test("a server's address is no path for a backup, and is not said again", async () => {
    const hold = await open(`${scratch()}/a.db`);
    for (const [address, ...secrets] of odd.filter(([text]) => text.includes("://"))) {
      const errors = [
        await errorOf(() => hold.backup(address)),
        await errorOf(() => restoreBackup(address, "to.db")),
        await errorOf(() => restoreBackup("from.db", address)),
      ];
      for (const error of errors) {
        expect((error as { code: string }).code).toMatch(/^(INVALID_OPTION|UNSUPPORTED)$/);
        for (const secret of secrets) expect(seen(error)).not.toContain(secret);
      }
    }
    await hold.close();
  });

  test("an open store says nothing of its password", async () => {
    const hold = await open(
      `postgres://holdfast:hunter2xyz@${DATABASE}?schema=b6&password=hunter2xyz`,
    );
    expect(seen(hold) + JSON.stringify(await hold.info()) + seen(await hold.info())).not.toContain(
      "hunter2xyz",
    );
    await hold.close();
  });

  test("what is shown of an address opens the same store, without the password", () => {
    const cases: readonly (readonly [string, string | undefined])[] = [
      ["postgres://ana:hunter2@db/app", "postgres://ana@db/app"],
      [
        "postgres://ana:hun@ter2@db:5/app?schema=my%20own",
        "postgres://ana@db:5/app?schema=my%20own",
      ],
      [
        "postgres://db/app?user=ana&password=hunter2&sslmode=require",
        "postgres://db/app?user=ana&sslmode=require",
      ],
      ["postgres://db/app?p%61ssword=hunter2&other=hunter2", "postgres://db/app"],
      ["postgres://:hunter2@db", "postgres://db"],
      ["postgres://ana:hun#ter2@db/app", undefined],
      ["agent.db", "agent.db"],
      ["dir:./state", "dir:./state"],
    ];
    for (const [address, shown] of cases) expect(shownAddress(address)).toBe(shown);
  });

  const cwd = scratch();
  const printed = async (words: readonly string[], env: NodeJS.ProcessEnv) => {
    const { stdout, stderr, exit } = await run(words, {
      cwd,
      env: { HOLDFAST_DEBUG: "1", ...env },
    });
    return { text: stdout + stderr, exit };
  };
  const some = [0, 3, 7, 19, 21, 22, 29, 30, 34].map(
    (i) => odd[i] as readonly [string, ...string[]],
  );

  test.each(some)(
    "the command line does not print the password of %j",
    { timeout: 60_000 },
    async (address, ...secrets) => {
      const runs = await Promise.all([
        printed(["doctor"], { HOLDFAST_STORE: address }),
        printed(["show", "x", "--json", "--store", address], {}),
        printed(["mcp"], { HOLDFAST_STORE: address }),
      ]);
      for (const { text, exit } of runs) {
        expect(exit).not.toBe(0);
        expect(text).toMatch(/holdfast|"error"/);
        for (const secret of secrets) expect(text).not.toContain(secret);
      }
    },
  );

  const misplaced: readonly (readonly string[])[] = [
    ["ADDRESS"],
    ["help", "ADDRESS"],
    ["ls", "ADDRESS"],
    ["ls", "--limit", "ADDRESS", "--json"],
    ["ls", "--stroe=ADDRESS"],
    ["show", "ADDRESS", "--store", "a.db", "--json"],
    ["restore-backup", "ADDRESS", "--force", "--store", "b.db"],
    ["import", "ares", "ADDRESS", "--store", "b.db"],
  ];
  test("an address that stands where another word was expected is repeated without its password", {
    timeout: 60_000,
  }, async () => {
    await (await open(`${cwd}/a.db`)).close();
    const long = "x".repeat(60);
    for (const address of [
      "postgres://admin:hun#@ter2xyz@db/app",
      `postgres://${long}:hunter2xyz@db/app`,
      "db/app?password=hunter2xyz",
    ]) {
      const runs = await Promise.all(
        misplaced.map((words) =>
          printed(
            words.map((word) => word.replace("ADDRESS", address)),
            {},
          ),
        ),
      );
      for (const { text, exit } of runs) {
        expect(exit).not.toBe(0);
        for (const secret of ["ter2xyz", "hun#", "hunter"]) expect(text).not.toContain(secret);
      }
    }
    // The control: the word itself is repeated, and an address without a password is whole.
    const { text } = await printed(["ls", "postgres://admin@db:5432/app"], {});
    expect(text).toContain('"postgres://admin@db:5432/app"');
  });

  test("commands that are proposed name the store without its password", {
    timeout: 30_000,
  }, async () => {
    const address = `postgres://holdfast:hun@ter2xyz@${DATABASE}?schema=b6&password=hunter2xyz`;
    const hold = await open(address);
    await hold.sessions.append("one", [{ role: "user", content: "hello" }], { create: true });
    await hold.close();
    const { text, exit } = await printed(["ls", "--store", address], {});
    expect([exit, text]).toEqual([
      0,
      expect.stringContaining(`postgres://holdfast@${DATABASE}?schema=b6`),
    ]);
    expect(text).not.toContain("ter2xyz");
  });
});
