/** Commands that move things, go on, or ask the shell: what they do, as a process of their own. */
import { spawn, spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { open } from "../../src/index.js";
import { filesWith } from "../support/bytes.js";
import { eachNth } from "../support/runs.js";
import { everyStore, scratch } from "../support/stores.js";
import { bin, onTerminal, run } from "./command.js";
import { makeWorld } from "./world.js";

const directory = scratch();
const fresh = (): string => mkdtempSync(join(directory, "at-"));

const made = async () => {
  const cwd = fresh();
  const world = await makeWorld(join(cwd, ".holdfast/state.db"));
  return {
    cwd,
    world,
    cli: (...words: string[]) => run(words, { cwd }),
    json: async (...words: string[]) =>
      JSON.parse((await run([...words, "--json"], { cwd })).stdout),
  };
};

test("export and import: through a pipe and through files, to a store of another kind, once", async () => {
  const { cwd, cli, json } = await made();
  const piped = spawnSync(
    "sh",
    [
      "-c",
      `'${process.execPath}' '${bin}' export --all -q | '${process.execPath}' '${bin}' import holdfast - --store dir:other`,
    ],
    { cwd, encoding: "utf8" },
  );
  expect(piped.status).toBe(0);
  expect(piped.stdout).toMatch(/^Imported 6 sessions \(\d+ saves, 2 blobs, .*, 1 agent\)\.\n$/);
  expect((await run(["ls", "--store", "dir:other", "--utc", "-q"], { cwd })).stdout).toBe(
    (await cli("ls", "--utc", "-q")).stdout,
  );

  expect(await cli("export", "order-42", "-o", "one.jsonl")).toMatchObject({
    exit: 0,
    stdout: expect.stringMatching(/^1 session, .* in one\.jsonl\.\n$/),
  });
  expect(statSync(join(cwd, "one.jsonl")).mode & 0o077).toBe(0);
  expect(await cli("export", "order-42", "-o", "one.jsonl")).toMatchObject({
    exit: 4,
    stderr: expect.stringContaining("not there yet"),
  });
  expect(
    await json("import", "holdfast", "one.jsonl", "--store", "two.db", "--dry-run"),
  ).toMatchObject({
    sessions: [{ id: "order-42", outcome: "imported" }],
    dryRun: true,
  });
  expect(await json("import", "holdfast", "one.jsonl", "--store", "two.db")).toMatchObject({
    sessions: [{ outcome: "imported" }],
  });
  expect(await json("import", "holdfast", "one.jsonl", "--store", "two.db")).toMatchObject({
    sessions: [{ outcome: "known" }],
  });

  const torn = readFileSync(join(cwd, "one.jsonl"), "utf8").slice(0, -40);
  writeFileSync(join(cwd, "torn.jsonl"), torn);
  expect(await cli("import", "holdfast", "torn.jsonl", "--store", "three.db")).toMatchObject({
    exit: 5,
    stdout: "",
  });
  expect(await cli("import", "holdfast", "missing.jsonl")).toMatchObject({ exit: 3 });
  expect(await cli("export")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("export needs one of"),
  });
  expect(await onTerminal(["export", "--all"], { cwd })).toMatchObject({
    exit: 2,
    stdout: expect.stringContaining("not for a terminal"),
  });
});

