/** `sessions.redact` on every store: the text is nowhere, and everything else is what it was. */
import { describe, expect, test } from "vitest";
import { type Holdfast, open, type Session } from "../../src/index.js";
import { filesWith } from "../support/bytes.js";
import { stores } from "../support/stores.js";

const SECRET = 'Zoë "Quill" O’Hara-7741\nof the Meridian Lighthouse';
const BIG = `${"lorem ipsum dolor ".repeat(600)}${SECRET}${" sit amet".repeat(100)}`;
const file = (text: string | Uint8Array) =>
  ({
    type: "file",
    mediaType: "text/plain",
    data: { bytes: typeof text === "string" ? Buffer.from(text) : text },
  }) as const;

/** A session that has said it everywhere. */
async function tell(hold: Holdfast): Promise<Session> {
  const session = await hold.session("a", {
    title: `about ${SECRET}`,
    tags: ["plain"],
    metadata: { who: { [SECRET]: [SECRET] } },
  });
  session.append({ role: "user", content: `I am ${SECRET}.` }, { role: "assistant", content: BIG, metadata: { seen: SECRET } });
  session.append({
    role: "tool",
    content: [
      { type: "tool-result", callId: "1", outcome: "ok", output: [file(`bytes of ${SECRET}`), { deep: { [SECRET]: SECRET } }] as never },
      file(Buffer.concat([Buffer.from([0xff, 0xfe, 0]), Buffer.from(SECRET)])),
      { type: "reasoning", text: SECRET, provider: { x: { note: SECRET } } },
      { type: "tool-call", callId: "2", name: "t", input: { who: SECRET }, raw: JSON.stringify({ who: SECRET }) },
      { type: "opaque", format: "x", value: { inside: [SECRET] } },
    ],
  });
  session.set("plan", { note: SECRET, n: 1 });
  session.set("big", [BIG]);
  session.set("list", ["x"]);
  await session.checkpoint({ label: `at ${SECRET}`, description: SECRET, metadata: { [SECRET]: SECRET } });
  session.splice("list", 1, 0, SECRET, BIG);
  await session.effect("lookup", { who: SECRET }, { mode: "once", key: "k1" }, async ({ who }) => ({ found: who }));
  await session.effect("lookup", { who: SECRET }, { mode: "repeatable" }, async ({ who }) => BIG + who);
  await session.checkpoint();
  await session.halt(`because of ${SECRET}`);
  return session;
}

describe.each(stores)("redact on $name", ({ name, address }) => {
  test("the text is nowhere, and the rest is as it was", async () => {
    const at = address();
    const hold = await open(at);
    const session = await tell(hold);
    const before = (await hold.checkpoints.list("a")).items;
    const states = await Promise.all(before.map(({ id }) => hold.checkpoints.state(id)));
    await session.close();
    await hold.signal("a", "hint", { value: SECRET });
    if (name === "sqlite" || name === "dir") expect(filesWith(at, SECRET)).not.toEqual([]);
    const dry = await hold.sessions.redact("a", SECRET, { dryRun: true });
    const report = await hold.sessions.redact("a", SECRET);
    expect(dry).toEqual({ ...report, left: [], keptBlobs: [] });
    expect(report).toMatchObject({ sharedWith: [], exempt: [], names: [], keptBlobs: [], outside: true });
    expect(report.left.length).toBe(name === "postgres" ? 2 : 0);
    if (name === "sqlite" || name === "dir") expect(filesWith(at, SECRET)).toEqual([]);
    expect(await hold.verify()).toMatchObject({ ok: true, findings: [] });
    const after = (await hold.checkpoints.list("a")).items;
    const without = (value: unknown) =>
      JSON.parse(
        [SECRET].reduce(
          (text, secret) =>
            text
              .replaceAll(JSON.stringify(JSON.stringify(secret)).slice(3, -3), "[redacted]")
              .replaceAll(JSON.stringify(secret).slice(1, -1), "[redacted]"),
          JSON.stringify(value),
        ),
      );
    expect(after.map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    for (const [i, { id }] of after.entries()) {
      const now = await hold.checkpoints.state(id);
      const was = states[i];
      const plain = (state: unknown) => JSON.parse(JSON.stringify(state).replace(/"(digest|sizeBytes)":("[^"]*"|\d+)/g, '"$1":0'));
      expect(plain(now)).toEqual(plain(without(was)));
    }
    const again = await hold.session("a");
    expect(again.reason).toBe("because of [redacted]");
    expect((await hold.sessions.get("a"))?.metadata).toEqual({ who: { "[redacted]": ["[redacted]"] } });
    again.append({ role: "user", content: "goes on" });
    await again.checkpoint();
    await again.close();
    await hold.close();
    const reopened = await open(at);
    if (name !== "memory") expect(await reopened.verify()).toMatchObject({ ok: true });
    await reopened.close();
  });
});
