/**
 * The server on stdio, killed, ended by signals, and with clients that say too much or are gone.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import { open } from "../../../src/index.js";
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

test("a client that does not listen is not read from either, and does not keep the server alive", async () => {
  const raw = await greeted();
  await raw.write(raw.call(1, "agent_save", { id: "ann", system: "x".repeat(15_000) }));
  await raw.answer(1);
  raw.child.stdout.pause();
  const line = raw.call(2, "agent_load", { id: "ann" });
  let sent = 0;
  // Until it takes no more: what a pipe holds, and a little.
  for (let full = 0; full < 20 && sent < 20_000; ) {
    if (raw.child.stdin.writableNeedDrain) {
      full++;
      await sleep(25);
    } else {
      full = 0;
      raw.child.stdin.write(line.repeat(10).replaceAll('"id":2', `"id":${(sent += 10)}`));
    }
  }
  expect(sent).toBeLessThan(20_000);
  const memory = Number(
    /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${raw.child.pid}/status`, "utf8"))?.[1],
  );
  expect(memory).toBeLessThan(300 * 1024);
  const began = performance.now();
  raw.child.kill("SIGTERM");
  const code = await new Promise((resolve) => raw.child.once("exit", resolve));
  expect(code).toBe(0);
  expect(performance.now() - began).toBeLessThan(14_000);
}, 60_000);

test("a line of 100 MB is let go, answered as too long, and costs no memory; the next is answered", async () => {
  const raw = await greeted();
  const memory = () =>
    Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${raw.child.pid}/status`, "utf8"))?.[1]) *
    1024;
  const before = memory();
  const mega = "x".repeat(1024 * 1024);
  // The id stands before the params, or behind them: clients do either.
  for (const [head, tail, id, megabytes] of [
    [
      '{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"agent_save","arguments":{"id":"ann","system":"',
      '"}}}\n',
      11,
      100,
    ],
    [
      '{"method":"tools/call","params":{"name":"agent_save","arguments":{"id":"bob","system":"',
      '"}},"jsonrpc":"2.0","id":"last"}\n',
      "last",
      400,
    ],
  ] as const) {
    await raw.write(head);
    for (let i = 0; i < megabytes; i++) await raw.write(mega);
    await raw.write(tail);
    expect((await raw.answer(id)).error).toMatchObject({
      code: -32_600,
      message: expect.stringMatching(/A line of \d{9} bytes/),
    });
  }
  await raw.write(raw.call(12, "agent_list", {}));
  expect((await raw.answer(12)).result.structuredContent).toMatchObject({ items: [] });
  // What is kept of it, and what the collector of garbage has not come to yet: a part of what was
  // said.
  expect(memory() - before).toBeLessThan(150 * 1024 * 1024);
  // One that is just within the limit is taken as what it is.
  await raw.write(raw.call(13, "agent_save", { id: "ann", system: "y".repeat(15 * 1024 * 1024) }));
  expect((await raw.answer(13)).result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringMatching(/TOO_LARGE/) }],
  });
}, 120_000);

test("stdin closed in the middle of a save: the save is there whole or not at all, and the process ends by itself", async () => {
  let there = 0;
  for (let round = 0; round < 7; round++) {
    const store = place();
    const raw = await greeted(store);
    const messages = Array.from({ length: 500 }, (_, i) => ({
      role: "user",
      content: `${i} `.repeat(200),
    }));
    const line = raw.call(1, "conversation_save", { id: "c", messages });
    if (round === 0) raw.child.stdin.end(line.slice(0, -20));
    else {
      await raw.write(line);
      await sleep(round - 1);
      raw.child.stdin.end();
    }
    expect(await raw.ended, raw.told).toBe(0);
    await using hold = await open(store);
    const found =
      (await hold.sessions.get("c")) === undefined
        ? 0
        : (await hold.sessions.state("c")).messages.length;
    expect([0, 500]).toContain(found);
    if (found > 0) there++;
    expect(await hold.verify()).toMatchObject({ ok: true });
    // Nobody is left holding it.
    await (await hold.session("c")).close();
  }
  expect(there).toBeGreaterThan(0);
}, 120_000);

test("a client that is gone while it is answered, and signals, end it in order", async () => {
  for (const end of ["stdout", "SIGTERM", "SIGINT"] as const) {
    const store = place();
    const raw = await greeted(store);
    await raw.write(
      raw.call(1, "conversation_save", { id: "c", messages: [{ role: "user", content: "hi" }] }),
    );
    if (end === "stdout") {
      raw.child.stdout.destroy();
      for (let i = 2; i < 50; i++) await raw.write(raw.call(i, "persistence_stats", {}));
      raw.child.stdin.end();
    } else {
      await raw.answer(1);
      raw.child.kill(end);
    }
    expect(await raw.ended, `${end} ${raw.told}`).toBe(0);
    await using hold = await open(store);
    expect((await hold.sessions.state("c")).messages).toHaveLength(1);
  }
});

test("called again under its key after the server was killed, each call has one effect", async () => {
  const store = place();
  const ROUNDS = 8;
  let killed = 0;
  const callAll = async (client: Parameters<typeof calling>[0], i: number) => {
    for (const [name, args] of [
      ["agent_save", { id: "ann", state: { i } }],
      ["checkpoint_create", { agent: "ann", label: `${i}` }],
      [
        "conversation_save",
        { id: "c", agent: "ann", messages: [{ role: "user", content: `${i}` }] },
      ],
    ] as const)
      await calling(client)(name, { ...args, idempotencyKey: `${name}-${i}` });
  };
  for (let i = 0; i < ROUNDS; i++) {
    const first = await way.connect(store);
    const calls = callAll(first.client, i).catch(() => killed++);
    // The first before it can answer.
    if (i === 0) first.kill();
    const death = setTimeout(first.kill, 2 + ((i * 7) % 40));
    await calls;
    clearTimeout(death);
    await first.close();
    // Whatever it heard, it calls again.
    const again = await way.connect(store);
    await callAll(again.client, i);
    await again.close();
  }
  expect(killed).toBeGreaterThan(0);
  await using hold = await open(store);
  const rounds = Array.from({ length: ROUNDS }, (_, i) => `${i}`);
  expect((await hold.agents.get("ann"))?.version).toBe(ROUNDS);
  expect(
    (await hold.agents.snapshots("ann", { limit: 100 })).items.map(({ name }) => name).reverse(),
  ).toEqual(rounds);
  expect((await hold.sessions.state("c")).messages.map(({ content }) => content)).toEqual(rounds);
}, 120_000);
