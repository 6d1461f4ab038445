/**
 * Runs a desk over sessions until it is killed, or nothing is left to do that nobody else must do
 * first.
 */
import { inboxDocOf, inboxText } from "../../../dist/engine/records/rows.js";
import { say } from "../../support/children/said.mjs";
import { wrapped } from "../agents/agent-broken.mjs";
import { begin, opened, rounds } from "../agents/agent-process.mjs";
import { desk } from "./desk-agents.mjs";
import { TOOLS } from "./desk-script.mjs";

/** Reads letters that deny as if they approved. */
const takesNoForYes = (store) =>
  wrapped(store, {
    inbox: {
      ...store.inbox,
      list: async (session, query) =>
        (await store.inbox.list(session, query)).map(({ text, ...mail }) => {
          const { reason: _reason, ...doc } = inboxDocOf(text, session);
          return {
            ...mail,
            text: doc.kind === "deny" ? inboxText({ ...doc, kind: "approve" }) : text,
          };
        }),
    },
  });

const child = begin(TOOLS);
const { order } = child;
const hold = await opened(child, order.broken === "takes-no-for-yes" ? takesNoForYes : undefined);
const bound = hold.bind(desk(child).desk);
say({ opened: process.pid });

await rounds(child, hold, async (id, { turns }) => {
  try {
    // The broken one takes up what was cancelled.
    const isCancelled =
      order.broken === "goes-on" && (await hold.sessions.get(id))?.status === "cancelled";
    const turn = String(turns[id]);
    const result = isCancelled
      ? await bound.resume(id)
      : await bound.run(id, `${id}: turn ${turn}`, { key: turn, ifBusy: "interrupt" });
    const { status, error, reason } = result;
    return { status, error, reason };
  } catch (error) {
    if (error.code !== "TURN_OPEN") throw error;
    return { status: "open", reason: error.message };
  }
});
