import { command, SESSION, text } from "../../framework/command.js";
import { requireSessionToChange } from "../../framework/ids.js";
import { propose } from "../../framework/next-steps.js";
import { inline } from "../../terminal/text.js";

export const cancel = command({
  name: "cancel",
  group: "steer",
  says: "stops a session, whoever holds it",
  words: [SESSION],
  options: { reason: text("WHY", "kept with the session") },
  examples: [["holdfast cancel order-42 --reason 'stopped by the customer'", ""]],
  async run({ words: [word = ""], options: { reason }, hold, terminal }) {
    const store = await hold();
    const { id } = await requireSessionToChange(store, word, terminal.isAttended);
    await store.sessions.cancel(id, ...(reason === undefined ? [] : [reason]));
    const now = await store.sessions.get(id);
    const isOver = now?.status === "cancelled";
    return {
      json: { session: now ?? { id } },
      lines: [
        isOver
          ? `${inline(id)} is cancelled.`
          : `${inline(id)} is ${now?.status ?? "gone"}; whoever holds it, or what is in doubt, hears that it is to stop.`,
      ],
      next: [isOver ? propose("show", [id]) : propose("tail", [id], { f: true })],
    };
  },
});
