/** The server on stdio, with clients that break off, or say half of what they mean. */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { open } from "../../../src/index.js";
import { run, runApart } from "../../cli/command.js";
import { errorOf } from "../../support/error-of.js";
import { calling, ways } from "../../support/mcp/connect.js";
import { RawClients } from "../../support/mcp/raw-client.js";
import { scratch } from "../../support/stores.js";

const [way] = ways as [(typeof ways)[number]];
const directory = scratch();
let count = 0;
const place = () => join(directory, `agent-${count++}.db`);

const clients = new RawClients();
afterEach(() => clients.end());
const greeted = (store = place()) => clients.greeted(store);

test("half a line is waited for; a line that is no JSON, or no message, is passed over; only messages are on stdout", async () => {
  const raw = await greeted();
  const line = raw.call(1, "agent_save", { id: "ann", system: "ä😀" });
  const bytes = Buffer.from(line);
  // In the middle of a character.
  const middle = bytes.indexOf(Buffer.from("😀")) + 2;
  raw.child.stdin.write(bytes.subarray(0, middle));
  await sleep(50);
  expect(raw.messages.filter(({ id }) => id === 1)).toEqual([]);
  raw.child.stdin.write(bytes.subarray(middle));
  expect((await raw.answer(1)).result.structuredContent).toMatchObject({ agent: { id: "ann" } });
  await raw.write(
    '{"jsonrpc":"2.0","id":2,"meth\nnonsense\n\n\r\n[]\n{}\nnull\n{"jsonrpc":"1.0","id":3,"method":"ping"}\n',
  );
  await raw.write(raw.call(4, "agent_load", { id: "ann" }));
  expect((await raw.answer(4)).result.structuredContent).toMatchObject({
    agent: { system: "ä😀" },
  });
  // Two at once, and one that ends with a carriage return.
  await raw.write(raw.line(5, "ping") + raw.line(6, "ping").replace("\n", "\r\n"));
  await raw.answer(5);
  await raw.answer(6);
  raw.child.stdin.end('{"jsonrpc":"2.0","id":7,"method":"pi');
  expect(await raw.ended).toBe(0);
  for (const message of raw.messages) expect(message).toMatchObject({ jsonrpc: "2.0" });
  expect(raw.messages.some(({ id }) => id === 7)).toBe(false);
});

test("what is no message of the protocol is answered where it can be told who asked, and several on one line are all answered", async () => {
  const raw = await greeted();
  for (const [text, id, code] of [
    [
      '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":{}}}}',
      1,
      -32_600,
    ],
    ['{"jsonrpc":"2.0","id":2,"method":"ping","params":[]}', 2, -32_600],
    ['{"jsonrpc":"2.0","id":"three","method":"ping","extra":1}', "three", -32_600],
    ['{"id":4,"method":"ping"}', 4, -32_600],
    ['{"jsonrpc":"2.0","id":5.5,"method":"ping"}', null, -32_600],
    ["[]", null, -32_600],
    ['{"jsonrpc"', null, -32_700],
  ] as const) {
    const before = raw.out.length;
    await raw.write(`${text}\n`);
    while (!raw.out.slice(before).includes("\n")) await sleep(5);
    expect(JSON.parse(raw.out.slice(before)), text).toMatchObject({ id, error: { code } });
  }
  // A word each, and no stack.
  expect(raw.told.split("\n").filter((line) => line !== "")).toHaveLength(7);
  await raw.write(`[${raw.line(11, "ping").trim()},${raw.call(12, "agent_list", {}).trim()},{}]\n`);
  expect((await raw.answer(11)).result).toEqual({});
  expect((await raw.answer(12)).result.structuredContent.items).toEqual([]);
});

