/**
 * ares-server: a flat directory of `<session>_<step>.json`, each with all messages so far, and
 * `<session>_latest.json`, which is not JSON but the name of the file that was saved last.
 */
import { quote } from "../../core/values/errors.js";
import type { Json, JsonObject, MessageInput } from "../../index.js";
import { type Document, Documents, stepIn } from "../reading/documents.js";
import { at, Fields, integerOf, isObject, textAt } from "../reading/fields.js";
import { type FoundFile, jsonFiles, unreadable } from "../reading/files.js";
import { namedMessage, roleOf } from "../reading/messages.js";
import {
  type Content,
  type Foreign,
  type ForeignSession,
  oneAfterAnother,
  type Reading,
  type Step,
} from "../reading/model.js";
import { nameOf } from "../reading/names.js";
import type { FileReport, Report } from "../reading/report.js";
import { compareTexts, compareTimes, type Moment, momentOf } from "../reading/times.js";

interface Light {
  readonly session: string;
  readonly agent: string | undefined;
  readonly step: bigint;
  readonly time: Moment | undefined;
  readonly record: Step;
}

interface Pointer {
  readonly path: string;
  /** As it says it. */
  readonly target: string;
  /** From the root. Compared with the paths of files, never opened. */
  readonly file: string;
}

const POINTER = "_latest.json";

export async function readAres({ root, report, signal }: Reading): Promise<Foreign> {
  const files = await jsonFiles(root, report, signal);
  report.expects(files.length);
  const documents = new Documents(root, report, signal);
  const pointers = new Map<string, Pointer>();
  const bySession = new Map<string, Light[]>();
  for await (const document of documents.each(files, (file, text) =>
    isPointer(file, text, pointers, report),
  )) {
    const light = lightOf(document, documents, report);
    if (light === undefined) {
      report.strange(
        document.file.path,
        "It is no checkpoint of ares: it has no session_id and step.",
      );
      continue;
    }
    const others = bySession.get(light.session);
    if (others === undefined) bySession.set(light.session, [light]);
    else others.push(light);
  }
  const sessions = [...bySession]
    .sort(([a], [b]) => compareTexts(a, b))
    .map(([id, steps]) => sessionOf(id, steps, pointers.get(id), report));
  for (const [session, { path, target }] of pointers)
    if (!bySession.has(session))
      report.note(`It points to ${quote(target)}, and its session has no checkpoint here.`, path);
  return { acts: oneAfterAnother(sessions) };
}

/** A file that is not JSON but names another one. */
function isPointer(
  file: FoundFile,
  text: string,
  pointers: Map<string, Pointer>,
  report: Report,
): boolean {
  const target = text.trim();
  const isNamed = file.name.endsWith(POINTER);
  if (isNamed && target.endsWith(".json") && target.length <= 4_096) {
    const folder = file.path.slice(0, -file.name.length);
    pointers.set(file.name.slice(0, -POINTER.length), {
      path: file.path,
      target,
      file: `${folder}${target}`,
    });
    return true;
  }
  if (!isNamed || target.startsWith("{")) return false;
  report.skip(
    file.path,
    "It should name the latest checkpoint, and is torn or empty: the highest step is taken for the latest.",
  );
  return true;
}

function lightOf(
  { value, file, digest }: Document,
  documents: Documents,
  report: Report,
): Light | undefined {
  const session = textAt(value, "session_id");
  const step = integerOf(at(value, "step"));
  if (session === undefined || step === undefined) return undefined;
  const time = momentOf(at(value, "timestamp"));
  const record: Step = {
    ...stepIn(file, { id: textAt(value, "id") ?? `${session}-${step}`, digest, time }),
    load: async () => contentOf((await documents.again(file, digest)).value, report.of(file.path)),
  };
  return { session, agent: textAt(value, "agent_name"), step, time, record };
}

