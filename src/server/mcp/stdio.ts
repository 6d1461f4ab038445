/**
 * MCP over stdin and stdout, for the one client that has started this process. It ends with its
 * client.
 */
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { Running } from "./running.js";
import type { Served } from "./served.js";
import { mcpServer } from "./server.js";
import { type StdioStreams, StdioTransport } from "./stdio-transport.js";

export interface StdioOptions extends Omit<Served, "began"> {
  readonly streams: StdioStreams;
  /** Ends it, as the end of the input does. */
  readonly signal: AbortSignal;
}

/** How long calls that were taken back may still take. */
const GRACE_MS = 5_000;

/** Resolves when the client is gone, or the signal came, and all that had begun is over. */
export async function serveOverStdio({ streams, signal, ...served }: StdioOptions): Promise<void> {
  // Options that are wrong are told of now, and not to the client.
  served.hold.tools(served.tools);
  const running = new Running();
  const transport = new StdioTransport(streams, served.failed);
  const handle = serveStdio(() => mcpServer({ ...served, began: running.began }), {
    transport,
    onerror: served.failed,
  });
  transport.onend = () => void handle.close();
  await new Promise<void>((resolve) => {
    const closed = transport.onclose;
    transport.onclose = () => {
      closed?.();
      resolve();
    };
    signal.addEventListener("abort", transport.end, { once: true });
    if (signal.aborted) transport.end();
  });
  await running.over(GRACE_MS);
}
