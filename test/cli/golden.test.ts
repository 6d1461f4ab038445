/** What every command prints, word for word: in a pipe, and on a terminal. */
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { commands } from "../../src/cli/commands.js";
import { uncoloured, width } from "../../src/cli/terminal/text.js";
import { open } from "../../src/index.js";
import { scratch } from "../support/stores.js";
import { bin, expectGolden, onTerminal, run, steady } from "./command.js";
import { makeWorld, type World } from "./world.js";

const directory = scratch();
const template = join(directory, "world.db");
let world: World;
let count = 0;

beforeAll(async () => {
  world = await makeWorld(template);
});

/** A directory of its own, with the store where commands look for it without being told. */
function place(): string {
  count += 1;
  const at = join(directory, String(count));
  mkdirSync(join(at, ".holdfast"), { recursive: true, mode: 0o700 });
  for (const end of ["", "-anchors"])
    if (existsSync(template + end))
      copyFileSync(template + end, join(at, ".holdfast/state.db") + end);
  return at;
}

/** Words in which `{first}` and the like stand for what is known only when the store is made. */
const filled = (line: string): string[] =>
  line
    .split(" ")
    .map((word) =>
      word
        .replaceAll("%20", " ")
        .replace(
          /^\{(\w+)\}/,
          (_, name: string) =>
            ({ ...world.checkpoints, ...world.effects, snapshot: world.snapshot })[name] ??
            `no ${name}`,
        ),
    );

/** Named after the golden file; those that change nothing. */
const looks: Readonly<Record<string, string>> = {
  ls: "ls --utc",
  "ls-filtered": "ls --utc --agent support --status in-doubt",
  "ls-tag": "ls --utc --tag vip",
  "ls-none": "ls --status halted",
  "ls-pages": "ls --utc -n 2",
  "ls-archived": "ls --utc --archived",
  "ls-json": "ls --json --tag vip",
  log: "log order-42 --utc",
  "log-all": "log order-42 --utc --all",
  "log-graph": "log order-42 --utc --graph",
  "log-json": "log wild --json",
  "log-agent": "log --agent support --utc",
  "log-everything": "log --all --utc -n 5",
  "log-two-ways": "log order-42 --agent support",
  "log-graph-of-all": "log --graph",
  show: "show order-42-what-if --utc",
  "show-in-doubt": "show order-43 --utc",
  "show-waiting": "show order-44 --utc",
  "show-wild": "show wild --utc",
  "show-by-hand": "show sums --utc",
  "show-checkpoint": "show {last} --utc",
  "show-last": "show sums --utc --last 1",
  "show-state": "show order-42-what-if --state",
  diff: "diff {first} {other}",
  "diff-sessions": "diff order-42 order-42-what-if",
  "diff-one": "diff sums@still%20fine",
  "diff-json": "diff sums@~1 sums --json",
  search: "search teapot --utc",
  "search-none": "search nothing-like-this",
  tail: "tail order-42 -n 6",
  "tail-json": "tail sums -n 2 --json",
  stats: "stats",
  "stats-json": "stats --json",
  verify: "verify",
  effects: "effects --utc",
  "effects-json": "effects --status waiting --json",
  agents: "agents --utc",
  snapshots: "snapshots support --utc",
  bisect:
    "bisect sums --utc --run node%20-e%20\"let%20s='';process.stdin.on('data',d=>s+=d).on('end',()=>process.exit(JSON.parse(s).state.total<0?1:0))\"",
  "restore-dry-run": "restore {snapshot} --dry-run",
  "prune-dry-run": "prune sums --keep 2 --dry-run",
  "rm-dry-run": "rm order-42 --dry-run",
  "gc-dry-run": "gc --dry-run",
  completion: "completion bash",
  help: "help",
  "help-rewind": "help rewind",
  "wrong-command": "shwo order-42",
  "wrong-option": "ls --agnet support",
  "wrong-value": "ls --limit many",
  "wrong-status": "ls --status complete",
  "wrong-id": "show order-24",
  "ambiguous-id": "show order",
  "too-many-words": "stats now",
  "no-store": "ls --store elsewhere.db",
  "error-json": "show nothing --json",
};

