/** The server over HTTP: who is let in, what each sees, and what is thrown at it. */
import { chmodSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { connect as tcp } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../../src/index.js";
import { run } from "../../cli/command.js";
import { errorOf } from "../../support/error-of.js";
import {
  calling,
  clientFor,
  type HttpProcess,
  httpProcess,
  httpTransport,
  TOKEN,
  ways,
} from "../../support/mcp/connect.js";
import { eachNth } from "../../support/runs.js";
import { scratch } from "../../support/stores.js";

const directory = scratch();
let count = 0;
const place = () => join(directory, `agent-${count++}.db`);

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const LIST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} });
const proper = {
  authorization: `Bearer ${TOKEN}`,
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
};

function send(
  url: string,
  { method = "POST", path = "/mcp", headers = proper, body = LIST }: Sent = {},
): Promise<Got> {
  return new Promise((resolve, reject) => {
    const asked = httpRequest(url, { method, path, headers }, (response) => {
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
      response.on("error", reject);
    });
    asked.on("error", reject);
    asked.end(method === "POST" || method === "PUT" ? body : undefined);
  });
}

let server: HttpProcess;
beforeAll(async () => {
  server = await httpProcess(place());
});
afterAll(async () => {
  await server.stop();
});

describe("who is let in", () => {
  test("with the token, from this machine: nobody else", async () => {
    const ok = await send(server.url);
    expect(ok.status).toBe(200);
    expect(ok.body).toContain("agent_save");
    const { port } = new URL(server.url);
    for (const [name, headers, status] of [
      ["no token", { ...proper, authorization: "" }, 401],
      ["another token", { ...proper, authorization: `Bearer ${TOKEN.replace("a", "b")}` }, 401],
      ["a shorter one", { ...proper, authorization: "Bearer x" }, 401],
      ["a longer one", { ...proper, authorization: `Bearer ${TOKEN}x` }, 401],
      ["another scheme", { ...proper, authorization: `Basic ${TOKEN}` }, 401],
      ["two of them", { ...proper, authorization: `Bearer ${TOKEN} ${TOKEN}` }, 401],
      ["a foreign Host", { ...proper, host: "evil.example" }, 403],
      ["a Host that looks like ours", { ...proper, host: `localhost.evil.example:${port}` }, 403],
      ["a Host with a name before it", { ...proper, host: `evil@localhost:${port}` }, 403],
      ["a Host in another spelling", { ...proper, host: `2130706433:${port}` }, 403],
      ["a foreign Origin", { ...proper, origin: "https://evil.example" }, 403],
      ["no Origin to speak of", { ...proper, origin: "null" }, 403],
      ["a page of this machine", { ...proper, origin: `http://localhost:${port}` }, 200],
      ["by name", { ...proper, host: `localhost:${port}` }, 200],
    ] as const) {
      const got = await send(server.url, { headers });
      expect(got.status, name).toBe(status);
      if (status !== 200) expect(got.body, name).not.toContain("agent_save");
      if (status === 401) expect(got.headers["www-authenticate"]).toMatch(/^Bearer/);
      expect(got.headers["access-control-allow-origin"]).toBeUndefined();
    }
  });

  test("it listens on loopback alone, and says where and with which token on stderr", async () => {
    expect(server.told()).toMatch(/listening on http:\/\/127\.0\.0\.1:\d+\/mcp/);
    expect(server.told()).not.toContain(TOKEN);
    const own = await httpProcess(place(), [], { HOLDFAST_TOKEN: "" });
    const [, token = ""] = /Authorization: Bearer (\S+)/.exec(own.told()) ?? [];
    expect(token.length).toBeGreaterThanOrEqual(32);
    expect(
      (await send(own.url, { headers: { ...proper, authorization: `Bearer ${token}` } })).status,
    ).toBe(200);
    expect((await send(own.url)).status).toBe(401);
    expect(await own.stop()).toBe(0);
  });
});

