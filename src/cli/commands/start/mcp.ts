import { command, flag, text } from "../../framework/command.js";

export const mcp = command({
  name: "mcp",
  group: "serve",
  says: "the agent tools, and what is stored, for MCP clients, over stdio",
  options: {
    "read-only": flag("only tools that look"),
    agent: text("AGENT", "only what is this agent's own", { completes: "agent" }),
    redact: flag(
      "replace secrets, cards and e-mail addresses before anything is stored, as redactions() does",
    ),
    http: text("PORT", "over HTTP on this machine, instead of stdio; 0 takes a port that is free"),
    tokens: text("FILE", "with --http: tokens and the tenant that each opens", {
      completes: "file",
    }),
  },
  examples: [
    ["holdfast mcp --store agent.db", "as a client's configuration starts it"],
    ["HOLDFAST_TOKEN=… holdfast mcp --http 7331", ""],
  ],
  async run({
    options: { store, tenant, http, tokens, agent, "read-only": readOnly, redact },
    version,
  }) {
    await (await import("./serve-mcp.js")).mcp({
      store,
      tenant,
      http,
      tokens,
      agent,
      readOnly,
      redact,
      version,
    });
    return undefined;
  },
});