test.each([
  ["ares", "ares"],
  ["ccswarm", "ccswarm"],
  ["smooth", "smooth"],
  ["aethershell", "aethershell"],
])("import %s: said before, then done, then known", async (kind, name) => {
  const cwd = fresh();
  const path = fileURLToPath(new URL(`../migrate/fixtures/${name}`, import.meta.url));
  const cli = (...words: string[]) => run(["import", kind, ...words], { cwd });
  const dry = await cli(path, "--dry-run");
  expect(dry).toMatchObject({
    exit: 0,
    stdout: expect.stringMatching(/^SESSION +OUTCOME[\s\S]*\nWould import \d+ session/),
  });
  expect(existsSync(join(cwd, ".holdfast"))).toBe(false);
  const done = await cli(path);
  expect(done).toMatchObject({
    exit: 0,
    stdout: expect.stringMatching(/\nImported \d+ session[\s\S]* became /),
    stderr: expect.stringContaining("Next: holdfast log "),
  });
  const known = JSON.parse((await cli(path, "--json")).stdout);
  expect(known).toMatchObject({ version: 1, kind, dryRun: false });
  expect(known.sessions.every(({ outcome }: { outcome: string }) => outcome === "known")).toBe(
    true,
  );
  expect((await run(["verify"], { cwd })).exit).toBe(0);
  expect((await run(["ls"], { cwd })).stdout.split("\n").length).toBeGreaterThan(2);
});

test("import: what is not there, not that, or nothing at all is said, and no store is made", async () => {
  const cwd = fresh();
  expect(await run(["import", "ares", "nowhere"], { cwd })).toMatchObject({ exit: 3, stdout: "" });
  expect(await run(["import", "aers", "."], { cwd })).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("Did you mean ares?"),
  });
  const ccswarm = fileURLToPath(new URL("../migrate/fixtures/ccswarm", import.meta.url));
  expect(await run(["import", "smooth", ccswarm], { cwd })).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("holdfast import ccswarm"),
  });
  expect(await run(["import", "ares", ccswarm, "--moved"], { cwd })).toMatchObject({ exit: 2 });
  expect(existsSync(join(cwd, ".holdfast"))).toBe(false);
});

test("rm --scrub and gc --scrub leave nothing of a deleted session in the files", async () => {
  const cwd = fresh();
  const store = join(cwd, "state.db");
  const hold = await open(store);
  const words = "my grandmother's maiden name";
  for (const id of ["one", "two"])
    await hold.sessions.append(id, [{ role: "user", content: words }], { create: true });
  await hold.close();
  expect(filesWith(store, words)).not.toEqual([]);
  const told = "Deleted text is gone from the store's files.";
  const cli = (...line: string[]) => run([...line, "--yes", "--store", store], { cwd });
  expect((await cli("rm", "one")).stdout).not.toContain(told);
  expect((await cli("rm", "two", "--scrub")).stdout).toContain(told);
  expect(filesWith(store, words)).toEqual([]);
  expect(JSON.parse((await cli("gc", "--scrub", "--json")).stdout)).toMatchObject({ left: [] });
});

test("snapshot and restore: said before, refused without a word, undone by what it proposes", async () => {
  const { cli, json } = await made();
  const { snapshot } = await json("snapshot", "support", "--name", "mine");
  expect(snapshot).toMatchObject({ agent: "support", name: "mine", sessions: 4 });
  expect((await cli("rm", "order-43", "--yes")).exit).toBe(0);
  const short = snapshot.id.slice(0, 12);
  expect(await json("restore", short, "--dry-run")).toMatchObject({
    dryRun: true,
    sessions: expect.arrayContaining([{ id: "order-43", outcome: "made" }]),
  });
  expect(await cli("restore", short)).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("--yes"),
  });
  const restored = await cli("restore", short, "--yes");
  expect(restored).toMatchObject({
    exit: 0,
    stdout: expect.stringContaining("support went back to"),
  });
  expect((await cli("show", "order-43")).exit).toBe(0);
  const undo = /holdfast (restore \S+)/.exec(restored.stderr)?.[1]?.split(" ") ?? [];
  expect((await cli(...undo, "--yes")).exit).toBe(0);
  expect((await cli("show", "order-43")).stdout).toContain("archived");
});

