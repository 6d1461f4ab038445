/**
 * Tools for checkpoints: of a conversation, or of an agent with all its conversations (which the
 * library calls a snapshot).
 */
import { KINDS } from "../core/journal/checkpoint.js";
import type { Diff } from "../core/journal/diff.js";
import { unlessGone } from "../engine/records/tolerate-damage.js";
import { invalid } from "../engine/util/validate.js";
import { keyOf, signalOf, spec, waiting } from "./definition.js";
import { fitting, pageOf, piece } from "./pages.js";
import { choice, either, flag, id, json, list, object, optional, text, whole } from "./schema.js";
import {
  agentFilter,
  agentOrSession,
  isSnapshot,
  MAX_NAMED,
  refuseForeign,
  refuseSelf,
  requireCheckpoint,
  requireMark,
  requireSession,
} from "./scope.js";
import {
  agentBrief,
  agentShown,
  checkpoint,
  checkpointShown,
  cursor,
  damaged,
  limit,
  next,
  session,
  sessionShown,
  snapshotShown,
} from "./shown.js";

const ofAgent = optional(id("An agent: its record and all its conversations."));
const ofSession = optional(id("A conversation's id, the `sessionId` of what a search has found."));
const checkpointId = id("The checkpoint's id, as checkpoint_list tells it.");

export const checkpointCreate = spec({
  name: "checkpoint_create",
  title: "Create a checkpoint",
  description:
    "A place to go back to: of one conversation, or of an agent with all its conversations. Give either `session` or `agent`. It costs next to nothing: nothing is copied. A conversation that an agent is at work in just now has checkpoints placed by that agent's run; of the agent one can be made at any time.",
  does: "adds",
  holdsStored: true,
  input: {
    agent: ofAgent,
    session: ofSession,
    label: optional(text("What to call it.", { maxLength: 200 })),
    description: optional(text("What to say of it.", { maxLength: 10_000 })),
    kind: optional(
      choice(
        "How it comes about; manual by default. pre-operation: before something risky.",
        KINDS,
      ),
    ),
    metadata: optional(json("Whatever else.")),
  },
  output: { checkpoint },
  async run(hold, { agent, session: given, label, description, kind, metadata }, call) {
    const of = agentOrSession(call, { ...(agent && { agent }), ...(given && { session: given }) });
    const said = {
      ...(description !== undefined && { description }),
      ...(kind !== undefined && { kind }),
      ...(metadata && { metadata }),
      ...keyOf(call),
    };
    if ("agent" in of) {
      const made = await hold.agents.snapshot(of.agent, {
        ...said,
        ...(label !== undefined && { name: label }),
      });
      return { checkpoint: snapshotShown(made) };
    }
    refuseSelf(call, of.session);
    await refuseForeign(call, (seeing) => requireSession(hold, seeing, of.session));
    const made = await hold.checkpoints.create(of.session, {
      ...said,
      ...waiting(call),
      ...(label !== undefined && { label }),
    });
    return { checkpoint: checkpointShown(made) };
  },
});

export const checkpointList = spec({
  name: "checkpoint_list",
  title: "List checkpoints",
  description:
    "The checkpoints of a conversation, or those of an agent, the newest first. Give either `session` or `agent`. With `conversations`, the checkpoints of all conversations: of `agent`, or, without it, of all agents.",
  does: "reads",
  holdsStored: true,
  input: {
    agent: ofAgent,
    session: ofSession,
    conversations: optional(
      flag("List the checkpoints of all conversations, the last made conversation first."),
    ),
    branches: optional(
      choice("Of conversations: `all` shows also those that were left by going back.", [
        "current",
        "all",
      ]),
    ),
    limit,
    cursor,
  },
  output: { items: list("Checkpoints.", checkpoint), next, damaged },
  async run(hold, { agent, session: given, conversations = false, branches, ...page }, call) {
    if (conversations) {
      if (given !== undefined)
        throw invalid("session", "with `conversations` give an agent, or neither");
      const filter = { ...agentFilter(call, agent), ...(branches && { branches }) };
      return fitting(page.limit, async (most) => {
        const { items, ...more } = await hold.checkpoints.list({ ...filter, ...page, limit: most });
        return { items: items.map(checkpointShown), ...more };
      });
    }
    const of = agentOrSession(call, { ...(agent && { agent }), ...(given && { session: given }) });
    if ("session" in of) await requireSession(hold, call, of.session);
    return fitting(page.limit, async (most) => {
      if ("agent" in of) {
        const {
          items,
          damaged: broken,
          ...more
        } = await hold.agents.snapshots(of.agent, { ...page, limit: most });
        // In some stores nobody can say whose it was.
        return {
          items: items.map(snapshotShown),
          ...more,
          ...(broken && call.agent === undefined && { damaged: broken }),
        };
      }
      const { items, ...more } = await hold.checkpoints.list(of.session, {
        ...page,
        limit: most,
        ...(branches && { branches }),
      });
      return { items: items.map(checkpointShown), ...more };
    });
  },
});

