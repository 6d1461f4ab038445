/**
 * AetherShell: `agents/`, `conversations/` and `checkpoints/`, one file each. A checkpoint holds an
 * agent and its conversations as they were; here it is a checkpoint of each of these sessions, and
 * a snapshot of the agent. What the other files hold is how it all stands now.
 */
import { quote } from "../../core/values/errors.js";
import { sortedText } from "../../core/values/json.js";
import type { CheckpointKind, Json, JsonObject } from "../../index.js";
import { type Document, Documents, stepIn } from "../reading/documents.js";
import { at, Fields, isObject, listAt, objectAt, textAt } from "../reading/fields.js";
import { type FoundFile, jsonFiles, unreadable } from "../reading/files.js";
import type {
  Act,
  Content,
  Foreign,
  ForeignRecord,
  ForeignSession,
  Reading,
  Step,
} from "../reading/model.js";
import { digestOf, nameOf } from "../reading/names.js";
import { type FileReport, type Report, UNREPORTED } from "../reading/report.js";
import { compareTexts, compareTimes, type Moment, momentOf } from "../reading/times.js";
import { checkChecksum } from "./aethershell-checksum.js";
import { conversationOf, type Heading, headingOf, recordOf } from "./aethershell-records.js";

/** A conversation as it was at one moment. */
interface Copy {
  readonly foreign: string;
  readonly heading: Heading;
  /** Of what it says: maps are written in another order each time. */
  readonly digest: string;
  readonly file: FoundFile;
  readonly time: Moment | undefined;
  readonly load: Step["load"];
}

interface CheckpointFile {
  readonly id: string;
  readonly time: Moment | undefined;
  readonly copies: readonly Copy[];
  /** The time of the newest message in it, how many it has, and when its agent was last changed. */
  readonly newest: Moment | undefined;
  readonly messages: number;
  readonly modified: Moment | undefined;
  readonly record: ForeignRecord | undefined;
  readonly mark: NonNullable<Content["mark"]>;
}

const CHECKPOINT_KINDS: Readonly<Record<string, CheckpointKind>> = {
  Automatic: "automatic",
  Manual: "manual",
  PreOperation: "pre-operation",
  Recovery: "recovery",
};

/** How many conversations a snapshot names: its metadata has a bound. */
const MAX_NAMED = 100;

export async function readAethershell({ root, report, signal }: Reading): Promise<Foreign> {
  const files = await jsonFiles(root, report, signal);
  report.expects(files.length);
  const documents = new Documents(root, report, signal);
  const agents = new Map<string, ForeignRecord>();
  const live: Copy[] = [];
  const checkpoints: CheckpointFile[] = [];
  for await (const document of documents.each(files)) {
    const { file, value } = document;
    const [folder] = file.path.split("/");
    const agent = textAt(value, "agent_id");
    if (folder === "agents" && agent !== undefined) {
      if (agents.has(agent))
        report.note(`Agent ${quote(agent)} is there twice: the last one is taken.`, file.path);
      agents.set(agent, liveRecord(agent, document, documents, report));
    } else if (folder === "conversations" && textAt(value, "id") !== undefined)
      live.push(liveCopy(document, documents, report));
    else if (folder === "checkpoints" && textAt(value, "id") !== undefined)
      checkpoints.push(checkpointFile(document, documents, report));
    else report.strange(file.path, "It is no agent, conversation or checkpoint of AetherShell.");
  }
  // They know seconds: of those of one second, the one that knows more came later.
  checkpoints.sort(
    (a, b) =>
      compareTimes(a.time, b.time) ||
      compareTimes(a.newest, b.newest) ||
      a.messages - b.messages ||
      compareTimes(a.modified, b.modified) ||
      compareTexts(a.id, b.id),
  );
  live.sort((a, b) => compareTimes(a.time, b.time) || compareTexts(a.foreign, b.foreign));
  return { acts: actsOf(agents, live, checkpoints, report) };
}

function liveRecord(
  agent: string,
  { value, file, digest }: Document,
  documents: Documents,
  report: Report,
): ForeignRecord {
  const id = nameOf(agent);
  return {
    agent: id,
    identity: identityOf(value),
    digest: digestOf(sortedText(value)),
    at: momentOf(at(value, "modified_at"))?.ms ?? file.mtimeMs,
    path: file.path,
    bytes: file.bytes,
    load: async () =>
      recordOf((await documents.again(file, digest)).value, id, "", report.of(file.path)),
  };
}