test("tail -f follows a session that another process works on, and Ctrl-C ends it", {
  timeout: 30_000,
}, async () => {
  const { cwd } = await made();
  const child = spawn(process.execPath, [bin, "tail", "-f", "sums", "-n", "1", "--json"], {
    cwd,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines: string[] = [];
  child.stdout
    .setEncoding("utf8")
    .on("data", (text: string) => lines.push(...text.split("\n").filter(Boolean)));
  const until = async (seen: (lines: readonly string[]) => boolean) => {
    for (const end = performance.now() + 10_000; performance.now() < end && !seen(lines); )
      await sleep(20);
    return seen(lines);
  };
  expect(await until(() => lines.length >= 2)).toBe(true);
  expect(JSON.parse(lines[0] as string)).toEqual({ version: 1, command: "tail", session: "sums" });
  const hold = await open(join(cwd, ".holdfast/state.db"));
  const session = await hold.session("sums");
  session.append({ role: "user", content: "One more." });
  await session.checkpoint("live");
  await session.close();
  await hold.close();
  expect(
    await until(
      (all) =>
        all.some((line) => line.includes("One more.")) &&
        all.some((line) => line.includes('"label":"live"')),
    ),
  ).toBe(true);
  const ended = new Promise((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? signal)),
  );
  child.kill("SIGINT");
  expect(await ended).toBe(0);
});

test("bisect: a command that is not there, one that cannot tell, one that takes too long; along what a fork shares", async () => {
  const { cwd, cli, json, world } = await made();
  expect(await cli("bisect", "sums")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("--run"),
  });
  expect(await cli("bisect", "sums", "--run", "no-such-command-here")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("cannot be run (exit code 127)"),
  });
  expect(await cli("bisect", "sums", "--run", "kill -9 $$")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("says nothing of the checkpoint"),
  });
  expect(await json("bisect", "sums", "--run", "true")).toMatchObject({
    found: null,
    why: "all-good",
  });
  expect(await json("bisect", "sums", "--run", "exit 125")).toMatchObject({
    found: null,
    why: "unknown",
  });
  expect(
    await json("bisect", "sums", "--run", "(sleep 1; touch late); true", "--timeout", "50"),
  ).toMatchObject({ found: { step: 1 } });
  // What it has started ends with it.
  await sleep(1_200);
  expect(existsSync(join(cwd, "late"))).toBe(false);
  const some = 'grep -q "Take 5" && exit 1; exit 125';
  expect(await json("bisect", "sums", "--run", some, "--good", "3")).toMatchObject({
    found: { step: 5 },
    skipped: expect.arrayContaining([expect.any(String)]),
  });
  // What the fork shares is of another session.
  const shared = await json("bisect", "order-42-what-if", "--run", "! grep -q lookup");
  expect(shared).toMatchObject({ found: { id: world.checkpoints["first"] } });
  const env = await cli(
    "bisect",
    "sums",
    "--run",
    'test "$HOLDFAST_SESSION" = sums && test -n "$HOLDFAST_CHECKPOINT" && exit 1',
    "--good",
    "3",
    "--bad",
    "~1",
  );
  expect(env.exit).toBe(0);
});

/** The tests may keep their stores in memory, which is a finding of its own. */
const codesOf = ({
  findings,
}: {
  readonly findings: readonly { readonly code: string }[];
}): readonly string[] =>
  findings
    .map(({ code }) => code)
    .filter((code) => code !== "IN_MEMORY")
    .sort();

