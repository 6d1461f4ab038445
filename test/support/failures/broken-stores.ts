/** Stores broken on purpose, one way each. Each is the memory store with one thing wrong. */

import type { Save } from "../../../src/core/journal/save.js";
import { MemoryStore } from "../../../src/store/memory.js";
import type { Applied, Change } from "../../../src/store/port/changes.js";
import type { SaveQuery } from "../../../src/store/port/queries.js";
import type { SessionRow } from "../../../src/store/port/rows.js";
import { storeClosed } from "../../../src/store/refusals.js";
import { anything } from "../../../src/testing/contract/case.js";
import { begin } from "../../../src/testing/contract/fixture.js";
import type { StoreHarness } from "../../../src/testing/index.js";
import { type Replaced, through, wrapped } from "./wrapped.js";

/** Keeps its contents over close and open, so that it can claim to be durable. */
function harness(
  breakIt: (inner: MemoryStore) => Replaced,
  { forgets = false, mixesTenants = false } = {},
): () => StoreHarness {
  return () => {
    const traits = { durable: true, oneMachine: true, shared: false };
    const tenants = new Map<string, MemoryStore>();
    return {
      traits,
      async open(tenant = "") {
        const key = mixesTenants ? "" : tenant;
        const inner = (forgets ? undefined : tenants.get(key)) ?? new MemoryStore();
        tenants.set(key, inner);
        let closed = false;
        const broken = wrapped(inner, { traits, ...breakIt(inner) });
        return through(broken, (name, call) => {
          if (name === "close") closed = true;
          if (name === "close" || name === "watch") return name === "watch" ? () => {} : done;
          return closed ? Promise.reject(storeClosed()) : call();
        });
      },
    };
  };
}

const withoutConditions = (
  changes: readonly Change[],
  ...names: (keyof Change["when"])[]
): Change[] =>
  changes.map((change) => ({
    ...change,
    when: Object.fromEntries(
      Object.entries(change.when).filter(([name]) => !names.includes(name as keyof Change["when"])),
    ),
  }));

const done: Applied = { ok: true };

