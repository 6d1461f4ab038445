/**
 * Help, for the terminal and as a page of the docs: both are made from the commands' own
 * descriptions.
 */
import { errorTable } from "../../core/values/errors.js";
import type { Paint } from "../terminal/colours.js";
import { pad, width, wrap } from "../terminal/text.js";
import {
  COMMON_OPTIONS,
  type Command,
  GROUPS,
  type Group,
  type Option,
  type Options,
  STORE_OPTIONS,
} from "./command.js";

const groups = Object.entries(GROUPS) as [Group, string][];
const shownIn = (commands: readonly Command[], group: Group) =>
  commands.filter((command) => command.group === group && !command.hidden);

const wordsOf = ({ words }: Command): string[] =>
  words.map(({ name, optional, many }) => {
    const shown = many ? `${name}…` : name;
    return optional ? `[${shown}]` : shown;
  });

const usageOf = (command: Command): string =>
  [
    `holdfast ${command.name}`,
    ...wordsOf(command),
    ...(Object.keys(command.options).length > 0 ? ["[options]"] : []),
  ].join(" ");

export function overview(commands: readonly Command[], paint: Paint, columns: number): string[] {
  const rows = commands
    .filter(({ hidden }) => !hidden)
    .map((command) => [command.name, ...wordsOf(command)].join(" "));
  const wide = Math.max(...rows.map(width));
  const lines = [
    `${paint.bold("holdfast")}: durable state for AI agents`,
    "",
    "  holdfast COMMAND [options]",
    "",
  ];
  for (const [group, title] of groups) {
    const own = shownIn(commands, group);
    if (own.length === 0) continue;
    lines.push(paint.bold(title));
    for (const command of own)
      lines.push(
        ...hanging(
          `  ${paint.cyan(pad([command.name, ...wordsOf(command)].join(" "), wide))}  `,
          command.says,
          wide + 4,
          columns,
        ),
      );
    lines.push("");
  }
  lines.push(
    ...hanging(
      "",
      "Where a store is meant: --store ADDRESS, else HOLDFAST_STORE, else .holdfast/state.db. Ids may be shortened.",
      0,
      columns,
    ),
    ...hanging(
      "",
      "Every command takes --json and --help. holdfast --version prints the version.",
      0,
      columns,
    ),
  );
  return lines;
}

export function helpFor(command: Command, paint: Paint, columns: number): string[] {
  const lines = [
    `  ${paint.cyan(usageOf(command))}`,
    "",
    ...hanging("", sentence(command.says), 0, columns),
  ];
  if (command.more !== undefined)
    lines.push("", ...command.more.split("\n").flatMap((line) => hanging("", line, 0, columns)));
  const sections: [string, readonly (readonly [string, string])[]][] = [
    [
      "",
      command.words.map(({ name, says, choices }) => [name, withChoices(says, choices)] as const),
    ],
    ["Options", rowsOf(command.options)],
    [
      "Common options",
      rowsOf({ ...(command.store ? STORE_OPTIONS : undefined), ...COMMON_OPTIONS }),
    ],
    ["Examples", command.examples],
  ];
  const wide = Math.min(
    34,
    Math.max(...sections.flatMap(([, rows]) => rows.map(([left]) => width(left)))),
  );
  for (const [title, rows] of sections) {
    if (rows.length === 0) continue;
    lines.push("", ...(title === "" ? [] : [paint.bold(title)]));
    for (const [left, right] of rows) {
      if (width(left) > wide)
        lines.push(
          `  ${paint.cyan(left)}`,
          ...hanging(" ".repeat(wide + 4), right, wide + 4, columns),
        );
      else lines.push(...hanging(`  ${paint.cyan(pad(left, wide))}  `, right, wide + 4, columns));
    }
  }
  return lines;
}

const rowsOf = (options: Options): (readonly [string, string])[] =>
  Object.entries(options).map(
    ([name, option]) =>
      [flagsOf(name, option), withChoices(option.says, choicesOf(option))] as const,
  );

const choicesOf = (option: Option): readonly string[] | undefined =>
  option.kind === "text" ? option.choices : undefined;
const withChoices = (says: string, choices: readonly string[] | undefined): string =>
  choices === undefined ? says : `${says}: ${choices.join(", ")}`;

function flagsOf(name: string, option: Option): string {
  const short = option.short === undefined ? "" : `-${option.short}, `;
  return `${short}--${name}${option.kind === "flag" ? "" : ` ${option.value}`}`;
}

function hanging(first: string, says: string, indent: number, columns: number): string[] {
  const room = Math.max(20, columns - indent);
  return wrap(says, room).map((row, i) => (i === 0 ? first : " ".repeat(indent)) + row);
}

const sentence = (says: string): string =>
  `${says.charAt(0).toUpperCase()}${says.slice(1)}${/[.?!]$/.test(says) ? "" : "."}`;

