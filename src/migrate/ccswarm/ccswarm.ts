/**
 * ccswarm: `sessions/<session>/<id>.json`, each a whole state and perhaps bytes of context, with
 * its parent. `index.json` is a hint and nothing else; `forks.json` says which sessions began at a
 * checkpoint of another.
 */
import { quote } from "../../core/values/errors.js";
import type { Json, JsonObject } from "../../index.js";
import { type Document, Documents, stepIn } from "../reading/documents.js";
import { inFamilies } from "../reading/families.js";
import { at, Fields, isObject, objectAt, present, roomBeside, textAt } from "../reading/fields.js";
import { jsonFiles } from "../reading/files.js";
import {
  type Content,
  type Foreign,
  type ForeignSession,
  oneAfterAnother,
  type Reading,
  type Step,
} from "../reading/model.js";
import { clipped, isName, nameOf } from "../reading/names.js";
import type { Report } from "../reading/report.js";
import { compareTexts, compareTimes, type Moment, momentOf } from "../reading/times.js";
import { contextOf } from "./ccswarm-context.js";
import { FORKS, type Fork, forksOf } from "./ccswarm-forks.js";

interface Light {
  readonly session: string;
  readonly time: Moment | undefined;
  readonly parent: string | undefined;
  readonly record: Step;
}

const INDEX = "index.json";
/** Checkpoints that the index lists, and what it says of those that were not read yet. */
type Index = Map<string, Fields | undefined>;
const MAX_LABEL = 1_000;
/**
 * How many keys of a checkpoint that have another name here are noted. Its metadata has all of
 * them.
 */
const MAX_RENAMED = 100;

export async function readCcswarm({ root, report, signal }: Reading): Promise<Foreign> {
  const files = await jsonFiles(root, report, signal);
  report.expects(files.length);
  const documents = new Documents(root, report, signal);
  const all: Light[] = [];
  const index: Index = new Map();
  let isIndexed = false;
  let forks: readonly Fork[] = [];
  for await (const document of documents.each(files)) {
    const { file, value } = document;
    if (file.path === INDEX) {
      isIndexed = true;
      for (const [id, entry] of Object.entries(value))
        index.set(id, new Fields(isObject(entry) ? entry : { entry }, report.of(INDEX), "[]"));
    } else if (file.path === FORKS) forks = forksOf(value, report);
    else {
      const light = file.path.startsWith("sessions/")
        ? lightOf(document, documents, index, report)
        : undefined;
      if (light === undefined)
        report.strange(
          file.path,
          "It is no checkpoint of ccswarm: those are under sessions/, with an id, a session_id and a state.",
        );
      else all.push(light);
    }
  }
  compareWithIndex(isIndexed ? index : undefined, all, report);
  return { acts: oneAfterAnother(sessionsOf(all, forks, report)) };
}

function lightOf(
  { value, file, digest }: Document,
  documents: Documents,
  index: Index,
  report: Report,
): Light | undefined {
  const id = textAt(value, "id");
  const session = textAt(value, "session_id");
  if (id === undefined || session === undefined || at(value, "state") === undefined)
    return undefined;
  const time = momentOf(at(value, "created_at"));
  const entry = besides(index.get(id), value, file.path);
  if (index.has(id)) index.set(id, undefined);
  const record: Step = {
    ...stepIn(file, { id, digest, time }),
    load: async () =>
      contentOf((await documents.again(file, digest)).value, entry, report, file.path),
  };
  return {
    session,
    time,
    parent: textAt(objectAt(value, "metadata") ?? {}, "parent_checkpoint_id"),
    record,
  };
}

/**
 * What the index alone says of a checkpoint: the checkpoint's metadata keeps it. The index is read
 * before the checkpoints.
 */
function besides(entry: Fields | undefined, value: JsonObject, path: string): Fields | undefined {
  for (const key of ["id", "session_id", "label", "created_at"]) entry?.same(key, at(value, key));
  entry?.same("path", path);
  // It follows from the file.
  entry?.count("size_bytes");
  return entry?.unmapped.length === 0 ? undefined : entry;
}