test("what is no request for MCP is refused, and the next is answered", async () => {
  const deep = `${"[".repeat(10_000)}${"]".repeat(10_000)}`;
  const deepCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"agent_save","arguments":{"id":"a","state":{"x":${deep}}}}}`;
  for (const [name, sent, statuses] of [
    ["another path", { path: "/" }, [404]],
    ["another address", { path: "http://evil.example/mcp" }, [400]],
    ["a path with two slashes", { path: "//evil.example/mcp" }, [400]],
    ["a path upwards", { path: "/mcp/..%2f..%2fetc/passwd" }, [404]],
    ["GET changes and answers nothing", { method: "GET" }, [405]],
    ["DELETE", { method: "DELETE" }, [405]],
    ["PUT", { method: "PUT" }, [405]],
    ["TRACE", { method: "TRACE" }, [400]],
    [
      "a form of another site",
      { headers: { ...proper, "content-type": "application/x-www-form-urlencoded" }, body: "a=b" },
      [415],
    ],
    ["text", { headers: { ...proper, "content-type": "text/plain" } }, [415]],
    [
      "compressed",
      { headers: { ...proper, "content-encoding": "gzip" }, body: gzipSync("x".repeat(1e6)) },
      [415],
    ],
    ["no JSON", { body: "{" }, [400]],
    ["nothing", { body: "" }, [400]],
    ["17 MB", { body: "x".repeat(17 * 1024 * 1024) }, [413]],
    ["10,000 levels", { body: deep }, [400]],
    ["10,000 levels in an argument", { body: deepCall }, [200, 400]],
  ] as readonly (readonly [string, Sent, readonly number[]])[]) {
    const got = await send(server.url, sent);
    expect(statuses, `${name}: ${got.status} ${got.body.slice(0, 200)}`).toContain(got.status);
    expect(got.body.length, name).toBeLessThan(2_000);
    expect(got.body, name).not.toMatch(/ at .*\.js:\d+/);
  }
  expect((await send(server.url)).status).toBe(200);
});

test("a number that JavaScript would change is refused with its path, and nothing is done with another", async () => {
  const call = (name: string, args: string) =>
    send(server.url, {
      body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`,
    });
  const refused = await call("agent_save", '{"id":"ann","state":{"order":9007199254740993}}');
  expect([refused.status, JSON.parse(refused.body)]).toMatchObject([
    400,
    {
      id: 1,
      error: {
        code: -32_602,
        message: expect.stringMatching("params.arguments.state.order .*send it as a string"),
      },
    },
  ]);
  expect((await call("agent_load", '{"id":"ann"}')).body).toContain("NOT_FOUND");
  await call("agent_save", '{"id":"ann","state":{"order":"9007199254740993"}}');
  expect((await call("agent_load", '{"id":"ann"}')).body).toContain('"order":"9007199254740993"');
});

test("a body of 1 GB is not read, one that comes a byte at a time holds nobody up, and one that breaks off is forgotten", async () => {
  const { hostname, port } = new URL(server.url);
  const head = (length: number | string) =>
    `POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${TOKEN}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n${length}\r\n\r\n`;
  const opened = async (text: string) => {
    const socket = tcp(Number(port), hostname);
    let got = "";
    socket.on("data", (chunk) => {
      got += chunk.toString();
    });
    socket.on("error", () => {});
    socket.write(text);
    return { socket, got: () => got };
  };
  const declared = await opened(head(`content-length: ${1024 ** 3}`));
  while (!declared.got().includes("\r\n")) await sleep(5);
  expect(declared.got()).toMatch(/^HTTP\/1\.1 413/);
  declared.socket.destroy();
  // Without saying how long it is.
  const endless = await opened(head("transfer-encoding: chunked"));
  const chunk = `100000\r\n${"x".repeat(0x100000)}\r\n`;
  let sent = 0;
  while (!endless.got().includes("\r\n") && sent < 1024 && !endless.socket.destroyed) {
    if (!endless.socket.write(chunk))
      await Promise.race([
        new Promise((resolve) => endless.socket.once("drain", resolve)),
        sleep(200),
      ]);
    sent++;
    await sleep(0);
  }
  expect(endless.got()).toMatch(/^HTTP\/1\.1 413/);
  expect(sent).toBeLessThan(200);
  endless.socket.destroy();
  const slow = await opened(head(`content-length: ${LIST.length}`));
  const broken = await opened(head(`content-length: ${LIST.length}`) + LIST.slice(0, 10));
  broken.socket.destroy();
  for (const byte of LIST.slice(0, 20)) {
    slow.socket.write(byte);
    expect((await send(server.url)).status).toBe(200);
  }
  slow.socket.write(LIST.slice(20));
  while (!slow.got().includes("agent_save")) await sleep(5);
  slow.socket.destroy();
}, 60_000);

