/** A worker in a process of its own, which runs a desk until it is killed. */
import { inboxDocOf, inboxText } from "../../../dist/engine/records/rows.js";
import { say } from "../../support/children/said.mjs";
import { wrapped } from "../agents/agent-broken.mjs";
import { begin, opened } from "../agents/agent-process.mjs";
import { desk } from "../desk/desk-agents.mjs";
import { TOOLS } from "../desk/desk-script.mjs";

const ALL = Number.MAX_SAFE_INTEGER;
const isTurn = (id) => id.startsWith("turn:");

function withoutKey(text, session) {
  const { key: _key, ...doc } = inboxDocOf(text, session);
  return inboxText(doc);
}

const BREAKS = {
  /** Takes turns out of the inbox, and begins none of some of them. */
  "drops-turns": (store) =>
    wrapped(store, {
      inbox: {
        ...store.inbox,
        async list(session, query) {
          const mail = await store.inbox.list(session, query);
          const dropped = mail
            .filter(({ id }) => isTurn(id) && session === "s2")
            .map(({ id }) => id);
          if (dropped.length > 0) await store.apply([{ session, when: {}, drained: dropped }]);
          return mail.filter(({ id }) => !dropped.includes(id));
        },
      },
    }),
  /** Takes turns whose time has not come. */
  "comes-early": (store) =>
    wrapped(store, {
      inbox: {
        ...store.inbox,
        list: async (session, query) =>
          (await store.inbox.list(session, { ...query, dueBy: ALL })).map((mail) =>
            isTurn(mail.id) ? { ...mail, due: 0 } : mail,
          ),
      },
      claims: { claim: (query, grant) => store.claims.claim({ ...query, dueBy: ALL }, grant) },
    }),
  /** Leaves turns in the inbox that were begun, and does not know them by their key. */
  "keeps-turns": (store) =>
    wrapped(store, {
      inbox: {
        ...store.inbox,
        list: async (session, query) =>
          (await store.inbox.list(session, query)).map((mail) =>
            isTurn(mail.id) ? { ...mail, text: withoutKey(mail.text, session) } : mail,
          ),
      },
      apply: (changes, docs) =>
        store.apply(
          changes.map(({ drained = [], ...change }) => ({
            ...change,
            drained: drained.filter((id) => !isTurn(id)),
          })),
          docs,
        ),
    }),
};

const child = begin(TOOLS);
const { order } = child;
const hold = await opened(child, BREAKS[order.broken]);
const agents = desk(child);
// Killed at random, a session may well be unlucky often: none is to be set aside for that.
const worker = hold.worker({
  agents: order.agents.map((name) => hold.bind(agents[name])),
  concurrency: 3,
  pollMs: 50,
  attempts: 1_000,
});
await worker.start();
say({ opened: process.pid });
