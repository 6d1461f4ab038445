/**
 * An address that was meant for another store does not make a file, and the error says what to
 * write instead.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { isOfServer, parseAddress } from "../../src/core/values/address.js";
import { open, restoreBackup } from "../../src/index.js";
import { run, runApart } from "../cli/command.js";
import { cpuMs } from "../support/cpu.js";
import { errorOf } from "../support/error-of.js";
import { isThorough } from "../support/runs.js";
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

/** More ways to write the address of a server, or to miss one by a character. */
const servers: readonly string[] = [
  // A password with a slash, a user with an underscore or of one letter, a path in front.
  `my_user:${PASSWORD}/ss@host:5432/db`,
  `u:${PASSWORD}/x@host/db`,
  `u:/${PASSWORD}@host/db`,
  `my_user:${PASSWORD}\\ss@host/db`,
  `./u:${PASSWORD}@host/db`,
  `../../u:${PASSWORD}/x@host/db`,
  `/u:${PASSWORD}@host/db`,
  `dir:my_user:${PASSWORD}/ss@host/db`,
  `dir:./my_user:${PASSWORD}/ss@host/db`,
  `~:${PASSWORD}/a@h`,
  `u:${PASSWORD}@[::1]/d`,
  `u：${PASSWORD}@host/db`,
  // Settings: libpq, Npgsql, JDBC, a query, a file of variables, JSON.
  `Host=localhost;Username=u;Password=${PASSWORD};Database=d`,
  `dir:Host=h;Password=${PASSWORD}`,
  `Server=localhost,Password=${PASSWORD}`,
  `127.0.0.1:5432/db?user=u&password=${PASSWORD}`,
  `//host/db?user=u&password=${PASSWORD}`,
  `host/db?a=b&PWD=${PASSWORD}`,
  `host=h,password=${PASSWORD}`,
  `host=h "password"='${PASSWORD}' x`,
  `host=h user=u pwd=${PASSWORD}`,
  `host=h pgpassword=${PASSWORD}`,
  `host=h sslpassword = ${PASSWORD}`,
  `PGPASSWORD=${PASSWORD} host=h`,
  `DB_PASS=${PASSWORD} host=h`,
  `psql --password=${PASSWORD}`,
  `{"host":"h","password":"${PASSWORD}"}`,
  `password＝${PASSWORD} host＝h`,
  // A scheme that lost its colon, or has another one, or was encoded.
  `postgres//u:${PASSWORD}@h/db`,
  `postgresql//u:${PASSWORD}/x@h/db`,
  `postgres/u:${PASSWORD}/x@h/db`,
  `postgres//h/db`,
  `postgres；//u@h/db`,
  `postgres：//u:${PASSWORD}@h/db`,
  `postgres∶//u:${PASSWORD}@h/db`,
  `postgres：／／u:${PASSWORD}@h/db`,
  `postgres%3A%2F%2Fu%3A${PASSWORD}%40host`,
  `postgres%253A%252F%252Fu%253A${PASSWORD}%2540host`,
  `mysql%3a%2f%2fu%3a${PASSWORD}%40host`,
  `host%2Fdb%3Fpassword%3D${PASSWORD}`,
  // No password at all: a server all the same.
  "host=/var/run/postgresql dbname=app",
  "Server=h;Database=d;User Id=u",
  "127.0.0.1:5432/db",
  "my_db:5432",
  "[::1]:5432/db",
  `127.0.0.1:5432:db:u:${PASSWORD}`,
];