describe.each(
  eachNth(
    2,
    ways.filter(({ over }) => over === "http"),
  ),
)("tenants, $era", ({ era }) => {
  test("a token opens its own tenant: nothing of another's can be seen, counted, changed or guessed", async () => {
    const file = join(directory, `tokens-${count++}`);
    writeFileSync(
      file,
      "# who sees what\nacme  token-of-acme-0123456789\nbolt\ttoken-of-bolt-0123456789\n-  token-of-nobody-012345\n",
      {
        mode: 0o600,
      },
    );
    const store = place();
    const shared = await httpProcess(store, ["--tokens", file]);
    const connect = async (token: string) => {
      const client = clientFor(era);
      await client.connect(httpTransport(shared.url, token));
      return { client, call: calling(client) };
    };
    const acme = await connect("token-of-acme-0123456789");
    const bolt = await connect("token-of-bolt-0123456789");
    const nobody = await connect("token-of-nobody-012345");
    await acme.call("agent_save", { id: "ann", system: "secret of acme", idempotencyKey: "k" });
    await acme.call("conversation_save", {
      id: "talk",
      agent: "ann",
      messages: [{ role: "user", content: "kelp of acme" }],
    });
    const { checkpoint } = await acme.call("checkpoint_create", { session: "talk" });
    const { checkpoint: whole } = await acme.call("checkpoint_create", { agent: "ann" });
    for (const { client, call } of [bolt, nobody]) {
      expect(await call("persistence_stats", {})).toEqual({
        agents: 0,
        sessions: 0,
        checkpoints: 0,
        snapshots: 0,
        messages: 0,
        sizeBytes: 0,
      });
      for (const name of ["agent_list", "conversation_list"] as const)
        expect((await call(name, {})).items).toEqual([]);
      expect((await call("conversation_search", { query: "kelp" })).items).toEqual([]);
      expect((await client.listResources()).resources).toEqual([]);
      for (const uri of ["holdfast://sessions/talk", `holdfast://checkpoints/${checkpoint.id}`])
        expect(await errorOf(() => client.readResource({ uri }))).toMatchObject({ code: -32_602 });
      for (const [name, args] of [
        ["agent_load", { id: "ann" }],
        ["conversation_load", { id: "talk" }],
        ["checkpoint_list", { session: "talk" }],
        ["checkpoint_fork", { id: checkpoint.id, as: "stolen" }],
        ["checkpoint_restore", { id: checkpoint.id }],
        ["checkpoint_restore", { id: whole.id }],
        ["checkpoint_diff", { from: checkpoint.id, to: checkpoint.id }],
      ] as const)
        expect(String(await errorOf(() => call(name, args))), name).toMatch(/NOT_FOUND/);
      expect(await call("agent_delete", { id: "ann" })).toMatchObject({ deleted: false });
      expect(await call("checkpoint_delete", { id: whole.id })).toMatchObject({ deleted: false });
    }
    // The same ids and the same key in another tenant are others.
    expect(
      await bolt.call("agent_save", { id: "ann", system: "of bolt", idempotencyKey: "k" }),
    ).toMatchObject({ agent: { version: 1 } });
    // At the same time, again and again: each hears of its own alone.
    await Promise.all(
      Array.from({ length: 40 }, async (_, i) => {
        const { agent } = await (i % 2 ? acme : bolt).call("agent_load", { id: "ann" });
        expect(agent.system).toBe(i % 2 ? "secret of acme" : "of bolt");
      }),
    );
    expect(await acme.call("conversation_load", { id: "talk" })).toMatchObject({ count: 1 });
    expect(await errorOf(() => connect("token-of-nobody-known"))).toBeInstanceOf(Error);
    expect(await shared.stop()).toBe(0);
    await using hold = await open(store, { tenant: "acme" });
    expect(await hold.agents.get("ann")).toMatchObject({ system: "secret of acme" });
  });

  test("an answer that the client did not hear is not given twice: the call is repeated under its key, and made once", async () => {
    const { client, call } = await (async () => {
      const made = clientFor(era);
      await made.connect(httpTransport(server.url));
      return { client: made, call: calling(made) };
    })();
    const id = `heard by few, ${era}`;
    let unheard = 0;
    for (let i = 0; i < 30; i++) {
      const cancel = new AbortController();
      setTimeout(() => cancel.abort(), i % 10);
      const args = { id, state: { i }, idempotencyKey: `${era} ${i}` };
      await client
        .callTool({ name: "agent_save", arguments: args }, { signal: cancel.signal })
        .catch(() => unheard++);
      await call("agent_save", args);
    }
    expect(unheard).toBeGreaterThan(0);
    expect(await call("agent_load", { id })).toMatchObject({
      agent: { version: 30, state: { i: 29 } },
    });
    await client.close();
  });
});

