/**
 * Stored text that attacks the terminal it is shown on (TERMINAL-1 of `src/cli/terminal/text.ts`): it is in
 * every place that holds text, and each command that shows any of them is run. Only newlines and
 * our own colours are sent.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { commands } from "../../src/cli/commands.js";
import { run } from "../../src/cli/run.js";
import { agent, type Holdfast, open } from "../../src/index.js";
import { openDriver } from "../../src/store/sql/sqlite/driver/driver.js";
import { scratch } from "../support/stores.js";

/**
 * Where no control character may be. Directions of text, a tag, a filler: what they do is done by
 * not being seen.
 */
const UNSEEN = "\u202eevil\u202c\u2066x\u2069\u200b\u{e0041}\ufeff";
/**
 * The clipboard, a link, a title, colours, the screen; C1 controls; an overwritten line; more that
 * is not seen.
 */
const ATTACK = `kelp\u001b]52;c;ZXZpbA==\u0007\u001b]8;;http://evil.example\u001b\\link\u001b]8;;\u001b\\\u001b[38;5;201m\u001b[2J\u009b31m\u009d0;x\u009c\rover\u0008\u007f\u000b\u000c\u0000\u2028${UNSEEN}`;
const NAME = `n${UNSEEN}`;
/** On a command line: no process can be given a zero byte. */
const WORD = ATTACK.replaceAll("\0", "");

/** All that may be sent: newlines, tabs, and the colours of `src/cli/terminal/colours.ts`. */
function rawIn(text: string): readonly string[] {
  const bare = text.replace(/\p{Cc}\[(?:1|2|22|3[1-6]|39)m/gu, "");
  return [...bare.matchAll(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{e0041}]/gu)].map(
    ([c]) => `U+${c.codePointAt(0)?.toString(16)}`,
  );
}

const directory = scratch();
const store = join(directory, `s\u001b]52;c;eA==\u0007${UNSEEN}.db`);
const backup = join(directory, `b\u001b[2J${UNSEEN}.db`);
const exported = join(directory, `e\u001b[2J${UNSEEN}.jsonl`);
const foreign = join(directory, `f\u001b[2J${UNSEEN}.json`);
const hostile = join(directory, `dir\u001b[2J${UNSEEN}`);
const broken = join(directory, `broken\u001b[2J${UNSEEN}.db`);
let exports = 0;
const ids = { checkpoint: "", other: "", waiting: "", doubt: "", snapshot: "" };

