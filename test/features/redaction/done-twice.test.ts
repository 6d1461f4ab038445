/**
 * WITHIN-1: bounded work may be done more than once, where the processor was taken away. A
 * redaction by a pattern answers the same then.
 */
import { expect, test, vi } from "vitest";
import { open } from "../../../src/index.js";

const times = vi.hoisted(() => ({ each: 1 }));

vi.mock("../../../src/engine/util/within.js", async (original) => {
  const real = await original<typeof import("../../../src/engine/util/within.js")>();
  const within: typeof real.within = (ms, work) => {
    for (let n = 1; n < times.each; n++) real.within(ms, work);
    return real.within(ms, work);
  };
  return { ...real, within };
});

async function redacted(each: number) {
  times.each = each;
  const hold = await open("memory:");
  const session = await hold.session("a", { title: "about ana" });
  for (let n = 0; n < 6; n++) {
    session.append({ role: "user", content: `${n}: ask ana` });
    session.set("who", `ana, ${n}`);
    await session.checkpoint(`to ana ${n}`);
  }
  await session.close();
  await hold.sessions.fork((await hold.checkpoints.latest("a"))?.id as string, { id: "fork" });
  const fork = await hold.session("fork");
  fork.append({ role: "user", content: "and ana again" });
  await fork.checkpoint();
  await fork.close();
  const dry = await hold.sessions.redact("a", /\bana\b/, { dryRun: true });
  const report = await hold.sessions.redact("a", /\bana\b/);
  const { messages, state } = await hold.sessions.state("a");
  await hold.close();
  return { dry, report, state, texts: messages.map(({ content }) => content) };
}

test("a redaction by a pattern whose work is done three times answers as one", async () => {
  const once = await redacted(1);
  expect(once.report).toMatchObject({ records: 19, saves: 7, others: [] });
  expect(once.state).toEqual({ who: "[redacted], 5" });
  expect(await redacted(3)).toEqual(once);
});