test("a number that JavaScript would change is refused with its path, and nothing is done with another", async () => {
  const raw = await greeted();
  const save = (id: string, state: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"agent_save","arguments":{"id":"ann","state":${state}}}}`;
  const path = "params.arguments.state.order";
  await raw.write(`${save("1", '{"order":9007199254740993}')}\n`);
  expect(await raw.answer(1)).toMatchObject({
    error: { code: -32_602, message: expect.stringMatching(`${path} .*send it as a string`) },
  });
  await raw.write(`${save("2", '{"order":1e400}')}\n`);
  expect(await raw.answer(2)).toMatchObject({
    error: { code: -32_602, message: expect.stringContaining(path) },
  });
  await raw.write(`[${raw.line(3, "ping").trim()},${save("4", '{"order":9007199254740993}')}]\n`);
  for (const id of [3, 4]) expect(await raw.answer(id)).toMatchObject({ error: { code: -32_602 } });
  await raw.write(`${save("5", `{"x":${"[".repeat(1_200)}${"]".repeat(1_200)}}`)}\n`);
  expect(await raw.answer(5)).toMatchObject({
    error: { message: expect.stringContaining("nested") },
  });
  // The id itself would be another's.
  const before = raw.out.length;
  await raw.write(`${save("9007199254740993", "{}")}\n`);
  while (!raw.out.slice(before).includes("\n")) await sleep(5);
  expect(JSON.parse(raw.out.slice(before))).toMatchObject({ id: null, error: { code: -32_602 } });
  await raw.write(raw.call(6, "agent_load", { id: "ann" }));
  expect((await raw.answer(6)).result).toMatchObject({ isError: true });
  await raw.write(`${save("7", '{"order":"9007199254740993","n":9007199254740991}')}\n`);
  await raw.answer(7);
  await raw.write(raw.call(8, "agent_load", { id: "ann" }));
  expect((await raw.answer(8)).result.structuredContent.agent.state).toEqual({
    order: "9007199254740993",
    n: 9007199254740991,
  });
});

test("what was asked before the end of the input is answered", async () => {
  const store = place();
  const raw = await greeted(store);
  let lines = "";
  for (let i = 1; i <= 50; i++)
    lines += raw.call(i, "conversation_save", {
      id: `c${i}`,
      messages: [{ role: "user", content: "hi" }],
    });
  raw.child.stdin.end(lines);
  expect(await raw.ended, raw.told).toBe(0);
  expect(
    raw.messages.filter(({ result }) => result?.structuredContent?.taken === true),
  ).toHaveLength(50);
});

test("a client that listens slowly hears everything, whole, also what comes at the end", async () => {
  const raw = await greeted();
  await raw.write(raw.call(1, "agent_save", { id: "ann", system: "x".repeat(15_000) }));
  await raw.answer(1);
  raw.child.stdout.pause();
  let lines = "";
  for (let i = 2; i <= 41; i++) lines += raw.call(i, "agent_load", { id: "ann" });
  // The last without the end of its line.
  raw.child.stdin.end(lines.trimEnd());
  const slow = setInterval(() => {
    raw.child.stdout.resume();
    setTimeout(() => raw.child.stdout.pause(), 2);
  }, 60);
  expect(await raw.ended, raw.told).toBe(0);
  clearInterval(slow);
  raw.child.stdout.resume();
  expect(
    raw.messages.filter(
      ({ result }) => result?.structuredContent?.agent?.system?.length === 15_000,
    ),
  ).toHaveLength(40);
}, 60_000);

test("somebody who is to be told of changes does not keep the server from ending, or from answering", async () => {
  const raw = clients.start(place());
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  for (let i = 1; i <= 300; i++)
    await raw.write(
      raw.line(i, "subscriptions/listen", {
        _meta: meta,
        notifications: { resourcesListChanged: true },
      }),
    );
  await raw.write(raw.line(1_000, "tools/list", { _meta: meta }));
  expect((await raw.answer(1_000)).result.tools).toHaveLength(17);
  const began = performance.now();
  raw.child.stdin.end();
  expect(await raw.ended, raw.told).toBe(0);
  expect(performance.now() - began).toBeLessThan(3_000);
});

test("whatever is printed in the process, only messages are on stdout", async () => {
  const noise =
    "import c from 'node:console';const say=c.log;setInterval(()=>{say('noise');console.log('noise');process.stdout.write('noise\\n')},20)";
  const raw = clients.start(place(), [], {
    NODE_OPTIONS: `--import "data:text/javascript,${encodeURIComponent(noise)}"`,
  });
  // What is printed before the command begins is nobody's to keep back.
  while (!raw.told.includes("noise")) await sleep(20);
  raw.out = "";
  await raw.greet();
  for (let i = 1; i < 20; i++) {
    await raw.write(raw.line(i, "ping"));
    await raw.answer(i);
    await sleep(10);
  }
  expect(raw.out).not.toContain("noise");
});

test("a call that is cancelled while it waits for another is not made, and is not answered", async () => {
  const store = place();
  await using hold = await open(store);
  const session = await hold.session("c");
  session.append({ role: "user", content: "hi" });
  const { id } = await session.checkpoint();
  const { client, close } = await way.connect(store);
  const cancel = new AbortController();
  const calls = [
    client.callTool(
      { name: "checkpoint_create", arguments: { session: "c", label: "late" } },
      { signal: cancel.signal },
    ),
    client.callTool({ name: "checkpoint_restore", arguments: { id } }, { signal: cancel.signal }),
  ].map((call) => errorOf(() => call));
  // It waits for the session, which is held here.
  await sleep(300);
  cancel.abort("changed my mind");
  for (const call of calls) expect(String(await call)).toMatch(/changed my mind/);
  await session.close();
  await sleep(300);
  const { items } = await hold.checkpoints.list("c", { branches: "all" });
  expect(items.map(({ label }) => label)).toEqual([undefined]);
  // Without being cancelled they would have been: the control.
  expect(await calling(client)("checkpoint_create", { session: "c", label: "now" })).toMatchObject({
    checkpoint: { label: "now" },
  });
  await close();
});

test("where another holds a conversation, the answer says who, and that it may go through later", async () => {
  const store = place();
  await using hold = await open(store);
  await using session = await hold.session("c");
  session.append({ role: "user", content: "hi" });
  await session.checkpoint();
  const { client, close } = await way.connect(store);
  const said = String(await errorOf(() => calling(client)("checkpoint_create", { session: "c" })));
  expect(said).toMatch(/LEASE_HELD.*process \d+.*tried again/);
  // What is said to it is kept until whoever holds it takes it in.
  expect(
    await calling(client)("conversation_save", {
      id: "c",
      messages: [{ role: "user", content: "from outside" }],
    }),
  ).toMatchObject({
    taken: false,
  });
  await close();
});

test("a store that cannot be opened, and wrong options, end it with a word on stderr and nothing on stdout", async () => {
  for (const [args, code, says, ended = run] of [
    // It has begun with stdout before it opens the store.
    [["--store", "ftp://x"], 1, /no store for "ftp:"/, runApart],
    [["--http", "http"], 2, /--http: it takes a port/],
    [["--http", "70000"], 2, /--http: it takes a port/],
    [["--tokens", "x"], 2, /--tokens: it goes with --http/],
    [["--http", "0", "--tokens", "/no/such/file"], 3, /no file/],
    [["--agent", "\u0007"], 2, /control character/],
    [["--nonsense"], 2, /takes no "--nonsense"/],
    // A value that is lost does not take an option with it.
    [["--agent", "--read-only"], 2, /--agent needs a value/],
    [["--read-only", "--store", join(directory, "mistyped.db")], 3, /There is no store/],
    [["--http", "0", "--store", "ftp://x"], 1, /no store for "ftp:"/],
  ] as const) {
    const { exit, stdout, stderr } = await ended(["mcp", ...args], {
      env: { HOLDFAST_STORE: place() },
    });
    expect(exit, `${args} ${stderr}`).toBe(code);
    expect(stderr).toMatch(says);
    expect(stderr).not.toMatch(/ at .*\.js:\d+/);
    expect(stdout).toBe("");
  }
});
