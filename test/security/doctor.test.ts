/** `holdfast doctor` says what it can see of a place that is not safe, and what to do about it. */
import { chmodSync, existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { open } from "../../src/index.js";
import { Connections } from "../../src/store/sql/postgres/connections.js";
import { run } from "../cli/command.js";
import { PgClient } from "../support/pg-client.js";
import { postgresUrl } from "../support/shared-postgres.js";
import { scratch } from "../support/stores.js";

const faked = vi.hoisted(() => ({ type: undefined as number | undefined }));
vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  const statfsSync = (path: string) => ({
    ...fs.statfsSync(path),
    ...(faked.type !== undefined && { type: faked.type }),
  });
  return { ...fs, statfsSync };
});

interface Finding {
  readonly level: string;
  readonly code: string;
  readonly message: string;
  readonly fix: string;
}

async function findings(store: string): Promise<readonly Finding[]> {
  const { stdout } = await run(["doctor", "--json", "--store", store]);
  return (JSON.parse(stdout) as { findings: readonly Finding[] }).findings;
}

const codesOf = async (address: string): Promise<readonly string[]> => {
  const hold = await open(address);
  const { concerns } = await hold.info();
  await hold.close();
  for (const { fix } of concerns) expect(fix).not.toBe("");
  return concerns.map(({ code }) => code);
};

describe("doctor: files that others can read", () => {
  test("a SQLite file, and each file beside it", async () => {
    const file = join(scratch(), "agent.db");
    const hold = await open(file);
    await hold.sessions.append("a", [{ role: "user", content: "hello" }], { create: true });
    await hold.sessions.search("hello");
    await hold.close();
    expect(await findings(file)).not.toContainEqual(
      expect.objectContaining({ code: "OPEN_TO_OTHERS" }),
    );
    const again = await open(file);
    for (const beside of ["", "-wal", "-shm", "-anchors", "-search"]) {
      const path = `${file}${beside}`;
      expect(existsSync(path), path).toBe(true);
      chmodSync(path, 0o604);
      const found = (await again.info()).concerns.find(({ code }) => code === "OPEN_TO_OTHERS");
      expect(found?.message).toContain(JSON.stringify(path));
      expect(found?.fix).toBe(`chmod go-rwx '${path}'`);
      chmodSync(path, 0o600);
    }
    expect((await again.info()).concerns.map(({ code }) => code)).not.toContain("OPEN_TO_OTHERS");
    await again.close();
    chmodSync(file, 0o644);
    expect(await findings(file)).toContainEqual(
      expect.objectContaining({ level: "wrong", code: "OPEN_TO_OTHERS" }),
    );
    const { stdout, exit } = await run(["doctor", "--store", file]);
    expect([exit, stdout]).toEqual([
      1,
      expect.stringMatching(/wrong OPEN_TO_OTHERS .*\n +chmod go-rwx/),
    ]);
  });

  test("a directory", async () => {
    const place = join(scratch(), "state");
    await (await open(`dir:${place}`)).close();
    expect(await codesOf(`dir:${place}`)).not.toContain("OPEN_TO_OTHERS");
    chmodSync(place, 0o755);
    const found = (await findings(`dir:${place}`)).find(({ code }) => code === "OPEN_TO_OTHERS");
    expect(found).toMatchObject({ level: "wrong", fix: `chmod go-rwx '${place}'` });
  });
});

describe("doctor: file systems over a network", () => {
  beforeEach(() => {
    faked.type = undefined;
  });
  afterEach(() => {
    faked.type = undefined;
  });

  test.each([
    ["FUSE", 0x65735546],
    ["VirtualBox", 0x786f4256],
    ["VMware", 0xbacbacbc],
    ["Lustre", 0x0bd00bd0],
  ])("%s is opened, and warned of", async (_name, type) => {
    for (const address of [join(scratch(), "agent.db"), `dir:${scratch()}`]) {
      expect(await codesOf(address)).not.toContain("NETWORK_FILE_SYSTEM");
      faked.type = type;
      expect(await codesOf(address)).toContain("NETWORK_FILE_SYSTEM");
      faked.type = undefined;
    }
  });

  test.each([
    ["NFS", 0x6969],
    ["SMB2", 0xfe534d42],
    ["9p", 0x01021997],
  ])("%s is not opened at all", async (_name, type) => {
    faked.type = type;
    for (const address of [join(scratch(), "agent.db"), `dir:${scratch()}`])
      await expect(open(address)).rejects.toMatchObject({
        code: "UNSUPPORTED",
        message: expect.stringContaining("network"),
      });
  });
});

