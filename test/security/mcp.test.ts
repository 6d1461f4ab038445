/**
 * Files come back over MCP, to those who may see them; one client cannot take the server
 * from others; only this machine is let in.
 */
import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { digest as digestOf } from "../../src/core/values/digest.js";
import { type Holdfast, open } from "../../src/index.js";
import { MAX_VALUES, readExactly } from "../../src/server/mcp/exact.js";
import { type HttpServer, serveOverHttp } from "../../src/server/mcp/http.js";
import { InProgress, MAX_BYTES, MAX_REQUESTS } from "../../src/server/mcp/in-progress.js";
import { StdioTransport } from "../../src/server/mcp/stdio-transport.js";
import { Tokens } from "../../src/server/mcp/tokens.js";
import { filesWith } from "../support/bytes.js";
import { errorOf } from "../support/error-of.js";
import { type Way, ways } from "../support/mcp/connect.js";
import { isThorough } from "../support/runs.js";
import { scratch, stores } from "../support/stores.js";

const fileOf = (bytes: Uint8Array) => ({
  type: "file",
  mediaType: "image/png",
  name: "kelp.png",
  data: { bytes: Buffer.from(bytes).toString("base64") },
});

/** The same for every digest and id: an error that told them apart would tell what others have. */
async function refusalOf(
  call: () => Promise<unknown>,
  ...names: readonly string[]
): Promise<unknown> {
  const { code, message, details } = (await errorOf(call)) as {
    code: string;
    message: string;
    details: object;
  };
  return JSON.parse(
    names.reduce(
      (said, name) => said.replaceAll(name, "NAME"),
      JSON.stringify({ code, message, details }),
    ),
  );
}

describe.each(stores)("files, on $name", ({ address, traits }) => {
  const big = Buffer.from(
    Uint8Array.from({ length: 3_000_000 }, (_, i) => Math.imul(i, 0x9e3779b1) >>> 24),
  );
  const secret = Buffer.from("the file of another agent");
  const ofTenant = Buffer.from("the file of another tenant");
  let hold: Holdfast;
  let other: Holdfast;
  beforeAll(async () => {
    const at = address();
    hold = await open(at);
    other = await open(traits.durable ? at : "memory:", { tenant: "other" });
    const all = hold.tools();
    await all.conversation_save.execute({
      id: "mine",
      agent: "ann",
      messages: [
        { role: "user", content: [{ type: "text", text: "Look." }, fileOf(big)] as never },
      ],
    });
    await all.conversation_save.execute({
      id: "hers",
      agent: "bea",
      messages: [{ role: "user", content: [fileOf(secret)] as never }],
    });
    await other.tools().conversation_save.execute({
      id: "mine",
      agent: "ann",
      messages: [{ role: "user", content: [fileOf(ofTenant)] as never }],
    });
  });
  afterAll(async () => {
    await hold.close();
    await other.close();
  });

  test("what was saved is read back, in parts of bounded size, with its media type", async () => {
    const { conversation_load, conversation_file } = hold.tools({ agent: "ann" });
    const { items } = await conversation_load.execute({ id: "mine" });
    const [, part] = (
      items[0] as unknown as { content: [unknown, { data: { digest: string; sizeBytes: number } }] }
    ).content;
    const { digest } = part.data;
    expect(part.data).toEqual({ digest: digestOf(big), sizeBytes: big.length });
    const parts: Buffer[] = [];
    for (let from: number | undefined = 0; from !== undefined; ) {
      const read: Awaited<ReturnType<typeof conversation_file.execute>> =
        await conversation_file.execute({
          id: "mine",
          digest,
          from,
          limit: 1024 * 1024,
        });
      expect(read).toMatchObject({
        digest,
        mediaType: "image/png",
        name: "kelp.png",
        sizeBytes: big.length,
        from,
      });
      parts.push(Buffer.from(read.bytes, "base64"));
      from = read.next;
    }
    expect(parts.map(({ length }) => length)).toEqual([1_048_576, 1_048_576, 902_848]);
    expect(digestOf(Buffer.concat(parts))).toBe(digest);
    expect((await conversation_file.execute({ id: "mine", digest })).bytes.length).toBeLessThan(
      20_000,
    );
    expect(
      await conversation_file.execute({ id: "mine", digest, from: big.length + 1 }),
    ).toMatchObject({ bytes: "" });
    expect(
      await errorOf(() => conversation_file.execute({ id: "mine", digest, limit: 2 ** 21 })),
    ).toMatchObject({ code: "INVALID_VALUE" });
  });

  test("a file of another agent or tenant is told from one that is not there by nothing", async () => {
    const { conversation_file } = hold.tools({ agent: "ann" });
    const unknown = digestOf(Buffer.from("no such file"));
    const read = (id: string, digest: string) =>
      refusalOf(() => conversation_file.execute({ id, digest }), id, digest);
    const none = await read("mine", unknown);
    expect(none).toMatchObject({ code: "NOT_FOUND" });
    expect(await read("mine", digestOf(secret))).toEqual(none);
    expect(await read("mine", digestOf(ofTenant))).toEqual(none);
    expect(await read("mine", "no digest")).toEqual(none);
    expect(await read("hers", digestOf(secret))).toEqual(await read("nowhere", digestOf(secret)));
    // Control: both are there for those who may see them.
    expect(
      await hold
        .tools({ agent: "bea" })
        .conversation_file.execute({ id: "hers", digest: digestOf(secret) }),
    ).toMatchObject({
      bytes: secret.toString("base64"),
    });
    expect(
      await other.tools().conversation_file.execute({ id: "mine", digest: digestOf(ofTenant) }),
    ).toMatchObject({ sizeBytes: 26 });
  });

  test("a file cannot be named into a conversation by an agent that has not got it", async () => {
    const { conversation_save, conversation_file } = hold.tools({ agent: "ann" });
    const unknown = digestOf(Buffer.from("no such file"));
    const named = (digest: string, sizeBytes: number) => ({
      type: "file",
      mediaType: "image/png",
      data: { digest, sizeBytes },
    });
    const asResult = (digest: string) => ({
      type: "tool-result",
      callId: "c",
      name: "t",
      outcome: "ok",
      output: [named(digest, secret.length)],
    });
    const save = (id: string, digest: string, part: unknown) =>
      refusalOf(
        () =>
          conversation_save.execute({ id, messages: [{ role: "user", content: [part] as never }] }),
        digest,
      );
    for (const id of ["mine", "new"]) {
      const none = await save(id, unknown, named(unknown, secret.length));
      expect(none).toMatchObject({ code: "INVALID_VALUE" });
      for (const digest of [digestOf(secret), digestOf(ofTenant)]) {
        expect(await save(id, digest, named(digest, secret.length))).toEqual(none);
        expect(await save(id, digest, asResult(digest))).toEqual(none);
      }
    }
    expect(
      await errorOf(() => conversation_file.execute({ id: "new", digest: digestOf(secret) })),
    ).toMatchObject({ code: "NOT_FOUND" });
    // Control: what the conversation has may be sent back as it was loaded; and who sees all may
    // name all.
    const again = { role: "user", content: [named(digestOf(big), big.length)] as never } as const;
    expect(await conversation_save.execute({ id: "mine", messages: [again] })).toMatchObject({
      count: 1,
      taken: true,
    });
    const hers = {
      role: "user",
      content: [named(digestOf(secret), secret.length)] as never,
    } as const;
    expect(
      await hold.tools().conversation_save.execute({ id: "all", messages: [hers] }),
    ).toMatchObject({ count: 1 });
  });
});

