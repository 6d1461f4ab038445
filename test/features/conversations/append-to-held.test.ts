/** Appending to a session that another process holds, and that may be killed. */
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.js";
import { type Child, startPuppet } from "../../support/children/child.mjs";
import { fresh } from "../../support/places.js";

const puppets: Child[] = [];
afterEach(async () => {
  for (const child of puppets.splice(0)) await child.end();
});

async function holder(path: string): Promise<Child> {
  const child = startPuppet();
  puppets.push(child);
  await child.ask({ do: "open", path });
  await child.ask({ do: "session", session: "s" });
  return child;
}

const said = async (hold: Holdfast) => {
  const { messages } = await hold.sessions.transcript("s", { format: "openai" });
  return messages.map(({ content }) => content);
};
const user = (content: string) => [{ role: "user" as const, content }];

test("APPEND-2: a holder in another process takes messages in between its saves", async () => {
  const path = join(fresh(), "store.db");
  const child = await holder(path);
  await using hold = await open(path);
  expect(await hold.sessions.append("s", user("outside"), { key: "k" })).toEqual({
    count: 1,
    taken: false,
  });
  // It looks now and then while it saves.
  await expect
    .poll(async () => {
      await child.ask({ do: "save", session: "s", text: "own" });
      return said(hold);
    })
    .toContain("outside");
  const before = await said(hold);
  expect(before.filter((text) => text === "outside")).toHaveLength(1);
  await child.ask({ do: "save", session: "s", text: "last" });
  await child.ask({ do: "close-session", session: "s" });
  expect(await said(hold)).toEqual([...before, "last"]);
  expect(await hold.sessions.append("s", user("outside"), { key: "k" })).toEqual({
    count: 1,
    taken: true,
  });
  expect(await said(hold)).toHaveLength(before.length + 1);
  expect(await hold.verify()).toMatchObject({ ok: true });
});

test("APPEND-1: where the holder is killed before it could, whoever sends again, or opens the session, takes them in, once", async () => {
  for (const again of ["append", "open"] as const) {
    const path = join(fresh(), "store.db");
    const child = await holder(path);
    await child.ask({ do: "save", session: "s", text: "own" });
    await using hold = await open(path);
    expect(await hold.sessions.append("s", user("outside"), { key: "k" })).toEqual({
      count: 1,
      taken: false,
    });
    child.signal("SIGKILL");
    await child.closed;
    if (again === "append")
      expect(await hold.sessions.append("s", user("outside"), { key: "k" })).toEqual({
        count: 1,
        taken: true,
      });
    else await (await hold.session("s")).close();
    expect(await said(hold)).toEqual(["own", "outside"]);
    expect(await hold.sessions.append("s", user("outside"), { key: "k" })).toEqual({
      count: 1,
      taken: true,
    });
    expect(await said(hold)).toEqual(["own", "outside"]);
  }
});
