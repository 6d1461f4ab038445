/** Take a snapshot: note an agent's record, and where each of its sessions stands. */
import { checkMetadata, checkText, KINDS } from "../../core/journal/checkpoint.js";
import { HoldfastError, pathTo, quote } from "../../core/values/errors.js";
import { checkName } from "../../core/values/ids.js";
import { once, type Receipt } from "../../engine/journal/receipts.js";
import type { StoreContext } from "../../engine/journal/store-context.js";
import { relabelBy } from "../../engine/lifecycle/relabel.js";
import { findAgent, noAgent } from "../../engine/records/agent-record.js";
import type { Relabel, SessionUpdate } from "../../engine/records/rows.js";
import {
  entryOf,
  MAX_DESCRIPTION,
  MAX_SESSIONS,
  MAX_SNAPSHOT_NAME,
  newSnapshot,
  noSnapshot,
  type Snapshot,
  type SnapshotOptions,
  withLabel,
} from "../../engine/records/snapshot-record.js";
import { entriesIn, oneOf, options } from "../../engine/util/validate.js";
import { AGENT } from "../../store/port/documents.js";
import { getSnapshot } from "./list-snapshots.js";
import { withAgentSessions } from "./with-agent-sessions.js";

const TRIES = 10;

export async function takeSnapshot(
  ctx: StoreContext,
  id: string,
  o: SnapshotOptions | undefined,
): Promise<Snapshot> {
  const agent = checkName(id, "agent id");
  const { key, ...args } = options(o, "agents.snapshot", [
    "name",
    "description",
    "kind",
    "metadata",
    "labels",
    "key",
  ]);
  const { name, description, kind, metadata } = args;
  const labels = relabelsIn(ctx, args.labels);
  const checkedKind = oneOf(kind, "kind", KINDS) ?? "manual";
  const said = {
    ...(name === undefined ? undefined : { name: checkText(name, "name", MAX_SNAPSHOT_NAME) }),
    ...(description === undefined
      ? undefined
      : { description: checkText(description, "description", MAX_DESCRIPTION) }),
    metadata: metadata === undefined ? {} : checkMetadata(metadata, "metadata"),
  };
  return once<string, Snapshot>(
    ctx,
    { key, name: "agents.snapshot", to: agent, args },
    async (receipt) =>
      (await snapshotNow(
        ctx,
        agent,
        { kind: checkedKind, ...redactedWords(ctx, said) },
        { receipt, labels },
      )) as Snapshot,
    (made) => requireSnapshot(ctx, made),
  );
}

async function requireSnapshot(ctx: StoreContext, id: string): Promise<Snapshot> {
  const found = await getSnapshot(ctx, id);
  if (found === undefined) throw noSnapshot(id);
  return found;
}

function relabelsIn(
  ctx: StoreContext,
  labels: SnapshotOptions["labels"],
): ReadonlyMap<string, Relabel> {
  const given =
    labels === undefined
      ? []
      : entriesIn(labels, "labels", "an object with a label for each session id");
  if (given.length > MAX_SESSIONS)
    throw new HoldfastError("TOO_LARGE", `labels: more than ${MAX_SESSIONS} sessions.`, {
      path: "labels",
      limit: MAX_SESSIONS,
    });
  return new Map(
    given.map(([id, label]) => [id, relabelBy(ctx, label as SessionUpdate, pathTo("labels", id))]),
  );
}

function redactedWords<T extends Pick<Snapshot, "name" | "description" | "metadata">>(
  { redactor }: StoreContext,
  said: T,
): T {
  if (redactor === undefined) return said;
  const { name, description, metadata } = said;
  return {
    ...said,
    ...(name !== undefined && {
      name: checkText(
        redactor.text(name, { in: "snapshot", field: "name" }),
        "name",
        MAX_SNAPSHOT_NAME,
      ),
    }),
    ...(description !== undefined && {
      description: checkText(
        redactor.text(description, { in: "snapshot", field: "description" }),
        "description",
        MAX_DESCRIPTION,
      ),
    }),
    metadata: checkMetadata(
      redactor.json(metadata, { in: "snapshot", field: "metadata" }),
      "metadata",
    ),
  };
}

interface Taking {
  /** No snapshot is taken if this is the digest of what it would hold. */
  readonly unless?: string | undefined;
  readonly receipt?: Receipt<string>;
  readonly labels?: ReadonlyMap<string, Relabel>;
}

/** Answers undefined where `unless` says that nothing has changed. */
export async function snapshotNow(
  ctx: StoreContext,
  agent: string,
  about: Pick<Snapshot, "kind" | "name" | "description" | "metadata">,
  { unless, receipt, labels }: Taking,
): Promise<Snapshot | undefined> {
  await ctx.takeInPosted();
  for (let tries = 0; tries < TRIES; tries++) {
    const record = await findAgent(ctx.store, agent);
    // It is still the record when the sessions are looked at.
    const still = {
      kind: AGENT,
      id: agent,
      when: record === undefined ? { absent: true as const } : { version: record.version },
    };
    let made: Snapshot | undefined;
    const applied = await withAgentSessions(ctx, { agent, hold: false }, (sessions) => {
      made = undefined;
      if (record === undefined && sessions.length === 0) throw noAgent(agent);
      const now = { id: newSnapshotId(ctx), agent, createdAt: ctx.wallMs() };
      const entries = sessions.map(entryOf).map((entry) => withLabel(entry, labels?.get(entry.id)));
      const { change, snapshot } = newSnapshot(
        { ...now, ...about },
        { agent: record ?? null, sessions: entries },
      );
      if (snapshot.digest === unless) return undefined;
      made = snapshot;
      return { changes: [], docs: [still, change, ...(receipt?.docs(snapshot.id) ?? [])] };
    });
    if (applied.ok) return made;
    receipt?.check(applied, 2);
    if (applied.why === "forkPoint")
      throw new HoldfastError(
        "CORRUPT",
        `A session of agent ${quote(agent)} does not stand where it says. Run verify.`,
        {},
      );
  }
  throw new HoldfastError(
    "BUSY",
    `The record of agent ${quote(agent)} was saved again and again meanwhile. Try again.`,
    {},
  );
}

export const newSnapshotId = (ctx: StoreContext): string => `snap-${ctx.newBranchId()}`;
