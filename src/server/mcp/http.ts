/**
 * MCP over streamable HTTP, on this machine only. Every request is a client of its own, and sees
 * the tenant that its token opens: nothing is kept between two requests that one could have and
 * another not.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { errorTable, HoldfastError } from "../../core/values/errors.js";
import { readExactly, refusalOf } from "./exact.js";
import { InProgress, MAX_BYTES, MAX_REQUESTS, type Share } from "./in-progress.js";
import { Running } from "./running.js";
import { type Served, type Source, told } from "./served.js";
import { mcpServer } from "./server.js";
import type { Tokens } from "./tokens.js";

export interface HttpOptions extends Omit<Served, "began" | "hold"> {
  readonly port: number;
  readonly tokens: Tokens;
  /** What a tenant sees. */
  readonly holdOf: (tenant: string | undefined) => Promise<Source>;
}

export interface HttpServer {
  readonly url: string;
  /** Takes no more requests, and resolves when those that had begun are over. */
  close(): Promise<void>;
}

const PATH = "/mcp";
/**
 * Spelled as clients and browsers spell them, and in no other way. The SDK's own checks take
 * `evil@localhost` for this machine.
 */
const HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;
const ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d{1,5})?$/;
const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** How long calls that had begun, and then their answers, are waited for at the end. */
const GRACE_MS = 4_000;
const HEARD_MS = 1_000;
/** For how long the rest of a body that is not wanted is let come. */
const LINGER_MS = 2_000;

export async function serveOverHttp({
  port,
  tokens,
  holdOf,
  ...served
}: HttpOptions): Promise<HttpServer> {
  const running = new Running();
  const answering = new Running();
  const inProgress = new InProgress();
  const handler = createMcpHandler(
    async ({ authInfo }) => {
      const { tenant, share } = seenBy(authInfo?.extra);
      const began = (call: Promise<unknown>) => {
        running.began(call);
        share.during(call);
      };
      return mcpServer({ ...served, hold: await holdOf(tenant), began });
    },
    { maxRequestBodySize: MAX_BODY_BYTES, onerror: (error) => served.failed(error) },
  );

  async function answer(request: Request): Promise<Response> {
    if (!HOST.test(request.headers.get("host") ?? ""))
      return refusal(403, "This server is for this machine alone: localhost, or 127.0.0.1.");
    const origin = request.headers.get("origin");
    if (origin !== null && !ORIGIN.test(origin))
      return refusal(403, "This server is for this machine alone: not for pages of another.");
    if (new URL(request.url).pathname !== PATH) return refusal(404, `MCP is served at ${PATH}.`);
    const [, token] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
    const known = token === undefined ? undefined : tokens.tenantOf(token);
    if (token === undefined || known === undefined)
      return refusal(401, "Send the token of this server: Authorization: Bearer …", {
        "www-authenticate": 'Bearer realm="holdfast"',
      });
    if (request.headers.has("content-encoding"))
      return refusal(415, "The body is read as it is sent: not compressed.");
    const share = inProgress.begin(token, heard(request.signal));
    if (share === undefined) return tooMuch(`${MAX_REQUESTS} requests`);
    const answered = answerKnown(request, token, known, share);
    share.during(answered);
    return answered;
  }

  async function answerKnown(
    request: Request,
    token: string,
    known: { readonly tenant: string | undefined },
    share: Share,
  ): Promise<Response> {
    try {
      await holdOf(known.tenant);
    } catch (error) {
      const status = error instanceof HoldfastError ? errorTable[error.code].http : 500;
      return refusal(status, told(error, served.failed));
    }
    const read = request.method === "POST" ? await readBody(request, share) : undefined;
    if (read instanceof Response) return read;
    return handler.fetch(request, {
      authInfo: {
        token,
        clientId: known.tenant ?? "",
        scopes: [],
        extra: { tenant: known.tenant, share },
      },
      ...(read !== undefined && { parsedBody: read }),
    });
  }

  const server = createServer(
    { requestTimeout: 60_000, headersTimeout: 20_000, maxHeaderSize: 32 * 1024 },
    (incoming, outgoing) => {
      answering.began(
        respond(incoming, outgoing, answer).catch((error: unknown) => {
          served.failed(error);
          outgoing.destroy();
        }),
      );
    },
  );
  await listening(server, port);
  const { port: bound } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${bound}${PATH}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      await running.over(GRACE_MS);
      await answering.over(HEARD_MS);
      await handler.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function seenBy(extra: Record<string, unknown> | undefined): {
  readonly tenant: string | undefined;
  readonly share: Share;
} {
  // Set by `answerKnown`, for every request: one that comes without it is let see nothing.
  if (extra === undefined || !("tenant" in extra))
    throw new HoldfastError("DENIED", "The request has no tenant.");
  return extra as { tenant: string | undefined; share: Share };
}

/** Resolves when the answer was heard, or the client is gone. */
const heard = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });

function refusal(status: number, message: string, headers: Record<string, string> = {}): Response {
  return Response.json(
    { jsonrpc: "2.0", error: { code: -32_000, message }, id: null },
    { status, headers },
  );
}

/**
 * What a request asks for, read without loss; or why it is refused. The SDK would round numbers.
 */
async function readBody(request: Request, share: Share): Promise<unknown> {
  const said = Number(request.headers.get("content-length"));
  if (said > MAX_BODY_BYTES) return tooLarge();
  if (!/^application\/json\b/i.test(request.headers.get("content-type") ?? ""))
    return refusal(415, "Send JSON: content-type: application/json.");
  // Before it is read: bodies that will not fit beside one another are not begun.
  if (!share.grow(said || 0)) return tooMuch(`bodies of ${MAX_BYTES} bytes`);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of (request.body ?? []) as AsyncIterable<Uint8Array>) {
      bytes += chunk.length;
      if (bytes > MAX_BODY_BYTES) return tooLarge();
      if (!share.grow(bytes)) return tooMuch(`bodies of ${MAX_BYTES} bytes`);
      chunks.push(chunk);
    }
  } catch {
    return refusal(400, "The body cannot be read.");
  }
  const read = readExactly(new TextDecoder().decode(Buffer.concat(chunks)));
  if ("value" in read) return read.value;
  const answers = read.refused.map(refusalOf);
  return Response.json(answers.length === 1 ? answers[0] : answers, {
    status: read.isTooLarge ? 413 : 400,
  });
}

const tooMuch = (most: string): Response =>
  refusal(
    429,
    `This token has ${most} in progress, and may have no more at once. Send it again when some are answered.`,
    {
      "retry-after": "1",
    },
  );

const tooLarge = (): Response =>
  refusal(413, `A body may have ${MAX_BODY_BYTES} bytes. Say it in several calls.`);

async function respond(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: Request) => Promise<Response>,
): Promise<void> {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  // What is not read of it goes on coming: whoever still sends would otherwise not hear the answer.
  const body = incoming.pipe(new PassThrough());
  incoming.once("close", () => body.destroy());
  body.on("error", () => {});
  const request = requestOf(incoming, body, gone.signal);
  const response =
    request === undefined ? refusal(400, "The request cannot be read.") : await answer(request);
  if (!incoming.complete) {
    incoming.unpipe(body).resume();
    setTimeout(() => incoming.complete || incoming.destroy(), LINGER_MS).unref();
  }
  outgoing.setHeader("x-content-type-options", "nosniff");
  outgoing.setHeader("cache-control", "no-store");
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) outgoing.end();
  else await pipeline(Readable.fromWeb(response.body as never), outgoing).catch(() => {});
}

/** Undefined where it is none: a method, an address or a header that cannot be. */
function requestOf(
  incoming: IncomingMessage,
  given: Readable,
  signal: AbortSignal,
): Request | undefined {
  try {
    const { method = "GET", rawHeaders } = incoming;
    const headers = new Headers();
    for (let i = 0; i + 1 < rawHeaders.length; i += 2)
      headers.append(rawHeaders[i] as string, rawHeaders[i + 1] as string);
    // The path as it stands, and no other address.
    if (!incoming.url?.startsWith("/") || incoming.url.startsWith("//")) return undefined;
    const { pathname, search } = new URL(incoming.url, "http://127.0.0.1");
    const body =
      method === "GET" || method === "HEAD"
        ? undefined
        : { body: Readable.toWeb(given), duplex: "half" };
    return new Request(`http://127.0.0.1${pathname}${search}`, {
      method,
      headers,
      signal,
      ...body,
    } as RequestInit);
  } catch {
    return undefined;
  }
}

function listening(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why =
        cause.code === "EADDRINUSE"
          ? `Port ${port} is taken. Choose another; 0 takes one that is free.`
          : cause.message;
      reject(new HoldfastError("UNSUPPORTED", why, { found: port }, cause));
    });
    // This machine only. Whoever is to reach it from another goes through something that encrypts.
    server.listen(port, "127.0.0.1", resolve);
  });
}