// ---- over HTTP

const ANN = "the-token-of-ann-1";
const BEA = "the-token-of-bea-1";
let server: HttpServer;
let hold: Holdfast;
beforeAll(async () => {
  hold = await open("memory:");
  server = await serveOverHttp({
    port: 0,
    tokens: new Tokens().add(ANN, "ann", "1").add(BEA, "bea", "2"),
    holdOf: async () => hold,
    version: "1",
    tools: {},
    failed: () => {},
  });
});
afterAll(async () => {
  await server.close();
  await hold.close();
});

interface Got {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly body: string;
}

const LIST = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} });

function send(token: string, headers: Record<string, string> = {}, body = LIST): Promise<Got> {
  const own = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  return new Promise((resolve, reject) => {
    const asked = httpRequest(
      server.url,
      { method: "POST", headers: { ...own, ...headers } },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            retryAfter: response.headers["retry-after"],
            body: text,
          }),
        );
      },
    );
    asked.on("error", reject);
    asked.end(body);
  });
}

/** Requests whose bodies do not come, `bytes` each by their own word. */
async function begun(token: string, count: number, framing: string): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(server.url);
  const head = `POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`;
  return Promise.all(
    Array.from({ length: count }, async () => {
      const socket = connect(Number(port), hostname);
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.write(head);
      return socket;
    }),
  );
}

/**
 * Asks until it is answered so: a server hears of sockets a moment after they are written to, or
 * closed.
 */
async function until(status: number, ask: () => Promise<Got>): Promise<Got> {
  for (let tries = 0; ; tries++) {
    const got = await ask();
    if (got.status === status || tries === 500) return got;
    await sleep(10);
  }
}

