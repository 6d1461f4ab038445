/** Conversations as they are sent to providers, and as they come back from them. */
import type { GivenTranscript } from "../../src/formats/index.js";

const png = "iVBORw0KGgo=";
const pdf = "JVBERi0xLjQ=";
const cache = { cache_control: { type: "ephemeral" } };

const openai: GivenTranscript = {
  format: "openai",
  messages: [
    { role: "developer", content: "You help with orders.", name: "house" },
    { role: "system", content: [{ type: "text", text: "Be brief.", ...cache }] },
    { role: "user", content: "What is in this picture?", name: "ana" },
    {
      role: "user",
      content: [
        { type: "text", text: "Look:" },
        { type: "image_url", image_url: { url: "https://example.org/a.png", detail: "low" } },
        { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } },
        { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } },
        {
          type: "file",
          file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${pdf}` },
        },
        { type: "file", file: { file_id: "file-abc" } },
        { type: "video_url", video_url: { url: "https://example.org/a.mp4" } },
      ],
    },
    {
      role: "assistant",
      content: null,
      refusal: null,
      annotations: [],
      tool_calls: [
        { id: "call_1", type: "function", function: { name: "look", arguments: '{"order":42}' } },
        { id: "call_2", type: "function", function: { name: "look", arguments: '{"order": 43}' } },
        { id: "call_3", type: "custom", custom: { name: "sql", input: "select 1" } },
      ],
    },
    { role: "tool", tool_call_id: "call_1", content: '{"state":"broken"}' },
    { role: "tool", tool_call_id: "call_2", content: [{ type: "text", text: "not found" }] },
    { role: "tool", tool_call_id: "call_3", content: "" },
    {
      role: "assistant",
      tool_calls: [{ id: "call_4", type: "function", function: { name: "wait", arguments: "" } }],
    },
    { role: "tool", tool_call_id: "call_4", content: "waited" },
    { role: "assistant", content: [{ type: "refusal", refusal: "I cannot." }] },
    { role: "assistant", content: null, refusal: "No.", audio: null },
    { role: "assistant", content: "It is broken.", reasoning_content: "hm" },
    { role: "function", name: "old", content: "x" },
    { role: "user", content: "" },
  ],
};

const responses: GivenTranscript = {
  format: "openai-responses",
  messages: [
    { role: "developer", content: "Be brief." },
    { type: "message", role: "user", content: [{ type: "input_text", text: "Look" }] },
    {
      role: "user",
      content: [
        { type: "input_image", image_url: `data:image/png;base64,${png}`, detail: "auto" },
        { type: "input_image", file_id: "file-1", detail: "low" },
        { type: "input_file", file_url: "https://example.org/a.pdf" },
        { type: "input_file", filename: "a.pdf", file_data: `data:application/pdf;base64,${pdf}` },
        { type: "input_file", file_id: "file-2" },
      ],
    },
    { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "gAAAAB" },
    {
      type: "reasoning",
      id: "rs_2",
      summary: [{ type: "summary_text", text: "Think." }],
      status: "completed",
    },
    {
      type: "reasoning",
      id: "rs_3",
      summary: [
        { type: "summary_text", text: "One." },
        { type: "summary_text", text: "Two." },
      ],
      content: [{ type: "reasoning_text", text: "All of it." }],
      encrypted_content: null,
    },
    {
      type: "web_search_call",
      id: "ws_1",
      status: "completed",
      action: { type: "search", query: "kelp" },
    },
    {
      type: "function_call",
      id: "fc_1",
      call_id: "call_1",
      name: "look",
      arguments: '{"order":42}',
      status: "completed",
    },
    { type: "function_call", id: "fc_2", call_id: "call_2", name: "look", arguments: "not json" },
    { type: "custom_tool_call", id: "ct_1", call_id: "call_3", name: "sql", input: "select 1" },
    {
      type: "function_call_output",
      call_id: "call_1",
      output: '{"state":"broken"}',
      id: "fo_1",
      status: "completed",
    },
    {
      type: "function_call_output",
      call_id: "call_2",
      output: [
        { type: "input_text", text: "a picture" },
        { type: "input_image", image_url: "https://example.org/b.png" },
      ],
    },
    { type: "custom_tool_call_output", call_id: "call_3", output: "1" },
    {
      type: "message",
      id: "msg_1",
      role: "assistant",
      status: "completed",
      content: [
        {
          type: "output_text",
          text: "It is broken.",
          annotations: [
            {
              type: "url_citation",
              start_index: 0,
              end_index: 2,
              url: "https://example.org",
              title: "x",
            },
          ],
          logprobs: [],
        },
        { type: "refusal", refusal: "No more." },
      ],
    },
    {
      type: "computer_call",
      id: "cu_1",
      call_id: "call_9",
      action: { type: "click", button: "left", x: 1, y: 2 },
      pending_safety_checks: [],
      status: "completed",
    },
    {
      type: "computer_call_output",
      call_id: "call_9",
      output: { type: "computer_screenshot", image_url: "https://example.org/s.png" },
    },
    { type: "item_reference", id: "msg_0" },
    { type: "hologram_call", id: "hg_1", beams: [1, 2, { deep: true }] },
    { role: "assistant", content: "Anything else?" },
  ],
};

const anthropic: GivenTranscript = {
  format: "anthropic",
  system: [
    { type: "text", text: "You help with orders." },
    { type: "text", text: "A long manual.", ...cache },
  ],
  messages: [
    { role: "user", content: "Hello" },
    { role: "assistant", content: [{ type: "text", text: "Hi.", citations: null }] },
    {
      role: "user",
      content: [
        { type: "image", source: { type: "base64", media_type: "image/png", data: png }, ...cache },
        { type: "image", source: { type: "url", url: "https://example.org/a.png" } },
        { type: "image", source: { type: "file", file_id: "file_1" } },
        {
          type: "document",
          source: { type: "base64", media_type: "application/pdf", data: pdf },
          title: "A",
          citations: { enabled: true },
        },
        {
          type: "document",
          source: { type: "text", media_type: "text/plain", data: "notes" },
          context: "of the shop",
        },
        { type: "document", source: { type: "content", content: [{ type: "text", text: "x" }] } },
        { type: "search_result", source: "s", title: "t", content: [{ type: "text", text: "x" }] },
        { type: "text", text: "Look.", ...cache },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Let me see.", signature: "EqQB" },
        { type: "redacted_thinking", data: "EmwK" },
        {
          type: "text",
          text: "I look.",
          citations: [
            { type: "char_location", cited_text: "x", document_index: 0, start_char_index: 0 },
          ],
        },
        { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "kelp" } },
        {
          type: "web_search_tool_result",
          tool_use_id: "srvtoolu_1",
          content: [
            {
              type: "web_search_result",
              url: "https://example.org",
              title: "t",
              encrypted_content: "abc",
            },
          ],
        },
        { type: "tool_use", id: "toolu_1", name: "look", input: { order: 42 } },
        {
          type: "tool_use",
          id: "toolu_2",
          name: "look",
          input: {},
          caller: { type: "direct" },
          ...cache,
        },
        { type: "tool_use", id: "toolu_3", name: "look", input: {} },
      ],
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "toolu_1",
          content: [
            { type: "text", text: "a picture" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
          ],
        },
        {
          type: "tool_result",
          tool_use_id: "toolu_2",
          content: "no such order",
          is_error: true,
          ...cache,
        },
        { type: "tool_result", tool_use_id: "toolu_3" },
        { type: "text", text: "And now?" },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "tool_use", id: "toolu_4", name: "look", input: { order: 44 } },
        { type: "mcp_tool_use", id: "mcptoolu_1", name: "echo", server_name: "s", input: {} },
        {
          type: "mcp_tool_result",
          tool_use_id: "mcptoolu_1",
          is_error: false,
          content: [{ type: "text", text: "x" }],
        },
        {
          type: "code_execution_tool_result",
          tool_use_id: "x",
          content: { type: "code_execution_tool_result_error", error_code: "unavailable" },
        },
      ],
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "toolu_4",
          content: '{"state":"fine"}',
          is_error: false,
        },
      ],
    },
    { role: "assistant", content: "It is fine." },
    { role: "user", content: [{ type: "container_upload", file_id: "file_2" }] },
    { role: "user", content: [{ type: "hologram", beams: 3 }] },
  ],
};

const aiSdk: GivenTranscript = {
  format: "ai-sdk",
  messages: [
    {
      role: "system",
      content: "Be brief.",
      providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
    },
    { role: "user", content: "Hello" },
    {
      role: "user",
      content: [
        { type: "text", text: "Look:", providerOptions: { openai: { x: 1 } } },
        { type: "image", image: png, mediaType: "image/png" },
        { type: "image", image: "https://example.org/a.png" },
        { type: "file", data: pdf, mediaType: "application/pdf", filename: "a.pdf" },
        { type: "file", data: "https://example.org/a.pdf", mediaType: "application/pdf" },
        { type: "file", data: { type: "data", data: pdf }, mediaType: "application/pdf" },
        {
          type: "file",
          data: { type: "url", url: "https://example.org/b.pdf" },
          mediaType: "application/pdf",
        },
        {
          type: "file",
          data: { type: "reference", reference: { openai: "file-1", anthropic: "file_1" } },
          mediaType: "application/pdf",
        },
        { type: "file", data: { type: "text", text: "notes" }, mediaType: "text/plain" },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "Hm.", providerOptions: { anthropic: { signature: "EqQB" } } },
        { type: "text", text: "I look." },
        { type: "reasoning-file", data: png, mediaType: "image/png" },
        { type: "custom", kind: "openai.compaction", providerOptions: { openai: { id: "c" } } },
        {
          type: "tool-call",
          toolCallId: "c0",
          toolName: "search",
          input: { q: "kelp" },
          providerExecuted: true,
        },
        {
          type: "tool-result",
          toolCallId: "c0",
          toolName: "search",
          output: { type: "json", value: [{ url: "https://example.org" }] },
        },
        {
          type: "tool-call",
          toolCallId: "c1",
          toolName: "look",
          input: { order: 42 },
          providerOptions: { google: { thoughtSignature: "x" } },
        },
        { type: "tool-call", toolCallId: "c2", toolName: "refund", input: { order: 42 } },
        { type: "tool-approval-request", approvalId: "a1", toolCallId: "c2" },
      ],
    },
    {
      role: "tool",
      content: [
        { type: "tool-approval-response", approvalId: "a1", approved: false, reason: "too much" },
      ],
    },
    {
      role: "tool",
      content: [
        {
          type: "tool-result",
          toolCallId: "c1",
          toolName: "look",
          output: {
            type: "content",
            value: [
              { type: "text", text: "a picture" },
              { type: "image-data", data: png, mediaType: "image/png" },
              { type: "file-url", url: "https://example.org/a.pdf" },
              { type: "media", data: png, mediaType: "image/png" },
              { type: "custom", providerOptions: { x: {} } },
            ],
          },
          providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
        },
        {
          type: "tool-result",
          toolCallId: "c2",
          toolName: "refund",
          output: { type: "execution-denied", reason: "too much" },
        },
      ],
      providerOptions: { x: { y: 1 } },
    },
    {
      role: "assistant",
      content: ["c3", "c4", "c5", "c6", "c7"].map((toolCallId) => ({
        type: "tool-call",
        toolCallId,
        toolName: "look",
        input: {},
      })),
    },
    ...[
      { type: "text", value: "fine" },
      { type: "json", value: "a string" },
      { type: "error-text", value: "no such order" },
      { type: "error-json", value: { code: 404 } },
      { type: "execution-denied" },
    ].map((output, i) => ({
      role: "tool",
      content: [{ type: "tool-result", toolCallId: `c${i + 3}`, toolName: "look", output }],
    })),
    { role: "assistant", content: "It is fine." },
  ],
};

const aiSdkUi: GivenTranscript = {
  format: "ai-sdk-ui",
  messages: [
    { id: "s1", role: "system", parts: [{ type: "text", text: "Be brief." }] },
    {
      id: "u1",
      role: "user",
      metadata: { at: 1 },
      parts: [
        { type: "text", text: "Look:" },
        {
          type: "file",
          mediaType: "image/png",
          url: `data:image/png;base64,${png}`,
          filename: "a.png",
        },
        { type: "file", mediaType: "application/pdf", url: "https://example.org/a.pdf" },
        { type: "data-weather", id: "w", data: { degrees: 3 } },
      ],
    },
    {
      id: "a1",
      role: "assistant",
      parts: [
        { type: "step-start" },
        {
          type: "reasoning",
          text: "Hm.",
          state: "done",
          providerMetadata: { anthropic: { signature: "EqQB" } },
        },
        { type: "text", text: "I look.", state: "done" },
        {
          type: "tool-look",
          toolCallId: "c1",
          state: "output-available",
          input: { order: 42 },
          output: { state: "broken" },
        },
        {
          type: "tool-look",
          toolCallId: "c2",
          state: "output-error",
          input: {},
          errorText: "no such order",
          callProviderMetadata: { x: {} },
        },
        {
          type: "dynamic-tool",
          toolName: "refund",
          toolCallId: "c3",
          state: "output-denied",
          input: {},
          approval: { id: "p1", approved: false, reason: "too much" },
        },
        {
          type: "tool-search",
          toolCallId: "c4",
          state: "output-available",
          input: {},
          output: [1],
          providerExecuted: true,
          preliminary: false,
        },
        { type: "source-url", sourceId: "s", url: "https://example.org" },
        { type: "step-start" },
        { type: "text", text: "It is broken." },
      ],
    },
    { id: "u2", role: "user", parts: [{ type: "text", text: "And 43?" }] },
    {
      id: "a2",
      role: "assistant",
      parts: [
        {
          type: "tool-pay",
          toolCallId: "c5",
          state: "approval-requested",
          input: { sum: 5 },
          approval: { id: "p2" },
        },
      ],
    },
  ],
};

export const documents: readonly GivenTranscript[] = [openai, responses, anthropic, aiSdk, aiSdkUi];