function sessionOf(
  foreign: string,
  found: readonly Light[],
  pointer: Pointer | undefined,
  report: Report,
): ForeignSession {
  const inOrder = [...found].sort(
    (a, b) =>
      (a.step < b.step ? -1 : a.step > b.step ? 1 : 0) ||
      compareTimes(a.time, b.time) ||
      compareTexts(a.record.path, b.record.path),
  );
  const steps = inOrder.filter((light, i) => {
    const before = inOrder[i - 1];
    if (before?.step !== light.step) return true;
    if (before.record.digest === light.record.digest) {
      report.note(
        `It is the same as ${quote(before.record.path)}: imported once.`,
        light.record.path,
      );
      return false;
    }
    report.note(
      `Step ${light.step} of session ${quote(foreign)} is there twice, in other words: both are kept, in order of time.`,
      light.record.path,
    );
    return true;
  });
  const agents = [...new Set(steps.map(({ agent }) => agent))];
  if (agents.length > 1)
    report.note(
      `Session ${quote(foreign)} is shared by agents: ${agents.map((agent) => quote(agent ?? "")).join(", ")}. Each checkpoint says whose it is.`,
    );
  const [agent] = agents;
  const current = (pointer && pointedAt(foreign, steps, pointer, report)) ?? steps.at(-1)?.record;
  return {
    id: nameOf(foreign),
    foreign,
    ...(agent ? { agent: nameOf(agent) } : undefined),
    at: steps[0]?.record.at,
    steps: steps.map(({ record }) => record),
    ...(current && { current }),
  };
}

/** The step that the pointer names. */
function pointedAt(
  session: string,
  steps: readonly Light[],
  { path, target, file }: Pointer,
  report: Report,
): Step | undefined {
  const named = steps.find(({ record }) => record.path === file);
  if (named === undefined) {
    const why = /^[\\/]|\.\.|^[A-Za-z]:/.test(target)
      ? "which is no file of this directory. It was not followed"
      : "which is no checkpoint of its session here";
    report.note(
      `It points to ${quote(target)}, ${why}: the highest step is taken for the latest.`,
      path,
    );
    return undefined;
  }
  if (named !== steps.at(-1))
    report.note(
      `Session ${quote(session)} was last saved at step ${named.step}, and not at its highest: it stands there, and the later steps are on the line it left.`,
      path,
    );
  return named.record;
}

function contentOf(value: JsonObject, told: FileReport): Content {
  const fields = new Fields(value, told);
  // The step and the session have these.
  fields.text("id");
  fields.text("session_id");
  const step = fields.integer("step") ?? 0n;
  const isStep = step >= 0n && step <= BigInt(Number.MAX_SAFE_INTEGER);
  const end = endOf(fields, at(value, "status"), told);
  return {
    messages: fields
      .items("messages")
      .map((message, i) => messageOf(message, `messages[${i}]`, told)),
    state: {
      toolCalls: fields.any("tool_calls") ?? [],
      partialResults: fields.any("partial_results") ?? [],
    },
    ...(end && { end }),
    mark: { kind: "automatic", ...(isStep && { step: Number(step) }) },
    source: fields.source({
      agent: fields.any("agent_name"),
      timestamp: fields.any("timestamp"),
      ttlSecs: fields.any("ttl_secs"),
      step: isStep ? undefined : String(step),
    }),
  };
}

function messageOf(given: Json, where: string, told: FileReport): MessageInput {
  const fields = isObject(given) ? new Fields(given, told, "messages[]") : undefined;
  const theirs = fields?.text("role");
  const content = fields?.text("content");
  if (fields === undefined || theirs === undefined || content === undefined)
    throw unreadable(`${where} is no message with a role and a content.`);
  const { role, was } = roleOf(theirs);
  if (was !== undefined)
    told.note(`The role ${quote(was)} is stored as ${role}; the message says what it was.`);
  return namedMessage(
    { role, content },
    { source: fields.source({ role: was }, Number.POSITIVE_INFINITY) },
  );
}

/** A status that is not known stays unmapped. */
function endOf(fields: Fields, given: Json | undefined, told: FileReport): Content["end"] {
  const said = fields.choice("status", ["InProgress", "Completed"]);
  if (said !== undefined) return said === "Completed" ? { as: "complete" } : undefined;
  const status = fields.fields("status");
  const failed = status?.text("Failed");
  if (failed !== undefined) return { as: "fail", reason: failed };
  const halted = status?.text("Halted");
  if (halted !== undefined) return { as: "halt", reason: halted };
  if (given !== undefined)
    told.note(`Its status ${quote(JSON.stringify(given))} is not known: taken for InProgress.`);
  return undefined;
}