test("it ends within seconds, whoever is still sending, listening or not reading", async () => {
  const own = await httpProcess(place());
  const client = clientFor("2026-07-28");
  await client.connect(httpTransport(own.url));
  await calling(client)("agent_save", { id: "ann" });
  const { hostname, port } = new URL(own.url);
  const half = tcp(Number(port), hostname);
  half.on("error", () => {});
  half.write(
    `POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${TOKEN}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{`,
  );
  await sleep(100);
  const began = performance.now();
  expect(await own.stop()).toBe(0);
  expect(performance.now() - began).toBeLessThan(5_000);
  half.destroy();
});

test("a store that cannot be opened for a tenant is told in words, and again when it is asked again", async () => {
  const file = join(directory, `tokens-${count++}`);
  writeFileSync(file, `acme ${TOKEN}\n`, { mode: 0o600 });
  expect(String(await errorOf(() => httpProcess("ftp://x", ["--tokens", file])))).toMatch(
    /no store for "ftp:"/,
  );
});

test("a file of tokens that says nothing, or too much, is refused; one that others can read is told of", async () => {
  for (const [text, says] of [
    ["", /holds no token/],
    ["acme", /a tenant and its token/],
    ["acme token-of-acme-0123456789 more", /a tenant and its token/],
    ["acme short", /16 characters/],
    ["acme token-of-acme-0123456789\nbolt token-of-acme-0123456789", /:2: the same token/],
  ] as const) {
    const file = join(directory, `tokens-${count++}`);
    writeFileSync(file, text, { mode: 0o600 });
    const refused = await run(["mcp", "--http", "0", "--store", place(), "--tokens", file]);
    expect([refused.exit === 0, refused.stderr]).toEqual([false, expect.stringMatching(says)]);
  }
  const file = join(directory, `tokens-${count++}`);
  writeFileSync(file, "acme token-of-acme-0123456789");
  chmodSync(file, 0o644);
  const open644 = await httpProcess(place(), ["--tokens", file]);
  expect(open644.told()).toMatch(/can be read by others.*chmod 600/);
  await open644.stop();
});

test("a port that is taken, and an end in the middle of a call", async () => {
  const { port } = new URL(server.url);
  const store = place();
  expect(String(await errorOf(() => httpProcess(store, ["--http", port])))).toMatch(
    /Port \d+ is taken/,
  );
  const own = await httpProcess(store);
  const client = clientFor("2026-07-28");
  await client.connect(httpTransport(own.url));
  const calls = Array.from({ length: 20 }, (_, i) =>
    calling(client)("agent_save", { id: `a${i}` }).catch(() => undefined),
  );
  await sleep(20);
  expect(await own.stop()).toBe(0);
  const heard = (await Promise.all(calls)).filter((answer) => answer !== undefined);
  await using hold = await open(store);
  for (const answer of heard)
    expect(await hold.agents.get((answer as { agent: { id: string } }).agent.id)).toBeDefined();
  expect(await hold.verify()).toMatchObject({ ok: true });
});