test("doctor: what is wrong, each with what to do, and an exit code by it", async () => {
  const { cwd, cli, json } = await made();
  const sick = await json("doctor");
  expect(sick).toMatchObject({
    ok: false,
    store: { kind: "sqlite", format: expect.any(Number) },
    stats: { sessions: 6 },
  });
  expect(codesOf(sick)).toEqual(["IN_DOUBT", "WAITING"]);
  for (const { message, fix } of sick.findings)
    expect(message.length * fix.length).toBeGreaterThan(0);
  const said = await cli("doctor");
  expect(said).toMatchObject({ exit: 1, stdout: expect.stringMatching(/^holdfast +0\.\d.*Node/) });
  expect(said.stdout).toMatch(/IN_DOUBT.*\n.*holdfast effects --status in-doubt/);

  for (const file of ["state.db"]) chmodSync(join(cwd, ".holdfast", file), 0o644);
  const open = await json("doctor");
  expect(open.findings).toContainEqual(
    expect.objectContaining({
      code: "OPEN_TO_OTHERS",
      level: "wrong",
      fix: expect.stringContaining("chmod"),
    }),
  );
  chmodSync(join(cwd, ".holdfast/state.db"), 0o600);

  // A process that is killed leaves its lease behind: the negative of "nothing is wrong", and no
  // reason to worry.
  const holder = spawn(
    process.execPath,
    [
      "--input-type=module",
      "-e",
      `import { open } from ${JSON.stringify(join(bin, "../../index.js"))}; const hold = await open(${JSON.stringify(join(cwd, ".holdfast/state.db"))}); await hold.session("held"); console.log("held"); setInterval(() => {}, 1000);`,
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await new Promise((resolve) => holder.stdout.once("data", resolve));
  expect((await json("doctor")).store.leases).toMatchObject({
    held: [{ sessionId: "held", holder: `process ${holder.pid}` }],
    abandoned: [],
  });
  const gone = new Promise((resolve) => holder.once("close", resolve));
  holder.kill("SIGKILL");
  await gone;
  expect((await json("doctor")).store.leases).toMatchObject({ held: [], abandoned: ["held"] });

  for (const effect of (await json("effects")).items)
    await cli(
      effect.status === "waiting" ? "deny" : "settle",
      effect.effectId,
      ...(effect.status === "waiting" ? ["--reason", "no"] : ["--error", "no"]),
    );
  await cli("rm", "held", "--yes");
  const well = await json("doctor");
  expect([well.ok, codesOf(well)]).toEqual([true, []]);
  expect(await run(["doctor", "--store", "memory:"], { cwd })).toMatchObject({
    exit: 0,
    stdout: expect.stringContaining("NOT_KEPT"),
  });
});

test("completion: commands, options, values and ids, and nothing where there is no store", async () => {
  const { cwd, cli, world } = await made();
  const complete = async (...words: string[]) =>
    (await cli("__complete", "--", ...words)).stdout
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split("\t")[0]);
  expect(await complete("re")).toEqual(["rewind", "restore", "restore-backup"]);
  expect(await complete("ls", "--st")).toEqual(["--status", "--store"]);
  expect(await complete("ls", "--status", "in")).toEqual(["in-progress", "in-doubt"]);
  expect(await complete("ls", "--status=wa")).toEqual(["--status=waiting"]);
  expect(await complete("show", "order-42")).toEqual(["order-42", "order-42-what-if"]);
  expect(await complete("log", "nothing")).toEqual([]);
  expect(await complete("rewind", "order-42", "")).toContain(world.checkpoints["first"]);
  expect(await complete("show", "sums@1")).toEqual(["sums@15", "sums@12"]);
  expect(await complete("settle", "")).toEqual([world.effects.inDoubt, world.effects.waiting]);
  expect(await complete("restore", "snap-")).toEqual([world.snapshot]);
  expect(await complete("ls", "--agent", "")).toEqual(["support"]);
  expect(await complete("import", "a")).toEqual(["ares", "aethershell"]);
  expect(await complete("import", "ares", "x")).toEqual(["__files__"]);
  expect(await complete("help", "sho")).toEqual(["show"]);
  const empty = fresh();
  expect(await run(["__complete", "--", "show", ""], { cwd: empty })).toMatchObject({
    exit: 0,
    stdout: "",
  });
  expect(existsSync(join(empty, ".holdfast"))).toBe(false);
  // In a shell: what it offers for a line that was begun.
  const line = `source <('${process.execPath}' '${bin}' completion bash); holdfast() { '${process.execPath}' '${bin}' "$@"; }; COMP_WORDS=(holdfast show order-42-w); COMP_CWORD=2; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`;
  expect(spawnSync("bash", ["--norc", "-c", line], { cwd, encoding: "utf8" })).toMatchObject({
    status: 0,
    stdout: "order-42-what-if\n",
    stderr: "",
  });
});

test("a script that changes something twice hits nothing else: beginnings of ids are for looking, and for people", async () => {
  const { cwd, cli } = await made();
  expect((await cli("rm", "order-42", "--yes")).exit).toBe(0);
  for (const words of [
    ["rm", "order-42", "--yes"],
    ["cancel", "order-42"],
    ["prune", "order-42", "--keep", "1", "--yes"],
    ["rewind", "order-42", "~1"],
    ["switch", "order-42", "~1"],
  ])
    expect([words[0], await cli(...words)]).toMatchObject([words[0], { exit: 3, stdout: "" }]);
  expect((await cli("show", "order-42-what-if")).exit).toBe(0);
  // Somebody who is asked sees which one it is.
  expect(await onTerminal(["rm", "order-42-w"], { cwd, input: "y\n" })).toMatchObject({
    exit: 0,
    stdout: expect.stringContaining("order-42-what-if is deleted"),
  });
});

test("after a prune: what came before is compared, and nothing seems to be left by rewinding", async () => {
  const { cli } = await made();
  await cli("prune", "sums", "--keep", "2", "--yes");
  const log = await cli("log", "sums");
  expect(log.stdout.split("\n")).toHaveLength(4);
  expect((await cli("diff", "sums")).exit).toBe(0);
  expect((await cli("log", "sums", "--graph")).stdout).not.toContain("left by rewinding");
  // Of the first there is, all of it.
  expect(await cli("diff", "order-42@9", "--exit-code")).toMatchObject({
    exit: 1,
    stdout: expect.stringContaining("+ user: Refund order 42"),
  });
});

test("log --json says where it was cut", async () => {
  const { json } = await made();
  for (const words of [["sums"], ["--agent", "support"], []]) {
    expect(await json("log", ...words, "-n", "1"), words.join(" ")).toMatchObject({
      more: true,
      items: [{}],
    });
    expect(await json("log", ...words), words.join(" ")).not.toHaveProperty("more");
  }
});

test("prune removes snapshots by rules, and by the policies that were set", async () => {
  const { cwd, cli, json, world } = await made();
  const second = (await json("snapshot", "support", "--kind", "automatic")).snapshot.id;
  expect(await cli("prune", "--snapshots", "support")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("needs a rule"),
  });
  expect(await cli("prune", "--snapshots", "support", "--all")).toMatchObject({ exit: 2 });
  expect(await cli("prune", "--snapshots", "support", "--keep", "1")).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("--yes"),
  });
  expect(await cli("prune", "--snapshots", "support", "--keep", "1", "--dry-run")).toMatchObject({
    exit: 0,
    stdout: `1 snapshot of support would go.\n  ${world.snapshot}\n`,
    stderr: "Next: holdfast prune --keep 1 --snapshots support\n",
  });
  expect(await json("prune", "--snapshots", "support", "--keep", "1", "--yes")).toMatchObject({
    agent: "support",
    removed: 1,
    dryRun: false,
  });
  const third = (await json("snapshot", "support")).snapshot.id;
  const hold = await open(join(cwd, ".holdfast/state.db"));
  await hold.retention.set({ snapshots: { keep: 1 } });
  await hold.close();
  expect(await json("prune", "--all", "--dry-run")).toMatchObject({
    removedSnapshots: 1,
    prunedSnapshots: [{ agent: "support", removed: 1 }],
  });
  expect((await cli("prune", "--all", "--yes")).stdout).toBe(
    "Removed 0 checkpoints of 6 sessions, and 1 snapshot of agents.\n",
  );
  const { items } = await json("snapshots", "support");
  expect(items.map(({ id }: { id: string }) => id)).toEqual([third]);
  expect(second).not.toBe(third);
});