export const brokenStores: readonly { readonly does: string; readonly make: () => StoreHarness }[] =
  [
    { does: "forgets everything when it is closed", make: harness(() => ({}), { forgets: true }) },
    { does: "mixes up its tenants", make: harness(() => ({}), { mixesTenants: true }) },
    {
      does: "makes a session of a journal that is only brought in",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map(({ loose, ...change }) =>
              loose ? { ...begin(change.session), branch: loose } : change,
            ),
            docs,
          ),
      })),
    },
    {
      does: "gives lines away that belong to somebody",
      make: harness((inner) => ({
        async apply(changes, docs) {
          const applied = await inner.apply(changes, docs);
          return !applied.ok && applied.why === "branch"
            ? inner.apply(
                changes.map(({ claims: _claims, ...change }) => change),
                docs,
              )
            : applied;
        },
      })),
    },
    {
      does: "knows only the nearest past of a line",
      make: harness((inner) => ({
        async branches(query) {
          const found = await inner.branches(query);
          return query.kind === "past" ? found.slice(0, 2) : found;
        },
      })),
    },
    {
      does: "ignores the epoch",
      make: harness((inner) => ({
        apply: (changes, docs) => inner.apply(withoutConditions(changes, "epoch"), docs),
      })),
    },
    {
      does: "leaves behind the blobs that come with saves in the place of others",
      make: harness((inner) => ({
        reclaim: {
          replace: (branch, replacements, since) =>
            inner.reclaim.replace(
              branch,
              replacements.map(({ blobs: _blobs, ...rest }) => rest),
              since,
            ),
        },
      })),
    },
    {
      does: "takes a save that was rewritten for the one it was",
      make: harness((inner) => ({
        reclaim: {
          async replace(branch, replacements, since) {
            const there = await inner.saves(branch, {
              from: 1,
              to: 2 ** 32 - 1,
              limit: 1_000,
              items: true,
              state: true,
            });
            const as = (was: Save): Save =>
              there.find(({ seq, check }) => seq === was.seq && check === was.check) ?? was;
            return inner.reclaim.replace(
              branch,
              replacements.map((one) => ({ ...one, was: one.was.map(as) })),
              since,
            );
          },
        },
      })),
    },
    {
      does: "keeps the old words of mail",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map(({ reworded: _reworded, ...change }) => change),
            docs,
          ),
      })),
    },
    {
      does: "does not forget what mail said that was taken in",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map(({ forgets: _forgets, ...change }) => change),
            docs,
          ),
      })),
    },
    {
      does: "takes the beginning of an id for a pattern",
      make: harness((inner) => ({
        async sessions(query) {
          if (!("beginning" in query)) return inner.sessions(query);
          const { beginning, limit } = query;
          const fits = (id: string) =>
            id.length >= beginning.length &&
            [...beginning].every((c, i) => c === "_" || c === id[i]);
          return (await inner.sessions({ beginning: "", limit: 1_000 }))
            .filter(({ id }) => fits(id))
            .slice(0, limit);
        },
      })),
    },
    {
      does: "ignores how long a lease runs",
      make: harness((inner) => ({
        apply: (changes, docs) => inner.apply(withoutConditions(changes, "until"), docs),
      })),
    },
    {
      does: "ignores the version of a label",
      make: harness((inner) => ({
        apply: (changes, docs) => inner.apply(withoutConditions(changes, "version"), docs),
      })),
    },
    {
      does: "tears what belongs together",
      make: harness((inner) => ({
        async apply(changes, docs) {
          let last: Applied = done;
          for (const [i, change] of changes.entries()) {
            last = await inner.apply([change]);
            if (!last.ok) return { ...last, change: i };
          }
          const rest = await inner.apply([], docs);
          return rest.ok ? last : { ...rest, change: rest.change + changes.length };
        },
      })),
    },
    {
      does: "answers ok to a save that does not follow the end of its line, and drops it",
      make: harness((inner) => ({
        async apply(changes, docs) {
          const applied = await inner.apply(changes, docs);
          return !applied.ok && applied.why === "tail" ? done : applied;
        },
      })),
    },
    {
      does: "acknowledges every third save without keeping it",
      make: harness((inner) => {
        let count = 0;
        return {
          apply: async (changes, docs) =>
            changes[0]?.saves && ++count % 3 === 0 ? done : inner.apply(changes, docs),
        };
      }),
    },
    {
      does: "refuses a save that is there already",
      make: harness((inner) => ({
        async apply(changes, docs) {
          for (const { saves = [] } of changes) {
            for (const { save } of saves) {
              const [there] = await inner.saves(save.branch, {
                from: save.seq,
                to: save.seq,
                limit: 1,
                items: false,
                state: false,
              });
              if (there?.seq === save.seq) return { ok: false, change: 0, why: "tail" };
            }
          }
          return inner.apply(changes, docs);
        },
      })),
    },
    {
      does: "gives the saves of a range one short",
      make: harness((inner) => ({
        saves: async (branch, query: SaveQuery) => (await inner.saves(branch, query)).slice(0, -1),
      })),
    },
    {
      does: "looks for a session's end on the line it was made with",
      make: harness((inner) => ({
        async session(id, how) {
          const found = await inner.session(id, how);
          const first = (await inner.branches({ kind: "session", session: id })).at(-1);
          return how === "end" ? { ...found, branch: first } : found;
        },
      })),
    },
    {
      does: "compares ids without their case",
      make: harness((inner) => ({ session: (id, how) => inner.session(id.toLowerCase(), how) })),
    },
    {
      does: "lists sessions oldest first",
      make: harness((inner) => ({
        sessions: async (query) =>
          "beginning" in query
            ? inner.sessions(query)
            : (await inner.sessions({ ...query, limit: 10_000 }))
                .toReversed()
                .slice(0, query.limit),
      })),
    },
    {
      does: "forgets the epoch of what was deleted",
      make: harness((inner) => ({
        session: async (id, how) => ({ ...(await inner.session(id, how)), buried: 0 }),
      })),
    },
    {
      does: "lets a fork begin anywhere",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map((change) =>
              change.branch ? { ...change, branch: { ...change.branch, forkPoint: null } } : change,
            ),
            docs,
          ),
      })),
    },
    {
      does: "replaces saves under a new fork",
      make: harness((inner) => ({
        reclaim: {
          replace: (branch, replacements) => inner.reclaim.replace(branch, replacements, anything),
        },
      })),
    },
    {
      does: "replaces what is pinned",
      make: harness((inner) => ({
        reclaim: {
          replace: (branch, replacements, known) =>
            inner.reclaim.replace(branch, replacements, { ...known, doc: anything.doc }),
        },
      })),
    },
    {
      does: "cuts what is pinned",
      make: harness((inner) => ({
        reclaim: {
          async cut(branch, after, limit, dryRun) {
            for (const { id } of await inner.documents.list({ kind: "snap", limit: 100 })) {
              const [pin] = await inner.documents.pins(branch);
              if (pin) await inner.apply([], [{ kind: "snap", id, when: {}, remove: true }]);
            }
            return inner.reclaim.cut(branch, after, limit, dryRun);
          },
        },
      })),
    },
    {
      does: "ignores the version of a document",
      make: harness((inner) => ({
        apply: (changes, docs = []) =>
          inner.apply(
            changes,
            docs.map((doc) => ({ ...doc, when: doc.when.absent ? doc.when : {} })),
          ),
      })),
    },
    {
      does: "applies documents where the sessions were refused",
      make: harness((inner) => ({
        async apply(changes, docs = []) {
          const applied = await inner.apply(changes, docs);
          if (!applied.ok && applied.change < changes.length) await inner.apply([], docs);
          return applied;
        },
      })),
    },
    {
      does: "captures sessions as they were listed, and not as they stand",
      make: harness((inner) => ({
        documents: {
          capture: (query, decide) =>
            inner.documents.capture(query, (sessions) =>
              decide(sessions.map((present) => ({ ...present, end: undefined }))),
            ),
        },
      })),
    },
    {
      does: "lists documents oldest first",
      make: harness((inner) => ({
        documents: {
          list: async (query) =>
            (await inner.documents.list({ ...query, limit: 1_000 }))
              .toReversed()
              .slice(0, query.limit),
        },
      })),
    },
    {
      does: "sweeps blobs that are in use",
      make: harness((inner) => ({
        blob: async (digest) =>
          ((await inner.info("counts")).counts?.checkpoints ?? 0) % 2
            ? inner.blob(digest)
            : undefined,
      })),
    },
    {
      does: "says that all blobs were looked at when some were",
      make: harness((inner) => ({
        reclaim: {
          async sweep(limit, dryRun, after) {
            const { next: _next, ...freed } = await inner.reclaim.sweep(limit, dryRun, after);
            return freed;
          },
        },
      })),
    },
    {
      does: "gives the first page of lines again and again",
      make: harness((inner) => ({
        branches: (query) =>
          inner.branches(
            query.kind === "all" ? { ...query, before: Number.MAX_SAFE_INTEGER } : query,
          ),
      })),
    },
    {
      does: "replaces a save together with what was to stay of it",
      make: harness((inner) => ({
        reclaim: {
          replace: (branch, replacements, since) =>
            inner.reclaim.replace(
              branch,
              replacements.map(({ save, ...rest }) => ({
                ...rest,
                save: { ...save, state: rest.was.length === 1 ? null : save.state },
              })),
              since,
            ),
        },
      })),
    },
    {
      does: "delivers mail twice",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map(({ drained: _drained, ...change }) => change),
            docs,
          ),
      })),
    },
    {
      does: "hands out its own bytes",
      make: harness((inner) => {
        const handed = new Map<string, Uint8Array>();
        return {
          async blob(digest) {
            const bytes = handed.get(digest) ?? (await inner.blob(digest));
            if (bytes) handed.set(digest, bytes);
            return bytes;
          },
        };
      }),
    },
    {
      does: "numbers lines by how many there are",
      make: harness((inner) => ({
        async branches(query) {
          const all = (await inner.branches({ kind: "all" })).toReversed();
          return (await inner.branches(query)).map((found) => ({
            ...found,
            no: all.findIndex(({ id }) => id === found.id) + 1,
          }));
        },
      })),
    },
    {
      does: "hands out mail before it is due",
      make: harness((inner) => ({
        inbox: {
          list: (session, query) =>
            inner.inbox.list(
              session,
              "ids" in query ? query : { ...query, dueBy: Number.MAX_SAFE_INTEGER },
            ),
        },
      })),
    },
    {
      does: "hands out mail that nobody asked for",
      make: harness((inner) => ({
        inbox: {
          list: (session, query) =>
            inner.inbox.list(
              session,
              "ids" in query ? { dueBy: Number.MAX_SAFE_INTEGER, limit: 1_000 } : query,
            ),
        },
      })),
    },
    {
      does: "hands out the mail that is due first instead of the oldest",
      make: harness((inner) => ({
        inbox: {
          list: async (session, query) =>
            "ids" in query
              ? inner.inbox.list(session, query)
              : (await inner.inbox.list(session, { ...query, limit: 1_000 }))
                  .toSorted((a, b) => a.due - b.due)
                  .slice(0, query.limit),
        },
      })),
    },
    {
      does: "forgets when a session is due",
      make: harness((inner) => ({
        apply: (changes, docs) =>
          inner.apply(
            changes.map(({ head, ...change }) =>
              head === undefined ? change : { ...change, head: { ...head, due: null } },
            ),
            docs,
          ),
      })),
    },
    {
      does: "gives sessions to workers before they are due",
      make: harness((inner) => ({
        claims: {
          claim: (query, grant) =>
            inner.claims.claim({ ...query, dueBy: Number.MAX_SAFE_INTEGER }, grant),
        },
      })),
    },
    {
      does: "gives an agent's sessions to another's workers",
      make: harness((inner) => ({
        claims: {
          claim: async (query, grant) => [
            ...(await inner.claims.claim(query, grant)),
            ...(await inner.claims.claim({ ...query, agent: "y" }, grant)),
          ],
        },
      })),
    },
    {
      does: "does not see that mail waits",
      make: harness((inner) => ({
        claims: {
          claim: (query, grant) =>
            inner.claims.claim(query, (row, now) =>
              (row.head.due ?? query.dueBy + 1) > query.dueBy ? undefined : grant(row, now),
            ),
        },
      })),
    },
    {
      does: "gives the latest due first",
      make: harness((inner) => ({
        claims: {
          async claim(query, grant) {
            const due: SessionRow[] = [];
            await inner.claims.claim({ ...query, limit: 1_000 }, (row) => void due.push(row));
            const wanted = due.toReversed().slice(0, query.limit);
            return inner.claims.claim(query, (row, now) =>
              wanted.some(({ id }) => id === row.id) ? grant(row, now) : undefined,
            );
          },
        },
      })),
    },
    {
      does: "gives more sessions than were asked for",
      make: harness((inner) => ({
        claims: {
          claim: (query, grant) => inner.claims.claim({ ...query, limit: query.limit + 1 }, grant),
        },
      })),
    },
    {
      does: "gives a session to everybody who asks",
      make: harness((inner) => ({
        claims: {
          async claim(query, grant) {
            const given: SessionRow[] = [];
            await inner.claims.claim(query, (row, now) => {
              const lease = given.length < query.limit ? grant(row, now) : undefined;
              if (lease) given.push({ ...row, lease });
              return undefined;
            });
            return given;
          },
        },
      })),
    },
    {
      does: "gives sessions that whoever asked has passed over",
      make: harness((inner) => ({
        claims: {
          claim: (query, grant) =>
            inner.claims.claim(query, (row, now) => grant(row, now) ?? row.lease),
        },
      })),
    },
    {
      does: "answers a claim with rows as they were before it",
      make: harness((inner) => ({
        claims: {
          async claim(query, grant) {
            const before = await inner.sessions({ limit: 1_000 });
            return (await inner.claims.claim(query, grant)).map(
              (row) => before.find(({ id }) => id === row.id) ?? row,
            );
          },
        },
      })),
    },
    {
      does: "tells those who claim another clock than its own",
      make: harness((inner) => ({
        claims: {
          claim: (query, grant) => inner.claims.claim(query, (row) => grant(row, Date.now())),
        },
      })),
    },
    {
      does: "begins the same generation every time",
      make: harness(() => ({ copies: { begin: async () => "again" } })),
    },
    {
      does: "forgets which generation it is",
      make: harness(() => ({ copies: { generation: async () => "" } })),
    },
    {
      does: "estimates its counts",
      make: harness((inner) => ({
        async info(how) {
          const { about, counts } = await inner.info(how);
          return counts === undefined ? { about } : { about, counts: { ...counts, messages: 0 } };
        },
      })),
    },
  ];
