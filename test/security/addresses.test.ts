/** B7: an address that was meant for another store does not make a file, and the error says what to write instead. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { type AddressInfo, createServer, type Socket } from "node:net";
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

/** A process that opens each address, waits until all timers of the driver are over, and prints the codes of its errors. */
async function codesOf(addresses: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<{ exit: number; codes: unknown }> {
  const program = `
    import { open } from ${JSON.stringify(new URL("../../dist/index.js", import.meta.url).href)};
    const codes = [];
    for (const address of ${JSON.stringify(addresses)}) await open(address, { busyMs: 0 }).catch((error) => codes.push(error.code));
    await new Promise((resolve) => setTimeout(resolve, 1_200));
    console.log(JSON.stringify(codes));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { env: { ...process.env, ...env } });
  let printed = "";
  child.stdout.on("data", (data) => {
    printed += data;
  });
  const [exit] = await once(child, "close");
  return { exit, codes: JSON.parse(printed || "null") };
}

describe("H3: a connection that cannot be made", () => {
  const ports = ["abc", "99999", "-1", "0", "5432abc", "1&port=abc", "65536", "%20", "1.5"];

  test.each(ports)("the port %j is refused in an address, and not said again", async (port) => {
    const error = await errorOf(() => open(`postgres://u@127.0.0.1/db?port=${port}`));
    expect(error).toMatchObject({ code: "INVALID_OPTION", message: expect.stringMatching(/port.* 1 to 65535/) });
    expect((error as Error).message).not.toContain("abc");
  });

  test("a wrong port does not end the process, wherever it was named", { timeout: 30_000 }, async () => {
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
    expect(await errorOf(() => open(`postgres://u@127.0.0.1:${port}/db`))).toMatchObject({ code: "DENIED" });
    await closed;
    expect(sockets).toHaveLength(1);
    server.close();
  });

  test("a port that is one is taken: nothing listens there", async () => {
    for (const port of ["1", "00001"])
      expect(await errorOf(() => open(`postgres://u@127.0.0.1/db?port=${port}`))).toMatchObject({ code: "UNREACHABLE" });
  });
});