test("looking makes no store: not of an empty file, an empty directory, nor in a dry run", async () => {
  const cwd = fresh();
  writeFileSync(join(cwd, "empty.db"), "");
  mkdirSync(join(cwd, "empty"));
  for (const store of ["empty.db", "dir:empty", "missing.db", "dir:missing"])
    expect((await run(["ls", "--store", store], { cwd })).exit).toBe(3);
  const { cwd: other } = await made();
  await run(["export", "--all", "-o", "all.jsonl"], { cwd: other });
  expect(
    (
      await run(
        ["import", "holdfast", join(other, "all.jsonl"), "--dry-run", "--store", "new.db"],
        { cwd },
      )
    ).stdout,
  ).toMatch(/^Would import 6 sessions/);
  expect(readdirSync(cwd).sort()).toEqual(["empty", "empty.db"]);
  expect([statSync(join(cwd, "empty.db")).size, readdirSync(join(cwd, "empty"))]).toEqual([0, []]);
});

test("show: a call is told by its own answer, though its id was used before, and by who approved it with what", async () => {
  const { cwd, cli, world } = await made();
  const hold = await open(join(cwd, ".holdfast/state.db"));
  const session = await hold.session("same-ids");
  const call = (name: string) =>
    ({
      role: "assistant",
      content: [{ type: "tool-call", callId: "1", name, input: {} }],
    }) as const;
  const answer = (outcome: "ok" | "error") =>
    ({
      role: "tool",
      content: [{ type: "tool-result", callId: "1", outcome, output: "x" }],
    }) as const;
  session.append(call("first"), answer("ok"), call("second"), answer("error"), call("third"));
  await session.checkpoint();
  await session.close();
  await hold.close();
  const { stdout } = await cli("show", "same-ids");
  expect(
    [...stdout.matchAll(/→ (\w+) \{\} *(\w*)/g)].map(([, name, state]) => [name, state]),
  ).toEqual([
    ["first", "done"],
    ["second", "error"],
    ["third", ""],
  ]);
  await cli(
    "approve",
    world.effects.waiting,
    "--input",
    '{"cents":5}',
    "--note",
    "less",
    "--by",
    "ana",
  );
  expect((await cli("show", "order-44")).stdout).toContain(
    'approved by ana with {"cents":5}: less',
  );
});