/** What it lists is compared, and its paths are not opened. */
function compareWithIndex(index: Index | undefined, all: readonly Light[], report: Report): void {
  if (index === undefined)
    return report.note("There is no index that can be read: the files say all there is.", INDEX);
  const ids = new Set(all.map(({ record }) => record.id));
  for (const id of index.keys())
    if (!ids.has(id))
      report.note(`Checkpoint ${quote(id)} is in the index, and no file has it.`, INDEX);
  for (const { record } of all)
    if (!index.has(record.id))
      report.note("It is not in the index. It is imported all the same.", record.path);
}

function sessionsOf(
  all: readonly Light[],
  forks: readonly Fork[],
  report: Report,
): readonly ForeignSession[] {
  const ordered = inFamilies(
    [...all].sort(
      (a, b) =>
        compareTimes(a.time, b.time) ||
        compareTexts(a.record.id, b.record.id) ||
        compareTexts(a.record.path, b.record.path),
    ),
    report,
  );
  const owner = new Map<string, string>();
  const bySession = new Map<string, Light[]>();
  const seen = new Set<string>();
  for (const light of ordered) {
    const twin = `${light.session}\n${light.record.id}\n${light.record.digest}`;
    if (seen.has(twin)) {
      report.note("The same checkpoint is there twice: imported once.", light.record.path);
      continue;
    }
    seen.add(twin);
    if (!owner.has(light.record.id)) owner.set(light.record.id, light.session);
    const others = bySession.get(light.session);
    if (others === undefined) bySession.set(light.session, [light]);
    else others.push(light);
  }
  const byFork = new Map(forks.map((fork) => [fork.id, fork]));
  for (const { id } of forks) if (!bySession.has(id)) bySession.set(id, []);
  const made = new Map<string, ForeignSession>();
  for (const id of forksLast([...bySession.keys()].sort(compareTexts), (fork) =>
    owner.get(byFork.get(fork)?.checkpoint ?? ""),
  )) {
    const fork = byFork.get(id);
    const from = fork && owner.get(fork.checkpoint);
    const isFork = from !== undefined && from !== id && made.has(from);
    const lights = bySession.get(id) ?? [];
    if (fork !== undefined && from === id)
      report.note(`Fork ${quote(id)} begins at a checkpoint of its own: it is no fork.`, FORKS);
    else if (fork !== undefined) noteFork(fork, isFork ? from : undefined, lights.length, report);
    if (lights.length === 0 && !isFork) continue;
    const steps = lights.map(({ record, parent }) => ({
      ...record,
      ...parentOf(id, parent, record, owner, fork, report),
    }));
    made.set(id, {
      id: nameOf(id),
      foreign: id,
      ...(fork?.branch && {
        title: clipped(fork.branch, MAX_LABEL),
        ...(isName(fork.branch) && { tags: [fork.branch] }),
      }),
      ...(fork && { metadata: fork.metadata, source: fork.source }),
      at: fork?.at ?? steps[0]?.at,
      ...(fork && isFork && { forkPoint: { session: from, step: fork.checkpoint } }),
      steps,
    });
  }
  return [...made.values()];
}

/** Each after the one that it was forked from; where they go in a circle, one of them is first. */
function forksLast(
  ids: readonly string[],
  fromOf: (id: string) => string | undefined,
): Iterable<string> {
  const placed = new Set<string>();
  for (const id of ids) {
    const chain = new Set<string>();
    for (
      let next: string | undefined = id;
      next !== undefined && !placed.has(next) && !chain.has(next);
      next = fromOf(next)
    )
      chain.add(next);
    for (const each of [...chain].reverse()) placed.add(each);
  }
  return placed;
}

