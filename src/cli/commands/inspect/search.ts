import { command, number, text } from "../../framework/command.js";
import { requireSession } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import type { FoundItem, IndexProgress, Role, SearchFilter } from "../../framework/types.js";
import { counted, inline, wrap } from "../../terminal/text.js";

export const search = command({
  name: "search",
  group: "look",
  looks: true,
  says: "messages and titles that hold these words, the best first",
  more: 'All words are looked for: without case and accents, in any script. "these in a row", -without, begin*.',
  words: [{ name: "WORDS", says: "what to look for", many: true }],
  options: {
    agent: text("AGENT", "only in sessions of this agent", { completes: "agent" }),
    session: text("SESSION", "only in this session", { completes: "session" }),
    tag: text("TAG", "only in sessions with this tag"),
    role: text("ROLE", "only messages of", { choices: ["system", "user", "assistant", "tool"] }),
    since: text("TIME", "only from this time on, as in 2026-03-01"),
    until: text("TIME", "only before this time"),
    limit: number("N", "how many, 20 by default", 1, 1_000, "n"),
    cursor: text("CURSOR", "go on where an earlier search ended; it says how"),
  },
  examples: [
    ["holdfast search refund order", ""],
    ["holdfast search '\"arrived broken\" -teapot' --role user", ""],
  ],
  async run({ words, options, terminal, hold, signal }) {
    const store = await hold();
    const { agent, tag, role, since, until, limit, cursor } = options;
    const within =
      options.session === undefined ? undefined : (await requireSession(store, options.session)).id;
    const filter: SearchFilter = {
      ...(agent !== undefined && { agent }),
      ...(within !== undefined && { sessionId: within }),
      ...(tag !== undefined && { tag }),
      ...(role !== undefined && { role: role as Role }),
      ...(since !== undefined && { since: timeOf(since) }),
      ...(until !== undefined && { until: timeOf(until) }),
      ...(limit !== undefined && { limit }),
      ...(cursor !== undefined && { cursor }),
    };
    const query = words.join(" ");
    let page = await store.sessions.search(query, filter);
    if (page.behind !== undefined) {
      // What is found is to be all there is: the index is brought to its end first. That takes its
      // time once.
      const bar = terminal.progress("indexing, saves:");
      const onProgress = ({ taken, behind }: IndexProgress) => bar.show(taken, taken + behind);
      await store.sessions.index({ signal, onProgress }).finally(() => bar.end());
      page = await store.sessions.search(query, filter);
    }
    const { items, next, behind, damaged = [] } = page;
    const { paint } = terminal;
    const lines = items.flatMap((item) => {
      const what = item.kind === "title" ? "title" : `${item.role} #${item.seq}`;
      const head = `${paint.bold(inline(item.sessionId))}  ${paint.dim(`${what}, ${terminal.time(item.createdAt)}`)}`;
      return [
        head,
        ...wrap(marked(item, paint.yellow), terminal.columns - 2).map((row) => `  ${row}`),
        "",
      ];
    });
    const [first] = items;
    return {
      json: {
        items,
        ...(next !== undefined && { next }),
        ...(behind !== undefined && { behind }),
        ...(damaged.length > 0 && { damaged }),
      },
      lines: items.length === 0 ? ["Nothing found."] : lines.slice(0, -1),
      notes: [
        ...(behind === undefined
          ? []
          : [`Others write meanwhile: about ${counted(behind, "save")} are not in the index yet.`]),
        ...damaged.map(
          ({ id }) => `Session ${inline(id)} is damaged, and could not be searched whole.`,
        ),
      ],
      next: [
        ...(next === undefined
          ? []
          : [
              propose(
                "search",
                words,
                { agent, session: within, tag, role, since, until, limit, cursor: next },
                "more",
              ),
            ]),
        first === undefined ? propose("ls") : propose("show", [first.sessionId]),
      ],
      pages: true,
    };
  },
});

/** The snippet, with what was found in colour. */
function marked({ snippet, matches }: FoundItem, paint: (text: string) => string): string {
  let at = 0;
  let text = "";
  for (const [start, end] of matches) {
    text += inline(snippet.slice(at, start)) + paint(inline(snippet.slice(start, end)));
    at = end;
  }
  return text + inline(snippet.slice(at));
}

/** A day is its beginning, in UTC. What is no time is left to the library to refuse. */
const timeOf = (given: string): string =>
  /^\d{4}-\d\d-\d\d$/.test(given) ? `${given}T00:00:00Z` : given;
