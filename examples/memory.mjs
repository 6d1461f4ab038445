/**
 * An agent that keeps and looks up its own memory, with the tools that `holdfast mcp` serves,
 * through our own loop.
 *
 *   node examples/memory.mjs                       tells it something
 *   node examples/memory.mjs "Where do I live?"    in another process, another day: it looks it up
 *
 * The model is a stand-in of a few lines, so that no key is needed; put your own in its place. Kill
 * it wherever you like: what it has written down it has written down once.
 */
import { open } from "holdfast";

const question = process.argv[2] ?? "I live in Bergen, and I like kelp.";
const hold = await open(process.env.HOLDFAST_STORE ?? "memory.db");

const companion = hold.agent({
  name: "companion",
  system:
    "Write down what you learn about the person (conversation_save), and look it up when you are asked (conversation_search).",
  model: async ({ messages }) => standIn(messages),
  // Only what is its own, and nothing that removes anything without asking.
  tools: hold.tools({ agent: "companion", approval: true }),
});

const done = await companion.run(`chat-${Date.now()}`, question);
console.log(done.status === "completed" ? done.output : `it ended as ${done.status}`);
const { sessions, messages } = await hold.stats();
console.log(
  `(${sessions} conversations with ${messages} messages are kept; holdfast mcp --store ${process.env.HOLDFAST_STORE ?? "memory.db"} shows them to any MCP client)`,
);
await hold.close();

/**
 * What a model would do: note what it is told, look for what it is asked, and say what it found.
 */
function standIn(messages) {
  const last = messages.at(-1);
  const asked = messages.find(({ role }) => role === "user").content;
  const call = (name, input) => ({
    content: "",
    toolCalls: [{ callId: `${messages.length}`, name, input }],
  });
  if (last.role === "user") {
    if (!asked.endsWith("?"))
      return call("conversation_save", {
        id: "notes",
        messages: [{ role: "user", content: asked }],
      });
    const words = asked.match(/[\p{L}]{4,}/gu) ?? [];
    return call("conversation_search", { query: `${words.at(-1)}*`, session: "notes" });
  }
  const { output } = last.content[0];
  if (output.items === undefined) return { content: "I have written that down." };
  return {
    content:
      output.items.length === 0 ? "You have not told me." : `You said: ${output.items[0].snippet}`,
  };
}