/** Those that change something, each on a store of its own. */
const acts: Readonly<Record<string, string>> = {
  fork: "fork {first} --id order-42-b",
  rewind: "rewind order-42 ~1",
  switch: "switch order-42 {last}",
  cancel: "cancel order-44 --reason enough",
  approve: "approve order-44 --by ana",
  deny: "deny {waiting} --by ana --reason too%20much",
  settle: 'settle {inDoubt} --output {"sent":true}',
  "settle-retry": "settle order-43 --retry --by ana",
  "settle-nothing": "settle order-43",
  "prune-refused": "prune sums --keep 2",
  prune: "prune sums --keep 2 --yes",
  "prune-all": "prune --all --keep 1 --yes",
  "rm-refused": "rm order-42",
  rm: "rm order-42 wild --yes",
  "gc-refused": "gc",
  "mark-restored-refused": "mark-restored",
};

describe("in a pipe", () => {
  test.each(Object.entries(looks))("%s", async (name, line) => {
    expectGolden(name, await run(filled(line), { cwd: place() }), world);
  });

  test.each(Object.entries(acts))("%s", async (name, line) => {
    expectGolden(name, await run(filled(line), { cwd: place() }), world);
  });
});

describe("on a terminal", () => {
  const shown = [
    "ls",
    "log",
    "log-graph",
    "show",
    "show-wild",
    "show-in-doubt",
    "diff",
    "search",
    "effects",
    "help",
    "wrong-command",
    "bisect",
  ];
  test.each(shown)("%s", async (name) => {
    expectGolden(
      `terminal-${name}`,
      await onTerminal(filled(looks[name] as string), { cwd: place() }),
      world,
    );
  });

  test("somebody is asked before anything is deleted, and no is no", async () => {
    const cwd = place();
    const no = await onTerminal(["rm", "wild"], { cwd, input: "n\n" });
    expectGolden("terminal-rm-no", no, world);
    expect((await run(["show", "wild"], { cwd })).exit).toBe(0);
    const yes = await onTerminal(["rm", "wild"], { cwd, input: "y\n" });
    expectGolden("terminal-rm-yes", yes, world);
    expect((await run(["show", "wild"], { cwd })).exit).toBe(3);
  });

  test("what is longer than the screen goes through a pager, unless nobody wants one", async () => {
    const env = { HOLDFAST_PAGER: "sed 's/^/paged: /'" };
    expect((await onTerminal(["help"], { env })).stdout).toMatch(/^paged: .*holdfast/);
    expect((await onTerminal(["ls"], { cwd: place(), env })).stdout).not.toContain("paged");
    expect(
      (await onTerminal(["log", "order-42", "--no-pager"], { cwd: place(), env })).stdout,
    ).not.toContain("paged");
    expect((await run(["help"], { env })).stdout).not.toContain("paged");
    // One that is not there: then without.
    expect(
      (await onTerminal(["help"], { env: { HOLDFAST_PAGER: "no-such-pager" } })).stdout,
    ).toContain("durable state");
  });

  test("a narrow one cuts what may be cut, and nothing is wider than it is", async () => {
    const { stdout } = await onTerminal(["ls", "--utc"], { cwd: place(), columns: 60 });
    for (const line of stdout.split("\n")) expect(width(line)).toBeLessThanOrEqual(60);
  });
});

