import { HoldfastError } from "../../../core/values/errors.js";
import type { CheckpointKind, Holdfast } from "../../../index.js";
import { KINDS } from "../../framework/choices.js";
import {
  type Answer,
  command,
  flag,
  number,
  type Run,
  text,
  type Values,
} from "../../framework/command.js";
import { requireSessionToChange, short } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import type { RetentionReport, RetentionRules } from "../../framework/types.js";
import { counted, inline } from "../../terminal/text.js";

const policyOptions = {
  keep: number("N", "the newest so many stay", 0, 1_000_000_000),
  hourly: number("N", "the newest of each hour stays, for so many hours", 0, 1_000_000),
  daily: number("N", "the newest of each day stays, for so many days", 0, 1_000_000),
  weekly: number("N", "the newest of each week stays, for so many weeks", 0, 1_000_000),
  "older-than": text("AGE", "only what is older goes: 90s, 15m, 12h, 30d, 8w"),
  kind: text("KIND", "those of this kind stay", { choices: KINDS }),
} as const;

const pruneOptions = {
  ...policyOptions,
  all: flag("every session: by these rules, or, without any, by the policies that were set"),
  snapshots: text("AGENT", "the snapshots of this agent, instead of checkpoints", {
    completes: "agent",
  }),
  "all-branches": flag("also on branches that were left by rewinding"),
  "dry-run": flag("only say what would go"),
  yes: flag("do not ask", "y"),
} as const;

export const prune = command({
  name: "prune",
  group: "keep",
  says: "removes checkpoints, or snapshots, that no rule keeps, and what only they needed",
  more: [
    "The newest always stays, and so do those at which forks begin. Those with a label stay, unless --keep is all that is said.",
    "--all without rules also prunes snapshots, where a policy has rules for them. A name is the label of a snapshot, unless it is a recovery.",
  ].join("\n"),
  words: [
    {
      name: "SESSION",
      says: "its id, or the beginning of it; or --all, or --snapshots",
      completes: "session",
      optional: true,
    },
  ],
  options: pruneOptions,
  examples: [
    ["holdfast prune order-42 --keep 3 --dry-run", ""],
    ["holdfast prune --all --daily 30 --weekly 52 --yes", "then: holdfast gc --yes"],
    ["holdfast prune --snapshots support --keep 10 --dry-run", ""],
  ],
  async run(run) {
    const {
      words: [word],
      options,
      hold,
    } = run;
    const named = [word !== undefined, options.all, options.snapshots !== undefined].filter(
      Boolean,
    ).length;
    if (named !== 1) throw usage("prune needs a SESSION, or --all, or --snapshots AGENT");
    if (options.snapshots !== undefined && options["all-branches"])
      throw usage("--all-branches is about checkpoints: leave it out with --snapshots");
    const policy = policyOf(options);
    const store = await hold();
    if (options.snapshots !== undefined)
      return pruneSnapshots(store, options.snapshots, policy, run);
    return word === undefined ? pruneAll(store, policy, run) : pruneOne(store, word, policy, run);
  },
});

const SHOWN = 20;
const NEEDS_RULE = "prune needs a rule: --keep, --hourly, --daily, --weekly or --older-than";

type Pruning = Run<typeof pruneOptions>;

async function pruneOne(
  store: Holdfast,
  word: string,
  policy: RetentionRules,
  { options, terminal, signal }: Pruning,
): Promise<Answer> {
  const { id } = await requireSessionToChange(store, word, terminal.isAttended && !options.yes);
  if (Object.keys(policy).length === 0 && !(await hasPolicy(store, id))) throw usage(NEEDS_RULE);
  const branches = options["all-branches"] ? "all" : "current";
  const would = await store.checkpoints.prune(id, { ...policy, branches, dryRun: true, signal });
  const what = `${counted(would.removed, "checkpoint")} of ${inline(id)}`;
  if (options["dry-run"] || would.removed === 0)
    return {
      json: { session: id, ...would, dryRun: options["dry-run"] },
      lines: wouldGo(what, would, short),
      next: [would.removed === 0 ? propose("log", [id]) : again(options, [id])],
    };
  await terminal.confirm(`${what} will be removed.`, { yes: options.yes });
  const bar = terminal.progress("pruning");
  const done = await store.checkpoints
    .prune(id, {
      ...policy,
      branches,
      signal,
      onProgress: ({ removed, of }) => bar.show(removed, of),
    })
    .finally(() => bar.end());
  return {
    json: { session: id, ...done, dryRun: false },
    lines: [`Removed ${counted(done.removed, "checkpoint")} of ${inline(id)}.`],
    next: [propose("gc", [], { "dry-run": true })],
  };
}

async function pruneSnapshots(
  store: Holdfast,
  agent: string,
  rules: RetentionRules,
  { options, terminal, signal }: Pruning,
): Promise<Answer> {
  if (Object.keys(rules).length === 0 && (await snapshotRules(store, agent)) === undefined)
    throw usage(NEEDS_RULE);
  const would = await store.agents.pruneSnapshots(agent, { ...rules, dryRun: true, signal });
  const what = `${counted(would.removed, "snapshot")} of ${inline(agent)}`;
  if (options["dry-run"] || would.removed === 0)
    return {
      json: { agent, ...would, dryRun: options["dry-run"] },
      lines: wouldGo(what, would, inline),
      next: [would.removed === 0 ? propose("snapshots", [agent]) : again(options, [])],
    };
  await terminal.confirm(`${what} will be removed.`, { yes: options.yes });
  const done = await store.agents.pruneSnapshots(agent, { ...rules, signal });
  return {
    json: { agent, ...done, dryRun: false },
    lines: [`Removed ${counted(done.removed, "snapshot")} of ${inline(agent)}.`],
    next: [propose("gc", [], { "dry-run": true })],
  };
}

