/**
 * The store of examples/store passes the contract of the required part, and an agent on it goes on
 * after a real kill.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { open } from "../../src/index.js";
import type { Store } from "../../src/store/index.js";
import { contractFor } from "../../src/testing/index.js";
import { scratch } from "../support/stores.js";

const folder = fileURLToPath(new URL("../../examples/store/", import.meta.url));
const { FileStore } = (await import(join(folder, "file-store.mjs"))) as {
  readonly FileStore: new (path: string) => Store;
};

describe("the store of the examples passes the contract", async () => {
  const make = () => {
    const directory = scratch();
    return {
      traits: { durable: true, oneMachine: true, shared: false },
      open: async (tenant = "plain") => new FileStore(join(directory, `${tenant}.jsonl`)),
    };
  };
  const cases = await contractFor(make);
  test("for its required part, and for what it lacks", () => {
    expect(cases.filter(({ needs }) => needs.length === 0).length).toBeGreaterThan(20);
    expect(cases.filter(({ needs }) => needs.length > 0)).toHaveLength(5);
  });
  test.each(cases)("$name", ({ run }) => run(make));
});

test("it has less than 300 lines", () => {
  const text = readFileSync(join(folder, "file-store.mjs"), "utf8");
  expect(text.split("\n").length - 1).toBeLessThan(300);
});

test("an agent that is killed inside a call goes on where it was, and ships once", async () => {
  const cwd = scratch();
  const agent = join(folder, "agent.mjs");
  const killed = spawn(process.execPath, [agent, "orders.jsonl", "tell"], { cwd });
  let said = "";
  killed.stdout.on("data", (text) => {
    said += text;
  });
  const [, signal] = await once(killed, "close");
  expect([signal, said]).toEqual(["SIGKILL", "shipped\n"]);
  const { stdout } = await promisify(execFile)(process.execPath, [agent, "orders.jsonl"], { cwd });
  expect(stdout).toBe("told\ncompleted: The order is on its way.\n");
  const hold = await open(new FileStore(join(cwd, "orders.jsonl")));
  expect(await hold.verify()).toMatchObject({ ok: true });
  await hold.close();
});

test("a line that was torn is set aside, and damage is an error", async () => {
  const path = join(scratch(), "a.jsonl");
  const hold = await open(new FileStore(path));
  const session = await hold.session("a");
  session.set("n", 1);
  await session.checkpoint();
  await hold.close();
  const whole = readFileSync(path);
  writeFileSync(path, Buffer.concat([whole, Buffer.from('[{"session":"a"')]));
  const again = await open(new FileStore(path));
  expect((await again.sessions.state("a")).state).toEqual({ n: 1 });
  await again.close();
  expect(readFileSync(`${path}.torn`, "utf8")).toBe('[{"session":"a"');
  writeFileSync(path, whole.subarray(5));
  expect(() => new FileStore(path)).toThrow("damaged");
});
