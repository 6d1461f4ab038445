/** `holdfast mcp`: the tools, and what is stored, for MCP clients. */
import { randomBytes } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { HoldfastError, missingPackage, quote } from "../../../core/values/errors.js";
import type { Holdfast } from "../../../index.js";
import { open, redactions } from "../../../index.js";
import { isReadOnly, refuseMissing, unreadable } from "../../framework/store.js";
import type { ToolsOptions } from "../../framework/types.js";
import { endCleanly, Stopping } from "../../terminal/stopping.js";
import { block } from "../../terminal/text.js";

const HEARD_MS = 1_000;

export interface McpOptions {
  readonly store: string | undefined;
  readonly http: string | undefined;
  readonly tokens: string | undefined;
  readonly tenant: string | undefined;
  readonly redact: boolean;
  readonly agent: string | undefined;
  readonly readOnly: boolean;
  readonly version: string;
}

/**
 * What there is to tell goes to stderr. Stored texts and what clients send may stand in it: nothing
 * of that is sent to a terminal.
 */
const say = (text: string) => process.stderr.write(`holdfast mcp: ${block(text).join("\n")}\n`);

export async function mcp(o: McpOptions): Promise<void> {
  const port = o.http === undefined ? undefined : portOf(o.http);
  if (o.tokens !== undefined && port === undefined) throw usage("--tokens", "it goes with --http");
  if (o.tokens !== undefined && o.tenant !== undefined)
    throw usage("--tenant", "the file with the tokens says which tenant each opens");
  // Whoever is only to look does not make a store by mistyping its name.
  if (o.readOnly) refuseMissing(o.store);
  if (isReadOnly(o.store)) endCleanly();
  const tools: ToolsOptions = {
    readOnly: o.readOnly,
    ...(o.agent !== undefined && { agent: o.agent }),
  };
  const failed = (error: unknown) =>
    say(error instanceof Error ? (error.stack ?? error.message) : String(error));
  const stop = new Stopping().signal;
  if (port === undefined) await overStdio(o, tools, failed, stop);
  else await overHttp(o, port, tools, failed, stop);
}

async function overStdio(
  o: McpOptions,
  tools: ToolsOptions,
  failed: (error: unknown) => void,
  stop: AbortSignal,
): Promise<void> {
  const { stdin: input, stdout: output } = process;
  // Only messages go to stdout, whatever else somebody prints: a client would take it for one.
  const write = output.write.bind(output) as (text: string) => boolean;
  output.write = process.stderr.write.bind(process.stderr) as typeof output.write;
  // A client that is gone is no reason to end in the middle of a save.
  output.removeAllListeners("error");
  output.on("error", () => {});
  const loading = loaded(() => import("../../../server/mcp/stdio.js"));
  // Told of where it is waited for, also if the store cannot be opened.
  loading.catch(() => {});
  {
    await using hold = await opened(o, o.tenant);
    const { serveOverStdio } = await loading;
    if (input.isTTY)
      say("waits for a client on stdin. It is started by one: docs/mcp.md says how.");
    await serveOverStdio({
      hold,
      version: o.version,
      tools,
      failed,
      streams: { input, output, write },
      signal: stop,
    });
  }
  await heard(output);
  process.exit(0);
}

/** A client that listens slowly is waited for; one that has heard nothing for a second is not. */
async function heard(output: NodeJS.WriteStream): Promise<void> {
  let left = output.writableLength;
  for (
    let since = performance.now();
    left > 0 && performance.now() - since < HEARD_MS;
    await sleep(20)
  ) {
    if (output.writableLength < left) since = performance.now();
    left = output.writableLength;
  }
}

async function overHttp(
  o: McpOptions,
  port: number,
  tools: ToolsOptions,
  failed: (error: unknown) => void,
  stop: AbortSignal,
): Promise<void> {
  const [{ serveOverHttp }, { Tokens, tokensIn }] = await Promise.all([
    loaded(() => import("../../../server/mcp/http.js")),
    import("../../../server/mcp/tokens.js"),
  ]);
  const given = process.env["HOLDFAST_TOKEN"] || undefined;
  const token = given ?? randomBytes(24).toString("base64url");
  const tokens =
    o.tokens === undefined
      ? new Tokens().add(token, o.tenant, "HOLDFAST_TOKEN")
      : tokensIn(secret(o.tokens), o.tokens);
  const holds = new Map<string | undefined, Promise<Holdfast>>();
  const holdOf = (tenant: string | undefined): Promise<Holdfast> => {
    const known = holds.get(tenant);
    if (known !== undefined) return known;
    const opening = opened(o, tenant);
    holds.set(tenant, opening);
    // The next request tries again.
    opening.catch(() => holds.delete(tenant));
    return opening;
  };
  // A store that cannot be opened is told of now, and not to the first client.
  (await holdOf(tokens.tenants[0])).tools(tools);
  if (o.tokens !== undefined && given !== undefined)
    say("HOLDFAST_TOKEN is not used: --tokens names those that are.");
  const server = await serveOverHttp({ port, tokens, holdOf, version: o.version, tools, failed });
  const isOwn = o.tokens === undefined && given === undefined;
  const made = isOwn
    ? `\n  Authorization: Bearer ${token}\n  (made for this run; HOLDFAST_TOKEN sets one that stays)`
    : "";
  say(`listening on ${server.url}${made}`);
  await new Promise<void>((resolve) => {
    stop.addEventListener("abort", () => resolve(), { once: true });
    if (stop.aborted) resolve();
  });
  await server.close();
  for (const hold of holds.values()) await (await hold.catch(() => undefined))?.close();
}

const opened = ({ store, redact }: McpOptions, tenant: string | undefined): Promise<Holdfast> =>
  open(store, { ...(tenant !== undefined && { tenant }), ...(redact && { redact: redactions() }) });

async function loaded<T>(load: () => Promise<T>): Promise<T> {
  try {
    return await load();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code !== "ERR_MODULE_NOT_FOUND" || !message.includes("@modelcontextprotocol/server"))
      throw cause;
    throw missingPackage("MCP", "@modelcontextprotocol/server", cause);
  }
}

function secret(path: string): string {
  try {
    if (process.platform !== "win32" && (statSync(path).mode & 0o077) !== 0)
      say(`${quote(path)} can be read by others than its owner. Make it yours alone: chmod 600`);
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw unreadable(path, cause);
  }
}

function portOf(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 65_535))
    throw usage("--http", "it takes a port, from 0 to 65535; 0 takes one that is free");
  return port;
}

const usage = (path: string, why: string) =>
  new HoldfastError("INVALID_OPTION", `${path}: ${why}.`, { path });