describe("doctor: Postgres", () => {
  const schema = `doctor ${process.pid}`;
  const as = (user: string): string => {
    const url = new URL(postgresUrl());
    url.username = user;
    url.searchParams.set("schema", schema);
    return url.toString();
  };
  const admin = async (text: string): Promise<void> => {
    const client = new PgClient({
      connectionString: Object.assign(new URL(postgresUrl()), { username: "postgres" }).toString(),
    });
    await client.connect();
    await client.query(text);
    await client.end();
  };

  test("a role that row level security does not hold", async () => {
    expect(await codesOf(as("holdfast"))).not.toContain("RLS_BYPASSED");
    expect(await codesOf(as("postgres"))).toContain("RLS_BYPASSED");
    expect(await findings(as("postgres"))).toContainEqual(
      expect.objectContaining({ level: "note", code: "RLS_BYPASSED" }),
    );
    const role = `bypasses_${process.pid}`;
    await admin(`CREATE ROLE ${role} LOGIN BYPASSRLS IN ROLE holdfast`);
    expect(await codesOf(as(role))).toContain("RLS_BYPASSED");
    await admin(`ALTER ROLE ${role} NOBYPASSRLS`);
    expect(await codesOf(as(role))).not.toContain("RLS_BYPASSED");
    await admin(`DROP ROLE ${role}`);
  });

  test("tables on which it is off, or does not hold for their owner", async () => {
    const address = as("holdfast");
    expect(await codesOf(address)).not.toContain("RLS_OFF");
    for (const [off, on] of [
      ["NO FORCE", "FORCE"],
      ["DISABLE", "ENABLE"],
    ]) {
      await admin(`ALTER TABLE "${schema}".save ${off} ROW LEVEL SECURITY`);
      const found = (await findings(address)).find(({ code }) => code === "RLS_OFF");
      expect(found).toMatchObject({
        level: "note",
        message: expect.stringContaining(`"${schema}".save`),
        fix: `ALTER TABLE "${schema}".save ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;`,
      });
      await admin(`ALTER TABLE "${schema}".save ${on} ROW LEVEL SECURITY`);
    }
    // What is proposed mends it.
    await admin(
      `ALTER TABLE "${schema}".save NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY`,
    );
    await admin((await findings(address)).find(({ code }) => code === "RLS_OFF")?.fix as string);
    expect(await codesOf(address)).not.toContain("RLS_OFF");
  });

  test("a connection to another machine that is not encrypted", async () => {
    expect(await codesOf(as("holdfast"))).not.toContain("NO_TLS");
    const link = vi.spyOn(Connections.prototype, "link", "get");
    const cases: readonly (readonly [string | undefined, boolean, boolean])[] = [
      ["10.0.0.5", false, true],
      ["2001:db8::5", false, true],
      ["10.0.0.5", true, false],
      ["127.0.0.1", false, false],
      ["127.8.8.8", false, false],
      ["::1", false, false],
      ["::ffff:127.0.0.1", false, false],
      [undefined, false, false],
    ];
    for (const [address, encrypted, warns] of cases) {
      link.mockReturnValue({ address, encrypted });
      expect((await codesOf(as("holdfast"))).includes("NO_TLS"), `${address} ${encrypted}`).toBe(
        warns,
      );
    }
    link.mockRestore();
  });

  test("the connection's own socket is looked at", async () => {
    const link = vi.spyOn(Connections.prototype, "link", "get");
    await codesOf(as("holdfast"));
    expect(link.mock.results[0]?.value).toEqual({ address: "127.0.0.1", encrypted: false });
    link.mockRestore();
  });
});
