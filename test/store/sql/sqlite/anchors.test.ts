/** D3: anchors find a lost tail, and what was removed on purpose is no loss. */
import { appendFileSync, copyFileSync, readFileSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../../../src/index.js";
import { startPuppet } from "../../../support/children/child.mjs";
import { fresh } from "../../../support/places.js";

async function saved(path: string, id: string, text: string): Promise<void> {
  const hold = await open(path);
  const session = await hold.session(id);
  session.append({ role: "user", content: text });
  await session.checkpoint();
  await hold.close();
}

test("D3: a session deleted by a process that was then killed is not reported as lost", async () => {
  const path = join(fresh(), "store.db");
  await saved(path, "a", "one");
  const child = startPuppet();
  await child.ask({ do: "open", path });
  await child.ask({ do: "delete", session: "a" });
  await child.end();
  const hold = await open(path);
  expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
  await hold.close();
});

test("D3: a session saved by one process and deleted by another is not reported as lost once both have closed", async () => {
  const path = join(fresh(), "store.db");
  const child = startPuppet();
  await child.ask({ do: "open", path });
  await child.ask({ do: "session", session: "a" });
  await child.ask({ do: "save", session: "a", text: "one" });
  await child.ask({ do: "close-session", session: "a" });
  const hold = await open(path);
  await hold.sessions.delete("a");
  await hold.close();
  await child.ask({ do: "close" });
  await child.end();
  const again = await open(path);
  expect(await again.verify()).toMatchObject({ ok: true, findings: [] });
  await again.close();
});

test("negative control: an older copy of the file put back is reported, by verify and by whoever opens the session", async () => {
  const path = join(fresh(), "store.db");
  await saved(path, "a", "one");
  copyFileSync(path, `${path}.old`);
  await saved(path, "a", "two");
  copyFileSync(`${path}.old`, path);
  const hold = await open(path);
  expect(await hold.verify()).toMatchObject({
    ok: false,
    findings: expect.arrayContaining([expect.objectContaining({ code: "LOST_TAIL" })]),
  });
  await expect(hold.session("a")).rejects.toMatchObject({ code: "CORRUPT" });
  await hold.close();
});

test("the file stays as long as it has to be, also where each process saves once and looks at little", async () => {
  const path = join(fresh(), "store.db");
  await saved(path, "a", "one");
  const anchors = `${path}-anchors`;
  const [row = ""] = readFileSync(anchors, "utf8").split("\n").filter(Boolean);
  // Just below the next doubling: whoever writes then goes over all of it.
  appendFileSync(
    anchors,
    `${row}\n`.repeat(Math.floor((128 * 1024 - 20 - statSync(anchors).size) / (row.length + 1))),
  );
  const long = statSync(anchors).size;
  await saved(path, "a", "two");
  expect(statSync(anchors).size).toBeLessThan(long / 10);
  const hold = await open(path);
  expect(await hold.verify()).toMatchObject({ ok: true });
  await hold.close();
  // What is left of it still finds a loss.
  copyFileSync(path, `${path}.old`);
  await saved(path, "a", "three");
  copyFileSync(`${path}.old`, path);
  const again = await open(path);
  expect(await again.verify()).toMatchObject({ ok: false });
  expect((await again.sessions.list()).damaged).toHaveLength(1);
  expect((await again.sessions.list()).damaged).toHaveLength(1);
  await again.close();
});

test("ANCHOR-2: a row that was cut short says nothing, and the rows after it are read", async () => {
  const path = join(fresh(), "store.db");
  await saved(path, "a", "one");
  appendFileSync(`${path}-anchors`, readFileSync(`${path}-anchors`, "utf8").trim().slice(0, 40));
  copyFileSync(path, `${path}.old`);
  await saved(path, "b", "two");
  const sound = await open(path);
  expect(await sound.verify()).toMatchObject({ ok: true });
  await sound.close();
  copyFileSync(`${path}.old`, path);
  const hold = await open(path);
  expect(await hold.verify()).toMatchObject({
    ok: false,
    findings: [expect.objectContaining({ code: "LOST_TAIL" })],
  });
  await hold.close();
});

test("ANCHOR-2: the file cut at any length accuses nobody", async () => {
  const path = join(fresh(), "store.db");
  await saved(path, "a", "one");
  await saved(path, "b", "two");
  const { length } = readFileSync(`${path}-anchors`);
  for (let bytes = length; bytes >= 0; bytes -= 7) {
    truncateSync(`${path}-anchors`, bytes);
    const hold = await open(path);
    expect(await hold.verify()).toMatchObject({ ok: true });
    await hold.close();
  }
});
