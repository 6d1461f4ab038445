/**
 * What the last word of a command line may become. A shell asks at every press of a key: it never
 * waits long, and never fails.
 */
import type { Holdfast } from "../../index.js";
import type { Command, Completes, Option } from "../framework/command.js";
import { agentIds, allCheckpoints, allEffects } from "../framework/ids.js";
import { optionsOf } from "../framework/parse.js";
import { openStore } from "../framework/store.js";
import { isUnseen, oneLine } from "../terminal/text.js";

const MOST = 50;
const WITHIN_MS = 1_500;
/** Tells a script to complete file names itself. */
const FILES = "__files__";

export async function complete(
  words: readonly string[],
  commands: readonly Command[],
): Promise<readonly string[]> {
  const [name = "", ...rest] = words;
  if (words.length <= 1) {
    const shown = commands.filter(({ hidden }) => !hidden);
    return [
      ...shown.map((command) => `${command.name}\t${command.says}`),
      "help\tof all commands, or one",
    ].filter((line) => line.startsWith(name));
  }
  if (name === "help")
    return rest.length > 1
      ? []
      : commands
          .filter((command) => !command.hidden && command.name.startsWith(rest[0] ?? ""))
          .map((command) => `${command.name}\t${command.says}`);
  const command = commands.find((known) => known.name === name);
  return command === undefined ? [] : completeFor(command, rest);
}

async function completeFor(command: Command, words: readonly string[]): Promise<readonly string[]> {
  const found = await candidatesFor(command, words);
  // What is not seen is not offered: nobody would know what they take.
  return found.filter((line) => !isUnseen(line.split("\t", 1)[0] ?? ""));
}

async function candidatesFor(
  command: Command,
  words: readonly string[],
): Promise<readonly string[]> {
  const options = optionsOf(command);
  const last = words.at(-1) ?? "";
  const before = words.slice(0, -1);
  const isBehind = before.includes("--");
  const named = isBehind ? undefined : optionBefore(before.at(-1), options);
  if (named !== undefined) return ofOption(named, last, before);
  const inline = /^--([a-z-]+)=(.*)$/.exec(last);
  if (inline !== null) {
    const option = Object.hasOwn(options, inline[1] as string)
      ? options[inline[1] as string]
      : undefined;
    const found = option === undefined ? [] : await ofOption(option, inline[2] as string, before);
    return found.map((line) => (line === FILES ? line : `--${inline[1]}=${line}`));
  }
  if (last.startsWith("-") && !isBehind)
    return Object.entries(options)
      .map(([option, { says }]) => `--${option}\t${says}`)
      .filter((line) => line.startsWith(last));
  const given = positional(before, options);
  const word = command.words[Math.min(given.length, command.words.length - 1)];
  if (word === undefined || (given.length >= command.words.length && word.many !== true)) return [];
  if (word.choices !== undefined) return word.choices.filter((choice) => choice.startsWith(last));
  return word.completes === undefined ? [] : ofKind(word.completes, last, before, given);
}

function optionBefore(
  word: string | undefined,
  options: { readonly [name: string]: Option },
): Option | undefined {
  if (word === undefined || !word.startsWith("-") || word.includes("=")) return undefined;
  const option = word.startsWith("--")
    ? options[word.slice(2)]
    : Object.values(options).find(({ short }) => short === word.slice(1));
  return option?.kind === "flag" ? undefined : option;
}

async function ofOption(
  option: Option,
  last: string,
  before: readonly string[],
): Promise<readonly string[]> {
  if (option.kind !== "text") return [];
  if (option.choices !== undefined)
    return option.choices.filter((choice) => choice.startsWith(last));
  return option.completes === undefined ? [] : ofKind(option.completes, last, before, []);
}

function positional(
  words: readonly string[],
  options: { readonly [name: string]: Option },
): readonly string[] {
  const end = words.indexOf("--");
  const before = end === -1 ? words : words.slice(0, end);
  const behind = end === -1 ? [] : words.slice(end + 1);
  return [
    ...before.filter(
      (word, i) => !word.startsWith("-") && optionBefore(before[i - 1], options) === undefined,
    ),
    ...behind,
  ];
}

async function ofKind(
  kind: Completes,
  last: string,
  before: readonly string[],
  given: readonly string[],
): Promise<readonly string[]> {
  if (kind === "file") return [FILES];
  try {
    const late = AbortSignal.timeout(WITHIN_MS);
    const waited = new Promise<readonly string[]>((resolve) =>
      late.addEventListener("abort", () => resolve([]), { once: true }),
    );
    return await Promise.race([waited, inStore(before, (hold) => ids(hold, kind, last, given))]);
  } catch {
    // No store, or one that is busy: nothing to propose.
    return [];
  }
}

async function inStore(
  before: readonly string[],
  look: (hold: Holdfast) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  const hold = await openStore(
    { store: valueOf(before, "store"), tenant: valueOf(before, "tenant") },
    { make: false, looks: true },
  );
  try {
    return await look(hold);
  } finally {
    await hold.close();
  }
}

function valueOf(words: readonly string[], name: string): string | undefined {
  const at = words.lastIndexOf(`--${name}`);
  return at === -1
    ? words.findLast((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3)
    : words[at + 1];
}

async function ids(
  hold: Holdfast,
  kind: Completes,
  last: string,
  given: readonly string[],
): Promise<readonly string[]> {
  switch (kind) {
    case "session":
      return sessions(hold, last);
    case "checkpoint":
      return checkpoints(hold, last, given);
    case "agent":
      return starting(agentIds(hold), last);
    case "effect":
      return (await allEffects(hold)).items
        .filter(({ effectId }) => effectId.startsWith(last))
        .map(
          ({ effectId, name, sessionId }) => `${effectId}\t${oneLine(`${name} of ${sessionId}`)}`,
        );
    case "snapshot":
      return snapshots(hold, last);
    default:
      return [];
  }
}

async function sessions(hold: Holdfast, last: string): Promise<readonly string[]> {
  const found = await hold.sessions.ids(last, { limit: MOST });
  return Promise.all(
    found.map(async (id) => `${id}\t${oneLine((await hold.sessions.get(id))?.title ?? "")}`),
  );
}

/**
 * Those of the session that stands before it, or else places in the session that was begun to be
 * named.
 */
async function checkpoints(
  hold: Holdfast,
  last: string,
  given: readonly string[],
): Promise<readonly string[]> {
  const [session] = given;
  const at = last.lastIndexOf("@");
  const of = session ?? (at > 0 ? last.slice(0, at) : undefined);
  if (of === undefined || (await hold.sessions.get(of)) === undefined) return sessions(hold, last);
  const lines: string[] = [];
  for await (const { id, seq, step, label } of allCheckpoints(hold, of, "all")) {
    const name = session === undefined ? `${of}@${seq}` : id;
    if (name.startsWith(last)) lines.push(`${name}\t${oneLine(`step ${step} ${label ?? ""}`)}`);
    if (lines.length === MOST) break;
  }
  return lines;
}

async function snapshots(hold: Holdfast, last: string): Promise<readonly string[]> {
  const lines: string[] = [];
  for await (const agent of agentIds(hold)) {
    for (const { id, name } of (await hold.agents.snapshots(agent, { limit: MOST })).items)
      if (id.startsWith(last)) lines.push(`${id}\t${oneLine(`${agent} ${name ?? ""}`)}`);
    if (lines.length >= MOST) break;
  }
  return lines;
}

async function starting(found: AsyncIterable<string>, last: string): Promise<readonly string[]> {
  const words: string[] = [];
  for await (const word of found) if (word.startsWith(last)) words.push(word);
  return words;
}