/** These hardly ever change: of two agents with one id, they tell which is which. */
const identityOf = (agent: JsonObject): string =>
  digestOf(sortedText([at(agent, "created_at") ?? null, at(agent, "name") ?? null]));

/** Of many, how many. */
const namesOf = (copies: readonly Copy[]): JsonObject =>
  copies.length <= MAX_NAMED
    ? { conversations: copies.map(({ foreign }) => foreign) }
    : { conversationCount: copies.length };

function liveCopy({ value, file, digest }: Document, documents: Documents, report: Report): Copy {
  const time = momentOf(at(value, "last_message_at")) ?? momentOf(at(value, "created_at"));
  const load = async () =>
    conversationOf((await documents.again(file, digest)).value, "", report.of(file.path));
  const heading = headingOf(value, "", UNREPORTED);
  return {
    foreign: textAt(value, "id") as string,
    heading,
    digest: digestOf(sortedText(value)),
    file,
    time,
    load,
  };
}

/** All that a checkpoint says of itself. */
function aboutCheckpoint(value: JsonObject, told: FileReport) {
  const fields = new Fields(value, told);
  const name = fields.clipped("name", 1_000);
  const description = fields.clipped("description", 100_000);
  const type = fields.choice("checkpoint_type", Object.keys(CHECKPOINT_KINDS));
  return {
    fields,
    id: fields.text("id") as string,
    agent: fields.text("agent_id"),
    state: fields.object("agent_state"),
    conversations: fields.list("conversations") ?? [],
    name,
    words: {
      ...(description !== undefined && { description }),
      kind: (type === undefined ? undefined : CHECKPOINT_KINDS[type]) ?? "manual",
    },
    kept: {
      createdAt: fields.any("created_at"),
      checksum: fields.clipped("checksum", 200),
      sizeBytes: fields.any("size_bytes"),
    },
  };
}

/** It holds on to nothing of the document: there may be very many. */
function checkpointFile(document: Document, documents: Documents, report: Report): CheckpointFile {
  const { value, file, digest } = document;
  const told = report.of(file.path);
  const { fields, id, agent, state, conversations, name, words, kept } = aboutCheckpoint(
    value,
    UNREPORTED,
  );
  const checksum = checkChecksum(document);
  if (checksum === "differs")
    told.note(
      "Its checksum does not match what it holds: it was changed or damaged after it was written. It is imported as it stands.",
    );
  if (checksum === "unknown") told.note("It has no checksum that can be checked.");
  const time = momentOf(kept.createdAt);
  const isAgent = agent !== undefined && state !== undefined;
  const copies = conversations.flatMap((conversation, i): readonly Copy[] => {
    const foreign = isObject(conversation) ? textAt(conversation, "id") : undefined;
    if (!isObject(conversation) || foreign === undefined) {
      told.note(`conversations[${i}] has no id: left out.`);
      return [];
    }
    const load = async () => {
      const { value: now } = await documents.again(file, digest);
      const again = listAt(now, "conversations")?.[i];
      if (!isObject(again)) throw unreadable(`conversations[${i}] is gone.`);
      // Without a snapshot, the conversations keep what the checkpoint says.
      return conversationOf(
        again,
        "conversations[]",
        told,
        isAgent ? undefined : aboutCheckpoint(now, told).fields,
      );
    };
    const heading = headingOf(conversation, "conversations[]", UNREPORTED);
    return [{ foreign, heading, digest: digestOf(sortedText(conversation)), file, time, load }];
  });
  if (!isAgent) told.note("It holds no agent: only its conversations are imported.");
  if (!isAgent && copies.length === 0)
    for (const field of fields.unmapped)
      report.skip(file.path, `Field ${quote(field)} belongs to no agent and no session: left out.`);
  return {
    id,
    time,
    copies,
    newest: newestOf(
      conversations.map((each) => (isObject(each) ? at(each, "last_message_at") : undefined)),
    ),
    modified: momentOf(at(state ?? {}, "modified_at")),
    messages: conversations.reduce(
      (sum: number, each) => sum + ((isObject(each) && listAt(each, "messages")?.length) || 0),
      0,
    ),
    mark: { ...(name && { label: name }), ...words },
    record: isAgent
      ? {
          agent: nameOf(agent),
          identity: identityOf(state),
          digest: digestOf(sortedText(state)),
          at: momentOf(at(state, "modified_at"))?.ms ?? time?.ms,
          path: file.path,
          bytes: file.bytes,
          load: async () =>
            recordOf(
              objectAt((await documents.again(file, digest)).value, "agent_state") ?? {},
              nameOf(agent),
              "agent_state",
              told,
            ),
          snapshot: {
            id,
            ...(name && { name }),
            ...words,
            at: time?.ms ?? file.mtimeMs,
            source: async () => {
              const again = aboutCheckpoint((await documents.again(file, digest)).value, told);
              return again.fields.source({
                ...again.kept,
                isVerified: checksum === "matches",
                ...namesOf(copies),
              });
            },
          },
        }
      : undefined,
  };
}