/** docs/cli.md. A test holds the file to it. */
export function page(commands: readonly Command[]): string {
  const lines = [
    "# The command line",
    "",
    "`npx holdfast COMMAND`, or `holdfast COMMAND` where it is installed with `npm install -g holdfast`. This page is made from the same",
    "descriptions as `holdfast help`; `holdfast help COMMAND` prints a part of it.",
    "",
    ...RULES,
    "",
  ];
  for (const [group, title] of groups) {
    const own = shownIn(commands, group);
    if (own.length === 0) continue;
    lines.push(`## ${title}`, "");
    for (const command of own) lines.push(...section(command));
  }
  lines.push(
    "## Options that every command takes",
    "",
    ...table({ ...STORE_OPTIONS, ...COMMON_OPTIONS }),
    "",
  );
  lines.push("`--store` and `--tenant` only where a command looks into a store.", "");
  lines.push("## Exit codes", "", "| code | |", "| --- | --- |", "| 0 | done |");
  const exits = new Map<number, string[]>();
  for (const [code, { exit }] of Object.entries(errorTable))
    exits.set(exit, [...(exits.get(exit) ?? []), code]);
  for (const [exit, codes] of [...exits].sort(([a], [b]) => a - b))
    lines.push(
      `| ${exit} | ${EXITS[exit] ?? ""}: ${codes.map((code) => `\`${code}\``).join(", ")} |`,
    );
  lines.push("| 130 | stopped with Ctrl-C |", "| 143 | stopped with SIGTERM |", "");
  lines.push(
    "A server (`holdfast mcp`) answers what it was asked, and ends with 0 on both signals.",
    "",
  );
  return lines.join("\n");
}

const EXITS: Readonly<Record<number, string>> = {
  1: "an error",
  2: "wrong usage, or nobody to ask",
  3: "not found",
  4: "a conflict, or somebody else holds it",
  5: "damage, or no store",
  6: "busy; trying again may help",
};

const RULES = [
  "- Data goes to stdout, everything else to stderr: hints, progress, questions, errors. A pipe that is closed early ends it quietly.",
  '- `--json` prints one document (`{ "version": 1, … }`), or, for what goes on (`tail -f`), a line for each thing, the first of which says the',
  "  version. Fields are those of the library's answers. An error is a line of JSON on stderr. The version rises when a field goes or changes",
  "  its meaning, not when one is added.",
  "- Ids may be shortened as long as one fits; but in scripts, what changes something takes whole ids. `SESSION@12` is the checkpoint of a",
  "  session that ends at its record 12 (`log` shows it behind the dash), `SESSION@~1` the one before its newest, `SESSION@some label` the",
  "  newest with that label.",
  "- What deletes something asks first. Where there is no terminal, it is refused (exit code 2) without `--yes`; `--dry-run` only says what would",
  "  happen.",
  "- Colours, progress and a pager (`HOLDFAST_PAGER`, `PAGER`, else `less`) are for terminals only. `NO_COLOR`, `FORCE_COLOR` and `TERM=dumb`",
  "  are respected. What is stored is shown, never sent: control characters are made visible.",
  "",
  "A call's outcome is unknown:",
  "",
  "```sh",
  "holdfast effects --status in-doubt        # which calls, with which input, under which key",
  "holdfast show order-42                    # what led to it",
  "holdfast settle order-42 --output '{\"sent\":true}'    # it happened; or --error, or --retry",
  "```",
  "",
  "It went wrong somewhere:",
  "",
  "```sh",
  "holdfast bisect order-42 --run 'jq -e \".state.total >= 0\" > /dev/null'    # the first checkpoint at which that fails, and what changed there",
  "holdfast fork order-42@12 --id order-42-again                             # begin again before it; the original stays as it is",
  "holdfast diff order-42 order-42-again                                     # once it has gone on",
  "```",
];

function section(command: Command): string[] {
  const lines = [
    `### ${command.name}`,
    "",
    "```",
    usageOf(command),
    "```",
    "",
    sentence(command.says),
  ];
  if (command.more !== undefined) lines.push("", command.more);
  lines.push("");
  const words = command.words.map(
    ({ name, says, choices }) => `| \`${name}\` | ${cell(withChoices(says, choices))} |`,
  );
  const rows = [...words, ...tableRows(command.options)];
  if (rows.length > 0) lines.push("| | |", "| --- | --- |", ...rows, "");
  if (command.examples.length > 0)
    lines.push(
      "```sh",
      ...command.examples.map(([line, says]) => `${line}${says === "" ? "" : `    # ${says}`}`),
      "```",
      "",
    );
  return lines;
}

const table = (options: Options): string[] => ["| | |", "| --- | --- |", ...tableRows(options)];
const tableRows = (options: Options): string[] =>
  rowsOf(options).map(([left, right]) => `| \`${left}\` | ${cell(right)} |`);
const cell = (text: string): string => text.replaceAll("|", "\\|");
