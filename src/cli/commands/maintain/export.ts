import { createWriteStream } from "node:fs";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { HoldfastError, quote } from "../../../core/values/errors.js";
import type { Holdfast } from "../../../index.js";
import { command, flag, text } from "../../framework/command.js";
import { requireCheckpoint, requireSession } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import type { ExportFilter, LeftOut, TransferProgress } from "../../framework/types.js";
import { counted, inline, size } from "../../terminal/text.js";

export const exportCommand = command({
  name: "export",
  group: "move",
  says: "sessions as one stream of text that any store takes in",
  words: [
    {
      name: "SESSION",
      says: "its id, or the beginning of it; or --agent, --checkpoint or --all",
      completes: "session",
      optional: true,
    },
  ],
  options: {
    agent: text("AGENT", "all sessions of this agent, and its record", { completes: "agent" }),
    checkpoint: text(
      "ID",
      "a session as it was at this checkpoint; SESSION@12 is a session's checkpoint 12",
      { completes: "checkpoint" },
    ),
    all: flag("everything"),
    output: text("FILE", "write to a file that is not there yet, instead of stdout", {
      short: "o",
      completes: "file",
    }),
  },
  examples: [
    ["holdfast export order-42 > order-42.jsonl", ""],
    [
      "holdfast export --all | holdfast import holdfast - --store postgres://host/db",
      "from one store to another",
    ],
  ],
  async run({
    words: [word],
    options: { agent, checkpoint, all, output, json },
    terminal,
    hold,
    signal,
    line,
  }) {
    if ([word, agent, checkpoint].filter((one) => one !== undefined).length + Number(all) !== 1)
      throw usage("export needs one of SESSION, --agent AGENT, --checkpoint ID and --all");
    if (json && output === undefined)
      throw usage("the stream is JSON already; --json goes with --output");
    // It is for programs: nothing for a terminal to show.
    if (output === undefined && terminal.isTty)
      throw usage(
        "the stream is not for a terminal: redirect it to a file, or name one with --output",
      );
    const store = await hold();
    const what = await filterOf(store, { word, agent, checkpoint });
    const bar = terminal.progress("exported");
    let so: TransferProgress = { sessions: 0, saves: 0, bytes: 0, of: 0 };
    const leftOut: LeftOut[] = [];
    const rows = store.export(what, {
      signal,
      onProgress: (progress) => {
        so = progress;
        bar.show(progress.sessions, progress.of);
      },
      onLeftOut: (left) => leftOut.push(left),
    });
    try {
      await pipeline(
        Readable.from(rows),
        output === undefined ? unended(process.stdout) : newFile(output),
        output === undefined ? { end: false } : {},
      );
    } catch (error) {
      // Whoever read it has seen enough.
      if ((error as NodeJS.ErrnoException).code === "EPIPE") return undefined;
      throw opened(error, output);
    } finally {
      bar.end();
    }
    for (const { id, message } of leftOut)
      terminal.tell(`Left out: ${inline(id)}: ${inline(message)}`);
    const says = `${counted(so.sessions, "session")}, ${counted(so.saves, "save")}, ${size(so.bytes)}${output === undefined ? "" : ` in ${inline(output)}`}.`;
    const exit = leftOut.length > 0 ? 5 : 0;
    const next =
      output === undefined
        ? [propose("help", ["import"])]
        : [propose("import", ["holdfast", output], { store: "other.db" })];
    if (output !== undefined)
      return { json: { ...so, output, leftOut }, lines: [says], next, exit };
    terminal.tell(says);
    terminal.next(next.map((proposal) => [line(proposal), ""]));
    return { json: {}, lines: [], exit };
  },
});

async function filterOf(
  store: Holdfast,
  {
    word,
    agent,
    checkpoint,
  }: {
    readonly word: string | undefined;
    readonly agent: string | undefined;
    readonly checkpoint: string | undefined;
  },
): Promise<ExportFilter> {
  if (word !== undefined) return { session: (await requireSession(store, word)).id };
  if (checkpoint !== undefined)
    return { checkpoint: (await requireCheckpoint(store, checkpoint)).id };
  return agent === undefined ? {} : { agent };
}

const unended = (stream: NodeJS.WriteStream): Writable => stream;
/** Never over something that is there. */
const newFile = (path: string): Writable => createWriteStream(path, { flags: "wx", mode: 0o600 });

function opened(error: unknown, path: string | undefined): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (
    path === undefined ||
    (code !== "EEXIST" && code !== "ENOENT" && code !== "EACCES" && code !== "EISDIR")
  )
    return error;
  return new HoldfastError(
    code === "EEXIST" ? "CONFLICT" : "IO",
    `${quote(path)} cannot be written (${code}). Name a file that is not there yet.`,
    {},
    error,
  );
}