async function makeWorld(hold: Holdfast): Promise<void> {
  const said = agent({
    name: NAME,
    model: async ({ messages }) => ({
      content: ATTACK,
      toolCalls: [
        {
          callId: "c1",
          name: messages.at(-1)?.content === "pay" ? "pay" : "mail",
          input: { [ATTACK]: ATTACK },
        },
      ],
    }),
    tools: {
      pay: { mode: "once", approval: true, run: () => ATTACK },
      mail: {
        mode: "once",
        retry: { attempts: 1 },
        run: () => {
          throw new Error(ATTACK);
        },
      },
    },
  });
  await hold.bind(said).run(`w${UNSEEN}`, "pay", { key: `k${UNSEEN}` });
  await hold.bind(said).run(`d${UNSEEN}`, "mail");
  const session = await hold.session(NAME, {
    agent: NAME,
    title: ATTACK,
    metadata: { [ATTACK]: ATTACK },
  });
  session.append({ role: "user", name: ATTACK, content: ATTACK, metadata: { [ATTACK]: ATTACK } });
  const first = await session.checkpoint("first");
  session.append({
    role: "assistant",
    content: [
      { type: "reasoning", text: ATTACK },
      { type: "text", text: ATTACK },
      {
        type: "file",
        mediaType: `image/${ATTACK}`,
        name: ATTACK,
        data: { bytes: new Uint8Array(9) },
      },
      { type: "file", mediaType: "image/png", name: ATTACK, data: { url: `http://${ATTACK}` } },
      { type: "tool-call", callId: ATTACK, name: ATTACK, input: { [ATTACK]: ATTACK } },
      { type: "tool-result", callId: ATTACK, name: ATTACK, outcome: "error", output: ATTACK },
    ],
  });
  session.set(NAME, { [ATTACK]: [ATTACK] });
  await session.effect(
    NAME,
    { [ATTACK]: ATTACK },
    { mode: "keyed", key: NAME },
    async () => ATTACK,
  );
  const second = await session.checkpoint({
    label: ATTACK,
    description: ATTACK,
    metadata: { [ATTACK]: ATTACK },
  });
  await session.fail(ATTACK);
  await session.close();
  await hold.sessions.update(NAME, { tags: [NAME] });
  await hold.sessions.fork(first.id, { id: `f${UNSEEN}` });
  await hold.sessions.append(`c${UNSEEN}`, [{ role: "user", content: ATTACK }], { create: true });
  await hold.sessions.cancel(`c${UNSEEN}`, ATTACK);
  await hold.agents.save({
    id: NAME,
    name: NAME,
    type: NAME,
    capabilities: [NAME],
    system: ATTACK,
    state: { [NAME]: ATTACK },
  });
  const snapshot = await hold.agents.snapshot(NAME, { name: ATTACK, description: ATTACK });
  const of = async (status: "waiting" | "in-doubt") =>
    (await hold.effects.list({ status })).items[0]?.effectId ?? "";
  Object.assign(ids, { checkpoint: first.id, other: second.id, snapshot: snapshot.id });
  Object.assign(ids, { waiting: await of("waiting"), doubt: await of("in-doubt") });
}

beforeAll(async () => {
  const hold = await open(store);
  await makeWorld(hold);
  await hold.backup(backup);
  let rows = "";
  for await (const row of hold.export()) rows += row;
  writeFileSync(exported, rows);
  await hold.close();
  writeFileSync(foreign, JSON.stringify({ [ATTACK]: ATTACK }));
  for (const folder of ["", "agents", "conversations", "checkpoints", NAME]) {
    mkdirSync(join(hostile, folder), { recursive: true });
    const fields = {
      id: ATTACK,
      checkpoint_id: ATTACK,
      session_id: ATTACK,
      timestamp: ATTACK,
      messages: ATTACK,
      name: ATTACK,
      version: ATTACK,
    };
    for (const text of [JSON.stringify(fields), ATTACK])
      writeFileSync(join(hostile, folder, `${text.length}\u001b[2J${UNSEEN}.json`), text);
  }
  await breakStore();
});

/**
 * A store in which rows were changed by hand: what is wrong with them is told with some of their
 * text.
 */
async function breakStore(): Promise<void> {
  writeFileSync(broken, readFileSync(backup));
  const hold = await open(broken);
  await hold.agents.snapshot(NAME);
  await hold.close();
  const db = openDriver(broken, "better-sqlite3");
  const changed = `{"id":"${ATTACK}","x":"${ATTACK}"}`;
  db.prepare("UPDATE doc SET text = ? WHERE rowid % 2 = 0").run(changed);
  db.prepare("UPDATE session SET head = ? WHERE rowid % 3 = 0").run(changed);
  db.prepare("UPDATE session SET label = ? WHERE rowid % 3 = 1").run(changed);
  db.prepare("UPDATE save SET items = ? WHERE seq > 3").run(changed);
  db.close();
}

interface Printed {
  readonly exit: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command in this process. */
async function printed(words: readonly string[], colours: boolean): Promise<Printed> {
  const out = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const)
    vi.spyOn(process[name], "write").mockImplementation(
      (chunk: unknown, ...more: readonly unknown[]) => {
        out[name] +=
          typeof chunk === "string" ? chunk : Buffer.from(chunk as Uint8Array).toString();
        for (const done of more) if (typeof done === "function") done();
        return true;
      },
    );
  vi.spyOn(process, "exit").mockImplementation((() => {
    throw Object.assign(new Error("exit"), { name: "AbortError" });
  }) as never);
  vi.stubEnv("FORCE_COLOR", colours ? "1" : "0");
  try {
    return { exit: await run(words, "1"), ...out };
  } finally {
    afterOne();
    process.exitCode = undefined;
  }
}

