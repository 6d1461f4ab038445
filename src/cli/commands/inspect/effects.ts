import type { Pending } from "../../../index.js";
import { command, text } from "../../framework/command.js";
import { allEffects } from "../../framework/ids.js";
import { type Proposal, propose } from "../../framework/next-steps.js";
import { statusCell } from "../../render/status.js";
import { table } from "../../render/table.js";
import { inline } from "../../terminal/text.js";

export const effects = command({
  name: "effects",
  group: "decide",
  looks: true,
  says: "calls that wait for somebody, and calls whose outcome is unknown",
  options: {
    status: text("STATUS", "only those that are", { choices: ["waiting", "in-doubt"] }),
    agent: text("AGENT", "only of this agent's sessions", { completes: "agent" }),
  },
  examples: [["holdfast effects --status in-doubt", ""]],
  async run({ options: { status, agent }, terminal, hold }) {
    const { items, damaged } = await allEffects(await hold(), { status, agent });
    const { paint } = terminal;
    const columns = [
      { title: "CALL" },
      { title: "STATUS" },
      { title: "TOOL", least: 8 },
      { title: "SESSION", least: 8 },
      { title: "SINCE", optional: true as const },
      { title: "MODE", optional: true as const },
      { title: "WAITS FOR", optional: true as const },
      { title: "ARGUMENTS", least: 8 },
    ];
    const rows = items.map(
      ({ effectId, status: is, name, sessionId, since, mode, waitsFor, input }) => [
        { text: effectId, paint: paint.yellow },
        statusCell(is, paint),
        inline(name),
        inline(sessionId),
        terminal.time(since),
        mode,
        waitsFor === undefined ? "" : inline(wordsOf(waitsFor)),
        inline(JSON.stringify(input)),
      ],
    );
    const [first] = items;
    return {
      json: { items, ...(damaged.length > 0 && { damaged }) },
      lines:
        items.length === 0
          ? [damaged.length === 0 ? "Nothing waits, and nothing is in doubt." : "No call is shown."]
          : [...table(columns, rows, terminal), ...reasons(items)],
      notes: damaged.map(
        ({ id }) => `Calls of session ${inline(id)} cannot be shown: it is damaged.`,
      ),
      next: [
        ...(damaged.length > 0 ? [propose("verify")] : []),
        ...(first === undefined ? [propose("ls")] : deciding(first)),
      ],
      pages: true,
    };
  },
});

function wordsOf(waits: NonNullable<Pending["waitsFor"]>): string {
  if (waits.for === "signal") return `signal ${waits.name}`;
  return waits.for === "repeat" && waits.uncertain ? "repeat (perhaps)" : waits.for;
}

/** Why `check` could not say what became of a call. */
function reasons(items: readonly Pending[]): string[] {
  const found = items.flatMap(({ effectId, why }) =>
    why === undefined ? [] : [`${effectId}: ${inline(why)}`],
  );
  return found.length === 0 ? [] : ["", ...found];
}

/** What can be decided about a call, each with what it means. */
export function deciding({ effectId, status, waitsFor, sessionId }: Pending): Proposal[] {
  if (status === "in-doubt")
    return [
      propose("settle", [effectId], { output: '"done"' }, "it happened; the output, as JSON"),
      propose("settle", [effectId], { error: "it failed" }, "it did not happen, and is not to"),
      propose("settle", [effectId], { retry: true }, "it did not happen, and is to be made"),
    ];
  if (status === "waiting" && (waitsFor?.for === "approval" || waitsFor?.for === "repeat"))
    return [propose("approve", [effectId]), propose("deny", [effectId], { reason: "not now" })];
  return [propose("tail", [sessionId], { f: true })];
}