async function refusedWhile(sockets: readonly Socket[]): Promise<void> {
  const refused = await until(429, () => send(ANN));
  expect(refused).toMatchObject({
    status: 429,
    retryAfter: "1",
    body: expect.stringMatching(/in progress.*Send it again/),
  });
  expect(refused.body).not.toContain("agent_save");
  // Control: another client is answered at the same moment.
  expect(await send(BEA)).toMatchObject({ status: 200 });
  for (const socket of sockets) socket.destroy();
  expect(await until(200, () => send(ANN))).toMatchObject({ status: 200 });
}

describe("what one token has in progress is bounded", () => {
  test(`${MAX_REQUESTS} requests`, async () => {
    await refusedWhile(await begun(ANN, MAX_REQUESTS, "content-length: 10"));
  });

  test("bytes of bodies, by what they say they have", async () => {
    await refusedWhile(await begun(ANN, 2, "content-length: 16777216"));
  });

  test("bytes of bodies, as they come", async () => {
    const sockets = await begun(ANN, 2, "transfer-encoding: chunked");
    const most = 16 * 1024 * 1024 - 1;
    for (const socket of sockets)
      socket.write(
        Buffer.concat([Buffer.from(`${most.toString(16)}\r\n`), Buffer.alloc(most, " ")]),
      );
    await refusedWhile(sockets);
  });

  test("a share lasts until its answer was heard and its calls are over, also of a client that is gone", async () => {
    const inProgress = new InProgress();
    let hear = () => {};
    let fail = (_error: Error) => {};
    const heard = new Promise<void>((resolve) => {
      hear = resolve;
    });
    const call = new Promise<void>((_resolve, reject) => {
      fail = reject;
    });
    const share = inProgress.begin("ann", heard);
    share?.during(call);
    expect(share?.grow(MAX_BYTES)).toBe(true);
    const another = () => inProgress.begin("ann", Promise.resolve())?.grow(1);
    hear();
    await sleep(0);
    expect(another()).toBe(false);
    expect(inProgress.begin("bea", Promise.resolve())?.grow(1)).toBe(true);
    fail(new Error("x"));
    await sleep(0);
    expect(another()).toBe(true);
  });
});

describe("an Origin and a Host are this machine's, in just one spelling", () => {
  const hosts = ["localhost", "127.0.0.1", "[::1]", "localhost:7433", "[::1]:80"];
  test.each(hosts)("control: %s", async (host) => {
    expect(await send(ANN, { host })).toMatchObject({ status: 200 });
    for (const scheme of ["http", "https"])
      expect(await send(ANN, { origin: `${scheme}://${host}` })).toMatchObject({ status: 200 });
  });

  test.each([
    "evil@localhost",
    "evil:secret@localhost",
    "@localhost",
    "localhost@evil.example",
    "localhost.",
    "localhost.evil.example",
    "LOCALHOST",
    "localhost:",
    "localhost:123456",
    "localhost:80:80",
    "localhost/",
    "localhost/mcp",
    "localhost\\evil",
    "localhost?x",
    "localhost#x",
    "localhost, evil.example",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "127.0.0.1.",
    "0.0.0.0",
    "::1",
    "[::1",
    "[::1].",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::1%25lo]",
  ])("%j is refused", async (host) => {
    const refused = { status: 403, body: expect.not.stringContaining("agent_save") };
    expect(await send(ANN, { host })).toMatchObject(refused);
    for (const scheme of ["http", "https"])
      expect(await send(ANN, { origin: `${scheme}://${host}` })).toMatchObject(refused);
  });

  test.each([
    "null",
    "",
    "http://",
    "localhost",
    "//localhost",
    "file://localhost",
    "chrome-extension://localhost",
    "HTTP://localhost",
    " ",
  ])("the Origin %j is refused", async (origin) => {
    expect(await send(ANN, { origin })).toMatchObject({ status: 403 });
  });
});

test("with --redact, secrets are replaced before anything is stored", async () => {
  const store = join(scratch(), "redacted.db");
  const secret = `ghp_${"0123456789abcdef".repeat(3).slice(0, 36)}`;
  const said = async (...args: string[]): Promise<string> => {
    const { client, close } = await (ways[0] as Way).connect(store, ...args);
    const messages = [{ role: "user", content: `look: ${secret}` }];
    await client.callTool({
      name: "conversation_save",
      arguments: { id: `c${args.length}`, messages },
    });
    const answer = await client.callTool({
      name: "conversation_load",
      arguments: { id: `c${args.length}` },
    });
    await close();
    return JSON.stringify(answer);
  };
  expect(await said("--redact")).toContain("look: [token]");
  expect(filesWith(store, secret)).toEqual([]);
  // The control.
  expect(await said()).toContain(secret);
});

