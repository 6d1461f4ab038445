/** Tools for conversations, which are sessions: what was said in them, and what else they hold. */
import { transcriptVersion } from "../core/journal/transcript-change.js";
import type { Message, MessageInput, Role } from "../core/messages/message.js";
import { STATUSES } from "../core/sessions/status.js";
import { digest } from "../core/values/digest.js";
import { HoldfastError, quote } from "../core/values/errors.js";
import { sessionId } from "../core/values/ids.js";
import type { JsonObject } from "../core/values/json.js";
import { idOrDrawn } from "../engine/lifecycle/session-ids.js";
import type { SessionSummary } from "../engine/lifecycle/session-summary.js";
import type { SessionUpdate } from "../engine/records/rows.js";
import { invalid } from "../engine/util/validate.js";
import { fromPlain, type PlainMessage } from "../formats/plain.js";
import { libraryCursor, withOwnCursor } from "./cursors.js";
import { type Call, type Hold, keyOf, spec, waiting } from "./definition.js";
import { refuseForeignFiles } from "./files.js";
import { fitting, pageOf, piece } from "./pages.js";
import {
  choice,
  either,
  flag,
  id,
  json,
  list,
  number,
  object,
  optional,
  orNull,
  text,
  whole,
} from "./schema.js";
import {
  agentFilter,
  MAX_NAMED,
  ownAmong,
  refuseForeign,
  refuseSelf,
  requireCheckpoint,
  requireSession,
} from "./scope.js";
import { cursor, damaged, entriesOf, limit, next, session, sessionShown } from "./shown.js";

const ROLES = ["system", "user", "assistant", "tool"] as const satisfies readonly Role[];
const conversationId = id("The conversation's id.");
/** Into how many messages one call may divide what it says. */
const MAX_MESSAGES = 1_000;

const saidMessage = object({
  role: choice("Who said it.", ROLES),
  content: either(
    "What was said: a text, or parts.",
    text("A text."),
    list(
      "Parts, each with its `type`: text, reasoning, file (with mediaType, and data as { bytes: base64 }, { url } or { text }), tool-call, tool-result.",
      json("A part."),
    ),
  ),
  id: optional(
    id(
      "A message whose id is known already is passed over: whoever saves a whole conversation again adds what is new.",
    ),
  ),
  name: optional(text("Who exactly.")),
  parentId: optional(text("The message it answers.")),
  metadata: optional(json("Whatever else.")),
  seq: optional(whole("As conversation_load tells it. Not taken over.")),
  createdAt: optional(text("As conversation_load tells it. Not taken over.")),
  provider: optional(
    json(
      "As conversation_load tells it. Not taken over; a message that stays the same keeps its own.",
    ),
  ),
  reply: optional(
    json(
      "As conversation_load tells it. Not taken over; a message that stays the same keeps its own.",
    ),
  ),
});

const replacing = object(
  {
    version: text(
      "The `version` of the messages you have loaded: refused (CONFLICT) if they have changed since.",
    ),
    from: optional(
      id(
        "The id of the first message that goes, as conversation_load tells it. Without it all messages go.",
      ),
    ),
    count: optional(
      whole(
        "How many go, beginning with `from`; 1 by default. With 0 the messages are put before it.",
      ),
    ),
  },
  "Replaces or removes messages: `messages` come in their place. Without it messages are added to the end.",
);