const restored = object({
  id: text("The conversation's id."),
  outcome: choice("What became of it.", ["moved", "made", "labelled", "archived", "same"]),
});

export const checkpointRestore = spec({
  name: "checkpoint_restore",
  title: "Go back to a checkpoint",
  description:
    "Puts a conversation, or an agent with all its conversations, back to where a checkpoint found it. Nothing is lost: what came after is kept beside (checkpoint_list with branches: all), and of an agent a recovery checkpoint is made first. What tools have done meanwhile in the world is not undone; the answer names it, and how to go back again (`recovery`, or `before`).",
  does: "removes",
  holdsStored: true,
  input: {
    id: checkpointId,
    session: optional(
      id("Which conversation to put back, where it is a fork that shares the checkpoint."),
    ),
    dryRun: optional(flag("Only tell what would change.")),
  },
  output: {
    restored: flag("False where nothing was changed: a dry run."),
    checkpoint,
    recovery: optional(checkpoint),
    agent: optional(agentBrief),
    before: optional(
      text("Of a conversation: the newest checkpoint of what was left, to go back again."),
    ),
    sessions: list(
      `What became of each conversation; ${MAX_NAMED} are named, those that changed first.`,
      restored,
    ),
    changed: whole("How many conversations were changed."),
    passed: list(
      `Calls that had been made since, and stay made; ${MAX_NAMED} are named.`,
      object({
        name: text("The tool's name."),
        callId: optional(text("The call's id in the reply; of a call by hand there is none.")),
        effectId: text("The id of the effect."),
        since: text("When it was made."),
        outcome: choice("What became of it.", ["ok", "error", "denied", "unknown"]),
      }),
    ),
  },
  async run(hold, { id: given, session: of, dryRun = false }, call) {
    if (isSnapshot(given)) {
      await refuseForeign(call, (seeing) => requireMark(hold, seeing, given));
      const report = await hold.agents.restore(given, {
        ...signalOf(call),
        ...(dryRun ? { dryRun } : keyOf(call)),
      });
      const sessions = [...report.sessions].sort(
        (a, b) => Number(a.outcome === "same") - Number(b.outcome === "same"),
      );
      return {
        restored: !dryRun,
        checkpoint: snapshotShown(report.snapshot),
        ...(report.recovery && { recovery: snapshotShown(report.recovery) }),
        ...(report.agent && { agent: agentShown(report.agent) }),
        sessions: sessions.slice(0, MAX_NAMED),
        changed: sessions.filter(({ outcome }) => outcome !== "same").length,
        passed: [],
      };
    }
    const found = await requireCheckpoint(hold, call, given);
    const moved = (await requireSession(hold, call, of ?? found.sessionId)).id;
    refuseSelf(call, moved);
    // Looked at, it is seen to be one of the conversation's.
    if (dryRun) await hold.sessions.state(moved, { at: given });
    const { passed, before } = dryRun
      ? { passed: [], before: undefined }
      : await hold.sessions.rewind(moved, given, { ...waiting(call), ...keyOf(call) });
    return {
      restored: !dryRun,
      checkpoint: checkpointShown(found),
      ...(before !== undefined && { before }),
      sessions: [{ id: moved, outcome: "moved" as const }],
      changed: 1,
      passed: passed.slice(0, MAX_NAMED).map(({ name, callId, effectId, since, outcome }) => ({
        name,
        ...(callId !== undefined && { callId }),
        effectId,
        since,
        outcome,
      })),
    };
  },
});

