/** `approve`, `deny` and `settle`: what somebody decides about a call. */
import { userInfo } from "node:os";
import { HoldfastError } from "../../../core/values/errors.js";
import { lossIn, type Parsed, parseJson } from "../../../core/values/lossless-json.js";
import type { Holdfast, Json, Pending } from "../../../index.js";
import { type Answer, command, flag, text } from "../../framework/command.js";
import { requireEffect } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { usage } from "../../framework/parse.js";
import { inline } from "../../terminal/text.js";

const EFFECT = {
  name: "EFFECT",
  says: "its id, the beginning of it, or its session where that has only one",
  completes: "effect",
} as const;
const by = text("WHO", "who decided, kept in the journal; the user of this machine by default");

export const approve = command({
  name: "approve",
  group: "decide",
  says: "lets a waiting call be made",
  words: [EFFECT],
  options: {
    by,
    input: text("JSON", "another input to make it with"),
    note: text("TEXT", "kept in the journal"),
  },
  examples: [["holdfast approve 7k3fa1b2 --by ana", ""]],
  async run({ words: [word = ""], options: { by: who, input, note }, hold }) {
    const store = await hold();
    const call = await requireEffect(store, word);
    await store.effects.approve(call.effectId, {
      by: who ?? user(),
      ...(input !== undefined && { input: jsonOf("--input", input) }),
      ...(note !== undefined && { note }),
    });
    return decided(store, call, `${inline(call.name)} may be made`);
  },
});

export const deny = command({
  name: "deny",
  group: "decide",
  says: "refuses a waiting call; the model is told why",
  words: [EFFECT],
  options: { by, reason: text("WHY", "what the model is told; required") },
  examples: [["holdfast deny 7k3fa1b2 --reason 'too much'", ""]],
  async run({ words: [word = ""], options: { by: who, reason }, hold }) {
    if (reason === undefined) throw usage("deny needs --reason WHY: the model is told");
    const store = await hold();
    const call = await requireEffect(store, word);
    await store.effects.deny(call.effectId, { by: who ?? user(), reason });
    return decided(store, call, `${inline(call.name)} is not made`);
  },
});

export const settle = command({
  name: "settle",
  group: "decide",
  says: "says what became of a call whose outcome is unknown, or of one that waits",
  words: [EFFECT],
  options: {
    by,
    output: text("JSON", "it was done, and this came of it"),
    error: text("TEXT", "it was not done, for this reason"),
    retry: flag("it did not happen, and is to be made again"),
  },
  examples: [
    ["holdfast settle 7k3fa1b2 --output '{\"refunded\":true}'", "it happened"],
    ["holdfast settle 7k3fa1b2 --retry", "it did not"],
  ],
  async run({ words: [word = ""], options: { by: who, output, error, retry }, hold }) {
    if ([output !== undefined, error !== undefined, retry].filter(Boolean).length !== 1)
      throw usage("settle needs one of --output JSON, --error TEXT and --retry");
    const store = await hold();
    const call = await requireEffect(store, word);
    const said = { by: who ?? user() };
    if (retry) await store.effects.settle(call.effectId, { ...said, retry: true });
    else if (error !== undefined) await store.effects.settle(call.effectId, { ...said, error });
    else
      await store.effects.settle(call.effectId, {
        ...said,
        output: jsonOf("--output", output ?? ""),
      });
    return decided(
      store,
      call,
      retry ? `${inline(call.name)} is to be made again` : `${inline(call.name)} is settled`,
    );
  },
});

async function decided(
  hold: Holdfast,
  { effectId, sessionId }: Pending,
  says: string,
): Promise<Answer> {
  const session = await hold.sessions.get(sessionId);
  const left = (await hold.sessions.state(sessionId)).effects.filter(
    (other) => other.effectId !== effectId && other.status !== "under-way",
  );
  return {
    json: { effectId, session: session ?? { id: sessionId }, left },
    lines: [`${says}. ${inline(sessionId)} is ${session?.status ?? "gone"}.`],
    notes:
      session?.status === "in-progress"
        ? ["It goes on when a worker, or whoever runs it next, takes it up."]
        : [],
    next: [left[0] === undefined ? propose("tail", [sessionId], { f: true }) : propose("effects")],
  };
}

function user(): string {
  try {
    return userInfo().username || "somebody";
  } catch {
    return "somebody";
  }
}

function jsonOf(name: string, given: string): Json {
  let parsed: Parsed;
  try {
    parsed = parseJson(given);
  } catch (cause) {
    const { message } = ((cause as Error).cause ?? cause) as Error;
    throw new HoldfastError(
      "INVALID_OPTION",
      `${name} is not JSON (${message}). A text needs quotes of its own: ${name} '"done"'`,
      {
        path: name,
      },
    );
  }
  const loss = lossIn(parsed);
  if (loss !== undefined)
    throw new HoldfastError("INVALID_OPTION", `${name}: ${loss}.`, { path: name });
  return parsed.value;
}
