/**
 * Writes records of agents, and snapshots of them.
 *
 * A record says in its metadata what was imported, and a fingerprint of how it was stored: where
 * that is another by now, somebody has changed it here, and it is left alone.
 */
import { quote } from "../../core/values/errors.js";
import { sortedText } from "../../core/values/json.js";
import type {
  AgentInput,
  AgentRecord,
  Holdfast,
  Json,
  JsonObject,
  SnapshotOptions,
} from "../../index.js";
import { textAt, withSource } from "../reading/fields.js";
import type { ForeignRecord } from "../reading/model.js";
import { digestOf } from "../reading/names.js";
import type { MigratedAgent, MigratedSnapshot, Outcome } from "../reading/report.js";
import { sourceIn } from "./plan.js";
import { isRefused, type Writing } from "./writing.js";

export class AgentWriter {
  readonly #writing: Writing;
  /** The last record of each agent says how the agent stands now. */
  readonly #last: ReadonlyMap<string, ForeignRecord>;
  readonly #identities: ReadonlySet<string>;
  readonly #snapshots = new Map<string, Promise<Snapshots>>();
  readonly #agents = new Map<string, MigratedAgent>();
  /** How large the records are that were saved. */
  readonly #sizes = new Map<string, number>();
  readonly #records: readonly ForeignRecord[];
  readonly #labels: LabelsOf;

  /** `labels` answers what the source said of an agent's sessions so far. */
  constructor(writing: Writing, records: readonly ForeignRecord[], labels: LabelsOf) {
    this.#writing = writing;
    this.#labels = labels;
    this.#records = records;
    this.#identities = new Set(records.map(({ identity, agent }) => `${identity} ${agent}`));
    this.#last = new Map(records.map((record) => [record.agent, record]));
  }

