import { command } from "../../framework/command.js";
import { propose } from "../../framework/next-steps.js";
import { size } from "../../terminal/text.js";

export const stats = command({
  name: "stats",
  group: "look",
  looks: true,
  says: "how much is stored: agents, sessions, checkpoints, snapshots, messages, bytes",
  async run({ terminal, hold }) {
    const counts = await (await hold()).stats();
    const { agents, sessions, checkpoints, snapshots, messages, sizeBytes } = counts;
    const rows = { agents, sessions, checkpoints, snapshots, messages };
    return {
      json: counts,
      lines: [
        ...Object.entries(rows).map(
          ([name, count]) =>
            `${terminal.paint.dim(name.padEnd(12))} ${count.toLocaleString("en-US")}`,
        ),
        `${terminal.paint.dim("stored".padEnd(12))} ${size(sizeBytes)}`,
      ],
      next: [sessions === 0 ? propose("demo", [], { keep: true }) : propose("ls")],
    };
  },
});