describe("one body cannot hold up the others", () => {
  const call = (name: string, args: string): string =>
    `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;
  const repeated = (count: number, one: (i: number) => string): string =>
    Array.from({ length: count }, (_, i) => one(i)).join(",");
  const bodies: Readonly<Record<string, (count: number) => string>> = {
    "empty objects as messages": (n) =>
      call("conversation_save", `{"messages":[${repeated(n, () => "{}")}]}`),
    "empty lists as a limit": (n) => call("agent_list", `{"limit":[${repeated(n, () => "[]")}]}`),
    "odd parts": (n) =>
      call(
        "conversation_save",
        `{"messages":[{"role":"user","content":[${repeated(n, () => '{"a":{}}')}]}]}`,
      ),
    "keys in a state": (n) =>
      call("agent_save", `{"id":"x","state":{${repeated(n, (i) => `"k${i}":${i}`)}}}`),
    "unknown arguments": (n) => call("agent_list", `{${repeated(n, (i) => `"k${i}":${i}`)}}`),
    "numbers past a double": (n) => call("agent_list", `{"limit":[${repeated(n, () => "1e999")}]}`),
    "lists in lists": (n) => `{"id":7,"params":${"[".repeat(n)}${"]".repeat(n)}}`,
    "what is no JSON": (n) => `{"id":7,"params":${",".repeat(n)}`,
  };
  const refused = {
    id: 7,
    error: {
      code: -32_600,
      message: expect.stringMatching(`more than ${MAX_VALUES} values.*several calls`),
    },
  };

  test.each(Object.entries(bodies))(
    "%s: past the limit of values it is refused, over HTTP and stdio",
    async (_what, make) => {
      const body = make(MAX_VALUES);
      const { status, body: answer } = await send(ANN, {}, body);
      expect({ status, ...JSON.parse(answer) }).toMatchObject({ status: 413, ...refused });
      const [input, output] = [new PassThrough(), new PassThrough()];
      const transport = new StdioTransport({ input, output }, () => {});
      let isPassedOn = false;
      transport.onmessage = () => {
        isPassedOn = true;
      };
      await transport.start();
      input.write(`${body}\n`);
      const [line] = (await once(output, "data")) as [Buffer];
      expect(JSON.parse(line.toString())).toMatchObject(refused);
      expect(isPassedOn).toBe(false);
      // Control: with fewer values, another check answers.
      expect(JSON.stringify(readExactly(make(100)))).not.toContain("values");
    },
  );

  test("a body with too many values is refused in less time than parsing it would take", () => {
    for (const what of ["empty objects as messages", "keys in a state"]) {
      const body = bodies[what]?.(300_000) as string;
      const least = (work: () => unknown) =>
        Math.min(
          ...[1, 2, 3].map(() => {
            const began = performance.now();
            work();
            return performance.now() - began;
          }),
        );
      expect(least(() => readExactly(body))).toBeLessThan(least(() => JSON.parse(body)) / 2);
    }
  });

  test("values are counted, and not the characters of texts", () => {
    // Three values stand around them: the message, its id and the list.
    const listed = (count: number) => `{"id":7,"params":[${repeated(count, () => "1")}]}`;
    expect(readExactly(listed(MAX_VALUES - 3))).toHaveProperty("value");
    expect(readExactly(listed(MAX_VALUES - 2))).toMatchObject({
      isTooLarge: true,
      refused: [{ id: 7 }],
    });
    for (const text of [
      "[{,".repeat(MAX_VALUES),
      '\\",['.repeat(MAX_VALUES),
      '"'.repeat(MAX_VALUES),
      "\\".repeat(MAX_VALUES),
    ])
      expect(readExactly(JSON.stringify({ text }))).toEqual({ value: { text } });
    // A text that does not end.
    for (const torn of ['{"a', '{"a\\"', '{"a\\', '"'])
      expect(readExactly(torn)).toMatchObject({ refused: [{ code: -32_700 }] });
  });

  if (isThorough)
    test("control: 10,000 messages of 1 KB are saved, 1,000 in a call, and one of 12 MB", async () => {
      const save = async (id: string, messages: readonly object[]): Promise<void> => {
        const saved = await send(
          ANN,
          {},
          call("conversation_save", JSON.stringify({ id, messages })),
        );
        expect([saved.status, saved.body.includes("isError") ? saved.body : ""]).toEqual([200, ""]);
      };
      for (let from = 0; from < 10_000; from += 1_000)
        await save(
          "long",
          Array.from({ length: 1_000 }, (_, i) => ({
            role: "user",
            id: `m${from + i}`,
            name: "ann",
            metadata: { n: i, of: ["a", "b"] },
            content: [{ type: "text", text: "kelp, [and] {weed} ".repeat(53) }],
          })),
        );
      expect((await hold.sessions.state("long")).messages).toHaveLength(10_000);
      await save("large", [{ role: "user", content: "a, ".repeat(4_000_000) }]);
      expect((await hold.sessions.state("large")).messages[0]?.content).toHaveLength(12_000_000);
    });
});