function afterOne(): void {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
}
afterEach(afterOne);

/**
 * In this order: the last ones change the store. Of each command, what it prints, and what it says
 * where it fails.
 */
const looks = (): readonly (readonly string[])[] => [
  ["ls"],
  ["ls", "--agent", NAME],
  ["ls", "--tag", NAME],
  ["ls", "--tag", WORD],
  ["log"],
  ["log", NAME],
  ["log", NAME, "--graph"],
  ["log", "--agent", NAME],
  ["log", `f${UNSEEN}`],
  ["show", NAME],
  ["show", `w${UNSEEN}`],
  ["show", `d${UNSEEN}`],
  ["show", ids.other],
  ["show", WORD],
  ["show", "n"],
  ["show", NAME, "--full"],
  ["diff", ids.checkpoint, ids.other],
  ["diff", NAME, `f${UNSEEN}`],
  ["diff", NAME, WORD],
  ["search", "kelp"],
  ["search", "kelp", "--agent", NAME],
  ["search", WORD],
  ["tail", NAME],
  ["tail", `w${UNSEEN}`],
  ["tail", `c${UNSEEN}`],
  ["tail", WORD],
  ["bisect", NAME, "--run", "exit 1"],
  ["bisect", NAME, "--run", `: ${UNSEEN}; exit 127`],
  ["bisect", NAME, "--run", "true", "--good", WORD],
  ["stats"],
  ["effects"],
  ["agents"],
  ["snapshots", NAME],
  ["snapshots", WORD],
  ["restore", ids.snapshot, "--dry-run"],
  ["restore", ids.snapshot],
  ["restore", WORD, "--yes"],
  ["prune", NAME, "--keep", "1", "--dry-run"],
  ["prune", WORD, "--keep", "1"],
  ["rm", NAME],
  ["rm", NAME, "--dry-run"],
  ["rm", WORD, "--yes"],
  ["gc", "--dry-run"],
  ["verify"],
  ["verify", WORD],
  ["doctor"],
  ["import", "holdfast", exported, "--dry-run"],
  ["import", "holdfast", foreign],
  ["import", "holdfast", WORD],
  ...["ares", "ccswarm", "smooth", "aethershell"].flatMap((kind) =>
    [foreign, hostile].map((at) => ["import", kind, at, "--dry-run"]),
  ),
  ["import", WORD, foreign],
  ["export", NAME, "--output", exported],
  ["export", NAME, "--output", `${exported}-${exports++}`],
  ["export", WORD],
  ["backup", backup],
  ["backup", WORD],
  ["restore-backup", foreign],
  ["restore-backup", WORD],
  ["mark-restored"],
  ["cancel", WORD],
  ["completion", WORD],
  ["mcp", "--http", WORD],
  ["mcp", "--http", "0", "--tokens", WORD],
  ["__complete", "--", "show", "--store", store, ""],
  ["__complete", "--", "snapshots", "--store", store, ""],
  ["__complete", "--", "show", "--store", WORD, ""],
  ["demo", WORD],
  [WORD],
  [`--${WORD}`],
  ["ls", `--${WORD}`],
  ["ls", "--limit", WORD],
  ["ls", "--cursor", WORD],
  ["help", WORD],
];