const newestOf = (times: readonly (Json | undefined)[]): Moment | undefined =>
  times.map(momentOf).toSorted(compareTimes).at(-1);

/**
 * In order of time over all agents: a conversation may be in checkpoints of two. Then how
 * everything stands now.
 */
function actsOf(
  agents: ReadonlyMap<string, ForeignRecord>,
  live: readonly Copy[],
  checkpoints: readonly CheckpointFile[],
  report: Report,
): readonly Act[] {
  const steps = new Map<string, { step: Step; copy: Copy }[]>();
  const liveOf = new Map(live.map((copy) => [copy.foreign, copy]));
  const ofCheckpoint = checkpoints.map(({ id, copies, mark }) =>
    copies.map((copy) => {
      const now = liveOf.get(copy.foreign);
      const twin = now?.digest === copy.digest && { twin: now.file };
      return placed(steps, copy, {
        ...stepOf(copy, id),
        ...twin,
        load: async () => withMark(await copy.load(), mark),
      });
    }),
  );
  const current = new Map<string, Step>();
  const now = live.flatMap((copy) => {
    // Nothing has come since a checkpoint, or it was put back to it: that says it all.
    const same = steps
      .get(copy.foreign)
      ?.findLast(({ copy: { digest } }) => digest === copy.digest);
    const id = `live-${copy.digest.slice(0, 12)}`;
    const step = same?.step ?? {
      ...stepOf(copy, id),
      load: async () => withMark(await copy.load(), { kind: "automatic" }),
    };
    current.set(copy.foreign, step);
    return same === undefined ? [placed(steps, copy, step)] : [];
  });
  // The file of a conversation says what is beside its messages now; where there is none, the last
  // checkpoint does.
  const sessions = new Map(
    [...steps].map(([foreign, own]) => {
      const newest = liveOf.get(foreign) ?? (own.at(-1) as { copy: Copy }).copy;
      const all = own.map(({ step }) => step);
      const session = sessionOf(foreign, all, newest, agents, report);
      const at = current.get(foreign);
      return [foreign, at === undefined ? session : { ...session, current: at }] as const;
    }),
  );
  const act = ({ foreign, step }: { foreign: string; step: Step }): Act => ({
    does: "step",
    session: sessions.get(foreign) as ForeignSession,
    step,
  });
  return [
    ...[...sessions.values()].map((session): Act => ({ does: "session", session })),
    ...checkpoints.flatMap(({ record }, i): readonly Act[] => [
      ...(ofCheckpoint[i] ?? []).map(act),
      ...(record === undefined ? [] : [{ does: "record", record } as const]),
    ]),
    ...[...agents.values()].map((record): Act => ({ does: "record", record })),
    ...now.map(act),
  ];
}

const stepOf = ({ digest, time, file, heading }: Copy, id: string): Omit<Step, "load"> => ({
  ...stepIn(file, { id, digest, time }),
  words: heading.words,
});

function placed(
  steps: Map<string, { step: Step; copy: Copy }[]>,
  copy: Copy,
  step: Step,
): { foreign: string; step: Step } {
  const own = steps.get(copy.foreign);
  if (own === undefined) steps.set(copy.foreign, [{ step, copy }]);
  else own.push({ step, copy });
  return { foreign: copy.foreign, step };
}

const withMark = (content: Content, mark: CheckpointFile["mark"]): Content => ({
  ...content,
  mark,
});

function sessionOf(
  foreign: string,
  steps: readonly Step[],
  { heading, file }: Copy,
  agents: ReadonlyMap<string, ForeignRecord>,
  report: Report,
): ForeignSession {
  const { agent, words, createdAt, time } = heading;
  if (agent !== undefined && !agents.has(agent))
    report.note(
      `Conversation ${quote(foreign)} is of agent ${quote(agent)}, which has no file: an orphan. It is imported all the same.`,
      file.path,
    );
  return {
    id: nameOf(foreign),
    foreign,
    ...(agent ? { agent: nameOf(agent) } : undefined),
    ...words,
    identity: digestOf(sortedText([createdAt ?? null, agent ?? null])),
    at: time?.ms ?? steps[0]?.at,
    steps,
  };
}