function noteFork(
  { id, checkpoint, parent }: Fork,
  from: string | undefined,
  steps: number,
  report: Report,
): void {
  if (from === undefined) {
    const left =
      steps > 0 ? "it is imported as a session of its own" : "nothing of it is left to import";
    report.note(
      `Fork ${quote(id)} begins at checkpoint ${quote(checkpoint)}, which is not there: ${left}.`,
      FORKS,
    );
  } else if (from !== parent)
    report.note(
      `Fork ${quote(id)} names ${quote(parent)} as its parent, and its checkpoint is of ${quote(from)}: it begins there.`,
      FORKS,
    );
}

function parentOf(
  session: string,
  parent: string | undefined,
  { path, id }: Step,
  owner: ReadonlyMap<string, string>,
  fork: Fork | undefined,
  report: Report,
): { parent?: string } {
  if (parent === undefined) return {};
  const of = owner.get(parent);
  if (of === session && parent !== id) return { parent };
  if (of !== undefined && fork?.checkpoint === parent) return {};
  const why =
    of === undefined
      ? "which is not there"
      : of === session
        ? "which is itself"
        : `which is of session ${quote(of)}`;
  report.note(`Its parent is ${quote(parent)}, ${why}: it follows the one before it.`, path);
  return {};
}

function contentOf(
  value: JsonObject,
  entry: Fields | undefined,
  report: Report,
  path: string,
): Content {
  const told = report.of(path);
  const fields = new Fields(value, told);
  if (entry !== undefined) fields.adopt(INDEX, entry);
  // The step and the session have these.
  fields.text("id");
  fields.text("session_id");
  const about = fields.fields("metadata");
  const label = fields.clipped("label", MAX_LABEL);
  const isCompressed = about?.flag("context_compressed");
  const context = contextOf(fields.any("context"), isCompressed === true, (what) =>
    told.note(what),
  );
  const { state, renamed } = stateOf(fields.any("state") ?? null, context);
  const names = Object.keys(renamed);
  // Said once, not of each checkpoint: they have it in their metadata.
  for (const name of names.slice(0, MAX_RENAMED))
    report.note(
      `A key of states that Holdfast does not take, or has itself, has another name here: ${quote(name)}.`,
    );
  const metadata = about?.object("extra");
  return {
    messages: [],
    state,
    mark: {
      ...(label !== undefined && { label }),
      ...present({
        tokenCount: about?.count("token_count"),
        tasksCompleted: about?.count("tasks_completed"),
      }),
    },
    ...(metadata && { metadata }),
    source: fields.source(
      {
        createdAt: fields.any("created_at"),
        parent: about?.any("parent_checkpoint_id"),
        stateSizeBytes: about?.any("state_size_bytes"),
        // Where there is a context, its format says it.
        contextCompressed:
          isCompressed === true && Object.keys(context).length === 0 ? true : undefined,
        renamed: names.length === 0 ? undefined : renamed,
      },
      roomBeside(metadata),
    ),
  };
}

/**
 * The fields of a state as ours, so that a list among them that grows is stored once. Those that
 * cannot be have another name here.
 */
function stateOf(
  state: Json,
  beside: JsonObject,
): { readonly state: JsonObject; readonly renamed: JsonObject } {
  if (!isObject(state)) return { state: { state, ...beside }, renamed: {} };
  const isOurs = (key: string): boolean =>
    isName(key) && key !== "messages" && !Object.hasOwn(beside, key);
  const taken = new Set(Object.keys(state).filter(isOurs));
  const renamed: [string, string][] = [];
  const fields = Object.entries(state).map(([key, value]) => {
    if (isOurs(key)) return [key, value] as const;
    let name = isName(key) ? nameOf(`${key}_`) : nameOf(key);
    while (taken.has(name)) name = nameOf(`${name}_`);
    taken.add(name);
    renamed.push([name, key]);
    return [name, value] as const;
  });
  return {
    state: { ...Object.fromEntries(fields), ...beside },
    renamed: Object.fromEntries(renamed),
  };
}
