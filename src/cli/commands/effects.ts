import { command, text } from "../command.js";
import { allEffects } from "../ids.js";
import { statusCell } from "../render/status.js";
import { table } from "../render/table.js";
import { inline } from "../text.js";

export const effects = command({
  name: "effects",
  group: "decide",
  looks: true,
  says: "calls that wait for somebody, and calls of which nobody knows what became",
  options: {
    status: text("STATUS", "only those that are", { choices: ["waiting", "in-doubt"] }),
    agent: text("AGENT", "only of this agent's sessions", { completes: "agent" }),
  },
  examples: [["holdfast effects --status in-doubt", ""]],
  async run({ options: { status, agent }, terminal, hold, where }) {
    const items = await allEffects(await hold(), { status, agent });
    const { paint } = terminal;
    const columns = [
      { title: "CALL" },
      { title: "STATUS" },
      { title: "TOOL", least: 8 },
      { title: "SESSION", least: 8 },
      { title: "SINCE", optional: true as const },
      { title: "MODE", optional: true as const },
      { title: "WAITS FOR", optional: true as const },
      { title: "ARGUMENTS", least: 8, optional: true as const },
    ];
    const rows = items.map(({ effectId, status: is, tool, sessionId, since, mode, waitsFor, args }) => [
      { text: effectId, paint: paint.yellow },
      statusCell(is, paint),
      inline(tool),
      inline(sessionId),
      terminal.time(since),
      mode,
      waitsFor === undefined ? "" : inline("name" in waitsFor ? `signal ${waitsFor.name}` : waitsFor.for),
      inline(JSON.stringify(args)),
    ]);
    const [first] = items;
    const decided =
      first?.status === "in-doubt" ? `settle ${first.effectId} --result '…' | --error '…' | --retry` : `approve ${first?.effectId ?? ""}`;
    return {
      json: { items },
      lines: items.length === 0 ? ["Nothing waits, and nothing is in doubt."] : table(columns, rows, terminal),
      next: [first === undefined ? `ls${where}` : `${decided}${where}`],
      pages: true,
    };
  },
});
