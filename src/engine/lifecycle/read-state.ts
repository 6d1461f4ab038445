/** A session as it is, or as it was at one of its checkpoints, verified. Needs no lease. */
import type { StateFold } from "../../core/journal/session-state.js";
import type { Message } from "../../core/messages/message.js";
import type { SessionStatus } from "../../core/sessions/status.js";
import { HoldfastError, quote } from "../../core/values/errors.js";
import { checkpointPlace, type SessionId } from "../../core/values/ids.js";
import type { JsonObject } from "../../core/values/json.js";
import { type Pending, pendingOf } from "../calls/pending.js";
import type { Standpoint } from "../journal/journal.js";
import type { Past } from "../journal/past.js";
import type { StoreContext } from "../journal/store-context.js";
import { noSession, notFound } from "../util/not-found.js";

/** What a session holds at a place. */
export interface StateThere {
  readonly messages: readonly Message[];
  readonly state: JsonObject;
  readonly status: SessionStatus;
  /** Calls that were not over there. */
  readonly effects: readonly Pending[];
}

export async function stateThere(
  ctx: StoreContext,
  session: SessionId,
  { fold, past }: Omit<Look, "present">,
): Promise<StateThere> {
  const { messages, state, status, inFlight } = fold;
  return {
    messages,
    state,
    status,
    effects: await Promise.all(
      inFlight.open.map((effect) => pendingOf(ctx, session, past, effect)),
    ),
  };
}

interface Look {
  readonly present: Standpoint;
  readonly fold: StateFold;
  readonly past: Past;
}

export async function readState(
  { journal, loader }: StoreContext,
  id: SessionId,
  at: unknown,
): Promise<Look> {
  const present = await journal.present(id);
  if (present === undefined) throw noSession(id);
  const own = journal.pastOf(present);
  if (at === undefined)
    return { present, fold: (await loader.tail(present, { sized: false }, own)).fold, past: own };
  const place = checkpointPlace(at);
  const found = place && (await journal.checkpointAt(place));
  if (place === undefined || found === undefined) throw notFound(String(at));
  if (found.session !== id && !(await journal.isOf(id, place, own)))
    throw new HoldfastError(
      "CONFLICT",
      `Checkpoint ${quote(String(at))} is not one of session ${quote(id)}.`,
      {
        sessionId: id,
        checkpointId: String(at),
      },
    );
  const { past } = found;
  return { present, fold: (await loader.at(found, { sized: false }, past)).fold, past };
}
