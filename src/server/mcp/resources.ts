/**
 * Sessions and checkpoints as resources: to be read, and never to be found by what was said in
 * them. A list names ids and times, and no titles: those are what somebody wrote.
 */
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type Server,
} from "@modelcontextprotocol/server";
import { HoldfastError } from "../../core/values/errors.js";
import type { JsonObject } from "../../core/values/json.js";
import { unlessDamaged } from "../../engine/records/tolerate-damage.js";
import type { StoreTool } from "../../tools/tools.js";
import { type Served, told } from "./served.js";

const JSON_TYPE = "application/json";
const PAGE = 50;
const MAX_URI = 2_000;
const IN_PAGES =
  "As JSON, a page at a time: where there is more, `next` is the cursor of the next page.";

const TEMPLATES = [
  {
    name: "session",
    title: "A session",
    uriTemplate: "holdfast://sessions/{id}{?cursor}",
    description: `A conversation as it is now: how it stands, and what was said in it. ${IN_PAGES}`,
    mimeType: JSON_TYPE,
  },
  {
    name: "checkpoint",
    title: "A checkpoint of a session",
    uriTemplate: "holdfast://checkpoints/{id}{?cursor}",
    description: `A conversation as it was at a checkpoint. ${IN_PAGES}`,
    mimeType: JSON_TYPE,
  },
];

export function serveResources(
  server: Pick<Server, "setRequestHandler">,
  { hold, tools: { agent }, began, failed }: Served,
): void {
  // By it, what may not be seen is not there.
  const only = ["conversation_load", "conversation_list"] as const;
  const { conversation_load: load, conversation_list: list } = hold.tools({
    only,
    ...(agent !== undefined && { agent }),
  });

  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: TEMPLATES }));

  server.setRequestHandler("resources/list", ({ params }) =>
    tracked(async () => {
      const cursor = params?.cursor;
      const { items, next } = (await (list as StoreTool).execute({
        limit: PAGE,
        ...(cursor !== undefined && { cursor }),
      })) as Listed;
      const resources = items.map(({ id, updatedAt }) => ({
        uri: `holdfast://sessions/${encodeURIComponent(id)}`,
        // As it stands in the address: nobody reads it as a sentence.
        name: encodeURIComponent(id),
        mimeType: JSON_TYPE,
        annotations: { lastModified: updatedAt },
      }));
      return { resources, ...(next !== undefined && { nextCursor: next }) };
    }),
  );

  server.setRequestHandler("resources/read", ({ params: { uri } }) =>
    tracked(async () => {
      if (uri.length > MAX_URI)
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `An address has ${MAX_URI} characters at most.`,
        );
      const wanted = parsed(uri);
      if (wanted === undefined) throw new ResourceNotFoundError(uri);
      try {
        const found = await read(wanted);
        if (found === undefined) throw new ResourceNotFoundError(uri);
        return { contents: [{ uri, mimeType: JSON_TYPE, text: JSON.stringify(found) }] };
      } catch (error) {
        if (
          error instanceof HoldfastError &&
          (error.code === "NOT_FOUND" || error.code === "INVALID_ID")
        )
          throw new ResourceNotFoundError(uri);
        throw error;
      }
    }),
  );

  async function read({ kind, id, cursor }: Wanted): Promise<JsonObject | undefined> {
    const page = cursor === undefined ? {} : { cursor };
    if (kind === "sessions") return load?.execute({ id, ...page });
    // For one agent what is damaged is not there: it may be another's.
    const find = () => hold.checkpoints.get(id);
    const checkpoint = await (agent === undefined ? find() : unlessDamaged(find));
    return checkpoint && load?.execute({ id: checkpoint.sessionId, at: id, ...page });
  }

  async function tracked<R>(ask: () => Promise<R>): Promise<R> {
    const asked = ask().catch((error: unknown) => {
      if (error instanceof ProtocolError) throw error;
      const isAsked = error instanceof HoldfastError && error.code === "INVALID_OPTION";
      throw new ProtocolError(
        isAsked ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError,
        told(error, failed),
      );
    });
    began(asked);
    return asked;
  }
}

interface Listed {
  readonly items: readonly { readonly id: string; readonly updatedAt: string }[];
  readonly next?: string;
}

interface Wanted {
  readonly kind: "sessions" | "checkpoints";
  readonly id: string;
  readonly cursor: string | undefined;
}

function parsed(uri: string): Wanted | undefined {
  const found = /^holdfast:\/\/(sessions|checkpoints)\/([^/?#]+)(?:\?cursor=([^&#]+))?$/.exec(uri);
  if (found === null) return undefined;
  try {
    const [, kind, id = "", cursor] = found;
    return {
      kind: kind as Wanted["kind"],
      id: decodeURIComponent(id),
      cursor: cursor === undefined ? undefined : decodeURIComponent(cursor),
    };
  } catch {
    return undefined;
  }
}