describe("addresses that are not what was meant", () => {
  const cwd = scratch();
  const before = process.cwd();
  beforeAll(() => process.chdir(cwd));
  afterAll(() => process.chdir(before));

  test.each([...refused, ...servers.map((address) => [address, /server/] as const)])(
    "%j is refused, and nothing is made",
    async (address, hint) => {
      // First without a disk: some of these would be files outside of the scratch directory.
      expect(() => parseAddress(address)).toThrow(hint);
      for (const call of [
        () => open(address),
        () => restoreBackup("b.db", address),
        () => open(address, { tenant: "acme" }),
      ]) {
        const error = (await errorOf(call)) as { code: string; message: string };
        expect(error.code).toMatch(/^(INVALID_OPTION|UNSUPPORTED)$/);
        expect(error.message).toMatch(hint);
        expect(error.message).not.toContain(PASSWORD);
      }
      expect(readdirSync(cwd)).toEqual([]);
    },
  );

  test("the command line says the same, for --store and HOLDFAST_STORE", {
    timeout: 60_000,
  }, async () => {
    const place = scratch();
    for (const [address, hint] of [refused[0], refused[13], refused[20]] as typeof refused) {
      const runs = await Promise.all([
        run(["ls"], { cwd: place, env: { HOLDFAST_STORE: address } }),
        run(["doctor", "--store", address], { cwd: place }),
        runApart(["mcp"], { cwd: place, env: { HOLDFAST_STORE: address } }),
        run(
          [
            "import",
            "ares",
            join(before, "test/migrate/fixtures/ares"),
            "--dry-run",
            "--store",
            address,
          ],
          { cwd: place },
        ),
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
    const names = [
      "a b.db",
      "it's.db",
      "ana@example.com.db",
      "50%.db",
      "#1.db",
      "what?.db",
      "a=b.db",
      "memory.db",
    ];
    for (const address of [
      ...names.map((name) => join(place, name)),
      `dir:${join(place, "a b@c")}`,
    ])
      await (await open(address)).close();
    for (const name of [...names, "a b@c"]) expect(readdirSync(place)).toContain(name);
  });

  test("odd names stay paths, from where they are written or in full", () => {
    const names = [
      ...[
        "data@2x.db",
        "a=b.db",
        "key=value/agent.db",
        "host=web1/agent.db",
        "year=2026,host=web1.db",
        "passwords.db",
        "password/agent.db",
      ],
      ...[
        "bypass=1.db",
        "compass=n/agent.db",
        "12:30.db",
        "12:30/agent.db",
        "2026-11-18T10:30:00.db",
        "postgres/agent.db",
        "postgres.db",
      ],
      ...[
        "postgres/ana@example.com.db",
        "stores/slack:ana@example.com.db",
        "会議：東京.db",
        "a//b.db",
        "./my_run:1234/agent.db",
      ],
      ...[
        "https%3A%2F%2Fexample.com.db",
        "slack%3Aana%40example.com.db",
        "https%3A%2F%2Fexample.com%2F~ana%40work.db",
        "~/agent.db",
      ],
    ];
    const full = [
      "10:30/ana@example.com.db",
      "user:ana@example.com.db",
      "my_user:1/2@3/db",
      "my_db:5432",
    ].map((name) => `/srv/${name}`);
    for (const path of [...names, ...full]) {
      expect(parseAddress(path)).toEqual({ kind: "sqlite", path });
      expect(parseAddress(`dir:${path}`)).toEqual({ kind: "dir", path });
    }
  });

  test("a drive of Windows is no user, where there are drives", () => {
    const paths = [
      "C:\\x\\agent.db",
      "C:/Users/ana@example.com/agent.db",
      "c:\\Users\\ana@work\\agent.db",
      "\\\\?\\C:\\ana@work\\agent.db",
    ];
    for (const path of paths) expect(isOfServer(path, true)).toBe(false);
    expect(isOfServer(paths[1] as string, false)).toBe(true);
    for (const path of ["C:\\u:x@host\\db", "u:x@host/db", "C:/x?password=x"])
      expect(isOfServer(path, true)).toBe(true);
  });

  test("a long address is looked at in linear time", () => {
    const parts = [
      ":",
      "@",
      "://x:",
      "//",
      "./",
      ".",
      " ",
      "password",
      "host=",
      "host= ",
      "host=h;",
      "postgres/",
      "%25",
      "x:1234",
      "-",
      '"',
      "=",
      "@:",
    ];
    for (const a of parts)
      for (const b of ["", "/", "%3A%2F"]) {
        const text = `x${(a + b).repeat(isThorough ? 100_000 : 40_000)}`;
        // A quadratic pattern takes 5 s and more for the longer one, and 0.8 s for the shorter.
        expect(cpuMs(() => isOfServer(text, false))).toBeLessThan(isThorough ? 2_000 : 400);
      }
  });
});

/**
 * A process that opens each address, waits until all timers of the driver are over, and prints the
 * codes of its errors.
 */
async function codesOf(
  addresses: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ exit: number; codes: unknown }> {
  const program = `
    import { open } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
    const codes = [];
    for (const address of ${JSON.stringify(addresses)}) await open(address, { busyMs: 0 }).catch((error) => codes.push(error.code));
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    console.log(JSON.stringify(codes));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
    env: { ...process.env, ...env },
  });
  let printed = "";
  child.stdout.on("data", (data) => {
    printed += data;
  });
  const [exit] = await once(child, "close");
  return { exit, codes: JSON.parse(printed || "null") };
}

describe("a connection that cannot be made", () => {
  const ports = ["abc", "99999", "-1", "0", "5432abc", "1&port=abc", "65536", "%20", "1.5"];

  test.each(ports)("the port %j is refused in an address, and not said again", async (port) => {
    const error = await errorOf(() => open(`postgres://u@127.0.0.1/db?port=${port}`));
    expect(error).toMatchObject({
      code: "INVALID_OPTION",
      message: expect.stringMatching(/port.* 1 to 65535/),
    });
    expect((error as Error).message).not.toContain("abc");
  });

  test("a wrong port does not end the process, wherever it was named", {
    timeout: 30_000,
  }, async () => {
    const good = "postgres://u@127.0.0.1/db";
    const [inAddress, ...fromOutside] = await Promise.all([
      codesOf(ports.map((port) => `${good}?port=${port}`)),
      codesOf([good], { PGPORT: "abc" }),
      codesOf([good], { PGPORT: "99999" }),
    ]);
    expect(inAddress).toEqual({ exit: 0, codes: ports.map(() => "INVALID_OPTION") });
    for (const each of fromOutside) expect(each).toEqual({ exit: 0, codes: ["INVALID_OPTION"] });
  });

  test("a server that refuses and does not hang up is left", async () => {
    const sockets: Socket[] = [];
    const server = createServer((socket) => {
      sockets.push(socket);
      socket.on("error", () => {});
      const said = "SFATAL\0C28P01\0Mno\0\0";
      const head = Buffer.from("E0000");
      head.writeUInt32BE(4 + said.length, 1);
      socket.once("data", () => socket.write(Buffer.concat([head, Buffer.from(said)])));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const closed = once(server, "connection").then(([socket]) => once(socket, "close"));
    const { port } = server.address() as AddressInfo;
    expect(await errorOf(() => open(`postgres://u@127.0.0.1:${port}/db`))).toMatchObject({
      code: "DENIED",
    });
    await closed;
    expect(sockets).toHaveLength(1);
    server.close();
  });

  test("a port that is one is taken: nothing listens there", async () => {
    for (const port of ["1", "00001"])
      expect(await errorOf(() => open(`postgres://u@127.0.0.1/db?port=${port}`))).toMatchObject({
        code: "UNREACHABLE",
      });
  });
});