test("a decision that contradicts the one that stands is refused, and says which that is", async () => {
  const { cli, world } = await made();
  expect((await cli("approve", world.effects.waiting, "--by", "ana")).exit).toBe(0);
  expect((await cli("approve", world.effects.waiting, "--by", "ana")).exit).toBe(0);
  expect(await cli("deny", world.effects.waiting, "--reason", "too much")).toMatchObject({
    exit: 4,
    stderr: expect.stringContaining('was already approved by "ana". This decision does not count.'),
  });
});

test("show: lines that have no end are cut wherever they stand, and whole where somebody wants them so", async () => {
  const cwd = fresh();
  const long = "x".repeat(200_000);
  const hold = await open(join(cwd, ".holdfast/state.db"));
  const session = await hold.session("long");
  session.append({ role: "user", content: long });
  session.append({
    role: "tool",
    content: [{ type: "tool-result", callId: "1", outcome: "ok", output: { long } }],
  });
  session.set("long", long);
  await session.checkpoint();
  await session.close();
  await hold.close();
  expect((await run(["show", "long"], { cwd })).stdout.length).toBeLessThan(10_000);
  expect((await run(["show", "long", "--full"], { cwd })).stdout.split(long)).toHaveLength(4);
});

test("options that every command takes may stand before it", async () => {
  const { cwd } = await made();
  expect((await run(["--store", ".holdfast/state.db", "--utc", "ls", "-q"], { cwd })).stdout).toBe(
    (await run(["ls", "--utc", "-q"], { cwd })).stdout,
  );
  expect(await run(["--stor", "x", "ls"], { cwd })).toMatchObject({
    exit: 2,
    stderr: expect.not.stringContaining("Did you mean"),
  });
  expect(await run(["constructor"], { cwd })).toMatchObject({
    exit: 2,
    stderr: expect.stringContaining("Try: holdfast help"),
  });
});