  async write(record: ForeignRecord): Promise<void> {
    const { snapshot } = record;
    if (snapshot === undefined) await this.#save(record);
    else
      this.#writing.report.snapshots.push({
        id: snapshot.id,
        agent: record.agent,
        ...(await this.#both(record, snapshot)),
      });
  }

  /** The record, and the snapshot that goes with it. */
  async #both(
    record: ForeignRecord,
    snapshot: ForeignSnapshot,
  ): Promise<Pick<MigratedSnapshot, "outcome" | "message">> {
    const { report, into, seen, trial } = this.#writing;
    const taken = await this.#taken(record.agent);
    const key = keyOf(record, snapshot);
    const isKnown = taken.keys.has(key);
    if (taken.late.has(key)) {
      const message = `Checkpoint ${quote(snapshot.id)} is not here as a snapshot, and later ones are: it is left out.`;
      report.note(message, record.path);
      return { outcome: "refused", message };
    }
    // In a dry run nothing of it is where it is written to.
    if (isKnown && into === seen) return { outcome: "known" };
    let about: SnapshotOptions = {};
    const refused = await this.#tries(record, snapshot, async () => {
      about = await this.#about(record, snapshot);
      await trial.snapshot(about);
    });
    // The last one says how the agent stands, with a snapshot or without.
    const saved =
      refused === undefined || this.#last.get(record.agent) === record
        ? await this.#save(record)
        : undefined;
    const left =
      refused ??
      saved ??
      (await this.#tries(record, snapshot, () => this.#take(record, snapshot, about)));
    if (left !== undefined) return left;
    taken.keys.add(key);
    return { outcome: isKnown ? "known" : "imported" };
  }

  async #about(
    { digest }: ForeignRecord,
    { id, at: _at, source, ...about }: ForeignSnapshot,
  ): Promise<SnapshotOptions> {
    return {
      ...about,
      metadata: { source: { kind: this.#writing.kind, id, digest, ...(await source()) } },
    };
  }

  /**
   * With the labels that the source gives the sessions at this moment: those that they have are of
   * another one.
   */
  async #take(
    record: ForeignRecord,
    { at }: ForeignSnapshot,
    about: SnapshotOptions,
  ): Promise<void> {
    const { into, clock, report } = this.#writing;
    const labels = await this.#labels(record.agent);
    clock.at = at ?? clock.at;
    const made = await into.agents.snapshot(record.agent, { ...about, labels });
    report.stored(record.path, record.bytes);
    report.takes(bytesOf(made as unknown as Json) + (this.#sizes.get(record.agent) ?? 0));
  }

  /** Undefined where nothing was refused. */
  async #tries(
    record: ForeignRecord,
    { id }: ForeignSnapshot,
    act: () => Promise<void>,
  ): Promise<Left | undefined> {
    try {
      await act();
      return undefined;
    } catch (error) {
      if (!isRefused(error)) throw error;
      this.#writing.report.skip(record.path, `The snapshot ${quote(id)}: ${error.message}`);
      return { outcome: "refused", message: error.message };
    }
  }

  /** Undefined where it was saved, or stands as it is to be. */
  async #save(record: ForeignRecord): Promise<Left | undefined> {
    const { kind, into, seen, clock, report } = this.#writing;
    const { agent, path, bytes, digest, identity } = record;
    const before = await seen?.agents.get(agent);
    const source = before && sourceIn(before.metadata);
    const conflict = before && (await this.#conflict(before, source));
    if (conflict !== undefined) return this.#tell(agent, "conflict", conflict);
    if (source?.["digest"] === digest && into === seen) {
      // A checkpoint said the same a moment ago.
      if (this.#agents.has(agent) && this.#agents.get(agent)?.outcome !== "known")
        report.stored(path, bytes);
      this.#tell(agent, "known");
      return undefined;
    }
    try {
      const { source: more, metadata, ...fields } = await record.load();
      clock.at = record.at ?? clock.at;
      const stored = {
        id: agent,
        name: agent,
        ...fields,
        metadata: withSource(metadata, { kind, digest, identity, ...more }),
      };
      const about = {
        ...(stored.metadata["source"] as JsonObject),
        fingerprint: fingerprint(stored),
      };
      const saved = await into.agents.save({
        ...stored,
        metadata: { ...stored.metadata, source: about },
      });
      this.#sizes.set(agent, bytesOf(saved as unknown as Json));
    } catch (error) {
      if (!isRefused(error)) throw error;
      report.skip(path, `Agent ${quote(agent)}: ${error.message}`);
      return this.#tell(agent, "refused", error.message);
    }
    report.stored(path, bytes);
    report.takes(this.#sizes.get(agent) ?? 0);
    const isSame = before !== undefined && source?.["digest"] === this.#last.get(agent)?.digest;
    this.#tell(agent, before === undefined ? "imported" : isSame ? "known" : "grown");
    return undefined;
  }

  /** Why a record that is here is not to be written over. */
  async #conflict(
    before: AgentRecord,
    source: JsonObject | undefined,
  ): Promise<string | undefined> {
    if (source?.["kind"] !== this.#writing.kind) return "There is another agent of this id here.";
    if (source["fingerprint"] !== fingerprint(before))
      return "It was changed here since it was imported.";
    if (
      this.#identities.has(`${source["identity"]} ${before.id}`) ||
      (await this.#taken(before.id)).isShared
    )
      return undefined;
    return "There is another agent of this id here: it has another name, or was made at another time, and shares no checkpoint with this one.";
  }

  /** Of all that is said of an agent in one import, what weighs most. */
  #tell(id: string, outcome: Outcome, message?: string): Left {
    const before = this.#agents.get(id)?.outcome;
    const told = { outcome, ...(message !== undefined && { message }) };
    if (before === undefined || WEIGHT.indexOf(outcome) > WEIGHT.indexOf(before))
      this.#agents.set(id, { id, ...told });
    return told;
  }

  end(): void {
    // Where every checkpoint is known and the agent has no file, its record was not looked at.
    for (const { agent } of this.#records) if (!this.#agents.has(agent)) this.#tell(agent, "known");
    this.#writing.report.agents.push(...this.#agents.values());
  }

  /** The snapshots of an agent that are here, and those that can no longer be taken. */
  #taken(agent: string): Promise<Snapshots> {
    const found = this.#snapshots.get(agent) ?? this.#look(agent);
    this.#snapshots.set(agent, found);
    return found;
  }

  async #look(agent: string): Promise<Snapshots> {
    const { seen, kind } = this.#writing;
    const keys = seen === undefined ? new Set<string>() : await snapshotsOf(seen, agent, kind);
    const own = this.#records.flatMap((record) =>
      record.agent === agent && record.snapshot ? [keyOf(record, record.snapshot)] : [],
    );
    const last = own.findLastIndex((key) => keys.has(key));
    return {
      keys,
      late: new Set(own.slice(0, last + 1).filter((key) => !keys.has(key))),
      isShared: last !== -1,
    };
  }
}

interface Snapshots {
  readonly keys: Set<string>;
  readonly late: ReadonlySet<string>;
  /** Whether one of this source is here. */
  readonly isShared: boolean;
}

type LabelsOf = (agent: string) => Promise<NonNullable<SnapshotOptions["labels"]>>;
type ForeignSnapshot = NonNullable<ForeignRecord["snapshot"]>;
type Left = Pick<MigratedSnapshot, "outcome" | "message">;

const keyOf = ({ digest }: ForeignRecord, { id }: ForeignSnapshot): string => `${digest} ${id}`;
const bytesOf = (value: Json): number => Buffer.byteLength(JSON.stringify(value));

const WEIGHT: readonly Outcome[] = ["known", "grown", "imported", "refused", "conflict"];

async function snapshotsOf(hold: Holdfast, agent: string, kind: string): Promise<Set<string>> {
  const keys = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await hold.agents.snapshots(agent, {
      limit: 1_000,
      ...(cursor !== undefined && { cursor }),
    });
    for (const { metadata } of page.items) {
      const source = sourceIn(metadata);
      if (source?.["kind"] === kind)
        keys.add(`${textAt(source, "digest")} ${textAt(source, "id")}`);
    }
    if (page.next === undefined) return keys;
    cursor = page.next;
  }
}

/** Of what a record says, without the note of where it came from. */
function fingerprint({
  name,
  type,
  system,
  capabilities,
  config,
  state,
  metadata,
}: AgentInput | AgentRecord): string {
  const source = metadata && sourceIn(metadata);
  const { source: _source, ...rest } = (metadata ?? {}) as JsonObject;
  const theirs = source?.["metadata"] ?? rest;
  return digestOf(
    sortedText([
      name ?? null,
      type ?? null,
      system ?? null,
      [...new Set(capabilities ?? [])],
      config ?? {},
      state ?? {},
      theirs,
    ] as Json),
  );
}
