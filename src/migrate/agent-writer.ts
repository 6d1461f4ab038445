/**
 * Writes records of agents, and snapshots of them.
 *
 * A record says in its metadata what was imported, and a fingerprint of how it was stored: where that is another by now, somebody has changed
 * it here, and it is left alone.
 */
import { quote } from "../core/errors.js";
import type { AgentInput, AgentRecord, Holdfast, Json, JsonObject } from "../index.js";
import { textAt, withSource } from "./fields.js";
import { sortedText } from "./json.js";
import type { ForeignRecord } from "./model.js";
import { digestOf } from "./names.js";
import { sourceIn } from "./plan.js";
import type { MigratedAgent, Outcome } from "./report.js";
import { isRefused, type Writing } from "./writing.js";

export class AgentWriter {
  readonly #writing: Writing;
  /** The last record of each agent says how the agent stands now. */
  readonly #last: ReadonlyMap<string, ForeignRecord>;
  readonly #snapshots = new Map<string, Promise<Snapshots>>();
  readonly #agents = new Map<string, MigratedAgent>();
  readonly #records: readonly ForeignRecord[];

  constructor(writing: Writing, records: readonly ForeignRecord[]) {
    this.#writing = writing;
    this.#records = records;
    this.#last = new Map(records.map((record) => [record.agent, record]));
  }

  async write(record: ForeignRecord): Promise<void> {
    const { report } = this.#writing;
    const { agent, snapshot } = record;
    const taken = snapshot && (await this.#taken(agent));
    const key = snapshot && `${record.digest} ${snapshot.id}`;
    const isKnown = key !== undefined && taken?.keys.has(key) === true;
    const isLate = key !== undefined && !isKnown && taken?.late.has(key) === true;
    if (isLate)
      report.note(`Checkpoint ${quote(snapshot?.id ?? "")} is not here as a snapshot, and later ones are: it is left out.`, record.path);
    // In a dry run nothing of it is where it is written to.
    const isWritten = (isKnown || isLate) && this.#writing.into === this.#writing.seen;
    const saved = isWritten ? undefined : await this.#save(record);
    if (snapshot === undefined) return;
    const outcome = isKnown ? "known" : isLate ? "refused" : (saved ?? "imported");
    const isTaken = outcome !== "conflict" && outcome !== "refused" && !isWritten;
    if (isTaken) await this.#snapshot(record, snapshot);
    if (key !== undefined) taken?.keys.add(key);
    report.snapshots.push({ id: snapshot.id, agent, outcome });
  }

  /** Undefined where it was saved, or stands as it is to be. */
  async #save(record: ForeignRecord): Promise<"conflict" | "refused" | undefined> {
    const { kind, into, seen, clock, report } = this.#writing;
    const { agent, path, bytes, digest } = record;
    const before = await seen?.agents.get(agent);
    const source = before && sourceIn(before.metadata);
    if (before !== undefined && (source?.["kind"] !== kind || source["fingerprint"] !== fingerprint(before))) {
      const what = source?.["kind"] === kind ? "It was changed here since it was imported." : "There is another agent of this id here.";
      this.#tell(agent, "conflict", what);
      return "conflict";
    }
    if (source?.["digest"] === digest && into === seen) {
      // A checkpoint said the same a moment ago.
      if (this.#agents.has(agent) && this.#agents.get(agent)?.outcome !== "known") report.stored(path, bytes);
      this.#tell(agent, "known");
      return undefined;
    }
    try {
      const { source: more, metadata, ...fields } = await record.load();
      clock.at = record.at ?? clock.at;
      const stored = { id: agent, name: agent, ...fields, metadata: withSource(metadata, { kind, digest, ...more }) };
      const about = { ...(stored.metadata["source"] as JsonObject), fingerprint: fingerprint(stored) };
      await into.agents.save({ ...stored, metadata: { ...stored.metadata, source: about } });
    } catch (error) {
      if (!isRefused(error)) throw error;
      report.skip(path, `Agent ${quote(agent)}: ${error.message}`);
      this.#tell(agent, "refused");
      return "refused";
    }
    report.stored(path, bytes);
    const isSame = before !== undefined && source?.["digest"] === this.#last.get(agent)?.digest;
    this.#tell(agent, before === undefined ? "imported" : isSame ? "known" : "grown");
    return undefined;
  }

  async #snapshot(record: ForeignRecord, { id, at, source, ...about }: NonNullable<ForeignRecord["snapshot"]>): Promise<void> {
    const { kind, into, clock, report } = this.#writing;
    clock.at = at ?? clock.at;
    await into.agents.snapshot(record.agent, { ...about, metadata: { source: { kind, id, digest: record.digest, ...source } } });
    report.stored(record.path, record.bytes);
  }

  /** Of all that is said of an agent in one import, what weighs most. */
  #tell(id: string, outcome: Outcome, message?: string): void {
    const before = this.#agents.get(id)?.outcome;
    if (before === undefined || WEIGHT.indexOf(outcome) > WEIGHT.indexOf(before))
      this.#agents.set(id, { id, outcome, ...(message !== undefined && { message }) });
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
    const own = this.#records.flatMap(({ agent: of, digest, snapshot }) => (of === agent && snapshot ? [`${digest} ${snapshot.id}`] : []));
    const last = own.findLastIndex((key) => keys.has(key));
    return { keys, late: new Set(own.slice(0, last + 1).filter((key) => !keys.has(key))) };
  }
}

interface Snapshots {
  readonly keys: Set<string>;
  readonly late: ReadonlySet<string>;
}

const WEIGHT: readonly Outcome[] = ["known", "grown", "imported", "refused", "conflict"];

async function snapshotsOf(hold: Holdfast, agent: string, kind: string): Promise<Set<string>> {
  const keys = new Set<string>();
  for (let cursor: string | undefined; ; ) {
    const page = await hold.agents.snapshots(agent, { limit: 1_000, ...(cursor !== undefined && { cursor }) });
    for (const { metadata } of page.items) {
      const source = sourceIn(metadata);
      if (source?.["kind"] === kind) keys.add(`${textAt(source, "digest")} ${textAt(source, "id")}`);
    }
    if (page.next === undefined) return keys;
    cursor = page.next;
  }
}

/** Of what a record says, without the note of where it came from. */
function fingerprint({ name, type, system, capabilities, config, state, metadata }: AgentInput | AgentRecord): string {
  const source = metadata && sourceIn(metadata);
  const { source: _source, ...rest } = (metadata ?? {}) as JsonObject;
  const theirs = source?.["metadata"] ?? rest;
  return digestOf(
    sortedText([name ?? null, type ?? null, system ?? null, [...new Set(capabilities ?? [])], config ?? {}, state ?? {}, theirs] as Json),
  );
}