test("ids may be shortened, as long as one fits", async () => {
  const { cli, world, json } = await made();
  const { first = "", half = "" } = world.checkpoints;
  expect((await json("show", first.slice(0, 6) + first.slice(16))).checkpoint.id).toBe(first);
  expect((await json("show", "order-42@half of it")).checkpoint.id).toBe(half);
  expect((await json("show", "order-42@~0")).checkpoint.id).toBe(half);
  expect((await json("show", "order-42-w")).session.id).toBe("order-42-what-if");
  expect(await cli("show", "order-42@99")).toMatchObject({
    exit: 3,
    stderr: expect.stringContaining("holdfast log order-42"),
  });
  expect(await cli("show", "")).toMatchObject({ exit: 2 });
  expect((await json("effects")).items).toHaveLength(2);
  expect((await cli("approve", world.effects.waiting.slice(0, 5))).exit).toBe(0);
});

test("a number that JavaScript would change is refused by --output and --input, and decides nothing", async () => {
  const { cli, world, json } = await made();
  for (const [decision, option, effect] of [
    ["settle", "--output", world.effects.inDoubt],
    ["approve", "--input", world.effects.waiting],
  ] as const) {
    const answer = await cli(decision, effect, option, '{"order":[9007199254740993]}');
    expect(answer).toMatchObject({
      exit: 2,
      stderr: expect.stringMatching(`${option}: .*order\\[0\\].*send it as a string`),
    });
    expect(await cli(decision, effect, option, "{order}")).toMatchObject({
      exit: 2,
      stderr: expect.stringContaining("is not JSON ("),
    });
  }
  expect((await json("effects")).items).toHaveLength(2);
  await cli("approve", world.effects.waiting, "--input", '{"order":"9007199254740993"}');
  expect((await json("effects")).items).toHaveLength(1);
});