export const conversationSave = spec({
  name: "conversation_save",
  title: "Save a conversation",
  description:
    "Adds messages to the end of a conversation, or, with `replace`, puts them in the place of others; and changes its title, tags, metadata or whether it is archived. Makes the conversation where there is none. To remove messages, replace them by none (`messages: []`). What was replaced is kept as history: checkpoint_restore with `before` goes back to it. Where an agent is at work in it, added messages are kept and taken in between two of its steps; replacing is refused meanwhile.",
  does: "changes",
  holdsStored: true,
  input: {
    id: optional(
      id(
        "The conversation's id; a new one makes a new conversation. Without it, a new conversation is made, and the answer tells its id.",
      ),
    ),
    agent: optional(id("The agent it belongs to, where it is made by this.")),
    messages: optional(list("What was said, in order.", saidMessage, MAX_MESSAGES)),
    replace: optional(replacing),
    title: optional(
      orNull(
        text("Null takes it away; its first words stand in for it then.", { maxLength: 1_000 }),
      ),
    ),
    tags: optional(list("All its tags.", id("A tag."), 100)),
    archived: optional(flag("Whether it is put away.")),
    metadata: optional(json("Whatever else; replaced whole.")),
  },
  output: {
    session,
    count: whole("How many messages were given."),
    taken: flag(
      "Whether they are in the conversation by now. Otherwise whoever is at work in it takes them in.",
    ),
    replaced: optional(
      object({
        removed: whole("How many messages went."),
        added: whole("How many came. One that stays the same counts as neither."),
        length: whole("How many messages there are now."),
        before: optional(text("The checkpoint before the change, to go back to.")),
      }),
    ),
  },
  async run(hold, input, call) {
    const given = idOrDrawn(input, "id", () =>
      sessionId(hold.newSessionId("conversation_save", call.key)),
    );
    const { id: _id, agent, messages: listed, replace, ...label } = input;
    const messages =
      listed?.map(
        ({ seq: _seq, createdAt: _createdAt, provider: _provider, reply: _reply, ...message }) =>
          message,
      ) ?? [];
    const said = messages.map((message, i) =>
      fromPlain(message as unknown as PlainMessage, `messages[${i}]`),
    );
    if (replace !== undefined && replace.from === undefined && listed === undefined)
      throw invalid("messages", "say what comes in the place of all messages; [] removes them");
    const made = agentFilter(call, agent);
    await refuseForeign(call, (seeing) => requireSession(hold, seeing, given)).catch(
      (error: unknown) => {
        throw error instanceof HoldfastError && error.code === "NOT_FOUND" ? taken(given) : error;
      },
    );
    await refuseForeignFiles(hold, call, given, said);
    if (replace !== undefined) {
      const { agent: owner } = await requireSession(hold, call, given);
      if (made.agent !== undefined && owner !== made.agent) throw taken(given);
      return {
        count: said.length,
        taken: true,
        ...(await replaced(
          hold,
          given,
          { said, about: digest(JSON.stringify([messages, replace])), replace, label },
          call,
        )),
      };
    }
    // What says something else under an id that is known is refused before anything is changed.
    const isNew = call.key === undefined || !(await hold.isDone(call.key));
    if (said.length > 0 && isNew)
      await hold.sessions.append(given, said, { create: true, dryRun: true, ...made });
    const about = digest(JSON.stringify(messages));
    const onlySays =
      said.length > 0 &&
      Object.keys(label).length === 0 &&
      (await hold.sessions.get(given)) !== undefined;
    await hold.sessions
      .update(given, label as SessionUpdate, { create: true, about, ...made, ...keyOf(call) })
      .catch((error: unknown) => {
        // A directory has one who writes. What is said is still taken: it is sent to that one.
        if (!onlySays || !(error instanceof HoldfastError) || error.code !== "BUSY") throw error;
      });
    const sent =
      said.length === 0
        ? { count: 0, taken: true }
        : await hold.sessions.append(given, said, keyOf(call));
    return { session: sessionShown(await requireSession(hold, call, given)), ...sent };
  },
});

interface Replacing {
  readonly said: readonly MessageInput[];
  /** Names what is said, and in the place of what. */
  readonly about: string;
  readonly replace: { readonly version: string; readonly from?: string; readonly count?: number };
  readonly label: object;
}

/**
 * The messages are replaced first, under a key of their own, and the label is changed under the
 * call's key.
 */
