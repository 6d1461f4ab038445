/**
 * The small store that damage is done to, everything a reader can ask of it, and how an answer is
 * judged (D3).
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { HoldfastError, open } from "../../../dist/index.js";

/**
 * Makes the store: four sessions, a fork, a rewind, a prune, a redaction, a blob, mail that waits,
 * a deleted session; closed cleanly.
 */
export async function makeStore(path) {
  const hold = await open(path);
  const a = await hold.session("a", {
    agent: "writer",
    tags: ["x", "y"],
    metadata: { team: "one" },
  });
  for (let n = 0; n < 7; n++) {
    a.append(
      { role: "user", content: `question ${n} ${"lorem ipsum ".repeat(n * 8)}` },
      { role: "assistant", content: `answer ${n}` },
    );
    a.set("step", n);
    if (n === 3)
      a.set(
        "plan",
        Array.from({ length: 280 }, (_, i) => `${i}: ${"plan ".repeat(5)}`),
      );
    await a.checkpoint(`step ${n}`);
  }
  const early = (await hold.checkpoints.list("a", { limit: 100 })).items;
  await hold.sessions.fork(early[3].id, { id: "fork" });
  await a.rewind(early[2].id);
  a.append({ role: "user", content: "another way" });
  await a.checkpoint("after the rewind");
  await a.close();
  // Of a message, a value that is kept as a blob, and labels: sections and marks that were
  // rewritten.
  await hold.sessions.redact("a", ["answer 1", "17: plan", "step 2"]);

  const b = await hold.session("b", { agent: "reader", title: "The second" });
  for (let n = 0; n < 14; n++) {
    b.append({ role: "user", content: `b ${n} ${"text ".repeat(150)}` });
    b.set("seen", { n, list: [1, 2, 3] });
    await b.checkpoint();
  }
  await hold.checkpoints.prune("b", { keep: 4 });
  await b.complete({ answer: 42 });
  await b.close();

  const fork = await hold.session("fork");
  fork.append({ role: "user", content: "on the fork" });
  await fork.checkpoint();
  await fork.close();

  const gone = await hold.session("gone");
  gone.append({ role: "user", content: "deleted soon" });
  await gone.checkpoint();
  await gone.close();
  await hold.sessions.delete("gone");

  const c = await hold.session("c", { tags: ["x"] });
  c.append({ role: "user", content: "short" });
  await c.checkpoint();
  await hold.sessions.update("c", { archived: true, title: "The third" });
  await c.close();

  // Mail waits where another store holds the session.
  await (await hold.session("d")).checkpoint();
  const other = await open(path);
  await other.sessions.cancel("d", "no longer wanted");
  await other.close();
  await hold.close();
}

/** What is known of the sound store: every id, so that a reader can ask for each of them. */
export async function idsOf(path) {
  const hold = await open(path);
  const sessions = (await hold.sessions.list({ limit: 1000 })).items.map(({ id }) => id);
  const checkpoints = [];
  for (const id of sessions)
    for (const { id: at } of (await hold.checkpoints.list(id, { limit: 1000, branches: "all" }))
      .items)
      checkpoints.push(at);
  await hold.close();
  return { sessions, checkpoints: [...new Set(checkpoints)], blobs: blobsOf(path) };
}

/** Digests of blobs, from the bytes of the file: only their readers know them otherwise. */
function blobsOf(path) {
  const text = readFileSync(path).toString("latin1");
  return [
    ...new Set([...text.matchAll(/"blob":"([A-Za-z0-9_-]{43})"/g)].map(([, digest]) => digest)),
  ];
}

/**
 * Every question, by name, with its answer: `{ value }`, `{ error }` for one of ours, `{ raw }` for
 * any other.
 */
export async function askAll(path, { sessions, checkpoints, blobs }) {
  const answers = new Map();
  const ask = async (name, question) => {
    try {
      answers.set(name, { value: structuredClone(await question()) });
    } catch (error) {
      answers.set(
        name,
        error instanceof HoldfastError
          ? { error: error.code }
          : { raw: `${error?.name}: ${error?.message}` },
      );
    }
  };
  let hold;
  await ask("open", async () => {
    hold = await open(path, { busyMs: 200 });
    return true;
  });
  if (hold === undefined) return answers;
  await ask("sessions.list", () => hold.sessions.list({ limit: 1000 }));
  await ask("sessions.list by agent", () => hold.sessions.list({ agent: "writer" }));
  await ask("sessions.list by status", () => hold.sessions.list({ status: "completed" }));
  await ask("sessions.list by tag", () => hold.sessions.list({ tag: "x" }));
  await ask("sessions.list archived", () => hold.sessions.list({ archived: true }));
  await ask("sessions.list not archived", () => hold.sessions.list({ archived: false }));
  for (const id of sessions) {
    await ask(`sessions.get ${id}`, () => hold.sessions.get(id));
    await ask(`checkpoints.list ${id}`, () => hold.checkpoints.list(id, { limit: 1000 }));
    await ask(`checkpoints.list all lines ${id}`, () =>
      hold.checkpoints.list(id, { limit: 1000, branches: "all" }),
    );
    await ask(`checkpoints.latest ${id}`, () => hold.checkpoints.latest(id));
  }
  for (const id of checkpoints) {
    await ask(`checkpoints.get ${id}`, () => hold.checkpoints.get(id));
    await ask(`checkpoints.state ${id}`, () => hold.checkpoints.state(id));
  }
  for (const digest of blobs) await ask(`blob ${digest}`, () => hold.blob(digest));
  await ask("stats", () => hold.stats());
  await ask("verify", async () => (await hold.verify()).ok);
  // Last, because it changes the store: what waits in the inbox is taken in when the session is
  // opened.
  if (sessions.includes("d"))
    await ask("mail", async () => {
      const session = await hold.session("d");
      return [session.status, session.reason];
    });
  await ask("close", () => hold.close());
  return answers;
}