export const checkpointDelete = spec({
  name: "checkpoint_delete",
  title: "Delete a checkpoint",
  description:
    "Removes a checkpoint. The conversation itself stays as it is. One at which a fork begins cannot be removed.",
  does: "removes",
  holdsStored: false,
  isIdempotent: true,
  input: { id: checkpointId },
  output: { deleted: flag("False where there was none.") },
  async run(hold, { id: given }, call) {
    const gone = await unlessGone(async () => {
      await refuseForeign(call, (seeing) => requireMark(hold, seeing, given));
      if (!isSnapshot(given)) return (await hold.checkpoints.delete(given, keyOf(call))).deleted;
      await hold.agents.deleteSnapshot(given, keyOf(call));
      return true;
    });
    return { deleted: gone ?? false };
  },
});

export const checkpointFork = spec({
  name: "checkpoint_fork",
  title: "Fork a conversation",
  description:
    "Begins a new conversation at a checkpoint of another: what if it had gone on otherwise? Both go on apart from there, and nothing is copied.",
  does: "adds",
  holdsStored: true,
  input: {
    id: checkpointId,
    as: optional(id("The new conversation's id; one is made up by default.")),
  },
  output: { session },
  async run(hold, { id: given, as }, call) {
    await refuseForeign(call, (seeing) => requireCheckpoint(hold, seeing, given));
    const made = await hold.sessions.fork(given, {
      ...(as !== undefined && { id: as }),
      ...keyOf(call),
    });
    return { session: sessionShown(await requireSession(hold, call, made.id)) };
  },
});

const CHANGES = [
  "message-removed",
  "message-added",
  "state-removed",
  "state-added",
  "state-changed",
  "status",
] as const;

export const checkpointDiff = spec({
  name: "checkpoint_diff",
  title: "Compare two checkpoints",
  description:
    "What differs between two checkpoints of conversations: messages, state and status, a page at a time.",
  does: "reads",
  holdsStored: true,
  input: { from: id("A checkpoint's id."), to: id("Another one's."), cursor },
  output: {
    from: checkpoint,
    to: checkpoint,
    equal: flag("Whether nothing differs."),
    sameAtStart: whole("How many messages at the beginning both have."),
    sameAtEnd: whole("How many messages at the end both have."),
    count: whole("How many differences there are."),
    items: list(
      "Differences, or pieces of one that is too long.",
      either(
        "",
        json(
          `One, with \`change\`: ${CHANGES.join(", ")}; and message, or key with value, or from and to.`,
        ),
        piece,
      ),
    ),
    next,
  },
  async run(hold, input, call) {
    for (const given of [input.from, input.to]) await requireCheckpoint(hold, call, given);
    const found = await hold.checkpoints.diff(input.from, input.to);
    const all = differences(found);
    return {
      from: checkpointShown(found.from),
      to: checkpointShown(found.to),
      equal: found.equal,
      sameAtStart: found.messages.sameAtStart,
      sameAtEnd: found.messages.sameAtEnd,
      count: all.length,
      ...pageOf(all, input.cursor, { of: `${input.from} ${input.to}` }),
    };
  },
});

function differences({
  messages,
  state,
  status,
}: Diff): readonly { readonly change: (typeof CHANGES)[number] }[] {
  const entries = <T>(
    of: { readonly [key: string]: T },
    show: (key: string, value: T) => { readonly change: (typeof CHANGES)[number] },
  ) => Object.entries(of).map(([key, value]) => show(key, value));
  return [
    ...messages.removed.map((message) => ({ change: "message-removed" as const, message })),
    ...messages.added.map((message) => ({ change: "message-added" as const, message })),
    ...entries(state.removed, (key, value) => ({ change: "state-removed", key, value })),
    ...entries(state.added, (key, value) => ({ change: "state-added", key, value })),
    ...entries(state.changed, (key, { from, to }) => ({ change: "state-changed", key, from, to })),
    ...(status === undefined ? [] : [{ change: "status" as const, ...status }]),
  ];
}