describe("what is promised of all of them", () => {
  test("every command has a golden output, is listed in the help, and says what it does", async () => {
    const ran = new Set(
      [...Object.values(looks), ...Object.values(acts)].map((line) => line.split(" ")[0]),
    );
    /** Those that have tests of their own: a world of other files, processes that go on. */
    const elsewhere = [
      "demo",
      "mcp",
      "import",
      "export",
      "backup",
      "restore-backup",
      "mark-restored",
      "snapshot",
      "restore",
      "doctor",
      "__complete",
    ];
    const { stdout } = await run(["help"]);
    for (const { name, says, hidden } of commands) {
      expect(ran.has(name) || elsewhere.includes(name), name).toBe(true);
      if (!hidden) expect(stdout).toMatch(new RegExp(`^  ${name} `, "m"));
      expect(says.length).toBeGreaterThan(10);
    }
  });

  test("colours come on a terminal, or where somebody insists, and not where nobody wants them", async () => {
    const cwd = place();
    const isColourful = ({ stdout }: { readonly stdout: string }) => uncoloured(stdout) !== stdout;
    expect(isColourful(await run(["ls"], { cwd }))).toBe(false);
    expect(isColourful(await onTerminal(["ls"], { cwd }))).toBe(true);
    expect(isColourful(await onTerminal(["ls"], { cwd, env: { NO_COLOR: "1" } }))).toBe(false);
    expect(isColourful(await onTerminal(["ls"], { cwd, env: { TERM: "dumb" } }))).toBe(false);
    expect(isColourful(await run(["ls"], { cwd, env: { FORCE_COLOR: "1" } }))).toBe(true);
    expect(isColourful(await run(["ls"], { cwd, env: { FORCE_COLOR: "0" } }))).toBe(false);
  });

  test("stored control characters are shown, never sent: of every command that prints them", async () => {
    const cwd = place();
    for (const line of [
      "ls --archived",
      "ls",
      "show wild",
      "show wild --full",
      "show wild --state",
      "log wild",
      "log wild --graph",
      "tail wild",
      "diff wild",
      "search bell",
      "rm wild --dry-run",
    ]) {
      const { stdout, stderr } = await run(filled(line), { cwd });
      expect(stdout + stderr, line).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e]/u);
      expect(stdout.length, line).toBeGreaterThan(0);
    }
    const json = await run(["show", "wild", "--json"], { cwd });
    expect(JSON.parse(json.stdout).messages[0].content).toContain("\u001b]0;owned\u0007");
    expect(json.stdout).not.toMatch(/[^\P{Cc}\n]|[\u202a-\u202e]/u);
    expect(JSON.parse(json.stdout).state).toEqual({
      "key\u202eodd": { "k\u001b[31m": "C1 \u009b31m" },
    });
  });

  test("with --json: one document with a version, nothing else on stdout, and errors as JSON on stderr", async () => {
    const cwd = place();
    const lines = [
      "ls",
      "log order-42",
      "show order-42",
      "diff {first} {last}",
      "search teapot",
      "stats",
      "verify",
      "effects",
      "agents",
      "snapshots support",
      "doctor",
      "restore {snapshot} --dry-run",
      "prune sums --keep 1 --dry-run",
      "rm wild --dry-run",
      "gc --dry-run",
      "completion zsh",
      "bisect sums --run true",
    ];
    for (const line of lines) {
      const { stdout, stderr } = await run([...filled(line), "--json"], { cwd });
      expect(JSON.parse(stdout), line).toMatchObject({ version: 1, command: line.split(" ")[0] });
      if (!line.startsWith("bisect")) expect(stderr, line).toBe("");
    }
    const failed = await run(["show", "nothing", "--json"], { cwd });
    expect([failed.stdout, JSON.parse(failed.stderr)]).toMatchObject([
      "",
      { version: 1, error: { code: "NOT_FOUND" } },
    ]);
  });

  test("a pipe that is closed early ends it quietly", async () => {
    const cwd = place();
    const { exit, stderr } = await sh(
      `'${process.execPath}' '${bin}' help --markdown | head -n 1`,
      cwd,
    );
    expect([exit, stderr]).toEqual([0, ""]);
  });

  test("the page in the docs is the one that is made from the commands", async () => {
    const page = new URL("../../docs/cli.md", import.meta.url);
    const { stdout } = await run(["help", "--markdown"]);
    if (process.env["GOLDEN"] === "write") writeFileSync(page, stdout);
    const { readFileSync } = await import("node:fs");
    expect(readFileSync(page, "utf8")).toBe(stdout);
  });

  /** As it is pasted into a shell, which splits it into words. */
  const pasted = async (line: string, cwd: string) => {
    const words = (await sh(`holdfast() { printf '%s\\0' "$@"; }\n${line}`, cwd)).stdout
      .split("\0")
      .slice(0, -1);
    expect(words, line).not.toEqual([]);
    return run(words, { cwd });
  };
  const proposedBy = (stderr: string) =>
    [...stderr.matchAll(/^(?:Next:|     ) (holdfast .+)$/gm)].map(([, line]) => line as string);
  const GOES_ON = /^holdfast (tail -f|doctor)/;

  test("what is proposed next can be run", async () => {
    const cwd = place();
    for (const line of [
      "ls",
      "log order-42",
      "show order-42",
      "show order-43",
      "show order-44",
      "effects",
      "diff {first} {last}",
      "search teapot",
      "stats",
      "verify",
      "rm wild --dry-run",
    ]) {
      const proposed = proposedBy((await run(filled(line), { cwd })).stderr);
      expect(proposed.length, line).toBeGreaterThan(0);
      for (const command of proposed) {
        if (GOES_ON.test(command)) continue;
        const { exit, stderr } = await pasted(
          command.replace("holdfast rm", "holdfast rm --yes"),
          place(),
        );
        expect([command, exit, exit === 0 ? "" : stderr]).toEqual([command, 0, ""]);
      }
    }
  });

  test("also where ids are what nobody would choose: what is pasted does that, and nothing else", async () => {
    const cwd = place();
    const ids = [
      "-x",
      "--json",
      "--",
      "a b",
      "it's",
      "$(touch pwned)",
      "~root",
      "rtl-\u202eabc",
      "ana@example.com",
    ];
    const hold = await open(join(cwd, ".holdfast/state.db"));
    for (const id of ids) {
      const session = await hold.session(id, { agent: id });
      session.append({ role: "user", content: "kelp" });
      await session.checkpoint();
      await session.checkpoint();
      await session.close();
    }
    await hold.close();
    for (const id of ids) {
      for (const command of id === "-x"
        ? ["show", "log", "tail", "rm --dry-run", "diff", "fork"]
        : ["show", "tail"]) {
        const { exit, stderr, stdout } = await run([...command.split(" "), "--", id], { cwd });
        expect([id, command, exit, stderr.split("\n")[0]]).toEqual([
          id,
          command,
          0,
          expect.stringContaining("Next: holdfast"),
        ]);
        expect(stdout + stderr).not.toMatch(/[\u202a-\u202e]/u);
        for (const line of proposedBy(stderr)) {
          if (GOES_ON.test(line) || line.startsWith("holdfast rm")) continue;
          expect([line, (await pasted(line, cwd)).exit]).toEqual([line, 0]);
        }
      }
    }
    expect(existsSync(join(cwd, "pwned"))).toBe(false);
  });

  test("what a golden file cannot hold steady is steady", () => {
    const [line = ""] = world.lines;
    expect(steady(`${line}-1 ${line.slice(0, 8)}-2`, world)).toBe("aaaaaaaaaaaaaaaa-1 aaaaaaaa-2");
  });
});

async function sh(line: string, cwd: string) {
  const { spawnSync } = await import("node:child_process");
  const { status, stdout, stderr } = spawnSync("bash", ["--norc", "-c", line], {
    cwd,
    encoding: "utf8",
  });
  return { exit: status, stdout, stderr };
}