const snapshotRules = async (store: Holdfast, agent: string): Promise<RetentionRules | undefined> =>
  ((await store.retention.get({ agent })) ?? (await store.retention.get()))?.snapshots;

interface WouldGo {
  readonly removed: number;
  readonly ids?: readonly string[];
}

function wouldGo(
  what: string,
  { removed, ids = [] }: WouldGo,
  show: (id: string) => string,
): string[] {
  return [
    removed === 0 ? "Nothing is to go." : `${what} would go.`,
    ...ids.slice(0, SHOWN).map((gone) => `  ${show(gone)}`),
    ...(removed > SHOWN ? [`  … and ${removed - Math.min(SHOWN, ids.length)} more`] : []),
  ];
}

async function pruneAll(
  store: Holdfast,
  policy: RetentionRules,
  { options, terminal, signal }: Pruning,
): Promise<Answer> {
  const dryRun = options["dry-run"];
  const branches = options["all-branches"] ? "all" : "current";
  if (!dryRun)
    await terminal.confirm(
      "Checkpoints of every session will be removed where no rule keeps them.",
      { yes: options.yes },
    );
  const bar = terminal.progress("pruning, sessions");
  const tell = (sessions: number) => bar.show(sessions);
  try {
    const report =
      Object.keys(policy).length === 0
        ? await store.retention.apply({
            dryRun,
            branches,
            signal,
            onProgress: ({ sessions }) => tell(sessions),
          })
        : await byRules(store, policy, { dryRun, branches, signal }, tell);
    bar.end();
    const { sessions, removed, removedSnapshots, failed, failedSnapshots } = report;
    const besides =
      removedSnapshots > 0 ? `, and ${counted(removedSnapshots, "snapshot")} of agents` : "";
    return {
      json: { ...report, dryRun },
      lines: [
        `${dryRun ? "Would remove" : "Removed"} ${counted(removed, "checkpoint")} of ${counted(sessions, "session")}${besides}.`,
      ],
      notes: [
        ...failed.map(({ sessionId, message }) => `${inline(sessionId)}: ${inline(message)}`),
        ...failedSnapshots.map(
          ({ agent, message }) =>
            `Snapshots${agent === undefined ? "" : ` of ${inline(agent)}`}: ${inline(message)}`,
        ),
      ],
      next: [dryRun ? again(options, []) : propose("gc", [], { "dry-run": true })],
      exit: failed.length + failedSnapshots.length > 0 ? 1 : 0,
    };
  } finally {
    bar.end();
  }
}

const NONE_FAILED: RetentionReport["failedSnapshots"] = [];

/** Rules that are given are about checkpoints alone. */
async function byRules(
  store: Holdfast,
  policy: RetentionRules,
  o: {
    readonly dryRun: boolean;
    readonly branches: "current" | "all";
    readonly signal: AbortSignal;
  },
  tell: (sessions: number) => void,
) {
  let sessions = 0;
  let removed = 0;
  const failed: { sessionId: string; code: string; message: string }[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.sessions.list({
      limit: 1_000,
      ...(cursor !== undefined && { cursor }),
    });
    // One that is damaged is tried, too: if it cannot be pruned, the report says why.
    for (const { id } of [...page.items, ...(page.damaged ?? [])]) {
      try {
        removed += (await store.checkpoints.prune(id, { ...policy, ...o })).removed;
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        // Deleted meanwhile.
        if (error.code !== "NOT_FOUND")
          failed.push({ sessionId: id, code: error.code, message: error.message });
      }
      sessions += 1;
      tell(sessions);
    }
    if (page.next === undefined)
      return { sessions, removed, removedSnapshots: 0, failed, failedSnapshots: NONE_FAILED };
    cursor = page.next;
  }
}

async function hasPolicy(store: Holdfast, id: string): Promise<boolean> {
  const agent = (await store.sessions.get(id))?.agent;
  return (
    (agent !== undefined && (await store.retention.get({ agent })) !== undefined) ||
    (await store.retention.get()) !== undefined
  );
}

function policyOf(o: Values<typeof policyOptions>): RetentionRules {
  return {
    ...(o.keep !== undefined && { keep: o.keep }),
    ...(o.hourly !== undefined && { hourly: o.hourly }),
    ...(o.daily !== undefined && { daily: o.daily }),
    ...(o.weekly !== undefined && { weekly: o.weekly }),
    ...(o["older-than"] !== undefined && { olderThanMs: ageOf(o["older-than"]) }),
    ...(o.kind !== undefined && { kinds: [o.kind as CheckpointKind] }),
  };
}

const UNITS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

function ageOf(given: string): number {
  const found = /^(\d{1,9})([smhdw])$/.exec(given);
  if (found === null) throw usage("--older-than is a number and s, m, h, d or w, as in 30d");
  return Number(found[1]) * (UNITS[found[2] as string] as number);
}

/** The same, for real. */
function again(options: Values<typeof pruneOptions>, words: readonly string[]) {
  const { "dry-run": _dryRun, yes: _yes, ...said } = pruneOptions;
  const names = Object.keys(said) as (keyof typeof said)[];
  return propose("prune", words, Object.fromEntries(names.map((name) => [name, options[name]])));
}