async function replaced(
  hold: Hold,
  given: string,
  { said, about, replace, label }: Replacing,
  call: Call,
) {
  refuseSelf(call, given);
  const update = () =>
    hold.sessions.update(given, label as SessionUpdate, { about, ...keyOf(call) });
  const own = call.key === undefined ? undefined : digest(`replace ${call.key}`);
  // Under the call's key something else was done: that refuses it before anything is changed.
  if (
    call.key !== undefined &&
    own !== undefined &&
    (await hold.isDone(call.key)) &&
    !(await hold.isDone(own))
  )
    await update();
  const done = await hold.sessions.replace(given, said, {
    ...replace,
    ...waiting(call),
    ...(own !== undefined && { key: own }),
  });
  if (call.key !== undefined || Object.keys(label).length > 0) await update();
  return { session: sessionShown(await requireSession(hold, call, given)), replaced: done };
}

const taken = (given: string): HoldfastError =>
  new HoldfastError("CONFLICT", `The id ${quote(given)} cannot be used here. Choose another.`, {
    sessionId: given,
  });

const WHAT = ["messages", "state", "metadata"] as const;

export const conversationLoad = spec({
  name: "conversation_load",
  title: "Load a conversation",
  description:
    "What was said in a conversation, oldest first and a page at a time; or what its state or its metadata hold. As it is now, or as it was at a checkpoint. A message that is too long for one page comes in pieces.",
  does: "reads",
  holdsStored: true,
  input: {
    id: conversationId,
    what: optional(choice("What to load; messages by default.", WHAT)),
    at: optional(id("One of its checkpoints; its end by default.")),
    last: optional(whole("Only so many of the last messages.", 1)),
    cursor,
  },
  output: {
    session,
    what: choice("What was loaded.", WHAT),
    count: whole("How many there are in all."),
    version: optional(
      text("Of messages: names what they say, to be given to conversation_save with `replace`."),
    ),
    items: list(
      "Messages, or entries of state or metadata; or pieces of one that is too long.",
      either(
        "",
        json(
          "A message, with role, content, id, seq and createdAt, or an entry, with key and value.",
        ),
        piece,
      ),
    ),
    next,
  },
  async run(hold, { id: given, what = "messages", at, last, cursor: from }, call) {
    if (what === "metadata" && at !== undefined)
      throw invalid("at", "metadata is not kept with checkpoints: leave it out");
    const shown = await requireSession(hold, call, given);
    const all = await contents(
      hold,
      shown,
      what,
      at === undefined ? undefined : (await requireCheckpoint(hold, call, at)).id,
    );
    const first = what === "messages" && last !== undefined ? Math.max(0, all.length - last) : 0;
    return {
      session: sessionShown(shown),
      what,
      count: all.length,
      ...(what === "messages" && {
        version: transcriptVersion(all as unknown as readonly Message[]),
      }),
      ...pageOf(all, from, {
        of: `${what} ${shown.id} ${at ?? ""}`,
        first,
        ...(what === "messages" && { idOf: ({ id: own }) => own as string }),
      }),
    };
  },
});

async function contents(
  hold: Hold,
  { id: given, metadata }: SessionSummary,
  what: (typeof WHAT)[number],
  at: string | undefined,
): Promise<readonly JsonObject[]> {
  if (what === "metadata") return entriesOf(metadata);
  const { messages, state } = await hold.sessions.state(
    given,
    at === undefined ? undefined : { at },
  );
  return what === "state"
    ? entriesOf(state)
    : (messages as readonly unknown[] as readonly JsonObject[]);
}

export const conversationList = spec({
  name: "conversation_list",
  title: "List conversations",
  description:
    "Conversations, the last begun first (`updatedAt` tells the last change): of an agent, with a status or a tag, archived or not.",
  does: "reads",
  holdsStored: true,
  input: {
    agent: optional(id("Only this agent's.")),
    status: optional(choice("Only those that stand so.", STATUSES)),
    tag: optional(id("Only those with this tag.")),
    archived: optional(flag("Only those that were put away, or only the others.")),
    limit,
    cursor,
  },
  output: { items: list("Conversations.", session), next, damaged },
  async run(hold, { agent, cursor: from, ...filter }, call) {
    const where = { ...agentFilter(call, agent), ...(await libraryCursor(hold, call, from)) };
    const page = await fitting(filter.limit, async (most) => {
      const { items, ...more } = await hold.sessions.list({ ...filter, limit: most, ...where });
      return { items: items.map(sessionShown), ...more };
    });
    return withOwnCursor(hold, call, page);
  },
});