/**
 * Judges the answers of a damaged store against those of the sound one.
 *   harmless  every answer is the true one
 *   found     some are errors of ours, the others true, and verify reports the damage
 *   wrong     an untrue answer, a raw error, or damage in effect that verify does not report
 */
export function judge(truth, answers, { tailOf } = {}) {
  return tailOf === undefined ? judgeWhole(truth, answers) : judgeTail(truth, answers, tailOf);
}

function judgeWhole(truth, answers) {
  const wrong = [];
  let damaged = false;
  for (const [name, answer] of answers) {
    if ("raw" in answer) wrong.push(`${name}: ${answer.raw}`);
    else if ("error" in answer) damaged = true;
    else if (name === "verify") continue;
    else if (answer.value?.damaged !== undefined) {
      // The rest of a list, beside sessions that it says are damaged: true, and damage that was
      // found.
      damaged = true;
      const ids = answer.value.damaged.map(({ id }) => id);
      const sound = {
        ...truth.get(name).value,
        items: truth.get(name).value.items.filter(({ id }) => !ids.includes(id)),
      };
      const { damaged: _, ...rest } = answer.value;
      if (!isDeepStrictEqual(rest, sound)) wrong.push(`${name}: ${difference(sound, rest)}`);
    }
    // Counts are of what is there: they cannot know what should be.
    else if (name !== "stats" && !isDeepStrictEqual(answer.value, truth.get(name).value))
      wrong.push(`${name}: ${difference(truth.get(name).value, answer.value)}`);
  }
  const opened = "value" in answers.get("open");
  const reported = !opened || answers.get("verify")?.value !== true;
  if (damaged && !reported) {
    const [name, { error }] = [...answers].find(([, answer]) => "error" in answer);
    wrong.push(`verify is content, and ${name} answers ${error}`);
  }
  return {
    verdict: wrong.length > 0 ? "wrong" : damaged || reported ? "found" : "harmless",
    wrong,
    reported,
  };
}

/**
 * A damaged log loses its tail: answers may be older, but never untrue. What concerns the sessions
 * in `anchored` was witnessed, so its loss must be reported; the rest was not, and cannot be told
 * from never written.
 */
function judgeTail(truth, answers, { anchored, checkpoints }) {
  const wrong = [];
  const missing = [];
  const known = [...truth.values()].flatMap(({ value }) => value?.items ?? [value]);
  const wasTrue = (item) =>
    item?.createdAt !== undefined && item.updatedAt !== undefined
      ? known.some((other) => other?.id === item.id && other.createdAt === item.createdAt)
      : known.some((other) => isDeepStrictEqual(other, item));
  for (const [name, answer] of answers) {
    if (["stats", "verify", "close", "open", "mail"].includes(name) && !("raw" in answer)) continue;
    const expected = truth.get(name);
    if ("raw" in answer) wrong.push(`${name}: ${answer.raw}`);
    else if ("error" in answer) {
      if (answer.error === "NOT_FOUND") missing.push(name);
    } else if (!isDeepStrictEqual(answer, expected)) {
      missing.push(name);
      for (const item of answer.value?.items ?? (answer.value === undefined ? [] : [answer.value]))
        if (!wasTrue(item)) wrong.push(`${name}: ${difference(expected.value, item)}`);
    }
  }
  const opened = "value" in answers.get("open");
  const reported = !opened || answers.get("verify")?.value !== true;
  const witnessed = missing.filter(
    (name) =>
      anchored.some((id) => name.endsWith(` ${id}`)) ||
      checkpoints.some((id) => name.endsWith(` ${id}`)),
  );
  if (witnessed.length > 0 && !reported)
    wrong.push(`${witnessed[0]} was lost, an anchor knew of it, and verify is content`);
  return {
    verdict: wrong.length > 0 ? "wrong" : reported ? "found" : "harmless",
    wrong,
    reported,
    lost: missing.length,
  };
}

function difference(truth, value) {
  if (value === undefined) return "undefined instead of what is there";
  if (
    Array.isArray(truth?.items) &&
    Array.isArray(value?.items) &&
    truth.items.length !== value.items.length
  )
    return `${value.items.length} items instead of ${truth.items.length}`;
  return `an untrue value ${JSON.stringify(value).slice(0, 120)}`;
}

/** Puts bytes in place as the store's file, with nothing beside it but what is given. */
export function place(path, files) {
  for (const suffix of ["", "-wal", "-shm", "-anchors", "-journal"]) {
    const bytes = files[suffix];
    if (bytes === undefined) rmSync(`${path}${suffix}`, { force: true });
    else writeFileSync(`${path}${suffix}`, bytes);
  }
}

/** The files with one bit changed, or one of them cut short. */
export function damage(files, { suffix, bit, length }) {
  const bytes = Buffer.from(files[suffix]);
  if (length !== undefined) return { ...files, [suffix]: bytes.subarray(0, length) };
  bytes[bit >> 3] ^= 1 << (bit & 7);
  return { ...files, [suffix]: bytes };
}