test("a store in Postgres is looked at by the same words, and its password is shown nowhere", async () => {
  const cwd = fresh();
  const store = everyStore.find(({ name }) => name === "postgres")?.address() as string;
  await makeWorld(store);
  expect(
    (await run(["log", "order-42", "--graph", "--store", store], { cwd })).stdout.split("\n"),
  ).toHaveLength(7);
  expect((await run(["show", "order-42-w", "--store", store], { cwd })).stdout).toContain(
    "Send a new one instead.",
  );
  expect((await run(["settle", "order-43", "--retry", "--store", store], { cwd })).exit).toBe(0);
  const doctor = await run(["doctor"], { cwd, env: { HOLDFAST_STORE: store } });
  expect(doctor.stdout).toMatch(/store +postgres, database \w+, schema test[\s\S]*PostgreSQL \d+/);
  const { password } = new URL(store);
  const hinted = await run(
    ["ls", "--store", store.replace(/^(postgres:\/\/[^:@/]*)(:[^@]*)?@/, "$1:pass-word@")],
    { cwd },
  );
  expect([hinted.exit, hinted.stderr]).toEqual([
    0,
    expect.stringMatching(/--store '?postgres:\/\/\w+@/),
  ]);
  expect(hinted.stderr).not.toContain("pass-word");
  if (password !== "") expect(doctor.stdout + doctor.stderr).not.toContain(password);
});

test("a store in a directory, and one of a tenant, are looked at by the same words", async () => {
  const cwd = fresh();
  await makeWorld(`dir:${join(cwd, "state")}`);
  expect(
    (await run(["log", "order-42", "--graph", "--store", "dir:state"], { cwd })).stdout.split("\n"),
  ).toHaveLength(7);
  expect((await run(["ls", "--store", "dir:state", "--tenant", "acme"], { cwd })).stdout).toBe(
    "No sessions yet.\n",
  );
  expect((await run(["doctor", "--store", "dir:state"], { cwd })).stdout).toContain(
    "each journal and its directory",
  );
});

test.runIf(existsSync("/dev/full"))(
  "output that cannot be written is told in one line",
  async () => {
    const { cwd } = await made();
    const to = (line: string) =>
      spawnSync("sh", ["-c", `'${process.execPath}' '${bin}' ${line}`], { cwd, encoding: "utf8" });
    for (const words of eachNth(3, [
      "ls",
      "ls --json",
      "log sums",
      "export --all",
      "help",
      "--version",
      "tail sums",
    ])) {
      const { status, stderr } = to(`${words} > /dev/full`);
      expect(status, words).toBe(1);
      expect(stderr, words).toMatch(
        /^holdfast: The output could not be written to stdout \(ENOSPC\)\. .*\n$/m,
      );
      expect(stderr, words).not.toMatch(/^ +at /m);
    }
    expect(to("ls 2> /dev/full > /dev/full").status).toBe(1);
    // A reader that has seen enough is no error.
    expect(to("ls --json | head -c 1")).toMatchObject({ status: 0, stderr: "" });
  },
);

test.each([
  ["SIGTERM", 143],
  ["SIGINT", 130],
] as const)("a command that is stopped by %s exits with %i", async (signal, exit) => {
  const { cwd } = await made();
  /** Each with the file by which it is known to have begun. */
  const commands: readonly (readonly [began: string, ...words: readonly string[]])[] = [
    ["into.db", "import", "holdfast", "-", "--store", "into.db"],
    ["began", "bisect", "sums", "--run", "touch began; sleep 60"],
  ];
  for (const [began, ...words] of commands) {
    const child = spawn(process.execPath, [bin, ...words], {
      cwd,
      stdio: ["pipe", "ignore", "ignore"],
    });
    const ended = new Promise((resolve) => child.once("close", (code, by) => resolve(code ?? by)));
    while (!existsSync(join(cwd, began)) && child.exitCode === null) await sleep(20);
    child.kill(signal);
    expect(await ended, words.join(" ")).toBe(exit);
  }
});

test("an export has no C1 bytes, and what is imported from it is equal", async () => {
  const cwd = fresh();
  const from = await open(join(cwd, "from.db"));
  const session = await from.session("c1", { title: "\u009b31m title" });
  session.append({ role: "user", content: "a \u0080\u009f\u007f b" });
  session.set("key", "\u0085");
  await session.checkpoint("\u009d label");
  await session.close();
  const rows: string[] = [];
  for await (const row of from.export()) rows.push(row);
  expect(rows.join("")).not.toMatch(/[\u007f-\u009f]/);
  const to = await open("memory:");
  await to.import(rows);
  expect(await to.sessions.state("c1")).toEqual(await from.sessions.state("c1"));
  expect(await to.verify()).toMatchObject({ ok: true });
  await from.close();
  await to.close();
});

test.each([
  ["a link that goes in a circle", "circle.db"],
  ["a name that is too long", `${"x".repeat(300)}.db`],
  ["a file below a file", "file/store.db"],
  ["a directory that is a link in a circle", "dir:circle.db"],
])("a store that cannot be looked at is no store that is missing: %s", async (_, name) => {
  const cwd = scratch();
  symlinkSync("circle.db", join(cwd, "circle.db"));
  writeFileSync(join(cwd, "file"), "text");
  const { stdout, stderr, exit } = await run(["ls", "--json", "--store", name], { cwd });
  expect(`${stdout}${stderr}`).not.toMatch(/Unexpected|UNEXPECTED|There is no store/);
  expect(JSON.parse(stdout || stderr)).toMatchObject({ error: { code: "IO" } });
  expect(exit).toBeGreaterThan(0);
});

test("a file that is not there is not found, and one that cannot be read is an error of reading", async () => {
  const cwd = scratch();
  symlinkSync("circle", join(cwd, "circle"));
  const missing = await run(["import", "holdfast", "nothing.jsonl"], { cwd });
  expect(missing).toMatchObject({ exit: 3, stderr: expect.stringContaining("no file") });
  const circle = await run(["import", "holdfast", "circle", "--json"], { cwd });
  expect(JSON.parse(circle.stdout || circle.stderr)).toMatchObject({ error: { code: "IO" } });
});
