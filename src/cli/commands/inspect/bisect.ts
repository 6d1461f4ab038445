/** `bisect`: at which checkpoint did it go wrong? */
import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { Checkpoint, Holdfast } from "../../../index.js";
import { type Answer, command, number, SESSION, text } from "../../framework/command.js";
import { allCheckpoints, requireCheckpointOf, requireSession, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import { changes } from "../../render/changes.js";
import type { Terminal } from "../../terminal/terminal.js";
import { counted, inline, oneLine } from "../../terminal/text.js";
import { type Found, firstBad, type Judgement } from "./bisect-search.js";

/** As `git bisect run` has it. */
const SKIP = 125;
const NOT_RUN = 126;
const NOT_FOUND = 127;

export const bisect = command({
  name: "bisect",
  group: "look",
  looks: true,
  says: "finds the first checkpoint of a session at which a command fails: when did it go wrong?",
  more: [
    "The command is given { session, checkpoint, status, messages, state, effects } as JSON on stdin, and HOLDFAST_SESSION and HOLDFAST_CHECKPOINT",
    "in its environment. Exit code 0: good. 125: cannot be told, another is tried. 126, 127 and 128 and above: it could not be run, and the search ends.",
    "Anything else: bad. About the logarithm of the number of checkpoints are tried. Works along the whole past, also that which a fork shares.",
  ].join("\n"),
  words: [SESSION],
  options: {
    run: text("COMMAND", "a line for the shell; required"),
    good: text("CHECKPOINT", "known to be good; the first one by default", {
      completes: "checkpoint",
    }),
    bad: text("CHECKPOINT", "known to be bad; the newest one by default", {
      completes: "checkpoint",
    }),
    timeout: number(
      "MS",
      "how long one run may take, 10 minutes by default; one that takes longer is bad",
      1,
      86_400_000,
    ),
  },
  examples: [
    [
      "holdfast bisect order-42 --run 'jq -e \".state.total >= 0\" > /dev/null'",
      "when did the total become negative?",
    ],
    ["holdfast bisect order-42 --run 'node check.mjs' --good 12", ""],
  ],
  async run({ words: [word = ""], options, terminal, hold, signal }): Promise<Answer> {
    const { run: line, timeout = 600_000 } = options;
    if (line === undefined) throw usage("bisect needs --run COMMAND");
    const store = await hold();
    const session = await requireSession(store, word);
    const all: Checkpoint[] = [];
    for await (const checkpoint of allCheckpoints(store, session.id)) all.push(checkpoint);
    all.reverse();
    const placed = async (named: string | undefined) => {
      if (named === undefined) return undefined;
      const { id } = await requireCheckpointOf(store, session, named);
      const at = all.findIndex((checkpoint) => checkpoint.id === id);
      if (at === -1)
        throw new HoldfastError(
          "CONFLICT",
          `Checkpoint ${quote(short(id))} is not in the past of ${quote(session.id)}.`,
          {
            checkpointId: id,
          },
        );
      return at;
    };
    const [good, bad] = [await placed(options.good), await placed(options.bad)];
    const tested: { checkpoint: Checkpoint; judgement: Judgement }[] = [];
    const judge = async (at: number): Promise<Judgement> => {
      const checkpoint = all[at] as Checkpoint;
      const judgement = await judged(store, checkpoint, line, timeout, signal);
      tested.push({ checkpoint, judgement });
      const colour =
        judgement === "good"
          ? terminal.paintErr.green
          : judgement === "bad"
            ? terminal.paintErr.red
            : terminal.paintErr.yellow;
      terminal.tell(
        `${colour(judgement.padEnd(7))} ${short(checkpoint.id)}  step ${checkpoint.step}${checkpoint.label === undefined ? "" : `  ${oneLine(checkpoint.label)}`}`,
      );
      return judgement;
    };
    const found = await firstBad(all.length, { good, bad }, judge);
    return answer(store, session.id, all, found, tested, terminal);
  },
});

async function judged(
  hold: Holdfast,
  { id, sessionId }: Checkpoint,
  line: string,
  timeout: number,
  signal: AbortSignal,
): Promise<Judgement> {
  const { checkpoint, ...there } = await hold.checkpoints.state(id);
  const { spawn } = await import("node:child_process");
  const child = spawn(line, {
    shell: true,
    // A group of its own, so that what it has started ends with it.
    detached: true,
    env: { ...process.env, HOLDFAST_SESSION: sessionId, HOLDFAST_CHECKPOINT: id },
    // What it prints is not the answer of this command.
    stdio: ["pipe", 2, 2],
  });
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, by) => resolve({ code, signal: by }));
  });
  // One that does not read to the end is no error.
  child.stdin?.on("error", () => {});
  child.stdin?.end(JSON.stringify({ session: sessionId, checkpoint, ...there }));
  let isLate = false;
  const end = () => {
    try {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  };
  const late = setTimeout(() => {
    isLate = true;
    end();
  }, timeout);
  signal.addEventListener("abort", end, { once: true });
  const { code, signal: by } = await ended;
  clearTimeout(late);
  signal.removeEventListener("abort", end);
  signal.throwIfAborted();
  if (isLate) return "bad";
  if (code === 0) return "good";
  if (code === SKIP) return "skipped";
  // As `git bisect run` has it: what cannot be run, or was ended by somebody, says nothing of the
  // checkpoint.
  if (code === NOT_RUN || code === NOT_FOUND)
    throw new HoldfastError(
      "INVALID_OPTION",
      `The command ${quote(line)} cannot be run (exit code ${code}).`,
      { path: "--run" },
    );
  if (code === null || code > 128)
    throw new HoldfastError(
      "INVALID_OPTION",
      `The command ${quote(line)} was ended by ${by ?? `exit code ${code}`}: that says nothing of the checkpoint. Exit with 1 for a bad one.`,
      { path: "--run" },
    );
  return "bad";
}

