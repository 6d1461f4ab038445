/** MCP over stdin and stdout, for the one client that has started this process. It ends with its client. */

import type { Readable, Writable } from "node:stream";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { specsFor } from "../../tools/tools.js";
import { Lines, MAX_LINE_BYTES } from "./lines.js";
import { Running } from "./running.js";
import type { Served } from "./served.js";
import { mcpServer } from "./server.js";

export interface StdioOptions extends Omit<Served, "began"> {
  readonly input: Readable;
  readonly output: Writable;
  /** Ends it, as the end of the input does. */
  readonly signal: AbortSignal;
}

/** How long calls that are under way may take once the client is gone. */
const GRACE_MS = 10_000;

/** Resolves when the client is gone, or the signal came, and all that had begun is over. */
export async function serveOverStdio({ input, output, signal, ...served }: StdioOptions): Promise<void> {
  specsFor(served.tools);
  const running = new Running();
  const lines = new Lines(({ bytes, id }) => {
    const message = `A line of ${bytes} bytes: a message may have ${MAX_LINE_BYTES}. Say it in several calls.`;
    served.failed(message);
    if (id !== undefined) void transport.send({ jsonrpc: "2.0", id, error: { code: -32_600, message } }).catch(() => {});
  });
  input.on("error", () => lines.end());
  const transport = new StdioServerTransport(input.pipe(lines), output, { maxBufferSize: 2 * MAX_LINE_BYTES });
  const handle = serveStdio(() => mcpServer({ ...served, began: running.began }), { transport, onerror: served.failed });
  await new Promise<void>((resolve) => {
    const closed = transport.onclose;
    transport.onclose = () => {
      closed?.();
      resolve();
    };
    const stop = () => void handle.close().finally(resolve);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
  });
  await running.over(GRACE_MS);
}
