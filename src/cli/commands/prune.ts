import { HoldfastError } from "../../core/errors.js";
import type { CheckpointKind, Holdfast, RetentionPolicy } from "../../index.js";
import { KINDS } from "../choices.js";
import { type Answer, command, flag, number, type Run, text, type Values } from "../command.js";
import { requireSessionToChange, short } from "../ids.js";
import { usage } from "../parse.js";
import { propose } from "../proposal.js";
import { counted, inline } from "../text.js";

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
  "all-lines": flag("also on lines that were left by rewinding"),
  "dry-run": flag("only say what would go"),
  yes: flag("do not ask", "y"),
} as const;

export const prune = command({
  name: "prune",
  group: "keep",
  says: "removes checkpoints that no rule keeps, and what only they needed",
  more: "The newest always stays, and so do those at which forks begin. Those with a label stay, unless --keep is all that is said.",
  words: [{ name: "SESSION", says: "its id, or the beginning of it; or --all", completes: "session", optional: true }],
  options: pruneOptions,
  examples: [
    ["holdfast prune order-42 --keep 3 --dry-run", ""],
    ["holdfast prune --all --daily 30 --weekly 52 --yes", "then: holdfast gc --yes"],
  ],
  async run(run) {
    const {
      words: [word],
      options,
      hold,
    } = run;
    if ((word === undefined) !== options.all) throw usage("prune needs a SESSION, or --all");
    const policy = policyOf(options);
    const store = await hold();
    return word === undefined ? pruneAll(store, policy, run) : pruneOne(store, word, policy, run);
  },
});

const SHOWN = 20;

type Pruning = Run<typeof pruneOptions>;

async function pruneOne(store: Holdfast, word: string, policy: RetentionPolicy, { options, terminal, signal }: Pruning): Promise<Answer> {
  const { id } = await requireSessionToChange(store, word, terminal.isAttended && !options.yes);
  if (Object.keys(policy).length === 0 && !(await hasPolicy(store, id)))
    throw usage("prune needs a rule: --keep, --hourly, --daily, --weekly or --older-than");
  const lines = options["all-lines"] ? "all" : "current";
  const would = await store.checkpoints.prune(id, { ...policy, lines, dryRun: true, signal });
  const what = `${counted(would.removed, "checkpoint")} of ${inline(id)}`;
  const ids = would.ids ?? [];
  if (options["dry-run"] || would.removed === 0)
    return {
      json: { session: id, ...would, dryRun: options["dry-run"] },
      lines: [
        would.removed === 0 ? "Nothing is to go." : `${what} would go.`,
        ...ids.slice(0, SHOWN).map((gone) => `  ${short(gone)}`),
        ...(would.removed > SHOWN ? [`  … and ${would.removed - Math.min(SHOWN, ids.length)} more`] : []),
      ],
      next: [would.removed === 0 ? propose("log", [id]) : again(options, [id])],
    };
  await terminal.confirm(`${what} will be removed.`, { yes: options.yes });
  const bar = terminal.progress("pruning");
  const done = await store.checkpoints
    .prune(id, { ...policy, lines, signal, onProgress: ({ removed, of }) => bar.show(removed, of) })
    .finally(() => bar.end());
  return {
    json: { session: id, ...done, dryRun: false },
    lines: [`Removed ${counted(done.removed, "checkpoint")} of ${inline(id)}.`],
    next: [propose("gc", [], { "dry-run": true })],
  };
}

async function pruneAll(store: Holdfast, policy: RetentionPolicy, { options, terminal, signal }: Pruning): Promise<Answer> {
  const dryRun = options["dry-run"];
  const lines = options["all-lines"] ? "all" : "current";
  if (!dryRun) await terminal.confirm("Checkpoints of every session will be removed where no rule keeps them.", { yes: options.yes });
  const bar = terminal.progress("pruning, sessions");
  const tell = (sessions: number) => bar.show(sessions);
  try {
    const report =
      Object.keys(policy).length === 0
        ? await store.retention.apply({ dryRun, lines, signal, onProgress: ({ sessions }) => tell(sessions) })
        : await byRules(store, policy, { dryRun, lines, signal }, tell);
    bar.end();
    const { sessions, removed, failed } = report;
    return {
      json: { ...report, dryRun },
      lines: [`${dryRun ? "Would remove" : "Removed"} ${counted(removed, "checkpoint")} of ${counted(sessions, "session")}.`],
      notes: failed.map(({ sessionId, message }) => `${inline(sessionId)}: ${inline(message)}`),
      next: [dryRun ? again(options, []) : propose("gc", [], { "dry-run": true })],
      exit: failed.length > 0 ? 1 : 0,
    };
  } finally {
    bar.end();
  }
}

async function byRules(
  store: Holdfast,
  policy: RetentionPolicy,
  o: { readonly dryRun: boolean; readonly lines: "current" | "all"; readonly signal: AbortSignal },
  tell: (sessions: number) => void,
) {
  let sessions = 0;
  let removed = 0;
  const failed: { sessionId: string; code: string; message: string }[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.sessions.list({ limit: 1_000, ...(cursor !== undefined && { cursor }) });
    for (const { id } of page.items) {
      try {
        removed += (await store.checkpoints.prune(id, { ...policy, ...o })).removed;
      } catch (error) {
        if (!(error instanceof HoldfastError)) throw error;
        // Deleted meanwhile.
        if (error.code !== "NOT_FOUND") failed.push({ sessionId: id, code: error.code, message: error.message });
      }
      sessions += 1;
      tell(sessions);
    }
    if (page.next === undefined) return { sessions, removed, failed };
    cursor = page.next;
  }
}

async function hasPolicy(store: Holdfast, id: string): Promise<boolean> {
  const agent = (await store.sessions.get(id))?.agent;
  return (agent !== undefined && (await store.retention.get({ agent })) !== undefined) || (await store.retention.get()) !== undefined;
}

function policyOf(o: Values<typeof policyOptions>): RetentionPolicy {
  return {
    ...(o.keep !== undefined && { keep: o.keep }),
    ...(o.hourly !== undefined && { hourly: o.hourly }),
    ...(o.daily !== undefined && { daily: o.daily }),
    ...(o.weekly !== undefined && { weekly: o.weekly }),
    ...(o["older-than"] !== undefined && { olderThanMs: ageOf(o["older-than"]) }),
    ...(o.kind !== undefined && { kinds: [o.kind as CheckpointKind] }),
  };
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

function ageOf(given: string): number {
  const found = /^(\d{1,9})([smhdw])$/.exec(given);
  if (found === null) throw usage("--older-than is a number and s, m, h, d or w, as in 30d");
  return Number(found[1]) * (UNITS[found[2] as string] as number);
}

/** The same, for real. */
function again(
  { keep, hourly, daily, weekly, "older-than": olderThan, kind, all, "all-lines": allLines }: Values<typeof pruneOptions>,
  words: readonly string[],
) {
  return propose("prune", words, { keep, hourly, daily, weekly, "older-than": olderThan, kind, all, "all-lines": allLines });
}