async function answer(
  store: Holdfast,
  id: string,
  all: readonly Checkpoint[],
  found: Found,
  tested: readonly { readonly checkpoint: Checkpoint; readonly judgement: Judgement }[],
  terminal: Terminal,
): Promise<Answer> {
  const tries = counted(tested.length, "run");
  const runs = tested.map(({ checkpoint, judgement }) => ({
    checkpointId: checkpoint.id,
    judgement,
  }));
  if (found.is !== "found") {
    const says = {
      empty: `${inline(id)} has no checkpoint yet.`,
      "all-good": `The newest checkpoint of ${inline(id)} is good: there is nothing to find.`,
      unknown: `The newest checkpoint of ${inline(id)} cannot be told. Name one that is bad with --bad.`,
    }[found.is];
    return {
      json: { session: id, found: null, why: found.is, runs },
      lines: [says],
      next: [propose("log", [id])],
      exit: 1,
    };
  }
  const bad = all[found.bad] as Checkpoint;
  const good = found.good === undefined ? undefined : (all[found.good] as Checkpoint);
  const before = found.bad === 0 ? undefined : (all[found.bad - 1] as Checkpoint);
  const changed =
    before === undefined ? undefined : await store.checkpoints.diff(before.id, bad.id);
  const { paint } = terminal;
  const maybe = found.skipped.map((at) => short((all[at] as Checkpoint).id));
  return {
    json: {
      session: id,
      found: bad,
      ...(good && { good }),
      skipped: found.skipped.map((at) => (all[at] as Checkpoint).id),
      ...(changed && { changed }),
      runs,
    },
    lines: [
      `${paint.bold(short(bad.id))} is the first that is bad: step ${bad.step}, ${bad.kind}, ${terminal.time(bad.createdAt)}${bad.label === undefined ? "" : `, ${oneLine(bad.label)}`} (${tries} of ${all.length} checkpoints).`,
      ...(maybe.length > 0
        ? [paint.yellow(`It may also be one of those that could not be told: ${maybe.join(", ")}`)]
        : []),
      ...(bad.sessionId === id
        ? []
        : [paint.dim(`It is in the past that is shared with ${inline(bad.sessionId)}.`)]),
      "",
      ...(changed === undefined
        ? ["It is the first checkpoint there is."]
        : [paint.dim("What changed there:"), "", ...changes(changed, terminal, false)]),
    ],
    next: [
      propose("show", [bad.id]),
      ...(before === undefined
        ? []
        : [propose("fork", [before.id], {}, "another way from before it")]),
    ],
    pages: true,
  };
}
