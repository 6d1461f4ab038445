/** Files as AetherShell writes them. */
import { createHash } from "node:crypto";

export const T = 1_775_270_000;
export const agent = (more: object = {}) => ({
  ...{
    agent_id: "ag",
    name: "Ag",
    agent_type: "gpt",
    system_prompt: "Be kind.",
    capabilities: ["a", "a"],
    config: {},
    custom_state: {},
  },
  ...{
    active_conversations: [],
    created_at: T,
    modified_at: T + 5,
    version: 1,
    metadata: { m: "1" },
  },
  ...more,
});
export const message = (i: number, more: object = {}) => ({
  ...{
    id: `m${i}`,
    role: i % 2 === 0 ? "User" : "Assistant",
    content: `Message ${i}`,
    timestamp: T + i,
    tokens: null,
  },
  ...{ attachments: [], tool_calls: [], parent_id: null, metadata: {} },
  ...more,
});
export const conversation = (id: string, turns: number, more: object = {}) => ({
  ...{
    id,
    agent_id: "ag",
    title: null,
    messages: Array.from({ length: turns }, (_, i) => message(i)),
    metadata: {},
  },
  ...{ created_at: T, last_message_at: T + turns, archived: false, tags: [] },
  ...more,
});
export const checkpoint = (
  id: string,
  at: number,
  conversations: readonly object[],
  more: object = {},
) => {
  const body = { agent_state: agent({ custom_state: { at: { Int: at } } }), conversations };
  const checksum = createHash("sha256")
    .update(JSON.stringify([body.agent_state, body.conversations]))
    .digest("hex");
  return {
    [`checkpoints/${id}.json`]: {
      ...{
        id,
        agent_id: "ag",
        name: `Checkpoint ${id}`,
        description: "why",
        ...body,
        checkpoint_type: "Automatic",
        created_at: T + at,
      },
      ...{ size_bytes: 1, checksum },
      ...more,
    },
  };
};
