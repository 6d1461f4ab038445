/**
 * smooth-operator: checkpoints of agents, each with a whole conversation, as `<agent>/<id>.json` or
 * as rows of one SQLite database. The files keep nanoseconds, the database only seconds.
 */
import { quote } from "../../core/values/errors.js";
import { Documents, stepIn } from "../reading/documents.js";
import { at, integerOf, objectAt, textAt } from "../reading/fields.js";
import { jsonFiles, rootOf } from "../reading/files.js";
import {
  type Foreign,
  type ForeignSession,
  oneAfterAnother,
  type Reading,
  type Step,
} from "../reading/model.js";
import { digestOf, nameOf } from "../reading/names.js";
import { compareTexts, compareTimes, momentOf } from "../reading/times.js";
import { contentOf, type Light } from "./smooth-checkpoint.js";
import { readRows } from "./smooth-database.js";

export async function readSmooth(reading: Reading): Promise<Foreign> {
  const { isDirectory } = await rootOf(reading.root);
  const { lights, close } = isDirectory
    ? { lights: await readFiles(reading), close: undefined }
    : await readRows(reading);
  return { acts: oneAfterAnother(await sessionsOf(lights, reading)), ...(close && { close }) };
}

async function readFiles({ root, report, signal }: Reading): Promise<readonly Light[]> {
  const files = await jsonFiles(root, report, signal);
  report.expects(files.length);
  const documents = new Documents(root, report, signal);
  const lights: Light[] = [];
  for await (const { file, value, digest } of documents.each(files)) {
    const id = textAt(value, "id");
    const agent = textAt(value, "agent_id");
    const conversation = objectAt(value, "conversation");
    if (id === undefined || agent === undefined || conversation === undefined) {
      report.strange(
        file.path,
        "It is no checkpoint of smooth: it has no id, agent_id and conversation.",
      );
      continue;
    }
    const time = momentOf(at(value, "created_at"));
    const record: Step = {
      ...stepIn(file, { id, digest, time }),
      load: async () =>
        contentOf((await documents.again(file, digest)).value, report.of(file.path)),
    };
    const iteration = integerOf(at(value, "iteration")) ?? 0n;
    lights.push({
      agent,
      conversation: textAt(conversation, "id") ?? "",
      time,
      iteration,
      last: id,
      record,
    });
  }
  return lights;
}

/**
 * An agent's first conversation has the agent's id, as smooth looks it up by that; later ones are
 * named after both.
 */
async function sessionsOf(
  lights: readonly Light[],
  { report, sourceOf }: Reading,
): Promise<readonly ForeignSession[]> {
  const byAgent = new Map<string, Light[]>();
  for (const light of [...lights].sort(inOrder)) {
    const others = byAgent.get(light.agent);
    if (others === undefined) byAgent.set(light.agent, [light]);
    else others.push(light);
  }
  const sessions: ForeignSession[] = [];
  for (const [agent, own] of [...byAgent].sort(([a], [b]) => compareTexts(a, b))) {
    const conversations = new Map<string, Light[]>();
    const seen = new Set<string>();
    for (const light of own) {
      const twin = `${light.record.id}\n${light.record.digest}`;
      if (seen.has(twin))
        report.note("The same checkpoint is there twice: imported once.", light.record.path);
      else if (conversations.has(light.conversation))
        conversations.get(light.conversation)?.push(light);
      else conversations.set(light.conversation, [light]);
      seen.add(twin);
    }
    // Pruning there may have taken the first one away since it was imported here.
    const before = await sourceOf(firstId(agent));
    const here =
      before?.["kind"] === "smooth" && before["id"] === agent ? before["conversation"] : undefined;
    const [first] = conversations.keys();
    if (conversations.size > 1)
      report.note(
        `Agent ${quote(agent)} has ${conversations.size} conversations: each is a session.`,
      );
    for (const [conversation, steps] of conversations) {
      const isFirst = conversation === (here ?? first);
      sessions.push({
        id: isFirst ? firstId(agent) : laterId(agent, conversation),
        foreign: isFirst ? agent : `${agent}/${conversation}`,
        ...(agent !== "" && { agent: nameOf(agent) }),
        source: { conversation },
        ...(conversation !== "" && { identity: digestOf(conversation) }),
        at: steps[0]?.record.at,
        steps: steps.map(({ record }) => record),
      });
    }
  }
  return sessions;
}

/**
 * Where an agent's name ends and that of a conversation begins must be plain: those that hold the
 * sign between them have a digest.
 */
const firstId = (agent: string): string =>
  agent.includes("/") ? marked(agent, [agent]) : nameOf(agent);
const laterId = (agent: string, conversation: string): string => {
  const both = `${agent}/${conversation}`;
  return both.split("/").length > 2 ? marked(both, [agent, conversation]) : nameOf(both);
};
const marked = (name: string, parts: readonly string[]): string =>
  nameOf(`${name}~${digestOf(JSON.stringify(parts)).slice(0, 12)}`);

function inOrder(a: Light, b: Light): number {
  const byIteration = a.iteration < b.iteration ? -1 : a.iteration > b.iteration ? 1 : 0;
  return (
    compareTimes(a.time, b.time) || byIteration || (a.last < b.last ? -1 : a.last > b.last ? 1 : 0)
  );
}
