/** The server as its clients meet it: a process of its own, and the official client. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { Answer, CallTool } from "./every-tool.js";

export const bin = fileURLToPath(new URL("../../../dist/bin/holdfast.js", import.meta.url));
export const TOKEN = "a-token-of-the-tests";

type Era = "2025-11-25" | "2026-07-28";

export interface Connected {
  readonly client: Client;
  /** Ends client and server, and waits for it. Answers what the server has told on stderr. */
  close(this: void): Promise<string>;
  kill(this: void): void;
}

export interface Way {
  readonly name: string;
  readonly era: Era;
  readonly over: "stdio" | "http";
  connect(this: void, store: string, ...args: string[]): Promise<Connected>;
}

export function clientFor(era: Era): Client {
  const mode = era === "2025-11-25" ? ("legacy" as const) : { pin: era };
  return new Client({ name: "tests", version: "1" }, { versionNegotiation: { mode } });
}

async function overStdio(era: Era, store: string, args: readonly string[]): Promise<Connected> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [bin, "mcp", "--store", store, ...args],
    stderr: "pipe",
  });
  let told = "";
  transport.stderr?.on("data", (chunk: Buffer) => {
    told += chunk.toString();
  });
  const client = clientFor(era);
  await client.connect(transport);
  const { pid } = transport;
  return {
    client,
    async close() {
      await client.close();
      return told;
    },
    kill: () => void process.kill(pid as number, "SIGKILL"),
  };
}

export interface HttpProcess {
  readonly url: string;
  readonly child: ChildProcess;
  told(): string;
  stop(): Promise<number | null>;
}

export async function httpProcess(
  store: string,
  args: readonly string[] = [],
  env: Record<string, string> = { HOLDFAST_TOKEN: TOKEN },
): Promise<HttpProcess> {
  const child = spawn(process.execPath, [bin, "mcp", "--http", "0", "--store", store, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  let told = "";
  child.stderr?.on("data", (chunk: Buffer) => {
    told += chunk.toString();
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const url = await new Promise<string>((resolve, reject) => {
    const rows = createInterface({ input: child.stderr as NonNullable<ChildProcess["stderr"]> });
    rows.on("line", (row) => {
      const found = /listening on (\S+)/.exec(row)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once("close", () => reject(new Error(`It did not start: ${told}`)));
  });
  return {
    url,
    child,
    told: () => told,
    stop: () => {
      child.kill("SIGTERM");
      return ended;
    },
  };
}

export function httpTransport(url: string, token = TOKEN): StreamableHTTPClientTransport {
  return new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { authorization: `Bearer ${token}` } },
  });
}

async function overHttp(era: Era, store: string, args: readonly string[]): Promise<Connected> {
  const server = await httpProcess(store, args);
  const client = clientFor(era);
  await client.connect(httpTransport(server.url));
  return {
    client,
    async close() {
      await client.close();
      await server.stop();
      return server.told();
    },
    kill: () => void server.child.kill("SIGKILL"),
  };
}

export const ways: readonly Way[] = (["2025-11-25", "2026-07-28"] as const).flatMap((era) => [
  {
    name: `stdio, ${era}`,
    era,
    over: "stdio" as const,
    connect: (store: string, ...args: string[]) => overStdio(era, store, args),
  },
  {
    name: `HTTP, ${era}`,
    era,
    over: "http" as const,
    connect: (store: string, ...args: string[]) => overHttp(era, store, args),
  },
]);

/** Calls a tool, and has an error of it thrown with what it said. */
export function calling(client: Client): CallTool {
  return async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    const [first] = result.content as readonly { readonly type: string; readonly text?: string }[];
    if (result.isError) throw new Error(first?.text);
    return result.structuredContent as Answer;
  };
}
