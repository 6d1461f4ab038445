/** What the agent loop costs: steps, resumes, and sessions that wait. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "../../dist/index.js";
import { bareTable, fill, median, now, prose } from "../measure.mjs";

/**
 * One model call and one keyed tool call a step, both instant, against bare inserts of the same two
 * commits: the reply with its intent, and the outcome with its tool message. Taken in turns, inside
 * the model call, which is nobody's time.
 */
export async function loopSteps({ directory, steps, at }) {
  // The engine compiles what it sees often: what is measured is what runs for long.
  await theLoop({ directory: join(directory, "warm"), steps: 10, at: [steps * 2] });
  return theLoop({ directory, steps, at });
}

/**
 * What the two commits hold beside the text of the reply and of the answer: the call and its
 * intent; the outcome and a checkpoint.
 */
const BESIDE = { reply: "i".repeat(700), outcome: "o".repeat(350) };

async function theLoop({ directory, steps, at }) {
  mkdirSync(directory, { recursive: true });
  const hold = await open(join(directory, "loop.db"));
  const bare = bareTable(join(directory, "loop-bare.db"));
  const most = at.at(-1) + steps;
  const said = Array.from({ length: 64 }, () => prose(1000));
  const ours = [];
  const theirs = [];
  let since;
  let step = 0;
  const agent = hold.agent({
    name: "bench",
    limits: { steps: most + 1 },
    model: async () => {
      if (since !== undefined) ours.push(now() - since);
      const content = said[step % said.length];
      const start = now();
      bare.insert(content + BESIDE.reply);
      bare.insert(content + BESIDE.outcome);
      theirs.push(now() - start);
      step += 1;
      const reply =
        step > most
          ? { content: "done" }
          : { content, toolCalls: [{ callId: `c${step}`, name: "act", input: { step } }] };
      since = now();
      return reply;
    },
    tools: { act: { mode: "keyed", run: ({ step: n }) => said[(n + 7) % said.length] } },
  });
  const result = await agent.run("loop", "go");
  if (result.status !== "completed") throw new Error(`the run ended as ${result.status}`);
  await hold.close();
  bare.close();
  const around = (list, from) => median(list.slice(from, from + steps));
  const per = (from) => around(ours, from) / around(theirs, from);
  const [first, ...later] = at;
  const last = later.at(-1) ?? first;
  return [
    {
      name: "a step of the loop / bare inserts of its two commits",
      value: per(first),
      floor: 1.6,
      note: `${around(ours, first).toFixed(0)} / ${around(theirs, first).toFixed(0)} µs`,
    },
    {
      name: `the same, step ${last} against step ${first}`,
      value: per(last) / per(first),
      floor: 1.1,
      note: `${around(ours, last).toFixed(0)} / ${around(theirs, last).toFixed(0)} µs`,
    },
  ];
}

/** Taking up a session of 10,000 messages whose turn is open: until the model is asked. */
export async function resume({ directory, messages, rounds }) {
  const hold = await open(join(directory, "resume.db"));
  const times = [];
  let asked;
  const agent = hold.agent({
    name: "bench",
    modelRetry: { attempts: 1 },
    model: async () => {
      asked?.();
      throw new Error("not today");
    },
  });
  await agent.run("long", "go");
  const session = await hold.session("long");
  await fill(session, messages / 2);
  await session.close();
  for (let round = 0; round < rounds; round++) {
    const start = now();
    asked = () => times.push((now() - start) / 1000);
    await agent.resume("long");
  }
  await hold.close();
  return [
    {
      name: `resuming a session of ${messages} messages, ms`,
      value: median(times),
      floor: 100,
      unit: true,
    },
  ];
}

/**
 * Sessions of 50 messages in one process, each of which waits for its model. They were made by
 * another: what that took is not theirs.
 */
export async function waiting({ directory, sessions }) {
  const path = join(directory, "waiting.db");
  execFileSync(
    process.execPath,
    [fileURLToPath(new URL("./make-sessions.mjs", import.meta.url)), path, String(sessions)],
    {
      stdio: "inherit",
    },
  );
  const hold = await open(path);
  let asked = 0;
  const release = [];
  const agent = hold.agent({
    name: "bench",
    model: () =>
      new Promise((resolve) => {
        asked += 1;
        release.push(() => resolve({ content: "done" }));
      }),
  });
  const idle = process.memoryUsage().rss;
  const runs = Array.from({ length: sessions }, (_, i) => agent.run(`s${i}`, "go"));
  while (asked < sessions) await new Promise((resolve) => setTimeout(resolve, 20));
  const rss = process.memoryUsage().rss;
  for (const answer of release) answer();
  await Promise.all(runs);
  await hold.close();
  const mb = (bytes) => bytes / 2 ** 20;
  return [
    {
      name: `${sessions} sessions of 50 messages, each waiting for its model, MB`,
      value: mb(rss),
      floor: 250,
      unit: true,
      note: `${mb(idle).toFixed(0)} MB before they were taken up`,
    },
  ];
}
