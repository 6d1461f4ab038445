import { command, text } from "../command.js";
import { requireSession } from "../ids.js";
import { inline, shellWord } from "../text.js";

export const cancel = command({
  name: "cancel",
  group: "steer",
  says: "stops a session, whoever holds it",
  words: [{ name: "SESSION", says: "its id, or the beginning of it", completes: "session" }],
  options: { reason: text("WHY", "kept with the session") },
  examples: [["holdfast cancel order-42 --reason 'stopped by the customer'", ""]],
  async run({ words: [word = ""], options: { reason }, hold, where }) {
    const store = await hold();
    const { id } = await requireSession(store, word);
    await store.cancel(id, ...(reason === undefined ? [] : [reason]));
    const now = await store.sessions.get(id);
    const isOver = now?.status === "cancelled";
    return {
      json: { session: now ?? { id } },
      lines: [
        isOver
          ? `${inline(id)} is cancelled.`
          : `${inline(id)} is ${now?.status ?? "gone"}; whoever holds it, or what is in doubt, hears that it is to stop.`,
      ],
      next: [isOver ? `show ${shellWord(id)}${where}` : `tail -f ${shellWord(id)}${where}`],
    };
  },
});