export const conversationSearch = spec({
  name: "conversation_search",
  title: "Search conversations",
  description:
    'Messages and titles that hold all these words, the best first. Give one or two telling words, not a question: every one of them must be there, and there is no OR; search again instead. `refund order`; "these in a row"; -without; begin*. Words are compared without case and accents, in any script. What was left by going back to a checkpoint is found as well.',
  does: "reads",
  holdsStored: true,
  input: {
    query: text("What to look for.", { minLength: 1, maxLength: 1_000 }),
    agent: optional(id("Only this agent's.")),
    session: optional(id("Only this conversation: its id.")),
    tag: optional(id("Only conversations with this tag.")),
    role: optional(choice("Only what was said by such a one.", ROLES)),
    since: optional(text("Only from this time on, as in 2026-01-31T12:00:00Z.")),
    until: optional(text("Only before this time.")),
    limit,
    cursor,
  },
  output: {
    items: list(
      "What was found.",
      object({
        kind: choice("A message, or a title.", ["message", "title"]),
        sessionId: text("The conversation it stands in."),
        createdAt: text("When it was said."),
        snippet: text("A row of the text around what was found."),
        matches: list(
          "Where in the snippet: from, and up to but not including.",
          list("", whole("")),
        ),
        score: number("How well it fits."),
        messageId: optional(text("The message's id.")),
        seq: optional(whole("The message's number.")),
        role: optional(choice("Who said it.", ROLES)),
      }),
    ),
    behind: optional(
      whole("The index has not taken in all there is: about so many saves are missing."),
    ),
    damaged: optional(
      list(
        "Conversations that are damaged, and could not be searched whole.",
        text("A conversation's id."),
      ),
    ),
    next,
  },
  async run(hold, { query, agent, session: within, ...filter }, call) {
    const found = await hold.sessions.search(query, {
      ...filter,
      ...agentFilter(call, agent),
      ...(within === undefined ? undefined : { sessionId: within }),
    });
    // What an agent says just now is no memory of it.
    const isOther = ({ sessionId }: { readonly sessionId: string }) =>
      within !== undefined || sessionId !== call.self;
    // How much the index is behind is how much others have said.
    const { damaged, behind, ...rest } = found;
    const page = call.agent === undefined && behind !== undefined ? { ...rest, behind } : rest;
    return {
      ...page,
      items: found.items.filter(isOther),
      ...(damaged && { damaged: damaged.map(({ id }) => id) }),
    };
  },
});

export const conversationDelete = spec({
  name: "conversation_delete",
  title: "Delete a conversation",
  description:
    "Deletes a conversation with all its checkpoints, also from under whoever is at work in it. What forks of it share with it is kept for them. This cannot be taken back, unless a checkpoint of its agent holds it.",
  does: "removes",
  holdsStored: false,
  isIdempotent: true,
  input: { id: conversationId },
  output: {
    deleted: flag("False where there was none."),
    keptFor: list(
      `Forks for which something shared was kept; ${MAX_NAMED} are named.`,
      text("A conversation's id."),
    ),
    checkpoints: list(
      `Checkpoints of its agent from which it can be brought back; ${MAX_NAMED} are named.`,
      text("A checkpoint's id."),
    ),
  },
  async run(hold, { id: given }, call) {
    refuseSelf(call, given);
    const only = call.agent === undefined ? undefined : { agent: call.agent };
    const { deleted, ...gone } = await hold.sessions.delete(given, { ...only, ...keyOf(call) });
    const keptFor = await ownAmong(hold, call, gone.keptFor);
    return { deleted, keptFor, checkpoints: (gone.snapshots ?? []).slice(0, MAX_NAMED) };
  },
});