const changes = (): readonly (readonly string[])[] => [
  ["fork", ids.checkpoint, "--id", `g${UNSEEN}`],
  ["fork", ids.checkpoint, "--id", `g${UNSEEN}`],
  ["fork", WORD],
  ["approve", ids.waiting, "--by", NAME],
  ["approve", WORD],
  ["deny", ids.waiting, "--reason", WORD],
  ["settle", ids.doubt, "--error", WORD, "--by", NAME],
  ["settle", ids.doubt, "--output", WORD],
  ["snapshot", NAME, "--name", WORD],
  ["rewind", NAME, ids.checkpoint, "--yes"],
  ["rewind", NAME, WORD, "--yes"],
  ["switch", NAME, ids.other, "--yes"],
  ["switch", NAME, WORD, "--yes"],
  ["cancel", `f${UNSEEN}`, "--reason", WORD],
  ["cancel", `f${UNSEEN}`],
  ["prune", NAME, "--keep", "1", "--yes"],
  ["restore", ids.snapshot, "--yes"],
  ["rm", NAME, "--yes"],
  ["gc", "--yes"],
];

const ofStore = (words: readonly string[], at: string): readonly string[] =>
  commands.find(({ name }) => name === words[0])?.store === true
    ? [...words, "--store", at]
    : words;

/** Answers what was printed where something of ours was: the attack came to be shown at all. */
async function attacked(
  lists: () => readonly (readonly string[])[],
  at: string,
  how: readonly string[],
  colours = false,
) {
  let shown = 0;
  for (const words of lists()) {
    const { stdout, stderr } = await printed([...ofStore(words, at), ...how], colours);
    expect(rawIn(stdout), `stdout of ${JSON.stringify(words)}`).toEqual([]);
    expect(rawIn(stderr), `stderr of ${JSON.stringify(words)}`).toEqual([]);
    expect(stdout + stderr, JSON.stringify(words)).not.toMatch(/Unexpected:|"UNEXPECTED"/);
    if (/\\u\{?202e|\\u001b|\\e/.test(stdout + stderr)) shown += 1;
  }
  return shown;
}

describe("no stored text reaches a terminal as anything but text", () => {
  test("control: the bytes are in the store, and they are found where they are printed as they are", () => {
    const bytes = readFileSync(store);
    const wal = readFileSync(`${backup}`);
    for (const text of ["\u202eevil\u202c", "\u009b31m"])
      expect(bytes.includes(text) || wal.includes(text)).toBe(true);
    // Below U+0020 JSON has escapes.
    expect(bytes.includes("\\u001b]52;c;ZXZpbA==") || wal.includes("\\u001b]52;c;ZXZpbA==")).toBe(
      true,
    );
    expect(rawIn(ATTACK).length).toBeGreaterThan(20);
    expect(rawIn(NAME).length).toBe(7);
    expect(rawIn("a\n\tb \u001b[31mred\u001b[39m")).toEqual([]);
  });

  test("control: each command is run", () => {
    const run = new Set([...looks(), ...changes()].map(([name]) => name));
    expect(commands.map(({ name }) => name).filter((name) => !run.has(name))).toEqual([]);
  });

  test("commands that look, without colours", async () => {
    expect(await attacked(looks, store, [])).toBeGreaterThan(50);
  });

  test("commands that look, with colours", async () => {
    expect(await attacked(looks, store, [], true)).toBeGreaterThan(50);
  });

  test("commands that look, as JSON", async () => {
    expect(
      await attacked(() => looks().filter(([name]) => name !== "__complete"), store, ["--json"]),
    ).toBeGreaterThan(50);
  });

  test("a store in which rows were changed by hand", async () => {
    for (const how of [[], ["--json"]])
      expect(await attacked(looks, broken, how)).toBeGreaterThan(20);
  });

  test("an export is data: JSON, in which controls below U+0020 are escapes", async () => {
    const { stdout, exit } = await printed(["export", "--all", "--store", store], false);
    expect(exit).toBe(0);
    expect(stdout).toContain("\\u001b]52;c;ZXZpbA==");
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u);
  });

  test("commands that change something", async () => {
    expect(await attacked(changes, store, [])).toBeGreaterThan(10);
  });
});
