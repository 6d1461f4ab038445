/**
 * A conversation that was held with one provider goes on with another: brought in from OpenAI's
 * messages, added to while nobody runs it, and given out as Anthropic takes it. Needs no key.
 *
 *   node examples/transcripts.mjs
 */
import { open } from "holdfast";
import { fromFormat } from "holdfast/formats";

const hold = await open("memory:");

// As it was sent to OpenAI, and as it came back.
const openai = {
  format: "openai",
  messages: [
    { role: "system", content: "You help people with their orders." },
    { role: "user", content: "Where is order 42?" },
    {
      role: "assistant",
      content: null,
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "lookup", arguments: '{"order":42}' } },
      ],
    },
    { role: "tool", tool_call_id: "call_1", content: '{"state":"shipped","days":2}' },
    { role: "assistant", content: "It was shipped, and takes two days." },
  ],
};
// One call makes the session. The key makes it safe to run again.
await hold.sessions.append("order-42", openai, {
  create: true,
  title: "Order 42",
  tags: ["imported"],
  key: "import-1",
});

// From a web hook, say: no lease, no run, and no turn begins by it.
const added = await hold.sessions.append(
  "order-42",
  [{ role: "user", content: "The parcel arrived." }],
  { key: "hook-17" },
);
console.log("taken in:", added.taken);

const { system, messages, remainder } = await hold.sessions.transcript("order-42", {
  format: "anthropic",
});
console.log("system:", system);
for (const { role, content } of messages) console.log(`${role}:`, JSON.stringify(content));

// Ids, times and all that Anthropic has no word for stand in the remainder, so that nothing is lost
// on the way back.
const back = fromFormat({ format: "anthropic", system, messages, remainder });
console.log("back again:", back.map(({ role }) => role).join(", "));

await hold.close();
